//! Matrices of several unknown functions: [`crate::host::functions`] on the device, in `kernels/functions.cu`.

use super::coarse_numbering::Splitting;
use super::lanes::lanes;
use super::{DeviceCsr, DevicePattern};
use crate::backend::parameters::MAX_FUNCTIONS;
use crate::backend::setup::Held;
use crate::error::Result;
use crate::gpu::runtime::bits_of;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// The function of each unknown of a level.
pub(crate) struct DeviceFunctions {
    of: Buffer<u8>,
}

impl DeviceFunctions {
    /// As [`crate::host::functions::Functions::interleaved`].
    pub fn interleaved(gpu: &Gpu, unknowns: usize, count: usize) -> Result<DeviceFunctions> {
        assert!(count <= MAX_FUNCTIONS);
        let of = gpu.allocate::<u8>(unknowns)?;
        let kernel = gpu.kernel("interleaved_functions")?;
        gpu.launch(kernel, unknowns, &[&(unknowns as i64), &(count as i32), &of.view()])?;
        Ok(DeviceFunctions { of })
    }

    /// As [`crate::host::functions::Functions::per_unknown`].
    pub fn per_unknown(gpu: &Gpu, of: &[u8]) -> Result<DeviceFunctions> {
        Ok(DeviceFunctions { of: gpu.upload(of)? })
    }

    /// As [`crate::host::functions::Functions::coarse`].
    pub fn coarse(&self, gpu: &Gpu, coarse: &Splitting) -> Result<DeviceFunctions> {
        let (n, of) = (self.of.len(), gpu.allocate::<u8>(coarse.count)?);
        let kernel = gpu.kernel("functions_coarse")?;
        gpu.launch(kernel, n, &[&(n as i64), &self.of.view(), &coarse.number.view(), &of.view()])?;
        Ok(DeviceFunctions { of })
    }

    /// As [`crate::host::functions::Functions::within`]. Waits for the device.
    pub fn within<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>) -> Result<DeviceCsr<T>> {
        assert_eq!(a.block, Block::SCALAR);
        let (lanes, counts) = (lanes(a.nnz(), a.rows), gpu.allocate::<i32>(a.rows)?);
        let count = gpu.kernel(&format!("functions_count_{lanes}"))?;
        let views = [a.offsets.view(), a.columns.view(), self.of.view(), counts.view()];
        let [from, columns, functions, to] = &views;
        gpu.launch(count, a.rows * lanes, &[&(a.rows as i64), from, columns, functions, to])?;
        let (offsets, nnz) = gpu.offsets(&counts)?;
        drop(counts);
        let columns = Arc::new(gpu.allocate::<i32>(nnz)?);
        let values = self.fill(gpu, a, offsets.view(), columns.view(), nnz)?;
        let (offsets, values) = (Arc::new(offsets), Arc::new(values));
        Ok(DeviceCsr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
    }

    /// The same where the pattern of the result is known. Waits for nothing.
    pub fn numeric<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, pattern: &DevicePattern) -> Result<DeviceCsr<T>> {
        Ok(pattern.with(self.fill(gpu, a, pattern.offsets.view(), View::NONE, pattern.nnz())?))
    }

    fn fill<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, to: View, columns: View, nnz: usize) -> Result<Buffer<T>> {
        let (lanes, values) = (lanes(a.nnz(), a.rows), gpu.allocate::<T>(nnz)?);
        let kernel = gpu.kernel(&format!("functions_within_{}_{lanes}", bits_of::<T>()))?;
        let arguments: [&dyn Argument; 8] = [
            &(a.rows as i64),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view().bits(),
            &self.of.view(),
            &to,
            &columns,
            &values.view().bits(),
        ];
        gpu.launch(kernel, a.rows * lanes, &arguments)?;
        Ok(values)
    }
}

impl Held for DeviceFunctions {
    fn bytes(&self) -> usize {
        self.of.len()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::irregular;
    use super::super::tests::{narrow, problems};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::functions::Functions;
    use crate::sparse::Csr;

    fn same_as_the_host<T: Scalar>(
        gpu: &Gpu,
        a: &Csr<T>,
        on_host: &Functions,
        on_device: &DeviceFunctions,
        what: &str,
    ) {
        let expected = on_host.within(&a.view()).unwrap();
        let matrix = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let within = on_device.within(gpu, &matrix).unwrap();
        let got = within.fetch(gpu).unwrap();
        assert_eq!((got.rows, got.cols, got.block), (expected.rows, expected.cols, expected.block), "{what}");
        assert_eq!((&got.offsets, &got.columns), (&expected.offsets, &expected.columns), "{what}");
        assert_eq!(got.values, expected.values, "{what}");
        let waits = gpu.waits();
        let updated = on_device.numeric(gpu, &matrix, &within.pattern()).unwrap();
        assert_eq!(gpu.waits(), waits, "{what}");
        assert_eq!(updated.fetch(gpu).unwrap().values, expected.values, "{what}");
    }

    #[test]
    fn functions_are_those_of_the_host() {
        for gpu in devices() {
            for (name, a) in problems().into_iter().chain(irregular::square()).filter(|(_, a)| a.block == Block::SCALAR)
            {
                for count in [1, 3] {
                    let (on_host, on_device) = (
                        Functions::interleaved(a.rows, count).unwrap(),
                        DeviceFunctions::interleaved(&gpu, a.rows, count).unwrap(),
                    );
                    assert_eq!(gpu.fetch(&on_device.of).unwrap(), on_host.as_slice(), "{name}");
                    same_as_the_host(&gpu, &a, &on_host, &on_device, &name);
                    same_as_the_host(&gpu, &narrow(&a), &on_host, &on_device, &format!("{name} in f32"));
                    let coarse: Vec<bool> = (0..a.rows).map(|i| hash(i, 5).is_multiple_of(3)).collect();
                    let bytes: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
                    let splitting = Splitting::new(&gpu, &gpu.upload(&bytes).unwrap()).unwrap();
                    let on_host = on_host.coarse(&coarse).unwrap();
                    let on_device = on_device.coarse(&gpu, &splitting).unwrap();
                    assert_eq!(gpu.fetch(&on_device.of).unwrap(), on_host.as_slice(), "{name}");
                }
            }
        }
    }
}
