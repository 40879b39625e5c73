//! The steps of conjugate gradients on a GPU: the kernels of `kernels/krylov.cu`, whose numbers stay in device memory, and iterations that are
//! repeated as graphs.

use super::graphs::{Replay, repeat};
use super::product::Finish;
use super::runtime::{Argument, Kernel, View, tag};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::{Beta, Numbers, Operator, Steps};
use crate::error::Result;
use crate::range::Range;
use crate::scalar::Scalar;

/// How many numbers there are, and where r·r is; the others are where `kernels/krylov.cu` has them.
const NUMBERS: usize = 7;
const RR: usize = 6;

/// Kernels for f64 and f32, and those for a preconditioner whose vectors are f32, and others f64.
struct Kernels {
    find_beta: Kernel,
    find_alpha: Kernel,
    turn: [Kernel; 2],
    step: [Kernel; 2],
    step_apart: Kernel,
    dots_apart: Kernel,
    turn_apart: Kernel,
}

/// The numbers of an iteration, and what computes them.
pub struct DeviceSteps {
    gpu: Gpu,
    kernels: Kernels,
    numbers: Buffer<f64>,
    /// The address of x, which kernels read there: launches are the same for every x.
    place: Buffer<u64>,
    /// The same, on the host.
    x: u64,
    replay: Replay,
}

/// How vectors of a preconditioner and others belong together: its own b is factor D r, and z = factor D w for its own w; with a guard b is
/// multiplied by a power of two that brings it into its range, and z divided by it.
pub(crate) struct Scale<'a> {
    pub factor: f64,
    pub d: Option<&'a Slice<f32>>,
    pub guard: Option<(&'a Range, &'a Buffer<f64>)>,
}

impl Scale<'_> {
    /// Whether there is a diagonal of `n` elements, and it.
    fn diagonal(&self, n: usize) -> (i32, View<'_>) {
        assert!(self.d.is_none_or(|d| d.len() == n));
        (i32::from(self.d.is_some()), self.d.map_or(View::NONE, Slice::view))
    }

    /// The power of two.
    fn divisor(&self) -> View<'_> {
        self.guard.map_or(View::NONE, |(_, power)| power.view())
    }
}

impl DeviceSteps {
    pub(super) fn new(gpu: &Gpu) -> Result<DeviceSteps> {
        let kernels = Kernels {
            find_beta: gpu.kernel("find_beta")?,
            find_alpha: gpu.kernel("find_alpha")?,
            turn: [gpu.kernel("turn_f64")?, gpu.kernel("turn_f32")?],
            step: [gpu.kernel("step_f64")?, gpu.kernel("step_f32")?],
            step_apart: gpu.kernel("step_apart")?,
            dots_apart: gpu.kernel("dots_apart")?,
            turn_apart: gpu.kernel("turn_apart")?,
        };
        let (numbers, place) = (gpu.zeroed(NUMBERS)?, gpu.zeroed(1)?);
        Ok(DeviceSteps { gpu: gpu.clone(), kernels, numbers, place, x: 0, replay: Replay::default() })
    }

    /// z·r, z·q and β of their parts, `count` of each.
    fn find_beta<Q>(&self, count: usize, beta: &Beta<Q>) -> Result<()> {
        let (first, flexible) = (matches!(beta, Beta::Zero), matches!(beta, Beta::Flexible(_)));
        let (first, flexible) = (i32::from(first), i32::from(flexible));
        let (parts, numbers) = (self.gpu.parts(2 * count), self.numbers.view());
        self.gpu.launch_blocks(self.kernels.find_beta, 1, &[&(count as i64), &parts, &first, &flexible, &numbers])
    }

    /// r·r of its parts.
    fn find_rr(&self, count: usize) -> Result<()> {
        self.gpu.add_parts(&self.gpu.parts(count), &self.numbers.piece(RR, 1).view())
    }

