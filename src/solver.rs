//! A Krylov method with its preconditioner: what a simulator calls in every step.

use crate::amg::Amg;
use crate::backend::{AnyMut, AnyRef, Backend, Operator, Place, Preconditioner};
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Error, Result, Status, fail, try_capacity, try_vec};
use crate::gpu::{self, Choice, Gpu, Staging};
use crate::host::Host;
use crate::krylov::{self, Krylov, Next, Norm, Run};
use crate::matrix::Matrix;
use crate::report::{Phases, Report, SolveReport};
use crate::scalar::{Precision, Scalar};
pub use crate::scalar::{SliceMut, SliceRef};
use crate::singular::NullSpace;
use std::sync::Arc;
use std::time::Instant;

/// Where a solve starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// From zero; the content of x is not read.
    Zero,
    /// From the content of x.
    Given,
}

/// y = A x or z = M r of the caller; a result other than 0 ends the solve with `Status::Callback`. Called on the thread that called
/// `solve`, with vectors of the solver's precision.
pub type UserApply = Box<dyn Fn(SliceRef<'_>, SliceMut<'_>) -> i32 + Send + Sync>;

/// Failures that rounding of the preconditioner can be the cause of.
const PRECISION: &[Status] = &[Status::PrecisionLost, Status::Breakdown, Status::NonFinite];

/// Most residual norms for which room is made before a solve.
const HISTORY_ROOM: usize = 1 << 20;

/// A Krylov method with its preconditioner.
pub struct Solver {
    context: Context,
    config: Config,
    operator: Option<User>,
    preconditioner: Option<User>,
    state: Option<State>,
    solves: Vec<SolveReport>,
    phases: Phases,
}

/// What set-up made.
struct State {
    matrix: Option<Arc<Matrix>>,
    amg: Option<Amg>,
    engine: Placed,
    rows: usize,
}

/// The engine, where the context is.
enum Placed {
    Host(Engine<Host>),
    /// With room for vectors of callers on the host.
    Gpu(Engine<Gpu>, Staging),
}

enum Engine<B: Place> {
    F64(Parts<B, f64>),
    F32(Parts<B, f32>),
}

struct Parts<B: Place, T: Scalar> {
    backend: B,
    name: String,
    norm: Norm,
    null_space: Option<NullSpace<B, T>>,
    method: Box<dyn Krylov<B, T>>,
    operator: Arc<dyn Operator<B, T>>,
    /// The format of the operator, where it is narrower than the matrix.
    narrower: B::Narrower,
    /// A preconditioner of the caller, which replaces AMG.
    user: Option<Box<dyn Preconditioner<B, T>>>,
    rows: usize,
    /// For the recomputed residual.
    r: B::Buffer<T>,
    /// For M b and M r, when the preconditioned norm counts.
    z: Option<B::Buffer<T>>,
}

impl Solver {
    /// A solver with these options; nothing is computed yet.
    pub fn new(context: &Context, config: &Config) -> Solver {
        Solver {
            context: context.clone(),
            config: config.clone(),
            operator: None,
            preconditioner: None,
            state: None,
            solves: Vec::new(),
            phases: Phases::default(),
        }
    }

    /// Replaces the matrix in the Krylov method by y = A x of the caller, for vectors of `rows` elements. The matrix given to
    /// `setup` then only builds the preconditioner. Takes effect at the next `setup`.
    pub fn set_operator(&mut self, rows: usize, apply: UserApply) {
        self.operator = Some(User { what: "operator", rows, apply: Arc::new(apply) });
        self.state = None;
    }

    /// Replaces the preconditioner by z = M r of the caller. Takes effect at the next `setup`.
    pub fn set_preconditioner(&mut self, apply: UserApply) {
        self.preconditioner = Some(User { what: "preconditioner", rows: 0, apply: Arc::new(apply) });
        self.state = None;
    }

