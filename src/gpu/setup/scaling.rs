//! Scaling of levels by powers of two and their storage in 16 bits: [`crate::amg::scaling`] on the device.

use super::{DeviceCsr, diagonal};
use crate::amg::scaling::{FAR_ABOVE, beyond_range, check_lost, lift_of, middle_of, not_by_diagonal};
use crate::backend::Backend;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View, tag};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::{Number, Scalar};
use std::any::Any;
use std::sync::Arc;

/// Blocks of a kernel that goes over an array in steps: as many as run at the same time.
const WAVE: usize = 1024;

/// One s for each scalar row of a level's matrix, by the scaling that `precision.scaling` names; none for `none`. Waits for the device.
pub(crate) fn factors<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, scaling: &str) -> Result<Option<Buffer<f64>>> {
    let (s, largest) = match scaling {
        "none" => return Ok(None),
        "diagonal" => match by_diagonal(gpu, a)? {
            Ok(found) => found,
            Err(i) => return not_by_diagonal(i),
        },
        "equilibrate" => by_largest(gpu, a)?,
        _ => match by_diagonal(gpu, a)? {
            Ok((s, largest)) if largest <= FAR_ABOVE => (s, largest),
            _ => by_largest(gpu, a)?,
        },
    };
    let mut s = s;
    gpu.scale(lift_of(largest), &mut s);
    Ok(Some(s))
}

/// Powers of two near the root of the diagonal, and the largest scaled entry; or the first row whose diagonal is not positive.
fn by_diagonal<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<std::result::Result<(Buffer<f64>, f64), usize>> {
    roots(gpu, a, diagonal::entries(gpu, a)?, false)
}

/// Powers of two near the root of the largest entry of row and column, and the largest scaled entry.
fn by_largest<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<(Buffer<f64>, f64)> {
    // As ordered bits, which are those of the numbers.
    let largest = gpu.zeroed::<f64>(a.scalar_rows())?;
    let (kernel, lanes) = over_values(gpu, a, "largest_of_lines")?;
    let (rows, br, bc) = shape(a);
    let arguments: [&dyn Argument; 7] =
        [&rows, &br, &bc, &a.offsets.view(), &a.columns.view(), &a.values.view(), &largest.view()];
    gpu.launch(kernel, a.rows * lanes, &arguments)?;
    match roots(gpu, a, largest, true)? {
        Ok(found) => Ok(found),
        Err(i) => beyond_range(i),
    }
}

/// The powers of two near the roots of these numbers, 1 in place of zeros where they are `allowed`, and the largest scaled entry; or the
/// first that has none.
fn roots<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    of: Buffer<f64>,
    allowed: bool,
) -> Result<std::result::Result<(Buffer<f64>, f64), usize>> {
    let n = of.len();
    let seen = gpu.zeroed::<u64>(2)?;
    let arguments: [&dyn Argument; 4] = [&(n as i64), &i32::from(allowed), &of.view(), &seen.view()];
    gpu.launch(gpu.kernel("scaling_roots")?, n, &arguments)?;
    let (kernel, lanes) = over_values(gpu, a, "largest_scaled")?;
    let (rows, br, bc) = shape(a);
    let arguments: [&dyn Argument; 8] =
        [&rows, &br, &bc, &of.view(), &a.offsets.view(), &a.columns.view(), &a.values.view(), &seen.view()];
    gpu.launch(kernel, (a.rows * lanes).min(WAVE * BLOCK), &arguments)?;
    let seen = gpu.fetch(&seen)?;
    Ok(if seen[0] > 0 { Err(n - seen[0] as usize) } else { Ok((of, f64::from_bits(seen[1]))) })
}

/// 1/s.
pub(crate) fn reciprocals(gpu: &Gpu, s: &Slice<f64>) -> Result<Buffer<f64>> {
    let inverse = gpu.room::<f64>(s.len())?;
    let arguments: [&dyn Argument; 3] = [&(s.len() as i64), &s.view(), &inverse.view()];
    gpu.launch(gpu.kernel("scaling_reciprocals")?, s.len(), &arguments)?;
    Ok(inverse)
}

