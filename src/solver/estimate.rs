//! Estimate of the memory of a solver: of its hierarchy, its Krylov vectors and, on request, of what updates store.

use super::direct::{Direct, HISTORY};
use super::grid::GridCopy;
use super::solves::Solves;
use super::{Guess, Solver};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::matrix::Matrix;
use crate::preconditioner::{Held, Inverse};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// Margin for what the report of a factorisation does not count.
const UNCOUNTED: f64 = 1.02;

impl Solver {
    /// Estimated bytes of a solver with these options that is set up for a matrix, and with `updates` also updated. On the host: what
    /// is held then. On a GPU: the most device memory at one time, with copies of vectors of the host. Vectors for several right-hand
    /// sides together count where `solver.columns` is set. From samples as
    /// [`Amg::memory_estimate`](crate::Amg::memory_estimate). Without callbacks, and without the factors of a solve that falls back to a factorisation.
    pub fn memory_estimate(context: &Context, matrix: &Arc<Matrix>, config: &Config, updates: bool) -> Result<usize> {
        matrix.check_not_distributed("an estimate of memory")?;
        Solver::estimate(context, matrix, config, updates, None)
    }

    /// From samples of so many rows where a number is given.
    fn estimate(
        context: &Context,
        matrix: &Arc<Matrix>,
        config: &Config,
        updates: bool,
        rows: Option<usize>,
    ) -> Result<usize> {
        let whole = Solver::new(context, config);
        let is_named = config.choice("solver.type").as_deref() == Some("direct");
        if is_named || whole.lacks_diagonal(matrix)? {
            return whole.direct_bytes(matrix);
        }
        if let Some(GridCopy { matrix: copy, .. }) = whole.grid_copy(Some(matrix))? {
            // The caller's matrix is held beside it on the host, and the copy beside the caller's on a GPU.
            let (structure, values) = matrix.owned_bytes();
            let beside = if context.gpu().is_some() { copy.device_bytes() } else { structure + values };
            return Ok(Solver::estimate(context, &copy, config, updates, rows)? + beside);
        }
        // The method itself stays open: it depends on the levels.
        let mut chosen = whole.effective_config(Some(matrix), None)?;
        chosen.set_str("solver.type", &config.text("solver.type"))?;
        let copy = whole.copy_bytes(matrix)?;
        // The default allows several together, which most callers never solve for.
        let together = if config.has_set("solver.columns") { config.int("solver.columns") } else { 1 };
        let sampled =
            Inverse::estimate_in_solver(whole.method(), context, matrix, &chosen, rows, &|context, sample, config| {
                let mut solver = Solver::new(context, config);
                solver.setup(Some(sample))?;
                if updates {
                    solver.update()?;
                }
                let in_f32 = sample.precision() == Precision::F32 || config.text("solver.precision") == "f32";
                if in_f32 {
                    solver.solve_nothing::<f32>(together)?
                } else {
                    solver.solve_nothing::<f64>(together)?
                }
                Ok(Held { fixed: solver.solves.bytes(), report: solver.try_report()?, has_matrix: true })
            })?;
        Ok(sampled + copy)
    }

    /// A solve for so many right-hand sides of zeros, which allocates what a first solve allocates.
    fn solve_nothing<T: Scalar>(&mut self, right_hand_sides: usize) -> Result<()> {
        let n = self.rows().unwrap_or(0) * right_hand_sides;
        let (b, mut x) = (try_vec(n, T::ZERO)?, try_vec(n, T::ZERO)?);
        self.solve(&b, &mut x, Guess::Zero).map(|_| ())
    }

