//! Dense factorisation of the columns of a front, a panel of L, and its product with itself.
//!
//! Panels and contributions are stored by columns. The products work on tiles of 8 x 8 elements. Each element is summed
//! in the order of the columns, whatever the processor and the number of threads, so that results have the same bits.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::host::avx512;
use crate::host::prefetch::prefetch;
use crate::host::registers::{Call, widely, with_avx2};
use crate::par;
use std::ops::Range;

/// Rows and columns of a tile.
pub const TILE: usize = 8;

/// Columns that are factorised before the others of their group are updated.
const BLOCK: usize = 32;

/// Columns of a group: what follows it is updated when all of it is factorised, and so is read and written less often.
const GROUP: usize = 128;

/// Columns of L that a product adds up at a time.
pub const DEPTH: usize = 256;

/// Tiles of rows that are multiplied one after the other by several tiles of columns. They stay in the cache.
pub const STRIP: usize = 6;

/// Columns of a result that one task computes.
const GRAIN: usize = 4 * TILE;

/// Rows that a triangular solve works on at a time; they stay in the cache.
const ROWS: usize = 64;

/// Values that the packed rows of a front of this height may need.
pub fn scratch(height: usize, width: usize) -> usize {
    TILE + 2 * height.next_multiple_of(TILE) * width.min(DEPTH)
}

/// Scratch from the next cache line on, of which it skips less than a tile has columns: packed columns are a line each.
pub fn aligned(scratch: &mut [f64]) -> &mut [f64] {
    let skipped = scratch.as_ptr().align_offset(TILE * size_of::<f64>());
    &mut scratch[skipped..]
}

/// What happens to pivots.
pub struct Pivots<'a> {
    /// Pivots of a magnitude up to this are zero. The diagonal of the matrix is scaled to about 1. A zero pivot is left
    /// out, as for a semidefinite matrix: its column of L is zero, and so is what is solved for there.
    pub tiny: f64,
    /// Whether a negative pivot is a failure.
    pub is_semidefinite: bool,
    /// Rows that need not be zero below a pivot that is left out: those of an inverse.
    pub unchecked: Range<usize>,
    /// The smallest magnitude of all others, in relation to the diagonal entry.
    pub smallest: &'a mut f64,
    /// Negative pivots.
    pub negative: &'a mut usize,
    /// Pivots that were left out.
    pub left_out: &'a mut usize,
}

/// Factorises the `width` columns of a panel of `height` rows in place: A = L S Lᵀ, where S has the signs of the pivots.
/// The diagonal of L is stored with the sign of its pivot, and is infinite where the pivot was left out. Fails with the
/// column of a pivot that a semidefinite matrix does not have: a zero below which not all is zero, and a negative one where
/// that is not allowed.
pub fn factorise(
    panel: &mut [f64],
    height: usize,
    width: usize,
    pivots: &mut Pivots<'_>,
    scratch: &mut [f64],
) -> Result<(), usize> {
    let mut update = |panel: &mut [f64], columns: Range<usize>, last: usize| {
        let end = columns.end;
        if end < last {
            let (block, rest) = panel.split_at_mut(end * height);
            subtract_squares(block, height, columns, end, rest, (height, end), last - end, scratch);
        }
    };
    for first in (0..width).step_by(GROUP) {
        let last = (first + GROUP).min(width);
        for begin in (first..last).step_by(BLOCK) {
            let end = (begin + BLOCK).min(last);
            diagonal_block(panel, height, begin..end, pivots)?;
            widely(
                #[inline(always)]
                || rows_below(panel, height, begin..end, pivots),
            )?;
            update(panel, begin..end, last);
        }
        update(panel, first..last, width);
    }
    Ok(())
}

/// The factor of the diagonal block of some columns.
fn diagonal_block(
    panel: &mut [f64],
    height: usize,
    columns: Range<usize>,
    pivots: &mut Pivots<'_>,
) -> Result<(), usize> {
    let end = columns.end;
    for j in columns {
        let pivot = panel[j * height + j];
        if pivot.is_nan() || pivot.abs() <= pivots.tiny {
            let column = &mut panel[j * height + j..j * height + end];
            if pivot.is_nan() || !column[1..].iter().all(|v| is_zero(*v, pivots.tiny)) {
                return Err(j);
            }
            *pivots.left_out += 1;
            column.fill(0.0);
            column[0] = f64::INFINITY;
            continue;
        }
        if pivot < 0.0 && pivots.is_semidefinite {
            return Err(j);
        }
        *pivots.smallest = pivots.smallest.min(pivot.abs());
        *pivots.negative += usize::from(pivot < 0.0);
        let root = pivot.abs().sqrt();
        panel[j * height + j] = root.copysign(pivot);
        let (own, rest) = panel.split_at_mut((j + 1) * height);
        let own = &mut own[j * height..];
        let factor = 1.0 / root.copysign(pivot);
        own[j + 1..end].iter_mut().for_each(|v| *v *= factor);
        for k in j + 1..end {
            let factor = own[k] * 1.0_f64.copysign(pivot);
            let column = &mut rest[(k - j - 1) * height..][k..end];
            for (v, l) in column.iter_mut().zip(&own[k..end]) {
                *v -= factor * l;
            }
        }
    }
    Ok(())
}

