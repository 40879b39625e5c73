//! Vector operations of the GPU backend. Inner products are summed in an order that follows from the length alone, and accumulated in f64.

use super::runtime::{Argument, BLOCK, Kernel, Runtime, View};
use super::{Buffer, Gpu, Slice};
use crate::backend::{AnyMut, AnyRef, Backend};
use crate::error::{Result, fail};
use crate::scalar::{Number, Precision, Scalar};
use std::any::Any;

/// Most parts of an inner product.
pub(super) const MAX_PARTS: usize = 1024;

/// Elements of each thread, as in `kernels/portability.h`; in an inner product when there are not too many parts.
const ELEMENTS: usize = 4;

/// Precisions that vectors have here.
const VECTORS: [Precision; 2] = [Precision::F64, Precision::F32];

/// The kernels of `kernels/vector.cu`, by the positions of their precisions in [`VECTORS`] and [`Precision::ALL`].
pub(super) struct Kernels {
    fill: [Kernel; 2],
    cast: [[Kernel; 2]; 2],
    scale: [Kernel; 2],
    axpby: [Kernel; 2],
    diagonal: [[Kernel; 2]; 4],
    rescale: [[Kernel; 2]; 2],
    peak: [Kernel; 2],
    peak_finish: Kernel,
    dot: [Kernel; 2],
    dot_finish: Kernel,
}

impl Kernels {
    pub fn new(runtime: &dyn Runtime) -> Result<Kernels> {
        let [f64, f32] = VECTORS.map(Precision::name);
        let both = |name: &str| -> Result<[Kernel; 2]> {
            Ok([runtime.kernel(&format!("{name}_{f64}"))?, runtime.kernel(&format!("{name}_{f32}"))?])
        };
        let diagonal = |p: Precision| both(&format!("diagonal_{}", p.name()));
        Ok(Kernels {
            fill: both("fill")?,
            cast: [both(&format!("cast_{f64}"))?, both(&format!("cast_{f32}"))?],
            scale: both("scale")?,
            axpby: both("axpby")?,
            diagonal: [
                diagonal(Precision::F64)?,
                diagonal(Precision::F32)?,
                diagonal(Precision::F16)?,
                diagonal(Precision::BF16)?,
            ],
            rescale: [both(&format!("rescale_{f64}"))?, both(&format!("rescale_{f32}"))?],
            peak: both("peak")?,
            peak_finish: runtime.kernel("peak_finish")?,
            dot: both("dot")?,
            dot_finish: runtime.kernel("dot_finish")?,
        })
    }
}

/// Position of a vector's precision, which must be one that kernels compute in.
pub(super) fn vector_index<T: Number>() -> Result<usize> {
    match VECTORS.iter().position(|p| *p == T::PRECISION) {
        Some(index) => Ok(index),
        None => fail!(
            Unsupported,
            "vectors of {} are not supported on GPUs; accepted: f64, f32 (option precision.vector)",
            T::PRECISION.name()
        ),
    }
}

impl Gpu {
    /// Runs a kernel on the elements of vectors of length `n`.
    fn elementwise(&self, kernel: Kernel, n: usize, arguments: &[&dyn Argument]) -> Result<()> {
        self.launch(kernel, n.div_ceil(ELEMENTS * BLOCK) * BLOCK, arguments)
    }

    fn diagonal<T: Number, S: Number>(&self, d: &Slice<S>, x: &Slice<T>, add: bool, y: &mut Slice<T>) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let width = (d.len() / x.len().max(1)).max(1);
        assert_eq!(d.len(), width * x.len());
        let storage = Precision::ALL.iter().position(|p| *p == S::PRECISION).expect("every format is listed");
        let kernel = self.inner.vectors.diagonal[storage][vector_index::<T>()?];
        let (n, width, add) = (x.len() as i64, width as i32, i32::from(add));
        self.elementwise(kernel, x.len(), &[&n, &width, &add, &d.view(), &x.view(), &y.view()])
    }

    /// The inner product, when all work before it is done.
    fn inner_product<T: Number>(&self, x: &Slice<T>, y: &Slice<T>) -> Result<f64> {
        assert_eq!(x.len(), y.len());
        let kernel = self.inner.vectors.dot[vector_index::<T>()?];
        self.reduce(x.len(), self.inner.vectors.dot_finish, |count, parts| {
            self.launch_blocks(kernel, count, &[&(x.len() as i64), &x.view(), &y.view(), parts])
        })
    }

    /// The largest absolute value, when all work before it is done.
    fn largest<T: Number>(&self, x: &Slice<T>) -> Result<f64> {
        let kernel = self.inner.vectors.peak[vector_index::<T>()?];
        self.reduce(x.len(), self.inner.vectors.peak_finish, |count, parts| {
            self.launch_blocks(kernel, count, &[&(x.len() as i64), &x.view(), parts])
        })
    }

    /// A number from `n` elements in two steps: `first` makes as many parts as it is told, and the kernel `second` one of them.
    fn reduce(&self, n: usize, second: Kernel, first: impl FnOnce(usize, &View) -> Result<()>) -> Result<f64> {
        self.failed()?;
        if n == 0 {
            return Ok(0.0);
        }
        let count = n.div_ceil(BLOCK * ELEMENTS).min(MAX_PARTS);
        let whole = self.inner.parts + (MAX_PARTS * size_of::<f64>()) as u64;
        let parts = View { address: self.inner.parts, len: count as i64 };
        first(count, &parts)?;
        self.launch_blocks(second, 1, &[&(count as i64), &parts, &View { address: whole, len: 1 }])?;
        let mut bytes = [0; size_of::<f64>()];
        self.runtime().copy_out(whole, &mut bytes)?;
        Ok(f64::from_ne_bytes(bytes))
    }
}

