//! Renewed products on the device: [`crate::host::terms`] there, with the same bits. The first renewal finds to which sum of its row of C each term of a
//! product of scalars is added (`kernels/spgemm_symbolic.cu`), a byte for each; the numeric pass (`kernels/spgemm_numeric.cu`) then reads neither columns of B nor
//! those of C. Of blocks each one of C knows its terms (`kernels/spgemm_numeric_blocks.cu`).

use super::DeviceCsr;
use super::spgemm::Right;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, Kernel, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// Entries of a chunk, as in `kernels/spgemm_numeric.cu`.
const CHUNK: usize = 4;

/// Sums for each lane of a team, as there.
const LANE_SUMS: usize = 16;

/// Lengths of rows that are told apart: those of which teams of 1, 2, 4, 8 lanes hold the sums, and the longest whose places fit a byte.
const LIMITS: [usize; 5] = [LANE_SUMS, 2 * LANE_SUMS, 4 * LANE_SUMS, 8 * LANE_SUMS, 255];

/// Lanes of the largest team.
const MOST_LANES: usize = 16;

/// Lanes for each row where places have 16 bits.
const WIDE_LANES: usize = 32;

/// Entries of a row of A, on average, from which on lanes read them together.
const STAGED_FROM: usize = 12;

/// Blocks of threads that go over rows in steps.
const WAVE: usize = 1024;

/// Columns of rows of C up to which 8 lanes find places; 32 do beyond. As in `kernels/spgemm_symbolic.cu`.
const SHORT: i32 = 72;

/// Rows that lie somewhere: where each begins and ends, and their columns.
pub(super) struct Lying<'a> {
    pub begins: &'a Slice<i64>,
    pub ends: &'a Slice<i64>,
    pub columns: &'a Slice<i32>,
}

/// How long rows are.
pub(super) struct Lengths {
    rows: usize,
    /// How many are longer than each limit.
    longer: [usize; LIMITS.len()],
    pub longest: usize,
}

impl Lengths {
    /// Those of several kinds of rows, that begin and end there. Waits for the device once.
    pub fn of<const N: usize>(gpu: &Gpu, kinds: [(&Slice<i64>, &Slice<i64>); N]) -> Result<[Lengths; N]> {
        const WORDS: usize = LIMITS.len() + 1;
        let seen = gpu.zeroed::<i32>(WORDS * N)?;
        for (k, (begins, ends)) in kinds.iter().enumerate() {
            let (rows, to) = (begins.len(), seen.piece(WORDS * k, WORDS));
            let arguments: [&dyn Argument; 4] = [&(rows as i64), &begins.view(), &ends.view(), &to.view()];
            gpu.launch_blocks(gpu.kernel("spgemm_row_lengths")?, rows.div_ceil(BLOCK).min(WAVE), &arguments)?;
        }
        let seen = gpu.fetch(&seen)?;
        Ok(std::array::from_fn(|k| {
            let words = &seen[WORDS * k..][..WORDS];
            let longer = std::array::from_fn(|limit| words[limit] as usize);
            Lengths { rows: kinds[k].0.len(), longer, longest: words[LIMITS.len()] as usize }
        }))
    }

    /// Whether there are places for all of their entries.
    pub fn have_places(&self) -> bool {
        self.longest <= WIDE_LANES * LANE_SUMS
    }

    /// Whether bytes suffice for these.
    fn are_short(&self) -> bool {
        self.longer[LIMITS.len() - 1] == 0
    }

    /// Whether every row is one chunk, or none.
    pub fn are_single(&self) -> bool {
        self.longest <= CHUNK
    }

    /// The number of the limit that most of them keep to, of those from the second one on: two lanes for a row are always better than one.
    fn limit_of_most(&self) -> usize {
        (1..LIMITS.len() - 1).find(|limit| 16 * self.longer[*limit] <= self.rows).unwrap_or(LIMITS.len() - 1)
    }
}

