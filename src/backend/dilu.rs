//! The contract of the diagonal incomplete factorisation (DILU): M = (E + L) E⁻¹ (E + U), where L and U are the parts of A before and after the
//! diagonal in the order of the colours, and the diagonal of M is that of A: e_i = a_ii - Σ a_ij a_ji / e_j over the neighbours j of earlier colours.

use super::setup::Setup;
use crate::error::Result;
use crate::scalar::Scalar;

/// A pivot e_i below this share of a_ii is replaced by a_ii, and so is that of a row with a coupling of the sign of its diagonal: with a_ii for all
/// pivots M is that of symmetric Gauss-Seidel, which converges for every SPD matrix. The smaller pivots of DILU do so for M-matrices.
pub(crate) const SMALLEST_PIVOT: f64 = 0.01;

/// What the factorisation consists of beside the matrix.
pub(crate) struct Pivots<C, A> {
    pub colouring: C,
    /// 1 / e_i.
    pub inverse: A,
    /// a_ii - e_i.
    pub lost: A,
}

/// A set-up backend that computes the pivots.
pub(crate) trait DiluPivots: Setup {
    /// The colouring of a scalar matrix, and for each row 1 / e_i and a_ii - e_i; zeros for a row without a diagonal entry.
    fn dilu_pivots<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<Pivots<Self::Colouring, Self::Buffer<T>>>;
}
