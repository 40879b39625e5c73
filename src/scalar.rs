//! Number formats: what an array stores, and the arithmetic that algorithms are generic over.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A storage format for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
}

impl Precision {
    /// Every format that this version can store and compute with.
    pub const ALL: &'static [Precision] = &[Precision::F64, Precision::F32];

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F64 => "f64",
            Precision::F32 => "f32",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.iter().copied().find(|p| p.name() == name)
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Precision::F64 => 8,
            Precision::F32 => 4,
        }
    }
}

/// A vector of either type, to read.
pub enum SliceRef<'a> {
    /// f64.
    F64(&'a [f64]),
    /// f32.
    F32(&'a [f32]),
}

/// A vector of either type, to fill.
pub enum SliceMut<'a> {
    /// f64.
    F64(&'a mut [f64]),
    /// f32.
    F32(&'a mut [f32]),
}

/// A real number type that vectors and matrices hold.
pub trait Scalar:
    Copy
    + Debug
    + Display
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
{
    /// The storage format.
    const PRECISION: Precision;
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
    /// Distance from 1 to the next number.
    const EPSILON: Self;

    /// Nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Exact for both formats.
    fn to_f64(self) -> f64;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// A vector of this type as one of any type.
    fn slice_ref(x: &[Self]) -> SliceRef<'_>;
    /// A vector of this type as one of any type.
    fn slice_mut(x: &mut [Self]) -> SliceMut<'_>;
    /// Conversion in registers; the identity when the types are equal.
    #[inline(always)]
    fn cast<U: Scalar>(self) -> U {
        U::from_f64(self.to_f64())
    }
}

macro_rules! scalar {
    ($t:ident, $precision:ident) => {
        impl Scalar for $t {
            const PRECISION: Precision = Precision::$precision;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: Self = $t::EPSILON;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn slice_ref(x: &[Self]) -> SliceRef<'_> {
                SliceRef::$precision(x)
            }
            fn slice_mut(x: &mut [Self]) -> SliceMut<'_> {
                SliceMut::$precision(x)
            }
        }
    };
}

scalar!(f64, F64);
scalar!(f32, F32);

/// Runs a body once with a type alias bound to the Rust type of a run-time [`Precision`].
macro_rules! with_precision {
    ($precision:expr, $t:ident => $body:expr) => {
        match $precision {
            $crate::scalar::Precision::F64 => {
                type $t = f64;
                $body
            }
            $crate::scalar::Precision::F32 => {
                type $t = f32;
                $body
            }
        }
    };
}
pub(crate) use with_precision;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_casts_are_idempotent() {
        for &p in Precision::ALL {
            assert_eq!(Precision::from_name(p.name()), Some(p));
            assert_eq!(with_precision!(p, T => size_of::<T>()), p.bytes());
        }
        assert_eq!(Precision::from_name("f16"), None);
        let x = 0.1_f32;
        assert_eq!(x.cast::<f64>().cast::<f32>(), x);
    }
}
