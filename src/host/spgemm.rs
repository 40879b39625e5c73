//! Sparse matrix times sparse matrix, for blocks of any shape: row by row, with the place of each column looked up in an array as long as a
//! row of B. A product whose values change is renewed by [`numeric`] without searching its pattern again; it adds in the same order.

use super::{par, rows};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView};

/// The product A B, columns ascending in each row.
pub fn multiply<T: Scalar>(a: &CsrView<'_, T>, b: &CsrView<'_, T>) -> Result<Csr<T>> {
    assert!(a.cols == b.rows && a.block.cols == b.block.rows);
    let block = Block { rows: a.block.rows, cols: b.block.cols };
    let width = block.len();
    let scalar = a.block == Block::SCALAR && b.block == Block::SCALAR;
    let (offsets, columns, values) = rows::build(a.rows, width, |range, out| {
        // Where each column stands in the piece, plus one; what does not lie behind the start of the row is of an earlier row.
        let mut place = rows::scratch(b.cols)?;
        let mut sorter = Sorter { order: Vec::new(), blocks: Vec::new() };
        for i in range {
            let start = out.columns.len();
            let bound: usize = a.row_range(i).map(|ka| b.row_range(a.col(ka)).len()).sum();
            out.reserve(bound.min(b.cols), width)?;
            for ka in a.row_range(i) {
                let row = b.row_range(a.col(ka));
                if scalar {
                    let x = a.values[ka];
                    for (c, y) in b.columns[row.clone()].iter().zip(&b.values[row]) {
                        let place = &mut place[(*c - b.base) as usize];
                        if *place as usize > start {
                            out.values[*place as usize - 1] += x * *y;
                        } else {
                            out.columns.push(*c - b.base);
                            out.values.push(x * *y);
                            *place = out.columns.len() as u32;
                        }
                    }
                } else {
                    for kb in row {
                        let place = &mut place[b.col(kb)];
                        if *place as usize <= start {
                            out.columns.push(b.col(kb) as i32);
                            out.values.resize(out.values.len() + width, T::ZERO);
                            *place = out.columns.len() as u32;
                        }
                        let at = (*place as usize - 1) * width;
                        multiply_block(
                            a.block,
                            block.cols,
                            a.block_at(ka),
                            b.block_at(kb),
                            &mut out.values[at..at + width],
                        );
                    }
                }
            }
            sorter.sort(&mut out.columns[start..], &mut out.values[start * width..], width);
            out.end_row(start);
        }
        Ok(())
    })?;
    Ok(Csr { rows: a.rows, cols: b.cols, block, offsets, columns, values })
}

/// Sorts the blocks of a row by column.
struct Sorter<T> {
    /// Column and where it stood.
    order: Vec<(i32, u32)>,
    blocks: Vec<T>,
}

impl<T: Scalar> Sorter<T> {
    fn sort(&mut self, columns: &mut [i32], values: &mut [T], width: usize) {
        if columns.is_sorted() {
            return;
        }
        self.order.clear();
        self.order.extend(columns.iter().enumerate().map(|(k, c)| (*c, k as u32)));
        self.order.sort_unstable_by_key(|entry| entry.0);
        self.blocks.clear();
        self.blocks.extend_from_slice(values);
        for (to, (column, from)) in self.order.iter().enumerate() {
            columns[to] = *column;
            let from = *from as usize * width;
            values[to * width..(to + 1) * width].copy_from_slice(&self.blocks[from..from + width]);
        }
    }
}

