//! BiCGStab with right preconditioning: for matrices that are not symmetric, in a fixed amount of memory. One iteration
//! is two products with A and two applications of M.

use super::{Krylov, Next, Run};
use crate::backend::{Backend, BicgstabScalars, BicgstabStep};
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: vectors and scalars.
pub struct BiCgStab<B: Backend, T: Scalar> {
    vectors: Vectors<B, T>,
    step: B::BicgstabStep,
    n: usize,
}

/// Residual r, shadow residual r̂, direction p, v = A M p, t = A M r, and z for M p and M r.
struct Vectors<B: Backend, T: Scalar> {
    r: B::Buffer<T>,
    shadow: B::Buffer<T>,
    p: B::Buffer<T>,
    v: B::Buffer<T>,
    t: B::Buffer<T>,
    z: B::Buffer<T>,
}

impl<B: Backend, T: Scalar> Vectors<B, T> {
    /// Both half steps of an iteration. After a restart p is the residual.
    fn iterate(
        &mut self,
        run: &mut Run<'_, B, T>,
        step: &mut B::BicgstabStep,
        x: &mut B::Slice<T>,
        restarted: bool,
    ) -> Result<()> {
        let Vectors { r, shadow, p, v, t, z } = self;
        if !restarted {
            step.update_direction::<T>(r, v, p)?;
        }
        run.precondition(p, z)?;
        run.operator(z, v)?;
        step.first_half::<T>(shadow, (z, v), x, r)?;
        // A device runs the second half step in any case, with ω = 0.
        if B::HAS_IMMEDIATE_REDUCTIONS && step.read_scalars()?.skips_second_half() {
            return Ok(());
        }
        run.precondition(r, z)?;
        run.operator(z, t)?;
        step.second_half::<T>(shadow, (z, t), x, r)
    }
}

impl<B: Backend, T: Scalar> BiCgStab<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        let zeros = || backend.zeros(n);
        let vectors = Vectors { r: zeros()?, shadow: zeros()?, p: zeros()?, v: zeros()?, t: zeros()?, z: zeros()? };
        Ok(BiCgStab { vectors, step: backend.bicgstab_step()?, n })
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
        let BiCgStab { vectors, step, .. } = self;
        let mut norm = run.initial_residual_norm(b, x, &mut vectors.r, zero_guess)?;
        let mut next = run.start(norm)?;
        step.begin(x, run.target)?;
        // |r̂|; 0 makes the current residual the shadow residual, which starts and restarts the recurrences.
        let (mut shadow_norm, mut rho) = (0.0, 0.0_f64);
        while next == Next::Continue {
            let restarted = shadow_norm == 0.0 || rho.abs() <= BicgstabScalars::ORTHOGONAL * shadow_norm * norm;
            if restarted {
                shadow_norm = norm;
                step.restart(norm)?;
                backend.copy(&vectors.r, &mut vectors.shadow);
                backend.copy(&vectors.r, &mut vectors.p);
            }
            step.iterate(!restarted && run.is_capturable(), &mut |step| vectors.iterate(run, step, x, restarted))?;
            // The scalars are read once, at the end. After a breakdown α or ω is 0, and x and r have not changed.
            let scalars = step.read_scalars()?;
            let BicgstabScalars { sigma, ts, tt, .. } = scalars;
            if sigma.is_nan() {
                return run.step(f64::NAN);
            }
            if scalars.alpha == 0.0 {
                if restarted {
                    return run.breakdown(&format!(
                        "r·AMr is {sigma:.3e}; bicgstab finds no step along the residual (use gmres)"
                    ));
                }
                shadow_norm = 0.0;
                continue;
            }
            if scalars.skips_second_half() {
                return run.step(scalars.ss.sqrt());
            }
            if ts.is_nan() || tt.is_nan() {
                return run.step(f64::NAN);
            }
            if scalars.omega == 0.0 {
                return run.breakdown(&format!(
                    "r·AMr is {ts:.3e} for the intermediate residual; bicgstab cannot reduce it (use gmres)"
                ));
            }
            (norm, rho) = (scalars.rr.sqrt(), scalars.rho);
            next = run.step(norm)?;
            run.keep(x);
        }
        Ok(next)
    }

    fn discard_graph(&mut self) {
        self.step.discard_graph();
    }

    fn bytes(&self) -> usize {
        6 * self.n * T::PRECISION.bytes()
    }
}
