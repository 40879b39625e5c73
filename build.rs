//! Gives the shared library its SONAME, and compiles the kernels: for the CPU (`sim`) where there is a C++ compiler, for NVIDIA GPUs where
//! there is nvcc, for AMD GPUs where there is a clang that knows them. Without any of them the library builds all the same, and `terrace info`
//! says what is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Machine code for these, and PTX of the first for everything newer.
const ARCHITECTURES: &[&str] = &["80", "90", "100"];

/// Each has a code object of its own; `src/gpu/hip.rs` names them, too.
const AMD_ARCHITECTURES: &[&str] = &["gfx90a", "gfx942", "gfx1100"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    println!("cargo:rustc-check-cfg=cfg(terrace_sim, terrace_cuda, terrace_hip)");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.0");
    // Each takes minutes on one core.
    std::thread::scope(|compilers| {
        compilers.spawn(compile_for_sim);
        compilers.spawn(compile_for_cuda);
        compilers.spawn(compile_for_hip);
    });
}

/// Whether nothing will be linked or run: lints need to know what there would be, and not the kernels themselves.
fn is_linted() -> bool {
    env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy"))
}

/// The kernels for the CPU, once for each warp width.
fn compile_for_sim() {
    if env::var("CARGO_CFG_TARGET_FAMILY").as_deref() != Ok("unix") {
        return;
    }
    // One that is named and not there is as good as none.
    let found = cc::Build::new().cpp(true).cargo_warnings(false).try_get_compiler();
    let runs = |compiler: cc::Tool| compiler.to_command().arg("--version").output().is_ok_and(|o| o.status.success());
    if !found.is_ok_and(runs) {
        return;
    }
    println!("cargo:rustc-cfg=terrace_sim");
    if is_linted() {
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
            .flag("-ffp-contract=off")
            .define("TERRACE_SIM", None)
            .define("TERRACE_WARP", warp)
            .file("kernels/sim.cpp");
        build.compile(&format!("terrace_sim{warp}"));
    }
}

/// The kernels for AMD GPUs, one code object for each architecture.
fn compile_for_hip() {
    println!("cargo:rerun-if-env-changed=TERRACE_HIP_CLANG");
    println!("cargo:rerun-if-env-changed=ROCM_PATH");
    let out = PathBuf::from(env::var("OUT_DIR").expect("Cargo sets it"));
    // Tests only see that they compile.
    let level = if env::var("PROFILE").as_deref() == Ok("release") { "-O3" } else { "-O1" };
    let compile = |clang: &Path, architecture: &str, source: &Path, to: &Path| {
        let mut command = Command::new(clang);
        // All that kernels need of HIP is in kernels/hip.h.
        command.args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"]);
        command.args([level, "-std=c++17"]).arg(format!("--offload-arch={architecture}"));
        command.arg("-o").arg(to).arg(source);
        command
    };
    let probe = out.join("probe.hip");
    std::fs::write(&probe, "__attribute__((global)) void probe() {}").expect("OUT_DIR can be written");
    // A clang without these GPUs, or without a linker for them, is none.
    let suits = |clang: &PathBuf| {
        AMD_ARCHITECTURES.iter().all(|architecture| {
            let output = compile(clang, architecture, &probe, &out.join("probe")).output();
            output.is_ok_and(|output| output.status.success())
        })
    };
    let Some(clang) = clangs().into_iter().find(suits) else { return };
    let image = |architecture: &str| out.join(format!("kernels.{architecture}"));
    let start = |architecture: &&str| {
        compile(&clang, architecture, Path::new("kernels/kernels.cu"), &image(architecture)).spawn()
    };
    let compilers: Vec<_> = if is_linted() {
        AMD_ARCHITECTURES.iter().for_each(|a| std::fs::write(image(a), "").expect("OUT_DIR can be written"));
        Vec::new()
    } else {
        AMD_ARCHITECTURES.iter().map(start).collect()
    };
    for compiler in compilers {
        let status = compiler.and_then(|mut compiler| compiler.wait());
        assert!(status.is_ok_and(|s| s.success()), "{} could not compile the kernels", clang.display());
    }
    let version = Command::new(&clang).arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).lines().next().unwrap_or("clang").trim().to_string();
    println!("cargo:rustc-cfg=terrace_hip");
    println!("cargo:rustc-env=TERRACE_HIP_COMPILER={version}");
}

/// `TERRACE_HIP_CLANG` (empty: none), then ROCm's, then those on PATH.
fn clangs() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("TERRACE_HIP_CLANG") {
        return Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty()).into_iter().collect();
    }
    let rocm = env::var_os("ROCM_PATH").map_or(PathBuf::from("/opt/rocm"), PathBuf::from);
    let names = (17..=22).rev().map(|version| format!("clang++-{version}")).chain(["clang++".to_string()]);
    std::iter::once(rocm.join("llvm/bin/clang++")).chain(names.map(PathBuf::from)).collect()
}

/// The kernels for NVIDIA GPUs, in one image.
fn compile_for_cuda() {
    println!("cargo:rerun-if-env-changed=TERRACE_NVCC");
    println!("cargo:rerun-if-env-changed=CUDA_HOME");
    println!("cargo:rerun-if-env-changed=TERRACE_CUDA_ARCHITECTURES");
    let Some(nvcc) = find_nvcc() else { return };
    let output = |arguments: &[&str]| {
        let output = Command::new(&nvcc).args(arguments).output();
        output.unwrap_or_else(|error| panic!("{} does not run: {error}", nvcc.display()))
    };
    let known = String::from_utf8_lossy(&output(&["--list-gpu-arch"]).stdout).into_owned();
    let named = env::var("TERRACE_CUDA_ARCHITECTURES").unwrap_or_else(|_| ARCHITECTURES.join(","));
    let known: Vec<&str> =
        named.split(',').map(str::trim).filter(|a| known.lines().any(|l| l == format!("compute_{a}"))).collect();
    assert!(!known.is_empty(), "{} knows none of the architectures {named}", nvcc.display());
    let image = Path::new(&env::var("OUT_DIR").expect("Cargo sets it")).join("kernels.fatbin");
    let mut command = Command::new(&nvcc);
    command.args(["-O3", "-std=c++17", "-fatbin", "--threads", "0"]);
    for (i, a) in known.iter().enumerate() {
        let code = if i == 0 { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
        command.arg(format!("-gencode=arch=compute_{a},code={code}"));
    }
    if is_linted() {
        std::fs::write(&image, "").expect("OUT_DIR can be written");
    } else {
        let status = command.arg("-o").arg(&image).arg("kernels/kernels.cu").status();
        assert!(status.is_ok_and(|s| s.success()), "{} could not compile the kernels", nvcc.display());
    }
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
