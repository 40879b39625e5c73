//! Arrays of the caller, on the host or on the device, on their way into a matrix.

use super::diagonal::Merge;
use super::{Matrix, Uploaded};
use crate::boundary::{Result, fail, required};
use crate::native::{self, Arrays, zeros};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use terrace::capi::{ContextVector, TERRACE_F32, TERRACE_I32, TERRACE_I64, terrace_context, terrace_type};

/// Arrays of the caller.
pub struct Upload {
    /// Block rows.
    pub rows: usize,
    /// Blocks.
    pub entries: usize,
    /// Rows of a block.
    pub block: usize,
    pub offsets: *const c_int,
    pub columns: *const c_void,
    /// Whether columns have 64 bits.
    pub wide_columns: bool,
    pub values: *const c_void,
    /// A diagonal block for each row beside the others, or null.
    pub diagonal: *const c_void,
}

/// The rows of a block.
pub fn block_size(block_dimx: c_int, block_dimy: c_int) -> Result<usize> {
    if block_dimx != block_dimy || !(1..=8).contains(&block_dimx) {
        return fail!(
            NotSupportedBlocksize,
            "block_dimx is {block_dimx} and block_dimy {block_dimy}; accepted: the same number, 1 to 8"
        );
    }
    Ok(block_dimx as usize)
}

impl Upload {
    /// Makes it what the matrix is.
    ///
    /// # Safety
    /// Arrays of the lengths that the numbers say, in either memory.
    pub unsafe fn into_matrix(self, matrix: &Matrix) -> Result<()> {
        let context = matrix.resources.context(matrix.mode)?;
        // SAFETY: by this function's contract.
        unsafe {
            self.check(context.state())?;
            let format = matrix.mode.matrix;
            let (native, merge) = match self.diagonal.is_null() {
                true => (self.plain(&context, format, matrix.mode.on_device)?, None),
                false => self.merged(&context, format)?,
            };
            let Upload { rows, entries, block, .. } = self;
            matrix.set(Uploaded { native, rows, entries, block, merge, over: None });
        }
        Ok(())
    }

    /// Reads the last offset before anything that it bounds.
    ///
    /// # Safety
    /// As above.
    unsafe fn check(&self, state: &terrace_context) -> Result<()> {
        required(self.offsets, "row_ptrs")?;
        if self.entries > 0 {
            required(self.columns, "col_indices")?;
            required(self.values, "data")?;
        }
        let last = self.offsets.wrapping_add(self.rows).cast();
        // SAFETY: by this function's contract.
        let last = unsafe { terrace::capi::fetch::<i32>(state, last, 1, "row_ptrs") }?[0];
        if usize::try_from(last) != Ok(self.entries) {
            return fail!(BadParameters, "row_ptrs[{}] is {last}, and nnz {}", self.rows, self.entries);
        }
        Ok(())
    }

    /// # Safety
    /// As above.
    unsafe fn plain(
        &self,
        context: &Arc<native::Context>,
        format: terrace_type,
        on_device: bool,
    ) -> Result<native::Matrix> {
        let column_type = if self.wide_columns { TERRACE_I64 } else { TERRACE_I32 };
        let (offsets, columns) = (self.offsets, self.columns);
        // SAFETY: by this function's contract.
        unsafe {
            let arrays = |values| Arrays { offsets, columns, column_type, values, value_type: format };
            if !on_device {
                return native::Matrix::new(context, self.rows, self.block, &arrays(self.values));
            }
            // A matrix whose values are on the device stays there.
            let len = self.entries * self.block * self.block;
            let mut values = ContextVector::zeros(context.state(), format, len)?;
            values.copy_from(self.values)?;
            native::Matrix::new(context, self.rows, self.block, &arrays(values.as_ptr()))
        }
    }

    /// # Safety
    /// As above.
    unsafe fn merged(
        &self,
        context: &Arc<native::Context>,
        format: terrace_type,
    ) -> Result<(native::Matrix, Option<Merge>)> {
        let (state, size) = (context.state(), self.block * self.block);
        // SAFETY: by this function's contract.
        unsafe {
            let offsets = terrace::capi::fetch::<i32>(state, self.offsets.cast(), self.rows + 1, "row_ptrs")?;
            let columns = self.narrow_columns(state)?;
            let (merge, offsets, columns) = Merge::new(&offsets, &columns)?;
            let mut values = zeros::<f64>(columns.len() * size)?;
            let entries = fetch(state, format, self.values, self.entries * size, "data")?;
            let diagonal = fetch(state, format, self.diagonal, self.rows * size, "diag_data")?;
            merge.put(&mut values, &merge.entries, &entries, size);
            merge.put(&mut values, &merge.diagonal, &diagonal, size);
            let mut own = ContextVector::zeros(state, format, values.len())?;
            copy_in(&mut own, &values)?;
            let arrays = Arrays {
                offsets: offsets.as_ptr(),
                columns: columns.as_ptr().cast(),
                column_type: TERRACE_I32,
                values: own.as_ptr(),
                value_type: format,
            };
            Ok((native::Matrix::new(context, self.rows, self.block, &arrays)?, Some(merge)))
        }
    }

