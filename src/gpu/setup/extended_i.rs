//! Extended+i interpolation on a GPU. The work is in `kernels/extended_i.cu`.
//!
//! Rows are computed with tables in shared memory that suit most of them. What does not fit is listed, done again with larger tables, and what
//! does not fit there either, with tables in global memory.

use super::coarse::Splitting;
use super::lanes::lanes;
use super::truncate::{MOST, Mode};
use super::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::truncate::Truncation;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// Lanes of a group and slots of its table, for which there are kernels; the last is for what did not fit.
const TABLES: [(usize, usize); 5] = [(1, 16), (4, 32), (8, 64), (16, 128), (32, 512)];

/// Blocks for the rows that did not fit.
const AGAIN: usize = 528;

/// Groups with tables in global memory.
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
    let level = Level::new(gpu, a, s, coarse)?;
    let rows = only.map_or(a.rows, Slice::len);
    let counts = gpu.room::<i32>(rows)?;
    if (1..=MOST).contains(&truncation.max_entries) {
        let most = truncation.max_entries;
        let (columns, values) = (gpu.room::<i32>(rows * most)?, gpu.room::<T>(rows * most)?);
        let arrays = [View::NONE, columns.view(), values.view(), counts.view()];
        level.rows(only, truncation, Mode::Short, arrays)?;
        drop(level);
        return super::truncate::gather(gpu, (rows, coarse.count), most, (columns, values), &counts);
    }
    let none = View::NONE;
    level.rows(only, truncation, Mode::Count, [none, none, none, counts.view()])?;
    let (offsets, total) = gpu.offsets(&counts)?;
    let (columns, values) = (gpu.room::<i32>(total)?, gpu.room::<T>(total)?);
    level.rows(only, truncation, Mode::Write, [offsets.view(), columns.view(), values.view(), none])?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows, cols: coarse.count, block: Block::SCALAR, offsets, columns, values })
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
    let level = Level::new(gpu, a, s, coarse)?;
    let values = gpu.room::<T>(p.nnz())?;
    let all = Truncation { max_entries: 0, factor: 0.0 };
    level.rows(only, all, Mode::Pattern, [p.offsets.view(), p.columns.view(), values.view(), View::NONE])?;
    Ok(p.with(values))
}

/// What all rows are computed from.
struct Level<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    coarse: &'a Splitting,
    /// A byte for each entry of a fine row: whether it is strong, and whether its column is coarse.
    kinds: Buffer<u8>,
    /// Couplings of each fine unknown to coarse ones, where the row of the matrix begins: their number is in `reach`.
    columns: Buffer<i32>,
    values: Buffer<T>,
    reach: Buffer<i32>,
    /// Lanes and slots for most rows.
    table: (usize, usize),
}

impl<'a, T: Scalar> Level<'a, T> {
    fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, s: &DeviceGraph, coarse: &'a Splitting) -> Result<Level<'a, T>> {
        assert_eq!(a.block, Block::SCALAR);
        let (kinds, columns) = (gpu.room(a.nnz())?, gpu.room(a.nnz())?);
        let (values, reach) = (gpu.room(a.nnz())?, gpu.room(a.rows)?);
        let level = Level { gpu, a, coarse, kinds, columns, values, reach, table: table(a.rows, a.nnz()) };
        let lanes = lanes(a.nnz(), a.rows);
        let kernel = gpu.kernel(&format!("extended_i_couplings_{}_{lanes}", T::PRECISION.name()))?;
        let arguments: [&dyn Argument; 11] = [
            &(a.rows as i64),
            &a.offsets.view(),
            &a.columns.view(),
            &a.values.view(),
            &coarse.number.view(),
            &s.offsets.view(),
            &s.columns.view(),
            &level.kinds.view(),
            &level.columns.view(),
            &level.values.view(),
            &level.reach.view(),
        ];
        gpu.launch(kernel, a.rows * lanes, &arguments)?;
        Ok(level)
    }

    /// Offsets, columns and values of the result, and counts of rows, as far as the mode uses them.
    fn rows(&self, only: Option<&Slice<i32>>, truncation: Truncation, mode: Mode, to: [View; 4]) -> Result<()> {
        let Level { gpu, a, coarse, kinds, columns, values, reach, table } = self;
        let rows = only.map_or(a.rows, Slice::len);
        if rows == 0 {
            return Ok(());
        }
        let precision = T::PRECISION.name();
        let (mode, most) = (mode as i32, truncation.max_entries.min(i32::MAX as usize) as i32);
        let level = [
            a.offsets.view(),
            a.columns.view(),
            a.values.view(),
            coarse.number.view(),
            kinds.view(),
            columns.view(),
            values.view(),
            reach.view(),
            only.map_or(View::NONE, Slice::view),
        ];
        let how: [&dyn Argument; 3] = [&mode, &most, &truncation.factor];
        let launch = |name: &str, blocks: usize, first: &[&dyn Argument], last: &[View]| {
            let arrays = level.iter().chain(&to).chain(last).map(|view| view as &dyn Argument);
            let arguments: Vec<&dyn Argument> = first.iter().copied().chain(how).chain(arrays).collect();
            gpu.launch_blocks(gpu.kernel(name)?, blocks, &arguments)
        };
        let left = gpu.zeroed::<i32>(3)?;
        // The first pass lists what the second one does, and that what is left then.
        let lists = [gpu.room::<i32>(rows)?, gpu.room::<i32>(rows)?];
        let second = TABLES[TABLES.len() - 1];
        for (again, (lanes, slots)) in [*table, second].into_iter().enumerate() {
            let blocks = (rows * lanes).div_ceil(BLOCK);
            let blocks = if again == 1 { blocks.min(AGAIN) } else { blocks };
            let name = format!("extended_i_{precision}_{lanes}_{slots}");
            let lists = [lists[0].view(), lists[again].view(), left.view()];
            launch(&name, blocks, &[&(rows as i64), &(again as i32)], &lists)?;
        }
        if coarse.count < second.1 / 2 {
            return Ok(());
        }
        let left = gpu.fetch(&left)?;
        let (count, bound) = (left[1] as usize, (left[2] as usize).min(coarse.count));
        if count > 0 {
            let slots = (2 * bound).next_power_of_two().max(64);
            let groups = count.min(FAR).next_multiple_of(BLOCK / 32);
            let (keys, weights) = (gpu.room::<i32>(groups * slots)?, gpu.room::<T>(groups * slots)?);
            let arrays = [lists[1].view(), keys.view(), weights.view()];
            let blocks = groups * 32 / BLOCK;
            launch(&format!("extended_i_far_{precision}"), blocks, &[&(count as i64), &(slots as i32)], &arrays)?;
        }
        Ok(())
    }
}

