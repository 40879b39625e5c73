//! Checks that this machine cannot make. A test that leaves one out adds a line to `skipped.txt` in the target folder, and the last lines of `make test`
//! are those of that file. Unit tests include this file, too.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// What was said.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Whether every case shall run, as in `make deep-test`, and not only as many as show every pair of them.
pub fn is_deep() -> bool {
    std::env::var_os("TERRACE_DEEP").is_some()
}

/// Says once that a check is left out, and why.
pub fn skipped(check: &str, reason: &str) {
    let line = format!("{check}: {reason}\n");
    if !SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
        return;
    }
    print!("skipped: {line}");
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().filter(|folder| folder.ends_with("deps")).and_then(|deps| deps.ancestors().nth(2));
    // A program that was copied elsewhere only prints.
    let Some(folder) = folder else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(folder.join("skipped.txt"));
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("skipped.txt can be written");
}
