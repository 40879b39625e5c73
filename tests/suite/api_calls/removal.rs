//! What a solver or a matrix was told is gone when it is taken back: the next set-up and solve have the bits of objects that never had it.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use terrace::capi::*;

const N: usize = 60;

thread_local! {
    /// Calls of the callbacks below.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// y = 3 x, in memory that the program can read: on simulated GPUs, too.
unsafe extern "C" fn three_times(n: i64, x: *const c_void, y: *mut c_void, _: *mut c_void) -> i32 {
    CALLS.set(CALLS.get() + 1);
    for i in 0..n as usize {
        // SAFETY: n elements of f64 each.
        unsafe { *y.cast::<f64>().add(i) = 3.0 * *x.cast::<f64>().add(i) };
    }
    0
}

unsafe extern "C" fn never_stop(_: i64, _: i64, _: f64, _: *mut c_void) -> i32 {
    CALLS.set(CALLS.get() + 1);
    0
}

/// The arrays of a matrix with couplings of two sizes: tridiag(-1, 2.5, -1), and -0.1 to the row after the next.
fn arrays(far: f64) -> (Vec<i32>, Vec<i32>, Vec<f64>) {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..N {
        for (j, v) in [(i.wrapping_sub(2), far), (i.wrapping_sub(1), -1.0), (i, 2.5), (i + 1, -1.0), (i + 2, far)] {
            if j < N {
                columns.push(j as i32);
                values.push(v);
            }
        }
        offsets.push(columns.len() as i32);
    }
    (offsets, columns, values)
}

fn matrix(context: *mut terrace_context, far: f64) -> *mut terrace_matrix {
    let ((offsets, columns, values), mut matrix) = (arrays(far), null_mut());
    let (n, i, f) = (N as i64, TERRACE_I32, TERRACE_F64);
    let (offsets, columns, values) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
    // SAFETY: arrays of these lengths, which are copied.
    let status = unsafe {
        terrace_matrix_create_csr(context, n, n, i, offsets, i, columns, f, values, 0, TERRACE_COPY, &mut matrix)
    };
    assert_eq!(status, 0);
    matrix
}

fn solver(context: *mut terrace_context) -> *mut terrace_solver {
    let (mut config, mut solver) = (null_mut(), null_mut());
    // SAFETY: alive, texts, and pointers to locals.
    unsafe {
        assert_eq!(terrace_config_create(context, &mut config), 0);
        for (key, value) in [(c"amg.coarsest.max_rows", c"4"), (c"amg.coarsening.type", c"auto")] {
            assert_eq!(terrace_config_set_str(config, key.as_ptr(), value.as_ptr()), 0);
        }
        assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        assert_eq!(terrace_config_destroy(config), 0);
    }
    solver
}

/// Sets up and solves: iterations, and x.
fn solved(solver: *mut terrace_solver, matrix: *mut terrace_matrix) -> (i64, Vec<f64>) {
    // SAFETY: alive.
    assert_eq!(unsafe { terrace_solver_setup(solver, matrix) }, 0);
    again(solver)
}

fn again(solver: *mut terrace_solver) -> (i64, Vec<f64>) {
    let (b, mut x): (Vec<f64>, _) = ((0..N).map(|i| (i as f64).cos()).collect(), vec![0.0_f64; N]);
    let (mut report, mut iterations) = (null_mut(), -1);
    let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    // SAFETY: alive, and vectors of the solver's size.
    unsafe {
        assert_eq!(terrace_solver_solve(solver, TERRACE_F64, 1, from, to, TERRACE_ZERO_GUESS), 0);
        assert_eq!(terrace_solver_report(solver, &mut report), 0);
        assert_eq!(terrace_report_get_int(report, c"iterations".as_ptr(), 0, &mut iterations), 0);
        assert_eq!(terrace_report_destroy(report), 0);
    }
    (iterations, x)
}

/// What is told, and taken back twice.
type Tell = unsafe fn(*mut terrace_context, *mut terrace_solver, *mut terrace_matrix) -> i32;

#[test]
fn what_is_taken_back_has_no_effect() {
    let told: [(&str, bool, Tell, Tell); 7] = [
        (
            "operator",
            true,
            |_, solver, _| unsafe { terrace_solver_set_operator(solver, N as i64, Some(three_times), null_mut()) },
            |_, solver, _| unsafe { terrace_solver_set_operator(solver, 0, None, null_mut()) },
        ),
        (
            "preconditioner",
            true,
            |_, solver, _| unsafe { terrace_solver_set_preconditioner(solver, Some(three_times), null_mut()) },
            |_, solver, _| unsafe { terrace_solver_set_preconditioner(solver, None, null_mut()) },
        ),
        (
            "matrix of the preconditioner",
            true,
            |context, solver, _| unsafe {
                let other = matrix(context, 0.0);
                terrace_solver_set_preconditioner_matrix(solver, other) | terrace_matrix_destroy(other)
            },
            |_, solver, _| unsafe { terrace_solver_set_preconditioner_matrix(solver, null()) },
        ),
        (
            "monitor",
            false,
            |_, solver, _| unsafe { terrace_solver_set_monitor(solver, Some(never_stop), null_mut()) },
            |_, solver, _| unsafe { terrace_solver_set_monitor(solver, None, null_mut()) },
        ),
        (
            "near-null space",
            false,
            |context, _, matrix| {
                let vectors: Vec<f64> = (0..2 * N).map(|i| if i < N { 1.0 } else { i as f64 }).collect();
                unsafe { terrace_matrix_set_near_null_space(context, matrix, 2, 2, vectors.as_ptr()) }
            },
            |context, _, matrix| unsafe { terrace_matrix_set_near_null_space(context, matrix, 0, 0, null()) },
        ),
        (
            "functions",
            false,
            |context, _, matrix| {
                let functions: Vec<i32> = (0..N as i32).map(|i| i % 2).collect();
                unsafe { terrace_matrix_set_functions(context, matrix, 2, functions.as_ptr()) }
            },
            |context, _, matrix| unsafe { terrace_matrix_set_functions(context, matrix, 0, null()) },
        ),
        (
            "grid",
            false,
            |context, _, matrix| unsafe {
                terrace_matrix_set_grid(context, matrix, [N as i64 / 2, 2, 1].as_ptr(), null())
            },
            |context, _, matrix| unsafe { terrace_matrix_set_grid(context, matrix, null(), null()) },
        ),
    ];
    let devices: &[&CStr] = if terrace_kernels::SIM { &[c"host:1", c"sim"] } else { &[c"host:1"] };
    for device in devices {
        let mut context = null_mut();
        // SAFETY: alive, and pointers to locals; all is destroyed at the end.
        unsafe {
            assert_eq!(terrace_context_create(device.as_ptr(), &mut context), 0);
            let (fresh, a) = (solver(context), matrix(context, -0.1));
            let expected = solved(fresh, a);
            for (name, drops, tell, take_back) in &told {
                let what = format!("{name} on {device:?}");
                let (solver, a) = (solver(context), matrix(context, -0.1));
                if *name == "grid" {
                    // Cells two rows apart are no neighbours in a grid of this shape.
                    assert_eq!(tell(context, solver, a), -8, "{what}");
                } else {
                    assert_eq!(tell(context, solver, a), 0, "{what}");
                    CALLS.set(0);
                    let with = solved(solver, a);
                    assert!(with != expected || CALLS.get() > 0, "{what} has no effect");
                }
                assert_eq!(take_back(context, solver, a), 0, "{what}");
                let rows = &mut 0;
                let status = terrace_solver_get_rows(solver, rows);
                assert_eq!(status, if *drops || *name == "grid" { -7 } else { 0 }, "{what}");
                CALLS.set(0);
                assert_eq!(solved(solver, a), expected, "{what}: what was taken back is still there");
                // The second time there is nothing to take back, and the set-up stays.
                assert_eq!(take_back(context, solver, a), 0, "{what}");
                assert_eq!(again(solver), expected, "{what}");
                assert_eq!(CALLS.get(), 0, "{what}: it was called");
                assert_eq!(terrace_solver_destroy(solver) | terrace_matrix_destroy(a), 0);
            }
            assert_eq!(terrace_solver_destroy(fresh) | terrace_matrix_destroy(a), 0);
            assert_eq!(terrace_context_destroy(context), 0);
        }
    }
}
