//! C programs against the drop-in for AmgX: every function, every family of configurations, and the twins of AmgX's own programs.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod configurations;
#[path = "../../src/division.rs"]
#[allow(dead_code)]
mod division;
mod programs;
mod ranks;
mod surface;

use common::{root, scratch, succeed};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;

/// The folder of the crate.
fn folder() -> PathBuf {
    root().join("compat/amgx")
}

/// The shared library of this build, beside the test.
fn library() -> PathBuf {
    let library = std::env::current_exe().expect("the test has a path").with_file_name("libamgxsh.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Compiles a C program against the header, once, and links it with the library.
fn program(source: &str) -> PathBuf {
    static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let source = folder().join(source);
    let executable = scratch("amgx-programs").join(source.file_stem().expect("a source has a name"));
    let name = executable.display().to_string();
    if !built.contains(&name) {
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_string()));
        compiler.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]);
        compiler.arg("-I").arg(folder().join("include")).arg(&source).arg("-o").arg(&executable).arg(library());
        // What looks for MPI finds the functions of the program.
        compiler.args(["-lm", "-ldl", "-rdynamic"]);
        compiler.arg(format!("-Wl,-rpath,{}", library().parent().expect("a folder").display()));
        succeed(compiler);
        built.push(name);
    }
    executable
}

/// Runs a program that must succeed, with simulated GPUs, or the host where the build has none, for the modes beginning with d.
fn run(program: &PathBuf, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    // Cargo names folders there in which an older library may be.
    command.env_remove("LD_LIBRARY_PATH");
    command.args(arguments).env("TERRACE_AMGX_DEVICE", if terrace_kernels::SIM { "sim" } else { "host" });
    text(succeed(command))
}

fn text(output: Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
