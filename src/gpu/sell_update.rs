//! Value update of SELL chunks with an unchanged pattern, by the kernels of `kernels/sell_update.cu`. No column is
//! read.

use super::runtime::{BLOCK, View, bits_of};
use super::sell_chunks::{GROUP, MAX_FILL_BLOCKS, is_long, of_tile};
use super::sell_layout::{SellColumns, SellLayout};
use super::setup::DeviceCsr;
use super::{Argument, Buffer, Gpu};
use crate::error::Result;
use crate::scalar::{Number, Scalar};
use crate::sparse::Block;
use half::f16;
use std::sync::{Arc, OnceLock};

/// Bytes of the copy of a tile, as in the kernels.
const TILE_BYTES: usize = 45056;

/// Blocks of threads that go over chunks of blocks in turn.
const WAVE: usize = 4096;

/// Slots that are worth a group of lanes.
const SLOTS: usize = 4;

/// Data of the value updates of a layout.
pub(super) struct ValueUpdate {
    pub columns: Arc<SellColumns>,
    /// A bit for each row of a slot: entry or padding.
    pub occupied: Buffer<u32>,
    /// The place of the diagonal in each row, or -1; found when it is first needed.
    pub diagonal: OnceLock<Buffer<i32>>,
}

impl ValueUpdate {
    /// The values of a matrix in slots.
    pub fn values<S: Number>(&self, gpu: &Gpu, layout: &SellLayout, a: &DeviceCsr<S>) -> Result<Buffer<S>> {
        let to = gpu.allocate::<S>(layout.slots * layout.height * a.block.len())?;
        let width = layout.height / GROUP;
        if a.block == Block::SCALAR {
            let views = [a.values.view().bits(), to.view().bits()];
            self.launch(gpu, layout, a, |kind| format!("sell_update_{kind}_{width}_{}", bits_of::<S>()), views, &[])?;
            return Ok(to);
        }
        let kernel = gpu.kernel(&format!("sell_update_blocks_{width}_{}", bits_of::<S>()))?;
        let count = layout.starts.len() - 1;
        let (chunks, rows, numbers) = (count as i64, a.rows as i64, a.block.len() as i32);
        // Few chunks have many slots, and are shared.
        let most = layout.slots.div_ceil(SLOTS * count.max(1)).max(1);
        let parts = (WAVE * BLOCK / GROUP / 4 / count.max(1)).clamp(1, most);
        let (offsets, values, to_view) = (a.offsets.view(), a.values.view().bits(), to.view().bits());
        let (order, starts, occupied) = (layout.order.view(), layout.starts.view(), self.occupied.view());
        let arguments: [&dyn Argument; 10] =
            [&chunks, &rows, &numbers, &(parts as i32), &offsets, &values, &order, &starts, &occupied, &to_view];
        gpu.launch_blocks(kernel, (count * parts).div_ceil(BLOCK / GROUP).min(WAVE), &arguments)?;
        Ok(to)
    }

    /// The same for scalars, with the inverse of their l1 diagonal.
    pub fn values_and_l1<T: Scalar>(
        &self,
        gpu: &Gpu,
        layout: &SellLayout,
        a: &DeviceCsr<T>,
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        let diagonal = self.diagonal(gpu, a)?;
        let (to, inverse) = (gpu.allocate::<T>(layout.slots * layout.height)?, gpu.allocate::<T>(a.rows)?);
        let (width, name) = (layout.height / GROUP, T::PRECISION.name());
        let more: [&dyn Argument; 2] = [&diagonal.view(), &inverse.view()];
        self.launch(
            gpu,
            layout,
            a,
            |kind| format!("sell_update_l1_{kind}_{width}_{name}"),
            [a.values.view(), to.view()],
            &more,
        )?;
        Ok((to, inverse))
    }

    /// The positions of the diagonal.
    pub fn diagonal<T: Number>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<&Buffer<i32>> {
        if let Some(diagonal) = self.diagonal.get() {
            return Ok(diagonal);
        }
        let positions = gpu.allocate::<i32>(a.rows)?;
        let arguments: [&dyn Argument; 4] = [&(a.rows as i64), &a.offsets.view(), &a.columns.view(), &positions.view()];
        gpu.launch(gpu.kernel("diagonal_positions")?, a.rows * 8, &arguments)?;
        Ok(self.diagonal.get_or_init(|| positions))
    }

