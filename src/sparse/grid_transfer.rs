//! Transfers between a grid and a coarser one, as stencils: weights without column indices.
//!
//! Along an axis that is coarsened, coarse cell I lies at fine cell 2 I, and there are half as many, rounded up. A coarse cell has a weight for
//! each fine cell around it, at 2 I + d with steps d from -1 or 0 to 1; along the other axes d is 0. Weights for fine cells that do not exist are
//! zero.

use super::stencil::cast;
use super::{Block, Csr, Grid, Offset, SharedCsr, Stencil, Storage, transpose};
use crate::error::{Result, try_copy, try_vec};
use crate::par;
use crate::scalar::Number;
use std::sync::Arc;

/// A grid and one that is coarser along some axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coarsened {
    /// The finer grid.
    pub fine: Grid,
    /// The coarser one.
    pub coarse: Grid,
    /// The axes along which it is coarser.
    pub axes: [bool; 3],
}

impl Coarsened {
    /// Coarsens some axes.
    pub fn new(fine: Grid, axes: [bool; 3]) -> Coarsened {
        let dims = std::array::from_fn(|a| if axes[a] { fine.dims[a].div_ceil(2) } else { fine.dims[a] });
        Coarsened { fine, coarse: Grid { dims, ..fine }, axes }
    }

    /// The sets of axes along which fine cells lie between coarse ones, those of fewer axes first.
    pub fn classes(&self) -> Vec<[bool; 3]> {
        let all = (1..8_usize).map(|bits| std::array::from_fn(|axis| bits >> axis & 1 == 1));
        let mut classes: Vec<[bool; 3]> = all.filter(|class| (0..3).all(|a| !class[a] || self.axes[a])).collect();
        classes.sort_by_key(|class| class.iter().filter(|odd| **odd).count());
        classes
    }

    /// The fine cell at step `d` from a coarse one along an axis, if there is one that interpolates from it.
    #[inline(always)]
    pub fn fine(&self, axis: usize, coarse: usize, d: i8) -> Option<usize> {
        if !self.axes[axis] {
            return Some(coarse);
        }
        let n = self.fine.dims[axis];
        match (2 * coarse).wrapping_add_signed(isize::from(d)) {
            fine if fine < n => Some(fine),
            _ if d < 0 && self.fine.periodic[axis] && n.is_multiple_of(2) => Some(n - 1),
            _ => None,
        }
    }

    /// The coarse cells that a fine one interpolates from along an axis, with its step from each; steps begin with `low`.
    #[inline(always)]
    pub fn parents(&self, axis: usize, fine: usize, low: i8) -> [Option<(usize, i8)>; 2] {
        if !self.axes[axis] {
            return [Some((fine, 0)), None];
        }
        if fine.is_multiple_of(2) {
            return [Some((fine / 2, 0)), None];
        }
        let right = match fine / 2 + 1 {
            _ if low == 0 => None,
            right if right < self.coarse.dims[axis] => Some((right, -1)),
            _ if self.fine.periodic[axis] => Some((0, -1)),
            _ => None,
        };
        [Some((fine / 2, 1)), right]
    }
}

/// The pattern of transfers.
#[derive(Clone, Debug)]
pub struct TransferPattern {
    /// The grids.
    pub grids: Coarsened,
    /// Unknowns of a cell, each with weights of its own.
    pub block: usize,
    /// The smallest step: 0 for piecewise constant transfers, otherwise -1.
    pub low: i8,
    /// The steps d from a coarse cell, in ascending order of z, then y, then x.
    pub steps: Vec<Offset>,
}

impl TransferPattern {
    /// All steps from `low` to 1 along the coarsened axes.
    pub fn new(grids: Coarsened, block: usize, low: i8) -> TransferPattern {
        let along = |axis: usize| if grids.axes[axis] { low..=1 } else { 0..=0 };
        let mut steps = Vec::new();
        for z in along(2) {
            for y in along(1) {
                steps.extend(along(0).map(|x| [x, y, z]));
            }
        }
        TransferPattern { grids, block, low, steps }
    }

    /// The number of a step, which is among [`TransferPattern::steps`].
    #[inline(always)]
    pub fn number(&self, [x, y, z]: Offset) -> usize {
        let along = |axis: usize, d: i8| {
            if self.grids.axes[axis] { ((d - self.low) as usize, (2 - self.low) as usize) } else { (0, 1) }
        };
        let ((x, nx), (y, ny), (z, _)) = (along(0, x), along(1, y), along(2, z));
        x + nx * (y + ny * z)
    }

    /// Steps along an axis.
    pub fn steps_along(&self, axis: usize) -> std::ops::RangeInclusive<i8> {
        if self.grids.axes[axis] { self.low..=1 } else { 0..=0 }
    }

    /// Coarse steps that step `d` of R, offset `o` of A and a step of P give along an axis, with that step of P.
    pub fn coarse_steps(&self, axis: usize, d: i8, o: i8) -> [Option<(i8, i8)>; 2] {
        let s = d + o;
        match (self.grids.axes[axis], self.low) {
            (false, _) => [Some((o, 0)), None],
            (true, 0) => [Some((s.div_euclid(2), s.rem_euclid(2))), None],
            _ if s.rem_euclid(2) == 0 => [Some((s / 2, 0)), None],
            _ => [Some(((s - 1) / 2, 1)), Some(((s + 1) / 2, -1))],
        }
    }

