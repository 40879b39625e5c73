//! Structured grids that nobody named: where the rows of a matrix are those of a stencil and multigrid on its grid suits it, a solver works with a
//! copy of the matrix as a stencil.

use super::{Solver, State};
use crate::backend::common::Symmetry;
use crate::context::LogLevel;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::preconditioner::Method;
use crate::preconditioner::defaults::{Options, suits_grid};
use std::sync::Arc;
use std::time::Instant;

/// The copy of the caller's matrix as a stencil.
pub(super) struct GridCopy {
    pub matrix: Arc<Matrix>,
    /// What a pass over it has found.
    pub symmetry: Symmetry,
    /// Options that suit its coefficients.
    pub options: Options,
    /// Time of the last set-up or update.
    pub seconds: f64,
}

impl GridCopy {
    /// What the report says of the choice.
    pub fn choice(&self) -> String {
        let dims = self.matrix.stencil().map_or([0; 3], |stencil| stencil.grid.dims);
        let [nx, ny, nz] = dims;
        let sweeps = if self.options.is_empty() { "" } else { "; its coefficients are rough, which takes two sweeps" };
        format!("multigrid on a grid of {nx} x {ny} x {nz} cells, which the rows of the matrix show{sweeps}")
    }
}

impl State {
    /// The copy of the caller's matrix that is solved with instead, where there is one.
    pub(super) fn copy(&self) -> Option<&Arc<Matrix>> {
        let reordered = self.order.as_ref().and_then(|order| order.copy.as_ref()).map(|(copy, _)| copy);
        self.grid.as_ref().map(|grid| &grid.matrix).or(reordered)
    }
}

