//! The multigrid cycle, written once for all backends. Levels may differ in the precision of their vectors: the type
//! changes inside restriction and interpolation, and nowhere else.

use super::error_scaling::ErrorScaling;
use super::grid_transfer::GridTransfer;
use crate::backend::{Backend, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::report::LevelReport;
use crate::scalar::{Number, Precision, Scalar};
use std::sync::Arc;

/// Names of the shapes, as the options spell them.
pub const NAMES: &[&str] = &["v", "w", "f", "k"];

/// How often and how the levels below are visited. The shapes differ from V only where a coarse level has another below
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One visit.
    V,
    /// Two visits, each of them a W.
    W,
    /// Two visits, an F and then a V.
    F,
    /// At most two steps of flexible CG with a K as preconditioner: the nonlinear cycle of Notay and Vassilevski.
    K,
}

impl Shape {
    /// The shape of this name.
    pub fn from_name(name: &str) -> Shape {
        match name {
            "v" => Shape::V,
            "w" => Shape::W,
            "f" => Shape::F,
            "k" => Shape::K,
            _ => unreachable!("the options table accepts only the names of the shapes, not {name}"),
        }
    }
}

/// A K-cycle skips its second step when the first reduces the residual norm to this share.
const K_CYCLE_REDUCTION: f64 = 0.25;

/// The coarse-grid correction of a level.
pub(crate) enum Below<B: Backend, V: Number> {
    /// A coarser level.
    Coarser(Box<dyn CoarseGrid<B, V>>),
    /// The inverse of the level's matrix, which needs no smoother.
    Inverse(Arc<dyn Operator<B, V>>),
    /// No coarser level: this many sweeps of the smoother.
    Sweeps(usize),
}

/// The initial guess of sweeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// Zero; no vector is read.
    Zero,
    /// In x.
    InX,
    /// In the first scratch vector, so that an odd number of sweeps out of place ends in x.
    InScratch,
}

/// One level, whose vectors have precision `V`.
pub(crate) struct Level<B: Backend, V: Number> {
    pub backend: B,
    /// Rows, on all ranks.
    pub rows: usize,
    /// The cycle that begins here.
    pub shape: Shape,
    pub a: Arc<dyn Operator<B, V>>,
    /// None where the level is inverted.
    pub smoother: Option<Arc<dyn Smoother<B, V>>>,
    pub smoother_name: String,
    pub smoother_precision: Precision,
    pub pre_sweeps: usize,
    pub post_sweeps: usize,
    /// The residual, and what the smoother needs; at least one.
    pub scratch: Vec<B::Buffer<V>>,
    pub below: Below<B, V>,
    /// None where the coarse correction is taken as it is.
    pub error_scaling: Option<ErrorScaling<B, V>>,
    pub nonzeros: usize,
}

impl<B: Backend, V: Number> Level<B, V> {
    /// x = M b: one cycle from a zero guess.
    pub fn cycle(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        self.visit(self.shape, b, x, true)
    }

    /// x += M (b - A x); with `zero_guess` x = M b and x is not read.
    fn visit(&mut self, shape: Shape, b: &B::Slice<V>, x: &mut B::Slice<V>, zero_guess: bool) -> Result<()> {
        let guess = if zero_guess { Guess::Zero } else { Guess::InX };
        match &self.below {
            Below::Inverse(inverse) => return inverse.apply(V::Wide::ONE, b, V::Wide::ZERO, x),
            // The second half runs backward, so that an even number of sweeps is symmetric.
            Below::Sweeps(sweeps) => {
                let second = sweeps / 2;
                self.sweeps(sweeps - second, b, x, guess, false)?;
                return self.sweeps(second, b, x, Guess::InX, true);
            }
            Below::Coarser(_) => {}
        }
        if self.pre_sweeps == 0 && zero_guess {
            self.backend.fill(V::ZERO, x);
        }
        self.sweeps(self.pre_sweeps, b, x, guess, false)?;
        if let Some(mut scaling) = self.error_scaling.take() {
            let corrected = self.correct_scaled(&mut scaling, shape, b, x);
            self.error_scaling = Some(scaling);
            corrected?;
            return self.sweeps(self.post_sweeps, b, x, Guess::InX, true);
        }
        // An odd number of sweeps out of place ends in x when the initial guess is elsewhere.
        let in_scratch = self.post_sweeps % 2 == 1 && self.smoother().prefers_out_of_place(&*self.a);
        if let Below::Coarser(coarser) = &mut self.below {
            let (is_after_one, r) = (zero_guess && self.pre_sweeps == 1, &mut self.scratch[0]);
            if !(is_after_one && required(&self.smoother).residual_from_zero(&self.backend, x, r)?) {
                self.a.residual(b, x, r)?;
            }
            coarser.correct(shape, r, x, in_scratch)?;
        }
        self.sweeps(self.post_sweeps, b, x, if in_scratch { Guess::InScratch } else { Guess::InX }, true)
    }

