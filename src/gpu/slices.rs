//! Sliced ELL in slots, in device memory. Slices are those of `kernels/slices.cu` and `kernels/block_slices.cu`.

use super::layout::{Form, GROUP, Layout};
use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::setup::DeviceCsr;
use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// An integer type for offsets from a base column.
pub(super) trait Offset: Send + Sync + 'static {
    const BITS: usize;
}

impl Offset for u8 {
    const BITS: usize = 8;
}

impl Offset for u16 {
    const BITS: usize = 16;
}

/// A matrix in slices.
pub(super) struct Slices<S, O> {
    gpu: Gpu,
    kernel: Kernel,
    /// Block rows and columns.
    rows: usize,
    cols: usize,
    block: Block,
    layout: Arc<Layout>,
    bases: Buffer<i32>,
    offsets: Buffer<O>,
    values: Buffer<S>,
}

impl<S: Number, O: Offset> Slices<S, O> {
    /// For vectors of precisions `X` and `Y`, from a layout for offsets of type `O`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &DeviceCsr<S>, layout: &Arc<Layout>) -> Result<Slices<S, O>> {
        assert_eq!(layout.bits, O::BITS);
        let name = match layout.form {
            Form::Rows => format!("slices{}", O::BITS),
            Form::Shared(_) => "shared_slices".to_string(),
            Form::Blocks(_) => format!("block_slices{}", if matches!(a.block.cols, 3 | 6) { a.block.cols } else { 0 }),
        };
        let kernel = gpu.kernel(&format!("{name}_{}", names::<S, X, Y>()))?;
        let (bases, offsets, values) = layout.fill(gpu, a)?;
        let (rows, cols, block) = (a.rows, a.cols, a.block);
        let layout = Arc::clone(layout);
        Ok(Slices { gpu: gpu.clone(), kernel, rows, cols, block, layout, bases, offsets, values })
    }
}

impl<S: Number, O: Offset, X: Number, Y: Number> Product<X, Y> for Slices<S, O> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows * self.block.rows, self.cols * self.block.cols)
    }

    fn threads(&self) -> usize {
        let groups = match self.layout.form {
            Form::Rows => 1,
            Form::Shared(units) => units,
            Form::Blocks(units) => units * self.block.rows,
        };
        self.rows.div_ceil(self.layout.height) * GROUP * groups
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let threads = <Self as Product<X, Y>>::threads(self);
        let (rows, br, bc) = (self.rows as i64, self.block.rows as i32, self.block.cols as i32);
        let [starts, bases, order] = [self.layout.starts.view(), self.bases.view(), self.layout.order.view()];
        let (offsets, values, x) = (self.offsets.view(), self.values.view(), x.view());
        match self.layout.form {
            Form::Rows => {
                self.gpu.launch(self.kernel, threads, &[&rows, &starts, &bases, &offsets, &values, &order, &x, finish])
            }
            Form::Shared(units) => self.gpu.launch(
                self.kernel,
                threads,
                &[&rows, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, finish],
            ),
            Form::Blocks(units) => self.gpu.launch(
                self.kernel,
                threads,
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
        format!("sell{}{sorted}{block}", O::BITS)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
