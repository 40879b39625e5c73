//! Compiles every kernel file by itself for each target that a feature names and a compiler is found for: the simulated GPU, NVIDIA GPUs,
//! AMD GPUs. Objects are kept in one cache by the hash of their inputs, so that no profile compiles a kernel a second time.
//!
//! Environment, beside what the targets read:
//! `TERRACE_KERNEL_CACHE`   folder of the cache; `kernels` in Cargo's target folder unless given

mod cache;
mod cuda;
mod hip;
mod signatures;
mod sim;
mod sources;

use cache::Cache;
use sources::Sources;
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Machine code that the library carries, for one kind of device.
struct Images {
    /// Name of the constant in the crate.
    constant: &'static str,
    /// Compiler and its version.
    compiler: String,
    /// Architectures, and for each of them one image per kernel file, in the order of [`Sources::units`].
    architectures: Vec<(String, Vec<PathBuf>)>,
}

fn main() {
    println!("cargo:rerun-if-env-changed=TERRACE_KERNEL_CACHE");
    // Sources and this program.
    println!("cargo:rerun-if-changed=.");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let sources = Sources::read(Path::new("."));
    let cache = Cache::open(&out);
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let cuda = if has("CUDA") { cuda::compile(&sources, &cache) } else { None };
    let hip = if has("HIP") { hip::compile(&sources, &cache, &out) } else { None };
    println!("cargo:rustc-check-cfg=cfg(terrace_sim)");
    let has_sim = has("SIM") && !sim::is_left_out();
    if has_sim {
        sim::compile(&sources, &cache, &out);
    }
    let signatures = match (has_sim || cuda.is_some(), &hip) {
        (true, _) => signatures::find(&sources, &cache, &sim::compiler()),
        (false, Some((clang, _))) => signatures::find(&sources, &cache, clang),
        (false, None) => Vec::new(),
    };
    let mut code = String::new();
    let images = [("CUDA", cuda), ("HIP", hip.map(|(_, images)| images))];
    for (constant, images) in images {
        match images {
            Some(images) => emit_images(&mut code, &images),
            None => _ = writeln!(code, "{DOCUMENTED}pub static {constant}: Option<Images> = None;"),
        }
    }
    signatures::emit(&mut code, &signatures);
    std::fs::write(out.join("generated.rs"), code).expect("OUT_DIR can be written");
}

const DOCUMENTED: &str = "/// Kernels for this kind of device, where the build had a compiler for them.\n";

/// The images as constants that the linker puts into the library, each aligned to a page as in an ELF file.
fn emit_images(code: &mut String, images: &Images) {
    let Images { constant, compiler, architectures } = images;
    let names: Vec<&str> = architectures.iter().map(|(name, _)| name.as_str()).collect();
    let (names, compiler) = (format!("{:?}", names.join(" ")), format!("{compiler:?}"));
    let mut list = String::new();
    for (_, units) in architectures {
        list += "    Architecture { units: &[";
        for unit in units {
            _ = write!(list, "&Aligned(*include_bytes!({:?})), ", unit.display().to_string());
        }
        list += "] },\n";
    }
    _ = writeln!(
        code,
        "{DOCUMENTED}pub static {constant}: Option<Images> = Some(Images {{ compiler: {compiler}, names: {names}, architectures: &[\n{list}] }});"
    );
}
