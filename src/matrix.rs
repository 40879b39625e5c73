//! The matrix that a caller hands over: checked once, shared freely, its values replaceable.

use crate::amg::null_space::NearNullSpace;
use crate::context::{Context, lock};
use crate::error::{Result, fail};
use crate::gpu::Slice;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{self, Csr, SharedCsr, Storage, Structure};
use std::sync::{Arc, RwLock};

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

    fn check(&self, structure: &Structure) -> Result<()> {
        match self {
            Values::F64(v) => sparse::validate_values(&structure.view(v.as_slice())),
            Values::F32(v) => sparse::validate_values(&structure.view(v.as_slice())),
        }
    }
}

/// Values that a caller has lent in device memory.
pub(crate) enum DeviceValues {
    F64(Slice<f64>),
    F32(Slice<f32>),
}

/// A matrix with what is known about its near-null space. Several solvers and threads may share it.
///
/// A change of values swaps the whole array, so that a solver that reads the old one is not disturbed; it sees the new values at
/// its next `update`.
pub struct Matrix {
    structure: Arc<Structure>,
    values: RwLock<Values>,
    near_null_space: RwLock<Option<Arc<NearNullSpace>>>,
    /// Where the values lie that a caller has lent in device memory; `values` is a copy of them.
    device_values: RwLock<Option<DeviceValues>>,
}

impl Matrix {
    /// Checks the arrays and makes a matrix of them. `sorted` is the promise that columns ascend in each row.
    pub fn new(structure: Structure, values: Values, sorted: bool) -> Result<Matrix> {
        match &values {
            Values::F64(v) => sparse::validate(&structure.view(v.as_slice()), sorted)?,
            Values::F32(v) => sparse::validate(&structure.view(v.as_slice()), sorted)?,
        }
        Ok(Matrix {
            structure: Arc::new(structure),
            values: RwLock::new(values),
            near_null_space: RwLock::new(None),
            device_values: RwLock::new(None),
        })
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

    /// The pattern.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Scalar rows.
    pub fn rows(&self) -> usize {
        self.structure.rows * self.structure.block.rows
    }

    /// Scalar columns.
    pub fn cols(&self) -> usize {
        self.structure.cols * self.structure.block.cols
    }

    /// Stored scalar values.
    pub fn entries(&self) -> usize {
        self.structure.columns.as_slice().len() * self.structure.block.len()
    }

    /// Format of the values.
    pub fn precision(&self) -> Precision {
        self.values().precision()
    }

    /// The values now.
    pub fn values(&self) -> Values {
        lock(self.values.read()).clone()
    }

    /// Replaces the values; pattern and format stay. Nothing is changed when they are refused.
    pub fn update_values(&self, values: Values) -> Result<()> {
        if values.precision() != self.precision() {
            let (new, old) = (values.precision().name(), self.precision().name());
            return fail!(InvalidArgument, "the new values are {new}; the matrix was created with {old}");
        }
        if values.len() != self.entries() {
            return fail!(SizeMismatch, "{} values were given; the matrix has {}", values.len(), self.entries());
        }
        values.check(&self.structure)?;
        *lock(self.values.write()) = values;
        Ok(())
    }

    /// Tells where the values lie, when they are lent and in device memory.
    pub(crate) fn set_device_values(&self, values: Option<DeviceValues>) {
        *lock(self.device_values.write()) = values;
    }

    /// Copies values anew that lie in device memory, where a caller may have changed them.
    pub(crate) fn refresh(&self, context: &Context) -> Result<()> {
        let lent = lock(self.device_values.read());
        let Some(there) = &*lent else { return Ok(()) };
        let address = match there {
            DeviceValues::F64(values) => values.address(),
            DeviceValues::F32(values) => values.address(),
        };
        let Some(gpu) = context.gpu().filter(|gpu| gpu.holds(address as *const _, "values").unwrap_or(false)) else {
            return fail!(
                InvalidArgument,
                "the values of the matrix are borrowed in device memory, and this context is not on that device"
            );
        };
        gpu.begin_call()?;
        let values = match there {
            DeviceValues::F64(values) => Values::from(gpu.fetch(values)?),
            DeviceValues::F32(values) => Values::from(gpu.fetch(values)?),
        };
        context.run(self.entries(), || self.update_values(values))
    }

    /// Checks values that a caller may have changed in place.
    pub(crate) fn recheck_values(&self) -> Result<()> {
        self.values().check(&self.structure)
    }

    /// Tells which vectors the operator maps to almost nothing: `count` vectors of all rows, one after the other.
    /// `dofs_per_node` consecutive rows belong to one node.
    pub fn set_near_null_space(&self, dofs_per_node: usize, count: usize, vectors: Vec<f64>) -> Result<()> {
        self.check_nodes(dofs_per_node)?;
        let space = NearNullSpace::from_vectors(self.rows(), dofs_per_node, count, vectors)?;
        *lock(self.near_null_space.write()) = Some(Arc::new(space));
        Ok(())
    }

    /// Gives the coordinates of the nodes, `dimension` for each node one after the other, with `dimension` displacement unknowns per
    /// node in the same order: the near-null space is then made of the rigid-body modes.
    pub fn set_coordinates(&self, dimension: usize, coordinates: &[f64]) -> Result<()> {
        self.check_nodes(dimension)?;
        let space = NearNullSpace::rigid_body_modes(self.rows(), dimension, coordinates)?;
        *lock(self.near_null_space.write()) = Some(Arc::new(space));
        Ok(())
    }

    fn check_nodes(&self, dofs_per_node: usize) -> Result<()> {
        let block = self.structure.block.rows;
        if block > 1 && block != dofs_per_node {
            return fail!(
                SizeMismatch,
                "{dofs_per_node} unknowns per node were given; the blocks of the matrix have {block} rows"
            );
        }
        if dofs_per_node == 0 || dofs_per_node > 8 {
            return fail!(InvalidArgument, "unknowns per node is {dofs_per_node}; accepted: 1 to 8");
        }
        if !self.rows().is_multiple_of(dofs_per_node) {
            let rows = self.rows();
            return fail!(
                SizeMismatch,
                "the matrix has {rows} rows, which {dofs_per_node} unknowns per node do not divide"
            );
        }
        Ok(())
    }

    /// The near-null space that was given, if any.
    pub(crate) fn near_null_space(&self) -> Option<Arc<NearNullSpace>> {
        lock(self.near_null_space.read()).clone()
    }

    /// The matrix in the format `T`; shared with the caller's arrays when that is their format.
    pub fn shared<T: Number>(&self) -> Result<SharedCsr<T>> {
        let structure = Arc::clone(&self.structure);
        match self.values() {
            Values::F64(values) => SharedCsr { structure, values }.cast(),
            Values::F32(values) => SharedCsr { structure, values }.cast(),
        }
    }
}

#[cfg(test)]
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
        assert_eq!(refused(Values::from(vec![1.0, 0.0])), Status::MatrixValues);
        assert_eq!(matrix.shared::<f64>().unwrap().values.as_slice(), [2.0, 3.0]);
        matrix.update_values(Values::from(vec![4.0, 5.0])).unwrap();
        assert_eq!(matrix.shared::<f32>().unwrap().values.as_slice(), [4.0_f32, 5.0]);
    }
}
