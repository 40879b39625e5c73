//! Interpolation from a coarser grid and restriction to it, with weights as arrays over lines of coarse cells.
//!
//! Along x the even and the odd cells of a fine line are apart in buffers, so that every step from a coarse cell is a product of contiguous
//! arrays.

use super::lines::{LINE, Load, SUMS, Terms, load_any, multiply_add};
use super::product::line_grain;
use crate::host::Host;
use crate::host::spmv::Epilogue;
use crate::par;
use crate::scalar::{Number, NumbersRef, Scalar};
use crate::sparse::{SharedTransfer, TransferPattern};
use std::sync::Arc;

/// A prolongator or a restriction as an operator of the host.
pub struct TransferOperator<S> {
    pub(super) host: Host,
    pub(super) matrix: SharedTransfer<S>,
}

impl<S: Number> TransferOperator<S> {
    /// Runs on the threads of `host`.
    pub fn new(host: &Host, matrix: SharedTransfer<S>) -> TransferOperator<S> {
        TransferOperator { host: host.clone(), matrix }
    }

    pub(in crate::host) fn product<Y: Number>(&self, x: NumbersRef<'_>, y: &mut [Y], epilogue: Epilogue<'_, Y>) {
        let SharedTransfer { pattern, transposed, values } = &self.matrix;
        product(&self.host, (pattern, *transposed), S::numbers(values.as_slice()), x, y, epilogue);
    }

    pub(in crate::host) fn rows(&self) -> usize {
        let grids = &self.matrix.pattern.grids;
        self.matrix.pattern.block * if self.matrix.transposed { grids.coarse.cells() } else { grids.fine.cells() }
    }

    pub(in crate::host) fn bytes(&self) -> usize {
        let shared = self.matrix.transposed && Arc::strong_count(&self.matrix.values) > 1;
        if shared { 0 } else { self.matrix.values.owned_bytes() }
    }

    pub(in crate::host) fn format(&self) -> String {
        format!("stencil{}", self.matrix.pattern.steps.len())
    }
}

/// The product of a transfer or its transpose and `x`, with its epilogue. Generic over the results alone.
fn product<Y: Number>(
    host: &Host,
    (pattern, transposed): (&TransferPattern, bool),
    values: NumbersRef<'_>,
    x: NumbersRef<'_>,
    y: &mut [Y],
    epilogue: Epilogue<'_, Y>,
) {
    let b = pattern.block;
    let load = load_any::<Y::Wide>(x, b);
    let to = if transposed { &pattern.grids.coarse } else { &pattern.grids.fine };
    let (nx, width) = (to.dims[0], to.dims[0] * b);
    host.run(pattern.entries(), || {
        par::for_each_row_mut(y, width, line_grain(nx), |first, y| {
            let mut buffers = Buffers::new();
            for (k, y) in y.chunks_exact_mut(width).enumerate() {
                let store: &mut Store<'_, Y::Wide> = &mut |row, ax| {
                    let first = (first + k) * width;
                    epilogue.store(row, ax, &mut y[row - first..][..ax.len()]);
                };
                match transposed {
                    true => restrict(pattern, &values, &load, first + k, &mut buffers, store),
                    false => interpolate(pattern, &values, &load, first + k, &mut buffers, store),
                }
            }
        });
    });
}

/// What the lines of a task use one after the other.
struct Buffers<W> {
    sums: [W; SUMS],
    rows: [W; SUMS],
    /// A line of x; in a restriction its even cells, and then the odd ones.
    line: [W; LINE],
    /// A fine line as it is.
    cells: [W; LINE],
}

impl<W: Scalar> Buffers<W> {
    fn new() -> Buffers<W> {
        Buffers { sums: [W::ZERO; SUMS], rows: [W::ZERO; SUMS], line: [W::ZERO; LINE], cells: [W::ZERO; LINE] }
    }
}

/// Gets the first scalar row and the products of some cells.
type Store<'a, W> = dyn FnMut(usize, &[W]) + 'a;

