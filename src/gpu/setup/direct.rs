//! Direct interpolation on a GPU. The work is in `kernels/direct.cu`.

use super::coarse_numbering::Splitting;
use super::truncate::Rows;
use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::parameters::Truncation;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::Argument;
use crate::scalar::Scalar;
use crate::sparse::Block;

/// As [`crate::host::direct::interpolate`]; with `pattern`, each row keeps the columns that it has there.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    truncation: Truncation,
    pattern: Option<&DevicePattern>,
) -> Result<DeviceCsr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let capacity = a.nnz() + a.rows;
    let (columns, values) = (gpu.allocate::<i32>(capacity)?, gpu.allocate::<T>(capacity)?);
    let lengths = gpu.allocate::<i32>(a.rows)?;
    let lanes = if a.nnz() > 12 * a.rows { 32 } else { 8 };
    let kernel = gpu.kernel(&format!("direct_{}_{lanes}", T::PRECISION.name()))?;
    let arguments: [&dyn Argument; 10] = [
        &(a.rows as i64),
        &a.offsets.view(),
        &a.columns.view(),
        &a.values.view(),
        &coarse.number.view(),
        &s.offsets.view(),
        &s.columns.view(),
        &columns.view(),
        &values.view(),
        &lengths.view(),
    ];
    gpu.launch(kernel, a.rows * lanes, &arguments)?;
    let (offsets, lengths) = (&**a.offsets, Some(&*lengths));
    let rows = Rows { count: a.rows, cols: coarse.count, offsets, lengths, columns: &columns, values: &values };
    rows.truncated(gpu, truncation, pattern)
}

/// The component.
pub(crate) struct Direct;

impl<T: Scalar> Interpolation<Gpu, T> for Direct {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let coarse = input.splitting("direct")?;
        let pattern = input.pattern().map(|pattern| &**pattern);
        let p = interpolate(input.setup, input.a, input.graph, coarse, input.truncation, pattern)?;
        Ok(Interpolated::alone(p.into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, narrow, problems, splittings, upload};
    use super::*;
    use crate::host::{direct, strength};
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::absolute(&view, 0.1).unwrap();
        for coarse in splittings(&s) {
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            for (max_entries, factor) in [(4, 0.0), (0, 0.0), (3, 0.3), (0, 0.4)] {
                let cut = Truncation::new(max_entries, factor);
                let wanted = direct::interpolate(&view, &s, &coarse, cut, None).unwrap();
                let all = Truncation::new(0, 0.0);
                let structure = wanted.clone().into_shared().structure;
                let kept = direct::interpolate(&view, &s, &coarse, all, Some(&*structure)).unwrap();
                for gpu in devices() {
                    let (on_device, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let p = interpolate(&gpu, &on_device, &graph, &splitting, cut, None).unwrap();
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name} {max_entries} {factor}");
                    let again = interpolate(&gpu, &on_device, &graph, &splitting, all, Some(&p.pattern())).unwrap();
                    assert_eq!(again.fetch(&gpu).unwrap(), kept, "{name} {max_entries} {factor}, again");
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
        }
        let (name, a) = irregular().pop().unwrap();
        check(&narrow(&a), &name);
    }
}
