//! The near-null space of a matrix over ranks. Each rank has the vectors of its rows.

use super::DistributedRows;
use crate::comm::{Part, Ranks, Reduction, bytes, bytes_mut};
use crate::error::{Result, fail, try_capacity, try_extend};
use crate::sparse::NearNullSpace;

/// Tag of messages.
const CENTRE: i32 = 8;

impl DistributedRows {
    /// Collective: the same number on all ranks.
    fn check_same(&self, what: &str, number: usize) -> Result<()> {
        let ranks = &self.over().ranks;
        let (fewest, most) =
            (ranks.reduce(number as i64, Reduction::Min)?, ranks.reduce(number as i64, Reduction::Max)?);
        match fewest == most {
            true => Ok(()),
            false => fail!(SizeMismatch, "ranks gave {fewest} to {most} {what}; each must give as many"),
        }
    }

    /// Collective: given vectors, after this check.
    pub(super) fn near_null_space(
        &self,
        check: impl Fn() -> Result<()>,
        dofs_per_node: usize,
        count: usize,
        vectors: Vec<f64>,
    ) -> Result<NearNullSpace> {
        let ranks = &self.over().ranks;
        ranks.run(|| {
            let rows = self.halo.own;
            let checked = check().and_then(|()| NearNullSpace::check(rows, self.first(), count, &vectors));
            ranks.agree(checked)?;
            self.check_same("vectors", count)?;
            self.check_same("unknowns per node", dofs_per_node)?;
            for v in 0..count {
                let is_zero = vectors[v * rows..(v + 1) * rows].iter().all(|x| *x == 0.0);
                if ranks.reduce(i64::from(is_zero), Reduction::Min)? == 1 {
                    return fail!(InvalidArgument, "near-null-space vector {v} is zero");
                }
            }
            Ok(NearNullSpace { dofs_per_node, count, vectors })
        })
    }

    /// Collective: the rigid-body modes of nodes with these coordinates, after this check. A node may be cut.
    pub(super) fn rigid_body_modes(
        &self,
        check: impl Fn() -> Result<()>,
        dimension: usize,
        coordinates: &[f64],
    ) -> Result<NearNullSpace> {
        let (over, rows) = (self.over(), self.halo.own);
        let ranks = &over.ranks;
        ranks.run(|| {
            let checked =
                check().and_then(|()| NearNullSpace::check_coordinates(rows, self.first(), dimension, coordinates));
            ranks.agree(checked)?;
            self.check_same("coordinates of a node", dimension)?;
            if !over.has_whole_nodes(dimension) {
                let (all, _) = ranks.gather(coordinates)?;
                let whole = NearNullSpace::rigid_body_modes(over.rows(), dimension, &all)?;
                return whole.rows(self.first()..self.first() + rows);
            }
            let centre = centre(ranks, over.rows() / dimension, dimension, coordinates)?;
            NearNullSpace::rigid_body_modes_about(centre, dimension, coordinates)
        })
    }

    /// Collective: a near-null space of all rows, from that of own ones.
    pub(super) fn gathered_near_null_space(&self, own: &NearNullSpace) -> Result<NearNullSpace> {
        let (ranks, rows) = (&self.over().ranks, self.halo.own);
        let mut vectors = ranks.agree(try_capacity(own.count * self.over().rows()))?;
        for v in 0..own.count {
            try_extend(&mut vectors, ranks.gather(&own.vectors[v * rows..(v + 1) * rows])?.0)?;
        }
        Ok(NearNullSpace { dofs_per_node: own.dofs_per_node, count: own.count, vectors })
    }
}

/// Collective: the centre of all nodes, added in their order: one rank after the other.
fn centre(ranks: &Ranks, nodes: usize, dimension: usize, coordinates: &[f64]) -> Result<[f64; 3]> {
    let (rank, size, communicator) = (ranks.rank(), ranks.size(), ranks.communicator());
    let part = |rank: usize| [Part { rank, begin: 0, length: size_of::<[f64; 3]>() }];
    let mut centre = [0.0; 3];
    if rank > 0 {
        communicator.exchange(CENTRE, &[], &[], &part(rank - 1), bytes_mut(&mut centre), &mut || ())?;
    }
    centre = NearNullSpace::add_to_centre(centre, nodes, dimension, coordinates);
    if rank + 1 < size {
        communicator.exchange(CENTRE, &part(rank + 1), bytes(&centre), &[], &mut [], &mut || ())?;
    }
    let (all, _) = ranks.gather(&centre)?;
    centre.copy_from_slice(&all[3 * (size - 1)..]);
    Ok(centre)
}
