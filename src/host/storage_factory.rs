//! The storage factory of the host: arrays stay where they are.

use super::Host;
use super::dense::Dense;
use super::operator::Stored;
use super::sparse_direct::SparseInverse;
use super::stencil::gauss_seidel::StencilColours;
use super::stencil::product::StencilOperator;
use super::stencil::transfer::TransferOperator;
use crate::backend::{Colours, Columns, Operator, StorageFactory};
use crate::error::Result;
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::{Coloured, ColouredStencil, SharedCsr, SharedStencil, SharedTransfer};

impl StorageFactory for Host {
    fn array<S: Number>(&self, values: Vec<S>) -> Result<Vec<S>> {
        Ok(values)
    }

    fn matrix<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        let stored = match columns {
            Columns::Shared => Stored::new(self, matrix),
            Columns::Compact => Stored::compact(self, matrix)?,
        };
        Ok(Box::new(stored.with_sums(sums)))
    }

    /// Sums of stencils are always wide.
    fn stencil<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedStencil<S>,
        _: Sums,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        Ok(Box::new(StencilOperator::new(self, matrix)))
    }

    fn grid_transfer<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedTransfer<S>,
        _: Sums,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        Ok(Box::new(TransferOperator::new(self, matrix)))
    }

    fn stencil_colours<S: Number, V: Number>(
        &self,
        matrix: ColouredStencil<S>,
    ) -> std::result::Result<Box<dyn Colours<Host, V>>, ColouredStencil<S>> {
        Ok(Box::new(StencilColours::new(matrix)))
    }

    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Host, V>>> {
        Ok(Box::new(Dense::new(self, n, values)))
    }

    fn factorised<T: Scalar, V: Number>(&self, a: &SharedCsr<T>) -> Result<Option<Box<dyn Operator<Host, V>>>> {
        let inverse = SparseInverse::new(&a.view())?;
        Ok(inverse.map(|inverse| Box::new(inverse) as Box<dyn Operator<Host, V>>))
    }

    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Host, V>>> {
        Ok(Box::new(matrix))
    }
}
