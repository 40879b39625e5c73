//! When memory runs out, each call returns a status: every allocation of a page or more fails once, in turn. What the failed call was given
//! works on, and when all objects are destroyed nothing is left.
//!
//! One test in a file of its own, because the allocator sees every thread of the process. `TERRACE_DEEP=1` leaves out no allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_void};
use std::io::Write;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use terrace::capi::*;
use terrace::error::Status;
use terrace::gallery;
use terrace::sparse::Csr;

/// Set in the process that sees to the simulated GPU.
const OTHER: &str = "TERRACE_TEST_ALLOCATIONS_OF_SIM";

/// Smallest allocation that fails. Smaller ones do not grow with the caller's matrix; `docs/architecture.md` lists them.
const LARGE: usize = 4096;

struct Failing;

/// Bytes that are allocated.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Large allocations until the one that fails, 0 when none does.
static UNTIL: AtomicUsize = AtomicUsize::new(0);
/// Large allocations since the last start of counting.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Whether this allocation fails.
fn fails(bytes: usize) -> bool {
    if bytes < LARGE {
        return false;
    }
    COUNTED.fetch_add(1, Relaxed);
    UNTIL.fetch_update(Relaxed, Relaxed, |until| until.checked_sub(1)) == Ok(1)
}

// SAFETY: every call goes to the system's allocator, or fails.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && fails(size) {
            return null_mut();
        }
        HELD.fetch_add(size, Relaxed);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Fails each large allocation of `call` in turn, at most about `most` of them. After each failure `call` must succeed, and `check` what it
/// did. At least one failure is seen as `TERRACE_ERROR_OUT_OF_MEMORY`.
fn fail_each(
    what: &str,
    most: usize,
    prepare: &mut dyn FnMut(),
    call: &mut dyn FnMut() -> terrace_status,
    check: &mut dyn FnMut(),
) {
    let (count, seen) = count_failures(what, most, prepare, call, check);
    assert!(count == 0 || seen > 0, "{what}: no failure was reported");
}

/// The same for any number of failures. Returns the number of large allocations, and of failures.
fn count_failures(
    what: &str,
    most: usize,
    prepare: &mut dyn FnMut(),
    call: &mut dyn FnMut() -> terrace_status,
    check: &mut dyn FnMut(),
) -> (usize, usize) {
    prepare();
    COUNTED.store(0, Relaxed);
    assert_eq!(call(), 0, "{what}");
    let count = COUNTED.load(Relaxed);
    check();
    let deep = std::env::var_os("TERRACE_DEEP").is_some();
    let most = if deep { usize::MAX } else { (most / 2).max(1) };
    let mut seen = 0;
    for k in (1..=count).step_by(count.div_ceil(most).max(1)) {
        prepare();
        if deep {
            // Not by `eprintln`, whose text the harness keeps in memory.
            let _ = writeln!(std::io::stderr(), "{what}: allocation {k} of {count}");
        }
        UNTIL.store(k, Relaxed);
        let status = call();
        // With several threads, one of them may have needed fewer allocations than before.
        let failed = UNTIL.swap(0, Relaxed) == 0;
        // What is only faster with more memory may go on without.
        let is_told = status == 0 || failed && status == Status::OutOfMemory.code();
        assert!(is_told, "{what}, allocation {k}: {status}, {}", sentence());
        seen += usize::from(status != 0);
        assert_eq!(call(), 0, "{what}, after the failure of allocation {k}");
        check();
    }
    (count, seen)
}

/// What the last call of this thread said.
fn sentence() -> String {
    let mut text = [0_u8; 1000];
    // SAFETY: a buffer of this length.
    unsafe { terrace_last_error(null(), text.as_mut_ptr().cast(), text.len(), null_mut()) };
    CStr::from_bytes_until_nul(&text).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

/// Objects of one device, and a system.
struct Objects<'a> {
    a: &'a Csr<f64>,
    b: Vec<f64>,
    x: Vec<f64>,
    context: *mut terrace_context,
    config: *mut terrace_config,
    matrix: *mut terrace_matrix,
    solver: *mut terrace_solver,
    /// Several right-hand sides and solutions.
    several: (Vec<f64>, Vec<f64>),
}

