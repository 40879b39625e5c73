//! Residuals for iterative refinement, in f64 and with compensated sums.

use crate::sparse::Csr;

/// How the products of a row are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// In f64.
    Plain,
    /// As in twice the digits of f64, and rounded at the end (Dot2 of Ogita, Rump and Oishi).
    Compensated,
}

/// r = b - A x. Returns the largest row of |A| |x| + |b|.
pub fn residual(a: &Csr<f64>, b: &[f64], x: &[f64], r: &mut [f64], sum: Sum) -> f64 {
    let mut largest = 0.0_f64;
    for (i, (r, b)) in r.iter_mut().zip(b).enumerate() {
        let (begin, end) = (a.offsets[i] as usize, a.offsets[i + 1] as usize);
        let entries = || a.values[begin..end].iter().zip(&a.columns[begin..end]).map(|(v, j)| (*v, x[*j as usize]));
        let (plain, size) = entries().fold((*b, b.abs()), |(sum, size), (v, x)| {
            let product = v * x;
            (sum - product, size + product.abs())
        });
        *r = match sum {
            Sum::Plain => plain,
            Sum::Compensated => compensated(*b, entries()),
        };
        largest = largest.max(size);
    }
    largest
}

/// b less all products.
fn compensated(b: f64, entries: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, error) = entries.fold((b, 0.0), |(sum, error), (v, x)| {
        let product = v * x;
        let (next, lost) = two_sum(sum, -product);
        // The rounding of the product is exact in f64.
        (next, error + (lost - v.mul_add(x, -product)))
    });
    sum + error
}

/// The rounded sum of two numbers, and what rounding lost (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn compensated_sums_keep_what_cancellation_uncovers() {
        // 1 + 2^-60 - 1 in products, and a product whose rounding is the answer.
        let tiny = 2.0_f64.powi(-60);
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, tiny), (1, 0, 1.0 + f64::EPSILON)]).unwrap();
        let x = [1.0 - f64::EPSILON, 1.0];
        let b = [1.0 - f64::EPSILON, 1.0];
        let mut r = [f64::NAN; 2];
        assert_eq!(residual(&a, &b, &x, &mut r, Sum::Compensated), 2.0);
        assert_eq!(r, [-tiny, f64::EPSILON * f64::EPSILON]);
        residual(&a, &b, &x, &mut r, Sum::Plain);
        assert_eq!(r, [-tiny, 0.0]);
        assert_eq!(two_sum(1.0, tiny), (1.0, tiny));
    }
}
