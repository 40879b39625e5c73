//! Matrices on structured grids: `terrace_matrix` as a stencil, and the grid of one in rows.

use super::arrays::{LentValues, one_to_eight};
use super::borrow::slice;
use super::boundary::{call, out, required};
use super::device_arrays::{self, owning_gpu};
use super::types::{
    TERRACE_BORROW, TERRACE_BY_CELL, TERRACE_BY_OFFSET, terrace_matrix_flags, terrace_stencil_layout, terrace_type,
};
use super::{terrace_context, terrace_matrix, terrace_status};
use crate::error::{Result, fail};
use crate::matrix::{DeviceStencilMatrix, Matrix, StencilLayout, Values};
use crate::sparse::{Grid, MAX_OFFSETS, Offset, Stencil};
use std::sync::Arc;

/// Makes a matrix on a logically rectangular grid from a stencil, without any index. Everything that takes a matrix takes this one. AMG on it is
/// multigrid for structured grids, unless the option "amg.type" says otherwise.
///
/// - `context`: not NULL; its threads check and copy the values. The matrix does not belong to it.
/// - `dims`: host, three numbers: the cells along x, y and z, each at least 1; a grid in two dimensions has 1 along z. Cell (x, y, z) has the number
///   `x + dims[0] * (y + dims[1] * z)`, and its unknowns are consecutive rows. At most 2147483647 rows.
/// - `periodic`: host, three numbers, not 0 for each axis along which the last cell is a neighbour of the first. NULL for none.
/// - `dofs_per_cell`: unknowns of a cell, 1 to 8; every entry of the stencil is a block of so many rows and columns.
/// - `offsets_count`: offsets of the stencil, 1 to 27.
/// - `offsets`: host, three numbers for each offset: the steps along x, y and z from a cell to its neighbour, each -1, 0 or 1. No offset appears
///   twice. AMG needs the offset (0, 0, 0), the diagonal.
/// - `value_type`: `TERRACE_F64` or `TERRACE_F32`.
/// - `values`: one block for each offset and cell, in the order of `layout`, finite. Blocks that reach outside of the grid are stored, too, and must
///   be zero. On the host, or in the memory of the context's GPU, where they stay and are checked.
/// - `layout`: `TERRACE_BY_OFFSET`: `values[offset][row][column][cell]`, one array over all cells for each entry. `TERRACE_BY_CELL`:
///   `values[cell][offset][row][column]`, all of a cell together; these are brought into the other order.
/// - `flags`: `TERRACE_COPY` or `TERRACE_BORROW`. Only values in the order of `TERRACE_BY_OFFSET` can be borrowed.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// `terrace_matrix_update_values` takes values in the same order. `terrace_matrix_get_arrays` and products of matrices give rows of blocks with
/// column indices, without what reaches outside of the grid.
///
/// Returns when the matrix is checked. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_MATRIX_VALUES` (the sentence names the cell), `TERRACE_ERROR_UNSUPPORTED`,
/// `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_stencil(
    context: *mut terrace_context,
    dims: *const i64,
    periodic: *const i32,
    dofs_per_cell: i32,
    offsets_count: i32,
    offsets: *const i32,
    value_type: terrace_type,
    values: *const std::ffi::c_void,
    layout: terrace_stencil_layout,
    flags: terrace_matrix_flags,
    matrix: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let context = &context.state.context;
        // SAFETY: three numbers each, as the documentation asks.
        let grid = unsafe { grid(dims, periodic) }?;
        let block = one_to_eight("dofs_per_cell", dofs_per_cell)?;
        if !(1..=MAX_OFFSETS as i32).contains(&offsets_count) {
            return fail!(InvalidArgument, "offsets_count is {offsets_count}; accepted: 1 to {MAX_OFFSETS}");
        }
        // SAFETY: three numbers for each offset, as the documentation asks.
        let steps: &[i32] = unsafe { slice(offsets.cast(), 3 * offsets_count as usize, "offsets") }?;
        let stencil = Arc::new(Stencil::new(grid, block, &offsets_of(steps)?)?);
        let (borrow, by_cell) = kept(layout, flags)?;
        let out = out!(matrix);
        if let Some(gpu) = owning_gpu(context, values, "values")? {
            // SAFETY: as many values as the documentation asks, which stay when they are borrowed.
            let values = unsafe { device_arrays::values(gpu, value_type, values, stencil.entries(), true) }?;
            let layout = StencilLayout { by_cell, borrow };
            let made = DeviceStencilMatrix::of_caller(gpu, &stencil, values, layout)?;
            let made = Matrix::stencil_on_device(gpu, made)?;
            // What was launched has read the caller's values.
            gpu.end_call()?;
            let made = terrace_matrix { matrix: Arc::new(made), borrow, by_cell, order: None };
            // SAFETY: not null, and valid for a write as the documentation asks.
            unsafe { out.set(Box::into_raw(Box::new(made))) };
            return Ok(());
        }
        // SAFETY: as above.
        let values = unsafe { LentValues::new(context, value_type, values, stencil.entries()) }?;
        let made = context.run(stencil.entries(), || {
            let values = by_offset(&stencil, values.keep(borrow || by_cell)?, by_cell)?;
            Matrix::on_grid(stencil, values)
        })?;
        let made = terrace_matrix { matrix: Arc::new(made), borrow, by_cell, order: None };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(made))) };
        Ok(())
    })
}

