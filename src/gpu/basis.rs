//! The basis of GMRES on a GPU: the kernels of `kernels/basis.cu`, whose numbers, the number of vectors among them, stay in device memory, so
//! that one graph serves every iteration.

use super::graphs::{Replay, repeat};
use super::runtime::{Argument, Kernel, View};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::Basis;
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;

/// Where the length of the next vector is, and where columns begin, as `kernels/basis.cu` has them.
const LENGTH: usize = 1;
const COLUMN: usize = 2;

/// Kernels for the type of the vectors.
struct Kernels {
    append: Kernel,
    keep: Kernel,
    dots: Kernel,
    subtract: Kernel,
    column: Kernel,
    length: Kernel,
}

/// The vectors, and the numbers of the one that is being made.
pub struct DeviceBasis<T> {
    gpu: Gpu,
    kernels: Kernels,
    vectors: Vec<Buffer<T>>,
    /// M times each vector, where these are kept.
    kept: Vec<Buffer<T>>,
    /// The vector appended last and M times it, wherever they belong: a preconditioner is always applied to the same ones.
    last: Buffer<T>,
    preconditioned: Buffer<T>,
    /// Addresses of the vectors, and of those that are kept.
    places: Buffer<u64>,
    kept_places: Buffer<u64>,
    numbers: Buffer<f64>,
    /// Place of the last vector of a combination, and its factors.
    factors: Buffer<f64>,
    /// Parts of the inner products with all vectors.
    parts: Buffer<f64>,
    /// What goes from and to the device.
    staged: Vec<f64>,
    replay: Replay,
}

impl<T: Scalar> DeviceBasis<T> {
    pub(super) fn new(gpu: &Gpu, n: usize, m: usize, kept: bool) -> Result<DeviceBasis<T>> {
        let of = |name: &str| gpu.kernel(&format!("basis_{name}_{}", T::PRECISION.name()));
        let kernels = Kernels {
            append: of("append")?,
            keep: of("keep")?,
            dots: of("dots")?,
            subtract: of("subtract")?,
            column: gpu.kernel("basis_column")?,
            length: gpu.kernel("basis_length")?,
        };
        let vectors = |count: usize| (0..count).map(|_| gpu.zeroed(n)).collect::<Result<Vec<Buffer<T>>>>();
        let places = |vectors: &[Buffer<T>]| gpu.upload(&vectors.iter().map(|v| v.address()).collect::<Vec<_>>());
        let (vectors, kept) = (vectors(m)?, vectors(if kept { m } else { 0 })?);
        Ok(DeviceBasis {
            gpu: gpu.clone(),
            kernels,
            last: gpu.zeroed(n)?,
            preconditioned: gpu.zeroed(n)?,
            places: places(&vectors)?,
            kept_places: places(&kept)?,
            vectors,
            kept,
            numbers: gpu.zeroed(COLUMN + 2 * m)?,
            factors: gpu.zeroed(1 + m)?,
            parts: gpu.zeroed(m * part_count(n))?,
            staged: try_vec(1 + m, 0.0)?,
            replay: Replay::default(),
        })
    }

    /// w -= Σ h_i v_i for the vectors up to the place that is the only number of `newest`, and the parts of w·w.
    fn subtract(&self, newest: View, h: View, places: &Buffer<u64>, w: &mut Slice<T>) -> Result<()> {
        let (gpu, n) = (&self.gpu, w.len());
        assert_eq!(n, self.last.len());
        let count = part_count(n);
        let arguments: [&dyn Argument; 6] = [&(n as i64), &newest, &h, &places.view(), &w.view(), &gpu.parts(count)];
        gpu.launch_blocks(self.kernels.subtract, count, &arguments)
    }
}

impl<T: Scalar> Basis<Gpu, T> for DeviceBasis<T> {
    fn begin(&mut self, length: f64) -> Result<()> {
        self.gpu.write(&[0.0, length], self.numbers.piece_mut(0, COLUMN))
    }

    fn append(&mut self, w: &Slice<T>) -> Result<()> {
        let n = w.len();
        assert_eq!(n, self.last.len());
        let arguments: [&dyn Argument; 5] =
            [&(n as i64), &self.numbers.view(), &self.places.view(), &w.view(), &self.last.view()];
        self.gpu.elementwise(self.kernels.append, n, &arguments)
    }

    fn last(&mut self) -> (&Slice<T>, &mut Slice<T>) {
        (&self.last, &mut self.preconditioned)
    }

    fn keep(&mut self) -> Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let (n, z) = (self.preconditioned.len(), self.preconditioned.view());
        let arguments: [&dyn Argument; 4] = [&(n as i64), &self.numbers.view(), &self.kept_places.view(), &z];
        self.gpu.elementwise(self.kernels.keep, n, &arguments)
    }

    fn orthogonalise(&mut self, w: &mut Slice<T>) -> Result<()> {
        let (gpu, n, m, count) = (&self.gpu, w.len(), self.vectors.len(), part_count(w.len()));
        assert_eq!(n, self.last.len());
        let (numbers, places, parts) = (self.numbers.view(), self.places.view(), self.parts.view());
        let projections = self.numbers.piece(COLUMN + m, m).view();
        for again in [0, 1] {
            gpu.launch_blocks(self.kernels.dots, count, &[&(n as i64), &numbers, &places, &w.view(), &parts])?;
            let arguments: [&dyn Argument; 5] = [&(count as i64), &parts, &again, &(m as i64), &numbers];
            gpu.launch_blocks(self.kernels.column, m, &arguments)?;
            self.subtract(self.numbers.piece(0, 1).view(), projections, &self.places, w)?;
        }
        gpu.launch_blocks(self.kernels.length, 1, &[&(count as i64), &gpu.parts(count), &numbers])
    }

    fn look(&mut self, column: &mut [f64]) -> Result<f64> {
        self.gpu.failed()?;
        let found = &mut self.staged[..1 + column.len()];
        self.gpu.read(self.numbers.piece(LENGTH, found.len()), found)?;
        column.copy_from_slice(&found[1..]);
        Ok(found[0])
    }

    fn add(&mut self, y: &[f64], x: &mut Slice<T>) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let factors = &mut self.staged[..1 + y.len()];
        factors[0] = (y.len() - 1) as f64;
        for (factor, y) in factors[1..].iter_mut().zip(y) {
            *factor = -y;
        }
        self.gpu.write(factors, self.factors.piece_mut(0, 1 + y.len()))?;
        let places = if self.kept.is_empty() { &self.places } else { &self.kept_places };
        self.subtract(self.factors.piece(0, 1).view(), self.factors.piece(1, y.len()).view(), places, x)
    }

    fn iterate(&mut self, fixed: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !fixed {
            return work(self);
        }
        repeat(self, &self.gpu.clone(), |basis| &mut basis.replay, work)
    }

    fn forget(&mut self) {
        self.replay = Replay::default();
    }

    fn bytes(&self) -> usize {
        let vectors = self.vectors.len() + self.kept.len() + 2;
        let numbers = self.numbers.len() + self.factors.len() + self.parts.len() + self.staged.len();
        let places = self.places.len() + self.kept_places.len();
        vectors * self.last.len() * T::PRECISION.bytes() + numbers * size_of::<f64>() + places * size_of::<u64>()
    }
}
