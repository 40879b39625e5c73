//! Every example compiles without a warning, runs, and prints what it should; twins in different languages agree.

use crate::common::skip::skipped;
use crate::common::{Compiler, fortran, root, scratch, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Standard output of a program that must succeed and write nothing to standard error.
fn run(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = succeed(command);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(complaints.is_empty(), "{}: {complaints}", program.display());
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

fn c(name: &str) -> PathBuf {
    Compiler::c().build(&[root().join("c_examples").join(name).with_extension("c")])
}

fn cpp(name: &str) -> PathBuf {
    Compiler::cpp().build(&[root().join("c_examples").join(name).with_extension("cpp")])
}

fn f90(name: &str) -> PathBuf {
    fortran::build(&root().join("fortran").join(name).with_extension("f90"))
}

/// The example that `cargo test` has built with the tests. It builds none where a test program is named: what is there may then be too old.
fn rust_example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("the test is in deps");
    let program = profile.join("examples").join(name);
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let built = changed(&program);
    // Cargo's list of all that the example is made from: "program: source source ...".
    let sources = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let is_current = sources.split_whitespace().skip(1).all(|source| changed(Path::new(source)) <= built);
    assert!(
        built.is_some() && is_current,
        "{} is missing or old; `cargo build --example {name}` makes it",
        program.display()
    );
    program
}

fn line<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no line has \"{part}\":\n{text}"))
}

/// The number before a word.
fn number_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default().split_whitespace().next_back();
    before.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no number before \"{word}\" in \"{text}\""))
}

#[test]
fn poisson_is_the_same_in_four_languages() {
    let programs = [c("poisson"), cpp("poisson"), f90("poisson"), rust_example("poisson")];

    let outputs = programs.map(|program| run(&program, &["16"]));

    let solves = outputs.each_ref().map(|output| line(output, "right-hand side 0"));
    assert!(solves[0].contains(" converged"), "{}", solves[0]);
    assert!(number_before(solves[0], " iterations") <= 15, "{}", solves[0]);
    for (solve, output) in solves.iter().zip(&outputs) {
        assert_eq!(*solve, solves[0]);
        assert!(line(output, "operator complexity").contains("grid complexity"));
    }
    assert!(line(&outputs[0], "set-up and solve took").ends_with(" s"));
    let history = outputs[0].lines().skip_while(|line| !line.starts_with("iteration ")).skip(1);
    let iterations = number_before(solves[0], " iterations");
    assert_eq!(history.take_while(|line| !line.is_empty()).count(), iterations + 1);
}

#[test]
fn a_stencil_is_the_same_in_three_languages() {
    let programs = [c("stencil"), cpp("stencil"), f90("stencil")];
    for precision in ["dp", "(sp,hp)"] {
        let outputs = programs.each_ref().map(|program| run(program, &["12", precision]));
        assert!(outputs[0].starts_with("12^3 cells, finest level stencil7: "), "{}", outputs[0]);
        assert!(outputs[0].ends_with("residual below 1e-8: yes\n"), "{}", outputs[0]);
        assert!(number_before(&outputs[0], " iterations") <= 12, "{}", outputs[0]);
        assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
    }
}

/// On a machine without `cuda:0` the program ends with one line that says so.
#[test]
fn poisson_with_device_pointers_runs_or_says_what_is_missing() {
    let host = run(&c("poisson"), &["10"]);
    let program = c("poisson_cuda");
    for device in ["cuda:0", "sim"] {
        let output = Command::new(&program).args(["10", device]).output().expect("the program starts");
        let (printed, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            let (solve, expected) = (line(&printed, "right-hand side 0"), line(&host, "right-hand side 0"));
            assert!(solve.contains(" converged"), "{solve}");
            assert!(
                number_before(solve, " iterations").abs_diff(number_before(expected, " iterations")) <= 1,
                "{solve}, on the host {expected}"
            );
            assert!(line(&printed, "device memory of the context").contains("MiB"));
        } else {
            assert_ne!(device, "sim", "{complaint}");
            skipped("c_examples/poisson_cuda on cuda:0", complaint.trim());
            assert_eq!(output.status.code(), Some(1), "{device}: {complaint}");
            assert_eq!(complaint.lines().count(), 1, "{complaint}");
            let reasons = ["no CUDA driver", "no CUDA-capable device", "there is no CUDA device", "when it was built"];
            assert!(complaint.contains("TERRACE_ERROR_DEVICE"), "{complaint}");
            assert!(reasons.iter().any(|reason| complaint.contains(reason)), "{complaint}");
        }
    }
}

