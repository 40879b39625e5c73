//! Solves as a caller sees them: guesses, several right-hand sides, precisions, callbacks, and every way to fail.

use crate::common::skip::is_deep;
use std::sync::Arc;
use terrace::solver::{SliceMut, SliceRef};
use terrace::sparse::Csr;
use terrace::{Amg, Config, Context, Guess, Matrix, Precision, Solver, Status, gallery, krylov};

fn context() -> Context {
    Context::new("host:2").unwrap()
}

fn poisson(n: usize) -> Arc<Matrix> {
    Arc::new(Matrix::from_csr(gallery::poisson7(n, n, n).unwrap()).unwrap())
}

fn config(options: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value).unwrap();
    }
    config
}

pub fn solver(matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> Solver {
    let mut solver = Solver::new(&context(), &config(options));
    solver.setup(Some(matrix)).unwrap();
    solver
}

/// |b - A x| / |b| without the library's kernels.
pub fn relative_residual(a: &Csr<f64>, b: &[f64], x: &[f64]) -> f64 {
    let row = |i: usize| b[i] - a.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>();
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut (0..b.len()).map(row)) / norm(&mut b.iter().copied())
}

/// On 64³ cells in `make deep-test`.
#[test]
fn seven_point_cubes_meet_their_bar() {
    let (n, bars) = if is_deep() { (64, [18, 13]) } else { (36, [14, 12]) };
    let matrix = poisson(n);
    for (coarsening, bar) in ["pmis", "hmis"].into_iter().zip(bars) {
        let options =
            [("amg.coarsening.type", coarsening), ("amg.interpolation.type", "extended_i"), ("solver.type", "cg")];
        let mut solver = solver(&matrix, &options);
        let b = vec![1.0; matrix.rows()];
        let mut x = vec![0.0; b.len()];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let report = solver.report();
        assert!(report.solves[0].iterations <= bar, "{}", report.to_text());
        assert!((2.5..=3.1).contains(&report.operator_complexity()), "{}", report.to_text());
        assert!(relative_residual(&gallery::poisson7(n, n, n).unwrap(), &b, &x) <= 1.0001e-8);
    }
}

/// From a guess, the tolerance is a share of its residual: as many iterations as for that residual from zero.
#[test]
fn tolerances_may_be_relative_to_the_initial_residual() {
    let (matrix, a) = (poisson(8), gallery::poisson7(8, 8, 8).unwrap());
    let n = matrix.rows();
    let guess: Vec<f64> = (0..n).map(|i| ((i * 7919) % 13) as f64).collect();
    let b = vec![1.0; n];
    let r: Vec<f64> = (0..n).map(|i| b[i] - a.view().row(i).map(|(j, v)| v[0] * guess[j]).sum::<f64>()).collect();
    for method in ["cg", "gmres", "richardson"] {
        let options =
            [("solver.type", method), ("solver.relative_to", "initial_residual"), ("solver.tolerance", "1e-4")];
        let mut solver = solver(&matrix, &options);
        let mut x = guess.clone();
        assert_eq!(solver.solve(&b, &mut x, Guess::Given).unwrap(), Status::Success);
        let from_guess = solver.report().solves[0].iterations;
        let mut correction = vec![0.0; n];
        assert_eq!(solver.solve(&r, &mut correction, Guess::Zero).unwrap(), Status::Success);
        assert_eq!(from_guess, solver.report().solves[0].iterations, "{method}");
        // The residual of this guess is far above the right-hand side.
        assert!(relative_residual(&a, &b, &x) > 1e-4, "{method}");
    }
    let direct = [("solver.type", "direct"), ("solver.relative_to", "initial_residual")];
    let refused = Solver::new(&context(), &config(&direct)).setup(Some(&matrix)).unwrap_err();
    assert!(refused.message.contains("solver.relative_to"), "{refused}");
}

