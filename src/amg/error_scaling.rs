//! Scaling of the coarse correction. Interpolation from plain aggregates makes it too short: a step by a multiple of it that minimises a norm repairs
//! that, as one step of steepest descent or of minimal residuals along the correction. The cycle then depends on what it is applied to.

use crate::backend::{Backend, ErrorNorm};
use crate::config::Config;
use crate::error::Result;
use crate::scalar::Number;

/// What is minimised, as the options spell it.
pub const NAMES: &[&str] = &["none", "energy", "residual"];

/// The scaling of the coarse correction of a level, whose vectors have precision `V`.
pub(crate) struct ErrorScaling<B: Backend, V: Number> {
    pub norm: ErrorNorm,
    /// Sweeps of the smoother on A e = r before the factor is computed.
    pub sweeps: usize,
    /// The residual before the correction.
    pub r: B::Buffer<V>,
    /// The correction.
    pub e: B::Buffer<V>,
}

/// Whether the options ask for it.
pub(crate) fn is_asked(config: &Config) -> bool {
    norm(config).is_some()
}

fn norm(config: &Config) -> Option<ErrorNorm> {
    match config.text("amg.cycle.error_scaling").as_str() {
        "energy" => Some(ErrorNorm::Energy),
        "residual" => Some(ErrorNorm::Residual),
        _ => None,
    }
}

impl<B: Backend, V: Number> ErrorScaling<B, V> {
    /// What the options ask for on a level of `n` rows here.
    pub fn new(backend: &B, n: usize, config: &Config) -> Result<Option<ErrorScaling<B, V>>> {
        let Some(norm) = norm(config) else { return Ok(None) };
        let sweeps = config.int("amg.cycle.error_scaling_sweeps");
        Ok(Some(ErrorScaling { norm, sweeps, r: backend.zeros(n)?, e: backend.zeros(n)? }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::Host;
    use crate::preconditioner::Amg;
    use crate::{Guess, Solver, Status};
    use std::sync::Arc;

    fn dot(x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).map(|(x, y)| x * y).sum()
    }

    /// With the best factor the residual r - α w has no part along the correction, or along its image.
    #[test]
    fn the_factor_is_the_best_one() {
        let host = Host::new(&Context::new("host:1").unwrap());
        let numbers = |n: usize, step: usize| -> Vec<f64> { (0..n).map(|i| ((i * step) % 19) as f64 - 9.0).collect() };
        for n in [1, 31, 5000] {
            let (r, e) = (numbers(n, 7), numbers(n, 11));
            let w: Vec<f64> = e.iter().enumerate().map(|(i, e)| (2.0 + (i % 3) as f64) * e).collect();
            for (norm, y) in [(ErrorNorm::Energy, &e), (ErrorNorm::Residual, &w)] {
                let (mut x, start) = (numbers(n, 5), numbers(n, 5));
                host.add_scaled_error(norm, &r, (&e, &w), &mut x).unwrap();
                let alpha = dot(&r, y) / dot(&w, y);
                assert!(x.iter().zip(&start).zip(&e).all(|((x, s), e)| (x - s - alpha * e).abs() < 1e-12), "{norm:?}");
            }
            // No step of zero length divides by zero.
            let (zero, mut x) = (vec![0.0; n], numbers(n, 5));
            host.add_scaled_error(ErrorNorm::Energy, &r, (&zero, &zero), &mut x).unwrap();
            assert_eq!(x, numbers(n, 5));
        }
    }

    /// An exact solution on the coarse level is the best correction in the energy norm, one cycle there is not. The cycle is homogeneous, and that of a
    /// device.
    #[test]
    fn a_scaled_correction_of_plain_aggregates_is_the_better_one() {
        let matrix = gallery::parse("poisson5:50").unwrap().matrix;
        let n = matrix.rows;
        let a =
            |x: &[f64]| -> Vec<f64> { (0..n).map(|i| matrix.view().row(i).map(|(j, v)| v[0] * x[j]).sum()).collect() };
        let solution = vec![1.0; n];
        let b = a(&solution);
        let shared = Arc::new(gallery::parse("poisson5:50").unwrap().into_matrix().unwrap());
        let options = |levels: &str, (scaling, sweeps): (&str, &str)| {
            let mut config = Config::new();
            for (key, value) in [
                ("amg.coarsening.type", "pairwise"),
                ("amg.interpolation.type", "tentative"),
                ("amg.smoother.post_sweeps", "0"),
                ("amg.cycle.error_scaling", scaling),
                ("amg.cycle.error_scaling_sweeps", sweeps),
                ("amg.max_levels", levels),
                ("amg.coarsest.max_rows", "10"),
            ] {
                config.set_str(key, value).unwrap();
            }
            config
        };
        // The squares of both norms after a cycle.
        let after = |levels: &str, scaling: (&str, &str), device: &str, factor: f64| -> [f64; 2] {
            let config = options(levels, scaling);
            let mut amg = Amg::setup(&Context::new(device).unwrap(), &shared, &config).unwrap();
            let (scaled, mut x): (Vec<f64>, Vec<f64>) = (b.iter().map(|b| factor * b).collect(), vec![f64::NAN; n]);
            amg.apply(&scaled, &mut x).unwrap();
            let error: Vec<f64> = x.iter().zip(&solution).map(|(x, s)| x / factor - s).collect();
            let residual = a(&error);
            [dot(&error, &residual), dot(&residual, &residual)]
        };
        let here = |levels: &str, scaling: (&str, &str)| after(levels, scaling, "host:1", 1.0);
        let plain = here("2", ("none", "0"));
        assert!((here("2", ("energy", "0"))[0] / plain[0] - 1.0).abs() < 1e-10);
        assert!(here("2", ("residual", "0"))[1] < 0.99 * plain[1]);
        assert!(here("9", ("energy", "0"))[0] < here("9", ("none", "0"))[0]);
        assert!(here("9", ("energy", "2"))[0] < here("9", ("energy", "0"))[0]);
        let cycles = |scaling: (&str, &str)| {
            let mut config = options("9", scaling);
            config.set_str("solver.type", "richardson").unwrap();
            config.set_int("solver.max_iterations", 2000).unwrap();
            let mut solver = Solver::new(&Context::new("host:1").unwrap(), &config);
            solver.setup(Some(&shared)).unwrap();
            assert_eq!(solver.solve(&b, &mut vec![0.0; n], Guess::Zero).unwrap(), Status::Success);
            solver.report().solves[0].iterations
        };
        let (scaled, plain) = (cycles(("energy", "0")), cycles(("none", "0")));
        assert!(4 * scaled < 3 * plain, "{scaled} {plain}");
        for scaling in [("energy", "0"), ("energy", "2"), ("residual", "0"), ("residual", "1")] {
            let here = here("9", scaling);
            assert_eq!(here, after("9", scaling, "host:1", 0.5), "scaling by a power of two is exact");
            let there = after("9", scaling, "sim", 1.0);
            let is_near = |k: usize| (here[k] - there[k]).abs() <= 1e-10 * here[k];
            assert!(is_near(0) && is_near(1), "{scaling:?}: {here:?} {there:?}");
        }
    }
}
