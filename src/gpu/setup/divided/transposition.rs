//! The transpose of a matrix whose rows are divided among ranks: each rank transposes its rows, and sends what belongs to the rows of others.

use super::super::transpose;
use super::rows::LANES;
use super::{DeviceDivided, OwnRows, Table, own_offsets};
use crate::comm::divided::{COLUMNS, LENGTHS, NUMBERS};
use crate::comm::halo::scaled;
use crate::comm::{Distribution, Numbering, exchange, widened};
use crate::error::{Result, try_capacity, try_collect, try_extend, try_push, try_vec};
use crate::gpu::runtime::Argument;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Element, Scalar};
use std::sync::Arc;

/// Entries of other ranks for own rows, one row after the other.
struct Others<T> {
    offsets: Vec<i64>,
    columns: Vec<i32>,
    values: Vec<T>,
}

impl<T: Scalar> Others<T> {
    fn new(rows: usize) -> Result<Others<T>> {
        let mut offsets = try_capacity(rows + 1)?;
        offsets.push(0);
        Ok(Others { offsets, columns: Vec::new(), values: Vec::new() })
    }
}

/// The rows of this rank of the transpose of a matrix whose rows are those of nodes of so many unknowns. Collective.
pub(crate) fn transposed<T: Scalar>(
    gpu: &Gpu,
    over: &Arc<Distribution>,
    (p, unknowns): (&DeviceDivided<T>, usize),
) -> Result<DeviceDivided<T>> {
    let numbers = &p.columns;
    let (halo, inside, count) = (&numbers.halo, numbers.inside(), numbers.count());
    let local = transpose::transpose(gpu, &p.matrix)?;
    let width = local.block.len();
    let global = Table::new(gpu, &p.rows)?.to_global(&local.columns)?;

    // What the ghosts among the rows get, in the order of their numbers.
    let mut lengths = try_capacity(halo.ghosts)?;
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for rows in [0..inside.start, inside.end..count] {
        let offsets = gpu.fetch(local.offsets.subslice(rows.start, rows.len() + 1))?;
        lengths.extend(offsets.windows(2).map(|ends| ends[1] - ends[0]));
        let entries = offsets[0] as usize..offsets[rows.len()] as usize;
        try_extend(&mut columns, gpu.fetch(global.subslice(entries.start, entries.len()))?)?;
        let of_entries = local.values.subslice(entries.start * width, entries.len() * width);
        try_extend(&mut values, gpu.fetch(of_entries)?)?;
    }
    let mut of_sent = try_vec(halo.sent.len(), 0_i64)?;
    exchange(over, LENGTHS, (&halo.receives, &lengths), (&halo.sends, &mut of_sent))?;
    let ((sends, _), (receives, incoming)) = (widened(&halo.receives, &lengths)?, widened(&halo.sends, &of_sent)?);
    let (mut from_columns, mut from_values) = (try_vec(incoming, 0_i32)?, try_vec(incoming * width, T::ZERO)?);
    exchange(over, COLUMNS, (&sends, &columns), (&receives, &mut from_columns))?;
    let (sends, receives) = (scaled(&sends, width)?, scaled(&receives, width)?);
    exchange(over, NUMBERS, (&sends, &values), (&receives, &mut from_values))?;
    drop((columns, values));

    // By rows: those of lower ranks come before the own entries, those of higher ones behind them.
    let ends = {
        let mut end = 0;
        try_collect(of_sent.iter().map(|length| {
            end += *length as usize;
            end
        }))?
    };
    let entries_of = |k: usize| ends[k] - of_sent[k] as usize..ends[k];
    let rank = over.ranks.rank();
    let lower = halo.sends.iter().filter(|part| part.rank < rank).map(|part| part.length).sum::<usize>();
    let mut order = try_collect(0..halo.sent.len())?;
    order.sort_by_key(|k| (halo.sent[*k], *k));
    let mut rows = Vec::new();
    let (mut below, mut above) = (Others::<T>::new(order.len())?, Others::<T>::new(order.len())?);
    for same in order.chunk_by(|a, b| halo.sent[*a] == halo.sent[*b]) {
        try_push(&mut rows, halo.sent[same[0]] as i32)?;
        for k in same {
            let (to, entries) = (if *k < lower { &mut below } else { &mut above }, entries_of(*k));
            try_extend(&mut to.columns, from_columns[entries.clone()].iter().copied())?;
            let values = entries.start * width..entries.end * width;
            try_extend(&mut to.values, from_values[values].iter().copied())?;
        }
        for to in [&mut below, &mut above] {
            let end = to.columns.len() as i64;
            try_push(&mut to.offsets, end)?;
        }
    }

    let starts = over.block_starts(p.rows.total, unknowns)?;
    let own_rows = &p.rows.own;
    let mut ghosts =
        try_collect(from_columns.iter().filter(|i| !own_rows.contains(&(**i as usize))).map(|i| *i as u64))?;
    ghosts.sort_unstable();
    ghosts.dedup();
    let columns = Arc::new(Numbering::new(over, &starts, ghosts)?);
    let table = Table::new(gpu, &columns)?;
    let own = numbers.own.len();
    let assembly =
        Assembly::new(gpu, own_offsets(numbers, &local.offsets), own, &rows, (&below.offsets, &above.offsets))?;
    let entries = gpu.fetch(assembly.offsets.subslice(own, 1))?[0] as usize;
    let global = assembly.array(1, &global, (&below.columns, &above.columns), entries)?;
    let values = assembly.array(width, &local.values, (&below.values, &above.values), entries)?;
    let Assembly { offsets, .. } = assembly;
    let own =
        OwnRows { block: local.block, offsets, columns: Arc::new(table.to_local(&global)?), values: Arc::new(values) };
    DeviceDivided::of_own_rows(gpu, numbers, columns, own)
}

