//! The step from one level to the next on a GPU: strong couplings, coarse unknowns, prolongator and restriction.

use super::Builder;
use super::choice::Choice;
use crate::amg::hierarchy::STALLED;
use crate::error::Result;
use crate::gpu::setup::coarse::{DeviceCoarse, Splitting};
use crate::gpu::setup::extended_i_renew::Memory;
use crate::gpu::setup::smoothed;
use crate::gpu::setup::tentative::{self, Tentative};
use crate::gpu::setup::terms::BlockTerms;
use crate::gpu::setup::two_stage::Stages;
use crate::gpu::setup::{DeviceAggregates, DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern};
use crate::gpu::setup::{classical_modified, direct, extended_i, mm_ext, transpose, two_stage};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::eigenvalue::{Estimate, Largest};
use crate::host::truncate::Truncation;
use crate::report::Phases;
use crate::scalar::Scalar;
use std::any::Any;
use std::sync::Arc;

/// Prolongator, restriction, and what else interpolation told.
pub(super) struct Step<T> {
    pub p: DeviceCsr<T>,
    pub r: DeviceCsr<T>,
    pub next_space: Option<DeviceNearNullSpace>,
    /// The largest eigenvalue of D^-1 A, where it was estimated now.
    pub known: Option<f64>,
    /// The same, for later estimates to go by.
    pub largest: Option<Largest>,
    /// The inverse of the diagonal blocks of A, where it was needed.
    pub inverse: Option<Buffer<T>>,
    /// Where it was made now.
    pub choice: Option<Choice>,
    pub transfers: Transfers,
}

/// What a step begins with.
pub(super) enum Start {
    /// One for an earlier matrix, which is renewed.
    Earlier(Transfers),
    /// A choice for this matrix.
    Choice(Choice),
    /// The matrix alone.
    Nothing,
}

/// How prolongator and restriction come back.
#[derive(Clone)]
pub(super) enum Transfers {
    /// Computed anew for the strong couplings, coarse unknowns and patterns of the first time.
    Renewed {
        choice: Choice,
        p: DevicePattern,
        r: DevicePattern,
        /// Found in the first renewal.
        transposition: Option<Arc<transpose::Recipe>>,
        /// What interpolation remembers, and its bytes: a `Remembered` in the precision of set-up, or from the first renewal on an
        /// [`Memory`].
        memory: Option<(Arc<dyn Any + Send + Sync>, usize)>,
    },
    /// As they are: a pair of matrices in the precision of set-up, with its bytes.
    Unchanged { pair: Arc<dyn Any + Send + Sync>, bytes: usize },
}

impl Transfers {
    /// Forgets where couplings stand that a renewal goes by, and that it may; whether there was anything to forget.
    pub fn forget_places(&mut self) -> bool {
        let Transfers::Renewed { choice, memory, .. } = self else { return false };
        match memory {
            Some((memory, bytes)) => {
                if let Some(stages) = memory.downcast_ref::<Stages>() {
                    let forgotten = stages.forget_places();
                    *bytes = stages.bytes();
                    return forgotten;
                }
                let forgotten = memory.downcast_ref::<Memory>().is_some_and(Memory::forget);
                *bytes = if forgotten { 0 } else { *bytes };
                forgotten
            }
            None if !matches!(*choice.coarse, DeviceCoarse::Aggregates(_)) => {
                *memory = Some((Arc::new(Memory::nothing()), 0));
                true
            }
            None => false,
        }
    }

    /// Whether the last renewal left rows undone, which nobody has looked at yet. Waits for the device.
    pub fn left_over(&self, gpu: &Gpu) -> Result<bool> {
        let Transfers::Renewed { memory: Some((memory, _)), .. } = self else { return Ok(false) };
        match (memory.downcast_ref::<Memory>(), memory.downcast_ref::<Stages>()) {
            (Some(memory), _) => memory.left_over(gpu),
            (_, Some(stages)) => stages.left_over(gpu),
            _ => Ok(false),
        }
    }

    /// Whether the choice of the level is part of it.
    pub fn has_choice(&self) -> bool {
        matches!(self, Transfers::Renewed { .. })
    }

    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        match self {
            Transfers::Renewed { choice, p, r, transposition, memory } => {
                let transposition = transposition.as_ref().map_or(0, |recipe| recipe.bytes());
                let memory = memory.as_ref().map_or(0, |(_, bytes)| *bytes);
                choice.bytes() + p.bytes(1) + r.bytes(1) + transposition + memory
            }
            Transfers::Unchanged { bytes, .. } => *bytes,
        }
    }
}

/// What smoothed aggregation remembers.
struct Remembered<T> {
    tentative: Arc<Tentative<T>>,
    /// Of A without its weak couplings.
    largest: Largest,
    /// By which the first renewal found later ones to go, if anything; none before it.
    terms: Option<Option<Arc<BlockTerms>>>,
}

/// An interpolation.
struct Output<T> {
    p: DeviceCsr<T>,
    next_space: Option<DeviceNearNullSpace>,
    known: Option<f64>,
    largest: Option<Largest>,
    inverse: Option<Buffer<T>>,
    memory: Option<(Arc<dyn Any + Send + Sync>, usize)>,
}

