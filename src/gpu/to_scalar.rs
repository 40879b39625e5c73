//! BSR to CSR, by `kernels/sell_layout.cu`.

use super::Gpu;
use super::runtime::{BLOCK, bits_of};
use super::setup::DeviceCsr;
use crate::error::Result;
use crate::scalar::Number;
use crate::sparse::Block;
use std::sync::Arc;

/// Block rows that a block of threads converts at a time, as in `kernels/sell_layout.cu`.
const CONVERTED_ROWS: usize = 8;

/// BSR to CSR.
pub(crate) fn to_scalar<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>) -> Result<DeviceCsr<S>> {
    if a.block == Block::SCALAR {
        return Ok(a.clone());
    }
    let Block { rows: height, cols: width } = a.block;
    let (offsets, columns) = (gpu.zeroed(a.scalar_rows() + 1)?, gpu.allocate(a.entries())?);
    let values = gpu.allocate(a.entries())?;
    let kernel = gpu.kernel(&format!("bsr_to_csr_{}", bits_of::<S>()))?;
    let (rows, block_rows, block_cols) = (a.rows as i64, height as i32, width as i32);
    let [from_offsets, from_columns, from_values] = [a.offsets.view(), a.columns.view(), a.values.view().bits()];
    gpu.launch(
        kernel,
        a.rows.div_ceil(CONVERTED_ROWS) * BLOCK,
        &[
            &rows,
            &block_rows,
            &block_cols,
            &from_offsets,
            &from_columns,
            &from_values,
            &offsets.view(),
            &columns.view(),
            &values.view().bits(),
        ],
    )?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows: a.scalar_rows(), cols: a.cols * width, block: Block::SCALAR, offsets, columns, values })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;

    #[test]
    fn blocks_are_converted_as_on_the_host() {
        let a = gallery::parse("elasticity:3").unwrap().into_matrix().unwrap().shared::<f64>().unwrap();
        for gpu in devices() {
            let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            assert_eq!(to_scalar(&gpu, &on_device).unwrap().fetch(&gpu).unwrap(), a.view().to_scalar().unwrap());
            let empty = Csr::<f64>::with_pattern(0, 0, Block::square(3), vec![0], vec![]).unwrap();
            let empty = DeviceCsr::upload(&gpu, &empty.view()).unwrap();
            assert_eq!(to_scalar(&gpu, &empty).unwrap().fetch(&gpu).unwrap().offsets, [0]);
        }
    }
}
