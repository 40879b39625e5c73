//! Matrices over ranks in the forms that other libraries hold: blocks, and the two parts of hypre's ParCSR and PETSc's MPIAIJ.

use super::arrays::{LentColumns, LentIndices, LentOffsets, LentValues, entries, one_to_eight};
use super::boundary::{call, out};
use super::communicator::{Given, checked_rows, hand_out};
use super::matrix::{check_base_and_flags, terrace_matrix};
use super::types::{TERRACE_BORROW, TERRACE_SORTED, terrace_matrix_flags, terrace_type};
use super::{terrace_context, terrace_status};
use crate::context::Context;
use crate::error::{Error, Result, fail, try_capacity, try_collect, try_push};
use crate::matrix::GivenRows;
use std::ffi::c_void;

/// Makes a square matrix of blocks of which each rank has contiguous rows of blocks, those of rank 0 first. Collective, and otherwise as
/// `terrace_matrix_create_csr_distributed`. The blocks are stored as scalar rows: near-null space, coordinates, functions and vectors concern these.
///
/// - `context`: not NULL, with a communicator (`terrace_context_set_communicator`).
/// - `total_block_rows`: rows, and columns, of blocks of the whole matrix; the same on all ranks.
/// - `first_block_row`: the first of this rank, counted from `base`.
/// - `block_rows`: rows of blocks of this rank, 0 or more.
/// - `block_size`: rows and columns of a block, 1 to 8; the same on all ranks.
/// - `offset_type`, `row_offsets`, `column_type`, `columns`: as in `terrace_matrix_create_csr_distributed`, for blocks.
/// - `value_type`, `values`: `block_size * block_size` for each block, row by row.
/// - `base`: 0 or 1.
/// - `flags`: `TERRACE_COPY`, also with `TERRACE_SORTED`; values are copied in any case, and `TERRACE_BORROW` is refused.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// `terrace_matrix_update_values` takes the values of this rank as they are given here, and is not collective.
///
/// Returns when the ranks agree. Errors: those of `terrace_matrix_create_csr_distributed`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_bsr_distributed(
    context: *mut terrace_context,
    total_block_rows: i64,
    first_block_row: i64,
    block_rows: i64,
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
        let context = &context.state.context;
        let given = || -> Result<Given> {
            let out = out!(matrix);
            check_base_and_flags(base, flags)?;
            if flags & TERRACE_BORROW != 0 {
                return fail!(Unsupported, "TERRACE_BORROW: blocks over ranks are stored as rows; use TERRACE_COPY");
            }
            let block = one_to_eight("block_size", block_size)?;
            let names = ["total_block_rows", "first_block_row", "block_rows"];
            let [total, first, rows] =
                checked_rows(names, [total_block_rows, first_block_row, block_rows], base, block)?;
            // SAFETY: arrays of the lengths that the documentation asks for.
            let (offsets, columns, values) = unsafe {
                let offsets = LentOffsets::new(context, offset_type, row_offsets, rows + 1)?;
                let blocks = offsets.entries(rows, total, base)?;
                let columns = LentColumns::new(context, column_type, columns, blocks)?;
                let values = LentValues::new(context, value_type, values, blocks * block * block)?;
                (offsets.counted_from_zero(rows, base)?, columns.counted_from_zero(base)?, values)
            };
            check_offsets(&offsets, first + base as usize, "row of blocks")?;
            let (columns, order, offsets) = scalar_rows(&offsets, &columns, block)?;
            let rows = GivenRows {
                total: total * block,
                first: first * block,
                offsets,
                columns,
                values: values.ordered(None, &order)?,
                sorted: flags & TERRACE_SORTED != 0,
                base: base as usize,
            };
            Ok(Given { rows, out, borrow: false, order: Some(order) })
        };
        hand_out(context, given())
    })
}

