//! Sparse matrices in CSR and BSR. CSR is BSR with 1x1 blocks: there is one type for both, so every algorithm exists
//! once.
//!
//! [`Csr`] owns its arrays. [`SharedCsr`] shares them, possibly with the caller's memory. [`CsrView`] is what
//! algorithms read.

mod coloured;
mod compact;
mod diagonals;
mod graph;
mod grid_transfer;
mod near_null_space;
mod own_rows;
mod stencil;
pub(crate) mod transpose;
mod validate;

pub use coloured::{Coloured, ColouredStencil, Colouring};
pub use compact::{Column, ColumnsRef, Compact, GROUP};
pub use diagonals::{BLOCK_ROWS, Diagonals};
pub use graph::Graph;
pub use grid_transfer::{Coarsened, SharedTransfer, TransferPattern};
pub use near_null_space::NearNullSpace;
pub use own_rows::OwnRows;
pub(crate) use own_rows::own_rows;
pub use stencil::{
    CellColours, Evenness, EveryOther, Grid, LineColours, LineOffsets, MAX_OFFSETS, Offset, SampledRow, SharedStencil,
    Stencil, evenness, stencils_of_row,
};
pub use validate::{DiagonalDefect, validate, validate_values};

use crate::error::{Result, try_capacity, try_copy, try_extend, try_filled, try_vec};
use crate::par;
use crate::scalar::{Number, Scalar};
use std::ops::Range;
use std::sync::Arc;

/// Dimensions of the dense blocks of a matrix, stored row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Scalar rows in a block.
    pub rows: usize,
    /// Scalar columns in a block.
    pub cols: usize,
}

impl Block {
    /// Ordinary CSR.
    pub const SCALAR: Block = Block { rows: 1, cols: 1 };

    /// A square block.
    pub fn square(n: usize) -> Block {
        Block { rows: n, cols: n }
    }

    /// Values in a block.
    pub fn len(self) -> usize {
        self.rows * self.cols
    }

    /// Never: a block has at least one value.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Name of the storage format in reports.
    pub fn format(self) -> String {
        if self == Block::SCALAR { "csr".to_string() } else { format!("bsr{}x{}", self.rows, self.cols) }
    }
}

/// An array of a matrix: owned by the library, or borrowed from the caller.
pub trait Storage<T>: Send + Sync {
    /// The elements.
    fn as_slice(&self) -> &[T];
    /// Bytes that the library holds for it; 0 if it is borrowed.
    fn owned_bytes(&self) -> usize;
}

impl<T: Send + Sync> Storage<T> for Vec<T> {
    fn as_slice(&self) -> &[T] {
        self
    }
    fn owned_bytes(&self) -> usize {
        size_of_val(self.as_slice())
    }
}

/// Row offsets. The library stores 64 bits; callers may have 32.
#[derive(Clone, Copy)]
pub enum Offsets<'a> {
    /// 32-bit.
    I32(&'a [i32]),
    /// 64-bit.
    I64(&'a [i64]),
}

impl<'a> Offsets<'a> {
    fn some(&self, range: Range<usize>) -> Offsets<'a> {
        match self {
            Offsets::I32(o) => Offsets::I32(&o[range]),
            Offsets::I64(o) => Offsets::I64(&o[range]),
        }
    }

    /// Offset `i` as it is stored, base not subtracted.
    #[inline(always)]
    pub fn raw(&self, i: usize) -> i64 {
        match self {
            Offsets::I32(o) => i64::from(o[i]),
            Offsets::I64(o) => o[i],
        }
    }

    fn len(&self) -> usize {
        match self {
            Offsets::I32(o) => o.len(),
            Offsets::I64(o) => o.len(),
        }
    }
}

/// A matrix to read. Rows and columns count blocks.
#[derive(Clone, Copy)]
pub struct CsrView<'a, T> {
    /// Block rows.
    pub rows: usize,
    /// Block columns.
    pub cols: usize,
    /// Block dimensions.
    pub block: Block,
    /// Row offsets, `rows + 1` of them, starting at `base`.
    pub offsets: Offsets<'a>,
    /// Column of each block, counted from `base`.
    pub columns: &'a [i32],
    /// Values, `block.len()` for each column.
    pub values: &'a [T],
    /// First number of offsets and columns: 0 or 1.
    pub base: i32,
}

impl<'a, T: Number> CsrView<'a, T> {
    /// Stored blocks.
    pub fn nnz(&self) -> usize {
        self.columns.len()
    }

    /// Stored scalar values.
    pub fn entries(&self) -> usize {
        self.columns.len() * self.block.len()
    }

