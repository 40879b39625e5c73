//! The table of facts that a report can be asked for, by key.

use super::reordering::Reordering;
use super::{Factorisation, Report};

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
    pub(super) get: fn(&Report, usize) -> Fact,
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
    "locality_after", Whole, "the same in the order of a breadth-first search, whether that was chosen or not; 0 where it was not computed", |r, i| Real(r.reordering.as_ref().and_then(|k| k.after).unwrap_or(0.0));
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
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::report::SolveReport;

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
