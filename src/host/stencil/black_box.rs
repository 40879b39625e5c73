//! Prolongators on structured grids: piecewise constant, (tri)linear, and operator-dependent, which is the interpolation of black-box multigrid.
//!
//! Black box: a fine cell that lies between coarse ones along the axes O satisfies its own equation, with the entries along all other axes added
//! up. Let b_q be these sums for steps q along O, from the symmetric part of the matrix. The weight of a corner s of O is -Σ b_q w_q / b_0 over the
//! steps q towards the corner, with the weight w_q that the cell at q has for it; so edges come first, then faces, then the middle.

use super::product::line_grain;
use crate::backend::common::GridWeights;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, fail, try_vec};
use crate::host::{Host, HostMatrix};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Coarsened, Grid, Offset, SharedStencil, SharedTransfer, Stencil, TransferPattern};
use std::sync::Arc;

/// The prolongator from a coarser grid for a matrix.
pub fn prolongator<T: Scalar>(a: &SharedStencil<T>, grids: Coarsened, kind: GridWeights) -> Result<SharedTransfer<T>> {
    let low = if kind == GridWeights::Constant { 0 } else { -1 };
    let pattern = Arc::new(TransferPattern::new(grids, a.pattern.block, low));
    let mut weights = try_vec(pattern.entries(), T::ZERO)?;
    let b = pattern.block;
    match kind {
        GridWeights::BlackBox => {
            fill(&pattern, &mut weights, &|step| step == [0; 3], &|_, _, _| T::ONE);
            for class in grids.classes() {
                let corners = corner_weights(a, &pattern, class, &weights)?;
                let cells = Class::new(&grids, class);
                fill(&pattern, &mut weights, &|step| step.map(|d| d != 0) == class, &|at, step, c| {
                    let Some(place) = cells.place(&grids, at, step) else { return T::ZERO };
                    corners[(place * b + c) * 8 + corner_number(step)]
                });
            }
        }
        GridWeights::Constant => fill(&pattern, &mut weights, &|_| true, &|_, _, _| T::ONE),
        GridWeights::Linear => fill(&pattern, &mut weights, &|_| true, &|at, step, _| {
            let fine = pattern.fine(at, step).expect("weights are filled where there is a fine cell");
            let parents = |axis: usize| grids.parents(axis, fine[axis], low).iter().flatten().count();
            T::from_f64((0..3).map(|axis| 1.0 / parents(axis) as f64).product())
        }),
    }
    Ok(SharedTransfer { pattern, transposed: false, values: Arc::new(weights) })
}

/// Fills the weights of the steps that are `wanted` where there is a fine cell.
fn fill<T: Scalar>(
    pattern: &TransferPattern,
    weights: &mut [T],
    wanted: &(dyn Fn(Offset) -> bool + Sync),
    weight: &(dyn Fn([usize; 3], Offset, usize) -> T + Sync),
) {
    let (coarse, b) = (pattern.grids.coarse, pattern.block);
    let mx = coarse.dims[0];
    par::for_each_row_mut(weights, mx, line_grain(mx), |first, lines| {
        for (k, line) in lines.chunks_exact_mut(mx).enumerate() {
            let (array, number) = ((first + k) / coarse.lines(), (first + k) % coarse.lines());
            let (step, c) = (pattern.steps[array / b], array % b);
            if !wanted(step) {
                continue;
            }
            for (x, to) in line.iter_mut().enumerate() {
                let at = [x, number % coarse.dims[1], number / coarse.dims[1]];
                if pattern.fine(at, step).is_some() {
                    *to = weight(at, step, c);
                }
            }
        }
    });
}

/// The number of the corner that a step from a coarse cell comes from: a bit for each axis along which it lies on the right.
fn corner_number(step: Offset) -> usize {
    (0..3).filter(|axis| step[*axis] < 0).map(|axis| 1 << axis).sum()
}

/// The fine cells of a class: along its axes the odd ones, along other coarsened axes the even ones, and otherwise all.
struct Class {
    odd: [bool; 3],
    grid: Grid,
}

