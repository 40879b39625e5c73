//! SpGEMM on the device, with the bits of [`crate::host::spgemm`]. A sample of the rows selects the method.
//!
//! For short rows of the left factor a thread merges rows of the right factor (`kernels/spgemm_merge.cu`): it counts
//! first, and writes once the row offsets are known. Other rows are accumulated in a hash table in shared memory by a
//! team of lanes, and written unsorted to space that the sample estimates (`kernels/spgemm_hash.cu`); then they are
//! sorted and compacted (`kernels/spgemm_sort.cu`). Rows that cannot be merged or exceed a hash table go to a larger
//! table, and finally to global memory (`kernels/spgemm_long.cu`). Blocks have their pattern computed in this way,
//! and their values from lists of the products of each block (`kernels/spgemm_symbolic_blocks.cu`,
//! `kernels/spgemm_numeric_blocks.cu`), or by search (`kernels/spgemm_blocks.cu`).

mod method;
mod numeric;
mod unsorted;

use super::DeviceCsr;
use super::spgemm_merge::{MASK_WORDS, MAX_MERGED_ENTRIES, MERGE_WIDTHS};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;
use method::{HASH_TABLES, LARGE_TABLES};
use std::sync::Arc;
use unsorted::{Allocation, COUNTERS, TOTAL, outcome};

pub(super) use method::{Method, Sample};
pub(super) use unsorted::UnsortedRows;

/// Lanes of teams that sort rows by column; see `kernels/spgemm_sort.cu`.
const SORT_LANES: [usize; 3] = [8, 32, 256];

/// Largest number of blocks of threads, more than a GPU runs at a time; each handles several rows.
const MAX_BLOCKS: usize = 1024;

/// The same for rows of blocks and for merging, which are faster with one row for each team.
pub(super) const MAX_MERGE_BLOCKS: usize = 1 << 16;

/// A row that exceeds every hash table has a block of threads with a bitmap of all columns: at least this many
/// blocks, and more while their bitmaps fit these bytes.
const MIN_LONG_BLOCKS: usize = 64;
const MAX_BITMAP_BYTES: usize = 32 << 20;

/// Where merging leaves at most one row in so many, these are computed in global memory, as rows that exceed every hash table are: tables
/// would take memory for all rows. Large matrices have a few such rows where a part of them has none.
const FEW_ROWS: usize = 1024;

/// The product A B, columns ascending in each row.
pub(crate) fn multiply<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>, b: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
    Ok(Product::new(gpu, a, Right::of(b)).sorted(false)?.0)
}

/// The same if rows have at most `mean` columns on average: no sample, no wait for it.
pub(super) fn multiply_at_most<T: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    b: &DeviceCsr<T>,
    mean: f64,
) -> Result<DeviceCsr<T>> {
    let table =
        HASH_TABLES.iter().position(|(_, limit)| 2.0 * mean <= f64::from(*limit)).unwrap_or(HASH_TABLES.len() - 1);
    let sample = Sample { mean, method: Method::Table(table) };
    Ok(Product::new(gpu, a, Right::of(b)).sorted_by(sample, false)?.0)
}

/// The same as [`multiply`] without merging.
pub(super) fn multiply_by_tables<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>, b: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
    Ok(Product { may_merge: false, ..Product::new(gpu, a, Right::of(b)) }.sorted(false)?.0)
}

/// The right factor of a product.
pub(super) struct Right<'a, T> {
    pub rows: usize,
    pub cols: usize,
    pub block: Block,
    /// Row ranges.
    pub begins: &'a Slice<i64>,
    pub ends: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
    pub values: &'a Slice<T>,
    /// Estimated entries of a row.
    pub length: usize,
}

