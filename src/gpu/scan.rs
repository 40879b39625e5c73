//! Exclusive scan: offsets from counts.

use super::runtime::View;
use super::{Argument, Buffer, Gpu, Slice};
use crate::error::Result;

/// Counts that a block of threads scans, as in `kernels/scan.cu`.
const PIECE: usize = 4096;

/// Most pieces whose sums each block adds itself; the sums of more pieces are scanned by a kernel.
const MAX_UNSCANNED_SUMS: usize = 512;

impl Gpu {
    /// The exclusive scan of counts with the total at the end, and the total. Waits for the device.
    #[allow(dead_code)] // as in setup
    pub(crate) fn offsets(&self, counts: &Slice<i32>) -> Result<(Buffer<i64>, usize)> {
        let offsets = self.offsets_alone(counts)?;
        let total = self.fetch(offsets.subslice(counts.len(), 1))?[0];
        Ok((offsets, total as usize))
    }

    /// The same without the total on the host. Does not wait for the device.
    #[allow(dead_code)] // as in setup
    pub(crate) fn offsets_alone(&self, counts: &Slice<i32>) -> Result<Buffer<i64>> {
        self.offsets_and(counts, View::NONE)
    }

    /// The same. The total is also added to `total` on the device, which is 0 before.
    pub(crate) fn offsets_with(&self, counts: &Slice<i32>, total: &Slice<i64>) -> Result<Buffer<i64>> {
        self.offsets_and(counts, total.view())
    }

    fn offsets_and(&self, counts: &Slice<i32>, total: View) -> Result<Buffer<i64>> {
        let n = counts.len();
        if n == 0 {
            return self.zeroed(1);
        }
        let pieces = n.div_ceil(PIECE);
        let (offsets, sums) = (self.allocate::<i64>(n + 1)?, self.allocate::<i64>(pieces + 1)?);
        let (kernel, summed) = (|name: &str| self.kernel(name), pieces > MAX_UNSCANNED_SUMS);
        if pieces > 1 {
            self.launch_blocks(kernel("scan_pieces")?, pieces, &[&(n as i64), &counts.view(), &sums.view()])?;
        }
        if summed {
            self.launch_blocks(kernel("scan_sums")?, 1, &[&(pieces as i64), &sums.view()])?;
        }
        let arguments: [&dyn Argument; 6] =
            [&(n as i64), &i32::from(summed), &counts.view(), &sums.view(), &offsets.view(), &total];
        self.launch_blocks(kernel("scan_offsets")?, pieces, &arguments)?;
        Ok(offsets)
    }
}
