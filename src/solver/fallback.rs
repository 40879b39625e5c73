//! What `solver.type` `auto` does where the Krylov method fails, or no preconditioner can be built: it factorises the matrix, if that is affordable.
//! On the host it also does so where that takes less than the iterations that are left, as the decay of the residual tells.

use super::direct::Direct;
use super::{Solver, State};
use crate::context::{Context, LogLevel};
use crate::error::{Class, Error, Result, Status};
use crate::host::sparse_direct::Plan;
use crate::matrix::Matrix;
use crate::preconditioner::defaults::are_components_open;
use crate::report::{self, Hint, Remedies, Report, SolveReport};
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

/// Operations of an iteration that take as long as ordering does for each stored value of the matrix, and as one operation of a factorisation. Products
/// with sparse matrices wait for memory, and Cholesky's are those of full matrices.
const ORDERING: f64 = 300.0;
const CHOLESKY: f64 = 0.5;
const LU: f64 = 2.0;

/// Bytes for each stored value that ordering takes, at least.
const ORDERING_BYTES: usize = 48;

/// A limit of fewer iterations is a wish for a rough solution, and is respected.
const PATIENT: usize = 1000;

/// The direct solver behind a Krylov method.
pub(super) struct Fallback {
    matrix: Arc<Matrix>,
    precision: Precision,
    factors: Factors,
    /// Whether it stands behind a solver for the transpose.
    is_transposed: bool,
    /// Whether a Krylov method compares the cost of factors with that of the iterations that are left, and takes the cheaper.
    compares_cost: bool,
}

enum Factors {
    /// No solve has failed.
    NotNeeded,
    /// A factorisation is affordable, and was not cheaper than the iterations that were left.
    Ordered(Box<Plan>),
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

    /// Whether there are factors.
    pub fn has_factors(&self) -> bool {
        matches!(self.factors, Factors::Kept(_))
    }

    /// Drops factors that did not solve a system.
    pub fn give_up(&mut self) {
        self.factors = Factors::Failed;
    }

    /// Whether a factorisation costs less than so many iterations, with a preconditioner of so many operations; then there are factors. Counts of
    /// operations decide, no times, so that the same system is solved in the same way again. The matrix is ordered at most once, and only where
    /// ordering alone costs less.
    pub fn is_cheaper(&mut self, context: &Context, iterations: usize, preconditioner: f64) -> bool {
        if !self.compares_cost {
            return false;
        }
        let entries = self.matrix.entries() as f64;
        let (iterations, ordering) = (iterations as f64 * (2.0 * entries + preconditioner), ORDERING * entries);
        if matches!(self.factors, Factors::NotNeeded) && iterations > ordering {
            self.factors = self.ordered(context).unwrap_or_else(|error| failed(context, &error));
        }
        let cost = match &self.factors {
            Factors::Kept(_) => return true,
            Factors::Ordered(plan) => plan.flops() * if plan.is_symmetric() { CHOLESKY } else { LU },
            _ => return false,
        };
        if iterations <= cost {
            return false;
        }
        context.log(LogLevel::Info, || {
            format!("the iterations that are left take {iterations:.1e} operations: factorising the matrix")
        });
        self.factorise(context);
        self.has_factors()
    }

    /// The order of the matrix, where a factorisation is affordable.
    fn ordered(&self, context: &Context) -> Result<Factors> {
        if self.matrix.entries().saturating_mul(ORDERING_BYTES) > MAX_BYTES {
            return Ok(Factors::TooLarge);
        }
        let plan = Direct::plan(context, &self.matrix)?;
        let (flops, bytes) = (plan.flops(), plan.bytes() + plan.temporary_bytes());
        let most = if plan.is_symmetric() { MAX_FLOPS } else { MAX_LU_FLOPS };
        let is_affordable = flops <= most && bytes <= MAX_BYTES;
        context.log(LogLevel::Info, || {
            let what = if is_affordable { "is affordable" } else { "is more than auto spends" };
            format!("a factorisation takes {flops:.1e} operations and {:.1} MB, which {what}", bytes as f64 / 1e6)
        });
        Ok(if is_affordable { Factors::Ordered(Box::new(plan)) } else { Factors::TooLarge })
    }

