//! The caller's matrix as an operator, on each backend.

use super::{DeviceOperator, Matrix, Permutation, Side};
use crate::backend::{Columns, Operator, StorageFactory};
use crate::error::Result;
use crate::gpu::setup::reorder::DevicePermutation;
use crate::gpu::setup::transpose::transpose;
use crate::gpu::{DeviceStencil, Gpu, Narrower, Slice};
use crate::host::Host;
use crate::host::distributed::distributed;
use crate::host::reorder::Permutation as HostPermutation;
use crate::scalar::{Precision, Scalar, Sums, with_precision, with_storage};
use crate::sparse::SharedStencil;
use half::f16;
use std::sync::Arc;

/// A backend on which a [`Matrix`] can be an operator.
pub trait MatrixBackend: StorageFactory {
    /// The format that [`MatrixBackend::exact_matrix_operator`] chose, which an update takes over.
    type Narrower: Default + Send + Sync;
    /// Another order of the elements of vectors.
    type Permutation: Send + Sync;
    /// That of a matrix, if it is one of this backend.
    fn permutation(of: &Permutation) -> Option<Arc<Self::Permutation>>;
    /// y = P x, in the precision of y.
    fn permute<V: Scalar, T: Scalar>(
        &self,
        p: &Self::Permutation,
        x: &Self::Slice<V>,
        y: &mut Self::Slice<T>,
    ) -> Result<()>;
    /// y = Pᵀ x, in the precision of y.
    fn permute_back<V: Scalar, T: Scalar>(
        &self,
        p: &Self::Permutation,
        x: &Self::Slice<V>,
        y: &mut Self::Slice<T>,
    ) -> Result<()>;
    /// The matrix as it is.
    fn matrix_operator<T: Scalar>(&self, matrix: &Matrix) -> Result<Box<dyn Operator<Self, T>>>;
    /// The matrix in the narrowest number format that holds every value exactly, where that is narrower than its own
    /// and the matrix is copied in any case.
    fn exact_matrix_operator<T: Scalar>(
        &self,
        matrix: &Matrix,
        earlier: &mut Self::Narrower,
    ) -> Result<Option<Box<dyn Operator<Self, T>>>>;
}

impl MatrixBackend for Host {
    type Narrower = ();
    type Permutation = HostPermutation;

    fn permutation(of: &Permutation) -> Option<Arc<HostPermutation>> {
        match of {
            Permutation::Host(permutation) => Some(Arc::clone(permutation)),
            Permutation::Device(..) => None,
        }
    }

    fn permute<V: Scalar, T: Scalar>(&self, p: &HostPermutation, x: &[V], y: &mut [T]) -> Result<()> {
        self.run(x.len(), || p.apply(x, y));
        Ok(())
    }

    fn permute_back<V: Scalar, T: Scalar>(&self, p: &HostPermutation, x: &[V], y: &mut [T]) -> Result<()> {
        self.run(x.len(), || p.apply_inverse(x, y));
        Ok(())
    }

    fn matrix_operator<T: Scalar>(&self, matrix: &Matrix) -> Result<Box<dyn Operator<Host, T>>> {
        if let Some(rows) = matrix.over_ranks() {
            let (host, halo) = (self.alone(), Arc::clone(&rows.halo));
            return with_precision!(matrix.precision(), I => {
                distributed(&host, halo, matrix.shared::<I>()?, Sums::Wide)
            });
        }
        with_precision!(matrix.precision(), I => {
            match own_stencil::<I>(matrix)? {
                Some(stencil) => self.stencil(stencil, Sums::Wide),
                None => self.matrix(matrix.shared::<I>()?, Columns::Shared, Sums::Wide),
            }
        })
    }

    fn exact_matrix_operator<T: Scalar>(&self, _: &Matrix, (): &mut ()) -> Result<Option<Box<dyn Operator<Host, T>>>> {
        Ok(None)
    }
}

impl MatrixBackend for Gpu {
    type Narrower = Narrower;
    type Permutation = DevicePermutation;

