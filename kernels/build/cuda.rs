//! Kernels for NVIDIA GPUs: a fat binary for each kernel file.
//!
//! Environment:
//! `TERRACE_NVCC`                 the compiler; empty for none. Else the PATH, `CUDA_HOME`, and what `make setup` installs
//! `TERRACE_CUDA_ARCHITECTURES`   like `80,90`; of these, those that the compiler knows

use super::Images;
use super::cache::{Cache, Job};
use super::sources::Sources;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Machine code for these, and PTX of the first for everything newer.
const ARCHITECTURES: &str = "80,90,100";

const FLAGS: &[&str] = &["-O3", "-std=c++17", "-fatbin"];

pub fn compile(sources: &Sources, cache: &Cache) -> Option<Images> {
    for name in ["TERRACE_NVCC", "CUDA_HOME", "TERRACE_CUDA_ARCHITECTURES", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let nvcc = find()?;
    let ask = |argument: &str| {
        let output = Command::new(&nvcc).arg(argument).output();
        let output = output.unwrap_or_else(|error| panic!("{} does not run: {error}", nvcc.display()));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let known = ask("--list-gpu-arch");
    let asked = env::var("TERRACE_CUDA_ARCHITECTURES").unwrap_or_else(|_| ARCHITECTURES.to_string());
    let is_known = |a: &&str| known.lines().any(|line| line == format!("compute_{a}"));
    let architectures: Vec<&str> = asked.split(',').map(str::trim).filter(is_known).collect();
    assert!(
        !architectures.is_empty(),
        "{} knows none of the architectures of TERRACE_CUDA_ARCHITECTURES, \"{asked}\"; it knows {}",
        nvcc.display(),
        known.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    let code: Vec<String> = architectures
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let code = if i == 0 { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
            format!("-gencode=arch=compute_{a},code={code}")
        })
        .collect();
    let version = ask("--version");
    let version = version.split_whitespace().find_map(|word| word.strip_prefix('V')).unwrap_or("unknown");
    let key = format!("nvcc {version} {FLAGS:?} {code:?}");
    let (nvcc, code) = (&nvcc, &code);
    let job = |unit: &String| {
        let source = sources.folder.join(unit);
        let command = Box::new(move |to: &Path| {
            let mut command = Command::new(nvcc);
            command.args(FLAGS).args(code).arg("-o").arg(to).arg(&source);
            command
        });
        (unit.clone(), command)
    };
    let commands: Vec<_> = sources.device_units().map(job).collect();
    let jobs: Vec<Job<'_>> = commands
        .iter()
        .map(|(unit, command)| Job {
            unit,
            besides: &[],
            unread: &["hip.h", "sim.h"],
            key: key.clone(),
            ending: "fatbin",
            command: Box::new(move |to: &Path| command(to)),
        })
        .collect();
    let units = cache.get(sources, &jobs);
    let names = format!("sm_{} and PTX", architectures.join(" sm_"));
    Some(Images { constant: "CUDA", compiler: format!("nvcc {version}"), architectures: vec![(names, units)] })
}

fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("TERRACE_NVCC") {
        return Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.extend(env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin")));
    // A file that is missing would make this script, and all that depends on it, run in every build; `make setup` touches `build/cuda.rs` instead.
    if Path::new("../.tools/cu13/pyvenv.cfg").exists() {
        println!("cargo:rerun-if-changed=../.tools/cu13/pyvenv.cfg");
    }
    let wheels = std::fs::read_dir("../.tools/cu13/lib").into_iter().flatten().flatten();
    folders.extend(wheels.map(|python| python.path().join("site-packages/nvidia/cu13/bin")));
    folders.into_iter().map(|folder| folder.join("nvcc")).find(|nvcc| nvcc.is_file())
}
