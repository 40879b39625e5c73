//! GMRES(m) with right preconditioning: for matrices that are not symmetric. The norms it minimises are those of the residual itself.
//! The flexible variant ([`super::fgmres`]) differs in what it keeps, not in what it computes.

use super::{Krylov, Next, Run};
use crate::backend::{Backend, Basis};
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;

/// Workspace: an orthonormal basis V of at most m vectors, the one that becomes the next, and the small least-squares problem.
pub struct Gmres<B: Backend, T: Scalar> {
    basis: B::Basis<T>,
    w: B::Buffer<T>,
    /// R of the factorised Hessenberg matrix, column by column, m + 1 numbers each.
    h: Vec<f64>,
    /// Cosines and sines of the Givens rotations.
    rotations: Vec<(f64, f64)>,
    /// Right-hand side of the least-squares problem.
    g: Vec<f64>,
    /// Whether M v is kept for every basis vector v.
    flexible: bool,
    m: usize,
    n: usize,
}

impl<B: Backend, T: Scalar> Gmres<B, T> {
    /// For vectors of `n` elements, restarted after `m` steps.
    pub fn new(backend: &B, n: usize, m: usize) -> Result<Self> {
        Self::keeping(backend, n, m, false)
    }

    /// As `new`, flexible or not.
    pub(super) fn keeping(backend: &B, n: usize, m: usize, flexible: bool) -> Result<Self> {
        let m = m.min(n.max(1));
        Ok(Gmres {
            basis: backend.basis(n, m, flexible)?,
            w: backend.zeros(n)?,
            h: try_vec((m + 1) * m, 0.0)?,
            rotations: try_vec(m, (0.0, 0.0))?,
            g: try_vec(m + 1, 0.0)?,
            flexible,
            m,
            n,
        })
    }

    /// One restart cycle; the basis starts with the residual of norm `norm` in `w`, not yet normalised.
    fn cycle(&mut self, run: &mut Run<'_, B, T>, norm: f64) -> Result<(Next, usize)> {
        let Gmres { basis, w, m, .. } = self;
        let m = *m;
        self.g.fill(0.0);
        self.g[0] = norm;
        basis.begin(norm)?;
        for j in 0..m {
            basis.iterate(run.is_fixed(), &mut |basis| {
                basis.append(w)?;
                let (v, z) = basis.last();
                run.precondition(v, z)?;
                run.operator(z, w)?;
                basis.keep()?;
                basis.orthogonalise(w)
            })?;
            // The only numbers of the iteration that are looked at.
            let column = &mut self.h[j * (m + 1)..][..m + 1];
            column.fill(0.0);
            let length = basis.look(&mut column[..=j])?;
            if !length.is_finite() {
                return run.step(f64::NAN).map(|next| (next, j));
            }
            for (i, &(c, s)) in self.rotations[..j].iter().enumerate() {
                (column[i], column[i + 1]) = (c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]);
            }
            let radius = column[j].hypot(length);
            if radius == 0.0 {
                return run.breakdown("the preconditioned matrix maps a direction to zero; it is singular");
            }
            let (c, s) = (column[j] / radius, length / radius);
            self.rotations[j] = (c, s);
            column[j] = radius;
            self.g[j + 1] = -s * self.g[j];
            self.g[j] *= c;
            let next = run.step(self.g[j + 1].abs())?;
            if next != Next::Continue || j + 1 == m {
                return Ok((next, j + 1));
            }
        }
        Ok((Next::Continue, m))
    }

    /// x += M V y with y from the triangular system of the first `k` columns; M V is at hand in the flexible variant.
    fn correct(&mut self, run: &mut Run<'_, B, T>, x: &mut B::Slice<T>, k: usize) -> Result<()> {
        let backend = run.backend;
        let m = self.m;
        for i in (0..k).rev() {
            let known: f64 = (i + 1..k).map(|j| self.h[j * (m + 1) + i] * self.g[j]).sum();
            self.g[i] = (self.g[i] - known) / self.h[i * (m + 1) + i];
        }
        let y = &self.g[..k];
        if self.flexible {
            return self.basis.add(y, x);
        }
        backend.fill(T::ZERO, &mut self.w);
        self.basis.add(y, &mut self.w)?;
        let (_, z) = self.basis.last();
        run.precondition(&self.w, z)?;
        backend.axpby(T::ONE, z, T::ONE, x);
        Ok(())
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Gmres<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        let mut norm = run.initial_residual_norm(b, x, &mut self.w, zero_guess)?;
        loop {
            let next = run.start(norm)?;
            if next != Next::Continue {
                return Ok(next);
            }
            let (next, columns) = self.cycle(run, norm)?;
            self.correct(run, x, columns)?;
            if next != Next::Continue {
                return Ok(next);
            }
            norm = run.residual_norm(b, x, &mut self.w)?;
        }
    }

    fn forget(&mut self) {
        self.basis.forget();
    }

    fn bytes(&self) -> usize {
        self.basis.bytes()
            + self.n * T::PRECISION.bytes()
            + (self.h.len() + self.g.len() + 2 * self.m) * size_of::<f64>()
    }
}
