//! The tentative prolongator alone: plain aggregation.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host;
use crate::scalar::Scalar;

/// The component.
pub struct Tentative;

impl<T: Scalar> Interpolation<T> for Tentative {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (aggregates, count) = input.aggregates("tentative")?;
        let (p, coarse) = host::tentative::prolongator(aggregates, count, input.near_null_space)?;
        Ok(Output { near_null_space: Some(coarse), ..Output::alone(p.into_shared()) })
    }

    fn needs_aggregates(&self) -> bool {
        true
    }
}
