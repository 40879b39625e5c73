//! Rows of a sparse matrix times a vector, a register of 64 bytes at a time.
//!
//! A row of a scalar matrix is summed in [`lanes`] partial sums: entry k goes to sum k modulo their number. In a block
//! matrix column c of every block goes to sum c. Then the upper half of the sums is added to the lower one until one is
//! left. Processors with AVX-512 do that in registers; the portable code, which is compiled for AVX2, too, adds in the
//! same order, so that all give the same bits.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::prefetch::{AHEAD, prefetch};
use super::registers::{Call, Specialised, specialised, with_avx2};
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Column, GROUP};

/// The largest dimension of a block.
pub const MAX_BLOCK: usize = 8;

/// The most partial sums of a row.
const MAX_LANES: usize = 16;

/// Partial sums of a row of a scalar matrix with results of type `Y`: as many as fill a register.
const fn lanes<Y>() -> usize {
    if size_of::<Y>() == 8 { 8 } else { MAX_LANES }
}

/// Entries of a row that are added at a time: to all partial sums of a result in f64, to half of those in f32.
const CHUNK: usize = 8;

/// Some rows of a matrix; in blocks, if it has them.
pub struct Rows<'a, S, I> {
    /// Where each row begins and, last, where the last one ends; counted from 0.
    pub offsets: &'a [usize],
    /// Columns of the whole matrix.
    pub columns: &'a [I],
    /// Values of the whole matrix.
    pub values: &'a [S],
    /// What is to be added to the columns.
    pub shift: i32,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl<S, I: Column> Rows<'_, S, I> {
    fn lines(&self) -> avx512::Lines<'_> {
        avx512::Lines { offsets: self.offsets, columns: I::columns(self.columns), shift: self.shift }
    }
}

/// The products of all `rows` with `x`. Panics when a column lies outside of `x`.
pub fn row_products<S: Number, X: Number, Y: Scalar, I: Column>(rows: &Rows<'_, S, I>, x: &[X], sums: &mut [Y]) {
    assert_eq!(rows.offsets.len(), sums.len() + 1);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present()
        && avx512::row_products(&rows.lines(), S::numbers(rows.values), X::numbers(x), Y::slice_mut(sums))
    {
        return;
    }
    specialised(Products { rows, x, sums });
}

struct Products<'a, S, X, Y, I> {
    rows: &'a Rows<'a, S, I>,
    x: &'a [X],
    sums: &'a mut [Y],
}

impl<S: Number, X: Number, Y: Scalar, I: Column> Specialised for Products<'_, S, X, Y, I> {
    #[inline(always)]
    fn run<const HAS_FORMS: bool>(self) {
        portable::<HAS_FORMS, S, X, Y, I>(self.rows, self.x, self.sums);
    }
}

/// [`row_products`] for blocks.
pub fn block_row_products<S: Number, X: Number, Y: Scalar>(
    rows: &Rows<'_, S, i32>,
    block: Block,
    x: &[X],
    sums: &mut [Y],
) {
    assert_eq!((rows.offsets.len() - 1) * block.rows, sums.len());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        let (values, x, sums) = (S::numbers(rows.values), X::numbers(x), Y::slice_mut(sums));
        if avx512::block_row_products(&rows.lines(), block, values, x, sums) {
            return;
        }
    }
    specialised(BlockProducts { rows, block, x, sums });
}

struct BlockProducts<'a, S, X, Y> {
    rows: &'a Rows<'a, S, i32>,
    block: Block,
    x: &'a [X],
    sums: &'a mut [Y],
}

impl<S: Number, X: Number, Y: Scalar> Specialised for BlockProducts<'_, S, X, Y> {
    #[inline(always)]
    fn run<const HAS_FORMS: bool>(self) {
        portable_blocks::<HAS_FORMS, S, X, Y>(self.rows, self.block, self.x, self.sums);
    }
}

/// The products of a group of rows by diagonals, of which the first row is `first`, with `x`. A row is summed from the
/// first diagonal to the last.
pub fn diagonal_products<S: Number, X: Number, Y: Scalar>(
    distances: &[i32],
    values: &[S],
    first: usize,
    x: &[X],
    sums: &mut [Y],
) {
    assert!(values.len() == distances.len() * GROUP && sums.len() == GROUP);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        let (values, x, sums) = (S::numbers(values), X::numbers(x), Y::slice_mut(sums));
        if avx512::diagonal_products(distances, values, first, x, sums) {
            return;
        }
    }
    with_avx2(Call(
        #[inline(always)]
        || portable_diagonals(distances, values, first, x, sums),
    ));
}

