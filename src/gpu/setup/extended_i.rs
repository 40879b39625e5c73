//! Extended+i interpolation on a GPU. The work is in `kernels/extended_i.cu`.
//!
//! Rows are computed with tables in shared memory that suit most of them. What does not fit is listed, done again with larger tables, and what
//! does not fit there either, with tables in global memory.

use super::coarse::Splitting;
use super::truncate::{MOST, Mode};
use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::extended_i::Formula;
use crate::host::truncate::Truncation;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Lanes of a tile, slots of its table and near couplings, for which there are kernels; one lane is a thread with a row of its own.
#[cfg(test)]
const TABLES: [(usize, usize, usize); 6] = [(1, 16, 4), (1, 16, 8), (8, 32, 4), (16, 64, 4), (16, 64, 8), (32, 128, 8)];

/// Rows that are enough for a GPU whose threads have one each.
const MANY: usize = 200_000;

/// Lanes and slots for what did not fit.
const SECOND: (usize, usize) = (32, 256);

/// Blocks for the rows that did not fit.
const AGAIN: usize = 528;

/// Tiles with tables in global memory.
const FAR: usize = 512;

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

/// The interpolation with the pattern of an earlier one, `p`, for the same graph and splitting: each row keeps its columns, whatever the size of
/// the new weights.
pub(crate) fn renew<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    p: &DevicePattern,
) -> Result<DeviceCsr<T>> {
    renew_by_formula(Formula::ExtendedI, gpu, a, s, coarse, only, p)
}

/// The same by either formula.
pub(super) fn renew_by_formula<T: Scalar>(
    formula: Formula,
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    p: &DevicePattern,
) -> Result<DeviceCsr<T>> {
    Level::new(gpu, a, s, coarse, formula)?.renew(only, p)
}

/// What all rows are computed from.
pub(super) struct Level<'a, T> {
    gpu: &'a Gpu,
    pub a: &'a DeviceCsr<T>,
    pub coarse: &'a Splitting,
    /// A byte for each entry of a fine row: whether it is strong, and whether its column is coarse.
    pub kinds: Buffer<u8>,
    /// Couplings of each fine unknown to coarse ones: the first few have places of their own, the others stand where the row of the matrix does.
    near_columns: Buffer<i32>,
    near_values: Buffer<T>,
    pub columns: Buffer<i32>,
    pub values: Buffer<T>,
    /// How many they are, and the sign of the diagonal.
    pub reach: Buffer<i32>,
    formula: Formula,
    /// Lanes, slots and near couplings for most rows.
    table: (usize, usize, usize),
}

