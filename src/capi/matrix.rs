//! `terrace_matrix`: the caller's CSR or BSR arrays, described, checked, and copied or borrowed.

use super::arrays::{Arrays, LentColumns, LentIndices, LentOffsets, LentValues, Size, one_to_eight};
use super::borrow::{Lent, copy};
use super::boundary::{self, Out, call, out, required};
use super::device_arrays;
use super::stencil::by_offset;
use super::types::{TERRACE_BORROW, TERRACE_COPY, TERRACE_SORTED, precision, terrace_matrix_flags, terrace_type};
use super::{terrace_context, terrace_status};
use crate::backend::parameters::MAX_FUNCTIONS;
use crate::error::{Result, fail, try_capacity};
use crate::matrix::{Matrix, StencilLayout};
use crate::scalar::with_precision;
use crate::sparse::{Block, Csr, Storage, Structure};
use std::ffi::c_void;
use std::sync::Arc;

/// A sparse matrix. It does not belong to a context: any number of contexts, solvers and threads may use it at once, as long as nobody
/// changes or destroys it meanwhile. What was set up with it keeps what it needs when it is destroyed; borrowed arrays must stay.
pub struct terrace_matrix {
    pub(super) matrix: Arc<Matrix>,
    pub(super) borrow: bool,
    /// Whether the caller gives all values of a cell of a stencil together.
    pub(super) by_cell: bool,
    /// Where the values of the rows lie among those that the caller gives; none where they have the same order.
    pub(super) order: Option<Vec<u32>>,
}

impl terrace_matrix {
    /// A matrix whose arrays are the library's.
    pub(super) fn own(matrix: Matrix) -> terrace_matrix {
        terrace_matrix { matrix: Arc::new(matrix), borrow: false, by_cell: false, order: None }
    }
}

/// Makes a matrix from compressed sparse rows.
///
/// - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
/// - `rows`, `cols`: 0 to 2147483647.
/// - `offset_type`: `TERRACE_I32` or `TERRACE_I64`.
/// - `row_offsets`: `rows + 1` elements that begin with `base` and do not decrease; row i has the entries from `row_offsets[i]` to
///   `row_offsets[i + 1] - 1`, counted from `base`.
/// - `column_type`: `TERRACE_I32` or `TERRACE_I64`.
/// - `columns`: the column of each entry, counted from `base`, each at most once in a row. NULL is accepted when there are none.
/// - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
/// - `values`: the value of each entry, finite. AMG also needs a diagonal without zeros, which its set-up checks. NULL is accepted when
///   there are none.
/// - `base`: 0 or 1.
/// - `flags`: `TERRACE_COPY` or `TERRACE_BORROW`, with `| TERRACE_SORTED` as a promise that columns ascend in each row. With
///   `TERRACE_BORROW` nothing is copied, but for columns of `TERRACE_I64`: they are 32-bit inside, so those are narrowed into a copy
///   while offsets and values stay borrowed.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// Each array is on the host or in the memory of the context's GPU, where it is read in the order of the caller's stream, or else after the
/// default stream. A matrix whose values are in device memory stays there and is set up there, copied or borrowed; offsets, and columns that are
/// not `TERRACE_I32` with base 0, are brought into the library's form in any case.
///
/// Values that are borrowed may be changed in place between calls, without a call that says so: set-up and `terrace_solver_solve` check and use
/// them as they are, and `terrace_amg_update` and `terrace_solver_update` take them over. In device memory these need this context.
///
/// Returns when the matrix is checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_MATRIX_STRUCTURE` and `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row, counted from `base`),
/// `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`,
/// `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
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

