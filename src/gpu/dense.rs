//! A dense matrix: 32 lanes for each row. The inverse of the coarsest level.

use super::product::{Finish, Product};
use super::runtime::{BLOCK, Kernel};
use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};

/// Lanes of a row, as in `kernels/dense.cu`.
const LANES: usize = 32;

/// A matrix of `n` rows and columns, row by row.
pub(super) struct Dense<S> {
    gpu: Gpu,
    kernel: Kernel,
    n: usize,
    values: Buffer<S>,
}

impl<S: Number> Dense<S> {
    /// For vectors of precision `V`.
    pub fn of<V: Number>(gpu: &Gpu, n: usize, values: Buffer<S>) -> Result<Dense<S>> {
        assert_eq!(values.len(), n * n);
        let kernel = gpu.kernel(&format!("dense_{}_{}", S::PRECISION.name(), V::PRECISION.name()))?;
        Ok(Dense { gpu: gpu.clone(), kernel, n, values })
    }
}

impl<S: Number, V: Number> Product<V, V> for Dense<S> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.n, self.n)
    }

    fn blocks(&self, _: &Finish<'_>) -> usize {
        (LANES * self.n).div_ceil(BLOCK)
    }

    fn run(&self, x: &Slice<V>, finish: &Finish<'_>) -> Result<()> {
        let (n, values) = (self.n as i64, self.values.view());
        let blocks = <Self as Product<V, V>>::blocks(self, finish);
        self.gpu.launch_blocks(self.kernel, blocks, &[&n, &values, &x.view(), finish])
    }

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<S>()
    }

    fn format(&self) -> String {
        "dense".to_string()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
