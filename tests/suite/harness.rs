//! The cross product of components: every Krylov method with every smoother and every way of coarsening, on problems of each kind.
//!
//! A new component is added here by one line with the iterations it may need; a component of a registry without a line fails.

use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::sparse::Grid;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, amg, components, gallery, krylov};

/// Smoother, and how many times more iterations than the best one it may need.
const SMOOTHERS: &[(&str, f64)] = &[
    ("chebyshev", 0.7),
    ("chebyshev_fsai", 0.7),
    ("dilu", 0.9),
    ("fsai", 0.7),
    ("gauss_seidel", 0.9),
    ("ilu0", 0.9),
    ("jacobi", 1.0),
    ("l1_gauss_seidel", 0.8),
    ("l1_jacobi", 1.35),
    ("line", 0.9),
];

/// Coarsening and interpolation that belong together, and the iterations that CG may need on the 2D and 3D Laplacians and
/// on elasticity with the best smoother.
const METHODS: &[(&str, &str, [usize; 3])] = &[
    ("pmis", "extended_i", [13, 12, 48]),
    ("hmis", "extended_i", [10, 10, 46]),
    ("pmis", "mm_ext", [15, 13, 44]),
    ("pmis", "mm_ext_i", [12, 12, 37]),
    ("pmis", "classical_modified", [23, 16, 53]),
    ("pmis", "direct", [23, 15, 49]),
    ("pmis", "least_squares", [20, 20, 40]),
    ("mis2", "smoothed", [21, 17, 28]),
    ("mis2", "energy", [21, 17, 28]),
    ("mis2", "tentative", [42, 26, 32]),
    ("pairwise", "smoothed", [25, 15, 18]),
    ("pairwise", "tentative", [43, 22, 27]),
];

/// The same for coarsening of structured grids, which is tried with CG alone.
const GRID_METHODS: &[(&str, [usize; 3])] =
    &[("black_box", [12, 14, 21]), ("linear", [15, 14, 21]), ("constant", [29, 17, 27])];

/// Krylov method, with the factor c and power p of the bound c k^p on its iterations, where k is that of CG. An iteration of bicgstab
/// applies the preconditioner twice, and richardson does not have the square root of the condition number that the others have.
const KRYLOV: &[(&str, f64, i32)] = &[
    ("cg", 1.0, 1),
    ("fcg", 1.0, 1),
    ("gmres", 1.0, 1),
    ("fgmres", 1.0, 1),
    ("bicgstab", 0.8, 1),
    ("idr", 1.4, 1),
    ("richardson", 0.5, 2),
];

/// Cycle, and the share of V's iterations that it may need after good interpolation, and after a tentative one on many levels.
const CYCLES: &[(&str, f64, f64)] = &[("v", 1.0, 1.0), ("w", 1.0, 0.65), ("f", 1.0, 0.7), ("k", 1.1, 0.4)];

const PROBLEMS: [&str; 3] = ["poisson5:60", "poisson7:16", "elasticity:7"];

fn problem(name: &str) -> Arc<Matrix> {
    Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
}

#[test]
fn every_combination_converges_within_its_bound_on_a_grid_in_the_plane() {
    every_combination(0);
}

#[test]
fn every_combination_converges_within_its_bound_on_a_grid_in_space() {
    every_combination(1);
}

#[test]
fn every_combination_converges_within_its_bound_in_elasticity() {
    every_combination(2);
}

