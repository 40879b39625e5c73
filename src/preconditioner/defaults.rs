//! What options that were not set stand for, by the kind of matrix. `docs/defaults.md` shows what the choice rests on.

use crate::config::{Config, LevelPart};
use crate::context::{Context, LogLevel};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::scalar::Precision;
use crate::sparse::Block;

/// Couplings are compared by this threshold, the default of classical strength.
const THETA: f64 = 0.25;

/// On a GPU aggregation pays up to this many entries in a row; in longer ones the products of a smoothed prolongator take more time than they save.
const SHORT_ROWS: usize = 16;

/// Levels in f32 pay where the matrix does not stay in caches, with at least so many stored values.
const LARGE: usize = 1 << 20;

/// Options of the components of AMG. Who sets one of them chooses among classical components, as `auto` then says.
const COMPONENTS: &[&str] =
    &["amg.coarsening.", "amg.strength.", "amg.interpolation.", "amg.functions", "amg.smoother.", "amg.cycle."];

/// Krylov methods for symmetric positive definite matrices.
const CG: &[&str] = &["auto", "cg", "fcg"];

/// Of these, the ones that allow a preconditioner to be rounded differently in each application.
const FLEXIBLE_CG: &[&str] = &["auto", "fcg"];

/// The options with what is left open filled in. `in_solver` tells whether a solver of the library is around the hierarchy, which widens formats that
/// lose precision.
pub(super) fn effective(context: &Context, matrix: &Matrix, config: &Config, in_solver: bool) -> Result<Config> {
    let mut effective = config.clone();
    let method = config.text("solver.type");
    let is_scalar = matrix.block() == Block::SCALAR && matrix.near_null_space().is_none();
    let is_short = context.gpu().is_none() || matrix.entries() <= SHORT_ROWS * matrix.rows();
    let is_open =
        is_scalar && is_short && CG.contains(&&*method) && !COMPONENTS.iter().any(|prefix| config.has_set(prefix));
    if is_open && matrix.rows() == matrix.cols() && matrix.has_uniform_couplings(context, THETA)? {
        context.log(LogLevel::Debug, || "all couplings are strong: smoothed aggregation with Chebyshev".to_string());
        effective.set_str("amg.coarsening.type", "mis2")?;
        effective.set_str("amg.smoother.type", "chebyshev")?;
    }
    if config.text("precision.preset") == "default" {
        let narrow = in_solver
            && matrix.entries() >= LARGE
            && matrix.precision() == Precision::F64
            && FLEXIBLE_CG.contains(&&*method);
        let has_parts = LevelPart::ALL.iter().any(|part| config.has_set(part.key()));
        effective.set_str("precision.preset", if narrow && !has_parts { "single" } else { "input" })?;
    }
    Ok(effective)
}
