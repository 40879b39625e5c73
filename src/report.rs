//! Report of set-up and solve: a snapshot, read by key. The C ABI, JSON and the printed summary use one table.

mod hint;
mod reordering;

use crate::backend::OwnPart;
use crate::comm::Spread;
use crate::context::Context;
use crate::error::Status;
use crate::gpu::{Gpu, Usage};
use crate::scalar::Precision;
use serde_json::Value as Json;
use std::fmt::{self, Write};

pub use hint::{Factors, Hint, Remedies};
pub use reordering::Reordering;

/// One level of a hierarchy.
#[derive(Clone, Debug)]
pub struct LevelReport {
    /// Scalar rows.
    pub rows: usize,
    /// Stored scalar values of the matrix.
    pub nonzeros: usize,
    /// Bytes that the library holds for the level: matrix, transfers to the next level, smoother, vectors.
    pub bytes: usize,
    /// Format of the matrix, like `csr` or `bsr3x3`.
    pub format: String,
    /// Storage of the matrix.
    pub matrix_precision: Precision,
    /// Working vectors.
    pub vector_precision: Precision,
    /// Storage of interpolation and restriction to the next level; the matrix's on the coarsest.
    pub transfer_precision: Precision,
    /// Storage of the smoother's data.
    pub smoother_precision: Precision,
    /// Smoother, or the solver of the coarsest level.
    pub smoother: String,
    /// Pre-smoothing sweeps. A coarsest level that is smoothed does these, then the post-smoothing sweeps.
    pub pre_sweeps: usize,
    /// Post-smoothing sweeps, in the opposite direction.
    pub post_sweeps: usize,
    /// Rows of the factors of an FSAI smoother on whose pattern the matrix is not positive definite.
    pub breakdowns: usize,
    /// Reason for the number formats, if the options left them open; else empty.
    pub precision_reason: String,
    /// What this rank has of the matrix, where it is over ranks.
    pub part: Option<OwnPart>,
}

/// One right-hand side of a solve.
#[derive(Clone, Debug)]
pub struct SolveReport {
    /// How it ended.
    pub status: Status,
    /// Iterations done, and solves with factors.
    pub iterations: usize,
    /// Solves with the factors of the matrix among them, refinement included.
    pub direct_solves: usize,
    /// Whether they follow iterations of a Krylov method.
    pub fell_back: bool,
    /// Whether the tolerance was reached.
    pub converged: bool,
    /// Norm of the residual recomputed from the solution, over the norm of the right-hand side (or absolute when that
    /// is zero).
    pub true_residual: f64,
    /// Residual norms over the same, from the initial guess on.
    pub history: Vec<f64>,
    /// What may help where the tolerance was not reached.
    pub hint: Hint,
}

impl Default for SolveReport {
    fn default() -> SolveReport {
        SolveReport {
            status: Status::NotAttempted,
            iterations: 0,
            direct_solves: 0,
            fell_back: false,
            converged: false,
            true_residual: f64::NAN,
            history: Vec::new(),
            hint: Hint::None,
        }
    }
}

/// Seconds spent in the named phases.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// Phase and seconds, in order of first appearance.
    pub seconds: Vec<(&'static str, f64)>,
}

impl Phases {
    /// Adds to a phase.
    pub fn add(&mut self, phase: &'static str, seconds: f64) {
        match self.seconds.iter_mut().find(|(name, _)| *name == phase) {
            Some((_, total)) => *total += seconds,
            None => self.seconds.push((phase, seconds)),
        }
    }

    /// Runs `work` and adds its time to a phase.
    pub fn time<R>(&mut self, phase: &'static str, work: impl FnOnce() -> R) -> R {
        let start = std::time::Instant::now();
        let result = work();
        self.add(phase, start.elapsed().as_secs_f64());
        result
    }

    /// Seconds of a phase, 0 when it did not happen.
    pub fn get(&self, phase: &str) -> f64 {
        self.seconds.iter().find(|(name, _)| *name == phase).map_or(0.0, |(_, s)| *s)
    }
}

