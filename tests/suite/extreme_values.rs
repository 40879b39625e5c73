//! Systems of any size of numbers, and what a report says about right-hand sides that fail.

use crate::common::devices::{devices, rotating_devices};
use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Guess, Matrix, Precision, Solver, Status, gallery};

/// A matrix times a factor.
fn scaled(name: &str, factor: f64) -> Arc<Matrix> {
    let mut a = gallery::parse(name).unwrap().matrix;
    a.values.iter_mut().for_each(|v| *v *= factor);
    Arc::new(Matrix::from_csr(a).unwrap())
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

/// The solution for this right-hand side times a factor, and the iterations.
fn solve(
    device: &str,
    matrix: &Arc<Matrix>,
    options: &[(&str, &str)],
    factor: f64,
) -> terrace::Result<(Vec<f64>, usize)> {
    let mut solver = Solver::new(&Context::new(device)?, &config(options));
    solver.setup(Some(matrix))?;
    let b: Vec<f64> = (0..matrix.rows()).map(|i| factor * (1.0 + (i % 7) as f64)).collect();
    let mut x = vec![f64::NAN; b.len()];
    let status = solver.solve(&b, &mut x, Guess::Zero)?;
    let report = solver.report();
    assert_eq!((status, report.solves[0].status), (Status::Success, Status::Success), "{device} {options:?}");
    // The preconditioned norm says little about the residual.
    let is_bounded = options.contains(&("solver.norm", "preconditioned")) || report.solves[0].true_residual <= 1e-8;
    assert!(is_bounded, "{device} {options:?}: {}", report.solves[0].true_residual);
    Ok((x, report.solves[0].iterations))
}

/// Factors of A and of b.
const FACTORS: &[(f64, f64)] = &[
    (1e-200, 1e-200),
    (1e-160, 1e-160),
    (1e-290, 1e-290),
    (1.0, 1e154),
    (1.0, 1e300),
    (1.0, 1e-300),
    (1e120, 1e-120),
    (1e-120, 1e120),
    (1e250, 1e250),
];

fn check(device: &str, problem: &str, options: &[(&str, &str)]) {
    let (wanted, iterations) = solve(device, &scaled(problem, 1.0), options, 1.0).unwrap();
    // A simulated GPU takes its time: every third factor, from another one on for each method.
    let takes_all = !device.starts_with("sim") || is_deep();
    let first = options.iter().map(|(_, value)| value.len()).sum::<usize>();
    for (k, (of_a, of_b)) in FACTORS.iter().enumerate() {
        if !takes_all && !(first + k).is_multiple_of(3) {
            continue;
        }
        let what = format!("{problem} {options:?} on {device}, A times {of_a:e}, b times {of_b:e}");
        let (x, found) =
            solve(device, &scaled(problem, *of_a), options, *of_b).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(found.abs_diff(iterations) <= 1, "{what}: {found} iterations, {iterations} in units of 1");
        let size = wanted.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
        for (x, wanted) in x.iter().zip(&wanted) {
            let x = x / of_b * of_a;
            assert!((x - wanted).abs() <= 1e-6 * size, "{what}: {x} instead of {wanted}");
        }
    }
}

#[test]
fn every_method_solves_systems_in_any_units() {
    for method in ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson", "direct"] {
        check("host:2", "poisson5:20", &[("solver.type", method)]);
    }
    check("host:2", "poisson5:20", &[("solver.norm", "preconditioned")]);
    check("host:2", "poisson5:20", &[("solver.preconditioner", "none"), ("solver.max_iterations", "1000")]);
    for (k, method) in ["cg", "fcg", "fgmres", "bicgstab", "direct"].into_iter().enumerate() {
        for device in rotating_devices(k) {
            check(device, "poisson5:12", &[("solver.type", method)]);
        }
    }
}

