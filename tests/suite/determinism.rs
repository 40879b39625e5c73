//! The same bits for any number of threads, and the hierarchy that a renewal gives.

use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::{Amg, Config, Context, Guess, Matrix, Solver, gallery};

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

fn right_hand_side(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 31) % 101) as f64 - 50.0).collect()
}

/// Problems and options. More rows than a vector has in one piece, but for three cases that take long. Components that have nothing to do with each
/// other share a case.
const CASES: &[(&str, &[(&str, &str)])] = &[
    ("poisson7:21", &[]),
    ("poisson7:21", &[("amg.coarsening.type", "mis2"), ("solver.type", "fcg")]),
    (
        "poisson7:21",
        &[("amg.interpolation.type", "direct"), ("amg.strength.type", "absolute"), ("amg.cycle.type", "w")],
    ),
    ("poisson7:21", &[("amg.interpolation.type", "classical_modified"), ("solver.type", "bicgstab")]),
    (
        "poisson7:21",
        &[("amg.interpolation.type", "mm_ext"), ("amg.smoother.type", "jacobi"), ("amg.eigenvalue.steps", "5")],
    ),
    (
        "poisson27:20",
        &[
            ("amg.interpolation.type", "mm_ext_i"),
            ("amg.coarsening.aggressive_levels", "1"),
            ("precision.setup", "f32"),
            ("precision.transfer", "f32"),
            ("precision.smoother", "f32"),
        ],
    ),
    (
        "poisson7:21",
        &[("amg.coarsening.type", "pairwise"), ("precision.matrix", "f64,bf16"), ("precision.smoother", "f64,f16")],
    ),
    ("poisson7:21", &[("amg.coarsening.aggressive_levels", "1"), ("solver.type", "richardson")]),
    (
        "poisson7:21",
        &[
            ("amg.coarsening.aggressive_levels", "2"),
            ("amg.interpolation.aggressive", "multipass"),
            ("amg.smoother.type", "gauss_seidel"),
        ],
    ),
    ("poisson7:21", &[("amg.coarsening.type", "hmis"), ("solver.type", "fgmres")]),
    // HMIS has three pieces in two turns, and vectors have many. Products of a long strip take less time than those of a square.
    (
        "poisson5:3x180000",
        &[
            ("amg.coarsening.type", "hmis"),
            ("amg.interpolation.type", "direct"),
            ("amg.max_levels", "2"),
            ("amg.coarsest.solver", "sweeps"),
            ("solver.max_iterations", "2"),
        ],
    ),
    ("poisson5:100", &[("solver.type", "gmres"), ("precision.matrix", "f64,f32"), ("precision.vector", "f64,f32")]),
    ("poisson5:100", &[("amg.cycle.type", "k"), ("amg.coarsening.type", "mis2"), ("precision.vector", "f64,f32")]),
    ("poisson5:100", &[("amg.smoother.type", "l1_gauss_seidel")]),
    ("convection_diffusion:96", &[("solver.type", "gmres")]),
    (
        "convection_diffusion:96",
        &[
            ("amg.smoother.type", "gauss_seidel"),
            ("amg.smoother.gauss_seidel.direction", "symmetric"),
            ("solver.type", "gmres"),
        ],
    ),
    ("jumps:22", &[]),
    ("elasticity:14", &[]),
    (
        "elasticity:14",
        &[
            ("amg.coarsening.type", "pairwise"),
            ("amg.interpolation.type", "tentative"),
            ("amg.smoother.type", "gauss_seidel"),
            ("amg.smoother.diagonal", "point"),
        ],
    ),
    (
        "elasticity:14:clamped=0",
        &[
            ("solver.null_space", "near_null_space"),
            ("amg.smoother.type", "chebyshev"),
            ("amg.eigenvalue.method", "power"),
        ],
    ),
    // Their rows of blocks are in two pieces.
    ("elasticity:10", &[("amg.smoother.type", "l1_gauss_seidel"), ("precision.smoother", "f32")]),
    (
        "elasticity:10",
        &[
            ("amg.smoother.type", "fsai"),
            ("precision.matrix", "f16"),
            ("precision.transfer", "f16"),
            ("precision.vector", "f32"),
        ],
    ),
    (
        "elasticity:10",
        &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "gauss_seidel"), ("precision.smoother", "f32")],
    ),
];

#[test]
fn results_are_identical_to_the_bit_for_1_2_and_7_threads() {
    let deep = is_deep();
    for (i, (name, options)) in CASES.iter().enumerate() {
        let matrix = problem(name);
        let mut config = config(options);
        // Krylov methods run to their end; where another component is tried, its bits are in the first iterations.
        if !options.iter().any(|(key, _)| key.starts_with("solver.")) {
            config.set_int("solver.max_iterations", 6).unwrap();
        }
        let run = |threads: usize| {
            let context = Context::new(&format!("host:{threads}")).unwrap();
            let mut solver = Solver::new(&context, &config);
            solver.setup(Some(&matrix)).unwrap();
            let b = right_hand_side(matrix.rows());
            let mut x = vec![0.0; b.len()];
            solver.solve(&b, &mut x, Guess::Zero).unwrap();
            let report = solver.report();
            let sizes: Vec<_> = report.levels.iter().map(|l| (l.rows, l.nonzeros)).collect();
            let history: Vec<u64> = report.solves[0].history.iter().map(|r| r.to_bits()).collect();
            (sizes, history, x.iter().map(|v| v.to_bits()).collect::<Vec<u64>>())
        };
        let one = run(1);
        assert!(one.0.len() > 1 && one.1.len() > 2, "{name} has levels and iterations");
        // Two and seven in turn; `make deep-test` takes both.
        for threads in [2, 7].into_iter().enumerate().filter(|(k, _)| deep || (i + k).is_multiple_of(2)).map(|(_, n)| n)
        {
            assert!(run(threads) == one, "{name} {options:?} differs with {threads} threads");
        }
    }
}