/// Whether an element below a pivot of up to `tiny` is zero to rounding. In a semidefinite matrix its square is at most the
/// product of two diagonal entries.
fn is_zero(v: f64, tiny: f64) -> bool {
    v.abs() <= 4.0 * tiny.sqrt()
}

/// The rows of L below the diagonal block of some columns.
#[inline(always)]
fn rows_below(panel: &mut [f64], height: usize, columns: Range<usize>, pivots: &Pivots<'_>) -> Result<(), usize> {
    let (begin, end) = (columns.start, columns.end);
    for row in (end..height).step_by(ROWS) {
        let rows = row..(row + ROWS).min(height);
        for j in begin..end {
            let (before, own) = panel.split_at_mut(j * height);
            let diagonal = own[j];
            let own = &mut own[rows.clone()];
            for k in begin..j {
                let column = &before[k * height..(k + 1) * height];
                let factor = column[j] * 1.0_f64.copysign(column[k]);
                for (v, l) in own.iter_mut().zip(&column[rows.clone()]) {
                    *v -= factor * l;
                }
            }
            if diagonal.is_infinite() {
                let mut checked = rows.clone().zip(&*own).filter(|(i, _)| !pivots.unchecked.contains(i));
                if !checked.all(|(_, v)| is_zero(*v, pivots.tiny)) {
                    return Err(j);
                }
            }
            let factor = 1.0 / diagonal;
            own.iter_mut().for_each(|v| *v *= factor);
        }
    }
    Ok(())
}

/// The largest magnitude of L below the diagonal in the `width` columns of a panel; NaN if one is.
pub fn largest(panel: &[f64], height: usize, width: usize) -> f64 {
    let larger = |m: f64, v: f64| if v > m || v.is_nan() { v } else { m };
    let columns = panel.chunks_exact(height).take(width).enumerate();
    let sizes = columns.map(|(k, column)| column[k + 1..].iter().fold(0.0, |m, v| larger(m, v.abs())));
    sizes.fold(0.0, larger)
}

/// The first of the `width` columns of a panel whose pivot was left out.
pub fn first_left_out(panel: &[f64], height: usize, width: usize) -> Option<usize> {
    (0..width).find(|k| panel[k * height + k].is_infinite())
}

/// Replaces what a right-hand side has for the columns of a panel by S L⁻¹ of it, and adds to `below` what it takes from the
/// rows below.
pub fn solve_lower(panel: &[f64], height: usize, own: &mut [f64], below: &mut [f64]) {
    let width = own.len();
    for (k, column) in panel.chunks_exact(height.max(1)).take(width).enumerate() {
        let v = own[k] / column[k].abs();
        own[k] = v * 1.0_f64.copysign(column[k]);
        for (to, l) in own[k + 1..].iter_mut().zip(&column[k + 1..]) {
            *to -= v * l;
        }
        for (to, l) in below.iter_mut().zip(&column[width..]) {
            *to += v * l;
        }
    }
}

/// Replaces what [`solve_lower`] has left for the columns of a panel by the solution, given that of the rows below.
pub fn solve_upper(panel: &[f64], height: usize, own: &mut [f64], below: &[f64]) {
    let width = own.len();
    for (k, column) in panel.chunks_exact(height.max(1)).take(width).enumerate().rev() {
        let sum = dot(&column[k + 1..width], &own[k + 1..]) + dot(&column[width..], below);
        own[k] = (own[k] - sum) / column[k].abs();
    }
}

/// An inner product in eight partial sums.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (chunks_a, chunks_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The contribution of a panel to the rows below its columns: C -= L S Lᵀ, in the lower triangle of C.
pub fn subtract_contribution(panel: &[f64], height: usize, width: usize, c: &mut [f64], scratch: &mut [f64]) {
    let below = height - width;
    if width <= 4 || below <= TILE {
        for j in 0..below {
            let to = &mut c[j * below + j..(j + 1) * below];
            for k in 0..width {
                let column = &panel[k * height..(k + 1) * height];
                let factor = column[width + j] * 1.0_f64.copysign(column[k]);
                for (v, l) in to.iter_mut().zip(&column[width + j..]) {
                    *v -= factor * l;
                }
            }
        }
        return;
    }
    for begin in (0..width).step_by(DEPTH) {
        let columns = begin..(begin + DEPTH).min(width);
        subtract_squares(panel, height, columns, width, c, (below, 0), below, scratch);
    }
}

