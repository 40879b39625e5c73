//! Exclusive use of a runtime by one thread at a time.
//!
//! A matrix in device memory may be shared by threads that have contexts of their own. One of them may copy or free it, on the stream of the
//! context that made it, while another thread captures a graph there. What comes to a stream during a capture becomes part of the graph, and a
//! wait ends the capture. So each operation of a runtime has the stream for itself, and a capture has it as long as it lasts.

use super::runtime::Runtime;
use crate::sync::lock;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A lock that the thread which holds it may take again.
#[derive(Default)]
pub(super) struct Turn {
    mutex: Mutex<()>,
    /// The thread that holds it, or 0.
    holder: AtomicUsize,
}

/// A runtime that no other thread uses meanwhile.
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

impl Turn {
    /// The runtime, when no other thread uses it.
    pub fn take<'a>(&'a self, runtime: &'a dyn Runtime) -> Exclusive<'a> {
        let this = this_thread();
        // No other thread stores this number, and this one removes it before it gives the lock up.
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
