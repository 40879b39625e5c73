//! The arrays of a matrix in device memory, whose values may be the caller's: [`DeviceArrays::read`] is the only way to
//! them.

use super::DeviceMatrix;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::scalar::Precision;
use crate::sync::lock;
use std::ops::Range;
use std::sync::RwLock;

/// A matrix in device memory, with the GPU that has it. Its values may be borrowed, and then the caller may write to
/// them between calls.
pub(super) struct DeviceArrays {
    gpu: Gpu,
    matrix: RwLock<DeviceMatrix>,
}

impl DeviceArrays {
    pub fn new(gpu: &Gpu, matrix: DeviceMatrix) -> DeviceArrays {
        DeviceArrays { gpu: gpu.clone(), matrix: RwLock::new(matrix) }
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The arrays now. What the caller has begun to write to borrowed values comes before what is launched from here
    /// on.
    pub fn read(&self) -> Result<DeviceMatrix> {
        let matrix = lock(self.matrix.read()).clone();
        if matrix.is_borrowed() {
            self.gpu.begin_call()?;
        }
        Ok(matrix)
    }

    /// Other arrays from here on; who has read the old ones keeps them.
    pub fn replace(&self, matrix: DeviceMatrix) {
        *lock(self.matrix.write()) = matrix;
    }

    /// Whether the values are in the caller's memory.
    pub fn is_borrowed(&self) -> bool {
        lock(self.matrix.read()).is_borrowed()
    }

    /// Where the caller's arrays are: offsets, columns and values.
    pub fn borrowed(&self) -> [Option<Range<usize>>; 3] {
        lock(self.matrix.read()).borrowed()
    }

    pub fn precision(&self) -> Precision {
        lock(self.matrix.read()).precision()
    }

    /// Waits until what was launched has read borrowed values, so that the caller may write to them. On a stream of the
    /// caller's its order is enough.
    pub fn end_reading(&self) -> Result<()> {
        if self.is_borrowed() { self.gpu.end_call() } else { Ok(()) }
    }
}
