//! Diagonals, inverses of diagonals and of diagonal blocks ([`crate::host::diagonal`] on the device), and smoother
//! data.

use super::DeviceCsr;
use super::deferred_checks::DeferredChecks;
use crate::backend::common::{MAX_BLOCK, rounding_bound};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View, tag};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::precision::{MATTERS, does_not_fit, is_narrower};
use crate::scalar::{Number, Scalar};
use crate::sparse::Block;

/// Blocks of a grid-stride loop: as many as run at the same time.
const MAX_BLOCKS: usize = 1024;

/// The diagonal, one value for each scalar row; zero where there is none.
pub(crate) fn entries<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<Buffer<f64>> {
    let out = gpu.allocate::<f64>(a.scalar_rows())?;
    run(gpu, a, 1, (false, false), None, &out)?;
    Ok(out)
}

/// The inverse of the diagonal (`width` 1), or of the diagonal blocks, row by row (`width` that of the blocks). With
/// `l1` the diagonal is first enlarged by the absolute values of what is outside of it, as l1-Jacobi has it. With
/// `scale`, powers of two by which the variables of the level are multiplied, it is that of the matrix scaled so.
pub(crate) fn inverse<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    width: usize,
    l1: bool,
    scale: Option<&Slice<f64>>,
) -> Result<Buffer<T>> {
    let out = gpu.allocate::<T>(a.scalar_rows() * width)?;
    run(gpu, a, width, (true, l1), scale, &out)?;
    Ok(out)
}

/// Whether [`l1_and_largest`] suits a matrix: it has a thread for each row, so rows must be short.
pub(super) fn has_short_rows<T: Scalar>(a: &DeviceCsr<T>) -> bool {
    a.block == Block::SCALAR && a.nnz() < 100 * a.rows
}

/// [`inverse`] with l1 sums, for factors that are powers of two, and in `seen[1]` the bits of the largest entry of the
/// scaled matrix, in one pass over it.
pub(super) fn l1_and_largest<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &Slice<f64>,
    seen: &Slice<u64>,
) -> Result<Buffer<T>> {
    assert!(s.len() == a.rows && a.block == Block::SCALAR);
    let out = gpu.allocate::<T>(a.rows)?;
    let kernel = gpu.kernel(&format!("diagonal_and_largest_{}", T::PRECISION.name()))?;
    let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let arguments: [&dyn Argument; 7] =
        [&(a.rows as i64), &s.view(), &offsets, &columns, &values, &out.view(), &seen.view()];
    gpu.launch(kernel, a.rows, &arguments)?;
    Ok(out)
}

fn run<T: Scalar, U: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    width: usize,
    (inverted, l1): (bool, bool),
    scale: Option<&Slice<f64>>,
    out: &Slice<U>,
) -> Result<()> {
    let n = a.block.rows;
    assert!(a.block.cols == n && n <= MAX_BLOCK && (width == 1 || width == n));
    assert!(scale.is_none_or(|s| s.len() == a.scalar_rows()));
    let (rows, inverted, l1) = (a.rows as i64, i32::from(inverted), i32::from(l1));
    let scale = scale.map_or(View::NONE, Slice::view);
    let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let (format, out) = (tag::<U>(), out.view());
    let name = T::PRECISION.name();
    if a.block == Block::SCALAR {
        let lanes = if has_short_rows(a) { 1 } else { 8 };
        let kernel = gpu.kernel(&format!("diagonal_rows_{name}_{lanes}"))?;
        let arguments: [&dyn Argument; 9] = [&rows, &inverted, &l1, &scale, &offsets, &columns, &values, &format, &out];
        return gpu.launch(kernel, a.rows * lanes, &arguments);
    }
    // One for each row of a block.
    let lanes = if n <= 4 { 4 } else { MAX_BLOCK };
    let kernel = gpu.kernel(&format!("diagonal_blocks_{name}_{lanes}"))?;
    let (bound, n, width) = (rounding_bound::<T>(n), n as i32, width as i32);
    let arguments: [&dyn Argument; 12] =
        [&rows, &n, &width, &inverted, &l1, &bound, &scale, &offsets, &columns, &values, &format, &out];
    gpu.launch(kernel, a.rows * lanes, &arguments)
}