#[test]
fn guesses_are_used_and_several_right_hand_sides_are_solved_one_by_one() {
    let matrix = poisson(12);
    let n = matrix.rows();
    let mut solver = solver(&matrix, &[("solver.columns", "1")]);
    let b: Vec<f64> = (0..3 * n).map(|i| (i % 13) as f64).collect();
    let mut x = vec![f64::NAN; 3 * n];
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    let report = solver.report();
    assert_eq!(report.solves.len(), 3);
    assert!(report.solves.iter().all(|s| s.converged && s.history.len() == s.iterations + 1));

    let mut again = x.clone();
    solver.solve(&b, &mut again, Guess::Given).unwrap();
    assert!(solver.report().solves.iter().all(|s| s.iterations == 0));
    assert_eq!(again, x);

    let mut second = vec![0.0; n];
    solver.solve(&b[n..2 * n], &mut second, Guess::Zero).unwrap();
    assert_eq!(second, x[n..2 * n]);

    x.fill(5.0);
    assert_eq!(solver.solve(&vec![0.0; n], &mut x[..n], Guess::Given).unwrap(), Status::Success);
    assert!(x[..n].iter().all(|v| *v == 0.0), "the solution for b = 0 is 0");
}

#[test]
fn levels_are_stored_in_the_precisions_that_were_asked_for() {
    let matrix = poisson(20);
    let options = [
        ("precision.matrix", "f64,f32"),
        ("precision.vector", "f64,f64,f32"),
        ("precision.transfer", "f32"),
        ("precision.smoother", "f32,f64"),
    ];
    let mut solver = solver(&matrix, &options);
    let b = vec![1.0; matrix.rows()];
    let mut x = vec![0.0; b.len()];
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    let report = solver.report();
    use Precision::{F32, F64};
    let levels: Vec<_> =
        report.levels.iter().map(|l| (l.matrix_precision, l.vector_precision, l.smoother_precision)).collect();
    assert_eq!(levels[..3], [(F64, F64, F32), (F32, F64, F64), (F32, F32, F64)]);
    assert_eq!(report.levels[0].transfer_precision, F32);
    assert_eq!(report.solver, "fcg f64", "a preconditioner that rounds is not exactly symmetric");
    let double = Amg::setup(&context(), &matrix, &Config::new()).unwrap().report();
    assert!(report.levels[1].bytes < double.levels[1].bytes);
}

#[test]
fn single_precision_matrices_and_solvers_work() {
    let a = gallery::poisson5(40, 40).unwrap();
    let matrix = Arc::new(Matrix::from_csr(a.view().to_owned_as::<f32>().unwrap()).unwrap());
    // The residual of a solution rounded to f32 can be as large as eps |A| |x| / |b|, here about 3e-5.
    let mut single = solver(&matrix, &[("solver.precision", "f32"), ("solver.tolerance", "5e-5")]);
    let b = vec![1.0_f32; matrix.rows()];
    let mut x = vec![0.0_f32; b.len()];
    assert_eq!(single.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    assert_eq!(single.report().solver, "cg f32");
    let wide: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    assert!(relative_residual(&a, &vec![1.0; b.len()], &wide) < 6e-5);

    let error = single.solve(&vec![1.0_f64; b.len()], &mut vec![0.0; b.len()], Guess::Zero).unwrap_err();
    assert_eq!(error.status, Status::InvalidArgument);
    assert!(error.message.contains("f64") && error.message.contains("solver.precision"), "{error}");

    let mut mixed = solver(&matrix, &[]);
    let mut x = vec![0.0_f64; b.len()];
    assert_eq!(mixed.solve(&vec![1.0; b.len()], &mut x, Guess::Zero).unwrap(), Status::Success);
    assert_eq!(mixed.report().solver, "fcg f64");
    assert!(relative_residual(&a, &vec![1.0; b.len()], &x) <= 1e-8);
}

#[test]
fn a_nonsymmetric_matrix_is_solved_by_every_method_for_such() {
    // Upwind convection with diffusion, in the direction of the ordering.
    let n = 60;
    let mut a = gallery::poisson5(n, n).unwrap();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            let j = a.columns[k] as usize;
            if j == i {
                a.values[k] += 6.0;
            } else if j < i {
                a.values[k] -= 3.0;
            }
        }
    }
    let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    let methods = [
        ("gmres", "30"),
        ("gmres", "5"),
        ("fgmres", "30"),
        ("fgmres", "5"),
        ("bicgstab", "1"),
        ("idr", "1"),
        ("richardson", "1"),
    ];
    for (method, restart) in methods {
        let mut solver = solver(&matrix, &[("solver.type", method), ("solver.restart", restart)]);
        let b = vec![1.0; a.rows];
        let mut x = vec![0.0; a.rows];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{}", solver.report().to_text());
        assert!(relative_residual(&a, &b, &x) <= 1.0001e-8);
    }
}

