//! HMIS (De Sterck, Yang and Heys, 2006): a C/F splitting that begins with the first pass of Ruge and Stüben, which follows the
//! structure of a grid better than a random order does, and is completed by PMIS.
//!
//! The first pass is sequential. It runs on a few pieces of rows at once, each seeing its inner couplings alone. What it made coarse
//! stands, except for unknowns that are coupled to another piece: those, and all that is not covered, are left to PMIS. Pieces depend on
//! the number of rows alone, so the result does not depend on threads.

use super::{par, pmis};
use crate::amg::strength::Graph;
use crate::error::{Result, try_vec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Rows of a piece: at most 8 pieces, because their boundaries are left to PMIS, each of at least 16,384 rows.
fn grain(rows: usize) -> usize {
    rows.div_ceil(8).max(16_384)
}

/// `true` for coarse unknowns. `s` is the strength graph, `st` its transpose.
pub fn split(s: &Graph, st: &Graph, seed: u64) -> Result<Vec<bool>> {
    split_pieces(s, st, seed, grain(s.rows()))
}

fn split_pieces(s: &Graph, st: &Graph, seed: u64, grain: usize) -> Result<Vec<bool>> {
    let pieces = par::map_ranges(s.rows(), grain, |range| first_pass(s, st, range));
    let mut coarse = try_vec(s.rows(), false)?;
    for (to, from) in coarse.chunks_mut(grain).zip(pieces) {
        to.copy_from_slice(&from?);
    }
    pmis::complete(s, st, &coarse, seed)
}

/// The coarse unknowns among `range` that the first pass of Ruge and Stüben chooses and that have no couplings to the outside.
///
/// The unknown that most others depend on becomes coarse, the first of them where several do; those that depend on it become fine. What
/// a new fine unknown depends on gains weight, so that the next coarse one is found two steps away.
fn first_pass(s: &Graph, st: &Graph, range: Range<usize>) -> Result<Vec<bool>> {
    let depends_on = |k: usize| inner(s.row(range.start + k), &range);
    let dependents = |k: usize| inner(st.row(range.start + k), &range);
    let n = range.len();
    let mut weight = try_vec(n, 0_u32)?;
    let mut decided = try_vec(n, false)?;
    let mut coarse = try_vec(n, false)?;
    // Entries whose weight is no longer that of the unknown are passed over.
    let mut heap = BinaryHeap::new();
    for (k, weight) in weight.iter_mut().enumerate() {
        *weight = dependents(k).count() as u32;
        heap.push((*weight, Reverse(k as u32)));
    }
    while let Some((w, Reverse(k))) = heap.pop() {
        let k = k as usize;
        if decided[k] || w != weight[k] {
            continue;
        }
        if w == 0 {
            break;
        }
        (decided[k], coarse[k]) = (true, true);
        for j in dependents(k) {
            if std::mem::replace(&mut decided[j], true) {
                continue;
            }
            for l in depends_on(j).filter(|l| !decided[*l]) {
                weight[l] += 1;
                heap.push((weight[l], Reverse(l as u32)));
            }
        }
        for j in depends_on(k).filter(|j| !decided[*j]) {
            weight[j] -= 1;
            heap.push((weight[j], Reverse(j as u32)));
        }
    }
    for (k, coarse) in coarse.iter_mut().enumerate().filter(|(_, coarse)| **coarse) {
        let i = range.start + k;
        *coarse = s.row(i).iter().chain(st.row(i)).all(|j| range.contains(&(*j as usize)));
    }
    Ok(coarse)
}

/// Those of `row` that are in `range`, counted from its start.
fn inner<'a>(row: &'a [i32], range: &Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let (start, end) = (range.start, range.end);
    row.iter().map(|j| *j as usize).filter(move |j| (start..end).contains(j)).map(move |j| j - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn graph(n: usize, edges: &[(usize, usize)]) -> Graph {
        let both = edges.iter().flat_map(|&(i, j)| [(i % n, j % n, 1.0), (j % n, i % n, 1.0)]);
        let triplets: Vec<_> = both.filter(|(i, j, _)| i != j).collect();
        let a = crate::sparse::Csr::from_triplets(n, n, &triplets).unwrap();
        Graph { offsets: a.offsets, columns: a.columns }
    }

    #[test]
    fn a_line_is_split_evenly() {
        let s = graph(9, &(0..8).map(|i| (i, i + 1)).collect::<Vec<_>>());
        let coarse = split(&s, &s, 0).unwrap();
        assert_eq!(coarse, [false, true, false, true, false, true, false, true, false]);
    }

    proptest! {
        #[test]
        fn coarse_unknowns_are_independent_and_cover_all_coupled_ones_for_any_pieces(
            n in 1_usize..60, edges in prop::collection::vec((0_usize..60, 0_usize..60), 0..150), grain in 1_usize..70
        ) {
            let s = graph(n, &edges);
            let coarse = split_pieces(&s, &s, 3, grain).unwrap();
            for i in 0..n {
                let near_coarse = s.row(i).iter().any(|j| coarse[*j as usize]);
                prop_assert!(coarse[i] != near_coarse || s.row(i).is_empty());
                prop_assert!(!(coarse[i] && s.row(i).is_empty()));
            }
        }
    }
}
