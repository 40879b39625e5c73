//! Symbolic data of SpGEMM for numeric-only updates on the device, as [`crate::host::spgemm_symbolic`], with the same
//! bits. For products of scalars the symbolic phase finds the position of each product in its row of C
//! (`kernels/spgemm_symbolic.cu`), one byte each. The numeric phase (`kernels/spgemm_numeric.cu`) then reads no
//! columns of B and C. For blocks each block of C has a list of its products (`kernels/spgemm_symbolic_blocks.cu`,
//! `kernels/spgemm_numeric_blocks.cu`).

use super::DeviceCsr;
use super::spgemm::Right;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, Kernel, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// Entries of a chunk, as in `kernels/spgemm_numeric.h`.
const CHUNK: usize = 4;

/// Sums of each lane of a team, as there.
const SUMS_PER_LANE: usize = 16;

/// Row lengths that are counted: those whose sums teams of 1, 2, 4, 8 lanes hold, and the longest whose positions fit
/// a byte.
const LENGTH_LIMITS: [usize; 5] = [SUMS_PER_LANE, 2 * SUMS_PER_LANE, 4 * SUMS_PER_LANE, 8 * SUMS_PER_LANE, 255];

/// Lanes of the largest team.
const MAX_LANES: usize = 16;

/// Lanes for a row whose positions have 16 bits.
const WIDE_LANES: usize = 32;

/// Mean length of a row of A from which on lanes stage its entries.
const MIN_STAGED_LENGTH: usize = 12;

/// Largest number of blocks of threads; each handles several rows.
const MAX_BLOCKS: usize = 1024;

/// Longest row of C whose positions 8 lanes find; 32 lanes find longer ones. As in `kernels/spgemm_symbolic.cu`.
const MAX_SHORT_ROW: i32 = 72;

/// Row ranges and columns of a matrix whose rows need not be contiguous.
pub(super) struct RowRanges<'a> {
    pub begins: &'a Slice<i64>,
    pub ends: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
}

/// Statistics of row lengths.
pub(super) struct RowLengths {
    rows: usize,
    /// The number of rows longer than each limit.
    longer: [usize; LENGTH_LIMITS.len()],
    pub longest: usize,
}

impl RowLengths {
    /// Statistics of several matrices from their row ranges. Waits for the device once.
    pub fn of<const N: usize>(gpu: &Gpu, kinds: [(&Slice<i64>, &Slice<i64>); N]) -> Result<[RowLengths; N]> {
        const WORDS: usize = LENGTH_LIMITS.len() + 1;
        let seen = gpu.zeroed::<i32>(WORDS * N)?;
        for (k, (begins, ends)) in kinds.iter().enumerate() {
            let (rows, to) = (begins.len(), seen.subslice(WORDS * k, WORDS));
            let arguments: [&dyn Argument; 4] = [&(rows as i64), &begins.view(), &ends.view(), &to.view()];
            gpu.launch_blocks(gpu.kernel("spgemm_row_lengths")?, rows.div_ceil(BLOCK).min(MAX_BLOCKS), &arguments)?;
        }
        let seen = gpu.fetch(&seen)?;
        Ok(std::array::from_fn(|k| {
            let words = &seen[WORDS * k..][..WORDS];
            let longer = std::array::from_fn(|limit| words[limit] as usize);
            RowLengths { rows: kinds[k].0.len(), longer, longest: words[LENGTH_LIMITS.len()] as usize }
        }))
    }

    /// Whether positions fit 16 bits, and sums the largest team.
    pub fn have_positions(&self) -> bool {
        self.longest <= WIDE_LANES * SUMS_PER_LANE
    }

    /// Whether all positions fit a byte.
    fn fit_bytes(&self) -> bool {
        self.longer[LENGTH_LIMITS.len() - 1] == 0
    }

    /// Whether every row has at most one chunk.
    pub fn are_single(&self) -> bool {
        self.longest <= CHUNK
    }

    /// The smallest limit, from the second one on, that nearly all rows keep to. Two lanes for a row are always
    /// faster than one.
    fn limit_of_most(&self) -> usize {
        (1..LENGTH_LIMITS.len() - 1)
            .find(|limit| 16 * self.longer[*limit] <= self.rows)
            .unwrap_or(LENGTH_LIMITS.len() - 1)
    }
}

