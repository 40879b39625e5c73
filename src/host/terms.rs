//! Renewal of a sparse product C = A B whose factors have other values and the same patterns.
//!
//! Which sum each term a_ik b_kj goes to depends on the patterns alone. It is found once, and kept as a place in the row of C, which takes
//! one byte for each term while rows have at most 256 entries. A renewal then reads values and places from front to back and looks up no
//! column. Terms are added in the order in which the product added them, so that equal values give equal bits.
//!
//! The rows of a scalar B are short, and of lengths that a processor cannot foresee. So they are read in chunks of a fixed length: what a chunk
//! reads behind the end of a row goes to a place that no entry of C has. Where the processor can expand numbers into a register, and rows of C
//! are short, a row of B has bits in place of places, one for each entry of C.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx512;
use super::gathered::{self, Gathered};
use super::prefetch::prefetch;
use super::spgemm::{Shape, multiply_block, with_shape};
use super::{bits, rows};
use crate::error::{Result, try_capacity, try_vec};
use crate::par::{self, Fresh};
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Terms of A between the one in use and the one whose row of B is asked for.
pub(super) const AHEAD: usize = 8;

/// Bytes of a line of memory.
const LINE: usize = 64;

/// Row offsets and columns of a pattern.
pub type Pattern<'a> = (&'a [i64], &'a [i32]);

/// The right factor of a product: row offsets, values and the shape of its blocks.
#[derive(Clone, Copy)]
pub struct Values<'a, T> {
    /// Row offsets, in blocks.
    pub offsets: &'a [i64],
    /// Values, row by row.
    pub values: &'a [T],
    /// Dimensions of the blocks.
    pub block: Block,
}

/// For each term of a product, in the order in which they are added, the place of its sum in the row of C.
pub struct Terms {
    /// One for each piece of rows that a task handles.
    pieces: Vec<Piece>,
}

/// The places of some rows.
enum Piece {
    /// Scalars, where every row of B has one entry.
    Ones(Vec<u8>),
    /// Scalars, each row of B in chunks.
    Chunks(Vec<[u8; CHUNK]>),
    /// Scalars, for each row of B the bits that [`bits`] goes by.
    Bits(Vec<u8>),
    /// Blocks, one block of C after the other.
    Gathered(Gathered),
    /// Blocks, or scalars in long rows of C.
    Exact(Places),
}

/// Entries of a chunk: most rows of a prolongator have no more.
const CHUNK: usize = 4;

/// The place in a row of C for what is not of its terms.
const NOWHERE: usize = 0xFF;

/// Places in rows that are not longer than the type can count.
pub(super) enum Places {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// A whole number that a place fits into.
pub(super) trait Place: Copy + Send + Sync {
    fn from_usize(n: usize) -> Self;
    fn to_usize(self) -> usize;
}

macro_rules! places {
    ($($type:ident $variant:ident),*) => {
        $(impl Place for $type {
            #[inline(always)]
            fn from_usize(n: usize) -> Self {
                n as $type
            }
            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }
        })*

        impl Places {
            /// Bytes held.
            pub fn bytes(&self) -> usize {
                match self {
                    $(Places::$variant(places) => size_of_val(places.as_slice()),)*
                }
            }
        }
    };
}
places!(u8 U8, u16 U16, u32 U32);

/// Places in rows of up to `$longest` entries, made by the expression as a vector of numbers of the right type.
macro_rules! make_places {
    ($longest:expr, $vector:expr) => {
        match $longest {
            ..=0x100 => $crate::host::terms::Places::U8($vector),
            ..=0x1_0000 => $crate::host::terms::Places::U16($vector),
            _ => $crate::host::terms::Places::U32($vector),
        }
    };
}
pub(super) use make_places;

