//! The Galerkin product R A P of stencils, which is a stencil again.
//!
//! R A comes first: row I has an entry for each fine cell at 2 I + s, with |s| <= 2 along each axis, which is the sum over all steps d of R and offsets
//! o of A with d + o = s. Each of them is then multiplied by P. With 27 points and 27 weights these are 27² products and 7³, where one for each
//! d, o and step of P would be 13³. Along x the loop over I is the innermost one, with several coarse cells in a register.
//!
//! Sums of R A have the order of d along z, then of d along y, then of o along x; those of R A P the order of s along z, y and x. GPUs have the same.

use super::lanes::{LANES, Lanes, by_steps, cells_at, multiply_add, starts};
use super::product::line_grain;
use crate::error::{Result, try_vec};
use crate::host::registers::widely;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{MAX_OFFSETS, Offset, SharedStencil, SharedTransfer, Stencil, TransferPattern};
use std::sync::Arc;

/// R A P, with ones for zeros on the diagonal. R has the pattern of Pᵀ.
pub fn product<T: Scalar>(
    r: &SharedTransfer<T>,
    a: &SharedStencil<T>,
    p: &SharedTransfer<T>,
) -> Result<SharedStencil<T>> {
    let pattern = p.pattern.coarse_stencil(&a.pattern)?;
    let (cells, b) = (pattern.grid.cells(), pattern.block);
    let ([mx, _, _], arrays) = (pattern.grid.dims, pattern.offsets.len() * b * b);
    // Line by line first: tasks have lines.
    let width = arrays * mx;
    let mut lines = try_vec(width * pattern.grid.lines(), T::ZERO)?;
    let (of_a, of_coarse) = (numbers(&a.pattern), numbers(&pattern));
    par::for_each_row_mut(&mut lines, width, line_grain(8 * mx), |first, lines| {
        for (k, sums) in lines.chunks_exact_mut(width).enumerate() {
            Line::new((r, a, p), (&of_a, &of_coarse), &pattern, first + k).sum(sums);
        }
    });
    let mut values = try_vec(pattern.entries(), T::ZERO)?;
    let centre = pattern.find([0; 3]).expect("every coarse stencil has its centre");
    par::for_each_row_mut(&mut values, mx, line_grain(mx), |first, piece| {
        for (k, to) in piece.chunks_exact_mut(mx).enumerate() {
            let (array, line) = ((first + k) * mx / cells, (first + k) % pattern.grid.lines());
            to.copy_from_slice(&lines[line * width + array * mx..][..mx]);
            let (offset, e) = (array / (b * b), array % (b * b));
            if offset == centre && e / b == e % b {
                to.iter_mut().filter(|v| **v == T::ZERO).for_each(|v| *v = T::ONE);
            }
        }
    });
    Ok(SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) })
}

/// The numbers of offsets by their codes: searching for them would take longer than the sums of a line.
type Numbers = [Option<usize>; MAX_OFFSETS];

fn numbers(stencil: &Stencil) -> Numbers {
    let mut numbers = [None; MAX_OFFSETS];
    stencil.offsets.iter().enumerate().for_each(|(k, offset)| numbers[code(*offset)] = Some(k));
    numbers
}

