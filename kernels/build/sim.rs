//! The simulated GPU: the kernels for the CPU, in a static library.
//!
//! Environment:
//! `TERRACE_SIM_CXX`   its C++ compiler; empty for no simulated GPU in spite of the feature. Else `CXX`, or the one that the machine has
//! `TERRACE_SIM_FLAGS` more flags for it

use super::cache::{Cache, Job};
use super::sources::Sources;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-DTERRACE_SIM",
];

/// The source of what runs them.
const ENGINE: &str = "sim.cpp";

/// Whether the environment leaves the simulated GPU out.
pub fn is_left_out() -> bool {
    println!("cargo:rerun-if-env-changed=TERRACE_SIM_CXX");
    env::var_os("TERRACE_SIM_CXX").is_some_and(|named| named.is_empty())
}

/// The C++ compiler.
pub fn compiler() -> PathBuf {
    if let Some(named) = env::var_os("TERRACE_SIM_CXX").filter(|named| !named.is_empty()) {
        return named.into();
    }
    let tool = cc::Build::new().cpp(true).warnings(false).cargo_metadata(false).opt_level(2).get_compiler();
    // Without the flags of a profile: ours are the same for all.
    tool.path().to_owned()
}

fn version(compiler: &Path) -> String {
    let output = Command::new(compiler).arg("--version").output();
    let output = output.unwrap_or_else(|error| {
        panic!("the simulated GPU (feature \"sim\") needs a C++ compiler; {} does not run: {error}", compiler.display())
    });
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string()
}

/// Tells Cargo to link what the library needs for simulated GPUs.
pub fn compile(sources: &Sources, cache: &Cache, out: &Path) {
    println!("cargo:rerun-if-env-changed=CXX");
    println!("cargo:rustc-cfg=terrace_sim");
    let compiler = compiler();
    let version = version(&compiler);
    println!("cargo:rerun-if-env-changed=TERRACE_SIM_FLAGS");
    let more = env::var("TERRACE_SIM_FLAGS").unwrap_or_default();
    let flags: Vec<&str> = FLAGS.iter().copied().chain(more.split_whitespace()).collect();
    let flags = &flags;
    let (compiler, folder) = (&compiler, &sources.folder);
    let job = |unit| {
        // The engine is small, and its fibers take most of the time. Kernels at level 2 compile for half as long again, and the tests
        // hardly run faster.
        let (wrapper, besides, level): (_, &[&str], _) =
            if unit == ENGINE { (ENGINE, &[], "-O2") } else { ("sim_unit.cpp", &["sim_unit.cpp"], "-O1") };
        let command = Box::new(move |to: &Path| {
            let mut command = Command::new(compiler);
            command.arg(level).args(flags).arg(format!("-DTERRACE_UNIT=\"{unit}\""));
            command.arg("-c").arg(folder.join(wrapper)).arg("-o").arg(to);
            command
        });
        Job { unit, besides, unread: &["hip.h"], key: format!("{version} {level} {flags:?}"), ending: "o", command }
    };
    let jobs: Vec<Job<'_>> = std::iter::once(ENGINE).chain(sources.units.iter().map(String::as_str)).map(job).collect();
    let objects = cache.get(sources, &jobs);
    // One object: the kernels put themselves into a list when the program starts, and a linker takes only what something refers to.
    let all = out.join("terrace_sim.o");
    let mut link = Command::new(compiler);
    link.args(["-r", "-nostdlib", "-o"]).arg(&all).args(objects);
    assert!(link.status().is_ok_and(|s| s.success()), "{link:?} failed");
    let archive = out.join("libterrace_sim.a");
    let _ = std::fs::remove_file(&archive);
    let mut pack = Command::new(env::var_os("AR").unwrap_or_else(|| "ar".into()));
    pack.arg("crs").arg(&archive).arg(&all);
    assert!(pack.status().is_ok_and(|s| s.success()), "{pack:?} failed");
    let _ = std::fs::remove_file(&all);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=terrace_sim");
    println!("cargo:rustc-env=TERRACE_SIM_FOLDER={}", out.display());
}
