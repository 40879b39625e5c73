//! Ranks that solve one system together: the communicator that a program hands over, and ranks as threads of a process.
//!
//! The library has no messages of its own. A [`Communicator`] is the few operations that it needs, over the MPI of the
//! program or over [`threads`]. [`Ranks`] adds what the library builds from them, above all agreement on errors.

mod bytes;
mod distribution;
pub(crate) mod divided;
mod fetched;
pub(crate) mod halo;
mod numbering;
mod ranks;
mod sum;
mod thread_ranks;

use crate::error::Result;
use std::sync::Arc;

pub(crate) use bytes::{bytes, bytes_mut};
pub use distribution::{Distribution, FEWEST_ROWS};
pub(crate) use divided::{DividedLevel, exchange};
pub(crate) use fetched::{FetchedRows, widened};
pub(crate) use halo::{Halo, LocalColumns};
pub(crate) use numbering::{LocalNumbers, Numbering, Renumbering};
pub use ranks::{Ranks, Spread};
pub(crate) use ranks::{from_ordered, ordered, unavailable};
pub(crate) use sum::ReproducibleSum;
pub(crate) use thread_ranks::ThreadRank;
pub use thread_ranks::threads;

/// How numbers of all ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Reduction {
    /// Their sum.
    Sum = 0,
    /// The smallest.
    Min = 1,
    /// The largest.
    Max = 2,
}

impl Reduction {
    /// One of two numbers, or their sum.
    pub fn of(self, a: i64, b: i64) -> i64 {
        match self {
            Reduction::Sum => a.wrapping_add(b),
            Reduction::Min => a.min(b),
            Reduction::Max => a.max(b),
        }
    }

    /// The one with this number.
    pub fn from_number(number: i32) -> Option<Reduction> {
        [Reduction::Sum, Reduction::Min, Reduction::Max].into_iter().find(|reduction| *reduction as i32 == number)
    }
}

/// A part of a buffer that goes to a rank or comes from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other rank.
    pub rank: usize,
    /// First byte in the buffer.
    pub begin: usize,
    /// Bytes.
    pub length: usize,
}

/// What the library needs of the program's communication. All functions but `rank`, `size`, `exchange`, `revoke`
/// and `set_timeout` are collective: every rank calls them, in the same order. A rank uses a communicator from one thread at a time. A failure
/// is an error and never ends the process; after one the communicator is of no more use.
pub trait Communicator: Send + Sync {
    /// This rank, from 0 on.
    fn rank(&self) -> usize;
    /// Number of ranks.
    fn size(&self) -> usize;
    /// Sends parts of `outgoing` and receives parts of `incoming`; messages between two ranks with one tag arrive in
    /// order. `meanwhile` runs while they are under way.
    fn exchange(
        &self,
        tag: i32,
        sends: &[Part],
        outgoing: &[u8],
        receives: &[Part],
        incoming: &mut [u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()>;
    /// Gathers the bytes of all ranks, in the order of the ranks; `lengths` has those of all.
    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) -> Result<()>;
    /// Reduces each number over all ranks.
    fn all_reduce(&self, numbers: &mut [i64], reduction: Reduction) -> Result<()>;
    /// Returns when every rank has called it.
    fn barrier(&self) -> Result<()>;
    /// A communicator of the same ranks whose messages do not meet those of this one.
    fn duplicate(&self) -> Result<Arc<dyn Communicator>>;
    /// Makes what other ranks wait for here fail, now and later, because this rank cannot go on.
    fn revoke(&self);
    /// Lets this rank wait for others for at most so many seconds in each operation, from now on; 0 is without end. An
    /// operation that takes longer fails, and so do those of the other ranks.
    fn set_timeout(&self, seconds: f64) -> Result<()>;
}
