//! Changes of the values of a matrix since it was made: calls of `update_values`, and borrowed values that the caller
//! changed in place, which a checksum finds.

use super::device_stencil::{DeviceStencilMatrix, with_stencil};
use super::stencil_storage::StencilStorage;
use super::{DeviceMatrix, Matrix, MatrixStorage, Values};
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;
use crate::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

/// Values in a piece of a parallel loop.
const GRAIN: usize = 1 << 16;

/// The changes that are known.
#[derive(Default)]
pub(super) struct Changes {
    count: u64,
    /// Checksum of borrowed values when they were last looked at.
    checksum: Option<u64>,
}

impl Matrix {
    /// How often the values have changed. Reads borrowed values once; the context is the one that uses them. What was known about them is
    /// forgotten when they have changed, so that the next set-up checks them.
    pub(crate) fn changes(&self, context: &Context) -> Result<u64> {
        let checksum = self.checksum(context)?;
        let mut changes = lock(self.changes.lock());
        if let Some(now) = checksum.filter(|now| changes.checksum != Some(*now)) {
            *lock(self.diagonal.lock()) = None;
            if changes.checksum.is_some() {
                changes.count += 1;
                lock(self.operators.lock()).clear();
            }
            changes.checksum = Some(now);
        }
        Ok(changes.count)
    }

    /// The same, without looking for changes that are not known.
    pub(crate) fn known_changes(&self) -> u64 {
        lock(self.changes.lock()).count
    }

    /// This matrix, or one with a copy of its values where they are the caller's on the host, who may change them. (In device
    /// memory the operators have copies.)
    pub(crate) fn with_own_values(self: &Arc<Matrix>, context: &Context) -> Result<Arc<Matrix>> {
        let values = match &self.storage {
            MatrixStorage::Host { values, .. } => lock(values.read()).clone(),
            MatrixStorage::Stencil(stencil) => stencil.values(),
            MatrixStorage::Device(_) | MatrixStorage::DeviceStencil(_) => return Ok(Arc::clone(self)),
        };
        let own = context.run(self.entries(), || match &values {
            Values::F64(values) if values.owned_bytes() == 0 => copy(values.as_slice()).map(|own| Some(own.into())),
            Values::F32(values) if values.owned_bytes() == 0 => copy(values.as_slice()).map(|own| Some(own.into())),
            _ => Ok(None),
        })?;
        let Some(own) = own else { return Ok(Arc::clone(self)) };
        let storage = match &self.storage {
            MatrixStorage::Host { structure, .. } => {
                MatrixStorage::Host { structure: Arc::clone(structure), values: RwLock::new(own) }
            }
            MatrixStorage::Stencil(stencil) => {
                MatrixStorage::Stencil(StencilStorage::new(Arc::clone(&stencil.pattern), own))
            }
            MatrixStorage::Device(_) | MatrixStorage::DeviceStencil(_) => unreachable!("it was returned above"),
        };
        let mut matrix = Matrix::at(storage, self.size, self.block, self.nnz, Some(None));
        matrix.local = self.local.clone();
        matrix.take_unknowns_of(self);
        Ok(Arc::new(matrix))
    }

    /// Counts as many changes as another matrix from which the values come.
    pub(crate) fn set_changes(&self, count: u64) {
        lock(self.changes.lock()).count = count;
    }

    /// Counts new values.
    pub(super) fn count_change(&self) {
        let mut changes = lock(self.changes.lock());
        changes.count += 1;
        changes.checksum = None;
    }

    /// Of values in the caller's memory.
    fn checksum(&self, context: &Context) -> Result<Option<u64>> {
        match &self.storage {
            MatrixStorage::Host { values, .. } => {
                let values = lock(values.read()).clone();
                Ok(context.run(self.entries(), || of_borrowed(&values)))
            }
            MatrixStorage::Stencil(stencil) => {
                let values = stencil.values();
                Ok(context.run(self.entries(), || of_borrowed(&values)))
            }
            MatrixStorage::Device(device) if device.arrays.is_borrowed() => {
                let sum = match device.arrays.read()? {
                    DeviceMatrix::F64(a) => device.gpu().checksum(&a.values),
                    DeviceMatrix::F32(a) => device.gpu().checksum(&a.values),
                };
                sum.map(Some)
            }
            MatrixStorage::DeviceStencil(device) if device.is_borrowed() => {
                with_stencil!(device.read()?, a => device.gpu().checksum(&a.values).map(Some))
            }
            MatrixStorage::Device(_) | MatrixStorage::DeviceStencil(_) => Ok(None),
        }
    }
}

/// That of values that are the caller's.
fn of_borrowed(values: &Values) -> Option<u64> {
    match values {
        Values::F64(values) if values.owned_bytes() == 0 => Some(of(values.as_slice())),
        Values::F32(values) if values.owned_bytes() == 0 => Some(of(values.as_slice())),
        _ => None,
    }
}

fn copy<T: Scalar>(values: &[T]) -> Result<Vec<T>> {
    let mut own = try_vec(values.len(), T::ZERO)?;
    par::for_each_mut(&mut own, GRAIN, |first, piece| piece.copy_from_slice(&values[first..][..piece.len()]));
    Ok(own)
}

/// The wrapping sum of the hashes of all values and their places.
fn of<T: Scalar>(values: &[T]) -> u64 {
    let sum = AtomicU64::new(0);
    par::for_each_range(values.len(), GRAIN, |range| {
        let first = range.start;
        let hashes = values[range].iter().enumerate().map(|(i, v)| hash(first + i, v.to_f64().to_bits()));
        sum.fetch_add(hashes.fold(0, u64::wrapping_add), Relaxed);
    });
    sum.into_inner()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_tells_values_and_places_apart() {
        let values = [1.0, -1.0, 0.0, 2.0];
        for other in [[-1.0, 1.0, 0.0, 2.0], [1.0, -1.0, -0.0, 2.0], [1.0, -1.0, 0.0, 2.000_000_000_000_000_4]] {
            assert_ne!(of(&values), of(&other));
        }
    }
}