impl Solver {
    /// The copy of a matrix as a stencil, where its rows show a grid and the options ask for one or leave the components open. None for most matrices,
    /// after a look at some of their rows.
    pub(super) fn grid_copy(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<GridCopy>> {
        let is_alone = self.operator.is_none() && self.preconditioner_matrix.is_none();
        let may = self.method() == Some(Method::Amg) && is_alone && self.config.text("amg.reorder") != "on";
        let Some(matrix) = matrix.filter(|_| may) else { return Ok(None) };
        let (start, is_asked) = (Instant::now(), self.config.text("amg.type") == "structured");
        for (stencil, options) in suits_grid(&self.context, matrix, &self.config)? {
            let Some(copy) = matrix.as_stencil(&self.context, stencil)? else { continue };
            let symmetry = copy.symmetry(&self.context)?;
            if !is_asked && !symmetry.is_symmetric_in(copy.precision()) {
                return Ok(None);
            }
            let found = GridCopy { matrix: Arc::new(copy), symmetry, options, seconds: start.elapsed().as_secs_f64() };
            self.context.log(LogLevel::Info, || found.choice());
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Takes over new values of the caller's matrix, which were checked, in the copy as a stencil.
    pub(super) fn update_grid_copy(&self, state: &mut State) -> Result<()> {
        let (Some(callers), Some(grid)) = (&state.matrix, &mut state.grid) else { return Ok(()) };
        let start = Instant::now();
        grid.matrix.update_stencil_copy(callers, &self.context)?;
        grid.seconds = start.elapsed().as_secs_f64();
        Ok(())
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use crate::config::Config;
    use crate::context::Context;
    use crate::error::Status;
    use crate::gallery;
    use crate::matrix::Matrix;
    use crate::solver::{Guess, Solver};
    use std::sync::Arc;

    fn on(context: &Context, name: &str) -> Arc<Matrix> {
        let matrix = gallery::parse(name).unwrap().into_matrix().unwrap();
        Arc::new(if context.gpu().is_some() { matrix.to_device(context).unwrap() } else { matrix })
    }

    const ASKED: &[(&str, &str)] = &[("amg.type", "structured")];

    /// The choice of a set-up, and the iterations of a solve after it, after new values, and after an update.
    fn solved(device: &str, name: &str, options: &[(&str, &str)]) -> (String, [usize; 3]) {
        let context = Context::new(device).unwrap();
        let (matrix, mut config) = (on(&context, name), Config::new());
        options.iter().for_each(|(key, value)| config.set_str(key, value).unwrap());
        let mut solver = Solver::new(&context, &config);
        solver.setup(Some(&matrix)).unwrap();
        let n = matrix.rows();
        let iterations = |solver: &mut Solver, scale: f64| {
            let (b, mut x) = (vec![1.0; n], vec![0.0; n]);
            assert_eq!(solver.solve(&b, &mut x, Guess::Zero).unwrap(), Status::Success, "{name} on {device}");
            let a = gallery::parse(name).unwrap().matrix;
            let (scalar, mut residual) = (a.view().to_scalar().unwrap(), 0.0_f64);
            for i in 0..n {
                let ax: f64 =
                    scalar.view().row_range(i).map(|p| scale * scalar.values[p] * x[scalar.view().col(p)]).sum();
                residual += (1.0 - ax).powi(2);
            }
            assert!((residual / n as f64).sqrt() < 1.1e-8, "{name} on {device}: {residual}");
            solver.report().solves[0].iterations
        };
        let first = iterations(&mut solver, 1.0);
        let values: Vec<f64> = matrix.shared::<f64>().unwrap().values.as_slice().iter().map(|v| 3.0 * v).collect();
        matrix.update_values(values.into()).unwrap();
        let lagged = iterations(&mut solver, 3.0);
        solver.update().unwrap();
        let updated = iterations(&mut solver, 3.0);
        (solver.report().setup_choice, [first, lagged, updated])
    }

    #[test]
    fn laplacians_in_rows_are_solved_on_their_grid() {
        for (name, dims) in
            [("poisson7:22x20x19", "22 x 20 x 19"), ("jumps:21", "21 x 21 x 21"), ("anisotropic:96x87", "96 x 87 x 1")]
        {
            let host = solved("host:2", name, ASKED);
            assert!(host.0.contains(dims), "{}", host.0);
            assert_eq!(solved("sim", name, ASKED), host, "{name}");
            assert!(host.1[0] <= 18 && host.1[2] == host.1[0], "{name}: {:?}", host.1);
        }
    }

    #[test]
    fn an_estimate_bounds_what_is_held_beside_the_rows() {
        for (device, updates) in [("host:2", false), ("host:2", true), ("sim", false)] {
            let (context, mut config) = (Context::new(device).unwrap(), Config::new());
            config.set_str("amg.type", "structured").unwrap();
            let matrix = on(&context, "poisson7:22x20x19");
            let used = || context.gpu().map_or(0, |gpu| gpu.memory().used);
            let before = used();
            let estimate = Solver::memory_estimate(&context, &matrix, &config, updates).unwrap();
            assert_eq!(used(), before, "an estimate leaves nothing behind");
            let mut solver = Solver::new(&context, &config);
            context.gpu().iter().for_each(|gpu| gpu.reset_peak());
            solver.setup(Some(&matrix)).unwrap();
            if updates {
                solver.update().unwrap();
            }
            let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
            solver.solve(&b, &mut x, Guess::Zero).unwrap();
            let held = context.gpu().map_or_else(|| solver.report().bytes, |gpu| gpu.memory().peak - before);
            let ratio = estimate as f64 / held as f64;
            assert!((1.0..=1.3).contains(&ratio), "{device}, updates {updates}: {ratio}");
        }
    }

    #[test]
    fn what_shows_no_grid_is_refused_where_one_is_asked_for() {
        for name in ["shuffled:poisson7:12", "random_m_matrix:900"] {
            let (context, mut config) = (Context::new("host:1").unwrap(), Config::new());
            config.set_str("amg.type", "structured").unwrap();
            let error = Solver::new(&context, &config).setup(Some(&on(&context, name))).unwrap_err();
            assert!(error.message.contains("terrace_matrix_set_grid"), "{}", error.message);
        }
    }

    #[test]
    fn nonsymmetric_matrices_and_blocks_are_on_grids_where_that_is_asked_for() {
        let (choice, _) = solved("host:2", "convection_diffusion:20:epsilon=1", ASKED);
        assert!(choice.contains("20 x 20 x 1"), "{choice}");
        let (choice, _) = solved("host:2", "elasticity:5", ASKED);
        assert!(choice.contains("5 x 6 x 6"), "{choice}");
    }
}
