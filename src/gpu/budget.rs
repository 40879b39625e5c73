//! Device memory that a context holds: how much, the most so far, and how much it may.

use crate::error::{Result, fail};
use crate::sync::lock;
use std::sync::Mutex;

/// Bytes of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In use now.
    pub used: usize,
    /// The most that was in use at one time.
    pub peak: usize,
    /// What must not be exceeded; `None` is what the device has.
    pub limit: Option<usize>,
}

/// Keeps account of what is allocated.
#[derive(Default)]
pub(super) struct Budget(Mutex<Usage>);

impl Budget {
    pub fn usage(&self) -> Usage {
        *lock(self.0.lock())
    }

    /// The most that is in use counts from here on.
    pub fn forget_peak(&self) {
        let mut usage = lock(self.0.lock());
        usage.peak = usage.used;
    }

    /// An earlier peak counts again.
    pub fn recall_peak(&self, peak: usize) {
        let mut usage = lock(self.0.lock());
        usage.peak = usage.peak.max(peak);
    }

    /// A limit below what is in use only refuses more.
    pub fn set_limit(&self, limit: Option<usize>) {
        lock(self.0.lock()).limit = limit;
    }

    /// Makes an allocation that the limit allows, and counts it.
    pub fn take(&self, bytes: usize, allocate: impl FnOnce() -> Result<u64>) -> Result<u64> {
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

    /// Counts what was given back, and tells whether nothing is in use any more.
    pub fn give_back(&self, bytes: usize) -> bool {
        let mut usage = lock(self.0.lock());
        usage.used -= bytes;
        usage.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn what_would_exceed_the_limit_is_refused_and_not_counted() {
        let budget = Budget::default();
        budget.set_limit(Some(100));
        let take = |bytes: usize| budget.take(bytes, || Ok(256));
        take(60).unwrap();
        let error = take(41).unwrap_err();
        assert_eq!(error.status, Status::OutOfMemory);
        assert!(error.message.contains("41 bytes") && error.message.contains("limit of the context is 100"), "{error}");
        assert!(budget.take(40, || fail!(OutOfMemory, "the device has no more")).is_err());
        assert_eq!(budget.usage().peak, 60);
        take(40).unwrap();
        assert!(!budget.give_back(60) && budget.give_back(40));
        assert_eq!(budget.usage(), Usage { used: 0, peak: 100, limit: Some(100) });
        budget.set_limit(None);
        take(usize::MAX).unwrap();
    }
}
