//! Prolongators on structured grids: piecewise constant, (tri)linear, and operator-dependent, which is the interpolation of black-box multigrid.
//!
//! Black box: a fine cell that lies between coarse ones along the axes O satisfies its own equation, with the entries along all other axes added
//! up. Let b_q be these sums for steps q along O, from the symmetric part of the matrix. The weight of a corner s of O is -Σ b_q w_q / b_0 over the
//! steps q towards the corner, with the weight w_q that the cell at q has for it; so edges come first, then faces, then the middle.

use super::product::line_grain;
use super::split::{split, split_length};
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
            // Classes of the same lines together. They need the weights of those before.
            for lines in [[false, false], [true, false], [false, true], [true, true]] {
                let on_lines = grids.classes().into_iter().filter(|odd| odd[1..] == lines);
                let classes: Vec<_> = on_lines.map(|odd| Class::new(a, &pattern, odd)).collect();
                if classes.is_empty() {
                    continue;
                }
                let corners = corner_weights(&classes, &weights)?;
                let mut begin = 0;
                for class in &classes {
                    class.put(&corners, (begin, width_of(&classes)), &mut weights);
                    begin += class.width();
                }
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

/// Another class of the same lines, and the weights of its corners on one of them.
type Beside<'b, 'a, T> = Option<(&'b Class<'a, T>, &'b [T])>;

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

    /// Weights of all corners of a line of cells: one array for each unknown and corner.
    fn width(&self) -> usize {
        self.pattern.block * corners_of(self.odd).count() * self.cells[0]
    }

    /// The corners of a line of cells. The grid is coarser along x (X) or not.
    #[inline(always)]
    fn line<const X: bool>(
        &self,
        at: [usize; 2],
        (weights, beside): (&[T], Beside<'_, 'a, T>),
        equations: &mut Equations<T>,
        out: &mut [T],
    ) {
        let (kx, count) = (self.cells[0], corners_of(self.odd).count());
        equations.set_cells(kx);
        for (c, out) in out.chunks_exact_mut(count * kx).enumerate() {
            self.collapse::<X>(at, c, equations);
            equations.set_middle(self.steps(), GridWeights::rounding::<T>());
            for (bits, out) in corners_of(self.odd).zip(out.chunks_exact_mut(kx)) {
                self.corner(equations, bits, at, c, (weights, beside), out);
            }
        }
    }

    /// One array of [`Class::width`].
    #[inline(always)]
    fn corner_of_line<'b>(&self, corners: &'b [T], c: usize, bits: usize) -> &'b [T] {
        let rank = corners_of(self.odd).position(|other| other == bits).expect("it is one of the corners");
        &corners[(c * corners_of(self.odd).count() + rank) * self.cells[0]..][..self.cells[0]]
    }

    /// The numbers of the steps along the axes of the class, ascending.
    fn steps(&self) -> impl Iterator<Item = usize> + use<T> {
        let odd = self.odd;
        (0..27).filter(move |q| (0..3).all(|axis| odd[axis] || q / [1, 3, 9][axis] % 3 == 1))
    }

    /// The equations of a line of cells, from the symmetric part of the matrix.
    #[inline(always)]
    fn collapse<const X: bool>(&self, at: [usize; 2], c: usize, equations: &mut Equations<T>) {
        let (grid, stencil, values) = (&self.pattern.grids.fine, &*self.a.pattern, self.a.values.as_slice());
        let ([nx, ny, _], kx) = (grid.dims, self.cells[0]);
        let [y, z] = std::array::from_fn(|k| match self.pattern.grids.axes[k + 1] {
            true => 2 * at[k] + usize::from(self.odd[k + 1]),
            false => at[k],
        });
        equations.clear(self.steps());
        let Equations { b, diagonal, sum, size, lines: [of_here, of_there], zeros, .. } = equations;
        for term in &self.terms {
            let [dx, dy, dz] = term.offset;
            let (Some(to_y), Some(to_z)) = (grid.step(1, y, dy), grid.step(2, z, dz)) else { continue };
            let line = |k: usize, y: usize, z: usize| &values[stencil.array(k, c, c) + nx * (y + ny * z)..][..nx];
            let here = self.cells_of::<X>(line(term.k, y, z), 0, of_here);
            let there = match term.opposite {
                Some(k) => self.cells_of::<X>(line(k, to_y, to_z), dx, of_there),
                None => &zeros[..kx],
            };
            // Both are zero where the offset leads out of the grid.
            let sums = b[term.q * kx..][..kx].iter_mut().zip(&mut sum[..]).zip(&mut size[..]);
            for (((b, sum), size), (here, there)) in sums.zip(here.iter().zip(there)) {
                let entry = 0.5 * (here.to_f64() + there.to_f64());
                *sum += entry;
                *size += entry.abs();
                *b += entry;
            }
            if term.offset == [0; 3] {
                diagonal.iter_mut().zip(here).for_each(|(to, own)| *to = own.to_f64());
            }
        }
    }

    /// What a line has for the cells of the class, or one step from them along x.
    #[inline(always)]
    fn cells_of<'b, const X: bool>(&self, line: &[T], step: i8, array: &'b mut [T]) -> &'b [T] {
        let (kx, periodic) = (self.cells[0], self.pattern.grids.fine.periodic[0]);
        if !X {
            let end = |at: usize| if periodic { line[at] } else { T::ZERO };
            (array[0], array[kx + 1]) = (end(kx - 1), end(0));
            array[1..=kx].copy_from_slice(line);
            return &array[(1 + step) as usize..][..kx];
        }
        let cells = split(line, periodic, array);
        match step + i8::from(self.odd[0]) {
            -1 => &cells.odd[..kx],
            0 => &cells.even[..kx],
            1 => &cells.odd[1..=kx],
            _ => &cells.even[1..=kx],
        }
    }

    /// The weights of a corner of a line of cells; they stay as they are where there is no such line of coarse cells.
    #[inline(always)]
    fn corner(
        &self,
        equations: &mut Equations<T>,
        bits: usize,
        at: [usize; 2],
        c: usize,
        (weights, beside): (&[T], Beside<'_, 'a, T>),
        out: &mut [T],
    ) {
        let (coarse, pattern, odd, kx) = (&self.pattern.grids.coarse, self.pattern, self.odd, self.cells[0]);
        let is_right = |axis: usize| bits >> axis & 1 == 1;
        let right = |axis: usize| coarse.step(axis, at[axis - 1], 1);
        let cell = |axis: usize| if is_right(axis) { right(axis) } else { Some(at[axis - 1]) };
        let (Some(y), Some(z), mx) = (cell(1), cell(2), coarse.dims[0]) else { return };
        equations.total.fill(0.0);
        // All steps towards the corner: its side along some of the axes.
        for part in corners_of(odd).skip(1) {
            let along = |axis: usize| part >> axis & 1 == 1;
            let side = |axis: usize| if is_right(axis) { 1_i8 } else { -1 };
            let q: Offset = std::array::from_fn(|axis| if along(axis) { side(axis) } else { 0 });
            let left: Offset = std::array::from_fn(|axis| if odd[axis] && !along(axis) { -side(axis) } else { 0 });
            let line = match beside {
                // Cells between coarse ones along y and z alone are on this very line.
                Some((class, corners)) if left.map(|d| d != 0) == class.odd => {
                    class.corner_of_line(corners, c, bits & !1)
                }
                _ => &weights[pattern.array(pattern.number(left), c) + mx * (y + coarse.dims[1] * z)..][..mx],
            };
            let shifted = &line[usize::from(is_right(0)).min(mx)..];
            let b = &equations.b[number(q) * kx..][..kx];
            for ((total, b), weight) in equations.total.iter_mut().zip(b).zip(shifted) {
                *total += b * weight.to_f64();
            }
            // The coarse cell behind the last one, where the first is beside it.
            if shifted.len() < kx && coarse.periodic[0] {
                equations.total[kx - 1] += b[kx - 1] * line[0].to_f64();
            }
        }
        // Where the equation is of no use, all corners that are there have the same weight.
        let sides = |axis: usize| if odd[axis] && right(axis).is_some() { 2.0 } else { 1.0 };
        let lines = sides(1) * sides(2);
        let same = |x: usize| 1.0 / if odd[0] && coarse.step(0, x, 1).is_some() { 2.0 * lines } else { lines };
        let inside = if kx > 1 { same(0) } else { same(kx - 1) };
        for ((to, total), b_0) in out.iter_mut().zip(&equations.total).zip(&equations.middle) {
            *to = T::from_f64(if *b_0 == 0.0 { inside } else { -total / b_0 });
        }
        if equations.middle[kx - 1] == 0.0 {
            out[kx - 1] = T::from_f64(same(kx - 1));
        }
    }

    /// Puts the weights of all corners where the pattern has them.
    fn put(&self, corners: &[T], (begin, width): (usize, usize), weights: &mut [T]) {
        let (grids, b, [kx, ky, _]) = (&self.pattern.grids, self.pattern.block, self.cells);
        let [mx, my, _] = grids.coarse.dims;
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
                let of_line = &corners[(y + ky * z) * width + begin..][..self.width()];
                let from = self.corner_of_line(of_line, array % b, corner_number(step));
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

/// Weights of a line of all classes.
fn width_of<T: Scalar>(classes: &[Class<'_, T>]) -> usize {
    classes.iter().map(Class::width).sum()
}

/// The weights of all corners of classes of the same lines, line by line, one class after the other. The lines of the matrix are read while they are in a
/// cache.
fn corner_weights<T: Scalar>(classes: &[Class<'_, T>], weights: &[T]) -> Result<Vec<T>> {
    let (class, width) = (&classes[0], width_of(classes));
    let ([_, ky, kz], mx) = (class.cells, class.pattern.grids.coarse.dims[0]);
    let mut corners = try_vec(width * ky * kz, T::ZERO)?;
    let failure = par::Failure::default();
    par::for_each_row_mut(&mut corners, width.max(1), line_grain(8 * mx), |first, lines| {
        failure.keep(Equations::new(mx).map(|mut equations| {
            for (k, line) in lines.chunks_exact_mut(width).enumerate() {
                let at = [(first + k) % ky, (first + k) / ky];
                let mut beside: Beside<'_, '_, T> = None;
                let mut rest = line;
                for class in classes {
                    let (out, next) = std::mem::take(&mut rest).split_at_mut(class.width());
                    match class.pattern.grids.axes[0] {
                        true => widely(
                            #[inline(always)]
                            || class.line::<true>(at, (weights, beside), &mut equations, out),
                        ),
                        false => widely(
                            #[inline(always)]
                            || class.line::<false>(at, (weights, beside), &mut equations, out),
                        ),
                    }
                    beside = Some((class, &*out));
                    rest = next;
                }
            }
        }));
    });
    failure.check()?;
    Ok(corners)
}

/// The number of the corner that a step from a coarse cell comes from.
fn corner_number(step: Offset) -> usize {
    (0..3).filter(|axis| step[*axis] < 0).map(|axis| 1 << axis).sum()
}

#[inline(always)]
fn number([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

/// The equations of a line of fine cells, entries along other axes than those of the class added up.
struct Equations<T> {
    cells: usize,
    /// By step, 1 + x + 3 (1 + y) + 9 (1 + z), and cell.
    b: Vec<f64>,
    diagonal: Vec<f64>,
    /// Sum of all entries, and of their absolute values.
    sum: Vec<f64>,
    size: Vec<f64>,
    /// The entry in the middle, or zero where it cannot be divided by.
    middle: Vec<f64>,
    /// What the weights of a corner are divided from.
    total: Vec<f64>,
    /// Lines of an offset and of its opposite, their even and odd cells apart; and zeros.
    lines: [Vec<T>; 2],
    zeros: Vec<T>,
}

impl<T: Scalar> Equations<T> {
    /// For lines of so many coarse cells, and at most as many of the class.
    fn new(cells: usize) -> Result<Equations<T>> {
        let zeros = || try_vec(cells, 0.0);
        let line = || try_vec(split_length(cells), T::ZERO);
        Ok(Equations {
            cells,
            b: try_vec(27 * cells, 0.0)?,
            diagonal: zeros()?,
            sum: zeros()?,
            size: zeros()?,
            middle: zeros()?,
            total: zeros()?,
            lines: [line()?, line()?],
            zeros: line()?,
        })
    }

    /// Another number of cells of the class, of which there is memory for.
    fn set_cells(&mut self, cells: usize) {
        self.cells = cells;
        for array in [&mut self.diagonal, &mut self.sum, &mut self.size, &mut self.middle, &mut self.total] {
            array.resize(cells, 0.0);
        }
    }

    fn clear(&mut self, steps: impl Iterator<Item = usize>) {
        steps.for_each(|q| self.b[q * self.cells..][..self.cells].fill(0.0));
        self.diagonal.fill(0.0);
        self.sum.fill(0.0);
        self.size.fill(0.0);
    }

    /// The entries in the middle, from the sums of rows.
    #[inline(always)]
    fn set_middle(&mut self, steps: impl Iterator<Item = usize>, rounding: f64) {
        let others = &mut self.total;
        others.fill(0.0);
        for q in steps.filter(|q| *q != number([0; 3])) {
            others.iter_mut().zip(&self.b[q * self.cells..]).for_each(|(others, b)| *others += b);
        }
        let sums = self.sum.iter().zip(&self.size).zip(&*others);
        for ((middle, diagonal), ((sum, size), others)) in self.middle.iter_mut().zip(&self.diagonal).zip(sums) {
            let sum = if sum.abs() <= rounding * size { 0.0 } else { *sum };
            let b_0 = sum - others;
            let is_usable = b_0 * diagonal > 0.0 && b_0.abs() > rounding * size;
            *middle = if is_usable { b_0 } else { 0.0 };
        }
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
