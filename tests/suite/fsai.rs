//! FSAI and Jacobi as preconditioners: on the host and on GPUs, in every number format, updated, reported, and refused.

use crate::common::devices::{devices, rotating_devices};
use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::report::Fact;
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Fsai, Guess, Matrix, Report, Solver, Status, gallery, krylov};

type Options<'a> = &'a [(&'a str, &'a str)];

const FSAI: (&str, &str) = ("solver.preconditioner", "fsai");

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

fn config(options: Options<'_>) -> Config {
    let mut config = Config::new();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    config
}

fn set_up(device: &str, matrix: &Arc<Matrix>, options: Options<'_>) -> Solver {
    let mut solver = Solver::new(&Context::new(device).unwrap(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    solver
}

fn right_hand_side(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37) % 19) as f64 - 9.0).collect()
}

/// Solves, and returns the report.
fn solve(solver: &mut Solver, n: usize) -> Report {
    let mut x = vec![f64::NAN; n];
    assert_eq!(solver.solve(&right_hand_side(n), &mut x, Guess::Zero).unwrap(), Status::Success);
    let report = solver.report();
    assert!(report.solves[0].true_residual <= 1e-8);
    report
}

fn iterations(device: &str, matrix: &Arc<Matrix>, options: Options<'_>) -> usize {
    solve(&mut set_up(device, matrix, options), matrix.rows()).solves[0].iterations
}

fn apply(fsai: &mut Fsai, n: usize) -> Vec<f64> {
    let mut x = vec![f64::NAN; n];
    fsai.apply(&right_hand_side(n), &mut x).unwrap();
    x
}

#[test]
fn every_krylov_method_takes_both_and_gpus_take_as_many_iterations_as_the_host() {
    let matrix = problem("lognormal:7");
    for (case, method) in krylov::NAMES.iter().enumerate() {
        if *method == "richardson" {
            continue;
        }
        let plain = iterations("host:2", &matrix, &[("solver.preconditioner", "none"), ("solver.type", method)]);
        for preconditioner in ["fsai", "jacobi"] {
            let options = [("solver.preconditioner", preconditioner), ("solver.type", *method)];
            let on_host = iterations("host:2", &matrix, &options);
            assert!(on_host < plain, "{options:?}: {on_host} of {plain}");
            for device in rotating_devices(case) {
                let on_device = iterations(device, &matrix, &options);
                assert!(on_device.abs_diff(on_host) <= 2, "{options:?} on {device}: {on_device} and {on_host}");
            }
        }
    }
}

#[test]
fn conjugate_gradients_are_chosen_and_blocks_are_taken() {
    let matrix = problem("elasticity:4");
    for preconditioner in ["fsai", "jacobi"] {
        for device in std::iter::once("host:2").chain(devices()) {
            let mut solver = set_up(device, &matrix, &[("solver.preconditioner", preconditioner)]);
            assert_eq!(solve(&mut solver, matrix.rows()).solver, "cg f64", "{preconditioner} on {device}");
        }
    }
}

