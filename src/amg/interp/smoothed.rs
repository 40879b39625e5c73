//! Smoothed aggregation.

use super::{Input, Interpolation, Memory, Output};
use crate::error::Result;
use crate::host::eigenvalue::{Estimate, Known, Largest};
use crate::host::{smoothed, tentative};
use crate::scalar::Scalar;
use crate::sparse::NearNullSpace;
use std::any::Any;
use std::sync::Arc;

/// The component.
pub struct Smoothed;

/// What it remembers.
struct Remembered<T> {
    largest: Largest,
    /// Whether that is of A, which it is where no coupling is weak.
    of_a: bool,
    /// Made in the first renewal, because most hierarchies are never renewed.
    recipe: Option<Arc<Recipe<T>>>,
}

struct Recipe<T> {
    smoothed: smoothed::Recipe<T>,
    /// That of the coarse level, which follows from aggregates alone.
    near_null_space: NearNullSpace,
}

impl<T: Scalar> Memory for Remembered<T> {
    fn bytes(&self) -> usize {
        let recipe = |r: &Arc<Recipe<T>>| r.smoothed.bytes() + size_of_val(r.near_null_space.vectors.as_slice());
        self.recipe.as_ref().map_or(0, recipe)
    }

    fn largest_eigenvalue(&self) -> Option<&Largest> {
        self.of_a.then_some(&self.largest)
    }
}

impl<T: Scalar> Interpolation<T> for Smoothed {
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>> {
        let (aggregates, count) = input.aggregates("smoothed")?;
        let earlier = input.memory.and_then(|memory| <dyn Any>::downcast_ref::<Remembered<T>>(memory));
        let how = (input.config.real("amg.interpolation.weight"), Estimate::from_config(input.config));
        let largest = earlier.map(|earlier| &earlier.largest);
        let step = smoothed::Step::new(input.host, &input.a, input.graph, how, largest)?;
        let prolongator = || tentative::prolongator(aggregates, count, input.near_null_space);
        let (p, near_null_space, recipe) = match input.pattern {
            None => {
                let (p0, space) = prolongator()?;
                (step.smooth(&p0)?.into_shared(), space, None)
            }
            Some(pattern) => {
                let recipe = match earlier.and_then(|earlier| earlier.recipe.clone()) {
                    Some(recipe) => recipe,
                    None => {
                        let (p0, near_null_space) = prolongator()?;
                        Arc::new(Recipe { smoothed: step.recipe(p0, pattern)?, near_null_space })
                    }
                };
                (step.renew(&recipe.smoothed, pattern)?, recipe.near_null_space.clone(), Some(recipe))
            }
        };
        let (largest, known) = (step.largest().clone(), step.into_known());
        let of_a = matches!(known, Known::Now { .. });
        let memory = Some(Arc::new(Remembered { largest, of_a, recipe }) as Arc<dyn Memory>);
        Ok(Output { p, near_null_space: Some(near_null_space), known, memory })
    }

    fn needs_aggregates(&self) -> bool {
        true
    }
}
