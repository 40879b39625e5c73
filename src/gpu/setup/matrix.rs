//! Matrices and graphs in device memory, as set-up works on them.

use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Number;
use crate::sparse::{Block, Csr, CsrView};
use std::sync::Arc;

/// A matrix of dense blocks in rows, as [`Csr`] on the host: offsets of 64 bits, columns from 0, blocks row by row. Clones share the arrays.
#[derive(Clone)]
pub(crate) struct DeviceCsr<T> {
    /// Block rows.
    pub rows: usize,
    /// Block columns.
    pub cols: usize,
    pub block: Block,
    pub offsets: Arc<Buffer<i64>>,
    pub columns: Arc<Buffer<i32>>,
    pub values: Arc<Buffer<T>>,
}

impl<T: Number> DeviceCsr<T> {
    /// A copy of a matrix of the host.
    pub fn upload(gpu: &Gpu, a: &CsrView<'_, T>) -> Result<DeviceCsr<T>> {
        let arrays = crate::gpu::csr::Arrays::new(gpu, a)?;
        let (offsets, columns, values) = (Arc::new(arrays.offsets), Arc::new(arrays.columns), Arc::new(arrays.values));
        Ok(DeviceCsr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
    }

    /// A copy on the host.
    pub fn fetch(&self, gpu: &Gpu) -> Result<Csr<T>> {
        Ok(Csr {
            rows: self.rows,
            cols: self.cols,
            block: self.block,
            offsets: gpu.fetch(&self.offsets)?,
            columns: gpu.fetch(&self.columns)?,
            values: gpu.fetch(&self.values)?,
        })
    }

    /// Stored blocks.
    pub fn nnz(&self) -> usize {
        self.columns.len()
    }

    /// Scalar rows.
    pub fn scalar_rows(&self) -> usize {
        self.rows * self.block.rows
    }

    /// Stored scalar values.
    pub fn entries(&self) -> usize {
        self.values.len()
    }
}

/// Strong couplings, as [`crate::amg::strength::Graph`] on the host.
pub(crate) struct DeviceGraph {
    pub rows: usize,
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
}
