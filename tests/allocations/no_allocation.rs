//! After set-up, `terrace_amg_apply` and `terrace_solver_solve` allocate nothing: a simulator calls them in every step.
//!
//! One test in a process of its own, because the counting allocator sees every thread of the process.

use crate::ALLOCATED;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use terrace::capi::*;
use terrace::gallery;

/// The bytes that calls of `work` allocate, the first included.
fn allocated(work: &mut dyn FnMut()) -> usize {
    const CALLS: usize = 5;
    let before = ALLOCATED.load(Ordering::Relaxed);
    for _ in 0..CALLS {
        work();
    }
    ALLOCATED.load(Ordering::Relaxed) - before
}

/// Bytes that the queues of the thread pool may take: their blocks and lists have a few hundred bytes each, and how many there are depends on
/// how busy the machine is. A vector of the test has 216,000.
const QUEUES: usize = 32 << 10;

fn run(device: &std::ffi::CStr, options: &[(&std::ffi::CStr, &std::ffi::CStr)], size: usize, allowed: usize) {
    let mut a = gallery::poisson7(size, size, size).unwrap();
    let n = a.rows;
    if options.iter().any(|(key, _)| *key == c"solver.null_space") {
        for i in 0..n {
            let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
            let sum: f64 = a.values[row.clone()].iter().sum();
            let diagonal = row.clone().find(|k| a.columns[*k] as usize == i).unwrap();
            a.values[diagonal] -= sum;
        }
    }
    let (b, mut x) = ((0..n).map(|i| (i % 7) as f64).collect::<Vec<_>>(), vec![0.0_f64; n]);
    let (b, x): (*const c_void, *mut c_void) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    // SAFETY: handles are made and destroyed here, arrays live through all calls.
    unsafe {
        let (mut context, mut matrix, mut config) = (null_mut(), null_mut(), null_mut());
        let (mut solver, mut amg) = (null_mut(), null_mut());
        assert_eq!(terrace_context_create(device.as_ptr(), &mut context), 0);
        let made = terrace_matrix_create_csr(
            context,
            n as i64,
            n as i64,
            TERRACE_I64,
            a.offsets.as_ptr().cast(),
            TERRACE_I32,
            a.columns.as_ptr().cast(),
            TERRACE_F64,
            a.values.as_ptr().cast(),
            0,
            TERRACE_BORROW,
            &mut matrix,
        );
        assert_eq!(made, 0);
        assert_eq!(terrace_config_create(context, &mut config), 0);
        for (key, value) in options {
            assert_eq!(terrace_config_set_str(config, key.as_ptr(), value.as_ptr()), 0);
        }
        assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        assert_eq!(terrace_solver_setup(solver, matrix), 0);
        assert_eq!(terrace_amg_setup(context, matrix, config, &mut amg), 0);

        // The first application may need vectors in the format of the finest level.
        assert_eq!(terrace_amg_apply(amg, TERRACE_F64, b, x), 0);
        let applied = allocated(&mut || assert_eq!(terrace_amg_apply(amg, TERRACE_F64, b, x), 0));
        // The first one asks whether the matrix is symmetric.
        assert_eq!(terrace_amg_apply_transposed(amg, TERRACE_F64, b, x), 0);
        let transposed = allocated(&mut || assert_eq!(terrace_amg_apply_transposed(amg, TERRACE_F64, b, x), 0));
        let solved =
            allocated(&mut || assert!(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS) >= 0));

        terrace_amg_destroy(amg);
        terrace_solver_destroy(solver);
        terrace_config_destroy(config);
        terrace_matrix_destroy(matrix);
        terrace_context_destroy(context);
        assert!(applied <= allowed, "{device:?} {options:?}: apply allocated {applied} bytes");
        assert!(transposed <= allowed, "{device:?} {options:?}: apply_transposed allocated {transposed} bytes");
        assert!(solved <= allowed, "{device:?} {options:?}: solve allocated {solved} bytes");
    }
}

