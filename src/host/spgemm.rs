//! SpGEMM for blocks of any size: row by row (Gustavson), with a sparse accumulator: an array as long as a row of B
//! has the position of each column. [`super::spgemm_symbolic`] updates a product whose values change.

use super::rows::{self, Pieces, PositionArray, PositionArrays, RowBuilder};
use super::spgemm_numeric::AHEAD;
use crate::comm::Renumbering;
use crate::error::{Result, fail, try_extend, try_reserve};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Offsets};
use std::ops::Range;

/// The right factor of a product.
trait Factor<T>: Sync {
    /// Block rows.
    fn rows(&self) -> usize;
    /// Block columns.
    fn cols(&self) -> usize;
    /// Block dimensions.
    fn block(&self) -> Block;
    /// Entries of the longest row.
    fn longest(&self) -> usize;
    /// Columns and values of a row; `width` is that of the blocks, which may be a compile-time constant.
    fn row(&self, i: usize, width: usize) -> (&[i32], &[T]);
    /// Prefetches a row.
    #[inline(always)]
    fn prefetch(&self, _row: usize) {}
}

/// A matrix of the library's own.
struct Own<'a, T> {
    matrix: CsrView<'a, T>,
    offsets: &'a [i64],
}

impl<'a, T: Scalar> Own<'a, T> {
    fn new(matrix: &CsrView<'a, T>) -> Own<'a, T> {
        match matrix.offsets {
            Offsets::I64(offsets) if matrix.base == 0 => Own { matrix: *matrix, offsets },
            _ => unreachable!("the right factor of a product is one of the library's own matrices"),
        }
    }
}

impl<T: Scalar> Factor<T> for Own<'_, T> {
    fn rows(&self) -> usize {
        self.matrix.rows
    }
    fn cols(&self) -> usize {
        self.matrix.cols
    }
    fn block(&self) -> Block {
        self.matrix.block
    }
    fn longest(&self) -> usize {
        self.offsets.windows(2).map(|o| o[1] - o[0]).max().unwrap_or(0) as usize
    }
    #[inline(always)]
    fn row(&self, i: usize, width: usize) -> (&[i32], &[T]) {
        let ends = &self.offsets[i..i + 2];
        let (begin, end) = (ends[0] as usize, ends[1] as usize);
        (&self.matrix.columns[begin..end], &self.matrix.values[begin * width..end * width])
    }
}

/// A product that is only a factor of another one: the columns of a row are unsorted.
pub struct Intermediate<T> {
    entries: Pieces<T>,
    rows: usize,
    cols: usize,
    block: Block,
}

impl<T: Scalar> Factor<T> for Intermediate<T> {
    fn rows(&self) -> usize {
        self.rows
    }
    fn cols(&self) -> usize {
        self.cols
    }
    fn block(&self) -> Block {
        self.block
    }
    fn longest(&self) -> usize {
        self.entries.longest()
    }
    #[inline(always)]
    fn row(&self, i: usize, width: usize) -> (&[i32], &[T]) {
        self.entries.row(i, width)
    }
    #[inline(always)]
    fn prefetch(&self, row: usize) {
        self.entries.prefetch(row);
    }
}

/// A factor of which this rank has some rows, and copies of others.
struct Divided<'a, T, F> {
    own: &'a F,
    inside: Range<usize>,
    first: usize,
    fetched: Own<'a, T>,
}

impl<T: Scalar, F: Factor<T>> Factor<T> for Divided<'_, T, F> {
    fn rows(&self) -> usize {
        self.inside.len() + self.fetched.rows()
    }
    fn cols(&self) -> usize {
        self.own.cols()
    }
    fn block(&self) -> Block {
        self.own.block()
    }
    fn longest(&self) -> usize {
        self.own.longest().max(self.fetched.longest())
    }
    #[inline(always)]
    fn row(&self, i: usize, width: usize) -> (&[i32], &[T]) {
        match i.wrapping_sub(self.inside.start) {
            k if k < self.inside.len() => self.own.row(self.first + k, width),
            _ if i < self.inside.start => self.fetched.row(i, width),
            _ => self.fetched.row(i - self.inside.len(), width),
        }
    }
    #[inline(always)]
    fn prefetch(&self, row: usize) {
        let k = row.wrapping_sub(self.inside.start);
        if k < self.inside.len() {
            self.own.prefetch(self.first + k);
        }
    }
}

