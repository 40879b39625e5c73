//! Systems whose numbers are so large or small that inner products overflow or underflow.
//!
//! A x = b is solved as A x' = b' with b' = 2^k b and x' = 2^k x. In conjugate gradients r·r is then of the size of A,
//! and r·z with z = A⁻¹ r of the size of 1: both are representable for every A that is. Multiplications by powers of two
//! do not round, so the solution is that of the other system.

use crate::scalar::{Precision, Scalar};

/// The exponents of numbers in a format.
struct Exponents {
    /// Norms of right-hand sides between these powers of two need no scaling: their squares are normal numbers, and so
    /// are those of residuals that are smaller by the tolerance.
    safe: std::ops::Range<i32>,
    /// A system with |k| up to this needs no scaling.
    margin: i32,
    /// The largest |k|.
    largest: i32,
}

fn exponents<T: Scalar>() -> Exponents {
    match T::PRECISION {
        Precision::F32 => Exponents { safe: -60..60, margin: 40, largest: 120 },
        _ => Exponents { safe: -400..480, margin: 250, largest: 1000 },
    }
}

/// The exponent of the largest power of two up to |x|; none for 0 and numbers that are not finite.
fn exponent(x: f64) -> Option<i32> {
    (x != 0.0 && x.is_finite()).then(|| x.abs().log2().floor() as i32)
}

/// Whether a right-hand side of this norm is solved without scaling.
pub fn is_safe<T: Scalar>(norm: f64) -> bool {
    exponent(norm).is_some_and(|e| exponents::<T>().safe.contains(&e))
}

/// k for a right-hand side and a matrix of these max norms; that of the matrix need not be known better than to some
/// powers of two.
pub fn shift<T: Scalar>(b: f64, a: f64) -> i32 {
    let largest = exponents::<T>().largest;
    // A product that overflows tells that A is large.
    let of_a = if a.is_infinite() { largest } else { exponent(a).unwrap_or(0) };
    (of_a / 2 - exponent(b).unwrap_or(0)).clamp(-largest, largest)
}

/// The power of two by which a matrix is multiplied before set-up, because squares and products of its values leave the
/// range of numbers; 0 for ordinary matrices. `size` is that of its values.
pub fn units(precision: Precision, size: f64) -> i32 {
    let ordinary = if precision == Precision::F32 { 50 } else { 250 };
    exponent(size).filter(|e| e.abs() > ordinary).map_or(0, |e| (-e).clamp(-1000, 1000))
}

/// Whether a failure without scaling may come from the range of numbers, for this k.
pub fn explains_failure<T: Scalar>(k: i32) -> bool {
    k.abs() > exponents::<T>().margin
}

/// 2^k.
pub fn power<T: Scalar>(k: i32) -> T {
    T::from_f64(2.0_f64.powi(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_of_scaled_norms_are_normal_numbers() {
        for b in [5e-324, 1e-300, 1e-160, 1e-5, 1.0, 1e154, 1e300] {
            for a in [1e-300, 1e-160, 1.0, 1e120, 1e300] {
                let x: f64 = b / a;
                if x == 0.0 || !x.is_finite() {
                    continue;
                }
                let k = shift::<f64>(b, a);
                let (r, z) = (b * power::<f64>(k), x * power::<f64>(k));
                for product in [r * r, r * z, z * z] {
                    assert!(product.is_normal(), "{b:e} {a:e}: {product:e}");
                }
            }
        }
    }

    #[test]
    fn ordinary_systems_are_not_scaled() {
        assert!(is_safe::<f64>(1e-100) && is_safe::<f64>(1e100) && is_safe::<f32>(1e-15) && is_safe::<f32>(1e15));
        assert!(!is_safe::<f64>(0.0) && !is_safe::<f64>(f64::INFINITY) && !is_safe::<f64>(1e-160));
        assert!(!explains_failure::<f64>(shift::<f64>(1e-30, 1e30)));
        assert!(explains_failure::<f64>(shift::<f64>(1e-120, 1e120)));
    }
}
