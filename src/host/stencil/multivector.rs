//! Stencils, transfers between their grids and Gauss-Seidel sweeps for multivectors: an entry is read once for all of the interleaved vectors, which
//! are the lanes of a register.
//!
//! Sums have the order of those for one vector, so that every vector gets the bits that it gets alone. Entries are converted some cells at a time,
//! so that loops are compiled once for all storage formats.

use super::gauss_seidel::{After, Around};
use super::lines::widen;
use super::planes::{LineSweep, Planes};
use super::product::{ALL_LINES, StencilOperator, line_grain};
use super::transfer::{TransferOperator, coarse_lines};
use crate::host::multivector::Rowwise;
use crate::host::registers::{Call, with_avx2};
use crate::par;
use crate::scalar::{Number, NumbersRef, Precision, Scalar, SliceMut};
use crate::sparse::{GROUP, Stencil, TransferPattern};

/// Cells of a line that are computed at a time.
const CELLS: usize = GROUP;

/// Whether there are kernels for a stencil: one unknown for each cell, and lines with two ends.
pub(super) fn has_kernels(stencil: &Stencil) -> bool {
    stencil.block == 1 && !stencil.grid.periodic[0]
}

/// Entries of some cells for steps along x, in the precision of the sums.
type Entries<W> = [[W; CELLS]; 3];

/// Runs the loops for a number of vectors.
macro_rules! with_vectors {
    ($k:expr, $K:ident => $work:expr) => {
        match $k {
            8 => {
                const $K: usize = 8;
                with_avx2(Call(
                    #[inline(always)]
                    || $work,
                ));
            }
            4 => {
                const $K: usize = 4;
                with_avx2(Call(
                    #[inline(always)]
                    || $work,
                ));
            }
            _ => unreachable!("multivectors have 4 or 8 vectors"),
        }
    };
}

/// total += v x.
#[inline(always)]
fn add<W: Scalar, const K: usize>(total: &mut [W; K], v: W, x: &[W; K]) {
    for c in 0..K {
        total[c] += v * x[c];
    }
}

/// total -= v x.
#[inline(always)]
fn subtract<W: Scalar, const K: usize>(total: &mut [W; K], v: W, x: &[W; K]) {
    for c in 0..K {
        total[c] -= v * x[c];
    }
}

/// Calls `work` with parts of lines of `nx` cells: number of the line, first cell along x, and the results of these cells. The first result is that of
/// cell `first`.
#[inline(always)]
fn each_part<T>(nx: usize, first: usize, mut results: &mut [T], mut work: impl FnMut(usize, usize, &mut [T])) {
    let mut cell = first;
    while !results.is_empty() {
        let (line, x) = (cell / nx, cell % nx);
        let (part, rest) = results.split_at_mut((nx - x).min(results.len()));
        cell += part.len();
        work(line, x, part);
        results = rest;
    }
}

