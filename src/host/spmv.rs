//! SpMV for any combination of storage and vector precisions. Sums have the precision of the result; f32 for 16-bit results.

use super::prefetch::prefetch;
use super::{block_rows, simd};
use crate::par;
use crate::scalar::{Number, NumbersRef, Precision, Scalar, Sums, with_vector_for};
use crate::sparse::{BLOCK_ROWS, Block, Compact, CsrView, Diagonals, GROUP, Offsets};

/// Most results of a group of rows by diagonals.
const LONGEST: usize = if GROUP > BLOCK_ROWS * simd::MAX_BLOCK { GROUP } else { BLOCK_ROWS * simd::MAX_BLOCK };

/// Most results of a group of rows in CSR: enough to hide the cost of a group, and few enough for the L1 cache.
const LONGEST_GROUP: usize = 128;

/// Scalar rows that one task handles.
const SPMV_GRAIN: usize = 4 * par::ROW_GRAIN;

/// A matrix as it is stored.
pub enum View<'a, S> {
    /// With columns of 32 bits.
    Csr(CsrView<'a, S>),
    /// With columns of 16 bits.
    Compact(&'a Compact<S>),
    /// By diagonals.
    Diagonals(&'a Diagonals<S>),
}

impl<'a, S> From<&CsrView<'a, S>> for View<'a, S> {
    fn from(a: &CsrView<'a, S>) -> View<'a, S> {
        View::Csr(CsrView { ..*a })
    }
}

/// The SpMV epilogue, for the products `ax` of a group of rows. It is a value, not a type: a branch for each group of rows costs
/// nothing, but loops for each combination of types cost compile time.
#[derive(Clone, Copy)]
pub(super) enum Epilogue<'a, Y: Number> {
    /// y = alpha ax.
    Overwrite(Y::Wide),
    /// y = alpha ax + beta y.
    Scale(Y::Wide, Y::Wide),
    /// y = b - ax.
    Residual(&'a [Y]),
}

impl<Y: Number> Epilogue<'_, Y> {
    /// y = alpha ax + beta y; y is not read when beta is 0.
    pub(super) fn new(alpha: Y::Wide, beta: Y::Wide) -> Self {
        if beta == Y::Wide::ZERO { Epilogue::Overwrite(alpha) } else { Epilogue::Scale(alpha, beta) }
    }

    /// Stores the results of the rows from `first` on.
    pub(super) fn store(&self, first: usize, ax: &[Y::Wide], y: &mut [Y]) {
        let pairs = y.iter_mut().zip(ax);
        match *self {
            Epilogue::Overwrite(alpha) => pairs.for_each(|(y, ax)| *y = Y::narrow(alpha * *ax)),
            Epilogue::Scale(alpha, beta) => pairs.for_each(|(y, ax)| *y = Y::narrow(alpha * *ax + beta * y.widen())),
            Epilogue::Residual(b) => pairs.zip(&b[first..]).for_each(|((y, ax), b)| *y = Y::narrow(b.widen() - *ax)),
        }
    }
}

/// y = alpha A x + beta y; y is not read when beta is 0.
pub fn apply<'a, S: Number, X: Number, Y: Number>(
    a: impl Into<View<'a, S>>,
    alpha: Y::Wide,
    x: &[X],
    beta: Y::Wide,
    y: &mut [Y],
) {
    apply_with(a, alpha, x, beta, y, Sums::Wide);
}

/// [`apply`] with these sums.
pub fn apply_with<'a, S: Number, X: Number, Y: Number>(
    a: impl Into<View<'a, S>>,
    alpha: Y::Wide,
    x: &[X],
    beta: Y::Wide,
    y: &mut [Y],
    sums: Sums,
) {
    product(&a.into(), X::numbers(x), y, Epilogue::new(alpha, beta), sums);
}

