//! Stencils to and from rows with column indices.

use super::{Grid, MAX_OFFSETS, Offset, SharedStencil, Stencil};
use crate::error::{Result, fail, try_vec};
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

/// An offset that a row has no entry for.
const NONE: u8 = u8::MAX;

/// The entries of a row: columns ascending, each with the number of its offset. Along a periodic axis of one or two cells, several offsets lead
/// to the same column.
struct Row {
    entries: [(usize, usize); MAX_OFFSETS],
    count: usize,
}

impl Row {
    fn new(stencil: &Stencil, cell: usize) -> Row {
        let (at, mut row) = (stencil.grid.point(cell), Row { entries: [(0, 0); MAX_OFFSETS], count: 0 });
        for line in &stencil.lines {
            for (x, k) in &line.steps {
                if let Some(column) = stencil.grid.neighbour(at, [*x, line.to[0], line.to[1]]) {
                    row.entries[row.count] = (column, *k);
                    row.count += 1;
                }
            }
        }
        if stencil.grid.periodic != [false; 3] {
            row.entries[..row.count].sort_unstable();
        }
        row
    }

    fn entries(&self) -> &[(usize, usize)] {
        &self.entries[..self.count]
    }

    /// Different columns.
    fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let first = |k: &usize| *k == 0 || self.entries[*k].0 != self.entries[*k - 1].0;
        (0..self.count).filter(first).map(|k| self.entries[k].0)
    }
}

impl Stencil {
    /// The pattern of the matrix in rows of blocks: entries inside of the grid, columns ascending.
    pub fn structure(&self) -> Result<Structure> {
        let cells = self.grid.cells();
        let mut counts = try_vec(cells, 0_i64)?;
        par::for_each_mut(&mut counts, par::ROW_GRAIN, |start, counts| {
            for (k, count) in counts.iter_mut().enumerate() {
                *count = Row::new(self, start + k).columns().count() as i64;
            }
        });
        let offsets = par::offsets_from_counts(counts)?;
        let mut columns = try_vec(offsets[cells] as usize, 0_i32)?;
        par::for_each_segment_mut(&mut columns, &offsets, 1, par::ROW_GRAIN, |rows, columns| {
            let mut columns = columns.iter_mut();
            for i in rows {
                for (column, to) in Row::new(self, i).columns().zip(&mut columns) {
                    *to = column as i32;
                }
            }
        });
        Ok(Structure::new(cells, cells, Block::square(self.block), offsets, columns))
    }

    /// The values of the matrix in rows with the pattern of [`Stencil::structure`], of which these are the offsets.
    pub fn row_values<T: Number>(&self, values: &[T], offsets: &[i64]) -> Result<Vec<T>> {
        let (cells, width) = (self.grid.cells(), self.block * self.block);
        let mut rows = try_vec(offsets[cells] as usize * width, T::ZERO)?;
        par::for_each_segment_mut(&mut rows, offsets, width, par::ROW_GRAIN, |range, rows| {
            let mut blocks = rows.chunks_exact_mut(width);
            for i in range {
                let row = Row::new(self, i);
                let mut last: Option<(usize, &mut [T])> = None;
                for (column, k) in row.entries() {
                    let first = self.array(*k, 0, 0) + i;
                    match &mut last {
                        Some((before, block)) if before == column => {
                            for (e, to) in block.iter_mut().enumerate() {
                                *to = T::from_f64(to.to_f64() + values[first + e * cells].to_f64());
                            }
                        }
                        _ => {
                            let block = blocks.next().expect("the offsets count the columns");
                            for (e, to) in block.iter_mut().enumerate() {
                                *to = values[first + e * cells];
                            }
                            last = Some((*column, block));
                        }
                    }
                }
            }
        });
        Ok(rows)
    }

    /// The pattern of a matrix in rows on a grid. Fails with the first row that has an entry for a cell that is not a neighbour.
    pub fn of_rows<T: Scalar>(a: &CsrView<'_, T>, grid: Grid) -> Result<Stencil> {
        let (block, [nx, ny, nz]) = (a.block.rows, grid.dims);
        let cells = grid.check(block)?;
        if a.rows != cells || a.cols != cells || a.block.rows != a.block.cols {
            let (rows, cols) = (a.scalar_rows(), a.scalar_cols());
            return fail!(
                SizeMismatch,
                "the grid has {nx} x {ny} x {nz} = {cells} cells; the matrix has {rows} rows and {cols} columns in blocks of {block}, which \
                 must be one block for each cell"
            );
        }
        let masks = par::map_ranges(cells, par::ROW_GRAIN, |range| {
            let mut mask = 0_u32;
            for i in range {
                for p in a.row_range(i) {
                    match offset_of(&grid, i, a.col(p)) {
                        Some(offset) => mask |= 1 << number_of(offset),
                        None => return not_a_neighbour(&grid, i, a.col(p), a.base),
                    }
                }
            }
            Ok(mask)
        })?;
        let mask = masks.into_iter().fold(1 << number_of([0; 3]), |all, mask| all | mask);
        let all = (-1..=1).flat_map(|z| (-1..=1).flat_map(move |y| (-1..=1).map(move |x| [x, y, z])));
        let offsets: Vec<Offset> = all.filter(|offset| mask >> number_of(*offset) & 1 == 1).collect();
        Stencil::new(grid, block, &offsets)
    }

