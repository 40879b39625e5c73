//! Chebyshev polynomial of D^-1 A on the upper part [λ/ratio, λ] of its spectrum. With d and c the centre and radius of the interval and
//! r the scaled residual, the steps are p = r + β p, x += α p with α_1 = 1/d, β_2 = (c α_1)²/2, later β = (c α/2)², α = 1/(d - β/α).

use super::width;
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::parameters::Parameters;
use crate::backend::setup::Store;
use crate::backend::spectrum::MARGIN;
use crate::backend::{Backend, Operator, Recurrence, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// What the matrix is scaled by, as the options spell it.
pub const SCALINGS: &[&str] = &["diagonal", "l1"];

/// Whether that is the l1 diagonal.
pub(crate) fn scales_by_l1(parameters: &dyn Parameters) -> bool {
    parameters.text("amg.smoother.chebyshev.scaling") == "l1"
}

/// Whether the largest eigenvalue is estimated: it is neither given nor bounded by the scaling.
pub(crate) fn estimates_eigenvalue(parameters: &dyn Parameters) -> bool {
    !scales_by_l1(parameters) && parameters.real_or_auto("amg.smoother.chebyshev.largest_eigenvalue").is_none()
}

/// The polynomial for an interval.
pub(super) struct Polynomial {
    pub degree: usize,
    centre: f64,
    radius: f64,
}

impl Polynomial {
    /// For an operator whose largest eigenvalue is given, or else estimated from below.
    pub fn new(parameters: &dyn Parameters, estimate: impl FnOnce() -> Result<f64>) -> Result<Polynomial> {
        let largest = match parameters.real_or_auto("amg.smoother.chebyshev.largest_eigenvalue") {
            Some(given) => given,
            // Lanczos approaches it from below; the polynomial must not see anything above its interval.
            None => MARGIN * estimate()?,
        };
        Ok(Polynomial::up_to(largest, parameters))
    }

    /// For an operator whose eigenvalues are at most `largest`.
    fn up_to(largest: f64, parameters: &dyn Parameters) -> Polynomial {
        let smallest = largest / parameters.real("amg.smoother.chebyshev.eigenvalue_ratio");
        Polynomial {
            degree: parameters.int("amg.smoother.chebyshev.degree"),
            centre: 0.5 * (largest + smallest),
            radius: 0.5 * (largest - smallest),
        }
    }

    /// α and β of each step; the first has no direction before it.
    pub fn coefficients(&self) -> impl Iterator<Item = (f64, f64)> {
        let (d, c) = (self.centre, self.radius);
        let mut alpha = 0.0;
        (0..self.degree).map(move |step| {
            let beta = match step {
                0 => 0.0,
                1 => 0.5 * (c * alpha) * (c * alpha),
                _ => 0.25 * (c * alpha) * (c * alpha),
            };
            alpha = if step == 0 { 1.0 / d } else { 1.0 / (d - beta / alpha) };
            (alpha, beta)
        })
    }
}

struct Chebyshev<B: Backend, S: Number> {
    /// The inverse of D, which may have blocks.
    inverse: B::Buffer<S>,
    /// Its length.
    values: usize,
    polynomial: Polynomial,
}

impl<B: Backend, N: Number> Chebyshev<B, N> {
    fn new<S: Store<B>, T: Scalar>(input: &SmootherInput<'_, S, B, T>) -> Result<Self> {
        let is_l1 = scales_by_l1(input.parameters);
        let exact = if is_l1 { input.l1_inverse()? } else { input.inverse()? };
        let polynomial = match input.parameters.real_or_auto("amg.smoother.chebyshev.largest_eigenvalue") {
            // No eigenvalue is larger, by the row sums.
            None if is_l1 => Polynomial::up_to(1.0, input.parameters),
            _ => Polynomial::new(input.parameters, || input.largest_eigenvalue(&exact))?,
        };
        let (inverse, values) = input.stored(&exact, 1.0)?;
        Ok(Chebyshev { inverse, values, polynomial })
    }

    /// A sweep from x, or from zero; the result is x, or the other vector. Where the operator has an epilogue, each step goes from one of them to the other, but for
    /// the first where the number of steps would not fit: that needs no product, or stays where it is and has its residual in the other vector.
    fn steps<V: Number>(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        [x, other, p]: [&mut B::Slice<V>; 3],
        zero_guess: bool,
        to_other: bool,
    ) -> Result<()> {
        let fused = a.has_epilogue(width(self.values, a));
        let mut in_other = false;
        // Where a step from zero is followed by the last one, x tells the direction: p is neither written nor read.
        let without_p = fused && zero_guess && self.polynomial.degree == 2;
        let mut first_alpha = 1.0;
        for (step, (alpha, beta)) in self.polynomial.coefficients().enumerate() {
            let (of_x, keep) = (without_p && step == 1, !without_p && step + 1 < self.polynomial.degree);
            let beta = if of_x { beta / first_alpha } else { beta };
            first_alpha = if step == 0 { alpha } else { first_alpha };
            let recurrence = Recurrence { alpha, beta, p: &mut *p, of_x, keep };
            let odd_after = (self.polynomial.degree - step).is_multiple_of(2);
            if zero_guess && step == 0 {
                in_other = fused && odd_after != to_other;
                backend.chebyshev_update(
                    a.vectors(),
                    &self.inverse,
                    b,
                    recurrence,
                    if in_other { &mut *other } else { &mut *x },
                    true,
                );
            } else if fused && (in_other == odd_after) == to_other {
                let (from, to) = if in_other { (&*other, &mut *x) } else { (&*x, &mut *other) };
                backend.chebyshev(a, &self.inverse, b, from, recurrence, to)?;
                in_other = !in_other;
            } else {
                a.residual(b, x, other)?;
                backend.chebyshev_update(a.vectors(), &self.inverse, other, recurrence, x, false);
            }
        }
        Ok(())
    }
}

impl<B: Backend, S: Number, V: Number> Smoother<B, V> for Chebyshev<B, S> {
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [other, p] = scratch else { unreachable!("two vectors were asked for") };
        self.steps(backend, a, b, [x, other, p], sweep.zero_guess, false)
    }

    fn prefers_out_of_place(&self, a: &dyn Operator<B, V>) -> bool {
        self.polynomial.degree % 2 == 1 && a.has_epilogue(width(self.values, a))
    }

    fn sweep_to(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        (x, y): (&mut B::Slice<V>, &mut B::Slice<V>),
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let [p] = scratch else { unreachable!("two vectors were asked for, of which y is one") };
        self.steps(backend, a, b, [x, y, p], sweep.zero_guess, true)
    }

    fn takes_multivectors(&self) -> bool {
        true
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        2
    }

    fn bytes(&self) -> usize {
        self.values * S::PRECISION.bytes()
    }
}