/// r = b - A x, with these sums.
pub fn residual_with<'a, S: Number, X: Number, Y: Number>(
    a: impl Into<View<'a, S>>,
    b: &[Y],
    x: &[X],
    r: &mut [Y],
    sums: Sums,
) {
    assert_eq!(b.len(), r.len());
    product(&a.into(), X::numbers(x), r, Epilogue::Residual(b), sums);
}

/// The product of a matrix and `x`, with its epilogue. Generic over the storage and the results, not over the vector.
pub(super) fn product<S: Number, Y: Number>(
    a: &View<'_, S>,
    x: NumbersRef<'_>,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
    sums: Sums,
) {
    let round: Option<Round<Y::Wide>> = match sums {
        Sums::Rounded if const { !Y::PRECISION.is_scalar() } => Some(|sum| Y::narrow(sum).widen()),
        _ => None,
    };
    with_products(a, x, y.len(), round, &mut |groups| match groups {
        Groups::Rows { group, width, locate, multiply } => each_group(group, width, locate, y, epilogue, multiply),
        Groups::Diagonals { group, width, multiply } => each_diagonal_group(group, width, y, epilogue, multiply),
    });
}

/// Rounds a sum to the precision of the result.
type Round<W> = fn(W) -> W;

/// How the rows of a matrix are grouped, and the products of a group.
enum Groups<'a, W> {
    Rows { group: usize, width: usize, locate: &'a Locate<'a>, multiply: &'a Multiply<'a, W> },
    Diagonals { group: usize, width: usize, multiply: &'a MultiplyDiagonals<'a, W> },
}

