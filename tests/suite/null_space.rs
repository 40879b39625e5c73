//! Singular systems: solves with and without a null space that the options name, and vectors that are refused.

use crate::solver::{relative_residual, solver};
use std::sync::Arc;
use terrace::matrix::Values;
use terrace::sparse::{Csr, NearNullSpace};
use terrace::{Config, Context, Guess, Matrix, Solver, Status, gallery};

/// The Laplacian with no boundary values: the diagonal is what makes every row sum zero.
fn neumann(mut a: Csr<f64>) -> Csr<f64> {
    for i in 0..a.rows {
        let row = a.offsets[i] as usize..a.offsets[i + 1] as usize;
        let diagonal = row.clone().find(|k| a.columns[*k] as usize == i).unwrap();
        a.values[diagonal] = 0.0;
        a.values[diagonal] = -a.values[row].iter().sum::<f64>();
    }
    a
}

#[test]
fn singular_systems_are_solved() {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let problems = [
        neumann(gallery::poisson5(60, 50).unwrap()),
        neumann(gallery::poisson7(15, 14, 12).unwrap()),
        neumann(gallery::poisson5(9, 9).unwrap()),
    ];
    for (p, a) in problems.into_iter().enumerate() {
        let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
        let n = a.rows;
        let uneven: Vec<f64> = (0..n).map(|i| ((i * 31) % 101) as f64).collect();
        let consistent: Vec<f64> = uneven.iter().map(|v| v - mean(&uneven)).collect();
        let transfers = [("pmis", "extended_i"), ("mis2", "smoothed"), ("mis2", "tentative")];
        for (c, (coarsening, interpolation)) in transfers.into_iter().enumerate() {
            let methods = ["cg", "fcg", "gmres", "fgmres", "bicgstab", "idr", "richardson"];
            for (m, method) in methods.into_iter().enumerate() {
                // The large problems take turns.
                if p < 2 && (p + c + m) % 2 == 1 {
                    continue;
                }
                let what = format!("{n} rows {coarsening} {interpolation} {method}");
                let options = [
                    ("solver.type", method),
                    ("amg.coarsening.type", coarsening),
                    ("amg.interpolation.type", interpolation),
                ];
                let mut plain = solver(&matrix, &options);
                let mut x = vec![0.0; n];
                let status = plain.solve(&consistent, &mut x, Guess::Zero).unwrap();
                assert_eq!(status, Status::Success, "{what}\n{}", plain.report().to_text());
                assert!(relative_residual(&a, &consistent, &x) <= 1.0001e-8, "{what}");
                let iterations = plain.report().solves[0].iterations;

                // With the null space named, the constant part of b and of the guess do not matter.
                let mut projected = solver(&matrix, &[&options[..], &[("solver.null_space", "constant")]].concat());
                let mut y = vec![0.0; n];
                assert_eq!(projected.solve(&uneven, &mut y, Guess::Zero).unwrap(), Status::Success, "{what}");
                assert!(relative_residual(&a, &consistent, &y) <= 1.0001e-8, "{what}");
                let largest = y.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
                assert!(mean(&y).abs() <= 1e-12 * largest, "{what}");
                let same = projected.report().solves[0].iterations;
                assert!(same.abs_diff(iterations) <= 2, "{what}: {same} and {iterations}");
                y.iter_mut().for_each(|v| *v += 1e3);
                projected.solve(&uneven, &mut y, Guess::Given).unwrap();
                assert!(mean(&y).abs() <= 1e-9 * largest, "{what}");
            }
        }
        let mut nothing = solver(&matrix, &[("solver.null_space", "constant")]);
        let mut x = vec![1.0; n];
        assert_eq!(nothing.solve(&vec![0.7; n], &mut x, Guess::Given).unwrap(), Status::Success);
        assert!(x.iter().all(|v| *v == 0.0), "nothing is left of a constant b");
    }
}

/// Removes the parts of b along vectors that are made orthonormal first.
fn without(b: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let mut left = b.to_vec();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for v in vectors {
        let mut q = v.clone();
        for _ in 0..2 {
            for u in &basis {
                let share = dot(u, &q);
                q.iter_mut().zip(u).for_each(|(q, u)| *q -= share * u);
            }
        }
        let norm = dot(&q, &q).sqrt();
        q.iter_mut().for_each(|q| *q /= norm);
        let share = dot(&q, &left);
        left.iter_mut().zip(&q).for_each(|(b, q)| *b -= share * q);
        basis.push(q);
    }
    left
}

/// Solves with the near-null space as null space, and checks residual and orthogonality.
fn solve_singular(a: &Csr<f64>, matrix: &Arc<Matrix>, vectors: &[Vec<f64>], options: &[(&str, &str)], most: usize) {
    let b: Vec<f64> = (0..matrix.rows()).map(|i| ((i * 31) % 101) as f64).collect();
    let consistent = without(&b, vectors);
    let mut solver = solver(matrix, &[options, &[("solver.null_space", "near_null_space")]].concat());
    let mut x = vec![0.0; b.len()];
    let status = solver.solve(&b, &mut x, Guess::Zero).unwrap();
    let report = solver.report();
    let what = format!("{} rows, {options:?}\n{}", b.len(), report.to_text());
    assert_eq!(status, Status::Success, "{what}");
    assert!(relative_residual(a, &consistent, &x) <= 1.01e-8, "{what}");
    assert!(report.levels.len() > 1 && report.solves[0].iterations <= most, "{what}");
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let orthogonal = without(&x, vectors);
    let part: Vec<f64> = x.iter().zip(&orthogonal).map(|(x, y)| x - y).collect();
    assert!(norm(&part) <= 1e-11 * norm(&x), "{what}");
}