/// Squares of f32 leave its range from 1e19 on, and below 1e-23.
#[test]
fn systems_in_f32_are_solved_in_any_units() {
    let solve = |device: &str, of_a: f32, of_b: f32, options: &[(&str, &str)]| {
        let a = gallery::parse("poisson5:16").unwrap().matrix;
        let values: Vec<f32> = a.values.iter().map(|v| *v as f32 * of_a).collect();
        let a = Csr { rows: a.rows, cols: a.cols, block: a.block, offsets: a.offsets, columns: a.columns, values };
        let matrix = Arc::new(Matrix::from_csr(a).unwrap());
        let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
        solver.setup(Some(&matrix)).unwrap();
        let b: Vec<f32> = (0..matrix.rows()).map(|i| of_b * (1 + i % 7) as f32).collect();
        let mut x = vec![f32::NAN; b.len()];
        let status = solver.solve(&b, &mut x, Guess::Zero);
        let what = format!("{device} {options:?}, A times {of_a:e}, b times {of_b:e}");
        assert_eq!(status, Ok(Status::Success), "{what}");
        let unscaled = x.iter().map(|x| f64::from(*x) * f64::from(of_a) / f64::from(of_b)).collect::<Vec<_>>();
        (unscaled, solver.report().solves[0].iterations, what)
    };
    let cases = [&[][..], &[("solver.precision", "f32")], &[("solver.precision", "f32"), ("solver.type", "gmres")]];
    for (case, options) in cases.into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let (wanted, iterations, _) = solve(device, 1.0, 1.0, options);
            let size = wanted.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
            for (of_a, of_b) in [(1e-30, 1e-30), (1e30, 1e30), (1.0, 1e-30), (1.0, 1e30), (1e15, 1e-15), (1e-15, 1e15)]
            {
                let (x, found, what) = solve(device, of_a, of_b, options);
                assert!(found.abs_diff(iterations) <= 1, "{what}: {found} iterations, {iterations} in units of 1");
                assert!(x.iter().zip(&wanted).all(|(x, y)| (x - y).abs() <= 1e-3 * size), "{what}");
            }
        }
    }
}

/// Two systems in one matrix, in units of their own: the first rows tell nothing about the others.
#[test]
fn the_size_of_a_matrix_is_that_of_its_largest_rows() {
    let one = gallery::parse("poisson5:32").unwrap().matrix;
    let n = one.rows;
    let entries = |first: usize, factor: f64| {
        let one = &one;
        (0..n).flat_map(move |i| {
            one.view().row(i).map(move |(j, v)| (first + i, first + j, factor * v[0])).collect::<Vec<_>>()
        })
    };
    for (of_first, of_second) in [(1e-280, 1.0), (1e-280, 1e40), (1.0, 1e280), (1e-150, 1e150)] {
        let all: Vec<_> = entries(0, of_first).chain(entries(n, of_second)).collect();
        let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(2 * n, 2 * n, &all).unwrap()).unwrap());
        let options: [&[(&str, &str)]; 2] = [&[], &[("amg.coarsening.type", "pmis")]];
        for (case, options) in options.into_iter().enumerate() {
            for device in std::iter::once("host:2").chain(rotating_devices(case)) {
                let what = format!("{device} {options:?} {of_first:e} {of_second:e}");
                let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
                solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{what}: {error}"));
                // Rows of zero in the small system, so that the residual is that of the large one.
                let b: Vec<f64> =
                    (0..2 * n).map(|i| if i < n { 0.0 } else { of_second * (1.0 + (i % 7) as f64) }).collect();
                let mut x = vec![f64::NAN; 2 * n];
                let status = solver.solve(&b, &mut x, Guess::Zero);
                assert_eq!(status, Ok(Status::Success), "{what}");
                let ax = |i: usize| one.view().row(i).map(|(j, v)| v[0] * x[n + j]).sum::<f64>();
                let squares = (0..n).map(|i| (b[n + i] / of_second - ax(i)).powi(2)).sum::<f64>();
                assert!(squares.sqrt() <= 1e-7 * 4.5 * (n as f64).sqrt(), "{what}: {squares}");
            }
        }
    }
}

#[test]
fn every_component_sets_up_in_any_units() {
    for coarsening in ["pmis", "hmis", "mis2", "pairwise"] {
        check("host:2", "poisson5:20", &[("amg.coarsening.type", coarsening)]);
    }
    for interpolation in ["direct", "classical_modified", "mm_ext", "mm_ext_i", "extended_i"] {
        check("host:2", "poisson5:20", &[("amg.coarsening.type", "pmis"), ("amg.interpolation.type", interpolation)]);
    }
    for smoother in ["chebyshev", "dilu", "fsai", "gauss_seidel", "jacobi", "l1_gauss_seidel", "l1_jacobi"] {
        check("host:2", "poisson5:20", &[("amg.smoother.type", smoother)]);
    }
    check("host:2", "elasticity:4", &[]);
    for (k, coarsening) in ["pmis", "mis2", "pairwise", "auto"].into_iter().enumerate() {
        for device in rotating_devices(k) {
            let name = if coarsening == "auto" { "elasticity:3" } else { "poisson5:12" };
            check(device, name, &[("amg.coarsening.type", coarsening)]);
        }
    }
}

