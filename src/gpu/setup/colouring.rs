//! Colouring of rows, and matrices with rows permuted by colour: [`crate::sparse::Colouring`] on the device.

use super::pattern_compare::{self, Pattern};
use super::transpose;
use super::{DeviceCsr, DevicePattern};
use crate::error::{Result, try_collect};
use crate::gpu::runtime::{Argument, BLOCK};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use std::sync::Arc;

/// Lanes for a row, and rows that a block of threads permutes, as in `kernels/colouring.cu`.
const LANES: usize = 8;
const PIECE: usize = 4096;

/// Rounds that are launched before a wait for the device. Surplus rounds return at once.
const ROUNDS: usize = 32;

/// Most blocks of a round.
const MAX_BLOCKS: usize = 4096;

/// Block rows by colour, and ascending within each.
pub(crate) struct DeviceColouring {
    /// All of them.
    pub rows: Buffer<i32>,
    /// Where each colour begins in `rows`, and the end.
    pub starts: Vec<usize>,
}

impl DeviceColouring {
    /// A colouring in which a_ij or a_ji couples no two rows of the same colour. Waits for the device, once for many
    /// rounds and once for the colours.
    pub fn new(gpu: &Gpu, a: &DevicePattern) -> Result<DeviceColouring> {
        let n = a.rows;
        let size = n as i64;
        let (offsets, columns) = (a.offsets.view(), a.columns.view());
        let transposed = transpose::of_pattern(gpu, a)?;
        let (transposed_offsets, transposed_columns) = (transposed.offsets.view(), transposed.columns.view());
        let differs = gpu.zeroed::<i64>(1)?;
        let own = Pattern { rows: n, entries: a.nnz(), offsets, columns };
        pattern_compare::compare(
            gpu,
            own,
            Pattern { offsets: transposed_offsets, columns: transposed_columns, ..own },
            &differs,
        )?;
        let colours = gpu.allocate::<i32>(n)?;
        gpu.launch(gpu.kernel("colour_begin")?, n, &[&size, &colours.view()])?;
        let most = gpu.zeroed::<i32>(1)?;
        let mut open = gpu.zeroed::<i64>(ROUNDS + 1)?;
        let kernel = gpu.kernel("colour_round")?;
        let mut first = 0;
        loop {
            for round in first..ROUNDS as i32 {
                let arguments: [&dyn Argument; 10] = [
                    &size,
                    &round,
                    &offsets,
                    &columns,
                    &transposed_offsets,
                    &transposed_columns,
                    &differs.view(),
                    &open.view(),
                    &most.view(),
                    &colours.view(),
                ];
                gpu.launch(kernel, (n * LANES).min(MAX_BLOCKS * BLOCK), &arguments)?;
            }
            if gpu.fetch(open.subslice(ROUNDS, 1))?[0] == 0 {
                break;
            }
            // The counter of the first round of a batch is that of the last round of the batch before.
            let mut again = vec![0; ROUNDS + 1];
            again[1] = 1;
            gpu.write(&again, &mut open)?;
            first = 1;
        }
        drop(transposed);
        order(gpu, &colours, gpu.fetch(&most)?[0] as usize)
    }

    /// The matrix with its rows permuted by colour.
    pub fn reorder<S: Number>(&self, gpu: &Gpu, a: &DeviceCsr<S>) -> Result<DeviceCsr<S>> {
        let n = a.rows;
        let size = n as i64;
        let counts = gpu.allocate::<i32>(n)?;
        let arguments: [&dyn Argument; 4] = [&size, &self.rows.view(), &a.offsets.view(), &counts.view()];
        gpu.launch(gpu.kernel("reorder_counts")?, n, &arguments)?;
        let offsets = gpu.offsets_alone(&counts)?;
        let (columns, values) = (gpu.allocate::<i32>(a.nnz())?, gpu.allocate::<S>(a.entries())?);
        let kernel = gpu.kernel(&format!("reorder_rows_{}", size_of::<S>()))?;
        let (from_offsets, from_columns, from_values) = (a.offsets.view(), a.columns.view(), a.values.view().bits());
        let arguments: [&dyn Argument; 9] = [
            &size,
            &(a.block.len() as i32),
            &self.rows.view(),
            &from_offsets,
            &from_columns,
            &from_values,
            &offsets.view(),
            &columns.view(),
            &values.view().bits(),
        ];
        gpu.launch(kernel, n * LANES, &arguments)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows: n, cols: a.cols, block: a.block, offsets, columns, values })
    }

    /// `width` values of each row, permuted by colour.
    pub fn reorder_numbers<S: Number>(&self, gpu: &Gpu, numbers: &Slice<S>) -> Result<Buffer<S>> {
        let n = self.rows.len();
        let share = numbers.len() / n.max(1);
        let to = gpu.allocate::<S>(numbers.len())?;
        let kernel = gpu.kernel(&format!("reorder_numbers_{}", size_of::<S>()))?;
        let arguments: [&dyn Argument; 5] =
            [&(n as i64), &(share as i32), &self.rows.view(), &numbers.view().bits(), &to.view().bits()];
        gpu.launch(kernel, numbers.len(), &arguments)?;
        Ok(to)
    }
}

