//! Sweeps of l1-Gauss-Seidel on the host.

use super::diagonal;
use crate::error::Result;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::CsrView;

/// Block rows of a piece: at most 32 pieces, because every border between two weakens the sweep, and at least 4096
/// rows.
fn piece(rows: usize) -> usize {
    rows.div_ceil(32).max(4096)
}

/// The inverse of the diagonal (`width` 1) or of the diagonal blocks, enlarged for what o_i = Σ |a_ij| a row is coupled
/// to outside of its piece.
///
/// Let a sweep solve with M, and let O be the part of A between pieces, so that diag(o) - O is semidefinite. A sweep
/// converges for an SPD matrix when M + M^T - A is positive definite, which with e added to the diagonal D is D + 2
/// diag(e) - O. For blocks e = o/2 is enough. Scalar diagonals d have room of their own: rows with o up to d/2 need
/// nothing, and o - d/2 is enough for the others.
pub fn l1_inverse<T: Scalar, S: Number>(a: &CsrView<'_, T>, scale: Option<&[f64]>, width: usize) -> Result<Vec<S>> {
    let size = piece(a.rows);
    diagonal::inverse(a, width, |i, r, d| {
        let first = i - i % size;
        let outside = diagonal::row_norm(a, scale, i, r, |j, _| j.wrapping_sub(first) >= size);
        let room = if width == 1 { 0.5 * d.abs() } else { 0.0 };
        (outside - room).clamp(0.0, 0.5 * outside)
    })
}

/// One sweep, x_i += D_i^-1 (b_i - Σ_j a_ij x_j), with new values inside of a piece and those of `old` (`None` is zero)
/// outside.
pub fn sweep<S: Number, V: Number>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    old: Option<&[V]>,
    x: &mut [V],
    backward: bool,
) {
    let br = a.block.rows;
    par::for_each_mut(x, piece(a.rows) * br, |start, x| {
        let rows = x.len() / br;
        let first = start / br;
        for k in 0..rows {
            let k = if backward { rows - 1 - k } else { k };
            if br == 1 {
                scalar_row(a, inverse, b, old, x, first, k);
            } else {
                let mut own = [V::ZERO; MAX_BLOCK];
                own[..br].copy_from_slice(&x[k * br..][..br]);
                let others = Unknowns { first, new: x, old };
                block_row(a, inverse, b, first + k, &mut own[..br], &others, backward);
                x[k * br..][..br].copy_from_slice(&own[..br]);
            }
        }
    });
}

#[inline(always)]
fn scalar_row<S: Number, V: Number>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    old: Option<&[V]>,
    x: &mut [V],
    first: usize,
    k: usize,
) {
    let i = first + k;
    let range = a.row_range(i);
    let mut residual = b[i].widen();
    for (c, v) in a.columns[range.clone()].iter().zip(&a.values[range]) {
        let j = (*c - a.base) as usize;
        let value = match x.get(j.wrapping_sub(first)) {
            Some(value) => *value,
            None => old.map_or(V::ZERO, |old| old[j]),
        };
        residual -= v.cast::<V::Wide>() * value.widen();
    }
    x[k] = V::narrow(x[k].widen() + inverse[i].cast::<V::Wide>() * residual);
}

/// Largest number of rows in a block.
const MAX_BLOCK: usize = 8;

/// The unknowns that a block row is coupled to: those of a piece that begins at block row `first`, and the others.
pub(super) struct Unknowns<'a, V> {
    pub first: usize,
    pub new: &'a [V],
    /// `None` is zero.
    pub old: Option<&'a [V]>,
}

impl<V> Unknowns<'_, V> {
    /// Those of block row `j`, of `n` rows.
    #[inline(always)]
    fn of(&self, j: usize, n: usize) -> Option<&[V]> {
        let begin = j.wrapping_sub(self.first).wrapping_mul(n);
        match self.new.get(begin..begin.wrapping_add(n)) {
            Some(x) => Some(x),
            None => self.old.map(|old| &old[j * n..][..n]),
        }
    }
}

/// Solves block row i for its own unknowns `x`: with the inverse of the diagonal block, or, where there is only that of
/// the diagonal, by one sweep inside the block. Compiled once for all sweeps of these types.
#[inline(never)]
pub(super) fn block_row<S: Number, V: Number>(
    a: &CsrView<'_, S>,
    inverse: &[S],
    b: &[V],
    i: usize,
    x: &mut [V],
    others: &Unknowns<'_, V>,
    backward: bool,
) {
    let n = x.len();
    let mut rest = [V::Wide::ZERO; MAX_BLOCK];
    for (rest, b) in rest.iter_mut().zip(&b[i * n..][..n]) {
        *rest = b.widen();
    }
    let mut own = None;
    for p in a.row_range(i) {
        let j = a.col(p);
        if j == i {
            own = Some(a.block_at(p));
        } else if let Some(x) = others.of(j, n) {
            subtract_product(a.block_at(p), x, &mut rest[..n]);
        }
    }
    // Without a diagonal block there is no inverse either.
    let Some(own) = own else { return };
    if inverse.len() == a.scalar_rows() {
        for r in 0..n {
            let r = if backward { n - 1 - r } else { r };
            subtract_product(&own[r * n..][..n], x, &mut rest[r..=r]);
            x[r] = V::narrow(x[r].widen() + inverse[i * n + r].cast::<V::Wide>() * rest[r]);
        }
    } else {
        subtract_product(own, x, &mut rest[..n]);
        for (x, d) in x.iter_mut().zip(inverse[i * n * n..][..n * n].chunks_exact(n)) {
            let step: V::Wide = d.iter().zip(&rest).map(|(d, r)| d.cast::<V::Wide>() * *r).sum();
            *x = V::narrow(x.widen() + step);
        }
    }
}

