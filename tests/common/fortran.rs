//! Compiles Fortran programs against the module and the shared library of this build.

use super::{build_into, library, link_library, root, scratch, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `$FC`, or gfortran.
pub fn compiler() -> String {
    std::env::var("FC").unwrap_or_else(|_| "gfortran".to_string())
}

/// Compiles a program with the module and links it with the library.
pub fn build(source: &Path) -> PathBuf {
    let folder = scratch("programs-f90");
    let executable = folder.join(source.file_stem().expect("a source has a name"));
    build_into(&executable, |fresh| {
        let mut command = strict(&folder);
        command.arg(source).arg(module());
        command.arg(library()).arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(fresh);
        succeed(command);
    });
    executable
}

/// The object file of the module, compiled once for each test program. The link for the SONAME is made beside it.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        let folder = scratch("programs-f90");
        link_library(&folder);
        let object = folder.join("terrace.o");
        let mut command = strict(&folder);
        command.arg("-c").arg(root().join("fortran/terrace.f90")).arg("-o").arg(&object);
        succeed(command);
        object
    })
}

fn strict(folder: &Path) -> Command {
    let mut command = Command::new(compiler());
    command.args(["-std=f2018", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-J"]).arg(folder);
    command
}
