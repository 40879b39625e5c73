//! The size of the values of a matrix, and copies in other units.

use super::device_stencil::{DeviceStencilMatrix, with_stencil};
use super::{DeviceMatrix, DistributedRows, Matrix, MatrixStorage, Structure, Values};
use crate::backend::Backend;
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, try_capacity};
use crate::host::Host;
use crate::scalar::{Precision, Scalar};
use crate::sync::lock;
use std::sync::Arc;

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
    pub(crate) fn units(&self, context: &Context, config: &Config) -> Result<i32> {
        Ok(self.units_of(config, self.size_of_values(context)?))
    }

    /// The same for values of this size.
    pub(crate) fn units_of(&self, config: &Config, size: f64) -> i32 {
        let in_f32 = self.precision() == Precision::F32 || config.text("precision.setup") == Precision::F32.name();
        units(self.precision(), in_f32, size)
    }

    /// Collective: a copy in the units that the values of all ranks need, of which those of this rank have this size, and the exponent. None
    /// where they need no other ones.
    pub(crate) fn scaled_over_ranks(
        &self,
        config: &Config,
        rows: &DistributedRows,
        size: f64,
    ) -> Result<Option<(Arc<Matrix>, i32)>> {
        let ranks = &rows.over().ranks;
        let k = self.units_of(config, ranks.largest(size)?);
        if k == 0 {
            return Ok(None);
        }
        let copy = ranks.agree(self.times_power(k))?;
        copy.set_changes(self.known_changes());
        Ok(Some((Arc::new(copy), k)))
    }

    /// The largest of its values in absolute value; over ranks of those of this rank. A sample would not do: the largest may be in any row.
    pub(crate) fn size_of_values(&self, context: &Context) -> Result<f64> {
        let largest = |values: &Values| match values {
            Values::F64(values) => Host::new(context).max_norm(values.as_slice()),
            Values::F32(values) => Host::new(context).max_norm(values.as_slice()),
        };
        match &self.storage {
            MatrixStorage::Host { values, .. } => {
                let values = lock(values.read());
                Ok(largest(&values))
            }
            MatrixStorage::Stencil(stencil) => Ok(largest(&stencil.values())),
            MatrixStorage::Device(device) => Ok(match device.arrays.read()? {
                DeviceMatrix::F64(a) => device.gpu().max_norm(&a.values),
                DeviceMatrix::F32(a) => device.gpu().max_norm(&a.values),
            }),
            MatrixStorage::DeviceStencil(device) => {
                with_stencil!(device.read()?, a => Ok(device.gpu().max_norm(&a.values)))
            }
        }
    }

    /// A copy with values times 2^k, in the memory where this one is; over ranks with the rows of this rank.
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
        let mut copy = Matrix::new(structure, multiplied(&values, k)?, false)?;
        copy.take_unknowns_of(self);
        copy.distributed = self.distributed.clone();
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
