//! Vector operations of the host backend.

use super::arnoldi::HostArnoldiBasis;
use super::bicgstab_step::HostBicgstabStep;
use super::cg_step::HostCgStep;
use super::multivector::{WithProducts, has_kernels};
use super::multivector_step::{self, Diagonal};
use super::simd::MAX_BLOCK;
use super::{Host, block_rows};
use crate::backend::common::random_numbers;
use crate::backend::{AnyMut, AnyRef, Backend, Operator, Recurrence};
use crate::comm::ReproducibleSum;
use crate::error::{Result, try_vec};
use crate::par;
use crate::range::Range;
use crate::scalar::{Number, Scalar, SliceMut, SliceRef};
use crate::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

impl Backend for Host {
    type Slice<T: Number> = [T];
    type Buffer<T: Number> = Vec<T>;
    type RangeFactor = f64;
    type Epilogue<'a> = WithProducts<'a>;
    type CgStep = HostCgStep;
    type ArnoldiBasis<T: Scalar> = HostArnoldiBasis<T>;
    type BicgstabStep = HostBicgstabStep;

    fn any_ref<T: Scalar>(x: &[T]) -> AnyRef<'_, Host> {
        match T::slice_ref(x) {
            SliceRef::F64(x) => AnyRef::F64(x),
            SliceRef::F32(x) => AnyRef::F32(x),
        }
    }

    fn any_mut<T: Scalar>(x: &mut [T]) -> AnyMut<'_, Host> {
        match T::slice_mut(x) {
            SliceMut::F64(x) => AnyMut::F64(x),
            SliceMut::F32(x) => AnyMut::F32(x),
        }
    }

    fn status(&self) -> Result<()> {
        self.over.as_ref().map_or(Ok(()), |over| over.ranks.status())
    }

    fn is_distributed(&self) -> bool {
        self.over.is_some()
    }

    fn local(&self, n: usize) -> usize {
        self.over.as_ref().map_or(n, |over| over.own(n).len())
    }

    fn whole(&self, n: usize) -> usize {
        self.over.as_ref().map_or(n, |over| over.rows())
    }

    fn any(&self, here: bool) -> bool {
        self.over.as_ref().map_or(here, |over| over.any(here))
    }

    fn zeros<T: Number>(&self, n: usize) -> Result<Vec<T>> {
        try_vec(n, T::ZERO)
    }

    fn fill<T: Number>(&self, value: T, x: &mut [T]) {
        self.run(x.len(), || par::for_each_mut(x, par::GRAIN, |_, x| x.fill(value)));
    }

    fn copy<T: Number, U: Number>(&self, x: &[T], y: &mut [U]) {
        self.zip(x, y, |x, y| {
            for (y, x) in y.iter_mut().zip(x) {
                *y = x.cast();
            }
        });
    }

    fn scale<T: Number>(&self, alpha: T::Wide, x: &mut [T]) {
        self.run(x.len(), || {
            par::for_each_mut(x, par::GRAIN, |_, x| {
                for x in x {
                    *x = T::narrow(x.widen() * alpha);
                }
            });
        });
    }

    fn axpby<T: Number>(&self, alpha: T::Wide, x: &[T], beta: T::Wide, y: &mut [T]) {
        self.zip(x, y, |x, y| {
            if beta == T::Wide::ZERO {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = T::narrow(alpha * x.widen());
                }
            } else {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = T::narrow(alpha * x.widen() + beta * y.widen());
                }
            }
        });
    }

    fn add_scaled_by<T: Number, S: Number>(&self, k: usize, d: &[S], x: &[T], y: &mut [T]) {
        assert_eq!(x.len(), y.len());
        if const { has_kernels(T::PRECISION, T::PRECISION) } && k > 1 {
            return Diagonal::new(k, d, x.len()).apply(self, x, y, |dx, y| *y = T::narrow(y.widen() + dx));
        }
        let width = block_width(d, x);
        self.run(d.len(), || {
            par::for_each_row_mut(y, width, par::GRAIN / width, |start, y| {
                multiply_blocks(width, &d[start * width * width..], &x[start * width..], y, |dx, y| {
                    *y = T::narrow(y.widen() + dx)
                });
            });
        });
    }

    fn scale_by<T: Number, S: Number>(&self, k: usize, d: &[S], x: &[T], y: &mut [T]) {
        assert_eq!(x.len(), y.len());
        if k > 1 {
            return Diagonal::new(k, d, x.len()).apply(self, x, y, |dx, y| *y = T::narrow(dx));
        }
        let width = block_width(d, x);
        self.run(d.len(), || {
            par::for_each_row_mut(y, width, par::GRAIN / width, |start, y| {
                multiply_blocks(width, &d[start * width * width..], &x[start * width..], y, |dx, y| *y = T::narrow(dx));
            });
        });
    }

    fn sweep<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Host, V>,
        d: &[S],
        b: &[V],
        x: &[V],
        y: &mut [V],
    ) -> Result<()> {
        if const { has_kernels(V::PRECISION, V::PRECISION) } && a.vectors() > 1 {
            return multivector_step::sweep(a, d, b, x, y);
        }
        assert_eq!(d.len(), x.len());
        a.residual(b, x, y)?;
        self.run(d.len(), || {
            par::for_each_mut(y, par::GRAIN, |start, y| {
                for ((y, d), x) in y.iter_mut().zip(&d[start..]).zip(&x[start..]) {
                    *y = V::narrow(x.widen() + V::Wide::from_f64(d.to_f64()) * y.widen());
                }
            });
        });
        Ok(())
    }

    fn chebyshev_update<V: Number, S: Number>(
        &self,
        k: usize,
        d: &[S],
        r: &[V],
        recurrence: Recurrence<'_, [V]>,
        x: &mut [V],
        zero_guess: bool,
    ) {
        if const { has_kernels(V::PRECISION, V::PRECISION) } && k > 1 {
            let d = Diagonal::new(k, d, r.len());
            return multivector_step::chebyshev_update(self, d, r, recurrence, x, zero_guess);
        }
        let Recurrence { alpha, beta, p, .. } = recurrence;
        self.update_direction(d, r, beta, p);
        self.axpby(V::Wide::from_f64(alpha), p, if zero_guess { V::Wide::ZERO } else { V::Wide::ONE }, x);
    }

    fn chebyshev<V: Number, S: Number>(
        &self,
        a: &dyn Operator<Host, V>,
        d: &[S],
        b: &[V],
        x: &[V],
        recurrence: Recurrence<'_, [V]>,
        y: &mut [V],
    ) -> Result<()> {
        if const { has_kernels(V::PRECISION, V::PRECISION) } && a.vectors() > 1 {
            return multivector_step::chebyshev(a, d, b, x, recurrence, y);
        }
        let Recurrence { alpha, beta, p, of_x, .. } = recurrence;
        if of_x {
            self.copy(x, p);
        }
        a.residual(b, x, y)?;
        self.update_direction(d, y, beta, p);
        self.copy(x, y);
        self.axpby(V::Wide::from_f64(alpha), p, V::Wide::ONE, y);
        Ok(())
    }

    fn add_product<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Host, X, Y>,
        alpha: Y::Wide,
        x: &[X],
        z: &[Y],
        y: &mut [Y],
    ) -> Result<()> {
        if const { has_kernels(X::PRECISION, Y::PRECISION) } && a.vectors() > 1 {
            return multivector_step::add_product(a, alpha, x, z, y);
        }
        self.copy(z, y);
        a.apply(alpha, x, Y::Wide::ONE, y)
    }

    fn convert<T: Number, U: Number>(&self, factor: f64, d: Option<&[f32]>, x: &[T], y: &mut [U]) -> Option<f64> {
        let peak = AtomicU64::new(0);
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || {
            par::for_each_mut(y, par::GRAIN, |start, y| {
                let x = &x[start..];
                let mut largest = 0;
                let mut put = |y: &mut U, value: f64| {
                    largest = largest.max(size_bits(value));
                    *y = U::from_f64(value);
                };
                match d {
                    Some(d) => y
                        .iter_mut()
                        .zip(x.iter().zip(&d[start..]))
                        .for_each(|(y, (x, d))| put(y, factor * (x.to_f64() * f64::from(*d)))),
                    None => y.iter_mut().zip(x).for_each(|(y, x)| put(y, factor * x.to_f64())),
                }
                peak.fetch_max(largest, Ordering::Relaxed);
            });
        });
        Some(self.largest(f64::from_bits(peak.into_inner())))
    }

    fn range_factor(&self) -> Result<f64> {
        Ok(1.0)
    }

    fn convert_into_range<T: Number, U: Number>(
        &self,
        (range, factor): (&Range, &mut f64),
        shift: f64,
        d: Option<&[f32]>,
        x: &[T],
        y: &mut [U],
    ) -> Option<f64> {
        let peak = self.convert(shift, d, x, y);
        *factor = peak.filter(|peak| !range.holds(*peak)).map_or(1.0, |peak| range.factor::<f64>(peak));
        if *factor != 1.0 {
            self.convert(*factor * shift, d, x, y);
        }
        peak
    }

    fn convert_from_range<T: Number, U: Number>(
        &self,
        factor: &f64,
        shift: f64,
        d: Option<&[f32]>,
        x: &[T],
        y: &mut [U],
    ) -> Option<f64> {
        self.convert(shift / factor, d, x, y)
    }

    fn max_norm<T: Number>(&self, x: &[T]) -> f64 {
        let peak = AtomicU64::new(0);
        self.run(x.len(), || {
            par::for_each_range(x.len(), par::GRAIN, |range| {
                let largest = x[range].iter().fold(0, |largest, x| largest.max(size_bits(x.to_f64())));
                peak.fetch_max(largest, Ordering::Relaxed);
            });
        });
        self.largest(f64::from_bits(peak.into_inner()))
    }

    fn dot<T: Number>(&self, x: &[T], y: &[T]) -> f64 {
        assert_eq!(x.len(), y.len());
        if let Some(over) = &self.over {
            return over.sum(&self.reproducible_dot(x, y));
        }
        self.run(x.len(), || par::sum(x.len(), par::GRAIN, |range| dot_piece(&x[range.clone()], &y[range])))
    }

    fn random<T: Scalar>(&self, n: usize, seed: u64) -> Result<Vec<T>> {
        random_numbers(self.over.as_ref().map_or(0, |over| over.own(over.rows()).start), n, seed)
    }

    fn cg_step(&self) -> Result<HostCgStep> {
        Ok(HostCgStep::new(self))
    }

    fn arnoldi_basis<T: Scalar>(&self, n: usize, m: usize, flexible: bool) -> Result<HostArnoldiBasis<T>> {
        HostArnoldiBasis::new(self, n, m, flexible)
    }

    fn bicgstab_step(&self) -> Result<HostBicgstabStep> {
        Ok(HostBicgstabStep::new(self))
    }
}

