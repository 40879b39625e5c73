//! Adaptive least-squares interpolation: [`crate::host::least_squares`] on the device.

mod smoothing;

use super::coarse_numbering::Splitting;
use super::truncate::Rows;
use super::two_pass::{TwoPassKernel, count_and_write};
use super::{DeviceCsr, DeviceGraph, DeviceNearNullSpace, DevicePattern, spgemm};
use crate::backend::components::{Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic};
use crate::backend::least_squares::{Rules, Smoothing};
use crate::backend::parameters::Truncation;
use crate::backend::setup::{Coarse, NearNullVectors};
use crate::backend::spectrum::Largest;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// The distances of an interpolation, kept for updates.
pub(crate) struct Reach {
    /// That of each unknown.
    of: Buffer<u8>,
    /// The steps that were made.
    steps: u8,
}

/// What a level is interpolated by.
struct Level<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    s: &'a DeviceGraph,
    coarse: &'a Splitting,
    space: &'a DeviceNearNullSpace,
    /// The coarse unknowns.
    unknowns: Buffer<i32>,
}

/// As [`crate::host::least_squares::interpolate`]: the prolongator, the splitting where it is another one, and the distances where there
/// was no earlier interpolation.
#[allow(clippy::type_complexity)]
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    space: &DeviceNearNullSpace,
    (rules, truncation): (Rules, Truncation),
    earlier: Option<(&Reach, &DevicePattern)>,
) -> Result<(DeviceCsr<T>, Option<Splitting>, Option<Reach>)> {
    assert_eq!(a.block, Block::SCALAR);
    let level = Level { gpu, a, s, coarse, space, unknowns: coarse.coarse_unknowns(gpu)? };
    if let Some((reach, pattern)) = earlier {
        let mut walks = None;
        for distance in 1..=reach.steps {
            walks = Some(level.walk(&reach.of, distance, walks)?);
        }
        let walks = walks.expect("the first step is always made");
        let candidates = Rows::of(&walks).truncated(gpu, truncation, Some(pattern))?;
        return Ok((level.prolongator(&candidates, coarse)?, None, None));
    }
    let reach = level.begin()?;
    let mut walks = level.walk(&reach, 1, None)?;
    let (mut steps, mut failed) = (1, a.rows);
    let candidates = loop {
        let candidates = Rows::of(&walks).truncated(gpu, truncation, None)?;
        if steps >= rules.nearest {
            failed = level.judge(&candidates, &rules, steps, &reach)?;
        }
        if failed == 0 || steps == rules.farthest {
            break candidates;
        }
        steps += 1;
        walks = level.walk(&reach, steps, Some(walks))?;
    };
    let joined = if failed > 0 { Some(level.joined(&reach)?) } else { None };
    let p = level.prolongator(&candidates, joined.as_ref().unwrap_or(coarse))?;
    Ok((p, joined, Some(Reach { of: reach, steps })))
}