/// Prolongators that both smoothers are tried with.
const PROLONGATORS: &[(Options<'static>, usize)] = &[
    (&[("amg.interpolation.type", "tentative")], 23),
    (&[("amg.interpolation.type", "smoothed")], 14),
    (&[("amg.interpolation.type", "smoothed"), ("amg.interpolation.kept_norm", "0.95")], 16),
    (&[("amg.interpolation.type", "energy")], 14),
    (&[("amg.interpolation.type", "energy"), ("amg.interpolation.kept_norm", "0.95")], 16),
    (&[("amg.interpolation.type", "energy"), ("amg.near_null_space.steps", "1")], 14),
];

/// Levels of 3 x 3 and 6 x 6 blocks.
#[test]
fn smoothers_of_block_levels_take_as_many_iterations_on_gpus_as_on_the_host() {
    let (matrix, small) = (problem("elasticity:5"), problem("elasticity:4"));
    for (case, (prolongator, most)) in PROLONGATORS.iter().enumerate() {
        for (which, smoother) in ["fsai", "chebyshev_fsai"].into_iter().enumerate() {
            let common = [("amg.smoother.type", smoother), ("amg.coarsest.max_rows", "40")];
            let options = [&common[..], prolongator].concat();
            let on_host = iterations("host:2", &matrix, &options);
            assert!(on_host <= *most, "{options:?}: {on_host}");
            // A simulated GPU takes its time.
            let options = [&options[..], &[("amg.coarsest.max_rows", "10")]].concat();
            let report = solve(&mut set_up("host:2", &small, &options), small.rows());
            assert!(report.levels.len() > 2);
            let on_host = report.solves[0].iterations;
            for device in rotating_devices(case + which) {
                // One of the smoothers for every two prolongators, so that both orders of threads have both.
                if device.starts_with("sim") && !is_deep() && which != case / 2 % 2 {
                    continue;
                }
                let on_device = iterations(device, &small, &options);
                assert!(on_device.abs_diff(on_host) <= 1, "{options:?} on {device}: {on_device} and {on_host}");
            }
        }
    }
}

/// The smoother of each level of a solver.
fn smoothers(solver: &Solver) -> Vec<String> {
    solver.report().levels.into_iter().map(|level| level.smoother).collect()
}

#[test]
fn the_finest_levels_have_a_smoother_of_their_own() {
    let matrix = problem("lognormal:8");
    let common: Options<'_> = &[
        ("fsai.steps", "4"),
        ("amg.coarsening.type", "pmis"),
        ("amg.smoother.type", "fsai"),
        ("amg.coarsest.max_rows", "20"),
        ("amg.coarsest.solver", "sweeps"),
        ("amg.coarsest.sweeps", "8"),
    ];
    let on_all = smoothers(&set_up("host:2", &matrix, common));
    assert!(on_all.len() > 2 && on_all.iter().all(|name| name == "fsai"), "{on_all:?}");
    let cases: [Options<'_>; 3] = [
        &[("amg.smoother.levels", "1")],
        &[("amg.smoother.levels", "2"), ("amg.smoother.coarse_type", "chebyshev")],
        &[("amg.smoother.levels", "1"), ("precision.matrix", "f16"), ("precision.smoother", "f16")],
    ];
    for (case, options) in cases.into_iter().enumerate() {
        let below = if case == 1 { "chebyshev" } else { "l1_jacobi" };
        let fine = if case == 1 { 2 } else { 1 };
        let options = [common, options].concat();
        let mut on_host = 0;
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let mut solver = set_up(device, &matrix, &options);
            let names = smoothers(&solver);
            let expected = |i: usize| if i < fine { "fsai" } else { below };
            assert!(
                names.iter().enumerate().all(|(i, name)| name == expected(i)),
                "{options:?} on {device}: {names:?}"
            );
            assert_eq!(solver.option("amg.smoother.coarse_type").unwrap(), below);
            let first = solve(&mut solver, matrix.rows()).solves[0].iterations;
            solver.update().unwrap();
            assert_eq!(smoothers(&solver), names);
            assert_eq!(solve(&mut solver, matrix.rows()).solves[0].iterations, first, "{options:?} on {device}");
            on_host = if device == "host:2" { first } else { on_host };
            assert!(first.abs_diff(on_host) <= 1, "{options:?} on {device}: {first} and {on_host}");
        }
    }
}

#[test]
fn smoothers_that_some_levels_cannot_have_are_refused_with_a_sentence() {
    let refused = |name: &str, options: Options<'_>, sentence: &str| {
        let mut solver = Solver::new(&Context::new("host:1").unwrap(), &config(options));
        let error = solver.setup(Some(&problem(name))).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains(sentence), "{}", error.message);
    };
    let one = ("amg.smoother.levels", "1");
    let lines = [one, ("amg.smoother.coarse_type", "line")];
    refused("laplace27:8", &lines, "amg.smoother.coarse_type is \"line\", which is for all levels");
    let lines = [one, ("amg.smoother.type", "line")];
    refused("laplace27:8", &lines, "amg.smoother.type is \"line\", which is for all levels");
    let grid = [one, ("amg.smoother.coarse_type", "ilu0")];
    refused("poisson5:20", &grid, "amg.smoother.coarse_type \"ilu0\" needs a matrix on a structured grid");
}

