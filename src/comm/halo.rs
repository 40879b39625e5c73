//! The halo of a matrix: the columns of its rows that other ranks have, and the messages that bring their values.

use super::{Distribution, Part, bytes, bytes_mut};
use crate::error::{Result, fail, try_capacity, try_collect, try_copy, try_push, try_vec};
use std::ops::Range;
use std::sync::Arc;

/// Tags of messages.
const INDICES: i32 = 1;
pub(crate) const VALUES: i32 = 2;

/// Global columns in the numbers of this rank. Columns of lower ranks come first, then its own, then those of higher
/// ranks: the order is that of the global columns.
pub(crate) struct LocalColumns {
    /// The local number of each column.
    pub columns: Vec<i32>,
    /// Columns of other ranks, ascending.
    pub ghosts: Vec<u64>,
    /// How many of them belong to lower ranks.
    pub below: usize,
}

impl LocalColumns {
    /// Of `count` columns, where those in `own` belong to this rank.
    pub fn new(count: usize, column: impl Fn(usize) -> usize, own: &Range<usize>) -> Result<LocalColumns> {
        let ghosts = columns_of_others(count, &column, own)?;
        let below = ghosts.partition_point(|j| *j < own.start as u64);
        if ghosts.len() + own.len() > i32::MAX as usize {
            return fail!(
                Unsupported,
                "{} rows and {} columns of other ranks on one rank; together at most {}",
                own.len(),
                ghosts.len(),
                i32::MAX
            );
        }
        let mut columns = try_capacity(count)?;
        columns.extend((0..count).map(&column).map(|j| match own.contains(&j) {
            true => (below + j - own.start) as i32,
            false => match ghosts.partition_point(|g| *g < j as u64) {
                k if k < below => k as i32,
                k => (k + own.len()) as i32,
            },
        }));
        Ok(LocalColumns { columns, ghosts, below })
    }
}

/// Those of `count` columns that are not in `own`, ascending and once each.
pub(crate) fn columns_of_others(count: usize, column: impl Fn(usize) -> usize, own: &Range<usize>) -> Result<Vec<u64>> {
    let others = || (0..count).map(&column).filter(|j| !own.contains(j));
    let mut found = try_capacity(others().count())?;
    found.extend(others().map(|j| j as u64));
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Which elements of a vector go to which ranks, and which come from where.
pub(crate) struct Halo {
    /// The ranks.
    pub over: Arc<Distribution>,
    /// Elements of this rank.
    pub own: usize,
    /// Elements of lower ranks, and all of other ranks.
    pub below: usize,
    pub ghosts: usize,
    /// Elements that are sent, in the order of the parts of `sends`.
    pub sent: Vec<u32>,
    /// In elements.
    pub(crate) sends: Vec<Part>,
    pub(crate) receives: Vec<Part>,
}

impl Halo {
    /// Collective: the halo for these columns of other ranks, ascending, of vectors of which `starts` has the first
    /// element of each rank.
    pub fn new(over: &Arc<Distribution>, starts: &[usize], ghosts: &[u64], below: usize) -> Result<Halo> {
        let (rank, size) = (over.ranks.rank(), over.ranks.size());
        let own = starts[rank]..starts[rank + 1];
        let part = |of: usize| {
            let before = |j: usize| ghosts.partition_point(|g| *g < j as u64);
            let (begin, end) = (before(starts[of]), before(starts[of + 1]));
            Part { rank: of, begin, length: end - begin }
        };
        let receives = (0..size).filter(|of| *of != rank).map(part).filter(|part| part.length > 0);
        let receives = over.ranks.agree(try_collect(receives))?;
        // Each rank tells whom it wants how many elements of. All ranks have these lists, whose length is the number of
        // neighbours.
        let wanted = receives.iter().map(|part| [part.rank as u64, part.length as u64]);
        let wanted = over.ranks.agree(try_collect(wanted))?;
        let (all, lists) = over.ranks.gather(wanted.as_flattened())?;
        let mut sends = Vec::new();
        let mut begin = 0;
        for (to, list) in lists.windows(2).enumerate() {
            let of = all[list[0]..list[1]].chunks_exact(2).find(|of| of[0] == rank as u64);
            if let Some(length) = of.map(|of| of[1] as usize) {
                try_push(&mut sends, Part { rank: to, begin, length })?;
                begin += length;
            }
        }
        let room = || Ok((try_vec(begin, 0_u64)?, try_capacity(begin)?, try_copy(ghosts)?));
        let (mut asked, mut sent, wanted): (Vec<u64>, Vec<u32>, Vec<u64>) = over.ranks.agree(room())?;
        let (out, back) = (scaled(&receives, size_of::<u64>())?, scaled(&sends, size_of::<u64>())?);
        let communicator = over.ranks.communicator();
        communicator.exchange(INDICES, &out, bytes(&wanted), &back, bytes_mut(&mut asked), &mut || ())?;
        sent.extend(asked.iter().map(|j| (*j as usize).wrapping_sub(own.start) as u32));
        let outside = asked.iter().find(|j| !own.contains(&(**j as usize)));
        let checked = match outside {
            Some(j) => fail!(Internal, "column {j} was asked of rank {rank}, which has {own:?}"),
            None => Ok(()),
        };
        over.ranks.agree(checked)?;
        Ok(Halo { over: Arc::clone(over), own: own.len(), below, ghosts: ghosts.len(), sent, sends, receives })
    }

    /// The same messages by another communicator of the same ranks.
    pub fn through(&self, over: &Arc<Distribution>) -> Result<Halo> {
        Ok(Halo {
            over: Arc::clone(over),
            sent: try_copy(&self.sent)?,
            sends: try_copy(&self.sends)?,
            receives: try_copy(&self.receives)?,
            ..*self
        })
    }

    /// Own elements and those of other ranks.
    pub fn length(&self) -> usize {
        self.own + self.ghosts
    }

    /// Messages of elements of so many bytes: what is sent and what is received.
    pub fn messages(&self, bytes: usize) -> Result<(Vec<Part>, Vec<Part>)> {
        Ok((scaled(&self.sends, bytes)?, scaled(&self.receives, bytes)?))
    }

    /// Bytes that come for elements of so many bytes.
    pub fn received(&self, bytes: usize) -> usize {
        bytes * self.ghosts
    }

    /// Ranks that elements come from.
    pub fn neighbours(&self) -> usize {
        self.receives.len()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.sent.as_slice())
    }
}

/// Parts of arrays with elements of so many bytes.
pub(crate) fn scaled(parts: &[Part], bytes: usize) -> Result<Vec<Part>> {
    let part = |part: &Part| Part { rank: part.rank, begin: bytes * part.begin, length: bytes * part.length };
    try_collect(parts.iter().map(part))
}
