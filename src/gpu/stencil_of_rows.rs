//! Matrices in rows on a structured grid as stencils (`kernels/stencil_of_rows.cu`).

use super::Gpu;
use super::runtime::{Argument, BLOCK};
use super::setup::DeviceCsr;
use super::stencil::{DeviceStencil, StencilNumbers};
use crate::error::{Result, try_collect};
use crate::scalar::Scalar;
use crate::sparse::{SampledRow, Stencil};
use std::sync::Arc;

/// Entries of a row that a sample holds, as in the kernel.
const SAMPLED: usize = 28;

/// Rows of a stencil with so many entries come by way of shared memory.
const LONG: usize = 14;

/// Rows of a block of threads then, as in the kernel.
const ROWS_OF_BLOCK: usize = BLOCK / 2;

impl<T: Scalar> DeviceCsr<T> {
    /// Some rows; entries beyond the 28th are left out. Synchronises.
    pub fn sample_rows(&self, gpu: &Gpu, rows: &[i64]) -> Result<Vec<SampledRow>> {
        let (count, list) = (rows.len(), gpu.upload(rows)?);
        let (lengths, columns) = (gpu.allocate::<i32>(count)?, gpu.allocate::<i32>(count * SAMPLED)?);
        let values = gpu.allocate::<f64>(count * SAMPLED)?;
        let arguments: [&dyn Argument; 9] = [
            &(count as i64),
            &(self.block.len() as i32),
            &list.view(),
            &self.offsets.view(),
            &self.columns.view(),
            &self.values.view(),
            &lengths.view(),
            &columns.view(),
            &values.view(),
        ];
        gpu.launch(gpu.kernel(&format!("sample_rows_{}", T::PRECISION.name()))?, columns.len(), &arguments)?;
        let (lengths, columns, values) = (gpu.fetch(&lengths)?, gpu.fetch(&columns)?, gpu.fetch(&values)?);
        let row = |(k, row): (usize, &i64)| {
            let range = k * SAMPLED..k * SAMPLED + lengths[k] as usize;
            SampledRow { row: *row as usize, columns: columns[range.clone()].to_vec(), values: values[range].to_vec() }
        };
        try_collect(rows.iter().enumerate().map(row))
    }
}

impl<T: Scalar> DeviceStencil<T> {
    /// A matrix in rows by offsets, on a grid without periodic axes. None where a row has entries that the stencil has not, or its columns do not
    /// ascend. Synchronises.
    pub fn of_rows(gpu: &Gpu, a: &DeviceCsr<T>, pattern: &Arc<Stencil>) -> Result<Option<DeviceStencil<T>>> {
        let (matrix, flag) = (DeviceStencil::unset(gpu, Arc::clone(pattern))?, gpu.zeroed::<i32>(1)?);
        let cells = pattern.grid.cells();
        let arguments: [&dyn Argument; 8] = [
            &(cells as i64),
            &matrix.shape(),
            &StencilNumbers::new(pattern),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &matrix.values.view(),
            &flag.view(),
        ];
        if pattern.block == 1 && pattern.offsets.len() >= LONG {
            let kernel = gpu.kernel(&format!("stencil_of_long_rows_{}", T::PRECISION.name()))?;
            gpu.launch_blocks(kernel, cells.div_ceil(ROWS_OF_BLOCK), &arguments)?;
        } else {
            gpu.launch(gpu.kernel(&format!("stencil_of_rows_{}", T::PRECISION.name()))?, cells, &arguments)?;
        }
        Ok((gpu.fetch(&flag)?[0] == 0).then_some(matrix))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::sparse::{Grid, SharedStencil};

    #[test]
    fn rows_become_the_stencil_of_the_host_or_nothing() {
        for gpu in devices() {
            for (name, dims) in [
                ("poisson7:6x5x4", [6, 5, 4]),
                ("poisson27:9x3x3", [9, 3, 3]),
                ("poisson5:33x4", [33, 4, 1]),
                ("elasticity:3", [3, 4, 4]),
            ] {
                let a = gallery::parse(name).unwrap().matrix;
                let wanted = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
                let rows = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let found = DeviceStencil::of_rows(&gpu, &rows, &wanted.pattern).unwrap().unwrap();
                assert_eq!(found.fetch(&gpu).unwrap().values.as_slice(), wanted.values.as_slice(), "{name}");
                let view = a.view();
                let columns = |row: usize| view.row_range(row).map(|p| view.col(p) as i32).collect::<Vec<_>>();
                for (row, sampled) in [7, 0].into_iter().zip(rows.sample_rows(&gpu, &[7, 0]).unwrap()) {
                    assert_eq!((sampled.row, &sampled.columns), (row, &columns(row)), "{name}");
                    let first = view.row_range(row).start;
                    assert_eq!(sampled.values[1], view.block_at(first + 1)[0], "{name}");
                }
                // Without one of the offsets, and on another grid.
                let fewer = Stencil::new(Grid::new(dims), wanted.pattern.block, &wanted.pattern.offsets[1..]).unwrap();
                assert!(DeviceStencil::of_rows(&gpu, &rows, &Arc::new(fewer)).unwrap().is_none(), "{name}");
                let [x, y, z] = dims;
                let turned = Stencil::new(Grid::new([y, x, z]), wanted.pattern.block, &wanted.pattern.offsets).unwrap();
                assert!(DeviceStencil::of_rows(&gpu, &rows, &Arc::new(turned)).unwrap().is_none(), "{name}");
            }
        }
    }
}
