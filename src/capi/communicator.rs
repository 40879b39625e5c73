//! `terrace_communicator`: the ranks of a caller's program, and a matrix of which each rank has rows.

mod table;
mod thread_table;

use super::arrays::{LentColumns, LentOffsets, LentValues};
use super::boundary::{Out, call, guard, null, out};
use super::matrix::{check_base_and_flags, terrace_matrix};
use super::types::{TERRACE_BORROW, TERRACE_SORTED, terrace_matrix_flags, terrace_type};
use super::{terrace_context, terrace_status};
use crate::context::Context;
use crate::error::{Result, fail};
use crate::matrix::{GivenRows, Matrix};
use std::ffi::c_void;
use std::sync::Arc;
use table::Table;

/// Gives the rank or the number of ranks.
pub type terrace_rank_callback = Option<unsafe extern "C" fn(user: *mut c_void) -> i32>;

/// Begins to send a message. The bytes stay until `wait_all` of the request has returned.
pub type terrace_send_callback = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        data: *const c_void,
        bytes: usize,
        to: i32,
        tag: i32,
        request: *mut *mut c_void,
    ) -> i32,
>;

/// Begins to receive a message of so many bytes, which are written when `wait_all` of the request returns.
pub type terrace_receive_callback = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        data: *mut c_void,
        bytes: usize,
        from: i32,
        tag: i32,
        request: *mut *mut c_void,
    ) -> i32,
>;

/// Waits for all of these requests. Once it has returned, also with an error, none of them writes to its bytes any more: these are then freed.
pub type terrace_wait_all_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, count: i32, requests: *mut *mut c_void) -> i32>;

/// Reduces each of `count` numbers over all ranks, by `TERRACE_SUM`, `TERRACE_MIN` or `TERRACE_MAX`.
pub type terrace_all_reduce_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, own: *const i64, all: *mut i64, count: i32, operation: i32) -> i32>;

/// Gathers the bytes of all ranks: those of rank r are `lengths[r]` and go to `all + offsets[r]`.
pub type terrace_all_gather_callback = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        own: *const c_void,
        bytes: usize,
        all: *mut c_void,
        lengths: *const usize,
        offsets: *const usize,
    ) -> i32,
>;

/// Returns when every rank has called it.
pub type terrace_barrier_callback = Option<unsafe extern "C" fn(user: *mut c_void) -> i32>;

/// Makes a communicator of the same ranks, whose messages do not meet those of this one, in `copy`, which is a
/// `terrace_communicator *`.
pub type terrace_duplicate_callback = Option<unsafe extern "C" fn(user: *mut c_void, copy: *mut c_void) -> i32>;

/// Ends the use of a communicator, or makes it fail on all ranks.
pub type terrace_end_callback = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Lets each later wait of this rank take at most so many seconds; 0 is without end.
pub type terrace_timeout_callback = Option<unsafe extern "C" fn(user: *mut c_void, seconds: f64) -> i32>;

/// The sum of numbers.
pub const TERRACE_SUM: i32 = 0;
/// The smallest number.
pub const TERRACE_MIN: i32 = 1;
/// The largest number.
pub const TERRACE_MAX: i32 = 2;

/// Communication of the ranks of a program, as a table of functions. `include/terrace_mpi.h` fills it for an MPI communicator,
/// `terrace_threads_communicator` for the threads of one process. Each function gets `user`. Where a function returns a number other than 0,
/// the call of the library fails with `TERRACE_ERROR_CALLBACK`, and the communicator is of no more use; nothing is aborted.
///
/// The functions are called on the thread that called the library; with a context of several threads, those of set-up on one of these, while
/// the caller waits. No two are called at a time, but for `free`. `send`, `receive` and `wait_all` concern two ranks; messages
/// between two of them with one tag arrive in the order in which they were sent. The others but `rank`, `size`, `revoke`, `timeout` and `free` are
/// collective: every rank calls them, in the same order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct terrace_communicator {
    /// Handed to each function as it is.
    pub user: *mut c_void,
    /// This rank, from 0 on.
    pub rank: terrace_rank_callback,
    /// The number of ranks.
    pub size: terrace_rank_callback,
    /// Begins to send.
    pub send: terrace_send_callback,
    /// Begins to receive.
    pub receive: terrace_receive_callback,
    /// Waits for messages.
    pub wait_all: terrace_wait_all_callback,
    /// Reduces numbers.
    pub all_reduce: terrace_all_reduce_callback,
    /// Gathers bytes.
    pub all_gather: terrace_all_gather_callback,
    /// Waits for all ranks.
    pub barrier: terrace_barrier_callback,
    /// Makes another communicator.
    pub duplicate: terrace_duplicate_callback,
    /// Called when this rank cannot go on: what other ranks wait for in this communicator then fails, now and later, as do the messages of this
    /// rank that are under way. NULL where that cannot be done; a failure on one rank may then leave it and the others waiting.
    pub revoke: terrace_end_callback,
    /// Frees what `user` leads to.
    pub free: terrace_end_callback,
    /// Called before set-up and solves with the seconds of the option `comm.timeout`: what takes longer then fails, on this rank and on the
    /// others. NULL where that cannot be done; the option is then refused.
    pub timeout: terrace_timeout_callback,
}

