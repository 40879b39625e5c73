//! Preconditioned conjugate gradients, for symmetric positive definite A and M.

use super::{Krylov, Next, Norm, Run};
use crate::backend::{Backend, Beta, CgScalars, CgStep};
use crate::error::Result;
use crate::scalar::Scalar;

/// Workspace: vectors and scalars.
pub struct Cg<B: Backend, T: Scalar> {
    vectors: Vectors<B, T>,
    step: B::CgStep,
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
    /// p = z + β p with z = M r. In the first iteration z is there already, and β is 0.
    fn update_direction(
        &mut self,
        run: &mut Run<'_, B, T>,
        step: &mut B::CgStep,
        first: bool,
        flexible: bool,
    ) -> Result<()> {
        let Vectors { r, z, p, q } = self;
        let beta = match (first, flexible) {
            (true, _) => Beta::Zero,
            (false, false) => Beta::Plain,
            (false, true) => Beta::Flexible(&**q),
        };
        if !first && run.precondition_narrow()? {
            let Some(narrow) = run.narrow() else { unreachable!("precondition_narrow applied it") };
            narrow.dots(step, r, beta)?;
            return narrow.update_direction(step, p);
        }
        // A stopping test on |z| has computed z.
        if !first && run.norm == Norm::True {
            run.precondition(r, z)?;
        }
        step.dots(z, r, beta)?;
        step.update_direction(z, p)
    }

    /// q = A p, x += α p, r -= α q.
    fn update_solution(&mut self, run: &mut Run<'_, B, T>, step: &mut B::CgStep, x: &mut B::Slice<T>) -> Result<()> {
        let Vectors { r, p, q, .. } = self;
        let a = run.a;
        run.phases.time("operator", || step.product(a, p, q))?;
        match run.narrow() {
            Some(narrow) => narrow.update_solution(step, (p, q), x, r),
            None => step.update_solution((p, q), x, r),
        }
    }
}

impl CgScalars {
    /// |z·r_previous| / |z·r|. It is 0 with a symmetric preconditioner, for which both formulas of β agree.
    fn asymmetry(&self) -> f64 {
        (self.zr - self.beta * self.previous_zr).abs() / self.zr.abs()
    }
}

impl<B: Backend, T: Scalar> Cg<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize) -> Result<Self> {
        let (r, z, p, q) = (backend.zeros(n)?, backend.zeros(n)?, backend.zeros(n)?, backend.zeros(n)?);
        Ok(Cg { vectors: Vectors { r, z, p, q }, step: backend.cg_step()?, n })
    }

    /// Conjugate gradients, flexible or not: the variants differ in β. In CG β is z·r / (z·r)_previous, in flexible CG
    /// z·(r - r_previous) / (z·r)_previous, where r - r_previous = -α q: no copy of the old residual is needed.
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
        self.step.begin(x)?;
        let mut first = true;
        while next == Next::Continue {
            let CgScalars { zr, pq, rr, .. } = self.iteration(run, x, first, flexible)?;
            first = false;
            if zr.is_nan() || pq.is_nan() {
                return run.step(f64::NAN);
            }
            let gmres = if run.norm == Norm::True { "gmres" } else { "gmres with solver.norm true" };
            if zr <= 0.0 {
                let fcg = if flexible { "" } else { "fcg or " };
                return run.breakdown(&format!(
                    "z·r is {zr:.3e}; the preconditioner is not positive definite (use {fcg}{gmres})"
                ));
            }
            if pq <= 0.0 {
                return run.breakdown(&format!("p·Ap is {pq:.3e}; the matrix is not positive definite (use {gmres})"));
            }
            next = match run.norm {
                Norm::True => run.step(rr.sqrt())?,
                Norm::Preconditioned => run.step_preconditioned(&self.vectors.r, &mut self.vectors.z)?,
            };
            run.keep(x);
        }
        Ok(next)
    }

    /// One iteration. Its scalars are read once, at the end. After a breakdown α is 0, and x and r have not changed.
    fn iteration(
        &mut self,
        run: &mut Run<'_, B, T>,
        x: &mut B::Slice<T>,
        first: bool,
        flexible: bool,
    ) -> Result<CgScalars> {
        let Cg { vectors, step, .. } = self;
        // The symmetry is checked before x changes.
        if !first && run.may_lose_symmetry() {
            vectors.update_direction(run, step, first, flexible)?;
            run.watch_symmetry(step.read_scalars()?.asymmetry())?;
            vectors.update_solution(run, step, x)?;
            return step.read_scalars();
        }
        step.iterate(!first && run.is_capturable(), &mut |step| {
            vectors.update_direction(run, step, first, flexible)?;
            vectors.update_solution(run, step, x)
        })?;
        let scalars = step.read_scalars()?;
        if !first {
            run.watch_symmetry(scalars.asymmetry())?;
        }
        Ok(scalars)
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

    fn discard_graph(&mut self) {
        self.step.discard_graph();
    }

    fn bytes(&self) -> usize {
        4 * self.n * T::PRECISION.bytes()
    }

    fn has_preconditioned_residual(&self) -> bool {
        true
    }
}
