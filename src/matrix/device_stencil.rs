//! A matrix on a structured grid in the memory of a GPU. It is copied to the host when the host needs it.

use super::stencil_storage::StencilStorage;
use super::{DeviceValues, Matrix, MatrixStorage, Values};
use crate::error::{Result, fail};
use crate::gpu::{DeviceStencil, Gpu};
use crate::scalar::{Number, Precision};
use crate::sparse::{Block, DiagonalDefect, SharedStencil, Stencil};
use crate::sync::lock;
use std::ops::Range;
use std::sync::{Arc, Mutex, RwLock};

/// A stencil in device memory, in the format that it was given in.
#[derive(Clone)]
pub(crate) enum DeviceStencilMatrix {
    F64(DeviceStencil<f64>),
    F32(DeviceStencil<f32>),
}

/// Does the same for both formats.
macro_rules! with_stencil {
    ($matrix:expr, $a:ident => $body:expr) => {
        match $matrix {
            DeviceStencilMatrix::F64($a) => $body,
            DeviceStencilMatrix::F32($a) => $body,
        }
    };
}
pub(super) use with_stencil;

/// How a caller keeps the values of a stencil in device memory.
#[derive(Clone, Copy)]
pub(crate) struct StencilLayout {
    /// All values of a cell are together.
    pub by_cell: bool,
    /// They are read in place.
    pub borrow: bool,
}

impl DeviceStencilMatrix {
    /// A caller's values, borrowed in place or copied.
    pub(crate) fn of_caller(
        gpu: &Gpu,
        pattern: &Arc<Stencil>,
        values: DeviceValues,
        layout: StencilLayout,
    ) -> Result<DeviceStencilMatrix> {
        let StencilLayout { by_cell, borrow } = layout;
        Ok(match values {
            DeviceValues::F64(values) if borrow => DeviceStencilMatrix::F64(DeviceStencil::of_caller(pattern, values)),
            DeviceValues::F32(values) if borrow => DeviceStencilMatrix::F32(DeviceStencil::of_caller(pattern, values)),
            DeviceValues::F64(values) => {
                DeviceStencilMatrix::F64(DeviceStencil::import(gpu, pattern, &values, by_cell)?)
            }
            DeviceValues::F32(values) => {
                DeviceStencilMatrix::F32(DeviceStencil::import(gpu, pattern, &values, by_cell)?)
            }
        })
    }

    /// A copy of values on the host.
    fn upload(gpu: &Gpu, pattern: &Arc<Stencil>, values: &Values) -> Result<DeviceStencilMatrix> {
        let pattern = Arc::clone(pattern);
        Ok(match values {
            Values::F64(values) => {
                let matrix = SharedStencil { pattern, values: Arc::clone(values) };
                DeviceStencilMatrix::F64(DeviceStencil::upload(gpu, &matrix)?)
            }
            Values::F32(values) => {
                let matrix = SharedStencil { pattern, values: Arc::clone(values) };
                DeviceStencilMatrix::F32(DeviceStencil::upload(gpu, &matrix)?)
            }
        })
    }

    fn fetch(&self, gpu: &Gpu) -> Result<Values> {
        Ok(match self {
            DeviceStencilMatrix::F64(a) => Values::F64(a.fetch(gpu)?.values),
            DeviceStencilMatrix::F32(a) => Values::F32(a.fetch(gpu)?.values),
        })
    }

    fn precision(&self) -> Precision {
        match self {
            DeviceStencilMatrix::F64(_) => Precision::F64,
            DeviceStencilMatrix::F32(_) => Precision::F32,
        }
    }

    fn is_borrowed(&self) -> bool {
        with_stencil!(self, a => a.values.is_borrowed())
    }
}

/// The storage of such a matrix.
pub(super) struct DeviceStencilStorage {
    gpu: Gpu,
    pub(super) pattern: Arc<Stencil>,
    matrix: RwLock<DeviceStencilMatrix>,
    /// The copy on the host. Borrowed values are not kept, because the caller may change them.
    copy: Mutex<Option<Arc<StencilStorage>>>,
}

