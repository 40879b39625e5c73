//! Extended+i interpolation, on aggressive levels in two stages.

use super::{Input, Interpolation, Memory, Output};
use crate::amg::coarsen::Coarse;
use crate::error::Result;
use crate::host::eigenvalue::Largest;
use crate::host::two_stage::Stages;
use crate::host::{extended_i, two_stage};
use crate::scalar::Scalar;
use std::any::Any;
use std::sync::Arc;

/// The component.
pub struct ExtendedI;

/// The patterns of the stages of an aggressive level, as the first renewal found them: most hierarchies are never renewed.
struct Remembered(Stages);

impl Memory for Remembered {
    fn bytes(&self) -> usize {
        [&self.0.to_first, &self.0.to_all].map(|structure| structure.owned_bytes()).iter().sum()
    }

    fn largest_eigenvalue(&self) -> Option<&Largest> {
        None
    }
}

impl<T: Scalar> Interpolation<T> for ExtendedI {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (a, s, truncation, pattern) = (&input.a, input.graph, input.truncation(), input.pattern.map(Arc::as_ref));
        let Coarse::TwoPass(first, second) = input.coarse else {
            let p = extended_i::interpolate(a, s, input.splitting("extended_i")?, None, truncation, pattern)?;
            return Ok(Output::alone(p.into_shared()));
        };
        let earlier = input.memory.and_then(|memory| <dyn Any>::downcast_ref::<Remembered>(memory));
        let stages = earlier.map(|Remembered(stages)| stages);
        let (p, stages) =
            two_stage::interpolate(first, second, truncation, pattern, stages, |coarse, only, pattern| {
                extended_i::interpolate(a, s, coarse, only, truncation, pattern)
            })?;
        let memory: Option<Arc<dyn Memory>> = match pattern {
            None => None,
            Some(_) => Some(Arc::new(Remembered(stages))),
        };
        Ok(Output { memory, ..Output::alone(p.into_shared()) })
    }
}
