//! Products of tiles of dense matrices, for the sparse direct solver.

use std::arch::x86_64::*;
use std::ops::Range;

/// Rows and columns of a tile.
const TILE: usize = 8;

/// C -= L Rᵀ for two tiles that are stored by columns, in these rows of up to 8 columns of C, which are `pitch` apart. Only
/// where [`super::is_present`].
pub fn subtract_product(left: &[f64], right: &[f64], c: &mut [f64], pitch: usize, rows: Range<usize>) {
    assert!(left.len() == right.len() && rows.len() <= TILE);
    // SAFETY: the caller has found the processor's features.
    unsafe { wide(left, right, c, pitch, rows) }
}

#[target_feature(enable = "avx512f")]
fn wide(left: &[f64], right: &[f64], c: &mut [f64], pitch: usize, rows: Range<usize>) {
    let mut sums = [_mm512_setzero_pd(); TILE];
    for (l, r) in left.chunks_exact(TILE).zip(right.chunks_exact(TILE)) {
        // SAFETY: a chunk has eight numbers.
        let l = unsafe { _mm512_loadu_pd(l.as_ptr()) };
        for c in 0..TILE {
            sums[c] = _mm512_fmadd_pd(l, _mm512_set1_pd(r[c]), sums[c]);
        }
    }
    let mask = (1_u32 << rows.len()).wrapping_sub(1) as __mmask8;
    for (column, sum) in c.chunks_exact_mut(pitch).zip(sums) {
        let column = &mut column[rows.clone()];
        // SAFETY: the mask has as many bits as the slice has numbers.
        unsafe {
            let difference = _mm512_sub_pd(_mm512_maskz_loadu_pd(mask, column.as_ptr()), sum);
            _mm512_mask_storeu_pd(column.as_mut_ptr(), mask, difference);
        }
    }
}
