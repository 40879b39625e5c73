//! Numeric-only update of extended+i interpolation on a GPU. The first update computes symbolic data for each row
//! (`kernels/extended_i_symbolic.cu`): the positions of the couplings that its weights are sums of. Later ones use it
//! (`kernels/extended_i_numeric.cu`), and leave rows for which it does not hold with new values to
//! [`super::extended_i`].

use super::coarse_numbering::Splitting;
use super::extended_i::{Left, Level};
use super::grid::{GpuMatrix, GpuPattern};
use super::spgemm_symbolic::{RowLengths, narrow_offsets};
use super::two_stage::{self, Stages};
use super::{DeviceCsr, DeviceGraph, DevicePattern, divided, extended_i};
use crate::backend::common::Formula;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::setup::Coarse;
use crate::error::{Result, Status};
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Largest number of columns of a row, 16-bit numbers of a unit of symbolic data, and words of a row's head, as in
/// `kernels/extended_i_numeric.h`.
const MAX_KEPT: usize = 4;
const SYMBOLIC_UNIT: usize = 4;
const NUMERIC_HEAD: usize = 2;

/// Lanes for a row, and the strong fine neighbours up to which they compute one, for mean row lengths of the matrix
/// below these; and those for rows with more neighbours.
const ROW_KINDS: [(usize, (usize, i32)); 3] = [(12, (4, 16)), (40, (4, 32)), (usize::MAX, (8, 64))];
const LONGEST_ROWS: (usize, i32) = (32, 256);

/// Slots of hash tables for the first kind, and for the others.
const SLOTS: [usize; 2] = [64, 256];

/// Largest number of blocks of threads in the symbolic phase.
const MAX_BLOCKS: usize = 4096;

/// Symbolic data of the rows of an interpolation.
struct RowSymbolic {
    /// The fine unknowns whose rows have columns.
    fine: Buffer<i32>,
    /// The begin of each row's data, in units.
    starts: Buffer<i32>,
    data: Buffer<u16>,
    /// The role of each entry of the matrix.
    roles: Buffer<u8>,
    /// The begin of each unknown's couplings to coarse ones among those of all, and the number of all.
    listed: Buffer<i32>,
    couplings: usize,
    /// Lanes for each row, and the fine unknowns with too many strong fine neighbours for them.
    lanes: (usize, i32),
    long: Buffer<i32>,
}

/// Symbolic data of an interpolation.
pub(crate) struct ExtendedISymbolic {
    /// None if rows are not short, or memory is short.
    rows: Mutex<Option<RowSymbolic>>,
    /// Whether an update waits to see the rows for which the data does not hold, and computes them: in the first
    /// update, and if the last one had such rows.
    waits: AtomicBool,
    /// The number of these rows in the last update that did not wait, until it is read.
    left: Mutex<Option<Buffer<i32>>>,
}

impl ExtendedISymbolic {
    /// For an interpolation with the pattern of `p`.
    pub fn new<T: Scalar>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &Splitting,
        p: &DevicePattern,
    ) -> Result<ExtendedISymbolic> {
        match RowSymbolic::new(gpu, a, s, coarse, p) {
            Ok(rows) => Ok(ExtendedISymbolic::of(rows)),
            // Without the data updates are slower.
            Err(error) if error.status == Status::OutOfMemory => Ok(ExtendedISymbolic::nothing()),
            Err(error) => Err(error),
        }
    }

    fn of(rows: Option<RowSymbolic>) -> ExtendedISymbolic {
        ExtendedISymbolic { rows: Mutex::new(rows), waits: AtomicBool::new(true), left: Mutex::new(None) }
    }

    pub fn nothing() -> ExtendedISymbolic {
        ExtendedISymbolic::of(None)
    }

    /// Drops the data. Returns whether there was any.
    pub fn drop_positions(&self) -> bool {
        lock(self.rows.lock()).take().is_some()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        lock(self.rows.lock()).as_ref().map_or(0, |RowSymbolic { fine, starts, data, roles, listed, long, .. }| {
            let lists = fine.owned_bytes() + starts.owned_bytes() + listed.owned_bytes() + long.owned_bytes();
            lists + data.owned_bytes() + roles.owned_bytes()
        })
    }

    /// As [`super::extended_i::numeric`] for all unknowns, except for the rows that [`ExtendedISymbolic::left_over`]
    /// reports.
    pub fn numeric<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &Splitting,
        p: &DevicePattern,
    ) -> Result<DeviceCsr<T>> {
        let rows = lock(self.rows.lock());
        let Some(rows) = &*rows else { return super::extended_i::numeric(gpu, a, s, coarse, None, p) };
        let (values, left) = rows.numeric(gpu, a, coarse, p)?;
        if self.waits.load(Ordering::Relaxed) {
            let some = gpu.fetch(&left.counts)?[0] > 0;
            if some {
                Level::new(gpu, a, s, coarse, Formula::ExtendedI)?.numeric_left(p, &values, &left)?;
            }
            self.waits.store(some, Ordering::Relaxed);
        } else {
            *lock(self.left.lock()) = Some(left.counts);
        }
        Ok(p.with(values))
    }

    /// Whether the last update left rows that were not computed; the next one will compute them. Waits for the
    /// device.
    pub fn left_over(&self, gpu: &Gpu) -> Result<bool> {
        let Some(counts) = lock(self.left.lock()).take() else { return Ok(false) };
        let some = gpu.fetch(&counts)?[0] > 0;
        self.waits.fetch_or(some, Ordering::Relaxed);
        Ok(some)
    }
}

