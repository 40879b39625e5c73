//! The format of a matrix. A product takes as long as its memory traffic, so what is estimated and compared are bytes: those that a format
//! stores, and what else its way to work costs. The weights are those that products with the levels of three hierarchies showed on one H200.

use super::Gpu;
use super::csr;
use super::layout::{Cut, Layout, Survey};
use super::setup::DevicePattern;
use crate::error::Result;
use crate::scalar::Precision;
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

/// A matrix that needs a format: its pattern, the format of its values, and that of sums of products with it.
pub(crate) struct Wanted {
    pub pattern: DevicePattern,
    pub storage: Precision,
    pub sums: Precision,
}

/// Cuts that are compared, and the number of the one with offsets of 8 bits.
const CUTS: usize = 3;
const EIGHT: usize = 2;

impl Format {
    /// The format with the lowest estimate. Waits for the device.
    pub fn of(gpu: &Gpu, wanted: Wanted) -> Result<Format> {
        Ok(Format::of_all(gpu, &[wanted])?.remove(0))
    }

    /// The same for several matrices, with two waits for all of them.
    pub fn of_all(gpu: &Gpu, wanted: &[Wanted]) -> Result<Vec<Format>> {
        let totals = gpu.zeroed::<i64>(CUTS * wanted.len())?;
        let mut surveys = Vec::new();
        for (i, wanted) in wanted.iter().enumerate() {
            surveys.push(match wanted.cuts() {
                None => None,
                Some(cuts) => Some(Survey::new(gpu, &wanted.pattern, cuts, &totals.piece(CUTS * i, CUTS))?),
            });
        }
        if surveys.iter().all(Option::is_none) {
            return Ok(wanted.iter().map(|_| Format::Csr).collect());
        }
        let counted = gpu.fetch(&totals)?;
        let totals = gpu.zeroed::<i64>(wanted.len())?;
        let (mut started, mut known) = (Vec::new(), true);
        for (i, (wanted, survey)) in wanted.iter().zip(surveys).enumerate() {
            let counted = &counted[CUTS * i..][..CUTS];
            let Some((survey, best)) = survey.and_then(|survey| wanted.best(&survey, counted).map(|k| (survey, k)))
            else {
                started.push(None);
                continue;
            };
            known &= survey.is_exact();
            let slots = survey.is_exact().then_some(counted[best] as usize);
            started.push(Some((best, slots, survey.layout(gpu, &wanted.pattern, best, &totals.piece(i, 1))?)));
        }
        let slots = if known { Vec::new() } else { gpu.fetch(&totals)? };
        let formats = started.into_iter().enumerate().map(|(i, started)| match started {
            None => Format::Csr,
            Some((best, known, started)) => {
                let layout = Arc::new(started.with_slots(known.unwrap_or_else(|| slots[i] as usize)));
                if best == EIGHT { Format::Slices8(layout) } else { Format::Slices16(layout) }
            }
        });
        Ok(formats.collect())
    }
}

impl Wanted {
    /// How it could be cut: with offsets of 16 bits, the same with rows ordered by length, and with 8 bits where there are rows enough for the
    /// kernel that knows them. None where there are too few rows for any.
    fn cuts(&self) -> Option<Vec<Cut>> {
        let Wanted { pattern, storage, sums } = self;
        let cut = |(bits, sorted): &(usize, bool)| Cut::new(pattern, *storage, *sums, *bits, *sorted);
        let kinds = &[(16, false), (16, true), (8, false)][..if self.is_wide() { 3 } else { 2 }];
        (pattern.rows * pattern.block.rows >= FEW).then(|| kinds.iter().map(cut).collect())
    }

    fn is_wide(&self) -> bool {
        self.pattern.block == Block::SCALAR && Layout::is_wide(&self.pattern)
    }

    /// The number of the cut with the lowest estimate, when so many slots were counted; none where CSR has it.
    fn best(&self, survey: &Survey, counted: &[i64]) -> Option<usize> {
        let Wanted { pattern, storage, .. } = self;
        let (rows, entries) = (pattern.rows * pattern.block.rows, pattern.nnz() * pattern.block.len());
        let wide = self.is_wide();
        let bytes = |i: usize| survey.bytes(i, counted[i], pattern, *storage);
        let eight = if wide { bytes(EIGHT) } else { f64::INFINITY };
        let apart = if pattern.block == Block::SCALAR && !wide { APART } else { 1.0 };
        let (own, ordered) = (bytes(0), apart * (bytes(1) + SCATTER * rows as f64));
        let csr = CSR * csr::bytes(rows, entries, *storage) as f64;
        let least = csr.min(eight).min(own).min(ordered);
        // Of equal ones the first.
        [(Some(EIGHT), eight), (None, csr), (Some(0), own), (Some(1), ordered)]
            .into_iter()
            .find(|(_, bytes)| *bytes == least)
            .and_then(|(cut, _)| cut)
    }
}