/// Makes a square matrix of which each rank has contiguous rows in two parts, as hypre's ParCSR and PETSc's MPIAIJ hold them: the columns that
/// are rows of the same rank, and the others, with a map to their numbers in the whole matrix. Collective, and otherwise as
/// `terrace_matrix_create_csr_distributed`. All indices are counted from 0, and all arrays are copied.
///
/// - `context`: not NULL, with a communicator (`terrace_context_set_communicator`).
/// - `total_rows`: rows, and columns, of the whole matrix; the same on all ranks.
/// - `first_row`: the first row of this rank.
/// - `rows`: rows of this rank, 0 or more.
/// - `index_type`: of offsets and columns of both parts, `TERRACE_I32` or `TERRACE_I64`.
/// - `diagonal_offsets`, `diagonal_columns`: host or device; the first part. Column 0 is the first row of this rank. Columns need no order.
/// - `off_diagonal_offsets`, `off_diagonal_columns`: the second part. Column k is `column_map[k]`.
/// - `map_count`: columns of the second part; those that no row has are fine.
/// - `map_type`, `column_map`: their numbers in the whole matrix, none of which belongs to this rank, in any order.
/// - `value_type`, `diagonal_values`, `off_diagonal_values`: the values of both, in the same format on all ranks.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// A part without entries may have NULL for columns and values. Results are those of the same rows in one part, to the bit.
/// `terrace_matrix_update_values` takes the values of the first part followed by those of the second, and is not collective.
///
/// Returns when the ranks agree. Errors: those of `terrace_matrix_create_csr_distributed`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_parcsr(
    context: *mut terrace_context,
    total_rows: i64,
    first_row: i64,
    rows: i64,
    index_type: terrace_type,
    diagonal_offsets: *const c_void,
    diagonal_columns: *const c_void,
    off_diagonal_offsets: *const c_void,
    off_diagonal_columns: *const c_void,
    map_count: i64,
    map_type: terrace_type,
    column_map: *const c_void,
    value_type: terrace_type,
    diagonal_values: *const c_void,
    off_diagonal_values: *const c_void,
    matrix: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let context = &context.state.context;
        let given = || -> Result<Given> {
            let out = out!(matrix);
            let names = ["total_rows", "first_row", "rows"];
            let [total, first, rows] = checked_rows(names, [total_rows, first_row, rows], 0, 1)?;
            let most = (total - rows).min(i32::MAX as usize) as i64;
            if !(0..=most).contains(&map_count) {
                return fail!(InvalidArgument, "map_count is {map_count}; accepted: 0 to {most}");
            }
            let count = map_count as usize;
            // SAFETY: an array of the length that the documentation asks for.
            let map = unsafe { LentIndices::new(context, map_type, column_map, count, "column_map") }?;
            let map = try_collect((0..count).map(|k| map.at(k)))?;
            let outside = |j: &i64| usize::try_from(*j).is_ok_and(|j| j < total && !(first..first + rows).contains(&j));
            if let Some(k) = (0..count).find(|k| !outside(&map[*k])) {
                return fail!(
                    MatrixStructure,
                    "column_map[{k}] is {}; accepted: 0 to {}, but for rows {first} to {} of this rank",
                    map[k],
                    total as i64 - 1,
                    (first + rows) as i64 - 1
                );
            }
            let in_part = |name: &'static str| {
                move |error: Error| Error::new(error.status, format!("the {name} part: {}", error.message))
            };
            // SAFETY: arrays of the lengths that the documentation asks for.
            let (own, others) = unsafe {
                let types = (index_type, value_type);
                (
                    Part::new(
                        context,
                        types,
                        [diagonal_offsets, diagonal_columns, diagonal_values],
                        (first, rows, rows),
                    )
                    .map_err(in_part("diagonal"))?,
                    Part::new(
                        context,
                        types,
                        [off_diagonal_offsets, off_diagonal_columns, off_diagonal_values],
                        (first, rows, count),
                    )
                    .map_err(in_part("off-diagonal"))?,
                )
            };
            let (columns, order, offsets) = merged(&own, &others, first, &map)?;
            let values = own.values.ordered(Some(&others.values), &order)?;
            let rows = GivenRows { total, first, offsets, columns, values, sorted: true, base: 0 };
            Ok(Given { rows, out, borrow: false, order: Some(order) })
        };
        hand_out(context, given())
    })
}

/// Refuses offsets that decrease.
fn check_offsets(offsets: &[i64], first: usize, what: &str) -> Result<()> {
    match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(i) => fail!(MatrixStructure, "{what} {} ends before it begins; row offsets must not decrease", first + i),
        None => Ok(()),
    }
}

