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
        let estimate = host::eigenvalue::Estimate::from_config(input.config);
        let (p, largest_eigenvalue) =
            host::smoothed::smooth(input.host, &input.a, input.graph, &tentative, (weight, estimate), input.pattern)?;
        Ok(Output { p, near_null_space: Some(coarse), largest_eigenvalue })
    }

    fn needs_aggregates(&self) -> bool {
        true
    }
}
