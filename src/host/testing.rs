//! What unit tests of the host's kernels share.

use super::registers::with_each;
use crate::hash::hash;
use crate::scalar::{Number, Scalar};
use crate::skip::skipped;

/// Numbers between -1 and 1.
pub fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((hash(i, seed) % 2001) as f64 / 1000.0 - 1.0)).collect()
}

pub fn to_f64<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|number| number.to_f64()).collect()
}

/// What `work` makes of `start` with all kinds of registers: asserts that it is the same. By `dyn`, because tests are compiled for many combinations
/// of precisions.
pub fn same_with_each<Y: Scalar>(start: &[Y], work: &dyn Fn(&mut [Y])) -> Vec<Y> {
    let mut expected: Option<Vec<Y>> = None;
    with_each(|registers| {
        let mut result = start.to_vec();
        work(&mut result);
        match &expected {
            Some(expected) => assert_eq!(&result, expected, "{registers:?}"),
            None => expected = Some(result),
        }
    });
    expected.unwrap_or_default()
}

/// Asserts that `product` writes the same `n` sums with all kinds of registers, and that they have these terms. Gives the sums.
pub fn check_each<Y: Scalar>(n: usize, product: &dyn Fn(&mut [Y]), terms: &dyn Fn(usize) -> Vec<f64>) -> Vec<Y> {
    let sums = same_with_each(&vec![Y::ONE; n], product);
    for (i, sum) in sums.iter().enumerate() {
        assert_sum(*sum, terms(i));
    }
    sums
}

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
