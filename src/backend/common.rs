//! Parameters on which the backends must agree, so that they compute the same hierarchy.

use crate::comm::Numbering;
use crate::error::{Result, fail, try_collect};
use crate::hash::hash;
use crate::par;
use crate::scalar::{Precision, Scalar};
use crate::sparse::Grid;

/// Largest number of rows in a block.
pub const MAX_BLOCK: usize = 8;

/// Longest row of a prolongator that is filtered, in blocks: each of them is compared with all others.
pub(crate) const MAX_FILTERED: usize = 512;

/// Largest change of a vector of the near-null space by a filtered row, in relation to the sizes of what the row adds up. As in
/// `kernels/filtered.cu`.
pub(crate) const MAX_UNCORRECTED: f64 = 1e-8;

/// Largest correction of a filtered row, by the squares of its values and of those of the row. Where few entries are left that hardly span the vectors,
/// it would be larger than the row. As in `kernels/filtered.cu`.
pub(crate) const MAX_CORRECTION: f64 = 1.0;

/// Units of the shares of couplings that have the sign of the diagonal, which are added as integers: their order does not matter.
pub(crate) const SHARES: i64 = 1 << 20;

/// The largest coupling in relation to the diagonal that counts for them.
pub(crate) const LARGEST_RATIO: f64 = 16.0;

/// Units of such couplings. A sum of 2^20 of them times [`SHARES`] is below 2^63.
pub(crate) const RATIO_UNITS: f64 = 65536.0;

/// Pivots of the elimination at or below this share of the largest entry, times n, are rounding.
pub const TINY: f64 = f64::EPSILON;

/// Pivots at or below this share of their own diagonal entry, times n and the rounding unit of the matrix, are
/// rounding: the row sums of a singular coarse matrix carry the rounding of all Galerkin products above it. Against the
/// own entry, because coefficients may differ by many orders of magnitude.
const ROUNDING: f64 = 16.0;

/// The bound of [`ROUNDING`] for a matrix of `n` rows.
pub fn rounding_bound<T: Scalar>(n: usize) -> f64 {
    ROUNDING * n as f64 * T::EPSILON.to_f64()
}

/// Scores that ascend along a path are matched from its end, one pair in a round. After so many rounds the hash alone
/// decides.
pub const SCORED_ROUNDS: usize = 15;

/// `n` random numbers between -1 and 1: hashes of an index that begins with `first`, and of a seed.
pub fn random_numbers<T: Scalar>(first: usize, n: usize, seed: u64) -> Result<Vec<T>> {
    try_collect((first..first + n).map(|i| T::from_f64(hash(i, seed) as i64 as f64 / i64::MAX as f64)))
}

/// Seed of the random vectors that tell whether a matrix is symmetric.
pub const SYMMETRY_SEED: u32 = 0x9e37_79b9;

/// Scalar rows of a large matrix are measured in chunks of so many, of which some are in the sample. As in
/// `kernels/rounding_loss.cu`.
pub const SAMPLE_CHUNK: usize = 64;

/// At most one chunk in so many is in the sample, a power of two.
const LEAST_DISTANCE: usize = 16;

/// A sample has up to so many rows, and at least half of them.
const SAMPLED_ROWS: usize = 1 << 17;

/// Up to so many rows all are in the sample.
const SAMPLED_WHOLE: usize = 1 << 13;

/// Seed of the choice of chunks.
const SAMPLE_SEED: u64 = 6;

/// Whether a chunk of a matrix with so many scalar rows is in the sample that rounding losses are measured in. One chunk
/// in a power of two is: a device asks for every row, and would take long for a remainder by another number.
pub fn is_sampled(chunk: usize, rows: usize) -> bool {
    let distance = LEAST_DISTANCE.max(rows / SAMPLED_ROWS).next_power_of_two() as u64;
    rows <= SAMPLED_WHOLE || hash(chunk, SAMPLE_SEED).is_multiple_of(distance)
}

