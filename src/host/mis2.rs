//! Aggregation from a distance-2 maximal independent set.
//!
//! Roots are unknowns of which no two are within two edges. In each round an undecided unknown becomes a root when its
//! key is the largest within two edges; the maximum travels one edge at a time. A root takes its neighbours, and what
//! is left joins the aggregate of its first neighbour that has one. Every step reads the state before it, so the result
//! depends on neither threads nor order.

use super::Host;
use super::distributed::coarsening;
use super::setup::Aggregates;
use crate::backend::common::AGGREGATE_JOINS;
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_collect, try_copy, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::Graph;

/// Marks an unknown that belongs to no aggregate: it has no strong couplings.
pub const NONE: i32 = -1;

/// Number of the aggregate of each unknown, or [`NONE`], and how many there are.
pub fn aggregate(s: &Graph, seed: u64) -> Result<(Vec<i32>, usize)> {
    let n = s.rows();
    let roots = independent_set(s, seed)?;
    let mut aggregates = try_vec(n, NONE)?;
    let mut count = 0;
    for (own, _) in aggregates.iter_mut().zip(&roots).filter(|(_, root)| **root) {
        *own = count;
        count += 1;
    }
    for _ in 0..AGGREGATE_JOINS {
        let before = try_copy(&aggregates)?;
        par::for_each_mut(&mut aggregates, par::ROW_GRAIN, |start, piece| {
            for (k, own) in piece.iter_mut().enumerate() {
                if *own == NONE {
                    let taken = s.row(start + k).iter().map(|j| before[*j as usize]).find(|a| *a != NONE);
                    *own = taken.unwrap_or(NONE);
                }
            }
        });
    }
    // What still has couplings but no aggregate forms its own.
    for (i, own) in aggregates.iter_mut().enumerate() {
        if *own == NONE && !s.row(i).is_empty() {
            *own = count;
            count += 1;
        }
    }
    Ok((aggregates, count as usize))
}

/// Keys order unknowns: undecided by hash, then index; decided ones below or above all others.
pub(super) const OUT: u64 = 0;
pub(super) const IN: u64 = u64::MAX;

/// Whether a key, or the largest of several, can still change: roots and the lack of them are final.
pub(super) fn is_open(key: u64) -> bool {
    key != OUT && key != IN
}

/// The key of an unknown with couplings. The low half holds the index, so that keys differ; neither extreme can occur.
pub(super) fn first_key(i: usize, seed: u64) -> u64 {
    ((hash(i, seed) >> 33) << 32) | (i as u64 + 1)
}

/// The unknown of an open key.
pub(super) fn unknown_of(key: u64) -> usize {
    (key & 0xffff_ffff) as usize - 1
}

/// The next key of an undecided unknown, by the largest key within two edges.
pub(super) fn decided(key: u64, within_two: u64) -> u64 {
    match within_two {
        IN => OUT,
        largest if largest == key => IN,
        _ => key,
    }
}

fn independent_set(s: &Graph, seed: u64) -> Result<Vec<bool>> {
    let n = s.rows();
    let mut key = try_vec(n, OUT)?;
    par::for_each_mut(&mut key, par::GRAIN, |start, piece| {
        for (k, key) in piece.iter_mut().enumerate() {
            let i = start + k;
            if !s.row(i).is_empty() {
                *key = first_key(i, seed);
            }
        }
    });
    // The largest key within one edge. It is computed again when that key, whose unknown is in its low half, is no
    // longer open: on a symmetric graph nothing else can change it, because no other unknown near it can have become a
    // root.
    let mut near = try_copy(&key)?;
    let mut first = true;
    loop {
        par::for_each_mut(&mut near, par::ROW_GRAIN, |start, piece| {
            for (k, near) in piece.iter_mut().enumerate() {
                if first || (is_open(*near) && key[unknown_of(*near)] != *near) {
                    let i = start + k;
                    *near = s.row(i).iter().map(|j| key[*j as usize]).fold(key[i], u64::max);
                }
            }
        });
        first = false;
        par::for_each_mut(&mut key, par::ROW_GRAIN, |start, piece| {
            for (k, key) in piece.iter_mut().enumerate() {
                if is_open(*key) {
                    let i = start + k;
                    *key = decided(*key, s.row(i).iter().map(|j| near[*j as usize]).fold(near[i], u64::max));
                }
            }
        });
        let open = par::sum(n, par::GRAIN, |range| key[range].iter().filter(|k| is_open(**k)).count() as f64);
        if open == 0.0 {
            return try_collect(key.iter().map(|k| *k == IN));
        }
    }
}

/// The component.
pub struct Mis2;

impl<T: Scalar> Coarsening<Host, T> for Mis2 {
    fn coarsen(&self, input: &CoarseningInput<'_, Host, T>) -> Result<Coarse<Host>> {
        Ok(Coarse::Aggregates(match input.setup.divided(input.a) {
            Some((over, a)) => coarsening::aggregate(a.level(over), input.graph, input.seed)?,
            None => {
                let (of, count) = aggregate(input.graph, input.seed)?;
                Aggregates { of, count }
            }
        }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_coupled_unknown_has_an_aggregate_of_connected_unknowns(
            n in 1_usize..80, edges in prop::collection::vec((0_usize..80, 0_usize..80), 0..160), seed in 0_u64..50
        ) {
            let both = edges.iter().flat_map(|&(i, j)| [(i % n, j % n, 1.0), (j % n, i % n, 1.0)]);
            let triplets: Vec<_> = both.filter(|(i, j, _)| i != j).collect();
            let a = crate::sparse::Csr::from_triplets(n, n, &triplets).unwrap();
            let s = Graph { offsets: a.offsets, columns: a.columns };
            let (aggregates, count) = aggregate(&s, seed).unwrap();
            let mut sizes = vec![0; count];
            for i in 0..n {
                prop_assert_eq!(aggregates[i] == NONE, s.row(i).is_empty());
                if aggregates[i] != NONE {
                    sizes[aggregates[i] as usize] += 1;
                    // On a symmetric graph every aggregate has at least two members, joined by an edge.
                    prop_assert!(s.row(i).iter().any(|j| aggregates[*j as usize] == aggregates[i]));
                }
            }
            prop_assert!(sizes.iter().all(|s| *s >= 2));
        }
    }
}