/// Offsets of 32 bits from counts, and their total; none if the total needs more than 31 bits. Waits for the device.
pub(super) fn narrow_offsets(gpu: &Gpu, counts: &Slice<i32>) -> Result<Option<(Buffer<i32>, usize)>> {
    let (wide, total) = gpu.offsets(counts)?;
    if total >= i32::MAX as usize {
        return Ok(None);
    }
    let narrow = gpu.allocate::<i32>(counts.len() + 1)?;
    let arguments: [&dyn Argument; 3] = [&(counts.len() as i64 + 1), &wide.view(), &narrow.view()];
    gpu.launch(gpu.kernel("spgemm_narrow_offsets")?, counts.len() + 1, &arguments)?;
    Ok(Some((narrow, total)))
}

/// Rows of a matrix in chunks of entries; the last chunk of each row is padded with zeros.
#[derive(Clone)]
pub(super) struct Chunks {
    rows: usize,
    /// The first chunk of each row; none if every row is one chunk.
    begins: Option<Arc<Buffer<i32>>>,
    total: usize,
}

impl Chunks {
    /// One chunk for each row.
    pub fn single(rows: usize) -> Chunks {
        Chunks { rows, begins: None, total: rows }
    }

    /// Chunks for these row ranges; none if their number needs more than 31 bits. Waits for the device.
    pub fn new(gpu: &Gpu, begins: &Slice<i64>, ends: &Slice<i64>) -> Result<Option<Chunks>> {
        let rows = begins.len();
        let counts = gpu.allocate::<i32>(rows)?;
        let arguments: [&dyn Argument; 4] = [&(rows as i64), &begins.view(), &ends.view(), &counts.view()];
        gpu.launch(gpu.kernel("spgemm_chunk_counts")?, rows, &arguments)?;
        let found = narrow_offsets(gpu, &counts)?;
        Ok(found.map(|(begins, total)| Chunks { rows, begins: Some(Arc::new(begins)), total }))
    }

    /// The values of a matrix in chunks.
    pub fn of<T: Number>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<T>> {
        let to = self.allocate(gpu)?;
        let kernel = gpu.kernel(&format!("spgemm_pack_chunks_{}", T::PRECISION.name()))?;
        let (offsets, values) = (a.offsets.view(), a.values.view());
        let arguments: [&dyn Argument; 5] = [&(self.rows as i64), &offsets, &values, &self.view(), &to.view()];
        gpu.launch(kernel, self.rows * CHUNK, &arguments)?;
        Ok(to)
    }

    /// Memory for all chunks.
    pub fn allocate<T: Number>(&self, gpu: &Gpu) -> Result<Buffer<T>> {
        gpu.allocate(self.total * CHUNK)
    }

    fn view(&self) -> View<'_> {
        self.begins.as_ref().map_or(View::NONE, |begins| begins.view())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.begins.as_ref().map_or(0, |begins| begins.owned_bytes())
    }
}

/// Symbolic data of a product A B of scalars: the position of each product in its row of C.
pub(super) struct SpgemmSymbolic {
    /// Of B.
    chunks: Chunks,
    /// The begin of each row's words; none if it is that of the row of A.
    begins: Option<Buffer<i64>>,
    words: PositionWords,
    /// Lanes for each row, and the rows that need more.
    lanes: usize,
    long: Option<Buffer<i32>>,
}

/// Words of four positions each.
enum PositionWords {
    Bytes(Buffer<u32>),
    /// 16 bits each.
    Wide(Buffer<u64>),
}

impl PositionWords {
    fn view(&self) -> View<'_> {
        match self {
            PositionWords::Bytes(words) => words.view(),
            PositionWords::Wide(words) => words.view(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            PositionWords::Bytes(words) => words.owned_bytes(),
            PositionWords::Wide(words) => words.owned_bytes(),
        }
    }
}

