//! Rules of least-squares interpolation on which the backends must agree.

use super::parameters::Parameters;
use crate::error::{Result, fail};

/// The reach of a fine unknown whose fit fails at every distance. It becomes a coarse one.
pub const JOINS: u8 = u8::MAX;

/// What is added to the diagonal of the normal equations, after they are scaled to ones there: they may be singular. As in
/// `kernels/least_squares.cu`, like the number of refinements.
pub const RIDGE: f64 = 1e-10;

/// How often the solution of the normal equations is refined, which takes out what the ridge changes.
pub const REFINEMENTS: usize = 2;

/// When the fit of a row is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The least distance along strong couplings from which coarse unknowns are taken.
    pub nearest: u8,
    /// The largest.
    pub farthest: u8,
    /// Largest residual of each vector, in relation to its largest value on the row and its coarse unknowns.
    pub tolerance: f64,
    /// Largest 2-norm of the weights.
    pub norm: f64,
}

impl Rules {
    /// Those that the options name.
    pub fn new(parameters: &dyn Parameters) -> Result<Rules> {
        let nearest = parameters.int("amg.interpolation.least_squares.nearest");
        let farthest = parameters.int("amg.interpolation.least_squares.farthest");
        if nearest > farthest {
            return fail!(
                OptionValue,
                "amg.interpolation.least_squares.nearest is {nearest}, which is more than amg.interpolation.least_squares.farthest, \
                 {farthest}; accepted: at most that"
            );
        }
        Ok(Rules {
            nearest: nearest as u8,
            farthest: farthest as u8,
            tolerance: parameters.real("amg.interpolation.least_squares.tolerance"),
            norm: parameters.real("amg.interpolation.least_squares.norm"),
        })
    }
}

/// What is done to an interpolation after the fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Smoothing {
    /// A Jacobi step of the whole matrix.
    Jacobi,
    /// Steps to the least energy, on a pattern that is one strong coupling wider.
    Energy,
}

impl Smoothing {
    /// The choices, as the options spell them.
    pub const CHOICES: &[&str] = &["none", "jacobi", "energy"];

    /// What the options ask for, if anything.
    pub fn asked(parameters: &dyn Parameters) -> Option<Smoothing> {
        match &*parameters.text("amg.interpolation.least_squares.smoothing") {
            "jacobi" => Some(Smoothing::Jacobi),
            "energy" => Some(Smoothing::Energy),
            _ => None,
        }
    }
}
