//! Smoothing with a factorised sparse approximate inverse: x += w Gᵀ G (b - A x), where G A Gᵀ ≈ I. The weight keeps the
//! eigenvalues of w G A Gᵀ below 2. Or with a Chebyshev polynomial of Gᵀ G A, as in [`super::chebyshev`].

use super::chebyshev::Polynomial;
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::fsai::{Factor, Factors, Fsai, FsaiFactor};
use crate::backend::parameters::Estimate;
use crate::backend::setup::{By, SetupMatrix, Store};
use crate::backend::{Backend, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar};
use crate::sync::lock;

/// The weight times the largest eigenvalue of G A Gᵀ. Lanczos comes close to it from below.
const LARGEST: f64 = 1.7;

/// G and Gᵀ where sweeps run.
struct Stored<B: Backend, V: Number> {
    g: Box<dyn Operator<B, V>>,
    transposed: Box<dyn Operator<B, V>>,
    breakdowns: usize,
}

impl<B: Backend, V: Number> Stored<B, V> {
    /// y = alpha Gᵀ G r + beta y, with a vector for G r.
    fn apply(&self, alpha: f64, r: &B::Slice<V>, half: &mut B::Slice<V>, beta: f64, y: &mut B::Slice<V>) -> Result<()> {
        self.g.apply(V::Wide::ONE, r, V::Wide::ZERO, half)?;
        self.transposed.apply(V::Wide::from_f64(alpha), half, V::Wide::from_f64(beta), y)
    }

    fn bytes(&self) -> usize {
        self.g.bytes() + self.transposed.bytes()
    }
}

struct Smoothing<B: Backend, V: Number> {
    stored: Stored<B, V>,
    weight: f64,
}

impl<B: Backend, V: Number> Smoother<B, V> for Smoothing<B, V> {
    fn sweep(
        &self,
        _: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [r, half] = scratch else { unreachable!("two vectors were asked for") };
        if sweep.zero_guess {
            return self.stored.apply(self.weight, b, half, 0.0, x);
        }
        a.residual(b, x, r)?;
        self.stored.apply(self.weight, r, half, 1.0, x)
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        2
    }

    fn breakdowns(&self) -> usize {
        self.stored.breakdowns
    }

    fn bytes(&self) -> usize {
        self.stored.bytes()
    }
}

/// A Chebyshev polynomial of Gᵀ G A.
struct Accelerated<B: Backend, V: Number> {
    stored: Stored<B, V>,
    polynomial: Polynomial,
}

impl<B: Backend, V: Number> Smoother<B, V> for Accelerated<B, V> {
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [r, half, p] = scratch else { unreachable!("three vectors were asked for") };
        for (step, (alpha, beta)) in self.polynomial.coefficients().enumerate() {
            let is_zero = sweep.zero_guess && step == 0;
            if is_zero {
                self.stored.apply(1.0, b, half, beta, p)?;
            } else {
                a.residual(b, x, r)?;
                self.stored.apply(1.0, r, half, beta, p)?;
            }
            let beta_of_x = if is_zero { V::Wide::ZERO } else { V::Wide::ONE };
            backend.axpby(V::Wide::from_f64(alpha), p, beta_of_x, x);
        }
        Ok(())
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        3
    }

    fn breakdowns(&self) -> usize {
        self.stored.breakdowns
    }

    fn bytes(&self) -> usize {
        self.stored.bytes()
    }
}

/// The component `fsai`.
pub struct FsaiSetup;

/// The component `chebyshev_fsai`.
pub struct ChebyshevFsaiSetup;

