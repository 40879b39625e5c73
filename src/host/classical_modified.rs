//! Classical interpolation (Ruge and Stüben, 1987), modified for splittings in which two strongly coupled fine unknowns
//! need not have a common coarse neighbour, such as PMIS's.
//!
//! C_i are the strong coarse neighbours of i, F_i its strong fine ones. With ā_kl = a_kl where its sign differs from
//! that of a_kk, and 0 elsewhere,
//!
//! w_ij = -1/ã_ii (a_ij + Σ_{k∈F_i} a_ik ā_kj / b_ik),    b_ik = Σ_{l∈C_i} ā_kl,    ã_ii = a_ii + Σ_{weak n} a_in,
//!
//! where a neighbour k∈F_i with b_ik = 0, which has nothing to be spread over, counts as weak. This is extended+i
//! interpolation with C_i in place of Ĉ_i and without i, so that rows are computed there.

use super::Host;
use super::extended_i::by_formula;
use super::truncate::Truncation;
use crate::backend::common::Formula;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Csr, CsrView, Graph, Structure};

/// Interpolation from the coarse unknowns to all.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    coarse: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    by_formula(Formula::ClassicalModified, a, s, coarse, None, truncation, pattern)
}

/// The component.
pub struct ClassicalModified;

impl<T: Scalar> Interpolation<Host, T> for ClassicalModified {
    fn interpolate(&self, input: &InterpolationInput<'_, Host, T>) -> Result<Interpolated<Host, T>> {
        let coarse = input.splitting("classical_modified")?;
        let pattern = input.pattern().map(|pattern| &**pattern.rows());
        let p = interpolate(&input.a.view(), input.graph, coarse, input.truncation, pattern)?;
        Ok(Interpolated::alone(p.into_shared().into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::strength;
    use proptest::prelude::*;

    const ALL: Truncation = Truncation::new(0, 0.0);

    fn row_of(p: &Csr<f64>, i: usize) -> Vec<(usize, f64)> {
        p.view().row(i).map(|(j, v)| (j, v[0])).collect()
    }

    #[test]
    fn a_fine_neighbour_is_spread_over_common_coarse_ones_or_added_to_the_diagonal() {
        // 0 and 1 are fine and see the coarse 2, 1 also the coarse 3; 4 is fine, sees 0 and the coarse 3 only.
        let pairs = [(0, 1, -1.0), (0, 2, -2.0), (1, 2, -1.0), (1, 3, -3.0), (0, 4, -1.0), (4, 3, -2.0)];
        let mut t: Vec<_> = pairs.iter().flat_map(|&(i, j, v)| [(i, j, v), (j, i, v)]).collect();
        t.extend([(0, 0, 5.0), (1, 1, 5.0), (2, 2, 3.0), (3, 3, 5.0), (4, 4, 3.0)]);
        let a = Csr::from_triplets(5, 5, &t).unwrap();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let p = interpolate(&a.view(), &s, &[false, false, true, true, false], ALL, None).unwrap();
        // Row 0: C_0 = {2}. Neighbour 1 has its -1 spread over 2; 4 has no coupling to 2 and joins the diagonal: 5 - 1.
        assert_eq!(row_of(&p, 0), [(0, 0.75)]);
        // Row 1: C_1 = {2, 3}. Neighbour 0 is spread over 2: (1 + 1)/5 and 3/5.
        let row = row_of(&p, 1);
        assert!((row[0].1 - 0.4).abs() < 1e-15 && (row[1].1 - 0.6).abs() < 1e-15, "{row:?}");
    }

    proptest! {
        #[test]
        fn constants_are_kept_where_the_row_sum_is_zero(n in 3_usize..30, seed in 0_u64..1000) {
            // A ring with random chords: a graph Laplacian.
            let mut edges: Vec<_> = (0..n).map(|i| (i, (i + 1) % n)).collect();
            edges.extend((0..n).map(|k| (k, (crate::hash::hash(k, seed) as usize) % n)).filter(|(i, j)| i != j));
            let mut t = Vec::new();
            for (k, (i, j)) in edges.into_iter().enumerate() {
                let v = 1.0 + (crate::hash::hash(k, seed + 1) % 8) as f64;
                t.extend([(i, j, -v), (j, i, -v), (i, i, v), (j, j, v)]);
            }
            let a = Csr::from_triplets(n, n, &t).unwrap();
            let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
            let coarse = crate::host::pmis::split(&s, &s.transpose().unwrap(), seed).unwrap();
            let p = interpolate(&a.view(), &s, &coarse, ALL, None).unwrap();
            for i in 0..n {
                let row = row_of(&p, i);
                prop_assert!(row.iter().all(|(_, w)| *w >= 0.0));
                prop_assert!(row.is_empty() || (row.iter().map(|r| r.1).sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }
}
