//! Scaling of levels by powers of two and their storage in 16 bits: [`crate::host::scaling`] on the device.

use super::deferred_checks::DeferredChecks;
use super::grid::GpuMatrix;
use super::{DeviceCsr, diagonal};
use crate::backend::Backend;
use crate::backend::common::sample;
use crate::backend::setup::Scaled;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View, tag};
use crate::gpu::stencil::{DeviceStencil, StencilNumbers};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::precision::{
    FAR_ABOVE, MATRIX, beyond_range, check_lost, check_lost_in_f32, is_narrower, lift_of, middle_of, not_by_diagonal,
};
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::Block;
use std::any::Any;
use std::sync::Arc;

/// Blocks of a grid-stride loop: as many as run at the same time.
pub(super) const MAX_BLOCKS: usize = 1024;

/// The same for one that needs more registers.
const MAX_STORING_BLOCKS: usize = 660;

/// Powers of two by which the variables of a level are multiplied.
pub(crate) struct Factors {
    /// One for each scalar row.
    pub s: Buffer<f64>,
    /// The smallest and the largest.
    range: (f64, f64),
}

impl Factors {
    /// Whether [`inverse_scaling`] is possible.
    pub fn have_inverse(&self) -> bool {
        middle_of(self.range.0, self.range.1).is_ok()
    }

    /// From factors alone, without their range.
    #[cfg(feature = "unit-tests")]
    pub fn of(s: Buffer<f64>) -> Factors {
        Factors { s, range: (1.0, 1.0) }
    }
}

/// As [`crate::host::scaling::largest_off_diagonal`]. Waits for the device.
pub(crate) fn largest_off_diagonal<T: Scalar>(gpu: &Gpu, a: &GpuMatrix<T>) -> Result<f64> {
    const LANES: usize = 8;
    let largest = gpu.zeroed::<u64>(1)?;
    let kernel = |name: &str| gpu.kernel(&format!("{name}_{}", T::PRECISION.name()));
    match a {
        GpuMatrix::Stencil(a) => {
            let ((count, step), numbers) = (sample(a.pattern.grid.cells()), StencilNumbers::new(&a.pattern));
            let (values, sampled) = (a.values.view(), (count as i64, step as i64));
            let arguments: [&dyn Argument; 7] =
                [&sampled.0, &sampled.1, &a.shape(), &numbers, &View::NONE, &values, &largest.view()];
            gpu.launch(kernel("largest_off_diagonal_stencil")?, count, &arguments)?;
        }
        a => {
            let ((_, br, bc), (count, step)) = (shape(a), sample(a.rows));
            let (values, sampled) = (a.values.view(), (count as i64, step as i64));
            let arguments: [&dyn Argument; 8] =
                [&sampled.0, &sampled.1, &br, &bc, &a.offsets.view(), &a.columns.view(), &values, &largest.view()];
            gpu.launch(kernel("largest_off_diagonal")?, count * LANES, &arguments)?;
        }
    }
    Ok(f64::from_bits(gpu.fetch(&largest)?[0]))
}

/// The matrix times a number, in its own memory where nothing else has the values.
pub(crate) fn multiplied<T: Scalar>(gpu: &Gpu, mut a: GpuMatrix<T>, by: f64) -> Result<GpuMatrix<T>> {
    let values = a.values_mut();
    if Arc::get_mut(values).is_none() {
        let mut copy = gpu.allocate::<T>(values.len())?;
        gpu.copy(values, &mut copy);
        *values = Arc::new(copy);
    }
    if let Some(values) = Arc::get_mut(values) {
        gpu.scale(T::from_f64(by), values);
    }
    Ok(a)
}

/// Measure of a row: factors are powers of two near its square root.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    Diagonal,
    /// The largest entry of row and column.
    Largest,
}

/// That before factors are lifted, and the largest scaled entry; or the first row that has none.
type Found<T> = std::result::Result<(Scaled<Gpu, T>, f64), usize>;

