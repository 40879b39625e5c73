//! The halves of an iteration of BiCGStab on the host.

use super::Host;
use crate::backend::{Backend, HalfNumbers, Halves};
use crate::error::Result;
use crate::scalar::Scalar;

/// The numbers of an iteration, and what computes them.
pub struct HostHalves {
    host: Host,
    numbers: HalfNumbers,
}

/// `dividend` / `divisor`, or 0 where `product`, an inner product of vectors with these squared norms, is rounding or not a number.
fn quotient((dividend, divisor): (f64, f64), product: f64, (xx, yy): (f64, f64)) -> f64 {
    let counts = product.abs() > HalfNumbers::ORTHOGONAL * xx.sqrt() * yy.sqrt();
    if counts { dividend / divisor } else { 0.0 }
}

impl HostHalves {
    /// For vectors of this backend.
    pub fn new(host: &Host) -> HostHalves {
        HostHalves { host: host.clone(), numbers: HalfNumbers::default() }
    }

    /// x += factor z, r -= factor q, and r·r.
    fn step<T: Scalar>(&self, factor: f64, (z, q): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> f64 {
        let factor = T::from_f64(factor);
        if factor != T::ZERO {
            self.host.axpby(factor, z, T::ONE, x);
            self.host.axpby(-factor, q, T::ONE, r);
        }
        self.host.dot(r, r)
    }
}

impl Halves<Host> for HostHalves {
    fn begin<T: Scalar>(&mut self, _: &[T], target: f64) -> Result<()> {
        self.numbers.target = target;
        Ok(())
    }

    fn restart(&mut self, norm: f64) -> Result<()> {
        (self.numbers.rho, self.numbers.shadow) = (norm * norm, norm * norm);
        Ok(())
    }

    fn turn<T: Scalar>(&mut self, r: &[T], v: &[T], p: &mut [T]) -> Result<()> {
        let HalfNumbers { beta, omega, .. } = self.numbers;
        self.host.axpby(T::from_f64(-beta * omega), v, T::from_f64(beta), p);
        self.host.axpby(T::ONE, r, T::ONE, p);
        Ok(())
    }

    fn first<T: Scalar>(&mut self, shadow: &[T], (z, v): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let HalfNumbers { rho, shadow: squared, .. } = self.numbers;
        let (sigma, vv) = (self.host.dot(shadow, v), self.host.dot(v, v));
        let alpha = quotient((rho, sigma), sigma, (squared, vv));
        let ss = self.step(alpha, (z, v), x, r);
        self.numbers = HalfNumbers { sigma, vv, alpha, ss, ..self.numbers };
        Ok(())
    }

    fn second<T: Scalar>(&mut self, shadow: &[T], (z, t): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let HalfNumbers { rho: before, alpha, ss, .. } = self.numbers;
        let (ts, tt) = (self.host.dot(r, t), self.host.dot(t, t));
        let omega = if self.numbers.is_settled() { 0.0 } else { quotient((ts, tt), ts, (ss, tt)) };
        let rr = self.step(omega, (z, t), x, r);
        let rho = self.host.dot(shadow, r);
        let beta = (rho / before) * (alpha / omega);
        self.numbers = HalfNumbers { rho, beta, ts, tt, omega, rr, ..self.numbers };
        Ok(())
    }

    fn look(&mut self) -> Result<HalfNumbers> {
        Ok(self.numbers)
    }
}