    /// Bytes of a direct solver, which are on the host.
    fn direct_bytes(&self, matrix: &Matrix) -> Result<usize> {
        if self.context.gpu().is_some() {
            return Ok(0);
        }
        let plan = Direct::plan(&self.context, matrix)?;
        let (structure, values) = matrix.owned_bytes();
        let reports = Solves::try_capacity(HISTORY)?.bytes();
        let held = plan.bytes() + 2 * matrix.rows() * size_of::<f64>();
        Ok((UNCOUNTED * held as f64) as usize + structure + values + reports)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::skip::is_deep;

    /// One problem of each family, so large that a third of it is a sample.
    pub const GALLERY: &[&str] = &[
        "poisson5:60",
        "poisson7:17",
        "poisson9:60",
        "poisson27:14",
        "anisotropic:60",
        "rotated_anisotropic:60",
        "jumps:17",
        "convection_diffusion:60",
        "beam:1",
        "lshape:4",
        "lognormal:20",
        "random_m_matrix:5000",
        "elasticity:9",
        "elasticity_tet:9",
    ];

    fn problem(name: &str) -> Arc<Matrix> {
        Arc::new(gallery::parse(name).unwrap().into_matrix().unwrap())
    }

    /// A solver after set-up, a first update and a first solve.
    fn used(context: &Context, matrix: &Arc<Matrix>, config: &Config, updates: bool) -> Solver {
        let mut solver = Solver::new(context, config);
        solver.setup(Some(matrix)).unwrap();
        if updates {
            solver.update().unwrap();
        }
        solver.solve_nothing::<f64>(1).unwrap();
        solver
    }

    fn check(ratios: impl Iterator<Item = (String, f64)>) {
        let mut wrong = Vec::new();
        for (what, ratio) in ratios {
            println!("{what}: {ratio:.3}");
            if !(1.0..=1.3).contains(&ratio) {
                wrong.push(format!("{what}: {ratio:.3}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn an_estimate_on_the_host_bounds_what_is_held_over_the_gallery() {
        let context = Context::new("host:2").unwrap();
        let cases = GALLERY.iter().enumerate().flat_map(|(p, name)| {
            let (matrix, context) = (problem(name), &context);
            // Two of three presets for each problem.
            let presets = ["poisson", "mixed_precision", ""].into_iter().enumerate();
            presets.filter(move |(k, _)| (p + k) % 3 != 2 || is_deep()).map(move |(k, preset)| {
                // With updates and without them in turn.
                let updates = (p / 3 + k).is_multiple_of(2);
                let mut config = Config::new();
                if !preset.is_empty() {
                    config.load_preset(preset).unwrap();
                }
                // As small in relation to the problem as the usual coarsest level is to a problem of the usual size.
                config.set_int("amg.coarsest.max_rows", 20).unwrap();
                let rows = Some(matrix.rows() / 3);
                let estimate = Solver::estimate(context, &matrix, &config, updates, rows).unwrap();
                let held = used(context, &matrix, &config, updates).report().bytes;
                (format!("{name} {preset:?}, updates {updates}"), estimate as f64 / held as f64)
            })
        });
        check(cases);
    }

    #[test]
    fn an_estimate_on_a_device_bounds_the_peak() {
        let cases = ["poisson7:9", "elasticity:4", "random_m_matrix:800"].into_iter().flat_map(|name| {
            [false, true].into_iter().map(move |updates| {
                let (matrix, config) = (problem(name), Config::new());
                let context = Context::new("sim").unwrap();
                let gpu = context.gpu().unwrap();
                let before = gpu.memory().used;
                let estimate = Solver::memory_estimate(&context, &matrix, &config, updates).unwrap();
                assert_eq!(gpu.memory().used, before, "an estimate leaves nothing behind");
                gpu.reset_peak();
                let _solver = used(&context, &matrix, &config, updates);
                let peak = (gpu.memory().peak - before) as f64;
                (format!("{name}, updates {updates}"), estimate as f64 / peak)
            })
        });
        check(cases);
    }

    /// On the host `tests/allocations/host_memory.rs` compares what an allocator counts.
    #[test]
    fn mixed_precision_holds_less_device_memory_than_f64() {
        let names =
            ["poisson7:9", "elasticity:4", "random_m_matrix:800", "lognormal:6", "convection_diffusion:20", "beam:1"];
        for name in names.into_iter().take(if is_deep() { 6 } else { 5 }) {
            let matrix = problem(name);
            let held = |preset: &str| {
                let mut config = Config::new();
                // The inverse of the coarsest level is in f64 in either case.
                config.set_int("amg.coarsest.max_rows", 50).unwrap();
                if !preset.is_empty() {
                    config.load_preset(preset).unwrap();
                }
                let context = Context::new("sim").unwrap();
                let before = context.gpu().unwrap().memory().used;
                let _solver = used(&context, &matrix, &config, true);
                context.gpu().unwrap().memory().used - before
            };
            let (wide, mixed) = (held(""), held("mixed_precision"));
            println!("{name}: {mixed} of {wide} bytes");
            assert!(mixed < wide, "{name}: {mixed} of {wide} bytes");
        }
    }

    #[test]
    fn a_direct_solver_holds_what_was_estimated() {
        let context = Context::new("host:2").unwrap();
        let mut config = Config::new();
        config.set_str("solver.type", "direct").unwrap();
        let cases = ["poisson7:12", "elasticity:5", "convection_diffusion:40"].into_iter().map(|name| {
            let matrix = problem(name);
            let estimate = Solver::memory_estimate(&context, &matrix, &config, false).unwrap();
            let mut direct = Solver::new(&context, &config);
            direct.setup(Some(&matrix)).unwrap();
            (name.to_string(), estimate as f64 / direct.report().bytes as f64)
        });
        check(cases);
    }
}
