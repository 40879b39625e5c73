//! SpMV with square blocks, many block rows at a time: one lane of a register for each block row.
//!
//! A row of a block is multiplied from its first column to its last, and the blocks of a row are added from first to
//! last. Processors with AVX-512 do this in registers; portable code, which is compiled for AVX2, too, adds in the same
//! order, so that all give the same bits.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::prefetch::{AHEAD, prefetch};
use super::registers::{Call, Specialised, specialised, with_avx2};
use crate::scalar::{Number, Scalar};
use crate::sparse::BLOCK_ROWS;

/// The products of [`BLOCK_ROWS`] block rows in diagonal format, from block row `first` on, with `x`; values as in
/// [`Diagonals`](crate::sparse::Diagonals), with blocks of `n` rows.
pub fn diagonal_products<S: Number, X: Number, Y: Scalar>(
    n: usize,
    distances: &[i32],
    values: &[S],
    first: usize,
    x: &[X],
    sums: &mut [Y],
) {
    assert!(values.len() == distances.len() * n * n * BLOCK_ROWS && sums.len() == n * BLOCK_ROWS);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        let (values, x, sums) = (S::numbers(values), X::numbers(x), Y::slice_mut(sums));
        if avx512::block_rows::diagonal_products(n, distances, values, first, x, sums) {
            return;
        }
    }
    specialised(Diagonals { n, distances, values, first, x, sums });
}

struct Diagonals<'a, S, X, Y> {
    n: usize,
    distances: &'a [i32],
    values: &'a [S],
    first: usize,
    x: &'a [X],
    sums: &'a mut [Y],
}

impl<S: Number, X: Number, Y: Scalar> Specialised for Diagonals<'_, S, X, Y> {
    #[inline(always)]
    fn run<const HAS_FORMS: bool>(self) {
        let Diagonals { n, distances, values, first, x, sums } = self;
        portable_diagonals::<HAS_FORMS, S, X, Y>(n, distances, values, first, x, sums);
    }
}

/// The products of a block diagonal `d`, with blocks of `n` rows, and x.
pub fn block_diagonal_products<S: Number, X: Number, Y: Scalar>(n: usize, d: &[S], x: &[X], sums: &mut [Y]) {
    assert!(d.len() == n * sums.len() && x.len() == sums.len() && sums.len().is_multiple_of(n));
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        let (d, x, sums) = (S::numbers(d), X::numbers(x), Y::slice_mut(sums));
        if avx512::block_rows::block_diagonal_products(n, d, x, sums) {
            return;
        }
    }
    with_avx2(Call(
        #[inline(always)]
        || portable_block_diagonal(n, d, x, sums),
    ));
}

/// Blocks with so many rows have loops of that length.
#[inline(always)]
fn portable_diagonals<const HAS_FORMS: bool, S: Number, X: Number, Y: Scalar>(
    n: usize,
    distances: &[i32],
    values: &[S],
    first: usize,
    x: &[X],
    sums: &mut [Y],
) {
    match n {
        2 if HAS_FORMS => diagonals_of::<2, S, X, Y>(distances, values, first, x, sums),
        3 if HAS_FORMS => diagonals_of::<3, S, X, Y>(distances, values, first, x, sums),
        6 if HAS_FORMS => diagonals_of::<6, S, X, Y>(distances, values, first, x, sums),
        _ => {
            sums.fill(Y::ZERO);
            for (distance, values) in distances.iter().zip(values.chunks_exact(n * n * BLOCK_ROWS)) {
                for (lane, sums) in sums.chunks_exact_mut(n).enumerate() {
                    // A block row has no block outside of x.
                    let Some(x) = block_of(x, n, first + lane, *distance) else { continue };
                    for (sum, values) in sums.iter_mut().zip(values.chunks_exact(n * BLOCK_ROWS)) {
                        *sum += row(values[lane..].iter().step_by(BLOCK_ROWS), x);
                    }
                }
            }
        }
    }
}

/// The unknowns that the block of a block row on a diagonal is multiplied with, if they are inside of x.
#[inline(always)]
fn block_of<X>(x: &[X], n: usize, block_row: usize, distance: i32) -> Option<&[X]> {
    block_row.checked_add_signed(distance as isize).and_then(|j| x.get(j * n..j * n + n))
}

/// Products by diagonals of blocks with N rows. A register has the same unknown of all block rows.
#[inline(always)]
fn diagonals_of<const N: usize, S: Number, X: Number, Y: Scalar>(
    distances: &[i32],
    values: &[S],
    first: usize,
    x: &[X],
    sums: &mut [Y],
) {
    let mut totals = [[Y::ZERO; BLOCK_ROWS]; N];
    for (distance, values) in distances.iter().zip(values.chunks_exact(N * N * BLOCK_ROWS)) {
        let begin = first as i64 + i64::from(*distance);
        let inside = usize::try_from(begin).ok().and_then(|begin| x.get(begin * N..(begin + BLOCK_ROWS) * N));
        match inside {
            Some(x) => add_blocks(values, x, &mut totals),
            None => {
                // Zeros for what is outside of x, where values are zero, too.
                let mut some = [[X::ZERO; N]; BLOCK_ROWS];
                for (lane, some) in some.iter_mut().enumerate() {
                    if let Some(x) = block_of(x, N, first + lane, *distance) {
                        some.copy_from_slice(x);
                    }
                }
                add_blocks(values, some.as_flattened(), &mut totals);
            }
        }
    }
    for (lane, sums) in sums.chunks_exact_mut(N).enumerate() {
        for (sum, total) in sums.iter_mut().zip(&totals) {
            *sum = total[lane];
        }
    }
}

