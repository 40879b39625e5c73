//! The rows of this rank of a matrix of which every rank has all rows, or its own.

use super::{Block, Csr, CsrView, SharedCsr, Storage, Structure};
use crate::comm::{Distribution, Halo, LocalColumns};
use crate::error::{Result, try_capacity, try_copy};
use crate::scalar::Number;
use std::ops::Range;
use std::sync::Arc;

/// What is known about the own rows of matrices of one pattern: their pattern, with columns numbered as those of a halo,
/// and the messages of a product.
#[derive(Clone)]
pub struct OwnRows {
    structure: Arc<Structure>,
    halo: Arc<Halo>,
    /// Where their entries are among those that this rank has.
    entries: Range<usize>,
}

impl OwnRows {
    /// Of a matrix that has own rows alone, with columns numbered as those of the halo.
    pub(crate) fn new(structure: Arc<Structure>, halo: Arc<Halo>, entries: Range<usize>) -> OwnRows {
        OwnRows { structure, halo, entries }
    }

    /// Bytes that are not shared with an operator.
    pub(crate) fn bytes(&self) -> usize {
        if Arc::strong_count(&self.halo) > 1 { 0 } else { self.halo.bytes() }
    }
}

/// Own rows, without blocks, and the halo of their columns. `known` is what was found for an earlier matrix of the same
/// pattern, and otherwise set. Collective.
pub(crate) fn own_rows<S: Number>(
    over: &Arc<Distribution>,
    matrix: &SharedCsr<S>,
    known: &mut Option<OwnRows>,
) -> Result<(SharedCsr<S>, Arc<Halo>)> {
    let scalar = match matrix.structure.block {
        Block::SCALAR => Ok(None),
        _ => matrix.view().to_scalar().map(Some),
    };
    let local = scalar.and_then(|scalar| {
        let all = scalar.as_ref().map_or(matrix.view(), Csr::view);
        match known {
            Some(rows) => {
                let values: Arc<dyn Storage<S>> = match scalar.is_none() && rows.entries == (0..all.nnz()) {
                    true => Arc::clone(&matrix.values),
                    false => Arc::new(try_copy(&all.values[rows.entries.clone()])?),
                };
                Ok((Arc::clone(&rows.structure), values, Found::Before(rows)))
            }
            None => local_rows(over, &all),
        }
    });
    let (structure, values, found) = over.ranks.agree(local)?;
    let halo = match found {
        Found::Before(rows) => {
            rows.halo = Arc::new(over.ranks.agree(rows.halo.through(over))?);
            Arc::clone(&rows.halo)
        }
        Found::Now { starts, ghosts, below, entries } => {
            let halo = Arc::new(Halo::new(over, &starts, &ghosts, below)?);
            *known = Some(OwnRows { structure: Arc::clone(&structure), halo: Arc::clone(&halo), entries });
            halo
        }
    };
    Ok((SharedCsr { structure, values }, halo))
}

/// How own rows were found.
enum Found<'a> {
    Before(&'a mut OwnRows),
    Now { starts: Vec<usize>, ghosts: Vec<u64>, below: usize, entries: Range<usize> },
}

/// Own rows, and how they were found.
type Local<'a, S> = (Arc<Structure>, Arc<dyn Storage<S>>, Found<'a>);

/// Pattern and values of the own rows of a scalar matrix, and the columns of other ranks.
fn local_rows<'a, S: Number>(over: &Distribution, all: &CsrView<'_, S>) -> Result<Local<'a, S>> {
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
    let structure = Structure::new(own.rows, of_rank.len() + ghosts.len(), Block::SCALAR, offsets, columns);
    let values = Arc::new(try_copy(&all.values[first..end])?);
    Ok((Arc::new(structure), values, Found::Now { starts, ghosts, below, entries: first..end }))
}
