//! BSR with blocks of 2 x 2 or 4 x 4 (`kernels/bsr.cu`): a block matrix as it is, or a scalar matrix with clustered
//! entries in tiles of 4 x 4.

use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{Argument, BLOCK, Kernel, View};
use super::setup::tiles::{DeviceTiles, SIDE};
use super::setup::{DeviceCsr, DevicePattern};
use super::{Buffer, Gpu, multivector};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// Threads that fill a GPU.
const FULL_DEVICE_THREADS: usize = 1 << 17;

/// Blocks for each lane.
const LANE_ENTRIES: usize = 16;

/// Alignment of vector loads, in bytes.
const ALIGNED: u64 = 16;

/// A matrix of square blocks.
pub(super) struct Bsr {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    name: &'static str,
    side: usize,
    lanes: usize,
    /// Scalar rows and columns.
    shape: (usize, usize),
    offsets: Arc<Buffer<i64>>,
    columns: Arc<Buffer<i32>>,
    values: Values,
}

impl Bsr {
    /// Whether there is a kernel for these blocks.
    pub fn knows(block: Block) -> bool {
        block.rows == block.cols && matches!(block.rows, 2 | 4)
    }

    /// A block matrix, for SpMV with these precisions.
    pub fn new<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, precisions: Precisions) -> Result<Bsr> {
        assert!(Bsr::knows(a.block));
        let name = if a.block.rows == 2 { "bsr2x2" } else { "bsr4x4" };
        let shape = (a.scalar_rows(), a.cols * a.block.cols);
        Bsr::of(gpu, name, shape, a.pattern(), a.own_values(gpu)?.into(), precisions)
    }

    /// A scalar matrix in tiles; none if a tile row has too many tiles. Waits for the device.
    pub fn tiled<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, precisions: Precisions) -> Result<Option<Bsr>> {
        let Some(DeviceTiles { offsets, columns, values, .. }) = DeviceTiles::of(gpu, a)? else { return Ok(None) };
        let (rows, cols, block) = (a.rows.div_ceil(SIDE), a.cols.div_ceil(SIDE), Block::square(SIDE));
        let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
        let tiles = DevicePattern { rows, cols, block, offsets, columns };
        Ok(Some(Bsr::of(gpu, "tiles4x4", (a.rows, a.cols), tiles, values.into(), precisions)?))
    }

    fn of(
        gpu: &Gpu,
        name: &'static str,
        shape: (usize, usize),
        blocks: DevicePattern,
        values: Values,
        precisions: Precisions,
    ) -> Result<Bsr> {
        let side = blocks.block.rows;
        let (gpu, kernel) = (gpu.clone(), precisions.kernel(gpu, &format!("bsr{side}"))?);
        let lanes = lanes(side, blocks.nnz(), blocks.rows);
        let DevicePattern { offsets, columns, .. } = blocks;
        Ok(Bsr { gpu, precisions, kernel, name, side, lanes, shape, offsets, columns, values })
    }
}

/// Bytes of so many blocks of this side in so many block rows.
pub(super) fn bytes(block_rows: usize, blocks: f64, side: usize, storage: Precision) -> f64 {
    ((block_rows + 1) * size_of::<i64>()) as f64 + blocks * (size_of::<i32>() + side * side * storage.bytes()) as f64
}

/// Lanes of a block row.
pub(super) fn lanes(side: usize, blocks: usize, block_rows: usize) -> usize {
    let length = blocks.div_ceil(block_rows.max(1));
    let enough = |lanes: &usize| LANE_ENTRIES * (lanes / side) >= length && block_rows * lanes >= FULL_DEVICE_THREADS;
    [4, 8, 16].into_iter().filter(|lanes| *lanes >= 2 * side).find(enough).unwrap_or(32)
}

impl Product for Bsr {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        (self.offsets.len() - 1).div_ceil(BLOCK / self.lanes)
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width == self.side
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, shift) = (self.shape.0 as i64, self.lanes.ilog2() as i32);
        let [offsets, columns, values] = [self.offsets.view(), self.columns.view(), self.values.view()];
        let aligned = ALIGNED.min((self.side * self.precisions.vector.bytes()) as u64);
        let packed = i32::from(x.array().address().is_multiple_of(aligned));
        let blocks = self.blocks(epilogue);
        self.gpu.launch_blocks(
            self.kernel,
            blocks,
            &[&rows, &shift, &packed, &offsets, &columns, &values, &x, epilogue],
        )
    }

    fn multivector_kernel(&self) -> Option<&str> {
        Some("bsr")
    }

    fn multivector_blocks(&self, _: usize) -> usize {
        multivector::blocks_for(multivector::LANES * self.shape.0)
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, shift, side) = (self.shape.0 as i64, k.ilog2() as i32, self.side as i32);
        let [offsets, columns, values] = [self.offsets.view(), self.columns.view(), self.values.view()];
        let blocks = self.multivector_blocks(k);
        let arguments: [&dyn Argument; 8] = [&rows, &shift, &side, &offsets, &columns, &values, &x, epilogue];
        self.gpu.launch_blocks(kernel, blocks, &arguments)
    }

    fn bytes(&self) -> usize {
        self.offsets.owned_bytes() + self.columns.owned_bytes() + self.values.owned_bytes()
    }

    fn format(&self) -> String {
        self.name.to_string()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn few_block_rows_have_many_lanes_and_short_ones_few() {
        assert_eq!(lanes(4, 27 << 17, 1 << 17), 8);
        assert_eq!(lanes(4, 7 << 17, 1 << 17), 8);
        assert_eq!(lanes(2, 7 << 17, 1 << 17), 4);
        assert_eq!(lanes(2, 27 << 17, 1 << 17), 4);
        assert_eq!(lanes(2, 7 * 100, 100), 32);
        assert_eq!(lanes(4, 0, 0), 32);
    }
}