#[test]
fn a_preconditioner_that_changes_needs_the_flexible_variant() {
    // Divides by 6 in every other application, by 1 in the rest: gmres corrects x with one M, its basis was made by two.
    let matrix = poisson(10);
    let n = matrix.rows();
    let b = vec![1.0; n];
    let run = |method: &str| {
        let mut solver = Solver::new(&context(), &config(&[("solver.type", method), ("solver.max_iterations", "300")]));
        let calls = std::sync::atomic::AtomicUsize::new(0);
        solver.set_preconditioner(Box::new(move |r, z| {
            let (SliceRef::F64(r), SliceMut::F64(z)) = (r, z) else { return 1 };
            let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            for (i, (z, r)) in z.iter_mut().zip(r).enumerate() {
                *z = if (call + i).is_multiple_of(2) { r / 6.0 } else { *r };
            }
            0
        }));
        solver.setup(Some(&matrix)).unwrap();
        let mut x = vec![0.0; n];
        let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
        (status, solver.report().solves[0].iterations)
    };
    let (status, iterations) = run("fgmres");
    assert_eq!(status, Status::Success);
    assert!(iterations <= 100, "{iterations}");
    let (status, more) = run("gmres");
    assert!(status != Status::Success || more > iterations, "{more} against {iterations}");
}

#[test]
fn bicgstab_starts_anew_from_a_shadow_that_became_useless_and_says_when_nothing_helps() {
    let solve = |t: &[(usize, usize, f64)], b: &[f64]| {
        let n = b.len();
        let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(n, n, t).unwrap()).unwrap());
        let mut solver = solver(&matrix, &[("solver.preconditioner", "none"), ("solver.type", "bicgstab")]);
        let mut x = vec![0.0; n];
        solver.solve(b, &mut x, Guess::Zero).map(|status| (status, x))
    };
    // r·Ar = 0 for r = (1, 1) and A = diag(1, -1): no step along the residual.
    let error = solve(&[(0, 0, 1.0), (1, 1, -1.0)], &[1.0, 1.0]).unwrap_err();
    assert_eq!(error.status, Status::Breakdown);
    assert!(error.message.contains("iteration 1") && error.message.contains("gmres"), "{error}");
    // After one iteration r is (0, -1/2, 1/2), orthogonal to the shadow (1, 0, 0).
    let a = [(0, 0, 1.0), (0, 2, 1.0), (1, 0, 1.0), (1, 1, 1.0), (2, 1, 1.0), (2, 2, 1.0)];
    let (status, x) = solve(&a, &[1.0, 0.0, 0.0]).unwrap();
    assert_eq!(status, Status::Success);
    assert!(x.iter().zip([0.5, -0.5, 0.5]).all(|(x, exact)| f64::abs(x - exact) < 1e-7), "{x:?}");
}

#[test]
fn idr_ends_after_as_many_products_as_its_spaces_take_and_says_when_nothing_helps() {
    let solve = |t: &[(usize, usize, f64)], b: &[f64], s: &str| {
        let n = b.len();
        let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(n, n, t).unwrap()).unwrap());
        let options = [("solver.preconditioner", "none"), ("solver.type", "idr"), ("solver.idr.s", s)];
        let mut solver = solver(&matrix, &options);
        let mut x = vec![0.0; n];
        solver.solve(b, &mut x, Guess::Zero).map(|status| (status, solver.report().solves[0].iterations, x))
    };
    // In exact arithmetic n (s + 1) / s products, for any matrix; more shadow vectors than unknowns are as many as these.
    let n = 12;
    let t: Vec<_> =
        (0..n * n).map(|e| (e / n, e % n, if e / n == e % n { 6.0 } else { ((e * 7) % 5) as f64 - 2.0 })).collect();
    let b: Vec<f64> = (0..n).map(|i| 1.0 + (i % 4) as f64).collect();
    for (s, most) in [("1", 24), ("3", 16), ("6", 14), ("12", 13), ("32", 13)] {
        let (status, iterations, x) = solve(&t, &b, s).unwrap();
        assert_eq!(status, Status::Success, "{s}");
        assert!(iterations <= most, "{s}: {iterations}");
        let a = Csr::from_triplets(n, n, &t).unwrap();
        assert!(relative_residual(&a, &b, &x) <= 1.0001e-8, "{s}");
    }
    // r·Ar = 0 for every r.
    let skew = [(0, 0, 0.0), (0, 1, 1.0), (1, 0, -1.0), (1, 1, 0.0)];
    let error = solve(&skew, &[1.0, 1.0], "1").unwrap_err();
    assert_eq!(error.status, Status::Breakdown);
    assert!(error.message.contains("iteration 2") && error.message.contains("gmres"), "{error}");
    assert_eq!(solve(&skew, &[1.0, 1.0], "2").unwrap().0, Status::Success);
    // A r = 0.
    let error = solve(&[(0, 0, 0.0), (0, 1, 1.0), (1, 1, 0.0)], &[1.0, 0.0], "4").unwrap_err();
    assert_eq!(error.status, Status::Breakdown);
    assert!(error.message.contains("iteration 1") && error.message.contains("no direction"), "{error}");
}