/// A line of the fine grid: sums over the coarse lines that it interpolates from. Coarse cells are taken in strips, each with the even fine cells at
/// them and the odd ones behind them.
fn interpolate<W: Scalar>(
    pattern: &TransferPattern,
    values: &NumbersRef<'_>,
    load: &Load<'_, W>,
    line: usize,
    buffers: &mut Buffers<W>,
    store: &mut Store<'_, W>,
) {
    let (grids, b) = (&pattern.grids, pattern.block);
    let ([nx, ny, _], [mx, my, _]) = (grids.fine.dims, grids.coarse.dims);
    let (y, z) = (line % ny, line / ny);
    // Along a coarsened axis the sums of the even cells, then those of the odd ones.
    let (parities, strip) = (if grids.axes[0] { 2 } else { 1 }, SUMS / (2 * b));
    let Buffers { sums, rows, line: buffer, .. } = buffers;
    for x in (0..mx).step_by(strip) {
        let len = strip.min(mx - x);
        let sums = &mut sums[..parities * len * b];
        sums.fill(W::ZERO);
        // One more coarse cell, from which the last odd one also interpolates.
        let next = if grids.axes[0] { grids.coarse.step(0, x + len - 1, 1) } else { None };
        for (cy, cz, dy, dz) in coarse_lines(pattern, y, z) {
            let first = mx * (cy + my * cz);
            for c in 0..b {
                let buffer = &mut buffer[..=len];
                load(first + x, c, &mut buffer[..len]);
                buffer[len] = W::ZERO;
                if let Some(next) = next {
                    load(first + next, c, &mut buffer[len..]);
                }
                let weights = |dx: i8| pattern.array(pattern.number([dx, dy, dz]), c) + first + x;
                let (even, odd) = sums[c * parities * len..][..parities * len].split_at_mut(len);
                let mut terms = Terms::new();
                terms.push(weights(0), 0);
                multiply_add(values, terms.as_slice(), buffer, even);
                if parities == 1 {
                    continue;
                }
                let mut terms = Terms::new();
                terms.push(weights(1), 0);
                multiply_add(values, terms.as_slice(), buffer, odd);
                if pattern.low < 0 {
                    // The weights of the next coarse cells. That of the last may be of another line, or of the first cell.
                    let inside = len - usize::from(x + len == mx);
                    let mut terms = Terms::new();
                    terms.push(weights(-1) + 1, 1);
                    multiply_add(values, terms.as_slice(), buffer, &mut odd[..inside]);
                    if let Some(next) = next.filter(|_| inside < len) {
                        let mut terms = Terms::new();
                        terms.push(weights(-1) - x + next, len);
                        multiply_add(values, terms.as_slice(), buffer, &mut odd[inside..]);
                    }
                }
            }
        }
        let first = if parities == 1 { x } else { 2 * x };
        let cells = (parities * len).min(nx - first);
        let rows = &mut rows[..cells * b];
        for c in 0..b {
            let sums = &sums[c * parities * len..][..parities * len];
            for parity in 0..parities {
                let to = rows[parity.min(cells - 1) * b + c..].iter_mut().step_by(parities * b);
                // With an odd number of cells the last odd one does not exist.
                let count = (cells + parities - 1 - parity) / parities;
                to.zip(&sums[parity * len..][..count]).for_each(|(row, sum)| *row = *sum);
            }
        }
        store((line * nx + first) * b, rows);
    }
}

/// The coarse lines that a fine line at y and z interpolates from, with the steps from them.
pub(super) fn coarse_lines(
    pattern: &TransferPattern,
    y: usize,
    z: usize,
) -> impl Iterator<Item = (usize, usize, i8, i8)> + use<> {
    let (ys, zs) = (pattern.grids.parents(1, y, pattern.low), pattern.grids.parents(2, z, pattern.low));
    let ys = move |(cz, dz)| ys.into_iter().flatten().map(move |(cy, dy)| (cy, cz, dy, dz));
    zs.into_iter().flatten().flat_map(ys)
}

