//! Several right-hand sides together: the solutions, statuses and reports of one by one, in fewer passes over the matrices.

use crate::common::devices::devices;
use std::sync::Arc;
use terrace::{Config, Context, Guess, Matrix, Scalar, Solver, Status, gallery};

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn set_up(device: &str, matrix: &Arc<Matrix>, options: &[(&str, &str)], columns: &str) -> Solver {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config.set_str("solver.columns", columns).unwrap();
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config);
    solver.setup(Some(matrix)).unwrap();
    solver
}

/// Right-hand sides of very different size and shape.
fn right_hand_sides<T: Scalar>(n: usize, count: usize) -> Vec<T> {
    let size = |j: usize| 10.0_f64.powi(3 * (j as i32 % 5) - 6);
    let element = |i: usize, j: usize| size(j) * ((((i * (j + 3)) % 17) as f64 - 8.0) + 0.3 * j as f64);
    (0..n * count).map(|e| T::from_f64(element(e % n, e / n))).collect()
}

fn all_devices() -> impl Iterator<Item = &'static str> {
    // One thread gives the bits of two.
    ["host:2"].into_iter().chain(devices())
}

/// Solves together and one by one. Returns whether vectors for several right-hand sides were allocated.
fn compare<T: Scalar>(
    device: &str,
    name: &str,
    options: &[(&str, &str)],
    (count, guess): (usize, Guess),
    tolerance: f64,
) -> bool {
    let matrix = problem(name);
    let n = matrix.rows();
    let b = right_hand_sides::<T>(n, count);
    let start = if guess == Guess::Zero { T::from_f64(f64::NAN) } else { T::from_f64(1e-3) };
    let [mut one, mut all] = ["1", "8"].map(|columns| set_up(device, &matrix, options, columns));
    let before = all.report().bytes;
    let (mut x, mut y) = (vec![start; n * count], vec![start; n * count]);
    let what = format!("{name} {options:?} {count} on {device}");
    assert_eq!(one.solve(&b, &mut x, guess).unwrap(), Status::Success, "{what}");
    assert_eq!(all.solve(&b, &mut y, guess).unwrap(), Status::Success, "{what}");
    let largest = |x: &[T]| x.iter().fold(0.0_f64, |most, x| most.max(x.to_f64().abs()));
    for (x, y) in x.chunks(n).zip(y.chunks(n)) {
        let off = x.iter().zip(y).fold(0.0_f64, |most, (x, y)| most.max((x.to_f64() - y.to_f64()).abs()));
        assert!(off <= tolerance * largest(x), "{what}: {off} of {}", largest(x));
    }
    for (one, all) in one.report().solves.iter().zip(&all.report().solves) {
        assert!(all.converged && all.true_residual <= 1e-5, "{what}");
        assert!(
            all.iterations.abs_diff(one.iterations) <= 2 + one.iterations / 8,
            "{what}: {} {}",
            one.iterations,
            all.iterations
        );
        assert_eq!(all.history.len(), all.iterations + 1, "{what}");
        assert!((all.history[0] - one.history[0]).abs() <= 1e-6 * one.history[0], "{what}");
    }
    // Once more: nothing is left of the call before.
    let mut again = vec![start; n];
    all.solve(&b[n..2 * n], &mut again, guess).unwrap();
    let bound = tolerance * largest(&again);
    assert!(again.iter().zip(&x[n..]).all(|(x, y)| (x.to_f64() - y.to_f64()).abs() <= bound), "{what}");
    all.report().bytes > before
}

#[test]
fn solutions_and_iterations_are_those_of_one_by_one() {
    for device in all_devices() {
        for (k, (name, options)) in [
            ("poisson7:8", &[][..]),
            ("poisson27:8", &[("precision", "single")]),
            ("anisotropic:24", &[]),
            ("anisotropic:24", &[("precision", "single"), ("precision.matrix", "f64")]),
            ("jumps:8", &[("amg.smoother.type", "jacobi"), ("amg.cycle.type", "w")]),
            ("elasticity:4", &[]),
            (
                "elasticity:3",
                &[("precision", "single"), ("amg.smoother.diagonal", "block"), ("amg.coarsest.max_rows", "40")],
            ),
            ("elasticity:4", &[("amg.smoother.type", "l1_jacobi"), ("amg.coarsening.type", "pmis")]),
            ("poisson5:40", &[("amg.coarsest.max_rows", "900"), ("solver.type", "fcg")]),
            ("poisson5:17", &[("solver.preconditioner", "none")]),
            ("poisson5:30", &[("amg.max_levels", "1"), ("amg.coarsest.solver", "sweeps")]),
            ("anisotropic:33x26", &[("amg.type", "structured")]),
            ("poisson7:13x12x11", &[("amg.type", "structured"), ("precision", "single")]),
            ("poisson27:10", &[("amg.type", "structured"), ("amg.smoother.type", "chebyshev")]),
            ("poisson27:9x10x11", &[("amg.type", "structured"), ("amg.cycle.type", "w")]),
        ]
        .into_iter()
        .enumerate()
        {
            // A simulated GPU takes its time: a third of the cases, and unit tests have each kernel. The host has eight columns, and one of the other cases in turn.
            let cases = [(8, Guess::Zero), [(5, Guess::Given), (11, Guess::Zero)][k % 2]];
            let cases = match device {
                "host:2" => &cases[..],
                "cuda:0" => &cases[..1],
                _ => &cases[..usize::from(k.is_multiple_of(3))],
            };
            for &(count, guess) in cases {
                assert!(compare::<f64>(device, name, options, (count, guess), 1e-5), "{name} {options:?} on {device}");
            }
        }
        assert!(compare::<f64>(device, "poisson7:9", &[], (3, Guess::Given), 1e-5), "{device}");
        let f32_solver = [("solver.precision", "f32"), ("precision", "single")];
        assert!(compare::<f32>(device, "poisson7:9", &f32_solver, (8, Guess::Zero), 1e-3), "{device}");
    }
}

