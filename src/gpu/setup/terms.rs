//! Renewed products of scalar matrices on the device: [`crate::host::terms`] there, with the same bits. The first renewal finds to which sum of its
//! row of C each term of a product is added (`kernels/terms_find.cu`), a byte for each; the numeric pass (`kernels/terms.cu`) then reads neither
//! columns of B nor those of C.

use super::DeviceCsr;
use super::spgemm::Right;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use std::sync::Arc;

/// Entries of a chunk, as in `kernels/terms.cu`.
const CHUNK: usize = 4;

/// Sums for each lane of a team, as there.
const LANE_SUMS: usize = 16;

/// Lengths of rows that are told apart: those of which teams of 1, 2, 4, 8 lanes hold the sums, and the longest whose places fit a byte.
const LIMITS: [usize; 5] = [LANE_SUMS, 2 * LANE_SUMS, 4 * LANE_SUMS, 8 * LANE_SUMS, 255];

/// Lanes of the largest team.
const MOST_LANES: usize = 16;

/// Blocks of threads that go over rows in steps.
const WAVE: usize = 1024;

/// Columns of rows of C up to which 8 lanes find places; 32 do beyond. As in `kernels/terms_find.cu`.
const SHORT: i32 = 72;

/// Rows that lie somewhere: where each begins and ends, and their columns.
pub(super) struct Lying<'a> {
    pub begins: Slice<i64>,
    pub ends: Slice<i64>,
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
            gpu.launch_blocks(gpu.kernel("terms_lengths")?, rows.div_ceil(BLOCK).min(WAVE), &arguments)?;
        }
        let seen = gpu.fetch(&seen)?;
        Ok(std::array::from_fn(|k| {
            let words = &seen[WORDS * k..][..WORDS];
            let longer = std::array::from_fn(|limit| words[limit] as usize);
            Lengths { rows: kinds[k].0.len(), longer, longest: words[LIMITS.len()] as usize }
        }))
    }

    /// Whether a byte tells every place in them.
    pub fn are_short(&self) -> bool {
        self.longer[LIMITS.len() - 1] == 0
    }

    /// Whether every row is one chunk, or none.
    pub fn are_single(&self) -> bool {
        self.longest <= CHUNK
    }

    /// The number of the limit that most of them keep to.
    fn limit_of_most(&self) -> usize {
        (0..LIMITS.len() - 1).find(|limit| 16 * self.longer[*limit] <= self.rows).unwrap_or(LIMITS.len() - 1)
    }
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
        gpu.launch(gpu.kernel("terms_chunk_counts")?, rows, &arguments)?;
        let (wide, total) = gpu.offsets(&counts)?;
        if total >= i32::MAX as usize {
            return Ok(None);
        }
        let narrow = gpu.room::<i32>(rows + 1)?;
        let arguments: [&dyn Argument; 3] = [&(rows as i64 + 1), &wide.view(), &narrow.view()];
        gpu.launch(gpu.kernel("terms_narrow")?, rows + 1, &arguments)?;
        Ok(Some(Chunks { rows, begins: Some(Arc::new(narrow)), total }))
    }

    /// The values of a matrix in chunks.
    pub fn of<T: Number>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<T>> {
        let to = self.room(gpu)?;
        let kernel = gpu.kernel(&format!("terms_chunked_{}", T::PRECISION.name()))?;
        let (offsets, values) = (a.offsets.view(), a.values.view());
        let arguments: [&dyn Argument; 5] = [&(self.rows as i64), &offsets, &values, &self.view(), &to.view()];
        gpu.launch(kernel, self.rows * CHUNK, &arguments)?;
        Ok(to)
    }

    /// Room for all chunks.
    pub fn room<T>(&self, gpu: &Gpu) -> Result<Buffer<T>> {
        gpu.room(self.total * CHUNK)
    }

    fn view(&self) -> View {
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
    /// The places of four terms.
    words: Buffer<u32>,
    /// Lanes for each row, and the list of those for which they do not suffice.
    lanes: usize,
    long: Option<Buffer<i32>>,
}

/// Where the values of a product go.
pub(super) enum Target<'a> {
    /// To the entries of rows that begin at these offsets and have these columns, with ones for zeros on the diagonal.
    Filled { offsets: &'a Slice<i64>, columns: &'a Slice<i32> },
    /// To chunks, which are not single ones.
    Chunks(&'a Chunks),
}