/// Combinations on one of the problems: each hierarchy and smoother on one of the three, with one of the six methods, so that every two of
/// hierarchy, smoother, method and problem meet. With TERRACE_DEEP set, as in `make deep-test`, all of them. One thread: tests run at the same
/// time, and the problems are small.
fn every_combination(p: usize) {
    let (context, name) = (Context::new("host:1").unwrap(), PROBLEMS[p]);
    let matrix = problem(name);
    let all = is_deep();
    for (m, (coarsening, interpolation, bounds)) in METHODS.iter().enumerate() {
        // Lines and ilu0 are of structured grids.
        let smoothers = SMOOTHERS.iter().filter(|(smoother, _)| !["ilu0", "line"].contains(smoother));
        for (s, (smoother, more_for_smoother)) in smoothers.enumerate() {
            for (k, (method, factor, power)) in KRYLOV.iter().enumerate() {
                // Classical interpolation does not carry rotations: a cycle alone hardly converges then, and CG takes its turn.
                let is_left_out = |method: &str| {
                    method == "richardson"
                        && !["smoothed", "energy"].contains(interpolation)
                        && name.starts_with("elasticity")
                };
                let turn = (m + s + m / 3) % KRYLOV.len();
                let is_chosen = (m + s) % 3 == p && k == if is_left_out(KRYLOV[turn].0) { 0 } else { turn };
                if is_left_out(method) || !all && !is_chosen {
                    continue;
                }
                let mut config = Config::new();
                config.set_str("solver.type", method).unwrap();
                // No restarts: what they cost is not the component's doing.
                config.set_int("solver.restart", 100).unwrap();
                config.set_int("solver.max_iterations", 3000).unwrap();
                config.set_str("amg.smoother.type", smoother).unwrap();
                config.set_str("amg.coarsening.type", coarsening).unwrap();
                config.set_str("amg.interpolation.type", interpolation).unwrap();
                let mut solver = Solver::new(&context, &config);
                solver.setup(Some(&matrix)).unwrap();
                let b: Vec<f64> = (0..matrix.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
                let mut x = vec![f64::NAN; b.len()];

                let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();

                let what = format!("{name} {method} {smoother} {coarsening} {interpolation}");
                let report = solver.report();
                assert_eq!(status, Status::Success, "{what}\n{}", report.to_text());
                assert!(report.solves[0].true_residual <= 1e-8, "{what}");
                let bound = factor * (bounds[p] as f64 * more_for_smoother).powi(*power);
                let iterations = report.solves[0].iterations;
                println!("{iterations:>4} of {bound:>5.1}  {what}");
                assert!(iterations as f64 <= bound, "{what}: {iterations} iterations, at most {bound}");
            }
        }
    }
}

/// Each transfer with each smoother on one of the three problems; with TERRACE_DEEP set on all.
#[test]
fn every_transfer_of_structured_grids_converges_with_every_smoother() {
    let context = Context::new("host:1").unwrap();
    let all = is_deep();
    for (p, name) in PROBLEMS.iter().enumerate() {
        let problem = gallery::parse(name).unwrap();
        let grid = problem.grid.unwrap();
        let matrix = Arc::new(problem.into_matrix().unwrap());
        matrix.set_grid(Grid::new(grid)).unwrap();
        for (m, (interpolation, bounds)) in GRID_METHODS.iter().enumerate() {
            for (s, (smoother, more_for_smoother)) in SMOOTHERS.iter().enumerate() {
                // ilu0 is for one unknown in each cell.
                let is_refused = *smoother == "ilu0" && name.starts_with("elasticity");
                let turns = if *smoother == "ilu0" { 2 } else { 3 };
                if is_refused || !all && !(m + s + p).is_multiple_of(turns) {
                    continue;
                }
                let mut config = Config::new();
                config.set_str("solver.type", "cg").unwrap();
                config.set_str("amg.smoother.type", smoother).unwrap();
                config.set_str("amg.type", "structured").unwrap();
                config.set_str("amg.interpolation.type", interpolation).unwrap();
                let mut solver = Solver::new(&context, &config);
                solver.setup(Some(&matrix)).unwrap();
                let b: Vec<f64> = (0..matrix.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
                let mut x = vec![f64::NAN; b.len()];

                let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();

                let (what, report) = (format!("{name} {smoother} {interpolation}"), solver.report());
                assert_eq!(status, Status::Success, "{what}\n{}", report.to_text());
                assert!(report.levels[0].format.starts_with("stencil"), "{what}");
                let (iterations, bound) = (report.solves[0].iterations, bounds[p] as f64 * more_for_smoother);
                println!("{iterations:>4} of {bound:>5.1}  {what}");
                assert!(iterations as f64 <= bound, "{what}: {iterations} iterations, at most {bound}");
            }
        }
    }
}

/// Coarsening and interpolation with further options, and the iterations of CG with l1_jacobi and the operator complexity that it may
/// need on poisson5:100, poisson7:22 and, with TERRACE_DEEP set, poisson7:32.
type Measured = (&'static str, &'static str, &'static [(&'static str, &'static str)], [(usize, f64); 3]);
const MULTIPASS: &[(&str, &str)] =
    &[("amg.coarsening.aggressive_levels", "1"), ("amg.interpolation.aggressive", "multipass")];
const MEASURED: &[Measured] = &[
    ("pmis", "extended_i", &[], [(14, 2.36), (13, 2.63), (14, 2.70)]),
    ("pmis", "extended_i", &[("amg.strength.type", "absolute")], [(14, 2.36), (13, 2.62), (14, 2.69)]),
    ("pmis", "extended_i", &[("amg.coarsening.aggressive_levels", "1")], [(28, 1.34), (22, 1.35), (23, 1.37)]),
    ("pmis", "extended_i", &[("amg.coarsening.aggressive_levels", "2")], [(34, 1.25), (24, 1.27), (25, 1.29)]),
    ("hmis", "extended_i", &[], [(11, 2.66), (11, 2.86), (11, 2.95)]),
    ("pmis", "mm_ext", &[], [(16, 2.38), (15, 2.71), (16, 2.76)]),
    ("pmis", "mm_ext_i", &[], [(14, 2.36), (13, 2.63), (14, 2.71)]),
    ("pmis", "mm_ext", &[("amg.coarsening.aggressive_levels", "1")], [(29, 1.37), (22, 1.40), (24, 1.43)]),
    ("pmis", "mm_ext_i", &[("amg.coarsening.aggressive_levels", "1")], [(28, 1.34), (22, 1.35), (23, 1.38)]),
    ("pmis", "extended_i", MULTIPASS, [(31, 1.27), (24, 1.26), (26, 1.30)]),
    ("pmis", "direct", MULTIPASS, [(38, 1.22), (25, 1.23), (28, 1.27)]),
    ("hmis", "mm_ext_i", &[], [(11, 2.66), (11, 2.86), (12, 2.93)]),
    ("hmis", "classical_modified", &[], [(10, 2.19), (11, 2.76), (12, 2.84)]),
    ("pmis", "classical_modified", &[], [(24, 1.88), (19, 2.20), (21, 2.24)]),
    ("pmis", "direct", &[], [(27, 1.90), (19, 2.22), (21, 2.26)]),
    ("pmis", "least_squares", &[], [(30, 3.0), (30, 3.0), (30, 3.0)]),
    ("mis2", "smoothed", &[], [(26, 1.33), (19, 1.43), (20, 1.46)]),
    ("mis2", "smoothed", &[("amg.interpolation.kept_norm", "0.9")], [(36, 1.25), (25, 1.26), (28, 1.27)]),
    ("mis2", "smoothed", &[("amg.near_null_space.steps", "3")], [(28, 1.33), (19, 1.42), (22, 1.47)]),
    ("mis2", "tentative", &[], [(47, 1.21), (33, 1.18), (38, 1.19)]),
    ("pairwise", "smoothed", &[("amg.coarsening.pairwise.size", "4")], [(20, 1.90), (15, 3.33), (17, 3.86)]),
    ("pairwise", "smoothed", &[], [(33, 1.23), (19, 1.59), (20, 1.66)]),
    ("pairwise", "tentative", &[("amg.coarsening.pairwise.size", "2")], [(40, 2.06), (21, 2.39), (26, 2.44)]),
    ("pairwise", "tentative", &[("amg.coarsening.pairwise.size", "4")], [(47, 1.35), (26, 1.50), (33, 1.52)]),
    ("pairwise", "tentative", &[], [(57, 1.15), (30, 1.22), (40, 1.23)]),
];

#[test]
fn iterations_and_complexity_stay_as_measured() {
    let context = Context::new("host:2").unwrap();
    let names = ["poisson5:100", "poisson7:22", "poisson7:32"];
    for (p, name) in names.iter().enumerate().take(if is_deep() { 3 } else { 2 }) {
        let matrix = problem(name);
        for (coarsening, interpolation, options, bounds) in MEASURED {
            let mut config = Config::new();
            config.set_str("amg.coarsening.type", coarsening).unwrap();
            config.set_str("amg.interpolation.type", interpolation).unwrap();
            for (key, value) in *options {
                config.set_str(key, value).unwrap();
            }
            let mut solver = Solver::new(&context, &config);
            solver.setup(Some(&matrix)).unwrap();
            let mut x = vec![0.0; matrix.rows()];

            let status = solver.solve(&vec![1.0; x.len()], &mut x, Guess::Zero).unwrap();

            let report = solver.report();
            let (iterations, complexity) = (report.solves[0].iterations, report.operator_complexity());
            let what = format!("{name} {coarsening} {interpolation} {options:?}");
            println!("{iterations:>4} iterations, complexity {complexity:.3}  {what}");
            assert_eq!(status, Status::Success, "{what}");
            assert!(iterations <= bounds[p].0 && complexity <= bounds[p].1, "{what}: {iterations}, {complexity:.3}");
        }
    }
}

#[test]
fn every_cycle_converges_within_its_share_of_the_iterations_of_v() {
    let context = Context::new("host:2").unwrap();
    for (name, coarsening, interpolation, plain) in [
        ("poisson5:100", "pmis", "extended_i", false),
        ("poisson7:24", "mis2", "smoothed", false),
        ("elasticity:9", "mis2", "smoothed", false),
        ("poisson5:150", "mis2", "tentative", true),
    ] {
        let matrix = problem(name);
        let b: Vec<f64> = (0..matrix.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
        let mut of_v = 0;
        for (cycle, share, share_after_plain) in CYCLES {
            let mut config = Config::new();
            config.set_str("amg.cycle.type", cycle).unwrap();
            config.set_str("amg.coarsening.type", coarsening).unwrap();
            config.set_str("amg.interpolation.type", interpolation).unwrap();
            config.set_int("amg.coarsest.max_rows", 40).unwrap();
            let mut solver = Solver::new(&context, &config);
            solver.setup(Some(&matrix)).unwrap();
            let mut x = vec![f64::NAN; b.len()];

            let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();

            let what = format!("{name} {coarsening} {interpolation} {cycle}");
            let report = solver.report();
            assert_eq!(status, Status::Success, "{what}\n{}", report.to_text());
            let flexible = ["f", "k"].contains(cycle);
            assert_eq!(report.solver, if flexible { "fcg f64" } else { "cg f64" }, "{what}");
            let iterations = report.solves[0].iterations;
            if *cycle == "v" {
                of_v = iterations;
            }
            let bound = of_v as f64 * if plain { share_after_plain } else { share };
            println!("{iterations:>4} of {bound:>5.1}  {what}");
            assert!(iterations as f64 <= bound, "{what}: {iterations} iterations, at most {bound}");
        }
    }
}

#[test]
fn aggressive_levels_refuse_an_interpolation_that_does_not_reach_across_them() {
    let context = Context::new("host:1").unwrap();
    for interpolation in ["direct", "classical_modified"] {
        let mut config = Config::new();
        config.set_int("amg.coarsening.aggressive_levels", 1).unwrap();
        config.set_str("amg.interpolation.type", interpolation).unwrap();
        let error = Solver::new(&context, &config).setup(Some(&problem("poisson5:30"))).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains(interpolation) && error.message.contains("aggressive_levels"), "{error}");
    }
}

#[test]
fn every_component_of_the_registries_has_a_line_here() {
    let listed =
        |names: &[&str], all: &[&str]| all.iter().all(|n| names.contains(n)) && names.iter().all(|n| all.contains(n));
    assert!(listed(&SMOOTHERS.map_names(), components::SMOOTHERS));
    assert!(listed(&KRYLOV.iter().map(|m| m.0).collect::<Vec<_>>(), krylov::NAMES));
    assert!(listed(&CYCLES.iter().map(|c| c.0).collect::<Vec<_>>(), amg::cycle::NAMES));
    let coarsenings = METHODS.iter().map(|m| m.0).chain(["grid"]);
    assert!(listed(&coarsenings.collect::<Vec<_>>(), components::COARSENINGS));
    let interpolations = METHODS.iter().map(|m| m.1).chain(GRID_METHODS.iter().map(|m| m.0));
    assert!(listed(&interpolations.collect::<Vec<_>>(), components::INTERPOLATIONS));
}

trait Names {
    fn map_names(&self) -> Vec<&str>;
}

impl Names for [(&str, f64)] {
    fn map_names(&self) -> Vec<&str> {
        self.iter().map(|entry| entry.0).collect()
    }
}

#[test]
fn interpolation_and_coarsening_that_do_not_fit_are_refused_by_name() {
    let context = Context::new("host:1").unwrap();
    for (coarsening, interpolation) in [
        ("pmis", "smoothed"),
        ("pmis", "energy"),
        ("pmis", "tentative"),
        ("mis2", "least_squares"),
        ("mis2", "extended_i"),
        ("mis2", "direct"),
        ("mis2", "mm_ext"),
        ("pairwise", "mm_ext_i"),
        ("pairwise", "extended_i"),
    ] {
        let mut config = Config::new();
        config.set_str("amg.coarsening.type", coarsening).unwrap();
        config.set_str("amg.interpolation.type", interpolation).unwrap();
        let error = Solver::new(&context, &config).setup(Some(&problem("poisson5:30"))).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains(interpolation) && error.message.contains("amg.coarsening.type"), "{error}");
        // Aggressive levels interpolated by multipass are no way round that.
        config.set_int("amg.coarsening.aggressive_levels", 9).unwrap();
        config.set_str("amg.interpolation.aggressive", "multipass").unwrap();
        let error = Solver::new(&context, &config).setup(Some(&problem("poisson5:30"))).unwrap_err();
        assert!(error.message.contains(interpolation) && error.message.contains("amg.coarsening.type"), "{error}");
    }
}
