//! Transpose of a pattern by counting sort: each task owns a range of columns and reads the whole pattern.

use super::CsrView;
use crate::error::{Result, try_collect, try_vec};
use crate::par::{self, Failure};
use crate::scalar::Scalar;
use std::ops::Range;

/// Most ranges of columns: with more, reading the pattern once more costs more than another thread saves.
const MAX_RANGES: usize = 8;

/// Row offsets of the transpose, and how many columns one task takes.
pub(crate) fn count<T: Scalar>(a: &CsrView<'_, T>) -> Result<(Vec<i64>, usize)> {
    let grain = a.cols.div_ceil(par::threads().min(MAX_RANGES)).max(par::ROW_GRAIN);
    let mut counts = try_vec(a.cols, 0_i64)?;
    par::for_each_mut(&mut counts, grain, |first, counts| {
        for c in a.columns {
            if let Some(count) = counts.get_mut(((*c - a.base) as usize).wrapping_sub(first)) {
                *count += 1;
            }
        }
    });
    Ok((par::offsets_from_counts(counts)?, grain))
}

/// Offsets and ascending columns of the transpose.
pub fn pattern<T: Scalar>(a: &CsrView<'_, T>) -> Result<(Vec<i64>, Vec<i32>)> {
    let (offsets, grain) = count(a)?;
    let mut columns = try_vec(a.nnz(), 0_i32)?;
    let failure = Failure::default();
    par::for_each_segment_mut(&mut columns, &offsets, 1, grain, |range, columns| {
        failure.keep(scatter(a, &offsets, range, |to, i, _| columns[to] = i as i32));
    });
    failure.check()?;
    Ok((offsets, columns))
}

/// Calls `put(place, row, position)` for each entry whose column is in `range`: its position in the transpose, counted
/// from the first of the range, its row, and its position in the matrix.
pub(crate) fn scatter<T: Scalar>(
    a: &CsrView<'_, T>,
    offsets: &[i64],
    range: Range<usize>,
    mut put: impl FnMut(usize, usize, usize),
) -> Result<()> {
    let first = offsets[range.start];
    let mut next = try_collect(offsets[range.clone()].iter().map(|o| o - first))?;
    for i in 0..a.rows {
        for k in a.row_range(i) {
            if let Some(to) = next.get_mut(a.col(k).wrapping_sub(range.start)) {
                put(*to as usize, i, k);
                *to += 1;
            }
        }
    }
    Ok(())
}
