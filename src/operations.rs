//! Operations on matrices as callers ask for them: products, transposes, and products with vectors. They run where the context works, and so
//! is the result.

use crate::backend::Backend;
use crate::context::Context;
use crate::error::{Error, Result, fail};
pub use crate::gpu::setup::spgemm_tiles::ProductMethod;
use crate::gpu::setup::{DeviceCsr, spgemm_tiles, transpose};
use crate::gpu::{self, Gpu, Indices, Slice};
use crate::host::{self, Host};
use crate::matrix::{DeviceMatrix, Matrix, MatrixBackend, Side};
use crate::scalar::{Precision, Scalar, with_precision};
use crate::sparse::{Csr, Offsets, SharedCsr};

/// An error that is about the transpose of the caller's matrix.
pub(crate) fn of_transpose(mut error: Error) -> Error {
    error.message = format!("transposed matrix: {}", error.message);
    error
}

impl Matrix {
    /// The product of this matrix and another one, columns ascending in each row; f64 when one of them is. Zeros that sums give are kept.
    pub fn multiply(&self, context: &Context, other: &Matrix) -> Result<Matrix> {
        self.multiply_by(context, other, ProductMethod::Auto)
    }

    /// The same by a method of choice, which the host has not.
    pub fn multiply_by(&self, context: &Context, other: &Matrix, method: ProductMethod) -> Result<Matrix> {
        self.check_not_distributed("a product of matrices")?;
        other.check_not_distributed("a product of matrices")?;
        if self.cols() != other.rows() {
            let (cols, rows) = (self.cols(), other.rows());
            return fail!(
                SizeMismatch,
                "the left matrix has {cols} columns and the right one {rows} rows; they must agree"
            );
        }
        let (left, right) = (self.block().rows, other.block().rows);
        if left != right {
            return fail!(
                SizeMismatch,
                "the left matrix has blocks of {left} rows and the right one of {right}; they must agree"
            );
        }
        let narrow = self.precision() == Precision::F32 && other.precision() == Precision::F32;
        let precision = if narrow { Precision::F32 } else { Precision::F64 };
        with_precision!(precision, T => match context.gpu() {
            Some(gpu) if gpu::IS_BUILT => on_device(gpu, || {
                spgemm_tiles::multiply(gpu, &self.device::<T>(gpu)?, &other.device::<T>(gpu)?, method)
            }),
            _ => {
                let (a, b) = (self.shared::<T>()?, other.shared::<T>()?);
                let work = self.entries() + other.entries();
                Matrix::computed(context.run(work, || multiply_on_host(&a, &b))?)
            }
        })
    }

    /// The transpose, columns ascending in each row.
    pub fn transpose(&self, context: &Context) -> Result<Matrix> {
        self.check_not_distributed("the transpose")?;
        with_precision!(self.precision(), T => match context.gpu() {
            Some(gpu) if gpu::IS_BUILT => on_device(gpu, || transpose::transpose(gpu, &self.device::<T>(gpu)?)),
            _ => {
                let a = self.shared::<T>()?;
                Matrix::computed(context.run(self.entries(), || host::transpose::transpose(&a.view()))?)
            }
        })
    }

    /// The transpose with the near-null space of this matrix. It counts as many changes of its values.
    pub(crate) fn transposed_copy(&self, context: &Context) -> Result<Matrix> {
        let changes = self.changes(context)?;
        let transpose = self.transpose(context)?;
        transpose.take_unknowns_of(self);
        transpose.set_stencil(self.stencil().map(|stencil| stencil.transposed().map(std::sync::Arc::new)).transpose()?);
        transpose.set_changes(changes);
        Ok(transpose)
    }

    /// Takes over the values of a matrix of which this is the [`Matrix::transposed_copy`], if they have changed.
    pub(crate) fn update_transposed_copy(&self, of: &Matrix, context: &Context) -> Result<()> {
        let changes = of.changes(context)?;
        if changes == self.known_changes() {
            return Ok(());
        }
        of.recheck_values(context)?;
        self.take_values(&of.transpose(context)?)?;
        self.set_changes(changes);
        Ok(())
    }