/// The factors of some levels' matrices by the scaling that `precision.scaling` names, which is not `none`; `l1` tells
/// whether l1 diagonals will be needed. Waits for the device once, and again if the diagonal of a level is a bad
/// measure.
pub(crate) fn factors<T: Scalar>(
    gpu: &Gpu,
    matrices: &[&GpuMatrix<T>],
    scaling: &str,
    l1: bool,
) -> Result<Vec<Result<Scaled<Gpu, T>>>> {
    let first = if scaling == "equilibrate" { Measure::Largest } else { Measure::Diagonal };
    let found = search(gpu, matrices, first, l1)?;
    let stays = |found: &Found<T>| scaling != "auto" || matches!(found, Ok((_, largest)) if *largest <= FAR_ABOVE);
    let again: Vec<_> = matrices.iter().zip(&found).filter(|(_, found)| !stays(found)).map(|(a, _)| *a).collect();
    let mut again = search(gpu, &again, Measure::Largest, l1)?.into_iter();
    let lifted = |found: Found<T>, measure: Measure| match found {
        Ok((Scaled { mut factors, mut l1_inverse }, largest)) => {
            let lift = lift_of(largest);
            gpu.scale(lift, &mut factors.s);
            if let Some(inverse) = &mut l1_inverse {
                gpu.scale(T::from_f64(lift * lift), inverse);
            }
            let (low, high) = factors.range;
            Ok(Scaled { factors: Factors { range: (lift * low, lift * high), ..factors }, l1_inverse })
        }
        Err(i) if measure == Measure::Diagonal => not_by_diagonal(i),
        Err(i) => beyond_range(i),
    };
    let each = found.into_iter().map(|found| match stays(&found) {
        true => lifted(found, first),
        false => lifted(again.next().expect("one for each that did not stay"), Measure::Largest),
    });
    Ok(each.collect())
}

/// Factors for each of the matrices. Waits for the device once.
fn search<T: Scalar>(gpu: &Gpu, matrices: &[&GpuMatrix<T>], measure: Measure, l1: bool) -> Result<Vec<Found<T>>> {
    const SEEN: usize = 4;
    let seen = gpu.zeroed::<u64>(SEEN * matrices.len())?;
    let mut all = Vec::new();
    for (k, matrix) in matrices.iter().enumerate() {
        // The diagonal of a stencil needs no rows.
        let stencil = match matrix {
            GpuMatrix::Stencil(a) if measure == Measure::Diagonal && !l1 => Some(a),
            _ => None,
        };
        let a = if stencil.is_some() { matrix.diagonal_blocks(gpu)? } else { matrix.to_rows(gpu)? };
        let a = &*a;
        let s = match measure {
            Measure::Diagonal => diagonal::entries(gpu, a)?,
            Measure::Largest => largest_of_lines(gpu, a)?,
        };
        let (n, seen) = (s.len(), seen.subslice(SEEN * k, SEEN));
        let arguments: [&dyn Argument; 4] =
            [&(n as i64), &i32::from(measure == Measure::Largest), &s.view(), &seen.view()];
        gpu.launch(gpu.kernel("scaling_roots")?, n.min(MAX_BLOCKS * BLOCK), &arguments)?;
        let l1_inverse = if let Some(stencil) = stencil {
            largest_of_stencil(gpu, stencil, &s, seen)?;
            None
        } else if l1 && diagonal::has_short_rows(a) {
            Some(diagonal::l1_and_largest(gpu, a, &s, seen)?)
        } else {
            let (kernel, lanes) = over_values(gpu, a, "largest_scaled")?;
            let (rows, br, bc) = shape(a);
            let arguments: [&dyn Argument; 8] =
                [&rows, &br, &bc, &s.view(), &a.offsets.view(), &a.columns.view(), &a.values.view(), &seen.view()];
            gpu.launch(kernel, (a.rows * lanes).min(MAX_BLOCKS * BLOCK), &arguments)?;
            None
        };
        all.push((s, l1_inverse));
    }
    let seen = gpu.fetch(&seen)?;
    let found = all.into_iter().zip(seen.chunks(SEEN)).map(|((s, l1_inverse), seen)| match seen[0] {
        0 => {
            let [largest, high, low] = [1, 2, 3].map(|k| f64::from_bits(seen[k]));
            Ok((Scaled { factors: Factors { s, range: (1.0 / low, high) }, l1_inverse }, largest))
        }
        behind => Err(s.len() - behind as usize),
    });
    Ok(found.collect())
}