#[test]
fn a_body_that_nothing_holds_is_solved_with_its_rigid_body_modes_as_null_space() {
    for name in ["elasticity:8:clamped=0", "elasticity_tet:9:clamped=0"] {
        let problem = gallery::parse(name).unwrap();
        let a = problem.matrix.view().to_scalar().unwrap();
        let space = NearNullSpace::rigid_body_modes(a.rows, 3, problem.coordinates.as_ref().unwrap()).unwrap();
        let modes: Vec<Vec<f64>> = space.vectors.chunks_exact(a.rows).map(<[f64]>::to_vec).collect();
        assert_eq!(modes.len(), 6);
        let matrix = Arc::new(problem.into_matrix().unwrap());
        for method in ["cg", "fcg", "gmres", "bicgstab"] {
            solve_singular(&a, &matrix, &modes, &[("solver.type", method)], 48);
        }
        solve_singular(&a, &matrix, &modes, &[("amg.interpolation.type", "tentative")], 65);
        solve_singular(&a, &matrix, &modes, &[("amg.coarsening.type", "pairwise")], 60);
        solve_singular(&a, &matrix, &modes, &[("amg.smoother.type", "chebyshev")], 60);
    }
}

/// D A D, and the vector D⁻¹ 1.
fn scaled(mut a: Csr<f64>) -> (Csr<f64>, Vec<f64>) {
    let d = |i: usize| 1.0 + 0.9 * (i as f64 / 50.0).sin();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            a.values[k] *= d(i) * d(a.columns[k] as usize);
        }
    }
    let v = (0..a.rows).map(|i| 1.0 / d(i)).collect();
    (a, v)
}

#[test]
fn a_scaled_laplacian_is_solved_with_its_null_vector() {
    let (a, v) = scaled(neumann(gallery::poisson7(16, 15, 14).unwrap()));
    let matrix = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    matrix.set_near_null_space(1, 1, v.clone()).unwrap();
    for coarsening in ["mis2", "pairwise", "pmis"] {
        solve_singular(&a, &matrix, std::slice::from_ref(&v), &[("amg.coarsening.type", coarsening)], 80);
    }
    // In single precision half of fewer digits is left.
    let single: Vec<f32> = a.values.iter().map(|v| *v as f32).collect();
    let f32s =
        Csr { rows: a.rows, cols: a.cols, block: a.block, offsets: a.offsets, columns: a.columns, values: single };
    let matrix = Arc::new(Matrix::from_csr(f32s).unwrap());
    matrix.set_near_null_space(1, 1, v).unwrap();
    let options = [("solver.null_space", "near_null_space"), ("solver.tolerance", "1e-4")];
    let b: Vec<f32> = (0..matrix.rows()).map(|i| ((i * 31) % 101) as f32).collect();
    let mut x = vec![0.0_f32; b.len()];
    assert_eq!(solver(&matrix, &options).solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success);
}

#[test]
fn vectors_that_are_no_null_space_are_refused() {
    let context = Context::new("host:1").unwrap();
    let refused = |matrix: &Arc<Matrix>, space: &str| {
        let mut config = Config::new();
        config.set_str("solver.null_space", space).unwrap();
        let error = Solver::new(&context, &config).setup(Some(matrix)).unwrap_err();
        assert_eq!(error.status, Status::OptionValue, "{error}");
        error.message
    };
    let clamped = Arc::new(gallery::parse("elasticity:4").unwrap().into_matrix().unwrap());
    assert!(refused(&clamped, "near_null_space").contains("vector 0 of 6"));
    let dirichlet = Arc::new(Matrix::from_csr(gallery::poisson5(30, 30).unwrap()).unwrap());
    assert!(refused(&dirichlet, "constant").contains("vector 0 of 1"));
    assert!(refused(&dirichlet, "near_null_space").contains("no near-null space was given"));
    let a = neumann(gallery::poisson5(30, 30).unwrap());
    let singular = Arc::new(Matrix::from_csr(a.clone()).unwrap());
    singular.set_near_null_space(1, 2, [vec![1.0; 900], vec![2.0; 900]].concat()).unwrap();
    assert!(refused(&singular, "near_null_space").contains("vector 1 is a linear combination"));

    // An update to values with another null space is refused, as is a solve with them, and leaves the solver as it was.
    let mut solver = solver(&singular, &[("solver.null_space", "constant")]);
    let b: Vec<f64> = (0..900).map(|i| (i % 7) as f64).collect();
    let (mut before, mut after) = (vec![0.0; 900], vec![0.0; 900]);
    solver.solve(&b, &mut before, Guess::Zero).unwrap();
    singular.update_values(Values::from(scaled(a.clone()).0.values)).unwrap();
    assert!(solver.update().unwrap_err().message.contains("vector 0 of 1"));
    assert!(solver.solve(&b, &mut after, Guess::Zero).unwrap_err().message.contains("vector 0 of 1"));
    singular.update_values(Values::from(a.values)).unwrap();
    solver.solve(&b, &mut after, Guess::Zero).unwrap();
    assert!(before == after);
    solver.update().unwrap();
}
