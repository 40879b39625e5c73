//! Bytes for the reader of Matrix Market files.
#![no_main]

#[path = "../../tests/common/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let scratch = std::env::temp_dir().join(format!("terrace-fuzz-{}.mtx", std::process::id()));
    readers::matrix_market(bytes, &scratch);
});
