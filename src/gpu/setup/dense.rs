//! The inverse of the coarsest matrix: [`crate::host::dense`] on the device.

use super::DeviceCsr;
use crate::backend::common::{TINY, rounding_bound};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, tag};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::{Number, Scalar};

/// Elements of a thread, and pivots that are found at a time, as in `kernels/dense_inverse.cu`.
const ELEMENTS: usize = 4;
const PANEL: usize = 16;

/// The inverse of a small matrix, row by row, computed in f64; a generalised one where the matrix is singular. Waits
/// for the device once.
pub(crate) fn inverse<T: Scalar, S: Number>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<S>> {
    let rows = a.scalar_rows();
    let out = gpu.allocate::<S>(rows * rows)?;
    if rows == 0 {
        return Ok(out);
    }
    let blocks = (rows * rows).div_ceil(BLOCK * ELEMENTS);
    let n = rows as i64;
    let kernel = |name: &str| gpu.kernel(name);
    // Whether the elimination failed, the largest entry, and the last pivots.
    let status = gpu.zeroed::<u64>(3)?;
    let dense = gpu.zeroed::<f64>(rows * rows)?;
    let (br, bc) = (a.block.rows as i32, a.block.cols as i32);
    let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let arguments: [&dyn Argument; 8] = [&n, &br, &bc, &offsets, &columns, &values, &dense.view(), &status.view()];
    gpu.launch(kernel(&format!("dense_fill_{}", T::PRECISION.name()))?, rows, &arguments)?;

    let m = gpu.allocate::<f64>(rows * rows)?;
    let (diagonal, left) = (gpu.allocate::<f64>(rows)?, gpu.allocate::<f64>(rows)?);
    let arguments: [&dyn Argument; 6] = [&n, &dense.view(), &m.view(), &diagonal.view(), &left.view(), &status.view()];
    gpu.launch_blocks(kernel("dense_symmetric")?, blocks, &arguments)?;
    let panel = kernel(if rows <= BLOCK { "dense_panel_small" } else { "dense_panel" })?;
    let (sweep, tiny) = (kernel("dense_sweep")?, rounding_bound::<T>(rows));
    let (positions, pivots) = (gpu.allocate::<i64>(PANEL)?, gpu.allocate::<f64>(PANEL)?);
    let (pivot_rows, factors) = (gpu.allocate::<f64>(PANEL * rows)?, gpu.allocate::<f64>(PANEL * rows)?);
    for _ in 0..rows.div_ceil(PANEL) {
        let arguments: [&dyn Argument; 10] = [
            &n,
            &tiny,
            &diagonal.view(),
            &m.view(),
            &left.view(),
            &positions.view(),
            &pivots.view(),
            &pivot_rows.view(),
            &factors.view(),
            &status.view(),
        ];
        gpu.launch_blocks(panel, 1, &arguments)?;
        let arguments: [&dyn Argument; 7] =
            [&n, &positions.view(), &pivots.view(), &pivot_rows.view(), &factors.view(), &m.view(), &status.view()];
        gpu.launch(sweep, rows * rows, &arguments)?;
    }
    let (format, result) = (tag::<S>(), out.view());
    let arguments: [&dyn Argument; 8] =
        [&n, &tiny, &diagonal.view(), &m.view(), &left.view(), &format, &result, &status.view()];
    gpu.launch_blocks(kernel("dense_swept")?, blocks, &arguments)?;
    if gpu.fetch(status.subslice(0, 1))?[0] == 0 {
        return Ok(out);
    }
    eliminate(gpu, rows, [dense, m], &status)
}

/// The inverse of a matrix that is not symmetric positive semidefinite, with an array to work in. One launch for each
/// row.
fn eliminate<S: Number>(gpu: &Gpu, rows: usize, a: [Buffer<f64>; 2], status: &Buffer<u64>) -> Result<Buffer<S>> {
    let kernel = |name: &str| gpu.kernel(name);
    let n = rows as i64;
    let inverse = [gpu.zeroed::<f64>(rows * rows)?, gpu.allocate(rows * rows)?];
    gpu.launch(kernel("dense_identity")?, rows, &[&n, &inverse[0].view()])?;
    let (step, share) = (kernel("dense_eliminate")?, TINY * rows as f64);
    for k in 0..rows {
        let (from, to) = (k % 2, 1 - k % 2);
        let arguments: [&dyn Argument; 8] = [
            &n,
            &(k as i64),
            &share,
            &a[from].view(),
            &inverse[from].view(),
            &a[to].view(),
            &inverse[to].view(),
            &status.view(),
        ];
        gpu.launch_blocks(step, (rows * rows).div_ceil(BLOCK * ELEMENTS), &arguments)?;
    }
    let mut out = gpu.allocate::<S>(rows * rows)?;
    crate::backend::Backend::copy(gpu, &inverse[rows % 2], &mut out);
    Ok(out)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::host::dense;
    use crate::sparse::Csr;
    use half::f16;

    fn compare<T: Scalar, S: Number>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let found = gpu.fetch(&inverse::<T, S>(gpu, &on_device).unwrap()).unwrap();
        let expected: Vec<S> = dense::inverse(&a.view()).unwrap();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn inverses_are_those_of_the_host() {
        let poisson = gallery::poisson5(7, 5).unwrap();
        // A ring and a single unknown: singular, and on scales far apart.
        let mut ring: Vec<(usize, usize, f64)> = vec![(5, 5, 1e6)];
        for i in 0..5 {
            let j = (i + 1) % 5;
            ring.extend([(i, j, -1.0), (j, i, -1.0), (i, i, 1.0), (j, j, 1.0)]);
        }
        let ring = Csr::from_triplets(6, 6, &ring).unwrap();
        let indefinite = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)]).unwrap();
        let exchange = [(0, 1, 2.0), (1, 0, 1.0), (1, 1, 1.0), (2, 2, -5.0), (2, 0, 1.0), (3, 3, 0.0)];
        let exchange = Csr::from_triplets(4, 4, &exchange).unwrap();
        let blocks = gallery::elasticity_hex8(2, gallery::Layers::NONE, true).unwrap().matrix;
        for gpu in devices() {
            for (name, a) in [("ring", &ring), ("indefinite", &indefinite), ("exchange", &exchange)] {
                compare::<f64, f64>(&gpu, name, a);
            }
            compare::<f64, f64>(&gpu, "poisson", &poisson);
            compare::<f64, f16>(&gpu, "poisson in f16", &poisson);
            compare::<f32, f32>(&gpu, "poisson in f32", &poisson.view().to_owned_as::<f32>().unwrap());
            compare::<f64, f64>(&gpu, "blocks", &blocks);
            for n in [0, 1, 33] {
                compare::<f64, f32>(&gpu, "random", &irregular::random(n, 3, 1));
            }
        }
        // More rows than a block has threads.
        let larger = gallery::poisson5(20, 13).unwrap();
        one_of_each().iter().for_each(|gpu| compare::<f64, f64>(gpu, "larger", &larger));
    }
}
