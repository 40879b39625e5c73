//! Extended+i interpolation on a GPU: `kernels/extended_i_couplings.cu`, `kernels/extended_i.cu` and
//! `kernels/extended_i_long.cu`.
//!
//! Rows are computed with accumulators in shared memory that suit most of them. Rows that do not fit are listed and
//! computed again with larger accumulators. Rows that do not fit these either have a block of threads each, with an
//! accumulator in shared memory or, if that is too small as well, in global memory.

use super::coarse_numbering::Splitting;
use super::truncate::{MAX_SHORT_ENTRIES, Mode};
use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::backend::common::Formula;
use crate::backend::parameters::Truncation;
use crate::error::{Result, fail};
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Who computes most rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    /// Single threads that go through the couplings of a row's neighbours once, if none of them is weak.
    SinglePass,
    /// Single threads.
    Threads,
    /// Four lanes for each row.
    Tiles,
    /// The same with larger accumulators: where there are few rows, those that do not fit at first take long.
    LargeTiles,
}

/// Which rows tiles compute, as in `kernels/extended_i.cu`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    First = 0,
    Second = 1,
    Only = 2,
}

/// Rows that fill a GPU with one thread each.
const MIN_ROWS_FOR_THREADS: usize = 200_000;

/// Packed couplings of a kind, as in `kernels/extended_i.h`.
const PACKED: usize = 4;

/// Words of an unknown's head, as there.
const HEAD: usize = 4;

/// Lanes of a tile.
const LANES: usize = 4;

/// Blocks of threads for the rows that did not fit.
const REST_BLOCKS: usize = 528;

/// Slots of a block's accumulator in shared memory, as in `kernels/extended_i_long.cu`; half of them are used.
const SHARED_SLOTS: usize = 2048;

/// Slots of all accumulators in global memory, unless one has more.
const GLOBAL_SLOTS: usize = 1 << 21;

/// Largest number of columns of a row.
const MAX_COLUMNS: usize = 1 << 29;

/// As [`crate::host::extended_i::interpolate`], to all unknowns or to those of `only`.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    truncation: Truncation,
) -> Result<DeviceCsr<T>> {
    by_formula(Formula::ExtendedI, gpu, a, s, coarse, only, truncation)
}

/// As [`crate::host::extended_i::by_formula`].
pub(super) fn by_formula<T: Scalar>(
    formula: Formula,
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    truncation: Truncation,
) -> Result<DeviceCsr<T>> {
    Level::new(gpu, a, s, coarse, formula)?.interpolate(only, truncation)
}

/// Numeric phase: the interpolation with the pattern of an earlier one, `p`, for the same graph and splitting. Each
/// row keeps its columns, whatever the new weights.
pub(crate) fn numeric<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    p: &DevicePattern,
) -> Result<DeviceCsr<T>> {
    numeric_by_formula(Formula::ExtendedI, gpu, a, s, coarse, only, p)
}

/// The same by either formula.
pub(super) fn numeric_by_formula<T: Scalar>(
    formula: Formula,
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    p: &DevicePattern,
) -> Result<DeviceCsr<T>> {
    Level::new(gpu, a, s, coarse, formula)?.numeric(only, p)
}

/// Input of all rows.
pub(super) struct Level<'a, T> {
    gpu: &'a Gpu,
    pub a: &'a DeviceCsr<T>,
    pub coarse: &'a Splitting,
    formula: Formula,
    workers: Workers,
    /// Flags of each entry of a fine row: whether it is strong, and whether its column is coarse.
    pub kinds: Buffer<u8>,
    /// A bitmap of each row's entries that are strong and have a fine column.
    fine: Buffer<u64>,
    /// Couplings of each fine unknown to coarse ones, in the range of its matrix row: strong ones from its begin on,
    /// weak ones from its end backwards.
    pub columns: Buffer<i32>,
    pub values: Buffer<T>,
    /// The first few strong and weak couplings, packed.
    packed_columns: Buffer<i32>,
    packed_values: Buffer<T>,
    /// The head of each unknown: numbers of couplings, and more.
    pub heads: Buffer<i64>,
}

