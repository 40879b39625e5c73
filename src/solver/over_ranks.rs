//! Set-up and solves with a matrix over ranks. All calls are collective, and what fails on one rank fails on all.

use super::parts::{Engine, Parts};
use super::solve::check_lengths;
use super::solves::Solves;
use super::user::SolverBackend;
use super::{BackendEngine, Guess, MAX_PHASES, Solver, State, Transposed};
use crate::backend::{Backend, OwnPart};
use crate::comm::{Ranks, Reduction, Spread, unavailable};
use crate::config::Config;
use crate::context::LogLevel;
use crate::error::{Result, Status, fail, try_capacity, try_collect};
use crate::gpu::{self, Staging};
use crate::hash::hash;
use crate::host::Host;
use crate::matrix::{DistributedRows, Matrix, share_of};
use crate::preconditioner::defaults::{SAME_SIGN, THETA, divided};
use crate::preconditioner::{Inverse, Method};
use crate::report::{LevelSpread, RanksReport};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// Smoothers that go through the unknowns one after the other, and what is nearest to each.
const SEQUENTIAL: &[(&str, &str)] = &[
    ("l1_gauss_seidel", "l1_jacobi"),
    ("any_gauss_seidel", "l1_jacobi"),
    ("dilu", "fsai"),
    ("ilu0", "fsai"),
    ("line", "chebyshev"),
];

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
            self.check_same_options(matrix, rows)?;
            let state = self.state_over_ranks(matrix, rows)?;
            self.solves = ranks.agree(Solves::with_capacity(self.history_capacity()))?;
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
        let ranks = &rows.over().ranks;
        let report = ranks.agree(self.own_report())?;
        let halo = &rows.halo;
        let whole = [matrix.rows(), matrix.entries(), halo.ghosts, halo.neighbours(), report.bytes];
        let mut own = ranks.agree(try_capacity(whole.len() * (1 + report.levels.len())))?;
        own.extend(whole.map(|number| number as i64));
        for level in &report.levels {
            let OwnPart { rows, nonzeros, received, neighbours } = level.part.unwrap_or_default();
            own.extend([rows, nonzeros, received, neighbours, level.bytes].map(|number| number as i64));
        }
        let spreads = ranks.spreads(&own)?;
        let mut spreads = spreads.chunks_exact(whole.len()).map(|of| [of[0], of[1], of[2], of[3], of[4]]);
        let [rows, nonzeros, halo, neighbours, bytes] = spreads.next().unwrap_or_default();
        let level = |[rows, nonzeros, received, neighbours, bytes]: [Spread; 5]| LevelSpread {
            rows,
            nonzeros,
            received,
            neighbours,
            bytes,
        };
        let levels = try_collect(spreads.map(level))?;
        Ok(RanksReport { count: ranks.size(), rows, nonzeros, halo, neighbours, bytes, levels })
    }

    /// What this rank can tell by itself.
    fn check_over_ranks(&self, matrix: &Arc<Matrix>) -> Result<()> {
        let config = &self.config;
        config.check_device(self.context.device())?;
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
        let diagonal = "amg.smoother.diagonal";
        if config.has_set(diagonal) && config.text(diagonal) == "block" {
            return unavailable("amg.smoother.diagonal \"block\"", "use \"point\", which is the default over ranks");
        }
        for key in ["amg.smoother.type", "amg.smoother.coarse_type"] {
            let smoother = config.text(key);
            if smoother == "gauss_seidel" && self.context.gpu().is_some() {
                return unavailable(&format!("{key} \"gauss_seidel\" on a GPU"), "use \"chebyshev\"");
            }
            if let Some((name, instead)) = SEQUENTIAL.iter().find(|(name, _)| *name == smoother) {
                return unavailable(&format!("{key} \"{name}\""), &format!("use \"{instead}\""));
            }
        }
        matrix.recheck_values(&self.context)
    }

    /// Options decide which messages are sent.
    fn check_same_options(&self, matrix: &Matrix, rows: &DistributedRows) -> Result<()> {
        let vectors = matrix.near_null_space().map_or(0, |space| space.count * space.dofs_per_node);
        let functions = matrix.functions().map_or(0, |functions| functions.count);
        let json = format!("{} {vectors} {functions}", self.config.to_json());
        let own = json.bytes().fold(0, |sum, byte| hash(usize::from(byte), sum)) >> 1;
        let ranks = &rows.over().ranks;
        let smallest = ranks.reduce(own as i64, Reduction::Min)?;
        if smallest != ranks.reduce(own as i64, Reduction::Max)? {
            return fail!(
                OptionValue,
                "the options of the solver, or what is known about the unknowns of the matrix, differ between ranks; each rank must \
                 set the same"
            );
        }
        Ok(())
    }

    fn state_over_ranks(&mut self, matrix: &Arc<Matrix>, rows: &Arc<DistributedRows>) -> Result<State> {
        let (over, ranks) = (rows.over(), &rows.over().ranks);
        self.context = self.context.with_own_scratch()?;
        let changes = ranks.agree(matrix.changes(&self.context))?;
        self.effective = self.effective_over_ranks(matrix, rows)?;
        let mut inverse = self.inverse_over_ranks(matrix, rows)?;
        let local = matrix.rows();
        let engine = match self.context.gpu() {
            Some(gpu) => {
                let gpu = ranks.agree(gpu.over(over))?;
                let engine = self.engine(&gpu, self.precision(), Some(matrix), &mut inverse, local);
                BackendEngine::Gpu(ranks.settle(engine)?, Staging::default())
            }
            None => {
                let host = Host::new(&self.context).over(over);
                let engine = self.engine(&host, self.precision(), Some(matrix), &mut inverse, local);
                BackendEngine::Host(ranks.settle(engine)?)
            }
        };
        Ok(State {
            order: None,
            grid: None,
            matrix: Some(Arc::clone(matrix)),
            scaled: None,
            inverse,
            engine,
            fallback: None,
            rows: local,
            changes,
            transposed: Transposed::default(),
            ranks: None,
        })
    }

    /// Collective: the preconditioner. A failure in the middle ends what the others wait for in a communicator that serves for
    /// this alone, so that they can agree on it.
    fn inverse_over_ranks(&mut self, matrix: &Arc<Matrix>, rows: &DistributedRows) -> Result<Option<Inverse>> {
        let (ranks, context) = (&rows.over().ranks, self.context.clone());
        let Some(method) = self.method() else { return Ok(None) };
        let node = matrix.near_null_space().map_or(1, |space| space.count);
        let over = rows.over().for_setup(
            self.config.int("amg.ranks.gathered_rows"),
            node,
            self.config.real("comm.timeout"),
        )?;
        let divided = match method {
            Method::Amg if over.is_divided(over.rows()) => self.divided_over_ranks(matrix, rows)?,
            _ => None,
        };
        let is_divided = divided.is_some();
        let of = match (divided, method) {
            (Some((own, config)), _) => {
                self.effective = config;
                own
            }
            (None, Method::Jacobi) => matrix.gathered_diagonal(rows)?,
            (None, _) => matrix.gathered(rows)?,
        };
        of.set_changes(matrix.known_changes());
        let made = Inverse::setup_over_ranks(method, &context, &Arc::new(of), &self.effective, (&over, is_divided));
        if made.is_err() {
            over.ranks.communicator().revoke();
        }
        ranks.agree(made).map(Some)
    }

    /// Collective: the matrix and the options of a set-up that is divided; none where a component cannot be.
    fn divided_over_ranks(&self, matrix: &Arc<Matrix>, rows: &DistributedRows) -> Result<Option<(Matrix, Config)>> {
        let ranks = &rows.over().ranks;
        let node = matrix.near_null_space().map_or(1, |space| space.dofs_per_node);
        if rows.over().rows() > i32::MAX as usize || !rows.over().has_whole_nodes(node) {
            return Ok(None);
        }
        let own = ranks.agree(matrix.among_all_rows(rows))?;
        let entries = ranks.reduce(matrix.entries() as i64, Reduction::Sum)? as usize;
        let uniform = ranks.agree(own.has_uniform_rows(&self.context, THETA, entries))?;
        let uniform = ranks.reduce(i64::from(uniform), Reduction::Min)? == 1;
        let (shares, count) = ranks.agree(own.same_sign_sums(&self.context))?;
        let sums = (ranks.reduce(shares, Reduction::Sum)?, ranks.reduce(count, Reduction::Sum)?);
        let aggregates = uniform || SAME_SIGN.contains(&share_of(sums));
        own.set_unknowns(matrix);
        let config = ranks.agree(divided(&own, &self.effective, entries, aggregates))?;
        Ok(config.map(|config| (own, config)))
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
            (self.state, self.count) = (Some(state), None);
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
            (self.state, self.count) = (Some(state), None);
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
        let checked = timeout.and_then(|()| self.check_solve_over_ranks::<T>(matrix, lengths));
        let known = self.count.take();
        ranks.agree(checked)?;
        // Vectors without elements do not tell how many there are.
        let count = known.or(lengths.0.checked_div(matrix.rows())).map(|count| count as i64);
        let mut largest =
            [i64::from(guess == Guess::Given), count.unwrap_or(i64::MIN), count.map_or(i64::MIN, |count| -count)];
        ranks.communicator().all_reduce(&mut largest, Reduction::Max)?;
        let [given, most, fewest] = largest;
        if fewest != i64::MIN && most != -fewest {
            return fail!(
                SizeMismatch,
                "ranks solve for {} to {most} right-hand sides in one call; each must have its part of as many",
                -fewest
            );
        }
        self.count = Some(usize::try_from(most).unwrap_or(1));
        Ok(if given != 0 { Guess::Given } else { Guess::Zero })
    }

    /// Tells how many right-hand sides the next solve has, where it is one over ranks.
    pub(crate) fn expect_right_hand_sides(&mut self, count: usize) {
        self.count = self.is_over_ranks().then_some(count);
    }

    /// What this rank can tell by itself. Takes over values of the matrix that have changed.
    fn check_solve_over_ranks<T: Scalar>(&mut self, matrix: &Arc<Matrix>, (b, x): (usize, usize)) -> Result<()> {
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
        let changes = matrix.changes(&self.context)?;
        if changes == state.changes {
            return Ok(());
        }
        matrix.recheck_values(&self.context)?;
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let renewed = match &mut state.engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew_over_ranks(matrix, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew_over_ranks(matrix, parts),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew_over_ranks(matrix, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew_over_ranks(matrix, parts),
            BackendEngine::Direct(_) => unreachable!("ranks have no factorisation"),
        };
        if renewed.is_ok() {
            state.changes = changes;
        }
        self.state = Some(state);
        renewed
    }

    /// The operator for new values. Nothing of it is collective: other ranks may have no new ones.
    fn renew_over_ranks<B: SolverBackend, T: Scalar>(&self, matrix: &Matrix, parts: &mut Parts<B, T>) -> Result<()> {
        parts.operator = parts.backend.matrix_operator(matrix)?.into();
        parts.method.discard_graph();
        Ok(())
    }
}
