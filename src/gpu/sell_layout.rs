//! The chunks of SELL matrices, by the kernels of `kernels/sell_layout.cu`: estimate of their size, layout, and filling.

use super::csr_balanced::Unless;
use super::runtime::{BLOCK, View};
use super::sell_update::ValueUpdate;
use super::setup::{DeviceCsr, DevicePattern};
use super::{Argument, Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::Block;
use half::f16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Lanes per chunk.
pub(super) const GROUP: usize = 32;

/// Rows that are sorted by length together (sigma of SELL-C-sigma): enough for even chunks, and so few that neighbours stay close.
const WINDOW: usize = 512;

/// Scalar rows beyond this length are copied to where they are walked over, in tiles of at most so many rows; others are read in a few lines of
/// memory.
const MAX_SHORT_ROW: usize = 10;
const TILE: usize = BLOCK;

/// Bytes of the copy of a tile, of columns alone and with values, as in `kernels/sell_layout.cu`.
const COUNTED_ROOM: usize = 32768;
const FILLED_ROOM: usize = 45056;

/// Blocks of threads that walk over long rows where they are at the same time: as many as keep their lines of memory in the caches of an H200,
/// where more of them take four times longer.
pub(super) const MAX_FILL_BLOCKS: usize = 264;

/// Windows that an estimate is made from.
const SAMPLE_WINDOWS: usize = 256;

/// Rows that fill a GPU; with fewer of them a chunk is shared by several groups of threads.
const FULL_DEVICE_ROWS: usize = 1 << 18;

/// Groups of a block of threads, and the most that share a chunk.
const MAX_UNITS: usize = BLOCK / GROUP;

/// The kernel that a matrix gets, by its blocks and its number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A thread has several neighbouring rows.
    Rows,
    /// This many groups of threads share a chunk.
    Shared(usize),
    /// Blocks, and this many groups of threads for each of their rows.
    Blocks(usize),
}

impl Form {
    /// For this many block rows, with blocks of this shape and slots of about this number.
    fn of(rows: usize, block: Block, entries: usize) -> Form {
        let width = entries.div_ceil(rows.max(1));
        let threads = rows * block.rows;
        // As many units as fill the device, scalar rows twice, and no more than there are slots for.
        let enough = if block == Block::SCALAR { 2 * FULL_DEVICE_ROWS } else { FULL_DEVICE_ROWS };
        let wanted = (1..=3).map(|k| 1 << k).find(|units| threads * units >= enough).unwrap_or(MAX_UNITS);
        let most = 1 << width.div_ceil(4).max(1).ilog2().min(3);
        match block {
            Block::SCALAR if rows >= FULL_DEVICE_ROWS => Form::Rows,
            Block::SCALAR => Form::Shared(wanted.min(most)),
            _ if threads >= FULL_DEVICE_ROWS => Form::Blocks(1),
            _ => Form::Blocks(wanted.min(most)),
        }
    }

    /// Rows of a chunk, as in the kernels: values and offsets of narrow formats are read several at once.
    fn height(self, storage: Precision, sums: Precision, bits: usize) -> usize {
        GROUP
            * match (self, storage.bytes(), sums.bytes(), bits) {
                (Form::Rows, 2, 4, 8) => 4,
                (Form::Rows, ..) => 2,
                (Form::Blocks(_), 2, ..) => 2,
                _ => 1,
            }
    }
}

/// The chunks of a pattern.
pub(crate) struct SellLayout {
    pub form: Form,
    pub bits: usize,
    pub height: usize,
    /// The rows in the order of the chunks; empty when it is their own.
    pub order: Arc<Buffer<i32>>,
    /// First slot of each chunk, and the number of all.
    pub starts: Buffer<i64>,
    pub slots: usize,
    /// Whether values were filled in before; from the second time on the data of value updates, which all later ones share.
    used: AtomicBool,
    update: OnceLock<Arc<ValueUpdate>>,
}

/// Parameters of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    form: Form,
    /// Bits of an offset.
    bits: usize,
    /// Whether rows are ordered by length inside of each window.
    pub sorted: bool,
    height: usize,
}

