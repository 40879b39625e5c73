//! A stored matrix as an operator of the host backend.

use super::{Host, spmv};
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::{Compact, SharedCsr};

/// A matrix in storage format `S`, applied to vectors of any precision.
pub struct Stored<S> {
    host: Host,
    matrix: Format<S>,
}

/// How columns are stored.
enum Format<S> {
    /// In 32 bits, in arrays that others may have as well.
    Shared(SharedCsr<S>),
    /// In 16 bits.
    Compact(Compact<S>),
}

impl<S: Number> Stored<S> {
    /// Acts on the threads of `host`.
    pub fn new(host: &Host, matrix: SharedCsr<S>) -> Stored<S> {
        Stored { host: host.clone(), matrix: Format::Shared(matrix) }
    }

    /// With columns of 16 bits where that is possible and saves enough.
    pub fn compact(host: &Host, matrix: SharedCsr<S>) -> Result<Stored<S>> {
        match Compact::new(&matrix)? {
            Some(compact) => Ok(Stored { host: host.clone(), matrix: Format::Compact(compact) }),
            None => Ok(Stored::new(host, matrix)),
        }
    }

    fn view(&self) -> spmv::View<'_, S> {
        match &self.matrix {
            Format::Shared(matrix) => spmv::View::Csr(matrix.view()),
            Format::Compact(matrix) => spmv::View::Compact(matrix),
        }
    }

    fn entries(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.view().entries(),
            Format::Compact(matrix) => matrix.columns.len(),
        }
    }
}

impl<S: Number, X: Number, Y: Number> Operator<Host, X, Y> for Stored<S> {
    fn rows(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.view().scalar_rows(),
            Format::Compact(matrix) => matrix.rows(),
        }
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        let a = self.view();
        self.host.run(self.entries(), || spmv::apply(a, alpha, x, beta, y));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        let a = self.view();
        self.host.run(self.entries(), || spmv::residual(a, b, x, r));
        Ok(())
    }

    fn bytes(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.owned_bytes(),
            Format::Compact(matrix) => matrix.owned_bytes(),
        }
    }

    fn format(&self) -> String {
        match &self.matrix {
            Format::Shared(matrix) => matrix.structure.block.format(),
            Format::Compact(_) => "csr16".to_string(),
        }
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
