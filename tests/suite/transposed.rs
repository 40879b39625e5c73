//! Products and solves with the transposed matrix, against a transpose that is made here.

use crate::common::devices::devices;
use crate::solver::relative_residual;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::sparse::Csr;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

fn all_devices() -> Vec<&'static str> {
    std::iter::once("host:2").chain(devices()).collect()
}

/// Nonsymmetric, of 81 rows.
fn convection() -> Csr<f64> {
    gallery::parse("convection_diffusion:9").unwrap().matrix
}

fn matrix(a: &Csr<f64>) -> Arc<Matrix> {
    Arc::new(Matrix::from_csr(a.clone()).unwrap())
}

/// By sorting triplets.
fn transpose(a: &Csr<f64>) -> Csr<f64> {
    let row = |i: usize| a.view().row(i).map(move |(j, v)| (j, i, v[0])).collect::<Vec<_>>();
    let entries: Vec<_> = (0..a.rows).flat_map(row).collect();
    Csr::from_triplets(a.cols, a.rows, &entries).unwrap()
}

fn right_hand_side(n: usize) -> Vec<f64> {
    (0..n).map(|i| (0.7 * i as f64).sin()).collect()
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    config.set_int("amg.coarsest.max_rows", 10).unwrap();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

fn solver(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Solver {
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    solver
}

/// Solves from zero with the transpose, successfully.
fn solve(solver: &mut Solver, n: usize) -> Vec<f64> {
    let mut x = vec![f64::NAN; n];
    let status = solver.solve_transposed(&right_hand_side(n), &mut x, Guess::Zero).unwrap();
    assert_eq!(status, Status::Success, "{}", solver.report().to_text());
    x
}

#[test]
fn products_are_those_of_the_transpose() {
    let wide = Csr::from_triplets(3, 5, &[(0, 4, 2.0), (1, 0, -1.0), (1, 4, 3.0), (2, 2, 0.5)]).unwrap();
    // Without columns; eight rows and more are what registers hold.
    let tall = Csr::from_triplets(21, 0, &[]).unwrap();
    for device in all_devices() {
        let context = Context::new(device).unwrap();
        for a in [&convection(), &wide, &tall] {
            let (matrix, transposed) = (matrix(a), transpose(a));
            let x = right_hand_side(a.rows);
            let exact = |i: usize| transposed.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>();
            // Twice: a GPU keeps what it made.
            for _ in 0..2 {
                let mut y = vec![f64::NAN; a.cols];
                matrix.apply_transposed(&context, 2.0, &x, 0.0, &mut y).unwrap();
                assert!((0..a.cols).all(|i| (y[i] - 2.0 * exact(i)).abs() < 1e-12), "{device}");
                matrix.apply_transposed(&context, -1.0, &x, 0.5, &mut y).unwrap();
                assert!(y.iter().all(|y| y.abs() < 1e-12), "{device}");
            }
            // The matrix itself is still there, and products of f32 are.
            let (narrow, mut y) = (vec![1.0_f32; a.cols], vec![0.0_f32; a.rows]);
            matrix.apply(&context, 1.0, &narrow, 0.0, &mut y).unwrap();
            let sum = |i: usize| a.view().row(i).map(|(_, v)| v[0]).sum::<f64>() as f32;
            assert!((0..a.rows).all(|i| (y[i] - sum(i)).abs() < 1e-3), "{device}");
            let (ones, mut y) = (vec![1.0_f32; a.rows], vec![0.0_f32; a.cols]);
            matrix.apply_transposed(&context, 1.0, &ones, 0.0, &mut y).unwrap();
            let sum = |i: usize| transposed.view().row(i).map(|(_, v)| v[0]).sum::<f64>() as f32;
            assert!((0..a.cols).all(|i| (y[i] - sum(i)).abs() < 1e-3), "{device}");
        }
        let (a, mut y) = (matrix(&wide), vec![0.0; 5]);
        a.apply_transposed(&context, 1.0, &[1.0, 1.0, 1.0], 0.0, &mut y).unwrap();
        a.update_values(Values::from(vec![4.0, -2.0, 6.0, 1.0])).unwrap();
        a.apply_transposed(&context, 1.0, &[1.0, 1.0, 1.0], 0.0, &mut y).unwrap();
        assert_eq!(y, [-2.0, 0.0, 1.0, 0.0, 10.0], "{device}: new values");
    }
}

#[test]
fn transposed_systems_are_solved_and_new_values_are_used() {
    let mut a = convection();
    let n = a.rows;
    for device in all_devices() {
        for options in
            [&[][..], &[("solver.type", "direct")], &[("solver.preconditioner", "none"), ("solver.restart", "150")]]
        {
            a = convection();
            let matrix = matrix(&a);
            let mut solver = solver(device, &matrix, options);
            let x = solve(&mut solver, n);
            let residual = relative_residual(&transpose(&a), &right_hand_side(n), &x);
            assert!(residual <= 1.1e-8, "{device} {options:?}: {residual:.2e}");
            assert!(relative_residual(&a, &right_hand_side(n), &x) > 1e-3, "it is not the other system");
            let report = solver.report();
            assert!(report.solves.len() == 1 && report.solves[0].converged, "{device}: {}", report.to_text());

            // The other system, and this one again, with the guess.
            let mut plain = vec![0.0; n];
            solver.solve(&right_hand_side(n), &mut plain, Guess::Zero).unwrap();
            assert!(relative_residual(&a, &right_hand_side(n), &plain) <= 1.1e-8);
            let mut again = x.clone();
            assert_eq!(
                solver.solve_transposed(&right_hand_side(n), &mut again, Guess::Given).unwrap(),
                Status::Success
            );
            assert_eq!((again, solver.report().solves[0].iterations), (x, 0), "{device} {options:?}");

            // New values without an update, then with one.
            for update in [false, true] {
                a.values.iter_mut().enumerate().for_each(|(k, v)| *v *= 1.0 + 0.1 * (k % 3) as f64);
                matrix.update_values(Values::from(a.values.clone())).unwrap();
                if update {
                    solver.update().unwrap();
                }
                let x = solve(&mut solver, n);
                let residual = relative_residual(&transpose(&a), &right_hand_side(n), &x);
                assert!(residual <= 1.1e-8, "{device} {options:?} {update}: {residual:.2e}");
                let report = solver.report();
                let age = if options.is_empty() && !update { 1 } else { 0 };
                assert_eq!(report.preconditioner_age, age, "{device} {options:?} {update}");
            }
        }
    }
}

#[test]
fn symmetric_systems_need_no_second_solver() {
    let a = gallery::parse("poisson5:12").unwrap().matrix;
    for device in all_devices() {
        for scale in [1.0, 1e-200] {
            let a = Csr { values: a.values.iter().map(|v| v * scale).collect(), ..a.clone() };
            let mut solver = solver(device, &matrix(&a), &[]);
            let bytes = solver.report().bytes;
            let x = solve(&mut solver, a.rows);
            assert_eq!(solver.report().bytes, bytes, "{device}");
            let mut plain = vec![0.0; a.rows];
            solver.solve(&right_hand_side(a.rows), &mut plain, Guess::Zero).unwrap();
            assert_eq!(x, plain, "{device}");
        }
        let a = convection();
        let mut solver = solver(device, &matrix(&a), &[]);
        let bytes = solver.report().bytes;
        solve(&mut solver, a.rows);
        let both = solver.report().bytes;
        assert!(both > bytes + bytes / 2, "{device}: {both} {bytes}");
        let mut x = vec![0.0; a.rows];
        solver.solve(&right_hand_side(a.rows), &mut x, Guess::Zero).unwrap();
        assert_eq!(solver.report().bytes, both, "{device}: both are held");
    }
}

#[test]
fn factors_of_the_matrix_are_those_of_its_transpose() {
    let mut a = convection();
    let n = a.rows;
    for device in all_devices() {
        a = convection();
        let matrix = matrix(&a);
        let mut solver = solver(device, &matrix, &[("solver.type", "direct")]);
        let (before, entries) = (solver.report().bytes, a.values.len());
        let x = solve(&mut solver, n);
        let report = solver.report();
        assert!(report.bytes <= before + 16 * entries + 16 * n, "{device}: {before} bytes, then {}", report.bytes);
        assert!(report.setup.get("factorisation") > 0.0 && report.method(0) == "direct", "{device}");
        let mut both = [right_hand_side(n), right_hand_side(n)].concat();
        let b = both.clone();
        solver.solve_transposed(&b, &mut both, Guess::Zero).unwrap();
        assert!(both[..n] == x && both[n..] == x, "{device}: several right-hand sides");
        // The systems are solved in turn, and an update that fails is an error of both.
        a.values.fill(0.0);
        matrix.update_values(Values::from(a.values.clone())).unwrap();
        for _ in 0..2 {
            assert!(solver.solve_transposed(&b[..n], &mut both[..n], Guess::Zero).is_err(), "{device}");
            assert!(solver.solve(&b[..n], &mut both[..n], Guess::Zero).is_err(), "{device}");
        }
    }
}

/// Indefinite and not symmetric.
fn hard() -> Csr<f64> {
    let mut a = gallery::parse("poisson5:12").unwrap().matrix;
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            let j = a.columns[k] as usize;
            a.values[k] = if j == i { 2.5 } else { a.values[k] * if j > i { 1.2 } else { 0.8 } };
        }
    }
    a
}

