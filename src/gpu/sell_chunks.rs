//! Parameters of SELL chunks and estimates of their bytes, by the counting kernels of `kernels/sell_layout.cu`. A slot
//! of a chunk holds at most one entry of each of its rows.

use super::csr_balanced::Unless;
use super::runtime::{BLOCK, View};
use super::sell_layout::SellLayout;
use super::setup::DevicePattern;
use super::{Argument, Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::Precision;
use crate::sparse::Block;
use std::sync::Arc;

/// Lanes per chunk.
pub(super) const GROUP: usize = 32;

/// Sigma of SELL-C-sigma: rows are sorted by length within windows of so many rows. Chunks get rows of about the same
/// length, and rows stay near their neighbours.
const WINDOW: usize = 512;

/// Scalar rows longer than this on average are copied to shared memory in tiles of at most `TILE` rows, because lanes
/// that read one row each would read many cache lines. Shorter rows are read from global memory.
const MAX_SHORT_ROW: usize = 10;
const TILE: usize = BLOCK;

/// Bytes of shared memory for the columns of a tile, as in `kernels/sell_layout.cu`.
const COUNTED_TILE_BYTES: usize = 32768;

/// Blocks of threads that traverse long rows in global memory at the same time. More of them evict each other's cache
/// lines: they take four times longer on an H200.
pub(super) const MAX_FILL_BLOCKS: usize = 264;

/// Windows of a sample.
const SAMPLE_WINDOWS: usize = 256;

/// Rows that fill a GPU with one thread each. With fewer rows several groups of threads share a chunk.
const FULL_DEVICE_ROWS: usize = 1 << 18;

/// Groups of lanes in a block of threads: at most so many share a chunk.
const MAX_UNITS: usize = BLOCK / GROUP;

/// The SELL kernel for a matrix, chosen by block size and number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SellKernel {
    /// Scalar rows, several neighbouring ones for each thread.
    Rows,
    /// Scalar rows; so many groups of lanes share a chunk.
    Shared(usize),
    /// Blocks; so many groups of lanes share the rows of a chunk with the same place in their block.
    Blocks(usize),
}

impl SellKernel {
    /// For so many block rows with `entries` blocks in all.
    pub(super) fn of(rows: usize, block: Block, entries: usize) -> SellKernel {
        let width = entries.div_ceil(rows.max(1));
        let threads = rows * block.rows;
        // As many groups as fill the device, twice for scalar rows, and at least four slots for each.
        let enough = if block == Block::SCALAR { 2 * FULL_DEVICE_ROWS } else { FULL_DEVICE_ROWS };
        let wanted = (1..=3).map(|k| 1 << k).find(|units| threads * units >= enough).unwrap_or(MAX_UNITS);
        let most = 1 << width.div_ceil(4).max(1).ilog2().min(3);
        match block {
            Block::SCALAR if rows >= FULL_DEVICE_ROWS => SellKernel::Rows,
            Block::SCALAR => SellKernel::Shared(wanted.min(most)),
            _ if threads >= FULL_DEVICE_ROWS => SellKernel::Blocks(1),
            _ => SellKernel::Blocks(wanted.min(most)),
        }
    }

    /// Rows of a chunk, as in the kernels. A lane reads several values of a narrow format at once.
    fn height(self, storage: Precision, sums: Precision, bits: usize) -> usize {
        GROUP
            * match (self, storage.bytes(), sums.bytes(), bits) {
                (SellKernel::Rows, 2, 4, 8) => 4,
                (SellKernel::Rows, ..) => 2,
                (SellKernel::Blocks(_), 2, ..) => 2,
                _ => 1,
            }
    }
}

/// How a matrix is divided into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkParameters {
    form: SellKernel,
    /// Bits of a column offset.
    bits: usize,
    /// Whether rows are sorted by length within windows.
    pub sorted: bool,
    height: usize,
}

impl ChunkParameters {
    /// With this kernel, for stored values, sums and column offsets of these formats.
    pub fn with_kernel(
        form: SellKernel,
        storage: Precision,
        sums: Precision,
        bits: usize,
        sorted: bool,
    ) -> ChunkParameters {
        ChunkParameters { form, bits, sorted, height: form.height(storage, sums, bits) }
    }

