//! Building a matrix row by row in parallel when the length of a row is known only after it was computed.

use super::prefetch::prefetch;
use crate::error::{Result, try_capacity, try_push, try_reserve, try_vec};
use crate::huge_pages::Plain;
use crate::par;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Rows that one task has finished.
pub struct RowBuilder<T> {
    /// Where each finished row ends, after a leading 0.
    offsets: Vec<i64>,
    /// Columns of the current and earlier rows.
    pub columns: Vec<i32>,
    /// Values of the current and earlier rows.
    pub values: Vec<T>,
}

impl<T> RowBuilder<T> {
    /// Makes room for `n` more columns with `width` values each.
    pub fn reserve(&mut self, n: usize, width: usize) -> Result<()> {
        try_reserve(&mut self.columns, n)?;
        try_reserve(&mut self.values, n * width)
    }

    /// Appends an entry of a matrix with scalar values.
    #[inline(always)]
    pub fn push(&mut self, column: i32, value: T) -> Result<()> {
        try_push(&mut self.columns, column)?;
        try_push(&mut self.values, value)
    }

    /// Appends entries of a matrix with scalar values.
    pub fn extend(&mut self, entries: &[(i32, T)]) -> Result<()>
    where
        T: Copy,
    {
        self.reserve(entries.len(), 1)?;
        self.columns.extend(entries.iter().map(|entry| entry.0));
        self.values.extend(entries.iter().map(|entry| entry.1));
        Ok(())
    }

    /// Ends the current row, which has everything pushed since the end of the row before it.
    pub fn end_row(&mut self) {
        self.offsets.push(self.columns.len() as i64);
    }
}

/// A matrix in the pieces in which it was built: cheaper than one array for each of its parts, where it is read only once.
pub struct Pieces<T> {
    pieces: Vec<RowBuilder<T>>,
    /// Rows of a piece are this power of two.
    shift: u32,
    width: usize,
}

impl<T> Pieces<T> {
    /// Columns and values of row `i`, `width` for each column.
    #[inline(always)]
    pub fn row(&self, i: usize, width: usize) -> (&[i32], &[T]) {
        let piece = &self.pieces[i >> self.shift];
        let local = i & ((1 << self.shift) - 1);
        let ends = &piece.offsets[local..local + 2];
        let (begin, end) = (ends[0] as usize, ends[1] as usize);
        (&piece.columns[begin..end], &piece.values[begin * width..end * width])
    }

    /// Asks for row `i`, which will be read soon.
    #[inline(always)]
    pub fn prefetch(&self, i: usize) {
        let piece = &self.pieces[i >> self.shift];
        let begin = piece.offsets[i & ((1 << self.shift) - 1)] as usize;
        prefetch(&piece.columns, begin);
        prefetch(&piece.values, begin * self.width);
        prefetch(&piece.values, begin * self.width + 7);
    }

    /// Row offsets of the whole, and where each piece starts.
    fn offsets(&self) -> Result<(Vec<i64>, Vec<i64>)> {
        let starts = par::offsets(self.pieces.len(), |piece| self.pieces[piece].columns.len())?;
        let rows: usize = self.pieces.iter().map(|p| p.offsets.len() - 1).sum();
        let mut offsets = try_capacity(rows + 1)?;
        offsets.push(0);
        for (piece, start) in self.pieces.iter().zip(&starts) {
            offsets.extend(piece.offsets[1..].iter().map(|o| start + o));
        }
        Ok((offsets, starts))
    }

    /// Changes the columns of each piece.
    pub fn for_each_columns(&mut self, change: impl Fn(&mut [i32]) + Sync)
    where
        T: Send,
    {
        par::for_each_mut(&mut self.pieces, 1, |_, pieces| pieces.iter_mut().for_each(|p| change(&mut p.columns)));
    }

    /// Entries of the longest row.
    pub fn longest(&self) -> usize {
        let lengths = self.pieces.iter().flat_map(|p| p.offsets.windows(2).map(|o| o[1] - o[0]));
        lengths.max().unwrap_or(0) as usize
    }
}

