//! The range of the residuals of a level. A residual out of range is multiplied by a power of two.

use crate::scalar::{Number, Precision};

/// A range for the max norm of a residual, in exponents of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// From here on small elements do not underflow.
    pub low: i32,
    /// Below this a cycle does not overflow.
    pub high: i32,
    /// The exponent that a norm out of range is brought to.
    pub target: i32,
}

impl Range {
    /// The range for vectors of a format. f64 holds whatever a caller's numbers are. In f16, the smoother makes a residual 2^10
    /// times smaller in the scaled variables, and the levels below may make it large again.
    pub fn of(precision: Precision) -> Option<Range> {
        match precision {
            Precision::F64 => None,
            Precision::F32 | Precision::BF16 => Some(Range { low: -40, high: 40, target: 0 }),
            Precision::F16 => Some(Range { low: 2, high: 5, target: 3 }),
        }
    }

    /// The same for vectors whose max norm is always brought to the target itself, so that their rounding does not depend on their units.
    pub fn exact(self) -> Range {
        Range { low: self.target, high: self.target, ..self }
    }

    /// Whether a max norm is in range.
    pub fn holds(&self, norm: f64) -> bool {
        (f64::from(self.low).exp2()..f64::from(self.high).exp2()).contains(&norm)
    }

    /// The power of two that brings a max norm to the target, for arithmetic in type `T`; 1 for 0 and values that are not finite. No power of
    /// two where the range is exact.
    pub fn factor<T: Number>(&self, norm: f64) -> f64 {
        if norm == 0.0 || !norm.is_finite() {
            return 1.0;
        }
        if self.low == self.high {
            let largest = MAX_EXPONENT.exp2();
            return (f64::from(self.target).exp2() / norm).clamp(1.0 / largest, largest);
        }
        let exponent = f64::from(self.target) - norm.log2().floor();
        let largest = if T::PRECISION == Precision::F64 { MAX_EXPONENT } else { 120.0 };
        exponent.clamp(-largest, largest).exp2()
    }
}

/// Largest exponent of a factor in f64, as in `kernels/vector.cu`.
const MAX_EXPONENT: f64 = 1000.0;

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn factors_bring_norms_to_the_target() {
        assert_eq!(Range::of(Precision::F64), None);
        let range = Range::of(Precision::F16).unwrap();
        for (norm, held) in [(4.0, true), (31.9, true), (32.0, false), (3.9, false), (0.0, false), (f64::NAN, false)] {
            assert_eq!(range.holds(norm), held, "{norm}");
        }
        for norm in [1e-300, 1e-7, 0.3, 7.9, 8.0, 1e5, 1e300] {
            assert!((8.0..16.0).contains(&(norm * range.factor::<f64>(norm))), "{norm}");
        }
        let exact = range.exact();
        for norm in [1e-290, 1e-7, 0.3, 7.9, 8.0, 1e5, 1e300] {
            assert!(!exact.holds(norm) && (norm * exact.factor::<f64>(norm) - 8.0).abs() < 1e-14, "{norm}");
        }
        assert_eq!(
            [0.0, f64::NAN, f64::from_bits(1)].map(|norm| exact.factor::<f64>(norm)),
            [1.0, 1.0, 1000_f64.exp2()]
        );
        assert_eq!(range.factor::<f64>(f64::from_bits(1)), 1000_f64.exp2());
        assert_eq!(range.factor::<f32>(1e-300), 120_f64.exp2());
        assert!([0.0, f64::NAN, f64::INFINITY].iter().all(|norm| range.factor::<f64>(*norm) == 1.0));
    }
}
