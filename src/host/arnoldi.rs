//! The Arnoldi basis of GMRES on the host.

use super::Host;
use crate::backend::{ArnoldiBasis, Backend};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;

/// The basis vectors, and the column of the Hessenberg matrix for the next one.
pub struct HostArnoldiBasis<T> {
    host: Host,
    vectors: Vec<Vec<T>>,
    /// M v for each basis vector v in flexible methods, otherwise one vector.
    preconditioned: Vec<Vec<T>>,
    flexible: bool,
    /// Size of the basis.
    count: usize,
    /// The column, and the projections of one Gram-Schmidt pass.
    column: Vec<f64>,
    projections: Vec<f64>,
    norm: f64,
}

impl<T: Scalar> HostArnoldiBasis<T> {
    /// See [`Backend::arnoldi_basis`].
    pub fn new(host: &Host, n: usize, m: usize, flexible: bool) -> Result<HostArnoldiBasis<T>> {
        let vectors = |count: usize| (0..count).map(|_| host.zeros(n)).collect::<Result<Vec<_>>>();
        Ok(HostArnoldiBasis {
            host: host.clone(),
            vectors: vectors(m)?,
            preconditioned: vectors(if flexible { m } else { 1 })?,
            flexible,
            count: 0,
            column: try_vec(m, 0.0)?,
            projections: try_vec(m, 0.0)?,
            norm: 0.0,
        })
    }
}

/// x += Σ y_i v_i, in one pass over x.
fn add_combination<T: Scalar>(host: &Host, y: &[f64], vectors: &[Vec<T>], x: &mut [T]) {
    host.run(x.len() * y.len(), || {
        par::for_each_mut(x, par::GRAIN, |start, x| {
            for (y, v) in y.iter().zip(vectors) {
                let y = T::from_f64(*y);
                for (x, v) in x.iter_mut().zip(&v[start..]) {
                    *x += y * *v;
                }
            }
        });
    });
}

impl<T: Scalar> ArnoldiBasis<Host, T> for HostArnoldiBasis<T> {
    fn begin(&mut self, norm: f64) -> Result<()> {
        (self.count, self.norm) = (0, norm);
        Ok(())
    }

    fn append(&mut self, w: &[T]) -> Result<()> {
        self.host.axpby(T::from_f64(1.0 / self.norm), w, T::ZERO, &mut self.vectors[self.count]);
        self.count += 1;
        Ok(())
    }

    fn newest(&mut self) -> (&[T], &mut [T]) {
        let newest = self.count - 1;
        let target = if self.flexible { newest } else { 0 };
        (&self.vectors[newest], &mut self.preconditioned[target])
    }

    fn store_preconditioned(&mut self) -> Result<()> {
        Ok(())
    }

    fn orthogonalise(&mut self, w: &mut [T]) -> Result<()> {
        let HostArnoldiBasis { host, vectors, column, projections, count, .. } = self;
        let (vectors, column) = (&vectors[..*count], &mut column[..*count]);
        column.fill(0.0);
        for _ in 0..2 {
            let projections = &mut projections[..*count];
            for ((projection, h), v) in projections.iter_mut().zip(&mut *column).zip(vectors) {
                let product = host.dot(v, w);
                *h += product;
                *projection = -product;
            }
            add_combination(host, projections, vectors, w);
        }
        self.norm = host.norm(w);
        Ok(())
    }

    fn read_column(&mut self, column: &mut [f64]) -> Result<f64> {
        column.copy_from_slice(&self.column[..self.count]);
        Ok(self.norm)
    }

    fn add_combination(&mut self, y: &[f64], x: &mut [T]) -> Result<()> {
        add_combination(&self.host, y, if self.flexible { &self.preconditioned } else { &self.vectors }, x);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let vectors = self.vectors.iter().chain(&self.preconditioned).map(|v| size_of_val(v.as_slice())).sum::<usize>();
        vectors + 2 * size_of_val(self.column.as_slice())
    }
}
