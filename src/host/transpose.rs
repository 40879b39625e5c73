//! Transposition. The pattern is sorted once; values follow through the list of source positions, which is kept where a
//! transpose is renewed with new values.

use super::par;
use crate::error::{Result, try_capacity, try_vec};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView};

/// The pattern of a transpose, and where each of its blocks comes from.
pub struct Transposed {
    /// Row offsets.
    pub offsets: Vec<i64>,
    /// Columns, ascending in each row.
    pub columns: Vec<i32>,
    /// Position in the original of each block.
    pub source: Vec<usize>,
}

/// Columns of the original that one bucket of the parallel sort takes.
const BUCKETS: usize = 64;

/// Sorts the pattern of `a` by columns: rows are dealt into buckets of columns in parallel, then each bucket is sorted by counting.
pub fn pattern<T: Scalar>(a: &CsrView<'_, T>) -> Result<Transposed> {
    let width = a.cols.div_ceil(BUCKETS).max(1024);
    let buckets = a.cols.div_ceil(width).max(1);
    let dealt = par::map_ranges(a.rows, super::rows::grain(a.rows), |range| {
        let mut lists: Vec<Vec<(i32, i32, usize)>> = vec![Vec::new(); buckets];
        for i in range {
            for k in a.row_range(i) {
                let j = a.col(k);
                lists[j / width].push((j as i32, i as i32, k));
            }
        }
        lists
    });
    let sorted = par::map_ranges(buckets, 1, |range| -> Result<_> {
        let bucket = range.start;
        let first = bucket * width;
        let mut counts = try_vec(width.min(a.cols - first), 0_i64)?;
        let entries = || dealt.iter().flat_map(|lists| &lists[bucket]);
        for (j, _, _) in entries() {
            counts[*j as usize - first] += 1;
        }
        let offsets = par::offsets_from_counts(counts.clone());
        let mut at = offsets.clone();
        let total = offsets[offsets.len() - 1] as usize;
        let mut columns = try_vec(total, 0_i32)?;
        let mut source = try_vec(total, 0_usize)?;
        for (j, i, k) in entries() {
            let to = &mut at[*j as usize - first];
            columns[*to as usize] = *i;
            source[*to as usize] = *k;
            *to += 1;
        }
        Ok((counts, columns, source))
    });
    let mut counts = try_capacity(a.cols + 1)?;
    let mut columns = try_capacity(a.nnz())?;
    let mut source = try_capacity(a.nnz())?;
    if a.cols > 0 {
        for piece in sorted {
            let (c, j, k) = piece?;
            counts.extend_from_slice(&c);
            columns.extend_from_slice(&j);
            source.extend_from_slice(&k);
        }
    }
    Ok(Transposed { offsets: par::offsets_from_counts(counts), columns, source })
}

/// The transpose of `a`.
pub fn transpose<T: Scalar>(a: &CsrView<'_, T>) -> Result<Csr<T>> {
    let Transposed { offsets, columns, source } = pattern(a)?;
    let block = Block { rows: a.block.cols, cols: a.block.rows };
    let mut out = Csr::with_pattern(a.cols, a.rows, block, offsets, columns)?;
    par::for_each_row_mut(&mut out.values, block.len(), par::GRAIN / block.len(), |start, values| {
        for (to, k) in values.chunks_exact_mut(block.len()).zip(&source[start..]) {
            let from = a.block_at(*k);
            for r in 0..block.rows {
                for c in 0..block.cols {
                    to[r * block.cols + c] = from[c * block.rows + r];
                }
            }
        }
    });
    Ok(out)
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
            prop_assert_eq!(transpose(&t.view()).unwrap(), a);
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
