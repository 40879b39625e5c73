//! Aggressive coarsening: of the coarse unknowns of a splitting, a second pass of PMIS keeps those that are independent
//! on the graph of paths of length two.

use super::extended_i::coarse_numbers;
use super::{pmis, rows};
use crate::error::{Result, try_capacity, try_collect, try_push};
use crate::sparse::Graph;

/// `true` for the unknowns that stay coarse. `s` is the strength graph, `first` a splitting of it.
pub fn thin(s: &Graph, first: &[bool], seed: u64) -> Result<Vec<bool>> {
    let far = two_steps(s, first)?;
    let chosen = pmis::split(&far, &far.transpose()?, seed)?;
    // A coarse unknown that sees no other within two steps would have nothing to be interpolated from.
    let mut stays = chosen.iter().enumerate().map(|(c, chosen)| *chosen || far.row(c).is_empty());
    try_collect(first.iter().map(|c| *c && stays.next() == Some(true)))
}

/// The graph of the coarse unknowns, numbered among themselves: an edge where a path of one or two strong couplings
/// leads from one to the other.
fn two_steps(s: &Graph, coarse: &[bool]) -> Result<Graph> {
    let (number, count) = coarse_numbers(coarse)?;
    let mut members: Vec<u32> = try_capacity(count)?;
    members.extend((0..coarse.len() as u32).filter(|i| coarse[*i as usize]));
    let (offsets, columns, _) = rows::build::<()>(count, 0, |range, out| {
        // The row that met a column last, plus one.
        let mut seen = rows::scratch(count)?;
        for c in range {
            let start = out.columns.len();
            let stamp = c as u32 + 1;
            seen[c] = stamp;
            let mut meet = |j: i32| -> Result<()> {
                let j = j as usize;
                if coarse[j] && seen[number[j] as usize] != stamp {
                    seen[number[j] as usize] = stamp;
                    try_push(&mut out.columns, number[j])?;
                }
                Ok(())
            };
            for k in s.row(members[c] as usize) {
                meet(*k)?;
                s.row(*k as usize).iter().try_for_each(|j| meet(*j))?;
            }
            out.columns[start..].sort_unstable();
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Graph { offsets, columns })
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
    fn paths_of_two_join_coarse_unknowns_and_one_that_sees_no_other_stays() {
        // 0 - 1 - 2 - 3 - 4 with 0, 2, 4 coarse, and 5 - 6 with 5 coarse.
        let s = graph(7, &[(0, 1), (1, 2), (2, 3), (3, 4), (5, 6)]);
        let first = [true, false, true, false, true, true, false];
        let far = two_steps(&s, &first).unwrap();
        assert_eq!(far, Graph { offsets: vec![0, 1, 3, 4, 4], columns: vec![1, 0, 2, 1] });
        // The middle one has the most dependents.
        assert_eq!(thin(&s, &first, 0).unwrap(), [false, false, true, false, false, true, false]);
    }

    proptest! {
        #[test]
        fn every_unknown_that_was_coarse_is_within_two_steps_of_one_that_stays(
            n in 1_usize..60, edges in prop::collection::vec((0_usize..60, 0_usize..60), 0..120), seed in 0_u64..50
        ) {
            let s = graph(n, &edges);
            let first = pmis::split(&s, &s, seed).unwrap();
            let second = thin(&s, &first, seed).unwrap();
            for i in (0..n).filter(|i| first[*i]) {
                let steps = s.row(i).iter().flat_map(|k| s.row(*k as usize).iter().chain([k]));
                let near = steps.filter(|j| **j as usize != i && second[**j as usize]).count();
                prop_assert_eq!(second[i], near == 0);
            }
            prop_assert!((0..n).all(|i| first[i] || !second[i]));
        }
    }
}
