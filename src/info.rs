//! What this build of the library is and what the machine offers it.

use crate::context::Context;
use crate::device_kind::DeviceKind;
use crate::gpu;
use crate::host::registers::registers;
use serde_json::json;

/// Vector instruction sets of this CPU, widest last.
pub fn simd() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let sets = [
            ("sse2", std::arch::is_x86_feature_detected!("sse2")),
            ("avx", std::arch::is_x86_feature_detected!("avx")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ];
        sets.into_iter().filter(|(_, present)| *present).map(|(name, _)| name).collect()
    }
    #[cfg(target_arch = "aarch64")]
    {
        vec!["neon"]
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        Vec::new()
    }
}

/// Version, device and threads of the context, CPU instruction sets and the registers that loops use, usable devices, and what this build has for GPUs, as one
/// JSON object.
pub fn to_json(context: &Context) -> String {
    let gpu::Facts { devices: gpus, cuda, hip, sim } = gpu::facts();
    let devices: Vec<String> = std::iter::once(DeviceKind::Host.name().to_string()).chain(gpus).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": context.device().name(),
        "threads": context.threads(),
        "architecture": std::env::consts::ARCH,
        "simd": simd(),
        "registers": registers().name(),
        "devices": devices,
        "cuda": cuda,
        "hip": hip,
        "sim": sim,
    })
    .to_string()
}
