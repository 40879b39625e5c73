//! Set-up for a GPU: what the host computed is copied into device memory.

use super::bsr::Bsr;
use super::csr::Csr;
use super::dense::Dense;
use super::product::Placed;
use super::{Buffer, Gpu};
use crate::backend::{Operator, Place, Preconditioner};
use crate::error::{Result, fail};
use crate::host::Host;
use crate::scalar::{Number, Scalar};
use crate::smooth::Smoother;
use crate::sparse::{Block, SharedCsr};

impl Place for Gpu {
    fn array<S: Number>(&self, values: Vec<S>) -> Result<Buffer<S>> {
        self.upload(&values)
    }

    fn matrix<S: Number, X: Scalar, Y: Scalar>(&self, matrix: SharedCsr<S>) -> Result<Box<dyn Operator<Gpu, X, Y>>> {
        let a = matrix.view();
        Ok(match a.block {
            Block::SCALAR => Box::new(Placed(Csr::new::<X, Y>(self, &a)?)),
            _ => Box::new(Placed(Bsr::new::<X, Y>(self, &a)?)),
        })
    }

    fn dense<S: Number, V: Scalar>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Gpu, V>>> {
        Ok(Box::new(Placed(Dense::new::<V>(self, n, &values)?)))
    }

    fn host_smoother<V: Scalar>(&self, name: &str, _: Box<dyn Smoother<Host, V>>) -> Result<Box<dyn Smoother<Gpu, V>>> {
        fail!(Unsupported, "the smoother {name} does not run on GPUs (option amg.smoother.type)")
    }

    fn host_operator<T: Scalar>(&self, _: Box<dyn Operator<Host, T>>) -> Result<Box<dyn Operator<Gpu, T>>> {
        fail!(
            Unsupported,
            "an operator callback gets vectors on the host, and this context is on a GPU; use a host context"
        )
    }

    fn host_preconditioner<T: Scalar>(
        &self,
        _: Box<dyn Preconditioner<Host, T>>,
    ) -> Result<Box<dyn Preconditioner<Gpu, T>>> {
        fail!(
            Unsupported,
            "a preconditioner callback gets vectors on the host, and this context is on a GPU; use a host context"
        )
    }
}
