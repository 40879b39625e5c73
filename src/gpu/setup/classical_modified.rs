//! Classical interpolation with its modification on a GPU: rows are computed as those of extended+i interpolation.

use super::coarse_numbering::Splitting;
use super::extended_i::{by_formula, numeric_by_formula};
use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::backend::common::Formula;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::parameters::Truncation;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::scalar::Scalar;

/// As [`crate::host::classical_modified::interpolate`].
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    truncation: Truncation,
) -> Result<DeviceCsr<T>> {
    by_formula(Formula::ClassicalModified, gpu, a, s, coarse, None, truncation)
}

/// The interpolation with the pattern of an earlier one, `p`, for the same graph and splitting.
pub(crate) fn numeric<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    p: &DevicePattern,
) -> Result<DeviceCsr<T>> {
    numeric_by_formula(Formula::ClassicalModified, gpu, a, s, coarse, None, p)
}

/// The component.
pub(crate) struct ClassicalModified;

impl<T: Scalar> Interpolation<Gpu, T> for ClassicalModified {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let coarse = input.splitting("classical_modified")?;
        let p = match input.pattern() {
            None => interpolate(input.setup, input.a, input.graph, coarse, input.truncation)?,
            Some(pattern) => numeric(input.setup, input.a, input.graph, coarse, pattern)?,
        };
        Ok(Interpolated::alone(p.into()))
    }
}
