//! The range in which the numbers of a cycle are kept, by multiplying what enters a level with a power of two.

use crate::scalar::{Number, Precision};

/// Exponents of two for the largest number of a residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// From here on no small number is lost.
    pub low: i32,
    /// Below this nothing that a cycle makes of the residual overflows.
    pub high: i32,
    /// What the largest is brought to where it is outside.
    pub target: i32,
}

impl Range {
    /// The range for vectors of a format. f64 holds whatever a caller's numbers are. In f16, what the smoother makes of a residual is 2^10
    /// times smaller in the scaled variables, and what the levels below make of it may be large again.
    pub fn of(precision: Precision) -> Option<Range> {
        match precision {
            Precision::F64 => None,
            Precision::F32 | Precision::BF16 => Some(Range { low: -40, high: 40, target: 0 }),
            Precision::F16 => Some(Range { low: 2, high: 5, target: 3 }),
        }
    }

    /// Whether a residual whose largest number is `peak` can be left as it is.
    pub fn holds(&self, peak: f64) -> bool {
        (f64::from(self.low).exp2()..f64::from(self.high).exp2()).contains(&peak)
    }

    /// The power of two that brings `peak` into the range, for arithmetic in type `T`; 1 where nothing does.
    pub fn factor<T: Number>(&self, peak: f64) -> f64 {
        if peak == 0.0 || !peak.is_finite() {
            return 1.0;
        }
        let exponent = f64::from(self.target) - peak.log2().floor();
        let largest = if T::PRECISION == Precision::F64 { LARGEST } else { 120.0 };
        exponent.clamp(-largest, largest).exp2()
    }
}

/// Largest exponent of a factor in f64, as in `kernels/vector.cu`.
const LARGEST: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_bring_peaks_to_the_target() {
        assert_eq!(Range::of(Precision::F64), None);
        let range = Range::of(Precision::F16).unwrap();
        for (peak, held) in [(4.0, true), (31.9, true), (32.0, false), (3.9, false), (0.0, false), (f64::NAN, false)] {
            assert_eq!(range.holds(peak), held, "{peak}");
        }
        for peak in [1e-300, 1e-7, 0.3, 7.9, 8.0, 1e5, 1e300] {
            assert!((8.0..16.0).contains(&(peak * range.factor::<f64>(peak))), "{peak}");
        }
        assert_eq!(range.factor::<f64>(f64::from_bits(1)), 1000_f64.exp2());
        assert_eq!(range.factor::<f32>(1e-300), 120_f64.exp2());
        assert!([0.0, f64::NAN, f64::INFINITY].iter().all(|peak| range.factor::<f64>(*peak) == 1.0));
    }
}
