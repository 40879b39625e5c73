//! What must hold for any bytes that a reader is given. `tests/suite/readers.rs` tries it with generated files, the targets in `fuzz/` with what a
//! fuzzer finds.

// A fuzz target uses one of the two.
#![allow(dead_code)]

use std::path::Path;
use terrace::Config;
use terrace::config::describe;
use terrace::io::matrix_market::{Contents, read, write_dense, write_matrix};

/// Whatever is accepted as a Matrix Market file comes back to the bit when it is written to `scratch` and read again.
pub fn matrix_market(bytes: &[u8], scratch: &Path) {
    let Ok(contents) = read(bytes, "bytes") else { return };
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    match &contents {
        Contents::Sparse(a) => write_matrix(scratch, &a.view(), "again").expect("what was read can be written"),
        Contents::Dense(d) => write_dense(scratch, d, "again").expect("what was read can be written"),
    }
    let file = std::fs::File::open(scratch).expect("what was written can be opened");
    match (contents, read(file, "again").expect("what was written can be read")) {
        (Contents::Sparse(a), Contents::Sparse(b)) => {
            assert_eq!((a.rows, a.cols, &a.offsets, &a.columns), (b.rows, b.cols, &b.offsets, &b.columns));
            assert_eq!(bits(&a.values), bits(&b.values));
        }
        (Contents::Dense(a), Contents::Dense(b)) => {
            assert_eq!((a.rows, a.cols, bits(&a.values)), (b.rows, b.cols, bits(&b.values)));
        }
        _ => panic!("a matrix came back as vectors, or the reverse"),
    }
}

/// Whatever is accepted as a configuration comes back the same, and what is refused changes nothing.
pub fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut config = Config::new();
    config.set_int("solver.restart", 7).expect("7 is accepted");
    let before = config.to_json();
    match config.load_json(text) {
        Err(error) => {
            assert!(!error.message.is_empty());
            assert_eq!(config.to_json(), before);
        }
        Ok(()) => {
            let mut again = Config::new();
            again.load_json(&config.to_json()).expect("what was accepted is accepted again");
            assert_eq!(describe(&again), describe(&config));
        }
    }
}
