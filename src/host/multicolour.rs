//! Multicolour Gauss-Seidel on the host: rows of one colour are not coupled, so the order among them does not matter.
//!
//! The colouring is that of Jones and Plassmann: in each round the rows whose random weight is the largest among their
//! neighbours without a colour take the smallest colour that no neighbour has. All reads of a round see the state at
//! its start, so the result depends on neither threads nor order. It is the one that a greedy pass in the order of the
//! weights gives.

use super::{Host, gauss_seidel};
use crate::backend::Colours;
use crate::error::{Result, try_capacity, try_copy, try_vec};
use crate::hash::hash;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Coloured, Colouring, CsrView, Graph, transpose};
use std::ops::Range;

const NONE: u32 = u32::MAX;

/// A row without a colour.
struct Waiting {
    row: u32,
    /// Leading neighbours that need not be checked again: they have a colour or a smaller weight.
    passed: u32,
    /// The colour it takes at the end of the round.
    colour: u32,
}

impl Colouring {
    /// A colouring in which a_ij or a_ji couples no two rows of the same colour.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>) -> Result<Colouring> {
        let (offsets, columns) = transpose::pattern(a)?;
        let same = (0..=a.rows).all(|i| a.offsets.raw(i) - i64::from(a.base) == offsets[i])
            && columns.iter().enumerate().all(|(k, j)| a.col(k) == *j as usize);
        let transposed = if same { None } else { Some(Graph { offsets, columns }) };
        let outweighs = |i: usize, j: usize| (hash(i, 0), i) > (hash(j, 0), j);

        // A diagonal entry does not matter: the row has no colour yet, and its weight is not larger than itself.
        let mut colour = try_vec(a.rows, NONE)?;
        let mut waiting: Vec<Waiting> = try_capacity(a.rows)?;
        waiting.extend((0..a.rows as u32).map(|row| Waiting { row, passed: 0, colour: NONE }));
        while !waiting.is_empty() {
            let before = &colour;
            par::for_each_mut(&mut waiting, par::ROW_GRAIN, |_, waiting| {
                for w in waiting {
                    let i = w.row as usize;
                    let (own, others) = (a.row_range(i), transposed.as_ref().map_or(&[][..], |t| t.row(i)));
                    let degree = own.len() + others.len();
                    let neighbour =
                        |k: usize| if k < own.len() { a.col(own.start + k) } else { others[k - own.len()] as usize };
                    let comes_first = |j: usize| before[j] == NONE && outweighs(j, i);
                    match (w.passed as usize..degree).find(|k| comes_first(neighbour(*k))) {
                        Some(k) => w.passed = k as u32,
                        None => w.colour = smallest_free((0..degree).map(|k| before[neighbour(k)])),
                    }
                }
            });
            for w in &waiting {
                colour[w.row as usize] = w.colour;
            }
            waiting.retain(|w| w.colour == NONE);
        }

        let colours = colour.iter().max().map_or(0, |c| *c as usize + 1);
        let mut starts = try_vec(colours + 1, 0_usize)?;
        for c in &colour {
            starts[*c as usize + 1] += 1;
        }
        for c in 0..colours {
            starts[c + 1] += starts[c];
        }
        let mut next = try_copy(&starts)?;
        let mut rows = try_vec(a.rows, 0_u32)?;
        for (i, c) in colour.iter().enumerate() {
            rows[next[*c as usize]] = i as u32;
            next[*c as usize] += 1;
        }
        Ok(Colouring { rows, starts })
    }
}

/// The smallest number that does not occur.
fn smallest_free(used: impl Iterator<Item = u32> + Clone) -> u32 {
    let mut first = 0;
    loop {
        let near = used.clone().map(|c| c.wrapping_sub(first)).filter(|c| *c < 64);
        let mask = near.fold(0_u64, |mask, c| mask | 1 << c);
        if mask != u64::MAX {
            return first + mask.trailing_ones();
        }
        first += 64;
    }
}

impl<S: Number, V: Number> Colours<Host, V> for Coloured<S> {
    fn count(&self) -> usize {
        self.colouring.count()
    }