#[test]
fn callbacks_replace_operator_and_preconditioner() {
    let matrix = poisson(10);
    let n = matrix.rows();
    let a = gallery::poisson7(10, 10, 10).unwrap();
    let caller = std::thread::current().id();
    let product = move |x: SliceRef<'_>, y: SliceMut<'_>| {
        let (SliceRef::F64(x), SliceMut::F64(y)) = (x, y) else { return 1 };
        for (i, y) in y.iter_mut().enumerate() {
            *y = a.view().row(i).map(|(j, v)| v[0] * x[j]).sum();
        }
        i32::from(std::thread::current().id() != caller)
    };
    let b = vec![1.0; n];

    // Matrix-free operator with AMG from the assembled matrix.
    let mut with_amg = Solver::new(&context(), &Config::new());
    with_amg.set_operator(n, Box::new(product.clone()));
    with_amg.setup(Some(&matrix)).unwrap();
    let mut x = vec![0.0; n];
    assert_eq!(with_amg.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    let mut reference = vec![0.0; n];
    solver(&matrix, &[]).solve(&b, &mut reference, Guess::Zero).unwrap();
    assert!(x.iter().zip(&reference).all(|(x, r)| f64::abs(x - r) < 1e-7));

    // Nothing but callbacks.
    let mut alone = Solver::new(&context(), &Config::new());
    alone.set_operator(n, Box::new(product.clone()));
    alone.set_preconditioner(Box::new(|r, z| {
        let (SliceRef::F64(r), SliceMut::F64(z)) = (r, z) else { return 1 };
        for (z, r) in z.iter_mut().zip(r) {
            *z = r / 6.0;
        }
        0
    }));
    alone.setup(None).unwrap();
    assert_eq!(alone.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    assert_eq!(alone.report().solver, "fcg f64");

    // A callback that fails ends the solve with its number.
    let mut failing = Solver::new(&context(), &Config::new());
    failing.set_operator(n, Box::new(|_, _| 42));
    failing.setup(Some(&matrix)).unwrap();
    let error = failing.solve(&b, &mut x, Guess::Zero).unwrap_err();
    assert_eq!(error.status, Status::Callback);
    assert!(error.message.contains("operator") && error.message.contains("42"), "{error}");

    // AMG cannot be built from a callback.
    let mut missing = Solver::new(&context(), &Config::new());
    missing.set_operator(n, Box::new(product));
    assert_eq!(missing.setup(None).unwrap_err().status, Status::NotSetUp);
    missing.set_operator(n + 1, Box::new(|_, _| 0));
    assert_eq!(missing.setup(Some(&matrix)).unwrap_err().status, Status::SizeMismatch);
}

#[test]
fn failures_have_their_own_status() {
    let matrix = poisson(8);
    let n = matrix.rows();
    let mut x = vec![0.0; n];

    let mut fresh = Solver::new(&context(), &Config::new());
    assert_eq!(fresh.solve(&vec![1.0; n], &mut x, Guess::Zero).unwrap_err().status, Status::NotSetUp);
    assert_eq!(fresh.update().unwrap_err().status, Status::NotSetUp);
    assert_eq!(fresh.setup(None).unwrap_err().status, Status::NotSetUp);

    let mut limited = solver(&matrix, &[("solver.max_iterations", "2")]);
    assert_eq!(limited.solve(&vec![1.0; n], &mut x, Guess::Zero).unwrap(), Status::NotConverged);
    assert_eq!(limited.report().solves[0].iterations, 2);
    assert_eq!(limited.solve(&vec![1.0; n + 1], &mut x, Guess::Zero).unwrap_err().status, Status::SizeMismatch);
    let mut b = vec![1.0; n];
    b[3] = f64::NAN;
    assert_eq!(limited.solve(&b, &mut x, Guess::Zero).unwrap_err().status, Status::NonFinite);

    // Indefinite: CG must say so instead of wandering.
    let t: Vec<_> = (0..50).map(|i| (i, i, if i % 2 == 0 { 1.0 } else { -1.0 })).collect();
    let indefinite = Arc::new(Matrix::from_csr(Csr::from_triplets(50, 50, &t).unwrap()).unwrap());
    let mut cg = solver(&indefinite, &[("solver.preconditioner", "none"), ("solver.type", "cg")]);
    let b: Vec<f64> = (0..50).map(|i| if i % 2 == 0 { 0.1 } else { 1.0 }).collect();
    let error = cg.solve(&b, &mut x[..50], Guess::Zero).unwrap_err();
    assert_eq!(error.status, Status::Breakdown);
    assert!(error.message.contains("positive definite"), "{error}");

    let rectangular = Arc::new(Matrix::from_csr(Csr::from_triplets(2, 3, &[(0, 0, 1.0)]).unwrap()).unwrap());
    assert_eq!(
        Solver::new(&context(), &Config::new()).setup(Some(&rectangular)).unwrap_err().status,
        Status::SizeMismatch
    );
}

#[test]
fn a_residual_that_no_longer_falls_ends_the_solve_with_its_own_status() {
    let matrix = poisson(8);
    let n = matrix.rows();
    let b: Vec<f64> = (0..n).map(|i| 0.1 + (i % 5) as f64).collect();
    let mut x = vec![0.0; n];
    // A tolerance that rounding does not allow: the recurrences of cg and bicgstab would go on falling to underflow.
    for method in ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"] {
        let mut solver = solver(&matrix, &[("solver.tolerance", "0"), ("solver.type", method)]);
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Stagnated, "{method}");
        let report = solver.report();
        assert!(!report.solves[0].converged && report.solves[0].true_residual < 1e-13, "{}", report.to_text());
    }
    // Restarted gmres never moves on a cyclic shift; the window counts from the last iteration that made progress.
    let t: Vec<_> = (0..40).flat_map(|i| [(i, (i + 1) % 40, 1.0), (i, i, 1e-12)]).collect();
    let shift = Arc::new(Matrix::from_csr(Csr::from_triplets(40, 40, &t).unwrap()).unwrap());
    let mut first = vec![0.0; 40];
    first[0] = 1.0;
    for (window, status, iterations) in [("7", Status::Stagnated, 7), ("0", Status::NotConverged, 60)] {
        let options = [
            ("solver.preconditioner", "none"),
            ("solver.type", "gmres"),
            ("solver.restart", "10"),
            ("solver.max_iterations", "60"),
            ("solver.stagnation_window", window),
        ];
        let mut solver = solver(&shift, &options);
        assert_eq!(solver.solve(&first, &mut x[..40], Guess::Zero).unwrap(), status);
        assert_eq!(solver.report().solves[0].iterations, iterations);
    }
    // Of several right-hand sides the first that is not solved decides.
    let mut mixed = solver(&matrix, &[("solver.max_iterations", "2")]);
    let two: Vec<f64> = std::iter::repeat_n(0.0, n).chain(b).collect();
    assert_eq!(mixed.solve(&two, &mut vec![0.0; 2 * n], Guess::Zero).unwrap(), Status::NotConverged);
}