    /// x += α e for the coarse correction e of the residual of x, smoothed or not, and the best α.
    fn correct_scaled(
        &mut self,
        scaling: &mut ErrorScaling<B, V>,
        shape: Shape,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
    ) -> Result<()> {
        let ErrorScaling { norm, sweeps, r, e } = scaling;
        self.a.residual(b, x, r)?;
        if let Below::Coarser(coarser) = &mut self.below {
            // Restriction may scale what it is given.
            self.backend.copy(r, &mut self.scratch[0]);
            self.backend.fill(V::ZERO, e);
            coarser.correct(shape, &mut self.scratch[0], e, false)?;
        }
        self.sweeps(*sweeps, r, e, Guess::InX, true)?;
        let w = &mut self.scratch[0];
        self.a.apply(V::Wide::ONE, e, V::Wide::ZERO, w)?;
        self.backend.add_scaled_error(*norm, r, (e, w), x)
    }

    fn smoother(&self) -> &dyn Smoother<B, V> {
        required(&self.smoother)
    }

    /// Whether a cycle from here solves exactly, so that a second one would change nothing.
    pub fn is_exact(&self) -> bool {
        matches!(self.below, Below::Inverse(_))
    }

    /// Sweeps whose result is x.
    fn sweeps(
        &mut self,
        count: usize,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        guess: Guess,
        adjoint: bool,
    ) -> Result<()> {
        let Level { backend, a, smoother, scratch, .. } = self;
        for left in (0..count).rev() {
            let (smoother, first) = (required(smoother), left + 1 == count);
            let sweep = Sweep { zero_guess: first && guess == Guess::Zero, adjoint };
            // A sweep out of place writes x when an even number of sweeps follows. The first sweep may have to be in
            // place for that.
            let to_x = left % 2 == 0;
            let fits = !first || guess == Guess::Zero || to_x == (guess == Guess::InScratch);
            match scratch.split_first_mut() {
                Some((y, rest)) if fits && smoother.prefers_out_of_place(&**a) => {
                    let from_to: (&mut B::Slice<V>, &mut B::Slice<V>) = if to_x { (y, x) } else { (x, y) };
                    smoother.sweep_to(backend, &**a, b, from_to, rest, sweep)?;
                }
                _ => smoother.sweep(backend, &**a, b, x, scratch, sweep)?,
            }
        }
        Ok(())
    }

