//! What a cycle asks of a smoother.

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
    /// Whether a sweep with this matrix has fewer passes over memory when its result is another vector: [`Smoother::sweep_to`].
    fn moves(&self, _a: &dyn Operator<B, V>) -> bool {
        false
    }
    /// One sweep from x, whose result is y; x may be overwritten. `scratch` holds what [`Smoother::sweep`] has without the first.
    fn sweep_to(
        &self,
        _backend: &B,
        _a: &dyn Operator<B, V>,
        _b: &B::Slice<V>,
        (_x, _y): (&mut B::Slice<V>, &mut B::Slice<V>),
        _scratch: &mut [B::Buffer<V>],
        _sweep: Sweep,
    ) -> Result<()> {
        unreachable!("asked for only where the smoother moves")
    }
    /// Whether a sweep is its own adjoint when the matrix is symmetric.
    fn is_symmetric(&self) -> bool;
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

/// A matrix by colours, where its vectors are.
pub trait Colours<B: Backend, V: Number>: Send + Sync {
    /// Number of colours.
    fn count(&self) -> usize;
    /// Whether the rows of a colour, solved for their own unknowns, have no residual then.
    fn solves_exactly(&self) -> bool;
    /// Solves the rows of the first `count` colours for their own unknowns, colour after colour, the last one first if `backward`.
    fn pass(
        &self,
        backend: &B,
        count: usize,
        backward: bool,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut B::Buffer<V>,
    ) -> Result<()>;
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
}
