//! Extended+i interpolation, on aggressive levels in two stages.

use super::{Input, Interpolation, Output};
use crate::amg::coarsen::Coarse;
use crate::error::Result;
use crate::host::{extended_i, two_stage};
use crate::scalar::Scalar;
use std::sync::Arc;

/// The component.
pub struct ExtendedI;

impl<T: Scalar> Interpolation<T> for ExtendedI {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (a, s, truncation, pattern) = (&input.a, input.graph, input.truncation(), input.pattern.map(Arc::as_ref));
        let p = match input.coarse {
            Coarse::TwoPass(first, second) => {
                two_stage::interpolate(first, second, truncation, pattern, |coarse, only| {
                    extended_i::interpolate(a, s, coarse, only, truncation, None)
                })?
            }
            _ => extended_i::interpolate(a, s, input.splitting("extended_i")?, None, truncation, pattern)?,
        };
        Ok(Output::alone(p.into_shared()))
    }
}