/// Rows of a factor that belong to other ranks.
pub(crate) struct Fetched<'a, T> {
    /// Which rows of the factor are those of this rank; the first of them is its row `first`.
    pub inside: Range<usize>,
    pub first: usize,
    /// The other rows.
    pub rows: CsrView<'a, T>,
}

/// As [`intermediate`], where this rank has some rows of B, and of the others those that A refers to.
pub(crate) fn divided_intermediate<T: Scalar>(
    a: &CsrView<'_, T>,
    b: &CsrView<'_, T>,
    fetched: Fetched<'_, T>,
) -> Result<Intermediate<T>> {
    let own = Own::new(b);
    let Fetched { inside, first, rows } = fetched;
    intermediate_of(a, &Divided { own: &own, inside, first, fetched: Own::new(&rows) })
}

/// As [`multiply_intermediate`], in the same way.
pub(crate) fn multiply_divided<T: Scalar>(
    a: &CsrView<'_, T>,
    b: &Intermediate<T>,
    fetched: Fetched<'_, T>,
) -> Result<Csr<T>> {
    let Fetched { inside, first, rows } = fetched;
    product(a, &Divided { own: b, inside, first, fetched: Own::new(&rows) }, &|_, _, _| ())
}

impl<T: Scalar> Intermediate<T> {
    /// Columns and values of a row.
    pub(crate) fn entries_of(&self, i: usize) -> (&[i32], &[T]) {
        self.entries.row(i, self.block.len())
    }

    /// Dimensions of its blocks.
    pub(crate) fn block(&self) -> Block {
        self.block
    }

    /// Gives its columns other numbers, of which there are so many.
    pub(crate) fn renumber(&mut self, cols: usize, renumbering: &Renumbering<'_>) {
        self.cols = cols;
        self.entries.for_each_columns(|columns| renumbering.apply(columns));
    }
}

/// Changes a finished row, whose columns are unsorted: row, columns, values.
type RowEpilogue<'a, T> = dyn Fn(usize, &[i32], &mut [T]) + Sync + 'a;

/// The product A B, columns ascending in each row. B is one of the library's own matrices.
pub fn multiply<T: Scalar>(a: &CsrView<'_, T>, b: &CsrView<'_, T>) -> Result<Csr<T>> {
    multiply_and(a, b, &|_, _, _| ())
}

/// The product A B as [`multiply`] gives it, each row changed by `epilogue`.
pub fn multiply_and<T: Scalar>(
    a: &CsrView<'_, T>,
    b: &CsrView<'_, T>,
    epilogue: &RowEpilogue<'_, T>,
) -> Result<Csr<T>> {
    product(a, &Own::new(b), epilogue)
}

/// The product A B as [`multiply`] gives it.
pub fn multiply_intermediate<T: Scalar>(a: &CsrView<'_, T>, b: &Intermediate<T>) -> Result<Csr<T>> {
    product(a, b, &|_, _, _| ())
}

/// The product A B, to be multiplied further.
pub fn intermediate<T: Scalar>(a: &CsrView<'_, T>, b: &CsrView<'_, T>) -> Result<Intermediate<T>> {
    intermediate_of(a, &Own::new(b))
}

fn intermediate_of<T: Scalar>(a: &CsrView<'_, T>, b: &impl Factor<T>) -> Result<Intermediate<T>> {
    let block = product_block(a, b);
    let positions = PositionArrays::new(b.cols());
    let product = Product { a, b, longest: b.longest(), sorted: false, epilogue: &|_, _, _| (), positions };
    let entries = rows::pieces(a.rows, block.len(), |range, out| product.rows(range, out))?;
    Ok(Intermediate { entries, rows: a.rows, cols: b.cols(), block })
}

