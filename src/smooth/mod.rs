//! Smoothers: cheap iterations that remove the part of an error which coarse levels cannot see.

mod chebyshev;
mod jacobi;
mod l1_gauss_seidel;
mod l1_jacobi;

use crate::backend::{Backend, Operator};
use crate::config::Config;
use crate::error::Result;
use crate::host::Host;
use crate::registry::registry;
use crate::scalar::{Precision, Scalar, with_precision};
use crate::sparse::{CsrView, SharedCsr};

/// A smoother of one level, for vectors of precision `V`.
pub trait Smoother<B: Backend, V: Scalar>: Send + Sync {
    /// One sweep on A x = b. `scratch` holds [`Smoother::scratch`] vectors.
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()>;
    /// Vectors of scratch space that a sweep needs.
    fn scratch(&self) -> usize;
    /// Bytes that the library holds for its data.
    fn bytes(&self) -> usize;
}

/// Which sweep of a cycle it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// x counts as zero, and its content is not read.
    pub zero_guess: bool,
    /// After the coarse correction: smoothers that are not symmetric run the other way, so that the cycle is.
    pub adjoint: bool,
}

/// What a smoother is made from.
pub struct Setup<'a, T> {
    /// Where the work runs.
    pub host: &'a Host,
    /// Options.
    pub config: &'a Config,
    /// The matrix of the level.
    pub a: CsrView<'a, T>,
    /// The same, for smoothers that keep it.
    pub matrix: &'a SharedCsr<T>,
}

registry! {
    /// The smoother of this name, its data stored as `S`.
    fn make<T: Scalar, S: Scalar, V: Scalar>(setup: &Setup<'_, T>) -> Result<Box<dyn Smoother<Host, V>>>;
    "chebyshev" => chebyshev::build::<T, S, V>(setup);
    "jacobi" => jacobi::build::<T, S, V>(setup);
    "l1_gauss_seidel" => l1_gauss_seidel::build::<T, S, V>(setup);
    "l1_jacobi" => l1_jacobi::build::<T, S, V>(setup);
}

/// The smoother that the options name, its data stored in `storage`.
pub(crate) fn build<T: Scalar, V: Scalar>(
    setup: &Setup<'_, T>,
    storage: Precision,
) -> Result<Box<dyn Smoother<Host, V>>> {
    let name = setup.config.text("amg.smoother.type");
    with_precision!(storage, S => make::<T, S, V>(&name, setup))
}
