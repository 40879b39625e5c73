//! Memory of a set-up before it runs: the real set-up of a sample of the matrix, scaled up.
//!
//! On the host it is what the hierarchy will hold. On a GPU it is the most that set-up takes at one time, which is measured, so that nothing
//! here knows what its steps allocate.
//!
//! The sample is one connected piece from the middle of the matrix where the kinds of its rows are those of the whole ([`profile`]), or else many pieces from
//! all over it ([`sample`]).

mod profile;
mod sample;
#[cfg(test)]
mod tests;

use super::Amg;
use crate::amg::hierarchy::{Builder, check_square};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, Status};
use crate::gpu::Gpu;
use crate::matrix::{Matrix, Values};
use crate::scalar::{Precision, Scalar, with_storage};
use crate::sparse::{SharedCsr, Storage, Structure};
use sample::{Sample, Source};
use std::sync::Arc;

/// Rows of the sample. A matrix that is not larger is set up whole, and the figure is exact.
const SAMPLE_ROWS: usize = 20_000;

/// A piece has more boundary than the matrix, where rows are shorter and coarse levels smaller.
const MARGIN: f64 = 1.12;

/// Rows of the sample on a GPU, where a set-up of so many takes a few hundredths of a second.
const DEVICE_ROWS: usize = 1 << 20;

/// A sample that does not fit into the device is made smaller until it has no more than this.
const FEWEST_ROWS: usize = 4096;

/// How much smaller a second sample is, which tells what boundaries make of memory.
const SMALLER: usize = 4;

/// A cut is felt by neighbours of neighbours, too: it costs at most so many times the entries that it cuts off.
const REACH: f64 = 3.0;

/// What pieces do not show: coarse levels beyond theirs, and formats that suit more rows. As much as it takes to be never below: estimates without it
/// were 0.917 (one of 49, with an aggressive level) to 1.03 of what set-ups took on an H200.
const DEVICE_MARGIN: f64 = 1.10;

/// A piece that is not more unlike the matrix stands for it: half of this share of its rows, or entries, may be of other kinds, which differ both in entries
/// and in those that matter. In pieces of the real size boundaries of grids make it 0.1 for elasticity of 1.6 million unknowns, and up to 0.03 for the others that
/// were measured.
const ALIKE: f64 = 0.12;

/// Pieces of a sample: the first of these numbers with which it is like the matrix, or else the one with which it is most.
const PIECES: [usize; 3] = [1, 4, 16];

/// What is added to the margin where there are several kinds of rows: a level has one format for all of them, which may be another one in the whole. That made a set-up
/// take 18 % more than those of both kinds by themselves.
const MIXED_DOUBT: f64 = 0.11;

/// What is added to the margin where some rows are very long: tables for these are twice as large, or not.
const LONG_DOUBT: f64 = 0.22;

/// Bytes that a set-up will hold on the host, or take on a GPU.
pub(super) fn bytes(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
    // Whatever set-up refuses.
    config.check_device(context.device())?;
    matrix.check_for_set_up(context)?;
    check_square(matrix)?;
    let (structure, values) = matrix.copied()?;
    let rows = if context.gpu().is_some() { DEVICE_ROWS } else { SAMPLE_ROWS };
    let estimate = Estimate { context, matrix, config, structure, rows };
    match values {
        Values::F64(values) => estimate.bytes(values),
        Values::F32(values) => estimate.bytes(values),
    }
}

/// What an estimate is made of.
struct Estimate<'a> {
    context: &'a Context,
    matrix: &'a Matrix,
    config: &'a Config,
    structure: Arc<Structure>,
    /// Rows of the sample.
    rows: usize,
}