    /// Bytes of so many slots.
    fn slots_bytes(&self, slots: f64, block: Block, storage: Precision) -> f64 {
        slots * (size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes())) as f64
    }

    /// Number of chunks in every `step`th window; of all chunks if `step` is 1.
    fn chunks(&self, rows: usize, step: usize) -> usize {
        let (chunks, of_window) = (rows.div_ceil(self.height), WINDOW / self.height);
        if step == 1 { chunks } else { chunks / of_window / step * of_window }
    }

    /// Counts the slots of the chunks of every `step`th window: each into `counts`, if given, and their sum into
    /// `total`.
    fn count(
        &self,
        gpu: &Gpu,
        a: &DevicePattern,
        order: &Slice<i32>,
        step: usize,
        (counts, total): (Option<&Slice<i32>>, &Slice<i64>),
        unless: Unless,
    ) -> Result<()> {
        let (chunks, lanes) = (self.chunks(a.rows, step), self.height / GROUP);
        // Tiles do not cross windows.
        let tile = of_tile(a, self.height, COUNTED_TILE_BYTES / size_of::<i32>()).map(|chunks| 1 << chunks.ilog2());
        let name = if tile.is_some() { "count_tiles" } else { "count_slots" };
        let kernel = gpu.kernel(&format!("{name}_{lanes}"))?;
        let blocks = chunks.div_ceil(tile.unwrap_or(BLOCK / GROUP));
        let (count, rows, step, reach) = (chunks as i64, a.rows as i64, step as i32, 1_i32 << self.bits);
        let tile = tile.unwrap_or(1) as i32;
        let [offsets, columns, order] = [a.offsets.view(), a.columns.view(), order.view()];
        let (counts, total, (longest, most)) =
            (counts.map_or(View::NONE, Slice::view), total.view(), unless.arguments());
        let arguments: [&dyn Argument; 12] =
            [&count, &rows, &tile, &step, &reach, &offsets, &columns, &order, &counts, &total, &longest, &most];
        if blocks == 0 { Ok(()) } else { gpu.launch_blocks(kernel, blocks, &arguments) }
    }
}

/// Whether rows are so long that they are copied to shared memory in tiles.
pub(super) fn is_long(a: &DevicePattern) -> bool {
    a.block == Block::SCALAR && a.nnz() > MAX_SHORT_ROW * a.rows
}

/// Chunks of `height` rows in a tile with `capacity` entries. None if rows are short, or if a chunk of average rows
/// exceeds the capacity.
pub(super) fn of_tile(a: &DevicePattern, height: usize, capacity: usize) -> Option<usize> {
    // A margin for tiles with rows longer than the average.
    let entries = (a.nnz() * height / a.rows.max(1)).max(1) * 13 / 12;
    let chunks = (capacity / entries).min(TILE / height);
    (is_long(a) && chunks > 0).then_some(chunks)
}

/// Estimated bytes of a matrix in chunks, for several parameters. The device counts slots meanwhile.
pub(super) struct SellEstimate {
    candidates: Vec<ChunkParameters>,
    step: usize,
    order: Arc<Buffer<i32>>,
    /// Slots of each chunk, if all chunks are counted.
    counts: Vec<Buffer<i32>>,
}

impl SellEstimate {
    /// Counts the slots of evenly spaced windows into `totals`: one number, 0 before, for each set of parameters.
    pub fn new(
        gpu: &Gpu,
        a: &DevicePattern,
        candidates: Vec<ChunkParameters>,
        totals: &Slice<i64>,
        unless: Unless,
    ) -> Result<SellEstimate> {
        let windows = a.rows / WINDOW;
        let step = if windows < 2 * SAMPLE_WINDOWS { 1 } else { windows / SAMPLE_WINDOWS };
        let sorted = candidates.iter().any(|parameters| parameters.sorted);
        let order = Arc::new(if sorted { sort_by_length(gpu, a, step)? } else { gpu.allocate(0)? });
        let none = gpu.allocate::<i32>(0)?;
        let mut counts = Vec::new();
        for (i, parameters) in candidates.iter().enumerate() {
            if step == 1 {
                counts.push(gpu.allocate(parameters.chunks(a.rows, 1))?);
            }
            let order = if parameters.sorted { &order } else { &none };
            let to = (counts.get(i).map(|counts| &**counts), totals.subslice(i, 1));
            parameters.count(gpu, a, order, step, to, unless)?;
        }
        Ok(SellEstimate { candidates, step, order, counts })
    }

    /// Whether all chunks are counted.
    pub fn is_exact(&self) -> bool {
        self.step == 1
    }

    /// Estimated bytes with parameters `i`, given the number of slots counted.
    pub fn bytes(&self, i: usize, total: i64, a: &DevicePattern, storage: Precision) -> f64 {
        let parameters = &self.candidates[i];
        let chunks = a.rows.div_ceil(parameters.height);
        let scale = chunks as f64 / parameters.chunks(a.rows, self.step).max(1) as f64;
        let rest = chunks * size_of::<i64>() + if parameters.sorted { a.rows * 4 } else { 0 };
        parameters.slots_bytes(scale * total as f64, a.block, storage) + rest as f64
    }

