//! `terrace_matrix`: the caller's CSR or BSR arrays, described, checked, and copied or borrowed.

use super::borrow::{Borrowed, copy, slice};
use super::boundary::{self, Out, call, out, required};
use super::types::{Index, index, precision};
use super::types::{TERRACE_BORROW, TERRACE_SORTED, terrace_matrix_flags, terrace_type};
use super::{terrace_context, terrace_status};
use crate::error::{Result, fail};
use crate::host::par;
use crate::matrix::{Matrix, Values};
use crate::scalar::Precision;
use crate::sparse::{Block, OffsetStorage, Storage, Structure};
use std::ffi::c_void;
use std::sync::Arc;

/// A sparse matrix. It does not belong to a context: any number of contexts, solvers and threads may use it at once, as long as nobody
/// changes or destroys it meanwhile. What was set up with it keeps what it needs when it is destroyed; borrowed arrays must stay.
pub struct terrace_matrix {
    pub(super) matrix: Arc<Matrix>,
    borrow: bool,
}

/// Makes a matrix from compressed sparse rows.
///
/// - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
/// - `rows`, `cols`: 0 to 2147483647.
/// - `offset_type`: `TERRACE_I32` or `TERRACE_I64`.
/// - `row_offsets`: host, `rows + 1` elements that begin with `base` and do not decrease; row i has the entries from `row_offsets[i]` to
///   `row_offsets[i + 1] - 1`, counted from `base`.
/// - `column_type`: `TERRACE_I32` or `TERRACE_I64`.
/// - `columns`: host, the column of each entry, counted from `base`, each at most once in a row. NULL is accepted when there are none.
/// - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
/// - `values`: host, the value of each entry; finite, and not zero on the diagonal of a square matrix. NULL is accepted when there are
///   none.
/// - `base`: 0 or 1.
/// - `flags`: `TERRACE_COPY` or `TERRACE_BORROW`, with `| TERRACE_SORTED` as a promise that columns ascend in each row. With
///   `TERRACE_BORROW` nothing is copied, but for columns of `TERRACE_I64`: they are 32-bit inside, so those are narrowed into a copy
///   while offsets and values stay borrowed.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// Returns when the matrix is checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_MATRIX_STRUCTURE` and `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row, counted from `base`),
/// `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_csr(
    context: *mut terrace_context,
    rows: i64,
    cols: i64,
    offset_type: terrace_type,
    row_offsets: *const c_void,
    column_type: terrace_type,
    columns: *const c_void,
    value_type: terrace_type,
    values: *const c_void,
    base: i32,
    flags: terrace_matrix_flags,
    matrix: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let size = Size { names: ["rows", "cols"], rows, cols, block: 1 };
        let arrays = Arrays { offset_type, row_offsets, column_type, columns, value_type, values };
        // SAFETY: the arrays and the place for the result are as the documentation asks.
        unsafe { create(context, size, &arrays, base, flags, out!(matrix)) }
    })
}

/// Makes a matrix from compressed sparse rows of square dense blocks.
///
/// - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
/// - `block_rows`, `block_cols`: rows and columns of blocks; times `block_size` at most 2147483647.
/// - `block_size`: rows and columns of a block, 1 to 8.
/// - `row_offsets`, `columns`, `base`, `flags`, `matrix` and the types: as in `terrace_matrix_create_csr`, counting blocks.
/// - `values`: host, `block_size * block_size` values for each block, row by row.
///
/// Blocking, errors and threads: as `terrace_matrix_create_csr`; rows in sentences are block rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_bsr(
    context: *mut terrace_context,
    block_rows: i64,
    block_cols: i64,
    block_size: i32,
    offset_type: terrace_type,
    row_offsets: *const c_void,
    column_type: terrace_type,
    columns: *const c_void,
    value_type: terrace_type,
    values: *const c_void,
    base: i32,
    flags: terrace_matrix_flags,
    matrix: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let size = Size { names: ["block_rows", "block_cols"], rows: block_rows, cols: block_cols, block: block_size };
        let arrays = Arrays { offset_type, row_offsets, column_type, columns, value_type, values };
        // SAFETY: the arrays and the place for the result are as the documentation asks.
        unsafe { create(context, size, &arrays, base, flags, out!(matrix)) }
    })
}

