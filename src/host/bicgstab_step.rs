//! The operations of BiCGStab on the host.

use super::Host;
use crate::backend::{Backend, BicgstabScalars, BicgstabStep};
use crate::error::Result;
use crate::scalar::Scalar;

/// The scalars of an iteration.
pub struct HostBicgstabStep {
    host: Host,
    scalars: BicgstabScalars,
}

/// `dividend` / `divisor`, or 0 where the inner product `product` is NaN or negligible beside the norms of its vectors,
/// whose squares are `xx` and `yy`.
fn quotient((dividend, divisor): (f64, f64), product: f64, (xx, yy): (f64, f64)) -> f64 {
    let is_significant = product.abs() > BicgstabScalars::ORTHOGONAL * xx.sqrt() * yy.sqrt();
    if is_significant { dividend / divisor } else { 0.0 }
}

impl HostBicgstabStep {
    /// For vectors of this backend.
    pub fn new(host: &Host) -> HostBicgstabStep {
        HostBicgstabStep { host: host.clone(), scalars: BicgstabScalars::default() }
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

impl BicgstabStep<Host> for HostBicgstabStep {
    fn begin<T: Scalar>(&mut self, _: &[T], target: f64) -> Result<()> {
        self.scalars.target = target;
        Ok(())
    }

    fn restart(&mut self, norm: f64) -> Result<()> {
        (self.scalars.rho, self.scalars.shadow) = (norm * norm, norm * norm);
        Ok(())
    }

    fn update_direction<T: Scalar>(&mut self, r: &[T], v: &[T], p: &mut [T]) -> Result<()> {
        let BicgstabScalars { beta, omega, .. } = self.scalars;
        self.host.axpby(T::from_f64(-beta * omega), v, T::from_f64(beta), p);
        self.host.axpby(T::ONE, r, T::ONE, p);
        Ok(())
    }

    fn first_half<T: Scalar>(&mut self, shadow: &[T], (z, v): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let BicgstabScalars { rho, shadow: squared, .. } = self.scalars;
        let (sigma, vv) = (self.host.dot(shadow, v), self.host.dot(v, v));
        let alpha = quotient((rho, sigma), sigma, (squared, vv));
        let ss = self.step(alpha, (z, v), x, r);
        self.scalars = BicgstabScalars { sigma, vv, alpha, ss, ..self.scalars };
        Ok(())
    }

    fn second_half<T: Scalar>(&mut self, shadow: &[T], (z, t): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let BicgstabScalars { rho: previous_rho, alpha, ss, .. } = self.scalars;
        let (ts, tt) = (self.host.dot(r, t), self.host.dot(t, t));
        let omega = if self.scalars.skips_second_half() { 0.0 } else { quotient((ts, tt), ts, (ss, tt)) };
        let rr = self.step(omega, (z, t), x, r);
        let rho = self.host.dot(shadow, r);
        let beta = (rho / previous_rho) * (alpha / omega);
        self.scalars = BicgstabScalars { rho, beta, ts, tt, omega, rr, ..self.scalars };
        Ok(())
    }

    fn read_scalars(&mut self) -> Result<BicgstabScalars> {
        Ok(self.scalars)
    }
}
