//! Preconditioners on the device of a context. [`Amg`] is a hierarchy, of which one `apply` is one cycle; [`Fsai`] is a factorised
//! sparse approximate inverse. A solver also has the inverse of the diagonal.

mod amg;
mod apply;
mod build;
pub(crate) mod defaults;
mod estimate;
mod fsai;
mod jacobi;
mod on_backend;
mod one_level;
pub(crate) mod over_ranks;
mod transposed;

use crate::amg::error_scaling;
use crate::amg::hierarchy::{Builder, Renewal, SetupData, check_square};
#[cfg(feature = "unit-tests")]
use crate::amg::plan::Plan;
use crate::comm::Distribution;
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail};
use crate::matrix::{Matrix, UnknownFunctions};
use crate::report::Report;
use crate::sparse::NearNullSpace;
pub use amg::Amg;
use build::build;
use defaults::Effective;
pub(crate) use estimate::{Held, Work};
pub use fsai::Fsai;
use on_backend::{Levels, OnBackend};
use over_ranks::Whole;
use std::sync::Arc;
use transposed::Transposed;

pub use crate::amg::hierarchy::LevelMatrices;

/// How an approximate inverse is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// One cycle of algebraic multigrid.
    Amg,
    /// A factorised sparse approximate inverse.
    Fsai,
    /// The transpose of one.
    TransposedFsai,
    /// The inverse of the diagonal, or of the diagonal blocks.
    Jacobi,
}

impl Method {
    /// The one of this name; none without a preconditioner.
    pub fn from_name(name: &str) -> Option<Method> {
        match name {
            "amg" => Some(Method::Amg),
            "fsai" => Some(Method::Fsai),
            "jacobi" => Some(Method::Jacobi),
            _ => None,
        }
    }

    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Method::Amg => "AMG",
            Method::Fsai | Method::TransposedFsai => "FSAI",
            Method::Jacobi => "Jacobi",
        }
    }

    /// Refuses a matrix that it cannot be made of.
    fn check(self, context: &Context, matrix: &Matrix) -> Result<()> {
        check_square(self.name(), matrix)?;
        matrix.check_for_amg(context)?;
        if self != Method::Fsai {
            return Ok(());
        }
        let symmetry = matrix.symmetry(context)?;
        if symmetry.negative > 0 && symmetry.is_symmetric_in(matrix.precision()) {
            return fail!(
                MatrixValues,
                "{} of the {} diagonal entries of the symmetric matrix are negative; FSAI needs a positive definite one",
                symmetry.negative,
                matrix.rows()
            );
        }
        Ok(())
    }
}

/// An approximate inverse M of a matrix that is set up: what [`Amg`] and [`Fsai`] have in common.
pub struct Inverse {
    method: Method,
    context: Context,
    config: Config,
    matrix: Arc<Matrix>,
    near_null_space: Option<Arc<NearNullSpace>>,
    functions: Option<Arc<UnknownFunctions>>,
    built: OnBackend,
    /// Which components the matrix has led to, and why.
    choice: String,
    /// Promotions to wider formats since set-up, with their reasons.
    promotions: Vec<String>,
    /// Whether the last update kept the coarse unknowns.
    renewal: Renewal,
    /// The level at which the last application failed.
    lost_at: Option<usize>,
    /// Stored values, a measure of the work of an application.
    work: usize,
    /// Multiplications and additions of an application, about.
    operations: f64,
    /// Changes of the matrix before the last set-up or update.
    changes: u64,
    /// Whether extreme values are multiplied by a power of two first; for the matrix of its system a solver does that itself.
    rescales: bool,
    /// The exponent of that power. The inverse of the other matrix is then multiplied by it; not in a solver, where a factor does not matter.
    units: i32,
    in_solver: bool,
    /// The ranks of which each has its rows, and whether set-up was divided among them.
    over: Option<(Arc<Distribution>, bool)>,
    /// Without a solver, the matrix over ranks that it is made of.
    whole: Option<Whole>,
    transposed: Transposed,
}

