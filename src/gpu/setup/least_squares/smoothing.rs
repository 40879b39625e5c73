//! What smooths a least-squares interpolation: [`crate::host::least_squares`] on the device.

use crate::backend::components::InterpolationInput;
use crate::backend::least_squares::Smoothing;
use crate::backend::parameters::{Estimate, energy_weights};
use crate::backend::spectrum::Largest;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::setup::coarse_numbering::Splitting;
use crate::gpu::setup::energy::minimise;
use crate::gpu::setup::two_pass::count_and_write;
use crate::gpu::setup::{DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern, diagonal, eigenvalue, spgemm};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;

/// An interpolation that was smoothed.
pub(super) struct Smoothed<T> {
    /// P.
    pub p: DeviceCsr<T>,
    /// The largest eigenvalue of D^-1 A.
    pub largest: Largest,
    /// D^-1.
    pub inverse: Buffer<T>,
}

/// Smooths the interpolation from the coarse unknowns that have this near-null space.
pub(super) fn smooth<T: Scalar>(
    smoothing: Smoothing,
    input: &InterpolationInput<'_, Gpu, T>,
    (coarse, space): (&Splitting, &DeviceNearNullSpace),
    fitted: &DeviceCsr<T>,
    earlier: Option<&Largest>,
) -> Result<Smoothed<T>> {
    let gpu = input.setup;
    let (a, estimate): (&DeviceCsr<T>, Estimate) = (input.whole, Estimate::new(input.parameters));
    let inverse = diagonal::inverse(gpu, a, 1, false, None)?;
    let largest = eigenvalue::largest(gpu, &estimate, a, &inverse, earlier)?;
    if smoothing == Smoothing::Jacobi {
        let weight = input.parameters.real("amg.interpolation.weight");
        let factor = if largest.value > 0.0 { -weight / largest.value } else { 0.0 };
        return Ok(Smoothed { p: jacobi(gpu, a, fitted, &inverse, factor)?, largest, inverse });
    }
    let pattern = match input.pattern() {
        Some(pattern) => DevicePattern::clone(pattern),
        None => wider(gpu, fitted, input.graph, coarse)?,
    };
    let weights = energy_weights(input.parameters.int("amg.interpolation.energy.steps"), largest.value)?;
    let start = embedded(gpu, fitted, &pattern)?;
    let values = minimise(gpu, (a, &inverse), start, &pattern, space, &weights)?;
    Ok(Smoothed { p: pattern.with(values), largest, inverse })
}

/// P plus a factor times D⁻¹ A P. Waits for the device.
fn jacobi<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
    inverse: &Slice<T>,
    factor: f64,
) -> Result<DeviceCsr<T>> {
    let smoothed = spgemm::multiply(gpu, a, p)?;
    let [to, from] = [&smoothed, p].map(|m| [m.offsets.view(), m.columns.view(), m.values.view()]);
    let (rows, inverse) = (a.rows as i64, inverse.view());
    let arguments: [&dyn Argument; 9] =
        [&rows, &factor, &inverse, &from[0], &from[1], &from[2], &to[0], &to[1], &to[2]];
    gpu.launch(gpu.kernel(&format!("least_squares_jacobi_{}", T::PRECISION.name()))?, a.rows, &arguments)?;
    Ok(smoothed)
}

/// The columns of each fine row and of its strong neighbours. Waits for the device.
fn wider<T: Scalar>(gpu: &Gpu, p: &DeviceCsr<T>, s: &DeviceGraph, coarse: &Splitting) -> Result<DevicePattern> {
    let (number, strong) = (coarse.number.view(), [s.offsets.view(), s.columns.view()]);
    let near = |to: [View; 4]| {
        let rows = p.rows as i64;
        let mut arguments: Vec<&dyn Argument> = vec![&rows, &number, &strong[0], &strong[1]];
        arguments.extend(to.iter().map(|view| view as &dyn Argument));
        gpu.launch(gpu.kernel(&format!("least_squares_near_{}", T::PRECISION.name()))?, p.rows, &arguments)
    };
    let [near] = count_and_write::<T, 1>(gpu, [((p.rows, p.rows), &near)])?;
    Ok(spgemm::multiply(gpu, &near, p)?.pattern())
}

/// The values of P in a pattern that has its own.
fn embedded<T: Scalar>(gpu: &Gpu, p: &DeviceCsr<T>, pattern: &DevicePattern) -> Result<Buffer<T>> {
    let values = gpu.zeroed::<T>(pattern.nnz())?;
    let from = [p.offsets.view(), p.columns.view(), p.values.view()];
    let to = [pattern.offsets.view(), pattern.columns.view(), values.view()];
    let arguments: [&dyn Argument; 7] = [&(p.rows as i64), &from[0], &from[1], &from[2], &to[0], &to[1], &to[2]];
    gpu.launch(gpu.kernel(&format!("least_squares_embed_{}", T::PRECISION.name()))?, p.rows, &arguments)?;
    Ok(values)
}