impl Cut {
    /// For values of one format and sums of another, and offsets of this many bits.
    pub fn new(a: &DevicePattern, storage: Precision, sums: Precision, bits: usize, sorted: bool) -> Cut {
        Cut::with_form(Form::of(a.rows, a.block, a.nnz()), storage, sums, bits, sorted)
    }

    /// As [`Cut::new`], for one of the kernels.
    pub fn with_form(form: Form, storage: Precision, sums: Precision, bits: usize, sorted: bool) -> Cut {
        Cut { form, bits, sorted, height: form.height(storage, sums, bits) }
    }

    /// Bytes of so many slots of values of this format in these blocks, without what does not depend on the number.
    fn slots_bytes(&self, slots: f64, block: Block, storage: Precision) -> f64 {
        slots * (size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes())) as f64
    }

    /// Chunks of every `step`th window, or all of them.
    fn chunks(&self, rows: usize, step: usize) -> usize {
        let (chunks, of_window) = (rows.div_ceil(self.height), WINDOW / self.height);
        if step == 1 { chunks } else { chunks / of_window / step * of_window }
    }

    /// Counts the slots of each chunk, where there is room for them, of every `step`th window, and adds them to `total`.
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
        let tile = of_tile(a, self.height, COUNTED_ROOM / size_of::<i32>()).map(|chunks| 1 << chunks.ilog2());
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

/// Whether rows are so long that lanes which read one each read many lines of memory.
pub(super) fn is_long(a: &DevicePattern) -> bool {
    a.block == Block::SCALAR && a.nnz() > MAX_SHORT_ROW * a.rows
}

/// Chunks of so many rows whose entries are copied together to where they are walked over, into room for so many; none where rows are short,
/// or a chunk does not fit, as far as the average tells.
pub(super) fn of_tile(a: &DevicePattern, height: usize, room: usize) -> Option<usize> {
    // Rows of a tile may be longer than others.
    let entries = (a.nnz() * height / a.rows.max(1)).max(1) * 13 / 12;
    let chunks = (room / entries).min(TILE / height);
    (is_long(a) && chunks > 0).then_some(chunks)
}

/// What several cuts of the same matrix would take, while the device counts.
pub(super) struct Survey {
    cuts: Vec<Cut>,
    step: usize,
    order: Arc<Buffer<i32>>,
    /// Slots of each chunk, where all of them are counted.
    counts: Vec<Buffer<i32>>,
}

impl Survey {
    /// Counts the slots of an even sample of windows into `totals`, zeros, one for each cut.
    pub fn new(gpu: &Gpu, a: &DevicePattern, cuts: Vec<Cut>, totals: &Slice<i64>, unless: Unless) -> Result<Survey> {
        let windows = a.rows / WINDOW;
        let step = if windows < 2 * SAMPLE_WINDOWS { 1 } else { windows / SAMPLE_WINDOWS };
        let sorted = cuts.iter().any(|cut| cut.sorted);
        let order = Arc::new(if sorted { by_length(gpu, a, step)? } else { gpu.room(0)? });
        let none = gpu.room::<i32>(0)?;
        let mut counts = Vec::new();
        for (i, cut) in cuts.iter().enumerate() {
            if step == 1 {
                counts.push(gpu.room(cut.chunks(a.rows, 1))?);
            }
            let order = if cut.sorted { &order } else { &none };
            let to = (counts.get(i).map(|counts| &**counts), totals.piece(i, 1));
            cut.count(gpu, a, order, step, to, unless)?;
        }
        Ok(Survey { cuts, step, order, counts })
    }

    /// Whether all chunks are counted.
    pub fn is_exact(&self) -> bool {
        self.step == 1
    }

    /// Estimated bytes of cut `i`, when so many slots were counted.
    pub fn bytes(&self, i: usize, total: i64, a: &DevicePattern, storage: Precision) -> f64 {
        let cut = &self.cuts[i];
        let chunks = a.rows.div_ceil(cut.height);
        let scale = chunks as f64 / cut.chunks(a.rows, self.step).max(1) as f64;
        let rest = chunks * size_of::<i64>() + if cut.sorted { a.rows * 4 } else { 0 };
        cut.slots_bytes(scale * total as f64, a.block, storage) + rest as f64
    }

