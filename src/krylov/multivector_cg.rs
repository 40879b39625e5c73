//! Conjugate gradients for several right-hand sides at once: one product and one application of the preconditioner for
//! all of them, and scalars for each. A vector that has converged or broken down stays as it is while the others go on.

use super::run::{DIRECT_CHECK_INTERVAL, PROGRESS_FACTOR, RECURRENCE_FLOOR, iterations_left};
use crate::backend::{MAX_VECTORS, Multivectors, Operator, PerVector, Preconditioner};
use crate::error::{Result, try_capacity, try_extend};
use crate::report::Phases;
use crate::scalar::Scalar;

/// The iteration goes on for the last vectors, at most this part of all, for as many iterations again as it took until
/// then.
pub const LAST_VECTORS: usize = 4;

/// Iterations for whose residual norms memory is allocated with the vectors.
const HISTORY: usize = 1000;

/// Workspace for `k` interleaved vectors of each kind. The letters are those of `cg.rs`.
pub struct MultivectorCg<B: Multivectors, T: Scalar> {
    k: usize,
    /// The solutions.
    pub x: B::Buffer<T>,
    /// The right-hand sides at first, then the residuals.
    pub r: B::Buffer<T>,
    z: B::Buffer<T>,
    p: B::Buffer<T>,
    /// Also for right-hand sides.
    pub q: B::Buffer<T>,
    /// The vectors of the last solve.
    vectors: [Vector; MAX_VECTORS],
    /// Residual norms of all vectors, iteration by iteration.
    norms: Vec<f64>,
}

/// What a method knows of one vector.
#[derive(Clone, Copy, Default)]
struct Vector {
    /// Whether it takes part.
    is_active: bool,
    iterations: usize,
    /// Residual norm at the start.
    initial: f64,
    /// Residual norm and iteration of the last progress.
    progress: (f64, usize),
}

/// One solve.
pub struct MultivectorRun<'a, B: Multivectors, T: Scalar> {
    /// Where vectors live.
    pub backend: &'a B,
    /// A, for multivectors.
    pub a: &'a dyn Operator<B, T>,
    /// M, prepared for them; `None` is the identity.
    pub m: Option<&'a mut dyn Preconditioner<B, T>>,
    /// Whether β is that of flexible methods.
    pub is_flexible: bool,
    /// Whether the initial guesses are zero.
    pub zero_guess: bool,
    /// Norms of the right-hand sides; 0 for a vector that takes no part.
    pub scales: PerVector,
    /// Residual norms at which to stop.
    pub targets: PerVector,
    /// Iteration limit.
    pub limit: usize,
    /// As in [`super::Run`].
    pub window: usize,
    /// As in [`super::Run`].
    pub divergence: f64,
    /// As in [`super::Run`], for the iterations of all vectors.
    pub direct_check: Option<&'a mut dyn FnMut(usize) -> bool>,
    /// Seconds of operator and preconditioner.
    pub phases: &'a mut Phases,
}

impl<B: Multivectors, T: Scalar> MultivectorCg<B, T> {
    /// For vectors of `n` elements.
    pub fn new(backend: &B, n: usize, k: usize, limit: usize) -> Result<Self> {
        let zeros = || backend.zeros(n * k);
        let norms = try_capacity((limit.min(HISTORY) + 1) * k)?;
        let (x, r, z, p, q) = (zeros()?, zeros()?, zeros()?, zeros()?, zeros()?);
        Ok(MultivectorCg { k, x, r, z, p, q, vectors: Default::default(), norms })
    }

    /// Vectors.
    pub fn vectors(&self) -> usize {
        self.k
    }

    /// Bytes of the workspace, for vectors of `n` elements.
    pub fn bytes(&self, n: usize) -> usize {
        5 * n * self.k * T::PRECISION.bytes() + self.norms.capacity() * size_of::<f64>()
    }

