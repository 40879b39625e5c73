//! The near-null space of a level on a GPU.

use super::grid::{GpuMatrix, GpuPattern};
use super::{DeviceNearNullSpace, filtered};
use crate::backend::Backend;
use crate::backend::setup::{Held, NearNullVectors};
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;

impl Held for DeviceNearNullSpace {
    fn bytes(&self) -> usize {
        self.vectors.owned_bytes()
    }
}

impl NearNullVectors<Gpu> for DeviceNearNullSpace {
    fn count(&self) -> usize {
        self.count
    }

    fn vector(&self, gpu: &Gpu, i: usize) -> Result<Buffer<f64>> {
        let rows = self.vectors.len() / self.count;
        let mut vector = gpu.allocate::<f64>(rows)?;
        gpu.copy(self.vectors.subslice(i * rows, rows), &mut vector);
        Ok(vector)
    }

    fn with_vectors(&self, gpu: &Gpu, vectors: &[Buffer<f64>]) -> Result<DeviceNearNullSpace> {
        let rows = self.vectors.len() / self.count;
        let mut all = gpu.allocate::<f64>(rows * vectors.len())?;
        for (i, vector) in vectors.iter().enumerate() {
            gpu.copy(vector, all.subslice_mut(i * rows, rows));
        }
        Ok(DeviceNearNullSpace { dofs_per_node: self.dofs_per_node, count: vectors.len(), vectors: all })
    }

    fn filtered<T: Scalar>(
        &self,
        gpu: &Gpu,
        p: &GpuMatrix<T>,
        share: f64,
        pattern: Option<&GpuPattern>,
    ) -> Result<GpuMatrix<T>> {
        Ok(filtered::filtered(gpu, p, self, share, pattern.map(|pattern| &**pattern))?.into())
    }
}
