//! BSR: 32 lanes for each row of blocks.

use super::csr::Arrays;
use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::{Gpu, Slice};
use crate::error::{Result, fail};
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};

/// Lanes of a row of blocks; a block must not have more rows.
const GROUP: usize = 32;

/// A matrix of blocks.
pub(super) struct Bsr<S> {
    gpu: Gpu,
    kernel: Kernel,
    block: Block,
    /// Rows and columns of blocks.
    shape: (usize, usize),
    arrays: Arrays<S>,
}

impl<S: Number> Bsr<S> {
    /// For vectors of precisions `X` and `Y`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &CsrView<'_, S>) -> Result<Bsr<S>> {
        if a.block.rows > GROUP {
            return fail!(
                Unsupported,
                "blocks of {} rows are too large for GPUs; accepted: up to {GROUP}",
                a.block.rows
            );
        }
        let names = names::<S, X, Y>();
        let kernel = gpu.runtime().kernel(&format!("bsr_{names}"))?;
        let arrays = Arrays::new(gpu, a)?;
        Ok(Bsr { gpu: gpu.clone(), kernel, block: a.block, shape: (a.rows, a.cols), arrays })
    }
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Bsr<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.shape.0 * self.block.rows, self.shape.1 * self.block.cols)
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let Arrays { offsets, columns, values } = &self.arrays;
        let rows = self.shape.0;
        self.gpu.launch(
            self.kernel,
            rows * GROUP,
            &[
                &(rows as i64),
                &(self.block.rows as i32),
                &(self.block.cols as i32),
                &offsets.view(),
                &columns.view(),
                &values.view(),
                &x.view(),
                finish,
            ],
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