#[inline(always)]
fn portable_diagonals<S: Number, X: Number, Y: Scalar>(
    distances: &[i32],
    values: &[S],
    first: usize,
    x: &[X],
    sums: &mut [Y],
) {
    sums.fill(Y::ZERO);
    for (distance, values) in distances.iter().zip(values.chunks_exact(GROUP)) {
        let begin = first as i64 + i64::from(*distance);
        // Rows whose entry would lie outside of x have none.
        let skipped = (-begin).clamp(0, GROUP as i64) as usize;
        let x = &x[(begin.max(0) as usize).min(x.len())..];
        for ((sum, v), x) in sums[skipped..].iter_mut().zip(&values[skipped..]).zip(x) {
            *sum += v.cast::<Y>() * x.cast();
        }
    }
}

/// With a loop of its own for each small number of entries, or without them.
#[inline(always)]
fn portable<const HAS_FORMS: bool, S: Number, X: Number, Y: Scalar, I: Column>(
    rows: &Rows<'_, S, I>,
    x: &[X],
    sums: &mut [Y],
) {
    let Rows { offsets, columns, values, shift } = *rows;
    for (range, sum) in offsets.windows(2).zip(sums) {
        let (begin, end) = (range[0], range[1]);
        prefetch(columns, begin + AHEAD);
        prefetch(values, begin + AHEAD);
        let (c, v) = (&columns[begin..end], &values[begin..end]);
        // Most rows of most finest matrices are short. For each length there is a loop without branches.
        *sum = match if HAS_FORMS { c.len() } else { CHUNK } {
            0 => Y::ZERO,
            1 => short_row::<1, S, X, Y, I>(c, v, shift, x),
            2 => short_row::<2, S, X, Y, I>(c, v, shift, x),
            3 => short_row::<3, S, X, Y, I>(c, v, shift, x),
            4 => short_row::<4, S, X, Y, I>(c, v, shift, x),
            5 => short_row::<5, S, X, Y, I>(c, v, shift, x),
            6 => short_row::<6, S, X, Y, I>(c, v, shift, x),
            7 => short_row::<7, S, X, Y, I>(c, v, shift, x),
            _ => long_row(c, v, shift, x, |k| {
                prefetch(columns, begin + k + AHEAD);
                prefetch(values, begin + k + AHEAD);
            }),
        };
    }
}

/// The sum of a row with N entries.
#[inline(always)]
fn short_row<const N: usize, S: Number, X: Number, Y: Scalar, I: Column>(c: &[I], v: &[S], shift: i32, x: &[X]) -> Y {
    let (Some(c), Some(v)) = (c.first_chunk::<N>(), v.first_chunk::<N>()) else {
        unreachable!("a row of this length");
    };
    let mut partial = [Y::ZERO; CHUNK];
    for k in 0..N {
        partial[k] += v[k].cast::<Y>() * x[(c[k].to_i32() + shift) as usize].cast();
    }
    add(partial)
}

/// The sum of a row with at least as many entries as half of a register has. `prefetch_from` is called for each part of it.
#[inline(always)]
fn long_row<S: Number, X: Number, Y: Scalar, I: Column>(
    c: &[I],
    v: &[S],
    shift: i32,
    x: &[X],
    prefetch_from: impl Fn(usize),
) -> Y {
    let product = |c: &I, v: &S| v.cast::<Y>() * x[(c.to_i32() + shift) as usize].cast();
    let add_all = |partial: &mut [Y; CHUNK], c: &[I; CHUNK], v: &[S; CHUNK]| {
        for k in 0..CHUNK {
            partial[k] += product(&c[k], &v[k]);
        }
    };
    let add_some = |partial: &mut [Y; CHUNK], c: &[I], v: &[S]| {
        for (partial, (c, v)) in partial[..CHUNK - 1].iter_mut().zip(c.iter().zip(v)) {
            *partial += product(c, v);
        }
    };
    let (columns, last_columns) = c.as_chunks::<CHUNK>();
    let (values, last_values) = v.as_chunks::<CHUNK>();
    let mut lower = [Y::ZERO; CHUNK];
    if const { lanes::<Y>() == CHUNK } {
        for (k, (columns, values)) in columns.iter().zip(values).enumerate() {
            prefetch_from(CHUNK * (k + 1));
            add_all(&mut lower, columns, values);
        }
        add_some(&mut lower, last_columns, last_values);
        return add(lower);
    }
    let mut upper = [Y::ZERO; CHUNK];
    let (column_pairs, column_chunk) = columns.as_chunks::<2>();
    let (value_pairs, value_chunk) = values.as_chunks::<2>();
    for (k, (columns, values)) in column_pairs.iter().zip(value_pairs).enumerate() {
        prefetch_from(2 * CHUNK * (k + 1));
        add_all(&mut lower, &columns[0], &values[0]);
        add_all(&mut upper, &columns[1], &values[1]);
    }
    if let ([columns], [values]) = (column_chunk, value_chunk) {
        add_all(&mut lower, columns, values);
        add_some(&mut upper, last_columns, last_values);
    } else {
        add_some(&mut lower, last_columns, last_values);
    }
    for k in 0..CHUNK {
        lower[k] += upper[k];
    }
    add(lower)
}

