//! Systems that are solved by a sparse factorisation on the host: `solver.type` `direct`.

use super::{BackendEngine, Guess, Solver, State, Transposed};
use crate::backend::{AnyMut, AnyRef, Backend};
use crate::context::LogLevel;
use crate::error::{Result, Status, fail, try_vec};
use crate::gpu::{self, Gpu};
use crate::host::sparse_direct::{Method, Plan, SparseDirect, ZeroPivots};
use crate::matrix::{Matrix, Values};
use crate::report::{Factorisation, Phases, Report, SolveReport};
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
    fn new(solver: &Solver, matrix: &Matrix, precision: Precision) -> Result<Direct> {
        let (start, mut phases) = (Instant::now(), Phases::default());
        let context = &solver.context;
        let plan = with_view!(matrix, a => phases.time("ordering", || context.run(a.entries(), || Plan::new(&a))))?;
        let flops = plan.flops();
        let factor = with_view!(matrix, a => phases.time("factorisation", || {
            context.run(flops as usize, || plan.factorise(&a, ZeroPivots::Refuse))
        }))?;
        phases.add("total", start.elapsed().as_secs_f64());
        let n = matrix.rows();
        let converts = matrix.precision() == Precision::F32 && solver.config.choice("solver.precision").is_none();
        let has_single = context.gpu().is_some() && (converts || precision == Precision::F32);
        let single = if has_single { try_vec(n, 0.0)? } else { Vec::new() };
        let (b, x) = (try_vec(n, 0.0)?, try_vec(n, 0.0)?);
        let direct = Direct { factor: Some(factor), precision, converts, phases, b, x, single };
        context.log(LogLevel::Info, || direct.facts().map_or_else(String::new, |facts| facts.to_text()));
        matrix.end_reading()?;
        Ok(direct)
    }

    /// Factorises the values that the matrix has now. The order is kept.
    fn update(&mut self, solver: &Solver, matrix: &Matrix) -> Result<()> {
        let (start, mut phases) = (Instant::now(), Phases::default());
        let Some(factor) = self.factor.take() else {
            *self = Direct::new(solver, matrix, self.precision)?;
            return Ok(());
        };
        let work = matrix.entries().saturating_mul(100);
        let factor = with_view!(matrix, a => phases.time("factorisation", || {
            solver.context.run(work, || factor.update(&a))
        }))?;
        self.factor = Some(factor);
        phases.add("total", start.elapsed().as_secs_f64());
        self.phases = phases;
        matrix.end_reading()
    }

    /// What the report tells about the factors.
    fn facts(&self) -> Option<Factorisation> {
        let factor = self.factor.as_ref()?;
        let negative = match factor.method() {
            Method::Ldl { negative } => negative,
            _ => 0,
        };
        Some(Factorisation {
            method: factor.method().name(),
            rows: factor.rows(),
            negative,
            entries: factor.fill(),
            bytes: factor.bytes(),
        })
    }

    fn bytes(&self) -> usize {
        let vectors = size_of_val(self.b.as_slice()) + size_of_val(self.x.as_slice());
        self.factor.as_ref().map_or(0, SparseDirect::bytes) + vectors + size_of_val(self.single.as_slice())
    }

    /// Solves from `b` to `x`, unless the guess there is a solution. One in f32 is rounded before its residual is computed.
    fn solve(&mut self, guess: Guess, (relative, absolute): (f64, f64), report: &mut SolveReport) -> Result<Status> {
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
            return Ok(Status::Success);
        }
        if guess == Guess::Given {
            let residual = factor.residual(&self.b, &self.x);
            if residual <= relative {
                (report.converged, report.true_residual) = (true, residual);
                report.history.push(residual);
                return Ok(Status::Success);
            }
        }
        let solution = factor.solve(&self.b, &mut self.x, relative);
        let mut residual = solution.residual;
        if self.precision == Precision::F32 {
            self.x.iter_mut().for_each(|v| *v = f64::from(*v as f32));
            residual = factor.residual(&self.b, &self.x);
        }
        report.iterations = solution.refinements + 1;
        report.true_residual = residual;
        report.history.push(1.0);
        report.history.extend_from_slice(&solution.residuals[..=solution.refinements]);
        if !residual.is_finite() {
            return fail!(NonFinite, "the solution of the factorised system is not finite");
        }
        report.converged = residual <= relative || residual * solution.norm_b <= absolute;
        if report.converged {
            return Ok(Status::Success);
        }
        report.hint = "the matrix is too badly conditioned for more: refinement of the direct solution ends here";
        Ok(Status::Stagnated)
    }
}

