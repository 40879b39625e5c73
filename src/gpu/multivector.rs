//! Multivectors in device memory: products (`kernels/multivector_spmv.cu`), and the operations of conjugate gradients
//! (`kernels/multivector.cu`).

use super::product::{Epilogue, GpuOperator, Precisions};
use super::runtime::{Argument, BLOCK, Kernel, View};
use super::signature::Type;
use super::vector::{MAX_PARTS, part_count};
use super::{Gpu, Slice};
use crate::backend::{MAX_VECTORS, Multivectors, Operator, PerVector};
use crate::error::Result;
use crate::scalar::{Number, Precision, Scalar};
use std::ffi::c_void;
use std::sync::Arc;

/// Results of reductions: two sums for each vector.
const SUMS: usize = 2 * MAX_VECTORS;

/// Most partial sums of a reduction; the sums follow them.
const MAX_PARTIAL_SUMS: usize = MAX_PARTS - SUMS;

/// A matrix for multivectors.
pub(super) struct MultivectorOperator {
    operator: Arc<GpuOperator>,
    kernel: Kernel,
    k: usize,
}

impl MultivectorOperator {
    /// The matrix of an operator for multivectors of `k` vectors; none where its format or precisions have no kernel.
    pub fn new(operator: Arc<GpuOperator>, k: usize) -> Option<MultivectorOperator> {
        let Precisions { storage, vector, sums } = operator.product().precisions();
        let name = operator.product().multivector_kernel()?;
        if vector != sums || !vector.is_scalar() || !matches!(k, 4 | 8) {
            return None;
        }
        let gpu = operator.product().gpu();
        let kernel = gpu.kernel(&format!("multivector_{name}_{}_{}", storage.name(), vector.name())).ok()?;
        Some(MultivectorOperator { operator, kernel, k })
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let product = self.operator.product();
        let (rows, cols) = product.shape();
        assert!(x.len() == cols * self.k && epilogue.length() == rows * self.k);
        product.gpu().failed()?;
        product.run_on_multivectors(self.kernel, self.k, x, epilogue)
    }
}

impl<X: Number, Y: Number> Operator<Gpu, X, Y> for MultivectorOperator {
    fn rows(&self) -> usize {
        self.operator.product().shape().0 * self.k
    }

    fn vectors(&self) -> usize {
        self.k
    }

    fn apply(&self, alpha: Y::Wide, x: &Slice<X>, beta: Y::Wide, y: &mut Slice<Y>) -> Result<()> {
        self.run(x.view(), &Epilogue::product(alpha.to_f64(), beta.to_f64(), y))
    }

    fn residual(&self, b: &Slice<Y>, x: &Slice<X>, r: &mut Slice<Y>) -> Result<()> {
        self.run(x.view(), &Epilogue::residual(b, r))
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width == 1
    }

    /// Partial sums are those of all vectors.
    fn apply_with_epilogue(&self, x: &Slice<X>, epilogue: Epilogue<'_>) -> Result<usize> {
        assert!(!epilogue.has_blocks());
        let blocks = self.operator.product().multivector_blocks(self.k);
        let count = blocks * self.k;
        if !epilogue.is_summed() || blocks == 0 || count > MAX_PARTIAL_SUMS {
            self.run(x.view(), &epilogue.without_sum())?;
            return Ok(0);
        }
        self.run(x.view(), &epilogue.with_parts(self.operator.product().gpu().parts(count)))?;
        Ok(count)
    }

    fn bytes(&self) -> usize {
        0
    }

    fn format(&self) -> String {
        self.operator.product().format()
    }

    fn precision(&self) -> Precision {
        self.operator.product().precisions().storage
    }
}

/// The struct of `kernels/multivector.h`.
#[repr(C)]
struct Scalars(PerVector);

// SAFETY: the layout of the struct in `kernels/multivector.h`.
unsafe impl Argument for Scalars {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<Scalars>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("PerVector")
    }
}

/// Vectors of a thread, as in `kernels/multivector_spmv.cu`.
pub(super) const OWN: usize = 4;

/// Threads of a row in formats other than SELL, as in `kernels/multivector_spmv.cu`.
pub(super) const LANES: usize = 32;

/// Blocks of so many threads.
pub(super) fn blocks_for(threads: usize) -> usize {
    threads.div_ceil(BLOCK)
}

/// The kernels of `kernels/multivector.cu`, for f64 and for f32.
pub(super) struct Kernels {
    /// By the formats of the vector and of the multivector.
    put: [[Kernel; 2]; 2],
    take: [Kernel; 2],
    dots: [Kernel; 2],
    sums: Kernel,
    direction: [Kernel; 2],
    step: [Kernel; 2],
}

impl Kernels {
    pub fn new(find: impl Fn(&str) -> Result<Kernel>) -> Result<Kernels> {
        let each = |name: &str| Ok([find(&format!("{name}_f64"))?, find(&format!("{name}_f32"))?]);
        Ok(Kernels {
            put: [each("put_vector_f64")?, each("put_vector_f32")?],
            take: each("take_vector")?,
            dots: each("multivector_dots")?,
            sums: find("multivector_sums")?,
            direction: each("multivector_direction")?,
            step: each("multivector_step")?,
        })
    }
}

/// Number of the format of a vector.
fn of<T: Scalar>() -> usize {
    usize::from(T::PRECISION == Precision::F32)
}

