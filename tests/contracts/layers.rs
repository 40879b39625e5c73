//! Dependencies between the modules of the library run one way: every `crate::` path outside of tests leads to a layer below.

use crate::common::root;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The layers, lowest first: what a layer is, and its modules. A module may use what is below it and itself; the modules of one layer do not know each
/// other.
const LAYERS: &[(&str, &[&str])] = &[
    ("huge pages", &["huge_pages"]),
    ("errors, allocation", &["error"]),
    ("number formats and small helpers", &["scalar", "sync", "device_kind", "hash", "edit_distance"]),
    ("ranges of formats, threads, parallel loops, ranks", &["range", "threads", "par", "comm"]),
    ("matrices, graphs, near-null spaces", &["sparse"]),
    ("16-bit storage, files", &["precision", "io"]),
    ("the contract of the backends", &["backend"]),
    ("the backends", &["host", "gpu"]),
    ("values of options; device, threads and log", &["config", "context"]),
    ("the caller's matrix, reports", &["matrix", "report"]),
    ("test matrices, facts about the build", &["gallery", "info"]),
    ("smoothers and Krylov methods over the contract", &["smooth", "krylov"]),
    ("components of set-up by name", &["components"]),
    ("hierarchies and cycles over the contract", &["amg"]),
    ("the options table; operations without a solver", &["options", "presets", "operations", "null_space"]),
    ("preconditioners on the device of a context", &["preconditioner"]),
    ("the solver", &["solver"]),
    ("the C ABI", &["capi"]),
];

/// Modules that are written over the contract and name no backend.
const OVER_THE_CONTRACT: &[&str] = &["smooth", "krylov", "amg"];

/// Files that still use what they must not, with the modules in question. An entry that is no longer needed fails the test.
const EXCEPTIONS: &[(&str, &[&str])] = &[];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// Whether code of one module may use another.
fn may_use(from: &str, to: &str) -> bool {
    let names_backend = OVER_THE_CONTRACT.contains(&from) && ["host", "gpu"].contains(&to);
    from == to || (rank(to) < rank(from) && rank(to).is_some() && !names_backend)
}

/// The code without comments and literals, which become spaces, so that lines stay. The feature of unit tests becomes `test`.
fn code_of(text: &str) -> Vec<char> {
    let mut code: Vec<char> = text.replace("feature = \"unit-tests\"", "test").chars().collect();
    let blank = |code: &mut [char]| code.iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
    let mut i = 0;
    while i < code.len() {
        let rest = &code[i..];
        let follows_word = i > 0 && (code[i - 1].is_alphanumeric() || code[i - 1] == '_');
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => rest.windows(2).position(|w| w == ['*', '/']).map_or(rest.len(), |end| end + 2),
            ['r', '"' | '#', ..] if !follows_word => {
                let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
                if rest.get(1 + hashes) == Some(&'"') {
                    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                    let body = &rest[2 + hashes..];
                    body.windows(end.len()).position(|w| w == end).map_or(rest.len(), |at| at + 2 + hashes + end.len())
                } else {
                    0
                }
            }
            ['"', ..] => {
                let mut end = 1;
                while end < rest.len() && rest[end] != '"' {
                    end += if rest[end] == '\\' { 2 } else { 1 };
                }
                (end + 1).min(rest.len())
            }
            ['\'', '\\', _, tail @ ..] => tail.iter().position(|c| *c == '\'').map_or(0, |at| at + 4),
            ['\'', _, '\'', ..] => 3,
            _ => 0,
        };
        blank(&mut code[i..i + length]);
        i += length.max(1);
    }
    code
}

fn starts_with(code: &[char], text: &str) -> bool {
    code.len() >= text.len() && code.iter().zip(text.chars()).all(|(a, b)| *a == b)
}

