//! Sparse matrix times vector, in any combination of storage and vector precisions. Sums are kept in the
//! precision of the result, those of 16-bit results in f32.

use super::{par, simd};
use crate::scalar::{Number, NumbersMut, NumbersRef, Scalar};
use crate::sparse::{Block, CsrView, Offsets};

/// Scalar rows that one task handles.
const SPMV_GRAIN: usize = 4 * par::ROW_GRAIN;

/// What to do with a row's product `ax`. A value, not a type: one branch for each row costs nothing, one more set of kernels for each
/// combination of types does.
#[derive(Clone, Copy)]
enum Finish<'a, Y: Number> {
    /// y = alpha ax.
    Overwrite(Y::Wide),
    /// y = alpha ax + beta y.
    Scale(Y::Wide, Y::Wide),
    /// y = b - ax.
    Residual(&'a [Y]),
}

impl<Y: Number> Finish<'_, Y> {
    /// The same for vectors of type `U`, `Y` under another name, with the right-hand side `b` if there is one.
    fn with<U: Number>(self, b: &[U]) -> Finish<'_, U> {
        match self {
            Finish::Overwrite(alpha) => Finish::Overwrite(alpha.cast()),
            Finish::Scale(alpha, beta) => Finish::Scale(alpha.cast(), beta.cast()),
            Finish::Residual(_) => Finish::Residual(b),
        }
    }

    #[inline(always)]
    fn row(&self, i: usize, ax: Y::Wide, y: &mut Y) {
        *y = Y::narrow(match self {
            Finish::Overwrite(alpha) => *alpha * ax,
            Finish::Scale(alpha, beta) => *alpha * ax + *beta * y.widen(),
            Finish::Residual(b) => b[i].widen() - ax,
        });
    }
}

/// What the sums of a row are kept in when the result has 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// f32.
    Wide,
    /// The format of the result: rounded after each term.
    Rounded,
}

/// y = alpha A x + beta y; y is not read when beta is 0.
pub fn apply<S: Number, X: Number, Y: Number>(a: &CsrView<'_, S>, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) {
    apply_with(a, alpha, x, beta, y, Sums::Wide);
}

/// [`apply`] with these sums.
pub fn apply_with<S: Number, X: Number, Y: Number>(
    a: &CsrView<'_, S>,
    alpha: Y::Wide,
    x: &[X],
    beta: Y::Wide,
    y: &mut [Y],
    sums: Sums,
) {
    let finish = if beta == Y::Wide::ZERO { Finish::Overwrite(alpha) } else { Finish::Scale(alpha, beta) };
    product(a, x, y, finish, sums);
}

/// r = b - A x, with these sums.
pub fn residual_with<S: Number, X: Number, Y: Number>(a: &CsrView<'_, S>, b: &[Y], x: &[X], r: &mut [Y], sums: Sums) {
    assert_eq!(b.len(), r.len());
    product(a, x, r, Finish::Residual(b), sums);
}

/// Chooses the code by the types of the vectors. Those that algorithms compute in have kernels of their own, which are compiled once for each
/// pair and not for each caller; 16-bit vectors are read and written one number at a time.
fn product<S: Number, X: Number, Y: Number>(
    a: &CsrView<'_, S>,
    x: &[X],
    y: &mut [Y],
    finish: Finish<'_, Y>,
    sums: Sums,
) {
    use {NumbersMut as To, NumbersRef as From};
    assert_eq!(x.len(), a.scalar_cols());
    assert_eq!(y.len(), a.scalar_rows());
    let b = match finish {
        Finish::Residual(b) => Some(Y::numbers(b)),
        _ => None,
    };
    match (X::numbers(x), Y::numbers_mut(y), b) {
        (From::F64(x), To::F64(y), None) => rows(a, x, y, finish.with(&[])),
        (From::F64(x), To::F64(y), Some(From::F64(b))) => rows(a, x, y, finish.with(b)),
        (From::F32(x), To::F32(y), None) => rows(a, x, y, finish.with(&[])),
        (From::F32(x), To::F32(y), Some(From::F32(b))) => rows(a, x, y, finish.with(b)),
        (From::F64(x), To::F32(y), None) => rows(a, x, y, finish.with(&[])),
        (From::F32(x), To::F64(y), None) => rows(a, x, y, finish.with(&[])),
        _ => one_by_one(a, x, y, finish, sums),
    }
}

