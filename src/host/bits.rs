//! Renewed rows of a sparse product of scalars, C = A B, with their sums in registers.
//!
//! Rows of B and of C are sorted: the numbers of a row of B go to sums that follow each other in the same order. So a bit for each sum, whether it
//! gets one, is enough to know them all by, and a processor that can expand numbers into a register needs nothing else.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::terms::{Finish, Pattern, Rows};
use crate::error::{Result, try_capacity};
use crate::par::Fresh;
use crate::scalar::Scalar;
use crate::sparse::CsrView;
use std::ops::Range;

/// Sums of a register, which a byte has the bits of.
pub(super) const LANES: usize = 8;

/// Bytes, and registers, of one pass over a row of A.
pub(super) const WORD: usize = 8;

/// The longest rows of C.
const LONGEST: usize = 2 * WORD * LANES;

/// Bytes for each entry of A in a row where C has this many entries: those of one number, or of several with [`WORD`] bytes.
pub(super) fn bytes_of(length: usize) -> usize {
    match length.div_ceil(LANES) {
        registers @ ..=WORD => registers.next_power_of_two(),
        registers => registers.next_multiple_of(WORD),
    }
}

/// Whether this processor can go by bits where rows of C have up to `longest` entries.
pub(super) fn suit(longest: usize) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let present = avx512::is_present();
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let present = false;
    present && longest <= LONGEST
}

/// The bits of the terms of some rows, [`bytes_of`] bytes for each entry of A; nothing where a row is not sorted. `at` has one element for each
/// column of B.
pub(super) fn find<T: Scalar>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Option<Vec<u8>>> {
    let bytes_in = |i: usize| bytes_of((c_offsets[i + 1] - c_offsets[i]) as usize);
    let mut bits = try_capacity(range.clone().map(|i| a.row_range(i).len() * bytes_in(i)).sum())?;
    for i in range {
        for (place, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = place as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            let j = (*j - a.base) as usize;
            let begin = bits.len();
            bits.resize(begin + bytes_in(i), 0);
            let mut free = 0;
            for c in &b_columns[b_offsets[j] as usize..b_offsets[j + 1] as usize] {
                let place = at[*c as usize] as usize;
                if place < free {
                    return Ok(None);
                }
                bits[begin + place / LANES] |= 1 << (place % LANES);
                free = place + 1;
            }
        }
    }
    Ok(Some(bits))
}

/// The values of the rows, which each end with `finish`.
pub(super) fn add<T: Scalar>(rows: &Rows<'_, T>, mut bits: &[u8], values: &mut Fresh<'_, T>, finish: &Finish<'_, T>) {
    let Rows { a, c, range, .. } = rows;
    for i in range.clone() {
        let row = values.next((c[i + 1] - c[i]) as usize);
        let terms = a.row_range(i);
        let (now, later) = bits.split_at(terms.len() * bytes_of(row.len()));
        bits = later;
        add_row(rows, terms, now, row);
        finish(i, row);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn add_row<T: Scalar>(rows: &Rows<'_, T>, terms: Range<usize>, bits: &[u8], row: &mut [T]) {
    let Rows { a, b, .. } = rows;
    let factors = avx512::expand::Factors {
        columns: &a.columns[terms.clone()],
        base: a.base,
        ahead: rows.ahead(terms.start),
        offsets: b.offsets,
        a: T::numbers(&a.values[terms]),
        b: T::numbers(b.values),
    };
    avx512::expand::row(&factors, bits, T::slice_mut(row));
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn add_row<T: Scalar>(_: &Rows<'_, T>, _: Range<usize>, _: &[u8], _: &mut [T]) {
    unreachable!("no other processor is suited")
}
