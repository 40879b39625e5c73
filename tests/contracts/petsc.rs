//! `include/terrace_petsc.h` and the module for PETSc: the examples of `compat/petsc` solve with `-pc_type terrace`, agree with PETSc's own
//! preconditioners, update, and refuse with sentences. They need PETSc, and are skipped where pkg-config or mpicc does not find it.

use crate::common::skip::skipped;
use crate::common::{Compiler, root, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use terrace::options::OPTIONS;

/// The words that a command prints; none where it cannot be run or fails.
fn words(command: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect())
}

/// Flags for PETSc and MPI, if both are here.
pub fn flags(check: &str) -> Option<Vec<String>> {
    let package = ["PETSc", "petsc"].iter().find(|package| words("pkg-config", &["--exists", package]).is_some());
    // Open MPI's way to ask, and MPICH's.
    let mpi = words("mpicc", &["--showme:compile"]).zip(words("mpicc", &["--showme:link"]));
    let mpi = mpi.map(|(compile, link)| [compile, link].concat()).or_else(|| {
        let shown = [words("mpicc", &["-compile_info"])?, words("mpicc", &["-link_info"])?].concat();
        Some(
            shown
                .into_iter()
                .filter(|word| ["-I", "-L", "-l", "-W"].iter().any(|flag| word.starts_with(flag)))
                .collect(),
        )
    });
    let Some((package, mpi)) = package.zip(mpi) else {
        skipped(check, "pkg-config finds no PETSc, or there is no mpicc (petsc-dev, libopenmpi-dev)");
        return None;
    };
    let petsc = words("pkg-config", &["--cflags", "--libs", package])?;
    // Libraries come before the sources.
    Some([vec!["-Wl,--no-as-needed".to_string()], petsc, mpi].concat())
}

pub fn build(flags: &[String], source: &str) -> PathBuf {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Compiler::c().with(&flags).build(&[root().join("compat/petsc").join(source)])
}

/// The example that several tests run; it is built once.
fn poisson(flags: &[String]) -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build(flags, "examples/ksp_poisson.c")).clone()
}

/// A name of PETSc has underscores for dots, and stands for one key: `PCTerraceKey_Private` tries up to eight places.
#[test]
fn keys_with_underscores_for_dots_are_different() {
    let mut names: Vec<String> = OPTIONS.iter().map(|row| row.key.replace('.', "_")).collect();
    assert!(names.iter().all(|name| name.matches('_').count() <= 8), "{names:?}");
    assert!(names.iter().all(|name| !["device", "preset", "json"].contains(&name.as_str())), "{names:?}");
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// Whether the program succeeded, and what it printed.
pub fn run(program: &Path, arguments: &str) -> (bool, String) {
    let output = Command::new(program).args(arguments.split_whitespace()).output().expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// What a program prints that must succeed.
pub fn solve(program: &Path, arguments: &str) -> String {
    let (success, text) = run(program, arguments);
    assert!(success, "{} {arguments}: {text}", program.display());
    text
}

/// The number before a word of the text.
pub fn iterations(text: &str) -> usize {
    let before = text.split(" iterations").next().and_then(|text| text.split_whitespace().next_back());
    before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no iterations in {text}"))
}

/// The word after another.
pub fn after<'a>(text: &'a str, word: &str) -> &'a str {
    text.split(word)
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("no {word} in {text}"))
}

#[test]
fn poisson_is_solved_with_every_type_of_matrix() {
    let Some(flags) = flags("PETSc: Poisson") else { return };
    let program = poisson(&flags);
    let scalar = solve(&program, "-n 10 -mat_type aij");
    assert!(scalar.starts_with("terrace: ") && iterations(&scalar) <= 9, "{scalar}");
    for mat_type in ["mpiaij", "baij", "sbaij"] {
        let text = solve(&program, &format!("-n 10 -mat_type {mat_type}"));
        assert_eq!(text.lines().next(), scalar.lines().next(), "{mat_type}");
    }
    let plane = solve(&program, "-n 60 -dimension 2");
    assert!(iterations(&plane) <= 12 && after(&plane, "error").parse::<f64>().unwrap() < 1e-7, "{plane}");
    // Without a choice of components a nonsymmetric matrix is smoothed by Gauss-Seidel.
    let wind = solve(&program, "-n 10 -convection 2 -pc_view");
    assert!(iterations(&wind) <= 12 && wind.contains("l1_gauss_seidel"), "{wind}");
}

