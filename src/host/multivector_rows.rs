//! Rows of matrices times multivectors: loops whose vectors stay in registers, compiled once more for wider ones.

use super::registers::{Work, with_avx2};
use super::simd::Rows;
use crate::scalar::{Number, Scalar};
use crate::sparse::{BLOCK_ROWS, Block, Column};
use std::ops::Range;

/// Some rows of a matrix, as loops over vectors that stay in registers.
pub(super) trait Kernel<W: Scalar> {
    fn run<const K: usize>(&self, x: &[[W; K]], sums: &mut [[W; K]]);
}

/// Runs a kernel for this number of vectors.
pub(super) fn multiply<W: Scalar>(k: usize, kernel: impl Kernel<W>, x: &[W], sums: &mut [W]) {
    match k {
        8 => with_registers::<8, W>(&kernel, x, sums),
        4 => with_registers::<4, W>(&kernel, x, sums),
        _ => unreachable!("multivectors have 4 or 8 vectors"),
    }
}

fn with_registers<const K: usize, W: Scalar>(kernel: &impl Kernel<W>, x: &[W], sums: &mut [W]) {
    with_avx2(Group::<'_, K, _, _> { kernel, x: x.as_chunks().0, sums: sums.as_chunks_mut().0 });
}

/// A kernel with its arguments.
struct Group<'a, const K: usize, W, N> {
    kernel: &'a N,
    x: &'a [[W; K]],
    sums: &'a mut [[W; K]],
}

impl<const K: usize, W: Scalar, N: Kernel<W>> Work for Group<'_, K, W, N> {
    #[inline(always)]
    fn run(self) {
        self.kernel.run(self.x, self.sums);
    }
}

/// total += v x.
#[inline(always)]
fn add<W: Scalar, const K: usize>(total: &mut [W; K], v: W, x: &[W; K]) {
    for c in 0..K {
        total[c] += v * x[c];
    }
}

pub(super) struct ScalarRows<'a, S, I> {
    pub rows: Rows<'a, S, I>,
}

impl<S: Number, I: Column, W: Scalar> Kernel<W> for ScalarRows<'_, S, I> {
    /// Entries with even and with odd numbers have sums of their own, so that additions do not wait for each other.
    #[inline(always)]
    fn run<const K: usize>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        let Rows { offsets, columns, values, shift } = self.rows;
        let at = |j: &I| &x[(j.to_i32() + shift) as usize];
        for (range, sum) in offsets.windows(2).zip(sums) {
            let (mut even, mut odd) = ([W::ZERO; K], [W::ZERO; K]);
            let (columns, last_column) = columns[range[0]..range[1]].as_chunks::<2>();
            let (values, last_value) = values[range[0]..range[1]].as_chunks::<2>();
            for ([i, j], [u, v]) in columns.iter().zip(values) {
                add(&mut even, u.cast(), at(i));
                add(&mut odd, v.cast(), at(j));
            }
            for (j, v) in last_column.iter().zip(last_value) {
                add(&mut even, v.cast(), at(j));
            }
            add(&mut even, W::ONE, &odd);
            *sum = even;
        }
    }
}

/// Rows of blocks.
pub(super) struct BlockRows<'a, S> {
    pub rows: Rows<'a, S, i32>,
    pub block: Block,
}

/// Rows of a block that are summed at the same time.
const ROWS_AT_ONCE: usize = 3;

impl<S: Number, W: Scalar> Kernel<W> for BlockRows<'_, S> {
    #[inline(always)]
    fn run<const K: usize>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        let br = self.block.rows;
        for (range, sums) in self.rows.offsets.windows(2).zip(sums.chunks_exact_mut(br)) {
            let (groups, rest) = sums.as_chunks_mut::<ROWS_AT_ONCE>();
            let first = br - rest.len();
            for (g, sums) in groups.iter_mut().enumerate() {
                *sums = self.some_rows(range[0]..range[1], ROWS_AT_ONCE * g, x);
            }
            for (r, sum) in rest.iter_mut().enumerate() {
                [*sum] = self.some_rows(range[0]..range[1], first + r, x);
            }
        }
    }
}

impl<S: Number> BlockRows<'_, S> {
    /// The sums of N rows of the blocks of a block row, from row `first` of the block on.
    #[inline(always)]
    fn some_rows<const K: usize, const N: usize, W: Scalar>(
        &self,
        range: Range<usize>,
        first: usize,
        x: &[[W; K]],
    ) -> [[W; K]; N] {
        let Rows { columns, values, shift, .. } = self.rows;
        let Block { rows: br, cols: bc } = self.block;
        let mut total = [[W::ZERO; K]; N];
        let blocks = values[range.start * br * bc..range.end * br * bc].chunks_exact(br * bc);
        for (j, block) in columns[range].iter().zip(blocks) {
            let block = &block[first * bc..][..N * bc];
            for (c, x) in x[(j.to_i32() + shift) as usize * bc..][..bc].iter().enumerate() {
                for r in 0..N {
                    add(&mut total[r], block[r * bc + c].cast(), x);
                }
            }
        }
        total
    }
}

