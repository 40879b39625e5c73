//! The operations of conjugate gradients on a GPU, by the kernels of `kernels/cg_step.cu`. Scalars stay in device
//! memory, and iterations are replayed as graphs.

use super::graphs::{Replay, run_captured};
use super::product::Epilogue;
use super::runtime::{Argument, Kernel, View, tag};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::{Backend, Beta, CgScalars, CgStep, Operator};
use crate::error::Result;
use crate::range::Range;
use crate::scalar::Scalar;

/// The number of scalars, and the index of r·r; the others are in `kernels/cg_step.cu`.
const SCALARS: usize = 7;
const RR: usize = 6;

/// Kernels for f64 and f32, and `narrow` ones for a preconditioner in f32 within a method in f64.
struct Kernels {
    beta: Kernel,
    alpha: Kernel,
    update_direction: [Kernel; 2],
    step: [Kernel; 2],
    step_narrow: Kernel,
    dots_narrow: Kernel,
    update_direction_narrow: Kernel,
}

/// The scalars of an iteration, the kernels, and the captured graph.
pub struct DeviceCgStep {
    gpu: Gpu,
    kernels: Kernels,
    scalars: Buffer<f64>,
    /// Over ranks, the scalars on the host, where inner products are.
    known: CgScalars,
    /// The address of x in device memory, so that one captured graph serves every x.
    x_address: Buffer<u64>,
    /// The same address, on the host.
    x: u64,
    replay: Replay,
}

/// The conversion between the vectors of a method and those of a narrow preconditioner: b = factor D r, and z = unit
/// factor D w for its result w. With a guard, b is multiplied by the power of two that brings it into range, and z is divided
/// by it.
pub(crate) struct Conversion<'a> {
    pub factor: f64,
    pub unit: f64,
    pub d: Option<&'a Slice<f32>>,
    pub guard: Option<(&'a Range, &'a Buffer<f64>)>,
}

impl Conversion<'_> {
    /// Whether D is a diagonal of `n` elements, and the diagonal.
    fn diagonal(&self, n: usize) -> (i32, View<'_>) {
        assert!(self.d.is_none_or(|d| d.len() == n));
        (i32::from(self.d.is_some()), self.d.map_or(View::NONE, Slice::view))
    }

    /// The power of two.
    fn divisor(&self) -> View<'_> {
        self.guard.map_or(View::NONE, |(_, power)| power.view())
    }
}

impl DeviceCgStep {
    pub(super) fn new(gpu: &Gpu) -> Result<DeviceCgStep> {
        let kernels = Kernels {
            beta: gpu.kernel("cg_beta")?,
            alpha: gpu.kernel("cg_alpha")?,
            update_direction: [gpu.kernel("cg_direction_f64")?, gpu.kernel("cg_direction_f32")?],
            step: [gpu.kernel("cg_step_f64")?, gpu.kernel("cg_step_f32")?],
            step_narrow: gpu.kernel("cg_step_narrow")?,
            dots_narrow: gpu.kernel("cg_dots_narrow")?,
            update_direction_narrow: gpu.kernel("cg_direction_narrow")?,
        };
        let (scalars, x_address) = (gpu.zeroed(SCALARS)?, gpu.zeroed(1)?);
        let (known, replay) = (CgScalars::default(), Replay::default());
        Ok(DeviceCgStep { gpu: gpu.clone(), kernels, scalars, known, x_address, x: 0, replay })
    }

    /// Copies the scalars of the host to the device.
    fn store_known(&mut self) -> Result<()> {
        let CgScalars { zr, zq, previous_zr, beta, pq, alpha, rr } = self.known;
        self.gpu.write(&[zr, zq, previous_zr, beta, pq, alpha, rr], &mut self.scalars)
    }

