//! Rows of other ranks that a step of a divided set-up reads. Their pattern and the messages are found once; an update
//! sends values alone.

use super::divided::{COLUMNS, LENGTHS, NUMBERS, values_of};
use crate::comm::halo::scaled;
use crate::comm::{Distribution, Halo, Part};
use crate::error::{Result, try_capacity, try_collect, try_vec};
use crate::par;
use crate::scalar::{Element, Scalar};
use crate::sparse::{Block, CsrView, Offsets};
use std::ops::Range;
use std::sync::Arc;

/// Rows of other ranks, one after the other.
pub(crate) struct FetchedRows {
    /// Which, ascending.
    pub rows: Vec<u64>,
    offsets: Vec<i64>,
    columns: Vec<i32>,
    /// Rows of this rank.
    own: Range<usize>,
    /// How many of the rows belong to lower ranks.
    below: usize,
    /// Those of the own rows that other ranks want, counted from the first own one.
    sent: Vec<u32>,
    /// Messages, in entries.
    sends: Vec<Part>,
    receives: Vec<Part>,
}

/// Parts of arrays with as many elements for each element of these parts as `lengths` says.
fn widened(parts: &[Part], lengths: &[i64]) -> Result<(Vec<Part>, usize)> {
    let mut begin = 0;
    let mut widened = try_capacity(parts.len())?;
    for part in parts {
        let length = lengths[part.begin..][..part.length].iter().sum::<i64>() as usize;
        widened.push(Part { rank: part.rank, begin, length });
        begin += length;
    }
    Ok((widened, begin))
}

impl FetchedRows {
    /// These rows, ascending, of a matrix of `n` rows of blocks of `width` rows. `row` has the columns of own rows.
    /// Collective.
    pub fn new<'a>(
        over: &Arc<Distribution>,
        (n, width): (usize, usize),
        row: impl Fn(usize) -> &'a [i32],
        rows: Vec<u64>,
    ) -> Result<FetchedRows> {
        let own = over.own_blocks(n, width);
        let below = rows.partition_point(|i| *i < own.start as u64);
        let halo = Halo::new(over, &over.block_starts(n, width)?, &rows, below)?;
        let sent = || halo.sent.iter().map(|i| row(own.start + *i as usize));
        let out = try_collect(sent().map(|columns| columns.len() as i64))?;
        let mut lengths = try_vec(rows.len(), 0_i64)?;
        over.exchange(LENGTHS, (&halo.sends, &out), (&halo.receives, &mut lengths))?;
        let ((sends, outgoing), (receives, incoming)) =
            (widened(&halo.sends, &out)?, widened(&halo.receives, &lengths)?);
        let mut out_columns = try_capacity(outgoing)?;
        sent().for_each(|columns| out_columns.extend_from_slice(columns));
        let mut columns = try_vec(incoming, 0_i32)?;
        over.exchange(COLUMNS, (&sends, &out_columns), (&receives, &mut columns))?;
        let offsets = par::offsets_from_counts(lengths)?;
        Ok(FetchedRows { rows, offsets, columns, own, below, sent: halo.sent, sends, receives })
    }

    /// Their values, of blocks of so many. `row` has the values of own rows. Collective.
    pub fn values<'a, T: Scalar>(
        &self,
        over: &Distribution,
        width: usize,
        row: impl Fn(usize) -> &'a [T],
    ) -> Result<Vec<T>> {
        let outgoing = self.sends.iter().map(|part| part.length).sum::<usize>() * width;
        let mut out = try_capacity(outgoing)?;
        self.sent.iter().for_each(|i| out.extend_from_slice(row(self.own.start + *i as usize)));
        let mut values = try_vec(self.columns.len() * width, T::ZERO)?;
        let (sends, receives) = (scaled(&self.sends, width)?, scaled(&self.receives, width)?);
        over.exchange(NUMBERS, (&sends, &out), (&receives, &mut values))?;
        Ok(values)
    }

    /// Values of the own rows of a matrix, which has no others, and of these, in the order of the rows. Collective.
    pub fn values_among<T: Scalar>(&self, over: &Distribution, a: &CsrView<'_, T>) -> Result<Vec<T>> {
        let width = a.block.len();
        let fetched = self.values(over, width, |i| values_of(a, a.row_range(i)))?;
        self.among(a.values, &fetched, width)
    }

    /// As a matrix with these values.
    pub fn view<'a, T>(&'a self, cols: usize, block: Block, values: &'a [T]) -> CsrView<'a, T> {
        let offsets = Offsets::I64(&self.offsets);
        CsrView { rows: self.rows.len(), cols, block, offsets, columns: &self.columns, values, base: 0 }
    }

    /// Offsets of these rows and the own ones among all `n`, the others of which are empty. `length` has the entries of an
    /// own row.
    pub fn offsets_among(&self, n: usize, length: impl Fn(usize) -> usize) -> Result<Vec<i64>> {
        let mut offsets = try_vec(n + 1, 0_i64)?;
        self.own.clone().for_each(|i| offsets[i + 1] = length(i) as i64);
        let lengths = self.offsets.windows(2).map(|pair| pair[1] - pair[0]);
        self.rows.iter().zip(lengths).for_each(|(i, length)| offsets[*i as usize + 1] = length);
        (0..n).for_each(|i| offsets[i + 1] += offsets[i]);
        Ok(offsets)
    }

    /// Columns of these rows and of the own ones, in the order of the rows.
    pub fn columns_among(&self, own: &[i32]) -> Result<Vec<i32>> {
        self.among(own, &self.columns, 1)
    }

    /// Something for each entry of the own rows, and the same for these rows, in the order of the rows.
    pub fn among<E: Element>(&self, own: &[E], fetched: &[E], width: usize) -> Result<Vec<E>> {
        let mut all = try_capacity(own.len() + fetched.len())?;
        let (lower, higher) = fetched.split_at(self.offsets[self.below] as usize * width);
        all.extend_from_slice(lower);
        all.extend_from_slice(own);
        all.extend_from_slice(higher);
        Ok(all)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
            + size_of_val(&self.offsets[..])
            + size_of_val(&self.columns[..])
            + size_of_val(&self.sent[..])
    }
}
