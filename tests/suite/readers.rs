//! Readers never panic, whatever they are given, and what they accept comes back the same. `fuzz/` looks for more with the same checks.

use crate::common::readers;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("readers-{name}-{}.mtx", std::process::id()))
}

/// Files of every kind that is accepted; the fuzzer begins with them, too.
const FILES: &[&str] = &[
    include_str!("../../fuzz/seeds/matrix_market/general.mtx"),
    include_str!("../../fuzz/seeds/matrix_market/symmetric.mtx"),
    include_str!("../../fuzz/seeds/matrix_market/skew_symmetric.mtx"),
    include_str!("../../fuzz/seeds/matrix_market/pattern.mtx"),
    include_str!("../../fuzz/seeds/matrix_market/array.mtx"),
    include_str!("../../fuzz/seeds/matrix_market/integer_array.mtx"),
];

const OBJECTS: &[&str] = &[
    include_str!("../../fuzz/seeds/config_json/dotted.json"),
    include_str!("../../fuzz/seeds/config_json/nested.json"),
    include_str!("../../fuzz/seeds/config_json/precisions.json"),
    include_str!("../../fuzz/seeds/config_json/automatic.json"),
    include_str!("../../fuzz/seeds/config_json/empty.json"),
];

/// A change of a text: a place in thousandths of its length, what happens there, and a byte or a length for it.
type Change = (usize, u8, u8);

/// Bytes that mean something to the formats, and others.
const BYTES: &[u8] = b"0123456789-+.eE \n\t%{}[]\":,naif\x00\xff\x1f\x8b\r";

fn changed(text: &str, changes: &[Change]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for &(place, action, value) in changes {
        let at = place * bytes.len() / 1000;
        let until = (at + value as usize % 16).min(bytes.len());
        match action % 5 {
            0 => bytes.insert(at, BYTES[value as usize % BYTES.len()]),
            1 if at < bytes.len() => bytes[at] = BYTES[value as usize % BYTES.len()],
            2 => drop(bytes.drain(at..until)),
            3 => bytes.extend_from_within(at..until),
            _ => bytes.truncate(until),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0..1000_usize, any::<u8>(), any::<u8>()), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        readers::matrix_market(&bytes, &scratch("bytes"));
        readers::json(&bytes);
    }

    #[test]
    fn changed_matrix_market_files(file in prop::sample::select(FILES), changes in changes()) {
        readers::matrix_market(&changed(file, &changes), &scratch("changed"));
    }

    #[test]
    fn changed_configurations(object in prop::sample::select(OBJECTS), changes in changes()) {
        readers::json(&changed(object, &changes));
    }
}

/// Without this the checks above might hold because nothing is accepted.
#[test]
fn the_unchanged_ones_are_accepted() {
    for file in FILES {
        assert!(terrace::io::matrix_market::read(file.as_bytes(), "file").is_ok(), "{file}");
        readers::matrix_market(file.as_bytes(), &scratch("unchanged"));
    }
    for object in OBJECTS {
        terrace::Config::new().load_json(object).unwrap();
        readers::json(object.as_bytes());
    }
}
