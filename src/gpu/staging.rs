//! Device copies of right-hand side and solution for callers whose vectors are on the host.

use super::{Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::Scalar;
use std::any::Any;

/// Right-hand side and solution, in the precision of the last use.
#[derive(Default)]
pub(crate) struct Staging {
    vectors: Option<Box<dyn Any + Send + Sync>>,
}

impl Staging {
    /// Two vectors of `n` elements, allocated at first use or when length or precision change.
    pub fn vectors<T: Scalar>(&mut self, gpu: &Gpu, n: usize) -> Result<(&mut Slice<T>, &mut Slice<T>)> {
        let fits = |v: &Box<dyn Any + Send + Sync>| {
            v.downcast_ref::<(Buffer<T>, Buffer<T>)>().is_some_and(|(b, _)| b.len() == n)
        };
        if !self.vectors.as_ref().is_some_and(fits) {
            self.vectors = Some(Box::new((gpu.zeroed::<T>(n)?, gpu.zeroed::<T>(n)?)));
        }
        match self.vectors.as_mut().and_then(|v| v.downcast_mut::<(Buffer<T>, Buffer<T>)>()) {
            Some((b, x)) => Ok((b, x)),
            None => unreachable!("allocated above"),
        }
    }
}
