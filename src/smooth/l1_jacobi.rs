//! l1-Jacobi: Jacobi with d_i = Σ_j |a_ij|, signed like the diagonal. For SPD matrices all eigenvalues of D^-1 A lie in (0, 1], so it
//! converges without any estimate.

use super::Setup;
use super::jacobi::Diagonal;
use crate::backend::{Backend, Smoother};
use crate::error::Result;
use crate::scalar::Number;

/// The inverse of D from the rows of the matrix.
pub(super) fn build<B: Backend, M: Setup<B>, S: Number, V: Number>(setup: &M) -> Result<Box<dyn Smoother<B, V>>> {
    let (inverse, values) = setup.stored::<S>(&setup.l1_inverse()?, 1.0)?;
    Ok(Box::new(Diagonal::<B, S> { inverse, values }))
}