/// The largest entry of a stencil over s on both sides.
fn largest_of_stencil<T: Scalar>(gpu: &Gpu, a: &DeviceStencil<T>, s: &Slice<f64>, seen: &Slice<u64>) -> Result<()> {
    let cells = a.pattern.grid.cells();
    let arguments: [&dyn Argument; 6] =
        [&(cells as i64), &a.shape(), &StencilNumbers::new(&a.pattern), &s.view(), &a.values.view(), &seen.view()];
    let kernel = gpu.kernel(&format!("largest_scaled_stencil_{}", T::PRECISION.name()))?;
    gpu.launch(kernel, cells.min(MAX_BLOCKS * BLOCK), &arguments)
}

/// The largest entry of row and column.
fn largest_of_lines<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<f64>> {
    const LANES: usize = 8;
    // As ordered bits, which are those of the numbers.
    let largest = gpu.zeroed::<f64>(a.scalar_rows())?;
    let kernel = gpu.kernel(&format!("largest_of_lines_{}", T::PRECISION.name()))?;
    let (rows, br, bc) = shape(a);
    let arguments: [&dyn Argument; 7] =
        [&rows, &br, &bc, &a.offsets.view(), &a.columns.view(), &a.values.view(), &largest.view().bits()];
    gpu.launch(kernel, a.rows * LANES, &arguments)?;
    Ok(largest)
}

/// The inverse of the finest level's scaling in two parts, a power of two and one for each row, which f32 can hold.
pub(crate) fn inverse_scaling(gpu: &Gpu, factors: &Factors) -> Result<(f64, Buffer<f32>)> {
    let (low, high) = factors.range;
    let middle = middle_of(low, high)?;
    let (n, inverse) = (factors.s.len(), gpu.allocate::<f32>(factors.s.len())?);
    let arguments: [&dyn Argument; 4] = [&(n as i64), &middle, &factors.s.view(), &inverse.view()];
    gpu.launch(gpu.kernel("scaling_inverse")?, n, &arguments)?;
    Ok((1.0 / middle, inverse))
}

/// What the rows or the columns of a matrix are multiplied by.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    One,
    Times(&'a Slice<f64>),
    Over(&'a Slice<f64>),
}

impl<'a> By<'a> {
    /// As kernels take it: the factors, and whether they divide.
    pub(super) fn parts(self) -> (View<'a>, i32) {
        match self {
            By::One => (View::NONE, 0),
            By::Times(s) => (s.view(), 0),
            By::Over(s) => (s.view(), 1),
        }
    }

    fn suits(self, count: usize) -> bool {
        match self {
            By::One => true,
            By::Times(s) | By::Over(s) => s.len() == count,
        }
    }
}

/// The matrix with scalar rows and columns multiplied by these powers of two. Shares the pattern, and without factors
/// the values.
pub(crate) fn apply<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, left: By<'_>, right: By<'_>) -> Result<DeviceCsr<T>> {
    if let (By::One, By::One) = (left, right) {
        return Ok(a.clone());
    }
    let values = gpu.allocate::<T>(a.entries())?;
    scaled_rows(gpu, a, left, right, &values, View::NONE)?;
    Ok(with_values(a, values))
}

fn scaled_rows<T: Scalar, S: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    left: By<'_>,
    right: By<'_>,
    to: &Slice<S>,
    lost: View,
) -> Result<()> {
    assert!(left.suits(a.scalar_rows()) && right.suits(a.cols * a.block.cols));
    let (kernel, lanes) = over_values(gpu, a, "store_scaled_rows")?;
    let (rows, br, bc) = shape(a);
    let ((left, over_left), (right, over_right)) = (left.parts(), right.parts());
    let (offsets, columns, from) = (a.offsets.view(), a.columns.view(), a.values.view());
    let (format, to) = (tag::<S>(), to.view());
    let arguments: [&dyn Argument; 13] =
        [&rows, &br, &bc, &left, &over_left, &right, &over_right, &offsets, &columns, &from, &format, &to, &lost];
    // Rows of blocks take a team much longer.
    let most = if a.block == Block::SCALAR { MAX_STORING_BLOCKS } else { 4 * MAX_BLOCKS };
    gpu.launch(kernel, (a.rows * lanes).min(most * BLOCK), &arguments)
}

