//! The caller's matrix on set-up backends.

use super::Matrix;
use crate::backend::setup::Setup;
use crate::error::{Result, fail};
use crate::gpu::DeviceStencil;
use crate::gpu::Gpu;
use crate::gpu::setup::DeviceNearNullSpace;
use crate::gpu::setup::divided::DeviceDivided;
use crate::gpu::setup::grid::GpuMatrix;
use crate::host::{DividedMatrix, Host, HostMatrix};
use crate::scalar::Number;
use crate::sparse::{NearNullSpace, SharedStencil};
use std::sync::Arc;

/// A set-up backend that a caller's matrix can be brought to.
pub(crate) trait Import: Setup {
    /// The matrix with values stored as `S`, shared where it is already there; as a stencil if it is `structured`.
    fn import<S: Number>(&self, matrix: &Matrix, structured: bool) -> Result<Self::Matrix<S>>;
    /// A near-null space of the matrix.
    fn import_near_null_space(&self, matrix: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<Self::NearNullSpace>>;
}

/// The stencil of a matrix.
fn stencil<S: Number>(matrix: &Matrix) -> Result<SharedStencil<S>> {
    match matrix.shared_stencil()? {
        Some(stencil) => Ok(stencil),
        None => fail!(
            OptionValue,
            "amg.type \"structured\" needs a matrix on a structured grid; give it as a stencil, or set its grid"
        ),
    }
}

impl Import for Host {
    fn import<S: Number>(&self, matrix: &Matrix, structured: bool) -> Result<HostMatrix<S>> {
        Ok(match (structured, &matrix.local) {
            (true, _) => HostMatrix::Stencil(stencil(matrix)?),
            (false, None) => matrix.shared()?.into(),
            (false, Some(numbers)) => {
                let (rows, columns) = (Arc::clone(numbers), Arc::clone(numbers));
                HostMatrix::Divided(DividedMatrix { matrix: matrix.shared()?, rows, columns })
            }
        })
    }

    fn import_near_null_space(&self, _: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<NearNullSpace>> {
        Ok(Arc::clone(space))
    }
}

impl Import for Gpu {
    fn import<S: Number>(&self, matrix: &Matrix, structured: bool) -> Result<GpuMatrix<S>> {
        if let Some(numbers) = matrix.local.as_ref().filter(|_| !structured) {
            let (rows, columns) = (Arc::clone(numbers), Arc::clone(numbers));
            return Ok(GpuMatrix::Divided(DeviceDivided { matrix: matrix.device(self)?, rows, columns }));
        }
        if !structured {
            return Ok(matrix.device(self)?.into());
        }
        if let Some(stencil) = matrix.device_stencil(self)? {
            return Ok(GpuMatrix::Stencil(stencil));
        }
        Ok(GpuMatrix::Stencil(match matrix.device_rows_as_stencil(self)? {
            Some(stencil) => stencil,
            None => DeviceStencil::upload(self, &stencil(matrix)?)?,
        }))
    }

    fn import_near_null_space(&self, matrix: &Matrix, space: &Arc<NearNullSpace>) -> Result<Arc<DeviceNearNullSpace>> {
        matrix.device_near_null_space(self, space)
    }
}
