//! Matrices and graphs in device memory, as set-up works on them.

use crate::error::{Result, try_capacity};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Number;
use crate::sparse::{Block, Csr, CsrView};
use std::sync::Arc;

/// A matrix of dense blocks in rows, as [`Csr`] on the host: offsets of 64 bits, columns from 0, blocks row by row.
/// Clones share the arrays.
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
        let mut offsets: Vec<i64> = try_capacity(a.rows + 1)?;
        offsets.extend((0..=a.rows).map(|i| a.offsets.raw(i) - i64::from(a.base)));
        let columns = if a.base == 0 {
            gpu.upload(a.columns)?
        } else {
            let mut columns: Vec<i32> = try_capacity(a.columns.len())?;
            columns.extend(a.columns.iter().map(|c| c - a.base));
            gpu.upload(&columns)?
        };
        let (offsets, columns) = (Arc::new(gpu.upload(&offsets)?), Arc::new(columns));
        let values = Arc::new(gpu.upload(a.values)?);
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

    /// Bytes that the library holds for its arrays.
    pub fn bytes(&self) -> usize {
        self.offsets.owned_bytes() + self.columns.owned_bytes() + self.values.owned_bytes()
    }
}

/// The pattern of a matrix. Clones share the arrays.
#[derive(Clone)]
pub(crate) struct DevicePattern {
    pub rows: usize,
    pub cols: usize,
    pub block: Block,
    pub offsets: Arc<Buffer<i64>>,
    pub columns: Arc<Buffer<i32>>,
}

impl DevicePattern {
    /// The matrix with these values.
    pub fn with<T: Number>(&self, values: Buffer<T>) -> DeviceCsr<T> {
        let DevicePattern { rows, cols, block, offsets, columns } = self.clone();
        assert_eq!(values.len(), columns.len() * block.len());
        DeviceCsr { rows, cols, block, offsets, columns, values: Arc::new(values) }
    }

    /// Stored blocks.
    pub fn nnz(&self) -> usize {
        self.columns.len()
    }

    /// Bytes, if at most so many `references` share it; 0 if there are others.
    pub fn bytes(&self, references: usize) -> usize {
        let alone = Arc::strong_count(&self.columns) <= references;
        if alone { self.offsets.owned_bytes() + self.columns.owned_bytes() } else { 0 }
    }
}

impl<T> DeviceCsr<T> {
    /// Its pattern.
    pub fn pattern(&self) -> DevicePattern {
        let DeviceCsr { rows, cols, block, offsets, columns, .. } = self;
        let (offsets, columns) = (Arc::clone(offsets), Arc::clone(columns));
        DevicePattern { rows: *rows, cols: *cols, block: *block, offsets, columns }
    }
}

/// Strong couplings, as [`crate::sparse::Graph`] on the host.
pub(crate) struct DeviceGraph {
    pub rows: usize,
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
}

impl DeviceGraph {
    /// One without rows.
    pub fn empty(gpu: &Gpu) -> Result<DeviceGraph> {
        Ok(DeviceGraph { rows: 0, offsets: gpu.zeroed(1)?, columns: gpu.zeroed(0)? })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.offsets.owned_bytes() + self.columns.owned_bytes()
    }
}