/// Own rows of the transpose, put together.
struct Assembly<'a> {
    gpu: &'a Gpu,
    /// Offsets of the own entries, in the transpose of the own rows.
    from: &'a Slice<i64>,
    own: usize,
    /// Rows that get entries of other ranks, and offsets of these.
    rows: Buffer<i32>,
    lower: Buffer<i64>,
    higher: Buffer<i64>,
    /// Entries of lower ranks for each row.
    before: Buffer<i32>,
    offsets: Buffer<i64>,
}

impl<'a> Assembly<'a> {
    fn new(
        gpu: &'a Gpu,
        from: &'a Slice<i64>,
        own: usize,
        rows: &[i32],
        (lower, higher): (&[i64], &[i64]),
    ) -> Result<Assembly<'a>> {
        let (lengths, before) = (gpu.allocate::<i32>(own)?, gpu.zeroed::<i32>(own)?);
        let (n, kernel) = (rows.len(), gpu.kernel("divided_all_lengths")?);
        gpu.launch(kernel, own, &[&(own as i64), &from.view(), &lengths.view()])?;
        let (rows, lower, higher) = (gpu.upload(rows)?, gpu.upload(lower)?, gpu.upload(higher)?);
        let views = [rows.view(), lower.view(), higher.view(), lengths.view(), before.view()];
        let [a, b, c, d, e] = &views;
        gpu.launch(gpu.kernel("divided_add_lengths")?, n, &[&(n as i64), a, b, c, d, e])?;
        let offsets = gpu.offsets_alone(&lengths)?;
        Ok(Assembly { gpu, from, own, rows, lower, higher, before, offsets })
    }

    /// Something for each entry, of so many elements.
    fn array<E: Element>(
        &self,
        width: usize,
        own: &Slice<E>,
        (lower, higher): (&[E], &[E]),
        entries: usize,
    ) -> Result<Buffer<E>> {
        let Assembly { gpu, from, rows, before, offsets, .. } = self;
        let (to, bits) = (gpu.allocate::<E>(entries * width)?, E::TYPE.bits().name());
        let width = width as i32;
        let (n, views) = (self.own as i64, [from.view(), offsets.view(), before.view()]);
        let [a, b, c] = &views;
        let place = gpu.kernel(&format!("divided_place_{bits}"))?;
        gpu.launch(place, LANES * self.own, &[&n, &width, a, b, c, &own.view().bits(), &to.view().bits()])?;
        let (lower, higher) = (gpu.upload(lower)?, gpu.upload(higher)?);
        let place = gpu.kernel(&format!("divided_place_others_{bits}"))?;
        let arguments: [&dyn Argument; 9] = [
            &(rows.len() as i64),
            &width,
            &rows.view(),
            &self.lower.view(),
            &self.higher.view(),
            &offsets.view(),
            &lower.view().bits(),
            &higher.view().bits(),
            &to.view().bits(),
        ];
        gpu.launch(place, rows.len(), &arguments)?;
        Ok(to)
    }
}
