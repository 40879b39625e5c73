//! Numeric phase of a product C = A B from its symbolic data, [`super::spgemm_symbolic`].

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::prefetch::prefetch;
use super::spgemm::{Shape, multiply_block};
use super::spgemm_symbolic::{CHUNK, PADDING, Position, Values};
use crate::error::try_vec;
use crate::par::Fresh;
use crate::scalar::Scalar;
use crate::sparse::CsrView;
use std::ops::Range;

/// Distance, in entries of A, at which rows of B are prefetched.
pub(super) const AHEAD: usize = 8;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Changes a finished row: it gets the number of the row and its values. Not generic, since it is called once for
/// each row.
pub(super) type RowEpilogue<'a, T> = dyn Fn(usize, &mut [T]) + Sync + 'a;

/// A range of rows of a product.
pub(super) struct Rows<'a, T> {
    pub a: &'a CsrView<'a, T>,
    pub b: Values<'a, T>,
    /// Row offsets of C.
    pub c: &'a [i64],
    pub range: Range<usize>,
}

impl<T: Scalar> Rows<'_, T> {
    /// [`Rows::add_scalars`] if row j of B is its entry j.
    pub(super) fn add_ones(&self, mut positions: &[u8], values: &mut Fresh<'_, T>, epilogue: &RowEpilogue<'_, T>) {
        let Rows { a, b, range, .. } = self;
        let mut sums = [T::ZERO; PADDING + 1];
        for i in range.clone() {
            let terms = a.row_range(i);
            let (now, later) = positions.split_at(terms.len());
            positions = later;
            for ((j, x), position) in a.columns[terms.clone()].iter().zip(&a.values[terms]).zip(now) {
                sums[*position as usize] += *x * b.values[(*j - a.base) as usize];
            }
            self.end_row(i, &mut sums, values, epilogue);
        }
    }

    /// Moves the sums of a row to the next of `values` and finishes it.
    #[inline(always)]
    fn end_row(&self, i: usize, sums: &mut [T; PADDING + 1], values: &mut Fresh<'_, T>, epilogue: &RowEpilogue<'_, T>) {
        let row = values.next((self.c[i + 1] - self.c[i]) as usize);
        for (to, sum) in row.iter_mut().zip(sums) {
            *to = std::mem::replace(sum, T::ZERO);
        }
        epilogue(i, row);
    }

    /// [`Rows::add`] for scalars in short rows: the array of sums is so long that a position needs no bounds check.
    pub(super) fn add_scalars(
        &self,
        mut positions: &[[u8; CHUNK]],
        values: &mut Fresh<'_, T>,
        epilogue: &RowEpilogue<'_, T>,
    ) {
        let Rows { a, b, range, .. } = self;
        let mut sums = [T::ZERO; PADDING + 1];
        for i in range.clone() {
            let terms = a.row_range(i);
            let columns = &a.columns[terms.clone()];
            for (k, (j, x)) in columns.iter().zip(&a.values[terms.clone()]).enumerate() {
                self.prefetch(terms.start + k, 1);
                let j = (*j - a.base) as usize;
                let ends = &b.offsets[j..j + 2];
                let row = ends[0] as usize..ends[1] as usize;
                let (now, later) = positions.split_at(row.len().div_ceil(CHUNK));
                positions = later;
                match b.values.get(row.start..row.start + now.len() * CHUNK) {
                    Some(from) => {
                        for (positions, from) in now.iter().zip(from.as_chunks::<CHUNK>().0) {
                            for (position, y) in positions.iter().zip(from) {
                                sums[*position as usize] += *x * *y;
                            }
                        }
                    }
                    // The chunks of the last rows of B would end beyond its values.
                    None => {
                        for (position, y) in now.as_flattened().iter().zip(&b.values[row]) {
                            sums[*position as usize] += *x * *y;
                        }
                    }
                }
            }
            self.end_row(i, &mut sums, values, epilogue);
        }
    }

    /// Columns of the entries of A whose rows of B are prefetched while those from `k` on are used: [`AHEAD`] entries
    /// later. Rows of a square A are near each other and need no prefetch.
    #[inline(always)]
    pub fn ahead(&self, k: usize) -> &[i32] {
        if self.a.rows >= self.a.cols { &[] } else { self.a.columns.get(k + AHEAD..).unwrap_or(&[]) }
    }

    /// Prefetches the row of B that is used [`AHEAD`] entries after `k`.
    #[inline(always)]
    fn prefetch(&self, k: usize, b_width: usize) {
        if let Some(j) = self.ahead(k).first() {
            self.prefetch_row((*j - self.a.base) as usize, b_width);
        }
    }

    /// Prefetches a row of B.
    #[inline(always)]
    fn prefetch_row(&self, j: usize, b_width: usize) {
        let Values { offsets, values, .. } = self.b;
        let row = offsets[j] as usize * b_width..offsets[j + 1] as usize * b_width;
        for k in row.step_by(LINE / size_of::<T>()) {
            prefetch(values, k);
        }
    }

    /// Prefetches the values of a later row of A, which are not read in order.
    pub fn prefetch_own(&self, i: usize) {
        let (a, width) = (self.a, self.a.block.len());
        if i < a.rows {
            let row = a.row_range(i);
            for k in (row.start * width..row.end * width).step_by(LINE / size_of::<T>()) {
                prefetch(a.values, k);
            }
        }
    }

    /// Prefetches the rows of B that a later row of A uses first. On a grid, neighbours in the same line use all but
    /// the last of them as well: the end of a run of columns is new.
    pub fn prefetch_new(&self, i: usize) {
        let (a, b_width) = (self.a, self.b.block.len());
        if i >= a.rows {
            return;
        }
        let columns = &a.columns[a.row_range(i)];
        for (k, j) in columns.iter().enumerate() {
            if columns.get(k + 1) != Some(&(j + 1)) {
                self.prefetch_row((j - a.base) as usize, b_width);
            }
        }
    }

    /// Adds all products.
    pub(super) fn add<P: Position>(
        &self,
        positions: &[P],
        values: &mut Fresh<'_, T>,
        shape: impl Shape,
        epilogue: &RowEpilogue<'_, T>,
    ) {
        let Rows { a, b, c, range } = self;
        let (a_width, b_width) = (shape.rows() * shape.inner(), shape.inner() * shape.cols());
        let width = shape.rows() * shape.cols();
        let mut positions = positions;
        let dimensions = (shape.rows(), shape.inner(), shape.cols());
        let mut registers = Registers::new(dimensions, c, range.clone());
        for i in range.clone() {
            let row = values.next((c[i + 1] - c[i]) as usize * width);
            for k in a.row_range(i) {
                self.prefetch(k, b_width);
                let j = a.col(k);
                let x = &a.values[k * a_width..][..a_width];
                let (begin, end) = (b.offsets[j] as usize, b.offsets[j + 1] as usize);
                let (now, later) = positions.split_at(end - begin);
                positions = later;
                let y = &b.values[begin * b_width..end * b_width];
                if let Some(registers) = &mut registers {
                    registers.add(dimensions, x, y, now);
                    continue;
                }
                for (position, y) in now.iter().zip(y.chunks_exact(b_width)) {
                    multiply_block(shape, x, y, &mut row[position.to_usize() * width..][..width]);
                }
            }
            if let Some(registers) = &mut registers {
                registers.take(shape.cols(), row);
            }
            epilogue(i, row);
        }
    }
}

