//! Terrace: algebraic multigrid whose every level chooses its own precision, format and smoother.
//!
//! The library is meant to be called from C, C++ and Fortran through `include/terrace.h` and `fortran/terrace.f90`; the modules here
//! are the same things for Rust. `docs/architecture.md` follows a matrix from its creation to a finished solve.
//!
//! ```
//! use std::sync::Arc;
//! use terrace::{Config, Context, Guess, Matrix, Solver, gallery};
//!
//! let context = Context::new("host")?;
//! let matrix = Arc::new(Matrix::from_csr(gallery::poisson7(16, 16, 16)?)?);
//! let mut solver = Solver::new(&context, &Config::new());
//! solver.setup(Some(&matrix))?;
//! let b = vec![1.0; matrix.rows()];
//! let mut x = vec![0.0; matrix.rows()];
//! let status = solver.solve(&b, &mut x, Guess::Zero)?;
//! assert_eq!(status, terrace::Status::Success);
//! # Ok::<(), terrace::Error>(())
//! ```

#![warn(missing_docs)]

// `#[test]` of this crate: the unit tests are compiled with the library, and `tests/unit.rs` runs them.
#[cfg(feature = "unit-tests")]
#[macro_use]
extern crate terrace_unit_test;

pub mod amg;
pub mod backend;
#[doc(hidden)]
pub mod capi;
pub mod comm;
pub mod components;
pub mod config;
pub mod context;
mod device_kind;
pub mod edit_distance;
pub mod error;
pub mod gallery;
pub mod gpu;
mod hash;
pub mod host;
mod huge_pages;
pub mod info;
pub mod io;
pub mod krylov;
pub mod matrix;
mod null_space;
mod operations;
pub mod options;
pub mod par;
mod precision;
pub mod preconditioner;
pub mod presets;
pub mod range;
pub mod report;
pub mod scalar;
#[cfg(feature = "unit-tests")]
#[path = "../tests/common/skip.rs"]
mod skip;
pub mod smooth;
pub mod solver;
pub mod sparse;
mod sync;
mod threads;
#[cfg(feature = "unit-tests")]
#[doc(hidden)]
pub mod unit_tests;

pub use config::Config;
pub use context::Context;
pub use error::{Error, Result, Status};
pub use matrix::Matrix;
pub use operations::ProductMethod;
pub use preconditioner::{Amg, Fsai};
pub use report::Report;
pub use scalar::{Precision, Scalar};
pub use solver::{Guess, Solver};