/// G and Gᵀ of a level. Levels are stored more than once where their formats are chosen; G is computed the first time, and
/// scaled by the columns once the variables of the level are. An update computes G on the pattern that it had.
fn factors<S: Store<B> + FsaiFactor, B: Backend, T: Scalar>(
    input: &SmootherInput<'_, S, B, T>,
) -> Result<Factors<S, T>> {
    let (setup, is_scaled) = (input.setup, input.factors.is_some());
    let mut known = lock(input.spectrum.fsai.lock());
    let factors = match (known.take(), input.factors) {
        (Some(factors), Some(by)) if !factors.is_scaled => Factors {
            g: setup.scaled(&factors.g, By::One, By::Times(by))?,
            transposed: setup.scaled(&factors.transposed, By::Times(by), By::One)?,
            is_scaled,
            breakdowns: factors.breakdowns,
        },
        (Some(factors), _) if factors.is_scaled == is_scaled => factors,
        _ => {
            let a = setup.in_blocks(input.matrix()?)?;
            let mut pattern = lock(input.spectrum.fsai_pattern.lock());
            let Factor { g, breakdowns } = match &*pattern {
                Some(pattern) => setup.on_pattern(&a, pattern)?,
                None => setup.factor(&a, &Fsai::new(input.parameters))?,
            };
            *pattern = Some(g.pattern());
            Factors { transposed: setup.transpose(&g)?, g, is_scaled, breakdowns }
        }
    };
    Ok(known.insert(factors).clone())
}

impl<S: Store<B> + FsaiFactor, B: Backend> SmootherSetup<S, B> for FsaiSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let (factors, stored) = stored::<S, B, T, N, V>(input)?;
        let largest = largest_eigenvalue(input, &factors)?;
        let weight = if largest > LARGEST { LARGEST / largest } else { 1.0 };
        Ok(Box::new(Smoothing { stored, weight }))
    }
}

impl<S: Store<B> + FsaiFactor, B: Backend> SmootherSetup<S, B> for ChebyshevFsaiSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let (factors, stored) = stored::<S, B, T, N, V>(input)?;
        let estimate = || Ok(largest_eigenvalue(input, &factors)?.max(f64::MIN_POSITIVE));
        let polynomial = Polynomial::new(input.parameters, estimate)?;
        Ok(Box::new(Accelerated { stored, polynomial }))
    }
}

/// The factors of a level in the precision of set-up, and where sweeps run.
#[allow(clippy::type_complexity)]
fn stored<S: Store<B> + FsaiFactor, B: Backend, T: Scalar, N: Number, V: Number>(
    input: &SmootherInput<'_, S, B, T>,
) -> Result<(Factors<S, T>, Stored<B, V>)> {
    let factors = factors(input)?;
    let g = input.own_operator::<N, V>(&factors.g)?;
    let transposed = input.own_operator::<N, V>(&factors.transposed)?;
    let stored = Stored { g, transposed, breakdowns: factors.breakdowns };
    Ok((factors, stored))
}

/// The largest eigenvalue of G A Gᵀ, which scaling does not change.
fn largest_eigenvalue<S: Store<B> + FsaiFactor, B: Backend, T: Scalar>(
    input: &SmootherInput<'_, S, B, T>,
    factors: &Factors<S, T>,
) -> Result<f64> {
    if let Some(largest) = input.spectrum.estimated.get() {
        return Ok(largest.value);
    }
    let (setup, a) = (input.setup, input.setup.in_blocks(input.matrix()?)?);
    let n = a.scalar_rows();
    let [a, g, transposed] = [&a, &factors.g, &factors.transposed].map(|m| setup.as_operator(m));
    let (a, g, transposed) = (a?, g?, transposed?);
    let (mut one, mut other) = (setup.zeros::<T>(n)?, setup.zeros::<T>(n)?);
    let largest = setup.largest_eigenvalue_of::<T>(Estimate::new(input.parameters).steps, n, &mut |x, y| {
        transposed.apply(T::ONE, x, T::ZERO, &mut one)?;
        a.apply(T::ONE, &one, T::ZERO, &mut other)?;
        g.apply(T::ONE, &other, T::ZERO, y)
    })?;
    Ok(input.spectrum.estimated.get_or_init(|| largest).value)
}
