//! Aggregation from a distance-2 maximal independent set.

use super::{Coarse, Coarsening, Input};
use crate::error::Result;
use crate::host;
use crate::scalar::Scalar;

/// The component.
pub struct Mis2;

impl<T: Scalar> Coarsening<T> for Mis2 {
    fn strength(&self) -> &'static str {
        "symmetric"
    }

    fn interpolation(&self) -> &'static str {
        "smoothed"
    }

    fn keeps_blocks(&self) -> bool {
        true
    }

    fn coarsen(&self, input: &Input<'_, T>) -> Result<Coarse> {
        let (of, count) = host::mis2::aggregate(input.graph, input.level as u64)?;
        Ok(Coarse::Aggregates(of, count))
    }
}
