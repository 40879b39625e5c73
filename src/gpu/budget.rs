//! Account of the device memory of a context: current use, peak and limit.

use crate::error::{Result, fail};
use crate::sync::lock;
use std::sync::Mutex;

/// Bytes of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In use now.
    pub used: usize,
    /// Peak use.
    pub peak: usize,
    /// The limit; `None` for no limit but the device.
    pub limit: Option<usize>,
}

/// The account.
#[derive(Default)]
pub(super) struct Budget(Mutex<Usage>);

impl Budget {
    pub fn usage(&self) -> Usage {
        *lock(self.0.lock())
    }

    /// Restarts the measurement of the peak.
    pub fn reset_peak(&self) {
        let mut usage = lock(self.0.lock());
        usage.peak = usage.used;
    }

    /// Raises the peak to an earlier one.
    pub fn restore_peak(&self, peak: usize) {
        let mut usage = lock(self.0.lock());
        usage.peak = usage.peak.max(peak);
    }

    /// With a limit below the current use, only new allocations fail.
    pub fn set_limit(&self, limit: Option<usize>) {
        lock(self.0.lock()).limit = limit;
    }

    /// Allocates within the limit, and counts the bytes.
    pub fn allocate(&self, bytes: usize, allocate: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let mut usage = lock(self.0.lock());
        let Usage { used, limit, .. } = *usage;
        let after = used.saturating_add(bytes);
        if let Some(limit) = limit.filter(|limit| after > *limit) {
            return fail!(
                OutOfMemory,
                "{bytes} bytes of device memory are needed and {used} are in use; the limit of the context is {limit} bytes"
            );
        }
        let address = allocate()?;
        usage.used = after;
        usage.peak = usage.peak.max(after);
        Ok(address)
    }

    /// Counts freed bytes. Returns whether nothing is in use any more.
    pub fn release(&self, bytes: usize) -> bool {
        let mut usage = lock(self.0.lock());
        usage.used -= bytes;
        usage.used == 0
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn an_allocation_above_the_limit_fails_and_is_not_counted() {
        let budget = Budget::default();
        budget.set_limit(Some(100));
        let take = |bytes: usize| budget.allocate(bytes, || Ok(256));
        take(60).unwrap();
        let error = take(41).unwrap_err();
        assert_eq!(error.status, Status::OutOfMemory);
        assert!(error.message.contains("41 bytes") && error.message.contains("limit of the context is 100"), "{error}");
        assert!(budget.allocate(40, || fail!(OutOfMemory, "the device has no more")).is_err());
        assert_eq!(budget.usage().peak, 60);
        take(40).unwrap();
        assert!(!budget.release(60) && budget.release(40));
        assert_eq!(budget.usage(), Usage { used: 0, peak: 100, limit: Some(100) });
        budget.set_limit(None);
        take(usize::MAX).unwrap();
    }
}