/// A line of the coarse grid: sums over the fine lines around it.
fn restrict<W: Scalar>(
    pattern: &TransferPattern,
    values: &NumbersRef<'_>,
    load: &Load<'_, W>,
    line: usize,
    buffers: &mut Buffers<W>,
    store: &mut Store<'_, W>,
) {
    let (grids, b) = (&pattern.grids, pattern.block);
    let ([nx, ny, _], [mx, my, _]) = (grids.fine.dims, grids.coarse.dims);
    let (y, z) = (line % my, line / my);
    // The buffer holds two strips of each unknown, with the odd cell before them.
    let strip = SUMS / (2 * b) - 1;
    let Buffers { sums, rows, line: buffer, cells } = buffers;
    for x in (0..mx).step_by(strip) {
        let len = strip.min(mx - x);
        let sums = &mut sums[..len * b];
        sums.fill(W::ZERO);
        for dz in pattern.steps_along(2) {
            for dy in pattern.steps_along(1) {
                let (Some(fy), Some(fz)) = (grids.fine(1, y, dy), grids.fine(2, z, dz)) else { continue };
                let first = nx * (fy + ny * fz);
                for c in 0..b {
                    // Even cells from 0 on, odd ones from `len` on, with the one before them.
                    let (mut even, mut odd) = (0, 0);
                    if grids.axes[0] {
                        let count = (2 * len).min(nx - 2 * x);
                        load(first + 2 * x, c, &mut cells[..count]);
                        (even, odd) = (0, len + 1);
                        buffer[..2 * len + 1].fill(W::ZERO);
                        for (k, pair) in cells[..count].chunks(2).enumerate() {
                            buffer[k] = pair[0];
                            buffer[odd + k] = pair.get(1).copied().unwrap_or(W::ZERO);
                        }
                        if let Some(before) = grids.fine(0, x, -1) {
                            load(first + before, c, &mut buffer[len..=len]);
                        }
                    } else {
                        load(first + x, c, &mut buffer[..len]);
                    }
                    let mut terms = Terms::new();
                    for dx in pattern.steps_along(0) {
                        let from = match dx {
                            0 => even,
                            1 => odd,
                            _ => odd - 1,
                        };
                        terms.push(pattern.array(pattern.number([dx, dy, dz]), c) + line * mx + x, from);
                    }
                    multiply_add(values, terms.as_slice(), buffer, &mut sums[c * len..][..len]);
                }
            }
        }
        let rows = &mut rows[..len * b];
        for (c, sums) in sums.chunks_exact(len).enumerate() {
            rows[c..].iter_mut().step_by(b).zip(sums).for_each(|(row, sum)| *row = *sum);
        }
        store((line * mx + x) * b, rows);
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::Operator;
    use crate::context::Context;
    use crate::host::any_matrix::AnyOperator;
    use crate::host::spmv;
    use crate::sparse::{Coarsened, Grid};

    /// Transfers with different weights, zero where there is no fine cell.
    fn transfer(fine: Grid, axes: [bool; 3], block: usize, low: i8) -> SharedTransfer<f64> {
        let pattern = TransferPattern::new(Coarsened::new(fine, axes), block, low);
        let coarse = pattern.grids.coarse;
        let mut values = vec![0.0; pattern.entries()];
        for (k, step) in pattern.steps.iter().enumerate() {
            for cell in (0..coarse.cells()).filter(|cell| pattern.fine(coarse.point(*cell), *step).is_some()) {
                for c in 0..block {
                    let at = pattern.array(k, c) + cell;
                    values[at] = ((at * 13) % 17) as f64 - 8.0;
                }
            }
        }
        SharedTransfer { pattern: Arc::new(pattern), transposed: false, values: Arc::new(values) }
    }

    #[test]
    fn transfers_are_those_of_the_matrix_in_rows() {
        let host = Host::new(&Context::new("host:2").unwrap());
        let full = [true; 3];
        for (dims, periodic, axes, block) in [
            ([7, 6, 5], [false; 3], full, 1),
            ([8, 5, 4], [true, false, true], full, 2),
            ([9, 1, 3], [true, false, false], [true, false, true], 3),
            ([6, 5, 4], [false; 3], [false, true, false], 1),
            ([1, 1, 9], [false; 3], [false, false, true], 8),
            ([2500, 3, 1], [false; 3], [true, true, false], 1),
            ([1, 1, 1], [false; 3], full, 1),
            ([300, 2, 2], [true, false, false], [true, false, false], 8),
        ] {
            for low in [0, -1] {
                let p = transfer(Grid { dims, periodic }, axes, block, low);
                let r = SharedTransfer { transposed: true, ..p.clone() };
                for matrix in [p, r] {
                    let rows = matrix.to_rows().unwrap();
                    let (n, m) = (rows.view().rows, rows.view().cols);
                    let x: Vec<f64> = (0..m).map(|i| ((i * 7) % 11) as f64 - 5.0).collect();
                    let (mut y, mut expected) = (vec![1.0; n], vec![1.0; n]);
                    spmv::apply(&rows.view(), 2.0, &x, 3.0, &mut expected);
                    let operator = AnyOperator(Arc::new(TransferOperator::new(&host, matrix)));
                    assert_eq!(Operator::<Host, f64>::rows(&operator), n);
                    operator.apply(2.0, &x, 3.0, &mut y).unwrap();
                    assert!(y == expected, "{dims:?} {periodic:?} {axes:?} {block} {low}");
                }
            }
        }
    }
}