    /// The layout of cut `i`, whose slots are added to `total`, a zero, where they are not counted yet.
    pub fn layout(&self, gpu: &Gpu, a: &DevicePattern, i: usize, total: &Slice<i64>) -> Result<Started> {
        let cut = self.cuts[i];
        if self.step > 1 {
            return Started::new(gpu, a, cut, total);
        }
        let order = if cut.sorted { Arc::clone(&self.order) } else { Arc::new(gpu.room(0)?) };
        Started::of(gpu, cut, order, &self.counts[i])
    }
}

/// A layout whose number of slots is still on the device.
pub(super) struct Started {
    cut: Cut,
    order: Arc<Buffer<i32>>,
    starts: Buffer<i64>,
}

impl Started {
    /// The slots of all chunks are added to `total`, a zero.
    fn new(gpu: &Gpu, a: &DevicePattern, cut: Cut, total: &Slice<i64>) -> Result<Started> {
        let order = Arc::new(if cut.sorted { by_length(gpu, a, 1)? } else { gpu.room(0)? });
        let counts = gpu.room(cut.chunks(a.rows, 1))?;
        cut.count(gpu, a, &order, 1, (Some(&*counts), total), Unless::NEVER)?;
        Started::of(gpu, cut, order, &counts)
    }

    fn of(gpu: &Gpu, cut: Cut, order: Arc<Buffer<i32>>, counts: &Slice<i32>) -> Result<Started> {
        Ok(Started { cut, order, starts: gpu.offsets_alone(counts)? })
    }

    /// With its number of slots.
    pub fn with_slots(self, slots: usize) -> SellLayout {
        let Started { cut, order, starts } = self;
        let (form, bits, height) = (cut.form, cut.bits, cut.height);
        let (used, update) = (AtomicBool::new(false), OnceLock::new());
        SellLayout { form, bits, height, order, starts, slots, used, update }
    }
}

impl SellLayout {
    /// Whether a matrix has rows enough for the kernel that knows offsets of 8 bits.
    pub fn is_wide(a: &DevicePattern) -> bool {
        Form::of(a.rows, a.block, a.nnz()) == Form::Rows
    }

    /// Whether a matrix of blocks has so many rows that none of them is shared.
    pub fn has_many_blocks(a: &DevicePattern) -> bool {
        Form::of(a.rows, a.block, a.nnz()) == Form::Blocks(1)
    }

    /// A matrix cut in a certain way. Waits for the device.
    #[cfg(test)]
    pub fn new(gpu: &Gpu, a: &DevicePattern, cut: Cut) -> Result<SellLayout> {
        let total = gpu.zeroed::<i64>(1)?;
        let started = Started::new(gpu, a, cut, &total)?;
        Ok(started.with_slots(gpu.fetch(&total)?[0] as usize))
    }

