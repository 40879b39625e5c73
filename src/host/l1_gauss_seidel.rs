//! l1-Gauss-Seidel: Gauss-Seidel inside fixed pieces of the rows, Jacobi between them. Where a row is strongly coupled to what is outside of
//! its piece, its diagonal is enlarged, as far as the sweep needs to converge for every SPD matrix. The pieces follow from the number of
//! rows alone, and with them the result. Forward before the coarse correction, backward after it.

use super::{Host, HostMatrix, gauss_seidel, scaling};
use crate::backend::components::{SmootherInput, SmootherSetup};
use crate::backend::{Backend, Operator, Smoother, StorageFactory, Sweep};
use crate::error::{Result, fail};
use crate::scalar::{Number, Scalar};
use crate::sparse::SharedCsr;
use std::any::Any;

struct L1GaussSeidel<S> {
    matrix: SharedCsr<S>,
    /// The inverse of the diagonal or of the diagonal blocks, enlarged by what is outside of the row's piece.
    inverse: Vec<S>,
    /// Bytes of the matrix that are not counted elsewhere.
    matrix_bytes: usize,
}

impl<S: Number> L1GaussSeidel<S> {
    fn new<B: StorageFactory, T: Scalar>(input: &SmootherInput<'_, Host, B, T>) -> Result<Self> {
        let factors = input.factors.map(Vec::as_slice);
        let inverse: Vec<T> = gauss_seidel::l1_inverse(&input.a.to_rows()?.view(), factors, input.width())?;
        let inverse = scaling::stored(&inverse, input.parameters.real("amg.smoother.gauss_seidel.weight"))?;
        let matrix = input.stored_matrix::<S>()?.to_rows()?.into_owned();
        let is_rows = matches!(input.a, HostMatrix::Rows(_));
        let matrix_bytes = match (input.stores_matrix && S::PRECISION == T::PRECISION, input.stores_pattern) {
            (true, _) if is_rows => 0,
            (_, true) if is_rows => matrix.values.owned_bytes(),
            _ => matrix.owned_bytes(),
        };
        Ok(L1GaussSeidel { matrix, inverse, matrix_bytes })
    }
}

impl<S: Number, V: Number> Smoother<Host, V> for L1GaussSeidel<S> {
    fn sweep(
        &self,
        backend: &Host,
        _: &dyn Operator<Host, V>,
        b: &[V],
        x: &mut [V],
        scratch: &mut [Vec<V>],
        sweep: Sweep,
    ) -> Result<()> {
        let a = self.matrix.view();
        let old = if sweep.zero_guess {
            backend.fill(V::ZERO, x);
            None
        } else {
            backend.copy(x, &mut scratch[0]);
            Some(&scratch[0][..])
        };
        backend.run(a.entries(), || gauss_seidel::sweep(&a, &self.inverse, b, old, x, sweep.adjoint));
        Ok(())
    }

    fn is_symmetric(&self) -> bool {
        false
    }

    fn scratch(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        size_of_val(self.inverse.as_slice()) + self.matrix_bytes
    }
}

/// The component. Keeps the matrix in the smoother's precision, which costs nothing where that is the precision of set-up.
pub struct L1GaussSeidelSetup;

impl<B: StorageFactory> SmootherSetup<Host, B> for L1GaussSeidelSetup {
    fn build<T: Scalar, N: Number, V: Number>(
        &self,
        input: &SmootherInput<'_, Host, B, T>,
    ) -> Result<Box<dyn Smoother<B, V>>> {
        // It runs on the host alone.
        let smoother: Box<dyn Smoother<Host, V>> = Box::new(L1GaussSeidel::<N>::new(input)?);
        let smoother: Box<dyn Any> = Box::new(smoother);
        match smoother.downcast::<Box<dyn Smoother<B, V>>>() {
            Ok(smoother) => Ok(*smoother),
            Err(_) => {
                fail!(Unsupported, "the smoother l1_gauss_seidel does not run on GPUs (option amg.smoother.type)")
            }
        }
    }
}
