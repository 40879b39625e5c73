//! CSR: a group of lanes for each row.

use super::product::{Finish, Product, names};
use super::runtime::Kernel;
use super::{Buffer, Gpu, Slice};
use crate::error::{Result, try_capacity};
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, CsrView};

/// Lanes of a group: those that kernels exist for.
const LANES: [usize; 5] = [2, 4, 8, 16, 32];

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
        let names = names::<S, X, Y>();
        let kernel = gpu.runtime().kernel(&format!("csr_{names}_{lanes}"))?;
        Ok(Csr { gpu: gpu.clone(), kernel, lanes, shape: (a.rows, a.cols), arrays: Arrays::new(gpu, a)? })
    }
}

/// Bytes of a scalar matrix with values of this format.
pub(super) fn bytes(rows: usize, entries: usize, storage: Precision) -> usize {
    (rows + 1) * size_of::<i64>() + entries * (size_of::<i32>() + storage.bytes())
}

/// Lanes for rows of average length: the power of two from half of it on, so that each lane has about two entries.
fn lanes(entries: usize, rows: usize) -> usize {
    let half = entries.div_ceil(2 * rows.max(1));
    LANES.into_iter().find(|lanes| *lanes >= half).unwrap_or(32)
}

impl<S: Number, X: Number, Y: Number> Product<X, Y> for Csr<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn run(&self, x: &Slice<X>, finish: &Finish) -> Result<()> {
        let Arrays { offsets, columns, values } = &self.arrays;
        let rows = self.shape.0;
        self.gpu.launch(
            self.kernel,
            rows * self.lanes,
            &[&(rows as i64), &offsets.view(), &columns.view(), &values.view(), &x.view(), finish],
        )
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
