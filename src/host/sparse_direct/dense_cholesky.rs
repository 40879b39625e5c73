//! A = L S Lᵀ of a full symmetric matrix, S a diagonal of signs: one front with all columns, in the order of the matrix. No
//! order has less fill, so neither an order is looked for nor a tree. Otherwise it is as `cholesky.rs`.

use super::cholesky::{Failure, Inertia, ZeroPivots};
use super::front::{self, TILE};
use crate::error::try_vec;
use crate::par;
use crate::sparse::Csr;

/// The factor of a matrix.
pub struct DenseCholesky {
    pub inertia: Inertia,
    rows: usize,
    /// L by columns, in the lower triangle.
    values: Vec<f64>,
}

/// Values of the factor of a matrix of n rows, those above the diagonal included.
pub fn stored(n: usize) -> usize {
    n * n
}

/// Values that the factorisation takes beside them.
pub fn temporary(n: usize) -> usize {
    front::scratch(n, n)
}

impl DenseCholesky {
    /// Factorises a matrix that is scaled by `scale` from both sides, so that its diagonal is about 1. Entries (i, j) and
    /// (j, i) are averaged.
    pub fn new(
        (a, transpose): (&Csr<f64>, &Csr<f64>),
        scale: &[f64],
        zero_pivots: ZeroPivots,
    ) -> Result<DenseCholesky, Failure> {
        let values = try_vec(stored(a.rows), 0.0)?;
        let mut factor = DenseCholesky { inertia: Inertia::NONE, rows: a.rows, values };
        factor.numeric((a, transpose), scale, zero_pivots)?;
        Ok(factor)
    }

    /// The numeric phase, in the memory of an earlier factor.
    pub fn numeric(
        &mut self,
        (a, transpose): (&Csr<f64>, &Csr<f64>),
        scale: &[f64],
        zero_pivots: ZeroPivots,
    ) -> Result<(), Failure> {
        let DenseCholesky { inertia, rows: n, values } = self;
        let n = *n;
        par::for_each_row_mut(values, n, TILE, |first, piece| {
            for (j, column) in (first..).zip(piece.chunks_exact_mut(n)) {
                column[j..].fill(0.0);
                // Below the diagonal, a column of A is a row of the transpose, and one of the symmetric part is both.
                for half in [a, transpose] {
                    for k in half.offsets[j] as usize..half.offsets[j + 1] as usize {
                        let i = half.columns[k] as usize;
                        if i >= j {
                            column[i] += 0.5 * (half.values[k] * scale[i] * scale[j]);
                        }
                    }
                }
            }
        });
        let mut scratch = try_vec(temporary(n), 0.0)?;
        *inertia = Inertia::NONE;
        if front::factorise(values, n, n, &mut inertia.pivots(zero_pivots, n), &mut scratch).is_err() {
            return Err(Failure::NeedsPivoting);
        }
        let values = &*values;
        inertia.check(zero_pivots, || front::largest(values, n, n), || front::first_left_out(values, n, n))
    }

    /// Bytes of the factor.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    /// Replaces b by the solution of the scaled system.
    pub fn solve(&self, x: &mut [f64]) {
        front::solve_lower(&self.values, self.rows, x, &mut []);
        front::solve_upper(&self.values, self.rows, x, &[]);
    }
}
