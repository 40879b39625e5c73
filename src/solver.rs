//! The solver: a Krylov method with its preconditioner.

use crate::backend::common::Symmetry;
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail};
use crate::gpu::{self, Gpu, Staging};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::preconditioner::defaults::nonsymmetric;
use crate::preconditioner::{Inverse, Method};
use crate::report::{Phases, RanksReport, Report};
use crate::scalar::Precision;
pub use crate::scalar::{SliceMut, SliceRef};
use std::sync::Arc;

mod direct;
mod estimate;
mod fallback;
mod grid;
mod hints;
mod over_ranks;
mod parts;
mod reorder;
mod scaled;
mod solve;
mod solves;
mod system;
mod together;
mod transposed;
mod unsolved;
mod update_over_ranks;
mod user;

use direct::Direct;
use fallback::Fallback;
use grid::GridCopy;
use parts::Engine;
use reorder::Order;
use solves::Solves;
use transposed::Transposed;
pub use unsolved::Unsolved;
use user::{Apply, User};

/// The initial guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// Zero; the content of x is not read.
    Zero,
    /// The content of x.
    Given,
}

/// y = A x or z = M r of the caller; a result other than 0 ends the solve with `Status::Callback`. Called on the thread that called
/// `solve`, with vectors of the solver's precision.
pub type UserApply = Box<dyn Fn(SliceRef<'_>, SliceMut<'_>) -> i32 + Send + Sync>;

/// Vectors of a callback in the memory of the context's GPU: y = A x or z = M r.
#[derive(Clone, Copy, Debug)]
pub struct DeviceVectors {
    /// Their length.
    pub n: usize,
    /// Their format: the solver's.
    pub precision: Precision,
    /// Device address of x, which is read.
    pub x: u64,
    /// Device address of y, which is written and not initialised.
    pub y: u64,
}

/// As [`UserApply`], for a context on a GPU. What it launches on the stream that the context works on is in order. Where the context has its
/// own stream, x is complete when the callback begins, and what it launches on the default stream comes before what follows.
pub type DeviceApply = Box<dyn Fn(DeviceVectors) -> i32 + Send + Sync>;

/// What a monitor is told: the residual norm over that of b after an iteration, or before the first one as iteration 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Index of the right-hand side.
    pub right_hand_side: usize,
    /// Iterations done.
    pub iteration: usize,
    /// Residual norm over that of the right-hand side.
    pub residual: f64,
}

/// Called after each iteration, on the thread that called `solve`; `true` ends the solve with `Status::Stopped`.
pub type Monitor = Box<dyn Fn(Progress) -> bool + Send + Sync>;

/// Most residual norms of one right-hand side for which capacity is reserved before a solve.
const MAX_HISTORY_CAPACITY: usize = 1 << 20;

/// More phases than a solve has.
const MAX_PHASES: usize = 16;

/// A Krylov method with its preconditioner.
pub struct Solver {
    context: Context,
    config: Config,
    /// The options with what `auto` chose by the matrix at the last set-up.
    effective: Config,
    operator: Option<User>,
    preconditioner: Option<User>,
    /// The matrix that the preconditioner is built from, where it is another one.
    preconditioner_matrix: Option<Arc<Matrix>>,
    monitor: Option<Monitor>,
    /// The right-hand side that is being solved for.
    index: usize,
    /// Right-hand sides of a call over ranks, where the length of vectors does not tell: this rank may have no rows.
    count: Option<usize>,
    state: Option<State>,
    /// The right-hand sides of the last solve.
    solves: Solves,
    phases: Phases,
    /// Whether the last solve was one with the transposed matrix, by the solver for that.
    reports_transposed: bool,
}