    /// The layout for parameters `i`. If only a sample was counted, all slots are counted into `total`, which is 0
    /// before.
    pub fn layout(&self, gpu: &Gpu, a: &DevicePattern, i: usize, total: &Slice<i64>) -> Result<PendingLayout> {
        let parameters = self.candidates[i];
        if self.step > 1 {
            return PendingLayout::new(gpu, a, parameters, total);
        }
        let order = if parameters.sorted { Arc::clone(&self.order) } else { Arc::new(gpu.allocate(0)?) };
        PendingLayout::of(gpu, parameters, order, &self.counts[i])
    }
}

/// A layout whose number of slots the host does not know yet.
pub(super) struct PendingLayout {
    parameters: ChunkParameters,
    order: Arc<Buffer<i32>>,
    starts: Buffer<i64>,
}

impl PendingLayout {
    /// Counts the slots of all chunks into `total`, which is 0 before.
    pub(super) fn new(
        gpu: &Gpu,
        a: &DevicePattern,
        parameters: ChunkParameters,
        total: &Slice<i64>,
    ) -> Result<PendingLayout> {
        let order = Arc::new(if parameters.sorted { sort_by_length(gpu, a, 1)? } else { gpu.allocate(0)? });
        let counts = gpu.allocate(parameters.chunks(a.rows, 1))?;
        parameters.count(gpu, a, &order, 1, (Some(&*counts), total), Unless::NEVER)?;
        PendingLayout::of(gpu, parameters, order, &counts)
    }

    fn of(
        gpu: &Gpu,
        parameters: ChunkParameters,
        order: Arc<Buffer<i32>>,
        counts: &Slice<i32>,
    ) -> Result<PendingLayout> {
        Ok(PendingLayout { parameters, order, starts: gpu.offsets_alone(counts)? })
    }

    /// The layout, given its number of slots.
    pub fn with_slots(self, slots: usize) -> SellLayout {
        let PendingLayout { parameters, order, starts } = self;
        SellLayout::from_parts((parameters.form, parameters.bits, parameters.height), order, starts, slots)
    }
}

/// A permutation that sorts rows by descending length within each window (a stable sort); of every `step`th window.
fn sort_by_length(gpu: &Gpu, a: &DevicePattern, step: usize) -> Result<Buffer<i32>> {
    let order = gpu.allocate(a.rows)?;
    let kernel = gpu.kernel("order_by_length")?;
    let windows = a.rows.div_ceil(WINDOW).div_ceil(step);
    if windows > 0 {
        gpu.launch_blocks(kernel, windows, &[&(a.rows as i64), &(step as i32), &a.offsets.view(), &order.view()])?;
    }
    Ok(order)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    #[test]
    fn an_estimate_from_a_sample_is_near_the_truth() {
        // A sample is occupied of every fourth window; rows have two lengths, mixed.
        let n = 2 * SAMPLE_WINDOWS * WINDOW * 2 + 77;
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..n {
            columns.extend((0..if i % 3 == 0 { 2 } else { 1 }).map(|k| ((i + k) % n) as i32));
            offsets.push(columns.len() as i64);
        }
        let a = Csr::<f64>::with_pattern(n, n, Block::SCALAR, offsets, columns).unwrap();
        let gpu = devices().remove(0);
        let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap().pattern();
        let f64 = Precision::F64;
        let candidates =
            [false, true].map(|sorted| ChunkParameters::with_kernel(SellKernel::Shared(1), f64, f64, 16, sorted));
        let totals = gpu.zeroed(2).unwrap();
        let survey = SellEstimate::new(&gpu, &on_device, candidates.to_vec(), &totals, Unless::NEVER).unwrap();
        let totals = gpu.fetch(&totals).unwrap();
        for (i, parameters) in candidates.into_iter().enumerate() {
            let estimate = survey.bytes(i, totals[i], &on_device, f64);
            let exact = SellLayout::new(&gpu, &on_device, parameters).unwrap().bytes(Block::SCALAR, f64) as f64;
            assert!((estimate / exact - 1.0).abs() < 0.01, "{parameters:?}: {estimate} should be {exact}");
        }
    }

    #[test]
    fn few_long_rows_are_shared() {
        let scalar = |rows, width| SellKernel::of(rows, Block::SCALAR, rows * width);
        assert_eq!(scalar(1 << 20, 40), SellKernel::Rows);
        assert_eq!(scalar(1 << 17, 40), SellKernel::Shared(4));
        assert_eq!(scalar(1024, 7), SellKernel::Shared(2));
        assert_eq!(scalar(1024, 3), SellKernel::Shared(1));
        assert_eq!(scalar(1024, 100), SellKernel::Shared(8));
        assert_eq!(SellKernel::of(0, Block::SCALAR, 0), SellKernel::Shared(1));
        assert_eq!(SellKernel::of(1 << 20, Block::square(3), 27 << 20), SellKernel::Blocks(1));
        assert_eq!(SellKernel::of(1 << 13, Block::square(6), 50 << 13), SellKernel::Blocks(8));
    }
}
