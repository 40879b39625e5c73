//! A matrix as set-up on a GPU has it: in rows, or on structured grids. What has no formula for grids converts them to rows on the device.

use super::divided::{DeviceDivided, DeviceDividedPattern};
use super::{DeviceCsr, DevicePattern};
use crate::backend::setup::{SetupMatrix, SetupPattern};
use crate::error::{Result, fail};
use crate::gpu::grid_transfer::DeviceTransfer;
use crate::gpu::runtime::Argument;
use crate::gpu::stencil::{DeviceStencil, StencilOffsets};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, SharedCsr};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// A matrix of set-up.
pub(crate) enum GpuMatrix<S> {
    /// CSR or BSR.
    Rows(DeviceCsr<S>),
    /// The rows of this rank, where set-up is divided.
    Divided(DeviceDivided<S>),
    /// A stencil on a grid.
    Stencil(DeviceStencil<S>),
    /// A transfer between two grids.
    Transfer(DeviceTransfer<S>),
}

impl<S> Clone for GpuMatrix<S>
where
    DeviceCsr<S>: Clone,
{
    fn clone(&self) -> Self {
        match self {
            GpuMatrix::Rows(a) => GpuMatrix::Rows(a.clone()),
            GpuMatrix::Divided(a) => GpuMatrix::Divided(a.clone()),
            GpuMatrix::Stencil(a) => GpuMatrix::Stencil(a.clone()),
            GpuMatrix::Transfer(a) => GpuMatrix::Transfer(a.clone()),
        }
    }
}

impl<S> From<DeviceCsr<S>> for GpuMatrix<S> {
    fn from(a: DeviceCsr<S>) -> Self {
        GpuMatrix::Rows(a)
    }
}

/// The matrix in rows, for components that have no formula for grids; those are set up with rows.
impl<S> Deref for GpuMatrix<S> {
    type Target = DeviceCsr<S>;

    fn deref(&self) -> &DeviceCsr<S> {
        match self {
            GpuMatrix::Rows(a) => a,
            GpuMatrix::Divided(a) => &a.matrix,
            _ => unreachable!("components for matrices in rows are set up with rows"),
        }
    }
}

impl<S: Number> GpuMatrix<S> {
    /// The stencil, for components that know nothing else; they are set up on grids.
    pub fn on_grid(&self) -> Result<&DeviceStencil<S>> {
        match self {
            GpuMatrix::Stencil(a) => Ok(a),
            _ => fail!(Internal, "a matrix in rows came to a component for grids"),
        }
    }

    /// The rows that it has, where it is in rows.
    pub fn in_rows(&self) -> Option<&DeviceCsr<S>> {
        match self {
            GpuMatrix::Rows(a) | GpuMatrix::Divided(DeviceDivided { matrix: a, .. }) => Some(a),
            GpuMatrix::Stencil(_) | GpuMatrix::Transfer(_) => None,
        }
    }

    /// Its values, padding of a stencil included.
    pub(super) fn values_mut(&mut self) -> &mut Arc<Buffer<S>> {
        match self {
            GpuMatrix::Rows(a) => &mut a.values,
            GpuMatrix::Divided(a) => &mut a.matrix.values,
            GpuMatrix::Stencil(a) => &mut a.values,
            GpuMatrix::Transfer(a) => &mut a.values,
        }
    }

    fn values(&self) -> &Arc<Buffer<S>> {
        match self {
            GpuMatrix::Rows(a) => &a.values,
            GpuMatrix::Divided(a) => &a.matrix.values,
            GpuMatrix::Stencil(a) => &a.values,
            GpuMatrix::Transfer(a) => &a.values,
        }
    }
}

impl<T: Scalar> GpuMatrix<T> {
    /// The matrix in rows; converted where it is not. Restrictions are converted on the host.
    pub fn to_rows(&self, gpu: &Gpu) -> Result<Cow<'_, DeviceCsr<T>>> {
        Ok(match self {
            GpuMatrix::Rows(a) | GpuMatrix::Divided(DeviceDivided { matrix: a, .. }) => Cow::Borrowed(a),
            GpuMatrix::Stencil(a) => Cow::Owned(a.to_rows(gpu)?),
            GpuMatrix::Transfer(p) if !p.transposed => Cow::Owned(p.to_rows(gpu)?),
            GpuMatrix::Transfer(r) => Cow::Owned(DeviceCsr::upload(gpu, &r.fetch(gpu)?.to_rows()?.view())?),
        })
    }

    /// A copy on the host, in rows.
    pub fn fetch_rows(&self, gpu: &Gpu) -> Result<SharedCsr<T>> {
        match self {
            GpuMatrix::Rows(a) | GpuMatrix::Divided(DeviceDivided { matrix: a, .. }) => Ok(a.fetch(gpu)?.into_shared()),
            GpuMatrix::Stencil(a) => a.fetch(gpu)?.to_rows(),
            GpuMatrix::Transfer(a) => a.fetch(gpu)?.to_rows(),
        }
    }

    /// A matrix with the same diagonal blocks, in rows.
    pub fn diagonal_blocks(&self, gpu: &Gpu) -> Result<Cow<'_, DeviceCsr<T>>> {
        match self {
            GpuMatrix::Stencil(a) => Ok(Cow::Owned(a.diagonal_blocks(gpu)?)),
            a => a.to_rows(gpu),
        }
    }
}

