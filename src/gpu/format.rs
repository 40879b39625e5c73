//! The format of a matrix. A product takes as long as its memory traffic, so what is estimated and compared are bytes: those that a format
//! stores, and what else its way to work costs. The weights are those that products with the levels of three hierarchies showed on one H200.

use super::Gpu;
use super::csr;
use super::layout::{Cut, Layout, estimate};
use super::setup::DeviceCsr;
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;
use std::sync::Arc;

/// Formats that a matrix can have. Clones share what they know of it.
#[derive(Clone)]
pub(crate) enum Format {
    /// A group of lanes for each row.
    Csr,
    /// Slices with offsets of 8 bits.
    Slices8(Arc<Layout>),
    /// Slices with offsets of 16 bits.
    Slices16(Arc<Layout>),
}

/// Bytes of CSR count this much: short pieces of rows do not use whole transactions.
const CSR: f64 = 1.2;

/// Bytes that an order of the rows costs each of them beside its own: results are written one by one.
const SCATTER: f64 = 8.0;

/// Bytes of scalar rows in another order count this much where there are few rows: their neighbours' columns are not in the cache any more, and
/// products wait for those rather than for values.
const APART: f64 = 1.25;

/// Below this many rows a matrix has too few slices, and a group of lanes for each row keeps more threads busy.
const FEW: usize = 1 << 13;

impl Format {
    /// The format with the lowest estimate, for sums of this format. Waits for the device.
    pub fn of<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, sums: Precision) -> Result<Format> {
        let (rows, entries) = (a.scalar_rows(), a.entries());
        if rows < FEW {
            return Ok(Format::Csr);
        }
        let wide = a.block == Block::SCALAR && Layout::is_wide(a);
        let [narrow, own, sorted] =
            [(8, false), (16, false), (16, true)].map(|(bits, sorted)| Cut::new(a, sums, bits, sorted));
        let [eight, sixteen, ordered] = if wide {
            estimate(gpu, a, [narrow, own, sorted])?
        } else {
            let [sixteen, ordered] = estimate(gpu, a, [own, sorted])?;
            [f64::INFINITY, sixteen, ordered]
        };
        let apart = if a.block == Block::SCALAR && !wide { APART } else { 1.0 };
        let ordered = apart * (ordered + SCATTER * rows as f64);
        let csr = CSR * csr::bytes(rows, entries, S::PRECISION) as f64;
        let least = csr.min(eight).min(sixteen).min(ordered);
        Ok(if least == eight {
            Format::Slices8(Arc::new(Layout::new(gpu, a, narrow)?))
        } else if least == csr {
            Format::Csr
        } else {
            Format::Slices16(Arc::new(Layout::new(gpu, a, if least == sixteen { own } else { sorted })?))
        })
    }
}
