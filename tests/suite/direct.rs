//! The sparse direct solver as a caller sees it: the option `direct`, what `auto` chooses, updates, several right-hand
//! sides, devices, and what is refused.

use crate::common;
use crate::common::devices::devices;
use crate::solver::{relative_residual, solver};
use std::sync::Arc;
use terrace::io::matrix_market::{read_dense, read_matrix};
use terrace::matrix::Values;
use terrace::sparse::Csr;
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

const DIRECT: &[(&str, &str)] = &[("solver.type", "direct")];

fn matrix(a: &Csr<f64>) -> Arc<Matrix> {
    Arc::new(Matrix::from_csr(a.clone()).unwrap())
}

fn gallery(name: &str) -> Csr<f64> {
    gallery::parse(name).unwrap().matrix.view().to_scalar().unwrap()
}

/// A Laplacian less a multiple of the identity: indefinite from 0.05 on.
fn shifted(shift: f64) -> Csr<f64> {
    let mut a = gallery("poisson5:20");
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            a.values[k] -= if a.columns[k] as usize == i { shift } else { 0.0 };
        }
    }
    a
}

/// |b - A x| / |b| without the rounding of its sums, which where entries of A x are large is more than what is left.
fn exact_residual(a: &Csr<f64>, b: &[f64], x: &[f64]) -> f64 {
    let row = |i: usize| {
        let (mut sum, mut lost) = (b[i], 0.0);
        for (j, v) in a.view().row(i) {
            let product = v[0] * x[j];
            let next = sum - product;
            let of_product = next - sum;
            lost += (sum - (next - of_product)) - (product + of_product) - v[0].mul_add(x[j], -product);
            sum = next;
        }
        sum + lost
    };
    let squares = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>();
    (squares(&mut (0..a.rows).map(row)) / squares(&mut b.iter().copied())).sqrt()
}

fn refused(a: &Csr<f64>, options: &[(&str, &str)]) -> terrace::Error {
    let mut config = Config::new();
    options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
    Solver::new(&Context::new("host:1").unwrap(), &config).setup(Some(&matrix(a))).unwrap_err()
}

