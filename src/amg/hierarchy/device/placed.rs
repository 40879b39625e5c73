//! What the solve phase needs of levels that a GPU computed, made where they are.

use super::There;
use crate::amg::hierarchy::LevelMatrices;
use crate::amg::hierarchy::place::{Computed, Placing};
use crate::backend::Operator;
use crate::context::lock;
use crate::error::Result;
use crate::gpu::setup::{DeviceCsr, dense, diagonal, eigenvalue, scaling};
use crate::gpu::{Buffer, Gpu};
use crate::host::eigenvalue::Estimate;
use crate::scalar::{Number, Precision, Scalar};
use crate::smooth::gauss_seidel::Colours;
use crate::smooth::{self, Setup, Smoother, diagonal_width};

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

    fn a(&self) -> &DeviceCsr<T> {
        self.a.as_ref().expect("the level is not placed yet")
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
        let sums = builder.sums();
        let format = &mut lock(self.formats.lock()).matrix;
        if i == 0 && self.scale.is_none() {
            if S::PRECISION == builder.matrix.precision() {
                return gpu.operator_in(builder.matrix.device::<S>(gpu)?, sums, format);
            }
            let given = builder.matrix.device::<T>(gpu)?;
            let stored = scaling::store::<T, S>(gpu, &given, "matrix", scaling::Rounding::Nearest)?;
            return gpu.operator_in(stored, sums, format);
        }
        let rounding = match &self.scale {
            Some(scale) if builder.config.text("precision.rounding") == "row_sums" => scaling::Rounding::Keeping(scale),
            _ => scaling::Rounding::Nearest,
        };
        gpu.operator_in(scaling::store::<T, S>(gpu, self.a(), "matrix", rounding)?, sums, format)
    }

    fn smoother<V: Number>(&self, placing: &Placing<'_, Gpu>, storage: Precision) -> Result<Box<dyn Smoother<Gpu, V>>> {
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
        let r = scaling::store::<T, S>(gpu, &self.transfer().1, "restriction", scaling::Rounding::Nearest)?;
        gpu.operator_in(r, placing.builder.sums(), &mut lock(self.formats.lock()).restriction)
    }

    fn interpolation<S: Number, W: Number, V: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
    ) -> Result<Box<dyn Operator<Gpu, W, V>>> {
        let gpu = placing.backend;
        let p = scaling::store::<T, S>(gpu, &self.transfer().0, "prolongator", scaling::Rounding::Nearest)?;
        gpu.operator_in(p, placing.builder.sums(), &mut lock(self.formats.lock()).interpolation)
    }

    fn inverse<S: Number, V: Number>(&self, placing: &Placing<'_, Gpu>) -> Result<Box<dyn Operator<Gpu, V>>> {
        let gpu = placing.backend;
        gpu.dense_operator(self.rows, dense::inverse::<T, S>(gpu, self.a())?)
    }

    fn release(&mut self) {
        self.a = None;
        self.transfer = None;
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
        diagonal::inverse(self.placing.backend, self.level.a(), self.width(), l1, self.level.scale.as_deref())
    }
}

impl<T: Scalar> Setup<Gpu> for DeviceSetup<'_, T> {
    type Inverse = Buffer<T>;

    fn config(&self) -> &crate::config::Config {
        self.placing.builder.config
    }

    fn inverse(&self) -> Result<Buffer<T>> {
        self.diagonal(false)
    }

    fn l1_inverse(&self) -> Result<Buffer<T>> {
        self.diagonal(true)
    }

    fn largest_eigenvalue(&self, inverse: &Buffer<T>) -> Result<f64> {
        let level = self.level;
        // What interpolation found is of the diagonal blocks.
        if let Some(largest) = level.known.filter(|_| self.width() == level.a().block.rows) {
            return Ok(largest.max(f64::MIN_POSITIVE));
        }
        let estimate = Estimate::from_config(self.config());
        let earlier = level.earlier.as_ref();
        let largest = eigenvalue::largest(self.placing.backend, &estimate, level.a(), inverse, earlier)?;
        Ok(level.estimated.get_or_init(|| largest).value.max(f64::MIN_POSITIVE))
    }

    fn stored<S: Number>(&self, inverse: &Buffer<T>, factor: f64) -> Result<(Buffer<S>, usize)> {
        let stored = diagonal::stored::<T, S>(self.placing.backend, inverse, factor)?;
        let len = stored.len();
        Ok((stored, len))
    }

    fn colours<S: Number, V: Number>(&self) -> Result<Box<dyn Colours<Gpu, V>>> {
        let gpu = self.placing.backend;
        let a = scaling::store::<T, S>(gpu, self.level.a(), "smoother's matrix", scaling::Rounding::Nearest)?;
        let inverse = self.diagonal(false)?;
        let inverse = diagonal::stored::<T, S>(gpu, &inverse, 1.0)?;
        gpu.coloured(&a, &inverse)
    }

    fn l1_gauss_seidel<S: Number, V: Number>(&self) -> Result<Box<dyn Smoother<Gpu, V>>> {
        unreachable!("l1-Gauss-Seidel runs on the host alone")
    }
}
