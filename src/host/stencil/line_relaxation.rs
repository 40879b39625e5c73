//! Line relaxation on a stencil: the unknowns of a line of cells are solved for together, by a block tridiagonal matrix. Lines of a colour are not
//! coupled, and one colour comes after the other.
//!
//! x += T^-1 (b - A x) for the matrices T of the lines of a colour: forward y_k = E_k^-1 (r_k - A_k,k-1 y_k-1), and backward d_k = y_k - W_k d_k+1.
//! E_k^-1 and W_k are the factors of `Setup::line_factors`. Loops run along x for lines of all axes.

use super::lines::{SUMS, load, widen};
use super::product::{line_grain, line_products};
use crate::backend::Colours;
use crate::backend::common::{MAX_BLOCK, rounding_bound};
use crate::error::{Result, try_vec};
use crate::host::Host;
use crate::host::diagonal::invert_block;
use crate::par;
use crate::scalar::{Number, NumbersRef, Scalar};
use crate::sparse::{ColouredStencil, LineColours, Offset, SharedStencil, Stencil};

/// The offset of one step along an axis.
pub fn step_along(axis: usize, step: i8) -> Offset {
    std::array::from_fn(|other| if other == axis { step } else { 0 })
}

/// The factors of the lines along an axis.
pub fn factors<T: Scalar>(a: &SharedStencil<T>, axis: usize) -> Result<Vec<T>> {
    let (grid, b) = (&a.pattern.grid, a.pattern.block);
    let (n, cells, across) = (grid.dims[axis], grid.cells(), LineColours::along(&a.pattern, axis).across);
    // Line by line, and then array by array.
    let width = 2 * b * b;
    let mut by_lines = try_vec(width * cells, T::ZERO)?;
    let place = |line: usize, k: usize| {
        let mut at = [0; 3];
        (at[axis], at[across[0]], at[across[1]]) = (k, line % grid.dims[across[0]], line / grid.dims[across[0]]);
        grid.cell(at)
    };
    par::for_each_row_mut(&mut by_lines, n * width, line_grain(n), |first, lines| {
        for (line, out) in (first..).zip(lines.chunks_exact_mut(n * width)) {
            factorise(a, axis, |k| place(line, k), out);
        }
    });
    let mut arrays = try_vec(width * cells, T::ZERO)?;
    par::for_each_mut(&mut arrays, par::GRAIN, |first, piece| {
        for (i, to) in (first..).zip(piece) {
            let (entry, at) = (i / cells, grid.point(i % cells));
            let line = at[across[0]] + grid.dims[across[0]] * at[across[1]];
            *to = by_lines[(line * n + at[axis]) * width + entry];
        }
    });
    Ok(arrays)
}

/// The factors of one line, cell by cell. A row whose pivot is rounding is left out, as in the inverses of diagonal blocks.
fn factorise<T: Scalar>(a: &SharedStencil<T>, axis: usize, cell: impl Fn(usize) -> usize, out: &mut [T]) {
    let b = a.pattern.block;
    let [before, centre, behind] = [-1, 0, 1].map(|step| a.pattern.find(step_along(axis, step)));
    let entry = |offset: usize, e: usize, cell: usize| a.array(offset, e / b, e % b)[cell].to_f64();
    let bound = rounding_bound::<T>(b);
    let mut w = [0.0; MAX_BLOCK * MAX_BLOCK];
    let cells = out.len() / (2 * b * b);
    for (k, out) in out.chunks_exact_mut(2 * b * b).enumerate() {
        let (cell, mut pivot) = (cell(k), [0.0; MAX_BLOCK * MAX_BLOCK]);
        if let Some(centre) = centre {
            (0..b * b).for_each(|e| pivot[e] = entry(centre, e, cell));
        }
        let sizes: [f64; MAX_BLOCK] = std::array::from_fn(|r| if r < b { pivot[r * b + r].abs() } else { 0.0 });
        if let Some(before) = before.filter(|_| k > 0) {
            for e in 0..b * b {
                for j in 0..b {
                    pivot[e] -= entry(before, e / b * b + j, cell) * w[j * b + e % b];
                }
            }
        }
        for r in 0..b {
            // What is not a number is not above the bound either.
            let is_above = pivot[r * b + r].abs() > bound * sizes[r];
            if !is_above {
                (0..b).for_each(|c| (pivot[r * b + c], pivot[c * b + r]) = (0.0, 0.0));
            }
        }
        invert_block(&mut pivot[..b * b], b, bound);
        w = [0.0; MAX_BLOCK * MAX_BLOCK];
        if let Some(behind) = behind.filter(|_| k + 1 < cells) {
            for (e, w) in w[..b * b].iter_mut().enumerate() {
                for j in 0..b {
                    *w += pivot[e / b * b + j] * entry(behind, j * b + e % b, cell);
                }
            }
        }
        for (e, to) in out.iter_mut().enumerate() {
            *to = T::from_f64(if e < b * b { pivot[e] } else { w[e - b * b] });
        }
    }
}

