//! The numbers that a rank gives to unknowns of a level: to its own, and to the ghosts, which are those of other ranks
//! that its rows refer to.
//!
//! Local numbers have the order of the global ones: ghosts of lower ranks come first, then own unknowns, then ghosts of
//! higher ranks. So a row is summed in the order of one rank. Nothing here is as long as the whole level.

use super::divided::GHOSTS;
use super::halo::scaled;
use super::{Distribution, Halo, LocalColumns, bytes, bytes_mut};
use crate::error::{Result, fail, try_capacity, try_collect, try_copy, try_extend, try_vec};
use crate::scalar::Element;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The numbers of some unknowns.
#[derive(Debug, PartialEq)]
pub(crate) struct LocalNumbers {
    /// Global numbers of the unknowns of this rank.
    pub own: Range<usize>,
    /// Global numbers of the others, ascending.
    ghosts: Vec<u64>,
    /// How many of them belong to lower ranks.
    below: usize,
}

impl LocalNumbers {
    /// Of the own unknowns and these ghosts, ascending.
    pub fn new(own: Range<usize>, ghosts: Vec<u64>) -> Result<LocalNumbers> {
        if own.len() + ghosts.len() > i32::MAX as usize {
            let (own, ghosts) = (own.len(), ghosts.len());
            return fail!(
                Unsupported,
                "one rank has {own} rows and needs {ghosts} of others; together at most {}",
                i32::MAX
            );
        }
        let below = ghosts.partition_point(|g| *g < own.start as u64);
        Ok(LocalNumbers { own, ghosts, below })
    }

    /// The global numbers of the ghosts, ascending.
    pub fn ghosts(&self) -> &[u64] {
        &self.ghosts
    }

    /// The ghosts, ascending.
    pub fn into_ghosts(self) -> Vec<u64> {
        self.ghosts
    }

    /// How many unknowns have a number.
    pub fn count(&self) -> usize {
        self.own.len() + self.ghosts.len()
    }

    /// Numbers of the own unknowns.
    pub fn inside(&self) -> Range<usize> {
        self.below..self.below + self.own.len()
    }

    /// The number of a ghost, which are counted from 0.
    pub fn of_ghost(&self, ghost: usize) -> usize {
        if ghost < self.below { ghost } else { ghost + self.own.len() }
    }

    /// The global number of an unknown.
    #[inline]
    pub fn global(&self, local: usize) -> usize {
        match local.wrapping_sub(self.below) {
            k if k < self.own.len() => self.own.start + k,
            _ if local < self.below => self.ghosts[local] as usize,
            _ => self.ghosts[local - self.own.len()] as usize,
        }
    }

    /// The number of an unknown by its global one, where it has one.
    #[inline]
    pub fn local(&self, global: usize) -> Option<usize> {
        match global.wrapping_sub(self.own.start) {
            k if k < self.own.len() => Some(self.below + k),
            _ => self.ghosts.binary_search(&(global as u64)).ok().map(|ghost| self.of_ghost(ghost)),
        }
    }

    /// Numbers for these unknowns and others, by global numbers.
    pub fn and(&self, others: impl Iterator<Item = usize>) -> Result<LocalNumbers> {
        let mut ghosts = try_copy(&self.ghosts)?;
        try_extend(&mut ghosts, others.filter(|j| self.local(*j).is_none()).map(|j| j as u64))?;
        ghosts.sort_unstable();
        ghosts.dedup();
        LocalNumbers::new(self.own.clone(), ghosts)
    }

    /// Turns these numbers into those of `to`, which has all that are used.
    pub fn renumbering<'a>(&'a self, to: &'a LocalNumbers) -> Result<Renumbering<'a>> {
        let number = |ghost: &u64| to.local(*ghost as usize).map_or(-1, |local| local as i32);
        Ok(Renumbering { from: self, to, of_ghosts: try_collect(self.ghosts.iter().map(number))? })
    }