/// Makes a matrix from coordinates: entries in any order, of which those at the same place are added in the order in which they come, as
/// an assembly leaves them.
///
/// - `context`: not NULL. The matrix does not belong to it.
/// - `rows`, `cols`: 0 to 2147483647.
/// - `count`: number of entries, 0 or more.
/// - `index_type`: `TERRACE_I32` or `TERRACE_I64`.
/// - `row_indices`, `column_indices`: row and column of each entry, counted from `base`.
/// - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
/// - `values`: the value of each entry; the sums are finite.
/// - `base`: 0 or 1.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// Each array is on the host or in the memory of the context's GPU, and copied; NULL is accepted when there are no entries. The matrix is
/// on the host. `terrace_matrix_update_values` takes its values in the order of `terrace_matrix_get_arrays`: rows, and ascending columns.
///
/// Returns when the matrix is made. Errors: as `terrace_matrix_create_csr`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_coo(
    context: *mut terrace_context,
    rows: i64,
    cols: i64,
    count: i64,
    index_type: terrace_type,
    row_indices: *const c_void,
    column_indices: *const c_void,
    value_type: terrace_type,
    values: *const c_void,
    base: i32,
    matrix: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let context = &context.state.context;
        let (rows, cols, _) = Size { names: ["rows", "cols"], rows, cols, block: 1 }.check()?;
        check_base_and_flags(base, TERRACE_COPY)?;
        let Some(count) = usize::try_from(count).ok().filter(|count| *count <= isize::MAX as usize / 16) else {
            return fail!(InvalidArgument, "count is {count}; accepted: 0 or more entries that memory can hold");
        };
        // SAFETY: arrays of `count` elements, as the documentation asks.
        let (row_indices, column_indices) = unsafe {
            let indices = |array, name| LentIndices::new(context, index_type, array, count, name);
            (indices(row_indices, "row_indices")?, indices(column_indices, "column_indices")?)
        };
        let matrix_of = |entry: usize, rows: usize, cols: usize| -> Result<(usize, usize)> {
            let place = |index: i64, size: usize, name: &str| match usize::try_from(index - i64::from(base)) {
                Ok(place) if place < size => Ok(place),
                _ => fail!(
                    MatrixStructure,
                    "{name}[{entry}] is {index}; accepted with base {base}: {base} to {}",
                    size as i64 - 1 + i64::from(base)
                ),
            };
            let row = place(row_indices.at(entry), rows, "row_indices")?;
            Ok((row, place(column_indices.at(entry), cols, "column_indices")?))
        };
        let made = with_precision!(precision("value_type", value_type)?, T => {
            // SAFETY: as above.
            let values = unsafe { Lent::<T>::new(context, values, count, "values") }?;
            let mut triplets = try_capacity(count)?;
            for (entry, value) in values.as_slice().iter().enumerate() {
                let (row, col) = matrix_of(entry, rows, cols)?;
                triplets.push((row, col, *value));
            }
            let a = Csr::from_triplets(rows, cols, &triplets)?;
            drop(triplets);
            context.run(count, || Matrix::from_csr(a))?
        });
        let out = out!(matrix);
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(terrace_matrix::own(made)))) };
        Ok(())
    })
}

/// Makes a matrix from compressed sparse rows of square dense blocks.
///
/// - `context`: not NULL; its threads check and copy the arrays. The matrix does not belong to it.
/// - `block_rows`, `block_cols`: rows and columns of blocks; times `block_size` at most 2147483647.
/// - `block_size`: rows and columns of a block, 1 to 8.
/// - `row_offsets`, `columns`, `base`, `flags`, `matrix` and the types: as in `terrace_matrix_create_csr`, counting blocks.
/// - `values`: `block_size * block_size` values for each block, row by row.
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
            Out::optional(cols).set(matrix.whole_cols() as i64);
            Out::optional(nonzeros).set(matrix.entries() as i64);
            Out::optional(block_size).set(matrix.block().rows as i32);
        }
        Ok(())
    })
}

