//! The contract of smoothers.

use super::{Backend, Operator};
use crate::error::Result;
use crate::scalar::Number;

/// A smoother of one level, for vectors of precision `V`.
pub trait Smoother<B: Backend, V: Number>: Send + Sync {
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
    /// Whether a sweep with this matrix takes fewer passes over memory out of place, by [`Smoother::sweep_to`].
    fn prefers_out_of_place(&self, _a: &dyn Operator<B, V>) -> bool {
        false
    }
    /// One sweep from x to y; x may be overwritten. `scratch` is that of [`Smoother::sweep`] without the first vector.
    fn sweep_to(
        &self,
        _backend: &B,
        _a: &dyn Operator<B, V>,
        _b: &B::Slice<V>,
        (_x, _y): (&mut B::Slice<V>, &mut B::Slice<V>),
        _scratch: &mut [B::Buffer<V>],
        _sweep: Sweep,
    ) -> Result<()> {
        unreachable!("the smoother works in place")
    }
    /// r = b - A x, where x is what a sweep from zero before the coarse correction has left. Returns whether the smoother reads less of the matrix for it
    /// than a product does; otherwise r is not written.
    fn residual_from_zero(&self, _backend: &B, _x: &B::Slice<V>, _r: &mut B::Slice<V>) -> Result<bool> {
        Ok(false)
    }
    /// Whether it smooths multivectors, with an operator [for them](Operator::for_multivectors).
    fn takes_multivectors(&self) -> bool {
        false
    }
    /// Whether a sweep is its own adjoint when the matrix is symmetric.
    fn is_symmetric(&self) -> bool;
    /// Vectors of scratch space that a sweep needs.
    fn scratch(&self) -> usize;
    /// Rows of a factor on whose pattern the matrix is not positive definite.
    fn breakdowns(&self) -> usize {
        0
    }
    /// Bytes that the library holds for its data.
    fn bytes(&self) -> usize;
}

/// Which sweep of a cycle it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// x is zero, and its content is not read.
    pub zero_guess: bool,
    /// After the coarse correction: a smoother that is not symmetric runs backward, so that the cycle is symmetric.
    pub adjoint: bool,
}

/// A matrix in the order of its colours, for multicolour Gauss-Seidel. Vectors that are k times as long as the matrix has rows are multivectors.
pub trait Colours<B: Backend, V: Number>: Send + Sync {
    /// Number of colours.
    fn count(&self) -> usize;
    /// Whether the rows of a colour have no residual after they are solved for their own unknowns.
    fn solves_exactly(&self) -> bool;
    /// Whether passes over multivectors have a form.
    fn takes_multivectors(&self) -> bool {
        false
    }
    /// Solves the rows of the first `count` colours for their own unknowns, colour after colour, the last one first if
    /// `backward`.
    fn pass(
        &self,
        backend: &B,
        count: usize,
        backward: bool,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut B::Buffer<V>,
    ) -> Result<()>;
    /// The same for all colours from x = 0, which is not read: nor need be what couples with rows that are solved later.
    fn pass_from_zero(
        &self,
        backend: &B,
        count: usize,
        backward: bool,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut B::Buffer<V>,
    ) -> Result<()> {
        backend.fill(V::ZERO, x);
        self.pass(backend, count, backward, b, x, scratch)
    }
    /// r = b - A x, where x is what a pass from zero over all colours has left: rows were solved for without what couples with rows that came later, so
    /// that these products are their residuals. Returns false, and leaves r as it is, where there is no form that reads these entries alone.
    fn residual_from_zero(
        &self,
        _backend: &B,
        _backward: bool,
        _x: &B::Slice<V>,
        _r: &mut B::Slice<V>,
    ) -> Result<bool> {
        Ok(false)
    }
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
}