    /// y = alpha A x + beta y for vectors on the host; y is not read when beta is 0.
    pub fn apply<T: Scalar>(&self, context: &Context, alpha: f64, x: &[T], beta: f64, y: &mut [T]) -> Result<()> {
        self.check_not_distributed("a product with a vector")?;
        assert!(x.len() == self.cols() && y.len() == self.rows());
        if let Some(gpu) = context.gpu().filter(|_| gpu::IS_BUILT) {
            return self.apply_for_host(context, gpu, Side::Plain, (alpha, x), (beta, y));
        }
        let operator = Host::new(context).matrix_operator::<T>(self)?;
        operator.apply(wide::<T>(alpha), x, wide::<T>(beta), y)
    }

    /// y = alpha Aᵀ x + beta y for vectors on the host; y is not read when beta is 0. A GPU transposes the matrix at the first product; the
    /// host does not.
    pub fn apply_transposed<T: Scalar>(
        &self,
        context: &Context,
        alpha: f64,
        x: &[T],
        beta: f64,
        y: &mut [T],
    ) -> Result<()> {
        self.check_not_distributed("a product with a vector")?;
        assert!(x.len() == self.rows() && y.len() == self.cols());
        if let Some(gpu) = context.gpu().filter(|_| gpu::IS_BUILT) {
            return self.apply_for_host(context, gpu, Side::Transposed, (alpha, x), (beta, y));
        }
        let (alpha, beta) = (wide::<T>(alpha), wide::<T>(beta));
        with_precision!(self.precision(), I => {
            let a = self.shared::<I>()?;
            context.run(self.entries(), || host::spmv_transposed::apply(&a.view(), alpha, x, beta, y))
        })
    }

    /// On a GPU for vectors of the host.
    fn apply_for_host<T: Scalar>(
        &self,
        context: &Context,
        gpu: &Gpu,
        side: Side,
        (alpha, x): (f64, &[T]),
        (beta, y): (f64, &mut [T]),
    ) -> Result<()> {
        let x = gpu.upload(x)?;
        let mut result = if beta == 0.0 { gpu.zeros(y.len())? } else { gpu.upload(y)? };
        self.apply_on_device(context, side, (alpha, &x), (beta, &mut result))?;
        gpu.read(&result, y)
    }

    /// y = alpha A x + beta y, or with Aᵀ, for vectors in the memory of the context's GPU; they are used in the order of the stream.
    pub(crate) fn apply_on_device<T: Scalar>(
        &self,
        context: &Context,
        side: Side,
        (alpha, x): (f64, &Slice<T>),
        (beta, y): (f64, &mut Slice<T>),
    ) -> Result<()> {
        self.operator_on(context, side)?.apply(wide::<T>(alpha), x, wide::<T>(beta), y)
    }

    /// Copies row offsets or columns, counted from `base`, on the GPU where the matrix is.
    pub(crate) fn export_indices(&self, gpu: &Gpu, offsets: bool, base: i32, to: &Indices) -> Result<()> {
        with_precision!(self.precision(), T => gpu.export_indices(&self.device::<T>(gpu)?, offsets, base, to))
    }

    /// Copies the values on the GPU where the matrix is.
    pub(crate) fn export_values<T: Scalar>(&self, gpu: &Gpu, to: &mut Slice<T>) -> Result<()> {
        with_precision!(self.precision(), I => gpu.copy(&self.device::<I>(gpu)?.values, to));
        gpu.status()
    }
}

fn wide<T: Scalar>(v: f64) -> T::Wide {
    T::Wide::from_f64(v)
}

/// The product on the host, whose right factor is in the library's own types.
fn multiply_on_host<T: Scalar>(a: &SharedCsr<T>, b: &SharedCsr<T>) -> Result<Csr<T>> {
    let right = b.view();
    if matches!(right.offsets, Offsets::I64(_)) && right.base == 0 {
        return host::spgemm::multiply(&a.view(), &right);
    }
    host::spgemm::multiply(&a.view(), &right.to_owned_as::<T>()?.view())
}

