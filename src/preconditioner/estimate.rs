//! Estimate of the memory of a set-up: the set-up of a sample of the matrix, extrapolated.
//!
//! On the host it is what is held afterwards. On a GPU it is the peak, which is measured: nothing here depends on what the steps
//! of set-up allocate. What is done with a sample is given: a set-up alone, or also an update or a solver around it.
//!
//! Formats on a GPU are chosen by the number of rows, so those of a sample are chosen as for the matrix ([`Context::for_sample`]): a
//! restriction was once estimated from a smaller one in another format, 10 % below what set-up took.
//!
//! The sample is one connected piece from the middle of the matrix if its rows are of the same kinds as those of the matrix
//! ([`profile`]). Otherwise it is several pieces from all parts of the matrix ([`sample`]).

mod profile;
mod sample;
mod structured;
#[cfg(feature = "unit-tests")]
mod tests;

use super::{Inverse, Method, defaults};
use crate::amg::hierarchy::Builder;
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, Status};
use crate::gpu::{self, Gpu};
use crate::matrix::{Matrix, Values};
use crate::report::Report;
use crate::scalar::{Precision, Scalar};
use crate::sparse::{SharedCsr, Storage, Structure};
use sample::{Sample, Source};
use std::sync::Arc;

/// Rows of the sample. A matrix that is not larger is set up as a whole.
const SAMPLE_ROWS: usize = 20_000;

/// A sample on the host is so many times as large where rows are very long or most couplings lead out of it, as in graphs that
/// are not meshes: coarse levels fill there as the matrix grows.
const IRREGULAR: usize = 8;

/// Most couplings lead out of a sample if more than this share of the entries of its rows does.
const LOOSE: f64 = 0.4;

/// Margin on the host: a sample has more boundary than the matrix, with shorter rows and smaller coarse levels. What reports do not count
/// is in it.
const MARGIN: f64 = 1.12;

/// Margin on the host for what reports do not count, such as trait objects: 4 % at most were measured.
const UNCOUNTED: f64 = 1.05;

/// The same for small matrices, in bytes.
const SMALL: usize = 8 << 10;

/// Rows of the sample on a GPU. Its set-up takes a few hundredths of a second.
const DEVICE_ROWS: usize = 1 << 20;

/// If device memory is short, the sample is made smaller, down to this many rows.
const FEWEST_ROWS: usize = 4096;

/// Ratio of the first to the second, smaller sample. Their difference shows the effect of boundaries.
const SMALLER: usize = 4;

/// An entry that leads out of the sample also affects neighbours of neighbours: it costs at most so many entries.
const REACH: f64 = 3.0;

/// Margin on a GPU, for further coarse levels and for formats that suit more rows. Without it estimates were 0.917 (one of 49,
/// with an aggressive level) to 1.03 of the peaks on an H200.
const DEVICE_MARGIN: f64 = 1.10;

/// Most difference between the histograms of a sample and of the matrix for which the sample is representative. In samples of full
/// size the boundaries of grids cause 0.1 for elasticity with 1.6 million unknowns, and up to 0.03 for the other problems measured.
const ALIKE: f64 = 0.12;

/// Pieces of a sample: the first of these numbers for which it is representative, or else the one with the least difference.
const PIECES: [usize; 3] = [1, 4, 16];

/// Added to the margin if there are several kinds of rows. A level has one format for all rows, which may differ from that of the
/// sample. That made a set-up take 18 % more than those of both kinds alone; what a sample is unlike the matrix is added, too.
const MIXED_DOUBT: f64 = 0.09;

/// Added to the margin on a GPU if some rows are very long: the sizes of their hash tables are powers of two.
const LONG_DOUBT: f64 = 0.22;

/// The same on the host, where no tables are held: fill around long rows may grow faster than from a smaller sample to this.
const LONG_DOUBT_ON_HOST: f64 = 0.10;

/// What a sample is set up for, with options that leave nothing open that depends on the matrix. What it made may end with it.
pub(crate) type Work<'a> = dyn Fn(&Context, &Arc<Matrix>, &Config) -> Result<Held> + 'a;

/// What was held at the end of work on a sample.
pub(crate) struct Held {
    /// Its bytes count.
    pub report: Report,
    /// Those of them that do not grow with the matrix.
    pub fixed: usize,
    /// Whether they include the copy of the matrix that the library has, whatever the format of the finest level.
    pub has_matrix: bool,
}

