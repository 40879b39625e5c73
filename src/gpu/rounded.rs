//! CSR or BSR with sums in the 16-bit format of the result, rounded after each term: what `precision.accumulate` `storage` asks for.

use super::csr::Arrays;
use super::product::{Finish, Product};
use super::runtime::{Kernel, tag};
use super::{Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};

/// Lanes of a row, as in `kernels/rounded.cu`.
const PARTIAL_SUMS: usize = 8;

/// A matrix of scalars or blocks.
pub(super) struct Rounded<S> {
    gpu: Gpu,
    kernel: Kernel,
    block: Block,
    /// Scalar rows and columns.
    shape: (usize, usize),
    arrays: Arrays<S>,
}

impl<S: Number> Rounded<S> {
    pub fn new(gpu: &Gpu, a: &CsrView<'_, S>) -> Result<Rounded<S>> {
        Ok(Rounded {
            gpu: gpu.clone(),
            kernel: gpu.runtime().kernel("rounded_sums")?,
            block: a.block,
            shape: (a.scalar_rows(), a.scalar_cols()),
            arrays: Arrays::new(gpu, a)?,
        })
    }
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Rounded<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn threads(&self) -> usize {
        self.shape.0 * PARTIAL_SUMS
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let Arrays { offsets, columns, values } = &self.arrays;
        let (rows, br, bc) = (self.shape.0 as i64, self.block.rows as i32, self.block.cols as i32);
        let (offsets, columns, values) = (offsets.view(), columns.view(), values.view());
        let (storage, vector, x) = (tag::<S>(), tag::<X>(), x.view());
        let threads = <Self as Product<X, Y>>::threads(self);
        self.gpu.launch(
            self.kernel,
            threads,
            &[&rows, &br, &bc, &offsets, &columns, &storage, &values, &vector, &x, finish],
        )
    }

    fn bytes(&self) -> usize {
        self.arrays.bytes()
    }

    fn format(&self) -> String {
        self.block.format()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
