//! Symbolic data of a product C = A B for numeric-only updates, with other values and the same patterns.
//!
//! The sum that a product a_ik b_kj is added to depends on the patterns alone. The symbolic phase finds it once and
//! stores its position in the row of C, one byte for each product while rows have at most 256 entries. The numeric
//! phase (`spgemm_numeric`) then reads values and positions in order and searches no column. Products are
//! added in the order of SpGEMM, so that equal values give equal bits.
//!
//! Rows of a scalar B are short and of varying length. So they are read in chunks of a fixed length: products of a
//! chunk behind the end of a row go to a position that no entry of C has. Where the processor can expand numbers into
//! a register, and rows of C are short, a mask of the entries of C replaces the positions (`spgemm_masks`).

use super::spgemm::{Dynamic, Fixed, with_shape};
use super::spgemm_block_products::{self, BlockProducts};
use super::spgemm_numeric::{RowEpilogue, Rows};
use super::{rows, spgemm_masks};
use crate::error::{Result, try_capacity};
use crate::par::{self, Fresh};
use crate::scalar::Scalar;
use crate::sparse::{Block, CsrView};
use std::ops::Range;

/// Row offsets and columns of a pattern.
pub type Pattern<'a> = (&'a [i64], &'a [i32]);

/// The right factor of a product: row offsets, values and block size.
#[derive(Clone, Copy)]
pub struct Values<'a, T> {
    /// Row offsets, in blocks.
    pub offsets: &'a [i64],
    /// Values, row by row.
    pub values: &'a [T],
    /// Block size.
    pub block: Block,
}

/// Symbolic data of a product: for each product of entries, in the order of addition, the position of its sum in the
/// row of C.
pub struct SpgemmSymbolic {
    /// One for each range of rows that a task handles.
    ranges: Vec<RowPositions>,
}

/// The positions of a range of rows.
enum RowPositions {
    /// Scalars, every row of B with one entry.
    Single(Vec<u8>),
    /// Scalars, each row of B in chunks.
    Chunks(Vec<[u8; CHUNK]>),
    /// Scalars, a mask for each row of B; see [`spgemm_masks`].
    Masks(Vec<u8>),
    /// Blocks, with the products of each block of C.
    BlockProducts(BlockProducts),
    /// Blocks, or scalars in long rows of C.
    Exact(Positions),
}

/// Entries of a chunk: most rows of a prolongator have no more.
pub(super) const CHUNK: usize = 4;

/// The position of padding.
pub(super) const PADDING: usize = 0xFF;

/// Positions, in the smallest type that holds the length of a row.
pub(super) enum Positions {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// An integer type for positions.
pub(super) trait Position: Copy + Send + Sync {
    fn from_usize(n: usize) -> Self;
    fn to_usize(self) -> usize;
}

macro_rules! positions {
    ($($type:ident $variant:ident),*) => {
        $(impl Position for $type {
            #[inline(always)]
            fn from_usize(n: usize) -> Self {
                n as $type
            }
            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }
        })*

        impl Positions {
            /// Bytes held.
            pub fn bytes(&self) -> usize {
                match self {
                    $(Positions::$variant(positions) => size_of_val(positions.as_slice()),)*
                }
            }
        }
    };
}
positions!(u8 U8, u16 U16, u32 U32);

/// Positions in rows of up to `$longest` entries: the expression is a vector of the right integer type.
macro_rules! make_positions {
    ($longest:expr, $vector:expr) => {
        match $longest {
            ..=0x100 => $crate::host::spgemm_symbolic::Positions::U8($vector),
            ..=0x1_0000 => $crate::host::spgemm_symbolic::Positions::U16($vector),
            _ => $crate::host::spgemm_symbolic::Positions::U32($vector),
        }
    };
}
pub(super) use make_positions;

