//! Building a matrix row by row in parallel when the length of a row is known only after it was computed.

use super::par;
use crate::error::{Result, fail, try_capacity, try_vec};
use std::ops::Range;

/// Rows that one task has finished.
pub struct RowBuilder<T> {
    counts: Vec<i64>,
    /// Columns of the current and earlier rows.
    pub columns: Vec<i32>,
    /// Values of the current and earlier rows.
    pub values: Vec<T>,
}

impl<T> RowBuilder<T> {
    /// Makes room for `n` more columns with `width` values each.
    pub fn reserve(&mut self, n: usize, width: usize) -> Result<()> {
        if self.columns.try_reserve(n).is_err() || self.values.try_reserve(n * width).is_err() {
            return fail!(OutOfMemory, "room for {n} more entries could not be allocated");
        }
        Ok(())
    }

    /// Ends the current row, which has everything pushed since `start`.
    pub fn end_row(&mut self, start: usize) {
        self.counts.push((self.columns.len() - start) as i64);
    }
}

/// Offsets, columns and values (`width` for each column) of rows `0..rows`. For each piece of rows, `work` gets the range and a builder, in
/// which it ends every row of the range. Pieces are few, because `work` may need scratch space as large as the matrix.
pub fn build<T: Clone + Default + Send + Sync>(
    rows: usize,
    width: usize,
    work: impl Fn(Range<usize>, &mut RowBuilder<T>) -> Result<()> + Sync,
) -> Result<(Vec<i64>, Vec<i32>, Vec<T>)> {
    let pieces = par::map_ranges(rows, grain(rows), |range| {
        let mut builder = RowBuilder { counts: try_capacity(range.len())?, columns: Vec::new(), values: Vec::new() };
        work(range, &mut builder)?;
        Ok(builder)
    });
    let pieces = pieces.into_iter().collect::<Result<Vec<_>>>()?;
    let mut counts = try_capacity(rows + 1)?;
    for piece in &pieces {
        counts.extend_from_slice(&piece.counts);
    }
    let starts = par::offsets_from_counts(pieces.iter().map(|p| p.columns.len() as i64).collect());
    let total = starts[pieces.len()] as usize;
    let mut columns = try_vec(total, 0)?;
    let mut values = try_vec(total * width, T::default())?;
    par::for_each_segment_mut2(&mut columns, (&mut values, width), &starts, 1, |range, columns, values| {
        let piece = &pieces[range.start];
        columns.copy_from_slice(&piece.columns);
        values.clone_from_slice(&piece.values);
    });
    Ok((par::offsets_from_counts(counts), columns, values))
}

/// Rows per task: at most 64 tasks, each with at least 1024 rows.
pub fn grain(rows: usize) -> usize {
    rows.div_ceil(64).max(par::ROW_GRAIN)
}

/// Scratch space of zeros. The pages that are never touched cost nothing, which is what makes a scratch as long as the
/// matrix affordable for each task.
pub fn scratch(n: usize) -> Result<Vec<u32>> {
    try_vec(n, 0)
}