#[test]
fn matrices_of_all_kinds_are_factorised_and_reported() {
    let indefinite = shifted(1.5);
    let negative = Csr { values: gallery("poisson5:20").values.iter().map(|v| -v).collect(), ..gallery("poisson5:20") };
    for (a, method, says) in [
        (gallery("poisson7:12"), "sparse Cholesky", "entries in the factors"),
        (gallery("elasticity:5"), "sparse Cholesky", "entries in the factors"),
        (indefinite, "sparse LDLᵀ", "indefinite, with "),
        (negative, "sparse LDLᵀ", "negative definite"),
        (gallery("convection_diffusion:30"), "sparse LU", "entries in the factors"),
    ] {
        let n = a.rows;
        let b: Vec<f64> = (0..2 * n).map(|i| 1.0 + (i % 7) as f64).collect();
        let mut x = vec![f64::NAN; 2 * n];
        let mut direct = solver(&matrix(&a), DIRECT);
        assert_eq!(direct.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{method}");
        let report = direct.report();
        assert_eq!((report.solver.as_str(), report.solves.len(), report.levels.len()), ("direct f64", 2, 0));
        let facts = report.factorisation.as_ref().unwrap();
        assert!(facts.method == method && facts.to_text().contains(says), "{}", facts.to_text());
        assert!(facts.entries >= n && report.bytes >= 8 * facts.entries, "{method}");
        assert!(report.to_text().contains(method), "{}", report.to_text());
        for i in 0..2 {
            let range = i * n..(i + 1) * n;
            assert!(relative_residual(&a, &b[range.clone()], &x[range]) < 1e-11, "{method}");
            let solve = &report.solves[i];
            assert!(solve.converged && solve.true_residual < 1e-11 && solve.history.len() == solve.iterations + 1);
        }
    }
}

#[test]
fn guesses_zero_right_hand_sides_and_numbers_that_are_not_finite() {
    let a = gallery("poisson5:20");
    let mut direct = solver(&matrix(&a), DIRECT);
    let (b, mut x) = (vec![1.0; 400], vec![0.0; 400]);
    direct.solve(&b, &mut x, Guess::Zero).unwrap();
    let solution = x.clone();
    direct.solve(&b, &mut x, Guess::Given).unwrap();
    assert_eq!((direct.report().solves[0].iterations, &x), (0, &solution));
    x.fill(3.0);
    direct.solve(&b, &mut x, Guess::Given).unwrap();
    assert_eq!((direct.report().solves[0].iterations, &x), (1, &solution));
    assert_eq!(direct.solve(&[0.0; 400], &mut x, Guess::Given).unwrap(), Status::Success);
    assert!(x.iter().all(|v| *v == 0.0));
    let mut bad = b.clone();
    bad[7] = f64::INFINITY;
    assert_eq!(direct.solve(&bad, &mut x, Guess::Zero).unwrap_err().status, Status::NonFinite);
    assert_eq!(
        direct.solve(&[1.0_f32; 400], &mut [0.0; 400], Guess::Zero).unwrap_err().status,
        Status::InvalidArgument
    );
    assert_eq!(direct.solve(&b[1..], &mut x[1..], Guess::Zero).unwrap_err().status, Status::SizeMismatch);
}

#[test]
fn new_values_are_factorised_by_an_update_or_by_the_next_solve() {
    let a = gallery("poisson7:9");
    let shared = matrix(&a);
    let mut direct = solver(&shared, DIRECT);
    let (b, mut x, mut expected) = (vec![1.0; a.rows], vec![0.0; a.rows], vec![0.0; a.rows]);
    for (factor, updates) in [(2.0, true), (5.0, false)] {
        let new = Csr { values: a.values.iter().map(|v| v * factor).collect(), ..a.clone() };
        shared.update_values(Values::from(new.values.clone())).unwrap();
        if updates {
            direct.update().unwrap();
        }
        assert_eq!(direct.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        solver(&matrix(&new), DIRECT).solve(&b, &mut expected, Guess::Zero).unwrap();
        assert_eq!(x, expected);
        assert_eq!(direct.report().solver, "direct f64");
    }
}

/// A singular update is an error where the options name the direct solver; `auto` turns to a Krylov method. Either can
/// go on with other values.
#[test]
fn after_a_singular_update_other_values_are_solved() {
    let a = gallery("poisson5:12");
    let mut singular = a.clone();
    for i in 0..a.rows {
        let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        let sum: f64 = row.clone().filter(|k| a.columns[*k] as usize != i).map(|k| a.values[k]).sum();
        row.filter(|k| a.columns[*k] as usize == i).for_each(|k| singular.values[k] = -sum);
    }
    let shared = matrix(&a);
    let mut direct = solver(&shared, DIRECT);
    shared.update_values(Values::from(singular.values.clone())).unwrap();
    let error = direct.update().unwrap_err();
    assert!(error.status == Status::Breakdown && error.message.contains("singular"), "{error}");
    let mut b = vec![0.0; a.rows];
    (b[0], b[5]) = (1.0, -1.0);
    let mut x = vec![0.0; a.rows];
    assert!(direct.solve(&b, &mut x, Guess::Zero).is_err());
    shared.update_values(Values::from(a.values.clone())).unwrap();
    direct.update().unwrap();
    assert_eq!(direct.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    assert!(relative_residual(&a, &b, &x) < 1e-8);
}

/// Pairs of unknowns in a chain, with pivots that are almost zero.
fn almost_singular(pairs: usize, pivot: f64) -> Csr<f64> {
    let pair = |i: usize| {
        let (a, b) = (2 * i, 2 * i + 1);
        let own = [(a, a, 0.7), (a, b, 0.3), (b, a, 0.63), (b, b, 0.27 * (1.0 + pivot))];
        own.into_iter().chain((i > 0).then(|| [(a, b - 2, 0.11), (b, a - 2, 0.13)]).into_iter().flatten())
    };
    Csr::from_triplets(2 * pairs, 2 * pairs, &(0..pairs).flat_map(pair).collect::<Vec<_>>()).unwrap()
}

/// They pass for pivots, and what they give is no solution.
#[test]
fn a_solution_that_is_worse_than_zero_is_an_error() {
    let cases = (3..9).flat_map(|pairs| [(pairs, 1e-13), (pairs, 3e-14)]);
    for device in std::iter::once("host:2").chain(devices()) {
        let mut refused = 0;
        for (pairs, pivot) in cases.clone() {
            let a = almost_singular(pairs, pivot);
            let b: Vec<f64> = (0..a.rows).map(|i| 1.0 + 0.37 * i as f64).collect();
            let mut config = Config::new();
            config.set_str("solver.type", "direct").unwrap();
            let mut direct = Solver::new(&Context::new(device).unwrap(), &config);
            // Others are found out by their factorisation.
            if direct.setup(Some(&matrix(&a))).is_err() {
                continue;
            }
            for guess in [Guess::Zero, Guess::Given] {
                let given = vec![0.1; a.rows];
                let mut x = given.clone();
                let end = direct.solve(&b, &mut x, guess);
                let told = direct.report().solves[0].true_residual;
                assert!(told <= 1.0, "{device}, {pairs} pairs: {end:?}, {told}");
                let Err(error) = end else { continue };
                refused += 1;
                assert!(error.status == Status::Breakdown && error.message.contains("singular to rounding"), "{error}");
                assert_eq!(x, if guess == Guess::Zero { vec![0.0; a.rows] } else { given }, "{device}");
                assert!((told - relative_residual(&a, &b, &x)).abs() < 1e-12, "{device}: {told}");
            }
        }
        assert!(refused > 0, "{device}");
    }
}

#[test]
fn what_a_factorisation_cannot_do_is_refused() {
    let a = gallery("poisson5:9");
    for (key, value) in [("solver.null_space", "constant"), ("solver.norm", "preconditioned")] {
        let error = refused(&a, &[("solver.type", "direct"), (key, value)]);
        assert!(error.status == Status::OptionValue && error.message.contains(key), "{error}");
    }
    let singular = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)]).unwrap();
    let error = refused(&singular, DIRECT);
    assert!(error.status == Status::Breakdown && error.message.contains("unknown"), "{error}");
    let mut config = Config::new();
    config.set_str("solver.type", "direct").unwrap();
    let mut direct = Solver::new(&Context::new("host:1").unwrap(), &config);
    direct.set_operator(81, Box::new(|_, _| 0));
    assert_eq!(direct.setup(Some(&matrix(&a))).unwrap_err().status, Status::Unsupported);
}