/// The sparse factorisation of a direct solver.
#[derive(Clone, Debug)]
pub struct Factorisation {
    /// Its name, such as sparse Cholesky.
    pub method: &'static str,
    /// Rows of the matrix.
    pub rows: usize,
    /// Negative eigenvalues of a symmetric matrix, by its inertia.
    pub negative: usize,
    /// Entries of the triangular factors.
    pub entries: usize,
    /// Bytes of matrix, factors and work vectors.
    pub bytes: usize,
}

impl Factorisation {
    /// One line for people.
    pub fn to_text(&self) -> String {
        let Factorisation { method, rows, negative, entries, .. } = self;
        let per_row = *entries as f64 / (*rows).max(1) as f64;
        let mut line = format!("{method}: {entries} entries in the factors, {per_row:.1} per row");
        if *negative == *rows && *negative > 0 {
            line += "; the matrix is negative definite";
        } else if *negative > 0 {
            let _ = write!(line, "; the matrix is indefinite, with {negative} negative eigenvalues");
        }
        line
    }
}

/// The factor of an FSAI preconditioner.
#[derive(Clone, Debug)]
pub struct FsaiReport {
    /// Rows of the factor G.
    pub rows: usize,
    /// Entries of G.
    pub nonzeros: usize,
    /// Its storage.
    pub precision: Precision,
    /// Rows on whose pattern the matrix is not positive definite.
    pub breakdowns: usize,
}

impl FsaiReport {
    /// One line for people.
    pub fn to_text(&self) -> String {
        let FsaiReport { rows, nonzeros, precision, breakdowns } = self;
        let (per_row, name) = (*nonzeros as f64 / (*rows).max(1) as f64, precision.name());
        let mut line = format!("{nonzeros} entries in the factor, {per_row:.1} per row, in {name}");
        if *breakdowns > 0 {
            let _ = write!(line, "; {breakdowns} rows broke down");
        }
        line
    }
}

/// A snapshot of what was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Levels, finest first; empty without AMG.
    pub levels: Vec<LevelReport>,
    /// The factor of an FSAI preconditioner.
    pub fsai: Option<FsaiReport>,
    /// Phases of set-up: `total` and its parts.
    pub setup: Phases,
    /// Where set-up ran; with a GPU, the reason for the host, or how often the host waited for the device.
    pub setup_place: String,
    /// Which components of AMG the matrix has led to where no option names any, and why.
    pub setup_choice: String,
    /// Phases of the last solve: `total` and its parts.
    pub solve: Phases,
    /// The factorisation of a direct solver, or of `auto` after the Krylov method failed.
    pub factorisation: Option<Factorisation>,
    /// Krylov method of the last solve, with its precision; empty for a hierarchy alone.
    pub solver: String,
    /// The right-hand sides of the last solve.
    pub solves: Vec<SolveReport>,
    /// Device of the context.
    pub device: &'static str,
    /// Threads of the context.
    pub threads: usize,
    /// Bytes that the library holds for hierarchy and solver together.
    pub bytes: usize,
    /// Device memory of the context, with all that was made from it; nothing on the host.
    pub device_memory: Usage,
    /// Promotions to wider formats since set-up, with their reasons.
    pub promotions: Vec<String>,
    /// Levels whose coarse unknowns the last update kept; none before the first.
    pub update_kept_levels: usize,
    /// Whether the last update set up again from the level after these.
    pub update_anew: bool,
    /// Changes of the values of the matrix since the last set-up or update.
    pub preconditioner_age: u64,
    /// What set-up did about the order of the unknowns; nothing where it did not look.
    pub reordering: Option<Reordering>,
    /// How a matrix is spread over ranks.
    pub ranks: Option<RanksReport>,
}

/// How a matrix is spread over ranks.
#[derive(Clone, Debug, Default)]
pub struct RanksReport {
    /// Number of ranks.
    pub count: usize,
    /// Rows of each.
    pub rows: Spread,
    /// Stored values of the rows of each.
    pub nonzeros: Spread,
    /// Elements that each receives for a product with the matrix.
    pub halo: Spread,
    /// Ranks that it receives them from.
    pub neighbours: Spread,
    /// Bytes that the library holds on each.
    pub bytes: Spread,
    /// The levels.
    pub levels: Vec<LevelSpread>,
}

