//! BiCGStab with right preconditioning: for matrices that are not symmetric, in a fixed amount of memory. One iteration is two products
//! with A and two applications of M.

use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::Result;
use crate::scalar::Scalar;

/// An inner product at or below this share of the product of the norms is rounding.
const ORTHOGONAL: f64 = 1e-15;

/// Workspace: residual r, shadow residual r̂, direction p, v = A M p, t = A M r, and z for M p and M r.
pub struct BiCgStab<B: Backend, T: Scalar> {
    r: B::Buffer<T>,
    shadow: B::Buffer<T>,
    p: B::Buffer<T>,
    v: B::Buffer<T>,
    t: B::Buffer<T>,
    z: B::Buffer<T>,
    n: usize,
}

impl<B: Backend, T: Scalar> BiCgStab<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        let zeros = || backend.zeros(n);
        Ok(BiCgStab { r: zeros()?, shadow: zeros()?, p: zeros()?, v: zeros()?, t: zeros()?, z: zeros()?, n })
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for BiCgStab<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        let backend = run.backend;
        let mut norm = run.initial_residual_norm(b, x, &mut self.r, zero_guess)?;
        let mut next = run.start(norm)?;
        // |r̂|; with 0 the current residual becomes the shadow, which is how the recurrences start and start anew.
        let mut shadow_norm = 0.0;
        let (mut rho, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        while next == Next::Continue {
            let before = rho;
            rho = backend.dot(&self.shadow, &self.r);
            let fresh = shadow_norm == 0.0 || rho.abs() <= ORTHOGONAL * shadow_norm * norm;
            if fresh {
                backend.copy(&self.r, &mut self.shadow);
                backend.copy(&self.r, &mut self.p);
                (rho, shadow_norm) = (norm * norm, norm);
            } else {
                // p = r + β (p - ω v).
                let beta = (rho / before) * (alpha / omega);
                backend.axpby(T::from_f64(-beta * omega), &self.v, T::from_f64(beta), &mut self.p);
                backend.axpby(T::ONE, &self.r, T::ONE, &mut self.p);
            }
            run.precondition(&self.p, &mut self.z)?;
            run.operator(&self.z, &mut self.v)?;
            let sigma = backend.dot(&self.shadow, &self.v);
            if sigma.is_nan() {
                return run.step(f64::NAN);
            }
            if sigma.abs() <= ORTHOGONAL * shadow_norm * backend.norm(&self.v) {
                if fresh {
                    return run.breakdown(&format!(
                        "r·AMr is {sigma:.3e}; bicgstab finds no step along the residual (use gmres)"
                    ));
                }
                shadow_norm = 0.0;
                continue;
            }
            alpha = rho / sigma;
            backend.axpby(T::from_f64(alpha), &self.z, T::ONE, x);
            backend.axpby(T::from_f64(-alpha), &self.v, T::ONE, &mut self.r);
            norm = backend.norm(&self.r);
            if norm <= run.target {
                return run.step(norm);
            }
            run.precondition(&self.r, &mut self.z)?;
            run.operator(&self.z, &mut self.t)?;
            let (tr, tt) = (backend.dot(&self.t, &self.r), backend.dot(&self.t, &self.t));
            if tr.abs() <= ORTHOGONAL * norm * tt.sqrt() {
                return run.breakdown(&format!(
                    "r·AMr is {tr:.3e} for the intermediate residual; bicgstab cannot reduce it (use gmres)"
                ));
            }
            omega = tr / tt;
            backend.axpby(T::from_f64(omega), &self.z, T::ONE, x);
            backend.axpby(T::from_f64(-omega), &self.t, T::ONE, &mut self.r);
            norm = backend.norm(&self.r);
            next = run.step(norm)?;
        }
        Ok(next)
    }

    fn bytes(&self) -> usize {
        6 * self.n * T::PRECISION.bytes()
    }
}