#[test]
fn auto_factorises_once_for_the_matrix_and_its_transpose() {
    let a = hard();
    let (n, b) = (a.rows, right_hand_side(a.rows));
    for (transposed_first, device) in [true, false].into_iter().cycle().zip(["host:2"].into_iter().chain(all_devices()))
    {
        let mut solver = solver(device, &matrix(&a), &[("solver.restart", "10")]);
        let mut bytes = Vec::new();
        for transposed in [transposed_first, !transposed_first, transposed_first] {
            let mut x = vec![f64::NAN; n];
            let status = match transposed {
                true => solver.solve_transposed(&b, &mut x, Guess::Zero),
                false => solver.solve(&b, &mut x, Guess::Zero),
            };
            let report = solver.report();
            assert_eq!(status, Ok(Status::Success), "{device}: {}", report.to_text());
            let system = if transposed { transpose(&a) } else { a.clone() };
            assert!(relative_residual(&system, &b, &x) < 1e-11, "{device} {transposed}");
            let (is_first, method) = (bytes.is_empty(), report.method(0));
            assert!(if is_first { method.ends_with("then direct") } else { method == "direct" }, "{device}: {method}");
            assert_eq!(report.factorisation.as_ref().unwrap().method, "sparse LU", "{device}");
            bytes.push(report.bytes);
        }
        let factor = 12 * solver.report().factorisation.as_ref().unwrap().entries;
        assert!(bytes[2] < bytes[0] + factor, "{device}: {bytes:?} with factors of {factor}");
    }
}

