//! The levels of a hierarchy as the host computes them, in the precision of set-up. What a renewal with new values needs is kept with them:
//! strong couplings, coarse unknowns, patterns.

use super::choice::{Choice, Rechecked, Renewal};
use super::place::{Computed, Placing, at_level};
use super::{Builder, STALLED, check_square};
use crate::amg::coarsen::{self, Coarse, Coarsening};
use crate::amg::functions::Functions;
use crate::amg::galerkin;
use crate::amg::interp::{self, Input, Interpolation, Memory, Output};
use crate::amg::plan::Plan;
use crate::amg::scaling::{self, Rounding};
use crate::backend::{Columns, Operator, Place, Smoother};
use crate::config::{LevelPart, Wanted};
use crate::context::LogLevel;
use crate::error::{Result, try_vec};
use crate::host::eigenvalue::{Known, Largest};
use crate::host::{Host, dense, transpose};
use crate::precision;
use crate::report::Phases;
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::smooth::{self, HostSetup};
use crate::sparse::{Block, CsrView, NearNullSpace, SharedCsr, Structure};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// What is kept of a step from one level to the next, to renew it with other values.
#[derive(Clone)]
pub struct Kept {
    transfers: Transfers,
    coarse_matrix: Arc<Structure>,
    /// As in [`galerkin::Earlier`].
    recipe: Option<Arc<galerkin::Recipe>>,
    /// The largest eigenvalue that the smoother went by, where it was estimated.
    largest_eigenvalue: Option<Largest>,
    /// Only where updates look at choices.
    rechecked: Option<Rechecked>,
    /// Those of the next level.
    functions: Option<Arc<Functions>>,
}

/// How prolongator and restriction come back.
#[derive(Clone)]
enum Transfers {
    /// Computed anew for the strong couplings, coarse unknowns and patterns of the first time.
    Renewed {
        choice: Choice,
        p: Arc<Structure>,
        r: Arc<Structure>,
        /// Found in the first renewal.
        transposition: Option<Arc<transpose::Recipe>>,
        memory: Option<Arc<dyn Memory>>,
    },
    /// As they are: a pair of matrices in the precision of set-up, with the bytes of values that no level shares with it, and their patterns.
    Unchanged { pair: Arc<dyn Any + Send + Sync>, bytes: usize, p: Arc<Structure>, r: Arc<Structure> },
}

impl Kept {
    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        // A level that stores its indices in its own way leaves the pattern to this one alone.
        let alone = |pattern: &Arc<Structure>, here: usize| match Arc::strong_count(pattern) {
            count if count > here => 0,
            _ => pattern.owned_bytes(),
        };
        let transfers = match &self.transfers {
            Transfers::Renewed { choice, p, r, transposition, memory } => {
                let transposition = transposition.as_ref().map_or(0, |recipe| recipe.bytes());
                let memory = memory.as_ref().map_or(0, |memory| memory.bytes());
                choice.bytes() + alone(p, 1) + alone(r, 1) + transposition + memory
            }
            Transfers::Unchanged { bytes, p, r, .. } => {
                let choice = self.rechecked.as_ref().map_or(0, |rechecked| rechecked.choice.bytes());
                bytes + alone(p, 2) + alone(r, 2) + choice
            }
        };
        let recipe = self.recipe.as_ref().map_or(0, |recipe| recipe.bytes());
        let functions = self.functions.as_ref().map_or(0, |functions| functions.as_slice().len());
        let rechecked = self.rechecked.as_ref().map_or(0, Rechecked::bytes);
        transfers + alone(&self.coarse_matrix, 1) + recipe + rechecked + functions
    }
}

/// Prolongator, restriction, and what else interpolation told.
struct Step<T> {
    p: SharedCsr<T>,
    r: SharedCsr<T>,
    next_space: Option<NearNullSpace>,
    known: Known<T>,
    /// What a later estimate for the smoother can go by.
    largest_eigenvalue: Option<Largest>,
    /// Where it was made now.
    choice: Option<Choice>,
    kept: Transfers,
}

