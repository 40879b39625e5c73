//! The solver: a Krylov method with its preconditioner.

use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, fail};
use crate::gpu::{Gpu, Staging};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::preconditioner::Inverse;
use crate::report::{Phases, RanksReport};
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
mod reports;
mod scaled;
mod setup;
mod solve;
mod solve_one;
mod solves;
mod system;
mod together;
mod transposed;
mod unsolved;
mod update;
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
            ("solver.tolerance", _) if value == "auto" => solve_one::reachable(precision).to_string(),
            (_, Some(inverse)) => inverse.option(key)?,
            (_, None) => value,
        })
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
}