fn product<T: Scalar>(a: &CsrView<'_, T>, b: &impl Factor<T>, epilogue: &RowEpilogue<'_, T>) -> Result<Csr<T>> {
    let block = product_block(a, b);
    let product =
        Product { a, b, longest: b.longest(), sorted: true, epilogue, positions: PositionArrays::new(b.cols()) };
    let (offsets, columns, values) = rows::build(a.rows, block.len(), |range, out| product.rows(range, out))?;
    Ok(Csr { rows: a.rows, cols: b.cols(), block, offsets, columns, values })
}

fn product_block<T: Scalar>(a: &CsrView<'_, T>, b: &impl Factor<T>) -> Block {
    assert!(a.cols == b.rows() && a.block.cols == b.block().rows);
    Block { rows: a.block.rows, cols: b.block().cols }
}

/// A product whose pattern is not known yet.
struct Product<'a, T, B> {
    a: &'a CsrView<'a, T>,
    b: &'a B,
    /// Entries of the longest row of B.
    longest: usize,
    sorted: bool,
    epilogue: &'a RowEpilogue<'a, T>,
    /// For each column of B its position in the piece; a position before the start of the row belongs to an earlier
    /// row.
    positions: PositionArrays,
}

impl<T: Scalar, B: Factor<T>> Product<'_, T, B> {
    /// Pattern and values of some rows.
    fn rows(&self, range: Range<usize>, out: &mut RowBuilder<T>) -> Result<()> {
        let (inner, outer) = (self.a.block.cols, product_block(self.a, self.b));
        let dimensions = (outer.rows, inner, outer.cols);
        self.positions.with(|position| with_shape!(dimensions, shape => self.rows_with(range, out, position, shape)))
    }

    fn rows_with(
        &self,
        range: Range<usize>,
        out: &mut RowBuilder<T>,
        position: &mut PositionArray,
        shape: impl Shape,
    ) -> Result<()> {
        let (a, b) = (self.a, self.b);
        let (a_width, b_width) = (shape.rows() * shape.inner(), shape.inner() * shape.cols());
        let width = shape.rows() * shape.cols();
        let PositionArray { at: position, largest } = position;
        let first = *largest;
        let mut row = Row { columns: Vec::new(), values: Vec::new(), order: Vec::new() };
        for i in range {
            let start = first + out.columns.len();
            let terms = a.row_range(i);
            let bound = terms.len().saturating_mul(self.longest).min(b.cols());
            if start + bound >= u32::MAX as usize {
                return fail!(OutOfMemory, "a product of two matrices has more than 2^31 entries in one of its pieces");
            }
            let (row_columns, row_values) = row.reserve(bound, width)?;
            let mut found = 0;
            let ahead = a.columns.get(terms.start + AHEAD..).unwrap_or(&[]);
            let blocks = a.values[terms.start * a_width..terms.end * a_width].chunks_exact(a_width);
            for (k, (j, x)) in a.columns[terms].iter().zip(blocks).enumerate() {
                if let Some(j) = ahead.get(k) {
                    b.prefetch((*j - a.base) as usize);
                }
                let (columns, values) = b.row((*j - a.base) as usize, b_width);
                for (c, y) in columns.iter().zip(values.chunks_exact(b_width)) {
                    let position = &mut position[*c as usize];
                    let is_new = *position as usize <= start;
                    // A new column cannot be predicted, so there is no branch on it.
                    let at = if is_new { found } else { *position as usize - start - 1 };
                    row_columns[at] = *c;
                    multiply_block(shape, x, y, &mut row_values[at * width..][..width]);
                    *position = (start + at + 1) as u32;
                    found += usize::from(is_new);
                }
            }
            (self.epilogue)(i, &row_columns[..found], &mut row_values[..found * width]);
            *largest = start + found;
            row.append(found, width, self.sorted, out)?;
        }
        Ok(())
    }
}

/// The row that is being computed.
struct Row<T> {
    columns: Vec<i32>,
    /// Zeros behind the entries of the row.
    values: Vec<T>,
    /// Column in the upper half, position in the lower.
    order: Vec<u64>,
}

