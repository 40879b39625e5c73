//! BiCGStab with right preconditioning: for matrices that are not symmetric, in a fixed amount of memory. One iteration is two products
//! with A and two applications of M.

use super::{Krylov, Next, Run};
use crate::backend::{Backend, HalfNumbers, Halves};
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: vectors, and the numbers that go from one operation on them to another.
pub struct BiCgStab<B: Backend, T: Scalar> {
    vectors: Vectors<B, T>,
    halves: B::Halves,
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
    /// Both halves of an iteration; p is known where the shadow is `fresh`.
    fn iterate(
        &mut self,
        run: &mut Run<'_, B, T>,
        halves: &mut B::Halves,
        x: &mut B::Slice<T>,
        fresh: bool,
    ) -> Result<()> {
        let Vectors { r, shadow, p, v, t, z } = self;
        if !fresh {
            halves.turn::<T>(r, v, p)?;
        }
        run.precondition(p, z)?;
        run.operator(z, v)?;
        halves.first::<T>(shadow, (z, v), x, r)?;
        // Elsewhere the second half is done in any case, and changes nothing.
        if B::LOOKS && halves.look()?.is_settled() {
            return Ok(());
        }
        run.precondition(r, z)?;
        run.operator(z, t)?;
        halves.second::<T>(shadow, (z, t), x, r)
    }
}

impl<B: Backend, T: Scalar> BiCgStab<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        let zeros = || backend.zeros(n);
        let vectors = Vectors { r: zeros()?, shadow: zeros()?, p: zeros()?, v: zeros()?, t: zeros()?, z: zeros()? };
        Ok(BiCgStab { vectors, halves: backend.halves()?, n })
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
        let BiCgStab { vectors, halves, .. } = self;
        let mut norm = run.initial_residual_norm(b, x, &mut vectors.r, zero_guess)?;
        let mut next = run.start(norm)?;
        halves.begin(x, run.target)?;
        // |r̂|; with 0 the current residual becomes the shadow, which is how the recurrences start and start anew.
        let (mut shadow_norm, mut rho) = (0.0, 0.0_f64);
        while next == Next::Continue {
            let fresh = shadow_norm == 0.0 || rho.abs() <= HalfNumbers::ORTHOGONAL * shadow_norm * norm;
            if fresh {
                shadow_norm = norm;
                halves.restart(norm)?;
                backend.copy(&vectors.r, &mut vectors.shadow);
                backend.copy(&vectors.r, &mut vectors.p);
            }
            halves.iterate(!fresh && run.is_fixed(), &mut |halves| vectors.iterate(run, halves, x, fresh))?;
            // All numbers are looked at once, at the end: where there was no step to take, x and r are still those before.
            let numbers = halves.look()?;
            let HalfNumbers { sigma, ts, tt, .. } = numbers;
            if sigma.is_nan() {
                return run.step(f64::NAN);
            }
            if numbers.alpha == 0.0 {
                if fresh {
                    return run.breakdown(&format!(
                        "r·AMr is {sigma:.3e}; bicgstab finds no step along the residual (use gmres)"
                    ));
                }
                shadow_norm = 0.0;
                continue;
            }
            if numbers.is_settled() {
                return run.step(numbers.ss.sqrt());
            }
            if ts.is_nan() || tt.is_nan() {
                return run.step(f64::NAN);
            }
            if numbers.omega == 0.0 {
                return run.breakdown(&format!(
                    "r·AMr is {ts:.3e} for the intermediate residual; bicgstab cannot reduce it (use gmres)"
                ));
            }
            (norm, rho) = (numbers.rr.sqrt(), numbers.rho);
            next = run.step(norm)?;
        }
        Ok(next)
    }

    fn forget(&mut self) {
        self.halves.forget();
    }

    fn bytes(&self) -> usize {
        6 * self.n * T::PRECISION.bytes()
    }
}