    /// Builds the preconditioner and the workspace. The matrix may be absent when an operator was given.
    pub fn setup(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        self.config.check_device(self.context.device())?;
        let rows = match (&self.operator, matrix) {
            (Some(user), None) => user.rows,
            (Some(user), Some(matrix)) if user.rows != matrix.rows() => {
                return fail!(
                    SizeMismatch,
                    "the operator has {} rows, the matrix {}; they must agree",
                    user.rows,
                    matrix.rows()
                );
            }
            (_, Some(matrix)) if matrix.rows() != matrix.cols() => {
                let (rows, cols) = (matrix.rows(), matrix.cols());
                return fail!(
                    SizeMismatch,
                    "a solver needs a square matrix; this one has {rows} rows and {cols} columns"
                );
            }
            (_, Some(matrix)) => matrix.rows(),
            (None, None) => return fail!(NotSetUp, "neither a matrix nor an operator callback was given"),
        };
        if let Some(matrix) = matrix {
            matrix.check_for_set_up(&self.context)?;
        }
        let wants_amg = self.preconditioner.is_none() && self.config.text("solver.preconditioner") == "amg";
        let mut amg = match (wants_amg, matrix) {
            (true, Some(matrix)) => Some(Amg::setup(&self.context, matrix, &self.config)?),
            (true, None) => {
                return fail!(
                    NotSetUp,
                    "the preconditioner is \"amg\", which needs a matrix; give one, or set solver.preconditioner to \
                     \"none\", or set a preconditioner callback"
                );
            }
            (false, _) => None,
        };
        let native = match (&self.operator, matrix) {
            (None, Some(matrix)) => matrix.precision(),
            _ => Precision::F64,
        };
        let precision = self.config.choice("solver.precision").and_then(|p| Precision::from_name(&p)).unwrap_or(native);
        let engine = match self.context.gpu() {
            None => Placed::Host(self.engine(&Host::new(&self.context), precision, matrix, &mut amg, rows)?),
            Some(gpu) => {
                let gpu = &gpu.choosing(Choice::of(&self.config));
                Placed::Gpu(self.engine(gpu, precision, matrix, &mut amg, rows)?, Staging::default())
            }
        };
        self.solves.clear();
        self.solves.push(SolveReport { history: try_capacity(self.history_room())?, ..SolveReport::default() });
        self.state = Some(State { matrix: matrix.cloned(), amg, engine, rows });
        Ok(())
    }

    fn history_room(&self) -> usize {
        (self.config.int("solver.max_iterations") + 1).min(HISTORY_ROOM)
    }

    fn engine<B: Place>(
        &self,
        backend: &B,
        precision: Precision,
        matrix: Option<&Arc<Matrix>>,
        amg: &mut Option<Amg>,
        rows: usize,
    ) -> Result<Engine<B>>
    where
        Amg: Preconditioner<B, f64> + Preconditioner<B, f32>,
    {
        Ok(match precision {
            Precision::F32 => Engine::F32(self.parts(backend, matrix, amg, rows)?),
            _ => Engine::F64(self.parts(backend, matrix, amg, rows)?),
        })
    }