impl<'a, T: Scalar> Level<'a, T> {
    pub(super) fn new(
        gpu: &'a Gpu,
        a: &'a DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &'a Splitting,
        formula: Formula,
    ) -> Result<Level<'a, T>> {
        let kinds = if workers(a, s) == Workers::SinglePass { 1 } else { 2 };
        Level::with_packed(gpu, a, s, coarse, formula, kinds)
    }

    /// With packed couplings of `kinds` kinds: strong ones first, then weak ones.
    pub fn with_packed(
        gpu: &'a Gpu,
        a: &'a DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &'a Splitting,
        formula: Formula,
        packed_kinds: usize,
    ) -> Result<Level<'a, T>> {
        assert_eq!(a.block, Block::SCALAR);
        let near = packed_kinds * PACKED * a.rows;
        let (packed_columns, packed_values, heads) =
            (gpu.allocate(near)?, gpu.allocate(near)?, gpu.allocate(HEAD * a.rows)?);
        let (kinds, columns, values) = (gpu.allocate(a.nnz())?, gpu.allocate(a.nnz())?, gpu.allocate(a.nnz())?);
        let fine = gpu.allocate(a.nnz() / u64::BITS as usize + a.rows + 1)?;
        let workers = workers(a, s);
        let level = Level {
            gpu,
            a,
            coarse,
            formula,
            workers,
            kinds,
            fine,
            columns,
            values,
            packed_columns,
            packed_values,
            heads,
        };
        // Eight lanes are fastest for rows of any length, unless there are few rows.
        let lanes = if a.rows >= MIN_ROWS_FOR_THREADS || a.nnz() <= 16 * a.rows { 8 } else { 32 };
        let (matrix, couplings) = (level.matrix(), level.couplings());
        let views = [&matrix[..], &[s.offsets.view(), s.columns.view()], &couplings].concat();
        let name = format!("extended_i_couplings_{}_{lanes}", T::PRECISION.name());
        level.launch(&name, (a.rows * lanes).div_ceil(BLOCK), &[&(a.rows as i64)], &views)?;
        Ok(level)
    }

    pub(super) fn matrix(&self) -> [View<'_>; 4] {
        let Level { a, coarse, .. } = self;
        [a.offsets.view(), a.columns.view(), a.values.view(), coarse.number.view()]
    }

    fn couplings(&self) -> [View<'_>; 7] {
        let Level { kinds, fine, packed_columns, packed_values, columns, values, heads, .. } = self;
        let near = [packed_columns.view(), packed_values.view()];
        [kinds.view(), fine.view(), near[0], near[1], columns.view(), values.view(), heads.view()]
    }

    fn launch(&self, name: &str, blocks: usize, first: &[&dyn Argument], views: &[View]) -> Result<()> {
        let views = views.iter().map(|view| view as &dyn Argument);
        let arguments: Vec<&dyn Argument> = first.iter().copied().chain(views).collect();
        self.gpu.launch_blocks(self.gpu.kernel(name)?, blocks, &arguments)
    }

    fn interpolate(self, only: Option<&Slice<i32>>, truncation: Truncation) -> Result<DeviceCsr<T>> {
        let (gpu, cols) = (self.gpu, self.coarse.count);
        let rows = only.map_or(self.a.rows, Slice::len);
        let counts = gpu.allocate::<i32>(rows)?;
        if (1..=MAX_SHORT_ENTRIES).contains(&truncation.max_entries) {
            let most = truncation.max_entries;
            let (columns, values) = (gpu.allocate::<i32>(rows * most)?, gpu.allocate::<T>(rows * most)?);
            let arrays = [View::NONE, columns.view(), values.view(), counts.view()];
            self.rows(only, truncation, Mode::Short, arrays)?;
            drop(self);
            return super::truncate::gather(gpu, (rows, cols), most, (columns, values), &counts);
        }
        let none = View::NONE;
        self.rows(only, truncation, Mode::Count, [none, none, none, counts.view()])?;
        let (offsets, total) = gpu.offsets(&counts)?;
        let (columns, values) = (gpu.allocate::<i32>(total)?, gpu.allocate::<T>(total)?);
        self.rows(only, truncation, Mode::Write, [offsets.view(), columns.view(), values.view(), none])?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
    }

    fn numeric(self, only: Option<&Slice<i32>>, p: &DevicePattern) -> Result<DeviceCsr<T>> {
        let values = self.gpu.allocate::<T>(p.nnz())?;
        let all = Truncation::new(0, 0.0);
        self.rows(only, all, Mode::Pattern, [p.offsets.view(), p.columns.view(), values.view(), View::NONE])?;
        Ok(p.with(values))
    }

    /// Offsets, columns and values of the result, and counts of rows, as far as the mode uses them.
    fn rows(&self, only: Option<&Slice<i32>>, truncation: Truncation, mode: Mode, to: [View; 4]) -> Result<()> {
        let Level { gpu, a, coarse, .. } = self;
        let rows = only.map_or(a.rows, Slice::len);
        if rows == 0 {
            return Ok(());
        }
        let precision = T::PRECISION.name();
        let modified = self.formula == Formula::ClassicalModified;
        let how = How { only, truncation, mode, to };
        let left = Left::new(gpu, rows)?;
        let workers = match self.workers {
            // Single threads do not count rows and write them later, and compute one formula only.
            Workers::SinglePass | Workers::Threads if modified || matches!(mode, Mode::Count | Mode::Write) => {
                Workers::Tiles
            }
            workers => workers,
        };
        let blocks = (rows * LANES).div_ceil(BLOCK);
        match workers {
            Workers::LargeTiles => self.tiles(&how, &left, 64, blocks, Pass::Only)?,
            Workers::Tiles => self.tiles(&how, &left, 32, blocks, Pass::First)?,
            Workers::SinglePass | Workers::Threads => {
                // So many rows for a block that its fine ones rarely exceed its threads.
                let fine = if only.is_some() { 1.0 } else { (a.rows - coarse.count) as f64 / a.rows as f64 };
                let piece = (0.96 * BLOCK as f64 / fine).clamp(BLOCK as f64, 2.0 * BLOCK as f64) as usize;
                let name = if workers == Workers::SinglePass { "single_pass" } else { "threads" };
                let name = format!("extended_i_{name}_{precision}");
                let first: [&dyn Argument; 2] = [&(rows as i64), &(piece as i32)];
                let last = [left.lists[0].view(), left.counts.view()];
                self.launch_rows(&name, rows.div_ceil(piece), &how, &first, &last)?;
            }
        }
        if workers != Workers::LargeTiles {
            self.tiles(&how, &left, 64, blocks.min(REST_BLOCKS), Pass::Second)?;
        }
        self.long_rows(&how, &left)
    }

    /// Computes the rows that a numeric update left.
    pub(super) fn numeric_left(&self, p: &DevicePattern, values: &Slice<T>, left: &Left) -> Result<()> {
        let truncation = Truncation::new(0, 0.0);
        let to = [p.offsets.view(), p.columns.view(), values.view(), View::NONE];
        let how = How { only: None, truncation, mode: Mode::Pattern, to };
        self.tiles(&how, left, 64, (self.a.rows * LANES).div_ceil(BLOCK).min(REST_BLOCKS), Pass::Second)?;
        self.long_rows(&how, left)
    }

    /// Rows with accumulators of so many slots.
    fn tiles(&self, how: &How<'_>, left: &Left, slots: usize, blocks: usize, pass: Pass) -> Result<()> {
        let more = if pass == Pass::First { &left.lists[0] } else { &left.lists[1] };
        let name = format!("extended_i_{}_{LANES}_{slots}", T::PRECISION.name());
        let views = [left.lists[0].view(), more.view(), left.counts.view()];
        self.launch_rows(&name, blocks, how, &[&(left.rows as i64), &(pass as i32)], &views)
    }

    /// The remaining rows, a block of threads for each. Waits for the device.
    fn long_rows(&self, how: &How<'_>, left: &Left) -> Result<()> {
        let (gpu, cols, counts) = (self.gpu, self.coarse.count, self.gpu.fetch(&left.counts)?);
        let (count, bound) = (counts[1] as usize, (counts[2] as usize).min(cols));
        if count == 0 {
            return Ok(());
        }
        let (precision, list) = (T::PRECISION.name(), left.lists[1].subslice(0, count).view());
        self.launch_rows(
            &format!("extended_i_long_{precision}"),
            count.min(REST_BLOCKS),
            how,
            &[&(cols as i64)],
            &[list],
        )?;
        if bound > MAX_COLUMNS {
            return fail!(Unsupported, "a row of the interpolation may have {bound} entries; accepted: at most 2^29");
        }
        if bound > SHARED_SLOTS / 2 {
            let slots = (2 * bound).next_power_of_two();
            let tables = count.min((GLOBAL_SLOTS / slots).max(1));
            let (keys, weights) = (gpu.allocate::<i32>(tables * slots)?, gpu.allocate::<T>(tables * slots)?);
            let first: [&dyn Argument; 2] = [&(cols as i64), &(slots as i32)];
            let name = format!("extended_i_longest_{precision}");
            self.launch_rows(&name, tables, how, &first, &[list, keys.view(), weights.view()])?;
        }
        Ok(())
    }

    fn launch_rows(
        &self,
        name: &str,
        blocks: usize,
        how: &How<'_>,
        first: &[&dyn Argument],
        last: &[View],
    ) -> Result<()> {
        let How { only, truncation, mode, to } = how;
        let modified = self.formula == Formula::ClassicalModified;
        let most = truncation.max_entries.min(i32::MAX as usize) as i32;
        let mode = *mode as i32 + if modified { 4 } else { 0 };
        let only = only.map_or(View::NONE, Slice::view);
        let level = [&self.matrix()[..], &self.couplings(), &[only], to].concat();
        let how: [&dyn Argument; 3] = [&mode, &most, &truncation.factor];
        self.launch(name, blocks, &[first, &how].concat(), &[&level, last].concat())
    }
}

