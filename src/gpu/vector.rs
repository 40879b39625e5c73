//! Vector operations of the GPU backend. Inner products are summed in an order that follows from the length alone, and
//! accumulated in f64.

use super::arnoldi::DeviceArnoldiBasis;
use super::bicgstab_step::DeviceBicgstabStep;
use super::cg_step::DeviceCgStep;
use super::product::{Epilogue, width_of};
use super::runtime::{Argument, BLOCK, Kernel, View, tag};
use super::{Buffer, Gpu, Slice, multivector};
use crate::backend::common::random_numbers;
use crate::backend::{
    AnyMut, AnyRef, Backend, ErrorNorm, Operator, Recurrence, add_error_scaled_by_dots, one_dot_after_the_other,
};
use crate::error::Result;
use crate::range::Range;
use crate::scalar::{Number, Precision, Scalar, not_paired};
use std::sync::atomic::Ordering;

/// Most partial sums of an inner product of two vectors: as many blocks as run at the same time.
const WAVE: usize = 1024;

/// Most partial sums of an inner product in an SpMV epilogue.
pub(super) const MAX_PARTS: usize = 1 << 16;

/// Partial sums that a block of the second pass adds, as in `kernels/vector.cu`.
const PARTS: usize = 4096;

/// Most inner products that are computed together. Their partial sums and they themselves fit into the scratch for reductions.
const MAX_PRODUCTS: usize = MAX_PARTS / (WAVE + 1);

/// Elements of the scratch for reductions: partial sums, sums of these, and the result.
pub(super) const SCRATCH: usize = MAX_PARTS + MAX_PARTS / PARTS + 1;

/// Elements per thread, as in `kernels/portability.h`; in an inner product when there are not too many partial sums.
pub(super) const ELEMENTS: usize = 4;

/// The kernels of `kernels/vector.cu`, by the tags of their formats.
pub(super) struct Kernels {
    fill: [Kernel; 4],
    cast: [Kernel; 4],
    scale: [Kernel; 4],
    axpby: [Kernel; 4],
    /// By the formats of D and of the vectors.
    diagonal: [[Option<Kernel>; 4]; 4],
    rescale: [Kernel; 4],
    convert_into_range: [Kernel; 4],
    correct_range: [Kernel; 4],
    max_norm: [Kernel; 4],
    max_norm_finish: Kernel,
    chebyshev_update: [Kernel; 4],
    dot: [Kernel; 4],
    dot_finish: Kernel,
    error_dots: [Kernel; 4],
    add_scaled_error: [Kernel; 4],
    /// Those of multivectors.
    pub(super) multivector: multivector::Kernels,
}

/// The kernels of a name, one for each format.
fn each(find: impl Fn(&str) -> Result<Kernel>, name: &str) -> Result<[Kernel; 4]> {
    let of = |p: Precision| find(&format!("{name}_{}", p.name()));
    Ok([of(Precision::F64)?, of(Precision::F32)?, of(Precision::F16)?, of(Precision::BF16)?])
}

/// A kernel for each format of stored values, and for each format of vectors that goes with it.
fn of_pairs(find: impl Fn(&str) -> Result<Kernel>, name: &str) -> Result<[[Option<Kernel>; 4]; 4]> {
    let mut kernels = [[None; 4]; 4];
    for (kernels, stored) in kernels.iter_mut().zip(Precision::ALL) {
        for (kernel, vectors) in kernels.iter_mut().zip(Precision::ALL) {
            if stored.goes_with(*vectors) {
                *kernel = Some(find(&format!("{name}_{}_{}", stored.name(), vectors.name()))?);
            }
        }
    }
    Ok(kernels)
}

impl Kernels {
    pub fn new(find: impl Fn(&str) -> Result<Kernel>) -> Result<Kernels> {
        let each = |name: &str| each(&find, name);
        Ok(Kernels {
            fill: each("fill")?,
            cast: each("cast")?,
            scale: each("scale")?,
            axpby: each("axpby")?,
            diagonal: of_pairs(&find, "diagonal")?,
            rescale: each("rescale")?,
            convert_into_range: each("convert_into_range")?,
            correct_range: each("correct_range")?,
            max_norm: each("max_norm")?,
            max_norm_finish: find("max_norm_finish")?,
            chebyshev_update: each("chebyshev_update")?,
            dot: each("dot")?,
            dot_finish: find("dot_finish")?,
            error_dots: each("error_dots")?,
            add_scaled_error: each("add_scaled_error")?,
            multivector: multivector::Kernels::new(&find)?,
        })
    }
}