    fn parts<B: Place, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        amg: &mut Option<Amg>,
        rows: usize,
    ) -> Result<Parts<B, T>>
    where
        Amg: Preconditioner<B, T>,
    {
        let symmetric = match amg {
            Some(amg) => {
                amg.prepare::<T>()?;
                Preconditioner::<B, T>::is_constant_symmetric(amg)
            }
            None => self.preconditioner.is_none(),
        };
        let default = if symmetric { "cg" } else { "fcg" };
        let name = self.config.choice("solver.type").unwrap_or(default.to_string());
        let method = krylov::make(&name, backend, rows, &self.config)?;
        let norm = if self.config.text("solver.norm") == "true" { Norm::True } else { Norm::Preconditioned };
        if norm == Norm::Preconditioned && !method.has_preconditioned_residual() {
            return fail!(
                OptionValue,
                "solver.norm is \"preconditioned\", which {name} cannot do; accepted: true, or one of cg, fcg, richardson as \
                 solver.type"
            );
        }
        let mut narrower = B::Narrower::default();
        let narrow = self.narrow_operator(backend, matrix, &mut narrower)?;
        let operator = self.operator(backend, matrix, amg.as_ref(), narrow.as_ref())?;
        let user = match &self.preconditioner {
            Some(user) => Some(backend.host_preconditioner(Box::new(user.clone()))?),
            None => None,
        };
        let null_space = self.config.text("solver.null_space");
        let host = Host::new(&self.context);
        let null_space = NullSpace::new(backend, &host, &null_space, rows, matrix.map(|matrix| &**matrix))?;
        self.check_null_space(backend, &null_space, &*operator)?;
        let z = if norm == Norm::Preconditioned { Some(backend.zeros(rows)?) } else { None };
        let (backend, r) = (backend.clone(), backend.zeros(rows)?);
        Ok(Parts { backend, name, norm, null_space, method, operator, narrower, user, rows, r, z })
    }

    /// What the Krylov method multiplies with: a narrower copy of the matrix where there is one, or the hierarchy's own where that fits.
    fn operator<B: Place, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        amg: Option<&Amg>,
        narrow: Option<&Arc<dyn Operator<B, T>>>,
    ) -> Result<Arc<dyn Operator<B, T>>>
    where
        Amg: Preconditioner<B, T>,
    {
        let matrix = match (&self.operator, matrix) {
            (Some(user), _) => return Ok(backend.host_operator(Box::new(user.clone()))?.into()),
            (None, Some(matrix)) => matrix,
            (None, None) => return fail!(NotSetUp, "neither a matrix nor an operator callback was given"),
        };
        if let Some(narrow) = narrow {
            return Ok(Arc::clone(narrow));
        }
        if let Some(shared) = amg.and_then(Preconditioner::<B, T>::operator) {
            return Ok(shared);
        }
        Ok(backend.given(matrix)?.into())
    }

    /// A copy of the matrix in fewer bits that holds every value exactly, where there is one and the options leave the choice.
    fn narrow_operator<B: Place, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        narrower: &mut B::Narrower,
    ) -> Result<Option<Arc<dyn Operator<B, T>>>> {
        match matrix {
            Some(matrix) if self.operator.is_none() && self.config.choice("precision.operator").is_none() => {
                Ok(backend.given_narrower(matrix, narrower)?.map(Arc::from))
            }
            _ => Ok(None),
        }
    }

    /// Checks the null space against the matrix. An operator callback is not called before a solve, and its null space is believed.
    fn check_null_space<B: Place, T: Scalar>(
        &self,
        backend: &B,
        null_space: &Option<NullSpace<B, T>>,
        operator: &dyn Operator<B, T>,
    ) -> Result<()> {
        match null_space {
            Some(space) if self.operator.is_none() => space.check(backend, operator),
            _ => Ok(()),
        }
    }

    /// What `update` does, in the precision of the engine. The null space is checked first, so that a failure leaves all as it was; values that
    /// are not finite pass there and are refused by their own check.
    fn renew<B: Place, T: Scalar>(
        &self,
        matrix: Option<&Arc<Matrix>>,
        amg: &mut Option<Amg>,
        parts: &mut Parts<B, T>,
    ) -> Result<()>
    where
        Amg: Preconditioner<B, T>,
    {
        let shared = self.operator.is_none() && amg.as_ref().and_then(Preconditioner::<B, T>::operator).is_some();
        if let Some(matrix) = matrix {
            matrix.follow_caller()?;
        }
        let narrow = self.narrow_operator(&parts.backend, matrix, &mut parts.narrower)?;
        let own = match shared && parts.null_space.is_none() {
            true => None,
            false => Some(self.operator(&parts.backend, matrix, None, narrow.as_ref())?),
        };
        if let Some(operator) = &own {
            self.check_null_space(&parts.backend, &parts.null_space, &**operator)?;
        }
        parts.method.forget();
        match (&mut *amg, matrix) {
            (Some(amg), _) => amg.update()?,
            (None, Some(matrix)) => matrix.recheck_values(&self.context)?,
            (None, None) => {}
        }
        parts.operator = match own.filter(|_| !shared) {
            Some(operator) => operator,
            None => self.operator(&parts.backend, matrix, amg.as_ref(), narrow.as_ref())?,
        };
        Ok(())
    }

    /// Takes over changed values of the matrix: numeric work only.
    pub fn update(&mut self) -> Result<()> {
        let Some(mut state) = self.state.take() else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before update");
        };
        let State { matrix, amg, engine, .. } = &mut state;
        let renewed = match engine {
            Placed::Host(Engine::F64(parts)) => self.renew(matrix.as_ref(), amg, parts),
            Placed::Host(Engine::F32(parts)) => self.renew(matrix.as_ref(), amg, parts),
            Placed::Gpu(Engine::F64(parts), _) => self.renew(matrix.as_ref(), amg, parts),
            Placed::Gpu(Engine::F32(parts), _) => self.renew(matrix.as_ref(), amg, parts),
        };
        self.state = Some(state);
        renewed
    }

    /// The matrix that it was set up with.
    pub fn matrix(&self) -> Option<&Matrix> {
        self.state.as_ref().and_then(|state| state.matrix.as_deref())
    }

    /// Rows of the system, once set up.
    pub fn rows(&self) -> Option<usize> {
        self.state.as_ref().map(|state| state.rows)
    }

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
            let (b, mut x) = (b.piece(i * n, n), x.piece(i * n, n));
            let gpu = parts.backend.clone();
            let status = solver.solve_one(parts, amg, &b, &mut x, guess, report)?;
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

    fn solve_one<B: Place, T: Scalar>(
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
                let finite = backend.peak(x).is_finite();
                // Where a backend cannot look, what was lost may have come into x before it showed.
                let again = finite || !B::LOOKS && error.status == Status::PrecisionLost;
                if again && run.widen(&error.message)? {
                    method.forget();
                    if !finite {
                        backend.fill(T::ZERO, x);
                    }
                    zero_guess = !finite;
                    continue;
                }
                return Err(error);
            }
            let end = result?;
            run.residual(b, x, r)?;
            let mut norm = backend.norm(r);
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

    /// What set-up and the last solve did.
    pub fn report(&self) -> Report {
        let Some(state) = &self.state else {
            return Report::of(&self.context);
        };
        let mut report = match &state.amg {
            Some(amg) => amg.report(),
            None => Report::of(&self.context),
        };
        let (name, precision, bytes) = match &state.engine {
            Placed::Host(engine) => engine.describe(),
            Placed::Gpu(engine, _) => engine.describe(),
        };
        report.solver = format!("{name} {}", precision.name());
        report.bytes += bytes;
        report.solve = self.phases.clone();
        // Before the first solve there is room for one report, but nothing in it.
        report.solves = self.solves.iter().filter(|s| !s.history.is_empty()).cloned().collect();
        report
    }
}

