//! Solves, for vectors on the host and on the device.

use super::fallback::{Fallback, is_of_no_use, settle};
use super::parts::{Engine, Parts};
use super::system::System;
use super::together::Use;
use super::user::SolverBackend;
use super::{BackendEngine, Guess, Progress, Solver, State, scaled};
use crate::backend::{AnyMut, AnyRef, Backend, Preconditioner};
use crate::context::LogLevel;
use crate::error::{Class, Result, Status, fail};
use crate::gpu::{self, Gpu, Staging};
use crate::host::Host;
use crate::krylov::{self, BestIterate, Next, Run};
use crate::matrix::units::units;
use crate::null_space::NullSpace;
use crate::preconditioner::Inverse;
use crate::report::{Hint, SolveReport};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;
use std::time::Instant;

/// Units of roundoff by which the residual of a solution is not known.
const UNKNOWN: f64 = 1.6;

/// What stands behind a Krylov method: its preconditioner, and the factorisation that it may turn to.
pub(super) type Behind<'a> = (&'a mut Option<Inverse>, Option<&'a mut Fallback>);

/// Solves for one right-hand side in vectors of type `V`.
type One<B, T, V> = fn(
    &mut Solver,
    &mut Parts<B, T>,
    Behind<'_>,
    &<B as Backend>::Slice<V>,
    &mut <B as Backend>::Slice<V>,
    Guess,
    &mut SolveReport,
) -> Result<Status>;

impl Solver {
    /// Solves for one or several right-hand sides, one after the other in `b` and `x`: their number follows from the length.
    /// `Ok` is `Success`, or when at least one of them was not solved to the tolerance, `NotConverged` or `Stagnated` as the
    /// first of those. A numeric failure of one is the error of the call, and the others are solved all the same; the report
    /// has the status of each. x of one that was not solved holds the best iterate that was stored, or the initial guess.
    ///
    /// The matrix is used as it is now; the preconditioner is that of the last set-up or update.
    ///
    /// Every call begins a new report, also one that fails before it attempts a right-hand side.
    pub fn solve<T: Scalar>(&mut self, b: &[T], x: &mut [T], guess: Guess) -> Result<Status> {
        if let Some(matrix) = self.matrix_over_ranks() {
            return self.solve_over_ranks(&matrix, b, x, guess);
        }
        self.begin_report(b.len(), x.len())?;
        self.take_over_changes()?;
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let result = self.solve_with(&mut state, b, x, guess);
        self.state = Some(state);
        result
    }

    /// As [`Solver::solve`], for vectors in the memory of the context's GPU. Returns when x is written, or, with a stream of the caller's, when
    /// what writes it is under way there.
    pub fn solve_on_device<T: Scalar>(
        &mut self,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        if let Some(matrix) = self.matrix_over_ranks() {
            return self.solve_on_device_over_ranks(&matrix, b, x, guess);
        }
        self.begin_report(b.len(), x.len())?;
        self.take_over_changes()?;
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let result = self.solve_on_device_with(&mut state, b, x, guess);
        self.state = Some(state);
        result
    }

    /// Begins the report of a solve, before anything of it can fail: none of its right-hand sides has been attempted. Vectors
    /// whose lengths do not fit have none.
    pub(super) fn begin_report(&mut self, b: usize, x: usize) -> Result<()> {
        self.reset_report();
        let rows = self.rows().filter(|rows| check_lengths(*rows, b, x).is_ok());
        self.solves.begin(self.count.or(rows.map(|rows| right_hand_sides(rows, b))).unwrap_or(0))
    }

    /// Forgets the last solve.
    pub(crate) fn reset_report(&mut self) {
        self.reports_transposed = false;
        self.solves.clear();
        for phase in &mut self.phases.seconds {
            phase.1 = 0.0;
        }
    }

