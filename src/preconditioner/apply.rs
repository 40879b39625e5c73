//! Application of an approximate inverse to vectors of the host, of a device, and to multivectors.

use super::on_backend::{Levels, OnBackend, OnGpu, host_cycle};
use super::{Inverse, Method};
use crate::backend::{Backend, NarrowPreconditioner, Operator, Preconditioner};
use crate::config::LevelPart;
use crate::error::{Result, fail};
use crate::gpu::{self, Gpu};
use crate::host::Host;
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// 2^k x, in steps that every format of vectors holds.
fn multiply_by_power<B: Backend, T: Scalar>(backend: &B, k: i32, x: &mut B::Slice<T>) {
    let mut left = k;
    while left != 0 {
        let step = left.clamp(-100, 100);
        backend.scale(T::from_f64(2.0_f64.powi(step)), x);
        left -= step;
    }
}

impl Inverse {
    /// x = M b, for AMG one cycle from zero. Allocates nothing, except at the first call with vectors of another precision than its
    /// own.
    /// Numbers that are not finite, where b has none and a level is narrower than the matrix, are an error that names the level.
    pub fn apply<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        self.agree(self.check_lengths(b.len(), x.len()))?;
        self.collectively(|inverse| inverse.cycle_on_host(b, x))
    }

    fn cycle_on_host<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let watched = self.built.plan.is_narrow();
        let lost = match &mut self.built.levels {
            Levels::Gpu(levels) => levels.cycle_for_host(b, x, watched)?,
            // Messages are the affair of the thread that called; each operation finds its own way to the pool.
            Levels::Host(top) if self.over.is_some() => host_cycle(&mut **top, b, x)?,
            Levels::Host(top) => self.context.run(self.work, || host_cycle(&mut **top, b, x))?,
        };
        if self.units != 0 {
            multiply_by_power(&Host::new(&self.context), self.units, x);
        }
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    /// As [`Preconditioner::prepare_multivectors`].
    fn prepare_for_multivectors<T: Scalar>(&mut self, k: usize) -> Result<bool> {
        let OnBackend { levels, multivectors, .. } = &mut self.built;
        if let Some((_, made)) = multivectors.as_ref().filter(|(vectors, _)| *vectors == k) {
            return Ok(made.is_some());
        }
        *multivectors = None;
        let made = match levels {
            Levels::Host(top) => match top.for_multivectors(k)? {
                Some(mut top) => {
                    top.prepare(T::PRECISION)?;
                    Some(Levels::Host(top))
                }
                None => None,
            },
            Levels::Gpu(OnGpu { gpu, top, .. }) => match top.for_multivectors(k)? {
                Some(mut top) => {
                    top.prepare(T::PRECISION)?;
                    Some(Levels::Gpu(OnGpu::new(gpu, top)))
                }
                None => None,
            },
        };
        let (_, made) = multivectors.insert((k, made));
        Ok(made.is_some())
    }

    /// As [`Preconditioner::apply_to_multivectors`].
    fn host_multivectors<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let Some((k, Some(Levels::Host(top)))) = &mut self.built.multivectors else {
            unreachable!("it was prepared for multivectors")
        };
        let lost = self.context.run(*k * self.work, || host_cycle(&mut **top, b, x))?;
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    /// As [`Preconditioner::apply_to_multivectors`].
    fn gpu_multivectors<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        let Some((_, Some(Levels::Gpu(levels)))) = &mut self.built.multivectors else {
            unreachable!("it was prepared for multivectors")
        };
        levels.cycle(b, x)
    }

    /// Bytes of what is there for multivectors.
    pub(super) fn multivector_bytes(&self) -> usize {
        match &self.built.multivectors {
            Some((_, Some(Levels::Host(top)))) => top.bytes(),
            Some((_, Some(Levels::Gpu(levels)))) => levels.top.bytes(),
            _ => 0,
        }
    }

    /// The error of an application that lost precision on this level. The level is stored.
    fn lost(&mut self, level: usize) -> Result<()> {
        self.lost_at = Some(level);
        let of = |part| self.built.plan.of(part, level).name();
        if self.method != Method::Amg {
            return fail!(
                PrecisionLost,
                "numbers beyond the range of its vectors ({}) appeared in the preconditioner; use a wider precision.vector, or \
                 precision \"auto\"",
                of(LevelPart::Vector)
            );
        }
        fail!(
            PrecisionLost,
            "level {level}: numbers beyond the range of its vectors ({}) appeared in the cycle, with the matrix in {}; \
             use wider formats there, or precision \"auto\"",
            of(LevelPart::Vector),
            of(LevelPart::Matrix)
        )
    }

    /// As [`Inverse::apply`], for vectors in the memory of the context's GPU. Returns once the work is launched, and does not check the
    /// result: [`Inverse::check_precision`] does.
    pub fn apply_on_device<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        self.agree(self.check_lengths(b.len(), x.len()))?;
        self.collectively(|inverse| inverse.cycle_on_device(b, x))
    }

    fn cycle_on_device<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        match &mut self.built.levels {
            Levels::Host(_) => {
                fail!(InvalidArgument, "the vectors are in device memory, and the preconditioner is on the host")
            }
            Levels::Gpu(levels) => {
                levels.cycle(b, x)?;
                multiply_by_power(&levels.gpu, self.units, x);
                Ok(())
            }
        }
    }

    /// Fails as [`Inverse::apply`] does when the last [`Inverse::apply_on_device`], which computed x from b, lost precision. Synchronises where a level
    /// is narrower than the matrix.
    pub fn check_precision<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &gpu::Slice<T>) -> Result<()> {
        let lost = match &self.built.levels {
            Levels::Gpu(levels) if self.built.plan.is_narrow() => levels.lost(b, x)?,
            _ => None,
        };
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    fn examine_on_device<T: Scalar>(&mut self, r: &gpu::Slice<T>) -> Result<()> {
        let Some(gpu) = self.context.gpu().filter(|_| self.built.plan.is_narrow()) else { return Ok(()) };
        let mut z = gpu.zeros(r.len())?;
        self.apply_on_device(r, &mut z)?;
        self.check_precision(r, &z)
    }

    /// On the host an application has checked its result.
    fn examine<T: Scalar>(&mut self, _: &[T]) -> Result<()> {
        Ok(())
    }

    /// On the host a cycle checks the range of its vectors while it converts them.
    fn host_narrow<T: Scalar>(&mut self) -> Option<&mut dyn NarrowPreconditioner<Host, T>> {
        None
    }

    /// As [`Preconditioner::narrow`].
    fn gpu_narrow<T: Scalar>(&mut self) -> Option<&mut dyn NarrowPreconditioner<Gpu, T>> {
        let Levels::Gpu(levels) = &mut self.built.levels else { return None };
        // Over ranks inner products are not part of the step.
        if levels.gpu.is_distributed() {
            return None;
        }
        let has_own = T::PRECISION == Precision::F64 && matches!(levels.top.narrow_vectors(), Ok(Some(_)));
        has_own.then_some(levels)
    }

    /// None on the host, where SpMV reads the caller's arrays.
    fn host_operator<T: Scalar>(&self) -> Option<Arc<dyn Operator<Host, T>>> {
        None
    }

    /// As [`Preconditioner::operator`].
    fn gpu_operator<T: Scalar>(&self) -> Option<Arc<dyn Operator<Gpu, T>>> {
        let Levels::Gpu(levels) = &self.built.levels else { return None };
        let a: Arc<dyn Operator<Gpu, T>> = *levels.top.operator()?.downcast().ok()?;
        (a.precision() == self.matrix.precision()).then_some(a)
    }

    fn check_lengths(&self, b: usize, x: usize) -> Result<()> {
        let n = self.rows();
        if b != n || x != n {
            return fail!(SizeMismatch, "b has {b} and x {x} elements; the preconditioner has {n} rows");
        }
        Ok(())
    }

    /// Allocates vectors of type `T`, so that `apply` does not.
    pub(crate) fn prepare<T: Scalar>(&mut self) -> Result<()> {
        match &mut self.built.levels {
            Levels::Host(top) => top.prepare(T::PRECISION),
            Levels::Gpu(levels) => levels.top.prepare(T::PRECISION),
        }
    }

    /// As [`Preconditioner::is_constant_symmetric`], for vectors of this precision.
    fn is_symmetric_in(&self, precision: Precision) -> bool {
        // Rounding that preserves row sums is not symmetric.
        let alike = !self.built.plan.is_narrow() || self.config.text("precision.rounding") == "nearest";
        alike
            && match &self.built.levels {
                Levels::Host(top) => top.is_symmetric_in(precision),
                Levels::Gpu(levels) => levels.top.is_symmetric_in(precision),
            }
    }
}

