//! SELL (sliced ELL) matrices in device memory, for the kernels of `kernels/sell.cu` and `kernels/block_sell.cu`.

use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{BLOCK, Kernel, View};
use super::sell_chunks::{GROUP, SellKernel};
use super::sell_layout::{SellColumns, SellLayout};
use super::setup::{DeviceCsr, DevicePattern};
use super::{Gpu, multivector};
use crate::error::Result;
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// A matrix in SELL chunks.
pub(super) struct Sell {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    /// Block rows and columns.
    rows: usize,
    cols: usize,
    block: Block,
    layout: Arc<SellLayout>,
    columns: Arc<SellColumns>,
    values: Values,
}

impl Sell {
    /// A matrix in rows, for products of these precisions.
    pub fn new<S: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<S>,
        layout: &Arc<SellLayout>,
        precisions: Precisions,
    ) -> Result<Sell> {
        let (columns, values) = layout.fill(gpu, a)?;
        Sell::of(gpu, &a.pattern(), layout, columns, values.into(), precisions)
    }

    /// The slots of a matrix of this pattern.
    pub fn of(
        gpu: &Gpu,
        a: &DevicePattern,
        layout: &Arc<SellLayout>,
        columns: Arc<SellColumns>,
        values: Values,
        precisions: Precisions,
    ) -> Result<Sell> {
        let name = match layout.form {
            SellKernel::Rows => format!("sell{}", layout.bits),
            SellKernel::Shared(_) => "shared_sell".to_string(),
            SellKernel::Blocks(_) => {
                format!("block_sell{}", if matches!(a.block.cols, 3 | 6) { a.block.cols } else { 0 })
            }
        };
        let kernel = precisions.kernel(gpu, &name)?;
        let (rows, cols, block) = (a.rows, a.cols, a.block);
        let layout = Arc::clone(layout);
        Ok(Sell { gpu: gpu.clone(), precisions, kernel, rows, cols, block, layout, columns, values })
    }

    /// Groups of threads of a chunk.
    fn groups(&self) -> usize {
        match self.layout.form {
            SellKernel::Rows => 1,
            SellKernel::Shared(units) => units,
            SellKernel::Blocks(units) => units * self.block.rows,
        }
    }
}

impl Product for Sell {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows * self.block.rows, self.cols * self.block.cols)
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        (self.rows.div_ceil(self.layout.height) * self.groups()).div_ceil(BLOCK / GROUP)
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let blocks = self.blocks(epilogue);
        let (rows, br, bc) = (self.rows as i64, self.block.rows as i32, self.block.cols as i32);
        let [starts, bases, order] = [self.layout.starts.view(), self.columns.bases.view(), self.layout.order.view()];
        let (offsets, values) = (self.columns.offsets.view(), self.values.view());
        match self.layout.form {
            SellKernel::Rows => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &starts, &bases, &offsets, &values, &order, &x, epilogue],
            ),
            SellKernel::Shared(units) => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, epilogue],
            ),
            SellKernel::Blocks(units) => self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&rows, &br, &bc, &(units as i32), &starts, &bases, &offsets, &values, &order, &x, epilogue],
            ),
        }
    }

    fn multivector_kernel(&self) -> Option<&str> {
        Some(match (self.layout.form, self.block.rows, self.layout.bits) {
            (SellKernel::Blocks(_), 3, _) => "block_sell3",
            (SellKernel::Blocks(_), ..) => "block_sell1",
            (SellKernel::Rows, _, 8) => "sell8",
            _ => "sell16",
        })
    }

    fn multivector_blocks(&self, k: usize) -> usize {
        // Threads with three rows of a block, or with one.
        let parts = if self.block.rows == 3 { 1 } else { self.block.rows };
        multivector::blocks_for(self.rows.next_multiple_of(self.layout.height) * parts * (k / multivector::OWN))
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let blocks = self.multivector_blocks(k);
        let (shift, height) = (k.ilog2() as i32, self.layout.height.ilog2() as i32);
        let (rows, br, bc) = (self.rows as i64, self.block.rows as i32, self.block.cols as i32);
        let [starts, bases, order] = [self.layout.starts.view(), self.columns.bases.view(), self.layout.order.view()];
        let (offsets, values) = (self.columns.offsets.view(), self.values.view());
        match self.layout.form {
            SellKernel::Blocks(_) => self.gpu.launch_blocks(
                kernel,
                blocks,
                &[&rows, &shift, &height, &br, &bc, &starts, &bases, &offsets, &values, &order, &x, epilogue],
            ),
            _ => self.gpu.launch_blocks(
                kernel,
                blocks,
                &[&rows, &shift, &height, &starts, &bases, &offsets, &values, &order, &x, epilogue],
            ),
        }
    }

    fn bytes(&self) -> usize {
        self.layout.bytes(self.block, self.precisions.storage)
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
}