    /// Appends this level and all below.
    pub fn describe(&self, out: &mut Vec<LevelReport>) {
        let count = self.scratch.len() + if self.error_scaling.is_some() { 2 } else { 0 };
        let vectors = count * self.a.rows() * V::PRECISION.bytes();
        // Levels for multivectors share the smoother.
        let smoothers = self.smoother.as_ref().filter(|_| self.a.vectors() == 1).map_or(0, |smoother| smoother.bytes());
        let (own, smoother, transfer) = match &self.below {
            Below::Coarser(coarser) => {
                (coarser.bytes(), self.smoother_name.clone(), Some(coarser.transfer_precision()))
            }
            Below::Inverse(inverse) => {
                let format = inverse.format();
                let name = if format == "dense" { "dense inverse".to_string() } else { format };
                (inverse.bytes(), name, None)
            }
            Below::Sweeps(_) => (0, self.smoother_name.clone(), None),
        };
        let (pre_sweeps, post_sweeps) = match &self.below {
            Below::Coarser(_) => (self.pre_sweeps, self.post_sweeps),
            Below::Inverse(_) => (0, 0),
            Below::Sweeps(sweeps) => (sweeps - sweeps / 2, sweeps / 2),
        };
        out.push(LevelReport {
            rows: self.rows * self.a.vectors(),
            nonzeros: self.nonzeros,
            bytes: self.a.bytes() + smoothers + vectors + own,
            format: self.a.format(),
            matrix_precision: self.a.precision(),
            vector_precision: V::PRECISION,
            transfer_precision: transfer.unwrap_or(self.a.precision()),
            smoother_precision: self.smoother_precision,
            smoother,
            pre_sweeps,
            post_sweeps,
            breakdowns: self.smoother.as_ref().map_or(0, |smoother| smoother.breakdowns()),
            precision_reason: String::new(),
            part: self.a.own_part(),
        });
        if let Below::Coarser(coarser) = &self.below {
            coarser.describe(out);
        }
    }

    /// This level and all below for multivectors of `k` vectors: with the same matrices, transfers and smoothers, and with
    /// vectors of their own. None where a part of them cannot be applied to several vectors at once.
    pub fn for_multivectors(&self, k: usize) -> Result<Option<Level<B, V>>> {
        let takes = self.smoother.as_ref().is_none_or(|smoother| smoother.takes_multivectors());
        // Inner steps have scalars of their own for each vector.
        let takes = takes && !self.is_nonlinear();
        let Some(a) = Arc::clone(&self.a).for_multivectors(k).filter(|_| takes) else {
            return Ok(None);
        };
        let below = match &self.below {
            Below::Coarser(coarser) => coarser.for_multivectors(k)?.map(Below::Coarser),
            Below::Inverse(inverse) => Arc::clone(inverse).for_multivectors(k).map(Below::Inverse),
            Below::Sweeps(sweeps) => Some(Below::Sweeps(*sweeps)),
        };
        let Some(below) = below else { return Ok(None) };
        let n = a.rows();
        Ok(Some(Level {
            backend: self.backend.clone(),
            rows: self.rows,
            shape: self.shape,
            a,
            smoother: self.smoother.clone(),
            smoother_name: self.smoother_name.clone(),
            smoother_precision: self.smoother_precision,
            pre_sweeps: self.pre_sweeps,
            post_sweeps: self.post_sweeps,
            scratch: self.scratch.iter().map(|_| self.backend.zeros(n)).collect::<Result<_>>()?,
            below,
            error_scaling: None,
            nonzeros: self.nonzeros,
        }))
    }

    /// The level where values that are not finite appeared first in the last cycle, whose result has some; this is
    /// level `level`.
    pub fn lost(&self, level: usize) -> usize {
        let below = match &self.below {
            Below::Coarser(coarser) => coarser.lost(level + 1),
            _ => None,
        };
        below.unwrap_or(level)
    }

    /// Whether a cycle depends on what it is applied to, by inner steps or by the scaling of its corrections.
    pub fn is_nonlinear(&self) -> bool {
        self.shape == Shape::K || self.error_scaling.is_some()
    }

    /// Whether every level computes in precision `T` and the cycle is its own transpose. F visits in an order that is
    /// not.
    pub fn is_symmetric_in(&self, precision: Precision) -> bool {
        let symmetric = self.pre_sweeps == self.post_sweeps
            && matches!(self.shape, Shape::V | Shape::W)
            && self.error_scaling.is_none()
            && V::PRECISION == precision;
        match &self.below {
            Below::Coarser(coarser) => symmetric && coarser.is_symmetric_in(precision),
            Below::Sweeps(sweeps) => V::PRECISION == precision && (sweeps % 2 == 0 || self.smoother().is_symmetric()),
            Below::Inverse(_) => V::PRECISION == precision,
        }
    }
}

/// The smoother of a level that is not inverted.
fn required<B: Backend, V: Number>(smoother: &Option<Arc<dyn Smoother<B, V>>>) -> &dyn Smoother<B, V> {
    match smoother {
        Some(smoother) => &**smoother,
        None => unreachable!("a level that is inverted takes no sweeps"),
    }
}

