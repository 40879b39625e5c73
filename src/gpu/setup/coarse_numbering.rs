//! Coarse unknowns in device memory.

use super::DeviceAggregates;
use crate::backend::setup::{Coarse, CoarseSet, Held};
use crate::error::Result;
use crate::gpu::{Buffer, Gpu, Slice};

/// Unknowns that one block of threads numbers, as in `kernels/coarse_numbering.cu`.
const PIECE: usize = 4096;

/// Coarse unknowns in device memory.
pub(crate) type DeviceCoarse = Coarse<Gpu>;

/// A C/F splitting.
pub(crate) struct Splitting {
    /// Number of each coarse unknown on the coarse level, -1 for fine ones.
    pub number: Buffer<i32>,
    /// Coarse unknowns, of all ranks where set-up is divided.
    pub count: usize,
}

impl Held for Splitting {
    fn bytes(&self) -> usize {
        self.number.len() * size_of::<i32>()
    }
}

impl CoarseSet for Splitting {
    fn count(&self) -> usize {
        self.count
    }
}

impl Held for DeviceAggregates {
    fn bytes(&self) -> usize {
        self.of.len() * size_of::<i32>()
    }
}

impl CoarseSet for DeviceAggregates {
    fn count(&self) -> usize {
        self.count
    }
}

impl Splitting {
    /// Numbers the unknowns whose byte in `coarse` is not 0. Waits for the device.
    pub fn new(gpu: &Gpu, coarse: &Slice<u8>) -> Result<Splitting> {
        let n = coarse.len();
        let number = gpu.allocate::<i32>(n)?;
        if n == 0 {
            return Ok(Splitting { number, count: 0 });
        }
        let pieces = n.div_ceil(PIECE);
        let sums = gpu.allocate::<i64>(pieces + 1)?;
        let kernel = |name: &str| gpu.kernel(name);
        gpu.launch_blocks(kernel("coarse_numbering_sums")?, pieces, &[&(n as i64), &coarse.view(), &sums.view()])?;
        gpu.launch_blocks(kernel("scan_sums")?, 1, &[&(pieces as i64), &sums.view()])?;
        let arguments: [&dyn crate::gpu::Argument; 4] = [&(n as i64), &coarse.view(), &sums.view(), &number.view()];
        gpu.launch_blocks(kernel("coarse_numbers")?, pieces, &arguments)?;
        let count = gpu.fetch(sums.subslice(pieces, 1))?[0] as usize;
        Ok(Splitting { number, count })
    }

    /// The coarse unknowns, in order.
    pub fn coarse_unknowns(&self, gpu: &Gpu) -> Result<Buffer<i32>> {
        let (n, members) = (self.number.len(), gpu.allocate::<i32>(self.count)?);
        let kernel = gpu.kernel("coarse_unknowns")?;
        gpu.launch(kernel, n, &[&(n as i64), &self.number.view(), &members.view()])?;
        Ok(members)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gpu::tests::devices;
    use crate::hash::hash;

    #[test]
    fn coarse_unknowns_are_numbered_in_order() {
        for gpu in devices() {
            for n in [0, 1, 15, 16, 17, 4095, 4096, 4097, 9000] {
                let coarse: Vec<u8> = (0..n).map(|i| u8::from(hash(i, 5).is_multiple_of(3))).collect();
                let mut count = 0;
                let numbered = |c: &u8| {
                    count += i32::from(*c);
                    if *c == 1 { count - 1 } else { -1 }
                };
                let wanted: Vec<i32> = coarse.iter().map(numbered).collect();
                let splitting = Splitting::new(&gpu, &gpu.upload(&coarse).unwrap()).unwrap();
                assert_eq!(gpu.fetch(&splitting.number).unwrap(), wanted);
                assert_eq!(splitting.count, count as usize);
            }
        }
    }
}
