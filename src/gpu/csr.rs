//! CSR: a group of lanes for each row. For rows that differ much in length, and for matrices of few rows.

use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::{Buffer, Gpu, Slice};
use crate::error::{Result, try_capacity};
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};

/// Numbers of lanes of a group.
const LANES: [usize; 5] = [2, 4, 8, 16, 32];

/// Threads that fill a GPU.
const ENOUGH: usize = 1 << 18;

/// Pattern and values of a matrix in device memory, with 64-bit offsets and base 0.
pub(super) struct Arrays<S> {
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
    pub values: Buffer<S>,
}

impl<S: Number> Arrays<S> {
    pub fn new(gpu: &Gpu, a: &CsrView<'_, S>) -> Result<Arrays<S>> {
        let mut offsets: Vec<i64> = try_capacity(a.rows + 1)?;
        offsets.extend((0..=a.rows).map(|i| a.offsets.raw(i) - i64::from(a.base)));
        let columns = if a.base == 0 {
            gpu.upload(a.columns)?
        } else {
            let mut columns: Vec<i32> = try_capacity(a.columns.len())?;
            columns.extend(a.columns.iter().map(|c| c - a.base));
            gpu.upload(&columns)?
        };
        Ok(Arrays { offsets: gpu.upload(&offsets)?, columns, values: gpu.upload(a.values)? })
    }

    pub fn bytes(&self) -> usize {
        self.offsets.len() * size_of::<i64>()
            + self.columns.len() * size_of::<i32>()
            + self.values.len() * size_of::<S>()
    }
}

/// A matrix of scalars.
pub(super) struct Csr<S> {
    gpu: Gpu,
    kernel: Kernel,
    lanes: usize,
    shape: (usize, usize),
    arrays: Arrays<S>,
}

impl<S: Number> Csr<S> {
    /// For vectors of precisions `X` and `Y`.
    pub fn new<X: Number, Y: Number>(gpu: &Gpu, a: &CsrView<'_, S>) -> Result<Csr<S>> {
        assert_eq!(a.block, Block::SCALAR);
        let lanes = lanes(a.nnz(), a.rows);
        let kernel = gpu.runtime().kernel(&format!("csr_{}", names::<S, X, Y>()))?;
        Ok(Csr { gpu: gpu.clone(), kernel, lanes, shape: (a.rows, a.cols), arrays: Arrays::new(gpu, a)? })
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
        self.shape
    }

    fn threads(&self) -> usize {
        self.shape.0 * self.lanes
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let (rows, lanes) = (self.shape.0 as i64, self.lanes as i32);
        let [offsets, columns, values] =
            [self.arrays.offsets.view(), self.arrays.columns.view(), self.arrays.values.view()];
        let threads = <Self as Product<X, Y>>::threads(self);
        self.gpu.launch(self.kernel, threads, &[&rows, &lanes, &offsets, &columns, &values, &x.view(), finish])
    }

    fn bytes(&self) -> usize {
        self.arrays.bytes()
    }

    fn format(&self) -> String {
        "csr".to_string()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
