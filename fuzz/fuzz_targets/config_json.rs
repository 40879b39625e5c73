//! Bytes for the reader of configurations.
#![no_main]

#[path = "../../tests/common/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| readers::json(bytes));
