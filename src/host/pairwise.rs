//! Aggregation by pairwise matching: a deterministic handshake, repeated on the aggregates until they have the wanted
//! size.
//!
//! With W = (|A| + |A|ᵀ)/2 over the strong couplings, blocks measured by their Frobenius norm, the score of a coupling
//! is W_ij / max(W_ii, W_jj). In each round every unmatched unknown proposes to the unmatched neighbour with the best
//! score; two that propose to each other form an aggregate. One without unmatched neighbours joins the aggregate of its
//! best neighbour. All reads of a round see the state at its start, so the result depends on neither threads nor order.
//!
//! Equal scores are ordered by a hash of the two indices. An order by the indices themselves would let all unknowns of
//! a regular grid point the same way, and one layer would be matched in each round.

use super::mis2::NONE;
use super::setup::Aggregates;
use super::strength::norm2;
use super::{Host, rows, spgemm, transpose};
use crate::backend::common::SCORED_ROUNDS;
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_capacity, try_collect, try_copy, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph};

/// Number of the aggregate of each unknown, or [`NONE`] where there are no strong couplings, and how many there are.
/// Aggregates are paired until they have about `size` members: once for 2, twice up to 4, three times up to 8.
pub fn aggregate<T: Scalar>(a: &CsrView<'_, T>, s: &Graph, size: usize, seed: u64) -> Result<(Vec<i32>, usize)> {
    let mut weights = Weights::new(a, s)?;
    let (mut aggregates, mut count) = numbers(&handshake(&weights, seed)?)?;
    // On unknowns, and then on the aggregates of the pass before.
    let mut pass = try_copy(&aggregates)?;
    let mut reached = 2;
    while reached < size {
        weights = weights.collapse(&pass, count)?;
        let mut roots = handshake(&weights, seed)?;
        // An aggregate without neighbours stays one.
        for (i, root) in roots.iter_mut().enumerate().filter(|(_, root)| **root == NONE) {
            *root = i as i32;
        }
        (pass, count) = numbers(&roots)?;
        for own in aggregates.iter_mut().filter(|own| **own != NONE) {
            *own = pass[*own as usize];
        }
        reached *= 2;
    }
    Ok((aggregates, count))
}

/// Aggregates numbered in the order of their roots, the unknowns that are their own root.
fn numbers(roots: &[i32]) -> Result<(Vec<i32>, usize)> {
    let mut number = try_vec(roots.len(), NONE)?;
    let mut count = 0;
    for (_, number) in number.iter_mut().enumerate().filter(|(i, _)| roots[*i] == *i as i32) {
        *number = count;
        count += 1;
    }
    let of = |root: &i32| if *root == NONE { NONE } else { number[*root as usize] };
    Ok((try_collect(roots.iter().map(of))?, count as usize))
}

/// The symmetric weights of couplings, and W_ii.
struct Weights {
    couplings: Csr<f64>,
    diagonal: Vec<f64>,
}

impl Weights {
    fn new<T: Scalar>(a: &CsrView<'_, T>, s: &Graph) -> Result<Weights> {
        let n = a.rows;
        let mut diagonal = try_vec(n, 0.0)?;
        par::for_each_mut(&mut diagonal, par::ROW_GRAIN, |start, piece| {
            for (k, d) in piece.iter_mut().enumerate() {
                let i = start + k;
                *d = a.row_range(i).find(|p| a.col(*p) == i).map_or(0.0, |p| norm2(a, p).sqrt());
            }
        });
        let (offsets, columns, values) = rows::build(n, 1, |range, out| {
            for i in range {
                // The strong columns stand in the order of the matrix's row.
                let mut strong = s.row(i).iter().peekable();
                for k in a.row_range(i) {
                    if strong.next_if(|next| **next as usize == a.col(k)).is_some() {
                        out.push(a.col(k) as i32, 0.5 * norm2(a, k).sqrt())?;
                    }
                }
                out.end_row();
            }
            Ok(())
        })?;
        let half_norms = Csr { rows: n, cols: n, block: Block::SCALAR, offsets, columns, values };
        // Two transpositions sort the rows, whatever the order of the matrix.
        let transposed = transpose::transpose(&half_norms.view())?;
        let sorted = transpose::transpose(&transposed.view())?;
        Ok(Weights { couplings: add(&sorted.view(), &transposed.view())?, diagonal })
    }

