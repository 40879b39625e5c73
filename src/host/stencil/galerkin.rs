//! The Galerkin product R A P of stencils, which is a stencil again.
//!
//! An entry couples coarse cell I over a step d of R, an offset o of A and a step of P with coarse cell J. Along x the loop over I is the innermost
//! one, on contiguous arrays of the result and of the weights. Terms are added in the order of d + o along z, then of d, then of the same along y, then of
//! o and d along x: a GPU goes through planes of cells, and needs the sums for two coarse planes at a time.

use super::product::line_grain;
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{MAX_OFFSETS, Offset, SharedStencil, SharedTransfer, Stencil};
use std::ops::Range;
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
    // Line by line first, and behind each line a place for products of R and A.
    let width = (arrays + 1) * mx;
    let mut lines = try_vec(width * pattern.grid.lines(), T::ZERO)?;
    let mut numbers = [None; MAX_OFFSETS];
    pattern.offsets.iter().enumerate().for_each(|(k, offset)| numbers[code(*offset)] = Some(k));
    par::for_each_row_mut(&mut lines, width, line_grain(8 * mx), |first, lines| {
        for (k, line) in lines.chunks_exact_mut(width).enumerate() {
            let (sums, products) = line.split_at_mut(arrays * mx);
            Line { r, a, p, coarse: &pattern, numbers: &numbers, number: first + k }.sum(sums, products);
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

/// A line of coarse cells.
struct Line<'a, T> {
    r: &'a SharedTransfer<T>,
    a: &'a SharedStencil<T>,
    p: &'a SharedTransfer<T>,
    coarse: &'a Stencil,
    /// The numbers of the coarse offsets by their codes: searching for them would take longer than the sums of a line.
    numbers: &'a [Option<usize>; MAX_OFFSETS],
    number: usize,
}

/// 1 + x + 3 (1 + y) + 9 (1 + z).
fn code([x, y, z]: Offset) -> usize {
    (x + 1 + 3 * (y + 1) + 9 * (z + 1)) as usize
}

/// Lines that a product goes through: the step of R, the line of A, the line of P and the coarse line that its result couples with.
struct Path {
    /// Steps of R along y and z.
    d: [i8; 2],
    /// The first fine cell.
    fine: usize,
    /// Steps of P along y and z.
    step: [i8; 2],
    /// The first coarse cell of P.
    coarse: usize,
    /// Coarse offset along y and z.
    to: [i8; 2],
}

impl<T: Scalar> Line<'_, T> {
    fn sum(&self, sums: &mut [T], products: &mut [T]) {
        let (p, stencil) = (&*self.p.pattern, &*self.a.pattern);
        let (grids, my) = (&p.grids, p.grids.coarse.dims[1]);
        let [nx, ny, _] = grids.fine.dims;
        let (y, z) = (self.number % my, self.number / my);
        // The fine cell at step d of R, and that at offset o of A from there.
        let cells_along = |axis: usize, at: usize, d: i8, o: i8| {
            let fine = grids.fine(axis, at, d).filter(|_| o.abs() <= 1)?;
            Some((fine, grids.fine.step(axis, fine, o)?))
        };
        let sums_along = |axis: usize| (-2..=2).flat_map(move |s: i8| p.steps_along(axis).map(move |d| (d, s - d)));
        for (dz, oz) in sums_along(2) {
            let Some((fz, jz)) = cells_along(2, z, dz, oz) else { continue };
            for (dy, oy) in sums_along(1) {
                let Some((fy, jy)) = cells_along(1, y, dy, oy) else { continue };
                let Some(offsets) = stencil.lines.iter().find(|line| line.to == [oy, oz]) else { continue };
                for (ox, k) in &offsets.steps {
                    for dx in p.steps_along(0) {
                        self.add_offset(
                            ([dx, dy, dz], nx * (fy + ny * fz)),
                            (*ox, *k),
                            (jy, jz),
                            (y, z),
                            sums,
                            products,
                        );
                    }
                }
            }
        }
    }

    /// Adds what goes over one step of R and one offset of A.
    fn add_offset(
        &self,
        (d, fine): (Offset, usize),
        (ox, k): (i8, usize),
        (jy, jz): (usize, usize),
        (y, z): (usize, usize),
        sums: &mut [T],
        products: &mut [T],
    ) {
        let p = &*self.p.pattern;
        let (grids, b) = (&p.grids, p.block);
        let ([nx, _, _], [mx, my, _]) = (grids.fine.dims, grids.coarse.dims);
        let (regular, shift) = self.regular(d[0], ox);
        for e in 0..b * b {
            let weights = &self.r.array(p.number(d), e / b)[self.number * mx..][..mx];
            let values = &self.a.array(k, e / b, e % b)[fine..][..nx];
            if grids.axes[0] {
                for (i, product) in regular.clone().zip(&mut products[regular.clone()]) {
                    *product = weights[i] * values[(2 * i).wrapping_add_signed(isize::from(d[0]))];
                }
            } else {
                for ((product, w), v) in
                    products[regular.clone()].iter_mut().zip(&weights[regular.clone()]).zip(&values[regular.clone()])
                {
                    *product = *w * *v;
                }
            }
            for (cz, sz) in grids.parents(2, jz, p.low).into_iter().flatten() {
                for (cy, sy) in grids.parents(1, jy, p.low).into_iter().flatten() {
                    let to = [self.coarse_offset(1, y, cy), self.coarse_offset(2, z, cz)];
                    let path = Path { d: [d[1], d[2]], fine, step: [sy, sz], coarse: mx * (cy + my * cz), to };
                    for (step, sx) in shift.into_iter().flatten() {
                        let Some(number) = self.numbers[code([step, to[0], to[1]])] else { continue };
                        let sums = &mut sums[(number * b * b + e) * mx..][..mx];
                        let first = p.array(p.number([sx, sy, sz]), e % b) + path.coarse;
                        let weights = &self.p.values.as_slice()[first..][..mx];
                        let weights = &weights[regular.start.wrapping_add_signed(isize::from(step))..][..regular.len()];
                        for ((sum, product), w) in
                            sums[regular.clone()].iter_mut().zip(&products[regular.clone()]).zip(weights)
                        {
                            *sum += *product * *w;
                        }
                    }
                    for x in (0..regular.start).chain(regular.end..mx) {
                        self.add_cell(x, (d[0], ox, k), &path, e, sums);
                    }
                }
            }
        }
    }

    /// The coarse cells of a line for which all cells along x lie inside of the grids, and the coarse steps with the steps of P.
    #[allow(clippy::type_complexity)]
    fn regular(&self, d: i8, o: i8) -> (Range<usize>, [Option<(i8, i8)>; 2]) {
        let p = &*self.p.pattern;
        let (n, m) = (p.grids.fine.dims[0] as i64, p.grids.coarse.dims[0] as i64);
        let steps = p.coarse_steps(0, d, o);
        let (d, o, factor) = (i64::from(d), i64::from(o), if p.grids.axes[0] { 2 } else { 1 });
        let is_regular = |i: i64| {
            let fine = factor * i + d;
            let inside = |x: i64| (0..n).contains(&x);
            let coarse = |step: &(i8, i8)| (0..m).contains(&(i + i64::from(step.0)));
            inside(fine) && inside(fine + o) && steps.iter().flatten().all(coarse)
        };
        let start = (0..m).find(|i| is_regular(*i)).unwrap_or(0);
        let end = (start..m).rev().find(|i| is_regular(*i)).map_or(start, |i| i + 1);
        (start as usize..end as usize, steps)
    }

    /// One coarse cell at the end of a line, where steps may leave the grid or come back on its other side.
    fn add_cell(&self, x: usize, (d, o, k): (i8, i8, usize), path: &Path, e: usize, sums: &mut [T]) {
        let p = &*self.p.pattern;
        let (grids, b, mx) = (&p.grids, p.block, p.grids.coarse.dims[0]);
        let Some(fine) = grids.fine(0, x, d) else { return };
        let Some(to) = grids.fine.step(0, fine, o) else { return };
        let step = p.number([d, path.d[0], path.d[1]]);
        let weight = self.r.array(step, e / b)[self.number * mx + x];
        let product = weight * self.a.array(k, e / b, e % b)[path.fine + fine];
        for (cx, sx) in grids.parents(0, to, p.low).into_iter().flatten() {
            let offset = [self.coarse_offset(0, x, cx), path.to[0], path.to[1]];
            let Some(number) = self.numbers[code(offset)] else { continue };
            let w = self.p.array(p.number([sx, path.step[0], path.step[1]]), e % b)[path.coarse + cx];
            sums[(number * b * b + e) * mx + x] += product * w;
        }
    }

    /// The step that leads from one coarse cell to another along an axis.
    fn coarse_offset(&self, axis: usize, from: usize, to: usize) -> i8 {
        let leads = |step: &i8| self.coarse.grid.step(axis, from, *step) == Some(to);
        [0, 1, -1].into_iter().find(leads).expect("transfers and stencils reach one cell far")
    }
}

#[cfg(test)]
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
        ] {
            for kind in [Kind::Constant, Kind::Linear, Kind::BlackBox] {
                let p = black_box::prolongator(&a, Coarsened::new(a.pattern.grid, axes), kind).unwrap();
                let r = SharedTransfer { transposed: true, ..p.clone() };
                let coarse = product(&r, &a, &p).unwrap();
                coarse.validate().unwrap();
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