/// Bytes that solves of `count` right-hand sides with a matrix of 4 rows allocate, up to `together` of them at once: the first, and those
/// after it.
fn many_right_hand_sides(count: usize, together: &std::ffi::CStr) -> (usize, usize) {
    let (offsets, columns, values) = ([0, 1, 2, 3, 4], [0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0]);
    let (b, mut x) = (vec![1.0_f64; 4 * count], vec![0.0_f64; 4 * count]);
    let (mut context, mut config, mut matrix, mut solver) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: handles are made and destroyed here, arrays live through all calls.
    unsafe {
        assert_eq!(terrace_context_create(c"host:1".as_ptr(), &mut context), 0);
        let (offsets, columns, values) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let (i, f) = (TERRACE_I32, TERRACE_F64);
        let made =
            terrace_matrix_create_csr(context, 4, 4, i, offsets, i, columns, f, values, 0, TERRACE_BORROW, &mut matrix);
        assert_eq!(made, 0);
        assert_eq!(terrace_config_create(context, &mut config), 0);
        assert_eq!(terrace_config_set_str(config, c"solver.columns".as_ptr(), together.as_ptr()), 0);
        assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
        assert_eq!(terrace_solver_setup(solver, matrix), 0);
        let (b, x): (*const c_void, *mut c_void) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        let mut solve =
            || assert_eq!(terrace_solver_solve(solver, TERRACE_F64, count as i64, b, x, TERRACE_ZERO_GUESS), 0);
        let before = ALLOCATED.load(Ordering::Relaxed);
        solve();
        let first = ALLOCATED.load(Ordering::Relaxed) - before;
        let later = allocated(&mut solve);
        terrace_solver_destroy(solver);
        terrace_config_destroy(config);
        terrace_matrix_destroy(matrix);
        terrace_context_destroy(context);
        (first, later)
    }
}

pub fn apply_and_solve_allocate_nothing_after_set_up() {
    for method in [c"cg", c"fcg", c"gmres", c"fgmres", c"bicgstab", c"idr", c"richardson"] {
        let options = [(c"solver.type", method)];
        run(c"host:1", &options, 10, 0);
        run(c"host:1", &options, 30, 0);
        run(c"host:2", &options, 30, QUEUES);
    }
    run(c"host:1", &[(c"precision.matrix", c"f32"), (c"precision.vector", c"f32")], 20, 0);
    run(c"host:1", &[(c"amg.coarsening.type", c"mis2")], 20, 0);
    run(c"host:1", &[(c"solver.max_iterations", c"2")], 20, 0);
    run(c"host:1", &[(c"solver.preconditioner", c"fsai"), (c"precision.smoother", c"f16")], 20, 0);
    run(c"host:1", &[(c"solver.preconditioner", c"jacobi")], 20, 0);
    for cycle in [c"w", c"f", c"k"] {
        run(c"host:1", &[(c"amg.cycle.type", cycle)], 20, 0);
    }
    run(c"host:1", &[(c"amg.cycle.error_scaling", c"energy"), (c"amg.cycle.error_scaling_sweeps", c"1")], 20, 0);
    for smoother in [c"chebyshev", c"dilu", c"fsai", c"gauss_seidel", c"jacobi", c"l1_gauss_seidel", c"l1_jacobi"] {
        run(c"host:1", &[(c"amg.smoother.type", smoother)], 20, 0);
    }
    run(c"host:1", &[(c"solver.null_space", c"constant")], 20, 0);
    run(c"host:1", &[(c"amg.reorder", c"on")], 20, 0);
    run(c"host:1", &[(c"solver.type", c"direct")], 10, 0);
    run(c"host:1", &[(c"solver.norm", c"preconditioned")], 20, 0);
    assert_eq!(many_right_hand_sides(64, c"1"), (0, 0));
    // Several together have vectors, and 8 bytes for each of the first 1000 iterations, from the first solve on.
    let (first, later) = many_right_hand_sides(64, c"8");
    assert!(first < 1 << 19 && later == 0, "{first} {later}");
    // Beyond what set-up reserves, a report takes some 64 bytes for each right-hand side and 8 for each iteration, once.
    let (first, later) = many_right_hand_sides(100_000, c"8");
    assert!(first < 100_000 * 200 && later == 0, "{first} {later}");
}
