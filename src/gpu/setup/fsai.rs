//! Adaptive FSAI on a GPU: [`crate::host::fsai`] on the device, with the same bits. The work is in `kernels/fsai.cu`.

use super::truncate::gather;
use super::{DeviceCsr, diagonal};
use crate::backend::fsai::{Adaptive, FsaiFactor};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::Argument;
use crate::scalar::Scalar;
use crate::sparse::Block;

/// Lanes of a row, as in `kernels/fsai.cu`.
const LANES: usize = 32;

/// Most rows that are computed at the same time: what a large device holds.
const MAX_GROUPS: usize = 1 << 14;

/// Bytes of workspace beyond which fewer rows are computed at the same time.
const WORKSPACE: usize = 1 << 29;

impl FsaiFactor for Gpu {
    fn fsai_factor<T: Scalar>(&self, a: &DeviceCsr<T>, adaptive: &Adaptive) -> Result<DeviceCsr<T>> {
        factor(self, a, adaptive, WORKSPACE)
    }
}

/// The factor G, with about so many bytes of workspace. Waits for the device twice.
fn factor<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, adaptive: &Adaptive, workspace: usize) -> Result<DeviceCsr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let (rows, capacity) = (a.rows, adaptive.capacity(a.rows));
    let longest = gpu.zeroed::<i32>(1)?;
    gpu.launch(gpu.kernel("fsai_longest")?, rows, &[&(rows as i64), &a.offsets.view(), &longest.view()])?;
    let longest = gpu.fetch(&longest)?[0] as usize;
    let most = ((capacity + 1) * longest).min(rows).max(LANES);
    let slots = (2 * most).next_power_of_two();
    let (triangle, size) = (capacity * (capacity + 1) / 2 + 2 * capacity, T::PRECISION.bytes());
    let bytes = slots * (8 + 2 * size + 2) + triangle * size + 4 * capacity;
    let groups = (workspace / bytes).clamp(1, MAX_GROUPS).min(rows.max(1));
    let (keys, places) = (gpu.zeroed::<i32>(groups * slots)?, gpu.allocate::<i32>(groups * slots)?);
    let (couplings, gradients) = (gpu.allocate::<T>(groups * slots)?, gpu.allocate::<T>(groups * slots)?);
    let (used, counts) = (gpu.allocate::<i32>(groups * slots / 2)?, gpu.zeroed::<i32>(groups)?);
    let (pattern, work) = (gpu.allocate::<i32>(groups * capacity)?, gpu.allocate::<T>(groups * triangle)?);
    let stride = capacity + 1;
    let (to_columns, to_values) = (gpu.allocate::<i32>(rows * stride)?, gpu.allocate::<T>(rows * stride)?);
    let lengths = gpu.allocate::<i32>(rows)?;
    let diagonals = diagonal::entries(gpu, a)?;
    let smallest = Adaptive::smallest_pivot::<T>().to_f64();
    let arguments: [&dyn Argument; 23] = [
        &(rows as i64),
        &(groups as i32),
        &(adaptive.steps as i32),
        &(adaptive.entries as i32),
        &(capacity as i32),
        &(slots as i32),
        &adaptive.tolerance,
        &smallest,
        &a.offsets.view(),
        &a.columns.view(),
        &a.values.view(),
        &diagonals.view(),
        &keys.view(),
        &places.view(),
        &couplings.view(),
        &gradients.view(),
        &used.view(),
        &counts.view(),
        &pattern.view(),
        &work.view(),
        &to_columns.view(),
        &to_values.view(),
        &lengths.view(),
    ];
    gpu.launch(gpu.kernel(&format!("fsai_{}", T::PRECISION.name()))?, groups * LANES, &arguments)?;
    gather(gpu, (rows, rows), stride, (to_columns, to_values), &lengths)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{irregular, narrow, problems, rotating_devices};
    use super::*;
    use crate::host::fsai;
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        for (steps, entries, tolerance) in [(6, 1, 1e-3), (3, 3, 0.0), (40, 1, 0.0)] {
            let adaptive = Adaptive { steps, entries, tolerance };
            let wanted = fsai::factor(&a.view(), &adaptive).unwrap();
            for gpu in rotating_devices() {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                for workspace in [WORKSPACE, 0] {
                    let g = factor(&gpu, &on_device, &adaptive, workspace).unwrap();
                    assert_eq!(g.fetch(&gpu).unwrap(), wanted, "{name} {adaptive:?} {workspace}");
                }
            }
        }
    }

    #[test]
    fn factors_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
        }
        let (name, a) = problems().remove(2);
        check(&narrow(&a), &name);
    }
}