/// The inverse of the finest level's scaling in two parts, a power of two and one for each row, which f32 can hold. Waits for the device.
pub(crate) fn entrance(gpu: &Gpu, s: &Slice<f64>) -> Result<(f64, Buffer<f32>)> {
    let reciprocals = reciprocals(gpu, s)?;
    let (low, high) = (1.0 / gpu.peak(&reciprocals), gpu.peak(s));
    let middle = middle_of(low, high)?;
    let mut inverse = gpu.room(s.len())?;
    gpu.convert(middle, None, &reciprocals, &mut inverse);
    gpu.status()?;
    Ok((1.0 / middle, inverse))
}

/// The matrix with scalar rows multiplied by `left` and scalar columns by `right`; without factors they stay. Shares the pattern.
pub(crate) fn apply<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    left: Option<&Slice<f64>>,
    right: Option<&Slice<f64>>,
) -> Result<DeviceCsr<T>> {
    assert!(left.is_none_or(|s| s.len() == a.scalar_rows()));
    assert!(right.is_none_or(|s| s.len() == a.cols * a.block.cols));
    let values = gpu.room::<T>(a.entries())?;
    let (kernel, lanes) = over_values(gpu, a, "scaling_apply")?;
    let (rows, br, bc) = shape(a);
    let [left, right] = [left, right].map(|s| s.map_or(View::NONE, Slice::view));
    let (offsets, columns, from) = (a.offsets.view(), a.columns.view(), a.values.view());
    let arguments: [&dyn Argument; 9] = [&rows, &br, &bc, &left, &right, &offsets, &columns, &from, &values.view()];
    gpu.launch(kernel, a.rows * lanes, &arguments)?;
    Ok(with_values(a, values))
}

/// How values are rounded to 16 bits, as [`crate::amg::scaling::Rounding`].
#[derive(Clone, Copy)]
pub(crate) enum Rounding<'a> {
    /// Each by itself.
    Nearest,
    /// So that the product with this vector stays.
    Keeping(&'a Slice<f64>),
}

/// The matrix in another format, refused when that cannot hold it. Shares the pattern, and the values where the format is the same. Waits for
/// the device where it has 16 bits.
pub(crate) fn store<T: Scalar, S: Number>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    what: &str,
    rounding: Rounding<'_>,
) -> Result<DeviceCsr<S>> {
    let same: &dyn Any = a;
    if let Some(same) = same.downcast_ref::<DeviceCsr<S>>() {
        return Ok(same.clone());
    }
    let mut stored = gpu.room::<S>(a.entries())?;
    if S::PRECISION.is_scalar() {
        gpu.copy(&a.values, &mut stored);
        return Ok(with_values(a, stored));
    }
    let lost = gpu.zeroed::<i64>(2)?;
    let kernel = |name: &str| gpu.kernel(&format!("{name}_{}", T::PRECISION.name()));
    let (n, format) = (a.entries() as i64, tag::<S>());
    match rounding {
        Rounding::Nearest => {
            let arguments: [&dyn Argument; 5] = [&n, &a.values.view(), &format, &stored.view(), &lost.view()];
            gpu.launch(kernel("store_counting")?, a.entries().min(WAVE * BLOCK), &arguments)?;
        }
        Rounding::Keeping(vector) => {
            assert_eq!(vector.len(), a.cols * a.block.cols);
            let (rows, br, bc) = shape(a);
            let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
            let arguments: [&dyn Argument; 10] =
                [&rows, &br, &bc, &offsets, &columns, &values, &vector.view(), &format, &stored.view(), &lost.view()];
            gpu.launch(kernel("store_keeping")?, (a.scalar_rows() * 32).min(WAVE * BLOCK), &arguments)?;
        }
    }
    let lost = gpu.fetch(&lost)?;
    check_lost::<S>(what, a.entries(), (lost[0] as u64, lost[1] as u64))?;
    Ok(with_values(a, stored))
}

fn shape<T>(a: &DeviceCsr<T>) -> (i64, i32, i32) {
    (a.rows as i64, a.block.rows as i32, a.block.cols as i32)
}

