//! Storage in narrow formats: bounds of scaling to 16 bits for all backends, and errors for values out of range.

use crate::error::{Result, fail};
use crate::scalar::{Number, Precision, Scalar};

/// Scaled diagonals are between half and twice 4 to this power, unless a row is far from diagonally dominant: large enough that entries 2^-24
/// times the diagonal are normal numbers of f16, small enough that the inverse of the diagonal is one, too.
pub(crate) const LIFT: i32 = 5;

/// Scaled entries stay below this power of two, half of what f16 can hold.
const HIGHEST: f64 = 15.0;

/// An entry this many times the geometric mean of its diagonals makes the diagonal a bad measure of its row.
pub(crate) const FAR_ABOVE: f64 = 1024.0;

/// That row `i` has no positive diagonal to be scaled by.
pub(crate) fn not_by_diagonal<R>(i: usize) -> Result<R> {
    fail!(
        PrecisionLost,
        "row {i} cannot be scaled by its diagonal for 16-bit storage, which is not positive or beyond the range of f64; \
         set precision.scaling to \"equilibrate\", or store this level in f32"
    )
}

/// The error for row `i`, which cannot be scaled.
pub(crate) fn beyond_range<R>(i: usize) -> Result<R> {
    fail!(
        PrecisionLost,
        "row {i} cannot be scaled for 16-bit storage, its entries are beyond the range of f64; store this level in f32"
    )
}

/// A power of two between the smallest and the largest factor, refused when f32 cannot hold it over all of them.
pub(crate) fn middle_of(low: f64, high: f64) -> Result<f64> {
    let middle = (0.5 * (low.log2() + high.log2())).round().exp2();
    if [low, high].iter().any(|s| !((middle / s) as f32).is_normal()) {
        return fail!(
            PrecisionLost,
            "level 0: diagonals from {low:.1e} to {high:.1e}, squared, are too far apart for 16-bit storage; store it in f32"
        );
    }
    Ok(middle)
}

/// What all matrices of a hierarchy are multiplied by before they are scaled, given an entry of the finest outside of its diagonal. Then
/// that entry is a power of two, and what is rounded to 16 bits is the same in all units. Entries that are small whole multiples of it are not
/// rounded at all.
pub(crate) fn unit_of(largest: f64) -> f64 {
    if !largest.is_normal() {
        return 1.0;
    }
    let (mantissa, one) = (largest.to_bits() & ((1 << 52) - 1), 1.0_f64.to_bits());
    1.0 / f64::from_bits(one | mantissa)
}

/// What factors are multiplied by, so that scaled entries, of which the largest is `largest`, become larger.
pub(crate) fn lift_of(largest: f64) -> f64 {
    let lift = LIFT.min(((HIGHEST - largest.max(1.0).log2()) / 2.0).floor() as i32);
    f64::from(-lift).exp2()
}

/// An error if format `S` does not hold a matrix: counts of all entries, of those that overflow, and of those that underflow, which may be
/// any number where they `may_vanish`.
pub(crate) fn check_lost<S: Number>(
    what: &str,
    may_vanish: bool,
    entries: usize,
    (too_large, vanished): (u64, u64),
) -> Result<()> {
    // Small entries may vanish beside large ones; where most do, the format is the wrong one.
    if too_large > 0 || (!may_vanish && vanished > entries as u64 / 2) {
        return fail!(
            PrecisionLost,
            "of {entries} entries of the {what}, {too_large} are too large for {} and {vanished} too small; \
             use precision.scaling \"diagonal\", or store this level in f32",
            S::PRECISION.name()
        );
    }
    Ok(())
}

/// What errors call the matrix of a level, unlike its grid transfers.
pub(crate) const MATRIX: &str = "matrix";

/// Whether a number is too small for format `S` when it is stored as this: zero, or subnormal in f32, of which nothing is left when it is
/// inverted.
pub(crate) fn is_too_small<S: Number>(stored: S) -> bool {
    match S::PRECISION {
        Precision::F32 => stored.to_f64().abs() < f64::from(f32::MIN_POSITIVE),
        _ => stored == S::ZERO,
    }
}

/// Whether values of type `T` can be out of range of format `S`.
pub(crate) const fn is_narrower<T: Scalar, S: Number>() -> bool {
    !matches!((T::PRECISION, S::PRECISION), (_, Precision::F64) | (Precision::F32, Precision::F32))
}

/// An error if f32 does not hold a matrix: counts of all entries, of those that overflow, of those that underflow, and of rows of which all
/// do, where that is counted.
pub(crate) fn check_lost_in_f32(what: &str, entries: usize, [too_large, vanished, rows]: [u64; 3]) -> Result<()> {
    if too_large > 0 || rows > 0 || vanished > entries as u64 / 2 {
        let whole = if rows > 0 { format!(", among them all of {rows} rows") } else { String::new() };
        return fail!(
            PrecisionLost,
            "of {entries} entries of the {what}, {too_large} are too large for f32 and {vanished} too small{whole}; store this level in \
             f64, or use other units"
        );
    }
    Ok(())
}

/// What is smaller than the rounding of the largest number in f16 is no loss.
pub(crate) const MATTERS: f64 = 1.0 / 2048.0;

/// That format `S` cannot hold the data of a smoother.
pub(crate) fn does_not_fit<S: Number, R>() -> Result<R> {
    if S::PRECISION == Precision::F32 {
        return fail!(
            PrecisionLost,
            "the inverse of a diagonal, or of the coarsest matrix, does not fit into f32; store this level in f64, or use other units"
        );
    }
    fail!(
        PrecisionLost,
        "the inverse of a diagonal does not fit into {}; use precision.scaling \"diagonal\", or store the smoother in f32",
        S::PRECISION.name()
    )
}