/// Rows sorted by colour, of which there are `count`.
fn order(gpu: &Gpu, colours: &Slice<i32>, count: usize) -> Result<DeviceColouring> {
    let n = colours.len();
    let rows = gpu.allocate::<i32>(n)?;
    if n == 0 {
        return Ok(DeviceColouring { rows, starts: vec![0] });
    }
    let pieces = n.div_ceil(PIECE);
    let (size, pieces_) = (n as i64, pieces as i64);
    let counts = gpu.zeroed::<i32>(count * pieces)?;
    gpu.launch(gpu.kernel("colour_count")?, n, &[&size, &pieces_, &colours.view(), &counts.view()])?;
    let starts = gpu.offsets_alone(&counts)?;
    let done = gpu.zeroed::<i32>(count * pieces)?;
    let arguments: [&dyn Argument; 6] = [&size, &pieces_, &colours.view(), &starts.view(), &done.view(), &rows.view()];
    gpu.launch_blocks(gpu.kernel("colour_order")?, pieces, &arguments)?;
    let of_colours = gpu.allocate::<i64>(count + 1)?;
    let arguments: [&dyn Argument; 4] = [&(count as i64), &pieces_, &starts.view(), &of_colours.view()];
    gpu.launch(gpu.kernel("colour_starts")?, count + 1, &arguments)?;
    let starts = try_collect(gpu.fetch(&of_colours)?.iter().map(|start| *start as usize))?;
    Ok(DeviceColouring { rows, starts })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::sparse::{Colouring, Csr};
    use half::f16;

    #[test]
    fn colours_are_those_of_the_host_and_rows_follow_them() {
        let dense: Vec<_> = (0..100 * 100).map(|e| (e / 100, e % 100, 1.0)).collect();
        let one_way: Vec<_> = (0..700).map(|i| (i, (i * 37) % 700, 1.0)).collect();
        let mut all = problems();
        all.extend(irregular::square());
        all.push(("dense".to_string(), Csr::from_triplets(100, 100, &dense).unwrap()));
        all.push(("one way".to_string(), Csr::from_triplets(700, 700, &one_way).unwrap()));
        all.push(("pieces".to_string(), gallery::poisson5(100, 90).unwrap()));
        all.push(("elasticity".to_string(), gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix));
        for gpu in devices() {
            for (name, a) in &all {
                let expected = Colouring::new(&a.view()).unwrap();
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let found = DeviceColouring::new(&gpu, &on_device.pattern()).unwrap();
                let rows: Vec<u32> = gpu.fetch(&found.rows).unwrap().into_iter().map(|i| i as u32).collect();
                assert_eq!((&rows, &found.starts), (&expected.rows, &expected.starts), "{name}");
                let reordered = found.reorder(&gpu, &on_device).unwrap().fetch(&gpu).unwrap();
                for (k, i) in rows.iter().enumerate() {
                    assert!(reordered.view().row(k).eq(a.view().row(*i as usize)), "{name} {i}");
                }
                let numbers: Vec<f16> = (0..2 * a.rows).map(|i| f16::from_f64((i % 1000) as f64)).collect();
                let moved = found.reorder_numbers(&gpu, &gpu.upload(&numbers).unwrap()).unwrap();
                let expected: Vec<f16> = rows.iter().flat_map(|i| numbers[2 * *i as usize..][..2].to_vec()).collect();
                assert_eq!(gpu.fetch(&moved).unwrap(), expected, "{name}");
            }
        }
    }
}
