//! Solves, for vectors on the host and on the device.

use super::parts::{Engine, Parts};
use super::user::SolverBackend;
use super::{Guess, Placed, Solver, State};
use crate::backend::{AnyMut, AnyRef, Backend, Preconditioner};
use crate::context::LogLevel;
use crate::error::{Error, Result, Status, fail, try_capacity};
use crate::gpu::{self, Gpu, Staging};
use crate::host::Host;
use crate::krylov::{self, Next, Run};
use crate::preconditioner::Amg;
use crate::report::SolveReport;
use crate::scalar::Scalar;
use std::time::Instant;

/// Failures that rounding of the preconditioner can be the cause of.
const PRECISION: &[Status] = &[Status::PrecisionLost, Status::Breakdown, Status::NonFinite];

impl Solver {
    /// Solves for one or several right-hand sides, one after the other in `b` and `x`: their number follows from the length.
    /// `Ok` is `Success`, or when at least one of them was not solved to the tolerance, `NotConverged` or `Stagnated` as the
    /// first of those. After an error x holds the last iterate, which may not be finite.
    pub fn solve<T: Scalar>(&mut self, b: &[T], x: &mut [T], guess: Guess) -> Result<Status> {
        let Some(mut state) = self.state.take() else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before solve");
        };
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
        let Some(mut state) = self.state.take() else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before solve");
        };
        let result = self.solve_on_device_with(&mut state, b, x, guess);
        self.state = Some(state);
        result
    }

    fn solve_with<T: Scalar>(&mut self, state: &mut State, b: &[T], x: &mut [T], guess: Guess) -> Result<Status> {
        check_lengths(state.rows, b.len(), x.len())?;
        let n = state.rows;
        let work = state.matrix.as_ref().map_or(n, |matrix| matrix.entries());
        let State { engine, amg, .. } = state;
        match engine {
            Placed::Host(engine) => match (engine, Host::any_ref(b), Host::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => {
                    self.solve_on_host(parts, amg, work, b, x, guess)
                }
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => {
                    self.solve_on_host(parts, amg, work, b, x, guess)
                }
                (engine, ..) => engine.refuse::<T>(),
            },
            Placed::Gpu(engine, staging) => match (engine, Host::any_ref(b), Host::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => {
                    self.solve_from_host(parts, amg, staging, b, x, guess)
                }
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => {
                    self.solve_from_host(parts, amg, staging, b, x, guess)
                }
                (engine, ..) => engine.refuse::<T>(),
            },
        }
    }

    fn solve_on_device_with<T: Scalar>(
        &mut self,
        state: &mut State,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        check_lengths(state.rows, b.len(), x.len())?;
        let State { engine, amg, .. } = state;
        match engine {
            Placed::Host(_) => {
                fail!(InvalidArgument, "the vectors are in device memory, and the solver is on the host")
            }
            Placed::Gpu(engine, _) => match (engine, Gpu::any_ref(b), Gpu::any_mut(x)) {
                (Engine::F64(parts), AnyRef::F64(b), AnyMut::F64(x)) => self.solve_there(parts, amg, b, x, guess),
                (Engine::F32(parts), AnyRef::F32(b), AnyMut::F32(x)) => self.solve_there(parts, amg, b, x, guess),
                (engine, ..) => engine.refuse::<T>(),
            },
        }
    }

    /// On the host, with the threads of the context.
    fn solve_on_host<T: Scalar>(
        &mut self,
        parts: &mut Parts<Host, T>,
        amg: &mut Option<Amg>,
        work: usize,
        b: &[T],
        x: &mut [T],
        guess: Guess,
    ) -> Result<Status> {
        let n = parts.rows;
        self.solve_each(b.len().checked_div(n).unwrap_or(0), |solver, i, report| {
            let (b, x) = (&b[i * n..][..n], &mut x[i * n..][..n]);
            if solver.operator.is_some() || solver.preconditioner.is_some() {
                // Callbacks belong on the caller's thread; each operation finds its own way to the pool.
                solver.solve_one(parts, amg, b, x, guess, report)
            } else {
                let context = solver.context.clone();
                context.run(work, || solver.solve_one(parts, amg, b, x, guess, report))
            }
        })
    }

    /// On the device, for vectors on the host.
    fn solve_from_host<T: Scalar>(
        &mut self,
        parts: &mut Parts<Gpu, T>,
        amg: &mut Option<Amg>,
        staging: &mut Staging,
        b: &[T],
        x: &mut [T],
        guess: Guess,
    ) -> Result<Status> {
        let n = parts.rows;
        self.solve_each(b.len().checked_div(n).unwrap_or(0), |solver, i, report| {
            let (b, x) = (&b[i * n..][..n], &mut x[i * n..][..n]);
            let gpu = parts.backend.clone();
            let (own_b, own_x) = staging.vectors(&gpu, n)?;
            gpu.write(b, own_b)?;
            if guess == Guess::Given {
                gpu.write(x, own_x)?;
            }
            let result = solver.solve_one(parts, amg, own_b, own_x, guess, report);
            // Also after an error x is the last iterate, unless the device is what failed.
            let read = gpu.read(own_x, x);
            let status = result?;
            read.map(|()| status)
        })
    }

    /// On the device, for vectors that are there.
    fn solve_there<T: Scalar>(
        &mut self,
        parts: &mut Parts<Gpu, T>,
        amg: &mut Option<Amg>,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        let n = parts.rows;
        self.solve_each(b.len().checked_div(n).unwrap_or(0), |solver, i, report| {
            let (b, x) = (b.piece(i * n, n), x.piece_mut(i * n, n));
            let gpu = parts.backend.clone();
            let status = solver.solve_one(parts, amg, b, x, guess, report)?;
            gpu.end_call()?;
            Ok(status)
        })
    }

    /// One right-hand side after the other, with their reports.
    fn solve_each(
        &mut self,
        count: usize,
        mut one: impl FnMut(&mut Self, usize, &mut SolveReport) -> Result<Status>,
    ) -> Result<Status> {
        let start = Instant::now();
        while self.solves.len() < count {
            self.solves.push(SolveReport { history: try_capacity(self.history_room())?, ..SolveReport::default() });
        }
        self.solves.truncate(count.max(1));
        for phase in &mut self.phases.seconds {
            phase.1 = 0.0;
        }
        let mut status = Status::Success;
        for i in 0..count {
            let mut report = std::mem::take(&mut self.solves[i]);
            let result = one(self, i, &mut report);
            self.solves[i] = report;
            let result = result?;
            if status == Status::Success {
                status = result;
            }
        }
        self.phases.add("total", start.elapsed().as_secs_f64());
        Ok(status)
    }

    fn solve_one<B: SolverBackend, T: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        amg: &mut Option<Amg>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Status>
    where
        Amg: Preconditioner<B, T>,
    {
        report.history.clear();
        (report.iterations, report.converged, report.true_residual) = (0, false, f64::NAN);
        let Parts { backend, name, norm, null_space, method, operator, user, r, z, .. } = parts;
        let backend: &B = backend;
        let mut norm_b = backend.norm(b);
        if !norm_b.is_finite() {
            return fail!(NonFinite, "the norm of the right-hand side is {norm_b}; b must be finite");
        }
        let (b, null_space) = match null_space {
            Some(space) => {
                backend.copy(b, &mut space.b);
                // Twice: once leaves the rounding of a long sum.
                for _ in 0..2 {
                    krylov::project(backend, &space.basis, &mut space.b);
                }
                let rounding = 8.0 * T::EPSILON.to_f64() * norm_b;
                norm_b = Some(backend.norm(&space.b)).filter(|norm| *norm > rounding).unwrap_or(0.0);
                (&*space.b, space.basis.as_slice())
            }
            None => (b, [].as_slice()),
        };
        if norm_b == 0.0 {
            backend.fill(T::ZERO, x);
            (report.converged, report.true_residual) = (true, 0.0);
            report.history.push(0.0);
            return Ok(Status::Success);
        }
        if guess == Guess::Zero {
            backend.fill(T::ZERO, x);
        }
        let absolute = self.config.real("solver.absolute_tolerance");
        let m: Option<&mut dyn Preconditioner<B, T>> = match (user, amg) {
            (Some(user), _) => Some(&mut **user),
            (None, Some(amg)) => Some(amg),
            (None, None) => None,
        };
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
            limit: self.config.int("solver.max_iterations"),
            iterations: 0,
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
        run.target = (self.config.real("solver.tolerance") * run.scale).max(absolute);
        let mut zero_guess = guess == Guess::Zero;
        let mut before = f64::INFINITY;
        let end = loop {
            let result = method.solve(&mut run, b, x, zero_guess);
            report.iterations = run.iterations;
            let failure = match &result {
                Ok(Next::Stagnated) => run.narrowest().map(|narrowest| {
                    let window = run.window;
                    Error::new(
                        Status::PrecisionLost,
                        format!("the residual norm has not fallen in {window} iterations; {narrowest}"),
                    )
                }),
                Err(error) if PRECISION.contains(&error.status) => Some(error.clone()),
                _ => None,
            };
            if let Some(mut error) = failure {
                if error.status != Status::PrecisionLost {
                    error = run.examine(b, x, r)?.unwrap_or(error);
                }
                let finite = backend.max_norm(x).is_finite();
                // Without a check in each application, x may contain values that are not finite.
                let again = finite || !B::HAS_IMMEDIATE_REDUCTIONS && error.status == Status::PrecisionLost;
                if again && run.widen(&error.message)? {
                    method.discard_graph();
                    if !finite {
                        backend.fill(T::ZERO, x);
                    }
                    zero_guess = !finite;
                    continue;
                }
                return Err(error);
            }
            let end = result?;
            let mut norm = run.residual_norm(b, x, r)?;
            report.true_residual = norm / norm_b;
            if end != Next::Converged {
                break end;
            }
            if let Some(z) = z {
                run.precondition(r, z)?;
                norm = backend.norm(z);
            }
            // The residual that a method carries along drifts from the one of x: when the claim does not hold, start again from
            // x, as long as that still helps.
            if norm <= run.target {
                break Next::Converged;
            }
            if norm > 0.5 * before {
                break Next::Stagnated;
            }
            before = norm;
            zero_guess = false;
        };
        run.project(x);
        backend.status()?;
        report.converged = end == Next::Converged;
        let (iterations, residual) = (report.iterations, report.true_residual);
        self.context
            .log(LogLevel::Info, || format!("{name}: {iterations} iterations, true relative residual {residual:.3e}"));
        Ok(match end {
            Next::Converged => Status::Success,
            Next::Stagnated => Status::Stagnated,
            Next::Limit | Next::Continue => Status::NotConverged,
        })
    }
}

fn check_lengths(n: usize, b: usize, x: usize) -> Result<()> {
    if b != x || (n > 0 && !b.is_multiple_of(n)) {
        return fail!(SizeMismatch, "b has {b} and x {x} elements; each must have {n} for every right-hand side");
    }
    Ok(())
}
