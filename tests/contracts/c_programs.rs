//! C programs against the shared library, one for each rule that only a C program can break. Each must end with 0 and print nothing.
//!
//! The rules of the C ABI and the tests that fail when one is broken:
//!
//! | rule | test |
//! | --- | --- |
//! | every function returns a status; codes, names and sentences come from one table | `header.rs`, `src/capi/library.rs` |
//! | the last error names argument, value and what is accepted | `silent.c`, `src/capi/*.rs` |
//! | every format of matrix input, borrowed arrays are not copied | `src/capi/matrix.rs` |
//! | bad structure and values are found at creation and named with the row; nothing changes on failure | `src/capi/matrix.rs`, `silent.c` |
//! | options are checked when they are set; unknown keys name the nearest | `src/capi/config.rs`, `silent.c` |
//! | precision of each level, as constants and as text | `src/capi/config.rs` |
//! | solve and apply allocate nothing | `allocations/no_allocation.rs` |
//! | memory estimate before, report after | `silent.c` |
//! | panics become a status; the library goes on | `panic.c`, `src/capi/context.rs` |
//! | no output of its own | every program here |
//! | no exit or abort when memory runs out | `no_memory.c`, `failed_allocations/` |
//! | no hang in a child of `fork` | `forked.c` |
//! | no trap of a floating-point exception; the environment comes back | `traps.c`, `src/capi/boundary/float_environment.rs` |
//! | no signal handlers | `the_library_calls_nothing_that_ends_the_process_or_handles_signals` |
//! | the log is a level, a callback and a user pointer | `log.c`, `src/capi/context.rs` |
//! | contexts are independent, a matrix is shared | `stress.c`, `stress.rs` under ThreadSanitizer |
//! | the same on GPUs; streams, and limits of device memory | `gpu.c`, `src/capi/device.rs` |
//! | arrays of a matrix in device memory | `src/capi/device_matrix_tests.rs` |
//! | products, transposes and their arrays, wherever the context works | `operations.c`, `src/capi/operations.rs` |
//! | objects are destroyed in any order | `lifetime.c` |
//! | user pointers last; callbacks may fail | `callbacks.c` |
//! | the header is generated, compiles alone; exports are a list; SONAME | `header.rs`, `exports.rs` |

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn run(name: &str) {
    let folder = common::root().join("tests/c");
    let executable = common::Compiler::c().build(&[folder.join(name).with_extension("c"), folder.join("check.c")]);
    let log = executable.with_extension("log");
    let _ = fs::remove_file(&log);

    let output = Command::new(&executable).env("CHECK_LOG", &log).output().expect("the program starts");

    let failed = fs::read_to_string(&log).unwrap_or_default();
    assert!(output.status.success(), "{name}: {} {failed}", output.status);
    let printed = [output.stdout, output.stderr].concat();
    assert!(printed.is_empty(), "{name} printed: {}", String::from_utf8_lossy(&printed));
}

#[test]
fn panic() {
    run("panic");
}

#[test]
fn silent() {
    run("silent");
}

#[test]
fn lifetime() {
    run("lifetime");
}

#[test]
fn callbacks() {
    run("callbacks");
}

#[test]
fn log() {
    run("log");
}

#[test]
fn stress() {
    run("stress");
}

#[test]
fn gpu() {
    run("gpu");
}

#[test]
fn operations() {
    run("operations");
}

#[test]
fn forked() {
    run("forked");
}

#[test]
fn traps() {
    run("traps");
}

#[test]
fn no_memory() {
    run("no_memory");
}

/// Only what Rust's runtime itself imports may remain: `abort` ends a process whose panic machinery failed.
#[test]
fn the_library_calls_nothing_that_ends_the_process_or_handles_signals() {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--undefined-only", "--format=posix"]).arg(common::library());
    let listing = String::from_utf8_lossy(&common::succeed(nm).stdout).into_owned();
    let imported: BTreeSet<&str> = listing.lines().filter_map(|line| line.split([' ', '@']).next()).collect();
    assert!(imported.contains("malloc"), "the list of imports was not understood: {listing}");
    let forbidden = [
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "kill",
        "raise",
        "signal",
        "sigaction",
        "atexit",
        "printf",
        "puts",
        "fork",
    ];
    for name in forbidden {
        assert!(!imported.contains(name), "the library imports {name}");
    }
}