/// What an update has computed.
pub(crate) struct Updated {
    built: OnBackend,
    changes: u64,
    units: i32,
    over: Option<(Arc<Distribution>, bool)>,
}

/// A matrix with values that nobody changes, and with extreme values multiplied by a power of two, whose exponent is the second.
fn own_matrix(context: &Context, matrix: &Arc<Matrix>, config: &Config, rescales: bool) -> Result<(Arc<Matrix>, i32)> {
    match if rescales { matrix.units(context, config)? } else { 0 } {
        0 => Ok((matrix.with_own_values(context)?, 0)),
        units => Ok((Arc::new(matrix.times_power(units)?), units)),
    }
}

impl Inverse {
    /// Sets it up for a square matrix.
    pub(crate) fn setup(method: Method, context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Inverse> {
        let context = &context.with_own_scratch()?;
        match matrix.over_ranks() {
            Some(rows) => Inverse::alone_over_ranks(method, context, matrix, rows, config),
            None => Inverse::setup_with(method, context, matrix, config, (false, true), None, None),
        }
    }

    /// As [`Inverse::setup`], for a solver of the library, with the scratch of its handle. `rescales` for a matrix that the solver has not put
    /// into other units itself.
    pub(crate) fn setup_in_solver(
        method: Method,
        context: &Context,
        matrix: &Arc<Matrix>,
        config: &Config,
        rescales: bool,
    ) -> Result<Inverse> {
        Inverse::setup_with(method, context, matrix, config, (true, rescales), None, None)
    }

    fn over(&self) -> Option<(&Arc<Distribution>, bool)> {
        self.over.as_ref().map(|(over, divided)| (over, *divided))
    }

    /// As [`Inverse::setup`]. Over ranks it is collective, for a matrix of which every rank has all rows, or where set-up is divided its
    /// rows among empty ones. Each keeps its rows of the inverse. With data of another set-up for the same pattern,
    /// symbolic work is left out.
    fn setup_with(
        method: Method,
        context: &Context,
        matrix: &Arc<Matrix>,
        config: &Config,
        (in_solver, rescales): (bool, bool),
        over: Option<(&Arc<Distribution>, bool)>,
        data: Option<&dyn SetupData>,
    ) -> Result<Inverse> {
        config.check_device(context.device())?;
        let is_divided = over.is_some_and(|(_, divided)| divided);
        let changes = matrix.changes(context)?;
        if !is_divided {
            method.check(context, matrix)?;
        }
        let Effective { mut config, choice } = match is_divided {
            true => Effective { config: config.clone(), choice: String::new() },
            false => defaults::effective(Some(method), context, matrix, config, in_solver)?,
        };
        if over.is_some() {
            // Levels are stored without blocks.
            config.set_str("amg.smoother.diagonal", "point")?;
        }
        let config = &config;
        let (near_null_space, functions) = (matrix.near_null_space(), matrix.functions());
        let (own, units) = own_matrix(context, matrix, config, rescales)?;
        let builder = Builder {
            context,
            config,
            matrix: &own,
            near_null_space: near_null_space.clone(),
            functions: functions.clone(),
            plan: None,
        };
        let built = build(method, &builder, data, over)?;
        let mut inverse = Inverse {
            method,
            context: context.clone(),
            config: config.clone(),
            matrix: Arc::clone(matrix),
            near_null_space,
            functions,
            built,
            choice,
            promotions: Vec::new(),
            renewal: Renewal::default(),
            lost_at: None,
            work: 0,
            operations: 0.0,
            changes,
            rescales,
            units: if in_solver { 0 } else { units },
            in_solver,
            over: over.map(|(over, divided)| (Arc::clone(over), divided)),
            whole: None,
            transposed: Transposed::default(),
        };
        inverse.count_work();
        context.log(LogLevel::Info, || inverse.told());
        inverse.warn_of_breakdowns();
        matrix.end_reading()?;
        Ok(inverse)
    }

    /// Counts the stored values that an application reads, and its operations.
    fn count_work(&mut self) {
        let report = self.report();
        let factors = report.fsai.as_ref().map_or(0, |fsai| 2 * fsai.nonzeros);
        self.work = (report.nonzeros() + factors).max(self.matrix.whole_rows());
        let degree = |smoother: &str| match smoother.starts_with("chebyshev") {
            true => self.config.int("amg.smoother.chebyshev.degree"),
            false => 1,
        };
        // The first sweep begins at zero, so that the residual takes its product.
        let products = report
            .levels
            .iter()
            .map(|level| level.nonzeros * ((level.pre_sweeps + level.post_sweeps) * degree(&level.smoother)).max(1));
        self.operations = 2.0 * (products.sum::<usize>() + factors + self.matrix.whole_rows()) as f64;
    }

    /// Multiplications and additions of an application, about.
    pub(crate) fn operations(&self) -> f64 {
        self.operations
    }

    /// A line for the log.
    fn told(&self) -> String {
        let report = self.report();
        let seconds = report.setup.get("total");
        match &report.fsai {
            Some(fsai) => format!("FSAI set-up: {}, {seconds:.4} s", fsai.to_text()),
            None if self.method == Method::Jacobi => format!("Jacobi set-up: {seconds:.4} s"),
            None => {
                let (levels, complexity) = (report.levels.len(), report.operator_complexity());
                format!("AMG set-up: {levels} levels, operator complexity {complexity:.2}, {seconds:.4} s")
            }
        }
    }

    fn warn_of_breakdowns(&self) {
        let report = self.report();
        let (rows, fsai) = (report.fsai_breakdowns(), report.fsai.as_ref());
        let all = fsai.map_or_else(|| report.levels.iter().map(|level| level.rows).sum(), |fsai| fsai.rows);
        if rows > 0 {
            self.context.log(LogLevel::Warning, || {
                format!("FSAI: the matrix is not positive definite on the pattern of {rows} of {all} rows")
            });
        }
    }

    /// Numeric-only update to changed values of the matrix: coarse unknowns and patterns stay, also that of FSAI. With `amg.update.coarsening` `recheck`
    /// strong couplings and coarse unknowns are compared, and the hierarchy is set up again from the first level that differs. If the
    /// update fails, everything is unchanged.
    pub fn update(&mut self) -> Result<()> {
        if let Some(matrix) = self.whole.as_ref().map(|whole| Arc::clone(&whole.matrix)) {
            let Some(rows) = matrix.over_ranks() else { unreachable!("the matrix is over ranks") };
            return self.update_alone(&matrix, rows);
        }
        let updated = self.updated(None)?;
        self.take_over(updated);
        self.matrix.end_reading()
    }

    /// Computes an update, which changes nothing yet. Over ranks it is collective, and the new levels are over these.
    pub(crate) fn updated(&self, over: Option<&Arc<Distribution>>) -> Result<Updated> {
        self.matrix.recheck_values(&self.context)?;
        if !self.is_divided() {
            self.method.check(&self.context, &self.matrix)?;
        }
        let changes = self.matrix.changes(&self.context)?;
        let (own, units) = own_matrix(&self.context, &self.matrix, &self.config, self.rescales)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &own,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: None,
        };
        let over = over.map(|over| (over, self.is_divided()));
        let built = build(self.method, &builder, Some(&*self.built.data), over)?;
        Ok(Updated { built, changes, units, over: over.map(|(over, divided)| (Arc::clone(over), divided)) })
    }

