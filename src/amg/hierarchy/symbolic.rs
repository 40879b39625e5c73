//! Symbolic data of a set-up, for numeric-only updates.

use super::choice::{Choice, Rechecked};
use crate::backend::components::{Interpolation, InterpolationSymbolic};
use crate::backend::setup::{Held, Setup, SetupMatrix, SetupPattern, Symbolic};
use crate::backend::spectrum::Largest;
use crate::error::Result;
use crate::scalar::{Precision, Scalar};
use std::any::Any;
use std::sync::Arc;

/// Symbolic data of a hierarchy, of any set-up backend.
pub(crate) trait SetupData: Any + Send + Sync {
    /// Bytes that are not shared with levels.
    fn bytes(&self) -> usize;
}

/// That of all steps from level to level.
pub(super) struct HierarchySymbolic<S: Setup>(pub Vec<LevelSymbolic<S>>);

impl<S: Setup> SetupData for HierarchySymbolic<S> {
    fn bytes(&self) -> usize {
        self.0.iter().map(LevelSymbolic::bytes).sum()
    }
}

/// Symbolic data of a step from one level to the next.
pub(super) struct LevelSymbolic<S: Setup> {
    /// Of the finest matrix where its scalar rows were put together to nodes; none on other levels.
    pub nodes: Option<S::Nodes>,
    /// The near-null space of the finest level where it was improved; none on other levels.
    pub space: Option<Arc<S::NearNullSpace>>,
    pub transfers: TransferSymbolic<S>,
    /// The pattern of the coarse matrix.
    pub coarse: S::Pattern,
    pub product: S::Product,
    /// The largest eigenvalue that the smoother went by, where it was estimated.
    pub largest_eigenvalue: Option<Largest>,
    /// The pattern of the factors of an FSAI smoother.
    pub fsai_pattern: Option<S::Pattern>,
    pub formats: Formats<S>,
    /// Only with `recheck`.
    pub rechecked: Option<Rechecked<S>>,
    /// Of the couplings within functions, where there are several, and the functions of the next level.
    pub within: Option<S::Within>,
    pub functions: Option<Arc<S::Functions>>,
}

impl<S: Setup> Clone for LevelSymbolic<S> {
    fn clone(&self) -> Self {
        LevelSymbolic {
            nodes: self.nodes.clone(),
            space: self.space.clone(),
            transfers: self.transfers.clone(),
            coarse: self.coarse.clone(),
            product: self.product.clone(),
            largest_eigenvalue: self.largest_eigenvalue.clone(),
            fsai_pattern: self.fsai_pattern.clone(),
            formats: self.formats.clone(),
            rechecked: self.rechecked.clone(),
            within: self.within.clone(),
            functions: self.functions.clone(),
        }
    }
}

impl<S: Setup> LevelSymbolic<S> {
    fn bytes(&self) -> usize {
        let rechecked = self.rechecked.as_ref().map_or(0, |rechecked| {
            let choice = if self.transfers.has_choice() { 0 } else { rechecked.choice.bytes() };
            choice + rechecked.bytes()
        });
        let symbolic = [self.nodes.as_ref().map(Symbolic::bytes), self.within.as_ref().map(Symbolic::bytes)];
        let functions = self.functions.as_ref().map_or(0, |functions| functions.bytes());
        self.transfers.bytes()
            + self.space.as_ref().map_or(0, |space| space.bytes())
            + rechecked
            + symbolic.into_iter().flatten().sum::<usize>()
            + functions
            + self.coarse.bytes(1)
            + self.fsai_pattern.as_ref().map_or(0, |pattern| pattern.bytes(1))
            + self.product.bytes()
            + self.formats.bytes()
    }
}

/// Symbolic data of prolongator and restriction.
pub(super) enum TransferSymbolic<S: Setup> {
    /// By numeric phases for the strong couplings, coarse unknowns and patterns of the first time.
    Numeric {
        choice: Choice<S>,
        p: S::Pattern,
        r: S::Pattern,
        /// Found in the first update.
        transposition: Option<S::Transposition>,
        interpolation: Option<Arc<dyn InterpolationSymbolic<S>>>,
        /// Where the prolongator is filtered.
        filtered: Option<Filtered<S>>,
    },
    /// As they are: a [`TransferPair`] in the precision of set-up.
    Constant(Arc<dyn SetupData>),
}

