//! What a default rests on: whether a matrix is symmetric, and whether all of its couplings are alike.

use super::device_stencil::{DeviceStencilMatrix, with_stencil};
use super::{DeviceMatrix, Matrix, MatrixStorage, Values};
use crate::backend::common::Sampled;
use crate::backend::common::{SHARES, Symmetry};
use crate::context::Context;
use crate::error::Result;
use crate::gpu::setup::{strength as on_device, symmetry as symmetry_on_device};
use crate::host::{strength as on_host, symmetry as symmetry_on_host};
use crate::sync::lock;

/// Rows with more than so many times the mean number of entries are hubs.
const HUB: usize = 8;

/// No row is a hub with fewer entries.
const FEWEST_OF_HUB: usize = 64;

/// The mean of shares from their sum and number.
pub(crate) fn share_of((shares, rows): (i64, i64)) -> f64 {
    shares as f64 / (SHARES * rows.max(1)) as f64
}

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
        let longest = (HUB * entries / self.whole_rows().max(1)).max(FEWEST_OF_HUB);
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

    /// The mean over a sample of the rows of a scalar matrix of the share of their couplings with the sign of the diagonal: zero for
    /// M-matrices, a fifth to a half for stiffness matrices of displacements and of elements of high order. Found where the matrix is;
    /// synchronises.
    pub(crate) fn same_sign_share(&self, context: &Context) -> Result<f64> {
        self.same_sign_sums(context).map(share_of)
    }

    /// The sum of these shares, and the number of rows that have couplings, for [`share_of`].
    pub(crate) fn same_sign_sums(&self, context: &Context) -> Result<(i64, i64)> {
        Ok(match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = lock(values.read()).clone();
                let sampled = self.local.as_ref().map(|numbers| Sampled::of_ranks(numbers));
                context.run(self.entries(), || match (&values, &sampled) {
                    (Values::F64(v), None) => on_host::same_sign(&structure.view(v.as_slice())),
                    (Values::F32(v), None) => on_host::same_sign(&structure.view(v.as_slice())),
                    (Values::F64(v), Some(rows)) => on_host::same_sign_among(&structure.view(v.as_slice()), rows),
                    (Values::F32(v), Some(rows)) => on_host::same_sign_among(&structure.view(v.as_slice()), rows),
                })
            }
            MatrixStorage::Stencil(_) | MatrixStorage::DeviceStencil(_) => {
                let (structure, values) = self.copied()?;
                context.run(self.entries(), || match &values {
                    Values::F64(v) => on_host::same_sign(&structure.view(v.as_slice())),
                    Values::F32(v) => on_host::same_sign(&structure.view(v.as_slice())),
                })
            }
            MatrixStorage::Device(device) => match device.arrays.read()? {
                DeviceMatrix::F64(a) => on_device::same_sign(device.gpu(), &a)?,
                DeviceMatrix::F32(a) => on_device::same_sign(device.gpu(), &a)?,
            },
        })
    }

    /// The share of the couplings of a block matrix that are strong by the symmetric measure with the threshold `theta`, or half of the
    /// strongest couplings on average if that is less; of a sample of the rows. Found where the matrix is; synchronises.
    pub(crate) fn strong_share(&self, context: &Context, theta: f64) -> Result<f64> {
        match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = lock(values.read()).clone();
                context.run(self.entries(), || match &values {
                    Values::F64(v) => on_host::Symmetric::new(&structure.view(v.as_slice()))?.strong_share(theta),
                    Values::F32(v) => on_host::Symmetric::new(&structure.view(v.as_slice()))?.strong_share(theta),
                })
            }
            // Couplings of a grid have the same stencil everywhere.
            MatrixStorage::Stencil(_) | MatrixStorage::DeviceStencil(_) => Ok(1.0),
            MatrixStorage::Device(device) => match device.arrays.read()? {
                DeviceMatrix::F64(a) => on_device::Symmetric::new(device.gpu(), &a)?.strong_share(theta),
                DeviceMatrix::F32(a) => on_device::Symmetric::new(device.gpu(), &a)?.strong_share(theta),
            },
        }
    }
}
