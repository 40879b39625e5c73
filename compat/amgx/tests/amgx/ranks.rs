//! Several ranks: `mpirun` with the library that the MPI compiler makes. What needs them is left out where there is no
//! mpicc or mpirun. How rows are divided among ranks needs none.

use crate::common::skip::skipped;
use crate::division::Division;
use crate::{folder, library, scratch, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

fn words(command: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let output = Command::new(command).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_string).collect())
}

/// Whether programs for Open MPI can be compiled and run here.
fn has_mpi(check: &str) -> bool {
    let is_here = words("mpicc", &["--showme:link"]).and(words("mpirun", &["--version"])).is_some();
    if !is_here {
        skipped(check, "there is no mpicc or mpirun of Open MPI (openmpi-bin, libopenmpi-dev)");
    }
    is_here
}

/// A folder with the library, and with what it needs of MPI beside it, if that is wanted.
fn installed(name: &str, with_mpi: bool) -> PathBuf {
    let folder_of_library = scratch(name);
    let link = folder_of_library.join("libamgxsh.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library(), &link).expect("a link can be made");
    if with_mpi {
        let mut build = Command::new(folder().join("mpi/build.sh"));
        build.arg(&folder_of_library).env("MPICC", "mpicc");
        succeed(build);
    }
    folder_of_library
}

fn program(folder_of_library: &Path) -> PathBuf {
    let program = folder_of_library.join("over_ranks");
    let mut compiler = Command::new("mpicc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-O1", "-g"]).arg("-I").arg(folder().join("include"));
    compiler.arg(folder().join("tests/c/over_ranks.c")).arg("-o").arg(&program);
    compiler.arg("-L").arg(folder_of_library).args(["-lamgxsh", "-lm"]);
    compiler.arg(format!("-Wl,-rpath,{}", folder_of_library.display()));
    succeed(compiler);
    program
}

fn mpirun(program: &Path, ranks: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]).arg(program).args(arguments);
    command.env_remove("LD_LIBRARY_PATH");
    command.env("TERRACE_AMGX_DEVICE", if terrace_kernels::SIM { "sim" } else { "host" });
    command
}

#[test]
fn systems_over_ranks_have_the_solutions_of_one() {
    if !has_mpi("compat/amgx/tests/c/over_ranks.c over mpirun") {
        return;
    }
    let folder_of_library = installed("amgx-over-ranks", true);
    let program = program(&folder_of_library);
    for mode in ["8192", "8449", "8464"] {
        let mut printed = Vec::new();
        for ranks in 1..=3 {
            let scratch = scratch(&format!("amgx-over-ranks-{mode}-{ranks}"));
            let output = succeed(mpirun(&program, ranks, &[mode, &scratch.display().to_string()]));
            printed.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        assert_eq!(printed[0].lines().count(), 18, "{}", printed[0]);
        assert_eq!(printed[0], printed[1], "mode {mode}, 2 ranks");
        assert_eq!(printed[0], printed[2], "mode {mode}, 3 ranks");
    }
}

#[test]
fn without_the_library_for_mpi_one_rank_works_and_two_say_what_to_build() {
    if !has_mpi("an AmgX program without libterrace_amgx_mpi.so over mpirun") {
        return;
    }
    let folder_of_library = installed("amgx-without-mpi", false);
    let program = program(&folder_of_library);
    let scratch = scratch("amgx-without-mpi-files").display().to_string();
    succeed(mpirun(&program, 1, &["8192", &scratch]));
    let output = mpirun(&program, 2, &["8192", &scratch]).output().expect("mpirun can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("AMGX_resources_create(&rsc, cfg, &comm"), "{said}");
}

#[test]
fn rows_are_numbered_by_rank_and_then_in_their_order() {
    let division = Division::by_vector(&[1, 0, 1, 2, 0], 3, 3).expect("it fits");
    assert_eq!(division.starts, [0, 2, 4, 5]);
    assert_eq!(division.numbers.as_deref(), Some(&[2, 0, 3, 4, 1][..]));
    assert_eq!(division.callers(), Some(vec![1, 4, 0, 2, 3]));
    let ranges = Division::by_vector(&[0, 0, 2, 2], 3, 3).expect("it fits");
    assert_eq!((ranges.starts.as_slice(), ranges.numbers.as_ref()), (&[0, 2, 2, 4][..], None));
    assert_eq!(ranges, Division::by_offsets(&[0, 2, 2, 4], 4).expect("it fits"));
    assert_eq!(ranges, Division::by_counts(&[2, 0, 2], Some(4)).expect("it fits"));
    assert_ne!(ranges.fingerprint(), division.fingerprint());
    // Several partitions for each rank, of which consecutive ones are its.
    assert_eq!(Division::by_vector(&[0, 3, 1, 2], 4, 2), Division::by_vector(&[0, 1, 0, 1], 2, 2));
    assert_eq!(Division::even(7, 3).starts, [0, 2, 4, 7]);
    assert_eq!(Division::even(1, 3).starts, [0, 0, 0, 1]);
}

#[test]
fn divisions_that_do_not_fit_are_refused() {
    let said = |result: Result<Division, String>| result.expect_err("it does not fit");
    assert!(said(Division::by_vector(&[0, 3], 3, 3)).contains("gives row 1 to 3; accepted: 0 to 2"));
    assert!(said(Division::by_vector(&[0, -1], 3, 3)).contains("gives row 1 to -1"));
    assert!(said(Division::by_vector(&[0, 1], 3, 2)).contains("num_partitions is 3"));
    assert!(said(Division::by_vector(&[], 0, 2)).contains("num_partitions is 0"));
    assert!(said(Division::by_offsets(&[0, 3, 2, 4], 4)).contains("gives rank 1 the rows from 3 to 2"));
    assert!(said(Division::by_offsets(&[1, 4], 4)).contains("from 1 to 4; accepted: from 0 to n_global, 4"));
    assert!(said(Division::by_counts(&[2, 3], Some(4))).contains("n_global is 4, and the ranks have 5 rows"));
    assert!(said(Division::by_counts(&[usize::MAX, 3], None)).contains("at most 2147483647"));
}
