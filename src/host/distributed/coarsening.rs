//! Coarse unknowns of a level whose strength graph is divided among ranks.
//!
//! Each rank has its rows of the graph, and the states of the unknowns that they couple to. In each round of PMIS or of a
//! distance-2 independent set, ranks send the states of unknowns at their boundary to neighbours. Random numbers are
//! hashes of global indices, and every step reads the states before it, so that the result is that of one rank.

use super::divided::transposed;
use crate::comm::{Distribution, Halo, LocalColumns, Reduction};
use crate::error::{Result, try_capacity, try_collect, try_copy, try_vec};
use crate::hash::hash;
use crate::host::mis2::{self, IN, NONE, OUT, is_open};
use crate::host::pmis::{COARSE, FINE, UNDECIDED};
use crate::par;
use crate::scalar::Element;
use crate::sparse::{Block, Csr, Graph};
use std::ops::Range;
use std::sync::Arc;

/// Tag of messages.
const STATES: i32 = 6;

/// The unknowns of this rank and those that they couple to, numbered in the order of their global indices.
struct Neighbourhood {
    halo: Halo,
    /// Own unknowns.
    own: Range<usize>,
    /// Unknowns of other ranks, ascending.
    ghosts: Vec<u64>,
}

impl Neighbourhood {
    /// Of some columns, which are renumbered. Collective.
    fn new(
        over: &Arc<Distribution>,
        starts: &[usize],
        own: Range<usize>,
        columns: &[i32],
    ) -> Result<(Neighbourhood, Vec<i32>)> {
        let local = LocalColumns::new(columns.len(), |k| columns[k] as usize, &own)?;
        let LocalColumns { columns, ghosts, below } = local;
        let halo = Halo::new(over, starts, &ghosts, below)?;
        Ok((Neighbourhood { halo, own, ghosts }, columns))
    }

    /// Numbers of the own unknowns.
    fn inside(&self) -> Range<usize> {
        self.halo.below..self.halo.below + self.halo.own
    }

    /// The number of an unknown.
    fn local(&self, global: usize) -> usize {
        match self.own.contains(&global) {
            true => self.halo.below + global - self.own.start,
            false => match self.ghosts.partition_point(|g| *g < global as u64) {
                k if k < self.halo.below => k,
                k => k + self.halo.own,
            },
        }
    }

    /// Brings the states of other ranks here, where each has computed its own. Collective.
    fn exchange<T: Element>(&self, states: &mut [T]) -> Result<()> {
        let Halo { below, own, ghosts, .. } = self.halo;
        let out = try_collect(self.halo.sent.iter().map(|i| states[below + *i as usize]))?;
        let mut incoming = try_vec(ghosts, T::default())?;
        self.halo.over.exchange(STATES, (&self.halo.sends, &out), (&self.halo.receives, &mut incoming))?;
        states[..below].copy_from_slice(&incoming[..below]);
        states[below + own..].copy_from_slice(&incoming[below..]);
        Ok(())
    }

    /// A number for each own unknown that is counted, after those of lower ranks, and how many there are on all. Collective.
    fn prefix(&self, own: usize) -> Result<(usize, usize)> {
        let ranks = &self.halo.over.ranks;
        let (counts, _) = ranks.gather(&[own as u64])?;
        let before = counts[..ranks.rank()].iter().sum::<u64>();
        Ok((before as usize, counts.iter().sum::<u64>() as usize))
    }

    /// Whether some number is zero on all ranks. Collective.
    fn is_none(&self, count: usize) -> Result<bool> {
        Ok(self.halo.over.ranks.reduce(count as i64, Reduction::Max)? == 0)
    }
}

/// Own rows of a graph, with local columns.
struct Rows {
    /// Of the own rows, from 0 on.
    offsets: Vec<i64>,
    columns: Vec<i32>,
}