impl<'a, T: Scalar> Level<'a, T> {
    fn new(
        gpu: &'a Gpu,
        a: &'a DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &'a Splitting,
        formula: Formula,
    ) -> Result<Level<'a, T>> {
        assert_eq!(a.block, Block::SCALAR);
        Level::with_table(gpu, a, s, coarse, formula, table(a, s, coarse.count))
    }

    /// With places for as many couplings as the table says.
    pub fn with_table(
        gpu: &'a Gpu,
        a: &'a DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &'a Splitting,
        formula: Formula,
        table: (usize, usize, usize),
    ) -> Result<Level<'a, T>> {
        let (lanes, _, near) = table;
        let (kinds, columns, values) = (gpu.room(a.nnz())?, gpu.room(a.nnz())?, gpu.room(a.nnz())?);
        let (near_columns, near_values) = (gpu.room(a.rows * near)?, gpu.room(a.rows * near)?);
        let reach = gpu.room(a.rows)?;
        let level = Level { gpu, a, coarse, kinds, near_columns, near_values, columns, values, reach, formula, table };
        // Eight lanes do best for rows of any length, unless there are few rows.
        let lanes = if lanes == 1 || a.rows >= MANY { 8 } else { lanes };
        let kernel = gpu.kernel(&format!("extended_i_couplings_{}_{lanes}", T::PRECISION.name()))?;
        let arguments: [&dyn Argument; 14] = [
            &(a.rows as i64),
            &(near as i32),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &coarse.number.view(),
            &s.offsets.view(),
            &s.columns.view(),
            &level.kinds.view(),
            &level.near_columns.view(),
            &level.near_values.view(),
            &level.columns.view(),
            &level.values.view(),
            &level.reach.view(),
        ];
        gpu.launch(kernel, a.rows * lanes, &arguments)?;
        Ok(level)
    }

    fn interpolate(self, only: Option<&Slice<i32>>, truncation: Truncation) -> Result<DeviceCsr<T>> {
        let (gpu, cols) = (self.gpu, self.coarse.count);
        let rows = only.map_or(self.a.rows, Slice::len);
        let counts = gpu.room::<i32>(rows)?;
        if (1..=MOST).contains(&truncation.max_entries) {
            let most = truncation.max_entries;
            let (columns, values) = (gpu.room::<i32>(rows * most)?, gpu.room::<T>(rows * most)?);
            let arrays = [View::NONE, columns.view(), values.view(), counts.view()];
            self.rows(only, truncation, Mode::Short, arrays)?;
            drop(self);
            return super::truncate::gather(gpu, (rows, cols), most, (columns, values), &counts);
        }
        let none = View::NONE;
        self.rows(only, truncation, Mode::Count, [none, none, none, counts.view()])?;
        let (offsets, total) = gpu.offsets(&counts)?;
        let (columns, values) = (gpu.room::<i32>(total)?, gpu.room::<T>(total)?);
        self.rows(only, truncation, Mode::Write, [offsets.view(), columns.view(), values.view(), none])?;
        let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
        Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
    }

    fn renew(self, only: Option<&Slice<i32>>, p: &DevicePattern) -> Result<DeviceCsr<T>> {
        let values = self.gpu.room::<T>(p.nnz())?;
        let all = Truncation { max_entries: 0, factor: 0.0 };
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
        let (how, most) =
            (mode as i32 + if modified { 4 } else { 0 }, truncation.max_entries.min(i32::MAX as usize) as i32);
        let level = [
            a.offsets.view(),
            a.columns.view(),
            a.values.view(),
            coarse.number.view(),
            self.kinds.view(),
            self.near_columns.view(),
            self.near_values.view(),
            self.columns.view(),
            self.values.view(),
            self.reach.view(),
            only.map_or(View::NONE, Slice::view),
        ];
        let how: [&dyn Argument; 3] = [&how, &most, &truncation.factor];
        let launch = |name: &str, blocks: usize, first: &[&dyn Argument], last: &[View]| {
            let arrays = level.iter().chain(&to).chain(last).map(|view| view as &dyn Argument);
            let arguments: Vec<&dyn Argument> = first.iter().copied().chain(how).chain(arrays).collect();
            gpu.launch_blocks(gpu.kernel(name)?, blocks, &arguments)
        };
        let left = gpu.zeroed::<i32>(3)?;
        // The first pass lists what the second one does, and that what is left then.
        let lists = [gpu.room::<i32>(rows)?, gpu.room::<i32>(rows)?];
        // Single threads do not count rows and write them later.
        let (lanes, slots, near) = match (self.table, mode) {
            ((1, _, near), Mode::Count | Mode::Write) => (16, 64, near),
            (table, _) => table,
        };
        for (again, (lanes, slots)) in [(lanes, slots), SECOND].into_iter().enumerate() {
            let blocks = (rows * lanes).div_ceil(BLOCK);
            let blocks = if again == 1 { blocks.min(AGAIN) } else { blocks };
            if lanes == 1 {
                let name = format!("extended_i_own_{precision}_{near}");
                launch(&name, blocks, &[&(rows as i64)], &[lists[0].view(), left.view()])?;
                continue;
            }
            let name = format!("extended_i_{precision}_{lanes}_{slots}_{near}");
            let lists = [lists[0].view(), lists[again].view(), left.view()];
            launch(&name, blocks, &[&(rows as i64), &(again as i32)], &lists)?;
        }
        let left = gpu.fetch(&left)?;
        let (count, bound) = (left[1] as usize, left[2] as usize);
        if count > 0 {
            let slots = (2 * bound).next_power_of_two().max(64);
            let tiles = count.min(FAR).next_multiple_of(BLOCK / 32);
            let keys = gpu.room::<i32>(tiles * (2 * slots + 32 * near))?;
            let weights = gpu.room::<T>(tiles * (slots + 32 * near))?;
            let arrays = [lists[1].view(), keys.view(), weights.view()];
            let name = format!("extended_i_far_{precision}_{near}");
            launch(&name, tiles * 32 / BLOCK, &[&(count as i64), &(slots as i32)], &arrays)?;
        }
        Ok(())
    }
}

