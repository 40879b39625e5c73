//! What the shared library shows to the world: its symbols are exactly those of `include/exports.txt` (`TERRACE_BLESS=1` writes it),
//! each is declared in the header, each is called by a test or an example, and programs record the name `libterrace.so.0`.

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn exported() -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]).arg(common::library());
    let listing = String::from_utf8(common::succeed(nm).stdout).expect("symbols are ASCII");
    listing.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).collect()
}

/// Names in the header that are followed by an argument list, without comments. The name of a callback type ends with a parenthesis.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(common::root().join("include/terrace.h")).expect("the header is there");
    let mut code = String::new();
    for part in header.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, after)| after));
    }
    let calls = code.split('(').filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    calls.filter(|name| name.starts_with("terrace_") && !name.ends_with(')')).map(str::to_string).collect()
}

#[test]
fn the_exported_symbols_are_those_of_the_list() {
    let path = common::root().join("include/exports.txt");
    let exported = exported();

    if std::env::var_os("TERRACE_BLESS").is_some() {
        let text: String = exported.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&path, text).expect("the list can be written");
    }

    let list = fs::read_to_string(&path).unwrap_or_default();
    let listed: Vec<&str> = list.lines().collect();
    assert!(listed.is_sorted(), "include/exports.txt is not sorted");
    assert_eq!(exported, listed.into_iter().map(str::to_string).collect());
    let foreign: Vec<&String> = exported.iter().filter(|name| !name.starts_with("terrace_")).collect();
    assert!(foreign.is_empty(), "only terrace_ symbols may be exported: {foreign:?}");
}

#[test]
fn every_exported_function_is_declared_and_the_reverse() {
    assert_eq!(declared(), exported());
}

#[test]
fn programs_record_the_soname() {
    let mut readelf = Command::new("readelf");
    readelf.arg("--dynamic").arg(common::library());
    let dynamic = String::from_utf8_lossy(&common::succeed(readelf).stdout).into_owned();
    assert!(dynamic.contains("soname: [libterrace.so.0]"), "{dynamic}");
}

#[test]
fn every_declared_function_is_called_by_a_test_or_an_example() {
    let mut text = String::new();
    for folder in ["tests", "c_examples", "fortran"] {
        read_all(&common::root().join(folder), &mut text);
    }
    let uncalled: Vec<String> = declared().into_iter().filter(|name| !text.contains(&format!("{name}("))).collect();
    assert!(uncalled.is_empty(), "not called anywhere: {uncalled:?}");
}

/// The text of all programs in a folder; the Fortran module itself declares everything and calls nothing.
fn read_all(folder: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_dir() {
            read_all(&path, text);
        } else if ["c", "cpp", "f90", "rs"].contains(&extension) && !path.ends_with("fortran/terrace.f90") {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}
