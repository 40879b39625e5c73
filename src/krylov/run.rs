//! One solve: products, preconditioner, stopping test and history, which all methods share.

use super::Norm;
use crate::backend::{Backend, NarrowPreconditioner, Operator, Preconditioner};
use crate::context::{Context, LogLevel};
use crate::error::{Error, Result, Status, fail, try_push};
use crate::report::Phases;
use crate::scalar::Scalar;

/// A residual from a recurrence is not trusted below this share of |b|, times the unit roundoff of the vectors: it
/// falls to underflow while b - A x stagnates.
pub(super) const RECURRENCE_FLOOR: f64 = 0.25;

/// An iteration makes progress when the residual norm falls below this share of the norm at the last progress.
pub(super) const PROGRESS_FACTOR: f64 = 0.9;

/// Consecutive iterations in which a narrow preconditioner may be far from symmetric.
pub(super) const MAX_ASYMMETRIC: usize = 20;

/// Iterations between two comparisons of the work that is left with that of a factorisation.
pub(super) const DIRECT_CHECK_INTERVAL: usize = 50;

/// From this iteration on iterates are stored. Solves that converge sooner need none.
const FIRST_STORED: usize = 25;

/// The next iterate to be stored has a residual norm below this share of the stored one's.
const BETTER: f64 = 0.5;

/// The best iterate that was stored: at first the initial guess.
pub struct BestIterate<'a, B: Backend, T: Scalar> {
    /// It; not used while it is zero.
    pub x: &'a mut B::Slice<T>,
    /// Whether it is the zero guess.
    pub is_zero: bool,
    /// Its residual norm.
    pub norm: f64,
}

/// One solve as the methods see it: operator, preconditioner, stopping test and history.
pub struct Run<'a, B: Backend, T: Scalar> {
    /// Where vectors live.
    pub backend: &'a B,
    /// A.
    pub a: &'a dyn Operator<B, T>,
    /// M; `None` is the identity.
    pub m: Option<&'a mut dyn Preconditioner<B, T>>,
    /// Orthonormal vectors that A maps to zero; preconditioned vectors, and with them x, are kept orthogonal to them.
    pub null_space: &'a [B::Buffer<T>],
    /// For the log.
    pub context: &'a Context,
    /// The norm of the stopping test.
    pub norm: Norm,
    /// Residual norm at which to stop.
    pub target: f64,
    /// Norm of the right-hand side, by which histories are divided.
    pub scale: f64,
    /// Iterations without progress after which the solve ends; 0 for no limit.
    pub window: usize,
    /// Residual norm and iteration of the last progress.
    pub progress: (f64, usize),
    /// Consecutive iterations in which the preconditioner was far from symmetric.
    pub asymmetric: usize,
    /// Share of the larger of initial residual and right-hand side at which a residual norm has diverged.
    pub divergence: f64,
    /// The last residual norm.
    pub current: f64,
    /// Told the iteration and the residual norm over that of b; whether to stop.
    pub monitor: Option<&'a dyn Fn(usize, f64) -> bool>,
    /// Told the iterations that are left, by an extrapolation; whether to factorise the matrix instead of them.
    pub direct_check: Option<&'a mut dyn FnMut(usize) -> bool>,
    /// For solves that fail.
    pub best: BestIterate<'a, B, T>,
    /// Iteration limit.
    pub limit: usize,
    /// Iterations done.
    pub iterations: usize,
    /// Relative residual norms, from the initial guess on.
    pub history: &'a mut Vec<f64>,
    /// Seconds of operator and preconditioner.
    pub phases: &'a mut Phases,
}

/// What a method does after it has recorded a residual norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Iterate.
    Continue,
    /// The tolerance is reached.
    Converged,
    /// The iteration limit is reached.
    Limit,
    /// The residual norm no longer falls.
    Stagnated,
    /// The monitor says so.
    Stopped,
    /// A factorisation is cheaper than the iterations that are left.
    Direct,
}