/// Which rows are computed, how they are truncated, and the output.
struct How<'a> {
    only: Option<&'a Slice<i32>>,
    truncation: Truncation,
    mode: Mode,
    to: [View<'a>; 4],
}

/// Rows that did not fit: their numbers after the first and the second kernel, and a bound of their columns; and the
/// lists of both.
pub(super) struct Left {
    rows: usize,
    pub counts: Buffer<i32>,
    pub lists: [Buffer<i32>; 2],
}

impl Left {
    pub fn new(gpu: &Gpu, rows: usize) -> Result<Left> {
        Ok(Left { rows, counts: gpu.zeroed(3)?, lists: [gpu.allocate(rows)?, gpu.allocate(rows)?] })
    }
}

/// The workers for a level: single threads have small accumulators, which longer rows exceed.
fn workers<T: Scalar>(a: &DeviceCsr<T>, s: &DeviceGraph) -> Workers {
    if a.rows < MIN_ROWS_FOR_THREADS {
        Workers::LargeTiles
    } else if a.nnz() > 40 * a.rows {
        Workers::Tiles
    } else if s.columns.len() + a.rows >= a.nnz() {
        Workers::SinglePass
    } else {
        Workers::Threads
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{irregular, narrow, problems, splittings, upload};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::{extended_i, strength};
    use crate::sparse::{Csr, Graph};

    const WORKERS: [Workers; 4] = [Workers::SinglePass, Workers::Threads, Workers::Tiles, Workers::LargeTiles];

    fn check<T: Scalar>(a: &Csr<T>, name: &str, formula: Formula, case: &mut usize) {
        let view = a.view();
        let graphs = [strength::classical(&view, 0.25, 1.0).unwrap(), strength::absolute(&view, 0.1).unwrap()];
        for (k, s) in graphs.iter().enumerate() {
            let only: Vec<u32> = (0..a.rows as u32).filter(|i| hash(*i as usize, 3).is_multiple_of(2)).collect();
            // Other values than those that a pattern was made for.
            let mut changed = a.clone();
            for (k, v) in changed.values.iter_mut().enumerate() {
                *v *= T::from_f64(1.0 + (hash(k, 9) % 4) as f64);
            }
            let coarse = &splittings(s)[k];
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            let others = [(2, 0.3), (0, 0.0), (17, 0.1), (0, 0.25)];
            for (max_entries, factor) in [(4, 0.0), others[*case / 2 % 4]] {
                let cut = Truncation::new(max_entries, factor);
                let on_host = |a: &Csr<T>, only, pattern| {
                    extended_i::by_formula(formula, &a.view(), s, coarse, only, cut, pattern).unwrap()
                };
                let (wanted, some) = (on_host(a, None, None), on_host(a, Some(only.as_slice()), None));
                let structure = wanted.clone().into_shared().structure;
                let updated = on_host(&changed, None, Some(&*structure));
                *case += 1;
                let workers = WORKERS[*case % WORKERS.len()];
                let what = format!("{name}, {max_entries} {factor} {workers:?}");
                for gpu in devices() {
                    let graph = upload(&gpu, s);
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let device_copy = |a: &Csr<T>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
                    let level = |a| Level { workers, ..Level::new(&gpu, a, &graph, &splitting, formula).unwrap() };
                    let matrix = device_copy(a);
                    let p = level(&matrix).interpolate(None, cut).unwrap();
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{what}");
                    let list = gpu.upload(&only.iter().map(|i| *i as i32).collect::<Vec<_>>()).unwrap();
                    let got = level(&matrix).interpolate(Some(&list), cut).unwrap();
                    assert_eq!(got.fetch(&gpu).unwrap(), some, "{what}, some rows");
                    let got = level(&device_copy(&changed)).numeric(None, &p.pattern()).unwrap();
                    assert_eq!(got.fetch(&gpu).unwrap(), updated, "{what}, updated");
                }
            }
        }
    }

    #[test]
    fn interpolations_of_problems_are_those_of_the_host() {
        let mut case = 0;
        problems().iter().for_each(|(name, a)| check(a, name, Formula::ExtendedI, &mut case));
    }

    #[test]
    fn interpolations_of_irregular_matrices_are_those_of_the_host() {
        let mut case = 0;
        irregular().iter().for_each(|(name, a)| check(a, name, Formula::ExtendedI, &mut case));
    }

    #[test]
    fn interpolations_in_f32_are_those_of_the_host() {
        let mut case = 0;
        for (name, a) in irregular().into_iter().skip(3) {
            check(&narrow(&a), &format!("{name} in f32"), Formula::ExtendedI, &mut case);
        }
    }

    #[test]
    fn classical_interpolations_are_those_of_the_host() {
        let mut case = 0;
        irregular().iter().skip(3).for_each(|(name, a)| check(a, name, Formula::ClassicalModified, &mut case));
    }

    #[test]
    fn all_workers_give_the_same() {
        let cut = Truncation::new(4, 0.0);
        let (_, a) = problems().remove(1);
        let view = a.view();
        let s = strength::classical(&view, 0.25, 1.0).unwrap();
        let coarse = &splittings(&s)[0];
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        let wanted = extended_i::interpolate(&view, &s, coarse, None, cut, None).unwrap();
        for gpu in devices() {
            let (on_device, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
            let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let p = interpolate(&gpu, &on_device, &graph, &splitting, None, cut).unwrap();
            assert_eq!(p.fetch(&gpu).unwrap(), wanted);
            for workers in WORKERS {
                let new = || Level::new(&gpu, &on_device, &graph, &splitting, Formula::ExtendedI).unwrap();
                let level = || Level { workers, ..new() };
                let p = level().interpolate(None, cut).unwrap();
                assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{workers:?}");
                assert_eq!(level().numeric(None, &p.pattern()).unwrap().fetch(&gpu).unwrap(), wanted, "{workers:?}");
            }
        }
    }

    /// Interpolation and its numeric phase on devices.
    fn check_both<T: Scalar>(a: &Csr<T>, s: &Graph, coarse: &[bool], formula: Formula, cut: Truncation) {
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        let wanted = extended_i::by_formula(formula, &a.view(), s, coarse, None, cut, None).unwrap();
        for gpu in devices() {
            let (on_device, graph) = (DeviceCsr::upload(&gpu, &a.view()).unwrap(), upload(&gpu, s));
            let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let p = by_formula(formula, &gpu, &on_device, &graph, &splitting, None, cut).unwrap();
            assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{formula:?} {cut:?}");
            let p = numeric_by_formula(formula, &gpu, &on_device, &graph, &splitting, None, &p.pattern()).unwrap();
            assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{formula:?} {cut:?}");
        }
    }

    #[test]
    fn rows_with_more_columns_than_tables_of_tiles_hold_have_a_block_each() {
        // One fine unknown that all others, which are coarse, are strong neighbours of, and one that sees them through
        // it.
        let n = 1500;
        let mut t = vec![(0, 0, 2000.0), (1, 1, 2.0), (1, 0, -1.0), (0, 1, -1.0)];
        t.extend((2..n).flat_map(|j| [(0, j, -1.0 - (j % 7) as f64 / 3.0), (j, j, 2.0)]));
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let s = strength::classical(&a.view(), 0.0, 1.0).unwrap();
        let coarse: Vec<bool> = (0..n).map(|i| i > 1).collect();
        for max_entries in [0, 4, 100] {
            check_both(&a, &s, &coarse, Formula::ExtendedI, Truncation::new(max_entries, 0.0));
        }
    }

    #[test]
    fn hubs_and_long_rows_with_weak_couplings_are_those_of_the_host() {
        // A fine hub with fine neighbours that have few couplings each, and fine unknowns with many, strong ones and
        // weak ones of either sign.
        let (n, spokes, long) = (2600, 600, 8);
        let value = |k: usize| {
            -(1.0 + (hash(k, 5) % 1000) as f64 / 300.0) * if hash(k, 6).is_multiple_of(9) { -0.2 } else { 1.0 }
        };
        let fine = 1 + spokes + long;
        let mut t: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, i, 5000.0)).collect();
        let mut couple = |i: usize, j: usize| t.push((i, j, value(i * n + j)));
        (1..fine).filter(|i| i % 50 != 0).for_each(|i| couple(0, i));
        (1..=spokes).for_each(|i| couple(i, 0));
        for i in 1..=spokes {
            (0..4).for_each(|e| couple(i, fine + hash(4 * i + e, 7) as usize % (n - fine - 4) / 4 * 4 + e));
        }
        for i in 1 + spokes..fine {
            (0..fine).step_by(5).filter(|j| *j != i).for_each(|j| couple(i, j));
            (fine..n).filter(|j| hash(i * n + j, 8).is_multiple_of(2 + 3 * (i % 2) as u64)).for_each(|j| couple(i, j));
        }
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let coarse: Vec<bool> = (0..n).map(|i| i >= fine).collect();
        for (formula, most, factor) in [
            (Formula::ExtendedI, 4, 0.0),
            (Formula::ExtendedI, 0, 0.25),
            (Formula::ExtendedI, 20, 0.3),
            (Formula::ClassicalModified, 0, 0.0),
            (Formula::ClassicalModified, 3, 0.1),
        ] {
            check_both(&a, &s, &coarse, formula, Truncation::new(most, factor));
        }
        check_both(&narrow(&a), &s, &coarse, Formula::ExtendedI, Truncation::new(4, 0.0));
    }
}
