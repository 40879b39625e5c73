//! Prolongators on structured grids: piecewise constant, (tri)linear, and operator-dependent, which is the interpolation of black-box multigrid.
//!
//! Black box: a fine cell that lies between coarse ones along the axes O satisfies its own equation, with the entries along all other axes added
//! up. Let b_q be these sums for steps q along O, from the symmetric part of the matrix. The weight of a corner s of O is -Σ b_q w_q / b_0 over the
//! steps q towards the corner, with the weight w_q that the cell at q has for it; so edges come first, then faces, then the middle.

use super::lanes::{LANES, Lanes, cells_at, every_other, starts};
use super::product::line_grain;
use crate::backend::common::GridWeights;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, fail, try_vec};
use crate::host::registers::widely;
use crate::host::{Host, HostMatrix};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Coarsened, Offset, SharedStencil, SharedTransfer, TransferPattern};
use std::sync::Arc;

/// The prolongator from a coarser grid for a matrix.
pub fn prolongator<T: Scalar>(a: &SharedStencil<T>, grids: Coarsened, kind: GridWeights) -> Result<SharedTransfer<T>> {
    let low = if kind == GridWeights::Constant { 0 } else { -1 };
    let pattern = Arc::new(TransferPattern::new(grids, a.pattern.block, low));
    let mut weights = try_vec(pattern.entries(), T::ZERO)?;
    match kind {
        GridWeights::BlackBox => {
            fill(&pattern, &mut weights, &|step| step == [0; 3], &|_, _, _| T::ONE);
            for odd in grids.classes() {
                let class = Class::new(a, &pattern, odd);
                let corners = class.corner_weights(&weights)?;
                class.put(&corners, &mut weights);
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

/// The corners of fine cells that lie between coarse ones along the axes `odd`: a bit for each axis along which the coarse cell lies on the right.
fn corners_of(odd: [bool; 3]) -> impl Iterator<Item = usize> + Clone {
    (0..8_usize).filter(move |bits| (0..3).all(|axis| bits >> axis & 1 == 0 || odd[axis]))
}

/// The fine cells of a class: along its axes the odd ones, along other coarsened axes the even ones, and otherwise all.
struct Class<'a, T> {
    a: &'a SharedStencil<T>,
    pattern: &'a TransferPattern,
    odd: [bool; 3],
    /// Cells of the class along each axis.
    cells: [usize; 3],
    /// Offsets of the stencil in the order of sums.
    terms: Vec<Term>,
}

/// An offset of the stencil.
struct Term {
    offset: Offset,
    /// The number of the offset, and of the opposite one.
    k: usize,
    opposite: Option<usize>,
    /// Where its entry is added to the equation, with steps along the axes of the class only.
    q: usize,
}

impl<'a, T: Scalar> Class<'a, T> {
    fn new(a: &'a SharedStencil<T>, pattern: &'a TransferPattern, odd: [bool; 3]) -> Class<'a, T> {
        let (stencil, grids) = (&*a.pattern, &pattern.grids);
        let count = |axis: usize| match (grids.axes[axis], odd[axis]) {
            (true, true) => grids.fine.dims[axis] / 2,
            (true, false) => grids.fine.dims[axis].div_ceil(2),
            _ => grids.fine.dims[axis],
        };
        let all =
            stencil.lines.iter().flat_map(|line| line.steps.iter().map(|(x, k)| ([*x, line.to[0], line.to[1]], *k)));
        let term = |(offset, k): (Offset, usize)| {
            let q = number(std::array::from_fn(|axis| if odd[axis] { offset[axis] } else { 0 }));
            Term { offset, k, opposite: stencil.find(offset.map(|step| -step)), q }
        };
        Class { a, pattern, odd, cells: std::array::from_fn(count), terms: all.map(term).collect() }
    }

    /// The weights of all corners, line by line: one array for each unknown and corner.
    fn corner_weights(&self, weights: &[T]) -> Result<Vec<T>> {
        let ([kx, ky, kz], b) = (self.cells, self.pattern.block);
        let width = b * corners_of(self.odd).count() * kx;
        let mut corners = try_vec(width * ky * kz, T::ZERO)?;
        par::for_each_row_mut(&mut corners, width.max(1), line_grain(8 * kx), |first, lines| {
            for (k, line) in lines.chunks_exact_mut(width).enumerate() {
                let at = [(first + k) % ky, (first + k) / ky];
                match self.pattern.grids.axes[0] {
                    true => widely(|| self.line::<true>(at, weights, line)),
                    false => widely(|| self.line::<false>(at, weights, line)),
                }
            }
        });
        Ok(corners)
    }

    /// The corners of a line of cells. The grid is coarser along x (X) or not.
    #[inline(always)]
    fn line<const X: bool>(&self, at: [usize; 2], weights: &[T], out: &mut [T]) {
        let (kx, count) = (self.cells[0], corners_of(self.odd).count());
        for c in 0..self.pattern.block {
            for x in starts(kx) {
                let equation = self.collapsed::<X>(x, at, c);
                let middle = equation.middle(GridWeights::rounding::<T>());
                for (rank, bits) in corners_of(self.odd).enumerate() {
                    if let Some(corner) = self.corner((&equation, &middle), bits, (x, at), c, weights) {
                        out[(c * count + rank) * kx + x..][..LANES.min(kx)].copy_from_slice(&corner[..LANES.min(kx)]);
                    }
                }
            }
        }
    }

    /// The equations of the cells from x on, from the symmetric part of the matrix.
    #[inline(always)]
    fn collapsed<const X: bool>(&self, x: usize, at: [usize; 2], c: usize) -> Equation {
        let (grid, stencil, values) = (&self.pattern.grids.fine, &*self.a.pattern, self.a.values.as_slice());
        let [nx, ny, _] = grid.dims;
        let [y, z] = std::array::from_fn(|k| match self.pattern.grids.axes[k + 1] {
            true => 2 * at[k] + usize::from(self.odd[k + 1]),
            false => at[k],
        });
        let entries = |k: usize, y: usize, z: usize, step: i8| {
            let line = &values[stencil.array(k, c, c) + nx * (y + ny * z)..][..nx];
            match X {
                true => every_other(line, 2 * x + usize::from(self.odd[0]), step, grid.periodic[0]),
                false => cells_at(line, x, step, grid.periodic[0]),
            }
        };
        let mut equation =
            Equation { b: [[0.0; LANES]; 27], diagonal: [0.0; LANES], sum: [0.0; LANES], size: [0.0; LANES] };
        for term in &self.terms {
            let [dx, dy, dz] = term.offset;
            let (Some(to_y), Some(to_z)) = (grid.step(1, y, dy), grid.step(2, z, dz)) else { continue };
            // Both are zero where the offset leads out of the grid.
            let here = entries(term.k, y, z, 0);
            let there = term.opposite.map_or([T::ZERO; LANES], |k| entries(k, to_y, to_z, dx));
            let entry: Lanes<f64> = std::array::from_fn(|k| 0.5 * (here[k].to_f64() + there[k].to_f64()));
            for (k, entry) in entry.into_iter().enumerate() {
                equation.sum[k] += entry;
                equation.size[k] += entry.abs();
                equation.b[term.q][k] += entry;
            }
            if term.offset == [0; 3] {
                equation.diagonal = entry;
            }
        }
        equation
    }

    /// The weights of a corner of the cells from x on; none where there is no such line.
    #[inline(always)]
    fn corner(
        &self,
        (equation, (b_0, usable)): (&Equation, &(Lanes<f64>, [bool; LANES])),
        bits: usize,
        (x, at): (usize, [usize; 2]),
        c: usize,
        weights: &[T],
    ) -> Option<Lanes<T>> {
        let (coarse, pattern, odd) = (&self.pattern.grids.coarse, self.pattern, self.odd);
        let is_right = |axis: usize| bits >> axis & 1 == 1;
        let right = |axis: usize| coarse.step(axis, at[axis - 1], 1);
        let cell = |axis: usize| if is_right(axis) { right(axis) } else { Some(at[axis - 1]) };
        let (y, z, mx) = (cell(1)?, cell(2)?, coarse.dims[0]);
        // All steps towards the corner: its side along some of the axes.
        let mut total = [0.0; LANES];
        for part in corners_of(odd).skip(1) {
            let along = |axis: usize| part >> axis & 1 == 1;
            let side = |axis: usize| if is_right(axis) { 1_i8 } else { -1 };
            let q: Offset = std::array::from_fn(|axis| if along(axis) { side(axis) } else { 0 });
            let left: Offset = std::array::from_fn(|axis| if odd[axis] && !along(axis) { -side(axis) } else { 0 });
            let line = &weights[pattern.array(pattern.number(left), c) + mx * (y + coarse.dims[1] * z)..][..mx];
            let weight = cells_at(line, x, i8::from(is_right(0)), coarse.periodic[0]);
            for k in 0..LANES {
                total[k] += equation.b[number(q)][k] * weight[k].to_f64();
            }
        }
        // Where the equation is of no use, all corners that are there have the same weight.
        let sides = |axis: usize| if odd[axis] && right(axis).is_some() { 2.0 } else { 1.0 };
        let lines = sides(1) * sides(2);
        Some(std::array::from_fn(|k| {
            let has_right = odd[0] && coarse.step(0, (x + k).min(mx - 1), 1).is_some();
            let same = 1.0 / if has_right { 2.0 * lines } else { lines };
            T::from_f64(if usable[k] { -total[k] / b_0[k] } else { same })
        }))
    }

    /// Puts the weights of all corners where the pattern has them.
    fn put(&self, corners: &[T], weights: &mut [T]) {
        let (grids, b, [kx, ky, _]) = (&self.pattern.grids, self.pattern.block, self.cells);
        let ([mx, my, _], count) = (grids.coarse.dims, corners_of(self.odd).count());
        par::for_each_row_mut(weights, mx, line_grain(mx), |first, lines| {
            for (k, to) in lines.chunks_exact_mut(mx).enumerate() {
                let (array, line) = ((first + k) / grids.coarse.lines(), (first + k) % grids.coarse.lines());
                let step = self.pattern.steps[array / b];
                if step.map(|d| d != 0) != self.odd {
                    continue;
                }
                let place = |axis: usize, at: usize| {
                    grids.fine(axis, at, step[axis]).map(|fine| if grids.axes[axis] { fine / 2 } else { fine })
                };
                let (Some(y), Some(z)) = (place(1, line % my), place(2, line / my)) else { continue };
                let rank = corners_of(self.odd).position(|bits| bits == corner_number(step));
                let rank = rank.expect("a step leads to one of the corners");
                let from = &corners[(((y + ky * z) * b + array % b) * count + rank) * kx..][..kx];
                if step[0] >= 0 {
                    to[..kx].copy_from_slice(from);
                    continue;
                }
                to[1..].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                if let Some(x) = place(0, 0) {
                    to[0] = from[x];
                }
            }
        });
    }
}

/// The number of the corner that a step from a coarse cell comes from.
fn corner_number(step: Offset) -> usize {
    (0..3).filter(|axis| step[*axis] < 0).map(|axis| 1 << axis).sum()
}

#[inline(always)]
fn number([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

/// The equations of some fine cells, entries along other axes than those of the class added up.
struct Equation {
    /// By step: 1 + x + 3 (1 + y) + 9 (1 + z).
    b: [Lanes<f64>; 27],
    diagonal: Lanes<f64>,
    /// Sum of all entries, and of their absolute values.
    sum: Lanes<f64>,
    size: Lanes<f64>,
}

impl Equation {
    /// The entry in the middle, from the sum of the row; and whether it can be divided by.
    #[inline(always)]
    fn middle(&self, rounding: f64) -> (Lanes<f64>, [bool; LANES]) {
        let mut others = [0.0; LANES];
        for (q, b) in self.b.iter().enumerate() {
            if q != number([0; 3]) {
                for k in 0..LANES {
                    others[k] += b[k];
                }
            }
        }
        let b_0 = std::array::from_fn(|k| {
            let sum = if self.sum[k].abs() <= rounding * self.size[k] { 0.0 } else { self.sum[k] };
            sum - others[k]
        });
        let is_usable = |k: usize| b_0[k] * self.diagonal[k] > 0.0 && b_0[k].abs() > rounding * self.size[k];
        (b_0, std::array::from_fn(is_usable))
    }
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

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Grid;

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
