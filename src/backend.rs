//! The contract between mathematics and hardware. Cycle and Krylov methods are written once over it; each backend
//! says where vectors live and how operators act on them.

pub(crate) mod affinity;
pub(crate) mod common;
pub(crate) mod components;
pub(crate) mod dilu;
pub(crate) mod fsai;
pub(crate) mod ilu0;
mod krylov;
pub(crate) mod least_squares;
mod multivector;
pub mod parameters;
pub(crate) mod reorder;
pub(crate) mod setup;
mod smoother;
pub mod spectrum;

use crate::error::Result;
use crate::range::Range;
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::sparse::{Coloured, ColouredStencil, OwnRows, SharedCsr, SharedStencil, SharedTransfer};
use std::ops::DerefMut;
use std::sync::Arc;

pub use krylov::{ArnoldiBasis, Beta, BicgstabScalars, BicgstabStep, CgScalars, CgStep, NarrowPreconditioner};
pub use multivector::{MAX_VECTORS, Multivectors, PerVector};
pub use smoother::{Colours, Smoother, Sweep};

/// Memory of vectors, and the operations on them. Arithmetic on 16-bit vectors is in f32.
pub trait Backend: Clone + Send + Sync + 'static {
    /// A borrowed vector; a caller's array can be used as one without a copy.
    type Slice<T: Number>: ?Sized + Send + Sync;
    /// A vector owned by the library.
    type Buffer<T: Number>: DerefMut<Target = Self::Slice<T>> + Send + Sync;
    /// The power of two by which a vector was multiplied to bring it into the range of its format.
    type RangeFactor: Send + Sync;
    /// The SpMV epilogues of this backend; empty where no operator [has one](Operator::has_epilogue).
    type Epilogue<'a>;
    /// See [`CgStep`].
    type CgStep: CgStep<Self>;
    /// See [`ArnoldiBasis`].
    type ArnoldiBasis<T: Scalar>: ArnoldiBasis<Self, T>;
    /// See [`BicgstabStep`].
    type BicgstabStep: BicgstabStep<Self>;
    /// Whether reductions are readable without a synchronisation, so that a cycle may check its vectors.
    const HAS_IMMEDIATE_REDUCTIONS: bool = true;

    /// A vector of generic type as one of a concrete type.
    fn any_ref<T: Scalar>(x: &Self::Slice<T>) -> AnyRef<'_, Self>;
    /// As [`Backend::any_ref`], for a mutable vector.
    fn any_mut<T: Scalar>(x: &mut Self::Slice<T>) -> AnyMut<'_, Self>;
    /// The first failure of an operation that returns nothing, such as a launch.
    fn status(&self) -> Result<()> {
        Ok(())
    }
    /// Whether each of several ranks has a part of every vector. Reductions are then collective, and do not depend on the
    /// parts.
    fn is_distributed(&self) -> bool {
        false
    }
    /// How many of the `n` elements of a vector of a level are here.
    fn local(&self, n: usize) -> usize {
        n
    }
    /// Elements on all ranks of a vector of the finest level, of which `n` are here.
    fn whole(&self, n: usize) -> usize {
        n
    }
    /// Whether it is so on any rank.
    fn any(&self, here: bool) -> bool {
        here
    }
    /// A vector of `n` zeros.
    fn zeros<T: Number>(&self, n: usize) -> Result<Self::Buffer<T>>;
    /// x = value.
    fn fill<T: Number>(&self, value: T, x: &mut Self::Slice<T>);
    /// y = x, in the precision of y.
    fn copy<T: Number, U: Number>(&self, x: &Self::Slice<T>, y: &mut Self::Slice<U>);
    /// x = alpha x.
    fn scale<T: Number>(&self, alpha: T::Wide, x: &mut Self::Slice<T>);
    /// y = alpha x + beta y; y is not read when beta is 0.
    fn axpby<T: Number>(&self, alpha: T::Wide, x: &Self::Slice<T>, beta: T::Wide, y: &mut Self::Slice<T>);
    /// y += D x for a diagonal D, or one of square blocks, each stored row by row: d is as many times longer than one of
    /// the `k` [interleaved](Operator::for_multivectors) vectors of x as a block has rows. Any storage format.
    fn add_scaled_by<T: Number, S: Number>(
        &self,
        k: usize,
        d: &Self::Slice<S>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<T>,
    );
    /// y = D x, with D as for [`Backend::add_scaled_by`].
    fn scale_by<T: Number, S: Number>(&self, k: usize, d: &Self::Slice<S>, x: &Self::Slice<T>, y: &mut Self::Slice<T>);
    /// y = factor D x in the precision of y, where D is a diagonal or absent. The multiplications are in f64. Backends
    /// with immediate reductions return the max norm before y is rounded to its format, NaN when there is one.
    fn convert<T: Number, U: Number>(
        &self,
        factor: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// A factor of 1.
    fn range_factor(&self) -> Result<Self::RangeFactor>;
    /// As [`Backend::convert`], with `shift` times the power of two that brings the max norm into the range; 1 where it
    /// is in range. Where the range is exact, it is no power of two. It is stored in the factor. Returns the max norm without it.
    fn convert_into_range<T: Number, U: Number>(
        &self,
        guard: (&Range, &mut Self::RangeFactor),
        shift: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// As [`Backend::convert`], with `shift` divided by the factor.
    fn convert_from_range<T: Number, U: Number>(
        &self,
        factor: &Self::RangeFactor,
        shift: f64,
        d: Option<&Self::Slice<f32>>,
        x: &Self::Slice<T>,
        y: &mut Self::Slice<U>,
    ) -> Option<f64>;
    /// The max norm, NaN when there is one.
    fn max_norm<T: Number>(&self, x: &Self::Slice<T>) -> f64;
    /// The inner product, accumulated in f64 in a fixed order.
    fn dot<T: Number>(&self, x: &Self::Slice<T>, y: &Self::Slice<T>) -> f64;
    /// The inner products of y with each of xs and with itself, as [`Backend::dot`] accumulates them.
    fn dots<T: Number>(&self, xs: &[Self::Buffer<T>], y: &Self::Slice<T>, products: &mut [f64]) {
        one_dot_after_the_other(self, xs, y, products);
    }
    /// A vector of `n` elements of the finest level here, with random numbers between -1 and 1: they are hashes of the number of the element on all
    /// ranks, and of the seed.
    fn random<T: Scalar>(&self, n: usize, seed: u64) -> Result<Self::Buffer<T>>;
    /// y = x + D (b - A x) for a diagonal D in any storage format, without blocks or with blocks for which the operator
    /// [has an epilogue](Operator::has_epilogue).
    fn sweep<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        d: &Self::Slice<S>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        y: &mut Self::Slice<V>,
    ) -> Result<()>;
    /// One step of the Chebyshev recurrence with a known residual: p = D r + β p, x += α p, with D as for
    /// [`Backend::add_scaled_by`]. p is not read when β is 0. With `zero_guess` x is not read and becomes α p. β multiplies
    /// p, whatever [`Recurrence::of_x`] is.
    fn chebyshev_update<V: Number, S: Number>(
        &self,
        k: usize,
        d: &Self::Slice<S>,
        r: &Self::Slice<V>,
        recurrence: Recurrence<'_, Self::Slice<V>>,
        x: &mut Self::Slice<V>,
        zero_guess: bool,
    );
    /// One step of the Chebyshev iteration: p = D (b - A x) + β p, y = x + α p, with D as for [`Backend::sweep`]. p is
    /// not read when β is 0.
    fn chebyshev<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        d: &Self::Slice<S>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        recurrence: Recurrence<'_, Self::Slice<V>>,
        y: &mut Self::Slice<V>,
    ) -> Result<()>;
    /// r = b - A x, and its Euclidean norm, accumulated as in [`Backend::dot`], perhaps in another order.
    fn residual_norm<V: Number>(
        &self,
        a: &dyn Operator<Self, V>,
        b: &Self::Slice<V>,
        x: &Self::Slice<V>,
        r: &mut Self::Slice<V>,
    ) -> Result<f64> {
        a.residual(b, x, r)?;
        Ok(self.norm(r))
    }
    /// y = z + alpha A x.
    fn add_product<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Self, X, Y>,
        alpha: Y::Wide,
        x: &Self::Slice<X>,
        z: &Self::Slice<Y>,
        y: &mut Self::Slice<Y>,
    ) -> Result<()>;
    /// x += α e for the α by which the norm of the error or residual after it is least, given the residual r before it and w = A e. α is 1 where no α
    /// is the best: w is zero, or the matrix is not positive definite along e.
    fn add_scaled_error<T: Number>(
        &self,
        norm: ErrorNorm,
        r: &Self::Slice<T>,
        (e, w): (&Self::Slice<T>, &Self::Slice<T>),
        x: &mut Self::Slice<T>,
    ) -> Result<()> {
        add_error_scaled_by_dots(self, norm, r, (e, w), x);
        Ok(())
    }
    /// The scalars of conjugate gradients, and their workspace.
    fn cg_step(&self) -> Result<Self::CgStep>;
    /// Storage for a Krylov basis of `m` vectors of `n` elements. A `flexible` method also stores M v for each basis
    /// vector v.
    fn arnoldi_basis<T: Scalar>(&self, n: usize, m: usize, flexible: bool) -> Result<Self::ArnoldiBasis<T>>;
    /// The scalars of BiCGStab, and their workspace.
    fn bicgstab_step(&self) -> Result<Self::BicgstabStep>;
    /// The Euclidean norm.
    fn norm<T: Number>(&self, x: &Self::Slice<T>) -> f64 {
        self.dot(x, x).sqrt()
    }
}