impl<T: Scalar> DeviceStencil<T> {
    /// The matrix in rows. Waits for the device.
    pub fn to_rows(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        let (cells, block) = (self.pattern.grid.cells(), Block::square(self.pattern.block));
        let (n, shape, listed) = (cells as i64, self.shape(), StencilOffsets::new(&self.pattern));
        let counts = gpu.allocate::<i32>(cells)?;
        gpu.launch(gpu.kernel("stencil_row_counts")?, cells, &[&n, &shape, &listed, &counts.view()])?;
        let (offsets, nnz) = gpu.offsets(&counts)?;
        let (columns, values) = (gpu.allocate::<i32>(nnz)?, gpu.allocate::<T>(nnz * block.len())?);
        let arguments: [&dyn Argument; 7] =
            [&n, &shape, &listed, &self.values.view(), &offsets.view(), &columns.view(), &values.view()];
        gpu.launch(gpu.kernel(&format!("stencil_rows_{}", T::PRECISION.name()))?, cells, &arguments)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows: cells, cols: cells, block, offsets, columns, values })
    }

    /// Its diagonal blocks as a matrix.
    fn diagonal_blocks(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        let (cells, block) = (self.pattern.grid.cells(), Block::square(self.pattern.block));
        let centre = self.pattern.find([0; 3]).map_or(-1, |number| number as i32);
        let (offsets, columns) = (gpu.allocate::<i64>(cells + 1)?, gpu.allocate::<i32>(cells)?);
        let values = gpu.allocate::<T>(cells * block.len())?;
        let arguments: [&dyn Argument; 7] = [
            &(cells as i64),
            &self.shape(),
            &centre,
            &self.values.view(),
            &offsets.view(),
            &columns.view(),
            &values.view(),
        ];
        gpu.launch(gpu.kernel(&format!("stencil_diagonal_{}", T::PRECISION.name()))?, cells + 1, &arguments)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows: cells, cols: cells, block, offsets, columns, values })
    }
}

impl<T: Scalar> DeviceTransfer<T> {
    /// The prolongator in rows, of scalars. Waits for the device.
    fn to_rows(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        let (grids, b) = (&self.pattern.grids, self.pattern.block);
        let (rows, cols) = (grids.fine.cells() * b, grids.coarse.cells() * b);
        let (n, shape, counts) = (rows as i64, self.shape(), gpu.allocate::<i32>(rows)?);
        gpu.launch(gpu.kernel("grid_transfer_counts")?, rows, &[&n, &shape, &counts.view()])?;
        let (offsets, nnz) = gpu.offsets(&counts)?;
        let (columns, values) = (gpu.allocate::<i32>(nnz)?, gpu.allocate::<T>(nnz)?);
        let arguments: [&dyn Argument; 6] =
            [&n, &shape, &self.values.view(), &offsets.view(), &columns.view(), &values.view()];
        gpu.launch(gpu.kernel(&format!("grid_transfer_rows_{}", T::PRECISION.name()))?, rows, &arguments)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
    }
}

impl<S: Number> SetupMatrix for GpuMatrix<S> {
    type Pattern = GpuPattern;

    fn rows(&self) -> usize {
        match self {
            GpuMatrix::Rows(a) => a.rows,
            GpuMatrix::Divided(a) => a.rows.total,
            GpuMatrix::Stencil(a) => a.pattern.grid.cells(),
            GpuMatrix::Transfer(a) if a.transposed => a.pattern.grids.coarse.cells(),
            GpuMatrix::Transfer(a) => a.pattern.grids.fine.cells(),
        }
    }

    fn block(&self) -> Block {
        match self {
            GpuMatrix::Rows(a) => a.block,
            GpuMatrix::Divided(a) => a.matrix.block,
            GpuMatrix::Stencil(a) => Block::square(a.pattern.block),
            GpuMatrix::Transfer(a) => Block::square(a.pattern.block),
        }
    }

    fn entries(&self) -> usize {
        match self {
            GpuMatrix::Rows(a) => a.values.len(),
            GpuMatrix::Divided(a) => a.matrix.values.len(),
            GpuMatrix::Stencil(a) => a.pattern.entries(),
            GpuMatrix::Transfer(a) => a.pattern.entries(),
        }
    }

    fn pattern(&self) -> GpuPattern {
        match self {
            GpuMatrix::Rows(a) => GpuPattern::Rows(a.pattern()),
            GpuMatrix::Divided(a) => GpuPattern::Divided(a.pattern()),
            _ => GpuPattern::Grid,
        }
    }

    fn value_bytes(&self, references: usize) -> usize {
        let values = self.values();
        if Arc::strong_count(values) > references { 0 } else { values.owned_bytes() }
    }
}

/// The pattern of a matrix of set-up. Clones share the arrays.
#[derive(Clone)]
pub(crate) enum GpuPattern {
    /// Of CSR or BSR.
    Rows(DevicePattern),
    /// Of the rows of this rank.
    Divided(DeviceDividedPattern),
    /// Of a matrix on grids, which has no arrays.
    Grid,
}

/// That of a matrix in rows, as for [`GpuMatrix`].
impl Deref for GpuPattern {
    type Target = DevicePattern;

    fn deref(&self) -> &DevicePattern {
        match self {
            GpuPattern::Rows(pattern) => pattern,
            GpuPattern::Divided(a) => &a.pattern,
            GpuPattern::Grid => unreachable!("components for matrices in rows are set up with rows"),
        }
    }
}

impl From<DevicePattern> for GpuPattern {
    fn from(pattern: DevicePattern) -> Self {
        GpuPattern::Rows(pattern)
    }
}

impl SetupPattern for GpuPattern {
    fn bytes(&self, references: usize) -> usize {
        match self {
            GpuPattern::Rows(pattern) => pattern.bytes(references),
            GpuPattern::Divided(a) => a.pattern.bytes(references),
            GpuPattern::Grid => 0,
        }
    }
}
