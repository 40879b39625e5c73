//! Truncation of the rows of an interpolation: the largest weights stay, and are rescaled to the row sum.

use super::rows;
pub use crate::backend::parameters::{Ties, Truncation};
use crate::error::{Result, try_extend};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// Truncates every row of an interpolation. With `pattern` (an earlier result), each row keeps the columns that it has
/// there, whatever the size of the new weights.
pub fn all_rows<T: Scalar>(p: &CsrView<'_, T>, truncation: Truncation, pattern: Option<&Structure>) -> Result<Csr<T>> {
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    let (offsets, columns, values) = rows::build(p.rows, 1, |range, out| {
        let mut kept = Vec::new();
        for i in range {
            let weights = p.row(i).map(|(j, w)| (j as i32, w[0]));
            push_row(out, &mut kept, weights, truncation, pattern.as_ref().map(|old| (old, i)))?;
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: p.rows, cols: p.cols, block: Block::SCALAR, offsets, columns, values })
}

/// Appends the truncated `weights` to the current row: those of the columns of row `i` of an earlier result, if there
/// is one, or those that the truncation keeps. `kept` is scratch space.
pub fn push_row<T: Scalar>(
    out: &mut rows::RowBuilder<T>,
    kept: &mut Vec<(i32, T)>,
    weights: impl Iterator<Item = (i32, T)>,
    truncation: Truncation,
    earlier: Option<(&CsrView<'_, T>, usize)>,
) -> Result<()> {
    match earlier {
        Some((p, i)) => keep_columns(kept, p.row_range(i).map(|k| p.col(k) as i32), weights)?,
        None => {
            kept.clear();
            try_extend(kept, weights.filter(|(_, w)| *w != T::ZERO))?;
            truncate(kept, truncation);
        }
    }
    out.extend(kept)
}

/// The order of [`Ties::Mixed`].
fn mixed(column: i32) -> u32 {
    let h = (column as u32).wrapping_mul(0x9e37_79b1);
    (h ^ (h >> 15)).wrapping_mul(0x85eb_ca77)
}

/// Keeps the largest weights of a row of (coarse column, weight), sorts them by column and rescales them to the row
/// sum.
pub fn truncate<T: Scalar>(row: &mut Vec<(i32, T)>, truncation: Truncation) {
    let total = row.iter().map(|k| k.1).sum();
    truncate_to(row, total, truncation, |column| column);
}

/// The same for a row of which the sum is known, and whose columns have these numbers on the coarse level.
pub fn truncate_to<T: Scalar>(row: &mut Vec<(i32, T)>, total: T, truncation: Truncation, number: impl Fn(i32) -> i32) {
    let largest = row.iter().map(|k| k.1.abs()).fold(T::ZERO, |m, w| if w > m { w } else { m });
    let before = row.len();
    let bound = T::from_f64(truncation.factor) * largest;
    row.retain(|k| k.1.abs() >= bound);
    if truncation.max_entries > 0 && row.len() > truncation.max_entries {
        let order = |x: &(i32, T), y: &(i32, T)| {
            let by_size = y.1.abs().partial_cmp(&x.1.abs()).unwrap_or(std::cmp::Ordering::Equal);
            by_size.then_with(|| match truncation.ties {
                Ties::Mixed => mixed(number(x.0)).cmp(&mixed(number(y.0))),
                Ties::Smallest => x.0.cmp(&y.0),
            })
        };
        row.select_nth_unstable_by(truncation.max_entries - 1, order);
        row.truncate(truncation.max_entries);
    }
    row.sort_unstable_by_key(|k| k.0);
    if row.len() < before {
        rescale(row, total);
    }
}

/// Makes `row` of those `weights` whose columns are among `columns` (ascending), scaled so that the sum of all weights
/// stays.
pub fn keep_columns<T: Scalar>(
    row: &mut Vec<(i32, T)>,
    columns: impl Iterator<Item = i32>,
    weights: impl Iterator<Item = (i32, T)>,
) -> Result<()> {
    let mut total = T::ZERO;
    let dropped = fill(row, columns, weights.inspect(|(_, w)| total += *w))?;
    if dropped {
        rescale(row, total);
    }
    Ok(())
}

/// The same where the sum of all weights is known.
pub fn keep_columns_to<T: Scalar>(
    row: &mut Vec<(i32, T)>,
    columns: impl Iterator<Item = i32>,
    weights: impl Iterator<Item = (i32, T)>,
    total: T,
) -> Result<()> {
    if fill(row, columns, weights)? {
        rescale(row, total);
    }
    Ok(())
}

/// Fills `row` with the weights of `columns`. Returns whether nonzero weights are dropped.
fn fill<T: Scalar>(
    row: &mut Vec<(i32, T)>,
    columns: impl Iterator<Item = i32>,
    weights: impl Iterator<Item = (i32, T)>,
) -> Result<bool> {
    row.clear();
    try_extend(row, columns.map(|c| (c, T::ZERO)))?;
    let mut dropped = false;
    for (column, w) in weights {
        match row.binary_search_by_key(&column, |k| k.0) {
            Ok(at) => row[at].1 = w,
            Err(_) => dropped |= w != T::ZERO,
        }
    }
    Ok(dropped)
}

fn rescale<T: Scalar>(row: &mut [(i32, T)], total: T) {
    let sum: T = row.iter().map(|k| k.1).sum();
    if sum != T::ZERO && total != T::ZERO {
        let scale = total / sum;
        for k in row {
            k.1 *= scale;
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    fn truncated(max_entries: usize, factor: f64) -> Vec<(i32, f64)> {
        let mut row = vec![(7, 0.25), (2, -0.125), (5, 0.5), (1, 0.25), (3, 0.125)];
        truncate(&mut row, Truncation::new(max_entries, factor));
        row
    }

    #[test]
    fn the_largest_stay_in_order_of_columns_and_carry_the_sum() {
        assert_eq!(truncated(0, 0.0), [(1, 0.25), (2, -0.125), (3, 0.125), (5, 0.5), (7, 0.25)]);
        // Which of two equal weights stays does not follow from the order of their columns.
        assert_eq!(truncated(2, 0.0), [(1, 1.0 / 3.0), (5, 2.0 / 3.0)]);
        assert_eq!(truncated(0, 0.5), [(1, 0.25), (5, 0.5), (7, 0.25)]);
    }

    #[test]
    fn given_columns_are_kept_whatever_their_weights() {
        let mut row = Vec::new();
        keep_columns(&mut row, [2, 4].into_iter(), [(4, 0.5), (3, 0.25), (2, 0.0)].into_iter()).unwrap();
        assert_eq!(row, [(2, 0.0), (4, 0.75)]);
    }
}
