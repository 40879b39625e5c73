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

/// Matrices. The count of one may use what those before it have counted. Waits for the device once.
pub(super) fn count_and_write<T: Scalar, const N: usize>(
    gpu: &Gpu,
    all: [TwoPassKernel<'_>; N],
) -> Result<[DeviceCsr<T>; N]> {
    let (totals, none) = (gpu.zeroed::<i64>(N)?, View::NONE);
    let count = |(k, ((rows, _), run)): (usize, &TwoPassKernel<'_>)| {
        let counts = gpu.allocate::<i32>(*rows)?;
        run([none, none, none, counts.view()])?;
        gpu.offsets_with(&counts, totals.subslice(k, 1))
    };
    let offsets: Vec<Buffer<i64>> = all.iter().enumerate().map(count).collect::<Result<_>>()?;
    let totals = gpu.fetch(&totals)?;
    let write = |(k, offsets): (usize, Buffer<i64>)| {
        let (((rows, cols), run), total) = (all[k], totals[k] as usize);
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
        let offsets = Arc::new(offsets);
        run([offsets.view(), columns.view(), values.view(), none])?;
        let (columns, values) = (Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
    };
    let written: Vec<DeviceCsr<T>> = offsets.into_iter().enumerate().map(write).collect::<Result<_>>()?;
    Ok(written.try_into().ok().expect("a matrix for each kernel"))
}