    /// Columns with these numbers as columns with those of `to`.
    pub fn renumbered(&self, to: &LocalNumbers, columns: &[i32]) -> Result<Vec<i32>> {
        let mut columns = try_copy(columns)?;
        self.renumbering(to)?.apply(&mut columns);
        Ok(columns)
    }

    /// Offsets of the own rows among those of ghosts, which are empty.
    pub fn among_ghosts(&self, own: &[i64]) -> Result<Vec<i64>> {
        let (first, last) = (own[0], own[own.len() - 1]);
        let mut offsets = try_capacity(self.count() + 1)?;
        offsets.extend(std::iter::repeat_n(first, self.below));
        offsets.extend_from_slice(own);
        offsets.extend(std::iter::repeat_n(last, self.ghosts.len() - self.below));
        Ok(offsets)
    }

    /// Offsets of the own rows, from those of all.
    pub fn of_own<'a>(&self, offsets: &'a [i64]) -> &'a [i64] {
        &offsets[self.below..=self.below + self.own.len()]
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.ghosts[..])
    }
}

/// A change of numbers.
pub(crate) struct Renumbering<'a> {
    from: &'a LocalNumbers,
    to: &'a LocalNumbers,
    /// The new numbers of the ghosts.
    of_ghosts: Vec<i32>,
}

impl Renumbering<'_> {
    /// Gives columns their new numbers.
    pub fn apply(&self, columns: &mut [i32]) {
        let Renumbering { from, to, of_ghosts } = self;
        if from.ghosts == to.ghosts {
            return;
        }
        for column in columns {
            let local = *column as usize;
            *column = match local.wrapping_sub(from.below) {
                k if k < from.own.len() => (to.below + k) as i32,
                _ if local < from.below => of_ghosts[local],
                _ => of_ghosts[local - from.own.len()],
            };
        }
    }
}

/// Numbers with the messages that bring what other ranks have for the ghosts.
pub(crate) struct Numbering {
    numbers: LocalNumbers,
    /// Unknowns of all ranks.
    pub total: usize,
    /// The messages. Its communicator may be an earlier one of the same ranks.
    pub halo: Arc<Halo>,
}

impl Deref for Numbering {
    type Target = LocalNumbers;

    fn deref(&self) -> &LocalNumbers {
        &self.numbers
    }
}

impl Numbering {
    /// Of the own unknowns and these ghosts, where `starts` has the first unknown of each rank. Collective.
    pub fn new(over: &Arc<Distribution>, starts: &[usize], ghosts: Vec<u64>) -> Result<Numbering> {
        let rank = over.ranks.rank();
        let numbers = LocalNumbers::new(starts[rank]..starts[rank + 1], ghosts)?;
        let halo = Arc::new(Halo::new(over, starts, &numbers.ghosts, numbers.below)?);
        Ok(Numbering { numbers, total: starts[starts.len() - 1], halo })
    }

    /// With the messages that are known.
    pub fn with_halo(numbers: LocalNumbers, total: usize, halo: Arc<Halo>) -> Numbering {
        Numbering { numbers, total, halo }
    }

    /// Of the own unknowns and those of some columns, and these columns by their new numbers. Collective.
    pub fn of_columns(
        over: &Arc<Distribution>,
        starts: &[usize],
        count: usize,
        column: impl Fn(usize) -> usize,
    ) -> Result<(Numbering, Vec<i32>)> {
        let rank = over.ranks.rank();
        let LocalColumns { columns, ghosts, .. } = LocalColumns::new(count, column, &(starts[rank]..starts[rank + 1]))?;
        Ok((Numbering::new(over, starts, ghosts)?, columns))
    }

