//! The registers that kernels use, found once. Code for wider ones gives the same bits as portable code.

use std::sync::OnceLock;

/// Sets of instructions, from the narrowest registers to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Simd {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2 and F16C.
    Avx2,
    /// AVX-512 with the extensions of servers since 2017.
    Avx512,
}

impl Simd {
    /// Name in `TERRACE_SIMD` and reports.
    pub fn name(self) -> &'static str {
        match self {
            Simd::Portable => "portable",
            Simd::Avx2 => "avx2",
            Simd::Avx512 => "avx512",
        }
    }
}

/// The instructions that kernels use: the widest that the processor has, or no wider than the environment variable `TERRACE_SIMD` names, which
/// is for tests and measurements.
pub fn simd() -> Simd {
    static USED: OnceLock<Simd> = OnceLock::new();
    *USED.get_or_init(|| {
        let named = std::env::var("TERRACE_SIMD").ok();
        let limit = [Simd::Portable, Simd::Avx2].into_iter().find(|simd| named.as_deref() == Some(simd.name()));
        limit.map_or(present(), |limit| present().min(limit))
    })
}

/// The widest that the processor has.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn present() -> Simd {
    let avx2 =
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("popcnt");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    match (avx2, avx512) {
        (true, true) => Simd::Avx512,
        (true, false) => Simd::Avx2,
        _ => Simd::Portable,
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn present() -> Simd {
    Simd::Portable
}