impl SpgemmSymbolic {
    /// Symbolic phase of A B, where B has `cols` columns and this pattern and block size. The pattern of C includes
    /// that of the product.
    pub fn new<T: Scalar>(
        a: &CsrView<'_, T>,
        b: (Pattern<'_>, Block),
        c: Pattern<'_>,
        cols: usize,
    ) -> Result<SpgemmSymbolic> {
        SpgemmSymbolic::with_methods(a, b, c, cols, true)
    }

    /// [`SpgemmSymbolic::new`]; `vectorised` allows the methods of some processors.
    fn with_methods<T: Scalar>(
        a: &CsrView<'_, T>,
        (b, block): (Pattern<'_>, Block),
        c: Pattern<'_>,
        cols: usize,
        vectorised: bool,
    ) -> Result<SpgemmSymbolic> {
        let scalar = a.block == Block::SCALAR && block == Block::SCALAR;
        let is_single = b.0.windows(2).all(|ends| ends[1] == ends[0] + 1);
        let by_blocks = vectorised && spgemm_block_products::suit(a, block);
        let scratch = rows::PositionArrays::new(cols);
        let ranges = par::map_ranges(a.rows, rows::grain(a.rows), |range| {
            let longest = c.0[range.start..=range.end].windows(2).map(|o| (o[1] - o[0]) as usize).max().unwrap_or(0);
            scratch.with(|rows::PositionArray { at, .. }| {
                if by_blocks && let Some(products) = BlockProducts::find(a, b, c, range.clone(), at)? {
                    return Ok(RowPositions::BlockProducts(products));
                }
                if !scalar || longest > PADDING {
                    return Ok(RowPositions::Exact(make_positions!(longest, find_in(a, b, c, range, at)?)));
                }
                if is_single {
                    return Ok(RowPositions::Single(find_in(a, b, c, range, at)?));
                }
                let found = if vectorised && spgemm_masks::suit(longest) {
                    spgemm_masks::find(a, b, c, range.clone(), at)?
                } else {
                    None
                };
                Ok(match found {
                    Some(masks) => RowPositions::Masks(masks),
                    None => RowPositions::Chunks(find_chunks(a, b, c, range, at)?),
                })
            })
        })?;
        Ok(SpgemmSymbolic { ranges })
    }

    /// Numeric phase: the values of C, whose row offsets are `c`. `epilogue` may change a finished row: it gets its
    /// number and values.
    pub fn numeric<T: Scalar>(
        &self,
        a: &CsrView<'_, T>,
        b: Values<'_, T>,
        c: &[i64],
        epilogue: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<Vec<T>> {
        assert!(a.cols + 1 == b.offsets.len() && a.block.cols == b.block.rows);
        let width = a.block.rows * b.block.cols;
        let grain = rows::grain(a.rows);
        let scalar = a.block == Block::SCALAR && b.block == Block::SCALAR;
        let epilogue: &RowEpilogue<'_, T> = &epilogue;
        par::new_segments(&c[..=a.rows], width, grain, T::ZERO, |range, values: &mut Fresh<'_, T>| {
            let rows = Rows { a, b, c, range: range.clone() };
            let positions = match &self.ranges[range.start / grain] {
                RowPositions::Single(positions) => return rows.add_ones(positions, values, epilogue),
                RowPositions::Chunks(positions) => return rows.add_scalars(positions, values, epilogue),
                RowPositions::Masks(masks) => return spgemm_masks::add(&rows, masks, values, epilogue),
                RowPositions::BlockProducts(symbolic) => return symbolic.add(&rows, values, epilogue),
                RowPositions::Exact(positions) => positions,
            };
            // Long rows of blocks are rare, so that there are no loops for their dimensions.
            let dimensions = (a.block.rows, a.block.cols, b.block.cols);
            let dynamic = Dynamic { rows: dimensions.0, inner: dimensions.1, cols: dimensions.2 };
            match positions {
                Positions::U8(positions) => {
                    with_shape!(dimensions, shape => rows.add(positions, values, shape, epilogue));
                }
                Positions::U16(positions) if scalar => rows.add(positions, values, Fixed::<1, 1, 1>, epilogue),
                Positions::U16(positions) => rows.add(positions, values, dynamic, epilogue),
                Positions::U32(positions) => rows.add(positions, values, dynamic, epilogue),
            }
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let of_range = |positions: &RowPositions| match positions {
            RowPositions::Single(positions) => size_of_val(&positions[..]),
            RowPositions::Chunks(positions) => size_of_val(&positions[..]),
            RowPositions::Masks(masks) => size_of_val(&masks[..]),
            RowPositions::BlockProducts(products) => products.bytes(),
            RowPositions::Exact(positions) => positions.bytes(),
        };
        self.ranges.iter().map(of_range).sum()
    }
}

/// The positions of a range of rows. `at` has one element for each column of B.
fn find_in<T: Scalar, P: Position>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Vec<P>> {
    let row_of_b = |j: i32| b_offsets[(j - a.base) as usize] as usize..b_offsets[(j - a.base) as usize + 1] as usize;
    let entries = a.row_range(range.start).start..a.row_range(range.end - 1).end;
    let mut positions = try_capacity(a.columns[entries].iter().map(|j| row_of_b(*j).len()).sum())?;
    for i in range {
        for (position, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = position as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            positions.extend(b_columns[row_of_b(*j)].iter().map(|c| P::from_usize(at[*c as usize] as usize)));
        }
    }
    Ok(positions)
}

/// [`find_in`] with each row of B in chunks.
fn find_chunks<T: Scalar>(
    a: &CsrView<'_, T>,
    (b_offsets, b_columns): Pattern<'_>,
    (c_offsets, c_columns): Pattern<'_>,
    range: Range<usize>,
    at: &mut [u32],
) -> Result<Vec<[u8; CHUNK]>> {
    let row_of_b = |j: i32| b_offsets[(j - a.base) as usize] as usize..b_offsets[(j - a.base) as usize + 1] as usize;
    let entries = a.row_range(range.start).start..a.row_range(range.end - 1).end;
    let mut positions = try_capacity(a.columns[entries].iter().map(|j| row_of_b(*j).len().div_ceil(CHUNK)).sum())?;
    for i in range {
        for (position, j) in c_columns[c_offsets[i] as usize..c_offsets[i + 1] as usize].iter().enumerate() {
            at[*j as usize] = position as u32;
        }
        for j in &a.columns[a.row_range(i)] {
            for columns in b_columns[row_of_b(*j)].chunks(CHUNK) {
                let mut chunk = [PADDING as u8; CHUNK];
                for (position, c) in chunk.iter_mut().zip(columns) {
                    *position = at[*c as usize] as u8;
                }
                positions.push(chunk);
            }
        }
    }
    Ok(positions)
}

#[cfg(feature = "unit-tests")]
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

    /// Compares numeric phases of A B with products.
    fn check<T: Scalar>(symbolic: &SpgemmSymbolic, a: &Csr<T>, b: &Csr<T>, c: &Csr<T>) {
        let number = |i: usize| T::from_f64(i as f64);
        let other = Csr { values: a.values.iter().map(|v| T::from_f64(1.5) - *v).collect(), ..a.clone() };
        for a in [a, &other] {
            let values = Values { offsets: &b.offsets, values: &b.values, block: b.block };
            let updated =
                symbolic.numeric(&a.view(), values, &c.offsets, |i, row| row.iter_mut().for_each(|v| *v += number(i)));
            let mut expected = spgemm::multiply(&a.view(), &b.view()).unwrap();
            for i in 0..a.rows {
                let row = expected.offsets[i] as usize..expected.offsets[i + 1] as usize;
                let width = expected.block.len();
                expected.values[row.start * width..row.end * width].iter_mut().for_each(|v| *v += number(i));
            }
            assert_eq!(updated.unwrap(), expected.values);
        }
    }

    fn in_f32(a: &Csr<f64>) -> Csr<f32> {
        let mut narrow = Csr::with_pattern(a.rows, a.cols, a.block, a.offsets.clone(), a.columns.clone()).unwrap();
        narrow.values.iter_mut().zip(&a.values).for_each(|(to, v)| *to = *v as f32);
        narrow
    }

    #[test]
    fn an_updated_product_has_the_bits_of_the_product_for_rows_of_any_length() {
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
            let symbolic =
                SpgemmSymbolic::with_methods(&a.view(), pattern, (&c.offsets, &c.columns), cols, false).unwrap();
            // The bytes of a position, and the padded length of a row of B, for each range.
            let row_of_b = |j: &i32| (b.offsets[*j as usize + 1] - b.offsets[*j as usize]) as usize;
            let of_range = |start: usize| {
                let range = start..rows.min(start + rows::grain(rows));
                let longest = range.clone().map(|i| c.view().row_range(i).len()).max().unwrap();
                let (bytes, chunk) = match longest {
                    _ if left == scalar && longest <= PADDING => (1, CHUNK),
                    ..=0x100 => (1, 1),
                    0x101..=0x1_0000 => (2, 1),
                    _ => (4, 1),
                };
                let columns = &a.columns[a.offsets[range.start] as usize..a.offsets[range.end] as usize];
                (bytes, bytes * columns.iter().map(|j| row_of_b(j).next_multiple_of(chunk)).sum::<usize>())
            };
            let ranges: Vec<_> = (0..rows).step_by(rows::grain(rows)).map(of_range).collect();
            assert_eq!(ranges.iter().map(|(bytes, _)| *bytes).max(), Some(widest));
            assert_eq!(symbolic.bytes(), ranges.iter().map(|(_, all)| all).sum::<usize>());
            check(&symbolic, &a, &b, &c);
        }
    }

    #[test]
    fn a_product_of_blocks_gathered_has_the_bits_of_the_product() {
        for (n, inner, cols) in [(3, 3, 6), (6, 3, 6), (6, 6, 6)] {
            let (left, right) = (Block { rows: n, cols: inner }, Block { rows: inner, cols });
            let (a, b) = (random(300, 200, 9, left, 1), random(200, 50, 5, right, 2));
            let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
            let (pattern, of_c) = (((&b.offsets[..], &b.columns[..]), b.block), (&c.offsets[..], &c.columns[..]));
            let symbolic = SpgemmSymbolic::new(&a.view(), pattern, of_c, 50).unwrap();
            if spgemm_block_products::suit(&a.view(), right) {
                assert!(symbolic.ranges.iter().all(|range| matches!(range, RowPositions::BlockProducts(_))));
            }
            check(&symbolic, &a, &b, &c);
        }
        // Rows that are too long for a byte.
        let node = Block { rows: 3, cols: 3 };
        let (a, b) = (random(20, 10, 3, node, 1), random(10, 2000, 400, Block { rows: 3, cols: 6 }, 2));
        let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
        let pattern = ((&b.offsets[..], &b.columns[..]), b.block);
        let symbolic = SpgemmSymbolic::new(&a.view(), pattern, (&c.offsets, &c.columns), 2000).unwrap();
        assert!(symbolic.ranges.iter().all(|range| matches!(range, RowPositions::Exact(_))));
        check(&symbolic, &a, &b, &c);
    }

    /// Rows of C with up to one register of sums, up to several, and with more than those of one pass.
    #[test]
    fn a_product_updated_by_masks_has_the_bits_of_the_product() {
        if !spgemm_masks::suit(1) {
            eprintln!("this processor cannot expand numbers into a register");
            return;
        }
        for (cols, longest) in [(6, 3), (15, 4), (23, 5), (40, 5), (47, 6), (64, 8), (100, 12), (128, 12)] {
            let a = random(300, 200, longest, Block::SCALAR, 1);
            let b = random(200, cols, longest, Block::SCALAR, 2);
            let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
            let (pattern, of_c) = (((&b.offsets[..], &b.columns[..]), b.block), (&c.offsets[..], &c.columns[..]));
            let symbolic = SpgemmSymbolic::new(&a.view(), pattern, of_c, cols).unwrap();
            let bytes = |i: usize| {
                a.view().row_range(i).len() * spgemm_masks::bytes_of((c.offsets[i + 1] - c.offsets[i]) as usize)
            };
            assert_eq!(symbolic.bytes(), (0..a.rows).map(bytes).sum::<usize>());
            check(&symbolic, &a, &b, &c);
            let (a, b, c) = (in_f32(&a), in_f32(&b), in_f32(&c));
            check(&symbolic, &a, &b, &c);
        }
        // A row of B that is not sorted has no mask.
        let a = random(50, 20, 4, Block::SCALAR, 1);
        let mut b = random(20, 30, 4, Block::SCALAR, 2);
        let c = spgemm::multiply(&a.view(), &b.view()).unwrap();
        let row = (0..b.rows).map(|i| b.offsets[i] as usize..b.offsets[i + 1] as usize).find(|row| row.len() > 1);
        b.columns[row.unwrap()].reverse();
        let pattern = ((&b.offsets[..], &b.columns[..]), b.block);
        let symbolic = SpgemmSymbolic::new(&a.view(), pattern, (&c.offsets, &c.columns), 30).unwrap();
        assert!(symbolic.ranges.iter().any(|range| matches!(range, RowPositions::Chunks(_))));
    }
}
