//! Choice of the coarse unknowns.

mod hmis;
mod mis2;
mod pairwise;
mod pmis;

use crate::config::Config;
use crate::error::Result;
use crate::host;
use crate::registry::registry;
use crate::scalar::Scalar;
use crate::sparse::CsrView;
use crate::sparse::Graph;

/// Coarse unknowns, as one of the two kinds of AMG sees them.
#[derive(Clone, Debug, PartialEq)]
pub enum Coarse {
    /// Classical AMG: `true` for the rows that are also coarse unknowns.
    Splitting(Vec<bool>),
    /// Classical AMG with aggressive coarsening: the splitting of the first pass, and the one that the second pass left of it.
    TwoPass(Vec<bool>, Vec<bool>),
    /// Aggregation: number of the aggregate of each node, -1 for none, and how many aggregates there are.
    Aggregates(Vec<i32>, usize),
}

impl Coarse {
    /// Block rows of the coarse matrix.
    pub fn count(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) | Coarse::TwoPass(_, coarse) => coarse.iter().filter(|c| **c).count(),
            Coarse::Aggregates(_, count) => *count,
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Coarse::Splitting(coarse) => size_of_val(coarse.as_slice()),
            Coarse::TwoPass(first, coarse) => size_of_val(first.as_slice()) + size_of_val(coarse.as_slice()),
            Coarse::Aggregates(of, _) => size_of_val(of.as_slice()),
        }
    }
}

/// What coarse unknowns are chosen from.
pub struct Input<'a, T> {
    /// Options.
    pub config: &'a Config,
    /// The matrix of the level.
    pub a: CsrView<'a, T>,
    /// Its strong couplings.
    pub graph: &'a Graph,
    /// The level, 0 for the finest; it varies random orders from level to level.
    pub level: usize,
}

impl<T> Input<'_, T> {
    /// The coarse unknowns of a splitting: all of them, or on an aggressive level those that a second pass leaves.
    fn split(&self, coarse: Vec<bool>) -> Result<Coarse> {
        if self.level >= self.config.int("amg.coarsening.aggressive_levels") {
            return Ok(Coarse::Splitting(coarse));
        }
        let thinned = host::aggressive::thin(self.graph, &coarse, self.level as u64)?;
        Ok(Coarse::TwoPass(coarse, thinned))
    }
}

/// A way to choose coarse unknowns.
pub trait Coarsening<T: Scalar>: Sync {
    /// The strength measure it was made for.
    fn strength(&self) -> &'static str;
    /// The interpolation it was made for.
    fn interpolation(&self) -> &'static str;
    /// Whether it works on nodes of several unknowns, with a near-null space; otherwise blocks are taken apart first.
    fn keeps_blocks(&self) -> bool;
    /// Whether it looks at the values of the matrix, not at its strong couplings alone.
    fn goes_by_values(&self) -> bool {
        false
    }
    /// Chooses.
    fn coarsen(&self, input: &Input<'_, T>) -> Result<Coarse>;
}

registry! {
    /// The coarsening of this name.
    fn find<T: Scalar>() -> &'static dyn Coarsening<T>;
    "pmis" => &pmis::Pmis;
    "hmis" => &hmis::Hmis;
    "mis2" => &mis2::Mis2;
    "pairwise" => &pairwise::Pairwise;
}
