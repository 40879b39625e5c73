//! Storage of matrices in SELL chunks: layout and conversion from CSR, by the kernels of `kernels/sell_layout.cu`.

use super::runtime::{BLOCK, View, bits_of};
#[cfg(feature = "unit-tests")]
use super::sell_chunks::{ChunkParameters, PendingLayout};
use super::sell_chunks::{GROUP, MAX_FILL_BLOCKS, SellKernel, is_long, of_tile};
use super::sell_update::ValueUpdate;
use super::setup::DeviceCsr;
#[cfg(feature = "unit-tests")]
use super::setup::DevicePattern;
use super::{Argument, Buffer, Gpu};
use crate::error::Result;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::Block;
use half::f16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of shared memory for the columns and values of a tile, as in `kernels/sell_layout.cu`.
const FILLED_TILE_BYTES: usize = 45056;

/// The chunks of a pattern (SELL-C-sigma).
pub(crate) struct SellLayout {
    pub form: SellKernel,
    pub bits: usize,
    pub height: usize,
    /// Row permutation; empty for the identity.
    pub order: Arc<Buffer<i32>>,
    /// First slot of each chunk, and the number of all.
    pub starts: Buffer<i64>,
    pub slots: usize,
    /// Whether a matrix was converted before. The second conversion stores the data of value updates.
    used: AtomicBool,
    update: OnceLock<Arc<ValueUpdate>>,
}

impl SellLayout {
    pub(super) fn from_parts(
        (form, bits, height): (SellKernel, usize, usize),
        order: Arc<Buffer<i32>>,
        starts: Buffer<i64>,
        slots: usize,
    ) -> SellLayout {
        let (used, update) = (AtomicBool::new(false), OnceLock::new());
        SellLayout { form, bits, height, order, starts, slots, used, update }
    }

    /// The layout with these parameters. Waits for the device.
    #[cfg(feature = "unit-tests")]
    pub fn new(gpu: &Gpu, a: &DevicePattern, cut: ChunkParameters) -> Result<SellLayout> {
        let total = gpu.zeroed::<i64>(1)?;
        let started = PendingLayout::new(gpu, a, cut, &total)?;
        Ok(started.with_slots(gpu.fetch(&total)?[0] as usize))
    }

    /// Bytes of a matrix with these blocks and values of this format.
    pub fn bytes(&self, block: Block, storage: Precision) -> usize {
        let slot = size_of::<i32>() + self.height * (self.bits / 8 + block.len() * storage.bytes());
        self.starts.len() * size_of::<i64>() + self.slots * slot + self.order.len() * size_of::<i32>()
    }

    /// Columns and values of a matrix in slots. All matrices of a layout have the same pattern. The first two are
    /// converted from CSR, later ones by a value update.
    pub fn fill<S: Number>(&self, gpu: &Gpu, a: &DeviceCsr<S>) -> Result<(Arc<SellColumns>, Buffer<S>)> {
        if let Some(update) = self.update.get() {
            return Ok((Arc::clone(&update.columns), update.values(gpu, self, a)?));
        }
        let is_first = !self.used.swap(true, Ordering::Relaxed);
        let occupied = gpu.allocate::<u32>(if is_first { 0 } else { self.slots * self.height / GROUP })?;
        let bases = gpu.allocate(self.slots)?;
        let padded = self.slots * self.height;
        let offsets = match self.bits {
            8 => Offsets::Eight(gpu.allocate(padded)?),
            _ => Offsets::Sixteen(gpu.allocate(padded)?),
        };
        let values = gpu.allocate::<S>(padded * a.block.len())?;
        let count = self.starts.len() - 1;
        let pattern = a.pattern();
        let tile = of_tile(&pattern, self.height, FILLED_TILE_BYTES / (size_of::<i32>() + size_of::<S>()));
        let name = match tile {
            Some(_) => "fill_tiles",
            None if a.block == Block::SCALAR => "fill_slots",
            None => "fill_blocks",
        };
        let kernel = gpu.kernel(&format!("{name}_{}_u{}_{}", self.height / GROUP, self.bits, bits_of::<S>()))?;
        let blocks = match tile {
            Some(chunks) => count.div_ceil(chunks),
            None => count.div_ceil(BLOCK / GROUP).min(if is_long(&pattern) { MAX_FILL_BLOCKS } else { usize::MAX }),
        };
        let (chunks, rows) = (count as i64, a.rows as i64);
        let number = tile.unwrap_or(a.block.len()) as i32;
        let from = [a.offsets.view(), a.columns.view(), a.values.view().bits(), self.order.view(), self.starts.view()];
        let to = [bases.view(), offsets.view(), occupied.view(), values.view().bits()];
        let mut arguments: Vec<&dyn Argument> = vec![&chunks, &rows, &number];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        if blocks > 0 {
            gpu.launch_blocks(kernel, blocks, &arguments)?;
        }
        let columns = Arc::new(SellColumns { bases, offsets });
        if !is_first {
            let update = ValueUpdate { columns: Arc::clone(&columns), occupied, diagonal: OnceLock::new() };
            // Another thread may have stored the same data.
            let _ = self.update.set(Arc::new(update));
        }
        Ok((columns, values))
    }

