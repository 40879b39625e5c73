//! Terrace's C ABI with owners: what is made is destroyed, and a status that is an error becomes a failure with its sentence.

use crate::boundary::{Failure, Result, code_of, fail};
use crate::ranks::Ranks;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use terrace::Status;
use terrace::capi::*;

/// The failure of a call on this thread.
fn failure(status: terrace_status) -> Failure {
    let message = text_of(|buf, len, needed| {
        // SAFETY: a buffer of this length.
        unsafe { terrace_last_error(null_mut(), buf, len, needed) }
    });
    let status = Status::from_code(status).unwrap_or(Status::Internal);
    Failure { code: code_of(status), message }
}

/// Conditions that are no errors are successes here.
fn check(status: terrace_status) -> Result<()> {
    if status >= 0 { Ok(()) } else { Err(failure(status)) }
}

/// A text that a function writes into a buffer.
fn text_of(get: impl Fn(*mut c_char, usize, *mut usize) -> terrace_status) -> String {
    let mut needed = 0;
    get(null_mut(), 0, &mut needed);
    let mut buffer = vec![0_u8; needed.max(1)];
    get(buffer.as_mut_ptr().cast(), buffer.len(), null_mut());
    buffer.truncate(needed.saturating_sub(1));
    String::from_utf8_lossy(&buffer).into_owned()
}

fn c_text(text: &str) -> Result<CString> {
    match CString::new(text) {
        Ok(text) => Ok(text),
        Err(_) => fail!(BadParameters, "a text has a NUL character inside"),
    }
}

/// An array of zeros, or a failure where there is no memory for it.
pub fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut array = Vec::new();
    if array.try_reserve_exact(len).is_err() {
        return fail!(NoMemory, "{len} elements of {} bytes could not be allocated", size_of::<T>());
    }
    array.resize(len, T::default());
    Ok(array)
}

/// A context.
pub struct Context(*mut terrace_context);

