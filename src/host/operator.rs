//! A stored matrix as an operator of the host backend.

use super::Host;
use super::spmv::{self, Sums};
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::SharedCsr;

/// A matrix in storage format `S`, applied to vectors of any precision.
pub struct Stored<S> {
    host: Host,
    matrix: SharedCsr<S>,
    sums: Sums,
}

impl<S: Number> Stored<S> {
    /// Acts on the threads of `host`.
    pub fn new(host: &Host, matrix: SharedCsr<S>) -> Stored<S> {
        Stored { host: host.clone(), matrix, sums: Sums::Wide }
    }

    /// The same with other sums.
    pub fn with_sums(self, sums: Sums) -> Stored<S> {
        Stored { sums, ..self }
    }
}

impl<S: Number, X: Number, Y: Number> Operator<Host, X, Y> for Stored<S> {
    fn rows(&self) -> usize {
        self.matrix.view().scalar_rows()
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        let a = self.matrix.view();
        self.host.run(a.entries(), || spmv::apply_with(&a, alpha, x, beta, y, self.sums));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        let a = self.matrix.view();
        self.host.run(a.entries(), || spmv::residual_with(&a, b, x, r, self.sums));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.matrix.owned_bytes()
    }

    fn format(&self) -> String {
        self.matrix.structure.block.format()
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}