fn rows<S: Number, X: Scalar, Y: Scalar>(a: &CsrView<'_, S>, x: &[X], y: &mut [Y], finish: Finish<'_, Y>) {
    match a.offsets {
        Offsets::I32(offsets) => rows_at(a, |i| offsets[i] as usize, x, y, finish),
        Offsets::I64(offsets) => rows_at(a, |i| offsets[i] as usize, x, y, finish),
    }
}

fn rows_at<S: Number, X: Scalar, Y: Scalar>(
    a: &CsrView<'_, S>,
    offset: impl Fn(usize) -> usize + Sync + Copy,
    x: &[X],
    y: &mut [Y],
    finish: Finish<'_, Y>,
) {
    let base = a.base as usize;
    let offset = |i: usize| offset(i) - base;
    let br = a.block.rows;
    par::for_each_row_mut(y, br, SPMV_GRAIN / br, |start, y| {
        let rows = simd::Rows { offset, first: start, columns: a.columns, values: a.values, base: a.base };
        let count = y.len() / br;
        let put = |k: usize, ax: Y| finish.row(start * br + k, ax, &mut y[k]);
        match a.block {
            Block::SCALAR => simd::row_products(&rows, x, count, put),
            block => simd::block_row_products(&rows, block, x, count, put),
        }
    });
}

/// Partial sums of a row, as in [`simd`].
const LANES: usize = 8;

fn one_by_one<S: Number, X: Number, Y: Number>(
    a: &CsrView<'_, S>,
    x: &[X],
    y: &mut [Y],
    finish: Finish<'_, Y>,
    sums: Sums,
) {
    let keep = |sum: Y::Wide| if sums == Sums::Rounded { Y::narrow(sum).widen() } else { sum };
    let Block { rows: br, cols: bc } = a.block;
    par::for_each_row_mut(y, br, SPMV_GRAIN / br, |start, y| {
        for (k, y) in y.iter_mut().enumerate() {
            let (i, r) = (start + k / br, k % br);
            let mut lanes = [Y::Wide::ZERO; LANES];
            let mut next = 0;
            for (j, block) in a.row(i) {
                for (v, x) in block[r * bc..][..bc].iter().zip(&x[j * bc..]) {
                    let lane = &mut lanes[next % LANES];
                    *lane = keep(*lane + v.cast::<Y::Wide>() * x.cast());
                    next += 1;
                }
            }
            let sum = lanes.into_iter().fold(Y::Wide::ZERO, |sum, lane| keep(sum + lane));
            finish.row(start * br + k, sum, y);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::hash;
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
                let mut expected = vec![0.5; 13 * br];
                for i in 0..13 {
                    for (j, block) in a.view().row(i) {
                        for r in 0..br {
                            for c in 0..bc {
                                expected[i * br + r] += 2.0 * block[r * bc + c] * x[j * bc + c];
                            }
                        }
                    }
                }
                let mut y = vec![1.0; 13 * br];
                apply(&a.view(), 2.0, &x, 0.5, &mut y);
                assert!(y.iter().zip(&expected).all(|(y, e)| (y - e).abs() < 1e-11), "{br}x{bc}");

                let mut r = vec![f64::NAN; 13 * br];
                residual_with(&a.view(), &expected, &x, &mut r, Sums::Wide);
                let mut s = vec![f64::NAN; 13 * br];
                apply(&a.view(), -1.0, &x, 0.0, &mut s);
                assert!((0..r.len()).all(|i| (r[i] - expected[i] - s[i]).abs() < 1e-11));
            }
        }
    }

    #[test]
    fn one_based_32_bit_offsets_and_mixed_precision_give_the_same_product() {
        let a = irregular(40, 40, Block::SCALAR);
        let x: Vec<f64> = (0..40).map(|i| i as f64).collect();
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
        assert!(y.iter().zip(&expected).all(|(y, e)| (y - e).abs() < 1e-3));
    }
}