/// Destroys a matrix.
///
/// - `matrix`: NULL is fine. Hierarchies and solvers that were set up with it keep what they need of it; arrays that it borrowed must
///   stay until those are destroyed, too.
///
/// Does not fail. No other thread may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_destroy(matrix: *mut terrace_matrix) -> terrace_status {
    // SAFETY: made by one of the create functions, and not used again as the documentation asks.
    unsafe { boundary::destroy(matrix) }
}

/// The size of a matrix in scalars, whatever its blocks.
///
/// - `context`: not NULL; receives the sentence of an error.
/// - `matrix`: not NULL.
/// - `rows`, `cols`, `nonzeros` (stored values), `block_size`: host, written; each may be NULL.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_get_size(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    rows: *mut i64,
    cols: *mut i64,
    nonzeros: *mut i64,
    block_size: *mut i32,
) -> terrace_status {
    call!(context, |_| {
        let matrix = &required!(matrix).matrix;
        // SAFETY: null or valid for a write, as the documentation asks.
        unsafe {
            Out::optional(rows).set(matrix.rows() as i64);
            Out::optional(cols).set(matrix.cols() as i64);
            Out::optional(nonzeros).set(matrix.entries() as i64);
            Out::optional(block_size).set(matrix.structure().block.rows as i32);
        }
        Ok(())
    })
}

/// Replaces the values and keeps the structure. Hierarchies and solvers that were set up with the matrix take the new values over with
/// `terrace_amg_update` and `terrace_solver_update`. Nothing is changed on failure.
///
/// - `context`: not NULL; its threads check and copy the values.
/// - `matrix`: not NULL.
/// - `value_type`: as at creation.
/// - `values`: host, in the order of creation; copied or borrowed as at creation. For values that were borrowed and changed in place, pass
///   the same array: this checks them.
/// - `count`: number of values, all that the matrix stores.
///
/// Returns when the values are checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row), `TERRACE_ERROR_OUT_OF_MEMORY`. One thread
/// at a time for each context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_update_values(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    value_type: terrace_type,
    values: *const c_void,
    count: i64,
) -> terrace_status {
    call!(context, |context| {
        let matrix = required!(matrix);
        let entries = matrix.matrix.entries();
        if count != entries as i64 {
            return fail!(SizeMismatch, "count is {count}; the matrix stores {entries} values");
        }
        // SAFETY: `entries` values as the documentation asks, kept by the caller when the matrix borrows.
        let values = unsafe { LentValues::new(value_type, values, entries) }?;
        context.home.context.run(entries, || matrix.matrix.update_values(values.keep(matrix.borrow)?))
    })
}

/// Tells which vectors the matrix maps to almost nothing, for problems whose near-null space is more than the constant. Aggregation
/// represents them exactly on every level. They take effect at the next set-up.
///
/// - `context`: not NULL; receives the sentence of an error.
/// - `matrix`: not NULL.
/// - `dofs_per_node`: unknowns of a node, which are consecutive rows: 1 to 8, the block size when that is more than 1.
/// - `count`: number of vectors, 1 to 8.
/// - `vectors`: host, `count` vectors one after the other, each with an element for every scalar row; copied.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time for each context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_set_near_null_space(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    dofs_per_node: i32,
    count: i32,
    vectors: *const f64,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let dofs_per_node = one_to_eight("dofs_per_node", dofs_per_node)?;
        let count = one_to_eight("count", count)?;
        let len = matrix.rows() * count;
        // SAFETY: `count` vectors of all rows, as the documentation asks.
        let vectors = unsafe { slice::<f64>(vectors.cast(), len, "vectors") }?;
        let vectors = context.home.context.run(len, || copy(vectors, |v| v))?;
        matrix.set_near_null_space(dofs_per_node, count, vectors)
    })
}

/// Gives the coordinates of the nodes of an elasticity problem with one displacement for each dimension, in the order of the coordinates:
/// the near-null space is then made of the rigid-body modes. It takes effect at the next set-up.
///
/// - `context`: not NULL; receives the sentence of an error.
/// - `matrix`: not NULL.
/// - `dimension`: 2 or 3; the block size when that is more than 1.
/// - `nodes`: number of nodes; times `dimension` the number of scalar rows.
/// - `coordinates`: host, `dimension` for each node one after the other: x0 y0 z0 x1 y1 z1 ...; copied.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time for each context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_set_coordinates(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    dimension: i32,
    nodes: i64,
    coordinates: *const f64,
) -> terrace_status {
    call!(context, |_| {
        let matrix = &required!(matrix).matrix;
        if dimension != 2 && dimension != 3 {
            return fail!(InvalidArgument, "dimension is {dimension}; accepted: 2 or 3");
        }
        let rows = matrix.rows();
        if nodes.checked_mul(i64::from(dimension)) != Some(rows as i64) {
            return fail!(
                SizeMismatch,
                "nodes is {nodes}; times the dimension {dimension} it must be the {rows} rows of the matrix"
            );
        }
        // SAFETY: one coordinate for each row, as the documentation asks.
        let coordinates = unsafe { slice::<f64>(coordinates.cast(), rows, "coordinates") }?;
        matrix.set_coordinates(dimension as usize, coordinates)
    })
}

