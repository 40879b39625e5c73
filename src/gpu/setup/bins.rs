//! Rows of a product, sorted by the kernel that each needs; see `kernels/spgemm.cu`.

use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::vector::ELEMENTS;
use crate::gpu::{Buffer, Gpu, Slice};
use std::ops::Range;

/// Bins; the last one has rows for which no table is large enough.
pub(super) const BINS: usize = 8;

/// The most that a row of each bin but the last may need.
pub(super) type Limits = [i32; BINS - 1];

/// Fewer rows than this part of all are not worth a launch of their own.
const FEW: usize = 16;

/// What rows need.
pub(super) struct Needs<'a> {
    /// Their terms.
    pub bounds: &'a Slice<i32>,
    /// The most terms for which there is a bin; rows with more need room for columns.
    pub most: i32,
    /// Columns, where they are known; else as many as terms.
    pub counts: Option<&'a Slice<i32>>,
    pub limits: Limits,
    /// The first so many bins are alike, so that a row may be in a later one of them.
    pub alike: usize,
}

/// The rows of each bin.
pub(super) struct Bins {
    counts: [usize; BINS],
    /// Bin by bin; none where one bin has all rows.
    list: Option<Buffer<i32>>,
}

impl Bins {
    /// The bins of rows with these needs, and the last of `offsets`, which counts on the same wait for the device.
    pub fn new(gpu: &Gpu, needs: &Needs<'_>, offsets: Option<&Slice<i64>>) -> Result<(Bins, usize)> {
        let n = needs.bounds.len();
        if n == 0 {
            return Ok((Bins { counts: [0; BINS], list: None }, 0));
        }
        let kernel = |name: &str| gpu.kernel(name);
        let (rows, bounds, found) = (n as i64, needs.bounds.view(), gpu.zeroed::<i64>(BINS + 1)?);
        let known = needs.counts.map_or(View::NONE, Slice::view);
        let offsets = offsets.map_or(View::NONE, Slice::view);
        let mut limits = needs.limits;
        let [a, b, c, d, e, f, g] = &limits;
        let threads = n.div_ceil(ELEMENTS * BLOCK) * BLOCK;
        let arguments =
            [&rows as &dyn Argument, &bounds, &needs.most, &known, a, b, c, d, e, f, g, &offsets, &found.view()];
        gpu.launch(kernel("spgemm_count_bins")?, threads, &arguments)?;
        let counted = gpu.fetch(&found)?;
        let mut counts: [usize; BINS] = std::array::from_fn(|b| counted[b] as usize);
        let total = counted[BINS] as usize;
        for bin in 1..needs.alike {
            if counts[bin - 1] * FEW < counts[bin] {
                counts[bin] += std::mem::take(&mut counts[bin - 1]);
                limits[bin - 1] = if bin > 1 { limits[bin - 2] } else { -1 };
            }
        }
        let mut list = None;
        if counts.iter().all(|count| *count < n) {
            let present = (0..BINS).filter(|b| counts[*b] > 0).fold(0_i32, |bits, b| bits | 1 << b);
            let starts: [i32; BINS] = std::array::from_fn(|b| counts[..b].iter().sum::<usize>() as i32);
            let (next, rows_of_bins) = (gpu.upload(&starts)?, gpu.room::<i32>(n)?);
            let (next, to) = (next.view(), rows_of_bins.view());
            let [a, b, c, d, e, f, g] = &limits;
            let arguments =
                [&rows as &dyn Argument, &bounds, &needs.most, &known, a, b, c, d, e, f, g, &present, &next, &to];
            gpu.launch(kernel("spgemm_list_bins")?, n, &arguments)?;
            list = Some(rows_of_bins);
        }
        Ok((Bins { counts, list }, total))
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
