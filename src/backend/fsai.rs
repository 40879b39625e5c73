//! The contract of the factorised sparse approximate inverse (FSAI): a lower triangular G with G A Gᵀ ≈ I.

use super::parameters::Parameters;
use super::setup::Setup;
use crate::error::Result;
use crate::scalar::Scalar;

/// Parameters of an adaptive FSAI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adaptive {
    /// Most steps in which the pattern of a row grows.
    pub steps: usize,
    /// Entries that a step adds.
    pub entries: usize,
    /// A row is finished when a step reduces its Kaporin number by a smaller share than this.
    pub tolerance: f64,
}

impl Adaptive {
    /// What the parameters of the smoother name.
    pub fn new(parameters: &dyn Parameters) -> Adaptive {
        Adaptive {
            steps: parameters.int("amg.smoother.fsai.steps"),
            entries: parameters.int("amg.smoother.fsai.entries_per_step"),
            tolerance: parameters.real("amg.smoother.fsai.tolerance"),
        }
    }

    /// Most entries that a row may have beside its diagonal.
    pub fn capacity(&self, rows: usize) -> usize {
        (self.steps * self.entries).min(rows.saturating_sub(1))
    }

    /// A pivot that is below this share of the diagonal is one of a matrix that is not positive definite, to rounding.
    pub fn smallest_pivot<T: Scalar>() -> T {
        T::from_f64(64.0 * T::EPSILON.to_f64())
    }
}

/// A set-up backend that computes FSAI factors.
pub(crate) trait FsaiFactor: Setup {
    /// The factor G of a scalar matrix that is symmetric and positive definite, rows ascending. A row whose diagonal is
    /// not positive is empty but for a zero on the diagonal.
    fn fsai_factor<T: Scalar>(&self, a: &Self::Matrix<T>, adaptive: &Adaptive) -> Result<Self::Matrix<T>>;
}