/// A filter that leaves no entry beside the diagonal, and memory for less than the factor.
#[test]
fn an_empty_pattern_is_the_diagonal_and_too_little_memory_has_a_sentence() {
    let matrix = problem("poisson7:8");
    let n = matrix.rows();
    for device in std::iter::once("host:1").chain(devices()) {
        let context = Context::new(device).unwrap();
        let nothing = config(&[("fsai.pattern", "static"), ("fsai.pre_filter", "1")]);
        let mut fsai = Fsai::setup(&context, &matrix, &nothing).unwrap();
        let x = apply(&mut fsai, n);
        let b = right_hand_side(n);
        assert!(x.iter().zip(&b).all(|(x, b)| (x - b / 6.0).abs() < 1e-12), "{device}");
        drop(fsai);
        if let Some(gpu) = context.gpu() {
            gpu.set_memory_limit(Some(gpu.memory().used + 20_000));
            let error = Fsai::setup(&context, &matrix, &Config::new()).err().unwrap();
            assert_eq!(error.status, Status::OutOfMemory, "{device}: {error}");
            assert!(error.message.contains("bytes") || error.message.contains("MiB"), "{device}: {error}");
            gpu.set_memory_limit(None);
            assert!(Fsai::setup(&context, &matrix, &Config::new()).is_ok(), "{device}");
        }
    }
}

#[test]
fn with_the_whole_triangle_it_is_the_inverse() {
    let matrix = problem("elasticity:2");
    let n = matrix.rows();
    for options in
        [&[("fsai.steps", "100"), ("fsai.tolerance", "0")][..], &[("fsai.pattern", "static"), ("fsai.power", "4")]]
    {
        for device in std::iter::once("host:1").chain(devices()) {
            let mut fsai = Fsai::setup(&Context::new(device).unwrap(), &matrix, &config(options)).unwrap();
            let x = apply(&mut fsai, n);
            let mut b = vec![0.0; n];
            matrix.apply(&Context::new("host:1").unwrap(), 1.0, &x, 0.0, &mut b).unwrap();
            let off = b.iter().zip(right_hand_side(n)).fold(0.0_f64, |most, (b, c)| most.max((b - c).abs()));
            assert!(off < 1e-10, "{options:?} on {device}: {off}");
        }
    }
}

/// In units that f16 does not hold.
#[test]
fn narrow_factors_are_scaled_and_cost_hardly_any_iteration() {
    let mut problem = gallery::parse("lognormal:9").unwrap();
    let unit = |i: usize| 10.0_f64.powi((i % 9) as i32 - 4);
    let Csr { offsets, columns, values, .. } = &mut problem.matrix;
    for (i, row) in offsets.windows(2).enumerate() {
        let row = row[0] as usize..row[1] as usize;
        for (value, column) in values[row.clone()].iter_mut().zip(&columns[row]) {
            *value *= 1e6 * unit(i) * unit(*column as usize);
        }
    }
    let matrix = Arc::new(problem.into_matrix().unwrap());
    let wide = iterations("host:2", &matrix, &[FSAI]);
    for (case, format) in ["f32", "f16", "bf16"].into_iter().enumerate() {
        for vector in ["f64", "f32"] {
            let options = [FSAI, ("precision.smoother", format), ("precision.vector", vector)];
            for device in std::iter::once("host:2").chain(rotating_devices(case)) {
                let mut solver = set_up(device, &matrix, &options);
                let report = solve(&mut solver, matrix.rows());
                let (found, bytes) = (report.solves[0].iterations, report.fsai.unwrap().precision.bytes());
                let limit = if format == "bf16" { 1.2 } else { 1.06 };
                assert!((found as f64) <= limit * wide as f64 + 1.0, "{options:?} on {device}: {found} and {wide}");
                assert_eq!(bytes, if format == "f32" { 4 } else { 2 });
            }
        }
    }
}

/// A matrix with other values on the pattern of a problem: as after a change of the coefficients.
fn changed(matrix: &Matrix, name: &str) -> Values {
    let other = problem(name);
    assert_eq!(other.entries(), matrix.entries());
    other.shared::<f64>().unwrap().values.as_slice().to_vec().into()
}