/// Rows by diagonals, from block row `row` on.
pub(super) struct DiagonalRows<'a, S> {
    pub row: usize,
    pub width: usize,
    pub group: usize,
    pub distances: &'a [i32],
    pub values: &'a [S],
}

/// Rows by diagonals that are summed at the same time.
const AT_ONCE: usize = 4;

impl<S: Number, W: Scalar> Kernel<W> for DiagonalRows<'_, S> {
    #[inline(always)]
    fn run<const K: usize>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        match self.width {
            1 => self.scalars(x, sums),
            _ => self.blocks(x, sums),
        }
    }
}

impl<S: Number> DiagonalRows<'_, S> {
    #[inline(always)]
    fn scalars<const K: usize, W: Scalar>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        // Distances ascend.
        let (least, most) = match self.distances {
            [one] => (*one, *one),
            [least, .., most] => (*least, *most),
            [] => (0, 0),
        };
        let (whole, rest) = sums.as_chunks_mut::<AT_ONCE>();
        let last = AT_ONCE * whole.len();
        for (piece, sums) in whole.iter_mut().enumerate() {
            let lane = AT_ONCE * piece;
            let first = (self.row + lane) as i64;
            if first + i64::from(least) < 0 || first + i64::from(most) + AT_ONCE as i64 > x.len() as i64 {
                sums.iter_mut().enumerate().for_each(|(q, sum)| *sum = self.row_sum(lane + q, x));
                continue;
            }
            let mut total = [[W::ZERO; K]; AT_ONCE];
            for (distance, values) in self.distances.iter().zip(self.values.chunks_exact(self.group)) {
                let x = &x[(first + i64::from(*distance)) as usize..][..AT_ONCE];
                let values = &values[lane..][..AT_ONCE];
                for q in 0..AT_ONCE {
                    add(&mut total[q], values[q].cast(), &x[q]);
                }
            }
            *sums = total;
        }
        rest.iter_mut().enumerate().for_each(|(q, sum)| *sum = self.row_sum(last + q, x));
    }

    /// The sum of a row, which has no entry outside of x.
    #[inline(always)]
    fn row_sum<const K: usize, W: Scalar>(&self, lane: usize, x: &[[W; K]]) -> [W; K] {
        let mut total = [W::ZERO; K];
        for (distance, values) in self.distances.iter().zip(self.values.chunks_exact(self.group)) {
            if let Some(x) = x.get((self.row + lane).wrapping_add_signed(*distance as isize)) {
                add(&mut total, values[lane].cast(), x);
            }
        }
        total
    }

    /// Blocks of any number of rows.
    #[inline(always)]
    fn blocks<const K: usize, W: Scalar>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        for (lane, sums) in sums.chunks_exact_mut(self.width).enumerate() {
            let (groups, rest) = sums.as_chunks_mut::<ROWS_AT_ONCE>();
            let first = self.width - rest.len();
            for (g, sums) in groups.iter_mut().enumerate() {
                *sums = self.some_rows(lane, ROWS_AT_ONCE * g, x);
            }
            for (r, sum) in rest.iter_mut().enumerate() {
                [*sum] = self.some_rows(lane, first + r, x);
            }
        }
    }

    /// The sums of N rows of a block row, from row `first` of the block on.
    #[inline(always)]
    fn some_rows<const K: usize, const N: usize, W: Scalar>(
        &self,
        lane: usize,
        first: usize,
        x: &[[W; K]],
    ) -> [[W; K]; N] {
        let DiagonalRows { row, width, distances, values, .. } = *self;
        let mut total = [[W::ZERO; K]; N];
        for (distance, values) in distances.iter().zip(values.chunks_exact(width * width * BLOCK_ROWS)) {
            let begin = (row + lane).wrapping_add_signed(*distance as isize).wrapping_mul(width);
            let Some(x) = x.get(begin..begin.wrapping_add(width)) else { continue };
            let values = &values.as_chunks::<BLOCK_ROWS>().0[first * width..][..N * width];
            for (c, x) in x.iter().enumerate() {
                for r in 0..N {
                    add(&mut total[r], values[r * width + c][lane].cast(), x);
                }
            }
        }
        total
    }
}

/// Rows of a dense matrix of `n` columns.
pub(super) struct DenseRows<'a, S> {
    pub n: usize,
    pub values: &'a [S],
}

impl<S: Number, W: Scalar> Kernel<W> for DenseRows<'_, S> {
    #[inline(always)]
    fn run<const K: usize>(&self, x: &[[W; K]], sums: &mut [[W; K]]) {
        for (row, sum) in self.values.chunks_exact(self.n).zip(sums) {
            let mut total = [W::ZERO; K];
            for (v, x) in row.iter().zip(x) {
                add(&mut total, v.cast(), x);
            }
            *sum = total;
        }
    }
}