/// Replaces the values and keeps the structure. The next `terrace_solver_solve` of a solver that was set up with the matrix solves with the
/// new values. Preconditioners take them over with `terrace_amg_update` and `terrace_solver_update`, and stay as they are until then. Nothing
/// is changed on failure.
///
/// - `context`: not NULL; its threads check and copy the values.
/// - `matrix`: not NULL.
/// - `value_type`: as at creation.
/// - `values`: host, or in the memory of the context's GPU, in the order of creation; copied or borrowed as at creation. For values that were borrowed and changed in place, pass
///   the same array: this checks them.
/// - `count`: number of values, all that the matrix stores.
///
/// Returns when the values are checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the row), `TERRACE_ERROR_UNSUPPORTED`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread
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
        let context = &context.state.context;
        if let Some(gpu) = device_arrays::owning_gpu(context, values, "values")?.filter(|gpu| matrix.matrix.is_on(gpu))
        {
            if matrix.matrix.is_stencil_on(gpu) {
                let layout = StencilLayout { by_cell: matrix.by_cell, borrow: matrix.borrow };
                // SAFETY: `entries` values as the documentation asks, kept by the caller when the matrix borrows.
                let values = unsafe { device_arrays::values(gpu, value_type, values, entries, true) }?;
                matrix.matrix.update_device_stencil(values, layout)?;
                return gpu.end_call();
            }
            // SAFETY: as above.
            let values = unsafe { device_arrays::values(gpu, value_type, values, entries, matrix.borrow) }?;
            return matrix.matrix.update_device_values(values);
        }
        // SAFETY: as above.
        let lent = unsafe { LentValues::new(context, value_type, values, entries) }?;
        context.run(entries, || {
            let values = match &matrix.order {
                Some(order) => lent.ordered(None, order)?,
                None => lent.keep(matrix.borrow || matrix.by_cell)?,
            };
            match matrix.matrix.stencil().filter(|_| matrix.by_cell) {
                Some(stencil) => matrix.matrix.update_values(by_offset(&stencil, values, true)?),
                None => matrix.matrix.update_values(values),
            }
        })
    })
}

/// Tells which vectors the matrix maps to almost nothing, for problems whose near-null space is more than the constant. Aggregation
/// represents them exactly on every level. They take effect at the next set-up.
///
/// - `context`: not NULL; receives the sentence of an error.
/// - `matrix`: not NULL.
/// - `dofs_per_node`: unknowns of a node, which are consecutive rows: 1 to 8, the block size when that is more than 1.
/// - `count`: number of vectors, 1 to 8; 0 removes vectors or coordinates that were given before, and the rest is not used.
/// - `vectors`: host, or in the memory of the context's GPU: `count` vectors one after the other, each with an element for every scalar row; copied.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
/// `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
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
        if count == 0 {
            matrix.remove_near_null_space();
            return Ok(());
        }
        let given = || {
            let dofs_per_node = one_to_eight("dofs_per_node", dofs_per_node)?;
            let count = one_to_eight("count", count)?;
            let len = matrix.rows() * count;
            let context = &context.state.context;
            // SAFETY: `count` vectors of all rows, as the documentation asks.
            let vectors = unsafe { Lent::new(context, vectors.cast(), len, "vectors") }?;
            let vectors = match vectors {
                Lent::Fetched(vectors) => vectors,
                Lent::Host(vectors) => context.run(len, || copy(vectors.as_slice(), |v| v))?,
            };
            Ok((dofs_per_node, count, vectors))
        };
        let (dofs_per_node, count, vectors) = matrix.agree(given())?;
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
/// - `coordinates`: host, or in the memory of the context's GPU: `dimension` for each node one after the other: x0 y0 z0 x1 y1 z1 ...; copied.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
/// `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_set_coordinates(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    dimension: i32,
    nodes: i64,
    coordinates: *const f64,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let given = || {
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
            unsafe { Lent::new(&context.state.context, coordinates.cast(), rows, "coordinates") }
        };
        let coordinates = matrix.agree(given())?;
        matrix.set_coordinates(dimension as usize, coordinates.as_slice())
    })
}