/// Iterations until a residual norm of `target`, where the norms of earlier ones fell as from the first of them to the smallest; `most` where they did
/// not fall.
pub(super) fn iterations_left(norms: impl ExactSizeIterator<Item = f64>, target: f64, most: usize) -> usize {
    let mut norms = norms;
    let done = norms.len().saturating_sub(1) as f64;
    let Some(first) = norms.next() else { return most };
    let smallest = norms.fold(first, f64::min);
    if smallest >= first || target <= 0.0 {
        return most;
    }
    let left = done * (target / smallest).ln() / (smallest / first).ln();
    // Conversions of numbers that are too large end at the largest.
    (left.max(0.0).ceil() as usize).min(most)
}

impl<B: Backend, T: Scalar> Run<'_, B, T> {
    /// y = A x.
    pub fn operator(&mut self, x: &B::Slice<T>, y: &mut B::Slice<T>) -> Result<()> {
        let a = self.a;
        self.phases.time("operator", || a.apply(T::ONE, x, T::ZERO, y))
    }

    /// r = b - A x.
    pub fn residual(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<()> {
        let a = self.a;
        self.phases.time("operator", || a.residual(b, x, r))
    }

    /// r = b - A x, and its norm.
    pub fn residual_norm(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<f64> {
        let (backend, a) = (self.backend, self.a);
        if a.has_epilogue(1) {
            return self.phases.time("operator", || backend.residual_norm(a, b, x, r));
        }
        self.residual(b, x, r)?;
        Ok(backend.norm(r))
    }

    /// The residual of the initial guess, and its norm.
    pub fn initial_residual_norm(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        r: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<f64> {
        if zero_guess {
            self.backend.copy(b, r);
            return Ok(self.backend.norm(r));
        }
        self.residual_norm(b, x, r)
    }

    /// r = b - A x for the initial guess. Records its norm; z = M r when the iteration continues.
    pub fn start_with(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        (r, z): (&mut B::Slice<T>, &mut B::Slice<T>),
        zero_guess: bool,
    ) -> Result<Next> {
        if self.norm == Norm::True {
            let norm = self.initial_residual_norm(b, x, r, zero_guess)?;
            return self.record_true(norm, r, z, Self::start);
        }
        if zero_guess {
            self.backend.copy(b, r);
        } else {
            self.residual(b, x, r)?;
        }
        self.record_preconditioned(r, z, Self::start)
    }

    /// r = b - A x after an iteration. Counts the iteration and records the norm; z = M r when the iteration continues.
    pub fn step_with_residual(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        (r, z): (&mut B::Slice<T>, &mut B::Slice<T>),
    ) -> Result<Next> {
        if self.norm == Norm::True {
            let norm = self.residual_norm(b, x, r)?;
            return self.record_true(norm, r, z, Self::step);
        }
        self.residual(b, x, r)?;
        self.record_preconditioned(r, z, Self::step)
    }

    /// z = M r.
    pub fn precondition(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<()> {
        match &mut self.m {
            Some(m) => self.phases.time("preconditioner", || m.apply(r, z))?,
            None => self.backend.copy(r, z),
        }
        self.project(z);
        Ok(())
    }

    /// Makes x orthogonal to the null space.
    pub fn project(&self, x: &mut B::Slice<T>) {
        project(self.backend, self.null_space, x);
    }

    /// Counts an iteration and records |M r| for the residual r after it; z = M r.
    pub fn step_preconditioned(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<Next> {
        self.record_preconditioned(r, z, Self::step)
    }

    /// The preconditioner with its result in its own vectors, where the method needs neither |M r| nor a projection of
    /// it.
    pub fn narrow(&mut self) -> Option<&mut dyn NarrowPreconditioner<B, T>> {
        if self.norm == Norm::Preconditioned || !self.null_space.is_empty() {
            return None;
        }
        self.m.as_mut()?.narrow()
    }

    /// z = M r with r and z in the vectors of the preconditioner; false where it has none of its own.
    pub fn precondition_narrow(&mut self) -> Result<bool> {
        if self.narrow().is_none() {
            return Ok(false);
        }
        let Some(narrow) = self.m.as_mut().and_then(|m| m.narrow()) else { unreachable!("checked above") };
        self.phases.time("preconditioner", || narrow.apply())?;
        Ok(true)
    }

    /// Whether an iteration can be captured as a graph: its launches do not depend on values, and the host reads no
    /// result in between.
    pub fn is_capturable(&self) -> bool {
        self.norm == Norm::True
            && self.null_space.is_empty()
            && self.a.is_capturable()
            && self.m.as_ref().is_none_or(|m| m.is_capturable())
    }

    fn record_preconditioned(
        &mut self,
        r: &B::Slice<T>,
        z: &mut B::Slice<T>,
        record: fn(&mut Self, f64) -> Result<Next>,
    ) -> Result<Next> {
        self.precondition(r, z)?;
        record(self, self.backend.norm(z))
    }

    fn record_true(
        &mut self,
        norm: f64,
        r: &B::Slice<T>,
        z: &mut B::Slice<T>,
        record: fn(&mut Self, f64) -> Result<Next>,
    ) -> Result<Next> {
        let next = record(self, norm)?;
        if next == Next::Continue {
            self.precondition(r, z)?;
        }
        Ok(next)
    }

    /// Adds a norm to the history; where there is no memory for it, the history ends before it.
    fn remember(&mut self, norm: f64) {
        let _ = try_push(self.history, norm / self.scale);
    }

    /// Records the norm of the initial residual.
    pub fn start(&mut self, norm: f64) -> Result<Next> {
        let is_first = self.history.is_empty();
        if is_first {
            self.remember(norm);
        }
        // The guess of a solve that goes on with the history of another one is the best iterate, too.
        if self.best.norm == f64::INFINITY {
            self.best.norm = norm;
        }
        let next = self.judge(norm, self.target)?;
        Ok(if is_first { self.tell(next) } else { next })
    }

    /// Counts an iteration and records the residual norm after it. Below the accuracy of a residual from a recurrence
    /// the result is `Converged`, and the caller computes b - A x.
    pub fn step(&mut self, norm: f64) -> Result<Next> {
        self.iterations += 1;
        self.remember(norm);
        let (iteration, relative) = (self.iterations, norm / self.scale);
        self.context.log(LogLevel::Debug, || format!("iteration {iteration}: relative residual {relative:.3e}"));
        let next = self.judge(norm, self.target.max(RECURRENCE_FLOOR * T::EPSILON.to_f64() * self.scale))?;
        let next = self.tell(next);
        Ok(if next == Next::Continue && self.is_cheaper_direct() { Next::Direct } else { next })
    }

    /// Whether, asked after every [`DIRECT_CHECK_INTERVAL`] iterations, a factorisation is cheaper than those that are left.
    fn is_cheaper_direct(&mut self) -> bool {
        let Some(direct_check) =
            self.direct_check.as_deref_mut().filter(|_| self.iterations.is_multiple_of(DIRECT_CHECK_INTERVAL))
        else {
            return false;
        };
        let most = self.limit.saturating_sub(self.iterations);
        direct_check(iterations_left(self.history.iter().copied(), self.target / self.scale, most))
    }

    /// Tells the monitor, which may end an iteration that would go on.
    fn tell(&self, next: Next) -> Next {
        let stops = self.monitor.is_some_and(|monitor| monitor(self.iterations, self.current / self.scale));
        if stops && next == Next::Continue { Next::Stopped } else { next }
    }

    fn judge(&mut self, norm: f64, target: f64) -> Result<Next> {
        if !norm.is_finite() {
            self.backend.status()?;
            if self.iterations == 0 && self.norm == Norm::True {
                return fail!(
                    NonFinite,
                    "the residual norm of the initial guess is {norm}; the guess in x must be finite, and so must its residual: begin with zero"
                );
            }
            return fail!(NonFinite, "the residual norm is {norm} after iteration {}", self.iterations);
        }
        self.current = norm;
        let bound = self.divergence * self.scale.max(self.history.first().map_or(0.0, |first| first * self.scale));
        if norm > bound {
            return fail!(
                Diverged,
                "the residual norm is {:.3e} times that of b after iteration {}",
                norm / self.scale,
                self.iterations
            );
        }
        if norm < PROGRESS_FACTOR * self.progress.0 {
            self.progress = (norm, self.iterations);
        }
        Ok(if norm <= target {
            Next::Converged
        } else if self.iterations >= self.limit {
            Next::Limit
        } else if self.window > 0 && self.iterations - self.progress.1 >= self.window {
            Next::Stagnated
        } else {
            Next::Continue
        })
    }

    /// Stores an iterate, whose residual norm was recorded last, if it is much better than the stored one.
    pub fn keep(&mut self, x: &B::Slice<T>) {
        let best = &mut self.best;
        if self.norm == Norm::True && self.iterations >= FIRST_STORED && self.current < BETTER * best.norm {
            self.backend.copy(x, best.x);
            (best.is_zero, best.norm) = (false, self.current);
        }
    }

    /// Replaces x, whose residual b - A x has this norm, by the stored iterate if that is better. Returns the norm of what
    /// x then is. Overwrites r.
    pub fn take_best(&mut self, b: &B::Slice<T>, x: &mut B::Slice<T>, r: &mut B::Slice<T>, norm: f64) -> Result<f64> {
        // NaN is not better than anything.
        if self.norm != Norm::True || self.best.norm >= norm || !self.best.norm.is_finite() {
            return Ok(norm);
        }
        if self.best.is_zero {
            self.backend.copy(b, r);
            self.backend.fill(T::ZERO, x);
            return Ok(self.backend.norm(r));
        }
        // The norm of a recurrence may be below the true one.
        let a = self.a;
        a.residual(b, self.best.x, r)?;
        let best = self.backend.norm(r);
        if best >= norm {
            return Ok(norm);
        }
        self.backend.copy(self.best.x, x);
        Ok(best)
    }

    /// Describes the narrowest format of the preconditioner, where that is narrower than the method's vectors: a
    /// failure may be its rounding.
    pub fn narrowest(&self) -> Option<String> {
        self.m.as_ref().and_then(|m| m.narrowest())
    }

    /// After a failure: applies the preconditioner to the residual of x, or to b where x is not finite, and returns the
    /// loss of precision that it finds. Overwrites r.
    pub fn examine(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<Option<Error>> {
        if B::HAS_IMMEDIATE_REDUCTIONS || self.m.is_none() {
            return Ok(None);
        }
        if self.backend.max_norm(x).is_finite() {
            self.residual(b, x, r)?;
        } else {
            self.backend.copy(b, r);
        }
        match self.m.as_mut().map_or(Ok(()), |m| m.examine(r)) {
            Err(error) if error.status == Status::PrecisionLost => Ok(Some(error)),
            result => result.map(|()| None),
        }
    }

    /// Stores the preconditioner in wider formats after a failure; false when no wider format is allowed.
    pub fn widen(&mut self, reason: &str) -> Result<bool> {
        self.asymmetric = 0;
        self.progress = (f64::INFINITY, self.iterations);
        match &mut self.m {
            Some(m) => self.phases.time("promotion", || m.widen(reason)),
            None => Ok(false),
        }
    }

    /// Whether [`Run::watch_symmetry`] may fail in this iteration.
    pub fn may_lose_symmetry(&self) -> bool {
        self.asymmetric + 1 >= MAX_ASYMMETRIC && self.narrowest().is_some()
    }

    /// Counts consecutive iterations in which |z·r_previous| exceeds |z·r|. After too many of them a narrow
    /// preconditioner has lost its symmetry to rounding, and the solve fails.
    pub fn watch_symmetry(&mut self, share: f64) -> Result<()> {
        self.asymmetric = if share > 1.0 { self.asymmetric + 1 } else { 0 };
        if self.asymmetric < MAX_ASYMMETRIC {
            return Ok(());
        }
        match self.narrowest() {
            Some(narrowest) => fail!(
                PrecisionLost,
                "the preconditioner has not been symmetric in {MAX_ASYMMETRIC} iterations up to {}; {narrowest}",
                self.iterations
            ),
            None => Ok(()),
        }
    }

    /// The error of a breakdown, with the property that A or M lacks.
    pub fn breakdown<R>(&self, what: &str) -> Result<R> {
        fail!(Breakdown, "in iteration {}: {what}", self.iterations + 1)
    }
}

/// x -= (u·x) u for each of the orthonormal vectors u.
pub fn project<B: Backend, T: Scalar>(backend: &B, basis: &[B::Buffer<T>], x: &mut B::Slice<T>) {
    for u in basis {
        let share = backend.dot(u, x);
        backend.axpby(T::from_f64(-share), u, T::ONE, x);
    }
}