impl Solver {
    /// The factorised matrix, where the options ask for it.
    pub(super) fn direct(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<Direct>> {
        let is_named = self.config.choice("solver.type").as_deref() == Some("direct");
        if !is_named {
            return Ok(None);
        }
        let Some(matrix) = matrix else {
            return fail!(NotSetUp, "solver.type is \"direct\", which needs a matrix; give one to setup");
        };
        let precision = self.config.choice("solver.precision").and_then(|p| Precision::from_name(&p));
        let precision = precision.unwrap_or(Precision::F64);
        if self.operator.is_some() || self.preconditioner.is_some() || self.preconditioner_matrix.is_some() {
            return fail!(
                Unsupported,
                "solver.type is \"direct\", which factorises the matrix of the system; callbacks and another matrix for the \
                 preconditioner need a Krylov method"
            );
        }
        for (key, only) in [("solver.null_space", "none"), ("solver.norm", "true")] {
            let value = self.config.text(key);
            if value != only {
                return fail!(
                    OptionValue,
                    "{key} is \"{value}\", which solver.type \"direct\" cannot do; accepted: {only}, or a Krylov method as \
                     solver.type"
                );
            }
        }
        Direct::new(self, matrix, precision).map(Some)
    }

    /// Sets up the direct solver, if it is to be used.
    pub(super) fn setup_direct(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<bool> {
        let changes = matrix.map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        let Some(direct) = self.direct(matrix)? else { return Ok(false) };
        self.solves = super::solves::Solves::with_capacity(HISTORY)?;
        let rows = direct.b.len();
        let engine = BackendEngine::Direct(Box::new(direct));
        let (matrix, transposed) = (matrix.cloned(), Transposed::default());
        self.state = Some(State { matrix, scaled: None, amg: None, engine, rows, changes, transposed });
        Ok(true)
    }

    /// Factorises the values that the matrix has now.
    pub(super) fn update_direct(&mut self) -> Result<()> {
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let (BackendEngine::Direct(direct), Some(matrix)) = (&mut state.engine, state.matrix.clone()) else {
            unreachable!("a factorised matrix")
        };
        let updated = matrix.recheck_values(&self.context).and_then(|()| direct.update(self, &matrix));
        if updated.is_ok() {
            state.changes = matrix.changes(&self.context)?;
            state.transposed.is_outdated = true;
        }
        self.state = Some(state);
        updated
    }

    /// The relative tolerance in the precision of the solver.
    fn direct_tolerance(&self, direct: &Direct) -> f64 {
        match direct.precision {
            Precision::F32 => self.relative_tolerance::<f32>(),
            _ => self.relative_tolerance::<f64>(),
        }
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
        let tolerances = (self.direct_tolerance(direct), self.config.real("solver.absolute_tolerance"));
        let n = direct.b.len();
        self.solve_each(super::solve::right_hand_sides(n, b.len()), |_, i, report| {
            for (to, b) in direct.b.iter_mut().zip(&b[i * n..]) {
                *to = b.to_f64();
            }
            if guess == Guess::Given {
                for (to, x) in direct.x.iter_mut().zip(&x[i * n..]) {
                    *to = x.to_f64();
                }
            }
            let status = direct.solve(guess, tolerances, report);
            for (to, x) in x[i * n..][..n].iter_mut().zip(&direct.x) {
                *to = T::from_f64(*x);
            }
            status
        })
    }

    /// The same for vectors in device memory, which are copied to the host and back.
    pub(super) fn solve_direct_on_device<T: Scalar>(
        &mut self,
        direct: &mut Direct,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        direct.check::<T>()?;
        let Some(gpu) = self.context.gpu().cloned() else {
            return fail!(InvalidArgument, "the vectors are in device memory, and the solver is on the host");
        };
        let tolerances = (self.direct_tolerance(direct), self.config.real("solver.absolute_tolerance"));
        let n = direct.b.len();
        self.solve_each(super::solve::right_hand_sides(n, b.len()), |_, i, report| {
            match Gpu::any_ref(b.subslice(i * n, n)) {
                AnyRef::F64(b) => gpu.read(b, &mut direct.b)?,
                AnyRef::F32(b) => {
                    gpu.read(b, &mut direct.single)?;
                    direct.b.iter_mut().zip(&direct.single).for_each(|(to, b)| *to = f64::from(*b));
                }
            }
            if guess == Guess::Given {
                match Gpu::any_ref(x.subslice(i * n, n)) {
                    AnyRef::F64(x) => gpu.read(x, &mut direct.x)?,
                    AnyRef::F32(x) => {
                        gpu.read(x, &mut direct.single)?;
                        direct.x.iter_mut().zip(&direct.single).for_each(|(to, x)| *to = f64::from(*x));
                    }
                }
            }
            let status = direct.solve(guess, tolerances, report);
            match Gpu::any_mut(x.subslice_mut(i * n, n)) {
                AnyMut::F64(x) => gpu.write(&direct.x, x)?,
                AnyMut::F32(x) => {
                    direct.single.iter_mut().zip(&direct.x).for_each(|(to, x)| *to = *x as f32);
                    gpu.write(&direct.single, x)?;
                }
            }
            gpu.end_call()?;
            status
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
