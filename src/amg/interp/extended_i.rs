//! Extended+i interpolation.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host::extended_i::interpolate;
use crate::scalar::Scalar;

/// The component.
pub struct ExtendedI;

impl<T: Scalar> Interpolation<T> for ExtendedI {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let coarse = input.splitting("extended_i")?;
        let p = interpolate(&input.a, input.graph, coarse, input.truncation(), input.pattern)?;
        Ok(Output { p, near_null_space: None })
    }
}
