//! The arrays of a matrix whose values are in the memory of the context's GPU: they stay there, and are checked there.

use super::arrays::Arrays;
use super::borrow::{Borrowed, slice};
use super::terrace_type;
use super::types::{Index, index, precision};
use crate::context::Context;
use crate::error::{Result, fail, try_collect};
use crate::gpu::setup::DeviceCsr;
use crate::gpu::{Buffer, Gpu, Indices, Slice};
use crate::matrix::{DeviceMatrix, DeviceValues, Matrix};
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::ffi::c_void;
use std::sync::Arc;

/// The context's GPU, when an array is in its memory.
pub(super) fn owning_gpu<'a>(context: &'a Context, pointer: *const c_void, argument: &str) -> Result<Option<&'a Gpu>> {
    match context.gpu() {
        Some(gpu) if !pointer.is_null() && gpu.holds(pointer, argument)? => Ok(Some(gpu)),
        _ => Ok(None),
    }
}

/// Indices in device memory: the caller's, or a copy of those on the host.
enum DeviceIndices {
    Caller(Indices<'static>),
    I32(Buffer<i32>),
    I64(Buffer<i64>),
}

impl DeviceIndices {
    /// # Safety
    /// An array of `len` elements in either memory, which stays while the result is used.
    unsafe fn new(
        gpu: &Gpu,
        (names, kind): ([&str; 2], terrace_type),
        pointer: *const c_void,
        len: usize,
    ) -> Result<DeviceIndices> {
        let [argument, type_argument] = names;
        let kind = index(type_argument, kind)?;
        // SAFETY: by this function's contract; only null and alignment are looked at.
        unsafe {
            match kind {
                Index::I32 => Borrowed::<i32>::new(pointer, len, argument).map(|_| ())?,
                Index::I64 => Borrowed::<i64>::new(pointer, len, argument).map(|_| ())?,
            }
        }
        let address = pointer.addr() as u64;
        // SAFETY: by this function's contract.
        unsafe {
            if len > 0 && gpu.holds(pointer, argument)? {
                return Ok(DeviceIndices::Caller(match kind {
                    Index::I32 => Indices::I32(Slice::borrowed(address, len)),
                    Index::I64 => Indices::I64(Slice::borrowed(address, len)),
                }));
            }
            Ok(match kind {
                Index::I32 => DeviceIndices::I32(gpu.upload(slice(pointer, len, argument)?)?),
                Index::I64 => DeviceIndices::I64(gpu.upload(slice(pointer, len, argument)?)?),
            })
        }
    }

    fn indices(&self) -> Indices<'_> {
        match self {
            DeviceIndices::Caller(indices) => *indices,
            DeviceIndices::I32(copy) => Indices::I32(copy),
            DeviceIndices::I64(copy) => Indices::I64(copy),
        }
    }
}

/// Values in device memory, borrowed or copied.
///
/// # Safety
/// `len` values at `pointer` on the GPU, which stay as long as the result when they are borrowed.
pub(super) unsafe fn values(
    gpu: &Gpu,
    value_type: terrace_type,
    pointer: *const c_void,
    len: usize,
    borrow: bool,
) -> Result<DeviceValues> {
    // SAFETY: by this function's contract.
    unsafe {
        Ok(match precision("value_type", value_type)? {
            Precision::F32 => DeviceValues::F32(take(gpu, pointer, len, borrow)?),
            _ => DeviceValues::F64(take(gpu, pointer, len, borrow)?),
        })
    }
}

/// # Safety
/// As for [`values`].
unsafe fn take<T: Number>(gpu: &Gpu, pointer: *const c_void, len: usize, borrow: bool) -> Result<Buffer<T>> {
    // SAFETY: by this function's contract; `new` looks at alignment and size alone.
    unsafe {
        Borrowed::<T>::new(pointer, len, "values")?;
        gpu.import_values(Slice::borrowed(pointer.addr() as u64, len), borrow)
    }
}

/// A matrix whose values are on the GPU; its indices may be in either memory.
///
/// # Safety
/// The arrays have the lengths that sizes and offsets say, and stay when they are borrowed.
pub(super) unsafe fn matrix(
    gpu: &Gpu,
    (rows, cols, block): (usize, usize, usize),
    arrays: &Arrays,
    base: i32,
    borrow: bool,
    sorted: bool,
) -> Result<Matrix> {
    let types = [arrays.offset_type, arrays.column_type];
    // SAFETY: by this function's contract. Columns and values are only as long as the last offset says, which is checked first.
    unsafe {
        let offsets =
            DeviceIndices::new(gpu, (["row_offsets", "offset_type"], types[0]), arrays.row_offsets, rows + 1)?;
        let (first, last) = (gpu.index(&offsets.indices(), 0)?, gpu.index(&offsets.indices(), rows)?);
        let nnz = super::arrays::entries((first, last), rows, cols, base)?;
        let own_offsets = gpu.import_offsets(&offsets.indices(), base)?;
        let columns = DeviceIndices::new(gpu, (["columns", "column_type"], types[1]), arrays.columns, nnz)?;
        // Columns that were copied here are not the caller's, and are copied again.
        let own_columns =
            gpu.import_columns(&columns.indices(), base, borrow && matches!(columns, DeviceIndices::Caller(_)))?;
        let (Some(own_offsets), Some(own_columns)) = (own_offsets, own_columns) else {
            return refuse(gpu, (rows, cols), (&offsets.indices(), &columns.indices()), base);
        };
        let (offsets, columns) = (Arc::new(own_offsets), Arc::new(own_columns));
        let block = Block::square(block);
        let matrix = match values(gpu, arrays.value_type, arrays.values, nnz * block.len(), borrow)? {
            DeviceValues::F64(values) => {
                DeviceMatrix::F64(DeviceCsr { rows, cols, block, offsets, columns, values: Arc::new(values) })
            }
            DeviceValues::F32(values) => {
                DeviceMatrix::F32(DeviceCsr { rows, cols, block, offsets, columns, values: Arc::new(values) })
            }
        };
        Matrix::on_device(gpu, matrix, sorted, base)
    }
}

/// The error for offsets that decrease, or columns that 32 bits do not hold.
fn refuse<R>(
    gpu: &Gpu,
    (rows, cols): (usize, usize),
    (offsets, columns): (&Indices<'_>, &Indices<'_>),
    base: i32,
) -> Result<R> {
    let wide = |indices: &Indices<'_>| -> Result<Vec<i64>> {
        Ok(match indices {
            Indices::I32(indices) => try_collect(gpu.fetch(indices)?.into_iter().map(i64::from))?,
            Indices::I64(indices) => gpu.fetch(indices)?,
        })
    };
    let (offsets, columns) = (wide(offsets)?, wide(columns)?);
    if let Some(i) = (0..rows).find(|&i| offsets[i + 1] < offsets[i]) {
        return fail!(
            MatrixStructure,
            "row_offsets decrease at row {}: from {} to {}; they must not decrease",
            i as i64 + i64::from(base),
            offsets[i],
            offsets[i + 1]
        );
    }
    let last = i64::from(base) + cols as i64 - 1;
    let bad = columns.iter().position(|c| !(i64::from(base)..=last).contains(c)).unwrap_or(0);
    let row = (0..rows).find(|&i| offsets[i + 1] > bad as i64 + i64::from(base)).unwrap_or(0) as i64 + i64::from(base);
    fail!(MatrixStructure, "row {row} has column {}; accepted with base {base}: {base} to {last}", columns[bad])
}
