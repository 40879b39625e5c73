//! Two-stage interpolation for aggressive coarsening: the first coarse unknowns are interpolated from those that the
//! second pass kept, and all unknowns from the first. P is the product of the two, truncated.
//!
//! A fine unknown may be four strong couplings away from the unknowns it is interpolated from, too far for a single
//! formula; each stage needs only the two that extended interpolation bridges.

use super::spgemm;
use super::truncate::{self, Truncation};
use crate::error::{Result, try_capacity};
use crate::scalar::Scalar;
use crate::sparse::{Csr, Structure};
use std::sync::Arc;

/// The patterns of both stages.
pub struct Stages {
    /// To the unknowns of the first pass.
    pub to_first: Arc<Structure>,
    /// From these to all.
    pub to_all: Arc<Structure>,
}

/// Interpolation from the unknowns of `second` to all, through those of `first`. `formula` interpolates from given
/// coarse unknowns to all, or to listed rows, with or without a given pattern. With `pattern` (a result of the same
/// graph and splittings) and `stages`, the result and the stages keep these columns. Returns the patterns of the
/// stages.
pub fn interpolate<T: Scalar>(
    first: &[bool],
    second: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
    stages: Option<&Stages>,
    formula: impl Fn(&[bool], Option<&[u32]>, Option<&Structure>) -> Result<Csr<T>>,
) -> Result<(Csr<T>, Stages)> {
    let mut members: Vec<u32> = try_capacity(first.len())?;
    members.extend((0..first.len() as u32).filter(|i| first[*i as usize]));
    let to_first = formula(second, Some(&members), stages.map(|stages| &*stages.to_first))?.into_shared();
    let to_all = formula(first, None, stages.map(|stages| &*stages.to_all))?.into_shared();
    let product = spgemm::multiply(&to_all.view(), &to_first.view())?;
    let stages = match stages {
        Some(Stages { to_first, to_all }) => Stages { to_first: Arc::clone(to_first), to_all: Arc::clone(to_all) },
        None => Stages { to_first: to_first.structure, to_all: to_all.structure },
    };
    Ok((truncate::all_rows(&product.view(), truncation, pattern)?, stages))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::{extended_i, strength};

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
        let all = Truncation::new(0, 0.0);
        let interpolate = |truncation, pattern: Option<&Structure>| {
            let formula = |coarse: &[bool], rows: Option<&[u32]>, pattern: Option<&Structure>| {
                extended_i::interpolate(&a.view(), &s, coarse, rows, truncation, pattern)
            };
            let (p, stages) = interpolate(&first, &second, truncation, pattern, None, formula)?;
            // With the stages that it has itself.
            let (again, _) = interpolate(&first, &second, truncation, pattern, Some(&stages), formula)?;
            assert_eq!(again, p);
            Ok::<_, crate::Error>(p)
        };
        let p = interpolate(all, None).unwrap();
        assert_eq!((p.rows, p.cols), (9, 3));
        for i in 0..9 {
            let x: f64 = p.view().row(i).map(|(j, w)| w[0] * 4.0 * j as f64).sum();
            assert!((x - i as f64).abs() < 1e-14, "{i} {x}");
        }
        let one = Truncation::new(1, 0.0);
        let short = interpolate(one, None).unwrap();
        assert_eq!(short.offsets, (0..10).collect::<Vec<i64>>());
        let structure = short.clone().into_shared().structure;
        assert_eq!(interpolate(one, Some(&*structure)).unwrap(), short);
    }
}
