//! The declarations of all kernels, read from the preprocessed sources: in which file each kernel is, and the types of its parameters.

use super::cache::{Cache, Job};
use super::sources::Sources;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A kernel as declared.
pub struct Signature {
    name: String,
    /// Number of its file among those for a GPU; none for the faults of the tests.
    unit: Option<usize>,
    parameters: Vec<String>,
}

/// What `KERNEL` becomes in the preprocessed text; see `portability.h`.
const MARK: &str = "TERRACE_KERNEL_DECLARATION ";

/// All kernels by name.
pub fn find(sources: &Sources, cache: &Cache, compiler: &Path) -> Vec<Signature> {
    let job = |unit| Job {
        unit,
        besides: &[],
        unread: &["hip.h", "sim.h"],
        key: "signatures 1".to_string(),
        ending: "i",
        command: Box::new(move |to: &Path| {
            let mut command = Command::new(compiler);
            command.args(["-E", "-P", "-x", "c++", "-std=c++17", "-DTERRACE_SIGNATURES"]);
            command.arg(sources.folder.join(unit)).arg("-o").arg(to);
            command
        }),
    };
    let jobs: Vec<Job<'_>> = sources.units.iter().map(|unit| job(unit.as_str())).collect();
    let texts = cache.get(sources, &jobs);
    let device_units: Vec<&String> = sources.device_units().collect();
    let mut all = Vec::new();
    for (unit, path) in sources.units.iter().zip(texts) {
        let unit = device_units.iter().position(|other| *other == unit);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        all.extend(text.split(MARK).skip(1).map(|declaration| parse(declaration, unit)));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in all.windows(2) {
        assert!(pair[0].name != pair[1].name, "there are two kernels {}", pair[0].name);
    }
    all
}

/// `name(type name, …) …`.
fn parse(declaration: &str, unit: Option<usize>) -> Signature {
    let (name, rest) = declaration.split_once('(').expect("a kernel has parameters");
    let mut parameters = vec![String::new()];
    let mut depth = 0;
    for c in rest.chars() {
        match c {
            ')' if depth == 0 => break,
            ',' if depth == 0 => {
                parameters.push(String::new());
                continue;
            }
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        parameters.last_mut().expect("there is one").push(c);
    }
    let types = parameters.iter().map(|parameter| {
        let parameter = parameter.trim();
        let end = parameter.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(parameter.len(), |i| i + 1);
        parameter[..end].split_whitespace().collect::<String>()
    });
    Signature { name: name.trim().to_string(), unit, parameters: types.filter(|t| !t.is_empty()).collect() }
}

/// The table of kernels as Rust code. Types are for checks: only the tests have them.
pub fn emit(code: &mut String, signatures: &[Signature]) {
    code.push_str("/// All kernels, in the order of their names.\npub static KERNELS: &[Kernel] = &[\n");
    for Signature { name, unit, parameters } in signatures {
        let unit = unit.map_or(usize::from(u16::MAX), |unit| unit);
        _ = writeln!(
            code,
            "    Kernel {{ name: {name:?}, unit: {unit}, parameters: types!({:?}) }},",
            parameters.join(",")
        );
    }
    code.push_str("];\n");
}
