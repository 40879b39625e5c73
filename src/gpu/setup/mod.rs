//! Set-up on a GPU: what [`crate::host`] computes, on the device, with the same bits. Host and device take the same
//! steps in the same order of summation, so coarse unknowns, patterns and values are equal.

pub(crate) mod affinity;
pub(crate) mod aggressive;
pub(crate) mod classical_modified;
pub(crate) mod coarse_numbering;
pub(crate) mod colouring;
pub(crate) mod deferred_checks;
pub(crate) mod dense;
pub(crate) mod diagonal;
mod dilu;
pub(crate) mod direct;
pub(crate) mod divided;
pub(crate) mod eigenvalue;
pub(crate) mod energy;
pub(crate) mod extended_i;
pub(crate) mod extended_i_numeric;
mod filtered;
mod fsai;
pub(crate) mod functions;
pub(crate) mod galerkin;
pub(crate) mod gather_blocks;
pub(crate) mod grid;
pub(crate) mod grid_levels;
mod ilu0;
#[cfg(feature = "unit-tests")]
pub(super) mod irregular;
pub(crate) mod lanczos;
mod lanes;
pub(crate) mod least_squares;
mod matrix;
pub(crate) mod mis2;
pub(crate) mod mm_ext;
mod near_null_space;
pub(crate) mod pairwise;
mod pattern_compare;
pub(crate) mod pmis;
pub(crate) mod reorder;
pub(crate) mod rounding_loss;
pub(crate) mod scaling;
pub(crate) mod smoothed;
pub(crate) mod spgemm;
mod spgemm_merge;
pub(crate) mod spgemm_symbolic;
pub(crate) mod spgemm_tiles;
mod steps;
pub(crate) mod strength;
pub(crate) mod symmetry;
pub(crate) mod tentative;
pub(in crate::gpu) mod tiles;
pub(crate) mod transpose;
mod truncate;
mod two_pass;
pub(crate) mod two_stage;

#[cfg(feature = "unit-tests")]
pub(super) mod tests;

pub(crate) use matrix::{DeviceCsr, DeviceGraph, DevicePattern};
pub(crate) use mis2::DeviceAggregates;
pub(crate) use tentative::DeviceNearNullSpace;