    fn solves_exactly(&self) -> bool {
        let a = self.matrix.view();
        a.block.rows == 1 || self.inverse.len() > a.scalar_rows()
    }

    fn pass(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        let a = self.matrix.view();
        let order = (0..count, backward);
        host.run(a.entries(), || sweep(&a, &self.inverse, &self.colouring, order, b, x, scratch));
        Ok(())
    }

    fn bytes(&self) -> usize {
        let matrix = if self.shared { 0 } else { self.matrix.owned_bytes() };
        size_of_val(self.inverse.as_slice()) + self.colouring.bytes() + matrix
    }
}

/// Solves the rows of these colours for their own unknowns, colour after colour. `inverse` is that of the diagonal or
/// of the diagonal blocks, `scratch` a vector like x.
pub fn sweep<S: Number, V: Number>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    colouring: &Colouring,
    (colours, backward): (Range<usize>, bool),
    b: &[V],
    x: &mut [V],
    scratch: &mut [V],
) {
    let n = a.block.rows;
    for k in 0..colours.len() {
        let colour = if backward { colours.end - 1 - k } else { colours.start + k };
        let rows = &colouring.rows[colouring.starts[colour]..colouring.starts[colour + 1]];
        // New values go to `scratch` first, because other tasks read x.
        let new = &mut scratch[..rows.len() * n];
        let old = &*x;
        par::for_each_row_mut(new, n, par::ROW_GRAIN, |start, new| {
            for (new, i) in new.chunks_exact_mut(n).zip(&rows[start..]) {
                let i = *i as usize;
                if n == 1 {
                    let range = a.row_range(i);
                    let ax = row_product(&a.columns[range.clone()], &a.values[range], old, a.base as usize);
                    new[0] = V::narrow(old[i].widen() + inverse[i].cast::<V::Wide>() * (b[i].widen() - ax));
                } else {
                    new.copy_from_slice(&old[i * n..][..n]);
                    let others = gauss_seidel::Unknowns { first: 0, new: old, old: None };
                    gauss_seidel::block_row(a, inverse, b, i, new, &others, backward);
                }
            }
        });
        let new = &*new;
        par::for_each_row_mut(x, n, par::GRAIN / n, |first, x| {
            let begin = rows.partition_point(|i| (*i as usize) < first);
            let end = rows.partition_point(|i| (*i as usize) < first + x.len() / n);
            for (i, new) in rows[begin..end].iter().zip(new[begin * n..].chunks_exact(n)) {
                x[(*i as usize - first) * n..][..n].copy_from_slice(new);
            }
        });
    }
}

