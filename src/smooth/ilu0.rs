//! ILU(0) on structured grids: the sweep of [`super::dilu`] with the factors of the whole stencil in place of the matrix. On stencils whose steps do not
//! add up to other steps of theirs, as those of 5 and 7 points, both are the same.

use super::dilu;
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::ilu0::Ilu0;
use crate::backend::setup::{Rounding, Store, Stored};
use crate::backend::{Backend, Smoother};
use crate::error::Result;
use crate::scalar::{Number, Scalar};

/// The component.
pub struct Ilu0Setup;

impl<S: Store<B> + Ilu0, B: Backend> SmootherSetup<S, B> for Ilu0Setup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, S, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        let setup = input.setup;
        let (factors, inverse) = setup.ilu0(&input.matrix()?)?;
        let which = Stored { what: "smoother's matrix", level: input.level, may_vanish: true };
        let factors = setup.stored::<T, N>(&factors, Rounding::PLAIN, which, input.checks)?;
        let inverse = setup.stored_array::<T, N>(&inverse, 1.0, input.level, input.checks)?;
        let colours = setup.colours(input.to, factors, inverse, None, false)?;
        Ok(dilu::with_factors::<B, N, V>(colours, input.parameters.real("amg.smoother.ilu0.weight")))
    }
}