/// 1 + x + 3 (1 + y) + 9 (1 + z).
#[inline(always)]
fn code([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

/// The fine cells at 2 I + s along an axis.
#[derive(Clone, Copy)]
struct FineCells {
    /// Steps d of R and offsets o of A with d + o = s, d ascending, and the fine cell of d.
    terms: [Option<(i8, i8, usize)>; 3],
    /// The coarse cells that they interpolate from: the cell, the step of P from there, and the offset of the coarse stencil that leads to it.
    parents: [Option<(usize, i8, i8)>; 2],
}

impl FineCells {
    /// For coarse cell `at`, s from -2 to 2.
    fn all(p: &TransferPattern, coarse: &Stencil, axis: usize, at: usize) -> [FineCells; 5] {
        let (grids, grid) = (&p.grids, &coarse.grid);
        let offset_to = |cell: usize| {
            let leads = |step: &i8| grid.step(axis, at, *step) == Some(cell);
            [0, 1, -1].into_iter().find(leads).expect("transfers and stencils reach one cell far")
        };
        std::array::from_fn(|number| {
            let s = number as i8 - 2;
            let mut cells = FineCells { terms: [None; 3], parents: [None; 2] };
            for d in p.steps_along(axis) {
                let Some(fine) = grids.fine(axis, at, d).filter(|_| (s - d).abs() <= 1) else { continue };
                let Some(to) = grids.fine.step(axis, fine, s - d) else { continue };
                cells.terms[(d + 1) as usize] = Some((d, s - d, fine));
                cells.parents = grids
                    .parents(axis, to, p.low)
                    .map(|parent| parent.map(|(cell, step)| (cell, step, offset_to(cell))));
            }
            cells
        })
    }
}

/// A line of coarse cells.
struct Line<'a, T> {
    r: &'a SharedTransfer<T>,
    a: &'a SharedStencil<T>,
    p: &'a SharedTransfer<T>,
    of_a: &'a Numbers,
    of_coarse: &'a Numbers,
    coarse: &'a Stencil,
    number: usize,
    y: [FineCells; 5],
    z: [FineCells; 5],
}

impl<'a, T: Scalar> Line<'a, T> {
    fn new(
        (r, a, p): (&'a SharedTransfer<T>, &'a SharedStencil<T>, &'a SharedTransfer<T>),
        (of_a, of_coarse): (&'a Numbers, &'a Numbers),
        coarse: &'a Stencil,
        number: usize,
    ) -> Line<'a, T> {
        let my = coarse.grid.dims[1];
        let [y, z] =
            [(1, number % my), (2, number / my)].map(|(axis, at)| FineCells::all(&p.pattern, coarse, axis, at));
        Line { r, a, p, of_a, of_coarse, coarse, number, y, z }
    }

    /// Whether steps along x lead to the same cells from all cells but those at the ends, and from these there or out of the grid.
    fn is_regular(&self) -> bool {
        let (grids, is_coarsened) = (&self.p.pattern.grids, self.p.pattern.grids.axes[0]);
        !grids.fine.periodic[0] || grids.coarse.dims[0] > 2 && !(is_coarsened && grids.fine.is_odd_ring(0))
    }

    /// One array of the line after the other.
    fn sum(&self, sums: &mut [T]) {
        let (mx, b) = (self.coarse.grid.dims[0], self.coarse.block);
        if !self.is_regular() {
            return (0..mx).for_each(|x| (0..b * b).for_each(|e| self.add_cell(x, e, sums)));
        }
        let each = |e: usize, x: usize, all: &[Lanes<T>; MAX_OFFSETS], sums: &mut [T]| {
            let count = LANES.min(mx);
            for (number, of_cells) in all.iter().enumerate().take(self.coarse.offsets.len()) {
                sums[(number * b * b + e) * mx + x..][..count].copy_from_slice(&of_cells[..count]);
            }
        };
        match self.p.pattern.grids.axes[0] {
            true => widely(|| {
                for e in 0..b * b {
                    starts(mx).for_each(|x| each(e, x, &self.cells::<true>(x, e), sums));
                }
            }),
            false => widely(|| {
                for e in 0..b * b {
                    starts(mx).for_each(|x| each(e, x, &self.cells::<false>(x, e), sums));
                }
            }),
        }
    }

    /// All offsets of the coarse cells from x on, for entry `e` of the blocks. The grid is coarser along x (X) or not.
    #[inline(always)]
    fn cells<const X: bool>(&self, x: usize, e: usize) -> [Lanes<T>; MAX_OFFSETS] {
        let mut sums = [[T::ZERO; LANES]; MAX_OFFSETS];
        for z in &self.z {
            for y in &self.y {
                let of_fine = self.r_times_a::<X>(x, e, y, z);
                for (cz, sz, tz) in z.parents.into_iter().flatten() {
                    for (cy, sy, ty) in y.parents.into_iter().flatten() {
                        self.times_p::<X>((x, e), &of_fine, [(cy, sy, ty), (cz, sz, tz)], &mut sums);
                    }
                }
            }
        }
        sums
    }

    /// R A for fine cells at -2 to 2 along x.
    #[inline(always)]
    fn r_times_a<const X: bool>(&self, x: usize, e: usize, y: &FineCells, z: &FineCells) -> [Lanes<T>; 5] {
        let p = &*self.p.pattern;
        let ([nx, ny, _], [mx, _, _], b) = (p.grids.fine.dims, p.grids.coarse.dims, p.block);
        let mut sums = [[T::ZERO; LANES]; 5];
        for (dz, oz, fz) in z.terms.into_iter().flatten() {
            for (dy, oy, fy) in y.terms.into_iter().flatten() {
                let weights = |d: i8| {
                    cells_at(&self.r.array(p.number([d, dy, dz]), e / b)[self.number * mx..][..mx], x, 0, false)
                };
                let weights: [Lanes<T>; 3] = match X {
                    true => [if p.low < 0 { weights(-1) } else { [T::ZERO; LANES] }, weights(0), weights(1)],
                    false => [[T::ZERO; LANES], weights(0), [T::ZERO; LANES]],
                };
                for ox in -1..=1 {
                    let Some(k) = self.of_a[code([ox, oy, oz])] else { continue };
                    let line = &self.a.array(k, e / b, e % b)[nx * (fy + ny * fz)..][..nx];
                    let middle = (ox + 2) as usize;
                    if X {
                        let entries = by_steps(line, x, p.grids.fine.periodic[0]);
                        for d in 0..3 {
                            multiply_add(&mut sums[middle + d - 1], &weights[d], &entries[d]);
                        }
                    } else {
                        multiply_add(&mut sums[middle], &weights[1], &cells_at(line, x, 0, false));
                    }
                }
            }
        }
        sums
    }

    /// Adds R A P, for a line of P: its coarse cell, step and offset along y and z.
    #[inline(always)]
    fn times_p<const X: bool>(
        &self,
        (x, e): (usize, usize),
        of_fine: &[Lanes<T>; 5],
        [(cy, sy, ty), (cz, sz, tz)]: [(usize, i8, i8); 2],
        sums: &mut [Lanes<T>; MAX_OFFSETS],
    ) {
        let p = &*self.p.pattern;
        let [mx, my, _] = p.grids.coarse.dims;
        let periodic = p.grids.coarse.periodic[0];
        for t in -1..=1 {
            let Some(number) = self.of_coarse[code([t, ty, tz])] else { continue };
            let mut sum = sums[number];
            for d in if X { -1..=1 } else { 0..=0 } {
                let s = if X { 2 * t + d } else { t };
                if d < p.low || s.abs() > 2 {
                    continue;
                }
                let line = &self.p.array(p.number([d, sy, sz]), e % p.block)[mx * (cy + my * cz)..][..mx];
                multiply_add(&mut sum, &of_fine[(s + 2) as usize], &cells_at(line, x, t, periodic));
            }
            sums[number] = sum;
        }
    }

    /// One coarse cell, by the fine cells along x, which may lie on the other side of the grid.
    fn add_cell(&self, x: usize, e: usize, sums: &mut [T]) {
        let p = &*self.p.pattern;
        let ([nx, ny, _], [mx, my, _], b) = (p.grids.fine.dims, p.grids.coarse.dims, p.block);
        let fine_cells = FineCells::all(p, self.coarse, 0, x);
        for z in &self.z {
            for y in &self.y {
                let mut of_fine = [T::ZERO; 5];
                for (dz, oz, fz) in z.terms.into_iter().flatten() {
                    for (dy, oy, fy) in y.terms.into_iter().flatten() {
                        for (cells, sum) in fine_cells.iter().zip(&mut of_fine) {
                            for (d, ox, fx) in cells.terms.into_iter().rev().flatten() {
                                let Some(k) = self.of_a[code([ox, oy, oz])] else { continue };
                                let weight = self.r.array(p.number([d, dy, dz]), e / b)[self.number * mx + x];
                                *sum += weight * self.a.array(k, e / b, e % b)[fx + nx * (fy + ny * fz)];
                            }
                        }
                    }
                }
                for (cz, sz, tz) in z.parents.into_iter().flatten() {
                    for (cy, sy, ty) in y.parents.into_iter().flatten() {
                        for (cells, product) in fine_cells.iter().zip(of_fine) {
                            for (cx, sx, tx) in cells.parents.into_iter().flatten() {
                                let Some(number) = self.of_coarse[code([tx, ty, tz])] else { continue };
                                let weights = self.p.array(p.number([sx, sy, sz]), e % b);
                                sums[(number * b * b + e) * mx + x] += product * weights[cx + mx * (cy + my * cz)];
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::common::GridWeights as Kind;
    use crate::gallery;
    use crate::host::galerkin;
    use crate::host::stencil::black_box;
    use crate::sparse::{Coarsened, Grid};

    fn dense(a: &crate::sparse::CsrView<'_, f64>) -> Vec<f64> {
        let (n, m) = (a.scalar_rows(), a.scalar_cols());
        let mut dense = vec![0.0; n * m];
        for i in 0..a.rows {
            for (j, block) in a.row(i) {
                for (e, v) in block.iter().enumerate() {
                    dense[(i * a.block.rows + e / a.block.cols) * m + j * a.block.cols + e % a.block.cols] += v;
                }
            }
        }
        dense
    }

    /// A matrix with different values in blocks on any grid.
    fn matrix(grid: Grid, b: usize, offsets: &[Offset]) -> SharedStencil<f64> {
        let stencil = Stencil::new(grid, b, offsets).unwrap();
        let mut values: Vec<f64> = (0..stencil.entries()).map(|i| -(((i * 37) % 23) as f64) - 1.0).collect();
        for (k, offset) in offsets.iter().enumerate() {
            for cell in 0..grid.cells() {
                let outside = grid.neighbour(grid.point(cell), *offset).is_none();
                for e in 0..b * b {
                    let v = &mut values[stencil.array(k, e / b, e % b) + cell];
                    *v = if outside {
                        0.0
                    } else if *offset == [0; 3] && e / b == e % b {
                        900.0 + *v
                    } else {
                        *v
                    };
                }
            }
        }
        SharedStencil { pattern: Arc::new(stencil), values: Arc::new(values) }
    }

    /// The same product by the formula for one cell.
    fn by_cells(
        r: &SharedTransfer<f64>,
        a: &SharedStencil<f64>,
        p: &SharedTransfer<f64>,
        coarse: &SharedStencil<f64>,
    ) -> Vec<f64> {
        let (pattern, b) = (&*coarse.pattern, coarse.pattern.block);
        let (mx, lines) = (pattern.grid.dims[0], pattern.grid.lines());
        let (of_a, of_coarse) = (numbers(&a.pattern), numbers(pattern));
        let mut values = vec![0.0; pattern.entries()];
        for number in 0..lines {
            let line = Line::new((r, a, p), (&of_a, &of_coarse), pattern, number);
            let mut sums = vec![0.0; pattern.entries() / lines];
            (0..mx).for_each(|x| (0..b * b).for_each(|e| line.add_cell(x, e, &mut sums)));
            for (array, from) in sums.chunks_exact(mx).enumerate() {
                values[(array * lines + number) * mx..][..mx].copy_from_slice(from);
            }
        }
        values
    }

    #[test]
    fn the_product_is_that_of_the_matrices_in_rows() {
        let of = |name: &str, dims: [usize; 3]| {
            SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap()
        };
        let wrapped = |dims, periodic, b| {
            matrix(Grid { dims, periodic }, b, &[[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 1], [0, -1, 0], [1, 0, -1]])
        };
        let (full, flat) = ([true; 3], [true, true, false]);
        for (a, axes) in [
            (of("poisson7:7x6x5", [7, 6, 5]), full),
            (of("poisson27:6x5x4", [6, 5, 4]), full),
            (of("poisson27:6x5x4", [6, 5, 4]), [false, true, false]),
            (of("poisson5:9x8", [9, 8, 1]), flat),
            (of("poisson9:3x4", [3, 4, 1]), flat),
            (of("poisson7:1x1x9", [1, 1, 9]), [false, false, true]),
            (wrapped([8, 5, 4], [true, false, true], 2), full),
            (wrapped([7, 3, 5], [true, true, true], 1), full),
            (wrapped([4, 4, 3], [true, true, false], 3), [true, true, false]),
            (wrapped([6, 1, 7], [true, false, true], 1), [false, false, true]),
            (of("poisson27:19x4x3", [19, 4, 3]), full),
            (of("poisson27:11x4x3", [11, 4, 3]), [false, true, true]),
            (wrapped([18, 4, 3], [true, false, false], 2), flat),
            (wrapped([9, 4, 3], [true, false, false], 1), [false, true, false]),
        ] {
            for kind in [Kind::Constant, Kind::Linear, Kind::BlackBox] {
                let p = black_box::prolongator(&a, Coarsened::new(a.pattern.grid, axes), kind).unwrap();
                let r = SharedTransfer { transposed: true, ..p.clone() };
                let coarse = product(&r, &a, &p).unwrap();
                coarse.validate().unwrap();
                assert!(by_cells(&r, &a, &p, &coarse) == coarse.values.as_slice(), "{:?} {kind:?}", a.pattern.grid);
                let rows = a.to_rows().unwrap().view().to_scalar().unwrap().into_shared();
                let (p, r) = (p.to_rows().unwrap(), r.to_rows().unwrap());
                let expected = galerkin::product(&r.view(), &rows.view(), &p).unwrap();
                let (coarse, expected) = (dense(&coarse.to_rows().unwrap().view()), dense(&expected.view()));
                let largest = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                let off = coarse.iter().zip(&expected).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
                assert!(off <= 1e-13 * largest, "{:?} {axes:?} {kind:?}: {off}", a.pattern.grid);
            }
        }
    }

    #[test]
    fn constant_transfers_keep_the_pattern_and_linear_ones_fill_the_box() {
        for (name, dims, constant, linear) in [
            ("poisson7:8", [8; 3], "stencil7", "stencil27"),
            ("poisson27:8", [8; 3], "stencil27", "stencil27"),
            ("poisson5:8", [8, 8, 1], "stencil5", "stencil9"),
        ] {
            let a = SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap();
            for (kind, format) in [(Kind::Constant, constant), (Kind::Linear, linear), (Kind::BlackBox, linear)] {
                let p = black_box::prolongator(&a, Coarsened::new(a.pattern.grid, [true; 3]), kind).unwrap();
                let r = SharedTransfer { transposed: true, ..p.clone() };
                assert_eq!(product(&r, &a, &p).unwrap().pattern.format(), format, "{name} {kind:?}");
            }
        }
    }
}
