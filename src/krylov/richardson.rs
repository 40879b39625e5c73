//! Richardson's iteration x += M (b - A x): the preconditioner on its own, without acceleration. With one AMG cycle as
//! M this is stand-alone multigrid, and its rate of convergence is the cycle's own.

use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: residual r and correction z.
pub struct Richardson<B: Backend, T: Scalar> {
    r: B::Buffer<T>,
    z: B::Buffer<T>,
    n: usize,
}

impl<B: Backend, T: Scalar> Richardson<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        Ok(Richardson { r: backend.zeros(n)?, z: backend.zeros(n)?, n })
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Richardson<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        let backend = run.backend;
        let mut next = run.start_with(b, x, (&mut self.r, &mut self.z), zero_guess)?;
        while next == Next::Continue {
            backend.axpby(T::ONE, &self.z, T::ONE, x);
            next = run.step_with_residual(b, x, (&mut self.r, &mut self.z))?;
            run.keep(x);
        }
        Ok(next)
    }

    fn bytes(&self) -> usize {
        2 * self.n * T::PRECISION.bytes()
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