    /// Rows in scalars.
    pub fn scalar_rows(&self) -> usize {
        self.rows * self.block.rows
    }

    /// Columns in scalars.
    pub fn scalar_cols(&self) -> usize {
        self.cols * self.block.cols
    }

    /// Positions of row `i` in `columns`.
    #[inline(always)]
    pub fn row_range(&self, i: usize) -> Range<usize> {
        let base = i64::from(self.base);
        (self.offsets.raw(i) - base) as usize..(self.offsets.raw(i + 1) - base) as usize
    }

    /// A range of rows. Columns and values are those of the whole matrix, into which the offsets point.
    pub fn some_rows(&self, range: Range<usize>) -> CsrView<'a, T> {
        CsrView { rows: range.len(), offsets: self.offsets.some(range.start..range.end + 1), ..*self }
    }

    /// Column at position `k`, counted from 0.
    #[inline(always)]
    pub fn col(&self, k: usize) -> usize {
        (self.columns[k] - self.base) as usize
    }

    /// The block at position `k`.
    #[inline(always)]
    pub fn block_at(&self, k: usize) -> &'a [T] {
        let len = self.block.len();
        &self.values[k * len..(k + 1) * len]
    }

    /// Columns and blocks of row `i`.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, &'a [T])> + '_ {
        self.row_range(i).map(|k| (self.col(k), self.block_at(k)))
    }

    /// An owned copy, in another precision if need be, with base 0.
    pub fn to_owned_as<U: Number>(&self) -> Result<Csr<U>> {
        let mut out = Csr::with_pattern(self.rows, self.cols, self.block, self.copy_offsets()?, self.copy_columns()?)?;
        par::for_each_mut(&mut out.values, par::GRAIN, |start, chunk| {
            for (to, from) in chunk.iter_mut().zip(&self.values[start..]) {
                *to = from.cast();
            }
        });
        Ok(out)
    }

    fn copy_offsets(&self) -> Result<Vec<i64>> {
        let mut offsets = try_capacity(self.offsets.len())?;
        offsets.extend((0..self.offsets.len()).map(|i| self.offsets.raw(i) - i64::from(self.base)));
        Ok(offsets)
    }

    fn copy_columns(&self) -> Result<Vec<i32>> {
        let mut columns = try_capacity(self.columns.len())?;
        columns.extend(self.columns.iter().map(|c| c - self.base));
        Ok(columns)
    }

    /// BSR to CSR; zeros inside blocks are stored.
    pub fn to_scalar(&self) -> Result<Csr<T>> {
        let Block { rows: br, cols: bc } = self.block;
        let mut offsets = try_capacity(self.scalar_rows() + 1)?;
        let mut columns = try_capacity(self.entries())?;
        let mut values = try_capacity(self.entries())?;
        offsets.push(0);
        for i in 0..self.rows {
            for r in 0..br {
                for (j, block) in self.row(i) {
                    columns.extend((0..bc).map(|c| (j * bc + c) as i32));
                    values.extend_from_slice(&block[r * bc..(r + 1) * bc]);
                }
                offsets.push(columns.len() as i64);
            }
        }
        Ok(Csr { rows: self.scalar_rows(), cols: self.scalar_cols(), block: Block::SCALAR, offsets, columns, values })
    }

    /// CSR to BSR with square blocks of `n` rows, for a matrix whose size `n` divides. Missing entries of blocks become
    /// zeros.
    pub fn to_blocks(&self, n: usize) -> Result<Csr<T>> {
        assert!(self.block == Block::SCALAR && self.rows.is_multiple_of(n) && self.cols.is_multiple_of(n));
        let rows = self.rows / n;
        let mut offsets = try_capacity(rows + 1)?;
        let mut columns: Vec<i32> = Vec::new();
        offsets.push(0);
        for i in 0..rows {
            let start = columns.len();
            for r in i * n..(i + 1) * n {
                try_extend(&mut columns, self.row_range(r).map(|k| (self.col(k) / n) as i32))?;
            }
            columns[start..].sort_unstable();
            let mut kept = start;
            for k in start..columns.len() {
                if k == start || columns[k] != columns[kept - 1] {
                    columns[kept] = columns[k];
                    kept += 1;
                }
            }
            columns.truncate(kept);
            offsets.push(kept as i64);
        }
        let mut out = Csr::with_pattern(rows, self.cols / n, Block::square(n), offsets, columns)?;
        for i in 0..rows {
            let range = out.offsets[i] as usize..out.offsets[i + 1] as usize;
            for r in 0..n {
                for (j, value) in self.row(i * n + r) {
                    let at = out.columns[range.clone()].binary_search(&((j / n) as i32));
                    let k = range.start + at.expect("the pattern was made from the same rows");
                    out.values[k * n * n + r * n + j % n] = value[0];
                }
            }
        }
        Ok(out)
    }
}