/// How a level is spread over ranks.
#[derive(Clone, Debug, Default)]
pub struct LevelSpread {
    /// Rows of each rank.
    pub rows: Spread,
    /// Stored values of the matrix.
    pub nonzeros: Spread,
    /// Bytes that it receives for a product with the matrix.
    pub received: Spread,
    /// Ranks that it receives them from.
    pub neighbours: Spread,
    /// Bytes that the library holds for the level.
    pub bytes: Spread,
}

impl Report {
    /// How a level is spread over ranks; zeros without ranks.
    fn spread(&self, level: usize) -> LevelSpread {
        self.ranks.as_ref().and_then(|ranks| ranks.levels.get(level)).cloned().unwrap_or_default()
    }
}

/// What the index of a fact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The index is ignored.
    Whole,
    /// Levels, 0 the finest.
    Level,
    /// Right-hand sides of the last solve.
    RightHandSide,
}

/// A value of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Whole number.
    Int(i64),
    /// Real number.
    Real(f64),
    /// Text.
    Text(String),
}

/// One row of the table of facts.
pub struct FactRow {
    /// Key.
    pub key: &'static str,
    /// What its index counts.
    pub scope: Scope,
    /// Meaning and unit.
    pub help: &'static str,
    get: fn(&Report, usize) -> Fact,
}

macro_rules! facts {
    ($($key:literal, $scope:ident, $help:literal, |$r:ident, $i:ident| $kind:ident($value:expr);)*) => {
        /// Everything that a report can be asked for.
        pub const FACTS: &[FactRow] = &[
            $(FactRow {
                key: $key, scope: Scope::$scope, help: $help, get: |$r, $i| { let _ = $i; Fact::$kind($value) },
            },)*
        ];
    };
}