    /// # Safety
    /// As above.
    unsafe fn narrow_columns(&self, state: &terrace_context) -> Result<Vec<i32>> {
        // SAFETY: by this function's contract.
        unsafe {
            if !self.wide_columns {
                return Ok(terrace::capi::fetch::<i32>(state, self.columns, self.entries, "col_indices")?);
            }
            let wide = terrace::capi::fetch::<i64>(state, self.columns, self.entries, "col_indices")?;
            let mut narrow = zeros::<i32>(wide.len())?;
            for (to, from) in narrow.iter_mut().zip(wide) {
                // What 32 bits do not hold is outside of the matrix in any case.
                *to = i32::try_from(from).unwrap_or(-1);
            }
            Ok(narrow)
        }
    }
}

/// Offsets of the caller that ascend, and columns; what 32 bits do not hold is -1. A rank without rows may have null
/// pointers.
///
/// # Safety
/// Arrays of the lengths that the numbers say, in either memory.
pub unsafe fn offsets_and_columns(upload: &Upload, state: &terrace_context) -> Result<(Vec<i32>, Vec<i32>)> {
    if upload.rows == 0 && upload.entries == 0 {
        return Ok((vec![0], Vec::new()));
    }
    // SAFETY: by this function's contract.
    let (offsets, columns) = unsafe {
        upload.check(state)?;
        let offsets = terrace::capi::fetch::<i32>(state, upload.offsets.cast(), upload.rows + 1, "row_ptrs")?;
        (offsets, upload.narrow_columns(state)?)
    };
    if offsets[0] != 0 {
        return fail!(BadParameters, "row_ptrs[0] is {}; accepted: 0", offsets[0]);
    }
    if let Some(row) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
        let (start, end) = (offsets[row], offsets[row + 1]);
        return fail!(BadParameters, "row_ptrs decrease at row {row}: from {start} to {end}");
    }
    Ok((offsets, columns))
}

/// Values of the caller, in double precision.
///
/// # Safety
/// An array of this length and format in either memory.
pub unsafe fn fetch(
    state: &terrace_context,
    format: terrace_type,
    array: *const c_void,
    len: usize,
    argument: &str,
) -> Result<Vec<f64>> {
    // SAFETY: by this function's contract.
    unsafe {
        if format != TERRACE_F32 {
            return Ok(terrace::capi::fetch::<f64>(state, array, len, argument)?);
        }
        let narrow = terrace::capi::fetch::<f32>(state, array, len, argument)?;
        let mut wide = zeros(len)?;
        wide.iter_mut().zip(narrow).for_each(|(to, from)| *to = f64::from(from));
        Ok(wide)
    }
}

fn copy_in(to: &mut ContextVector, values: &[f64]) -> Result<()> {
    // SAFETY: arrays of the length and format of the vector.
    unsafe {
        if to.vector_type() != TERRACE_F32 {
            return Ok(to.copy_from(values.as_ptr().cast())?);
        }
        let mut narrow = zeros::<f32>(values.len())?;
        narrow.iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
        Ok(to.copy_from(narrow.as_ptr().cast())?)
    }
}

/// Copies to an array of the caller.
///
/// # Safety
/// An array of this length and format in either memory.
pub unsafe fn store(state: &terrace_context, format: terrace_type, values: &[f64], array: *mut c_void) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe {
        if format != TERRACE_F32 {
            return Ok(terrace::capi::store(state, values, array)?);
        }
        let mut narrow = zeros::<f32>(values.len())?;
        narrow.iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
        Ok(terrace::capi::store(state, &narrow, array)?)
    }
}

/// Replaces the values of a matrix by these.
pub fn update(matrix: &native::Matrix, format: terrace_type, values: &[f64]) -> Result<()> {
    let mut vector = ContextVector::zeros(matrix.context.state(), format, values.len())?;
    copy_in(&mut vector, values)?;
    // SAFETY: as many values as the matrix has.
    unsafe { matrix.update_values(format, vector.as_ptr(), values.len()) }
}
