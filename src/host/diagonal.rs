//! Inverses of diagonals and of diagonal blocks.

use super::prefetch::prefetch;
use crate::backend::common::{MAX_BLOCK, rounding_bound};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::CsrView;

/// Distance of the prefetch, in rows.
const AHEAD: usize = 8;

/// Nothing is added to the diagonal.
pub const AS_IT_IS: fn(usize, usize, f64) -> f64 = |_, _, _| 0.0;

/// The diagonal, one value for each scalar row; zero where there is none.
pub fn entries<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<f64>> {
    let n = a.block.rows;
    let mut out = try_vec(a.scalar_rows(), 0.0)?;
    par::for_each_row_mut(&mut out, n, par::ROW_GRAIN, |start, out| {
        for (k, out) in out.chunks_exact_mut(n).enumerate() {
            if let Some(p) = a.row_range(start + k).find(|p| a.col(*p) == start + k) {
                for (r, out) in out.iter_mut().enumerate() {
                    *out = a.block_at(p)[r * n + r].to_f64();
                }
            }
        }
    });
    Ok(out)
}

/// The inverse of the diagonal, one value for each scalar row (`width` 1), or of the diagonal blocks, row by row
/// (`width` that of the blocks). `added(i, r, d)` is first added to the size of the diagonal entry d of scalar row r in
/// block row i.
///
/// Where the diagonal is zero, or a block is singular, the rows without a pivot are left out: their rows and columns of
/// the inverse are zero, and for positive semidefinite blocks it is a generalised inverse. Pivots come from the
/// diagonal.
pub fn inverse<T: Scalar, S: Number>(
    a: &CsrView<'_, T>,
    width: usize,
    added: impl Fn(usize, usize, f64) -> f64 + Sync,
) -> Result<Vec<S>> {
    let (br, bc) = (a.block.rows, a.block.cols);
    assert!(width == 1 || (width == br && br == bc));
    let mut out = try_vec(a.scalar_rows() * width, S::ZERO)?;
    par::for_each_row_mut(&mut out, br * width, par::ROW_GRAIN, |start, piece| {
        for (k, out) in piece.chunks_exact_mut(br * width).enumerate() {
            let i = start + k;
            let diagonal = a.row_range(i).find(|p| a.col(*p) == i);
            if let Some(p) = diagonal {
                prefetch_diagonal(a, i, p);
            }
            if br == 1 {
                let d = diagonal.map_or(0.0, |p| a.values[p].to_f64());
                let d = d + added(i, 0, d).copysign(d);
                out[0] = S::from_f64(if d == 0.0 { 0.0 } else { 1.0 / d });
                continue;
            }
            let mut m = [0.0; MAX_BLOCK * MAX_BLOCK];
            if let Some(p) = diagonal {
                for (to, from) in m.iter_mut().zip(a.block_at(p)) {
                    *to = from.to_f64();
                }
            }
            for r in 0..br {
                let d = &mut m[r * bc + r];
                *d += added(i, r, *d).copysign(*d);
            }
            if width == 1 {
                for (r, out) in out.iter_mut().enumerate() {
                    let d = m[r * bc + r];
                    *out = S::from_f64(if d == 0.0 { 0.0 } else { 1.0 / d });
                }
            } else {
                invert_block(&mut m[..br * br], br, rounding_bound::<T>(br));
                for (to, from) in out.iter_mut().zip(&m) {
                    *to = S::from_f64(*from);
                }
            }
        }
    });
    Ok(out)
}

/// Prefetches the diagonal block of a later row. Its position in the row is guessed to be `p`, that of row `i`.
#[inline(always)]
fn prefetch_diagonal<T: Scalar>(a: &CsrView<'_, T>, i: usize, p: usize) {
    let (ahead, width) = (i + AHEAD, a.block.len());
    if ahead < a.rows {
        let first = (a.row_range(ahead).start + p - a.row_range(i).start) * width;
        prefetch(a.values, first);
        prefetch(a.values, first + width - 1);
    }
}

