//! One right-hand side with its solution: runs of a Krylov method until the true residual meets the tolerance.

use super::hints::Advice;
use super::user::SolverBackend;
use crate::error::{Class, Error, Result, Status, try_collect};
use crate::hash::hash;
use crate::krylov::{Krylov, Next, Run};
use crate::report::Hint;
use crate::scalar::{Precision, Scalar};

/// Failures that rounding of the preconditioner can be the cause of.
const PRECISION: &[Status] = &[Status::PrecisionLost, Status::Breakdown, Status::NonFinite, Status::Diverged];

/// A residual whose share along the constant vector is above this is constant.
const CONSTANT: f64 = 0.98;

/// What helps where the matrix is singular.
pub(super) const NULL_SPACE_HINT: &str =
    "the residual is constant, as where a singular matrix cannot reach b: set solver.null_space to constant";

/// The same before the residual has become constant.
const CONSTANTS_HINT: &str = "the matrix maps constants to zero, and b has a constant part that it cannot reach: set solver.null_space to constant";

/// A matrix maps constants to zero where A 1 has less than so many roundings of A times a random vector.
const ROUNDINGS: f64 = 1e3;

/// What a solve says that ended at the accuracy of the format of x.
const ROUNDING_HINT: &str = "f64 allows hardly less for this matrix and right-hand side, because rounding the solution changes the \
                                        residual by about as much: raise solver.tolerance";

/// Krylov methods end at a residual of up to this many times what the rounding of x leaves, because iterates on the way to x are larger.
const NEAR_ROUNDING: f64 = 16.0;

/// Largest relative error of rounding to f64.
const UNIT_ROUNDOFF: f64 = 0.5 * f64::EPSILON;

/// Seed of the changes that stand for rounding.
const ROUNDING_SEED: u64 = 53;

/// The vectors of one solve.
pub(super) struct System<'a, B: SolverBackend, T: Scalar> {
    pub b: &'a B::Slice<T>,
    pub x: &'a mut B::Slice<T>,
    /// For b - A x.
    pub r: &'a mut B::Slice<T>,
    /// For M r, with the preconditioned norm.
    pub z: Option<&'a mut B::Slice<T>>,
    /// |b - A x| after the last run of the method.
    pub true_norm: f64,
    /// What may be tried where it fails.
    pub advice: Advice,
}

