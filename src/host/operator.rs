//! A stored matrix as an operator of the host backend.

use super::Host;
use super::multivector;
use super::spmv::{self, Epilogue};
use crate::backend::{Columns, Operator};
use crate::error::Result;
use crate::scalar::{Number, NumbersRef, Precision, Sums};
use crate::sparse::{Compact, Diagonals, SharedCsr};
use std::sync::Arc;

/// A matrix in storage format `S`, applied to vectors of any precision.
pub struct Stored<S> {
    host: Host,
    matrix: Format<S>,
    sums: Sums,
}

/// How columns are stored.
enum Format<S> {
    /// In 32 bits, in arrays that may be shared.
    Shared(SharedCsr<S>),
    /// In 16 bits.
    Compact(Compact<S>),
    /// By diagonals: one offset for the entries of a group of rows.
    Diagonals(Diagonals<S>),
}

impl<S: Number> Stored<S> {
    /// Runs on the threads of `host`.
    pub fn new(host: &Host, matrix: SharedCsr<S>) -> Stored<S> {
        Stored { host: host.clone(), matrix: Format::Shared(matrix), sums: Sums::Wide }
    }

    /// By diagonals or with 16-bit columns, if possible and if it saves enough bytes.
    pub fn compact(host: &Host, matrix: SharedCsr<S>) -> Result<Stored<S>> {
        let format = if let Some(diagonals) = Diagonals::new(&matrix)? {
            Format::Diagonals(diagonals)
        } else if let Some(compact) = Compact::new(&matrix)? {
            Format::Compact(compact)
        } else {
            Format::Shared(matrix)
        };
        Ok(Stored { host: host.clone(), matrix: format, sums: Sums::Wide })
    }

    /// With columns in one of these forms.
    pub fn with_columns(host: &Host, matrix: SharedCsr<S>, columns: Columns) -> Result<Stored<S>> {
        match columns {
            Columns::Shared => Ok(Stored::new(host, matrix)),
            Columns::Compact => Stored::compact(host, matrix),
        }
    }

    /// The same with these sums. By diagonals and with 16-bit columns sums are always wide.
    pub fn with_sums(self, sums: Sums) -> Stored<S> {
        Stored { sums, ..self }
    }

    /// Where it is multiplied.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn view(&self) -> spmv::View<'_, S> {
        match &self.matrix {
            Format::Shared(matrix) => spmv::View::Csr(matrix.view()),
            Format::Compact(matrix) => spmv::View::Compact(matrix),
            Format::Diagonals(matrix) => spmv::View::Diagonals(matrix),
        }
    }

    pub(super) fn entries(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.view().entries(),
            Format::Compact(matrix) => matrix.columns.len(),
            Format::Diagonals(matrix) => matrix.entries,
        }
    }

    pub(super) fn rows(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.view().scalar_rows(),
            Format::Compact(matrix) => matrix.rows(),
            Format::Diagonals(matrix) => matrix.rows * matrix.width,
        }
    }

    pub(super) fn product<Y: Number>(&self, x: NumbersRef<'_>, y: &mut [Y], epilogue: Epilogue<'_, Y>) {
        let a = self.view();
        self.host.run(self.entries(), || spmv::product(&a, x, y, epilogue, self.sums));
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.owned_bytes(),
            Format::Compact(matrix) => matrix.owned_bytes(),
            Format::Diagonals(matrix) => matrix.owned_bytes(),
        }
    }

    pub(super) fn format(&self) -> String {
        match &self.matrix {
            Format::Shared(matrix) => matrix.structure.block.format(),
            Format::Compact(_) => "csr16".to_string(),
            Format::Diagonals(matrix) => matrix.format(),
        }
    }
}

impl<S: Number, X: Number, Y: Number> Operator<Host, X, Y> for Stored<S> {
    fn rows(&self) -> usize {
        Stored::rows(self)
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.product(X::numbers(x), y, Epilogue::new(alpha, beta));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        assert_eq!(b.len(), r.len());
        self.product(X::numbers(x), r, Epilogue::Residual(b));
        Ok(())
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Host, X, Y>>> {
        multivector::interleaved(self, k)
    }

    fn bytes(&self) -> usize {
        Stored::bytes(self)
    }

    fn format(&self) -> String {
        Stored::format(self)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