#[rustfmt::skip]
facts! {
    "levels", Whole, "number of levels", |r, i| Int(r.levels.len() as i64);
    "operator_complexity", Whole, "stored values of all level matrices over those of the finest", |r, i| Real(r.operator_complexity());
    "grid_complexity", Whole, "rows of all levels over those of the finest", |r, i| Real(r.grid_complexity());
    "bytes", Whole, "bytes that the library holds for hierarchy and solver, with its copy of the solver's matrix; lent arrays do not count", |r, i| Int(r.bytes as i64);
    "device_bytes", Whole, "bytes of device memory that the context holds, with all that was made from it; 0 on the host", |r, i| Int(r.device_memory.used as i64);
    "device_peak_bytes", Whole, "the most of them at one time", |r, i| Int(r.device_memory.peak as i64);
    "device", Whole, "device of the context", |r, i| Text(r.device.to_string());
    "threads", Whole, "threads of the context", |r, i| Int(r.threads as i64);
    "solver", Whole, "Krylov method, or direct, and its precision", |r, i| Text(r.solver.clone());
    "factorisation", Whole, "how the matrix was factorised by solver.type direct, or by auto after or instead of iterations of the Krylov method, with what the pivots tell about it; empty where it was not", |r, i| Text(r.factorisation.as_ref().map_or_else(String::new, Factorisation::to_text));
    "factor_nonzeros", Whole, "entries of the triangular factors; 0 where the matrix was not factorised", |r, i| Int(r.factorisation.as_ref().map_or(0, |f| f.entries as i64));
    "fsai_nonzeros", Whole, "entries of the factors of an FSAI preconditioner; 0 without one", |r, i| Int(r.fsai.as_ref().map_or(0, |f| f.nonzeros as i64));
    "fsai_precision", Whole, "storage of these factors; empty without one", |r, i| Text(r.fsai.as_ref().map_or_else(String::new, |f| f.precision.name().to_string()));
    "fsai_breakdowns", Whole, "rows of these factors, or of those of the smoothers of all levels, on whose pattern the matrix is not positive definite, or has no pivots if it is not symmetric: with a pattern that is given, as in updates, such a row is that of its diagonal; an adaptive one keeps the entries that it had", |r, i| Int(r.fsai_breakdowns() as i64);
    "right_hand_sides", Whole, "right-hand sides of the last solve", |r, i| Int(r.solves.len() as i64);
    "setup_seconds", Whole, "whole set-up or update", |r, i| Real(r.setup.get("total"));
    "promotions", Whole, "what precision auto gave wider formats since set-up, and why, one to a line", |r, i| Text(r.promotions.join("\n"));
    "update_kept_levels", Whole, "levels whose coarse unknowns the last update kept: all but the coarsest, or with amg.update.coarsening recheck those above the first for which the new values lead to others; 0 before the first update", |r, i| Int(r.update_kept_levels as i64);
    "update_anew", Whole, "1 when the last update set up anew from the level after these on, else 0", |r, i| Int(i64::from(r.update_anew));
    "preconditioner_age", Whole, "changes of the values of the matrix since the last set-up or update of the preconditioner: calls of terrace_matrix_update_values, and solves that found borrowed values changed in place", |r, i| Int(r.preconditioner_age as i64);
    "setup_choice", Whole, "which components of AMG the matrix has led to, and why; empty where an option names one", |r, i| Text(r.setup_choice.clone());
    "setup_place", Whole, "where the hierarchy was computed: host, with the reason when the context is on a GPU, or device, with how often the host waited for it", |r, i| Text(r.setup_place.clone());
    "reorder", Whole, "whether the unknowns were renumbered (amg.reorder), with the locality before and after; empty where set-up did not look", |r, i| Text(r.reordering.as_ref().map_or_else(String::new, Reordering::to_text));
    "reordered", Whole, "1 where the unknowns were renumbered, else 0", |r, i| Int(i64::from(r.reordering.as_ref().is_some_and(|k| k.is_renumbered)));
    "locality_before", Whole, "bytes of x that a chunk of 1024 rows touches for each row in the caller's order, in cache lines of 64 bytes; 0 where set-up did not look", |r, i| Real(r.reordering.as_ref().map_or(0.0, |k| k.before));
    "locality_after", Whole, "the same in the order of clusters, whether that was chosen or not; 0 where it was not computed", |r, i| Real(r.reordering.as_ref().and_then(|k| k.after).unwrap_or(0.0));
    "ranks", Whole, "ranks that have rows of the matrix; 1 without a communicator", |r, i| Int(r.ranks.as_ref().map_or(1, |k| k.count as i64));
    "rank_rows_min", Whole, "the fewest rows of the matrix on a rank; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.rows.min));
    "rank_rows_mean", Whole, "the mean of the rows of the matrix on a rank; 0 without ranks", |r, i| Real(r.ranks.as_ref().map_or(0.0, |k| k.rows.mean));
    "rank_rows_max", Whole, "the most rows of the matrix on a rank; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.rows.max));
    "rank_nonzeros_min", Whole, "the fewest stored values of these rows; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.nonzeros.min));
    "rank_nonzeros_mean", Whole, "the mean of the stored values of these rows; 0 without ranks", |r, i| Real(r.ranks.as_ref().map_or(0.0, |k| k.nonzeros.mean));
    "rank_nonzeros_max", Whole, "the most stored values of these rows; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.nonzeros.max));
    "rank_halo_min", Whole, "the fewest elements that a rank receives for a product with the matrix; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.halo.min));
    "rank_halo_mean", Whole, "the mean of the elements that a rank receives for a product with the matrix; 0 without ranks", |r, i| Real(r.ranks.as_ref().map_or(0.0, |k| k.halo.mean));
    "rank_halo_max", Whole, "the most elements that a rank receives for a product with the matrix; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.halo.max));
    "rank_neighbours_min", Whole, "the fewest ranks that it receives them from; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.neighbours.min));
    "rank_neighbours_mean", Whole, "the mean of the ranks that it receives them from; 0 without ranks", |r, i| Real(r.ranks.as_ref().map_or(0.0, |k| k.neighbours.mean));
    "rank_neighbours_max", Whole, "the most ranks that it receives them from; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.neighbours.max));
    "rank_bytes_min", Whole, "the fewest bytes that the library holds on a rank after set-up; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.bytes.min));
    "rank_bytes_mean", Whole, "the mean of the bytes that the library holds on a rank after set-up; 0 without ranks", |r, i| Real(r.ranks.as_ref().map_or(0.0, |k| k.bytes.mean));
    "rank_bytes_max", Whole, "the most bytes that the library holds on a rank after set-up; 0 without ranks", |r, i| Int(r.ranks.as_ref().map_or(0, |k| k.bytes.max));
    "setup_reorder_seconds", Whole, "measure of locality, and renumbering", |r, i| Real(r.setup.get("reorder"));
    "setup_grid_seconds", Whole, "search for a grid that the rows of the matrix show, and its copy as a stencil", |r, i| Real(r.setup.get("grid"));
    "setup_plan_seconds", Whole, "choice of number formats", |r, i| Real(r.setup.get("plan"));
    "setup_strength_seconds", Whole, "strength of connection", |r, i| Real(r.setup.get("strength"));
    "setup_coarsen_seconds", Whole, "choice of coarse unknowns", |r, i| Real(r.setup.get("coarsen"));
    "setup_interpolation_seconds", Whole, "interpolation and its transpose", |r, i| Real(r.setup.get("interpolation"));
    "setup_galerkin_seconds", Whole, "coarse matrices", |r, i| Real(r.setup.get("galerkin"));
    "setup_smoother_seconds", Whole, "smoothers", |r, i| Real(r.setup.get("smoother"));
    "setup_fsai_seconds", Whole, "factors of an FSAI preconditioner", |r, i| Real(r.setup.get("fsai"));
    "setup_coarsest_seconds", Whole, "factorisation of the coarsest level", |r, i| Real(r.setup.get("coarsest"));
    "solve_seconds", Whole, "whole last solve", |r, i| Real(r.solve.get("total"));
    "solve_operator_seconds", Whole, "products with the matrix in the Krylov method", |r, i| Real(r.solve.get("operator"));
    "solve_preconditioner_seconds", Whole, "preconditioner applications", |r, i| Real(r.solve.get("preconditioner"));
    "solve_factorisation_seconds", Whole, "factorisation after the Krylov method failed", |r, i| Real(r.solve.get("factorisation"));
    "status", RightHandSide, "how its solve ended, a number of the status table: TERRACE_NOT_ATTEMPTED where an error of another kind than numeric ended the call before it", |r, i| Int(i64::from(r.solves[i].status.code()));
    "iterations", RightHandSide, "iterations of the Krylov method, and solves with the factors of the matrix, refinement included", |r, i| Int(r.solves[i].iterations as i64);
    "direct_solves", RightHandSide, "solves with the factors of the matrix among them: all with solver.type direct, some where auto turned from the Krylov method to a factorisation", |r, i| Int(r.solves[i].direct_solves as i64);
    "method", RightHandSide, "what it was solved by: the Krylov method, direct, or both, as in \"cg, then direct\"", |r, i| Text(r.method(i));
    "converged", RightHandSide, "1 when the tolerance was reached, else 0", |r, i| Int(i64::from(r.solves[i].converged));
    "true_residual", RightHandSide, "norm of b - A x, recomputed, over the norm of b", |r, i| Real(r.solves[i].true_residual);
    "rows", Level, "rows", |r, i| Int(r.levels[i].rows as i64);
    "nonzeros", Level, "stored values of the matrix", |r, i| Int(r.levels[i].nonzeros as i64);
    "level_bytes", Level, "bytes that the library holds for the level", |r, i| Int(r.levels[i].bytes as i64);
    "format", Level, "storage format of the matrix", |r, i| Text(r.levels[i].format.clone());
    "matrix_precision", Level, "storage of the matrix", |r, i| Text(r.levels[i].matrix_precision.name().to_string());
    "vector_precision", Level, "working vectors", |r, i| Text(r.levels[i].vector_precision.name().to_string());
    "transfer_precision", Level, "storage of interpolation and restriction to the next level; that of the matrix on the coarsest level, which has none", |r, i| Text(r.levels[i].transfer_precision.name().to_string());
    "smoother_precision", Level, "storage of the smoother's data", |r, i| Text(r.levels[i].smoother_precision.name().to_string());
    "precision_reason", Level, "why the formats are what they are, where the options left them open; else empty", |r, i| Text(r.levels[i].precision_reason.clone());
    "smoother", Level, "smoother, or solver of the coarsest level", |r, i| Text(r.levels[i].smoother.clone());
    "level_rank_rows_min", Level, "the least on a rank of the rows of the level; 0 without ranks", |r, i| Int(r.spread(i).rows.min);
    "level_rank_rows_mean", Level, "the mean over ranks of the rows of the level; 0 without ranks", |r, i| Real(r.spread(i).rows.mean);
    "level_rank_rows_max", Level, "the most on a rank of the rows of the level; 0 without ranks", |r, i| Int(r.spread(i).rows.max);
    "level_rank_nonzeros_min", Level, "the least on a rank of the stored values of its rows of the matrix; 0 without ranks", |r, i| Int(r.spread(i).nonzeros.min);
    "level_rank_nonzeros_mean", Level, "the mean over ranks of the stored values of its rows of the matrix; 0 without ranks", |r, i| Real(r.spread(i).nonzeros.mean);
    "level_rank_nonzeros_max", Level, "the most on a rank of the stored values of its rows of the matrix; 0 without ranks", |r, i| Int(r.spread(i).nonzeros.max);
    "level_rank_received_bytes_min", Level, "the least on a rank of the bytes that it receives for a product with the matrix of the level; 0 without ranks", |r, i| Int(r.spread(i).received.min);
    "level_rank_received_bytes_mean", Level, "the mean over ranks of the bytes that it receives for a product with the matrix of the level; 0 without ranks", |r, i| Real(r.spread(i).received.mean);
    "level_rank_received_bytes_max", Level, "the most on a rank of the bytes that it receives for a product with the matrix of the level; 0 without ranks", |r, i| Int(r.spread(i).received.max);
    "level_rank_neighbours_min", Level, "the least on a rank of the ranks that it receives them from; 0 without ranks", |r, i| Int(r.spread(i).neighbours.min);
    "level_rank_neighbours_mean", Level, "the mean over ranks of the ranks that it receives them from; 0 without ranks", |r, i| Real(r.spread(i).neighbours.mean);
    "level_rank_neighbours_max", Level, "the most on a rank of the ranks that it receives them from; 0 without ranks", |r, i| Int(r.spread(i).neighbours.max);
    "level_rank_bytes_min", Level, "the least on a rank of the bytes that the library holds for the level there; 0 without ranks", |r, i| Int(r.spread(i).bytes.min);
    "level_rank_bytes_mean", Level, "the mean over ranks of the bytes that the library holds for the level there; 0 without ranks", |r, i| Real(r.spread(i).bytes.mean);
    "level_rank_bytes_max", Level, "the most on a rank of the bytes that the library holds for the level there; 0 without ranks", |r, i| Int(r.spread(i).bytes.max);
    "pre_sweeps", Level, "sweeps before the coarse correction, or the first half of them where a coarsest level is swept; 0 where it is factorised", |r, i| Int(r.levels[i].pre_sweeps as i64);
    "post_sweeps", Level, "sweeps after the coarse correction, or the second half", |r, i| Int(r.levels[i].post_sweeps as i64);
}