    /// Orders the matrix, unless that was done, and factorises it, where that is affordable.
    fn factorise(&mut self, context: &Context) {
        let made = match std::mem::replace(&mut self.factors, Factors::NotNeeded) {
            Factors::NotNeeded => self.ordered(context),
            before => Ok(before),
        };
        let made = made.and_then(|made| match made {
            Factors::Ordered(plan) => self.factors_of(context, *plan),
            made => Ok(made),
        });
        self.factors = made.unwrap_or_else(|error| failed(context, &error));
    }

    fn factors_of(&self, context: &Context, plan: Plan) -> Result<Factors> {
        let mut direct = Direct::with_plan(context, &self.matrix, self.precision, plan)?;
        direct.set_transposed(self.is_transposed)?;
        Ok(Factors::Kept(Box::new(direct)))
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
        // Iterations take little time on a GPU, and a preconditioner that the caller chose is not replaced before it fails.
        let compares_cost = self.context.gpu().is_none()
            && self.preconditioner_matrix.is_none()
            && !self.config.has_set("solver.preconditioner")
            && are_components_open(&self.config)
            && self.config.int("solver.max_iterations") >= PATIENT;
        Some(Fallback { matrix, precision, factors: Factors::NotNeeded, is_transposed: false, compares_cost })
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
        let factors = Factors::NotNeeded;
        let fallback = Fallback { matrix, precision, factors, is_transposed: false, compares_cost: false };
        let made = fallback.ordered(&self.context).and_then(|made| match made {
            Factors::Ordered(plan) => fallback.factors_of(&self.context, *plan),
            made => Ok(made),
        });
        match made {
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
            Factors::Kept(direct) => direct.update(&self.context, &fallback.matrix),
            Factors::TooLarge | Factors::NotNeeded => Ok(()),
            // An order is that of a matrix that is symmetric, or is not.
            Factors::Failed | Factors::Ordered(_) => {
                fallback.factors = Factors::NotNeeded;
                Ok(())
            }
        };
        if let Err(error) = renewed {
            self.context.log(LogLevel::Info, || format!("the factors of the matrix were dropped: {error}"));
            fallback.factors = Factors::NotNeeded;
        }
    }

    /// Makes factors for a right-hand side that the Krylov method did not solve, if there may be any; whether there are.
    pub(super) fn falls_back(
        &mut self,
        fallback: &mut Option<Fallback>,
        result: &Result<Option<Status>>,
        report: &mut SolveReport,
    ) -> bool {
        let has_failed = report.direct_solves == 0 && self.has_failed(result, report);
        let Some(fallback) = fallback.as_mut().filter(|_| has_failed) else { return false };
        if matches!(fallback.factors, Factors::NotNeeded | Factors::Ordered(_)) {
            let start = Instant::now();
            let (iterations, residual) = (report.iterations, report.true_residual);
            self.context.log(LogLevel::Info, || {
                let end = match result {
                    Ok(status) => status.map_or("", |status| status.row().name),
                    Err(error) => error.status.row().name,
                };
                format!("{end} after {iterations} iterations, with a relative residual of {residual:.3e}: factorising the matrix")
            });
            fallback.factorise(&self.context);
            self.phases.add("factorisation", start.elapsed().as_secs_f64());
        }
        if let Hint::Try(Remedies { factors, .. }) = &mut report.hint
            && *factors == report::Factors::Offered
        {
            let is_large = matches!(fallback.factors, Factors::TooLarge);
            *factors = if is_large { report::Factors::TooLarge } else { report::Factors::Unnamed };
        }
        fallback.has_factors()
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
}

/// Without factors, after an error.
fn failed(context: &Context, error: &Error) -> Factors {
    context.log(LogLevel::Info, || format!("the matrix was not factorised: {error}"));
    Factors::Failed
}

/// Whether factors gave nothing better than the Krylov method.
pub(super) fn is_of_no_use(end: &Result<Option<Status>>) -> bool {
    match end {
        Ok(status) => status.is_none(),
        Err(error) => error.status.row().class == Class::Numeric,
    }
}

/// The end of a right-hand side that both the Krylov method and the factors were tried for.
pub(super) fn settle(krylov: Result<Option<Status>>, direct: Result<Option<Status>>) -> Result<Option<Status>> {
    if is_of_no_use(&direct) { krylov } else { direct }
}