fn with_values<T, S>(a: &DeviceCsr<T>, values: Buffer<S>) -> DeviceCsr<S> {
    let (offsets, columns) = (Arc::clone(&a.offsets), Arc::clone(&a.columns));
    DeviceCsr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values: Arc::new(values) }
}

/// A kernel that goes over the values of rows, and its lanes for a row.
fn over_values<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, name: &str) -> Result<(crate::gpu::runtime::Kernel, usize)> {
    let lanes = if a.entries() / a.rows.max(1) < 24 { 8 } else { 32 };
    Ok((gpu.kernel(&format!("{name}_{}_{lanes}", T::PRECISION.name()))?, lanes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amg::scaling as host;
    use crate::gallery;
    use crate::gpu::setup::awkward;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::sparse::Csr;
    use half::{bf16, f16};

    /// Small problems, also in blocks, with rows on scales far apart, and with diagonals that nothing can be scaled by.
    fn matrices() -> Vec<(String, Csr<f64>)> {
        let mut all = problems();
        all.push(("elasticity".to_string(), gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix));
        all.extend(awkward::square());
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
        all
    }

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let there = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let shared = a.clone().into_shared();
        for scaling in ["none", "diagonal", "equilibrate", "auto"] {
            let (s, found) = match (host::factors(&shared, scaling), factors(gpu, &there, scaling)) {
                (Ok(Some(s)), Ok(Some(found))) => (s, found),
                (Ok(None), Ok(None)) => continue,
                (Err(expected), Err(error)) => {
                    assert_eq!(error.message, expected.message, "{name} {scaling}");
                    continue;
                }
                (expected, found) => {
                    panic!("{name} {scaling}: {:?} {:?}", expected.map(|_| ()), found.map(|_| ()))
                }
            };
            assert_eq!(gpu.fetch(&found).unwrap(), s, "{name} {scaling}");
            let inverse = reciprocals(gpu, &found).unwrap();
            let scaled = apply(gpu, &there, Some(&inverse), Some(&inverse)).unwrap();
            let expected = host::apply(&shared, |i| 1.0 / s[i], |j| 1.0 / s[j]).unwrap();
            assert_eq!(gpu.fetch(&scaled.values).unwrap(), expected.values.as_slice(), "{name} {scaling}");
            let one_sided = apply(gpu, &there, None, Some(&found)).unwrap();
            let expected_one_sided = host::apply(&shared, |_| 1.0, |j| s[j]).unwrap();
            assert_eq!(gpu.fetch(&one_sided.values).unwrap(), expected_one_sided.values.as_slice(), "{name} {scaling}");
            match scaling {
                "diagonal" => compare_stored::<T, bf16>(gpu, (&scaled, &expected), (&found, &s)),
                "equilibrate" => compare_stored::<T, f32>(gpu, (&scaled, &expected), (&found, &s)),
                _ => compare_stored::<T, f16>(gpu, (&scaled, &expected), (&found, &s)),
            }
        }
        compare_stored::<T, f16>(
            gpu,
            (&there, &shared),
            (&gpu.upload(&vec![1.0; a.rows * a.block.rows]).unwrap(), &vec![1.0; a.rows * a.block.rows]),
        );
    }

    fn compare_stored<T: Scalar, S: Number>(
        gpu: &Gpu,
        (there, a): (&DeviceCsr<T>, &crate::sparse::SharedCsr<T>),
        (vector_there, vector): (&Buffer<f64>, &[f64]),
    ) {
        let nearest = (Rounding::Nearest, host::Rounding::Nearest);
        for (rounding, expected) in [nearest, (Rounding::Keeping(vector_there), host::Rounding::Keeping(vector))] {
            match (store::<T, S>(gpu, there, "matrix", rounding), host::store::<T, S>(a, "matrix", expected)) {
                (Ok(there), Ok(expected)) => {
                    assert_eq!(gpu.fetch(&there.values).unwrap(), expected.values.as_slice());
                }
                (Err(error), Err(expected)) => assert_eq!(error.message, expected.message),
                (there, expected) => panic!("{:?} {:?}", there.map(|_| ()), expected.map(|_| ())),
            }
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