/// The bits of an absolute value: as whole numbers they have the order of the values, with infinity and then NaN at the
/// end.
#[inline(always)]
fn size_bits(value: f64) -> u64 {
    value.abs().to_bits()
}

/// Rows of the blocks of a block diagonal matrix.
pub(super) fn block_width<T, S>(d: &[S], x: &[T]) -> usize {
    let width = (d.len() / x.len().max(1)).max(1);
    assert_eq!(d.len(), width * x.len());
    width
}

/// Blocks of a block diagonal matrix that are multiplied at a time.
const BLOCKS: usize = 64;

/// Gives each element of y the element of D x that belongs to it; d and x may go on beyond y.
#[inline(always)]
pub(super) fn multiply_blocks<T: Number, S: Number>(
    width: usize,
    d: &[S],
    x: &[T],
    y: &mut [T],
    epilogue: impl Fn(T::Wide, &mut T),
) {
    if width == 1 {
        for ((y, x), d) in y.iter_mut().zip(x).zip(d) {
            epilogue(d.cast::<T::Wide>() * x.widen(), y);
        }
        return;
    }
    let mut products = [T::Wide::ZERO; BLOCKS * MAX_BLOCK];
    let step = BLOCKS * width;
    for ((y, x), d) in y.chunks_mut(step).zip(x.chunks(step)).zip(d.chunks(step * width)) {
        let products = &mut products[..y.len()];
        block_rows::block_diagonal_products(width, &d[..y.len() * width], &x[..y.len()], products);
        for (y, dx) in y.iter_mut().zip(products) {
            epilogue(*dx, y);
        }
    }
}