/// Number of partial sums of a reduction over `n` elements.
pub(super) fn part_count(n: usize) -> usize {
    n.div_ceil(BLOCK * ELEMENTS).min(WAVE)
}

/// The kernel for vectors of a format.
fn of<T: Number>(kernels: &[Kernel; 4]) -> Kernel {
    kernels[tag::<T>() as usize]
}

impl Gpu {
    /// Runs a kernel on the elements of vectors of length `n`.
    pub(super) fn elementwise(&self, kernel: Kernel, n: usize, arguments: &[&dyn Argument]) -> Result<()> {
        self.launch(kernel, n.div_ceil(ELEMENTS * BLOCK) * BLOCK, arguments)
    }

    fn diagonal<T: Number, S: Number>(
        &self,
        k: usize,
        d: &Slice<S>,
        x: &Slice<T>,
        add: bool,
        y: &mut Slice<T>,
    ) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let width = width_of(k, d, x);
        let kernel = self.inner.vectors.diagonal[tag::<S>() as usize][tag::<T>() as usize];
        let kernel = kernel.unwrap_or_else(|| not_paired::<S, T>());
        let (n, shift, width, add) = (x.len() as i64, k.ilog2() as i32, width as i32, i32::from(add));
        self.elementwise(kernel, x.len(), &[&n, &shift, &width, &add, &d.view(), &x.view(), &y.view()])
    }

    /// y = factor D x, divided by the scalar in device memory if there is one.
    fn rescale<T: Number, U: Number>(
        &self,
        factor: f64,
        divisor: View,
        d: Option<&Slice<f32>>,
        x: &Slice<T>,
        y: &mut Slice<U>,
    ) {
        assert!(x.len() == y.len() && d.is_none_or(|d| d.len() == x.len()));
        let kernel = of::<T>(&self.inner.vectors.rescale);
        let (n, scaled, d) = (x.len() as i64, i32::from(d.is_some()), d.map_or(View::NONE, Slice::view));
        self.keep(self.elementwise(
            kernel,
            x.len(),
            &[&n, &factor, &divisor, &scaled, &d, &x.view(), &tag::<U>(), &y.view()],
        ));
    }

    /// The inner product. Synchronises.
    fn inner_product<T: Number>(&self, x: &Slice<T>, y: &Slice<T>) -> Result<f64> {
        self.reduce(x.len(), self.inner.vectors.dot_finish, |_, parts| self.dot_parts(x, y, parts))
    }

    /// The inner products of y with each of xs and with itself. Synchronises.
    fn inner_products<T: Number>(&self, xs: &[Buffer<T>], y: &Slice<T>, products: &mut [f64]) -> Result<()> {
        self.failed()?;
        let (n, total) = (y.len(), xs.len() + 1);
        assert!(total == products.len() && total <= MAX_PRODUCTS);
        products.fill(0.0);
        if n == 0 {
            return Ok(());
        }
        // As in `reduce`.
        let _runtime = self.runtime();
        let count = part_count(n);
        let results = total * count;
        for (k, x) in xs.iter().map(|x| &**x).chain([y]).enumerate() {
            let parts = self.reduction(k * count, count);
            self.dot_parts(x, y, &parts)?;
            self.add_parts(&parts, &self.reduction(results + k, 1))?;
        }
        let mut bytes = [0; MAX_PRODUCTS * size_of::<f64>()];
        let bytes = &mut bytes[..total * size_of::<f64>()];
        self.read_reduction(&self.reduction(results, total), bytes)?;
        for (product, bytes) in products.iter_mut().zip(bytes.chunks_exact(size_of::<f64>())) {
            *product = bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes);
        }
        Ok(())
    }

    /// The partial sums of an inner product, as many as `parts` has elements.
    pub(super) fn dot_parts<T: Number>(&self, x: &Slice<T>, y: &Slice<T>, parts: &View) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let kernel = of::<T>(&self.inner.vectors.dot);
        self.launch_blocks(kernel, parts.len(), &[&(x.len() as i64), &x.view(), &y.view(), parts])
    }

    /// The max norm. Synchronises.
    fn device_max_norm<T: Number>(&self, x: &Slice<T>) -> Result<f64> {
        let kernel = of::<T>(&self.inner.vectors.max_norm);
        self.reduce(x.len(), self.inner.vectors.max_norm_finish, |count, parts| {
            self.launch_blocks(kernel, count, &[&(x.len() as i64), &x.view(), parts])
        })
    }

    /// A reduction over `n` elements in two passes: `first` computes as many partial results as it is told, and the
    /// kernel `second` reduces them. Synchronises.
    pub(super) fn reduce(
        &self,
        n: usize,
        second: Kernel,
        first: impl FnOnce(usize, &View) -> Result<()>,
    ) -> Result<f64> {
        self.failed()?;
        if n == 0 {
            return Ok(0.0);
        }
        // No other thread may use the scratch between the launches and the copy of the result.
        let _runtime = self.runtime();
        let count = part_count(n);
        let parts = self.parts(count);
        first(count, &parts)?;
        self.launch_blocks(second, 1, &[&(count as i64), &parts, &self.reduction(SCRATCH - 1, 1)])?;
        self.reduced()
    }

    /// A part of the scratch for reductions.
    pub(super) fn reduction(&self, start: usize, len: usize) -> View<'_> {
        // SAFETY: the scratch has so many elements, and is freed with the last handle that has it.
        let scratch = unsafe { Slice::<f64>::borrowed(self.scratch.address, SCRATCH) };
        scratch.subslice(start, len).view()
    }

    /// Scratch for `count` partial sums.
    pub(super) fn parts(&self, count: usize) -> View<'_> {
        self.reduction(0, count)
    }

    /// The partial sums, reduced to as many as one block can add.
    pub(super) fn few_parts(&self, count: usize) -> Result<View<'_>> {
        if count <= PARTS {
            return Ok(self.parts(count));
        }
        let sums = count.div_ceil(PARTS);
        let between = self.reduction(MAX_PARTS, sums);
        let kernel = self.inner.vectors.dot_finish;
        self.launch_blocks(kernel, sums, &[&(count as i64), &self.parts(count), &between])?;
        Ok(between)
    }

    /// Adds partial sums in one block.
    pub(super) fn add_parts(&self, parts: &View, sum: &View) -> Result<()> {
        self.launch_blocks(self.inner.vectors.dot_finish, 1, &[&(parts.len() as i64), parts, sum])
    }

    /// The largest of the maxima of blocks in the scratch. Synchronises.
    pub(super) fn largest_part(&self, count: usize) -> Result<f64> {
        let result = self.reduction(SCRATCH - 1, 1);
        self.launch_blocks(self.inner.vectors.max_norm_finish, 1, &[&(count as i64), &self.parts(count), &result])?;
        self.reduced()
    }

    /// Stores a maximum in place of that of the first block.
    pub(super) fn write_part(&self, value: f64) -> Result<()> {
        // SAFETY: the scratch has elements, is freed with the last handle that has it, and one thread uses it at a time.
        self.write(&[value], unsafe { Slice::borrowed_mut(self.scratch.address, 1) })
    }

    /// The result of the last reduction. Synchronises.
    fn reduced(&self) -> Result<f64> {
        let mut bytes = [0; size_of::<f64>()];
        self.read_reduction(&self.reduction(SCRATCH - 1, 1), &mut bytes)?;
        Ok(f64::from_ne_bytes(bytes))
    }

    /// Copies a part of the scratch for reductions. Synchronises.
    pub(super) fn read_reduction(&self, from: &View, bytes: &mut [u8]) -> Result<()> {
        self.inner.waits.fetch_add(1, Ordering::Relaxed);
        self.runtime().copy_out(from.array().address(), bytes)
    }

    /// The second pass of [`Backend::convert_into_range`]: y is computed again where its max norm is out of range.
    /// `largest` holds the maxima of the blocks of the first pass.
    pub(super) fn correct_range<T: Number>(
        &self,
        count: usize,
        (n, shift, scaled, d): (&i64, &f64, &i32, &View),
        x: View,
        (format, y): (i32, View),
        (largest, range, factor): (View, &Range, &Buffer<f64>),
    ) -> Result<()> {
        let (low, high) = (f64::from(range.low).exp2(), f64::from(range.high).exp2());
        let arguments: [&dyn Argument; 12] =
            [n, shift, scaled, d, &x, &format, &y, &largest, &low, &high, &range.target, &factor.view()];
        self.launch_blocks(of::<T>(&self.inner.vectors.correct_range), count, &arguments)
    }

    /// A result whose failure is stored: NaN, and the error for [`Backend::status`].
    fn or_nan(&self, result: Result<f64>) -> f64 {
        result.unwrap_or_else(|error| {
            self.keep(Err(error));
            f64::NAN
        })
    }
}