impl Report {
    /// The report of a context before any set-up.
    pub(crate) fn of(context: &Context) -> Report {
        let device_memory = context.gpu().map(Gpu::memory).unwrap_or_default();
        Report { device: context.device().name(), threads: context.threads(), device_memory, ..Report::default() }
    }

    /// A fact, or `None` when the key is unknown or the index is out of range.
    pub fn fact(&self, key: &str, index: usize) -> Option<Fact> {
        let row = FACTS.iter().find(|row| row.key == key)?;
        (index < self.count(row.scope)).then(|| (row.get)(self, index))
    }

    /// How many indices a scope has here.
    pub fn count(&self, scope: Scope) -> usize {
        match scope {
            Scope::Whole => 1,
            Scope::Level => self.levels.len(),
            Scope::RightHandSide => self.solves.len(),
        }
    }

    /// What right-hand side `i` was solved by.
    pub fn method(&self, i: usize) -> String {
        let krylov = self.solver.split(' ').next().unwrap_or_default();
        match &self.solves[i] {
            SolveReport { fell_back: true, .. } => format!("{krylov}, then direct"),
            SolveReport { direct_solves: 0, .. } => krylov.to_string(),
            _ => "direct".to_string(),
        }
    }

    /// Stored values of all level matrices.
    pub(crate) fn nonzeros(&self) -> usize {
        self.levels.iter().map(|l| l.nonzeros).sum()
    }

