//! The size of the values of a matrix, and copies in other units.

use super::device_stencil::{DeviceStencilMatrix, with_stencil};
use super::{DeviceMatrix, Matrix, MatrixStorage, Structure, Values};
use crate::backend::Backend;
use crate::config::Config;
use crate::error::{Result, try_capacity};
use crate::scalar::{Precision, Scalar};
use crate::sync::lock;
use std::sync::Arc;

/// Values that tell the size of a matrix.
const SAMPLE: usize = 4096;

/// The exponent of the power of two by which a matrix is multiplied, so that products of its values stay in range; 0 for ordinary ones. `size` is
/// that of its values, which are stored in `precision`. `in_f32` tells whether they are computed with in f32.
pub(crate) fn units(precision: Precision, in_f32: bool, size: f64) -> i32 {
    // Matrices whose values are at most so far from 1 are not scaled, and powers of two up to the second are representable.
    let far = if in_f32 { 50 } else { 250 };
    let largest = if precision == Precision::F32 { 120 } else { 1000 };
    if size == 0.0 || !size.is_finite() {
        return 0;
    }
    let exponent = size.abs().log2().floor() as i32;
    if exponent.abs() > far { (-exponent).clamp(-largest, largest) } else { 0 }
}

impl Matrix {
    /// The exponent of [`units`] for its values, where they are computed with in its precision, or in f32 by the options.
    pub(crate) fn units(&self, config: &Config) -> Result<i32> {
        let in_f32 = self.precision() == Precision::F32 || config.text("precision.setup") == Precision::F32.name();
        Ok(units(self.precision(), in_f32, self.size_of_values()?))
    }

    /// The largest of its first values, in absolute value.
    pub(crate) fn size_of_values(&self) -> Result<f64> {
        fn largest<T: Scalar>(values: &[T]) -> f64 {
            values.iter().take(SAMPLE).fold(0.0, |max, v| max.max(v.to_f64().abs()))
        }
        match &self.storage {
            MatrixStorage::Host { values, .. } => Ok(match &*lock(values.read()) {
                Values::F64(values) => largest(values.as_slice()),
                Values::F32(values) => largest(values.as_slice()),
            }),
            MatrixStorage::Stencil(stencil) => Ok(match &stencil.values() {
                Values::F64(values) => largest(values.as_slice()),
                Values::F32(values) => largest(values.as_slice()),
            }),
            MatrixStorage::Device(device) => {
                let gpu = device.gpu();
                Ok(match device.arrays.read()? {
                    DeviceMatrix::F64(a) => gpu.max_norm(a.values.subslice(0, a.values.len().min(SAMPLE))),
                    DeviceMatrix::F32(a) => gpu.max_norm(a.values.subslice(0, a.values.len().min(SAMPLE))),
                })
            }
            MatrixStorage::DeviceStencil(device) => with_stencil!(device.read()?, a => {
                Ok(device.gpu().max_norm(a.values.subslice(0, a.values.len().min(SAMPLE))))
            }),
        }
    }

    /// A copy with values times 2^k, in the memory where this one is.
    pub(crate) fn times_power(&self, k: i32) -> Result<Matrix> {
        if let MatrixStorage::Stencil(stencil) = &self.storage {
            let copy = Matrix::on_grid(Arc::clone(&stencil.pattern), multiplied(&stencil.values(), k)?)?;
            copy.take_unknowns_of(self);
            return Ok(copy);
        }
        if let MatrixStorage::DeviceStencil(device) = &self.storage {
            let values = multiplied(&device.copied()?.values(), k)?;
            let copy = Matrix::on_grid(Arc::clone(&device.pattern), values)?;
            copy.take_unknowns_of(self);
            return copy.to_gpu(device.gpu());
        }
        let (structure, values) = self.copied()?;
        let Structure { rows, cols, block, ref offsets, ref columns, base } = *structure;
        let structure = Structure { rows, cols, block, offsets: offsets.clone(), columns: Arc::clone(columns), base };
        let copy = Matrix::new(structure, multiplied(&values, k)?, false)?;
        copy.take_unknowns_of(self);
        match &self.storage {
            MatrixStorage::Device(device) => copy.to_gpu(device.gpu()),
            _ => Ok(copy),
        }
    }

    /// Takes over the values of the matrix of which this is the copy, times 2^k.
    pub(crate) fn update_times_power(&self, of: &Matrix, k: i32) -> Result<()> {
        let values = match &of.storage {
            MatrixStorage::Stencil(stencil) => stencil.values(),
            MatrixStorage::DeviceStencil(device) => device.copied()?.values(),
            _ => of.copied()?.1,
        };
        self.update_values(multiplied(&values, k)?)
    }
}

fn multiplied(values: &Values, k: i32) -> Result<Values> {
    fn times<T: Scalar>(values: &[T], k: i32) -> Result<Vec<T>> {
        let mut new: Vec<T> = try_capacity(values.len())?;
        new.extend(values.iter().map(|v| T::from_f64(v.to_f64() * 2.0_f64.powi(k))));
        Ok(new)
    }
    Ok(match values {
        Values::F64(values) => Values::from(times(values.as_slice(), k)?),
        Values::F32(values) => Values::from(times(values.as_slice(), k)?),
    })
}