/// The output of a numeric phase.
pub(super) enum Target<'a> {
    /// Rows with these offsets and columns; zeros on the diagonal become ones.
    Filled { offsets: &'a Slice<i64>, columns: &'a Slice<i32> },
    /// Rows with these offsets.
    Rows(&'a Slice<i64>),
    /// Chunks, several for a row.
    Chunks(&'a Chunks),
}

impl SpgemmSymbolic {
    /// Symbolic phase of A B for rows of C with these lengths, whose positions fit. B is in these chunks. Waits for
    /// the device.
    pub fn new<T: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        (b, chunks): (&Right<'_, T>, &Chunks),
        (c, lengths): (&RowRanges<'_>, &RowLengths),
    ) -> Result<SpgemmSymbolic> {
        let (rows, offsets, columns) = (a.rows as i64, a.offsets.view(), a.columns.view());
        let (begins, total) = match &chunks.begins {
            None => (None, a.nnz()),
            Some(chunks) => {
                let counts = gpu.allocate::<i32>(a.rows)?;
                let arguments: [&dyn Argument; 5] = [&rows, &offsets, &columns, &chunks.view(), &counts.view()];
                gpu.launch(gpu.kernel("spgemm_position_counts")?, a.rows * 8, &arguments)?;
                let (begins, total) = gpu.offsets(&counts)?;
                (Some(begins), total)
            }
        };
        let words = match lengths.fit_bytes() {
            true => PositionWords::Bytes(gpu.allocate(total)?),
            false => PositionWords::Wide(gpu.allocate(total)?),
        };
        let begins_view = begins.as_ref().map_or(View::NONE, |begins| begins.view());
        let ways: &[(&str, usize, i32)] = match words {
            PositionWords::Bytes(_) => &[("8", 8, -1), ("32", 32, MAX_SHORT_ROW)],
            PositionWords::Wide(_) => &[("wide", 32, -1)],
        };
        for (name, lanes, from) in ways {
            if *from >= 0 && lengths.longest <= *from as usize {
                break;
            }
            let (b_begins, b_ends, b_columns) = (b.begins.view(), b.ends.view(), b.columns.view());
            let (to, to_ends, to_columns) = (c.begins.view(), c.ends.view(), c.columns.view());
            let (chunks, words) = (chunks.view(), words.view());
            let arguments: [&dyn Argument; 13] = [
                &rows,
                from,
                &offsets,
                &columns,
                &b_begins,
                &b_ends,
                &b_columns,
                &chunks,
                &begins_view,
                &to,
                &to_ends,
                &to_columns,
                &words,
            ];
            let blocks = (a.rows * lanes).div_ceil(BLOCK).min(4 * MAX_BLOCKS);
            gpu.launch_blocks(gpu.kernel(&format!("spgemm_symbolic_{name}"))?, blocks, &arguments)?;
        }
        if !lengths.fit_bytes() {
            return Ok(SpgemmSymbolic { chunks: chunks.clone(), begins, words, lanes: WIDE_LANES, long: None });
        }
        let limit = lengths.limit_of_most();
        let mut long = None;
        if lengths.longer[limit] > 0 {
            let list = gpu.list(lengths.longer[limit])?;
            let arguments: [&dyn Argument; 5] =
                [&rows, &c.begins.view(), &c.ends.view(), &(LENGTH_LIMITS[limit] as i32), &list.view()];
            gpu.launch(gpu.kernel("spgemm_list_long_rows")?, a.rows, &arguments)?;
            long = Some(list);
        }
        let lanes = 1 << limit;
        Ok(SpgemmSymbolic { chunks: chunks.clone(), begins, words, lanes, long })
    }

    /// Numeric phase: the values of C for factors with the same patterns. Does not wait for the device.
    pub fn numeric<T: Number>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        b_in_chunks: &Slice<T>,
        to: Target<'_>,
        values: &Slice<T>,
    ) -> Result<()> {
        let is_long = a.nnz() >= MIN_STAGED_LENGTH * a.rows;
        let kind = |lanes: usize| match &self.chunks.begins {
            Some(_) => "chunks",
            None if is_long && (2..=4).contains(&lanes) => "staged",
            None => "single",
        };
        let begins = self.begins.as_ref().map_or(View::NONE, |begins| begins.view());
        let (offsets, columns, left, right) = (a.offsets.view(), a.columns.view(), a.values.view(), b_in_chunks.view());
        let (chunks, words, values) = (self.chunks.view(), self.words.view(), values.view());
        let (mut to_offsets, mut to_chunks, mut to_columns, mut fill) = (View::NONE, View::NONE, View::NONE, 0_i32);
        match to {
            Target::Filled { offsets, columns } => (to_offsets, to_columns, fill) = (offsets.view(), columns.view(), 1),
            Target::Rows(offsets) => to_offsets = offsets.view(),
            Target::Chunks(chunks) => to_chunks = chunks.view(),
        }
        let launch = |lanes: usize, count: usize, list: View| {
            let kernel = gpu.kernel(&format!("spgemm_numeric_{}_{lanes}_{}", kind(lanes), T::PRECISION.name()))?;
            let arguments: [&dyn Argument; 14] = [
                &(count as i64),
                &list,
                &offsets,
                &columns,
                &left,
                &chunks,
                &right,
                &begins,
                &words,
                &to_offsets,
                &to_chunks,
                &to_columns,
                &values,
                &fill,
            ];
            gpu.launch(kernel, count * lanes, &arguments)
        };
        launch(self.lanes, a.rows, View::NONE)?;
        match &self.long {
            Some(list) => launch(MAX_LANES, list.len() - 1, list.subslice(1, list.len() - 1).view()),
            None => Ok(()),
        }
    }

    /// Bytes held, besides those of the chunks.
    pub fn bytes(&self) -> usize {
        let begins = self.begins.as_ref().map_or(0, |begins| begins.owned_bytes());
        begins + self.words.bytes() + self.long.as_ref().map_or(0, |long| long.owned_bytes())
    }
}

/// Symbolic data of a product A B of blocks: the products of each block of C.
pub(crate) struct BlockSpgemmSymbolic {
    /// The row of each block of C.
    row_of: Buffer<i32>,
    /// The begin of its products.
    starts: Buffer<i64>,
    lists: ProductLists,
}

/// For each product the entry in the row of A, and the block of B.
enum ProductLists {
    /// The block of B among all.
    Any { of_left: Buffer<u16>, of_right: Buffer<u32> },
    /// The block in its row of B, in the upper half; for small blocks of A (`kernels/spgemm_numeric_small.cu`).
    Small(Buffer<u32>),
}

/// Blocks of C for each block of threads, for small blocks of A, by the columns of a block of B; and their largest
/// number for a smoothed prolongator. As in `kernels/spgemm_numeric_small.cu`.
pub(super) fn small_outputs(width: usize) -> usize {
    BLOCK / (width / if width.is_multiple_of(2) { 2 } else { 1 })
}
pub(super) const SMOOTHED_OUTPUTS: usize = 72;

/// Threads for a block of C, as in `kernels/spgemm_numeric_blocks.cu`: for a compiled block size one thread has two
/// rows and columns if their numbers are even.
fn strips(shape: &str, block: Block) -> usize {
    let of = |n: usize| if shape != "any" && n.is_multiple_of(2) { n / 2 } else { n };
    of(block.rows) * of(block.cols)
}

/// Longest row of C for which 32 lanes find products, and longest for which 256 do; as in
/// `kernels/spgemm_symbolic_blocks.cu`.
const MAX_SHORT_BLOCK_ROW: usize = 264;
const MAX_BLOCK_ROW: usize = 2304;

impl BlockSpgemmSymbolic {
    /// Whether there are kernels for small blocks of A of this size.
    pub(super) fn are_small(a: Block, b: Block) -> bool {
        a == Block::square(3) && b.rows == 3 && matches!(b.cols, 3 | 6)
    }

    /// Symbolic phase of A B for the pattern of C, with the row lengths of A and C; none if a number exceeds its
    /// type. Waits for the device.
    pub(super) fn new<T: Number>(
        gpu: &Gpu,
        (a, a_lengths): (&DeviceCsr<T>, &RowLengths),
        b: &Right<'_, T>,
        ((to, to_columns), lengths): ((&Slice<i64>, &Slice<i32>), &RowLengths),
    ) -> Result<Option<BlockSpgemmSymbolic>> {
        let too_long = lengths.longest > MAX_BLOCK_ROW || a_lengths.longest > usize::from(u16::MAX);
        if too_long || b.columns.len() > u32::MAX as usize {
            return Ok(None);
        }
        let outputs = to_columns.len();
        let find = |counts: View, row_of: View, starts: View, [of_left, of_right, codes]: [View; 3]| {
            for (lanes, from) in [(32, -1), (BLOCK, MAX_SHORT_BLOCK_ROW as i32)] {
                if from >= 0 && lengths.longest <= from as usize {
                    break;
                }
                let (rows, offsets, columns) = (a.rows as i64, a.offsets.view(), a.columns.view());
                let (begins, ends, b_columns) = (b.begins.view(), b.ends.view(), b.columns.view());
                let (to, to_columns) = (to.view(), to_columns.view());
                let arguments: [&dyn Argument; 15] = [
                    &rows,
                    &from,
                    &offsets,
                    &columns,
                    &begins,
                    &ends,
                    &b_columns,
                    &to,
                    &to_columns,
                    &counts,
                    &row_of,
                    &starts,
                    &of_left,
                    &of_right,
                    &codes,
                ];
                let blocks = (a.rows * lanes).div_ceil(BLOCK).min(8 * MAX_BLOCKS);
                gpu.launch_blocks(gpu.kernel(&format!("spgemm_symbolic_blocks_{lanes}"))?, blocks, &arguments)?;
            }
            Ok(())
        };
        let (counts, row_of, none) = (gpu.allocate::<i32>(outputs)?, gpu.allocate::<i32>(outputs)?, View::NONE);
        find(counts.view(), row_of.view(), none, [none; 3])?;
        let (starts, total) = gpu.offsets(&counts)?;
        drop(counts);
        let lists = match BlockSpgemmSymbolic::are_small(a.block, b.block) {
            true => ProductLists::Small(gpu.allocate(total)?),
            false => ProductLists::Any { of_left: gpu.allocate(total)?, of_right: gpu.allocate(total)? },
        };
        let views = match &lists {
            ProductLists::Small(codes) => [none, none, codes.view()],
            ProductLists::Any { of_left, of_right } => [of_left.view(), of_right.view(), none],
        };
        find(none, none, starts.view(), views)?;
        Ok(Some(BlockSpgemmSymbolic { row_of, starts, lists }))
    }

    /// Numeric phase: the values of C. With `fill` zeros on the diagonal become ones. Does not wait for the device.
    pub(super) fn numeric<T: Number>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        b: &Right<'_, T>,
        (shape, block): (&str, Block),
        (columns, values, fill): (&Slice<i32>, &Slice<T>, bool),
    ) -> Result<()> {
        let (to_columns, to, fill) = (columns.view(), values.view(), i32::from(fill));
        let (of_left, of_right) = match &self.lists {
            ProductLists::Small(_) => {
                let kernel = gpu.kernel(&format!("spgemm_numeric_small_{shape}_{}", T::PRECISION.name()))?;
                let each = small_outputs(b.block.cols);
                return self.launch_small(
                    gpu,
                    kernel,
                    a,
                    (b.begins.view(), b.values),
                    each,
                    &[&to_columns, &to, &fill],
                );
            }
            ProductLists::Any { of_left, of_right } => (of_left.view(), of_right.view()),
        };
        let kernel = gpu.kernel(&format!("spgemm_numeric_blocks_{shape}_{}", T::PRECISION.name()))?;
        let [outer, inner, width] = [block.rows, a.block.cols, block.cols].map(|d| d as i32);
        let (offsets, left, right) = (a.offsets.view(), a.values.view(), b.values.view());
        let (row_of, starts) = (self.row_of.view(), self.starts.view());
        let arguments: [&dyn Argument; 14] = [
            &(columns.len() as i64),
            &offsets,
            &left,
            &right,
            &row_of,
            &starts,
            &of_left,
            &of_right,
            &outer,
            &inner,
            &width,
            &to_columns,
            &to,
            &fill,
        ];
        gpu.launch(kernel, columns.len() * strips(shape, block), &arguments)
    }

    /// Launches a kernel for small blocks of A, with `each` blocks of C for each block of threads.
    pub(super) fn launch_small<T: Number>(
        &self,
        gpu: &Gpu,
        kernel: Kernel,
        a: &DeviceCsr<T>,
        (begins, values): (View, &Slice<T>),
        each: usize,
        more: &[&dyn Argument],
    ) -> Result<()> {
        let ProductLists::Small(codes) = &self.lists else { unreachable!("blocks of A are small") };
        let outputs = self.row_of.len();
        let (count, offsets, columns) = (outputs as i64, a.offsets.view(), a.columns.view());
        let (left, right, codes) = (a.values.view(), values.view(), codes.view());
        let (row_of, starts) = (self.row_of.view(), self.starts.view());
        let mut arguments: Vec<&dyn Argument> =
            vec![&count, &offsets, &columns, &left, &begins, &right, &row_of, &starts, &codes];
        arguments.extend(more);
        gpu.launch_blocks(kernel, outputs.div_ceil(each), &arguments)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let lists = match &self.lists {
            ProductLists::Any { of_left, of_right } => of_left.owned_bytes() + of_right.owned_bytes(),
            ProductLists::Small(codes) => codes.owned_bytes(),
        };
        self.row_of.owned_bytes() + self.starts.owned_bytes() + lists
    }
}
