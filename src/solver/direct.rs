//! Systems that are solved by a sparse factorisation on the host: `solver.type` `direct`.

use super::system::NULL_SPACE_HINT;
use super::{BackendEngine, Guess, Solver, State, Transposed};
use crate::backend::{AnyMut, AnyRef, Backend};
use crate::context::{Context, LogLevel};
use crate::error::{Result, Status, fail, try_vec};
use crate::gpu::{self, Gpu};
use crate::host::sparse_direct::{Plan, Scalars, SparseDirect, ZeroPivots};
use crate::matrix::{Matrix, Values};
use crate::report::{Factorisation, Hint, Phases, Report, SolveReport};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;
use std::time::Instant;

/// Residuals of a solve: more than it has steps of refinement.
pub const HISTORY: usize = 16;

/// A factorised matrix with what a solve needs.
pub struct Direct {
    /// None after an update that failed.
    factor: Option<SparseDirect>,
    /// Precision of vectors; the factors are in f64.
    precision: Precision,
    /// Whether vectors in f32 are taken, too, as for a matrix in f32.
    converts: bool,
    phases: Phases,
    b: Vec<f64>,
    x: Vec<f64>,
    /// A vector of a device in f32, on its way.
    single: Vec<f32>,
}

/// Runs `$work` on the values of a matrix, as a view of f64 or f32.
macro_rules! with_view {
    ($matrix:expr, $a:ident => $work:expr) => {{
        let (structure, values) = $matrix.copied()?;
        match values {
            Values::F64(values) => {
                let $a = structure.view(values.as_slice());
                $work
            }
            Values::F32(values) => {
                let $a = structure.view(values.as_slice());
                $work
            }
        }
    }};
}

impl Direct {
    /// Factorises a matrix.
    fn new(context: &Context, matrix: &Matrix, precision: Precision) -> Result<Direct> {
        let (start, mut phases) = (Instant::now(), Phases::default());
        let order = |scalars: Scalars| Plan::of_scalars(&scalars).map(|plan| (plan, scalars));
        let (plan, scalars) = with_view!(matrix, a => phases.time("ordering", || {
            context.run(a.entries(), || Scalars::new(&a).and_then(order))
        }))?;
        let factor = phases.time("factorisation", || {
            context.run(plan.flops() as usize, || plan.factorise_scalars(scalars, ZeroPivots::Refuse))
        })?;
        let mut direct = Direct::of(context, matrix, precision, factor, phases)?;
        direct.phases.add("total", start.elapsed().as_secs_f64());
        Ok(direct)
    }

    /// Orders a matrix, which tells what its factorisation costs.
    pub(super) fn plan(context: &Context, matrix: &Matrix) -> Result<Plan> {
        with_view!(matrix, a => context.run(a.entries(), || Plan::new(&a)))
    }

    /// Factorises a matrix that was ordered.
    pub(super) fn with_plan(context: &Context, matrix: &Matrix, precision: Precision, plan: Plan) -> Result<Direct> {
        let (flops, mut phases) = (plan.flops(), Phases::default());
        let factor = with_view!(matrix, a => phases.time("factorisation", || {
            context.run(flops as usize, || plan.factorise(&a, ZeroPivots::Refuse))
        }))?;
        Direct::of(context, matrix, precision, factor, phases)
    }

