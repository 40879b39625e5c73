//! Products of dense blocks, c += a b, a register for each row of c.
//!
//! Rows of a block are shorter than a register. The blocks c of a row therefore have room for whole registers while
//! terms are added to them: what is stored in parts cannot be loaded again before it has reached the cache, which takes
//! longer than the product.

use crate::host::spgemm_symbolic::Position;
use crate::scalar::{NumbersRef, SliceMut};
use std::arch::x86_64::*;

/// Numbers of a register.
const LANES: usize = 8;

/// Length of an accumulated block c of so many rows: each row is padded to whole registers.
pub fn padded(rows: usize) -> usize {
    rows * LANES
}

/// Whether there is a kernel for these types and dimensions: rows, inner and columns. Only where
/// [`is_present`](super::is_present).
pub fn has_kernel(dimensions: (usize, usize, usize), values: NumbersRef<'_>) -> bool {
    matches!(values, NumbersRef::F64(_)) && matches!(dimensions, (3, 3, 6) | (6, 3, 6) | (6, 6, 6))
}

/// Adds a times each of the blocks `b` to the block of `sums` at its position. Only where [`has_kernel`] says so.
#[inline(always)]
pub fn add_products<P: Position>(
    dimensions: (usize, usize, usize),
    a: NumbersRef<'_>,
    b: NumbersRef<'_>,
    positions: &[P],
    sums: SliceMut<'_>,
) {
    let (NumbersRef::F64(a), NumbersRef::F64(b), SliceMut::F64(sums)) = (a, b, sums) else {
        unreachable!("there are kernels for f64")
    };
    // SAFETY (all): the caller has found the processor's features.
    match dimensions {
        (3, 3, 6) => unsafe { add::<3, 3, 6, P>(a, b, positions, sums) },
        (6, 3, 6) => unsafe { add::<6, 3, 6, P>(a, b, positions, sums) },
        (6, 6, 6) => unsafe { add::<6, 6, 6, P>(a, b, positions, sums) },
        _ => unreachable!("there is no kernel for blocks of {dimensions:?}"),
    }
}

/// [`add_products`] for blocks of these dimensions. SpgemmSymbolic are added from the first column of a to the last,
/// without fused operations, as the portable code does.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn add<const R: usize, const K: usize, const C: usize, P: Position>(
    a: &[f64],
    b: &[f64],
    positions: &[P],
    sums: &mut [f64],
) {
    const { assert!(C <= LANES) };
    assert!(a.len() == R * K && b.len() == positions.len() * K * C);
    let mask = u8::MAX >> (LANES - C);
    for (position, b) in positions.iter().zip(b.chunks_exact(K * C)) {
        let c = &mut sums[position.to_usize() * R * LANES..][..R * LANES];
        // SAFETY: b has K rows of as many numbers as the mask has bits.
        let b: [__m512d; K] = std::array::from_fn(|k| unsafe { _mm512_maskz_loadu_pd(mask, b.as_ptr().add(k * C)) });
        for (a, c) in a.chunks_exact(K).zip(c.chunks_exact_mut(LANES)) {
            // SAFETY (both): a row of c is a whole register.
            let mut sum = unsafe { _mm512_loadu_pd(c.as_ptr()) };
            for (a, b) in a.iter().zip(b) {
                sum = _mm512_add_pd(sum, _mm512_mul_pd(_mm512_set1_pd(*a), b));
            }
            unsafe { _mm512_storeu_pd(c.as_mut_ptr(), sum) };
        }
    }
}

/// Moves finished blocks with rows of `cols` numbers to where they belong, and leaves zeros. Only where [`has_kernel`]
/// says so.
pub fn take(sums: SliceMut<'_>, cols: usize, to: SliceMut<'_>) {
    let (SliceMut::F64(sums), SliceMut::F64(to)) = (sums, to) else { unreachable!("there are kernels for f64") };
    // SAFETY: the caller has found the processor's features.
    unsafe { move_rows(sums, cols, to) }
}

#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn move_rows(sums: &mut [f64], cols: usize, to: &mut [f64]) {
    assert!(cols <= LANES);
    let mask = super::first8(cols);
    for (to, from) in to.chunks_exact_mut(cols).zip(sums.chunks_exact_mut(LANES)) {
        // SAFETY (all): a row of sums is a whole register, and a row of `to` has as many numbers as the mask has bits.
        unsafe {
            _mm512_mask_storeu_pd(to.as_mut_ptr(), mask, _mm512_loadu_pd(from.as_ptr()));
            _mm512_storeu_pd(from.as_mut_ptr(), _mm512_setzero_pd());
        }
    }
}

