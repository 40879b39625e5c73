//! Gives the shared library its SONAME, and compiles the kernels: for the CPU (`sim`) where there is a C++ compiler, for NVIDIA GPUs where
//! there is nvcc. Without either the library builds all the same, and `terrace info` says what is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Machine code for these, and PTX of the first for everything newer.
const ARCHITECTURES: &[&str] = &["80", "90", "100"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rustc-check-cfg=cfg(terrace_sim, terrace_cuda)");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
    compile_for_sim();
    compile_for_cuda();
}

/// The kernels for the CPU, once for each warp width.
fn compile_for_sim() {
    if env::var("CARGO_CFG_TARGET_FAMILY").as_deref() != Ok("unix") {
        return;
    }
    for warp in ["32", "64"] {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .opt_level(2)
            .cpp_link_stdlib(None)
            .flag("-fno-exceptions")
            .flag("-fno-rtti")
            .define("TERRACE_SIM", None)
            .define("TERRACE_WARP", warp)
            .file("kernels/sim.cpp");
        if build.try_get_compiler().is_err() {
            return;
        }
        build.compile(&format!("terrace_sim{warp}"));
    }
    println!("cargo:rustc-cfg=terrace_sim");
}

/// The kernels for NVIDIA GPUs, in one image.
fn compile_for_cuda() {
    println!("cargo:rerun-if-env-changed=TERRACE_NVCC");
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    let Some(nvcc) = find_nvcc() else { return };
    let output = |arguments: &[&str]| {
        let output = Command::new(&nvcc).args(arguments).output();
        output.unwrap_or_else(|error| panic!("{} does not run: {error}", nvcc.display()))
    };
    let known = String::from_utf8_lossy(&output(&["--list-gpu-arch"]).stdout).into_owned();
    let known: Vec<&str> =
        ARCHITECTURES.iter().copied().filter(|a| known.lines().any(|l| l == format!("compute_{a}"))).collect();
    let image = Path::new(&env::var("OUT_DIR").expect("Cargo sets it")).join("kernels.fatbin");
    let mut command = Command::new(&nvcc);
    command.args(["-O3", "-std=c++17", "-fatbin", "--threads", "0"]);
    for (i, a) in known.iter().enumerate() {
        let code = if i == 0 { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
        command.arg(format!("-gencode=arch=compute_{a},code={code}"));
    }
    let status = command.arg("-o").arg(&image).arg("kernels/kernels.cu").status();
    assert!(status.is_ok_and(|s| s.success()), "{} could not compile the kernels", nvcc.display());
    let version = String::from_utf8_lossy(&output(&["--version"]).stdout).into_owned();
    let version = version.split_whitespace().find_map(|word| word.strip_prefix('V')).unwrap_or("unknown").to_string();
    println!("cargo:rustc-cfg=terrace_cuda");
    println!("cargo:rustc-env=TERRACE_NVCC_VERSION={version}");
    println!("cargo:rustc-env=TERRACE_CUDA_ARCHITECTURES=sm_{}", known.join(" sm_"));
}

/// `TERRACE_NVCC` (empty: none), then PATH, CUDA_HOME, and what `make setup` installs.
fn find_nvcc() -> Option<PathBuf> {
    if let Some(named) = env::var_os("TERRACE_NVCC") {
        return Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.extend(env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin")));
    let wheels = std::fs::read_dir(".tools/cu13/lib").into_iter().flatten().flatten();
    folders.extend(wheels.map(|python| python.path().join("site-packages/nvidia/cu13/bin")));
    folders.into_iter().map(|folder| folder.join("nvcc")).find(|nvcc| nvcc.is_file())
}
