//! Hierarchies in 16-bit storage: the iterations of f64, whatever the units of the matrix.

use std::sync::Arc;
use terrace::{Amg, Config, Context, Guess, Matrix, Solver, Status, gallery};

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

/// A problem with its entries multiplied.
fn scaled(name: &str, factor: f64) -> Arc<Matrix> {
    let mut problem = gallery::parse(name).unwrap();
    problem.matrix.values.iter_mut().for_each(|v| *v *= factor);
    Arc::new(problem.into_matrix().unwrap())
}

/// Iterations to 1e-8, and the true residual.
fn solve(matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> (usize, f64) {
    let mut solver = Solver::new(&Context::new("host:2").unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    let b = vec![1.0; matrix.rows()];
    let mut x = vec![0.0; matrix.rows()];
    let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
    assert_eq!(status, Status::Success, "{options:?}");
    let report = solver.report();
    (report.solves[0].iterations, report.solves[0].true_residual)
}

const F16_STORAGE: [(&str, &str); 3] =
    [("precision.matrix", "f16"), ("precision.transfer", "f16"), ("precision.smoother", "f16")];

#[test]
fn f16_matrices_take_the_iterations_of_f64_in_any_units() {
    // Jumps feel the rounding of f16, differently in every unit.
    for (name, share) in [("poisson27:20", 10), ("jumps:20:contrast=1e6", 4), ("elasticity:10", 10)] {
        let (reference, _) = solve(&scaled(name, 1.0), &[]);
        for factor in [1.0, 1e8, 1e12, 1e-12, 1e30] {
            let matrix = scaled(name, factor);
            for vector in ["f64", "f32"] {
                let options = [&F16_STORAGE[..], &[("precision.vector", vector)]].concat();
                let (iterations, residual) = solve(&matrix, &options);
                assert!(
                    iterations <= reference + 1 + reference / share && residual <= 1e-8,
                    "{name} times {factor:e}, vectors {vector}: {iterations} against {reference}"
                );
            }
        }
    }
}

#[test]
fn unscaled_f16_is_refused_with_the_level_and_the_count() {
    let context = Context::new("host:2").unwrap();
    for (factor, what) in [(1e8, "too large"), (1e-12, "too small")] {
        let options = [("precision.matrix", "f64,f16"), ("precision.scaling", "none")];
        let error = Amg::setup(&context, &scaled("poisson27:20", factor), &config(&options)).err().unwrap();
        assert_eq!(error.status, Status::PrecisionLost);
        assert!(error.message.starts_with("level 1: of ") && error.message.contains(what), "{error}");
    }
    let options = [("precision.smoother", "f16"), ("precision.scaling", "none")];
    let error = Amg::setup(&context, &scaled("poisson27:20", 1e-12), &config(&options)).err().unwrap();
    assert!(error.message.contains("level 0: the inverse of a diagonal does not fit into f16"), "{error}");
}

#[test]
fn every_smoother_and_cycle_works_in_16_bits() {
    let matrix = scaled("poisson7:16", 1e6);
    for smoother in terrace::smooth::NAMES {
        for coarsening in ["pmis", "mis2"] {
            for storage in ["f16", "bf16"] {
                for cycle in ["v", "k"] {
                    let options = |storage| {
                        [
                            ("amg.smoother.type", *smoother),
                            ("amg.coarsening.type", coarsening),
                            ("amg.cycle.type", cycle),
                            ("precision.matrix", storage),
                            ("precision.transfer", storage),
                            ("precision.smoother", storage),
                        ]
                    };
                    let (narrow, _) = solve(&matrix, &options(storage));
                    let (wide, _) = solve(&matrix, &options("f64"));
                    assert!(narrow <= wide + 3, "{:?}: {narrow} against {wide}", options(storage));
                }
            }
        }
    }
}

#[test]
fn scaling_changes_nothing_but_the_storage() {
    // Only the smoother of level 1 is in 16 bits: a scaled level between unscaled ones, and the same cycle.
    let context = Context::new("host:2").unwrap();
    let matrix = scaled("jumps:16:contrast=1e4", 1.0);
    let n = matrix.rows();
    let b: Vec<f64> = (0..n).map(|i| ((i * 37) % 19) as f64 - 9.0).collect();
    let apply = |scaling: &str| {
        let options = [
            ("amg.smoother.type", "jacobi"),
            ("amg.smoother.jacobi.weight", "0.7"),
            ("amg.coarsening.type", "mis2"),
            ("precision.smoother", "f64,bf16,f64"),
            ("precision.scaling", scaling),
        ];
        let mut amg = Amg::setup(&context, &matrix, &config(&options)).unwrap();
        let mut x = vec![0.0; n];
        amg.apply(&b, &mut x).unwrap();
        x
    };
    let (scaled, plain) = (apply("diagonal"), apply("none"));
    let largest = plain.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert!(scaled.iter().zip(&plain).all(|(s, p)| (s - p).abs() <= 1e-11 * largest));
}
