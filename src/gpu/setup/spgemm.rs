//! Products of sparse matrices on the device, with the bits of [`crate::host::spgemm`]: the columns of each row of C are counted, and then computed. Rows with few
//! terms are sorted in registers (`kernels/spgemm_sort.cu`), longer ones use tables in shared memory (`kernels/spgemm.cu`), and those that no table holds, and
//! blocks, global memory (`kernels/spgemm_long.cu`).

use super::DeviceCsr;
use super::bins::{BINS, Bins, Limits, Needs};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// How the rows of a bin are done.
#[derive(Clone, Copy)]
enum Kind {
    /// So many terms are sorted by a team of so many lanes.
    Sort { lanes: usize, terms: usize },
    /// A team of so many lanes has a table of so many slots.
    Table { lanes: usize, slots: usize },
}

impl Kind {
    fn lanes(self) -> usize {
        match self {
            Kind::Sort { lanes, .. } | Kind::Table { lanes, .. } => lanes,
        }
    }

    /// As in the names of kernels.
    fn name(self) -> String {
        match self {
            Kind::Sort { terms, .. } => format!("sort_{terms}"),
            Kind::Table { lanes, slots } => format!("{lanes}_{slots}"),
        }
    }
}

const fn sort(lanes: usize, terms: usize) -> Kind {
    Kind::Sort { lanes, terms }
}

const fn table(lanes: usize, slots: usize) -> Kind {
    Kind::Table { lanes, slots }
}

/// Bins that count, by terms, which all fit. The last table takes rows of any length, and tells when one did not fit.
const COUNTING: [Kind; BINS - 1] =
    [sort(4, 32), sort(8, 64), sort(16, 128), sort(32, 256), sort(32, 512), table(32, 1024), table(256, 8192)];
const COUNTING_LIMITS: Limits = [32, 64, 128, 256, 512, 1024, 8192];
const COUNTING_ALIKE: usize = 5;

/// Bins that compute: the first ones by terms, tables by columns, so many that few collide.
const COMPUTING: [Kind; BINS - 1] =
    [sort(4, 32), sort(8, 64), sort(16, 128), sort(32, 256), table(32, 256), table(32, 384), table(256, 3072)];
const SORTS: usize = 4;
const TABLE_LIMITS: [i32; BINS - 1 - SORTS] = [192, 320, 2560];

/// Bins that compute where columns are not counted, by terms, which all fit; the last one is for nothing.
const FINDING: [Kind; BINS - 1] =
    [sort(4, 32), sort(8, 64), sort(16, 128), sort(32, 256), table(32, 384), table(256, 3072), table(256, 3072)];
const FINDING_SORTS: usize = 4;
const FINDING_LIMITS: Limits = [32, 64, 128, 256, 384, 3072, 3072];

/// Sums, and columns, that a team of so many lanes has room for in a row of blocks, as in `kernels/spgemm_blocks.cu`.
const BLOCK_TEAMS: [(usize, usize, usize); 2] = [(32, 512, 64), (256, 4096, 512)];

/// Blocks of threads for rows that no table holds, each with a bit for every column.
const LONG_BLOCKS: usize = 64;

/// Blocks of threads for rows of blocks, more than a GPU runs at a time.
const MANY_BLOCKS: usize = 1 << 16;

/// The product A B, columns ascending in each row.
pub(crate) fn multiply<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>, b: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
    Ok(Product::new(gpu, a, Right::of(b)).sorted(false)?.0)
}

/// The right factor of a product.
pub(super) struct Right<'a, T> {
    pub rows: usize,
    pub cols: usize,
    pub block: Block,
    /// Where rows begin and end.
    pub begins: Slice<i64>,
    pub ends: Slice<i64>,
    pub columns: &'a Slice<i32>,
    pub values: &'a Slice<T>,
    /// Entries of a row, about.
    pub length: usize,
}