impl RowSymbolic {
    /// None if rows have more columns than are tracked.
    fn new<T: Scalar>(
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        s: &DeviceGraph,
        coarse: &Splitting,
        p: &DevicePattern,
    ) -> Result<Option<RowSymbolic>> {
        let rows = a.rows;
        let [lengths] = RowLengths::of(gpu, [(p.offsets.subslice(0, rows), p.offsets.subslice(1, rows))])?;
        if lengths.longest > MAX_KEPT {
            return Ok(None);
        }
        let level = Level::new(gpu, a, s, coarse, Formula::ExtendedI)?;
        let number = coarse.number.view();
        let fine_rows = |has_columns: bool| {
            let (n, flags, kept) = (rows as i64, gpu.allocate::<i32>(rows)?, p.offsets.view());
            let arguments: [&dyn Argument; 5] = [&n, &i32::from(has_columns), &number, &kept, &flags.view()];
            gpu.launch(gpu.kernel("extended_i_fine_flags")?, rows, &arguments)?;
            let (before, count) = gpu.offsets(&flags)?;
            let fine = gpu.allocate::<i32>(count)?;
            gpu.launch(gpu.kernel("extended_i_fine_rows")?, rows, &[&n, &before.view(), &fine.view()])?;
            Ok(fine)
        };
        let (fine, others) = (fine_rows(true)?, fine_rows(false)?);

        // Couplings to coarse unknowns, in the memory of those that only values need.
        let (numbers, codes) = (level.columns.view(), gpu.allocate::<u16>(a.nnz())?);
        let listed = gpu.allocate::<i32>(rows)?;
        let ([offsets, columns, values, number], heads) = (level.matrix(), level.heads.view());
        let (kinds, codes_view, listed_view) = (level.kinds.view(), codes.view(), listed.view());
        let kernel = gpu.kernel(&format!("extended_i_lists_{}", T::PRECISION.name()))?;
        let arguments: [&dyn Argument; 10] =
            [&(rows as i64), &offsets, &columns, &values, &number, &kinds, &heads, &numbers, &codes_view, &listed_view];
        gpu.launch(kernel, rows * 8, &arguments)?;
        let counts = gpu.allocate::<i32>(rows)?;
        let arguments: [&dyn Argument; 4] = [&(rows as i64), &number, &listed_view, &counts.view()];
        gpu.launch(gpu.kernel("extended_i_listed")?, rows, &arguments)?;
        let Some((begins, couplings)) = narrow_offsets(gpu, &counts)? else { return Ok(None) };
        drop(counts);

        let kind =
            ROW_KINDS.iter().position(|(entries, _)| a.nnz() / rows.max(1) < *entries).unwrap_or(ROW_KINDS.len() - 1);
        let ((lanes, many), slots) = (ROW_KINDS[kind].1, SLOTS[kind.min(1)]);
        let kernel = gpu.kernel(&format!("extended_i_symbolic_{}_{slots}", T::PRECISION.name()))?;
        let launch = |fine: &Slice<i32>, units: View, starts: View, data: View, roles: View, seen: View| {
            let (count, kept, kept_columns, fine) = (fine.len(), p.offsets.view(), p.columns.view(), fine.view());
            let blocks = (count * 32).div_ceil(BLOCK).min(MAX_BLOCKS);
            let arguments: [&dyn Argument; 19] = [
                &(count as i64),
                &many,
                &offsets,
                &columns,
                &values,
                &number,
                &kinds,
                &heads,
                &numbers,
                &codes_view,
                &listed_view,
                &kept,
                &kept_columns,
                &fine,
                &units,
                &starts,
                &data,
                &roles,
                &seen,
            ];
            gpu.launch_blocks(kernel, blocks, &arguments)
        };
        let (units, seen, none) = (gpu.allocate::<i32>(fine.len())?, gpu.zeroed::<i32>(1)?, View::NONE);
        launch(&fine, units.view(), none, none, none, seen.view())?;
        let Some((starts, total)) = narrow_offsets(gpu, &units)? else { return Ok(None) };
        drop(units);
        let long = gpu.list(gpu.fetch(&seen)?[0] as usize)?;
        let (data, roles) = (gpu.allocate::<u16>(total * SYMBOLIC_UNIT)?, gpu.allocate::<u8>(a.nnz())?);
        launch(&fine, none, starts.view(), data.view(), roles.view(), long.view())?;
        // Rows without columns need no data, but their neighbours read their couplings.
        let no_starts = gpu.zeroed::<i32>(others.len() + 1)?;
        launch(&others, none, no_starts.view(), data.view(), roles.view(), long.view())?;
        let lanes = (lanes, many);
        Ok(Some(RowSymbolic { fine, starts, data, roles, listed: begins, couplings, lanes, long }))
    }

