//! What the shared library shows: its symbols are exactly those of the header, and each of them is called by a test program.

use crate::{folder, library, succeed};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names in the headers that are followed by an argument list and are no macros.
pub fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for header in ["amgx_c.h", "amgx_eig_c.h"] {
        let text = fs::read_to_string(folder().join("include").join(header)).expect("the header is there");
        for line in text.lines().filter(|line| line.starts_with("AMGX_RC AMGX_") || line.starts_with("void AMGX_")) {
            let name = line.split_once(' ').and_then(|(_, rest)| rest.split('(').next());
            names.extend(name.map(str::to_string));
        }
    }
    names
}

/// The symbols that a library defines for others, of the kind that an option of nm names.
pub fn defined(library: &Path, kind: &str) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args([kind, "--defined-only", "--format=posix"]).arg(library);
    let listing = String::from_utf8_lossy(&succeed(nm).stdout).into_owned();
    let symbols = listing.lines().filter(|line| line.split(' ').count() > 2).filter_map(|line| line.split(' ').next());
    symbols.map(str::to_string).collect()
}

#[test]
fn the_symbols_are_those_of_the_header() {
    let exported = defined(&library(), "--dynamic");
    assert_eq!(exported, declared());
    assert_eq!(exported.len(), 77);
}

#[test]
fn programs_record_the_name_that_amgx_has() {
    let mut readelf = Command::new("readelf");
    readelf.arg("--dynamic").arg(library());
    let dynamic = String::from_utf8_lossy(&succeed(readelf).stdout).into_owned();
    assert!(dynamic.contains("soname: [libamgxsh.so]"), "{dynamic}");
}

#[test]
fn every_function_is_called_by_a_test_program() {
    let calls = fs::read_to_string(folder().join("tests/c/calls.c")).expect("the program is there");
    let uncalled: Vec<String> = declared().into_iter().filter(|name| !calls.contains(&format!("{name}("))).collect();
    assert!(uncalled.is_empty(), "not called: {uncalled:?}");
}

/// The header by itself, in C++ and in C.
#[test]
fn the_headers_compile_alone() {
    for (compiler, language) in [("cc", ["-std=c99", "-xc"]), ("c++", ["-std=c++17", "-xc++"])] {
        for header in ["amgx_c.h", "amgx_config.h", "amgx_eig_c.h"] {
            let mut command = Command::new(compiler);
            command.args(language).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
            command.arg(folder().join("include").join(header));
            succeed(command);
        }
    }
}
