//! IDR(s) with right preconditioning, in the biorthogonal variant of van Gijzen and Sonneveld: for matrices that are not symmetric, in a fixed amount
//! of memory. Residuals are forced into a sequence of shrinking spaces: those that are orthogonal to s shadow vectors, s at a time. One iteration here is
//! one product with A and one application of M; s + 1 of them lead from one space to the next.
//!
//! The letters are those of the paper: p_i shadow vectors, u_i directions, g_i = A u_i, μ_ik = p_i·g_k, which is zero for i < k, f_i = p_i·r, c the
//! solution of μ c = f. The inner products of a vector with all p_i are computed together; the sums that orthogonalise g_k follow from μ.

use super::{Krylov, Next, Run};
use crate::backend::Backend;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;
use std::slice::from_ref;

/// ω is enlarged where r and t = A M r are so far from parallel that |r·t| is below this share of the product of the norms: a small ω lets rounding grow
/// in the next space.
const PARALLEL: f64 = 0.7;

/// An inner product is negligible at or below this share of the product of the norms.
const ORTHOGONAL: f64 = 1e-15;

/// Workspace: vectors and scalars.
pub struct Idr<B: Backend, T: Scalar> {
    /// p_i, orthonormal.
    shadow: Vec<B::Buffer<T>>,
    u: Vec<B::Buffer<T>>,
    g: Vec<B::Buffer<T>>,
    r: B::Buffer<T>,
    /// r without its part along the g_i, and M r.
    v: B::Buffer<T>,
    /// M v, and A M r.
    t: B::Buffer<T>,
    scalars: Scalars,
    n: usize,
}

/// The scalars of an iteration.
struct Scalars {
    s: usize,
    /// μ, column by column.
    mu: Vec<f64>,
    f: Vec<f64>,
    c: Vec<f64>,
    /// Inner products of a vector with all p_i, and with itself.
    products: Vec<f64>,
    omega: f64,
    /// Whether there are no u_i, g_i and μ yet.
    is_first: bool,
}

impl Scalars {
    fn new(s: usize) -> Result<Scalars> {
        let (mu, f, c, products) = (try_vec(s * s, 0.0)?, try_vec(s + 1, 0.0)?, try_vec(s, 0.0)?, try_vec(s + 1, 0.0)?);
        Ok(Scalars { s, mu, f, c, products, omega: 1.0, is_first: true })
    }

    fn mu(&self, i: usize, k: usize) -> f64 {
        self.mu[k * self.s + i]
    }

    /// Solves μ c = f in rows and columns from k on.
    fn solve(&mut self, k: usize) {
        for i in k..self.s {
            let known: f64 = (k..i).map(|j| self.mu(i, j) * self.c[j]).sum();
            self.c[i] = if self.is_first { 0.0 } else { (self.f[i] - known) / self.mu(i, i) };
        }
    }

    /// The factor with which g_i is subtracted from g_k, so that it is orthogonal to p_i.
    fn orthogonalise(&mut self, i: usize) -> f64 {
        let alpha = self.products[i] / self.mu(i, i);
        for j in i..self.s {
            self.products[j] -= alpha * self.mu(j, i);
        }
        alpha
    }

    /// Whether g_k is orthogonal to p_k, to rounding; also where it is not a number.
    fn is_broken(&self, k: usize) -> bool {
        let size = self.products[self.s].sqrt();
        let product = self.products[k].abs();
        product <= ORTHOGONAL * size || !product.is_finite()
    }

    /// The length of the step along u_k, after which f has the inner products with the new residual.
    fn step(&mut self, k: usize) -> f64 {
        let s = self.s;
        self.mu[k * s + k..(k + 1) * s].copy_from_slice(&self.products[k..s]);
        let beta = self.f[k] / self.mu(k, k);
        for j in k + 1..s {
            self.f[j] -= beta * self.mu(j, k);
        }
        beta
    }
}

impl<B: Backend, T: Scalar> Idr<B, T> {
    /// For vectors of `n` elements, with `s` shadow vectors, or as many as there are elements.
    pub fn new(backend: &B, n: usize, s: usize) -> Result<Self> {
        let s = s.min(backend.whole(n).max(1));
        let vectors = || (0..s).map(|_| backend.zeros(n)).collect::<Result<Vec<_>>>();
        let mut shadow: Vec<B::Buffer<T>> = (0..s).map(|k| backend.random(n, k as u64)).collect::<Result<_>>()?;
        for k in 0..s {
            let (before, own) = shadow.split_at_mut(k);
            // Twice, because they are random: some are nearly parallel where there are few elements.
            for p in before.iter().chain(&*before) {
                let along = backend.dot(p, &own[0]);
                backend.axpby(T::from_f64(-along), p, T::ONE, &mut own[0]);
            }
            let norm = backend.norm(&*own[0]);
            if norm > 0.0 {
                backend.scale(T::from_f64(1.0 / norm), &mut own[0]);
            }
        }
        backend.status()?;
        let (r, v, t) = (backend.zeros(n)?, backend.zeros(n)?, backend.zeros(n)?);
        Ok(Idr { shadow, u: vectors()?, g: vectors()?, r, v, t, scalars: Scalars::new(s)?, n })
    }