    pub(super) fn solve_with<T: Scalar>(
        &mut self,
        state: &mut State,
        b: &[T],
        x: &mut [T],
        guess: Guess,
    ) -> Result<Status> {
        check_lengths(state.rows, b.len(), x.len())?;
        let n = state.rows;
        let work = state.matrix.as_ref().map_or(n, |matrix| matrix.entries());
        let State { engine, inverse, fallback, .. } = state;
        let behind = (inverse, fallback);
        match engine {
            BackendEngine::Direct(direct) => self.solve_direct(direct, b, x, guess),
            BackendEngine::Host(engine) => match (engine, Host::any_ref(b), Host::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => {
                    self.solve_on_host(parts, behind, work, (b, x), guess, Solver::solve_one)
                }
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => {
                    self.solve_on_host(parts, behind, work, (b, x), guess, Solver::solve_one)
                }
                (Engine::F64(parts), AnyRef::F32(b), AnyMut::F32(x)) if parts.converts => {
                    self.solve_on_host(parts, behind, work, (b, x), guess, Solver::solve_converted)
                }
                (engine, ..) => engine.refuse::<T>(),
            },
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(engine, staging) => match (engine, Host::any_ref(b), Host::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => {
                    self.solve_from_host(parts, behind, staging, (b, x), guess, Solver::solve_one)
                }
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => {
                    self.solve_from_host(parts, behind, staging, (b, x), guess, Solver::solve_one)
                }
                (Engine::F64(parts), AnyRef::F32(b), AnyMut::F32(x)) if parts.converts => {
                    self.solve_from_host(parts, behind, staging, (b, x), guess, Solver::solve_converted)
                }
                (engine, ..) => engine.refuse::<T>(),
            },
        }
    }

    pub(super) fn solve_on_device_with<T: Scalar>(
        &mut self,
        state: &mut State,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        check_lengths(state.rows, b.len(), x.len())?;
        let State { engine, inverse, fallback, .. } = state;
        let behind = (inverse, fallback);
        match engine {
            BackendEngine::Direct(direct) => self.solve_direct_on_device(direct, b, x, guess),
            BackendEngine::Host(_) => {
                fail!(InvalidArgument, "the vectors are in device memory, and the solver is on the host")
            }
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(engine, _) => match (engine, Gpu::any_ref(b), Gpu::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => {
                    self.solve_in_place(parts, behind, (b, x), guess, Solver::solve_one)
                }
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => {
                    self.solve_in_place(parts, behind, (b, x), guess, Solver::solve_one)
                }
                (Engine::F64(parts), AnyRef::F32(b), AnyMut::F32(x)) if parts.converts => {
                    self.solve_in_place(parts, behind, (b, x), guess, Solver::solve_converted)
                }
                (engine, ..) => engine.refuse::<T>(),
            },
        }
    }

