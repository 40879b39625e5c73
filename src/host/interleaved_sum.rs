//! Sums in an order that the lanes of a GPU can follow with the same bits.

use crate::scalar::Scalar;

/// A sum in four interleaved parts: part p adds terms p, p + 4, p + 8, and so on.
#[derive(Clone, Copy)]
pub struct InterleavedSum<T>([T; 4]);

impl<T: Scalar> InterleavedSum<T> {
    /// The empty sum.
    pub const ZERO: InterleavedSum<T> = InterleavedSum([T::ZERO; 4]);

    /// Adds term number `at`.
    #[inline(always)]
    pub fn add(&mut self, at: usize, value: T) {
        self.0[at % 4] += value;
    }

    /// The sum.
    pub fn sum(self) -> T {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }
}