impl<B: SolverBackend, T: Scalar> System<'_, B, T> {
    /// Runs the method until the true residual meets the tolerance, restarting it from x. After a failure for lack of precision the preconditioner
    /// is stored in wider formats, and the method restarts.
    pub fn solve(
        &mut self,
        method: &mut dyn Krylov<B, T>,
        run: &mut Run<'_, B, T>,
        mut zero_guess: bool,
    ) -> Result<Next> {
        let mut previous = f64::INFINITY;
        loop {
            let before = run.iterations;
            let result = method.solve(run, self.b, self.x, zero_guess);
            if let Some(error) = precision_failure(run, &result) {
                zero_guess = self.widen(method, run, error)?;
                continue;
            }
            let end = result?;
            // The residual of a guess that needs no iteration is b - A x.
            if end == Next::Converged && run.iterations == before && self.z.is_none() && run.null_space.is_empty() {
                self.true_norm = run.current;
                return Ok(end);
            }
            let mut norm = run.residual_norm(self.b, self.x, self.r)?;
            self.true_norm = norm;
            if end != Next::Converged {
                return Ok(end);
            }
            if let Some(z) = self.z.as_deref_mut() {
                run.precondition(self.r, z)?;
                norm = run.backend.norm(z);
            }
            // The residual of a recurrence drifts from b - A x. Where the true one does not meet the tolerance, the method restarts from x, as long
            // as that helps.
            if norm <= run.target {
                return Ok(Next::Converged);
            }
            if norm > 0.5 * previous {
                return Ok(Next::Stagnated);
            }
            previous = norm;
            zero_guess = false;
        }
    }

    /// Whether the tolerance is out of reach of f64, and b - A x near what is in reach: the change of A x where every element of x changes at random
    /// within its rounding, which is large where A is badly conditioned. Overwrites r. False over ranks, and where there is no memory for the measurement.
    fn is_at_rounding(&mut self, run: &mut Run<'_, B, T>) -> Result<bool> {
        let (backend, n) = (run.backend, run.a.rows());
        if T::PRECISION != Precision::F64 || !self.true_norm.is_finite() || !backend.has_whole_vectors() {
            return Ok(false);
        }
        let random = try_collect((0..n).map(|i| hash(i, ROUNDING_SEED) as i64 as f32 / i64::MAX as f32));
        let (Ok(random), Ok(mut change)) = (random.and_then(|random| backend.array(random)), backend.zeros::<T>(n))
        else {
            return Ok(false);
        };
        backend.scale_by(1, &random, self.x, &mut change);
        run.operator(&change, self.r)?;
        let rounding = UNIT_ROUNDOFF * backend.norm(self.r);
        let is_out_of_reach = rounding.is_finite() && run.target < rounding;
        Ok(is_out_of_reach && self.true_norm <= NEAR_ROUNDING * rounding)
    }

    /// Whether the matrix maps constants to zero, but for rounding, and the constant part of b alone is above the tolerance. Overwrites r. False
    /// over ranks, and where there is no memory for the measurement.
    fn has_constants(&mut self, run: &mut Run<'_, B, T>) -> Result<bool> {
        let (backend, n) = (run.backend, run.a.rows());
        if !run.null_space.is_empty() || n < 2 || !backend.has_whole_vectors() {
            return Ok(false);
        }
        let random = try_collect((0..n).map(|i| hash(i, ROUNDING_SEED) as i64 as f32 / i64::MAX as f32));
        let (Ok(random), Ok(mut v)) = (random.and_then(|random| backend.array(random)), backend.zeros::<T>(n)) else {
            return Ok(false);
        };
        backend.fill(T::ONE, self.r);
        backend.scale_by(1, &random, self.r, &mut v);
        run.operator(&v, self.r)?;
        let size = backend.norm(self.r);
        backend.fill(T::ONE, &mut v);
        let along = backend.dot(&v, self.b).abs() / (n as f64).sqrt();
        run.operator(&v, self.r)?;
        // Extreme values of a callback say nothing.
        Ok(size.is_normal() && along > run.target && backend.norm(self.r) <= ROUNDINGS * T::EPSILON.to_f64() * size)
    }

    /// What may help a solve that failed with this status.
    pub fn hint_of_failure(&mut self, run: &mut Run<'_, B, T>, status: Status, method: &str) -> Hint {
        if status.row().class != Class::Numeric {
            return Hint::None;
        }
        if self.advice.null_space && self.has_constants(run).unwrap_or(false) {
            return Hint::Text(CONSTANTS_HINT);
        }
        if status == Status::Diverged { self.advice.of_divergence(method) } else { Hint::None }
    }

    /// After a solve that did not reach the tolerance: x becomes the best iterate, where one was stored that is better.
    pub fn take_best(&mut self, run: &mut Run<'_, B, T>, end: Result<Next>) -> Result<Next> {
        let failed = match &end {
            Ok(Next::Converged | Next::Stopped) => return end,
            Ok(_) => false,
            Err(error) if error.status.row().class != Class::Numeric => return end,
            Err(_) => true,
        };
        if failed {
            self.true_norm = run.residual_norm(self.b, self.x, self.r)?;
        }
        self.true_norm = run.take_best(self.b, self.x, self.r, self.true_norm)?;
        end
    }

    /// What may help a solve that did not reach the tolerance.
    pub fn hint(&mut self, run: &mut Run<'_, B, T>, residual: f64, has_stagnated: bool, method: &str) -> Hint {
        let n = run.a.rows() as f64;
        if self.advice.null_space && run.residual_norm(self.b, self.x, self.r).is_ok() {
            run.backend.fill(T::ONE, run.best.x);
            let (along, norm) = (run.backend.dot(run.best.x, self.r).abs() / n.sqrt(), run.backend.norm(self.r));
            // A residual that is b itself may be constant because b is; what is measured below then decides.
            let has_moved = !has_stagnated || residual < CONSTANT;
            if run.null_space.is_empty() && n > 1.0 && along > CONSTANT * norm && has_moved {
                return Hint::Text(NULL_SPACE_HINT);
            }
        }
        // What follows needs memory, and a solve whose iterations ended allocates nothing.
        if has_stagnated && self.advice.null_space && self.has_constants(run).unwrap_or(false) {
            return Hint::Text(CONSTANTS_HINT);
        }
        if has_stagnated && self.is_at_rounding(run).unwrap_or(false) {
            return Hint::Text(ROUNDING_HINT);
        }
        if T::PRECISION == Precision::F32 && residual < 1e-3 {
            return Hint::Text("f32 may not allow more: set solver.precision to f64, or raise solver.tolerance");
        }
        self.advice.remedies(method, !has_stagnated)
    }

    /// Stores the preconditioner in wider formats after a failure. Returns whether x was reset to zero, or the error where no wider format is
    /// allowed.
    fn widen(&mut self, method: &mut dyn Krylov<B, T>, run: &mut Run<'_, B, T>, mut error: Error) -> Result<bool> {
        if error.status != Status::PrecisionLost {
            error = run.examine(self.b, self.x, self.r)?.unwrap_or(error);
        }
        let backend = run.backend;
        let finite = backend.max_norm(self.x).is_finite();
        // Without a check in each application, x may contain values that are not finite.
        let may_restart = finite || !B::HAS_IMMEDIATE_REDUCTIONS && error.status == Status::PrecisionLost;
        if !may_restart || !run.widen(&error.message)? {
            return Err(error);
        }
        method.discard_graph();
        if !finite {
            backend.fill(T::ZERO, self.x);
        }
        Ok(!finite)
    }
}

/// The error of a run that failed, perhaps, for lack of precision in the preconditioner.
fn precision_failure<B: SolverBackend, T: Scalar>(run: &Run<'_, B, T>, result: &Result<Next>) -> Option<Error> {
    match result {
        Ok(Next::Stagnated) => run.narrowest().map(|narrowest| {
            let window = run.window;
            Error::new(
                Status::PrecisionLost,
                format!("the residual norm has not fallen in {window} iterations; {narrowest}"),
            )
        }),
        Err(error) if PRECISION.contains(&error.status) => Some(error.clone()),
        _ => None,
    }
}