    /// Iterates from x on A x = r until all vectors have converged, or cannot.
    pub fn solve(&mut self, run: &mut MultivectorRun<'_, B, T>) -> Result<()> {
        let MultivectorCg { k, x, r, q, .. } = self;
        let (k, backend) = (*k, run.backend);
        if !run.zero_guess {
            backend.copy(r, q);
            run.phases.time("operator", || run.a.residual(q, x, r))?;
        }
        self.norms.clear();
        let (rr, _) = backend.multivector_dots(k, &self.r, &self.r, None)?;
        for (c, vector) in self.vectors.iter_mut().enumerate() {
            let initial = rr[c].sqrt();
            *vector = Vector { is_active: run.scales[c] > 0.0, iterations: 0, initial, progress: (f64::INFINITY, 0) };
        }
        self.record(run, &rr, 0)?;
        let (mut many, mut iteration) = (0, 0);
        let (mut previous, mut alpha) = ([0.0; MAX_VECTORS], [0.0; MAX_VECTORS]);
        loop {
            let active = self.vectors.iter().filter(|vector| vector.is_active).count();
            if active > k / LAST_VECTORS {
                many = iteration;
            }
            if active == 0 || iteration > 2 * many {
                return Ok(());
            }
            iteration += 1;
            self.precondition(run)?;
            let MultivectorCg { x, r, z, p, q, vectors, .. } = self;
            let with_q = (run.is_flexible && iteration > 1).then_some(&**q);
            let (zr, zq) = backend.multivector_dots(k, z, r, with_q)?;
            let mut beta = [0.0; MAX_VECTORS];
            for c in (0..k).filter(|c| vectors[*c].is_active && iteration > 1) {
                beta[c] = if run.is_flexible { -alpha[c] * zq[c] } else { zr[c] } / previous[c];
            }
            backend.multivector_direction(k, z, &beta, p)?;
            let pq = run.phases.time("operator", || backend.multivector_product(run.a, p, q))?;
            for c in 0..k {
                let vector = &mut vectors[c];
                // A breakdown, also by a NaN, leaves the vector as it is.
                vector.is_active &= zr[c] > 0.0 && pq[c] > 0.0 && beta[c].is_finite();
                alpha[c] = if vector.is_active { zr[c] / pq[c] } else { 0.0 };
            }
            previous = zr;
            let rr = backend.multivector_step(k, &alpha, (p, q), x, r)?;
            self.record(run, &rr, iteration)?;
        }
    }

    /// z = M r.
    fn precondition(&mut self, run: &mut MultivectorRun<'_, B, T>) -> Result<()> {
        let MultivectorCg { r, z, .. } = self;
        match &mut run.m {
            Some(m) => run.phases.time("preconditioner", || m.apply_to_multivectors(r, z)),
            None => {
                run.backend.copy(r, z);
                Ok(())
            }
        }
    }

    /// Records r·r of all vectors after an iteration, and decides which of them go on.
    fn record(&mut self, run: &mut MultivectorRun<'_, B, T>, rr: &PerVector, iteration: usize) -> Result<()> {
        try_extend(&mut self.norms, rr[..self.k].iter().map(|rr| rr.sqrt()))?;
        let floor = if iteration > 0 { RECURRENCE_FLOOR * T::EPSILON.to_f64() } else { 0.0 };
        for (c, vector) in self.vectors.iter_mut().enumerate().filter(|(_, vector)| vector.is_active) {
            let (norm, scale) = (rr[c].sqrt(), run.scales[c]);
            vector.iterations = iteration;
            if norm < PROGRESS_FACTOR * vector.progress.0 {
                vector.progress = (norm, iteration);
            }
            let has_stagnated = run.window > 0 && iteration - vector.progress.1 >= run.window;
            let goes_on = norm <= run.divergence * scale.max(vector.initial);
            vector.is_active =
                goes_on && norm > run.targets[c].max(floor * scale) && iteration < run.limit && !has_stagnated;
        }
        if iteration > 0 && iteration.is_multiple_of(DIRECT_CHECK_INTERVAL) && self.is_cheaper_direct(run) {
            self.vectors.iter_mut().for_each(|vector| vector.is_active = false);
        }
        Ok(())
    }

    /// Whether a factorisation is cheaper than the iterations that are left for all vectors.
    fn is_cheaper_direct(&self, run: &mut MultivectorRun<'_, B, T>) -> bool {
        let left = |c: usize| {
            let (iterations, norms) = self.history(c);
            iterations_left(norms, run.targets[c], run.limit - iterations)
        };
        let left = (0..self.k).filter(|c| self.vectors[*c].is_active).map(left).sum();
        left > 0 && run.direct_check.as_deref_mut().is_some_and(|direct_check| direct_check(left))
    }

    /// After a solve, with the right-hand sides in q: the vectors whose x is better than its initial guess.
    pub fn improved(&mut self, run: &mut MultivectorRun<'_, B, T>) -> Result<[bool; MAX_VECTORS]> {
        let MultivectorCg { k, x, r, q, .. } = self;
        run.phases.time("operator", || run.a.residual(q, x, r))?;
        let (rr, _) = run.backend.multivector_dots(*k, r, r, None)?;
        // NaN is not better than anything.
        Ok(std::array::from_fn(|c| self.vectors[c].iterations > 0 && rr[c].sqrt() < self.vectors[c].initial))
    }

    /// Iterations of a vector, and its residual norms from the initial guess on.
    pub fn history(&self, c: usize) -> (usize, impl ExactSizeIterator<Item = f64> + '_) {
        let iterations = self.vectors[c].iterations;
        (iterations, self.norms.iter().skip(c).step_by(self.k).take(iterations + 1).copied())
    }
}