/// The levels below one whose vectors have precision `V`.
pub(crate) trait CoarseGrid<B: Backend, V: Number>: Send + Sync {
    /// x += P M_c R r, where M_c are the cycles below in this shape. With `in_scratch` r becomes the sum, and x stays.
    /// r may be scaled.
    fn correct(&mut self, shape: Shape, r: &mut B::Slice<V>, x: &mut B::Slice<V>, in_scratch: bool) -> Result<()>;
    /// As for [`Level`].
    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn CoarseGrid<B, V>>>>;
    /// Bytes of the transfers and of the vectors between the levels.
    fn bytes(&self) -> usize;
    /// Storage of the transfers.
    fn transfer_precision(&self) -> Precision;
    /// Appends the levels below.
    fn describe(&self, out: &mut Vec<LevelReport>);
    /// As for [`Level`], if it is one of these levels, of which the first has number `level`.
    fn lost(&self, level: usize) -> Option<usize>;
    /// As for [`Level`].
    fn is_symmetric_in(&self, precision: Precision) -> bool;
}

/// A coarse level in precision `W`, seen from a level in precision `V`.
pub(crate) struct Coarse<B: Backend, V: Number, W: Number> {
    pub transfer: Box<dyn GridTransfer<B, V, W>>,
    pub b: B::Buffer<W>,
    pub x: B::Buffer<W>,
    /// Product and direction of the inner iteration; only for K-cycles.
    pub inner: Option<(B::Buffer<W>, B::Buffer<W>)>,
    pub level: Level<B, W>,
}

impl<B: Backend, V: Number, W: Number> Coarse<B, V, W> {
    /// x = at most two steps of flexible CG on A x = b, which overwrite b. The letters are those of Notay and
    /// Vassilevski: c and d are the directions, v = A c, w = A d.
    fn accelerate(&mut self) -> Result<()> {
        let Coarse { b, x: c, inner, level, .. } = self;
        level.visit(Shape::K, b, c, true)?;
        let Some((v, d)) = inner else { return Ok(()) };
        let backend = level.backend.clone();
        level.a.apply(W::Wide::ONE, c, W::Wide::ZERO, v)?;
        let (rho1, alpha1) = (backend.dot(c, v), backend.dot(c, b));
        // Without a positive ρ there is no step to compute: nothing to correct, or a level that is not definite to
        // rounding.
        if rho1.is_nan() || rho1 <= 0.0 {
            return Ok(());
        }
        let initial = backend.norm(b);
        backend.axpby(W::Wide::from_f64(-alpha1 / rho1), v, W::Wide::ONE, b);
        if backend.norm(b) <= K_CYCLE_REDUCTION * initial {
            backend.axpby(W::Wide::ZERO, v, W::Wide::from_f64(alpha1 / rho1), c);
            return Ok(());
        }
        level.visit(Shape::K, b, d, true)?;
        let (gamma, alpha2) = (backend.dot(d, v), backend.dot(d, b));
        // w overwrites the residual, which is not needed any more.
        let w = b;
        level.a.apply(W::Wide::ONE, d, W::Wide::ZERO, w)?;
        let rho2 = backend.dot(d, w) - gamma * gamma / rho1;
        let step = if rho2 > 0.0 { alpha2 / rho2 } else { 0.0 };
        backend.axpby(W::Wide::from_f64(step), d, W::Wide::from_f64((alpha1 - gamma * step) / rho1), c);
        Ok(())
    }
}