    /// z·r, z·q and β from `count` partial sums each.
    fn compute_beta<Q>(&self, count: usize, beta: &Beta<Q>) -> Result<()> {
        let (first, flexible) = (matches!(beta, Beta::Zero), matches!(beta, Beta::Flexible(_)));
        let (first, flexible) = (i32::from(first), i32::from(flexible));
        let (parts, scalars) = (self.gpu.parts(2 * count), self.scalars.view());
        self.gpu.launch_blocks(self.kernels.beta, 1, &[&(count as i64), &parts, &first, &flexible, &scalars])
    }

    /// r·r from its partial sums.
    fn compute_rr(&self, count: usize) -> Result<()> {
        self.gpu.add_parts(&self.gpu.parts(count), &self.scalars.subslice(RR, 1).view())
    }

    /// As [`CgStep::update_solution`], and converts r to the `b` of a preconditioner.
    pub(crate) fn update_solution_narrow(
        &self,
        (p, q): (&Slice<f64>, &Slice<f64>),
        x: &mut Slice<f64>,
        r: &mut Slice<f64>,
        (conversion, b): (&Conversion<'_>, &mut Slice<f32>),
    ) -> Result<()> {
        let (gpu, n) = (&self.gpu, x.len());
        assert!(p.len() == n && q.len() == n && r.len() == n && b.len() == n && x.address() == self.x);
        let (scaled, d) = conversion.diagonal(n);
        let (scalars, x_address) = (self.scalars.view(), self.x_address.view());
        let (p, q, r, b) = (p.view(), q.view(), r.view(), b.view());
        let (rows, factor, count) = (n as i64, conversion.factor, part_count(n));
        let parts = gpu.parts(2 * count);
        let arguments: [&dyn Argument; 11] =
            [&rows, &scalars, &p, &q, &x_address, &r, &factor, &scaled, &d, &b, &parts];
        gpu.launch_blocks(self.kernels.step_narrow, count, &arguments)?;
        self.compute_rr(count)?;
        match conversion.guard {
            Some((range, power)) => {
                let (largest, to) = (gpu.reduction(count, count), (tag::<f32>(), b));
                gpu.correct_range::<f64>(count, (&rows, &factor, &scaled, &d), r, to, (largest, range, power))
            }
            None => Ok(()),
        }
    }

    /// As [`CgStep::dots`], with z stored as `w`.
    pub(crate) fn dots_narrow(
        &self,
        (conversion, w): (&Conversion<'_>, &Slice<f32>),
        r: &Slice<f64>,
        beta: Beta<&Slice<f64>>,
    ) -> Result<()> {
        let (gpu, n) = (&self.gpu, w.len());
        let q = if let Beta::Flexible(q) = beta { q.view() } else { View::NONE };
        assert!(r.len() == n && [0, n].contains(&q.len()));
        let (scaled, d) = conversion.diagonal(n);
        let (factor, divisor, count) = (conversion.unit * conversion.factor, conversion.divisor(), part_count(n));
        let parts = gpu.parts(2 * count);
        let arguments: [&dyn Argument; 9] =
            [&(n as i64), &factor, &divisor, &scaled, &d, &w.view(), &r.view(), &q, &parts];
        gpu.launch_blocks(self.kernels.dots_narrow, count, &arguments)?;
        self.compute_beta(count, &beta)
    }

    /// As [`CgStep::update_direction`], with z stored as `w`.
    pub(crate) fn update_direction_narrow(
        &self,
        (conversion, w): (&Conversion<'_>, &Slice<f32>),
        p: &mut Slice<f64>,
    ) -> Result<()> {
        let n = p.len();
        assert_eq!(w.len(), n);
        let (scaled, d) = conversion.diagonal(n);
        let (factor, divisor) = (conversion.unit * conversion.factor, conversion.divisor());
        let scalars = self.scalars.view();
        let arguments: [&dyn Argument; 8] =
            [&(n as i64), &scalars, &factor, &divisor, &scaled, &d, &w.view(), &p.view()];
        self.gpu.elementwise(self.kernels.update_direction_narrow, n, &arguments)
    }
}

impl CgStep<Gpu> for DeviceCgStep {
    fn begin<T: Scalar>(&mut self, x: &Slice<T>) -> Result<()> {
        if self.x != x.address() {
            self.x = x.address();
            self.gpu.write(&[self.x], &mut self.x_address)?;
        }
        Ok(())
    }

    fn dots<T: Scalar>(&mut self, z: &Slice<T>, r: &Slice<T>, beta: Beta<&Slice<T>>) -> Result<()> {
        let (gpu, count) = (&self.gpu, part_count(z.len()));
        if gpu.is_distributed() {
            self.known.dots(gpu, z, r, beta);
            return self.store_known();
        }
        gpu.dot_parts(z, r, &gpu.parts(count))?;
        if let Beta::Flexible(q) = beta {
            gpu.dot_parts(z, q, &gpu.reduction(count, count))?;
        }
        self.compute_beta(count, &beta)
    }

    fn update_direction<T: Scalar>(&mut self, z: &Slice<T>, p: &mut Slice<T>) -> Result<()> {
        assert_eq!(z.len(), p.len());
        let kernel = self.kernels.update_direction[tag::<T>() as usize];
        let arguments: [&dyn Argument; 4] = [&(p.len() as i64), &self.scalars.view(), &z.view(), &p.view()];
        self.gpu.elementwise(kernel, p.len(), &arguments)
    }

    fn product<T: Scalar>(&mut self, a: &dyn Operator<Gpu, T>, p: &Slice<T>, q: &mut Slice<T>) -> Result<()> {
        let gpu = &self.gpu;
        if gpu.is_distributed() {
            a.apply(T::ONE, p, T::ZERO, q)?;
            let known = &mut self.known;
            known.pq = gpu.dot(p, q);
            known.alpha = if known.zr > 0.0 && known.pq > 0.0 { known.zr / known.pq } else { 0.0 };
            return self.store_known();
        }
        let mut count = 0;
        // A callback has no epilogue.
        match a.has_epilogue(1) {
            true => count = a.apply_with_epilogue(p, Epilogue::with_dot(p, q))?,
            false => a.apply(T::ONE, p, T::ZERO, q)?,
        }
        if count == 0 {
            count = part_count(p.len());
            gpu.dot_parts(p, q, &gpu.parts(count))?;
        }
        let parts = gpu.few_parts(count)?;
        gpu.launch_blocks(self.kernels.alpha, 1, &[&(parts.len() as i64), &parts, &self.scalars.view()])
    }

    fn update_solution<T: Scalar>(
        &mut self,
        (p, q): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        let n = x.len();
        assert!(p.len() == n && q.len() == n && r.len() == n && x.address() == self.x);
        let (kernel, count) = (self.kernels.step[tag::<T>() as usize], part_count(n));
        let (scalars, x_address, parts) = (self.scalars.view(), self.x_address.view(), self.gpu.parts(count));
        let arguments: [&dyn Argument; 7] =
            [&(n as i64), &scalars, &p.view(), &q.view(), &x_address, &r.view(), &parts];
        self.gpu.launch_blocks(kernel, count, &arguments)?;
        if self.gpu.is_distributed() {
            self.known.rr = self.gpu.dot(r, r);
            return Ok(());
        }
        self.compute_rr(count)
    }

    fn read_scalars(&mut self) -> Result<CgScalars> {
        if self.gpu.is_distributed() {
            return self.gpu.status().map(|()| self.known);
        }
        self.gpu.failed()?;
        let mut values = [0.0; SCALARS];
        self.gpu.read(&self.scalars, &mut values)?;
        let [zr, zq, previous_zr, beta, pq, alpha, rr] = values;
        Ok(CgScalars { zr, zq, previous_zr, beta, pq, alpha, rr })
    }

    fn iterate(&mut self, capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !capturable || self.gpu.is_distributed() {
            return work(self);
        }
        run_captured(self, &self.gpu.clone(), |step| &mut step.replay, work)
    }

    fn discard_graph(&mut self) {
        self.replay = Replay::default();
    }
}
