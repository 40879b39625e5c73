//! What a default rests on: whether a matrix is symmetric, and whether all of its couplings are alike.

use super::device_stencil::{DeviceStencilMatrix, with_stencil};
use super::{DeviceMatrix, Matrix, MatrixStorage, Values};
use crate::backend::common::Symmetry;
use crate::context::Context;
use crate::error::Result;
use crate::gpu::setup::{strength as on_device, symmetry as symmetry_on_device};
use crate::host::{strength as on_host, symmetry as symmetry_on_host};
use crate::sync::lock;

/// Rows with more than so many times the mean number of entries are hubs.
const HUB: usize = 8;

/// No row is a hub with fewer entries.
const FEWEST_OF_HUB: usize = 64;

impl Matrix {
    /// Whether it is symmetric, but for rounding, as far as one pass tells. Synchronises.
    pub(crate) fn is_symmetric(&self, context: &Context) -> Result<bool> {
        Ok(self.symmetry(context)?.is_symmetric_in(self.precision()))
    }

    /// What one pass tells about the symmetry of a square matrix. Found where the matrix is; synchronises.
    pub(crate) fn symmetry(&self, context: &Context) -> Result<Symmetry> {
        match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = lock(values.read()).clone();
                context.run(self.entries(), || match &values {
                    Values::F64(v) => symmetry_on_host::symmetry(&structure.view(v.as_slice())),
                    Values::F32(v) => symmetry_on_host::symmetry(&structure.view(v.as_slice())),
                })
            }
            MatrixStorage::Stencil(stencil) => context.run(self.entries(), || match &stencil.values() {
                Values::F64(v) => symmetry_on_host::of_stencil(&stencil.shared(v)),
                Values::F32(v) => symmetry_on_host::of_stencil(&stencil.shared(v)),
            }),
            MatrixStorage::Device(device) => match device.arrays.read()? {
                DeviceMatrix::F64(a) => symmetry_on_device::symmetry(device.gpu(), &a),
                DeviceMatrix::F32(a) => symmetry_on_device::symmetry(device.gpu(), &a),
            },
            MatrixStorage::DeviceStencil(device) => with_stencil!(device.read()?, a => a.symmetry(device.gpu())),
        }
    }

    /// Whether every coupling of a scalar matrix is strong by the classical measure with the threshold `theta`, and no row has far more entries than
    /// the others, as for Laplacians of grids. Found where the matrix is; synchronises.
    pub(crate) fn has_uniform_couplings(&self, context: &Context, theta: f64) -> Result<bool> {
        self.has_uniform_rows(context, theta, self.entries())
    }

    /// The same of the rows that are here, of a matrix with so many entries.
    pub(crate) fn has_uniform_rows(&self, context: &Context, theta: f64, entries: usize) -> Result<bool> {
        let longest = (HUB * entries / self.rows().max(1)).max(FEWEST_OF_HUB);
        match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = lock(values.read()).clone();
                Ok(context.run(self.entries(), || match &values {
                    Values::F64(v) => on_host::is_uniform(&structure.view(v.as_slice()), theta, longest),
                    Values::F32(v) => on_host::is_uniform(&structure.view(v.as_slice()), theta, longest),
                }))
            }
            MatrixStorage::Stencil(_) | MatrixStorage::DeviceStencil(_) => {
                let (structure, values) = self.copied()?;
                Ok(context.run(self.entries(), || match &values {
                    Values::F64(v) => on_host::is_uniform(&structure.view(v.as_slice()), theta, longest),
                    Values::F32(v) => on_host::is_uniform(&structure.view(v.as_slice()), theta, longest),
                }))
            }
            MatrixStorage::Device(device) => match device.arrays.read()? {
                DeviceMatrix::F64(a) => on_device::is_uniform(device.gpu(), &a, theta, longest),
                DeviceMatrix::F32(a) => on_device::is_uniform(device.gpu(), &a, theta, longest),
            },
        }
    }
}
