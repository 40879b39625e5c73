//! Chebyshev polynomial of D^-1 A on the upper part [λ/ratio, λ] of its spectrum. With d and c the centre and radius of the interval and
//! r the scaled residual, the steps are p = r + β p, x += α p with α_1 = 1/d, β_2 = (c α_1)²/2, later β = (c α/2)², α = 1/(d - β/α).

use super::{Setup, Smoother, Sweep};
use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// Lanczos approaches the largest eigenvalue from below; the polynomial must not see anything above its interval.
const SAFETY: f64 = 1.1;

struct Chebyshev<B: Backend, S: Number> {
    /// The inverse of D, which may have blocks.
    inverse: B::Buffer<S>,
    /// Its length.
    values: usize,
    degree: usize,
    centre: f64,
    radius: f64,
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
        let [r, p] = scratch else { unreachable!("two vectors were asked for") };
        let (d, c) = (self.centre, self.radius);
        let mut alpha = 0.0;
        for step in 0..self.degree {
            if sweep.zero_guess && step == 0 {
                backend.scale_by(&self.inverse, b, p);
                alpha = 1.0 / d;
                backend.axpby(V::Wide::from_f64(alpha), p, V::Wide::ZERO, x);
                continue;
            }
            let beta = match step {
                0 => 0.0,
                1 => 0.5 * (c * alpha) * (c * alpha),
                _ => 0.25 * (c * alpha) * (c * alpha),
            };
            alpha = if step == 0 { 1.0 / d } else { 1.0 / (d - beta / alpha) };
            a.residual(b, x, r)?;
            if step == 0 {
                backend.scale_by(&self.inverse, r, p);
            } else {
                backend.scale(V::Wide::from_f64(beta), p);
                backend.add_scaled_by(&self.inverse, r, p);
            }
            backend.axpby(V::Wide::from_f64(alpha), p, V::Wide::ONE, x);
        }
        Ok(())
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

/// The interval comes from an estimate of the largest eigenvalue.
pub(super) fn build<B: Backend, M: Setup<B>, S: Number, V: Number>(setup: &M) -> Result<Box<dyn Smoother<B, V>>> {
    let exact = setup.inverse()?;
    let largest = SAFETY * setup.largest_eigenvalue(&exact)?;
    let smallest = largest / setup.config().real("amg.smoother.chebyshev.eigenvalue_ratio");
    let (inverse, values) = setup.stored::<S>(&exact, 1.0)?;
    Ok(Box::new(Chebyshev::<B, S> {
        inverse,
        values,
        degree: setup.config().int("amg.smoother.chebyshev.degree"),
        centre: 0.5 * (largest + smallest),
        radius: 0.5 * (largest - smallest),
    }))
}

#[cfg(test)]
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
            let smoother = Chebyshev::<Host, f64> { inverse: vec![1.0; n], values: n, degree, centre, radius };
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
}
