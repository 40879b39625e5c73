//! Random choices that are the same on every backend.

/// A hash that orders unknowns at random: the finaliser of SplitMix64 over index and seed.
pub(crate) fn hash(index: usize, seed: u64) -> u64 {
    let mut z =
        (index as u64).wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
