//! The choice of method for the rows of a product, from a sample of them.

use super::unsorted::{COUNTERS, Outcome, STATISTICS, UnsortedRows, outcome};
use super::{MERGE_WIDTHS, Product};
use crate::error::Result;
use crate::gpu::Slice;
use crate::gpu::runtime::Argument;
use crate::scalar::Number;

/// Lanes of a team, and the columns for which its hash table is fast: three quarters of its slots.
pub(super) const HASH_TABLES: [(usize, i32); 4] = [(4, 42), (8, 84), (32, 336), (256, 2304)];

/// Hash tables for rows that cannot be merged or exceed the table of most rows.
pub(super) const LARGE_TABLES: [usize; 2] = [2, 3];

/// Rows of a sample.
const SAMPLE_ROWS: usize = 4096;

/// Statistics of the rows of a product.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Mean columns of a row.
    pub mean: f64,
    /// The method for most rows.
    pub method: Method,
}

/// How a row is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// A thread merges at most this one of [`MERGE_WIDTHS`] rows of the right factor.
    Merge(usize),
    /// A team uses this one of [`HASH_TABLES`].
    Table(usize),
}

impl Method {
    fn lanes(self) -> usize {
        match self {
            Method::Merge(_) => 1,
            Method::Table(table) => HASH_TABLES[table].0,
        }
    }

    /// The name in its kernels.
    pub fn name(self) -> String {
        match self {
            Method::Merge(lists) => format!("merge{}", MERGE_WIDTHS[lists]),
            Method::Table(table) => format!("hash{}", HASH_TABLES[table].0),
        }
    }

    /// This method, and those for the rows that it leaves.
    fn cascade(self) -> impl Iterator<Item = Method> {
        let is_larger = move |large: &usize| !matches!(self, Method::Table(table) if *large <= table);
        std::iter::once(self).chain(LARGE_TABLES.into_iter().filter(is_larger).map(Method::Table))
    }
}

impl Sample {
    /// Estimated entries of so many rows.
    pub fn capacity(&self, rows: usize) -> usize {
        (1.05 * self.mean * rows as f64) as usize
    }
}

impl<T: Number> Product<'_, T> {
    /// Statistics of a sample of rows. Waits for the device.
    pub fn sample(&self) -> Result<Sample> {
        let words = self.gpu.zeroed::<i64>(COUNTERS)?;
        Ok(self.sample_after(&words)?.0)
    }

    /// The same, and the counters of the unsorted rows that are the right factor.
    pub fn sample_of(&self, found: &UnsortedRows<T>) -> Result<(Sample, Outcome)> {
        self.sample_after(&found.words)
    }

    fn sample_after(&self, words: &Slice<i64>) -> Result<(Sample, Outcome)> {
        let rows = self.a.rows;
        let wanted = rows.min(SAMPLE_ROWS);
        let [a, b, c, d, e] = &self.factors;
        let limits = HASH_TABLES.map(|(_, limit)| limit);
        let [fewest, few] = MERGE_WIDTHS.map(|lists| lists as i32);
        let statistics = words.subslice(STATISTICS, COUNTERS - STATISTICS).view();
        let arguments = [
            &(rows as i64) as &dyn Argument,
            &(wanted as i64),
            a,
            b,
            c,
            d,
            e,
            &limits[0],
            &limits[1],
            &limits[2],
            &fewest,
            &few,
            &statistics,
        ];
        self.gpu.launch(self.gpu.kernel("spgemm_sample")?, wanted * 32, &arguments)?;
        let words = self.gpu.fetch(words)?;
        let most = |statistic: usize| 10 * words[STATISTICS + statistic] >= 9 * wanted as i64;
        let first = match self.b.length {
            0..=5 => 0,
            6..=14 => 1,
            _ => 2,
        };
        let table = || Method::Table((first..3).find(|table| most(1 + table)).unwrap_or(3));
        let lists = (0..MERGE_WIDTHS.len()).find(|lists| self.may_merge && most(1 + HASH_TABLES.len() - 1 + lists));
        let method = lists.map_or_else(table, Method::Merge);
        Ok((Sample { mean: words[STATISTICS] as f64 / wanted.max(1) as f64, method }, outcome(&words)))
    }
}

/// Lanes of teams and names of kernels, one for each method of the cascade.
pub(super) fn teams_of(method: Method) -> impl Iterator<Item = (usize, String)> {
    method.cascade().map(|method| (method.lanes(), method.name()))
}
