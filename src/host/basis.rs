//! The basis of GMRES on the host.

use super::Host;
use crate::backend::{Backend, Basis};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;

/// The vectors, and the numbers of the one that is being made.
pub struct HostBasis<T> {
    host: Host,
    vectors: Vec<Vec<T>>,
    /// M times each vector where these are kept, otherwise room for one.
    preconditioned: Vec<Vec<T>>,
    kept: bool,
    /// How many vectors there are.
    count: usize,
    /// Inner products, and those of one pass.
    column: Vec<f64>,
    projections: Vec<f64>,
    length: f64,
}

impl<T: Scalar> HostBasis<T> {
    /// Room for `m` vectors of `n` elements, and where they are `kept` for as many preconditioned ones.
    pub fn new(host: &Host, n: usize, m: usize, kept: bool) -> Result<HostBasis<T>> {
        let vectors = |count: usize| (0..count).map(|_| host.zeros(n)).collect::<Result<Vec<_>>>();
        Ok(HostBasis {
            host: host.clone(),
            vectors: vectors(m)?,
            preconditioned: vectors(if kept { m } else { 1 })?,
            kept,
            count: 0,
            column: try_vec(m, 0.0)?,
            projections: try_vec(m, 0.0)?,
            length: 0.0,
        })
    }
}

/// x += Σ y_i v_i, piece by piece, so that one of x is read and written once.
fn add<T: Scalar>(host: &Host, y: &[f64], vectors: &[Vec<T>], x: &mut [T]) {
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

impl<T: Scalar> Basis<Host, T> for HostBasis<T> {
    fn begin(&mut self, length: f64) -> Result<()> {
        (self.count, self.length) = (0, length);
        Ok(())
    }

    fn append(&mut self, w: &[T]) -> Result<()> {
        self.host.axpby(T::from_f64(1.0 / self.length), w, T::ZERO, &mut self.vectors[self.count]);
        self.count += 1;
        Ok(())
    }

    fn last(&mut self) -> (&[T], &mut [T]) {
        let last = self.count - 1;
        let place = if self.kept { last } else { 0 };
        (&self.vectors[last], &mut self.preconditioned[place])
    }

    fn keep(&mut self) -> Result<()> {
        Ok(())
    }

    fn orthogonalise(&mut self, w: &mut [T]) -> Result<()> {
        let HostBasis { host, vectors, column, projections, count, .. } = self;
        let (vectors, column) = (&vectors[..*count], &mut column[..*count]);
        column.fill(0.0);
        for _ in 0..2 {
            let projections = &mut projections[..*count];
            for ((projection, h), v) in projections.iter_mut().zip(&mut *column).zip(vectors) {
                let found = host.dot(v, w);
                *h += found;
                *projection = -found;
            }
            add(host, projections, vectors, w);
        }
        self.length = host.norm(w);
        Ok(())
    }

    fn look(&mut self, column: &mut [f64]) -> Result<f64> {
        column.copy_from_slice(&self.column[..self.count]);
        Ok(self.length)
    }

    fn add(&mut self, y: &[f64], x: &mut [T]) -> Result<()> {
        add(&self.host, y, if self.kept { &self.preconditioned } else { &self.vectors }, x);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let vectors = self.vectors.iter().chain(&self.preconditioned).map(|v| size_of_val(v.as_slice())).sum::<usize>();
        vectors + 2 * size_of_val(self.column.as_slice())
    }
}