impl<S: Setup> Clone for TransferSymbolic<S> {
    fn clone(&self) -> Self {
        match self {
            TransferSymbolic::Numeric { choice, p, r, transposition, interpolation, filtered } => {
                TransferSymbolic::Numeric {
                    choice: choice.clone(),
                    p: p.clone(),
                    r: r.clone(),
                    transposition: transposition.clone(),
                    interpolation: interpolation.clone(),
                    filtered: filtered.clone(),
                }
            }
            TransferSymbolic::Constant(pair) => TransferSymbolic::Constant(Arc::clone(pair)),
        }
    }
}

/// What a prolongator is filtered by in updates.
pub(super) struct Filtered<S: Setup> {
    /// The pattern before.
    pub whole: S::Pattern,
    /// The near-null space of the next level.
    pub space: Arc<S::NearNullSpace>,
}

impl<S: Setup> Clone for Filtered<S> {
    fn clone(&self) -> Self {
        Filtered { whole: self.whole.clone(), space: Arc::clone(&self.space) }
    }
}

/// Prolongator and restriction.
pub(super) struct TransferPair<S: Setup, T: Scalar> {
    pub p: S::Matrix<T>,
    pub r: S::Matrix<T>,
}

impl<S: Setup, T: Scalar> SetupData for TransferPair<S, T> {
    fn bytes(&self) -> usize {
        // The pattern is here, and in the matrix.
        [&self.p, &self.r].into_iter().map(|m| m.pattern().bytes(2) + m.value_bytes(1)).sum()
    }
}

impl<S: Setup> TransferSymbolic<S> {
    /// Whether the choice of the level is part of it.
    pub fn has_choice(&self) -> bool {
        matches!(self, TransferSymbolic::Numeric { .. })
    }

    /// Drops data that only save time, so that updates do not compute them again. Returns whether there were any.
    pub fn drop_positions<T: Scalar>(&mut self, interpolate: &dyn Interpolation<S, T>) -> bool {
        let TransferSymbolic::Numeric { interpolation, .. } = self else { return false };
        match interpolation {
            Some(symbolic) => symbolic.drop_positions(),
            none => {
                *none = interpolate.without_symbolic();
                none.is_some()
            }
        }
    }

    /// Whether the last update left rows of the interpolation. May wait for the device.
    pub fn is_incomplete(&self, setup: &S) -> Result<bool> {
        match self {
            TransferSymbolic::Numeric { interpolation: Some(symbolic), .. } => symbolic.is_incomplete(setup),
            _ => Ok(false),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            TransferSymbolic::Numeric { choice, p, r, transposition, interpolation, filtered } => {
                let filtered = filtered.as_ref().map_or(0, |filtered| filtered.whole.bytes(1) + filtered.space.bytes());
                let transposition = transposition.as_ref().map_or(0, Symbolic::bytes);
                let interpolation = interpolation.as_ref().map_or(0, |symbolic| symbolic.bytes());
                choice.bytes() + p.bytes(1) + r.bytes(1) + transposition + interpolation + filtered
            }
            TransferSymbolic::Constant(pair) => pair.bytes(),
        }
    }
}

/// The formats in which a level is stored, which an update takes over.
pub(super) struct Formats<S: Setup> {
    /// The number formats that they were chosen for, where those may change: of the matrix, the transfers, and the
    /// vectors of this level and the next.
    pub numbers: Option<[Precision; 4]>,
    pub matrix: Option<S::Format>,
    pub restriction: Option<S::Format>,
    pub prolongator: Option<S::Format>,
}

impl<S: Setup> Default for Formats<S> {
    fn default() -> Self {
        Formats { numbers: None, matrix: None, restriction: None, prolongator: None }
    }
}

impl<S: Setup> Clone for Formats<S> {
    fn clone(&self) -> Self {
        Formats {
            numbers: self.numbers,
            matrix: self.matrix.clone(),
            restriction: self.restriction.clone(),
            prolongator: self.prolongator.clone(),
        }
    }
}

impl<S: Setup> Formats<S> {
    /// Bytes of data for updates.
    fn bytes(&self) -> usize {
        [&self.matrix, &self.restriction, &self.prolongator].into_iter().flatten().map(S::format_bytes).sum()
    }
}