/// Sums of what comes before, and of all; none where that is too much for 31 bits. Waits for the device.
pub(super) fn narrow_offsets(gpu: &Gpu, counts: &Slice<i32>) -> Result<Option<(Buffer<i32>, usize)>> {
    let (wide, total) = gpu.offsets(counts)?;
    if total >= i32::MAX as usize {
        return Ok(None);
    }
    let narrow = gpu.room::<i32>(counts.len() + 1)?;
    let arguments: [&dyn Argument; 3] = [&(counts.len() as i64 + 1), &wide.view(), &narrow.view()];
    gpu.launch(gpu.kernel("spgemm_narrow_offsets")?, counts.len() + 1, &arguments)?;
    Ok(Some((narrow, total)))
}

/// How the rows of a matrix lie in chunks of entries, the last one of each row filled up with zeros.
#[derive(Clone)]
pub(super) struct Chunks {
    rows: usize,
    /// The first chunk of each row; none where every row is one.
    begins: Option<Arc<Buffer<i32>>>,
    total: usize,
}

impl Chunks {
    /// One for each row.
    pub fn single(rows: usize) -> Chunks {
        Chunks { rows, begins: None, total: rows }
    }

    /// For rows that begin and end there; none when there are too many chunks to count in 31 bits. Waits for the device.
    pub fn new(gpu: &Gpu, begins: &Slice<i64>, ends: &Slice<i64>) -> Result<Option<Chunks>> {
        let rows = begins.len();
        let counts = gpu.room::<i32>(rows)?;
        let arguments: [&dyn Argument; 4] = [&(rows as i64), &begins.view(), &ends.view(), &counts.view()];
        gpu.launch(gpu.kernel("spgemm_chunk_counts")?, rows, &arguments)?;
        let found = narrow_offsets(gpu, &counts)?;
        Ok(found.map(|(begins, total)| Chunks { rows, begins: Some(Arc::new(begins)), total }))
    }

    /// The values of a matrix in chunks.
    pub fn of<T: Number>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<T>> {
        let to = self.room(gpu)?;
        let kernel = gpu.kernel(&format!("spgemm_pack_chunks_{}", T::PRECISION.name()))?;
        let (offsets, values) = (a.offsets.view(), a.values.view());
        let arguments: [&dyn Argument; 5] = [&(self.rows as i64), &offsets, &values, &self.view(), &to.view()];
        gpu.launch(kernel, self.rows * CHUNK, &arguments)?;
        Ok(to)
    }

    /// Room for all chunks.
    pub fn room<T: Number>(&self, gpu: &Gpu) -> Result<Buffer<T>> {
        gpu.room(self.total * CHUNK)
    }

    fn view(&self) -> View<'_> {
        self.begins.as_ref().map_or(View::NONE, |begins| begins.view())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.begins.as_ref().map_or(0, |begins| begins.owned_bytes())
    }
}

/// Where the terms of a product A B are added.
pub(super) struct Terms {
    /// Of B.
    chunks: Chunks,
    /// Where the words of each row begin; none where they begin as the row of A does.
    begins: Option<Buffer<i64>>,
    words: Words,
    /// Lanes for each row, and the list of those for which they do not suffice.
    lanes: usize,
    long: Option<Buffer<i32>>,
}

/// The places of four terms each.
enum Words {
    Bytes(Buffer<u32>),
    /// 16 bits for each.
    Wide(Buffer<u64>),
}

impl Words {
    fn view(&self) -> View<'_> {
        match self {
            Words::Bytes(words) => words.view(),
            Words::Wide(words) => words.view(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Words::Bytes(words) => words.owned_bytes(),
            Words::Wide(words) => words.owned_bytes(),
        }
    }
}

