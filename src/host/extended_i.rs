//! Extended+i interpolation (De Sterck, Falgout, Nolting and Yang, 2008) with truncation.
//!
//! For a fine unknown i, C_i are its strong coarse neighbours, F_i its strong fine ones, and Ĉ_i adds to C_i the strong coarse neighbours
//! of F_i. With ā_kl = a_kl where its sign differs from that of a_kk, and 0 elsewhere,
//!
//! w_ij = -1/ã_ii (a_ij + Σ_{k∈F_i} a_ik ā_kj / b_ik),    b_ik = Σ_{l∈Ĉ_i∪{i}} ā_kl,
//! ã_ii = a_ii + Σ_{weak n∉Ĉ_i} a_in + Σ_{k∈F_i} a_ik ā_ki / b_ik.

use super::truncate::{self, Truncation};
use super::{par, rows};
use crate::amg::strength::Graph;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// Interpolation from the coarse unknowns to all, or to the unknowns of `only`. With `pattern` (a result of the same graph and
/// splitting), each row keeps the columns that it has there, whatever the size of the new weights.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: Option<&[u32]>,
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let count = only.map_or(a.rows, <[u32]>::len);
    let (number, coarse_count) = coarse_numbers(coarse)?;
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    let positive = positive_diagonals(a)?;
    let (offsets, columns, values) = rows::build(count, 1, |range, out| {
        let mut row = Row::new(a.rows)?;
        for at in range {
            let i = only.map_or(at, |only| only[at] as usize);
            if coarse[i] {
                out.columns.push(number[i]);
                out.values.push(T::ONE);
            } else {
                row.compute(a, s, coarse, &positive, i);
                match &pattern {
                    Some(p) => row.keep_columns(p.row_range(at).map(|k| p.col(k) as i32), &number),
                    None => row.truncate(truncation, &number),
                }
                out.columns.extend(row.kept.iter().map(|k| k.0));
                out.values.extend(row.kept.iter().map(|k| k.1));
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: count, cols: coarse_count, block: Block::SCALAR, offsets, columns, values })
}

/// Number of each coarse unknown on the coarse level (unspecified for fine ones), and how many there are.
pub fn coarse_numbers(coarse: &[bool]) -> Result<(Vec<i32>, usize)> {
    let mut number = try_vec(coarse.len(), 0)?;
    let mut count = 0;
    for (n, c) in number.iter_mut().zip(coarse) {
        *n = count;
        count += i32::from(*c);
    }
    Ok((number, count as usize))
}

/// Whether a_kk is positive, for each row.
pub fn positive_diagonals<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<bool>> {
    let mut positive = try_vec(a.rows, false)?;
    par::for_each_mut(&mut positive, par::ROW_GRAIN, |start, piece| {
        for (k, positive) in piece.iter_mut().enumerate() {
            *positive = a.row(start + k).any(|(j, v)| j == start + k && v[0] > T::ZERO);
        }
    });
    Ok(positive)
}

/// Scratch space for one row.
struct Row<T> {
    /// Position in `members` plus one, 0 outside of Ĉ_i.
    place: Vec<u32>,
    /// Ĉ_i.
    members: Vec<u32>,
    weights: Vec<T>,
    /// Place and ā_kl of the members that one strong fine neighbour k is coupled to.
    shares: Vec<(u32, T)>,
    /// Coarse column and weight of what stays, ascending.
    kept: Vec<(i32, T)>,
}

impl<T: Scalar> Row<T> {
    fn new(rows: usize) -> Result<Row<T>> {
        let (members, weights, shares, kept) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Row { place: rows::scratch(rows)?, members, weights, shares, kept })
    }

    fn compute(&mut self, a: &CsrView<'_, T>, s: &Graph, coarse: &[bool], positive: &[bool], i: usize) {
        for m in self.members.drain(..) {
            self.place[m as usize] = 0;
        }
        for &j in s.row(i) {
            if coarse[j as usize] {
                self.add(j as usize);
            } else {
                for &l in s.row(j as usize) {
                    if coarse[l as usize] {
                        self.add(l as usize);
                    }
                }
            }
        }
        self.weights.clear();
        self.weights.resize(self.members.len(), T::ZERO);
        if self.members.is_empty() {
            return;
        }

        let mut diagonal = T::ZERO;
        // The strong columns stand in the order of the matrix's row, so one pass over both tells which entries are strong.
        let mut strong = s.row(i).iter().peekable();
        for k in a.row_range(i) {
            let j = a.col(k);
            let value = a.values[k];
            let is_strong = strong.next_if(|next| **next as usize == j).is_some();
            if j == i {
                diagonal += value;
            } else if self.place[j] != 0 {
                self.weights[self.place[j] as usize - 1] += value;
            } else if is_strong {
                diagonal += self.distribute(a, positive, i, j, value);
            } else {
                diagonal += value;
            }
        }
        let scale = if diagonal == T::ZERO { T::ZERO } else { -T::ONE / diagonal };
        for w in &mut self.weights {
            *w *= scale;
        }
    }

    fn add(&mut self, j: usize) {
        if self.place[j] == 0 {
            self.members.push(j as u32);
            self.place[j] = self.members.len() as u32;
        }
    }

    /// Spreads a_ik over Ĉ_i and i in proportion to ā_kl; returns what falls to i.
    fn distribute(&mut self, a: &CsrView<'_, T>, positive: &[bool], i: usize, k: usize, a_ik: T) -> T {
        let range = a.row_range(k);
        let base = a.base;
        self.shares.clear();
        let mut own = T::ZERO;
        let mut sum = T::ZERO;
        for (c, v) in a.columns[range.clone()].iter().zip(&a.values[range]) {
            let l = (*c - base) as usize;
            let place = self.place[l];
            // The diagonal drops out here: its sign does not differ from its own.
            if (place != 0 || l == i) && (*v < T::ZERO) == positive[k] {
                sum += *v;
                if l == i {
                    own = *v;
                } else {
                    self.shares.push((place, *v));
                }
            }
        }
        if sum == T::ZERO {
            return a_ik;
        }
        let share = a_ik / sum;
        for (place, v) in &self.shares {
            self.weights[*place as usize - 1] += share * *v;
        }
        share * own
    }

    /// Keeps the largest weights and scales them so that the row sum stays.
    fn truncate(&mut self, truncation: Truncation, number: &[i32]) {
        self.kept.clear();
        let members = self.members.iter().zip(&self.weights);
        self.kept.extend(members.filter(|(_, w)| **w != T::ZERO).map(|(m, w)| (number[*m as usize], *w)));
        truncate::truncate(&mut self.kept, truncation);
    }

    fn keep_columns(&mut self, columns: impl Iterator<Item = i32>, number: &[i32]) {
        let weights = self.members.iter().zip(&self.weights).map(|(m, w)| (number[*m as usize], *w));
        truncate::keep_columns(&mut self.kept, columns, weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::strength;

    const ALL: Truncation = Truncation { max_entries: 0, factor: 0.0 };

    /// [-1 2 -1] on five unknowns, the outer ones coupled to the boundary.
    fn line() -> Csr<f64> {
        let mut t = Vec::new();
        for i in 0..5_usize {
            t.push((i, i, 2.0));
            if i > 0 {
                t.push((i, i - 1, -1.0));
                t.push((i - 1, i, -1.0));
            }
        }
        Csr::from_triplets(5, 5, &t).unwrap()
    }

    #[test]
    fn a_line_is_interpolated_linearly_across_two_fine_unknowns() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let p = interpolate(&a.view(), &s, &[true, false, false, true, false], None, ALL, None).unwrap();
        let row = |i: usize| p.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
        assert_eq!(row(0), [(0, 1.0)]);
        // Unknown 1 sees 0 directly and 3 through 2: the "+i" part makes it exact for the linear function.
        let close = |got: Vec<(usize, f64)>, want: [(usize, f64); 2]| {
            got.iter().zip(want).all(|(g, w)| g.0 == w.0 && (g.1 - w.1).abs() < 1e-15) && got.len() == 2
        };
        assert!(close(row(1), [(0, 2.0 / 3.0), (1, 1.0 / 3.0)]), "{:?}", row(1));
        assert!(close(row(2), [(0, 1.0 / 3.0), (1, 2.0 / 3.0)]), "{:?}", row(2));
        assert_eq!(row(4), [(1, 0.5)]);
        let only = interpolate(&a.view(), &s, &[true, false, false, true, false], Some(&[2, 4]), ALL, None).unwrap();
        let some = |i: usize| only.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
        assert_eq!((only.rows, some(0), some(1)), (2, row(2), row(4)));
    }

    #[test]
    fn truncation_keeps_the_row_sum_and_a_kept_pattern_gives_the_same_weights() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse = [true, false, false, true, false];
        let one = Truncation { max_entries: 1, factor: 0.0 };
        let p = interpolate(&a.view(), &s, &coarse, None, one, None).unwrap();
        assert_eq!(p.offsets, [0, 1, 2, 3, 4, 5]);
        assert!((p.values[1] - 1.0).abs() < 1e-15 && (p.values[2] - 1.0).abs() < 1e-15);
        let shared = p.clone().into_shared();
        let again = interpolate(&a.view(), &s, &coarse, None, ALL, Some(&shared.structure)).unwrap();
        assert_eq!(again, p);
    }
}