#[test]
fn a_right_hand_side_that_fails_does_not_keep_others_from_being_solved() {
    let matrix = scaled("poisson5:20", 1.0);
    let n = matrix.rows();
    for device in std::iter::once("host:2").chain(devices()) {
        let mut solver = Solver::new(&Context::new(device).unwrap(), &config(&[]));
        solver.setup(Some(&matrix)).unwrap();
        assert!(solver.report().solves.is_empty());
        let mut b = vec![1.0; 3 * n];
        let mut x = vec![7.0; 3 * n];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let solution = x.clone();
        b[n + 3] = f64::NAN;
        x.fill(7.0);
        let error = solver.solve(&b, &mut x, Guess::Zero).unwrap_err();
        assert_eq!(error.status, Status::NonFinite);
        assert!(error.message.starts_with("right-hand side 1 of 3: "), "{}", error.message);
        let solves = solver.report().solves;
        let ends: Vec<_> = solves.iter().map(|s| (s.status, s.converged)).collect();
        assert_eq!(ends, [(Status::Success, true), (Status::NonFinite, false), (Status::Success, true)], "{device}");
        assert!(solves[1].true_residual.is_nan() && solves[1].iterations == 0);
        assert_eq!((&x[..n], &x[2 * n..]), (&solution[..n], &solution[2 * n..]), "{device}");
    }
}

/// New values that cannot be factorised, a null space that they do not have, and vectors that do not fit.
#[test]
fn a_solve_that_fails_before_the_first_right_hand_side_reports_no_earlier_one() {
    let t = [(0, 0, 2.0), (0, 1, -2.0), (1, 0, -2.0), (1, 1, 2.0)];
    let singular = Csr::<f64>::from_triplets(2, 2, &t).unwrap();
    let regular = [3.0, -2.0, -2.0, 3.0];
    for device in all_devices() {
        let cases =
            [("solver.type", "direct", Status::Breakdown), ("solver.null_space", "constant", Status::OptionValue)];
        for (key, value, status) in cases {
            let what = format!("{key}={value} on {device}");
            let (good, bad) = match status {
                Status::Breakdown => (&regular[..], &singular.values[..]),
                _ => (&singular.values[..], &regular[..]),
            };
            let a = Csr { values: good.to_vec(), ..singular.clone() };
            let matrix = Arc::new(Matrix::from_csr(a).unwrap());
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config(&[(key, value)]));
            solver.setup(Some(&matrix)).unwrap();
            let (b, mut x) = ([1.0, -1.0, 2.0, -2.0], [0.0; 4]);
            let told = |solver: &Solver| {
                let solves = solver.report().solves;
                solves.iter().map(|solve| (solve.status, solve.converged)).collect::<Vec<_>>()
            };
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{what}");
            assert_eq!(told(&solver), [(Status::Success, true); 2], "{what}");
            let short = solver.solve(&b[..3], &mut x[..3], Guess::Zero).unwrap_err();
            assert_eq!((short.status, told(&solver)), (Status::SizeMismatch, vec![]), "{what}");
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{what}");
            matrix.update_values(bad.to_vec().into()).unwrap();
            let error = solver.solve(&b, &mut x, Guess::Zero).unwrap_err();
            assert_eq!(error.status, status, "{what}: {error}");
            assert_eq!(told(&solver), [(Status::NotAttempted, false); 2], "{what}");
            matrix.update_values(good.to_vec().into()).unwrap();
            solver.update().unwrap();
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{what}");
            // Values that need other units are set up wholly.
            matrix.update_values(bad.iter().map(|v| v * 1e200).collect::<Vec<_>>().into()).unwrap();
            let error = solver.solve(&b, &mut x, Guess::Zero).unwrap_err();
            assert_eq!(
                (error.status, told(&solver)),
                (status, vec![(Status::NotAttempted, false); 2]),
                "{what}: {error}"
            );
        }
    }
}

#[test]
fn a_system_without_rows_has_a_report() {
    let matrix = Arc::new(Matrix::from_csr(Csr::<f64>::from_triplets(0, 0, &[]).unwrap()).unwrap());
    for device in std::iter::once("host:2").chain(devices()) {
        let mut solver = Solver::new(&Context::new(device).unwrap(), &config(&[]));
        solver.setup(Some(&matrix)).unwrap();
        assert_eq!(solver.solve::<f64>(&[], &mut [], Guess::Zero).unwrap(), Status::Success);
        let report = solver.report();
        assert_eq!((report.solves.len(), report.solves[0].iterations, report.solves[0].converged), (1, 0, true));
    }
}

