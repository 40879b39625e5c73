//! l1-Jacobi: Jacobi with d_i = Σ_j |a_ij|, signed like the diagonal. For SPD matrices all eigenvalues of D^-1 A lie in (0, 1], so it
//! converges without any estimate.

use super::jacobi::Diagonal;
use super::{Setup, Smoother};
use crate::error::Result;
use crate::host::{Host, diagonal};
use crate::scalar::Scalar;

/// The inverse of D from the rows of the matrix.
pub(super) fn build<T: Scalar, S: Scalar, V: Scalar>(setup: &Setup<'_, T>) -> Result<Box<dyn Smoother<Host, V>>> {
    let a = setup.a;
    let width = setup.diagonal_width();
    let inverse =
        diagonal::inverse(&a, width, |i, r, _| diagonal::row_norm(&a, i, r, |j, c| j != i || (width == 1 && c != r)))?;
    Ok(Box::new(Diagonal::<Host, S> { values: inverse.len(), inverse }))
}
