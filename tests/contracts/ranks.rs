//! The example over ranks, as threads and with MPI, and `include/terrace_mpi.h`. Checks with MPI are left out where there is no mpicc or mpirun.

use crate::common::skip::skipped;
use crate::common::{Compiler, library, link_library, root, scratch, succeed};
use std::path::PathBuf;
use std::process::Command;

fn words(command: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect())
}

/// Flags for MPI, if it is here with a program that starts ranks.
fn mpi(check: &str) -> Option<Vec<String>> {
    let shown = words("mpicc", &["--showme:compile"]).zip(words("mpicc", &["--showme:link"]));
    let flags =
        shown.map(|(compile, link)| [compile, link].concat()).filter(|_| words("mpirun", &["--version"]).is_some());
    if flags.is_none() {
        skipped(check, "there is no mpicc or mpirun of Open MPI (libopenmpi-dev)");
    }
    flags
}

fn build(flags: &[String], source: &str) -> PathBuf {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // The headers of MPI are not held to the rules for ours.
    Compiler::c().with(&["-Wno-error", "-Wl,--no-as-needed"]).with(&flags).build(&[root().join(source)])
}

fn run(program: &PathBuf, ranks: Option<usize>, arguments: &[&str]) -> String {
    let mut command = Command::new(if ranks.is_some() { PathBuf::from("mpirun") } else { program.clone() });
    if let Some(ranks) = ranks {
        let count = ranks.to_string();
        command.args(["-n", &count]).arg(program);
        for variable in
            ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"]
        {
            command.env(variable, "1");
        }
    }
    command.args(arguments);
    String::from_utf8(succeed(command).stdout).expect("the output is UTF-8")
}

#[test]
fn poisson_has_the_same_bits_over_threads_and_over_mpi() {
    let threads = Compiler::c().with(&["-pthread"]).build(&[root().join("c_examples/poisson_ranks.c")]);
    let alone = run(&threads, None, &["12", "1"]);
    assert!(alone.starts_with("12^3 unknowns: "), "{alone}");
    for ranks in ["2", "5"] {
        assert_eq!(run(&threads, None, &["12", ranks]), alone, "{ranks}");
    }
    let Some(flags) = mpi("c_examples/poisson_mpi over mpirun") else { return };
    let program = build(&flags, "c_examples/poisson_mpi.c");
    for ranks in [1, 3] {
        assert_eq!(run(&program, Some(ranks), &["12"]), alone, "{ranks}");
    }
}

#[test]
fn a_rank_that_cannot_go_on_ends_the_waiting_of_the_others() {
    let Some(flags) = mpi("tests/c/mpi_ranks.c over mpirun") else { return };
    let program = build(&flags, "tests/c/mpi_ranks.c");
    assert_eq!(run(&program, Some(3), &[]), "all is well\n");
}

/// `include/terrace_mpi.h` over a stand-in of MPI, with thousands of ranks and with failures of MPI.
#[test]
fn the_header_for_mpi_gathers_from_thousands_of_ranks_and_ends_what_it_receives() {
    let stand_in = format!("-I{}", root().join("tests/stand_in/mpi").display());
    let sources = ["tests/c/mpi_stand_in.c", "tests/c/check.c"].map(|source| root().join(source));
    let program = Compiler::c().with(&[&stand_in]).build(&sources);
    assert_eq!(run(&program, None, &[]), "all is well\n");
}

/// `fortran/terrace_mpi.f90` with the file of C that it needs.
#[test]
fn fortran_passes_its_communicator() {
    let check = "tests/fortran/poisson_mpi.f90 over mpirun";
    let Some(_) = mpi(check) else { return };
    if words("mpif90", &["--version"]).is_none() {
        return skipped(check, "there is no mpif90");
    }
    let folder = scratch("fortran-mpi");
    link_library(&folder);
    let object = folder.join("terrace_mpi_c.o");
    let mut c = Command::new("mpicc");
    c.arg("-I").arg(root().join("include")).arg("-c").arg(root().join("fortran/terrace_mpi.c")).arg("-o").arg(&object);
    succeed(c);
    let program = folder.join("poisson_mpi");
    let mut fortran = Command::new("mpif90");
    fortran.arg("-J").arg(&folder);
    fortran.args(
        ["fortran/terrace.f90", "fortran/terrace_mpi.f90", "tests/fortran/poisson_mpi.f90"].map(|f| root().join(f)),
    );
    fortran.arg(&object).arg(library()).arg(format!("-Wl,-rpath,{}", folder.display()));
    fortran.arg("-o").arg(&program);
    succeed(fortran);
    assert_eq!(run(&program, Some(2), &[]).trim(), "the largest element is   125250.0");
}