#[test]
fn transposes_are_applied_on_one_process() {
    let Some(flags) = flags("PETSc: transposes") else { return };
    let program = poisson(&flags);
    let fsai = "-pc_terrace_solver_preconditioner fsai";
    for arguments in ["", "-convection 2", &format!("-convection 2 {fsai}")] {
        let plain = solve(&program, &format!("-n 10 {arguments}"));
        let text = solve(&program, &format!("-n 10 {arguments} -transpose"));
        assert!(iterations(&text) <= iterations(&plain) + 3, "{arguments}: {plain}{text}");
        assert!(after(&text, "error").parse::<f64>().unwrap() < 1e-6, "{arguments}: {text}");
    }
    // BiCG needs the adjoint of the preconditioner: FSAI has it, and AMG of a symmetric matrix is its own.
    for arguments in ["", &format!("-convection 2 {fsai}")] {
        let text = solve(&program, &format!("-n 10 {arguments} -ksp_type bicg"));
        assert!(iterations(&text) <= 20, "{arguments}: {text}");
    }
}

#[test]
fn elasticity_takes_rigid_body_modes_from_matrix_and_coordinates() {
    let Some(flags) = flags("PETSc: elasticity") else { return };
    let program = build(&flags, "examples/ksp_elasticity.c");
    let first = solve(&program, "-n 6 -malloc_dump");
    for arguments in ["-n 6 -modes coordinates", "-n 6 -mat_type baij"] {
        let text = solve(&program, arguments);
        assert_eq!(text.lines().next(), first.lines().next(), "{arguments}");
    }
    assert_eq!(first.lines().count(), 2, "memory of PETSc is left: {first}");
    let other = solve(&program, "-n 6 -pc_type gamg");
    assert_eq!(after(&first, "deflection"), after(&other, "deflection"));
    assert!(iterations(&first) <= iterations(&other), "{first}{other}");
    let none = solve(&program, "-n 6 -modes none");
    assert!(iterations(&none) > iterations(&first), "{none}");
}

#[test]
fn values_are_updated_where_the_pattern_stays() {
    let Some(flags) = flags("PETSc: updates") else { return };
    let text = solve(&build(&flags, "examples/ksp_time_steps.c"), "");
    let ways: Vec<&str> = text.lines().map(|line| line.rsplit(", ").next().unwrap()).collect();
    assert_eq!(ways, ["set up", "updated", "reused", "set up"], "{text}");
    for line in text.lines() {
        assert!(
            iterations(line) <= 15 && after(line, "error").trim_end_matches(',').parse::<f64>().unwrap() < 1e-6,
            "{text}"
        );
    }
}

#[test]
fn options_are_set_by_name_and_refused_with_a_sentence() {
    let Some(flags) = flags("PETSc: options") else { return };
    let program = poisson(&flags);
    let set = solve(
        &program,
        "-n 6 -ksp_view -options_left -pc_terrace_json {\"amg.max_levels\":2} -pc_terrace_amg_smoother_type jacobi \
         -pc_terrace_amg.coarsest.max_rows 50 -pc_terrace_device host:1",
    );
    for part in ["\"amg.max_levels\":2", "\"amg.smoother.type\":\"jacobi\"", "\"amg.coarsest.max_rows\":50"] {
        assert!(set.contains(part), "{part}: {set}");
    }
    assert!(set.contains("operator complexity") && set.contains("There are no unused options"), "{set}");
    assert!(solve(&program, "-n 6 -pc_terrace_solver_preconditioner fsai").starts_with("terrace: "));
    let refused = [
        ("-pc_terrace_amg_smother_type jacobi", "the nearest is \"amg.smoother.type\""),
        ("-pc_terrace_amg.smoother.type jacoby", "accepted: auto, chebyshev"),
        ("-pc_terrace_json {\"solver\":{\"tolerance\":0.1}}", "solver.tolerance: the Krylov method is PETSc's"),
        ("-mat_type dense", "the matrix is of type seqdense; accepted: aij, baij, sbaij"),
    ];
    for (arguments, sentence) in refused {
        let (success, text) = run(&program, &format!("-n 6 {arguments}"));
        assert!(!success && text.contains(sentence), "{arguments}: {text}");
    }
}