/// Fills the values of A B, for a pattern that holds at least that of the product.
pub fn numeric<T: Scalar>(
    a: &CsrView<'_, T>,
    b: &CsrView<'_, T>,
    offsets: &[i64],
    columns: &[i32],
    values: &mut [T],
) -> Result<()> {
    assert!(a.cols == b.rows && a.block.cols == b.block.rows);
    let width = a.block.rows * b.block.cols;
    let scalar = a.block == Block::SCALAR && b.block == Block::SCALAR;
    drop(rows::scratch(b.cols)?);
    par::for_each_segment_mut(values, offsets, width, rows::grain(a.rows), |range, values| {
        let first = offsets[range.start] as usize;
        // Position in C of each column of the current row.
        let mut position = vec![0_u32; b.cols];
        for i in range {
            let begin = offsets[i] as usize;
            let row = &columns[begin..offsets[i + 1] as usize];
            for (k, j) in row.iter().enumerate() {
                position[*j as usize] = k as u32;
            }
            let values = &mut values[(begin - first) * width..][..row.len() * width];
            values.fill(T::ZERO);
            for ka in a.row_range(i) {
                let row = b.row_range(a.col(ka));
                if scalar {
                    let x = a.values[ka];
                    for (c, y) in b.columns[row.clone()].iter().zip(&b.values[row]) {
                        values[position[(*c - b.base) as usize] as usize] += x * *y;
                    }
                } else {
                    for kb in row {
                        let at = position[b.col(kb)] as usize;
                        multiply_block(
                            a.block,
                            b.block.cols,
                            a.block_at(ka),
                            b.block_at(kb),
                            &mut values[at * width..][..width],
                        );
                    }
                }
            }
        }
    });
    Ok(())
}

/// c += a b for dense blocks stored row by row.
#[inline]
fn multiply_block<T: Scalar>(shape: Block, cols: usize, a: &[T], b: &[T], c: &mut [T]) {
    for (a_row, c_row) in a.chunks_exact(shape.cols).zip(c.chunks_exact_mut(cols)) {
        for (x, b_row) in a_row.iter().zip(b.chunks_exact(cols)) {
            for (c, y) in c_row.iter_mut().zip(b_row) {
                *c += *x * *y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dense(a: &Csr<f64>) -> Vec<Vec<f64>> {
        let s = a.view().to_scalar().unwrap();
        let mut d = vec![vec![0.0; s.cols]; s.rows];
        for (i, row) in d.iter_mut().enumerate() {
            for (j, v) in s.view().row(i) {
                row[j] += v[0];
            }
        }
        d
    }

    fn with_blocks(rows: usize, cols: usize, block: Block, at: &[(usize, usize, f64)]) -> Csr<f64> {
        let triplets: Vec<_> = at.iter().map(|&(i, j, v)| (i % rows, j % cols, v)).collect();
        let scalar = Csr::from_triplets(rows, cols, &triplets).unwrap();
        let mut a = Csr::with_pattern(rows, cols, block, scalar.offsets, scalar.columns).unwrap();
        for (k, block) in a.values.chunks_exact_mut(block.len()).enumerate() {
            for (e, v) in block.iter_mut().enumerate() {
                *v = scalar.values[k] + e as f64;
            }
        }
        a
    }

    type Entries = Vec<(usize, usize, f64)>;

    fn entries() -> impl Strategy<Value = Entries> {
        prop::collection::vec((0_usize..20, 0_usize..20, -4.0..4.0_f64), 0..80)
    }

    proptest! {
        #[test]
        fn products_match_the_dense_ones(
            n in 1_usize..12, m in 1_usize..12, l in 1_usize..12, (p, q, r) in (1_usize..4, 1_usize..4, 1_usize..4), x in entries(), y in entries()
        ) {
            let a = with_blocks(n, m, Block { rows: p, cols: q }, &x);
            let b = with_blocks(m, l, Block { rows: q, cols: r }, &y);
            let c = multiply(&a.view(), &b.view()).unwrap();
            let (da, db, dc) = (dense(&a), dense(&b), dense(&c));
            for i in 0..n * p {
                for j in 0..l * r {
                    let expected: f64 = (0..m * q).map(|k| da[i][k] * db[k][j]).sum();
                    prop_assert!((dc[i][j] - expected).abs() < 1e-10);
                }
            }
            prop_assert!((0..c.rows).all(|i| c.columns[c.offsets[i] as usize..c.offsets[i + 1] as usize].is_sorted()));
        }
    }
}
