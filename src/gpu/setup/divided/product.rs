//! The coarse matrix R A P where its factors are divided among ranks, as [`crate::host::distributed::product`]. Columns have global numbers until the
//! end.

use super::super::DeviceCsr;
use super::super::grid::GpuMatrix;
use super::super::spgemm::{self, Product, Right};
use super::rows::{GhostRows, Own, among};
use super::{DeviceDivided, OwnRows, Table, copied, numbered, own_offsets};
use crate::comm::Distribution;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr};
use std::sync::Arc;

/// The rows of this rank of R A P, with ones for zeros on the diagonal; all where the level is complete on every rank. Collective.
pub(crate) fn product<T: Scalar>(
    gpu: &Gpu,
    over: &Arc<Distribution>,
    (r, a, p): (&DeviceDivided<T>, &DeviceDivided<T>, &DeviceDivided<T>),
) -> Result<GpuMatrix<T>> {
    let cols = p.columns.total;
    let columns = Table::new(gpu, &p.columns)?.to_global(&p.matrix.columns)?;
    let own = Own {
        width: p.matrix.block.len(),
        offsets: p.own_offsets(),
        columns: &columns,
        values: Some(&**p.matrix.values),
    };
    let ghosts = GhostRows::new(gpu, over, &a.columns, &own)?;
    let all_p = matrix((a.columns.count(), cols), p.matrix.block, among(gpu, (&a.columns, &a.columns), &own, &ghosts)?);
    drop((columns, ghosts));
    let ap = spgemm::multiply(gpu, &a.matrix, &all_p)?;
    drop(all_p);

    let own = Own {
        width: ap.block.len(),
        offsets: own_offsets(&a.rows, &ap.offsets),
        columns: &ap.columns,
        values: Some(&**ap.values),
    };
    let ghosts = GhostRows::new(gpu, over, &r.columns, &own)?;
    let all_ap = matrix((r.columns.count(), cols), ap.block, among(gpu, (&r.columns, &r.columns), &own, &ghosts)?);
    drop(ghosts);
    drop(ap);
    let (coarse, _) = Product::new(gpu, &r.matrix, Right::of(&all_ap)).with_lists().sorted(false)?;
    drop(all_ap);

    let block = coarse.block;
    let starts = over.block_starts(r.rows.total, block.rows)?;
    let (numbering, columns) = numbered(gpu, over, &starts, &coarse.columns)?;
    let offsets = copied(gpu, own_offsets(&r.rows, &coarse.offsets))?;
    let own = OwnRows { block, offsets, columns, values: coarse.values };
    let coarse = DeviceDivided::of_own_rows(gpu, &Arc::clone(&numbering), numbering, own)?;
    let inside = coarse.rows.inside();
    let (n, first) = (inside.len(), inside.start as i64);
    let DeviceCsr { offsets, columns, values, .. } = &coarse.matrix;
    let kernel = gpu.kernel(&format!("divided_diagonals_{}", T::PRECISION.name()))?;
    let (size, views) = (block.rows as i32, [offsets.view(), columns.view(), values.view()]);
    gpu.launch(kernel, n, &[&(n as i64), &first, &size, &views[0], &views[1], &views[2]])?;
    match over.is_divided(coarse.rows.total * block.rows) {
        true => Ok(GpuMatrix::Divided(coarse)),
        false => Ok(DeviceCsr::upload(gpu, &gathered(gpu, over, &coarse)?.view())?.into()),
    }
}

/// A matrix of these arrays.
fn matrix<T: Scalar>(
    (rows, cols): (usize, usize),
    block: Block,
    (offsets, columns, values): (crate::gpu::Buffer<i64>, crate::gpu::Buffer<i32>, crate::gpu::Buffer<T>),
) -> DeviceCsr<T> {
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    DeviceCsr { rows, cols, block, offsets, columns, values }
}

/// All rows, on the host of every rank. Collective.
pub(crate) fn gathered<T: Scalar>(gpu: &Gpu, over: &Distribution, a: &DeviceDivided<T>) -> Result<Csr<T>> {
    let mut lengths = gpu.fetch(a.own_offsets())?;
    for i in 0..lengths.len() - 1 {
        lengths[i] = lengths[i + 1] - lengths[i];
    }
    lengths.pop();
    let columns = gpu.fetch(&Table::new(gpu, &a.columns)?.to_global(&a.matrix.columns)?)?;
    let (lengths, _) = over.ranks.gather(&lengths)?;
    let (columns, _) = over.ranks.gather(&columns)?;
    let (values, _) = over.ranks.gather(&gpu.fetch(&a.matrix.values)?)?;
    let offsets = par::offsets_from_counts(lengths)?;
    Ok(Csr { rows: a.rows.total, cols: a.columns.total, block: a.matrix.block, offsets, columns, values })
}