impl Terms {
    /// The terms of A B, where B has `cols` columns and this pattern and block, for a pattern of C that holds at least that of the product.
    pub fn find<T: Scalar>(a: &CsrView<'_, T>, b: (Pattern<'_>, Block), c: Pattern<'_>, cols: usize) -> Result<Terms> {
        Terms::find_with(a, b, c, cols, true)
    }

    /// [`Terms::find`]; without the `ways` that only some processors have, where they are not wanted.
    fn find_with<T: Scalar>(
        a: &CsrView<'_, T>,
        (b, block): (Pattern<'_>, Block),
        c: Pattern<'_>,
        cols: usize,
        ways: bool,
    ) -> Result<Terms> {
        let scalar = a.block == Block::SCALAR && block == Block::SCALAR;
        let ones = b.0.windows(2).all(|ends| ends[1] == ends[0] + 1);
        let gathers = ways && gathered::suit(a, block);
        let scratch = rows::Places::new(cols);
        let pieces = par::map_ranges(a.rows, rows::grain(a.rows), |range| {
            let longest = c.0[range.start..=range.end].windows(2).map(|o| (o[1] - o[0]) as usize).max().unwrap_or(0);
            scratch.with(|rows::Place { at, .. }| {
                if gathers && let Some(gathered) = Gathered::find(a, b, c, range.clone(), at)? {
                    return Ok(Piece::Gathered(gathered));
                }
                if !scalar || longest > NOWHERE {
                    return Ok(Piece::Exact(make_places!(longest, find_in(a, b, c, range, at)?)));
                }
                if ones {
                    return Ok(Piece::Ones(find_in(a, b, c, range, at)?));
                }
                let found = if ways && bits::suit(longest) { bits::find(a, b, c, range.clone(), at)? } else { None };
                Ok(match found {
                    Some(bits) => Piece::Bits(bits),
                    None => Piece::Chunks(find_chunks(a, b, c, range, at)?),
                })
            })
        });
        Ok(Terms { pieces: pieces.into_iter().collect::<Result<_>>()? })
    }

    /// The values of C, whose row offsets are `c`. `finish` may change a finished row: it gets its number and values.
    pub fn renew<T: Scalar>(
        &self,
        a: &CsrView<'_, T>,
        b: Values<'_, T>,
        c: &[i64],
        finish: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<Vec<T>> {
        assert!(a.cols + 1 == b.offsets.len() && a.block.cols == b.block.rows);
        let width = a.block.rows * b.block.cols;
        let grain = rows::grain(a.rows);
        let finish: &Finish<'_, T> = &finish;
        par::new_segments(&c[..=a.rows], width, grain, T::ZERO, |range, values: &mut Fresh<'_, T>| {
            let rows = Rows { a, b, c, range: range.clone() };
            let places = match &self.pieces[range.start / grain] {
                Piece::Ones(places) => return rows.add_ones(places, values, finish),
                Piece::Chunks(places) => return rows.add_scalars(places, values, finish),
                Piece::Bits(bits) => return bits::add(&rows, bits, values, finish),
                Piece::Gathered(terms) => return terms.add(&rows, values, finish),
                Piece::Exact(places) => places,
            };
            with_shape!((a.block.rows, a.block.cols, b.block.cols), shape => match places {
                Places::U8(places) => rows.add(places, values, shape, finish),
                Places::U16(places) => rows.add(places, values, shape, finish),
                Places::U32(places) => rows.add(places, values, shape, finish),
            });
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let of_piece = |piece: &Piece| match piece {
            Piece::Ones(places) => size_of_val(&places[..]),
            Piece::Chunks(places) => size_of_val(&places[..]),
            Piece::Bits(bits) => size_of_val(&bits[..]),
            Piece::Gathered(terms) => terms.bytes(),
            Piece::Exact(places) => places.bytes(),
        };
        self.pieces.iter().map(of_piece).sum()
    }
}

/// The places of the terms of some rows. `at` has one element for each column of B.
fn find_in<T: Scalar, P: Place>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Vec<P>> {
    let row_of_b = |j: i32| b_offsets[(j - a.base) as usize] as usize..b_offsets[(j - a.base) as usize + 1] as usize;
    let terms = a.row_range(range.start).start..a.row_range(range.end - 1).end;
    let mut places = try_capacity(a.columns[terms].iter().map(|j| row_of_b(*j).len()).sum())?;
    for i in range {
        for (place, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = place as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            places.extend(b_columns[row_of_b(*j)].iter().map(|c| P::from_usize(at[*c as usize] as usize)));
        }
    }
    Ok(places)
}

/// [`find_in`] with the places of each row of B in chunks.
fn find_chunks<T: Scalar>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Vec<[u8; CHUNK]>> {
    let row_of_b = |j: i32| b_offsets[(j - a.base) as usize] as usize..b_offsets[(j - a.base) as usize + 1] as usize;
    let terms = a.row_range(range.start).start..a.row_range(range.end - 1).end;
    let mut places = try_capacity(a.columns[terms].iter().map(|j| row_of_b(*j).len().div_ceil(CHUNK)).sum())?;
    for i in range {
        for (place, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = place as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            for columns in b_columns[row_of_b(*j)].chunks(CHUNK) {
                let mut chunk = [NOWHERE as u8; CHUNK];
                for (place, c) in chunk.iter_mut().zip(columns) {
                    *place = at[*c as usize] as u8;
                }
                places.push(chunk);
            }
        }
    }
    Ok(places)
}

/// What is done with a row that has all its terms: it gets the number of the row and its values. Not generic, since it is called once for each row.
pub(super) type Finish<'a, T> = dyn Fn(usize, &mut [T]) + Sync + 'a;

/// Rows of a product.
pub(super) struct Rows<'a, T> {
    pub a: &'a CsrView<'a, T>,
    pub b: Values<'a, T>,
    /// Row offsets of C.
    pub c: &'a [i64],
    pub range: Range<usize>,
}

impl<T: Scalar> Rows<'_, T> {
    /// [`Rows::add_scalars`] where row j of B is its entry j.
    fn add_ones(&self, mut places: &[u8], values: &mut Fresh<'_, T>, finish: &Finish<'_, T>) {
        let Rows { a, b, range, .. } = self;
        let mut sums = [T::ZERO; NOWHERE + 1];
        for i in range.clone() {
            let terms = a.row_range(i);
            let (now, later) = places.split_at(terms.len());
            places = later;
            for ((j, x), place) in a.columns[terms.clone()].iter().zip(&a.values[terms]).zip(now) {
                sums[*place as usize] += *x * b.values[(*j - a.base) as usize];
            }
            self.end_row(i, &mut sums, values, finish);
        }
    }

    /// Moves the sums of a row to the next of `values` and finishes it.
    #[inline(always)]
    fn end_row(&self, i: usize, sums: &mut [T; NOWHERE + 1], values: &mut Fresh<'_, T>, finish: &Finish<'_, T>) {
        let row = values.next((self.c[i + 1] - self.c[i]) as usize);
        for (to, sum) in row.iter_mut().zip(sums) {
            *to = std::mem::replace(sum, T::ZERO);
        }
        finish(i, row);
    }

    /// [`Rows::add`] for scalars, in short rows: the sums of a row are kept where a place needs no check.
    fn add_scalars(&self, mut places: &[[u8; CHUNK]], values: &mut Fresh<'_, T>, finish: &Finish<'_, T>) {
        let Rows { a, b, range, .. } = self;
        let mut sums = [T::ZERO; NOWHERE + 1];
        for i in range.clone() {
            let terms = a.row_range(i);
            let columns = &a.columns[terms.clone()];
            for (k, (j, x)) in columns.iter().zip(&a.values[terms.clone()]).enumerate() {
                self.prefetch(terms.start + k, 1);
                let j = (*j - a.base) as usize;
                let ends = &b.offsets[j..j + 2];
                let row = ends[0] as usize..ends[1] as usize;
                let (now, later) = places.split_at(row.len().div_ceil(CHUNK));
                places = later;
                match b.values.get(row.start..row.start + now.len() * CHUNK) {
                    Some(from) => {
                        for (places, from) in now.iter().zip(from.as_chunks::<CHUNK>().0) {
                            for (place, y) in places.iter().zip(from) {
                                sums[*place as usize] += *x * *y;
                            }
                        }
                    }
                    // The last rows of B have nothing behind them.
                    None => {
                        for (place, y) in now.as_flattened().iter().zip(&b.values[row]) {
                            sums[*place as usize] += *x * *y;
                        }
                    }
                }
            }
            self.end_row(i, &mut sums, values, finish);
        }
    }

    /// Columns of the entries of A whose rows of B are to be asked for while those from `k` on are used: [`AHEAD`] entries later. Rows of a square
    /// A are near each other, and need no help.
    #[inline(always)]
    pub fn ahead(&self, k: usize) -> &[i32] {
        if self.a.rows >= self.a.cols { &[] } else { self.a.columns.get(k + AHEAD..).unwrap_or(&[]) }
    }

    /// Asks for the row of B that will be needed [`AHEAD`] terms after `k`.
    #[inline(always)]
    fn prefetch(&self, k: usize, b_width: usize) {
        if let Some(j) = self.ahead(k).first() {
            self.prefetch_row((*j - self.a.base) as usize, b_width);
        }
    }

    /// Asks for a row of B.
    #[inline(always)]
    fn prefetch_row(&self, j: usize, b_width: usize) {
        let Values { offsets, values, .. } = self.b;
        let row = offsets[j] as usize * b_width..offsets[j + 1] as usize * b_width;
        for k in row.step_by(LINE / size_of::<T>()) {
            prefetch(values, k);
        }
    }

    /// Asks for the values of a later row of A, which are not read in their order.
    pub fn prefetch_own(&self, i: usize) {
        let (a, width) = (self.a, self.a.block.len());
        if i < a.rows {
            let row = a.row_range(i);
            for k in (row.start * width..row.end * width).step_by(LINE / size_of::<T>()) {
                prefetch(a.values, k);
            }
        }
    }

    /// Asks for the rows of B that a later row of A needs first. On a grid, neighbours in the same line need all but the last of theirs as well: what
    /// ends a run of columns is new.
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

    /// Adds all terms.
    fn add<P: Place>(&self, places: &[P], values: &mut Fresh<'_, T>, shape: impl Shape, finish: &Finish<'_, T>) {
        let Rows { a, b, c, range } = self;
        let (a_width, b_width) = (shape.rows() * shape.inner(), shape.inner() * shape.cols());
        let width = shape.rows() * shape.cols();
        let mut places = places;
        let dimensions = (shape.rows(), shape.inner(), shape.cols());
        let mut registers = Registers::new(dimensions, c, range.clone());
        for i in range.clone() {
            let row = values.next((c[i + 1] - c[i]) as usize * width);
            for k in a.row_range(i) {
                self.prefetch(k, b_width);
                let j = a.col(k);
                let x = &a.values[k * a_width..][..a_width];
                let (begin, end) = (b.offsets[j] as usize, b.offsets[j + 1] as usize);
                let (now, later) = places.split_at(end - begin);
                places = later;
                let y = &b.values[begin * b_width..end * b_width];
                if let Some(registers) = &mut registers {
                    registers.add(dimensions, x, y, now);
                    continue;
                }
                for (place, y) in now.iter().zip(y.chunks_exact(b_width)) {
                    multiply_block(shape, x, y, &mut row[place.to_usize() * width..][..width]);
                }
            }
            if let Some(registers) = &mut registers {
                registers.take(shape.cols(), row);
            }
            finish(i, row);
        }
    }
}

