//! `terrace_solver`: a Krylov method with its preconditioner.

use super::amg::config_or_defaults;
use super::borrow::{device_vectors, vectors};
use super::boundary::{self, ContextState, Exclusive, Handle, call, in_callers, out, required, text, text_out};
use super::types::{self, precision, terrace_apply_callback, terrace_guess, terrace_monitor_callback, terrace_type};
use super::{terrace_config, terrace_context, terrace_matrix, terrace_report, terrace_status};
use crate::error::{Result, Status, fail};
use crate::matrix::Side;
use crate::scalar::with_precision;
use crate::solver::{DeviceApply, DeviceVectors, Monitor, Progress, SliceMut, SliceRef, Solver, Unsolved, UserApply};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A Krylov method with its preconditioner. It uses the threads and the log of its context.
pub struct terrace_solver {
    state: Arc<ContextState>,
    solver: Exclusive<Solver>,
}

impl Handle for terrace_solver {
    fn state(&self) -> &ContextState {
        &self.state
    }
}

/// Makes a solver; nothing is computed yet.
///
/// - `context`: not NULL.
/// - `config`: options that are copied; NULL for all defaults.
/// - `solver`: host, written on success; destroy it with `terrace_solver_destroy`.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_create(
    context: *mut terrace_context,
    config: *const terrace_config,
    solver: *mut *mut terrace_solver,
) -> terrace_status {
    call!(context, |context| {
        let out = out!(solver);
        // SAFETY: null or alive, as the documentation asks.
        let config = unsafe { config_or_defaults(config) }?;
        let solver = Exclusive::new(Solver::new(&context.state.context, &config));
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(terrace_solver { state: Arc::clone(&context.state), solver }))) };
        Ok(())
    })
}

/// Bytes that a solver of this matrix with these options would hold: hierarchy, vectors of the Krylov method, and reports. Estimated as by
/// `terrace_amg_memory_estimate`; with a context on a GPU, the most device memory at one time. It is not below what is held, and at most 30 %
/// above it where rows are of the same kind all over the matrix.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL.
/// - `config`: NULL for all defaults.
/// - `updates`: not 0 where `terrace_solver_update` will be called: the first update stores where each term of a product goes.
/// - `bytes`: host, written.
///
/// It is for vectors in the precision of the matrix and one right-hand side at a time. Where the option "solver.columns" is set, also to its
/// default, what so many right-hand sides together take counts, too: the first call with several allocates vectors for them. Not counted are two
/// vectors to convert those of a caller in another precision, the hierarchy of solves with the transpose of a matrix that is not symmetric, which
/// takes as much again, callbacks, and the factors of a matrix that the Krylov method fails to solve. With the option "solver.type" "direct" it is what
/// the factorisation holds on the host, and 0 with a context on a GPU. Returns when the estimate is made, and holds nothing then. Errors: as
/// `terrace_amg_memory_estimate`. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_memory_estimate(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    config: *const terrace_config,
    updates: i32,
    bytes: *mut i64,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let out = out!(bytes);
        // SAFETY: null or alive, as the documentation asks.
        let config = unsafe { config_or_defaults(config) }?;
        let estimate = Solver::memory_estimate(&context.state.context, matrix, &config, updates != 0)?;
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(i64::try_from(estimate).unwrap_or(i64::MAX)) };
        Ok(())
    })
}

