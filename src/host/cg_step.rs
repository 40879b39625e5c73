//! The operations of conjugate gradients on the host.

use super::Host;
use super::multivector::Products;
use super::vector::dot_piece;
use crate::backend::{Backend, Beta, CgScalars, CgStep, Operator};
use crate::error::Result;
use crate::par;
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

/// Vectors of so many elements are multiplied by themselves in the pass that computes the product with the matrix.
const FUSED: usize = 1 << 17;

/// q = A p and p q, which is that of [`Backend::dot`].
fn product_and_dot<T: Scalar>(a: &dyn Operator<Host, T>, p: &[T], q: &mut [T]) -> Result<f64> {
    assert_eq!(p.len(), q.len());
    let mut pq = 0.0;
    let store = &mut |products: &Products<'_>| {
        // Whole groups, in pieces that are put together to those of the inner product.
        let whole = par::GRAIN.is_multiple_of(products.group);
        let grain = if whole { par::GRAIN } else { products.grain() };
        pq = par::sum_mut(q, grain, |start, q| {
            products.each(start..start + q.len(), |group, ax| {
                q[group.start - start..group.end - start].copy_from_slice(ax);
            });
            if whole { dot_piece(&p[start..start + q.len()], q) } else { 0.0 }
        });
        if !whole {
            pq = par::sum(p.len(), par::GRAIN, |range| dot_piece(&p[range.clone()], &q[range]));
        }
    };
    a.apply_with_epilogue(p, store)?;
    Ok(pq)
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
        let HostCgStep { host, scalars } = self;
        // Large vectors are not in the cache any more when the product is done.
        scalars.pq = if q.len() >= FUSED && !host.is_distributed() && a.vectors() == 1 && a.has_epilogue(1) {
            product_and_dot(a, p, q)?
        } else {
            a.apply(T::ONE, p, T::ZERO, q)?;
            host.dot(p, q)
        };
        scalars.alpha = if scalars.zr > 0.0 && scalars.pq > 0.0 { scalars.zr / scalars.pq } else { 0.0 };
        Ok(())
    }

    fn update_solution<T: Scalar>(&mut self, (p, q): (&[T], &[T]), x: &mut [T], r: &mut [T]) -> Result<()> {
        let alpha = T::from_f64(self.scalars.alpha);
        if self.host.is_distributed() {
            if alpha != T::ZERO {
                self.host.axpby(alpha, p, T::ONE, x);
                self.host.axpby(-alpha, q, T::ONE, r);
            }
            self.scalars.rr = self.host.dot(r, r);
            return Ok(());
        }
        assert!(p.len() == x.len() && q.len() == x.len());
        self.scalars.rr = self.host.run(x.len(), || {
            par::sum_mut2(x, r, par::GRAIN, |start, x, r| {
                if alpha != T::ZERO {
                    x.iter_mut().zip(&p[start..]).for_each(|(x, p)| *x = alpha * *p + *x);
                    r.iter_mut().zip(&q[start..]).for_each(|(r, q)| *r = -alpha * *q + *r);
                }
                dot_piece(r, r)
            })
        });
        Ok(())
    }

    fn read_scalars(&mut self) -> Result<CgScalars> {
        Ok(self.scalars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::operator::Stored;

    #[test]
    fn a_product_with_its_inner_product_has_the_bits_of_both() {
        let host = Host::new(&Context::new("host:2").unwrap());
        for block in [1, 2, 3] {
            let a = gallery::poisson5(300, 300).unwrap().view().to_blocks(block).unwrap().into_shared();
            let operator = Stored::new(&host, a).find_runs().unwrap();
            let operator: &dyn Operator<Host, f64> = &operator;
            let p: Vec<f64> = (0..90_000).map(|i| (i as f64).sin()).collect();
            let (mut q, mut expected) = (vec![f64::NAN; p.len()], vec![f64::NAN; p.len()]);
            operator.apply(1.0, &p, 0.0, &mut expected).unwrap();
            assert_eq!(product_and_dot(operator, &p, &mut q).unwrap(), host.dot(&p, &expected));
            assert_eq!(q, expected);
        }
    }
}