impl Backend for Gpu {
    type Slice<T: Number> = Slice<T>;
    type Buffer<T: Number> = Buffer<T>;
    const LOOKS: bool = false;

    fn any_ref<T: Scalar>(x: &Slice<T>) -> AnyRef<'_, Gpu> {
        let x: &dyn Any = x;
        match (x.downcast_ref(), x.downcast_ref()) {
            (Some(x), _) => AnyRef::F64(x),
            (_, Some(x)) => AnyRef::F32(x),
            _ => unreachable!("vectors of {} are refused when they are made", T::PRECISION.name()),
        }
    }

    fn any_mut<T: Scalar>(x: &mut Slice<T>) -> AnyMut<'_, Gpu> {
        let x: &mut dyn Any = x;
        if x.is::<Slice<f64>>() {
            return AnyMut::F64(x.downcast_mut().expect("just asked"));
        }
        match x.downcast_mut() {
            Some(x) => AnyMut::F32(x),
            None => unreachable!("vectors of {} are refused when they are made", T::PRECISION.name()),
        }
    }

    fn status(&self) -> Result<()> {
        self.failed()
    }

    fn zeros<T: Number>(&self, n: usize) -> Result<Buffer<T>> {
        vector_index::<T>()?;
        self.zeroed(n)
    }

    fn fill<T: Number>(&self, value: T, x: &mut Slice<T>) {
        self.keep(vector_index::<T>().and_then(|t| {
            self.elementwise(self.inner.vectors.fill[t], x.len(), &[&(x.len() as i64), &value.to_f64(), &x.view()])
        }));
    }

    fn copy<T: Number, U: Number>(&self, x: &Slice<T>, y: &mut Slice<U>) {
        assert_eq!(x.len(), y.len());
        let run = || {
            let kernel = self.inner.vectors.cast[vector_index::<T>()?][vector_index::<U>()?];
            self.elementwise(kernel, x.len(), &[&(x.len() as i64), &x.view(), &y.view()])
        };
        self.keep(run());
    }

    fn scale<T: Number>(&self, alpha: T::Wide, x: &mut Slice<T>) {
        self.keep(vector_index::<T>().and_then(|t| {
            self.elementwise(self.inner.vectors.scale[t], x.len(), &[&(x.len() as i64), &alpha.to_f64(), &x.view()])
        }));
    }

    fn axpby<T: Number>(&self, alpha: T::Wide, x: &Slice<T>, beta: T::Wide, y: &mut Slice<T>) {
        assert_eq!(x.len(), y.len());
        let (n, alpha, beta) = (x.len() as i64, alpha.to_f64(), beta.to_f64());
        self.keep(vector_index::<T>().and_then(|t| {
            self.elementwise(self.inner.vectors.axpby[t], x.len(), &[&n, &alpha, &x.view(), &beta, &y.view()])
        }));
    }

    fn add_scaled_by<T: Number, S: Number>(&self, d: &Slice<S>, x: &Slice<T>, y: &mut Slice<T>) {
        self.keep(self.diagonal(d, x, true, y));
    }

    fn scale_by<T: Number, S: Number>(&self, d: &Slice<S>, x: &Slice<T>, y: &mut Slice<T>) {
        self.keep(self.diagonal(d, x, false, y));
    }

    fn convert<T: Number, U: Number>(
        &self,
        factor: f64,
        d: Option<&Slice<f32>>,
        x: &Slice<T>,
        y: &mut Slice<U>,
    ) -> f64 {
        self.rescale(factor, d, x, y);
        self.peak(y)
    }

    fn rescale<T: Number, U: Number>(&self, factor: f64, d: Option<&Slice<f32>>, x: &Slice<T>, y: &mut Slice<U>) {
        assert!(x.len() == y.len() && d.is_none_or(|d| d.len() == x.len()));
        let run = || {
            let kernel = self.inner.vectors.rescale[vector_index::<T>()?][vector_index::<U>()?];
            let (n, scaled, d) = (x.len() as i64, i32::from(d.is_some()), d.map_or(View::NONE, Slice::view));
            self.elementwise(kernel, x.len(), &[&n, &factor, &scaled, &d, &x.view(), &y.view()])
        };
        self.keep(run());
    }

    fn peak<T: Number>(&self, x: &Slice<T>) -> f64 {
        self.largest(x).unwrap_or_else(|error| {
            self.keep(Err(error));
            f64::NAN
        })
    }

    fn dot<T: Number>(&self, x: &Slice<T>, y: &Slice<T>) -> f64 {
        self.inner_product(x, y).unwrap_or_else(|error| {
            self.keep(Err(error));
            f64::NAN
        })
    }
}
