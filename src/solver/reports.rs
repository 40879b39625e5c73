//! The report of a solver: that of its preconditioner, of its factors and of the last solve.

use super::{BackendEngine, Solver};
use crate::error::Result;
use crate::report::Report;

impl Solver {
    /// The report of set-up and of the last solve; that of a solver without set-up where there is no memory for it.
    pub fn report(&self) -> Report {
        self.try_report().unwrap_or_else(|_| Report::of(&self.context))
    }

    /// [`Solver::report`], which can fail by lack of memory.
    pub fn try_report(&self) -> Result<Report> {
        let Some(transposed) = self.transposed_solver() else { return self.own_report() };
        let (mut report, other) = match self.reports_transposed {
            true => (transposed.own_report()?, self.own_report()?),
            false => (self.own_report()?, transposed.own_report()?),
        };
        report.bytes += other.bytes;
        // The factors of one are those of both.
        report.factorisation = report.factorisation.or(other.factorisation);
        Ok(report)
    }

    /// The report without that of the solver for the transposed matrix.
    pub(super) fn own_report(&self) -> Result<Report> {
        let Some(state) = &self.state else {
            return Ok(Report::of(&self.context));
        };
        let mut report = match &state.inverse {
            Some(inverse) => inverse.report(),
            None => Report::of(&self.context),
        };
        let (name, precision, bytes) = match &state.engine {
            BackendEngine::Host(engine) => engine.describe(),
            BackendEngine::Gpu(engine, _) => engine.describe(),
            BackendEngine::Direct(direct) => {
                direct.report(&mut report);
                direct.describe()
            }
        };
        report.solver = format!("{name} {}", precision.name());
        report.bytes += bytes + self.solves.bytes() + self.matrix_bytes(state, &report);
        if let Some(fallback) = &state.fallback {
            fallback.report(&mut report);
        }
        if let Some(order) = &state.order {
            report.setup.add("reorder", order.report.seconds);
            report.setup.add("total", order.report.seconds);
            report.reordering = Some(order.report.clone());
        }
        if let Some(grid) = &state.grid {
            report.setup.add("grid", grid.seconds);
            report.setup.add("total", grid.seconds);
            report.setup_choice = grid.choice();
        }
        report.ranks = state.ranks.clone();
        if let (Some(matrix), Some(inverse)) = (self.matrix_over_ranks(), &state.inverse) {
            report.preconditioner_age = matrix.known_changes() - inverse.changes();
        }
        report.solve = self.phases.clone();
        report.solves = self.solves.to_reports()?;
        Ok(report)
    }
}