/// What a step begins with.
enum Start {
    /// One for an earlier matrix, which is renewed.
    Earlier(Transfers),
    /// A choice for this matrix.
    Choice(Choice),
    /// The matrix alone.
    Nothing,
}

/// A level as computed.
pub struct Raw<T> {
    pub a: SharedCsr<T>,
    /// Prolongator and restriction to the next level; none on the coarsest.
    pub transfer: Option<(SharedCsr<T>, SharedCsr<T>)>,
    known: Known<T>,
    /// The largest eigenvalue, where the smoother had to estimate it.
    estimated: OnceLock<Largest>,
    /// The factors by which its variables are multiplied.
    scale: Option<Vec<f64>>,
    /// Those that were found when its formats were chosen, for when it is scaled.
    pub factors: Option<Vec<f64>>,
}

impl Builder<'_> {
    /// All levels in the precision of set-up.
    pub(super) fn compute<T: Scalar>(
        &self,
        host: &Host,
        kept: Option<Vec<Kept>>,
        phases: &mut Phases,
    ) -> Result<(Vec<Raw<T>>, Vec<Kept>, Renewal)> {
        check_square(self.matrix)?;
        let coarsening = self.coarsening::<T>();
        let fine = self.fine_matrix::<T>(coarsening)?;
        self.coarsen_all(host, coarsening, fine, kept, phases)
    }

    pub(super) fn coarsening<T: Scalar>(&self) -> &'static dyn Coarsening<T> {
        coarsen::find(&self.coarsening_name())
    }

    /// Name of the interpolation.
    pub(super) fn interpolation_name<T: Scalar>(&self) -> String {
        let default = self.coarsening::<T>().interpolation();
        self.config.choice("amg.interpolation.type").unwrap_or(default.to_string())
    }

    /// Name of the coarsening.
    pub(super) fn coarsening_name(&self) -> String {
        let blocks = self.matrix.block() != Block::SCALAR || self.near_null_space.is_some();
        let default = if blocks { "mis2" } else { "pmis" };
        self.config.choice("amg.coarsening.type").unwrap_or(default.to_string())
    }

    /// The finest matrix as set-up wants it: blocks taken apart for scalar methods, nodes put together for the others.
    fn fine_matrix<T: Scalar>(&self, coarsening: &dyn Coarsening<T>) -> Result<SharedCsr<T>> {
        let a = self.matrix.shared::<T>()?;
        if !coarsening.keeps_blocks() && a.structure.block != Block::SCALAR {
            return Ok(a.view().to_scalar()?.into_shared());
        }
        match self.gathered(coarsening) {
            Some(size) => Ok(a.view().to_blocks(size)?.into_shared()),
            None => Ok(a),
        }
    }

    /// How many scalar rows are put together to a node, where they are.
    pub(super) fn gathered<T: Scalar>(&self, coarsening: &dyn Coarsening<T>) -> Option<usize> {
        let size = self.near_null_space.as_ref().map_or(1, |space| space.dofs_per_node);
        (coarsening.keeps_blocks() && self.matrix.block() == Block::SCALAR && size > 1).then_some(size)
    }

    fn coarsen_all<T: Scalar>(
        &self,
        host: &Host,
        coarsening: &dyn Coarsening<T>,
        fine: SharedCsr<T>,
        kept: Option<Vec<Kept>>,
        phases: &mut Phases,
    ) -> Result<(Vec<Raw<T>>, Vec<Kept>, Renewal)> {
        let interpolation = interp::find::<T>(&self.interpolation_name::<T>());
        let constants;
        let fine_space = match &self.near_null_space {
            Some(space) => space.as_ref(),
            None => {
                constants = NearNullSpace::constants(fine.view().scalar_rows(), fine.structure.block.rows)?;
                &constants
            }
        };
        let mut coarse_space: Option<Arc<NearNullSpace>> = None;
        let max_levels = self.config.int("amg.max_levels");
        let max_rows = self.config.int("amg.coarsest.max_rows");
        let (renewing, rechecks) = (kept.is_some(), self.rechecks());
        let mut earlier = kept.unwrap_or_default().into_iter();
        let mut renewal = Renewal::default();
        let mut levels = Vec::new();
        let mut all_kept = Vec::new();
        let mut functions = match self.function_count::<T>()? {
            1 => None,
            count => Some(Arc::new(Functions::in_turn(fine.view().rows, count)?)),
        };
        let mut a = fine;
        loop {
            let view = a.view();
            let level = levels.len();
            let rows = view.scalar_rows();
            self.context.log(LogLevel::Debug, || format!("level {level}: {rows} rows, {} nonzeros", view.entries()));
            let mut old = earlier.next();
            let last = if renewing && !rechecks { old.is_none() } else { rows <= max_rows || level + 1 >= max_levels };
            if last {
                break;
            }
            // What the level is chosen and interpolated by.
            let unchanged = |old: &Kept| matches!(old.transfers, Transfers::Unchanged { .. });
            let is_needed = rechecks || !old.as_ref().is_some_and(unchanged);
            let within = match &functions {
                Some(functions) if is_needed => Some(phases.time("strength", || functions.within(&view))?),
                _ => None,
            };
            let couplings = within.as_ref().map_or(view, |within| within.view());
            let other = match old.as_ref().and_then(|old| old.rechecked.as_ref()) {
                Some(kept) if rechecks => self.other_choice(coarsening, &couplings, level, &kept.choice, phases)?,
                _ => None,
            };
            if other.is_some() {
                self.begins_anew(level);
                (old, earlier, renewal.anew) = (None, Vec::new().into_iter(), true);
            }
            renewal.kept_levels += usize::from(old.is_some());
            let (transfers, coarse_pattern, mut recipe, earlier_eigenvalue, rechecked, next_functions) = match old {
                Some(Kept { transfers, coarse_matrix, recipe, largest_eigenvalue, rechecked, functions }) => {
                    (Some(transfers), Some(coarse_matrix), recipe, largest_eigenvalue, rechecked, functions)
                }
                None => (None, None, None, None, None, None),
            };
            let space = coarse_space.as_deref().unwrap_or(fine_space);
            let start = match (transfers, other) {
                (Some(transfers), _) => Start::Earlier(transfers),
                (None, Some(choice)) => Start::Choice(choice),
                (None, None) => Start::Nothing,
            };
            let Some(step) = self.step(host, coarsening, interpolation, &couplings, level, space, start, phases)?
            else {
                break;
            };
            let Step { p, r, next_space, mut known, largest_eigenvalue, choice, kept } = step;
            // A coarsening that has stalled before may do so no more.
            renewal.anew |= renewing && choice.is_some();
            let next_space = match (next_space, &rechecked) {
                (None, Some(rechecked)) => rechecked.next_space.clone(),
                (next_space, _) => next_space.map(Arc::new),
            };
            functions = match (&functions, &choice) {
                (Some(functions), Some(choice)) => Some(Arc::new(functions.coarse(&choice.coarse)?)),
                _ => next_functions,
            };
            let rechecked = match choice {
                Some(choice) if self.keeps_choices() => Some(Rechecked { choice, next_space: next_space.clone() }),
                _ => rechecked,
            };
            let largest_eigenvalue = largest_eigenvalue.or(earlier_eigenvalue);
            if let (Known::Nothing, Some(largest)) = (&known, &largest_eigenvalue) {
                known = Known::Earlier(largest.clone());
            }
            let earlier = coarse_pattern.as_ref().map(|coarse| galerkin::Earlier { coarse, recipe: &mut recipe });
            let coarse_matrix = phases.time("galerkin", || galerkin::product(&r.view(), &view, &p, earlier))?;
            coarse_space = next_space.or(coarse_space);
            all_kept.push(Kept {
                transfers: kept,
                coarse_matrix: Arc::clone(&coarse_matrix.structure),
                recipe,
                largest_eigenvalue,
                rechecked,
                functions: functions.clone(),
            });
            levels.push(Raw {
                a,
                transfer: Some((p, r)),
                known,
                estimated: OnceLock::new(),
                scale: None,
                factors: None,
            });
            a = coarse_matrix;
        }
        levels.push(Raw {
            a,
            transfer: None,
            known: Known::Nothing,
            estimated: OnceLock::new(),
            scale: None,
            factors: None,
        });
        Ok((levels, all_kept, renewal))
    }

    /// The transfers from level `level`, by the couplings of `a`, to the next one; none where coarsening would leave too much.
    #[allow(clippy::too_many_arguments)]
    fn step<T: Scalar>(
        &self,
        host: &Host,
        coarsening: &dyn Coarsening<T>,
        interpolation: &dyn Interpolation<T>,
        a: &CsrView<'_, T>,
        level: usize,
        space: &NearNullSpace,
        start: Start,
        phases: &mut Phases,
    ) -> Result<Option<Step<T>>> {
        let mut transposition = None;
        let (choice, patterns) = match start {
            Start::Earlier(Transfers::Unchanged { pair, bytes, .. }) => {
                let (p, r) = pair
                    .downcast_ref::<(SharedCsr<T>, SharedCsr<T>)>()
                    .expect("the precision of set-up does not change")
                    .clone();
                let (ps, rs) = (Arc::clone(&p.structure), Arc::clone(&r.structure));
                let kept = Transfers::Unchanged { pair, bytes, p: ps, r: rs };
                return Ok(Some(Step {
                    p,
                    r,
                    next_space: None,
                    known: Known::Nothing,
                    largest_eigenvalue: None,
                    choice: None,
                    kept,
                }));
            }
            Start::Earlier(Transfers::Renewed { choice, p, r, transposition: earlier, memory }) => {
                transposition = earlier;
                (choice, Some((p, r, memory)))
            }
            start => {
                let choice = match start {
                    Start::Choice(choice) => choice,
                    _ => self.choose(coarsening, a, level, phases)?,
                };
                let width = if matches!(*choice.coarse, Coarse::Aggregates(..)) { space.count } else { 1 };
                let (rows, coarse_rows) = (a.scalar_rows(), choice.coarse.count() * width);
                if coarse_rows == 0 || coarse_rows as f64 > STALLED * rows as f64 {
                    self.stalled(level, rows, coarse_rows);
                    return Ok(None);
                }
                (choice, None)
            }
        };
        let input = Input {
            host,
            config: self.config,
            a: *a,
            graph: &choice.graph,
            coarse: &choice.coarse,
            near_null_space: space,
            pattern: patterns.as_ref().map(|(p, ..)| p),
            memory: patterns.as_ref().and_then(|(.., memory)| memory.as_deref()),
        };
        let (output, r) = phases.time("interpolation", || {
            let output = interp::interpolate(interpolation, &input)?;
            let p = output.p.view();
            let r = match &patterns {
                None => transpose::transpose(&p)?.into_shared(),
                Some((_, r, _)) => {
                    let recipe = match &mut transposition {
                        Some(recipe) => recipe,
                        none => none.insert(Arc::new(transpose::Recipe::find(&p, r)?)),
                    };
                    SharedCsr { structure: Arc::clone(r), values: Arc::new(recipe.renew(&p, r)?) }
                }
            };
            Ok((output, r))
        })?;
        let Output { p, near_null_space: next_space, known, memory } = output;
        let largest_eigenvalue = memory.as_ref().and_then(|memory| memory.largest_eigenvalue().cloned());
        let made = patterns.is_none().then(|| choice.clone());
        let kept = if self.config.text("amg.update.interpolation") == "keep" {
            let wanted = self.config.level_precision(LevelPart::Transfer, level, self.matrix.precision());
            let shared = wanted == Wanted::Fixed(T::PRECISION);
            let bytes = if shared { 0 } else { p.values.owned_bytes() + r.values.owned_bytes() };
            let pair = Arc::new((p.clone(), r.clone()));
            Transfers::Unchanged { pair, bytes, p: Arc::clone(&p.structure), r: Arc::clone(&r.structure) }
        } else {
            Transfers::Renewed {
                choice,
                p: Arc::clone(&p.structure),
                r: Arc::clone(&r.structure),
                transposition,
                memory,
            }
        };
        Ok(Some(Step { p, r, next_space, known, largest_eigenvalue, choice: made, kept }))
    }

    /// Scales the levels of which a part has 16 bits.
    pub(super) fn scale<T: Scalar>(&self, raw: &mut [Raw<T>], plan: &Plan) -> Result<()> {
        let scaling = self.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(());
        }
        for (i, level) in raw.iter_mut().enumerate().filter(|(i, _)| plan.is_scaled(*i)) {
            level.scale = match level.factors.take() {
                Some(factors) => Some(factors),
                None => at_level(i, scaling::factors(&level.a, &scaling))?,
            };
            level.known.scaled();
        }
        let inverses: Vec<Option<Vec<f64>>> =
            raw.iter().map(|level| level.scale.as_ref().map(|scale| scale.iter().map(|s| 1.0 / s).collect())).collect();
        for (i, level) in raw.iter_mut().enumerate() {
            if let Some(inverse) = &inverses[i] {
                level.a = scaling::apply(&level.a, |i| inverse[i], |j| inverse[j])?;
            }
            let (fine, coarse) = (level.scale.as_deref(), inverses.get(i + 1).and_then(|next| next.as_deref()));
            let Some((p, r)) = level.transfer.as_ref().filter(|_| fine.is_some() || coarse.is_some()) else {
                continue;
            };
            let (fine, coarse) = (|i: usize| fine.map_or(1.0, |s| s[i]), |j: usize| coarse.map_or(1.0, |s| s[j]));
            level.transfer = Some((scaling::apply(p, fine, coarse)?, scaling::apply(r, coarse, fine)?));
        }
        Ok(())
    }

    /// How the matrix of a level is rounded: in the scaled variables the constant vector is the scale.
    fn rounding<'r, T>(&self, level: &'r Raw<T>) -> Rounding<'r> {
        match &level.scale {
            Some(scale) if self.config.text("precision.rounding") == "row_sums" => Rounding::Keeping(scale),
            _ => Rounding::Nearest,
        }
    }

    /// Columns of a matrix that the library stores itself, where it may have short ones. Only wide sums know them.
    fn columns(&self, compact: bool) -> Columns {
        let open = self.config.choice("precision.indices").is_none() && self.sums() == Sums::Wide;
        if compact && open { Columns::Compact } else { Columns::Shared }
    }
}