/// The blocks of a row whose terms are added in registers, where the processor has such that are made for it.
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
        // Without that room terms are added where they belong.
        let sums = try_vec(longest * avx512::blocks::room(dimensions.0), T::ZERO).ok()?;
        Some(Registers { sums })
    }

    #[inline(always)]
    fn add<P: Place>(&mut self, dimensions: (usize, usize, usize), x: &[T], y: &[T], places: &[P]) {
        let (x, y, sums) = (T::numbers(x), T::numbers(y), T::slice_mut(&mut self.sums));
        avx512::blocks::add_products(dimensions, x, y, places, sums);
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

    fn add<P: Place>(&mut self, _: (usize, usize, usize), _: &[T], _: &[T], _: &[P]) {}

    fn take(&mut self, _: usize, _: &mut [T]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;
    use crate::host::spgemm;
    use crate::sparse::Csr;

    /// A matrix with `rows` rows of up to `longest` blocks, some of them empty.
    fn random(rows: usize, cols: usize, longest: u64, block: Block, seed: u64) -> Csr<f64> {
        let t: Vec<_> = (0..rows)
            .flat_map(|i| {
                (0..hash(i, seed) % (longest + 1))
                    .map(move |k| (i, hash(i * 1000 + k as usize, seed) as usize % cols, 1.0))
            })
            .collect();
        let pattern = Csr::from_triplets(rows, cols, &t).unwrap();
        let mut a = Csr::with_pattern(rows, cols, block, pattern.offsets, pattern.columns).unwrap();
        for (k, v) in a.values.iter_mut().enumerate() {
            *v = (hash(k, seed + 1) % 1000) as f64 / 7.0 - 50.0;
        }
        a
    }

    /// Checks renewals of A B against products.
    fn check<T: Scalar>(terms: &Terms, a: &Csr<T>, b: &Csr<T>, c: &Csr<T>) {
        let number = |i: usize| T::from_f64(i as f64);
        let other = Csr { values: a.values.iter().map(|v| T::from_f64(1.5) - *v).collect(), ..a.clone() };
        for a in [a, &other] {
            let values = Values { offsets: &b.offsets, values: &b.values, block: b.block };
            let renewed =
                terms.renew(&a.view(), values, &c.offsets, |i, row| row.iter_mut().for_each(|v| *v += number(i)));
            let mut expected = spgemm::multiply(&a.view(), &b.view()).unwrap();
            for i in 0..a.rows {
                let row = expected.offsets[i] as usize..expected.offsets[i + 1] as usize;
                let width = expected.block.len();
                expected.values[row.start * width..row.end * width].iter_mut().for_each(|v| *v += number(i));
            }
            assert_eq!(renewed.unwrap(), expected.values);
        }
    }

    fn in_f32(a: &Csr<f64>) -> Csr<f32> {
        let mut narrow = Csr::with_pattern(a.rows, a.cols, a.block, a.offsets.clone(), a.columns.clone()).unwrap();
        narrow.values.iter_mut().zip(&a.values).for_each(|(to, v)| *to = *v as f32);
        narrow
    }

    #[test]
    fn a_renewed_product_has_the_bits_of_the_product_for_rows_of_any_length() {
        let scalar = Block::SCALAR;
        let blocks = (Block { rows: 2, cols: 3 }, Block { rows: 3, cols: 2 });
        let nodes = (Block { rows: 3, cols: 3 }, Block { rows: 3, cols: 6 });
        let coarse = (Block { rows: 6, cols: 3 }, Block { rows: 3, cols: 6 });
        let coarser = (Block { rows: 6, cols: 6 }, Block { rows: 6, cols: 6 });
        for (rows, cols, longest, (left, right), widest) in [
            (2500, 60, 5, (scalar, scalar), 1),
            (300, 2000, 30, (scalar, scalar), 2),
            (40, 700, 30, blocks, 2),
            (400, 70, 5, nodes, 1),
            (40, 700, 30, coarse, 2),
            (60, 70, 5, coarser, 1),
            (3, 70_000, 1000, (scalar, scalar), 4),
        ] {
            let a = random(rows, 500, longest, left, 1);
            let b = random(500, cols, longest, right, 2);
            let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
            let pattern = ((&b.offsets[..], &b.columns[..]), b.block);
            let terms = Terms::find_with(&a.view(), pattern, (&c.offsets, &c.columns), cols, false).unwrap();
            // The bytes of a place, and the multiple of places that a row of B has, in each piece.
            let row_of_b = |j: &i32| (b.offsets[*j as usize + 1] - b.offsets[*j as usize]) as usize;
            let of_piece = |start: usize| {
                let range = start..rows.min(start + rows::grain(rows));
                let longest = range.clone().map(|i| c.view().row_range(i).len()).max().unwrap();
                let (bytes, chunk) = match longest {
                    _ if left == scalar && longest <= NOWHERE => (1, CHUNK),
                    ..=0x100 => (1, 1),
                    0x101..=0x1_0000 => (2, 1),
                    _ => (4, 1),
                };
                let columns = &a.columns[a.offsets[range.start] as usize..a.offsets[range.end] as usize];
                (bytes, bytes * columns.iter().map(|j| row_of_b(j).next_multiple_of(chunk)).sum::<usize>())
            };
            let pieces: Vec<_> = (0..rows).step_by(rows::grain(rows)).map(of_piece).collect();
            assert_eq!(pieces.iter().map(|(bytes, _)| *bytes).max(), Some(widest));
            assert_eq!(terms.bytes(), pieces.iter().map(|(_, all)| all).sum::<usize>());
            check(&terms, &a, &b, &c);
        }
    }

    #[test]
    fn a_product_of_blocks_gathered_has_the_bits_of_the_product() {
        for (n, inner, cols) in [(3, 3, 6), (6, 3, 6), (6, 6, 6)] {
            let (left, right) = (Block { rows: n, cols: inner }, Block { rows: inner, cols });
            let (a, b) = (random(300, 200, 9, left, 1), random(200, 50, 5, right, 2));
            let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
            let (pattern, of_c) = (((&b.offsets[..], &b.columns[..]), b.block), (&c.offsets[..], &c.columns[..]));
            let terms = Terms::find(&a.view(), pattern, of_c, 50).unwrap();
            if gathered::suit(&a.view(), right) {
                assert!(terms.pieces.iter().all(|piece| matches!(piece, Piece::Gathered(_))));
            }
            check(&terms, &a, &b, &c);
        }
        // Rows that are too long for a byte.
        let node = Block { rows: 3, cols: 3 };
        let (a, b) = (random(20, 10, 3, node, 1), random(10, 2000, 400, Block { rows: 3, cols: 6 }, 2));
        let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
        let pattern = ((&b.offsets[..], &b.columns[..]), b.block);
        let terms = Terms::find(&a.view(), pattern, (&c.offsets, &c.columns), 2000).unwrap();
        assert!(terms.pieces.iter().all(|piece| matches!(piece, Piece::Exact(_))));
        check(&terms, &a, &b, &c);
    }

    /// Rows of C with up to one register of sums, up to several, and with more than those of one pass.
    #[test]
    fn a_product_renewed_by_bits_has_the_bits_of_the_product() {
        if !bits::suit(1) {
            eprintln!("this processor cannot expand numbers into a register");
            return;
        }
        for (cols, longest) in [(6, 3), (15, 4), (23, 5), (40, 5), (47, 6), (64, 8), (100, 12), (128, 12)] {
            let a = random(300, 200, longest, Block::SCALAR, 1);
            let b = random(200, cols, longest, Block::SCALAR, 2);
            let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
            let (pattern, of_c) = (((&b.offsets[..], &b.columns[..]), b.block), (&c.offsets[..], &c.columns[..]));
            let terms = Terms::find(&a.view(), pattern, of_c, cols).unwrap();
            let bytes =
                |i: usize| a.view().row_range(i).len() * bits::bytes_of((c.offsets[i + 1] - c.offsets[i]) as usize);
            assert_eq!(terms.bytes(), (0..a.rows).map(bytes).sum::<usize>());
            check(&terms, &a, &b, &c);
            let (a, b, c) = (in_f32(&a), in_f32(&b), in_f32(&c));
            check(&terms, &a, &b, &c);
        }
        // A row of B that is not sorted has no bits.
        let a = random(50, 20, 4, Block::SCALAR, 1);
        let mut b = random(20, 30, 4, Block::SCALAR, 2);
        let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
        let row = (0..b.rows).map(|i| b.offsets[i] as usize..b.offsets[i + 1] as usize).find(|row| row.len() > 1);
        b.columns[row.unwrap()].reverse();
        let pattern = ((&b.offsets[..], &b.columns[..]), b.block);
        let terms = Terms::find(&a.view(), pattern, (&c.offsets, &c.columns), 30).unwrap();
        assert!(terms.pieces.iter().any(|piece| matches!(piece, Piece::Chunks(_))));
    }
}
