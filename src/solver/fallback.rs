//! What `solver.type` `auto` does where the Krylov method fails, or no preconditioner can be built: it factorises the matrix, if that is affordable.

use super::direct::Direct;
use super::system::GENERAL_HINT;
use super::{Solver, State};
use crate::context::LogLevel;
use crate::error::{Class, Result, Status};
use crate::matrix::Matrix;
use crate::report::{Report, SolveReport};
use crate::scalar::Precision;
use std::sync::Arc;
use std::time::Instant;

/// Most floating-point operations of a factorisation that nobody asked for. The Krylov method has done hundreds of iterations
/// by then. At the 17 to 23 Gflop/s that were measured on one core this takes 5 s.
const MAX_FLOPS: f64 = 1e11;

/// The same for LU: 20 s at the 0.9 Gflop/s that were measured.
const MAX_LU_FLOPS: f64 = 2e10;

/// Most bytes that it may take, temporary ones included.
const MAX_BYTES: usize = 2 << 30;

/// Bytes for each stored value that ordering takes, at least.
const ORDERING_BYTES: usize = 48;

/// A limit of fewer iterations is a wish for a rough solution, and is respected.
const PATIENT: usize = 1000;

const TOO_LARGE: &str = "raise solver.max_iterations, or try another preset, such as difficult; a factorisation takes more time or memory \
                         than auto spends unasked: set solver.type to direct to have it all the same";

/// The direct solver behind a Krylov method.
pub(super) struct Fallback {
    matrix: Arc<Matrix>,
    precision: Precision,
    factors: Factors,
    /// Whether it stands behind a solver for the transpose.
    is_transposed: bool,
}

enum Factors {
    /// No solve has failed.
    NotNeeded,
    /// Made for a right-hand side that the Krylov method did not solve. Later ones use them from the start.
    Kept(Box<Direct>),
    /// Too expensive for any values of the matrix.
    TooLarge,
    /// The matrix is singular, or there was no memory.
    Failed,
}

impl Fallback {
    /// The factors, where they were needed before.
    pub fn direct(&mut self) -> Option<&mut Direct> {
        match &mut self.factors {
            Factors::Kept(direct) => Some(direct),
            _ => None,
        }
    }

    /// The same behind a solver for the transpose of its matrix.
    pub fn transposed(mut self) -> Fallback {
        let is_transposed = !self.is_transposed;
        self.is_transposed = is_transposed;
        // Without memory for it the Krylov method is the next to try.
        if self.direct().is_some_and(|direct| direct.set_transposed(is_transposed).is_err()) {
            self.factors = Factors::NotNeeded;
        }
        self
    }

    /// Adds the factors to a report.
    pub fn report(&self, report: &mut Report) {
        if let Factors::Kept(direct) = &self.factors {
            report.factorisation = direct.facts();
            report.bytes += direct.bytes();
        }
    }
}

impl Solver {
    /// Whether the options leave the method open, and a factorisation can solve the same system.
    fn may_factorise(&self) -> bool {
        let is_open = self.config.choice("solver.type").is_none()
            && self.config.text("solver.null_space") == "none"
            && self.config.text("solver.norm") == "true"
            && self.config.text("solver.relative_to") == "right_hand_side";
        is_open && self.operator.is_none() && self.preconditioner.is_none()
    }

    /// The fallback of a set-up, if it may have one.
    pub(super) fn fallback(&self, matrix: Option<&Arc<Matrix>>, precision: Precision) -> Option<Fallback> {
        let matrix = Arc::clone(matrix.filter(|_| self.may_factorise())?);
        Some(Fallback { matrix, precision, factors: Factors::NotNeeded, is_transposed: false })
    }

    /// Whether the matrix has a row without a diagonal entry, as that of a saddle point, and the options leave open what to do then.
    pub(super) fn lacks_diagonal(&self, matrix: &Matrix) -> Result<bool> {
        let is_open = self.may_factorise()
            && self.preconditioner_matrix.is_none()
            && !self.config.has_set("solver.preconditioner");
        matrix.check_for_set_up(&self.context)?;
        Ok(is_open && matrix.check_for_amg(&self.context).is_err())
    }

