//! Graph Laplacians in which a few unknowns are coupled with very many: rows of very different lengths, as circuits and
//! networks have them.

use super::family::Parameter;
use crate::error::{Result, fail, try_capacity, try_vec};
use crate::sparse::Csr;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::whole("hubs", 1, 1, 1000, "unknowns that are coupled with many"),
    Parameter::whole("every", 1, 1, 1_000_000, "distance of those that a hub is coupled with"),
];

/// n unknowns on a line, each coupled with the next by a weight of 1. `hubs` of them, in equal distances from the first
/// on, are coupled with each unknown whose number is a multiple of `every` by another 1. The diagonal is the sum of the
/// couplings, and 1 more in the first row.
pub fn hubs(n: usize, hubs: usize, every: usize) -> Result<Csr<f64>> {
    let couplings = (hubs.min(n)).checked_mul(n.div_ceil(every.max(1))).and_then(|c| c.checked_add(n));
    let Some(most) = couplings.and_then(|c| c.checked_mul(2)?.checked_add(n)).filter(|_| n > 0 && every > 0) else {
        return fail!(InvalidArgument, "there are {n} rows with {hubs} hubs; accepted: rows that memory can hold");
    };
    let (mut triplets, mut diagonal) = (try_capacity(most)?, try_vec(n, 0.0)?);
    diagonal[0] = 1.0;
    let mut couple = |i: usize, j: usize| {
        triplets.extend([(i, j, -1.0), (j, i, -1.0)]);
        diagonal[i] += 1.0;
        diagonal[j] += 1.0;
    };
    (1..n).for_each(|i| couple(i - 1, i));
    for hub in (0..hubs.min(n)).map(|h| h * n / hubs.min(n)) {
        (0..n).step_by(every).filter(|i| *i != hub).for_each(|i| couple(hub, i));
    }
    triplets.extend(diagonal.into_iter().enumerate().map(|(i, d)| (i, i, d)));
    Csr::from_triplets(n, n, &triplets)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery::testing::{is_m_matrix, row_sum, symmetric};

    #[test]
    fn one_hub_is_an_arrow_on_a_line() {
        let a = hubs(5, 1, 1).unwrap();
        let row = |i: usize| a.view().row(i).map(|(j, v)| (j, v[0])).collect::<Vec<_>>();
        assert_eq!(row(0), [(0, 6.0), (1, -2.0), (2, -1.0), (3, -1.0), (4, -1.0)]);
        assert_eq!(row(3), [(0, -1.0), (2, -1.0), (3, 3.0), (4, -1.0)]);
        assert_eq!(hubs(1, 3, 7).unwrap().values, [1.0]);
        assert!(hubs(0, 1, 1).is_err());
    }

    #[test]
    fn the_matrix_is_a_symmetric_m_matrix_and_hubs_are_its_long_rows() {
        let a = hubs(100, 4, 3).unwrap();
        assert!(symmetric(&a) && is_m_matrix(&a));
        assert!((0..100).all(|i| row_sum(&a, i) == if i == 0 { 1.0 } else { 0.0 }));
        let long: Vec<usize> = (0..100).filter(|i| a.view().row(*i).count() > 30).collect();
        assert_eq!(long, [0, 25, 50, 75]);
    }
}
