//! Extended and extended+i interpolation in matrix-matrix form on a GPU. The factors are made in `kernels/mm_ext.cu`.

use super::coarse_numbering::Splitting;
use super::extended_i::Level;
use super::truncate::Rows;
use super::two_pass::count_and_write;
use super::{DeviceCsr, DeviceGraph, DevicePattern, spgemm, two_stage};
use crate::backend::common::Formula;
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput};
use crate::backend::parameters::Truncation;
use crate::backend::setup::Coarse;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Gpu, Slice};
use crate::scalar::Scalar;

/// As [`crate::host::mm_ext::interpolate`], to all unknowns or to those of `only`; with `pattern`, each row keeps the
/// columns that it has there.
#[allow(clippy::too_many_arguments)]
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    plus_i: bool,
    truncation: Truncation,
    pattern: Option<&DevicePattern>,
) -> Result<DeviceCsr<T>> {
    let product = {
        let level = Level::with_packed(gpu, a, s, coarse, Formula::ExtendedI, 0)?;
        let [right, left] = factors(gpu, &level, only, plus_i)?;
        drop(level);
        spgemm::multiply(gpu, &left, &right)?
    };
    Rows::of(&product).truncated(gpu, truncation, pattern)
}

/// R and L. Waits for the device once.
fn factors<T: Scalar>(
    gpu: &Gpu,
    level: &Level<'_, T>,
    only: Option<&Slice<i32>>,
    plus_i: bool,
) -> Result<[DeviceCsr<T>; 2]> {
    let (a, coarse, precision) = (level.a, level.coarse, T::PRECISION.name());
    let number = coarse.number.view();
    // The row sums of R, which counting it gives.
    let beta = gpu.allocate::<T>(a.rows)?;
    let right = gpu.kernel(&format!("mm_ext_right_{precision}"))?;
    let right = |to: [View; 4]| {
        let from = [a.offsets.view(), number, level.columns.view(), level.values.view(), level.heads.view()];
        let (rows, beta) = (a.rows as i64, beta.view());
        let mut arguments: Vec<&dyn Argument> = vec![&rows];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        arguments.push(&beta);
        gpu.launch(right, a.rows, &arguments)
    };
    let lanes = if a.nnz() > 12 * a.rows { 32 } else { 8 };
    let rows = only.map_or(a.rows, Slice::len);
    let left = gpu.kernel(&format!("mm_ext_left_{precision}_{lanes}"))?;
    let left = |to: [View; 4]| {
        let matrix = [a.offsets.view(), a.columns.view(), a.values.view(), number];
        let more = [level.kinds.view(), level.heads.view(), beta.view(), only.map_or(View::NONE, Slice::view)];
        let (count, plus_i) = (rows as i64, i32::from(plus_i));
        let mut arguments: Vec<&dyn Argument> = vec![&count, &plus_i];
        arguments.extend(matrix.iter().chain(&more).chain(&to).map(|view| view as &dyn Argument));
        gpu.launch(left, rows * lanes, &arguments)
    };
    count_and_write(gpu, [((a.rows, coarse.count), &right), ((rows, a.rows), &left)])
}

/// The component, on aggressive levels in two stages.
pub(crate) struct MmExt {
    /// Whether it is the +i variant.
    pub plus_i: bool,
}

impl<T: Scalar> Interpolation<Gpu, T> for MmExt {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let (gpu, a, s, truncation) = (input.setup, input.a, input.graph, input.truncation);
        let pattern = input.pattern().map(|pattern| &**pattern);
        let name = if self.plus_i { "mm_ext_i" } else { "mm_ext" };
        let p = match input.coarse {
            Coarse::TwoPass(first, second) => {
                two_stage::interpolate(gpu, first, second, truncation, pattern, |coarse, only| {
                    interpolate(gpu, a, s, coarse, only, self.plus_i, truncation, None)
                })?
            }
            _ => interpolate(gpu, a, s, input.splitting(name)?, None, self.plus_i, truncation, pattern)?,
        };
        Ok(Interpolated::alone(p.into()))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, narrow, problems, splittings, upload};
    use super::*;
    use crate::host::{mm_ext, strength};
    use crate::skip::is_deep;
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::absolute(&view, 0.1).unwrap();
        for (coarse, plus_i) in splittings(&s).into_iter().zip([true, false]) {
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            // One of two truncations for each splitting, the other one on the next matrix.
            let checked = (usize::from(plus_i) + a.columns.len()) % 2;
            for (k, (max_entries, factor)) in [(4, 0.0), (0, 0.2)].into_iter().enumerate() {
                if k != checked && !is_deep() {
                    continue;
                }
                let cut = Truncation::new(max_entries, factor);
                let wanted = mm_ext::interpolate(&view, &s, &coarse, None, plus_i, cut, None).unwrap();
                let structure = wanted.clone().into_shared().structure;
                let kept = mm_ext::interpolate(&view, &s, &coarse, None, plus_i, cut, Some(&*structure)).unwrap();
                for gpu in devices() {
                    let (on_device, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let make = |pattern: Option<&DevicePattern>| {
                        interpolate(&gpu, &on_device, &graph, &splitting, None, plus_i, cut, pattern).unwrap()
                    };
                    let p = make(None);
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name} {plus_i}");
                    assert_eq!(make(Some(&p.pattern())).fetch(&gpu).unwrap(), kept, "{name} {plus_i}");
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
        }
        let (name, a) = irregular().pop().unwrap();
        check(&narrow(&a), &name);
    }
}
