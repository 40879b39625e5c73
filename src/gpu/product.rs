//! Sparse matrix-vector products with an epilogue: what all formats share.

use super::multivector::MultivectorOperator;
use super::runtime::{Argument, Array, Kernel, View, tag};
use super::signature::Type;
use super::vector::MAX_PARTS;
use super::{Buffer, Gpu, Slice};
use crate::backend::{Operator, Recurrence};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use std::ffi::c_void;
use std::sync::Arc;

/// The forms of `kernels/spmv_epilogue.h`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Form {
    Product = 0,
    Add = 1,
    Residual = 2,
    Sweep = 3,
    Chebyshev = 4,
    LastChebyshev = 5,
}

/// Inner products of `kernels/spmv_epilogue.h`.
const WITH_W: i32 = 1;
const SQUARES: i32 = 2;

/// An SpMV epilogue: the struct of `kernels/spmv_epilogue.h`.
#[repr(C)]
pub struct Epilogue<'a> {
    form: i32,
    format: i32,
    diagonal: i32,
    summed: i32,
    packed: i32,
    width: i32,
    alpha: f64,
    beta: f64,
    b: Array<'a>,
    d: Array<'a>,
    p: Array<'a>,
    w: Array<'a>,
    y: Array<'a>,
    z: Array<'a>,
    parts: Array<'a>,
}

impl<'a> Epilogue<'a> {
    /// An epilogue with y alone.
    fn new<Y: Number>(form: Form, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        let none = View::NONE.array();
        Epilogue {
            form: form as i32,
            format: tag::<Y>(),
            diagonal: 0,
            summed: 0,
            packed: 0,
            width: 1,
            alpha: 1.0,
            beta: 0.0,
            b: none,
            d: none,
            p: none,
            w: none,
            y: y.view().array(),
            z: none,
            parts: none,
        }
    }

    /// y = alpha A x + beta y; y is not read when beta is 0.
    pub(super) fn product<Y: Number>(alpha: f64, beta: f64, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        let to = Epilogue::new(if beta == 0.0 { Form::Product } else { Form::Add }, y);
        Epilogue { alpha, beta, z: to.y, ..to }
    }

    /// y = b - A x.
    pub(super) fn residual<Y: Number>(b: &'a Slice<Y>, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        assert_eq!(b.len(), y.len());
        Epilogue { b: b.view().array(), ..Epilogue::new(Form::Residual, y) }
    }

    /// Results.
    pub(super) fn length(&self) -> usize {
        self.y.len()
    }

    /// Whether it has an inner product.
    pub(super) fn is_summed(&self) -> bool {
        self.summed != 0
    }

    /// The same without its inner product.
    pub(super) fn without_sum(self) -> Epilogue<'a> {
        Epilogue { summed: 0, ..self }
    }

    /// The same with its partial sums here.
    pub(super) fn with_parts(self, parts: View<'a>) -> Epilogue<'a> {
        Epilogue { parts: parts.array(), ..self }
    }

    /// y = x + D (b - A x); D may have blocks.
    pub(super) fn sweep<V: Number, S: Number>(
        k: usize,
        d: &'a Slice<S>,
        b: &'a Slice<V>,
        x: &'a Slice<V>,
        y: &'a mut Slice<V>,
    ) -> Epilogue<'a> {
        assert_eq!(b.len(), x.len());
        Epilogue {
            diagonal: tag::<S>(),
            width: width_of(k, d, x) as i32,
            b: b.view().array(),
            d: d.view().array(),
            z: x.view().array(),
            ..Epilogue::new(Form::Sweep, y)
        }
    }

    /// p = D (b - A x) + β p, y = x + α p; D may have blocks. With β x in place of β p, p is not written.
    pub(super) fn chebyshev<V: Number, S: Number>(
        k: usize,
        d: &'a Slice<S>,
        b: &'a Slice<V>,
        x: &'a Slice<V>,
        recurrence: Recurrence<'a, Slice<V>>,
        y: &'a mut Slice<V>,
    ) -> Epilogue<'a> {
        let Recurrence { alpha, beta, p, of_x, keep } = recurrence;
        assert!(p.len() == x.len() && !(of_x && keep));
        let form = if keep { Form::Chebyshev } else { Form::LastChebyshev };
        let p = if of_x { x.view() } else { p.view() };
        Epilogue { form: form as i32, alpha, beta, p: p.array(), ..Epilogue::sweep(k, d, b, x, y) }
    }

    /// y = b - A x, and y·y.
    pub(super) fn residual_with_norm<Y: Number>(b: &'a Slice<Y>, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        Epilogue { summed: SQUARES, ..Epilogue::residual(b, y) }
    }

    /// Rows of a block of threads: `rows`, rounded down to whole blocks of D. As `whole_rows` in
    /// `kernels/spmv_epilogue.h`.
    pub(super) fn whole(&self, rows: usize) -> usize {
        if self.has_blocks() { rows / self.width as usize * self.width as usize } else { rows }
    }

    /// Whether D has blocks.
    pub(super) fn has_blocks(&self) -> bool {
        self.width > 1
    }

    /// y = z + alpha A x.
    pub(super) fn add<Y: Number>(alpha: f64, z: &'a Slice<Y>, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        Epilogue { alpha, beta: 1.0, z: z.view().array(), ..Epilogue::new(Form::Add, y) }
    }

    /// y = A x, and w·y.
    pub(super) fn with_dot<Y: Number>(w: &'a Slice<Y>, y: &'a mut Slice<Y>) -> Epilogue<'a> {
        Epilogue { summed: WITH_W, w: w.view().array(), ..Epilogue::new(Form::Product, y) }
    }
}

