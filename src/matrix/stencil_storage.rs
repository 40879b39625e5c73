//! Matrices on structured grids: those that were given as stencils, and those in rows whose grid is known.

use super::{Matrix, MatrixStorage, Values};
use crate::error::{Result, try_vec};
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, DiagonalDefect, Grid, SharedStencil, Stencil, Storage, Structure};
use crate::sync::lock;
use std::sync::{Arc, Mutex, RwLock};

/// A matrix that was given as a stencil. It is converted to rows when something needs that.
pub(super) struct StencilStorage {
    pub(super) pattern: Arc<Stencil>,
    values: RwLock<Values>,
    /// The same in rows. Values of the caller's are not kept there, because they may change.
    rows: Mutex<(Option<Arc<Structure>>, Option<Values>)>,
}

impl StencilStorage {
    pub(super) fn new(pattern: Arc<Stencil>, values: Values) -> StencilStorage {
        StencilStorage { pattern, values: RwLock::new(values), rows: Mutex::default() }
    }

    pub(super) fn values(&self) -> Values {
        lock(self.values.read()).clone()
    }

    /// Uses other values from here on, which were checked.
    pub(super) fn replace(&self, values: Values) {
        *lock(self.values.write()) = values;
        lock(self.rows.lock()).1 = None;
    }

    /// The pattern with values.
    pub(super) fn shared<T: Scalar>(&self, values: &Arc<dyn Storage<T>>) -> SharedStencil<T> {
        SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::clone(values) }
    }

    pub(super) fn check(&self, values: &Values) -> Result<DiagonalDefect> {
        match values {
            Values::F64(values) => self.shared(values).validate(),
            Values::F32(values) => self.shared(values).validate(),
        }
    }

    /// Bytes of pattern and values that the library holds.
    pub(super) fn owned_bytes(&self) -> (usize, usize) {
        fn of(values: &Values) -> usize {
            match values {
                Values::F64(values) => values.owned_bytes(),
                Values::F32(values) => values.owned_bytes(),
            }
        }
        let rows = lock(self.rows.lock());
        let pattern = rows.0.as_ref().map_or(0, |structure| structure.owned_bytes());
        (pattern, of(&self.values()) + rows.1.as_ref().map_or(0, of))
    }

    /// The pattern in rows, kept for the next time.
    pub(super) fn structure(&self) -> Result<Arc<Structure>> {
        let mut rows = lock(self.rows.lock());
        if let Some(structure) = &rows.0 {
            return Ok(Arc::clone(structure));
        }
        Ok(Arc::clone(rows.0.insert(Arc::new(self.pattern.structure()?))))
    }

    /// Pattern and values in rows, kept for the next time.
    pub(super) fn in_rows(&self) -> Result<(Arc<Structure>, Values)> {
        let structure = self.structure()?;
        let mut rows = lock(self.rows.lock());
        if let Some(values) = &rows.1 {
            return Ok((structure, values.clone()));
        }
        let (converted, is_owned) = self.converted(&structure)?;
        if is_owned {
            rows.1 = Some(converted.clone());
        }
        Ok((structure, converted))
    }

    /// The same, without keeping what is not there yet.
    pub(super) fn copied(&self) -> Result<(Arc<Structure>, Values)> {
        if let (Some(structure), Some(values)) = &*lock(self.rows.lock()) {
            return Ok((Arc::clone(structure), values.clone()));
        }
        let structure = Arc::new(self.pattern.structure()?);
        let (values, _) = self.converted(&structure)?;
        Ok((structure, values))
    }

    /// The values in rows, and whether the library holds them as they were given.
    fn converted(&self, structure: &Structure) -> Result<(Values, bool)> {
        let offsets = structure.own_arrays().0;
        Ok(match &self.values() {
            Values::F64(values) => {
                (self.pattern.row_values(values.as_slice(), offsets)?.into(), values.owned_bytes() > 0)
            }
            Values::F32(values) => {
                (self.pattern.row_values(values.as_slice(), offsets)?.into(), values.owned_bytes() > 0)
            }
        })
    }
}

impl Matrix {
    /// A matrix on a structured grid, of which `values` has one array for each offset of the stencil and each entry of its blocks, row by row,
    /// with a value for every cell. Values that reach outside of the grid must be zero.
    pub fn on_grid(pattern: Arc<Stencil>, values: Values) -> Result<Matrix> {
        let (cells, block) = (pattern.grid.cells(), Block::square(pattern.block));
        let nnz = pattern.offsets.len() * cells;
        let storage = StencilStorage::new(pattern, values);
        let diagonal = storage.check(&storage.values())?;
        Ok(Matrix::at(MatrixStorage::Stencil(storage), (cells, cells), block, nnz, Some(diagonal)))
    }

    /// Says that the unknowns of a matrix in rows are the cells of a grid, numbered with x fastest, so that multigrid for structured grids can be
    /// set up for it. Fails with the first row that couples cells which are not neighbours.
    pub fn set_grid(&self, grid: Grid) -> Result<()> {
        self.check_not_distributed("a structured grid")?;
        let (structure, _) = self.copied()?;
        // Only the pattern is looked at.
        let values = try_vec(0, 0.0_f64)?;
        let pattern = Stencil::of_rows(&structure.view(&values), grid)?;
        self.set_stencil(Some(Arc::new(pattern)));
        Ok(())
    }