/// A matrix that is computed in device memory.
fn on_device<T: Scalar>(gpu: &Gpu, work: impl FnOnce() -> Result<DeviceCsr<T>>) -> Result<Matrix>
where
    DeviceMatrix: From<DeviceCsr<T>>,
{
    let matrix = Matrix::computed_on_device(gpu, DeviceMatrix::from(work()?));
    gpu.end_call()?;
    Ok(matrix)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::gallery;
    use crate::matrix::Values;
    use crate::sparse::Block;
    use std::sync::Arc;

    fn contexts() -> Vec<Context> {
        let names = ["host:2", "sim"];
        names.iter().map(|name| Context::new(name).unwrap()).collect()
    }

    fn arrays(matrix: &Matrix) -> Csr<f64> {
        matrix.shared::<f64>().unwrap().view().to_owned_as().unwrap()
    }

    #[test]
    fn products_and_transposes_are_the_same_everywhere() {
        let a = Arc::new(gallery::parse("convection_diffusion:8").unwrap().into_matrix().unwrap());
        let on_host = &contexts()[0];
        let (square, transposed) = (a.multiply(on_host, &a).unwrap(), a.transpose(on_host).unwrap());
        let (x, mut y) = (vec![1.0; a.rows()], vec![2.0; a.rows()]);
        transposed.apply(on_host, 2.0, &x, -1.0, &mut y).unwrap();
        let mut sums = vec![-2.0; a.rows()];
        let own = arrays(&a);
        for (j, v) in own.columns.iter().zip(&own.values) {
            sums[*j as usize] += 2.0 * v;
        }
        assert!(y.iter().zip(&sums).all(|(y, s)| (y - s).abs() < 1e-12));
        for context in contexts() {
            let (again, back) = (a.multiply(&context, &a).unwrap(), transposed.transpose(&context).unwrap());
            assert_eq!(arrays(&again), arrays(&square));
            assert_eq!(arrays(&back), arrays(&a));
            for _ in 0..2 {
                let mut on_device = vec![2.0; a.rows()];
                transposed.apply(&context, 2.0, &x, -1.0, &mut on_device).unwrap();
                assert!(on_device.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-12));
            }
            // Both factors where the context works.
            let square_of_square = again.multiply(&context, &again).unwrap();
            assert_eq!((square_of_square.rows(), square_of_square.precision()), (a.rows(), Precision::F64));
        }
    }

    #[test]
    fn new_values_are_multiplied_with_once_the_matrix_has_them() {
        for context in contexts() {
            let a =
                Matrix::from_csr(Csr::from_triplets(2, 2, &[(0, 0, 2.0), (1, 0, 1.0), (1, 1, 3.0)]).unwrap()).unwrap();
            let mut y = [0.0; 2];
            a.apply(&context, 1.0, &[1.0, 1.0], 0.0, &mut y).unwrap();
            assert_eq!(y, [2.0, 4.0]);
            a.update_values(Values::from(vec![5.0, 1.0, 1.0])).unwrap();
            a.apply(&context, 1.0, &[1.0, 1.0], 1.0, &mut y).unwrap();
            assert_eq!(y, [7.0, 6.0]);
        }
    }

    #[test]
    fn what_set_up_cannot_use_is_refused_there() {
        // [0 1; -1 0] is the square of nothing that set-up takes, but it is a matrix.
        let a = Csr::from_triplets(2, 3, &[(0, 0, 1.0), (1, 1, 1.0)]).unwrap();
        let b = Csr::from_triplets(3, 2, &[(0, 1, 1.0), (1, 0, -1.0), (1, 1, 0.0)]).unwrap();
        let (a, b) = (Matrix::from_csr(a).unwrap(), Matrix::from_csr(b).unwrap());
        for context in contexts() {
            let product = Arc::new(a.multiply(&context, &b).unwrap());
            assert_eq!(arrays(&product).values, [1.0, -1.0, 0.0]);
            let mut config = crate::Config::new();
            config.set_str("solver.preconditioner", "amg").unwrap();
            let mut solver = crate::Solver::new(&context, &config);
            assert_eq!(solver.setup(Some(&product)).unwrap_err().status, Status::MatrixValues);
            assert_eq!(b.multiply(&context, &b).map(|_| ()).unwrap_err().status, Status::SizeMismatch);
        }
        let blocks =
            Csr { values: vec![1.0_f64; 4], ..Csr::with_pattern(1, 1, Block::square(2), vec![0, 1], vec![0]).unwrap() };
        let scalars = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, 1, 1.0)]).unwrap();
        let (blocks, scalars) = (Matrix::from_csr(blocks).unwrap(), Matrix::from_csr(scalars).unwrap());
        let refused = blocks.multiply(&contexts()[0], &scalars).map(|_| ()).unwrap_err();
        assert!(refused.message.contains("blocks of 2 rows and the right one of 1"), "{}", refused.message);
    }
}