/// Replaces the matrix in the Krylov method by y = A x of the caller. The matrix given to `terrace_solver_setup` then only builds the
/// preconditioner. The solver must be set up again: what it was set up with is dropped, and a solve before that is
/// `TERRACE_ERROR_NOT_SET_UP`. The removal of a callback that is not there changes nothing.
///
/// - `solver`: not NULL.
/// - `rows`: length of x and y, 0 to 2147483647; not used without a callback.
/// - `callback`: see `terrace_apply_callback`; NULL for the matrix again.
/// - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another operator is set.
///
/// Where the option "solver.type" is "auto", the symmetry of the matrix that builds the preconditioner tells whether A is taken for
/// symmetric; without any matrix it is. A may be in any units as long as A x and A M x can be represented for an x of size 1: where a solve
/// fails because inner products leave the range of numbers, it multiplies A by a power of two and begins again, and so do the solves after it
/// from their beginning. The option "solver.type" "richardson", whose iteration depends on the units, does not, and fails or stagnates
/// there.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_set_operator(
    solver: *mut terrace_solver,
    rows: i64,
    callback: terrace_apply_callback,
    user: *mut c_void,
) -> terrace_status {
    call!(solver, |solver| {
        let Some(function) = callback else {
            solver.solver.enter("solver")?.remove_operator();
            return Ok(());
        };
        if !(0..=i64::from(i32::MAX)).contains(&rows) {
            return fail!(InvalidArgument, "rows is {rows}; accepted: 0 to {}", i32::MAX);
        }
        let (callback, is_on_gpu) = (Callback { function, user }, solver.state.context.gpu().is_some());
        let mut solver = solver.solver.enter("solver")?;
        match is_on_gpu {
            true => solver.set_device_operator(rows as usize, callback.into_device_apply()),
            false => solver.set_operator(rows as usize, callback.into_apply()),
        }
        Ok(())
    })
}

/// Replaces the preconditioner by y = M x of the caller; `solver.preconditioner` is then not used. The solver must be set up again, as after
/// `terrace_solver_set_operator`.
///
/// - `solver`: not NULL.
/// - `callback`: see `terrace_apply_callback`; NULL for what `solver.preconditioner` says again.
/// - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another preconditioner is set.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_set_preconditioner(
    solver: *mut terrace_solver,
    callback: terrace_apply_callback,
    user: *mut c_void,
) -> terrace_status {
    call!(solver, |solver| {
        let Some(function) = callback else {
            solver.solver.enter("solver")?.remove_preconditioner();
            return Ok(());
        };
        let (callback, is_on_gpu) = (Callback { function, user }, solver.state.context.gpu().is_some());
        let mut solver = solver.solver.enter("solver")?;
        match is_on_gpu {
            true => solver.set_device_preconditioner(callback.into_device_apply()),
            false => solver.set_preconditioner(callback.into_apply()),
        }
        Ok(())
    })
}

/// Builds the preconditioner from another matrix than the one that is solved with, such as one of lower order or without weak couplings.
/// The solver must be set up again, as after `terrace_solver_set_operator`, and set-up says whether the matrix fits.
///
/// - `solver`: not NULL.
/// - `matrix`: square, with as many rows as the matrix given to `terrace_solver_setup`; it may be destroyed afterwards, arrays that it borrowed must
///   stay. NULL for the same matrix again.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_set_preconditioner_matrix(
    solver: *mut terrace_solver,
    matrix: *const terrace_matrix,
) -> terrace_status {
    call!(solver, |solver| {
        // SAFETY: null or alive, as the documentation asks.
        let matrix = unsafe { matrix.as_ref() }.map(|matrix| &matrix.matrix);
        solver.solver.enter("solver")?.set_preconditioner_matrix(matrix);
        Ok(())
    })
}

/// Calls a function of the caller with the residual norm of each iteration, which may end the solve.
///
/// - `solver`: not NULL.
/// - `callback`: see `terrace_monitor_callback`; NULL for none.
/// - `user`: handed to the callback as it is; it must stay valid until the solver is destroyed or another monitor is set.
///
/// Takes effect at the next solve. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_set_monitor(
    solver: *mut terrace_solver,
    callback: terrace_monitor_callback,
    user: *mut c_void,
) -> terrace_status {
    call!(solver, |solver| {
        let monitor = callback.map(|function| MonitorCallback { function, user }.into_monitor());
        solver.solver.enter("solver")?.set_monitor(monitor);
        Ok(())
    })
}

/// The value of an option as the last set-up used it: what was set, or what `auto` and defaults became for this matrix and device.
///
/// - `solver`: not NULL, set up.
/// - `key`: host, NUL-terminated.
/// - `buf`, `len`, `needed`: text out, see the top of this file.
///
/// What differs from level to level, such as thresholds, may still be "auto"; the report tells what levels have. Errors:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`, `TERRACE_ERROR_UNKNOWN_OPTION`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_get_option(
    solver: *const terrace_solver,
    key: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> terrace_status {
    call!(solver, |solver| {
        let value = solver.solver.enter("solver")?.option(text!(key))?;
        // SAFETY: a buffer of `len` bytes and a place for the need, or null, as the documentation asks.
        unsafe { text_out(&value, buf, len, needed) }
    })
}