impl Rows {
    fn row(&self, i: usize) -> &[i32] {
        &self.columns[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// Columns of the own rows, and where each begins.
fn own_part<'a>(s: &'a Graph, own: &Range<usize>) -> Result<(Vec<i64>, &'a [i32])> {
    let first = s.offsets[own.start];
    let offsets = try_collect(s.offsets[own.start..=own.end].iter().map(|offset| offset - first))?;
    Ok((offsets, &s.columns[first as usize..s.offsets[own.end] as usize]))
}

/// As [`mis2::aggregate`], by the rows `own` of this rank; `starts` has the first of each. Complete on every rank.
/// Collective.
pub(crate) fn aggregate(
    over: &Arc<Distribution>,
    s: &Graph,
    starts: &[usize],
    own: Range<usize>,
    seed: u64,
) -> Result<(Vec<i32>, usize)> {
    let (offsets, columns) = own_part(s, &own)?;
    let (near, columns) = Neighbourhood::new(over, starts, own, columns)?;
    let rows = Rows { offsets, columns };
    let inside = near.inside();
    let is_root = roots(&near, &rows, seed)?;
    let (mut next, count) = near.prefix(is_root.iter().filter(|root| **root).count())?;
    let mut aggregates = try_vec(near.halo.length(), NONE)?;
    for (own, _) in aggregates[inside.clone()].iter_mut().zip(&is_root).filter(|(_, root)| **root) {
        *own = next as i32;
        next += 1;
    }
    for _ in 0..mis2::JOINS {
        near.exchange(&mut aggregates)?;
        let before = try_copy(&aggregates)?;
        par::for_each_mut(&mut aggregates[inside.clone()], par::ROW_GRAIN, |start, piece| {
            for (k, own) in piece.iter_mut().enumerate().filter(|(_, own)| **own == NONE) {
                let taken = rows.row(start + k).iter().map(|j| before[*j as usize]).find(|a| *a != NONE);
                *own = taken.unwrap_or(NONE);
            }
        });
    }
    let own = &mut aggregates[inside];
    let is_left = |(i, a): (usize, i32)| a == NONE && !rows.row(i).is_empty();
    let left = own.iter().copied().enumerate().filter(|of| is_left(*of)).count();
    let (mut next, more) = near.prefix(left)?;
    for (i, own) in own.iter_mut().enumerate() {
        if is_left((i, *own)) {
            *own = (count + next) as i32;
            next += 1;
        }
    }
    Ok((over.ranks.gather(own)?.0, count + more))
}

/// Which own unknowns are roots.
fn roots(near: &Neighbourhood, rows: &Rows, seed: u64) -> Result<Vec<bool>> {
    let (inside, first) = (near.inside(), near.own.start);
    let below = inside.start;
    let mut key = try_vec(near.halo.length(), OUT)?;
    par::for_each_mut(&mut key[inside.clone()], par::GRAIN, |start, piece| {
        for (i, key) in (start..).zip(piece).filter(|(i, _)| !rows.row(*i).is_empty()) {
            *key = mis2::first_key(first + i, seed);
        }
    });
    near.exchange(&mut key)?;
    let mut largest = try_copy(&key)?;
    let mut is_first = true;
    loop {
        par::for_each_mut(&mut largest[inside.clone()], par::ROW_GRAIN, |start, piece| {
            for (i, largest) in (start..).zip(piece) {
                if is_first || (is_open(*largest) && key[near.local(mis2::unknown_of(*largest))] != *largest) {
                    *largest = rows.row(i).iter().map(|j| key[*j as usize]).fold(key[below + i], u64::max);
                }
            }
        });
        is_first = false;
        near.exchange(&mut largest)?;
        par::for_each_mut(&mut key[inside.clone()], par::ROW_GRAIN, |start, piece| {
            for (i, key) in (start..).zip(piece).filter(|(_, key)| is_open(**key)) {
                let within_two = rows.row(i).iter().map(|j| largest[*j as usize]).fold(largest[below + i], u64::max);
                *key = mis2::decided(*key, within_two);
            }
        });
        near.exchange(&mut key)?;
        if near.is_none(key[inside.clone()].iter().filter(|key| is_open(**key)).count())? {
            return try_collect(key[inside].iter().map(|key| *key == IN));
        }
    }
}

/// As [`crate::host::pmis::split`] for a scalar matrix, by the rows `own` of this rank; `starts` has the first of each.
/// Complete on every rank. Collective.
pub(crate) fn split(
    over: &Arc<Distribution>,
    s: &Graph,
    starts: &[usize],
    own: Range<usize>,
    seed: u64,
) -> Result<Vec<bool>> {
    let (s_offsets, s_columns) = own_part(s, &own)?;
    let transpose = transposed(over, &pattern(s, &own)?.view())?;
    let transpose = Graph { offsets: transpose.offsets, columns: transpose.columns };
    let (t_offsets, t_columns) = own_part(&transpose, &own)?;
    let mut both = try_capacity(s_columns.len() + t_columns.len())?;
    both.extend_from_slice(s_columns);
    both.extend_from_slice(t_columns);
    let (near, mut columns) = Neighbourhood::new(over, starts, own, &both)?;
    drop(both);
    let of_transpose = try_copy(&columns[s_columns.len()..])?;
    columns.truncate(s_columns.len());
    let (s, st) = (Rows { offsets: s_offsets, columns }, Rows { offsets: t_offsets, columns: of_transpose });

    let (inside, first) = (near.inside(), near.own.start);
    let below = inside.start;
    let mut weight = try_vec(near.halo.length(), 0_u64)?;
    let mut state = try_vec(near.halo.length(), UNDECIDED)?;
    for i in 0..inside.len() {
        let dependents = st.row(i).len() as u64;
        weight[below + i] = (dependents << 40) | (hash(first + i, seed) >> 24);
        if dependents == 0 {
            state[below + i] = FINE;
        }
    }
    near.exchange(&mut weight)?;
    near.exchange(&mut state)?;
    // Local numbers have the order of the global ones.
    let outweighs = |i: usize, j: usize| (weight[i], i) > (weight[j], j);
    let mut active: Vec<u32> = try_capacity(inside.len())?;
    active.extend((0..inside.len() as u32).filter(|i| state[below + *i as usize] == UNDECIDED));
    while !near.is_none(active.len())? {
        let maximal = |i: usize| {
            let beaten = |j: &i32| state[*j as usize] != UNDECIDED || outweighs(below + i, *j as usize);
            s.row(i).iter().all(beaten) && st.row(i).iter().all(beaten)
        };
        let chosen = try_collect(active.iter().copied().filter(|i| maximal(*i as usize)))?;
        chosen.iter().for_each(|i| state[below + *i as usize] = COARSE);
        near.exchange(&mut state)?;
        let is_covered =
            |i: usize| state[below + i] == UNDECIDED && s.row(i).iter().any(|j| state[*j as usize] == COARSE);
        let covered = try_collect(active.iter().copied().filter(|i| is_covered(*i as usize)))?;
        covered.iter().for_each(|i| state[below + *i as usize] = FINE);
        near.exchange(&mut state)?;
        active.retain(|i| state[below + *i as usize] == UNDECIDED);
    }
    let (all, _) = over.ranks.gather(&state[inside])?;
    try_collect(all.iter().map(|state| *state == COARSE))
}

/// The rows `own` of a graph as a matrix, whose values mean nothing.
pub(super) fn pattern(s: &Graph, own: &Range<usize>) -> Result<Csr<f32>> {
    let n = s.rows();
    let (first, end) = (s.offsets[own.start], s.offsets[own.end]);
    let offsets = try_collect(s.offsets.iter().map(|offset| (*offset).clamp(first, end) - first))?;
    let columns = try_copy(&s.columns[first as usize..end as usize])?;
    Csr::with_pattern(n, n, Block::SCALAR, offsets, columns)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::comm::{Ranks, threads};
    use crate::host::pmis;

    /// A graph of so many edges from each unknown to others near it; one in seven has none. Symmetric on request.
    fn graph(n: usize, edges: usize, symmetric: bool) -> Graph {
        let mut triplets = Vec::new();
        for i in (0..n).filter(|i| i % 7 != 3) {
            for k in 0..edges {
                let j = (i + 1 + hash(i * edges + k, 5) as usize % 40) % n;
                if j != i && j % 7 != 3 {
                    triplets.push((i, j, 1.0));
                    triplets.extend(symmetric.then_some((j, i, 1.0)));
                }
            }
        }
        let a = Csr::from_triplets(n, n, &triplets).unwrap();
        Graph { offsets: a.offsets, columns: a.columns }
    }

    #[test]
    fn coarse_unknowns_are_those_of_one_rank() {
        for (n, edges, symmetric) in [(300, 3, true), (300, 2, false), (60, 1, true), (5, 0, true)] {
            let s = graph(n, edges, symmetric);
            let expected = (mis2::aggregate(&s, 4).unwrap(), pmis::split(&s, &s.transpose().unwrap(), 4).unwrap());
            for starts in [vec![0, n], vec![0, n / 2, n], vec![0, 0, 1, n / 3, n / 3, n]] {
                let run = |communicator| {
                    let over = Distribution::new(Arc::new(Ranks::new(communicator)), starts.clone());
                    let own = over.own(n);
                    let of_own = pattern(&s, &own).unwrap();
                    let part = Graph { offsets: of_own.offsets, columns: of_own.columns };
                    let aggregates = aggregate(&over, &part, &starts, own.clone(), 4).unwrap();
                    (aggregates, split(&over, &part, &starts, own, 4).unwrap())
                };
                let found: Vec<_> = std::thread::scope(|scope| {
                    let run = &run;
                    let all = threads(starts.len() - 1).into_iter().map(|c| scope.spawn(move || run(c)));
                    all.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
                });
                for found in found {
                    assert!(found == expected, "{n} {edges} {symmetric} {starts:?}");
                }
            }
        }
    }
}
