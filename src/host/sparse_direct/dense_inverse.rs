//! The inverse of a full matrix by Gauss-Jordan elimination with partial pivoting, in place and by blocks of columns: those of a
//! block are eliminated first, and all others are then updated at once, by the products of tiles of `front.rs`. Each element
//! is summed in the same order for any number of threads.

use super::front::{TILE, subtract_product};
use crate::error::{Result, try_capacity, try_vec};
use crate::par;
use std::ops::Range;

/// Columns that are eliminated before the others are updated.
const BLOCK: usize = 32;

/// Columns that one task updates.
const GRAIN: usize = 4 * TILE;

/// The inverse of a matrix of n rows, in the order of its elements, by rows or by columns. None where a pivot is at most `bound`, or
/// none is finite.
pub fn inverse(a: &[f64], n: usize, bound: f64) -> Result<Option<Vec<f64>>> {
    let mut values = try_vec(n * n, 0.0)?;
    values.copy_from_slice(a);
    let (mut exchanged, mut packed) = (try_capacity(n)?, try_vec(n.next_multiple_of(TILE) * BLOCK, 0.0)?);
    for begin in (0..n).step_by(BLOCK) {
        let block = begin..(begin + BLOCK).min(n);
        let (before, rest) = values.split_at_mut(begin * n);
        let (own, after) = rest.split_at_mut(block.len() * n);
        if !eliminate(own, n, begin, bound, &mut exchanged) {
            return Ok(None);
        }
        let packed = &mut packed[..n.next_multiple_of(TILE) * block.len()];
        pack(own, n, packed);
        for others in [before, after] {
            par::for_each_mut(others, GRAIN * n, |_, piece| {
                for columns in piece.chunks_mut(TILE * n) {
                    update(columns, n, block.clone(), packed, &exchanged[block.clone()]);
                }
            });
        }
    }
    // The inverse of the matrix with exchanged rows has exchanged columns.
    for (k, with) in exchanged.into_iter().enumerate().rev().filter(|(k, with)| k != with) {
        let (left, right) = values.split_at_mut(with * n);
        left[k * n..][..n].swap_with_slice(&mut right[..n]);
    }
    Ok(Some(values))
}

/// Eliminates the columns of a block, from column `begin` on, within the block. In their place is then what all columns are multiplied
/// by. False where a pivot is too small.
fn eliminate(columns: &mut [f64], n: usize, begin: usize, bound: f64, exchanged: &mut Vec<usize>) -> bool {
    for c in 0..columns.len() / n {
        let k = begin + c;
        let column = &columns[c * n..][..n];
        let (mut row, mut largest) = (k, column[k].abs());
        for (i, v) in column.iter().enumerate().skip(k + 1) {
            if v.abs() > largest {
                (row, largest) = (i, v.abs());
            }
        }
        if !(largest > bound && largest.is_finite()) {
            return false;
        }
        exchanged.push(row);
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
    true
}

/// The columns of a block with the other sign, tile by tile: column after column with 8 rows each, zeros at the end.
fn pack(columns: &[f64], n: usize, out: &mut [f64]) {
    let depth = columns.len() / n;
    for (t, tile) in out.chunks_exact_mut(TILE * depth).enumerate() {
        let rows = t * TILE..((t + 1) * TILE).min(n);
        for (column, to) in columns.chunks_exact(n).zip(tile.chunks_exact_mut(TILE)) {
            to.iter_mut().zip(&column[rows.clone()]).for_each(|(to, v)| *to = -v);
            to[rows.len()..].fill(0.0);
        }
    }
}

/// Eliminates a block in up to 8 other columns.
fn update(columns: &mut [f64], n: usize, block: Range<usize>, packed: &[f64], exchanges: &[usize]) {
    let depth = block.len();
    let mut right = [0.0; TILE * BLOCK];
    for (c, column) in columns.chunks_exact_mut(n).enumerate() {
        for (k, with) in block.clone().zip(exchanges) {
            column.swap(k, *with);
        }
        for (k, v) in column[block.clone()].iter_mut().enumerate() {
            right[k * TILE + c] = std::mem::take(v);
        }
    }
    for (t, left) in packed.chunks_exact(TILE * depth).enumerate() {
        let rows = t * TILE..((t + 1) * TILE).min(n);
        subtract_product(left, &right[..TILE * depth], columns, n, rows);
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::hash::hash;

    /// Numbers between -1 and 1 that look random, without a dominant diagonal.
    fn full(n: usize) -> Vec<f64> {
        (0..n * n).map(|i| hash(i, 5) as i64 as f64 / i64::MAX as f64).collect()
    }

    #[test]
    fn full_matrices_are_inverted_with_the_same_bits_for_any_number_of_threads() {
        for n in [1, 7, 32, 33, 100, 161] {
            let a = full(n);
            let on = |device: &str| {
                Context::new(device).unwrap().run(n * n * n, || inverse(&a, n, 1e-14)).unwrap().expect("it is regular")
            };
            let (one, two) = (on("host:1"), on("host:2"));
            assert_eq!(one, two);
            for i in 0..n {
                for j in 0..n {
                    let sum: f64 = (0..n).map(|k| a[i * n + k] * one[k * n + j]).sum();
                    assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-9, "{n}: {i} {j} {sum}");
                }
            }
        }
    }

    #[test]
    fn a_singular_matrix_has_none() {
        let n = 40;
        let mut a = full(n);
        let (first, rest) = a.split_at_mut(n);
        rest[30 * n..][..n].copy_from_slice(first);
        assert_eq!(inverse(&a, n, 1e-14).unwrap(), None);
        a[5] = f64::NAN;
        assert_eq!(inverse(&a, n, 1e-14).unwrap(), None);
    }
}
