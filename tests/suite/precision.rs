//! Hierarchies in 16-bit storage: the iterations of f64, whatever the units of the matrix.

use crate::common::devices::{devices, rotating_devices};
use std::sync::Arc;
use terrace::report::Report;
use terrace::sparse::Csr;
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
    let report = solve_and_report(matrix, options);
    (report.solves[0].iterations, report.solves[0].true_residual)
}

fn solve_and_report(matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Report {
    let mut solver = Solver::new(&Context::new("host:2").unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    let b = vec![1.0; matrix.rows()];
    let mut x = vec![0.0; matrix.rows()];
    let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
    assert_eq!(status, Status::Success, "{options:?}");
    solver.report()
}

const F16_STORAGE: [(&str, &str); 3] =
    [("precision.matrix", "f16"), ("precision.transfer", "f16"), ("precision.smoother", "f16")];

#[test]
fn f16_matrices_take_the_iterations_of_f64_in_any_units() {
    // Jumps feel the rounding of f16, differently in every unit.
    for (name, share) in [("poisson27:14", 10), ("jumps:16:contrast=1e6", 4), ("elasticity:7", 10)] {
        let (reference, _) = solve(&scaled(name, 1.0), &[]);
        for factor in [1.0, 1e8, 1e12, 1e-12, 1e30] {
            let matrix = scaled(name, factor);
            // Vectors of both formats in units of 1, and of one in each of the others.
            let vectors = if factor < 1e10 { &["f64", "f32"][..] } else { &["f32"] };
            for vector in vectors.iter().copied() {
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
    let matrix = scaled("poisson7:10", 1e6);
    // Lines and ilu0 are of structured grids.
    for smoother in terrace::components::SMOOTHERS.iter().filter(|smoother| !["ilu0", "line"].contains(smoother)) {
        // Each cycle in one format and each format in one cycle, the other way round for the other coarsening.
        for (coarsening, cycle, storage) in
            [("pmis", "v", "f16"), ("pmis", "k", "bf16"), ("mis2", "v", "bf16"), ("mis2", "k", "f16")]
        {
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

#[test]
fn scaling_changes_nothing_but_the_storage() {
    // Only the smoother of level 1 is in 16 bits: a scaled level between unscaled ones, and the same cycle.
    let context = Context::new("host:2").unwrap();
    let apply = |scaling: &str, factor: f64| {
        let matrix = scaled("jumps:16:contrast=16384", factor);
        let n = matrix.rows();
        let b: Vec<f64> = (0..n).map(|i| factor * (((i * 37) % 19) as f64 - 9.0)).collect();
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
    let plain = apply("none", 1.0);
    let largest = plain.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    // The largest coupling is a power of two, so that rounding to bf16 is the same without scaling; in other units it is so with scaling alone.
    for factor in [1.0, 3.0, 1e-12] {
        let scaled = apply("diagonal", factor);
        assert!(scaled.iter().zip(&plain).all(|(s, p)| (s - p).abs() <= 1e-11 * largest), "times {factor}");
    }
}

/// Names of the formats of the first levels: matrix, vector, transfer, smoother.
fn formats(matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Vec<[&'static str; 4]> {
    formats_of(&Amg::setup(&Context::new("host:2").unwrap(), matrix, &config(options)).unwrap().report())
}

fn formats_of(report: &Report) -> Vec<[&'static str; 4]> {
    let of = |l: &terrace::report::LevelReport| {
        [l.matrix_precision, l.vector_precision, l.transfer_precision, l.smoother_precision].map(|p| p.name())
    };
    report.levels.iter().map(of).take(3).collect()
}

#[test]
fn names_stand_for_the_formats_of_all_levels() {
    let matrix = scaled("poisson7:16", 1.0);
    let (dp, sp, hp, bf) = ("f64", "f32", "f16", "bf16");
    for (name, expected) in [
        ("dp", [[dp; 4]; 3]),
        ("dp-sp", [[dp; 4], [sp; 4], [sp; 4]]),
        ("dp-sp-hp", [[dp; 4], [sp; 4], [hp; 4]]),
        ("dp-hp", [[dp; 4], [hp; 4], [hp; 4]]),
        ("dp-sp-bf", [[dp; 4], [sp; 4], [bf; 4]]),
        ("dp-bf", [[dp; 4], [bf; 4], [bf; 4]]),
        ("(dp-sp,hp)", [[hp, dp, hp, dp], [hp, sp, hp, sp], [hp, sp, hp, sp]]),
        ("(dp, dp-sp-bf)", [[dp; 4], [sp, dp, sp, dp], [bf, dp, bf, dp]]),
    ] {
        assert_eq!(formats(&matrix, &[("precision", name)]), expected, "{name}");
        let (reference, _) = solve(&matrix, &[]);
        let (iterations, _) = solve(&matrix, &[("precision", name)]);
        assert!(iterations <= reference + 3, "{name}: {iterations} against {reference}");
    }
    // A part of its own goes before the name, and comes back to it level by level.
    let options = [("precision", "dp-sp"), ("precision.matrix", "preset,f16"), ("amg.coarsening.type", "pmis")];
    assert_eq!(formats(&matrix, &options), [[dp; 4], [hp, sp, sp, sp], [hp, sp, sp, sp]]);
    // Vectors in 16 bits take the open parts of their level along.
    assert_eq!(formats(&matrix, &[("precision.vector", "f64,f16,f32")]), [[dp; 4], [hp; 4], [dp, sp, dp, dp]]);
    for (part, other) in [("precision.matrix", "bf16"), ("precision.smoother", "f32"), ("precision.transfer", "input")]
    {
        let error = Amg::setup(
            &Context::new("host:2").unwrap(),
            &matrix,
            &config(&[("precision.vector", "f64,f16"), (part, &format!("f64,{other}"))]),
        )
        .map(drop)
        .unwrap_err();
        let said = format!("level 1 has vectors in f16 and {part} in {}", if other == "input" { dp } else { other });
        assert!(error.status == Status::Unsupported && error.message.starts_with(&said), "{error}");
    }
    for bad in ["dp-", "(dp)", "(dp,sp", "f8", "dp,sp", "f64-f8", ""] {
        let error = Config::new().set_str("precision", bad).unwrap_err();
        assert!(error.status == Status::OptionValue && error.message.contains("(dp-sp,hp)"), "{bad}: {error}");
    }
    let mut json = Config::new();
    json.load_json(r#"{"precision": "dp-hp"}"#).unwrap();
    assert_eq!(json.to_json(), r#"{"precision.preset":"dp-hp"}"#);
}

#[test]
fn vectors_of_16_bits_work_whatever_the_size_of_the_right_hand_side() {
    let matrix = scaled("poisson7:12", 1.0);
    let solve = |precision: &str, size: f64| {
        let options = [("precision", precision), ("solver.tolerance", "1e-10")];
        let mut solver = Solver::new(&Context::new("host:2").unwrap(), &config(&options));
        solver.setup(Some(&matrix)).unwrap();
        let (b, mut x) = (vec![size; matrix.rows()], vec![0.0; matrix.rows()]);
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{precision} {size:e}");
        solver.report().solves[0].iterations
    };
    let reference = solve("dp", 1.0);
    for precision in ["dp-hp", "hp", "dp-bf", "bf", "sp"] {
        for size in [1.0, 1e-30, 1e-100, 1e20, 1e60] {
            let iterations = solve(precision, size);
            assert!(iterations <= reference + 4, "{precision}, {size:e}: {iterations} against {reference}");
        }
    }
}

#[test]
fn auto_saves_bytes_and_no_problem_takes_a_tenth_more_iterations() {
    let names = ["poisson7:20", "poisson27:16", "jumps:20:contrast=1e6", "elasticity:8", "lognormal:14", "beam:1"];
    for (p, name) in names.into_iter().enumerate() {
        let smoothers = ["auto", "l1_gauss_seidel"].map(|smoother| ("amg.smoother.type", smoother));
        let in_f64 = smoothers.map(|smoother| solve(&scaled(name, 1.0), &[smoother]).0);
        // In units of 1, and in one of the others in turn.
        for factor in [1.0, [1e12, 1e-12, 1e30][p % 3]] {
            let matrix = scaled(name, factor);
            // Both smoothers in two of the units.
            for (smoother, wide) in smoothers.into_iter().zip(in_f64).take(if factor >= 1e12 { 1 } else { 2 }) {
                let report = solve_and_report(&matrix, &[smoother, ("precision", "auto")]);
                let (iterations, residual) = (report.solves[0].iterations, report.solves[0].true_residual);
                assert!(
                    iterations as f64 <= (1.1 * wide as f64).ceil() && residual <= 1e-8,
                    "{name} times {factor:e}, {smoother:?}: {iterations} against {wide}"
                );
                let levels = formats_of(&report);
                assert!(levels.iter().flatten().any(|format| *format != "f64"), "{name} times {factor:e}: {levels:?}");
            }
        }
    }
}

#[test]
fn auto_says_why() {
    let options = config(&[("precision", "auto")]);
    let setup =
        |name: &str| Amg::setup(&Context::new("host:2").unwrap(), &scaled(name, 1.0), &options).unwrap().report();
    let report = setup("poisson27:20");
    assert!(report.levels.iter().all(|level| level.precision_reason.contains("; vectors ")));
    assert!(report.to_text().contains("level 0: matrix f16: exact"), "{}", report.to_text());
    let tiny = setup("poisson7:6");
    assert_eq!(tiny.levels[0].precision_reason, "too small to gain anything");
    assert_eq!(tiny.levels[0].matrix_precision.name(), "f64");
}

#[test]
fn what_overflows_is_an_error_that_names_the_level_or_under_auto_promoted() {
    let matrix = scaled("poisson7:24", 1.0);
    let n = matrix.rows();
    let solve = |options: &[(&str, &str)], size: f64| {
        let mut solver = Solver::new(&Context::new("host:2").unwrap(), &config(options));
        solver.setup(Some(&matrix)).unwrap();
        let mut x = vec![0.0; n];
        (solver.solve(&vec![size; n], &mut x, Guess::Zero), solver.report(), x)
    };
    let unscaled = ("precision.residual_scaling", "none");
    let (result, ..) = solve(&[("precision", "dp-sp-hp"), unscaled], 1e6);
    let error = result.unwrap_err();
    assert_eq!(error.status, Status::PrecisionLost);
    assert!(error.message.starts_with("level 2: numbers beyond the range of its vectors (f16)"), "{error}");

    let mut amg =
        Amg::setup(&Context::new("host:2").unwrap(), &matrix, &config(&[("precision", "dp-sp"), unscaled])).unwrap();
    let error = amg.apply(&vec![1e60; n], &mut vec![0.0; n]).unwrap_err();
    assert!(error.message.starts_with("level 1: "), "{error}");

    // Set-up does not see what a solve will be asked for.
    let (result, report, x) = solve(&[("precision", "auto"), unscaled], 1e60);
    assert_eq!(result.unwrap(), Status::Success);
    let [first, ..] = &report.promotions[..] else { panic!("nothing was promoted") };
    assert!(first.starts_with("level 0 promoted: level 0: numbers"), "{first}");
    assert_eq!(report.levels[0].vector_precision.name(), "f64");
    assert!(report.levels[0].precision_reason.contains("; promoted: "), "{}", report.levels[0].precision_reason);
    assert!(x.iter().all(|x| x.is_finite()) && report.solves[0].true_residual <= 1e-8);
}

#[test]
fn diagonals_that_cannot_be_used_are_equilibrated_or_named() {
    // A saddle point: the last unknowns have no diagonal to scale by.
    let mut problem = gallery::parse("poisson5:12").unwrap();
    let a = &mut problem.matrix;
    for i in 0..a.rows {
        let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        for k in row.filter(|k| a.columns[*k] as usize == i && i % 7 == 3) {
            a.values[k] = -1e-3;
        }
    }
    let matrix = Arc::new(problem.into_matrix().unwrap());
    let setup = |scaling: &str| {
        let options = config(&[("precision.matrix", "f16"), ("precision.scaling", scaling), ("amg.max_levels", "2")]);
        Amg::setup(&Context::new("host:2").unwrap(), &matrix, &options)
    };
    let error = setup("diagonal").err().unwrap();
    assert!(error.status == Status::PrecisionLost && error.message.contains("row 3"), "{error}");
    for scaling in ["auto", "equilibrate"] {
        assert_eq!(setup(scaling).unwrap().report().levels[0].matrix_precision.name(), "f16");
    }
}

#[test]
fn rounding_that_keeps_row_sums_solves_as_well() {
    let matrix = scaled("jumps:20:contrast=1e6", 1.0);
    let (wide, _) = solve(&matrix, &[]);
    let (kept, _) = solve(&matrix, &[("precision.matrix", "f16"), ("precision.rounding", "row_sums")]);
    assert!(kept <= wide + wide / 4 + 1, "{kept} against {wide}");
}

/// Galerkin products leave entries that are rounding alone. They are far below the rounding of their rows in any format.
#[test]
fn entries_that_are_noise_do_not_count_as_lost() {
    let n = 300;
    let mut entries = Vec::new();
    for i in 0..n {
        for j in 0..n {
            let value = match usize::abs_diff(i, j) {
                0 => 2.0,
                1 => -1.0,
                distance if distance < 30 => 1e-19 * ((i * j % 7) as f64 - 3.5),
                _ => continue,
            };
            entries.push((i, j, value));
        }
    }
    let matrix = Arc::new(Matrix::from_csr(terrace::sparse::Csr::from_triplets(n, n, &entries).unwrap()).unwrap());
    for device in std::iter::once("host:2").chain(devices()) {
        for precision in ["hp", "(dp,hp)", "(sp,hp)"] {
            let mut solver = Solver::new(&Context::new(device).unwrap(), &config(&[("precision", precision)]));
            solver.setup(Some(&matrix)).unwrap_or_else(|error| panic!("{precision} on {device}: {error}"));
            let mut x = vec![0.0; n];
            let status = solver.solve(&vec![1.0; n], &mut x, Guess::Zero);
            assert_eq!(status, Ok(Status::Success), "{precision} on {device}");
        }
    }
}

/// On every device: the same iterations, or a refusal in set-up.
#[test]
fn any_formats_take_the_same_iterations_in_any_units_or_are_refused() {
    let formats = [
        "dp", "sp", "hp", "bf", "dp-sp", "dp-hp", "sp-hp", "sp-bf", "dp-sp-hp", "(dp,hp)", "(sp,bf)", "single", "auto",
    ];
    for (k, format) in formats.into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(k)) {
            let context = Context::new(device).unwrap();
            let problem = if device.starts_with("sim") { "poisson5:300x1" } else { "poisson5:1500x1" };
            let iterations = |scale: f64| {
                let matrix = scaled(problem, scale);
                let mut solver = Solver::new(&context, &config(&[("precision", format)]));
                match solver.setup(Some(&matrix)) {
                    Err(error) if error.status == Status::PrecisionLost => return None,
                    result => result.unwrap(),
                }
                let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
                let status = solver.solve(&b, &mut x, Guess::Zero);
                assert_eq!(status, Ok(Status::Success), "{format} on {device}, times {scale:e}");
                Some(solver.report().solves[0].iterations)
            };
            let wanted = iterations(1.0).expect("units of 1 fit into every format");
            let scales = [1e-30, 1e30, 1e-16, 1e16, 1e-4, 1e4];
            // Simulated GPUs take turns.
            let count = if device.starts_with("sim") { 2 } else { scales.len() };
            for scale in scales.into_iter().cycle().skip(2 * k).take(count) {
                if let Some(found) = iterations(scale) {
                    assert!(
                        found.abs_diff(wanted) <= 1,
                        "{format} on {device}, times {scale:e}: {found}, {wanted} in units of 1"
                    );
                }
            }
        }
    }
}

/// -u'' on a line in other units: its inverse is large, and so is what comes back from the levels below.
fn line(scale: f64) -> Arc<Matrix> {
    let n = 1500_usize;
    let entries = (0..n).flat_map(|i| [(i, i, 2.0), (i, i.wrapping_sub(1), -1.0), (i, i + 1, -1.0)]);
    let entries: Vec<_> = entries.filter(|(_, j, _)| *j < n).map(|(i, j, v)| (i, j, v * scale)).collect();
    Arc::new(Matrix::from_csr(Csr::from_triplets(n, n, &entries).unwrap()).unwrap())
}

/// Restricted residuals of a scaled matrix are larger or smaller than residuals, by any factor.
#[test]
fn vectors_of_16_bits_below_wider_ones_take_the_same_iterations_in_any_units() {
    for preset in ["dp-hp", "sp-hp", "dp-sp-hp"] {
        let iterations = |scale: f64| solve(&line(scale), &[("precision", preset)]).0;
        let wanted = iterations(1.0);
        for scale in [1e-30, 1e-16, 1e-4, 1e4, 1e16, 1e30] {
            let found = iterations(scale);
            assert!(found.abs_diff(wanted) <= 1, "{preset}, times {scale}: {found} iterations, {wanted} in units of 1");
        }
    }
    let (iterations, _) = solve(&scaled("poisson5:300", 1.0), &[("precision", "dp-hp")]);
    assert!(iterations < 30, "{iterations}");
}

/// The few bits of bf16 round each number in the same way, whatever the units of the matrix are, or those of the right-hand side.
#[test]
fn bf16_takes_the_same_iterations_in_units_that_are_no_powers_of_two() {
    for preset in ["bf", "dp-bf", "sp-bf"] {
        let iterations = |of_a: f64, of_b: f64| {
            let mut solver = Solver::new(&Context::new("host:2").unwrap(), &config(&[("precision", preset)]));
            let matrix = line(of_a);
            solver.setup(Some(&matrix)).unwrap();
            let (b, mut x) = (vec![of_b; matrix.rows()], vec![0.0; matrix.rows()]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero), Ok(Status::Success), "{preset}");
            solver.report().solves[0].iterations
        };
        let wanted = iterations(1.0, 1.0);
        for s in [3.0, 1e30] {
            for (of_a, of_b) in [(s, 1.0), (s, s), (1.0, s)] {
                let found = iterations(of_a, of_b);
                assert!(
                    found.abs_diff(wanted) <= 1,
                    "{preset}, A times {of_a:e}, b times {of_b:e}: {found} iterations, {wanted} in units of 1"
                );
            }
        }
    }
}