/// Where the attribute that begins here ends.
fn end_of_attribute(code: &[char], start: usize) -> usize {
    let mut depth = 0;
    for (k, c) in code[start..].iter().enumerate() {
        depth += i32::from(*c == '[') - i32::from(*c == ']');
        if *c == ']' && depth == 0 {
            return start + k + 1;
        }
    }
    code.len()
}

/// Words that items begin with.
const ITEMS: &[&str] = &[
    "pub",
    "fn",
    "use",
    "mod",
    "impl",
    "struct",
    "enum",
    "trait",
    "const",
    "static",
    "type",
    "unsafe",
    "let",
    "macro_rules",
];

/// Removes the items that are compiled for tests alone, and returns the names of those among them that are modules in files of their own.
fn without_tests(code: &mut [char]) -> Vec<String> {
    let mut files = Vec::new();
    let mut i = 0;
    while i < code.len() {
        if !["#[cfg(test)]", "#[cfg(all(test,"].iter().any(|attribute| starts_with(&code[i..], attribute)) {
            i += 1;
            continue;
        }
        let mut item = end_of_attribute(code, i);
        while let Some(next) = code[item..].iter().position(|c| !c.is_whitespace()) {
            if code[item + next] != '#' {
                item += next;
                break;
            }
            item = end_of_attribute(code, item + next);
        }
        // A field or an argument ends at a comma, a statement or a module in a file at a semicolon, everything else with its braces.
        let first: String = code[item..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
        let is_field = !ITEMS.contains(&first.as_str());
        let (mut depth, mut braced, mut end) = (0, false, item);
        while end < code.len() {
            match code[end] {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            braced |= code[end] == '{' && depth == 1;
            let ends = match code[end] {
                ';' => depth == 0,
                ',' => depth == 0 && is_field,
                '}' => depth < 0 || (depth == 0 && braced),
                _ => false,
            };
            if ends {
                break;
            }
            end += 1;
        }
        let end = end.min(code.len() - 1);
        let text: String = code[item..=end].iter().collect();
        if let (Some(at), true) = (text.find("mod "), text.ends_with(';')) {
            files.push(text[at + 4..text.len() - 1].trim().to_string());
        }
        code[i..=end].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
        i = end + 1;
    }
    files
}

/// The first names of what follows `crate::`: one, or those of a group.
fn first_names(code: &[char]) -> Vec<String> {
    let word = |code: &[char]| -> String { code.iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect() };
    let Some('{') = code.first() else { return vec![word(code)] };
    let (mut depth, mut names, mut begins) = (0, Vec::new(), true);
    for (k, c) in code.iter().enumerate() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            c if depth == 1 && begins && c.is_alphabetic() => {
                names.push(word(&code[k..]));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Lines and modules of all paths from the root of the crate; `depth` is how many `super` lead there.
fn paths(code: &[char], depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    for i in 0..code.len() {
        line += usize::from(code[i] == '\n');
        if i > 0 && (code[i - 1].is_alphanumeric() || "_:".contains(code[i - 1])) {
            continue;
        }
        if starts_with(&code[i..], "crate::") {
            found.extend(first_names(&code[i + 7..]).into_iter().map(|name| (line, name)));
        }
        let mut after = i;
        while starts_with(&code[after..], "super::") {
            after += 7;
        }
        if after - i >= 7 * depth && after > i {
            // In a module inside of the file a `super` leads to the file; its names are those of no other module.
            let names = first_names(&code[after..]).into_iter();
            found.extend(names.filter(|name| rank(name).is_some()).map(|name| (line, name)));
        }
    }
    found
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The folder in which the modules of a file lie.
fn folder_of(file: &str) -> String {
    file.trim_end_matches(".rs").trim_end_matches("/mod").to_string()
}

/// The files in `src/` with their code, without tests, comments and literals.
pub(crate) fn code_outside_of_tests() -> Vec<(String, Vec<char>)> {
    let src = root().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let name = |path: &PathBuf| path.strip_prefix(&src).unwrap().to_string_lossy().replace('\\', "/");
    // The root declares all modules, and lists the unit tests.
    let mut files: Vec<(String, Vec<char>)> = files
        .iter()
        .map(|path| (name(path), code_of(&std::fs::read_to_string(path).unwrap())))
        .filter(|(file, _)| file != "lib.rs" && file != "unit_tests.rs")
        .collect();
    files.sort();
    let mut for_tests = Vec::new();
    for (file, code) in &mut files {
        for_tests.extend(without_tests(code).into_iter().map(|name| format!("{}/{name}", folder_of(file))));
    }
    let is_test = |file: &str| {
        let module = folder_of(file);
        for_tests.iter().any(|test| module == *test || module.starts_with(&format!("{test}/")))
    };
    files.retain(|(file, _)| !is_test(file));
    files
}

/// Every use of a module by a file of another, outside of tests: file, line and module.
fn uses() -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for (file, code) in &code_outside_of_tests() {
        let own = folder_of(file);
        let depth = own.split('/').count();
        let own = own.split('/').next().unwrap();
        assert!(rank(own).is_some(), "src/{file}: the module {own} has no layer in tests/contracts/layers.rs");
        let used = paths(code, depth).into_iter().filter(|(_, module)| module != own);
        found.extend(used.map(|(line, module)| (file.clone(), line, module)));
    }
    found
}

#[test]
fn modules_use_only_what_is_below_them() {
    let mut unneeded: BTreeSet<(&str, &str)> =
        EXCEPTIONS.iter().flat_map(|(file, modules)| modules.iter().map(move |module| (*file, *module))).collect();
    let mut errors = String::new();
    for (file, line, module) in uses() {
        let own = file.split(['/', '.']).next().unwrap();
        if may_use(own, &module) {
            continue;
        }
        let excepted = EXCEPTIONS.iter().find(|(of, modules)| *of == file && modules.contains(&module.as_str()));
        match excepted {
            Some(_) => unneeded.retain(|(of, m)| *of != file || *m != module),
            None => writeln!(errors, "src/{file}:{line}: {own} must not use crate::{module}").unwrap(),
        }
    }
    for (file, module) in unneeded {
        writeln!(errors, "the exception of src/{file} for crate::{module} is no longer needed").unwrap();
    }
    assert!(errors.is_empty(), "\n{errors}\nThe layers are in tests/contracts/layers.rs and docs/architecture.md.");
}

#[test]
fn the_table_of_layers_is_in_the_documentation() {
    let mut table = String::from("| layer | modules |\n| --- | --- |\n");
    for (what, modules) in LAYERS.iter().rev() {
        writeln!(table, "| {what} | `{}` |", modules.join("`, `")).unwrap();
    }
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    assert!(page.contains(&table), "docs/architecture.md lacks the table of layers:\n{table}");
}

#[test]
fn paths_are_found_outside_of_tests_comments_and_literals() {
    let text = r##"
use crate::{amg::{Amg, cycle}, host};
// crate::comment
const A: &str = "crate::text \" crate::text"; const B: &str = r#"crate::raw"#; const C: char = '"';
#[cfg(feature = "unit-tests")]
use crate::of_a_test;
fn f<'a>(x: &'a crate::gpu::Gpu) -> u32 { $crate::capi::call!(x) + other_crate::nothing }
#[cfg(feature = "unit-tests")]
#[rustfmt::skip]
fn g<A, B>() { if true { crate::of_a_test::h() } else { crate::of_a_test::h() } }
#[cfg(all(feature = "unit-tests", terrace_sim))]
mod tests;
mod inner { use super::super::solver; use super::names; }
use crate::config::Config;
"##;
    let mut code = code_of(text);
    assert_eq!(without_tests(&mut code), ["tests"]);
    let found: Vec<String> = paths(&code, 1).iter().map(|(line, module)| format!("{line} {module}")).collect();
    assert_eq!(found, ["2 amg", "2 host", "7 gpu", "7 capi", "13 solver", "14 config"]);
}