/// Where the values of a product go.
pub(super) enum Target<'a> {
    /// To the entries of rows that begin at these offsets and have these columns, with ones for zeros on the diagonal.
    Filled { offsets: &'a Slice<i64>, columns: &'a Slice<i32> },
    /// To those of rows that begin there, as they are.
    Rows(&'a Slice<i64>),
    /// To chunks, which are not single ones.
    Chunks(&'a Chunks),
}

impl Terms {
    /// Those of A B, for rows of C with these lengths, which have places. B is in these chunks. Waits for the device.
    pub fn find<T: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        (b, chunks): (&Right<'_, T>, &Chunks),
        (c, lengths): (&Lying<'_>, &Lengths),
    ) -> Result<Terms> {
        let (rows, offsets, columns) = (a.rows as i64, a.offsets.view(), a.columns.view());
        let (begins, total) = match &chunks.begins {
            None => (None, a.nnz()),
            Some(chunks) => {
                let counts = gpu.room::<i32>(a.rows)?;
                let arguments: [&dyn Argument; 5] = [&rows, &offsets, &columns, &chunks.view(), &counts.view()];
                gpu.launch(gpu.kernel("spgemm_position_counts")?, a.rows * 8, &arguments)?;
                let (begins, total) = gpu.offsets(&counts)?;
                (Some(begins), total)
            }
        };
        let words = match lengths.are_short() {
            true => Words::Bytes(gpu.room(total)?),
            false => Words::Wide(gpu.room(total)?),
        };
        let begins_view = begins.as_ref().map_or(View::NONE, |begins| begins.view());
        let ways: &[(&str, usize, i32)] = match words {
            Words::Bytes(_) => &[("8", 8, -1), ("32", 32, SHORT)],
            Words::Wide(_) => &[("wide", 32, -1)],
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
            let blocks = (a.rows * lanes).div_ceil(BLOCK).min(4 * WAVE);
            gpu.launch_blocks(gpu.kernel(&format!("spgemm_symbolic_{name}"))?, blocks, &arguments)?;
        }
        if !lengths.are_short() {
            return Ok(Terms { chunks: chunks.clone(), begins, words, lanes: WIDE_LANES, long: None });
        }
        let limit = lengths.limit_of_most();
        let mut long = None;
        if lengths.longer[limit] > 0 {
            let list = gpu.list(lengths.longer[limit])?;
            let arguments: [&dyn Argument; 5] =
                [&rows, &c.begins.view(), &c.ends.view(), &(LIMITS[limit] as i32), &list.view()];
            gpu.launch(gpu.kernel("spgemm_list_long_rows")?, a.rows, &arguments)?;
            long = Some(list);
        }
        let lanes = 1 << limit;
        Ok(Terms { chunks: chunks.clone(), begins, words, lanes, long })
    }

    /// Computes the values of C for factors with the patterns that the terms were found for. Waits for nothing.
    pub fn renew<T: Number>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        b_in_chunks: &Slice<T>,
        to: Target<'_>,
        values: &Slice<T>,
    ) -> Result<()> {
        let is_long = a.nnz() >= STAGED_FROM * a.rows;
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
            Some(list) => launch(MOST_LANES, list.len() - 1, list.piece(1, list.len() - 1).view()),
            None => Ok(()),
        }
    }

    /// Bytes held, besides those of the chunks.
    pub fn bytes(&self) -> usize {
        let begins = self.begins.as_ref().map_or(0, |begins| begins.owned_bytes());
        begins + self.words.bytes() + self.long.as_ref().map_or(0, |long| long.owned_bytes())
    }
}

/// The terms of each block of a product A B of blocks.
pub(crate) struct BlockTerms {
    /// The row of each block of C.
    row_of: Buffer<i32>,
    /// Where its terms begin.
    starts: Buffer<i64>,
    lists: Lists,
}

/// Of each term the entry of the row of A, and the block of B.
enum Lists {
    /// Among all.
    Any { of_left: Buffer<u16>, of_right: Buffer<u32> },
    /// In its row, in the upper half; for blocks of A that are small (`kernels/spgemm_numeric_small.cu`).
    Small(Buffer<u32>),
}

/// Blocks of C that a block of threads has where those of A are small, if these have so many columns; and at most where C is a smoothed prolongator. As in
/// `kernels/spgemm_numeric_small.cu`.
pub(super) fn small_outputs(width: usize) -> usize {
    BLOCK / (width / if width.is_multiple_of(2) { 2 } else { 1 })
}
pub(super) const SMOOTHED_OUTPUTS: usize = 72;

/// Threads for a block of C, as in `kernels/spgemm_numeric_blocks.cu`: where the shape is known, two of its rows and columns are one's, if they are even.
fn strips(shape: &str, block: Block) -> usize {
    let of = |n: usize| if shape != "any" && n.is_multiple_of(2) { n / 2 } else { n };
    of(block.rows) * of(block.cols)
}

/// Columns of rows of C up to which 32 lanes find the terms of blocks, and up to which 256 do; as in `kernels/spgemm_numeric_blocks.cu`.
const SHORT_BLOCKS: usize = 264;
const LONG_BLOCKS: usize = 2304;

