//! The allocator of the test, which fails one large allocation, and the loop that fails each of a call in turn.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use terrace::capi::{terrace_last_error, terrace_status};
use terrace::error::Status;

/// Smallest allocation that fails. Smaller ones do not grow with the caller's matrix; `docs/architecture.md` lists them.
pub const LARGE: usize = 4096;

struct Failing;

/// Bytes that are allocated.
pub static HELD: AtomicUsize = AtomicUsize::new(0);
/// Large allocations until the one that fails, 0 when none does.
pub static UNTIL: AtomicUsize = AtomicUsize::new(0);
/// Large allocations since the last start of counting.
pub static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Whether this allocation fails.
fn fails(bytes: usize) -> bool {
    if bytes < LARGE {
        return false;
    }
    COUNTED.fetch_add(1, Relaxed);
    UNTIL.fetch_update(Relaxed, Relaxed, |until| until.checked_sub(1)) == Ok(1)
}

// SAFETY: every call goes to the system's allocator, or fails.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && fails(size) {
            return null_mut();
        }
        HELD.fetch_add(size, Relaxed);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Fails each large allocation of `call` in turn, at most about `most` of them. After each failure `call` must succeed, and `check` what it
/// did. At least one failure is seen as `TERRACE_ERROR_OUT_OF_MEMORY`.
pub fn fail_each(
    what: &str,
    most: usize,
    prepare: &mut dyn FnMut(),
    call: &mut dyn FnMut() -> terrace_status,
    check: &mut dyn FnMut(),
) {
    let (count, seen) = count_failures(what, most, prepare, call, check);
    assert!(count == 0 || seen > 0, "{what}: no failure was reported");
}

/// The same for any number of failures. Returns the number of large allocations, and of failures.
pub fn count_failures(
    what: &str,
    most: usize,
    prepare: &mut dyn FnMut(),
    call: &mut dyn FnMut() -> terrace_status,
    check: &mut dyn FnMut(),
) -> (usize, usize) {
    prepare();
    COUNTED.store(0, Relaxed);
    assert_eq!(call(), 0, "{what}");
    let count = COUNTED.load(Relaxed);
    check();
    let deep = std::env::var_os("TERRACE_DEEP").is_some();
    let most = if deep { usize::MAX } else { most.max(1) };
    let mut seen = 0;
    for k in (1..=count).step_by(count.div_ceil(most).max(1)) {
        prepare();
        if deep {
            // Not by `eprintln`, whose text the harness keeps in memory.
            let _ = writeln!(std::io::stderr(), "{what}: allocation {k} of {count}");
        }
        UNTIL.store(k, Relaxed);
        let status = call();
        // With several threads, one of them may have needed fewer allocations than before.
        let failed = UNTIL.swap(0, Relaxed) == 0;
        // What is only faster with more memory may go on without.
        let is_told = status == 0 || failed && status == Status::OutOfMemory.code();
        assert!(is_told, "{what}, allocation {k}: {status}, {}", sentence());
        seen += usize::from(status != 0);
        assert_eq!(call(), 0, "{what}, after the failure of allocation {k}");
        check();
    }
    (count, seen)
}

/// What the last call of this thread said.
fn sentence() -> String {
    let mut text = [0_u8; 1000];
    // SAFETY: a buffer of this length.
    unsafe { terrace_last_error(null(), text.as_mut_ptr().cast(), text.len(), null_mut()) };
    CStr::from_bytes_until_nul(&text).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}