    /// With these factors of a matrix.
    fn of(
        context: &Context,
        matrix: &Matrix,
        precision: Precision,
        factor: SparseDirect,
        phases: Phases,
    ) -> Result<Direct> {
        let n = matrix.rows();
        let converts = matrix.precision() == Precision::F32 && precision == Precision::F64;
        let has_single = context.gpu().is_some() && (converts || precision == Precision::F32);
        let single = if has_single { try_vec(n, 0.0)? } else { Vec::new() };
        let (b, x) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?);
        let direct = Direct { factor: Some(factor), precision, converts, phases, b, x, single };
        context.log(LogLevel::Info, || direct.facts().map_or_else(String::new, |facts| facts.to_text()));
        matrix.end_reading()?;
        Ok(direct)
    }

    /// Factorises the values that the matrix has now. The order is kept.
    pub(super) fn update(&mut self, context: &Context, matrix: &Matrix) -> Result<()> {
        let (start, mut phases) = (Instant::now(), Phases::default());
        let Some(factor) = self.factor.take() else {
            *self = Direct::new(context, matrix, self.precision)?;
            return Ok(());
        };
        let work = matrix.entries().saturating_mul(100);
        let factor = with_view!(matrix, a => phases.time("factorisation", || {
            context.run(work, || factor.update(&a))
        }))?;
        self.factor = Some(factor);
        phases.add("total", start.elapsed().as_secs_f64());
        self.phases = phases;
        matrix.end_reading()
    }

    /// What the report tells about the factors.
    pub(super) fn facts(&self) -> Option<Factorisation> {
        let factor = self.factor.as_ref()?;
        let negative = factor.method().negative();
        Some(Factorisation {
            method: factor.method().name(),
            rows: factor.rows(),
            negative,
            entries: factor.fill(),
            bytes: factor.bytes(),
        })
    }

    /// Solves with the transpose from now on, by the same factors, or with the matrix again.
    pub(super) fn set_transposed(&mut self, is_transposed: bool) -> Result<()> {
        self.factor.as_mut().map_or(Ok(()), |factor| factor.set_transposed(is_transposed))
    }

    pub(super) fn bytes(&self) -> usize {
        let vectors = size_of_val(self.b.as_slice()) + size_of_val(self.x.as_slice());
        self.factor.as_ref().map_or(0, SparseDirect::bytes) + vectors + size_of_val(self.single.as_slice())
    }

    /// Solves from `b` to `x`, unless the guess there is a solution. One in f32 is rounded before its residual is computed.
    /// Where the report has the residual of an earlier attempt, `None` says that this one is not better.
    fn solve(
        &mut self,
        guess: Guess,
        (relative, absolute): (f64, f64),
        report: &mut SolveReport,
    ) -> Result<Option<Status>> {
        let Some(factor) = &mut self.factor else {
            return fail!(NotSetUp, "the last update of the factorisation failed; call update or setup before solve");
        };
        let largest = self.b.iter().fold(0.0_f64, |m, v| if v.abs() > m || v.is_nan() { v.abs() } else { m });
        if !largest.is_finite() {
            return fail!(NonFinite, "the largest element of the right-hand side is {largest}; b must be finite");
        }
        if largest == 0.0 {
            self.x.fill(0.0);
            (report.converged, report.true_residual) = (true, 0.0);
            report.history.push(0.0);
            return Ok(Some(Status::Success));
        }
        let is_first = report.history.is_empty();
        let mut of_guess = 1.0;
        if guess == Guess::Given && is_first {
            let residual = factor.residual(&self.b, &self.x);
            of_guess = residual;
            if residual <= relative {
                (report.converged, report.true_residual) = (true, residual);
                report.history.push(residual);
                return Ok(Some(Status::Success));
            }
        }
        let solution = factor.solve(&self.b, &mut self.x, relative);
        let mut residual = solution.residual;
        if self.precision == Precision::F32 {
            self.x.iter_mut().for_each(|v| *v = f64::from(*v as f32));
            residual = factor.residual(&self.b, &self.x);
        }
        report.direct_solves = solution.refinements + 1;
        report.iterations += report.direct_solves;
        if is_first {
            report.history.push(1.0);
        }
        report.history.extend_from_slice(&solution.residuals[..=solution.refinements]);
        if !residual.is_finite() {
            return fail!(NonFinite, "the solution of the factorised system is not finite");
        }
        report.converged = residual <= relative || residual * solution.norm_b <= absolute;
        if !report.converged && report.true_residual <= residual {
            return Ok(None);
        }
        if !report.converged && residual > 1.0 {
            if !is_first {
                return Ok(None);
            }
            // The guess is better: zero, or what is still in the memory of the caller.
            self.x.fill(0.0);
            report.true_residual = of_guess;
            return fail!(
                Breakdown,
                "the matrix is singular to rounding: the solution by its factors has a relative residual of {residual:.3e}; a \
                 consistent system is solved by a Krylov method, with solver.null_space where its null space is known"
            );
        }
        report.true_residual = residual;
        if report.converged {
            return Ok(Some(Status::Success));
        }
        if report.hint != Hint::Text(NULL_SPACE_HINT) {
            report.hint =
                Hint::Text("the matrix is too badly conditioned for more: refinement of the direct solution ends here");
        }
        Ok(Some(Status::Stagnated))
    }

    /// One right-hand side in vectors on the host.
    fn solve_on_host<T: Scalar>(
        &mut self,
        (b, x): (&[T], &mut [T]),
        guess: Guess,
        tolerances: (f64, f64),
        report: &mut SolveReport,
    ) -> Result<Option<Status>> {
        for (to, b) in self.b.iter_mut().zip(b) {
            *to = b.to_f64();
        }
        if guess == Guess::Given {
            for (to, x) in self.x.iter_mut().zip(&*x) {
                *to = x.to_f64();
            }
        }
        let end = self.solve(guess, tolerances, report);
        if writes(&end, guess) {
            for (to, x) in x.iter_mut().zip(&self.x) {
                *to = T::from_f64(*x);
            }
        }
        end
    }

    /// The same for vectors in device memory, which are copied to the host and back.
    fn solve_on_device<T: Scalar>(
        &mut self,
        gpu: &Gpu,
        (b, x): (&gpu::Slice<T>, &mut gpu::Slice<T>),
        guess: Guess,
        tolerances: (f64, f64),
        report: &mut SolveReport,
    ) -> Result<Option<Status>> {
        match Gpu::any_ref(b) {
            AnyRef::F64(b) => gpu.read(b, &mut self.b)?,
            AnyRef::F32(b) => {
                gpu.read(b, &mut self.single)?;
                self.b.iter_mut().zip(&self.single).for_each(|(to, b)| *to = f64::from(*b));
            }
        }
        if guess == Guess::Given {
            match Gpu::any_ref(x) {
                AnyRef::F64(x) => gpu.read(x, &mut self.x)?,
                AnyRef::F32(x) => {
                    gpu.read(x, &mut self.single)?;
                    self.x.iter_mut().zip(&self.single).for_each(|(to, x)| *to = f64::from(*x));
                }
            }
        }
        let end = self.solve(guess, tolerances, report);
        match Gpu::any_mut(x) {
            _ if !writes(&end, guess) => {}
            AnyMut::F64(x) => gpu.write(&self.x, x)?,
            AnyMut::F32(x) => {
                self.single.iter_mut().zip(&self.x).for_each(|(to, x)| *to = *x as f32);
                gpu.write(&self.single, x)?;
            }
        }
        gpu.end_call()?;
        end
    }
}

