//! Solvers through the C ABI.

use super::super::testing::*;
use super::super::*;
use super::*;
use std::ptr::{null, null_mut};

fn create(context: &TestContext) -> *mut terrace_solver {
    let mut solver = null_mut();
    assert_eq!(abi!(terrace_solver_create(context.0, null(), &mut solver)), 0);
    solver
}

/// tridiag(-1, 2, -1) x = e_0 + e_3 has the solution 1 for four rows.
const B: [f64; 8] = [1.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 2.0];

#[test]
fn several_right_hand_sides_are_solved_in_order() {
    let context = TestContext::new();
    let (solver, matrix) = (create(&context), laplacian(&context, 4));
    let (b, mut x) = (B.as_ptr().cast(), [f64::NAN; 8]);
    assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);

    let status = abi!(terrace_solver_solve(solver, TERRACE_F64, 2, b, x.as_mut_ptr().cast(), TERRACE_ZERO_GUESS));

    assert_eq!(status, 0);
    for (i, value) in x.iter().enumerate() {
        assert!((value - if i < 4 { 1.0 } else { 2.0 }).abs() < 1e-7, "{x:?}");
    }
    let mut report = null_mut();
    assert_eq!(abi!(terrace_solver_report(solver, &mut report)), 0);
    let mut count = 0;
    assert_eq!(abi!(terrace_report_get_int(report, c"right_hand_sides".as_ptr(), 0, &mut count)), 0);
    assert_eq!(count, 2);
    assert_eq!(abi!(terrace_report_destroy(report)), 0);
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
}

#[test]
fn a_system_without_rows_reports_as_many_right_hand_sides_as_were_asked() {
    for device in [c"host:1", c"sim"] {
        let context = TestContext::on(device);
        let (solver, matrix) = (create(&context), csr(&context, &[0], &[], &[], 0, 0).unwrap());
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
        for count in [3, 1, 200] {
            let (none, nowhere) = (null(), null_mut());
            assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, count, none, nowhere, 0)), 0);
            let (mut report, mut sides, mut residual) = (null_mut(), 0, -1.0);
            assert_eq!(abi!(terrace_solver_report(solver, &mut report)), 0);
            assert_eq!(abi!(terrace_report_get_int(report, c"right_hand_sides".as_ptr(), 0, &mut sides)), 0);
            let last = count - 1;
            let key = c"true_residual".as_ptr();
            assert_eq!(abi!(terrace_report_get_real(report, key, last, &mut residual)), 0);
            assert_eq!((sides, residual), (count, 0.0));
            assert_eq!(abi!(terrace_report_destroy(report)), 0);
        }
        let huge = abi!(terrace_solver_solve(solver, TERRACE_F64, i64::MAX, null(), null_mut(), 0));
        assert_eq!(huge, Status::OutOfMemory.code());
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    }
}

