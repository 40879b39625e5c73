//! SpMV with a stencil: lines of cells, of which each entry of the stencil is an array.

use super::lines::{AROUND, GROUP, Load, SUMS, Terms, load_any, load_with_ends, multiply_add};
use crate::host::Host;
use crate::host::spmv::Epilogue;
use crate::par;
use crate::scalar::{Number, NumbersRef, Scalar};
use crate::sparse::{SharedStencil, Stencil};
use std::ops::Range;

/// Cells that one task handles.
const CELL_GRAIN: usize = 4 * par::ROW_GRAIN;

/// Lines that one task handles.
pub(super) fn line_grain(nx: usize) -> usize {
    CELL_GRAIN.div_ceil(nx.max(1))
}

/// A stencil as an operator of the host.
pub struct StencilOperator<S> {
    pub(super) host: Host,
    pub(super) matrix: SharedStencil<S>,
}

impl<S: Number> StencilOperator<S> {
    /// Runs on the threads of `host`.
    pub fn new(host: &Host, matrix: SharedStencil<S>) -> StencilOperator<S> {
        StencilOperator { host: host.clone(), matrix }
    }

    pub(in crate::host) fn product<Y: Number>(&self, x: NumbersRef<'_>, y: &mut [Y], epilogue: Epilogue<'_, Y>) {
        let values = S::numbers(self.matrix.values.as_slice());
        product_on(&self.host, &self.matrix.pattern, values, x, y, epilogue);
    }

    pub(in crate::host) fn rows(&self) -> usize {
        self.matrix.pattern.scalar_rows()
    }

    pub(in crate::host) fn bytes(&self) -> usize {
        self.matrix.values.owned_bytes()
    }

    pub(in crate::host) fn format(&self) -> String {
        self.matrix.pattern.format()
    }
}

/// y = alpha A x.
pub fn apply<S: Number, X: Number, Y: Number>(a: &SharedStencil<S>, alpha: Y::Wide, x: &[X], y: &mut [Y]) {
    product(&a.pattern, S::numbers(a.values.as_slice()), X::numbers(x), y, Epilogue::Overwrite(alpha));
}

/// [`product`] on the threads of a host.
fn product_on<Y: Number>(
    host: &Host,
    stencil: &Stencil,
    values: NumbersRef<'_>,
    x: NumbersRef<'_>,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
) {
    host.run(stencil.entries(), || product(stencil, values, x, y, epilogue));
}

/// The product of a stencil and `x`, with its epilogue. Generic over the results alone.
fn product<Y: Number>(
    stencil: &Stencil,
    values: NumbersRef<'_>,
    x: NumbersRef<'_>,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
) {
    let b = stencil.block;
    assert!(x.len() == stencil.scalar_rows() && y.len() == x.len());
    let load = load_any::<Y::Wide>(x, b);
    let width = stencil.grid.dims[0] * b;
    par::for_each_row_mut(y, width, line_grain(stencil.grid.dims[0]), |first, y| {
        let lines = first..first + y.len() / width;
        line_products(stencil, &values, &load, lines, &mut |row, ax| {
            epilogue.store(row, ax, &mut y[row - first * width..][..ax.len()]);
        });
    });
}

/// Products of all lines of a range with x. `store` gets the first scalar row and the products of some cells.
pub(super) fn line_products<W: Scalar>(
    stencil: &Stencil,
    values: &NumbersRef<'_>,
    load: &Load<'_, W>,
    lines: Range<usize>,
    store: &mut dyn FnMut(usize, &[W]),
) {
    let ([nx, ny, _], b) = (stencil.grid.dims, stencil.block);
    let (mut sums, mut around) = ([W::ZERO; SUMS], [W::ZERO; AROUND]);
    let mut rows = [W::ZERO; SUMS];
    let strip = SUMS / b;
    for number in lines {
        let at = [number % ny, number / ny];
        for x in (0..nx).step_by(strip) {
            let len = strip.min(nx - x);
            let sums = &mut sums[..len * b];
            sums.fill(W::ZERO);
            add_lines(stencil, values, load, (at, x), ALL_LINES, &mut around, sums);
            let first = (number * nx + x) * b;
            if b == 1 {
                store(first, sums);
            } else {
                let rows = &mut rows[..len * b];
                for (r, sums) in sums.chunks_exact(len).enumerate() {
                    rows[r..].iter_mut().step_by(b).zip(sums).for_each(|(row, sum)| *row = *sum);
                }
                store(first, rows);
            }
        }
    }
}

/// Of the lines around a line, all; otherwise bits by their places in [`Stencil::lines`].
pub(super) const ALL_LINES: u16 = u16::MAX;

/// The line itself among them.
pub(super) fn own_line(stencil: &Stencil) -> u16 {
    stencil.lines.iter().position(|line| line.to == [0, 0]).map_or(0, |l| 1 << l)
}

/// Adds the products of cells from `x` on in the line at y and z with these lines around it, one unknown after the other.
pub(super) fn add_lines<W: Scalar>(
    stencil: &Stencil,
    values: &NumbersRef<'_>,
    load: &Load<'_, W>,
    (at, x): ([usize; 2], usize),
    which: u16,
    around: &mut [W; AROUND],
    sums: &mut [W],
) {
    if stencil.block == 1 {
        for (k, sums) in sums.chunks_mut(GROUP).enumerate() {
            add_all_lines(stencil, values, load, (at, x + k * GROUP), which, around, sums);
        }
        return;
    }
    let ([nx, ny, _], b) = (stencil.grid.dims, stencil.block);
    let (len, cell) = (sums.len() / b, x + nx * (at[0] + ny * at[1]));
    let width = len + 2;
    for (line, steps) in lines_around(stencil, at, which) {
        for c in 0..b {
            load_with_ends(load, &stencil.grid, line, x, c, &mut around[c * width..][..width]);
        }
        for (r, sums) in sums.chunks_exact_mut(len).enumerate() {
            let mut terms = Terms::new();
            for (dx, k) in steps {
                for c in 0..b {
                    terms.push(stencil.array(*k, r, c) + cell, c * width + (1 + dx) as usize);
                }
            }
            multiply_add(values, terms.as_slice(), around, sums);
        }
    }
}