/// The component: the interval comes from an estimate of the largest eigenvalue, unless that is given. D may be the l1 diagonal, as in
/// [`super::l1_jacobi`], with which no eigenvalue exceeds 1.
pub struct ChebyshevSetup;

impl<S: Store<B>, B: Backend> SmootherSetup<S, B> for ChebyshevSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        Ok(Box::new(Chebyshev::<B, N>::new(input)?))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::host::Host;
    use crate::host::operator::Stored;
    use crate::sparse::Csr;

    /// On a diagonal system with a given spectrum the error after one sweep is the Chebyshev polynomial itself.
    #[test]
    fn errors_inside_the_interval_shrink_as_the_polynomial_says() {
        let context = Context::new("host:1").unwrap();
        let host = Host::new(&context);
        let n = 41;
        let spectrum: Vec<f64> = (0..n).map(|i| 0.05 + 0.95 * i as f64 / (n - 1) as f64).collect();
        let a = Csr::from_triplets(n, n, &spectrum.iter().enumerate().map(|(i, v)| (i, i, *v)).collect::<Vec<_>>());
        let operator = Stored::new(&host, a.unwrap().into_shared());
        let from_zero = Sweep { zero_guess: true, adjoint: false };
        for degree in 1..8 {
            let (centre, radius) = (0.525, 0.475);
            let smoother = Chebyshev::<Host, f64> {
                inverse: vec![1.0; n],
                values: n,
                polynomial: Polynomial { degree, centre, radius },
            };
            let mut scratch = vec![vec![f64::NAN; n]; 2];
            // The solution is 1, so from a zero guess the error is the polynomial, which is 1 at 0.
            let mut x = vec![f64::NAN; n];
            smoother.sweep(&host, &operator, &spectrum, &mut x, &mut scratch, from_zero).unwrap();
            let theory = 1.0 / (degree as f64 * (centre / radius).acosh()).cosh();
            let worst = x.iter().map(|x| (1.0 - x).abs()).fold(0.0, f64::max);
            assert!((worst - theory).abs() < 1e-12, "degree {degree}: {worst} should be {theory}");

            let mut again = vec![0.0; n];
            smoother
                .sweep(
                    &host,
                    &operator,
                    &spectrum,
                    &mut again,
                    &mut scratch,
                    Sweep { zero_guess: false, adjoint: true },
                )
                .unwrap();
            assert!(x.iter().zip(&again).all(|(x, y)| (x - y).abs() < 1e-13));
        }
    }

    /// On a device each step is one launch, and the first of an odd number that begin and end in x two.
    #[test]
    fn sweeps_on_a_device_are_those_of_the_host_in_as_few_launches_as_steps() {
        use crate::backend::{Columns, StorageFactory};
        use crate::gallery;
        use crate::gpu::Gpu;
        use crate::scalar::Sums;

        let host = Host::new(&Context::new("host:1").unwrap());
        let context = Context::new("sim").unwrap();
        let gpu = context.gpu().unwrap();
        let a = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix.into_shared();
        let n = a.view().scalar_rows();
        let here: Box<dyn Operator<Host, f64>> = host.matrix(a.clone(), Columns::Shared, Sums::Wide).unwrap();
        let there: Box<dyn Operator<Gpu, f64>> = gpu.matrix(a, Columns::Shared, Sums::Wide).unwrap();
        let numbers = |n: usize, step: usize| -> Vec<f64> { (0..n).map(|i| ((i * step) % 19) as f64 / 8.0).collect() };
        let (b, start) = (numbers(n, 7), numbers(n, 11));
        for (width, degree, zero_guess) in
            [1, 3].into_iter().flat_map(|w| (1..=5).flat_map(move |d| [(w, d, true), (w, d, false)]))
        {
            let sweep = Sweep { zero_guess, adjoint: false };
            let (values, centre, radius, inverse) = (n * width, 0.6, 0.4, numbers(n * width, 13));
            let on_host = Chebyshev::<Host, f64> {
                inverse: inverse.clone(),
                values,
                polynomial: Polynomial { degree, centre, radius },
            };
            let on_device = Chebyshev::<Gpu, f64> {
                inverse: gpu.upload(&inverse).unwrap(),
                values,
                polynomial: Polynomial { degree, centre, radius },
            };
            let begin = if zero_guess { vec![f64::NAN; n] } else { start.clone() };
            let mut x = begin.clone();
            on_host.sweep(&host, &*here, &b, &mut x, &mut vec![vec![f64::NAN; n]; 2], sweep).unwrap();
            let lost = || gpu.upload(&vec![f64::NAN; n]).unwrap();
            let (there_b, mut there_x, mut y) = (gpu.upload(&b).unwrap(), gpu.upload(&begin).unwrap(), lost());
            let (what, mut launches) = (format!("degree {degree}, blocks of {width}, from zero: {zero_guess}"), degree);
            let largest = x.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
            let check = |found: Vec<f64>| {
                let off = x.iter().zip(&found).fold(0.0_f64, |most, (x, y)| most.max((x - y).abs()));
                assert!(off <= 1e-13 * largest, "{what}: {off} of {largest}");
            };
            assert_eq!(on_device.prefers_out_of_place(&*there), degree % 2 == 1);
            if degree % 2 == 1 {
                gpu.start_profile(false);
                on_device.sweep_to(gpu, &*there, &there_b, (&mut there_x, &mut y), &mut [lost()], sweep).unwrap();
                assert_eq!(gpu.end_profile().iter().map(|kernel| kernel.launches).sum::<usize>(), degree, "{what}");
                check(gpu.fetch(&y).unwrap());
                there_x = gpu.upload(&begin).unwrap();
                launches += usize::from(!zero_guess);
            }
            let mut scratch = [lost(), lost()];
            gpu.start_profile(false);
            on_device.sweep(gpu, &*there, &there_b, &mut there_x, &mut scratch, sweep).unwrap();
            assert_eq!(gpu.end_profile().iter().map(|kernel| kernel.launches).sum::<usize>(), launches, "{what}");
            check(gpu.fetch(&there_x).unwrap());
        }
    }
}
