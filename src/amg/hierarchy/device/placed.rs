//! What the solve phase needs of levels that a GPU computed, made where they are.

use super::{Formats, There};
use crate::amg::hierarchy::LevelMatrices;
use crate::amg::hierarchy::place::{Computed, Placing, at_level};
use crate::amg::plan::Plan;
use crate::backend::{Colours, Operator, Smoother};
use crate::config::LevelPart;
use crate::error::Result;
use crate::gpu::setup::scaling::{By, Rounding};
use crate::gpu::setup::{DeviceCsr, dense, diagonal, eigenvalue, scaling};
use crate::gpu::{Buffer, Format, Gpu};
use crate::host::eigenvalue::Estimate;
use crate::scalar::{Number, Precision, Scalar, Sums};
use crate::smooth::{self, Setup, diagonal_width};
use crate::sync::lock;
use std::any::Any;
use std::sync::Mutex;

impl<T: Scalar> There<T> {
    /// Copies on the host, to look at.
    pub fn fetch(&self, gpu: &Gpu) -> Result<LevelMatrices> {
        let shared = |m: &DeviceCsr<T>| m.fetch(gpu)?.into_shared().cast();
        let transfer = match &self.transfer {
            Some((p, r)) => Some((shared(p)?, shared(r)?)),
            None => None,
        };
        Ok(LevelMatrices { a: shared(self.a())?, transfer })
    }

    pub(super) fn a(&self) -> &DeviceCsr<T> {
        self.a.as_ref().expect("the level is not placed yet")
    }

    /// Makes way for the formats that a plan asks for: those of an earlier matrix where numbers have the same formats, or else none.
    pub(super) fn suit_formats(&mut self, plan: &Plan, i: usize) {
        let below = (i + 1).min(plan.levels.len() - 1);
        let numbers = Some([
            plan.of(LevelPart::Matrix, i),
            plan.of(LevelPart::Transfer, i),
            plan.of(LevelPart::Vector, i),
            plan.of(LevelPart::Vector, below),
        ]);
        let formats = match self.earlier_formats.numbers == numbers {
            true => self.earlier_formats.clone(),
            false => Formats { numbers, ..Formats::default() },
        };
        self.formats = Mutex::new(formats);
    }

    /// The caller's matrix, which may be in other blocks than set-up works with.
    fn given(&self, placing: &Placing<'_, Gpu>) -> Result<DeviceCsr<T>> {
        let Placing { builder, backend: gpu, .. } = placing;
        if self.a().block == builder.matrix.block() { Ok(self.a().clone()) } else { builder.matrix.device::<T>(gpu) }
    }

    /// Its matrix, in the blocks of the caller where set-up took them apart.
    fn in_blocks(&self, placing: &Placing<'_, Gpu>) -> Result<DeviceCsr<T>> {
        let Placing { builder, backend: gpu, .. } = placing;
        if builder.took_apart(self.number, self.a().block) {
            builder.matrix.device::<T>(gpu)
        } else {
            Ok(self.a().clone())
        }
    }

    /// Its matrix, scaled.
    fn scaled(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        let by = By::over(self.scale.as_deref());
        scaling::apply(gpu, self.a(), by, by)
    }

    /// A matrix of the level in the format of storage.
    fn stored<S: Number>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        what: &'static str,
        rounding: Rounding<'_>,
    ) -> Result<DeviceCsr<S>> {
        let (number, checks) = (self.number, &mut *lock(self.checks.lock()));
        scaling::store(gpu, a, rounding, checks, move |result| at_level(number, result), what)
    }

    /// Its matrix as an operator. Where smoothers go by the l1 diagonal of this very matrix, that may come with it.
    fn operator_in<S: Number, V: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
        a: DeviceCsr<S>,
        sums: Sums,
        format: &mut Option<Format>,
    ) -> Result<Box<dyn Operator<Gpu, V>>> {
        let gpu = placing.backend;
        let same: Box<dyn Any> = Box::new(a);
        let a = match same.downcast::<DeviceCsr<T>>() {
            Err(a) => {
                let a = *a.downcast::<DeviceCsr<S>>().expect("it is what it was");
                return gpu.operator_in(a, sums, format);
            }
            Ok(a) => *a,
        };
        let slots = match &format {
            Some(format) if self.scale.is_none() && sums == Sums::Wide => {
                // Rows of a matrix that is given in other blocks may be added in another order.
                let l1 = placing.smoother == "l1_jacobi" && a.block == self.a().block;
                format.slots(gpu, &a, l1)?
            }
            _ => None,
        };
        match (format, slots) {
            (Some(format), Some(mut slots)) => {
                *lock(self.l1_inverse.lock()) = slots.l1_inverse.take();
                gpu.operator_of(&a.pattern(), format, slots)
            }
            (format, _) => gpu.operator_in(a, sums, format),
        }
    }

    fn transfer(&self) -> &(DeviceCsr<T>, DeviceCsr<T>) {
        self.transfer.as_ref().expect("there is a coarser level, and this one is not placed yet")
    }
}

