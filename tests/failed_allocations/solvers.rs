//! Solvers, preconditioners and reports.

use super::allocator::{COUNTED, LARGE, count_failures, fail_each};
use super::objects::Objects;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use terrace::capi::*;
use terrace::sparse::Csr;

/// Preconditioners without a solver: set-up, update and estimate.
pub fn preconditioners(device: &CStr, a: &Csr<f64>, most: usize) {
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

/// Applications of the transposes of AMG and FSAI, for a matrix that is not symmetric: what the first of them makes.
pub fn transposed_preconditioners(device: &CStr, a: &Csr<f64>, most: usize) {
    let o = Objects::new(a, device, c"{}");
    let (context, matrix, mut x) = (o.context, o.matrix, vec![0.0; a.rows]);
    let (b, x) = (o.b.as_ptr().cast(), x.as_mut_ptr().cast());
    let (amg, fsai) = (std::cell::Cell::new(null_mut()), std::cell::Cell::new(null_mut()));
    let what = |name: &str| format!("{} transposed {name}", device.to_string_lossy());
    // SAFETY: in all of these, alive or null, and vectors of the system's size.
    unsafe {
        let mut setup = || {
            let mut made = null_mut();
            assert_eq!(terrace_amg_setup(context, matrix, null(), &mut made), 0);
            terrace_amg_destroy(amg.replace(made));
        };
        let mut call = || terrace_amg_apply_transposed(amg.get(), TERRACE_F64, b, x);
        fail_each(&what("amg"), most, &mut setup, &mut call, &mut || ());
        let mut setup = || {
            let mut made = null_mut();
            assert_eq!(terrace_fsai_setup(context, matrix, null(), &mut made), 0);
            terrace_fsai_destroy(fsai.replace(made));
        };
        let mut call = || terrace_fsai_apply_transposed(fsai.get(), TERRACE_F64, b, x);
        fail_each(&what("fsai"), most, &mut setup, &mut call, &mut || ());
        terrace_amg_destroy(amg.get());
        terrace_fsai_destroy(fsai.get());
    }
}

/// The report of a solve of many right-hand sides, and its texts, which need no memory of their own.
pub fn report(device: &CStr, a: &Csr<f64>, most: usize) {
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

pub fn solver(device: &CStr, a: &Csr<f64>, options: &CStr, most: usize) {
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
pub fn transposed(device: &CStr, a: &Csr<f64>, options: &CStr, most: usize) {
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
