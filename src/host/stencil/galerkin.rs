//! The Galerkin product R A P of stencils, which is a stencil again.
//!
//! R A comes first: row I has an entry for each fine cell at 2 I + s, with |s| <= 2 along each axis, which is the sum over all steps d of R and offsets
//! o of A with d + o = s. Each of them is then multiplied by P. With 27 points and 27 weights these are 27² products and 7³, where one for each
//! d, o and step of P would be 13³. Along x the loop over I is the innermost one, with several coarse cells in a register.
//!
//! Sums of R A have the order of d along z, then of d along y, then of o along x; those of R A P the order of s along z, y and x. GPUs have the same.

use super::product::line_grain;
use super::split::{SplitLine, split, split_length};
use crate::error::{Result, try_vec};
use crate::host::registers::widely;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{MAX_OFFSETS, Offset, SharedStencil, SharedTransfer, Stencil, TransferPattern};
use std::ops::Range;
use std::sync::Arc;

/// R A P, with ones for zeros on the diagonal. R has the pattern of Pᵀ.
pub fn product<T: Scalar>(
    r: &SharedTransfer<T>,
    a: &SharedStencil<T>,
    p: &SharedTransfer<T>,
) -> Result<SharedStencil<T>> {
    let pattern = p.pattern.coarse_stencil(&a.pattern)?;
    let (b, [mx, _, _]) = (pattern.block, pattern.grid.dims);
    let arrays = pattern.offsets.len() * b * b;
    let (of_a, of_coarse) = (numbers(&a.pattern), numbers(&pattern));
    let all = (Arrays::of(r, b), Arrays { values: a.values.as_slice(), block: b * b }, Arrays::of(p, b));
    let centre = pattern.find([0; 3]).expect("every coarse stencil has its centre");
    let mut values = try_vec(pattern.entries(), T::ZERO)?;
    let failure = par::Failure::default();
    par::for_each_row_of_arrays_mut(&mut values, arrays, mx, line_grain(8 * mx), |lines, rows| {
        failure.keep(Buffers::new(arrays, mx).map(|mut buffers| {
            for number in lines {
                Line::new(all, (&a.pattern, &p.pattern), (&of_a, &of_coarse), &pattern, number).sum(&mut buffers);
                for (array, from) in buffers.line.chunks_exact(mx).enumerate() {
                    let (to, e) = (rows.get(array, number), array % (b * b));
                    to.copy_from_slice(from);
                    if array / (b * b) == centre && e / b == e % b {
                        to.iter_mut().filter(|v| **v == T::ZERO).for_each(|v| *v = T::ONE);
                    }
                }
            }
        }));
    });
    failure.check()?;
    Ok(SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) })
}

/// Arrays over the cells of a grid, so many for each offset or step.
#[derive(Clone, Copy)]
struct Arrays<'a, T> {
    values: &'a [T],
    block: usize,
}

impl<'a, T: Scalar> Arrays<'a, T> {
    fn of(transfer: &'a SharedTransfer<T>, block: usize) -> Arrays<'a, T> {
        Arrays { values: transfer.values.as_slice(), block }
    }

    /// Line `line` of `nx` cells of an array; a grid has `cells`.
    #[inline(always)]
    fn line(&self, number: usize, e: usize, (cells, nx): (usize, usize), line: usize) -> &'a [T] {
        &self.values[(number * self.block + e) * cells + line * nx..][..nx]
    }
}

/// What a task uses for one line after the other.
struct Buffers<T> {
    /// The arrays of the line, one after the other.
    line: Vec<T>,
    /// R A for fine cells at -2 to 2 along x, one array after the other.
    of_fine: Vec<T>,
    /// Lines of A, the even and the odd cells of each by themselves.
    entries: Vec<T>,
}

