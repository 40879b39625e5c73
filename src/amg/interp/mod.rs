//! Interpolation from coarse unknowns to all.

mod classical_modified;
mod direct;
mod extended_i;
mod mm_ext;
mod smoothed;
mod tentative;

use super::coarsen::Coarse;
use crate::config::Config;
use crate::error::{Result, fail};
use crate::host::eigenvalue::{Known, Largest};
use crate::host::truncate::{Ties, Truncation};
use crate::host::{self, Host};
use crate::registry::registry;
use crate::scalar::Scalar;
use crate::sparse::{CsrView, Graph, NearNullSpace, SharedCsr, Structure};
use std::any::Any;
use std::sync::Arc;

/// What an interpolation is made from.
pub struct Input<'a, T> {
    /// Where the work runs.
    pub host: &'a Host,
    /// Options.
    pub config: &'a Config,
    /// The matrix of the level.
    pub a: CsrView<'a, T>,
    /// Its strong couplings.
    pub graph: &'a Graph,
    /// The coarse unknowns.
    pub coarse: &'a Coarse,
    /// What aggregation must represent.
    pub near_null_space: &'a NearNullSpace,
    /// Pattern of an earlier result for the same graph and coarse unknowns, which the new one must have.
    pub pattern: Option<&'a Arc<Structure>>,
    /// What came with that result.
    pub memory: Option<&'a dyn Memory>,
}

/// What an interpolation remembers, to be computed anew for other values with less work.
pub trait Memory: Any + Send + Sync {
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// The largest eigenvalue of D^-1 A for the earlier matrix, where it was estimated.
    fn largest_eigenvalue(&self) -> Option<&Largest>;
}

/// An interpolation.
pub struct Output<T> {
    /// The prolongator.
    pub p: SharedCsr<T>,
    /// The near-null space of the coarse level, where there is one.
    pub near_null_space: Option<NearNullSpace>,
    /// What was found out about the matrix.
    pub known: Known<T>,
    /// What the next one for the same patterns can use.
    pub memory: Option<Arc<dyn Memory>>,
}

impl<T: Scalar> Output<T> {
    /// A prolongator and nothing else.
    fn alone(p: SharedCsr<T>) -> Output<T> {
        Output { p, near_null_space: None, known: Known::Nothing, memory: None }
    }
}

/// A formula for the prolongator.
pub trait Interpolation<T: Scalar>: Sync {
    /// Computes it.
    fn interpolate(&self, input: &Input<'_, T>) -> Result<Output<T>>;
    /// Whether it interpolates from aggregates, not from the coarse unknowns of a splitting.
    fn needs_aggregates(&self) -> bool {
        false
    }
}

registry! {
    /// The interpolation of this name.
    fn find<T: Scalar>() -> &'static dyn Interpolation<T>;
    "classical_modified" => &classical_modified::ClassicalModified;
    "direct" => &direct::Direct;
    "extended_i" => &extended_i::ExtendedI;
    "mm_ext" => &mm_ext::MmExt { plus_i: false };
    "mm_ext_i" => &mm_ext::MmExt { plus_i: true };
    "smoothed" => &smoothed::Smoothed;
    "tentative" => &tentative::Tentative;
}

/// Ways to interpolate on aggressive levels.
pub const AGGRESSIVE: &[&str] = &["two_stage", "multipass"];

/// The prolongator of a level: by `interpolation`, unless the level is aggressive and the options name another way for those.
pub(crate) fn interpolate<T: Scalar>(interpolation: &dyn Interpolation<T>, input: &Input<'_, T>) -> Result<Output<T>> {
    let multipass = input.config.text("amg.interpolation.aggressive") == "multipass";
    match input.coarse {
        Coarse::TwoPass(_, coarse) if multipass && !interpolation.needs_aggregates() => {
            let p = host::multipass::interpolate(
                &input.a,
                input.graph,
                coarse,
                input.truncation(),
                input.pattern.map(Arc::as_ref),
            )?;
            Ok(Output::alone(p.into_shared()))
        }
        _ => interpolation.interpolate(input),
    }
}

impl<T> Input<'_, T> {
    /// What the options keep of a row.
    fn truncation(&self) -> Truncation {
        Truncation {
            max_entries: self.config.int("amg.interpolation.max_entries"),
            factor: self.config.real("amg.interpolation.truncation"),
            ties: Ties::after(&self.config.text("amg.coarsening.type")),
        }
    }

    /// The splitting, or an error that names the interpolation that wants one.
    fn splitting(&self, name: &str) -> Result<&[bool]> {
        match self.coarse {
            Coarse::Splitting(coarse) => Ok(coarse),
            Coarse::TwoPass(..) => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" does not reach across aggressive levels in two stages; use \"extended_i\", \
                 \"mm_ext\" or \"mm_ext_i\", or amg.interpolation.aggressive \"multipass\", or amg.coarsening.aggressive_levels 0"
            ),
            Coarse::Aggregates(..) => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs a C/F splitting; use amg.coarsening.type \"pmis\" or \"hmis\" with it"
            ),
        }
    }

    /// The aggregates and their number, or an error that names the interpolation that wants them.
    fn aggregates(&self, name: &str) -> Result<(&[i32], usize)> {
        match self.coarse {
            Coarse::Aggregates(of, count) => Ok((of, *count)),
            Coarse::Splitting(_) | Coarse::TwoPass(..) => fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs aggregates; use amg.coarsening.type \"mis2\" or \"pairwise\" with it"
            ),
        }
    }
}
