//! Scalar rows in blocks of nodes, where rows are divided among ranks and each has whole nodes.

use super::super::{DeviceCsr, gather_blocks};
use super::{DeviceDivided, Table, joined_offsets, numbered};
use crate::comm::{Distribution, LocalNumbers};
use crate::error::{Result, try_collect};
use crate::gpu::Gpu;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// A square scalar matrix in blocks of `size` rows. Collective.
pub(crate) fn to_nodes<T: Scalar>(
    gpu: &Gpu,
    over: &Arc<Distribution>,
    a: &DeviceDivided<T>,
    size: usize,
) -> Result<DeviceDivided<T>> {
    let columns = Table::new(gpu, &a.columns)?.to_global(&a.matrix.columns)?;
    let (n, nodes) = (columns.len(), gpu.allocate::<i32>(columns.len())?);
    let size_of_node = size as i32;
    gpu.launch(gpu.kernel("divided_nodes")?, n, &[&(n as i64), &size_of_node, &columns.view(), &nodes.view()])?;
    let starts = over.block_starts(a.rows.total / size, size)?;
    let (numbers, local) = numbered(gpu, over, &starts, &nodes)?;
    let views = [local.view(), columns.view(), nodes.view()];
    let [of_node, global, to] = &views;
    gpu.launch(gpu.kernel("divided_node_columns")?, n, &[&(n as i64), &size_of_node, of_node, global, to])?;
    drop((columns, local));
    // Ghosts are whole nodes, too, whose rows are empty.
    let own = numbers.own.start * size..numbers.own.end * size;
    let unknowns = numbers.ghosts().iter().flat_map(|ghost| (0..size as u64).map(move |r| ghost * size as u64 + r));
    let scalars = LocalNumbers::new(own, try_collect(unknowns)?)?;
    let offsets = Arc::new(joined_offsets(gpu, &scalars, (&[0], a.own_offsets(), &[0]))?);
    let (rows, values) = (numbers.count() * size, Arc::clone(&a.matrix.values));
    let scalar = DeviceCsr { rows, cols: rows, block: Block::SCALAR, offsets, columns: Arc::new(nodes), values };
    let matrix = gather_blocks::gather(gpu, &scalar, size)?;
    Ok(DeviceDivided { matrix, rows: Arc::clone(&numbers), columns: numbers })
}
