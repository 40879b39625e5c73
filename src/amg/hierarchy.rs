//! Set-up: from a matrix to a hierarchy of levels, each in the precisions that the options name.
//!
//! One driver makes them for all backends. It computes levels in the precision of set-up on a set-up backend ([`compute`]), and stores them in their
//! own precisions on a solve backend ([`store`]); the steps of both are those of [`crate::backend::setup`].

mod choice;
mod compute;
mod decide;
mod level;
mod near_null_space;
mod scale;
mod store;
mod symbolic;
mod transfer;

use super::finest::Finest;
use super::plan::Plan;
use crate::backend::Backend;
use crate::backend::setup::Symbolic;
use crate::components::{self, CoarseningInfo, Components, SetupFor, SmootherComponents, SmootherInfo, StrengthInfo};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, Status, fail};
use crate::matrix::{Import, Matrix, UnknownFunctions};
use crate::report::Phases;
use crate::scalar::{Precision, Scalar, Sums, with_precision};
use crate::smooth::chebyshev;
use crate::sparse::{Block, NearNullSpace, SharedCsr};
pub use choice::Renewal;
use compute::Computing;
use std::any::Any;
use std::sync::Arc;
use store::Storing;
pub(crate) use symbolic::SetupData;
use symbolic::{HierarchySymbolic, LevelSymbolic};

/// Coarsening that leaves more than this share of the rows has stalled.
const STALLED: f64 = 0.95;

/// What hierarchies for a solve backend are computed on.
pub(crate) trait SetupOn<B: Backend>: SetupFor<B> + Import {}

impl<B: Backend, S: SetupFor<B> + Import> SetupOn<B> for S {}

/// The matrices of a level, for inspection.
pub struct LevelMatrices {
    /// The matrix of the level.
    pub a: SharedCsr<f64>,
    /// Prolongator P from and restriction R to the next level; none on the coarsest.
    pub transfer: Option<(SharedCsr<f64>, SharedCsr<f64>)>,
}

/// Everything that set-up made for a backend.
pub(crate) struct Built<B: Backend> {
    pub top: Box<dyn Finest<B>>,
    pub plan: Plan,
    pub data: Arc<dyn SetupData>,
    pub renewal: Renewal,
    pub phases: Phases,
    pub setup_place: String,
}

/// Refuses a matrix that is not square; `what` needs one.
pub(crate) fn check_square(what: &str, matrix: &Matrix) -> Result<()> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    if rows != cols {
        return fail!(SizeMismatch, "{what} needs a square matrix; this one has {rows} rows and {cols} columns");
    }
    Ok(())
}

/// Set-up of one matrix with one set of options.
pub(crate) struct Builder<'a> {
    pub context: &'a Context,
    pub config: &'a Config,
    pub matrix: &'a Matrix,
    /// The near-null space when set-up began. An update uses the same.
    pub near_null_space: Option<Arc<NearNullSpace>>,
    /// The functions of unknowns that were given when set-up began.
    pub functions: Option<Arc<UnknownFunctions>>,
    /// The formats, if they are not to be chosen again.
    pub plan: Option<Plan>,
}

