//! The solve for one right-hand side on a backend: in the precision, units and order of the Krylov method.

use super::parts::Parts;
use super::solve::Behind;
use super::system::System;
use super::user::SolverBackend;
use super::{Guess, Progress, Solver, scaled};
use crate::backend::Preconditioner;
use crate::context::LogLevel;
use crate::error::{Class, Result, Status, fail};
use crate::krylov::{self, BestIterate, Next, Run};
use crate::matrix::units::units;
use crate::null_space::NullSpace;
use crate::preconditioner::Inverse;
use crate::report::{Hint, SolveReport};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// Units of roundoff by which the residual of a solution is not known.
const UNKNOWN: f64 = 1.6;

impl Solver {
    /// One right-hand side in vectors of another precision than the solver's, or in another order.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn solve_converted<B: SolverBackend, T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        behind: Behind<'_>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Status>
    where
        Inverse: Preconditioner<B, T>,
    {
        let backend = parts.backend.clone();
        let (mut own_b, mut own_x) = match parts.converted.take() {
            Some(vectors) => vectors,
            None => (backend.zeros(parts.rows)?, backend.zeros(parts.rows)?),
        };
        parts.bring_in(b, &mut own_b)?;
        if guess == Guess::Given {
            parts.bring_in(x, &mut own_x)?;
        }
        let result = self.solve_one(parts, behind, &own_b, &mut own_x, guess, report);
        // A right-hand side that was refused leaves x as it is.
        let written = match result.is_ok() || !report.history.is_empty() {
            true => parts.bring_out(&own_x, x),
            false => Ok(()),
        };
        parts.converted = Some((own_b, own_x));
        let status = result?;
        written.map(|()| status)
    }

    /// One right-hand side on the backend of `parts`. Where it fails because the values of an operator callback are extreme, it is solved in other
    /// units.
    pub(super) fn solve_one<B: SolverBackend, T: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        (inverse, mut fallback): Behind<'_>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Status>
    where
        Inverse: Preconditioner<B, T>,
    {
        let backend = parts.backend.clone();
        let guess = match &parts.together {
            Some(together) if together.take(&backend, self.index, x, report)? => Guess::Given,
            _ => guess,
        };
        let end = self.solve_in_units(parts, (&mut *inverse, fallback.as_deref_mut()), b, x, guess, report);
        let has_failed = match &end {
            Ok(status) => *status == Status::Stagnated,
            Err(error) => error.status.row().class == Class::Numeric && !report.history.is_empty(),
        };
        if !has_failed || !self.find_units(parts, inverse, b)? {
            return end;
        }
        (report.iterations, report.hint) = (0, Hint::None);
        report.history.clear();
        self.solve_in_units(parts, (inverse, fallback), b, x, guess, report)
    }

    /// One right-hand side as it is, or scaled where inner products of vectors of its size, or of the size of the matrix, leave the range of
    /// numbers.
    fn solve_in_units<B: SolverBackend, T: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        behind: Behind<'_>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Status>
    where
        Inverse: Preconditioner<B, T>,
    {
        let backend = parts.backend.clone();
        let (units, norm_b) = (parts.units, parts.backend.norm(b));
        if units == 0 && scaled::is_safe::<T>(norm_b) {
            return self.solve_scaled(parts, behind, (b, norm_b), x, guess, 1.0, report);
        }
        let max = backend.max_norm(b);
        if !max.is_finite() {
            return fail!(NonFinite, "the largest element of the right-hand side is {max}; b must be finite");
        }
        if max == 0.0 {
            return Ok(zero_solution(&backend, x, report));
        }
        let k = scaled::shift::<T>(max);
        let mut own_b = backend.zeros::<T>(parts.rows)?;
        backend.copy(b, &mut own_b);
        backend.scale(scaled::power::<T>(k), &mut own_b);
        if guess == Guess::Given {
            backend.scale(scaled::power::<T>(k - units), x);
        }
        let norm_b = backend.norm(&own_b);
        let factor = scaled::power::<T>(k).to_f64();
        let result = self.solve_scaled(parts, behind, (&own_b, norm_b), x, guess, factor, report);
        backend.scale(scaled::power::<T>(units - k), x);
        result
    }