impl<T: Scalar> Buffers<T> {
    fn new(arrays: usize, mx: usize) -> Result<Buffers<T>> {
        let zeros = |count: usize| try_vec(count, T::ZERO);
        Ok(Buffers { line: zeros(arrays * mx)?, of_fine: zeros(5 * mx)?, entries: zeros(3 * split_length(mx))? })
    }
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

/// Lines that are multiplied for fine cells at one place along y and z: those of A by offsets along x, and the weights of R by steps along x.
#[derive(Clone, Copy)]
struct TermOfR<'a, T> {
    weights: [&'a [T]; 3],
    entries: [Option<&'a [T]>; 3],
}

/// The weights of P in a line of coarse cells that these interpolate from, by steps along x, and the numbers of the coarse offsets that lead there.
#[derive(Clone, Copy)]
struct TermOfP<'a, T> {
    weights: [&'a [T]; 3],
    numbers: [Option<usize>; 3],
}

/// A line of coarse cells.
struct Line<'a, T> {
    r: Arrays<'a, T>,
    a: Arrays<'a, T>,
    p: Arrays<'a, T>,
    transfer: &'a TransferPattern,
    of_a: &'a Numbers,
    of_coarse: &'a Numbers,
    fine: &'a Stencil,
    coarse: &'a Stencil,
    number: usize,
    y: [FineCells; 5],
    z: [FineCells; 5],
}

impl<'a, T: Scalar> Line<'a, T> {
    fn new(
        (r, a, p): (Arrays<'a, T>, Arrays<'a, T>, Arrays<'a, T>),
        (fine, transfer): (&'a Stencil, &'a TransferPattern),
        (of_a, of_coarse): (&'a Numbers, &'a Numbers),
        coarse: &'a Stencil,
        number: usize,
    ) -> Line<'a, T> {
        let my = coarse.grid.dims[1];
        let [y, z] = [(1, number % my), (2, number / my)].map(|(axis, at)| FineCells::all(transfer, coarse, axis, at));
        Line { r, a, p, transfer, of_a, of_coarse, fine, coarse, number, y, z }
    }

    /// Whether steps along x lead to the same cells from all cells but those at the ends, and from these there or out of the grid.
    fn is_regular(&self) -> bool {
        let (grids, is_coarsened) = (&self.transfer.grids, self.transfer.grids.axes[0]);
        !grids.fine.periodic[0] || grids.coarse.dims[0] > 2 && !(is_coarsened && grids.fine.is_odd_ring(0))
    }

    /// One array of the line after the other.
    fn sum(&self, buffers: &mut Buffers<T>) {
        let (mx, b) = (self.coarse.grid.dims[0], self.coarse.block);
        buffers.line.fill(T::ZERO);
        if !self.is_regular() {
            return (0..mx).for_each(|x| (0..b * b).for_each(|e| self.add_cell(x, e, &mut buffers.line)));
        }
        for e in 0..b * b {
            match self.transfer.grids.axes[0] {
                true => widely(
                    #[inline(always)]
                    || self.add_all::<true>(e, buffers),
                ),
                false => widely(
                    #[inline(always)]
                    || self.add_all::<false>(e, buffers),
                ),
            }
        }
    }

    /// Adds up all offsets of the line for entry `e` of the blocks. The grid is coarser along x (X) or not.
    #[inline(always)]
    fn add_all<const X: bool>(&self, e: usize, buffers: &mut Buffers<T>) {
        for z in &self.z {
            for y in &self.y {
                buffers.of_fine.fill(T::ZERO);
                for term in self.terms_of_r(e, y, z) {
                    self.add_r_times_a::<X>(&term, buffers);
                }
                for term in self.terms_of_p(e, y, z) {
                    self.add_times_p::<X>(e, &term, buffers);
                }
            }
        }
    }

    /// The steps along x.
    fn steps(&self) -> std::ops::RangeInclusive<i8> {
        self.transfer.steps_along(0)
    }