/// Calls `run` with the products of `a` and `x`, of which there are `results`. Generic over the sums, not over the
/// results and the vector: there are an eighth as many combinations.
fn with_products<S: Number, W: Scalar>(
    a: &View<'_, S>,
    x: NumbersRef<'_>,
    results: usize,
    round: Option<Round<W>>,
    run: &mut dyn FnMut(Groups<'_, W>),
) {
    match a {
        View::Csr(a) => {
            assert_eq!((x.len(), results), (a.scalar_cols(), a.scalar_rows()));
            let (offsets, base, block) = (a.offsets, a.base, a.block);
            let (columns, values) = (a.columns, a.values);
            let locate = move |first: usize, to: &mut [usize]| locate_rows(offsets, base, first, to);
            let multiply = |offsets: &[usize], shift: i32, sums: &mut [W]| {
                let rows = simd::Rows { offsets, columns, values, shift };
                match (round, block) {
                    // Results of 16 bits have sums in f32.
                    (Some(round), block) if const { matches!(W::PRECISION, Precision::F32) } => {
                        with_vector_for!(S, x, x => rounded_products(&rows, block, x, sums, round));
                    }
                    (_, Block::SCALAR) => with_vector_for!(S, x, x => simd::row_products(&rows, x, sums)),
                    (_, block) => with_vector_for!(S, x, x => simd::block_row_products(&rows, block, x, sums)),
                }
            };
            let (group, width) = (LONGEST_GROUP / block.rows, block.rows);
            run(Groups::Rows { group, width, locate: &locate, multiply: &multiply });
        }
        View::Compact(a) => {
            assert_eq!((x.len(), results), (a.cols, a.rows()));
            let (offsets, bases, columns, values) = (&a.offsets[..], &a.bases[..], &a.columns[..], a.values.as_slice());
            let locate = move |first: usize, to: &mut [usize]| {
                copy_offsets(&offsets[first..], to, |o| *o as usize);
                bases[first / GROUP]
            };
            let multiply = |offsets: &[usize], shift: i32, sums: &mut [W]| {
                let rows = simd::Rows { offsets, columns, values, shift };
                with_vector_for!(S, x, x => simd::row_products(&rows, x, sums));
            };
            run(Groups::Rows { group: GROUP, width: 1, locate: &locate, multiply: &multiply });
        }
        View::Diagonals(a) => {
            let (width, group) = (a.width, a.group);
            assert_eq!((x.len(), results), (a.cols * width, a.rows * width));
            let multiply = |first: usize, sums: &mut [W]| {
                let (distances, values) = a.group(first / group);
                with_vector_for!(S, x, x => match width {
                    1 => simd::diagonal_products(distances, values, first, x, sums),
                    _ => block_rows::diagonal_products(width, distances, values, first, x, sums),
                });
            };
            run(Groups::Diagonals { group, width, multiply: &multiply });
        }
    }
}

/// Partial sums of a row with rounded sums.
const LANES: usize = 8;

/// Products of `rows` with `x`; sums are rounded after each term.
fn rounded_products<S: Number, X: Number, W: Scalar>(
    rows: &simd::Rows<'_, S, i32>,
    block: Block,
    x: &[X],
    sums: &mut [W],
    round: Round<W>,
) {
    let Block { rows: br, cols: bc } = block;
    for (k, sum) in sums.iter_mut().enumerate() {
        let (i, r) = (k / br, k % br);
        let mut lanes = [W::ZERO; LANES];
        let mut next = 0;
        for p in rows.offsets[i]..rows.offsets[i + 1] {
            let (j, values) = ((rows.columns[p] + rows.shift) as usize, &rows.values[p * block.len()..]);
            for (v, x) in values[r * bc..][..bc].iter().zip(&x[j * bc..]) {
                let lane = &mut lanes[next % LANES];
                *lane = round(*lane + v.cast::<W>() * x.cast());
                next += 1;
            }
        }
        let mut total = W::ZERO;
        for lane in lanes {
            total = round(total + lane);
        }
        *sum = total;
    }
}

/// As [`Locate`], for offsets from this base on.
pub(super) fn locate_rows(offsets: Offsets<'_>, base: i32, first: usize, to: &mut [usize]) -> i32 {
    match offsets {
        Offsets::I32(o) => copy_offsets(&o[first..], to, |o| *o as usize - base as usize),
        Offsets::I64(o) => copy_offsets(&o[first..], to, |o| *o as usize - base as usize),
    }
    -base
}

/// Converts the first offsets of `from`, and prefetches those of the next group.
fn copy_offsets<O>(from: &[O], to: &mut [usize], convert: impl Fn(&O) -> usize) {
    for line in (0..to.len()).step_by(64 / size_of::<O>()) {
        prefetch(from, to.len() + line);
    }
    to.iter_mut().zip(from).for_each(|(to, from)| *to = convert(from));
}

/// Writes the offsets of rows from the first one on, and returns the shift of their columns.
type Locate<'a> = dyn Fn(usize, &mut [usize]) -> i32 + Sync + 'a;

/// Products of a group of rows, given their offsets and the shift of their columns. Not generic: a call for each group costs
/// nothing, but a loop over groups for each combination of types costs compile time.
type Multiply<'a, W> = dyn Fn(&[usize], i32, &mut [W]) + Sync + 'a;

/// The same for a group of rows by diagonals, given its first row.
type MultiplyDiagonals<'a, W> = dyn Fn(usize, &mut [W]) + Sync + 'a;

/// Runs `sum` on all groups of rows, and the epilogue on its results. A row has `width` results.
fn each_group<Y: Number>(
    group: usize,
    width: usize,
    locate: &Locate<'_>,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
    sum: &Multiply<'_, Y::Wide>,
) {
    par::for_each_row_mut(y, width, (SPMV_GRAIN / width).next_multiple_of(group), |start, y| {
        let mut offsets = [0; LONGEST_GROUP + 1];
        let mut sums = [Y::Wide::ZERO; LONGEST_GROUP];
        for (k, y) in y.chunks_mut(group * width).enumerate() {
            let first = start + k * group;
            // Prefetches y of the next group.
            for line in (0..group * width).step_by(64 / size_of::<Y>()) {
                prefetch(y, group * width + line);
            }
            let (offsets, sums) = (&mut offsets[..=y.len() / width], &mut sums[..y.len()]);
            let shift = locate(first, offsets);
            sum(offsets, shift, sums);
            epilogue.store(first * width, sums, y);
        }
    });
}

/// The same for rows by diagonals.
fn each_diagonal_group<Y: Number>(
    group: usize,
    width: usize,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
    sum: &MultiplyDiagonals<'_, Y::Wide>,
) {
    par::for_each_row_mut(y, width, (SPMV_GRAIN / width).next_multiple_of(group), |start, y| {
        let mut sums = [Y::Wide::ZERO; LONGEST];
        let sums = &mut sums[..group * width];
        for (k, y) in y.chunks_mut(group * width).enumerate() {
            let first = start + k * group;
            sum(first, sums);
            epilogue.store(first * width, &sums[..y.len()], y);
        }
    });
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::testing::assert_sum;
    use crate::sparse::Csr;

    /// A matrix with empty rows and one dense row, in blocks.
    fn irregular(rows: usize, cols: usize, block: Block) -> Csr<f64> {
        let mut offsets = vec![0];
        let mut columns = Vec::new();
        for i in 0..rows {
            for j in 0..cols {
                if i == rows / 2 || (i % 3 != 0 && hash(i * cols + j, 1).is_multiple_of(4)) {
                    columns.push(j as i32);
                }
            }
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::with_pattern(rows, cols, block, offsets, columns).unwrap();
        for (k, v) in a.values.iter_mut().enumerate() {
            *v = (hash(k, 2) % 1000) as f64 / 100.0 - 5.0;
        }
        a
    }

    #[test]
    fn products_match_the_dense_matrix_for_every_block_shape() {
        for br in 1..=8 {
            for bc in 1..=8 {
                let a = irregular(13, 11, Block { rows: br, cols: bc });
                let x: Vec<f64> = (0..11 * bc).map(|i| (i as f64).cos()).collect();
                let mut terms = vec![vec![0.5]; 13 * br];
                for i in 0..13 {
                    for (j, block) in a.view().row(i) {
                        for (k, v) in block.iter().enumerate() {
                            terms[i * br + k / bc].push(2.0 * v * x[j * bc + k % bc]);
                        }
                    }
                }
                let mut y = vec![1.0; 13 * br];
                apply(&a.view(), 2.0, &x, 0.5, &mut y);
                y.iter().zip(terms).for_each(|(y, terms)| assert_sum(*y, terms));

                let mut r = vec![f64::NAN; 13 * br];
                residual_with(&a.view(), &y, &x, &mut r, Sums::Wide);
                let mut s = vec![f64::NAN; 13 * br];
                apply(&a.view(), -1.0, &x, 0.0, &mut s);
                assert!((0..r.len()).all(|i| r[i] == y[i] + s[i]), "{br}x{bc}");
            }
        }
    }

    #[test]
    fn one_based_32_bit_offsets_and_mixed_precision_give_the_same_product() {
        let mut a = irregular(40, 40, Block::SCALAR);
        // Values that f32 holds: the sums are in f64 either way.
        a.values.iter_mut().for_each(|v| *v = f64::from(*v as f32));
        let x: Vec<f64> = (0..40).map(|i| i as f64 + 1.0).collect();
        let mut expected = vec![0.0; 40];
        apply(&a.view(), 1.0, &x, 0.0, &mut expected);

        let offsets: Vec<i32> = a.offsets.iter().map(|o| *o as i32 + 1).collect();
        let columns: Vec<i32> = a.columns.iter().map(|c| c + 1).collect();
        let values: Vec<f32> = a.values.iter().map(|v| *v as f32).collect();
        let view = CsrView {
            rows: 40,
            cols: 40,
            block: Block::SCALAR,
            offsets: Offsets::I32(&offsets),
            columns: &columns,
            values: &values,
            base: 1,
        };
        let x32: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        let mut y = vec![0.0_f64; 40];
        apply(&view, 1.0, &x32, 0.0, &mut y);
        assert_eq!(y, expected);
    }
}
