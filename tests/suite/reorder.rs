//! Solvers that renumber the unknowns: callers see their own order everywhere.

use crate::common::devices::devices;
use std::sync::{Arc, Mutex};
use terrace::matrix::Values;
use terrace::report::Report;
use terrace::sparse::Csr;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

fn all_devices() -> Vec<&'static str> {
    std::iter::once("host:2").chain(devices()).collect()
}

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn solver(device: &str, matrix: &Arc<Matrix>, reorder: &str, options: &[(&str, &str)]) -> Solver {
    let mut config = Config::new();
    config.set_int("amg.coarsest.max_rows", 30).unwrap();
    config.set_str("amg.reorder", reorder).unwrap();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
    solver.setup(Some(matrix)).unwrap();
    solver
}

fn vector(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| (0.7 * (i * (seed + 1)) as f64).sin()).collect()
}

fn is_reordered(report: &Report) -> bool {
    report.reordering.as_ref().is_some_and(|reordering| reordering.is_renumbered)
}

/// |b - A x| / |b| for a matrix on the host, transposed or not.
fn residual(matrix: &Matrix, b: &[f64], x: &[f64], transposed: bool) -> f64 {
    let context = Context::new("host:1").unwrap();
    let mut r = b.to_vec();
    match transposed {
        true => matrix.apply_transposed(&context, -1.0, x, 1.0, &mut r).unwrap(),
        false => matrix.apply(&context, -1.0, x, 1.0, &mut r).unwrap(),
    }
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    norm(&r) / norm(b)
}

fn iterations(report: &Report) -> usize {
    report.solves[0].iterations
}