impl<'a, T: Number> Right<'a, T> {
    pub fn of(b: &'a DeviceCsr<T>) -> Right<'a, T> {
        let (begins, ends) = (b.offsets.subslice(0, b.rows), b.offsets.subslice(1, b.rows));
        let (rows, cols, block, length) = (b.rows, b.cols, b.block, b.nnz().div_ceil(b.rows.max(1)));
        Right { rows, cols, block, begins, ends, columns: &b.columns, values: &b.values, length }
    }
}

/// The pattern of a product, and the method for its rows.
pub(super) struct Pattern {
    pub offsets: Arc<Buffer<i64>>,
    pub columns: Arc<Buffer<i32>>,
    method: Method,
    /// Whether rows exceed every hash table.
    has_long: bool,
}

/// A product to be computed.
pub(super) struct Product<'a, T> {
    pub(super) gpu: &'a Gpu,
    pub(super) a: &'a DeviceCsr<T>,
    pub(super) b: Right<'a, T>,
    block: Block,
    /// Both patterns, as kernel arguments.
    pub(super) factors: [View<'a>; 5],
    /// Whether rows may be merged if the sample favours it.
    may_merge: bool,
    /// Whether lists of products give the values of blocks.
    by_lists: bool,
}

impl<'a, T: Number> Product<'a, T> {
    pub fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, b: Right<'a, T>) -> Product<'a, T> {
        assert!(a.cols == b.rows && a.block.cols == b.block.rows);
        let block = Block { rows: a.block.rows, cols: b.block.cols };
        let factors = [a.offsets.view(), a.columns.view(), b.begins.view(), b.ends.view(), b.columns.view()];
        let may_merge = block == Block::SCALAR && a.block == Block::SCALAR && b.columns.len() <= MAX_MERGED_ENTRIES;
        Product { gpu, a, b, block, factors, may_merge, by_lists: false }
    }

    /// The same, with the values of blocks from lists of their products: faster than a search, and a tenth to a third of
    /// the memory of the product more for the time of it. That pays where blocks have few products, as in R A P.
    pub fn with_lists(self) -> Product<'a, T> {
        Product { by_lists: true, ..self }
    }

    /// Block size of the product.
    pub fn block(&self) -> Block {
        self.block
    }

    /// Columns of the product.
    pub fn cols(&self) -> usize {
        self.b.cols
    }

    /// Whether both factors are scalar.
    pub fn is_scalar(&self) -> bool {
        self.a.block == Block::SCALAR && self.b.block == Block::SCALAR
    }

    /// The product with sorted rows, and its pattern. With `fill` zeros on the diagonal become ones.
    pub fn sorted(&self, fill: bool) -> Result<(DeviceCsr<T>, Pattern)> {
        self.sorted_by(self.sample()?, fill)
    }