impl<T: Scalar> Level<'_, T> {
    fn kernel(&self, name: &str) -> Result<crate::gpu::Kernel> {
        self.gpu.kernel(&format!("least_squares_{name}_{}", T::PRECISION.name()))
    }

    /// No distance yet for fine unknowns with strong couplings.
    fn begin(&self) -> Result<Buffer<u8>> {
        let (gpu, rows) = (self.gpu, self.a.rows);
        let reach = gpu.allocate::<u8>(rows)?;
        let (number, strong) = (self.coarse.number.view(), self.s.offsets.view());
        gpu.launch(gpu.kernel("least_squares_begin")?, rows, &[&(rows as i64), &number, &strong, &reach.view()])?;
        Ok(reach)
    }

    /// The walks after one step more. Waits for the device.
    fn walk(&self, reach: &Buffer<u8>, distance: u8, before: Option<DeviceCsr<T>>) -> Result<DeviceCsr<T>> {
        let (gpu, rows) = (self.gpu, self.a.rows);
        let launch = |name: &str, numbers: &[&dyn Argument], from: &[View], to: [View; 4]| {
            let mut arguments = numbers.to_vec();
            arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
            gpu.launch(self.kernel(name)?, rows, &arguments)
        };
        let (rows_, distance_) = (rows as i64, i32::from(distance));
        let starts = |to: [View; 4]| launch("starts", &[&rows_], &[self.coarse.number.view(), reach.view()], to);
        let matrix = [self.a.offsets.view(), self.a.columns.view(), self.a.values.view()];
        let strong = [self.s.offsets.view(), self.s.columns.view()];
        let from = [&[reach.view()][..], &matrix, &strong].concat();
        let step = |to: [View; 4]| launch("step", &[&rows_, &distance_], &from, to);
        let (of_starts, of_step): (TwoPassKernel<'_>, TwoPassKernel<'_>) =
            (((rows, self.coarse.count), &starts), ((rows, rows), &step));
        let (step, before) = match before {
            Some(before) => {
                let [step] = count_and_write(gpu, [of_step])?;
                (step, before)
            }
            None => {
                let [starts, step] = count_and_write(gpu, [of_starts, of_step])?;
                (step, starts)
            }
        };
        spgemm::multiply(gpu, &step, &before)
    }

    /// Notes the distance for the rows whose fit is accepted, and counts the others. Waits for the device.
    fn judge(&self, candidates: &DeviceCsr<T>, rules: &Rules, distance: u8, reach: &Buffer<u8>) -> Result<usize> {
        let (gpu, rows, k) = (self.gpu, self.a.rows, self.space.count as i32);
        let failed = gpu.zeroed::<i32>(1)?;
        let [vectors, unknowns] = [self.space.vectors.view(), self.unknowns.view()];
        let from = [candidates.offsets.view(), candidates.columns.view(), candidates.values.view()];
        let arguments: [&dyn Argument; 12] = [
            &(rows as i64),
            &k,
            &i32::from(distance),
            &rules.tolerance,
            &rules.norm,
            &vectors,
            &unknowns,
            &from[0],
            &from[1],
            &from[2],
            &reach.view(),
            &failed.view(),
        ];
        gpu.launch(self.kernel("judge")?, rows, &arguments)?;
        Ok(gpu.fetch(&failed)?[0] as usize)
    }

    /// The splitting with the rows that failed at every distance. Waits for the device.
    fn joined(&self, reach: &Buffer<u8>) -> Result<Splitting> {
        let (gpu, rows) = (self.gpu, self.a.rows);
        let flags = gpu.allocate::<u8>(rows)?;
        let (number, kernel) = (self.coarse.number.view(), gpu.kernel("least_squares_flags")?);
        gpu.launch(kernel, rows, &[&(rows as i64), &number, &reach.view(), &flags.view()])?;
        Splitting::new(gpu, &flags)
    }

    /// The prolongator to the unknowns of a splitting that has those of the candidates, and perhaps more. Waits for the
    /// device.
    fn prolongator(&self, candidates: &DeviceCsr<T>, coarse: &Splitting) -> Result<DeviceCsr<T>> {
        let (gpu, rows, k) = (self.gpu, self.a.rows, self.space.count as i32);
        let from = [
            self.space.vectors.view(),
            self.unknowns.view(),
            coarse.number.view(),
            candidates.offsets.view(),
            candidates.columns.view(),
            candidates.values.view(),
        ];
        let fit = |to: [View; 4]| {
            let rows_ = rows as i64;
            let mut arguments: Vec<&dyn Argument> = vec![&rows_, &k];
            arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
            gpu.launch(self.kernel("rows")?, rows, &arguments)
        };
        let [p] = count_and_write(gpu, [((rows, coarse.count), &fit)])?;
        Ok(p)
    }
}

/// The component.
pub(crate) struct LeastSquares;

/// What it keeps for updates.
struct Kept {
    reach: Arc<Reach>,
    /// Where the interpolation is smoothed: the largest eigenvalue of D^-1 A, and the pattern before.
    smoothed: Option<(Largest, DevicePattern)>,
}

impl InterpolationSymbolic<Gpu> for Kept {
    fn bytes(&self) -> usize {
        self.reach.of.owned_bytes() + self.smoothed.as_ref().map_or(0, |(_, pattern)| pattern.bytes(1))
    }
}