#[test]
fn a_renewal_without_changes_gives_the_same_bits_and_a_scaled_matrix_the_scaled_inverse() {
    let context = Context::new("host:2").unwrap();
    for (name, options) in [
        ("poisson7:14", vec![]),
        ("poisson7:14", vec![("amg.interpolation.type", "classical_modified")]),
        ("poisson7:14", vec![("amg.interpolation.type", "mm_ext")]),
        ("poisson7:14", vec![("amg.interpolation.type", "mm_ext_i")]),
        ("poisson7:14", vec![("amg.interpolation.type", "mm_ext_i"), ("amg.coarsening.aggressive_levels", "1")]),
        ("poisson7:14", vec![("amg.coarsening.aggressive_levels", "1")]),
        ("poisson7:14", vec![("amg.coarsening.aggressive_levels", "1"), ("amg.interpolation.aggressive", "multipass")]),
        ("poisson7:14", vec![("amg.interpolation.type", "direct"), ("amg.interpolation.truncation", "0.1")]),
        ("poisson7:14", vec![("amg.coarsening.type", "mis2")]),
        ("poisson7:14", vec![("amg.coarsening.type", "pairwise"), ("amg.coarsening.pairwise.size", "4")]),
        ("elasticity:6", vec![]),
        ("elasticity:6", vec![("amg.interpolation.type", "tentative")]),
        ("poisson7:14", vec![("amg.update.interpolation", "keep")]),
        ("elasticity:6", vec![("amg.update.interpolation", "keep"), ("precision.transfer", "f32")]),
    ] {
        let matrix = problem(name);
        let b = right_hand_side(matrix.rows());
        let mut amg = Amg::setup(&context, &matrix, &config(&options)).unwrap();
        let (mut first, mut same, mut scaled) = (vec![0.0; b.len()], vec![0.0; b.len()], vec![0.0; b.len()]);
        amg.apply(&b, &mut first).unwrap();

        amg.update().unwrap();
        amg.apply(&b, &mut same).unwrap();
        assert!(first == same, "{name} {options:?}");

        let Values::F64(values) = matrix.values().unwrap() else { panic!("the gallery is f64") };
        let quadrupled: Vec<f64> = values.as_slice().iter().map(|v| 4.0 * v).collect();
        matrix.update_values(Values::from(quadrupled)).unwrap();
        amg.update().unwrap();
        amg.apply(&b, &mut scaled).unwrap();
        // The second renewal goes by what the first has found.
        amg.update().unwrap();
        amg.apply(&b, &mut same).unwrap();
        assert!(scaled == same, "{name} {options:?}");
        let largest = first.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        assert!(first.iter().zip(&scaled).all(|(f, s)| (f / 4.0 - s).abs() <= 1e-12 * largest), "{name} {options:?}");
    }
}

#[test]
fn a_renewal_follows_coefficients_that_change() {
    for (interpolation, coarsening) in [("renew", "pmis"), ("renew", "mis2"), ("keep", "pmis"), ("keep", "mis2")] {
        let context = Context::new("host:2").unwrap();
        let matrix = problem("poisson7:16");
        let options = [("amg.update.interpolation", interpolation), ("amg.coarsening.type", coarsening)];
        let mut solver = Solver::new(&context, &config(&options));
        solver.setup(Some(&matrix)).unwrap();
        // D A D with a smooth D: still SPD, but every value differs.
        let Values::F64(values) = matrix.values().unwrap() else { panic!("the gallery is f64") };
        let structure = matrix.structure().unwrap();
        let a = structure.view(values.as_slice());
        // What is kept cannot follow as much as what is renewed.
        let change = if interpolation == "renew" { 0.5 } else { 0.1 };
        let d = |i: usize| 1.0 + change * (i as f64 / 500.0).sin();
        let mut changed = Vec::new();
        for i in 0..a.rows {
            changed.extend(a.row(i).map(|(j, v)| d(i) * v[0] * d(j)));
        }
        matrix.update_values(Values::from(changed)).unwrap();
        let b = right_hand_side(matrix.rows());
        let mut x = vec![0.0; b.len()];

        solver.update().unwrap();
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        let renewed = solver.report().solves[0].clone();
        solver.setup(Some(&matrix)).unwrap();
        solver.solve(&b, &mut x, Guess::Zero).unwrap();
        let fresh = solver.report().solves[0].iterations;

        assert!(renewed.converged && renewed.true_residual <= 1e-8);
        let bound = fresh + 3;
        assert!(renewed.iterations <= bound, "{options:?}: {} after update, {fresh} after set-up", renewed.iterations);
    }
}

#[test]
fn a_renewal_does_not_see_a_near_null_space_that_was_given_after_set_up() {
    let matrix = problem("elasticity:8");
    let n = matrix.rows();
    let context = Context::new("host:1").unwrap();
    let mut amg = Amg::setup(&context, &matrix, &Config::new()).unwrap();
    let b = right_hand_side(n);
    let (mut before, mut after) = (vec![0.0; n], vec![0.0; n]);
    amg.apply(&b, &mut before).unwrap();
    matrix.set_near_null_space(3, 1, vec![1.0; n]).unwrap();
    amg.update().unwrap();
    amg.apply(&b, &mut after).unwrap();
    assert!(before == after);
}
