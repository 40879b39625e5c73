//! Checksums of values in device memory: `kernels/checksum.cu`.

use super::runtime::BLOCK;
use super::{Gpu, Slice};
use crate::error::Result;
use crate::scalar::Scalar;

/// Blocks of threads that fill a GPU; each adds several hashes.
const MAX_BLOCKS: usize = 1024;

impl Gpu {
    /// The wrapping sum of the hashes of all values and their places. Synchronises.
    pub(crate) fn checksum<T: Scalar>(&self, values: &Slice<T>) -> Result<u64> {
        let sum = self.zeroed::<i64>(1)?;
        let kernel = self.kernel(&format!("checksum_{}", T::PRECISION.name()))?;
        let n = values.len();
        self.launch(kernel, n.min(MAX_BLOCKS * BLOCK), &[&(n as i64), &values.view(), &sum.view()])?;
        Ok(self.fetch(&sum)?[0] as u64)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use crate::gpu::tests::devices;
    use crate::hash::hash;

    #[test]
    fn checksums_are_those_of_the_host() {
        for n in [0, 1, 1000, 300_000] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i % 17) - 3.5).collect();
            let narrow: Vec<f32> = values.iter().map(|v| *v as f32).collect();
            let hashes = values.iter().enumerate().map(|(i, v)| hash(i, v.to_bits()));
            let sum = hashes.fold(0, u64::wrapping_add);
            for gpu in devices() {
                assert_eq!(gpu.checksum(&gpu.upload(&values).unwrap()).unwrap(), sum, "{n}");
                assert_eq!(gpu.checksum(&gpu.upload(&narrow).unwrap()).unwrap(), sum, "{n}");
            }
        }
    }
}