    /// Numeric phase: the values for a matrix of the same pattern, and the rows that are left.
    fn numeric<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        coarse: &Splitting,
        p: &DevicePattern,
    ) -> Result<(Buffer<T>, Left)> {
        let (values, heads) = (gpu.allocate::<T>(p.nnz())?, gpu.allocate::<i64>(NUMERIC_HEAD * a.rows)?);
        let left = Left::new(gpu, a.rows)?;
        let couplings = gpu.allocate::<T>(self.couplings)?;
        let (offsets, from, roles) = (a.offsets.view(), a.values.view(), self.roles.view());
        let (listed, couplings) = (self.listed.view(), couplings.view());
        let (to, to_values, heads) = (p.offsets.view(), values.view(), heads.view());
        let name = T::PRECISION.name();
        let (rows, number) = (a.rows as i64, coarse.number.view());
        let arguments: [&dyn Argument; 10] =
            [&rows, &offsets, &from, &number, &roles, &listed, &to, &to_values, &heads, &couplings];
        let (lanes, _) = self.lanes;
        gpu.launch(gpu.kernel(&format!("extended_i_heads_{name}_{lanes}"))?, a.rows * lanes, &arguments)?;
        let (fine, starts, data) = (self.fine.view(), self.starts.view(), self.data.view());
        let (more, counts) = (left.lists[0].view(), left.counts.view());
        let rows_by = |(lanes, pairs): (usize, i32), count: usize, list: View| {
            let arguments: [&dyn Argument; 15] = [
                &(count as i64),
                &list,
                &fine,
                &starts,
                &data,
                &offsets,
                &from,
                &roles,
                &heads,
                &listed,
                &couplings,
                &to,
                &to_values,
                &more,
                &counts,
            ];
            gpu.launch(gpu.kernel(&format!("extended_i_numeric_{name}_{lanes}_{pairs}"))?, count * lanes, &arguments)
        };
        rows_by(self.lanes, self.fine.len(), View::NONE)?;
        let long = self.long.len() - 1;
        if long > 0 {
            rows_by(LONGEST_ROWS, long, self.long.subslice(1, long).view())?;
        }
        Ok((values, left))
    }
}

impl InterpolationSymbolic<Gpu> for ExtendedISymbolic {
    fn bytes(&self) -> usize {
        ExtendedISymbolic::bytes(self)
    }

    fn drop_positions(&self) -> bool {
        ExtendedISymbolic::drop_positions(self)
    }

    fn is_incomplete(&self, gpu: &Gpu) -> Result<bool> {
        self.left_over(gpu)
    }
}

impl InterpolationSymbolic<Gpu> for Stages {
    fn bytes(&self) -> usize {
        Stages::bytes(self)
    }

    fn drop_positions(&self) -> bool {
        Stages::drop_positions(self)
    }

    fn is_incomplete(&self, gpu: &Gpu) -> Result<bool> {
        self.left_over(gpu)
    }
}

/// The component, on aggressive levels in two stages.
pub(crate) struct ExtendedI;