/// What a program prints on so many processes, and whether it succeeded; none without mpirun.
pub fn parallel(program: &Path, processes: usize, arguments: &str) -> Option<(bool, String)> {
    let mut command = Command::new("mpirun");
    // For Open MPI in containers; others do not know these variables.
    let root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1"));
    command.envs(root).env("OMPI_MCA_rmaps_base_oversubscribe", "1").args(["-n", &processes.to_string()]);
    let output = command.arg(program).args(arguments.split_whitespace()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn several_processes_solve_together_or_block_by_block() {
    let Some(flags) = flags("PETSc: several processes") else { return };
    let program = poisson(&flags);
    let solved = |processes: usize, program: &Path, arguments: &str| {
        let (success, text) = parallel(program, processes, arguments)?;
        assert!(success, "{arguments} on {processes}: {text}");
        Some(text)
    };
    let Some(pair) = solved(2, &program, "-n 10") else {
        return skipped("PETSc: several processes", "there is no mpirun");
    };
    let one = solve(&program, "-n 10");
    assert!(pair.starts_with("terrace: ") && iterations(&pair) <= iterations(&one) + 1, "{pair}{one}");
    let first_line = |text: Option<String>| text.and_then(|text| text.lines().next().map(str::to_string));
    let expected = pair.lines().next().map(str::to_string);
    for (processes, arguments) in [(3, "-n 10"), (2, "-n 10 -mat_type baij"), (2, "-n 10 -mat_type sbaij")] {
        assert_eq!(first_line(solved(processes, &program, arguments)), expected, "{arguments} on {processes}");
    }
    // Without Gauss-Seidel, which ranks do not have one after the other.
    let wind = solved(2, &program, "-n 10 -convection 2 -pc_view").unwrap_or_default();
    assert!(iterations(&wind) <= 16 && wind.contains("l1_jacobi"), "{wind}");
    let blocks = solved(2, &program, "-n 6 -pc_type bjacobi -sub_pc_type terrace").unwrap_or_default();
    assert!(blocks.starts_with("bjacobi: "), "{blocks}");
    let (success, text) = parallel(&program, 2, "-n 6 -pc_terrace_amg.smoother.type dilu").unwrap_or_default();
    assert!(!success && text.contains("is not available over ranks; use \"fsai\""), "{text}");

    let elasticity = build(&flags, "examples/ksp_elasticity.c");
    let one = solve(&elasticity, "-n 6");
    for arguments in ["-n 6", "-n 6 -modes coordinates"] {
        let text = solved(3, &elasticity, arguments).unwrap_or_default();
        assert!(iterations(&text) <= iterations(&one) + 1, "{arguments}: {text}{one}");
        assert_eq!(after(&text, "deflection"), after(&one, "deflection"));
    }
    let steps = solved(2, &build(&flags, "examples/ksp_time_steps.c"), "").unwrap_or_default();
    let ways: Vec<&str> = steps.lines().filter_map(|line| line.rsplit(", ").next()).collect();
    assert_eq!(ways, ["set up", "updated", "reused", "set up"], "{steps}");
}

#[test]
fn a_program_without_terrace_loads_the_module() {
    let Some(flags) = flags("PETSc: module") else { return };
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("the test is in deps");
    let target = profile.parent().expect("the profile is in the target folder");
    let mut make = Command::new("make");
    make.arg("petsc-module").current_dir(root()).env_remove("MAKEFLAGS").env("CARGO_TARGET_DIR", target);
    make.arg(format!("PROFILE={}", profile.file_name().expect("a profile has a name").to_string_lossy()));
    succeed(make);
    let module = target.join("petsc/libterrace_petsc.so");
    let text = solve(&build(&flags, "tests/plain.c"), &format!("-pc_type terrace -dll_append {}", module.display()));
    assert!(text.starts_with("terrace: ") && iterations(&text) <= 12, "{text}");
}

#[test]
fn the_header_is_also_c_plus_plus() {
    let Some(flags) = flags("PETSc: C++") else { return };
    let flags: Vec<&str> = flags.iter().map(String::as_str).filter(|flag| flag.starts_with("-I")).collect();
    Compiler::cpp().with(&flags).compile(
        "#include <terrace_petsc.h>\n#include <terrace_petsc.h>\nint main() { return TerracePetscRegister(); }\n",
    );
}
