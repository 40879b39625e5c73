//! A diagonal that is given beside the other entries: where its blocks, and theirs, are in the rows that Terrace gets.

use crate::boundary::{Result, fail};
use crate::native::zeros;

/// Places of the caller's blocks among those of the matrix.
pub struct Merge {
    /// Of each block of the caller.
    pub entries: Vec<usize>,
    /// Of the diagonal block of each row.
    pub diagonal: Vec<usize>,
    /// The caller's offsets.
    offsets: Vec<i32>,
}

impl Merge {
    /// The places, and offsets and columns with the diagonal in its place among ascending columns.
    pub fn new(offsets: &[i32], columns: &[i32]) -> Result<(Merge, Vec<i32>, Vec<i32>)> {
        let rows = offsets.len() - 1;
        let (mut entries, mut diagonal) = (zeros(columns.len())?, zeros(rows)?);
        let (mut new_offsets, mut new_columns) = (zeros::<i32>(rows + 1)?, zeros::<i32>(columns.len() + rows)?);
        if i32::try_from(new_columns.len()).is_err() {
            return fail!(BadParameters, "{} blocks with the diagonal are more than 2147483647", new_columns.len());
        }
        let mut at = 0;
        for row in 0..rows {
            let (start, end) = (offsets[row], offsets[row + 1]);
            if start < 0 || end < start || end as usize > columns.len() {
                return fail!(BadParameters, "row_ptrs decrease at row {row}: from {start} to {end}");
            }
            let mut is_placed = false;
            for k in start as usize..end as usize {
                if columns[k] == row as i32 {
                    return fail!(BadParameters, "row {row} has a diagonal entry in col_indices and one in diag_data");
                }
                if columns[k] > row as i32 && !is_placed {
                    (diagonal[row], new_columns[at]) = (at, row as i32);
                    (is_placed, at) = (true, at + 1);
                }
                (entries[k], new_columns[at]) = (at, columns[k]);
                at += 1;
            }
            if !is_placed {
                (diagonal[row], new_columns[at]) = (at, row as i32);
                at += 1;
            }
            new_offsets[row + 1] = at as i32;
        }
        let mut kept = zeros(rows + 1)?;
        kept.copy_from_slice(offsets);
        Ok((Merge { entries, diagonal, offsets: kept }, new_offsets, new_columns))
    }

    /// Puts blocks of `size` values in their places.
    pub fn put(&self, values: &mut [f64], places: &[usize], blocks: &[f64], size: usize) {
        for (place, block) in places.iter().zip(blocks.chunks_exact(size)) {
            values[place * size..][..size].copy_from_slice(block);
        }
    }

    /// The caller's offsets.
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// The caller's blocks of `size` elements.
    pub fn pick<T: Copy + Default>(&self, all: &[T], size: usize) -> Result<Vec<T>> {
        take(all, &self.entries, size)
    }

    /// The blocks of the diagonal.
    pub fn pick_diagonal(&self, all: &[f64], size: usize) -> Result<Vec<f64>> {
        take(all, &self.diagonal, size)
    }
}

fn take<T: Copy + Default>(all: &[T], places: &[usize], size: usize) -> Result<Vec<T>> {
    let mut some = zeros(places.len() * size)?;
    for (block, place) in some.chunks_exact_mut(size).zip(places) {
        block.copy_from_slice(&all[place * size..][..size]);
    }
    Ok(some)
}