/// Makes communicators whose ranks are threads of this process: for tests, and for programs without MPI. Each rank is used by one thread, with
/// a context of its own; see `terrace_context_set_communicator`.
///
/// - `size`: number of ranks, 1 to 1024.
/// - `ranks`: host, `size` tables, written on success. Free each with its `free` function when contexts no longer need it.
///
/// What a rank that was freed would have had to answer fails on the others with `TERRACE_ERROR_CALLBACK`.
///
/// Returns at once. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`; their sentence is read with
/// `terrace_last_error(NULL, ...)` on the same thread. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_threads_communicator(size: i32, ranks: *mut terrace_communicator) -> terrace_status {
    guard(None, || {
        if !(1..=1024).contains(&size) {
            return fail!(InvalidArgument, "size is {size}; accepted: 1 to 1024 ranks");
        }
        if ranks.is_null() {
            return null("ranks");
        }
        for (rank, table) in thread_table::all(size as usize).into_iter().enumerate() {
            // SAFETY: as many tables as there are ranks, as the documentation asks.
            unsafe { ranks.add(rank).write(table) };
        }
        Ok(())
    })
}

/// Makes a context that of one rank of a communicator. Collective: every rank calls it. What is made from the context later may be spread over
/// the ranks.
///
/// - `context`: not NULL. On a GPU set-up and solves run on the device, FSAI is set up on the host; ranks may share a device.
/// - `communicator`: host, duplicated with its own function; NULL makes it a context without ranks again.
///
/// Returns when all ranks have called it. Errors: `TERRACE_ERROR_NULL_ARGUMENT` (also a function of the table, other than `revoke` and `timeout`),
/// `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_CALLBACK`, `TERRACE_ERROR_OUT_OF_MEMORY`. One
/// thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_context_set_communicator(
    context: *mut terrace_context,
    communicator: *const terrace_communicator,
) -> terrace_status {
    call!(context, |context| {
        let context = &context.state.context;
        // SAFETY: null or valid, as the documentation asks.
        match unsafe { communicator.as_ref() } {
            None => context.set_communicator(None),
            // SAFETY: the functions are those that the documentation of the table describes.
            Some(table) => context.set_communicator(Some(&*unsafe { Table::lent(table) }?)),
        }
    })
}

