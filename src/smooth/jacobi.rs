//! Weighted Jacobi: x += w D^-1 (b - A x), by default with w = 4/(3 λ) for the largest eigenvalue λ of D^-1 A.

use super::width;
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::setup::Store;
use crate::backend::{Backend, Operator, Smoother, Sweep};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// A sweep with a diagonal: also the whole of every other smoother of the form x += D^-1 (b - A x).
pub(super) struct Diagonal<B: Backend, S: Number> {
    /// The inverse of D, which may have blocks, weight included.
    pub inverse: B::Buffer<S>,
    /// Its length.
    pub values: usize,
}

impl<B: Backend, S: Number, V: Number> Smoother<B, V> for Diagonal<B, S> {
    fn sweep(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        x: &mut B::Slice<V>,
        scratch: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        if sweep.zero_guess {
            backend.scale_by(a.vectors(), &self.inverse, b, x);
        } else {
            a.residual(b, x, &mut scratch[0])?;
            backend.add_scaled_by(a.vectors(), &self.inverse, &scratch[0], x);
        }
        Ok(())
    }

    fn prefers_out_of_place(&self, a: &dyn Operator<B, V>) -> bool {
        a.has_epilogue(width(self.values, a))
    }

    fn sweep_to(
        &self,
        backend: &B,
        a: &dyn Operator<B, V>,
        b: &B::Slice<V>,
        (x, y): (&mut B::Slice<V>, &mut B::Slice<V>),
        _: &mut [B::Buffer<V>],
        sweep: Sweep,
    ) -> Result<()> {
        if sweep.zero_guess {
            backend.scale_by(a.vectors(), &self.inverse, b, y);
            return Ok(());
        }
        backend.sweep(a, &self.inverse, b, x, y)
    }

    fn takes_multivectors(&self) -> bool {
        true
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn scratch(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.values * S::PRECISION.bytes()
    }
}

/// The component: the same weight for every row.
pub struct Jacobi;

impl<S: Store<B>, B: Backend> SmootherSetup<S, B> for Jacobi {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        Ok(Box::new(weighted::<S, B, T, N>(input)?))
    }
}

fn weighted<S: Store<B>, B: Backend, T: Scalar, N: Number>(
    input: &SmootherInput<'_, S, B, T>,
) -> Result<Diagonal<B, N>> {
    let unweighted = input.inverse()?;
    let weight = match input.parameters.real_or_auto("amg.smoother.jacobi.weight") {
        Some(weight) => weight,
        None => 4.0 / (3.0 * input.largest_eigenvalue(&unweighted)?),
    };
    let (inverse, values) = input.stored(&unweighted, weight)?;
    Ok(Diagonal { inverse, values })
}
