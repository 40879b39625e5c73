//! How a matrix is cut into slices, in device memory: the kernels of `kernels/layout.cu`.

use super::runtime::BLOCK;
use super::setup::DeviceCsr;
use super::{Argument, Buffer, Gpu, Slice};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// Threads of a slice.
pub(super) const GROUP: usize = 32;

/// Rows among which an order by length is made: enough for even slices, and so few that neighbours stay near each other.
const WINDOW: usize = 512;

/// Blocks of threads that walk over long rows at the same time: as many as keep their lines of memory in the caches of an H200, where more of them
/// take four times longer.
const COUNTING: usize = 528;

/// The same where values are read, too.
const FILLING: usize = 264;

/// Rows up to this length are read in a few lines of memory, and as many blocks as there are may do so.
const SHORT: usize = 10;

/// Windows that an estimate is made from.
const SAMPLE: usize = 256;

/// Rows that fill a GPU; with fewer of them a slice is shared by several groups of threads.
const ENOUGH: usize = 1 << 18;

/// Groups of a block of threads, and the most that share a slice.
const MAX_UNITS: usize = BLOCK / GROUP;

/// The kernel that a matrix gets, by its blocks and its number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A thread has several neighbouring rows.
    Rows,
    /// This many groups of threads share a slice.
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
        let enough = if block == Block::SCALAR { 2 * ENOUGH } else { ENOUGH };
        let wanted = (1..=3).map(|k| 1 << k).find(|units| threads * units >= enough).unwrap_or(MAX_UNITS);
        let most = 1 << width.div_ceil(4).max(1).ilog2().min(3);
        match block {
            Block::SCALAR if rows >= ENOUGH => Form::Rows,
            Block::SCALAR => Form::Shared(wanted.min(most)),
            _ if threads >= ENOUGH => Form::Blocks(1),
            _ => Form::Blocks(wanted.min(most)),
        }
    }

    /// Rows of a slice, as in the kernels: values and offsets of narrow formats are read several at once.
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

/// How a matrix is cut into slices.
pub(crate) struct Layout {
    pub form: Form,
    pub bits: usize,
    pub height: usize,
    /// The rows in the order of the slices; empty when it is their own.
    pub order: Buffer<i32>,
    /// First slot of each slice, and the number of all.
    pub starts: Buffer<i64>,
    pub slots: usize,
}

/// How rows could be cut into slices.
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
    /// For sums of this format and offsets of this many bits.
    pub fn new<S: Number>(a: &DeviceCsr<S>, sums: Precision, bits: usize, sorted: bool) -> Cut {
        Cut::with_form::<S>(Form::of(a.rows, a.block, a.nnz()), sums, bits, sorted)
    }

    /// As [`Cut::new`], for one of the kernels.
    pub fn with_form<S: Number>(form: Form, sums: Precision, bits: usize, sorted: bool) -> Cut {
        Cut { form, bits, sorted, height: form.height(S::PRECISION, sums, bits) }
    }

    /// Bytes of so many slots of values of this format in these blocks, without what does not depend on the number.
    fn slots_bytes(&self, slots: f64, block: Block, storage: Precision) -> f64 {
        slots * (size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes())) as f64
    }

    /// Slots of each slice, or of those of every `step`th window.
    fn count<S: Number>(&self, gpu: &Gpu, a: &DeviceCsr<S>, order: &Slice<i32>, step: usize) -> Result<Buffer<i32>> {
        let slices = a.rows.div_ceil(self.height);
        let of_window = WINDOW / self.height;
        let counted = if step == 1 { slices } else { slices / of_window / step * of_window };
        let counts = gpu.room::<i32>(counted)?;
        let kernel = gpu.kernel(&format!("count_slots_{}", self.height / GROUP))?;
        let (rows, step, reach) = (a.rows as i64, step as i32, 1_i32 << self.bits);
        let [offsets, columns] = [a.offsets.view(), a.columns.view()];
        let arguments: [&dyn Argument; 7] = [&rows, &step, &reach, &offsets, &columns, &order.view(), &counts.view()];
        gpu.launch(kernel, threads(counted, a, COUNTING), &arguments)?;
        Ok(counts)
    }
}

