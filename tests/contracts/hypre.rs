//! Programs for hypre run with `libterrace_hypre.so` as they do without it, alone and through PETSc. `compat/hypre/tests/run.sh` has the checks of the
//! former.

use crate::common;
use crate::petsc::{after, build, flags, iterations, parallel, run, solve};
use std::path::Path;
use std::process::Command;

/// What the scripts end with where hypre or MPI are not installed.
const NOT_INSTALLED: i32 = 77;

/// Runs a script with the library and a folder; whether what it needs is installed.
fn script(name: &str, folder: &Path, check: &str) -> bool {
    let mut script = Command::new(common::root().join("compat/hypre").join(name));
    let output = script.arg(common::library()).arg(folder).output().expect("the script starts");
    let told = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(NOT_INSTALLED) {
        common::skip::skipped(check, told.trim());
        return false;
    }
    assert!(output.status.success(), "{}\n{told}{}", output.status, String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn a_program_for_hypre_is_served_by_terrace() {
    script("tests/run.sh", &common::scratch("hypre"), "programs for hypre with libterrace_hypre.so");
}

/// What two runs of a program print: the same answers, and at most so many iterations for those of the first.
fn same_answers(own: &str, served: &str, most: impl Fn(usize) -> usize) {
    let solves = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains(" iterations")).map(str::to_string).collect()
    };
    let (own, served) = (solves(own), solves(served));
    assert!(!own.is_empty() && own.len() == served.len(), "{own:?} {served:?}");
    for (own, served) in own.iter().zip(&served) {
        assert!((1..=most(iterations(own))).contains(&iterations(served)), "{own}\n{served}");
        for word in ["norm", "deflection"].iter().filter(|word| own.contains(*word)) {
            assert_eq!(after(own, word), after(served, word), "{own}\n{served}");
        }
        let error = if own.contains("error") { after(served, "error").parse::<f64>().unwrap() } else { 0.0 };
        assert!(error < 1e-6, "{own}\n{served}");
    }
}

/// `-pc_type hypre` of PETSc with the library preloaded: Terrace serves every set-up and solve, as the log says.
#[test]
fn the_hypre_of_petsc_is_served_by_terrace() {
    let check = "PETSc's -pc_type hypre with libterrace_hypre.so";
    let Some(flags) = flags(check) else { return };
    let folder = common::scratch("petsc-hypre");
    if !script("build.sh", &folder, check) {
        return;
    }
    common::link_library(&folder);
    let (success, text) = run(&build(&flags, "tests/plain.c"), "-pc_type hypre");
    if !success && text.contains("Unable to find requested PC type hypre") {
        return common::skip::skipped(check, "PETSc was built without hypre");
    }
    let (library, log) = (folder.join("libterrace_hypre.so"), folder.join("log.txt"));
    let plain = "-u TERRACE_HYPRE_CONFIG -u TERRACE_HYPRE_STRICT";
    let preloaded = format!("{plain} LD_PRELOAD={} TERRACE_HYPRE_LOG={}", library.display(), log.display());
    let logged = |processes: usize| {
        let text = std::fs::read_to_string(&log).expect("there is a log");
        std::fs::remove_file(&log).expect("it can be removed");
        assert_eq!(text.matches(": destroyed after").count(), processes, "{text}");
        assert_eq!(text.matches("; 0 calls served by hypre").count(), processes, "{text}");
        text
    };
    let _ = std::fs::remove_file(&log);
    // In one dimension hypre's own hierarchy is exact.
    for (source, arguments, more) in [
        ("tests/plain.c", "-ksp_rtol 1e-10", 5),
        ("examples/ksp_poisson.c", "-n 12", 2),
        ("examples/ksp_poisson.c", "-n 10 -convection 2", 2),
        ("examples/ksp_elasticity.c", "-n 6", 2),
        ("examples/ksp_time_steps.c", "", 2),
    ] {
        let program = build(&flags, source);
        let arguments = format!("{} {arguments} -pc_type hypre", program.display());
        let own = solve(Path::new("env"), &arguments);
        let served = solve(Path::new("env"), &format!("{preloaded} {arguments}"));
        same_answers(&own, &served, |own| own * 4 / 3 + more);
        let log = logged(1);
        let total: usize = served.lines().filter(|line| line.contains(" iterations")).map(iterations).sum();
        // PETSc may apply the preconditioner once more for each solve.
        let cycles: usize = after(&log, "solves with").parse().expect("a number");
        assert!((total..=total + 4).contains(&cycles), "{served}{log}");
        assert_eq!(log.contains("update by Terrace"), source.contains("time_steps"), "{log}");
        if source.contains("plain") || source.contains("time_steps") {
            continue;
        }
        let Some((true, own)) = parallel(Path::new("env"), 2, &arguments) else { continue };
        let (success, served) = parallel(Path::new("env"), 2, &format!("{preloaded} {arguments}")).unwrap_or_default();
        assert!(success, "{served}");
        // l1-Jacobi takes the place of Gauss-Seidel.
        same_answers(&own, &served, |own| own * 3);
        let log = logged(2);
        for rank in 0..2 {
            assert!(log.contains(&format!("rank {rank}: BoomerAMG 1: set-up by Terrace")), "{log}");
        }
    }
}
