//! HMIS (De Sterck, Yang and Heys, 2006): a C/F splitting that begins with the first pass of Ruge and Stüben, which
//! follows the structure of a grid better than a random order does, and is completed by PMIS.
//!
//! The first pass is sequential. It is fast enough for a whole level of moderate size; larger levels are divided into a
//! few pieces. The splitting is worse where the fronts of two passes meet, so coupled pieces do not run at the same
//! time: the later one starts from the result of the earlier one. PMIS decides the remaining unknowns. Pieces depend on
//! the number of rows and their batches on the graph alone, so the result does not depend on threads.

use super::{Host, pmis};
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::Graph;
use std::ops::Range;

const UNDECIDED: u8 = 0;
const COARSE: u8 = 1;
const FINE: u8 = 2;

/// Rows of a piece: at most 8 pieces, each of at least 262,144 rows, because each border costs convergence.
fn grain(rows: usize) -> usize {
    rows.div_ceil(8).max(262_144)
}

/// `true` for coarse unknowns. `s` is the strength graph, `st` its transpose.
pub fn split(s: &Graph, st: &Graph, seed: u64) -> Result<Vec<bool>> {
    split_pieces(s, st, seed, grain(s.rows()))
}

fn split_pieces(s: &Graph, st: &Graph, seed: u64, grain: usize) -> Result<Vec<bool>> {
    let n = s.rows();
    let mut state = try_vec(n, UNDECIDED)?;
    for batch in uncoupled_batches(s, grain)? {
        let made = par::map_ranges(batch.len(), 1, |at| {
            let start = batch[at.start] * grain;
            first_pass(s, st, &state, start..(start + grain).min(n))
        })?;
        for (piece, made) in batch.iter().zip(made) {
            state[piece * grain..][..made.len()].copy_from_slice(&made);
        }
    }
    let mut coarse = try_vec(n, false)?;
    for (coarse, state) in coarse.iter_mut().zip(&state) {
        *coarse = *state == COARSE;
    }
    pmis::complete(s, st, &coarse, seed)
}

/// Batches of pieces that are not coupled (a greedy colouring of the pieces).
fn uncoupled_batches(s: &Graph, grain: usize) -> Result<Vec<Vec<usize>>> {
    let pieces = s.rows().div_ceil(grain);
    let reached = par::map_ranges(s.rows(), grain, |range| {
        let mut reached = vec![false; pieces];
        for j in range.flat_map(|i| s.row(i)) {
            reached[*j as usize / grain] = true;
        }
        Ok(reached)
    })?;
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for (piece, own) in reached.iter().enumerate() {
        let fits = |batch: &Vec<usize>| batch.iter().all(|other| !own[*other] && !reached[*other][piece]);
        match batches.iter_mut().find(|batch| fits(batch)) {
            Some(batch) => batch.push(piece),
            None => batches.push(vec![piece]),
        }
    }
    Ok(batches)
}

/// The state of the unknowns of `range` after a first pass of Ruge and Stüben over them, which begins with the state
/// `before` of those outside.
///
/// The unknown that most others depend on becomes coarse; those that depend on it become fine. What a new fine unknown
/// depends on gains weight, so that the next coarse one is found two steps away. An unknown weighs 1 for each undecided
/// and 2 for each fine unknown that depends on it; of equal ones, the one that has had its weight for longest comes
/// first, which keeps the fronts together.
fn first_pass(s: &Graph, st: &Graph, before: &[u8], range: Range<usize>) -> Result<Vec<u8>> {
    let depends_on = |k: usize| inner(s.row(range.start + k), &range);
    let dependents = |k: usize| inner(st.row(range.start + k), &range);
    let mut state = try_vec(range.len(), UNDECIDED)?;
    for (state, i) in state.iter_mut().zip(range.clone()) {
        if s.row(i).iter().any(|j| before[*j as usize] == COARSE) {
            *state = FINE;
        }
    }
    let heaviest = range.clone().map(|i| 2 * st.row(i).len()).max().unwrap_or(0);
    let mut queue = Queue::new(range.len(), heaviest)?;
    for k in (0..range.len()).filter(|k| state[*k] == UNDECIDED) {
        let weight = |j: usize| match if range.contains(&j) { state[j - range.start] } else { before[j] } {
            COARSE => 0,
            FINE => 2,
            _ => 1,
        };
        queue.add(k, st.row(range.start + k).iter().map(|j| weight(*j as usize)).sum());
    }
    while let Some(k) = queue.heaviest() {
        queue.remove(k);
        state[k] = COARSE;
        for j in dependents(k) {
            if state[j] != UNDECIDED {
                continue;
            }
            state[j] = FINE;
            queue.remove(j);
            for l in depends_on(j).filter(|l| state[*l] == UNDECIDED) {
                queue.change(l, 1);
            }
        }
        for j in depends_on(k).filter(|j| state[*j] == UNDECIDED) {
            queue.change(j, -1);
        }
    }
    Ok(state)
}