    /// Whether the entries of every row of a matrix, whose columns ascend, are among those of the stencil.
    pub fn holds_rows<T: Scalar>(&self, a: &CsrView<'_, T>) -> Result<bool> {
        let found = par::map_ranges(self.grid.cells(), par::ROW_GRAIN, |mut range| {
            Ok(range.all(|i| {
                let mut columns = a.row_range(i).map(|p| a.col(p)).peekable();
                Row::new(self, i).entries().iter().for_each(|(column, _)| {
                    columns.next_if_eq(column);
                });
                columns.peek().is_none()
            }))
        })?;
        Ok(found.into_iter().all(|holds| holds))
    }

    /// The values of a matrix in rows, whose pattern this is by [`Stencil::of_rows`] or [`Stencil::holds_rows`], by offsets.
    pub fn values_of_rows<T: Scalar, U: Number>(&self, a: &CsrView<'_, T>) -> Result<Vec<U>> {
        let (cells, width) = (self.grid.cells(), self.block * self.block);
        // Positions in the rows first, then one array after the other: each task writes to one of them.
        let (mut values, count) = (try_vec(self.entries(), U::ZERO)?, self.offsets.len());
        let mut positions = try_vec(count * cells, NONE)?;
        par::for_each_row_mut(&mut positions, count, par::ROW_GRAIN, |start, positions| {
            for (i, positions) in (start..).zip(positions.chunks_exact_mut(count)) {
                self.positions_of_row(a, i, positions);
            }
        });
        par::for_each_mut(&mut values, cells, |start, values| {
            let (k, e) = (start / (cells * width), start / cells % width);
            for (i, to) in values.iter_mut().enumerate() {
                let at = positions[i * count + k];
                if at != NONE {
                    *to = a.block_at(a.row_range(i).start + usize::from(at))[e].cast();
                }
            }
        });
        Ok(values)
    }

    /// The position in row `i` of the entry of each offset, where there is one.
    fn positions_of_row<T: Scalar>(&self, a: &CsrView<'_, T>, i: usize, positions: &mut [u8]) {
        let (row, range) = (Row::new(self, i), a.row_range(i));
        let mut at = 0;
        for (column, k) in row.entries() {
            if at < range.len() && a.col(range.start + at) == *column {
                positions[*k] = at as u8;
                at += 1;
            }
        }
        if at < range.len() {
            // The columns do not ascend.
            for (at, p) in range.enumerate() {
                if let Some(k) = offset_of(&self.grid, i, a.col(p)).and_then(|offset| self.find(offset)) {
                    positions[k] = at as u8;
                }
            }
        }
    }
}

impl<T: Number> SharedStencil<T> {
    /// The matrix in rows.
    pub fn to_rows(&self) -> Result<SharedCsr<T>> {
        let structure = self.pattern.structure()?;
        let values = self.pattern.row_values(self.values.as_slice(), structure.own_arrays().0)?;
        Ok(SharedCsr { structure: Arc::new(structure), values: Arc::new(values) })
    }
}

impl<T: Scalar> SharedStencil<T> {
    /// A matrix in rows on a grid.
    pub fn from_rows(a: &Csr<T>, grid: Grid) -> Result<SharedStencil<T>> {
        let pattern = Stencil::of_rows(&a.view(), grid)?;
        let values = pattern.values_of_rows::<T, T>(&a.view())?;
        Ok(SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) })
    }
}

/// The number of an offset among all.
fn number_of([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

/// The offset that leads from one cell to another. Of two that do, along a periodic axis of two cells, the positive one.
pub(super) fn offset_of(grid: &Grid, from: usize, to: usize) -> Option<Offset> {
    let (from, to) = (grid.point(from), grid.point(to));
    let mut offset = [0; 3];
    for axis in 0..3 {
        let step = [0, 1, -1].into_iter().find(|step| grid.step(axis, from[axis], *step) == Some(to[axis]))?;
        offset[axis] = step;
    }
    Some(offset)
}

fn not_a_neighbour<R>(grid: &Grid, row: usize, column: usize, base: i32) -> Result<R> {
    let ([x, y, z], [u, v, w], [nx, ny, nz]) = (grid.point(row), grid.point(column), grid.dims);
    let (row, column) = (row as i64 + i64::from(base), column as i64 + i64::from(base));
    fail!(
        MatrixStructure,
        "row {row}, cell ({x}, {y}, {z}) of {nx} x {ny} x {nz}, has an entry in column {column}, cell ({u}, {v}, {w}), which is not a neighbour; \
         rows are numbered with x fastest"
    )
}