impl BlockTerms {
    /// Whether kernels for small blocks of A know these.
    pub(super) fn are_small(a: Block, b: Block) -> bool {
        a == Block::square(3) && b.rows == 3 && matches!(b.cols, 3 | 6)
    }

    /// Those of A B for the pattern of C, whose rows have these lengths, as those of A; none where there is too much to count. Waits for the device.
    pub(super) fn find<T: Number>(
        gpu: &Gpu,
        (a, a_lengths): (&DeviceCsr<T>, &Lengths),
        b: &Right<'_, T>,
        ((to, to_columns), lengths): ((&Slice<i64>, &Slice<i32>), &Lengths),
    ) -> Result<Option<BlockTerms>> {
        let too_long = lengths.longest > LONG_BLOCKS || a_lengths.longest > usize::from(u16::MAX);
        if too_long || b.columns.len() > u32::MAX as usize {
            return Ok(None);
        }
        let outputs = to_columns.len();
        let find = |counts: View, row_of: View, starts: View, [of_left, of_right, codes]: [View; 3]| {
            for (lanes, from) in [(32, -1), (BLOCK, SHORT_BLOCKS as i32)] {
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
                let blocks = (a.rows * lanes).div_ceil(BLOCK).min(8 * WAVE);
                gpu.launch_blocks(gpu.kernel(&format!("spgemm_symbolic_blocks_{lanes}"))?, blocks, &arguments)?;
            }
            Ok(())
        };
        let (counts, row_of, none) = (gpu.room::<i32>(outputs)?, gpu.room::<i32>(outputs)?, View::NONE);
        find(counts.view(), row_of.view(), none, [none; 3])?;
        let (starts, total) = gpu.offsets(&counts)?;
        drop(counts);
        let lists = match BlockTerms::are_small(a.block, b.block) {
            true => Lists::Small(gpu.room(total)?),
            false => Lists::Any { of_left: gpu.room(total)?, of_right: gpu.room(total)? },
        };
        let views = match &lists {
            Lists::Small(codes) => [none, none, codes.view()],
            Lists::Any { of_left, of_right } => [of_left.view(), of_right.view(), none],
        };
        find(none, none, starts.view(), views)?;
        Ok(Some(BlockTerms { row_of, starts, lists }))
    }

    /// The values of C, whose blocks have this shape and columns, with ones for zeros on the diagonal if these are to be filled. Waits for nothing.
    pub(super) fn renew<T: Number>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        b: &Right<'_, T>,
        (shape, block): (&str, Block),
        columns: &Slice<i32>,
        fill: bool,
    ) -> Result<Buffer<T>> {
        let values = gpu.room::<T>(columns.len() * block.len())?;
        let (to_columns, to, fill) = (columns.view(), values.view(), i32::from(fill));
        let (of_left, of_right) = match &self.lists {
            Lists::Small(_) => {
                let kernel = gpu.kernel(&format!("spgemm_numeric_small_{shape}_{}", T::PRECISION.name()))?;
                let each = small_outputs(b.block.cols);
                self.launch_small(gpu, kernel, a, (b.begins.view(), b.values), each, &[&to_columns, &to, &fill])?;
                return Ok(values);
            }
            Lists::Any { of_left, of_right } => (of_left.view(), of_right.view()),
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
        gpu.launch(kernel, columns.len() * strips(shape, block), &arguments)?;
        Ok(values)
    }

    /// Launches a kernel for small blocks of A, whose blocks of threads have so many of C: rows of B begin there and have these values.
    pub(super) fn launch_small<T: Number>(
        &self,
        gpu: &Gpu,
        kernel: Kernel,
        a: &DeviceCsr<T>,
        (begins, values): (View, &Slice<T>),
        each: usize,
        more: &[&dyn Argument],
    ) -> Result<()> {
        let Lists::Small(codes) = &self.lists else { unreachable!("blocks of A are small") };
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
            Lists::Any { of_left, of_right } => of_left.owned_bytes() + of_right.owned_bytes(),
            Lists::Small(codes) => codes.owned_bytes(),
        };
        self.row_of.owned_bytes() + self.starts.owned_bytes() + lists
    }
}
