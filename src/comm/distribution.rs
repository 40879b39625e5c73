//! Which rank has which rows of a level.

use super::sum::ReproducibleSum;
use super::{Ranks, Reduction};
use crate::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// A level below the finest has at least this many rows on each rank that has any: with fewer, messages take longer than
/// the work. Levels with fewer rows than that are on the first rank alone.
pub const FEWEST_ROWS: usize = 512;

/// Which rank has which rows.
pub struct Distribution {
    /// The ranks.
    pub ranks: Arc<Ranks>,
    /// First row of each rank on the finest level, and the number of rows.
    starts: Vec<usize>,
    /// Where set-up is divided, most rows of a level whose matrices are complete on every rank.
    pub(crate) complete: usize,
    /// Rows of a node on levels below the finest, whose rows are on one rank.
    node: usize,
}

impl Distribution {
    /// With these first rows on the finest level; the last number is that of all rows.
    pub fn new(ranks: Arc<Ranks>, starts: Vec<usize>) -> Arc<Distribution> {
        Arc::new(Distribution { ranks, starts, complete: usize::MAX, node: 1 })
    }

    /// The same with a communicator of its own, for a set-up that is divided on levels of more than `complete` rows, and
    /// whose coarse levels have nodes of `node` rows. A rank waits for others for at most `timeout` seconds. Collective.
    pub fn for_setup(&self, complete: usize, node: usize, timeout: f64) -> Result<Arc<Distribution>> {
        let ranks = Arc::new(Ranks::new(self.ranks.communicator().duplicate()?));
        ranks.set_timeout(timeout)?;
        Ok(Arc::new(Distribution { ranks, starts: crate::error::try_copy(&self.starts)?, complete, node }))
    }

    /// As [`Distribution::for_setup`], for an update of what was set up so.
    pub fn for_update(&self, of: &Distribution, timeout: f64) -> Result<Arc<Distribution>> {
        self.for_setup(of.complete, of.node, timeout)
    }

    /// Whether each rank has whole nodes of `width` rows of the finest level.
    pub fn has_whole_nodes(&self, width: usize) -> bool {
        self.starts.iter().all(|start| start.is_multiple_of(width))
    }

    /// Whether each rank has only its rows of the matrices of a level with `n` rows.
    pub fn is_divided(&self, n: usize) -> bool {
        n > self.complete && self.ranks.size() > 1
    }

    /// Rows of the finest level on all ranks.
    pub fn rows(&self) -> usize {
        self.starts[self.ranks.size()]
    }

    /// First row of each rank of a level with `n` rows, and `n`. Levels are told apart by their size: each is smaller than
    /// the one above it. Coarser ones are divided evenly.
    pub fn starts(&self, n: usize) -> Result<Vec<usize>> {
        self.block_starts(n, 1)
    }

    /// The same for `n` rows of blocks of `width` rows each.
    pub fn block_starts(&self, n: usize, width: usize) -> Result<Vec<usize>> {
        crate::error::try_collect((0..=self.ranks.size()).map(|rank| self.start(n * width, rank) / width))
    }

    /// Rows of this rank of a level with `n` rows.
    pub fn own(&self, n: usize) -> Range<usize> {
        self.own_blocks(n, 1)
    }

    /// The same for `n` rows of blocks of `width` rows each.
    pub fn own_blocks(&self, n: usize, width: usize) -> Range<usize> {
        let rank = self.ranks.rank();
        self.start(n * width, rank) / width..self.start(n * width, rank + 1) / width
    }

    /// First row of a rank of a level with `n` rows.
    fn start(&self, n: usize, rank: usize) -> usize {
        if n == self.rows() {
            return self.starts[rank];
        }
        let active = (n / FEWEST_ROWS).clamp(1, self.ranks.size());
        let node = if n.is_multiple_of(self.node) { self.node } else { 1 };
        let nodes = (n / node) as u128;
        if rank < active { node * (nodes * rank as u128 / active as u128) as usize } else { n }
    }

    /// The sum over all ranks; NaN where the communicator failed, which [`Ranks::status`] tells.
    pub(crate) fn sum(&self, own: &ReproducibleSum) -> f64 {
        // The sums of so many ranks are on the stack.
        const STACK_RANKS: usize = 64;
        let size = self.ranks.size();
        let mut total = ReproducibleSum::default();
        let all = if size <= STACK_RANKS {
            let (mut all, lengths) = (
                [0.0; STACK_RANKS * ReproducibleSum::NUMBERS],
                [size_of::<[f64; ReproducibleSum::NUMBERS]>(); STACK_RANKS],
            );
            let all_of = &mut all[..size * ReproducibleSum::NUMBERS];
            self.ranks.gather_into(&own.to_numbers(), &lengths[..size], all_of).map(|()| total.merge_all(all_of))
        } else {
            self.ranks.gather(&own.to_numbers()).map(|(all, _)| total.merge_all(&all))
        };
        match self.ranks.keep(all) {
            Some(()) => total.value(),
            None => f64::NAN,
        }
    }

    /// The largest of numbers that are not negative, in the order infinity, NaN at the end; NaN where the communicator
    /// failed.
    pub fn max(&self, own: f64) -> f64 {
        self.ranks.keep(self.ranks.largest(own)).unwrap_or(f64::NAN)
    }

    /// Whether it is so on any rank; true where the communicator failed.
    pub fn any(&self, own: bool) -> bool {
        self.ranks.keep(self.ranks.reduce(i64::from(own), Reduction::Max)).is_none_or(|any| any != 0)
    }
}
