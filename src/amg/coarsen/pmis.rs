//! PMIS: parallel modified independent set.

use super::{Coarse, Coarsening};
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::host;

/// The component.
pub struct Pmis;

impl Coarsening for Pmis {
    fn strength(&self) -> &'static str {
        "classical"
    }

    fn interpolation(&self) -> &'static str {
        "extended_i"
    }

    fn keeps_blocks(&self) -> bool {
        false
    }

    fn coarsen(&self, graph: &Graph, seed: u64) -> Result<Coarse> {
        Ok(Coarse::Splitting(host::pmis::split(graph, &graph.transpose()?, seed)?))
    }
}
