//! A caller's table of functions as a communicator.

use super::terrace_communicator;
use crate::capi::boundary::{in_callers, null};
use crate::comm::{Communicator, Part, Reduction};
use crate::error::{Result, fail, try_capacity, try_copy, try_reserve};
use crate::sync::lock;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// Requests of messages under way.
struct Requests(Vec<*mut c_void>);

// SAFETY: the functions that made the requests may be called from any thread, one at a time.
unsafe impl Send for Requests {}

/// A table whose functions are there.
pub(super) struct Table {
    functions: terrace_communicator,
    /// Whether the table was made by `duplicate`, and is freed with this.
    own: bool,
    requests: Mutex<Requests>,
    /// Where the bytes of each rank go, in all_gather.
    offsets: Mutex<Vec<usize>>,
}

// SAFETY: the documentation of the table asks for functions that may be called from any thread, one at a time.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Calls a function of the table; its result other than 0 is an error.
macro_rules! ask {
    ($table:expr, $function:ident($($argument:expr),*)) => {{
        let Some(function) = $table.functions.$function else { unreachable!("it was checked") };
        // SAFETY: the arguments are as the documentation of the table says, and live through the call.
        match in_callers(|| unsafe { function($table.functions.user, $($argument),*) }) {
            0 => Ok(()),
            code => fail!(
                Callback,
                "the function {} of the communicator returned {code}; 0 is success",
                stringify!($function)
            ),
        }
    }};
}

impl Table {
    /// A table that stays the caller's.
    ///
    /// # Safety
    /// Its functions are those that its documentation describes.
    pub unsafe fn lent(functions: &terrace_communicator) -> Result<Arc<Table>> {
        Table::checked(*functions, false)
    }

    fn checked(functions: terrace_communicator, own: bool) -> Result<Arc<Table>> {
        let missing = [
            ("rank", functions.rank.is_none()),
            ("size", functions.size.is_none()),
            ("send", functions.send.is_none()),
            ("receive", functions.receive.is_none()),
            ("wait_all", functions.wait_all.is_none()),
            ("all_reduce", functions.all_reduce.is_none()),
            ("all_gather", functions.all_gather.is_none()),
            ("barrier", functions.barrier.is_none()),
            ("duplicate", functions.duplicate.is_none()),
            ("free", functions.free.is_none()),
        ];
        if let Some((name, _)) = missing.iter().find(|(_, is_missing)| *is_missing) {
            return null(&format!("communicator->{name}"));
        }
        let (requests, offsets) = (Mutex::new(Requests(Vec::new())), Mutex::new(Vec::new()));
        Ok(Arc::new(Table { functions, own, requests, offsets }))
    }

    fn number(&self, function: Option<unsafe extern "C" fn(*mut c_void) -> i32>) -> usize {
        let Some(function) = function else { unreachable!("it was checked") };
        // SAFETY: the function gets its own `user`.
        usize::try_from(in_callers(|| unsafe { function(self.functions.user) })).unwrap_or(0)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(free) = self.functions.free.filter(|_| self.own) {
            // SAFETY: the table came from `duplicate`, and is not used again.
            in_callers(|| unsafe { free(self.functions.user) });
        }
    }
}

impl Communicator for Table {
    fn rank(&self) -> usize {
        self.number(self.functions.rank)
    }

    fn size(&self) -> usize {
        self.number(self.functions.size)
    }

    fn exchange(
        &self,
        tag: i32,
        sends: &[Part],
        outgoing: &[u8],
        receives: &[Part],
        incoming: &mut [u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut requests = lock(self.requests.lock());
        let requests = &mut requests.0;
        requests.clear();
        try_reserve(requests, sends.len() + receives.len())?;
        let mut post = || {
            for part in receives {
                let into = incoming[part.begin..][..part.length].as_mut_ptr().cast();
                let mut request = null_mut();
                ask!(self, receive(into, part.length, part.rank as i32, tag, &mut request))?;
                requests.push(request);
            }
            for part in sends {
                let from = outgoing[part.begin..][..part.length].as_ptr().cast();
                let mut request = null_mut();
                ask!(self, send(from, part.length, part.rank as i32, tag, &mut request))?;
                requests.push(request);
            }
            Ok(())
        };
        let posted = post();
        match &posted {
            Ok(()) => meanwhile(),
            // What was posted must end before the buffers do, and ends at once when the communicator is revoked, if it can be.
            Err(_) => self.revoke(),
        }
        match requests.len() {
            0 => posted,
            count => posted.and(ask!(self, wait_all(count as i32, requests.as_mut_ptr()))),
        }
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) -> Result<()> {
        let mut offsets = lock(self.offsets.lock());
        offsets.clear();
        try_reserve(&mut offsets, lengths.len())?;
        let mut total = 0;
        for length in lengths {
            offsets.push(total);
            total += length;
        }
        if lengths.len() != self.size() || total != all.len() || lengths.get(self.rank()) != Some(&own.len()) {
            return fail!(Internal, "{} bytes are gathered to {} in parts of {total}", own.len(), all.len());
        }
        ask!(
            self,
            all_gather(own.as_ptr().cast(), own.len(), all.as_mut_ptr().cast(), lengths.as_ptr(), offsets.as_ptr())
        )
    }

    fn all_reduce(&self, numbers: &mut [i64], reduction: Reduction) -> Result<()> {
        // Few numbers: those of a call.
        let own = try_copy(numbers)?;
        ask!(self, all_reduce(own.as_ptr(), numbers.as_mut_ptr(), own.len() as i32, reduction as i32))
    }

    fn barrier(&self) -> Result<()> {
        ask!(self, barrier())
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        drop(try_capacity::<u8>(size_of::<Table>())?);
        let mut copy = terrace_communicator {
            user: null_mut(),
            rank: None,
            size: None,
            send: None,
            receive: None,
            wait_all: None,
            all_reduce: None,
            all_gather: None,
            barrier: None,
            duplicate: None,
            revoke: None,
            free: None,
            timeout: None,
        };
        ask!(self, duplicate((&raw mut copy).cast()))?;
        Ok(Table::checked(copy, true)?)
    }

    fn revoke(&self) {
        if let Some(revoke) = self.functions.revoke {
            // SAFETY: the function gets its own `user`.
            in_callers(|| unsafe { revoke(self.functions.user) });
        }
    }

    fn set_timeout(&self, seconds: f64) -> Result<()> {
        match self.functions.timeout {
            Some(_) => ask!(self, timeout(seconds)),
            None if seconds == 0.0 => Ok(()),
            None => fail!(Unsupported, "comm.timeout is {seconds}, and the communicator has no function timeout"),
        }
    }
}
