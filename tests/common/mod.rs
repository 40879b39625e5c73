//! Compiles C and C++ programs against the header and the shared library of this build; folders that tests use.

// Each test program uses its own part of this module.
#![allow(dead_code)]

pub mod devices;
pub mod documented;
pub mod fortran;
pub mod readers;
pub mod skip;
pub mod stand_in;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Folder of the repository.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("include/terrace.h").exists()).unwrap_or(package)
}

/// The shared library of this build. `cargo test` puts it beside the test executables, always up to date.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let library = test.with_file_name("libterrace.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// A compiler with the strict flags of its language.
pub struct Compiler {
    command: String,
    extension: &'static str,
    standard: &'static str,
    flags: Vec<String>,
}

impl Compiler {
    /// `$CC`, or cc.
    pub fn c() -> Compiler {
        let command = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
        Compiler { command, extension: "c", standard: "-std=c99", flags: Vec::new() }
    }

    /// `$CXX`, or c++.
    pub fn cpp() -> Compiler {
        let command = std::env::var("CXX").unwrap_or_else(|_| "c++".to_string());
        Compiler { command, extension: "cpp", standard: "-std=c++17", flags: Vec::new() }
    }

    /// With more flags, which win over the others.
    pub fn with(mut self, flags: &[&str]) -> Compiler {
        self.flags.extend(flags.iter().map(|flag| flag.to_string()));
        self
    }

    /// Compiles and links a program text without the library.
    pub fn check(&self, program: &str) {
        let folder = scratch(&format!("check-{}", self.extension));
        let source = folder.join("program").with_extension(self.extension);
        fs::write(&source, program).expect("the program can be written");
        succeed(self.command(&[source], &folder.join("program")));
    }

    /// Compiles a program text without linking it.
    pub fn compile(&self, program: &str) {
        let source = scratch(&format!("check-{}", self.extension)).join("compiled").with_extension(self.extension);
        build_into(&source, |fresh| fs::write(fresh, program).expect("the program can be written"));
        self.object(&source);
    }

    /// Compiles one source file into an object file beside the programs.
    pub fn object(&self, source: &Path) -> PathBuf {
        let name = source.file_stem().expect("a source has a name");
        let object = scratch(&format!("programs-{}", self.extension)).join(name).with_extension("o");
        build_into(&object, |fresh| {
            let mut command = self.command(&[source.to_path_buf()], fresh);
            command.arg("-c");
            succeed(command);
        });
        object
    }

    /// Compiles source files into a program named after the first and links it with the library; the executable finds the library where
    /// this build put it.
    pub fn build(&self, sources: &[PathBuf]) -> PathBuf {
        let name = sources[0].file_stem().expect("a source has a name");
        let folder = scratch(&format!("programs-{}", self.extension));
        let executable = folder.join(name);
        link_library(&folder);
        build_into(&executable, |fresh| {
            let mut command = self.command(sources, fresh);
            command.arg(library()).args(["-lm", "-lpthread"]);
            command.arg(format!("-Wl,-rpath,{}", folder.display()));
            succeed(command);
        });
        executable
    }

    fn command(&self, sources: &[PathBuf], executable: &Path) -> Command {
        let mut command = Command::new(&self.command);
        command.arg(self.standard).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(&self.flags);
        command.arg("-I").arg(root().join("include")).args(sources).arg("-o").arg(executable);
        command
    }
}

/// Makes a file under a name of its own and renames it: tests run at the same time, and two may build the same program.
fn build_into(file: &Path, make: impl FnOnce(&Path)) {
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    let number = BUILT.fetch_add(1, Ordering::Relaxed);
    let fresh = file.with_extension(format!("{}-{number}.new", std::process::id()));
    let _ = fs::remove_file(&fresh);
    make(&fresh);
    fs::rename(&fresh, file).expect("a file can be renamed");
}

/// A link in the folder with the SONAME, which programs look for.
pub fn link_library(folder: &Path) {
    let link = |fresh: &Path| std::os::unix::fs::symlink(library(), fresh).expect("a link can be made");
    build_into(&folder.join("libterrace.so.0"), link);
}

/// The folder of real matrices, if this machine has it: `TERRACE_MATRICES`, or `../shared/matrices` beside the repository. A check that needs it is
/// skipped otherwise.
pub fn real_matrices(check: &str) -> Option<PathBuf> {
    let named = std::env::var_os("TERRACE_MATRICES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared/matrices"));
    let found = folder.join("README.md").is_file();
    if !found {
        skip::skipped(check, "there is no folder of real matrices (TERRACE_MATRICES)");
    }
    found.then_some(folder)
}

/// A folder below cargo's folder for test files.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for test files can be made");
    folder
}

/// Runs a command that must succeed.
pub fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