/// Adds the products of cells from `x0` on in the line at y and z with these lines around it. With their own line, `sides_of` names the parity of the
/// cells that are coupled with their neighbours in it alone; otherwise all are, and with themselves. `lines` gives a line of x.
#[inline(always)]
fn add_lines<'x, const K: usize, W: Scalar>(
    (stencil, values): (&Stencil, &NumbersRef<'_>),
    lines: impl Fn(usize) -> &'x [[W; K]],
    ([y, z], x0): ([usize; 2], usize),
    (which, sides_of): (u16, Option<usize>),
    sums: &mut [[W; K]],
) {
    let (grid, n) = (&stencil.grid, sums.len());
    let [nx, ny, _] = grid.dims;
    let cell = x0 + nx * (y + ny * z);
    let mut entries: Entries<W> = [[W::ZERO; CELLS]; 3];
    for (l, offsets) in stencil.lines.iter().enumerate() {
        let [dy, dz] = offsets.to;
        let (Some(y), Some(z)) = (grid.step(1, y, dy), grid.step(2, z, dz)) else { continue };
        if which >> l & 1 == 0 {
            continue;
        }
        let steps = &offsets.steps[..];
        if let Some(parity) = sides_of.filter(|_| offsets.to == [0, 0]) {
            let line = lines(y + ny * z);
            for (step, k) in steps.iter().filter(|(step, _)| *step != 0) {
                widen(values, stencil.array(*k, 0, 0) + cell, &mut entries[0][..n]);
                for (i, sum) in sums.iter_mut().enumerate().skip((x0 + parity) % 2).step_by(2) {
                    if let Some(x) = line.get((x0 + i).wrapping_add_signed(isize::from(*step))) {
                        add(sum, entries[0][i], x);
                    }
                }
            }
            continue;
        }
        for ((_, k), entries) in steps.iter().zip(&mut entries) {
            widen(values, stencil.array(*k, 0, 0) + cell, &mut entries[..n]);
        }
        let line = lines(y + ny * z);
        match *steps {
            [(a, _)] => add_steps([a], line, x0, &entries, sums),
            [(a, _), (b, _)] => add_steps([a, b], line, x0, &entries, sums),
            [(a, _), (b, _), (c, _)] => add_steps([a, b, c], line, x0, &entries, sums),
            _ => unreachable!("a line of a stencil has one to three steps"),
        }
    }
}

/// Adds the products of cells from `x0` on with the cells of a line at N steps from them.
#[inline(always)]
fn add_steps<const N: usize, const K: usize, W: Scalar>(
    steps: [i8; N],
    line: &[[W; K]],
    x0: usize,
    entries: &Entries<W>,
    sums: &mut [[W; K]],
) {
    // Each element is looked up. Where a loop can do without that, the compiler takes several cells for the lanes of a register,
    // and shuffles their vectors into it.
    for (i, (sum, x)) in sums.iter_mut().zip(x0..).enumerate() {
        let mut total = *sum;
        for (step, entries) in steps.iter().zip(entries) {
            if let Some(x) = line.get(x.wrapping_add_signed(isize::from(*step))) {
                add(&mut total, entries[i], x);
            }
        }
        *sum = total;
    }
}