impl<'a, T: Number> Right<'a, T> {
    pub fn of(b: &'a DeviceCsr<T>) -> Right<'a, T> {
        let (begins, ends) = (b.offsets.piece(0, b.rows), b.offsets.piece(1, b.rows));
        let (rows, cols, block, length) = (b.rows, b.cols, b.block, b.nnz().div_ceil(b.rows.max(1)));
        Right { rows, cols, block, begins, ends, columns: &b.columns, values: &b.values, length }
    }
}

/// A product whose rows are where the bounds of their lengths leave room: a factor of another one.
pub(super) struct Intermediate<T> {
    pub ends: Buffer<i64>,
    pub columns: Buffer<i32>,
    pub values: Buffer<T>,
}

/// The pattern of a product, with the tables that its rows need.
pub(super) struct Pattern {
    pub offsets: Arc<Buffer<i64>>,
    pub columns: Arc<Buffer<i32>>,
    pub bins: Bins,
}

/// A product to be computed.
pub(super) struct Product<'a, T> {
    pub gpu: &'a Gpu,
    pub a: &'a DeviceCsr<T>,
    pub b: Right<'a, T>,
    block: Block,
    /// Both patterns, as kernels take them.
    pub factors: [View; 5],
}

impl<'a, T: Number> Product<'a, T> {
    pub fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, b: Right<'a, T>) -> Product<'a, T> {
        assert!(a.cols == b.rows && a.block.cols == b.block.rows);
        let block = Block { rows: a.block.rows, cols: b.block.cols };
        let factors = [a.offsets.view(), a.columns.view(), b.begins.view(), b.ends.view(), b.columns.view()];
        Product { gpu, a, b, block, factors }
    }

    /// Dimensions of the blocks of the product.
    pub fn block(&self) -> Block {
        self.block
    }

    /// Whether both factors are of scalars.
    pub fn is_scalar(&self) -> bool {
        self.a.block == Block::SCALAR && self.b.block == Block::SCALAR
    }

    /// The product, columns ascending in each row, with ones for zeros on the diagonal if these are to be filled; and its pattern.
    pub fn sorted(&self, fill: bool) -> Result<(DeviceCsr<T>, Pattern)> {
        let gpu = self.gpu;
        let bounds = self.bounds()?;
        let counts = self.counts(&bounds)?;
        let offsets = gpu.offsets_alone(&counts)?;
        let most = self.most(SORTS, COUNTING_LIMITS);
        let limits =
            std::array::from_fn(
                |b| if b < SORTS { COUNTING_LIMITS[b].min(most) } else { most + TABLE_LIMITS[b - SORTS] },
            );
        let needs = Needs { bounds: &bounds, most, counts: Some(&counts), limits, alike: SORTS };
        let (mut bins, nnz) = Bins::new(gpu, &needs, Some(&offsets))?;
        let (columns, values) = (gpu.room::<i32>(nnz)?, gpu.room::<T>(nnz * self.block.len())?);
        let mode = if self.is_scalar() { "sorted" } else { "pattern" };
        let to = To { begins: &offsets, ends: None, columns: &columns, values: &values, fill };
        self.tables(mode, COMPUTING, &bins, &to)?;
        let (long, rows) = bins.rows(BINS - 1..BINS);
        if long > 0 {
            let (words, blocks, bits) = self.bits(long)?;
            let [a, b, c, d, e] = &self.factors;
            let (n, offsets, columns, bits) = (long as i64, offsets.view(), columns.view(), bits.view());
            let arguments = [&n as &dyn Argument, &rows, a, b, c, d, e, &offsets, &columns, &words, &bits];
            gpu.launch_blocks(gpu.kernel("spgemm_long_pattern")?, blocks, &arguments)?;
        }
        if !self.is_scalar() {
            bins = self.bins_of_blocks(&counts)?;
            self.blocks(&bins, &to)?;
        }
        drop((bounds, counts));
        self.long_values(&bins, &to)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        let pattern = Pattern { offsets: Arc::clone(&offsets), columns: Arc::clone(&columns), bins };
        let product = DeviceCsr { rows: self.a.rows, cols: self.b.cols, block: self.block, offsets, columns, values };
        Ok((product, pattern))
    }