#[test]
fn transposed_systems_are_solved_on_host_and_device() {
    // [2 1; 0 4] is solved by (1, 2) for (4, 8), its transpose for (2, 9).
    for device in [c"host:1", c"sim"] {
        let context = TestContext::on(device);
        let matrix = csr(&context, &[0, 2, 3], &[0, 1, 1], &[2.0, 1.0, 4.0], 0, TERRACE_SORTED).unwrap();
        let solver = create(&context);
        let (b, mut x) = ([2.0_f64, 9.0, 4.0, 18.0], [f64::NAN; 4]);
        let (from, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        let solve = |t, count, b, x| abi!(terrace_solver_solve_transposed(solver, t, count, b, x, 0));
        assert_eq!(solve(TERRACE_F64, 2, from, to), Status::NotSetUp.code());
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
        assert_eq!(solve(TERRACE_F64, 2, from, to), 0, "{}", context.last_error());
        assert!(x.iter().zip([1.0, 2.0, 2.0, 4.0]).all(|(x, exact)| (x - exact).abs() < 1e-7), "{x:?}");
        assert_eq!(solve(TERRACE_F64, 0, from, to), Status::InvalidArgument.code());
        assert_eq!(solve(TERRACE_F64, 1, from, null_mut()), Status::NullArgument.code());
        assert_eq!(solve(TERRACE_F16, 1, from, to), Status::Unsupported.code());
        if device == c"sim" {
            let gpu = context.gpu();
            let (b, x) = (gpu.upload(&b).unwrap(), gpu.upload(&[0.0_f64; 4]).unwrap());
            assert_eq!(solve(TERRACE_F64, 2, pointer(&b), pointer(&x)), 0, "{}", context.last_error());
            let x = gpu.fetch(&x).unwrap();
            assert!(x.iter().zip([1.0, 2.0, 2.0, 4.0]).all(|(x, exact)| (x - exact).abs() < 1e-7), "{x:?}");
        }
        let b = [f64::NAN, 1.0];
        assert_eq!(solve(TERRACE_F64, 1, b.as_ptr().cast(), to), Status::NonFinite.code());
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    }
}

#[test]
fn a_solve_that_cannot_start_says_why() {
    let context = TestContext::new();
    let (solver, matrix) = (create(&context), laplacian(&context, 4));
    let mut x = [0.0_f64; 4];
    let (b, x): (*const c_void, *mut c_void) = (B.as_ptr().cast(), x.as_mut_ptr().cast());
    let refused = |status: terrace_status, expected: Status, text: &str| {
        assert_eq!(status, expected.code());
        assert!(context.last_error().contains(text), "{}", context.last_error());
    };
    let solve = |t, count, b, x, guess| abi!(terrace_solver_solve(solver, t, count, b, x, guess));

    refused(solve(TERRACE_F64, 1, b, x, 0), Status::NotSetUp, "terrace_solver_setup");
    let mut rows = -1;
    refused(abi!(terrace_solver_get_rows(solver, &mut rows)), Status::NotSetUp, "terrace_solver_setup");
    assert_eq!(abi!(terrace_solver_update(solver)), Status::NotSetUp.code());
    assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
    assert_eq!((abi!(terrace_solver_get_rows(solver, &mut rows)), rows), (0, 4));
    refused(abi!(terrace_solver_get_rows(solver, null_mut())), Status::NullArgument, "rows is null");
    refused(solve(TERRACE_F64, -1, b, x, 0), Status::InvalidArgument, "count is -1");
    refused(solve(TERRACE_F64, i64::MAX, b, x, 0), Status::InvalidArgument, "count is");
    refused(solve(TERRACE_F32, 1, b, x, 0), Status::InvalidArgument, "f64");
    refused(solve(TERRACE_F16, 1, b, x, 0), Status::Unsupported, "vector_type is TERRACE_F16");
    refused(solve(TERRACE_F64, 1, null(), x, 0), Status::NullArgument, "b is null");
    refused(solve(TERRACE_F64, 1, b, null_mut(), 0), Status::NullArgument, "x is null");
    refused(solve(TERRACE_F64, 1, x, x, 0), Status::InvalidArgument, "overlaps");
    refused(solve(TERRACE_F64, 1, b, x, 3), Status::InvalidArgument, "guess is 3");
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
}

#[test]
fn callbacks_get_their_vectors_and_user_pointer() {
    unsafe extern "C" fn twice(n: i64, x: *const c_void, y: *mut c_void, user: *mut c_void) -> i32 {
        // SAFETY: the solver passes n elements of f64, the test its counter.
        unsafe {
            let (x, y) = (x.cast::<f64>(), y.cast::<f64>());
            (0..n as usize).for_each(|i| y.add(i).write(2.0 * x.add(i).read()));
            *user.cast::<i32>() += 1;
            i32::from(*user.cast::<i32>() > 10)
        }
    }
    let context = TestContext::new();
    let solver = create(&context);
    let (mut calls, mut x) = (0_i32, [0.0; 4]);
    let user = (&raw mut calls).cast();
    assert_eq!(abi!(terrace_solver_set_operator(solver, 4, None, user)), 0, "there is none to be removed");
    assert_eq!(abi!(terrace_solver_set_operator(solver, 4, Some(twice), user)), 0);
    assert_eq!(abi!(terrace_solver_set_preconditioner(solver, Some(twice), user)), 0);
    assert_eq!(abi!(terrace_solver_setup(solver, null())), 0);
    let mut solve = || abi!(terrace_solver_solve(solver, TERRACE_F64, 1, B.as_ptr().cast(), x.as_mut_ptr().cast(), 0));
    assert_eq!(solve(), 0);
    // SAFETY: the solver does not use the counter between calls.
    unsafe { *user.cast::<i32>() = 100 };
    assert_eq!(solve(), Status::Callback.code());
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
}

/// What a report says of right-hand sides: status, whether converged, iterations.
fn told(solver: *mut terrace_solver) -> Vec<(Status, i64, i64)> {
    let mut report = null_mut();
    assert_eq!(abi!(terrace_solver_report(solver, &mut report)), 0);
    let get = |key: &std::ffi::CStr, i| {
        let mut value = -1;
        assert_eq!(abi!(terrace_report_get_int(report, key.as_ptr(), i, &mut value)), 0);
        value
    };
    let status = |i| Status::from_code(get(c"status", i) as i32).unwrap();
    let all = (0..get(c"right_hand_sides", 0)).map(|i| (status(i), get(c"converged", i), get(c"iterations", i)));
    let all = all.collect();
    assert_eq!(abi!(terrace_report_destroy(report)), 0);
    all
}

#[test]
fn a_solve_that_fails_before_it_begins_leaves_no_report_of_an_earlier_one() {
    let not_attempted = [(Status::NotAttempted, 0, 0); 2];
    for (device, json) in [
        (c"host:1", c"{}"),
        (c"host:1", c"{\"solver.type\": \"direct\"}"),
        (c"sim", c"{}"),
        (c"host:1", c"{\"amg.reorder\": \"on\"}"),
    ] {
        let context = TestContext::on(device);
        let (offsets, columns) = ([0, 2, 4, 6, 7], [0, 1, 1, 2, 2, 3, 3]);
        let mut values = [2.0, 1.0, 4.0, 1.0, 4.0, 1.0, 4.0];
        let matrix = csr(&context, &offsets, &columns, &values, 0, TERRACE_BORROW).unwrap();
        let (mut config, mut solver) = (null_mut(), null_mut());
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        assert_eq!(abi!(terrace_config_load_json(config, json.as_ptr())), 0);
        assert_eq!(abi!(terrace_solver_create(context.0, config, &mut solver)), 0);
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", context.last_error());
        let mut x = [0.0; 8];
        let (b, x): (*const c_void, *mut c_void) = (B.as_ptr().cast(), x.as_mut_ptr().cast());
        let solve = |transposed: bool, t, count, b| match transposed {
            true => abi!(terrace_solver_solve_transposed(solver, t, count, b, x, 0)),
            false => abi!(terrace_solver_solve(solver, t, count, b, x, 0)),
        };
        for (before, after) in [(false, false), (false, true), (true, false), (true, true)] {
            let what = format!("{device:?} {json:?}, transposed: {before} and then {after}");
            let again = || {
                assert_eq!(solve(before, TERRACE_F64, 2, b), 0, "{what}: {}", context.last_error());
                assert!(
                    told(solver).iter().all(|(status, converged, _)| (*status, *converged) == (Status::Success, 1))
                );
            };
            again();
            values[0] = f64::NAN;
            std::hint::black_box(&mut values);
            assert_eq!(solve(after, TERRACE_F64, 2, b), Status::MatrixValues.code(), "{what}");
            assert_eq!(told(solver), not_attempted, "{what}");
            values[0] = 2.0;
            std::hint::black_box(&mut values);
            again();
            assert_eq!(solve(after, TERRACE_F32, 2, b), Status::InvalidArgument.code(), "{what}");
            assert_eq!(told(solver), not_attempted, "{what}");
            again();
            assert_eq!(solve(after, TERRACE_F64, 0, b), Status::InvalidArgument.code(), "{what}");
            assert_eq!(told(solver), [], "{what}");
            again();
            assert_eq!(solve(after, TERRACE_F64, 2, null()), Status::NullArgument.code(), "{what}");
            assert_eq!(told(solver), [], "{what}");
        }
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    }
}
