//! Rows of other ranks between those of this rank.

use super::{copy_at, joined_offsets};
use crate::comm::{Distribution, FetchedRows, LocalNumbers, Numbering};
use crate::error::{Result, try_capacity, try_copy};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Element, Scalar};
use std::sync::Arc;

/// Own rows as the device has them: their offsets, columns by global numbers, and values where there are some, of blocks of so many.
pub(super) struct Own<'a, T> {
    pub width: usize,
    pub offsets: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
    pub values: Option<&'a Slice<T>>,
}

/// The rows of the ghosts of some numbers, with columns by global numbers.
pub(super) struct GhostRows<T> {
    pub rows: FetchedRows,
    values: Vec<T>,
}

impl<T: Scalar> GhostRows<T> {
    /// Collective.
    pub fn new(gpu: &Gpu, over: &Distribution, numbers: &Arc<Numbering>, own: &Own<'_, T>) -> Result<GhostRows<T>> {
        // Each row once that other ranks read.
        let mut list = try_copy(&numbers.halo.sent)?;
        list.sort_unstable();
        list.dedup();
        let rows = gpu.upload(&crate::error::try_collect(list.iter().map(|i| *i as i32))?)?;
        let n = list.len();
        let lengths = gpu.allocate::<i32>(n)?;
        let kernel = gpu.kernel("divided_lengths")?;
        gpu.launch(kernel, n, &[&(n as i64), &rows.view(), &own.offsets.view(), &lengths.view()])?;
        let (offsets, total) = gpu.offsets(&lengths)?;
        let gather = Gather { gpu, rows: &rows, from: own.offsets, offsets: &offsets, total };
        let (columns, width) = (gather.array(own.columns, 1)?, own.width);
        let of_rows = match own.values {
            Some(values) => gather.array(values, width)?,
            None => Vec::new(),
        };
        let offsets = gpu.fetch(&offsets)?;
        let row = |i: usize| {
            let at = list.partition_point(|row| (*row as usize) < i);
            offsets[at] as usize..offsets[at + 1] as usize
        };
        let fetched = FetchedRows::new(over, numbers, |i| &columns[row(i)], |j| j as usize)?;
        let values = match own.values {
            Some(_) => fetched.values(over, width, |i| &of_rows[row(i).start * width..row(i).end * width])?,
            None => Vec::new(),
        };
        Ok(GhostRows { rows: fetched, values })
    }
}

/// Rows of a list, brought to the host.
struct Gather<'a> {
    gpu: &'a Gpu,
    rows: &'a Slice<i32>,
    from: &'a Slice<i64>,
    offsets: &'a Slice<i64>,
    total: usize,
}

impl Gather<'_> {
    fn array<E: Element>(&self, from: &Slice<E>, width: usize) -> Result<Vec<E>> {
        let Gather { gpu, rows, from: of_rows, offsets, total } = self;
        let to = gpu.allocate::<E>(total * width)?;
        let kernel = gpu.kernel(&format!("divided_gather_{}", E::TYPE.bits().name()))?;
        let views = [rows.view(), of_rows.view(), offsets.view(), from.view().bits(), to.view().bits()];
        let [rows_view, a, b, c, d] = &views;
        gpu.launch(kernel, LANES * rows.len(), &[&(rows.len() as i64), &(width as i32), rows_view, a, b, c, d])?;
        gpu.fetch(&to)
    }
}

/// Threads that share a row, as in `kernels/divided.cu`.
pub(super) const LANES: usize = 8;

/// Rows with the numbers of `to`: own ones, and those that were fetched for the ghosts of `numbers`; others are empty. Columns have global numbers.
pub(super) fn among<T: Scalar>(
    gpu: &Gpu,
    (numbers, to): (&LocalNumbers, &LocalNumbers),
    own: &Own<'_, T>,
    fetched: &GhostRows<T>,
) -> Result<(Buffer<i64>, Buffer<i32>, Buffer<T>)> {
    let (below, offsets) = (numbers.inside().start, &fetched.rows.offsets);
    // Offsets of the ghosts of `to`, lower and higher ones.
    let spread = |ghosts: &[u64]| -> Result<Vec<i64>> {
        let mut all = try_capacity(ghosts.len() + 1)?;
        all.push(0);
        let mut end = 0;
        for ghost in ghosts {
            if let Ok(at) = numbers.ghosts().binary_search(ghost) {
                end += offsets[at + 1] - offsets[at];
            }
            all.push(end);
        }
        Ok(all)
    };
    let (lower, higher) = to.ghosts().split_at(to.inside().start);
    let (lower, higher) = (spread(lower)?, spread(higher)?);
    let middle = offsets[below] as usize;
    let joined = joined_offsets(gpu, to, (&lower, own.offsets, &higher))?;
    let columns = between(gpu, own.columns, fetched.rows.columns.split_at(middle))?;
    let values = match own.values {
        Some(values) => between(gpu, values, fetched.values.split_at(middle * own.width))?,
        None => gpu.allocate(0)?,
    };
    Ok((joined, columns, values))
}

/// An array between two others.
fn between<E: Element>(gpu: &Gpu, own: &Slice<E>, (lower, higher): (&[E], &[E])) -> Result<Buffer<E>> {
    let mut all = gpu.allocate::<E>(lower.len() + own.len() + higher.len())?;
    gpu.write(lower, all.subslice_mut(0, lower.len()))?;
    copy_at(gpu, own, lower.len(), &all)?;
    gpu.write(higher, all.subslice_mut(lower.len() + own.len(), higher.len()))?;
    Ok(all)
}
