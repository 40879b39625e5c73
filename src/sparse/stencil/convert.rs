//! Stencils to and from rows with column indices.

use super::{Grid, MAX_OFFSETS, Offset, SharedStencil, Stencil};
use crate::error::{Result, fail, try_vec};
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

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

/// The rows of neighbouring cells, one after the other.
struct Rows<'a> {
    stencil: &'a Stencil,
    row: Row,
    /// The next cell, and its place along x.
    cell: usize,
    x: usize,
    is_begun: bool,
}

impl<'a> Rows<'a> {
    /// From a cell on.
    fn from(stencil: &'a Stencil, cell: usize) -> Rows<'a> {
        let row = Row { entries: [(0, 0); MAX_OFFSETS], count: 0 };
        Rows { stencil, row, cell, x: cell % stencil.grid.dims[0], is_begun: false }
    }

    /// The row of the next cell. That of a cell which is not at an end of its line has the entries of the one before, each a column further.
    #[inline(always)]
    fn next(&mut self) -> &Row {
        let nx = self.stencil.grid.dims[0];
        if self.is_begun && self.x >= 2 && self.x + 1 < nx {
            self.row.entries[..self.row.count].iter_mut().for_each(|(column, _)| *column += 1);
        } else {
            self.row = Row::new(self.stencil, self.cell);
        }
        self.is_begun = true;
        self.cell += 1;
        self.x = if self.x + 1 == nx { 0 } else { self.x + 1 };
        &self.row
    }
}

impl Stencil {
    /// The pattern of the matrix in rows of blocks: entries inside of the grid, columns ascending.
    pub fn structure(&self) -> Result<Structure> {
        let cells = self.grid.cells();
        let mut counts = try_vec(cells, 0_i64)?;
        par::for_each_mut(&mut counts, par::ROW_GRAIN, |start, counts| {
            let mut rows = Rows::from(self, start);
            counts.iter_mut().for_each(|count| *count = rows.next().columns().count() as i64);
        });
        let offsets = par::offsets_from_counts(counts)?;
        let mut columns = try_vec(offsets[cells] as usize, 0_i32)?;
        par::for_each_segment_mut(&mut columns, &offsets, 1, par::ROW_GRAIN, |rows, columns| {
            let (mut columns, mut all) = (columns.iter_mut(), Rows::from(self, rows.start));
            for _ in rows {
                for (column, to) in all.next().columns().zip(&mut columns) {
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
            let (mut blocks, mut all) = (rows.chunks_exact_mut(width), Rows::from(self, range.start));
            for i in range {
                let row = all.next();
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
            let mut rows = Rows::from(self, range.start);
            Ok(range.all(|i| {
                let (mut at, columns) = (0, a.row_range(i));
                for (column, _) in rows.next().entries() {
                    at += usize::from(at < columns.len() && a.col(columns.start + at) == *column);
                }
                at == columns.len()
            }))
        })?;
        Ok(found.into_iter().all(|holds| holds))
    }

    /// The values of a matrix in rows, whose pattern this is by [`Stencil::of_rows`] or [`Stencil::holds_rows`], by offsets.
    pub fn values_of_rows<T: Scalar, U: Number>(&self, a: &CsrView<'_, T>) -> Result<Vec<U>> {
        let (nx, width, count) = (self.grid.dims[0], self.block * self.block, self.offsets.len());
        let mut values = try_vec(self.entries(), U::ZERO)?;
        let failure = par::Failure::default();
        let grain = par::ROW_GRAIN.div_ceil(nx);
        par::for_each_row_of_arrays_mut(&mut values, count * width, nx, grain, |lines, arrays| {
            // The rows of a line, with an entry for each offset.
            failure.keep(try_vec(nx * count * width, U::ZERO).map(|mut dense| {
                for line in lines {
                    dense.fill(U::ZERO);
                    let mut rows = Rows::from(self, line * nx);
                    for (i, dense) in (line * nx..).zip(dense.chunks_exact_mut(count * width)) {
                        self.fill_row(a, i, rows.next(), dense);
                    }
                    for array in 0..count * width {
                        let from = dense[array..].iter().step_by(count * width);
                        arrays.get(array, line).iter_mut().zip(from).for_each(|(to, v)| *to = *v);
                    }
                }
            }));
        });
        failure.check()?;
        Ok(values)
    }

    /// The blocks of row `i` by offsets; others stay as they are.
    fn fill_row<T: Scalar, U: Number>(&self, a: &CsrView<'_, T>, i: usize, row: &Row, dense: &mut [U]) {
        let (range, width) = (a.row_range(i), self.block * self.block);
        let mut take = |k: usize, p: usize| {
            dense[k * width..][..width].iter_mut().zip(a.block_at(p)).for_each(|(to, v)| *to = v.cast());
        };
        let mut at = range.start;
        for (column, k) in row.entries() {
            if at < range.end && a.col(at) == *column {
                take(*k, at);
                at += 1;
            }
        }
        if at < range.end {
            // The columns do not ascend.
            for p in range {
                if let Some(k) = offset_of(&self.grid, i, a.col(p)).and_then(|offset| self.find(offset)) {
                    take(k, p);
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
