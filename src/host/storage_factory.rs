//! The storage factory of the host: arrays stay where they are.

use super::Host;
use super::dense::Dense;
use super::operator::Stored;
use super::sparse_direct::SparseInverse;
use crate::backend::{Colours, Columns, Operator, StorageFactory};
use crate::error::Result;
use crate::scalar::{Number, Scalar, Sums};
use crate::sparse::{Coloured, SharedCsr};

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