/// A row of A in blocks, and B.
pub struct Factors<'a> {
    /// Rows, inner and columns.
    pub dimensions: (usize, usize, usize),
    /// The blocks of the row of A.
    pub a: NumbersRef<'a>,
    /// For each of them the first block of its row of B.
    pub starts: &'a [usize],
    /// The blocks of B.
    pub b: NumbersRef<'a>,
}

/// The blocks `to` of a row of C, each the sum of as many products as its count says: of a block of A and of one in the
/// row of B of that. Gives the terms behind those. Only where [`has_kernel`] says so.
pub fn gather<'t>(factors: &Factors<'_>, counts: &[u8], terms: &'t [[u8; 2]], to: SliceMut<'_>) -> &'t [[u8; 2]] {
    let (NumbersRef::F64(a), NumbersRef::F64(b), SliceMut::F64(to)) = (&factors.a, &factors.b, to) else {
        unreachable!("there are kernels for f64")
    };
    let starts = factors.starts;
    // SAFETY (all): the caller has found the processor's features.
    match factors.dimensions {
        (3, 3, 6) => unsafe { sum::<3, 3, 6>((a, starts, b), counts, terms, to) },
        (6, 3, 6) => unsafe { sum::<6, 3, 6>((a, starts, b), counts, terms, to) },
        (6, 6, 6) => unsafe { sum::<6, 6, 6>((a, starts, b), counts, terms, to) },
        dimensions => unreachable!("there is no kernel for blocks of {dimensions:?}"),
    }
}

/// [`gather`] for blocks of these dimensions. SpgemmSymbolic are added as by [`add`].
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn sum<'t, const R: usize, const K: usize, const C: usize>(
    factors: (&[f64], &[usize], &[f64]),
    counts: &[u8],
    mut terms: &'t [[u8; 2]],
    to: &mut [f64],
) -> &'t [[u8; 2]] {
    const { assert!(C <= LANES) };
    // Each addition to a number waits for the one before. Blocks of few rows have not enough numbers to fill that time,
    // so there are two at once.
    let (pairs, last) = counts.as_chunks::<2>();
    let (to_pairs, to_last) = to.split_at_mut(pairs.len() * 2 * R * C);
    for ([first, second], to) in pairs.iter().zip(to_pairs.chunks_exact_mut(2 * R * C)) {
        let (x, later) = terms.split_at(*first as usize);
        let (y, later) = later.split_at(*second as usize);
        terms = later;
        let both = x.len().min(y.len());
        let mut sums = [[_mm512_setzero_pd(); R]; 2];
        let [of_x, of_y] = &mut sums;
        for (x, y) in x.iter().zip(y) {
            add_term::<R, K, C>(factors, x, of_x);
            add_term::<R, K, C>(factors, y, of_y);
        }
        x[both..].iter().for_each(|x| add_term::<R, K, C>(factors, x, of_x));
        y[both..].iter().for_each(|y| add_term::<R, K, C>(factors, y, of_y));
        store::<C>(sums.as_flattened(), to);
    }
    if let [count] = last {
        let (x, later) = terms.split_at(*count as usize);
        terms = later;
        let mut sums = [_mm512_setzero_pd(); R];
        x.iter().for_each(|x| add_term::<R, K, C>(factors, x, &mut sums));
        store::<C>(&sums, to_last);
    }
    terms
}

/// Adds to the rows of a block of C the product of a block of A and one of B: of the position of the first in its row
/// of A, and of the position of the other in that row of B.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn add_term<const R: usize, const K: usize, const C: usize>(
    (a, starts, b): (&[f64], &[usize], &[f64]),
    [left, right]: &[u8; 2],
    sums: &mut [__m512d; R],
) {
    let mask = u8::MAX >> (LANES - C);
    let b = &b[(starts[*left as usize] + *right as usize) * K * C..][..K * C];
    let a = &a[*left as usize * R * K..][..R * K];
    // SAFETY: b has K rows of as many numbers as the mask has bits.
    let b: [__m512d; K] = std::array::from_fn(|k| unsafe { _mm512_maskz_loadu_pd(mask, b.as_ptr().add(k * C)) });
    for (a, sum) in a.chunks_exact(K).zip(sums) {
        for (a, b) in a.iter().zip(b) {
            *sum = _mm512_add_pd(*sum, _mm512_mul_pd(_mm512_set1_pd(*a), b));
        }
    }
}

/// Stores rows of C numbers, one in each register.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn store<const C: usize>(rows: &[__m512d], to: &mut [f64]) {
    let mask = u8::MAX >> (LANES - C);
    for (to, row) in to.chunks_exact_mut(C).zip(rows) {
        // SAFETY: a row of `to` has as many numbers as the mask has bits.
        unsafe { _mm512_mask_storeu_pd(to.as_mut_ptr(), mask, *row) };
    }
}