    /// The values of a product of this pattern.
    pub fn known(&self, pattern: &Pattern, fill: bool) -> Result<Buffer<T>> {
        let values = self.gpu.room::<T>(pattern.columns.len() * self.block.len())?;
        let to = To { begins: &pattern.offsets, ends: None, columns: &pattern.columns, values: &values, fill };
        if self.is_scalar() {
            self.tables("known", COMPUTING, &pattern.bins, &to)?;
        } else {
            self.blocks(&pattern.bins, &to)?;
        }
        self.long_values(&pattern.bins, &to)?;
        Ok(values)
    }

    /// For each row how many terms it has.
    pub fn bounds(&self) -> Result<Buffer<i32>> {
        let rows = self.a.rows;
        let bounds = self.gpu.room::<i32>(rows)?;
        let lanes = power_of_two(self.a.nnz().div_ceil(rows.max(1)) / 2, 32);
        let [a, b, c, d, _] = &self.factors;
        let arguments = [&(rows as i64) as &dyn Argument, &(lanes as i32), a, b, c, d, &bounds.view()];
        self.gpu.launch(self.gpu.kernel("spgemm_bounds")?, rows * lanes, &arguments)?;
        Ok(bounds)
    }

    /// The most terms that the first so many bins, which sort, can take: a column and the number of a term must fit 32 bits. Blocks are not sorted.
    fn most(&self, sorts: usize, limits: Limits) -> i32 {
        let fits = |terms: &&i32| self.is_scalar() && (self.b.cols as u64) < (1_u64 << 32) / **terms as u64;
        limits[..sorts].iter().take_while(fits).last().copied().unwrap_or(0)
    }

    /// The bins of rows that may be as long as these bounds, and the sum of these; none where a bound exceeds all tables.
    pub fn bins_of_bounds(&self, bounds: &Slice<i32>, offsets: &Slice<i64>) -> Result<Option<(Bins, usize)>> {
        let most = self.most(FINDING_SORTS, FINDING_LIMITS);
        let mut limits = FINDING_LIMITS;
        limits[..FINDING_SORTS].iter_mut().for_each(|limit| *limit = most.min(*limit));
        let needs = Needs { bounds, most: i32::MAX, counts: None, limits, alike: FINDING_SORTS };
        let (bins, total) = Bins::new(self.gpu, &needs, Some(offsets))?;
        Ok((bins.rows(BINS - 1..BINS).0 == 0).then_some((bins, total)))
    }

    /// The product of scalars with rows that begin at these offsets, in the order in which tables have them.
    pub fn as_found(&self, begins: &Slice<i64>, bins: &Bins, room: usize) -> Result<Intermediate<T>> {
        let gpu = self.gpu;
        let ends = gpu.room::<i64>(self.a.rows)?;
        let (columns, values) = (gpu.room::<i32>(room)?, gpu.room::<T>(room)?);
        let to = To { begins, ends: Some(&ends), columns: &columns, values: &values, fill: false };
        self.tables("as_found", FINDING, bins, &to)?;
        Ok(Intermediate { ends, columns, values })
    }

    /// How many columns each row of the product has, which has at most so many terms.
    fn counts(&self, bounds: &Slice<i32>) -> Result<Buffer<i32>> {
        let gpu = self.gpu;
        let needs = Needs { bounds, most: i32::MAX, counts: None, limits: COUNTING_LIMITS, alike: COUNTING_ALIKE };
        let (bins, _) = Bins::new(gpu, &needs, None)?;
        let counts = gpu.room::<i32>(self.a.rows)?;
        let (unsure, _) = bins.rows(BINS - 1..BINS);
        let long_rows = gpu.zeroed::<i32>(1 + unsure)?;
        let [a, b, c, d, e] = &self.factors;
        for (bin, kind) in COUNTING.into_iter().enumerate() {
            let last = if bin + 1 == COUNTING.len() { BINS } else { bin + 1 };
            let (n, rows) = bins.rows(bin..last);
            let lanes = power_of_two(self.b.length, kind.lanes()) as i32;
            let kernel = gpu.kernel(&format!("spgemm_symbolic_{}", kind.name()))?;
            let (count, to, long) = (n as i64, counts.view(), long_rows.view());
            gpu.launch(kernel, n * kind.lanes(), &[&count, &lanes, &rows, a, b, c, d, e, &to, &long])?;
        }
        if unsure > 0 {
            let (words, blocks, bits) = self.bits(unsure)?;
            let (long, bits, to) = (long_rows.view(), bits.view(), counts.view());
            let kernel = gpu.kernel("spgemm_long_symbolic")?;
            gpu.launch_blocks(kernel, blocks, &[&long, a, b, c, d, e, &words, &bits, &to])?;
        }
        Ok(counts)
    }