impl Gpu {
    fn multivector_kernels(&self) -> &Kernels {
        &self.inner.vectors.multivector
    }

    /// The sums of partial sums of `blocks` blocks, once for z·r and, with `both`, for z·q. Synchronises.
    fn multivector_sums(&self, k: usize, blocks: usize, both: bool) -> Result<(PerVector, PerVector)> {
        let (products, results) = (1 + usize::from(both), self.reduction(MAX_PARTIAL_SUMS, SUMS));
        let (count, shift, parts) = (blocks as i64, k.ilog2() as i32, self.parts(products * blocks * k));
        self.launch_blocks(self.multivector_kernels().sums, products, &[&count, &shift, &parts, &results])?;
        let mut bytes = [0; SUMS * size_of::<f64>()];
        self.read_reduction(&results, &mut bytes)?;
        let sums = bytes.as_chunks::<8>().0;
        let sum = |product: usize, c: usize| if c < k { f64::from_ne_bytes(sums[product * k + c]) } else { 0.0 };
        Ok((std::array::from_fn(|c| sum(0, c)), std::array::from_fn(|c| if both { sum(1, c) } else { 0.0 })))
    }
}

impl Multivectors for Gpu {
    fn put_vector<V: Scalar, T: Scalar>(
        &self,
        (k, c): (usize, usize),
        factor: f64,
        v: &Slice<V>,
        x: &mut Slice<T>,
    ) -> Result<()> {
        assert_eq!(k * v.len(), x.len());
        let kernel = self.multivector_kernels().put[of::<V>()][of::<T>()];
        let (n, shift, c) = (v.len() as i64, k.ilog2() as i32, c as i32);
        self.launch(kernel, v.len(), &[&n, &shift, &c, &factor, &v.view(), &x.view()])
    }

    fn take_vector<T: Scalar>(
        &self,
        (k, c): (usize, usize),
        factor: f64,
        x: &Slice<T>,
        v: &mut Slice<T>,
    ) -> Result<()> {
        assert_eq!(k * v.len(), x.len());
        let (n, shift, c) = (v.len() as i64, k.ilog2() as i32, c as i32);
        let kernel = self.multivector_kernels().take[of::<T>()];
        self.launch(kernel, v.len(), &[&n, &shift, &c, &factor, &x.view(), &v.view()])
    }

    fn multivector_dots<T: Scalar>(
        &self,
        k: usize,
        z: &Slice<T>,
        r: &Slice<T>,
        q: Option<&Slice<T>>,
    ) -> Result<(PerVector, PerVector)> {
        assert!(z.len() == r.len() && q.is_none_or(|q| q.len() == z.len()));
        self.failed()?;
        if z.is_empty() {
            return Ok(Default::default());
        }
        // No other thread may use the scratch between the launches and the copy of the result.
        let _runtime = self.runtime();
        let (n, shift, blocks) = (z.len() as i64, k.ilog2() as i32, part_count(z.len()));
        let (both, q) = (q.is_some(), q.map_or(View::NONE, Slice::view));
        let kernel = self.multivector_kernels().dots[of::<T>()];
        let parts = self.parts(2 * blocks * k);
        self.launch_blocks(kernel, blocks, &[&n, &shift, &z.view(), &r.view(), &q, &parts])?;
        self.multivector_sums(k, blocks, both)
    }

    fn multivector_direction<T: Scalar>(
        &self,
        k: usize,
        z: &Slice<T>,
        beta: &PerVector,
        p: &mut Slice<T>,
    ) -> Result<()> {
        assert_eq!(z.len(), p.len());
        let (n, shift, beta) = (z.len() as i64, k.ilog2() as i32, Scalars(*beta));
        let kernel = self.multivector_kernels().direction[of::<T>()];
        self.elementwise(kernel, z.len(), &[&n, &shift, &z.view(), &beta, &p.view()])
    }

    fn multivector_product<T: Scalar>(
        &self,
        a: &dyn Operator<Gpu, T>,
        p: &Slice<T>,
        q: &mut Slice<T>,
    ) -> Result<PerVector> {
        let k = a.vectors();
        {
            let _runtime = self.runtime();
            let count = a.apply_with_epilogue(p, Epilogue::with_dot(p, q))?;
            if count > 0 {
                return self.multivector_sums(k, count / k, false).map(|(sums, _)| sums);
            }
        }
        self.multivector_dots(k, p, q, None).map(|(sums, _)| sums)
    }

    fn multivector_step<T: Scalar>(
        &self,
        k: usize,
        alpha: &PerVector,
        (p, q): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<PerVector> {
        assert!(p.len() == x.len() && q.len() == x.len() && r.len() == x.len());
        if x.is_empty() {
            return Ok([0.0; MAX_VECTORS]);
        }
        let _runtime = self.runtime();
        let (n, shift, blocks) = (x.len() as i64, k.ilog2() as i32, part_count(x.len()));
        let (alpha, parts) = (Scalars(*alpha), self.parts(blocks * k));
        let kernel = self.multivector_kernels().step[of::<T>()];
        let arguments: [&dyn Argument; 8] = [&n, &shift, &alpha, &p.view(), &q.view(), &x.view(), &r.view(), &parts];
        self.launch_blocks(kernel, blocks, &arguments)?;
        self.multivector_sums(k, blocks, false).map(|(sums, _)| sums)
    }
}
