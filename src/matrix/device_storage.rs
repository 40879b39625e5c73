//! A matrix in device memory, and the copy of it that the host may need.

use super::Values;
use super::device_arrays::DeviceArrays;
use crate::error::Result;
use crate::gpu::setup::DeviceCsr;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::{Precision, Scalar};
use crate::sparse::{self, Csr, DiagonalDefect, Structure};
use crate::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Values in device memory.
pub(crate) enum DeviceValues {
    F64(Buffer<f64>),
    F32(Buffer<f32>),
}

impl DeviceValues {
    pub(super) fn precision(&self) -> Precision {
        match self {
            DeviceValues::F64(_) => Precision::F64,
            DeviceValues::F32(_) => Precision::F32,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            DeviceValues::F64(values) => values.len(),
            DeviceValues::F32(values) => values.len(),
        }
    }
}

/// A matrix in rows in device memory, in the format that it was given in.
#[derive(Clone)]
pub(crate) enum DeviceMatrix {
    F64(DeviceCsr<f64>),
    F32(DeviceCsr<f32>),
}

/// Does the same for both formats.
macro_rules! with_device {
    ($matrix:expr, $a:ident => $body:expr) => {
        match $matrix {
            DeviceMatrix::F64($a) => $body,
            DeviceMatrix::F32($a) => $body,
        }
    };
}
pub(super) use with_device;

impl From<DeviceCsr<f64>> for DeviceMatrix {
    fn from(a: DeviceCsr<f64>) -> Self {
        DeviceMatrix::F64(a)
    }
}

impl From<DeviceCsr<f32>> for DeviceMatrix {
    fn from(a: DeviceCsr<f32>) -> Self {
        DeviceMatrix::F32(a)
    }
}

impl DeviceMatrix {
    pub(super) fn precision(&self) -> Precision {
        match self {
            DeviceMatrix::F64(_) => Precision::F64,
            DeviceMatrix::F32(_) => Precision::F32,
        }
    }

    /// Whether the values are in the caller's memory, where they may change.
    pub(super) fn is_borrowed(&self) -> bool {
        with_device!(self, a => a.values.is_borrowed())
    }

    /// Where the caller's arrays are: offsets, columns and values.
    pub(super) fn borrowed(&self) -> [Option<Range<usize>>; 3] {
        fn of<T>(array: &Buffer<T>) -> Option<Range<usize>> {
            let (start, bytes) = (array.address() as usize, array.len() * size_of::<T>());
            array.is_borrowed().then_some(start..start + bytes)
        }
        with_device!(self, a => [of(&a.offsets), of(&a.columns), of(&a.values)])
    }

    /// A copy on the host, with indices counted from `base` again.
    fn fetch(&self, gpu: &Gpu, base: i32) -> Result<(Structure, Values)> {
        fn structure<T: Scalar>(a: Csr<T>, base: i32) -> (Structure, Vec<T>) {
            let Csr { rows, cols, block, mut offsets, mut columns, values } = a;
            offsets.iter_mut().for_each(|o| *o += i64::from(base));
            columns.iter_mut().for_each(|c| *c += base);
            let offsets = sparse::OffsetStorage::I64(Arc::new(offsets));
            (Structure { rows, cols, block, offsets, columns: Arc::new(columns), base }, values)
        }
        Ok(match self {
            DeviceMatrix::F64(a) => {
                let (structure, values) = structure(a.fetch(gpu)?, base);
                (structure, values.into())
            }
            DeviceMatrix::F32(a) => {
                let (structure, values) = structure(a.fetch(gpu)?, base);
                (structure, values.into())
            }
        })
    }
}

/// A matrix in device memory. It is copied to the host when the host needs it.
pub(super) struct DeviceStorage {
    pub(super) arrays: DeviceArrays,
    /// Base of the caller's indices, for messages.
    pub(super) base: i32,
    /// The copy on the host. Borrowed values are not kept, because the caller may change them.
    pub(super) copy: Mutex<Option<(Arc<Structure>, Values)>>,
}

impl DeviceStorage {
    pub(super) fn new(gpu: &Gpu, matrix: DeviceMatrix, base: i32) -> DeviceStorage {
        DeviceStorage { arrays: DeviceArrays::new(gpu, matrix), base, copy: Mutex::new(None) }
    }

    pub(super) fn gpu(&self) -> &Gpu {
        self.arrays.gpu()
    }

    /// Bytes that the library holds on the device.
    pub(super) fn bytes(&self) -> usize {
        self.arrays.read().map_or(0, |matrix| with_device!(matrix, a => a.bytes()))
    }

    pub(super) fn on_host(&self) -> Result<(Arc<Structure>, Values)> {
        let mut copy = lock(self.copy.lock());
        if let Some((structure, values)) = &*copy {
            return Ok((Arc::clone(structure), values.clone()));
        }
        let matrix = self.arrays.read()?;
        let (structure, values) = matrix.fetch(self.gpu(), self.base)?;
        let fetched = (Arc::new(structure), values);
        if !matrix.is_borrowed() {
            *copy = Some(fetched.clone());
        }
        Ok(fetched)
    }

    /// As [`DeviceStorage::on_host`], without keeping the copy.
    pub(super) fn copied(&self) -> Result<(Arc<Structure>, Values)> {
        if let Some((structure, values)) = &*lock(self.copy.lock()) {
            return Ok((Arc::clone(structure), values.clone()));
        }
        let (structure, values) = self.arrays.read()?.fetch(self.gpu(), self.base)?;
        Ok((Arc::new(structure), values))
    }

    /// Checks a matrix on the device. A defect is then located and reported by the checks of the host.
    pub(super) fn check(&self, matrix: &DeviceMatrix, structure: bool, sorted: bool) -> Result<DiagonalDefect> {
        if with_device!(matrix, a => self.gpu().check_rows(a, structure, sorted))? {
            return Ok(None);
        }
        let (pattern, values) = matrix.fetch(self.gpu(), self.base)?;
        if structure { values.check_all(&pattern, sorted) } else { values.check(&pattern) }
    }
}
