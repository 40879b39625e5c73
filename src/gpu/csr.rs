//! CSR with a group of lanes for each row: for rows of very different length, and for matrices with few rows. Columns
//! have 32 bits, or 16 as offsets from the lowest column of their row.

use super::csr_balanced::Unless;
use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{Argument, BLOCK, Kernel, View};
use super::setup::{DeviceCsr, DevicePattern};
use super::{Buffer, Gpu, Slice, multivector};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// Numbers of lanes of a group.
const LANES: [usize; 5] = [2, 4, 8, 16, 32];

/// Threads that fill a GPU.
const FULL_DEVICE_THREADS: usize = 1 << 17;

/// Entries for each lane: two batches of `kernels/csr.h`.
const LANE_ENTRIES: usize = 12;

/// Lanes that compact the columns of a row, as in `kernels/compact_columns.cu`.
const COMPACTING_LANES: usize = 8;

/// Columns of 16 bits.
pub(crate) struct CompactColumns {
    /// The lowest column of each row.
    bases: Buffer<i32>,
    /// Columns minus the lowest of their row.
    offsets: Buffer<u16>,
}

impl CompactColumns {
    /// Whether 16 bits are enough for any pattern of this size.
    pub fn always_fits(a: &DevicePattern) -> bool {
        a.cols <= 1 << 16
    }

    /// Adds the number of rows whose columns span more than 16 bits to `total`.
    pub(super) fn count_far(gpu: &Gpu, a: &DevicePattern, total: &Slice<i64>, unless: Unless) -> Result<()> {
        let (rows, kernel, (longest, most)) = (a.rows as i64, gpu.kernel("count_far_rows")?, unless.arguments());
        let [offsets, columns, total] = [a.offsets.view(), a.columns.view(), total.view()];
        gpu.launch(kernel, a.rows * COMPACTING_LANES, &[&rows, &offsets, &columns, &total, &longest, &most])
    }

    /// Of a scalar matrix, each row of which spans at most 16 bits.
    pub fn new(gpu: &Gpu, a: &DevicePattern) -> Result<CompactColumns> {
        assert_eq!(a.block, Block::SCALAR);
        let (bases, offsets) = (gpu.allocate(a.rows)?, gpu.allocate(a.nnz())?);
        let (rows, kernel) = (a.rows as i64, gpu.kernel("compact_columns")?);
        let [from, columns, to] = [a.offsets.view(), a.columns.view(), offsets.view()];
        gpu.launch(kernel, a.rows * COMPACTING_LANES, &[&rows, &from, &columns, &bases.view(), &to])?;
        Ok(CompactColumns { bases, offsets })
    }
}

/// The columns of a matrix.
enum Columns {
    Long(Arc<Buffer<i32>>),
    Short(Arc<CompactColumns>),
}

/// A matrix of scalars.
pub(super) struct Csr {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    lanes: usize,
    shape: (usize, usize),
    offsets: Arc<Buffer<i64>>,
    columns: Columns,
    values: Values,
}

impl Csr {
    /// For products of these precisions.
    pub fn new<S: Number>(gpu: &Gpu, matrix: DeviceCsr<S>, precisions: Precisions) -> Result<Csr> {
        let columns = Columns::Long(Arc::clone(&matrix.columns));
        Csr::of(gpu, &matrix.pattern(), columns, matrix.own_values(gpu)?.into(), "csr", precisions)
    }

    /// The same with columns of 16 bits, which are those of this matrix.
    pub fn short<S: Number>(
        gpu: &Gpu,
        matrix: DeviceCsr<S>,
        columns: &Arc<CompactColumns>,
        precisions: Precisions,
    ) -> Result<Csr> {
        assert_eq!(columns.offsets.len(), matrix.nnz());
        let columns = Columns::Short(Arc::clone(columns));
        Csr::of(gpu, &matrix.pattern(), columns, matrix.own_values(gpu)?.into(), "csr16", precisions)
    }

    fn of(
        gpu: &Gpu,
        pattern: &DevicePattern,
        columns: Columns,
        values: Values,
        kernel: &str,
        precisions: Precisions,
    ) -> Result<Csr> {
        assert_eq!(pattern.block, Block::SCALAR);
        let (lanes, shape) = (lanes(pattern.nnz(), pattern.rows), (pattern.rows, pattern.cols));
        let (kernel, offsets) = (precisions.kernel(gpu, kernel)?, Arc::clone(&pattern.offsets));
        Ok(Csr { gpu: gpu.clone(), precisions, kernel, lanes, shape, offsets, columns, values })
    }
}

impl Csr {
    /// The same with so many lanes for each row.
    pub fn with_lanes(self, lanes: usize) -> Csr {
        Csr { lanes, ..self }
    }
}

/// Bytes of a scalar matrix with values of this format.
pub(super) fn bytes(rows: usize, entries: usize, storage: Precision) -> usize {
    (rows + 1) * size_of::<i64>() + entries * (size_of::<i32>() + storage.bytes())
}

/// The same with columns of 16 bits.
pub(super) fn short_bytes(rows: usize, entries: usize, storage: Precision) -> usize {
    (rows + 1) * size_of::<i64>() + rows * size_of::<i32>() + entries * (size_of::<u16>() + storage.bytes())
}

