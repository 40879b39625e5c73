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

/// A measure of strength of connection with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum StrengthMeasure {
    /// Signed, relative to the strongest coupling of the row.
    Classical {
        /// Share of the strongest.
        theta: f64,
        /// Rows that are dominant beyond this have none.
        max_row_sum: f64,
    },
    /// Absolute values, relative to the strongest of the row.
    Absolute {
        /// Share of the strongest.
        theta: f64,
    },
    /// Relative to both diagonals.
    Symmetric(Threshold),
}

/// The threshold of the symmetric measure.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// This one.
    Given(f64),
    /// By the level and the strongest couplings.
    Usual,
    /// The highest that leaves a row so many strong couplings on average.
    Connections(usize),
}

/// The symmetric measure of one matrix.
pub(crate) trait SymmetricMeasure {
    /// Mean over the rows of the strongest coupling.
    fn scale(&self) -> Result<f64>;
    /// Mean over a sample of the rows of the number of couplings that are strong by this threshold. The same on all backends.
    fn mean_strong(&self, theta: f64) -> Result<f64>;
}

/// Candidates for a threshold, from 1 down to 2^-12 in quarters of a power of two.
const THRESHOLDS: usize = 49;

impl Threshold {
    /// Its value for a matrix in these blocks.
    pub(crate) fn value(self, block: Block, level: usize, measure: &dyn SymmetricMeasure) -> Result<f64> {
        match self {
            Threshold::Given(theta) => Ok(theta),
            Threshold::Usual => Ok(Threshold::usual(block, level, measure.scale()?)),
            Threshold::Connections(wanted) => {
                let candidate = |k: usize| (-0.25 * k as f64).exp2();
                let (mut first, mut end) = (0, THRESHOLDS);
                while first < end {
                    let middle = usize::midpoint(first, end);
                    match measure.mean_strong(candidate(middle))? >= wanted as f64 {
                        true => end = middle,
                        false => first = middle + 1,
                    }
                }
                // A row may have fewer couplings than that.
                Ok(if first < THRESHOLDS { candidate(first) } else { 0.0 })
            }
        }
    }

    /// The threshold on level `level`, of which `scale` is the mean of the strongest couplings. Smoothed coarse operators spread their
    /// couplings over more neighbours; so do wide stencils, whose couplings are all small, and none of which may be lost for that.
    fn usual(block: Block, level: usize, scale: f64) -> f64 {
        let scalar = 0.08 * 0.5_f64.powi(level as i32);
        let usual = if block == Block::SCALAR { scalar } else { 0.04 };
        usual.min(0.5 * scale)
    }
}

impl StrengthMeasure {
    /// Names of the measures, as the options spell them.
    pub const NAMES: &[&str] = &["classical", "absolute", "symmetric"];

    /// The one of this name, for a matrix in these blocks.
    pub fn new(name: &str, parameters: &dyn Parameters, block: Block) -> Result<StrengthMeasure> {
        let theta = parameters.real_or_auto("amg.strength.threshold");
        let connections = parameters.int("amg.strength.connections");
        if connections > 0 && name != "symmetric" {
            return fail!(
                OptionValue,
                "amg.strength.connections needs the symmetric measure, and amg.strength.type is \"{name}\"; use \"symmetric\", or \
                 amg.strength.connections 0"
            );
        }
        Ok(match name {
            "classical" if block != Block::SCALAR => {
                return fail!(
                    Unsupported,
                    "amg.strength.type \"classical\" needs a scalar matrix; use \"absolute\" or \"symmetric\" for blocks"
                );
            }
            "classical" => StrengthMeasure::Classical {
                theta: theta.unwrap_or(0.25),
                max_row_sum: parameters.real("amg.strength.max_row_sum"),
            },
            "absolute" => StrengthMeasure::Absolute { theta: theta.unwrap_or(0.25) },
            _ => StrengthMeasure::Symmetric(match (connections, theta) {
                (0, Some(theta)) => Threshold::Given(theta),
                (0, None) => Threshold::Usual,
                (connections, None) => Threshold::Connections(connections),
                (_, Some(_)) => {
                    return fail!(
                        OptionValue,
                        "amg.strength.threshold and amg.strength.connections cannot both be given: one follows from the other"
                    );
                }
            }),
        })
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