/// The state after set-up.
struct State {
    matrix: Option<Arc<Matrix>>,
    /// The order of its unknowns, and a copy in another one that is solved with instead.
    order: Option<Order>,
    /// A copy as a stencil that is solved with instead.
    grid: Option<GridCopy>,
    /// The matrix that is solved with instead of any of them: its values times a power of two, and the exponent.
    scaled: Option<(Arc<Matrix>, i32)>,
    inverse: Option<Inverse>,
    engine: BackendEngine,
    /// What a solve falls back to, with `solver.type` `auto`.
    fallback: Option<Fallback>,
    rows: usize,
    /// Changes of the matrix that the operator of the engine has taken over.
    changes: u64,
    /// Over ranks, the size of the values of this rank that it has taken over.
    size: f64,
    transposed: Transposed,
    /// Over ranks, how the matrix is spread over them.
    ranks: Option<RanksReport>,
}

impl State {
    /// The exponent of the power of two by which the matrix is multiplied.
    fn units(&self) -> i32 {
        self.scaled.as_ref().map_or(0, |(_, k)| *k)
    }
}

/// The engine on the context's backend.
enum BackendEngine {
    Host(Engine<Host>),
    /// With device copies of vectors of callers on the host.
    Gpu(Engine<Gpu>, Staging),
    /// A sparse factorisation on the host, for vectors of any device.
    Direct(Box<Direct>),
}

impl Solver {
    /// A solver with these options; nothing is computed yet.
    pub fn new(context: &Context, config: &Config) -> Solver {
        Solver {
            context: context.clone(),
            config: config.clone(),
            effective: config.clone(),
            operator: None,
            preconditioner: None,
            preconditioner_matrix: None,
            monitor: None,
            index: 0,
            count: None,
            state: None,
            solves: Solves::default(),
            phases: Phases::default(),
            reports_transposed: false,
        }
    }

    /// Replaces the matrix in the Krylov method by y = A x of the caller, for vectors of `rows` elements. The matrix given to
    /// `setup` then only builds the preconditioner. Takes effect at the next `setup`.
    pub fn set_operator(&mut self, rows: usize, apply: UserApply) {
        self.operator = Some(User { what: "operator", rows, apply: Apply::Host(Arc::new(apply)) });
        self.state = None;
    }

    /// As [`Solver::set_operator`], for a context on a GPU.
    pub fn set_device_operator(&mut self, rows: usize, apply: DeviceApply) {
        self.operator = Some(User { what: "operator", rows, apply: Apply::Device(Arc::new(apply)) });
        self.state = None;
    }

    /// Replaces the preconditioner by z = M r of the caller. Takes effect at the next `setup`.
    pub fn set_preconditioner(&mut self, apply: UserApply) {
        self.preconditioner = Some(User { what: "preconditioner", rows: 0, apply: Apply::Host(Arc::new(apply)) });
        self.state = None;
    }

    /// As [`Solver::set_preconditioner`], for a context on a GPU.
    pub fn set_device_preconditioner(&mut self, apply: DeviceApply) {
        self.preconditioner = Some(User { what: "preconditioner", rows: 0, apply: Apply::Device(Arc::new(apply)) });
        self.state = None;
    }

    /// Multiplies with the matrix given to `setup` again.
    pub fn remove_operator(&mut self) {
        if self.operator.take().is_some() {
            self.state = None;
        }
    }

    /// Uses the preconditioner that the options name again.
    pub fn remove_preconditioner(&mut self) {
        if self.preconditioner.take().is_some() {
            self.state = None;
        }
    }

    /// Builds the preconditioner from another matrix than the one given to `setup`, or from that one again. Takes effect at the
    /// next `setup`.
    pub fn set_preconditioner_matrix(&mut self, matrix: Option<&Arc<Matrix>>) {
        if std::mem::replace(&mut self.preconditioner_matrix, matrix.cloned()).is_some() || matrix.is_some() {
            self.state = None;
        }
    }

    /// Sets or removes a function that is told about each iteration.
    pub fn set_monitor(&mut self, monitor: Option<Monitor>) {
        self.monitor = monitor;
    }

