//! The matrix that a caller hands over: checked once, shared freely, its values replaceable.

mod borrowed;
mod changes;
mod couplings;
mod device_arrays;
mod device_stencil;
mod device_storage;
mod distributed;
mod functions;
mod grid_copy;
mod import;
mod near_null_over_ranks;
mod near_null_space;
mod operator;
mod permuted;
mod stencil_storage;
pub(crate) mod units;

use crate::backend::Operator;
use crate::comm::Numbering;
use crate::context::Context;
use crate::error::{Result, fail};
use crate::gpu::Gpu;
use crate::gpu::setup::{DeviceCsr, DeviceNearNullSpace};
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::NearNullSpace;
use crate::sparse::{self, Block, Csr, DiagonalDefect, SharedCsr, Stencil, Storage, Structure};
use crate::sync::lock;
use changes::Changes;
use device_stencil::{DeviceStencilStorage, with_stencil};
use device_storage::{DeviceStorage, with_device};
use std::any::Any;
use std::sync::{Arc, Mutex, RwLock};
use stencil_storage::StencilStorage;

pub(crate) use couplings::share_of;
pub(crate) use device_stencil::{DeviceStencilMatrix, StencilLayout};
pub(crate) use device_storage::{DeviceMatrix, DeviceValues};
pub(crate) use distributed::DistributedRows;
pub use distributed::GivenRows;
pub(crate) use functions::UnknownFunctions;
pub(crate) use import::Import;
pub use operator::MatrixBackend;
pub(crate) use permuted::{Permutation, Reordered};

/// Values of a matrix in the format they were handed over.
#[derive(Clone)]
pub enum Values {
    /// f64.
    F64(Arc<dyn Storage<f64>>),
    /// f32.
    F32(Arc<dyn Storage<f32>>),
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Self {
        Values::F64(Arc::new(values))
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Values::F32(Arc::new(values))
    }
}

impl Values {
    /// Their format.
    pub fn precision(&self) -> Precision {
        match self {
            Values::F64(_) => Precision::F64,
            Values::F32(_) => Precision::F32,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Values::F64(v) => v.as_slice().len(),
            Values::F32(v) => v.as_slice().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks pattern and values.
    fn check_all(&self, structure: &Structure, sorted: bool) -> Result<DiagonalDefect> {
        match self {
            Values::F64(v) => sparse::validate(&structure.view(v.as_slice()), sorted),
            Values::F32(v) => sparse::validate(&structure.view(v.as_slice()), sorted),
        }
    }

    fn check(&self, structure: &Structure) -> Result<DiagonalDefect> {
        match self {
            Values::F64(v) => sparse::validate_values(&structure.view(v.as_slice())),
            Values::F32(v) => sparse::validate_values(&structure.view(v.as_slice())),
        }
    }
}

/// A matrix as an operator on vectors in device memory.
pub(crate) type DeviceOperator<T> = Box<dyn Operator<Gpu, T>>;

/// The arrays of a matrix, on the host or on a device.
enum MatrixStorage {
    Host { structure: Arc<Structure>, values: RwLock<Values> },
    Stencil(StencilStorage),
    Device(DeviceStorage),
    DeviceStencil(DeviceStencilStorage),
}

/// A matrix with what is known about its near-null space and its unknowns. Several solvers and threads may share it.
///
/// A change of values swaps the whole array, so that a solver that reads the old one is not disturbed: its next solve uses the new
/// values, its preconditioner those of the last set-up or `update`.
pub struct Matrix {
    /// Block rows and columns.
    size: (usize, usize),
    block: Block,
    /// Stored blocks.
    nnz: usize,
    storage: MatrixStorage,
    near_null_space: RwLock<Option<Arc<NearNullSpace>>>,
    /// The same on the GPU of the matrix, copied at first use.
    device_near_null_space: Mutex<Option<Arc<DeviceNearNullSpace>>>,
    functions: RwLock<Option<Arc<UnknownFunctions>>>,
    /// The stencil of a matrix in rows whose unknowns were said to be the cells of a grid.
    stencil: RwLock<Option<Arc<Stencil>>>,
    /// What a check of its values found about its diagonal; nothing before the check. Those of a computed matrix are checked by
    /// set-up.
    diagonal: Mutex<Option<DiagonalDefect>>,
    changes: Mutex<Changes>,
    /// Copies in SpMV formats.
    operators: Mutex<Vec<KeptOperator>>,
    /// Of a matrix over ranks, whose storage has the rows of this rank.
    distributed: Option<Arc<DistributedRows>>,
    /// Of the rows of this rank in a divided set-up the numbers of rows and columns.
    local: Option<Arc<Numbering>>,
}

/// A matrix or its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A.
    Plain,
    /// Aᵀ.
    Transposed,
}

/// A copy in an SpMV format, a [`DeviceOperator`] for some type of vectors.
struct KeptOperator {
    gpu: Gpu,
    side: Side,
    operator: Arc<dyn Any + Send + Sync>,
}

impl Matrix {
    /// Checks the arrays and makes a matrix of them. `sorted` is the promise that columns ascend in each row.
    pub fn new(structure: Structure, values: Values, sorted: bool) -> Result<Matrix> {
        let diagonal = values.check_all(&structure, sorted)?;
        let (size, block, nnz) =
            ((structure.rows, structure.cols), structure.block, structure.columns.as_slice().len());
        let storage = MatrixStorage::Host { structure: Arc::new(structure), values: RwLock::new(values) };
        Ok(Matrix::at(storage, size, block, nnz, Some(diagonal)))
    }

