//! Estimates of the largest eigenvalue of D^-1 A, the same on all backends.

use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// Lanczos steps that must agree with those of an earlier matrix to take over the outcome of the later ones.
pub(crate) const AGREEING: usize = 2;

/// Lanczos steps after which the largest row sum may settle an estimate, and the scalar rows from which on this is looked
/// at: the look is a wait for a device, and a small matrix takes no longer for all steps.
const SETTLING: usize = 4;
const SETTLED_ROWS: usize = 1 << 16;

/// An estimate is settled if the largest row sum exceeds it by no more than this factor. Smoothers that need a bound of
/// all eigenvalues multiply by as much.
pub(crate) const MARGIN: f64 = 1.1;

/// Relative difference up to which two numbers agree.
const SAME: f64 = 0.01;

/// An estimate of the largest eigenvalue, with what later ones can go by.
#[derive(Clone, Debug)]
pub struct Largest {
    /// The estimate.
    pub value: f64,
    pub(crate) found: Arc<Found>,
}

/// What was found when the largest eigenvalue was last searched to the end.
#[derive(Debug)]
pub(crate) struct Found {
    value: f64,
    /// The largest Ritz value after each Lanczos step.
    ritz: Vec<f64>,
    /// The largest row sum.
    bound: f64,
}

/// A number that was found by inner products in one of these precisions, to so many bits: host and GPUs add them in
/// different orders, and go on from the same number all the same.
pub(crate) fn rounded(value: f64, precision: Precision) -> f64 {
    let bits = if precision == Precision::F64 { 20 } else { 10 };
    let dropped = u64::from(f64::MANTISSA_DIGITS) - bits;
    let half = 1 << (dropped - 1);
    f64::from_bits((value.to_bits() + half) >> dropped << dropped)
}

impl Largest {
    fn new<T: Scalar>(value: f64, ritz: Vec<f64>, bound: f64) -> Largest {
        let value = rounded(value, T::PRECISION);
        Largest { value, found: Arc::new(Found { value, ritz, bound }) }
    }

    /// From the norm that power steps end with, and the largest row sum.
    pub(crate) fn from_power<T: Scalar>(norm: f64, bound: f64) -> Largest {
        Largest::new::<T>(norm.min(bound), Vec::new(), bound)
    }

    /// From α of each Lanczos step, β of each but the first, and the largest row sum.
    pub(crate) fn from_lanczos<T: Scalar>(alphas: &[f64], betas: &[f64], bound: f64) -> Largest {
        let ritz: Vec<f64> = (1..=alphas.len()).map(|n| ritz_value(&alphas[..n], betas, bound)).collect();
        Largest::new::<T>(ritz.last().copied().unwrap_or(0.0), ritz, bound)
    }

    /// Whether an estimate may be settled after step `step` of `steps`, counted from 0, for so many scalar rows.
    pub(crate) fn may_settle(step: usize, steps: usize, rows: usize) -> bool {
        step + 1 == SETTLING && SETTLING < steps && rows >= SETTLED_ROWS
    }

    /// The estimate from the first Lanczos steps, if the largest row sum tells that further steps could not change it by
    /// more than [`MARGIN`]. Ritz values of k steps from a random start lie below the eigenvalue by a share that falls as
    /// 1/k², so that the eigenvalue follows from the last two of them: to 5 % from four steps.
    pub(crate) fn settled<T: Scalar>(alphas: &[f64], betas: &[f64], bound: f64) -> Option<Largest> {
        if alphas.len() != SETTLING {
            return None;
        }
        let ritz: Vec<f64> = (1..=SETTLING).map(|n| ritz_value(&alphas[..n], betas, bound)).collect();
        let [before, last] = [ritz[SETTLING - 2], ritz[SETTLING - 1]];
        let value = (last + 0.5 * SETTLING as f64 * (last - before)).min(bound);
        (bound <= MARGIN * value).then(|| Largest::new::<T>(value, ritz, bound))
    }