    /// On the host, with the threads of the context.
    fn solve_on_host<T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<Host, T>,
        (inverse, fallback): (&mut Option<Inverse>, &mut Option<Fallback>),
        work: usize,
        (b, x): (&[V], &mut [V]),
        guess: Guess,
        one: One<Host, T, V>,
    ) -> Result<Status> {
        let one = if parts.permutation.is_some() { Solver::solve_converted } else { one };
        parts.begin();
        let (n, count) = (parts.rows, self.solves.count());
        self.solve_each(fallback, |solver, i, mut fallback, report| {
            let context = solver.context.clone();
            if let Some(group) = solver.group(parts, i, count).filter(|_| !has_factors(&fallback)) {
                let load = &mut |i: usize, put: &mut Use<'_, Host, V>| put(&b[i * n..][..n], &x[i * n..][..n]);
                let behind = (&mut *inverse, fallback.as_deref_mut());
                context.run(group.0 * work, || solver.solve_together(parts, behind, group, guess, load))?;
            }
            let (b, x) = (&b[i * n..][..n], &mut x[i * n..][..n]);
            if let Some(direct) = fallback.as_deref_mut().and_then(Fallback::direct) {
                parts.tell_of_group(i, report);
                return solver.solve_one_direct(direct, (b, x), guess, report);
            }
            let calls = solver.operator.is_some() || solver.preconditioner.is_some() || solver.monitor.is_some();
            let behind = (&mut *inverse, fallback);
            let status = if calls || parts.backend.is_distributed() {
                // Callbacks belong on the caller's thread; each operation finds its own way to the pool.
                one(solver, parts, behind, b, x, guess, report)
            } else {
                context.run(work, || one(solver, parts, behind, b, x, guess, report))
            };
            status.map(Some)
        })
    }

    /// On the device, for vectors on the host.
    fn solve_from_host<T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<Gpu, T>,
        (inverse, fallback): (&mut Option<Inverse>, &mut Option<Fallback>),
        staging: &mut Staging,
        (b, x): (&[V], &mut [V]),
        guess: Guess,
        one: One<Gpu, T, V>,
    ) -> Result<Status> {
        let one = if parts.permutation.is_some() { Solver::solve_converted } else { one };
        parts.begin();
        let (n, count) = (parts.rows, self.solves.count());
        self.solve_each(fallback, |solver, i, mut fallback, report| {
            if let Some(direct) = fallback.as_deref_mut().and_then(Fallback::direct) {
                return solver.solve_one_direct(direct, (&b[i * n..][..n], &mut x[i * n..][..n]), guess, report);
            }
            let gpu = parts.backend.clone();
            let (own_b, own_x) = staging.vectors(&gpu, n)?;
            if let Some(group) = solver.group(parts, i, count) {
                let behind = (&mut *inverse, None);
                solver.solve_together(parts, behind, group, guess, &mut |i: usize, put: &mut Use<'_, Gpu, V>| {
                    gpu.write(&b[i * n..][..n], own_b)?;
                    if guess == Guess::Given {
                        gpu.write(&x[i * n..][..n], own_x)?;
                    }
                    put(own_b, own_x)
                })?;
            }
            let (b, x) = (&b[i * n..][..n], &mut x[i * n..][..n]);
            gpu.write(b, own_b)?;
            if guess == Guess::Given {
                gpu.write(x, own_x)?;
            }
            let result = one(solver, parts, (&mut *inverse, None), own_b, own_x, guess, report);
            // Also after an error x is the last iterate, unless the device is what failed.
            let read = gpu.read(own_x, x);
            let status = result?;
            read.map(|()| Some(status))
        })
    }

    /// On the device, for vectors that are there.
    fn solve_in_place<T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<Gpu, T>,
        (inverse, fallback): (&mut Option<Inverse>, &mut Option<Fallback>),
        (b, x): (&gpu::Slice<V>, &mut gpu::Slice<V>),
        guess: Guess,
        one: One<Gpu, T, V>,
    ) -> Result<Status> {
        let one = if parts.permutation.is_some() { Solver::solve_converted } else { one };
        parts.begin();
        let (n, count) = (parts.rows, self.solves.count());
        self.solve_each(fallback, |solver, i, mut fallback, report| {
            if let Some(group) = solver.group(parts, i, count).filter(|_| !has_factors(&fallback)) {
                let load = &mut |i: usize, put: &mut Use<'_, Gpu, V>| put(b.subslice(i * n, n), x.subslice(i * n, n));
                solver.solve_together(parts, (&mut *inverse, None), group, guess, load)?;
            }
            let (b, x) = (b.subslice(i * n, n), x.subslice_mut(i * n, n));
            if let Some(direct) = fallback.as_deref_mut().and_then(Fallback::direct) {
                return solver.solve_one_direct_on_device(direct, (b, x), guess, report);
            }
            let gpu = parts.backend.clone();
            let status = one(solver, parts, (&mut *inverse, None), b, x, guess, report)?;
            gpu.end_call()?;
            Ok(Some(status))
        })
    }

    /// One right-hand side after the other, with their reports. Numeric failures of one do not keep the others from being
    /// solved; any other error ends the call. `one` solves by the Krylov method, or by the factors where there are any;
    /// `None` is a second attempt that was not better.
    pub(super) fn solve_each(
        &mut self,
        fallback: &mut Option<Fallback>,
        mut one: impl FnMut(&mut Self, usize, Option<&mut Fallback>, &mut SolveReport) -> Result<Option<Status>>,
    ) -> Result<Status> {
        let (start, count) = (Instant::now(), self.solves.count());
        let (mut status, mut failure) = (Status::Success, None);
        for i in 0..count {
            self.index = i;
            let mut report = self.solves.next();
            let mut end = one(self, i, fallback.as_mut(), &mut report);
            if report.fell_back {
                // Factors were cheaper than the iterations that were left.
                if report.direct_solves == 0 {
                    end = one(self, i, fallback.as_mut(), &mut report);
                }
                self.log_direct(&report);
                if is_of_no_use(&end) {
                    // As after a set-up, the Krylov method is the one to try.
                    fallback.iter_mut().for_each(Fallback::give_up);
                    (report.fell_back, report.direct_solves) = (false, 0);
                    end = one(self, i, fallback.as_mut(), &mut report);
                }
            }
            if self.falls_back(fallback, &end, &mut report) {
                report.fell_back = true;
                end = settle(end, one(self, i, fallback.as_mut(), &mut report));
                self.log_direct(&report);
            }
            let result = end.map(|status| status.unwrap_or(Status::Stagnated));
            report.status = result.as_ref().map_or_else(|error| error.status, |status| *status);
            let hint = report.hint;
            self.solves.keep(i, report);
            match result {
                Ok(Status::Success) => {}
                Ok(condition) if status == Status::Success => status = condition,
                Ok(_) => {}
                Err(mut error) => {
                    if count > 1 {
                        error.message = format!("right-hand side {i} of {count}: {}", error.message);
                    }
                    let ends = error.status.row().class != Class::Numeric;
                    if !ends && hint != Hint::None {
                        error.message += &format!("; {hint}");
                    }
                    failure = failure.or(Some(error));
                    if ends {
                        break;
                    }
                }
            }
        }
        self.phases.add("total", start.elapsed().as_secs_f64());
        failure.map_or(Ok(status), Err)
    }

    /// One right-hand side in vectors of another precision than the solver's, or in another order.
    #[allow(clippy::too_many_arguments)]
    fn solve_converted<B: SolverBackend, T: Scalar, V: Scalar>(
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
    fn solve_one<B: SolverBackend, T: Scalar>(
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
            backend.fill(T::ZERO, x);
            (report.converged, report.true_residual) = (true, 0.0);
            report.history.push(0.0);
            return Ok(Status::Success);
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
            backend.fill(T::ZERO, x);
            (report.converged, report.true_residual) = (true, 0.0);
            report.history.push(0.0);
            return Ok(Status::Success);
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
        if let Some(z) = z {
            run.precondition(b, z)?;
            run.scale = backend.norm(z);
            if run.scale == 0.0 {
                return run.breakdown("the preconditioner maps b to zero; set solver.norm to \"true\"");
            }
        }
        let absolute = factor * self.config.real("solver.absolute_tolerance");
        let mut reference = run.scale;
        if from_guess {
            reference = run.residual_norm(b, x, r)?;
            if let Some(z) = z {
                run.precondition(r, z)?;
                reference = backend.norm(z);
            }
        }
        run.target = (*tolerance * reference).max(absolute);
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
        Ok(match end {
            Next::Converged => Status::Success,
            Next::Stagnated => Status::Stagnated,
            Next::Stopped => Status::Stopped,
            Next::Direct => {
                report.fell_back = true;
                Status::NotConverged
            }
            Next::Limit | Next::Continue => Status::NotConverged,
        })
    }
}

/// Whether the Krylov method has turned to the factors before.
fn has_factors(fallback: &Option<&mut Fallback>) -> bool {
    fallback.as_ref().is_some_and(|fallback| fallback.has_factors())
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

/// Right-hand sides of `n` rows in a vector of this length; a system without rows has one.
pub(super) fn right_hand_sides(n: usize, length: usize) -> usize {
    length.checked_div(n).unwrap_or(1)
}

pub(super) fn check_lengths(n: usize, b: usize, x: usize) -> Result<()> {
    if b != x || (n > 0 && !b.is_multiple_of(n)) {
        return fail!(SizeMismatch, "b has {b} and x {x} elements; each must have {n} for every right-hand side");
    }
    Ok(())
}