impl DeviceStencilStorage {
    pub(super) fn new(gpu: &Gpu, matrix: DeviceStencilMatrix) -> DeviceStencilStorage {
        let pattern = with_stencil!(&matrix, a => Arc::clone(&a.pattern));
        DeviceStencilStorage { gpu: gpu.clone(), pattern, matrix: RwLock::new(matrix), copy: Mutex::new(None) }
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The matrix now. What the caller has begun to write to borrowed values comes before what is launched from here on.
    pub(super) fn read(&self) -> Result<DeviceStencilMatrix> {
        let matrix = lock(self.matrix.read()).clone();
        if matrix.is_borrowed() {
            self.gpu.begin_call()?;
        }
        Ok(matrix)
    }

    pub(super) fn precision(&self) -> Precision {
        lock(self.matrix.read()).precision()
    }

    /// Whether the values are in the caller's memory.
    pub(super) fn is_borrowed(&self) -> bool {
        lock(self.matrix.read()).is_borrowed()
    }

    /// Bytes of its values that the library holds.
    pub(super) fn bytes(&self) -> usize {
        let matrix = lock(self.matrix.read()).clone();
        with_stencil!(&matrix, a => a.values.owned_bytes())
    }

    /// Where the caller's values are.
    pub(super) fn borrowed(&self) -> Option<Range<usize>> {
        let matrix = lock(self.matrix.read()).clone();
        let (start, len) = with_stencil!(&matrix, a => (a.values.address() as usize, a.values.len()));
        matrix.is_borrowed().then_some(start..start + len * matrix.precision().bytes())
    }

    /// Waits until what was launched has read borrowed values.
    pub(super) fn end_reading(&self) -> Result<()> {
        if self.is_borrowed() { self.gpu.end_call() } else { Ok(()) }
    }

    /// The matrix on the host; kept where the caller cannot change it.
    pub(super) fn on_host(&self) -> Result<Arc<StencilStorage>> {
        let mut copy = lock(self.copy.lock());
        if let Some(copy) = &*copy {
            return Ok(Arc::clone(copy));
        }
        let fetched = self.fetched()?;
        if !self.is_borrowed() {
            *copy = Some(Arc::clone(&fetched));
        }
        Ok(fetched)
    }

    /// The same, without keeping what is not there yet.
    pub(super) fn copied(&self) -> Result<Arc<StencilStorage>> {
        if let Some(copy) = &*lock(self.copy.lock()) {
            return Ok(Arc::clone(copy));
        }
        self.fetched()
    }

    fn fetched(&self) -> Result<Arc<StencilStorage>> {
        let values = self.read()?.fetch(&self.gpu)?;
        Ok(Arc::new(StencilStorage::new(Arc::clone(&self.pattern), values)))
    }

    /// Checks a matrix on the device. A defect is then located and reported by the checks of the host.
    pub(super) fn check(&self, matrix: &DeviceStencilMatrix) -> Result<DiagonalDefect> {
        if with_stencil!(matrix, a => a.is_valid(&self.gpu))? {
            return Ok(None);
        }
        let values = matrix.fetch(&self.gpu)?;
        StencilStorage::new(Arc::clone(&self.pattern), values.clone()).check(&values)
    }

    /// Uses another matrix from here on, which was checked.
    pub(super) fn replace(&self, matrix: DeviceStencilMatrix) {
        *lock(self.matrix.write()) = matrix;
        *lock(self.copy.lock()) = None;
    }

    /// Whether it came to the host.
    #[cfg(feature = "unit-tests")]
    pub(super) fn has_host_copy(&self) -> bool {
        lock(self.copy.lock()).is_some()
    }
}

impl Matrix {
    /// As [`Matrix::on_grid`], in the memory of a GPU.
    pub(crate) fn stencil_on_device(gpu: &Gpu, matrix: DeviceStencilMatrix) -> Result<Matrix> {
        let storage = DeviceStencilStorage::new(gpu, matrix);
        let diagonal = storage.check(&storage.read()?)?;
        let (cells, pattern) = (storage.pattern.grid.cells(), &storage.pattern);
        let (block, nnz) = (Block::square(pattern.block), pattern.offsets.len() * cells);
        Ok(Matrix::at(MatrixStorage::DeviceStencil(storage), (cells, cells), block, nnz, Some(diagonal)))
    }

    /// A copy of a stencil in the memory of a GPU; none of a matrix in rows.
    pub(super) fn stencil_to_gpu(&self, gpu: &Gpu) -> Result<Option<Matrix>> {
        let (pattern, values) = match &self.storage {
            MatrixStorage::Stencil(stencil) => (&stencil.pattern, stencil.values()),
            MatrixStorage::DeviceStencil(device) => (&device.pattern, device.copied()?.values()),
            _ => return Ok(None),
        };
        Matrix::stencil_on_device(gpu, DeviceStencilMatrix::upload(gpu, pattern, &values)?).map(Some)
    }

    /// The stencil of a matrix that is one in the memory of this GPU, with values of type `T` that nobody changes: shared where they are that.
    pub(crate) fn device_stencil<T: Number>(&self, gpu: &Gpu) -> Result<Option<DeviceStencil<T>>> {
        match &self.storage {
            MatrixStorage::DeviceStencil(device) if device.gpu().is_same(gpu) => {
                with_stencil!(device.read()?, a => a.own(gpu)?.cast(gpu).map(Some))
            }
            _ => Ok(None),
        }
    }

    /// Whether it is a stencil in the memory of this GPU, and belongs to the same context.
    pub(crate) fn is_stencil_on(&self, gpu: &Gpu) -> bool {
        matches!(&self.storage, MatrixStorage::DeviceStencil(device) if device.gpu().is_same(gpu))
    }

    /// As [`Matrix::update_values`], for values of a stencil in the memory of the GPU where it is.
    pub(crate) fn update_device_stencil(&self, values: DeviceValues, layout: StencilLayout) -> Result<()> {
        let MatrixStorage::DeviceStencil(device) = &self.storage else {
            return fail!(Internal, "the stencil is not in device memory");
        };
        self.check_format(values.precision(), values.len())?;
        self.replace_stencil(device, DeviceStencilMatrix::of_caller(device.gpu(), &device.pattern, values, layout)?)
    }

    /// The same for values on the host.
    pub(super) fn update_stencil_from_host(&self, device: &DeviceStencilStorage, values: &Values) -> Result<()> {
        self.replace_stencil(device, DeviceStencilMatrix::upload(device.gpu(), &device.pattern, values)?)
    }

    /// Checks another matrix with the same pattern, and uses it from here on.
    pub(super) fn replace_stencil(&self, device: &DeviceStencilStorage, matrix: DeviceStencilMatrix) -> Result<()> {
        if matrix.is_borrowed() {
            device.gpu().begin_call()?;
        }
        let diagonal = device.check(&matrix)?;
        device.replace(matrix);
        self.replaced(diagonal);
        Ok(())
    }
}
