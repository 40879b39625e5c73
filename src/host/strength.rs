//! Strength of connection on the host.

use super::rows;
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// Classical measure: j is strong for i when -a_ij is at least `theta` times the largest -a_ik of the row, signs taken
/// relative to the diagonal. For scalar matrices.
pub fn classical<T: Scalar>(a: &CsrView<'_, T>, theta: f64) -> Result<Graph> {
    let theta = T::from_f64(theta);
    graph(a, |i, out| {
        let sign = if a.row(i).any(|(j, v)| j == i && v[0] < T::ZERO) { -T::ONE } else { T::ONE };
        let coupling = |k: usize| -a.values[k] * sign;
        let mut largest = T::ZERO;
        for k in a.row_range(i) {
            if a.col(k) != i && coupling(k) > largest {
                largest = coupling(k);
            }
        }
        if largest > T::ZERO {
            let strong = |k: &usize| a.col(*k) != i && coupling(*k) > T::ZERO && coupling(*k) >= theta * largest;
            out.extend(a.row_range(i).filter(strong).map(|k| a.col(k) as i32));
        }
    })
}

/// Symmetric measure: j is strong for i when |a_ij| is at least `theta` times sqrt(|a_ii a_jj|). Blocks are measured by their
/// Frobenius norm.
pub fn symmetric<T: Scalar>(a: &CsrView<'_, T>, theta: f64) -> Result<Graph> {
    let norm2 = |k: usize| -> f64 { a.block_at(k).iter().map(|v| v.to_f64() * v.to_f64()).sum() };
    // Squared norm of each diagonal block.
    let mut diagonal = crate::error::try_vec(a.rows, 0.0)?;
    super::par::for_each_mut(&mut diagonal, super::par::ROW_GRAIN, |start, d| {
        for (k, d) in d.iter_mut().enumerate() {
            let i = start + k;
            *d = a.row_range(i).find(|p| a.col(*p) == i).map_or(0.0, norm2);
        }
    });
    let theta4 = theta.powi(4);
    graph(a, |i, out| {
        let strong = |k: &usize| {
            let (j, n) = (a.col(*k), norm2(*k));
            j != i && n > 0.0 && n * n >= theta4 * diagonal[i] * diagonal[j]
        };
        out.extend(a.row_range(i).filter(strong).map(|k| a.col(k) as i32));
    })
}

/// A graph from the strong columns that `row` appends, in the order of the matrix's row.
fn graph<T: Scalar>(a: &CsrView<'_, T>, row: impl Fn(usize, &mut Vec<i32>) + Sync) -> Result<Graph> {
    let (offsets, columns, _) = rows::build::<()>(a.rows, 0, |range, out| {
        for i in range {
            let start = out.columns.len();
            row(i, &mut out.columns);
            out.end_row(start);
        }
        Ok(())
    })?;
    Ok(Graph { offsets, columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::Csr;

    #[test]
    fn classical_strength_is_relative_to_the_largest_negative_coupling() {
        let t =
            [(0, 0, 4.0), (0, 1, -2.0), (0, 2, -0.4), (0, 3, 3.0), (1, 1, 1.0), (2, 2, -4.0), (2, 0, 1.0), (3, 3, 1.0)];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let s = classical(&a.view(), 0.25).unwrap();
        assert_eq!(s.row(0), [1]);
        assert!(s.row(1).is_empty());
        assert_eq!(s.row(2), [0]);
        assert_eq!(classical(&a.view(), 0.2).unwrap().row(0), [1, 2]);
    }

    #[test]
    fn symmetric_strength_compares_with_both_diagonals() {
        let t = [(0, 0, 1.0), (0, 1, 1.0), (0, 2, 0.5), (1, 0, 1.0), (1, 1, 100.0), (2, 0, 0.5), (2, 2, 1.0)];
        let a = Csr::from_triplets(3, 3, &t).unwrap();
        let s = symmetric(&a.view(), 0.2).unwrap();
        assert_eq!(s.row(0), [2]);
        assert!(s.row(1).is_empty());
        assert_eq!(symmetric(&a.view(), 0.09).unwrap().row(0), [1, 2]);
    }
}