// SAFETY: the layout of the struct in `kernels/spmv_epilogue.h`.
unsafe impl Argument for Epilogue<'_> {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<Epilogue<'_>>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("Epilogue")
    }
}

/// Rows of the blocks of D for the `k` vectors of x.
pub(super) fn width_of<S: Number, V: Number>(k: usize, d: &Slice<S>, x: &Slice<V>) -> usize {
    let width = (k * d.len() / x.len().max(1)).max(1);
    assert_eq!(k * d.len(), width * x.len());
    width
}

/// Precisions of a product, by which its kernel is chosen: of the values, of x, and of the sums, which are as wide as
/// arithmetic on the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Precisions {
    pub storage: Precision,
    pub vector: Precision,
    pub sums: Precision,
}

impl Precisions {
    /// For values of `S`, an x of `X` and a result of `Y`.
    pub fn of<S: Number, X: Number, Y: Number>() -> Precisions {
        Precisions { storage: S::PRECISION, vector: X::PRECISION, sums: Y::Wide::PRECISION }
    }

    /// The kernel of this name.
    pub fn kernel(self, gpu: &Gpu, name: &str) -> Result<Kernel> {
        let [storage, vector, sums] = [self.storage, self.vector, self.sums].map(Precision::name);
        gpu.kernel(&format!("{name}_{storage}_{vector}_{sums}"))
    }
}

/// Values of any precision in device memory, so that products are compiled once for all of them.
pub(super) struct Values(Arc<dyn AnyArray>);

/// An array of elements of some type.
trait AnyArray: Send + Sync {
    fn view(&self) -> View<'_>;
    fn owned_bytes(&self) -> usize;
}

impl<S: Number> AnyArray for Buffer<S> {
    fn view(&self) -> View<'_> {
        View::of(self)
    }

    fn owned_bytes(&self) -> usize {
        Buffer::owned_bytes(self)
    }
}

impl Values {
    /// As kernels take them.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// As in [`Buffer::owned_bytes`].
    pub fn owned_bytes(&self) -> usize {
        self.0.owned_bytes()
    }
}

impl<S: Number> From<Arc<Buffer<S>>> for Values {
    fn from(array: Arc<Buffer<S>>) -> Values {
        Values(array)
    }
}

impl<S: Number> From<Buffer<S>> for Values {
    fn from(array: Buffer<S>) -> Values {
        Values(Arc::new(array))
    }
}