impl ExtendedI {
    /// On an aggressive level.
    fn in_stages<T: Scalar>(
        &self,
        input: &InterpolationInput<'_, Gpu, T>,
        (first, second): (&Splitting, &Splitting),
    ) -> Result<Interpolated<Gpu, T>> {
        let (gpu, a, s, truncation) = (input.setup, input.a, input.graph, input.truncation);
        let Some(earlier) = &input.earlier else {
            let p = two_stage::interpolate(gpu, first, second, truncation, None, |coarse, only| {
                extended_i::interpolate(gpu, a, s, coarse, only, truncation)
            })?;
            return Ok(Interpolated::alone(p.into()));
        };
        let (of, splittings, pattern) = ((&**a, s), (first, second), earlier.pattern);
        let (p, stages) = match input.shared_symbolic::<Stages>() {
            Some(stages) => (stages.numeric(gpu, of, splittings, truncation, pattern)?, stages),
            // Other data: memory was short for symbolic data.
            None => {
                let lean = earlier.symbolic.is_some();
                let (p, stages) = Stages::new(gpu, of, splittings, truncation, pattern, lean)?;
                (p, Arc::new(stages))
            }
        };
        Ok(Interpolated { symbolic: Some(stages), ..Interpolated::alone(p.into()) })
    }
}

