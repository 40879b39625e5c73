//! Sparse matrix times vector, in any combination of storage and vector precisions. Sums are kept in the precision of the result.

use super::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView, Offsets};

/// What to do with a row's product `ax`. A value, not a type: one branch for each row costs nothing, one more set of kernels for each
/// combination of types does.
#[derive(Clone, Copy)]
enum Finish<'a, Y> {
    /// y = alpha ax.
    Overwrite(Y),
    /// y = alpha ax + beta y.
    Scale(Y, Y),
    /// y = b - ax.
    Residual(&'a [Y]),
}

impl<Y: Scalar> Finish<'_, Y> {
    #[inline(always)]
    fn row(&self, i: usize, ax: Y, y: &mut Y) {
        *y = match self {
            Finish::Overwrite(alpha) => *alpha * ax,
            Finish::Scale(alpha, beta) => *alpha * ax + *beta * *y,
            Finish::Residual(b) => b[i] - ax,
        };
    }
}

/// y = alpha A x + beta y; y is not read when beta is 0.
pub fn apply<S: Scalar, X: Scalar, Y: Scalar>(a: &CsrView<'_, S>, alpha: Y, x: &[X], beta: Y, y: &mut [Y]) {
    let finish = if beta == Y::ZERO { Finish::Overwrite(alpha) } else { Finish::Scale(alpha, beta) };
    product(a, x, y, finish);
}

/// r = b - A x.
pub fn residual<S: Scalar, X: Scalar, Y: Scalar>(a: &CsrView<'_, S>, b: &[Y], x: &[X], r: &mut [Y]) {
    assert_eq!(b.len(), r.len());
    product(a, x, r, Finish::Residual(b));
}

fn product<S: Scalar, X: Scalar, Y: Scalar>(a: &CsrView<'_, S>, x: &[X], y: &mut [Y], finish: Finish<'_, Y>) {
    assert_eq!(x.len(), a.scalar_cols());
    assert_eq!(y.len(), a.scalar_rows());
    match (a.block, a.offsets) {
        (Block::SCALAR, Offsets::I32(offsets)) => scalar_rows(a, |i| offsets[i] as usize, x, y, finish),
        (Block::SCALAR, Offsets::I64(offsets)) => scalar_rows(a, |i| offsets[i] as usize, x, y, finish),
        _ => blocks(a, x, y, finish),
    }
}

fn scalar_rows<S: Scalar, X: Scalar, Y: Scalar>(
    a: &CsrView<'_, S>,
    offset: impl Fn(usize) -> usize + Sync,
    x: &[X],
    y: &mut [Y],
    finish: Finish<'_, Y>,
) {
    let base = a.base as usize;
    par::for_each_mut(y, par::ROW_GRAIN, |start, y| {
        let mut begin = offset(start) - base;
        for (k, y) in y.iter_mut().enumerate() {
            let end = offset(start + k + 1) - base;
            let sum = row_product(&a.columns[begin..end], &a.values[begin..end], x, base);
            finish.row(start + k, sum, y);
            begin = end;
        }
    });
}

/// Four partial sums, so that no addition waits for the one before it.
#[inline(always)]
pub(super) fn row_product<S: Scalar, X: Scalar, Y: Scalar>(columns: &[i32], values: &[S], x: &[X], base: usize) -> Y {
    let term = |c: i32, v: S| v.cast::<Y>() * x[c as usize - base].cast();
    let mut sums = [Y::ZERO; 4];
    let (c4, v4) = (columns.chunks_exact(4), values.chunks_exact(4));
    let rest = c4.remainder().iter().zip(v4.remainder());
    for (c, v) in c4.zip(v4) {
        for (sum, (c, v)) in sums.iter_mut().zip(c.iter().zip(v)) {
            *sum += term(*c, *v);
        }
    }
    for (sum, (c, v)) in sums.iter_mut().zip(rest) {
        *sum += term(*c, *v);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Runs the kernel whose block dimensions are known at compile time where that is common, so that its loops unroll.
fn blocks<S: Scalar, X: Scalar, Y: Scalar>(a: &CsrView<'_, S>, x: &[X], y: &mut [Y], finish: Finish<'_, Y>) {
    match (a.block.rows, a.block.cols) {
        (2, 2) => block_rows(a, x, y, finish, Fixed::<2, 2>),
        (2, 3) => block_rows(a, x, y, finish, Fixed::<2, 3>),
        (3, 2) => block_rows(a, x, y, finish, Fixed::<3, 2>),
        (3, 3) => block_rows(a, x, y, finish, Fixed::<3, 3>),
        (3, 6) => block_rows(a, x, y, finish, Fixed::<3, 6>),
        (4, 4) => block_rows(a, x, y, finish, Fixed::<4, 4>),
        (6, 3) => block_rows(a, x, y, finish, Fixed::<6, 3>),
        (6, 6) => block_rows(a, x, y, finish, Fixed::<6, 6>),
        _ => block_rows(a, x, y, finish, a.block),
    }
}

trait Shape: Copy + Sync {
    fn rows(self) -> usize;
    fn cols(self) -> usize;
}

impl Shape for Block {
    #[inline(always)]
    fn rows(self) -> usize {
        self.rows
    }
    #[inline(always)]
    fn cols(self) -> usize {
        self.cols
    }
}

#[derive(Clone, Copy)]
struct Fixed<const R: usize, const C: usize>;

impl<const R: usize, const C: usize> Shape for Fixed<R, C> {
    #[inline(always)]
    fn rows(self) -> usize {
        R
    }
    #[inline(always)]
    fn cols(self) -> usize {
        C
    }
}

/// Largest number of rows in a block.
const MAX_BLOCK: usize = 8;

fn block_rows<S: Scalar, X: Scalar, Y: Scalar>(
    a: &CsrView<'_, S>,
    x: &[X],
    y: &mut [Y],
    finish: Finish<'_, Y>,
    shape: impl Shape,
) {
    let (br, bc) = (shape.rows(), shape.cols());
    par::for_each_row_mut(y, br, par::ROW_GRAIN / br, |start, y| {
        for (k, y) in y.chunks_exact_mut(br).enumerate() {
            let mut sums = [Y::ZERO; MAX_BLOCK];
            for p in a.row_range(start + k) {
                let x = &x[a.col(p) * bc..][..bc];
                let block = &a.values[p * br * bc..][..br * bc];
                for (sum, row) in sums[..br].iter_mut().zip(block.chunks_exact(bc)) {
                    for (v, x) in row.iter().zip(x) {
                        *sum += v.cast::<Y>() * x.cast();
                    }
                }
            }
            for (r, y) in y.iter_mut().enumerate() {
                finish.row((start + k) * br + r, sums[r], y);
            }
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
                if i == rows / 2 || (i % 3 != 0 && hash(i * cols + j, 1) % 4 == 0) {
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
                residual(&a.view(), &expected, &x, &mut r);
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
