//! Smoothers: cheap iterations that remove the part of an error which coarse levels cannot see.

mod chebyshev;
pub mod gauss_seidel;
mod jacobi;
mod l1_gauss_seidel;
mod l1_jacobi;

use crate::backend::{Backend, Operator, Place};
use crate::config::Config;
use crate::error::{Result, fail, try_vec};
use crate::host::eigenvalue::{Estimate, Known, Largest};
use crate::host::{Host, diagonal, par};
use crate::registry::registry;
use crate::scalar::{Number, Precision, Scalar, with_storage};
use crate::sparse::{CsrView, SharedCsr};
use std::borrow::Cow;
use std::sync::OnceLock;

/// A smoother of one level, for vectors of precision `V`.
pub trait Smoother<B: Backend, V: Number>: Send + Sync {
    /// One sweep on A x = b. `scratch` holds [`Smoother::scratch`] vectors.
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()>;
    /// Whether there is [`Smoother::sweep_to`] for vectors of this length.
    fn moves(&self, _rows: usize) -> bool {
        false
    }
    /// One sweep from x, whose result is y.
    fn sweep_to(
        &self,
        _backend: &B,
        _a: &dyn Operator<B, V>,
        _b: &B::Slice<V>,
        _x: &B::Slice<V>,
        _y: &mut B::Slice<V>,
    ) -> Result<()> {
        unreachable!("asked for only where the smoother moves")
    }
    /// Whether a sweep is its own adjoint when the matrix is symmetric.
    fn is_symmetric(&self) -> bool;
    /// Vectors of scratch space that a sweep needs.
    fn scratch(&self) -> usize;
    /// Bytes that the library holds for its data.
    fn bytes(&self) -> usize;
}

/// Which sweep of a cycle it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// x counts as zero, and its content is not read.
    pub zero_guess: bool,
    /// After the coarse correction: smoothers that are not symmetric run the other way, so that the cycle is.
    pub adjoint: bool,
}

/// What a smoother is made from.
pub struct Setup<'a, T> {
    /// Where the work runs.
    pub host: &'a Host,
    /// Options.
    pub config: &'a Config,
    /// The matrix of the level.
    pub a: CsrView<'a, T>,
    /// The same, for smoothers that keep it.
    pub matrix: &'a SharedCsr<T>,
    /// The factors by which the variables of the level were multiplied, if they were.
    pub scale: Option<&'a [f64]>,
    /// What interpolation found out about the matrix.
    pub known: &'a Known<T>,
    /// Takes the largest eigenvalue, where the smoother estimates it.
    pub estimated: &'a OnceLock<Largest>,
}

impl<T: Scalar> Setup<'_, T> {
    /// Rows of the diagonal blocks that sweeps invert; 1 is the diagonal.
    fn diagonal_width(&self) -> usize {
        match self.config.text("amg.smoother.diagonal").as_str() {
            "block" => self.a.block.rows,
            _ => 1,
        }
    }

    /// Whether sweeps invert the diagonal blocks, as interpolation does.
    fn whole_blocks(&self) -> bool {
        self.diagonal_width() == self.a.block.rows
    }

    /// D^-1.
    fn inverse(&self) -> Result<Cow<'_, [T]>> {
        match self.known {
            Known::Now { inverse: Some(inverse), .. } if self.whole_blocks() => Ok(Cow::Borrowed(inverse)),
            _ => Ok(Cow::Owned(diagonal::inverse(&self.a, self.diagonal_width(), diagonal::AS_IT_IS)?)),
        }
    }

    /// The largest eigenvalue of D^-1 A, positive.
    fn largest_eigenvalue(&self, inverse: &[T]) -> Result<f64> {
        let earlier = match self.known {
            Known::Now { largest, .. } if self.whole_blocks() => return Ok(largest.max(f64::MIN_POSITIVE)),
            Known::Earlier(largest) => Some(largest),
            _ => None,
        };
        let largest = Estimate::from_config(self.config).largest(self.host, &self.a, inverse, earlier)?;
        let largest = self.estimated.get_or_init(|| largest).value;
        Ok(largest.max(f64::MIN_POSITIVE))
    }
}

/// What is smaller than the rounding of the largest number in f16 is no loss.
pub(crate) const MATTERS: f64 = 1.0 / 2048.0;

