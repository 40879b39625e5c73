//! Rows of other ranks that a step of a divided set-up reads. Their pattern and the messages are found once; an update
//! sends values alone.

use super::divided::{COLUMNS, LENGTHS, NUMBERS, exchange};
use super::halo::scaled;
use super::{Distribution, Numbering, Part};
use crate::error::{Result, try_capacity, try_collect, try_vec};
use crate::scalar::{Element, Scalar};
use std::sync::Arc;

/// The rows of the ghosts of some numbering, one after the other.
pub(crate) struct FetchedRows {
    numbers: Arc<Numbering>,
    /// Offsets of the rows.
    pub offsets: Vec<i64>,
    /// Their columns, by global numbers.
    pub columns: Vec<i32>,
    /// Messages, in entries.
    sends: Vec<Part>,
    receives: Vec<Part>,
}

/// Parts of arrays with as many elements for each element of these parts as `lengths` says.
pub(crate) fn widened(parts: &[Part], lengths: &[i64]) -> Result<(Vec<Part>, usize)> {
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
    /// The rows of the ghosts of `numbers`. `row` has the columns of an own row, which are counted from 0, and
    /// `global` the global number of a column. Collective.
    pub fn new<'a>(
        over: &Distribution,
        numbers: &Arc<Numbering>,
        row: impl Fn(usize) -> &'a [i32],
        global: impl Fn(i32) -> usize,
    ) -> Result<FetchedRows> {
        let halo = &numbers.halo;
        let sent = || halo.sent.iter().map(|i| row(*i as usize));
        let out = try_collect(sent().map(|columns| columns.len() as i64))?;
        let mut lengths = try_vec(halo.ghosts, 0_i64)?;
        exchange(over, LENGTHS, (&halo.sends, &out), (&halo.receives, &mut lengths))?;
        let ((sends, outgoing), (receives, incoming)) =
            (widened(&halo.sends, &out)?, widened(&halo.receives, &lengths)?);
        let mut out_columns = try_capacity(outgoing)?;
        sent().for_each(|columns| out_columns.extend(columns.iter().map(|j| global(*j) as i32)));
        let mut columns = try_vec(incoming, 0_i32)?;
        exchange(over, COLUMNS, (&sends, &out_columns), (&receives, &mut columns))?;
        let mut offsets = try_vec(lengths.len() + 1, 0_i64)?;
        for (row, length) in lengths.iter().enumerate() {
            offsets[row + 1] = offsets[row] + length;
        }
        Ok(FetchedRows { numbers: Arc::clone(numbers), offsets, columns, sends, receives })
    }

    /// Their values, of blocks of so many. `row` has the values of an own row. Collective.
    pub fn values<'a, T: Scalar>(
        &self,
        over: &Distribution,
        width: usize,
        row: impl Fn(usize) -> &'a [T],
    ) -> Result<Vec<T>> {
        let outgoing = self.sends.iter().map(|part| part.length).sum::<usize>() * width;
        let mut out = try_capacity(outgoing)?;
        self.numbers.halo.sent.iter().for_each(|i| out.extend_from_slice(row(*i as usize)));
        let mut values = try_vec(self.columns.len() * width, T::ZERO)?;
        let (sends, receives) = (scaled(&self.sends, width)?, scaled(&self.receives, width)?);
        exchange(over, NUMBERS, (&sends, &out), (&receives, &mut values))?;
        Ok(values)
    }

    /// Offsets of these rows and the own ones, in the order of their numbers. `length` has the entries of an own row.
    pub fn offsets_among(&self, length: impl Fn(usize) -> usize) -> Result<Vec<i64>> {
        let inside = self.numbers.inside();
        let (mut offsets, mut end) = (try_capacity(self.numbers.count() + 1)?, 0);
        offsets.push(0);
        for i in 0..self.numbers.count() {
            end += match i.wrapping_sub(inside.start) {
                k if k < inside.len() => length(k) as i64,
                _ => {
                    let ghost = if i < inside.start { i } else { i - inside.len() };
                    self.offsets[ghost + 1] - self.offsets[ghost]
                }
            };
            offsets.push(end);
        }
        Ok(offsets)
    }

    /// Something for each entry of the own rows, and the same for these rows, in the order of the rows.
    pub fn among<E: Element>(&self, own: &[E], fetched: &[E], width: usize) -> Result<Vec<E>> {
        let mut all = try_capacity(own.len() + fetched.len())?;
        let (lower, higher) = fetched.split_at(self.offsets[self.numbers.inside().start] as usize * width);
        all.extend_from_slice(lower);
        all.extend_from_slice(own);
        all.extend_from_slice(higher);
        Ok(all)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.offsets[..]) + size_of_val(&self.columns[..])
    }
}
