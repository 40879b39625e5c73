//! The near-null space of a level on the host.

use super::setup::Splitting;
use super::{Host, HostMatrix, HostPattern, filtered};
use crate::backend::setup::{CoarseSet, Held, NearNullVectors};
use crate::error::{Result, try_capacity, try_copy};
use crate::scalar::Scalar;
use crate::sparse::NearNullSpace;

impl Held for NearNullSpace {
    fn bytes(&self) -> usize {
        size_of_val(self.vectors.as_slice())
    }
}

impl NearNullVectors<Host> for NearNullSpace {
    fn count(&self) -> usize {
        self.count
    }

    fn vector(&self, _: &Host, i: usize) -> Result<Vec<f64>> {
        let rows = self.vectors.len() / self.count;
        try_copy(&self.vectors[i * rows..][..rows])
    }

    fn injected(&self, _: &Host, coarse: &Splitting) -> Result<NearNullSpace> {
        let mut all = try_capacity(self.count * coarse.count())?;
        for vector in self.vectors.chunks_exact(coarse.len().max(1)) {
            all.extend(vector.iter().zip(coarse.iter()).filter(|(_, coarse)| **coarse).map(|(v, _)| *v));
        }
        Ok(NearNullSpace { dofs_per_node: 1, count: self.count, vectors: all })
    }

    fn with_vectors(&self, _: &Host, vectors: &[Vec<f64>]) -> Result<NearNullSpace> {
        let mut all = try_capacity(self.vectors.len())?;
        vectors.iter().for_each(|vector| all.extend_from_slice(vector));
        Ok(NearNullSpace { dofs_per_node: self.dofs_per_node, count: vectors.len(), vectors: all })
    }

    fn filtered<T: Scalar>(
        &self,
        _: &Host,
        p: &HostMatrix<T>,
        share: f64,
        pattern: Option<&HostPattern>,
    ) -> Result<HostMatrix<T>> {
        filtered::filtered(p, self, share, pattern)
    }
}
