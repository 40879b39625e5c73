//! Matrices from kernels that run twice: first to count the entries of rows, then to write them.

use super::DeviceCsr;
use crate::error::Result;
use crate::gpu::runtime::View;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// A scalar matrix: rows and columns, and a function that launches the kernel with offsets, columns, values and
/// counts, of which each pass uses some.
pub(super) type TwoPassKernel<'a> = ((usize, usize), &'a dyn Fn([View; 4]) -> Result<()>);

/// Two matrices. The count of the second may use the first. Waits for the device once.
pub(super) fn count_and_write<T: Scalar>(gpu: &Gpu, both: [TwoPassKernel<'_>; 2]) -> Result<[DeviceCsr<T>; 2]> {
    let (totals, none) = (gpu.zeroed::<i64>(2)?, View::NONE);
    let count = |k: usize| {
        let ((rows, _), run) = both[k];
        let counts = gpu.allocate::<i32>(rows)?;
        run([none, none, none, counts.view()])?;
        gpu.offsets_with(&counts, totals.subslice(k, 1))
    };
    let offsets = [count(0)?, count(1)?];
    let totals = gpu.fetch(&totals)?;
    let write = |k: usize, offsets: Buffer<i64>| {
        let (((rows, cols), run), total) = (both[k], totals[k] as usize);
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
        let offsets = Arc::new(offsets);
        run([offsets.view(), columns.view(), values.view(), none])?;
        let (columns, values) = (Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
    };
    let [first, second] = offsets;
    Ok([write(0, first)?, write(1, second)?])
}