#[test]
fn the_preconditioned_norm_is_that_of_the_preconditioned_residual() {
    // A = diag(1, 2, ..., 9) with M = A^-1 is solved in one step; with M = 2 A^-1 every norm doubles, and relative ones stay.
    let n = 9;
    let t: Vec<_> = (0..n).map(|i| (i, i, 1.0 + i as f64)).collect();
    let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(n, n, &t).unwrap()).unwrap());
    let history = |method: &str, norm: &str, factor: f64| {
        let mut solver = Solver::new(&context(), &config(&[("solver.type", method), ("solver.norm", norm)]));
        solver.set_preconditioner(Box::new(move |r, z| {
            let (SliceRef::F64(r), SliceMut::F64(z)) = (r, z) else { return 1 };
            z.iter_mut().zip(r).enumerate().for_each(|(i, (z, r))| *z = factor * r / (1.0 + i as f64));
            0
        }));
        solver.setup(Some(&matrix)).unwrap();
        let mut x = vec![0.0; n];
        assert_eq!(solver.solve(&vec![1.0; n], &mut x, Guess::Zero).unwrap(), Status::Success, "{method} {norm}");
        solver.report().solves[0].history.clone()
    };
    for method in ["cg", "fcg"] {
        assert!(history(method, "preconditioned", 1.0).len() == 2);
        assert_eq!(history(method, "preconditioned", 2.0)[0], 1.0);
    }
    // x_k = (1 - 2^-k) A^-1 b, so both norms halve.
    for norm in ["true", "preconditioned"] {
        let history = history("richardson", norm, 0.5);
        assert!(history.windows(2).all(|pair| (pair[1] / pair[0] - 0.5).abs() < 1e-6), "{history:?}");
    }
    for method in ["gmres", "fgmres", "bicgstab", "idr"] {
        let options = config(&[("solver.type", method), ("solver.norm", "preconditioned")]);
        let error = Solver::new(&context(), &options).setup(Some(&matrix)).unwrap_err();
        assert_eq!(error.status, Status::OptionValue);
        assert!(error.message.contains(method) && error.message.contains("solver.norm"), "{error}");
    }
}

