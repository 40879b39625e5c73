//! Products of tiles of dense matrices, for the sparse direct solver.

use std::arch::x86_64::*;

/// Rows and columns of a tile.
const TILE: usize = 8;

/// The product of a tile, stored by columns, with the transpose of another, by columns. Only where
/// [`super::is_present`].
pub fn product(left: &[f64], right: &[f64]) -> [[f64; TILE]; TILE] {
    assert_eq!(left.len(), right.len());
    // SAFETY: the caller has found the processor's features.
    unsafe { wide(left, right) }
}

#[target_feature(enable = "avx512f")]
fn wide(left: &[f64], right: &[f64]) -> [[f64; TILE]; TILE] {
    let mut sums = [_mm512_setzero_pd(); TILE];
    for (l, r) in left.chunks_exact(TILE).zip(right.chunks_exact(TILE)) {
        // SAFETY: a chunk has eight numbers.
        let l = unsafe { _mm512_loadu_pd(l.as_ptr()) };
        for c in 0..TILE {
            sums[c] = _mm512_add_pd(sums[c], _mm512_mul_pd(l, _mm512_set1_pd(r[c])));
        }
    }
    let mut out = [[0.0; TILE]; TILE];
    for (out, sum) in out.iter_mut().zip(sums) {
        // SAFETY: a column has eight numbers.
        unsafe { _mm512_storeu_pd(out.as_mut_ptr(), sum) };
    }
    out
}
