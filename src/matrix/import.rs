//! The caller's matrix on set-up backends.

use super::Matrix;
use crate::backend::setup::Setup;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::setup::{DeviceCsr, DeviceNearNullSpace};
use crate::host::Host;
use crate::scalar::{Number, Precision, Scalar, with_precision};
use crate::sparse::{NearNullSpace, SharedCsr};
use std::sync::Arc;

/// A set-up backend that a caller's matrix can be brought to.
pub(crate) trait Import: Setup {
    /// The matrix with values stored as `S`, shared where it is already there.
    fn import<S: Number>(&self, matrix: &Matrix) -> Result<Self::Matrix<S>>;
    /// A near-null space of the matrix.
    fn import_near_null_space(&self, matrix: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<Self::NearNullSpace>>;
    /// x·A x for the matrix, of which `finest` is the finest level as set-up has it.
    fn caller_energy<T: Scalar>(&self, matrix: &Matrix, finest: &Self::Matrix<T>, x: &Self::Slice<f64>) -> Result<f64>;
}

impl Import for Host {
    fn import<S: Number>(&self, matrix: &Matrix) -> Result<SharedCsr<S>> {
        matrix.shared()
    }

    fn import_near_null_space(&self, _: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<NearNullSpace>> {
        Ok(Arc::clone(space))
    }

    fn caller_energy<T: Scalar>(&self, matrix: &Matrix, _: &SharedCsr<T>, x: &[f64]) -> Result<f64> {
        with_precision!(matrix.precision(), I => self.energy(&matrix.shared::<I>()?, x))
    }
}

impl Import for Gpu {
    fn import<S: Number>(&self, matrix: &Matrix) -> Result<DeviceCsr<S>> {
        matrix.device(self)
    }

    fn import_near_null_space(&self, matrix: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<DeviceNearNullSpace>> {
        matrix.device_near_null_space(self, space)
    }

    /// The finest level is there already; only set-up in f32 has rounded a matrix of f64.
    fn caller_energy<T: Scalar>(
        &self,
        matrix: &Matrix,
        finest: &DeviceCsr<T>,
        x: &crate::gpu::Slice<f64>,
    ) -> Result<f64> {
        match (T::PRECISION, matrix.precision()) {
            (Precision::F32, Precision::F64) => self.energy(&matrix.device::<f64>(self)?, x),
            _ => self.energy(finest, x),
        }
    }
}