#[test]
fn a_matrix_for_the_preconditioner_is_transposed_too() {
    let (a, device) = (convection(), "host:2");
    let matrix = matrix(&a);
    let other = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(&[]));
    solver.set_preconditioner_matrix(Some(&other));
    solver.setup(Some(&matrix)).unwrap();
    let x = solve(&mut solver, a.rows);
    assert!(relative_residual(&transpose(&a), &right_hand_side(a.rows), &x) <= 1.1e-8);
    let with_other = solver.report().solves[0].iterations;
    let mut alone = self::solver(device, &matrix, &[]);
    solve(&mut alone, a.rows);
    assert_eq!(with_other, alone.report().solves[0].iterations);
}

#[test]
fn what_cannot_be_transposed_is_refused_with_a_sentence() {
    let a = convection();
    let (matrix, n) = (matrix(&a), a.rows);
    let (b, mut x) = (right_hand_side(n), vec![7.0; n]);
    let mut refused = |solver: &mut Solver, status: Status, text: &str| {
        let error = solver.solve_transposed(&b, &mut x, Guess::Zero).unwrap_err();
        assert!(error.status == status && error.message.contains(text), "{error}");
        assert!(x.iter().all(|x| *x == 7.0));
    };
    let context = Context::new("host:2").unwrap();
    let mut empty = Solver::new(&context, &config(&[]));
    refused(&mut empty, Status::NotSetUp, "call setup");
    let mut with_operator = Solver::new(&context, &config(&[]));
    with_operator.set_operator(n, Box::new(|_, _| 0));
    with_operator.setup(Some(&matrix)).unwrap();
    refused(&mut with_operator, Status::Unsupported, "the operator is a callback");
    let mut with_preconditioner = Solver::new(&context, &config(&[]));
    with_preconditioner.set_preconditioner(Box::new(|_, _| 0));
    with_preconditioner.setup(Some(&matrix)).unwrap();
    refused(&mut with_preconditioner, Status::Unsupported, "the preconditioner is a callback");
    // Row sums are zero, column sums are not: the null space of the matrix is not that of its transpose.
    let entries = [(0, 0, 1.0), (0, 1, -1.0), (1, 1, 2.0), (1, 2, -2.0), (2, 0, -4.0), (2, 2, 4.0)];
    let singular = Csr::from_triplets(3, 3, &entries).unwrap();
    let singular = Arc::new(Matrix::from_csr(singular).unwrap());
    let options = [("solver.null_space", "constant"), ("solver.preconditioner", "none")];
    let mut solver = self::solver("host:2", &singular, &options);
    let error = solver.solve_transposed(&[1.0, 0.0, -1.0], &mut [0.0; 3], Guess::Zero).unwrap_err();
    assert!(error.status == Status::OptionValue && error.message.starts_with("transposed matrix: "), "{error}");
}

#[test]
fn a_monitor_sees_transposed_solves() {
    let a = convection();
    let mut solver = solver("host:2", &matrix(&a), &[]);
    solver.set_monitor(Some(Box::new(|progress| progress.iteration == 2)));
    let mut x = vec![0.0; a.rows];
    for _ in 0..2 {
        assert_eq!(solver.solve_transposed(&right_hand_side(a.rows), &mut x, Guess::Zero).unwrap(), Status::Stopped);
        assert_eq!(solver.report().solves[0].iterations, 2);
        assert_eq!(solver.solve(&right_hand_side(a.rows), &mut x, Guess::Zero).unwrap(), Status::Stopped);
    }
}
