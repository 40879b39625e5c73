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
    let matrix = problem("elasticity_jittered:12:height=0.05").unwrap();
    let (smoothed, more) = solve(&matrix, &config("smoothed", "chebyshev")).unwrap();
    let (energy, entries) = solve(&matrix, &config("energy", "chebyshev")).unwrap();
    assert!(energy < smoothed && entries < 0.85 * more, "{energy} {entries:.2}, smoothed {smoothed} {more:.2}");
}

const HARD: &[&str] = &[
    "elasticity_jittered:12",
    "elasticity_jittered:12:contrast=1e6,layers=12",
    "elasticity_jittered:10:nu=0.49",
    "elasticity_jittered:10:height=0.05,nu=0.49",
    "bcsstk13",
    "bcsstk14",
    "lshape:3:order=6",
];

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
