//! Estimate of the memory of multigrid on a structured grid: the set-up of a box of cells, extrapolated by their number.

use super::{DEVICE_MARGIN, Held, MARGIN, SMALL, UNCOUNTED, Unlimited, Work};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::gpu;
use crate::matrix::{Matrix, Values};
use crate::scalar::{Precision, Scalar};
use crate::sparse::{Grid, SharedStencil, Stencil};
use std::sync::Arc;

/// Estimated bytes, from a box of at most so many unknowns from the middle of the grid.
pub(super) fn bytes(
    context: &Context,
    matrix: &Matrix,
    config: &Config,
    rows: usize,
    work: &Work<'_>,
) -> Result<usize> {
    let Some(stencil) = matrix.stencil() else { unreachable!("the options were checked for a grid") };
    let dims = box_of(stencil.grid.dims, rows / stencil.block);
    let whole = dims == stencil.grid.dims;
    let sample = match matrix.precision() {
        Precision::F32 => sample::<f32>(matrix, dims)?,
        _ => sample::<f64>(matrix, dims)?,
    };
    // A matrix that is on the device already takes no further memory.
    let there = context.gpu().is_some_and(|gpu| matrix.is_on(gpu));
    let sample = Arc::new(if there { sample.to_device(context)? } else { sample });
    let scale = matrix.rows() as f64 / sample.rows().max(1) as f64;
    if let Some(gpu) = context.gpu().filter(|_| gpu::IS_BUILT) {
        let _unlimited = Unlimited::new(gpu);
        let before = gpu.memory();
        gpu.reset_peak();
        let held = work(context, &sample, config);
        let peak = gpu.memory().peak;
        gpu.restore_peak(before.peak);
        let margin = if whole { 1.0 } else { DEVICE_MARGIN };
        return held.map(|_| ((peak - before.used) as f64 * scale * margin) as usize);
    }
    let Held { report, fixed, .. } = work(context, &sample, config)?;
    let growing = report.bytes.saturating_sub(fixed) as f64 * scale;
    let margin = if whole { UNCOUNTED } else { MARGIN };
    Ok((growing * margin) as usize + fixed + SMALL)
}

/// A box with at most so many cells.
fn box_of(mut dims: [usize; 3], cells: usize) -> [usize; 3] {
    while dims.iter().product::<usize>() > cells.max(1) {
        let longest = (0..3).max_by_key(|axis| dims[*axis]).unwrap_or(0);
        dims[longest] = dims[longest].div_ceil(2);
    }
    dims
}

/// The matrix of a box from the middle of the grid.
fn sample<T: Scalar>(matrix: &Matrix, dims: [usize; 3]) -> Result<Matrix>
where
    Values: From<Vec<T>>,
{
    let Some(a): Option<SharedStencil<T>> = matrix.shared_stencil()? else { unreachable!("it has a grid") };
    let (from, b) = (a.pattern.grid, a.pattern.block);
    let first: [usize; 3] = std::array::from_fn(|axis| (from.dims[axis] - dims[axis]) / 2);
    let grid =
        Grid { dims, periodic: std::array::from_fn(|axis| from.periodic[axis] && dims[axis] == from.dims[axis]) };
    let pattern = Stencil::new(grid, b, &a.pattern.offsets)?;
    let mut values = try_vec(pattern.entries(), T::ZERO)?;
    for cell in 0..grid.cells() {
        let at = grid.point(cell);
        let there = from.cell(std::array::from_fn(|axis| first[axis] + at[axis]));
        for (k, _) in pattern.offsets.iter().enumerate().filter(|(_, offset)| grid.neighbour(at, **offset).is_some()) {
            for e in 0..b * b {
                values[pattern.array(k, e / b, e % b) + cell] = a.array(k, e / b, e % b)[there];
            }
        }
    }
    Matrix::on_grid(Arc::new(pattern), values.into())
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_small_enough_and_not_empty() {
        assert_eq!(box_of([5, 4, 3], 100), [5, 4, 3]);
        let dims = box_of([100, 90, 7], 5000);
        assert!(dims.iter().product::<usize>() <= 5000 && dims.iter().product::<usize>() > 1000, "{dims:?}");
        assert!(box_of([1000, 1, 1], 1)[0] == 1);
    }
}
