//! Exclusive use of a runtime by one thread at a time.
//!
//! Threads with contexts of their own may share a matrix in device memory. One of them may copy or free it, on the
//! stream of the context that made it, while another thread captures a graph there. Work that is launched during a
//! capture becomes part of the graph, and a synchronisation ends the capture. So each operation holds this lock, and a
//! capture holds it until it ends.

use super::runtime::Runtime;
use crate::sync::lock;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A lock that the thread which holds it may take again.
#[derive(Default)]
pub(super) struct ReentrantLock {
    mutex: Mutex<()>,
    /// The thread that holds it, or 0.
    holder: AtomicUsize,
}

/// Exclusive access to a runtime.
pub(super) struct Exclusive<'a> {
    runtime: &'a dyn Runtime,
    /// `None` where this thread held the lock already.
    held: Option<(MutexGuard<'a, ()>, &'a AtomicUsize)>,
}

/// A number of this thread that is not 0 and that no other thread has at the same time.
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl ReentrantLock {
    /// Waits until no other thread uses the runtime.
    pub fn acquire<'a>(&'a self, runtime: &'a dyn Runtime) -> Exclusive<'a> {
        let this = this_thread();
        // Only this thread stores this number, and it removes it before it releases the lock.
        if self.holder.load(Ordering::Relaxed) == this {
            return Exclusive { runtime, held: None };
        }
        let guard = lock(self.mutex.lock());
        self.holder.store(this, Ordering::Relaxed);
        Exclusive { runtime, held: Some((guard, &self.holder)) }
    }
}

impl<'a> Deref for Exclusive<'a> {
    type Target = dyn Runtime + 'a;
    fn deref(&self) -> &Self::Target {
        self.runtime
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if let Some((_, holder)) = &self.held {
            holder.store(0, Ordering::Relaxed);
        }
    }
}
