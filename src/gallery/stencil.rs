//! Matrices of stencils on regular grids.

use crate::error::{Result, fail, try_vec};
use crate::par::{self, ROW_GRAIN};
use crate::sparse::{Block, Csr};
use std::ops::Range;

/// A step from a grid point to a neighbour along x, y and z.
pub(super) type Step = [isize; 3];

/// Points of a grid, at most one 32-bit column number for each of its `unknowns` per point.
pub(super) fn points(n: [usize; 3], unknowns: usize) -> Result<usize> {
    let sizes = || n.map(|s| s.to_string()).join(" x ");
    if n.contains(&0) {
        return fail!(InvalidArgument, "the grid is {} points; every size must be at least 1", sizes());
    }
    let rows = n.iter().try_fold(unknowns, |product, &size| product.checked_mul(size));
    match rows.filter(|&rows| rows <= i32::MAX as usize) {
        Some(rows) => Ok(rows / unknowns),
        None => fail!(
            InvalidArgument,
            "the grid is {} points with {unknowns} unknowns each; accepted: at most {} unknowns in all",
            sizes(),
            i32::MAX
        ),
    }
}

/// The point of a row.
pub(super) fn point_of(n: [usize; 3], row: usize) -> [usize; 3] {
    [row % n[0], row / n[0] % n[1], row / (n[0] * n[1])]
}

/// Calls `visit` with the number and the row of every neighbour of a point that lies in the grid. `shifts` are the
/// steps as differences of rows.
#[inline(always)]
fn for_each_neighbour(
    n: [usize; 3],
    row: usize,
    steps: &[Step],
    shifts: &[isize],
    mut visit: impl FnMut(usize, usize),
) {
    let at = point_of(n, row);
    let inside = (0..3).all(|axis| at[axis] > 0 && at[axis] + 1 < n[axis]);
    for (s, (step, &shift)) in steps.iter().zip(shifts).enumerate() {
        if inside || (0..3).all(|axis| at[axis].wrapping_add_signed(step[axis]) < n[axis]) {
            visit(s, row.wrapping_add_signed(shift));
        }
    }
}

fn shifts(n: [usize; 3], steps: &[Step]) -> Vec<isize> {
    let stride = [1, n[0] as isize, (n[0] * n[1]) as isize];
    steps.iter().map(|step| (0..3).map(|axis| stride[axis] * step[axis]).sum()).collect()
}

/// Row offsets and columns of the matrix that couples every point with its neighbours at `steps`, in that order. Steps
/// reach at most one point along each axis.
pub(super) fn pattern(n: [usize; 3], steps: &[Step]) -> Result<(Vec<i64>, Vec<i32>)> {
    let mut counts = try_vec(points(n, 1)?, 0_i64)?;
    let shifts = shifts(n, steps);
    par::for_each_mut(&mut counts, ROW_GRAIN, |start, piece| {
        for (row, count) in (start..).zip(piece) {
            for_each_neighbour(n, row, steps, &shifts, |_, _| *count += 1);
        }
    });
    let offsets = par::offsets_from_counts(counts)?;
    let mut columns = try_vec(offsets[offsets.len() - 1] as usize, 0_i32)?;
    fill(n, steps, &offsets, 1, &mut columns, |_, _, column, slot| slot[0] = column as i32);
    Ok((offsets, columns))
}

/// Calls `write` for every coupling with its row, the number of its step, its column, and the `width` elements of
/// `data` that belong to it.
pub(super) fn fill<T: Send>(
    n: [usize; 3],
    steps: &[Step],
    offsets: &[i64],
    width: usize,
    data: &mut [T],
    write: impl Fn(usize, usize, usize, &mut [T]) + Sync,
) {
    let shifts = shifts(n, steps);
    par::for_each_segment_mut(data, offsets, width, ROW_GRAIN, |rows: Range<usize>, piece| {
        let mut slots = piece.chunks_exact_mut(width);
        for row in rows {
            for_each_neighbour(n, row, steps, &shifts, |s, column| {
                let slot = slots.next().expect("the offsets count the neighbours in the grid");
                write(row, s, column, slot);
            });
        }
    });
}

/// The scalar matrix with the entry `value(point, step)` for each point and each of its neighbours in the grid. The
/// steps are in ascending order of z, then y, then x, which makes the columns ascend.
pub(super) fn matrix(
    n: [usize; 3],
    steps: &[Step],
    value: impl Fn([usize; 3], Step) -> f64 + Sync,
) -> Result<Csr<f64>> {
    let (offsets, columns) = pattern(n, steps)?;
    let rows = offsets.len() - 1;
    let mut out = Csr::with_pattern(rows, rows, Block::SCALAR, offsets, columns)?;
    fill(n, steps, &out.offsets, 1, &mut out.values, |row, s, _, slot| slot[0] = value(point_of(n, row), steps[s]));
    Ok(out)
}

/// The point that a step leads to, if it is in the grid.
pub(super) fn neighbour(n: [usize; 3], at: [usize; 3], step: Step) -> Option<[usize; 3]> {
    let to = std::array::from_fn(|axis| at[axis].wrapping_add_signed(step[axis]));
    (0..3).all(|axis| to[axis] < n[axis]).then_some(to)
}

/// The steps of [`box_steps`] that change at most `most` coordinates.
pub(super) fn steps(axes: usize, most: usize) -> Vec<Step> {
    box_steps(axes).into_iter().filter(|step| step.iter().filter(|&&x| x != 0).count() <= most).collect()
}

/// All steps of a box of neighbours with reach 1 along the given axes, in ascending order of z, then y, then x.
pub(super) fn box_steps(axes: usize) -> Vec<Step> {
    let reach = |axis: usize| if axis < axes { -1..=1 } else { 0..=0 };
    let mut steps = Vec::new();
    for z in reach(2) {
        for y in reach(1) {
            steps.extend(reach(0).map(|x| [x, y, z]));
        }
    }
    steps
}