impl<T: Scalar> Computed<Gpu> for There<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn entrance(&self, placing: &Placing<'_, Gpu>) -> Result<Option<(f64, Buffer<f32>)>> {
        match &self.scale {
            Some(scale) => Ok(Some(scaling::entrance(placing.backend, scale)?)),
            None => Ok(None),
        }
    }

    /// The finest level has the caller's own matrix, in its own blocks, whatever set-up made of it.
    fn matrix<S: Number, V: Number>(&self, placing: &Placing<'_, Gpu>, i: usize) -> Result<Box<dyn Operator<Gpu, V>>> {
        let Placing { builder, backend: gpu, .. } = placing;
        gpu.begin_step(Some(self.number), "place");
        let sums = builder.sums();
        let format = &mut lock(self.formats.lock()).matrix;
        if i == 0 && self.scale.is_none() {
            if S::PRECISION == builder.matrix.precision() && S::PRECISION != T::PRECISION {
                return self.operator_in(placing, builder.matrix.device::<S>(gpu)?, sums, format);
            }
            let given = self.given(placing)?;
            if S::PRECISION == builder.matrix.precision() {
                return self.operator_in(placing, given, sums, format);
            }
            let stored = self.stored::<S>(gpu, &given, "matrix", Rounding::AS_IT_IS)?;
            return gpu.operator_in(stored, sums, format);
        }
        let (a, by) = (self.in_blocks(placing)?, By::over(self.scale.as_deref()));
        let stored = match &self.scale {
            Some(scale) if builder.config.text("precision.rounding") == "row_sums" => {
                let scaled = scaling::apply(gpu, &a, by, by)?;
                self.stored::<S>(gpu, &scaled, "matrix", Rounding::Keeping(&scale.s))?
            }
            _ => self.stored::<S>(gpu, &a, "matrix", Rounding::Nearest(by, by))?,
        };
        self.operator_in(placing, stored, sums, format)
    }

    fn smoother<V: Number>(&self, placing: &Placing<'_, Gpu>, storage: Precision) -> Result<Box<dyn Smoother<Gpu, V>>> {
        placing.backend.begin_step(Some(self.number), "smoother");
        let setup = DeviceSetup { level: self, placing };
        smooth::build::<Gpu, V>(&placing.smoother, &setup, storage)
    }

    fn coarse_rows(&self) -> Option<usize> {
        self.coarse_rows
    }

    fn restriction<S: Number, V: Number, W: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
    ) -> Result<Box<dyn Operator<Gpu, V, W>>> {
        let gpu = placing.backend;
        gpu.begin_step(Some(self.number), "place");
        let by = Rounding::Nearest(By::over(self.coarse_scale.as_deref()), By::times(self.scale.as_deref()));
        let r = self.stored::<S>(gpu, &self.transfer().1, "restriction", by)?;
        gpu.operator_in(r, placing.builder.sums(), &mut lock(self.formats.lock()).restriction)
    }

    fn interpolation<S: Number, W: Number, V: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
    ) -> Result<Box<dyn Operator<Gpu, W, V>>> {
        let gpu = placing.backend;
        let by = Rounding::Nearest(By::times(self.scale.as_deref()), By::over(self.coarse_scale.as_deref()));
        let p = self.stored::<S>(gpu, &self.transfer().0, "prolongator", by)?;
        gpu.operator_in(p, placing.builder.sums(), &mut lock(self.formats.lock()).interpolation)
    }

    fn inverse<S: Number, V: Number>(&self, placing: &Placing<'_, Gpu>) -> Result<Box<dyn Operator<Gpu, V>>> {
        let gpu = placing.backend;
        gpu.begin_step(Some(self.number), "coarsest");
        gpu.dense_operator(self.rows, dense::inverse::<T, S>(gpu, &self.scaled(gpu)?)?)
    }

    fn release(&mut self) {
        self.a = None;
        self.transfer = None;
        *lock(self.inverse.lock()) = None;
    }
}