    /// The values of scalars in f16, where that holds all of them exactly. Waits for the device.
    pub fn narrow_values<T: Scalar>(
        &self,
        gpu: &Gpu,
        layout: &SellLayout,
        a: &DeviceCsr<T>,
    ) -> Result<Option<Buffer<f16>>> {
        let (to, flag) = (gpu.allocate::<f16>(layout.slots * layout.height)?, gpu.zeroed::<i32>(1)?);
        let (width, name) = (layout.height / GROUP, T::PRECISION.name());
        let more: [&dyn Argument; 1] = [&flag.view()];
        self.launch(
            gpu,
            layout,
            a,
            |kind| format!("sell_update_f16_{kind}_{width}_{name}"),
            [a.values.view(), to.view()],
            &more,
        )?;
        Ok((gpu.fetch(&flag)?[0] == 0).then_some(to))
    }

    /// Launches a kernel that goes over chunks of scalars, by tiles where rows are long, from the first of two arrays
    /// to the second.
    fn launch<T: Number>(
        &self,
        gpu: &Gpu,
        layout: &SellLayout,
        a: &DeviceCsr<T>,
        name: impl Fn(&str) -> String,
        [values, to]: [View<'_>; 2],
        more: &[&dyn Argument],
    ) -> Result<()> {
        let (count, pattern) = (layout.starts.len() - 1, a.pattern());
        let tile = of_tile(&pattern, layout.height, TILE_BYTES / size_of::<T>());
        let kernel = gpu.kernel(&name(if tile.is_some() { "tiles" } else { "slots" }))?;
        let blocks = match tile {
            Some(chunks) => count.div_ceil(chunks),
            None => count.div_ceil(BLOCK / GROUP).min(if is_long(&pattern) { MAX_FILL_BLOCKS } else { usize::MAX }),
        };
        let (chunks, rows, number) = (count as i64, a.rows as i64, tile.unwrap_or(0) as i32);
        let (offsets, order, starts) = (a.offsets.view(), layout.order.view(), layout.starts.view());
        let occupied = self.occupied.view();
        let mut arguments: Vec<&dyn Argument> =
            vec![&chunks, &rows, &number, &offsets, &values, &order, &starts, &occupied, &to];
        arguments.extend(more);
        gpu.launch_blocks(kernel, blocks, &arguments)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::sell_chunks::{ChunkParameters, SellKernel};
    use crate::gpu::setup::diagonal;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::scalar::Precision;
    use crate::sparse::Csr;

    /// Values by the number of an entry; some are zero.
    fn changed<T: Scalar>(a: &Csr<T>, step: usize) -> Csr<T> {
        let value = |k: usize| T::from_f64(if k % 11 == 10 { 0.0 } else { 0.5 + (k * step % 512) as f64 });
        Csr { values: (0..a.values.len()).map(value).collect(), ..a.clone() }
    }

    fn cuts(block: Block, storage: Precision, sums: Precision) -> Vec<ChunkParameters> {
        let cut = |form, bits, sorted| ChunkParameters::with_kernel(form, storage, sums, bits, sorted);
        match block {
            Block::SCALAR => vec![
                cut(SellKernel::Rows, 8, false),
                cut(SellKernel::Rows, 16, true),
                cut(SellKernel::Shared(2), 16, false),
                cut(SellKernel::Shared(1), 16, true),
            ],
            _ => vec![cut(SellKernel::Blocks(1), 16, false), cut(SellKernel::Blocks(2), 16, true)],
        }
    }

    /// The third matrix in a layout has the slots that it would have alone.
    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let upload = |a: &Csr<T>| DeviceCsr::upload(gpu, &a.view()).unwrap();
        let wanted = upload(&changed(a, 7));
        let sums = T::PRECISION;
        for cut in cuts(a.block, T::PRECISION, sums) {
            let layout = SellLayout::new(gpu, &wanted.pattern(), cut).unwrap();
            let alone = layout.fill(gpu, &wanted).unwrap().1;
            layout.fill(gpu, &upload(a)).unwrap();
            assert!(layout.kept_bytes() > 0 || a.values.is_empty());
            let alone = gpu.fetch(&alone).unwrap();
            let again = layout.fill(gpu, &wanted).unwrap().1;
            assert_eq!(gpu.fetch(&again).unwrap(), alone, "{name} {cut:?}");
            let again = layout.fill_with_l1(gpu, &wanted, true).unwrap();
            assert_eq!(gpu.fetch(&again.values).unwrap(), alone, "{name} {cut:?} and l1");
            let Some(inverse) = again.l1_inverse else {
                assert!(a.block != Block::SCALAR);
                continue;
            };
            if a.rows == a.cols {
                let expected = diagonal::inverse(gpu, &wanted, 1, true, None).unwrap();
                assert_eq!(gpu.fetch(&inverse).unwrap(), gpu.fetch(&expected).unwrap(), "{name} {cut:?} l1");
            }
        }
        for cut in cuts(a.block, Precision::F16, sums) {
            let layout = SellLayout::new(gpu, &wanted.pattern(), cut).unwrap();
            let narrow = wanted.cast::<f16>(gpu).unwrap();
            assert!(layout.fill_exactly(gpu, &wanted).unwrap().is_none());
            let alone = gpu.fetch(&layout.fill(gpu, &narrow).unwrap().1).unwrap();
            layout.fill(gpu, &narrow).unwrap();
            let again = layout.fill(gpu, &narrow).unwrap().1;
            assert_eq!(gpu.fetch(&again).unwrap(), alone, "{name} {cut:?} f16");
            let exact = layout.fill_exactly(gpu, &wanted).unwrap();
            assert_eq!(exact.is_some(), a.block == Block::SCALAR);
            if let Some((_, exact)) = exact {
                assert_eq!(gpu.fetch(&exact).unwrap(), alone, "{name} {cut:?} in f16");
                let mut other = changed(a, 7);
                if let Some(last) = other.values.last_mut() {
                    *last = T::from_f64(0.1);
                    assert!(layout.fill_exactly(gpu, &upload(&other)).unwrap().is_none(), "{name}");
                }
            }
        }
    }

    #[test]
    fn values_come_to_the_places_that_they_have_alone() {
        let mut all: Vec<_> = problems().into_iter().take(3).chain(irregular::square()).collect();
        all.push(("27 points".to_string(), gallery::poisson27(33, 4, 5).unwrap()));
        all.push(("rectangular".to_string(), {
            let rows = (0..700).flat_map(|i| (0..i % 13).map(move |k| (i, (i * 7 + k * 31) % 400, 1.0)));
            Csr::from_triplets(700, 400, &rows.collect::<Vec<_>>()).unwrap()
        }));
        for gpu in devices() {
            for (name, a) in &all {
                compare(&gpu, name, a);
            }
            compare(&gpu, "f32", &all[1].1.view().to_owned_as::<f32>().unwrap());
            let elasticity = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
            compare(&gpu, "elasticity", &elasticity);
            compare(&gpu, "elasticity in f32", &elasticity.view().to_owned_as::<f32>().unwrap());
            compare(&gpu, "6x6", &irregular::random(150, 12, 6).view().to_blocks(6).unwrap());
            compare(&gpu, "2x2", &irregular::random(90, 20, 5).view().to_blocks(2).unwrap());
        }
    }

    #[test]
    fn rows_longer_than_a_tile_are_updated_from_global_memory() {
        // One row in 300 has more entries than a tile holds.
        let (n, long) = (700, 6_000);
        let rows = (0..n).flat_map(|i| {
            let length = if i % 300 == 299 { long } else { 11 + i * i % 50 };
            (0..length).map(move |k| (i, (i + k * if i % 3 == 0 { 1 } else { 7 }) % (7 * long + n), 1.0))
        });
        let a = Csr::from_triplets(n, 7 * long + n, &rows.collect::<Vec<_>>()).unwrap();
        one_of_each().iter().for_each(|gpu| compare(gpu, "long rows", &a));
    }
}
