//! CSR: a group of lanes for each row. For rows that differ much in length, and for matrices of few rows.

use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::setup::DeviceCsr;
use super::{Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;

/// Numbers of lanes of a group.
const LANES: [usize; 5] = [2, 4, 8, 16, 32];

/// Threads that fill a GPU.
const ENOUGH: usize = 1 << 18;

/// A matrix of scalars.
pub(super) struct Csr<S> {
    gpu: Gpu,
    kernel: Kernel,
    lanes: usize,
    matrix: DeviceCsr<S>,
}

impl<S: Number> Csr<S> {
    /// For vectors of precisions `X` and `Y`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, matrix: DeviceCsr<S>) -> Result<Csr<S>> {
        assert_eq!(matrix.block, Block::SCALAR);
        let lanes = lanes(matrix.nnz(), matrix.rows);
        let kernel = gpu.kernel(&format!("csr_{}", names::<S, X, Y>()))?;
        Ok(Csr { gpu: gpu.clone(), kernel, lanes, matrix })
    }
}

/// Bytes of a scalar matrix with values of this format.
pub(super) fn bytes(rows: usize, entries: usize, storage: Precision) -> usize {
    (rows + 1) * size_of::<i64>() + entries * (size_of::<i32>() + storage.bytes())
}

/// Lanes for rows of average length: each lane has about four entries, whose loads are under way together, or fewer where that many threads do
/// not fill a GPU.
fn lanes(entries: usize, rows: usize) -> usize {
    let length = entries.div_ceil(rows.max(1));
    let enough = |lanes: &usize| 4 * lanes >= length && rows * lanes >= ENOUGH;
    LANES.into_iter().find(enough).unwrap_or_else(|| LANES.into_iter().find(|lanes| *lanes >= length).unwrap_or(32))
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Csr<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.matrix.rows, self.matrix.cols)
    }

    fn threads(&self) -> usize {
        self.matrix.rows * self.lanes
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let (rows, lanes) = (self.matrix.rows as i64, self.lanes as i32);
        let [offsets, columns, values] =
            [self.matrix.offsets.view(), self.matrix.columns.view(), self.matrix.values.view()];
        let threads = <Self as Product<X, Y>>::threads(self);
        self.gpu.launch(self.kernel, threads, &[&rows, &lanes, &offsets, &columns, &values, &x.view(), finish])
    }

    fn bytes(&self) -> usize {
        self.matrix.bytes()
    }

    fn format(&self) -> String {
        "csr".to_string()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
