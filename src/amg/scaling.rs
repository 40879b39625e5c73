//! Scaling of a finished hierarchy, so that 16-bit numbers can hold it.
//!
//! With S = diag(s_i), level by level, A becomes S^-1 A S^-1, P becomes S P S_c^-1 and R its transpose counterpart S_c^-1 R S. The coarse
//! matrix of the scaled matrices is the scaled coarse matrix, so the levels below never see that the levels above were scaled. All s_i are
//! powers of two: in f64 and f32 the scaled cycle computes the same numbers as the unscaled one, but for l1 sums and underflow.

use crate::error::{Result, fail, try_vec};
use crate::host::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::SharedCsr;
use std::sync::Arc;

/// Scaled diagonals are between half and twice 4 to this power, unless a row is far from diagonally dominant: large enough that entries 2^-24
/// times the diagonal are normal numbers of f16, small enough that the inverse of the diagonal is one, too.
const LIFT: i32 = 5;

/// Scaled entries stay below this power of two, half of what f16 can hold.
const HIGHEST: f64 = 15.0;

/// One s for each scalar row of a level's matrix.
pub(super) fn factors<T: Scalar>(a: &SharedCsr<T>) -> Result<Vec<f64>> {
    let a = a.view();
    let n = a.block.rows;
    let mut s = try_vec(a.scalar_rows(), 0.0)?;
    par::for_each_row_mut(&mut s, n, par::ROW_GRAIN, |start, s| {
        for (k, s) in s.chunks_exact_mut(n).enumerate() {
            if let Some((_, block)) = a.row(start + k).find(|(j, _)| *j == start + k) {
                for (r, s) in s.iter_mut().enumerate() {
                    *s = (0.5 * block[r * n + r].to_f64().abs().log2()).round().exp2();
                }
            }
        }
    });
    if let Some(i) = s.iter().position(|s| !s.is_normal()) {
        return fail!(
            PrecisionLost,
            "row {i} cannot be scaled for 16-bit storage, its diagonal is zero or beyond the range of f64; \
             store this level in f32"
        );
    }
    let rows = &s;
    let largest = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut largest = 0.0_f64;
        for i in range {
            for (j, block) in a.row(i) {
                for (e, v) in block.iter().enumerate() {
                    largest = largest.max(v.to_f64().abs() / rows[i * n + e / n] / rows[j * n + e % n]);
                }
            }
        }
        largest
    });
    let largest = largest.into_iter().fold(1.0, f64::max);
    let lift = LIFT.min(((HIGHEST - largest.log2()) / 2.0).floor() as i32);
    let shift = f64::from(-lift).exp2();
    par::for_each_mut(&mut s, par::GRAIN, |_, s| s.iter_mut().for_each(|s| *s *= shift));
    Ok(s)
}

/// The matrix with rows multiplied by `left` and columns by `right`; without factors they stay.
pub(super) fn apply<T: Scalar>(
    a: &SharedCsr<T>,
    left: impl Fn(usize) -> f64 + Sync,
    right: impl Fn(usize) -> f64 + Sync,
) -> Result<SharedCsr<T>> {
    let view = a.view();
    let (br, bc) = (view.block.rows, view.block.cols);
    let mut values = try_vec(view.entries(), T::ZERO)?;
    let offsets = par::offsets_from_counts((0..view.rows).map(|i| view.row_range(i).len() as i64).collect());
    par::for_each_segment_mut(&mut values, &offsets, br * bc, par::ROW_GRAIN, |range, values| {
        let mut to = values.chunks_exact_mut(br * bc);
        for i in range {
            for ((j, from), to) in view.row(i).zip(&mut to) {
                for (e, (to, from)) in to.iter_mut().zip(from).enumerate() {
                    *to = T::from_f64(from.to_f64() * left(i * br + e / bc) * right(j * bc + e % bc));
                }
            }
        }
    });
    Ok(SharedCsr { structure: Arc::clone(&a.structure), values: Arc::new(values) })
}

/// The matrix in another format, refused when that cannot hold it.
pub(crate) fn store<T: Scalar, S: Number>(a: &SharedCsr<T>, what: &str) -> Result<SharedCsr<S>> {
    let stored = a.cast::<S>()?;
    if S::PRECISION.is_scalar() {
        return Ok(stored);
    }
    let (from, to) = (a.values.as_slice(), stored.values.as_slice());
    let count = |lost: &(dyn Fn(f64, f64) -> bool + Sync)| {
        par::sum(from.len(), par::GRAIN, |range| {
            let pairs = from[range.clone()].iter().zip(&to[range]);
            pairs.filter(|(from, to)| lost(from.to_f64(), to.to_f64())).count() as f64
        })
    };
    let (too_large, vanished) = (count(&|_, to| !to.is_finite()), count(&|from, to| from != 0.0 && to == 0.0));
    // Small entries may vanish beside large ones; where most do, the format is the wrong one.
    if too_large > 0.0 || vanished > 0.5 * from.len() as f64 {
        return fail!(
            PrecisionLost,
            "of {} entries of the {what}, {too_large} are too large for {} and {vanished} too small; \
             use precision.scaling \"diagonal\", or store this level in f32",
            from.len(),
            S::PRECISION.name()
        );
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::gallery;
    use crate::sparse::Csr;
    use half::f16;

    #[test]
    fn diagonals_become_alike_and_products_stay_exact() {
        let mut a = gallery::poisson5(12, 12).unwrap();
        for i in 0..a.rows {
            let d = 10_f64.powi((i % 13) as i32 - 6);
            for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                a.values[k] *= d * 10_f64.powi((a.columns[k] % 13) - 6);
            }
        }
        let a = a.into_shared();
        let s = factors(&a).unwrap();
        let scaled = apply(&a, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
        let g = f64::from(2 * LIFT).exp2();
        for i in 0..144 {
            for (j, v) in scaled.view().row(i) {
                let size = v[0].abs();
                assert!(if i == j { (0.5 * g..=2.0 * g).contains(&size) } else { size < 2.0 * g });
            }
        }
        let back = apply(&scaled, |i| s[i], |j| s[j]).unwrap();
        assert_eq!(back.values.as_slice(), a.values.as_slice(), "powers of two are exact");
        store::<f64, f16>(&scaled, "matrix").unwrap();
        assert_eq!(store::<f64, f16>(&a, "matrix").err().unwrap().status, Status::PrecisionLost);
    }

    #[test]
    fn a_row_that_is_not_dominant_lowers_the_scale_and_a_zero_diagonal_is_refused() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1e4), (1, 0, 1e4), (1, 1, 1.0)]).unwrap().into_shared();
        let s = factors(&a).unwrap();
        let scaled = apply(&a, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
        assert!(scaled.values.as_slice().iter().all(|v| *v <= 32768.0));
        store::<f64, f16>(&scaled, "matrix").unwrap();
        let zero = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, 0, 1.0)]).unwrap().into_shared();
        let error = factors(&zero).unwrap_err();
        assert!(error.status == Status::PrecisionLost && error.message.contains("row 1"), "{error}");
    }
}