/// A stencil for line relaxation along one axis.
pub struct LineRelaxation<S> {
    coloured: ColouredStencil<S>,
    axis: usize,
    colours: LineColours,
}

impl<S: Number> LineRelaxation<S> {
    /// Colours its lines.
    pub fn new(coloured: ColouredStencil<S>, axis: usize) -> LineRelaxation<S> {
        let colours = LineColours::along(&coloured.matrix.pattern, axis);
        LineRelaxation { coloured, axis, colours }
    }
}

impl<S: Number, V: Number> Colours<Host, V> for LineRelaxation<S> {
    fn count(&self) -> usize {
        self.colours.count(&self.coloured.matrix.pattern)
    }

    fn solves_exactly(&self) -> bool {
        // Alone along a periodic axis, a line is its own neighbour.
        let grid = &self.coloured.matrix.pattern.grid;
        (0..3).all(|axis| !grid.periodic[axis] || grid.dims[axis] > 1)
    }

    fn pass(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        let stencil = &*self.coloured.matrix.pattern;
        let (values, factors) =
            (S::numbers(self.coloured.matrix.values.as_slice()), S::numbers(&self.coloured.inverse));
        let before = stencil.find(step_along(self.axis, -1));
        let sweep = LineSweep { stencil, axis: self.axis, colours: self.colours, before, values, factors };
        host.run(stencil.entries(), || {
            for k in 0..count {
                sweep.colour(if backward { count - 1 - k } else { k }, b, x, scratch);
            }
        });
        Ok(())
    }

    fn bytes(&self) -> usize {
        let matrix = if self.coloured.shared { 0 } else { self.coloured.matrix.values.owned_bytes() };
        size_of_val(self.coloured.inverse.as_slice()) + matrix
    }
}

/// What sweeps read. Not generic over the formats of the values, so that it is compiled for those of vectors alone.
struct LineSweep<'a> {
    stencil: &'a Stencil,
    axis: usize,
    colours: LineColours,
    /// The offset to the cell before along the line.
    before: Option<usize>,
    values: NumbersRef<'a>,
    factors: NumbersRef<'a>,
}

