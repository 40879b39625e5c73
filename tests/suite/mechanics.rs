//! Hard problems of mechanics: what prolongators and smoothers do on them. `docs/mechanics.md` has the table that the last test prints.

use crate::common;
use std::sync::Arc;
use terrace::io::matrix_market::read_matrix;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

fn problem(name: &str) -> Option<Arc<Matrix>> {
    if name.contains(':') {
        return Some(Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap()));
    }
    let file = common::real_matrices("hard problems of mechanics")?.join(format!("{name}.mtx.gz"));
    Some(Arc::new(Matrix::from_csr(read_matrix(&file).unwrap()).unwrap()))
}

/// Iterations to 1e-8 and operator complexity; none after 1000 iterations.
fn solve(matrix: &Arc<Matrix>, config: &Config) -> Option<(usize, f64)> {
    let mut solver = Solver::new(&Context::new("host:2").unwrap(), config);
    solver.setup(Some(matrix)).unwrap();
    let (b, mut x) = (gallery::random_vector(matrix.rows()).unwrap(), vec![0.0; matrix.rows()]);
    let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
    let report = solver.report();
    (status == Status::Success).then(|| (report.solves[0].iterations, report.operator_complexity()))
}

fn config(interpolation: &str, smoother: &str) -> Config {
    let mut config = Config::new();
    config.set_str("solver.type", "cg").unwrap();
    config.set_str("amg.coarsening.type", "mis2").unwrap();
    config.set_str("amg.interpolation.type", interpolation).unwrap();
    config.set_str("amg.smoother.type", smoother).unwrap();
    config
}

/// Flat elements: what smoothing spreads along weak directions costs entries and gains nothing.
#[test]
fn least_energy_takes_fewer_iterations_and_entries_than_smoothing_in_flat_elements() {
    let matrix = problem("elasticity_jittered:9:height=0.05").unwrap();
    let (smoothed, more) = solve(&matrix, &config("smoothed", "chebyshev")).unwrap();
    let (energy, entries) = solve(&matrix, &config("energy", "chebyshev")).unwrap();
    assert!(energy < smoothed && entries < 0.85 * more, "{energy} {entries:.2}, smoothed {smoothed} {more:.2}");
}

/// Flat elements: most blocks of a smoothed prolongator are small.
#[test]
fn filtered_prolongators_have_fewer_entries_and_take_hardly_more_iterations() {
    let matrix = problem("elasticity_jittered:10:height=0.05").unwrap();
    let mut filtered = config("smoothed", "chebyshev");
    let (whole, more) = solve(&matrix, &filtered).unwrap();
    filtered.set_str("amg.interpolation.kept_norm", "0.99").unwrap();
    let (iterations, entries) = solve(&matrix, &filtered).unwrap();
    assert!(
        entries < 0.8 * more && iterations <= whole * 23 / 20,
        "{iterations} {entries:.2}; whole {whole} {more:.2}"
    );
}

/// Without coordinates aggregation keeps the constants of each direction; six vectors from nothing do better.
#[test]
fn a_near_null_space_is_made_from_random_vectors() {
    let matrix = problem("elasticity:7").unwrap();
    matrix.remove_near_null_space();
    let mut options = config("smoothed", "chebyshev");
    let (constants, _) = solve(&matrix, &options).unwrap();
    options.set_str("amg.near_null_space.steps", "20").unwrap();
    options.set_str("amg.near_null_space.random", "6").unwrap();
    let (iterations, _) = solve(&matrix, &options).unwrap();
    assert!(iterations * 3 <= constants * 2, "{iterations} in place of {constants}");

    // An update keeps the vectors, so that equal values give the same solution to the bit.
    let mut solver = Solver::new(&Context::new("host:2").unwrap(), &options);
    solver.setup(Some(&matrix)).unwrap();
    let b = gallery::random_vector(matrix.rows()).unwrap();
    let (mut before, mut after) = (vec![0.0; b.len()], vec![0.0; b.len()]);
    solver.solve(&b, &mut before, Guess::Zero).unwrap();
    solver.update().unwrap();
    solver.solve(&b, &mut after, Guess::Zero).unwrap();
    assert!(before == after);
}

#[test]
fn options_of_the_near_null_space_and_of_filtering_are_refused_where_they_do_nothing() {
    let matrix = problem("poisson5:12").unwrap();
    let context = Context::new("host:1").unwrap();
    for (key, value, coarsening, sentence) in [
        (
            "amg.near_null_space.steps",
            "3",
            "pmis",
            "amg.coarsening.type \"pmis\" with amg.interpolation.type \"extended_i\" uses no near-null space",
        ),
        ("amg.near_null_space.random", "3", "mis2", "set amg.near_null_space.steps"),
        ("amg.interpolation.kept_norm", "0.9", "pmis", "\"extended_i\" represents no near-null space"),
    ] {
        let mut options = Config::new();
        options.set_str(key, value).unwrap();
        options.set_str("amg.coarsening.type", coarsening).unwrap();
        let error = Solver::new(&context, &options).setup(Some(&matrix)).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains(sentence), "{}", error.message);
    }
}

const HARD: &[&str] = &[
    "elasticity_jittered:9",
    "elasticity_jittered:9:contrast=1e6,layers=9",
    "elasticity_jittered:9:nu=0.49",
    "elasticity_jittered:10:height=0.05,nu=0.49",
    "bcsstk13",
    "bcsstk14",
    "lshape:3:order=6",
];