/// Estimates the bytes of several cuts of the same matrix from an even sample of its windows. Waits for the device once.
pub(super) fn estimate<S: Number, const N: usize>(gpu: &Gpu, a: &DeviceCsr<S>, cuts: [Cut; N]) -> Result<[f64; N]> {
    let windows = a.rows / WINDOW;
    let step = if windows < 2 * SAMPLE { 1 } else { windows / SAMPLE };
    let order = if cuts.iter().any(|cut| cut.sorted) { by_length(gpu, a, step)? } else { gpu.room(0)? };
    let (none, totals) = (gpu.room::<i32>(0)?, gpu.room::<i64>(N)?);
    let mut counted = [0; N];
    for (i, cut) in cuts.iter().enumerate() {
        let counts = cut.count(gpu, a, if cut.sorted { &order } else { &none }, step)?;
        counted[i] = counts.len();
        gpu.total(&counts, &totals.piece(i, 1))?;
    }
    let totals = gpu.fetch(&totals)?;
    Ok(std::array::from_fn(|i| {
        let cut = &cuts[i];
        let scale = a.rows.div_ceil(cut.height) as f64 / counted[i].max(1) as f64;
        let rest = a.rows.div_ceil(cut.height) * size_of::<i64>() + if cut.sorted { a.rows * 4 } else { 0 };
        cut.slots_bytes(scale * totals[i] as f64, a.block, S::PRECISION) + rest as f64
    }))
}

impl Layout {
    /// Whether a matrix has rows enough for the kernel that knows offsets of 8 bits.
    pub fn is_wide<S: Number>(a: &DeviceCsr<S>) -> bool {
        Form::of(a.rows, a.block, a.nnz()) == Form::Rows
    }

    /// A matrix cut in a certain way. Waits for the device.
    pub fn new<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, cut: Cut) -> Result<Layout> {
        let order = if cut.sorted { by_length(gpu, a, 1)? } else { gpu.room(0)? };
        let counts = cut.count(gpu, a, &order, 1)?;
        let (starts, slots) = gpu.offsets(&counts)?;
        Ok(Layout { form: cut.form, bits: cut.bits, height: cut.height, order, starts, slots })
    }

    /// Bytes for values of this format in these blocks.
    pub fn bytes(&self, block: Block, storage: Precision) -> usize {
        let slot = size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes());
        self.starts.len() * size_of::<i64>() + self.slots * slot + self.order.len() * size_of::<i32>()
    }

    /// Base columns, offsets and values of the slots.
    pub fn fill<S: Number, O>(&self, gpu: &Gpu, a: &DeviceCsr<S>) -> Result<(Buffer<i32>, Buffer<O>, Buffer<S>)> {
        let (bases, offsets) = (gpu.room(self.slots)?, gpu.room::<O>(self.slots * self.height)?);
        let values = gpu.room::<S>(self.slots * self.height * a.block.len())?;
        let name = format!("fill_slots_{}_u{}_{}", self.height / GROUP, self.bits, bits_of::<S>());
        let count = self.starts.len() - 1;
        let (slices, rows, width) = (count as i64, a.rows as i64, a.block.len() as i32);
        let from = [a.offsets.view(), a.columns.view(), a.values.view(), self.order.view(), self.starts.view()];
        let to = [bases.view(), offsets.view(), values.view()];
        let mut arguments: Vec<&dyn Argument> = vec![&slices, &rows, &width];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        gpu.launch(gpu.kernel(&name)?, threads(count, a, FILLING), &arguments)?;
        Ok((bases, offsets, values))
    }
}

