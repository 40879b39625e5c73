//! Numeric phase of a product of scalars, C = A B, with the sums of a row in registers.
//!
//! Rows of B and C are sorted: the values of a row of B go to sums in the same order. So a mask with a bit for each
//! sum tells where they go, and a processor that can expand values into a register needs nothing else.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::spgemm_numeric::{RowEpilogue, Rows};
use super::spgemm_symbolic::Pattern;
use crate::error::{Result, try_capacity};
use crate::par::Fresh;
use crate::scalar::Scalar;
use crate::sparse::CsrView;
use std::ops::Range;

/// Sums of a register, one bit of a byte each.
pub(super) const LANES: usize = 8;

/// Bytes of a mask, and registers, of one pass over a row of A.
pub(super) const WORD: usize = 8;

/// Longest row of C.
const LONGEST: usize = 2 * WORD * LANES;

/// Bytes of the mask of an entry of A in a row of C with this length: an integer, or several of [`WORD`] bytes.
pub(super) fn bytes_of(length: usize) -> usize {
    match length.div_ceil(LANES) {
        registers @ ..=WORD => registers.next_power_of_two(),
        registers => registers.next_multiple_of(WORD),
    }
}

/// Whether this processor can use masks for rows of C with up to `longest` entries.
pub(super) fn suit(longest: usize) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let present = avx512::is_present();
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let present = false;
    present && longest <= LONGEST
}

/// The masks of a range of rows, [`bytes_of`] bytes for each entry of A; none if a row is not sorted. `at` has one
/// element for each column of B.
pub(super) fn find<T: Scalar>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Option<Vec<u8>>> {
    let bytes_in = |i: usize| bytes_of((c_offsets[i + 1] - c_offsets[i]) as usize);
    let mut masks = try_capacity(range.clone().map(|i| a.row_range(i).len() * bytes_in(i)).sum())?;
    for i in range {
        for (position, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = position as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            let j = (*j - a.base) as usize;
            let begin = masks.len();
            masks.resize(begin + bytes_in(i), 0);
            let mut free = 0;
            for c in &b_columns[b_offsets[j] as usize..b_offsets[j + 1] as usize] {
                let position = at[*c as usize] as usize;
                if position < free {
                    return Ok(None);
                }
                masks[begin + position / LANES] |= 1 << (position % LANES);
                free = position + 1;
            }
        }
    }
    Ok(Some(masks))
}

/// Numeric phase of a range of rows. `epilogue` may change a finished row.
pub(super) fn add<T: Scalar>(
    rows: &Rows<'_, T>,
    mut masks: &[u8],
    values: &mut Fresh<'_, T>,
    epilogue: &RowEpilogue<'_, T>,
) {
    let Rows { a, c, range, .. } = rows;
    for i in range.clone() {
        let row = values.next((c[i + 1] - c[i]) as usize);
        let terms = a.row_range(i);
        let (now, later) = masks.split_at(terms.len() * bytes_of(row.len()));
        masks = later;
        add_row(rows, terms, now, row);
        epilogue(i, row);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn add_row<T: Scalar>(rows: &Rows<'_, T>, terms: Range<usize>, masks: &[u8], row: &mut [T]) {
    let Rows { a, b, .. } = rows;
    let factors = avx512::expand::Factors {
        columns: &a.columns[terms.clone()],
        base: a.base,
        ahead: rows.ahead(terms.start),
        offsets: b.offsets,
        a: T::numbers(&a.values[terms]),
        b: T::numbers(b.values),
    };
    avx512::expand::row(&factors, masks, T::slice_mut(row));
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn add_row<T: Scalar>(_: &Rows<'_, T>, _: Range<usize>, _: &[u8], _: &mut [T]) {
    unreachable!("no other processor is suited")
}