/// How many.
const SEVERAL: usize = 8;

impl<'a> Objects<'a> {
    fn new(a: &'a Csr<f64>, device: &CStr, options: &CStr) -> Objects<'a> {
        let n = a.rows * a.block.rows;
        let b: Vec<f64> = (0..n).map(|i| (1 + i % 7) as f64).collect();
        let (mut context, mut config, mut solver) = (null_mut(), null_mut(), null_mut());
        // SAFETY: pointers to locals.
        unsafe {
            assert_eq!(terrace_context_create(device.as_ptr(), &mut context), 0);
            assert_eq!(terrace_config_create(context, &mut config), 0);
            assert_eq!(terrace_config_load_json(config, options.as_ptr()), 0);
            assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        }
        let several = (vec![0.0; SEVERAL * n], vec![0.0; SEVERAL * n]);
        let mut objects = Objects { a, b, x: vec![0.0; n], context, config, matrix: null_mut(), solver, several };
        objects.matrix = objects.create().unwrap();
        objects
    }

    fn create(&self) -> Result<*mut terrace_matrix, terrace_status> {
        let (n, a) = (self.a.rows as i64, self.a);
        let (offsets, columns, values) = (a.offsets.as_ptr(), a.columns.as_ptr(), a.values.as_ptr());
        let mut matrix = null_mut();
        // SAFETY: the arrays are as long as the sizes say.
        let status = unsafe {
            terrace_matrix_create_bsr(
                self.context,
                n,
                n,
                a.block.rows as i32,
                TERRACE_I64,
                offsets.cast(),
                TERRACE_I32,
                columns.cast(),
                TERRACE_F64,
                values.cast(),
                0,
                TERRACE_COPY,
                &mut matrix,
            )
        };
        if status == 0 { Ok(matrix) } else { Err(status) }
    }

    fn solve(&mut self) -> terrace_status {
        self.x.fill(0.0);
        let (b, x): (*const c_void, *mut c_void) = (self.b.as_ptr().cast(), self.x.as_mut_ptr().cast());
        // SAFETY: vectors of the system's size.
        unsafe { terrace_solver_solve(self.solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) }
    }

    /// Solves for the same right-hand side many times in one call, which takes memory for several together where there is some.
    fn solve_several(&mut self) -> terrace_status {
        let (n, count) = (self.x.len(), SEVERAL);
        for c in 0..count {
            self.several.0[c * n..][..n].copy_from_slice(&self.b);
        }
        let (b, x): (*const c_void, *mut c_void) = (self.several.0.as_ptr().cast(), self.several.1.as_mut_ptr().cast());
        // SAFETY: vectors of the system's size, times the number of right-hand sides.
        let status = unsafe { terrace_solver_solve(self.solver, TERRACE_F64, count as i64, b, x, TERRACE_ZERO_GUESS) };
        self.x.copy_from_slice(&self.several.1[(count - 1) * n..]);
        status
    }

    /// The residual of x is small.
    fn is_solved(&self) {
        let product = product(self.a, &self.x);
        let residual: f64 = self.b.iter().zip(product).map(|(b, p)| (b - p).powi(2)).sum();
        let norm: f64 = self.b.iter().map(|b| b * b).sum();
        assert!(residual <= 1e-15 * norm, "{}", (residual / norm).sqrt());
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this type, and not used again.
        unsafe {
            terrace_solver_destroy(self.solver);
            terrace_matrix_destroy(self.matrix);
            terrace_config_destroy(self.config);
            terrace_context_destroy(self.context);
        }
    }
}

/// A x.
fn product(a: &Csr<f64>, x: &[f64]) -> Vec<f64> {
    let size = a.block.rows;
    let mut y = vec![0.0; a.rows * size];
    for i in 0..a.rows {
        for (j, block) in a.view().row(i) {
            block.iter().enumerate().for_each(|(e, v)| y[i * size + e / size] += v * x[j * size + e % size]);
        }
    }
    y
}

/// Destroys what a call made.
fn destroy(made: &mut *mut terrace_matrix) {
    // SAFETY: null or alive.
    unsafe { terrace_matrix_destroy(std::mem::replace(made, null_mut())) };
}

fn matrices(device: &CStr, a: &Csr<f64>, most: usize) {
    let o = Objects::new(a, device, c"{}");
    let mut made = null_mut();
    let size = |matrix: *const terrace_matrix| {
        let (mut rows, mut entries) = (0, 0);
        // SAFETY: alive, and pointers to locals.
        let status =
            unsafe { terrace_matrix_get_size(o.context, matrix, &mut rows, null_mut(), &mut entries, null_mut()) };
        assert_eq!((status, rows), (0, a.rows as i64));
        entries
    };
    let what = |name: &str| format!("{} {name}", device.to_string_lossy());
    let each = |name: &str, make: &dyn Fn() -> Result<*mut terrace_matrix, terrace_status>, entries: i64| {
        let made = std::cell::Cell::new(null_mut::<terrace_matrix>());
        let mut call = || match make() {
            Ok(matrix) => {
                destroy(&mut made.replace(matrix));
                0
            }
            Err(status) => status,
        };
        fail_each(&what(name), most, &mut || (), &mut call, &mut || assert_eq!(size(made.get()), entries));
        destroy(&mut made.get());
    };
    let status = |status: terrace_status, made: *mut terrace_matrix| if status == 0 { Ok(made) } else { Err(status) };
    each("create", &|| o.create(), a.values.len() as i64);
    let transpose = || {
        let mut made = null_mut();
        // SAFETY: alive, and a pointer to a local.
        status(unsafe { terrace_matrix_transpose(o.context, o.matrix, &mut made) }, made)
    };
    each("transpose", &transpose, a.values.len() as i64);
    let multiply = || {
        let mut made = null_mut();
        // SAFETY: alive, and a pointer to a local.
        status(unsafe { terrace_matrix_multiply(o.context, o.matrix, o.matrix, &mut made) }, made)
    };
    made = multiply().unwrap_or(made);
    let entries = size(made);
    destroy(&mut made);
    each("multiply", &multiply, entries);
    let view = a.view();
    let rows: Vec<i32> = (0..a.rows).flat_map(|i| view.row(i).map(move |_| i as i32)).collect();
    let coordinates = || {
        let (mut made, n, count) = (null_mut(), a.rows as i64, rows.len() as i64);
        let (rows, columns, values) = (rows.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
        let (index, value) = (TERRACE_I32, TERRACE_F64);
        // SAFETY: arrays of `count` elements, and a pointer to a local.
        let code = unsafe {
            terrace_matrix_create_coo(o.context, n, n, count, index, rows, columns, value, values, 0, &mut made)
        };
        status(code, made)
    };
    each("create from coordinates", &coordinates, a.values.len() as i64);
    let dims = [25, a.rows as i64 / 25, 1];
    let steps: [[i32; 3]; 5] = [[0, 0, 0], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]];
    let cells: Vec<f64> = (0..a.rows as i64)
        .flat_map(|cell| {
            steps.map(|[x, y, _]| {
                let (x, y) = (cell % dims[0] + i64::from(x), cell / dims[0] + i64::from(y));
                let is_inside = (0..dims[0]).contains(&x) && (0..dims[1]).contains(&y);
                if is_inside { -1.0 } else { 0.0 }
            })
        })
        .enumerate()
        .map(|(k, v)| if k % 5 == 0 { 4.0 } else { v })
        .collect();
    let stencil = || {
        let (mut made, steps, cells) = (null_mut(), steps.as_ptr().cast(), cells.as_ptr().cast());
        let (value, layout, copy) = (TERRACE_F64, TERRACE_BY_CELL, TERRACE_COPY);
        let dims = dims.as_ptr();
        // SAFETY: arrays as long as the numbers say, and a pointer to a local.
        let code = unsafe {
            terrace_matrix_create_stencil(o.context, dims, null(), 1, 5, steps, value, cells, layout, copy, &mut made)
        };
        status(code, made)
    };
    made = stencil().unwrap_or(made);
    let entries = size(made);
    destroy(&mut made);
    each("create from a stencil", &stencil, entries);

    // What is done to a matrix.
    let n = a.rows;
    let (numbers, functions) = (vec![1.0; 2 * n], vec![0; n]);
    let x: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
    let y = std::cell::RefCell::new(vec![0.0; n]);
    let (context, matrix) = (o.context, o.matrix);
    let changes = |name: &str, call: &mut dyn FnMut() -> terrace_status, check: &mut dyn FnMut()| {
        let same = &mut || {
            assert_eq!(size(matrix), a.values.len() as i64);
            check();
        };
        fail_each(&what(name), most, &mut || (), call, same);
    };
    let is_product = &mut || assert!(y.borrow().iter().zip(product(a, &x)).all(|(y, p)| (y - p).abs() < 1e-12));
    // SAFETY: in all of these, alive, and arrays as long as the matrix has rows or entries.
    unsafe {
        let (values, count) = (a.values.as_ptr().cast(), a.values.len() as i64);
        let update = &mut || terrace_matrix_update_values(context, matrix, TERRACE_F64, values, count);
        changes("new values", update, &mut || ());
        let (from, f64s) = (x.as_ptr().cast(), TERRACE_F64);
        let to = || y.borrow_mut().as_mut_ptr().cast();
        changes("apply", &mut || terrace_matrix_apply(context, matrix, f64s, 1.0, from, 0.0, to()), is_product);
        // It is symmetric.
        let transposed = &mut || terrace_matrix_apply_transposed(context, matrix, f64s, 1.0, from, 0.0, to());
        changes("apply transposed", transposed, is_product);
        let vectors = &mut || terrace_matrix_set_near_null_space(context, matrix, 1, 2, numbers.as_ptr());
        changes("near-null space", vectors, &mut || ());
        let nodes = &mut || terrace_matrix_set_coordinates(context, matrix, 2, n as i64 / 2, numbers.as_ptr());
        changes("coordinates", nodes, &mut || ());
        let of_unknowns = &mut || terrace_matrix_set_functions(context, matrix, 1, functions.as_ptr());
        changes("functions", of_unknowns, &mut || ());
        let dims = [n as i64, 1, 1];
        let line = gallery::parse(&format!("poisson5:{n}x1")).unwrap().matrix;
        let line = Objects::new(&line, device, c"{}");
        let grid = &mut || terrace_matrix_set_grid(context, line.matrix, dims.as_ptr(), null());
        changes("grid", grid, &mut || ());
    }
}

/// Preconditioners without a solver: set-up, update and estimate.
fn preconditioners(device: &CStr, a: &Csr<f64>, most: usize) {
    let o = Objects::new(a, device, c"{}");
    let (context, matrix, n) = (o.context, o.matrix, a.rows);
    // A sample of allocations need not reach one that each call needs.
    let mut seen = 0;
    let mut fail = |name: &str, call: &mut dyn FnMut() -> terrace_status, check: &mut dyn FnMut()| {
        let what = format!("{} {name}", device.to_string_lossy());
        seen += count_failures(&what, most, &mut || (), call, check).1;
    };
    let mut x = vec![0.0; n];
    let (mut amg, mut fsai, mut bytes) = (null_mut(), null_mut(), 0);
    let amg_of = std::cell::Cell::new(amg);
    let fsai_of = std::cell::Cell::new(fsai);
    // SAFETY: in all of these, alive, and vectors of the system's size.
    unsafe {
        let (b, x) = (o.b.as_ptr().cast(), x.as_mut_ptr().cast());
        let config: *const terrace_config = null();
        let mut setup = || {
            let status = terrace_amg_setup(context, matrix, config, &mut amg);
            if status == 0 {
                terrace_amg_destroy(amg_of.replace(amg));
            }
            status
        };
        let apply = &mut || assert_eq!(terrace_amg_apply(amg_of.get(), TERRACE_F64, b, x), 0);
        fail("amg set-up", &mut setup, apply);
        fail("amg update", &mut || terrace_amg_update(amg_of.get()), apply);
        terrace_amg_destroy(amg_of.get());
        let estimate = &mut || terrace_amg_memory_estimate(context, matrix, config, &mut bytes);
        fail("amg estimate", estimate, &mut || ());
        let mut setup = || {
            let status = terrace_fsai_setup(context, matrix, config, &mut fsai);
            if status == 0 {
                terrace_fsai_destroy(fsai_of.replace(fsai));
            }
            status
        };
        let apply = &mut || assert_eq!(terrace_fsai_apply(fsai_of.get(), TERRACE_F64, b, x), 0);
        fail("fsai set-up", &mut setup, apply);
        fail("fsai update", &mut || terrace_fsai_update(fsai_of.get()), apply);
        terrace_fsai_destroy(fsai_of.get());
        let estimate = &mut || terrace_fsai_memory_estimate(context, matrix, config, &mut bytes);
        fail("fsai estimate", estimate, &mut || ());
    }
    assert!(seen > 0, "{}: no failure was reported", device.to_string_lossy());
}

/// The report of a solve of many right-hand sides, and its texts, which need no memory of their own.
fn report(device: &CStr, a: &Csr<f64>, most: usize) {
    let mut o = Objects::new(a, device, c"{\"solver.columns\": 1}");
    // SAFETY: alive.
    assert_eq!(unsafe { terrace_solver_setup(o.solver, o.matrix) }, 0);
    let n = a.rows;
    let (b, mut x) = (o.b.repeat(100), vec![0.0; 100 * n]);
    let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    // SAFETY: alive, and vectors of 100 times the system's size.
    assert_eq!(unsafe { terrace_solver_solve(o.solver, TERRACE_F64, 100, b, x, TERRACE_ZERO_GUESS) }, 0);
    o.x.fill(0.0);
    let made = std::cell::Cell::new(null_mut());
    let mut call = || {
        let mut report = null_mut();
        // SAFETY: alive, and a pointer to a local.
        let status = unsafe { terrace_solver_report(o.solver, &mut report) };
        if status == 0 {
            // SAFETY: null or alive.
            unsafe { terrace_report_destroy(made.replace(report)) };
        }
        status
    };
    fail_each(&format!("{} report", device.to_string_lossy()), most, &mut || (), &mut call, &mut || ());
    let mut text = vec![0_u8; 1 << 20];
    for write in [terrace_report_to_json, terrace_report_to_text] {
        let mut needed = 0;
        COUNTED.store(0, Relaxed);
        // SAFETY: alive, and a buffer of this length.
        assert_eq!(unsafe { write(made.get(), text.as_mut_ptr().cast(), text.len(), &mut needed) }, 0);
        assert_eq!(COUNTED.load(Relaxed), 0, "the text is in the caller's buffer alone");
        assert!(LARGE < needed && needed < text.len() && text[needed - 1] == 0 && text[needed - 2] != 0);
    }
    // SAFETY: alive.
    unsafe { terrace_report_destroy(made.get()) };
}

fn solver(device: &CStr, a: &Csr<f64>, options: &CStr, most: usize) {
    let what = |name: &str| format!("{} {} {name}", device.to_string_lossy(), options.to_string_lossy());
    let o = std::cell::RefCell::new(Objects::new(a, device, options));
    let solve = || {
        assert_eq!(o.borrow_mut().solve(), 0);
        o.borrow().is_solved();
    };
    let (context, config) = (o.borrow().context, o.borrow().config);
    let (matrix, solver) = (o.borrow().matrix, o.borrow().solver);
    let mut bytes = 0;
    let mut estimate =
        // SAFETY: alive, and a pointer to a local.
        || unsafe { terrace_solver_memory_estimate(context, matrix, config, 1, &mut bytes) };
    fail_each(&what("estimate"), most, &mut || (), &mut estimate, &mut || ());

    // SAFETY: alive.
    let mut setup = || unsafe { terrace_solver_setup(solver, matrix) };
    fail_each(&what("set-up"), most, &mut || (), &mut setup, &mut || solve());
    fail_each(&what("solve"), most, &mut || (), &mut || o.borrow_mut().solve(), &mut || o.borrow().is_solved());
    // Where there is no memory for several together, they are solved one by one.
    let mut several = || o.borrow_mut().solve_several();
    let mut released = || assert_eq!(setup(), 0);
    let check = &mut || o.borrow().is_solved();
    let (_, seen) = count_failures(&what("several"), most, &mut released, &mut several, check);
    // A GPU needs copies of a right-hand side and a solution of the host in any case.
    let needed = if device.to_string_lossy().starts_with("host") { 0 } else { 2 };
    assert!(seen <= needed, "{}: {seen}", what("several"));

    // The first update, and a later one.
    // SAFETY: alive.
    let mut update = || unsafe { terrace_solver_update(solver) };
    let mut anew = || assert_eq!(setup(), 0);
    fail_each(&what("first update"), most, &mut anew, &mut update, &mut || solve());
    fail_each(&what("update"), most, &mut || (), &mut update, &mut || solve());
}

/// Solves with the transpose of a matrix that is not symmetric: what the first of them makes.
fn transposed(device: &CStr, a: &Csr<f64>, options: &CStr, most: usize) {
    let what = format!("{} {} transposed", device.to_string_lossy(), options.to_string_lossy());
    let mut o = Objects::new(a, device, options);
    let (matrix, solver, b, x) = (o.matrix, o.solver, o.b.as_ptr().cast(), o.x.as_mut_ptr().cast());
    // SAFETY: alive, and vectors of the system's size.
    let mut setup = || assert_eq!(unsafe { terrace_solver_setup(solver, matrix) }, 0);
    // SAFETY: as above.
    let mut call = || unsafe { terrace_solver_solve_transposed(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) };
    fail_each(&what, most, &mut setup, &mut call, &mut || ());
    let mut r = o.b.clone();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            r[a.columns[k] as usize] -= a.values[k] * o.x[i];
        }
    }
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    assert!(norm(&r) <= 2e-8 * norm(&o.b), "{what}: {}", norm(&r) / norm(&o.b));
}

