//! Algebraic multigrid.

pub mod coarsen;
pub mod interp;
pub mod null_space;
pub mod strength;

use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, fail};
use crate::matrix::Matrix;
use crate::report::Report;
use crate::scalar::Scalar;
use std::sync::Arc;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg {
    context: Context,
}

impl Amg {
    /// Builds the hierarchy of a square matrix.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        let _ = (matrix, config);
        let _ = Amg { context: context.clone() };
        fail!(Unsupported, "not built yet")
    }

    /// Takes over changed values of the matrix, keeping coarse unknowns and patterns.
    pub fn update(&mut self) -> Result<()> {
        let _ = &self.context;
        Ok(())
    }

    /// x = M b, one cycle. Allocates nothing.
    pub fn apply<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let _ = (b, x);
        Ok(())
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        Report::default()
    }

    /// Bytes that `setup` of this matrix with these options would hold, estimated from its pattern.
    pub fn memory_estimate(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
        let _ = (context, matrix, config);
        Ok(0)
    }
}
