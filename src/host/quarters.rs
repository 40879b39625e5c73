//! Sums in an order that the lanes of a GPU can follow, so that it gives the same bits.

use crate::scalar::Scalar;

/// A sum in four parts, of every fourth term each.
#[derive(Clone, Copy)]
pub struct Quarters<T>([T; 4]);

impl<T: Scalar> Quarters<T> {
    /// Of nothing.
    pub const ZERO: Quarters<T> = Quarters([T::ZERO; 4]);

    /// Term number `at`.
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