#[inline(always)]
fn add_blocks<const N: usize, S: Number, X: Number, Y: Scalar>(all: &[S], x: &[X], totals: &mut [[Y; BLOCK_ROWS]; N]) {
    let x = &x[..BLOCK_ROWS * N];
    let mut lanes = [[Y::ZERO; BLOCK_ROWS]; N];
    for (c, lanes) in lanes.iter_mut().enumerate() {
        for (k, lane) in lanes.iter_mut().enumerate() {
            *lane = x[k * N + c].cast();
        }
    }
    for (r, (total, values)) in totals.iter_mut().zip(all.as_chunks::<BLOCK_ROWS>().0.as_chunks::<N>().0).enumerate() {
        for c in 0..N {
            prefetch(all, (r * N + c) * BLOCK_ROWS + AHEAD);
        }
        for k in 0..BLOCK_ROWS {
            let mut terms = values[0][k].cast::<Y>() * lanes[0][k];
            for c in 1..N {
                terms += values[c][k].cast::<Y>() * lanes[c][k];
            }
            total[k] += terms;
        }
    }
}

#[inline(always)]
fn portable_block_diagonal<S: Number, X: Number, Y: Scalar>(n: usize, d: &[S], x: &[X], sums: &mut [Y]) {
    for ((d, x), sums) in d.chunks_exact(n * n).zip(x.chunks_exact(n)).zip(sums.chunks_exact_mut(n)) {
        for (sum, d) in sums.iter_mut().zip(d.chunks_exact(n)) {
            *sum = row(d.iter(), x);
        }
    }
}

/// A row of a block times its part of x.
#[inline(always)]
fn row<'a, S: Number, X: Number, Y: Scalar>(values: impl Iterator<Item = &'a S>, x: &[X]) -> Y {
    values.zip(x).map(|(v, x)| v.cast::<Y>() * x.cast()).reduce(|sum, term| sum + term).unwrap_or(Y::ZERO)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::testing::{check_each, numbers, skip_without_avx512, to_f64};
    use half::{bf16, f16};

    /// Groups at both ends of a vector and inside of it, with diagonals that leave it and that do not.
    fn check_diagonals<S: Number, X: Number, Y: Scalar>(n: usize) {
        let x: Vec<X> = numbers(n * 60, 3);
        for (first, distances) in [(0, vec![-3, 0, 5]), (16, vec![-16, -1, 28]), (48, vec![-48, 2, 9]), (32, vec![])] {
            let mut values: Vec<S> = numbers(distances.len() * n * n * BLOCK_ROWS, 2);
            for (k, v) in values.iter_mut().enumerate() {
                let j = (first + k % BLOCK_ROWS) as i64 + i64::from(distances[k / (n * n * BLOCK_ROWS)]);
                if !(0..60).contains(&j) {
                    *v = S::ZERO;
                }
            }
            let (exact_x, exact_values) = (to_f64(&x), to_f64(&values));
            let terms = |k: usize| {
                let (lane, r) = (k / n, k % n);
                let mut terms = Vec::new();
                for (k, distance) in distances.iter().enumerate() {
                    for c in 0..n {
                        let place = (first + lane).wrapping_add_signed(*distance as isize);
                        let x = exact_x.get(place.wrapping_mul(n).wrapping_add(c));
                        let value = exact_values[((k * n + r) * n + c) * BLOCK_ROWS + lane];
                        terms.extend(x.map(|x| value * x));
                    }
                }
                terms
            };
            let product = |sums: &mut [Y]| diagonal_products(n, &distances, &values, first, &x, sums);
            check_each(n * BLOCK_ROWS, &product, &terms);
        }
    }

    /// Numbers of blocks that fill registers, and that do not.
    fn check_block_diagonal<S: Number, X: Number, Y: Scalar>(n: usize) {
        for blocks in [0, 1, 5, 8, 15, 16, 17, 40] {
            let (d, x): (Vec<S>, Vec<X>) = (numbers(blocks * n * n, 2), numbers(blocks * n, 3));
            let (exact_d, exact_x) = (to_f64(&d), to_f64(&x));
            let terms = |k: usize| (0..n).map(|c| exact_d[k * n + c] * exact_x[k / n * n + c]).collect();
            check_each::<Y>(n * blocks, &|sums| block_diagonal_products(n, &d, &x, sums), &terms);
        }
    }

    fn check<S: Number>() {
        for n in 1..=8 {
            check_diagonals::<S, f64, f64>(n);
            check_diagonals::<S, f32, f32>(n);
            check_diagonals::<S, f64, f32>(n);
            check_diagonals::<S, f16, f32>(n);
            check_block_diagonal::<S, f64, f64>(n);
            check_block_diagonal::<S, f32, f32>(n);
            check_block_diagonal::<S, bf16, f32>(n);
        }
    }

    #[test]
    fn all_registers_give_the_same_bits() {
        skip_without_avx512();
        check::<f64>();
        check::<f32>();
        check::<f16>();
        check::<bf16>();
    }
}