/// Lanes, slots and near couplings for most rows: a lane for each entry of a row, and places for as many couplings as fine unknowns have to coarse
/// ones, half of which are strong on coarse levels.
fn table<T: Scalar>(a: &DeviceCsr<T>, s: &DeviceGraph, coarse: usize) -> (usize, usize, usize) {
    let rows = a.rows.max(1) as f64;
    let (length, strong, share) = (a.nnz() as f64 / rows, s.columns.len() as f64 / rows, coarse as f64 / rows);
    let couplings = strong * share / (1.0 - share).max(0.1) + (length - 1.0 - strong).max(0.0) * share;
    let near = if couplings <= 3.2 { 4 } else { 8 };
    if a.rows >= MANY && length <= 64.0 {
        return (1, 16, near);
    }
    match (length, near) {
        (..=8.0, _) => (8, 32, 4),
        (_, 4) => (16, 64, 4),
        (..=100.0, _) => (16, 64, 8),
        _ => (32, 128, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, in_turn, narrow, problems, splittings, upload};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::{extended_i, hash, strength};
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str, formula: Formula, turn: &mut usize) {
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
            for (max_entries, factor) in [(4, 0.0), others[*turn / 2 % 4]] {
                let cut = Truncation { max_entries, factor };
                let on_host = |a: &Csr<T>, only, pattern| {
                    extended_i::by_formula(formula, &a.view(), s, coarse, only, cut, pattern).unwrap()
                };
                let (wanted, some) = (on_host(a, None, None), on_host(a, Some(only.as_slice()), None));
                let structure = wanted.clone().into_shared().structure;
                let renewed = on_host(&changed, None, Some(&*structure));
                *turn += 1;
                let table = TABLES[*turn % TABLES.len()];
                let what = format!("{name}, {max_entries} {factor} {table:?}");
                for gpu in in_turn() {
                    let graph = upload(&gpu, s);
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let there = |a: &Csr<T>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
                    let level = |a| Level::with_table(&gpu, a, &graph, &splitting, formula, table).unwrap();
                    let matrix = there(a);
                    let p = level(&matrix).interpolate(None, cut).unwrap();
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{what}");
                    let list = gpu.upload(&only.iter().map(|i| *i as i32).collect::<Vec<_>>()).unwrap();
                    let got = level(&matrix).interpolate(Some(&list), cut).unwrap();
                    assert_eq!(got.fetch(&gpu).unwrap(), some, "{what}, some rows");
                    let got = level(&there(&changed)).renew(None, &p.pattern()).unwrap();
                    assert_eq!(got.fetch(&gpu).unwrap(), renewed, "{what}, renewed");
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        let mut turn = 0;
        for (name, a) in problems().into_iter().chain(awkward()) {
            check(&a, &name, Formula::ExtendedI, &mut turn);
        }
        for (name, a) in awkward().into_iter().skip(6) {
            check(&narrow(&a), &format!("{name} in f32"), Formula::ExtendedI, &mut turn);
            check(&a, &name, Formula::ClassicalModified, &mut turn);
        }
    }

    #[test]
    fn every_table_gives_the_same() {
        let cut = Truncation { max_entries: 4, factor: 0.0 };
        let (_, a) = problems().remove(1);
        let view = a.view();
        let s = strength::classical(&view, 0.25, 1.0).unwrap();
        let coarse = &splittings(&s)[0];
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        let wanted = extended_i::interpolate(&view, &s, coarse, None, cut, None).unwrap();
        for gpu in devices() {
            let (there, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
            let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let p = interpolate(&gpu, &there, &graph, &splitting, None, cut).unwrap();
            assert_eq!(p.fetch(&gpu).unwrap(), wanted);
            for table in TABLES {
                let level = || Level::with_table(&gpu, &there, &graph, &splitting, Formula::ExtendedI, table).unwrap();
                let p = level().interpolate(None, cut).unwrap();
                assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{table:?}");
                assert_eq!(level().renew(None, &p.pattern()).unwrap().fetch(&gpu).unwrap(), wanted, "{table:?}");
            }
        }
    }

    #[test]
    fn rows_with_more_members_than_any_table_holds_are_done_in_global_memory() {
        // One fine unknown that all others, which are coarse, are strong neighbours of, and one that sees them through it.
        let n = 1500;
        let mut t = vec![(0, 0, 2000.0), (1, 1, 2.0), (1, 0, -1.0), (0, 1, -1.0)];
        t.extend((2..n).flat_map(|j| [(0, j, -1.0 - (j % 7) as f64 / 3.0), (j, j, 2.0)]));
        let a = Csr::from_triplets(n, n, &t).unwrap();
        let s = strength::classical(&a.view(), 0.0, 1.0).unwrap();
        let coarse: Vec<bool> = (0..n).map(|i| i > 1).collect();
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        for max_entries in [0, 4, 100] {
            let cut = Truncation { max_entries, factor: 0.0 };
            let wanted = extended_i::interpolate(&a.view(), &s, &coarse, None, cut, None).unwrap();
            for gpu in devices() {
                let (there, graph) = (DeviceCsr::upload(&gpu, &a.view()).unwrap(), upload(&gpu, &s));
                let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                let p = interpolate(&gpu, &there, &graph, &splitting, None, cut).unwrap();
                assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{max_entries}");
                let p = renew(&gpu, &there, &graph, &splitting, None, &p.pattern()).unwrap();
                assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{max_entries}");
            }
        }
    }
}
