//! Arrays of the caller's that a matrix reads in place, on the host or in device memory.

use super::{Matrix, MatrixStorage, Values};
use crate::context::Context;
use crate::error::{Result, fail};
use crate::sparse::{self, Storage};
use crate::sync::lock;
use std::ops::Range;

impl Matrix {
    /// Whether its values are the caller's in device memory, who may change them.
    pub(super) fn is_borrowed_on_device(&self) -> bool {
        match &self.storage {
            MatrixStorage::Device(device) => device.arrays.is_borrowed(),
            MatrixStorage::DeviceStencil(device) => device.is_borrowed(),
            MatrixStorage::Host { .. } | MatrixStorage::Stencil(_) => false,
        }
    }

    /// Checks values that a caller may have changed in place; those in device memory need a context on the same device.
    pub(crate) fn recheck_values(&self, context: &Context) -> Result<()> {
        let there = match &self.storage {
            MatrixStorage::Device(device) => Some(device.gpu()),
            MatrixStorage::DeviceStencil(device) => Some(device.gpu()),
            _ => None,
        };
        if let Some(there) = there {
            if !self.is_borrowed_on_device() {
                return Ok(());
            }
            if !context.gpu().is_some_and(|gpu| gpu.is_same(there)) {
                return fail!(
                    InvalidArgument,
                    "the values of the matrix are borrowed in device memory, and this context is not the one that has it there"
                );
            }
        }
        let diagonal = self.check_values(context)?;
        *lock(self.diagonal.lock()) = Some(diagonal);
        Ok(())
    }

    /// At the end of a call that returns when it is done: waits until what was launched has read values that are borrowed in device memory, to
    /// which the caller may write from then on.
    pub(crate) fn end_reading(&self) -> Result<()> {
        match &self.storage {
            MatrixStorage::Device(device) => device.arrays.end_reading(),
            MatrixStorage::DeviceStencil(device) => device.end_reading(),
            MatrixStorage::Host { .. } | MatrixStorage::Stencil(_) => Ok(()),
        }
    }

    /// The arrays of the caller's that the matrix reads: their names and their addresses.
    pub(crate) fn borrowed_arrays(&self) -> Vec<(&'static str, Range<usize>)> {
        fn on_host<T>(array: &dyn Storage<T>) -> Option<Range<usize>> {
            let range = array.as_slice().as_ptr_range();
            (array.owned_bytes() == 0).then(|| range.start.addr()..range.end.addr())
        }
        let arrays = match &self.storage {
            MatrixStorage::Host { structure, values } => [
                match &structure.offsets {
                    sparse::OffsetStorage::I32(offsets) => on_host(&**offsets),
                    sparse::OffsetStorage::I64(offsets) => on_host(&**offsets),
                },
                on_host(&*structure.columns),
                match &*lock(values.read()) {
                    Values::F64(values) => on_host(&**values),
                    Values::F32(values) => on_host(&**values),
                },
            ],
            MatrixStorage::Stencil(stencil) => [
                None,
                None,
                match &stencil.values() {
                    Values::F64(values) => on_host(&**values),
                    Values::F32(values) => on_host(&**values),
                },
            ],
            MatrixStorage::Device(device) => device.arrays.borrowed(),
            MatrixStorage::DeviceStencil(device) => [None, None, device.borrowed()],
        };
        let names = ["row_offsets", "columns", "values"];
        names.into_iter().zip(arrays).filter_map(|(name, range)| Some((name, range?))).collect()
    }
}