/// Entries that a rank can have here.
fn check_count(entries: usize) -> Result<()> {
    match u32::try_from(entries) {
        Ok(_) => Ok(()),
        Err(_) => fail!(Unsupported, "{entries} values on one rank; accepted in this form: at most {}", u32::MAX),
    }
}

/// Columns and offsets of scalar rows, and for each value its place among those of the blocks.
fn scalar_rows(offsets: &[i64], columns: &[i64], block: usize) -> Result<(Vec<i64>, Vec<u32>, Vec<i64>)> {
    let size = block * block;
    check_count(columns.len().saturating_mul(size))?;
    let (mut of_rows, mut order) = (try_capacity(columns.len() * size)?, try_capacity(columns.len() * size)?);
    let mut ends = try_capacity((offsets.len() - 1) * block + 1)?;
    ends.push(0);
    for row in offsets.windows(2) {
        for i in 0..block {
            let begin = row[0] as usize;
            for (k, column) in columns[begin..row[1] as usize].iter().enumerate() {
                let (first, place) = (column.saturating_mul(block as i64), (begin + k) * size + i * block);
                of_rows.extend((0..block).map(|j| first.saturating_add(j as i64)));
                order.extend((0..block).map(|j| (place + j) as u32));
            }
            ends.push(of_rows.len() as i64);
        }
    }
    Ok((of_rows, order, ends))
}

/// One part of the rows of a rank.
struct Part {
    offsets: Vec<i64>,
    columns: LentIndices,
    values: LentValues,
}

impl Part {
    /// Of offsets, columns and values, for rows from `first` on with columns below `cols`.
    ///
    /// # Safety
    /// The arrays are as long as the offsets say, or null.
    unsafe fn new(
        context: &Context,
        (index_type, value_type): (terrace_type, terrace_type),
        [offsets, columns, values]: [*const c_void; 3],
        (first, rows, cols): (usize, usize, usize),
    ) -> Result<Part> {
        // SAFETY: by this function's contract.
        let part = unsafe {
            let offsets = LentIndices::new(context, index_type, offsets, rows + 1, "offsets")?;
            let count = entries((offsets.at(0), offsets.at(rows)), rows, cols, 0)?;
            let offsets = try_collect((0..=rows).map(|i| offsets.at(i)))?;
            let columns = LentIndices::new(context, index_type, columns, count, "columns")?;
            Part { offsets, columns, values: LentValues::new(context, value_type, values, count)? }
        };
        check_offsets(&part.offsets, first, "row")?;
        let inside = |k: usize| usize::try_from(part.columns.at(k)).is_ok_and(|j| j < cols);
        if let Some(k) = (0..part.len()).find(|k| !inside(*k)) {
            let row = first + part.offsets.partition_point(|offset| *offset <= k as i64) - 1;
            return fail!(MatrixStructure, "row {row} has column {} of {cols}", part.columns.at(k));
        }
        Ok(part)
    }

    fn len(&self) -> usize {
        self.offsets.last().map_or(0, |end| *end as usize)
    }
}

/// Columns and offsets of the rows in the order of their columns, and for each value its place among those of both parts.
fn merged(own: &Part, others: &Part, first: usize, map: &[i64]) -> Result<(Vec<i64>, Vec<u32>, Vec<i64>)> {
    let total = own.len() + others.len();
    check_count(total)?;
    let (mut columns, mut order) = (try_capacity(total)?, try_capacity(total)?);
    let mut offsets = try_capacity(own.offsets.len())?;
    offsets.push(0);
    let mut row: Vec<(i64, u32)> = Vec::new();
    for (of_own, of_others) in own.offsets.windows(2).zip(others.offsets.windows(2)) {
        row.clear();
        for k in of_own[0]..of_own[1] {
            try_push(&mut row, (own.columns.at(k as usize) + first as i64, k as u32))?;
        }
        for k in of_others[0]..of_others[1] {
            let column = map[others.columns.at(k as usize) as usize];
            try_push(&mut row, (column, (own.len() + k as usize) as u32))?;
        }
        row.sort_unstable();
        columns.extend(row.iter().map(|(column, _)| *column));
        order.extend(row.iter().map(|(_, place)| *place));
        offsets.push(columns.len() as i64);
    }
    Ok((columns, order, offsets))
}