    /// The same with known statistics.
    pub fn sorted_by(&self, sample: Sample, fill: bool) -> Result<(DeviceCsr<T>, Pattern)> {
        let (gpu, rows, method) = (self.gpu, self.a.rows, sample.method);
        let merges = matches!(method, Method::Merge(_));
        let mut counts = gpu.allocate::<i32>(rows)?;
        // Rows for hash tables: all of them, or those that merging leaves.
        let mut rest = None;
        let (mut with, mut capacity) = (method, sample.capacity(rows));
        let masks = gpu.allocate::<u32>(if merges { rows * MASK_WORDS } else { 0 })?;
        if merges {
            let (list, words) = (gpu.list(rows)?, gpu.zeroed::<i64>(COUNTERS)?);
            self.count_merged(method, &counts, &masks, &words, &list)?;
            let offsets = gpu.offsets_with(&counts, words.subslice(TOTAL, 1))?;
            let found = gpu.fetch(&words)?;
            let left = outcome(&found).too_long;
            if left <= rows / FEW_ROWS {
                let (mut offsets, mut total) = (offsets, found[TOTAL] as usize);
                if left > 0 {
                    (offsets, total) = self.count_long(&list, left, &counts, &words)?;
                }
                drop(counts);
                let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
                let to = Output { offsets: &offsets, columns: &columns, values: &values, fill };
                self.merge(method, &masks, &to)?;
                drop(masks);
                if left > 0 {
                    self.pattern_of_long(&list, left, &to)?;
                    self.numeric_long(&list, &to)?;
                }
                return Ok(self.finished(offsets, columns, values, (method, left > 0)));
            }
            rest = Some(list);
            with = Method::Table(LARGE_TABLES[0]);
            capacity = (4.0 * sample.mean * left as f64) as usize;
        }
        let (found, mut offsets, outcome, mut total) = loop {
            let allocation = Allocation { begins: Arc::new(gpu.allocate(rows)?), has_begins: false, counts, capacity };
            let found = self.accumulate(with, rest.as_deref(), allocation, self.is_scalar())?;
            let offsets = gpu.offsets_with(&found.counts, found.words.subslice(TOTAL, 1))?;
            let words = gpu.fetch(&found.words)?;
            let outcome = outcome(&words);
            if outcome.without_space == 0 {
                break (found, offsets, outcome, words[TOTAL] as usize);
            }
            capacity = outcome.allocated;
            counts = found.counts;
        };
        let UnsortedRows { begins, ends, columns: from, values: found_values, counts, words, too_long } = found;
        let has_long = outcome.too_long > 0;
        if has_long {
            (offsets, total) = self.count_long(&too_long, outcome.too_long, &counts, &words)?;
        }
        drop(counts);
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total * self.block.len())?);
        let to = Output { offsets: &offsets, columns: &columns, values: &values, fill };
        if merges {
            self.merge(method, &masks, &to)?;
        }
        drop(masks);
        let first = usize::from(sample.mean > 40.0);
        let (name, from_values, to_values) = match self.is_scalar() {
            true => (format!("spgemm_sort_{}", T::PRECISION.name()), found_values.view(), values.view()),
            false => ("spgemm_sort_pattern".to_string(), View::NONE, View::NONE),
        };
        let sorts = SORT_LANES[first..].iter().map(|lanes| (*lanes, lanes.to_string()));
        self.cascade(rest.as_deref(), sorts, MAX_MERGE_BLOCKS, |lanes, n, list, blocks, more| {
            let kernel = gpu.kernel(&format!("{name}_{lanes}"))?;
            let (begins, ends, from) = (begins.view(), ends.view(), from.view());
            let (offsets, columns, fill) = (offsets.view(), columns.view(), i32::from(fill));
            let arguments: [&dyn Argument; 11] =
                [&n, &list, &begins, &ends, &from, &from_values, &offsets, &columns, &to_values, &fill, &more];
            gpu.launch_blocks(kernel, blocks, &arguments)
        })?;
        drop((begins, ends, from, found_values));
        if has_long {
            self.pattern_of_long(&too_long, outcome.too_long, &to)?;
        }
        if !self.is_scalar() {
            if self.by_lists { self.values_of_blocks(&to)? } else { self.numeric_of_blocks(&to)? }
        } else if has_long {
            self.numeric_long(&too_long, &to)?;
        }
        Ok(self.finished(offsets, columns, values, (method, has_long)))
    }

    /// Counts the columns of the rows of a list, of which there are so many, in global memory. Returns the row offsets with them, and the
    /// number of all entries. Waits for the device.
    fn count_long(
        &self,
        list: &Slice<i32>,
        rows: usize,
        counts: &Slice<i32>,
        words: &Slice<i64>,
    ) -> Result<(Buffer<i64>, usize)> {
        let (width, blocks, bits) = self.bitmaps(rows)?;
        let [a, b, c, d, e] = &self.factors;
        let arguments: [&dyn Argument; 9] = [&list.view(), a, b, c, d, e, &width, &bits.view(), &counts.view()];
        self.gpu.launch_blocks(self.gpu.kernel("spgemm_long_symbolic")?, blocks, &arguments)?;
        let offsets = self.gpu.offsets_with(counts, words.subslice(TOTAL, 1))?;
        Ok((offsets, self.gpu.fetch(words)?[TOTAL] as usize))
    }

    /// Writes the columns of these rows.
    fn pattern_of_long(&self, list: &Slice<i32>, rows: usize, to: &Output<'_, T>) -> Result<()> {
        let (width, blocks, bits) = self.bitmaps(rows)?;
        let [a, b, c, d, e] = &self.factors;
        let (list, offsets, columns, bits) = (list.view(), to.offsets.view(), to.columns.view(), bits.view());
        let arguments: [&dyn Argument; 10] = [&list, a, b, c, d, e, &offsets, &columns, &width, &bits];
        self.gpu.launch_blocks(self.gpu.kernel("spgemm_long_pattern")?, blocks, &arguments)
    }

    fn finished(
        &self,
        offsets: Buffer<i64>,
        columns: Buffer<i32>,
        values: Buffer<T>,
        (method, has_long): (Method, bool),
    ) -> (DeviceCsr<T>, Pattern) {
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        let pattern = Pattern { offsets: Arc::clone(&offsets), columns: Arc::clone(&columns), method, has_long };
        let (rows, cols, block) = (self.a.rows, self.b.cols, self.block);
        (DeviceCsr { rows, cols, block, offsets, columns, values }, pattern)
    }

    /// Launches kernels for teams, with at most `most` blocks of threads: the first one on all rows or those of a
    /// list, each other one on the list of rows that the one before left. Returns the last list. Kernels take the
    /// number of rows, a list, and the list of rows that they leave.
    fn cascade(
        &self,
        list: Option<&Slice<i32>>,
        teams: impl IntoIterator<Item = (usize, String)>,
        most: usize,
        launch: impl Fn(&str, i64, View, usize, View) -> Result<()>,
    ) -> Result<Buffer<i32>> {
        let rows = self.a.rows;
        let mut left: Option<Buffer<i32>> = None;
        for (lanes, name) in teams {
            let more = self.gpu.list(rows)?;
            let list = left.as_deref().or(list);
            let blocks = blocks_for(rows, lanes, if lanes == 1 { MAX_MERGE_BLOCKS } else { most });
            // Usually few rows are left.
            let blocks = if list.is_some() { blocks.min(most.div_ceil(4)) } else { blocks };
            if blocks > 0 {
                launch(&name, rows as i64, list.map_or(View::NONE, Slice::view), blocks, more.view())?;
            }
            left = Some(more);
        }
        left.map_or_else(|| self.gpu.list(0), Ok)
    }

    /// Bitmaps of columns for so many rows: words of a bitmap, their number, and the memory.
    fn bitmaps(&self, rows: usize) -> Result<(i64, usize, Buffer<u32>)> {
        let words = self.b.cols.div_ceil(32);
        let blocks = (MAX_BITMAP_BYTES / size_of::<u32>() / words.max(1)).clamp(MIN_LONG_BLOCKS, MAX_BLOCKS).min(rows);
        Ok((words as i64, blocks, self.gpu.zeroed(words * blocks)?))
    }
}

