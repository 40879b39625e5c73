//! The rows of one rank on the host, and the numbers of their columns in the whole matrix.

use super::upload::{Upload, fetch, offsets_and_columns};
use crate::boundary::{Result, fail};
use crate::division::Division;
use crate::native::zeros;
use std::borrow::Cow;
use terrace::capi::{terrace_context, terrace_type};

/// The rows of one rank.
pub struct Rows {
    /// Rows of a block.
    pub block: usize,
    pub offsets: Vec<i32>,
    /// Columns in the caller's numbering.
    pub columns: Vec<i32>,
    /// Columns in the whole matrix, numbered by rank, where these are others.
    pub whole: Option<Vec<i32>>,
    pub values: Vec<f64>,
    /// The diagonal blocks, if they are not among the others.
    pub diagonal: Option<Vec<f64>>,
}

/// Rows as Terrace gets them: the diagonal at the end of each, where it was given by itself. Terrace sorts.
pub struct Stored<'a> {
    pub offsets: Cow<'a, [i32]>,
    pub columns: Cow<'a, [i32]>,
    pub values: Cow<'a, [f64]>,
}

impl Rows {
    /// Arrays of the caller.
    ///
    /// # Safety
    /// Arrays of the lengths that the numbers say, in either memory.
    pub unsafe fn fetch(upload: &Upload, state: &terrace_context, format: terrace_type) -> Result<Rows> {
        let size = upload.block * upload.block;
        // SAFETY: by this function's contract.
        unsafe {
            let (offsets, columns) = offsets_and_columns(upload, state)?;
            let values = fetch(state, format, upload.values, upload.entries * size, "data")?;
            let diagonal = match upload.diagonal.is_null() {
                true => None,
                false => Some(fetch(state, format, upload.diagonal, upload.rows * size, "diag_data")?),
            };
            Ok(Rows { block: upload.block, offsets, columns, whole: None, values, diagonal })
        }
    }

    /// Block rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Numbers columns that are those of the whole matrix in the caller's numbering.
    pub fn numbered_by(mut self, division: &Division, rank: usize) -> Result<Rows> {
        let total = division.total();
        let inside = |column: &i32| usize::try_from(*column).is_ok_and(|column| column < total);
        if let Some(k) = self.columns.iter().position(|column| !inside(column)) {
            let row = division.starts[rank] + self.row_of(k);
            return fail!(
                BadParameters,
                "row {row} has column {}; accepted: 0 to {}",
                self.columns[k],
                total as i64 - 1
            );
        }
        if division.numbers.is_some() {
            let mut whole = zeros(self.columns.len())?;
            for (number, column) in whole.iter_mut().zip(&self.columns) {
                *number = division.number(*column as usize) as i32;
            }
            self.whole = Some(whole);
        }
        self.checked(division.starts[rank])
    }

    /// Numbers columns that are first those of this rank and then those of the halo, with these numbers.
    pub fn numbered_with(mut self, halo: &[i32], first: usize) -> Result<Rows> {
        let (rows, mut whole) = (self.rows(), zeros(self.columns.len())?);
        for (k, (number, column)) in whole.iter_mut().zip(&self.columns).enumerate() {
            let local = usize::try_from(*column).unwrap_or(usize::MAX);
            let of_halo = || halo.get(local.wrapping_sub(rows)).copied();
            *number = match if local < rows { Some((first + local) as i32) } else { of_halo() } {
                Some(number) => number,
                None => {
                    let (row, most) = (self.row_of(k), (rows + halo.len()) as i64 - 1);
                    return fail!(
                        BadParameters,
                        "row {row} of this rank has column {column}; accepted: 0 to {most}, {rows} own ones and {} of \
                         the maps",
                        halo.len()
                    );
                }
            };
        }
        self.whole = Some(whole);
        self.checked(first)
    }

    /// The row of an entry.
    fn row_of(&self, entry: usize) -> usize {
        self.offsets.partition_point(|offset| *offset as usize <= entry) - 1
    }

    /// Refuses a diagonal that is there twice.
    fn checked(self, first: usize) -> Result<Rows> {
        if self.diagonal.is_some() {
            for row in 0..self.rows() {
                let range = self.offsets[row] as usize..self.offsets[row + 1] as usize;
                if self.in_whole()[range].contains(&((first + row) as i32)) {
                    return fail!(BadParameters, "row {row} has a diagonal entry in col_indices and one in diag_data");
                }
            }
        }
        Ok(self)
    }

    /// Columns in the whole matrix.
    pub fn in_whole(&self) -> &[i32] {
        self.whole.as_ref().unwrap_or(&self.columns)
    }

    /// As Terrace gets them, from this number on.
    pub fn stored(&self, first: usize) -> Result<Stored<'_>> {
        let Some(diagonal) = &self.diagonal else {
            return Ok(Stored {
                offsets: Cow::from(&self.offsets),
                columns: Cow::from(self.in_whole()),
                values: Cow::from(&self.values),
            });
        };
        let (rows, size, whole) = (self.rows(), self.block * self.block, self.in_whole());
        let blocks = whole.len() + rows;
        if i32::try_from(blocks).is_err() {
            return fail!(BadParameters, "{blocks} blocks with the diagonal are more than 2147483647");
        }
        let (mut offsets, mut columns) = (zeros::<i32>(rows + 1)?, zeros::<i32>(blocks)?);
        let mut values = zeros::<f64>(blocks * size)?;
        for row in 0..rows {
            let (from, to) = (self.offsets[row] as usize..self.offsets[row + 1] as usize, offsets[row] as usize);
            let end = to + from.len();
            columns[to..end].copy_from_slice(&whole[from.clone()]);
            columns[end] = (first + row) as i32;
            values[to * size..end * size].copy_from_slice(&self.values[from.start * size..from.end * size]);
            values[end * size..][..size].copy_from_slice(&diagonal[row * size..][..size]);
            offsets[row + 1] = end as i32 + 1;
        }
        Ok(Stored { offsets: Cow::from(offsets), columns: Cow::from(columns), values: Cow::from(values) })
    }
}
