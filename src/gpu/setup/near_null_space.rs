//! The near-null space of a level on a GPU.

use super::coarse_numbering::Splitting;
use super::grid::{GpuMatrix, GpuPattern};
use super::{DeviceNearNullSpace, filtered};
use crate::backend::Backend;
use crate::backend::setup::{Held, NearNullVectors};
use crate::error::Result;
use crate::gpu::runtime::Argument;
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

    fn injected(&self, gpu: &Gpu, coarse: &Splitting) -> Result<DeviceNearNullSpace> {
        let (rows, vectors) = (coarse.number.len(), gpu.allocate::<f64>(self.count * coarse.count)?);
        let (from, number) = (self.vectors.view(), coarse.number.view());
        let arguments: [&dyn Argument; 6] =
            [&(rows as i64), &(self.count as i32), &(coarse.count as i64), &number, &from, &vectors.view()];
        gpu.launch(gpu.kernel("injected_vectors")?, rows, &arguments)?;
        Ok(DeviceNearNullSpace { dofs_per_node: 1, count: self.count, vectors })
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