/// Builds the preconditioner and the workspace.
///
/// - `solver`: not NULL.
/// - `matrix`: the matrix; it may be destroyed afterwards, arrays that it borrowed must stay. NULL is accepted only with an operator
///   callback and either a preconditioner callback or the option "solver.preconditioner" = "none".
///
/// With a matrix of `terrace_matrix_create_csr_distributed` it is collective: every rank calls it, with the same options.
///
/// The matrix may be in any units. Where its values are above 2^250 or below 2^-250 (2^50 and 2^-50 in f32), set-up and solves work with a copy
/// times a power of two, which rounds nothing: iterations and the relative residual are those of ordinary units. Over ranks there is no
/// such copy.
///
/// Returns when everything is built; when it fails the solver is as before. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP` (neither a matrix nor an operator),
/// `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_MATRIX_VALUES` (a diagonal that a component needs, and values that are not finite, as for `terrace_amg_setup`;
/// with the option "solver.type" "auto" also a symmetric matrix with a negative diagonal, which is to be negated), `TERRACE_ERROR_OPTION_VALUE`,
/// `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time
/// for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_setup(
    solver: *mut terrace_solver,
    matrix: *const terrace_matrix,
) -> terrace_status {
    call!(solver, |solver| {
        // SAFETY: null or alive, as the documentation asks.
        let matrix = unsafe { matrix.as_ref() }.map(|matrix| &matrix.matrix);
        solver.solver.enter("solver")?.setup(matrix)
    })
}

/// Takes over changed values of the matrix in the preconditioner: numeric work only, as `terrace_amg_update`, which the option
/// "amg.update.coarsening" concerns, too. Without it, solves go on with the preconditioner of the old values, see `terrace_solver_solve`.
///
/// - `solver`: not NULL.
///
/// Over ranks it is collective, also where the values of some ranks alone have changed: each rank computes what belongs to its rows, by the coarse
/// unknowns and patterns of set-up. What fails on one rank fails on all.
///
/// Returns when the preconditioner is updated. When it fails, the preconditioner is as before; the factors of the option "solver.type" "direct" are then lost, and
/// a solve is `TERRACE_ERROR_NOT_SET_UP` until an update or a set-up succeeds. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`,
/// `TERRACE_ERROR_MATRIX_VALUES` (borrowed values that were changed in place are checked again), `TERRACE_ERROR_OPTION_VALUE` (a null space that the new values do not
/// have), `TERRACE_ERROR_PRECISION_LOST`, `TERRACE_ERROR_CALLBACK` (a communicator), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_update(solver: *mut terrace_solver) -> terrace_status {
    call!(solver, |solver| {
        let mut state = solver.solver.enter("solver")?;
        state.update()
    })
}