/// What one pass over a square matrix tells about its symmetry. The weights w_ij = x_i y_j - y_i x_j are those of random
/// vectors x and y.
#[derive(Clone, Copy, Debug, Default)]
pub struct Symmetry {
    /// The sum of a_ij w_ij, which is x·A y - y·A x.
    pub difference: f64,
    /// The sum of the squares of its terms.
    pub squares: f64,
    /// Positive entries of the diagonal.
    pub positive: u64,
    /// Negative ones.
    pub negative: u64,
}

impl Symmetry {
    /// Both sums.
    pub fn plus(self, other: Symmetry) -> Symmetry {
        Symmetry {
            difference: self.difference + other.difference,
            squares: self.squares + other.squares,
            positive: self.positive + other.positive,
            negative: self.negative + other.negative,
        }
    }

    /// Whether A - Aᵀ is no more than what rounding leaves when a matrix with values of type `T` is assembled.
    pub fn is_symmetric<T: Scalar>(&self) -> bool {
        let share = if T::PRECISION == Precision::F64 { 1e-10 } else { 1e-4 };
        self.difference.abs() <= share * self.squares.sqrt()
    }

    /// Whether a matrix with values in this format is symmetric, but for rounding.
    pub fn is_symmetric_in(&self, precision: Precision) -> bool {
        match precision {
            Precision::F32 => self.is_symmetric::<f32>(),
            _ => self.is_symmetric::<f64>(),
        }
    }

    /// Whether all of the diagonal is negative.
    pub fn is_negative(&self) -> bool {
        self.negative > 0 && self.positive == 0
    }
}

/// Rows of a sample for a mean over a matrix.
const SAMPLE: usize = 1 << 16;

/// Number of sampled rows, and their distance. It is odd: on a grid whose lines have a power of two of points, an even one may find
/// the same place in every line.
pub fn sample(rows: usize) -> (usize, usize) {
    let step = rows.div_ceil(SAMPLE) | 1;
    (rows.div_ceil(step), step)
}

/// The rows of an even sample that are here.
pub(crate) struct Sampled {
    /// How many.
    pub count: usize,
    pub first: usize,
    pub step: usize,
    /// Of all ranks.
    pub all: usize,
}

impl Sampled {
    /// Of a whole matrix.
    pub fn of(rows: usize) -> Sampled {
        let (count, step) = sample(rows);
        Sampled { count, first: 0, step, all: count }
    }

    /// Of the rows of this rank, by their local numbers.
    pub fn of_ranks(numbers: &Numbering) -> Sampled {
        let (all, step) = sample(numbers.total);
        let own = &numbers.own;
        let sampled = own.start.div_ceil(step)..own.end.div_ceil(step);
        let first = numbers.inside().start + (sampled.start * step).saturating_sub(own.start);
        Sampled { count: sampled.len(), first, step, all }
    }

    /// A sampled row.
    pub fn row(&self, k: usize) -> usize {
        self.first + k * self.step
    }
}

/// Steps in which unknowns join aggregates: distance 1, then 2; a third one only matters where the graph is not symmetric.
pub const AGGREGATE_JOINS: usize = 3;

/// The mean of `count` numbers, added in an order that depends on `count` alone.
pub fn mean(count: usize, number: impl Fn(usize) -> f64 + Sync) -> f64 {
    let total = par::sum(count, par::ROW_GRAIN, |range| range.map(&number).sum());
    total / count.max(1) as f64
}

/// The coarse unknowns of a row of the interpolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Ĉ_i.
    ExtendedI,
    /// C_i; nothing is distributed to i itself.
    ClassicalModified,
}

/// A formula for the weights of interpolation on structured grids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridWeights {
    /// One, from the coarse cell that a fine one belongs to.
    Constant,
    /// Of the two coarse cells beside a fine one, a half each; one where there is only one.
    Linear,
    /// By the equation of the fine cell.
    BlackBox,
}