#[test]
fn an_update_keeps_the_pattern_and_a_static_one_is_a_new_set_up() {
    for (case, pattern) in ["static", "adaptive"].into_iter().enumerate() {
        let options = [("fsai.pattern", pattern), ("fsai.power", "2"), ("precision.smoother", "f32")];
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let (context, matrix) = (Context::new(device).unwrap(), problem("lognormal:6:seed=1"));
            let n = matrix.rows();
            let mut fsai = Fsai::setup(&context, &matrix, &config(&options)).unwrap();
            let (first, before) = (apply(&mut fsai, n), fsai.report().fsai.unwrap());
            matrix.update_values(changed(&matrix, "lognormal:6:seed=2")).unwrap();
            assert_eq!(apply(&mut fsai, n), first, "the values of the matrix are taken over by an update only");
            assert_eq!(fsai.report().preconditioner_age, 1);
            fsai.update().unwrap();
            let after = fsai.report().fsai.unwrap();
            assert_eq!((after.nonzeros, after.breakdowns), (before.nonzeros, 0));
            let updated = apply(&mut fsai, n);
            assert_ne!(updated, first);
            if pattern == "static" {
                let mut anew = Fsai::setup(&context, &matrix, &config(&options)).unwrap();
                assert_eq!(updated, apply(&mut anew, n), "{device}");
            }
        }
    }
}

#[test]
fn a_solver_updates_it_with_the_matrix() {
    for device in std::iter::once("host:2").chain(devices()) {
        let matrix = problem("lognormal:6:seed=1");
        let mut solver = set_up(device, &matrix, &[FSAI]);
        let before = solve(&mut solver, matrix.rows());
        matrix.update_values(changed(&matrix, "lognormal:6:seed=2")).unwrap();
        solver.update().unwrap();
        let after = solve(&mut solver, matrix.rows());
        assert_eq!(before.fsai.unwrap().nonzeros, after.fsai.unwrap().nonzeros);
        let anew = iterations(device, &matrix, &[FSAI]);
        assert!(after.solves[0].iterations <= 2 * anew, "{} and {anew}", after.solves[0].iterations);
    }
}

#[test]
fn rows_that_break_down_are_counted_and_have_their_diagonal_alone() {
    // (1 2; 2 1) is indefinite.
    let t = [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0), (2, 2, 4.0)];
    let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(3, 3, &t).unwrap()).unwrap());
    for pattern in ["static", "adaptive"] {
        for device in std::iter::once("host:1").chain(devices()) {
            let context = Context::new(device).unwrap();
            let mut fsai = Fsai::setup(&context, &matrix, &config(&[("fsai.pattern", pattern)])).unwrap();
            assert_eq!(fsai.report().fact("fsai_breakdowns", 0), Some(Fact::Int(1)), "{pattern} on {device}");
            let mut x = [f64::NAN; 3];
            fsai.apply(&[1.0, 1.0, 1.0], &mut x).unwrap();
            assert_eq!(x, [1.0, 1.0, 0.25], "{pattern} on {device}");
        }
    }
}

const SMOOTHERS: [&str; 2] = ["fsai", "chebyshev_fsai"];

#[test]
fn an_update_of_a_hierarchy_keeps_the_patterns_of_its_smoothers() {
    // The patterns of the two matrices have different numbers of entries, so that an update that searched again would hold other bytes.
    for (case, smoother) in SMOOTHERS.into_iter().enumerate() {
        for device in std::iter::once("host:2").chain(rotating_devices(case)) {
            let (context, matrix) = (Context::new(device).unwrap(), problem("lognormal:10:seed=1"));
            let options = [("amg.smoother.type", smoother), ("amg.coarsening.type", "pmis"), ("fsai.tolerance", "0.1")];
            let bytes = |amg: &Amg| amg.report().levels[0].bytes;
            let mut amg = Amg::setup(&context, &matrix, &config(&options)).unwrap();
            let before = bytes(&amg);
            matrix.update_values(changed(&matrix, "lognormal:10:seed=2")).unwrap();
            amg.update().unwrap();
            let anew = Amg::setup(&context, &matrix, &config(&options)).unwrap();
            assert_eq!(bytes(&amg), before, "{smoother} on {device}");
            assert_ne!(bytes(&anew), before, "{smoother} on {device}: other values have other patterns");
        }
    }
}

