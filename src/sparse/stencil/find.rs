//! Grids that the rows of a matrix show: which of them a row may be a cell of.

use super::{Grid, Offset, Stencil};

/// Cells along x and y below which steps to neighbours are not told apart.
const FEWEST: usize = 3;

/// The stencils of which a row may be that of an inner cell, with its columns, ascending: its couplings lead to neighbours on both sides, in two or
/// three dimensions. Cells are numbered with x fastest.
pub fn stencils_of_row(rows: usize, block: usize, row: usize, columns: &[i32]) -> Vec<Stencil> {
    let steps: Vec<i64> = columns.iter().map(|column| i64::from(*column) - row as i64).collect();
    let is_mirrored = steps.iter().zip(steps.iter().rev()).all(|(a, b)| *a == -b);
    let ahead: Vec<usize> =
        steps.iter().filter_map(|step| usize::try_from(*step).ok()).filter(|step| *step > 0).collect();
    let (Some(1), Some(second), Some(farthest)) = (ahead.first(), ahead.get(1), ahead.last()) else {
        return Vec::new();
    };
    if !is_mirrored || !steps.contains(&0) {
        return Vec::new();
    }
    let mut found: Vec<Stencil> = Vec::new();
    // The nearest coupling beyond x leads to (0, 1, 0) or to (-1, 1, 0), the farthest to a neighbour in the next line or plane.
    for nx in [*second, second + 1].into_iter().filter(|nx| *nx >= FEWEST && rows.is_multiple_of(*nx)) {
        let planes = (-1..=1_i64).flat_map(|y| (-1..=1_i64).map(move |x| (y, x)));
        let planes = planes.filter_map(|(y, x)| usize::try_from(*farthest as i64 - y * nx as i64 - x).ok());
        let of_planes =
            planes.filter(|plane| plane.is_multiple_of(nx) && plane / nx >= FEWEST && rows.is_multiple_of(*plane));
        let flat = [rows].into_iter();
        for plane in of_planes.chain(flat) {
            let grid = Grid::new([nx, plane / nx, rows / plane]);
            let Some(offsets) = offsets_on(&grid, row, columns) else { continue };
            if !found.iter().any(|other| other.grid == grid) {
                found.extend(Stencil::new(grid, block, &offsets));
            }
        }
    }
    found
}

/// The steps to the columns of a row on a grid, or none where one of them is not a neighbour.
fn offsets_on(grid: &Grid, row: usize, columns: &[i32]) -> Option<Vec<Offset>> {
    let from = grid.point(row);
    let step = |column: &i32| {
        let to = grid.point(*column as usize);
        let mut offset = [0_i8; 3];
        for axis in 0..3 {
            offset[axis] = i8::try_from(to[axis] as i64 - from[axis] as i64).ok().filter(|step| step.abs() <= 1)?;
        }
        Some(offset)
    };
    columns.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    fn of_row(a: &Csr<f64>, row: usize) -> Vec<Stencil> {
        let view = a.view();
        let columns: Vec<i32> = view.row_range(row).map(|p| view.col(p) as i32).collect();
        stencils_of_row(a.rows, 1, row, &columns)
    }

    #[test]
    fn inner_rows_show_their_grid_and_outer_ones_none() {
        for (name, dims, count) in [
            ("poisson5:7x6", [7, 6, 1], 5),
            ("poisson9:5x8", [5, 8, 1], 9),
            ("poisson7:6x5x4", [6, 5, 4], 7),
            ("poisson27:4x5x6", [4, 5, 6], 27),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            let grid = Grid::new(dims);
            let inner = grid.cell(dims.map(|n| n / 2));
            let found = of_row(&a, inner);
            assert_eq!(found.iter().map(|stencil| stencil.grid).collect::<Vec<_>>(), [grid], "{name}");
            assert_eq!(found[0].offsets.len(), count, "{name}");
            assert!(of_row(&a, 0).is_empty(), "{name}");
        }
    }

    #[test]
    fn rows_of_other_matrices_show_none() {
        assert!(stencils_of_row(100, 1, 50, &[49, 50, 51]).is_empty(), "one dimension");
        assert!(stencils_of_row(100, 1, 50, &[40, 49, 50, 51, 61]).is_empty(), "not mirrored");
        assert!(stencils_of_row(101, 1, 50, &[40, 49, 50, 51, 60]).is_empty(), "10 does not divide 101");
        assert!(stencils_of_row(100, 1, 50, &[40, 49, 51, 60]).is_empty(), "no diagonal");
        assert!(
            stencils_of_row(1000, 1, 555, &[430, 545, 554, 555, 556, 565, 680]).is_empty(),
            "125 is no multiple of 10"
        );
        assert!(stencils_of_row(100, 1, 50, &[]).is_empty());
    }
}