/// Whether x of the caller becomes that of a solve with this end.
fn writes(end: &Result<Option<Status>>, guess: Guess) -> bool {
    match end {
        Ok(status) => status.is_some(),
        Err(error) => error.status == Status::Breakdown && guess == Guess::Zero,
    }
}

impl Solver {
    /// The factorised matrix, where the options ask for it.
    pub(super) fn direct(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<Direct>> {
        let is_named = self.config.choice("solver.type").as_deref() == Some("direct");
        if !is_named {
            return matrix.map_or(Ok(None), |matrix| self.direct_without_diagonal(matrix));
        }
        let Some(matrix) = matrix else {
            return fail!(NotSetUp, "solver.type is \"direct\", which needs a matrix; give one to setup");
        };
        if self.operator.is_some() || self.preconditioner.is_some() || self.preconditioner_matrix.is_some() {
            return fail!(
                Unsupported,
                "solver.type is \"direct\", which factorises the matrix of the system; callbacks and another matrix for the \
                 preconditioner need a Krylov method"
            );
        }
        for (key, only) in
            [("solver.null_space", "none"), ("solver.norm", "true"), ("solver.relative_to", "right_hand_side")]
        {
            let value = self.config.text(key);
            if value != only {
                return fail!(
                    OptionValue,
                    "{key} is \"{value}\", which solver.type \"direct\" cannot do; accepted: {only}, or a Krylov method as \
                     solver.type"
                );
            }
        }
        Direct::new(&self.context, matrix, self.precision()).map(Some)
    }

    /// Sets up the direct solver, if it is to be used.
    pub(super) fn setup_direct(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<bool> {
        let changes = matrix.map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        let Some(direct) = self.direct(matrix)? else { return Ok(false) };
        self.solves = super::solves::Solves::try_capacity(HISTORY)?;
        self.phases.seconds.reserve(super::MAX_PHASES);
        let rows = direct.b.len();
        let engine = BackendEngine::Direct(Box::new(direct));
        let (matrix, transposed) = (matrix.cloned(), Transposed::default());
        let (scaled, inverse, fallback) = (None, None, None);
        self.state = Some(State {
            matrix,
            order: None,
            grid: None,
            scaled,
            inverse,
            engine,
            fallback,
            rows,
            changes,
            size: 0.0,
            transposed,
            ranks: None,
        });
        Ok(true)
    }

    /// Factorises the values that the matrix has now.
    pub(super) fn update_direct(&mut self) -> Result<()> {
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let (BackendEngine::Direct(direct), Some(matrix)) = (&mut state.engine, state.matrix.clone()) else {
            unreachable!("a factorised matrix")
        };
        let updated = matrix.recheck_values(&self.context).and_then(|()| direct.update(&self.context, &matrix));
        let updated = updated.and_then(|()| matrix.changes(&self.context));
        if let Ok(changes) = updated {
            state.changes = changes;
            state.transposed.is_outdated = true;
        }
        self.state = Some(state);
        updated.map(|_| ())
    }

    /// The relative tolerance in the precision of the solver, and the absolute one.
    fn direct_tolerances(&self, direct: &Direct) -> (f64, f64) {
        let relative = match direct.precision {
            Precision::F32 => self.relative_tolerance::<f32>(),
            _ => self.relative_tolerance::<f64>(),
        };
        (relative, self.config.real("solver.absolute_tolerance"))
    }

    /// One right-hand side by factors, for vectors on the host; `None` where an earlier attempt was better.
    pub(super) fn solve_one_direct<T: Scalar>(
        &self,
        direct: &mut Direct,
        vectors: (&[T], &mut [T]),
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Option<Status>> {
        let tolerances = self.direct_tolerances(direct);
        direct.solve_on_host(vectors, guess, tolerances, report)
    }

    /// The same for vectors in device memory.
    pub(super) fn solve_one_direct_on_device<T: Scalar>(
        &self,
        direct: &mut Direct,
        vectors: (&gpu::Slice<T>, &mut gpu::Slice<T>),
        guess: Guess,
        report: &mut SolveReport,
    ) -> Result<Option<Status>> {
        let Some(gpu) = self.context.gpu() else {
            return fail!(InvalidArgument, "the vectors are in device memory, and the solver is on the host");
        };
        let tolerances = self.direct_tolerances(direct);
        direct.solve_on_device(gpu, vectors, guess, tolerances, report)
    }

    /// One right-hand side after the other, for vectors on the host.
    pub(super) fn solve_direct<T: Scalar>(
        &mut self,
        direct: &mut Direct,
        b: &[T],
        x: &mut [T],
        guess: Guess,
    ) -> Result<Status> {
        direct.check::<T>()?;
        let n = direct.b.len();
        self.solve_each(&mut None, |solver, i, _, report| {
            solver.solve_one_direct(direct, (&b[i * n..][..n], &mut x[i * n..][..n]), guess, report)
        })
    }

    /// The same for vectors in device memory.
    pub(super) fn solve_direct_on_device<T: Scalar>(
        &mut self,
        direct: &mut Direct,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        direct.check::<T>()?;
        let n = direct.b.len();
        self.solve_each(&mut None, |solver, i, _, report| {
            let vectors = (b.subslice(i * n, n), x.subslice_mut(i * n, n));
            solver.solve_one_direct_on_device(direct, vectors, guess, report)
        })
    }
}

impl Direct {
    /// Method, precision and bytes.
    pub fn describe(&self) -> (&str, Precision, usize) {
        ("direct", self.precision, self.bytes())
    }

    /// Adds the factorisation to a report.
    pub fn report(&self, report: &mut Report) {
        report.factorisation = self.facts();
        report.setup = self.phases.clone();
    }

    /// Refuses vectors of another precision.
    fn check<T: Scalar>(&self) -> Result<()> {
        match T::PRECISION == self.precision || T::PRECISION == Precision::F32 && self.converts {
            true => Ok(()),
            false => fail!(
                InvalidArgument,
                "the vectors are {}; this solver works in {} (option solver.precision)",
                T::PRECISION.name(),
                self.precision.name()
            ),
        }
    }
}