/// [`inverse`] for l1-Jacobi: the absolute values of off-diagonal entries, or of entries outside of the diagonal block,
/// are added to the diagonal.
pub fn l1_inverse<T: Scalar, S: Number>(a: &CsrView<'_, T>, width: usize, scale: Option<&[f64]>) -> Result<Vec<S>> {
    inverse(a, width, |i, r, _| row_norm(a, scale, i, r, |j, c| j != i || (width == 1 && c != r)))
}

/// Σ |a_ij| over the entries of scalar row r in block row i for which `counts(block column, column in the block)`.
///
/// Where the variables of a level are scaled by S, the sum is that of the unscaled row, scaled like the diagonal: Σ
/// |a_ij| s_j / s_i.
pub fn row_norm<T: Scalar>(
    a: &CsrView<'_, T>,
    scale: Option<&[f64]>,
    i: usize,
    r: usize,
    counts: impl Fn(usize, usize) -> bool,
) -> f64 {
    let (br, bc) = (a.block.rows, a.block.cols);
    let mut norm = 0.0;
    for (j, block) in a.row(i) {
        let row = block[r * bc..][..bc].iter().enumerate().filter(|(c, _)| counts(j, *c));
        norm += match scale {
            Some(s) => row.map(|(c, v)| v.to_f64().abs() * s[j * bc + c]).sum::<f64>() / s[i * br + r],
            None => row.map(|(_, v)| v.to_f64().abs()).sum::<f64>(),
        };
    }
    norm
}

/// `invert` with compile-time dimensions for elasticity and its rigid-body modes.
pub fn invert_block(m: &mut [f64], n: usize, bound: f64) {
    match n {
        2 => invert(m, 2, bound),
        3 => invert(m, 3, bound),
        6 => invert(m, 6, bound),
        _ => invert(m, n, bound),
    }
}

