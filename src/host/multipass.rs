//! Multipass interpolation (Stüben, 1999; Yang, 2010): reaches any distance, which aggressive coarsening needs.
//!
//! The first pass is direct interpolation of the fine unknowns that have strong coarse neighbours. Each further pass
//! takes those that have strong neighbours of earlier passes: in row i every such neighbour is replaced by its
//! interpolation, and direct interpolation from the resulting coarse unknowns gives the weights. Rows are truncated at
//! once, so that later rows, which use them, stay short.

use super::direct::{self, Sums};
use super::extended_i::coarse_numbers;
use super::truncate::{self, Truncation};
use super::{Host, rows};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_capacity, try_collect, try_push, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, Structure};

/// Pass of an unknown that is not interpolated yet.
const NEVER: u32 = u32::MAX;

/// Interpolation from the coarse unknowns to all. With `pattern` (a result of the same graph and splitting), each row
/// keeps the columns that it has there, whatever the size of the new weights.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let n = a.rows;
    let (number, coarse_count) = coarse_numbers(coarse)?;
    let mut done = Formulas { number, pass: try_vec(n, NEVER)?, place: try_vec(n, 0)?, passes: Vec::new() };
    let mut waiting: Vec<u32> = try_capacity(n)?;
    for (i, is_coarse) in coarse.iter().enumerate() {
        if *is_coarse {
            done.pass[i] = 0;
        } else {
            waiting.push(i as u32);
        }
    }
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    loop {
        let pieces = par::map_ranges(waiting.len(), par::ROW_GRAIN, |range| {
            let reached = |i: &u32| s.row(*i as usize).iter().any(|k| done.pass[*k as usize] != NEVER);
            try_collect(waiting[range].iter().copied().filter(reached))
        })?;
        let mut next: Vec<u32> = try_capacity(pieces.iter().map(Vec::len).sum())?;
        pieces.iter().for_each(|piece| next.extend_from_slice(piece));
        if next.is_empty() {
            break;
        }
        let made = rows::build(next.len(), 1, |range, out| {
            let mut row = Row { place: rows::scratch(coarse_count)?, weights: Vec::new() };
            let mut kept = Vec::new();
            for &i in &next[range] {
                let i = i as usize;
                row.compute(a, s, &done, i)?;
                let weights = row.weights.iter().copied();
                truncate::push_row(out, &mut kept, weights, truncation, pattern.as_ref().map(|p| (p, i)))?;
                out.end_row();
            }
            Ok(())
        })?;
        done.passes.push(made);
        for (place, i) in next.iter().enumerate() {
            (done.pass[*i as usize], done.place[*i as usize]) = (done.passes.len() as u32, place as u32);
        }
        waiting.retain(|i| done.pass[*i as usize] == NEVER);
    }
    let (offsets, columns, values) = rows::build(n, 1, |range, out| {
        for i in range {
            done.visit(i, |c, w| out.push(c, w))?;
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: n, cols: coarse_count, block: Block::SCALAR, offsets, columns, values })
}

/// The rows that earlier passes made.
struct Formulas<T> {
    /// Number of a coarse unknown on the coarse level.
    number: Vec<i32>,
    /// Pass that made the row of each unknown; 0 for coarse unknowns.
    pass: Vec<u32>,
    /// Position of the row among those of its pass.
    place: Vec<u32>,
    /// Offsets, columns and values of the rows of each pass.
    passes: Vec<(Vec<i64>, Vec<i32>, Vec<T>)>,
}

impl<T: Scalar> Formulas<T> {
    /// Calls `each` with the coarse columns and weights of unknown `i`, of which there are none when it was never
    /// reached.
    fn visit(&self, i: usize, mut each: impl FnMut(i32, T) -> Result<()>) -> Result<()> {
        match self.pass[i] {
            NEVER => Ok(()),
            0 => each(self.number[i], T::ONE),
            pass => {
                let (offsets, columns, values) = &self.passes[pass as usize - 1];
                let place = self.place[i] as usize;
                (offsets[place] as usize..offsets[place + 1] as usize).try_for_each(|k| each(columns[k], values[k]))
            }
        }
    }
}

/// Scratch space for one row.
struct Row<T> {
    /// Position in `weights` plus one of each coarse unknown, 0 outside of C_i.
    place: Vec<u32>,
    /// Coarse columns and weights.
    weights: Vec<(i32, T)>,
}

impl<T: Scalar> Row<T> {
    fn compute(&mut self, a: &CsrView<'_, T>, s: &Graph, done: &Formulas<T>, i: usize) -> Result<()> {
        for (c, _) in self.weights.drain(..) {
            self.place[c as usize] = 0;
        }
        // The strong columns stand in the order of the matrix's row, so one pass over both tells which entries are
        // strong.
        let mut strong = s.row(i).iter().peekable();
        let mut replaced = move |j: usize| {
            let is_strong = strong.next_if(|next| **next as usize == j).is_some();
            is_strong && done.pass[j] != NEVER
        };
        let mut others = replaced.clone();
        for (j, value) in a.row(i).filter(|(j, _)| replaced(*j)) {
            done.visit(j, |c, w| self.add(c, value[0] * w))?;
        }
        let mut diagonal = T::ZERO;
        let (mut negative, mut positive) = (Sums::ZERO, Sums::ZERO);
        for (j, value) in a.row(i).filter(|(j, _)| !others(*j)) {
            let value = value[0];
            if j == i {
                diagonal += value;
            } else if done.pass[j] == 0 && self.place[done.number[j] as usize] != 0 {
                self.add(done.number[j], value)?;
            } else if value < T::ZERO {
                negative.all += value;
            } else {
                positive.all += value;
            }
        }
        for (_, w) in &self.weights {
            let sums = if *w < T::ZERO { &mut negative } else { &mut positive };
            sums.all += *w;
            sums.coarse += *w;
        }
        let (for_negative, for_positive) = direct::scales(diagonal, negative, positive);
        for (_, w) in &mut self.weights {
            *w *= if *w < T::ZERO { for_negative } else { for_positive };
        }
        Ok(())
    }