/// Solves A x = b for one or several right-hand sides. A is the matrix as it is now: values that were replaced by
/// `terrace_matrix_update_values`, or borrowed and changed in place, are used. The preconditioner is as old as the last set-up or update: a
/// lagged preconditioner, which saves its update while values change little. The key "preconditioner_age" of the report counts the changes
/// since then. New values that need other units than those of set-up (see `terrace_solver_setup`), or are 2^50 times as large or small where
/// set-up needed units, are the exception: the solve sets up wholly, in time and memory, and the age is 0 again.
///
/// Every call begins a new report, also one that fails before it solves: its right-hand sides are `TERRACE_NOT_ATTEMPTED` and not converged
/// until they are solved. Where an argument is refused the report may have none. Nothing of an earlier solve is left.
///
/// Several right-hand sides are solved together, up to 8 at a time (option "solver.columns"), where the method allows it. Each matrix of the
/// hierarchy is read once for all of them. Each right-hand side is then finished and checked by itself, with a status and a report of its own. Its x has the same bits for any number of threads, and may differ from that of a call of its own as far as the tolerance allows.
///
/// Over ranks it is collective, b and x hold the rows of this rank, and `count` is the same on all ranks. Right-hand sides are solved one after the
/// other, each with the bits of a call of its own. The status is the same on all ranks.
///
/// Allocates nothing, but: the operator for values that have changed; vectors for the first solve of several right-hand sides together after
/// set-up or update, and for the first one with vectors in another precision, which are kept; a report of more than 64 right-hand sides; a
/// vector where b, or the matrix, is so large or small that inner products could leave the range of numbers, since such a system is solved
/// in other units; two vectors to find out why a solve stagnates; and the factors where "auto" turns to a factorisation. On a GPU also: two
/// vectors of device memory for the first solve with b and x on the host, which are kept; and what the driver takes for graphs of an
/// iteration, which the second and third iteration record, and again after an update.
///
/// - `solver`: not NULL, set up.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; that of the solver, f64 unless the option "solver.precision" says
///   otherwise. With an f32 matrix a solver of f64 accepts f32 vectors, too; x is then rounded, and the report is about x before that.
/// - `count`: number of right-hand sides, 1 or more.
/// - `b`: `count` right-hand sides one after the other, each with an element for every scalar row. Host, or in the memory of the context's
///   GPU. There they are read in the order of the caller's stream, see `terrace_context_set_stream`; without one, what was begun on the
///   default stream comes first, and work on other streams must be done.
/// - `x`: where `b` is, as long, not overlapping it; the solutions.
/// - `guess`: `TERRACE_ZERO_GUESS`, which does not read x, or `TERRACE_GIVEN_GUESS`, which starts from the content of x.
///
/// `TERRACE_STOPPED` when the monitor of `terrace_solver_set_monitor` ended the solve: x is then the iterate at that moment. Right-hand sides after that one are
/// solved all the same.
///
/// Returns when x is written, or, in device memory with a stream of the caller's, when what writes it is on the stream.
/// Where the option "solver.type" is "auto" and the Krylov method fails, the matrix is factorised if that is affordable; the key "method" of the
/// report tells. `TERRACE_NOT_CONVERGED` when at least one right-hand side was not solved to the tolerance within the
/// iteration limit, `TERRACE_STAGNATED` when its residual no longer fell; the first that was not solved decides, and
/// `terrace_last_error` says how far it came and what may help. x is then the best iterate that was stored, never worse than the initial
/// guess. A right-hand side that fails with `TERRACE_ERROR_BREAKDOWN`, `TERRACE_ERROR_DIVERGED`, `TERRACE_ERROR_NON_FINITE` or
/// `TERRACE_ERROR_PRECISION_LOST` does not keep the others from being solved: the call returns the first such error, and the key "status"
/// of the report has that of each. Any other error ends the call; the status of those after it is `TERRACE_NOT_ATTEMPTED`, and their x is
/// not written. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`,
/// `TERRACE_ERROR_BREAKDOWN`, `TERRACE_ERROR_DIVERGED`, `TERRACE_ERROR_NON_FINITE`, `TERRACE_ERROR_PRECISION_LOST`,
/// `TERRACE_ERROR_MATRIX_VALUES` (borrowed values
/// that were changed in place are checked), `TERRACE_ERROR_OPTION_VALUE` (a null space that they do not have), `TERRACE_ERROR_CALLBACK`,
/// `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_solve(
    solver: *mut terrace_solver,
    vector_type: terrace_type,
    count: i64,
    b: *const c_void,
    x: *mut c_void,
    guess: terrace_guess,
) -> terrace_status {
    // SAFETY: arrays of `count` times `rows` elements, as the documentation asks.
    call!(solver, |solver| unsafe { solve(solver, Side::Plain, vector_type, count, (b, x), guess) })
}

