//! Smoothing of a tentative prolongator by one damped Jacobi step: P = (I - w/λ D^-1 A_F) P_0, where D is the diagonal of A_F, or has its
//! diagonal blocks.
//!
//! For scalar matrices A_F is A without its weak couplings, which are added to the diagonal so that row sums stay; block matrices
//! are used whole, because adding blocks to the diagonal would only keep translations.

use super::diagonal::{self, MAX_BLOCK};
use super::eigenvalue::Estimate;
use super::spgemm::{self, Dynamic, multiply_block};
use super::{Host, rows};
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

/// Smooths `tentative` with weight `weight` over the largest eigenvalue λ of D^-1 A_F. Also gives λ where A_F is A. With `pattern` (of an
/// earlier result for the same graph and aggregates) only values are computed.
pub fn smooth<T: Scalar>(
    host: &Host,
    a: &CsrView<'_, T>,
    s: &Graph,
    tentative: &Csr<T>,
    (weight, estimate): (f64, Estimate),
    pattern: Option<&Arc<Structure>>,
) -> Result<(SharedCsr<T>, Option<f64>)> {
    // Usually every coupling is strong, and A itself will do.
    let weak = s.columns.len() + a.rows < a.nnz();
    let filtered = if a.block == Block::SCALAR && weak { Some(filter(a, s)?) } else { None };
    let a = filtered.as_ref().map_or(*a, Csr::view);
    let n = a.block.rows;
    let inverse: Vec<T> = diagonal::inverse(&a, n, diagonal::AS_IT_IS)?;
    let largest = estimate.largest(host, &a, &inverse)?;
    let factor = if largest > 0.0 { T::from_f64(-weight / largest) } else { T::ZERO };

    let p0 = tentative.view();
    let (cols, width) = (p0.block.cols, p0.block.len());
    let finish = |i: usize, columns: &[i32], values: &mut [T]| {
        let inverse = &inverse[i * n * n..][..n * n];
        if n == 1 {
            let scale = factor * inverse[0];
            values.iter_mut().for_each(|v| *v *= scale);
        } else {
            for block in values.chunks_exact_mut(width) {
                let mut product = [T::ZERO; MAX_BLOCK * MAX_BLOCK];
                multiply_block(Dynamic { rows: n, inner: n, cols }, inverse, block, &mut product);
                for (v, product) in block.iter_mut().zip(product) {
                    *v = factor * product;
                }
            }
        }
        for (j, start) in p0.row(i) {
            // The diagonal of A brings every column of P_0 into the product's pattern.
            let at = columns.iter().position(|c| *c as usize == j).expect("the diagonal is stored");
            for (v, s) in values[at * width..][..width].iter_mut().zip(start) {
                *v += *s;
            }
        }
    };
    let p = match pattern {
        None => spgemm::multiply_and(&a, &p0, &finish)?.into_shared(),
        Some(structure) => {
            let values = spgemm::renew_and(&a, &p0, structure, &finish)?;
            SharedCsr { structure: Arc::clone(structure), values: Arc::new(values) }
        }
    };
    Ok((p, if filtered.is_none() { Some(largest) } else { None }))
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

        let (p, largest) =
            smooth(&host, &a.view(), &s, &p0, (4.0 / 3.0, Estimate::from_config(&Config::new())), None).unwrap();
        assert_eq!(largest, None, "that of A was not needed");

        // A 1 = 0, so smoothing leaves the constant alone, and only neighbours of an aggregate's edge gain entries.
        let sums: Vec<f64> = (0..n).map(|i| p.view().row(i).map(|(_, v)| v[0]).sum()).collect();
        assert!(sums.iter().all(|s| (s - 1.0 / 3.0_f64.sqrt()).abs() < 1e-14));
        assert_eq!((p.view().row_range(4).len(), p.view().row_range(3).len()), (1, 2));

        // Renewal gives the same bits.
        let estimate = Estimate::from_config(&Config::new());
        let (again, _) = smooth(&host, &a.view(), &s, &p0, (4.0 / 3.0, estimate), Some(&p.structure)).unwrap();
        assert_eq!(again.values.as_slice(), p.values.as_slice());
    }
}