    /// What R A has for fine cells at one place along y and z.
    fn terms_of_r(&self, e: usize, y: &FineCells, z: &FineCells) -> impl Iterator<Item = TermOfR<'a, T>> {
        let (fine, coarse) = (&self.fine.grid, &self.coarse.grid);
        let (of_fine, of_coarse) = ((fine.cells(), fine.dims[0]), (coarse.cells(), coarse.dims[0]));
        let steps = pairs(z.terms.into_iter().flatten(), y.terms.into_iter().flatten());
        steps.filter_map(move |((dz, oz, fz), (dy, oy, fy))| {
            let numbers: [Option<usize>; 3] = [-1, 0, 1].map(|ox| self.of_a[code([ox, oy, oz])]);
            if numbers == [None; 3] {
                return None;
            }
            let line = |number| self.a.line(number, e, of_fine, fy + fine.dims[1] * fz);
            let mut term = TermOfR { weights: [&[]; 3], entries: numbers.map(|number| number.map(line)) };
            for d in self.steps() {
                let number = self.transfer.number([d, dy, dz]);
                term.weights[(d + 1) as usize] = self.r.line(number, e / self.coarse.block, of_coarse, self.number);
            }
            Some(term)
        })
    }

    /// What these fine cells are multiplied by.
    fn terms_of_p(&self, e: usize, y: &FineCells, z: &FineCells) -> impl Iterator<Item = TermOfP<'a, T>> {
        let (grid, c) = (&self.coarse.grid, e % self.coarse.block);
        let parents = pairs(z.parents.into_iter().flatten(), y.parents.into_iter().flatten());
        parents.map(move |((cz, sz, tz), (cy, sy, ty))| {
            let numbers = [-1, 0, 1].map(|t| self.of_coarse[code([t, ty, tz])]);
            let mut term = TermOfP { weights: [&[]; 3], numbers };
            for d in self.steps() {
                let (number, line) = (self.transfer.number([d, sy, sz]), cy + grid.dims[1] * cz);
                term.weights[(d + 1) as usize] = self.p.line(number, c, (grid.cells(), grid.dims[0]), line);
            }
            term
        })
    }

    /// Adds the products of some lines of A and R.
    #[inline(always)]
    fn add_r_times_a<const X: bool>(&self, term: &TermOfR<'a, T>, buffers: &mut Buffers<T>) {
        let mx = self.coarse.grid.dims[0];
        let [left, own, right] = term.weights;
        let (s0, rest) = buffers.of_fine.split_at_mut(mx);
        let (s1, rest) = rest.split_at_mut(mx);
        let (s2, rest) = rest.split_at_mut(mx);
        let (s3, s4) = rest.split_at_mut(mx);
        if !X {
            for (sums, line) in [s1, s2, s3].into_iter().zip(term.entries) {
                line.iter().for_each(|line| add_product(sums, own, line));
            }
            return;
        }
        let mut lines = [SplitLine { even: &[], odd: &[] }; 3];
        let arrays = buffers.entries.chunks_exact_mut(split_length(mx));
        for ((line, to), array) in term.entries.iter().zip(&mut lines).zip(arrays) {
            if let Some(line) = line {
                *to = split(line, self.transfer.grids.fine.periodic[0], array);
            }
        }
        // Weights of transfers without steps to the left are zero.
        let left = if self.transfer.low < 0 { left } else { &[] };
        let is_box = !left.is_empty() && term.entries.iter().all(Option::is_some);
        let begin = if is_box { mx - mx % LANES } else { 0 };
        let mut sums = [s0, s1, s2, s3, s4];
        if is_box {
            add_box(begin, &mut sums, &lines, [left, own, right]);
        }
        if begin == mx {
            return;
        }
        for (offset, line) in lines.iter().enumerate().filter(|(offset, _)| term.entries[*offset].is_some()) {
            let [at_left, at_own, at_right] = &mut sums[offset..offset + 3] else {
                unreachable!("there are five sums")
            };
            if !left.is_empty() {
                add_product(&mut at_left[begin..], &left[begin..], &line.odd[begin..]);
            }
            add_product(&mut at_own[begin..], &own[begin..], &line.even[begin..]);
            add_product(&mut at_right[begin..], &right[begin..], &line.odd[begin + 1..]);
        }
    }

    /// Adds R A P for one line of P.
    #[inline(always)]
    fn add_times_p<const X: bool>(&self, e: usize, term: &TermOfP<'a, T>, buffers: &mut Buffers<T>) {
        let (mx, bb) = (self.coarse.grid.dims[0], self.coarse.block * self.coarse.block);
        let [left, own, right] = term.weights;
        let (s0, rest) = buffers.of_fine.split_at(mx);
        let (s1, rest) = rest.split_at(mx);
        let (s2, rest) = rest.split_at(mx);
        let (s3, s4) = rest.split_at(mx);
        let periodic = self.transfer.grids.coarse.periodic[0];
        let place = |number: usize| (number * bb + e) * mx;
        for (c, number) in term.numbers.iter().enumerate() {
            let Some(number) = number else { continue };
            let sums = &mut buffers.line[place(*number)..][..mx];
            // Fine cells at 2 t - 1, 2 t and 2 t + 1, of those from -2 to 2.
            let factors: [(&[T], &[T]); 3] = match (X, c) {
                (true, 0) => [(&[], &[]), (s0, own), (s1, right)],
                (true, 1) => [(s1, left), (s2, own), (s3, right)],
                (true, _) => [(s3, left), (s4, own), (&[], &[])],
                (false, _) => [(&[], &[]), ([s1, s2, s3][c], own), (&[], &[])],
            };
            // The cells of which the coarse cell at this step is in the line.
            let (cells, others) = [(1..mx, 0..mx - 1), (0..mx, 0..mx), (0..mx - 1, 1..mx)][c].clone();
            add_to(&mut sums[cells.clone()], factors.map(|pair| parts(pair, &cells, &others)));
            if c != 1 && periodic {
                let (cell, other) = if c == 0 { (0, mx - 1) } else { (mx - 1, 0) };
                let (cells, others) = (cell..cell + 1, other..other + 1);
                add_to(&mut sums[cells.clone()], factors.map(|pair| parts(pair, &cells, &others)));
            }
        }
    }

    /// One coarse cell, by the fine cells along x, which may lie on the other side of the grid.
    fn add_cell(&self, x: usize, e: usize, sums: &mut [T]) {
        let (b, mx) = (self.coarse.block, self.coarse.grid.dims[0]);
        let fine_cells = FineCells::all(self.transfer, self.coarse, 0, x);
        for z in &self.z {
            for y in &self.y {
                let mut of_fine = [T::ZERO; 5];
                for term in self.terms_of_r(e, y, z) {
                    for (cells, sum) in fine_cells.iter().zip(&mut of_fine) {
                        for (d, ox, fx) in cells.terms.into_iter().rev().flatten() {
                            let Some(entries) = term.entries[(ox + 1) as usize] else { continue };
                            *sum += term.weights[(d + 1) as usize][x] * entries[fx];
                        }
                    }
                }
                for line in self.terms_of_p(e, y, z) {
                    for (cells, product) in fine_cells.iter().zip(of_fine) {
                        for (cx, sx, tx) in cells.parents.into_iter().flatten() {
                            let Some(number) = line.numbers[(tx + 1) as usize] else { continue };
                            sums[(number * b * b + e) * mx + x] += product * line.weights[(sx + 1) as usize][cx];
                        }
                    }
                }
            }
        }
    }
}