macro_rules! preconditioner {
    ($backend:ty, $slice:ident, $apply:ident, $narrow:ident, $examine:ident, $operator:ident, $multivectors:ident) => {
        impl<T: Scalar> Preconditioner<$backend, T> for Inverse {
            fn apply(&mut self, r: &$slice<T>, z: &mut $slice<T>) -> Result<()> {
                self.$apply(r, z)
            }

            fn prepare_multivectors(&mut self, k: usize) -> Result<bool> {
                self.prepare_for_multivectors::<T>(k)
            }

            fn apply_to_multivectors(&mut self, r: &$slice<T>, z: &mut $slice<T>) -> Result<()> {
                self.$multivectors(r, z)
            }

            fn narrow(&mut self) -> Option<&mut dyn NarrowPreconditioner<$backend, T>> {
                self.$narrow()
            }

            fn is_capturable(&self) -> bool {
                match &self.built.levels {
                    Levels::Host(top) => top.is_capturable(),
                    Levels::Gpu(levels) => levels.top.is_capturable(),
                }
            }

            fn operator(&self) -> Option<Arc<dyn Operator<$backend, T>>> {
                self.$operator()
            }

            fn is_constant_symmetric(&self) -> bool {
                self.is_symmetric_in(T::PRECISION)
            }

            fn narrowest(&self) -> Option<String> {
                self.built.plan.narrowest()
            }

            fn examine(&mut self, r: &$slice<T>) -> Result<()> {
                self.$examine(r)
            }

            fn widen(&mut self, reason: &str) -> Result<bool> {
                self.promote(reason)
            }
        }
    };
}

type HostSlice<T> = [T];
type GpuSlice<T> = gpu::Slice<T>;
preconditioner!(Host, HostSlice, apply, host_narrow, examine, host_operator, host_multivectors);
preconditioner!(Gpu, GpuSlice, apply_on_device, gpu_narrow, examine_on_device, gpu_operator, gpu_multivectors);