impl LineSweep<'_> {
    /// The colour of the line of a cell.
    fn colour_of(&self, x: usize, row: usize) -> usize {
        let at = [x, row % self.stencil.grid.dims[1], row / self.stencil.grid.dims[1]];
        let [p, q] = self.colours.across;
        self.colours.of(self.stencil, at[p], at[q])
    }

    /// Whether a row of cells along x has some of a colour.
    fn has(&self, row: usize, colour: usize) -> bool {
        let nx = self.stencil.grid.dims[0];
        [0, 1, nx - 1].iter().any(|x| *x < nx && self.colour_of(*x, row) == colour)
    }

    /// Solves for the unknowns of the lines of a colour. `scratch` has their residuals, and then the changes of x.
    fn colour<V: Number>(&self, colour: usize, b: &[V], x: &mut [V], scratch: &mut [V]) {
        let [nx, ny, nz] = self.stencil.grid.dims;
        let (width, grain) = (nx * self.stencil.block, line_grain(nx));
        let old = load::<V, V::Wide>(&*x, self.stencil.block);
        par::for_each_row_mut(scratch, width, grain, |first, rows| {
            for (row, to) in (first..).zip(rows.chunks_exact_mut(width)).filter(|(row, _)| self.has(*row, colour)) {
                line_products(self.stencil, &self.values, &old, row..row + 1, &mut |at, ax| {
                    let (to, b) = (&mut to[at - row * width..][..ax.len()], &b[at..][..ax.len()]);
                    to.iter_mut().zip(b).zip(ax).for_each(|((r, b), ax)| *r = V::narrow(b.widen() - *ax));
                });
            }
        });
        drop(old);
        match self.axis {
            0 => par::for_each_row_mut(scratch, width, grain, |first, rows| {
                for (row, line) in (first..).zip(rows.chunks_exact_mut(width)) {
                    if self.has(row, colour) {
                        self.forward(row, None, line);
                        self.backward(row, None, line);
                    }
                }
            }),
            1 => par::for_each_row_mut(scratch, width * ny, line_grain(nx * ny), |first, planes| {
                for (z, plane) in (first..).zip(planes.chunks_exact_mut(width * ny)) {
                    for y in (0..ny).filter(|_| self.has(z * ny, colour)) {
                        let (before, own) = plane.split_at_mut(y * width);
                        let before = before.len().checked_sub(width).map(|at| &before[at..]);
                        self.forward(z * ny + y, before, &mut own[..width]);
                    }
                    for y in (0..ny - 1).rev().filter(|_| self.has(z * ny, colour)) {
                        let (own, behind) = plane.split_at_mut((y + 1) * width);
                        self.backward(z * ny + y, Some(&behind[..width]), &mut own[y * width..]);
                    }
                }
            }),
            _ => {
                let plane = width * ny;
                for z in 0..nz {
                    let (before, own) = scratch.split_at_mut(z * plane);
                    let before = before.len().checked_sub(plane).map(|at| &before[at..]);
                    par::for_each_row_mut(&mut own[..plane], width, grain, |first, rows| {
                        for (y, own) in (first..).zip(rows.chunks_exact_mut(width)) {
                            if self.has(y, colour) {
                                self.forward(z * ny + y, before.map(|before| &before[y * width..][..width]), own);
                            }
                        }
                    });
                }
                for z in (0..nz - 1).rev() {
                    let (own, behind) = scratch.split_at_mut((z + 1) * plane);
                    let behind = &*behind;
                    par::for_each_row_mut(&mut own[z * plane..], width, grain, |first, rows| {
                        for (y, own) in (first..).zip(rows.chunks_exact_mut(width)) {
                            if self.has(y, colour) {
                                self.backward(z * ny + y, Some(&behind[y * width..][..width]), own);
                            }
                        }
                    });
                }
            }
        }
        let (changes, n) = (&*scratch, self.stencil.block);
        par::for_each_row_mut(x, width, grain, |first, rows| {
            for (row, x) in (first..).zip(rows.chunks_exact_mut(width)).filter(|(row, _)| self.has(*row, colour)) {
                let changes = changes[row * width..][..width].chunks_exact(n);
                let cells = x.chunks_exact_mut(n).zip(changes).enumerate();
                for (_, (x, changes)) in cells.filter(|(x, _)| self.colour_of(*x, row) == colour) {
                    x.iter_mut().zip(changes).for_each(|(x, change)| *x = V::narrow(x.widen() + change.widen()));
                }
            }
        });
    }

    /// Cells of a strip, whose blocks are brought into buffers.
    fn strip(&self) -> usize {
        SUMS / (self.stencil.block * self.stencil.block)
    }

    /// y_k = E_k^-1 (r_k - A_k,k-1 y_k-1) for all cells of a row along x. `before` is the row of y_k-1, or none where that is the cell before, or where the
    /// row is the first of its lines.
    fn forward<V: Number>(&self, row: usize, before: Option<&[V]>, r: &mut [V]) {
        let (n, [nx, ..]) = (self.stencil.block, self.stencil.grid.dims);
        let (mut lower, mut inverse) = ([V::Wide::ZERO; SUMS], [V::Wide::ZERO; SUMS]);
        let lower_array = self.before.filter(|_| before.is_some() || self.axis == 0);
        for first in (0..nx).step_by(self.strip()) {
            let (len, cell) = (self.strip().min(nx - first), row * nx + first);
            for e in 0..n * n {
                if let Some(k) = lower_array {
                    widen(&self.values, self.stencil.array(k, e / n, e % n) + cell, &mut lower[e * len..][..len]);
                }
                widen(&self.factors, self.stencil.array(0, e / n, e % n) + cell, &mut inverse[e * len..][..len]);
            }
            for i in 0..len {
                let at = (first + i) * n;
                let mut rest = [V::Wide::ZERO; MAX_BLOCK];
                (0..n).for_each(|k| rest[k] = r[at + k].widen());
                if lower_array.is_some() && (before.is_some() || at > 0) {
                    let y = before.map_or_else(|| &r[at.saturating_sub(n)..], |before| &before[at..]);
                    for k in 0..n {
                        (0..n).for_each(|c| rest[k] -= lower[(k * n + c) * len + i] * y[c].widen());
                    }
                }
                for k in 0..n {
                    let mut sum = V::Wide::ZERO;
                    (0..n).for_each(|c| sum += inverse[(k * n + c) * len + i] * rest[c]);
                    r[at + k] = V::narrow(sum);
                }
            }
        }
    }

    /// d_k = y_k - W_k d_k+1 for all cells of a row along x. `behind` is the row of d_k+1, or none where that is the cell behind.
    fn backward<V: Number>(&self, row: usize, behind: Option<&[V]>, y: &mut [V]) {
        let (n, [nx, ..]) = (self.stencil.block, self.stencil.grid.dims);
        let mut w = [V::Wide::ZERO; SUMS];
        for strip in (0..nx.div_ceil(self.strip())).rev() {
            let first = strip * self.strip();
            let (len, cell) = (self.strip().min(nx - first), row * nx + first);
            for e in 0..n * n {
                widen(&self.factors, self.stencil.array(1, e / n, e % n) + cell, &mut w[e * len..][..len]);
            }
            for i in (0..len).rev() {
                let at = (first + i) * n;
                if behind.is_none() && first + i + 1 == nx {
                    continue;
                }
                for k in 0..n {
                    let mut change = y[at + k].widen();
                    let next = behind.map_or_else(|| &y[at + n..], |behind| &behind[at..]);
                    (0..n).for_each(|c| change -= w[(k * n + c) * len + i] * next[c].widen());
                    y[at + k] = V::narrow(change);
                }
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;
    use crate::sparse::Grid;

    /// Solves a dense system by elimination with pivoting.
    fn solve_dense(mut m: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        let n = b.len();
        for k in 0..n {
            let best = (k..n).max_by(|i, j| m[*i][k].abs().total_cmp(&m[*j][k].abs())).unwrap();
            m.swap(k, best);
            b.swap(k, best);
            for i in k + 1..n {
                let factor = m[i][k] / m[k][k];
                let pivot_row = m[k].clone();
                (k..n).for_each(|j| m[i][j] -= factor * pivot_row[j]);
                b[i] -= factor * b[k];
            }
        }
        for k in (0..n).rev() {
            b[k] = (b[k] - (k + 1..n).map(|j| m[k][j] * b[j]).sum::<f64>()) / m[k][k];
        }
        b
    }

    /// A pass is block Gauss-Seidel with dense solves of the lines, one colour after the other.
    fn check(a: &SharedStencil<f64>, axis: usize) {
        let (stencil, rows) = (&*a.pattern, a.to_rows().unwrap().view().to_scalar().unwrap());
        let (grid, b, n) = (stencil.grid, stencil.block, stencil.scalar_rows());
        let entry = |i: usize, j: usize| rows.view().row(i).find(|(c, _)| *c == j).map_or(0.0, |(_, v)| v[0]);
        let rhs: Vec<f64> = (0..n).map(|i| ((i * 7) % 13) as f64 - 6.0).collect();
        let line_of = |row: usize| {
            let mut at = grid.point(row / b);
            at[axis] = 0;
            grid.cell(at)
        };
        let passes = |threads: usize| {
            let host = Host::new(&Context::new(&format!("host:{threads}")).unwrap());
            let inverse = factors(a, axis).unwrap();
            let coloured = ColouredStencil { matrix: a.clone(), inverse, lines: Some(axis), shared: true };
            let relaxation = LineRelaxation::new(coloured, axis);
            let count = Colours::<Host, f64>::count(&relaxation);
            let mut x: Vec<f64> = (0..n).map(|i| ((i * 3) % 5) as f64).collect();
            let mut all = vec![(x.clone(), 0, false)];
            for (backward, count) in [(false, count), (true, count - 1)] {
                relaxation.pass(&host, count, backward, &rhs, &mut x, &mut vec![f64::NAN; n]).unwrap();
                all.push((x.clone(), count, backward));
            }
            all
        };
        let colours = LineColours::along(stencil, axis);
        let found = passes(1);
        assert!(found == passes(3), "{grid:?} {axis}");
        for step in found.windows(2) {
            let (mut expected, (found, count, backward)) = (step[0].0.clone(), &step[1]);
            for k in 0..*count {
                let colour = if *backward { count - 1 - k } else { k };
                let [p, q] = colours.across;
                let is_swept = |cell: usize| {
                    let at = grid.point(cell);
                    at[axis] == 0 && colours.of(stencil, at[p], at[q]) == colour
                };
                for first in (0..grid.cells()).filter(|cell| is_swept(*cell)) {
                    let own: Vec<usize> = (0..n).filter(|row| line_of(*row) == first).collect();
                    let r = own.iter().map(|i| rhs[*i] - (0..n).map(|j| entry(*i, j) * expected[j]).sum::<f64>());
                    let r: Vec<f64> = r.collect();
                    let t = own.iter().map(|i| own.iter().map(|j| entry(*i, *j)).collect()).collect();
                    solve_dense(t, r).iter().zip(&own).for_each(|(d, i)| expected[*i] += d);
                }
            }
            let off = found.iter().zip(&expected).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
            assert!(off < 1e-11, "{grid:?} {axis}: {off}");
        }
    }

    #[test]
    fn a_pass_is_block_gauss_seidel_with_dense_solves_of_the_lines() {
        for (name, dims) in [
            ("poisson7:5x4x3", [5, 4, 3]),
            ("poisson27:4x3x5", [4, 3, 5]),
            ("poisson5:9x4", [9, 4, 1]),
            ("convection_diffusion:4x5", [4, 5, 1]),
            ("elasticity:2", [2, 3, 3]),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            let a = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
            (0..3).for_each(|axis| check(&a, axis));
        }
    }

    #[test]
    fn a_line_that_is_singular_keeps_its_last_unknown() {
        // Neumann conditions at both ends: the last pivot is rounding.
        let stencil = Stencil::new(Grid::new([7, 1, 1]), 1, &[[-1, 0, 0], [0; 3], [1, 0, 0]]).unwrap();
        let mut values = vec![-0.1; 21];
        (values[0], values[20]) = (0.0, 0.0);
        (0..7).for_each(|i| values[7 + i] = -values[i] - values[14 + i]);
        let a = SharedStencil { pattern: stencil.into(), values: std::sync::Arc::new(values) };
        let found = factors(&a, 0).unwrap();
        assert!(found[6] == 0.0 && found[..6].iter().all(|v| (9.9..10.1).contains(v)), "{found:?}");
    }
}
