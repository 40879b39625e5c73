//! `fortran/terrace.f90` is made here from the status table, the C header and the hand-written `fortran/terrace.f90.in`; the test
//! fails when the committed file differs. `TERRACE_BLESS=1` writes it.

use crate::common::{fortran, root, succeed};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use terrace::error::STATUSES;

#[test]
fn the_committed_module_is_the_generated_one() {
    let module = generate();
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(root().join("fortran/terrace.f90"), &module).unwrap();
    }
    assert!(read("fortran/terrace.f90") == module, "fortran/terrace.f90 is out of date; run `make bless`");
}

#[test]
fn the_module_offers_every_function_of_the_header() {
    let module = generate();
    let public: Vec<&str> = module
        .lines()
        .filter_map(|line| line.trim().strip_prefix("public ::"))
        .flat_map(|names| names.split(',').map(str::trim))
        .collect();
    for function in functions(&without_comments(&read("include/terrace.h"))) {
        assert!(public.contains(&function.name.as_str()), "{} is not public in the Fortran module", function.name);
    }
}

#[test]
fn no_line_is_longer_than_fortran_allows() {
    for line in generate().lines() {
        assert!(line.len() <= 132, "{line}");
    }
}

#[test]
fn every_kind_and_rank_reaches_the_library() {
    let program = fortran::build(&root().join("tests/fortran/module.f90"));
    let output = succeed(Command::new(program));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "all is well");
}