#[test]
fn solutions_are_in_the_callers_order() {
    // Scalars, blocks with rigid-body modes, and a matrix that is not symmetric.
    for name in ["shuffled:poisson7:12", "shuffled:elasticity:4", "shuffled:convection_diffusion:20"] {
        let matrix = problem(name);
        let b = vector(matrix.rows(), 0);
        for device in all_devices() {
            let (mut off, mut on) = (solver(device, &matrix, "off", &[]), solver(device, &matrix, "on", &[]));
            let (mut x, mut y) = (vec![0.0; b.len()], vec![f64::NAN; b.len()]);
            assert_eq!(off.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
            assert_eq!(on.solve(&b, &mut y, Guess::Zero).unwrap(), Status::Success);
            let (off, report) = (off.report(), on.report());
            assert!(is_reordered(&report) && !is_reordered(&off), "{name} on {device}: {}", report.to_text());
            assert!(residual(&matrix, &b, &y, false) < 1.01e-8, "{name} on {device}");
            assert!(iterations(&report).abs_diff(iterations(&off)) <= 2, "{name} on {device}");
            // The solution is its own initial guess.
            assert_eq!(on.solve(&b, &mut y, Guess::Given).unwrap(), Status::Success);
            assert_eq!(iterations(&on.report()), 0, "{name} on {device}");
        }
    }
}

#[test]
fn transposes_and_many_right_hand_sides_and_f32() {
    for device in all_devices() {
        let matrix = problem("shuffled:convection_diffusion:15");
        let (n, b) = (matrix.rows(), vector(matrix.rows(), 1));
        let mut one = solver(device, &matrix, "on", &[]);
        let mut x = vec![f64::NAN; n];
        assert_eq!(one.solve_transposed(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        assert!(residual(&matrix, &b, &x, true) < 1.01e-8 && is_reordered(&one.report()), "{device}");

        let matrix = problem("shuffled:poisson7:9");
        let n = matrix.rows();
        let b: Vec<f64> = (0..5).flat_map(|k| vector(n, k)).collect();
        for guess in [Guess::Zero, Guess::Given] {
            let mut x = vec![0.25; 5 * n];
            let mut several = solver(device, &matrix, "on", &[]);
            assert_eq!(several.solve(&b, &mut x, guess).unwrap(), Status::Success);
            for (b, x) in b.chunks(n).zip(x.chunks(n)) {
                assert!(residual(&matrix, b, x, false) < 1.01e-8, "{device}");
            }
        }

        let Csr { rows, cols, block, offsets, columns, values } = gallery::parse("shuffled:poisson7:8").unwrap().matrix;
        let values: Vec<f32> = values.iter().map(|v| *v as f32).collect();
        let matrix = Arc::new(Matrix::from_csr(Csr { rows, cols, block, offsets, columns, values }).unwrap());
        let (b, mut x) = (vec![1.0_f32; rows], vec![0.0_f32; rows]);
        let mut single = solver(device, &matrix, "on", &[]);
        assert_eq!(single.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        assert!(residual(&matrix, &vec![1.0; rows], &wide, false) < 1e-5, "{device}");
    }
}

#[test]
fn new_values_are_taken_over_with_and_without_an_update() {
    for device in all_devices() {
        let matrix = problem("shuffled:anisotropic:20:epsilon=0.1");
        let (n, b) = (matrix.rows(), vector(matrix.rows(), 2));
        let mut solver = solver(device, &matrix, "on", &[]);
        let mut x = vec![0.0; n];
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        // The diagonal grows, so that a matrix with values in wrong places is another one.
        let Values::F64(old) = matrix.values().unwrap() else { unreachable!("the gallery is f64") };
        let structure = matrix.structure().unwrap();
        let a = structure.view(old.as_slice());
        let new: Vec<f64> = (0..n)
            .flat_map(|i| a.row(i).map(move |(j, v)| if i == j { v[0] + 0.01 * i as f64 } else { v[0] }))
            .collect();
        matrix.update_values(Values::from(new)).unwrap();
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        assert!(residual(&matrix, &b, &x, false) < 1.01e-8, "{device}");
        assert_eq!(solver.report().preconditioner_age, 1, "{device}");
        let lagged = iterations(&solver.report());
        solver.update().unwrap();
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        assert!(residual(&matrix, &b, &x, false) < 1.01e-8 && iterations(&solver.report()) < lagged, "{device}");
        assert_eq!(solver.report().preconditioner_age, 0, "{device}");
    }
}

#[test]
fn null_spaces_functions_monitors_and_refused_vectors() {
    for device in all_devices() {
        // A singular Laplacian: the diagonal is what the row needs.
        let mut a = gallery::parse("shuffled:poisson5:16").unwrap().matrix;
        for i in 0..a.rows {
            let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
            let sum: f64 = row.clone().filter(|k| a.columns[*k] as usize != i).map(|k| a.values[k]).sum();
            row.filter(|k| a.columns[*k] as usize == i).for_each(|k| a.values[k] = -sum);
        }
        let n = a.rows;
        let matrix = Arc::new(Matrix::from_csr(a).unwrap());
        let mut b = vector(n, 0);
        let mean = b.iter().sum::<f64>() / n as f64;
        b.iter_mut().for_each(|b| *b -= mean);
        let mut singular = solver(device, &matrix, "on", &[("solver.null_space", "constant")]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        singular.set_monitor(Some(Box::new(move |progress| {
            keep.lock().unwrap().push(progress.residual);
            false
        })));
        let mut x = vec![0.0; n];
        assert_eq!(singular.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        assert!(residual(&matrix, &b, &x, false) < 1.01e-8 && x.iter().sum::<f64>().abs() < 1e-8, "{device}");
        assert_eq!(*seen.lock().unwrap(), singular.report().solves[0].history);
        // A right-hand side that is refused leaves x as it was.
        b[3] = f64::NAN;
        let before = x.clone();
        assert!(singular.solve(&b, &mut x, Guess::Zero).is_err());
        assert_eq!(x, before);

        // Two functions, named for each unknown, and numbered point by point.
        let matrix = problem("shuffled:poisson5:16");
        let given: Vec<i32> = (0..n as i32).map(|i| i / 7 % 2).collect();
        matrix.set_functions(2, &given).unwrap();
        for functions in ["0", "2"] {
            let mut several = solver(device, &matrix, "on", &[("amg.functions", functions)]);
            let b = vector(n, 4);
            assert_eq!(several.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
            assert!(residual(&matrix, &b, &x, false) < 1.01e-8 && is_reordered(&several.report()), "{device}");
            matrix.remove_functions();
        }
    }
}

#[test]
fn auto_looks_at_large_matrices_and_renumbers_those_in_bad_order() {
    let (natural, random) = (problem("poisson5:260"), problem("shuffled:poisson5:260"));
    let b = vector(natural.rows(), 0);
    let solved = |matrix: &Arc<Matrix>, options: &[(&str, &str)]| {
        let mut config = Config::new();
        options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
        let context = Context::new("host:2").unwrap();
        let mut solver = Solver::new(&context, &config);
        solver.setup(Some(matrix)).unwrap();
        let mut x = vec![0.0; b.len()];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let estimate = Solver::memory_estimate(&context, matrix, &config, false).unwrap() as f64;
        let report = solver.report();
        assert!((1.0..1.4).contains(&(estimate / report.bytes as f64)), "{estimate} {}", report.bytes);
        report
    };
    let report = solved(&natural, &[]);
    let reordering = report.reordering.as_ref().unwrap();
    assert!(!reordering.is_renumbered && reordering.after.is_none() && reordering.before < 40.0);
    let text = report.to_text();
    assert!(text.contains("unknowns kept in order"), "{text}");
    let natural = iterations(&report);
    let report = solved(&random, &[]);
    let reordering = report.reordering.as_ref().unwrap();
    assert!(reordering.is_renumbered && reordering.after.unwrap() < reordering.before / 5.0, "{reordering:?}");
    assert!(iterations(&report).abs_diff(natural) <= 1, "{} {natural}", iterations(&report));
    // Other preconditioners and the option say no.
    for options in [&[("amg.reorder", "off")][..], &[("solver.preconditioner", "jacobi"), ("solver.tolerance", "0.5")]]
    {
        assert!(solved(&random, options).reordering.is_none());
    }
}