/// Solves A^T x = b for one or several right-hand sides, with the same options. Where the matrix is symmetric, up to rounding (1e-10 of its entries, 1e-4 in f32), this is
/// `terrace_solver_solve`. Where the matrix is factorised (`solver.type` "direct", or "auto" after the Krylov method has failed), its factors serve for the transpose, too:
/// the first call makes a transposed copy of the matrix. Otherwise the first call makes a second solver for the transpose, and later ones use it:
///
/// - It takes the time of a set-up, and as much memory as this solver and a transposed copy of the matrix, until this solver is set up again or destroyed.
/// - Its preconditioner is made from the values that the matrix has at that call, with the near-null space of the matrix. New values are transposed at the next
///   call. After `terrace_solver_update`, the next call updates its preconditioner, too; without that, it is lagged as that of this solver is.
/// - A matrix of `terrace_solver_set_preconditioner_matrix` is transposed, too. A null space of the options must be one of the transpose.
/// - After such a call `terrace_solver_report` tells about the set-up and the solve of the second solver; "bytes" counts both.
///
/// With an operator callback the status is `TERRACE_ERROR_UNSUPPORTED`, and so it is with a preconditioner callback, unless the matrix is symmetric: the transpose
/// of a callback is not known. Set up a solver of its own then, with callbacks for the transpose.
///
/// Arguments, what is returned, and errors: as `terrace_solver_solve`, to which the errors of a set-up for the transpose belong, too. The sentences of these begin
/// with "transposed matrix". One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_solve_transposed(
    solver: *mut terrace_solver,
    vector_type: terrace_type,
    count: i64,
    b: *const c_void,
    x: *mut c_void,
    guess: terrace_guess,
) -> terrace_status {
    // SAFETY: arrays of `count` times `rows` elements, as the documentation asks.
    call!(solver, |solver| unsafe { solve(solver, Side::Transposed, vector_type, count, (b, x), guess) })
}

/// The number of scalar rows of the system that a solver was set up for: the length of each right-hand side of `terrace_solver_solve`.
///
/// - `solver`: not NULL, set up.
/// - `rows`: host, written on success.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_NOT_SET_UP`, `TERRACE_ERROR_INVALID_ARGUMENT` (from a callback of the same
/// solver). One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_get_rows(solver: *const terrace_solver, rows: *mut i64) -> terrace_status {
    call!(solver, |solver| {
        let out = out!(rows);
        let Some(rows) = solver.solver.enter("solver")?.rows() else { return not_set_up() };
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(rows as i64) };
        Ok(())
    })
}

/// A snapshot of what set-up and the last solve did. A solve that fails, too, is the last one, see `terrace_solver_solve`.
///
/// - `solver`: not NULL.
/// - `report`: host, written on success; destroy it with `terrace_report_destroy`.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_OUT_OF_MEMORY`. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_report(
    solver: *const terrace_solver,
    report: *mut *mut terrace_report,
) -> terrace_status {
    call!(solver, |solver| {
        let out = out!(report);
        let report = terrace_report::new(&solver.state, solver.solver.enter("solver")?.try_report()?);
        // SAFETY: not null, and valid for a write as the documentation asks.
        unsafe { out.set(Box::into_raw(Box::new(report))) };
        Ok(())
    })
}

/// Makes a sentence of a wrapper in another language the last error of the solver's context, so that what the wrapper checks reads like
/// what the library checks.
///
/// - `solver`: not NULL.
/// - `status`: the error, a negative number of the status table.
/// - `message`: host, which argument, which value, what would be accepted; copied.
///
/// Returns `status`. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT` (no such error). One thread at a time for each
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_set_error(
    solver: *mut terrace_solver,
    status: terrace_status,
    message: *const c_char,
) -> terrace_status {
    call!(solver, |_| -> Result<()> { Err(boundary::wrapper_error(status, text!(message))?) })
}

/// Destroys a solver.
///
/// - `solver`: NULL is fine.
///
/// Does not fail. One thread at a time for each context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_solver_destroy(solver: *mut terrace_solver) -> terrace_status {
    // SAFETY: made by `terrace_solver_create`, and not used again as the documentation asks.
    unsafe { boundary::destroy(solver) }
}

