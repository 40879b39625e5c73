//! FSAI of block matrices on a GPU, with the bits of the host. The work is in `kernels/fsai_blocks.cu` and
//! `kernels/fsai_block_values.cu`.

use super::super::{DeviceCsr, DevicePattern};
use super::{LANES, MAX_GROUPS, longest_row};
use crate::backend::fsai::{Adaptive, Factor, smallest_pivot};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, Kernel};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use std::sync::Arc;

/// How large a row may be for a kernel that has it in shared memory, as in `kernels/fsai_blocks.cu`.
struct SharedCapacity {
    kernel: &'static str,
    /// Scalar columns of the pattern of a row.
    scalars: usize,
    /// Block columns of the pattern of a row.
    columns: usize,
    /// Rows that a block of threads computes at the same time.
    teams: usize,
}

const CAPACITY_OF_3: SharedCapacity = SharedCapacity { kernel: "fsai_blocks_3", scalars: 30, columns: 10, teams: 6 };
const CAPACITY: SharedCapacity = SharedCapacity { kernel: "fsai_blocks_any", scalars: 48, columns: 20, teams: 2 };

/// Most blocks of threads in shared memory: about what an H200 holds.
const MAX_BLOCKS: usize = 528;

/// Diagonal blocks, and the inverses of the diagonal.
struct Diagonals<T> {
    blocks: Buffer<T>,
    inverses: Buffer<T>,
}

impl<T: Scalar> Diagonals<T> {
    fn new(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Diagonals<T>> {
        let n = a.block.rows;
        let (blocks, inverses) = (gpu.allocate(a.rows * n * n)?, gpu.allocate(a.rows * n)?);
        let (from, to) = ([a.offsets.view(), a.columns.view(), a.values.view()], [blocks.view(), inverses.view()]);
        let arguments: [&dyn Argument; 7] =
            [&(a.rows as i64), &(n as i32), &from[0], &from[1], &from[2], &to[0], &to[1]];
        gpu.launch(kernel::<T>(gpu, "fsai_diagonals")?, a.rows * LANES, &arguments)?;
        Ok(Diagonals { blocks, inverses })
    }
}

fn kernel<T: Scalar>(gpu: &Gpu, name: &str) -> Result<Kernel> {
    gpu.kernel(&format!("{name}_{}", T::PRECISION.name()))
}

/// Numbers in the workspace of the system of a block row with so many block columns.
fn system_size(capacity: usize, n: usize) -> usize {
    let scalars = capacity * n;
    scalars * (scalars + 1) / 2 + 2 * scalars * n
}

/// Block rows of an adaptive factor at a stride, as kernels write them.
struct Rows<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    adaptive: Adaptive,
    diagonals: Diagonals<T>,
    /// Most blocks of a row beside the diagonal; two at least, for the workspace of a block that is appended.
    capacity: usize,
    columns: Buffer<i32>,
    values: Buffer<T>,
    lengths: Buffer<i32>,
    /// Scalar rows that broke down, and block rows that are left.
    counts: Buffer<i32>,
}