    /// Bytes for values of this format in these blocks.
    pub fn bytes(&self, block: Block, storage: Precision) -> usize {
        let slot = size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes());
        self.starts.len() * size_of::<i64>() + self.slots * slot + self.order.len() * size_of::<i32>()
    }

    /// The slots of a matrix: what follows from its pattern, and its values. All matrices have the same pattern; from the third one on only values
    /// are brought to their places.
    pub fn fill<S: Number>(&self, gpu: &Gpu, a: &DeviceCsr<S>) -> Result<(Arc<Filled>, Buffer<S>)> {
        if let Some(update) = self.update.get() {
            return Ok((Arc::clone(&update.filled), update.values(gpu, self, a)?));
        }
        let is_first = !self.used.swap(true, Ordering::Relaxed);
        let taken = gpu.room::<u32>(if is_first { 0 } else { self.slots * self.height / GROUP })?;
        let bases = gpu.room(self.slots)?;
        let places = self.slots * self.height;
        let offsets = match self.bits {
            8 => Offsets::Eight(gpu.room(places)?),
            _ => Offsets::Sixteen(gpu.room(places)?),
        };
        let values = gpu.room::<S>(places * a.block.len())?;
        let count = self.starts.len() - 1;
        let pattern = a.pattern();
        let tile = of_tile(&pattern, self.height, FILLED_ROOM / (size_of::<i32>() + size_of::<S>()));
        let name = if tile.is_some() { "fill_tiles" } else { "fill_slots" };
        let kernel = gpu.kernel(&format!("{name}_{}_u{}_{}", self.height / GROUP, self.bits, bits_of::<S>()))?;
        let blocks = match tile {
            Some(chunks) => count.div_ceil(chunks),
            None => count.div_ceil(BLOCK / GROUP).min(if is_long(&pattern) { MAX_FILL_BLOCKS } else { usize::MAX }),
        };
        let (chunks, rows) = (count as i64, a.rows as i64);
        let number = tile.unwrap_or(a.block.len()) as i32;
        let from = [a.offsets.view(), a.columns.view(), a.values.view().bits(), self.order.view(), self.starts.view()];
        let to = [bases.view(), offsets.view(), taken.view(), values.view().bits()];
        let mut arguments: Vec<&dyn Argument> = vec![&chunks, &rows, &number];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        if blocks > 0 {
            gpu.launch_blocks(kernel, blocks, &arguments)?;
        }
        let filled = Arc::new(Filled { bases, offsets });
        if !is_first {
            let update = ValueUpdate { filled: Arc::clone(&filled), taken, diagonal: OnceLock::new() };
            // Another thread may have set the same.
            let _ = self.update.set(Arc::new(update));
        }
        Ok((filled, values))
    }

    /// As [`SellLayout::fill`], and the inverse of the l1 diagonal of the matrix if it is `wanted`, where one pass finds both.
    pub fn fill_and_add<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, wanted: bool) -> Result<Slots<T>> {
        let wanted = wanted && a.block == Block::SCALAR && self.height <= 2 * GROUP;
        if let Some(update) = self.update.get().filter(|_| wanted) {
            let (values, inverse) = update.values_and_l1(gpu, self, a)?;
            return Ok(Slots { filled: Arc::clone(&update.filled), values, l1_inverse: Some(inverse) });
        }
        let (filled, values) = self.fill(gpu, a)?;
        // Later ones are to find it.
        if let Some(update) = self.update.get().filter(|_| wanted) {
            update.diagonal(gpu, a)?;
        }
        Ok(Slots { filled, values, l1_inverse: None })
    }

    /// As [`SellLayout::fill`], of values in a wider format; none where f16 does not hold all of them exactly, or where no matrix of the same pattern was
    /// filled in twice. Waits for the device.
    pub fn fill_exactly<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Option<(Arc<Filled>, Buffer<f16>)>> {
        match self.update.get().filter(|_| a.block == Block::SCALAR) {
            None => Ok(None),
            Some(update) => {
                let values = update.narrow_values(gpu, self, a)?;
                Ok(values.map(|values| (Arc::clone(&update.filled), values)))
            }
        }
    }

    /// Bytes that are kept for matrices to come.
    pub fn kept_bytes(&self) -> usize {
        self.update.get().map_or(0, |update| {
            let diagonal = update.diagonal.get().map_or(0, |diagonal| diagonal.owned_bytes());
            update.taken.owned_bytes() + diagonal
        })
    }
}

/// The slots of a matrix, and the inverse of its l1 diagonal where that was found with them.
pub(crate) struct Slots<T> {
    pub(super) filled: Arc<Filled>,
    pub(super) values: Buffer<T>,
    pub l1_inverse: Option<Buffer<T>>,
}

/// What slots have of a pattern.
pub(crate) struct Filled {
    pub bases: Buffer<i32>,
    pub offsets: Offsets,
}

/// Offsets from base columns.
pub(crate) enum Offsets {
    Eight(Buffer<u8>),
    Sixteen(Buffer<u16>),
}

impl Offsets {
    pub(super) fn view(&self) -> View<'_> {
        match self {
            Offsets::Eight(offsets) => offsets.view(),
            Offsets::Sixteen(offsets) => offsets.view(),
        }
    }
}