/// Lanes for rows of average length: each lane has about as many entries as are under way at two times, or fewer where
/// that many threads do not fill a GPU.
pub(super) fn lanes(entries: usize, rows: usize) -> usize {
    let length = entries.div_ceil(rows.max(1));
    let enough = |lanes: &usize| LANE_ENTRIES * lanes >= length && rows * lanes >= FULL_DEVICE_THREADS;
    LANES.into_iter().find(enough).unwrap_or_else(|| LANES.into_iter().find(|lanes| *lanes >= length).unwrap_or(32))
}

impl Product for Csr {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn blocks(&self, epilogue: &Epilogue<'_>) -> usize {
        self.shape.0.div_ceil(epilogue.whole(BLOCK / self.lanes))
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width <= BLOCK / self.lanes
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, shift) = (self.shape.0 as i64, self.lanes.ilog2() as i32);
        let [offsets, values] = [self.offsets.view(), self.values.view()];
        let blocks = self.blocks(epilogue);
        match &self.columns {
            Columns::Long(columns) => {
                let columns = columns.view();
                self.gpu.launch_blocks(self.kernel, blocks, &[&rows, &shift, &offsets, &columns, &values, &x, epilogue])
            }
            Columns::Short(short) => {
                let (bases, columns) = (short.bases.view(), short.offsets.view());
                self.gpu.launch_blocks(
                    self.kernel,
                    blocks,
                    &[&rows, &shift, &offsets, &bases, &columns, &values, &x, epilogue],
                )
            }
        }
    }

    fn multivector_kernel(&self) -> Option<&str> {
        Some(match &self.columns {
            Columns::Long(_) => "csr",
            Columns::Short(_) => "csr16",
        })
    }

    fn multivector_blocks(&self, _: usize) -> usize {
        multivector::blocks_for(multivector::LANES * self.shape.0)
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (rows, shift, blocks) = (self.shape.0 as i64, k.ilog2() as i32, self.multivector_blocks(k));
        let [offsets, values] = [self.offsets.view(), self.values.view()];
        match &self.columns {
            Columns::Long(columns) => {
                let columns = columns.view();
                self.gpu.launch_blocks(kernel, blocks, &[&rows, &shift, &offsets, &columns, &values, &x, epilogue])
            }
            Columns::Short(short) => {
                let (bases, columns) = (short.bases.view(), short.offsets.view());
                let arguments: [&dyn Argument; 8] = [&rows, &shift, &offsets, &bases, &columns, &values, &x, epilogue];
                self.gpu.launch_blocks(kernel, blocks, &arguments)
            }
        }
    }

    fn bytes(&self) -> usize {
        let columns = match &self.columns {
            Columns::Long(columns) => columns.owned_bytes(),
            Columns::Short(short) => short.bases.owned_bytes() + short.offsets.owned_bytes(),
        };
        self.offsets.owned_bytes() + columns + self.values.owned_bytes()
    }

    fn format(&self) -> String {
        match self.columns {
            Columns::Long(_) => "csr",
            Columns::Short(_) => "csr16",
        }
        .to_string()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::tests::devices;
    use crate::sparse;

    /// A matrix of one value in the columns of these rows.
    fn matrix(cols: usize, rows: &[&[i32]]) -> sparse::Csr<f64> {
        let mut offsets = vec![0_i64];
        offsets.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as i64;
            Some(*end)
        }));
        let mut a =
            sparse::Csr::with_pattern(rows.len(), cols, Block::SCALAR, offsets, rows.concat().to_vec()).unwrap();
        a.values.fill(1.0);
        a
    }

    #[test]
    fn columns_are_counted_from_the_lowest_of_their_row() {
        let a = matrix(100_000, &[&[7, 3, 65_538], &[], &[99_999], &[40_000, 40_001, 39_990, 40_002]]);
        for gpu in devices() {
            let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap().pattern();
            let short = CompactColumns::new(&gpu, &on_device).unwrap();
            assert_eq!(gpu.fetch(&short.bases).unwrap(), [3, 0, 99_999, 39_990]);
            assert_eq!(gpu.fetch(&short.offsets).unwrap(), [4, 0, 65_535, 0, 10, 11, 0, 12]);
        }
    }

    #[test]
    fn rows_beyond_the_reach_of_16_bits_are_counted() {
        let near: &[i32] = &[0, 65_535];
        let far: &[i32] = &[90_000, 1, 65_537];
        let rows: Vec<&[i32]> = (0..100).map(|i| if i % 7 == 3 { far } else { near }).collect();
        for gpu in devices() {
            for rows in [&rows[..], &rows[..1], &[]] {
                let on_device = DeviceCsr::upload(&gpu, &matrix(100_000, rows).view()).unwrap().pattern();
                let total = gpu.zeroed::<i64>(1).unwrap();
                CompactColumns::count_far(&gpu, &on_device, &total, Unless::NEVER).unwrap();
                assert_eq!(gpu.fetch(&total).unwrap(), [rows.len().saturating_sub(3).div_ceil(7) as i64]);
            }
        }
    }

    #[test]
    fn few_rows_have_many_lanes_and_short_ones_few() {
        assert_eq!(lanes(91 * 71_299, 71_299), 8);
        assert_eq!(lanes(91 * 8345, 8345), 16);
        assert_eq!(lanes(534 * 3216, 3216), 32);
        assert_eq!(lanes(7 << 20, 1 << 20), 2);
        assert_eq!(lanes(3 * 10, 10), 4);
        assert_eq!(lanes(0, 0), 2);
    }
}
