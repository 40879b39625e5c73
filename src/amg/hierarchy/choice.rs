//! What the step from one level to the next rests on, strong couplings and coarse unknowns: how they are chosen, and
//! whether an update finds them again.

use super::Builder;
use super::compute::Step;
use crate::backend::components::{CoarseningInput, StrengthInput};
use crate::backend::setup::{Coarse, Held, Setup, SetupMatrix};
use crate::components::{self, Components};
use crate::context::LogLevel;
use crate::error::{Result, fail};
use crate::scalar::Scalar;
use std::sync::Arc;

/// Levels that an update kept or set up again; none after set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Levels, from the finest on, whose coarse unknowns were kept.
    pub kept_levels: usize,
    /// Whether the level after them differed, and was set up again with all further levels.
    pub anew: bool,
}

/// The choice of a level.
pub(super) struct Choice<S: Setup> {
    pub graph: Arc<S::Graph>,
    pub coarse: Arc<Coarse<S>>,
}

impl<S: Setup> Clone for Choice<S> {
    fn clone(&self) -> Self {
        Choice { graph: Arc::clone(&self.graph), coarse: Arc::clone(&self.coarse) }
    }
}

impl<S: Setup> Choice<S> {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.graph.bytes() + self.coarse.bytes()
    }
}

/// Data of a level for updates with `recheck`.
pub(super) struct Rechecked<S: Setup> {
    pub choice: Choice<S>,
    /// The near-null space of the next level, which does not depend on values; none if the coarsening needs none.
    pub next_space: Option<Arc<S::NearNullSpace>>,
}

impl<S: Setup> Clone for Rechecked<S> {
    fn clone(&self) -> Self {
        Rechecked { choice: self.choice.clone(), next_space: self.next_space.clone() }
    }
}

impl<S: Setup> Rechecked<S> {
    /// Bytes beyond those of the choice.
    pub fn bytes(&self) -> usize {
        self.next_space.as_ref().map_or(0, |space| space.bytes())
    }
}

impl Builder<'_> {
    /// Whether updates compare strong couplings and coarse unknowns (`recheck`).
    pub(super) fn keeps_choices(&self) -> bool {
        self.config.text("amg.update.coarsening") == "recheck"
    }

    /// Whether this update does. One for other formats alone does not.
    pub(super) fn rechecks(&self) -> bool {
        self.plan.is_none() && self.keeps_choices()
    }

    /// Logs the level from which an update sets up again.
    pub(super) fn begins_anew(&self, level: usize) {
        self.context.log(LogLevel::Info, || {
            format!("level {level}: the new values lead to other strong couplings or coarse unknowns, set up anew from here on")
        });
    }

    /// Strong couplings and coarse unknowns for a matrix.
    pub(super) fn choose<S: Components, T: Scalar>(
        &self,
        step: &mut Step<'_, S>,
        a: &S::Matrix<T>,
        space: Option<&S::NearNullSpace>,
    ) -> Result<Choice<S>> {
        let graph = step.timed("strength", |step| self.graph(step, a, space))?;
        let coarse = step.timed("coarsen", |step| self.coarse(step, a, &graph))?;
        Ok(Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) })
    }

    /// The choice for a matrix if it differs from `kept`. Equal strong couplings give equal coarse unknowns, unless the
    /// coarsening depends on values.
    pub(super) fn other_choice<S: Components, T: Scalar>(
        &self,
        step: &mut Step<'_, S>,
        a: &S::Matrix<T>,
        space: Option<&S::NearNullSpace>,
        kept: &Choice<S>,
    ) -> Result<Option<Choice<S>>> {
        let (graph, same) = step.timed("strength", |step| {
            let graph = self.graph(step, a, space)?;
            let same = step.setup.same_graph(&kept.graph, &graph)?;
            let same = step.setup.is_everywhere(a.scalar_rows(), same)?;
            Ok((graph, same))
        })?;
        if same && !self.coarsening().uses_values {
            return Ok(None);
        }
        let (coarse, same) = step.timed("coarsen", |step| {
            let coarse = self.coarse(step, a, &graph)?;
            let same = same && step.setup.same_coarse(&kept.coarse, &coarse)?;
            let same = step.setup.is_everywhere(a.scalar_rows(), same)?;
            Ok((coarse, same))
        })?;
        Ok((!same).then(|| Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) }))
    }

    fn graph<S: Components, T: Scalar>(
        &self,
        step: &Step<'_, S>,
        a: &S::Matrix<T>,
        space: Option<&S::NearNullSpace>,
    ) -> Result<S::Graph> {
        if self.is_structured() && self.config.int("amg.strength.connections") > 0 {
            return fail!(
                OptionValue,
                "amg.strength.connections does nothing on a structured grid, which is coarsened along axes; use \
                 amg.coarsening.axis_threshold, or amg.type \"unstructured\""
            );
        }
        let (connections, measure) = (self.config.int("amg.strength.connections"), self.strength());
        if connections > 0 && !measure.counts_connections {
            return fail!(
                OptionValue,
                "amg.strength.connections needs a measure of pairs, and amg.strength.type is \"{}\"; use {}, or amg.strength.connections 0",
                measure.name,
                components::strengths_with_connections()
            );
        }
        let input =
            StrengthInput { setup: step.setup, parameters: self.config, a, level: step.level, near_null_space: space };
        S::strength(measure.name).expect("looked for before set-up began").graph(&input)
    }

    /// Coarse unknowns; on an aggressive level those of a second pass.
    fn coarse<S: Components, T: Scalar>(
        &self,
        step: &Step<'_, S>,
        a: &S::Matrix<T>,
        graph: &S::Graph,
    ) -> Result<Coarse<S>> {
        let (setup, seed) = (step.setup, step.level as u64);
        let coarsening = S::coarsening::<T>(self.coarsening().name).expect("looked for before set-up began");
        let relaxes_lines = components::relaxes_lines(&self.config.text("amg.smoother.type"));
        let input = CoarseningInput { setup, parameters: self.config, a, graph, seed, relaxes_lines };
        let coarse = coarsening.coarsen(&input)?;
        match coarse {
            Coarse::Splitting(first) if step.level < self.config.int("amg.coarsening.aggressive_levels") => {
                let second = setup.second_pass(graph, &first, seed)?;
                Ok(Coarse::TwoPass(first, second))
            }
            coarse => Ok(coarse),
        }
    }
}
