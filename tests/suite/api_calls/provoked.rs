//! Statuses that random calls do not meet: each call here has one cause, and its status is known.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use terrace::capi::*;
use terrace::error::{STATUSES, Status};

thread_local! {
    /// What the calls of this thread returned.
    static RETURNED: RefCell<BTreeSet<(String, i32)>> = RefCell::default();
    /// Those that were not what they should be.
    static UNEXPECTED: RefCell<Vec<String>> = RefCell::default();
}

/// Calls a function that must return this status.
macro_rules! ask {
    ($status:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments are null, texts, arrays of the lengths that are passed, pointers to locals, or objects that are alive.
        let status = unsafe { $function($($argument),*) };
        RETURNED.with(|all| all.borrow_mut().insert((stringify!($function).to_string(), status)));
        if status != $status as i32 {
            let line = format!("line {}: {} returned {status}: {}", line!(), stringify!($function), sentence());
            UNEXPECTED.with(|all| all.borrow_mut().push(line));
        }
    }};
}

mod ranks;

/// The sentence of the last failure on this thread.
fn sentence() -> String {
    let mut text = [0_u8; 400];
    // SAFETY: a buffer of this length.
    unsafe { terrace_last_error(null(), text.as_mut_ptr().cast(), text.len(), null_mut()) };
    CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy().into_owned()
}

const NULL: Status = Status::NullArgument;
const INVALID: Status = Status::InvalidArgument;
const N: usize = 40;
const F64: terrace_type = TERRACE_F64;
const I32: terrace_type = TERRACE_I32;

/// tridiag(-1, 2, -1), or with Neumann conditions at both ends.
struct Arrays {
    offsets: Vec<i32>,
    columns: Vec<i32>,
    values: Vec<f64>,
}