    /// The value of an option as the last set-up used it.
    pub fn option(&self, key: &str) -> Result<String> {
        let value = self.effective.get(key)?;
        let Some(state) = &self.state else {
            return fail!(NotSetUp, "the solver has not been set up; the options of its set-up are not known yet");
        };
        let (method, precision, _) = match &state.engine {
            BackendEngine::Host(engine) => engine.describe(),
            BackendEngine::Gpu(engine, _) => engine.describe(),
            BackendEngine::Direct(direct) => direct.describe(),
        };
        Ok(match (key, &state.inverse) {
            ("solver.type", _) => method.to_string(),
            ("solver.precision", _) => precision.name().to_string(),
            ("solver.tolerance", _) if value == "auto" => solve::reachable(precision).to_string(),
            (_, Some(inverse)) => inverse.option(key)?,
            (_, None) => value,
        })
    }

    /// Builds the preconditioner and the workspace. The matrix may be absent when an operator was given.
    /// When it fails, the solver is as before.
    pub fn setup(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        let before = self.effective.clone();
        let made = self.set_up(matrix);
        if made.is_err() {
            self.effective = before;
        }
        made
    }

    fn set_up(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        if let Some(rows) = matrix.and_then(|matrix| matrix.over_ranks()) {
            return self.setup_over_ranks(matrix, rows);
        }
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
        let changes = matrix.map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        if let Some(matrix) = matrix {
            matrix.check_for_set_up(&self.context)?;
        }
        self.context = self.context.with_own_scratch()?;
        let callers = matrix;
        self.effective = self.config.clone();
        if self.setup_direct(callers)? {
            return Ok(());
        }
        let grid = self.grid_copy(matrix)?;
        let order = if grid.is_some() { None } else { self.order(matrix)? };
        let reordered = order.as_ref().and_then(|order| order.copy.as_ref());
        let copy = grid.as_ref().map(|grid| &grid.matrix).or(reordered.map(|(matrix, _)| matrix));
        let matrix = copy.or(callers);
        let scaled = self.scaled_matrix(matrix)?;
        let matrix = scaled.as_ref().map(|(matrix, _)| matrix).or(matrix);
        let method = self.method();
        let other = self.preconditioner_matrix.clone();
        if let Some(other) = &other {
            other.check_not_distributed("a matrix for the preconditioner alone")?;
        }
        if let Some(other) = other.as_ref().filter(|other| (other.rows(), other.cols()) != (rows, rows)) {
            let (others, cols) = (other.rows(), other.cols());
            return fail!(
                SizeMismatch,
                "the matrix of the preconditioner has {others} rows and {cols} columns, the system {rows} rows"
            );
        }
        // Beside an operator callback, the matrix of the preconditioner tells what it is like.
        let like = other.as_ref().filter(|_| self.operator.is_some()).or(matrix);
        self.effective = self.effective_config(like, grid.as_ref().map(|grid| &grid.symmetry))?;
        let mut inverse = match (method, other.as_ref().or(matrix)) {
            (Some(method), Some(matrix)) => {
                // The Krylov method does not see a factor of the preconditioner, so that its matrix may have units of its own. Richardson's
                // iteration does, and beside a callback the matrix keeps its units there.
                let is_callback = self.operator.is_some() && self.config.text("solver.type") != "richardson";
                let rescales = other.is_some() || is_callback;
                Some(Inverse::setup_in_solver(method, &self.context, matrix, &self.effective, rescales)?)
            }
            (Some(_), None) => {
                return fail!(
                    NotSetUp,
                    "the preconditioner is \"{}\", which needs a matrix; give one, or set solver.preconditioner to \
                     \"none\", or set a preconditioner callback",
                    self.config.text("solver.preconditioner")
                );
            }
            (None, _) => None,
        };
        let precision = self.precision();
        let units = scaled.as_ref().map_or(0, |(_, k)| *k);
        let permutation = reordered.map(|(_, permutation)| permutation);
        let engine = match self.context.gpu() {
            Some(gpu) if gpu::IS_BUILT => {
                let engine = self.engine(gpu, precision, matrix, &mut inverse, rows)?;
                BackendEngine::Gpu(engine.in_units(units).in_order(permutation)?, Staging::default())
            }
            _ => {
                let engine = self.engine(&Host::new(&self.context), precision, matrix, &mut inverse, rows)?;
                BackendEngine::Host(engine.in_units(units).in_order(permutation)?)
            }
        };
        if let Some(matrix) = callers {
            matrix.end_reading()?;
        }
        self.solves = Solves::with_capacity(self.history_capacity())?;
        self.phases.seconds.reserve(MAX_PHASES);
        let (fallback, transposed) = (self.fallback(callers, precision), Transposed::default());
        let matrix = callers.cloned();
        let (size, ranks) = (0.0, None);
        self.state = Some(State {
            matrix,
            order,
            grid,
            scaled,
            inverse,
            engine,
            fallback,
            rows,
            changes,
            size,
            transposed,
            ranks,
        });
        Ok(())
    }

