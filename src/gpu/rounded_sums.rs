//! SpMV in CSR or BSR with sums in the 16-bit format of the result, rounded after each term (`precision.accumulate`
//! `storage`).

use super::Gpu;
use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{BLOCK, Kernel, View};
use super::setup::{DeviceCsr, DevicePattern};
use crate::error::Result;
use crate::scalar::Number;

/// Lanes of a row, as in `kernels/rounded_sums.cu`.
const PARTIAL_SUMS: usize = 8;

/// A matrix of scalars or blocks.
pub(super) struct RoundedSums {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    pattern: DevicePattern,
    values: Values,
}

impl RoundedSums {
    /// For products of these precisions.
    pub fn new<S: Number>(gpu: &Gpu, matrix: DeviceCsr<S>, precisions: Precisions) -> Result<RoundedSums> {
        let (pattern, values) = (matrix.pattern(), matrix.values.into());
        Ok(RoundedSums { gpu: gpu.clone(), precisions, kernel: gpu.kernel("rounded_sums")?, pattern, values })
    }

    fn rows(&self) -> usize {
        self.pattern.rows * self.pattern.block.rows
    }
}

impl Product for RoundedSums {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows(), self.pattern.cols * self.pattern.block.cols)
    }

    fn blocks(&self, epilogue: &Epilogue<'_>) -> usize {
        self.rows().div_ceil(epilogue.whole(BLOCK / PARTIAL_SUMS))
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width <= BLOCK / PARTIAL_SUMS
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let DevicePattern { block, offsets, columns, .. } = &self.pattern;
        let (rows, br, bc) = (self.rows() as i64, block.rows as i32, block.cols as i32);
        let (offsets, columns, values) = (offsets.view(), columns.view(), self.values.view());
        let (storage, vector) = (self.precisions.storage as i32, self.precisions.vector as i32);
        let blocks = self.blocks(epilogue);
        self.gpu.launch_blocks(
            self.kernel,
            blocks,
            &[&rows, &br, &bc, &offsets, &columns, &storage, &values, &vector, &x, epilogue],
        )
    }

    fn bytes(&self) -> usize {
        self.pattern.offsets.owned_bytes() + self.pattern.columns.owned_bytes() + self.values.owned_bytes()
    }

    fn format(&self) -> String {
        self.pattern.block.format()
    }
}
