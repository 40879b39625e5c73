//! `terrace_matrix`: the caller's CSR or BSR arrays, described, checked, and copied or borrowed.

use super::arrays::{Arrays, LentColumns, LentIndices, LentOffsets, LentValues, Size, one_to_eight};
use super::borrow::{Lent, copy};
use super::boundary::{self, Out, call, out, required};
use super::device_arrays;
use super::types::{TERRACE_BORROW, TERRACE_SORTED, precision, terrace_matrix_flags, terrace_type};
use super::{terrace_context, terrace_status};
use crate::backend::parameters::MAX_FUNCTIONS;
use crate::error::{Result, fail, try_capacity};
use crate::matrix::Matrix;
use crate::scalar::with_precision;
use crate::sparse::{Block, Csr, Storage, Structure};
use std::ffi::c_void;
use std::sync::Arc;

/// A sparse matrix. It does not belong to a context: any number of contexts, solvers and threads may use it at once, as long as nobody
/// changes or destroys it meanwhile. What was set up with it keeps what it needs when it is destroyed; borrowed arrays must stay.
pub struct terrace_matrix {
    pub(super) matrix: Arc<Matrix>,
    borrow: bool,
}

impl terrace_matrix {
    /// A matrix whose arrays are the library's.
    pub(super) fn own(matrix: Matrix) -> terrace_matrix {
        terrace_matrix { matrix: Arc::new(matrix), borrow: false }
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
/// Values that are borrowed may be changed in place between calls, without a call that says so: `terrace_solver_solve` looks at them, and
/// `terrace_amg_update` and `terrace_solver_update` take them over. In device memory these need this context.
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
        if base != 0 && base != 1 {
            return fail!(InvalidArgument, "base is {base}; accepted: 0 or 1");
        }
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
            Out::optional(cols).set(matrix.cols() as i64);
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
            // SAFETY: `entries` values as the documentation asks, kept by the caller when the matrix borrows.
            let values = unsafe { device_arrays::values(gpu, value_type, values, entries, matrix.borrow) }?;
            return matrix.matrix.update_device_values(values);
        }
        // SAFETY: as above.
        let lent = unsafe { LentValues::new(context, value_type, values, entries) }?;
        context.run(entries, || matrix.matrix.update_values(lent.keep(matrix.borrow)?))
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
        let dofs_per_node = one_to_eight("dofs_per_node", dofs_per_node)?;
        let count = one_to_eight("count", count)?;
        let len = matrix.rows() * count;
        // SAFETY: `count` vectors of all rows, as the documentation asks.
        let context = &context.state.context;
        let vectors = unsafe { Lent::new(context, vectors.cast(), len, "vectors") }?;
        let vectors = match vectors {
            Lent::Fetched(vectors) => vectors,
            Lent::Host(vectors) => context.run(len, || copy(vectors.as_slice(), |v| v))?,
        };
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
        let coordinates = unsafe { Lent::new(&context.state.context, coordinates.cast(), rows, "coordinates") }?;
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
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each
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
        let Ok(count) = usize::try_from(count) else {
            return fail!(InvalidArgument, "count is {count}; accepted: 0 to {MAX_FUNCTIONS}");
        };
        // SAFETY: one function for each row, as the documentation asks.
        let functions =
            unsafe { Lent::<i32>::new(&context.state.context, functions.cast(), matrix.rows(), "functions") }?;
        matrix.set_functions(count, functions.as_slice())
    })
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
    if let Some(gpu) = device_arrays::owning_gpu(context, arrays.values, "values")? {
        // SAFETY: by this function's contract.
        let matrix = unsafe { device_arrays::matrix(gpu, (rows, cols, block), arrays, base, borrow, sorted) }?;
        // SAFETY: by this function's contract.
        unsafe { out.set(Box::into_raw(Box::new(terrace_matrix { matrix: Arc::new(matrix), borrow }))) };
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
    let matrix = terrace_matrix { matrix: Arc::new(matrix), borrow };
    // SAFETY: by this function's contract.
    unsafe { out.set(Box::into_raw(Box::new(matrix))) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use crate::matrix::Values;
    use std::ptr::{null, null_mut};

    fn inner(matrix: *mut terrace_matrix) -> Arc<Matrix> {
        // SAFETY: tests pass a matrix that is alive.
        unsafe { Arc::clone(&(*matrix).matrix) }
    }

    #[test]
    fn entries_in_any_order_are_added_up() {
        let context = TestContext::new();
        let (rows, cols, values) = ([1_i64, 2, 1, 2, 1], [2_i64, 2, 1, 2, 2], [1.0, 2.0, 4.0, 3.0, 0.5]);
        let make = |count: i64, base: i32, rows: &[i64]| {
            let (mut made, i, f) = (null_mut(), TERRACE_I64, TERRACE_F64);
            let (r, c, v) = (rows.as_ptr().cast(), cols.as_ptr().cast(), values.as_ptr().cast());
            let status = abi!(terrace_matrix_create_coo(context.0, 2, 2, count, i, r, c, f, v, base, &mut made));
            (status, made)
        };
        let (status, made) = make(5, 1, &rows);
        assert_eq!(status, 0, "{}", context.last_error());
        let a = inner(made).shared::<f64>().unwrap();
        assert_eq!((a.values.as_slice(), a.structure.columns.as_slice()), (&[4.0, 1.5, 5.0][..], &[0, 1, 1][..]));
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        let (status, made) = make(0, 0, &rows);
        assert_eq!((status, inner(made).entries()), (0, 0));
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);

        let refused = |(status, _): (terrace_status, *mut terrace_matrix), expected: Status, text: &str| {
            assert_eq!(status, expected.code());
            assert!(context.last_error().contains(text), "{}", context.last_error());
        };
        refused(make(5, 0, &rows), Status::MatrixStructure, "column_indices[0] is 2; accepted with base 0: 0 to 1");
        refused(
            make(5, 1, &[1, 2, 0, 2, 1]),
            Status::MatrixStructure,
            "row_indices[2] is 0; accepted with base 1: 1 to 2",
        );
        refused(make(-1, 1, &rows), Status::InvalidArgument, "count is -1");
        refused(make(5, 2, &rows), Status::InvalidArgument, "base is 2");
    }

    /// [4 1; 0 5] in every combination of types, base and flags, scalar and as one block.
    #[test]
    fn every_combination_of_types_gives_the_same_matrix() {
        let context = TestContext::new();
        for case in 0..64 {
            let bit = |i: i32| case >> i & 1 == 1;
            let (wide_offsets, wide_columns, single, base, flags, bsr) =
                (bit(0), bit(1), bit(2), case >> 3 & 1, u32::from(bit(4)) | TERRACE_SORTED, bit(5));
            let offsets: Vec<i32> = (if bsr { vec![0, 1] } else { vec![0, 2, 3] }).iter().map(|o| o + base).collect();
            let columns: Vec<i32> = (if bsr { vec![0] } else { vec![0, 1, 1] }).iter().map(|c| c + base).collect();
            let values = if bsr { vec![4.0, 1.0, 0.0, 5.0] } else { vec![4.0, 1.0, 5.0] };
            let offsets64: Vec<i64> = offsets.iter().map(|o| i64::from(*o)).collect();
            let columns64: Vec<i64> = columns.iter().map(|c| i64::from(*c)).collect();
            let values32: Vec<f32> = values.iter().map(|v| *v as f32).collect();
            let o: (_, *const c_void) = match wide_offsets {
                true => (TERRACE_I64, offsets64.as_ptr().cast()),
                false => (TERRACE_I32, offsets.as_ptr().cast()),
            };
            let c: (_, *const c_void) = match wide_columns {
                true => (TERRACE_I64, columns64.as_ptr().cast()),
                false => (TERRACE_I32, columns.as_ptr().cast()),
            };
            let v: (_, *const c_void) = match single {
                true => (TERRACE_F32, values32.as_ptr().cast()),
                false => (TERRACE_F64, values.as_ptr().cast()),
            };

            let mut made = null_mut();
            let ctx = context.0;
            let status = match bsr {
                true => {
                    abi!(terrace_matrix_create_bsr(ctx, 1, 1, 2, o.0, o.1, c.0, c.1, v.0, v.1, base, flags, &mut made))
                }
                false => {
                    abi!(terrace_matrix_create_csr(ctx, 2, 2, o.0, o.1, c.0, c.1, v.0, v.1, base, flags, &mut made))
                }
            };
            assert_eq!(status, 0, "case {case}: {}", context.last_error());
            let (mut rows, mut cols, mut nonzeros, mut block) = (0, 0, 0, 0);
            assert_eq!(abi!(terrace_matrix_get_size(ctx, made, &mut rows, &mut cols, &mut nonzeros, &mut block)), 0);
            assert_eq!((rows, cols, nonzeros, block), (2, 2, values.len() as i64, if bsr { 2 } else { 1 }));

            let shared = inner(made).shared::<f64>().unwrap();
            let scalar = shared.view().to_owned_as::<f64>().unwrap().view().to_scalar().unwrap();
            let dense: Vec<f64> =
                (0..2).flat_map(|i| (0..2).map(move |j| (i, j))).map(|(i, j)| entry(&scalar, i, j)).collect();
            assert_eq!(dense, [4.0, 1.0, 0.0, 5.0], "case {case}");

            let borrowed = flags & TERRACE_BORROW != 0;
            let owned = inner(made).structure().unwrap().owned_bytes();
            assert_eq!(owned == 0, borrowed && !wide_columns, "case {case}");
            if let Values::F64(kept) = inner(made).values().unwrap() {
                assert_eq!(std::ptr::eq(kept.as_slice().as_ptr(), values.as_ptr()), borrowed);
            }
            assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        }
    }

    fn entry(a: &crate::sparse::Csr<f64>, i: usize, j: usize) -> f64 {
        a.view().row(i).filter(|(column, _)| *column == j).map(|(_, value)| value[0]).sum()
    }

    #[test]
    fn bad_arrays_are_refused_with_the_argument_or_the_row() {
        let context = TestContext::new();
        let refused = |offsets: &[i32], columns: &[i32], values: &[f64], base, flags, status: Status, text: &str| {
            let code = csr(&context, offsets, columns, values, base, flags).unwrap_err();
            assert_eq!(code, status.code(), "{}", context.last_error());
            assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
        };
        let (ones, structure) = (&[1.0; 2], Status::MatrixStructure);

        refused(&[1, 1, 2], &[0, 1], ones, 0, 0, structure, "row_offsets[0] is 1");
        refused(&[0, 1, -5], &[0, 1], ones, 0, 0, structure, "row_offsets[2] is -5");
        refused(&[0, 1, i32::MAX], &[0, 1], ones, 0, 0, structure, "row_offsets[2] is 2147483647");
        refused(&[0, i32::MAX, 2], &[0, 1], ones, 0, 0, structure, "decrease at row 1");
        refused(&[0, i32::MIN, 2], &[0, 1], ones, 0, 0, structure, "decrease at row 0");
        refused(&[1, 2, 3], &[1, 3], ones, 1, 0, structure, "row 2 has column 3");
        refused(&[0, 1, 2], &[0, 1], ones, 2, 0, Status::InvalidArgument, "base is 2");
        refused(&[0, 1, 2], &[0, 1], ones, 0, 8, Status::InvalidArgument, "flags is 8");
        refused(&[0, 1, 2], &[0, 1], &[1.0, f64::NAN], 0, 0, Status::MatrixValues, "row 1, column 1 holds NaN");
        refused(&[0, 2, 3], &[1, 0, 1], &[1.0; 3], 0, 2, structure, "do not ascend");
    }

    #[test]
    fn bad_scalars_and_pointers_are_named() {
        let context = TestContext::new();
        let (offsets, columns, values) = ([0_i32, 1], [0_i64], [1.0]);
        let (o, c, v): (*const c_void, *const c_void, *const c_void) =
            (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let mut made = null_mut();
        let mut refused = |rows, block, o_type, o, c, v_type, v, text: &str| {
            let (c_type, ctx) = (TERRACE_I64, context.0);
            let code =
                abi!(terrace_matrix_create_bsr(ctx, rows, 1, block, o_type, o, c_type, c, v_type, v, 0, 0, &mut made));
            assert!(code < 0 && made.is_null());
            assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
        };

        refused(-1, 1, TERRACE_I32, o, c, TERRACE_F64, v, "block_rows is -1");
        refused(1 << 31, 1, TERRACE_I32, o, c, TERRACE_F64, v, "block_rows is 2147483648; accepted: 0 to 2147483647");
        refused(1, 9, TERRACE_I32, o, c, TERRACE_F64, v, "block_size is 9");
        refused(1, 1, TERRACE_F64, o, c, TERRACE_F64, v, "offset_type is TERRACE_F64");
        refused(1, 1, TERRACE_I32, o, c, TERRACE_F16, v, "value_type is TERRACE_F16");
        refused(1, 1, TERRACE_I32, null(), c, TERRACE_F64, v, "row_offsets is null");
        refused(1, 1, TERRACE_I32, o, null(), TERRACE_F64, v, "columns is null");
        refused(1, 1, TERRACE_I32, o, c, TERRACE_F64, null(), "values is null");
        refused(1, 1, TERRACE_I32, o.wrapping_byte_add(2), c, TERRACE_F64, v, "row_offsets is not aligned");

        let far = [0_i64, 5_000_000_000];
        let two = [0_i32, 1, 2];
        let code = abi!(terrace_matrix_create_csr(
            context.0,
            2,
            2,
            TERRACE_I32,
            two.as_ptr().cast(),
            TERRACE_I64,
            far.as_ptr().cast(),
            TERRACE_F64,
            [1.0, 1.0].as_ptr().cast(),
            0,
            0,
            &mut made
        ));
        assert_eq!(code, Status::MatrixStructure.code());
        assert!(context.last_error().contains("row 1 has column 5000000000"), "{}", context.last_error());
        let no_place = abi!(terrace_matrix_get_size(context.0, null(), null_mut(), null_mut(), null_mut(), null_mut()));
        assert_eq!((no_place, context.last_error()), (Status::NullArgument.code(), "matrix is null".to_string()));
    }

    #[test]
    fn an_empty_matrix_needs_no_columns_and_values() {
        let context = TestContext::new();
        let made = csr(&context, &[1], &[], &[], 1, TERRACE_BORROW).unwrap();
        assert_eq!(inner(made).entries(), 0);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }

    #[test]
    fn values_are_replaced_as_they_were_taken() {
        let context = TestContext::new();
        let (offsets, columns) = ([0, 1, 2], [0, 1]);
        let first = [1.0, 2.0];
        for flags in [TERRACE_COPY, TERRACE_BORROW] {
            let made = csr(&context, &offsets, &columns, &first, 0, flags).unwrap();
            let second = [3.0, 4.0];
            let pointer: *const c_void = second.as_ptr().cast();
            assert_eq!(abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer, 2)), 0);
            let Values::F64(kept) = inner(made).values().unwrap() else { unreachable!("the matrix is f64") };
            assert_eq!(kept.as_slice(), second);
            assert_eq!(std::ptr::eq(kept.as_slice().as_ptr(), second.as_ptr()), flags == TERRACE_BORROW);

            let short = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer, 1));
            assert_eq!(short, Status::SizeMismatch.code());
            let other = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F32, pointer, 2));
            assert_eq!(other, Status::InvalidArgument.code());
            let bad = [f64::INFINITY, 1.0];
            let bad = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, bad.as_ptr().cast(), 2));
            assert_eq!(bad, Status::MatrixValues.code());
            let Values::F64(kept) = inner(made).values().unwrap() else { unreachable!("the matrix is f64") };
            assert_eq!(kept.as_slice(), second);
            assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        }
    }

    #[test]
    fn functions_are_checked_and_removed() {
        for device in [c"host:1", c"sim"] {
            let context = TestContext::on(device);
            let made = laplacian(&context, 3);
            let set = |count, p: *const i32| abi!(terrace_matrix_set_functions(context.0, made, count, p));
            let (right, wrong) = ([0, 1, 0], [0, 1, 2]);
            assert_eq!(set(2, right.as_ptr()), 0);
            assert_eq!(inner(made).functions().unwrap().of, [0, 1, 0]);
            assert_eq!(set(2, wrong.as_ptr()), Status::InvalidArgument.code());
            assert!(context.last_error().contains("functions[2] is 2; accepted: 0 to 1"), "{}", context.last_error());
            for count in [-1, 65] {
                assert_eq!(set(count, right.as_ptr()), Status::InvalidArgument.code());
                assert!(context.last_error().contains(&format!("count is {count}")), "{}", context.last_error());
            }
            assert_eq!(set(2, null()), Status::NullArgument.code());
            assert_eq!(inner(made).functions().unwrap().count, 2);
            assert_eq!(set(0, null()), 0);
            assert!(inner(made).functions().is_none());
            if device == c"sim" {
                let there = context.gpu().upload(&right).unwrap();
                assert_eq!(set(2, pointer(&there).cast()), 0, "{}", context.last_error());
                assert_eq!(inner(made).functions().unwrap().of, [0, 1, 0]);
            }
            assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        }
    }

    #[test]
    fn near_null_space_and_coordinates_are_checked_before_they_are_read() {
        let context = TestContext::new();
        let made = laplacian(&context, 4);
        let numbers = [1.0_f64; 8];
        let p = numbers.as_ptr();
        assert_eq!(abi!(terrace_matrix_set_near_null_space(context.0, made, 2, 2, p)), 0);
        assert_eq!(abi!(terrace_matrix_set_coordinates(context.0, made, 2, 2, p)), 0);
        assert_eq!(inner(made).near_null_space().unwrap().count, 3);

        let space = |dofs, count, p| abi!(terrace_matrix_set_near_null_space(context.0, made, dofs, count, p));
        assert_eq!(space(2, 99, p), Status::InvalidArgument.code());
        assert_eq!(space(-1, 1, p), Status::InvalidArgument.code());
        assert_eq!(space(1, 1, null()), Status::NullArgument.code());
        let coordinates = |dimension, nodes| abi!(terrace_matrix_set_coordinates(context.0, made, dimension, nodes, p));
        assert_eq!(coordinates(4, 1), Status::InvalidArgument.code());
        assert_eq!(coordinates(2, i64::MAX), Status::SizeMismatch.code());
        assert_eq!(inner(made).near_null_space().unwrap().count, 3);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}
