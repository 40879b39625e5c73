//! ILU(0) of a stencil, colour after colour: the cells of a colour are not coupled. Products of two steps that lead further than the stencil are dropped.

use crate::backend::dilu::SMALLEST_PIVOT;
use crate::backend::ilu0::{Ilu0, Ilu0Factors, check_block};
use crate::error::{Result, try_capacity, try_vec};
use crate::host::{Host, HostMatrix};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{CellColours, MAX_OFFSETS, Offset, SharedStencil, Stencil};
use std::sync::Arc;

impl Ilu0 for Host {
    fn ilu0<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<Ilu0Factors<HostMatrix<T>, Vec<T>>> {
        let (factors, inverse) = factors(a.on_grid()?)?;
        Ok((HostMatrix::Stencil(factors), inverse))
    }
}

/// L + E + U and 1 / e_i.
pub(crate) fn factors<T: Scalar>(a: &SharedStencil<T>) -> Result<Ilu0Factors<SharedStencil<T>, Vec<T>>> {
    let stencil = &*a.pattern;
    check_block(stencil.block)?;
    let (grid, colours, width) = (&stencil.grid, CellColours::new(stencil), stencil.offsets.len() + 1);
    let cells = grid.cells();
    let mut values = try_vec(a.values.as_slice().len(), T::ZERO)?;
    values.copy_from_slice(a.values.as_slice());
    let mut inverse = try_vec(cells, T::ZERO)?;
    for colour in 0..colours.count() {
        let mut own: Vec<usize> = try_capacity(cells)?;
        own.extend((0..cells).filter(|cell| colours.of(grid.point(*cell)) == colour));
        // A row and its pivot for each of them.
        let mut rows = try_vec(width * own.len(), T::ZERO)?;
        let eliminated = Eliminated { stencil, colours: &colours, values: &values, inverse: &inverse };
        par::for_each_row_mut(&mut rows, width, par::ROW_GRAIN, |first, rows| {
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                eliminated.row(own[first + k], colour, row);
            }
        });
        for (cell, row) in own.iter().zip(rows.chunks_exact(width)) {
            row[..width - 1].iter().enumerate().for_each(|(k, v)| values[k * cells + cell] = *v);
            inverse[*cell] = row[width - 1];
        }
    }
    Ok((SharedStencil { pattern: Arc::clone(&a.pattern), values: Arc::new(values) }, inverse))
}

/// The rows of earlier colours, and those of A.
struct Eliminated<'a, T> {
    stencil: &'a Stencil,
    colours: &'a CellColours,
    values: &'a [T],
    inverse: &'a [T],
}

impl<T: Scalar> Eliminated<'_, T> {
    /// The row of a cell, by offsets, and behind it the inverse of its pivot.
    fn row(&self, cell: usize, own: usize, row: &mut [T]) {
        let (stencil, grid, cells) = (self.stencil, &self.stencil.grid, self.stencil.grid.cells());
        let offsets = &stencil.offsets;
        let (row, inverse) = row.split_at_mut(offsets.len());
        row.iter_mut().enumerate().for_each(|(k, v)| *v = self.values[k * cells + cell]);
        // Neighbours of earlier colours, colour after colour.
        let (at, mut earlier, mut count) = (grid.point(cell), [(0, 0, 0); MAX_OFFSETS], 0);
        for (k, offset) in offsets.iter().enumerate() {
            let Some(there) = grid.neighbour(at, *offset).filter(|_| *offset != [0; 3]) else { continue };
            let colour = self.colours.of(grid.point(there));
            if colour < own {
                earlier[count] = (colour, k, there);
                count += 1;
            }
        }
        earlier[..count].sort_unstable();
        for (colour, k, there) in &earlier[..count] {
            let factor = row[*k] * self.inverse[*there];
            for (k2, second) in offsets.iter().enumerate() {
                let both: Offset = std::array::from_fn(|axis| offsets[*k][axis] + second[axis]);
                let (Some(to), Some(j)) = (stencil.find(both), grid.neighbour(grid.point(*there), *second)) else {
                    continue;
                };
                if self.colours.of(grid.point(j)) > *colour {
                    row[to] -= factor * self.values[k2 * cells + there];
                }
            }
        }
        let Some(centre) = stencil.find([0; 3]) else { return };
        let diagonal = self.values[centre * cells + cell];
        // A share that is not a number is not above the bound either.
        let is_large = row[centre] / diagonal > T::from_f64(SMALLEST_PIVOT);
        if !is_large {
            row[centre] = diagonal;
        }
        inverse[0] = if diagonal == T::ZERO { T::ZERO } else { T::ONE / row[centre] };
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Grid;

    /// M as a dense matrix is A in the pattern of A; outside of it is the fill that ILU(0) drops.
    #[test]
    fn the_product_of_the_factors_is_the_matrix_in_its_pattern() {
        for (name, dims) in [
            ("poisson7:5x4x3", [5, 4, 3]),
            ("laplace27:4x5x3", [4, 5, 3]),
            ("oil:4x4x4", [4, 4, 4]),
            ("weather:6x5x4", [6, 5, 4]),
            ("poisson9:6x5", [6, 5, 1]),
        ] {
            let a = SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap();
            let (factors, inverse) = factors(&a).unwrap();
            let (n, grid, colours) = (inverse.len(), a.pattern.grid, CellColours::new(&a.pattern));
            let colour: Vec<usize> = (0..n).map(|i| colours.of(grid.point(i))).collect();
            let m = factors.to_rows().unwrap();
            let mut dense = vec![0.0; n * n];
            for i in 0..n {
                for (k, l) in m.view().row(i).filter(|(k, _)| colour[*k] < colour[i] || *k == i) {
                    for (j, u) in m.view().row(k).filter(|(j, _)| colour[*j] > colour[k] || *j == k) {
                        dense[i * n + j] += l[0] * inverse[k] * u[0];
                    }
                }
            }
            let rows = a.to_rows().unwrap();
            let mut fill: f64 = 0.0;
            for i in 0..n {
                for (j, v) in rows.view().row(i) {
                    let scale = rows.view().row(i).fold(0.0, |s: f64, (_, v)| s.max(v[0].abs()));
                    assert!((dense[i * n + j] - v[0]).abs() <= 1e-13 * scale, "{name}: entry ({i}, {j})");
                    dense[i * n + j] = 0.0;
                }
                fill = dense[i * n..][..n].iter().fold(fill, |s, v| s.max(v.abs()));
            }
            assert!(fill > 0.0, "{name}: the factorisation is complete, and the test sees nothing");
        }
    }

    #[test]
    fn blocks_are_refused() {
        let a = SharedStencil::from_rows(&gallery::parse("oil4c:3").unwrap().matrix, Grid::new([3; 3])).unwrap();
        let error = factors(&a).err().unwrap();
        assert!(error.message.contains("needs one unknown in each cell, and this matrix has 4"), "{error}");
    }
}
