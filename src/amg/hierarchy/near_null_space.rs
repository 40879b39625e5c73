//! The near-null space of the finest level: the caller's vectors, constants or random vectors, improved by steps of
//! Rayleigh-quotient CG where the options ask for it.
//!
//! A step goes through the vectors in their order and reduces the Rayleigh quotient x·A x / x·D x of each, with D the
//! diagonal of A, so that the units of the unknowns do not matter. The residual A x - λ D x is smoothed; the direction goes
//! by the formula of Polak and Ribière, because the other vectors change as well, and is orthogonal to the vectors before.
//! They keep their order, where Ritz vectors of equal quotients would be a matter of rounding. Coefficients are rounded, so
//! that host and GPUs, which add in different orders, take the same ones; the vectors then agree to rounding.

use super::{Builder, SetupOn};
use crate::backend::components::{SmootherInput, Spectrum};
use crate::backend::setup::{NearNullVectors, Setup, SetupMatrix};
use crate::backend::spectrum::rounded;
use crate::backend::{Operator, Smoother, Sweep};
use crate::components;
use crate::context::LogLevel;
use crate::error::{Result, fail, try_capacity};
use crate::hash::hash;
use crate::scalar::Scalar;
use crate::sparse::NearNullSpace;
use std::sync::{Arc, Mutex};

/// A vector that has lost all but this share of its norm against those before it depends on them.
const DEPENDENT: f64 = 1e-8;

impl Builder<'_> {
    /// Refuses options of the near-null space with a coarsening that has none, and random vectors that stay random.
    pub(super) fn check_near_null_space(&self) -> Result<()> {
        let (steps, random) =
            (self.config.int("amg.near_null_space.steps"), self.config.int("amg.near_null_space.random"));
        if (steps > 0 || random > 0) && !self.uses_near_null_space() {
            return fail!(
                OptionValue,
                "amg.near_null_space.steps is {steps} and amg.near_null_space.random {random}, but amg.coarsening.type \"{}\" with \
                 amg.interpolation.type \"{}\" uses no near-null space; use {} with them",
                self.coarsening().name,
                self.interpolation().name,
                components::with_near_null_space()
            );
        }
        if self.strength().uses_near_null_space && self.near_null_space.is_none() && random == 0 {
            return fail!(
                OptionValue,
                "amg.strength.type \"{}\" compares unknowns by vectors of a near-null space, and the matrix has none: set them or \
                 coordinates, or have some made by amg.near_null_space.random and amg.near_null_space.steps, 4 and 10 for example",
                self.strength().name
            );
        }
        if random > 0 && steps == 0 && self.near_null_space.is_none() {
            return fail!(
                OptionValue,
                "amg.near_null_space.random is {random}, and random vectors are of no use as they are; set amg.near_null_space.steps, \
                 to 10 for example"
            );
        }
        Ok(())
    }

    /// Whether a component represents a near-null space.
    fn uses_near_null_space(&self) -> bool {
        self.coarsening().uses_near_null_space
            || self.interpolation().uses_near_null_space
            || self.strength().uses_near_null_space
    }

    /// The near-null space: the caller's vectors, random ones or constants; none where no component uses it.
    pub(super) fn finest_near_null_space<S: SetupOn<S>, T: Scalar>(
        &self,
        setup: &S,
        a: &S::Matrix<T>,
    ) -> Result<Option<Arc<S::NearNullSpace>>> {
        if !self.uses_near_null_space() {
            return Ok(None);
        }
        let random = self.config.int("amg.near_null_space.random");
        let space = match &self.near_null_space {
            Some(space) => setup.import_near_null_space(self.matrix, space)?,
            None if random > 0 => {
                let space = random_vectors(a.scalar_rows(), a.block().rows, random)?;
                setup.import_near_null_space(self.matrix, &Arc::new(space))?
            }
            None => Arc::new(setup.constants(a)?),
        };
        match self.config.int("amg.near_null_space.steps") {
            0 => Ok(Some(space)),
            steps => self.improved(setup, a, space, steps).map(Some),
        }
    }

    /// The near-null space after so many steps; as it was where its vectors depend on each other.
    fn improved<S: SetupOn<S>, T: Scalar>(
        &self,
        setup: &S,
        a: &S::Matrix<T>,
        space: Arc<S::NearNullSpace>,
        steps: usize,
    ) -> Result<Arc<S::NearNullSpace>> {
        setup.begin_phase(Some(0), "near-null space");
        let checks = Mutex::new(setup.checks());
        let input = SmootherInput {
            setup,
            to: setup,
            parameters: self.config,
            level: 0,
            a,
            stores_matrix: false,
            stores_pattern: false,
            factors: None,
            spectrum: &Spectrum::default(),
            checks: &checks,
        };
        let smoother = S::smoother::<T, T, T>(self.smoother().name, &input)?;
        let mut improvement = Improvement::new(setup, a, &*smoother, &space)?;
        let is_independent = improvement.run(steps)?;
        setup.status()?;
        setup.evaluate(checks.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))?;
        if !is_independent {
            self.context.log(LogLevel::Warning, || {
                "the vectors of the near-null space depend on each other, or the matrix is not positive definite: they are not improved"
                    .to_string()
            });
            return Ok(space);
        }
        Ok(Arc::new(space.with_vectors(setup, &improvement.results()?)?))
    }
}

