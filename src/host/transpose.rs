//! Transposition by counting: each task owns a range of columns, reads the whole pattern and keeps what falls into its
//! range. The result does not depend on how many ranges there are. A full matrix needs no counting.

use super::prefetch::prefetch;
use super::rows;
use super::spgemm_symbolic::{Position, Positions, make_positions};
use crate::error::{Result, try_capacity, try_vec};
use crate::par::{self, Failure, Fresh};
use crate::scalar::Scalar;
use crate::sparse::transpose::{count, scatter};
use crate::sparse::{Block, Csr, CsrView, Structure};
use std::ops::Range;

/// Distance, in blocks, of the prefetch.
const AHEAD: usize = 8;

/// The transpose of `a`.
pub fn transpose<T: Scalar>(a: &CsrView<'_, T>) -> Result<Csr<T>> {
    if is_full(a) {
        return transpose_full(a);
    }
    let (offsets, grain) = count(a)?;
    let block = Block { rows: a.block.cols, cols: a.block.rows };
    let mut columns = try_vec(a.nnz(), 0_i32)?;
    let mut values = try_vec(a.entries(), T::ZERO)?;
    let width = block.len();
    let failure = Failure::default();
    par::for_each_segment_mut2(&mut columns, (&mut values, width), &offsets, grain, |range, columns, values| {
        failure.keep(scatter(a, &offsets, range, |to, i, k| {
            columns[to] = i as i32;
            transpose_block(block, a.block_at(k), &mut values[to * width..(to + 1) * width]);
        }));
    });
    failure.check()?;
    Ok(Csr { rows: a.cols, cols: a.rows, block, offsets, columns, values })
}

/// Whether each row has all columns, in ascending order, and each element is a scalar.
fn is_full<T: Scalar>(a: &CsrView<'_, T>) -> bool {
    let (n, base) = (a.cols, a.base as usize);
    a.block == Block::SCALAR
        && n > 0
        && Some(a.nnz()) == n.checked_mul(a.rows)
        && (0..a.rows).all(|i| a.row_range(i) == (i * n..(i + 1) * n))
        && a.columns.chunks_exact(n).all(|row| row.iter().zip(base..).all(|(j, k)| *j as usize == k))
}

/// The transpose of a full matrix: tasks have a few of its rows, to which a row of the matrix has elements side by side.
fn transpose_full<T: Scalar>(a: &CsrView<'_, T>) -> Result<Csr<T>> {
    const ROWS: usize = 16;
    let (rows, cols) = (a.cols, a.rows);
    let (mut offsets, mut columns) = (try_capacity(rows + 1)?, try_capacity(rows * cols)?);
    offsets.extend((0..=rows).map(|i| (i * cols) as i64));
    (0..rows).for_each(|_| columns.extend(0..cols as i32));
    let mut values = try_vec(rows * cols, T::ZERO)?;
    par::for_each_row_mut(&mut values, cols, ROWS, |first, piece| {
        for (j, from) in a.values.chunks_exact(rows).enumerate() {
            for (to, v) in piece.chunks_exact_mut(cols).zip(&from[first..]) {
                to[j] = *v;
            }
        }
    });
    Ok(Csr { rows, cols, block: a.block, offsets, columns, values })
}

/// Symbolic data of a transpose: the position in its row of A of each entry.
pub struct TransposeSymbolic {
    /// One for each [`rows::grain`] rows of the transpose.
    pieces: Vec<Positions>,
}

impl TransposeSymbolic {
    /// Symbolic phase for A and the pattern of its transpose.
    pub fn new<T: Scalar>(a: &CsrView<'_, T>, pattern: &Structure) -> Result<TransposeSymbolic> {
        let longest = (0..a.rows).map(|i| a.row_range(i).len()).max().unwrap_or(0);
        let pieces = par::map_ranges(pattern.rows, rows::grain(pattern.rows), |range| {
            Ok(make_positions!(longest, find_in(a, pattern, range)?))
        })?;
        Ok(TransposeSymbolic { pieces })
    }