/// More strong couplings make larger aggregates, so fewer coarse unknowns.
#[test]
fn connections_set_the_strength_of_every_level() {
    let matrix = problem("elasticity_tet:8").unwrap();
    let with = |connections: i64| {
        let mut config = config("smoothed", "chebyshev");
        config.set_int("amg.strength.connections", connections).unwrap();
        config
    };
    let [few, more] = [4, 12].map(|connections| solve(&matrix, &with(connections)).unwrap());
    assert!(few.0 < more.0 && few.1 > more.1, "{few:?} {more:?}");
    for (key, value, named) in
        [("amg.strength.type", "absolute", "absolute"), ("amg.strength.threshold", "0.1", "both")]
    {
        let mut config = with(8);
        config.set_str(key, value).unwrap();
        let error = Solver::new(&Context::new("host:1").unwrap(), &config).setup(Some(&matrix)).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains("amg.strength.connections") && error.message.contains(named), "{error}");
    }
    let mut on_grid = Config::new();
    on_grid.set_int("amg.strength.connections", 8).unwrap();
    let mut solver = Solver::new(&Context::new("host:1").unwrap(), &on_grid);
    let error = solver.setup(problem("laplace27:6").as_ref()).unwrap_err();
    assert!(error.message.contains("structured grid"), "{error}");
}

#[test]
fn mechanics_robust_solves_hard_problems_within_150_iterations() {
    let mut robust = Config::new();
    robust.load_preset("mechanics_robust").unwrap();
    for name in HARD {
        // Where there are no real matrices, the others are tried.
        if let Some(matrix) = problem(name) {
            let found = solve(&matrix, &robust);
            assert!(found.is_some_and(|(iterations, _)| iterations <= 150), "{name}: {found:?}");
        }
    }
}

/// The table of the page, as it is printed with TERRACE_DEEP set; one row of it otherwise.
#[test]
fn every_smoother_and_prolongator_side_by_side() {
    let smoothers = ["l1_jacobi", "jacobi", "l1_gauss_seidel", "dilu", "chebyshev", "fsai", "chebyshev_fsai"];
    let deep = std::env::var_os("TERRACE_DEEP").is_some();
    let all = [
        "elasticity_jittered:14",
        "elasticity_jittered:14:contrast=1e6,layers=14",
        "elasticity_jittered:14:nu=0.49",
        "elasticity_jittered:12:height=0.05",
        "elasticity_jittered:12:height=0.05,nu=0.49",
        "bcsstk13",
        "bcsstk14",
        "bcsstk16",
        "beam:2",
        "lshape:3:order=6",
    ];
    let problems = if deep { &all[..] } else { &["elasticity_jittered:6"] };
    println!("| problem | interpolation | complexity | {} |", smoothers.join(" | "));
    for name in problems {
        let Some(matrix) = problem(name) else { continue };
        for interpolation in ["tentative", "smoothed", "energy"] {
            let found = smoothers.map(|smoother| solve(&matrix, &config(interpolation, smoother)));
            let written = found.map(|found| found.map_or("-".to_string(), |(iterations, _)| iterations.to_string()));
            let complexity = found.iter().flatten().next().map_or(0.0, |found| found.1);
            println!("| {name} | {interpolation} | {complexity:.2} | {} |", written.join(" | "));
            assert!(deep || found.iter().all(Option::is_some), "{name} {interpolation}: {written:?}");
        }
    }
}

/// The second table of the page: options that are off, with `chebyshev`. `given` is the near-null space of the problem.
#[test]
fn options_that_are_off_side_by_side() {
    const KEPT: &str = "amg.interpolation.kept_norm";
    const STEPS: &str = "amg.near_null_space.steps";
    type Set = (&'static str, &'static str, &'static [(&'static str, &'static str)], bool);
    let sets: &[Set] = &[
        ("smoothed", "smoothed", &[], true),
        ("smoothed, 0.99", "smoothed", &[(KEPT, "0.99")], true),
        ("smoothed, 0.95", "smoothed", &[(KEPT, "0.95")], true),
        ("energy", "energy", &[], true),
        ("energy, 0.99", "energy", &[(KEPT, "0.99")], true),
        ("energy, 2 steps", "energy", &[(STEPS, "2")], true),
        ("energy, 5 steps", "energy", &[(STEPS, "5")], true),
        ("energy, constants", "energy", &[], false),
        ("energy, 3 random vectors, 10 steps", "energy", &[(STEPS, "10"), ("amg.near_null_space.random", "3")], false),
        ("energy, 6 random vectors, 20 steps", "energy", &[(STEPS, "20"), ("amg.near_null_space.random", "6")], false),
    ];
    let deep = std::env::var_os("TERRACE_DEEP").is_some();
    let all = [
        "elasticity:14",
        "elasticity_jittered:14",
        "elasticity_jittered:14:nu=0.49",
        "elasticity_jittered:12:height=0.05",
        "bcsstk14",
        "bcsstk16",
    ];
    for name in if deep { &all[..] } else { &["elasticity_jittered:5"] } {
        let Some(matrix) = problem(name) else { continue };
        for (what, interpolation, options, given) in sets {
            if !given {
                matrix.remove_near_null_space();
            }
            let mut config = config(interpolation, "chebyshev");
            options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
            let found = solve(&matrix, &config);
            let written = found.map_or("-".to_string(), |(iterations, entries)| format!("{iterations} ({entries:.2})"));
            println!("| {name} | {what} | {written} |");
            assert!(deep || found.is_some(), "{name} {what}");
        }
    }
}
