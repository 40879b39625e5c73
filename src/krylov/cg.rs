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

    /// Conjugate gradients, flexible or not: the variants differ in β. In one β is z·r / (z·r)_before, in the other
    /// z·(r - r_before) / (z·r)_before, where r - r_before = -α q: no copy of the old residual is needed.
    pub(super) fn iterate(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
        flexible: bool,
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
            let (step, pq) = (T::from_f64(alpha), (&*self.p, &*self.q));
            let rr = match run.apart() {
                Some(apart) => apart.step(step, pq, x, &mut self.r),
                None => backend.step(step, pq, x, &mut self.r),
            };
            let is_apart = run.apart().is_some();
            next = match is_apart {
                true => run.step_apart(rr.sqrt())?,
                false => run.step_with(Some(rr.sqrt()), &self.r, &mut self.z)?,
            };
            if next != Next::Continue {
                return Ok(next);
            }
            let before = zr;
            let q = flexible.then_some(&*self.q);
            let zq;
            (zr, zq) = match run.apart() {
                Some(apart) => apart.dots(&self.r, q),
                None => (backend.dot(&self.z, &self.r), q.map_or(0.0, |q| backend.dot(&self.z, q))),
            };
            let beta = if flexible { -alpha * zq } else { zr } / before;
            // With a symmetric preconditioner z is orthogonal to the residual before, and all ways to compute β agree.
            run.watch_symmetry((zr - beta * before).abs() / zr.abs())?;
            let beta = T::from_f64(beta);
            match run.apart() {
                Some(apart) => apart.add_to(beta, &mut self.p),
                None => backend.axpby(T::ONE, &self.z, beta, &mut self.p),
            }
        }
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Cg<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        self.iterate(run, b, x, zero_guess, false)
    }

    fn bytes(&self) -> usize {
        4 * self.n * T::PRECISION.bytes()
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
