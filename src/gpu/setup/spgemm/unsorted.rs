//! Rows of a product that are accumulated in hash tables and written unsorted.

use super::method::{Method, teams_of};
use super::{MAX_BLOCKS, Product};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Slice};
use crate::scalar::Number;
use std::sync::Arc;

/// Counters of the kernels that write unsorted rows, as in `kernels/spgemm_unsorted.h`.
pub(crate) struct Outcome {
    /// Entries of all rows, whether there was space for them or not.
    pub allocated: usize,
    /// Rows without space.
    pub without_space: usize,
    /// Rows that exceed every hash table.
    pub too_long: usize,
}

/// Words for these counters, the number of all entries, and the statistics of a sample of the next product.
pub(super) const COUNTERS: usize = 10;
pub(super) const TOTAL: usize = 3;
pub(super) const STATISTICS: usize = 4;

/// Rows of a product in any order in memory, columns unsorted.
pub(crate) struct UnsortedRows<T> {
    pub begins: Arc<Buffer<i64>>,
    pub ends: Buffer<i64>,
    pub columns: Buffer<i32>,
    pub values: Buffer<T>,
    /// Row lengths, if requested.
    pub(super) counts: Buffer<i32>,
    pub(super) words: Buffer<i64>,
    /// Rows that exceed every hash table.
    pub(super) too_long: Buffer<i32>,
}

/// Memory for unsorted rows.
pub(super) struct Allocation {
    pub(super) begins: Arc<Buffer<i64>>,
    /// Whether rows begin at `begins`; else their space is allocated.
    pub(super) has_begins: bool,
    /// For row lengths, if requested.
    pub(super) counts: Buffer<i32>,
    pub(super) capacity: usize,
}

impl<T: Number> Product<'_, T> {
    /// Unsorted rows in space for `capacity` entries. Does not wait for the device.
    pub fn unsorted(&self, method: Method, capacity: usize) -> Result<UnsortedRows<T>> {
        let allocation = Allocation {
            begins: Arc::new(self.gpu.allocate(self.a.rows)?),
            has_begins: false,
            counts: self.gpu.allocate(0)?,
            capacity,
        };
        self.accumulate(method, None, allocation, self.is_scalar())
    }

    /// The same with rows that begin where an earlier product put them.
    pub fn unsorted_at(&self, method: Method, capacity: usize, begins: &Arc<Buffer<i64>>) -> Result<UnsortedRows<T>> {
        let allocation =
            Allocation { begins: Arc::clone(begins), has_begins: true, counts: self.gpu.allocate(0)?, capacity };
        self.accumulate(method, None, allocation, self.is_scalar())
    }

    /// The same without values.
    pub fn pattern_at(&self, method: Method, capacity: usize, begins: &Arc<Buffer<i64>>) -> Result<UnsortedRows<T>> {
        let allocation =
            Allocation { begins: Arc::clone(begins), has_begins: true, counts: self.gpu.allocate(0)?, capacity };
        self.accumulate(method, None, allocation, false)
    }

    /// Accumulates all rows, or those of a list, and writes them unsorted.
    pub(super) fn accumulate(
        &self,
        method: Method,
        rows: Option<&Slice<i32>>,
        allocation: Allocation,
        scalar: bool,
    ) -> Result<UnsortedRows<T>> {
        let gpu = self.gpu;
        let Allocation { begins, has_begins, counts, capacity } = allocation;
        let ends = gpu.allocate::<i64>(self.a.rows)?;
        let (columns, values) = (gpu.allocate(capacity)?, gpu.allocate(if scalar { capacity } else { 0 })?);
        let words = gpu.zeroed::<i64>(COUNTERS)?;
        let too_long = self.cascade(rows, teams_of(method), MAX_BLOCKS, |name, n, list, blocks, more| {
            let name = match scalar {
                true => format!("spgemm_unsorted_{name}_{}", T::PRECISION.name()),
                false => format!("spgemm_pattern_{name}_f32"),
            };
            let [a, b, c, d, e] = &self.factors;
            let [left, right, values] =
                [&self.a.values, self.b.values, &values].map(|values| if scalar { values.view() } else { View::NONE });
            let (begins, ends, counts) = (begins.view(), ends.view(), counts.view());
            let (columns, words, has_begins) = (columns.view(), words.view(), i32::from(has_begins));
            let arguments: [&dyn Argument; 17] = [
                &n,
                &list,
                a,
                b,
                c,
                d,
                e,
                &left,
                &right,
                &begins,
                &ends,
                &counts,
                &columns,
                &values,
                &words,
                &has_begins,
                &more,
            ];
            gpu.launch_blocks(gpu.kernel(&name)?, blocks, &arguments)
        })?;
        Ok(UnsortedRows { begins, ends, columns, values, counts, words, too_long })
    }
}

pub(super) fn outcome(words: &[i64]) -> Outcome {
    Outcome { allocated: words[0] as usize, without_space: words[1] as usize, too_long: words[2] as usize }
}
