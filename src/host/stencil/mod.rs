//! Matrices and multigrid on structured grids.

pub mod black_box;
pub mod coarsening;
pub mod galerkin;
pub mod gauss_seidel;
pub mod ilu0;
pub mod line_relaxation;
mod lines;
mod multivector;
mod planes;
pub mod product;
pub mod setup;
mod split;
pub mod transfer;

pub use lines::{Term, solve_parity};
