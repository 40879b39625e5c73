//! `#[test]` for the unit tests of the library.
//!
//! Cargo compiles a library a second time for the tests that stand in it, and half of what a test run of Terrace takes is the
//! compilation of the library. So its unit tests are part of it, with the feature `unit-tests`: this attribute enters each into a list,
//! and `tests/unit.rs` runs the list.

use proc_macro::{TokenStream, TokenTree};

/// Enters a function without arguments into the list of unit tests, under its path.
#[proc_macro_attribute]
pub fn test(_: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens = function.clone().into_iter();
    tokens.find(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn"));
    let Some(TokenTree::Ident(name)) = tokens.next() else {
        return "compile_error!(\"a test is a function\");".parse().expect("it is Rust");
    };
    let entry = format!(
        "::inventory::submit! {{ crate::unit_tests::UnitTest {{ module: module_path!(), name: \"{name}\", function: {name} }} }}"
    );
    function.into_iter().chain(entry.parse::<TokenStream>().expect("it is Rust")).collect()
}