    fn at(
        storage: MatrixStorage,
        size: (usize, usize),
        block: Block,
        nnz: usize,
        diagonal: Option<DiagonalDefect>,
    ) -> Matrix {
        let (near_null_space, diagonal, operators) = (RwLock::new(None), Mutex::new(diagonal), Mutex::new(Vec::new()));
        let (device_near_null_space, functions, changes) = (Mutex::new(None), RwLock::new(None), Mutex::default());
        let stencil = RwLock::new(None);
        Matrix {
            size,
            block,
            nnz,
            storage,
            near_null_space,
            device_near_null_space,
            functions,
            stencil,
            diagonal,
            changes,
            operators,
            distributed: None,
            local: None,
        }
    }

    /// A matrix that the library computed. What set-up asks of values is looked at when it needs them.
    pub(crate) fn computed<T: Scalar>(a: Csr<T>) -> Result<Matrix>
    where
        Values: From<Vec<T>>,
    {
        let Csr { rows, cols, block, offsets, columns, values } = a;
        let nnz = columns.len();
        let offsets = sparse::OffsetStorage::I64(Arc::new(offsets));
        let structure = Arc::new(Structure { rows, cols, block, offsets, columns: Arc::new(columns), base: 0 });
        let storage = MatrixStorage::Host { structure, values: RwLock::new(Values::from(values)) };
        Ok(Matrix::at(storage, (rows, cols), block, nnz, None))
    }

    /// The same in device memory.
    pub(crate) fn computed_on_device(gpu: &Gpu, matrix: DeviceMatrix) -> Matrix {
        let (size, block, nnz) = with_device!(&matrix, a => ((a.rows, a.cols), a.block, a.nnz()));
        Matrix::at(MatrixStorage::Device(DeviceStorage::new(gpu, matrix, 0)), size, block, nnz, None)
    }

    /// Checks the values of a computed matrix, once.
    pub(crate) fn check_for_set_up(&self, context: &Context) -> Result<()> {
        if lock(self.diagonal.lock()).is_some() {
            return Ok(());
        }
        let diagonal = self.check_values(context)?;
        *lock(self.diagonal.lock()) = Some(diagonal);
        Ok(())
    }

    /// The same, and refuses a matrix that AMG cannot be set up for: a row has no diagonal.
    pub(crate) fn check_for_amg(&self, context: &Context) -> Result<()> {
        self.check_for_set_up(context)?;
        lock(self.diagonal.lock()).clone().flatten().map_or(Ok(()), Err)
    }

