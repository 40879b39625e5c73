//! The host backend over ranks: each rank has contiguous rows of every matrix and vector.
//!
//! A matrix of a level has the rows of this rank, with the columns of other ranks in a halo (`halo.rs`). A row is summed
//! in the order of its columns, and inner products do not depend on the order of their terms (`sum.rs`), so that results
//! have the same bits for any number of ranks.

pub(crate) mod divided;
mod halo;
mod operator;
mod replicated;
pub(crate) mod sum;

pub(crate) use halo::{Halo, LocalColumns};
pub(crate) use operator::{DistributedMatrix, own_rows};
pub(crate) use replicated::Replicated;

use crate::comm::{Ranks, Reduction};
use crate::error::{Result, try_vec};
use std::ops::Range;
use std::sync::Arc;
use sum::ReproducibleSum;

/// A level below the finest has at least this many rows on each rank that has any: with fewer, messages take longer than
/// the work. Levels with fewer rows than that are on the first rank alone.
const FEWEST_ROWS: usize = 512;

/// Which rank has which rows.
pub struct Distribution {
    /// The ranks.
    pub ranks: Arc<Ranks>,
    /// First row of each rank on the finest level, and the number of rows.
    starts: Vec<usize>,
    /// Where set-up is divided, most rows of a level whose matrices are complete on every rank.
    complete: usize,
}

impl Distribution {
    /// With these first rows on the finest level; the last number is that of all rows.
    pub fn new(ranks: Arc<Ranks>, starts: Vec<usize>) -> Arc<Distribution> {
        Arc::new(Distribution { ranks, starts, complete: usize::MAX })
    }

    /// The same with a communicator of its own, for a set-up that is divided on levels of more than `complete` rows.
    /// Collective.
    pub fn for_setup(&self, complete: usize) -> Result<Arc<Distribution>> {
        let ranks = Arc::new(Ranks::new(self.ranks.communicator().duplicate()?));
        Ok(Arc::new(Distribution { ranks, starts: crate::error::try_copy(&self.starts)?, complete }))
    }

    /// Rows of the finest level on all ranks.
    pub fn rows(&self) -> usize {
        self.starts[self.ranks.size()]
    }

    /// First row of each rank of a level with `n` rows, and `n`. Levels are told apart by their size: each is smaller than
    /// the one above it. Coarser ones are divided evenly.
    pub fn starts(&self, n: usize) -> Result<Vec<usize>> {
        let size = self.ranks.size();
        if n == self.rows() {
            return crate::error::try_copy(&self.starts);
        }
        let active = (n / FEWEST_ROWS).clamp(1, size);
        let mut starts = try_vec(size + 1, n)?;
        for (rank, start) in starts.iter_mut().enumerate().take(active) {
            *start = (n as u128 * rank as u128 / active as u128) as usize;
        }
        Ok(starts)
    }

    /// Rows of this rank of a level with `n` rows.
    pub fn own(&self, n: usize) -> Range<usize> {
        let (rank, size) = (self.ranks.rank(), self.ranks.size());
        if n == self.rows() {
            return self.starts[rank]..self.starts[rank + 1];
        }
        let active = (n / FEWEST_ROWS).clamp(1, size);
        let start = |rank: usize| if rank < active { (n as u128 * rank as u128 / active as u128) as usize } else { n };
        start(rank)..start(rank + 1)
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
        let largest = self.ranks.reduce(own.abs().to_bits() as i64, Reduction::Max);
        self.ranks.keep(largest).map_or(f64::NAN, |bits| f64::from_bits(bits as u64))
    }

    /// Whether it is so on any rank; true where the communicator failed.
    pub fn any(&self, own: bool) -> bool {
        self.ranks.keep(self.ranks.reduce(i64::from(own), Reduction::Max)).is_none_or(|any| any != 0)
    }
}