fn one_to_eight(argument: &str, value: i32) -> Result<usize> {
    if (1..=8).contains(&value) {
        Ok(value as usize)
    } else {
        fail!(InvalidArgument, "{argument} is {value}; accepted: 1 to 8")
    }
}

/// Dimensions as the caller gave them, with the names of the arguments.
struct Size {
    names: [&'static str; 2],
    rows: i64,
    cols: i64,
    block: i32,
}

impl Size {
    /// Block rows, block columns and rows of a block. Scalar columns are 32-bit inside.
    fn check(&self) -> Result<(usize, usize, usize)> {
        let block = one_to_eight("block_size", self.block)?;
        let limit = i64::from(i32::MAX) / block as i64;
        for (name, value) in self.names.into_iter().zip([self.rows, self.cols]) {
            if !(0..=limit).contains(&value) {
                return fail!(InvalidArgument, "{name} is {value}; accepted: 0 to {limit}");
            }
        }
        Ok((self.rows as usize, self.cols as usize, block))
    }
}

/// Arrays as the caller gave them.
struct Arrays {
    offset_type: terrace_type,
    row_offsets: *const c_void,
    column_type: terrace_type,
    columns: *const c_void,
    value_type: terrace_type,
    values: *const c_void,
}

/// # Safety
/// The arrays are null or have the lengths that sizes and offsets say, and stay when they are borrowed; `out` is valid for a write.
unsafe fn create(
    context: &terrace_context,
    size: Size,
    arrays: &Arrays,
    base: i32,
    flags: terrace_matrix_flags,
    out: Out<*mut terrace_matrix>,
) -> Result<()> {
    let (rows, cols, block) = size.check()?;
    if base != 0 && base != 1 {
        return fail!(InvalidArgument, "base is {base}; accepted: 0 or 1");
    }
    if flags & !(TERRACE_BORROW | TERRACE_SORTED) != 0 {
        return fail!(
            InvalidArgument,
            "flags is {flags}; accepted: TERRACE_COPY or TERRACE_BORROW, with | TERRACE_SORTED"
        );
    }
    let (borrow, sorted) = (flags & TERRACE_BORROW != 0, flags & TERRACE_SORTED != 0);
    // SAFETY: by this function's contract. Columns and values are only as long as the last offset says, which is checked first.
    let (offsets, columns, values) = unsafe {
        let offsets = LentOffsets::new(arrays.offset_type, arrays.row_offsets, rows + 1)?;
        let nnz = offsets.entries(rows, cols, base)?;
        let columns = LentColumns::new(arrays.column_type, arrays.columns, nnz)?;
        (offsets, columns, LentValues::new(arrays.value_type, arrays.values, nnz * block * block)?)
    };
    let matrix = context.home.context.run(rows + columns.len() * block * block, || {
        let columns = columns.keep(borrow, &offsets, base)?;
        let offsets = offsets.keep(borrow)?;
        let structure = Structure { rows, cols, block: Block::square(block), offsets, columns, base };
        Matrix::new(structure, values.keep(borrow)?, sorted)
    })?;
    let matrix = terrace_matrix { matrix: Arc::new(matrix), borrow };
    // SAFETY: by this function's contract.
    unsafe { out.set(Box::into_raw(Box::new(matrix))) };
    Ok(())
}

/// The lent array itself, or a copy of it.
fn keep<T: Copy + Send + Sync + 'static>(lent: Borrowed<T>, borrow: bool) -> Result<Arc<dyn Storage<T>>> {
    Ok(if borrow { Arc::new(lent) } else { Arc::new(copy(lent.as_slice(), |v| v)?) })
}

/// Row offsets of the caller.
enum LentOffsets {
    I32(Borrowed<i32>),
    I64(Borrowed<i64>),
}