/// No unknown.
const NONE: u32 = u32::MAX;

/// Unknowns by weight: a list for each weight, so that a change costs the same whatever the number of unknowns.
struct Queue {
    weight: Vec<u32>,
    /// First and last of each weight.
    ends: Vec<[u32; 2]>,
    /// The ones before and behind each unknown in its list.
    links: Vec<[u32; 2]>,
    /// No list above this weight has members.
    highest: usize,
}

impl Queue {
    fn new(n: usize, heaviest: usize) -> Result<Queue> {
        let (ends, links) = (try_vec(heaviest + 1, [NONE; 2])?, try_vec(n, [NONE; 2])?);
        Ok(Queue { weight: try_vec(n, 0)?, ends, links, highest: 0 })
    }

    fn add(&mut self, k: usize, weight: u32) {
        self.weight[k] = weight;
        let weight = weight as usize;
        let last = std::mem::replace(&mut self.ends[weight][1], k as u32);
        self.links[k] = [last, NONE];
        match last {
            NONE => self.ends[weight][0] = k as u32,
            last => self.links[last as usize][1] = k as u32,
        }
        self.highest = self.highest.max(weight);
    }

    fn remove(&mut self, k: usize) {
        let (weight, [before, behind]) = (self.weight[k] as usize, self.links[k]);
        match before {
            NONE => self.ends[weight][0] = behind,
            before => self.links[before as usize][1] = behind,
        }
        match behind {
            NONE => self.ends[weight][1] = before,
            behind => self.links[behind as usize][0] = before,
        }
    }

    fn change(&mut self, k: usize, by: i32) {
        self.remove(k);
        self.add(k, self.weight[k].saturating_add_signed(by));
    }

    /// The first of those of the largest weight, as long as that is not 0.
    fn heaviest(&mut self) -> Option<usize> {
        while self.highest > 0 && self.ends[self.highest][0] == NONE {
            self.highest -= 1;
        }
        (self.highest > 0).then(|| self.ends[self.highest][0] as usize)
    }
}

/// Those of `row` that are in `range`, counted from its start.
fn inner<'a>(row: &'a [i32], range: &Range<usize>) -> impl Iterator<Item = usize> + use<'a> {
    let (start, end) = (range.start, range.end);
    row.iter().map(|j| *j as usize).filter(move |j| (start..end).contains(j)).map(move |j| j - start)
}

/// The component.
pub struct Hmis;

impl<T: Scalar> Coarsening<Host, T> for Hmis {
    fn coarsen(&self, input: &CoarseningInput<'_, Host, T>) -> Result<Coarse<Host>> {
        Ok(Coarse::Splitting(split(input.graph, &input.graph.transpose()?, input.seed)?.into()))
    }
}

#[cfg(feature = "unit-tests")]
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

    #[test]
    fn a_later_piece_goes_on_where_an_earlier_one_ended() {
        let s = graph(12, &(0..11).map(|i| (i, i + 1)).collect::<Vec<_>>());
        // Pieces 0 and 2 run first, then 1 and 3.
        assert_eq!(uncoupled_batches(&s, 3).unwrap(), [[0, 2], [1, 3]]);
        for grain in [3, 4, 5] {
            let chosen = split_pieces(&s, &s, 0, grain).unwrap();
            let coarse: Vec<usize> = (0..12).filter(|i| chosen[*i]).collect();
            assert!(coarse.windows(2).all(|pair| (2..=3).contains(&(pair[1] - pair[0]))), "{coarse:?}");
        }
    }

    #[test]
    fn the_queue_gives_the_heaviest_and_of_those_the_first() {
        let mut queue = Queue::new(4, 3).unwrap();
        for (k, weight) in [1, 2, 2, 0].into_iter().enumerate() {
            queue.add(k, weight);
        }
        assert_eq!(queue.heaviest(), Some(1));
        queue.change(1, -1);
        queue.change(0, 1);
        assert_eq!(queue.heaviest(), Some(2));
        queue.remove(2);
        assert_eq!(queue.heaviest(), Some(0));
        queue.change(0, 1);
        queue.remove(0);
        assert_eq!(queue.heaviest(), Some(1));
        queue.remove(1);
        assert_eq!(queue.heaviest(), None);
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
