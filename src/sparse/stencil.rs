//! Matrices on structured grids: one array of values for each entry of the stencil, and no column index.
//!
//! Cells are numbered with x fastest: cell (x, y, z) has number x + nx (y + ny z), and its unknowns are consecutive rows. Entries that would
//! reach outside of the grid are stored as zeros.

mod colours;
mod convert;
mod find;
mod validate;

pub use colours::{CellColours, EveryOther, LineColours};
pub use find::{Evenness, SampledRow, evenness, stencils_of_row};

use super::Storage;
use crate::error::{Result, fail, try_vec};
use crate::par;
use crate::scalar::Number;
use std::sync::Arc;

/// A step from a cell to a neighbour along x, y and z, each -1, 0 or 1.
pub type Offset = [i8; 3];

/// The most offsets of a stencil.
pub const MAX_OFFSETS: usize = 27;

/// A logically rectangular grid of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cells along x, y and z, each at least 1.
    pub dims: [usize; 3],
    /// Axes along which the last cell is a neighbour of the first.
    pub periodic: [bool; 3],
}

impl Grid {
    /// A grid without periodic axes.
    pub fn new(dims: [usize; 3]) -> Grid {
        Grid { dims, periodic: [false; 3] }
    }

    /// Its cells, refused when the unknowns have more than 31 bits.
    pub fn check(&self, dofs_per_cell: usize) -> Result<usize> {
        let [nx, ny, nz] = self.dims;
        let limit = i32::MAX as usize / dofs_per_cell;
        match nx.checked_mul(ny).and_then(|cells| cells.checked_mul(nz)) {
            Some(cells) if cells > 0 && cells <= limit => Ok(cells),
            _ => fail!(
                InvalidArgument,
                "the grid has {nx} x {ny} x {nz} cells of {dofs_per_cell} unknowns; accepted: every dimension at least 1, and at most \
                 {limit} cells"
            ),
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether an axis is periodic with an odd number of cells: two colours are not enough along it.
    pub fn is_odd_ring(&self, axis: usize) -> bool {
        self.periodic[axis] && !self.dims[axis].is_multiple_of(2)
    }

    /// Number of lines along x.
    pub fn lines(&self) -> usize {
        self.dims[1] * self.dims[2]
    }

    /// The place of a cell.
    pub fn point(&self, cell: usize) -> [usize; 3] {
        let [nx, ny, _] = self.dims;
        [cell % nx, cell / nx % ny, cell / (nx * ny)]
    }

    /// The number of a cell.
    pub fn cell(&self, at: [usize; 3]) -> usize {
        at[0] + self.dims[0] * (at[1] + self.dims[1] * at[2])
    }

    /// A step along one axis, unless it leads out of the grid.
    #[inline(always)]
    pub fn step(&self, axis: usize, at: usize, step: i8) -> Option<usize> {
        let n = self.dims[axis];
        match at.wrapping_add_signed(isize::from(step)) {
            to if to < n => Some(to),
            _ if !self.periodic[axis] => None,
            _ if step > 0 => Some(0),
            _ => Some(n - 1),
        }
    }

    /// The cell that an offset leads to, unless that is outside of the grid.
    #[inline(always)]
    pub fn neighbour(&self, at: [usize; 3], offset: Offset) -> Option<usize> {
        let x = self.step(0, at[0], offset[0])?;
        let y = self.step(1, at[1], offset[1])?;
        Some(self.cell([x, y, self.step(2, at[2], offset[2])?]))
    }
}

/// The offsets of a stencil that lead to one line of cells along x.
#[derive(Clone, Debug)]
pub struct LineOffsets {
    /// Steps to the line along y and z.
    pub to: [i8; 2],
    /// Steps along x, ascending, and the numbers of their offsets.
    pub steps: Vec<(i8, usize)>,
}

/// The pattern of a matrix on a grid.
#[derive(Clone, Debug)]
pub struct Stencil {
    /// Its grid.
    pub grid: Grid,
    /// Unknowns of a cell.
    pub block: usize,
    /// The offsets in the order of the values.
    pub offsets: Vec<Offset>,
    /// The same by lines, in ascending order of z, then y: the order in which products are summed.
    pub lines: Vec<LineOffsets>,
}

impl Stencil {
    /// Checks the offsets: each at most one cell far, and none twice.
    pub fn new(grid: Grid, block: usize, offsets: &[Offset]) -> Result<Stencil> {
        grid.check(block)?;
        if offsets.is_empty() || offsets.len() > MAX_OFFSETS {
            return fail!(InvalidArgument, "{} offsets were given; accepted: 1 to {MAX_OFFSETS}", offsets.len());
        }
        for (k, offset) in offsets.iter().enumerate() {
            let [x, y, z] = *offset;
            if offset.iter().any(|step| step.abs() > 1) {
                return fail!(InvalidArgument, "offset {k} is ({x}, {y}, {z}); accepted: steps of -1, 0 and 1");
            }
            if let Some(other) = offsets[..k].iter().position(|other| other == offset) {
                return fail!(
                    InvalidArgument,
                    "offsets {other} and {k} are both ({x}, {y}, {z}); each may appear once"
                );
            }
        }
        let mut lines = Vec::new();
        for z in -1..=1 {
            for y in -1..=1 {
                let number = |x: i8| offsets.iter().position(|offset| *offset == [x, y, z]).map(|k| (x, k));
                let steps: Vec<_> = (-1..=1).filter_map(number).collect();
                if !steps.is_empty() {
                    lines.push(LineOffsets { to: [y, z], steps });
                }
            }
        }
        Ok(Stencil { grid, block, offsets: offsets.to_vec(), lines })
    }

    /// Stored values.
    pub fn entries(&self) -> usize {
        self.offsets.len() * self.block * self.block * self.grid.cells()
    }

    /// Blocks of the matrix in rows: those inside of the grid, and once where several offsets lead to the same cell.
    pub fn row_blocks(&self) -> usize {
        let Grid { dims, periodic } = self.grid;
        // Along a periodic axis of one or two cells, steps to both sides lead to the same cell.
        let canonical = |axis: usize, step: i8| match dims[axis] {
            1 if periodic[axis] => 0,
            2 if periodic[axis] => step.abs(),
            _ => step,
        };
        let mut different: Vec<Offset> = Vec::new();
        for offset in &self.offsets {
            let offset = std::array::from_fn(|axis| canonical(axis, offset[axis]));
            if !different.contains(&offset) {
                different.push(offset);
            }
        }
        let from = |axis: usize, step: i8| match periodic[axis] {
            true => dims[axis],
            false => dims[axis] - usize::from(step.unsigned_abs()),
        };
        different.iter().map(|offset| (0..3).map(|axis| from(axis, offset[axis])).product::<usize>()).sum()
    }

    /// Scalar rows.
    pub fn scalar_rows(&self) -> usize {
        self.grid.cells() * self.block
    }

    /// The number of an offset.
    pub fn find(&self, offset: Offset) -> Option<usize> {
        self.offsets.iter().position(|other| *other == offset)
    }

    /// Name of the storage format in reports.
    pub fn format(&self) -> String {
        let block = if self.block == 1 { String::new() } else { format!("-{0}x{0}", self.block) };
        format!("stencil{}{block}", self.offsets.len())
    }

    /// The pattern of the transpose: the opposite offsets.
    pub fn transposed(&self) -> Result<Stencil> {
        let opposite: Vec<Offset> = self.offsets.iter().map(|offset| offset.map(|step| -step)).collect();
        Stencil::new(self.grid, self.block, &opposite)
    }

    /// Where the array of entry (r, c) of the blocks of an offset begins.
    #[inline(always)]
    pub fn array(&self, offset: usize, r: usize, c: usize) -> usize {
        ((offset * self.block + r) * self.block + c) * self.grid.cells()
    }
}

/// A matrix on a grid whose arrays are shared: for each offset and each entry of its blocks, row by row, one value for every cell.
pub struct SharedStencil<T> {
    /// The pattern.
    pub pattern: Arc<Stencil>,
    /// The values.
    pub values: Arc<dyn Storage<T>>,
}

impl<T> Clone for SharedStencil<T> {
    fn clone(&self) -> Self {
        SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::clone(&self.values) }
    }
}

impl<T: Number> SharedStencil<T> {
    /// The values of entry (r, c) of the blocks of an offset.
    #[inline(always)]
    pub fn array(&self, offset: usize, r: usize, c: usize) -> &[T] {
        &self.values.as_slice()[self.pattern.array(offset, r, c)..][..self.pattern.grid.cells()]
    }

