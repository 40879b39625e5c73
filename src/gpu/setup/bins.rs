//! Rows of a product, sorted by the table in shared memory that each needs; see `kernels/spgemm.cu`.

use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::vector::ELEMENTS;
use crate::gpu::{Buffer, Gpu, Slice};
use std::ops::Range;

/// Bins; the last one has rows for which no table is large enough.
pub(super) const BINS: usize = 7;

/// The most that a row of each bin but the last may need.
pub(super) type Limits = [i32; BINS - 1];

/// The rows of each bin.
pub(super) struct Bins {
    counts: [usize; BINS],
    /// Bin by bin; none where one bin has all rows.
    list: Option<Buffer<i32>>,
}

impl Bins {
    /// The bins of rows of these sizes, and the last of `offsets`, which counts on the same wait for the device.
    pub fn new(gpu: &Gpu, sizes: &Slice<i32>, limits: Limits, offsets: Option<&Slice<i64>>) -> Result<(Bins, usize)> {
        let n = sizes.len();
        if n == 0 {
            return Ok((Bins { counts: [0; BINS], list: None }, 0));
        }
        let kernel = |name: &str| gpu.runtime().kernel(name);
        let (rows, sizes, found) = (n as i64, sizes.view(), gpu.zeroed::<i64>(BINS + 1)?);
        let offsets = offsets.map_or(View::NONE, Slice::view);
        let [a, b, c, d, e, f] = &limits;
        let threads = n.div_ceil(ELEMENTS * BLOCK) * BLOCK;
        let arguments = [&rows as &dyn Argument, &sizes, a, b, c, d, e, f, &offsets, &found.view()];
        gpu.launch(kernel("spgemm_count_bins")?, threads, &arguments)?;
        let counted = gpu.fetch(&found)?;
        let counts: [usize; BINS] = std::array::from_fn(|b| counted[b] as usize);
        let mut list = None;
        if counts.iter().all(|count| *count < n) {
            let (next, rows_of_bins) = (gpu.zeroed::<i32>(BINS)?, gpu.room::<i32>(n)?);
            let (found, next, to) = (found.view(), next.view(), rows_of_bins.view());
            let arguments = [&rows as &dyn Argument, &sizes, a, b, c, d, e, f, &found, &next, &to];
            gpu.launch(kernel("spgemm_list_bins")?, n, &arguments)?;
            list = Some(rows_of_bins);
        }
        Ok((Bins { counts, list }, counted[BINS] as usize))
    }

    /// How many rows some neighbouring bins have, and them as kernels take them: all where there is no list.
    pub fn rows(&self, bins: Range<usize>) -> (usize, View) {
        let start = self.counts[..bins.start].iter().sum();
        let count = self.counts[bins].iter().sum();
        (count, self.list.as_ref().map_or(View::NONE, |list| list.piece(start, count).view()))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.list.as_ref().map_or(0, |list| size_of::<i32>() * list.len())
    }
}
