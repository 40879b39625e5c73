//! Choice of the coarse unknowns.

mod mis2;
mod pmis;

use super::strength::Graph;
use crate::error::Result;
use crate::registry::registry;

/// Coarse unknowns, as one of the two kinds of AMG sees them.
#[derive(Clone, Debug, PartialEq)]
pub enum Coarse {
    /// Classical AMG: `true` for the rows that are also coarse unknowns.
    Splitting(Vec<bool>),
    /// Aggregation: number of the aggregate of each node, -1 for none, and how many aggregates there are.
    Aggregates(Vec<i32>, usize),
}

impl Coarse {
    /// Block rows of the coarse matrix.
    pub fn count(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) => coarse.iter().filter(|c| **c).count(),
            Coarse::Aggregates(_, count) => *count,
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) => size_of_val(coarse.as_slice()),
            Coarse::Aggregates(of, _) => size_of_val(of.as_slice()),
        }
    }
}

/// A way to choose coarse unknowns from the strength graph alone.
pub trait Coarsening: Sync {
    /// The strength measure it was made for.
    fn strength(&self) -> &'static str;
    /// The interpolation it was made for.
    fn interpolation(&self) -> &'static str;
    /// Whether it works on nodes of several unknowns, with a near-null space; otherwise blocks are taken apart first.
    fn keeps_blocks(&self) -> bool;
    /// Chooses; `seed` varies the random order from level to level.
    fn coarsen(&self, graph: &Graph, seed: u64) -> Result<Coarse>;
}

registry! {
    /// The coarsening of this name.
    fn find<>() -> &'static dyn Coarsening;
    "pmis" => &pmis::Pmis;
    "mis2" => &mis2::Mis2;
}
