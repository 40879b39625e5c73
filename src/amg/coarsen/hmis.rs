//! HMIS: a first pass of Ruge and Stüben, completed by PMIS.

use super::{Coarse, Coarsening, Input};
use crate::error::Result;
use crate::host;
use crate::scalar::Scalar;

/// The component.
pub struct Hmis;

impl<T: Scalar> Coarsening<T> for Hmis {
    fn strength(&self) -> &'static str {
        "classical"
    }

    fn interpolation(&self) -> &'static str {
        "extended_i"
    }

    fn keeps_blocks(&self) -> bool {
        false
    }

    fn coarsen(&self, input: &Input<'_, T>) -> Result<Coarse> {
        let coarse = host::hmis::split(input.graph, &input.graph.transpose()?, input.level as u64)?;
        input.split(coarse)
    }
}
