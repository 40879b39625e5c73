//! Portable loops compiled once more for processors with AVX2 and F16C.

use super::multivector_rows::Work;

/// Runs portable code with the registers of AVX2. Only where [`simd`](super::processor::simd) has found them.
pub fn run(work: impl Work) {
    #[target_feature(enable = "avx2,f16c,popcnt")]
    fn with_features(work: impl Work) {
        work.run();
    }
    // SAFETY: the caller has found the processor's features.
    unsafe { with_features(work) }
}