/// Rows `0..rows` with `width` values for each column. For each piece of rows, `work` gets the range and a builder, in which it ends every
/// row of the range. Pieces are few, because `work` may need scratch space as large as the matrix.
pub fn pieces<T: Send>(
    rows: usize,
    width: usize,
    work: impl Fn(Range<usize>, &mut RowBuilder<T>) -> Result<()> + Sync,
) -> Result<Pieces<T>> {
    pieces_by(rows, width, &work)
}

/// Appends the rows of a range.
type AppendRows<'a, T> = dyn Fn(Range<usize>, &mut RowBuilder<T>) -> Result<()> + Sync + 'a;

/// [`pieces`], compiled once for each type of values.
fn pieces_by<T: Send>(rows: usize, width: usize, work: &AppendRows<'_, T>) -> Result<Pieces<T>> {
    let grain = grain(rows);
    let pieces = par::map_ranges(rows, grain, |range| {
        let mut builder =
            RowBuilder { offsets: try_capacity(range.len() + 1)?, columns: Vec::new(), values: Vec::new() };
        builder.offsets.push(0);
        work(range, &mut builder)?;
        Ok(builder)
    })?;
    Ok(Pieces { pieces, shift: grain.trailing_zeros(), width })
}

/// Offsets, columns and values (`width` for each column) of rows `0..rows`, made by `work` as in [`pieces`].
pub fn build<T: Plain + Default + Send + Sync>(
    rows: usize,
    width: usize,
    work: impl Fn(Range<usize>, &mut RowBuilder<T>) -> Result<()> + Sync,
) -> Result<(Vec<i64>, Vec<i32>, Vec<T>)> {
    joined(&pieces_by(rows, width, &work)?)
}

/// All pieces as one.
fn joined<T: Plain + Default + Send + Sync>(pieces: &Pieces<T>) -> Result<(Vec<i64>, Vec<i32>, Vec<T>)> {
    let (width, (offsets, starts)) = (pieces.width, pieces.offsets()?);
    let total = starts[pieces.pieces.len()] as usize;
    let mut columns = try_vec(total, 0)?;
    let mut values = try_vec(total * width, T::default())?;
    par::for_each_segment_mut2(&mut columns, (&mut values, width), &starts, 1, |range, columns, values| {
        let piece = &pieces.pieces[range.start];
        columns.copy_from_slice(&piece.columns);
        values.clone_from_slice(&piece.values);
    });
    Ok((offsets, columns, values))
}

/// Rows per task, a power of two: at most 128 tasks, each with at least 16 rows. Coarse matrices of blocks have few rows, each with much to do.
pub fn grain(rows: usize) -> usize {
    rows.div_ceil(128).next_power_of_two().max(16)
}

/// A pool of position arrays of sparse accumulators: as many as there are threads, instead of one for each piece.
pub struct PositionArrays {
    free: Mutex<Vec<PositionArray>>,
    length: usize,
}

/// The position of each column in a sparse accumulator, and the largest number in the array. A user that writes only
/// larger numbers need not clear it.
pub struct PositionArray {
    /// The array.
    pub at: Vec<u32>,
    /// Its largest number.
    pub largest: usize,
}

impl PositionArrays {
    /// Arrays of `length` elements.
    pub fn new(length: usize) -> PositionArrays {
        PositionArrays { free: Mutex::new(Vec::new()), length }
    }

    /// Runs `work` with an array whose numbers are in the lower half of the range.
    pub fn with<R>(&self, work: impl FnOnce(&mut PositionArray) -> Result<R>) -> Result<R> {
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lock().pop();
        let mut array = match free {
            Some(array) => array,
            None => PositionArray { at: scratch(self.length)?, largest: 0 },
        };
        if array.largest > u32::MAX as usize / 2 {
            array.at.fill(0);
            array.largest = 0;
        }
        let result = work(&mut array);
        // Work that failed in the middle of a row has left its numbers there.
        if result.is_ok() {
            lock().push(array);
        }
        result
    }
}

/// Scratch space of zeros. The pages that are never touched cost nothing, which is what makes a scratch as long as the
/// matrix affordable for each task.
pub fn scratch(n: usize) -> Result<Vec<u32>> {
    try_vec(n, 0)
}