fn check_lengths(n: usize, b: usize, x: usize) -> Result<()> {
    if b != x || (n > 0 && !b.is_multiple_of(n)) {
        return fail!(SizeMismatch, "b has {b} and x {x} elements; each must have {n} for every right-hand side");
    }
    Ok(())
}

impl<B: Place> Engine<B> {
    /// Method, precision and bytes.
    fn describe(&self) -> (&str, Precision, usize) {
        match self {
            Engine::F64(parts) => (&parts.name, Precision::F64, parts.bytes()),
            Engine::F32(parts) => (&parts.name, Precision::F32, parts.bytes()),
        }
    }

    /// For vectors of another precision.
    fn refuse<T: Scalar>(&self) -> Result<Status> {
        fail!(
            InvalidArgument,
            "the vectors are {}; this solver works in {} (option solver.precision)",
            T::PRECISION.name(),
            self.describe().1.name()
        )
    }
}

impl<B: Place, T: Scalar> Parts<B, T> {
    fn bytes(&self) -> usize {
        let null_space = self.null_space.as_ref().map_or(0, NullSpace::len);
        let vectors = if self.z.is_some() { 2 } else { 1 };
        self.method.bytes() + (vectors * self.rows + null_space) * T::PRECISION.bytes()
    }
}

/// A callback as operator and as preconditioner.
#[derive(Clone)]
struct User {
    what: &'static str,
    rows: usize,
    apply: Arc<UserApply>,
}

impl User {
    fn call<T: Scalar>(&self, x: &[T], y: &mut [T]) -> Result<()> {
        match (self.apply)(T::slice_ref(x), T::slice_mut(y)) {
            0 => Ok(()),
            code => fail!(Callback, "the {} callback returned {code}; 0 is success", self.what),
        }
    }
}

impl<T: Scalar> Operator<Host, T> for User {
    fn rows(&self) -> usize {
        self.rows
    }

    fn apply(&self, alpha: T, x: &[T], beta: T, y: &mut [T]) -> Result<()> {
        if beta != T::ZERO {
            let mut product = try_vec(y.len(), T::ZERO)?;
            self.call(x, &mut product)?;
            for (y, p) in y.iter_mut().zip(&product) {
                *y = alpha * *p + beta * *y;
            }
            return Ok(());
        }
        self.call(x, y)?;
        if alpha != T::ONE {
            for y in y {
                *y *= alpha;
            }
        }
        Ok(())
    }

    fn residual(&self, b: &[T], x: &[T], r: &mut [T]) -> Result<()> {
        self.call(x, r)?;
        for (r, b) in r.iter_mut().zip(b) {
            *r = *b - *r;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }

    fn format(&self) -> String {
        "callback".to_string()
    }

    fn precision(&self) -> Precision {
        T::PRECISION
    }
}

impl<T: Scalar> Preconditioner<Host, T> for User {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        self.call(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }
}