impl GridWeights {
    /// A sum of entries that is smaller than this share of their sizes is rounding.
    pub fn rounding<T: Scalar>() -> f64 {
        if T::PRECISION == Precision::F64 { 1e-13 } else { 1e-5 }
    }
}

/// Names of the axes.
const AXIS_NAMES: [&str; 3] = ["x", "y", "z"];

/// Names of choices of axes, as the options spell them; `auto` is beside them.
pub const AXES: &[&str] = &["x", "y", "z", "xy", "xz", "yz", "xyz"];

/// Couplings along two axes that differ by less than this share are equal but for rounding.
const EQUAL: f64 = 1e-6;

/// The axes of the lines of line relaxation: those of a name, or the one with the strongest couplings that has more than one cell and is not
/// periodic. Of equal ones it is the last, so that neighbouring lines are neighbours in memory.
pub fn line_axes(grid: &Grid, name: &str, couplings: impl FnOnce() -> Result<[f64; 3]>) -> Result<[bool; 3]> {
    let [nx, ny, nz] = grid.dims;
    let named: [bool; 3] = std::array::from_fn(|axis| name != "auto" && name.contains(AXIS_NAMES[axis]));
    if let Some(axis) = (0..3).find(|axis| named[*axis] && grid.periodic[*axis]) {
        return fail!(
            OptionValue,
            "amg.smoother.line.axis is \"{name}\", and the grid of {nx} x {ny} x {nz} cells is periodic along {}; accepted: axes that are not",
            AXIS_NAMES[axis]
        );
    }
    if named != [false; 3] {
        return Ok(named);
    }
    let open = |axis: &usize| !grid.periodic[*axis];
    let Some(last) = (0..3).rev().find(open) else {
        return fail!(
            OptionValue,
            "amg.smoother.type is \"line\", and the grid of {nx} x {ny} x {nz} cells is periodic along all axes; accepted: grids with an axis \
             that is not periodic"
        );
    };
    let couplings = couplings()?;
    let possible = || (0..3).filter(open).filter(|axis| grid.dims[*axis] > 1);
    let strongest = possible().map(|axis| couplings[axis]).fold(0.0, f64::max);
    let found = possible().rev().find(|axis| couplings[*axis] >= (1.0 - EQUAL) * strongest).unwrap_or(last);
    Ok(std::array::from_fn(|axis| axis == found))
}

/// The axes of a name, or those with couplings of at least `threshold` times the strongest. An axis of one cell is never among them, nor is a
/// periodic one of two. With `lines` for line relaxation, the axes of the lines are among them, and the others are compared with each other: errors
/// along lines are smooth however strong their couplings are.
pub fn strong_axes(
    grid: &Grid,
    name: &str,
    (threshold, lines): (f64, Option<&str>),
    couplings: impl FnOnce() -> Result<[f64; 3]>,
) -> Result<[bool; 3]> {
    let possible = |axis: usize| grid.dims[axis] > if grid.periodic[axis] { 2 } else { 1 };
    if name != "auto" {
        return Ok(std::array::from_fn(|axis| possible(axis) && name.contains(AXIS_NAMES[axis])));
    }
    let couplings = couplings()?;
    let in_lines = lines.map_or(Ok([false; 3]), |name| line_axes(grid, name, || Ok(couplings)))?;
    let others = (0..3).filter(|axis| possible(*axis) && !in_lines[*axis]);
    let strongest = others.map(|axis| couplings[axis]).fold(0.0, f64::max);
    Ok(std::array::from_fn(|axis| possible(axis) && (in_lines[axis] || couplings[axis] >= threshold * strongest)))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_all_places_of_a_line() {
        for n in [32, 64, 128, 256] {
            let (count, step) = sample(n * n * n);
            assert!(count <= SAMPLE && (count - 1) * step < n * n * n);
            let found: std::collections::BTreeSet<usize> = (0..count).map(|k| k * step % n).collect();
            assert_eq!(found.len(), n);
        }
        assert_eq!((sample(0), sample(7)), ((0, 1), (7, 1)));
    }
}
