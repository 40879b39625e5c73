//! CSR to BSR, as [`crate::sparse::CsrView::to_blocks`] on the host: `kernels/gather_blocks.cu`. Block columns are
//! counted, then written, and values are scattered into blocks.

use super::lanes::lanes;
use super::{DeviceCsr, DevicePattern};
use crate::error::{Result, fail};
use crate::gpu::runtime::Argument;
use crate::gpu::runtime::bits_of;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// CSR to BSR with square blocks of `size` rows, 2 to 8, for a matrix whose size `size` divides. Missing entries of
/// blocks become zeros. Waits for the device.
pub(crate) fn gather<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, size: usize) -> Result<DeviceCsr<T>> {
    assert!(a.block == Block::SCALAR && (2..=8).contains(&size));
    assert!(a.rows.is_multiple_of(size) && a.cols.is_multiple_of(size));
    let (nodes, cols, block) = (a.rows / size, a.cols / size, Block::square(size));
    let lanes = size.next_power_of_two();
    let (n, d, threads) = (nodes as i64, size as i32, nodes * lanes);
    let [from_offsets, from_columns] = [a.offsets.view(), a.columns.view()];
    let counts = gpu.allocate::<i32>(nodes)?;
    let count = gpu.kernel(&format!("gather_blocks_count_{lanes}"))?;
    gpu.launch(count, threads, &[&n, &d, &from_offsets, &from_columns, &counts.view()])?;
    let (offsets, nnz) = gpu.offsets(&counts)?;
    drop(counts);
    let columns = gpu.allocate::<i32>(nnz)?;
    let write = gpu.kernel(&format!("gather_blocks_columns_{lanes}"))?;
    gpu.launch(write, threads, &[&n, &d, &from_offsets, &from_columns, &offsets.view(), &columns.view()])?;
    let (offsets, columns) = (Arc::new(offsets), Arc::new(columns));
    numeric(gpu, a, &DevicePattern { rows: nodes, cols, block, offsets, columns })
}

