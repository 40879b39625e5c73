//! Communicators that fail, and rows that do not fit together.

use super::{Arrays, F64, INVALID, N, RETURNED, UNEXPECTED, context, sentence, solver};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use terrace::capi::*;
use terrace::error::Status;

unsafe extern "C" fn rank_5(_: *mut c_void) -> i32 {
    5
}

/// Communicators that fail, and what each rank is asked for.
pub fn over_ranks() {
    let context = context(c"host:1");
    let (mut a, mut made) = (Arrays::new(false), null_mut());
    // SAFETY: a table of null pointers is a value.
    let mut tables: [terrace_communicator; 2] = unsafe { std::mem::zeroed() };
    ask!(0, terrace_threads_communicator(1, tables.as_mut_ptr()));
    let wrong = terrace_communicator { rank: Some(rank_5), ..tables[0] };
    ask!(INVALID, terrace_context_set_communicator(context, &wrong));
    ask!(0, terrace_context_set_communicator(context, &tables[0]));
    let (n, wide): (i64, Vec<i64>) = (N as i64, a.columns.iter().map(|j| i64::from(*j)).collect());
    let offsets: Vec<i64> = a.offsets.iter().map(|k| i64::from(*k)).collect();
    let no_offsets = vec![0_i64; N + 1];
    let i64_ = TERRACE_I64;
    let create = |status: i32, values: &[f64], [total, block]: [i64; 2], (kind, base): (i32, i32), bad: bool| {
        let mut made = null_mut();
        let columns: Vec<i64> = wide.iter().map(|j| if bad { *j + 7 * n } else { *j }).collect();
        let (from, to, values) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let (none, out) = (no_offsets.as_ptr().cast(), &mut made);
        ask!(
            status,
            terrace_matrix_create_csr_distributed(
                context, total, 0, n, i64_, from, i64_, to, kind, values, base, 0, out
            )
        );
        let block = block as i32;
        ask!(
            status,
            terrace_matrix_create_bsr_distributed(
                context, total, 0, n, block, i64_, from, i64_, to, kind, values, base, 0, out
            )
        );
        if base == 0 {
            ask!(
                status,
                terrace_matrix_create_parcsr(
                    context,
                    total,
                    0,
                    n,
                    i64_,
                    from,
                    to,
                    none,
                    null(),
                    0,
                    i64_,
                    null(),
                    kind,
                    values,
                    null(),
                    out
                )
            );
        }
    };
    create(Status::SizeMismatch.code(), &a.values, [n + 1, 1], (F64, 0), false);
    create(Status::Unsupported.code(), &a.values, [n, 1], (TERRACE_F16, 0), false);
    create(Status::InvalidArgument.code(), &a.values, [n, 1], (F64, 5), false);
    create(Status::MatrixStructure.code(), &a.values, [n, 1], (F64, 0), true);
    a.values[0] = f64::NAN;
    create(Status::MatrixValues.code(), &a.values, [n, 1], (F64, 0), false);
    a.values[0] = 2.0;

    let (from, to, values) = (offsets.as_ptr().cast(), wide.as_ptr().cast(), a.values.as_ptr().cast());
    ask!(
        0,
        terrace_matrix_create_csr_distributed(context, n, 0, n, i64_, from, i64_, to, F64, values, 0, 0, &mut made)
    );
    let dims = [n, 1, 1];
    ask!(Status::Unsupported, terrace_matrix_set_grid(context, made, dims.as_ptr(), null()));
    ask!(0, terrace_matrix_destroy(made));
    // SAFETY: made above, and not used again.
    unsafe { tables[0].free.unwrap()(tables[0].user) };
    ask!(0, terrace_context_destroy(context));
    broken_communicator(&a, &offsets, &wide);
}

