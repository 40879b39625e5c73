//! Algebraic multigrid over the contract of the backends: [`hierarchy`] computes levels by the steps of a set-up backend and stores them on a solve
//! backend, where [`cycle`] runs them.

pub mod cycle;
pub(crate) mod finest;
pub(crate) mod hierarchy;
mod passage;
pub(crate) mod plan;
mod rehearsal;