impl Builder<'_> {
    /// The hierarchy for cycles on `to`, computed on `setup`; `reason` tells why, if there was another choice. With symbolic data of an
    /// earlier hierarchy of the same pattern, only values are computed.
    pub fn build<S: SetupOn<B>, B: Backend>(
        &self,
        setup: &S,
        to: &B,
        data: Option<&dyn SetupData>,
        reason: Option<String>,
    ) -> Result<Built<B>> {
        let any = |data: &dyn SetupData| -> Option<Vec<LevelSymbolic<S>>> {
            let data: &dyn Any = data;
            data.downcast_ref::<HierarchySymbolic<S>>().map(|data| data.0.clone())
        };
        let symbolic = data.and_then(any);
        setup.run(self.matrix.entries(), || {
            let mut built = with_precision!(self.precision(), T => self.build_in::<S, B, T>(setup, to, symbolic))?;
            if let Some(reason) = reason {
                built.setup_place += &format!(": {reason}");
            }
            Ok(built)
        })
    }

    /// The matrices of all levels as set-up computes them, before each is stored in its own precision.
    pub fn level_matrices<S: SetupOn<S>>(&self, setup: &S) -> Result<Vec<LevelMatrices>> {
        with_precision!(self.precision(), T => {
            let mut levels = Computing::<S, T>::new(self, setup, None)?;
            levels.compute_all(&mut Phases::default())?.iter().map(|level| level.fetch(setup)).collect()
        })
    }

    /// Why a hierarchy with these options cannot be computed on a set-up backend, if so.
    pub fn objection<S: SetupFor<B>, B: Backend>(&self) -> Option<String> {
        let missing = |key: &str, name: &str| Some(format!("{key} \"{name}\" is computed on the host alone"));
        let (coarsening, interpolation) = (self.coarsening(), self.interpolation());
        if S::strength::<f64>(self.strength().name).is_none() {
            return missing("amg.strength.type", self.strength().name);
        }
        if S::coarsening::<f64>(coarsening.name).is_none() {
            return missing("amg.coarsening.type", coarsening.name);
        }
        if S::interpolation::<f64>(interpolation.name).is_none() {
            return missing("amg.interpolation.type", interpolation.name);
        }
        let lacks = |smoother: &SmootherInfo| !<S as SmootherComponents<B>>::has_smoother(smoother.name);
        if let Some((key, smoother)) = self.smoothers().into_iter().find(|(_, smoother)| lacks(smoother)) {
            return missing(key, smoother.name);
        }
        if coarsening.is_structured && self.config.text("precision.rounding") == "row_sums" {
            return missing("precision.rounding", "row_sums").map(|reason| reason + " on structured grids");
        }
        let aggressive = self.config.int("amg.coarsening.aggressive_levels") > 0;
        let alone = self.aggressive_interpolation().filter(|_| aggressive)?;
        if S::aggressive_interpolation::<f64>(&alone).is_none() {
            return Some(format!("{alone} interpolation is computed on the host alone"));
        }
        None
    }

    /// Why a hierarchy over ranks cannot be computed on GPUs, if so.
    pub fn objection_over_ranks(&self, is_divided: bool) -> Option<String> {
        let (coarsening, strength) = (self.coarsening().name, self.strength().name);
        let other = self.smoothers().into_iter().find(|(_, smoother)| !smoother.is_diagonal);
        if let Some((key, smoother)) = other {
            return Some(format!("over ranks {key} \"{}\" is set up on the host", smoother.name));
        }
        if !is_divided {
            return None;
        }
        if !["pmis", "mis2"].contains(&coarsening) {
            return Some(format!("amg.coarsening.type \"{coarsening}\" is divided among ranks on the host alone"));
        }
        if !["classical", "absolute", "symmetric"].contains(&strength) {
            return Some(format!("amg.strength.type \"{strength}\" is divided among ranks on the host alone"));
        }
        None
    }

    /// Builds or updates. An update that left rows of interpolations, which only its end shows, is repeated. If memory is short, an
    /// update is repeated without the symbolic data that only save time.
    fn build_in<S: SetupOn<B>, B: Backend, T: Scalar>(
        &self,
        setup: &S,
        to: &B,
        symbolic: Option<Vec<LevelSymbolic<S>>>,
    ) -> Result<Built<B>> {
        let mut result = self.build_widening::<S, B, T>(setup, to, symbolic.clone());
        let Some(symbolic) = symbolic else { return result };
        if is_incomplete(setup, &symbolic) {
            drop(result);
            result = self.build_widening::<S, B, T>(setup, to, Some(symbolic.clone()));
        }
        match result {
            Err(error) if error.status == Status::OutOfMemory => match self.drop_positions::<S, T>(symbolic) {
                Some(symbolic) => self.build_widening::<S, B, T>(setup, to, Some(symbolic)),
                None => Err(error),
            },
            result => result,
        }
    }

    /// Builds or updates, again in wider formats where values are out of range and the options allow it.
    fn build_widening<S: SetupOn<B>, B: Backend, T: Scalar>(
        &self,
        setup: &S,
        to: &B,
        symbolic: Option<Vec<LevelSymbolic<S>>>,
    ) -> Result<Built<B>> {
        let mut used = None;
        let mut result = self.build_from::<S, B, T>(setup, to, symbolic.clone(), &mut used);
        while let Err(error) = &result
            && error.status == Status::PrecisionLost
            && let Some(mut plan) = used.take()
            && plan.promote(None, &error.message)
        {
            let (near_null_space, functions) = (self.near_null_space.clone(), self.functions.clone());
            let wider = Builder { plan: Some(plan), near_null_space, functions, ..*self };
            result = wider.build_from::<S, B, T>(setup, to, symbolic.clone(), &mut used);
        }
        result
    }

    /// Builds or updates once. If values are out of range, `used` is the plan that has to be made wider.
    fn build_from<S: SetupOn<B>, B: Backend, T: Scalar>(
        &self,
        setup: &S,
        to: &B,
        symbolic: Option<Vec<LevelSymbolic<S>>>,
        used: &mut Option<Plan>,
    ) -> Result<Built<B>> {
        let (mut phases, waits) = (Phases::default(), setup.waits());
        let known = symbolic.as_ref().filter(|_| !self.rechecks()).map(|symbolic| symbolic.len() + 1);
        let mut levels = Computing::<S, T>::new(self, setup, symbolic)?;
        let count = match known {
            Some(count) => count,
            None => levels.compute_all(&mut phases)?.len(),
        };
        let mut plan = match &self.plan {
            Some(plan) => plan.clone(),
            None => Plan::asked(self.config, self.matrix.precision(), count)?,
        };
        plan.levels.truncate(count);
        let is_open = plan.is_undecided() && self.plan.is_none();
        if is_open {
            levels.compute_all(&mut phases)?;
            phases.time("plan", || levels.decide(&mut plan))?;
        }
        *used = Some(plan.clone());
        // An update has its formats: each level is stored as soon as it is computed, unless factors depend on all.
        if known.is_none() || is_open || (0..count).any(|i| plan.is_scaled(i)) {
            let levels = levels.compute_all(&mut phases)?;
            if (0..count).any(|i| plan.is_scaled(i)) {
                phases.time("scaling", || self.take_unit(setup, levels))?;
            }
            let storing = Storing::new(self, setup, to, &plan);
            let is_estimated = |i: usize| plan.is_scaled(i) && self.estimates_eigenvalue(i);
            let estimated: Vec<usize> = (0..count - 1).filter(|i| is_estimated(*i)).collect();
            if !estimated.is_empty() {
                let mut each = estimated.iter().map(|i| &levels[*i]);
                phases.time("smoother", || each.try_for_each(|level| level.estimate_eigenvalue(&storing)))?;
            }
            phases.time("scaling", || self.scale(setup, levels, &plan))?;
            phases.time("place", || self.choose_formats(setup, levels, &plan))?;
        }
        let top = Storing::new(self, setup, to, &plan).finest(&mut levels, &mut phases);
        // Deferred checks are older than the error of `top`, so they are evaluated first.
        levels.evaluate_checks()?;
        let (top, setup_place, renewal) = (top?, S::setup_place(setup.waits() - waits), levels.renewal());
        let data = Arc::new(HierarchySymbolic(levels.into_symbolic()));
        Ok(Built { top, plan, data, renewal, phases, setup_place })
    }

    /// Drops symbolic data that take much memory and only save time; none when there are none.
    fn drop_positions<S: Components, T: Scalar>(
        &self,
        mut symbolic: Vec<LevelSymbolic<S>>,
    ) -> Option<Vec<LevelSymbolic<S>>> {
        let mut dropped = false;
        for level in &mut symbolic {
            if let symbolic::TransferSymbolic::Numeric { choice, .. } = &level.transfers {
                let interpolation = self.interpolation_for::<S, T>(&choice.coarse);
                dropped |= level.transfers.drop_positions(interpolation);
            }
            dropped |= level.product.drop_positions();
        }
        dropped.then_some(symbolic)
    }

    /// Properties of the coarsening.
    pub(crate) fn coarsening(&self) -> &'static CoarseningInfo {
        let blocks = self.matrix.block() != Block::SCALAR || self.near_null_space.is_some();
        let default = components::default_coarsening(blocks && !self.has_functions());
        components::coarsening_info(self.config.choice("amg.coarsening.type").as_deref().unwrap_or(default))
    }

    /// Properties of the strength measure.
    pub(super) fn strength(&self) -> &'static StrengthInfo {
        let usual = self.interpolation().strength.unwrap_or(self.coarsening().strength);
        components::strength_info(self.config.choice("amg.strength.type").as_deref().unwrap_or(usual))
    }

    /// Whether it is multigrid on a structured grid.
    pub(crate) fn is_structured(&self) -> bool {
        self.coarsening().is_structured
    }

    /// The smoother where the options name none.
    fn default_smoother(&self) -> &'static str {
        components::default_smoother(self.is_structured(), self.near_null_space.is_some())
    }

    /// Properties of the smoother of the finest level.
    pub(crate) fn smoother(&self) -> &'static SmootherInfo {
        let named = self.config.choice("amg.smoother.type");
        components::smoother_info(named.as_deref().unwrap_or(self.default_smoother()))
    }

    /// Properties of the smoother of the levels below the first `amg.smoother.levels`.
    pub(crate) fn coarse_smoother(&self) -> &'static SmootherInfo {
        let named = self.config.choice("amg.smoother.coarse_type");
        components::smoother_info(named.as_deref().unwrap_or(self.default_smoother()))
    }

    /// Properties of the smoother of a level.
    pub(crate) fn smoother_of(&self, level: usize) -> &'static SmootherInfo {
        let is_fine = level < self.config.int("amg.smoother.levels");
        if is_fine { self.smoother() } else { self.coarse_smoother() }
    }

    /// The smoothers that levels may have, with the options that name them.
    fn smoothers(&self) -> Vec<(&'static str, &'static SmootherInfo)> {
        let mut all = vec![("amg.smoother.type", self.smoother())];
        if self.config.int("amg.smoother.levels") < self.config.int("amg.max_levels") {
            all.push(("amg.smoother.coarse_type", self.coarse_smoother()));
        }
        all
    }

    /// Whether a level has a smoother with l1 diagonals.
    fn uses_l1_diagonal(&self) -> bool {
        let is_l1 = |smoother: &SmootherInfo| {
            smoother.uses_l1_diagonal || smoother.name == "chebyshev" && chebyshev::scales_by_l1(self.config)
        };
        self.smoothers().iter().any(|(_, smoother)| is_l1(smoother))
    }

    /// Whether the smoother of a level needs an estimate of the largest eigenvalue of D^-1 A.
    fn estimates_eigenvalue(&self, level: usize) -> bool {
        let smoother = self.smoother_of(level);
        smoother.uses_eigenvalue && (smoother.name != "chebyshev" || chebyshev::estimates_eigenvalue(self.config))
    }

    /// Whether the caller named the function of each unknown, and there are several.
    fn has_functions(&self) -> bool {
        self.functions.as_ref().is_some_and(|functions| functions.count > 1)
    }

    /// How many unknown functions coarsening and interpolation take the matrix for.
    pub fn function_count(&self) -> Result<usize> {
        let (asked, coarsening) = (self.config.int("amg.functions"), self.coarsening());
        let given = self.functions.as_ref().map(|functions| functions.count);
        if let Some(given) = given.filter(|given| ![0, *given].contains(&asked)) {
            return fail!(
                OptionValue,
                "amg.functions is {asked}, and the functions of the unknowns that were set on the matrix are {given}; accepted: 0 or \
                 {given}, or a matrix without them"
            );
        }
        if self.has_functions() && coarsening.keeps_blocks {
            let name = coarsening.name;
            return fail!(
                OptionValue,
                "amg.coarsening.type is \"{name}\", which keeps the unknowns of a point together, and functions of the unknowns were set \
                 on the matrix; accepted with them: \"pmis\" or \"hmis\""
            );
        }
        if coarsening.keeps_blocks {
            if asked > 1 {
                let name = coarsening.name;
                return fail!(
                    OptionValue,
                    "amg.functions {asked} needs a C/F splitting; use amg.coarsening.type \"pmis\" or \"hmis\" with it. \"{name}\" \
                     keeps the unknowns of a point together: those of a block, or of a node of the near-null space"
                );
            }
            return Ok(1);
        }
        if let Some(given) = given {
            return Ok(given);
        }
        let rows = self.matrix.rows();
        let count = match asked {
            0 => self.near_null_space.as_ref().map_or(self.matrix.block().rows, |space| space.dofs_per_node),
            count => count,
        };
        if !rows.is_multiple_of(count) {
            return fail!(OptionValue, "amg.functions is {count}, which does not divide the {rows} unknowns");
        }
        Ok(count)
    }

    /// How many scalar rows are put together to a node, where they are.
    fn gathered(&self) -> Option<usize> {
        let size = self.near_null_space.as_ref().map_or(1, |space| space.dofs_per_node);
        (self.coarsening().uses_near_null_space && self.matrix.block() == Block::SCALAR && size > 1).then_some(size)
    }

    /// Whether the matrix of a level, with these blocks in set-up, is the caller's block matrix converted to CSR.
    fn took_apart(&self, level: usize, block: Block) -> bool {
        level == 0 && block == Block::SCALAR && self.matrix.block() != Block::SCALAR
    }

    /// The precision of set-up.
    pub fn precision(&self) -> Precision {
        Precision::from_name(&self.config.text("precision.setup")).unwrap_or(Precision::F64)
    }

    fn sums(&self) -> Sums {
        if self.config.text("precision.accumulate") == "storage" { Sums::Rounded } else { Sums::Wide }
    }
}

/// Whether an update with these symbolic data left rows of interpolations, which only its end shows. May wait for the device.
fn is_incomplete<S: Components>(setup: &S, symbolic: &[LevelSymbolic<S>]) -> bool {
    // An error here is also an error of the update, which returns it.
    symbolic.iter().filter(|level| level.transfers.is_incomplete(setup).unwrap_or(false)).count() > 0
}

#[cfg(feature = "unit-tests")]
mod tests;
