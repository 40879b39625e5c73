//! Solves, for vectors on the host and on the device.

use super::fallback::{Fallback, is_of_no_use, settle};
use super::parts::{Engine, Parts};
use super::together::Use;
use super::{BackendEngine, Guess, Solver, State};
use crate::backend::{AnyMut, AnyRef, Backend};
use crate::error::{Class, Result, Status, fail};
use crate::gpu::{self, Gpu, Staging};
use crate::host::Host;
use crate::preconditioner::Inverse;
use crate::report::{Hint, SolveReport};
use crate::scalar::Scalar;
use std::time::Instant;

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
}

/// Whether the Krylov method has turned to the factors before.
fn has_factors(fallback: &Option<&mut Fallback>) -> bool {
    fallback.as_ref().is_some_and(|fallback| fallback.has_factors())
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
