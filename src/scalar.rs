//! Number formats: what an array stores, and the arithmetic that algorithms are generic over.

use crate::huge_pages::Plain;
use half::{bf16, f16};
use std::convert::identity;
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
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    BF16,
}

impl Precision {
    /// Every format that values can be stored in.
    pub const ALL: &'static [Precision] = &[Precision::F64, Precision::F32, Precision::F16, Precision::BF16];

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F64 => "f64",
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::BF16 => "bf16",
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
            Precision::F16 | Precision::BF16 => 2,
        }
    }

    /// Whether algorithms compute in it. Other formats are for storage; arithmetic on them is in f32 or wider.
    pub const fn is_scalar(self) -> bool {
        matches!(self, Precision::F64 | Precision::F32)
    }

    /// Whether values stored in it are multiplied with vectors in this format. Vectors in 16 bits go with values in the same format
    /// alone: wider ones would cost the time that narrow vectors save.
    pub const fn goes_with(self, vectors: Precision) -> bool {
        vectors.is_scalar() || self as u8 == vectors as u8
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The type of an array's elements, as kernels declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// 64-bit number.
    F64,
    /// 32-bit number.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    BF16,
    /// Signed, 64 bits.
    I64,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 8 bits.
    U8,
}

impl ElementType {
    /// Its name in kernels.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::F64 => "f64",
            ElementType::F32 => "f32",
            ElementType::F16 => "f16",
            ElementType::BF16 => "bf16",
            ElementType::I64 => "i64",
            ElementType::I32 => "i32",
            ElementType::U64 => "u64",
            ElementType::U32 => "u32",
            ElementType::U16 => "u16",
            ElementType::U8 => "u8",
        }
    }

    /// The unsigned number of its size.
    pub fn bits(self) -> ElementType {
        match self {
            ElementType::F64 | ElementType::I64 | ElementType::U64 => ElementType::U64,
            ElementType::F32 | ElementType::I32 | ElementType::U32 => ElementType::U32,
            ElementType::F16 | ElementType::BF16 | ElementType::U16 => ElementType::U16,
            ElementType::U8 => ElementType::U8,
        }
    }
}

/// An element of arrays that are copied between host and device as bytes.
///
/// # Safety
/// The type has no padding, every pattern of bits is a value of it, and `TYPE` is the type of the same size and meaning in kernels.
pub unsafe trait Element: sealed::Sealed + Plain + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The type in kernels.
    const TYPE: ElementType;
}

macro_rules! element {
    ($($t:ident $name:ident),*) => {
        $(
            impl sealed::Sealed for $t {}
            // SAFETY: an integer or a floating-point number of the machine, or the bits of one.
            unsafe impl Element for $t {
                const TYPE: ElementType = ElementType::$name;
            }
        )*
    };
}

element!(f64 F64, f32 F32, f16 F16, bf16 BF16, i64 I64, i32 I32, u64 U64, u32 U32, u16 U16, u8 U8);

