//! Krylov methods, written once for all backends.

mod bicgstab;
mod cg;
mod fcg;
mod fgmres;
mod gmres;
mod richardson;
mod run;
#[cfg(test)]
mod tests;

use crate::backend::Backend;
use crate::config::Config;
use crate::error::Result;
use crate::registry::registry;
use crate::scalar::Scalar;

pub use run::{Next, Run, project};

/// A method with its workspace.
pub trait Krylov<B: Backend, T: Scalar>: Send {
    /// Iterates on A x = b until the run returns something other than `Continue`, and returns that. With `zero_guess` x holds zeros. Operator and
    /// preconditioner are those of the previous solve, unless [`Krylov::discard_graph`] was called.
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next>;
    /// Discards the captured graph. To be called before operator or preconditioner change.
    fn discard_graph(&mut self) {}
    /// Bytes of the workspace.
    fn bytes(&self) -> usize;
    /// Whether the method computes M r in every iteration, so that it can stop on |M r|.
    fn has_preconditioned_residual(&self) -> bool {
        false
    }
}

/// Which norm is compared with the tolerance and written down, in relation to the same norm of the right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// |r|.
    True,
    /// |M r|.
    Preconditioned,
}

registry! {
    /// The method of this name, with workspace for vectors of `n` elements.
    fn make<B: Backend, T: Scalar>(backend: &B, n: usize, config: &Config) -> Result<Box<dyn Krylov<B, T>>>;
    "cg" => Ok(Box::new(cg::Cg::<B, T>::new(backend, n)?));
    "fcg" => Ok(Box::new(fcg::Fcg::<B, T>::new(backend, n)?));
    "gmres" => Ok(Box::new(gmres::Gmres::<B, T>::new(backend, n, config.int("solver.restart"))?));
    "fgmres" => Ok(Box::new(fgmres::Fgmres::<B, T>::new(backend, n, config.int("solver.restart"))?));
    "bicgstab" => Ok(Box::new(bicgstab::BiCgStab::<B, T>::new(backend, n)?));
    "richardson" => Ok(Box::new(richardson::Richardson::<B, T>::new(backend, n)?));
}