/// A matrix that owns its arrays, with base 0. Columns ascend in each row unless it is a copy of an unsorted matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr<T> {
    /// Block rows.
    pub rows: usize,
    /// Block columns.
    pub cols: usize,
    /// Block dimensions.
    pub block: Block,
    /// Row offsets, `rows + 1` of them.
    pub offsets: Vec<i64>,
    /// Column of each block.
    pub columns: Vec<i32>,
    /// Values, `block.len()` for each column.
    pub values: Vec<T>,
}

impl<T: Scalar> Csr<T> {
    /// A scalar matrix from `(row, column, value)`; repeated positions are added, rows are sorted.
    pub fn from_triplets(rows: usize, cols: usize, triplets: &[(usize, usize, T)]) -> Result<Csr<T>> {
        let mut offsets = try_vec(rows + 1, 0_i64)?;
        for &(i, _, _) in triplets {
            offsets[i + 1] += 1;
        }
        for i in 0..rows {
            offsets[i + 1] += offsets[i];
        }
        let mut at = try_copy(&offsets)?;
        let mut unsorted = try_filled(triplets.len(), (0_usize, T::ZERO))?;
        for &(i, j, v) in triplets {
            unsorted[at[i] as usize] = (j, v);
            at[i] += 1;
        }
        let mut out_offsets = try_capacity(rows + 1)?;
        let mut columns: Vec<i32> = try_capacity(triplets.len())?;
        let mut values: Vec<T> = try_capacity(triplets.len())?;
        out_offsets.push(0);
        for i in 0..rows {
            let row = &mut unsorted[offsets[i] as usize..offsets[i + 1] as usize];
            row.sort_by_key(|entry| entry.0);
            let start = columns.len();
            for &(j, v) in row.iter() {
                if columns.len() > start && columns[columns.len() - 1] == j as i32 {
                    let last = values.len() - 1;
                    values[last] += v;
                } else {
                    columns.push(j as i32);
                    values.push(v);
                }
            }
            out_offsets.push(columns.len() as i64);
        }
        Ok(Csr { rows, cols, block: Block::SCALAR, offsets: out_offsets, columns, values })
    }
}

impl<T: Number> Csr<T> {
    /// A matrix of zeros with this pattern.
    pub fn with_pattern(
        rows: usize,
        cols: usize,
        block: Block,
        offsets: Vec<i64>,
        columns: Vec<i32>,
    ) -> Result<Csr<T>> {
        let values = try_vec(columns.len() * block.len(), T::ZERO)?;
        Ok(Csr { rows, cols, block, offsets, columns, values })
    }

    /// To read.
    pub fn view(&self) -> CsrView<'_, T> {
        CsrView {
            rows: self.rows,
            cols: self.cols,
            block: self.block,
            offsets: Offsets::I64(&self.offsets),
            columns: &self.columns,
            values: &self.values,
            base: 0,
        }
    }

    /// To share.
    pub fn into_shared(self) -> SharedCsr<T> {
        let structure = Structure::new(self.rows, self.cols, self.block, self.offsets, self.columns);
        SharedCsr { structure: Arc::new(structure), values: Arc::new(self.values) }
    }
}

/// Row offsets that a matrix holds.
#[derive(Clone)]
pub enum OffsetStorage {
    /// 32-bit.
    I32(Arc<dyn Storage<i32>>),
    /// 64-bit.
    I64(Arc<dyn Storage<i64>>),
}

impl OffsetStorage {
    pub(crate) fn view(&self) -> Offsets<'_> {
        match self {
            OffsetStorage::I32(o) => Offsets::I32(o.as_slice()),
            OffsetStorage::I64(o) => Offsets::I64(o.as_slice()),
        }
    }
}

/// The pattern of a matrix, shared by all that have it.
pub struct Structure {
    /// Block rows.
    pub rows: usize,
    /// Block columns.
    pub cols: usize,
    /// Block dimensions.
    pub block: Block,
    /// Row offsets.
    pub offsets: OffsetStorage,
    /// Columns.
    pub columns: Arc<dyn Storage<i32>>,
    /// First number of offsets and columns.
    pub base: i32,
}

impl Structure {
    /// A pattern owned by the library, with base 0.
    pub fn new(rows: usize, cols: usize, block: Block, offsets: Vec<i64>, columns: Vec<i32>) -> Structure {
        let offsets = OffsetStorage::I64(Arc::new(offsets));
        Structure { rows, cols, block, offsets, columns: Arc::new(columns), base: 0 }
    }