/// These of the lines around a line at y and z, by their first cells, with the steps along x and the numbers of the offsets that lead there.
pub(super) fn lines_around(
    stencil: &Stencil,
    [y, z]: [usize; 2],
    which: u16,
) -> impl Iterator<Item = (usize, &[(i8, usize)])> + '_ {
    let (grid, [nx, ny, _]) = (&stencil.grid, stencil.grid.dims);
    let wanted = stencil.lines.iter().enumerate().filter(move |(l, _)| which >> l & 1 != 0);
    wanted.filter_map(move |(_, offsets)| {
        let (y, z) = (grid.step(1, y, offsets.to[0])?, grid.step(2, z, offsets.to[1])?);
        Some((nx * (y + ny * z), offsets.steps.as_slice()))
    })
}

/// [`add_lines`] of scalars, at most [`GROUP`] cells: all terms in one pass.
fn add_all_lines<W: Scalar>(
    stencil: &Stencil,
    values: &NumbersRef<'_>,
    load: &Load<'_, W>,
    (at, x): ([usize; 2], usize),
    which: u16,
    around: &mut [W; AROUND],
    sums: &mut [W],
) {
    let [nx, ny, _] = stencil.grid.dims;
    let (width, cell) = (sums.len() + 2, x + nx * (at[0] + ny * at[1]));
    let mut terms = Terms::new();
    for ((line, steps), (begin, to)) in
        lines_around(stencil, at, which).zip((0..).step_by(width).zip(around.chunks_exact_mut(width)))
    {
        load_with_ends(load, &stencil.grid, line, x, 0, to);
        for (dx, k) in steps {
            terms.push(stencil.array(*k, 0, 0) + cell, begin + (1 + dx) as usize);
        }
    }
    multiply_add(values, terms.as_slice(), around, sums);
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::Operator;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::any_matrix::AnyOperator;
    use crate::host::spmv;
    use crate::sparse::Grid;
    use half::f16;
    use std::sync::Arc;

    /// Values that products of two in f32 hold exactly: small whole numbers.
    fn whole<T: Number>(n: usize) -> Vec<T> {
        (0..n).map(|i| T::from_f64(((i * 37) % 23) as f64 - 11.0)).collect()
    }

    fn check<S: Number, X: Number, Y: Number>(a: &SharedStencil<f64>) {
        let host = Host::new(&Context::new("host:3").unwrap());
        let (a, n) = (a.cast::<S>().unwrap(), a.pattern.scalar_rows());
        let rows = a.to_rows().unwrap();
        let (x, mut y, mut expected): (Vec<X>, Vec<Y>, Vec<Y>) = (whole(n), whole(n), whole(n));
        spmv::apply(&rows.view(), Y::Wide::ONE, &x, Y::Wide::ONE, &mut expected);
        let operator = AnyOperator(Arc::new(StencilOperator::new(&host, a)));
        operator.apply(Y::Wide::ONE, &x, Y::Wide::ONE, &mut y).unwrap();
        assert!(y == expected);
        let (b, mut r): (Vec<Y>, Vec<Y>) = (whole(n), vec![Y::ZERO; n]);
        operator.residual(&b, &x, &mut r).unwrap();
        let mut product = vec![Y::ZERO; n];
        spmv::apply(&rows.view(), Y::Wide::ONE, &x, Y::Wide::ZERO, &mut product);
        assert!((0..n).all(|i| r[i].widen() == b[i].widen() - product[i].widen()));
    }

    #[test]
    fn products_are_those_of_the_matrix_in_rows() {
        let mut cases = Vec::new();
        for (name, dims) in [
            ("poisson27:9x5x4", [9, 5, 4]),
            ("poisson7:1x6x5", [1, 6, 5]),
            ("poisson7:5x1x7", [5, 1, 7]),
            ("poisson5:1100x3", [1100, 3, 1]),
            ("poisson9:70x20", [70, 20, 1]),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            cases.push(SharedStencil::from_rows(&a, Grid::new(dims)).unwrap());
        }
        // Blocks, all values different, on a grid that is periodic along two axes.
        for b in [2, 3, 8] {
            let grid = Grid { dims: [5, 4, 3], periodic: [true, false, true] };
            let offsets = [[0, 0, 0], [-1, 0, 0], [1, 1, 0], [0, -1, 1], [1, 0, -1]];
            let stencil = Stencil::new(grid, b, &offsets).unwrap();
            let mut values: Vec<f64> = whole(stencil.entries());
            for (k, offset) in offsets.iter().enumerate() {
                for cell in (0..60).filter(|cell| grid.neighbour(grid.point(*cell), *offset).is_none()) {
                    (0..b * b).for_each(|e| values[stencil.array(k, e / b, e % b) + cell] = 0.0);
                }
            }
            cases.push(SharedStencil { pattern: stencil.into(), values: std::sync::Arc::new(values) });
        }
        for a in &cases {
            a.validate().unwrap();
            check::<f64, f64, f64>(a);
            check::<f32, f64, f32>(a);
            check::<f16, f32, f32>(a);
            check::<f16, f32, f64>(a);
        }
    }
}
