//! The contract of the incomplete factorisation without fill, ILU(0), on structured grids: M = (E + L) E⁻¹ (E + U), where L and U are before and after the
//! diagonal in the order of the colours of multicolour Gauss-Seidel, and M and A agree in the pattern of the stencil. [`super::dilu`] has L and U of A itself.

use super::setup::Setup;
use crate::error::{Result, fail};
use crate::scalar::Scalar;

/// L + E + U as a stencil, and 1 / e_i.
pub(crate) type Ilu0Factors<M, A> = (M, A);

/// A set-up backend that factorises stencils.
pub(crate) trait Ilu0: Setup {
    /// The factors of a stencil with one unknown in each cell. A pivot below [`super::dilu::SMALLEST_PIVOT`] of its diagonal entry is that entry.
    fn ilu0<T: Scalar>(&self, a: &Self::Matrix<T>) -> Result<Ilu0Factors<Self::Matrix<T>, Self::Buffer<T>>>;
}

/// Refuses blocks.
pub(crate) fn check_block(block: usize) -> Result<()> {
    if block == 1 {
        return Ok(());
    }
    fail!(
        OptionValue,
        "amg.smoother.type \"ilu0\" needs one unknown in each cell, and this matrix has {block}; use \"dilu\" or \"gauss_seidel\""
    )
}
