//! The thread rule on GPUs: a matrix in device memory may be shared by threads that have contexts of their own, and several threads may have
//! solvers of one context. One thread solves again and again, and so captures graphs, while others copy and destroy matrices of its context.

use crate::common::devices::devices;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use terrace::capi::*;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

const ROUNDS: usize = 6;
const COPIES: usize = 24;

#[derive(Clone, Copy)]
struct Shared(*mut terrace_matrix);

// SAFETY: the documentation of `terrace_matrix` allows its use by several threads.
unsafe impl Send for Shared {}

/// Lets a closure take the handle as a whole, which may be sent, and not the pointer in it.
fn whole(shared: Shared) -> Shared {
    shared
}

struct Problem {
    matrix: Matrix,
    b: Vec<f64>,
}

fn problem() -> Problem {
    let matrix = Matrix::from_csr(gallery::poisson7(8, 8, 8).unwrap()).unwrap();
    let b = (0..matrix.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
    Problem { matrix, b }
}

/// Sets up, and solves three times with the same vectors: the second time graphs are captured.
fn solve(context: *mut terrace_context, matrix: *const terrace_matrix, b: &[f64]) -> Vec<f64> {
    let (mut solver, mut x) = (null_mut(), vec![0.0; b.len()]);
    // SAFETY: handles are alive, the solver is made and destroyed here, and arrays live through all calls.
    unsafe {
        assert_eq!(terrace_solver_create(context, null_mut(), &mut solver), 0);
        assert_eq!(terrace_solver_setup(solver, matrix), 0);
        for _ in 0..3 {
            let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
            assert_eq!(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS), 0);
        }
        terrace_solver_destroy(solver);
    }
    x
}

/// The transpose of a symmetric matrix, which is the same in the memory of the context.
fn copy_of(context: *mut terrace_context, matrix: *const terrace_matrix) -> Shared {
    let mut copy = null_mut();
    // SAFETY: the handles are alive.
    assert_eq!(unsafe { terrace_matrix_transpose(context, matrix, &mut copy) }, 0);
    Shared(copy)
}

#[test]
fn a_thread_solves_while_others_copy_and_destroy_matrices_of_its_context() {
    let Problem { matrix, b } = problem();
    let a = matrix.shared::<f64>().unwrap().view().to_owned_as::<f64>().unwrap();
    for device in devices() {
        let name = CString::new(device).unwrap();
        let (n, mut context, mut given) = (b.len() as i64, null_mut(), null_mut());
        let (i64s, i32s, f64s) = (TERRACE_I64, TERRACE_I32, TERRACE_F64);
        let (o, c, v) = (a.offsets.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
        // SAFETY: the arrays outlive the call, which copies them.
        unsafe {
            assert_eq!(terrace_context_create(name.as_ptr(), &mut context), 0);
            let made = terrace_matrix_create_csr(context, n, n, i64s, o, i32s, c, f64s, v, 0, TERRACE_COPY, &mut given);
            assert_eq!(made, 0);
        }
        let on_device = copy_of(context, given);
        let expected = solve(context, on_device.0, &b);
        let copies: Vec<Shared> = (0..2 * COPIES).map(|_| copy_of(context, given)).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, copies) in copies.chunks(COPIES).enumerate() {
                let (copies, over, b, expected) = (copies.to_vec(), &over, &b, &expected);
                let device = if number == 0 { c"host:1".to_owned() } else { name.clone() };
                scope.spawn(move || {
                    let (Shared(matrix), mut own) = (whole(on_device), null_mut());
                    // SAFETY: the context is made and destroyed here; each matrix is used by this thread alone.
                    unsafe {
                        assert_eq!(terrace_context_create(device.as_ptr(), &mut own), 0);
                        for Shared(copy) in copies {
                            let mut y = vec![0.0; b.len()];
                            let (x, to) = (expected.as_ptr().cast(), y.as_mut_ptr().cast());
                            assert_eq!(terrace_matrix_apply(own, copy, TERRACE_F64, 1.0, x, 0.0, to), 0);
                            assert!(y.iter().zip(b).all(|(y, b)| (y - b).abs() < 1e-5), "A x is b");
                            terrace_matrix_destroy(copy);
                        }
                        assert_eq!(solve(own, matrix, b).len(), b.len());
                        terrace_context_destroy(own);
                    }
                    over.store(true, Ordering::Relaxed);
                });
            }
            let mut rounds = 0;
            while rounds < ROUNDS || !over.load(Ordering::Relaxed) {
                assert_eq!(solve(context, on_device.0, &b), expected);
                rounds += 1;
            }
        });
        // SAFETY: no thread uses them any more.
        unsafe {
            terrace_matrix_destroy(on_device.0);
            terrace_matrix_destroy(given);
            terrace_context_destroy(context);
        }
    }
}

#[test]
fn several_threads_have_solvers_of_one_context() {
    let Problem { matrix, b } = problem();
    let matrix = Arc::new(matrix);
    for device in devices() {
        let context = Context::new(device).unwrap();
        let solve = |context: &Context| {
            let (mut solver, mut x) = (Solver::new(context, &Config::new()), vec![0.0; b.len()]);
            solver.setup(Some(&matrix)).unwrap();
            for _ in 0..3 {
                assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
            }
            x
        };
        let expected = solve(&context);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (context, solve, expected) = (context.clone(), &solve, &expected);
                scope.spawn(move || (0..ROUNDS).for_each(|_| assert_eq!(solve(&context), *expected)));
            }
        });
    }
}