#[test]
fn breakdowns_of_smoothers_are_counted_on_all_levels() {
    for smoother in SMOOTHERS {
        for device in std::iter::once("host:1").chain(devices()) {
            let context = Context::new(device).unwrap();
            let breakdowns = |shift: f64| {
                let matrix = problem("poisson5:12");
                let mut values = matrix.shared::<f64>().unwrap().values.as_slice().to_vec();
                values.iter_mut().filter(|value| **value > 0.0).for_each(|value| *value -= shift);
                matrix.update_values(values.into()).unwrap();
                let options = [
                    ("amg.smoother.type", smoother),
                    ("amg.max_levels", "2"),
                    ("amg.coarsest.max_rows", "20"),
                    ("fsai.pattern", "static"),
                ];
                let amg = Amg::setup(&context, &matrix, &config(&options)).unwrap();
                let Some(Fact::Int(count)) = amg.report().fact("fsai_breakdowns", 0) else { panic!("a number") };
                count
            };
            assert_eq!(breakdowns(0.0), 0, "{smoother} on {device}");
            // Diagonal entries of 1 beside couplings of -1.
            assert!(breakdowns(3.0) > 0, "{smoother} on {device}");
        }
    }
}

#[test]
fn matrices_that_it_is_not_for_are_refused_with_a_sentence() {
    let of = |t: &[(usize, usize, f64)]| Arc::new(Matrix::from_csr(Csr::from_triplets(2, 2, t).unwrap()).unwrap());
    let cases = [
        (of(&[(0, 0, 2.0), (1, 1, -2.0)]), "1 of the 2 diagonal entries of the symmetric matrix are negative"),
        (of(&[(0, 0, 2.0), (1, 1, 0.0)]), "row 1 has a zero diagonal entry"),
        (of(&[(0, 0, 2.0), (1, 0, 0.0)]), "row 1 has no diagonal entry"),
    ];
    for (matrix, sentence) in cases {
        for device in std::iter::once("host:1").chain(devices()) {
            let context = Context::new(device).unwrap();
            for error in [
                Fsai::setup(&context, &matrix, &Config::new()).err().unwrap(),
                Fsai::memory_estimate(&context, &matrix, &Config::new()).err().unwrap(),
            ] {
                assert_eq!(error.status, Status::MatrixValues);
                assert!(error.message.starts_with(sentence), "{}", error.message);
            }
        }
    }
    let wide = Arc::new(Matrix::from_csr(Csr::from_triplets(2, 3, &[(0, 0, 1.0), (1, 1, 1.0)]).unwrap()).unwrap());
    let error = Fsai::setup(&Context::new("host:1").unwrap(), &wide, &Config::new()).err().unwrap();
    assert_eq!(error.status, Status::SizeMismatch);
    assert!(error.message.starts_with("FSAI needs a square matrix"), "{}", error.message);
}

#[test]
fn matrices_that_are_not_symmetric_have_two_factors() {
    let matrix = problem("convection_diffusion:14");
    let n = matrix.rows();
    let jacobi = iterations("host:2", &matrix, &[("solver.preconditioner", "jacobi")]);
    for (case, options) in
        [&[FSAI][..], &[FSAI, ("fsai.pattern", "static"), ("fsai.power", "2")]].into_iter().enumerate()
    {
        let on_host = iterations("host:2", &matrix, options);
        assert!(2 * on_host < jacobi, "{options:?}: {on_host} of {jacobi}");
        for device in rotating_devices(case) {
            let mut solver = set_up(device, &matrix, options);
            let report = solve(&mut solver, n);
            assert_eq!(report.solver, "gmres f64", "{device}");
            assert!(report.solves[0].iterations.abs_diff(on_host) <= 1, "{options:?} on {device}");
            solver.update().unwrap();
            assert_eq!(solve(&mut solver, n).fsai.unwrap().nonzeros, report.fsai.unwrap().nonzeros);
        }
    }
    // With the whole triangle it is the inverse.
    let t: Vec<_> = (0..6)
        .flat_map(|i| (0..6).map(move |j| (i, j, if i == j { 9.0 } else { ((i * 5 + j) % 7) as f64 - 2.5 })))
        .collect();
    let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(6, 6, &t).unwrap()).unwrap());
    for device in std::iter::once("host:1").chain(devices()) {
        let context = Context::new(device).unwrap();
        let mut fsai = Fsai::setup(&context, &matrix, &config(&[("fsai.pattern", "static")])).unwrap();
        let (x, mut b) = (apply(&mut fsai, 6), vec![0.0; 6]);
        matrix.apply(&Context::new("host:1").unwrap(), 1.0, &x, 0.0, &mut b).unwrap();
        let off = b.iter().zip(right_hand_side(6)).fold(0.0_f64, |most, (b, c)| most.max((b - c).abs()));
        assert!(off < 1e-11, "{device}: {off}");
    }
}