    /// Numeric phase: the values of the transpose of `a`.
    pub fn numeric<T: Scalar>(&self, a: &CsrView<'_, T>, pattern: &Structure) -> Result<Vec<T>> {
        let (offsets, columns) = pattern.own_arrays();
        let grain = rows::grain(pattern.rows);
        par::new_segments(offsets, pattern.block.len(), grain, T::ZERO, |range, values| {
            let rows = &columns[offsets[range.start] as usize..offsets[range.end] as usize];
            match &self.pieces[range.start / grain] {
                Positions::U8(positions) => gather(a, rows, positions, pattern.block, values),
                Positions::U16(positions) => gather(a, rows, positions, pattern.block, values),
                Positions::U32(positions) => gather(a, rows, positions, pattern.block, values),
            }
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Positions::bytes).sum()
    }
}

fn find_in<T: Scalar, P: Position>(a: &CsrView<'_, T>, pattern: &Structure, range: Range<usize>) -> Result<Vec<P>> {
    let (offsets, rows) = pattern.own_arrays();
    let mut positions = try_capacity((offsets[range.end] - offsets[range.start]) as usize)?;
    for j in range {
        positions.extend(rows[offsets[j] as usize..offsets[j + 1] as usize].iter().map(|i| {
            let mut row = a.row_range(*i as usize);
            P::from_usize(row.position(|k| a.col(k) == j).expect("the pattern is that of the transpose"))
        }));
    }
    Ok(positions)
}

/// Gathers the transposed blocks of A at these positions in these rows; `block` is the transposed block size.
fn gather<T: Scalar, P: Position>(
    a: &CsrView<'_, T>,
    rows: &[i32],
    positions: &[P],
    block: Block,
    values: &mut Fresh<'_, T>,
) {
    let at = |k: usize| Some(a.row_range(*rows.get(k)? as usize).start + positions.get(k)?.to_usize());
    for k in 0..rows.len() {
        if let (Some(at), width @ 2..) = (at(k + AHEAD), block.len()) {
            // A block may cover three cache lines.
            (0..=2).for_each(|line| prefetch(a.values, at * width + line * (width - 1) / 2));
        }
        let Some(at) = at(k) else { break };
        transpose_block(block, a.block_at(at), values.next(block.len()));
    }
}

/// A block of these dimensions, from its transpose.
#[inline(always)]
fn transpose_block<T: Scalar>(block: Block, from: &[T], to: &mut [T]) {
    #[inline(always)]
    fn go<T: Scalar>(rows: usize, cols: usize, from: &[T], to: &mut [T]) {
        let from = &from[..rows * cols];
        for (r, to) in to[..rows * cols].chunks_exact_mut(cols).enumerate() {
            for (c, to) in to.iter_mut().enumerate() {
                *to = from[c * rows + r];
            }
        }
    }
    // With dimensions that the compiler knows where they are common.
    match (block.rows, block.cols) {
        (1, 1) => to[0] = from[0],
        (6, 3) => go(6, 3, from, to),
        (6, 6) => go(6, 6, from, to),
        (rows, cols) => go(rows, cols, from, to),
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::sparse::transpose::pattern;
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
            let pattern = t.into_shared().structure;
            let symbolic = TransposeSymbolic::new(&a.view(), &pattern).unwrap();
            prop_assert_eq!(symbolic.bytes(), values.len());
            prop_assert_eq!(symbolic.numeric(&a.view(), &pattern).unwrap(), values);
        }
    }

    #[test]
    fn full_matrices_are_transposed_by_tiles() {
        for (rows, cols) in [(1, 1), (3, 40), (40, 3), (17, 33)] {
            let entries = || (0..rows * cols).map(|k| (k / cols, k % cols, k as f64));
            let a = Csr::from_triplets(rows, cols, &entries().collect::<Vec<_>>()).unwrap();
            assert!(is_full(&a.view()));
            let expected: Vec<_> = entries().map(|(i, j, v)| (j, i, v)).collect();
            assert_eq!(transpose(&a.view()).unwrap(), Csr::from_triplets(cols, rows, &expected).unwrap());
            // As many elements, and not in order.
            let mut swapped = a.clone();
            if cols > 1 {
                swapped.columns.swap(0, 1);
                assert!(!is_full(&swapped.view()));
                assert_eq!(transpose(&swapped.view()).unwrap().values[0], 1.0);
            }
        }
    }

    #[test]
    fn blocks_are_transposed_too() {
        let mut a = Csr::with_pattern(1, 2, Block { rows: 2, cols: 3 }, vec![0, 1], vec![1]).unwrap();
        a.values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let t = transpose(&a.view()).unwrap();
        assert_eq!((t.rows, t.cols, &t.offsets[..], &t.columns[..]), (2, 1, &[0, 0, 1][..], &[0][..]));
        assert_eq!(t.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let (pattern, doubled) =
            (t.into_shared().structure, Csr { values: a.values.iter().map(|v| 2.0 * v).collect(), ..a.clone() });
        let updated = TransposeSymbolic::new(&a.view(), &pattern).unwrap().numeric(&doubled.view(), &pattern).unwrap();
        assert_eq!(updated, [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
        let empty = Csr::<f64>::from_triplets(3, 0, &[]).unwrap();
        assert_eq!(transpose(&empty.view()).unwrap().offsets, [0]);
    }
}
