//! Rounding losses of a level in 16 bits, relative to its smoothest vectors.

use super::spmv;
use crate::backend::setup::{Candidate, Loss, Measured};
use crate::error::{Result, try_collect, try_vec};
use crate::host::Host;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::CsrView;
use std::borrow::Cow;

/// Measures candidates: the matrix of each level, followed by its prolongator if that is measured. bf16 is measured
/// only if `affordable` rejects f16.
pub(crate) fn measure<T: Scalar>(
    candidates: &[Candidate<'_, Host, T>],
    affordable: &(dyn Fn(&Loss, f64) -> bool + Sync),
) -> Result<Vec<Measured>> {
    let mut level_energy = 0.0;
    let mut all = Vec::new();
    for Candidate { matrix, is_transfer, diagonal, smooth, losses } in candidates {
        let (in_rows, (w, coarse)) = (matrix.to_rows()?, *smooth);
        let a = in_rows.view();
        let d = each(diagonal, |d, _| d.abs())?;
        if !is_transfer {
            level_energy = energy(&a, &d, w)?;
        }
        let (mut f16, mut bf16) = (Loss::OUT_OF_RANGE, Loss::OUT_OF_RANGE);
        if let Some((rows, columns)) = losses {
            let (s, c) = (factors(*rows, a.scalar_rows())?, factors(*columns, a.scalar_cols())?);
            f16 = loss_in::<T, half::f16>(&a, *is_transfer, (&s, &c), (&d, w), coarse)?;
            if !affordable(&f16, level_energy) {
                bf16 = loss_in::<T, half::bf16>(&a, *is_transfer, (&s, &c), (&d, w), coarse)?;
            }
        }
        all.push(Measured { energy: level_energy, f16, bf16 });
    }
    Ok(all)
}

/// Factors, or ones where there are none.
fn factors(given: Option<&Vec<f64>>, rows: usize) -> Result<Cow<'_, [f64]>> {
    match given {
        Some(given) => Ok(Cow::Borrowed(given)),
        None => Ok(Cow::Owned(try_vec(rows, 1.0)?)),
    }
}

fn loss_in<T: Scalar, S: Number>(
    a: &CsrView<'_, T>,
    is_transfer: bool,
    (s, c): (&[f64], &[f64]),
    (d, w): (&[f64], &[f64]),
    coarse: &[f64],
) -> Result<Loss> {
    if is_transfer { transfer_loss::<T, S>(a, (s, c), (d, w), coarse) } else { matrix_loss::<T, S>(a, s, d, w) }
}

/// Energy of w over |w|_D^2 for the diagonal D of a matrix.
pub(crate) fn energy<T: Scalar>(a: &CsrView<'_, T>, diagonal: &[f64], w: &[f64]) -> Result<f64> {
    let mut product = try_vec(w.len(), 0.0)?;
    spmv::apply(a, 1.0, w, 0.0, &mut product);
    let energy = par::sum(w.len(), par::GRAIN, |range| range.map(|i| w[i] * product[i]).sum());
    Ok(energy.abs() / weight(diagonal, w))
}

/// |w|_D^2.
fn weight(diagonal: &[f64], w: &[f64]) -> f64 {
    par::sum(w.len(), par::GRAIN, |range| range.map(|i| diagonal[i] * w[i] * w[i]).sum())
}

/// The loss in A w by rounding S^-1 A S^-1 to `S`; `diagonal` is that of A.
pub(crate) fn matrix_loss<T: Scalar, S: Number>(
    a: &CsrView<'_, T>,
    s: &[f64],
    diagonal: &[f64],
    w: &[f64],
) -> Result<Loss> {
    let inverse = each(s, |s, _| 1.0 / s)?;
    let of_row = |i: usize, error: f64| if error == 0.0 { 0.0 } else { error * error * s[i] * s[i] / diagonal[i] };
    loss::<T, S>(a, (&inverse, &inverse), &each(s, |s, j| s * w[j])?, of_row, weight(diagonal, w))
}