/// C -= X S Xᵀ in the lower triangle of the first `count` columns of C, where X is what some columns of a panel have from
/// `row` on. Row 0 of X belongs to row `shift` of C, whose columns are `pitch` apart.
#[allow(clippy::too_many_arguments)]
fn subtract_squares(
    panel: &[f64],
    height: usize,
    columns: Range<usize>,
    row: usize,
    c: &mut [f64],
    (pitch, shift): (usize, usize),
    count: usize,
    scratch: &mut [f64],
) {
    let depth = columns.len();
    let rows = height - row;
    let signed = columns.clone().any(|k| panel[k * height + k] < 0.0);
    let size = rows.next_multiple_of(TILE) * depth;
    let (x, y) = aligned(scratch).split_at_mut(size);
    pack(panel, height, columns.clone(), row, x, false);
    let y: &[f64] = if signed {
        let packed = count.min(rows).next_multiple_of(TILE) * depth;
        pack(panel, height, columns, row, &mut y[..packed], true);
        y
    } else {
        x
    };
    par::for_each_row_mut(&mut c[..count * pitch], pitch, GRAIN, |start, piece| {
        let first = start / TILE;
        let right = |j: usize| &y[j * TILE * depth..][..TILE * depth];
        // Matrices with blocks on the diagonal have many such tiles.
        let mut is_zero = [true; GRAIN / TILE];
        for (t, is_zero) in is_zero[..(piece.len() / pitch).div_ceil(TILE)].iter_mut().enumerate() {
            *is_zero = right(first + t).iter().all(|v| *v == 0.0);
        }
        // A strip of X stays in the cache while it is multiplied by all tiles.
        for strip in (first..rows.div_ceil(TILE)).step_by(STRIP) {
            let end = (strip + STRIP).min(rows.div_ceil(TILE));
            for (j, columns) in (first..end).zip(piece.chunks_mut(TILE * pitch)) {
                if !is_zero[j - first] {
                    let begin = strip.max(j);
                    let at = shift + begin * TILE..shift + rows.min(end * TILE);
                    subtract_product(&x[begin * TILE * depth..end * TILE * depth], right(j), columns, pitch, at);
                }
            }
        }
    });
}

/// Rows from `row` on of some columns of a panel, tile by tile: column after column with 8 rows each, zeros at the end.
/// With `signed`, times the signs of the pivots.
fn pack(panel: &[f64], height: usize, columns: Range<usize>, row: usize, out: &mut [f64], signed: bool) {
    let depth = columns.len();
    par::for_each_row_mut(out, TILE * depth, GRAIN, |first, piece| {
        for (t, tile) in (first..).zip(piece.chunks_exact_mut(TILE * depth)) {
            let begin = row + t * TILE;
            let rows = begin..(begin + TILE).min(height);
            for (k, to) in columns.clone().zip(tile.chunks_exact_mut(TILE)) {
                let column = &panel[k * height..(k + 1) * height];
                to[..rows.len()].copy_from_slice(&column[rows.clone()]);
                to[rows.len()..].fill(0.0);
                if signed && column[k] < 0.0 {
                    to.iter_mut().for_each(|v| *v = -*v);
                }
            }
        }
    });
}