/// Four partial sums, so that additions are independent.
#[inline(always)]
pub(super) fn row_product<S: Number, V: Number>(columns: &[i32], values: &[S], x: &[V], base: usize) -> V::Wide {
    let term = |c: i32, v: S| v.cast::<V::Wide>() * x[c as usize - base].widen();
    let mut sums = [V::Wide::ZERO; 4];
    let (c4, v4) = (columns.chunks_exact(4), values.chunks_exact(4));
    let rest = c4.remainder().iter().zip(v4.remainder());
    for (c, v) in c4.zip(v4) {
        for (sum, (c, v)) in sums.iter_mut().zip(c.iter().zip(v)) {
            *sum += term(*c, *v);
        }
    }
    for (sum, (c, v)) in sums.iter_mut().zip(rest) {
        *sum += term(*c, *v);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::diagonal;
    use crate::sparse::Csr;
    use proptest::prelude::*;

    fn colours_of(colouring: &Colouring) -> Vec<usize> {
        let mut colour = vec![usize::MAX; colouring.rows.len()];
        for c in 0..colouring.count() {
            for i in &colouring.rows[colouring.starts[c]..colouring.starts[c + 1]] {
                colour[*i as usize] = c;
            }
        }
        colour
    }

    proptest! {
        #[test]
        fn no_two_coupled_rows_have_the_same_colour(
            n in 1_usize..80, entries in prop::collection::vec((0_usize..80, 0_usize..80), 0..600)
        ) {
            let t: Vec<_> = entries.iter().map(|(i, j)| (i % n, j % n, 1.0)).collect();
            let a = Csr::from_triplets(n, n, &t).unwrap();
            let colouring = Colouring::new(&a.view()).unwrap();
            let colour = colours_of(&colouring);
            let mut degree = vec![0; n];
            for (i, j, _) in t {
                prop_assert!(i == j || colour[i] != colour[j]);
                degree[i] += 1;
                degree[j] += 1;
            }
            // Greedy: never more colours than the largest degree and one.
            prop_assert!(colouring.count() <= degree.iter().max().unwrap() + 1);
            prop_assert!(colour.iter().all(|c| *c < colouring.count()));
        }
    }

    #[test]
    fn many_colours_are_counted_beyond_one_word() {
        assert_eq!(smallest_free([0, 1, 3, NONE].into_iter()), 2);
        assert_eq!(smallest_free((0..130).chain([131])), 130);
        let n = 100;
        let t: Vec<_> = (0..n * n).map(|e| (e / n, e % n, 1.0)).collect();
        let dense = Csr::from_triplets(n, n, &t).unwrap();
        assert_eq!(Colouring::new(&dense.view()).unwrap().count(), n);
        assert_eq!(Colouring::new(&Csr::<f64>::from_triplets(0, 0, &[]).unwrap().view()).unwrap().count(), 0);
    }

    #[test]
    fn a_sweep_is_gauss_seidel_in_the_order_of_the_colours() {
        let blocks = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
        let scalars = blocks.view().to_scalar().unwrap();
        let b: Vec<f64> = (0..scalars.rows).map(|i| (i % 5) as f64).collect();
        for (a, width) in [(&scalars, 1), (&blocks, 1), (&blocks, 3)] {
            let a = a.view();
            let n = a.block.rows;
            let colouring = Colouring::new(&a).unwrap();
            assert!(colouring.count() > 1 && colouring.count() < a.rows);
            let inverse = diagonal::inverse::<f64, f64>(&a, width, diagonal::AS_IT_IS).unwrap();
            for backward in [false, true] {
                let mut x = vec![0.5; b.len()];
                let mut expected = x.clone();
                let mut scratch = vec![f64::NAN; b.len()];
                sweep(&a, &inverse, &colouring, (0..colouring.count(), backward), &b, &mut x, &mut scratch);

                let mut order: Vec<usize> = colouring.rows.iter().map(|i| *i as usize).collect();
                if backward {
                    order.reverse();
                }
                let residual =
                    |x: &[f64], row: usize| b[row] - scalars.view().row(row).map(|(j, v)| v[0] * x[j]).sum::<f64>();
                for i in order {
                    if width == 1 {
                        for r in 0..n {
                            let row = i * n + if backward { n - 1 - r } else { r };
                            expected[row] += inverse[row] * residual(&expected, row);
                        }
                    } else {
                        let r: Vec<f64> = (0..n).map(|r| residual(&expected, i * n + r)).collect();
                        for k in 0..n {
                            expected[i * n + k] += (0..n).map(|c| inverse[(i * n + k) * n + c] * r[c]).sum::<f64>();
                        }
                    }
                }
                assert!(x.iter().zip(&expected).all(|(x, e)| (x - e).abs() < 1e-12), "{n} {width} {backward}");
            }
        }
    }

    #[test]
    fn two_unknowns_are_solved_one_after_the_other() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 2.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 4.0)]).unwrap();
        let colouring = Colouring::new(&a.view()).unwrap();
        let first = colouring.rows[0] as usize;
        let mut x = [0.0; 2];
        sweep(&a.view(), &[0.5, 0.25], &colouring, (0..2, false), &[4.0, 8.0], &mut x, &mut [0.0; 2]);
        // Row 0 first: 4/2 = 2, then (8 - 2)/4. Row 1 first: 8/4 = 2, then (4 - 2)/2.
        assert_eq!(x, if first == 0 { [2.0, 1.5] } else { [1.0, 2.0] });
    }
}
