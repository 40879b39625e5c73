//! l1-Jacobi: Jacobi with d_i = Σ_j |a_ij|, signed like the diagonal. For SPD matrices all eigenvalues of D^-1 A lie in (0, 1], so it
//! converges without any estimate.

use super::jacobi::Diagonal;
use super::{Setup, Smoother, stored};
use crate::backend::Place;
use crate::error::Result;
use crate::host::diagonal;
use crate::scalar::{Number, Scalar};

/// The inverse of D from the rows of the matrix.
pub(super) fn build<B: Place, T: Scalar, S: Number, V: Number>(
    backend: &B,
    setup: &Setup<'_, T>,
) -> Result<Box<dyn Smoother<B, V>>> {
    let inverse: Vec<T> = diagonal::l1_inverse(&setup.a, setup.diagonal_width(), setup.scale)?;
    let inverse = stored::<T, S>(&inverse, 1.0)?;
    Ok(Box::new(Diagonal::<B, S> { values: inverse.len(), inverse: backend.array(inverse)? }))
}