impl<T: Scalar> Interpolation<Gpu, T> for LeastSquares {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let gpu = input.setup;
        let (coarse, space) = input.splitting_and_space("least_squares")?;
        let (how, earlier) = ((Rules::new(input.parameters)?, input.truncation), input.symbolic::<Kept>());
        let smoothed_before = earlier.and_then(|earlier| earlier.smoothed.as_ref());
        let pattern = smoothed_before.map(|(_, pattern)| pattern).or(input.pattern().map(|pattern| &**pattern));
        let before = earlier.and_then(|earlier| Some((&*earlier.reach, pattern?)));
        let (p, joined, reach) = interpolate(gpu, input.a, input.graph, coarse, space, how, before)?;
        let reach = match (reach, earlier) {
            (Some(reach), _) => Arc::new(reach),
            (None, Some(earlier)) => Arc::clone(&earlier.reach),
            (None, None) => unreachable!("distances are new where there was nothing before"),
        };
        let (mut smoothed, mut largest_eigenvalue, mut near_null_space) = (None, None, None);
        let p = match Smoothing::asked(input.parameters) {
            None => p,
            Some(smoothing) => {
                let coarse = joined.as_ref().unwrap_or(coarse);
                let coarse_space = Arc::new(space.injected(gpu, coarse)?);
                let known = smoothed_before.map(|(largest, _)| largest);
                let found = smoothing::smooth(smoothing, input, (coarse, &coarse_space), &p, known)?;
                smoothed = Some((found.largest.clone(), p.pattern()));
                (largest_eigenvalue, near_null_space) = (Some((found.largest, found.inverse)), Some(coarse_space));
                found.p
            }
        };
        Ok(Interpolated {
            near_null_space,
            largest_eigenvalue,
            symbolic: Some(Arc::new(Kept { reach, smoothed })),
            coarse: joined.map(Coarse::Splitting),
            ..Interpolated::alone(p.into())
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, irregular, narrow, problems, splittings, upload};
    use super::*;
    use crate::hash::hash;
    use crate::host::{least_squares, strength};
    use crate::sparse::{Csr, NearNullSpace};

    /// Vectors of which the first is constant.
    fn vectors(rows: usize, count: usize) -> NearNullSpace {
        let of = |c: usize, i: usize| if c == 0 { 1.0 } else { (hash(i, c as u64) % 97) as f64 / 7.0 - 5.0 };
        let vectors = (0..count).flat_map(|c| (0..rows).map(move |i| of(c, i))).collect();
        NearNullSpace { dofs_per_node: 1, count, vectors }
    }

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::absolute(&view, 0.1).unwrap();
        for (k, coarse) in splittings(&s).into_iter().enumerate() {
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            let rules = Rules { nearest: 1 + k as u8, farthest: 3, tolerance: 1e-10, norm: 3.0 };
            let space = vectors(a.rows, 1 + 2 * k);
            let how = (rules, Truncation::new(6, 0.0));
            let wanted = least_squares::interpolate(&view, &s, &coarse, &space, how, None).unwrap();
            let all = wanted.coarse.as_ref().unwrap_or(&coarse);
            let structure = wanted.p.clone().into_shared().structure;
            let again = Some((&wanted.reach[..], &*structure));
            let updated = least_squares::interpolate(&view, &s, all, &space, how, again).unwrap();
            assert!(updated.p == wanted.p && updated.coarse.is_none(), "{name}, updated on the host");
            for gpu in devices() {
                let (on_device, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                let of_device = DeviceNearNullSpace::upload(&gpu, &space).unwrap();
                let fit = |splitting: &Splitting, earlier: Option<(&Reach, &DevicePattern)>| {
                    interpolate(&gpu, &on_device, &graph, splitting, &of_device, how, earlier).unwrap()
                };
                let (p, joined, reach) = fit(&splitting, None);
                let reach = reach.unwrap();
                assert_eq!(gpu.fetch(&reach.of).unwrap(), wanted.reach, "{name}");
                assert_eq!(p.fetch(&gpu).unwrap(), wanted.p, "{name}");
                let (updated, ..) = fit(joined.as_ref().unwrap_or(&splitting), Some((&reach, &p.pattern())));
                assert_eq!(updated.fetch(&gpu).unwrap(), wanted.p, "{name}, updated");
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

    #[test]
    fn vectors_are_injected_as_on_the_host() {
        let space = vectors(300, 3);
        let coarse: Vec<bool> = (0..300).map(|i| hash(i, 9).is_multiple_of(4)).collect();
        let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
        let wanted = space.injected(&crate::gpu::tests::host(), &coarse.clone().into()).unwrap();
        for gpu in devices() {
            let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
            let of_device = DeviceNearNullSpace::upload(&gpu, &space).unwrap();
            assert_eq!(of_device.injected(&gpu, &splitting).unwrap().fetch(&gpu).unwrap(), wanted);
        }
    }
}