/// What a factor of a correction minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorNorm {
    /// The energy norm of the error: α = r·e / e·w.
    Energy,
    /// The Euclidean norm of the residual: α = r·w / w·w.
    Residual,
}

/// [`Backend::add_scaled_error`] with inner products that the host reads.
pub(crate) fn add_error_scaled_by_dots<B: Backend, T: Number>(
    backend: &B,
    norm: ErrorNorm,
    r: &B::Slice<T>,
    (e, w): (&B::Slice<T>, &B::Slice<T>),
    x: &mut B::Slice<T>,
) {
    let y = if norm == ErrorNorm::Energy { e } else { w };
    let (dividend, divisor) = (backend.dot(r, y), backend.dot(w, y));
    // As in `kernels/error_scaling.cu`.
    let alpha = if divisor > 0.0 { dividend / divisor } else { 1.0 };
    backend.axpby(T::Wide::from_f64(alpha), e, T::Wide::ONE, x);
}

/// [`Backend::dots`] by [`Backend::dot`].
pub(crate) fn one_dot_after_the_other<B: Backend, T: Number>(
    backend: &B,
    xs: &[B::Buffer<T>],
    y: &B::Slice<T>,
    products: &mut [f64],
) {
    for (product, x) in products.iter_mut().zip(xs.iter().map(|x| &**x).chain([y])) {
        *product = backend.dot(x, y);
    }
}