    /// Whether A M b for an operator callback A is so much larger or smaller than b that inner products leave the range of numbers. The
    /// callback is then multiplied by a power of two, until the next set-up or update. Overwrites r and the best iterate.
    fn find_units<B: SolverBackend, T: Scalar>(
        &self,
        parts: &mut Parts<B, T>,
        inverse: &mut Option<Inverse>,
        b: &B::Slice<T>,
    ) -> Result<bool>
    where
        Inverse: Preconditioner<B, T>,
    {
        // Richardson's iteration would be another one.
        if self.operator.is_none() || parts.units != 0 || parts.name == "richardson" {
            return Ok(false);
        }
        let Parts { backend, user, operator, r, best, .. } = parts;
        backend.copy(b, r);
        backend.scale(scaled::power::<T>(scaled::shift::<T>(backend.max_norm(b))), r);
        match (user, inverse) {
            (Some(user), _) => user.apply(r, best)?,
            (None, Some(inverse)) => Preconditioner::<B, T>::apply(inverse, r, best)?,
            (None, None) => backend.copy(r, best),
        }
        operator.apply(T::ONE, best, T::ZERO, r)?;
        let k = units(T::PRECISION, false, backend.max_norm(r));
        if k == 0 {
            return Ok(false);
        }
        self.context.log(LogLevel::Info, || format!("the operator callback is multiplied by 2^{k}"));
        parts.method.discard_graph();
        parts.operator = Arc::new(scaled::InUnits::new(&parts.backend, &parts.operator, k));
        parts.units = k;
        Ok(true)
    }

    /// The relative tolerance, less what is not known about a residual.
    pub(super) fn relative_tolerance<T: Scalar>(&self) -> f64 {
        let tolerance = self.config.real_or_auto("solver.tolerance").unwrap_or(reachable(T::PRECISION));
        tolerance - UNKNOWN * T::EPSILON.to_f64()
    }

    /// One right-hand side with its norm. It was multiplied by `factor`.
    #[allow(clippy::too_many_arguments)]
    fn solve_scaled<B: SolverBackend, T: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        (inverse, fallback): Behind<'_>,
        (b, norm_b): (&B::Slice<T>, f64),
        x: &mut B::Slice<T>,
        guess: Guess,
        factor: f64,
        report: &mut SolveReport,
    ) -> Result<Status>
    where
        Inverse: Preconditioner<B, T>,
    {
        let Parts { backend, name, norm, null_space, method, operator, user, r, z, best, tolerance, advice, .. } =
            parts;
        let from_guess = parts.from_initial_residual && guess == Guess::Given;
        let backend: &B = backend;
        if !norm_b.is_finite() {
            return fail!(NonFinite, "the norm of the right-hand side is {norm_b}; b must be finite");
        }
        let (b, norm_b, null_space) = match null_space {
            Some(space) => {
                let norm_b = project_right_hand_side(backend, space, b, norm_b);
                (&*space.b, norm_b, space.basis.as_slice())
            }
            None => (b, norm_b, [].as_slice()),
        };
        if norm_b == 0.0 {
            return Ok(zero_solution(backend, x, report));
        }
        match guess {
            Guess::Zero => backend.fill(T::ZERO, x),
            Guess::Given => backend.copy(x, best),
        }
        let operations = inverse.as_ref().map_or(0.0, Inverse::operations);
        let m: Option<&mut dyn Preconditioner<B, T>> = match (user, inverse) {
            (Some(user), _) => Some(&mut **user),
            (None, Some(inverse)) => Some(inverse),
            (None, None) => None,
        };
        let (index, own) = (self.index, self.monitor.as_ref());
        // Over ranks the monitor of one of them ends the solve of all.
        let monitor = backend.any(own.is_some()).then_some(move |iteration: usize, residual: f64| {
            backend.any(own.is_some_and(|own| own(Progress { right_hand_side: index, iteration, residual })))
        });
        let context = &self.context;
        let mut direct_check = fallback.map(|fallback| |left: usize| fallback.is_cheaper(context, left, operations));
        let mut run = Run {
            backend,
            a: &**operator,
            m,
            null_space,
            context: &self.context,
            norm: *norm,
            target: 0.0,
            scale: norm_b,
            window: self.config.int("solver.stagnation_window"),
            progress: (f64::INFINITY, 0),
            asymmetric: 0,
            divergence: self.config.real("solver.divergence_tolerance"),
            current: f64::NAN,
            monitor: monitor.as_ref().map(|monitor| monitor as _),
            direct_check: direct_check.as_mut().map(|direct_check| direct_check as _),
            best: BestIterate { x: &mut **best, is_zero: guess == Guess::Zero, norm: f64::INFINITY },
            limit: self.config.int("solver.max_iterations"),
            iterations: report.iterations,
            history: &mut report.history,
            phases: &mut self.phases,
        };
        let tolerances = (*tolerance, factor * self.config.real("solver.absolute_tolerance"));
        set_target(&mut run, b, from_guess.then_some(&*x), (&mut **r, z.as_deref_mut()), tolerances)?;
        let mut system =
            System { b, x: &mut *x, r: &mut **r, z: z.as_deref_mut(), true_norm: f64::NAN, advice: *advice };
        let end = system.solve(&mut **method, &mut run, guess == Guess::Zero);
        let end = system.take_best(&mut run, end);
        (report.iterations, report.true_residual) = (run.iterations, system.true_norm / norm_b);
        if matches!(end, Ok(Next::Limit | Next::Stagnated)) {
            let has_stagnated = matches!(end, Ok(Next::Stagnated));
            report.hint = system.hint(&mut run, report.true_residual, has_stagnated, name);
        }
        if let Err(error) = &end {
            report.hint = system.hint_of_failure(&mut run, error.status, name);
        }
        let end = end?;
        run.project(x);
        backend.status()?;
        report.converged = end == Next::Converged;
        let (iterations, residual) = (report.iterations, report.true_residual);
        self.context
            .log(LogLevel::Info, || format!("{name}: {iterations} iterations, true relative residual {residual:.3e}"));
        report.fell_back |= end == Next::Direct;
        Ok(match end {
            Next::Converged => Status::Success,
            Next::Stagnated => Status::Stagnated,
            Next::Stopped => Status::Stopped,
            Next::Direct | Next::Limit | Next::Continue => Status::NotConverged,
        })
    }
}

