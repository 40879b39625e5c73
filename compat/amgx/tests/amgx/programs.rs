//! Programs that check themselves, and the twins of those that AmgX ships or that are written for it.

use crate::common::skip::skipped;
use crate::common::stand_in::stand_in;
use crate::configurations::poisson;
use crate::surface::{declared, defined};
use crate::{folder, library, program, root, run, scratch, succeed};
use std::path::Path;
use std::process::Command;

/// The modes that the library has.
const MODES: [&str; 6] = ["8192", "8193", "8448", "8449", "8464", "8465"];

#[test]
fn every_function_well_and_badly_called() {
    let calls = program("tests/c/calls.c");
    for mode in MODES {
        let folder = scratch(&format!("amgx-calls-{mode}"));
        run(&calls, &[mode, &folder.display().to_string()]);
    }
}

#[test]
fn a_device_mode_without_a_gpu_says_so() {
    let mut command = Command::new(program("tests/c/solve.c"));
    command.env_remove("LD_LIBRARY_PATH").args(["8193", "", "unused"]).env("TERRACE_AMGX_DEVICE", "cuda:999");
    let printed = String::from_utf8_lossy(&succeed(command).stdout).into_owned();
    assert!(printed.contains("REFUSED 5") && printed.contains("TERRACE_AMGX_DEVICE: device \"cuda:999\""), "{printed}");
}

/// What is uploaded from arrays in device memory, replaced and downloaded to them has the bits of the same on the host: with a stand-in for AMD's
/// driver, whose memory the host cannot read, and on a GPU of NVIDIA where that is asked for.
#[test]
fn arrays_of_programs_may_be_in_device_memory() {
    let program = program("tests/c/device_pointers.c");
    let solve = |device: &str, vendor: &str, drivers: &Path| {
        for mode in ["8193", "8449", "8465"] {
            let mut command = Command::new(&program);
            command.args([mode, vendor]).env("TERRACE_AMGX_DEVICE", device).env("LD_LIBRARY_PATH", drivers);
            let printed = String::from_utf8_lossy(&succeed(command).stdout).into_owned();
            if vendor == "hip" && printed.contains("not built: there was no") {
                return skipped("compat/amgx/tests/c/device_pointers.c over HIP", printed.trim());
            }
            assert!(printed.contains("blocks of 1: ") && printed.contains("blocks of 4: "), "{mode}: {printed}");
        }
    };
    if terrace_kernels::SIM {
        solve("hip:0", "hip", stand_in());
    } else {
        skipped("compat/amgx/tests/c/device_pointers.c over HIP", "the simulated GPU was not built");
    }
    if std::env::var_os("TERRACE_TEST_CUDA").is_some() {
        solve("cuda:0", "cuda", Path::new(""));
    } else {
        skipped("compat/amgx/tests/c/device_pointers.c on cuda:0", "TERRACE_TEST_CUDA is not set");
    }
}

const CONFIG: &str = "config_version=2, solver(main)=PCG, main:preconditioner(amg)=AMG, main:monitor_residual=1, \
     main:convergence=RELATIVE_INI, main:tolerance=1e-8, main:store_res_history=1, amg:max_iters=1";

/// The same as JSON.
const AS_JSON: &str = r#"{"config_version": 2, "solver": {"scope": "main", "solver": "PCG", "monitor_residual": 1,
    "convergence": "RELATIVE_INI", "tolerance": 1e-8, "store_res_history": 1,
    "preconditioner": {"scope": "amg", "solver": "AMG", "max_iters": 1}}}"#;