/// Makes a square matrix of which each rank has contiguous rows, those of rank 0 first. Collective: every rank of the context's communicator
/// calls it, and where it fails on one it fails on all. A rank may have no rows.
///
/// - `context`: not NULL, with a communicator (`terrace_context_set_communicator`); the matrix keeps using that.
/// - `total_rows`: rows, and columns, of the whole matrix; the same on all ranks. Preconditioners need at most 2147483647.
/// - `first_row`: the first row of this rank, counted from `base`.
/// - `rows`: rows of this rank, 0 or more.
/// - `offset_type`, `row_offsets`: as in `terrace_matrix_create_csr`, for the rows of this rank: the first offset is `base`.
/// - `column_type`, `columns`: the columns in the whole matrix, counted from `base`, `TERRACE_I32` or `TERRACE_I64`.
/// - `value_type`, `values`: the values, in the same format on all ranks.
/// - `base`: 0 or 1.
/// - `flags`: as in `terrace_matrix_create_csr`; `TERRACE_BORROW` concerns the values, and pattern arrays are copied in any case.
/// - `matrix`: host, written on success; destroy it with `terrace_matrix_destroy`.
///
/// A solver that is set up with it is collective in set-up, update and solve, and so are `terrace_amg` and `terrace_fsai`, with vectors that hold the rows of this rank. Results have the
/// same bits for any number of ranks. What is not there over ranks is refused with `TERRACE_ERROR_UNSUPPORTED`; `docs/distributed.md` has a
/// list. `terrace_matrix_get_size` gives the rows of this rank and the columns of the whole. `terrace_matrix_update_values` takes the values of
/// this rank, and is not collective.
///
/// Returns when the ranks agree. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP` (no
/// communicator), `TERRACE_ERROR_SIZE_MISMATCH` (rows of the ranks that do not make up the matrix), `TERRACE_ERROR_MATRIX_STRUCTURE`,
/// `TERRACE_ERROR_MATRIX_VALUES`, `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_CALLBACK` (the communicator failed), `TERRACE_ERROR_OUT_OF_MEMORY`. A
/// sentence of another rank begins with "rank". One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_create_csr_distributed(
    context: *mut terrace_context,
    total_rows: i64,
    first_row: i64,
    rows: i64,
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
        let borrow = flags & TERRACE_BORROW != 0;
        let given = || -> Result<Given> {
            let out = out!(matrix);
            check_base_and_flags(base, flags)?;
            let names = ["total_rows", "first_row", "rows"];
            let [total, first, rows] = checked_rows(names, [total_rows, first_row, rows], base, 1)?;
            // SAFETY: arrays of the lengths that the documentation asks for.
            let rows = unsafe {
                let offsets = LentOffsets::new(context, offset_type, row_offsets, rows + 1)?;
                let nnz = offsets.entries(rows, total, base)?;
                let columns = LentColumns::new(context, column_type, columns, nnz)?;
                let values = LentValues::new(context, value_type, values, nnz)?.keep(borrow)?;
                GivenRows {
                    total,
                    first,
                    offsets: offsets.counted_from_zero(rows, base)?,
                    columns: columns.counted_from_zero(base)?,
                    values,
                    sorted: flags & TERRACE_SORTED != 0,
                    base: base as usize,
                }
            };
            Ok(Given { rows, out, borrow, order: None })
        };
        hand_out(context, given())
    })
}

/// Rows of all ranks, the first of this rank, and their number, counted from 0, of rows of blocks of `block` rows.
pub(super) fn checked_rows(names: [&str; 3], numbers: [i64; 3], base: i32, block: usize) -> Result<[usize; 3]> {
    let [total, first, rows] = [numbers[0], numbers[1].saturating_sub(i64::from(base)), numbers[2]];
    let block = block as i64;
    for (name, number, most) in [
        (names[0], total, (i64::MAX >> 11) / block),
        (names[1], first, total),
        (names[2], rows, total.saturating_sub(first).min(i64::from(i32::MAX) / block)),
    ] {
        if !(0..=most).contains(&number) {
            return fail!(InvalidArgument, "{name} is {number}, counted from 0; accepted: 0 to {most}");
        }
    }
    Ok([total as usize, first as usize, rows as usize])
}

/// The rows of this rank, and what its handle keeps beside them.
pub(super) struct Given {
    pub rows: GivenRows,
    pub out: Out<*mut terrace_matrix>,
    pub borrow: bool,
    /// Where the values lie among those that the caller gives.
    pub order: Option<Vec<u32>>,
}

/// Collective: makes the matrix of what the ranks give.
pub(super) fn hand_out(context: &Context, given: Result<Given>) -> Result<()> {
    let (rows, kept) = match given {
        Ok(Given { rows, out, borrow, order }) => (Ok(rows), Some((out, borrow, order))),
        Err(error) => (Err(error), None),
    };
    let made = Matrix::distributed(context, rows)?;
    let Some((out, borrow, order)) = kept else { unreachable!("what this rank gave was accepted") };
    let made = terrace_matrix { matrix: Arc::new(made), borrow, by_cell: false, order };
    // SAFETY: not null, and valid for a write as the documentation asks.
    unsafe { out.set(Box::into_raw(Box::new(made))) };
    Ok(())
}

#[cfg(feature = "unit-tests")]
mod tests;