/// Solves with the matrix or with its transpose.
///
/// # Safety
/// `b` and `x` are null, or lead to `count` times the rows of the solver elements of the type, in either memory.
unsafe fn solve(
    solver: &terrace_solver,
    side: Side,
    vector_type: terrace_type,
    count: i64,
    (b, x): (*const c_void, *mut c_void),
    guess: terrace_guess,
) -> Result<(Status, Option<Unsolved>)> {
    let state = &solver.state;
    let mut solver = solver.solver.enter("solver")?;
    solver.reset_report();
    let Some(rows) = solver.rows() else { return not_set_up() };
    let ready = || {
        let guess = types::guess(guess)?;
        let len = usize::try_from(count).ok().filter(|count| *count > 0).and_then(|count| count.checked_mul(rows));
        let Some(len) = len else {
            return fail!(
                InvalidArgument,
                "count is {count}; accepted: 1 or more right-hand sides that memory can hold"
            );
        };
        let precision = precision("vector_type", vector_type)?;
        if solver.is_over_ranks() {
            // SAFETY: arrays of so many elements, by this function's contract.
            with_precision!(precision, T => unsafe {
                if device_vectors::<T>(&state.context, b, x, len)?.is_none() {
                    vectors::<T>(b, x, len)?;
                }
            });
        }
        Ok((guess, len, precision))
    };
    let ready = ready();
    let (guess, len, precision) = solver.agree(ready)?;
    solver.expect_right_hand_sides(count as usize);
    let status = with_precision!(precision, T => {
        // SAFETY: arrays of `count` times `rows` elements, by this function's contract.
        match unsafe { device_vectors::<T>(&state.context, b, x, len) }? {
            Some((b, x)) => match side {
                Side::Plain => solver.solve_on_device(b, x, guess),
                Side::Transposed => solver.solve_transposed_on_device(b, x, guess),
            },
            None => {
                // SAFETY: as above, and on the host.
                let (b, x) = unsafe { vectors::<T>(b, x, len) }?;
                match side {
                    Side::Plain => solver.solve(b, x, guess),
                    Side::Transposed => solver.solve_transposed(b, x, guess),
                }
            }
        }
    })?;
    if rows == 0 && !solver.is_over_ranks() {
        solver.report_right_hand_sides(count as usize)?;
    }
    Ok((status, solver.unsolved()))
}

fn not_set_up<T>() -> Result<T> {
    fail!(NotSetUp, "solver is not set up; call terrace_solver_setup first")
}

struct Callback {
    function: unsafe extern "C" fn(i64, *const c_void, *mut c_void, *mut c_void) -> i32,
    user: *mut c_void,
}

// SAFETY: called on the thread that called solve, where the caller promised that `user` may be used.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Callback {
    fn call(&self, x: SliceRef<'_>, y: SliceMut<'_>) -> i32 {
        let (n, x): (usize, *const c_void) = match x {
            SliceRef::F64(x) => (x.len(), x.as_ptr().cast()),
            SliceRef::F32(x) => (x.len(), x.as_ptr().cast()),
        };
        let y: *mut c_void = match y {
            SliceMut::F64(y) => y.as_mut_ptr().cast(),
            SliceMut::F32(y) => y.as_mut_ptr().cast(),
        };
        // SAFETY: both arrays have n elements and live through the call; the rest is the caller's promise when it set the callback.
        in_callers(|| unsafe { (self.function)(n as i64, x, y, self.user) })
    }

    fn into_apply(self) -> UserApply {
        Box::new(move |x, y| self.call(x, y))
    }

    fn call_on_device(&self, vectors: DeviceVectors) -> i32 {
        let (n, x, y) = (vectors.n as i64, vectors.x as *const c_void, vectors.y as *mut c_void);
        // SAFETY: both arrays have n elements in device memory and live through the call; the rest is the caller's promise when it set the
        // callback.
        in_callers(|| unsafe { (self.function)(n, x, y, self.user) })
    }

    fn into_device_apply(self) -> DeviceApply {
        Box::new(move |vectors| self.call_on_device(vectors))
    }
}

struct MonitorCallback {
    function: unsafe extern "C" fn(i64, i64, f64, *mut c_void) -> i32,
    user: *mut c_void,
}

// SAFETY: called on the thread that called solve, where the caller promised that `user` may be used.
unsafe impl Send for MonitorCallback {}
// SAFETY: as above.
unsafe impl Sync for MonitorCallback {}

impl MonitorCallback {
    fn call(&self, progress: Progress) -> bool {
        let (index, iteration) = (progress.right_hand_side as i64, progress.iteration as i64);
        // SAFETY: the caller's promise when it set the callback.
        let stop = in_callers(|| unsafe { (self.function)(index, iteration, progress.residual, self.user) });
        stop != 0
    }

    fn into_monitor(self) -> Monitor {
        Box::new(move |progress| self.call(progress))
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