/// The rows, inside of each window the longest first, of equal ones the first first; of every `step`th window.
fn by_length(gpu: &Gpu, a: &DevicePattern, step: usize) -> Result<Buffer<i32>> {
    let order = gpu.room(a.rows)?;
    let kernel = gpu.kernel("order_by_length")?;
    let windows = a.rows.div_ceil(WINDOW).div_ceil(step);
    if windows > 0 {
        gpu.launch_blocks(kernel, windows, &[&(a.rows as i64), &(step as i32), &a.offsets.view(), &order.view()])?;
    }
    Ok(order)
}

/// The unsigned integer of a format's size, as kernels name it that move values as they are.
pub(super) fn bits_of<S: Number>() -> &'static str {
    match size_of::<S>() {
        8 => "u64",
        4 => "u32",
        _ => "u16",
    }
}

/// Block rows that a block of threads takes apart at a time, as in `kernels/sell_layout.cu`.
const APART_ROWS: usize = 8;

/// The matrix with its blocks taken apart.
pub(crate) fn to_scalar<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>) -> Result<DeviceCsr<S>> {
    if a.block == Block::SCALAR {
        return Ok(a.clone());
    }
    let Block { rows: height, cols: width } = a.block;
    let (offsets, columns) = (gpu.zeroed(a.scalar_rows() + 1)?, gpu.room(a.entries())?);
    let values = gpu.room(a.entries())?;
    let kernel = gpu.kernel(&format!("take_apart_{}", bits_of::<S>()))?;
    let (rows, block_rows, block_cols) = (a.rows as i64, height as i32, width as i32);
    let [from_offsets, from_columns, from_values] = [a.offsets.view(), a.columns.view(), a.values.view().bits()];
    gpu.launch(
        kernel,
        a.rows.div_ceil(APART_ROWS) * BLOCK,
        &[
            &rows,
            &block_rows,
            &block_cols,
            &from_offsets,
            &from_columns,
            &from_values,
            &offsets.view(),
            &columns.view(),
            &values.view().bits(),
        ],
    )?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows: a.scalar_rows(), cols: a.cols * width, block: Block::SCALAR, offsets, columns, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    /// The layout of a scalar matrix in f64.
    fn layout(gpu: &Gpu, a: &Csr<f64>, form: Form, bits: usize, sorted: bool) -> SellLayout {
        let there = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let cut = Cut::with_form(form, Precision::F64, Precision::F64, bits, sorted);
        SellLayout::new(gpu, &there.pattern(), cut).unwrap()
    }

    fn fetched(gpu: &Gpu, offsets: &Offsets) -> Vec<i32> {
        match offsets {
            Offsets::Eight(offsets) => gpu.fetch(offsets).unwrap().into_iter().map(i32::from).collect(),
            Offsets::Sixteen(offsets) => gpu.fetch(offsets).unwrap().into_iter().map(i32::from).collect(),
        }
    }

    #[test]
    fn a_stencil_needs_as_many_slots_as_it_has_entries() {
        // 64 rows in a direction: a chunk is a line.
        let a = gallery::poisson7(64, 8, 8).unwrap();
        for gpu in devices() {
            let layout = layout(&gpu, &a, Form::Rows, 8, false);
            let starts = gpu.fetch(&layout.starts).unwrap();
            let widths: Vec<i64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
            assert!(widths.iter().all(|w| *w <= 7), "{widths:?}");
            assert!(widths.contains(&7));
            assert_eq!(layout.bytes(Block::SCALAR, Precision::F64), 8 * 65 + layout.slots * (4 + 64 * 9));
        }
    }

    #[test]
    fn columns_out_of_reach_get_slots_of_their_own() {
        // Three rows, of which the second has a column that 8 bits do not reach, and the third has none.
        let a = Csr::from_triplets(3, 1000, &[(0, 10, 1.0), (0, 20, 2.0), (1, 400, 3.0)]).unwrap();
        for gpu in devices() {
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let narrow = layout(&gpu, &a, Form::Rows, 8, false);
            let (filled, values) = narrow.fill(&gpu, &there).unwrap();
            assert_eq!(gpu.fetch(&filled.bases).unwrap(), [10, 20, 400]);
            assert!(fetched(&gpu, &filled.offsets).iter().all(|o| *o == 0));
            let values = gpu.fetch(&values).unwrap();
            let entries: Vec<_> = values.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
            assert_eq!(entries, [(0, &1.0), (64, &2.0), (2 * 64 + 1, &3.0)]);
            let wide = layout(&gpu, &a, Form::Shared(1), 16, false);
            let (filled, _) = wide.fill(&gpu, &there).unwrap();
            assert_eq!(gpu.fetch(&filled.bases).unwrap(), [10, 20]);
            assert_eq!(fetched(&gpu, &filled.offsets)[..3], [0, 390, 0]);
        }
    }

    #[test]
    fn an_order_by_length_makes_slices_even() {
        // Every other row has 20 entries, the others one.
        let mut triplets = Vec::new();
        for i in 0..600 {
            triplets.extend((0..if i % 2 == 0 { 20 } else { 1 }).map(|c| (i, c, 1.0)));
        }
        let a = Csr::from_triplets(600, 20, &triplets).unwrap();
        for gpu in devices() {
            let plain = layout(&gpu, &a, Form::Shared(1), 16, false);
            let sorted = layout(&gpu, &a, Form::Shared(1), 16, true);
            // 88 rows are left for the second window, of which 44 are long.
            assert_eq!((plain.slots, sorted.slots), (19 * 20, 8 * 20 + 8 + 2 * 20 + 1));
            let order = gpu.fetch(&sorted.order).unwrap();
            assert_eq!((&order[..3], &order[255..258], order[512]), (&[0, 2, 4][..], &[510, 1, 3][..], 512));
        }
    }

    #[test]
    fn an_estimate_from_a_sample_is_near_the_truth() {
        // A sample is taken of every fourth window; rows have two lengths, mixed.
        let n = 2 * SAMPLE_WINDOWS * WINDOW * 2 + 77;
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..n {
            columns.extend((0..if i % 3 == 0 { 2 } else { 1 }).map(|k| ((i + k) % n) as i32));
            offsets.push(columns.len() as i64);
        }
        let a = Csr::<f64>::with_pattern(n, n, Block::SCALAR, offsets, columns).unwrap();
        let gpu = devices().remove(0);
        let there = DeviceCsr::upload(&gpu, &a.view()).unwrap().pattern();
        let f64 = Precision::F64;
        let cuts = [false, true].map(|sorted| Cut::with_form(Form::Shared(1), f64, f64, 16, sorted));
        let totals = gpu.zeroed(2).unwrap();
        let survey = Survey::new(&gpu, &there, cuts.to_vec(), &totals, Unless::NEVER).unwrap();
        let totals = gpu.fetch(&totals).unwrap();
        for (i, cut) in cuts.into_iter().enumerate() {
            let estimate = survey.bytes(i, totals[i], &there, f64);
            let exact = SellLayout::new(&gpu, &there, cut).unwrap().bytes(Block::SCALAR, f64) as f64;
            assert!((estimate / exact - 1.0).abs() < 0.01, "{cut:?}: {estimate} should be {exact}");
        }
    }

    /// Slots of each chunk of a matrix whose rows are not ordered: the walk of the kernels, row after row.
    fn walked(a: &Csr<f64>, height: usize, reach: i32) -> Vec<i64> {
        let row = |i: usize| &a.columns[a.offsets[i] as usize..a.offsets[i + 1] as usize];
        let slots = |first: usize| {
            let mut left: Vec<&[i32]> = (first..a.rows.min(first + height)).map(row).collect();
            let mut slots = 0;
            while let Some(base) = left.iter().filter_map(|row| row.first()).min().copied() {
                for row in left.iter_mut().filter(|row| row.first().is_some_and(|c| c - base < reach)) {
                    *row = &row[1..];
                }
                slots += 1;
            }
            slots
        };
        (0..a.rows).step_by(height).map(slots).collect()
    }

    #[test]
    fn slots_are_as_many_as_a_walk_takes() {
        let a = gallery::poisson27(70, 9, 5).unwrap();
        for gpu in devices() {
            for (form, bits) in [(Form::Rows, 8), (Form::Rows, 16), (Form::Shared(2), 16)] {
                let layout = layout(&gpu, &a, form, bits, false);
                let starts = gpu.fetch(&layout.starts).unwrap();
                let counts: Vec<i64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
                assert_eq!(counts, walked(&a, layout.height, 1 << bits), "{form:?} {bits}");
            }
        }
    }

    #[test]
    fn long_rows_are_in_slots_whether_their_tiles_fit_or_not() {
        // Rows of 11 to 60 entries among which one in 300 has more than a tile has room for, far apart and near each other.
        let (n, long) = (700, 13_000);
        let (mut offsets, mut columns, mut values) = (vec![0_i64], Vec::new(), Vec::new());
        for i in 0..n {
            let length = if i % 300 == 299 { long } else { 11 + i * i % 50 };
            columns.extend((0..length).map(|k| (i + k * if i % 3 == 0 { 1 } else { 7 }) as i32));
            values.extend((0..length).map(|k| 1.0 + (i * 100_000 + k) as f64));
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::<f64>::with_pattern(n, 7 * long + n, Block::SCALAR, offsets, columns).unwrap();
        a.values = values;
        for gpu in devices() {
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            for (form, bits, sorted) in [(Form::Rows, 8, false), (Form::Rows, 16, true), (Form::Shared(2), 16, false)] {
                let layout = layout(&gpu, &a, form, bits, sorted);
                let (filled, values) = layout.fill(&gpu, &there).unwrap();
                let (bases, reaches) = (gpu.fetch(&filled.bases).unwrap(), fetched(&gpu, &filled.offsets));
                let values = gpu.fetch(&values).unwrap();
                let (starts, order) = (gpu.fetch(&layout.starts).unwrap(), gpu.fetch(&layout.order).unwrap());
                assert_eq!((starts[0], starts[starts.len() - 1] as usize), (0, layout.slots));
                let order: Vec<usize> =
                    if sorted { order.iter().map(|row| *row as usize).collect() } else { (0..n).collect() };
                for (place, row) in order.into_iter().enumerate() {
                    let chunk = place / layout.height;
                    let found: Vec<(i32, f64)> = (starts[chunk] as usize..starts[chunk + 1] as usize)
                        .map(|slot| (slot, slot * layout.height + place % layout.height))
                        .filter(|(_, at)| values[*at] != 0.0)
                        .map(|(slot, at)| (bases[slot] + reaches[at], values[at]))
                        .collect();
                    let range = a.offsets[row] as usize..a.offsets[row + 1] as usize;
                    let expected: Vec<_> = range.map(|k| (a.columns[k], a.values[k])).collect();
                    assert_eq!(found, expected, "row {row}, {bits} bits, sorted {sorted}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_taken_apart_as_on_the_host() {
        let a = gallery::parse("elasticity:3").unwrap().into_matrix().unwrap().shared::<f64>().unwrap();
        for gpu in devices() {
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            assert_eq!(to_scalar(&gpu, &there).unwrap().fetch(&gpu).unwrap(), a.view().to_scalar().unwrap());
            let empty = Csr::<f64>::with_pattern(0, 0, Block::square(3), vec![0], vec![]).unwrap();
            let empty = DeviceCsr::upload(&gpu, &empty.view()).unwrap();
            assert_eq!(to_scalar(&gpu, &empty).unwrap().fetch(&gpu).unwrap().offsets, [0]);
        }
    }

    #[test]
    fn few_long_rows_are_shared() {
        let scalar = |rows, width| Form::of(rows, Block::SCALAR, rows * width);
        assert_eq!(scalar(1 << 20, 40), Form::Rows);
        assert_eq!(scalar(1 << 17, 40), Form::Shared(4));
        assert_eq!(scalar(1024, 7), Form::Shared(2));
        assert_eq!(scalar(1024, 3), Form::Shared(1));
        assert_eq!(scalar(1024, 100), Form::Shared(8));
        assert_eq!(Form::of(0, Block::SCALAR, 0), Form::Shared(1));
        assert_eq!(Form::of(1 << 20, Block::square(3), 27 << 20), Form::Blocks(1));
        assert_eq!(Form::of(1 << 13, Block::square(6), 50 << 13), Form::Blocks(8));
    }
}
