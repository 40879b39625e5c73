//! l1-Jacobi: Jacobi with d_i = Σ_j |a_ij|, signed like the diagonal. For SPD matrices all eigenvalues of D^-1 A lie in
//! (0, 1], so it converges without any estimate.

use super::jacobi::Diagonal;
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::setup::Store;
use crate::backend::{Backend, Smoother};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// The component: the inverse of D from the rows of the matrix.
pub struct L1Jacobi;

impl<S: Store<B>, B: Backend> SmootherSetup<S, B> for L1Jacobi {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let (inverse, values) =
            input.stored::<N>(&input.l1_inverse()?, input.parameters.real("amg.smoother.l1_jacobi.weight"))?;
        Ok(Box::new(Diagonal::<B, N> { inverse, values }))
    }
}
