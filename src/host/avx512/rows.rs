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
        if let Some(masks) = masks_of_short(bounds, columns.len()) {
            // Four rows at a time: there are seven registers for masks.
            for four in [0, 4] {
                let mut column = [_mm256_setzero_si256(); 4];
                let mut largest = _mm256_setzero_si256();
                for r in 0..4 {
                    let (mask, at) = (masks[four + r], bounds[four + r]);
                    prefetch(columns, at + AHEAD);
                    // SAFETY: the mask ends with the row, which lies in the slice.
                    column[r] = unsafe { _mm256_add_epi32(I::eight(mask, columns.as_ptr().add(at)), shift) };
                    largest = _mm256_mask_max_epu32(largest, mask, largest, column[r]);
                }
                if _mm256_cmplt_epu32_mask(largest, length) != u8::MAX {
                    return false;
                }
                for r in 0..4 {
                    let (mask, at) = (masks[four + r], bounds[four + r]);
                    prefetch(values, at + AHEAD);
                    // SAFETY: as above; all columns are below the length of x.
                    unsafe {
                        let value = S::load_wide(mask, values.as_ptr().add(at));
                        let product = _mm512_mul_pd(value, X::gather_wide(mask, column[r], x.as_ptr()));
                        lanes[four + r] = _mm512_add_pd(_mm512_setzero_pd(), product);
                    }
                }
            }
        } else {
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
        }
        // SAFETY: the mask is as long as the slice.
        unsafe { _mm512_mask_storeu_pd(sums.as_mut_ptr(), first8(sums.len()), sum_wide(&lanes)) };
    }
    outside == 0
}

/// For eight rows with these bounds, of which none has more than eight entries, a mask of those of each. Most rows of
/// most finest matrices are so short that finding out about each one takes longer than multiplying it.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn masks_of_short(bounds: &[usize], entries: usize) -> Option<[u8; 8]> {
    let &[first, .., last] = bounds else { return None };
    if bounds.len() != 9 || first > last || last > entries {
        return None;
    }
    // SAFETY: there are nine bounds of 64 bits; the loads take the first and the last eight.
    let (begins, ends) = unsafe {
        let at = bounds.as_ptr().cast::<i64>();
        (_mm512_loadu_epi64(at), _mm512_loadu_epi64(at.add(1)))
    };
    let lengths = _mm512_sub_epi64(ends, begins);
    if _mm512_cmple_epu64_mask(lengths, _mm512_set1_epi64(8)) != u8::MAX {
        return None;
    }
    let ones = _mm512_set1_epi64(1);
    let masks = _mm512_sub_epi64(_mm512_sllv_epi64(ones, lengths), ones);
    Some((_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(masks)) as u64).to_le_bytes())
}

/// Rows with results in f32, as [`wide`]. Short rows take half of a register, whose other half would add zeros.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub fn narrow<S: Value, X: Vector, I: Index>(rows: &Rows<'_, S, I>, x: &[X], sums: &mut [f32]) -> bool {
    let (columns, values) = (rows.columns, rows.values);
    assert_eq!(columns.len(), values.len());
    let (length, shift) = (_mm512_set1_epi32(x.len() as i32), _mm512_set1_epi32(rows.shift));
    let (length8, shift8) = (_mm512_castsi512_si256(length), _mm512_castsi512_si256(shift));
    let mut outside = 0;
    for (k, sums) in sums.chunks_mut(16).enumerate() {
        let bounds = &rows.offsets[16 * k..][..=sums.len()];
        let mut lanes = [_mm512_setzero_ps(); 16];
        for half in 0..sums.len().div_ceil(8) {
            let bounds = &bounds[8 * half..(8 * half + 9).min(bounds.len())];
            let lanes = &mut lanes[8 * half..][..8];
            if let Some(masks) = masks_of_short(bounds, columns.len()) {
                let mut column = [_mm256_setzero_si256(); 8];
                let mut largest = _mm256_setzero_si256();
                for r in 0..8 {
                    let mask = masks[r];
                    prefetch(columns, bounds[r] + AHEAD);
                    // SAFETY: the mask ends with the row, which lies in the slice.
                    column[r] = unsafe { _mm256_add_epi32(I::eight(mask, columns.as_ptr().add(bounds[r])), shift8) };
                    largest = _mm256_mask_max_epu32(largest, mask, largest, column[r]);
                }
                if _mm256_cmplt_epu32_mask(largest, length8) != u8::MAX {
                    return false;
                }
                for r in 0..8 {
                    prefetch(values, bounds[r] + AHEAD);
                    // SAFETY: as above; all columns are below the length of x.
                    unsafe {
                        let value = S::load_eight(masks[r], values.as_ptr().add(bounds[r]));
                        let product = _mm256_mul_ps(value, X::gather_eight(masks[r], column[r], x.as_ptr()));
                        lanes[r] = _mm512_zextps256_ps512(_mm256_add_ps(_mm256_setzero_ps(), product));
                    }
                }
                continue;
            }
            for (bounds, lanes) in bounds.windows(2).zip(lanes) {
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
