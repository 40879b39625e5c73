//! The C ABI: one file for each C type, and one for what a context does on a GPU. A function checks its arguments, converts them, calls the library and turns the result into
//! a status; there is no mathematics here. The doc comments of these files are the documentation in `include/terrace.h`, which a
//! test generates from them.
//!
//! `boundary` is the one way in: it catches panics and stores the sentence of a failure. `borrow` is the one place that reads a
//! caller's arrays.

// The names are those of C; what a caller must guarantee is said for C, once, at the top of the header.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod amg;
mod arrays;
mod borrow;
mod boundary;
#[cfg(feature = "unit-tests")]
mod caller_stream_tests;
mod communicator;
mod config;
mod context;
mod device;
mod device_arrays;
#[cfg(feature = "unit-tests")]
mod device_matrix_tests;
mod distributed;
mod fsai;
#[cfg(feature = "unit-tests")]
mod lagged_tests;
mod library;
mod matrix;
mod operations;
mod report;
mod solver;
mod stencil;
#[cfg(feature = "unit-tests")]
mod testing;
mod types;
mod vector;

pub use amg::*;
pub use communicator::*;
pub use config::*;
pub use context::*;
pub use device::*;
pub use distributed::*;
pub use fsai::*;
pub use library::*;
pub use matrix::*;
pub use operations::*;
pub use report::*;
pub use solver::*;
pub use stencil::*;
pub use types::*;
pub use vector::{ContextVector, fetch, store};