/// Products of cells from result `first` on.
fn products<W: Scalar>(a: (&Stencil, &NumbersRef<'_>), k: usize, first: usize, x: &[W], sums: &mut [W]) {
    let [nx, ny, _] = a.0.grid.dims;
    sums.fill(W::ZERO);
    with_vectors!(k, K => {
        let (x, sums) = (x.as_chunks::<K>().0, sums.as_chunks_mut::<K>().0);
        each_part(nx, first / K, sums, #[inline(always)] |line, x0, sums| {
            add_lines(a, #[inline(always)] |line| &x[line * nx..][..nx], ([line % ny, line / ny], x0), (ALL_LINES, None), sums);
        });
    });
}

/// As [`Colours::residual_from_zero`](crate::backend::Colours::residual_from_zero).
pub(super) fn residual_from_zero<W: Scalar>(after: &After<'_>, k: usize, x: &[W], r: &mut [W]) {
    let [nx, ny, _] = after.stencil.grid.dims;
    let (a, sides_of) = ((after.stencil, after.values), Some(usize::from(after.backward)));
    par::for_each_row_mut(r, nx * k, line_grain(nx), |first, r| {
        with_vectors!(k, K => {
            let (x, r) = (x.as_chunks::<K>().0, r.as_chunks_mut::<K>().0);
            let mut errors = [W::ZERO; CELLS];
            for (number, r) in (first..).zip(r.chunks_exact_mut(nx)) {
                let at = [number % ny, number / ny];
                let which = after.around.later_than(a.0, at) | !after.around.others;
                for (x0, r) in (0..).step_by(CELLS).zip(r.chunks_mut(CELLS)) {
                    let (own, errors) = (&x[number * nx + x0..], &mut errors[..r.len()]);
                    after.errors(number * nx + x0, errors);
                    for ((r, x), error) in r.iter_mut().zip(own).zip(errors) {
                        *r = x.map(|x| *error * x);
                    }
                    add_lines(a, #[inline(always)] |line| &x[line * nx..][..nx], (at, x0), (which, sides_of), r);
                    r.iter_mut().flatten().for_each(|r| *r = -*r);
                }
            }
        });
    });
}

/// Cells of the coarser grid from result `first` on: sums over the fine cells around them.
fn restrict<W: Scalar>(
    (pattern, values): (&TransferPattern, &NumbersRef<'_>),
    k: usize,
    first: usize,
    x: &[W],
    sums: &mut [W],
) {
    let grids = &pattern.grids;
    let ([nx, ny, _], [mx, my, _]) = (grids.fine.dims, grids.coarse.dims);
    let factor = if grids.axes[0] { 2 } else { 1 };
    sums.fill(W::ZERO);
    with_vectors!(k, K => {
        let (x, sums) = (x.as_chunks::<K>().0, sums.as_chunks_mut::<K>().0);
        let mut weights: Entries<W> = [[W::ZERO; CELLS]; 3];
        each_part(mx, first / K, sums, #[inline(always)] |line, x0, sums| {
            for dz in pattern.steps_along(2) {
                for dy in pattern.steps_along(1) {
                    let (y, z) = (grids.fine(1, line % my, dy), grids.fine(2, line / my, dz));
                    let (Some(y), Some(z)) = (y, z) else { continue };
                    let fine = &x[nx * (y + ny * z)..][..nx];
                    let steps = pattern.steps_along(0);
                    for (dx, weights) in steps.clone().zip(&mut weights) {
                        let from = pattern.array(pattern.number([dx, dy, dz]), 0) + line * mx + x0;
                        widen(values, from, &mut weights[..sums.len()]);
                    }
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let mut total = *sum;
                        for (dx, weights) in steps.clone().zip(&weights) {
                            if let Some(x) = fine.get((factor * (x0 + i)).wrapping_add_signed(isize::from(dx))) {
                                add(&mut total, weights[i], x);
                            }
                        }
                        *sum = total;
                    }
                }
            }
        });
    });
}

/// Cells of the finer grid from result `first` on: sums over the coarse cells that they interpolate from.
fn interpolate<W: Scalar>(
    (pattern, values): (&TransferPattern, &NumbersRef<'_>),
    k: usize,
    first: usize,
    x: &[W],
    sums: &mut [W],
) {
    let grids = &pattern.grids;
    let ([nx, ny, _], [mx, my, _]) = (grids.fine.dims, grids.coarse.dims);
    sums.fill(W::ZERO);
    with_vectors!(k, K => {
        let (x, sums) = (x.as_chunks::<K>().0, sums.as_chunks_mut::<K>().0);
        let mut weights: Entries<W> = [[W::ZERO; CELLS]; 3];
        each_part(nx, first / K, sums, #[inline(always)] |line, x0, sums| {
            let (begin, end) = match grids.axes[0] {
                true => (x0 / 2, ((x0 + sums.len()) / 2 + 1).min(mx)),
                false => (x0, x0 + sums.len()),
            };
            for (cy, cz, dy, dz) in coarse_lines(pattern, line % ny, line / ny) {
                let from = mx * (cy + my * cz);
                let coarse = &x[from + begin..from + end];
                for (dx, weights) in pattern.steps_along(0).zip(&mut weights) {
                    let array = pattern.array(pattern.number([dx, dy, dz]), 0);
                    widen(values, array + from + begin, &mut weights[..end - begin]);
                }
                for (i, sum) in sums.iter_mut().enumerate() {
                    for (at, dx) in grids.parents(0, x0 + i, pattern.low).into_iter().flatten() {
                        let weights = &weights[if grids.axes[0] { (dx - pattern.low) as usize } else { 0 }];
                        add(sum, weights[at - begin], &coarse[at - begin]);
                    }
                }
            }
        });
    });
}

impl<S: Number> StencilOperator<S> {
    /// Whether it has products with multivectors.
    pub(in crate::host) fn has_multivectors(&self) -> bool {
        has_kernels(&self.matrix.pattern)
    }
}

impl<S: Number> Rowwise for StencilOperator<S> {
    fn rows(&self) -> usize {
        StencilOperator::rows(self)
    }

    fn group(&self) -> usize {
        CELLS
    }

    fn width(&self) -> usize {
        1
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }

    fn format(&self) -> String {
        StencilOperator::format(self)
    }

    fn run(&self, k: usize, work: &mut (dyn FnMut() + Send)) {
        self.host.run(self.matrix.pattern.entries() * k, work);
    }

    fn products(&self, k: usize, first: usize, x: NumbersRef<'_>, sums: SliceMut<'_>) {
        let a = (&*self.matrix.pattern, &S::numbers(self.matrix.values.as_slice()));
        match (x, sums) {
            (NumbersRef::F64(x), SliceMut::F64(sums)) => products(a, k, first, x, sums),
            (NumbersRef::F32(x), SliceMut::F32(sums)) => products(a, k, first, x, sums),
            _ => unreachable!("vectors and sums have the same precision"),
        }
    }
}

impl<S: Number> TransferOperator<S> {
    /// Whether it has products with multivectors.
    pub(in crate::host) fn has_multivectors(&self) -> bool {
        self.matrix.pattern.block == 1 && !self.matrix.pattern.grids.fine.periodic[0]
    }
}

impl<S: Number> Rowwise for TransferOperator<S> {
    fn rows(&self) -> usize {
        TransferOperator::rows(self)
    }

    fn group(&self) -> usize {
        CELLS
    }

    fn width(&self) -> usize {
        1
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }

    fn format(&self) -> String {
        TransferOperator::format(self)
    }

    fn run(&self, k: usize, work: &mut (dyn FnMut() + Send)) {
        self.host.run(self.matrix.pattern.entries() * k, work);
    }

    fn products(&self, k: usize, first: usize, x: NumbersRef<'_>, sums: SliceMut<'_>) {
        let p = (&*self.matrix.pattern, &S::numbers(self.matrix.values.as_slice()));
        match (x, sums, self.matrix.transposed) {
            (NumbersRef::F64(x), SliceMut::F64(sums), true) => restrict(p, k, first, x, sums),
            (NumbersRef::F32(x), SliceMut::F32(sums), true) => restrict(p, k, first, x, sums),
            (NumbersRef::F64(x), SliceMut::F64(sums), false) => interpolate(p, k, first, x, sums),
            (NumbersRef::F32(x), SliceMut::F32(sums), false) => interpolate(p, k, first, x, sums),
            _ => unreachable!("vectors and sums have the same precision"),
        }
    }
}

/// Sweeps lines of `k` vectors.
pub(super) struct MultivectorSweep<'a, W> {
    /// The stencil, its values, and the inverse of its diagonal.
    pub of: (&'a Stencil, &'a NumbersRef<'a>, &'a NumbersRef<'a>),
    pub around: Around,
    pub b: &'a [W],
    pub k: usize,
    /// Cells that are swept together.
    pub strip: usize,
    pub backward: bool,
}

impl<W: Scalar> LineSweep for MultivectorSweep<'_, W> {
    type Element = W;
    type Buffers = ();

    fn buffers(&self) {}

    fn width(&self) -> usize {
        self.k
    }

    fn line(&self, number: usize, even_only: bool, old: &Planes<'_, W>, (): &mut (), new: &mut [W]) {
        with_vectors!(self.k, K => self.line_of::<K>(number, even_only, old, new.as_chunks_mut().0));
    }
}