    /// The preconditioner that set-up makes, if the options name one and there is no callback for it.
    fn method(&self) -> Option<Method> {
        Method::from_name(&self.config.text("solver.preconditioner")).filter(|_| self.preconditioner.is_none())
    }

    /// Precision of the Krylov method, or of the vectors of a direct solver.
    fn precision(&self) -> Precision {
        let named = self.config.choice("solver.precision").and_then(|name| Precision::from_name(&name));
        named.unwrap_or(Precision::F64)
    }

    /// The options with a Krylov method, and components, that fit the matrix where `solver.type` leaves them open. Its symmetry may be known.
    fn effective_config(&self, matrix: Option<&Arc<Matrix>>, known: Option<&Symmetry>) -> Result<Config> {
        let is_open = self.config.choice("solver.type").is_none();
        let Some(matrix) = matrix.filter(|_| is_open) else { return Ok(self.config.clone()) };
        let symmetry = known.cloned().map_or_else(|| matrix.symmetry(&self.context), Ok)?;
        if !symmetry.is_symmetric_in(matrix.precision()) {
            self.context.log(LogLevel::Info, || "the matrix is not symmetric: GMRES with Gauss-Seidel".to_string());
            return nonsymmetric(matrix, &self.config);
        }
        if symmetry.is_negative() {
            return fail!(
                MatrixValues,
                "the matrix is symmetric and its diagonal is negative, as of a negative definite one; negate the matrix and the \
                 right-hand sides, or set solver.type to gmres"
            );
        }
        Ok(self.config.clone())
    }

    /// The matrix in other units where its values are so large or small that their squares leave the range of numbers.
    fn scaled_matrix(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<(Arc<Matrix>, i32)>> {
        // The size of an operator callback is not known.
        let Some(matrix) = matrix.filter(|_| self.operator.is_none()) else { return Ok(None) };
        match matrix.units(&self.context, &self.config)? {
            0 => Ok(None),
            k => Ok(Some((Arc::new(matrix.times_power(k)?), k))),
        }
    }

    fn history_capacity(&self) -> usize {
        (self.config.int("solver.max_iterations") + 1).min(MAX_HISTORY_CAPACITY) + direct::HISTORY
    }

    /// Takes over changed values of the matrix: numeric work only, as [`Inverse::update`].
    pub fn update(&mut self) -> Result<()> {
        let Some(state) = &self.state else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before update");
        };
        if matches!(state.engine, BackendEngine::Direct(_)) {
            return self.update_direct();
        }
        if let Some(matrix) = self.matrix_over_ranks() {
            return self.update_over_ranks(&matrix);
        }
        if let Some(callers) = state.matrix.as_ref().filter(|_| self.operator.is_none()) {
            let now = callers.units(&self.context, &self.config)?;
            if Self::needs_other_units(state, now) {
                let callers = Arc::clone(callers);
                return self.setup(Some(&callers));
            }
        }
        let changes = state.matrix.as_ref().map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let checked = match (&state.matrix, state.copy()) {
            // Rows of the caller's are named where values are wrong.
            (Some(callers), Some(_)) => callers.recheck_values(&self.context),
            _ => Ok(()),
        };
        let renewed = checked
            .and_then(|()| self.renew_copies_of(&mut state))
            .and_then(|matrix| self.renew_all(&mut state, matrix.as_ref()));
        let read = state.matrix.as_ref().map_or(Ok(()), |matrix| matrix.end_reading());
        if renewed.is_ok() {
            state.changes = changes;
            state.transposed.is_outdated = true;
            self.renew_fallback(&mut state);
        }
        self.state = Some(state);
        renewed.and(read)
    }