    /// As [`SellLayout::fill`]. A value update also computes the inverse of the l1 diagonal, if it is `wanted`.
    pub fn fill_with_l1<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, wanted: bool) -> Result<SellData<T>> {
        let wanted = wanted && a.block == Block::SCALAR && self.height <= 2 * GROUP;
        if let Some(update) = self.update.get().filter(|_| wanted) {
            let (values, inverse) = update.values_and_l1(gpu, self, a)?;
            return Ok(SellData { columns: Arc::clone(&update.columns), values, l1_inverse: Some(inverse) });
        }
        let (columns, values) = self.fill(gpu, a)?;
        // For the value updates to come.
        if let Some(update) = self.update.get().filter(|_| wanted) {
            update.diagonal(gpu, a)?;
        }
        Ok(SellData { columns, values, l1_inverse: None })
    }

    /// As [`SellLayout::fill`], with values stored in f16. None if f16 does not represent all of them exactly, or
    /// before the data of value updates are there. Waits for the device.
    pub fn fill_exactly<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
    ) -> Result<Option<(Arc<SellColumns>, Buffer<f16>)>> {
        match self.update.get().filter(|_| a.block == Block::SCALAR) {
            None => Ok(None),
            Some(update) => {
                let values = update.narrow_values(gpu, self, a)?;
                Ok(values.map(|values| (Arc::clone(&update.columns), values)))
            }
        }
    }

    /// Bytes of the data of value updates.
    pub fn kept_bytes(&self) -> usize {
        self.update.get().map_or(0, |update| {
            let diagonal = update.diagonal.get().map_or(0, |diagonal| diagonal.owned_bytes());
            update.occupied.owned_bytes() + diagonal
        })
    }
}

/// A matrix in slots, and the inverse of its l1 diagonal if a value update computed it.
pub(crate) struct SellData<T> {
    pub(super) columns: Arc<SellColumns>,
    pub(super) values: Buffer<T>,
    pub l1_inverse: Option<Buffer<T>>,
}

/// Columns of slots: base columns and offsets from them.
pub(crate) struct SellColumns {
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

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    /// The layout of a scalar matrix in f64.
    fn layout(gpu: &Gpu, a: &Csr<f64>, form: SellKernel, bits: usize, sorted: bool) -> SellLayout {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let cut = ChunkParameters::with_kernel(form, Precision::F64, Precision::F64, bits, sorted);
        SellLayout::new(gpu, &on_device.pattern(), cut).unwrap()
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
            let layout = layout(&gpu, &a, SellKernel::Rows, 8, false);
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
            let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let narrow = layout(&gpu, &a, SellKernel::Rows, 8, false);
            let (columns, values) = narrow.fill(&gpu, &on_device).unwrap();
            assert_eq!(gpu.fetch(&columns.bases).unwrap(), [10, 20, 400]);
            assert!(fetched(&gpu, &columns.offsets).iter().all(|o| *o == 0));
            let values = gpu.fetch(&values).unwrap();
            let entries: Vec<_> = values.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
            assert_eq!(entries, [(0, &1.0), (64, &2.0), (2 * 64 + 1, &3.0)]);
            let wide = layout(&gpu, &a, SellKernel::Shared(1), 16, false);
            let (columns, _) = wide.fill(&gpu, &on_device).unwrap();
            assert_eq!(gpu.fetch(&columns.bases).unwrap(), [10, 20]);
            assert_eq!(fetched(&gpu, &columns.offsets)[..3], [0, 390, 0]);
        }
    }

    #[test]
    fn an_order_by_length_makes_chunks_even() {
        // Every other row has 20 entries, the others one.
        let mut triplets = Vec::new();
        for i in 0..600 {
            triplets.extend((0..if i % 2 == 0 { 20 } else { 1 }).map(|c| (i, c, 1.0)));
        }
        let a = Csr::from_triplets(600, 20, &triplets).unwrap();
        for gpu in devices() {
            let plain = layout(&gpu, &a, SellKernel::Shared(1), 16, false);
            let sorted = layout(&gpu, &a, SellKernel::Shared(1), 16, true);
            // 88 rows are left for the second window, of which 44 are long.
            assert_eq!((plain.slots, sorted.slots), (19 * 20, 8 * 20 + 8 + 2 * 20 + 1));
            let order = gpu.fetch(&sorted.order).unwrap();
            assert_eq!((&order[..3], &order[255..258], order[512]), (&[0, 2, 4][..], &[510, 1, 3][..], 512));
        }
    }

    /// Slots of each chunk of a matrix whose rows are not ordered: the traversal of the kernels, row after row.
    fn traversed(a: &Csr<f64>, height: usize, reach: i32) -> Vec<i64> {
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
            for (form, bits) in [(SellKernel::Rows, 8), (SellKernel::Rows, 16), (SellKernel::Shared(2), 16)] {
                let layout = layout(&gpu, &a, form, bits, false);
                let starts = gpu.fetch(&layout.starts).unwrap();
                let counts: Vec<i64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
                assert_eq!(counts, traversed(&a, layout.height, 1 << bits), "{form:?} {bits}");
            }
        }
    }

    #[test]
    fn long_rows_are_in_slots_whether_their_tiles_fit_or_not() {
        // Rows of 11 to 60 entries among which one in 300 has more than a tile has room for, far apart and near each
        // other.
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
            let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            for (form, bits, sorted) in
                [(SellKernel::Rows, 8, false), (SellKernel::Rows, 16, true), (SellKernel::Shared(2), 16, false)]
            {
                let layout = layout(&gpu, &a, form, bits, sorted);
                let (columns, values) = layout.fill(&gpu, &on_device).unwrap();
                let (bases, reaches) = (gpu.fetch(&columns.bases).unwrap(), fetched(&gpu, &columns.offsets));
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
}
