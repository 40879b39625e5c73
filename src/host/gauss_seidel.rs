//! Sweeps of l1-Gauss-Seidel on the host.

use super::par;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// Block rows of a piece: at most 32 pieces, because every border between two weakens the sweep, and at least 4096 rows.
fn piece(rows: usize) -> usize {
    rows.div_ceil(32).max(4096)
}

/// a_ii with Σ |a_ij| over the columns outside of the row's piece added to its size, for each scalar row.
pub fn l1_diagonal<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<f64>> {
    let (br, bc) = (a.block.rows, a.block.cols);
    let size = piece(a.rows);
    let mut diagonal = try_vec(a.scalar_rows(), 0.0)?;
    par::for_each_row_mut(&mut diagonal, br, par::ROW_GRAIN, |start, piece| {
        for (k, out) in piece.chunks_exact_mut(br).enumerate() {
            let i = start + k;
            for (r, out) in out.iter_mut().enumerate() {
                let (mut own, mut outside) = (0.0, 0.0);
                for (j, block) in a.row(i) {
                    if j == i {
                        own = block[r * bc + r].to_f64();
                    } else if j / size != i / size {
                        outside += block[r * bc..][..bc].iter().map(|v| v.to_f64().abs()).sum::<f64>();
                    }
                }
                *out = if own < 0.0 { own - outside } else { own + outside };
            }
        }
    });
    Ok(diagonal)
}

/// One sweep, x_i += d_i (b_i - Σ_j a_ij x_j), with new values inside of a piece and those of `old` (`None` is zero) outside.
pub fn sweep<S: Scalar, V: Scalar>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    old: Option<&[V]>,
    x: &mut [V],
    backward: bool,
) {
    let br = a.block.rows;
    par::for_each_mut(x, piece(a.rows) * br, |start, x| {
        let rows = x.len() / br;
        let first = start / br;
        for k in 0..rows {
            let k = if backward { rows - 1 - k } else { k };
            if br == 1 {
                scalar_row(a, inverse, b, old, x, first, k)
            } else {
                block_row(a, inverse, b, old, x, first, k, backward)
            }
        }
    });
}

#[inline(always)]
fn scalar_row<S: Scalar, V: Scalar>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    old: Option<&[V]>,
    x: &mut [V],
    first: usize,
    k: usize,
) {
    let i = first + k;
    let range = a.row_range(i);
    let mut residual = b[i];
    for (c, v) in a.columns[range.clone()].iter().zip(&a.values[range]) {
        let j = (*c - a.base) as usize;
        let value = match x.get(j.wrapping_sub(first)) {
            Some(value) => *value,
            None => old.map_or(V::ZERO, |old| old[j]),
        };
        residual -= v.cast::<V>() * value;
    }
    x[k] += inverse[i].cast::<V>() * residual;
}

#[inline(always)]
#[expect(clippy::too_many_arguments)]
fn block_row<S: Scalar, V: Scalar>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    old: Option<&[V]>,
    x: &mut [V],
    first: usize,
    k: usize,
    backward: bool,
) {
    let (br, bc) = (a.block.rows, a.block.cols);
    let i = first + k;
    for r in 0..br {
        let r = if backward { br - 1 - r } else { r };
        let mut residual = b[i * br + r];
        for p in a.row_range(i) {
            let j = a.col(p);
            let row = &a.block_at(p)[r * bc..][..bc];
            let values = match x.get(j.wrapping_sub(first).wrapping_mul(bc)..).and_then(|x| x.get(..bc)) {
                Some(values) => values,
                None => match old {
                    Some(old) => &old[j * bc..][..bc],
                    None => continue,
                },
            };
            for (v, value) in row.iter().zip(values) {
                residual -= v.cast::<V>() * *value;
            }
        }
        x[k * br + r] += inverse[i * br + r].cast::<V>() * residual;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn one_piece_is_gauss_seidel() {
        let t = [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 4.0), (1, 2, -1.0), (2, 1, -1.0), (2, 2, 4.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let inverse: Vec<f64> = l1_diagonal(&a.view()).unwrap().iter().map(|d| 1.0 / d).collect();
        assert_eq!(inverse, [0.25; 3]);
        let mut x = [0.0; 3];
        sweep(&a.view(), &inverse, &[4.0, 8.0, 4.0], None, &mut x, false);
        assert_eq!(x, [1.0, 2.25, 1.5625]);
        let mut x = [0.0; 3];
        sweep(&a.view(), &inverse, &[4.0, 8.0, 4.0], None, &mut x, true);
        assert_eq!(x, [1.5625, 2.25, 1.0]);
    }

    #[test]
    fn blocks_are_swept_like_their_scalars() {
        let blocks = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
        let scalars = blocks.view().to_scalar().unwrap();
        let b: Vec<f64> = (0..scalars.rows).map(|i| (i % 5) as f64).collect();
        for backward in [false, true] {
            let run = |a: &Csr<f64>| {
                let inverse: Vec<f64> = l1_diagonal(&a.view()).unwrap().iter().map(|d| 1.0 / d).collect();
                let old = vec![0.5; b.len()];
                let mut x = old.clone();
                sweep(&a.view(), &inverse, &b, Some(&old), &mut x, backward);
                x
            };
            let (x, y) = (run(&blocks), run(&scalars));
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-13));
        }
    }

    #[test]
    fn several_pieces_lower_the_energy_of_the_error() {
        let a = gallery::poisson5(100, 100).unwrap();
        let energy = |x: &[f64]| -> f64 {
            (0..a.rows).map(|i| x[i] * a.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>()).sum()
        };
        let norms = l1_diagonal(&a.view()).unwrap();
        assert!(norms.iter().any(|d| *d > 4.0) && norms.iter().all(|d| *d >= 4.0));
        let inverse: Vec<f64> = norms.iter().map(|d| 1.0 / d).collect();
        // The solution is 0, so x is the error.
        let mut x: Vec<f64> = (0..a.rows).map(|i| ((i * 7919) % 13) as f64 - 6.0).collect();
        let mut before = energy(&x);
        for backward in [false, true, false, true] {
            let old = x.clone();
            sweep(&a.view(), &inverse, &vec![0.0; a.rows], Some(&old), &mut x, backward);
            let after = energy(&x);
            assert!(after < before, "{after} after {before}");
            before = after;
        }
    }
}
