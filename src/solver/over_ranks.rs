//! Set-up and solves with a matrix over ranks. All calls are collective, and what fails on one rank fails on all.

use super::parts::{Engine, Parts};
use super::solve::check_lengths;
use super::solves::Solves;
use super::user::SolverBackend;
use super::{BackendEngine, Guess, MAX_PHASES, Solver, State, Transposed};
use crate::backend::Backend;
use crate::comm::{Ranks, Reduction, from_ordered, ordered, unavailable};
use crate::config::Config;
use crate::context::LogLevel;
use crate::error::{Result, Status, fail};
use crate::gpu::{self, Staging};
use crate::host::Host;
use crate::matrix::{DistributedRows, Matrix};
use crate::preconditioner::{Inverse, over_ranks};
use crate::report::RanksReport;
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

impl Solver {
    /// The matrix of the last set-up, if it is one over ranks.
    pub(super) fn matrix_over_ranks(&self) -> Option<Arc<Matrix>> {
        let matrix = self.state.as_ref()?.matrix.as_ref()?;
        matrix.over_ranks().map(|_| Arc::clone(matrix))
    }

    /// Whether the matrix of the last set-up is one over ranks.
    pub(crate) fn is_over_ranks(&self) -> bool {
        self.matrix_over_ranks().is_some()
    }

    /// Over ranks the result of all of them, as [`crate::comm::Ranks::agree`]; otherwise the result.
    pub(crate) fn agree<R>(&self, result: Result<R>) -> Result<R> {
        match self.matrix_over_ranks() {
            Some(matrix) => matrix.agree(result),
            None => result,
        }
    }

