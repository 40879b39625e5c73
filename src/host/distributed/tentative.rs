//! The tentative prolongator where set-up is divided. The rank that has a coarse unknown orthonormalises its aggregate:
//! the members send it their rows of the near-null space, as those of a matrix that is transposed, and their rows of
//! the prolongator come back in the same way.

use super::divided::DividedMatrix;
use super::transposition::transposed;
use crate::comm::{DividedLevel, LocalNumbers, Numbering};
use crate::error::{Result, try_capacity, try_copy, try_extend, try_vec};
use crate::host::mis2::NONE;
use crate::host::setup::Aggregates;
use crate::host::tentative::{PIECE, orthonormalise};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, NearNullSpace};
use std::sync::Arc;

/// As [`crate::host::tentative::prolongator`]: the rows of P of own nodes and ghosts, the numbers of its columns, and
/// B_c of own coarse unknowns, or of all where the next level is complete on every rank. With the numbers of `columns`,
/// entries in other columns are left out. Collective.
pub(crate) fn prolongator<T: Scalar>(
    level: DividedLevel<'_>,
    aggregates: &Aggregates,
    space: &NearNullSpace,
    columns: Option<&LocalNumbers>,
) -> Result<(Csr<T>, Option<LocalNumbers>, NearNullSpace)> {
    let DividedLevel { over, numbers } = level;
    let (dofs, k) = (space.dofs_per_node, space.count);
    let block = Block { rows: dofs, cols: k };
    let (q, coarse) = orthonormal(level, aggregates, space)?;

    // One block for each own node that belongs to an aggregate, and then for ghosts.
    let mut blocks = try_vec(numbers.count() * block.len(), T::ZERO)?;
    let mut next = q.chunks_exact(block.len());
    let inside = numbers.inside();
    for i in inside.clone().filter(|i| aggregates.of[*i] != NONE) {
        if let Some(block) = next.next() {
            let at = i * block.len();
            blocks[at..at + block.len()].iter_mut().zip(block).for_each(|(to, from)| *to = T::from_f64(*from));
        }
    }
    numbers.exchange(over, block.len(), &mut blocks)?;

    let found = match columns {
        Some(_) => None,
        None => Some(all_columns(level, aggregates, k)?),
    };
    let known = columns.or(found.as_ref()).expect("either is there");
    let members = aggregates.of.iter().filter(|g| **g != NONE).count();
    let (mut offsets, mut entries) = (try_capacity(numbers.count() + 1)?, try_capacity(members)?);
    let mut values = try_capacity(members * block.len())?;
    offsets.push(0_i64);
    for (g, block) in aggregates.of.iter().zip(blocks.chunks_exact(block.len())) {
        if *g != NONE
            && let Some(column) = known.local(*g as usize)
        {
            entries.push(column as i32);
            values.extend_from_slice(block);
        }
        offsets.push(entries.len() as i64);
    }
    let p = Csr { rows: numbers.count(), cols: known.count(), block, offsets, columns: entries, values };
    let space = match over.is_divided(aggregates.count * k) {
        true => coarse,
        false => complete(level, coarse)?,
    };
    Ok((p, found, space))
}

/// Numbers of the aggregates of own nodes and ghosts.
fn all_columns(level: DividedLevel<'_>, aggregates: &Aggregates, k: usize) -> Result<LocalNumbers> {
    let own = LocalNumbers::new(level.over.own_blocks(aggregates.count, k), Vec::new())?;
    own.and(aggregates.of.iter().filter(|g| **g != NONE).map(|g| *g as usize))
}

