//! Flexible GMRES(m): M v is stored for each basis vector v, so the preconditioner may change from one application to
//! the next, as a cycle with an inner iteration does. Twice the memory of GMRES, one preconditioner application less
//! per restart.

use super::gmres::Gmres;
use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::Scalar;

/// The workspace of GMRES, with a preconditioned vector for each basis vector.
pub struct Fgmres<B: Backend, T: Scalar> {
    gmres: Gmres<B, T>,
}

impl<B: Backend, T: Scalar> Fgmres<B, T> {
    /// For vectors of `n` elements, restarted after `m` steps.
    pub fn new(backend: &B, n: usize, m: usize) -> Result<Self> {
        Ok(Fgmres { gmres: Gmres::with_flexibility(backend, n, m, true)? })
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Fgmres<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        self.gmres.solve(run, b, x, zero_guess)
    }

    fn discard_graph(&mut self) {
        Krylov::<B, T>::discard_graph(&mut self.gmres);
    }

    fn bytes(&self) -> usize {
        Krylov::<B, T>::bytes(&self.gmres)
    }
}