/// Vectors of random numbers between -1 and 1.
fn random_vectors(rows: usize, dofs_per_node: usize, count: usize) -> Result<NearNullSpace> {
    let mut vectors = try_capacity(rows * count)?;
    for v in 0..count {
        vectors.extend((0..rows).map(|i| (hash(i, v as u64 + 1) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0));
    }
    Ok(NearNullSpace { dofs_per_node, count, vectors })
}

/// A vector x and its direction p, with A x and A p.
struct Iterate<S: Setup, T: Scalar> {
    x: S::Buffer<T>,
    ax: S::Buffer<T>,
    p: S::Buffer<T>,
    ap: S::Buffer<T>,
    /// The last residual.
    r: S::Buffer<T>,
    /// The product of the last residual with what the smoother made of it; 0 before the first step.
    product: f64,
}

/// Vectors under way.
struct Improvement<'a, S: Setup, T: Scalar> {
    setup: &'a S,
    a: Box<dyn Operator<S, T>>,
    smoother: &'a dyn Smoother<S, T>,
    scratch: Vec<S::Buffer<T>>,
    /// D.
    diagonal: S::Buffer<f64>,
    vectors: Vec<Iterate<S, T>>,
    /// D x or D p.
    weighted: S::Buffer<T>,
    residual: S::Buffer<T>,
    smoothed: S::Buffer<T>,
}

