//! Preconditioned conjugate gradients, for symmetric positive definite A and M.

use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: residual r, preconditioned residual z, direction p, q = A p.
pub struct Cg<B: Backend, T: Scalar> {
    r: B::Buffer<T>,
    z: B::Buffer<T>,
    p: B::Buffer<T>,
    q: B::Buffer<T>,
    n: usize,
}

impl<B: Backend, T: Scalar> Cg<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        Ok(Cg { r: backend.zeros(n)?, z: backend.zeros(n)?, p: backend.zeros(n)?, q: backend.zeros(n)?, n })
    }

    /// Conjugate gradients whose β is given by `beta(z·r, z·r before, α, z·q)`: the one number in which the variants differ.
    pub(super) fn iterate(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
        beta: impl Fn(&B, &Self, Step) -> f64,
    ) -> Result<Next> {
        let backend = run.backend;
        run.initial_residual(b, x, &mut self.r, zero_guess)?;
        let mut next = run.start_with(&self.r, &mut self.z)?;
        if next != Next::Continue {
            return Ok(next);
        }
        backend.copy(&self.z, &mut self.p);
        let mut zr = backend.dot(&self.z, &self.r);
        loop {
            let pq = run.operator_dot(&self.p, &mut self.q)?;
            if zr.is_nan() || pq.is_nan() {
                return run.step(f64::NAN);
            }
            if zr <= 0.0 {
                return run.breakdown(&format!(
                    "z·r is {zr:.3e}; the preconditioner is not positive definite (use fcg or gmres)"
                ));
            }
            if pq <= 0.0 {
                return run.breakdown(&format!("p·Ap is {pq:.3e}; the matrix is not positive definite (use gmres)"));
            }
            let alpha = zr / pq;
            let rr = backend.step(T::from_f64(alpha), (&self.p, &self.q), x, &mut self.r);
            next = run.step_with(Some(rr.sqrt()), &self.r, &mut self.z)?;
            if next != Next::Continue {
                return Ok(next);
            }
            let before = zr;
            zr = backend.dot(&self.z, &self.r);
            let beta = beta(backend, self, Step { zr, before, alpha });
            // With a symmetric preconditioner z is orthogonal to the residual before, and all ways to compute β agree.
            run.watch_symmetry((zr - beta * before).abs() / zr.abs())?;
            backend.axpby(T::ONE, &self.z, T::from_f64(beta), &mut self.p);
        }
    }

    /// z·q, with q of the step before.
    pub(super) fn zq(&self, backend: &B) -> f64 {
        backend.dot(&self.z, &self.q)
    }
}

/// Numbers of one step.
pub(super) struct Step {
    /// z·r now.
    pub zr: f64,
    /// z·r before.
    pub before: f64,
    /// Length of the step.
    pub alpha: f64,
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Cg<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        self.iterate(run, b, x, zero_guess, |_, _, step| step.zr / step.before)
    }

    fn bytes(&self) -> usize {
        4 * self.n * T::PRECISION.bytes()
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