#[test]
fn what_has_no_form_for_several_is_solved_one_by_one() {
    for device in all_devices() {
        // Small, with several levels.
        let (name, small) = ("poisson7:5", ("amg.coarsest.max_rows", "20"));
        for options in [
            &[("amg.smoother.type", "gauss_seidel")][..],
            &[("amg.cycle.type", "k")],
            &[("amg.cycle.error_scaling", "energy")],
            &[("solver.type", "gmres")],
            &[("solver.type", "richardson")],
            &[("solver.norm", "preconditioned")],
            &[("precision.vector", "f16"), ("precision.matrix", "f16")],
            &[("amg.type", "structured"), ("amg.smoother.type", "ilu0")],
        ] {
            let options = [options, &[small]].concat();
            assert!(!compare::<f64>(device, name, &options, (3, Guess::Zero), 1e-5), "{name} {options:?} on {device}");
        }
        assert!(!compare::<f64>(device, name, &[small], (2, Guess::Zero), 1e-5), "{device}");
    }
}

#[test]
fn each_right_hand_side_has_its_own_status() {
    let matrix = problem("anisotropic:40");
    let n = matrix.rows();
    for device in all_devices() {
        let mut b = right_hand_sides::<f64>(n, 9);
        let (mut x, mut known) = (vec![0.5; 9 * n], vec![0.0; n]);
        set_up(device, &matrix, &[("solver.tolerance", "1e-10")], "1")
            .solve(&b[2 * n..3 * n], &mut known, Guess::Zero)
            .unwrap();
        b[..n].fill(0.0);
        b[n + 7] = f64::NAN;
        x[2 * n..3 * n].copy_from_slice(&known);
        x[3 * n + 1] = f64::INFINITY;
        let limited = [("solver.max_iterations", "3"), ("solver.type", "cg")];
        let (mut y, mut told) = (x.clone(), Vec::new());
        for (columns, x) in [("1", &mut x), ("8", &mut y)] {
            let mut solver = set_up(device, &matrix, &limited, columns);
            let error = solver.solve(&b, x, Guess::Given).unwrap_err();
            assert_eq!(error.status, Status::NonFinite, "{device}");
            assert!(error.message.contains("right-hand side 1 of 9"), "{error}");
            told.push(solver.report().solves);
        }
        let statuses = |k: usize| told[k].iter().map(|solve| solve.status).collect::<Vec<_>>();
        assert_eq!(statuses(0), statuses(1), "{device}");
        let expected = [Status::Success, Status::NonFinite, Status::Success];
        assert_eq!(statuses(1)[..3], expected, "{device}");
        assert_eq!(statuses(1)[4..], [Status::NotConverged; 5], "{device}");
        assert!(y[..n].iter().all(|x| *x == 0.0) && y[2 * n..3 * n] == known[..], "{device}");
        for solve in &told[1][4..] {
            assert_eq!((solve.iterations, solve.history.len()), (3, 4), "{device}");
            assert!(solve.true_residual < solve.history[0] && !solve.converged, "{device}");
        }
    }
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    // More rows than a vector has in one piece.
    let matrix = problem("poisson7:21");
    let b = right_hand_sides::<f64>(matrix.rows(), 8);
    let solve = |device: &str| {
        let mut x = vec![0.0; b.len()];
        set_up(device, &matrix, &[], "8").solve(&b, &mut x, Guess::Zero).unwrap();
        x
    };
    let one = solve("host:1");
    assert!(one == solve("host:2") && one == solve("host:3"));
}

#[test]
fn new_values_of_the_matrix_are_used() {
    for device in all_devices() {
        let matrix = problem("poisson5:30");
        let n = matrix.rows();
        let b = right_hand_sides::<f64>(n, 8);
        let mut solver = set_up(device, &matrix, &[], "8");
        let (mut x, mut y) = (vec![0.0; 8 * n], vec![0.0; 8 * n]);
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        let values: Vec<f64> = matrix.shared::<f64>().unwrap().view().values.iter().map(|v| 2.0 * v).collect();
        matrix.update_values(terrace::matrix::Values::from(values)).unwrap();
        for update in [false, true] {
            if update {
                solver.update().unwrap();
            }
            assert_eq!(solver.solve(&b, &mut y, Guess::Zero).unwrap(), Status::Success, "{device}");
            let largest = x.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            assert!(x.iter().zip(&y).all(|(x, y)| (x - 2.0 * y).abs() <= 1e-6 * largest), "{device} {update}");
        }
    }
}