impl<B: Place, T: Scalar> Computed<B> for Raw<T> {
    fn rows(&self) -> usize {
        self.a.view().scalar_rows()
    }

    fn entries(&self) -> usize {
        self.a.view().entries()
    }

    fn entrance(&self, placing: &Placing<'_, B>) -> Result<Option<(f64, B::Buffer<f32>)>> {
        match self.scale.as_deref().map(entrance).transpose()? {
            Some((shift, inverse)) => Ok(Some((shift, placing.backend.array(inverse)?))),
            None => Ok(None),
        }
    }

    /// The finest level reads the caller's own arrays, in their own format, whatever set-up made of them; what is scaled has their blocks.
    fn matrix<S: Number, V: Number>(&self, placing: &Placing<'_, B>, i: usize) -> Result<Box<dyn Operator<B, V>>> {
        let Placing { builder, backend, .. } = placing;
        let given = builder.matrix;
        let own = i > 0 || self.scale.is_some();
        let stored = if let Some(scale) = self.scale.as_ref().filter(|_| builder.took_apart(i, self.a.structure.block))
        {
            let inverse: Vec<f64> = scale.iter().map(|s| 1.0 / s).collect();
            let scaled = scaling::apply(&given.shared::<T>()?, |i| inverse[i], |j| inverse[j])?;
            scaling::store::<T, S>(&scaled, "matrix", builder.rounding(self))?
        } else if own {
            scaling::store::<T, S>(&self.a, "matrix", builder.rounding(self))?
        } else if S::PRECISION == given.precision() {
            given.shared::<S>()?
        } else {
            scaling::store::<T, S>(&given.shared::<T>()?, "matrix", Rounding::Nearest)?
        };
        let compact = (own || S::PRECISION != given.precision()) && !smooth::keeps_matrix(&placing.smoother);
        backend.matrix(stored, builder.columns(compact), builder.sums())
    }

