//! Smoothed aggregation.

use super::{Input, Interpolation, Output};
use crate::error::Result;
use crate::host;
use crate::scalar::Scalar;

/// The component.
pub struct Smoothed;

impl<T: Scalar> Interpolation<T> for Smoothed {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (aggregates, count) = input.aggregates("smoothed")?;
        let (tentative, coarse) = host::tentative::prolongator(aggregates, count, input.near_null_space)?;
        let weight = input.config.real("amg.interpolation.weight");
        let p = host::smoothed::smooth(input.host, &input.a, input.graph, &tentative, weight)?;
        Ok(Output { p, near_null_space: Some(coarse) })
    }

    fn needs_aggregates(&self) -> bool {
        true
    }
}