impl Backend for Gpu {
    type Slice<T: Number> = Slice<T>;
    type Buffer<T: Number> = Buffer<T>;
    /// In device memory.
    type RangeFactor = Buffer<f64>;
    type Epilogue<'a> = Epilogue<'a>;
    type CgStep = DeviceCgStep;
    type ArnoldiBasis<T: Scalar> = DeviceArnoldiBasis<T>;
    type BicgstabStep = DeviceBicgstabStep;
    const HAS_IMMEDIATE_REDUCTIONS: bool = false;

    fn any_ref<T: Scalar>(x: &Slice<T>) -> AnyRef<'_, Gpu> {
        match (x.downcast(), x.downcast()) {
            (Some(x), _) => AnyRef::F64(x),
            (_, Some(x)) => AnyRef::F32(x),
            _ => unreachable!("a scalar is f64 or f32, not {}", T::PRECISION.name()),
        }
    }

    fn any_mut<T: Scalar>(x: &mut Slice<T>) -> AnyMut<'_, Gpu> {
        let unknown = || unreachable!("a scalar is f64 or f32, not {}", T::PRECISION.name());
        match T::PRECISION {
            Precision::F64 => x.downcast_mut().map_or_else(unknown, AnyMut::F64),
            _ => x.downcast_mut().map_or_else(unknown, AnyMut::F32),
        }
    }

    fn status(&self) -> Result<()> {
        self.failed()?;
        self.distribution().map_or(Ok(()), |over| over.ranks.status())
    }

    fn is_distributed(&self) -> bool {
        self.over_ranks().is_some()
    }

    fn local(&self, n: usize) -> usize {
        self.distribution().map_or(n, |over| over.own(n).len())
    }

    fn whole(&self, n: usize) -> usize {
        self.distribution().map_or(n, |over| over.rows())
    }

    fn any(&self, here: bool) -> bool {
        self.distribution().map_or(here, |over| over.any(here))
    }

    fn zeros<T: Number>(&self, n: usize) -> Result<Buffer<T>> {
        self.zeroed(n)
    }

    fn fill<T: Number>(&self, value: T, x: &mut Slice<T>) {
        let (kernel, n) = (of::<T>(&self.inner.vectors.fill), x.len());
        self.keep(self.elementwise(kernel, n, &[&(n as i64), &value.to_f64(), &x.view()]));
    }

    fn copy<T: Number, U: Number>(&self, x: &Slice<T>, y: &mut Slice<U>) {
        assert_eq!(x.len(), y.len());
        let (kernel, n) = (of::<T>(&self.inner.vectors.cast), x.len());
        self.keep(self.elementwise(kernel, n, &[&(n as i64), &x.view(), &tag::<U>(), &y.view()]));
    }

    fn scale<T: Number>(&self, alpha: T::Wide, x: &mut Slice<T>) {
        let (kernel, n) = (of::<T>(&self.inner.vectors.scale), x.len());
        self.keep(self.elementwise(kernel, n, &[&(n as i64), &alpha.to_f64(), &x.view()]));
    }

    fn axpby<T: Number>(&self, alpha: T::Wide, x: &Slice<T>, beta: T::Wide, y: &mut Slice<T>) {
        assert_eq!(x.len(), y.len());
        let (kernel, n) = (of::<T>(&self.inner.vectors.axpby), x.len());
        let (alpha, beta) = (alpha.to_f64(), beta.to_f64());
        self.keep(self.elementwise(kernel, n, &[&(n as i64), &alpha, &x.view(), &beta, &y.view()]));
    }

    fn add_scaled_by<T: Number, S: Number>(&self, k: usize, d: &Slice<S>, x: &Slice<T>, y: &mut Slice<T>) {
        self.keep(self.diagonal(k, d, x, true, y));
    }

    fn scale_by<T: Number, S: Number>(&self, k: usize, d: &Slice<S>, x: &Slice<T>, y: &mut Slice<T>) {
        self.keep(self.diagonal(k, d, x, false, y));
    }

    fn convert<T: Number, U: Number>(
        &self,
        factor: f64,
        d: Option<&Slice<f32>>,
        x: &Slice<T>,
        y: &mut Slice<U>,
    ) -> Option<f64> {
        self.rescale(factor, View::NONE, d, x, y);
        None
    }

    fn range_factor(&self) -> Result<Buffer<f64>> {
        self.upload(&[1.0])
    }

    fn convert_into_range<T: Number, U: Number>(
        &self,
        (range, factor): (&Range, &mut Buffer<f64>),
        shift: f64,
        d: Option<&Slice<f32>>,
        x: &Slice<T>,
        y: &mut Slice<U>,
    ) -> Option<f64> {
        assert!(x.len() == y.len() && d.is_none_or(|d| d.len() == x.len()));
        if x.is_empty() {
            self.keep(self.distribution().map_or(Ok(()), |over| self.largest_of_all(over, 0)));
            return None;
        }
        let kernel = of::<T>(&self.inner.vectors.convert_into_range);
        let (n, scaled, d) = (x.len() as i64, i32::from(d.is_some()), d.map_or(View::NONE, Slice::view));
        let (x, format, y) = (x.view(), tag::<U>(), y.view());
        let count = part_count(n as usize);
        let parts = self.parts(count);
        let first = self.launch_blocks(kernel, count, &[&n, &shift, &scaled, &d, &x, &format, &y, &parts]);
        let correct =
            || self.correct_range::<T>(count, (&n, &shift, &scaled, &d), x, (format, y), (parts, range, factor));
        let over_all = || self.distribution().map_or(Ok(()), |over| self.largest_of_all(over, count));
        self.keep(first.and_then(|()| over_all()).and_then(|()| correct()));
        None
    }

    fn convert_from_range<T: Number, U: Number>(
        &self,
        factor: &Buffer<f64>,
        shift: f64,
        d: Option<&Slice<f32>>,
        x: &Slice<T>,
        y: &mut Slice<U>,
    ) -> Option<f64> {
        self.rescale(shift, factor.view(), d, x, y);
        None
    }

    fn max_norm<T: Number>(&self, x: &Slice<T>) -> f64 {
        let here = self.or_nan(self.device_max_norm(x));
        self.distribution().map_or(here, |over| over.max(here))
    }

    fn dot<T: Number>(&self, x: &Slice<T>, y: &Slice<T>) -> f64 {
        match self.over_ranks() {
            Some(ranks) => self.or_nan(self.dot_over(ranks, x, y)),
            None => self.or_nan(self.inner_product(x, y)),
        }
    }

    /// One synchronisation for all of them; over ranks one for each.
    fn dots<T: Number>(&self, xs: &[Buffer<T>], y: &Slice<T>, products: &mut [f64]) {
        if self.is_distributed() {
            one_dot_after_the_other(self, xs, y, products);
        } else if let Err(error) = self.inner_products(xs, y, products) {
            products.fill(f64::NAN);
            self.keep(Err(error));
        }
    }

    fn random<T: Scalar>(&self, n: usize, seed: u64) -> Result<Buffer<T>> {
        let first = self.distribution().map_or(0, |over| over.own(over.rows()).start);
        self.upload(&random_numbers(first, n, seed)?)
    }

    fn sweep<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Gpu, V>,
        d: &Slice<S>,
        b: &Slice<V>,
        x: &Slice<V>,
        y: &mut Slice<V>,
    ) -> Result<()> {
        a.apply_with_epilogue(x, Epilogue::sweep(a.vectors(), d, b, x, y)).map(|_| ())
    }

    fn chebyshev_update<V: Number, S: Number>(
        &self,
        k: usize,
        d: &Slice<S>,
        r: &Slice<V>,
        recurrence: Recurrence<'_, Slice<V>>,
        x: &mut Slice<V>,
        zero_guess: bool,
    ) {
        let Recurrence { alpha, beta, p, keep, .. } = recurrence;
        let (n, width) = (r.len(), width_of(k, d, r) as i32);
        assert!(x.len() == n && p.len() == n);
        let (rows, shift, format, zero_guess) = (n as i64, k.ilog2() as i32, tag::<S>(), i32::from(zero_guess));
        let keep = i32::from(keep);
        let (d, r, p, x) = (d.view(), r.view(), p.view(), x.view());
        let kernel = of::<V>(&self.inner.vectors.chebyshev_update);
        let arguments: [&dyn Argument; 12] =
            [&rows, &shift, &width, &format, &d, &r, &beta, &p, &keep, &alpha, &zero_guess, &x];
        self.keep(self.elementwise(kernel, n, &arguments));
    }

    fn chebyshev<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Gpu, V>,
        d: &Slice<S>,
        b: &Slice<V>,
        x: &Slice<V>,
        recurrence: Recurrence<'_, Slice<V>>,
        y: &mut Slice<V>,
    ) -> Result<()> {
        a.apply_with_epilogue(x, Epilogue::chebyshev(a.vectors(), d, b, x, recurrence, y)).map(|_| ())
    }

    fn residual_norm<V: Number>(
        &self,
        a: &dyn Operator<Gpu, V>,
        b: &Slice<V>,
        x: &Slice<V>,
        r: &mut Slice<V>,
    ) -> Result<f64> {
        let count = a.apply_with_epilogue(x, Epilogue::residual_with_norm(b, r))?;
        if count == 0 {
            return Ok(self.norm(r));
        }
        self.add_parts(&self.few_parts(count)?, &self.reduction(SCRATCH - 1, 1))?;
        Ok(self.reduced()?.sqrt())
    }

    fn add_product<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Gpu, X, Y>,
        alpha: Y::Wide,
        x: &Slice<X>,
        z: &Slice<Y>,
        y: &mut Slice<Y>,
    ) -> Result<()> {
        assert_eq!(z.len(), y.len());
        a.apply_with_epilogue(x, Epilogue::add(alpha.to_f64(), z, y)).map(|_| ())
    }

    /// The factor stays in device memory; over ranks the host reads the inner products.
    fn add_scaled_error<T: Number>(
        &self,
        norm: ErrorNorm,
        r: &Slice<T>,
        (e, w): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
    ) -> Result<()> {
        let n = x.len();
        assert!(r.len() == n && e.len() == n && w.len() == n);
        if self.is_distributed() {
            add_error_scaled_by_dots(self, norm, r, (e, w), x);
            return Ok(());
        }
        if n == 0 {
            return Ok(());
        }
        let y = if norm == ErrorNorm::Energy { e } else { w };
        let (count, of_dots) = (part_count(n), of::<T>(&self.inner.vectors.error_dots));
        let parts = self.parts(2 * count);
        self.launch_blocks(of_dots, count, &[&(n as i64), &r.view(), &w.view(), &y.view(), &parts])?;
        let add = of::<T>(&self.inner.vectors.add_scaled_error);
        self.launch_blocks(add, count, &[&(n as i64), &(count as i64), &parts, &e.view(), &x.view()])
    }

    fn cg_step(&self) -> Result<DeviceCgStep> {
        DeviceCgStep::new(self)
    }

    fn arnoldi_basis<T: Scalar>(&self, n: usize, m: usize, flexible: bool) -> Result<DeviceArnoldiBasis<T>> {
        DeviceArnoldiBasis::new(self, n, m, flexible)
    }

    fn bicgstab_step(&self) -> Result<DeviceBicgstabStep> {
        DeviceBicgstabStep::new(self)
    }
}