impl<T: Scalar> Row<T> {
    /// Memory for this many entries.
    fn reserve(&mut self, bound: usize, width: usize) -> Result<(&mut [i32], &mut [T])> {
        if bound > self.columns.len() {
            let more = bound - self.columns.len();
            try_reserve(&mut self.columns, more)?;
            try_reserve(&mut self.values, more * width)?;
            self.columns.resize(bound, 0);
            self.values.resize(bound * width, T::ZERO);
        }
        Ok((&mut self.columns, &mut self.values))
    }

    /// Ends the row, which has its first `found` entries.
    fn append(&mut self, found: usize, width: usize, sorted: bool, out: &mut RowBuilder<T>) -> Result<()> {
        out.reserve(found, width)?;
        let (columns, values) = (&self.columns[..found], &self.values[..found * width]);
        if !sorted || columns.is_sorted() {
            out.columns.extend_from_slice(columns);
            out.values.extend_from_slice(values);
        } else {
            self.order.clear();
            try_extend(&mut self.order, columns.iter().enumerate().map(|(k, c)| (*c as u64) << 32 | k as u64))?;
            self.order.sort_unstable();
            for entry in &self.order {
                out.columns.push((entry >> 32) as i32);
                let at = (entry & u64::from(u32::MAX)) as usize * width;
                out.values.extend_from_slice(&values[at..at + width]);
            }
        }
        self.values[..found * width].fill(T::ZERO);
        out.end_row();
        Ok(())
    }
}

/// Dimensions of a product of dense blocks, known at compile time where that is common, so that its loops unroll.
pub(super) trait Shape: Copy + Sync {
    fn rows(self) -> usize;
    fn inner(self) -> usize;
    fn cols(self) -> usize;
}

/// Dimensions known at compile time.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const R: usize, const K: usize, const C: usize>;

impl<const R: usize, const K: usize, const C: usize> Shape for Fixed<R, K, C> {
    #[inline(always)]
    fn rows(self) -> usize {
        R
    }
    #[inline(always)]
    fn inner(self) -> usize {
        K
    }
    #[inline(always)]
    fn cols(self) -> usize {
        C
    }
}

/// Dimensions known at run time.
#[derive(Clone, Copy)]
pub(super) struct Dynamic {
    pub rows: usize,
    pub inner: usize,
    pub cols: usize,
}

impl Shape for Dynamic {
    fn rows(self) -> usize {
        self.rows
    }
    fn inner(self) -> usize {
        self.inner
    }
    fn cols(self) -> usize {
        self.cols
    }
}

/// Runs the expression with `$shape` as the shape of these dimensions: rows, inner, columns.
macro_rules! with_shape {
    ($dimensions:expr, $shape:ident => $body:expr) => {{
        use $crate::host::spgemm::{Dynamic, Fixed};
        match $dimensions {
            (1, 1, 1) => {
                let $shape = Fixed::<1, 1, 1>;
                $body
            }
            (3, 3, 3) => {
                let $shape = Fixed::<3, 3, 3>;
                $body
            }
            (3, 3, 6) => {
                let $shape = Fixed::<3, 3, 6>;
                $body
            }
            (6, 3, 6) => {
                let $shape = Fixed::<6, 3, 6>;
                $body
            }
            (6, 6, 6) => {
                let $shape = Fixed::<6, 6, 6>;
                $body
            }
            (rows, inner, cols) => {
                let $shape = Dynamic { rows, inner, cols };
                $body
            }
        }
    }};
}
pub(super) use with_shape;

/// c += a b for dense blocks stored row by row.
#[inline(always)]
pub(super) fn multiply_block<T: Scalar>(shape: impl Shape, a: &[T], b: &[T], c: &mut [T]) {
    let (rows, inner, cols) = (shape.rows(), shape.inner(), shape.cols());
    let (a, b, c) = (&a[..rows * inner], &b[..inner * cols], &mut c[..rows * cols]);
    for (a_row, c_row) in a.chunks_exact(inner).zip(c.chunks_exact_mut(cols)) {
        for (x, b_row) in a_row.iter().zip(b.chunks_exact(cols)) {
            for (c, y) in c_row.iter_mut().zip(b_row) {
                *c += *x * *y;
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
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
