//! Where each term of a product goes in its row, as [`crate::host::terms`] keeps it: found in the first renewal of a product and kept for the later ones, which
//! then look no column up. See `kernels/spgemm_places.cu`.

use super::bins::{BINS, Bins, Limits, Needs};
use super::spgemm::{Product, power_of_two};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Slice};
use crate::scalar::Number;

/// Lanes of a team, and the longest row that it has room for.
const ROOM: [(usize, usize); BINS - 2] = [(4, 32), (16, 64), (16, 128), (32, 256), (32, 512), (256, 3072)];
const LIMITS: Limits = [32, 64, 128, 256, 512, 3072, 3072];

/// Bins whose rows have places of 8 bits.
const NARROW: usize = 4;

/// Rows of C: where they begin and end, and their columns, in any order.
pub(super) struct Rows<'a> {
    pub begins: Slice<i64>,
    pub ends: Slice<i64>,
    pub columns: &'a Slice<i32>,
}

/// The places of the terms of a product of scalars.
pub(super) struct Places {
    bins: Bins,
    /// Where the terms of each row begin.
    terms: Buffer<i64>,
    places: Buffer<u8>,
    /// Whether a place has 16 bits.
    wide: bool,
}

impl Places {
    /// The places for this pattern of C; none where a row is too long. Waits for the device.
    pub fn find<T: Number>(product: &Product<'_, T>, c: &Rows<'_>) -> Result<Option<Places>> {
        let gpu = product.gpu;
        let rows = c.begins.len();
        let lengths = gpu.room::<i32>(rows)?;
        let arguments = [&(rows as i64) as &dyn Argument, &c.begins.view(), &c.ends.view(), &lengths.view()];
        gpu.launch(gpu.kernel("spgemm_lengths")?, rows, &arguments)?;
        let bounds = product.bounds()?;
        let terms = gpu.offsets_alone(&bounds)?;
        drop(bounds);
        let needs = Needs { bounds: &lengths, most: i32::MAX, counts: None, limits: LIMITS, alike: 0 };
        let (bins, count) = Bins::new(gpu, &needs, Some(&terms))?;
        drop(lengths);
        if bins.rows(BINS - 1..BINS).0 > 0 {
            return Ok(None);
        }
        let wide = bins.rows(NARROW..BINS).0 > 0;
        let places = gpu.room::<u8>(if wide { 2 * count } else { count })?;
        let found = Places { bins, terms, places, wide };
        let [a, b, d, e, f] = &product.factors;
        let (begins, ends, columns) = (c.begins.view(), c.ends.view(), c.columns.view());
        let (terms, (places, wide)) = (found.terms.view(), found.view());
        for (name, threads, n, lanes, rows) in found.bins(product.b.length) {
            let arguments: [&dyn Argument; 14] =
                [&n, &lanes, &rows, a, b, d, e, f, &begins, &ends, &columns, &terms, &places, &wide];
            gpu.launch(gpu.kernel(&format!("spgemm_places_{name}"))?, threads, &arguments)?;
        }
        Ok(Some(found))
    }

    /// The values of C, of which there are `len` with the room between rows. With `fill` ones are put for zeros on the diagonal.
    pub fn renew<T: Number>(
        &self,
        product: &Product<'_, T>,
        c: &Rows<'_>,
        len: usize,
        fill: bool,
    ) -> Result<Buffer<T>> {
        let values = product.gpu.room::<T>(len)?;
        let [a, b, d, e, _] = &product.factors;
        let (left, right) = (product.a.values.view(), product.b.values.view());
        let (begins, ends, columns) = (c.begins.view(), c.ends.view(), c.columns.view());
        let (terms, (places, wide), to, fill) = (self.terms.view(), self.view(), values.view(), i32::from(fill));
        for (name, threads, n, lanes, rows) in self.bins(product.b.length) {
            let kernel = product.gpu.kernel(&format!("spgemm_renew_{name}_{}", T::PRECISION.name()))?;
            let arguments: [&dyn Argument; 17] = [
                &n, &lanes, &rows, a, b, d, e, &left, &right, &begins, &ends, &columns, &terms, &places, &wide, &to,
                &fill,
            ];
            product.gpu.launch(kernel, threads, &arguments)?;
        }
        Ok(values)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bins.bytes() + size_of::<i64>() * self.terms.len() + self.places.len()
    }

    /// As kernels take them, and whether they are wide.
    fn view(&self) -> (View, i32) {
        (self.places.view(), i32::from(self.wide))
    }

    /// For each bin that has rows the name of its kernel, threads, the number of rows, lanes for a row of B of about this length, and the rows.
    fn bins(&self, length: usize) -> impl Iterator<Item = (String, usize, i64, i32, View)> {
        ROOM.into_iter().enumerate().filter_map(move |(bin, (team, room))| {
            let (count, rows) = self.bins.rows(bin..bin + 1);
            let lanes = power_of_two(length, team) as i32;
            (count > 0).then(|| (format!("{team}_{room}"), count * team, count as i64, lanes, rows))
        })
    }
}