/// A matrix in device memory.
pub(super) trait Product: Send + Sync {
    /// The device of the matrix.
    fn gpu(&self) -> &Gpu;
    /// The precisions of its kernel.
    fn precisions(&self) -> Precisions;
    /// Scalar rows and columns.
    fn shape(&self) -> (usize, usize);
    /// Blocks of threads of the launch.
    fn blocks(&self, epilogue: &Epilogue<'_>) -> usize;
    /// As in [`Operator::has_epilogue`], for blocks of more than one row.
    fn has_epilogue(&self, _width: usize) -> bool {
        false
    }
    /// Runs the kernel; x has as many elements as the matrix has columns.
    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()>;
    /// The name of its kernel for multivectors in `kernels/multivector_spmv.cu`, if it has one.
    fn multivector_kernel(&self) -> Option<&str> {
        None
    }
    /// Blocks of threads of a launch of that for `k` vectors.
    fn multivector_blocks(&self, _k: usize) -> usize {
        unreachable!("the format has no kernel for multivectors")
    }
    /// Runs that for `k` vectors.
    fn run_on_multivectors(&self, _kernel: Kernel, _k: usize, _x: View<'_>, _epilogue: &Epilogue<'_>) -> Result<()> {
        unreachable!("the format has no kernel for multivectors")
    }
    /// As in [`Operator::bytes`].
    fn bytes(&self) -> usize;
    /// As in [`Operator::format`].
    fn format(&self) -> String;
}

/// A matrix as an operator on vectors of the precisions that its kernel is for.
pub(super) fn operator<X: Number, Y: Number>(product: impl Product + 'static) -> Box<dyn Operator<Gpu, X, Y>> {
    operator_of(Box::new(product))
}

/// The same.
pub(super) fn operator_of<X: Number, Y: Number>(product: Box<dyn Product>) -> Box<dyn Operator<Gpu, X, Y>> {
    let Precisions { vector, sums, .. } = product.precisions();
    assert_eq!((vector, sums), (X::PRECISION, Y::Wide::PRECISION));
    Box::new(GpuOperator(product))
}

/// Alignment in bytes for packs of rows in `kernels/spmv_epilogue.h`; vectors of the caller may have any alignment.
const PACK: u64 = 32;

/// The operator of a matrix in device memory.
pub(super) struct GpuOperator(Box<dyn Product>);

impl GpuOperator {
    /// The matrix.
    pub fn product(&self) -> &dyn Product {
        &*self.0
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, cols) = self.0.shape();
        assert!(x.len() == cols && epilogue.y.len() == rows);
        self.0.gpu().failed()?;
        let together = [epilogue.b, epilogue.d, epilogue.p, epilogue.w, epilogue.y, epilogue.z]
            .iter()
            .fold(0, |all, v| all | v.address());
        let packed = i32::from(together % PACK == 0);
        self.0.run(x, &Epilogue { packed, ..*epilogue })
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width == 1 || self.0.has_epilogue(width)
    }

    fn apply_with_epilogue(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<usize> {
        assert!(self.has_epilogue(epilogue.width as usize));
        let blocks = self.0.blocks(epilogue);
        if epilogue.summed == 0 || blocks == 0 || blocks > MAX_PARTS {
            self.run(x, &Epilogue { summed: 0, ..*epilogue })?;
            return Ok(0);
        }
        self.run(x, &Epilogue { parts: self.0.gpu().parts(blocks).array(), ..*epilogue })?;
        Ok(blocks)
    }
}

impl<X: Number, Y: Number> Operator<Gpu, X, Y> for GpuOperator {
    fn rows(&self) -> usize {
        self.0.shape().0
    }

    fn apply(&self, alpha: Y::Wide, x: &Slice<X>, beta: Y::Wide, y: &mut Slice<Y>) -> Result<()> {
        self.run(x.view(), &Epilogue::product(alpha.to_f64(), beta.to_f64(), y))
    }

    fn residual(&self, b: &Slice<Y>, x: &Slice<X>, r: &mut Slice<Y>) -> Result<()> {
        self.run(x.view(), &Epilogue::residual(b, r))
    }

    fn has_epilogue(&self, width: usize) -> bool {
        GpuOperator::has_epilogue(self, width)
    }

    fn apply_with_epilogue(&self, x: &Slice<X>, epilogue: Epilogue<'_>) -> Result<usize> {
        GpuOperator::apply_with_epilogue(self, x.view(), &epilogue)
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Gpu, X, Y>>> {
        Some(Arc::new(MultivectorOperator::new(self, k)?))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn format(&self) -> String {
        self.0.format()
    }

    fn precision(&self) -> Precision {
        self.0.precisions().storage
    }
}