    /// Bytes that the library holds for it.
    pub fn owned_bytes(&self) -> usize {
        let offsets = match &self.offsets {
            OffsetStorage::I32(o) => o.owned_bytes(),
            OffsetStorage::I64(o) => o.owned_bytes(),
        };
        offsets + self.columns.owned_bytes()
    }

    /// Offsets and columns of a pattern that the library made.
    pub fn own_arrays(&self) -> (&[i64], &[i32]) {
        match self.offsets.view() {
            Offsets::I64(offsets) if self.base == 0 => (offsets, self.columns.as_slice()),
            _ => unreachable!("the library's own matrices have 64-bit offsets and base 0"),
        }
    }

    /// This pattern with values.
    pub fn view<'a, T>(&'a self, values: &'a [T]) -> CsrView<'a, T> {
        CsrView {
            rows: self.rows,
            cols: self.cols,
            block: self.block,
            offsets: self.offsets.view(),
            columns: self.columns.as_slice(),
            values,
            base: self.base,
        }
    }
}

/// A matrix whose arrays are shared.
pub struct SharedCsr<T> {
    /// The pattern.
    pub structure: Arc<Structure>,
    /// The values.
    pub values: Arc<dyn Storage<T>>,
}

impl<T> Clone for SharedCsr<T> {
    fn clone(&self) -> Self {
        SharedCsr { structure: Arc::clone(&self.structure), values: Arc::clone(&self.values) }
    }
}

impl<T: Number> SharedCsr<T> {
    /// To read.
    pub fn view(&self) -> CsrView<'_, T> {
        self.structure.view(self.values.as_slice())
    }

    /// Bytes that the library holds for it.
    pub fn owned_bytes(&self) -> usize {
        self.structure.owned_bytes() + self.values.owned_bytes()
    }

    /// The same pattern with values in another format; the values are shared when the format is the same.
    pub fn cast<U: Number>(&self) -> Result<SharedCsr<U>> {
        let same: &dyn std::any::Any = &self.values;
        if let Some(values) = same.downcast_ref::<Arc<dyn Storage<U>>>() {
            return Ok(SharedCsr { structure: Arc::clone(&self.structure), values: Arc::clone(values) });
        }
        let from = self.values.as_slice();
        let mut values = try_vec(from.len(), U::ZERO)?;
        par::for_each_mut(&mut values, par::GRAIN, |start, chunk| {
            for (to, from) in chunk.iter_mut().zip(&from[start..]) {
                *to = from.cast();
            }
        });
        Ok(SharedCsr { structure: Arc::clone(&self.structure), values: Arc::new(values) })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    /// 4x4 scalar matrix with an absent 2x2 block.
    fn small() -> Csr<f64> {
        let t = [(0, 0, 1.0), (0, 1, 2.0), (1, 1, 3.0), (2, 2, 4.0), (3, 2, 5.0), (3, 3, 6.0), (0, 3, 7.0)];
        Csr::from_triplets(4, 4, &t).unwrap()
    }

    #[test]
    fn triplets_are_sorted_and_added() {
        let a = Csr::from_triplets(2, 3, &[(0, 2, 1.0), (0, 0, 2.0), (0, 2, 3.0)]).unwrap();
        assert_eq!(a.offsets, [0, 2, 2]);
        assert_eq!(a.columns, [0, 2]);
        assert_eq!(a.values, [2.0, 4.0]);
    }

    #[test]
    fn blocks_and_scalars_convert_into_each_other() {
        let blocked = small().view().to_blocks(2).unwrap();
        assert_eq!(blocked.offsets, [0, 2, 3]);
        assert_eq!(blocked.columns, [0, 1, 1]);
        assert_eq!(blocked.values, [1.0, 2.0, 0.0, 3.0, 0.0, 7.0, 0.0, 0.0, 4.0, 0.0, 5.0, 6.0]);

        let scalar = blocked.view().to_scalar().unwrap();
        let dense = |a: &Csr<f64>| {
            let mut d = vec![0.0; 16];
            for i in 0..4 {
                for (j, v) in a.view().row(i) {
                    d[i * 4 + j] += v[0];
                }
            }
            d
        };
        assert_eq!(dense(&scalar), dense(&small()));
    }

    #[test]
    fn a_cast_to_the_same_format_shares_the_values() {
        let a = small().into_shared();
        let same = a.cast::<f64>().unwrap();
        assert!(std::ptr::eq(a.values.as_slice(), same.values.as_slice()));
        assert_eq!(a.cast::<f32>().unwrap().values.as_slice()[6], 6.0_f32);
    }
}
