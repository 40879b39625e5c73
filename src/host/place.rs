//! Set-up for the host: what it computed is already where it is used.

use super::Host;
use super::dense::Dense;
use super::operator::Stored;
use crate::backend::{Colours, Columns, Operator, Place, Preconditioner, Smoother};
use crate::error::Result;
use crate::matrix::Matrix;
use crate::scalar::{Number, Scalar, Sums, with_precision};
use crate::sparse::{Coloured, SharedCsr};

impl Place for Host {
    type Narrower = ();

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

    fn given<T: Scalar>(&self, matrix: &Matrix) -> Result<Box<dyn Operator<Host, T>>> {
        with_precision!(matrix.precision(), I => self.matrix(matrix.shared::<I>()?, Columns::Shared, Sums::Wide))
    }

    fn given_narrower<T: Scalar>(&self, _: &Matrix, (): &mut ()) -> Result<Option<Box<dyn Operator<Host, T>>>> {
        Ok(None)
    }

    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Host, V>>> {
        Ok(Box::new(Dense::new(self, n, values)))
    }

    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Host, V>>> {
        Ok(Box::new(matrix))
    }

    fn host_smoother<V: Number>(
        &self,
        _: &str,
        smoother: Box<dyn Smoother<Host, V>>,
    ) -> Result<Box<dyn Smoother<Host, V>>> {
        Ok(smoother)
    }

    fn host_operator<T: Scalar>(&self, operator: Box<dyn Operator<Host, T>>) -> Result<Box<dyn Operator<Host, T>>> {
        Ok(operator)
    }

    fn host_preconditioner<T: Scalar>(
        &self,
        preconditioner: Box<dyn Preconditioner<Host, T>>,
    ) -> Result<Box<dyn Preconditioner<Host, T>>> {
        Ok(preconditioner)
    }
}
