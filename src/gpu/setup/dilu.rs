//! The pivots of DILU on a GPU: [`crate::host::dilu`] on the device, with the same bits. The work is in `kernels/dilu.cu`.

use super::colouring::DeviceColouring;
use super::grid::GpuMatrix;
use crate::backend::dilu::{DiluPivots, Pivots, SMALLEST_PIVOT};
use crate::error::Result;
use crate::gpu::runtime::Argument;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;

/// Lanes for a row, as in `kernels/dilu.cu`.
const LANES: usize = 8;

impl DiluPivots for Gpu {
    fn dilu_pivots<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<Pivots<DeviceColouring, Buffer<T>>> {
        assert_eq!(a.block, Block::SCALAR);
        let colouring = DeviceColouring::new(self, &a.pattern())?;
        let (inverse, lost) = (self.zeroed::<T>(a.rows)?, self.zeroed::<T>(a.rows)?);
        let is_done = self.zeroed::<i32>(a.rows)?;
        let kernel = self.kernel(&format!("dilu_pivots_{}", T::PRECISION.name()))?;
        for colour in colouring.starts.windows(2) {
            let (first, count) = (colour[0] as i64, (colour[1] - colour[0]) as i64);
            let arguments: [&dyn Argument; 10] = [
                &first,
                &count,
                &SMALLEST_PIVOT,
                &colouring.rows.view(),
                &a.offsets.view(),
                &a.columns.view(),
                &a.values.view(),
                &is_done.view(),
                &inverse.view(),
                &lost.view(),
            ];
            self.launch(kernel, count as usize * LANES, &arguments)?;
        }
        Ok(Pivots { colouring, inverse, lost })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, narrow, problems};
    use super::super::{DeviceCsr, irregular};
    use super::*;
    use crate::host::dilu;
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let wanted = dilu::pivots(&a.view()).unwrap();
        for gpu in devices() {
            let found = gpu.dilu_pivots(&DeviceCsr::upload(&gpu, &a.view()).unwrap().into()).unwrap();
            assert_eq!(gpu.fetch(&found.inverse).unwrap(), wanted.inverse, "{name}");
            assert_eq!(gpu.fetch(&found.lost).unwrap(), wanted.lost, "{name}");
        }
    }

    #[test]
    fn pivots_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular::square()) {
            let a = a.view().to_scalar().unwrap();
            check(&a, &name);
            check(&narrow(&a), &name);
        }
    }
}
