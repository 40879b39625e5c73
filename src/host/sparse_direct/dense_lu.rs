//! P A = L U of a full matrix, with partial pivoting: by blocks of columns, whose rows to the right are updated by the products
//! of tiles of `front.rs`. Each element is summed in the order of the columns, for any number of threads.

use super::cholesky::Failure;
use super::front::{TILE, subtract_product};
use crate::error::{try_capacity, try_vec};
use crate::par;
use crate::sparse::Csr;
use std::ops::Range;

/// Columns that are factorised before the others are updated.
const BLOCK: usize = 64;

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
        for (j, column) in values.chunks_exact_mut(n.max(1)).enumerate() {
            for k in transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize {
                let i = transpose.columns[k] as usize;
                column[i] += transpose.values[k] * rows[i] * columns[j];
            }
        }
        let mut packed = try_vec(n.next_multiple_of(TILE) * BLOCK, 0.0)?;
        for begin in (0..n).step_by(BLOCK) {
            let block = begin..(begin + BLOCK).min(n);
            factorise_block(&mut values, n, block.clone(), &mut exchanged, &mut packed)?;
            let (before, after) = values.split_at_mut(block.end * n);
            for column in before[..begin * n].chunks_exact_mut(n) {
                exchange(column, &exchanged[block.clone()], begin);
            }
            let of_block = &before[begin * n..];
            let below = n - block.end;
            let packed = &mut packed[..below.next_multiple_of(TILE) * block.len()];
            pack(of_block, n, block.clone(), packed);
            let exchanges = &exchanged[block.clone()];
            par::for_each_mut(after, GRAIN * n, |_, piece| {
                for columns in piece.chunks_mut(TILE * n) {
                    update(columns, n, block.clone(), of_block, packed, exchanges);
                }
            });
        }
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

/// Factorises the columns of a block in place, a tile after the other, and appends the exchanges of their rows.
fn factorise_block(
    values: &mut [f64],
    n: usize,
    block: Range<usize>,
    exchanged: &mut Vec<usize>,
    packed: &mut [f64],
) -> Result<(), Failure> {
    for begin in block.clone().step_by(TILE) {
        let tile = begin..(begin + TILE).min(block.end);
        factorise_tile(values, n, tile.clone(), exchanged)?;
        let exchanges = &exchanged[tile.clone()];
        let (before, after) = values[block.start * n..block.end * n].split_at_mut((tile.end - block.start) * n);
        let (before, of_tile) = before.split_at_mut((begin - block.start) * n);
        before.chunks_exact_mut(n).for_each(|column| exchange(column, exchanges, begin));
        let packed = &mut packed[..(n - tile.end).next_multiple_of(TILE) * tile.len()];
        pack(of_tile, n, tile.clone(), packed);
        let packed = &*packed;
        par::for_each_mut(after, TILE * n, |_, columns| update(columns, n, tile.clone(), of_tile, packed, exchanges));
    }
    Ok(())
}

/// Factorises the columns of a tile in place, and appends the exchanges of their rows.
fn factorise_tile(
    values: &mut [f64],
    n: usize,
    block: Range<usize>,
    exchanged: &mut Vec<usize>,
) -> Result<(), Failure> {
    for k in block.clone() {
        let column = &values[k * n..(k + 1) * n];
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
        values[block.start * n..block.end * n].chunks_exact_mut(n).for_each(|column| column.swap(k, pivot));
        let (own, rest) = values[k * n..block.end * n].split_at_mut(n);
        let inverse = 1.0 / own[k];
        own[k + 1..].iter_mut().for_each(|v| *v *= inverse);
        for column in rest.chunks_exact_mut(n) {
            let factor = column[k];
            column[k + 1..].iter_mut().zip(&own[k + 1..]).for_each(|(v, l)| *v -= factor * l);
        }
    }
    Ok(())
}

/// The rows below a block of L, tile by tile: column after column with 8 rows each, zeros at the end.
fn pack(of_block: &[f64], n: usize, block: Range<usize>, out: &mut [f64]) {
    let depth = block.len();
    for (t, tile) in out.chunks_exact_mut(TILE * depth).enumerate() {
        let rows = block.end + t * TILE..(block.end + (t + 1) * TILE).min(n);
        for (column, to) in of_block.chunks_exact(n).zip(tile.chunks_exact_mut(TILE)) {
            to[..rows.len()].copy_from_slice(&column[rows.clone()]);
            to[rows.len()..].fill(0.0);
        }
    }
}

/// Brings up to 8 columns to the right of a block up to date: exchanges of rows, rows of U, and what they contribute below.
fn update(columns: &mut [f64], n: usize, block: Range<usize>, of_block: &[f64], packed: &[f64], exchanges: &[usize]) {
    let depth = block.len();
    let mut right = [0.0; TILE * BLOCK];
    for (c, column) in columns.chunks_exact_mut(n).enumerate() {
        exchange(column, exchanges, block.start);
        let own = &mut column[block.clone()];
        for k in 0..depth {
            let v = own[k];
            let l = &of_block[k * n + block.start..][..depth];
            own[k + 1..].iter_mut().zip(&l[k + 1..]).for_each(|(x, l)| *x -= v * l);
            right[k * TILE + c] = v;
        }
    }
    for (t, left) in packed.chunks_exact(TILE * depth).enumerate() {
        let rows = block.end + t * TILE..(block.end + (t + 1) * TILE).min(n);
        subtract_product(left, &right[..TILE * depth], columns, n, rows);
    }
}