impl Terms {
    /// Those of A B, for rows of C with these lengths, all of which are short. B is in these chunks. Waits for the device.
    pub fn find<T: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        (b, chunks): (&Right<'_, T>, &Chunks),
        (c, lengths): (&Lying<'_>, &Lengths),
    ) -> Result<Terms> {
        let (begins, total) = match &chunks.begins {
            None => (None, a.nnz()),
            Some(chunks) => {
                let (begins, total) = gpu.offsets(&*counts(gpu, a, chunks.view(), View::NONE)?)?;
                (Some(begins), total)
            }
        };
        let words = gpu.room::<u32>(total)?;
        let begins_view = begins.as_ref().map_or(View::NONE, |begins| begins.view());
        find(gpu, "chunks", a, (b, chunks.view()), (c, lengths), begins_view, words.view())?;
        let limit = lengths.limit_of_most();
        let mut long = None;
        if lengths.longer[limit] > 0 {
            let list = gpu.list(lengths.longer[limit])?;
            let arguments: [&dyn Argument; 5] =
                [&(a.rows as i64), &c.begins.view(), &c.ends.view(), &(LIMITS[limit] as i32), &list.view()];
            gpu.launch(gpu.kernel("terms_list")?, a.rows, &arguments)?;
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
        let kind = if self.chunks.begins.is_none() { "single" } else { "chunks" };
        let begins = self.begins.as_ref().map_or(View::NONE, |begins| begins.view());
        let (offsets, columns, left, right) = (a.offsets.view(), a.columns.view(), a.values.view(), b_in_chunks.view());
        let (chunks, words, values) = (self.chunks.view(), self.words.view(), values.view());
        let (mut to_offsets, mut to_chunks, mut to_columns, mut fill) = (View::NONE, View::NONE, View::NONE, 0_i32);
        match to {
            Target::Filled { offsets, columns } => (to_offsets, to_columns, fill) = (offsets.view(), columns.view(), 1),
            Target::Chunks(chunks) => to_chunks = chunks.view(),
        }
        let launch = |lanes: usize, count: usize, list: View| {
            let kernel = gpu.kernel(&format!("terms_{kind}_{lanes}_{}", T::PRECISION.name()))?;
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
        begins + self.words.owned_bytes() + self.long.as_ref().map_or(0, |long| long.owned_bytes())
    }
}

/// Where the terms of a product A B of blocks are added.
pub(super) struct BlockTerms {
    /// Where the places of each row begin.
    pub begins: Buffer<i64>,
    pub places: Buffer<u8>,
}

impl BlockTerms {
    /// Those of A B, for rows of C with these lengths, all of which are short. Waits for the device.
    pub fn find<T: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        (b, b_offsets): (&Right<'_, T>, &Slice<i64>),
        c: (&Lying<'_>, &Lengths),
    ) -> Result<BlockTerms> {
        let (begins, total) = gpu.offsets(&*counts(gpu, a, View::NONE, b_offsets.view())?)?;
        let places = gpu.room::<u8>(total)?;
        find(gpu, "blocks", a, (b, View::NONE), c, begins.view(), places.view())?;
        Ok(BlockTerms { begins, places })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.begins.owned_bytes() + self.places.owned_bytes()
    }
}

/// How many chunks, or entries, of rows of B each row of A is multiplied with.
fn counts<T: Number>(gpu: &Gpu, a: &DeviceCsr<T>, chunks: View, b_offsets: View) -> Result<Buffer<i32>> {
    let counts = gpu.room::<i32>(a.rows)?;
    let (rows, offsets, columns) = (a.rows as i64, a.offsets.view(), a.columns.view());
    let arguments: [&dyn Argument; 6] = [&rows, &offsets, &columns, &chunks, &b_offsets, &counts.view()];
    gpu.launch(gpu.kernel("terms_word_counts")?, a.rows * 8, &arguments)?;
    Ok(counts)
}

/// Finds places.
fn find<T: Number>(
    gpu: &Gpu,
    kind: &str,
    a: &DeviceCsr<T>,
    (b, chunks): (&Right<'_, T>, View),
    (c, lengths): (&Lying<'_>, &Lengths),
    begins: View,
    words: View,
) -> Result<()> {
    for (lanes, from) in [(8, -1), (32, SHORT)] {
        if from >= 0 && lengths.longest <= from as usize {
            break;
        }
        let (rows, offsets, columns) = (a.rows as i64, a.offsets.view(), a.columns.view());
        let (b_begins, b_ends, b_columns) = (b.begins.view(), b.ends.view(), b.columns.view());
        let (to, to_ends, to_columns) = (c.begins.view(), c.ends.view(), c.columns.view());
        let arguments: [&dyn Argument; 13] = [
            &rows,
            &from,
            &offsets,
            &columns,
            &b_begins,
            &b_ends,
            &b_columns,
            &chunks,
            &begins,
            &to,
            &to_ends,
            &to_columns,
            &words,
        ];
        let blocks = (a.rows * lanes).div_ceil(BLOCK).min(4 * WAVE);
        gpu.launch_blocks(gpu.kernel(&format!("terms_find_{kind}_{lanes}"))?, blocks, &arguments)?;
    }
    Ok(())
}