    fn smoother<V: Number>(&self, placing: &Placing<'_, B>, storage: Precision) -> Result<Box<dyn Smoother<B, V>>> {
        let Placing { builder, backend, host, .. } = placing;
        let setup = HostSetup {
            backend: *backend,
            host,
            config: builder.config,
            matrix: &self.a,
            scale: self.scale.as_deref(),
            known: &self.known,
            estimated: &self.estimated,
        };
        smooth::build::<B, V>(&placing.smoother, &setup, storage)
    }

    fn coarse_rows(&self) -> Option<usize> {
        self.transfer.as_ref().map(|(_, r)| r.view().scalar_rows())
    }

    fn restriction<S: Number, V: Number, W: Number>(
        &self,
        placing: &Placing<'_, B>,
    ) -> Result<Box<dyn Operator<B, V, W>>> {
        let (_, r) = self.transfer.as_ref().expect("the coarsest level is not restricted");
        stored_transfer::<B, T, S, V, W>(placing, r, "restriction")
    }

    fn interpolation<S: Number, W: Number, V: Number>(
        &self,
        placing: &Placing<'_, B>,
    ) -> Result<Box<dyn Operator<B, W, V>>> {
        let (p, _) = self.transfer.as_ref().expect("the coarsest level is not interpolated to");
        stored_transfer::<B, T, S, W, V>(placing, p, "prolongator")
    }

