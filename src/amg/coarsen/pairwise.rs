//! Aggregation by repeated pairwise matching.

use super::{Coarse, Coarsening, Input};
use crate::error::Result;
use crate::host;
use crate::scalar::Scalar;

/// The component.
pub struct Pairwise;

impl<T: Scalar> Coarsening<T> for Pairwise {
    fn strength(&self) -> &'static str {
        "symmetric"
    }

    fn interpolation(&self) -> &'static str {
        "smoothed"
    }

    fn keeps_blocks(&self) -> bool {
        true
    }

    fn goes_by_values(&self) -> bool {
        true
    }

    fn coarsen(&self, input: &Input<'_, T>) -> Result<Coarse> {
        let size = input.config.int("amg.coarsening.pairwise.size");
        let (of, count) = host::pairwise::aggregate(&input.a, input.graph, size, input.level as u64)?;
        Ok(Coarse::Aggregates(of, count))
    }
}
