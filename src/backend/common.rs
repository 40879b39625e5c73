//! What the implementations of a set-up step must agree on, so that all backends find the same hierarchy.

use crate::par;
use crate::scalar::Scalar;

/// Largest number of rows in a block.
pub const MAX_BLOCK: usize = 8;

/// Pivots of the elimination at or below this share of the largest entry, times n, are rounding.
pub const TINY: f64 = f64::EPSILON;

/// Pivots at or below this share of their own diagonal entry, times n and the rounding unit of the matrix, are rounding: the
/// row sums of a singular coarse matrix carry the rounding of all Galerkin products above it. Against the own entry, because
/// coefficients may differ by many orders of magnitude.
const ROUNDING: f64 = 16.0;

/// The bound of [`ROUNDING`] for a matrix of `n` rows.
pub fn rounding_bound<T: Scalar>(n: usize) -> f64 {
    ROUNDING * n as f64 * T::EPSILON.to_f64()
}

/// Scores that rise along a path are matched from its end, one pair in a round. After this many rounds the hash alone decides.
pub const SCORED_ROUNDS: usize = 15;

/// Rows that a mean over a matrix is taken from.
const SAMPLE: usize = 1 << 16;

/// How many rows a mean over a matrix is taken from, and how far apart they are.
pub fn sample(rows: usize) -> (usize, usize) {
    let step = rows.div_ceil(SAMPLE).max(1);
    (rows.div_ceil(step), step)
}

/// The mean of so many numbers, added in an order that depends on `count` alone.
pub fn mean(count: usize, number: impl Fn(usize) -> f64 + Sync) -> f64 {
    let total = par::sum(count, par::ROW_GRAIN, |range| range.map(&number).sum());
    total / count.max(1) as f64
}

/// Which coarse unknowns a row is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Ĉ_i.
    ExtendedI,
    /// C_i, and nothing is spread over i itself.
    ClassicalModified,
}
