//! Whether a matrix is symmetric, on a GPU: `kernels/symmetry.cu`.

use super::DeviceCsr;
use crate::backend::common::{SYMMETRY_SEED, Symmetry};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::BLOCK;
use crate::scalar::Scalar;

/// Lanes for a row, as in the kernel.
const LANES: usize = 8;

/// Blocks of threads that fill a GPU. Each leaves its sums.
const MAX_BLOCKS: usize = 1024;

/// Sums that a block leaves.
const SUMS: usize = 4;

/// As [`crate::host::symmetry::symmetry`], but for the order of sums. Synchronises.
pub(crate) fn symmetry<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Symmetry> {
    let blocks = (a.rows * LANES).div_ceil(BLOCK).clamp(1, MAX_BLOCKS);
    let sums = gpu.zeroed::<f64>(blocks * SUMS)?;
    let kernel = gpu.kernel(&format!("symmetry_{}", T::PRECISION.name()))?;
    let (rows, height, width) = (a.rows as i64, a.block.rows as i32, a.block.cols as i32);
    let [offsets, columns, values] = [a.offsets.view(), a.columns.view(), a.values.view()];
    let seed = SYMMETRY_SEED as i32;
    gpu.launch(kernel, blocks * BLOCK, &[&rows, &height, &width, &seed, &offsets, &columns, &values, &sums.view()])?;
    let parts = gpu.fetch(&sums)?;
    Ok(parts.chunks(SUMS).fold(Symmetry::default(), |sum, part| {
        sum.plus(Symmetry { difference: part[0], squares: part[1], positive: part[2] as u64, negative: part[3] as u64 })
    }))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::one_of_each;
    use crate::host::symmetry::symmetry as on_host;

    #[test]
    fn sums_are_those_of_the_host() {
        for gpu in one_of_each() {
            for name in ["poisson7:9", "convection_diffusion:25", "elasticity:4", "hubs:200", "poisson5:1"] {
                let a = gallery::parse(name).unwrap().matrix;
                let (found, wanted) = (
                    symmetry(&gpu, &DeviceCsr::upload(&gpu, &a.view()).unwrap()).unwrap(),
                    on_host(&a.view()).unwrap(),
                );
                assert_eq!((found.positive, found.negative), (wanted.positive, wanted.negative), "{name}");
                assert!((found.squares - wanted.squares).abs() <= 1e-12 * wanted.squares, "{name}");
                assert!((found.difference - wanted.difference).abs() <= 1e-12 * wanted.squares.sqrt(), "{name}");
                assert_eq!(found.is_symmetric::<f64>(), wanted.is_symmetric::<f64>(), "{name}");
            }
        }
    }
}
