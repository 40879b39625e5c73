//! Classical interpolation with the modification for fine unknowns without common coarse neighbours.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host::classical_modified::interpolate;
use crate::scalar::Scalar;
use std::sync::Arc;

/// The component.
pub struct ClassicalModified;

impl<T: Scalar> Interpolation<T> for ClassicalModified {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let coarse = input.splitting("classical_modified")?;
        let p = interpolate(&input.a, input.graph, coarse, input.truncation(), input.pattern.map(Arc::as_ref))?;
        Ok(Output::alone(p.into_shared()))
    }
}