impl LentOffsets {
    /// # Safety
    /// As [`Borrowed::new`].
    unsafe fn new(offset_type: terrace_type, pointer: *const c_void, len: usize) -> Result<LentOffsets> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match index("offset_type", offset_type)? {
                Index::I32 => LentOffsets::I32(Borrowed::new(pointer, len, "row_offsets")?),
                Index::I64 => LentOffsets::I64(Borrowed::new(pointer, len, "row_offsets")?),
            })
        }
    }

    fn get(&self, i: usize) -> i64 {
        match self {
            LentOffsets::I32(offsets) => i64::from(offsets.as_slice()[i]),
            LentOffsets::I64(offsets) => offsets.as_slice()[i],
        }
    }

    /// Number of entries, from the first and the last offset. More than the matrix has places cannot be right, and is refused before
    /// anything that long is read.
    fn entries(&self, rows: usize, cols: usize, base: i32) -> Result<usize> {
        let (first, last, base) = (self.get(0), self.get(rows), i64::from(base));
        if first != base {
            return fail!(MatrixStructure, "row_offsets[0] is {first}; it must be the base, {base}");
        }
        // Below 2^62, as both factors are below 2^31.
        let most = rows as i64 * cols as i64 + base;
        if !(base..=most).contains(&last) {
            return fail!(
                MatrixStructure,
                "row_offsets[{rows}] is {last}; accepted for {rows} rows and {cols} columns with base {base}: {base} to {most}"
            );
        }
        Ok((last - base) as usize)
    }

    fn keep(self, borrow: bool) -> Result<OffsetStorage> {
        Ok(match self {
            LentOffsets::I32(offsets) => OffsetStorage::I32(keep(offsets, borrow)?),
            LentOffsets::I64(offsets) => OffsetStorage::I64(keep(offsets, borrow)?),
        })
    }
}

/// Columns of the caller.
enum LentColumns {
    I32(Borrowed<i32>),
    I64(Borrowed<i64>),
}

impl LentColumns {
    /// # Safety
    /// As [`Borrowed::new`].
    unsafe fn new(column_type: terrace_type, pointer: *const c_void, len: usize) -> Result<LentColumns> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match index("column_type", column_type)? {
                Index::I32 => LentColumns::I32(Borrowed::new(pointer, len, "columns")?),
                Index::I64 => LentColumns::I64(Borrowed::new(pointer, len, "columns")?),
            })
        }
    }

    fn len(&self) -> usize {
        match self {
            LentColumns::I32(columns) => columns.as_slice().len(),
            LentColumns::I64(columns) => columns.as_slice().len(),
        }
    }

    /// 32-bit columns. Whether they lie inside of the matrix is checked later; here only that 64-bit ones can be narrowed.
    fn keep(self, borrow: bool, offsets: &LentOffsets, base: i32) -> Result<Arc<dyn Storage<i32>>> {
        let columns = match &self {
            LentColumns::I32(columns) => return keep(*columns, borrow),
            LentColumns::I64(columns) => columns.as_slice(),
        };
        let bad =
            par::map_ranges(columns.len(), par::GRAIN, |mut range| range.find(|&k| i32::try_from(columns[k]).is_err()));
        if let Some(k) = bad.into_iter().flatten().next() {
            let row = (0..).find(|&i| offsets.get(i + 1) > k as i64 + i64::from(base)).unwrap_or(0);
            let row = row as i64 + i64::from(base);
            return fail!(MatrixStructure, "row {row} has column {}; columns must be below 2147483648", columns[k]);
        }
        Ok(Arc::new(copy(columns, |c| c as i32)?))
    }
}

/// Values of the caller.
enum LentValues {
    F64(Borrowed<f64>),
    F32(Borrowed<f32>),
}

impl LentValues {
    /// # Safety
    /// As [`Borrowed::new`].
    unsafe fn new(value_type: terrace_type, pointer: *const c_void, len: usize) -> Result<LentValues> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(match precision("value_type", value_type)? {
                Precision::F64 => LentValues::F64(Borrowed::new(pointer, len, "values")?),
                Precision::F32 => LentValues::F32(Borrowed::new(pointer, len, "values")?),
            })
        }
    }

    fn keep(self, borrow: bool) -> Result<Values> {
        Ok(match self {
            LentValues::F64(values) => Values::F64(keep(values, borrow)?),
            LentValues::F32(values) => Values::F32(keep(values, borrow)?),
        })
    }
}