/// The same for a known pattern of blocks. Does not wait for the device.
pub(crate) fn numeric<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, pattern: &DevicePattern) -> Result<DeviceCsr<T>> {
    let size = pattern.block.rows;
    let Some(len) = pattern.nnz().checked_mul(pattern.block.len()) else {
        return fail!(OutOfMemory, "{} blocks of {size} x {size} are more than memory can hold", pattern.nnz());
    };
    let values: Buffer<T> = gpu.zeroed(len)?;
    let lanes = lanes(a.nnz(), a.rows);
    let kernel = gpu.kernel(&format!("gather_blocks_values_{}", bits_of::<T>()))?;
    let [from_offsets, from_columns, from_values] = [a.offsets.view(), a.columns.view(), a.values.view().bits()];
    let arguments: [&dyn Argument; 9] = [
        &(a.rows as i64),
        &(size as i32),
        &(lanes as i32),
        &from_offsets,
        &from_columns,
        &from_values,
        &pattern.offsets.view(),
        &pattern.columns.view(),
        &values.view().bits(),
    ];
    gpu.launch(kernel, a.rows * lanes, &arguments)?;
    Ok(pattern.with(values))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::irregular;
    use super::super::tests::{ascending, narrow, problems, random};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::sparse::Csr;

    fn bits<T: Scalar>(a: &Csr<T>) -> Vec<u64> {
        a.values.iter().map(|v| v.to_f64().to_bits()).collect()
    }

    fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, size: usize, what: &str) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let gathered = gather(gpu, &on_device, size).unwrap();
        let (got, expected) = (gathered.fetch(gpu).unwrap(), a.view().to_blocks(size).unwrap());
        assert_eq!((got.rows, got.cols, got.block), (expected.rows, expected.cols, expected.block), "{what}");
        assert_eq!((&got.offsets, &got.columns), (&expected.offsets, &expected.columns), "{what}");
        assert!(bits(&got) == bits(&expected), "values of {what}");
        // Zeros of both signs, among others.
        let values = (0..a.values.len()).map(|k| T::from_f64((hash(k, 3) % 5) as f64 * -0.3)).collect();
        let other = Csr { values, ..a.clone() };
        let values = Arc::new(gpu.upload(&other.values).unwrap());
        let waits = gpu.waits();
        let updated = numeric(gpu, &DeviceCsr { values, ..on_device }, &gathered.pattern()).unwrap();
        assert_eq!(gpu.waits(), waits, "{what}");
        let (got, expected) = (updated.fetch(gpu).unwrap(), other.view().to_blocks(size).unwrap());
        assert_eq!((&got.offsets, &got.columns), (&expected.offsets, &expected.columns), "{what}");
        assert!(bits(&got) == bits(&expected), "values of {what}");
    }

    fn in_both_precisions(gpu: &Gpu, a: &Csr<f64>, size: usize, what: &str) {
        let what = format!("{what} in nodes of {size}");
        same_as_the_host(gpu, a, size, &what);
        same_as_the_host(gpu, &narrow(a), size, &format!("{what} in f32"));
    }

    #[test]
    fn nodes_are_those_of_the_host() {
        for gpu in devices() {
            for (name, a) in problems() {
                for size in (2..=8).filter(|size| a.rows.is_multiple_of(*size)) {
                    in_both_precisions(&gpu, &a, size, &name);
                }
            }
            for (name, a) in irregular::square() {
                for size in [2, 3, 5].into_iter().filter(|size| a.rows.is_multiple_of(*size)) {
                    in_both_precisions(&gpu, &a, size, &name);
                }
            }
        }
    }

    #[test]
    fn rows_of_any_kind_are_put_together() {
        for gpu in devices() {
            for (size, nodes) in [(2, 0), (2, 129), (3, 1), (3, 65), (6, 33), (7, 9), (8, 31)] {
                // Rows that ascend, and rows in no order; some are empty, and matrices need not be square.
                let (rows, what) = (nodes * size, format!("{nodes} nodes"));
                in_both_precisions(&gpu, &ascending(rows, 40 * size, 30, 1), size, &what);
                in_both_precisions(&gpu, &random(rows, 40 * size, 30, Block::SCALAR, 2), size, &what);
                in_both_precisions(&gpu, &random(rows, 40 * size, 0, Block::SCALAR, 3), size, &what);
                in_both_precisions(
                    &gpu,
                    &random(nodes.min(9) * size, 100_000 * size, 5, Block::SCALAR, 4),
                    size,
                    &what,
                );
            }
        }
    }

    #[test]
    fn a_node_is_in_order_where_only_the_scalars_of_its_blocks_are_not() {
        // A row descends in its blocks, another one in all, a third one from its first block to the next.
        let rows: [&[i32]; 6] = [&[1, 0, 5, 3], &[2], &[], &[5, 4, 1, 0], &[4, 0], &[0, 3]];
        let mut a = Csr::from_triplets(6, 6, &[]).unwrap();
        for (i, row) in rows.iter().enumerate() {
            a.columns.extend_from_slice(row);
            a.offsets[i + 1] = a.columns.len() as i64;
        }
        a.values = (0..a.columns.len()).map(|k| 1.0 + k as f64).collect();
        for gpu in devices() {
            for size in [2, 3, 6] {
                in_both_precisions(&gpu, &a, size, "six rows");
            }
        }
    }

    #[test]
    fn long_rows_are_put_together() {
        // One row has more entries than a lane merges or a group scatters, one spans several bitmaps of columns,
        // others are short.
        let (n, cols) = (60, 300_000);
        let mut entries: Vec<_> = (0..n).flat_map(|i| [(i, i, 1.0), (i, cols - 1 - 7 * i, -0.0)]).collect();
        entries.extend((0..5000).map(|j| (17, 3 * j, 0.5 + j as f64)));
        entries.extend((0..3000).map(|j| (40, 97 * j + 1, j as f64)));
        let a = Csr::from_triplets(n, cols, &entries).unwrap();
        for gpu in devices() {
            for size in [2, 3, 6] {
                in_both_precisions(&gpu, &a, size, "long rows");
                in_both_precisions(&gpu, &irregular::shuffled(a.clone()), size, "long rows in no order");
            }
        }
    }
}
