//! A dense matrix: 32 lanes for each row. The inverse of the coarsest level.

use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{BLOCK, Kernel, View};
use super::{Buffer, Gpu, multivector};
use crate::error::Result;
use crate::scalar::Number;

/// Lanes of a row, as in `kernels/dense.cu`.
const LANES: usize = 32;

/// A matrix of `n` rows and columns, row by row.
pub(super) struct Dense {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    n: usize,
    values: Values,
}

impl Dense {
    /// For values of precision `S` and vectors of precision `V`.
    pub fn of<S: Number, V: Number>(gpu: &Gpu, n: usize, values: Buffer<S>) -> Result<Dense> {
        assert_eq!(values.len(), n * n);
        let kernel = gpu.kernel(&format!("dense_{}_{}", S::PRECISION.name(), V::PRECISION.name()))?;
        Ok(Dense { gpu: gpu.clone(), precisions: Precisions::of::<S, V, V>(), kernel, n, values: values.into() })
    }
}

impl Product for Dense {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.n, self.n)
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        (LANES * self.n).div_ceil(BLOCK)
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (n, values) = (self.n as i64, self.values.view());
        let blocks = self.blocks(epilogue);
        self.gpu.launch_blocks(self.kernel, blocks, &[&n, &values, &x, epilogue])
    }

    fn multivector_kernel(&self) -> Option<&str> {
        Some("dense")
    }

    fn multivector_blocks(&self, _: usize) -> usize {
        multivector::blocks_for(multivector::LANES * self.n)
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (n, shift, values) = (self.n as i64, k.ilog2() as i32, self.values.view());
        self.gpu.launch_blocks(kernel, self.multivector_blocks(k), &[&n, &shift, &values, &x, epilogue])
    }

    fn bytes(&self) -> usize {
        self.values.owned_bytes()
    }

    fn format(&self) -> String {
        "dense".to_string()
    }
}