    /// The weights between aggregates: those of their members' couplings and diagonals, added up. Inner couplings are
    /// not taken off the diagonal, so that of two equally coupled neighbours the smaller aggregate is preferred.
    fn collapse(&self, aggregates: &[i32], count: usize) -> Result<Weights> {
        let mut counts: Vec<i64> = try_capacity(aggregates.len() + 1)?;
        counts.extend(aggregates.iter().map(|g| i64::from(*g != NONE)));
        let mut columns = try_capacity(aggregates.len())?;
        columns.extend(aggregates.iter().filter(|g| **g != NONE));
        let values = try_vec(columns.len(), 1.0)?;
        let offsets = par::offsets_from_counts(counts)?;
        let q = Csr { rows: aggregates.len(), cols: count, block: Block::SCALAR, offsets, columns, values };
        let wide = spgemm::multiply(&self.couplings.view(), &q.view())?;
        let couplings = spgemm::multiply(&transpose::transpose(&q.view())?.view(), &wide.view())?;
        let mut diagonal = try_vec(count, 0.0)?;
        for (d, g) in self.diagonal.iter().zip(aggregates).filter(|(_, g)| **g != NONE) {
            diagonal[*g as usize] += d;
        }
        Ok(Weights { couplings, diagonal })
    }

    /// Other unknowns that `i` is coupled to, with the score of the coupling. A score of single precision does not see
    /// in which order the sums of either direction were rounded.
    fn neighbours(&self, i: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let range = self.couplings.offsets[i] as usize..self.couplings.offsets[i + 1] as usize;
        range.map(|k| (self.couplings.columns[k] as usize, self.couplings.values[k])).filter(move |(j, _)| *j != i).map(
            move |(j, w)| {
                let larger = self.diagonal[i].max(self.diagonal[j]);
                (j, if larger > 0.0 { (w / larger) as f32 } else { 0.0 })
            },
        )
    }
}

/// A + B, for rows in ascending order of columns.
fn add(a: &CsrView<'_, f64>, b: &CsrView<'_, f64>) -> Result<Csr<f64>> {
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        for i in range {
            let mut right = b.row(i).peekable();
            for (j, v) in a.row(i) {
                while let Some((l, w)) = right.next_if(|(l, _)| *l < j) {
                    out.push(l as i32, w[0])?;
                }
                let same = right.next_if(|(l, _)| *l == j).map_or(0.0, |(_, w)| w[0]);
                out.push(j as i32, v[0] + same)?;
            }
            for (l, w) in right {
                out.push(l as i32, w[0])?;
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: a.rows, cols: a.cols, block: Block::SCALAR, offsets, columns, values })
}

/// Action of an unmatched unknown in a round.
#[derive(Clone, Copy)]
enum Choice {
    /// Proposes to an unmatched neighbour.
    Offer(i32),
    /// Joins the aggregate of this root.
    Join(i32),
}

/// For each unknown the root of its aggregate, [`NONE`] where there are no couplings.
fn handshake(weights: &Weights, seed: u64) -> Result<Vec<i32>> {
    let n = weights.diagonal.len();
    let mut roots = try_vec(n, NONE)?;
    let mut offers = try_vec(n, NONE)?;
    let mut free: Vec<u32> = try_capacity(n)?;
    free.extend((0..n as u32).filter(|i| weights.neighbours(*i as usize).next().is_some()));
    for round in 0.. {
        if free.is_empty() {
            break;
        }
        // The same for both ends of a coupling, so the first of all couplings between free unknowns is always matched.
        let order = |i: usize, j: usize, score: f32| {
            let (low, high) = (i.min(j), i.max(j));
            let score = if round < SCORED_ROUNDS { score.to_bits() } else { 0 };
            (score, hash(low, hash(high, seed)), low, high)
        };
        let choose = |i: usize| {
            let best = |is_free: bool| {
                let eligible = weights.neighbours(i).filter(|(j, _)| (roots[*j] == NONE) == is_free);
                eligible.max_by_key(|(j, score)| order(i, *j, *score)).map(|(j, _)| j)
            };
            match best(true) {
                Some(j) => Choice::Offer(j as i32),
                None => Choice::Join(best(false).map_or(i as i32, |j| roots[j])),
            }
        };
        let choices = par::map_ranges(free.len(), par::ROW_GRAIN, |range| {
            try_collect(free[range].iter().map(|i| choose(*i as usize)))
        })?;
        for (i, choice) in free.iter().zip(choices.into_iter().flatten()) {
            match choice {
                Choice::Offer(j) => offers[*i as usize] = j,
                Choice::Join(root) => roots[*i as usize] = root,
            }
        }
        for i in &free {
            let j = offers[*i as usize];
            if j != NONE && offers[j as usize] == *i as i32 {
                roots[*i as usize] = j.min(*i as i32);
            }
        }
        free.retain(|i| roots[*i as usize] == NONE);
    }
    Ok(roots)
}