/// Cells that are computed together in registers.
const LANES: usize = 8;

/// Elements of an array from `k` on.
#[inline(always)]
fn lanes<T: Copy>(array: &[T], k: usize) -> [T; LANES] {
    *array[k..].first_chunk().expect("the cells are in the array")
}

#[inline(always)]
fn multiply_add<T: Scalar>(sums: &mut [T; LANES], one: &[T; LANES], other: &[T; LANES]) {
    for k in 0..LANES {
        sums[k] += one[k] * other[k];
    }
}

/// Each of the first with each of the second.
fn pairs<A: Copy, B>(
    first: impl Iterator<Item = A>,
    second: impl Iterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    first.flat_map(move |a| second.clone().map(move |b| (a, b)))
}

/// Some elements of two arrays; none where one of them is empty.
#[inline(always)]
fn parts<'a, T>(
    (one, other): (&'a [T], &'a [T]),
    of_one: &Range<usize>,
    of_other: &Range<usize>,
) -> (&'a [T], &'a [T]) {
    one.get(of_one.clone()).zip(other.get(of_other.clone())).unwrap_or_default()
}

/// Adds R A for `n` cells, a multiple of [`LANES`], in registers: five sums are more than a compiler tells from what they are made of.
#[inline(always)]
fn add_box<T: Scalar>(n: usize, sums: &mut [&mut [T]; 5], lines: &[SplitLine<'_, T>; 3], weights: [&[T]; 3]) {
    let [left, own, right] = weights.map(|weights| &weights[..n]);
    let [even0, even1, even2] = lines.map(|line| &line.even[..n]);
    let [odd0, odd1, odd2] = lines.map(|line| &line.odd[..n]);
    let [next0, next1, next2] = lines.map(|line| &line.odd[1..=n]);
    let [s0, s1, s2, s3, s4] = sums;
    let (s0, s1, s2, s3, s4) = (&mut s0[..n], &mut s1[..n], &mut s2[..n], &mut s3[..n], &mut s4[..n]);
    for k in (0..n).step_by(LANES) {
        let (l, o, r) = (lanes(left, k), lanes(own, k), lanes(right, k));
        let mut of_fine = [lanes(s0, k), lanes(s1, k), lanes(s2, k), lanes(s3, k), lanes(s4, k)];
        multiply_add(&mut of_fine[0], &l, &lanes(odd0, k));
        multiply_add(&mut of_fine[1], &o, &lanes(even0, k));
        multiply_add(&mut of_fine[2], &r, &lanes(next0, k));
        multiply_add(&mut of_fine[1], &l, &lanes(odd1, k));
        multiply_add(&mut of_fine[2], &o, &lanes(even1, k));
        multiply_add(&mut of_fine[3], &r, &lanes(next1, k));
        multiply_add(&mut of_fine[2], &l, &lanes(odd2, k));
        multiply_add(&mut of_fine[3], &o, &lanes(even2, k));
        multiply_add(&mut of_fine[4], &r, &lanes(next2, k));
        for (to, sum) in [&mut *s0, &mut *s1, &mut *s2, &mut *s3, &mut *s4].into_iter().zip(&of_fine) {
            to[k..k + LANES].copy_from_slice(sum);
        }
    }
}

/// Adds the products of two arrays.
#[inline(always)]
fn add_product<T: Scalar>(sums: &mut [T], one: &[T], other: &[T]) {
    for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
        *sum += *one * *other;
    }
}

/// Adds three products of arrays, of which the first or the last may be missing, to the same sums.
#[inline(always)]
fn add_to<T: Scalar>(sums: &mut [T], [first, second, third]: [(&[T], &[T]); 3]) {
    let n = sums.len();
    let [(a, b), (c, d)] = match (first.0.len(), third.0.len()) {
        (0, 0) => return add_product(sums, second.0, second.1),
        (0, _) => [second, third],
        (_, 0) => [first, second],
        _ => {
            let [(a, b), (c, d), (e, f)] = [first, second, third].map(|(s, p)| (&s[..n], &p[..n]));
            for k in 0..n {
                sums[k] = sums[k] + a[k] * b[k] + c[k] * d[k] + e[k] * f[k];
            }
            return;
        }
    };
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for k in 0..n {
        sums[k] = sums[k] + a[k] * b[k] + c[k] * d[k];
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
            let all = (Arrays::of(r, b), Arrays { values: a.values.as_slice(), block: b * b }, Arrays::of(p, b));
            let line = Line::new(all, (&a.pattern, &p.pattern), (&of_a, &of_coarse), pattern, number);
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