/// Accumulates the blocks of a row in registers, on processors with kernels for their size.
struct Registers<T> {
    sums: Vec<T>,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl<T: Scalar> Registers<T> {
    fn new(dimensions: (usize, usize, usize), c: &[i64], range: Range<usize>) -> Option<Registers<T>> {
        if !avx512::is_present() || !avx512::blocks::has_kernel(dimensions, T::numbers(&[])) {
            return None;
        }
        let longest = c[range.start..=range.end].windows(2).map(|o| (o[1] - o[0]) as usize).max()?;
        // If memory is short, products are added in place.
        let sums = try_vec(longest * avx512::blocks::padded(dimensions.0), T::ZERO).ok()?;
        Some(Registers { sums })
    }

    #[inline(always)]
    fn add<P: Position>(&mut self, dimensions: (usize, usize, usize), x: &[T], y: &[T], positions: &[P]) {
        let (x, y, sums) = (T::numbers(x), T::numbers(y), T::slice_mut(&mut self.sums));
        avx512::blocks::add_products(dimensions, x, y, positions, sums);
    }

    fn take(&mut self, cols: usize, row: &mut [T]) {
        avx512::blocks::take(T::slice_mut(&mut self.sums), cols, T::slice_mut(row));
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl<T: Scalar> Registers<T> {
    fn new(_: (usize, usize, usize), _: &[i64], _: Range<usize>) -> Option<Registers<T>> {
        None
    }

    fn add<P: Position>(&mut self, _: (usize, usize, usize), _: &[T], _: &[T], _: &[P]) {}

    fn take(&mut self, _: usize, _: &mut [T]) {}
}
