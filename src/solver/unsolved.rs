//! The sentence of a solve that did not reach the tolerance, and what may help.

use super::Solver;
use crate::error::Status;
use crate::report::Hint;
use std::fmt;

/// Why the first right-hand side that was not solved to the tolerance was not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsolved {
    status: Status,
    index: usize,
    count: usize,
    iterations: usize,
    residual: f64,
    hint: Hint,
}

impl fmt::Display for Unsolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsolved { status, index, count, iterations, residual, hint } = self;
        if *count > 1 {
            write!(f, "right-hand side {index} of {count}: ")?;
        }
        let how = if *status == Status::Stagnated { "stagnated" } else { "not converged" };
        write!(f, "{how} after {iterations} iterations, with a relative residual of {residual:.3e}; {hint}")
    }
}

impl Solver {
    /// What the last solve left unsolved when it returned a condition such as `NotConverged`.
    pub fn unsolved(&self) -> Option<Unsolved> {
        let reported = self.transposed_solver().filter(|_| self.reports_transposed).unwrap_or(self);
        let mut solves = reported.solves.reports().enumerate();
        let (index, solve) =
            solves.find(|(_, solve)| [Status::NotConverged, Status::Stagnated].contains(&solve.status))?;
        let (status, iterations, residual, hint) = (solve.status, solve.iterations, solve.true_residual, solve.hint);
        Some(Unsolved { status, index, count: reported.solves.count(), iterations, residual, hint })
    }
}