    /// For so many rows, words for each block of threads that have a bit for each column, those blocks, and the words.
    fn bits(&self, rows: usize) -> Result<(i64, usize, Buffer<u32>)> {
        let (words, blocks) = (self.b.cols.div_ceil(32), rows.min(LONG_BLOCKS));
        Ok((words as i64, blocks, self.gpu.zeroed(words * blocks)?))
    }

    /// Launches the kernels of a mode on the rows of all bins but the last.
    fn tables(&self, mode: &str, kinds: [Kind; BINS - 1], bins: &Bins, to: &To<'_, T>) -> Result<()> {
        let precision = if mode == "pattern" { "f32" } else { T::PRECISION.name() };
        let (left, right) = (self.a.values.view(), self.b.values.view());
        let [a, b, c, d, e] = &self.factors;
        let (begins, ends) = (to.begins.view(), to.ends.map_or(View::NONE, Slice::view));
        let (columns, values, fill) = (to.columns.view(), to.values.view(), i32::from(to.fill));
        for (bin, kind) in kinds.into_iter().enumerate() {
            let (n, rows) = bins.rows(bin..bin + 1);
            // Of rows of blocks only those that have no terms are not in tables.
            if n == 0 || (mode == "pattern" && bin < SORTS) {
                continue;
            }
            let lanes = power_of_two(self.b.length, kind.lanes()) as i32;
            let kernel = self.gpu.kernel(&format!("spgemm_{mode}_{}_{precision}", kind.name()))?;
            let count = n as i64;
            let arguments = [
                &count as &dyn Argument,
                &lanes,
                &rows,
                a,
                b,
                c,
                d,
                e,
                &left,
                &right,
                &begins,
                &ends,
                &columns,
                &values,
                &fill,
            ];
            self.gpu.launch(kernel, n * kind.lanes(), &arguments)?;
        }
        Ok(())
    }

    /// The teams of rows of blocks with so many columns.
    fn bins_of_blocks(&self, counts: &Slice<i32>) -> Result<Bins> {
        let limit = |(_, sums, columns): (usize, usize, usize)| (sums / self.block.len()).min(columns) as i32;
        let limits = std::array::from_fn(|b| limit(BLOCK_TEAMS[b.min(1)]));
        let needs = Needs { bounds: counts, most: i32::MAX, counts: None, limits, alike: 0 };
        Ok(Bins::new(self.gpu, &needs, None)?.0)
    }

    /// Computes values of known columns in shared memory, for blocks.
    fn blocks(&self, bins: &Bins, to: &To<'_, T>) -> Result<()> {
        let shape = match (self.block.rows, self.a.block.cols, self.block.cols) {
            (3, 3, 3) | (3, 3, 6) | (6, 3, 6) | (6, 6, 6) => {
                format!("{}_{}_{}", self.block.rows, self.a.block.cols, self.block.cols)
            }
            _ => "any".to_string(),
        };
        for (bin, (team, _, _)) in BLOCK_TEAMS.into_iter().enumerate() {
            let (n, rows) = bins.rows(bin..bin + 1);
            if n > 0 {
                let kernel = self.gpu.kernel(&format!("spgemm_blocks_{team}_{shape}_{}", T::PRECISION.name()))?;
                self.values_of(n, rows, to, |arguments| self.gpu.launch(kernel, n * team, arguments))?;
            }
        }
        Ok(())
    }

