//! Sums that do not depend on the order of their terms, after Demmel and Nguyen ("Parallel reproducible summation", 2015).
//!
//! Numbers are cut at multiples of 2^20 into parts of 20 bits. Bin k holds the parts of unit 2^(20 k). Parts of one bin are
//! added without rounding, so that any order gives the same sum. Of each sum the four highest bins are kept: an error of at
//! most 2^-60 of the largest term for each term, less than that of an ordinary sum.

/// Bits of a part.
const WIDTH: i32 = 20;

/// Parts of a number.
const PARTS: usize = 4;

/// The lowest bin of the highest part: below it are three more, whose units are still normal numbers.
const LOWEST: i32 = -47;

/// The highest bin: numbers of 2^979 and more count as infinite.
const HIGHEST: i32 = 48;

/// Terms that are cut together.
const CHUNK: usize = 512;

/// Terms that are added side by side.
const LANES: usize = 8;

/// A sum of at most 2^33 terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReproducibleSum {
    /// Bin of the first part; the lowest of all where there is none.
    top: i32,
    /// Sums of the parts, each a multiple of the unit of its bin.
    parts: [f64; PARTS],
    /// 0, infinity where a term was too large, or NaN where one was NaN.
    special: f64,
}

impl Default for ReproducibleSum {
    fn default() -> Self {
        ReproducibleSum { top: LOWEST, parts: [0.0; PARTS], special: 0.0 }
    }
}

/// The unit of a bin.
fn unit(bin: i32) -> f64 {
    2.0_f64.powi(WIDTH * bin)
}

/// The bin of the first part of a number other than zero: the lowest whose next unit is more than twice as large.
fn bin(size: f64) -> i32 {
    // The number is below 2^exponent.
    let exponent = (size.to_bits() >> 52) as i32 - 1022;
    ((exponent + 1 + WIDTH - 1).div_euclid(WIDTH) - 1).max(LOWEST)
}

impl ReproducibleSum {
    /// Numbers that it is sent as.
    pub const NUMBERS: usize = PARTS + 2;

    /// As numbers for another rank.
    pub fn to_numbers(self) -> [f64; Self::NUMBERS] {
        let [a, b, c, d] = self.parts;
        [f64::from(self.top), self.special, a, b, c, d]
    }

    /// Adds the sums of ranks, as [`ReproducibleSum::to_numbers`] made them.
    pub fn merge_all(&mut self, numbers: &[f64]) {
        for n in numbers.chunks_exact(Self::NUMBERS) {
            let parts = [n[2], n[3], n[4], n[5]];
            self.merge(&ReproducibleSum { top: n[0] as i32, parts, special: n[1] });
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ReproducibleSum) {
        if other.top > self.top {
            self.raise(other.top);
        }
        let lower = (self.top - other.top) as usize;
        for (k, part) in other.parts.iter().enumerate() {
            if k + lower < PARTS {
                self.parts[k + lower] += part;
            }
        }
        self.special = worse(self.special, other.special);
    }

    /// Makes a higher bin the first; the lowest parts are dropped.
    fn raise(&mut self, top: i32) {
        let by = (top - self.top) as usize;
        self.parts = std::array::from_fn(|k| if k >= by { self.parts[k - by] } else { 0.0 });
        self.top = top;
    }

    /// Adds products x_i y_i, each rounded once.
    pub fn add_products(&mut self, pairs: impl ExactSizeIterator<Item = (f64, f64)>) {
        let mut products = [0.0; CHUNK];
        let (mut pairs, mut left) = (pairs, 0);
        loop {
            let rest = pairs.len();
            let count = rest.min(CHUNK);
            products[..count].iter_mut().zip(&mut pairs).for_each(|(p, (x, y))| *p = x * y);
            self.add_chunk(&mut products[..count]);
            left += count;
            if rest <= CHUNK {
                debug_assert!(left < 1 << 33);
                return;
            }
        }
    }

    /// Adds numbers, which are overwritten.
    fn add_chunk(&mut self, numbers: &mut [f64]) {
        let largest = numbers.iter().fold(0, |largest, x| largest.max(x.abs().to_bits()));
        if largest == 0 {
            return;
        }
        let size = f64::from_bits(largest);
        let top = if size.is_finite() { bin(size) } else { HIGHEST + 1 };
        if top > HIGHEST {
            self.special = worse(self.special, if size.is_nan() { f64::NAN } else { f64::INFINITY });
            return;
        }
        if top > self.top {
            self.raise(top);
        }
        for (k, part) in self.parts.iter_mut().enumerate() {
            // Adding this number rounds away the bits below the unit.
            let shift = 1.5 * 2.0_f64.powi(52) * unit(self.top - k as i32);
            let mut lanes = [0.0; LANES];
            for chunk in numbers.chunks_mut(LANES) {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    let high = (*x + shift) - shift;
                    *lane += high;
                    *x -= high;
                }
            }
            *part += lanes.iter().sum::<f64>();
        }
    }

