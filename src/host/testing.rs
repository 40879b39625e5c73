//! What unit tests of the host's kernels share.

use crate::scalar::Scalar;
use crate::skip::skipped;

/// Asserts that a sum is what its terms give in exact arithmetic, but for rounding. It is computed in `Y` in any order,
/// from factors that are rounded to `Y` first: that is within gamma_{n+2} of the sum of the absolute values (Higham,
/// Accuracy and Stability of Numerical Algorithms, section 3.1). The terms are those of f64, whose own rounding counts,
/// too.
pub fn assert_sum<Y: Scalar>(sum: Y, terms: impl IntoIterator<Item = f64>) {
    let (mut n, mut exact, mut absolute) = (0, 0.0, 0.0);
    for term in terms {
        n += 1;
        exact += term;
        absolute += f64::abs(term);
    }
    let gamma = |n: i32, epsilon: f64| f64::from(n) * epsilon / (2.0 - f64::from(n) * epsilon);
    let bound = (gamma(n + 2, Y::EPSILON.to_f64()) + gamma(n, f64::EPSILON)) * absolute;
    let error = (sum.to_f64() - exact).abs();
    assert!(error <= bound, "{sum:?} differs by {error:e} from {exact} with {n} terms; accepted: {bound:e}");
}

/// Says so where there is only the portable code to compare with itself.
pub fn skip_without_avx512() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let present = super::avx512::is_present();
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let present = false;
    if !present {
        skipped("AVX-512 kernels of the host", "this processor has no AVX-512");
    }
}