impl<'a, T: Scalar> Rows<'a, T> {
    fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, adaptive: &Adaptive) -> Result<Self> {
        let (rows, adaptive) = (a.rows, adaptive.for_block(a.block));
        let capacity = adaptive.capacity(rows).max(2);
        Ok(Rows {
            gpu,
            a,
            adaptive,
            diagonals: Diagonals::new(gpu, a)?,
            capacity,
            columns: gpu.allocate(rows * (capacity + 1))?,
            values: gpu.allocate(rows * (capacity + 1) * a.block.len())?,
            lengths: gpu.zeroed(rows)?,
            counts: gpu.zeroed(2)?,
        })
    }

    fn fits(&self, shared: &SharedCapacity) -> bool {
        self.capacity <= shared.columns && self.capacity * self.a.block.rows <= shared.scalars
    }

    /// Computes rows in shared memory: all, or those that are left. Returns how many were left so far, each time they were. Waits for
    /// the device.
    fn in_shared(&self, shared: &SharedCapacity, left: bool) -> Result<i32> {
        let (gpu, a, adaptive) = (self.gpu, self.a, &self.adaptive);
        let blocks = a.rows.div_ceil(shared.teams).clamp(1, MAX_BLOCKS);
        let arguments: [&dyn Argument; 18] = [
            &(a.rows as i64),
            &((blocks * shared.teams) as i32),
            &(a.block.rows as i32),
            &i32::from(left),
            &(adaptive.steps as i32),
            &(adaptive.entries as i32),
            &(self.capacity as i32),
            &adaptive.tolerance,
            &smallest_pivot::<T>().to_f64(),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &self.diagonals.blocks.view(),
            &self.diagonals.inverses.view(),
            &self.columns.view(),
            &self.values.view(),
            &self.lengths.view(),
            &self.counts.view(),
        ];
        gpu.launch(kernel::<T>(gpu, shared.kernel)?, blocks * BLOCK, &arguments)?;
        Ok(gpu.fetch(&self.counts)?[1])
    }

    /// Computes rows in global memory: all, or those that are left.
    fn in_global(&self, left: bool, workspace: usize) -> Result<()> {
        let (gpu, a, adaptive, capacity, n) = (self.gpu, self.a, &self.adaptive, self.capacity, self.a.block.rows);
        let most = ((capacity + 1) * longest_row(gpu, a.rows, &a.offsets)?).min(a.rows).max(1);
        let (numbers, keys, positions) = (system_size(capacity, n) + most, most + capacity, (capacity + 1) * most);
        let bytes = numbers * T::PRECISION.bytes() + 4 * (keys + positions);
        let groups = (workspace / bytes).clamp(1, MAX_GROUPS).min(a.rows.max(1));
        let [keys, positions] = [keys, positions].map(|length| gpu.allocate::<i32>(groups * length));
        let (numbers, keys, positions) = (gpu.allocate::<T>(groups * numbers)?, keys?, positions?);
        let arguments: [&dyn Argument; 22] = [
            &(a.rows as i64),
            &(groups as i32),
            &(n as i32),
            &i32::from(left),
            &(adaptive.steps as i32),
            &(adaptive.entries as i32),
            &(capacity as i32),
            &(most as i32),
            &adaptive.tolerance,
            &smallest_pivot::<T>().to_f64(),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &self.diagonals.blocks.view(),
            &self.diagonals.inverses.view(),
            &numbers.view(),
            &keys.view(),
            &positions.view(),
            &self.columns.view(),
            &self.values.view(),
            &self.lengths.view(),
            &self.counts.view(),
        ];
        gpu.launch(kernel::<T>(gpu, "fsai_blocks_global")?, groups * LANES, &arguments)
    }

    /// Compacts the rows.
    fn finish(self) -> Result<Factor<Gpu, T>> {
        let (gpu, a, stride, size) = (self.gpu, self.a, self.capacity + 1, self.a.block.len());
        let (offsets, total) = gpu.offsets(&self.lengths)?;
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total * size)?);
        let from = [self.columns.view(), self.values.view(), offsets.view()];
        let to = [columns.view(), values.view()];
        let arguments: [&dyn Argument; 8] =
            [&(a.rows as i64), &(stride as i32), &(size as i32), &from[0], &from[1], &from[2], &to[0], &to[1]];
        gpu.launch(kernel::<T>(gpu, "fsai_gather")?, a.rows * LANES, &arguments)?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        let g = DeviceCsr { rows: a.rows, cols: a.rows, block: a.block, offsets, columns, values };
        Ok(Factor { g: g.into(), breakdowns: gpu.fetch(&self.counts)?[0] as usize })
    }
}

/// The factor on an adaptive pattern, with about so many bytes of workspace. Rows that do not fit into shared memory are computed in
/// global memory. Waits for the device a few times.
pub(super) fn adaptive_factor<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    adaptive: &Adaptive,
    workspace: usize,
) -> Result<Factor<Gpu, T>> {
    let rows = Rows::new(gpu, a, adaptive)?;
    let kernels = [(a.block.rows == 3).then_some(&CAPACITY_OF_3), Some(&CAPACITY)];
    // Rows left before the last kernel and after it; none before the first.
    let mut left: Option<(i32, i32)> = None;
    for shared in kernels.into_iter().flatten().filter(|shared| rows.fits(shared)) {
        if left.is_none_or(|(before, after)| after > before) {
            let before = left.map_or(0, |(_, after)| after);
            left = Some((before, rows.in_shared(shared, left.is_some())?));
        }
    }
    if left.is_none_or(|(before, after)| after > before) {
        rows.in_global(left.is_some(), workspace)?;
    }
    rows.finish()
}

/// The factor on a pattern, with about so many bytes of workspace. Waits for the device twice.
pub(super) fn values_on<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    pattern: &DevicePattern,
    workspace: usize,
) -> Result<Factor<Gpu, T>> {
    let n = a.block.rows;
    let capacity = longest_row(gpu, a.rows, &pattern.offsets)?.saturating_sub(1).max(2);
    let size = system_size(capacity, n);
    let groups = (workspace / (size * T::PRECISION.bytes())).clamp(1, MAX_GROUPS).min(a.rows.max(1));
    let work = gpu.allocate::<T>(groups * size)?;
    let (to, breakdowns) = (gpu.allocate::<T>(pattern.nnz() * n * n)?, gpu.zeroed::<i32>(1)?);
    let diagonals = Diagonals::new(gpu, a)?;
    let arguments: [&dyn Argument; 14] = [
        &(a.rows as i64),
        &(groups as i32),
        &(n as i32),
        &(capacity as i32),
        &smallest_pivot::<T>().to_f64(),
        &a.offsets.view(),
        &a.columns.view(),
        &a.values.view(),
        &diagonals.blocks.view(),
        &pattern.offsets.view(),
        &pattern.columns.view(),
        &work.view(),
        &to.view(),
        &breakdowns.view(),
    ];
    let name = if n == 3 { "fsai_block_values_3" } else { "fsai_block_values_any" };
    gpu.launch(kernel::<T>(gpu, name)?, groups * LANES, &arguments)?;
    super::factor_of(gpu, pattern.with(to), &breakdowns)
}
