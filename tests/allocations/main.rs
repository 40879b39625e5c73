//! Tests with an allocator that counts. It sees every thread of the process, so each runs in a process of its own, and
//! these run beside each other.

mod host_memory;
mod no_allocation;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of all allocations.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are held.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count(layout: Layout) {
    ALLOCATED.fetch_add(layout.size(), Relaxed);
    HELD.fetch_add(layout.size(), Relaxed);
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: as required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Set in the process of one test.
const ALONE: &str = "TERRACE_TEST_ALONE";

/// Runs the test of this name in a process of its own.
fn alone(name: &str, test: fn()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().expect("a test is a file"));
    let status =
        command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status().expect("the test starts once more");
    assert!(status.success(), "{name} failed");
}
