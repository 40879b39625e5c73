//! A matrix over ranks. The host keeps its rows as the caller gave them, for what Terrace does not do over ranks:
//! products outside of a solver, downloads, files, and a diagonal that is replaced alone.

use super::rows::Rows;
use super::upload::{fetch, store};
use super::{Matrix, Uploaded};
use crate::boundary::{Result, fail, required, write};
use crate::division::Division;
use crate::handles::lock;
use crate::io::{InFormat, System};
use crate::mode::bytes;
use crate::native::{self, Arrays, zeros};
use crate::ranks::Ranks;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};
use terrace::capi::{TERRACE_F32, TERRACE_I32, terrace_context, terrace_type};

/// What a matrix over ranks has beside that of Terrace.
pub struct OverRanks {
    pub ranks: Arc<Ranks>,
    pub division: Division,
    rows: Mutex<Rows>,
}

/// Collective: makes the rows of this rank, and those of the others, what the matrix is.
pub fn set(matrix: &Matrix, ranks: &Arc<Ranks>, division: Division, rows: Result<Rows>) -> Result<()> {
    let context = matrix.resources.over_ranks(matrix.mode, ranks)?;
    let (first, own) = (division.starts[ranks.rank], division.rows(ranks.rank));
    let format = matrix.mode.matrix;
    let rows = ranks.agree(rows)?;
    let stored = ranks.agree(rows.stored(first))?;
    let values = ranks.agree(InFormat::new(&stored.values, format == TERRACE_F32))?;
    let arrays = Arrays {
        offsets: stored.offsets.as_ptr(),
        columns: stored.columns.as_ptr().cast(),
        column_type: TERRACE_I32,
        values: values.pointer(),
        value_type: format,
    };
    // SAFETY: arrays of these lengths, as `Rows` has them.
    let native = unsafe { native::Matrix::over_ranks(&context, (division.total(), first, own), rows.block, &arrays) }?;
    drop(values);
    drop(stored);
    let (entries, block) = (rows.columns.len(), rows.block);
    let over = OverRanks { ranks: Arc::clone(ranks), division, rows: Mutex::new(rows) };
    matrix.set(Uploaded { native, rows: own, entries, block, merge: None, over: Some(over) });
    Ok(())
}

impl OverRanks {
    /// The first row of this rank.
    pub fn first(&self) -> usize {
        self.division.starts[self.ranks.rank]
    }

    /// Offsets and columns of the whole matrix, and values, the diagonal among them.
    pub fn arrays(&self) -> Result<(Vec<i32>, Vec<i32>, Vec<f64>)> {
        let rows = lock(&self.rows);
        let stored = rows.stored(self.first())?;
        Ok((stored.offsets.into_owned(), stored.columns.into_owned(), stored.values.into_owned()))
    }

    /// Replaces values, or the diagonal, or both. Not collective.
    ///
    /// # Safety
    /// Null, or arrays of the lengths of the matrix in either memory.
    pub unsafe fn replace(
        &self,
        native: &native::Matrix,
        format: terrace_type,
        data: *const c_void,
        diag_data: *const c_void,
    ) -> Result<()> {
        let (mut rows, state) = (lock(&self.rows), native.context.state());
        if rows.diagonal.is_none() {
            if !diag_data.is_null() {
                return fail!(
                    BadParameters,
                    "diag_data is given, and the matrix was uploaded without a diagonal of its own"
                );
            }
            if !rows.values.is_empty() {
                required(data, "data")?;
            }
        }
        // SAFETY: by this function's contract.
        let (values, diagonal) = unsafe {
            let values = match data.is_null() {
                true => None,
                false => Some(fetch(state, format, data, rows.values.len(), "data")?),
            };
            let diagonal = match &rows.diagonal {
                Some(own) if !diag_data.is_null() => Some(fetch(state, format, diag_data, own.len(), "diag_data")?),
                _ => None,
            };
            (values, diagonal)
        };
        // Nothing is changed before all of it is there.
        if let Some(values) = values {
            rows.values = values;
        }
        if diagonal.is_some() {
            rows.diagonal = diagonal;
        }
        let stored = rows.stored(self.first())?;
        let values = InFormat::new(&stored.values, format == TERRACE_F32)?;
        // SAFETY: as many values as the matrix has.
        unsafe { native.update_values(format, values.pointer(), stored.values.len()) }
    }

    /// Copies to arrays of the caller, in the caller's numbering.
    ///
    /// # Safety
    /// Arrays of the lengths of the matrix in either memory.
    pub unsafe fn download(
        &self,
        state: &terrace_context,
        format: terrace_type,
        (row_ptrs, col_indices): (*mut c_int, *mut c_int),
        (data, diag_data): (*mut c_void, *mut *mut c_void),
    ) -> Result<()> {
        let rows = lock(&self.rows);
        if rows.diagonal.is_some() {
            required(diag_data, "diag_data")?;
        }
        // SAFETY: by this function's contract; the diagonal is freed by the caller.
        unsafe {
            store(state, format, &rows.values, data)?;
            terrace::capi::store(state, &rows.offsets, row_ptrs.cast())?;
            terrace::capi::store(state, &rows.columns, col_indices.cast())?;
            let Some(diagonal) = &rows.diagonal else {
                crate::boundary::write_optional(diag_data, std::ptr::null_mut());
                return Ok(());
            };
            let array = libc::malloc((diagonal.len() * bytes(format)).max(1));
            if array.is_null() {
                return fail!(NoMemory, "the diagonal could not be allocated");
            }
            store(state, format, diagonal, array)?;
            write(diag_data, "diag_data", array)
        }
    }