impl Class {
    fn new(grids: &Coarsened, odd: [bool; 3]) -> Class {
        let count = |axis: usize| match (grids.axes[axis], odd[axis]) {
            (true, true) => grids.fine.dims[axis] / 2,
            (true, false) => grids.fine.dims[axis].div_ceil(2),
            _ => grids.fine.dims[axis],
        };
        Class { odd, grid: Grid::new(std::array::from_fn(count)) }
    }

    /// The fine cell of a place.
    fn cell(&self, grids: &Coarsened, place: usize) -> [usize; 3] {
        let at = self.grid.point(place);
        std::array::from_fn(|axis| match grids.axes[axis] {
            true => 2 * at[axis] + usize::from(self.odd[axis]),
            false => at[axis],
        })
    }

    /// The place of the fine cell at a step from a coarse one.
    fn place(&self, grids: &Coarsened, coarse: [usize; 3], step: Offset) -> Option<usize> {
        let mut at = [0; 3];
        for axis in 0..3 {
            let fine = grids.fine(axis, coarse[axis], step[axis])?;
            at[axis] = if grids.axes[axis] { fine / 2 } else { fine };
        }
        Some(self.grid.cell(at))
    }
}

/// The weights of the corners of every fine cell of a class, eight places for each unknown of each cell.
fn corner_weights<T: Scalar>(
    a: &SharedStencil<T>,
    pattern: &TransferPattern,
    odd: [bool; 3],
    weights: &[T],
) -> Result<Vec<T>> {
    let (grids, b) = (&pattern.grids, pattern.block);
    let class = Class::new(grids, odd);
    let mut corners = try_vec(8 * b * class.grid.cells(), T::ZERO)?;
    let entries = Symmetric::new(a, odd);
    par::for_each_row_mut(&mut corners, 8 * b, par::ROW_GRAIN, |first, piece| {
        for (k, corners) in piece.chunks_exact_mut(8 * b).enumerate() {
            let at = class.cell(grids, first + k);
            for (c, corners) in corners.chunks_exact_mut(8).enumerate() {
                let equation = entries.collapsed(at, c);
                let weight = |coarse: [usize; 3], step: Offset| {
                    weights[pattern.array(pattern.number(step), c) + grids.coarse.cell(coarse)].to_f64()
                };
                equation.solve(grids, at, odd, &weight, corners);
            }
        }
    });
    Ok(corners)
}

/// The symmetric part of a matrix, unknown by unknown, with steps along the axes of a class only.
struct Symmetric<'a, T> {
    a: &'a SharedStencil<T>,
    stencil: &'a Stencil,
    /// In the order of sums.
    terms: Vec<Term>,
    /// Axes along which there are steps.
    has_steps: [bool; 3],
}

/// An offset of the stencil.
struct Term {
    offset: Offset,
    /// The number of the offset, and of the opposite one.
    k: usize,
    opposite: Option<usize>,
    /// What it adds to the number of a cell in the middle of the grid.
    shift: isize,
    /// Where its entry is added to the equation.
    q: usize,
}

/// The equation of a fine cell, entries along other axes added up.
struct Equation {
    /// By step: 1 + x + 3 (1 + y) + 9 (1 + z).
    b: [f64; 27],
    diagonal: f64,
    /// Sum of all entries, and of their absolute values.
    sum: f64,
    size: f64,
}