/// The component.
pub struct Pairwise;

impl<T: Scalar> Coarsening<Host, T> for Pairwise {
    fn coarsen(&self, input: &CoarseningInput<'_, Host, T>) -> Result<Coarse<Host>> {
        let size = input.parameters.int("amg.coarsening.pairwise.size");
        let (of, count) = aggregate(&input.a.view(), input.graph, size, input.seed)?;
        Ok(Coarse::Aggregates(Aggregates { of, count }))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::strength;
    use proptest::prelude::*;

    /// A graph Laplacian with 1 added to the diagonal.
    fn matrix(n: usize, edges: &[(usize, usize, f64)]) -> Csr<f64> {
        let mut t: Vec<_> = (0..n).map(|i| (i, i, 1.0)).collect();
        for &(i, j, v) in edges.iter().filter(|(i, j, _)| i != j) {
            t.extend([(i, j, -v), (j, i, -v), (i, i, v), (j, j, v)]);
        }
        Csr::from_triplets(n, n, &t).unwrap()
    }

    fn pairs(a: &Csr<f64>, size: usize) -> (Vec<i32>, usize) {
        aggregate(&a.view(), &strength::Symmetric::new(&a.view()).unwrap().graph(0.0).unwrap(), size, 0).unwrap()
    }

    #[test]
    fn the_strongest_couplings_are_matched_first_and_the_rest_joins() {
        // 0 -1- 1 -5- 2 -1- 3 -9- 4, and 5 alone.
        let a = matrix(6, &[(0, 1, 1.0), (1, 2, 5.0), (2, 3, 1.0), (3, 4, 9.0)]);
        assert_eq!(pairs(&a, 2), (vec![0, 0, 0, 1, 1, NONE], 2));
        assert_eq!(pairs(&a, 4), (vec![0, 0, 0, 0, 0, NONE], 1));
    }

    #[test]
    fn blocks_are_matched_by_their_norm() {
        // Three nodes of two unknowns; the coupling of 1 and 2 is off the block's diagonal.
        let t = [(0, 2, 1.0), (2, 0, 1.0), (2, 5, 3.0), (5, 2, 3.0)];
        let diagonal = (0..6).map(|i| (i, i, 8.0));
        let a = Csr::from_triplets(6, 6, &t.into_iter().chain(diagonal).collect::<Vec<_>>()).unwrap();
        let blocks = a.view().to_blocks(2).unwrap();
        assert_eq!(pairs(&blocks, 2), (vec![0, 0, 0], 1));
        let s = strength::Symmetric::new(&blocks.view()).unwrap().graph(0.2).unwrap();
        assert_eq!(aggregate(&blocks.view(), &s, 2, 0).unwrap(), (vec![NONE, 0, 0], 1));
    }

    #[test]
    fn scores_that_rise_along_a_path_do_not_take_a_round_for_each_pair() {
        let edges: Vec<_> = (0..4000).map(|i| (i, i + 1, 1.0 + 0.01 * i as f64)).collect();
        let (_, count) = pairs(&matrix(4001, &edges), 2);
        assert!((1400..2000).contains(&count), "{count}");
    }

    proptest! {
        #[test]
        fn every_coupled_unknown_has_an_aggregate_of_connected_unknowns(
            n in 1_usize..80, edges in prop::collection::vec((0_usize..80, 0_usize..80, 1_u8..4), 0..160),
            size in prop::sample::select(vec![2_usize, 4, 8])
        ) {
            let edges: Vec<_> = edges.iter().map(|&(i, j, v)| (i % n, j % n, f64::from(v))).collect();
            let a = matrix(n, &edges);
            let s = strength::Symmetric::new(&a.view()).unwrap().graph(0.0).unwrap();
            let (aggregates, count) = aggregate(&a.view(), &s, size, 0).unwrap();
            let mut sizes = vec![0; count];
            for i in 0..n {
                prop_assert_eq!(aggregates[i] == NONE, s.row(i).is_empty());
                if aggregates[i] != NONE {
                    sizes[aggregates[i] as usize] += 1;
                    prop_assert!(s.row(i).iter().any(|j| aggregates[*j as usize] == aggregates[i]));
                }
            }
            prop_assert!(sizes.iter().all(|s| *s >= 2));
        }
    }
}
