//! Algebraic multigrid over the contract of the backends: `hierarchy` computes levels by the steps of a set-up backend
//! and stores them on a solve backend, where [`cycle`] runs them.

pub mod cycle;
pub mod error_scaling;
pub(crate) mod finest;
mod grid_transfer;
pub(crate) mod hierarchy;
pub(crate) mod plan;
