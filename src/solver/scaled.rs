//! Systems whose numbers are so large or small that inner products overflow or underflow.
//!
//! The matrix is multiplied by a power of two before set-up where its values are extreme. A right-hand side that is too
//! large or small is multiplied by another one, so that its largest element is about 1. Multiplications by powers of two
//! do not round, so the solution is that of the other system.

use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// Exponents of two in a format.
struct Exponents {
    /// Right-hand sides with norms at most this far from 1 are not scaled: r·r and r·A⁻¹r are normal numbers then, and
    /// stay so while the residual falls to the tolerance.
    norm: i32,
    /// Powers of two up to this are representable.
    largest: i32,
}

fn exponents(precision: Precision) -> Exponents {
    match precision {
        Precision::F32 => Exponents { norm: 40, largest: 120 },
        _ => Exponents { norm: 300, largest: 1000 },
    }
}

/// The exponent of the largest power of two up to |x|; none for 0 and numbers that are not finite.
fn exponent(x: f64) -> Option<i32> {
    (x != 0.0 && x.is_finite()).then(|| x.abs().log2().floor() as i32)
}

/// Whether a right-hand side of this norm is solved without scaling.
pub fn is_safe<T: Scalar>(norm: f64) -> bool {
    exponent(norm).is_some_and(|e| e.abs() <= exponents(T::PRECISION).norm)
}

/// The exponent k for which 2^k b is about 1, where `max` is the largest element of b.
pub fn shift<T: Scalar>(max: f64) -> i32 {
    let largest = exponents(T::PRECISION).largest;
    (-exponent(max).unwrap_or(0)).clamp(-largest, largest)
}

/// 2^k.
pub fn power<T: Scalar>(k: i32) -> T {
    T::from_f64(2.0_f64.powi(k))
}

/// An operator callback times a power of two.
pub struct InUnits<B: Backend, T: Scalar> {
    backend: B,
    a: Arc<dyn Operator<B, T>>,
    factor: T,
}

impl<B: Backend, T: Scalar> InUnits<B, T> {
    /// 2^k A.
    pub fn new(backend: &B, a: &Arc<dyn Operator<B, T>>, k: i32) -> Self {
        InUnits { backend: backend.clone(), a: Arc::clone(a), factor: power(k) }
    }
}

impl<B: Backend, T: Scalar> Operator<B, T> for InUnits<B, T> {
    fn rows(&self) -> usize {
        self.a.rows()
    }

    fn apply(&self, alpha: T, x: &B::Slice<T>, beta: T, y: &mut B::Slice<T>) -> Result<()> {
        self.a.apply(alpha * self.factor, x, beta, y)
    }

    fn residual(&self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<()> {
        self.a.apply(self.factor, x, T::ZERO, r)?;
        self.backend.axpby(T::ONE, b, -T::ONE, r);
        Ok(())
    }

    fn is_capturable(&self) -> bool {
        self.a.is_capturable()
    }

    fn bytes(&self) -> usize {
        self.a.bytes()
    }

    fn format(&self) -> String {
        self.a.format()
    }

    fn precision(&self) -> Precision {
        self.a.precision()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::matrix::units::units;

    #[test]
    fn inner_products_of_safe_systems_are_normal_numbers() {
        for e in [-300, 0, 300] {
            for of_a in [-250, 0, 250] {
                let (r, z) = (power::<f64>(e), power::<f64>(e - of_a));
                // At the tolerance both are smaller by 1e-12.
                assert!(is_safe::<f64>(r) && units(Precision::F64, false, power(of_a)) == 0);
                assert!((r * r * 1e-24).is_normal() && (r * z * 1e-24).is_normal(), "{e} {of_a}");
            }
        }
    }

    #[test]
    fn extreme_systems_are_scaled_to_the_size_of_one() {
        for size in [5e-324, 1e-300, 1e-160, 1e154, 1e300] {
            assert!(!is_safe::<f64>(size));
            let (b, a) =
                (size * power::<f64>(shift::<f64>(size)), size * power::<f64>(units(Precision::F64, false, size)));
            assert!((1e-23..2.0).contains(&b) && (1e-23..2.0).contains(&a), "{size:e}: {b:e} {a:e}");
        }
        assert!(
            !is_safe::<f64>(0.0) && !is_safe::<f64>(f64::INFINITY) && is_safe::<f32>(1e-12) && !is_safe::<f32>(1e-15)
        );
    }
}
