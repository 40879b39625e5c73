//! What a step from one level to the next rests on, strong couplings and coarse unknowns: how the host chooses them, and whether an update finds
//! them again.

use super::Builder;
use crate::amg::coarsen::{self, Coarse, Coarsening};
use crate::amg::strength;
use crate::context::LogLevel;
use crate::error::Result;
use crate::report::Phases;
use crate::scalar::Scalar;
use crate::sparse::{CsrView, Graph, NearNullSpace};
use std::sync::Arc;

/// What an update did with the choices of the levels; nothing after set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Levels, from the finest on, whose coarse unknowns were kept.
    pub kept_levels: usize,
    /// Whether the one after them was found to have others, and everything from there on was set up anew.
    pub anew: bool,
}

/// The choice of a level.
#[derive(Clone)]
pub(super) struct Choice {
    pub graph: Arc<Graph>,
    pub coarse: Arc<Coarse>,
}

impl Choice {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.graph.bytes() + self.coarse.bytes()
    }
}

/// What an update that looks at choices needs of a level that it keeps.
#[derive(Clone)]
pub(super) struct Rechecked {
    pub choice: Choice,
    /// The near-null space of the next level, which it has whatever the values are; none where coarsening needs none.
    pub next_space: Option<Arc<NearNullSpace>>,
}

impl Rechecked {
    /// Bytes held beside the choice.
    pub fn bytes(&self) -> usize {
        self.next_space.as_ref().map_or(0, |space| size_of_val(space.vectors.as_slice()))
    }
}

impl Builder<'_> {
    /// Whether updates look if new values lead to the same choices.
    pub(super) fn keeps_choices(&self) -> bool {
        self.config.text("amg.update.coarsening") == "recheck"
    }

    /// Whether this renewal does. One for other formats alone does not.
    pub(super) fn rechecks(&self) -> bool {
        self.plan.is_none() && self.keeps_choices()
    }

    /// Tells where an update begins to set up anew.
    pub(super) fn begins_anew(&self, level: usize) {
        self.context.log(LogLevel::Info, || {
            format!("level {level}: the new values lead to other strong couplings or coarse unknowns, set up anew from here on")
        });
    }

    /// Strong couplings and coarse unknowns for a matrix.
    pub(super) fn choose<T: Scalar>(
        &self,
        coarsening: &dyn Coarsening<T>,
        a: &CsrView<'_, T>,
        level: usize,
        phases: &mut Phases,
    ) -> Result<Choice> {
        let graph = self.graph(coarsening, a, level, phases)?;
        let coarse = self.coarse(coarsening, a, &graph, level, phases)?;
        Ok(Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) })
    }

    /// The choice for a matrix where it is not `kept`. The same strong couplings leave nothing to choose, unless values count beside them.
    pub(super) fn other_choice<T: Scalar>(
        &self,
        coarsening: &dyn Coarsening<T>,
        a: &CsrView<'_, T>,
        level: usize,
        kept: &Choice,
        phases: &mut Phases,
    ) -> Result<Option<Choice>> {
        let graph = self.graph(coarsening, a, level, phases)?;
        let same = graph == *kept.graph;
        if same && !coarsening.goes_by_values() {
            return Ok(None);
        }
        let coarse = self.coarse(coarsening, a, &graph, level, phases)?;
        let same = same && coarse == *kept.coarse;
        Ok((!same).then(|| Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) }))
    }

    fn graph<T: Scalar>(
        &self,
        coarsening: &dyn Coarsening<T>,
        a: &CsrView<'_, T>,
        level: usize,
        phases: &mut Phases,
    ) -> Result<Graph> {
        phases.time("strength", || strength::build(self.config, coarsening.strength(), a, level))
    }

    fn coarse<T: Scalar>(
        &self,
        coarsening: &dyn Coarsening<T>,
        a: &CsrView<'_, T>,
        graph: &Graph,
        level: usize,
        phases: &mut Phases,
    ) -> Result<Coarse> {
        phases.time("coarsen", || coarsening.coarsen(&coarsen::Input { config: self.config, a: *a, graph, level }))
    }
}
