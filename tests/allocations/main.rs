//! Tests with an allocator that counts. It sees every thread of the process, so each runs in a process of its own, and
//! these run beside each other.

mod host_memory;
mod no_allocation;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, ExitCode, Stdio};
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

const TESTS: [(&str, fn()); 2] = [
    ("apply_and_solve_allocate_nothing_after_set_up", no_allocation::apply_and_solve_allocate_nothing_after_set_up),
    ("what_is_held_is_reported_and_was_estimated", host_memory::what_is_held_is_reported_and_was_estimated),
];

/// Set to the name of the test in the process that runs it.
const ALONE: &str = "TERRACE_TEST_ALONE";

/// Runs the tests whose names contain one of the arguments, all without an argument. The standard test harness would
/// allocate in its own thread while a test counts.
fn main() -> ExitCode {
    if let Ok(alone) = std::env::var(ALONE) {
        TESTS.iter().filter(|(name, _)| *name == alone).for_each(|(_, test)| test());
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen = TESTS.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(*f)));
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let executable = std::env::current_exe().expect("a test is a file");
    let start = |name: &str| Command::new(&executable).env(ALONE, name).stdout(Stdio::piped()).spawn();
    let running: Vec<_> = chosen.map(|(name, _)| (name, start(name).expect("a test starts"))).collect();
    let mut failed = false;
    for (name, child) in running {
        let output = child.wait_with_output().expect("a test ends");
        println!("test {name} ... {}", if output.status.success() { "ok" } else { "FAILED" });
        if !output.status.success() {
            failed = true;
            println!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