/// A strip of a line while it is swept.
struct Strip<'a, W, const K: usize> {
    /// Cells of the line.
    cells: std::ops::Range<usize>,
    /// The line before the sweep.
    old: &'a [[W; K]],
    /// Of cells that were swept the new values; of others the right-hand side without the products with other lines.
    new: &'a mut [[W; K]],
}

impl<W: Scalar> MultivectorSweep<'_, W> {
    /// The new values of a line, strip after strip: even cells before odd ones, or backward the odd ones first.
    #[inline(always)]
    fn line_of<const K: usize>(&self, number: usize, even_only: bool, old: &Planes<'_, W>, new: &mut [[W; K]]) {
        let (stencil, values, _) = self.of;
        let [nx, ny, _] = stencil.grid.dims;
        let lines = |line: usize| old.from(line * nx * K)[..nx * K].as_chunks::<K>().0;
        let b = self.b[number * nx * K..][..nx * K].as_chunks::<K>().0;
        let (at, strips) = ([number % ny, number / ny], nx.div_ceil(self.strip));
        let which = (self.around.of(stencil, at), None);
        for k in 0..strips {
            let first = self.strip * if self.backward { strips - 1 - k } else { k };
            let cells = first..(first + self.strip).min(nx);
            for x0 in cells.clone().step_by(CELLS) {
                let rest = &mut new[x0..(x0 + CELLS).min(cells.end)];
                rest.fill([W::ZERO; K]);
                add_lines((stencil, values), lines, (at, x0), which, rest);
                for (rest, b) in rest.iter_mut().zip(&b[x0..]) {
                    for c in 0..K {
                        rest[c] = b[c] - rest[c];
                    }
                }
            }
            let mut strip = Strip { cells, old: lines(number), new };
            let parities: &[usize] = match (even_only, self.backward) {
                (true, _) => &[0],
                (false, true) => &[1, 0],
                (false, false) => &[0, 1],
            };
            for (turn, parity) in parities.iter().enumerate() {
                self.solve(number * nx, &mut strip, *parity, turn > 0);
            }
            if even_only {
                let Strip { cells, old, new } = strip;
                cells.skip(1).step_by(2).for_each(|x| new[x] = old[x]);
            }
        }
    }

    /// Solves the cells of a parity of a strip, whose line begins with cell `line`. `others_are_new` says whether those of the other parity were solved.
    #[inline(always)]
    fn solve<const K: usize>(&self, line: usize, strip: &mut Strip<'_, W, K>, parity: usize, others_are_new: bool) {
        let (stencil, values, inverse) = self.of;
        let Strip { cells, old, new } = strip;
        // Beside the strip, cells of strips that were swept before have new values.
        let is_new = |x: usize| match cells.contains(&x) {
            true => others_are_new,
            false => (x < cells.start) != self.backward,
        };
        let (mut entries, mut diagonal): (Entries<W>, _) = ([[W::ZERO; CELLS]; 3], [W::ZERO; CELLS]);
        for x0 in cells.clone().step_by(CELLS) {
            let n = CELLS.min(cells.end - x0);
            for (step, entries) in (-1..=1).zip(&mut entries) {
                if let Some(k) = stencil.find([step, 0, 0]) {
                    widen(values, stencil.array(k, 0, 0) + line + x0, &mut entries[..n]);
                }
            }
            widen(inverse, line + x0, &mut diagonal[..n]);
            for i in (parity..n).step_by(2) {
                let x = x0 + i;
                let mut residual = new[x];
                if x > 0 {
                    subtract(&mut residual, entries[0][i], if is_new(x - 1) { &new[x - 1] } else { &old[x - 1] });
                }
                subtract(&mut residual, entries[1][i], &old[x]);
                if x + 1 < old.len() {
                    subtract(&mut residual, entries[2][i], if is_new(x + 1) { &new[x + 1] } else { &old[x + 1] });
                }
                let mut solved = old[x];
                add(&mut solved, diagonal[i], &residual);
                new[x] = solved;
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::{Backend, Colours, Multivectors, Operator};
    use crate::context::Context;
    use crate::hash::hash;
    use crate::host::Host;
    use crate::host::any_matrix::AnyOperator;
    use crate::host::stencil::gauss_seidel::StencilColours;
    use crate::sparse::{Coarsened, ColouredStencil, Grid, Offset, SharedStencil, SharedTransfer};
    use half::f16;
    use std::sync::Arc;

    fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
        (0..n).map(|i| T::from_f64((hash(i, seed) % 2001) as f64 / 1000.0 - 1.0)).collect()
    }

    /// Vector c of a multivector.
    fn vector<T: Copy>(x: &[T], k: usize, c: usize) -> Vec<T> {
        x[c..].iter().step_by(k).copied().collect()
    }

    /// A stencil of the offsets with at most so many steps that are not zero.
    fn stencil<S: Number>(grid: Grid, most: usize) -> SharedStencil<S> {
        let all = (0..27_i8).map(|k| [k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1]);
        let inside = |offset: &Offset| (0..3).all(|axis| offset[axis] == 0 || grid.dims[axis] > 1);
        let steps = |offset: &Offset| offset.iter().filter(|step| **step != 0).count();
        let offsets: Vec<Offset> = all.filter(|offset| inside(offset) && steps(offset) <= most).collect();
        let pattern = Stencil::new(grid, 1, &offsets).unwrap();
        let (cells, mut values) = (grid.cells(), numbers::<S>(pattern.entries(), 1));
        for (at, value) in values.iter_mut().enumerate() {
            if grid.neighbour(grid.point(at % cells), offsets[at / cells]).is_none() {
                *value = S::ZERO;
            }
        }
        SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) }
    }

    /// Products of each vector have the bits of the operator for one vector; `cols` are its columns.
    fn check_product<V: Scalar>(host: &Host, a: Arc<dyn Operator<Host, V>>, cols: usize, what: &str) {
        let n = a.rows();
        for k in [4, 8] {
            let all = Arc::clone(&a).for_multivectors(k).unwrap();
            let (x, b): (Vec<V>, Vec<V>) = (numbers(cols * k, 2), numbers(n * k, 3));
            let [mut y, mut r, mut sum] = [b.clone(), b.clone(), b.clone()];
            let (two, half) = (V::from_f64(2.0), V::from_f64(0.5));
            all.apply(two, &x, half, &mut y).unwrap();
            all.residual(&b, &x, &mut r).unwrap();
            host.add_product(&*all, two, &x, &b, &mut sum).unwrap();
            let mut q = b.clone();
            let square = n == cols;
            let dots = square.then(|| host.multivector_product(&*all, &x, &mut q).unwrap());
            for c in 0..k {
                let (own_x, own_b) = (vector(&x, k, c), vector(&b, k, c));
                let [mut own, mut own_r, mut own_sum] = [own_b.clone(), own_b.clone(), own_b.clone()];
                a.apply(two, &own_x, half, &mut own).unwrap();
                a.residual(&own_b, &own_x, &mut own_r).unwrap();
                host.add_product(&*a, two, &own_x, &own_b, &mut own_sum).unwrap();
                assert!(vector(&y, k, c) == own && vector(&r, k, c) == own_r, "{what} with {k} vectors");
                assert!(vector(&sum, k, c) == own_sum, "{what} with {k} vectors");
                if let Some(dots) = &dots {
                    let own_q = vector(&q, k, c);
                    let off = (dots[c] - host.dot(&own_x, &own_q)).abs();
                    assert!(off <= 1e-12 * host.norm(&own_x) * host.norm(&own_q), "{what} with {k} vectors");
                }
            }
        }
    }

    fn check_sweeps<S: Number, V: Scalar>(host: &Host, a: &SharedStencil<S>, what: &str) {
        let n = a.pattern.scalar_rows();
        let matrix = ColouredStencil { matrix: a.clone(), inverse: numbers(n, 4), lines: None, shared: true };
        let colours = StencilColours::new(matrix);
        assert!(Colours::<Host, V>::takes_multivectors(&colours));
        let count = Colours::<Host, V>::count(&colours);
        for k in [4, 8] {
            let (b, mut x, mut scratch): (Vec<V>, Vec<V>, Vec<V>) =
                (numbers(n * k, 5), numbers(n * k, 6), numbers(n * k, 7));
            let mut own: Vec<Vec<V>> = (0..k).map(|c| vector(&x, k, c)).collect();
            for (backward, count, zero) in [
                (false, count, false),
                (true, count - 1, false),
                (true, count, false),
                (false, count, true),
                (false, count - 1, false),
            ] {
                let pass = |b: &[V], x: &mut [V], scratch: &mut Vec<V>| match zero {
                    true => colours.pass_from_zero(host, count, backward, b, x, scratch).unwrap(),
                    false => colours.pass(host, count, backward, b, x, scratch).unwrap(),
                };
                pass(&b, &mut x, &mut scratch);
                for (c, own) in own.iter_mut().enumerate() {
                    pass(&vector(&b, k, c), own, &mut vec![V::ZERO; n]);
                    assert!(vector(&x, k, c) == *own, "{what} with {k} vectors, {backward} {count} {zero}");
                }
                let mut r: Vec<V> = numbers(n * k, 8);
                let has_form = colours.residual_from_zero(host, backward, &x, &mut r).unwrap();
                for (c, own) in own.iter().enumerate() {
                    let mut own_r = vector(&r, k, c);
                    assert_eq!(colours.residual_from_zero(host, backward, own, &mut own_r).unwrap(), has_form);
                    assert!(vector(&r, k, c) == own_r, "{what}, residuals of {k} vectors");
                }
            }
        }
    }

    fn check<S: Number, V: Scalar>() {
        let host = Host::new(&Context::new("host:2").unwrap());
        for (case, (dims, periodic)) in [
            ([13, 9, 1], [false; 3]),
            ([7, 5, 6], [false; 3]),
            ([70, 3, 5], [false; 3]),
            ([2, 1, 9], [false; 3]),
            ([1, 6, 4], [false; 3]),
            ([129, 1, 1], [false; 3]),
            ([9, 5, 4], [false, true, true]),
            ([1030, 2, 1], [false; 3]),
        ]
        .into_iter()
        .enumerate()
        {
            let grid = Grid { dims, periodic };
            for most in 1..=3 {
                let a = stencil::<S>(grid, most);
                let what = format!("{} of {grid:?}, {:?} {:?}", a.pattern.format(), S::PRECISION, V::PRECISION);
                check_sweeps::<S, V>(&host, &a, &what);
                let operator = AnyOperator(Arc::new(StencilOperator::new(&host, a)));
                check_product::<V>(&host, Arc::new(operator), grid.cells(), &what);
            }
            let axes = [[true; 3], [false, true, true], [true, false, false]][case % 3];
            for low in [0, -1] {
                let pattern = Arc::new(TransferPattern::new(Coarsened::new(grid, axes), 1, low));
                let values = Arc::new(numbers::<S>(pattern.entries(), 8));
                let cells = [pattern.grids.fine.cells(), pattern.grids.coarse.cells()];
                for transposed in [false, true] {
                    let matrix = SharedTransfer { pattern: Arc::clone(&pattern), transposed, values: values.clone() };
                    let operator = AnyOperator(Arc::new(TransferOperator::new(&host, matrix)));
                    let what = format!("transfers of {:?} from {low}, {transposed}", pattern.grids);
                    check_product::<V>(&host, Arc::new(operator), cells[usize::from(!transposed)], &what);
                }
            }
        }
    }

    #[test]
    fn every_vector_has_the_bits_that_it_has_alone() {
        check::<f64, f64>();
        check::<f16, f32>();
    }

    #[test]
    fn blocks_and_periodic_lines_have_no_form() {
        let host = Host::new(&Context::new("host:1").unwrap());
        let ring = Grid { dims: [6, 3, 2], periodic: [true, false, false] };
        let operator = |a: SharedStencil<f64>| -> Arc<dyn Operator<Host, f64>> {
            Arc::new(AnyOperator(Arc::new(StencilOperator::new(&host, a))))
        };
        assert!(operator(stencil(ring, 1)).for_multivectors(8).is_none());
        let pattern = Stencil::new(Grid::new([3, 3, 3]), 2, &[[0; 3]]).unwrap();
        let values = numbers(pattern.entries(), 1);
        let blocks = SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) };
        assert!(operator(blocks).for_multivectors(8).is_none());
    }
}
