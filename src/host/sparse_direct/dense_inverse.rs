//! The inverse of a full matrix by Gauss-Jordan elimination with partial pivoting, in place and by blocks of columns, which
//! are eliminated by halves down to a tile of columns. All others are updated at once, by the products of tiles of
//! `front.rs`. Each element is summed in the same order for any number of threads.

use super::front::{STRIP, TILE, aligned, subtract_product};
use crate::error::{Result, try_capacity, try_vec};
use crate::par;
use std::ops::Range;

/// Columns that are eliminated before the others are updated.
const BLOCK: usize = 128;

/// Columns that one task updates.
const GRAIN: usize = 4 * TILE;

/// What was eliminated so far.
struct Eliminated {
    /// The row that each row was exchanged with when it became a pivot.
    exchanged: Vec<usize>,
    /// Columns without a pivot. The rows with their numbers are those without one, and may become that of a later column.
    left_out: Vec<usize>,
    /// Pivots up to this are zero.
    bound: f64,
    /// The columns of a block, tile by tile.
    packed: Vec<f64>,
}

/// The inverse of a matrix of n rows in its place, in the order of its elements: by columns, or by rows, which then take the
/// part of columns below. Those whose pivots are at most `bound` are left out, which makes a generalised inverse of a singular matrix: it
/// solves consistent systems.
pub fn inverse(mut values: Vec<f64>, n: usize, bound: f64) -> Result<Vec<f64>> {
    let (exchanged, left_out) = (try_capacity(n)?, try_capacity(n)?);
    let packed = try_vec(n.next_multiple_of(TILE) * BLOCK + TILE, 0.0)?;
    let mut eliminated = Eliminated { exchanged, left_out, bound, packed };
    eliminated.columns(&mut values, n, 0, BLOCK);
    let Eliminated { exchanged, left_out, .. } = eliminated;
    for k in &left_out {
        values[k * n..][..n].fill(0.0);
    }
    if !left_out.is_empty() {
        values.chunks_exact_mut(n).for_each(|column| left_out.iter().for_each(|k| column[*k] = 0.0));
    }
    // The inverse of the matrix with exchanged rows has exchanged columns.
    for (k, with) in exchanged.into_iter().enumerate().rev().filter(|(k, with)| k != with) {
        let (left, right) = values.split_at_mut(k.max(with) * n);
        left[k.min(with) * n..][..n].swap_with_slice(&mut right[..n]);
    }
    Ok(values)
}

impl Eliminated {
    /// Eliminates columns, of which the first is `first`, by blocks of so many, and those of a block by halves of it. In their
    /// place is then what all columns are multiplied by.
    fn columns(&mut self, columns: &mut [f64], n: usize, first: usize, size: usize) {
        let count = columns.len() / n;
        for begin in (0..count).step_by(size) {
            let end = (begin + size).min(count);
            let block = first + begin..first + end;
            let (before, rest) = columns.split_at_mut(begin * n);
            let (own, after) = rest.split_at_mut((end - begin) * n);
            match size {
                TILE => self.tile(own, n, block.start),
                _ => self.columns(own, n, block.start, size / 2),
            }
            if before.is_empty() && after.is_empty() {
                return;
            }
            let Eliminated { exchanged, left_out, packed, .. } = &mut *self;
            let packed = &mut aligned(packed)[..n.next_multiple_of(TILE) * block.len()];
            pack(own, n, block.clone(), left_out, packed);
            let (packed, exchanges) = (&*packed, &exchanged[block.clone()]);
            for others in [before, after] {
                par::for_each_row_mut(others, n, GRAIN.min(size), |_, piece| {
                    update(piece, n, block.clone(), packed, exchanges);
                });
            }
        }
    }

    /// Eliminates the columns of a tile, one after the other.
    fn tile(&mut self, columns: &mut [f64], n: usize, first: usize) {
        for c in 0..columns.len() / n {
            let k = first + c;
            let column = &columns[c * n..][..n];
            let (mut row, mut largest) = (k, column[k].abs());
            for i in self.left_out.iter().copied().chain(k + 1..n) {
                if column[i].abs() > largest {
                    (row, largest) = (i, column[i].abs());
                }
            }
            if largest <= self.bound {
                self.exchanged.push(k);
                self.left_out.push(k);
                continue;
            }
            self.exchanged.push(row);
            columns.chunks_exact_mut(n).for_each(|column| column.swap(k, row));
            let (left, rest) = columns.split_at_mut(c * n);
            let (own, right) = rest.split_at_mut(n);
            let pivot = own[k];
            for other in left.chunks_exact_mut(n).chain(right.chunks_exact_mut(n)) {
                let factor = other[k] / pivot;
                other.iter_mut().zip(&*own).for_each(|(v, l)| *v -= factor * l);
                other[k] = factor;
            }
            own.iter_mut().for_each(|v| *v = -*v / pivot);
            own[k] = 1.0 / pivot;
        }
    }
}

