//! The 7-point Laplacian of a grid of boxes, one for each rank.

use super::partition::bad;
use crate::boundary::{Result, fail};
use crate::division::Division;
use crate::io::System;
use crate::matrix::{Matrix, Rows, set_over_ranks};
use crate::native::zeros;
use crate::ranks::Ranks;
use std::sync::Arc;
use terrace::gallery;

/// The number of ranks must be that of the parts of the grid.
fn check_parts([px, py, pz]: [usize; 3], ranks: usize) -> Result<()> {
    match px.checked_mul(py).and_then(|parts| parts.checked_mul(pz)) {
        Some(parts) if parts == ranks => Ok(()),
        _ => {
            fail!(BadParameters, "px, py, pz are {px}, {py}, {pz}; their product must be the number of ranks, {ranks}")
        }
    }
}

/// Makes the Laplacian, and returns its rows.
pub fn on_one_rank(matrix: &Matrix, [nx, ny, nz, px, py, pz]: [usize; 6]) -> Result<usize> {
    check_parts([px, py, pz], 1)?;
    let a = gallery::poisson7(nx, ny, nz)?;
    let mut offsets = zeros::<i32>(a.offsets.len())?;
    for (to, from) in offsets.iter_mut().zip(&a.offsets) {
        *to = match i32::try_from(*from) {
            Ok(offset) => offset,
            Err(_) => return fail!(BadParameters, "{from} entries are more than 2147483647"),
        };
    }
    let (rows, block, columns, values) = (a.rows, 1, a.columns, a.values);
    let (diagonal, rhs, solution) = (None, None, None);
    System { block, offsets, columns, values, diagonal, rhs, solution }.into_matrix(matrix)?;
    Ok(rows)
}

/// Collective: makes the Laplacian of a grid of as many boxes as there are ranks, each of so many points, which are the
/// rows of a rank, x fastest; boxes are numbered in the same way. Returns the rows of this rank.
pub fn over_ranks(matrix: &Matrix, ranks: &Arc<Ranks>, given: Result<[usize; 6]>) -> Result<usize> {
    let given = given.and_then(|given| {
        let [nx, ny, nz, px, py, pz] = given;
        check_parts([px, py, pz], ranks.size)?;
        let rows = nx.checked_mul(ny).and_then(|rows| rows.checked_mul(nz)).unwrap_or(usize::MAX);
        if i32::try_from(rows.saturating_mul(ranks.size)).is_err() || i32::try_from(rows.saturating_mul(7)).is_err() {
            return fail!(
                BadParameters,
                "{nx} x {ny} x {nz} points on each of {} ranks are more than 2147483647 rows, or entries of a rank",
                ranks.size
            );
        }
        Ok(given)
    });
    let [nx, ny, nz, px, py, pz] = ranks.agree(given)?;
    let (points, boxes, rows) = ([nx, ny, nz], [px, py, pz], nx * ny * nz);
    let division = ranks.agree(bad(Division::by_counts(&vec![rows; ranks.size], None)))?;
    let here = [ranks.rank % px, ranks.rank / px % py, ranks.rank / (px * py)];
    // The number of a point of the whole grid.
    let number = |at: [usize; 3]| {
        let [i, j, k] = [0, 1, 2].map(|axis| at[axis] / points[axis]);
        let [x, y, z] = [0, 1, 2].map(|axis| at[axis] % points[axis]);
        (((k * py + j) * px + i) * rows + (z * ny + y) * nx + x) as i32
    };
    let make = || -> Result<Rows> {
        let (mut offsets, mut columns) = (zeros::<i32>(rows + 1)?, zeros::<i32>(7 * rows)?);
        let (mut values, mut end) = (zeros::<f64>(7 * rows)?, 0);
        for row in 0..rows {
            let at = [row % nx, row / nx % ny, row / (nx * ny)];
            let at = [0, 1, 2].map(|axis| here[axis] * points[axis] + at[axis]);
            let mut add = |at: [usize; 3], value: f64| {
                (columns[end], values[end]) = (number(at), value);
                end += 1;
            };
            for axis in [2, 1, 0] {
                if at[axis] > 0 {
                    add(std::array::from_fn(|i| at[i] - usize::from(i == axis)), -1.0);
                }
            }
            add(at, 6.0);
            for axis in [0, 1, 2] {
                if at[axis] + 1 < boxes[axis] * points[axis] {
                    add(std::array::from_fn(|i| at[i] + usize::from(i == axis)), -1.0);
                }
            }
            offsets[row + 1] = end as i32;
        }
        columns.truncate(end);
        values.truncate(end);
        Ok(Rows { block: 1, offsets, columns, whole: None, values, diagonal: None })
    };
    set_over_ranks(matrix, ranks, division, make())?;
    Ok(rows)
}