/// Four partial sums, because one would make every addition wait for the one before.
pub(super) fn dot_piece<T: Number>(x: &[T], y: &[T]) -> f64 {
    let mut sums = [0.0_f64; 4];
    let (x4, y4) = (x.chunks_exact(4), y.chunks_exact(4));
    let rest: f64 = x4.remainder().iter().zip(y4.remainder()).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
    for (x, y) in x4.zip(y4) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x.to_f64() * y.to_f64();
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

impl Host {
    /// The largest of a number of each rank.
    fn largest(&self, here: f64) -> f64 {
        self.over.as_ref().map_or(here, |over| over.max(here))
    }

    /// The part of this rank of an inner product. Pieces are added in any order.
    fn reproducible_dot<T: Number>(&self, x: &[T], y: &[T]) -> ReproducibleSum {
        let total = Mutex::new(ReproducibleSum::default());
        self.run(x.len(), || {
            par::for_each_range(x.len(), par::GRAIN, |range| {
                let mut piece = ReproducibleSum::default();
                let pairs = x[range.clone()].iter().zip(&y[range]);
                piece.add_products(pairs.map(|(x, y)| (x.to_f64(), y.to_f64())));
                lock(total.lock()).merge(&piece);
            });
        });
        lock(total.into_inner())
    }

    /// p = D r + β p; p is not read when β is 0.
    fn update_direction<V: Number, S: Number>(&self, d: &[S], r: &[V], beta: f64, p: &mut [V]) {
        if beta == 0.0 {
            self.scale_by(1, d, r, p);
        } else {
            self.scale(V::Wide::from_f64(beta), p);
            self.add_scaled_by(1, d, r, p);
        }
    }

    fn zip<T: Number, U: Number>(&self, x: &[T], y: &mut [U], work: impl Fn(&[T], &mut [U]) + Sync + Send) {
        assert_eq!(x.len(), y.len());
        self.run(x.len(), || par::for_each_mut(y, par::GRAIN, |start, y| work(&x[start..start + y.len()], y)));
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn operations_match_their_formulas() {
        let host = Host::new(&Context::new("host:2").unwrap());
        for n in [0, 1, 5, 30_000] {
            let x: Vec<f64> = (0..n).map(|i| i as f64 - 3.0).collect();
            let d: Vec<f32> = (0..n).map(|i| (i % 4) as f32).collect();
            let mut y = vec![f64::NAN; n];
            host.axpby(2.0, &x, 0.0, &mut y);
            host.axpby(1.0, &x, -1.0, &mut y);
            assert!(y.iter().zip(&x).all(|(y, x)| *y == -x));
            host.add_scaled_by(1, &d, &x, &mut y);
            assert!((0..n).all(|i| y[i] == -x[i] + f64::from(d[i]) * x[i]));
            host.scale_by(1, &d, &x, &mut y);
            assert!((0..n).all(|i| y[i] == f64::from(d[i]) * x[i]));
            let expected: f64 = x.iter().map(|x| x * x).sum();
            assert_eq!(host.dot(&x, &x), expected);
            host.fill(0.5, &mut y);
            host.scale(2.0, &mut y);
            assert_eq!(host.norm(&y), (n as f64).sqrt());
        }
    }

    #[test]
    fn a_diagonal_may_have_blocks() {
        let host = Host::new(&Context::new("host:2").unwrap());
        let (mut y, x) = (vec![f64::NAN; 4], [1.0, 2.0, 3.0, 4.0]);
        let d = [1.0_f32, 10.0, 0.0, 2.0, 0.5, 0.0, -1.0, 1.0];
        host.scale_by(1, &d, &x, &mut y);
        assert_eq!(y, [21.0, 4.0, 1.5, 1.0]);
        host.add_scaled_by(1, &d, &x, &mut y);
        assert_eq!(y, [42.0, 8.0, 3.0, 2.0]);
        // More than one piece, and pieces do not cut blocks.
        let n = 3 * 10_000;
        let (x, d) = (vec![1.0; n], (0..3 * n).map(|i| (i / 9) as f64).collect::<Vec<_>>());
        let mut y = vec![f64::NAN; n];
        host.scale_by(1, &d, &x, &mut y);
        assert!(y.iter().enumerate().all(|(i, y)| *y == 3.0 * (i / 3) as f64));
    }
}