/// Data of a smoother times `factor` in their storage format, refused when that cannot hold them.
pub(crate) fn stored<T: Scalar, S: Number>(exact: &[T], factor: f64) -> Result<Vec<S>> {
    let mut data = try_vec(exact.len(), S::ZERO)?;
    par::for_each_mut(&mut data, par::GRAIN, |start, data| {
        for (to, from) in data.iter_mut().zip(&exact[start..]) {
            *to = S::from_f64(factor * from.to_f64());
        }
    });
    if S::PRECISION.is_scalar() {
        return Ok(data);
    }
    // Beside the largest, small numbers may vanish: blocks have many that are rounding.
    let matters = exact.iter().fold(0.0, |m: f64, v| m.max(v.to_f64().abs())) * MATTERS;
    let lost = |(from, to): (&T, &S)| {
        !to.to_f64().is_finite() || (*to == S::ZERO && from.to_f64() != 0.0 && from.to_f64().abs() >= matters)
    };
    if exact.iter().zip(&data).any(lost) {
        return does_not_fit::<S, _>();
    }
    Ok(data)
}

/// That format `S` cannot hold the data of a smoother.
pub(crate) fn does_not_fit<S: Number, R>() -> Result<R> {
    fail!(
        PrecisionLost,
        "the inverse of a diagonal does not fit into {}; use precision.scaling \"diagonal\", or store the smoother in f32",
        S::PRECISION.name()
    )
}

registry! {
    /// The smoother of this name, its data stored as `S`.
    fn make<B: Place, T: Scalar, S: Number, V: Number>(backend: &B, setup: &Setup<'_, T>) -> Result<Box<dyn Smoother<B, V>>>;
    "chebyshev" => chebyshev::build::<B, T, S, V>(backend, setup);
    "gauss_seidel" => gauss_seidel::build::<B, T, S, V>(backend, setup);
    "jacobi" => jacobi::build::<B, T, S, V>(backend, setup);
    "l1_gauss_seidel" => backend.host_smoother("l1_gauss_seidel", l1_gauss_seidel::build::<T, S, V>(setup)?);
    "l1_jacobi" => l1_jacobi::build::<B, T, S, V>(backend, setup);
}

/// The name of the smoother for a hierarchy with or without a near-null space of the caller.
pub(crate) fn name(config: &Config, near_null_space: bool) -> String {
    let default = if near_null_space { "chebyshev" } else { "l1_jacobi" };
    config.choice("amg.smoother.type").unwrap_or(default.to_string())
}

/// Whether the smoother of this name keeps the level's matrix in its own format.
pub(crate) fn keeps_matrix(name: &str) -> bool {
    matches!(name, "gauss_seidel" | "l1_gauss_seidel")
}

/// The smoother of this name on a backend, its data stored in `storage`.
pub(crate) fn build<B: Place, T: Scalar, V: Number>(
    name: &str,
    backend: &B,
    setup: &Setup<'_, T>,
    storage: Precision,
) -> Result<Box<dyn Smoother<B, V>>> {
    with_storage!(storage, S => make::<B, T, S, V>(name, backend, setup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amg::Amg;
    use crate::backend::Preconditioner;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::operator::Stored;
    use crate::matrix::Matrix;
    use crate::sparse::Csr;
    use std::sync::Arc;

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
        (one, other, Preconditioner::<Host, f64>::is_constant_symmetric(&amg))
    }

    fn problem(name: &str) -> Arc<Matrix> {
        Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
    }

    #[test]
    fn every_smoother_in_every_direction_makes_a_symmetric_cycle() {
        for (name, coarsening) in [("poisson5:30", "pmis"), ("elasticity:5", "mis2")] {
            let matrix = problem(name);
            for smoother in NAMES {
                for direction in gauss_seidel::DIRECTIONS {
                    for diagonal in ["point", "block"] {
                        let options = [
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
        let setup = Setup {
            host: &host,
            config: &config,
            a: a.view(),
            matrix: &a,
            scale: None,
            known: &Known::Nothing,
            estimated: &OnceLock::new(),
        };
        let smoother = build::<_, f64, f64>(name, &host, &setup, Precision::F64).unwrap();
        let mut scratch = vec![vec![f64::NAN; b.len()]; smoother.scratch()];
        let mut x = vec![f64::NAN; b.len()];
        let operator = Stored::new(&host, a.clone());
        let sweep = Sweep { zero_guess: true, adjoint: false };
        smoother.sweep(&host, &operator, b, &mut x, &mut scratch, sweep).unwrap();
        x
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
