//! The steps of conjugate gradients on the host.

use super::Host;
use crate::backend::{Backend, Beta, Numbers, Operator, Steps};
use crate::error::Result;
use crate::scalar::Scalar;

/// The numbers of an iteration, and what computes them.
pub struct HostSteps {
    host: Host,
    numbers: Numbers,
}

impl HostSteps {
    /// For vectors of this backend.
    pub fn new(host: &Host) -> HostSteps {
        HostSteps { host: host.clone(), numbers: Numbers::default() }
    }
}

impl Steps<Host> for HostSteps {
    fn begin<T: Scalar>(&mut self, _: &[T]) -> Result<()> {
        Ok(())
    }

    fn dots<T: Scalar>(&mut self, z: &[T], r: &[T], beta: Beta<&[T]>) -> Result<()> {
        let HostSteps { host, numbers } = self;
        numbers.before = numbers.zr;
        numbers.zr = host.dot(z, r);
        numbers.beta = match beta {
            Beta::Zero => 0.0,
            Beta::Plain => numbers.zr / numbers.before,
            Beta::Flexible(q) => {
                numbers.zq = host.dot(z, q);
                -numbers.alpha * numbers.zq / numbers.before
            }
        };
        Ok(())
    }

    fn turn<T: Scalar>(&mut self, z: &[T], p: &mut [T]) -> Result<()> {
        self.host.axpby(T::ONE, z, T::from_f64(self.numbers.beta), p);
        Ok(())
    }

    fn product<T: Scalar>(&mut self, a: &dyn Operator<Host, T>, p: &[T], q: &mut [T]) -> Result<()> {
        a.apply(T::ONE, p, T::ZERO, q)?;
        let HostSteps { host, numbers } = self;
        numbers.pq = host.dot(p, q);
        numbers.alpha = if numbers.zr > 0.0 && numbers.pq > 0.0 { numbers.zr / numbers.pq } else { 0.0 };
        Ok(())
    }

    fn step<T: Scalar>(&mut self, (p, q): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let alpha = T::from_f64(self.numbers.alpha);
        if alpha != T::ZERO {
            self.host.axpby(alpha, p, T::ONE, x);
            self.host.axpby(-alpha, q, T::ONE, r);
        }
        self.numbers.rr = self.host.dot(r, r);
        Ok(())
    }

    fn look(&mut self) -> Result<Numbers> {
        Ok(self.numbers)
    }
}