impl<T: Scalar> Interpolation<Gpu, T> for ExtendedI {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let (gpu, a, s) = (input.setup, input.a, input.graph);
        if let Coarse::TwoPass(first, second) = input.coarse {
            return self.in_stages(input, (first, second));
        }
        let coarse = input.splitting("extended_i")?;
        if let Some(of_rank) = gpu.divided(a) {
            let earlier = match input.pattern() {
                Some(GpuPattern::Divided(pattern)) => Some(pattern),
                _ => None,
            };
            let p = divided::interpolation::interpolate(gpu, of_rank, s, coarse, input.truncation, earlier)?;
            return Ok(Interpolated::alone(GpuMatrix::Divided(p)));
        }
        let Some(pattern) = input.pattern() else {
            return Ok(Interpolated::alone(extended_i::interpolate(gpu, a, s, coarse, None, input.truncation)?.into()));
        };
        let symbolic = match input.shared_symbolic::<ExtendedISymbolic>() {
            Some(symbolic) => symbolic,
            None => Arc::new(ExtendedISymbolic::new(gpu, a, s, coarse, pattern)?),
        };
        let p = symbolic.numeric(gpu, a, s, coarse, pattern)?;
        Ok(Interpolated { symbolic: Some(symbolic), ..Interpolated::alone(p.into()) })
    }

    fn without_symbolic(&self) -> Option<Arc<dyn InterpolationSymbolic<Gpu>>> {
        Some(Arc::new(ExtendedISymbolic::nothing()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::extended_i::interpolate;
    use super::super::tests::{irregular, narrow, problems, splittings, upload};
    use super::*;
    use crate::backend::parameters::Truncation;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::hash::hash;
    use crate::host::{extended_i, strength};
    use crate::sparse::Csr;

    /// Values by the number of an entry and its value.
    fn changed<T: Scalar>(a: &Csr<T>, change: impl Fn(usize, T) -> T) -> Csr<T> {
        Csr { values: a.values.iter().enumerate().map(|(k, v)| change(k, *v)).collect(), ..a.clone() }
    }

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let graphs = [strength::classical(&view, 0.25, 1.0).unwrap(), strength::absolute(&view, 0.1).unwrap()];
        let cut = Truncation::new(4, 0.0);
        for (k, s) in graphs.iter().enumerate() {
            let coarse = &splittings(s)[k];
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            let pattern = extended_i::interpolate(&view, s, coarse, None, cut, None).unwrap().into_shared().structure;
            // Larger here and there; some signs others; some zeros; all zeros; as they were.
            let other = [
                changed(a, |k, v| v * T::from_f64(1.0 + (hash(k, 9) % 4) as f64)),
                changed(a, |k, v| if hash(k, 10).is_multiple_of(40) { v * T::from_f64(-0.5) } else { v }),
                changed(a, |k, v| if hash(k, 11).is_multiple_of(5) { T::ZERO } else { v }),
                changed(a, |_, _| T::ZERO),
                a.clone(),
            ];
            for gpu in devices() {
                let graph = upload(&gpu, s);
                let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                let device_copy = |a: &Csr<T>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let p = interpolate(&gpu, &device_copy(a), &graph, &splitting, None, cut).unwrap().pattern();
                let symbolic = ExtendedISymbolic::new(&gpu, &device_copy(&other[0]), &graph, &splitting, &p).unwrap();
                assert!(lock(symbolic.rows.lock()).is_some());
                for (n, a) in other.iter().enumerate() {
                    let wanted = extended_i::interpolate(&a.view(), s, coarse, None, cut, Some(&*pattern)).unwrap();
                    let numeric = || symbolic.numeric(&gpu, &device_copy(a), &graph, &splitting, &p).unwrap();
                    let mut got = numeric();
                    if symbolic.left_over(&gpu).unwrap() {
                        got = numeric();
                        assert!(!symbolic.left_over(&gpu).unwrap());
                    }
                    assert_eq!(got.fetch(&gpu).unwrap(), wanted, "{name}, values {n}");
                }
            }
        }
    }

    #[test]
    fn updated_interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
        }
        for (name, a) in irregular().into_iter().skip(6) {
            check(&narrow(&a), &format!("{name} in f32"));
        }
    }

    #[test]
    fn rows_of_coarse_problems_are_updated_from_their_symbolic_data() {
        // A matrix of a second level has weak couplings; nothing of it is left over when the signs stay.
        let a = crate::gallery::parse("poisson7:9").unwrap().into_matrix().unwrap().shared::<f64>().unwrap();
        let view = a.view();
        let s = strength::classical(&view, 0.25, 1.0).unwrap();
        let cut = Truncation::new(4, 0.0);
        let p = extended_i::interpolate(&view, &s, &splittings(&s)[0], None, cut, None).unwrap();
        let r = crate::host::transpose::transpose(&p.view()).unwrap();
        let a = crate::host::galerkin::product(&r.view(), &view, &p.into_shared()).unwrap();
        let a = a.view().to_owned_as::<f64>().unwrap();
        check(&a, "a second level");
        let s = strength::classical(&a.view(), 0.25, 1.0).unwrap();
        let flags: Vec<u8> = splittings(&s)[0].iter().map(|c| u8::from(*c)).collect();
        for gpu in &one_of_each() {
            let (on_device, graph) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), upload(gpu, &s));
            let splitting = Splitting::new(gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let p = interpolate(gpu, &on_device, &graph, &splitting, None, cut).unwrap().pattern();
            let symbolic = ExtendedISymbolic::new(gpu, &on_device, &graph, &splitting, &p).unwrap();
            assert!(symbolic.bytes() > a.values.len());
            // The first update checks what it left, and finds nothing.
            for expected in [1, 0, 0] {
                let waits = gpu.waits();
                symbolic.numeric(gpu, &on_device, &graph, &splitting, &p).unwrap();
                assert_eq!(gpu.waits() - waits, expected);
            }
            assert!(!symbolic.left_over(gpu).unwrap());
        }
    }

    #[test]
    fn rows_that_are_too_long_for_symbolic_data_are_updated_all_the_same() {
        let n = 700;
        let mut t = vec![(0, 0, 2000.0), (1, 1, 2.0), (1, 0, -1.0), (0, 1, -1.0)];
        t.extend((2..n).flat_map(|j| [(0, j, -1.0 - (j % 7) as f64 / 3.0), (j, j, 2.0)]));
        // Rows with many strong fine neighbours, and few coarse ones.
        for i in 0..100 {
            t.push((n + i, n + i, 100.0));
            t.extend((0..100).filter(|j| *j != i).map(|j| (n + i, n + j, -1.0)));
            t.push((n + i, 2 + i % 9, -1.5));
        }
        let a = Csr::from_triplets(n + 100, n + 100, &t).unwrap();
        let s = strength::classical(&a.view(), 0.0, 1.0).unwrap();
        let coarse: Vec<bool> = (0..n + 100).map(|i| i > 1 && i < n).collect();
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        let cut = Truncation::new(4, 0.0);
        let wanted = extended_i::interpolate(&a.view(), &s, &coarse, None, cut, None).unwrap();
        for gpu in devices() {
            let (on_device, graph) = (DeviceCsr::upload(&gpu, &a.view()).unwrap(), upload(&gpu, &s));
            let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let p = interpolate(&gpu, &on_device, &graph, &splitting, None, cut).unwrap().pattern();
            let symbolic = ExtendedISymbolic::new(&gpu, &on_device, &graph, &splitting, &p).unwrap();
            assert_eq!(lock(symbolic.rows.lock()).as_ref().map(|rows| rows.long.len()), Some(101));
            let got = symbolic.numeric(&gpu, &on_device, &graph, &splitting, &p).unwrap();
            assert_eq!(got.fetch(&gpu).unwrap(), wanted);
        }
    }
}
