//! Rows of scalar matrices times a vector.

use super::{Index, Value, Vector, first8, first16};
use crate::host::prefetch::{AHEAD, prefetch};
use crate::host::simd::Rows;
use std::arch::x86_64::*;

/// Rows with results in f64. Entries behind the end of a row and columns outside of x are masked out, so that nothing
/// beyond the slices is touched; the result says whether all columns were inside.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub fn wide<S: Value, X: Vector, I: Index>(rows: &Rows<'_, S, I>, x: &[X], sums: &mut [f64]) -> bool {
    let (columns, values) = (rows.columns, rows.values);
    assert_eq!(columns.len(), values.len());
    let (length, shift) = (_mm256_set1_epi32(x.len() as i32), _mm256_set1_epi32(rows.shift));
    let mut outside = 0;
    for (k, sums) in sums.chunks_mut(8).enumerate() {
        let bounds = &rows.offsets[8 * k..][..=sums.len()];
        let mut lanes = [_mm512_setzero_pd(); 8];
        for (bounds, lanes) in bounds.windows(2).zip(&mut lanes) {
            let (mut at, end) = (bounds[0], bounds[1]);
            assert!(at <= end && end <= columns.len(), "row offsets are not in order");
            let mut sum = _mm512_setzero_pd();
            while at < end {
                prefetch(columns, at + AHEAD);
                prefetch(values, at + AHEAD);
                let mask = first8(end - at);
                // SAFETY: the mask ends with the row, which lies in both slices; the gather's mask leaves indices
                // below the length of x.
                unsafe {
                    let column = _mm256_add_epi32(I::eight(mask, columns.as_ptr().add(at)), shift);
                    let inside = _mm256_mask_cmplt_epu32_mask(mask, column, length);
                    outside |= mask & !inside;
                    let value = S::load_wide(mask, values.as_ptr().add(at));
                    sum = _mm512_add_pd(sum, _mm512_mul_pd(value, X::gather_wide(inside, column, x.as_ptr())));
                }
                at += 8;
            }
            *lanes = sum;
        }
        // SAFETY: the mask is as long as the slice.
        unsafe { _mm512_mask_storeu_pd(sums.as_mut_ptr(), first8(sums.len()), sum_wide(&lanes)) };
    }
    outside == 0
}

/// Rows with results in f32, as [`wide`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub fn narrow<S: Value, X: Vector, I: Index>(rows: &Rows<'_, S, I>, x: &[X], sums: &mut [f32]) -> bool {
    let (columns, values) = (rows.columns, rows.values);
    assert_eq!(columns.len(), values.len());
    let (length, shift) = (_mm512_set1_epi32(x.len() as i32), _mm512_set1_epi32(rows.shift));
    let mut outside = 0;
    for (k, sums) in sums.chunks_mut(16).enumerate() {
        let bounds = &rows.offsets[16 * k..][..=sums.len()];
        let mut lanes = [_mm512_setzero_ps(); 16];
        for (bounds, lanes) in bounds.windows(2).zip(&mut lanes) {
            let (mut at, end) = (bounds[0], bounds[1]);
            assert!(at <= end && end <= columns.len(), "row offsets are not in order");
            let mut sum = _mm512_setzero_ps();
            while at < end {
                prefetch(columns, at + AHEAD);
                prefetch(values, at + AHEAD);
                let mask = first16(end - at);
                // SAFETY: as in `wide`.
                unsafe {
                    let column = _mm512_add_epi32(I::sixteen(mask, columns.as_ptr().add(at)), shift);
                    let inside = _mm512_mask_cmplt_epu32_mask(mask, column, length);
                    outside |= mask & !inside;
                    let value = S::load_narrow(mask, values.as_ptr().add(at));
                    sum = _mm512_add_ps(sum, _mm512_mul_ps(value, X::gather_narrow(inside, column, x.as_ptr())));
                }
                at += 16;
            }
            *lanes = sum;
        }
        // SAFETY: the mask is as long as the slice.
        unsafe { _mm512_mask_storeu_ps(sums.as_mut_ptr(), first16(sums.len()), sum_narrow(&lanes)) };
    }
    outside == 0
}

/// The sums of eight rows, each over its lanes in the order of the portable code: the upper half is added to the lower
/// one, three times. Rows are brought together in an order that leaves the results in theirs.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn sum_wide(l: &[__m512d; 8]) -> __m512d {
    let halves = |a, b| _mm512_add_pd(_mm512_shuffle_f64x2::<0x44>(a, b), _mm512_shuffle_f64x2::<0xEE>(a, b));
    let quarters = |a, b| _mm512_add_pd(_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xDD>(a, b));
    let four = |i: usize| quarters(halves(l[i], l[i + 2]), halves(l[i + 4], l[i + 6]));
    let (a, b) = (four(0), four(1));
    _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b))
}

/// [`sum_wide`] for sixteen rows.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn sum_narrow(l: &[__m512; 16]) -> __m512 {
    let halves = |a, b| _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b));
    let quarters = |a, b| _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xDD>(a, b));
    let four = |i: usize| quarters(halves(l[i], l[i + 4]), halves(l[i + 8], l[i + 12]));
    let eighths = |a, b| _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xEE>(a, b));
    let (a, b) = (eighths(four(0), four(1)), eighths(four(2), four(3)));
    _mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xDD>(a, b))
}