#[test]
fn odd_matrices_are_solved() {
    // Nothing at all, one row, a diagonal matrix larger than any dense solve, and a chain with unit rows between.
    let diagonal: Vec<_> = (0..30_000).map(|i| (i, i, 1.0 + (i % 10) as f64)).collect();
    let mut chain = Vec::new();
    for i in 0..3000_usize {
        chain.push((i, i, 2.5));
        if i % 3 == 1 {
            chain.extend([(i, i + 1, -1.0), (i + 1, i, -1.0)]);
        }
    }
    for t in [vec![], vec![(0, 0, 3.0)], diagonal, chain] {
        let n = t.iter().map(|e| e.0 + 1).max().unwrap_or(0);
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
        for method in ["pmis", "mis2"] {
            let mut solver = solver(&matrix, &[("amg.coarsening.type", method)]);
            let b = vec![1.0; n];
            let mut x = vec![0.0; n];
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{n} rows");
            assert!(n == 0 || relative_residual(&a, &b, &x) <= 1e-8);
        }
    }
}

#[test]
fn the_memory_estimate_is_close_and_not_below() {
    for (k, name) in ["poisson7:36", "poisson5:220", "poisson27:34", "elasticity:26", "poisson7:12"].iter().enumerate()
    {
        let both = [vec![], vec![("precision.matrix", "f32"), ("amg.coarsening.type", "mis2")]];
        for (o, options) in both.into_iter().enumerate() {
            // In turn.
            if !(k + o).is_multiple_of(2) && !is_deep() {
                continue;
            }
            let matrix = Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap());
            let config = config(&options);
            let estimate = Amg::memory_estimate(&context(), &matrix, &config).unwrap() as f64;
            let held = Amg::setup(&context(), &matrix, &config).unwrap().report().bytes as f64;
            let ratio = estimate / held;
            assert!(
                (1.0..1.25).contains(&ratio),
                "{name} {options:?}: estimate {estimate}, held {held}, ratio {ratio:.3}"
            );
        }
    }
}

/// Rows that have nothing to do with the others, as cells that take no part in a simulation, are counted for what they are.
#[test]
fn the_memory_estimate_counts_decoupled_rows() {
    let grid = gallery::poisson5(120, 120).unwrap();
    let (n, more) = (grid.rows, 60_000);
    for (first, other) in [(0, n), (more, 0)] {
        let view = grid.view();
        let mut entries: Vec<_> = (0..n).flat_map(|i| view.row(i).map(move |(j, v)| (i, j, v[0]))).collect();
        entries.iter_mut().for_each(|(i, j, _)| (*i, *j) = (*i + first, *j + first));
        entries.extend((other..other + more).map(|i| (i, i, 1.0)));
        let matrix = Arc::new(Matrix::from_csr(Csr::from_triplets(n + more, n + more, &entries).unwrap()).unwrap());
        let estimate = Amg::memory_estimate(&context(), &matrix, &config(&[])).unwrap() as f64;
        let held = Amg::setup(&context(), &matrix, &config(&[])).unwrap().report().bytes as f64;
        assert!((1.0..1.25).contains(&(estimate / held)), "estimate {estimate}, held {held}");
    }
}

