//! P A = L U of a full matrix, with partial pivoting: by blocks of columns, which are factorised by halves. The columns to the
//! right are updated by the products of tiles of `front.rs`. Each element is summed in the same order for any number of threads.

use super::cholesky::Failure;
use super::front::{STRIP, TILE, aligned, subtract_product};
use crate::error::{try_capacity, try_vec};
use crate::par;
use crate::sparse::Csr;
use std::ops::Range;

/// Columns that are factorised before the others are updated.
const BLOCK: usize = 128;

/// Columns that one task updates.
const GRAIN: usize = 4 * TILE;

/// The factors of a matrix, one after the other by columns: L below the diagonal, which is 1 there, and U.
pub struct DenseLu {
    values: Vec<f64>,
    /// The row that each row was exchanged with when it became a pivot.
    exchanged: Vec<usize>,
}

impl DenseLu {
    /// Factorises a matrix, given by its transpose, with rows scaled by `rows` and columns by `columns`, so that the
    /// largest entry of each column is about 1.
    pub fn new(transpose: &Csr<f64>, (rows, columns): (&[f64], &[f64])) -> Result<DenseLu, Failure> {
        let n = transpose.rows;
        let (mut values, mut exchanged) = (try_vec(n * n, 0.0)?, try_capacity(n)?);
        par::for_each_row_mut(&mut values, n.max(1), TILE, |first, piece| {
            for (j, column) in (first..).zip(piece.chunks_exact_mut(n.max(1))) {
                for k in transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize {
                    let i = transpose.columns[k] as usize;
                    column[i] += transpose.values[k] * rows[i] * columns[j];
                }
            }
        });
        let mut packed = try_vec(n.next_multiple_of(TILE) * BLOCK + TILE, 0.0)?;
        factorise(&mut values, n, 0, BLOCK, &mut exchanged, aligned(&mut packed))?;
        Ok(DenseLu { values, exchanged })
    }

    /// The smallest pivot.
    pub fn smallest(&self) -> f64 {
        let n = self.exchanged.len();
        (0..n).fold(f64::INFINITY, |m, k| m.min(self.values[k * n + k].abs()))
    }

    /// Bytes of the factors.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice()) + size_of_val(self.exchanged.as_slice())
    }

    /// Replaces b by the solution of the scaled system.
    pub fn solve(&self, x: &mut [f64]) {
        let n = x.len();
        exchange(x, &self.exchanged, 0);
        for (k, column) in self.values.chunks_exact(n.max(1)).enumerate() {
            let v = x[k];
            x[k + 1..].iter_mut().zip(&column[k + 1..]).for_each(|(x, l)| *x -= v * l);
        }
        for (k, column) in self.values.chunks_exact(n.max(1)).enumerate().rev() {
            let v = x[k] / column[k];
            x[k] = v;
            x[..k].iter_mut().zip(column).for_each(|(x, u)| *x -= v * u);
        }
    }

    /// The same for the transposed system.
    pub fn solve_transposed(&self, x: &mut [f64]) {
        let n = x.len();
        for (k, column) in self.values.chunks_exact(n.max(1)).enumerate() {
            let sum = x[..k].iter().zip(column).fold(x[k], |sum, (x, u)| sum - x * u);
            x[k] = sum / column[k];
        }
        for (k, column) in self.values.chunks_exact(n.max(1)).enumerate().rev() {
            x[k] = x[k + 1..].iter().zip(&column[k + 1..]).fold(x[k], |sum, (x, l)| sum - x * l);
        }
        for (k, with) in self.exchanged.iter().enumerate().rev() {
            x.swap(k, *with);
        }
    }
}

/// Exchanges rows of a column, of which the first is `begin`, in this order.
fn exchange(column: &mut [f64], exchanges: &[usize], begin: usize) {
    for (k, with) in exchanges.iter().enumerate() {
        column.swap(begin + k, *with);
    }
}

