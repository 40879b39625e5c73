//! A matrix as set-up on the host has it: in rows, or on a structured grid.

use crate::backend::setup::{SetupMatrix, SetupPattern, Symbolic};
use crate::error::{Result, fail};
use crate::host::distributed::divided::{DividedMatrix, DividedPattern};
use crate::host::distributed::transposition::DividedTransposition;
use crate::host::transpose::TransposeSymbolic;
use crate::scalar::Number;
use crate::sparse::{Block, CsrView, SharedCsr, SharedStencil, SharedTransfer, Storage, Structure};
use std::borrow::Cow;
use std::sync::Arc;

/// A matrix of set-up.
pub enum HostMatrix<S> {
    /// CSR or BSR.
    Rows(SharedCsr<S>),
    /// The rows of this rank of a matrix in CSR or BSR.
    Divided(DividedMatrix<S>),
    /// A stencil on a grid.
    Stencil(SharedStencil<S>),
    /// A transfer between two grids.
    Transfer(SharedTransfer<S>),
}

impl<S> Clone for HostMatrix<S> {
    fn clone(&self) -> Self {
        match self {
            HostMatrix::Rows(a) => HostMatrix::Rows(a.clone()),
            HostMatrix::Divided(a) => HostMatrix::Divided(a.clone()),
            HostMatrix::Stencil(a) => HostMatrix::Stencil(a.clone()),
            HostMatrix::Transfer(a) => HostMatrix::Transfer(a.clone()),
        }
    }
}

impl<S> From<SharedCsr<S>> for HostMatrix<S> {
    fn from(a: SharedCsr<S>) -> Self {
        HostMatrix::Rows(a)
    }
}

impl<S: Number> HostMatrix<S> {
    /// The matrix in rows, for components that have no formula for grids; those are set up with rows. Of a divided
    /// matrix the part that is here.
    pub fn rows(&self) -> &SharedCsr<S> {
        match self {
            HostMatrix::Rows(a) => a,
            HostMatrix::Divided(a) => &a.matrix,
            _ => unreachable!("components for matrices in rows are set up with rows"),
        }
    }

    /// Block rows of this rank.
    pub fn own_rows(&self) -> usize {
        match self {
            HostMatrix::Divided(a) => a.rows.own.len(),
            a => SetupMatrix::rows(a),
        }
    }

    /// The same, to read.
    pub fn view(&self) -> CsrView<'_, S> {
        self.rows().view()
    }

    /// The matrix in rows; converted where it is not.
    pub fn to_rows(&self) -> Result<Cow<'_, SharedCsr<S>>> {
        Ok(match self {
            HostMatrix::Rows(a) => Cow::Borrowed(a),
            HostMatrix::Divided(_) => return fail!(Internal, "a divided matrix came to a step for whole ones"),
            HostMatrix::Stencil(a) => Cow::Owned(a.to_rows()?),
            HostMatrix::Transfer(a) => Cow::Owned(a.to_rows()?),
        })
    }

    /// The stencil, for components that know nothing else; they are set up on grids.
    pub fn on_grid(&self) -> Result<&SharedStencil<S>> {
        match self {
            HostMatrix::Stencil(a) => Ok(a),
            _ => fail!(Internal, "a matrix in rows came to a component for grids"),
        }
    }

    /// The same pattern with other values.
    pub(super) fn with_values(self, values: Vec<S>) -> Self {
        match self {
            HostMatrix::Rows(a) => HostMatrix::Rows(SharedCsr { values: Arc::new(values), ..a }),
            HostMatrix::Divided(a) => HostMatrix::Divided(a.pattern().with(values)),
            HostMatrix::Stencil(a) => HostMatrix::Stencil(SharedStencil { values: Arc::new(values), ..a }),
            HostMatrix::Transfer(a) => HostMatrix::Transfer(SharedTransfer { values: Arc::new(values), ..a }),
        }
    }

    pub(super) fn values(&self) -> &Arc<dyn Storage<S>> {
        match self {
            HostMatrix::Rows(a) => &a.values,
            HostMatrix::Divided(a) => &a.matrix.values,
            HostMatrix::Stencil(a) => &a.values,
            HostMatrix::Transfer(a) => &a.values,
        }
    }
}

impl<S: Number> SetupMatrix for HostMatrix<S> {
    type Pattern = HostPattern;

    fn rows(&self) -> usize {
        match self {
            HostMatrix::Rows(a) => a.structure.rows,
            HostMatrix::Divided(a) => a.rows.total,
            HostMatrix::Stencil(a) => a.pattern.grid.cells(),
            HostMatrix::Transfer(a) if a.transposed => a.pattern.grids.coarse.cells(),
            HostMatrix::Transfer(a) => a.pattern.grids.fine.cells(),
        }
    }

    fn block(&self) -> Block {
        match self {
            HostMatrix::Rows(a) => a.structure.block,
            HostMatrix::Divided(a) => a.matrix.structure.block,
            HostMatrix::Stencil(a) => Block::square(a.pattern.block),
            HostMatrix::Transfer(a) => Block::square(a.pattern.block),
        }
    }

    fn entries(&self) -> usize {
        self.values().as_slice().len()
    }

    fn pattern(&self) -> HostPattern {
        match self {
            HostMatrix::Rows(a) => HostPattern::Rows(Arc::clone(&a.structure)),
            HostMatrix::Divided(a) => HostPattern::Divided(a.pattern()),
            HostMatrix::Stencil(_) | HostMatrix::Transfer(_) => HostPattern::Grid,
        }
    }

    fn value_bytes(&self, references: usize) -> usize {
        let values = self.values();
        if Arc::strong_count(values) > references { 0 } else { values.owned_bytes() }
    }
}

/// The pattern of a matrix of set-up.
#[derive(Clone)]
pub enum HostPattern {
    /// Of CSR or BSR.
    Rows(Arc<Structure>),
    /// Of the rows of this rank.
    Divided(DividedPattern),
    /// Of a matrix on a grid, which has no arrays.
    Grid,
}

impl HostPattern {
    /// That of a matrix in rows, as for [`HostMatrix::rows`].
    pub fn rows(&self) -> &Arc<Structure> {
        match self {
            HostPattern::Rows(structure) => structure,
            HostPattern::Divided(pattern) => &pattern.structure,
            HostPattern::Grid => unreachable!("components for matrices in rows are set up with rows"),
        }
    }
}

impl SetupPattern for HostPattern {
    fn bytes(&self, references: usize) -> usize {
        match self {
            HostPattern::Grid => 0,
            rows if Arc::strong_count(rows.rows()) > references => 0,
            rows => rows.rows().owned_bytes(),
        }
    }
}

/// Symbolic data of a transposition; grids need none.
#[derive(Clone)]
pub(crate) enum HostTransposition {
    /// Of a matrix in rows.
    Rows(Arc<TransposeSymbolic>),
    /// Of one of which this rank has its rows.
    Divided(Arc<DividedTransposition>),
    /// Between grids.
    Grid,
}

impl Symbolic for HostTransposition {
    fn bytes(&self) -> usize {
        match self {
            HostTransposition::Rows(symbolic) => symbolic.bytes(),
            HostTransposition::Divided(symbolic) => symbolic.bytes(),
            HostTransposition::Grid => 0,
        }
    }
}