    /// Rows of the factors of FSAI, or of its smoothers on all levels, on whose pattern the matrix is not positive definite.
    pub fn fsai_breakdowns(&self) -> usize {
        let of_levels = self.levels.iter().map(|level| level.breakdowns).sum();
        self.fsai.as_ref().map_or(of_levels, |fsai| fsai.breakdowns)
    }

    /// Stored values of all level matrices over those of the finest.
    pub fn operator_complexity(&self) -> f64 {
        ratio_to_first(self.levels.iter().map(|l| l.nonzeros))
    }

    /// Rows of all levels over those of the finest.
    pub fn grid_complexity(&self) -> f64 {
        ratio_to_first(self.levels.iter().map(|l| l.rows))
    }

    /// All facts and histories as one JSON object.
    pub fn to_json(&self) -> String {
        text_of(|out| self.write_json(out))
    }

    /// Writes [`Report::to_json`]. It allocates for one fact at a time, so that texts of any length need no memory.
    pub fn write_json(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_char('{')?;
        self.write_facts(out, Scope::Whole, 0)?;
        out.write_str(",\"level\":[")?;
        for i in 0..self.levels.len() {
            out.write_str(if i == 0 { "{" } else { ",{" })?;
            self.write_facts(out, Scope::Level, i)?;
            out.write_char('}')?;
        }
        out.write_str("],\"right_hand_side\":[")?;
        for (i, solve) in self.solves.iter().enumerate() {
            out.write_str(if i == 0 { "{" } else { ",{" })?;
            self.write_facts(out, Scope::RightHandSide, i)?;
            out.write_str(",\"history\":[")?;
            for (k, norm) in solve.history.iter().enumerate() {
                write!(out, "{}{}", if k == 0 { "" } else { "," }, Json::from(*norm))?;
            }
            out.write_str("]}")?;
        }
        out.write_str("]}")
    }