    /// Collective: A x for the rows of this rank, on the host.
    pub fn product(&self, x: Result<Vec<f64>>) -> Result<Vec<f64>> {
        let x = self.ranks.agree(x)?;
        let (x, _) = self.ranks.gather(&x)?;
        let rows = lock(&self.rows);
        let (block, whole) = (rows.block, rows.in_whole());
        let size = block * block;
        let mut y = zeros::<f64>(rows.rows() * block)?;
        let mut add = |row: usize, column: usize, values: &[f64]| {
            for (i, line) in values.chunks_exact(block).enumerate() {
                let x = &x[column * block..][..block];
                y[row * block + i] += line.iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
            }
        };
        for row in 0..rows.rows() {
            let range = rows.offsets[row] as usize..rows.offsets[row + 1] as usize;
            let values = rows.values[range.start * size..range.end * size].chunks_exact(size);
            for (column, values) in whole[range].iter().zip(values) {
                add(row, *column as usize, values);
            }
            if let Some(diagonal) = &rows.diagonal {
                add(row, self.first() + row, &diagonal[row * size..][..size]);
            }
        }
        Ok(y)
    }

    /// How the rows are numbered in a file: as the caller numbers them, or as this partition does.
    pub fn numbering(&self, given: Option<Division>) -> Result<Division> {
        let Some(given) = given else { return Ok(self.division.clone()) };
        if given.starts != self.division.starts {
            let (rank, own) = (self.ranks.rank, self.division.rows(self.ranks.rank));
            return fail!(
                BadParameters,
                "the partition gives rank {rank} {} rows, and the matrix has {own} there",
                given.rows(rank)
            );
        }
        if self.division.numbers.is_some() && self.division != given {
            return fail!(BadParameters, "the partition is not that with which the matrix was uploaded");
        }
        Ok(given)
    }

    /// Collective: the whole system on the first rank, in the order of this numbering.
    pub fn gathered(&self, numbering: &Division, rhs: Vector, solution: Vector) -> Result<Option<System>> {
        let (ranks, callers) = (&self.ranks, numbering.callers());
        let rows = lock(&self.rows);
        let columns = || {
            let mut columns = zeros(rows.columns.len())?;
            for (to, from) in columns.iter_mut().zip(rows.in_whole()) {
                *to = callers.as_ref().map_or(*from, |callers| callers[*from as usize]);
            }
            Ok(columns)
        };
        let lengths: Vec<i32> = rows.offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (lengths, _) = ranks.gather(&lengths)?;
        let (columns, _) = ranks.gather(&ranks.agree(columns())?)?;
        let (values, _) = ranks.gather(&rows.values)?;
        let all = |own: Option<&[f64]>, name: &str| -> Result<Option<Vec<f64>>> {
            // The ranks without rows go by the others.
            let is_there = ranks.most([i64::from(own.is_some_and(|own| !own.is_empty()))])? == [1];
            if !is_there {
                return Ok(None);
            }
            ranks.agree(match own {
                None if rows.rows() > 0 => fail!(BadParameters, "{name} is given on other ranks, and not here"),
                _ => Ok(()),
            })?;
            Ok(Some(ranks.gather(own.unwrap_or_default())?.0))
        };
        let diagonal = all(rows.diagonal.as_deref(), "diag_data")?;
        let (rhs, solution) = (all(rhs.as_deref(), "rhs")?, all(solution.as_deref(), "sol")?);
        if ranks.rank != 0 {
            return Ok(None);
        }
        if i32::try_from(columns.len()).is_err() {
            return fail!(BadParameters, "{} blocks are more than a file can have, 2147483647", columns.len());
        }
        let (block, size) = (rows.block, rows.block * rows.block);
        let mut starts = zeros::<usize>(lengths.len() + 1)?;
        for (row, length) in lengths.iter().enumerate() {
            starts[row + 1] = starts[row] + *length as usize;
        }
        let mut offsets = zeros::<i32>(lengths.len() + 1)?;
        let (mut sorted, mut numbers) = (zeros::<i32>(columns.len())?, zeros::<f64>(values.len())?);
        for row in 0..lengths.len() {
            let number = numbering.number(row);
            let (from, to) = (starts[number]..starts[number + 1], offsets[row] as usize);
            offsets[row + 1] = (to + from.len()) as i32;
            sorted[to..to + from.len()].copy_from_slice(&columns[from.clone()]);
            numbers[to * size..(to + from.len()) * size].copy_from_slice(&values[from.start * size..from.end * size]);
        }
        let in_order = |all: Option<Vec<f64>>, size: usize| -> Result<Option<Vec<f64>>> {
            let Some(all) = all else { return Ok(None) };
            let mut to = zeros::<f64>(all.len())?;
            for (row, blocks) in to.chunks_exact_mut(size).enumerate() {
                blocks.copy_from_slice(&all[numbering.number(row) * size..][..size]);
            }
            Ok(Some(to))
        };
        Ok(Some(System {
            block,
            offsets,
            columns: sorted,
            values: numbers,
            diagonal: in_order(diagonal, size)?,
            rhs: in_order(rhs, block)?,
            solution: in_order(solution, block)?,
        }))
    }
}

/// The elements of a vector of this rank, if there is one.
pub type Vector = Option<Vec<f64>>;
