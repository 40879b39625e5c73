//! A stored matrix as an operator of the host backend.

use super::Host;
use super::multivector::{self, Interleaved, WithProducts};
use super::spmv;
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, NumbersRef, Precision, Sums};
use crate::sparse::{Compact, Diagonals, RowRuns, SharedCsr};
use std::sync::Arc;

/// A matrix in storage format `S`, applied to vectors of any precision.
pub struct Stored<S> {
    host: Host,
    matrix: Format<S>,
    /// Of a matrix in f64.
    runs: Option<Arc<RowRuns>>,
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
        Stored { host: host.clone(), matrix: Format::Shared(matrix), runs: None, sums: Sums::Wide }
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
        Ok(Stored { host: host.clone(), matrix: format, runs: None, sums: Sums::Wide })
    }

    /// The same with runs of rows that were found in it. They are used in f64 alone.
    pub fn with_runs(self, runs: Option<Arc<RowRuns>>) -> Stored<S> {
        Stored { runs, ..self }
    }

    /// Looks for runs of rows of a matrix in f64.
    pub fn find_runs(self) -> Result<Stored<S>> {
        match &self.matrix {
            Format::Shared(matrix) if S::PRECISION == Precision::F64 => {
                let runs = RowRuns::find(&matrix.view())?.map(Arc::new);
                Ok(self.with_runs(runs))
            }
            _ => Ok(self),
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

    /// For vectors of these precisions.
    fn view_for<X: Number, Y: Number>(&self) -> spmv::View<'_, S> {
        let is_wide = X::PRECISION == Precision::F64 && Y::PRECISION == Precision::F64;
        match (&self.matrix, &self.runs) {
            (Format::Shared(matrix), Some(runs)) if is_wide => spmv::View::Runs(matrix.view(), runs),
            _ => self.view(),
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

    /// Rows of the blocks.
    fn width(&self) -> usize {
        match &self.matrix {
            Format::Shared(matrix) => matrix.structure.block.rows,
            Format::Compact(_) => 1,
            Format::Diagonals(matrix) => matrix.width,
        }
    }

    fn bytes(&self) -> usize {
        let runs = self.runs.as_ref().map_or(0, |runs| runs.owned_bytes());
        runs + match &self.matrix {
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
        let a = self.view_for::<X, Y>();
        self.host.run(self.entries(), || spmv::apply_with(a, alpha, x, beta, y, self.sums));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        let a = self.view_for::<X, Y>();
        self.host.run(self.entries(), || spmv::residual_with(a, b, x, r, self.sums));
        Ok(())
    }

    fn has_epilogue(&self, width: usize) -> bool {
        let is_plain = X::PRECISION == Y::PRECISION && X::PRECISION.is_scalar() && self.sums == Sums::Wide;
        is_plain && (width == 1 || width == self.width())
    }

    fn apply_with_epilogue(&self, x: &[X], epilogue: WithProducts<'_>) -> Result<usize> {
        let a = self.view_for::<X, Y>();
        self.host.run(self.entries(), || match X::numbers(x) {
            NumbersRef::F64(x) => spmv::with_epilogue(&a, x, Stored::rows(self), epilogue),
            NumbersRef::F32(x) => spmv::with_epilogue(&a, x, Stored::rows(self), epilogue),
            _ => unreachable!("operators have an epilogue for vectors that are computed in"),
        });
        Ok(0)
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Host, X, Y>>> {
        multivector::has_kernels(X::PRECISION, Y::PRECISION, k)
            .then(|| -> Arc<dyn Operator<Host, X, Y>> { Arc::new(Interleaved::new(self, k)) })
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
