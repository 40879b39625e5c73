//! Rows of an interpolation after truncation. The work is in `kernels/truncate.h`.

use super::DeviceCsr;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// What becomes of a row, as in `kernels/truncate.h`.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    /// Written where there is room for as many entries as it may have, and counted.
    Short = 0,
    /// Counted.
    Count = 1,
    /// Written where the counts say.
    Write = 2,
    /// Weights of given columns.
    Pattern = 3,
}

/// Entries that a short row may have.
pub(super) const MOST: usize = 16;

/// Puts rows together that were written where there is room for `most` entries each.
pub(super) fn gather<T: Scalar>(
    gpu: &Gpu,
    (rows, cols): (usize, usize),
    most: usize,
    (columns, values): (Buffer<i32>, Buffer<T>),
    counts: &Slice<i32>,
) -> Result<DeviceCsr<T>> {
    let (offsets, total) = gpu.offsets(counts)?;
    let (to_columns, to_values) = (gpu.room::<i32>(total)?, gpu.room::<T>(total)?);
    let kernel = gpu.kernel(&format!("extended_i_gather_{}", T::PRECISION.name()))?;
    let (from, to) = ([columns.view(), values.view(), offsets.view()], [to_columns.view(), to_values.view()]);
    let arguments: [&dyn crate::gpu::Argument; 7] =
        [&(rows as i64), &(most as i32), &from[0], &from[1], &from[2], &to[0], &to[1]];
    gpu.launch(kernel, rows * most, &arguments)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(to_columns), Arc::new(to_values));
    Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
}