// SAFETY: a context may be used by several threads, each with objects of its own.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// On a device, by Terrace's name for it.
    pub fn new(device: &str) -> Result<Context> {
        let (device, mut context) = (c_text(device)?, null_mut());
        // SAFETY: a text and a place for the result.
        check(unsafe { terrace_context_create(device.as_ptr(), &mut context) })?;
        Ok(Context(context))
    }

    /// Collective: makes it that of one of these ranks.
    pub fn set_ranks(&self, ranks: &Ranks) -> Result<()> {
        // SAFETY: a context that lives, and the table of a communicator.
        check(ranks.with_table(|table| unsafe { terrace_context_set_communicator(self.0, table) }))
    }

    /// Threads of the host.
    pub fn threads(&self) -> Result<i32> {
        let mut threads = 1;
        // SAFETY: a context that lives, and a place for the result.
        check(unsafe { terrace_context_get_threads(self.0, &mut threads) })?;
        Ok(threads)
    }

    /// Changes the number of threads of the host.
    pub fn set_threads(&self, threads: i32) -> Result<()> {
        // SAFETY: a context that lives.
        check(unsafe { terrace_context_set_threads(self.0, threads) })
    }

    /// For what is no part of the C ABI.
    pub fn state(&self) -> &terrace_context {
        // SAFETY: it lives as long as this owner.
        unsafe { &*self.0 }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`, not used again.
        unsafe { terrace_context_destroy(self.0) };
    }
}

/// The arrays of a matrix as they are given to Terrace.
pub struct Arrays {
    pub offsets: *const i32,
    pub columns: *const c_void,
    pub column_type: terrace_type,
    pub values: *const c_void,
    pub value_type: terrace_type,
}

/// A matrix.
pub struct Matrix {
    matrix: *mut terrace_matrix,
    pub context: Arc<Context>,
}

// SAFETY: a matrix may be shared by threads as long as nobody changes it; the object that owns it sees to that.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Matrix {
    /// A copy of the caller's arrays, of square blocks.
    ///
    /// # Safety
    /// Arrays of the lengths that the offsets say, in either memory.
    pub unsafe fn new(context: &Arc<Context>, rows: usize, block: usize, arrays: &Arrays) -> Result<Matrix> {
        let mut matrix = null_mut();
        // SAFETY: by this function's contract.
        check(unsafe {
            terrace_matrix_create_bsr(
                context.0,
                rows as i64,
                rows as i64,
                block as i32,
                TERRACE_I32,
                arrays.offsets.cast(),
                arrays.column_type,
                arrays.columns,
                arrays.value_type,
                arrays.values,
                0,
                TERRACE_COPY,
                &mut matrix,
            )
        })?;
        Ok(Matrix { matrix, context: Arc::clone(context) })
    }

    /// Collective: a copy of the rows of square blocks that this rank has: of so many in all, from the second number on,
    /// as many as the third.
    ///
    /// # Safety
    /// As for [`Matrix::new`].
    pub unsafe fn over_ranks(
        context: &Arc<Context>,
        (total, first, rows): (usize, usize, usize),
        block: usize,
        arrays: &Arrays,
    ) -> Result<Matrix> {
        let mut matrix = null_mut();
        // SAFETY: by this function's contract.
        check(unsafe {
            terrace_matrix_create_bsr_distributed(
                context.0,
                total as i64,
                first as i64,
                rows as i64,
                block as i32,
                TERRACE_I32,
                arrays.offsets.cast(),
                arrays.column_type,
                arrays.columns,
                arrays.value_type,
                arrays.values,
                0,
                TERRACE_COPY,
                &mut matrix,
            )
        })?;
        Ok(Matrix { matrix, context: Arc::clone(context) })
    }

    /// Replaces the values.
    ///
    /// # Safety
    /// `count` values in either memory.
    pub unsafe fn update_values(&self, value_type: terrace_type, values: *const c_void, count: usize) -> Result<()> {
        // SAFETY: by this function's contract.
        check(unsafe { terrace_matrix_update_values(self.context.0, self.matrix, value_type, values, count as i64) })
    }

    /// Copies offsets, columns and values to arrays in either memory; those that are null are not wanted.
    ///
    /// # Safety
    /// Arrays of the lengths of the matrix.
    pub unsafe fn get_arrays(
        &self,
        offsets: *mut i32,
        columns: *mut i32,
        value_type: terrace_type,
        values: *mut c_void,
    ) -> Result<()> {
        // SAFETY: by this function's contract.
        check(unsafe {
            terrace_matrix_get_arrays(
                self.context.0,
                self.matrix,
                TERRACE_I32,
                offsets.cast(),
                TERRACE_I32,
                columns.cast(),
                value_type,
                values,
                0,
            )
        })
    }

    /// y = alpha A x + beta y.
    pub fn apply(&self, alpha: f64, x: &ContextVector, beta: f64, y: &mut ContextVector) -> Result<()> {
        // SAFETY: the callers compare the lengths.
        check(unsafe {
            terrace_matrix_apply(self.context.0, self.matrix, x.vector_type(), alpha, x.as_ptr(), beta, y.as_mut_ptr())
        })
    }

    /// The transpose.
    pub fn transpose(&self) -> Result<Matrix> {
        let mut matrix = null_mut();
        // SAFETY: a matrix that lives, and a place for the result.
        check(unsafe { terrace_matrix_transpose(self.context.0, self.matrix, &mut matrix) })?;
        Ok(Matrix { matrix, context: Arc::clone(&self.context) })
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: made by Terrace, not used again.
        unsafe { terrace_matrix_destroy(self.matrix) };
    }
}

/// A solver.
pub struct Solver {
    solver: *mut terrace_solver,
    /// Iterations after which the solve is ended by its monitor.
    last: Option<Box<i64>>,
}

// SAFETY: it is used by one thread at a time, in the lock of the object that owns it.
unsafe impl Send for Solver {}

/// Ends a solve after the number of iterations that `user` points to.
unsafe extern "C" fn end_after(_: i64, iteration: i64, _: f64, user: *mut c_void) -> i32 {
    // SAFETY: the solver keeps the number.
    i32::from(iteration >= unsafe { *user.cast::<i64>() })
}

impl Solver {
    /// With these options, in the order in which they are set. With `exactly`, solves end after so many iterations, with the iterate that they have
    /// then.
    pub fn new(context: &Context, options: &[(String, String)], exactly: Option<usize>) -> Result<Solver> {
        let config = Config::new(context)?;
        for (key, value) in options {
            let (key, value) = (c_text(key)?, c_text(value)?);
            // SAFETY: a configuration that lives, and texts.
            check(unsafe { terrace_config_set_str(config.0, key.as_ptr(), value.as_ptr()) })?;
        }
        let mut solver = null_mut();
        // SAFETY: objects that live, and a place for the result.
        check(unsafe { terrace_solver_create(context.0, config.0, &mut solver) })?;
        let mut solver = Solver { solver, last: exactly.map(|last| Box::new(last as i64)) };
        if let Some(last) = &mut solver.last {
            let user: *mut i64 = &mut **last;
            // SAFETY: the number lives as long as the solver.
            check(unsafe { terrace_solver_set_monitor(solver.solver, Some(end_after), user.cast()) })?;
        }
        Ok(solver)
    }

    /// Sets it up.
    pub fn setup(&mut self, matrix: &Matrix) -> Result<()> {
        // SAFETY: both live.
        check(unsafe { terrace_solver_setup(self.solver, matrix.matrix) })
    }

    /// Takes over new values of its matrix.
    pub fn update(&mut self) -> Result<()> {
        // SAFETY: it lives.
        check(unsafe { terrace_solver_update(self.solver) })
    }

    /// Solves. The status is one of a condition, or of a numeric failure; other errors are failures.
    pub fn solve(&mut self, b: &ContextVector, x: &mut ContextVector, zero_guess: bool) -> Result<Status> {
        let guess = if zero_guess { TERRACE_ZERO_GUESS } else { TERRACE_GIVEN_GUESS };
        // SAFETY: the callers compare the lengths.
        let status =
            unsafe { terrace_solver_solve(self.solver, x.vector_type(), 1, b.as_ptr(), x.as_mut_ptr(), guess) };
        match Status::from_code(status) {
            Some(numeric @ (Status::Breakdown | Status::Diverged | Status::NonFinite | Status::PrecisionLost)) => {
                Ok(numeric)
            }
            Some(condition) if status >= 0 => Ok(condition),
            _ => Err(failure(status)),
        }
    }

    /// What set-up and the last solve did.
    pub fn report(&self) -> Result<Report> {
        let mut report = null_mut();
        // SAFETY: it lives, and a place for the result.
        check(unsafe { terrace_solver_report(self.solver, &mut report) })?;
        Ok(Report(report))
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: made by `new`, not used again.
        unsafe { terrace_solver_destroy(self.solver) };
    }
}

/// Options.
struct Config(*mut terrace_config);

impl Config {
    fn new(context: &Context) -> Result<Config> {
        let mut config = null_mut();
        // SAFETY: a context that lives, and a place for the result.
        check(unsafe { terrace_config_create(context.0, &mut config) })?;
        Ok(Config(config))
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: made by `new`, not used again.
        unsafe { terrace_config_destroy(self.0) };
    }
}

/// A report.
pub struct Report(*mut terrace_report);

impl Report {
    /// A whole number.
    pub fn int(&self, key: &str) -> Result<i64> {
        let (key, mut value) = (c_text(key)?, 0);
        // SAFETY: a report that lives, a text, and a place for the result.
        check(unsafe { terrace_report_get_int(self.0, key.as_ptr(), 0, &mut value) })?;
        Ok(value)
    }

    /// A number.
    pub fn real(&self, key: &str) -> Result<f64> {
        let (key, mut value) = (c_text(key)?, 0.0);
        // SAFETY: as above.
        check(unsafe { terrace_report_get_real(self.0, key.as_ptr(), 0, &mut value) })?;
        Ok(value)
    }

    /// The residual norms of the last solve over the norm of the right-hand side.
    pub fn history(&self) -> Result<Vec<f64>> {
        let mut needed = 0;
        // SAFETY: an empty array, and a place for the length.
        check(unsafe { terrace_report_get_history(self.0, 0, null_mut(), 0, &mut needed) })?;
        let mut history = zeros(needed as usize)?;
        // SAFETY: an array of this length.
        check(unsafe { terrace_report_get_history(self.0, 0, history.as_mut_ptr(), needed, null_mut()) })?;
        Ok(history)
    }

    /// The summary for people.
    pub fn text(&self) -> String {
        // SAFETY: a report that lives.
        text_of(|buf, len, needed| unsafe { terrace_report_to_text(self.0, buf, len, needed) })
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // SAFETY: made by Terrace, not used again.
        unsafe { terrace_report_destroy(self.0) };
    }
}
