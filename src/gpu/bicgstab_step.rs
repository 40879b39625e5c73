//! The operations of BiCGStab on a GPU, by the kernels of `kernels/bicgstab_step.cu`. Scalars stay in device memory,
//! and iterations are replayed as graphs.

use super::graphs::{Replay, run_captured};
use super::runtime::{Argument, Kernel, View, tag};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::{BicgstabScalars, BicgstabStep};
use crate::error::Result;
use crate::scalar::Scalar;

/// The number of scalars, and the indices of some, as in `kernels/bicgstab_step.cu`.
const SCALARS: usize = 12;
const ALPHA: usize = 6;
const SS: usize = 7;
const OMEGA: usize = 10;

/// Kernels; those on vectors are for f64 and f32.
struct Kernels {
    update_direction: [Kernel; 2],
    dots: [Kernel; 2],
    step: [Kernel; 2],
    alpha: Kernel,
    omega: Kernel,
    beta: Kernel,
}

/// The scalars of an iteration, the kernels, and the captured graph.
pub struct DeviceBicgstabStep {
    gpu: Gpu,
    kernels: Kernels,
    scalars: Buffer<f64>,
    /// The address of x in device memory, so that one captured graph serves every x.
    x_address: Buffer<u64>,
    /// The same address, on the host.
    x: u64,
    target: f64,
    replay: Replay,
}

impl DeviceBicgstabStep {
    pub(super) fn new(gpu: &Gpu) -> Result<DeviceBicgstabStep> {
        let of = |name: &str| gpu.kernel(&format!("bicgstab_{name}"));
        let kernels = Kernels {
            update_direction: [of("direction_f64")?, of("direction_f32")?],
            dots: [of("dots_f64")?, of("dots_f32")?],
            step: [of("step_f64")?, of("step_f32")?],
            alpha: of("alpha")?,
            omega: of("omega")?,
            beta: of("beta")?,
        };
        let (scalars, x_address) = (gpu.zeroed(SCALARS)?, gpu.zeroed(1)?);
        Ok(DeviceBicgstabStep {
            gpu: gpu.clone(),
            kernels,
            scalars,
            x_address,
            x: 0,
            target: 0.0,
            replay: Replay::default(),
        })
    }

    /// Runs a kernel that computes scalars from the partial sums of two inner products of vectors of `n` elements.
    fn compute(&self, kernel: Kernel, n: usize) -> Result<()> {
        let count = part_count(n);
        self.gpu.launch_blocks(kernel, 1, &[&(count as i64), &self.gpu.parts(2 * count), &self.scalars.view()])
    }

    /// The partial sums of x·y and y·y.
    fn dots<T: Scalar>(&self, x: &Slice<T>, y: &Slice<T>) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let (kernel, count) = (self.kernels.dots[tag::<T>() as usize], part_count(y.len()));
        let arguments: [&dyn Argument; 4] = [&(y.len() as i64), &x.view(), &y.view(), &self.gpu.parts(2 * count)];
        self.gpu.launch_blocks(kernel, count, &arguments)
    }

    /// x += factor z, r -= factor q with the scalar of index `factor`, and the partial sums of r·r and, where there is
    /// a shadow residual, of shadow·r.
    fn step<T: Scalar>(
        &self,
        factor: usize,
        (z, q): (&Slice<T>, &Slice<T>),
        shadow: View,
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        let n = x.len();
        assert!(z.len() == n && q.len() == n && r.len() == n && x.address() == self.x);
        assert!([0, n].contains(&shadow.len()));
        let (kernel, count) = (self.kernels.step[tag::<T>() as usize], part_count(n));
        let (factor, x_address, parts) =
            (self.scalars.subslice(factor, 1).view(), self.x_address.view(), self.gpu.parts(2 * count));
        let arguments: [&dyn Argument; 8] =
            [&(n as i64), &factor, &z.view(), &q.view(), &shadow, &x_address, &r.view(), &parts];
        self.gpu.launch_blocks(kernel, count, &arguments)
    }
}

impl BicgstabStep<Gpu> for DeviceBicgstabStep {
    fn begin<T: Scalar>(&mut self, x: &Slice<T>, target: f64) -> Result<()> {
        self.target = target;
        if self.x != x.address() {
            self.x = x.address();
            self.gpu.write(&[self.x], &mut self.x_address)?;
        }
        Ok(())
    }

    fn restart(&mut self, norm: f64) -> Result<()> {
        let known = [norm * norm, norm * norm, self.target];
        self.gpu.write(&known, self.scalars.subslice_mut(0, known.len()))
    }

    fn update_direction<T: Scalar>(&mut self, r: &Slice<T>, v: &Slice<T>, p: &mut Slice<T>) -> Result<()> {
        let n = p.len();
        assert!(r.len() == n && v.len() == n);
        let kernel = self.kernels.update_direction[tag::<T>() as usize];
        let arguments: [&dyn Argument; 5] = [&(n as i64), &self.scalars.view(), &r.view(), &v.view(), &p.view()];
        self.gpu.elementwise(kernel, n, &arguments)
    }

    fn first_half<T: Scalar>(
        &mut self,
        shadow: &Slice<T>,
        (z, v): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        self.dots(shadow, v)?;
        self.compute(self.kernels.alpha, v.len())?;
        self.step(ALPHA, (z, v), View::NONE, x, r)?;
        self.gpu.add_parts(&self.gpu.parts(part_count(v.len())), &self.scalars.subslice(SS, 1).view())
    }

    fn second_half<T: Scalar>(
        &mut self,
        shadow: &Slice<T>,
        (z, t): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        self.dots(r, t)?;
        self.compute(self.kernels.omega, t.len())?;
        self.step(OMEGA, (z, t), shadow.view(), x, r)?;
        self.compute(self.kernels.beta, t.len())
    }

    fn read_scalars(&mut self) -> Result<BicgstabScalars> {
        self.gpu.failed()?;
        let mut values = [0.0; SCALARS];
        self.gpu.read(&self.scalars, &mut values)?;
        let [rho, shadow, target, beta, sigma, vv, alpha, ss, ts, tt, omega, rr] = values;
        Ok(BicgstabScalars { rho, shadow, target, beta, sigma, vv, alpha, ss, ts, tt, omega, rr })
    }

    fn iterate(&mut self, capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !capturable {
            return work(self);
        }
        run_captured(self, &self.gpu.clone(), |step| &mut step.replay, work)
    }

    fn discard_graph(&mut self) {
        self.replay = Replay::default();
    }
}
