//! Direct interpolation.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host::direct::interpolate;
use crate::scalar::Scalar;

/// The component.
pub struct Direct;

impl<T: Scalar> Interpolation<T> for Direct {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let coarse = input.splitting("direct")?;
        let p = interpolate(&input.a, input.graph, coarse, input.truncation(), input.pattern)?;
        Ok(Output { p, near_null_space: None, largest_eigenvalue: None })
    }
}