/// How values are rounded to 16 bits, as [`crate::host::scaling::Rounding`].
#[derive(Clone, Copy)]
pub(crate) enum Rounding<'a> {
    /// Each by itself, after rows and columns are scaled.
    Nearest(By<'a>, By<'a>),
    /// So that the product with this vector stays.
    Keeping(&'a Slice<f64>),
}

/// The matrix in another format; `checks` fails if values are out of range, with an error by `refuse` that names the
/// level. Shares the pattern, and unchanged values.
pub(crate) fn store<T: Scalar, S: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    rounding: Rounding<'_>,
    checks: &mut DeferredChecks,
    refuse: impl FnOnce(Result<()>) -> Result<()> + Send + 'static,
    (what, may_vanish): (&'static str, bool),
) -> Result<DeviceCsr<S>> {
    let same: &dyn Any = a;
    if let (Some(same), Rounding::Nearest(By::One, By::One) | Rounding::Keeping(_)) =
        (same.downcast_ref::<DeviceCsr<S>>(), rounding)
    {
        return Ok(same.clone());
    }
    let mut stored = gpu.allocate::<S>(a.entries())?;
    let (narrow, single) = (is_narrower::<T, S>(), S::PRECISION == Precision::F32);
    let lost = if narrow {
        let entries = a.entries();
        // Counts, which are the same numbers as i64.
        let check = move |lost: &[u64]| match single {
            true => check_lost_in_f32(what, entries, [lost[0], lost[1], lost[2]]),
            false => check_lost::<S>(what, may_vanish, entries, (lost[0], lost[1])),
        };
        checks.add(3, move |lost| refuse(check(lost)))?.view().erased(3)
    } else {
        View::NONE
    };
    let kernel = |name: &str| gpu.kernel(&format!("{name}_{}", T::PRECISION.name()));
    let (n, format) = (a.entries() as i64, tag::<S>());
    match rounding {
        Rounding::Nearest(By::One, By::One) | Rounding::Keeping(_) if !narrow => gpu.copy(&a.values, &mut stored),
        Rounding::Keeping(_) | Rounding::Nearest(By::One, By::One)
            if single || matches!(rounding, Rounding::Nearest(..)) =>
        {
            let arguments: [&dyn Argument; 5] = [&n, &a.values.view(), &format, &stored.view(), &lost];
            gpu.launch(kernel("store_counting")?, a.entries().min(MAX_BLOCKS * BLOCK), &arguments)?;
        }
        Rounding::Nearest(left, right) => scaled_rows(gpu, a, left, right, &stored, lost)?,
        Rounding::Keeping(vector) => {
            assert_eq!(vector.len(), a.cols * a.block.cols);
            let (rows, br, bc) = shape(a);
            let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
            let arguments: [&dyn Argument; 10] =
                [&rows, &br, &bc, &offsets, &columns, &values, &vector.view(), &format, &stored.view(), &lost];
            gpu.launch(kernel("store_keeping")?, (a.scalar_rows() * 32).min(MAX_BLOCKS * BLOCK), &arguments)?;
        }
    }
    if narrow && single && what == MATRIX {
        let (rows, br, bc) = shape(a);
        let arguments: [&dyn Argument; 7] =
            [&rows, &br, &bc, &a.offsets.view(), &a.values.view(), &stored.view(), &lost];
        gpu.launch(gpu.kernel("rows_lost")?, a.scalar_rows().min(MAX_BLOCKS * BLOCK), &arguments)?;
    }
    Ok(with_values(a, stored))
}

pub(super) fn shape<T>(a: &DeviceCsr<T>) -> (i64, i32, i32) {
    (a.rows as i64, a.block.rows as i32, a.block.cols as i32)
}

fn with_values<T, S>(a: &DeviceCsr<T>, values: Buffer<S>) -> DeviceCsr<S> {
    let (offsets, columns) = (Arc::clone(&a.offsets), Arc::clone(&a.columns));
    DeviceCsr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values: Arc::new(values) }
}

