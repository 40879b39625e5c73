//! The transposed SpMV, without a transposed matrix. The rows of A are cut into pieces that depend on their number alone.
//! Each piece has sums of its own for the columns between its first and its last; they are then added piece by piece.

use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Most pieces, which bounds the memory for sums: so many vectors where the columns of each piece reach over the matrix.
const PIECES: usize = 16;

/// y = alpha Aᵀ x + beta y; y is not read when beta is 0.
pub fn apply<S: Number, T: Scalar>(a: &CsrView<'_, S>, alpha: T, x: &[T], beta: T, y: &mut [T]) -> Result<()> {
    assert_eq!((x.len(), y.len()), (a.scalar_rows(), a.scalar_cols()));
    let grain = a.rows.div_ceil(PIECES).max(par::ROW_GRAIN);
    let pieces = par::map_ranges(a.rows, grain, |rows| sums(a, x, rows))?;
    par::for_each_mut(y, par::GRAIN, |first, y| {
        if beta == T::ZERO {
            y.fill(T::ZERO);
        } else {
            y.iter_mut().for_each(|y| *y *= beta);
        }
        for (start, sums) in &pieces {
            let (begin, end) = (first.max(*start), (first + y.len()).min(start + sums.len()));
            if begin < end {
                let y = &mut y[begin - first..end - first];
                y.iter_mut().zip(&sums[begin - start..]).for_each(|(y, sum)| *y += alpha * *sum);
            }
        }
    });
    Ok(())
}

/// The first column of these rows in scalars, and the sums from there to their last one.
fn sums<S: Number, T: Scalar>(a: &CsrView<'_, S>, x: &[T], rows: Range<usize>) -> Result<(usize, Vec<T>)> {
    let columns = &a.columns[a.row_range(rows.start).start..a.row_range(rows.end - 1).end];
    let (Some(first), Some(last)) = (columns.iter().min(), columns.iter().max()) else { return Ok((0, Vec::new())) };
    let (first, count) = ((first - a.base) as usize, (last - first) as usize + 1);
    let Block { rows: height, cols: width } = a.block;
    let mut sums = try_vec(count * width, T::ZERO)?;
    for i in rows {
        let x = &x[i * height..][..height];
        for k in a.row_range(i) {
            let sums = &mut sums[(a.col(k) - first) * width..][..width];
            for (row, x) in a.block_at(k).chunks_exact(width).zip(x) {
                sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v.cast::<T>() * *x);
            }
        }
    }
    Ok((first * width, sums))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::{spmv, transpose};
    use crate::sparse::Csr;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_product_with_the_transpose(
            rows in 1_usize..4000, cols in 1_usize..40, height in 1_usize..4, width in 1_usize..3,
            entries in prop::collection::vec((0_usize..4000, 0_usize..40), 0..300),
        ) {
            let triplets: Vec<_> = entries.into_iter().map(|(i, j)| (i % rows, j % cols, 1.0)).collect();
            let pattern = Csr::from_triplets(rows, cols, &triplets).unwrap();
            let block = Block { rows: height, cols: width };
            let mut a = Csr::<f64>::with_pattern(rows, cols, block, pattern.offsets, pattern.columns).unwrap();
            // Whole numbers, so that every order of a sum gives the same bits.
            a.values.iter_mut().enumerate().for_each(|(k, v)| *v = (k % 7) as f64 - 3.0);
            let x: Vec<f64> = (0..rows * height).map(|i| (i % 5) as f64).collect();
            let y: Vec<f64> = (0..cols * width).map(|j| j as f64).collect();
            let (mut expected, mut found) = (y.clone(), y);
            spmv::apply(&transpose::transpose(&a.view()).unwrap().view(), 2.0, &x, -1.0, &mut expected);
            apply(&a.view(), 2.0, &x, -1.0, &mut found).unwrap();
            prop_assert_eq!(&found, &expected);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            let mut again = vec![f64::NAN; found.len()];
            pool.install(|| apply(&a.view(), 1.0, &x, 0.0, &mut again)).unwrap();
            spmv::apply(&transpose::transpose(&a.view()).unwrap().view(), 1.0, &x, 0.0, &mut expected);
            prop_assert_eq!(again, expected);
        }
    }

    #[test]
    fn threads_do_not_change_bits() {
        let a = crate::gallery::parse("convection_diffusion:120").unwrap().matrix;
        let x: Vec<f64> = (0..a.rows).map(|i| (i as f64).sin()).collect();
        let (mut alone, mut together) = (vec![1.0; a.rows], vec![1.0; a.rows]);
        apply(&a.view(), 0.3, &x, 0.7, &mut alone).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| apply(&a.view(), 0.3, &x, 0.7, &mut together)).unwrap();
        assert_eq!(alone, together);
    }
}
