//! The pivots of DILU on the host, colour after colour.

use super::{Host, HostMatrix};
use crate::backend::dilu::{DiluPivots, Pivots, SMALLEST_PIVOT};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Colouring, CsrView};

impl DiluPivots for Host {
    fn dilu_pivots<T: Scalar>(&self, a: &HostMatrix<T>) -> Result<Pivots<Colouring, Vec<T>>> {
        pivots(&a.view())
    }
}

/// The pivots, in the order of the colours.
pub(crate) fn pivots<T: Scalar>(a: &CsrView<'_, T>) -> Result<Pivots<Colouring, Vec<T>>> {
    assert_eq!(a.block, Block::SCALAR);
    let colouring = Colouring::new(a)?;
    let (mut inverse, mut lost) = (try_vec(a.rows, T::ZERO)?, try_vec(a.rows, T::ZERO)?);
    let (mut new_inverse, mut new_lost) = (try_vec(a.rows, T::ZERO)?, try_vec(a.rows, T::ZERO)?);
    let mut is_done = try_vec(a.rows, 0_u8)?;
    for colour in 0..colouring.count() {
        let rows = &colouring.rows[colouring.starts[colour]..colouring.starts[colour + 1]];
        let (new_inverse, new_lost) = (&mut new_inverse[..rows.len()], &mut new_lost[..rows.len()]);
        let (known, done) = (&inverse, &is_done);
        par::for_each_mut2(new_inverse, new_lost, par::ROW_GRAIN, |start, new_inverse, new_lost| {
            for (k, (inverse, lost)) in new_inverse.iter_mut().zip(new_lost).enumerate() {
                (*inverse, *lost) = pivot(a, rows[start + k] as usize, known, done);
            }
        });
        for (k, i) in rows.iter().enumerate() {
            let i = *i as usize;
            (inverse[i], lost[i], is_done[i]) = (new_inverse[k], new_lost[k], 1);
        }
    }
    Ok(Pivots { colouring, inverse, lost })
}

/// Those of row i; the neighbours of earlier colours are done.
fn pivot<T: Scalar>(a: &CsrView<'_, T>, i: usize, inverse: &[T], is_done: &[u8]) -> (T, T) {
    let (mut own, mut lost) = (T::ZERO, T::ZERO);
    let (mut has_positive, mut has_negative) = (false, false);
    for k in a.row_range(i) {
        let j = a.col(k);
        if j == i {
            own = a.values[k];
            continue;
        }
        has_positive |= a.values[k] > T::ZERO;
        has_negative |= a.values[k] < T::ZERO;
        if is_done[j] != 0 {
            let back = a.row_range(j).find(|k| a.col(*k) == i).map_or(T::ZERO, |k| a.values[k]);
            lost += a.values[k] * inverse[j] * back;
        }
    }
    if own == T::ZERO {
        return (T::ZERO, T::ZERO);
    }
    // A share that is not a number is not above the bound either.
    let is_large = (own - lost) / own > T::from_f64(SMALLEST_PIVOT);
    let is_of_m_matrix = if own > T::ZERO { !has_positive } else { !has_negative };
    let lost = if is_large && is_of_m_matrix { lost } else { T::ZERO };
    (T::ONE / (own - lost), lost)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    /// M, as a dense matrix made of the pivots in the order of the colours, has the diagonal of A.
    #[test]
    fn the_product_of_the_factors_has_the_diagonal_of_the_matrix() {
        let nonsymmetric =
            [(0, 0, 4.0), (0, 1, -1.0), (1, 0, -2.0), (1, 1, 5.0), (1, 2, -1.0), (2, 1, -3.0), (2, 2, 6.0)];
        for a in [gallery::poisson5(4, 3).unwrap(), Csr::from_triplets(3, 3, &nonsymmetric).unwrap()] {
            let n = a.rows;
            let Pivots { colouring, inverse, lost } = pivots(&a.view()).unwrap();
            let mut place = vec![0; n];
            colouring.rows.iter().enumerate().for_each(|(at, i)| place[*i as usize] = at);
            let mut dense = vec![vec![0.0; n]; n];
            for (i, row) in dense.iter_mut().enumerate() {
                a.view().row(i).for_each(|(j, v)| row[j] = v[0]);
            }
            assert!(lost.iter().any(|l| *l > 0.0));
            for i in 0..n {
                let e = 1.0 / inverse[i];
                assert!((dense[i][i] - e - lost[i]).abs() < 1e-14);
                // (E + L) E⁻¹ (E + U) on the diagonal: e_i + Σ l_ij u_ji / e_j.
                let earlier = (0..n).filter(|j| place[*j] < place[i]);
                let product: f64 = earlier.map(|j| dense[i][j] * inverse[j] * dense[j][i]).sum();
                assert!((e + product - dense[i][i]).abs() < 1e-14, "{i}");
            }
        }
    }

    #[test]
    fn pivots_that_would_vanish_or_enlarge_errors_are_those_of_gauss_seidel() {
        // The pivot of the second of the first two rows would be 0; the last two are coupled with the sign of the diagonal.
        let t = [(0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 1.0), (2, 2, 0.0), (3, 3, 2.0)];
        let positive = [(4, 4, 2.0), (4, 5, 1.0), (5, 4, 1.0), (5, 5, 2.0)];
        let a = Csr::from_triplets(6, 6, &[&t[..], &positive[..]].concat()).unwrap();
        let Pivots { inverse, lost, .. } = pivots(&a.view()).unwrap();
        assert_eq!((inverse, lost), (vec![1.0, 1.0, 0.0, 0.5, 0.5, 0.5], vec![0.0; 6]));
    }
}
