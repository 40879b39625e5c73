//! Extended and extended+i interpolation as products of matrices, on aggressive levels in two stages.

use super::{Input, Interpolation, Output};
use crate::amg::coarsen::Coarse;
use crate::error::Result;
use crate::host::{mm_ext, two_stage};
use crate::scalar::Scalar;
use std::sync::Arc;

/// The component.
pub struct MmExt {
    /// Whether it is the +i variant.
    pub plus_i: bool,
}

impl<T: Scalar> Interpolation<T> for MmExt {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (a, s, truncation, pattern) = (&input.a, input.graph, input.truncation(), input.pattern.map(Arc::as_ref));
        let name = if self.plus_i { "mm_ext_i" } else { "mm_ext" };
        let p = match input.coarse {
            Coarse::TwoPass(first, second) => {
                two_stage::interpolate(first, second, truncation, pattern, None, |coarse, only, _| {
                    mm_ext::interpolate(a, s, coarse, only, self.plus_i, truncation, None)
                })?
                .0
            }
            _ => mm_ext::interpolate(a, s, input.splitting(name)?, None, self.plus_i, truncation, pattern)?,
        };
        Ok(Output::alone(p.into_shared()))
    }
}
