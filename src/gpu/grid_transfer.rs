//! Transfers between structured grids in device memory (`kernels/grid_transfer.cu`).

use super::multivector;
use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{Argument, BLOCK, Kernel, View};
use super::signature::Type;
use super::{Buffer, Gpu};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::{SharedTransfer, TransferPattern};
use std::ffi::c_void;
use std::sync::Arc;

/// The struct of `kernels/grid_transfer.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct TransferShape {
    fine: [i32; 3],
    coarse: [i32; 3],
    periodic: [i32; 3],
    axes: [i32; 3],
    low: i32,
    block: i32,
}

impl TransferShape {
    /// That of a pattern.
    pub fn new(pattern: &TransferPattern) -> TransferShape {
        let grids = &pattern.grids;
        TransferShape {
            fine: grids.fine.dims.map(|n| n as i32),
            coarse: grids.coarse.dims.map(|n| n as i32),
            periodic: grids.fine.periodic.map(i32::from),
            axes: grids.axes.map(i32::from),
            low: i32::from(pattern.low),
            block: pattern.block as i32,
        }
    }
}

// SAFETY: the layout of the struct in `kernels/grid_transfer.cu`.
unsafe impl Argument for TransferShape {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<TransferShape>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("TransferShape")
    }
}

/// A prolongator from a coarser grid, or its transpose, in device memory. Clones share the weights.
pub(crate) struct DeviceTransfer<S> {
    /// The pattern.
    pub pattern: Arc<TransferPattern>,
    /// Whether it is the restriction.
    pub transposed: bool,
    /// The weights.
    pub values: Arc<Buffer<S>>,
}

impl<S> Clone for DeviceTransfer<S> {
    fn clone(&self) -> Self {
        let (pattern, values) = (Arc::clone(&self.pattern), Arc::clone(&self.values));
        DeviceTransfer { pattern, transposed: self.transposed, values }
    }
}

impl<S: Number> DeviceTransfer<S> {
    /// A copy of a transfer of the host.
    pub fn upload(gpu: &Gpu, matrix: &SharedTransfer<S>) -> Result<DeviceTransfer<S>> {
        let (pattern, values) = (Arc::clone(&matrix.pattern), gpu.upload(matrix.values.as_slice())?);
        Ok(DeviceTransfer { pattern, transposed: matrix.transposed, values: Arc::new(values) })
    }

    /// A copy on the host. Waits for the device.
    pub fn fetch(&self, gpu: &Gpu) -> Result<SharedTransfer<S>> {
        let (pattern, values) = (Arc::clone(&self.pattern), gpu.fetch(&self.values)?);
        Ok(SharedTransfer { pattern, transposed: self.transposed, values: Arc::new(values) })
    }

    /// As kernels take it.
    pub(super) fn shape(&self) -> TransferShape {
        TransferShape::new(&self.pattern)
    }
}

/// A prolongator or a restriction as a product.
pub(super) struct GridTransferProduct {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    shape: TransferShape,
    /// Rows and columns.
    size: (usize, usize),
    /// Threads: one for each row, or for interpolation from coarse cells to the fine ones around them one for each column.
    threads: usize,
    steps: usize,
    /// The kernel for multivectors.
    multivector: Option<&'static str>,
    weights: Values,
}

impl GridTransferProduct {
    /// For products of these precisions.
    pub fn new<S: Number>(
        gpu: &Gpu,
        matrix: &DeviceTransfer<S>,
        precisions: Precisions,
    ) -> Result<GridTransferProduct> {
        let pattern = &*matrix.pattern;
        let by_boxes = pattern.low < 0 && pattern.grids.axes == [true; 3];
        let name = match (matrix.transposed, by_boxes) {
            (true, false) => "grid_restriction",
            (true, true) => "grid_restriction_box",
            (false, false) => "grid_interpolation",
            (false, true) => "grid_interpolation_box",
        };
        let [storage, sums] = [precisions.storage, precisions.sums].map(Precision::name);
        let [fine, coarse] = [pattern.grids.fine, pattern.grids.coarse].map(|grid| grid.cells() * pattern.block);
        Ok(GridTransferProduct {
            gpu: gpu.clone(),
            precisions,
            kernel: gpu.kernel(&format!("{name}_{storage}_{sums}"))?,
            shape: matrix.shape(),
            size: if matrix.transposed { (coarse, fine) } else { (fine, coarse) },
            threads: if matrix.transposed || by_boxes { coarse } else { fine },
            steps: pattern.steps.len(),
            multivector: (pattern.block == 1 && !pattern.grids.fine.periodic[0]).then_some(match matrix.transposed {
                true => "grid_restriction",
                false => "grid_interpolation",
            }),
            weights: Arc::clone(&matrix.values).into(),
        })
    }
}

impl Product for GridTransferProduct {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.size
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        self.threads.div_ceil(BLOCK)
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, weights, format) = (self.threads as i64, self.weights.view(), self.precisions.vector as i32);
        let blocks = self.blocks(epilogue);
        self.gpu.launch_blocks(self.kernel, blocks, &[&rows, &self.shape, &weights, &format, &x, epilogue])
    }

    fn multivector_kernel(&self) -> Option<&str> {
        self.multivector
    }

    fn multivector_blocks(&self, k: usize) -> usize {
        multivector::blocks_for(self.size.0 * (k / multivector::OWN))
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, shift, weights) = (self.size.0 as i64, k.ilog2() as i32, self.weights.view());
        let blocks = self.multivector_blocks(k);
        self.gpu.launch_blocks(kernel, blocks, &[&rows, &shift, &self.shape, &weights, &x, epilogue])
    }

    fn bytes(&self) -> usize {
        self.weights.owned_bytes()
    }

    fn format(&self) -> String {
        format!("stencil{}", self.steps)
    }
}
