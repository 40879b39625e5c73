//! What a step from one level to the next rests on, as a GPU chooses it: [`crate::amg::hierarchy::choice`] in device memory.

use super::Builder;
use crate::amg::strength::Measure;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::setup::coarse::{DeviceCoarse, Splitting};
use crate::gpu::setup::{DeviceCsr, DeviceGraph, DeviceNearNullSpace};
use crate::gpu::setup::{aggressive, mis2, pairwise, pmis, strength};
use crate::report::Phases;
use crate::scalar::Scalar;
use std::sync::Arc;

/// The choice of a level.
#[derive(Clone)]
pub(super) struct Choice {
    pub graph: Arc<DeviceGraph>,
    pub coarse: Arc<DeviceCoarse>,
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
    pub next_space: Option<Arc<DeviceNearNullSpace>>,
}

impl Rechecked {
    /// Bytes held beside the choice.
    pub fn bytes(&self) -> usize {
        self.next_space.as_ref().map_or(0, |space| space.vectors.owned_bytes())
    }
}

impl Builder<'_> {
    /// Strong couplings and coarse unknowns for a matrix.
    pub(super) fn choose_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        level: usize,
        phases: &mut Phases,
    ) -> Result<Choice> {
        let graph = self.timed(gpu, level, phases, "strength", || self.graph_there(gpu, a, level))?;
        let coarse = self.timed(gpu, level, phases, "coarsen", || self.coarsen_there(gpu, a, &graph, level))?;
        Ok(Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) })
    }

    /// The choice for a matrix where it is not `kept`, as [`Builder::other_choice`]. Both stay where they are; what comes to the host is whether they
    /// are the same.
    pub(super) fn other_choice_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        level: usize,
        kept: &Choice,
        phases: &mut Phases,
    ) -> Result<Option<Choice>> {
        let (graph, same) = self.timed(gpu, level, phases, "strength", || {
            let graph = self.graph_there(gpu, a, level)?;
            let same = kept.graph.is(gpu, &graph)?;
            Ok((graph, same))
        })?;
        if same && !self.coarsening::<T>().goes_by_values() {
            return Ok(None);
        }
        let (coarse, same) = self.timed(gpu, level, phases, "coarsen", || {
            let coarse = self.coarsen_there(gpu, a, &graph, level)?;
            let same = same && kept.coarse.is(gpu, &coarse)?;
            Ok((coarse, same))
        })?;
        Ok((!same).then(|| Choice { graph: Arc::new(graph), coarse: Arc::new(coarse) }))
    }

    /// Strong couplings.
    fn graph_there<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, level: usize) -> Result<DeviceGraph> {
        let default = self.coarsening::<T>().strength();
        match Measure::new(self.config, default, a.block)? {
            Measure::Classical { theta, max_row_sum } => strength::classical(gpu, a, theta, max_row_sum),
            Measure::Absolute { theta } => strength::absolute(gpu, a, theta),
            Measure::Symmetric { theta } => {
                let measure = strength::Symmetric::new(gpu, a)?;
                let theta = match theta {
                    Some(theta) => theta,
                    None => Measure::symmetric_threshold(a.block, level, measure.scale()?),
                };
                measure.graph(theta)
            }
        }
    }

    /// Coarse unknowns.
    fn coarsen_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        graph: &DeviceGraph,
        level: usize,
    ) -> Result<DeviceCoarse> {
        let seed = level as u64;
        Ok(match self.coarsening_name().as_str() {
            "mis2" => DeviceCoarse::Aggregates(mis2::aggregate(gpu, graph, seed)?),
            "pairwise" => {
                let size = self.config.int("amg.coarsening.pairwise.size");
                DeviceCoarse::Aggregates(pairwise::aggregate(gpu, a, graph, size, seed)?)
            }
            _ => {
                let first = pmis::split(gpu, graph, seed)?;
                let first = Splitting::new(gpu, &first)?;
                if level >= self.config.int("amg.coarsening.aggressive_levels") {
                    return Ok(DeviceCoarse::Splitting(first));
                }
                let second = aggressive::thin(gpu, graph, &first, seed)?;
                DeviceCoarse::TwoPass(first, Splitting::new(gpu, &second)?)
            }
        })
    }
}
