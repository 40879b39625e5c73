//! CSR or BSR with sums in the 16-bit format of the result, rounded after each term: what `precision.accumulate` `storage` asks for.

use super::product::{Finish, Product};
use super::runtime::{BLOCK, Kernel, tag};
use super::setup::DeviceCsr;
use super::{Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};

/// Lanes of a row, as in `kernels/rounded.cu`.
const PARTIAL_SUMS: usize = 8;

/// A matrix of scalars or blocks.
pub(super) struct Rounded<S> {
    gpu: Gpu,
    kernel: Kernel,
    matrix: DeviceCsr<S>,
}

impl<S: Number> Rounded<S> {
    pub fn new(gpu: &Gpu, matrix: DeviceCsr<S>) -> Result<Rounded<S>> {
        Ok(Rounded { gpu: gpu.clone(), kernel: gpu.kernel("rounded_sums")?, matrix })
    }
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Rounded<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.matrix.scalar_rows(), self.matrix.cols * self.matrix.block.cols)
    }

    fn blocks(&self, finish: &Finish<'_>) -> usize {
        self.matrix.scalar_rows().div_ceil(finish.whole(BLOCK / PARTIAL_SUMS))
    }

    fn fuses(&self, width: usize) -> bool {
        width <= BLOCK / PARTIAL_SUMS
    }

    fn run(&self, x: &Slice<X>, finish: &Finish<'_>) -> Result<()> {
        let DeviceCsr { block, offsets, columns, values, .. } = &self.matrix;
        let (rows, br, bc) = (self.matrix.scalar_rows() as i64, block.rows as i32, block.cols as i32);
        let (offsets, columns, values) = (offsets.view(), columns.view(), values.view());
        let (storage, vector, x) = (tag::<S>(), tag::<X>(), x.view());
        let blocks = <Self as Product<X, Y>>::blocks(self, finish);
        self.gpu.launch_blocks(
            self.kernel,
            blocks,
            &[&rows, &br, &bc, &offsets, &columns, &storage, &values, &vector, &x, finish],
        )
    }

    fn bytes(&self) -> usize {
        self.matrix.bytes()
    }

    fn format(&self) -> String {
        self.matrix.block.format()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