/// Estimated bytes of an approximate inverse without a solver.
pub(super) fn alone(method: Method, context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
    matrix.check_not_distributed("an estimate of memory")?;
    let set_up = |context: &Context, sample: &Arc<Matrix>, config: &Config| {
        let report = Inverse::setup(method, context, sample, config)?.report();
        Ok(Held { report, fixed: 0, has_matrix: false })
    };
    bytes(Some(method), &context.with_own_scratch()?, matrix, config, (false, None), &set_up)
}

/// Estimated bytes of some work with a preconditioner of this method: what is held at its end on the host, the peak on a GPU.
/// `in_solver` as for [`defaults::effective`], `rows` those of the sample where they are not the usual ones.
pub(super) fn bytes(
    method: Option<Method>,
    context: &Context,
    matrix: &Matrix,
    config: &Config,
    (in_solver, rows): (bool, Option<usize>),
    work: &Work<'_>,
) -> Result<usize> {
    // The errors of set-up.
    config.check_device(context.device())?;
    method.unwrap_or(Method::Amg).check(context, matrix)?;
    // Samples shall be set up as the whole matrix is.
    let config = &defaults::effective(method, context, matrix, config, in_solver)?.config;
    let rows = rows.unwrap_or(if context.gpu().is_some() { DEVICE_ROWS } else { SAMPLE_ROWS });
    if method == Some(Method::Amg) && defaults::is_structured(matrix, config)? {
        return structured::bytes(context, matrix, config, rows, work);
    }
    let (structure, values) = matrix.copied()?;
    let estimate = Estimate { method, context, matrix, config, work, structure, rows };
    match values {
        Values::F64(values) => estimate.bytes(values),
        Values::F32(values) => estimate.bytes(values),
    }
}