    fn inverse<S: Number, V: Number>(&self, placing: &Placing<'_, B>) -> Result<Box<dyn Operator<B, V>>> {
        let a = self.a.view();
        placing.backend.dense::<S, V>(a.scalar_rows(), dense::inverse(&a)?)
    }
}

fn stored_transfer<B: Place, T: Scalar, S: Number, X: Number, Y: Number>(
    placing: &Placing<'_, B>,
    matrix: &SharedCsr<T>,
    what: &str,
) -> Result<Box<dyn Operator<B, X, Y>>> {
    let stored = scaling::store::<T, S>(matrix, what, Rounding::Nearest)?;
    placing.backend.matrix(stored, placing.builder.columns(true), placing.builder.sums())
}

/// The inverse of the finest level's scaling in two parts, a power of two and one for each row, which f32 can hold.
pub(super) fn entrance(s: &[f64]) -> Result<(f64, Vec<f32>)> {
    let (low, high) = s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(*s), high.max(*s)));
    let middle = precision::middle_of(low, high)?;
    let mut inverse = try_vec(s.len(), 0.0_f32)?;
    for (to, s) in inverse.iter_mut().zip(s) {
        *to = (middle / s) as f32;
    }
    Ok((1.0 / middle, inverse))
}

/// What was kept, with the eigenvalues that were estimated on the way.
pub(super) fn with_estimates<T>(mut kept: Vec<Kept>, raw: Vec<Raw<T>>) -> Vec<Kept> {
    for (kept, level) in kept.iter_mut().zip(raw) {
        kept.largest_eigenvalue = level.estimated.into_inner().or(kept.largest_eigenvalue.take());
    }
    kept
}
