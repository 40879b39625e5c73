//! Extended and extended+i interpolation in matrix-matrix form (Li, Sjögreen and Yang, 2021), with truncation.
//!
//! A^s are the strong couplings, D_FF the diagonal of the fine rows, D_γ the sums of their weak couplings and D_β the
//! row sums of A^s_FC:
//!
//! W = -[(D_FF + D_γ)⁻¹ (A^s_FF + D_β)] [D_β⁻¹ A^s_FC].
//!
//! In the +i variant a strong fine neighbour k is spread over its coarse neighbours and the unknown i itself, so that
//! β_k becomes b_ik = β_k + a^s_ki where k stands for i, and D_γ gains Σ_k a_ik a^s_ki / b_ik. Both are one product P =
//! L R of all rows,
//!
//! l_ii = -1/ã_ii,   l_ik = -a_ik / (b_ik ã_ii) for k∈F_i,   r_kj = a^s_kj for fine k,
//!
//! with rows of the identity for coarse unknowns. Unlike extended_i, weak couplings of i and k to coarse unknowns do
//! not become weights: they join the diagonal, or are left out. Couplings of the diagonal's sign, which other measures
//! than the classical one call strong, count as weak, so that β has no cancellation; a neighbour with b_ik = 0, which
//! has nothing to be spread over, does too.

use super::extended_i::{coarse_numbers, positive_diagonals};
use super::interleaved_sum::InterleavedSum;
use super::truncate::{self, Truncation};
use super::{Host, rows, spgemm, two_stage};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Graph, Structure};

/// Interpolation from the coarse unknowns to all, or to the unknowns of `only`. With `pattern` (a result of the same
/// graph and splitting), each row keeps the columns that it has there, whatever the size of the new weights.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    only: Option<&[u32]>,
    plus_i: bool,
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let strong = Strong { a, s, coarse, positive: &positive_diagonals(a)? };
    let right = strong.right()?;
    let left = strong.left(&right, only, plus_i)?;
    let p = spgemm::multiply(&left.view(), &right.view())?;
    truncate::all_rows(&p.view(), truncation, pattern)
}

/// The couplings of A^s.
struct Strong<'a, T> {
    a: &'a CsrView<'a, T>,
    s: &'a Graph,
    coarse: &'a [bool],
    /// Sign of each diagonal entry.
    positive: &'a [bool],
}