/// The solution for b = 0, without an iteration.
fn zero_solution<B: SolverBackend, T: Scalar>(backend: &B, x: &mut B::Slice<T>, report: &mut SolveReport) -> Status {
    backend.fill(T::ZERO, x);
    (report.converged, report.true_residual) = (true, 0.0);
    report.history.push(0.0);
    Status::Success
}

/// Sets the residual norm at which to stop, by the relative and the absolute tolerance. The first is relative to the norm of b, or to that of the
/// residual of an initial guess. With `z` these are preconditioned norms, and that of b is what histories are divided by.
fn set_target<B: SolverBackend, T: Scalar>(
    run: &mut Run<'_, B, T>,
    b: &B::Slice<T>,
    guess: Option<&B::Slice<T>>,
    (r, mut z): (&mut B::Slice<T>, Option<&mut B::Slice<T>>),
    (relative, absolute): (f64, f64),
) -> Result<()> {
    if let Some(z) = z.as_deref_mut() {
        run.precondition(b, z)?;
        run.scale = run.backend.norm(z);
        if run.scale == 0.0 {
            return run.breakdown("the preconditioner maps b to zero; set solver.norm to \"true\"");
        }
    }
    let mut reference = run.scale;
    if let Some(x) = guess {
        reference = run.residual_norm(b, x, r)?;
        if let Some(z) = z {
            run.precondition(r, z)?;
            reference = run.backend.norm(z);
        }
    }
    run.target = (relative * reference).max(absolute);
    Ok(())
}

/// Projects b onto the complement of the null space, into `space.b`. Returns its norm, 0 where only rounding is left.
fn project_right_hand_side<B: SolverBackend, T: Scalar>(
    backend: &B,
    space: &mut NullSpace<B, T>,
    b: &B::Slice<T>,
    norm_b: f64,
) -> f64 {
    backend.copy(b, &mut space.b);
    // Twice: a single projection leaves the rounding of a long sum.
    for _ in 0..2 {
        krylov::project(backend, &space.basis, &mut space.b);
    }
    let rounding = 8.0 * T::EPSILON.to_f64() * norm_b;
    Some(backend.norm(&space.b)).filter(|norm| *norm > rounding).unwrap_or(0.0)
}

/// The tolerance that `auto` is in a precision.
pub fn reachable(precision: Precision) -> f64 {
    if precision == Precision::F32 { 1e-5 } else { 1e-8 }
}