    /// Takes over an update.
    pub(crate) fn take_over(&mut self, updated: Updated) {
        let Updated { built, changes, units, over } = updated;
        (self.built, self.over) = (built, over);
        self.changes = changes;
        self.units = if self.in_solver { 0 } else { units };
        self.promotions.clear();
        self.transposed.outdate();
        self.renewal = self.built.renewal;
        if self.renewal.anew {
            self.count_work();
        }
        self.warn_of_breakdowns();
    }

    /// Whether set-up is divided among ranks.
    pub(crate) fn is_divided(&self) -> bool {
        self.over.as_ref().is_some_and(|(_, divided)| *divided)
    }

    /// Changes of the matrix before the last set-up or update.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the last update set up levels again.
    pub(crate) fn was_set_up_anew(&self) -> bool {
        self.renewal.anew
    }

    /// Promotes formats that the options left open: on the level that lost precision, or on all levels if there is none or it has the
    /// widest formats. False if nothing can be promoted. Costs an update.
    fn promote(&mut self, reason: &str) -> Result<bool> {
        let mut plan = self.built.plan.clone();
        let level = self.lost_at.take().filter(|level| plan.promote(Some(*level), reason));
        if level.is_none() && !plan.promote(None, reason) {
            return Ok(false);
        }
        let changes = self.matrix.changes(&self.context)?;
        let (own, units) = own_matrix(&self.context, &self.matrix, &self.config, self.rescales)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &own,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: Some(plan),
        };
        self.built = build(self.method, &builder, Some(&*self.built.data), self.over())?;
        self.changes = changes;
        self.units = if self.in_solver { 0 } else { units };
        let which = match level {
            Some(level) if self.method == Method::Amg => format!("level {level}"),
            _ if self.method == Method::Amg => "all levels".to_string(),
            _ => self.method.name().to_string(),
        };
        let line = format!("{which} promoted: {reason}");
        self.context.log(LogLevel::Warning, || line.clone());
        self.promotions.push(line);
        Ok(true)
    }

    /// The matrix that it was set up with.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Scalar rows; over ranks those of this rank.
    pub fn rows(&self) -> usize {
        let rows = self.matrix.whole_rows();
        self.over().map_or(rows, |(over, _)| over.own(rows).len())
    }

    /// The value of an option as the last set-up used it.
    pub fn option(&self, key: &str) -> Result<String> {
        if self.method == Method::Amg { self.amg_option(key) } else { self.config.get(key) }
    }

    /// Whether a cycle is the same linear operator in every application, but for the rounding of the solver's precision.
    pub(crate) fn is_constant(&self) -> bool {
        !self.built.plan.is_narrow() && !self.is_nonlinear()
    }

    /// Whether a cycle depends on what it is applied to: Krylov steps are part of it, or its corrections are scaled.
    pub(crate) fn is_nonlinear(&self) -> bool {
        let is_scaled = || error_scaling::is_asked(&self.config);
        self.method == Method::Amg && (self.config.text("amg.cycle.type") == "k" || is_scaled())
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        let mut levels = match &self.built.levels {
            Levels::Host(top) => top.describe(),
            Levels::Gpu(levels) => levels.top.describe(),
        };
        for (level, plan) in levels.iter_mut().zip(&self.built.plan.levels) {
            level.precision_reason = plan.reason.clone();
        }
        let bytes = match &self.built.levels {
            Levels::Host(top) => top.bytes(),
            Levels::Gpu(levels) => levels.top.bytes(),
        };
        let bytes = bytes + self.multivector_bytes() + self.built.data.bytes() + self.transposed.bytes();
        Report {
            levels,
            setup: self.built.phases.clone(),
            setup_place: self.built.setup_place.clone(),
            setup_choice: self.choice.clone(),
            bytes,
            fsai: self.built.fsai.clone(),
            promotions: self.promotions.clone(),
            update_kept_levels: self.renewal.kept_levels,
            update_anew: self.renewal.anew,
            preconditioner_age: self.whole.as_ref().map_or(&self.matrix, |whole| &whole.matrix).known_changes()
                - self.changes,
            ranks: self.whole.as_ref().map(|whole| whole.spread.clone()),
            ..Report::of(&self.context)
        }
    }

    /// Estimated bytes of what `work` does with samples of a matrix, with a preconditioner of this method in a solver; samples have
    /// at most so many rows where a number is given.
    pub(crate) fn estimate_in_solver(
        method: Option<Method>,
        context: &Context,
        matrix: &Matrix,
        config: &Config,
        rows: Option<usize>,
        work: &Work<'_>,
    ) -> Result<usize> {
        estimate::bytes(method, &context.with_own_scratch()?, matrix, config, (true, rows), work)
    }
}

#[cfg(feature = "unit-tests")]
impl Inverse {
    /// The number formats of the levels.
    pub(crate) fn plan(&self) -> &Plan {
        &self.built.plan
    }
}
