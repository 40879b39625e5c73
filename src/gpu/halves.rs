//! The halves of an iteration of BiCGStab on a GPU: the kernels of `kernels/halves.cu`, whose numbers stay in device memory, and iterations that
//! are repeated as graphs.

use super::graphs::{Replay, repeat};
use super::runtime::{Argument, Kernel, View, tag};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::{HalfNumbers, Halves};
use crate::error::Result;
use crate::scalar::Scalar;

/// How many numbers there are, and where some of them are, as `kernels/halves.cu` has them.
const NUMBERS: usize = 12;
const ALPHA: usize = 6;
const SS: usize = 7;
const OMEGA: usize = 10;

/// Kernels, those on vectors for f64 and f32.
struct Kernels {
    turn: [Kernel; 2],
    dots: [Kernel; 2],
    step: [Kernel; 2],
    alpha: Kernel,
    omega: Kernel,
    beta: Kernel,
}

/// The numbers of an iteration, and what computes them.
pub struct DeviceHalves {
    gpu: Gpu,
    kernels: Kernels,
    numbers: Buffer<f64>,
    /// The address of x, which kernels read there: launches are the same for every x.
    place: Buffer<u64>,
    /// The same, on the host.
    x: u64,
    target: f64,
    replay: Replay,
}

impl DeviceHalves {
    pub(super) fn new(gpu: &Gpu) -> Result<DeviceHalves> {
        let of = |name: &str| gpu.kernel(&format!("halves_{name}"));
        let kernels = Kernels {
            turn: [of("turn_f64")?, of("turn_f32")?],
            dots: [of("dots_f64")?, of("dots_f32")?],
            step: [of("step_f64")?, of("step_f32")?],
            alpha: of("alpha")?,
            omega: of("omega")?,
            beta: of("beta")?,
        };
        let (numbers, place) = (gpu.zeroed(NUMBERS)?, gpu.zeroed(1)?);
        Ok(DeviceHalves { gpu: gpu.clone(), kernels, numbers, place, x: 0, target: 0.0, replay: Replay::default() })
    }

    /// Numbers from two sums of as many parts as vectors of `n` elements have.
    fn find(&self, kernel: Kernel, n: usize) -> Result<()> {
        let count = part_count(n);
        self.gpu.launch_blocks(kernel, 1, &[&(count as i64), &self.gpu.parts(2 * count), &self.numbers.view()])
    }

    /// The parts of x·y and y·y.
    fn dots<T: Scalar>(&self, x: &Slice<T>, y: &Slice<T>) -> Result<()> {
        assert_eq!(x.len(), y.len());
        let (kernel, count) = (self.kernels.dots[tag::<T>() as usize], part_count(y.len()));
        let arguments: [&dyn Argument; 4] = [&(y.len() as i64), &x.view(), &y.view(), &self.gpu.parts(2 * count)];
        self.gpu.launch_blocks(kernel, count, &arguments)
    }

    /// x += factor z, r -= factor q with the number in this place, and the parts of r·r and, where there is a shadow, of r with it.
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
        let (factor, place, parts) =
            (self.numbers.piece(factor, 1).view(), self.place.view(), self.gpu.parts(2 * count));
        let arguments: [&dyn Argument; 8] =
            [&(n as i64), &factor, &z.view(), &q.view(), &shadow, &place, &r.view(), &parts];
        self.gpu.launch_blocks(kernel, count, &arguments)
    }
}

impl Halves<Gpu> for DeviceHalves {
    fn begin<T: Scalar>(&mut self, x: &Slice<T>, target: f64) -> Result<()> {
        self.target = target;
        if self.x != x.address() {
            self.x = x.address();
            self.gpu.write(&[self.x], &mut self.place)?;
        }
        Ok(())
    }

    fn restart(&mut self, norm: f64) -> Result<()> {
        let known = [norm * norm, norm * norm, self.target];
        self.gpu.write(&known, self.numbers.piece_mut(0, known.len()))
    }

    fn turn<T: Scalar>(&mut self, r: &Slice<T>, v: &Slice<T>, p: &mut Slice<T>) -> Result<()> {
        let n = p.len();
        assert!(r.len() == n && v.len() == n);
        let kernel = self.kernels.turn[tag::<T>() as usize];
        let arguments: [&dyn Argument; 5] = [&(n as i64), &self.numbers.view(), &r.view(), &v.view(), &p.view()];
        self.gpu.elementwise(kernel, n, &arguments)
    }

    fn first<T: Scalar>(
        &mut self,
        shadow: &Slice<T>,
        (z, v): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        self.dots(shadow, v)?;
        self.find(self.kernels.alpha, v.len())?;
        self.step(ALPHA, (z, v), View::NONE, x, r)?;
        self.gpu.add_parts(&self.gpu.parts(part_count(v.len())), &self.numbers.piece(SS, 1).view())
    }

    fn second<T: Scalar>(
        &mut self,
        shadow: &Slice<T>,
        (z, t): (&Slice<T>, &Slice<T>),
        x: &mut Slice<T>,
        r: &mut Slice<T>,
    ) -> Result<()> {
        self.dots(r, t)?;
        self.find(self.kernels.omega, t.len())?;
        self.step(OMEGA, (z, t), shadow.view(), x, r)?;
        self.find(self.kernels.beta, t.len())
    }

    fn look(&mut self) -> Result<HalfNumbers> {
        self.gpu.failed()?;
        let mut found = [0.0; NUMBERS];
        self.gpu.read(&self.numbers, &mut found)?;
        let [rho, shadow, target, beta, sigma, vv, alpha, ss, ts, tt, omega, rr] = found;
        Ok(HalfNumbers { rho, shadow, target, beta, sigma, vv, alpha, ss, ts, tt, omega, rr })
    }

    fn iterate(&mut self, fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !fixed {
            return work(self);
        }
        repeat(self, &self.gpu.clone(), |halves| &mut halves.replay, work)
    }

    fn forget(&mut self) {
        self.replay = Replay::default();
    }
}