impl<'a, T: Scalar> Symmetric<'a, T> {
    fn new(a: &'a SharedStencil<T>, odd: [bool; 3]) -> Symmetric<'a, T> {
        let stencil = &*a.pattern;
        let [nx, ny, _] = stencil.grid.dims.map(|n| n as isize);
        let all =
            stencil.lines.iter().flat_map(|line| line.steps.iter().map(|(x, k)| ([*x, line.to[0], line.to[1]], *k)));
        let term = |(offset, k): (Offset, usize)| {
            let [x, y, z] = offset.map(isize::from);
            let opposite = stencil.find(offset.map(|step| -step));
            let q = number(std::array::from_fn(|axis| if odd[axis] { offset[axis] } else { 0 }));
            Term { offset, k, opposite, shift: x + nx * (y + ny * z), q }
        };
        let has_steps = std::array::from_fn(|axis| stencil.offsets.iter().any(|offset| offset[axis] != 0));
        Symmetric { a, stencil, terms: all.map(term).collect(), has_steps }
    }

    /// The equation of a cell.
    fn collapsed(&self, at: [usize; 3], c: usize) -> Equation {
        let (grid, cell, values) = (&self.stencil.grid, self.stencil.grid.cell(at), self.a.values.as_slice());
        let is_inner = |axis: usize| !self.has_steps[axis] || at[axis] > 0 && at[axis] + 1 < grid.dims[axis];
        let inner = (0..3).all(is_inner);
        let mut equation = Equation { b: [0.0; 27], diagonal: 0.0, sum: 0.0, size: 0.0 };
        for term in &self.terms {
            let to = if inner { Some(cell.wrapping_add_signed(term.shift)) } else { grid.neighbour(at, term.offset) };
            let Some(to) = to else { continue };
            let there = term.opposite.map_or(0.0, |k| values[self.stencil.array(k, c, c) + to].to_f64());
            let entry = 0.5 * (values[self.stencil.array(term.k, c, c) + cell].to_f64() + there);
            equation.sum += entry;
            equation.size += entry.abs();
            if term.offset == [0; 3] {
                equation.diagonal = entry;
            }
            equation.b[term.q] += entry;
        }
        equation
    }
}

fn number([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

impl Equation {
    /// The weights of all corners.
    fn solve<T: Scalar>(
        &self,
        grids: &Coarsened,
        at: [usize; 3],
        odd: [bool; 3],
        weight: &dyn Fn([usize; 3], Offset) -> f64,
        corners: &mut [T],
    ) {
        let rounding = GridWeights::rounding::<T>();
        let sum = if self.sum.abs() <= rounding * self.size { 0.0 } else { self.sum };
        let middle = number([0; 3]);
        let others: f64 = self.b.iter().enumerate().filter(|(q, _)| *q != middle).map(|(_, b)| b).sum();
        let b_0 = sum - others;
        let usable = b_0 * self.diagonal > 0.0 && b_0.abs() > rounding * self.size;
        let mut count = 0.0;
        for (bits, corner) in corners.iter_mut().enumerate() {
            let Some((coarse, side)) = corner_cell(grids, at, odd, bits) else { continue };
            count += 1.0;
            if !usable {
                *corner = T::ONE;
                continue;
            }
            // All steps towards the corner: its side along some of the axes.
            let mut total = 0.0;
            for part in 1..8_usize {
                if (0..3).any(|axis| part >> axis & 1 == 1 && !odd[axis]) {
                    continue;
                }
                let along = |axis: usize| part >> axis & 1 == 1;
                let q: Offset = std::array::from_fn(|axis| if along(axis) { side[axis] } else { 0 });
                let left: Offset = std::array::from_fn(|axis| if odd[axis] && !along(axis) { -side[axis] } else { 0 });
                total += self.b[number(q)] * weight(coarse, left);
            }
            *corner = T::from_f64(-total / b_0);
        }
        if !usable {
            corners.iter_mut().for_each(|corner| *corner = T::from_f64(corner.to_f64() / count));
        }
    }
}

/// The coarse cell at a corner of a fine one, and its side along each axis; none where there is no such corner.
fn corner_cell(grids: &Coarsened, at: [usize; 3], odd: [bool; 3], bits: usize) -> Option<([usize; 3], Offset)> {
    let (mut coarse, mut side) = ([0; 3], [0; 3]);
    for axis in 0..3 {
        let right = bits >> axis & 1 == 1;
        if !odd[axis] {
            if right {
                return None;
            }
            coarse[axis] = if grids.axes[axis] { at[axis] / 2 } else { at[axis] };
            continue;
        }
        let parents = grids.parents(axis, at[axis], -1);
        (coarse[axis], _) = parents[usize::from(right)]?;
        side[axis] = if right { 1 } else { -1 };
    }
    Some((coarse, side))
}

/// The component.
pub struct GridInterpolation {
    /// Its formula.
    pub kind: GridWeights,
    /// As the options spell it.
    pub name: &'static str,
}

impl<T: Scalar> Interpolation<Host, T> for GridInterpolation {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (HostMatrix::Stencil(a), Coarse::Grid(grids)) = (input.a, input.coarse) else {
            let name = self.name;
            return fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs a structured grid; use amg.coarsening.type \"grid\" with it"
            );
        };
        Ok(Interpolated::alone(HostMatrix::Transfer(prolongator(a, *grids, self.kind)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;

    fn rows_of(p: &SharedTransfer<f64>) -> crate::sparse::SharedCsr<f64> {
        p.to_rows().unwrap()
    }

    #[test]
    fn on_a_line_weights_are_those_of_the_couplings() {
        // Diffusion with coefficients 1, 4, 1, 4, ... between cells, and nothing at the ends: the rows of F cells sum up to zero.
        let n = 7;
        let k = |face: usize| if face.is_multiple_of(2) { 1.0 } else { 4.0 };
        let mut t = Vec::new();
        for i in 0..n {
            let (left, right) = (if i > 0 { k(i - 1) } else { 0.0 }, if i + 1 < n { k(i) } else { 0.0 });
            t.push((i, i, left + right));
            if i > 0 {
                t.push((i, i - 1, -left));
            }
            if i + 1 < n {
                t.push((i, i + 1, -right));
            }
        }
        let a = crate::sparse::Csr::from_triplets(n, n, &t).unwrap();
        let a = SharedStencil::from_rows(&a, Grid::new([n, 1, 1])).unwrap();
        let grids = Coarsened::new(a.pattern.grid, [true, false, false]);
        let p = rows_of(&prolongator(&a, grids, GridWeights::BlackBox).unwrap());
        assert_eq!(p.view().row(1).map(|(j, v)| (j, v[0])).collect::<Vec<_>>(), [(0, 0.2), (1, 0.8)]);
        let p = rows_of(&prolongator(&a, grids, GridWeights::Linear).unwrap());
        assert_eq!(p.view().row(3).map(|(j, v)| (j, v[0])).collect::<Vec<_>>(), [(1, 0.5), (2, 0.5)]);
        let p = rows_of(&prolongator(&a, grids, GridWeights::Constant).unwrap());
        assert_eq!(p.view().row(3).map(|(j, v)| (j, v[0])).collect::<Vec<_>>(), [(1, 1.0)]);
    }

    #[test]
    fn constants_are_interpolated_where_rows_sum_up_to_zero() {
        for (name, dims) in [("poisson7:7x9x8", [7, 9, 8]), ("poisson27:7x9x8", [7, 9, 8]), ("jumps:9", [9; 3])] {
            let a = gallery::parse(name).unwrap().matrix;
            let sums: Vec<f64> = (0..a.rows).map(|i| a.view().row(i).map(|(_, v)| v[0]).sum()).collect();
            let a = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
            for axes in [[true; 3], [false, true, true], [true, false, false]] {
                let p = rows_of(&prolongator(&a, Coarsened::new(a.pattern.grid, axes), GridWeights::BlackBox).unwrap());
                let inner = |i: usize| {
                    let at = a.pattern.grid.point(i);
                    (0..3).all(|axis| (2..dims[axis] - 2).contains(&at[axis]))
                };
                for i in (0..sums.len()).filter(|i| inner(*i)) {
                    let total: f64 = p.view().row(i).map(|(_, v)| v[0]).sum();
                    assert!((total - 1.0).abs() < 1e-9, "{name} {axes:?} {i}: {total} {}", sums[i]);
                }
            }
        }
    }

    /// The five-point Laplacian has bilinear weights inside.
    #[test]
    fn the_laplacian_is_interpolated_linearly() {
        let a = gallery::poisson5(9, 9).unwrap();
        let a = SharedStencil::from_rows(&a, Grid::new([9, 9, 1])).unwrap();
        let grids = Coarsened::new(a.pattern.grid, [true, true, false]);
        let (black_box, linear) = (
            prolongator(&a, grids, GridWeights::BlackBox).unwrap(),
            prolongator(&a, grids, GridWeights::Linear).unwrap(),
        );
        let (black_box, linear) = (rows_of(&black_box), rows_of(&linear));
        for i in [3 * 9 + 4, 4 * 9 + 3, 5 * 9 + 5, 4 * 9 + 4] {
            let weights =
                |p: &crate::sparse::SharedCsr<f64>| p.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
            assert_eq!(weights(&black_box), weights(&linear), "{i}");
        }
    }
}
