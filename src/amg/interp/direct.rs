//! Direct interpolation.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host::direct::interpolate;
use crate::scalar::Scalar;
use std::sync::Arc;

/// The component.
pub struct Direct;

impl<T: Scalar> Interpolation<T> for Direct {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let coarse = input.splitting("direct")?;
        let p = interpolate(&input.a, input.graph, coarse, input.truncation(), input.pattern.map(Arc::as_ref))?;
        Ok(Output::alone(p.into_shared()))
    }
}
