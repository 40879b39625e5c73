//! Filtered prolongators: [`crate::host::filtered`] on the device.

use super::{DeviceCsr, DeviceNearNullSpace, DevicePattern, energy};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::Argument;
use crate::scalar::Scalar;
use std::sync::Arc;

/// As [`crate::backend::setup::NearNullVectors::filtered`]. Waits for the device once, unless there is a pattern.
pub(super) fn filtered<T: Scalar>(
    gpu: &Gpu,
    p: &DeviceCsr<T>,
    space: &DeviceNearNullSpace,
    share: f64,
    pattern: Option<&DevicePattern>,
) -> Result<DeviceCsr<T>> {
    let to = match pattern {
        Some(pattern) => DevicePattern::clone(pattern),
        None => kept_pattern(gpu, p, space, share)?,
    };
    let inverse = energy::gram_inverse(gpu, &to, None, space)?;
    let values = gpu.allocate::<T>(to.nnz() * to.block.len())?;
    let (rows, n, count) = (p.rows as i64, p.block.rows as i32, p.cols as i64);
    let (m, k) = (p.block.cols as i32, space.count as i32);
    let (vectors, inverse) = (space.vectors.view(), inverse.view());
    let (offsets, columns, from) = (p.offsets.view(), p.columns.view(), p.values.view());
    let (to_offsets, to_columns) = (to.offsets.view(), to.columns.view());
    let arguments: [&dyn Argument; 13] = [
        &rows,
        &n,
        &count,
        &m,
        &k,
        &vectors,
        &inverse,
        &offsets,
        &columns,
        &from,
        &to_offsets,
        &to_columns,
        &values.view(),
    ];
    let kernel = gpu.kernel(&format!("filtered_values_{}", T::PRECISION.name()))?;
    gpu.launch(kernel, p.rows * p.block.rows, &arguments)?;
    Ok(to.with(values))
}

/// The blocks that stay.
fn kept_pattern<T: Scalar>(
    gpu: &Gpu,
    p: &DeviceCsr<T>,
    space: &DeviceNearNullSpace,
    share: f64,
) -> Result<DevicePattern> {
    let (whole, blocks, rows) = (p.pattern(), p.nnz(), p.rows as i64);
    let (norms, kept) = (gpu.allocate::<f64>(blocks)?, gpu.allocate::<i32>(blocks)?);
    let kernel = gpu.kernel(&format!("filtered_norms_{}", T::PRECISION.name()))?;
    let (width, values) = (p.block.len() as i32, p.values.view());
    gpu.launch(kernel, blocks, &[&(blocks as i64), &width, &values, &norms.view()])?;
    let (lost, offsets) = (1.0 - share * share, p.offsets.view());
    let arguments: [&dyn Argument; 5] = [&rows, &lost, &offsets, &norms.view(), &kept.view()];
    gpu.launch(gpu.kernel("filtered_flags")?, p.rows * 32, &arguments)?;
    drop(norms);
    let inverse = energy::gram_inverse(gpu, &whole, Some(&kept), space)?;
    let (counts, columns) = (gpu.allocate::<i32>(p.rows)?, p.columns.view());
    let arguments: [&dyn Argument; 12] = [
        &rows,
        &(p.block.rows as i32),
        &(p.cols as i64),
        &(p.block.cols as i32),
        &(space.count as i32),
        &space.vectors.view(),
        &inverse.view(),
        &offsets,
        &columns,
        &values,
        &kept.view(),
        &counts.view(),
    ];
    gpu.launch(gpu.kernel(&format!("filtered_counts_{}", T::PRECISION.name()))?, p.rows, &arguments)?;
    drop(inverse);
    let (to_offsets, total) = gpu.offsets(&counts)?;
    let to_columns = gpu.allocate::<i32>(total)?;
    let arguments: [&dyn Argument; 6] =
        [&rows, &offsets, &columns, &kept.view(), &to_offsets.view(), &to_columns.view()];
    gpu.launch(gpu.kernel("filtered_columns")?, p.rows, &arguments)?;
    let (offsets, columns) = (Arc::new(to_offsets), Arc::new(to_columns));
    Ok(DevicePattern { rows: p.rows, cols: p.cols, block: p.block, offsets, columns })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::setup::NearNullVectors;
    use crate::gpu::setup::grid::GpuMatrix;
    use crate::gpu::tests::{devices, host};
    use crate::host::filtered::tests::prolongator;
    use crate::sparse::{Csr, NearNullSpace, SharedCsr};

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, p: &SharedCsr<T>, space: &NearNullSpace, share: f64) {
        let expected = space.filtered(&host(), &p.clone().into(), share, None).unwrap();
        let on_device: GpuMatrix<T> = DeviceCsr::upload(gpu, &p.view()).unwrap().into();
        let of_device = DeviceNearNullSpace::upload(gpu, space).unwrap();
        let found = of_device.filtered(gpu, &on_device, share, None).unwrap();
        let updated = filtered(gpu, &on_device, &of_device, share, Some(&found.pattern())).unwrap();
        let expected = expected.view().to_owned_as::<T>().unwrap();
        assert!(expected.columns.len() < p.view().columns.len(), "{name}");
        assert_eq!(found.fetch(gpu).unwrap(), expected, "{name}");
        assert_eq!(updated.fetch(gpu).unwrap(), expected, "{name} updated");
    }

    #[test]
    fn prolongators_are_those_of_the_host() {
        let (p, space) = prolongator();
        let narrow = p.view().to_owned_as::<f32>().unwrap().into_shared();
        // One vector; a row without entries, and one that is longer than what is filtered.
        let entry = |i: usize, j: usize| (i, j, 1.0 / (1 + (7 * i + 13 * j) % 31) as f64);
        let rows = (0..5).flat_map(|i| (0..[600, 3, 0, 40, 1][i]).map(move |j| entry(i, j)));
        let long = Csr::from_triplets(5, 600, &rows.collect::<Vec<_>>()).unwrap().into_shared();
        let ones = NearNullSpace { dofs_per_node: 1, count: 1, vectors: vec![0.5; 600] };
        for gpu in devices() {
            compare(&gpu, "elasticity", &p, &space, 0.97);
            compare(&gpu, "elasticity in f32", &narrow, &space, 0.9);
            compare(&gpu, "long rows", &long, &ones, 0.9);
        }
    }
}
