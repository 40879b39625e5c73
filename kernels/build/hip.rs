//! Kernels for AMD GPUs: for each architecture a code object of each kernel file.
//!
//! Environment:
//! `TERRACE_HIP_CLANG`           the compiler; empty for none. Else ROCm's, below `ROCM_PATH`, then those on the PATH
//! `TERRACE_HIP_ARCHITECTURES`   like `gfx90a,gfx942`
//! `TERRACE_HIP_FLAGS`           more flags for it
//! `TERRACE_HIP_CHECKED`         architectures for which kernels are only checked, by the front end of the compiler

use super::Images;
use super::cache::{Cache, Job};
use super::sources::Sources;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHITECTURES: &str = "gfx90a,gfx942,gfx1100";

/// All that kernels need of HIP is in `hip.h`.
const FLAGS: &[&str] =
    &["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O2", "-std=c++17"];

/// Types and builtins are checked for the target, and no machine code is made.
const FRONT_END: &[&str] = &["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes"];

/// The compiler, and what it made.
pub fn compile(sources: &Sources, cache: &Cache, out: &Path) -> Option<(PathBuf, Images)> {
    let read = ["TERRACE_HIP_CLANG", "TERRACE_HIP_ARCHITECTURES", "TERRACE_HIP_CHECKED", "TERRACE_HIP_FLAGS"];
    for name in read.into_iter().chain(["ROCM_PATH", "PATH"]) {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let asked = env::var("TERRACE_HIP_ARCHITECTURES").unwrap_or_else(|_| ARCHITECTURES.to_string());
    let architectures: Vec<&str> = asked.split(',').map(str::trim).collect();
    let checked = env::var("TERRACE_HIP_CHECKED").unwrap_or_default();
    let checked: Vec<&str> = checked.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let more = env::var("TERRACE_HIP_FLAGS").unwrap_or_default();
    let more: Vec<&str> = more.split_whitespace().collect();
    let probe = out.join("probe.hip");
    std::fs::write(&probe, "__attribute__((global)) void probe() {}").expect("OUT_DIR can be written");
    // A clang without these GPUs, or without a linker for them, is none.
    let suits = |clang: &PathBuf| {
        architectures.iter().all(|architecture| {
            let output = command(clang, architecture, FLAGS, &probe, &out.join("probe")).output();
            output.is_ok_and(|output| output.status.success())
        })
    };
    let clang = clangs().into_iter().find(suits)?;
    let version = Command::new(&clang).arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).lines().next().unwrap_or("clang").trim().to_string();
    let units: Vec<&String> = sources.device_units().collect();
    let mut jobs = Vec::new();
    let compiled = architectures.iter().map(|architecture| (*architecture, *architecture, &[][..]));
    for (architecture, ending, flags) in compiled.chain(checked.iter().map(|name| (*name, "bc", FRONT_END))) {
        for unit in &units {
            let (clang, source) = (&clang, sources.folder.join(unit));
            let flags = [FLAGS, &more, flags].concat();
            jobs.push(Job {
                unit,
                besides: &[],
                unread: &["sim.h"],
                key: format!("{version} {flags:?} {architecture}"),
                ending,
                command: Box::new(move |to: &Path| command(clang, architecture, &flags, &source, to)),
            });
        }
    }
    let images = cache.get(sources, &jobs);
    drop(jobs);
    let architectures = architectures
        .iter()
        .zip(images.chunks(units.len()))
        .map(|(architecture, images)| (architecture.to_string(), images.to_vec()))
        .collect();
    Some((clang, Images { constant: "HIP", compiler: version, architectures }))
}

fn command(clang: &Path, architecture: &str, flags: &[&str], source: &Path, to: &Path) -> Command {
    let mut command = Command::new(clang);
    command.args(flags).arg(format!("--offload-arch={architecture}")).arg("-o").arg(to).arg(source);
    command
}

fn clangs() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("TERRACE_HIP_CLANG") {
        return Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty()).into_iter().collect();
    }
    let rocm = env::var_os("ROCM_PATH").map_or(PathBuf::from("/opt/rocm"), PathBuf::from);
    let names = (17..=22).rev().map(|version| format!("clang++-{version}")).chain(["clang++".to_string()]);
    std::iter::once(rocm.join("llvm/bin/clang++")).chain(names.map(PathBuf::from)).collect()
}
