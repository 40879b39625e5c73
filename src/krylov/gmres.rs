//! GMRES(m) with right preconditioning: for matrices that are not symmetric. The norms it minimises are those of the
//! residual itself. The flexible variant ([`super::fgmres`]) differs in what it keeps, not in what it computes.

use super::{Krylov, Next, Run};
use crate::backend::{ArnoldiBasis, Backend};
use crate::error::{Result, try_filled, try_vec};
use crate::scalar::Scalar;

/// Workspace: the Arnoldi basis V of at most m vectors, the next vector w, and the small least-squares problem.
pub struct Gmres<B: Backend, T: Scalar> {
    basis: B::ArnoldiBasis<T>,
    w: B::Buffer<T>,
    /// R of the factorised Hessenberg matrix, column by column, m + 1 numbers each.
    h: Vec<f64>,
    /// Cosines and sines of the Givens rotations.
    rotations: Vec<(f64, f64)>,
    /// Right-hand side of the least-squares problem.
    g: Vec<f64>,
    /// Whether M v is stored for every basis vector v.
    flexible: bool,
    m: usize,
    n: usize,
}

impl<B: Backend, T: Scalar> Gmres<B, T> {
    /// For vectors of `n` elements, restarted after `m` steps.
    pub fn new(backend: &B, n: usize, m: usize) -> Result<Self> {
        Self::with_flexibility(backend, n, m, false)
    }

    /// As `new`, flexible or not.
    pub(super) fn with_flexibility(backend: &B, n: usize, m: usize, flexible: bool) -> Result<Self> {
        let m = m.min(backend.whole(n).max(1));
        Ok(Gmres {
            basis: backend.arnoldi_basis(n, m, flexible)?,
            w: backend.zeros(n)?,
            h: try_vec((m + 1) * m, 0.0)?,
            rotations: try_filled(m, (0.0, 0.0))?,
            g: try_vec(m + 1, 0.0)?,
            flexible,
            m,
            n,
        })
    }

    /// One restart cycle from the residual in `w`, which has this norm.
    fn cycle(&mut self, run: &mut Run<'_, B, T>, norm: f64) -> Result<(Next, usize)> {
        let Gmres { basis, w, m, .. } = self;
        let m = *m;
        self.g.fill(0.0);
        self.g[0] = norm;
        basis.begin(norm)?;
        for j in 0..m {
            basis.iterate(run.is_capturable(), &mut |basis| {
                basis.append(w)?;
                let (v, z) = basis.newest();
                run.precondition(v, z)?;
                run.operator(z, w)?;
                basis.store_preconditioned()?;
                basis.orthogonalise(w)
            })?;
            // The only synchronisation of the iteration.
            let column = &mut self.h[j * (m + 1)..][..m + 1];
            column.fill(0.0);
            let norm = basis.read_column(&mut column[..=j])?;
            if !norm.is_finite() {
                return run.step(f64::NAN).map(|next| (next, j));
            }
            for (i, &(c, s)) in self.rotations[..j].iter().enumerate() {
                (column[i], column[i + 1]) = (c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]);
            }
            let radius = column[j].hypot(norm);
            if radius == 0.0 {
                return run.breakdown("the preconditioned matrix maps a direction to zero; it is singular");
            }
            let (c, s) = (column[j] / radius, norm / radius);
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

    /// x += M V y with y from the triangular system of the first `k` columns; the flexible variant has stored M V.
    fn correct(&mut self, run: &mut Run<'_, B, T>, x: &mut B::Slice<T>, k: usize) -> Result<()> {
        let backend = run.backend;
        let m = self.m;
        for i in (0..k).rev() {
            let known: f64 = (i + 1..k).map(|j| self.h[j * (m + 1) + i] * self.g[j]).sum();
            self.g[i] = (self.g[i] - known) / self.h[i * (m + 1) + i];
        }
        let y = &self.g[..k];
        if self.flexible {
            return self.basis.add_combination(y, x);
        }
        backend.fill(T::ZERO, &mut self.w);
        self.basis.add_combination(y, &mut self.w)?;
        let (_, z) = self.basis.newest();
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

    fn discard_graph(&mut self) {
        self.basis.discard_graph();
    }

    fn bytes(&self) -> usize {
        self.basis.bytes()
            + self.n * T::PRECISION.bytes()
            + (self.h.len() + self.g.len() + 2 * self.m) * size_of::<f64>()
    }
}
