//! Sliced ELL in slots, in device memory. Slices are those of `kernels/slices.cu` and `kernels/block_slices.cu`.

use super::layout::{Filled, Form, GROUP, Layout};
use super::product::{Finish, Product, names};
use super::runtime::{BLOCK, Kernel};
use super::setup::{DeviceCsr, DevicePattern};
use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// A matrix in slices.
pub(super) struct Slices<S> {
    gpu: Gpu,
    kernel: Kernel,
    /// Block rows and columns.
    rows: usize,
    cols: usize,
    block: Block,
    layout: Arc<Layout>,
    filled: Arc<Filled>,
    values: Buffer<S>,
}

impl<S: Number> Slices<S> {
    /// For vectors of precisions `X` and `Y`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &DeviceCsr<S>, layout: &Arc<Layout>) -> Result<Slices<S>> {
        let (filled, values) = layout.fill(gpu, a)?;
        Slices::of::<X, Y>(gpu, &a.pattern(), layout, filled, values)
    }

    /// The slots of a matrix of this pattern.
    pub fn of<X: Number, Y: Number>(
        gpu: &Gpu,
        a: &DevicePattern,
        layout: &Arc<Layout>,
        filled: Arc<Filled>,
        values: Buffer<S>,
    ) -> Result<Slices<S>> {
        let name = match layout.form {
            Form::Rows => format!("slices{}", layout.bits),
            Form::Shared(_) => "shared_slices".to_string(),
            Form::Blocks(_) => format!("block_slices{}", if matches!(a.block.cols, 3 | 6) { a.block.cols } else { 0 }),
        };
        let kernel = gpu.kernel(&format!("{name}_{}", names::<S, X, Y>()))?;
        let (rows, cols, block) = (a.rows, a.cols, a.block);
        let layout = Arc::clone(layout);
        Ok(Slices { gpu: gpu.clone(), kernel, rows, cols, block, layout, filled, values })
    }

    /// Groups of threads of a slice.
    fn groups(&self) -> usize {
        match self.layout.form {
            Form::Rows => 1,
            Form::Shared(units) => units,
            Form::Blocks(units) => units * self.block.rows,
        }
    }
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Slices<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows * self.block.rows, self.cols * self.block.cols)
    }

    fn blocks(&self, _: &Finish<'_>) -> usize {
        (self.rows.div_ceil(self.layout.height) * self.groups()).div_ceil(BLOCK / GROUP)
    }

    fn run(&self, x: &Slice<X>, finish: &Finish<'_>) -> Result<()> {
        let blocks = <Self as Product<X, Y>>::blocks(self, finish);
        let (rows, br, bc) = (self.rows as i64, self.block.rows as i32, self.block.cols as i32);
        let [starts, bases, order] = [self.layout.starts.view(), self.filled.bases.view(), self.layout.order.view()];
        let (offsets, values, x) = (self.filled.offsets.view(), self.values.view(), x.view());
        match self.layout.form {
            Form::Rows => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
            Form::Shared(units) => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
            Form::Blocks(units) => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &br, &bc, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
        }
    }

    fn bytes(&self) -> usize {
        self.layout.bytes(self.block, S::PRECISION)
    }

    fn format(&self) -> String {
        let sorted = if self.layout.order.is_empty() { "" } else { "s" };
        let block = if self.block == Block::SCALAR {
            String::new()
        } else {
            format!("_{}x{}", self.block.rows, self.block.cols)
        };
        format!("sell{}{sorted}{block}", self.layout.bits)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
