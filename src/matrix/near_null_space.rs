//! The near-null space of a matrix: given as vectors, or made from coordinates.

use super::Matrix;
use crate::error::{Result, fail};
use crate::gpu::Gpu;
use crate::gpu::setup::DeviceNearNullSpace;
use crate::sparse::NearNullSpace;
use crate::sync::lock;
use std::sync::Arc;

impl Matrix {
    /// Tells which vectors the operator maps to almost nothing: `count` vectors of all rows, one after the other.
    /// `dofs_per_node` consecutive rows belong to one node. Over ranks it is collective, as are the next one and
    /// [`Matrix::set_functions`], with the rows of each rank.
    pub fn set_near_null_space(&self, dofs_per_node: usize, count: usize, vectors: Vec<f64>) -> Result<()> {
        let space = match self.over_ranks() {
            Some(rows) => rows.near_null_space(|| self.check_nodes(dofs_per_node), dofs_per_node, count, vectors)?,
            None => {
                self.check_nodes(dofs_per_node)?;
                NearNullSpace::from_vectors(self.rows(), dofs_per_node, count, vectors)?
            }
        };
        self.take_near_null_space(space);
        Ok(())
    }

    /// Gives the coordinates of the nodes, `dimension` for each node one after the other, with `dimension` displacement
    /// unknowns per node in the same order: the near-null space is then made of the rigid-body modes.
    pub fn set_coordinates(&self, dimension: usize, coordinates: &[f64]) -> Result<()> {
        let space = match self.over_ranks() {
            Some(rows) => rows.rigid_body_modes(|| self.check_nodes(dimension), dimension, coordinates)?,
            None => {
                self.check_nodes(dimension)?;
                NearNullSpace::rigid_body_modes(self.rows(), dimension, coordinates)?
            }
        };
        self.take_near_null_space(space);
        Ok(())
    }

    fn take_near_null_space(&self, space: NearNullSpace) {
        *lock(self.near_null_space.write()) = Some(Arc::new(space));
        *lock(self.device_near_null_space.lock()) = None;
    }

    /// Takes over what is known about the unknowns of another matrix with the same pattern: its near-null space, functions and grid.
    pub(crate) fn take_unknowns_of(&self, other: &Matrix) {
        self.set_stencil(other.stencil());
        *lock(self.near_null_space.write()) = other.near_null_space();
        *lock(self.functions.write()) = other.functions();
        *lock(self.device_near_null_space.lock()) = None;
    }

    /// Forgets the vectors or coordinates that were given.
    pub fn remove_near_null_space(&self) {
        *lock(self.near_null_space.write()) = None;
        *lock(self.device_near_null_space.lock()) = None;
    }

    fn check_nodes(&self, dofs_per_node: usize) -> Result<()> {
        let block = self.block.rows;
        if block > 1 && block != dofs_per_node {
            return fail!(
                SizeMismatch,
                "{dofs_per_node} unknowns per node were given; the blocks of the matrix have {block} rows"
            );
        }
        if dofs_per_node == 0 || dofs_per_node > 8 {
            return fail!(InvalidArgument, "unknowns per node is {dofs_per_node}; accepted: 1 to 8");
        }
        let rows = self.whole_rows();
        if !rows.is_multiple_of(dofs_per_node) {
            return fail!(
                SizeMismatch,
                "the matrix has {rows} rows, which {dofs_per_node} unknowns per node do not divide"
            );
        }
        Ok(())
    }

    /// The near-null space that was given, if any; over ranks that of own rows.
    pub(crate) fn near_null_space(&self) -> Option<Arc<NearNullSpace>> {
        lock(self.near_null_space.read()).clone()
    }

    /// `space`, which is the near-null space of this matrix or was, in the memory of a GPU. The present one is copied
    /// there once for a matrix that is device.
    pub(crate) fn device_near_null_space(
        &self,
        gpu: &Gpu,
        space: &Arc<NearNullSpace>,
    ) -> Result<Arc<DeviceNearNullSpace>> {
        let present = lock(self.near_null_space.read()).as_ref().is_some_and(|present| Arc::ptr_eq(present, space));
        if !present || !self.is_on(gpu) {
            return Ok(Arc::new(DeviceNearNullSpace::upload(gpu, space)?));
        }
        let mut copy = lock(self.device_near_null_space.lock());
        if let Some(copy) = &*copy {
            return Ok(Arc::clone(copy));
        }
        Ok(Arc::clone(copy.insert(Arc::new(DeviceNearNullSpace::upload(gpu, space)?))))
    }
}