    /// The pattern of R A P. Along a short periodic axis both directions lead to the same cell, and both are there.
    pub fn coarse_stencil(&self, a: &Stencil) -> Result<Stencil> {
        let coarse = self.grids.coarse;
        let along = |axis: usize, o: i8| -> Vec<i8> {
            if coarse.periodic[axis] && coarse.dims[axis] <= 2 {
                return vec![-1, 0, 1];
            }
            let steps = self.steps_along(axis).flat_map(|d| self.coarse_steps(axis, d, o)).flatten();
            steps.map(|(step, _)| step).collect()
        };
        let mut found = [false; 27];
        let number = |[x, y, z]: Offset| (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize;
        found[number([0; 3])] = true;
        for [x, y, z] in &a.offsets {
            for dz in along(2, *z) {
                for dy in along(1, *y) {
                    for dx in along(0, *x) {
                        found[number([dx, dy, dz])] = true;
                    }
                }
            }
        }
        // A coarse cell that has no neighbour along an axis needs no offset to it.
        let exists =
            |offset: &Offset| (0..3).all(|axis| offset[axis] == 0 || coarse.dims[axis] > 1 || coarse.periodic[axis]);
        let all = (-1..=1).flat_map(|z| (-1..=1).flat_map(move |y| (-1..=1).map(move |x| [x, y, z])));
        let offsets: Vec<Offset> = all.filter(|offset| found[number(*offset)] && exists(offset)).collect();
        Stencil::new(coarse, a.block, &offsets)
    }

    /// Where the weights of a step for one unknown of a cell begin.
    #[inline(always)]
    pub fn array(&self, step: usize, c: usize) -> usize {
        (step * self.block + c) * self.grids.coarse.cells()
    }

    /// Stored weights.
    pub fn entries(&self) -> usize {
        self.steps.len() * self.block * self.grids.coarse.cells()
    }

    /// The fine cell of a step from a coarse one.
    #[inline(always)]
    pub fn fine(&self, [x, y, z]: [usize; 3], step: Offset) -> Option<[usize; 3]> {
        let grids = &self.grids;
        Some([grids.fine(0, x, step[0])?, grids.fine(1, y, step[1])?, grids.fine(2, z, step[2])?])
    }
}

/// The prolongator from a coarse grid, or its transpose, with shared weights.
pub struct SharedTransfer<T> {
    /// The pattern.
    pub pattern: Arc<TransferPattern>,
    /// Whether it is the restriction.
    pub transposed: bool,
    /// The weights: for each step and each unknown of a cell, one for every coarse cell.
    pub values: Arc<dyn Storage<T>>,
}

impl<T> Clone for SharedTransfer<T> {
    fn clone(&self) -> Self {
        let (pattern, values) = (Arc::clone(&self.pattern), Arc::clone(&self.values));
        SharedTransfer { pattern, transposed: self.transposed, values }
    }
}

impl<T: Number> SharedTransfer<T> {
    /// The weights of a step for one unknown of a cell.
    #[inline(always)]
    pub fn array(&self, step: usize, c: usize) -> &[T] {
        &self.values.as_slice()[self.pattern.array(step, c)..][..self.pattern.grids.coarse.cells()]
    }

    /// The same weights in another format; shared when the format is the same.
    pub fn cast<U: Number>(&self) -> Result<SharedTransfer<U>> {
        let same: &dyn std::any::Any = &self.values;
        let values = match same.downcast_ref::<Arc<dyn Storage<U>>>() {
            Some(values) => Arc::clone(values),
            None => Arc::new(cast(self.values.as_slice())?),
        };
        Ok(SharedTransfer { pattern: Arc::clone(&self.pattern), transposed: self.transposed, values })
    }

    /// The matrix in rows, of scalars.
    pub fn to_rows(&self) -> Result<SharedCsr<T>> {
        let (grids, b) = (&self.pattern.grids, self.pattern.block);
        let fine_rows = grids.fine.cells() * b;
        let parents = |row: usize| {
            let at = grids.fine.point(row / b);
            let along = |axis: usize| grids.parents(axis, at[axis], self.pattern.low).into_iter().flatten();
            let mut all: Vec<(usize, usize)> = Vec::new();
            for (z, dz) in along(2) {
                for (y, dy) in along(1) {
                    all.extend(
                        along(0).map(|(x, dx)| (grids.coarse.cell([x, y, z]), self.pattern.number([dx, dy, dz]))),
                    );
                }
            }
            all.sort_unstable();
            all
        };
        let mut counts = try_vec(fine_rows, 0_i64)?;
        counts.iter_mut().enumerate().for_each(|(row, count)| *count = parents(row).len() as i64);
        let offsets = par::offsets_from_counts(counts)?;
        let nnz = offsets[fine_rows] as usize;
        let (mut columns, mut values) = (try_vec(nnz, 0_i32)?, try_vec(nnz, T::ZERO)?);
        let mut at = 0;
        for row in 0..fine_rows {
            for (coarse, step) in parents(row) {
                columns[at] = (coarse * b + row % b) as i32;
                values[at] = self.array(step, row % b)[coarse];
                at += 1;
            }
        }
        let p = Csr { rows: fine_rows, cols: grids.coarse.cells() * b, block: Block::SCALAR, offsets, columns, values };
        let p = p.into_shared();
        if !self.transposed {
            return Ok(p);
        }
        let (offsets, columns) = transpose::pattern(&p.structure.view::<f64>(&[]))?;
        let (mut next, mut values) = (try_copy(&offsets)?, try_vec(nnz, T::ZERO)?);
        for row in 0..fine_rows {
            for (column, value) in p.view().row(row) {
                values[next[column] as usize] = value[0];
                next[column] += 1;
            }
        }
        let rows = grids.coarse.cells() * b;
        Ok(Csr { rows, cols: fine_rows, block: Block::SCALAR, offsets, columns, values }.into_shared())
    }
}