    /// u_k = ω M v + Σ c_i u_i for v = r - Σ c_i g_i, and g_k = A u_k, made orthogonal to the p_i before p_k.
    fn direction(&mut self, run: &mut Run<'_, B, T>, k: usize) -> Result<()> {
        let Idr { shadow, u, g, r, v, t, scalars, .. } = self;
        let backend = run.backend;
        scalars.solve(k);
        backend.copy(&*r, &mut *v);
        for (c, g) in scalars.c.iter().zip(&*g).skip(k).filter(|(c, _)| **c != 0.0) {
            backend.axpby(T::from_f64(-c), g, T::ONE, v);
        }
        run.precondition(v, t)?;
        let (before, from_k) = u.split_at_mut(k);
        let (newest, others) = from_k.split_at_mut(1);
        let newest = &mut newest[0];
        backend.axpby(T::from_f64(scalars.omega), t, T::from_f64(scalars.c[k]), newest);
        for (c, u) in scalars.c[k + 1..].iter().zip(&*others).filter(|(c, _)| **c != 0.0) {
            backend.axpby(T::from_f64(*c), u, T::ONE, newest);
        }
        let (g_before, g_from_k) = g.split_at_mut(k);
        let g_k = &mut g_from_k[0];
        run.operator(newest, g_k)?;
        backend.dots(shadow, g_k, &mut scalars.products);
        for (i, (u_i, g_i)) in before.iter().zip(&*g_before).enumerate() {
            let alpha = T::from_f64(-scalars.orthogonalise(i));
            backend.axpby(alpha, g_i, T::ONE, g_k);
            backend.axpby(alpha, u_i, T::ONE, newest);
        }
        Ok(())
    }

    /// The step into the next space along M r. Returns the norm of r after it, NaN where something is not a number.
    fn next_space(&mut self, run: &mut Run<'_, B, T>, x: &mut B::Slice<T>, norm: f64) -> Result<f64> {
        let Idr { shadow, r, v, t, scalars, .. } = self;
        let backend = run.backend;
        run.precondition(r, v)?;
        run.operator(v, t)?;
        let mut products = [0.0; 2];
        backend.dots(from_ref(&*r), t, &mut products);
        let [rt, tt] = products;
        if rt.is_nan() || tt.is_nan() {
            return Ok(f64::NAN);
        }
        let size = norm * tt.sqrt();
        if rt.abs() <= ORTHOGONAL * size {
            return run.breakdown(&format!("r·AMr is {rt:.3e}; idr finds no step along the residual (use gmres)"));
        }
        let cosine = rt.abs() / size;
        scalars.omega = rt / tt * if cosine < PARALLEL { PARALLEL / cosine } else { 1.0 };
        backend.axpby(T::from_f64(scalars.omega), v, T::ONE, x);
        backend.axpby(T::from_f64(-scalars.omega), t, T::ONE, r);
        scalars.is_first = false;
        backend.dots(shadow, r, &mut scalars.f);
        Ok(scalars.f[scalars.s].sqrt())
    }

    /// Begins with the first space.
    fn restart(&mut self, backend: &B) {
        (self.scalars.omega, self.scalars.is_first) = (1.0, true);
        backend.dots(&self.shadow, &self.r, &mut self.scalars.f);
    }

    /// The s steps within a space. None after a breakdown from which the recurrences were begun anew.
    fn steps(&mut self, run: &mut Run<'_, B, T>, x: &mut B::Slice<T>, norm: &mut f64) -> Result<Option<Next>> {
        let backend = run.backend;
        for k in 0..self.scalars.s {
            self.direction(run, k)?;
            if self.scalars.products[self.scalars.s].is_nan() {
                return run.step(f64::NAN).map(Some);
            }
            if self.scalars.is_broken(k) {
                if self.scalars.is_first && k == 0 {
                    return run.breakdown("A M r is orthogonal to a random vector; idr finds no direction (use gmres)");
                }
                self.restart(backend);
                return Ok(None);
            }
            let beta = self.scalars.step(k);
            backend.axpby(T::from_f64(beta), &self.u[k], T::ONE, x);
            backend.axpby(T::from_f64(-beta), &self.g[k], T::ONE, &mut self.r);
            *norm = backend.norm(&self.r);
            let next = run.step(*norm)?;
            run.keep(x);
            if next != Next::Continue {
                return Ok(Some(next));
            }
        }
        Ok(Some(Next::Continue))
    }
}

impl<B: Backend, T: Scalar> Krylov<B, T> for Idr<B, T> {
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next> {
        let mut norm = run.initial_residual_norm(b, x, &mut self.r, zero_guess)?;
        let mut next = run.start(norm)?;
        if next == Next::Continue {
            self.restart(run.backend);
        }
        while next == Next::Continue {
            match self.steps(run, x, &mut norm)? {
                Some(Next::Continue) => {}
                Some(ended) => return Ok(ended),
                None => continue,
            }
            norm = self.next_space(run, x, norm)?;
            next = run.step(norm)?;
            run.keep(x);
        }
        Ok(next)
    }

    fn bytes(&self) -> usize {
        let Scalars { s, mu, f, c, products, .. } = &self.scalars;
        let scalars = mu.len() + f.len() + c.len() + products.len();
        (3 * s + 3) * self.n * T::PRECISION.bytes() + scalars * size_of::<f64>()
    }
}