/// What smoothers are made from when set-up runs on the device.
struct DeviceSetup<'a, T> {
    level: &'a There<T>,
    placing: &'a Placing<'a, Gpu>,
}

impl<T: Scalar> DeviceSetup<'_, T> {
    fn width(&self) -> usize {
        diagonal_width(self.placing.builder.config, self.level.a().block.rows)
    }

    fn diagonal(&self, l1: bool) -> Result<Buffer<T>> {
        let scale = self.level.scale.as_ref().map(|scale| &*scale.s);
        diagonal::inverse(self.placing.backend, self.level.a(), self.width(), l1, scale)
    }

    /// Data of a smoother in the format of storage.
    fn put<S: Number>(&self, exact: &Buffer<T>, factor: f64) -> Result<Buffer<S>> {
        let (number, checks) = (self.level.number, &mut *lock(self.level.checks.lock()));
        diagonal::stored(self.placing.backend, exact, factor, checks, move |result| at_level(number, result))
    }
}

impl<T: Scalar> Setup<Gpu> for DeviceSetup<'_, T> {
    type Inverse = Buffer<T>;

    fn config(&self) -> &crate::config::Config {
        self.placing.builder.config
    }

    fn inverse(&self) -> Result<Buffer<T>> {
        let found = lock(self.level.inverse.lock()).take();
        match found.filter(|_| self.level.scale.is_none() && self.width() == self.level.a().block.rows) {
            Some(inverse) => Ok(inverse),
            None => self.diagonal(false),
        }
    }

    fn l1_inverse(&self) -> Result<Buffer<T>> {
        let found = lock(self.level.l1_inverse.lock()).take();
        match found.filter(|found| self.width() == 1 && found.len() == self.level.rows) {
            Some(inverse) => Ok(inverse),
            None => self.diagonal(true),
        }
    }

    fn largest_eigenvalue(&self, inverse: &Buffer<T>) -> Result<f64> {
        let level = self.level;
        // What interpolation found is of the diagonal blocks.
        if let Some(largest) = level.known.filter(|_| self.width() == level.a().block.rows) {
            return Ok(largest.max(f64::MIN_POSITIVE));
        }
        if let Some(largest) = level.estimated.get() {
            return Ok(largest.value.max(f64::MIN_POSITIVE));
        }
        let estimate = Estimate::from_config(self.config());
        let earlier = level.earlier.as_ref();
        let gpu = self.placing.backend;
        let largest = eigenvalue::largest(gpu, &estimate, &level.scaled(gpu)?, inverse, earlier)?;
        Ok(level.estimated.get_or_init(|| largest).value.max(f64::MIN_POSITIVE))
    }

    fn stored<S: Number>(&self, inverse: &Buffer<T>, factor: f64) -> Result<(Buffer<S>, usize)> {
        let stored = self.put::<S>(inverse, factor)?;
        let len = stored.len();
        Ok((stored, len))
    }

    fn colours<S: Number, V: Number>(&self) -> Result<Box<dyn Colours<Gpu, V>>> {
        let gpu = self.placing.backend;
        let by = By::over(self.level.scale.as_deref());
        let a = self.level.stored::<S>(gpu, self.level.a(), "smoother's matrix", Rounding::Nearest(by, by))?;
        let inverse = self.put::<S>(&self.diagonal(false)?, 1.0)?;
        gpu.coloured(&a, &inverse)
    }

    fn l1_gauss_seidel<S: Number, V: Number>(&self) -> Result<Box<dyn Smoother<Gpu, V>>> {
        unreachable!("l1-Gauss-Seidel runs on the host alone")
    }
}