impl<B: Backend, V: Number, W: Number> CoarseGrid<B, V> for Coarse<B, V, W> {
    fn correct(&mut self, shape: Shape, r: &mut B::Slice<V>, x: &mut B::Slice<V>, in_scratch: bool) -> Result<()> {
        self.transfer.restrict(r, &mut self.b)?;
        match shape {
            Shape::K => self.accelerate()?,
            _ => self.level.visit(shape, &self.b, &mut self.x, true)?,
        }
        if matches!(shape, Shape::W | Shape::F) && !self.level.is_exact() {
            let second = if shape == Shape::W { Shape::W } else { Shape::V };
            self.level.visit(second, &self.b, &mut self.x, false)?;
        }
        self.transfer.interpolate(&self.x, x, in_scratch.then_some(r))
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn CoarseGrid<B, V>>>> {
        let Some(transfer) = self.transfer.for_multivectors(k)? else { return Ok(None) };
        let Some(level) = self.level.for_multivectors(k)? else { return Ok(None) };
        let n = level.a.rows();
        let (b, x) = (level.backend.zeros(n)?, level.backend.zeros(n)?);
        Ok(Some(Box::new(Coarse { transfer, b, x, inner: None, level })))
    }

    fn bytes(&self) -> usize {
        let count = if self.inner.is_some() { 4 } else { 2 };
        let vectors = count * self.level.a.rows() * W::PRECISION.bytes();
        self.transfer.bytes() + vectors
    }

    fn transfer_precision(&self) -> Precision {
        self.transfer.precision()
    }

    fn lost(&self, level: usize) -> Option<usize> {
        let backend = &self.level.backend;
        if !backend.max_norm(&self.b).is_finite() {
            return Some(level);
        }
        (!backend.max_norm(&self.x).is_finite()).then(|| self.level.lost(level))
    }

    fn describe(&self, out: &mut Vec<LevelReport>) {
        self.level.describe(out);
    }

    fn is_symmetric_in(&self, precision: Precision) -> bool {
        self.level.is_symmetric_in(precision)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::amg::grid_transfer::Transfers;
    use crate::backend::components::{SmootherInput, Spectrum};
    use crate::components::SmootherComponents;
    use crate::config::Config;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::Host;
    use crate::host::operator::Stored;
    use crate::matrix::Matrix;
    use crate::preconditioner::Amg;
    use crate::skip::is_deep;
    use crate::sparse::Csr;
    use std::sync::Mutex;

    #[test]
    fn two_inner_steps_solve_two_unknowns() {
        // The level below has the matrix (2 -1; -1 2), one sweep of l1-Jacobi for a cycle, and nothing below it.
        let config = Config::new();
        let host = Host::new(&Context::new("host:1").unwrap());
        let matrix = |t: &[(usize, usize, f64)]| Csr::from_triplets(2, 2, t).unwrap().into_shared();
        let a = matrix(&[(0, 0, 2.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 2.0)]);
        let identity = matrix(&[(0, 0, 1.0), (1, 1, 1.0)]);
        let input = SmootherInput {
            setup: &host,
            to: &host,
            parameters: &config,
            level: 0,
            a: &a.clone().into(),
            stores_matrix: true,
            stores_pattern: true,
            factors: None,
            spectrum: &Spectrum::default(),
            checks: &Mutex::new(()),
        };
        let smoother = Host::smoother::<f64, f64, f64>("l1_jacobi", &input).unwrap();
        let level = Level {
            backend: host.clone(),
            rows: 2,
            shape: Shape::K,
            scratch: vec![vec![0.0; 2]; smoother.scratch().max(1)],
            smoother: Some(smoother.into()),
            a: Arc::new(Stored::new(&host, a.clone())),
            smoother_name: String::new(),
            smoother_precision: Precision::F64,
            pre_sweeps: 1,
            post_sweeps: 1,
            below: Below::Sweeps(1),
            error_scaling: None,
            nonzeros: 4,
        };
        let mut coarse = Coarse::<Host, f64, f64> {
            transfer: Box::new(Transfers {
                backend: host.clone(),
                restriction: Arc::new(Stored::new(&host, identity.clone())),
                interpolation: Arc::new(Stored::new(&host, identity)),
            }),
            b: vec![0.0; 2],
            x: vec![0.0; 2],
            inner: Some((vec![0.0; 2], vec![0.0; 2])),
            level,
        };
        // The second right-hand side is an eigenvector, for which one step is enough; for the third there is nothing to
        // do.
        for (b, exact) in [([1.0, 0.0], [2.0 / 3.0, 1.0 / 3.0]), ([1.0, 1.0], [1.0, 1.0]), ([0.0, 0.0], [0.0, 0.0])] {
            let (mut r, mut x) = (b, [0.0; 2]);
            coarse.correct(Shape::K, &mut r, &mut x, false).unwrap();
            assert!(x.iter().zip(exact).all(|(x, e)| (x - e).abs() < 1e-14), "{b:?}: {x:?}");
        }
    }

    #[test]
    fn v_and_w_are_symmetric_and_k_is_homogeneous() {
        let matrix = Arc::new(Matrix::from_csr(gallery::poisson5(30, 30).unwrap()).unwrap());
        let n = matrix.rows();
        let apply = |shape: &str, b: &[f64]| {
            let mut config = Config::new();
            config.set_str("amg.cycle.type", shape).unwrap();
            config.set_int("amg.coarsest.max_rows", 10).unwrap();
            let mut amg = Amg::setup(&Context::new("host:1").unwrap(), &matrix, &config).unwrap();
            assert!(amg.report().levels.len() > 2);
            let mut x = vec![f64::NAN; n];
            amg.apply(b, &mut x).unwrap();
            x
        };
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let p: Vec<f64> = (0..n).map(|i| ((i * 37) % 19) as f64 - 9.0).collect();
        let q: Vec<f64> = (0..n).map(|i| ((i * 11) % 23) as f64).collect();
        for shape in ["v", "w"] {
            let (one, other) = (dot(&p, &apply(shape, &q)), dot(&q, &apply(shape, &p)));
            assert!((one - other).abs() <= 1e-10 * one.abs(), "{shape}: {one} {other}");
        }
        let doubled: Vec<f64> = q.iter().map(|v| 2.0 * v).collect();
        let (once, twice) = (apply("k", &q), apply("k", &doubled));
        assert!(once.iter().zip(&twice).all(|(o, t)| 2.0 * o == *t), "scaling by 2 is exact");
        assert!(dot(&q, &once) > 0.0);
    }

    #[test]
    fn sweeps_out_of_place_end_in_x() {
        let problems = [("poisson5:16", "pmis"), ("elasticity:3", "mis2")];
        let sweeps = [("1", "1"), ("0", "1"), ("2", "1"), ("3", "2"), ("1", "0")];
        for (p, (problem, coarsening)) in problems.into_iter().enumerate() {
            let matrix = Arc::new(gallery::parse(problem).unwrap().into_matrix().unwrap());
            let b: Vec<f64> = (0..matrix.rows()).map(|i| ((i * 37) % 19) as f64 - 9.0).collect();
            let smoothers = [("l1_jacobi", "1"), ("chebyshev", "1"), ("chebyshev", "2"), ("chebyshev", "3")];
            for (s, (smoother, degree)) in smoothers.into_iter().enumerate() {
                for (k, (pre, post)) in sweeps.into_iter().enumerate() {
                    // Each smoother with each number of sweeps, on either problem in turn.
                    if !(p + s + k).is_multiple_of(2) && !is_deep() {
                        continue;
                    }
                    let options = [
                        ("amg.coarsening.type", coarsening),
                        ("amg.smoother.type", smoother),
                        ("amg.smoother.chebyshev.degree", degree),
                        ("amg.smoother.pre_sweeps", pre),
                        ("amg.smoother.post_sweeps", post),
                        ("amg.smoother.diagonal", if k % 2 == 0 { "block" } else { "point" }),
                        // The second visit of a W begins with what the first one left.
                        ("amg.cycle.type", if k < 2 { "v" } else { "w" }),
                        ("amg.coarsest.max_rows", "4"),
                        ("amg.coarsest.sweeps", "3"),
                    ];
                    let apply = |device: &str| {
                        let mut config = Config::new();
                        options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
                        let mut amg = Amg::setup(&Context::new(device).unwrap(), &matrix, &config).unwrap();
                        let mut x = vec![f64::NAN; b.len()];
                        amg.apply(&b, &mut x).unwrap();
                        x
                    };
                    let (here, there) = (apply("host:1"), apply("sim"));
                    let largest = here.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
                    let off = here.iter().zip(&there).fold(0.0_f64, |most, (x, y)| most.max((x - y).abs()));
                    assert!(off <= 1e-12 * largest, "{problem} with {options:?}: {off} of {largest}");
                }
            }
        }
    }
}
