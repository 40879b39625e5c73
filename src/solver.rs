//! A Krylov method with its preconditioner: what a simulator calls in every step.

use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, Status, fail};
use crate::matrix::Matrix;
use crate::report::Report;
use crate::scalar::Scalar;
use std::sync::Arc;

/// Where a solve starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// From zero; the content of x is not read.
    Zero,
    /// From the content of x.
    Given,
}

/// A vector handed to a callback.
pub enum SliceRef<'a> {
    /// f64.
    F64(&'a [f64]),
    /// f32.
    F32(&'a [f32]),
}

/// A vector that a callback fills.
pub enum SliceMut<'a> {
    /// f64.
    F64(&'a mut [f64]),
    /// f32.
    F32(&'a mut [f32]),
}

/// y = A x or z = M r of the caller; a result other than 0 ends the solve with `Status::Callback`. Called on the thread that called
/// `solve`.
pub type UserApply = Box<dyn Fn(SliceRef<'_>, SliceMut<'_>) -> i32 + Send + Sync>;

/// A Krylov method with its preconditioner.
pub struct Solver {
    context: Context,
    config: Config,
}

impl Solver {
    /// A solver with these options; nothing is computed yet.
    pub fn new(context: &Context, config: &Config) -> Solver {
        Solver { context: context.clone(), config: config.clone() }
    }

    /// Replaces the matrix in the Krylov method by y = A x of the caller, for vectors of `rows` elements. The matrix given to
    /// `setup` then only builds the preconditioner.
    pub fn set_operator(&mut self, rows: usize, apply: UserApply) {
        let _ = (rows, apply);
    }

    /// Replaces the preconditioner by z = M r of the caller.
    pub fn set_preconditioner(&mut self, apply: UserApply) {
        let _ = apply;
    }

    /// Builds the preconditioner and the workspace. The matrix may be absent when an operator was given.
    pub fn setup(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        let _ = matrix;
        fail!(Unsupported, "not built yet")
    }

    /// Takes over changed values of the matrix: numeric work only.
    pub fn update(&mut self) -> Result<()> {
        fail!(Unsupported, "not built yet")
    }

    /// Solves for one or several right-hand sides, one after the other in `b` and `x`: their number follows from the length.
    /// `Ok` is `Success`, or `NotConverged` when at least one of them was not solved to the tolerance.
    pub fn solve<T: Scalar>(&mut self, b: &[T], x: &mut [T], guess: Guess) -> Result<Status> {
        let _ = (b, x, guess);
        fail!(Unsupported, "not built yet")
    }

    /// What set-up and the last solve did.
    pub fn report(&self) -> Report {
        let _ = (&self.context, &self.config);
        Report::default()
    }
}
