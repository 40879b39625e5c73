//! A stand-in for AMD's driver, `tests/stand_in/hip.cpp`: programs find it where LD_LIBRARY_PATH says.

use super::{root, scratch, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Compiles a driver; the folder it is in.
pub fn driver(name: &str, source: &Path, libraries: &[String]) -> PathBuf {
    let folder = scratch(name);
    let mut command = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_string()));
    command
        .args(["-std=c++17", "-O0", "-shared", "-fPIC", "-fno-exceptions", "-fno-rtti"])
        .arg(source)
        .arg("-o")
        .arg(folder.join("libamdhip64.so"))
        .args(libraries);
    succeed(command);
    folder
}

/// The folder of the stand-in, which is compiled once.
pub fn stand_in() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let kernels = terrace_kernels::sim::FOLDER.expect("tests have the simulated GPU");
    let libraries = [format!("-L{kernels}"), "-lterrace_sim".to_string()];
    FOLDER.get_or_init(|| driver("stand-in", &root().join("tests/stand_in/hip.cpp"), &libraries))
}