    fn add(&mut self, c: i32, value: T) -> Result<()> {
        let place = &mut self.place[c as usize];
        if *place == 0 {
            try_push(&mut self.weights, (c, T::ZERO))?;
            *place = self.weights.len() as u32;
        }
        self.weights[*place as usize - 1].1 += value;
        Ok(())
    }
}

/// The component, for aggressive levels alone.
pub struct Multipass;

impl<T: Scalar> Interpolation<Host, T> for Multipass {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let Coarse::TwoPass(_, coarse) = input.coarse else { unreachable!("asked for on aggressive levels alone") };
        let pattern = input.pattern().map(|pattern| &**pattern.rows());
        let p = interpolate(&input.a.view(), input.graph, coarse, input.truncation, pattern)?;
        Ok(Interpolated::alone(p.into_shared().into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::{aggressive, pmis, strength};
    use proptest::prelude::*;

    const ALL: Truncation = Truncation::new(0, 0.0);

    fn row_of(p: &Csr<f64>, i: usize) -> Vec<(usize, f64)> {
        p.view().row(i).map(|(j, v)| (j, v[0])).collect()
    }

    #[test]
    fn passes_go_outward_from_the_coarse_unknowns() {
        // [-1 2 -1] on seven unknowns and one alone; 0 and 4 are coarse.
        let off = (1..7_usize).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]);
        let a = Csr::from_triplets(8, 8, &off.chain((0..8).map(|i| (i, i, 2.0))).collect::<Vec<_>>()).unwrap();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse: Vec<bool> = (0..8).map(|i| i == 0 || i == 4).collect();
        let p = interpolate(&a.view(), &s, &coarse, ALL, None).unwrap();
        // First pass: 1 from 0, 3 and 5 from 4, each with all of its coupling. Second: 2 from both, 6 from 4, whose row
        // sum is 1.
        let want: [&[(usize, f64)]; 8] =
            [&[(0, 1.0)], &[(0, 1.0)], &[(0, 0.5), (1, 0.5)], &[(1, 1.0)], &[(1, 1.0)], &[(1, 1.0)], &[(1, 0.5)], &[]];
        for (i, want) in want.iter().enumerate() {
            assert_eq!(row_of(&p, i), *want, "row {i}");
        }
        let one = Truncation::new(1, 0.0);
        let short = interpolate(&a.view(), &s, &coarse, one, None).unwrap();
        assert_eq!(row_of(&short, 2), [(0, 1.0)]);
        let structure = short.clone().into_shared().structure;
        assert_eq!(interpolate(&a.view(), &s, &coarse, ALL, Some(&*structure)).unwrap(), short);
    }

    #[test]
    fn a_neighbours_formula_takes_its_place_in_the_equation() {
        // 0 is coarse; 1 has row sum 1 of 4; 2 hangs on 1, with a weak coupling to 0 and one to 3, which nothing
        // reaches.
        let t = [
            (0, 0, 4.0),
            (1, 0, -3.0),
            (1, 1, 4.0),
            (2, 1, -4.0),
            (2, 0, -0.5),
            (2, 3, -0.5),
            (2, 2, 5.0),
            (3, 3, 1.0),
        ];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let p = interpolate(&a.view(), &s, &[true, false, false, false], ALL, None).unwrap();
        assert_eq!(row_of(&p, 1), [(0, 0.75)]);
        // â_20 = -4 · 0.75 - 0.5 = -3.5, of -4 in all: the weight is 4/5.
        let row = row_of(&p, 2);
        assert!(row.len() == 1 && (row[0].1 - 0.8).abs() < 1e-15, "{row:?}");
        assert!(row_of(&p, 3).is_empty());
    }

    proptest! {
        #[test]
        fn constants_are_kept_where_the_row_sum_is_zero(n in 3_usize..60, seed in 0_u64..1000, max_entries in 0_usize..4) {
            // A ring with random chords: a graph Laplacian.
            let mut edges: Vec<_> = (0..n).map(|i| (i, (i + 1) % n)).collect();
            edges.extend((0..n / 3).map(|k| (k, (hash(k, seed) as usize) % n)).filter(|(i, j)| i != j));
            let mut t = Vec::new();
            for (k, (i, j)) in edges.into_iter().enumerate() {
                let v = 1.0 + (hash(k, seed + 1) % 4) as f64;
                t.extend([(i, j, -v), (j, i, -v), (i, i, v), (j, j, v)]);
            }
            let a = Csr::from_triplets(n, n, &t).unwrap();
            let s = strength::classical(&a.view(), 0.0, 1.0).unwrap();
            let first = pmis::split(&s, &s, seed).unwrap();
            let coarse = aggressive::thin(&s, &first, seed).unwrap();
            let truncation = Truncation::new(max_entries, 0.0);
            let p = interpolate(&a.view(), &s, &coarse, truncation, None).unwrap();
            for i in 0..n {
                let row = row_of(&p, i);
                prop_assert!(row.iter().all(|(_, w)| *w > 0.0));
                prop_assert!((row.iter().map(|r| r.1).sum::<f64>() - 1.0).abs() < 1e-12, "row {} {:?}", i, row);
            }
        }
    }
}
