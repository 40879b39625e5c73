//! Products of tiles of dense matrices, for dense factorisations.

use crate::host::prefetch::prefetch;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows and columns of a tile.
const TILE: usize = 8;

/// Tiles that are multiplied at once. Their sums and the numbers of a column fill most of the 32 registers.
const STRIP: usize = 3;

/// Columns of the left tiles that lie between the one in use and the one asked for: those tiles come from the second cache.
const AHEAD: usize = 12;

/// C -= L Rᵀ for a column of tiles and one tile, each stored by columns, in these rows of up to 8 columns of C, which are
/// `pitch` apart. Only where [`super::is_present`].
pub fn subtract_product(left: &[f64], right: &[f64], c: &mut [f64], pitch: usize, rows: Range<usize>) {
    assert!(left.len() == rows.len().div_ceil(TILE) * right.len() && c.len() <= TILE * pitch);
    for (s, left) in left.chunks(STRIP * right.len()).enumerate() {
        let begin = rows.start + s * STRIP * TILE;
        let rows = begin..rows.end.min(begin + STRIP * TILE);
        // SAFETY (all): the caller has found the processor's features.
        match rows.len().div_ceil(TILE) {
            1 => unsafe { wide::<1>(left, right, c, pitch, rows) },
            2 => unsafe { wide::<2>(left, right, c, pitch, rows) },
            _ => unsafe { wide::<STRIP>(left, right, c, pitch, rows) },
        }
    }
}

#[target_feature(enable = "avx512f")]
fn wide<const TILES: usize>(left: &[f64], right: &[f64], c: &mut [f64], pitch: usize, rows: Range<usize>) {
    let mut sums = [[_mm512_setzero_pd(); TILES]; TILE];
    assert!(left.len() == TILES * right.len());
    for (k, r) in right.chunks_exact(TILE).enumerate() {
        // SAFETY: each of the tiles is as long as that of the right.
        let l: [__m512d; TILES] =
            std::array::from_fn(|t| unsafe { _mm512_loadu_pd(left.as_ptr().add(t * right.len() + k * TILE)) });
        for t in 0..TILES {
            prefetch(left, t * right.len() + (k + AHEAD) * TILE);
        }
        for c in 0..TILE {
            let r = _mm512_set1_pd(r[c]);
            for t in 0..TILES {
                sums[c][t] = _mm512_fmadd_pd(l[t], r, sums[c][t]);
            }
        }
    }
    for (column, sums) in c.chunks_exact_mut(pitch).zip(sums) {
        for (part, sum) in column[rows.clone()].chunks_mut(TILE).zip(sums) {
            let mask = (1_u32 << part.len()).wrapping_sub(1) as __mmask8;
            // SAFETY: the mask has as many bits as the slice has numbers.
            unsafe {
                let difference = _mm512_sub_pd(_mm512_maskz_loadu_pd(mask, part.as_ptr()), sum);
                _mm512_mask_storeu_pd(part.as_mut_ptr(), mask, difference);
            }
        }
    }
}