    /// The factors of a matrix that no preconditioner can be built from. `None` where that is not so, where they cost too much, or where it is
    /// singular.
    pub(super) fn direct_without_diagonal(&self, matrix: &Arc<Matrix>) -> Result<Option<Direct>> {
        if !self.lacks_diagonal(matrix)? {
            return Ok(None);
        }
        self.context.log(LogLevel::Info, || "a row has no diagonal entry: ordering the matrix".to_string());
        let precision = self.precision();
        let matrix = Arc::clone(matrix);
        let fallback = Fallback { matrix, precision, factors: Factors::NotNeeded, is_transposed: false };
        match self.factors(&fallback) {
            Ok(Factors::Kept(direct)) => Ok(Some(*direct)),
            Ok(_) => Ok(None),
            // The missing entry says more than a singular matrix.
            Err(error) if error.status.row().class == Class::Numeric => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Factorises new values, if there are factors of the old ones. Where that fails, the Krylov method is the next to try.
    pub(super) fn renew_fallback(&self, state: &mut State) {
        let Some(fallback) = &mut state.fallback else { return };
        let renewed = match &mut fallback.factors {
            Factors::Kept(direct) => direct.update(self, &fallback.matrix),
            Factors::TooLarge | Factors::NotNeeded => Ok(()),
            Factors::Failed => {
                fallback.factors = Factors::NotNeeded;
                Ok(())
            }
        };
        if let Err(error) = renewed {
            self.context.log(LogLevel::Info, || format!("the factors of the matrix were dropped: {error}"));
            fallback.factors = Factors::NotNeeded;
        }
    }

    /// The factors for a right-hand side that the Krylov method did not solve, if there may be any.
    pub(super) fn fall_back<'a>(
        &mut self,
        fallback: &'a mut Option<Fallback>,
        result: &Result<Option<Status>>,
        report: &mut SolveReport,
    ) -> Option<&'a mut Direct> {
        let fallback = fallback.as_mut().filter(|_| report.direct_solves == 0 && self.has_failed(result, report))?;
        if matches!(fallback.factors, Factors::NotNeeded) {
            let start = Instant::now();
            let (iterations, residual) = (report.iterations, report.true_residual);
            self.context.log(LogLevel::Info, || {
                let end = match result {
                    Ok(status) => status.map_or("", |status| status.row().name),
                    Err(error) => error.status.row().name,
                };
                format!("{end} after {iterations} iterations, with a relative residual of {residual:.3e}: ordering the matrix")
            });
            fallback.factors = self.factors(fallback).unwrap_or_else(|error| {
                self.context.log(LogLevel::Info, || format!("the matrix was not factorised: {error}"));
                Factors::Failed
            });
            self.phases.add("factorisation", start.elapsed().as_secs_f64());
        }
        if matches!(fallback.factors, Factors::TooLarge) && report.hint == GENERAL_HINT {
            report.hint = TOO_LARGE;
        }
        fallback.direct()
    }

    /// Logs how a second attempt ended.
    pub(super) fn log_direct(&self, report: &SolveReport) {
        let SolveReport { direct_solves, true_residual, .. } = report;
        self.context.log(LogLevel::Info, || {
            format!("direct: {direct_solves} solves with the factors, true relative residual {true_residual:.3e}")
        });
    }

    /// Whether a factorisation may do better than this end of the Krylov method.
    fn has_failed(&self, result: &Result<Option<Status>>, report: &SolveReport) -> bool {
        match result {
            Ok(Some(Status::Stagnated)) => true,
            Ok(Some(Status::NotConverged)) => self.config.int("solver.max_iterations") >= PATIENT,
            Err(error) => match error.status {
                Status::Diverged | Status::Breakdown => true,
                // Without a history it is b that is not finite.
                Status::NonFinite => !report.history.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    fn factors(&self, fallback: &Fallback) -> Result<Factors> {
        let Fallback { matrix, precision, is_transposed, .. } = fallback;
        if matrix.entries().saturating_mul(ORDERING_BYTES) > MAX_BYTES {
            return Ok(Factors::TooLarge);
        }
        let plan = Direct::plan(self, matrix)?;
        let (flops, bytes) = (plan.flops(), plan.bytes() + plan.temporary_bytes());
        let most = if plan.is_symmetric() { MAX_FLOPS } else { MAX_LU_FLOPS };
        let is_affordable = flops <= most && bytes <= MAX_BYTES;
        self.context.log(LogLevel::Info, || {
            let what = if is_affordable { "is done" } else { "is more than auto spends" };
            format!("a factorisation takes {flops:.1e} operations and {:.1} MB, which {what}", bytes as f64 / 1e6)
        });
        if !is_affordable {
            return Ok(Factors::TooLarge);
        }
        let mut direct = Direct::with_plan(self, matrix, *precision, plan)?;
        direct.set_transposed(*is_transposed)?;
        Ok(Factors::Kept(Box::new(direct)))
    }
}

/// The end of a right-hand side that both the Krylov method and the factors were tried for.
pub(super) fn settle(krylov: Result<Option<Status>>, direct: Result<Option<Status>>) -> Result<Option<Status>> {
    match direct {
        // The factors gave nothing better.
        Ok(None) => krylov,
        Err(error) if error.status.row().class == Class::Numeric => krylov,
        end => end,
    }
}