/// Reads a system and solves it, with the calls of AmgX's first example in their order.
#[test]
fn the_twin_of_the_first_example() {
    let folder = scratch("amgx-first");
    let (file, written) = (folder.join("system.mtx"), folder.join("written.mtx"));
    std::fs::write(&file, poisson(6)).expect("a file can be written");
    for mode in ["hDDI", "dDDI"] {
        let example = program("examples/read_and_solve.c");
        let printed = run(&example, &[mode, CONFIG, &file.display().to_string(), &written.display().to_string()]);
        assert!(printed.contains("status 0, 10 iterations"), "{printed}");
        assert!(std::fs::read_to_string(&written).expect("it was written").contains("%%AMGX 1 1 rhs solution"));
        // The same from a file, and with a text over it.
        let config = folder.join("config.json");
        std::fs::write(&config, AS_JSON).expect("a file can be written");
        let names = [&config, &file, &written].map(|path| path.display().to_string());
        let [config, file, written] = names.each_ref().map(String::as_str);
        let printed = run(&example, &[mode, config, file, written]);
        assert!(printed.contains("status 0, 10 iterations"), "{printed}");
        let printed = run(&example, &[mode, config, file, written, "config_version=2, main:max_iters=3"]);
        assert!(printed.contains("status 3, 3 iterations"), "{printed}");
    }
}

/// Makes a Laplacian and solves it twice, with the calls of AmgX's example for several ranks in their order.
#[test]
fn the_twin_of_the_poisson_example() {
    let printed = run(&program("examples/poisson7.c"), &["dDDI", CONFIG, "6"]);
    assert!(printed.contains("status 0, 10 iterations\nstatus 0, 10 iterations"), "{printed}");
}

/// Time steps, with the calls of wrappers for PETSc, OpenFOAM and MFEM.
#[test]
fn the_twin_of_the_wrappers() {
    let printed = run(&program("examples/time_steps.c"), &["dDDI", CONFIG, "6"]);
    assert_eq!(printed.matches("status 0").count(), 4, "{printed}");
}

/// What Python and Julia call.
#[test]
fn the_twin_of_the_bindings() {
    let printed = run(&program("examples/bindings.c"), &["hDDI", CONFIG]);
    assert!(printed.contains("status 0"), "{printed}");
}

/// A communicator of two ranks is found by the function that the program itself has, and what is missing is said.
#[test]
fn several_ranks_need_a_library_for_their_mpi() {
    let printed = run(&program("tests/c/ranks.c"), &[]);
    assert!(printed.contains("comm has 2 ranks: several ranks need libterrace_amgx_mpi.so"), "{printed}");
}

/// An installed tree, with the shared library and with the static one.
#[test]
fn an_installed_tree_is_enough() {
    let prefix = scratch("amgx-installed");
    let profile = library().parent().and_then(|deps| deps.parent()).expect("the library is in deps").to_path_buf();
    let mut make = Command::new("make");
    make.arg("install-amgx").current_dir(root()).env_remove("MAKEFLAGS").env_remove("DESTDIR");
    make.env("CARGO_TARGET_DIR", profile.parent().expect("the profile is in the target folder"));
    make.arg(format!("PROFILE={}", profile.file_name().expect("a profile has a name").to_string_lossy()));
    make.arg(format!("PREFIX={}", prefix.display()));
    succeed(make);
    let libraries = prefix.join("lib/terrace-amgx");
    // objcopy does not hide unique symbols, which only the simulated GPU of tests has.
    let mut seen = defined(&libraries.join("libamgx.a"), "--extern-only");
    seen.retain(|name| !name.contains("terrace_sim"));
    assert_eq!(seen, declared());
    for link in [vec!["-lamgxsh"], vec!["-l:libamgx.a", "-lstdc++", "-lgcc_s", "-lpthread", "-ldl"]] {
        let program = prefix.join("bindings");
        let mut compiler = Command::new("cc");
        compiler.arg(folder().join("examples/bindings.c")).arg("-o").arg(&program);
        compiler.arg(format!("-I{}", prefix.join("include/terrace-amgx").display()));
        compiler.arg(format!("-L{}", libraries.display())).args(link).arg("-lm");
        compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
        succeed(compiler);
        assert!(run(&program, &["hDDI", CONFIG]).contains("status 0"));
    }
}
