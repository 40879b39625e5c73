//! Grids that the rows of a matrix show: which of them a row may be a cell of, and how even its couplings are there.

use super::convert::offset_of;
use super::{Grid, Offset, Stencil};

/// A row of a scalar matrix, or the columns and first entries of a row of blocks.
pub struct SampledRow {
    /// Its number.
    pub row: usize,
    /// Columns, as they are stored.
    pub columns: Vec<i32>,
    /// Their values.
    pub values: Vec<f64>,
}

/// How couplings are on a grid, over a sample of inner rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evenness {
    /// The share of rows whose couplings to both sides along every axis differ at most by a factor of 16.
    pub even: f64,
    /// The same by a factor of 4.
    pub smooth: f64,
    /// The share of couplings with the sign of the diagonal, by size.
    pub same_sign: f64,
}

/// Couplings to both sides along an axis are even, or smooth, where the weaker is at least this share of the stronger.
const EVEN: f64 = 0.0625;
const SMOOTH: f64 = 0.25;

/// That of rows with the entries of a stencil; nothing is even where there is no such row. Sides of an axis along which a row has couplings below this
/// share of its strongest axis do not count.
pub fn evenness(stencil: &Stencil, rows: &[SampledRow]) -> Evenness {
    const NONE: f64 = 1e-10;
    let (mut inner, mut even, mut smooth, mut couplings, mut same) = (0, 0, 0, 0.0, 0.0);
    for SampledRow { row, columns, values } in rows {
        let Some(offsets) =
            offsets_on(&stencil.grid, *row, columns).filter(|found| found.len() == stencil.offsets.len())
        else {
            continue;
        };
        let centre = offsets.iter().position(|offset| *offset == [0; 3]).map_or(0.0, |k| values[k]);
        let mut sides = [[0.0; 2]; 3];
        for (offset, value) in offsets.iter().zip(values).filter(|(offset, _)| **offset != [0; 3]) {
            couplings += value.abs() / centre.abs();
            same += if value * centre > 0.0 { value.abs() / centre.abs() } else { 0.0 };
            for (axis, step) in offset.iter().enumerate().filter(|(_, step)| **step != 0) {
                sides[axis][usize::from(*step > 0)] += value;
            }
        }
        let largest = sides.as_flattened().iter().fold(0.0_f64, |largest, side| largest.max(side.abs()));
        let differ_by = |factor: f64| {
            sides.iter().all(|[left, right]| {
                let (weak, strong) = (left.abs().min(right.abs()), left.abs().max(right.abs()));
                strong <= NONE * largest || weak >= factor * strong
            })
        };
        inner += 1;
        even += u32::from(differ_by(EVEN));
        smooth += u32::from(differ_by(SMOOTH));
    }
    let share = |count: u32| f64::from(count) / f64::from(inner.max(1));
    Evenness {
        even: share(even),
        smooth: share(smooth),
        same_sign: if couplings > 0.0 { same / couplings } else { 1.0 },
    }
}

/// Cells along x and y below which steps to neighbours are not told apart.
const MIN_CELLS: usize = 3;

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
    for nx in [*second, second + 1].into_iter().filter(|nx| *nx >= MIN_CELLS && rows.is_multiple_of(*nx)) {
        let planes = (-1..=1_i64).flat_map(|y| (-1..=1_i64).map(move |x| (y, x)));
        let planes = planes.filter_map(|(y, x)| usize::try_from(*farthest as i64 - y * nx as i64 - x).ok());
        let of_planes =
            planes.filter(|plane| plane.is_multiple_of(nx) && plane / nx >= MIN_CELLS && rows.is_multiple_of(*plane));
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
    columns.iter().map(|column| offset_of(grid, row, *column as usize)).collect()
}

#[cfg(feature = "unit-tests")]
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
    fn couplings_are_even_where_coefficients_vary_little_along_axes() {
        let of = |name: &str, dims: [usize; 3]| {
            let a = gallery::parse(name).unwrap().matrix;
            let view = a.view();
            let sampled = |row: usize| SampledRow {
                row,
                columns: view.row_range(row).map(|p| view.col(p) as i32).collect(),
                values: view.row_range(row).map(|p| a.values[p]).collect(),
            };
            let rows: Vec<SampledRow> = (0..a.rows).map(sampled).collect();
            evenness(&of_row(&a, Grid::new(dims).cell(dims.map(|n| n / 2)))[0], &rows)
        };
        let none = Evenness { even: 1.0, smooth: 1.0, same_sign: 0.0 };
        assert_eq!(of("poisson7:6", [6; 3]), none);
        assert_eq!(of("anisotropic:6x6x6:epsilon=1e-6", [6; 3]), none);
        assert!(of("jumps:8:inclusions=2", [8; 3]).even < 0.9);
        let (calm, rough) = (of("lognormal:8:sigma=1", [8; 3]), of("lognormal:8:sigma=4", [8; 3]));
        assert!(calm.even > 0.9 && rough.even < 0.6, "{calm:?} {rough:?}");
        assert!(calm.smooth > 0.6 && rough.smooth < 0.3, "{calm:?} {rough:?}");
        assert!(of("rotated_anisotropic:8:angle=30", [8, 8, 1]).same_sign > 0.05);
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