/// Without `status`, anything but success is told on standard error and ends the program.
#[test]
fn failures_that_nobody_asks_for_stop_the_program() {
    let program = fortran::build(&root().join("tests/fortran/stop.f90"));
    let well = succeed(Command::new(&program));
    assert_eq!((well.stdout.as_slice(), well.stderr.as_slice()), (&b"all is well\n"[..], &b""[..]));
    for (mistake, sentence) in [
        ("device", "TERRACE_ERROR_DEVICE: device \"nowhere\" is unknown"),
        ("option", "TERRACE_ERROR_UNKNOWN_OPTION: no option is called \"solver.typ\""),
        ("early", "TERRACE_ERROR_NOT_SET_UP: solver is not set up"),
        ("size", "TERRACE_ERROR_SIZE_MISMATCH: b has 2 elements; 3 are needed"),
        ("condition", "TERRACE_NOT_CONVERGED: not converged after 1 iterations"),
        ("key", "TERRACE_ERROR_INVALID_ARGUMENT: key is \"levls\""),
    ] {
        let output = Command::new(&program).arg(mistake).output().expect("the program starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.starts_with(sentence), "{mistake}: {complaint}");
        assert_eq!(output.status.code(), Some(1), "{mistake}: {complaint}");
        assert!(output.stdout.is_empty(), "{mistake} went on");
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn generate() -> String {
    let header = without_comments(&read("include/terrace.h"));
    let template = read("fortran/terrace.f90.in")
        .replace("@CONSTANTS@", &constants(&header))
        .replace("@INTERFACES@", &interfaces(&header));
    format!("! Generated from fortran/terrace.f90.in and include/terrace.h.\n{}", expand(&template))
}

/// Text without C comments, preprocessor conditionals and what only C++ sees.
fn without_comments(header: &str) -> String {
    let mut out = String::new();
    let mut rest = header;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        let end = rest[start..].find("*/").expect("a comment ends");
        rest = &rest[start + end + 2..];
    }
    out.push_str(rest);
    let mut cplusplus = false;
    let mut kept = String::new();
    for line in out.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        if line.starts_with("#ifdef __cplusplus") {
            cplusplus = true;
        } else if line.starts_with("#endif") {
            cplusplus = false;
        } else if !cplusplus && (!line.starts_with('#') || line.starts_with("#define")) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Statuses with their sentences, then the other constants of the header.
fn constants(header: &str) -> String {
    let mut out = String::new();
    for row in STATUSES {
        let _ = writeln!(out, "  ! {}", row.sentence);
        let _ = writeln!(out, "  integer(c_int32_t), parameter, public :: {} = {}", row.name, row.code);
    }
    for line in header.lines().filter(|line| line.starts_with("#define TERRACE_")) {
        let mut words = line.splitn(3, ' ').skip(1);
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let value = value.trim().trim_start_matches('(').trim_end_matches(')');
        if STATUSES.iter().any(|row| row.name == name) {
            continue;
        } else if let Some(text) = value.strip_prefix('"') {
            let text = text.trim_end_matches('"');
            let _ = writeln!(out, "  character(*), parameter, public :: {name} = '{text}'");
        } else {
            let number: i32 = value.parse().unwrap_or_else(|_| panic!("{name} has the value {value}"));
            let _ = writeln!(out, "  integer(c_int32_t), parameter, public :: {name} = {number}");
        }
    }
    out
}

struct Function {
    name: String,
    returns: String,
    /// Type and name.
    arguments: Vec<(String, String)>,
}

fn functions(header: &str) -> Vec<Function> {
    let code: String = header.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for statement in code.split(';').map(str::trim).filter(|s| !s.starts_with("typedef")) {
        let Some((head, tail)) = statement.split_once('(') else { continue };
        let (returns, name) = type_and_name(head);
        let arguments = tail.trim_end().strip_suffix(')').expect("a prototype ends with a bracket");
        let arguments = arguments.split(',').map(type_and_name).collect();
        found.push(Function { name, returns, arguments });
    }
    assert!(!found.is_empty(), "the header has no functions");
    found
}

/// `const char *buf` is `("const char *", "buf")`.
fn type_and_name(text: &str) -> (String, String) {
    let text = text.trim();
    let start = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
    let words: Vec<&str> = text[..start].split_whitespace().collect();
    (words.join(" "), text[start..].to_string())
}

/// The C functions as Fortran sees them, private to the module. Their names begin with c_ and not terrace_.
fn interfaces(header: &str) -> String {
    let integers = integer_types(header);
    let mut out = String::from("  interface\n");
    for function in functions(header) {
        let short = function.name.strip_prefix("terrace_").expect("every function has the prefix");
        let names: Vec<&str> = function.arguments.iter().map(|(_, name)| name.as_str()).collect();
        let mut line = format!("    function c_{short}(");
        for (i, name) in names.iter().enumerate() {
            let piece = format!("{name}{}", if i + 1 < names.len() { ", " } else { ")" });
            if line.lines().last().map_or(0, str::len) + piece.len() > 118 {
                line.push_str("&\n        ");
            }
            line.push_str(&piece);
        }
        let _ = writeln!(out, "{line} &\n        result(outcome) bind(c, name='{}')", function.name);
        let _ = writeln!(out, "      import");
        for (i, (kind, name)) in function.arguments.iter().enumerate() {
            let next = function.arguments.get(i + 1).map(|(_, name)| name.as_str());
            let _ = writeln!(out, "      {}", declaration(&integers, kind, name, next));
        }
        let result = match function.returns.as_str() {
            "const char *" => "type(c_ptr)".to_string(),
            kind => integers.get(kind).unwrap_or_else(|| panic!("{} returns {kind}", function.name)).clone(),
        };
        let _ = writeln!(out, "      {result} :: outcome\n    end function\n");
    }
    out + "  end interface\n"
}

/// Fortran types of C's integer types and of the header's names for them.
fn integer_types(header: &str) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    for (c, fortran) in
        [("int32_t", "c_int32_t"), ("uint32_t", "c_int32_t"), ("int64_t", "c_int64_t"), ("size_t", "c_size_t")]
    {
        types.insert(c.to_string(), format!("integer({fortran})"));
    }
    for line in header.lines().filter_map(|line| line.trim().strip_prefix("typedef ")) {
        let (kind, name) = type_and_name(line.split(';').next().unwrap_or_default());
        if let Some(fortran) = types.get(&kind).cloned() {
            types.insert(name, fortran);
        }
    }
    types
}

fn declaration(integers: &BTreeMap<String, String>, kind: &str, name: &str, next: Option<&str>) -> String {
    if let Some(fortran) = integers.get(kind) {
        return format!("{fortran}, value :: {name}");
    }
    if let Some(fortran) = kind.strip_suffix(" *").and_then(|pointee| integers.get(pointee)) {
        return format!("{fortran}, intent(inout) :: {name}");
    }
    match kind {
        "double" => format!("real(c_double), value :: {name}"),
        "double *" if next == Some("len") => format!("real(c_double), intent(inout) :: {name}(*)"),
        "double *" => format!("real(c_double), intent(inout) :: {name}"),
        "const char *" => format!("character(kind=c_char), intent(in) :: {name}(*)"),
        "char *" => format!("character(kind=c_char), intent(inout) :: {name}(*)"),
        _ if kind.ends_with("_callback") => format!("type(c_funptr), value :: {name}"),
        _ if kind.ends_with("**") => format!("type(c_ptr), intent(inout) :: {name}"),
        _ if kind.ends_with('*') => format!("type(c_ptr), value :: {name}"),
        _ => panic!("no Fortran type for `{kind} {name}`"),
    }
}

/// Lists that the template names in `@each X=LIST@`; the parts of an item are `${X.0}`, `${X.1}` and so on.
fn list(name: &str) -> Vec<Vec<&'static str>> {
    const BORROWS: &str = "    logical, private :: borrows = .false.";
    match name {
        "INT" => vec![vec!["c_int32_t", "TERRACE_I32", "i32"], vec!["c_int64_t", "TERRACE_I64", "i64"]],
        "REAL" => vec![vec!["c_double", "TERRACE_F64", "f64"], vec!["c_float", "TERRACE_F32", "f32"]],
        "HANDLE" => [
            ("context", ""),
            ("matrix", BORROWS),
            ("config", ""),
            ("amg", ""),
            ("fsai", ""),
            ("solver", ""),
            ("report", ""),
        ]
        .map(|(name, extra)| vec![name, extra])
        .to_vec(),
        "TEXT" => [("context", "info"), ("config", "to_json"), ("report", "to_text"), ("report", "to_json")]
            .map(|(handle, what)| vec![handle, what])
            .to_vec(),
        "PRODUCT" => vec![vec!["", "cols", "rows", ".false."], vec!["_transposed", "rows", "cols", ".true."]],
        "CALLBACK" => vec![vec![""], vec!["_f32"]],
        "INVERSE" => vec![vec!["amg"], vec!["fsai"]],
        "REPORTED" => vec![vec!["amg"], vec!["fsai"], vec!["solver"]],
        "REFUSING" => vec![vec!["context"], vec!["amg"], vec!["fsai"], vec!["solver"]],
        _ => panic!("the template asks for the list {name}"),
    }
}

/// Repeats the lines between `@each A=LIST B=LIST@` and `@end@` for every combination. Lines that become empty vanish.
fn expand(template: &str) -> String {
    let mut out = String::new();
    let mut lines = template.lines();
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_prefix("@each ").and_then(|head| head.strip_suffix('@')) else {
            let _ = writeln!(out, "{}", line.trim_end());
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "@end@").collect();
        let mut combinations: Vec<Vec<(String, Vec<&str>)>> = vec![vec![]];
        for binding in head.split(' ') {
            let (variable, name) = binding.split_once('=').expect("X=LIST");
            let longer = |done: &Vec<(String, Vec<&'static str>)>| -> Vec<Vec<(String, Vec<&'static str>)>> {
                list(name).into_iter().map(|item| [done.clone(), vec![(variable.to_string(), item)]].concat()).collect()
            };
            combinations = combinations.iter().flat_map(longer).collect();
        }
        for combination in combinations {
            for line in &block {
                let mut text = line.to_string();
                for (variable, item) in &combination {
                    for (i, part) in item.iter().enumerate() {
                        text = text.replace(&format!("${{{variable}.{i}}}"), part);
                    }
                }
                if line.is_empty() || !text.trim().is_empty() {
                    let _ = writeln!(out, "{}", text.trim_end());
                }
            }
        }
    }
    out
}