/// The rows of P of own nodes that belong to aggregates, one after the other, and B_c of own coarse unknowns.
fn orthonormal(
    level: DividedLevel<'_>,
    aggregates: &Aggregates,
    space: &NearNullSpace,
) -> Result<(Vec<f64>, NearNullSpace)> {
    let DividedLevel { over, numbers } = level;
    let (dofs, k) = (space.dofs_per_node, space.count);
    let (block, inside) = (Block { rows: dofs, cols: k }, numbers.inside());
    let rows = inside.len() * dofs;
    let own = &aggregates.of[inside.clone()];
    let members = own.iter().filter(|g| **g != NONE).count();
    let (mut offsets, mut columns) = (try_capacity(own.len() + 1)?, try_capacity(members)?);
    let mut values = try_capacity(members * block.len())?;
    offsets.push(0_i64);
    for (i, g) in own.iter().enumerate() {
        if *g != NONE {
            columns.push(*g);
            for d in 0..dofs {
                values.extend((0..k).map(|c| space.vectors[c * rows + i * dofs + d]));
            }
        }
        offsets.push(columns.len() as i64);
    }
    let starts = over.block_starts(aggregates.count, k)?;
    let (of_columns, columns) = Numbering::of_columns(over, &starts, columns.len(), |e| columns[e] as usize)?;
    let of_columns = Arc::new(of_columns);
    let nodes =
        DividedMatrix::of_own_rows(Arc::clone(numbers), Arc::clone(&of_columns), block, (&offsets, columns, values))?;
    let by_aggregate = transposed(over, &nodes)?;
    drop(nodes);

    // Blocks of the transpose are k x dofs.
    let (view, own) = (by_aggregate.matrix.view(), of_columns.inside());
    let pieces = par::map_ranges(own.len(), PIECE, |range| {
        let rows = own.start + range.start..own.start + range.end;
        let entries = view.row_range(rows.start).start..view.row_range(rows.end - 1).end;
        let mut values = try_copy(&view.values[entries.start * block.len()..entries.end * block.len()])?;
        let (mut r, mut q) = (try_vec(range.len() * k * k, 0.0)?, Vec::new());
        for (g, r) in rows.zip(r.chunks_exact_mut(k * k)) {
            let row = view.row_range(g);
            let of_row = (row.start - entries.start) * block.len()..(row.end - entries.start) * block.len();
            let of_row = &mut values[of_row];
            q.clear();
            for block in of_row.chunks_exact(dofs * k) {
                try_extend(&mut q, (0..dofs * k).map(|e| block[e % k * dofs + e / k]))?;
            }
            orthonormalise(&mut q, k, r);
            for (block, q) in of_row.chunks_exact_mut(dofs * k).zip(q.chunks_exact(dofs * k)) {
                (0..dofs * k).for_each(|e| block[e % k * dofs + e / k] = q[e]);
            }
        }
        Ok((values, r))
    })?;
    let (mut values, mut vectors) = (try_capacity(view.values.len())?, try_vec(own.len() * k * k, 0.0)?);
    for (piece, (of_piece, r)) in pieces.iter().enumerate() {
        values.extend_from_slice(of_piece);
        for (g, r) in (piece * PIECE..).zip(r.chunks_exact(k * k)) {
            for row in 0..k {
                for c in 0..k {
                    vectors[c * own.len() * k + g * k + row] = r[row * k + c];
                }
            }
        }
    }
    let q = transposed(over, &by_aggregate.pattern().with(values))?;
    let coarse = NearNullSpace { dofs_per_node: k, count: k, vectors };
    Ok((try_copy(q.matrix.values.as_slice())?, coarse))
}

/// A near-null space of which each rank has its rows, on every rank. Collective.
fn complete(level: DividedLevel<'_>, own: NearNullSpace) -> Result<NearNullSpace> {
    let NearNullSpace { dofs_per_node, count, vectors: of_own } = own;
    let mut vectors = Vec::new();
    for vector in 0..count {
        let rows = of_own.len() / count;
        let (all, _) = level.over.ranks.gather(&of_own[vector * rows..(vector + 1) * rows])?;
        try_extend(&mut vectors, all)?;
    }
    Ok(NearNullSpace { dofs_per_node, count, vectors })
}
