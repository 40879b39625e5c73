//! Numeric phase of a product of blocks, C = A B, one block of C after the other.
//!
//! A block of C stays in registers until all of its products are added; in the order of A's entries it would be
//! stored and loaded for each of them. This pays if the rows of B that a row of A uses stay in the first-level cache.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::spgemm_numeric::{RowEpilogue, Rows};
use super::spgemm_symbolic::Pattern;
use crate::error::{Result, try_capacity, try_vec};
use crate::par::Fresh;
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Longest row of A and of B.
const LONGEST: usize = u8::MAX as usize;

/// Distance, in rows of A, at which rows of B are prefetched.
const AHEAD: usize = 3;

/// The products of a range of rows.
pub(super) struct BlockProducts {
    /// The number of products of each block of C.
    counts: Vec<u8>,
    /// For each product the position in the row of A, and the position in the row of B.
    terms: Vec<[u8; 2]>,
}

/// Whether this processor has kernels for these block sizes, and the rows of B that a row of A uses are near each
/// other.
pub(super) fn suit<T: Scalar>(a: &CsrView<'_, T>, b: Block) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let present = avx512::is_present()
        && avx512::blocks::has_kernel((a.block.rows, a.block.cols, b.cols), T::numbers(&[]))
        && a.rows >= a.cols;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let present = {
        let _ = (a, b);
        false
    };
    present
}

impl BlockProducts {
    /// The products of a range of rows; none if rows are too long. `at` has one element for each column of B.
    pub fn find<T: Scalar>(
        a: &CsrView<'_, T>,
        (b_offsets, b_columns): Pattern<'_>,
        (c_offsets, c_columns): Pattern<'_>,
        range: Range<usize>,
        at: &mut [u32],
    ) -> Result<Option<BlockProducts>> {
        let row_of_b = |k: usize| b_offsets[a.col(k)] as usize..b_offsets[a.col(k) + 1] as usize;
        let entries = a.row_range(range.start).start..a.row_range(range.end - 1).end;
        if range.clone().any(|i| a.row_range(i).len() > LONGEST) || entries.clone().any(|k| row_of_b(k).len() > LONGEST)
        {
            return Ok(None);
        }
        let blocks = (c_offsets[range.end] - c_offsets[range.start]) as usize;
        let mut counts = try_vec(blocks, 0_u8)?;
        let mut terms = try_vec(entries.map(|k| row_of_b(k).len()).sum(), [0; 2])?;
        let longest = c_offsets[range.start..=range.end].windows(2).map(|o| (o[1] - o[0]) as usize).max().unwrap_or(0);
        let mut next = try_capacity(longest)?;
        let (mut first_block, mut first_term) = (0, 0);
        for i in range {
            let columns = &c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize];
            for (position, j) in columns.iter().enumerate() {
                at[*j as usize] = position as u32;
            }
            let counts = &mut counts[first_block..][..columns.len()];
            first_block += columns.len();
            for k in a.row_range(i) {
                b_columns[row_of_b(k)].iter().for_each(|j| counts[at[*j as usize] as usize] += 1);
            }
            next.clear();
            for count in counts {
                next.push(first_term);
                first_term += *count as usize;
            }
            for (left, k) in a.row_range(i).enumerate() {
                for (right, j) in b_columns[row_of_b(k)].iter().enumerate() {
                    let next = &mut next[at[*j as usize] as usize];
                    terms[*next] = [left as u8, right as u8];
                    *next += 1;
                }
            }
        }
        Ok(Some(BlockProducts { counts, terms }))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.counts[..]) + size_of_val(&self.terms[..])
    }

    /// Numeric phase of a range of rows. `epilogue` may change a finished row.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub fn add<T: Scalar>(&self, rows: &Rows<'_, T>, values: &mut Fresh<'_, T>, epilogue: &RowEpilogue<'_, T>) {
        use avx512::blocks::Factors;
        let Rows { a, b, c, range } = rows;
        let (a_width, width) = (a.block.len(), a.block.rows * b.block.cols);
        let (mut counts, mut terms) = (&self.counts[..], &self.terms[..]);
        let mut starts = [0; LONGEST];
        for i in range.clone() {
            rows.prefetch_new(i + AHEAD);
            rows.prefetch_own(i + AHEAD);
            let blocks = (c[i + 1] - c[i]) as usize;
            let row = values.next(blocks * width);
            let entries = a.row_range(i);
            for (start, k) in starts.iter_mut().zip(entries.clone()) {
                *start = b.offsets[a.col(k)] as usize;
            }
            let (now, later) = counts.split_at(blocks);
            counts = later;
            let factors = Factors {
                dimensions: (a.block.rows, a.block.cols, b.block.cols),
                a: T::numbers(&a.values[entries.start * a_width..entries.end * a_width]),
                starts: &starts[..entries.len()],
                b: T::numbers(b.values),
            };
            terms = avx512::blocks::gather(&factors, now, terms, T::slice_mut(row));
            epilogue(i, row);
        }
    }

    /// Never called on other processors.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    pub fn add<T: Scalar>(&self, _: &Rows<'_, T>, _: &mut Fresh<'_, T>, _: &RowEpilogue<'_, T>) {}
}