/// How many ranks.
const RANKS: usize = 3;

/// A table that a thread may take along.
struct Sent(terrace_communicator);

// SAFETY: the functions may be called from any thread, one at a time.
unsafe impl Send for Sent {}

/// Ranks that are threads, from their rows to a solution. Each large allocation of any rank fails in turn: all ranks then fail in the same call,
/// those that had memory because of the one that had none.
fn over_ranks(a: &Csr<f64>, options: &CStr, most: usize) {
    let columns: Vec<i64> = a.columns.iter().map(|column| i64::from(*column)).collect();
    let run = |until: usize| -> (Vec<Vec<terrace_status>>, usize) {
        // SAFETY: tables of null pointers are values.
        let mut tables = vec![unsafe { std::mem::zeroed::<terrace_communicator>() }; RANKS];
        // SAFETY: as many tables.
        assert_eq!(unsafe { terrace_threads_communicator(RANKS as i32, tables.as_mut_ptr()) }, 0);
        // Ready, go, finished, away.
        let barrier = std::sync::Barrier::new(RANKS + 1);
        let work = |rank: usize, Sent(table): Sent| {
            let (first, end) = (a.rows * rank / RANKS, a.rows * (rank + 1) / RANKS);
            let (rows, begin) = (end - first, a.offsets[first] as usize);
            let offsets: Vec<i64> = a.offsets[first..=end].iter().map(|offset| offset - begin as i64).collect();
            let (b, mut x) = (vec![1.0_f64; rows], vec![0.0_f64; rows]);
            let (mut context, mut config, mut solver, mut matrix) = (null_mut(), null_mut(), null_mut(), null_mut());
            let mut statuses = Vec::with_capacity(3);
            // SAFETY: pointers to locals, and arrays of the lengths that are told.
            unsafe {
                assert_eq!(terrace_context_create(c"host:1".as_ptr(), &mut context), 0);
                assert_eq!(terrace_context_set_communicator(context, &table), 0);
                assert_eq!(terrace_config_create(context, &mut config), 0);
                assert_eq!(terrace_config_load_json(config, options.as_ptr()), 0);
                assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
                barrier.wait();
                barrier.wait();
                statuses.push(terrace_matrix_create_csr_distributed(
                    context,
                    a.rows as i64,
                    first as i64,
                    rows as i64,
                    TERRACE_I64,
                    offsets.as_ptr().cast(),
                    TERRACE_I64,
                    columns[begin..].as_ptr().cast(),
                    TERRACE_F64,
                    a.values[begin..].as_ptr().cast(),
                    0,
                    TERRACE_COPY,
                    &mut matrix,
                ));
                if statuses == [0] {
                    statuses.push(terrace_solver_setup(solver, matrix));
                }
                if statuses == [0, 0] {
                    let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
                    statuses.push(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
                }
                barrier.wait();
                barrier.wait();
                terrace_solver_destroy(solver);
                terrace_matrix_destroy(matrix);
                terrace_config_destroy(config);
                terrace_context_destroy(context);
                table.free.unwrap()(table.user);
            }
            statuses
        };
        let work = &work;
        std::thread::scope(|scope| {
            let tables = tables.into_iter().map(Sent).enumerate();
            let started: Vec<_> = tables.map(|(rank, table)| scope.spawn(move || work(rank, table))).collect();
            barrier.wait();
            COUNTED.store(0, Relaxed);
            UNTIL.store(until, Relaxed);
            barrier.wait();
            barrier.wait();
            UNTIL.store(0, Relaxed);
            let counted = COUNTED.load(Relaxed);
            barrier.wait();
            (started.into_iter().map(|thread| thread.join().unwrap()).collect(), counted)
        })
    };
    let (statuses, count) = run(0);
    assert_eq!(statuses, vec![vec![0, 0, 0]; RANKS], "{options:?}");
    let most = if std::env::var_os("TERRACE_DEEP").is_some() { usize::MAX } else { most };
    // Where the memory is that of the communicator, its function fails, and all ranks tell that.
    let (mut phases, mut told) = ([0; 3], 0);
    for k in (1..=count).step_by(count.div_ceil(most).max(1)) {
        let (statuses, _) = run(k);
        let last: Vec<terrace_status> = statuses.iter().map(|of| *of.last().unwrap()).collect();
        let same = statuses.iter().all(|of| of.len() == statuses[0].len() && (of.last() == Some(&0)) == (last[0] == 0));
        let accepted = [Status::Success.code(), Status::OutOfMemory.code(), Status::Callback.code()];
        assert!(
            same && last.iter().all(|status| accepted.contains(status)),
            "{options:?}, allocation {k} of {count}: {statuses:?}"
        );
        if last[0] != 0 {
            told += usize::from(last.contains(&Status::OutOfMemory.code()));
            phases[statuses[0].len() - 1] += 1;
        }
    }
    // A handful of allocations need not reach every phase, nor memory of Terrace's own.
    if most < 8 {
        return;
    }
    let failures: usize = phases.iter().sum();
    assert!(phases[0] > 0 && phases[1] > 0 && 2 * told > failures, "{options:?}: {told} of {failures}, {phases:?}");
}

#[test]
fn each_failed_allocation_is_a_status() {
    let large = gallery::poisson5(50, 48).unwrap();
    let small = gallery::poisson5(30, 30).unwrap();
    let classical = c"{\"amg.coarsening.type\": \"pmis\"}";
    let reordered = c"{\"amg.reorder\": \"on\", \"amg.coarsening.type\": \"pmis\"}";
    let direct = c"{\"solver.type\": \"direct\"}";
    let convection = gallery::parse("convection_diffusion:30").unwrap().matrix;
    let others = [
        reordered,
        direct,
        c"{\"amg.coarsening.type\": \"hmis\", \"amg.interpolation.type\": \"direct\", \"amg.smoother.type\": \"gauss_seidel\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"amg.interpolation.aggressive\": \"multipass\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.coarsening.aggressive_levels\": 1, \"solver.type\": \"gmres\"}",
        c"{\"amg.coarsening.type\": \"pairwise\", \"amg.interpolation.type\": \"tentative\", \"amg.cycle.type\": \"k\", \"solver.type\": \"fcg\"}",
        c"{\"amg.coarsening.type\": \"pmis\", \"amg.interpolation.type\": \"mm_ext_i\", \"precision\": \"dp-hp\", \"solver.type\": \"fcg\"}",
    ];
    let smoothers = [
        c"{\"solver.preconditioner\": \"fsai\"}",
        c"{\"amg.smoother.type\": \"fsai\"}",
        c"{\"amg.smoother.type\": \"dilu\"}",
        c"{\"amg.coarsening.type\": \"mis2\", \"amg.interpolation.type\": \"energy\"}",
        c"{\"precision\": \"auto\"}",
    ];
    let on_grids =
        [c"{\"amg.type\": \"structured\"}", c"{\"amg.type\": \"structured\", \"amg.smoother.type\": \"ilu0\"}"];
    let on_grid = gallery::parse("poisson5:50x48").unwrap().matrix;
    let blocks = gallery::parse("elasticity:5").unwrap().matrix;
    // Components and matrices of other kinds: `make deep-test`.
    let wide = std::env::var_os("TERRACE_DEEP").is_some();
    let on_host = |share: usize| {
        matrices(c"host:1", &large, 6 / share);
        matrices(c"host:3", &large, 6 / share);
        solver(c"host:3", &large, c"{}", 9 / share);
        solver(c"host:1", &large, classical, 9 / share);
        for options in others {
            solver(c"host:1", &large, options, 4 / share);
        }
        for options in smoothers.iter().filter(|_| wide) {
            solver(c"host:1", &large, options, 2 / share);
        }
        for options in on_grids.iter().filter(|_| wide) {
            solver(c"host:1", &on_grid, options, 2 / share);
        }
        for options in [c"{}", c"{\"amg.coarsening.type\": \"mis2\"}"].iter().filter(|_| wide) {
            solver(c"host:1", &blocks, options, 2 / share);
        }
        preconditioners(c"host:1", &large, 6 / share);
        report(c"host:1", &small, 100);
        for options in [direct, c"{}"] {
            transposed(c"host:1", &convection, options, 4 / share);
        }
        // Set-up by each rank, and divided.
        over_ranks(&large, c"{}", 24 / share);
        over_ranks(&large, c"{\"amg.ranks.gathered_rows\": 400, \"amg.coarsening.type\": \"pmis\"}", 24 / share);
    };
    let on_sim = |share: usize| {
        matrices(c"sim", &small, 4 / share);
        solver(c"sim", &small, c"{}", 4 / share);
        solver(c"sim", &small, classical, 4 / share);
        solver(c"sim", &small, reordered, 7 / share);
        preconditioners(c"sim", &small, 2 / share);
        report(c"sim", &small, 100);
        transposed(c"sim", &convection, direct, 4 / share);
    };
    // Another process sees to the simulated GPU at the same time.
    let is_other = std::env::var_os(OTHER).is_some();
    let mut other = (!is_other).then(|| {
        let mut command = Command::new(std::env::current_exe().expect("a test is a file"));
        command.args(["--exact", "each_failed_allocation_is_a_status", "--nocapture"]).env(OTHER, "1");
        command.spawn().expect("the test starts once more")
    });
    let work: &dyn Fn(usize) = if is_other { &on_sim } else { &on_host };
    // What is allocated once and for all is there after the first time.
    work(10);
    let before = HELD.load(Relaxed);
    work(1);
    // The queues of pools free their blocks late.
    let lost = HELD.load(Relaxed).saturating_sub(before);
    assert!(lost < 8 * LARGE, "{lost} bytes are lost");
    if let Some(other) = &mut other {
        assert!(other.wait().expect("it was started").success(), "the process with the simulated GPU failed");
    }
}
