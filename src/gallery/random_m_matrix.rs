//! Random symmetric positive definite M-matrices: graph Laplacians with no geometry behind them.

use super::family::Parameter;
use crate::error::{Result, fail, try_capacity};
use crate::hash::hash;
use crate::sparse::Csr;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::whole("edges", 3, 1, 100, "couplings that each row begins; about as many end in it"),
    Parameter::whole("reach", 40, 1, 1_000_000_000, "largest distance of coupled rows"),
    Parameter::real("dominance", 1e-3, 1e-12, 1e12, "largest excess of a diagonal over its couplings"),
    Parameter::whole("seed", 0, 0, u32::MAX, "number of the matrix"),
];

/// The shape of a random matrix.
#[derive(Clone, Copy, Debug)]
pub struct RandomMMatrix {
    /// Couplings that each row begins.
    pub edges: usize,
    /// Largest distance of coupled rows.
    pub reach: usize,
    /// Largest excess of a diagonal.
    pub dominance: f64,
    /// Number of the matrix.
    pub seed: u64,
}

/// A matrix of n rows. Row i is coupled with `edges` of the `reach` rows after it, or of those that there are, with
/// weights from 0 to 1; couplings that are drawn twice are added. The diagonal exceeds the sum of the couplings by up
/// to `dominance`, never by nothing. All choices are hashes of row and `seed`.
pub fn random_m_matrix(n: usize, shape: RandomMMatrix) -> Result<Csr<f64>> {
    let RandomMMatrix { edges, reach, dominance, seed } = shape;
    let triplets =
        edges.checked_mul(2).and_then(|t| (t + 1).checked_mul(n)).filter(|_| n > 0 && n <= i32::MAX as usize);
    let Some(most) = triplets else {
        return fail!(
            InvalidArgument,
            "the matrix has {n} rows with {edges} couplings each; accepted: 1 to {} rows",
            i32::MAX
        );
    };
    let mut triplets = try_capacity(most)?;
    let mut diagonal = crate::error::try_vec(n, 0.0)?;
    for i in 0..n {
        let row = hash(i, seed);
        diagonal[i] += dominance * unit(hash(0, row));
        let partners = reach.min(n - 1 - i);
        for edge in (1..=edges).filter(|_| partners > 0) {
            let j = i + 1 + (hash(2 * edge, row) % partners as u64) as usize;
            let weight = unit(hash(2 * edge + 1, row));
            triplets.extend([(i, j, -weight), (j, i, -weight)]);
            diagonal[i] += weight;
            diagonal[j] += weight;
        }
    }
    triplets.extend(diagonal.into_iter().enumerate().map(|(i, d)| (i, i, d)));
    Csr::from_triplets(n, n, &triplets)
}

/// A number above 0 and at most 1.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{is_m_matrix, row_sum, symmetric};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_matrix_is_a_symmetric_m_matrix_with_positive_row_sums(
            n in 1_usize..200, edges in 1_usize..8, reach in 1_usize..300, seed in 0_u64..1000
        ) {
            let dominance = 0.5;
            let a = random_m_matrix(n, RandomMMatrix { edges, reach, dominance, seed }).unwrap();
            prop_assert_eq!(a.rows, n);
            prop_assert!(symmetric(&a) && is_m_matrix(&a));
            for i in 0..n {
                let sum = row_sum(&a, i);
                prop_assert!(sum > -1e-13 && sum < dominance + 1e-13);
                prop_assert!(a.view().row(i).all(|(j, _)| i.abs_diff(j) <= reach));
                // All but the last row are coupled with a later one.
                prop_assert!(i + 1 == n || a.view().row(i).any(|(j, _)| j > i));
            }
        }
    }

    #[test]
    fn the_seed_chooses_the_matrix() {
        let shape = RandomMMatrix { edges: 3, reach: 40, dominance: 1e-3, seed: 1 };
        let a = random_m_matrix(100, shape).unwrap();
        assert_eq!(a, random_m_matrix(100, shape).unwrap());
        assert_ne!(a, random_m_matrix(100, RandomMMatrix { seed: 2, ..shape }).unwrap());
        assert!(random_m_matrix(0, shape).is_err());
    }
}
