//! Scalar matrices in tiles of 4 x 4 (`kernels/matrix_tiles.h`). A tile that holds an entry is stored, with a bit for
//! each entry and zeros elsewhere. SpGEMM of matrices with dense tiles uses them.

use super::{DeviceCsr, DevicePattern};
use crate::error::Result;
use crate::gpu::runtime::bits_of;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sparse::Block;

/// Rows and columns of a tile.
pub(in crate::gpu) const SIDE: usize = 4;

/// Lanes of teams that find the tiles of a tile row, with hash tables of 256 and of 3072 slots.
const TEAMS: [usize; 2] = [32, 256];

/// Most blocks of threads of the first kernel of a cascade, and of the others, for which few rows are left.
const MAX_BLOCKS: usize = 1 << 16;
const MAX_REST_BLOCKS: usize = 1 << 10;

/// Tile rows of a sample.
const SAMPLE_ROWS: usize = 4096;

/// A matrix in tiles.
pub(in crate::gpu) struct DeviceTiles<T> {
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
    /// Bit 4 r + c for an entry in row r and column c of a tile.
    pub maps: Buffer<u16>,
    /// Values of the tiles, each row by row, and a tile of zeros at the end.
    pub values: Buffer<T>,
}

impl<T: Number> DeviceTiles<T> {
    /// A scalar matrix in tiles. None if a tile row has more tiles than the largest table holds, or if the number of
    /// tiles exceeds 32 bits. Waits for the device.
    pub fn of(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Option<DeviceTiles<T>>> {
        assert_eq!(a.block, Block::SCALAR);
        let tile_rows = a.rows.div_ceil(SIDE);
        let (rows, pattern) = (a.rows as i64, (a.offsets.view(), a.columns.view()));
        let counts = gpu.allocate::<i32>(tile_rows)?;
        let teams = TEAMS.map(|lanes| (lanes, (tile_rows * lanes).div_ceil(BLOCK)));
        let left = cascade(gpu, tile_rows, &teams, |lanes, n, list, blocks, more| {
            let kernel = gpu.kernel(&format!("tiles_count_{lanes}"))?;
            let arguments: [&dyn Argument; 7] = [&n, &list, &rows, &pattern.0, &pattern.1, &counts.view(), &more];
            gpu.launch_blocks(kernel, blocks, &arguments)
        })?;
        let (offsets, total) = gpu.offsets(&counts)?;
        if gpu.fetch(left.subslice(0, 1))?[0] > 0 || total >= i32::MAX as usize {
            return Ok(None);
        }
        let (columns, maps) = (gpu.allocate::<i32>(total)?, gpu.allocate::<u16>(total)?);
        let values = gpu.allocate::<T>((total + 1) * SIDE * SIDE)?;
        cascade(gpu, tile_rows.max(1), &teams, |lanes, _, list, blocks, more| {
            let kernel = gpu.kernel(&format!("tiles_fill_{lanes}_{}", bits_of::<T>()))?;
            let n = tile_rows as i64;
            let (from, to) = (a.values.view().bits(), offsets.view());
            let (columns, maps, values) = (columns.view(), maps.view(), values.view().bits());
            let arguments: [&dyn Argument; 11] =
                [&n, &list, &rows, &pattern.0, &pattern.1, &from, &to, &columns, &maps, &values, &more];
            gpu.launch_blocks(kernel, blocks.max(1), &arguments)
        })?;
        Ok(Some(DeviceTiles { offsets, columns, maps, values }))
    }

    /// Pattern and values, as kernels take them.
    pub fn views(&self) -> [View<'_>; 4] {
        [self.offsets.view(), self.columns.view(), self.maps.view(), self.values.view()]
    }
}

/// Adds the numbers of tiles and entries of a sample of the matrix, in CSR, to the two numbers of `sums`.
pub(in crate::gpu) fn sample(gpu: &Gpu, a: &DevicePattern, sums: &Slice<i64>) -> Result<()> {
    let wanted = (a.rows * a.block.rows).div_ceil(SIDE).min(SAMPLE_ROWS);
    let (rows, height, width) = (a.rows as i64, a.block.rows as i32, a.block.cols as i32);
    let (offsets, columns, own) = (a.offsets.view(), a.columns.view(), sums.view());
    let arguments: [&dyn Argument; 7] = [&rows, &height, &width, &(wanted as i64), &offsets, &columns, &own];
    gpu.launch(gpu.kernel("tiles_sample")?, wanted * TEAMS[0], &arguments)
}

/// Entries of a tile in a sample of each matrix. Waits for the device.
pub(in crate::gpu) fn densities<T: Number, const N: usize>(
    gpu: &Gpu,
    matrices: [&DeviceCsr<T>; N],
) -> Result<[f64; N]> {
    let sums = gpu.zeroed::<i64>(2 * N)?;
    for (k, a) in matrices.iter().enumerate() {
        sample(gpu, &a.pattern(), sums.subslice(2 * k, 2))?;
    }
    let sums = gpu.fetch(&sums)?;
    Ok(std::array::from_fn(|k| sums[2 * k + 1] as f64 / sums[2 * k].max(1) as f64))
}

/// Launches a cascade of kernels: the first on all of `n` rows, each other one on the list of rows that the one before
/// left. Returns the last list.
pub(super) fn cascade<K: Copy>(
    gpu: &Gpu,
    n: usize,
    kinds: &[(K, usize)],
    launch: impl Fn(K, i64, View, usize, View) -> Result<()>,
) -> Result<Buffer<i32>> {
    let mut list: Option<Buffer<i32>> = None;
    for (kind, blocks) in kinds {
        let more = gpu.list(n)?;
        let most = if list.is_some() { MAX_REST_BLOCKS } else { MAX_BLOCKS };
        let left: View = list.as_deref().map_or(View::NONE, Slice::view);
        launch(*kind, n as i64, left, (*blocks).min(most), more.view())?;
        list = Some(more);
    }
    list.map_or_else(|| gpu.list(0), Ok)
}