/// Blocks with so many columns have loops of that length.
#[inline(always)]
fn portable_blocks<const HAS_FORMS: bool, S: Number, X: Number, Y: Scalar>(
    rows: &Rows<'_, S, i32>,
    block: Block,
    x: &[X],
    sums: &mut [Y],
) {
    match block.cols {
        2 if HAS_FORMS => blocks_of::<2, S, X, Y>(rows, block, x, sums),
        3 if HAS_FORMS => blocks_of::<3, S, X, Y>(rows, block, x, sums),
        6 if HAS_FORMS => blocks_of::<6, S, X, Y>(rows, block, x, sums),
        _ => blocks_of::<0, S, X, Y>(rows, block, x, sums),
    }
}

/// Blocks with COLS columns, or with as many as they have where it is 0.
#[inline(always)]
fn blocks_of<const COLS: usize, S: Number, X: Number, Y: Scalar>(
    rows: &Rows<'_, S, i32>,
    block: Block,
    x: &[X],
    sums: &mut [Y],
) {
    let cols = if COLS > 0 { COLS } else { block.cols };
    let width = block.rows * cols;
    for (range, sums) in rows.offsets.windows(2).zip(sums.chunks_exact_mut(block.rows)) {
        let mut partial = [[Y::ZERO; MAX_BLOCK]; MAX_BLOCK];
        for p in range[0]..range[1] {
            let values = &rows.values[p * width..][..width];
            let x = &x[(rows.columns[p] + rows.shift) as usize * cols..][..cols];
            for line in (0..width).step_by(MAX_BLOCK) {
                prefetch(rows.values, p * width + line + AHEAD);
            }
            for (partial, values) in partial.iter_mut().zip(values.chunks_exact(cols)) {
                for k in 0..cols {
                    partial[k] += values[k].cast::<Y>() * x[k].cast();
                }
            }
        }
        for (sum, partial) in sums.iter_mut().zip(partial) {
            *sum = add(partial);
        }
    }
}