/// Input of an estimate.
struct Estimate<'a> {
    method: Option<Method>,
    context: &'a Context,
    matrix: &'a Matrix,
    config: &'a Config,
    work: &'a Work<'a>,
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
            functions: self.matrix.functions(),
            plan: None,
        };
        let a = self.structure.view(values.as_slice());
        let functions = if self.method == Some(Method::Amg) { builder.function_count()? } else { 1 };
        let source = Source::new(self.context, self.matrix, functions, a);
        match self.context.gpu() {
            Some(gpu) if gpu::IS_BUILT => {
                let _unlimited = Unlimited::new(gpu);
                let rows = self.rows.min(self.matrix.rows());
                with_smaller_samples(rows, |rows| self.device_bytes(gpu, &source, rows))
            }
            _ => self.host_bytes(&source, &values),
        }
    }

    /// Bytes that are held on the host.
    fn host_bytes<T: Scalar>(&self, source: &Source<'_, T>, values: &Arc<dyn Storage<T>>) -> Result<usize>
    where
        Values: From<Vec<T>>,
    {
        let most_rows = self.config.int("amg.coarsest.max_rows");
        // The bytes of the matrix itself are known; those in the caller's memory do not count.
        let held = |sample: &Sample| -> Result<(f64, usize)> {
            let Held { report, fixed, has_matrix } = (self.work)(self.context, &sample.matrix, self.config)?;
            let storage = report.levels.first().map(|level| level.matrix_precision);
            let of = |a: &SharedCsr<T>| fixed + finest(a, storage, has_matrix);
            // The coarsest level does not grow with the matrix; it may be smaller than that of the matrix, up to a limit.
            let coarsest = report.levels.last().filter(|_| report.levels.len() > 1 && !sample.whole);
            let coarsest = coarsest.filter(|level| level.rows <= most_rows).map_or(0, |level| level.bytes);
            let rest = report.bytes.saturating_sub(coarsest + of(&sample.matrix.shared::<T>()?));
            let largest = if coarsest > 0 { coarsest.max(most_rows * most_rows * T::PRECISION.bytes()) } else { 0 };
            // Entries that lead out of the sample count like the others.
            let known = of(&SharedCsr { structure: Arc::clone(&self.structure), values: Arc::clone(values) });
            Ok((rest as f64 * sample.scale() / (1.0 - sample.cut), known + largest))
        };
        let (mut rows, mut sample) = (self.rows, representative(source, self.rows)?);
        if sample.has_long || sample.cut > LOOSE {
            rows *= IRREGULAR;
            sample = representative(source, rows)?;
        }
        let (mut rest, known) = held(&sample)?;
        if !sample.whole {
            if sample.has_long {
                let small = source.sample((rows / SMALLER).max(1), sample.pieces)?;
                rest *= sample.growth(held(&small)?.0, rest);
            }
            let long = if sample.has_long { LONG_DOUBT_ON_HOST } else { 0.0 };
            rest *= MARGIN + sample.unlike + long;
        } else {
            rest *= UNCOUNTED;
        }
        Ok(rest as usize + SMALL + known)
    }

    /// Peak device memory of set-up, beyond what is held before, from samples of at most `rows` rows.
    fn device_bytes<T: Scalar>(&self, gpu: &Gpu, source: &Source<'_, T>, rows: usize) -> Result<usize>
    where
        Values: From<Vec<T>>,
    {
        let large = representative(source, rows)?;
        let most = self.peak(gpu, &large)?;
        if large.whole {
            return Ok(most as usize);
        }
        // Bytes per entry grow about linearly as the share of entries that lead out of the sample goes to zero.
        let small = source.sample((rows / SMALLER).max(1), large.pieces)?;
        let (few, many) = (self.peak(gpu, &small)? * small.scale(), most * large.scale());
        let cut = small.cut - large.cut;
        let slope = if cut > 0.0 { ((many - few) / cut).clamp(0.0, REACH * many) } else { 0.0 };
        let growth = if large.has_long { large.growth(few, many) } else { 1.0 };
        let inward = (large.cut - large.shorter_rows()).max(0.0);
        Ok(((DEVICE_MARGIN + large.doubt()) * (many * growth).max(many + slope * inward)) as usize)
    }

    /// Peak device memory of the set-up of a sample.
    fn peak(&self, gpu: &Gpu, sample: &Sample) -> Result<f64> {
        // A matrix that is on the device already takes no further memory.
        let (there, times) = (self.matrix.is_on(gpu), sample.by_rows.round() as usize);
        let sample = if there { Arc::new(sample.matrix.to_device(self.context)?) } else { Arc::clone(&sample.matrix) };
        let context = self.context.for_sample(times)?;
        let before = gpu.memory();
        gpu.reset_peak();
        let held = (self.work)(&context, &sample, self.config);
        let peak = gpu.memory().peak;
        gpu.restore_peak(before.peak);
        held.map(|_| (peak - before.used) as f64)
    }
}

impl Sample {
    /// Ratio of the memory of the matrix to that of the sample. With several kinds of rows, some have few entries and some many.
    fn scale(&self) -> f64 {
        if self.pieces == 1 { self.by_entries } else { self.by_entries.max(self.by_rows) }
    }

    /// The share of entries by which rows of the matrix are shorter than those of the sample, as at boundaries that the matrix has of its own;
    /// negative where they are longer. What a sample lacks at its boundary, the matrix lacks there.
    fn shorter_rows(&self) -> f64 {
        if self.pieces == 1 { 1.0 - self.by_entries / self.by_rows } else { 0.0 }
    }

    /// Added to the margin on a GPU: for rows that the sample lacks or has too many of, and for formats.
    fn doubt(&self) -> f64 {
        let mixed = if self.pieces == 1 { 0.0 } else { MIXED_DOUBT + self.unlike };
        mixed + if self.has_long { LONG_DOUBT } else { 0.0 }
    }

    /// Fill of coarse levels around rows that grow with the matrix: the factor by which the estimate grows from this sample to the
    /// matrix, if it grows as from a smaller sample, with the estimate `few`, to this one, with `many`.
    fn growth(&self, few: f64, many: f64) -> f64 {
        let growth = (many / few.max(1.0)).clamp(1.0, SMALLER as f64);
        growth.powf(self.by_rows.ln() / (SMALLER as f64).ln())
    }
}

/// A sample with the fewest pieces for which it is representative.
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

/// Bytes on the host of the matrix itself and of a finest level with other values.
fn finest<T: Scalar>(a: &SharedCsr<T>, storage: Option<Precision>, has_matrix: bool) -> usize {
    let (structure, values) = (a.structure.owned_bytes(), a.values.as_slice().len());
    match storage {
        // The level has the values of the matrix, or copies of lent ones.
        Some(storage) if storage == T::PRECISION => structure + values * storage.bytes(),
        _ if has_matrix => structure + a.values.owned_bytes(),
        Some(storage) => structure + values * storage.bytes(),
        None => 0,
    }
}

/// An estimate from samples of `rows` rows, halved while there is too little memory.
fn with_smaller_samples(mut rows: usize, estimate: impl Fn(usize) -> Result<usize>) -> Result<usize> {
    loop {
        match estimate(rows) {
            Err(error) if error.status == Status::OutOfMemory && rows > FEWEST_ROWS => rows /= 2,
            result => return result,
        }
    }
}

/// Suspends the memory limit of a context while it exists: the estimate tells the caller whether set-up would exceed it.
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