    fn check_values(&self, context: &Context) -> Result<DiagonalDefect> {
        match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = lock(values.read()).clone();
                context.run(self.entries(), || values.check(structure))
            }
            MatrixStorage::Stencil(stencil) => context.run(self.entries(), || stencil.check(&stencil.values())),
            MatrixStorage::Device(device) => device.check(&device.arrays.read()?, false, false),
            MatrixStorage::DeviceStencil(device) => device.check(&device.read()?),
        }
    }

    /// The matrix, or its transpose, as an operator on vectors of the context's GPU, in the format that suits it. It is kept for the next
    /// product until the values change, unless they are the caller's in device memory, who may change them.
    pub(crate) fn operator_on<T: Scalar>(&self, context: &Context, side: Side) -> Result<Arc<DeviceOperator<T>>> {
        let Some(gpu) = context.gpu() else { unreachable!("the vectors are in the memory of a GPU") };
        if self.is_borrowed_on_device() {
            return Ok(Arc::new(operator::on_device(gpu, self, side)?));
        }
        // Where borrowed values on the host have changed, nothing is left in the list.
        self.changes(context)?;
        let mut operators = lock(self.operators.lock());
        let kept = operators.iter().filter(|kept| kept.gpu.is_same(gpu) && kept.side == side);
        if let Some(kept) =
            kept.filter_map(|kept| Arc::clone(&kept.operator).downcast::<DeviceOperator<T>>().ok()).next()
        {
            return Ok(kept);
        }
        let operator: Arc<DeviceOperator<T>> = Arc::new(operator::on_device(gpu, self, side)?);
        operators.push(KeptOperator { gpu: gpu.clone(), side, operator: Arc::clone(&operator) as _ });
        Ok(operator)
    }

    /// As [`Matrix::new`], for a matrix in the memory of a GPU, whose offsets are right. Indices in sentences are counted from
    /// `base`.
    pub(crate) fn on_device(gpu: &Gpu, matrix: DeviceMatrix, sorted: bool, base: i32) -> Result<Matrix> {
        let device = DeviceStorage::new(gpu, matrix, base);
        let matrix = device.arrays.read()?;
        let diagonal = device.check(&matrix, true, sorted)?;
        let (size, block, nnz) = with_device!(&matrix, a => ((a.rows, a.cols), a.block, a.nnz()));
        Ok(Matrix::at(MatrixStorage::Device(device), size, block, nnz, Some(diagonal)))
    }

    /// A matrix of arrays made in Rust.
    pub fn from_csr<T: Scalar>(a: Csr<T>) -> Result<Matrix>
    where
        Values: From<Vec<T>>,
    {
        let Csr { rows, cols, block, offsets, columns, values } = a;
        let offsets = sparse::OffsetStorage::I64(Arc::new(offsets));
        let structure = Structure { rows, cols, block, offsets, columns: Arc::new(columns), base: 0 };
        Matrix::new(structure, Values::from(values), false)
    }

    /// A copy of this matrix in the memory of the context's GPU, which works with it there alone.
    pub fn to_device(&self, context: &Context) -> Result<Matrix> {
        self.check_not_distributed("a copy on a GPU")?;
        let Some(gpu) = context.gpu() else {
            return fail!(InvalidArgument, "a matrix cannot be copied to a device by a context on the host");
        };
        self.to_gpu(gpu)
    }

    fn to_gpu(&self, gpu: &Gpu) -> Result<Matrix> {
        if let Some(copy) = self.stencil_to_gpu(gpu)? {
            copy.take_unknowns_of(self);
            return Ok(copy);
        }
        let matrix = match self.precision() {
            Precision::F32 => DeviceMatrix::F32(self.device::<f32>(gpu)?),
            _ => DeviceMatrix::F64(self.device::<f64>(gpu)?),
        };
        let copy = Matrix::on_device(gpu, matrix, false, 0)?;
        copy.take_unknowns_of(self);
        Ok(copy)
    }

    /// Its blocks.
    pub fn block(&self) -> Block {
        self.block
    }

    /// The pattern, on the host.
    pub fn structure(&self) -> Result<Arc<Structure>> {
        match &self.storage {
            MatrixStorage::Host { structure, .. } => Ok(Arc::clone(structure)),
            MatrixStorage::Stencil(stencil) => stencil.structure(),
            MatrixStorage::Device(device) => Ok(device.on_host()?.0),
            MatrixStorage::DeviceStencil(device) => device.on_host()?.structure(),
        }
    }

    /// Scalar rows.
    pub fn rows(&self) -> usize {
        self.size.0 * self.block.rows
    }

    /// Scalar columns.
    pub fn cols(&self) -> usize {
        self.size.1 * self.block.cols
    }

    /// Stored scalar values.
    pub fn entries(&self) -> usize {
        self.nnz * self.block.len()
    }

    /// Format of the values.
    pub fn precision(&self) -> Precision {
        match &self.storage {
            MatrixStorage::Host { values, .. } => lock(values.read()).precision(),
            MatrixStorage::Stencil(stencil) => stencil.values().precision(),
            MatrixStorage::Device(device) => device.arrays.precision(),
            MatrixStorage::DeviceStencil(device) => device.precision(),
        }
    }

    /// The values now, on the host, in the order in which they were given.
    pub fn values(&self) -> Result<Values> {
        match &self.storage {
            MatrixStorage::Host { values, .. } => Ok(lock(values.read()).clone()),
            MatrixStorage::Stencil(stencil) => Ok(stencil.values()),
            MatrixStorage::Device(device) => Ok(device.on_host()?.1),
            MatrixStorage::DeviceStencil(device) => Ok(device.on_host()?.values()),
        }
    }

    /// Pattern and values now, on the host. Of a matrix in device memory it is a copy that ends with its user.
    pub(crate) fn copied(&self) -> Result<(Arc<Structure>, Values)> {
        match &self.storage {
            MatrixStorage::Host { structure, values } => Ok((Arc::clone(structure), lock(values.read()).clone())),
            MatrixStorage::Stencil(stencil) => stencil.copied(),
            MatrixStorage::Device(device) => device.copied(),
            MatrixStorage::DeviceStencil(device) => device.copied()?.copied(),
        }
    }

    /// Bytes of pattern and values on the host that the library holds; 0 for lent arrays and in device memory.
    pub(crate) fn owned_bytes(&self) -> (usize, usize) {
        match &self.storage {
            MatrixStorage::Host { structure, values } => {
                let values = match &*lock(values.read()) {
                    Values::F64(values) => values.owned_bytes(),
                    Values::F32(values) => values.owned_bytes(),
                };
                (structure.owned_bytes(), values)
            }
            MatrixStorage::Stencil(stencil) => stencil.owned_bytes(),
            MatrixStorage::Device(_) | MatrixStorage::DeviceStencil(_) => (0, 0),
        }
    }

    /// Bytes of its arrays in device memory that the library holds.
    pub(crate) fn device_bytes(&self) -> usize {
        match &self.storage {
            MatrixStorage::Device(device) => device.bytes(),
            MatrixStorage::DeviceStencil(device) => device.bytes(),
            _ => 0,
        }
    }

    /// Replaces the values; pattern and format stay. Nothing is changed when they are refused.
    pub fn update_values(&self, values: Values) -> Result<()> {
        self.check_format(values.precision(), values.len())?;
        match &self.storage {
            MatrixStorage::Host { structure, values: own } => {
                let diagonal = values.check(structure)?;
                *lock(own.write()) = values;
                self.replaced(diagonal);
                Ok(())
            }
            MatrixStorage::Stencil(stencil) => {
                let diagonal = stencil.check(&values)?;
                stencil.replace(values);
                self.replaced(diagonal);
                Ok(())
            }
            MatrixStorage::DeviceStencil(device) => self.update_stencil_from_host(device, &values),
            MatrixStorage::Device(device) => match &values {
                Values::F64(values) => {
                    self.update_device_values(DeviceValues::F64(device.gpu().upload(values.as_slice())?))
                }
                Values::F32(values) => {
                    self.update_device_values(DeviceValues::F32(device.gpu().upload(values.as_slice())?))
                }
            },
        }
    }

    /// As [`Matrix::update_values`], for values in the memory of the GPU where the matrix is.
    pub(crate) fn update_device_values(&self, values: DeviceValues) -> Result<()> {
        self.check_format(values.precision(), values.len())?;
        let MatrixStorage::Device(device) = &self.storage else { unreachable!("the matrix is in device memory") };
        let new = match (device.arrays.read()?, values) {
            (DeviceMatrix::F64(a), DeviceValues::F64(values)) => {
                DeviceMatrix::F64(DeviceCsr { values: Arc::new(values), ..a })
            }
            (DeviceMatrix::F32(a), DeviceValues::F32(values)) => {
                DeviceMatrix::F32(DeviceCsr { values: Arc::new(values), ..a })
            }
            _ => unreachable!("the format was checked"),
        };
        self.replace_on_device(device, new)
    }

    /// Takes over the values of another matrix with the same pattern and format, which is in the same memory.
    pub(crate) fn take_values(&self, other: &Matrix) -> Result<()> {
        match (&self.storage, &other.storage) {
            (MatrixStorage::Device(own), MatrixStorage::Device(other)) => {
                self.replace_on_device(own, other.arrays.read()?)
            }
            (MatrixStorage::DeviceStencil(own), MatrixStorage::DeviceStencil(other)) => {
                self.replace_stencil(own, other.read()?)
            }
            _ => self.update_values(other.values()?),
        }
    }

    /// Checks the values of arrays with the same pattern, and uses them from here on.
    fn replace_on_device(&self, device: &DeviceStorage, new: DeviceMatrix) -> Result<()> {
        let new = DeviceStorage::new(device.gpu(), new, device.base);
        let matrix = new.arrays.read()?;
        let diagonal = new.check(&matrix, false, false)?;
        device.arrays.replace(matrix);
        *lock(device.copy.lock()) = None;
        self.replaced(diagonal);
        Ok(())
    }

    /// After a change of values, which were checked.
    fn replaced(&self, diagonal: DiagonalDefect) {
        lock(self.operators.lock()).clear();
        self.count_change();
        *lock(self.diagonal.lock()) = Some(diagonal);
    }

    fn check_format(&self, precision: Precision, len: usize) -> Result<()> {
        if precision != self.precision() {
            let (new, old) = (precision.name(), self.precision().name());
            return fail!(InvalidArgument, "the new values are {new}; the matrix was created with {old}");
        }
        if len != self.entries() {
            return fail!(SizeMismatch, "{len} values were given; the matrix has {}", self.entries());
        }
        Ok(())
    }

    /// The matrix in the memory of a GPU, in the format `T`: shared where it is in this memory and format, otherwise a copy.
    pub(crate) fn device<T: Number>(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        match &self.storage {
            MatrixStorage::Device(device) if device.gpu().is_same(gpu) => {
                with_device!(device.arrays.read()?, a => a.cast(gpu))
            }
            MatrixStorage::DeviceStencil(device) if device.gpu().is_same(gpu) => {
                with_stencil!(device.read()?, a => a.to_rows(gpu)?.cast(gpu))
            }
            _ => DeviceCsr::upload(gpu, &self.shared::<T>()?.view()),
        }
    }

    /// Whether a matrix of device memory came to the host.
    #[cfg(feature = "unit-tests")]
    pub(crate) fn has_host_copy(&self) -> bool {
        match &self.storage {
            MatrixStorage::Device(device) => lock(device.copy.lock()).is_some(),
            MatrixStorage::DeviceStencil(device) => device.has_host_copy(),
            _ => false,
        }
    }

    /// Whether it is in the memory of this GPU, and belongs to the same context.
    pub(crate) fn is_on(&self, gpu: &Gpu) -> bool {
        self.is_stencil_on(gpu) || matches!(&self.storage, MatrixStorage::Device(device) if device.gpu().is_same(gpu))
    }

    /// The matrix on the host in the format `T`; shared with the caller's arrays when that is their format.
    pub fn shared<T: Number>(&self) -> Result<SharedCsr<T>> {
        let (structure, values) = match &self.storage {
            MatrixStorage::Host { structure, values } => (Arc::clone(structure), lock(values.read()).clone()),
            MatrixStorage::Stencil(stencil) => stencil.in_rows()?,
            MatrixStorage::Device(device) => device.on_host()?,
            MatrixStorage::DeviceStencil(device) => device.on_host()?.in_rows()?,
        };
        match values {
            Values::F64(values) => SharedCsr { structure, values }.cast(),
            Values::F32(values) => SharedCsr { structure, values }.cast(),
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn refused_values_leave_the_matrix_as_it_was() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 2.0), (1, 1, 3.0)]).unwrap();
        let matrix = Matrix::from_csr(a).unwrap();
        let refused = |values: Values| matrix.update_values(values).unwrap_err().status;
        assert_eq!(refused(Values::from(vec![1.0])), Status::SizeMismatch);
        assert_eq!(refused(Values::from(vec![1.0_f32, 1.0])), Status::InvalidArgument);
        assert_eq!(refused(Values::from(vec![1.0, f64::NAN])), Status::MatrixValues);
        assert_eq!(matrix.shared::<f64>().unwrap().values.as_slice(), [2.0, 3.0]);
        matrix.update_values(Values::from(vec![4.0, 5.0])).unwrap();
        assert_eq!(matrix.shared::<f32>().unwrap().values.as_slice(), [4.0_f32, 5.0]);
    }
}
