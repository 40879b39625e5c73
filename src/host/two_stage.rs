//! Two-stage extended+i interpolation for aggressive coarsening: the first coarse unknowns are interpolated from those that the second
//! pass kept, and all unknowns from the first. P is the product of the two, truncated.
//!
//! A fine unknown may be four strong couplings away from the unknowns it is interpolated from, too far for a single formula; each stage
//! needs only the two that extended+i bridges.

use super::truncate::{self, Truncation};
use super::{extended_i, rows, spgemm};
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// Interpolation from the unknowns of `second` to all, through those of `first`. With `pattern` (a result of the same graph and
/// splittings), each row keeps the columns that it has there.
pub fn interpolate<T: Scalar>(
    a: &CsrView<'_, T>,
    s: &Graph,
    first: &[bool],
    second: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
) -> Result<Csr<T>> {
    let to_all = extended_i::interpolate(a, s, first, truncation, None)?;
    let to_first = select(&extended_i::interpolate(a, s, second, truncation, None)?.view(), first)?;
    let product = spgemm::multiply(&to_all.view(), &to_first.view())?;
    let view = product.view();
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        let mut kept = Vec::new();
        for i in range {
            let weights = view.row(i).map(|(j, w)| (j as i32, w[0]));
            match &pattern {
                Some(p) => truncate::keep_columns(&mut kept, p.row_range(i).map(|k| p.col(k) as i32), weights),
                None => {
                    kept.clear();
                    kept.extend(weights.filter(|(_, w)| *w != T::ZERO));
                    truncate::truncate(&mut kept, truncation);
                }
            }
            out.columns.extend(kept.iter().map(|k| k.0));
            out.values.extend(kept.iter().map(|k| k.1));
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: a.rows, cols: product.cols, block: Block::SCALAR, offsets, columns, values })
}

/// The rows of `a` that `wanted` names.
fn select<T: Scalar>(a: &CsrView<'_, T>, wanted: &[bool]) -> Result<Csr<T>> {
    let members: Vec<u32> = (0..a.rows as u32).filter(|i| wanted[*i as usize]).collect();
    let (offsets, columns, values) = rows::build(members.len(), 1, |range, out| {
        for i in &members[range] {
            for (j, v) in a.row(*i as usize) {
                out.columns.push(j as i32);
                out.values.push(v[0]);
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: members.len(), cols: a.cols, block: Block::SCALAR, offsets, columns, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::strength;

    #[test]
    fn a_line_is_interpolated_linearly_across_both_stages() {
        // [-1 2 -1] on nine unknowns; 0, 2, 4, 6, 8 are coarse at first, 0, 4 and 8 in the end.
        let mut t = Vec::new();
        for i in 0..9_usize {
            t.push((i, i, 2.0));
            if i > 0 {
                t.extend([(i, i - 1, -1.0), (i - 1, i, -1.0)]);
            }
        }
        let a = Csr::<f64>::from_triplets(9, 9, &t).unwrap();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let first: Vec<bool> = (0..9).map(|i| i % 2 == 0).collect();
        let second: Vec<bool> = (0..9).map(|i| i % 4 == 0).collect();
        let all = Truncation { max_entries: 0, factor: 0.0 };
        let p = interpolate(&a.view(), &s, &first, &second, all, None).unwrap();
        assert_eq!((p.rows, p.cols), (9, 3));
        for i in 0..9 {
            let x: f64 = p.view().row(i).map(|(j, w)| w[0] * 4.0 * j as f64).sum();
            assert!((x - i as f64).abs() < 1e-14, "{i} {x}");
        }
        let one = Truncation { max_entries: 1, factor: 0.0 };
        let short = interpolate(&a.view(), &s, &first, &second, one, None).unwrap();
        assert_eq!(short.offsets, (0..10).collect::<Vec<i64>>());
        let structure = short.clone().into_shared().structure;
        assert_eq!(interpolate(&a.view(), &s, &first, &second, one, Some(&*structure)).unwrap(), short);
    }
}
