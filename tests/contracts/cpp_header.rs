//! `include/terrace.hpp`: it reaches every function of the C interface, documents every member, compiles without a warning in each form,
//! and withstands the programs of `tests/cpp`.

use crate::common::{Compiler, root, succeed};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn header() -> String {
    fs::read_to_string(root().join("include/terrace.hpp")).expect("the header is there")
}

#[test]
fn every_function_of_the_c_interface_is_reached() {
    let header = header();
    let code = header.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let exported = fs::read_to_string(root().join("include/exports.txt")).expect("the list is there");
    let missing: Vec<&str> = exported.lines().filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "terrace.hpp does not use {missing:?}");
}

/// Functions with a status say in their comment, or in that of the overload before them, which function of C they are.
#[test]
fn every_member_that_can_fail_is_documented() {
    let header = header();
    let lines: Vec<&str> = header.lines().collect();
    let mut is_documented = false;
    for (i, line) in lines.iter().enumerate() {
        let text = line.trim();
        if text.is_empty() {
            is_documented = false;
        } else if text.starts_with("///") {
            is_documented = true;
        } else if text.contains("status &result TERRACE_OR_THROW") {
            assert!(is_documented, "include/terrace.hpp:{}: no comment: {text}", i + 1);
        }
    }
}

#[test]
fn it_compiles_alone_and_twice_in_each_form() {
    let program = "#include <terrace.hpp>\n#include <terrace.hpp>\nint main() { return terrace::status().code(); }\n";
    for flags in [&[][..], &["-fno-exceptions"], &["-DTERRACE_NO_EXCEPTIONS"], &["-std=c++20"]] {
        Compiler::cpp().with(flags).compile(program);
    }
}

#[test]
fn it_withstands_wrong_sizes_moves_exceptions_and_any_order() {
    let folder = root().join("tests/cpp");
    let other = Compiler::cpp().with(&["-fno-exceptions"]).object(&folder.join("without_exceptions.cpp"));
    for standard in ["-std=c++17", "-std=c++20"] {
        let program = Compiler::cpp().with(&[standard]).build(&[folder.join("wrapper.cpp"), other.clone()]);
        let output = succeed(Command::new(program));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// What the headers for MFEM and deal.II are made of. Their own programs need these libraries, and are in `make deep-test`.
#[test]
fn matrices_and_numberings_of_clients_are_brought_into_nodes() {
    let output = succeed(Command::new(Compiler::cpp().build(&[root().join("tests/cpp/client.cpp")])));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}
