//! Report of set-up and solve: a snapshot, read by key. The C ABI, JSON and the printed summary use one table.

mod facts;
mod hint;
mod reordering;
mod text;

use crate::backend::OwnPart;
use crate::comm::Spread;
use crate::context::Context;
use crate::error::Status;
use crate::gpu::{Gpu, Usage};
use crate::scalar::Precision;
use std::fmt::Write;

pub use facts::{FACTS, Fact, FactRow, Scope};
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

impl Report {
    /// The report of a context before any set-up.
    pub(crate) fn of(context: &Context) -> Report {
        let device_memory = context.gpu().map(Gpu::memory).unwrap_or_default();
        Report { device: context.device().name(), threads: context.threads(), device_memory, ..Report::default() }
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
}

fn ratio_to_first(counts: impl Iterator<Item = usize>) -> f64 {
    let counts: Vec<usize> = counts.collect();
    match counts.first() {
        Some(&first) if first > 0 => counts.iter().sum::<usize>() as f64 / first as f64,
        _ => 0.0,
    }
}
