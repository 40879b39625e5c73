//! Krylov methods, written once for all backends.

mod bicgstab;
mod cg;
mod fcg;
mod fgmres;
mod gmres;
mod idr;
mod multivector_cg;
mod richardson;
mod run;
#[cfg(feature = "unit-tests")]
mod tests;

use crate::backend::Backend;
use crate::config::Config;
use crate::error::Result;
use crate::scalar::Scalar;

pub use multivector_cg::{LAST_VECTORS, MultivectorCg, MultivectorRun};
pub use run::{BestIterate, Next, Run, project};

/// A method with its workspace.
pub trait Krylov<B: Backend, T: Scalar>: Send {
    /// Iterates on A x = b until the run returns something other than `Continue`, and returns that. With `zero_guess` x
    /// holds zeros. Operator and preconditioner are those of the previous solve, unless [`Krylov::discard_graph`] was
    /// called.
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

/// The norm of the stopping test and of the history, relative to the same norm of the right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// |r|.
    True,
    /// |M r|.
    Preconditioned,
}

/// Lists the methods: name, type, and what its constructor takes beside backend and size. A new method is one line.
macro_rules! methods {
    ($config:ident; $($name:literal: $method:ident::$type:ident $(, $argument:expr)?;)*) => {
        /// Names of the methods, as the options spell them.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The method of this name, with workspace for vectors of `n` elements.
        pub(crate) fn make<B: Backend, T: Scalar>(
            name: &str,
            backend: &B,
            n: usize,
            $config: &Config,
        ) -> Result<Box<dyn Krylov<B, T>>> {
            match name {
                $($name => Ok(Box::new($method::$type::<B, T>::new(backend, n $(, $argument)?)?)),)*
                _ => unreachable!("the options table has no Krylov method {name}"),
            }
        }
    };
}

methods! {
    config;
    "cg": cg::Cg;
    "fcg": fcg::Fcg;
    "gmres": gmres::Gmres, config.int("solver.restart");
    "fgmres": fgmres::Fgmres, config.int("solver.restart");
    "bicgstab": bicgstab::BiCgStab;
    "idr": idr::Idr, config.int("solver.idr.s");
    "richardson": richardson::Richardson;
}