    /// Whether another format holds every value exactly.
    pub fn is_exact_in<U: Number>(&self) -> Result<bool> {
        let values = self.values.as_slice();
        let exact = par::map_ranges(values.len(), par::GRAIN, |range| {
            Ok(values[range].iter().all(|v| v.cast::<U>().to_f64() == v.to_f64()))
        })?;
        Ok(exact.into_iter().all(|exact| exact))
    }

    /// The same pattern with values in another format; the values are shared when the format is the same.
    pub fn cast<U: Number>(&self) -> Result<SharedStencil<U>> {
        let same: &dyn std::any::Any = &self.values;
        if let Some(values) = same.downcast_ref::<Arc<dyn Storage<U>>>() {
            return Ok(SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::clone(values) });
        }
        Ok(SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::new(cast(self.values.as_slice())?) })
    }
}

/// Values in another format.
pub(crate) fn cast<T: Number, U: Number>(from: &[T]) -> Result<Vec<U>> {
    let mut values = try_vec(from.len(), U::ZERO)?;
    par::for_each_mut(&mut values, par::GRAIN, |start, chunk| {
        for (to, from) in chunk.iter_mut().zip(&from[start..]) {
            *to = from.cast();
        }
    });
    Ok(values)
}

#[cfg(feature = "unit-tests")]
mod tests;
