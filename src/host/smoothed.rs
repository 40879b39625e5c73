//! Smoothing of a tentative prolongator by one damped Jacobi step: P = (I - w/λ D^-1 A_F) P_0.
//!
//! For scalar matrices A_F is A without its weak couplings, which are added to the diagonal so that row sums stay; block matrices
//! are used whole, because adding blocks to the diagonal would only keep translations.

use super::eigenvalue::Estimate;
use super::{Host, par, rows, spgemm};
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView};

/// Smooths `tentative` with weight `weight` over the largest eigenvalue of D^-1 A_F.
pub fn smooth<T: Scalar>(
    host: &Host,
    a: &CsrView<'_, T>,
    s: &Graph,
    tentative: &Csr<T>,
    weight: f64,
    estimate: Estimate,
) -> Result<Csr<T>> {
    // Usually every coupling is strong, and A itself will do.
    let weak = s.columns.len() + a.rows < a.nnz();
    let filtered = if a.block == Block::SCALAR && weak { Some(filter(a, s)?) } else { None };
    let a = filtered.as_ref().map_or(*a, Csr::view);
    let inverse = inverse_diagonal(&a)?;
    let largest = estimate.largest(host, &a, &inverse)?;
    let factor = if largest > 0.0 { T::from_f64(-weight / largest) } else { T::ZERO };

    let p0 = tentative.view();
    let block = p0.block;
    spgemm::multiply_and(&a, &p0, &|i, columns, values| {
        for entry in values.chunks_exact_mut(block.len()) {
            for (r, part) in entry.chunks_exact_mut(block.cols).enumerate() {
                let scale = factor * inverse[i * block.rows + r];
                for v in part {
                    *v *= scale;
                }
            }
        }
        for (j, start) in p0.row(i) {
            // The diagonal of A brings every column of P_0 into the product's pattern.
            let at = columns.iter().position(|c| *c as usize == j).expect("the diagonal is stored");
            for (v, s) in values[at * block.len()..][..block.len()].iter_mut().zip(start) {
                *v += *s;
            }
        }
    })
}

/// A with its weak couplings added to the diagonal.
fn filter<T: Scalar>(a: &CsrView<'_, T>, s: &Graph) -> Result<Csr<T>> {
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        for i in range {
            let start = out.columns.len();
            let mut strong = s.row(i).iter().peekable();
            let mut diagonal = T::ZERO;
            let mut place = start;
            for k in a.row_range(i) {
                let j = a.col(k);
                let is_strong = strong.next_if(|next| **next as usize == j).is_some();
                if j == i {
                    place = out.columns.len();
                    out.columns.push(j as i32);
                    out.values.push(T::ZERO);
                }
                if is_strong {
                    out.columns.push(j as i32);
                    out.values.push(a.values[k]);
                } else {
                    diagonal += a.values[k];
                }
            }
            out.values[place] = diagonal;
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
}

/// 1/a_ii for each scalar row, 0 where the diagonal is not positive relative to its sign convention (never for SPD matrices).
pub fn inverse_diagonal<T: Scalar>(a: &CsrView<'_, T>) -> Result<Vec<T>> {
    let mut inverse = crate::error::try_vec(a.scalar_rows(), T::ZERO)?;
    let (br, bc) = (a.block.rows, a.block.cols);
    par::for_each_row_mut(&mut inverse, br, par::ROW_GRAIN, |start, piece| {
        for (k, out) in piece.chunks_exact_mut(br).enumerate() {
            let i = start + k;
            if let Some(p) = a.row_range(i).find(|p| a.col(*p) == i) {
                let block = a.block_at(p);
                for (r, out) in out.iter_mut().enumerate() {
                    let d = block[r * bc + r];
                    *out = if d == T::ZERO { T::ZERO } else { T::ONE / d };
                }
            }
        }
    });
    Ok(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amg::null_space::NearNullSpace;
    use crate::config::Config;
    use crate::context::Context;
    use crate::host::{strength, tentative};

    #[test]
    fn interior_rows_keep_the_constant_and_weak_couplings_are_lumped() {
        // Strong couplings along a line, weak ones two apart.
        let n = 30;
        let mut t = Vec::new();
        for i in 0..n {
            for (d, v) in [(1, -1.0), (2, -0.001)] {
                if i + d < n {
                    t.extend([(i, i + d, v), (i + d, i, v), (i, i, -v), (i + d, i + d, -v)]);
                }
            }
        }
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let s = strength::symmetric(&a.view(), 0.08).unwrap();
        assert_eq!(s.row(5), [4, 6]);
        let aggregates: Vec<i32> = (0..n as i32).map(|i| i / 3).collect();
        let space = NearNullSpace::constants(n, 1).unwrap();
        let (p0, _) = tentative::prolongator(&aggregates, 10, &space).unwrap();
        let host = Host::new(&Context::new("host:1").unwrap());

        let p = smooth(&host, &a.view(), &s, &p0, 4.0 / 3.0, Estimate::from_config(&Config::new())).unwrap();

        // A 1 = 0, so smoothing leaves the constant alone, and only neighbours of an aggregate's edge gain entries.
        let sums: Vec<f64> = (0..n).map(|i| p.view().row(i).map(|(_, v)| v[0]).sum()).collect();
        assert!(sums.iter().all(|s| (s - 1.0 / 3.0_f64.sqrt()).abs() < 1e-14));
        assert_eq!(p.offsets[5] - p.offsets[4], 1);
        assert_eq!(p.offsets[4] - p.offsets[3], 2);
    }
}
