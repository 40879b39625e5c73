//! Checks of the values of a stencil. Errors name the cell.

use super::{SharedStencil, Stencil};
use crate::error::{Error, Result, Status, fail};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::DiagonalDefect;

/// Cells of a piece of a parallel loop.
const GRAIN: usize = 4096;

impl<T: Scalar> SharedStencil<T> {
    /// Checks that all values are finite, and zero where they reach outside of the grid. With several defects the one of the lowest cell is
    /// reported. Returns the first cell whose diagonal is missing or zero.
    pub fn validate(&self) -> Result<DiagonalDefect> {
        let nx = self.pattern.grid.dims[0];
        let grain = GRAIN.div_ceil(nx);
        par::map_ranges(self.pattern.grid.lines(), grain, |lines| {
            for line in lines {
                if !self.is_valid_line(line) {
                    (line * nx..(line + 1) * nx).try_for_each(|cell| self.check_cell(cell))?;
                }
            }
            Ok(())
        })?;
        Ok(self.diagonal_defect())
    }

    /// Whether every value of a line of cells is right.
    fn is_valid_line(&self, line: usize) -> bool {
        let grid = &self.pattern.grid;
        let [nx, ny, _] = grid.dims;
        let (first, y, z) = (line * nx, line % ny, line / ny);
        let mut is_valid = true;
        for (k, [dx, dy, dz]) in self.pattern.offsets.iter().enumerate() {
            let inside = grid.step(1, y, *dy).is_some() && grid.step(2, z, *dz).is_some();
            let end = if *dx < 0 { 0 } else { nx - 1 };
            let open = *dx != 0 && !grid.periodic[0];
            for (r, c) in self.entries_of_a_block() {
                let values = &self.array(k, r, c)[first..][..nx];
                is_valid &= match inside {
                    true => values.iter().all(|v| v.is_finite()) && (!open || values[end] == T::ZERO),
                    false => values.iter().all(|v| *v == T::ZERO),
                };
            }
        }
        is_valid
    }

    fn entries_of_a_block(&self) -> impl Iterator<Item = (usize, usize)> + use<T> {
        let b = self.pattern.block;
        (0..b * b).map(move |e| (e / b, e % b))
    }

    fn check_cell(&self, cell: usize) -> Result<()> {
        let at = self.pattern.grid.point(cell);
        let [x, y, z] = at;
        for (k, offset) in self.pattern.offsets.iter().enumerate() {
            let [dx, dy, dz] = *offset;
            for (r, c) in self.entries_of_a_block() {
                let value = self.array(k, r, c)[cell];
                let entry = if self.pattern.block == 1 { String::new() } else { format!(", entry ({r}, {c})") };
                if !value.is_finite() {
                    return fail!(
                        MatrixValues,
                        "cell ({x}, {y}, {z}), offset ({dx}, {dy}, {dz}){entry} holds {value}; every value must be finite"
                    );
                }
                if value != T::ZERO && self.pattern.grid.neighbour(at, *offset).is_none() {
                    let [nx, ny, nz] = self.pattern.grid.dims;
                    return fail!(
                        MatrixValues,
                        "cell ({x}, {y}, {z}), offset ({dx}, {dy}, {dz}){entry} holds {value} and reaches outside of the grid of {nx} x {ny} \
                         x {nz} cells; such values must be zero"
                    );
                }
            }
        }
        Ok(())
    }

    fn diagonal_defect(&self) -> DiagonalDefect {
        let what = |text: String| {
            let wanted = "AMG needs a non-zero diagonal entry in every row; solver.preconditioner none and solver.type direct do not";
            Some(Error::new(Status::MatrixValues, format!("{text}; {wanted}")))
        };
        let Some(centre) = self.pattern.find([0; 3]) else {
            return what("the stencil has no offset (0, 0, 0)".to_string());
        };
        let zero = |r: usize| self.array(centre, r, r).iter().position(|v| *v == T::ZERO);
        let (cell, r) = (0..self.pattern.block).filter_map(|r| zero(r).map(|cell| (cell, r))).min()?;
        let [x, y, z] = self.pattern.grid.point(cell);
        let unknown = if self.pattern.block == 1 { String::new() } else { format!(", unknown {r}") };
        what(format!("cell ({x}, {y}, {z}){unknown} has a zero diagonal entry"))
    }
}

impl Stencil {
    /// Values of a caller that has all values of a cell together, offset by offset and row by row, one array after the other.
    pub fn from_cells<T: Scalar>(&self, cells: &[T]) -> Result<Vec<T>> {
        let (count, width) = (self.grid.cells(), self.offsets.len() * self.block * self.block);
        let mut values = crate::error::try_vec(cells.len(), T::ZERO)?;
        par::for_each_mut(&mut values, count, |start, values| {
            let e = start / count;
            for (i, to) in values.iter_mut().enumerate() {
                *to = cells[i * width + e];
            }
        });
        Ok(values)
    }
}
