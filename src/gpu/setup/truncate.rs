//! Rows of an interpolation after truncation. The work is in `kernels/truncate.h`.

use super::{DeviceCsr, DevicePattern};
use crate::backend::parameters::Truncation;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Mode of the kernels, as in `kernels/truncate.h`.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    /// Rows are written at a fixed stride of the most entries a row may have, and counted.
    Short = 0,
    /// Rows are counted.
    Count = 1,
    /// Rows are written at the offsets of the counts.
    Write = 2,
    /// Weights of a known pattern are written.
    Pattern = 3,
}

/// Entries that a short row may have.
pub(super) const MAX_SHORT_ENTRIES: usize = 16;

/// Compacts rows that were written at a stride of `most` entries.
pub(super) fn gather<T: Scalar>(
    gpu: &Gpu,
    (rows, cols): (usize, usize),
    most: usize,
    (columns, values): (Buffer<i32>, Buffer<T>),
    counts: &Slice<i32>,
) -> Result<DeviceCsr<T>> {
    let (offsets, total) = gpu.offsets(counts)?;
    let (to_columns, to_values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
    let kernel = gpu.kernel(&format!("extended_i_gather_{}", T::PRECISION.name()))?;
    let (from, to) = ([columns.view(), values.view(), offsets.view()], [to_columns.view(), to_values.view()]);
    let arguments: [&dyn Argument; 7] = [&(rows as i64), &(most as i32), &from[0], &from[1], &from[2], &to[0], &to[1]];
    gpu.launch(kernel, rows * most, &arguments)?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(to_columns), Arc::new(to_values));
    Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
}

/// Rows with weights that are not truncated yet.
pub(super) struct Rows<'a, T> {
    pub count: usize,
    pub cols: usize,
    pub offsets: &'a Slice<i64>,
    /// Row lengths, if row i begins at its offset plus i; empty if rows are contiguous.
    pub lengths: Option<&'a Slice<i32>>,
    pub columns: &'a Slice<i32>,
    pub values: &'a Slice<T>,
}

impl<'a, T: Scalar> Rows<'a, T> {
    /// Those of a matrix.
    pub fn of(p: &'a DeviceCsr<T>) -> Rows<'a, T> {
        assert_eq!(p.block, Block::SCALAR);
        let (offsets, columns, values) = (&**p.offsets, &**p.columns, &**p.values);
        Rows { count: p.rows, cols: p.cols, offsets, lengths: None, columns, values }
    }

    /// As [`crate::host::truncate::all_rows`]: truncated, or with the columns of `pattern`.
    pub fn truncated(
        &self,
        gpu: &Gpu,
        truncation: Truncation,
        pattern: Option<&DevicePattern>,
    ) -> Result<DeviceCsr<T>> {
        if let Some(p) = pattern {
            let values = gpu.allocate::<T>(p.nnz())?;
            self.run(gpu, truncation, Mode::Pattern, [p.offsets.view(), p.columns.view(), values.view(), View::NONE])?;
            return Ok(p.with(values));
        }
        let counts = gpu.allocate::<i32>(self.count)?;
        let none = View::NONE;
        self.run(gpu, truncation, Mode::Count, [none, none, none, counts.view()])?;
        let (offsets, total) = gpu.offsets(&counts)?;
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
        self.run(gpu, truncation, Mode::Write, [offsets.view(), columns.view(), values.view(), none])?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows: self.count, cols: self.cols, block: Block::SCALAR, offsets, columns, values })
    }

    fn run(&self, gpu: &Gpu, truncation: Truncation, mode: Mode, to: [View; 4]) -> Result<()> {
        let lanes = if self.columns.len() > 16 * self.count { 32 } else { 8 };
        let kernel = gpu.kernel(&format!("truncate_{}_{lanes}", T::PRECISION.name()))?;
        let most = truncation.max_entries.min(i32::MAX as usize) as i32;
        let lengths = self.lengths.map_or(View::NONE, Slice::view);
        let from = [self.offsets.view(), lengths, self.columns.view(), self.values.view()];
        let (rows, mode) = (self.count as i64, mode as i32);
        let mut arguments: Vec<&dyn Argument> = vec![&rows, &mode, &most, &truncation.factor];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        gpu.launch(kernel, self.count * lanes, &arguments)
    }
}
