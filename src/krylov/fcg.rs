//! Flexible conjugate gradients: safe when the preconditioner changes a little from one application to the next, or is
//! symmetric only to the rounding of a lower precision.

use super::cg::Cg;
use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::Scalar;

/// The same workspace as CG.
pub struct Fcg<B: Backend, T: Scalar> {
    cg: Cg<B, T>,
}

impl<B: Backend, T: Scalar> Fcg<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        Ok(Fcg { cg: Cg::new(backend, n)? })
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Fcg<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        self.cg.iterate(run, b, x, zero_guess, true)
    }

    fn discard_graph(&mut self) {
        Krylov::<B, T>::discard_graph(&mut self.cg);
    }

    fn bytes(&self) -> usize {
        Krylov::<B, T>::bytes(&self.cg)
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
