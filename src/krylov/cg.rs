//! Preconditioned conjugate gradients, for symmetric positive definite A and M.

use super::{Krylov, Next, Norm, Run};
use crate::backend::{Backend, Beta, Numbers, Steps};
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: vectors, and the numbers that go from one operation on them to another.
pub struct Cg<B: Backend, T: Scalar> {
    vectors: Vectors<B, T>,
    steps: B::Steps,
    n: usize,
}

/// Residual r, preconditioned residual z, direction p, q = A p.
struct Vectors<B: Backend, T: Scalar> {
    r: B::Buffer<T>,
    z: B::Buffer<T>,
    p: B::Buffer<T>,
    q: B::Buffer<T>,
}

impl<B: Backend, T: Scalar> Vectors<B, T> {
    /// The next direction p, of z = M r. The first is z, which is known.
    fn turn(&mut self, run: &mut Run<'_, B, T>, steps: &mut B::Steps, first: bool, flexible: bool) -> Result<()> {
        let Vectors { r, z, p, q } = self;
        let beta = match (first, flexible) {
            (true, _) => Beta::Zero,
            (false, false) => Beta::Plain,
            (false, true) => Beta::Flexible(&**q),
        };
        if !first && run.precondition_apart()? {
            let Some(apart) = run.apart() else { unreachable!("it was just applied") };
            apart.dots(steps, r, beta)?;
            return apart.turn(steps, p);
        }
        // Who stops on the norm of z has made it.
        if !first && run.norm == Norm::True {
            run.precondition(r, z)?;
        }
        steps.dots(z, r, beta)?;
        steps.turn(z, p)
    }

    /// The step of x along p.
    fn step(&mut self, run: &mut Run<'_, B, T>, steps: &mut B::Steps, x: &mut B::Slice<T>) -> Result<()> {
        let Vectors { r, p, q, .. } = self;
        let a = run.a;
        run.phases.time("operator", || steps.product(a, p, q))?;
        match run.apart() {
            Some(apart) => apart.step(steps, (p, q), x, r),
            None => steps.step((p, q), x, r),
        }
    }
}

impl Numbers {
    /// With a symmetric preconditioner z is orthogonal to the residual before, and all ways to compute β agree. Otherwise z times that
    /// residual, in relation to z·r.
    fn asymmetry(&self) -> f64 {
        (self.zr - self.beta * self.before).abs() / self.zr.abs()
    }
}

impl<B: Backend, T: Scalar> Cg<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        let (r, z, p, q) = (backend.zeros(n)?, backend.zeros(n)?, backend.zeros(n)?, backend.zeros(n)?);
        Ok(Cg { vectors: Vectors { r, z, p, q }, steps: backend.steps()?, n })
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
        let Vectors { r, z, .. } = &mut self.vectors;
        let mut next = run.start_with(b, x, (r, z), zero_guess)?;
        self.steps.begin(x)?;
        let mut first = true;
        while next == Next::Continue {
            let Numbers { zr, pq, rr, .. } = self.iteration(run, x, first, flexible)?;
            first = false;
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
            next = match run.norm {
                Norm::True => run.step(rr.sqrt())?,
                Norm::Preconditioned => run.step_preconditioned(&self.vectors.r, &mut self.vectors.z)?,
            };
        }
        Ok(next)
    }

    /// An iteration, from one residual to the next. Its numbers are looked at once, at the end: where there was no step to take, x and r are
    /// still those before.
    fn iteration(
        &mut self,
        run: &mut Run<'_, B, T>,
        x: &mut B::Slice<T>,
        first: bool,
        flexible: bool,
    ) -> Result<Numbers> {
        let Cg { vectors, steps, .. } = self;
        // A failure shall leave x as it is.
        if !first && run.may_lose_symmetry() {
            vectors.turn(run, steps, first, flexible)?;
            run.watch_symmetry(steps.look()?.asymmetry())?;
            vectors.step(run, steps, x)?;
            return steps.look();
        }
        steps.iterate(!first && run.is_fixed(), &mut |steps| {
            vectors.turn(run, steps, first, flexible)?;
            vectors.step(run, steps, x)
        })?;
        let numbers = steps.look()?;
        if !first {
            run.watch_symmetry(numbers.asymmetry())?;
        }
        Ok(numbers)
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

    fn forget(&mut self) {
        self.steps.forget();
    }

    fn bytes(&self) -> usize {
        4 * self.n * T::PRECISION.bytes()
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
