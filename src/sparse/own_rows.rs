//! The rows of this rank of a matrix of which every rank has all rows, or its own.

use super::{Block, Csr, SharedCsr};
use crate::comm::{Distribution, Halo, LocalColumns};
use crate::error::{Result, try_capacity};
use crate::scalar::Number;
use std::sync::Arc;

/// Own rows, without blocks, with columns as [`LocalColumns`] numbers them. Collective.
pub(crate) fn own_rows<S: Number>(over: &Arc<Distribution>, matrix: &SharedCsr<S>) -> Result<(SharedCsr<S>, Halo)> {
    let local = || {
        let scalar = match matrix.structure.block {
            Block::SCALAR => None,
            _ => Some(matrix.view().to_scalar()?),
        };
        let all = scalar.as_ref().map_or(matrix.view(), Csr::view);
        let (rows, starts) = (over.own(all.rows), over.starts(all.cols)?);
        let own = all.some_rows(rows);
        let (first, end) = match own.rows {
            0 => (0, 0),
            n => (own.row_range(0).start, own.row_range(n - 1).end),
        };
        let of_rank = starts[over.ranks.rank()]..starts[over.ranks.rank() + 1];
        let LocalColumns { columns, ghosts, below } = LocalColumns::new(end - first, |k| all.col(first + k), &of_rank)?;
        let mut offsets = try_capacity(own.rows + 1)?;
        offsets.push(0);
        offsets.extend((0..own.rows).map(|i| (own.row_range(i).end - first) as i64));
        let mut local =
            Csr::<S>::with_pattern(own.rows, of_rank.len() + ghosts.len(), Block::SCALAR, offsets, columns)?;
        local.values.copy_from_slice(&all.values[first..end]);
        Ok((local.into_shared(), starts, ghosts, below))
    };
    let (local, starts, ghosts, below) = over.ranks.agree(local())?;
    let halo = Halo::new(over, &starts, &ghosts, below)?;
    Ok((local, halo))
}
