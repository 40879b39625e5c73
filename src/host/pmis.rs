//! Parallel modified independent set: a C/F splitting in which no two coarse unknowns are strongly coupled.
//!
//! Every unknown weighs as much as the number of others that depend on it, plus a random part below one. In each round
//! the unknowns that outweigh all their undecided neighbours become coarse, and those that depend on a coarse one
//! become fine. All reads of a round see the state at its start, so the result depends on neither threads nor order.

use super::Host;
use super::distributed::coarsening;
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_capacity, try_collect, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::Graph;

pub(super) const UNDECIDED: u8 = 0;
pub(super) const COARSE: u8 = 1;
pub(super) const FINE: u8 = 2;

/// `true` for coarse unknowns. `s` is the strength graph, `st` its transpose.
pub fn split(s: &Graph, st: &Graph, seed: u64) -> Result<Vec<bool>> {
    complete(s, st, &try_vec(s.rows(), false)?, seed)
}

/// A splitting in which the unknowns of `chosen` are coarse.
pub fn complete(s: &Graph, st: &Graph, chosen: &[bool], seed: u64) -> Result<Vec<bool>> {
    let n = s.rows();
    let mut weight = try_vec(n, 0_u64)?;
    let mut state = try_vec(n, UNDECIDED)?;
    par::for_each_mut2(&mut weight, &mut state, par::GRAIN, |start, weight, state| {
        for (k, (w, state)) in weight.iter_mut().zip(state).enumerate() {
            let i = start + k;
            let dependents = st.row(i).len() as u64;
            *w = (dependents << 40) | (hash(i, seed) >> 24);
            if chosen[i] {
                *state = COARSE;
            } else if dependents == 0 || s.row(i).iter().any(|j| chosen[*j as usize]) {
                *state = FINE;
            }
        }
    });
    // Ties of the random part are broken by the index.
    let outweighs = |i: usize, j: usize| (weight[i], i) > (weight[j], j);

    let mut active: Vec<u32> = try_capacity(n)?;
    active.extend((0..n as u32).filter(|i| state[*i as usize] == UNDECIDED));
    while !active.is_empty() {
        let before = &state;
        let maximal = |i: usize| {
            let beaten = |j: &i32| before[*j as usize] != UNDECIDED || outweighs(i, *j as usize);
            s.row(i).iter().all(beaten) && st.row(i).iter().all(beaten)
        };
        let chosen = par::map_ranges(active.len(), par::ROW_GRAIN, |range| {
            try_collect(active[range].iter().copied().filter(|i| maximal(*i as usize)))
        })?;
        for i in chosen.into_iter().flatten() {
            state[i as usize] = COARSE;
        }
        let before = &state;
        let covered = par::map_ranges(active.len(), par::ROW_GRAIN, |range| {
            let fine = |i: usize| before[i] == UNDECIDED && s.row(i).iter().any(|j| before[*j as usize] == COARSE);
            try_collect(active[range].iter().copied().filter(|i| fine(*i as usize)))
        })?;
        for i in covered.into_iter().flatten() {
            state[i as usize] = FINE;
        }
        active.retain(|i| state[*i as usize] == UNDECIDED);
    }
    try_collect(state.iter().map(|s| *s == COARSE))
}

/// The component.
pub struct Pmis;

impl<T: Scalar> Coarsening<Host, T> for Pmis {
    fn coarsen(&self, input: &CoarseningInput<'_, Host, T>) -> Result<Coarse<Host>> {
        Ok(Coarse::Splitting(match input.setup.divided(input.a) {
            Some((over, a)) => coarsening::split(a.level(over), input.graph, input.seed)?,
            None => split(input.graph, &input.graph.transpose()?, input.seed)?.into(),
        }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(n: usize, edges: &[(usize, usize)]) -> Graph {
        let triplets: Vec<_> = edges.iter().map(|&(i, j)| (i % n, j % n, 1.0)).filter(|(i, j, _)| i != j).collect();
        let a = crate::sparse::Csr::from_triplets(n, n, &triplets).unwrap();
        Graph { offsets: a.offsets, columns: a.columns }
    }

    proptest! {
        #[test]
        fn every_fine_unknown_is_covered_and_symmetric_graphs_give_independent_sets(
            n in 1_usize..60, mut edges in prop::collection::vec((0_usize..60, 0_usize..60), 0..200), seed in 0_u64..100,
            symmetric in any::<bool>()
        ) {
            if symmetric {
                edges.extend(edges.clone().into_iter().map(|(i, j)| (j, i)));
            }
            let s = graph(n, &edges);
            let st = s.transpose().unwrap();
            let coarse = split(&s, &st, seed).unwrap();
            for i in 0..n {
                let near_coarse = s.row(i).iter().any(|j| coarse[*j as usize]);
                prop_assert!(!(symmetric && coarse[i] && near_coarse));
                // A fine unknown either depends on a coarse one, or nobody depends on it.
                prop_assert!(coarse[i] || near_coarse || st.row(i).is_empty());
            }
        }
    }

    #[test]
    fn unknowns_without_couplings_stay_fine() {
        let s = graph(3, &[(0, 1), (1, 0)]);
        let coarse = split(&s, &s.transpose().unwrap(), 0).unwrap();
        assert_eq!(coarse.iter().filter(|c| **c).count(), 1);
        assert!(!coarse[2]);
    }
}
