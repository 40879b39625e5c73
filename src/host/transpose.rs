//! Transposition by counting: each task owns a range of columns, reads the whole pattern and keeps what falls into its range. The result
//! does not depend on how many ranges there are.

use super::par;
use super::prefetch::prefetch;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Structure};

/// Ranges of columns beyond which reading the pattern again costs more than another thread saves.
const MAX_RANGES: usize = 8;

/// Entries between the one that is renewed and the one whose row is asked for.
const AHEAD: usize = 8;

/// Row offsets of the transpose, and how many columns one task takes.
fn count<T: Scalar>(a: &CsrView<'_, T>) -> Result<(Vec<i64>, usize)> {
    let grain = a.cols.div_ceil(par::threads().min(MAX_RANGES)).max(par::ROW_GRAIN);
    let mut counts = try_vec(a.cols, 0_i64)?;
    par::for_each_mut(&mut counts, grain, |first, counts| {
        for c in a.columns {
            if let Some(count) = counts.get_mut(((*c - a.base) as usize).wrapping_sub(first)) {
                *count += 1;
            }
        }
    });
    Ok((par::offsets_from_counts(counts), grain))
}

/// Offsets and ascending columns of the transpose.
pub fn pattern<T: Scalar>(a: &CsrView<'_, T>) -> Result<(Vec<i64>, Vec<i32>)> {
    let (offsets, grain) = count(a)?;
    let mut columns = try_vec(a.nnz(), 0_i32)?;
    par::for_each_segment_mut(&mut columns, &offsets, 1, grain, |range, columns| {
        scatter(a, &offsets, range, |to, i, _| columns[to] = i as i32);
    });
    Ok((offsets, columns))
}

/// The transpose of `a`.
pub fn transpose<T: Scalar>(a: &CsrView<'_, T>) -> Result<Csr<T>> {
    let (offsets, grain) = count(a)?;
    let block = Block { rows: a.block.cols, cols: a.block.rows };
    let mut columns = try_vec(a.nnz(), 0_i32)?;
    let mut values = try_vec(a.entries(), T::ZERO)?;
    let width = block.len();
    par::for_each_segment_mut2(&mut columns, (&mut values, width), &offsets, grain, |range, columns, values| {
        scatter(a, &offsets, range, |to, i, k| {
            columns[to] = i as i32;
            transpose_block(block, a.block_at(k), &mut values[to * width..(to + 1) * width]);
        });
    });
    Ok(Csr { rows: a.cols, cols: a.rows, block, offsets, columns, values })
}

/// The values of the transpose of `a`, for its pattern. Rows of `a` are searched, so they should be short.
pub fn renew<T: Scalar>(a: &CsrView<'_, T>, pattern: &Structure) -> Result<Vec<T>> {
    let (offsets, rows) = pattern.own_arrays();
    let block = pattern.block;
    let width = block.len();
    let mut values = try_vec(rows.len() * width, T::ZERO)?;
    par::for_each_segment_mut(&mut values, offsets, width, par::ROW_GRAIN, |range, values| {
        let mut to = values.chunks_exact_mut(width);
        for j in range {
            let entries = &rows[offsets[j] as usize..offsets[j + 1] as usize];
            for (k, (i, to)) in entries.iter().zip(&mut to).enumerate() {
                if let Some(i) = rows.get(offsets[j] as usize + k + AHEAD) {
                    let soon = a.row_range(*i as usize).start;
                    prefetch(a.columns, soon);
                    prefetch(a.values, soon * width);
                }
                let row = a.row_range(*i as usize);
                let at = row.into_iter().find(|k| a.col(*k) == j).expect("the pattern is that of the transpose");
                transpose_block(block, a.block_at(at), to);
            }
        }
    });
    Ok(values)
}

/// A block of these dimensions, from its transpose.
#[inline(always)]
fn transpose_block<T: Scalar>(block: Block, from: &[T], to: &mut [T]) {
    for r in 0..block.rows {
        for c in 0..block.cols {
            to[r * block.cols + c] = from[c * block.rows + r];
        }
    }
}

/// Calls `put(place, row, position)` for each entry whose column lies in `range`, places counted from the first of the range.
fn scatter<T: Scalar>(
    a: &CsrView<'_, T>,
    offsets: &[i64],
    range: std::ops::Range<usize>,
    mut put: impl FnMut(usize, usize, usize),
) {
    let first = offsets[range.start];
    let mut next: Vec<i64> = offsets[range.clone()].iter().map(|o| o - first).collect();
    for i in 0..a.rows {
        for k in a.row_range(i) {
            if let Some(to) = next.get_mut(a.col(k).wrapping_sub(range.start)) {
                put(*to as usize, i, k);
                *to += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn transposing_twice_gives_the_matrix_back(
            rows in 1_usize..30, cols in 1_usize..3000, entries in prop::collection::vec((0_usize..30, 0_usize..3000, -9.0..9.0_f64), 0..200)
        ) {
            let triplets: Vec<_> = entries.into_iter().map(|(i, j, v)| (i % rows, j % cols, v)).collect();
            let a = Csr::from_triplets(rows, cols, &triplets).unwrap();
            let t = transpose(&a.view()).unwrap();
            prop_assert!((0..t.rows).all(|i| t.columns[t.offsets[i] as usize..t.offsets[i + 1] as usize].is_sorted()));
            prop_assert_eq!(pattern(&a.view()).unwrap(), (t.offsets.clone(), t.columns.clone()));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            prop_assert_eq!(&pool.install(|| transpose(&a.view())).unwrap(), &t);
            prop_assert_eq!(&transpose(&t.view()).unwrap(), &a);
            let values = t.values.clone();
            prop_assert_eq!(renew(&a.view(), &t.into_shared().structure).unwrap(), values);
        }
    }

    #[test]
    fn blocks_are_transposed_too() {
        let mut a = Csr::with_pattern(1, 2, Block { rows: 2, cols: 3 }, vec![0, 1], vec![1]).unwrap();
        a.values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let t = transpose(&a.view()).unwrap();
        assert_eq!((t.rows, t.cols, t.offsets, t.columns), (2, 1, vec![0, 0, 1], vec![0]));
        assert_eq!(t.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let empty = Csr::<f64>::from_triplets(3, 0, &[]).unwrap();
        assert_eq!(transpose(&empty.view()).unwrap().offsets, [0]);
    }
}
