//! The thread rule: contexts are independent and a matrix may be shared. Eight threads, each with a context of its own, set up and solve
//! with one matrix at the same time and must get the same bits. Run under ThreadSanitizer by `tools/deep-test.sh`; `tests/c/stress.c`
//! is the same with the threads of C.

use std::ptr::null_mut;
use terrace::capi::*;
use terrace::gallery;

const THREADS: usize = 8;
const ROUNDS: usize = 2;

#[derive(Clone, Copy)]
struct Shared(*mut terrace_matrix);

// SAFETY: the documentation of `terrace_matrix` allows its use by several threads.
unsafe impl Send for Shared {}

fn work(number: usize, shared: Shared, b: &[f64]) -> Vec<f64> {
    let matrix = shared.0;
    let mut x = vec![0.0; b.len()];
    let device = std::ffi::CString::new(format!("host:{}", 1 + number % 3)).unwrap();
    for _ in 0..ROUNDS {
        let (mut context, mut solver, mut amg) = (null_mut(), null_mut(), null_mut());
        // SAFETY: handles are made and destroyed here, arrays live through all calls.
        unsafe {
            assert_eq!(terrace_context_create(device.as_ptr(), &mut context), 0);
            assert_eq!(terrace_solver_create(context, null_mut(), &mut solver), 0);
            assert_eq!(terrace_solver_setup(solver, matrix), 0);
            assert_eq!(terrace_amg_setup(context, matrix, null_mut(), &mut amg), 0);
            assert_eq!(terrace_context_raise_panic(context), terrace::Status::Internal.code());
            let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
            assert_eq!(terrace_amg_apply(amg, TERRACE_F64, b, x), 0);
            assert_eq!(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS), 0);
            assert_eq!(terrace_solver_update(solver), 0);
            assert_eq!(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS), 0);
            terrace_amg_destroy(amg);
            terrace_solver_destroy(solver);
            terrace_context_destroy(context);
        }
    }
    x
}

#[test]
fn eight_threads_with_their_own_contexts_share_a_matrix() {
    let a = gallery::poisson7(16, 16, 16).unwrap();
    let n = a.rows as i64;
    let b: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
    let (mut context, mut matrix) = (null_mut(), null_mut());
    // SAFETY: the arrays outlive the matrix, which borrows them.
    unsafe {
        assert_eq!(terrace_context_create(c"host:2".as_ptr(), &mut context), 0);
        let made = terrace_matrix_create_csr(
            context,
            n,
            n,
            TERRACE_I64,
            a.offsets.as_ptr().cast(),
            TERRACE_I32,
            a.columns.as_ptr().cast(),
            TERRACE_F64,
            a.values.as_ptr().cast(),
            0,
            TERRACE_BORROW | TERRACE_SORTED,
            &mut matrix,
        );
        assert_eq!(made, 0);
        assert_eq!(terrace_context_destroy(context), 0);
    }
    let shared = Shared(matrix);

    let solutions: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let b = &b;
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number, shared, b))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends well")).collect()
    });

    for x in &solutions[1..] {
        assert!(x.iter().zip(&solutions[0]).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    // SAFETY: no thread uses the matrix any more.
    unsafe { terrace_matrix_destroy(matrix) };
}