/// A kernel over the values of rows, and its lanes for a row. A lane loads several values at a time.
pub(super) fn over_values<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    name: &str,
) -> Result<(crate::gpu::runtime::Kernel, usize)> {
    let (rows, lanes) = match a.nnz() / a.rows.max(1) {
        _ if a.block != Block::SCALAR => ("blocks", 32),
        0..11 => ("2", 2),
        11..100 => ("8", 8),
        _ => ("32", 32),
    };
    Ok((gpu.kernel(&format!("{name}_{}_{rows}", T::PRECISION.name()))?, lanes))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::host::scaling as host;
    use crate::sparse::Csr;
    use half::{bf16, f16};

    /// Small problems, also in blocks, with rows on scales far apart, and with diagonals that nothing can be scaled by.
    fn matrices() -> Vec<(String, Csr<f64>)> {
        let mut all = problems();
        all.push(("elasticity".to_string(), gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix));
        all.extend(irregular::square());
        let mut spread = gallery::poisson5(12, 12).unwrap();
        for i in 0..spread.rows {
            for k in spread.offsets[i] as usize..spread.offsets[i + 1] as usize {
                spread.values[k] *= 10_f64.powi((i % 13) as i32 + spread.columns[k] % 13 - 12);
            }
        }
        all.push(("scales".to_string(), spread.clone()));
        spread.values[0] = -1.0;
        all.push(("a negative diagonal".to_string(), spread.clone()));
        spread.values[1] = 1e9;
        all.push(("not dominant".to_string(), spread.clone()));
        spread.values[2] = f64::INFINITY;
        all.push(("infinite".to_string(), spread));
        // In f32 rows are lost, entries are, and all are too large.
        let mut tiny = gallery::poisson5(12, 12).unwrap();
        let (start, end) = (tiny.offsets[40] as usize, tiny.offsets[41] as usize);
        tiny.values[start..end].iter_mut().for_each(|v| *v *= 1e-50);
        all.push(("a tiny row".to_string(), tiny.clone()));
        tiny.values[start] = 1.0;
        all.push(("a tiny diagonal".to_string(), tiny.clone()));
        tiny.values.iter_mut().for_each(|v| *v *= 1e-39);
        all.push(("tiny values".to_string(), tiny.clone()));
        tiny.values.iter_mut().for_each(|v| *v *= 1e80);
        all.push(("huge values".to_string(), tiny));
        all
    }

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let shared = a.clone().into_shared();
        let plain = Rounding::Nearest(By::One, By::One);
        compare_with::<T, f32>(gpu, (&on_device, plain), (&shared, host::Rounding::Nearest));
        let set_up = GpuMatrix::Rows(on_device.clone());
        assert_eq!(
            largest_off_diagonal(gpu, &set_up).unwrap(),
            host::largest_off_diagonal(&shared.view()).unwrap(),
            "{name}"
        );
        let times: Vec<T> = a.values.iter().map(|v| *v * T::from_f64(0.7)).collect();
        assert_eq!(gpu.fetch(&multiplied(gpu, set_up, 0.7).unwrap().values).unwrap(), times, "{name}");
        for scaling in ["diagonal", "equilibrate", "auto"] {
            let set_up = GpuMatrix::Rows(on_device.clone());
            let found = factors(gpu, &[&set_up], scaling, true).unwrap().remove(0);
            if let (Ok(found), Ok(alone)) = (&found, factors(gpu, &[&set_up], scaling, false).unwrap().remove(0)) {
                assert!(alone.l1_inverse.is_none());
                let both = [&found.factors.s, &alone.factors.s].map(|s| gpu.fetch(s).unwrap());
                assert_eq!(both[0], both[1], "{name} {scaling}");
            }
            let (s, Scaled { factors: found, l1_inverse }) = match (host::factors(&shared, scaling), found) {
                (Ok(s), Ok(found)) => (s, found),
                (Err(expected), Err(error)) => {
                    assert_eq!(error.message, expected.message, "{name} {scaling}");
                    continue;
                }
                (expected, found) => {
                    panic!("{name} {scaling}: {:?} {:?}", expected.map(|_| ()), found.map(|_| ()))
                }
            };
            assert_eq!(gpu.fetch(&found.s).unwrap(), s, "{name} {scaling}");
            let (low, high) = s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(*s), high.max(*s)));
            assert!(s.is_empty() || found.range == (low, high), "{name} {scaling}: {:?}", found.range);
            let found = found.s;
            let scaled = apply(gpu, &on_device, By::Over(&found), By::Over(&found)).unwrap();
            let expected = host::apply(&shared, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
            assert_eq!(gpu.fetch(&scaled.values).unwrap(), expected.values.as_slice(), "{name} {scaling}");
            assert_eq!(l1_inverse.is_some(), diagonal::has_short_rows(&on_device), "{name} {scaling}");
            if let Some(inverse) = l1_inverse {
                let view = expected.view();
                let expected: Vec<T> = crate::host::diagonal::l1_inverse(&view, 1, Some(&s)).unwrap();
                assert_eq!(gpu.fetch(&inverse).unwrap(), expected, "{name} {scaling} l1");
            }
            let one_sided = apply(gpu, &on_device, By::One, By::Times(&found)).unwrap();
            let expected_one_sided = host::apply(&shared, |_| 1.0, |j| s[j]).unwrap();
            assert_eq!(gpu.fetch(&one_sided.values).unwrap(), expected_one_sided.values.as_slice(), "{name} {scaling}");
            let by = Rounding::Nearest(By::Over(&found), By::Over(&found));
            match scaling {
                "diagonal" => {
                    compare_stored::<T, bf16>(gpu, (&scaled, &expected), (&found, &s));
                    compare_with::<T, bf16>(gpu, (&on_device, by), (&expected, host::Rounding::Nearest));
                }
                "equilibrate" => {
                    compare_stored::<T, f32>(gpu, (&scaled, &expected), (&found, &s));
                    compare_with::<T, f32>(gpu, (&on_device, by), (&expected, host::Rounding::Nearest));
                    compare_with::<T, f64>(gpu, (&on_device, by), (&expected, host::Rounding::Nearest));
                }
                _ => {
                    compare_stored::<T, f16>(gpu, (&scaled, &expected), (&found, &s));
                    compare_with::<T, f16>(gpu, (&on_device, by), (&expected, host::Rounding::Nearest));
                }
            }
        }
        compare_stored::<T, f16>(
            gpu,
            (&on_device, &shared),
            (&gpu.upload(&vec![1.0; a.rows * a.block.rows]).unwrap(), &vec![1.0; a.rows * a.block.rows]),
        );
    }

    fn compare_stored<T: Scalar, S: Number>(
        gpu: &Gpu,
        (on_device, a): (&DeviceCsr<T>, &crate::sparse::SharedCsr<T>),
        (device_vector, vector): (&Buffer<f64>, &[f64]),
    ) {
        compare_with::<T, S>(gpu, (on_device, Rounding::Nearest(By::One, By::One)), (a, host::Rounding::Nearest));
        compare_with::<T, S>(gpu, (on_device, Rounding::Keeping(device_vector)), (a, host::Rounding::Keeping(vector)));
    }

    fn compare_with<T: Scalar, S: Number>(
        gpu: &Gpu,
        (on_device, rounding): (&DeviceCsr<T>, Rounding<'_>),
        (a, expected): (&crate::sparse::SharedCsr<T>, host::Rounding<'_>),
    ) {
        let mut checks = DeferredChecks::new(gpu);
        let on_device =
            store::<T, S>(gpu, on_device, rounding, &mut checks, |result| result, ("matrix", false)).unwrap();
        match (checks.verify(), host::store::<T, S>(a, ("matrix", false), expected)) {
            (Ok(()), Ok(expected)) => assert_eq!(gpu.fetch(&on_device.values).unwrap(), expected.values.as_slice()),
            (Err(error), Err(expected)) => assert_eq!(error.message, expected.message),
            (on_device, expected) => panic!("{:?} {:?}", on_device, expected.map(|_| ())),
        }
    }

    #[test]
    fn factors_scaled_matrices_and_storage_are_those_of_the_host() {
        for gpu in devices() {
            for (k, (name, a)) in matrices().into_iter().enumerate() {
                compare(&gpu, &name, &a);
                if k % 5 == 0 {
                    compare(&gpu, &name, &a.view().to_owned_as::<f32>().unwrap());
                }
            }
        }
    }
}