/// Says that the unknowns of a matrix in rows are the cells of a logically rectangular grid, whose couplings reach to neighbours at most. The option
/// "amg.type" then makes AMG on it multigrid for structured grids, unless it says otherwise; products still read the rows. It takes effect at the next set-up.
///
/// - `context`: not NULL; its threads look at the pattern.
/// - `matrix`: not NULL, square, with as many block rows as there are cells.
/// - `dims`, `periodic`: as in `terrace_matrix_create_stencil`. `dims` NULL takes back an earlier grid, and `periodic` is not used.
///
/// Nothing is changed on failure. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`,
/// `TERRACE_ERROR_MATRIX_STRUCTURE` (the sentence names the first row that couples cells which are not neighbours),
/// `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; no other call may use the matrix meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_set_grid(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    dims: *const i64,
    periodic: *const i32,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        if dims.is_null() {
            matrix.set_stencil(None);
            return Ok(());
        }
        // SAFETY: three numbers each, as the documentation asks.
        let grid = unsafe { grid(dims, periodic) }?;
        context.state.context.run(matrix.entries(), || matrix.set_grid(grid))
    })
}

/// The grid that a caller describes.
///
/// # Safety
/// Three numbers each; the second may be null.
unsafe fn grid(dims: *const i64, periodic: *const i32) -> Result<Grid> {
    // SAFETY: by this function's contract.
    let given: &[i64] = unsafe { slice(dims.cast(), 3, "dims") }?;
    let mut grid = Grid::new([0; 3]);
    for (axis, n) in given.iter().enumerate() {
        grid.dims[axis] = match usize::try_from(*n) {
            Ok(n) if n > 0 && n <= i32::MAX as usize => n,
            _ => return fail!(InvalidArgument, "dims[{axis}] is {n}; accepted: 1 to {}", i32::MAX),
        };
    }
    if !periodic.is_null() {
        // SAFETY: by this function's contract.
        let periodic: &[i32] = unsafe { slice(periodic.cast(), 3, "periodic") }?;
        grid.periodic = std::array::from_fn(|axis| periodic[axis] != 0);
    }
    Ok(grid)
}

fn offsets_of(steps: &[i32]) -> Result<Vec<Offset>> {
    let mut offsets = Vec::new();
    for (k, step) in steps.chunks_exact(3).enumerate() {
        if let Some(axis) = step.iter().position(|step| !(-1..=1).contains(step)) {
            return fail!(InvalidArgument, "offsets[{}] is {}; accepted: -1, 0 and 1", 3 * k + axis, step[axis]);
        }
        offsets.push([step[0] as i8, step[1] as i8, step[2] as i8]);
    }
    Ok(offsets)
}

/// Whether values are borrowed, and whether all of a cell are together.
fn kept(layout: terrace_stencil_layout, flags: terrace_matrix_flags) -> Result<(bool, bool)> {
    let by_cell = match layout {
        TERRACE_BY_OFFSET => false,
        TERRACE_BY_CELL => true,
        _ => {
            return fail!(InvalidArgument, "layout is {layout}; accepted: TERRACE_BY_OFFSET, TERRACE_BY_CELL");
        }
    };
    if flags & !TERRACE_BORROW != 0 {
        return fail!(InvalidArgument, "flags is {flags}; accepted: TERRACE_COPY or TERRACE_BORROW");
    }
    let borrow = flags & TERRACE_BORROW != 0;
    if borrow && by_cell {
        return fail!(
            InvalidArgument,
            "flags is TERRACE_BORROW, and layout is TERRACE_BY_CELL, in which values are copied; use TERRACE_COPY, or TERRACE_BY_OFFSET"
        );
    }
    Ok((borrow, by_cell))
}

/// Values of a caller in the order of the library.
pub(super) fn by_offset(stencil: &Stencil, values: Values, by_cell: bool) -> Result<Values> {
    Ok(match values {
        values if !by_cell => values,
        Values::F64(values) => stencil.from_cells(values.as_slice())?.into(),
        Values::F32(values) => stencil.from_cells(values.as_slice())?.into(),
    })
}

#[cfg(feature = "unit-tests")]
mod device_tests;
#[cfg(feature = "unit-tests")]
mod tests;
