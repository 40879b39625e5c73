//! Memory of a set-up before it runs: the real set-up of a small connected piece of the matrix, scaled up.

use super::Amg;
use super::null_space::NearNullSpace;
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::matrix::{Matrix, Values};
use crate::scalar::{Scalar, with_storage};
use crate::sparse::{Csr, CsrView, Storage};
use std::sync::Arc;

/// Rows of the piece. A matrix that is not larger is set up whole, and the figure is exact.
const SAMPLE_ROWS: usize = 20_000;

/// The piece has more boundary than the matrix, where rows are shorter and coarse levels smaller.
const MARGIN: f64 = 1.12;

/// Bytes that a set-up will hold.
pub(super) fn bytes(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
    match matrix.values()? {
        Values::F64(values) => bytes_in(context, matrix, config, &*values),
        Values::F32(values) => bytes_in(context, matrix, config, &*values),
    }
}

fn bytes_in<T: Scalar>(context: &Context, matrix: &Matrix, config: &Config, values: &dyn Storage<T>) -> Result<usize>
where
    Values: From<Vec<T>>,
{
    let structure = matrix.structure()?;
    let a = structure.view(values.as_slice());
    let space = matrix.near_null_space();
    let dofs = space.as_ref().map_or(a.block.rows, |s| s.dofs_per_node);
    let rows = connected_rows(&a, dofs / a.block.rows)?;
    let sample = Arc::new(Matrix::from_csr(principal_submatrix(&a, &rows)?)?);
    if let Some(space) = &space {
        let restricted = restrict(space, &rows, a.block.rows, matrix.rows());
        sample.set_near_null_space(restricted.dofs_per_node, restricted.count, restricted.vectors)?;
    }
    let report = Amg::setup(context, &sample, config)?.report();
    let (held, storage) = (report.bytes, report.levels[0].matrix_precision);
    let scale = MARGIN * matrix.entries() as f64 / sample.entries().max(1) as f64;
    if context.gpu().is_some() {
        // Everything is copied to the device, in formats that the piece has as well.
        return Ok(if rows.len() == a.rows { held } else { (held as f64 * scale) as usize });
    }

    // The finest matrix is known exactly, and costs nothing where it is used in the caller's memory.
    let finest = |m: &Matrix| -> Result<usize> {
        if storage != m.precision() {
            return Ok(m.structure()?.owned_bytes() + m.entries() * storage.bytes());
        }
        Ok(with_storage!(storage, S => m.shared::<S>()?.owned_bytes()))
    };
    let rest = held.saturating_sub(finest(&sample)?);
    if rows.len() == a.rows {
        return Ok(rest + finest(matrix)?);
    }
    Ok((rest as f64 * scale) as usize + finest(matrix)?)
}

/// Ascending block rows of whole nodes (of `group` block rows each), found breadth first from the middle of the matrix.
fn connected_rows<T: Scalar>(a: &CsrView<'_, T>, group: usize) -> Result<Vec<usize>> {
    let limit = (SAMPLE_ROWS / a.block.rows).max(1);
    let mut found = try_vec(a.rows, false)?;
    let mut queue = std::collections::VecDeque::new();
    let mut rows = Vec::new();
    let mut visit = |node: usize, queue: &mut std::collections::VecDeque<usize>, rows: &mut Vec<usize>| {
        if !found[node * group] && rows.len() < limit {
            found[node * group] = true;
            rows.extend(node * group..(node + 1) * group);
            queue.push_back(node);
        }
    };
    // Further starts serve matrices that fall into pieces.
    let nodes = a.rows / group.max(1);
    for start in (nodes / 2..nodes).chain(0..nodes / 2) {
        visit(start, &mut queue, &mut rows);
        while let Some(node) = queue.pop_front() {
            for row in node * group..(node + 1) * group {
                for k in a.row_range(row) {
                    visit(a.col(k) / group, &mut queue, &mut rows);
                }
            }
        }
        if rows.len() >= limit {
            break;
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

fn principal_submatrix<T: Scalar>(a: &CsrView<'_, T>, rows: &[usize]) -> Result<Csr<T>> {
    let mut number = try_vec(a.rows, -1_i32)?;
    for (n, row) in rows.iter().enumerate() {
        number[*row] = n as i32;
    }
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for (j, block) in a.row(*row).filter(|(j, _)| number[*j] >= 0) {
            columns.push(number[j]);
            values.extend_from_slice(block);
        }
        offsets.push(columns.len() as i64);
    }
    Ok(Csr { rows: rows.len(), cols: rows.len(), block: a.block, offsets, columns, values })
}

fn restrict(space: &NearNullSpace, rows: &[usize], block: usize, all: usize) -> NearNullSpace {
    let vectors = (0..space.count)
        .flat_map(|v| rows.iter().flat_map(move |row| (0..block).map(move |r| v * all + row * block + r)))
        .map(|at| space.vectors[at])
        .collect();
    NearNullSpace { vectors, ..*space }
}
