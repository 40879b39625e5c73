//! Runs the unit tests, which stand in the library beside what they test and are compiled with it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

use libtest_mimic::{Arguments, Failed, Trial};
use terrace::unit_tests;

/// What the threads of tests said when they panicked, by their names. Some tests expect it, so it is only shown where one fails.
static PANICS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Runs a test on a thread of its own, which has its name: what belongs to a thread is new.
fn run(name: String, test: fn()) -> Result<(), Failed> {
    let ended = thread::Builder::new().name(name.clone()).spawn(test)?.join();
    let said = PANICS.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    ended.map_err(|_| Failed::from(said.unwrap_or_default()))
}

fn main() {
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| match thread::current().name() {
        Some(name) if name.contains("::") => {
            let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
            let said = panics.entry(name.to_owned()).or_default();
            *said += &format!("{panic}\n");
        }
        _ => default_hook(panic),
    }));
    let tests = unit_tests::all()
        .map(|test| {
            let path = format!("{}::{}", test.module, test.name);
            let name = path.trim_start_matches("terrace::").to_owned();
            Trial::test(name.clone(), move || run(name, test.function))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}