    /// The estimate for a matrix whose first Lanczos steps these are, if it is like the one of this estimate.
    pub(crate) fn carried_over<T: Scalar>(&self, alphas: &[f64], betas: &[f64], bound: f64) -> Option<Largest> {
        if alphas.len() != AGREEING || self.found.ritz.len() < AGREEING {
            return None;
        }
        let ritz: Vec<f64> = (1..=AGREEING).map(|n| ritz_value(&alphas[..n], betas, bound)).collect();
        let found = &self.found;
        let agree = |(new, old): (&f64, &f64)| (new - old).abs() <= SAME * old;
        let alike = ritz.iter().zip(&found.ritz).all(agree) && bound <= (1.0 + SAME) * found.bound;
        let value = (found.value * ritz[AGREEING - 1] / found.ritz[AGREEING - 1]).min(bound);
        alike.then(|| Largest { value: rounded(value, T::PRECISION), found: Arc::clone(found) })
    }
}

/// The largest Ritz value after the Lanczos steps with these α, and no more than the largest row sum.
fn ritz_value(alphas: &[f64], betas: &[f64], bound: f64) -> f64 {
    largest_tridiagonal(alphas, &betas[..alphas.len().saturating_sub(1)]).min(bound)
}

/// The largest eigenvalue of a symmetric tridiagonal matrix, by bisection with Sturm sequences.
fn largest_tridiagonal(diagonal: &[f64], off: &[f64]) -> f64 {
    let radius = |i: usize| {
        let left = if i > 0 { off[i - 1].abs() } else { 0.0 };
        left + if i + 1 < diagonal.len() { off[i].abs() } else { 0.0 }
    };
    let upper = (0..diagonal.len()).map(|i| diagonal[i] + radius(i)).fold(f64::MIN, f64::max);
    let lower = diagonal.iter().copied().fold(f64::MIN, f64::max);
    let any_above = |x: f64| {
        let mut q = 1.0;
        for (i, d) in diagonal.iter().enumerate() {
            let coupling = if i > 0 { off[i - 1] * off[i - 1] / q } else { 0.0 };
            q = d - x - coupling;
            if q > 0.0 {
                return true;
            }
            if q == 0.0 {
                q = -f64::MIN_POSITIVE;
            }
        }
        false
    };
    let (mut low, mut high) = (lower, upper);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if any_above(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    #[test]
    fn a_tridiagonal_matrix_has_its_known_eigenvalue() {
        let n = 9;
        let expected = 2.0 + 2.0 * (std::f64::consts::PI / (n as f64 + 1.0)).cos();
        assert!((largest_tridiagonal(&vec![2.0; n], &vec![-1.0; n - 1]) - expected).abs() < 1e-12);
        assert_eq!(largest_tridiagonal(&[3.0], &[]), 3.0);
    }

    /// Lanczos steps of a spectrum whose Ritz values approach 2 as 2 - 2/k².
    #[test]
    fn a_row_sum_near_the_eigenvalue_settles_an_estimate() {
        // With these the largest eigenvalues are 0, 1.5, 1.778 and 1.875.
        let (mut alphas, mut betas) = (vec![0.0], Vec::new());
        for wanted in [1.5_f64, 1.778, 1.875] {
            // A last row that couples by b with diagonal 1 lifts the largest eigenvalue to the one that is wanted.
            alphas.push(1.0);
            betas.push(0.0);
            let last = betas.len() - 1;
            let (mut low, mut high) = (0.0, 4.0);
            for _ in 0..60 {
                betas[last] = 0.5 * (low + high);
                if largest_tridiagonal(&alphas, &betas) < wanted { low = betas[last] } else { high = betas[last] }
            }
        }
        let settled = |steps: usize, bound: f64| {
            Largest::settled::<f64>(&alphas[..steps], &betas[..steps.saturating_sub(1)], bound).map(|found| found.value)
        };
        assert!((settled(4, 2.2).unwrap() - (1.875 + 2.0 * 0.097)).abs() < 1e-4);
        assert_eq!(settled(4, 2.0), Some(2.0));
        assert_eq!(settled(4, 2.5), None);
        assert_eq!(settled(3, 2.0), None);
        assert!(Largest::may_settle(3, 12, 1 << 16) && !Largest::may_settle(3, 4, 1 << 16));
        assert!(!Largest::may_settle(3, 12, 1000) && !Largest::may_settle(4, 12, 1 << 16));
    }
}