    /// Computes values of known columns in global memory, for rows that have no table.
    fn long_values(&self, bins: &Bins, to: &To<'_, T>) -> Result<()> {
        let (n, rows) = bins.rows(BINS - 1..BINS);
        if n == 0 {
            return Ok(());
        }
        let kernel = self.gpu.kernel(&format!("spgemm_long_values_{}", T::PRECISION.name()))?;
        self.values_of(n, rows, to, |arguments| self.gpu.launch_blocks(kernel, n.min(MANY_BLOCKS), arguments))
    }

    /// Launches a kernel that computes values of known columns.
    fn values_of(
        &self,
        n: usize,
        rows: View,
        to: &To<'_, T>,
        launch: impl FnOnce(&[&dyn Argument]) -> Result<()>,
    ) -> Result<()> {
        let (left, right) = (self.a.values.view(), self.b.values.view());
        let [outer, inner, width] = [self.block.rows, self.a.block.cols, self.block.cols].map(|d| d as i32);
        let [a, b, c, d, e] = &self.factors;
        let (begins, columns, values) = (to.begins.view(), to.columns.view(), to.values.view());
        let (count, fill) = (n as i64, i32::from(to.fill));
        launch(&[
            &count, &rows, a, b, c, d, e, &left, &right, &outer, &inner, &width, &begins, &columns, &values, &fill,
        ])
    }
}

/// Where a product goes.
struct To<'a, T> {
    begins: &'a Slice<i64>,
    ends: Option<&'a Slice<i64>>,
    columns: &'a Slice<i32>,
    values: &'a Slice<T>,
    /// Whether zeros on the diagonal become ones.
    fill: bool,
}

/// The power of two that is not less than n, and at most `most`.
pub(super) fn power_of_two(n: usize, most: usize) -> usize {
    n.next_power_of_two().min(most)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{problems, random};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::spgemm as host;
    use crate::scalar::Scalar;
    use crate::sparse::Csr;

    fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, b: &Csr<T>, what: &str) {
        let (here, there) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), DeviceCsr::upload(gpu, &b.view()).unwrap());
        let product = multiply(gpu, &here, &there).unwrap();
        let expected = host::multiply(&a.view(), &b.view()).unwrap();
        assert_eq!(product.fetch(gpu).unwrap(), expected, "{what}");
        let (_, pattern) = Product::new(gpu, &here, Right::of(&there)).sorted(false).unwrap();
        let other = Csr { values: a.values.iter().map(|v| *v * T::from_f64(0.3)).collect(), ..a.clone() };
        let here = DeviceCsr::upload(gpu, &other.view()).unwrap();
        let renewed = Product::new(gpu, &here, Right::of(&there)).known(&pattern, false).unwrap();
        let expected = host::multiply(&other.view(), &b.view()).unwrap();
        assert_eq!(gpu.fetch(&renewed).unwrap(), expected.values, "{what}");
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
    fn products_of_awkward_matrices_are_those_of_the_host() {
        for gpu in devices() {
            for (rows, inner, cols, left, right) in [
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
            ] {
                let (a, b) =
                    (random(rows, inner, left, Block::SCALAR, 1), random(inner, cols, right, Block::SCALAR, 2));
                let what = format!("{rows} x {inner} x {cols} with rows of {left} and {right}");
                same_as_the_host(&gpu, &a, &b, &what);
                let (a, b) = (a.view().to_owned_as::<f32>().unwrap(), b.view().to_owned_as::<f32>().unwrap());
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
        let gpu = &devices()[0];
        same_as_the_host(gpu, &a, &b, "a dense row on the left");
        same_as_the_host(gpu, &short, &a, "a dense row on the right");
        let tall = Csr::from_triplets(5, n, &dense).unwrap();
        same_as_the_host(gpu, &tall, &a, "dense rows");
    }

    #[test]
    fn blocks_are_multiplied() {
        for gpu in devices() {
            for (left, right) in
                [((3, 3), (3, 3)), ((3, 3), (3, 6)), ((6, 3), (3, 6)), ((6, 6), (6, 6)), ((2, 5), (5, 1))]
            {
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