/// The loss in P w by rounding S P S_c^-1 to `S`, for a vector w of the coarse level; `diagonal` and `fine` are those
/// of the fine one.
pub(crate) fn transfer_loss<T: Scalar, S: Number>(
    p: &CsrView<'_, T>,
    (s, s_coarse): (&[f64], &[f64]),
    (diagonal, fine): (&[f64], &[f64]),
    w: &[f64],
) -> Result<Loss> {
    let right = each(s_coarse, |s, _| 1.0 / s)?;
    let of_row = |i: usize, error: f64| error * error / (s[i] * s[i]) * diagonal[i];
    loss::<T, S>(p, (s, &right), &each(s_coarse, |s, j| s * w[j])?, of_row, weight(diagonal, fine))
}

fn each(s: &[f64], value: impl Fn(f64, usize) -> f64) -> Result<Vec<f64>> {
    try_collect(s.iter().enumerate().map(|(i, s)| value(*s, i)))
}

/// Sums `of_row` of the errors that rounding left_i a_ij right_j to `S` makes in the product with x.
fn loss<T: Scalar, S: Number>(
    a: &CsrView<'_, T>,
    (left, right): (&[f64], &[f64]),
    x: &[f64],
    of_row: impl Fn(usize, f64) -> f64 + Sync,
    norm: f64,
) -> Result<Loss> {
    let (br, bc) = (a.block.rows, a.block.cols);
    let pieces = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut all = Loss::default();
        for i in range {
            for r in 0..br {
                let left = left[i * br + r];
                let (mut error, mut sum, mut vanished) = (0.0, 0.0, 0.0);
                for (j, block) in a.row(i) {
                    for (c, v) in block[r * bc..][..bc].iter().enumerate() {
                        let exact = v.to_f64() * left * right[j * bc + c];
                        let rounded = S::from_f64(exact).to_f64();
                        error += (rounded - exact) * x[j * bc + c];
                        sum += exact.abs();
                        vanished += if rounded == 0.0 { exact.abs() } else { 0.0 };
                    }
                }
                all.error += if error.is_finite() { of_row(i * br + r, error) } else { f64::INFINITY };
                all.vanished = all.vanished.max(if sum > 0.0 { vanished / sum } else { 0.0 });
            }
        }
        Ok(all)
    })?;
    let error: f64 = pieces.iter().map(|piece| piece.error).sum();
    Ok(Loss { error: error / norm, vanished: pieces.iter().fold(0.0, |m, piece| m.max(piece.vanished)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::diagonal;
    use half::{bf16, f16};

    #[test]
    fn exact_entries_cost_nothing_and_others_what_their_rounding_does() {
        let a = gallery::poisson5(20, 20).unwrap();
        let d = diagonal::entries(&a.view()).unwrap();
        let (ones, w) = (vec![1.0; 400], vec![1.0; 400]);
        let loss = matrix_loss::<f64, f16>(&a.view(), &ones, &d, &w).unwrap();
        assert_eq!((loss.error, loss.vanished), (0.0, 0.0));
        // Constants cost a quarter of what a row at the boundary lacks: 80 rows of 400, corners twice.
        assert!((energy(&a.view(), &d, &w).unwrap() - 80.0 / 1600.0).abs() < 1e-14);

        let mut third = a.clone();
        third.values.iter_mut().for_each(|v| *v /= 3.0);
        let third_d: Vec<f64> = d.iter().map(|d| d / 3.0).collect();
        let f = matrix_loss::<f64, f16>(&third.view(), &ones, &third_d, &w).unwrap().error.sqrt();
        let b = matrix_loss::<f64, bf16>(&third.view(), &ones, &third_d, &w).unwrap().error.sqrt();
        assert!(f > 0.0 && f < 1.0 / 2048.0 && (b / f) > 2.0 && b < 1.0 / 256.0, "{f} {b}");
        let huge = matrix_loss::<f64, f16>(&third.view(), &vec![1e-4; 400], &third_d, &w);
        assert_eq!(huge.unwrap().error, f64::INFINITY);
        let small = matrix_loss::<f64, f16>(&third.view(), &vec![1e5; 400], &third_d, &w);
        assert_eq!(small.unwrap().vanished, 1.0);
    }
}
