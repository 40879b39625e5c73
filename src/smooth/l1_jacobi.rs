//! l1-Jacobi: Jacobi with d_i = Σ_j |a_ij|, signed like the diagonal. For SPD matrices all eigenvalues of D^-1 A lie in (0, 1], so it
//! converges without any estimate.

use super::jacobi::Diagonal;
use super::{Setup, Smoother};
use crate::error::{Result, try_vec};
use crate::host::{Host, par};
use crate::scalar::Scalar;

/// The inverse of D from the rows of the matrix.
pub(super) fn build<T: Scalar, S: Scalar, V: Scalar>(setup: &Setup<'_, T>) -> Result<Box<dyn Smoother<Host, V>>> {
    let a = setup.a;
    let (br, bc) = (a.block.rows, a.block.cols);
    let mut inverse = try_vec(a.scalar_rows(), S::ZERO)?;
    par::for_each_row_mut(&mut inverse, br, par::ROW_GRAIN, |start, piece| {
        for (k, out) in piece.chunks_exact_mut(br).enumerate() {
            let i = start + k;
            for (r, out) in out.iter_mut().enumerate() {
                let mut norm = 0.0;
                let mut sign = 1.0;
                for (j, block) in a.row(i) {
                    norm += block[r * bc..][..bc].iter().map(|v| v.to_f64().abs()).sum::<f64>();
                    if j == i && block[r * bc + r] < T::ZERO {
                        sign = -1.0;
                    }
                }
                *out = S::from_f64(if norm == 0.0 { 0.0 } else { sign / norm });
            }
        }
    });
    Ok(Box::new(Diagonal::<Host, S> { rows: inverse.len(), inverse }))
}