/// y -= B x for a block of as many rows as y has.
#[inline(always)]
fn subtract_product<S: Number, V: Number>(block: &[S], x: &[V], y: &mut [V::Wide]) {
    for (y, row) in y.iter_mut().zip(block.chunks_exact(x.len())) {
        for (v, x) in row.iter().zip(x) {
            *y -= v.cast::<V::Wide>() * x.widen();
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn one_piece_is_gauss_seidel() {
        let t = [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 4.0), (1, 2, -1.0), (2, 1, -1.0), (2, 2, 4.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let inverse = l1_inverse::<f64, f64>(&a.view(), None, 1).unwrap();
        assert_eq!(inverse, [0.25; 3]);
        let mut x = [0.0; 3];
        sweep(&a.view(), &inverse, &[4.0, 8.0, 4.0], None, &mut x, false);
        assert_eq!(x, [1.0, 2.25, 1.5625]);
        let mut x = [0.0; 3];
        sweep(&a.view(), &inverse, &[4.0, 8.0, 4.0], None, &mut x, true);
        assert_eq!(x, [1.5625, 2.25, 1.0]);
    }

    #[test]
    fn blocks_are_swept_like_their_scalars() {
        let blocks = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
        let scalars = blocks.view().to_scalar().unwrap();
        let b: Vec<f64> = (0..scalars.rows).map(|i| (i % 5) as f64).collect();
        for backward in [false, true] {
            let run = |a: &Csr<f64>| {
                let inverse = l1_inverse::<f64, f64>(&a.view(), None, 1).unwrap();
                let old = vec![0.5; b.len()];
                let mut x = old.clone();
                sweep(&a.view(), &inverse, &b, Some(&old), &mut x, backward);
                x
            };
            let (x, y) = (run(&blocks), run(&scalars));
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-13));
        }
    }

    #[test]
    fn several_pieces_lower_the_energy_of_the_error() {
        let a = gallery::poisson5(100, 100).unwrap();
        let energy = |x: &[f64]| -> f64 {
            (0..a.rows).map(|i| x[i] * a.view().row(i).map(|(j, v)| v[0] * x[j]).sum::<f64>()).sum()
        };
        let inverse = l1_inverse::<f64, f64>(&a.view(), None, 1).unwrap();
        // The solution is 0, so x is the error.
        let mut x: Vec<f64> = (0..a.rows).map(|i| ((i * 7919) % 13) as f64 - 6.0).collect();
        let mut before = energy(&x);
        for backward in [false, true, false, true] {
            let old = x.clone();
            sweep(&a.view(), &inverse, &vec![0.0; a.rows], Some(&old), &mut x, backward);
            let after = energy(&x);
            assert!(after < before, "{after} after {before}");
            before = after;
        }
    }

    #[test]
    fn couplings_to_other_pieces_enlarge_the_diagonal_by_no_more_than_they_must() {
        // Rows 0 to 3 are coupled to the second piece by 1, 2, 3 and 8, half of that in each of two entries.
        let far = piece(5000);
        let couplings = [1.0, 2.0, 3.0, 8.0];
        let mut t: Vec<_> = (0..5000).map(|i| (i, i, if i == 1 { -4.0 } else { 4.0 })).collect();
        for (i, c) in couplings.iter().enumerate() {
            t.extend([(i, far + i, 0.5 * c), (i, far + 100 + i, -0.5 * c)]);
        }
        let a = Csr::from_triplets(5000, 5000, &t).unwrap();
        let inverse = l1_inverse::<f64, f64>(&a.view(), None, 1).unwrap();
        assert_eq!(inverse[..5], [1.0 / 4.0, -1.0 / 4.0, 1.0 / 5.0, 1.0 / 8.0, 1.0 / 4.0]);
    }

    #[test]
    fn pieces_of_blocks_lower_the_energy_of_the_error_too() {
        // Enough nodes for two pieces.
        let a = gallery::elasticity_hex8(17, gallery::Layers::NONE, true).unwrap().matrix;
        let a = a.view();
        assert!(a.rows > piece(a.rows));
        let n = a.scalar_rows();
        let energy = |x: &[f64]| -> f64 {
            let mut ax = vec![0.0; n];
            crate::host::spmv::apply(&a, 1.0, x, 0.0, &mut ax);
            x.iter().zip(&ax).map(|(x, y)| x * y).sum()
        };
        for width in [1, 3] {
            let inverse = l1_inverse::<f64, f64>(&a, None, width).unwrap();
            let mut x: Vec<f64> = (0..n).map(|i| ((i * 7919) % 13) as f64 - 6.0).collect();
            let mut before = energy(&x);
            for backward in [false, true, false, true] {
                let old = x.clone();
                sweep(&a, &inverse, &vec![0.0; n], Some(&old), &mut x, backward);
                let after = energy(&x);
                assert!(after < before, "{after} after {before}");
                before = after;
            }
        }
    }
}