/// The sum of the partial sums of a row: the upper half is added to the lower one until one is left.
#[inline(always)]
fn add<Y: Scalar>(p: [Y; CHUNK]) -> Y {
    ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::registers::with_each;
    use crate::host::testing::{check_each, numbers, skip_without_avx512, to_f64};
    use half::{bf16, f16};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Groups at both ends of a vector and inside of it, with diagonals that leave it and that do not.
    fn check_diagonals<S: Number, X: Number, Y: Scalar>() {
        let x: Vec<X> = numbers(200, 3);
        for (first, distances) in
            [(0, vec![-3, 0, 5]), (64, vec![-64, -1, 0, 72]), (128, vec![-128, 8, 9]), (64, vec![])]
        {
            let values: Vec<S> = numbers(distances.len() * GROUP, 2);
            let (exact_x, exact_values) = (to_f64(&x), to_f64(&values));
            let terms = |r: usize| {
                let term = |(k, distance): (usize, &i32)| {
                    let x = exact_x.get((first + r).wrapping_add_signed(*distance as isize));
                    x.map_or(0.0, |x| exact_values[k * GROUP + r] * x)
                };
                distances.iter().enumerate().map(term).collect()
            };
            check_each::<Y>(GROUP, &|sums| diagonal_products(&distances, &values, first, &x, sums), &terms);
        }
    }

    fn check<S: Number, X: Number, Y: Scalar>() {
        check_diagonals::<S, X, Y>();
        // The first rows are short, as those of most finest matrices are, and then there are others among them.
        let short = (0..34).map(|k| 5 * k % 9);
        let lengths: Vec<usize> = short.chain(0..40).chain([100, 0, 7, 8, 9]).collect();
        let mut offsets = vec![0];
        for n in &lengths {
            offsets.push(offsets[offsets.len() - 1] + n);
        }
        let n = offsets[lengths.len()];
        let wide: Vec<i32> = (0..n).map(|k| (hash(k, 1) % 50) as i32 + 1).collect();
        let narrow: Vec<u16> = wide.iter().map(|c| (c - 1) as u16).collect();
        let (values, x): (Vec<S>, Vec<X>) = (numbers(n, 2), numbers(57, 3));
        let (exact_values, exact_x) = (to_f64(&values), to_f64(&x));
        let offsets = &offsets[2..];
        for shift in [0, 7] {
            let terms = |i: usize| {
                let term = |k: usize| exact_values[k] * exact_x[(wide[k] - 1 + shift) as usize];
                (offsets[i]..offsets[i + 1]).map(term).collect()
            };
            let rows = Rows { offsets, columns: &wide, values: &values, shift: shift - 1 };
            let sums = check_each::<Y>(offsets.len() - 1, &|sums| row_products(&rows, &x, sums), &terms);
            let rows = Rows { offsets, columns: &narrow, values: &values, shift };
            let with_narrow = check_each::<Y>(offsets.len() - 1, &|sums| row_products(&rows, &x, sums), &terms);
            assert_eq!(sums, with_narrow, "16-bit columns");
        }
    }

    fn check_blocks<S: Number, X: Number, Y: Scalar>() {
        let offsets = [3, 3, 4, 9];
        let columns: Vec<i32> = (0..9).map(|k| (hash(k, 1) % 5) as i32 + 1).collect();
        for (br, bc) in (1..=MAX_BLOCK).flat_map(|r| (1..=MAX_BLOCK).map(move |c| (r, c))) {
            let (values, x): (Vec<S>, Vec<X>) = (numbers(9 * br * bc, 2), numbers(5 * bc, 3));
            let (exact_values, exact_x) = (to_f64(&values), to_f64(&x));
            let terms = |k: usize| {
                let (i, r) = (k / br, k % br);
                let entries = (offsets[i]..offsets[i + 1]).flat_map(|p| (0..bc).map(move |c| (p, c)));
                let term = |(p, c): (usize, usize)| {
                    exact_values[(p * br + r) * bc + c] * exact_x[(columns[p] - 1) as usize * bc + c]
                };
                entries.map(term).collect()
            };
            let rows = Rows { offsets: &offsets, columns: &columns, values: &values, shift: -1 };
            let block = Block { rows: br, cols: bc };
            check_each::<Y>(3 * br, &|sums| block_row_products(&rows, block, &x, sums), &terms);
        }
    }

    fn check_vectors<S: Number>() {
        check::<S, f64, f64>();
        check::<S, f64, f32>();
        check::<S, f32, f64>();
        check::<S, f32, f32>();
        check::<S, f16, f32>();
        check_blocks::<S, f64, f64>();
        check_blocks::<S, f64, f32>();
        check_blocks::<S, f32, f64>();
        check_blocks::<S, f32, f32>();
        check_blocks::<S, bf16, f32>();
    }

    #[test]
    fn all_registers_give_the_same_bits() {
        skip_without_avx512();
        check_vectors::<f64>();
        check_vectors::<f32>();
        check_vectors::<f16>();
        check_vectors::<bf16>();
    }

    #[test]
    fn rows_of_a_matrix_without_columns_have_the_product_zero() {
        let rows = Rows::<f64, i32> { offsets: &[0; 21], columns: &[], values: &[], shift: 0 };
        let mut sums = [1.0; 20];
        row_products(&rows, &[0.0_f64; 0], &mut sums);
        assert_eq!(sums, [0.0; 20]);
    }

    #[test]
    fn a_column_outside_of_the_vector_is_not_read() {
        check_outside(&[0, 2]);
    }

    #[test]
    fn nor_is_it_in_one_of_eight_short_rows() {
        check_outside(&[0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    /// Products must panic, whatever the registers.
    fn check_outside(offsets: &[usize]) {
        let rows = Rows::<f64, i32> { offsets, columns: &[0, 3], values: &[1.0, 1.0], shift: 0 };
        with_each(|registers| {
            let mut sums = vec![0.0; offsets.len() - 1];
            let outcome = catch_unwind(AssertUnwindSafe(|| row_products(&rows, &[1.0, 2.0, 3.0], &mut sums)));
            assert!(outcome.is_err(), "column 3 of a vector of 3 was read with {registers:?}: {sums:?}");
        });
    }
}