/// Lanes and slots for most rows: about as many as unknowns have couplings to coarse ones, which follows from the length of rows; more where
/// there are few rows.
fn table(rows: usize, entries: usize) -> (usize, usize) {
    let by_length = match entries.div_ceil(rows.max(1)) {
        0..=8 => 0,
        9..=40 => 1,
        41..=120 => 2,
        _ => 3,
    };
    let by_rows = match rows {
        0..=20_000 => 3,
        20_001..=80_000 => 2,
        _ => 0,
    };
    TABLES[by_length.max(by_rows)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, narrow, problems, upload};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::{extended_i, hash, pmis, strength};
    use crate::sparse::Csr;

    /// Splittings of the graph: PMIS's, and one at random, in which coarse unknowns may be neighbours and fine ones have none.
    fn splittings(s: &crate::amg::strength::Graph) -> [Vec<bool>; 2] {
        let n = s.rows();
        [pmis::split(s, &s.transpose().unwrap(), 1).unwrap(), (0..n).map(|i| hash(i, 7).is_multiple_of(3)).collect()]
    }

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let mut turn = 0;
        // One simulated device after the other, and real ones always.
        let mut in_turn = || {
            turn += 1;
            let chosen = |(k, gpu): (usize, Gpu)| (k >= 4 || k == turn % 4).then_some(gpu);
            devices().into_iter().enumerate().filter_map(chosen).collect::<Vec<_>>()
        };
        let cuts = [(4, 0.0), (0, 0.0), (2, 0.3), (0, 0.25), (17, 0.1)];
        for s in [strength::classical(&view, 0.25, 1.0).unwrap(), strength::absolute(&view, 0.1).unwrap()] {
            for coarse in splittings(&s) {
                let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
                let only: Vec<u32> = (0..a.rows as u32).filter(|i| hash(*i as usize, 3).is_multiple_of(2)).collect();
                for (max_entries, factor) in cuts {
                    let cut = Truncation { max_entries, factor };
                    let what = format!("{name}, {max_entries} {factor}");
                    let wanted = extended_i::interpolate(&view, &s, &coarse, None, cut, None).unwrap();
                    let some = extended_i::interpolate(&view, &s, &coarse, Some(&only), cut, None).unwrap();
                    let structure = wanted.clone().into_shared().structure;
                    // Other weights than those that the pattern was made for.
                    let mut other = a.clone();
                    for (k, v) in other.values.iter_mut().enumerate() {
                        *v *= T::from_f64(1.0 + (hash(k, 9) % 4) as f64);
                    }
                    let renewed =
                        extended_i::interpolate(&other.view(), &s, &coarse, None, cut, Some(&*structure)).unwrap();
                    for gpu in in_turn() {
                        let (there, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                        let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                        let p = interpolate(&gpu, &there, &graph, &splitting, None, cut).unwrap();
                        assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{what}");
                        let list = gpu.upload(&only.iter().map(|i| *i as i32).collect::<Vec<_>>()).unwrap();
                        let got = interpolate(&gpu, &there, &graph, &splitting, Some(&list), cut).unwrap();
                        assert_eq!(got.fetch(&gpu).unwrap(), some, "{what}, some rows");
                        let there = DeviceCsr::upload(&gpu, &other.view()).unwrap();
                        let got = renew(&gpu, &there, &graph, &splitting, None, &p.pattern()).unwrap();
                        assert_eq!(got.fetch(&gpu).unwrap(), renewed, "{what}, renewed");
                    }
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(awkward()) {
            check(&a, &name);
        }
        for (name, a) in problems().into_iter().take(2).chain(awkward()) {
            check(&narrow(&a), &format!("{name} in f32"));
        }
    }

    #[test]
    fn every_table_gives_the_same() {
        let cut = Truncation { max_entries: 4, factor: 0.0 };
        for (name, a) in problems() {
            let view = a.view();
            let s = strength::classical(&view, 0.25, 1.0).unwrap();
            let coarse = &splittings(&s)[0];
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            let wanted = extended_i::interpolate(&view, &s, coarse, None, cut, None).unwrap();
            for gpu in devices() {
                let (there, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                for table in TABLES {
                    let mut level = Level::new(&gpu, &there, &graph, &splitting).unwrap();
                    level.table = table;
                    let (columns, values) = (gpu.room(a.rows * 4).unwrap(), gpu.room(a.rows * 4).unwrap());
                    let counts = gpu.room::<i32>(a.rows).unwrap();
                    let arrays = [View::NONE, columns.view(), values.view(), counts.view()];
                    level.rows(None, cut, Mode::Short, arrays).unwrap();
                    let shape = (a.rows, splitting.count);
                    let p = super::super::truncate::gather(&gpu, shape, 4, (columns, values), &counts).unwrap();
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name} {table:?}");
                }
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
