//! A level that is divided among ranks, of which each has some rows, and the messages of its set-up.

use super::halo::scaled;
use super::{Distribution, Numbering, Part, Reduction, bytes, bytes_mut};
use crate::error::Result;
use crate::scalar::Element;
use std::sync::Arc;

/// Tags of messages.
pub(crate) const LENGTHS: i32 = 3;
pub(crate) const COLUMNS: i32 = 4;
pub(crate) const NUMBERS: i32 = 5;
pub(crate) const GHOSTS: i32 = 6;

/// Sends and receives parts of two arrays. Collective.
pub(crate) fn exchange<T: Element>(
    over: &Distribution,
    tag: i32,
    (sends, out): (&[Part], &[T]),
    (receives, into): (&[Part], &mut [T]),
) -> Result<()> {
    let (sends, receives) = (scaled(sends, size_of::<T>())?, scaled(receives, size_of::<T>())?);
    over.ranks.communicator().exchange(tag, &sends, bytes(out), &receives, bytes_mut(into), &mut || ())
}

/// The ranks, and the numbers that the unknowns of a level have here.
#[derive(Clone, Copy)]
pub(crate) struct DividedLevel<'a> {
    pub over: &'a Arc<Distribution>,
    pub numbers: &'a Arc<Numbering>,
}

impl DividedLevel<'_> {
    /// How many own unknowns of lower ranks are counted, and how many on all. Collective.
    pub fn prefix(&self, own: usize) -> Result<(usize, usize)> {
        let ranks = &self.over.ranks;
        let (counts, _) = ranks.gather(&[own as u64])?;
        let before = counts[..ranks.rank()].iter().sum::<u64>();
        Ok((before as usize, counts.iter().sum::<u64>() as usize))
    }

    /// Whether some number is zero on all ranks. Collective.
    pub fn is_none(&self, count: usize) -> Result<bool> {
        Ok(self.over.ranks.reduce(count as i64, Reduction::Max)? == 0)
    }
}