    /// The same for columns with numbers of `from`.
    pub fn of_local(
        over: &Arc<Distribution>,
        starts: &[usize],
        from: &LocalNumbers,
        columns: &mut [i32],
    ) -> Result<Numbering> {
        let inside = from.inside();
        let mut is_used = try_vec(from.ghosts.len(), false)?;
        for column in columns.iter().map(|c| *c as usize).filter(|c| !inside.contains(c)) {
            is_used[if column < inside.start { column } else { column - inside.len() }] = true;
        }
        let used = || from.ghosts.iter().zip(&is_used).filter(|(_, is_used)| **is_used).map(|(ghost, _)| *ghost);
        let mut ghosts = try_capacity(used().count())?;
        ghosts.extend(used());
        let numbering = Numbering::new(over, starts, ghosts)?;
        from.renumbering(&numbering)?.apply(columns);
        Ok(numbering)
    }

    /// Brings what other ranks have for the ghosts, `width` elements for each unknown. Collective.
    pub fn exchange<T: Element>(&self, over: &Distribution, width: usize, vector: &mut [T]) -> Result<()> {
        let (below, own) = (self.below * width, self.own.len() * width);
        let mut out = try_capacity(self.halo.sent.len() * width)?;
        for i in &self.halo.sent {
            out.extend_from_slice(&vector[below + *i as usize * width..][..width]);
        }
        let mut incoming = try_vec(self.ghosts.len() * width, T::default())?;
        let (sends, receives) = (self.halo.sends.as_slice(), self.halo.receives.as_slice());
        let (sends, receives) = (scaled(sends, width * size_of::<T>())?, scaled(receives, width * size_of::<T>())?);
        let communicator = over.ranks.communicator();
        communicator.exchange(GHOSTS, &sends, bytes(&out), &receives, bytes_mut(&mut incoming), &mut || ())?;
        vector[..below].copy_from_slice(&incoming[..below]);
        vector[below + own..].copy_from_slice(&incoming[below..]);
        Ok(())
    }

    /// The messages for `width` elements of each unknown.
    pub fn halo_of_blocks(&self, width: usize) -> Result<Arc<Halo>> {
        if width == 1 {
            return Ok(Arc::clone(&self.halo));
        }
        let Halo { over, own, below, ghosts, sent, sends, receives } = &*self.halo;
        let mut wide = try_capacity(sent.len() * width)?;
        wide.extend(sent.iter().flat_map(|i| (0..width as u32).map(move |k| i * width as u32 + k)));
        Ok(Arc::new(Halo {
            over: Arc::clone(over),
            own: own * width,
            below: below * width,
            ghosts: ghosts * width,
            sent: wide,
            sends: scaled(sends, width)?,
            receives: scaled(receives, width)?,
        }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn local_numbers_have_the_order_of_global_ones() {
        let numbers = LocalNumbers::new(10..13, vec![2, 7, 20]).unwrap();
        let globals = [2, 7, 10, 11, 12, 20];
        assert_eq!((numbers.count(), numbers.inside()), (6, 2..5));
        assert!((0..6).all(|k| numbers.global(k) == globals[k] && numbers.local(globals[k]) == Some(k)));
        assert_eq!((numbers.local(8), numbers.local(13), numbers.of_ghost(2)), (None, None, 5));
        assert_eq!(numbers.among_ghosts(&[0, 2, 2, 5]).unwrap(), [0, 0, 0, 2, 2, 5, 5]);
        assert_eq!(numbers.of_own(&[0, 0, 0, 2, 2, 5, 5]), [0, 2, 2, 5]);

        let more = numbers.and([11, 3, 20, 40].into_iter()).unwrap();
        assert_eq!(more, LocalNumbers::new(10..13, vec![2, 3, 7, 20, 40]).unwrap());
        let columns = numbers.renumbered(&more, &[0, 1, 3, 5]).unwrap();
        assert_eq!(columns, [0, 2, 4, 6]);
    }

    #[test]
    fn a_rank_may_have_no_unknowns_but_ghosts() {
        let numbers = LocalNumbers::new(5..5, vec![1, 9]).unwrap();
        assert_eq!((numbers.inside(), numbers.global(1), numbers.local(9), numbers.local(5)), (1..1, 9, Some(1), None));
    }
}