/// C -= L Rᵀ for a column of packed tiles and another tile, in these rows of up to 8 columns of C, which are `pitch` apart.
pub fn subtract_product(left: &[f64], right: &[f64], c: &mut [f64], pitch: usize, rows: Range<usize>) {
    if right.is_empty() {
        return;
    }
    for column in c.chunks_exact(pitch) {
        rows.clone().step_by(TILE).for_each(|row| prefetch(column, row));
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx512::is_present() {
        return avx512::tile::subtract_product(left, right, c, pitch, rows);
    }
    with_avx2(Call(
        #[inline(always)]
        || {
            for (left, begin) in left.chunks_exact(right.len()).zip(rows.clone().step_by(TILE)) {
                let rows = begin..rows.end.min(begin + TILE);
                for (column, sums) in c.chunks_exact_mut(pitch).zip(&product(left, right)) {
                    column[rows.clone()].iter_mut().zip(sums).for_each(|(v, sum)| *v -= sum);
                }
            }
        },
    ));
}

/// The product of a tile with the transpose of another, by columns: in two halves, whose sums fit into the registers of
/// most processors.
#[inline(always)]
fn product(left: &[f64], right: &[f64]) -> [[f64; TILE]; TILE] {
    const HALF: usize = TILE / 2;
    let mut sums = [[0.0; TILE]; TILE];
    for row in [0, HALF] {
        let mut half = [[0.0; HALF]; TILE];
        for (l, r) in left.chunks_exact(TILE).zip(right.chunks_exact(TILE)) {
            let Ok(l): Result<&[f64; HALF], _> = l[row..][..HALF].try_into() else { unreachable!("half of a tile") };
            for (sums, r) in half.iter_mut().zip(r) {
                for (sum, l) in sums.iter_mut().zip(l) {
                    *sum = l.mul_add(*r, *sum);
                }
            }
        }
        for (sums, half) in sums.iter_mut().zip(&half) {
            sums[row..row + HALF].copy_from_slice(half);
        }
    }
    sums
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::registers::with_each;

    /// Numbers between -1 and 1 that look random.
    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + 13) as f64).sin()).collect()
    }

    #[test]
    fn tiles_have_the_same_bits_with_and_without_registers() {
        for depth in [0, 1, 2, 7, 256] {
            for rows in [3..11, 0..8, 5..6, 1..17, 0..24, 2..47] {
                let tiles = rows.len().div_ceil(TILE);
                let (left, right) = (numbers(tiles * TILE * depth), numbers(TILE * depth + 5));
                for columns in [1, 8] {
                    let mut expected = numbers(columns * 47);
                    for (left, begin) in left.chunks_exact(TILE * depth.max(1)).zip(rows.clone().step_by(TILE)) {
                        for (column, sums) in expected.chunks_exact_mut(47).zip(product(left, &right[5..])) {
                            let own = &mut column[begin..rows.end.min(begin + TILE)];
                            own.iter_mut().zip(sums).for_each(|(v, sum)| *v -= sum);
                        }
                    }
                    with_each(|registers| {
                        let mut c = numbers(columns * 47);
                        subtract_product(&left, &right[5..], &mut c, 47, rows.clone());
                        assert_eq!(c, expected, "{registers:?}: depth {depth}, rows {rows:?}");
                    });
                }
            }
        }
    }

    /// The whole factorisation against one without blocks, for panels that are narrow, wide, square and long.
    #[test]
    fn panels_are_factorised() {
        for (height, width, indefinite) in
            [(1, 1, false), (5, 3, true), (70, 40, false), (300, 290, true), (100, 8, true)]
        {
            let mut a = numbers(height * height);
            for i in 0..height {
                for j in 0..i {
                    a[i * height + j] = a[j * height + i];
                }
                a[i * height + i] = if indefinite && i % 3 == 1 { -1.0 } else { 1.0 } * (height as f64 + 1.0);
            }
            let mut expected = a.clone();
            for j in 0..width {
                let pivot = expected[j * height + j];
                for k in j + 1..height {
                    for i in k..height {
                        expected[k * height + i] -= expected[j * height + i] * expected[j * height + k] / pivot;
                    }
                }
            }
            let (mut panel, below) = (a[..width * height].to_vec(), height - width);
            let mut c = vec![0.0; below * below];
            for j in 0..below {
                c[j * below + j..(j + 1) * below].copy_from_slice(&a[(width + j) * height..][width + j..height]);
            }
            let mut work = vec![f64::NAN; scratch(height, width)];
            let (mut smallest, mut negative, mut left_out) = (f64::INFINITY, 0, 0);
            let mut pivots = Pivots {
                tiny: 1e-14,
                is_semidefinite: false,
                unchecked: 0..0,
                smallest: &mut smallest,
                negative: &mut negative,
                left_out: &mut left_out,
            };
            factorise(&mut panel, height, width, &mut pivots, &mut work).unwrap();
            subtract_contribution(&panel, height, width, &mut c, &mut work);
            assert_eq!(negative, if indefinite { (0..width).filter(|i| i % 3 == 1).count() } else { 0 });
            for j in 0..width {
                let d = expected[j * height + j];
                for i in j + 1..height {
                    // Column j of L is a_ij over the signed root of the pivot.
                    let l = expected[j * height + i] / d.abs().sqrt().copysign(d);
                    assert!((panel[j * height + i] - l).abs() < 1e-10, "{height} {width}: row {i}, column {j}");
                }
            }
            for j in 0..below {
                for i in j..below {
                    let e = expected[(width + j) * height + width + i];
                    assert!((c[j * below + i] - e).abs() < 1e-9, "{height} {width}: contribution {i} {j}");
                }
            }
        }
    }
}
