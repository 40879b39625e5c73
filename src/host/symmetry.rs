//! Whether a matrix is symmetric, and the signs of its diagonal, in one pass.
//!
//! For random vectors x and y, x·A y - y·A x is the sum of a_ij (x_i y_j - y_i x_j). It is zero for a symmetric
//! matrix, and otherwise of the size of A - Aᵀ. Random numbers are hashes of the index, so every backend finds the same.

use crate::backend::common::{SYMMETRY_SEED, Symmetry};
use crate::error::Result;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// Elements of x and y, between -2^15 and 2^15: the halves of a hash, the finaliser of MurmurHash3. It is computed for every entry, so it is a
/// short one.
fn random(i: usize) -> (f64, f64) {
    let mut h = i as u32 ^ SYMMETRY_SEED;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    (f64::from((h >> 16) as i16), f64::from(h as i16))
}

/// x_i y_j - y_i x_j, of size 1.
fn weight((x_i, y_i): (f64, f64), (x_j, y_j): (f64, f64)) -> f64 {
    (x_i * y_j - y_i * x_j) * (-30_f64).exp2()
}

/// The sums over a square matrix.
pub fn symmetry<T: Scalar>(a: &CsrView<'_, T>) -> Result<Symmetry> {
    let (rows, cols) = (a.block.rows, a.block.cols);
    let parts = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut sum = Symmetry::default();
        for i in range {
            for k in a.row_range(i) {
                let j = a.col(k);
                for (e, v) in a.block_at(k).iter().enumerate() {
                    let (row, col, v) = (i * rows + e / cols, j * cols + e % cols, v.to_f64());
                    if row == col {
                        sum.positive += u64::from(v > 0.0);
                        sum.negative += u64::from(v < 0.0);
                        continue;
                    }
                    let term = v * weight(random(row), random(col));
                    sum.difference += term;
                    sum.squares += term * term;
                }
            }
        }
        Ok(sum)
    })?;
    Ok(parts.into_iter().fold(Symmetry::default(), Symmetry::plus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;

    fn of(name: &str) -> Symmetry {
        symmetry(&gallery::parse(name).unwrap().matrix.view()).unwrap()
    }

    #[test]
    fn symmetric_matrices_are_told_from_others() {
        for name in
            ["poisson7:12", "jumps:8", "elasticity:4", "rotated_anisotropic:20", "random_m_matrix:500", "hubs:300"]
        {
            let found = of(name);
            assert!(found.is_symmetric::<f64>(), "{name}: {found:?}");
            assert_eq!((found.negative, found.is_negative()), (0, false), "{name}");
        }
        for name in ["convection_diffusion:20", "convection_diffusion:30:epsilon=10", "convection_diffusion:3"] {
            assert!(!of(name).is_symmetric::<f64>(), "{name}: {:?}", of(name));
        }
    }

    #[test]
    fn one_entry_is_enough_and_rounding_is_not() {
        let mut a = gallery::parse("poisson5:100").unwrap().matrix;
        let entry = a.offsets[5000] as usize;
        a.values[entry] *= 1.0 + 1e-14;
        assert!(symmetry(&a.view()).unwrap().is_symmetric::<f64>());
        a.values[entry] *= 1.0 + 1e-3;
        assert!(!symmetry(&a.view()).unwrap().is_symmetric::<f64>());
        a.values.iter_mut().for_each(|v| *v = -*v);
        assert!(symmetry(&a.view()).unwrap().is_negative());
    }
}