/// Every call over ranks tells when the communicator fails.
fn broken_communicator(a: &Arrays, offsets: &[i64], columns: &[i64]) {
    let (n, i64_, none) = (N as i64, TERRACE_I64, vec![0_i64; N + 1]);
    let (from, to, values) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), a.values.as_ptr().cast());
    let (vectors, functions) = (vec![1.0_f64; N], vec![0; N]);
    let (b, mut x) = (vec![1.0_f64; N], vec![0.0_f64; N]);
    for call in 0..10 {
        FAILS.set(false);
        let (context, table, mut made) = (context(c"host:1"), one_rank::table(), null_mut());
        ask!(0, terrace_context_set_communicator(context, &table));
        ask!(
            0,
            terrace_matrix_create_csr_distributed(context, n, 0, n, i64_, from, i64_, to, F64, values, 0, 0, &mut made)
        );
        let s = solver(context, if call < 2 { made } else { null_mut() }, &[]);
        let callback = Status::Callback;
        let (matrix, out) = (made, &mut made);
        FAILS.set(true);
        match call {
            0 => {
                let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
                ask!(callback, terrace_solver_solve(s, F64, 1, b, x, TERRACE_ZERO_GUESS));
            }
            1 => ask!(callback, terrace_solver_update(s)),
            2 => ask!(callback, terrace_solver_setup(s, matrix)),
            3 => ask!(callback, terrace_context_set_communicator(context, &table)),
            4 => ask!(
                callback,
                terrace_matrix_create_csr_distributed(context, n, 0, n, i64_, from, i64_, to, F64, values, 0, 0, out)
            ),
            5 => ask!(
                callback,
                terrace_matrix_create_bsr_distributed(
                    context, n, 0, n, 1, i64_, from, i64_, to, F64, values, 0, 0, out
                )
            ),
            6 => {
                let (none, no) = (none.as_ptr().cast(), null());
                ask!(
                    callback,
                    terrace_matrix_create_parcsr(
                        context, n, 0, n, i64_, from, to, none, no, 0, i64_, no, F64, values, no, out
                    )
                );
            }
            7 => ask!(callback, terrace_matrix_set_near_null_space(context, matrix, 1, 1, vectors.as_ptr())),
            8 => ask!(callback, terrace_matrix_set_coordinates(context, matrix, 2, n / 2, vectors.as_ptr())),
            _ => ask!(callback, terrace_matrix_set_functions(context, matrix, 1, functions.as_ptr())),
        }
        ask!(0, terrace_solver_destroy(s));
        ask!(0, terrace_matrix_destroy(matrix));
        ask!(0, terrace_context_destroy(context));
    }
    FAILS.set(false);
}

thread_local! {
    /// Whether the functions of the communicator below fail.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// A communicator of one rank.
mod one_rank {
    use super::{FAILS, c_void, terrace_communicator};
    use std::ptr::null_mut;

    fn result() -> i32 {
        i32::from(FAILS.get())
    }

    unsafe extern "C" fn rank(_: *mut c_void) -> i32 {
        0
    }

    unsafe extern "C" fn size(_: *mut c_void) -> i32 {
        1
    }

    unsafe extern "C" fn send(_: *mut c_void, _: *const c_void, _: usize, _: i32, _: i32, _: *mut *mut c_void) -> i32 {
        result()
    }

    unsafe extern "C" fn receive(_: *mut c_void, _: *mut c_void, _: usize, _: i32, _: i32, _: *mut *mut c_void) -> i32 {
        result()
    }

    unsafe extern "C" fn wait_all(_: *mut c_void, _: i32, _: *mut *mut c_void) -> i32 {
        result()
    }

    unsafe extern "C" fn all_reduce(_: *mut c_void, own: *const i64, all: *mut i64, count: i32, _: i32) -> i32 {
        // SAFETY: both have `count` numbers.
        unsafe { std::ptr::copy_nonoverlapping(own, all, count as usize) };
        result()
    }

    unsafe extern "C" fn all_gather(
        _: *mut c_void,
        own: *const c_void,
        bytes: usize,
        all: *mut c_void,
        _: *const usize,
        offsets: *const usize,
    ) -> i32 {
        // SAFETY: the bytes of this rank, and room for them at the first offset.
        unsafe { std::ptr::copy_nonoverlapping(own.cast::<u8>(), all.cast::<u8>().add(*offsets), bytes) };
        result()
    }

    unsafe extern "C" fn barrier(_: *mut c_void) -> i32 {
        result()
    }

    unsafe extern "C" fn duplicate(_: *mut c_void, copy: *mut c_void) -> i32 {
        // SAFETY: room for a table.
        unsafe { copy.cast::<terrace_communicator>().write(table()) };
        result()
    }

    unsafe extern "C" fn free(_: *mut c_void) {}

    pub fn table() -> terrace_communicator {
        terrace_communicator {
            user: null_mut(),
            rank: Some(rank),
            size: Some(size),
            send: Some(send),
            receive: Some(receive),
            wait_all: Some(wait_all),
            all_reduce: Some(all_reduce),
            all_gather: Some(all_gather),
            barrier: Some(barrier),
            duplicate: Some(duplicate),
            revoke: None,
            free: Some(free),
            timeout: None,
        }
    }
}
