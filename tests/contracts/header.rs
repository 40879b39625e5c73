//! `include/terrace.h` is generated from `src/capi` and the tables of the library. This test fails when the committed file differs;
//! `TERRACE_BLESS=1 cargo test --test contracts header::` writes it. It must also compile alone, as C and as C++, and included twice.

use crate::common;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use terrace::error::{Class, STATUSES};
use terrace::report::{FACTS, Scope};

/// The files of the C ABI in the order in which a program meets their types.
const SOURCES: &[&str] = &[
    "types",
    "library",
    "context",
    "device",
    "matrix",
    "communicator",
    "distributed",
    "stencil",
    "operations",
    "config",
    "amg",
    "fsai",
    "solver",
    "report",
];

const RULES: &str = "\
terrace.h: the C interface of Terrace, algebraic multigrid. Generated from src/capi; do not edit.

Memory: pointers are to host memory, but where a function says that it takes device memory, too. Handles are made by the library and destroyed by the function that ends in _destroy; objects may
be destroyed in any order. An argument that must not be NULL and is gives TERRACE_ERROR_NULL_ARGUMENT. Any other pointer must be valid
during the call, and aligned as C aligns its type.

Errors: every function returns a terrace_status. terrace_last_error has the sentence of the last call of a context that did not succeed.
When a call fails, nothing that was passed to it has changed, but for the vectors of a solve. The library does not abort, exit, print or
install signal handlers; panics inside become TERRACE_ERROR_INTERNAL.

Processes: in a child of fork the objects of the parent give TERRACE_ERROR_INVALID_ARGUMENT, since threads and devices are not in it; it
makes a context of its own. Matrices on the host may be used there, and everything may be destroyed.

Arithmetic: a program may trap floating-point exceptions, flush small numbers to zero or round in another direction. The library computes
in the default environment and restores the caller's at the end of each call, and during callbacks.

Blocking: every call returns when its work is done, but for vectors in device memory and a stream of the caller's; see
terrace_context_set_stream.

Threads: a context, and the objects made from it, are used by one thread at a time; different contexts are used freely at the same time. A
solver or hierarchy that is in use, as in its own callbacks, gives TERRACE_ERROR_INVALID_ARGUMENT. A matrix may be used through several contexts at the same time, as long as nobody changes it meanwhile.

Text out: functions that give a text take (char *buf, size_t len, size_t *needed). needed, which may be NULL, gets the bytes that the text
takes with its final NUL. At most len bytes are written, always with a final NUL when len is not 0; a text that does not fit is cut, and
the call still succeeds. buf may be NULL when len is 0. Text is UTF-8.
";

fn comment(text: &str) -> String {
    let mut out = String::from("/*\n");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!(" * {line}").trim_end());
    }
    out + " */"
}

fn report_keys() -> String {
    let mut out = String::from("Keys of a report, for terrace_report_get_int, _real and _str:\n");
    for (scope, index) in [
        (Scope::Whole, "index not used"),
        (Scope::Level, "index is the level, 0 the finest"),
        (Scope::RightHandSide, "index is the right-hand side of the last solve"),
    ] {
        let _ = writeln!(out, "\n  {index}:");
        for row in FACTS.iter().filter(|row| row.scope == scope) {
            let _ = writeln!(out, "  {:<30} {}", row.key, row.help);
        }
    }
    out
}

fn versions() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        "/** Version of this header; terrace_version gives that of the loaded library. */\n#define TERRACE_VERSION_STRING \"{version}\"\n"
    );
    for (name, part) in ["MAJOR", "MINOR", "PATCH"].into_iter().zip(version.split('.')) {
        let _ = writeln!(out, "#define TERRACE_VERSION_{name} {part}");
    }
    out
}

fn statuses() -> String {
    let mut out = String::new();
    for row in STATUSES {
        let class = match row.class {
            Class::Success | Class::Condition => "",
            Class::Argument => "argument error: ",
            Class::Matrix => "matrix error: ",
            Class::Numeric => "numeric error: ",
            Class::Resource => "resource error: ",
            Class::Internal => "internal error: ",
        };
        let value = if row.code < 0 { format!("({})", row.code) } else { row.code.to_string() };
        let _ = writeln!(out, "/** {class}{} */\n#define {} {value}\n", row.sentence, row.name);
    }
    out
}

/// Puts the values of macros into parentheses where they are negative, so that they can stand in any expression.
fn parenthesise(header: &str) -> String {
    let mut out = String::with_capacity(header.len());
    for line in header.lines() {
        let negative = line.strip_prefix("#define ").and_then(|rest| rest.split_once(" -"));
        let _ = match negative {
            Some((name, digits)) => writeln!(out, "#define {name} (-{digits})"),
            None => writeln!(out, "{line}"),
        };
    }
    out
}

fn generate() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    let mut builder = cbindgen::Builder::new()
        .with_config(config)
        .with_header(format!("{}\n\n{}", comment(RULES), comment(&report_keys())))
        .with_after_include(format!("\n{}\n{}", versions(), statuses()));
    for source in SOURCES {
        builder = builder.with_src(root.join("src/capi").join(format!("{source}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().expect("the sources of the C ABI are readable").write(&mut bytes);
    parenthesise(&String::from_utf8(bytes).expect("the header is text"))
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/terrace.h");
    let generated = generate();

    if std::env::var_os("TERRACE_BLESS").is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }

    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(generated.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(
        committed == generated,
        "include/terrace.h is out of date, first at line {:?}; TERRACE_BLESS=1 cargo test --test contracts header:: writes it",
        differs.map(|(i, _)| i + 1)
    );
}

#[test]
fn the_header_compiles_alone_and_twice_as_c_and_cpp() {
    let program = "#include <terrace.h>\n#include <terrace.h>\n\
                   int main(void) { int a[TERRACE_ERROR_INTERNAL + 18]; return sizeof a == sizeof(int) ? TERRACE_SUCCESS : 1; }\n";
    common::Compiler::c().check(program);
    common::Compiler::cpp().check(program);
}
