//! The format of a matrix. A product takes as long as its memory traffic, so what is estimated and compared are bytes: those that a format
//! stores, and what else its way to work costs. The weights are those that products with the levels of three hierarchies showed on one H200.

use super::Gpu;
use super::csr;
use super::layout::Layout;
use super::setup::DeviceCsr;
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::Block;

/// Formats that a matrix can have.
pub(super) enum Format {
    /// A group of lanes for each row.
    Csr,
    /// Slices with offsets of 8 bits.
    Slices8(Layout),
    /// Slices with offsets of 16 bits.
    Slices16(Layout),
}

/// Bytes of CSR count this much: short pieces of rows do not use whole transactions.
const CSR: f64 = 1.2;

/// Bytes that an order of the rows costs each of them beside its own: results are written one by one.
const SCATTER: f64 = 8.0;

/// Bytes of scalar rows in another order count this much where there are few rows: their neighbours' columns are not in the cache any more, and
/// products wait for those rather than for values.
const APART: f64 = 1.25;

/// A matrix whose padding is below this share needs no better layout.
const GOOD: f64 = 1.04;

/// Below this many rows a matrix has too few slices, and a group of lanes for each row keeps more threads busy.
const FEW: usize = 1 << 13;

impl Format {
    /// The format with the lowest estimate, for sums of this format. Waits for the device.
    pub fn of<S: Number>(gpu: &Gpu, a: &DeviceCsr<S>, sums: Precision) -> Result<Format> {
        let (rows, entries) = (a.scalar_rows(), a.entries());
        if rows < FEW {
            return Ok(Format::Csr);
        }
        let storage = S::PRECISION;
        let bytes = |layout: &Layout| layout.bytes(a.block, storage) as f64;
        let least = |offset: usize| GOOD * (entries * storage.bytes() + a.nnz() * offset) as f64;
        let mut best = (CSR * csr::bytes(rows, entries, storage) as f64, Format::Csr);
        let mut offer = |cost: f64, format: Format| {
            if cost < best.0 {
                best = (cost, format);
            }
        };
        if a.block == Block::SCALAR && Layout::is_wide(a) {
            let layout = Layout::new(gpu, a, sums, 8, false)?;
            let cost = bytes(&layout);
            offer(cost, Format::Slices8(layout));
            if cost < least(1) {
                return Ok(best.1);
            }
        }
        let layout = Layout::new(gpu, a, sums, 16, false)?;
        let cost = bytes(&layout);
        offer(cost, Format::Slices16(layout));
        if cost >= least(2) {
            let layout = Layout::new(gpu, a, sums, 16, true)?;
            let few = a.block == Block::SCALAR && !Layout::is_wide(a);
            let cost = if few { APART } else { 1.0 } * (bytes(&layout) + SCATTER * rows as f64);
            offer(cost, Format::Slices16(layout));
        }
        Ok(best.1)
    }
}
