//! The inverse of a full positive semidefinite matrix by the sweep operator, in one triangle and by blocks of pivots.
//!
//! With K the columns of a block, A_KK = L Lᵀ and W = A_:K L⁻ᵀ, the sweep replaces A by A - W Wᵀ outside of K, A_:K by
//! A_:K A_KK⁻¹ = W L⁻¹, and A_KK by -A_KK⁻¹ = -L⁻ᵀ L⁻¹. All three are C - X Xᵀ, where C is A with zeros in the rows and
//! columns K, and X is W with -L⁻ᵀ in the rows K: what the factorisation of a front gives for the rows of A_:K below A_KK,
//! with -1 in the rows K. After the last block -A⁻¹ is left.

use super::cholesky::{Inertia, ZeroPivots};
use super::front::{self, Pivots, TILE};
use super::scales::power;
use crate::error::{Result, try_collect, try_vec};
use crate::par;
use std::ops::Range;

/// Columns that are swept at once.
const BLOCK: usize = 128;

/// Replaces a matrix of n rows, symmetric to rounding, by the inverse of its symmetric part, which is exactly symmetric. Pivots up to `tiny` times their diagonal
/// entry are left out: their rows and columns become zero, which makes a generalised inverse of a semidefinite matrix.
/// Returns whether the matrix is positive semidefinite; any other is left as it was.
pub fn invert(a: &mut [f64], n: usize, tiny: f64) -> Result<bool> {
    let diagonal = |k: usize| a[k * n + k];
    if !(0..n).all(|k| diagonal(k) >= 0.0) {
        return Ok(false);
    }
    let scale = try_collect((0..n).map(|k| power(diagonal(k).sqrt())))?;
    // By columns, of which only the lower triangle is kept.
    let mut values = try_vec(n * n, 0.0)?;
    par::for_each_row_mut(&mut values, n, TILE, |first, piece| {
        for i in first..n {
            for (j, column) in (first..=i).zip(piece.chunks_exact_mut(n)) {
                column[i] = 0.5 * (a[i * n + j] + a[j * n + i]) * scale[i] * scale[j];
            }
        }
    });
    let widest = BLOCK.min(n);
    let mut panel = try_vec((widest + n) * widest, 0.0)?;
    let mut scratch = try_vec(front::scratch(widest + n, widest), 0.0)?;
    for begin in (0..n).step_by(BLOCK) {
        let block = begin..(begin + BLOCK).min(n);
        let (width, height) = (block.len(), block.len() + n);
        let panel = &mut panel[..width * height];
        take(&mut values, n, block.clone(), panel);
        let mut inertia = Inertia::NONE;
        let semidefinite = inertia.pivots(ZeroPivots::LeaveOut(tiny), n);
        let mut pivots = Pivots { unchecked: width..width + block.end, ..semidefinite };
        if front::factorise(panel, height, width, &mut pivots, &mut scratch).is_err() {
            return Ok(false);
        }
        front::subtract_contribution(panel, height, width, &mut values, &mut scratch);
    }
    par::for_each_row_mut(a, n, TILE, |first, piece| {
        let rows = first..first + piece.len() / n;
        for j in 0..n {
            // A few rows of a column of the triangle, or a column of a few of its rows.
            for (i, row) in rows.clone().zip(piece.chunks_exact_mut(n)) {
                row[j] = -values[i.min(j) * n + i.max(j)] * scale[i] * scale[j];
            }
        }
    });
    Ok(true)
}