    fn permutation(of: &Permutation) -> Option<Arc<DevicePermutation>> {
        match of {
            Permutation::Device(_, permutation) => Some(Arc::clone(permutation)),
            Permutation::Host(_) => None,
        }
    }

    fn permute<V: Scalar, T: Scalar>(&self, p: &DevicePermutation, x: &Slice<V>, y: &mut Slice<T>) -> Result<()> {
        p.apply(self, x, y)
    }

    fn permute_back<V: Scalar, T: Scalar>(&self, p: &DevicePermutation, x: &Slice<V>, y: &mut Slice<T>) -> Result<()> {
        p.apply_inverse(self, x, y)
    }

    fn matrix_operator<T: Scalar>(&self, matrix: &Matrix) -> Result<Box<dyn Operator<Gpu, T>>> {
        if let Some(rows) = matrix.over_ranks() {
            return with_precision!(matrix.precision(), I => {
                let whole = (rows.over().rows(), rows.entries);
                self.local_operator(Arc::clone(&rows.halo), &matrix.shared::<I>()?, whole, Sums::Wide)
            });
        }
        with_precision!(matrix.precision(), I => {
            if let Some(stencil) = matrix.device_stencil::<I>(self)? {
                return self.stencil_operator(&stencil);
            }
            match own_stencil::<I>(matrix)? {
                Some(stencil) => self.stencil(stencil, Sums::Wide),
                None => self.operator(matrix.device::<I>(self)?, Sums::Wide),
            }
        })
    }

    fn exact_matrix_operator<T: Scalar>(
        &self,
        matrix: &Matrix,
        earlier: &mut Narrower,
    ) -> Result<Option<Box<dyn Operator<Gpu, T>>>> {
        if matrix.over_ranks().is_some() {
            return Ok(None);
        }
        self.begin_step(None, "operator");
        with_precision!(matrix.precision(), I => {
            if let Some(stencil) = matrix.device_stencil::<I>(self)? {
                return exact_device_stencil(self, &stencil);
            }
            match own_stencil::<I>(matrix)? {
                Some(stencil) => exact_stencil(self, &stencil),
                None => self.exact_operator(matrix.device::<I>(self)?, earlier),
            }
        })
    }
}

/// The stencil of a matrix that was given as one. Products with a matrix in rows whose grid is known go on reading the rows.
fn own_stencil<I: Scalar>(matrix: &Matrix) -> Result<Option<SharedStencil<I>>> {
    if matrix.is_stencil() { matrix.shared_stencil() } else { Ok(None) }
}

/// A stencil in the narrowest number format that holds every value exactly, where that is narrower than its own.
fn exact_stencil<I: Scalar, T: Scalar>(
    gpu: &Gpu,
    stencil: &SharedStencil<I>,
) -> Result<Option<Box<dyn Operator<Gpu, T>>>> {
    if stencil.is_exact_in::<f16>()? {
        return gpu.stencil(stencil.cast::<f16>()?, Sums::Wide).map(Some);
    }
    if I::PRECISION == Precision::F64 && stencil.is_exact_in::<f32>()? {
        return gpu.stencil(stencil.cast::<f32>()?, Sums::Wide).map(Some);
    }
    Ok(None)
}

/// The same for a stencil in device memory.
fn exact_device_stencil<I: Scalar, T: Scalar>(
    gpu: &Gpu,
    stencil: &DeviceStencil<I>,
) -> Result<Option<Box<dyn Operator<Gpu, T>>>> {
    let format = stencil.narrowest_exact(gpu)?;
    if format.bytes() >= I::PRECISION.bytes() {
        return Ok(None);
    }
    with_storage!(format, S => gpu.stencil_operator(&stencil.cast::<S>(gpu)?)).map(Some)
}

/// The matrix or its transpose as an operator on a GPU.
pub(super) fn on_device<T: Scalar>(gpu: &Gpu, matrix: &Matrix, side: Side) -> Result<DeviceOperator<T>> {
    match side {
        Side::Plain => gpu.matrix_operator(matrix),
        Side::Transposed => with_precision!(matrix.precision(), I => {
            gpu.operator(transpose(gpu, &matrix.device::<I>(gpu)?)?, Sums::Wide)
        }),
    }
}