impl<T> Output<T> {
    /// A prolongator and nothing else.
    fn alone(p: DeviceCsr<T>) -> Output<T> {
        Output { p, next_space: None, known: None, largest: None, inverse: None, memory: None }
    }
}

impl Builder<'_> {
    /// The transfers from level `level`, by the couplings of `a`, to the next one; none where coarsening would leave too much.
    pub(super) fn step_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        level: usize,
        space: Option<&DeviceNearNullSpace>,
        start: Start,
        phases: &mut Phases,
    ) -> Result<Option<Step<T>>> {
        let (choice, patterns) = match start {
            Start::Earlier(Transfers::Unchanged { pair, bytes }) => {
                let (p, r) = pair
                    .downcast_ref::<(DeviceCsr<T>, DeviceCsr<T>)>()
                    .expect("the precision of set-up does not change")
                    .clone();
                let transfers = Transfers::Unchanged { pair, bytes };
                let (next_space, known, largest, inverse, choice) = (None, None, None, None, None);
                return Ok(Some(Step { p, r, next_space, known, largest, inverse, choice, transfers }));
            }
            Start::Earlier(Transfers::Renewed { choice, p, r, transposition, memory }) => {
                (choice, Some((p, r, transposition, memory)))
            }
            start => {
                let choice = match start {
                    Start::Choice(choice) => choice,
                    _ => self.choose_there(gpu, a, level, phases)?,
                };
                let width = match (&*choice.coarse, space) {
                    (DeviceCoarse::Aggregates(_), Some(space)) => space.count,
                    _ => 1,
                };
                let (rows, coarse_rows) = (a.scalar_rows(), choice.coarse.count() * width);
                if coarse_rows == 0 || coarse_rows as f64 > STALLED * rows as f64 {
                    self.stalled(level, rows, coarse_rows);
                    return Ok(None);
                }
                (choice, None)
            }
        };
        let made = patterns.is_none().then(|| choice.clone());
        let Choice { graph, coarse } = &choice;
        let (output, r, transposition) = self.timed(gpu, level, phases, "interpolation", || match patterns {
            None => {
                let output = self.interpolate_there(gpu, a, (graph, coarse), space, None)?;
                let r = transpose::transpose(gpu, &output.p)?;
                Ok((output, r, None))
            }
            Some((p, r, transposition, memory)) => {
                let memory = memory.as_ref().map(|(memory, _)| memory);
                let output = self.interpolate_there(gpu, a, (graph, coarse), space, Some((&p, memory)))?;
                let recipe = match transposition {
                    Some(recipe) => recipe,
                    None => Arc::new(transpose::transpose_and_recipe(gpu, &output.p)?.1),
                };
                let r = r.with(recipe.renew(gpu, &output.p.values)?);
                Ok((output, r, Some(recipe)))
            }
        })?;
        let Output { p, next_space, known, largest, inverse, memory } = output;
        let transfers = if self.config.text("amg.update.interpolation") == "keep" {
            let bytes = p.bytes() + r.bytes();
            Transfers::Unchanged { pair: Arc::new((p.clone(), r.clone())), bytes }
        } else {
            Transfers::Renewed { choice, p: p.pattern(), r: r.pattern(), transposition, memory }
        };
        Ok(Some(Step { p, r, next_space, known, largest, inverse, choice: made, transfers }))
    }

    /// The prolongator; where there is an earlier one for the same graph and coarse unknowns, with its pattern.
    #[allow(clippy::type_complexity)]
    fn interpolate_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        (graph, coarse): (&DeviceGraph, &DeviceCoarse),
        space: Option<&DeviceNearNullSpace>,
        earlier: Option<(&DevicePattern, Option<&Arc<dyn Any + Send + Sync>>)>,
    ) -> Result<Output<T>> {
        match coarse {
            DeviceCoarse::Aggregates(aggregates) => {
                let space = space.expect("aggregation has a near-null space");
                if self.interpolation_name::<T>() == "tentative" {
                    let (p, next) = tentative::prolongator(gpu, aggregates, space)?;
                    return Ok(Output { next_space: Some(next), ..Output::alone(p.into_matrix(gpu, aggregates)?) });
                }
                self.smoothed_there(gpu, a, graph, aggregates, space, earlier)
            }
            DeviceCoarse::Splitting(splitting)
                if earlier.is_some() && self.interpolation_name::<T>() == "extended_i" =>
            {
                let (pattern, memory) = earlier.expect("there is an earlier one");
                let memory = match memory {
                    Some(memory) => Arc::clone(memory).downcast::<Memory>().expect("interpolation is of the same kind"),
                    None => Arc::new(Memory::new(gpu, a, graph, splitting, pattern)?),
                };
                let p = memory.renew(gpu, a, graph, splitting, pattern)?;
                let bytes = memory.bytes();
                Ok(Output { memory: Some((memory, bytes)), ..Output::alone(p) })
            }
            DeviceCoarse::TwoPass(first, second)
                if earlier.is_some() && self.interpolation_name::<T>() == "extended_i" =>
            {
                let (pattern, memory) = earlier.expect("there is an earlier one");
                let (of, splittings, truncation) = ((a, graph), (first, second), self.truncation_there());
                let (p, stages) = match memory.map(|memory| Arc::clone(memory).downcast::<Stages>()) {
                    Some(Ok(stages)) => (stages.renew(gpu, of, splittings, truncation, pattern)?, stages),
                    // What else is there tells that there is no room.
                    none => {
                        let (p, stages) = Stages::new(gpu, of, splittings, truncation, pattern, none.is_some())?;
                        (p, Arc::new(stages))
                    }
                };
                let bytes = stages.bytes();
                Ok(Output { memory: Some((stages, bytes)), ..Output::alone(p) })
            }
            coarse => {
                let pattern = earlier.map(|(pattern, _)| pattern);
                Ok(Output::alone(self.classical_there(gpu, a, graph, coarse, pattern)?))
            }
        }
    }

    /// What the options keep of a row.
    fn truncation_there(&self) -> Truncation {
        let (most, factor) = ("amg.interpolation.max_entries", "amg.interpolation.truncation");
        Truncation::new(self.config.int(most), self.config.real(factor))
    }

    /// Interpolation from the coarse unknowns of a splitting, on aggressive levels in two stages.
    fn classical_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        graph: &DeviceGraph,
        coarse: &DeviceCoarse,
        pattern: Option<&DevicePattern>,
    ) -> Result<DeviceCsr<T>> {
        let truncation = self.truncation_there();
        let name = self.interpolation_name::<T>();
        let formula = |coarse: &Splitting, only: Option<&Slice<i32>>, pattern: Option<&DevicePattern>| match (
            name.as_str(),
            pattern,
        ) {
            ("direct", pattern) => direct::interpolate(gpu, a, graph, coarse, truncation, pattern),
            ("classical_modified", None) => classical_modified::interpolate(gpu, a, graph, coarse, truncation),
            ("classical_modified", Some(p)) => classical_modified::renew(gpu, a, graph, coarse, p),
            ("mm_ext" | "mm_ext_i", pattern) => {
                mm_ext::interpolate(gpu, a, graph, coarse, only, name == "mm_ext_i", truncation, pattern)
            }
            (_, None) => extended_i::interpolate(gpu, a, graph, coarse, only, truncation),
            (_, Some(p)) => extended_i::renew(gpu, a, graph, coarse, only, p),
        };
        match coarse {
            DeviceCoarse::Splitting(splitting) => formula(splitting, None, pattern),
            DeviceCoarse::TwoPass(first, second) => {
                two_stage::interpolate(gpu, first, second, truncation, pattern, |coarse, only| {
                    formula(coarse, only, None)
                })
            }
            DeviceCoarse::Aggregates(_) => unreachable!("these are not aggregates"),
        }
    }

    #[allow(clippy::type_complexity)]
    fn smoothed_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        graph: &DeviceGraph,
        aggregates: &DeviceAggregates,
        space: &DeviceNearNullSpace,
        earlier: Option<(&DevicePattern, Option<&Arc<dyn Any + Send + Sync>>)>,
    ) -> Result<Output<T>> {
        let how = (self.config.real("amg.interpolation.weight"), Estimate::from_config(self.config));
        let remembered = |memory: &Arc<dyn Any + Send + Sync>| {
            Arc::clone(memory).downcast::<Remembered<T>>().expect("the precision of set-up does not change")
        };
        let before = earlier.and_then(|(_, memory)| memory).map(remembered);
        let step = smoothed::Step::new(gpu, a, graph, how, before.as_ref().map(|before| &before.largest))?;
        let (p, tentative, next_space, terms) = match (earlier, before) {
            (Some((pattern, _)), Some(before)) => {
                let tentative = Arc::clone(&before.tentative);
                let terms = match &before.terms {
                    Some(terms) => terms.clone(),
                    None => step.terms(gpu, aggregates, &tentative, pattern)?.map(Arc::new),
                };
                let p = pattern.with(step.renew(gpu, aggregates, &tentative, pattern, terms.as_deref())?);
                (p, tentative, None, Some(terms))
            }
            _ => {
                let (tentative, next) = tentative::prolongator(gpu, aggregates, space)?;
                (step.smooth(gpu, aggregates, &tentative)?, Arc::new(tentative), Some(next), None)
            }
        };
        let largest = step.largest().clone();
        let known = step.is_of_a().then_some(largest.value);
        let bytes = tentative.bytes() + terms.iter().flatten().map(|terms| terms.bytes()).sum::<usize>();
        let of_a = step.is_of_a().then(|| largest.clone());
        let inverse = step.is_of_a().then(|| step.into_inverse());
        let memory: Arc<dyn Any + Send + Sync> = Arc::new(Remembered { tentative, largest, terms });
        Ok(Output { p, next_space, known, largest: of_a, inverse, memory: Some((memory, bytes)) })
    }
}