/// The coefficients and the direction p of a step of the Chebyshev recurrence.
pub struct Recurrence<'a, P: ?Sized> {
    /// α.
    pub alpha: f64,
    /// β.
    pub beta: f64,
    /// The direction.
    pub p: &'a mut P,
    /// Whether β multiplies x in place of p, which is not read: after a step from a zero guess x is a multiple of p.
    pub of_x: bool,
    /// Whether a later step reads p; otherwise it need not be written.
    pub keep: bool,
}

impl<'a, P: ?Sized> Recurrence<'a, P> {
    /// A step that reads and writes p.
    pub fn new(alpha: f64, beta: f64, p: &'a mut P) -> Recurrence<'a, P> {
        Recurrence { alpha, beta, p, of_x: false, keep: true }
    }
}

/// A vector of either type.
pub enum AnyRef<'a, B: Backend> {
    /// f64.
    F64(&'a B::Slice<f64>),
    /// f32.
    F32(&'a B::Slice<f32>),
}

/// A mutable vector of either type.
pub enum AnyMut<'a, B: Backend> {
    /// f64.
    F64(&'a mut B::Slice<f64>),
    /// f32.
    F32(&'a mut B::Slice<f32>),
}

/// Column indices of a stored matrix on the host; other backends have formats of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// In 32 bits, shared with the matrix.
    Shared,
    /// In 16 bits where that saves enough.
    Compact,
}

/// Stores arrays and matrices of the host on this backend.
pub trait StorageFactory: Backend {
    /// Whether vectors are whole here, and not divided over ranks.
    fn has_whole_vectors(&self) -> bool {
        true
    }
    /// Stores an array; over ranks the part of this rank.
    fn array<S: Number>(&self, values: Vec<S>) -> Result<Self::Buffer<S>>;
    /// Stores an array that is the part of this rank.
    fn own_array<S: Number>(&self, values: Vec<S>) -> Result<Self::Buffer<S>>;
    /// Stores a matrix as an operator.
    fn matrix<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Self, X, Y>>> {
        self.matrix_of_level(matrix, columns, sums, &mut None)
    }
    /// The same for a matrix whose values may be updated: over ranks, `rows` is what was found for the same pattern
    /// before, or is set to it.
    fn matrix_of_level<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedCsr<S>,
        columns: Columns,
        sums: Sums,
        rows: &mut Option<OwnRows>,
    ) -> Result<Box<dyn Operator<Self, X, Y>>>;
    /// A matrix on a structured grid.
    fn stencil<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedStencil<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Self, X, Y>>>;
    /// A transfer between structured grids.
    fn grid_transfer<S: Number, X: Number, Y: Number>(
        &self,
        matrix: SharedTransfer<S>,
        sums: Sums,
    ) -> Result<Box<dyn Operator<Self, X, Y>>>;
    /// A dense matrix of `n` rows and columns, row by row, as an operator.
    fn dense<S: Number, V: Number>(&self, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<Self, V>>>;
    /// The inverse of a matrix by a sparse factorisation. None where the backend has none or the matrix does not allow it.
    fn factorised<T: Scalar, V: Number>(&self, _a: &SharedCsr<T>) -> Result<Option<Box<dyn Operator<Self, V>>>> {
        Ok(None)
    }
    /// A coloured matrix, for Gauss-Seidel.
    fn colours<S: Number, V: Number>(&self, matrix: Coloured<S>) -> Result<Box<dyn Colours<Self, V>>>;
    /// A matrix on a structured grid, for Gauss-Seidel.
    fn stencil_colours<S: Number, V: Number>(&self, matrix: ColouredStencil<S>) -> Result<Box<dyn Colours<Self, V>>>;
}

/// What one of several ranks has of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnPart {
    /// Rows.
    pub rows: usize,
    /// Stored values.
    pub nonzeros: usize,
    /// Bytes that it receives for a product.
    pub received: usize,
    /// Ranks that it receives them from.
    pub neighbours: usize,
}

/// A linear map from vectors of precision `X` to vectors of precision `Y`.
pub trait Operator<B: Backend, X: Number, Y: Number = X>: Send + Sync {
    /// Length of the result.
    fn rows(&self) -> usize;
    /// y = alpha A x + beta y; y is not read when beta is 0. Fails only when a caller's callback does.
    fn apply(&self, alpha: Y::Wide, x: &B::Slice<X>, beta: Y::Wide, y: &mut B::Slice<Y>) -> Result<()>;
    /// r = b - A x.
    fn residual(&self, b: &B::Slice<Y>, x: &B::Slice<X>, r: &mut B::Slice<Y>) -> Result<()>;
    /// Whether [`Backend::sweep`] and [`Backend::chebyshev`] are SpMV epilogues, one pass over this matrix, for
    /// diagonal blocks of this many rows; 1 is a diagonal.
    fn has_epilogue(&self, _width: usize) -> bool {
        false
    }
    /// A x with an epilogue, for operators that have one. Returns the number of partial sums of the epilogue's inner
    /// product, 0 where it was not computed.
    fn apply_with_epilogue(&self, _x: &B::Slice<X>, _epilogue: B::Epilogue<'_>) -> Result<usize> {
        unreachable!("the operator has no epilogue")
    }
    /// Vectors of the multivectors that it multiplies with; 1 is a vector.
    fn vectors(&self) -> usize {
        1
    }
    /// The same matrix, to be multiplied with multivectors of `k` vectors. They are interleaved: element i of vector c has
    /// index i k + c. A row of the matrix is read once for all of them. None where there is no such product.
    fn for_multivectors(self: Arc<Self>, _k: usize) -> Option<Arc<dyn Operator<B, X, Y>>> {
        None
    }
    /// Whether a product can be captured in a graph; not that of a callback.
    fn is_capturable(&self) -> bool {
        true
    }
    /// What this rank has of a matrix over ranks.
    fn own_part(&self) -> Option<OwnPart> {
        None
    }
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
    /// Storage format, for reports.
    fn format(&self) -> String;
    /// Storage precision, for reports.
    fn precision(&self) -> Precision;
}

/// An approximate inverse.
pub trait Preconditioner<B: Backend, T: Scalar>: Send {
    /// z = M r.
    fn apply(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<()>;
    /// Whether M is the same symmetric operator in every application, to rounding in `T`.
    fn is_constant_symmetric(&self) -> bool;
    /// Whether an application can be captured as a graph: its launches do not depend on values, and the host reads no
    /// result in between.
    fn is_capturable(&self) -> bool {
        false
    }
    /// Allocates what [`Preconditioner::apply_to_multivectors`] needs for `k` vectors; false where it cannot be applied to
    /// several at once.
    fn prepare_multivectors(&mut self, _k: usize) -> Result<bool> {
        Ok(false)
    }
    /// z = M r for each of the interleaved vectors of r that it was prepared for.
    fn apply_to_multivectors(&mut self, _r: &B::Slice<T>, _z: &mut B::Slice<T>) -> Result<()> {
        unreachable!("it was not prepared for multivectors")
    }
    /// The operator of its finest level, when that is the caller's matrix without scaling, so that a solver can share
    /// it.
    fn operator(&self) -> Option<Arc<dyn Operator<B, T>>> {
        None
    }
    /// The preconditioner with its residual and result left in its own vectors, where these are narrower than `T` and
    /// the backend fuses the conversions.
    fn narrow(&mut self) -> Option<&mut dyn NarrowPreconditioner<B, T>> {
        None
    }
    /// Describes the narrowest format in it, when that is narrower than its matrix.
    fn narrowest(&self) -> Option<String> {
        None
    }
    /// After a failure: applies it to r, and fails with `PrecisionLost` where the result is not finite. For backends
    /// that do not check results while it is applied.
    fn examine(&mut self, _r: &B::Slice<T>) -> Result<()> {
        Ok(())
    }
    /// Stores it in wider formats after a failure for this reason; false when no wider format is allowed.
    fn widen(&mut self, _reason: &str) -> Result<bool> {
        Ok(false)
    }
}