/// The output of a product.
pub(super) struct Output<'a, T> {
    pub offsets: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
    pub values: &'a Slice<T>,
    /// Whether zeros on the diagonal become ones.
    pub fill: bool,
}

/// Blocks of threads for rows with a team of `lanes` each.
pub(super) fn blocks_for(rows: usize, lanes: usize, most: usize) -> usize {
    (rows * lanes).div_ceil(BLOCK).min(most)
}

#[cfg(feature = "unit-tests")]
pub(super) mod tests {
    use super::super::tests::{problems, random};
    use super::*;
    use crate::gpu::tests::{devices, devices_for, one_of_each};
    use crate::host::spgemm as host;
    use crate::scalar::Scalar;
    use crate::sparse::Csr;

    pub(in super::super) fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, b: &Csr<T>, what: &str) {
        let (left, right) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), DeviceCsr::upload(gpu, &b.view()).unwrap());
        let product = multiply(gpu, &left, &right).unwrap();
        let expected = host::multiply(&a.view(), &b.view()).unwrap();
        let got = product.fetch(gpu).unwrap();
        assert!(got.offsets == expected.offsets, "offsets of {what}");
        let difference = got.columns.iter().zip(&expected.columns).position(|(a, b)| a != b);
        assert_eq!(difference, None, "a column of {what}");
        let difference = got.values.iter().zip(&expected.values).position(|(a, b)| a != b);
        assert_eq!(difference, None, "a value of {what}");
        let (_, pattern) = Product::new(gpu, &left, Right::of(&right)).sorted(false).unwrap();
        let other = Csr { values: a.values.iter().map(|v| *v * T::from_f64(0.3)).collect(), ..a.clone() };
        let left = DeviceCsr::upload(gpu, &other.view()).unwrap();
        let updated = Product::new(gpu, &left, Right::of(&right)).numeric(&pattern, false).unwrap();
        let expected = host::multiply(&other.view(), &b.view()).unwrap();
        let got = gpu.fetch(&updated).unwrap();
        let difference = got.iter().zip(&expected.values).position(|(a, b)| a != b);
        assert_eq!(difference, None, "an updated value of {what}");
    }

    #[test]
    fn squares_of_problems_are_those_of_the_host() {
        for gpu in devices() {
            for (name, a) in problems() {
                same_as_the_host(&gpu, &a, &a, &name);
            }
        }
    }

    #[test]
    fn products_of_irregular_matrices_are_those_of_the_host() {
        let cases = [
            (0, 0, 0, 0, 0),
            (0, 3, 5, 0, 2),
            (5, 0, 3, 0, 0),
            (4, 3, 0, 2, 0),
            (1, 1, 1, 1, 1),
            (33, 257, 31, 9, 5),
            (257, 31, 256, 20, 40),
            (60, 90, 20_000, 30, 90),
            (40, 300, 9000, 200, 60),
            (3, 400, 9000, 300, 300),
            (300, 300, 300, 3, 0),
            (400, 300, 500, 70, 3),
        ];
        for (case, (rows, inner, cols, left, right)) in cases.into_iter().enumerate() {
            let (a, b) = (random(rows, inner, left, Block::SCALAR, 1), random(inner, cols, right, Block::SCALAR, 2));
            let what = format!("{rows} x {inner} x {cols} with rows of {left} and {right}");
            for gpu in devices_for(case) {
                same_as_the_host(&gpu, &a, &b, &what);
            }
            let (a, b) = (a.view().to_owned_as::<f32>().unwrap(), b.view().to_owned_as::<f32>().unwrap());
            for gpu in devices_for(case + 1) {
                same_as_the_host(&gpu, &a, &b, &what);
            }
        }
    }

    #[test]
    fn rows_of_any_length_are_multiplied() {
        // A dense row on the left, on the right, and on both, with more columns than the largest table.
        let n = 10_000;
        let dense: Vec<_> = (0..n).map(|j| (3, j, 1.0 + j as f64)).collect();
        let ones: Vec<_> = (0..n).map(|i| (i, (i * 7) % n, 0.1 * i as f64)).collect();
        let both: Vec<_> = dense.iter().chain(&ones).copied().filter(|(i, j, _)| *i != 3 || *j != 21).collect();
        let [a, b] = [&both, &ones].map(|t| Csr::from_triplets(n, n, t).unwrap());
        let short = random(50, n, 4, Block::SCALAR, 3);
        let tall = Csr::from_triplets(5, n, &dense).unwrap();
        // Many entries that add up to few columns.
        let folded: Vec<_> = (0..n).map(|i| (i, i % 40, 0.1 + i as f64)).collect();
        let folded = Csr::from_triplets(n, 40, &folded).unwrap();
        for gpu in one_of_each() {
            same_as_the_host(&gpu, &a, &b, "a dense row on the left");
            same_as_the_host(&gpu, &short, &a, "a dense row on the right");
            same_as_the_host(&gpu, &tall, &a, "dense rows");
            same_as_the_host(&gpu, &a, &folded, "a dense row with few columns");
        }
    }

    #[test]
    fn a_sample_that_misleads_costs_time_alone() {
        for gpu in devices() {
            let (a, b) = (random(200, 300, 40, Block::SCALAR, 1), random(300, 500, 20, Block::SCALAR, 2));
            let (left, right) =
                (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &b.view()).unwrap());
            let expected = host::multiply(&a.view(), &b.view()).unwrap();
            let tables = [(0.01, 0), (500.0, 1), (3.0, 2), (40.0, 3)].map(|(mean, table)| (mean, Method::Table(table)));
            let merges = [(0.01, 0), (500.0, 1)].map(|(mean, lists)| (mean, Method::Merge(lists)));
            for (mean, method) in tables.into_iter().chain(merges) {
                let product = Product::new(&gpu, &left, Right::of(&right));
                let (c, _) = product.sorted_by(Sample { mean, method }, false).unwrap();
                assert_eq!(c.fetch(&gpu).unwrap(), expected, "{mean} columns, {method:?}");
            }
        }
    }

    #[test]
    fn blocks_are_multiplied() {
        for (left, right) in [((3, 3), (3, 3)), ((3, 3), (3, 6)), ((6, 3), (3, 6)), ((6, 6), (6, 6)), ((2, 5), (5, 1))]
        {
            for gpu in devices() {
                let [left, right] = [left, right].map(|(rows, cols)| Block { rows, cols });
                for (longest, cols) in [(9, 50), (14, 900)] {
                    let (a, b) = (random(70, 60, longest, left, 1), random(60, cols, longest, right, 2));
                    same_as_the_host(&gpu, &a, &b, &format!("{left:?} times {right:?}, {cols} columns"));
                }
                let (a, b) = (random(3, 400, 300, left, 1), random(400, 1200, 6, right, 2));
                same_as_the_host(&gpu, &a, &b, &format!("{left:?} times {right:?}"));
            }
        }
    }
}