fn all_devices() -> Vec<&'static str> {
    std::iter::once("host:2").chain(devices()).collect()
}

/// A hierarchy of small levels, and what one cycle makes of ones.
fn cycle(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> terrace::Result<(Amg, Vec<f64>)> {
    let mut config = config(options);
    config.set_int("amg.coarsest.max_rows", 10)?;
    let mut amg = Amg::setup(&Context::new(device)?, matrix, &config)?;
    let (b, mut x) = (vec![1.0; matrix.rows()], vec![f64::NAN; matrix.rows()]);
    amg.apply(&b, &mut x)?;
    Ok((amg, x))
}

#[test]
fn cycles_without_a_solver_work_in_any_units() {
    let cases = [
        &[][..],
        &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "jacobi")],
        &[("amg.coarsening.type", "mis2")],
        &[("amg.coarsening.type", "pmis"), ("precision", "sp")],
        &[("amg.coarsening.type", "pmis"), ("precision", "dp-hp")],
    ];
    for (case, options) in cases.into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let (first, wanted) = cycle(device, &scaled("anisotropic:14", 1.0), options).unwrap();
            // A simulated GPU takes its time.
            for k in [-900, 900, -664, 664].into_iter().take(if device.starts_with("sim") { 2 } else { 4 }) {
                let what = format!("{device} {options:?} 2^{k}");
                let factor = 2.0_f64.powi(k);
                let matrix = scaled("anisotropic:14", factor);
                let (mut amg, x) = cycle(device, &matrix, options).unwrap_or_else(|error| panic!("{what}: {error}"));
                let rows = |amg: &Amg| amg.report().levels.iter().map(|level| level.rows).collect::<Vec<_>>();
                assert_eq!(rows(&amg), rows(&first), "{what}");
                let is_same = |x: &[f64], factor: f64| {
                    x.iter().zip(&wanted).all(|(x, wanted)| (x * factor - wanted).abs() <= 1e-6 * wanted.abs())
                };
                assert!(is_same(&x, factor), "{what}: {} {}", x[0] * factor, wanted[0]);
                // New values in ordinary units, and back.
                for factor in [1.0, factor] {
                    matrix.update_values(scaled("anisotropic:14", factor).values().unwrap()).unwrap();
                    amg.update().unwrap();
                    let (b, mut x) = (vec![1.0; wanted.len()], vec![0.0; wanted.len()]);
                    amg.apply(&b, &mut x).unwrap();
                    assert!(is_same(&x, factor), "{what} updated to {factor:e}");
                }
            }
        }
    }
}

#[test]
fn levels_that_f32_cannot_hold_are_refused_in_set_up() {
    for device in all_devices() {
        for (factor, text) in
            [(1e-60, "too small, among them all of 196 rows"), (1e60, "too large for f32 and 0 too small")]
        {
            let matrix = scaled("anisotropic:14", factor);
            for options in [[("precision", "sp")], [("precision.matrix", "f32")]] {
                let error = cycle(device, &matrix, &options).map(|_| ()).unwrap_err();
                assert_eq!(error.status, Status::PrecisionLost, "{device} {factor:e}: {error}");
                assert!(error.message.starts_with("level 0: of 9"), "{device} {factor:e}: {error}");
                assert!(error.message.contains(text) && error.message.contains("in f64"), "{device}: {error}");
            }
            let error = cycle(device, &matrix, &[("precision.smoother", "f32")]).map(|_| ()).unwrap_err();
            assert!(error.message.contains("does not fit into f32"), "{device} {factor:e}: {error}");
            // Formats that are left open become wider.
            let (amg, x) = cycle(device, &matrix, &[("precision", "single")]).unwrap();
            assert!(x.iter().all(|x| x.is_finite() && *x != 0.0));
            assert!(amg.report().levels.iter().all(|level| level.matrix_precision == Precision::F64), "{device}");
        }
        // One row alone.
        let mut a = gallery::parse("anisotropic:14").unwrap().matrix;
        let (start, end) = (a.offsets[70] as usize, a.offsets[71] as usize);
        a.values[start..end].iter_mut().for_each(|v| *v *= 1e-60);
        let matrix = Arc::new(Matrix::from_csr(a).unwrap());
        let error = cycle(device, &matrix, &[("precision.matrix", "f32")]).map(|_| ()).unwrap_err();
        assert!(error.message.contains("among them all of 1 rows"), "{device}: {error}");
    }
}