#[test]
fn several_right_hand_sides_are_solved_together() {
    let matrix = problem("lognormal:6");
    let n = matrix.rows();
    for preconditioner in ["fsai", "jacobi"] {
        let mut solver = set_up("host:2", &matrix, &[("solver.preconditioner", preconditioner)]);
        let b: Vec<f64> = (0..5 * n).map(|i| ((i * 7) % 23) as f64 - 11.0).collect();
        let mut x = vec![0.0; 5 * n];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let together = solver.report();
        for j in 0..5 {
            let mut y = vec![0.0; n];
            solver.solve(&b[j * n..][..n], &mut y, Guess::Zero).unwrap();
            let off = y.iter().zip(&x[j * n..]).fold(0.0_f64, |most, (y, x)| most.max((y - x).abs()));
            assert!(off < 1e-5, "{preconditioner}: {off}");
            let alone = solver.report().solves[0].iterations;
            assert!(together.solves[j].iterations.abs_diff(alone) <= 2, "{preconditioner}");
        }
    }
}

#[test]
fn what_it_holds_is_estimated() {
    for (name, options) in [
        ("lognormal:12", &[FSAI][..]),
        ("elasticity:5", &[FSAI, ("precision.smoother", "f16")]),
        ("poisson7:12", &[FSAI, ("fsai.pattern", "static"), ("fsai.power", "2")]),
        ("poisson7:12", &[("solver.preconditioner", "jacobi")]),
    ] {
        let matrix = problem(name);
        for device in std::iter::once("host:2").chain(rotating_devices(0)) {
            let context = Context::new(device).unwrap();
            let before = context.gpu().map(|gpu| gpu.memory().used);
            let estimate = Solver::memory_estimate(&context, &matrix, &config(options), false).unwrap() as f64;
            if let Some(gpu) = context.gpu() {
                gpu.reset_peak();
            }
            let mut solver = Solver::new(&context, &config(options));
            solver.setup(Some(&matrix)).unwrap();
            solve(&mut solver, matrix.rows());
            let held = match (context.gpu(), before) {
                (Some(gpu), Some(before)) => gpu.memory().peak - before,
                _ => solver.report().bytes,
            };
            let ratio = estimate / held as f64;
            assert!((1.0..=1.3).contains(&ratio), "{name} {options:?} on {device}: {ratio:.3}");
        }
    }
}

/// Permeability that jumps from cell to cell: the entries of a row that matter are few, and not all next to the diagonal.
#[test]
fn adaptive_patterns_take_far_fewer_iterations_than_static_ones_with_more_entries() {
    let matrix = problem("lognormal:12:sigma=4,correlation=1");
    let run = |options: Options<'_>| {
        let mut solver = set_up("host:2", &matrix, &[&[FSAI, ("solver.type", "cg")], options].concat());
        let report = solve(&mut solver, matrix.rows());
        (report.solves[0].iterations as f64, report.fsai.unwrap().nonzeros)
    };
    let (adaptive, static_pattern) = (run(&[]), run(&[("fsai.pattern", "static")]));
    assert!(adaptive.0 <= 0.6 * static_pattern.0 && adaptive.1 <= static_pattern.1, "{adaptive:?} {static_pattern:?}");
}
