//! Coarse unknowns of a level whose strength graph is divided among ranks.
//!
//! Each rank has its rows of the graph, and the states of the unknowns that they couple to. In each round of PMIS or
//! of a distance-2 independent set, ranks send the states of unknowns at their boundary to neighbours. Random numbers
//! are hashes of global indices, and every step reads the states before it, so that the result is that of one rank.

use super::divided::sum;
use super::transposition::transposed_graph;
use crate::backend::common::AGGREGATE_JOINS;
use crate::comm::{DividedLevel, Numbering};
use crate::error::{Result, try_capacity, try_collect, try_copy, try_vec};
use crate::hash::hash;
use crate::host::mis2::{self, IN, NONE, OUT, is_open};
use crate::host::pmis::{COARSE, FINE, UNDECIDED};
use crate::host::setup::{Aggregates, Splitting};
use crate::par;
use crate::sparse::Graph;

/// Own rows of a graph, with local columns.
struct Rows<'a> {
    /// Of the own rows.
    offsets: &'a [i64],
    columns: &'a [i32],
}

impl Rows<'_> {
    fn row(&self, i: usize) -> &[i32] {
        &self.columns[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }
}

/// As [`mis2::aggregate`]: the aggregates of own nodes and ghosts. Collective.
pub(crate) fn aggregate(level: DividedLevel<'_>, s: &Graph, seed: u64) -> Result<Aggregates> {
    let DividedLevel { over, numbers } = level;
    let rows = Rows { offsets: numbers.of_own(&s.offsets), columns: &s.columns };
    let inside = numbers.inside();
    let is_root = roots(level, &rows, seed)?;
    let (mut next, count) = level.prefix(is_root.iter().filter(|root| **root).count())?;
    let mut aggregates = try_vec(numbers.count(), NONE)?;
    for (own, _) in aggregates[inside.clone()].iter_mut().zip(&is_root).filter(|(_, root)| **root) {
        *own = next as i32;
        next += 1;
    }
    for _ in 0..AGGREGATE_JOINS {
        numbers.exchange(over, 1, &mut aggregates)?;
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
    let (mut next, more) = level.prefix(left)?;
    for (i, own) in own.iter_mut().enumerate() {
        if is_left((i, *own)) {
            *own = (count + next) as i32;
            next += 1;
        }
    }
    numbers.exchange(over, 1, &mut aggregates)?;
    Ok(Aggregates { of: aggregates, count: count + more })
}

/// Which own unknowns are roots.
fn roots(level: DividedLevel<'_>, rows: &Rows<'_>, seed: u64) -> Result<Vec<bool>> {
    let DividedLevel { over, numbers } = level;
    let (inside, first) = (numbers.inside(), numbers.own.start);
    let below = inside.start;
    let mut key = try_vec(numbers.count(), OUT)?;
    par::for_each_mut(&mut key[inside.clone()], par::GRAIN, |start, piece| {
        for (i, key) in (start..).zip(piece).filter(|(i, _)| !rows.row(*i).is_empty()) {
            *key = mis2::first_key(first + i, seed);
        }
    });
    numbers.exchange(over, 1, &mut key)?;
    let mut largest = try_copy(&key)?;
    let mut is_first = true;
    loop {
        par::for_each_mut(&mut largest[inside.clone()], par::ROW_GRAIN, |start, piece| {
            for (i, largest) in (start..).zip(piece) {
                // The key is that of the unknown itself or of one that it couples to.
                let is_changed = |largest: u64| {
                    numbers.local(mis2::unknown_of(largest)).is_none_or(|unknown| key[unknown] != largest)
                };
                if is_first || (is_open(*largest) && is_changed(*largest)) {
                    *largest = rows.row(i).iter().map(|j| key[*j as usize]).fold(key[below + i], u64::max);
                }
            }
        });
        is_first = false;
        numbers.exchange(over, 1, &mut largest)?;
        par::for_each_mut(&mut key[inside.clone()], par::ROW_GRAIN, |start, piece| {
            for (i, key) in (start..).zip(piece).filter(|(_, key)| is_open(**key)) {
                let within_two = rows.row(i).iter().map(|j| largest[*j as usize]).fold(largest[below + i], u64::max);
                *key = mis2::decided(*key, within_two);
            }
        });
        numbers.exchange(over, 1, &mut key)?;
        if level.is_none(key[inside.clone()].iter().filter(|key| is_open(**key)).count())? {
            return try_collect(key[inside].iter().map(|key| *key == IN));
        }
    }
}

/// As [`crate::host::pmis::split`]: own unknowns and ghosts. Collective.
pub(crate) fn split(level: DividedLevel<'_>, s: &Graph, seed: u64) -> Result<Splitting> {
    let DividedLevel { over, numbers } = level;
    let (t_offsets, t_columns) = transposed_graph(level, s)?;
    let (s_offsets, s_count) = (numbers.of_own(&s.offsets), s.columns.len());
    let column = |k: usize| match s.columns.get(k) {
        Some(j) => numbers.global(*j as usize),
        None => t_columns[k - s_count] as usize,
    };
    let starts = over.starts(numbers.total)?;
    let (near, columns) = Numbering::of_columns(over, &starts, s_count + t_columns.len(), column)?;
    let s = Rows { offsets: s_offsets, columns: &columns[..s_count] };
    let st = Rows { offsets: &t_offsets, columns: &columns[s_count..] };

    let (inside, first) = (near.inside(), near.own.start);
    let below = inside.start;
    let mut weight = try_vec(near.count(), 0_u64)?;
    let mut state = try_vec(near.count(), UNDECIDED)?;
    for i in 0..inside.len() {
        let dependents = st.row(i).len() as u64;
        weight[below + i] = (dependents << 40) | (hash(first + i, seed) >> 24);
        if dependents == 0 {
            state[below + i] = FINE;
        }
    }
    near.exchange(over, 1, &mut weight)?;
    near.exchange(over, 1, &mut state)?;
    // Local numbers have the order of the global ones.
    let outweighs = |i: usize, j: usize| (weight[i], i) > (weight[j], j);
    let mut active: Vec<u32> = try_capacity(inside.len())?;
    active.extend((0..inside.len() as u32).filter(|i| state[below + *i as usize] == UNDECIDED));
    while !level.is_none(active.len())? {
        let maximal = |i: usize| {
            let beaten = |j: &i32| state[*j as usize] != UNDECIDED || outweighs(below + i, *j as usize);
            s.row(i).iter().all(beaten) && st.row(i).iter().all(beaten)
        };
        let chosen = try_collect(active.iter().copied().filter(|i| maximal(*i as usize)))?;
        chosen.iter().for_each(|i| state[below + *i as usize] = COARSE);
        near.exchange(over, 1, &mut state)?;
        let is_covered =
            |i: usize| state[below + i] == UNDECIDED && s.row(i).iter().any(|j| state[*j as usize] == COARSE);
        let covered = try_collect(active.iter().copied().filter(|i| is_covered(*i as usize)))?;
        covered.iter().for_each(|i| state[below + *i as usize] = FINE);
        near.exchange(over, 1, &mut state)?;
        active.retain(|i| state[below + *i as usize] == UNDECIDED);
    }
    // The graph has other ghosts than the matrix.
    let mut all = try_vec(numbers.count(), UNDECIDED)?;
    all[numbers.inside()].copy_from_slice(&state[inside]);
    let count = sum(over, all.iter().filter(|state| **state == COARSE).count())?;
    numbers.exchange(over, 1, &mut all)?;
    Ok(Splitting::of_ranks(try_collect(all.iter().map(|state| *state == COARSE))?, count))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::comm::{Distribution, Ranks, threads};
    use crate::host::pmis;
    use crate::sparse::Csr;
    use std::sync::Arc;

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
            let (aggregates, count) = mis2::aggregate(&s, 4).unwrap();
            let coarse = pmis::split(&s, &s.transpose().unwrap(), 4).unwrap();
            for starts in [vec![0, n], vec![0, n / 2, n], vec![0, 0, 1, n / 3, n / 3, n]] {
                let run = |communicator| {
                    let over = Distribution::new(Arc::new(Ranks::new(communicator)), starts.clone());
                    let own = over.own(n);
                    let first = s.offsets[own.start];
                    let offsets: Vec<i64> = s.offsets[own.start..=own.end].iter().map(|o| o - first).collect();
                    let columns = &s.columns[first as usize..s.offsets[own.end] as usize];
                    let column = |k: usize| columns[k] as usize;
                    let (numbers, columns) = Numbering::of_columns(&over, &starts, columns.len(), column).unwrap();
                    let (numbers, offsets) = (Arc::new(numbers), offsets);
                    let part = Graph { offsets: numbers.among_ghosts(&offsets).unwrap(), columns };
                    let level = DividedLevel { over: &over, numbers: &numbers };
                    let (of, splitting) = (aggregate(level, &part, 4).unwrap(), split(level, &part, 4).unwrap());
                    for k in 0..numbers.count() {
                        let i = numbers.global(k);
                        assert!(of.of[k] == aggregates[i], "{n} {edges} {symmetric} {starts:?}, unknown {i}");
                        assert!(splitting[k] == coarse[i], "{n} {edges} {symmetric} {starts:?}, unknown {i}");
                    }
                    use crate::backend::setup::CoarseSet;
                    let expected = coarse.iter().filter(|coarse| **coarse).count();
                    assert_eq!((of.count, splitting.count()), (count, expected));
                };
                std::thread::scope(|scope| {
                    let run = &run;
                    let all = threads(starts.len() - 1).into_iter().map(|c| scope.spawn(move || run(c)));
                    all.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
                });
            }
        }
    }
}
