//! Smoothers: cheap iterations that remove the part of an error which coarse levels cannot see. [`crate::components`]
//! lists them.

pub mod chebyshev;
pub mod dilu;
pub mod fsai;
pub mod gauss_seidel;
pub mod ilu0;
pub mod jacobi;
pub mod l1_jacobi;
pub mod line;

use crate::backend::{Backend, Operator};
use crate::scalar::Number;

/// Rows of the blocks of a D with so many values for this matrix.
fn width<B: Backend, V: Number>(values: usize, a: &dyn Operator<B, V>) -> usize {
    (values * a.vectors() / a.rows().max(1)).max(1)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::gauss_seidel;
    use crate::backend::components::{SmootherInput, Spectrum};
    use crate::backend::{Preconditioner, Sweep};
    use crate::components::{SMOOTHERS, SmootherComponents};
    use crate::config::Config;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::operator::Stored;
    use crate::host::{self, Host};
    use crate::matrix::Matrix;
    use crate::preconditioner::Amg;
    use crate::sparse::{Colouring, Csr};
    use std::sync::{Arc, Mutex};

    fn config(options: &[(&str, &str)]) -> Config {
        let mut config = Config::new();
        for (key, value) in options {
            config.set_str(key, value).unwrap();
        }
        config
    }

    /// p M q and q M p for one cycle M, and whether it says that they are the same.
    fn both_ways(matrix: &Arc<Matrix>, options: &[(&str, &str)]) -> (f64, f64, bool) {
        let mut amg = Amg::setup(&Context::new("host:1").unwrap(), matrix, &config(options)).unwrap();
        let n = matrix.rows();
        let p: Vec<f64> = (0..n).map(|i| ((i * 37) % 19) as f64 - 9.0).collect();
        let q: Vec<f64> = (0..n).map(|i| ((i * 11) % 23) as f64).collect();
        let mut product = |x: &[f64], y: &[f64]| {
            let mut m_y = vec![f64::NAN; n];
            amg.apply(y, &mut m_y).unwrap();
            x.iter().zip(&m_y).map(|(x, y)| x * y).sum::<f64>()
        };
        let (one, other) = (product(&p, &q), product(&q, &p));
        (one, other, Preconditioner::<Host, f64>::is_constant_symmetric(&*amg))
    }

    fn problem(name: &str) -> Arc<Matrix> {
        Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
    }

    #[test]
    fn every_smoother_in_every_direction_makes_a_symmetric_cycle() {
        for (name, coarsening) in [("poisson5:30", "pmis"), ("elasticity:5", "mis2")] {
            let matrix = problem(name);
            // Lines and ilu0 are of structured grids.
            for smoother in SMOOTHERS.iter().filter(|smoother| !["ilu0", "line"].contains(smoother)) {
                // The others have none.
                let directions = if smoother.contains("gauss_seidel") { gauss_seidel::DIRECTIONS.len() } else { 1 };
                for direction in &gauss_seidel::DIRECTIONS[..directions] {
                    // Every other one over-relaxed.
                    for (diagonal, weight) in [("point", "1"), ("block", "1.4")] {
                        let options = [
                            ("amg.smoother.gauss_seidel.weight", weight),
                            ("amg.smoother.type", *smoother),
                            ("amg.smoother.gauss_seidel.direction", *direction),
                            ("amg.smoother.diagonal", diagonal),
                            ("amg.coarsening.type", coarsening),
                            ("amg.coarsest.max_rows", "10"),
                            ("amg.smoother.pre_sweeps", "2"),
                            ("amg.smoother.post_sweeps", "2"),
                        ];
                        let (one, other, symmetric) = both_ways(&matrix, &options);
                        assert!(symmetric && (one - other).abs() <= 1e-11 * one.abs(), "{options:?}: {one} {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn sweeps_in_place_of_a_coarsest_solve_are_symmetric_where_they_say_so() {
        let matrix = problem("poisson5:60");
        for (smoother, direction, sweeps, expected) in [
            ("gauss_seidel", "forward", "4", true),
            ("gauss_seidel", "backward", "4", true),
            ("gauss_seidel", "forward", "3", false),
            ("gauss_seidel", "symmetric", "3", true),
            ("l1_gauss_seidel", "forward", "2", true),
            ("l1_gauss_seidel", "forward", "1", false),
            ("chebyshev", "forward", "3", true),
        ] {
            let options = [
                ("amg.smoother.type", smoother),
                ("amg.smoother.gauss_seidel.direction", direction),
                ("amg.coarsest.sweeps", sweeps),
                ("amg.max_levels", "1"),
            ];
            let (one, other, symmetric) = both_ways(&matrix, &options);
            assert_eq!(symmetric, expected, "{options:?}");
            assert_eq!((one - other).abs() <= 1e-11 * one.abs(), expected, "{options:?}: {one} {other}");
        }
    }

    #[test]
    fn levels_have_sweeps_of_their_own() {
        let matrix = problem("poisson5:30");
        for (pre, post, expected, same) in [
            ("1,2", "1,2", [(1, 1), (2, 2), (2, 2)], true),
            ("1,2,0", "1,2,1", [(1, 1), (2, 2), (0, 1)], false),
            ("3", "2", [(3, 2), (3, 2), (3, 2)], false),
        ] {
            let options = [
                ("amg.smoother.pre_sweeps", pre),
                ("amg.smoother.post_sweeps", post),
                ("amg.smoother.type", "gauss_seidel"),
                ("amg.coarsest.max_rows", "10"),
            ];
            let (one, other, symmetric) = both_ways(&matrix, &options);
            assert_eq!(symmetric, same);
            assert_eq!((one - other).abs() <= 1e-11 * one.abs(), same, "{options:?}: {one} {other}");
            let report = Amg::setup(&Context::new("host:1").unwrap(), &matrix, &config(&options)).unwrap().report();
            let sweeps: Vec<_> = report.levels.iter().map(|l| (l.pre_sweeps, l.post_sweeps)).collect();
            assert_eq!(sweeps[..3], expected);
            assert_eq!(sweeps.last(), Some(&(0, 0)), "the coarsest level is factorised");
        }
    }

    /// One sweep from zero on A x = b.
    fn sweep_once(name: &str, a: Csr<f64>, options: &[(&str, &str)], b: &[f64]) -> Vec<f64> {
        let host = Host::new(&Context::new("host:1").unwrap());
        let a = a.into_shared();
        let config = config(options);
        let input = SmootherInput {
            setup: &host,
            to: &host,
            parameters: &config,
            level: 0,
            a: &a.clone().into(),
            stores_matrix: true,
            stores_pattern: true,
            factors: None,
            spectrum: &Spectrum::default(),
            checks: &Mutex::new(()),
        };
        let smoother = Host::smoother::<f64, f64, f64>(name, &input).unwrap();
        let mut scratch = vec![vec![f64::NAN; b.len()]; smoother.scratch()];
        let mut x = vec![f64::NAN; b.len()];
        let operator = Stored::new(&host, a.clone());
        let sweep = Sweep { zero_guess: true, adjoint: false };
        smoother.sweep(&host, &operator, b, &mut x, &mut scratch, sweep).unwrap();
        x
    }

    /// M x = b solved by substitution, in the order of the colours.
    #[test]
    fn a_sweep_of_dilu_solves_with_its_factors() {
        let t = [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -2.0), (1, 1, 5.0), (1, 2, -1.0), (2, 1, -3.0), (2, 2, 6.0)];
        for a in [gallery::poisson9(5, 4).unwrap(), Csr::from_triplets(3, 3, &t).unwrap()] {
            let b: Vec<f64> = (0..a.rows).map(|i| (i % 5) as f64 - 1.0).collect();
            let inverse = host::dilu::pivots(&a.view()).unwrap().inverse;
            let order = Colouring::new(&a.view()).unwrap().rows;
            let mut place = vec![0; a.rows];
            order.iter().enumerate().for_each(|(at, i)| place[*i as usize] = at);
            let sum = |x: &[f64], i: usize, earlier: bool| -> f64 {
                let others = a.view();
                others
                    .row(i)
                    .filter(|(j, _)| *j != i && (place[*j] < place[i]) == earlier)
                    .map(|(j, v)| v[0] * x[j])
                    .sum()
            };
            let mut x = vec![0.0; a.rows];
            for i in order.iter().map(|i| *i as usize) {
                x[i] = inverse[i] * (b[i] - sum(&x, i, true));
            }
            for i in order.iter().rev().map(|i| *i as usize) {
                x[i] -= inverse[i] * sum(&x, i, false);
            }
            let found = sweep_once("dilu", a.clone(), &[("amg.smoother.dilu.weight", "0.5")], &b);
            assert!(found.iter().zip(&x).all(|(f, x)| (f - 0.5 * x).abs() < 1e-14), "{found:?} {x:?}");
        }
    }

    #[test]
    fn weights_scale_a_sweep_from_zero() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 3.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 3.0)]).unwrap();
        let weights = [("amg.smoother.jacobi.weight", "0.5"), ("amg.smoother.l1_jacobi.weight", "0.5")];
        assert_eq!(sweep_once("jacobi", a.clone(), &weights, &[6.0, 12.0]), [1.0, 2.0]);
        assert_eq!(sweep_once("l1_jacobi", a, &weights, &[8.0, 16.0]), [1.0, 2.0]);
    }

    /// SOR in the order of the rows or of the colours, in both directions where the sweep has both.
    #[test]
    fn gauss_seidel_with_a_weight_is_over_or_under_relaxed() {
        let a = gallery::poisson9(5, 4).unwrap();
        let b: Vec<f64> = (0..a.rows).map(|i| (i % 5) as f64 - 1.0).collect();
        let colours: Vec<usize> = Colouring::new(&a.view()).unwrap().rows.iter().map(|i| *i as usize).collect();
        let numbers: Vec<usize> = (0..a.rows).collect();
        for weight in [0.7, 1.5] {
            for (name, direction, order) in [
                ("gauss_seidel", "forward", &colours),
                ("gauss_seidel", "symmetric", &colours),
                ("l1_gauss_seidel", "forward", &numbers),
            ] {
                let mut expected = vec![0.0; a.rows];
                let back = if direction == "symmetric" { order.as_slice() } else { &[] };
                for i in order.iter().chain(back.iter().rev()) {
                    let view = a.view();
                    let residual = b[*i] - view.row(*i).map(|(j, v)| v[0] * expected[j]).sum::<f64>();
                    expected[*i] += weight * residual / 8.0;
                }
                let weight = weight.to_string();
                let options =
                    [(gauss_seidel::WEIGHT, weight.as_str()), ("amg.smoother.gauss_seidel.direction", direction)];
                let found = sweep_once(name, a.clone(), &options, &b);
                let off = found.iter().zip(&expected).fold(0.0_f64, |most, (f, e)| most.max((f - e).abs()));
                assert!(off < 1e-14, "{name} {options:?}: {off}");
            }
        }
        for weight in ["0", "2", "-0.5"] {
            assert!(Config::new().set_str(gauss_seidel::WEIGHT, weight).is_err(), "{weight}");
        }
    }

    /// With the bounds of the l1 diagonal, and with those that are given, nothing is estimated.
    #[test]
    fn chebyshev_goes_by_the_eigenvalues_that_it_is_given() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 3.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 3.0)]).unwrap();
        let b = [6.0, 12.0];
        let sweep = |options: &[(&str, &str)]| sweep_once("chebyshev", a.clone(), options, &b);
        let once = ("amg.smoother.chebyshev.degree", "1");
        // One step is x = D^-1 b over the centre of [λ/8, λ], which is 9/16 λ.
        let largest = "amg.smoother.chebyshev.largest_eigenvalue";
        assert_eq!(sweep(&[once, (largest, "16")]), [2.0 / 9.0, 4.0 / 9.0]);
        let l1 = ("amg.smoother.chebyshev.scaling", "l1");
        assert_eq!(sweep(&[once, l1]), [1.5 * 16.0 / 9.0, 3.0 * 16.0 / 9.0]);
        assert_eq!(sweep(&[once, l1, (largest, "16")]), [1.5 / 9.0, 3.0 / 9.0]);
        assert_eq!(sweep(&[once, (largest, "1"), ("amg.smoother.chebyshev.eigenvalue_ratio", "1")]), [2.0, 4.0]);
        // The eigenvalues of D^-1 A are 2/3 and 4/3; an estimate is of the larger one.
        let estimated = sweep(&[once]);
        assert!((estimated[0] - 2.0 * 16.0 / (9.0 * 1.1 * 4.0 / 3.0)).abs() < 1e-3, "{estimated:?}");
    }

    #[test]
    fn rows_without_a_diagonal_are_left_out() {
        // Unknown 1 has a diagonal of zero, 2 and 3 have a block of rank one, and nothing else is coupled.
        let t = [(0, 0, 4.0), (1, 1, 0.0), (2, 2, 1.0), (2, 3, 1.0), (3, 2, 1.0), (3, 3, 1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        for name in ["jacobi", "l1_jacobi", "gauss_seidel", "l1_gauss_seidel"] {
            let options = [("amg.smoother.jacobi.weight", "1")];
            let x = sweep_once(name, a.clone(), &options, &[8.0, 5.0, 3.0, 3.0]);
            assert_eq!(x[..2], [2.0, 0.0], "{name}");
            let x = sweep_once(name, a.view().to_blocks(2).unwrap(), &options, &[8.0, 5.0, 3.0, 3.0]);
            assert_eq!(x, [2.0, 0.0, 3.0, 0.0], "{name} in blocks");
        }
        let x = sweep_once("chebyshev", a.view().to_blocks(2).unwrap(), &[], &[8.0, 5.0, 3.0, 3.0]);
        assert!(x.iter().all(|x| x.is_finite()) && x[1] == 0.0, "{x:?}");
    }

    #[test]
    fn blocks_are_solved_exactly_where_nothing_else_is_coupled() {
        let t =
            [(0, 0, 2.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 3.0), (2, 2, 1.0), (2, 3, -2.0), (3, 2, 2.0), (3, 3, 1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap().view().to_blocks(2).unwrap();
        for name in ["jacobi", "l1_jacobi", "gauss_seidel", "l1_gauss_seidel"] {
            let x = sweep_once(name, a.clone(), &[("amg.smoother.jacobi.weight", "1")], &[3.0, 4.0, -1.0, 3.0]);
            assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-14), "{name}: {x:?}");
        }
    }
}