/// Threads for so many slices of a matrix, of which at most `blocks` blocks walk over long rows.
fn threads<S: Number>(slices: usize, a: &DeviceCsr<S>, blocks: usize) -> usize {
    let all = slices * GROUP;
    let long = a.block == Block::SCALAR && a.nnz() > SHORT * a.rows;
    if long { all.min(blocks * BLOCK) } else { all }
}

/// The rows, inside of each window the longest first, of equal ones the first first; of every `step`th window.
fn by_length<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, step: usize) -> Result<Buffer<i32>> {
    let order = gpu.room(a.rows)?;
    let kernel = gpu.kernel("order_by_length")?;
    let windows = a.rows.div_ceil(WINDOW).div_ceil(step);
    if windows > 0 {
        gpu.launch_blocks(kernel, windows, &[&(a.rows as i64), &(step as i32), &a.offsets.view(), &order.view()])?;
    }
    Ok(order)
}

/// The unsigned integer of a format's size, as kernels name it that move values as they are.
fn bits_of<S: Number>() -> &'static str {
    match size_of::<S>() {
        8 => "u64",
        4 => "u32",
        _ => "u16",
    }
}

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
    let [from_offsets, from_columns, from_values] = [a.offsets.view(), a.columns.view(), a.values.view()];
    gpu.launch(
        kernel,
        a.rows * GROUP,
        &[
            &rows,
            &block_rows,
            &block_cols,
            &from_offsets,
            &from_columns,
            &from_values,
            &offsets.view(),
            &columns.view(),
            &values.view(),
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
    fn layout(gpu: &Gpu, a: &Csr<f64>, form: Form, bits: usize, sorted: bool) -> Layout {
        let there = DeviceCsr::upload(gpu, &a.view()).unwrap();
        Layout::new(gpu, &there, Cut::with_form::<f64>(form, Precision::F64, bits, sorted)).unwrap()
    }

    #[test]
    fn a_stencil_needs_as_many_slots_as_it_has_entries() {
        // 64 rows in a direction: a slice is a line.
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
            let (bases, offsets, values) = narrow.fill::<f64, u8>(&gpu, &there).unwrap();
            assert_eq!(gpu.fetch(&bases).unwrap(), [10, 20, 400]);
            assert!(gpu.fetch(&offsets).unwrap().iter().all(|o| *o == 0));
            let values = gpu.fetch(&values).unwrap();
            let entries: Vec<_> = values.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
            assert_eq!(entries, [(0, &1.0), (64, &2.0), (2 * 64 + 1, &3.0)]);
            let wide = layout(&gpu, &a, Form::Shared(1), 16, false);
            let (bases, offsets, _) = wide.fill::<f64, u16>(&gpu, &there).unwrap();
            assert_eq!(gpu.fetch(&bases).unwrap(), [10, 20]);
            assert_eq!(gpu.fetch(&offsets).unwrap()[..3], [0, 390, 0]);
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
        let n = 2 * SAMPLE * WINDOW * 2 + 77;
        let (mut offsets, mut columns) = (vec![0_i64], Vec::new());
        for i in 0..n {
            columns.extend((0..if i % 3 == 0 { 2 } else { 1 }).map(|k| ((i + k) % n) as i32));
            offsets.push(columns.len() as i64);
        }
        let a = Csr::<f64>::with_pattern(n, n, Block::SCALAR, offsets, columns).unwrap();
        let gpu = devices().remove(0);
        let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
        let cuts = [false, true].map(|sorted| Cut::with_form::<f64>(Form::Shared(1), Precision::F64, 16, sorted));
        let estimates = estimate(&gpu, &there, cuts).unwrap();
        for (cut, estimate) in cuts.into_iter().zip(estimates) {
            let exact = Layout::new(&gpu, &there, cut).unwrap().bytes(Block::SCALAR, Precision::F64) as f64;
            assert!((estimate / exact - 1.0).abs() < 0.01, "{cut:?}: {estimate} should be {exact}");
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
