//! SpGEMM by merging rows of the right factor, for short rows of the left one: `kernels/spgemm_merge.cu`. The
//! symbolic phase counts the columns of rows and stores masks of the entries that contribute to them. The numeric
//! phase goes by the masks.

use super::spgemm::{MAX_MERGE_BLOCKS, Method, Output, Product, blocks_for};
use crate::error::Result;
use crate::gpu::Slice;
use crate::gpu::runtime::Argument;
use crate::scalar::Number;

/// Longest rows of the left factor for which there are merge kernels.
pub(super) const MERGE_WIDTHS: [usize; 2] = [5, 7];

/// Words of the masks of a row.
pub(super) const MASK_WORDS: usize = 8;

/// Largest number of entries of the right factor for merging.
pub(super) const MAX_MERGED_ENTRIES: usize = u32::MAX as usize;

impl<T: Number> Product<'_, T> {
    /// Symbolic phase: lengths and masks of rows that can be merged. Others have length 0 and go to the list.
    pub(super) fn count_merged(
        &self,
        method: Method,
        counts: &Slice<i32>,
        masks: &Slice<u32>,
        words: &Slice<i64>,
        list: &Slice<i32>,
    ) -> Result<()> {
        let kernel = self.gpu.kernel(&format!("spgemm_count_{}", method.name()))?;
        let n = self.a.rows as i64;
        let (counts, masks, words, list) = (counts.view(), masks.view(), words.view(), list.view());
        let [a, b, c, d, e] = &self.factors;
        let arguments: [&dyn Argument; 10] = [&n, a, b, c, d, e, &counts, &masks, &words, &list];
        self.gpu.launch_blocks(kernel, blocks_for(self.a.rows, 1, MAX_MERGE_BLOCKS), &arguments)
    }

    /// Numeric phase: writes the rows that have masks.
    pub(super) fn merge(&self, method: Method, masks: &Slice<u32>, to: &Output<'_, T>) -> Result<()> {
        let kernel = self.gpu.kernel(&format!("spgemm_sorted_{}_{}", method.name(), T::PRECISION.name()))?;
        let (n, [a, b, c, d, e]) = (self.a.rows as i64, &self.factors);
        let (left, right, masks) = (self.a.values.view(), self.b.values.view(), masks.view());
        let (offsets, columns, values) = (to.offsets.view(), to.columns.view(), to.values.view());
        let fill = i32::from(to.fill);
        let arguments: [&dyn Argument; 13] =
            [&n, a, b, c, d, e, &left, &right, &masks, &offsets, &columns, &values, &fill];
        self.gpu.launch_blocks(kernel, blocks_for(self.a.rows, 1, MAX_MERGE_BLOCKS), &arguments)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::DeviceCsr;
    use super::super::spgemm::tests::same_as_the_host;
    use super::super::spgemm::{Right, Sample};
    use super::super::tests::{ascending, random};
    use super::*;
    use crate::gpu::Gpu;
    use crate::gpu::tests::devices;
    use crate::host::spgemm as host;
    use crate::scalar::Scalar;
    use crate::sparse::{Block, Csr};

    fn method_of<T: Scalar>(gpu: &Gpu, a: &Csr<T>, b: &Csr<T>) -> Method {
        let (left, right) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), DeviceCsr::upload(gpu, &b.view()).unwrap());
        Product::new(gpu, &left, Right::of(&right)).sample().unwrap().method
    }

    #[test]
    fn short_rows_are_merged() {
        for gpu in devices() {
            // Most entries of a row of A, of a row of B, and which kernel merges.
            for (left, right, lists) in [(5, 1, 0), (7, 6, 1), (7, 3, 1), (5, 0, 0), (0, 5, 0)] {
                for rows in [1, 31, 257, 600] {
                    // The order of A's rows is that of sums, and need not ascend.
                    let (a, b) = (random(rows, 300, left, Block::SCALAR, 1), ascending(300, 200, right, 2));
                    let what = format!("{rows} rows of {left} times rows of {right}");
                    same_as_the_host(&gpu, &a, &b, &what);
                    let (a, b) = (a.view().to_owned_as::<f32>().unwrap(), b.view().to_owned_as::<f32>().unwrap());
                    same_as_the_host(&gpu, &a, &b, &what);
                    let expected = if rows < 257 { method_of(&gpu, &a, &b) } else { Method::Merge(lists) };
                    assert_eq!(method_of(&gpu, &a, &b), expected, "{what}");
                }
            }
            let (a, b) = (random(300, 300, 7, Block::SCALAR, 1), random(300, 300, 30, Block::SCALAR, 2));
            assert!(matches!(method_of(&gpu, &a, &b), Method::Table(_)), "rows in no order");
            let b = ascending(300, 4000, 300, 2);
            assert!(matches!(method_of(&gpu, &a, &b), Method::Table(_)), "long rows");
        }
    }

    #[test]
    fn rows_that_cannot_be_merged_go_another_way() {
        for gpu in devices() {
            let (n, cols) = (400, 5000);
            let mut entries = Vec::new();
            for i in 0..n {
                // Every 40th row of A is long, one is longer than tables; neither is any of them dense.
                let length = if i == 123 {
                    n
                } else if i % 40 == 7 {
                    20
                } else {
                    4
                };
                entries.extend((0..length).map(|k| (i, (i * 31 + k * 17) % n, 1.0 + (i * k % 13) as f64)));
            }
            let a = Csr::from_triplets(n, n, &entries).unwrap();
            let mut b = ascending(n, cols, 7, 5);
            // Some rows of B descend.
            for i in [3, 200, 201] {
                let row = b.offsets[i] as usize..b.offsets[i + 1] as usize;
                b.columns[row.clone()].reverse();
                b.values[row].reverse();
            }
            assert_eq!(method_of(&gpu, &a, &b), Method::Merge(0));
            same_as_the_host(&gpu, &a, &b, "rows of all kinds");
            let (left, right) =
                (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &b.view()).unwrap());
            let product = Product::new(&gpu, &left, Right::of(&right));
            // Without space for the rows that merging leaves.
            let (c, _) = product.sorted_by(Sample { mean: 0.0, method: Method::Merge(0) }, true).unwrap();
            let expected = host::multiply(&a.view(), &b.view()).unwrap();
            let got = c.fetch(&gpu).unwrap();
            assert_eq!((got.offsets, got.columns), (expected.offsets, expected.columns));
            // Few among many, which tables would take memory for.
            let n = 2100;
            let length = |i: usize| if [5, 1900].contains(&i) { 12 } else { 3 };
            let entries = (0..n).flat_map(|i| (0..length(i)).map(move |k| (i, (i + 7 * k) % n, 1.0 + (k % 5) as f64)));
            let a = Csr::from_triplets(n, n, &entries.collect::<Vec<_>>()).unwrap();
            let b = ascending(n, 700, 3, 8);
            assert_eq!(method_of(&gpu, &a, &b), Method::Merge(0));
            same_as_the_host(&gpu, &a, &b, "few rows that are left over");
            // One row alone, of few entries.
            let few: Vec<_> = (0..8).map(|k| (3, k, 1.0)).chain((4..300).map(|i| (i, i, 2.0))).collect();
            let single: Vec<_> = (0..300).map(|i| (i, i / 3, 0.5)).collect();
            let [a, b] = [few, single].map(|entries| Csr::from_triplets(300, 300, &entries).unwrap());
            assert_eq!(method_of(&gpu, &a, &b), Method::Merge(0));
            same_as_the_host(&gpu, &a, &b, "a row of few entries that is left over");
        }
    }
}
