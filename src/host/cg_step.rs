//! The operations of conjugate gradients on the host.

use super::Host;
use crate::backend::{Backend, Beta, CgScalars, CgStep, Operator};
use crate::error::Result;
use crate::scalar::Scalar;

/// The scalars of an iteration.
pub struct HostCgStep {
    host: Host,
    scalars: CgScalars,
}

impl HostCgStep {
    /// For vectors of this backend.
    pub fn new(host: &Host) -> HostCgStep {
        HostCgStep { host: host.clone(), scalars: CgScalars::default() }
    }
}

impl CgStep<Host> for HostCgStep {
    fn begin<T: Scalar>(&mut self, _: &[T]) -> Result<()> {
        Ok(())
    }

    fn dots<T: Scalar>(&mut self, z: &[T], r: &[T], beta: Beta<&[T]>) -> Result<()> {
        self.scalars.dots(&self.host, z, r, beta);
        Ok(())
    }

    fn update_direction<T: Scalar>(&mut self, z: &[T], p: &mut [T]) -> Result<()> {
        self.host.axpby(T::ONE, z, T::from_f64(self.scalars.beta), p);
        Ok(())
    }

    fn product<T: Scalar>(&mut self, a: &dyn Operator<Host, T>, p: &[T], q: &mut [T]) -> Result<()> {
        a.apply(T::ONE, p, T::ZERO, q)?;
        let HostCgStep { host, scalars } = self;
        scalars.pq = host.dot(p, q);
        scalars.alpha = if scalars.zr > 0.0 && scalars.pq > 0.0 { scalars.zr / scalars.pq } else { 0.0 };
        Ok(())
    }

    fn update_solution<T: Scalar>(&mut self, (p, q): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let alpha = T::from_f64(self.scalars.alpha);
        if alpha != T::ZERO {
            self.host.axpby(alpha, p, T::ONE, x);
            self.host.axpby(-alpha, q, T::ONE, r);
        }
        self.scalars.rr = self.host.dot(r, r);
        Ok(())
    }

    fn read_scalars(&mut self) -> Result<CgScalars> {
        Ok(self.scalars)
    }
}