/// Inverts an n x n matrix in place by symmetric exchanges of its diagonal, best pivot first. Each pivot is judged by
/// the numbers that it is the difference of, so the scaling of the unknowns does not matter.
#[inline(always)]
fn invert(m: &mut [f64], n: usize, bound: f64) {
    let mut left = [true; MAX_BLOCK];
    let mut size = [0.0; MAX_BLOCK];
    for k in 0..n {
        size[k] = m[k * n + k].abs();
    }
    loop {
        let share = |k: usize| if size[k] > 0.0 { m[k * n + k].abs() / size[k] } else { 0.0 };
        let best = (0..n).filter(|k| left[*k]).reduce(|best, k| if share(k) > share(best) { k } else { best });
        let Some(k) = best.filter(|k| share(*k) > bound) else { break };
        left[k] = false;
        let pivot = m[k * n + k];
        for i in (0..n).filter(|i| *i != k) {
            let factor = m[i * n + k] / pivot;
            for j in (0..n).filter(|j| *j != k) {
                let change = factor * m[k * n + j];
                m[i * n + j] -= change;
                if i == j && left[i] {
                    size[i] += change.abs();
                }
            }
            m[i * n + k] = -factor;
        }
        for j in (0..n).filter(|j| *j != k) {
            m[k * n + j] /= pivot;
        }
        m[k * n + k] = 1.0 / pivot;
    }
    for k in (0..n).filter(|k| left[*k]) {
        for j in 0..n {
            m[k * n + j] = 0.0;
            m[j * n + k] = 0.0;
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::sparse::{Block, Csr};
    use proptest::prelude::*;

    fn inverted(block: &[f64], n: usize) -> Vec<f64> {
        let mut m = block.to_vec();
        invert(&mut m, n, rounding_bound::<f64>(n));
        m
    }

    fn close(x: &[f64], y: &[f64]) -> bool {
        x.len() == y.len() && x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-13)
    }

    #[test]
    fn small_blocks_have_the_inverses_of_a_textbook() {
        assert!(close(&inverted(&[2.0, 1.0, 1.0, 3.0], 2), &[0.6, -0.2, -0.2, 0.4]));
        assert!(close(&inverted(&[-4.0], 1), &[-0.25]));
        // Not symmetric.
        assert!(close(&inverted(&[1.0, 2.0, 3.0, 4.0], 2), &[-2.0, 1.0, 1.5, -0.5]));
        // A saddle point: the second pivot appears only with the first.
        assert!(close(&inverted(&[2.0, 1.0, 1.0, 0.0], 2), &[0.0, 1.0, 1.0, -2.0]));
    }

    #[test]
    fn rows_without_a_pivot_are_left_out() {
        assert_eq!(inverted(&[0.0; 4], 2), [0.0; 4]);
        assert!(close(&inverted(&[2.0, 0.0, 0.0, 0.0], 2), &[0.5, 0.0, 0.0, 0.0]));
        // Rank one, with rounding: only one of the rows has a pivot.
        let x = [0.1, 0.2, 0.3];
        let block: Vec<f64> = (0..9).map(|e| x[e / 3] * x[e % 3]).collect();
        let inverse = inverted(&block, 3);
        assert_eq!(inverse.iter().filter(|v| **v != 0.0).count(), 1, "{inverse:?}");
        // Scaling of the unknowns decides nothing.
        let (small, large) = (2.0_f64.powi(-100), 2.0_f64.powi(100));
        assert_eq!(inverted(&[small, 0.0, 0.0, large], 2), [large, 0.0, 0.0, small]);
    }

    #[test]
    fn diagonal_entries_may_be_enlarged_and_need_not_be_stored() {
        let t = [(0, 0, 2.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, -3.0), (2, 3, 1.0), (3, 2, 1.0), (0, 2, 5.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let norm = |a: &Csr<f64>, i, r| row_norm(&a.view(), None, i, r, |j, _| j != i);
        let point: Vec<f64> = inverse(&a.view(), 1, |i, r, _| norm(&a, i, r)).unwrap();
        assert!(close(&point, &[1.0 / 8.0, -1.0 / 4.0, 1.0, 1.0]));
        let as_it_is: Vec<f64> = inverse(&a.view(), 1, AS_IT_IS).unwrap();
        assert!(close(&as_it_is, &[0.5, -1.0 / 3.0, 0.0, 0.0]));

        let b = a.view().to_blocks(2).unwrap();
        assert_eq!(b.block, Block::square(2));
        let blocks: Vec<f64> = inverse(&b.view(), 2, |i, r, _| norm(&b, i, r)).unwrap();
        let determinant = 7.0 * -3.0 - 1.0;
        let first = [-3.0 / determinant, -1.0 / determinant, -1.0 / determinant, 7.0 / determinant];
        // The second block is (0 1; 1 0), which has no pivot on its diagonal.
        assert!(close(&blocks, &[&first[..], &[0.0; 4]].concat()));
    }

    proptest! {
        #[test]
        fn the_inverse_of_a_definite_block_is_symmetric_and_inverts(
            n in 1_usize..=8, entries in prop::collection::vec(-1.0..1.0_f64, 64), scale in prop::collection::vec(-8..8_i32, 8)
        ) {
            // B^T B + I, its rows and columns scaled.
            let b = |i: usize, j: usize| entries[i * 8 + j];
            let d = |i: usize| 10.0_f64.powi(scale[i]);
            let a: Vec<f64> = (0..n * n).map(|e| {
                let (i, j) = (e / n, e % n);
                let product: f64 = (0..n).map(|k| b(k, i) * b(k, j)).sum();
                d(i) * d(j) * (product + if i == j { 1.0 } else { 0.0 })
            }).collect();
            let inverse = inverted(&a, n);
            for i in 0..n {
                for j in 0..n {
                    let scaled = d(i) * d(j);
                    prop_assert!((inverse[i * n + j] - inverse[j * n + i]).abs() * scaled < 1e-12);
                    let product: f64 = (0..n).map(|k| inverse[i * n + k] * a[k * n + j]).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    prop_assert!((product - expected).abs() * d(i) / d(j) < 1e-11);
                }
            }
        }
    }
}
