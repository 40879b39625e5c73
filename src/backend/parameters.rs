//! Parameters of components and of set-up steps, as plain values. Components read those of their own by name.

use crate::error::{Result, fail, try_vec};
use crate::sparse::Block;

/// Named parameters, by the keys of the options table, which has checked them.
pub trait Parameters: Sync {
    /// A whole number.
    fn int(&self, key: &str) -> usize;
    /// A real number.
    fn real(&self, key: &str) -> f64;
    /// A real number, or none where it is left to the library.
    fn real_or_auto(&self, key: &str) -> Option<f64>;
    /// A name.
    fn text(&self, key: &str) -> String;
}

/// The threshold of a measure that compares couplings with those of both unknowns.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// This one.
    Given(f64),
    /// The highest that leaves a row so many strong couplings on average.
    Connections(usize),
}

/// Candidates for a threshold, from 1 down to 2^-12 in quarters of a power of two.
const THRESHOLDS: usize = 49;

impl Threshold {
    /// The one that the options name, if they do.
    pub fn named(parameters: &dyn Parameters) -> Result<Option<Threshold>> {
        match (parameters.int("amg.strength.connections"), parameters.real_or_auto("amg.strength.threshold")) {
            (0, theta) => Ok(theta.map(Threshold::Given)),
            (connections, None) => Ok(Some(Threshold::Connections(connections))),
            (_, Some(_)) => fail!(
                OptionValue,
                "amg.strength.threshold and amg.strength.connections cannot both be given: one follows from the other"
            ),
        }
    }

    /// Its value, by the mean number of couplings of a row that are strong by some threshold: the same on all backends.
    pub(crate) fn value(self, mean_strong: &dyn Fn(f64) -> Result<f64>) -> Result<f64> {
        let wanted = match self {
            Threshold::Given(theta) => return Ok(theta),
            Threshold::Connections(wanted) => wanted as f64,
        };
        let candidate = |k: usize| (-0.25 * k as f64).exp2();
        let (mut first, mut end) = (0, THRESHOLDS);
        while first < end {
            let middle = usize::midpoint(first, end);
            match mean_strong(candidate(middle))? >= wanted {
                true => end = middle,
                false => first = middle + 1,
            }
        }
        // A row may have fewer couplings than that.
        Ok(if first < THRESHOLDS { candidate(first) } else { 0.0 })
    }

    /// The threshold of the symmetric measure on level `level`, of which `scale` is the mean of the strongest couplings. Smoothed coarse operators spread their
    /// couplings over more neighbours; so do wide stencils, whose couplings are all small, and none of which may be lost for that.
    pub(crate) fn usual(block: Block, level: usize, scale: f64) -> f64 {
        let scalar = 0.08 * 0.5_f64.powi(level as i32);
        let usual = if block == Block::SCALAR { scalar } else { 0.04 };
        usual.min(0.5 * scale)
    }
}

/// What is kept of a row of a prolongator.
#[derive(Clone, Copy, Debug)]
pub struct Truncation {
    /// Most entries; 0 keeps all.
    pub max_entries: usize,
    /// Entries below this share of the largest are dropped.
    pub factor: f64,
    /// Which of equal weights stay.
    pub ties: Ties,
}

impl Truncation {
    /// With mixed ties.
    pub const fn new(max_entries: usize, factor: f64) -> Truncation {
        Truncation { max_entries, factor, ties: Ties::Mixed }
    }
}

/// Which of equal weights stay where not all can. Grids have rows of equal weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Those whose columns come first in a mixed order, the only one that devices have. Where coarse unknowns are
    /// chosen at random and always the ones with small columns stayed, all of an interpolation would lean to one side,
    /// which costs two of 24 iterations on a grid of 256^3 points.
    Mixed,
    /// Those with the smallest columns: where coarse unknowns lie in a regular pattern, so do these.
    Smallest,
}

/// Most unknown functions of a system.
pub const MAX_FUNCTIONS: usize = 64;

/// How a largest eigenvalue is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// By Lanczos steps, otherwise by power steps.
    pub lanczos: bool,
    /// How many.
    pub steps: usize,
}

impl Estimate {
    /// Names of the methods, as the options spell them.
    pub const METHODS: &[&str] = &["lanczos", "power"];

    /// What the parameters name.
    pub fn new(parameters: &dyn Parameters) -> Estimate {
        Estimate {
            lanczos: parameters.text("amg.eigenvalue.method") == "lanczos",
            steps: parameters.int("amg.eigenvalue.steps"),
        }
    }
}

/// The polynomial of the steps of energy minimisation damps eigenvalues of D^-1 A from the largest down to the largest over
/// this.
const ENERGY_RATIO: f64 = 8.0;

/// The weights of these steps: inverses of the roots of a Chebyshev polynomial. None where the largest eigenvalue is zero.
pub fn energy_weights(steps: usize, largest: f64) -> Result<Vec<f64>> {
    let mut weights = try_vec(if largest > 0.0 { steps } else { 0 }, 0.0)?;
    let (centre, half) = (0.5 * (1.0 + 1.0 / ENERGY_RATIO), 0.5 * (1.0 - 1.0 / ENERGY_RATIO));
    for (k, weight) in weights.iter_mut().enumerate() {
        let angle = std::f64::consts::PI * (2 * k + 1) as f64 / (2 * steps) as f64;
        *weight = 1.0 / (largest * (centre + half * angle.cos()));
    }
    Ok(weights)
}