/// On GPUs vectors are copied to the host and back; the solution has the bits of the host.
#[test]
fn contexts_on_all_devices_have_the_same_solution() {
    let a = gallery("poisson5:15");
    let mut config = Config::new();
    config.set_str("solver.type", "direct").unwrap();
    let (b, mut expected) = (vec![1.0; a.rows], vec![0.0; a.rows]);
    solver(&matrix(&a), DIRECT).solve(&b, &mut expected, Guess::Zero).unwrap();
    for device in devices() {
        let context = Context::new(device).unwrap();
        let mut direct = Solver::new(&context, &config);
        direct.setup(Some(&matrix(&a))).unwrap();
        let mut x = vec![0.0; a.rows];
        assert_eq!(direct.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        assert_eq!(x, expected, "{device}");
    }
}

/// The Krylov method breaks down, and `auto` turns to a factorisation; later solves go there from the start, and an update
/// renews the factors.
#[test]
fn auto_factorises_what_the_krylov_method_does_not_solve() {
    let a = shifted(1.5);
    let n = a.rows;
    let b: Vec<f64> = (0..2 * n).map(|i| 1.0 + (i % 7) as f64).collect();
    for device in std::iter::once("host:2").chain(devices()) {
        let (shared, context) = (matrix(&a), Context::new(device).unwrap());
        let mut auto = Solver::new(&context, &Config::new());
        auto.setup(Some(&shared)).unwrap();
        assert!(auto.report().factorisation.is_none(), "{device}");
        let bytes = auto.report().bytes;
        let mut x = vec![f64::NAN; 2 * n];
        assert_eq!(auto.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        let report = auto.report();
        assert!(report.method(0).ends_with("cg, then direct"), "{device}: {}", report.method(0));
        assert_eq!(report.method(1), "direct", "{device}");
        assert!(report.to_text().contains("then direct right-hand side 0"), "{}", report.to_text());
        assert_eq!(report.factorisation.as_ref().unwrap().method, "sparse LDLᵀ");
        assert!(report.bytes > bytes + 8 * report.factorisation.as_ref().unwrap().entries);
        let [first, second] = &report.solves[..] else { panic!("two right-hand sides") };
        assert!(first.fell_back && first.iterations >= first.direct_solves && first.direct_solves > 0, "{device}");
        assert_eq!(first.history.len(), first.iterations + 1, "{device}");
        assert!(!second.fell_back && second.iterations == second.direct_solves, "{device}");
        for i in 0..2 {
            let range = i * n..(i + 1) * n;
            assert!(relative_residual(&a, &b[range.clone()], &x[range]) < 1e-11, "{device}");
        }
        for (shift, updates) in [(1.7, true), (2.1, false)] {
            let new = shifted(shift);
            shared.update_values(Values::from(new.values.clone())).unwrap();
            if updates {
                auto.update().unwrap();
            }
            assert_eq!(auto.solve(&b[..n], &mut x[..n], Guess::Zero).unwrap(), Status::Success, "{device}");
            assert!(relative_residual(&new, &b[..n], &x[..n]) < 1e-11, "{device}");
            assert_eq!(auto.report().method(0), "direct", "{device}");
        }
        auto.setup(Some(&shared)).unwrap();
        assert!(auto.report().factorisation.is_none(), "a set-up begins with the Krylov method");
    }
    // A method that the caller chose is not replaced.
    let mut cg = solver(&matrix(&a), &[("solver.type", "cg")]);
    assert!(cg.solve(&b[..n], &mut vec![0.0; n], Guess::Zero).is_err() && cg.report().factorisation.is_none());
}

/// A clamped plate by 13 points, as thin shells are in finite elements: the square of a Laplacian. AMG for second order takes hundreds of iterations.
fn plate(n: usize) -> Csr<f64> {
    let laplacian = gallery(&format!("poisson5:{n}"));
    let mut entries = std::collections::BTreeMap::new();
    for i in 0..laplacian.rows {
        for (k, a) in laplacian.view().row(i) {
            for (j, b) in laplacian.view().row(k) {
                *entries.entry((i, j)).or_insert(0.0) += a[0] * b[0];
            }
        }
    }
    let entries: Vec<_> = entries.into_iter().map(|((i, j), v)| (i, j, v)).collect();
    Csr::from_triplets(laplacian.rows, laplacian.rows, &entries).unwrap()
}

/// Where the residual falls so slowly that factors are cheaper, `auto` does not wait for the Krylov method to fail. The decision counts operations, so it is
/// the same for any number of threads.
#[test]
fn auto_factorises_where_that_is_cheaper_than_the_iterations_that_are_left() {
    let a = plate(40);
    let n = a.rows;
    let b: Vec<f64> = (0..4 * n).map(|i| 1.0 + (i % 7) as f64).collect();
    let mut krylov = solver(&matrix(&a), &[("solver.type", "cg")]);
    assert_eq!(krylov.solve(&b[..n], &mut vec![0.0; n], Guess::Zero).unwrap(), Status::Success);
    let slow = krylov.report().solves[0].iterations;
    assert!(slow > 80 && krylov.report().factorisation.is_none(), "{slow}");

    let mut solutions = Vec::new();
    for device in ["host:1", "host:2"] {
        let (shared, context) = (matrix(&a), Context::new(device).unwrap());
        let mut auto = Solver::new(&context, &Config::new());
        auto.setup(Some(&shared)).unwrap();
        let mut x = vec![f64::NAN; n];
        assert_eq!(auto.solve(&b[..n], &mut x, Guess::Zero).unwrap(), Status::Success);
        let report = auto.report();
        let first = &report.solves[0];
        assert_eq!((report.method(0).as_str(), first.fell_back), ("cg, then direct", true));
        assert_eq!(first.iterations - first.direct_solves, 50, "{device}");
        assert_eq!(first.history.len(), first.iterations + 1, "{device}");
        assert!(relative_residual(&a, &b[..n], &x) < 1e-8, "{device}");
        // Later solves use the factors, and a set-up begins anew.
        assert_eq!(auto.solve(&b[n..2 * n], &mut x, Guess::Zero).unwrap(), Status::Success);
        assert_eq!(auto.report().method(0), "direct");
        auto.setup(Some(&shared)).unwrap();
        // Several right-hand sides together are looked at together.
        let mut x = vec![f64::NAN; 4 * n];
        assert_eq!(auto.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let report = auto.report();
        for i in 0..4 {
            let (solve, range) = (&report.solves[i], i * n..(i + 1) * n);
            assert!(relative_residual(&a, &b[range.clone()], &x[range]) < 1e-8, "{device} {i}");
            assert!(solve.direct_solves > 0 && solve.iterations <= 60, "{device} {i}: {}", solve.iterations);
            assert_eq!(solve.history.len(), solve.iterations + 1, "{device} {i}");
        }
        assert!(report.method(0).ends_with("cg, then direct"), "{}", report.method(0));
        solutions.push(x);
    }
    assert!(solutions[0] == solutions[1]);

    // Not what somebody chose, not for a rough solution, and not where AMG does what it is made for.
    for options in [
        &[("solver.preconditioner", "amg")][..],
        &[("amg.coarsening.type", "pmis")],
        &[("solver.max_iterations", "999")],
    ] {
        let mut chosen = solver(&matrix(&a), options);
        chosen.solve(&b[..n], &mut vec![0.0; n], Guess::Zero).unwrap();
        let report = chosen.report();
        assert!(report.factorisation.is_none() && report.solves[0].iterations > 50, "{options:?}");
    }
    let mut easy = solver(&matrix(&gallery("rotated_anisotropic:64")), &[]);
    let b = vec![1.0; 64 * 64];
    assert_eq!(easy.solve(&b, &mut vec![0.0; b.len()], Guess::Zero).unwrap(), Status::Success);
    assert_eq!(easy.report().method(0), "cg");
    // Iterations on a GPU take little time.
    for device in devices() {
        let small = plate(16);
        let mut auto = Solver::new(&Context::new(device).unwrap(), &Config::new());
        auto.setup(Some(&matrix(&small))).unwrap();
        let (b, mut x) = (vec![1.0; small.rows], vec![0.0; small.rows]);
        assert_eq!(auto.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{device}");
        assert!(auto.report().factorisation.is_none(), "{device}");
    }
}

/// Where factors turn out to be of no use, because the matrix is almost singular, the Krylov method comes further than it was when they were made.
#[test]
fn auto_returns_to_the_krylov_method_from_factors_of_no_use() {
    let (plate, pairs) = (plate(40), almost_singular(5, 1e-13));
    let (first, n) = (plate.rows, plate.rows + pairs.rows);
    let entries = |a: &Csr<f64>, first: usize| {
        (0..a.rows)
            .flat_map(|i| a.view().row(i).map(move |(j, v)| (first + i, first + j, v[0])).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let a = Csr::from_triplets(n, n, &[entries(&plate, 0), entries(&pairs, first)].concat()).unwrap();
    let b: Vec<f64> = (0..n).map(|i| if i < first { 0.1 } else { 1.0 + 0.37 * (i - first) as f64 }).collect();
    let mut auto = solver(&matrix(&a), &[]);
    let mut x = vec![0.0; n];
    assert_eq!(auto.solve(&b, &mut x, Guess::Zero), Ok(Status::Stagnated));
    let report = auto.report();
    assert!(report.method(0) == "gmres" && report.factorisation.is_none(), "{}", report.method(0));
    assert!(report.solve.get("preconditioner") > 0.0 && report.solves[0].direct_solves == 0);
    let (told, found) = (report.solves[0].true_residual, relative_residual(&a, &b, &x));
    assert!(found < 0.1 && (told - found).abs() < 1e-6, "{found} {told}");
    // The residual where factors were made, and of their solution.
    assert!(report.solves[0].history[50] > 0.3, "{}", report.solves[0].history[50]);
}

/// Few iterations are a rough solution that the caller wants, and a singular matrix has no factors.
#[test]
fn auto_keeps_to_the_krylov_method_where_a_factorisation_is_not_asked_for_or_does_not_help() {
    let a = gallery("poisson7:9");
    let (b, mut x) = (vec![1.0; a.rows], vec![0.0; a.rows]);
    let mut few = solver(&matrix(&a), &[("solver.max_iterations", "2")]);
    assert_eq!(few.solve(&b, &mut x, Guess::Zero).unwrap(), Status::NotConverged);
    assert!(few.report().factorisation.is_none() && few.report().method(0) == "cg");

    let entries: Vec<_> = (0..400_usize)
        .flat_map(|i| {
            let ends = usize::from(i == 0) + usize::from(i == 399);
            let neighbours = [i.checked_sub(1), Some(i + 1).filter(|j| *j < 400)];
            let couplings = neighbours.into_iter().flatten().map(move |j| (i, j, -1.0));
            couplings.chain([(i, i, 2.0 - ends as f64)])
        })
        .collect();
    let neumann = Csr::from_triplets(400, 400, &entries).unwrap();
    let b: Vec<f64> = (0..400).map(|i| 1.0 + (i % 3) as f64).collect();
    for device in std::iter::once("host:2").chain(devices()) {
        let mut auto = Solver::new(&Context::new(device).unwrap(), &Config::new());
        auto.setup(Some(&matrix(&neumann))).unwrap();
        let mut x = vec![0.0; 400];
        let end = auto.solve(&b, &mut x, Guess::Zero);
        assert_ne!(end, Ok(Status::Success), "{device}");
        let report = auto.report();
        let told = report.solves[0].true_residual;
        assert!((relative_residual(&neumann, &b, &x) - told).abs() < 1e-6 && told <= 1.0, "{device}: {told}");
    }
}

/// The coarsest level above a few hundred rows is factorised; a diagonal matrix of any size costs nothing.
#[test]
fn large_coarsest_levels_are_factorised() {
    let diagonal: Vec<_> = (0..2000).map(|i| (i, i, 1.0 + (i % 3) as f64)).collect();
    let diagonal = Csr::from_triplets(2000, 2000, &diagonal).unwrap();
    for (a, format) in [(diagonal, "sparse Cholesky"), (gallery("poisson5:16"), "dense inverse")] {
        let mut krylov = solver(&matrix(&a), &[("amg.max_levels", "1"), ("solver.type", "cg")]);
        let (b, mut x) = (vec![1.0; a.rows], vec![0.0; a.rows]);
        assert_eq!(krylov.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let report = krylov.report();
        assert_eq!((report.levels[0].smoother.as_str(), report.solves[0].iterations), (format, 1));
        assert!(report.setup.get("coarsest") < 2.0, "{}", report.setup.get("coarsest"));
    }
}

/// Symmetric positive definite matrices of the collection, by a factorisation and with the default options: to 1e-8, or to
/// what refinement of a direct solution reaches. Where many iterations would be left, `auto` turns to a factorisation.
#[test]
fn real_matrices_are_solved() {
    let Some(folder) = common::real_matrices("real matrices by a factorisation") else { return };
    let cg = "cg";
    let turns = "cg, then direct";
    for (name, reached, by) in [
        ("1138_bus", 1e-8, cg),
        ("494_bus", 1e-8, cg),
        ("662_bus", 1e-8, cg),
        ("bcsstk01", 1e-8, cg),
        ("bcsstk13", 1e-8, turns),
        ("bcsstk14", 1e-8, turns),
        ("bcsstk16", 1e-8, cg),
        ("ginkgo_ani1", 1e-8, cg),
        ("ginkgo_mg_A", 1e-8, cg),
        ("gmhd_curlcurl_3200", 1e-8, turns),
        ("gr_30_30", 1e-8, cg),
        // SciPy's LU ends at 2e-5, and at 6e-6 with refinement in f64: x is so large that its rounding leaves this much.
        ("hypre_ams_A", 4e-6, turns),
        ("hypre_beam_hex_dof459_np2", 1e-8, turns),
        ("hypre_ij_elast_1000", 1e-8, cg),
        ("hypre_tucker21935", 1e-8, cg),
        ("maxwell3630_M0", 1e-8, cg),
        ("maxwell3630_M1", 1e-8, cg),
        ("maxwell3630_S", 1e-8, cg),
        ("mesh1e1", 1e-8, cg),
        ("nos5", 1e-8, turns),
        ("nos7", 1e-8, turns),
        ("pyamg_bar", 1e-8, cg),
        ("pyamg_edge_H1Stiffness", 1e-8, cg),
        ("pyamg_edge_HCurlStiffness", 1e-8, turns),
        ("pyamg_knot", 1e-8, cg),
        ("pyamg_local_disc_galerkin_diffusion", 1e-8, cg),
        ("pyamg_unit_cube", 1e-8, cg),
        // Singular.
        ("pyamg_unit_square", 1e-8, cg),
        ("shell_vb_lineal", 1e-8, cg),
        ("spe10_sub_13200", 1e-8, cg),
        ("wathenSmall_7400", 1e-8, cg),
    ] {
        let a = read_matrix(&folder.join(format!("{name}.mtx.gz"))).unwrap();
        let given = read_dense(&folder.join(format!("{name}_rhs.mtx.gz")));
        let is_singular = name == "pyamg_unit_square";
        let row_sum = |i: usize| a.view().row(i).map(|(j, v)| v[0] * (1 + j % 7) as f64).sum();
        let b = match given {
            Ok(dense) => dense.values[..a.rows].to_vec(),
            Err(_) if is_singular => (0..a.rows).map(row_sum).collect(),
            Err(_) => vec![1.0; a.rows],
        };
        for options in [DIRECT, &[]].into_iter().skip(usize::from(is_singular)) {
            let (mut x, start) = (vec![0.0; a.rows], std::time::Instant::now());
            let mut solver = solver(&matrix(&a), options);
            let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
            let (found, report) = (exact_residual(&a, &b, &x), solver.report());
            let (method, iterations) = (report.method(0), report.solves[0].iterations);
            println!("{name}: {method} {iterations} {found:e} in {:?}", start.elapsed());
            assert!(found <= reached, "{name}: {found:e}");
            assert_eq!(status == Status::Success, found <= 1e-8, "{name}: {status:?} {found:e}");
            if options.is_empty() {
                assert!(method == by && iterations <= 100, "{name}: {method}, {iterations} iterations");
            }
        }
    }
}