    /// The stencil of a matrix on a grid.
    pub(crate) fn stencil(&self) -> Option<Arc<Stencil>> {
        match &self.storage {
            MatrixStorage::Stencil(stencil) => Some(Arc::clone(&stencil.pattern)),
            MatrixStorage::DeviceStencil(device) => Some(Arc::clone(&device.pattern)),
            _ => lock(self.stencil.read()).clone(),
        }
    }

    /// Sets the stencil of a matrix in rows; one that was given as a stencil has its own.
    pub(crate) fn set_stencil(&self, stencil: Option<Arc<Stencil>>) {
        *lock(self.stencil.write()) = stencil;
    }

    /// Blocks of the matrix in rows, which has no entries outside of a grid.
    pub(crate) fn row_blocks(&self) -> usize {
        match self.stencil().filter(|_| self.is_stencil()) {
            Some(stencil) => stencil.row_blocks(),
            None => self.nnz,
        }
    }

    /// Whether it was given as a stencil.
    pub(crate) fn is_stencil(&self) -> bool {
        matches!(self.storage, MatrixStorage::Stencil(_) | MatrixStorage::DeviceStencil(_))
    }

    /// The matrix as a stencil with values of type `T`, shared with the caller's where they are that; none for a matrix without a grid.
    pub(crate) fn shared_stencil<T: Number>(&self) -> Result<Option<SharedStencil<T>>> {
        let cast = |stencil: &StencilStorage| {
            Ok(Some(match &stencil.values() {
                Values::F64(values) => stencil.shared(values).cast()?,
                Values::F32(values) => stencil.shared(values).cast()?,
            }))
        };
        match &self.storage {
            MatrixStorage::Stencil(stencil) => return cast(stencil),
            MatrixStorage::DeviceStencil(device) => return cast(&*device.on_host()?),
            MatrixStorage::Host { .. } | MatrixStorage::Device(_) => {}
        }
        let Some(pattern) = self.stencil() else { return Ok(None) };
        let (structure, values) = self.copied()?;
        let values: Vec<T> = match &values {
            Values::F64(values) => pattern.values_of_rows(&structure.view(values.as_slice()))?,
            Values::F32(values) => pattern.values_of_rows(&structure.view(values.as_slice()))?,
        };
        Ok(Some(SharedStencil { pattern, values: Arc::new(values) }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;

    /// The same matrix as a stencil and in rows.
    fn both(name: &str, dims: [usize; 3]) -> (Matrix, Matrix) {
        let a = gallery::parse(name).unwrap().matrix;
        let stencil = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
        let values = Values::F64(Arc::clone(&stencil.values));
        (Matrix::on_grid(stencil.pattern, values).unwrap(), Matrix::from_csr(a).unwrap())
    }

    #[test]
    fn a_stencil_is_the_matrix_in_rows_for_everything_that_wants_rows() {
        let context = Context::new("host:2").unwrap();
        for (name, dims) in [("poisson7:5x4x3", [5, 4, 3]), ("elasticity:3", [3, 4, 4])] {
            let (stencil, rows) = both(name, dims);
            let (a, b) = (stencil.shared::<f64>().unwrap(), rows.shared::<f64>().unwrap());
            assert_eq!(a.values.as_slice(), b.values.as_slice());
            assert_eq!((stencil.rows(), stencil.block()), (rows.rows(), rows.block()));
            assert!(stencil.symmetry(&context).unwrap().is_symmetric::<f64>());
            assert_eq!(stencil.symmetry(&context).unwrap().positive, rows.symmetry(&context).unwrap().positive);
        }
    }

    #[test]
    fn new_values_are_seen_in_rows_and_refused_ones_change_nothing() {
        let (stencil, _) = both("poisson5:4x3", [4, 3, 1]);
        let before = stencil.shared::<f64>().unwrap();
        let mut values = match stencil.values().unwrap() {
            Values::F64(values) => values.as_slice().to_vec(),
            Values::F32(_) => unreachable!(),
        };
        values.iter_mut().for_each(|v| *v *= 2.0);
        stencil.update_values(Values::from(values.clone())).unwrap();
        let after = stencil.shared::<f64>().unwrap();
        assert!(before.values.as_slice().iter().zip(after.values.as_slice()).all(|(a, b)| 2.0 * a == *b));
        values[0] = 1.0;
        assert!(
            stencil
                .update_values(Values::from(values))
                .unwrap_err()
                .message
                .contains("cell (0, 0, 0), offset (0, -1, 0)")
        );
        assert_eq!(stencil.shared::<f64>().unwrap().values.as_slice(), after.values.as_slice());
    }

    #[test]
    fn a_matrix_in_rows_on_a_grid_gives_the_same_stencil() {
        let (stencil, rows) = both("poisson27:4x5x3", [4, 5, 3]);
        assert!(rows.shared_stencil::<f64>().unwrap().is_none());
        rows.set_grid(Grid::new([4, 5, 3])).unwrap();
        let (a, b) =
            (stencil.shared_stencil::<f32>().unwrap().unwrap(), rows.shared_stencil::<f32>().unwrap().unwrap());
        assert_eq!(a.values.as_slice(), b.values.as_slice());
        assert!(rows.set_grid(Grid::new([5, 4, 3])).unwrap_err().message.contains("row 0"));
        assert!(rows.stencil().is_some(), "a refused grid changes nothing");
    }
}