impl<T: Scalar> Strong<'_, T> {
    /// Column and value of all couplings of row i, the diagonal included, and whether each is in A^s.
    fn row(&self, i: usize) -> impl Iterator<Item = (usize, T, bool)> + '_ {
        // The strong columns stand in the order of the matrix's row, so one pass over both tells which entries are
        // strong.
        let mut strong = self.s.row(i).iter().peekable();
        self.a.row(i).map(move |(j, v)| {
            let is_strong = strong.next_if(|next| **next as usize == j).is_some();
            (j, v[0], is_strong && (v[0] < T::ZERO) == self.positive[i])
        })
    }

    /// R: the strong couplings of fine unknowns to coarse ones, and the identity.
    fn right(&self) -> Result<Csr<T>> {
        let (number, count) = coarse_numbers(self.coarse)?;
        let (offsets, columns, values) = rows::build(self.a.rows, 1, |range, out| {
            for i in range {
                if self.coarse[i] {
                    out.push(number[i], T::ONE)?;
                } else {
                    for (j, v, _) in self.row(i).filter(|(j, _, strong)| *strong && self.coarse[*j]) {
                        out.push(number[j], v)?;
                    }
                }
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Csr { rows: self.a.rows, cols: count, block: Block::SCALAR, offsets, columns, values })
    }

    /// L: how an unknown is made of its own coarse neighbours and those of its fine neighbours.
    fn left(&self, right: &Csr<T>, only: Option<&[u32]>, plus_i: bool) -> Result<Csr<T>> {
        let n = self.a.rows;
        let mut beta = try_vec(n, T::ZERO)?;
        par::for_each_mut(&mut beta, par::ROW_GRAIN, |start, piece| {
            for (k, beta) in piece.iter_mut().enumerate() {
                *beta = right.view().row(start + k).map(|(_, v)| v[0]).sum();
            }
        });
        let count = only.map_or(n, <[u32]>::len);
        let (offsets, columns, values) = rows::build(count, 1, |range, out| {
            for at in range {
                let i = only.map_or(at, |only| only[at] as usize);
                let start = out.columns.len();
                out.push(i as i32, T::ONE)?;
                if !self.coarse[i] {
                    let mut diagonal = InterleavedSum::ZERO;
                    for (at, (k, a_ik, strong)) in self.row(i).enumerate() {
                        if strong && self.coarse[k] {
                            continue;
                        }
                        let a_ki = if plus_i && strong { self.coupling(k, i) } else { T::ZERO };
                        let b_ik = if strong { beta[k] + a_ki } else { T::ZERO };
                        if b_ik == T::ZERO {
                            diagonal.add(at, a_ik);
                        } else {
                            diagonal.add(at, a_ik * a_ki / b_ik);
                            out.push(k as i32, a_ik / b_ik)?;
                        }
                    }
                    let diagonal = diagonal.sum();
                    let scale = if diagonal == T::ZERO { T::ZERO } else { -T::ONE / diagonal };
                    for v in &mut out.values[start..] {
                        *v *= scale;
                    }
                }
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Csr { rows: count, cols: n, block: Block::SCALAR, offsets, columns, values })
    }

    /// a^s_ki.
    fn coupling(&self, k: usize, i: usize) -> T {
        self.row(k).find(|(j, _, strong)| *j == i && *strong).map_or(T::ZERO, |(_, v, _)| v)
    }
}

/// The component, on aggressive levels in two stages.
pub struct MmExt {
    /// Whether it is the +i variant.
    pub plus_i: bool,
}

impl<T: Scalar> Interpolation<Host, T> for MmExt {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let (a, s, truncation) = (&input.a.view(), input.graph, input.truncation);
        let pattern = input.pattern().map(|pattern| &**pattern.rows());
        let name = if self.plus_i { "mm_ext_i" } else { "mm_ext" };
        let p = match input.coarse {
            Coarse::TwoPass(first, second) => {
                two_stage::interpolate(first, second, truncation, pattern, None, |coarse, only, _| {
                    interpolate(a, s, coarse, only, self.plus_i, truncation, None)
                })?
                .0
            }
            _ => interpolate(a, s, input.splitting(name)?, None, self.plus_i, truncation, pattern)?,
        };
        Ok(Interpolated::alone(p.into_shared().into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::{pmis, strength};
    use proptest::prelude::*;

    const ALL: Truncation = Truncation::new(0, 0.0);

    /// [-1 2 -1] on five unknowns, the outer ones coupled to the boundary.
    fn line() -> Csr<f64> {
        let off = (1..5_usize).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]);
        Csr::from_triplets(5, 5, &off.chain((0..5).map(|i| (i, i, 2.0))).collect::<Vec<_>>()).unwrap()
    }

    fn row_of(p: &Csr<f64>, i: usize) -> Vec<(usize, f64)> {
        p.view().row(i).map(|(j, v)| (j, v[0])).collect()
    }

    fn close(row: &[(usize, f64)], want: &[(usize, f64)]) -> bool {
        row.len() == want.len() && row.iter().zip(want).all(|(r, w)| r.0 == w.0 && (r.1 - w.1).abs() < 1e-15)
    }

    #[test]
    fn a_line_is_interpolated_across_two_fine_unknowns() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse = [true, false, false, true, false];
        let p = |plus_i| interpolate(&a.view(), &s, &coarse, None, plus_i, ALL, None).unwrap();
        // Without i, neighbour 2 of 1 stands for unknown 3 alone; with it, linear functions are met.
        let (plain, plus) = (p(false), p(true));
        assert!(close(&row_of(&plain, 1), &[(0, 0.5), (1, 0.5)]), "{:?}", row_of(&plain, 1));
        assert!(close(&row_of(&plus, 1), &[(0, 2.0 / 3.0), (1, 1.0 / 3.0)]), "{:?}", row_of(&plus, 1));
        for p in [plain, plus] {
            assert_eq!((row_of(&p, 0), row_of(&p, 3)), (vec![(0, 1.0)], vec![(1, 1.0)]));
            assert!(close(&row_of(&p, 4), &[(1, 0.5)]));
        }
    }

    #[test]
    fn some_rows_truncation_and_a_kept_pattern_agree_with_all_rows() {
        let a = line();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse = [true, false, false, true, false];
        let one = Truncation::new(1, 0.0);
        let p = interpolate(&a.view(), &s, &coarse, None, true, one, None).unwrap();
        assert_eq!(p.offsets, [0, 1, 2, 3, 4, 5]);
        assert!(close(&row_of(&p, 1), &[(0, 1.0)]) && close(&row_of(&p, 2), &[(1, 1.0)]));
        let some = interpolate(&a.view(), &s, &coarse, Some(&[2, 3]), true, one, None).unwrap();
        assert_eq!((some.rows, row_of(&some, 0), row_of(&some, 1)), (2, row_of(&p, 2), row_of(&p, 3)));
        let structure = p.clone().into_shared().structure;
        assert_eq!(interpolate(&a.view(), &s, &coarse, None, true, ALL, Some(&*structure)).unwrap(), p);
    }

    #[test]
    fn a_strong_coupling_of_the_diagonals_sign_joins_the_diagonal() {
        let t = [(0, 0, 3.0), (0, 1, -4.0), (0, 2, 1.0), (1, 1, 1.0), (2, 2, 1.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let s = strength::absolute(&a.view(), 0.1).unwrap();
        for plus_i in [false, true] {
            let p = interpolate(&a.view(), &s, &[false, true, true], None, plus_i, ALL, None).unwrap();
            assert_eq!(row_of(&p, 0), [(0, 1.0)]);
        }
    }

    /// W by dense algebra, from the definition: A^s_FF and A^s_FC are cut out of A, and the factors are multiplied as
    /// they are written.
    fn dense(a: &Csr<f64>, s: &Graph, coarse: &[bool], plus_i: bool) -> Vec<Vec<f64>> {
        let n = a.rows;
        let (fine, kept): (Vec<usize>, Vec<usize>) = (0..n).partition(|i| !coarse[*i]);
        let mut full = vec![vec![0.0; n]; n];
        for (i, row) in full.iter_mut().enumerate() {
            a.view().row(i).for_each(|(j, v)| row[j] += v[0]);
        }
        let is_strong = |i: usize, j: usize| s.row(i).contains(&(j as i32));
        let strong = |i: usize, j: usize| if is_strong(i, j) { full[i][j] } else { 0.0 };
        let weak_sum = |i: usize| (0..n).filter(|j| *j != i && !is_strong(i, *j)).map(|j| full[i][j]).sum::<f64>();
        let beta = |i: usize| kept.iter().map(|j| strong(i, *j)).sum::<f64>();
        let mut w = vec![vec![0.0; kept.len()]; fine.len()];
        for (r, &i) in fine.iter().enumerate() {
            let mut diagonal = full[i][i] + weak_sum(i);
            let mut factor = vec![0.0; n];
            factor[i] = beta(i);
            for &k in fine.iter().filter(|k| **k != i && is_strong(i, **k)) {
                let back = if plus_i { strong(k, i) } else { 0.0 };
                factor[k] += strong(i, k) * beta(k) / (beta(k) + back);
                diagonal += strong(i, k) * back / (beta(k) + back);
            }
            for (c, &j) in kept.iter().enumerate() {
                let spread = |k: &usize| if beta(*k) == 0.0 { 0.0 } else { factor[*k] * strong(*k, j) / beta(*k) };
                w[r][c] = -fine.iter().map(spread).sum::<f64>() / diagonal;
            }
        }
        w
    }

    proptest! {
        #[test]
        fn weights_are_those_of_the_dense_formula_and_keep_constants_where_the_row_sum_is_zero(
            n in 3_usize..30, seed in 0_u64..1000, plus_i in any::<bool>()
        ) {
            // A ring with random chords: a graph Laplacian.
            let mut edges: Vec<_> = (0..n).map(|i| (i, (i + 1) % n)).collect();
            edges.extend((0..n).map(|k| (k, (hash(k, seed) as usize) % n)).filter(|(i, j)| i != j));
            let mut t = Vec::new();
            for (k, (i, j)) in edges.into_iter().enumerate() {
                let v = 1.0 + (hash(k, seed + 1) % 8) as f64;
                t.extend([(i, j, -v), (j, i, -v), (i, i, v), (j, j, v)]);
            }
            let a = Csr::from_triplets(n, n, &t).unwrap();
            let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
            let coarse = pmis::split(&s, &s.transpose().unwrap(), seed).unwrap();
            let p = interpolate(&a.view(), &s, &coarse, None, plus_i, ALL, None).unwrap();
            let w = dense(&a, &s, &coarse, plus_i);
            for (r, i) in (0..n).filter(|i| !coarse[*i]).enumerate() {
                let mut row = vec![0.0; p.cols];
                row_of(&p, i).into_iter().for_each(|(j, v)| row[j] = v);
                prop_assert!(row.iter().zip(&w[r]).all(|(x, y)| (x - y).abs() < 1e-13), "{:?} {:?}", row, w[r]);
                prop_assert!(row.iter().all(|v| *v >= 0.0));
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 || row.iter().all(|v| *v == 0.0));
            }
        }
    }
}