    /// As [`Solver::setup`]: every rank computes the preconditioner of the whole matrix and keeps its rows.
    pub(super) fn setup_over_ranks(&mut self, matrix: Option<&Arc<Matrix>>, rows: &Arc<DistributedRows>) -> Result<()> {
        let Some(matrix) = matrix else { unreachable!("it has these rows") };
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let timeout = ranks.set_timeout(self.config.real("comm.timeout"));
            ranks.agree(timeout.and_then(|()| self.check_over_ranks(matrix)))?;
            over_ranks::check_same_options(&self.config, matrix, ranks)?;
            let state = self.state_over_ranks(matrix, rows)?;
            self.solves = ranks.agree(Solves::try_capacity(self.history_capacity()))?;
            self.phases.seconds.reserve(MAX_PHASES);
            self.state = Some(state);
            let spread = self.spread(matrix, rows)?;
            if let Some(state) = &mut self.state {
                state.ranks = Some(spread);
            }
            Ok(())
        })
    }

    /// Collective: how the matrix, and what set-up holds, are spread over the ranks.
    pub(super) fn spread(&self, matrix: &Matrix, rows: &DistributedRows) -> Result<RanksReport> {
        over_ranks::spread(self.own_report(), matrix, rows)
    }

    /// What this rank can tell by itself.
    fn check_over_ranks(&self, matrix: &Arc<Matrix>) -> Result<()> {
        let config = &self.config;
        over_ranks::check_components(&self.context, config)?;
        if self.context.gpu().is_some() {
            if config.text("solver.type") == "bicgstab" {
                return unavailable("solver.type \"bicgstab\" on a GPU", "use \"gmres\", or the device \"host\"");
            }
            if config.text("solver.null_space") != "none" {
                return unavailable("solver.null_space on a GPU", "use the device \"host\"");
            }
        }
        if self.operator.is_some() || self.preconditioner.is_some() || self.preconditioner_matrix.is_some() {
            return unavailable(
                "a callback, or another matrix for the preconditioner,",
                "set up with the matrix alone, and one of the preconditioners of the library",
            );
        }
        if config.text("solver.type") == "direct" {
            return unavailable(
                "solver.type \"direct\"",
                "use \"auto\", or a Krylov method with the preconditioner amg",
            );
        }
        matrix.recheck_values(&self.context)
    }

    fn state_over_ranks(&mut self, callers: &Arc<Matrix>, rows: &Arc<DistributedRows>) -> Result<State> {
        let (over, ranks) = (rows.over(), &rows.over().ranks);
        self.context = self.context.with_own_scratch()?;
        let (changes, size) = ranks.agree(self.values_of(callers))?;
        let scaled = callers.scaled_over_ranks(&self.config, rows, size)?;
        let (matrix, units) = scaled.as_ref().map_or((callers, 0), |(copy, k)| (copy, *k));
        self.effective = self.effective_over_ranks(matrix, rows)?;
        let mut inverse = self.inverse_over_ranks(matrix, rows)?;
        let local = matrix.rows();
        let engine = match self.context.gpu() {
            Some(gpu) => {
                let gpu = ranks.agree(gpu.over(over))?;
                let engine = self.engine(&gpu, self.precision(), Some(matrix), &mut inverse, local);
                BackendEngine::Gpu(ranks.settle(engine)?.in_units(units), Staging::default())
            }
            None => {
                let host = Host::new(&self.context).over(over);
                let engine = self.engine(&host, self.precision(), Some(matrix), &mut inverse, local);
                BackendEngine::Host(ranks.settle(engine)?.in_units(units))
            }
        };
        Ok(State {
            order: None,
            grid: None,
            matrix: Some(Arc::clone(callers)),
            scaled,
            inverse,
            engine,
            fallback: None,
            rows: local,
            changes,
            size,
            transposed: Transposed::default(),
            ranks: None,
        })
    }

    /// The changes of a matrix, and the size of the values of this rank.
    pub(super) fn values_of(&self, matrix: &Matrix) -> Result<(u64, f64)> {
        let changes = matrix.changes(&self.context)?;
        Ok((changes, matrix.size_of_values(&self.context)?))
    }

    /// Collective: the preconditioner.
    fn inverse_over_ranks(&mut self, matrix: &Arc<Matrix>, rows: &DistributedRows) -> Result<Option<Inverse>> {
        let Some(method) = self.method() else { return Ok(None) };
        let (inverse, effective) = Inverse::over_ranks(method, &self.context, matrix, rows, &self.effective)?;
        self.effective = effective;
        Ok(Some(inverse))
    }

    /// The options with a Krylov method that fits the matrix, where `solver.type` leaves it open.
    fn effective_over_ranks(&self, matrix: &Matrix, rows: &DistributedRows) -> Result<Config> {
        let mut config = self.config.clone();
        if config.choice("solver.type").is_some() {
            return Ok(config);
        }
        let symmetry = matrix.symmetry_over_ranks(&self.context, rows)?;
        if !symmetry.is_symmetric_in(matrix.precision()) {
            self.context.log(LogLevel::Info, || "the matrix is not symmetric: GMRES".to_string());
            config.set_str("solver.type", "gmres")?;
        } else if symmetry.is_negative() {
            return fail!(
                MatrixValues,
                "the matrix is symmetric and its diagonal is negative, as of a negative definite one; negate the matrix and the \
                 right-hand sides, or set solver.type to gmres"
            );
        }
        Ok(config)
    }

    /// As [`Solver::solve`], for the parts of this rank of right-hand sides, which are solved one after the other.
    pub(super) fn solve_over_ranks<T: Scalar>(
        &mut self,
        matrix: &Arc<Matrix>,
        b: &[T],
        x: &mut [T],
        guess: Guess,
    ) -> Result<Status> {
        let Some(rows) = matrix.over_ranks() else { unreachable!("the matrix is over ranks") };
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let agreed = self.begin_solve::<T>(matrix, ranks, (b.len(), x.len()), guess)?;
            if agreed != guess {
                x.fill(T::ZERO);
            }
            let Some(mut state) = self.state.take() else { unreachable!("it was there") };
            let result = self.solve_with(&mut state, b, x, agreed);
            self.state = Some(state);
            result
        })
    }

    /// The same for vectors in the memory of the context's GPU.
    pub(super) fn solve_on_device_over_ranks<T: Scalar>(
        &mut self,
        matrix: &Arc<Matrix>,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        let Some(rows) = matrix.over_ranks() else { unreachable!("the matrix is over ranks") };
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let agreed = self.begin_solve::<T>(matrix, ranks, (b.len(), x.len()), guess)?;
            if let Some(gpu) = self.context.gpu().filter(|_| agreed != guess) {
                gpu.fill(T::ZERO, x);
            }
            let Some(mut state) = self.state.take() else { unreachable!("it was there") };
            let result = self.solve_on_device_with(&mut state, b, x, agreed);
            self.state = Some(state);
            result
        })
    }

    /// Collective: checks a solve with vectors of these lengths. Returns the guess of all ranks; where it is another than
    /// that of this rank, it is zeros, a guess like any other.
    fn begin_solve<T: Scalar>(
        &mut self,
        matrix: &Arc<Matrix>,
        ranks: &Ranks,
        lengths: (usize, usize),
        guess: Guess,
    ) -> Result<Guess> {
        // Another solver of the same matrix may have another limit.
        let timeout = ranks.set_timeout(self.config.real("comm.timeout"));
        let begun = self.begin_report(lengths.0, lengths.1);
        let known = self.count.take();
        let checked = timeout.and(begun).and_then(|()| self.check_solve_over_ranks::<T>(matrix, lengths));
        let (changes, size, has_changed) = ranks.agree(checked)?;
        // Vectors without elements do not tell how many there are.
        let count = known.or(lengths.0.checked_div(matrix.rows())).map(|count| count as i64);
        let mut largest = [
            i64::from(guess == Guess::Given),
            count.unwrap_or(i64::MIN),
            count.map_or(i64::MIN, |count| -count),
            ordered(size),
            i64::from(has_changed),
        ];
        ranks.communicator().all_reduce(&mut largest, Reduction::Max)?;
        let [given, most, fewest, size_of_all, any_has_changed] = largest;
        if fewest != i64::MIN && most != -fewest {
            return fail!(
                SizeMismatch,
                "ranks solve for {} to {most} right-hand sides in one call; each must have its part of as many",
                -fewest
            );
        }
        if any_has_changed != 0 {
            let units = matrix.units_of(&self.config, from_ordered(size_of_all));
            self.take_over_changes_over_ranks(matrix, ranks, (changes, size), has_changed, units)?;
        }
        self.solves.begin(usize::try_from(most).unwrap_or(1))?;
        Ok(if given != 0 { Guess::Given } else { Guess::Zero })
    }

    /// Tells how many right-hand sides the next solve has, where it is one over ranks.
    pub(crate) fn expect_right_hand_sides(&mut self, count: usize) {
        self.count = self.is_over_ranks().then_some(count);
    }

    /// What this rank can tell by itself: changes of its values, their size, and whether they are others than those of the operator.
    fn check_solve_over_ranks<T: Scalar>(
        &self,
        matrix: &Arc<Matrix>,
        (b, x): (usize, usize),
    ) -> Result<(u64, f64, bool)> {
        let Some(state) = &self.state else { unreachable!("it has the matrix") };
        let n = state.rows;
        check_lengths(n, b, x)?;
        if b < n {
            return fail!(SizeMismatch, "b and x have no elements; each must have {n}");
        }
        match &state.engine {
            BackendEngine::Host(Engine::F64(parts)) if T::PRECISION == Precision::F64 || parts.converts => {}
            BackendEngine::Host(Engine::F32(_)) if T::PRECISION == Precision::F32 => {}
            BackendEngine::Gpu(Engine::F64(parts), _) if T::PRECISION == Precision::F64 || parts.converts => {}
            BackendEngine::Gpu(Engine::F32(_), _) if T::PRECISION == Precision::F32 => {}
            BackendEngine::Host(engine) => engine.refuse::<T>().map(|_| ())?,
            BackendEngine::Gpu(engine, _) => engine.refuse::<T>().map(|_| ())?,
            BackendEngine::Direct(_) => unreachable!("ranks have no factorisation"),
        }
        if matrix.changes(&self.context)? == state.changes {
            return Ok((state.changes, state.size, false));
        }
        matrix.recheck_values(&self.context)?;
        let (changes, size) = self.values_of(matrix)?;
        Ok((changes, size, true))
    }

    /// Collective: takes over new values of any rank in the operator. The preconditioner stays as it is, unless the values need other
    /// units.
    fn take_over_changes_over_ranks(
        &mut self,
        matrix: &Arc<Matrix>,
        ranks: &Ranks,
        (changes, size): (u64, f64),
        has_changed: bool,
        units: i32,
    ) -> Result<()> {
        if self.state.as_ref().is_some_and(|state| Self::needs_other_units(state, units)) {
            return self.setup(Some(matrix));
        }
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let renewed = ranks.agree(if has_changed { self.renew_over_ranks(matrix, &mut state) } else { Ok(()) });
        if renewed.is_ok() {
            (state.changes, state.size) = (changes, size);
        }
        self.state = Some(state);
        renewed
    }

    /// The operator for new values. Nothing of it is collective: other ranks may have no new ones.
    fn renew_over_ranks(&self, matrix: &Arc<Matrix>, state: &mut State) -> Result<()> {
        let matrix = state.renewed_units(matrix)?;
        match &mut state.engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew_operator_over_ranks(&matrix, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew_operator_over_ranks(&matrix, parts),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew_operator_over_ranks(&matrix, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew_operator_over_ranks(&matrix, parts),
            BackendEngine::Direct(_) => unreachable!("ranks have no factorisation"),
        }
    }

    fn renew_operator_over_ranks<B: SolverBackend, T: Scalar>(
        &self,
        matrix: &Matrix,
        parts: &mut Parts<B, T>,
    ) -> Result<()> {
        parts.operator = parts.backend.matrix_operator(matrix)?.into();
        parts.method.discard_graph();
        Ok(())
    }
}

impl State {
    /// The matrix over ranks that is solved with, after its copy in other units has taken over new values of the caller's.
    pub(super) fn renewed_units(&self, callers: &Arc<Matrix>) -> Result<Arc<Matrix>> {
        let Some((copy, k)) = &self.scaled else { return Ok(Arc::clone(callers)) };
        copy.update_times_power(callers, *k)?;
        copy.set_changes(callers.known_changes());
        Ok(Arc::clone(copy))
    }
}