impl<'a, S: Setup, T: Scalar> Improvement<'a, S, T> {
    fn new(
        setup: &'a S,
        a: &S::Matrix<T>,
        smoother: &'a dyn Smoother<S, T>,
        space: &S::NearNullSpace,
    ) -> Result<Improvement<'a, S, T>> {
        let n = a.scalar_rows();
        let zeros = || setup.zeros::<T>(n);
        let mut vectors = Vec::new();
        for i in 0..space.count() {
            let (mut x, ax, p, ap, r) = (zeros()?, zeros()?, zeros()?, zeros()?, zeros()?);
            let given = space.vector(setup, i)?;
            setup.copy::<f64, T>(&given, &mut x);
            vectors.push(Iterate { x, ax, p, ap, r, product: 0.0 });
        }
        let scratch = (0..smoother.scratch()).map(|_| zeros()).collect::<Result<_>>()?;
        let (diagonal, _) = setup.random_right_hand_side(a)?;
        let a = setup.as_operator(a)?;
        let (weighted, residual, smoothed) = (zeros()?, zeros()?, zeros()?);
        Ok(Improvement { setup, a, smoother, scratch, diagonal, vectors, weighted, residual, smoothed })
    }

    fn rounded(value: f64) -> T {
        T::from_f64(rounded(value, T::PRECISION))
    }

    /// Takes those before it out of x of vector `j`, and makes its norm 1. False if nothing is left.
    fn normalise(&mut self, j: usize) -> bool {
        let (before, rest) = self.vectors.split_at_mut(j);
        let (setup, now) = (self.setup, &mut rest[0]);
        setup.scale_by(1, &self.diagonal, &now.x, &mut self.weighted);
        let norm = setup.dot(&now.x, &self.weighted);
        for other in before {
            let factor = Self::rounded(-setup.dot(&other.x, &self.weighted));
            setup.axpby(factor, &other.x, T::ONE, &mut now.x);
            setup.axpby(factor, &other.ax, T::ONE, &mut now.ax);
        }
        setup.scale_by(1, &self.diagonal, &now.x, &mut self.weighted);
        let left = setup.dot(&now.x, &self.weighted);
        // Neither a norm of zero nor NaN.
        if !(left > DEPENDENT * DEPENDENT * norm && left.is_finite()) {
            return false;
        }
        let factor = Self::rounded(1.0 / left.sqrt());
        setup.scale(factor, &mut now.x);
        setup.scale(factor, &mut now.ax);
        true
    }

    /// The steps. False where the vectors depend on each other.
    fn run(&mut self, steps: usize) -> Result<bool> {
        // Vectors of any length and direction: the second pass makes them orthogonal to rounding.
        for j in (0..self.vectors.len()).flat_map(|j| [j, j]) {
            if !self.normalise(j) {
                return Ok(false);
            }
        }
        for vector in &mut self.vectors {
            self.a.apply(T::ONE, &vector.x, T::ZERO, &mut vector.ax)?;
        }
        for _ in 0..steps {
            for j in 0..self.vectors.len() {
                if !self.normalise(j) {
                    return Ok(false);
                }
                self.step(j)?;
            }
        }
        Ok(true)
    }

    /// One step of vector `j`, whose norm is 1.
    fn step(&mut self, j: usize) -> Result<()> {
        let (before, rest) = self.vectors.split_at_mut(j);
        let (setup, now) = (self.setup, &mut rest[0]);
        setup.scale_by(1, &self.diagonal, &now.x, &mut self.weighted);
        let (energy, norm) = (setup.dot(&now.x, &now.ax), setup.dot(&now.x, &self.weighted));
        setup.copy(&now.ax, &mut self.residual);
        setup.axpby(Self::rounded(-energy / norm), &self.weighted, T::ONE, &mut self.residual);
        let sweep = Sweep { zero_guess: true, adjoint: false };
        let (r, z) = (&self.residual, &mut self.smoothed);
        self.smoother.sweep(setup, &*self.a, r, z, &mut self.scratch, sweep)?;
        let [product, with_last] = [&self.residual, &now.r].map(|r| setup.dot(r, &self.smoothed));
        let beta = if now.product > 0.0 { ((product - with_last) / now.product).max(0.0) } else { 0.0 };
        now.product = product;
        setup.copy(&self.residual, &mut now.r);
        // An eigenvector has no residual.
        if !(product > 0.0 && beta.is_finite()) {
            return Ok(());
        }
        setup.axpby(-T::ONE, &self.smoothed, Self::rounded(beta), &mut now.p);
        setup.scale_by(1, &self.diagonal, &now.p, &mut self.weighted);
        for other in &*before {
            let factor = Self::rounded(-setup.dot(&other.x, &self.weighted));
            setup.axpby(factor, &other.x, T::ONE, &mut now.p);
        }
        self.a.apply(T::ONE, &now.p, T::ZERO, &mut now.ap)?;
        setup.scale_by(1, &self.diagonal, &now.p, &mut self.weighted);
        let [xap, pap] = [&now.x, &now.p].map(|of| setup.dot(of, &now.ap));
        let [xdp, pdp] = [&now.x, &now.p].map(|of| setup.dot(of, &self.weighted));
        if let Some(alpha) = best_step([energy, xap, pap], [norm, xdp, pdp]) {
            let alpha = Self::rounded(alpha);
            setup.axpby(alpha, &now.p, T::ONE, &mut now.x);
            setup.axpby(alpha, &now.ap, T::ONE, &mut now.ax);
        }
        Ok(())
    }

    /// The vectors in f64.
    fn results(&self) -> Result<Vec<S::Buffer<f64>>> {
        let wide = |vector: &Iterate<S, T>| {
            let mut x = self.setup.zeros::<f64>(self.a.rows())?;
            self.setup.copy(&vector.x, &mut x);
            Ok(x)
        };
        self.vectors.iter().map(wide).collect()
    }
}

/// The α with the least (a + 2 b α + c α²) / (d + 2 e α + f α²); none where there is no descent.
fn best_step([a, b, c]: [f64; 3], [d, e, f]: [f64; 3]) -> Option<f64> {
    let (second, first, constant) = (c * e - b * f, c * d - a * f, b * d - a * e);
    let root = (first * first - 4.0 * constant * second).sqrt();
    let alpha = -2.0 * constant / (first + root);
    alpha.is_finite().then_some(alpha)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_best_one() {
        let quotient = |[a, b, c]: [f64; 3], [d, e, f]: [f64; 3], x: f64| {
            (a + 2.0 * b * x + c * x * x) / (d + 2.0 * e * x + f * x * x)
        };
        for (top, bottom) in [([1.0, -0.3, 2.0], [1.0, 0.0, 1.0]), ([3.0, 0.5, 9.0], [1.0, 0.2, 2.0])] {
            let alpha = best_step(top, bottom).unwrap();
            let best = quotient(top, bottom, alpha);
            assert!((-2000..2000).all(|i| quotient(top, bottom, f64::from(i) * 0.001) >= best - 1e-12), "{alpha}");
        }
        assert_eq!(best_step([1.0, f64::NAN, 1.0], [1.0, 0.0, 1.0]), None);
    }
}