/// Factorises columns, of which the first is `first`, by blocks of so many, and those of a block by halves of it, and appends
/// the exchanges of their rows.
fn factorise(
    columns: &mut [f64],
    n: usize,
    first: usize,
    size: usize,
    exchanged: &mut Vec<usize>,
    packed: &mut [f64],
) -> Result<(), Failure> {
    let count = columns.len() / n.max(1);
    for begin in (0..count).step_by(size) {
        let end = (begin + size).min(count);
        let block = first + begin..first + end;
        let (before, rest) = columns.split_at_mut(begin * n);
        let (own, after) = rest.split_at_mut((end - begin) * n);
        match size {
            TILE => factorise_tile(own, n, block.start, exchanged)?,
            _ => factorise(own, n, block.start, size / 2, exchanged, packed)?,
        }
        let exchanges = &exchanged[block.clone()];
        par::for_each_row_mut(before, n.max(1), GRAIN, |_, piece| {
            piece.chunks_exact_mut(n).for_each(|column| exchange(column, exchanges, block.start));
        });
        if after.is_empty() {
            return Ok(());
        }
        let packed = &mut packed[..(n - block.start).next_multiple_of(TILE) * block.len()];
        pack(own, n, block.start, packed);
        let packed = &*packed;
        par::for_each_row_mut(after, n, GRAIN.min(size), |_, piece| {
            update(piece, n, block.clone(), packed, exchanges);
        });
    }
    Ok(())
}

/// Factorises the columns of a tile in place, of which the first is `first`, and appends the exchanges of their rows.
fn factorise_tile(columns: &mut [f64], n: usize, first: usize, exchanged: &mut Vec<usize>) -> Result<(), Failure> {
    for c in 0..columns.len() / n {
        let k = first + c;
        let column = &columns[c * n..][..n];
        let (mut pivot, mut largest) = (k, column[k].abs());
        for (i, v) in column.iter().enumerate().skip(k + 1) {
            if v.abs() > largest {
                (pivot, largest) = (i, v.abs());
            }
        }
        if largest <= 16.0 * f64::EPSILON || !largest.is_finite() {
            return Err(Failure::Singular(k));
        }
        exchanged.push(pivot);
        columns.chunks_exact_mut(n).for_each(|column| column.swap(k, pivot));
        let (own, rest) = columns[c * n..].split_at_mut(n);
        let inverse = 1.0 / own[k];
        own[k + 1..].iter_mut().for_each(|v| *v *= inverse);
        for column in rest.chunks_exact_mut(n) {
            let factor = column[k];
            column[k + 1..].iter_mut().zip(&own[k + 1..]).for_each(|(v, l)| *v -= factor * l);
        }
    }
    Ok(())
}

/// The columns of a block from row `first` on, tile by tile: column after column with 8 rows each, zeros at the end.
fn pack(columns: &[f64], n: usize, first: usize, out: &mut [f64]) {
    let depth = columns.len() / n;
    par::for_each_row_mut(out, TILE * depth, GRAIN, |begin, piece| {
        for (t, tile) in (begin..).zip(piece.chunks_exact_mut(TILE * depth)) {
            let rows = first + t * TILE..(first + (t + 1) * TILE).min(n);
            for (column, to) in columns.chunks_exact(n).zip(tile.chunks_exact_mut(TILE)) {
                to[..rows.len()].copy_from_slice(&column[rows.clone()]);
                to[rows.len()..].fill(0.0);
            }
        }
    });
}

/// Brings columns to the right of a block up to date, as many as a task has: exchanges of rows, rows of U, and what they
/// contribute below.
fn update(columns: &mut [f64], n: usize, block: Range<usize>, packed: &[f64], exchanges: &[usize]) {
    let depth = block.len();
    let mut right = [0.0; GRAIN * BLOCK];
    let (of_block, below) = packed.split_at(depth.next_multiple_of(TILE) * depth);
    for (columns, right) in columns.chunks_mut(TILE * n).zip(right.chunks_exact_mut(TILE * depth)) {
        columns.chunks_exact_mut(n).for_each(|column| exchange(column, exchanges, block.start));
        for (t, left) in of_block.chunks_exact(TILE * depth).enumerate() {
            let (before, own) = right.split_at_mut(t * TILE * TILE);
            let begin = block.start + t * TILE;
            subtract_product(&left[..before.len()], before, columns, n, begin..begin + TILE);
            let l = &left[before.len()..][..TILE * TILE];
            for (c, column) in columns.chunks_exact_mut(n).enumerate() {
                let column = &mut column[begin..begin + TILE];
                for k in 0..TILE {
                    let v = column[k];
                    column[k + 1..].iter_mut().zip(&l[k * TILE + k + 1..]).for_each(|(x, l)| *x -= v * l);
                    own[k * TILE + c] = v;
                }
            }
        }
    }
    // A strip of the block stays in the cache while it is multiplied by all columns.
    for (s, left) in below.chunks(STRIP * TILE * depth).enumerate() {
        let begin = block.end + s * STRIP * TILE;
        let rows = begin..n.min(begin + STRIP * TILE);
        for (columns, right) in columns.chunks_mut(TILE * n).zip(right.chunks_exact(TILE * depth)) {
            subtract_product(left, right, columns, n, rows.clone());
        }
    }
}