/// Every coupling of the 27-point Laplacian is below the usual threshold; all of them are strong all the same.
#[test]
fn wide_stencils_are_coarsened_by_aggregation() {
    let matrix = Arc::new(Matrix::from_csr(gallery::poisson27(24, 24, 24).unwrap()).unwrap());
    let mut solver = solver(&matrix, &[("amg.coarsening.type", "mis2"), ("amg.smoother.type", "jacobi")]);
    let b = vec![1.0; matrix.rows()];
    let mut x = vec![0.0; b.len()];
    assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
    let report = solver.report();
    assert!(report.levels.len() > 1 && report.levels[1].rows < matrix.rows() / 10, "{}", report.to_text());
    assert!(report.solves[0].iterations <= 16, "{}", report.to_text());
}

/// What a failed solve leaves in the workspace must not reach the next one.
#[test]
fn a_solver_works_again_after_a_solve_that_was_not_finite() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let matrix = poisson(8);
    let n = matrix.rows();
    for method in krylov::NAMES {
        let a = gallery::poisson7(8, 8, 8).unwrap();
        let broken = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&broken);
        let mut solver = Solver::new(&context(), &config(&[("solver.type", method)]));
        solver.set_operator(
            n,
            Box::new(move |x, y| {
                let (SliceRef::F64(x), SliceMut::F64(y)) = (x, y) else { return 1 };
                let factor = if flag.load(Ordering::Relaxed) { f64::NAN } else { 1.0 };
                for (i, y) in y.iter_mut().enumerate() {
                    *y = factor * a.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>();
                }
                0
            }),
        );
        solver.setup(Some(&matrix)).unwrap();
        let b = vec![1.0; n];
        let mut x = vec![0.0; n];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap_err().status, Status::NonFinite, "{method}");
        broken.store(false, Ordering::Relaxed);
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero), Ok(Status::Success), "{method}");
    }
}

/// A classical hierarchy of displacements in three directions.
#[test]
fn functions_are_coarsened_and_interpolated_by_themselves() {
    const PMIS: &[(&str, &str)] =
        &[("amg.coarsening.type", "pmis"), ("amg.strength.threshold", "0.5"), ("amg.smoother.type", "l1_jacobi")];
    let blocks = gallery::elasticity_hex8(8, gallery::Layers::NONE, true).unwrap().matrix;
    let scalars = Arc::new(Matrix::from_csr(blocks.view().to_scalar().unwrap()).unwrap());
    let blocks = Arc::new(Matrix::from_csr(blocks).unwrap());
    let solved = |matrix: &Arc<Matrix>, functions: &str| {
        let options = [PMIS, &[("amg.functions", functions), ("amg.smoother.diagonal", "point")]].concat();
        let mut solver = solver(matrix, &options);
        let b = vec![1.0; scalars.rows()];
        let mut x = vec![0.0; b.len()];
        assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
        let report = solver.report();
        (report.solves[0].iterations, report.levels.iter().map(|level| level.nonzeros).collect::<Vec<_>>())
    };
    // As many as a block has, or as the caller says.
    let (iterations, levels) = solved(&blocks, "0");
    assert_eq!(solved(&blocks, "3"), (iterations, levels.clone()));
    assert_eq!(solved(&scalars, "3"), (iterations, levels));
    assert!(iterations <= 30, "{iterations}");
    let (together, _) = solved(&blocks, "1");
    assert_eq!(solved(&scalars, "0").0, together);
    assert!(together > 2 * iterations, "{together}, and {iterations} with three functions");
    // Aggregates are of nodes, and a matrix has as many unknowns of each function.
    for (matrix, functions, coarsening, words) in [
        (&scalars, "3", "mis2", "\"mis2\" keeps"),
        (&scalars, "5", "pmis", "does not divide the 1944 unknowns"),
        (&blocks, "21", "pmis", "does not divide the 1944 unknowns"),
    ] {
        let options = config(&[("amg.functions", functions), ("amg.coarsening.type", coarsening)]);
        for error in [
            Amg::setup(&context(), matrix, &options).err().unwrap(),
            Amg::memory_estimate(&context(), matrix, &options).err().unwrap(),
        ] {
            assert!(error.status == Status::OptionValue && error.message.contains(words), "{error}");
        }
    }
}