    /// Writes the facts of a scope as members of an object.
    fn write_facts(&self, out: &mut dyn Write, scope: Scope, index: usize) -> fmt::Result {
        for (i, row) in FACTS.iter().filter(|row| row.scope == scope).enumerate() {
            let value = match (row.get)(self, index) {
                Fact::Int(v) => Json::from(v),
                Fact::Real(v) => Json::from(v),
                Fact::Text(v) => Json::from(v),
            };
            write!(out, "{}\"{}\":{value}", if i == 0 { "" } else { "," }, row.key)?;
        }
        Ok(())
    }

    /// A summary for people: levels, complexities, iterations, times.
    pub fn to_text(&self) -> String {
        text_of(|out| self.write_text(out))
    }

    /// Writes [`Report::to_text`], with memory for a line at a time.
    pub fn write_text(&self, out: &mut dyn Write) -> fmt::Result {
        if !self.levels.is_empty() {
            writeln!(
                out,
                "{:>5} {:>12} {:>14} {:>9} {:>7} {:>22} {:>10} {:>7}  smoother",
                "level", "rows", "nonzeros", "per row", "format", "precision A/v/P/S", "MiB", "sweeps"
            )?;
        }
        for (i, l) in self.levels.iter().enumerate() {
            let precision = [l.matrix_precision, l.vector_precision, l.transfer_precision, l.smoother_precision];
            writeln!(
                out,
                "{:>5} {:>12} {:>14} {:>9.1} {:>7} {:>22} {:>10.2} {:>7}  {}",
                i,
                l.rows,
                l.nonzeros,
                l.nonzeros as f64 / l.rows.max(1) as f64,
                l.format,
                precision.map(Precision::name).join("/"),
                mebibytes(l.bytes),
                format!("{}+{}", l.pre_sweeps, l.post_sweeps),
                l.smoother
            )?;
        }
        if !self.levels.is_empty() {
            writeln!(
                out,
                "operator complexity {:.3}, grid complexity {:.3}",
                self.operator_complexity(),
                self.grid_complexity()
            )?;
        }
        if !self.setup_choice.is_empty() {
            writeln!(out, "auto: {}", self.setup_choice)?;
        }
        for (i, l) in self.levels.iter().enumerate().filter(|(_, l)| !l.precision_reason.is_empty()) {
            writeln!(out, "level {i}: {}", l.precision_reason)?;
        }
        if let Some(reordering) = &self.reordering {
            writeln!(out, "{}", reordering.to_text())?;
        }
        if let Some(fsai) = &self.fsai {
            writeln!(out, "FSAI: {}", fsai.to_text())?;
        }
        if let Some(factorisation) = &self.factorisation {
            writeln!(out, "{}", factorisation.to_text())?;
        }
        for line in &self.promotions {
            writeln!(out, "{line}")?;
        }
        if self.update_anew {
            writeln!(out, "the last update set up anew from level {} on", self.update_kept_levels)?;
        }
        for (i, s) in self.solves.iter().enumerate() {
            let method = self.method(i);
            writeln!(
                out,
                "{} right-hand side {i}: {} iterations, {}, true relative residual {:.3e}",
                if self.solver.starts_with(&method) { &self.solver } else { &method },
                s.iterations,
                match s.status {
                    Status::Success => "converged",
                    Status::NotConverged => "not converged",
                    Status::Stagnated => "stagnated",
                    Status::Diverged => "diverged",
                    Status::NotAttempted => "not attempted",
                    Status::Stopped => "stopped by the monitor",
                    _ => "failed",
                },
                s.true_residual
            )?;
        }
        write!(out, "set-up {:.4} s", self.setup.get("total"))?;
        if !self.solves.is_empty() {
            write!(out, ", solve {:.4} s", self.solve.get("total"))?;
        }
        writeln!(out, ", {:.2} MiB, {} with {} threads", mebibytes(self.bytes), self.device, self.threads)?;
        if let Some(ranks) = &self.ranks {
            let told = |what: &str, of: &Spread| format!("{what} {} to {}, mean {:.0}", of.min, of.max, of.mean);
            writeln!(
                out,
                "{} ranks: {}; {}; {}; {}; {}",
                ranks.count,
                told("rows", &ranks.rows),
                told("nonzeros", &ranks.nonzeros),
                told("halo", &ranks.halo),
                told("neighbours", &ranks.neighbours),
                told("bytes", &ranks.bytes)
            )?;
        }
        let Usage { used, peak, .. } = self.device_memory;
        if peak > 0 {
            let (used, peak) = (mebibytes(used), mebibytes(peak));
            writeln!(out, "device memory of the context: {used:.2} MiB, at most {peak:.2} MiB")?;
        }
        Ok(())
    }
}

/// What is written, as a text.
fn text_of(write: impl FnOnce(&mut dyn Write) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a text takes everything");
    text
}

fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn ratio_to_first(counts: impl Iterator<Item = usize>) -> f64 {
    let counts: Vec<usize> = counts.collect();
    match counts.first() {
        Some(&first) if first > 0 => counts.iter().sum::<usize>() as f64 / first as f64,
        _ => 0.0,
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_and_indices_have_no_fact() {
        let report = Report { solves: vec![SolveReport { iterations: 3, ..Default::default() }], ..Default::default() };
        assert_eq!(report.fact("iterations", 0), Some(Fact::Int(3)));
        assert_eq!(report.fact("iterations", 1), None);
        assert_eq!(report.fact("rows", 0), None);
        assert_eq!(report.fact("nonsense", 0), None);
    }

    #[test]
    fn keys_are_unique() {
        for (i, row) in FACTS.iter().enumerate() {
            assert!(FACTS[..i].iter().all(|other| other.key != row.key), "{}", row.key);
        }
    }
}