/// Names the function that each unknown belongs to, such as one of several displacements or a pressure, whatever the numbering (hypre's SetDofFunc, with
/// SetNumFunctions). Classical coarsening and interpolation then leave out couplings between functions; coarse matrices are made with all. They take effect at the
/// next set-up, where they replace the interleaved numbering of the option "amg.functions", which must be 0 or `count`. "amg.coarsening.type" must be "auto", which
/// is then "pmis", or one of "pmis" and "hmis".
///
/// - `context`: not NULL; receives the sentence of an error.
/// - `matrix`: not NULL.
/// - `count`: how many functions there are, 1 to 64; 0 removes functions that were given before, and the rest is not used.
/// - `functions`: host, or in the memory of the context's GPU: an element for every scalar row, from 0 to `count` - 1; copied.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_CALLBACK` (the communicator of a matrix over ranks, where each rank gives what belongs to its rows, in a collective call),
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each
/// context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_set_functions(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    count: i32,
    functions: *const i32,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        if count == 0 {
            matrix.remove_functions();
            return Ok(());
        }
        let given = || {
            let Ok(count) = usize::try_from(count) else {
                return fail!(InvalidArgument, "count is {count}; accepted: 0 to {MAX_FUNCTIONS}");
            };
            // SAFETY: one function for each row, as the documentation asks.
            let functions =
                unsafe { Lent::<i32>::new(&context.state.context, functions.cast(), matrix.rows(), "functions") }?;
            Ok((count, functions))
        };
        let (count, functions) = matrix.agree(given())?;
        matrix.set_functions(count, functions.as_slice())
    })
}

/// What arrays of rows and columns may be given with.
pub(super) fn check_base_and_flags(base: i32, flags: terrace_matrix_flags) -> Result<()> {
    if base != 0 && base != 1 {
        return fail!(InvalidArgument, "base is {base}; accepted: 0 or 1");
    }
    if flags & !(TERRACE_BORROW | TERRACE_SORTED) != 0 {
        return fail!(
            InvalidArgument,
            "flags is {flags}; accepted: TERRACE_COPY or TERRACE_BORROW, with | TERRACE_SORTED"
        );
    }
    Ok(())
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
    let context = &context.state.context;
    let (rows, cols, block) = size.check()?;
    check_base_and_flags(base, flags)?;
    let (borrow, sorted) = (flags & TERRACE_BORROW != 0, flags & TERRACE_SORTED != 0);
    if let Some(gpu) = device_arrays::owning_gpu(context, arrays.values, "values")? {
        // SAFETY: by this function's contract.
        let matrix = unsafe { device_arrays::matrix(gpu, (rows, cols, block), arrays, base, borrow, sorted) }?;
        // SAFETY: by this function's contract.
        unsafe {
            out.set(Box::into_raw(Box::new(terrace_matrix {
                matrix: Arc::new(matrix),
                borrow,
                by_cell: false,
                order: None,
            })))
        };
        return Ok(());
    }
    // SAFETY: by this function's contract. Columns and values are only as long as the last offset says, which is checked first.
    let (offsets, columns, values) = unsafe {
        let offsets = LentOffsets::new(context, arrays.offset_type, arrays.row_offsets, rows + 1)?;
        let nnz = offsets.entries(rows, cols, base)?;
        let columns = LentColumns::new(context, arrays.column_type, arrays.columns, nnz)?;
        (offsets, columns, LentValues::new(context, arrays.value_type, arrays.values, nnz * block * block)?)
    };
    let matrix = context.run(rows + columns.len() * block * block, || {
        let columns = columns.keep(borrow, &offsets, base)?;
        let offsets = offsets.keep(borrow)?;
        let structure = Structure { rows, cols, block: Block::square(block), offsets, columns, base };
        Matrix::new(structure, values.keep(borrow)?, sorted)
    })?;
    let matrix = terrace_matrix { matrix: Arc::new(matrix), borrow, by_cell: false, order: None };
    // SAFETY: by this function's contract.
    unsafe { out.set(Box::into_raw(Box::new(matrix))) };
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