    fn renew_all(&self, state: &mut State, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        let State { inverse, engine, .. } = state;
        match engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew(matrix, inverse, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew(matrix, inverse, parts),
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew(matrix, inverse, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew(matrix, inverse, parts),
            BackendEngine::Direct(_) => unreachable!("new values are factorised"),
        }
    }

    /// Takes over new values in the copies of the caller's matrix: the one that is solved with.
    fn renew_copies_of(&self, state: &mut State) -> Result<Option<Arc<Matrix>>> {
        let Some(callers) = state.matrix.clone().filter(|_| self.operator.is_none()) else {
            return Ok(state.matrix.clone());
        };
        self.update_order(state)?;
        self.update_grid_copy(state)?;
        let matrix = state.copy().map_or(callers, Arc::clone);
        match &state.scaled {
            Some((scaled, k)) => {
                scaled.update_times_power(&matrix, *k)?;
                Ok(Some(Arc::clone(scaled)))
            }
            None => Ok(Some(matrix)),
        }
    }

    /// Before a solve: takes over values of the matrix that have changed since the last one. The preconditioner stays as it is,
    /// unless the values need other units.
    fn take_over_changes(&mut self) -> Result<()> {
        let Some(state) = &self.state else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before solve");
        };
        let Some(callers) = state.matrix.clone().filter(|_| self.operator.is_none()) else { return Ok(()) };
        let changes = callers.changes(&self.context)?;
        if changes == state.changes {
            return Ok(());
        }
        if matches!(state.engine, BackendEngine::Direct(_)) {
            return self.update_direct();
        }
        callers.recheck_values(&self.context)?;
        let now = callers.units(&self.context, &self.config)?;
        if Self::needs_other_units(state, now) {
            let count = self.solves.count();
            self.setup(Some(&callers))?;
            return self.solves.begin(count);
        }
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let renewed = self.renew_operator_of(&mut state);
        if renewed.is_ok() {
            state.changes = changes;
            self.renew_fallback(&mut state);
        }
        self.state = Some(state);
        renewed.and(callers.end_reading())
    }

    fn renew_operator_of(&self, state: &mut State) -> Result<()> {
        let Some(matrix) = &self.renew_copies_of(state)? else { unreachable!("its values have changed") };
        match &mut state.engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew_operator(matrix, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew_operator(matrix, parts),
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew_operator(matrix, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew_operator(matrix, parts),
            BackendEngine::Direct(_) => unreachable!("new values are factorised"),
        }
    }

    /// Whether values of another size need other units than those of the last set-up.
    fn needs_other_units(state: &State, now: i32) -> bool {
        let before = state.units();
        (now == 0) != (before == 0) || now.abs_diff(before) > 50
    }

    /// The matrix that it was set up with.
    pub fn matrix(&self) -> Option<&Matrix> {
        self.state.as_ref().and_then(|state| state.matrix.as_deref())
    }

    /// Rows of the system, once set up.
    pub fn rows(&self) -> Option<usize> {
        self.state.as_ref().map(|state| state.rows)
    }

    /// After a solve of a system without rows: reports as many right-hand sides, which lengths of vectors do not tell.
    pub(crate) fn report_right_hand_sides(&mut self, count: usize) -> Result<()> {
        self.solves.repeat(count)
    }

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
    fn own_report(&self) -> Result<Report> {
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
