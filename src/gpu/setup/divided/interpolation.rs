//! Extended+i interpolation of own rows, with the rows of other ranks that they refer to.

use super::super::coarse_numbering::Splitting;
use super::super::{DeviceCsr, DeviceGraph, DevicePattern, extended_i};
use super::rows::{GhostRows, Own, among};
use super::{DeviceDivided, DeviceDividedPattern, Ghosts, OwnRows, Table, copied, copy_at, numbered, own_offsets};
use crate::backend::parameters::Truncation;
use crate::comm::{Distribution, Numbering};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// As [`extended_i::interpolate`], or with an earlier pattern as [`extended_i::numeric`]. Columns of weights are global numbers of coarse unknowns until
/// the end, by which ties of truncation are decided, too. Collective.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    (over, a): (&Arc<Distribution>, &DeviceDivided<T>),
    s: &DeviceGraph,
    coarse: &Splitting,
    truncation: Truncation,
    earlier: Option<&DeviceDividedPattern>,
) -> Result<DeviceDivided<T>> {
    let numbers = &a.columns;
    let table = Table::new(gpu, numbers)?;
    let columns = table.to_global(&a.matrix.columns)?;
    let own = Own { width: 1, offsets: a.own_offsets(), columns: &columns, values: Some(&**a.matrix.values) };
    let of_matrix = GhostRows::new(gpu, over, numbers, &own)?;
    // Own unknowns and those that own rows and these refer to.
    let near = numbers.and(of_matrix.rows.columns.iter().map(|j| *j as usize))?;
    let near = Numbering::new(over, &over.starts(a.rows.total)?, near.into_ghosts())?;
    let of_near = Table::new(gpu, &near)?;
    let (offsets, entries, values) = among(gpu, (numbers, &near), &own, &of_matrix)?;
    drop((columns, of_matrix));
    let count = near.count();
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(of_near.to_local(&entries)?), Arc::new(values));
    drop(entries);
    let matrix = DeviceCsr { rows: count, cols: count, block: Block::SCALAR, offsets, columns, values };

    let columns = table.to_global(&s.columns)?;
    let own = Own::<T> { width: 1, offsets: own_offsets(numbers, &s.offsets), columns: &columns, values: None };
    let of_graph = GhostRows::new(gpu, over, numbers, &own)?;
    let (offsets, entries, _) = among(gpu, (numbers, &near), &own, &of_graph)?;
    let graph = DeviceGraph { rows: count, offsets, columns: of_near.to_local(&entries)? };
    drop((columns, entries, of_graph));

    let (inside, of_level) = (near.inside(), numbers.inside());
    let mut number = gpu.allocate::<i32>(count)?;
    copy_at(gpu, coarse.number.subslice(of_level.start, of_level.len()), inside.start, &number)?;
    Ghosts::new(gpu, over, &near)?.bring(1, &mut number)?;
    let near_coarse = Splitting { number, ..*coarse };
    let list = gpu.allocate::<i32>(inside.len())?;
    let kernel = gpu.kernel("divided_numbers")?;
    gpu.launch(kernel, inside.len(), &[&(inside.len() as i64), &(inside.start as i32), &list.view()])?;

    if let Some(earlier) = earlier {
        let columns = Table::new(gpu, &earlier.columns)?.to_global(&earlier.pattern.columns)?;
        let offsets = copied(gpu, own_offsets(&earlier.rows, &earlier.pattern.offsets))?;
        let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
        let pattern = DevicePattern { rows: inside.len(), cols: coarse.count, block: Block::SCALAR, offsets, columns };
        let p = extended_i::numeric(gpu, &matrix, &graph, &near_coarse, Some(&list), &pattern)?;
        return Ok(earlier.with(p.values));
    }
    let p = extended_i::interpolate(gpu, &matrix, &graph, &near_coarse, Some(&list), truncation)?;
    drop((matrix, graph));

    let starts = over.starts(coarse.count)?;
    let (numbering, columns) = numbered(gpu, over, &starts, &p.columns)?;
    let own = OwnRows { block: Block::SCALAR, offsets: copied(gpu, &p.offsets)?, columns, values: p.values };
    DeviceDivided::of_own_rows(gpu, &a.rows, numbering, own)
}
