//! The contract of Krylov methods on multivectors: several vectors, interleaved, each with scalars of its own.

use super::{Backend, Operator};
use crate::error::Result;
use crate::scalar::Scalar;

/// Most vectors of a multivector.
pub const MAX_VECTORS: usize = 8;

/// A scalar of each vector; those beyond the last vector are not used.
pub type PerVector = [f64; MAX_VECTORS];

/// Operations on multivectors of `k` vectors, 4 or 8. Inner products are accumulated in f64, in an order that depends on
/// the length alone.
pub trait Multivectors: Backend {
    /// Vector c of x becomes factor v; `place` is (k, c).
    fn put_vector<V: Scalar, T: Scalar>(
        &self,
        place: (usize, usize),
        factor: f64,
        v: &Self::Slice<V>,
        x: &mut Self::Slice<T>,
    ) -> Result<()>;
    /// v becomes factor times vector c of x; `place` is (k, c).
    fn take_vector<T: Scalar>(
        &self,
        place: (usize, usize),
        factor: f64,
        x: &Self::Slice<T>,
        v: &mut Self::Slice<T>,
    ) -> Result<()>;
    /// z·r and, with a q, z·q.
    fn multivector_dots<T: Scalar>(
        &self,
        k: usize,
        z: &Self::Slice<T>,
        r: &Self::Slice<T>,
        q: Option<&Self::Slice<T>>,
    ) -> Result<(PerVector, PerVector)>;
    /// p = z + β p; p is not read where β is 0.
    fn multivector_direction<T: Scalar>(
        &self,
        k: usize,
        z: &Self::Slice<T>,
        beta: &PerVector,
        p: &mut Self::Slice<T>,
    ) -> Result<()>;
    /// q = A p, and p·q.
    fn multivector_product<T: Scalar>(
        &self,
        a: &dyn Operator<Self, T>,
        p: &Self::Slice<T>,
        q: &mut Self::Slice<T>,
    ) -> Result<PerVector>;
    /// x += α p, r -= α q, and r·r. Where α is 0, p and q are not used.
    fn multivector_step<T: Scalar>(
        &self,
        k: usize,
        alpha: &PerVector,
        pq: (&Self::Slice<T>, &Self::Slice<T>),
        x: &mut Self::Slice<T>,
        r: &mut Self::Slice<T>,
    ) -> Result<PerVector>;
}