/// Data of a smoother times `factor` in its storage format; `checks` fails if values are out of range.
pub(crate) fn stored<T: Scalar, S: Number>(
    gpu: &Gpu,
    exact: &Slice<T>,
    factor: f64,
    checks: &mut DeferredChecks,
    refuse: impl FnOnce(Result<()>) -> Result<()> + Send + 'static,
) -> Result<Buffer<S>> {
    let out = gpu.allocate::<S>(exact.len())?;
    let (n, blocks) = (exact.len() as i64, exact.len().div_ceil(BLOCK).min(MAX_BLOCKS));
    let kernel = |name: &str| gpu.kernel(&format!("{name}_{}", T::PRECISION.name()));
    if n == 0 {
        return Ok(out);
    }
    let format = tag::<S>();
    if !is_narrower::<T, S>() {
        let arguments: [&dyn Argument; 5] = [&n, &factor, &exact.view(), &format, &out.view()];
        gpu.launch_blocks(kernel("store_scaled")?, blocks, &arguments)?;
        return Ok(out);
    }
    let seen = checks.add(3, |seen| {
        let (largest, vanished) = (f64::from_bits(seen[0]), f64::from_bits(seen[1]));
        let lost = seen[2] != 0 || (vanished > 0.0 && vanished >= largest * MATTERS);
        refuse(if lost { does_not_fit::<S, _>() } else { Ok(()) })
    })?;
    let arguments: [&dyn Argument; 6] = [&n, &factor, &exact.view(), &format, &out.view(), &seen.view()];
    gpu.launch_blocks(kernel("store_looking")?, blocks, &arguments)?;
    Ok(out)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::irregular;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::devices;
    use crate::hash::hash;
    use crate::host::diagonal;
    use crate::host::scaling;
    use crate::sparse::Csr;
    use half::{bf16, f16};

    /// Every diagonal of a matrix against the host's.
    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let (on_device, view) = (DeviceCsr::upload(gpu, &a.view()).unwrap(), a.view());
        let n = a.block.rows;
        assert_eq!(gpu.fetch(&entries(gpu, &on_device).unwrap()).unwrap(), diagonal::entries(&view).unwrap(), "{name}");
        let scale: Vec<f64> = (0..view.scalar_rows()).map(|i| ((hash(i, 7) % 9) as f64 - 4.0).exp2()).collect();
        let device_scale = gpu.upload(&scale).unwrap();
        for width in if n == 1 { vec![1] } else { vec![1, n] } {
            for (scale, device_scale) in [(None, None), (Some(&scale[..]), Some(&*device_scale))] {
                // The host has the scaled matrix, the device the one before.
                let factor = |i: usize| scale.map_or(1.0, |s| 1.0 / s[i]);
                let scaled = scaling::apply(&a.clone().into_shared(), factor, factor).unwrap();
                let enlarged = inverse(gpu, &on_device, width, true, device_scale).unwrap();
                let expected: Vec<T> = diagonal::l1_inverse(&scaled.view(), width, scale).unwrap();
                assert_eq!(gpu.fetch(&enlarged).unwrap(), expected, "{name} {width} l1");
                let plain = inverse(gpu, &on_device, width, false, device_scale).unwrap();
                let expected: Vec<T> = diagonal::inverse(&scaled.view(), width, diagonal::AS_IT_IS).unwrap();
                assert_eq!(gpu.fetch(&plain).unwrap(), expected, "{name} {width} scaled");
            }
        }
    }

    #[test]
    fn diagonals_are_those_of_the_host() {
        let elasticity = gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix;
        let mut all = problems();
        all.push(("elasticity".to_string(), elasticity));
        all.extend(irregular::square());
        for gpu in devices() {
            for (name, a) in &all {
                compare(&gpu, name, a);
                compare(&gpu, name, &a.view().to_owned_as::<f32>().unwrap());
            }
        }
    }

    #[test]
    fn singular_blocks_are_left_out_as_on_the_host() {
        let block = |n: usize, seed: u64| {
            // Of rank one, of full rank, or with a row of zeros, on scales far apart.
            let v = move |i: usize| (hash(i, seed) % 7) as f64 - 3.0;
            let value = move |r: usize, c: usize| match seed % 3 {
                0 => v(r) * v(c),
                1 => v(r * n + c) * 10_f64.powi((r as i32 - c as i32) * 3) + if r == c { 9.0 } else { 0.0 },
                _ => {
                    if r == 0 || c == 0 {
                        0.0
                    } else {
                        v(r * n + c)
                    }
                }
            };
            (0..n * n).map(move |e| value(e / n, e % n))
        };
        for n in 2..=8 {
            let (offsets, columns): (Vec<i64>, Vec<i32>) = ((0..=40).collect(), (0..40).collect());
            let mut a = Csr::<f64>::with_pattern(40, 40, Block::square(n), offsets, columns).unwrap();
            a.values = (0..40).flat_map(|i| block(n, i)).collect();
            for gpu in devices() {
                compare(&gpu, &format!("{n}x{n}"), &a);
            }
        }
    }

    #[test]
    fn storage_holds_what_the_host_stores_and_refuses_what_it_refuses() {
        fn compare<T: Scalar, S: Number>(gpu: &Gpu, exact: &[f64], factor: f64) {
            let exact: Vec<T> = exact.iter().map(|v| T::from_f64(*v)).collect();
            let mut checks = DeferredChecks::new(gpu);
            let device_exact = gpu.upload(&exact).unwrap();
            let on_device = stored::<T, S>(gpu, &device_exact, factor, &mut checks, |result| result).unwrap();
            match (checks.verify().map(|()| on_device), crate::host::scaling::stored::<T, S>(&exact, factor)) {
                (Ok(on_device), Ok(expected)) => assert_eq!(gpu.fetch(&on_device).unwrap(), expected),
                (Err(on_device), Err(expected)) => assert_eq!(on_device.message, expected.message),
                (on_device, expected) => panic!("{:?} {:?}", on_device.map(|_| ()), expected.map(|_| ())),
            }
        }
        let usual: Vec<f64> = (0..3000).map(|i| 1.0 / (1.0 + (i % 700) as f64)).collect();
        let changed = |at: usize, v: f64| usual.iter().enumerate().map(|(i, u)| if i == at { v } else { *u }).collect();
        let wide: Vec<f64> = changed(5, 1e5);
        let rounding: Vec<f64> = changed(6, 1e-12);
        let small: Vec<f64> = usual.iter().map(|v| v * 1e-6).collect();
        let (tiny, huge): (Vec<f64>, Vec<f64>) = usual.iter().map(|v| (v * 1e-50, v * 1e50)).unzip();
        for gpu in devices() {
            for exact in [&usual, &wide, &rounding, &small, &tiny, &huge, &vec![0.0; 7], &vec![]] {
                for factor in [1.0, 0.7, 1e-4] {
                    compare::<f64, f64>(&gpu, exact, factor);
                    compare::<f64, f32>(&gpu, exact, factor);
                    compare::<f64, f16>(&gpu, exact, factor);
                    compare::<f32, f16>(&gpu, exact, factor);
                    compare::<f32, bf16>(&gpu, exact, factor);
                }
            }
        }
    }
}