/// The columns of a block with the other sign, tile by tile: column after column with 8 rows each, zeros at the end. One that was
/// left out is that of the identity.
fn pack(columns: &[f64], n: usize, block: Range<usize>, left_out: &[usize], out: &mut [f64]) {
    let depth = block.len();
    par::for_each_row_mut(out, TILE * depth, GRAIN, |first, piece| {
        for (t, tile) in (first..).zip(piece.chunks_exact_mut(TILE * depth)) {
            let rows = t * TILE..((t + 1) * TILE).min(n);
            for (column, to) in columns.chunks_exact(n).zip(tile.chunks_exact_mut(TILE)) {
                to.iter_mut().zip(&column[rows.clone()]).for_each(|(to, v)| *to = -v);
                to[rows.len()..].fill(0.0);
            }
        }
    });
    for k in left_out.iter().filter(|k| block.contains(k)) {
        let c = k - block.start;
        for (t, tile) in out.chunks_exact_mut(TILE * depth).enumerate() {
            for (r, v) in tile[c * TILE..][..TILE].iter_mut().enumerate() {
                *v = -f64::from(u8::from(t * TILE + r == *k));
            }
        }
    }
}

/// Eliminates a block in other columns, as many as a task has.
fn update(columns: &mut [f64], n: usize, block: Range<usize>, packed: &[f64], exchanges: &[usize]) {
    let depth = block.len();
    let mut right = [0.0; GRAIN * BLOCK];
    for (columns, right) in columns.chunks_mut(TILE * n).zip(right.chunks_exact_mut(TILE * depth)) {
        for (c, column) in columns.chunks_exact_mut(n).enumerate() {
            for (k, with) in block.clone().zip(exchanges) {
                column.swap(k, *with);
            }
            for (v, to) in column[block.clone()].iter_mut().zip(right[c..].iter_mut().step_by(TILE)) {
                *to = std::mem::take(v);
            }
        }
    }
    // Matrices with blocks on the diagonal have many such columns.
    if right.iter().all(|v| *v == 0.0) {
        return;
    }
    // A strip of the block stays in the cache while it is multiplied by all others.
    for (s, left) in packed.chunks(STRIP * TILE * depth).enumerate() {
        let rows = s * STRIP * TILE..((s + 1) * STRIP * TILE).min(n);
        for (columns, right) in columns.chunks_mut(TILE * n).zip(right.chunks_exact(TILE * depth)) {
            subtract_product(left, right, columns, n, rows.clone());
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::hash::hash;
    use crate::host::registers::with_each;

    /// Numbers between -1 and 1 that look random, without a dominant diagonal.
    fn full(n: usize) -> Vec<f64> {
        (0..n * n).map(|i| hash(i, 5) as i64 as f64 / i64::MAX as f64).collect()
    }

    #[test]
    fn full_matrices_are_inverted_with_the_same_bits_for_any_threads_and_registers() {
        for n in [1, 7, 32, 33, 100, 161] {
            let a = full(n);
            let on =
                |device: &str| Context::new(device).unwrap().run(n * n * n, || inverse(a.clone(), n, 1e-14)).unwrap();
            let (one, two) = (on("host:1"), on("host:2"));
            assert_eq!(one, two);
            with_each(|registers| assert_eq!(inverse(a.clone(), n, 1e-14).unwrap(), one, "{registers:?}"));
            for i in 0..n {
                for j in 0..n {
                    let sum: f64 = (0..n).map(|k| a[i * n + k] * one[k * n + j]).sum();
                    assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-9, "{n}: {i} {j} {sum}");
                }
            }
        }
    }

    /// Whether A X A = A.
    fn is_generalised(a: &[f64], x: &[f64], n: usize) -> bool {
        let product = |a: &[f64], b: &[f64]| -> Vec<f64> {
            (0..n * n).map(|at| (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum()).collect()
        };
        product(&product(a, x), a).iter().zip(a).all(|(v, a)| (v - a).abs() < 1e-8)
    }

    #[test]
    fn columns_without_a_pivot_are_left_out() {
        // Some columns depend on earlier ones, in several blocks and tiles, and rows of later columns take their places.
        let n = 150;
        for dependent in [&[0][..], &[1, 2, 9, 63, 64, 70, 149], &[140, 141]] {
            let mut a = full(n);
            for &k in dependent {
                for i in 0..n {
                    a[k * n + i] = if k == 0 { 0.0 } else { 2.0 * a[(k - 1) * n + i] - a[i] };
                }
            }
            let x = inverse(a.clone(), n, 1e-11).unwrap();
            assert!(is_generalised(&a, &x, n), "{dependent:?}");
            assert!(dependent.iter().all(|k| (0..n).all(|i| x[i * n + k] == 0.0)), "{dependent:?}");
            let two = Context::new("host:2").unwrap().run(n * n * n, || inverse(a.clone(), n, 1e-11)).unwrap();
            assert_eq!(x, two);
        }
        let exchange = [0.0, 1.0, 0.0, 0.0];
        assert_eq!(inverse(exchange.to_vec(), 2, 1e-14).unwrap(), [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(inverse(vec![0.0; 9], 3, 1e-14).unwrap(), [0.0; 9]);
    }

    #[test]
    fn a_matrix_that_is_not_finite_has_no_finite_inverse() {
        let mut a = full(40);
        a[5] = f64::NAN;
        assert!(inverse(a.clone(), 40, 1e-14).unwrap().iter().any(|v| v.is_nan()));
    }
}
