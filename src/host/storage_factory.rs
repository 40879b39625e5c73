//! The storage factory of the host: arrays stay where they are.

use super::Host;
use super::any_matrix::{AnyMatrix, AnyOperator};
use super::dense::Dense;
use super::distributed::{DistributedColours, DistributedMatrix, Parts, Replicated};
use super::operator::Stored;
use super::sparse_direct::SparseInverse;
use super::stencil::gauss_seidel::StencilColours;
use super::stencil::line_relaxation::LineRelaxation;
use super::stencil::product::StencilOperator;
use super::stencil::transfer::TransferOperator;
use crate::backend::{Colours, Columns, Operator, StorageFactory};
use crate::comm::{Distribution, unavailable};
use crate::error::{Result, try_copy};
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::{Coloured, ColouredStencil, Colouring, OwnRows, SharedCsr, SharedStencil, SharedTransfer};
use std::sync::Arc;

impl StorageFactory for Host {
    fn has_whole_vectors(&self) -> bool {
        self.over.is_none()
    }

    fn array<S: Number>(&self, values: Vec<S>) -> Result<Vec<S>> {
        match &self.over {
            Some(over) => try_copy(&values[over.own(values.len())]),
            None => Ok(values),
        }
    }

    fn own_array<S: Number>(&self, values: Vec<S>) -> Result<Vec<S>> {
        Ok(values)
    }

    fn matrix_of_level<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
        rows: &mut Option<OwnRows>,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        self.operator(self.rows(matrix, columns, sums, rows))
    }

    /// Sums of stencils are always wide.
    fn stencil<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedStencil<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        self.operator(self.grid_matrix(matrix, sums))
    }

    fn grid_transfer<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedTransfer<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Host, X, Y>>> {
        self.operator(self.transfer(matrix, sums))
    }

    fn stencil_colours<S: Number, V: Number>(&self, matrix: ColouredStencil<S>) -> Result<Box<dyn Colours<Host, V>>> {
        if self.over.is_some() {
            let ColouredStencil { matrix, inverse, lines, shared } = matrix;
            if lines.is_some() {
                return unavailable("line relaxation", "set amg.smoother.type to \"chebyshev\"");
            }
            let matrix = matrix.to_rows()?;
            let colouring = Colouring::new(&matrix.structure.view::<f64>(&[]))?;
            return self.colours(Coloured { matrix, inverse, colouring, shared });
        }
        match matrix.lines {
            Some(axis) => Ok(Box::new(LineRelaxation::new(matrix, axis))),
            None => Ok(Box::new(StencilColours::new(matrix))),
        }
    }

    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Host, V>>> {
        if let Some(over) = &self.over {
            let inner = Box::new(Dense::new(&self.alone(), n, values));
            return Ok(Box::new(Replicated::new(over, n, inner)?));
        }
        Ok(Box::new(Dense::new(self, n, values)))
    }

    fn factorised<T: Scalar, V: Number>(&self, a: &SharedCsr<T>) -> Result<Option<Box<dyn Operator<Host, V>>>> {
        let inverse = SparseInverse::new(&a.view())?;
        let inverse = inverse.map(|inverse| Box::new(inverse) as Box<dyn Operator<Host, V>>);
        match (inverse, &self.over) {
            (Some(inverse), Some(over)) => {
                let inverse = Replicated::new(over, a.view().scalar_rows(), inverse)?;
                Ok(Some(Box::new(inverse)))
            }
            (inverse, _) => Ok(inverse),
        }
    }

    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Host, V>>> {
        match &self.over {
            Some(over) => Ok(Box::new(DistributedColours::new(over, matrix)?)),
            None => Ok(Box::new(matrix)),
        }
    }
}

/// A matrix for vectors of any precision.
enum Kept {
    /// All of it.
    Whole(Arc<dyn AnyMatrix>),
    /// The rows of this rank; an error may be that of this rank alone.
    OfRank(Arc<Distribution>, Result<Parts>),
}

impl Host {
    fn rows<S: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
        rows: &mut Option<OwnRows>,
    ) -> Result<Kept> {
        if let Some(over) = &self.over {
            return Ok(Kept::OfRank(Arc::clone(over), Parts::own(&self.alone(), over, &matrix, sums, rows)?));
        }
        Ok(Kept::Whole(Arc::new(Stored::with_columns(self, matrix, columns)?.with_sums(sums))))
    }

    fn grid_matrix<S: Number>(&self, matrix: SharedStencil<S>, sums: Sums) -> Result<Kept> {
        match self.over {
            Some(_) => self.rows(matrix.to_rows()?, Columns::Shared, sums, &mut None),
            None => Ok(Kept::Whole(Arc::new(StencilOperator::new(self, matrix)))),
        }
    }

    fn transfer<S: Number>(&self, matrix: SharedTransfer<S>, sums: Sums) -> Result<Kept> {
        match self.over {
            Some(_) => self.rows(matrix.to_rows()?, Columns::Shared, sums, &mut None),
            None => Ok(Kept::Whole(Arc::new(TransferOperator::new(self, matrix)))),
        }
    }

    /// A matrix as an operator on vectors of these precisions.
    fn operator<X: Number, Y: Number>(&self, kept: Result<Kept>) -> Result<Box<dyn Operator<Host, X, Y>>> {
        match kept? {
            Kept::Whole(matrix) => Ok(Box::new(AnyOperator(matrix))),
            Kept::OfRank(over, parts) => DistributedMatrix::agreed(&self.alone(), &over, parts),
        }
    }
}