    /// As [`Steps::step`], with `b` made of r for a preconditioner: in its range where it has one.
    pub(crate) fn step_apart(
        &self,
        (p, q): (&Slice<f64>, &Slice<f64>),
        x: &mut Slice<f64>,
        r: &mut Slice<f64>,
        (scale, b): (&Scale<'_>, &mut Slice<f32>),
    ) -> Result<()> {
        let (gpu, n) = (&self.gpu, x.len());
        assert!(p.len() == n && q.len() == n && r.len() == n && b.len() == n && x.address() == self.x);
        let (scaled, d) = scale.diagonal(n);
        let (numbers, place) = (self.numbers.view(), self.place.view());
        let (p, q, r, b) = (p.view(), q.view(), r.view(), b.view());
        let (rows, factor, count) = (n as i64, scale.factor, part_count(n));
        let parts = gpu.parts(2 * count);
        let arguments: [&dyn Argument; 11] = [&rows, &numbers, &p, &q, &place, &r, &factor, &scaled, &d, &b, &parts];
        gpu.launch_blocks(self.kernels.step_apart, count, &arguments)?;
        self.find_rr(count)?;
        match scale.guard {
            Some((range, power)) => {
                let (largest, to) = (gpu.reduction(count, count), (tag::<f32>(), b));
                gpu.refit::<f64>(count, (&rows, &factor, &scaled, &d), r, to, (largest, range, power))
            }
            None => Ok(()),
        }
    }

    /// As [`Steps::dots`], for what z is stored as.
    pub(crate) fn dots_apart(
        &self,
        (scale, w): (&Scale<'_>, &Slice<f32>),
        r: &Slice<f64>,
        beta: Beta<&Slice<f64>>,
    ) -> Result<()> {
        let (gpu, n) = (&self.gpu, w.len());
        let q = if let Beta::Flexible(q) = beta { q.view() } else { View::NONE };
        assert!(r.len() == n && [0, n].contains(&q.len()));
        let (scaled, d) = scale.diagonal(n);
        let (factor, divisor, count) = (scale.factor, scale.divisor(), part_count(n));
        let parts = gpu.parts(2 * count);
        let arguments: [&dyn Argument; 9] =
            [&(n as i64), &factor, &divisor, &scaled, &d, &w.view(), &r.view(), &q, &parts];
        gpu.launch_blocks(self.kernels.dots_apart, count, &arguments)?;
        self.find_beta(count, &beta)
    }

    /// As [`Steps::turn`], for what z is stored as.
    pub(crate) fn turn_apart(&self, (scale, w): (&Scale<'_>, &Slice<f32>), p: &mut Slice<f64>) -> Result<()> {
        let n = p.len();
        assert_eq!(w.len(), n);
        let (scaled, d) = scale.diagonal(n);
        let (numbers, factor, divisor) = (self.numbers.view(), scale.factor, scale.divisor());
        let arguments: [&dyn Argument; 8] =
            [&(n as i64), &numbers, &factor, &divisor, &scaled, &d, &w.view(), &p.view()];
        self.gpu.elementwise(self.kernels.turn_apart, n, &arguments)
    }
}

impl Steps<Gpu> for DeviceSteps {
    fn begin<T: Scalar>(&mut self, x: &Slice<T>) -> Result<()> {
        if self.x != x.address() {
            self.x = x.address();
            self.gpu.write(&[self.x], &mut self.place)?;
        }
        Ok(())
    }

    fn dots<T: Scalar>(&mut self, z: &Slice<T>, r: &Slice<T>, beta: Beta<&Slice<T>>) -> Result<()> {
        let (gpu, count) = (&self.gpu, part_count(z.len()));
        gpu.dot_parts(z, r, &gpu.parts(count))?;
        if let Beta::Flexible(q) = beta {
            gpu.dot_parts(z, q, &gpu.reduction(count, count))?;
        }
        self.find_beta(count, &beta)
    }

    fn turn<T: Scalar>(&mut self, z: &Slice<T>, p: &mut Slice<T>) -> Result<()> {
        assert_eq!(z.len(), p.len());
        let kernel = self.kernels.turn[tag::<T>() as usize];
        let arguments: [&dyn Argument; 4] = [&(p.len() as i64), &self.numbers.view(), &z.view(), &p.view()];
        self.gpu.elementwise(kernel, p.len(), &arguments)
    }

    fn product<T: Scalar>(&mut self, a: &dyn Operator<Gpu, T>, p: &Slice<T>, q: &mut Slice<T>) -> Result<()> {
        let gpu = &self.gpu;
        let mut count = a.finish(p, &Finish::with_dot(p, q))?;
        if count == 0 {
            count = part_count(p.len());
            gpu.dot_parts(p, q, &gpu.parts(count))?;
        }
        let parts = gpu.few_parts(count)?;
        gpu.launch_blocks(self.kernels.find_alpha, 1, &[&(parts.len() as i64), &parts, &self.numbers.view()])
    }

    fn step<T: Scalar>(&mut self, (p, q): (&Slice<T>, &Slice<T>), x: &mut Slice<T>, r: &mut Slice<T>) -> Result<()> {
        let n = x.len();
        assert!(p.len() == n && q.len() == n && r.len() == n && x.address() == self.x);
        let (kernel, count) = (self.kernels.step[tag::<T>() as usize], part_count(n));
        let (numbers, place, parts) = (self.numbers.view(), self.place.view(), self.gpu.parts(count));
        let arguments: [&dyn Argument; 7] = [&(n as i64), &numbers, &p.view(), &q.view(), &place, &r.view(), &parts];
        self.gpu.launch_blocks(kernel, count, &arguments)?;
        self.find_rr(count)
    }

    fn look(&mut self) -> Result<Numbers> {
        self.gpu.failed()?;
        let mut found = [0.0; NUMBERS];
        self.gpu.read(&self.numbers, &mut found)?;
        let [zr, zq, before, beta, pq, alpha, rr] = found;
        Ok(Numbers { zr, zq, before, beta, pq, alpha, rr })
    }

    fn iterate(&mut self, fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !fixed {
            return work(self);
        }
        repeat(self, &self.gpu.clone(), |steps| &mut steps.replay, work)
    }

    fn forget(&mut self) {
        self.replay = Replay::default();
    }
}
