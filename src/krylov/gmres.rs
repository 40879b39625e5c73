//! GMRES(m) with right preconditioning: for matrices that are not symmetric. The norms it minimises are those of the residual itself.
//! The flexible variant ([`super::fgmres`]) differs in what it keeps, not in what it computes.

use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;

/// Workspace: an orthonormal basis V of at most m + 1 vectors, and the small least-squares problem.
pub struct Gmres<B: Backend, T: Scalar> {
    basis: Vec<B::Buffer<T>>,
    /// M v for every basis vector v in the flexible variant, otherwise room for one.
    z: Vec<B::Buffer<T>>,
    w: B::Buffer<T>,
    /// R of the factorised Hessenberg matrix, column by column, m + 1 numbers each.
    h: Vec<f64>,
    /// Cosines and sines of the Givens rotations.
    rotations: Vec<(f64, f64)>,
    /// Right-hand side of the least-squares problem.
    g: Vec<f64>,
    m: usize,
    n: usize,
}

impl<B: Backend, T: Scalar> Gmres<B, T> {
    /// For vectors of `n` elements, restarted after `m` steps.
    pub fn new(backend: &B, n: usize, m: usize) -> Result<Self> {
        Self::keeping(backend, n, m, |_| 1)
    }

    /// As `new`, with room for `preconditioned(m)` preconditioned vectors: 1 or m.
    pub(super) fn keeping(backend: &B, n: usize, m: usize, preconditioned: impl Fn(usize) -> usize) -> Result<Self> {
        let m = m.min(n.max(1));
        Ok(Gmres {
            basis: (0..=m).map(|_| backend.zeros(n)).collect::<Result<_>>()?,
            z: (0..preconditioned(m)).map(|_| backend.zeros(n)).collect::<Result<_>>()?,
            w: backend.zeros(n)?,
            h: try_vec((m + 1) * m, 0.0)?,
            rotations: try_vec(m, (0.0, 0.0))?,
            g: try_vec(m + 1, 0.0)?,
            m,
            n,
        })
    }

    /// One restart cycle; the basis starts with the residual of norm `norm` in `basis[0]`, not yet normalised.
    fn cycle(&mut self, run: &mut Run<'_, B, T>, norm: f64) -> Result<(Next, usize)> {
        let backend = run.backend;
        let m = self.m;
        self.g.fill(0.0);
        self.g[0] = norm;
        let inverse = T::from_f64(1.0 / norm);
        backend.scale(inverse, &mut self.basis[0]);
        for j in 0..m {
            let z = j % self.z.len();
            run.precondition(&self.basis[j], &mut self.z[z])?;
            run.operator(&self.z[z], &mut self.w)?;
            // Gram-Schmidt twice: once loses orthogonality when the residual drops fast.
            let column = &mut self.h[j * (m + 1)..][..m + 1];
            column.fill(0.0);
            for _ in 0..2 {
                for (i, h) in column[..=j].iter_mut().enumerate() {
                    let projection = backend.dot(&self.basis[i], &self.w);
                    *h += projection;
                    backend.axpby(T::from_f64(-projection), &self.basis[i], T::ONE, &mut self.w);
                }
            }
            let length = backend.norm(&self.w);
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
            backend.axpby(T::from_f64(1.0 / length), &self.w, T::ZERO, &mut self.basis[j + 1]);
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
        if self.z.len() == m {
            for (y, z) in self.g[..k].iter().zip(&self.z) {
                backend.axpby(T::from_f64(*y), z, T::ONE, x);
            }
            return Ok(());
        }
        backend.fill(T::ZERO, &mut self.w);
        for (y, v) in self.g[..k].iter().zip(&self.basis) {
            backend.axpby(T::from_f64(*y), v, T::ONE, &mut self.w);
        }
        run.precondition(&self.w, &mut self.z[0])?;
        backend.axpby(T::ONE, &self.z[0], T::ONE, x);
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
        let mut norm = run.initial_residual_norm(b, x, &mut self.basis[0], zero_guess)?;
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
            norm = run.residual_norm(b, x, &mut self.basis[0])?;
        }
    }

    fn bytes(&self) -> usize {
        (self.basis.len() + self.z.len() + 1) * self.n * T::PRECISION.bytes()
            + (self.h.len() + self.g.len() + 2 * self.m) * size_of::<f64>()
    }
}
