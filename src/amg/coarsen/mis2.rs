//! Aggregation from a distance-2 maximal independent set.

use super::{Coarse, Coarsening};
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::host;

/// The component.
pub struct Mis2;

impl Coarsening for Mis2 {
    fn strength(&self) -> &'static str {
        "symmetric"
    }

    fn interpolation(&self) -> &'static str {
        "smoothed"
    }

    fn keeps_blocks(&self) -> bool {
        true
    }

    fn coarsen(&self, graph: &Graph, seed: u64) -> Result<Coarse> {
        let (of, count) = host::mis2::aggregate(graph, seed)?;
        Ok(Coarse::Aggregates(of, count))
    }
}