/// Moves the columns of a block into a panel: their rows in the block, and below them all rows, with -1 on the diagonal in
/// the place of those of the block. They become zero in the matrix.
fn take(values: &mut [f64], n: usize, block: Range<usize>, panel: &mut [f64]) {
    let (width, height) = (block.len(), block.len() + n);
    let from = &*values;
    par::for_each_row_mut(panel, height, TILE, |first, piece| {
        for (c, column) in (first..).zip(piece.chunks_exact_mut(height)) {
            let (top, below) = column.split_at_mut(width);
            let own = &from[(block.start + c) * n..][..n];
            top[c..].copy_from_slice(&own[block.clone()][c..]);
            below[block.clone()].fill(0.0);
            below[block.start + c] = -1.0;
            below[block.end..].copy_from_slice(&own[block.end..]);
        }
        for (i, row) in from.chunks_exact(n).take(block.start).enumerate() {
            let row = &row[block.start + first..];
            for (v, column) in row.iter().zip(piece.chunks_exact_mut(height)) {
                column[width + i] = *v;
            }
        }
    });
    for (j, column) in values.chunks_exact_mut(n).take(block.end).enumerate() {
        let rows = if j < block.start { block.clone() } else { j..n };
        column[rows].fill(0.0);
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::hash::hash;

    /// A full symmetric matrix of numbers between -1 and 1 that look random, with these diagonal entries.
    fn full(n: usize, diagonal: impl Fn(usize) -> f64) -> Vec<f64> {
        let entry = |i: usize, j: usize| hash(i.max(j) * n + i.min(j), 5) as i64 as f64 / i64::MAX as f64;
        (0..n * n).map(|k| if k / n == k % n { diagonal(k / n) } else { entry(k / n, k % n) }).collect()
    }

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        let mut product = vec![0.0; n * n];
        for (row, a) in product.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
            for (a, b) in a.iter().zip(b.chunks_exact(n)) {
                row.iter_mut().zip(b).for_each(|(v, b)| *v += a * b);
            }
        }
        product
    }

    #[test]
    fn definite_matrices_are_inverted_with_the_same_bits_for_any_number_of_threads() {
        for n in [1, 2, 9, 127, 128, 129, 300] {
            // In units that differ from row to row.
            let unit = |i: usize| 10.0_f64.powi((i % 5) as i32 * 20 - 40);
            let mut a = full(n, |_| n as f64);
            let expected = a.clone();
            (0..n * n).for_each(|k| a[k] *= unit(k / n) * unit(k % n));
            let on = |device: &str| {
                let mut x = a.clone();
                assert!(Context::new(device).unwrap().run(n * n * n, || invert(&mut x, n, 1e-13)).unwrap());
                x
            };
            let (one, two) = (on("host:1"), on("host:2"));
            assert_eq!(one, two);
            assert!((0..n * n).all(|k| one[k] == one[k % n * n + k / n]), "{n}: it is exactly symmetric");
            let mut x = one;
            (0..n * n).for_each(|k| x[k] *= unit(k / n) * unit(k % n));
            let identity = product(&expected, &x, n);
            let right = |k: usize| (identity[k] - f64::from(u8::from(k / n == k % n))).abs() < 1e-13;
            assert!((0..n * n).all(right), "{n}");
        }
    }

    #[test]
    fn rows_without_a_pivot_are_left_out() {
        // The Laplacians of two complete graphs, one within the other, and rows without entries.
        let n = 290;
        let part = |i: usize| if i % 40 == 7 { 2 } else { usize::from((50..220).contains(&i)) };
        let is_edge = |i: usize, j: usize| i != j && part(i) == part(j) && part(i) < 2;
        let weight = |i: usize, j: usize| if is_edge(i, j) { -1.0 - ((i + j) % 3) as f64 } else { 0.0 };
        let row = |i: usize| (0..n).map(|j| weight(i, j)).sum::<f64>();
        let a: Vec<f64> = (0..n * n).map(|k| if k / n == k % n { -row(k / n) } else { weight(k / n, k % n) }).collect();
        let mut x = a.clone();
        assert!(invert(&mut x, n, 1e-11).unwrap());
        for i in (0..n).filter(|i| part(*i) == 2 || *i == n - 1 || *i == 219) {
            assert!((0..n).all(|j| x[i * n + j] == 0.0 && x[j * n + i] == 0.0), "row {i}");
        }
        let again = product(&product(&a, &x, n), &a, n);
        assert!(again.iter().zip(&a).all(|(v, a)| (v - a).abs() < 1e-9));
    }

    #[test]
    fn other_matrices_are_left_as_they_were() {
        let n = 200;
        let late = |i: usize| if i == 190 { 1e-3 } else { n as f64 };
        let early = |i: usize| if i == 3 { -1.0 } else { n as f64 };
        let none = |i: usize| if i == 150 { 0.0 } else { n as f64 };
        let not_finite = |i: usize| if i == 5 { f64::NAN } else { n as f64 };
        for a in [full(n, late), full(n, early), full(n, none), full(n, not_finite)] {
            let mut x = a.clone();
            assert!(!invert(&mut x, n, 1e-13).unwrap());
            assert!(x.iter().zip(&a).all(|(x, a)| x.to_bits() == a.to_bits()));
        }
    }
}
