//! A factorised matrix as an operator, for the coarsest level.

use super::{Method, SparseDirect, ZeroPivots};
use crate::backend::Operator;
use crate::backend::common::{TINY, rounding_bound};
use crate::error::{Result, Status};
use crate::host::Host;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::CsrView;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// The inverse of a matrix. Of a positive semidefinite one it is a generalised inverse, which solves consistent systems.
pub struct SparseInverse {
    rows: usize,
    bytes: usize,
    method: Method,
    factor: Mutex<SparseDirect>,
}

impl SparseInverse {
    /// Factorises a matrix; `None` where it is singular to rounding and not positive semidefinite.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>) -> Result<Option<SparseInverse>> {
        let zero_pivots = ZeroPivots::LeaveOut(rounding_bound::<T>(a.scalar_rows()));
        match SparseDirect::new(a, zero_pivots) {
            Err(error) if error.status == Status::Breakdown => Ok(None),
            Err(error) => Err(error),
            Ok(factor) if !factor.plan.is_symmetric() && factor.smallest_pivot() <= TINY * factor.rows() as f64 => {
                Ok(None)
            }
            Ok(factor) => {
                let (rows, bytes, method) = (factor.rows(), factor.bytes(), factor.method());
                Ok(Some(SparseInverse { rows, bytes, method, factor: Mutex::new(factor) }))
            }
        }
    }
}

impl SparseInverse {
    /// y = alpha A⁻¹ x + beta y.
    fn add_solution<'a, X: Number, Y: Number>(
        &self,
        alpha: Y::Wide,
        x: impl Iterator<Item = &'a X>,
        beta: Y::Wide,
        y: impl Iterator<Item = &'a mut Y>,
    ) {
        let mut factor = lock(self.factor.lock());
        let (alpha, beta) = (alpha.to_f64(), beta.to_f64());
        for (y, v) in y.zip(factor.inverse_times(x.map(|x| x.to_f64()))) {
            let before = if beta == 0.0 { 0.0 } else { beta * y.to_f64() };
            *y = Y::from_f64(alpha * v + before);
        }
    }
}

impl<X: Number, Y: Number> Operator<Host, X, Y> for SparseInverse {
    fn rows(&self) -> usize {
        self.rows
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.add_solution(alpha, x.iter(), beta, y.iter_mut());
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        r.copy_from_slice(b);
        let minus_one = Y::Wide::from_f64(-1.0);
        self.apply(minus_one, x, Y::Wide::ONE, r)
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Host, X, Y>>> {
        Some(Arc::new(InterleavedInverse { inverse: self, k }))
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn format(&self) -> String {
        self.method.name().to_string()
    }

    fn precision(&self) -> Precision {
        Precision::F64
    }
}

/// The same for multivectors of `k` vectors, one after the other.
struct InterleavedInverse {
    inverse: Arc<SparseInverse>,
    k: usize,
}

impl<X: Number, Y: Number> Operator<Host, X, Y> for InterleavedInverse {
    fn rows(&self) -> usize {
        self.inverse.rows * self.k
    }

    fn vectors(&self) -> usize {
        self.k
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        for c in 0..self.k {
            self.inverse.add_solution(alpha, x[c..].iter().step_by(self.k), beta, y[c..].iter_mut().step_by(self.k));
        }
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        r.copy_from_slice(b);
        self.apply(Y::Wide::from_f64(-1.0), x, Y::Wide::ONE, r)
    }

    fn bytes(&self) -> usize {
        0
    }

    fn format(&self) -> String {
        self.inverse.method.name().to_string()
    }

    fn precision(&self) -> Precision {
        Precision::F64
    }
}