    /// The sum, rounded.
    pub fn value(&self) -> f64 {
        if self.special != 0.0 {
            return self.special;
        }
        self.parts.iter().fold(0.0, |sum, part| sum + part)
    }
}

/// NaN before infinity before 0.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::hash::hash;

    /// Numbers of any sign with exponents in a range.
    fn numbers(n: usize, exponents: i32) -> Vec<f64> {
        let number = |i: usize| {
            let mantissa = hash(i, 1) as i64 as f64 / i64::MAX as f64;
            mantissa * 2.0_f64.powi((hash(i, 2) % exponents as u64) as i32 - exponents / 2)
        };
        (0..n).map(number).collect()
    }

    fn sum_of(x: &[f64]) -> ReproducibleSum {
        let mut sum = ReproducibleSum::default();
        sum.add_products(x.iter().map(|x| (*x, 1.0)));
        sum
    }

    /// The sum with Shewchuk's expansions, which lose nothing.
    fn exact(x: &[f64]) -> f64 {
        let mut expansion: Vec<f64> = Vec::new();
        for x in x {
            let (mut carry, mut next) = (*x, Vec::new());
            for e in expansion {
                let total = carry + e;
                let virtual_part = total - carry;
                let error = (carry - (total - virtual_part)) + (e - virtual_part);
                if error != 0.0 {
                    next.push(error);
                }
                carry = total;
            }
            next.push(carry);
            expansion = next;
        }
        expansion.iter().sum()
    }

    #[test]
    fn any_order_and_any_division_give_the_same_bits() {
        for exponents in [1, 40, 200, 1800] {
            let x = numbers(5000, exponents);
            let all = sum_of(&x);
            let mut reversed = x.clone();
            reversed.reverse();
            assert_eq!(sum_of(&reversed), all);
            for pieces in [2, 3, 7, 999] {
                let mut merged = ReproducibleSum::default();
                for piece in x.chunks(x.len().div_ceil(pieces)).rev() {
                    merged.merge_all(&sum_of(piece).to_numbers());
                }
                assert_eq!(merged.value().to_bits(), all.value().to_bits(), "{exponents} {pieces}");
            }
        }
    }

    #[test]
    fn it_is_as_accurate_as_an_ordinary_sum() {
        for exponents in [1, 40, 200] {
            let x = numbers(3000, exponents);
            let largest = x.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let off = (sum_of(&x).value() - exact(&x)).abs();
            assert!(off <= 1e-15 * largest + f64::EPSILON * exact(&x).abs(), "{exponents}: {off}");
        }
        assert_eq!(sum_of(&[]).value(), 0.0);
        assert_eq!(sum_of(&[1e290, -1e290, 0.0, 2.5]).value(), 0.0);
        assert_eq!(sum_of(&[3.0, 2.5, -1.25]).value(), 4.25);
        assert_eq!(sum_of(&[1e-250, 2e-250]).value(), 3e-250);
    }

    #[test]
    fn numbers_that_cannot_be_added_are_told() {
        assert_eq!(sum_of(&[1.0, 1e305, -1e305]).value(), f64::INFINITY);
        assert!(sum_of(&[f64::INFINITY, f64::NAN, 1.0]).value().is_nan());
        assert!(sum_of(&[1.0, f64::NAN]).value().is_nan());
    }
}