#[test]
fn elasticity_is_the_same_in_c_and_fortran() {
    let outputs = [c("elasticity"), f90("elasticity")].map(|program| run(&program, &["6"]));

    let sinks = outputs.each_ref().map(|output| line(output, "the free end sinks by"));
    assert_eq!(sinks[0], sinks[1]);
    // A slender beam of length 2 would sink by F L^3 / (3 E I) = 32; this one is short, so shear adds some.
    let depth: f64 = sinks[0].split_whitespace().next_back().unwrap().parse().unwrap();
    assert!((32.0..40.0).contains(&depth), "{depth}");
    let solve = line(&outputs[0], "right-hand side 0");
    assert!(number_before(solve, " iterations") <= 50, "{solve}");
    assert!(line(&outputs[0], "bsr3x3").contains("f64"));
}

#[test]
fn time_steps_keep_their_iterations() {
    let programs = [c("time_stepping"), cpp("time_stepping"), f90("time_stepping")];
    let outputs = programs.map(|program| run(&program, &["40", "8"]));

    let without_time = |output: &str| -> Vec<String> {
        output.lines().map(|line| line.split(", update").next().unwrap_or_default().to_string()).collect()
    };
    for output in &outputs[1..] {
        assert_eq!(without_time(output), without_time(&outputs[0]));
    }
    let summary = line(&outputs[0], "iterations: ");
    let first = number_before(summary, " in the first step");
    let most: usize = summary.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(most <= first + 4 && first <= 20, "{summary}");
}

#[test]
fn callbacks_replace_operator_and_preconditioner() {
    for program in [c("callback"), f90("callback")] {
        let output = run(&program, &["32"]);
        let with_amg = number_before(line(&output, "AMG of the five-point matrix"), " iterations");
        let own = number_before(line(&output, "of the caller"), " iterations");
        assert!(with_amg <= 20 && with_amg < own, "{output}");
        let preconditioned = number_before(line(&output, "the preconditioner"), " times");
        assert!(preconditioned >= own, "{output}");
    }
}

#[test]
fn every_mistake_gets_its_sentence() {
    let expected = root().join("c_examples/errors.out");

    let output = run(&c("errors"), &[]);

    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&expected, &output).unwrap();
    }
    let committed = std::fs::read_to_string(&expected).unwrap();
    for (new, old) in output.lines().zip(committed.lines()) {
        assert_eq!(new, old, "c_examples/errors.out differs; run `make bless` if the new sentence is meant");
    }
    assert_eq!(output, committed);
}

#[test]
fn programs_in_the_documentation_run() {
    let folder = scratch("documentation");
    for page in ["README.md", "docs/getting-started.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap_or_default();
        let blocks = text.split("\n```").skip(1).step_by(2);
        for (i, block) in blocks.enumerate() {
            let (language, program) = block.split_once('\n').expect("a block has lines");
            let source = folder.join(format!("{}-{i}", page.replace(['/', '.'], "-")));
            let printed = match language {
                "c" if program.contains("int main") => {
                    let source = source.with_extension("c");
                    std::fs::write(&source, program).unwrap();
                    run(&Compiler::c().build(&[source]), &[])
                }
                "cpp" if program.contains("int main") => {
                    let source = source.with_extension("cpp");
                    std::fs::write(&source, program).unwrap();
                    run(&Compiler::cpp().build(&[source]), &[])
                }
                "fortran" => {
                    let source = source.with_extension("f90");
                    std::fs::write(&source, program).unwrap();
                    run(&fortran::build(&source), &[])
                }
                _ => continue,
            };
            assert!(!printed.is_empty(), "{page}: {program}");
        }
    }
}
