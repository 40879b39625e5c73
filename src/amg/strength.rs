//! Which couplings of a matrix count as strong: the graph that coarsening and interpolation walk on.

use crate::config::Config;
use crate::error::{Result, fail};
use crate::host;
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView, Graph};

/// Names of the measures.
pub const NAMES: &[&str] = &["classical", "absolute", "symmetric"];

/// A measure with its parameters.
pub(crate) enum Measure {
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
    Symmetric {
        /// Share; where it is not given it follows from the level and the matrix.
        theta: Option<f64>,
    },
}

impl Measure {
    /// The one that the options name, or else `default`, for a matrix in these blocks.
    pub fn new(config: &Config, default: &str, block: Block) -> Result<Measure> {
        let name = config.choice("amg.strength.type").unwrap_or(default.to_string());
        let theta = config.real_or_auto("amg.strength.threshold");
        Ok(match name.as_str() {
            "classical" if block != Block::SCALAR => {
                return fail!(
                    Unsupported,
                    "amg.strength.type \"classical\" needs a scalar matrix; use \"absolute\" or \"symmetric\" for blocks"
                );
            }
            "classical" => Measure::Classical {
                theta: theta.unwrap_or(0.25),
                max_row_sum: config.real("amg.strength.max_row_sum"),
            },
            "absolute" => Measure::Absolute { theta: theta.unwrap_or(0.25) },
            _ => Measure::Symmetric { theta },
        })
    }

    /// The threshold of the symmetric measure on level `level`, of which `scale` is the mean of the strongest couplings. Smoothed coarse
    /// operators spread their couplings over more neighbours; so do wide stencils, whose couplings are all small, and none of which may be
    /// lost for that.
    pub fn symmetric_threshold(block: Block, level: usize, scale: f64) -> f64 {
        let scalar = 0.08 * 0.5_f64.powi(level as i32);
        let usual = if block == Block::SCALAR { scalar } else { 0.04 };
        usual.min(0.5 * scale)
    }
}

/// The graph of `a`, the matrix of level `level`, by the measure that the options name, or else by `default`.
pub(crate) fn build<T: Scalar>(config: &Config, default: &str, a: &CsrView<'_, T>, level: usize) -> Result<Graph> {
    match Measure::new(config, default, a.block)? {
        Measure::Classical { theta, max_row_sum } => host::strength::classical(a, theta, max_row_sum),
        Measure::Absolute { theta } => host::strength::absolute(a, theta),
        Measure::Symmetric { theta } => {
            let measure = host::strength::Symmetric::new(a)?;
            let threshold = |scale| Measure::symmetric_threshold(a.block, level, scale);
            measure.graph(theta.unwrap_or_else(|| threshold(measure.scale())))
        }
    }
}