impl Estimate<'_> {
    fn bytes<T: Scalar>(&self, values: Arc<dyn Storage<T>>) -> Result<usize>
    where
        Values: From<Vec<T>>,
    {
        let builder = Builder {
            context: self.context,
            config: self.config,
            matrix: self.matrix,
            near_null_space: self.matrix.near_null_space(),
            plan: None,
        };
        let a = self.structure.view(values.as_slice());
        let source = Source::new(self.context, self.matrix, builder.function_count()?, a);
        match self.context.gpu() {
            Some(gpu) => {
                let _unlimited = Unlimited::new(gpu);
                let rows = self.rows.min(self.matrix.rows());
                where_there_is_room(rows, |rows| self.bytes_there(gpu, &source, rows))
            }
            None => self.bytes_here(&source, &values),
        }
    }

    /// What a hierarchy will hold on the host.
    fn bytes_here<T: Scalar>(&self, source: &Source<'_, T>, values: &Arc<dyn Storage<T>>) -> Result<usize>
    where
        Values: From<Vec<T>>,
    {
        // The finest matrix is known exactly, and costs nothing where it is used in the caller's memory.
        let held = |sample: &Sample| -> Result<(f64, Precision)> {
            let report = Amg::setup(self.context, &sample.matrix, self.config)?.report();
            let storage = report.levels[0].matrix_precision;
            let rest = report.bytes.saturating_sub(finest(&sample.matrix.shared::<T>()?, storage)?);
            // What is cut off counts as if it were as costly as the rest.
            Ok((rest as f64 * sample.scale() / (1.0 - sample.cut), storage))
        };
        let sample = representative(source, self.rows)?;
        let (mut rest, storage) = held(&sample)?;
        let a = SharedCsr { structure: Arc::clone(&self.structure), values: Arc::clone(values) };
        if !sample.whole {
            if sample.has_long {
                let small = source.sample((self.rows / SMALLER).max(1), sample.pieces)?;
                rest *= sample.growth(held(&small)?.0, rest);
            }
            rest *= MARGIN + sample.unlike + sample.long_doubt();
        }
        Ok(rest as usize + finest(&a, storage)?)
    }

    /// The most device memory that set-up takes beside what is held before it, from samples of at most `rows` rows.
    fn bytes_there<T: Scalar>(&self, gpu: &Gpu, source: &Source<'_, T>, rows: usize) -> Result<usize>
    where
        Values: From<Vec<T>>,
    {
        let large = representative(source, rows)?;
        let most = self.peak(gpu, &large)?;
        if large.whole {
            return Ok(most as usize);
        }
        // Bytes for each entry of the rows grow as the share of entries that is cut off gets smaller, about linearly, and none is in the end.
        let small = source.sample((rows / SMALLER).max(1), large.pieces)?;
        let (few, many) = (self.peak(gpu, &small)? * small.scale(), most * large.scale());
        let cut = small.cut - large.cut;
        let slope = if cut > 0.0 { ((many - few) / cut).clamp(0.0, REACH * many) } else { 0.0 };
        let growth = if large.has_long { large.growth(few, many) } else { 1.0 };
        Ok(((DEVICE_MARGIN + large.doubt()) * (many * growth).max(many + slope * large.cut)) as usize)
    }

    /// The most device memory that the set-up of a sample takes.
    fn peak(&self, gpu: &Gpu, sample: &Sample) -> Result<f64> {
        // A matrix that is on the device already takes nothing there.
        let there = self.matrix.is_on(gpu);
        let sample = if there { Arc::new(sample.matrix.to_device(self.context)?) } else { Arc::clone(&sample.matrix) };
        let before = gpu.memory();
        gpu.reset_peak();
        let hierarchy = Amg::setup(self.context, &sample, self.config);
        let peak = gpu.memory().peak;
        gpu.restore_peak(before.peak);
        hierarchy.map(|_| (peak - before.used) as f64)
    }
}

impl Sample {
    /// How many times what its set-up takes the matrix would take. Where there are several kinds of rows, some of them have few entries and some many.
    fn scale(&self) -> f64 {
        if self.pieces == 1 { self.by_entries } else { self.by_entries.max(self.by_rows) }
    }

    /// What is added to the margin on a GPU: for rows that the sample does not have, or has too many of, and for formats.
    fn doubt(&self) -> f64 {
        let mixed = if self.pieces == 1 { 0.0 } else { MIXED_DOUBT + self.unlike };
        mixed + self.long_doubt()
    }

    fn long_doubt(&self) -> f64 {
        if self.has_long { LONG_DOUBT } else { 0.0 }
    }

    /// Coarse levels fill up around rows that get longer with the matrix. How many times as much it takes as a multiple of this sample, if it goes on as
    /// from a smaller sample, from which `few` is expected, to this one, from which `many` is.
    fn growth(&self, few: f64, many: f64) -> f64 {
        let growth = (many / few.max(1.0)).clamp(1.0, SMALLER as f64);
        growth.powf(self.by_rows.ln() / (SMALLER as f64).ln())
    }
}

/// In as few pieces as it takes to be like the matrix.
fn representative<T: Scalar>(source: &Source<'_, T>, rows: usize) -> Result<Sample>
where
    Values: From<Vec<T>>,
{
    let mut best = source.sample(rows, PIECES[0])?;
    for pieces in &PIECES[1..] {
        if best.unlike <= ALIKE {
            break;
        }
        let next = source.sample(rows, *pieces)?;
        if next.unlike < best.unlike {
            best = next;
        }
    }
    Ok(best)
}

/// Bytes of the finest matrix of a hierarchy on the host.
fn finest<T: Scalar>(a: &SharedCsr<T>, storage: Precision) -> Result<usize> {
    if storage != T::PRECISION {
        return Ok(a.structure.owned_bytes() + a.values.as_slice().len() * storage.bytes());
    }
    Ok(with_storage!(storage, S => a.cast::<S>()?.owned_bytes()))
}

/// What is estimated from samples of `rows` rows, or of half as many and so on, where there is too little memory for these.
fn where_there_is_room(mut rows: usize, estimate: impl Fn(usize) -> Result<usize>) -> Result<usize> {
    loop {
        match estimate(rows) {
            Err(error) if error.status == Status::OutOfMemory && rows > FEWEST_ROWS => rows /= 2,
            result => return result,
        }
    }
}

/// The limit of a context's memory does not count while this is there: whether a set-up would keep to it is what the caller wants to know.
struct Unlimited<'a> {
    gpu: &'a Gpu,
    limit: Option<usize>,
}

impl Unlimited<'_> {
    fn new(gpu: &Gpu) -> Unlimited<'_> {
        let limit = gpu.memory().limit;
        gpu.set_memory_limit(None);
        Unlimited { gpu, limit }
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        self.gpu.set_memory_limit(self.limit);
    }
}