/// Stored values of any format.
#[derive(Clone, Copy)]
pub enum NumbersRef<'a> {
    /// f64.
    F64(&'a [f64]),
    /// f32.
    F32(&'a [f32]),
    /// f16.
    F16(&'a [f16]),
    /// bf16.
    BF16(&'a [bf16]),
}

/// Values of any format, to fill.
pub enum NumbersMut<'a> {
    /// f64.
    F64(&'a mut [f64]),
    /// f32.
    F32(&'a mut [f32]),
    /// f16.
    F16(&'a mut [f16]),
    /// bf16.
    BF16(&'a mut [bf16]),
}

/// Runs a body with the values of a [`NumbersRef`], compiled once for each format. For work on many values at a time.
macro_rules! with_numbers {
    ($numbers:expr, $x:ident => $body:expr) => {
        match $numbers {
            $crate::scalar::NumbersRef::F64($x) => $body,
            $crate::scalar::NumbersRef::F32($x) => $body,
            $crate::scalar::NumbersRef::F16($x) => $body,
            $crate::scalar::NumbersRef::BF16($x) => $body,
        }
    };
}
pub(crate) use with_numbers;

/// [`with_numbers`] for a vector that values of type `$s` are multiplied with. Nothing is compiled for formats that do not go with it.
macro_rules! with_vector_for {
    ($s:ty, $numbers:expr, $x:ident => $body:expr) => {{
        use $crate::scalar::{Number, NumbersRef, Precision};
        match $numbers {
            NumbersRef::F64($x) => $body,
            NumbersRef::F32($x) => $body,
            NumbersRef::F16($x) if const { <$s as Number>::PRECISION.goes_with(Precision::F16) } => $body,
            NumbersRef::BF16($x) if const { <$s as Number>::PRECISION.goes_with(Precision::BF16) } => $body,
            _ => unreachable!("values in {} with vectors in 16 bits", <$s as Number>::PRECISION.name()),
        }
    }};
}
pub(crate) use with_vector_for;

/// [`with_numbers`] for a [`NumbersMut`].
macro_rules! with_numbers_mut {
    ($numbers:expr, $x:ident => $body:expr) => {
        match $numbers {
            $crate::scalar::NumbersMut::F64($x) => $body,
            $crate::scalar::NumbersMut::F32($x) => $body,
            $crate::scalar::NumbersMut::F16($x) => $body,
            $crate::scalar::NumbersMut::BF16($x) => $body,
        }
    };
}
pub(crate) use with_numbers_mut;

impl NumbersRef<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        with_numbers!(*self, x => x.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A type that values are stored in, and converted from in registers.
pub trait Number: Element {
    /// The type of arithmetic on it, at least f32.
    type Wide: Scalar;
    /// The storage format.
    const PRECISION: Precision;
    /// Additive identity.
    const ZERO: Self;

    /// Nearest value of this type; for 16 bits that of the nearest f32.
    fn from_f64(value: f64) -> Self;
    /// Exact for every format.
    fn to_f64(self) -> f64;
    /// Exact.
    fn widen(self) -> Self::Wide;
    /// Nearest value of this type.
    fn narrow(value: Self::Wide) -> Self;
    /// Values of this type as those of any type.
    fn numbers(x: &[Self]) -> NumbersRef<'_>;
    /// Values of this type as those of any type, to fill.
    fn numbers_mut(x: &mut [Self]) -> NumbersMut<'_>;
    /// Values that are of this type.
    fn of_numbers(x: NumbersRef<'_>) -> Option<&[Self]>;
    /// Conversion in registers; the identity when the types are equal.
    #[inline(always)]
    fn cast<U: Number>(self) -> U {
        U::from_f64(self.to_f64())
    }
}

macro_rules! number {
    ($t:ident, $precision:ident, $zero:expr, $from:expr, $to:expr, $wide:ident, $widen:expr, $narrow:expr) => {
        impl Number for $t {
            type Wide = $wide;
            const PRECISION: Precision = Precision::$precision;
            const ZERO: Self = $zero;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                $to(self)
            }
            #[inline(always)]
            fn widen(self) -> $wide {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(value: $wide) -> Self {
                $narrow(value)
            }
            fn numbers(x: &[Self]) -> NumbersRef<'_> {
                NumbersRef::$precision(x)
            }
            fn numbers_mut(x: &mut [Self]) -> NumbersMut<'_> {
                NumbersMut::$precision(x)
            }
            fn of_numbers(x: NumbersRef<'_>) -> Option<&[Self]> {
                match x {
                    NumbersRef::$precision(x) => Some(x),
                    _ => None,
                }
            }
        }
    };
}

number!(f64, F64, 0.0, identity, identity, f64, identity, identity);
number!(f32, F32, 0.0, (|v: f64| v as f32), f64::from, f32, identity, identity);
// By way of f32, which processors convert and software converts alike.
number!(
    f16,
    F16,
    f16::ZERO,
    (|v: f64| narrow_f16(v as f32)),
    (|v| f64::from(widen_f16(v))),
    f32,
    widen_f16,
    narrow_f16
);
number!(
    bf16,
    BF16,
    bf16::ZERO,
    (|v: f64| narrow_bf16(v as f32)),
    (|v| f64::from(widen_bf16(v))),
    f32,
    widen_bf16,
    narrow_bf16
);

/// The same number in f32. Without calls and branches, so that loops over many are done in registers on any processor.
#[inline(always)]
fn widen_f16(value: f16) -> f32 {
    let bits = u32::from(value.to_bits());
    let size = (bits & 0x7FFF) << 13;
    // Exponents count from 15 there and from 127 here; those of infinity and NaN are the largest in both.
    let normal = size + (112 << 23) + if size >= 0x1F << 23 { 112 << 23 } else { 0 };
    // Subnormal numbers count multiples of 2^-24: behind a leading one they are the last bits of a number above 2^-14.
    let smallest = 113 << 23;
    let subnormal = (f32::from_bits(size + smallest) - f32::from_bits(smallest)).to_bits();
    f32::from_bits((bits & 0x8000) << 16 | if size < 1 << 23 { subnormal } else { normal })
}

/// The nearest number in f16, in the middle the even one. As [`widen_f16`] for many.
#[inline(always)]
fn narrow_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let size = bits & 0x7FFF_FFFF;
    // Just below half of the last bit that stays, and the rest of it where that bit is odd; a carry goes into the exponent.
    let normal = (size.wrapping_sub(112 << 23).wrapping_add(0xFFF + (size >> 13 & 1))) >> 13;
    // The last bit of numbers from 1/2 to 1 is 2^-24, which is what subnormal numbers count: the addition rounds.
    let subnormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let special = if size > 0x7F80_0000 { 0x7E00 } else { 0x7C00 };
    let narrow = if size < 113 << 23 { subnormal } else { normal };
    let narrow = if size >= 143 << 23 { special } else { narrow };
    f16::from_bits(((bits >> 16 & 0x8000) | narrow) as u16)
}

/// The same number in f32. As [`widen_f16`] for many.
#[inline(always)]
fn widen_bf16(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// The nearest number in bf16, in the middle the even one. As [`widen_f16`] for many.
#[inline(always)]
fn narrow_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    // A carry could make a NaN infinite: it stays one, with its sign.
    let nan = bits >> 16 | 0x40;
    bf16::from_bits(if bits & 0x7FFF_FFFF > 0x7F80_0000 { nan } else { nearest } as u16)
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

/// A real number type that algorithms compute in.
pub trait Scalar:
    Number<Wide = Self>
    + Display
    + PartialOrd
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
    /// Multiplicative identity.
    const ONE: Self;
    /// Distance from 1 to the next number.
    const EPSILON: Self;

    /// Absolute value.
    fn abs(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// A vector of this type as one of any type.
    fn slice_ref(x: &[Self]) -> SliceRef<'_>;
    /// A vector of this type as one of any type.
    fn slice_mut(x: &mut [Self]) -> SliceMut<'_>;
}

macro_rules! scalar {
    ($t:ident, $precision:ident) => {
        impl Scalar for $t {
            const ONE: Self = 1.0;
            const EPSILON: Self = $t::EPSILON;

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

/// Precision of the sums of a row if the result has 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// f32.
    Wide,
    /// The format of the result: rounded after each term.
    Rounded,
}

/// Runs a body once with a type alias bound to the Rust type of a run-time [`Precision`] that algorithms compute in.
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
            other => unreachable!("nothing computes in {}", other.name()),
        }
    };
}
pub(crate) use with_precision;

/// [`with_precision`] for every [`Precision`] in which values can be stored.
macro_rules! with_storage {
    ($precision:expr, $t:ident => $body:expr) => {
        match $precision {
            $crate::scalar::Precision::F16 => {
                type $t = half::f16;
                $body
            }
            $crate::scalar::Precision::BF16 => {
                type $t = half::bf16;
                $body
            }
            scalar => $crate::scalar::with_precision!(scalar, $t => $body),
        }
    };
}
pub(crate) use with_storage;

/// [`with_storage`] for values that are multiplied with vectors of type `$v`. Nothing is compiled for formats that do not go with it.
macro_rules! with_storage_for {
    ($precision:expr, $v:ty, $t:ident => $body:expr) => {
        $crate::scalar::with_storage!($precision, $t => {
            if const { <$t as $crate::scalar::Number>::PRECISION.goes_with(<$v as $crate::scalar::Number>::PRECISION) } {
                $body
            } else {
                $crate::scalar::not_paired::<$t, $v>()
            }
        })
    };
}
pub(crate) use with_storage_for;

/// Ends with the formats that do not go with each other.
#[cold]
pub(crate) fn not_paired<S: Number, V: Number>() -> ! {
    unreachable!("values in {} with vectors in {}", S::PRECISION.name(), V::PRECISION.name())
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Wider and back is the same number, and narrowing picks the nearest one.
        #[test]
        fn conversions_round_trip(bits in any::<u16>(), value in -7e4_f64..7e4) {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            if !h.is_nan() && !b.is_nan() {
                prop_assert_eq!((f16::narrow(h.widen()), bf16::narrow(b.widen())), (h, b));
                prop_assert_eq!((h.cast::<f64>().cast::<f16>(), b.cast::<f32>().cast::<bf16>()), (h, b));
            }
            let (h, b) = (f16::from_f64(value), bf16::from_f64(value));
            prop_assert!(!h.is_finite() || (h.to_f64() - value).abs() <= value.abs() / 2048.0 + 3e-8);
            prop_assert!((b.to_f64() - value).abs() <= value.abs() / 256.0);
        }
    }

    #[test]
    fn numbers_of_16_bits_are_converted_as_the_crate_half_does() {
        let same =
            |found: f32, expected: f32| found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(same(widen_f16(h), h.to_f32()) && same(widen_bf16(b), b.to_f32()), "{bits:#x}");
        }
        // Every number of 16 bits, those in the middle between two, and their neighbours.
        for bits in (0..=u32::MAX >> 12).flat_map(|high| [high << 12, (high << 12) + 1, (high << 12).wrapping_sub(1)]) {
            let value = f32::from_bits(bits);
            assert!(same(narrow_f16(value).to_f32(), f16::from_f32(value).to_f32()), "{bits:#x}");
            assert!(same(narrow_bf16(value).to_f32(), bf16::from_f32(value).to_f32()), "{bits:#x}");
        }
    }

    #[test]
    fn names_round_trip_and_casts_are_idempotent() {
        for &p in Precision::ALL {
            assert_eq!(Precision::from_name(p.name()), Some(p));
            assert_eq!(with_storage!(p, T => size_of::<T>()), p.bytes());
        }
        assert_eq!(Precision::from_name("f8"), None);
        let x = 0.1_f32;
        assert_eq!(x.cast::<f64>().cast::<f32>(), x);
    }
}