impl Arrays {
    fn new(neumann: bool) -> Arrays {
        let mut a = Arrays { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for i in 0..N as i32 {
            for j in (i - 1).max(0)..(i + 2).min(N as i32) {
                let ends = neumann && (i == 0 || i == N as i32 - 1);
                a.columns.push(j);
                a.values.push(if i == j { if ends { 1.0 } else { 2.0 } } else { -1.0 });
            }
            a.offsets.push(a.columns.len() as i32);
        }
        a
    }

    fn matrix(&self, context: *mut terrace_context, flags: terrace_matrix_flags) -> *mut terrace_matrix {
        self.matrix_of(context, N as i64, self.values.as_ptr().cast(), flags)
    }

    /// With so many columns, and values elsewhere.
    fn matrix_of(
        &self,
        context: *mut terrace_context,
        columns: i64,
        values: *const c_void,
        flags: terrace_matrix_flags,
    ) -> *mut terrace_matrix {
        let (mut matrix, from, to) = (null_mut(), self.offsets.as_ptr().cast(), self.columns.as_ptr().cast());
        let (n, to_matrix) = (N as i64, &mut matrix);
        ask!(0, terrace_matrix_create_csr(context, n, columns, I32, from, I32, to, F64, values, 0, flags, to_matrix));
        matrix
    }
}

fn context(device: &CStr) -> *mut terrace_context {
    let mut context = null_mut();
    ask!(0, terrace_context_create(device.as_ptr(), &mut context));
    context
}

fn config(context: *mut terrace_context, options: &[(&CStr, &CStr)]) -> *mut terrace_config {
    let mut config = null_mut();
    ask!(0, terrace_config_create(context, &mut config));
    for (key, value) in options {
        ask!(0, terrace_config_set_str(config, key.as_ptr(), value.as_ptr()));
    }
    config
}

/// A solver that is set up with a matrix, unless it is null.
fn solver(
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
    options: &[(&CStr, &CStr)],
) -> *mut terrace_solver {
    let (config, mut solver) = (config(context, options), null_mut());
    ask!(0, terrace_solver_create(context, config, &mut solver));
    ask!(0, terrace_config_destroy(config));
    if !matrix.is_null() {
        ask!(0, terrace_solver_setup(solver, matrix));
    }
    solver
}

/// All that the calls below return.
pub fn returned() -> BTreeSet<(String, i32)> {
    let host = context(c"host:1");
    texts(host);
    matrices(host);
    preconditioners(host);
    solvers(host);
    transposed(host);
    in_callbacks(host);
    ranks::over_ranks();
    if terrace_kernels::SIM {
        on_device();
    }
    ask!(0, terrace_context_destroy(host));
    let unexpected = UNEXPECTED.with(RefCell::take);
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    RETURNED.with(RefCell::take)
}

/// Texts, sentences of wrappers, and null.
fn texts(host: *mut terrace_context) {
    let a = Arrays::new(false);
    let matrix = a.matrix(host, TERRACE_COPY);
    let config = config(host, &[]);
    let (no_text, key) = (c"\xff".as_ptr(), c"solver.type".as_ptr());
    ask!(INVALID, terrace_config_load_json(config, no_text));
    ask!(Status::OptionValue, terrace_config_load_json(config, c"{\"solver.type\": \"sor\"}".as_ptr()));
    ask!(0, terrace_config_load_json(config, c"{\"solver.type\": \"cg\"}".as_ptr()));
    ask!(INVALID, terrace_config_load_preset(config, no_text));
    ask!(INVALID, terrace_config_set_str(config, no_text, no_text));
    ask!(NULL, terrace_context_create(c"host:1".as_ptr(), null_mut()));
    ask!(NULL, terrace_threads_communicator(1, null_mut()));
    ask!(NULL, terrace_last_error(host, null_mut(), 1, null_mut()));
    ask!(Status::Internal, terrace_context_raise_panic(host));
    ask!(NULL, terrace_context_set_memory_limit(null_mut(), 0));

    let (mut amg, mut fsai, solver) = (null_mut(), null_mut(), solver(host, matrix, &[]));
    ask!(0, terrace_amg_setup(host, matrix, config, &mut amg));
    ask!(0, terrace_fsai_setup(host, matrix, config, &mut fsai));
    for row in STATUSES.iter().filter(|row| row.code < 0) {
        let text = c"a sentence".as_ptr();
        ask!(row.code, terrace_context_set_error(host, row.code, text));
        ask!(row.code, terrace_amg_set_error(amg, row.code, text));
        ask!(row.code, terrace_fsai_set_error(fsai, row.code, text));
        ask!(row.code, terrace_solver_set_error(solver, row.code, text));
    }
    let mut report = null_mut();
    ask!(NULL, terrace_amg_report(amg, null_mut()));
    ask!(NULL, terrace_fsai_report(fsai, null_mut()));
    ask!(NULL, terrace_solver_report(solver, null_mut()));
    ask!(0, terrace_solver_report(solver, &mut report));
    ask!(NULL, terrace_report_to_json(report, null_mut(), 1, null_mut()));
    ask!(NULL, terrace_report_to_text(report, null_mut(), 1, null_mut()));
    ask!(0, terrace_report_destroy(report));
    ask!(NULL, terrace_solver_get_option(solver, key, null_mut(), 1, null_mut()));
    ask!(INVALID, terrace_solver_get_option(solver, no_text, null_mut(), 0, null_mut()));
    ask!(NULL, terrace_amg_get_option(amg, key, null_mut(), 1, null_mut()));
    ask!(INVALID, terrace_amg_get_option(amg, no_text, null_mut(), 0, null_mut()));
    ask!(NULL, terrace_fsai_get_option(fsai, key, null_mut(), 1, null_mut()));
    ask!(INVALID, terrace_fsai_get_option(fsai, no_text, null_mut(), 0, null_mut()));
    ask!(NULL, terrace_fsai_get_rows(fsai, null_mut()));
    ask!(NULL, terrace_amg_get_rows(amg, null_mut()));
    ask!(NULL, terrace_solver_get_rows(solver, null_mut()));
    ask!(NULL, terrace_amg_update(null_mut()));
    ask!(NULL, terrace_fsai_update(null_mut()));
    ask!(NULL, terrace_solver_update(null_mut()));
    ask!(NULL, terrace_solver_setup(null_mut(), matrix));
    ask!(NULL, terrace_solver_set_operator(null_mut(), 1, None, null_mut()));
    ask!(NULL, terrace_solver_set_preconditioner(null_mut(), None, null_mut()));
    ask!(NULL, terrace_solver_set_preconditioner_matrix(null_mut(), null()));
    ask!(NULL, terrace_solver_set_monitor(null_mut(), None, null_mut()));
    ask!(0, terrace_solver_destroy(solver));
    ask!(0, terrace_amg_destroy(amg));
    ask!(0, terrace_fsai_destroy(fsai));
    ask!(0, terrace_config_destroy(config));
    ask!(0, terrace_matrix_destroy(matrix));
}

/// Arrays that are refused.
fn matrices(host: *mut terrace_context) {
    let (a, mut made) = (Arrays::new(false), null_mut());
    let (from, to, values) = (a.offsets.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
    let (n, f16) = (N as i64, TERRACE_F16);
    let unsupported = Status::Unsupported;
    ask!(unsupported, terrace_matrix_create_csr(host, n, n, I32, from, I32, to, f16, values, 0, 0, &mut made));
    ask!(unsupported, terrace_matrix_create_bsr(host, n, n, 1, I32, from, I32, to, f16, values, 0, 0, &mut made));
    ask!(unsupported, terrace_matrix_create_coo(host, n, n, 2, I32, to, to, f16, values, 0, &mut made));
    let bad = [1, 0];
    let bad = bad.as_ptr().cast();
    let structure = Status::MatrixStructure;
    ask!(structure, terrace_matrix_create_bsr(host, 1, 1, 1, I32, bad, I32, to, F64, values, 0, 0, &mut made));
    let (dims, steps) = ([4_i64, 1, 1], [0, 0, 0]);
    let (dims, steps) = (dims.as_ptr(), steps.as_ptr());
    let layout = TERRACE_BY_OFFSET;
    ask!(
        unsupported,
        terrace_matrix_create_stencil(host, dims, null(), 1, 1, steps, f16, values, layout, 0, &mut made)
    );
    let matrix = a.matrix(host, TERRACE_COPY);
    let none = null_mut();
    let mut room = vec![0.0_f64; a.values.len()];
    let to = room.as_mut_ptr().cast();
    ask!(unsupported, terrace_matrix_get_arrays(host, matrix, I32, none, I32, none, f16, to, 0));
    ask!(NULL, terrace_matrix_set_grid(host, null_mut(), dims, null()));
    ask!(Status::SizeMismatch, terrace_matrix_set_grid(host, matrix, dims, null()));
    // The last cell of a line is no neighbour of the first one of the next.
    let (two_lines, no_cells) = ([n / 2, 2, 1], [0, 1, 1]);
    ask!(structure, terrace_matrix_set_grid(host, matrix, two_lines.as_ptr(), null()));
    ask!(INVALID, terrace_matrix_set_grid(host, matrix, no_cells.as_ptr(), null()));
    ask!(0, terrace_matrix_destroy(matrix));
}

/// AMG and FSAI: what set-up, update and application refuse.
fn preconditioners(host: *mut terrace_context) {
    let mut a = Arrays::new(false);
    let (mut amg, mut fsai, mut bytes) = (null_mut(), null_mut(), 0);
    let wide = a.matrix_of(host, N as i64 + 1, a.values.as_ptr().cast(), TERRACE_COPY);
    let none = null();
    ask!(Status::SizeMismatch, terrace_amg_setup(host, wide, none, &mut amg));
    ask!(Status::SizeMismatch, terrace_fsai_setup(host, wide, none, &mut fsai));
    ask!(Status::SizeMismatch, terrace_amg_memory_estimate(host, wide, none, &mut bytes));
    ask!(Status::SizeMismatch, terrace_fsai_memory_estimate(host, wide, none, &mut bytes));
    ask!(Status::SizeMismatch, terrace_solver_memory_estimate(host, wide, none, 0, &mut bytes));
    ask!(0, terrace_matrix_destroy(wide));

    // Nothing is scaled, so that values beyond the range of f16 do not fit.
    let narrow = config(host, &[(c"precision", c"hp"), (c"precision.scaling", c"none")]);
    let matrix = a.matrix(host, TERRACE_BORROW);
    ask!(0, terrace_amg_setup(host, matrix, narrow, &mut amg));
    let half = config(host, &[(c"precision", c"hp"), (c"fsai.pattern", c"static")]);
    ask!(0, terrace_fsai_setup(host, matrix, half, &mut fsai));
    a.values.iter_mut().for_each(|v| *v *= 1e9);
    ask!(Status::PrecisionLost, terrace_amg_update(amg));
    let mut other = null_mut();
    ask!(Status::PrecisionLost, terrace_amg_setup(host, matrix, narrow, &mut other));
    ask!(Status::PrecisionLost, terrace_amg_memory_estimate(host, matrix, narrow, &mut bytes));
    ask!(Status::PrecisionLost, terrace_solver_memory_estimate(host, matrix, narrow, 0, &mut bytes));
    // Scaling by the diagonal leaves entries that are far from 1.
    for i in 0..N {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            let j = a.columns[k] as usize;
            a.values[k] = if i == j {
                2.0
            } else if i > j {
                -1e8
            } else {
                -1e-8
            };
        }
    }
    ask!(Status::PrecisionLost, terrace_fsai_update(fsai));
    ask!(0, terrace_config_destroy(half));
    a.values[0] = f64::NAN;
    ask!(Status::MatrixValues, terrace_amg_update(amg));
    ask!(Status::MatrixValues, terrace_fsai_update(fsai));
    let (b, mut x) = (vec![1.0_f64; N], vec![0.0_f64; N]);
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    ask!(Status::MatrixValues, terrace_amg_apply_transposed(amg, F64, from, to));
    ask!(Status::MatrixValues, terrace_fsai_apply_transposed(fsai, F64, from, to));
    let mut third = null_mut();
    ask!(Status::MatrixValues, terrace_fsai_setup(host, matrix, none, &mut third));
    ask!(Status::MatrixValues, terrace_solver_memory_estimate(host, matrix, none, 0, &mut bytes));
    ask!(Status::MatrixValues, terrace_fsai_memory_estimate(host, matrix, none, &mut bytes));
    ask!(0, terrace_amg_destroy(amg));
    ask!(0, terrace_fsai_destroy(fsai));
    ask!(0, terrace_config_destroy(narrow));

    a.values = Arrays::new(false).values;
    let single = config(host, &[(c"precision", c"single")]);
    let (b, mut x) = (vec![1.7e308_f64; N], vec![0.0_f64; N]);
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    let matrix_now = a.matrix(host, TERRACE_COPY);
    ask!(0, terrace_amg_setup(host, matrix_now, single, &mut amg));
    ask!(0, terrace_fsai_setup(host, matrix_now, single, &mut fsai));
    ask!(Status::PrecisionLost, terrace_amg_apply(amg, F64, from, to));
    ask!(Status::PrecisionLost, terrace_fsai_apply(fsai, F64, from, to));
    ask!(Status::PrecisionLost, terrace_amg_apply_transposed(amg, F64, from, to));
    ask!(Status::PrecisionLost, terrace_fsai_apply_transposed(fsai, F64, from, to));
    ask!(Status::Unsupported, terrace_amg_apply(amg, TERRACE_F16, from, to));
    ask!(Status::Unsupported, terrace_fsai_apply(fsai, TERRACE_F16, from, to));
    ask!(Status::Unsupported, terrace_amg_apply_transposed(amg, TERRACE_F16, from, to));
    ask!(Status::Unsupported, terrace_fsai_apply_transposed(fsai, TERRACE_F16, from, to));
    ask!(INVALID, terrace_amg_apply(amg, F64, from, b.as_ptr().cast_mut().cast()));
    ask!(INVALID, terrace_fsai_apply(fsai, F64, from, b.as_ptr().cast_mut().cast()));
    ask!(INVALID, terrace_amg_apply_transposed(amg, F64, from, b.as_ptr().cast_mut().cast()));
    ask!(INVALID, terrace_fsai_apply_transposed(fsai, F64, from, b.as_ptr().cast_mut().cast()));
    ask!(NULL, terrace_amg_apply(amg, F64, null(), to));
    ask!(NULL, terrace_fsai_apply(fsai, F64, null(), to));
    ask!(NULL, terrace_amg_apply_transposed(amg, F64, null(), to));
    ask!(NULL, terrace_fsai_apply_transposed(fsai, F64, null(), to));
    ask!(0, terrace_amg_destroy(amg));
    ask!(0, terrace_fsai_destroy(fsai));
    ask!(0, terrace_config_destroy(single));
    for matrix in [matrix, matrix_now] {
        ask!(0, terrace_matrix_destroy(matrix));
    }
}

/// Solves and updates that fail.
fn solvers(host: *mut terrace_context) {
    let (mut a, b, mut x) = (Arrays::new(true), vec![0.0_f64; N], vec![0.0_f64; N]);
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    let matrix = a.matrix(host, TERRACE_BORROW);
    let s = solver(host, matrix, &[(c"solver.null_space", c"constant")]);
    a.values[0] = 2.0;
    ask!(Status::OptionValue, terrace_solver_solve(s, F64, 1, from, to, TERRACE_ZERO_GUESS));
    ask!(Status::OptionValue, terrace_solver_update(s));
    a.values[0] = f64::NAN;
    ask!(Status::MatrixValues, terrace_solver_update(s));
    ask!(Status::MatrixValues, terrace_solver_solve(s, F64, 1, from, to, TERRACE_ZERO_GUESS));
    ask!(Status::MatrixValues, terrace_solver_setup(s, matrix));
    a.values[0] = 1.0;
    ask!(0, terrace_solver_destroy(s));
    ask!(0, terrace_matrix_destroy(matrix));

    let mut a = Arrays::new(false);
    let b: Vec<f64> = (0..N).map(|i| (i as f64).cos()).collect();
    let from = b.as_ptr().cast();
    let matrix = a.matrix(host, TERRACE_BORROW);
    let diverging = [
        (c"solver.type", c"richardson"),
        (c"amg.smoother.type", c"jacobi"),
        (c"amg.smoother.jacobi.weight", c"2"),
        (c"amg.coarsest.solver", c"sweeps"),
    ];
    let s = solver(host, matrix, &diverging);
    ask!(Status::Diverged, terrace_solver_solve(s, F64, 1, from, to, TERRACE_ZERO_GUESS));
    ask!(Status::Diverged, terrace_solver_solve_transposed(s, F64, 1, from, to, TERRACE_ZERO_GUESS));
    ask!(0, terrace_solver_destroy(s));
    let s = solver(host, matrix, &[(c"precision", c"hp"), (c"precision.scaling", c"none")]);
    a.values.iter_mut().for_each(|v| *v *= 1e9);
    ask!(Status::PrecisionLost, terrace_solver_update(s));
    ask!(0, terrace_solver_destroy(s));
    ask!(0, terrace_matrix_destroy(matrix));
}

/// y is nothing, and the operator says that it failed.
unsafe extern "C" fn failing(_: i64, _: *const c_void, _: *mut c_void, _: *mut c_void) -> i32 {
    7
}

/// Ends a solve at once.
unsafe extern "C" fn stopping(_: i64, _: i64, _: f64, _: *mut c_void) -> i32 {
    1
}

/// Solves with the transpose.
fn transposed(host: *mut terrace_context) {
    let (mut a, b, mut x) = (Arrays::new(false), vec![1.0_f64; N], vec![0.0_f64; N]);
    let (from, to, zero) = (b.as_ptr().cast(), x.as_mut_ptr().cast(), TERRACE_ZERO_GUESS);
    let matrix = a.matrix(host, TERRACE_BORROW);
    let s = solver(host, null_mut(), &[]);
    ask!(0, terrace_solver_set_preconditioner(s, Some(failing), null_mut()));
    ask!(0, terrace_solver_setup(s, matrix));
    ask!(Status::Callback, terrace_solver_solve_transposed(s, F64, 1, from, to, zero));
    ask!(0, terrace_solver_set_preconditioner(s, None, null_mut()));
    ask!(0, terrace_solver_setup(s, matrix));
    ask!(0, terrace_solver_set_monitor(s, Some(stopping), null_mut()));
    ask!(Status::Stopped, terrace_solver_solve_transposed(s, F64, 1, from, to, zero));
    a.values[0] = f64::NAN;
    ask!(Status::MatrixValues, terrace_solver_solve_transposed(s, F64, 1, from, to, zero));
    ask!(0, terrace_solver_destroy(s));
    ask!(0, terrace_matrix_destroy(matrix));

    // Rows of sum 0, columns not: constants are in the null space of the matrix alone.
    let mut a = Arrays::new(true);
    a.values.iter_mut().enumerate().for_each(|(k, v)| *v *= if k < 5 { 1e-3 } else { 1.0 });
    let matrix = a.matrix(host, TERRACE_BORROW);
    let s = solver(host, matrix, &[(c"solver.null_space", c"constant")]);
    ask!(Status::OptionValue, terrace_solver_solve_transposed(s, F64, 1, from, to, zero));
    ask!(0, terrace_solver_destroy(s));
    ask!(0, terrace_matrix_destroy(matrix));
}

thread_local! {
    /// The objects that are in use while a callback runs.
    static IN_USE: Cell<(*mut terrace_amg, *mut terrace_solver, *mut terrace_matrix)> =
        const { Cell::new((null_mut(), null_mut(), null_mut())) };
}

/// Calls back into the solver.
unsafe extern "C" fn busy_solver(_: i64, _: i64, _: f64, _: *mut c_void) -> i32 {
    let ((_, solver, matrix), mut rows, mut report) = (IN_USE.get(), 0, null_mut());
    ask!(INVALID, terrace_solver_get_rows(solver, &mut rows));
    ask!(INVALID, terrace_solver_report(solver, &mut report));
    ask!(INVALID, terrace_solver_set_monitor(solver, None, null_mut()));
    ask!(INVALID, terrace_solver_set_preconditioner(solver, None, null_mut()));
    ask!(INVALID, terrace_solver_set_preconditioner_matrix(solver, null()));
    ask!(INVALID, terrace_solver_setup(solver, matrix));
    ask!(INVALID, terrace_solver_update(solver));
    1
}

/// Calls back into the hierarchy.
unsafe extern "C" fn busy_amg(_: terrace_log_level, _: *const c_char, _: *mut c_void) {
    let ((amg, ..), mut rows, mut report) = (IN_USE.get(), 0, null_mut());
    if !amg.is_null() {
        ask!(0, terrace_amg_get_rows(amg, &mut rows));
        ask!(INVALID, terrace_amg_report(amg, &mut report));
        ask!(INVALID, terrace_amg_update(amg));
    }
}

/// Calls back into the FSAI.
unsafe extern "C" fn busy_fsai(_: terrace_log_level, _: *const c_char, user: *mut c_void) {
    let (fsai, mut report) = (user.cast::<terrace_fsai>(), null_mut());
    ask!(INVALID, terrace_fsai_report(fsai, &mut report));
    ask!(INVALID, terrace_fsai_update(fsai));
}

/// Callbacks that use the object that calls them.
fn in_callbacks(host: *mut terrace_context) {
    let (a, b, mut x) = (Arrays::new(false), vec![1.0_f64; N], vec![0.0_f64; N]);
    let matrix = a.matrix(host, TERRACE_COPY);
    let s = solver(host, matrix, &[]);
    IN_USE.set((null_mut(), s, matrix));
    ask!(0, terrace_solver_set_monitor(s, Some(busy_solver), null_mut()));
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    ask!(Status::Stopped, terrace_solver_solve(s, F64, 1, from, to, TERRACE_ZERO_GUESS));
    ask!(0, terrace_solver_destroy(s));

    let mut amg = null_mut();
    let recheck = config(host, &[(c"amg.update.coarsening", c"recheck")]);
    ask!(0, terrace_amg_setup(host, matrix, recheck, &mut amg));
    IN_USE.set((amg, null_mut(), null_mut()));
    ask!(0, terrace_context_set_log(host, TERRACE_LOG_DEBUG, Some(busy_amg), null_mut()));
    ask!(0, terrace_amg_update(amg));
    ask!(0, terrace_context_set_log(host, TERRACE_LOG_OFF, None, null_mut()));
    IN_USE.set((null_mut(), null_mut(), null_mut()));
    ask!(0, terrace_amg_destroy(amg));
    ask!(0, terrace_config_destroy(recheck));

    // An update warns of a matrix that is no longer positive definite.
    let mut fsai = null_mut();
    ask!(0, terrace_fsai_setup(host, matrix, null(), &mut fsai));
    let indefinite: Vec<f64> = a.values.iter().map(|v| if *v < 0.0 { 10.0 * v } else { *v }).collect();
    let count = indefinite.len() as i64;
    ask!(0, terrace_matrix_update_values(host, matrix, F64, indefinite.as_ptr().cast(), count));
    ask!(0, terrace_context_set_log(host, TERRACE_LOG_WARNING, Some(busy_fsai), fsai.cast()));
    ask!(0, terrace_fsai_update(fsai));
    ask!(0, terrace_context_set_log(host, TERRACE_LOG_OFF, None, null_mut()));
    ask!(0, terrace_fsai_destroy(fsai));
    ask!(0, terrace_matrix_destroy(matrix));
}

/// The limit of device memory.
fn on_device() {
    let sim = context(c"sim");
    let (a, out_of_memory) = (Arrays::new(false), Status::OutOfMemory);
    // SAFETY: the context is alive.
    let mut values = ContextVector::zeros(unsafe { &*sim }, F64, a.values.len()).unwrap();
    ask!(0, terrace_context_synchronize(sim));
    // SAFETY: the memory of a simulated GPU is that of the process.
    unsafe { std::ptr::copy_nonoverlapping(a.values.as_ptr(), values.as_mut_ptr().cast(), a.values.len()) };
    let (mut amg, mut fsai, mut made, none) = (null_mut(), null_mut(), null_mut(), null());

    let on_host = a.matrix(sim, TERRACE_COPY);
    ask!(0, terrace_amg_setup(sim, on_host, none, &mut amg));
    ask!(0, terrace_fsai_setup(sim, on_host, none, &mut fsai));
    let (s, fresh) = (solver(sim, on_host, &[]), solver(sim, null_mut(), &[]));
    let (b, mut x) = (vec![1.0_f32; N], vec![0.0_f32; N]);
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    let (wide, mut y) = (vec![1.0_f64; N], vec![0.0_f64; N]);
    let (read, write) = (wide.as_ptr().cast(), y.as_mut_ptr().cast());
    let (rows, columns) = (a.offsets.as_ptr().cast(), a.columns.as_ptr().cast());
    let (n, f32_, zero) = (N as i64, TERRACE_F32, TERRACE_ZERO_GUESS);
    ask!(0, terrace_context_set_memory_limit(sim, 1));
    ask!(out_of_memory, terrace_amg_apply(amg, f32_, from, to));
    ask!(out_of_memory, terrace_fsai_apply(fsai, f32_, from, to));
    let (mut second, mut third) = (null_mut(), null_mut());
    ask!(out_of_memory, terrace_amg_setup(sim, on_host, none, &mut second));
    ask!(out_of_memory, terrace_fsai_setup(sim, on_host, none, &mut third));
    ask!(out_of_memory, terrace_solver_setup(fresh, on_host));
    ask!(out_of_memory, terrace_amg_update(amg));
    ask!(out_of_memory, terrace_fsai_update(fsai));
    ask!(out_of_memory, terrace_solver_update(s));
    ask!(out_of_memory, terrace_solver_solve(s, F64, 1, read, write, zero));
    ask!(out_of_memory, terrace_matrix_apply(sim, on_host, F64, 1.0, read, 0.0, write));
    ask!(out_of_memory, terrace_matrix_apply_transposed(sim, on_host, F64, 1.0, read, 0.0, write));
    ask!(out_of_memory, terrace_matrix_multiply(sim, on_host, on_host, &mut made));
    ask!(out_of_memory, terrace_matrix_transpose(sim, on_host, &mut made));
    let on_gpu = values.as_ptr();
    ask!(
        out_of_memory,
        terrace_matrix_create_csr(sim, n, n, I32, rows, I32, columns, F64, on_gpu, 0, TERRACE_COPY, &mut made)
    );
    ask!(
        out_of_memory,
        terrace_matrix_create_bsr(sim, n, n, 1, I32, rows, I32, columns, F64, on_gpu, 0, TERRACE_COPY, &mut made)
    );
    let (dims, steps) = ([n, 1, 1], [0, 0, 0]);
    let (dims, steps) = (dims.as_ptr(), steps.as_ptr());
    let layout = TERRACE_BY_CELL;
    ask!(
        out_of_memory,
        terrace_matrix_create_stencil(sim, dims, null(), 1, 1, steps, F64, on_gpu, layout, TERRACE_COPY, &mut made)
    );
    ask!(0, terrace_context_set_memory_limit(sim, 0));
    for s in [s, fresh] {
        ask!(0, terrace_solver_destroy(s));
    }
    ask!(0, terrace_amg_destroy(amg));
    ask!(0, terrace_fsai_destroy(fsai));
    ask!(0, terrace_matrix_destroy(on_host));
    drop(values);
    ask!(0, terrace_context_destroy(sim));
}
