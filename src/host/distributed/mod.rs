//! The host backend over ranks: each rank has contiguous rows of every matrix and vector.
//!
//! A matrix of a level has the rows of this rank, with the columns of other ranks in a halo (`comm/halo.rs`). A row
//! is summed in the order of its columns, and inner products do not depend on the order of their terms
//! (`comm/sum.rs`), so that results have the same bits for any number of ranks.

pub(crate) mod coarsening;
mod colours;
pub(crate) mod divided;
mod operator;
pub(crate) mod product;
mod replicated;
pub(crate) mod sums;
pub(crate) mod surroundings;
pub(crate) mod tentative;
pub(crate) mod transposition;

pub(crate) use colours::DistributedColours;
pub(crate) use operator::{DistributedMatrix, Parts, distributed};
pub(crate) use replicated::Replicated;
