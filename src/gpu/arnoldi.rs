//! The Arnoldi basis of GMRES on a GPU, by the kernels of `kernels/arnoldi.cu`. Scalars and the size of the basis stay
//! in device memory, so that one captured graph serves every iteration.

use super::graphs::{Replay, run_captured};
use super::runtime::{Argument, Kernel, View};
use super::vector::part_count;
use super::{Buffer, Gpu, Slice};
use crate::backend::{ArnoldiBasis, Backend};
use crate::error::{Result, try_vec};
use crate::scalar::Scalar;

/// Indices of the norm of the next vector and of the column, as in `kernels/arnoldi.cu`.
const NORM: usize = 1;
const COLUMN: usize = 2;

/// Kernels for vectors of type `T`.
struct Kernels {
    append: Kernel,
    store: Kernel,
    dots: Kernel,
    subtract: Kernel,
    column: Kernel,
    norm: Kernel,
}

/// The basis vectors, and the scalars of the next one.
pub struct DeviceArnoldiBasis<T> {
    gpu: Gpu,
    kernels: Kernels,
    vectors: Vec<Buffer<T>>,
    /// M v for each basis vector v in flexible methods.
    stored: Vec<Buffer<T>>,
    /// Copies of the newest basis vector v and of M v. The preconditioner always works on these two, so that its graph
    /// can be replayed.
    newest: Buffer<T>,
    preconditioned: Buffer<T>,
    /// Addresses of the basis vectors, and of the stored M v.
    addresses: Buffer<u64>,
    stored_addresses: Buffer<u64>,
    scalars: Buffer<f64>,
    /// Index of the last vector of a combination, and its coefficients.
    factors: Buffer<f64>,
    /// Partial sums of the inner products with all basis vectors.
    parts: Buffer<f64>,
    /// Staging for transfers from and to the device.
    staged: Vec<f64>,
    /// Over ranks, what is on the host, where inner products are.
    known: Known,
    replay: Replay,
}

/// Size of the basis, the norm of the next vector, and its projections.
#[derive(Default)]
struct Known {
    count: usize,
    norm: f64,
    column: Vec<f64>,
    projections: Vec<f64>,
}

impl<T: Scalar> DeviceArnoldiBasis<T> {
    pub(super) fn new(gpu: &Gpu, n: usize, m: usize, flexible: bool) -> Result<DeviceArnoldiBasis<T>> {
        let of = |name: &str| gpu.kernel(&format!("arnoldi_{name}_{}", T::PRECISION.name()));
        let kernels = Kernels {
            append: of("append")?,
            store: of("store")?,
            dots: of("dots")?,
            subtract: of("subtract")?,
            column: gpu.kernel("arnoldi_column")?,
            norm: gpu.kernel("arnoldi_norm")?,
        };
        let vectors = |count: usize| (0..count).map(|_| gpu.zeroed(n)).collect::<Result<Vec<Buffer<T>>>>();
        let addresses = |vectors: &[Buffer<T>]| gpu.upload(&vectors.iter().map(|v| v.address()).collect::<Vec<_>>());
        let (vectors, stored) = (vectors(m)?, vectors(if flexible { m } else { 0 })?);
        Ok(DeviceArnoldiBasis {
            gpu: gpu.clone(),
            kernels,
            newest: gpu.zeroed(n)?,
            preconditioned: gpu.zeroed(n)?,
            addresses: addresses(&vectors)?,
            stored_addresses: addresses(&stored)?,
            vectors,
            stored,
            scalars: gpu.zeroed(COLUMN + 2 * m)?,
            factors: gpu.zeroed(1 + m)?,
            parts: gpu.zeroed(m * part_count(n))?,
            staged: try_vec(1 + m, 0.0)?,
            known: Known { column: try_vec(m, 0.0)?, projections: try_vec(m, 0.0)?, ..Known::default() },
            replay: Replay::default(),
        })
    }

    /// w -= Σ h_i v_i for the vectors up to the index that `newest` holds, and the partial sums of w·w.
    fn subtract(&self, newest: View, h: View, addresses: &Buffer<u64>, w: &mut Slice<T>) -> Result<()> {
        let (gpu, n) = (&self.gpu, w.len());
        assert_eq!(n, self.newest.len());
        let count = part_count(n);
        let arguments: [&dyn Argument; 6] = [&(n as i64), &newest, &h, &addresses.view(), &w.view(), &gpu.parts(count)];
        gpu.launch_blocks(self.kernels.subtract, count, &arguments)
    }
}

/// x += Σ y_i v_i.
fn add_each<T: Scalar>(gpu: &Gpu, y: &[f64], vectors: &[Buffer<T>], x: &mut Slice<T>) {
    for (y, v) in y.iter().zip(vectors) {
        gpu.axpby(T::from_f64(*y), v, T::ONE, x);
    }
}

impl<T: Scalar> ArnoldiBasis<Gpu, T> for DeviceArnoldiBasis<T> {
    fn begin(&mut self, norm: f64) -> Result<()> {
        (self.known.count, self.known.norm) = (0, norm);
        self.gpu.write(&[0.0, norm], self.scalars.subslice_mut(0, COLUMN))
    }

    fn append(&mut self, w: &Slice<T>) -> Result<()> {
        let n = w.len();
        assert_eq!(n, self.newest.len());
        if self.gpu.is_distributed() {
            let newest = &mut self.vectors[self.known.count];
            self.gpu.axpby(T::from_f64(1.0 / self.known.norm), w, T::ZERO, newest);
            self.gpu.copy(&**newest, &mut self.newest);
            self.known.count += 1;
            return Ok(());
        }
        let arguments: [&dyn Argument; 5] =
            [&(n as i64), &self.scalars.view(), &self.addresses.view(), &w.view(), &self.newest.view()];
        self.gpu.elementwise(self.kernels.append, n, &arguments)
    }

    fn newest(&mut self) -> (&Slice<T>, &mut Slice<T>) {
        (&self.newest, &mut self.preconditioned)
    }

    fn store_preconditioned(&mut self) -> Result<()> {
        if self.stored.is_empty() {
            return Ok(());
        }
        if self.gpu.is_distributed() {
            self.gpu.copy(&self.preconditioned, &mut self.stored[self.known.count - 1]);
            return Ok(());
        }
        let (n, z) = (self.preconditioned.len(), self.preconditioned.view());
        let arguments: [&dyn Argument; 4] = [&(n as i64), &self.scalars.view(), &self.stored_addresses.view(), &z];
        self.gpu.elementwise(self.kernels.store, n, &arguments)
    }

    fn orthogonalise(&mut self, w: &mut Slice<T>) -> Result<()> {
        let (gpu, n, m, count) = (&self.gpu, w.len(), self.vectors.len(), part_count(w.len()));
        assert_eq!(n, self.newest.len());
        if gpu.is_distributed() {
            let Known { count, norm, column, projections } = &mut self.known;
            let vectors = &self.vectors[..*count];
            column[..*count].fill(0.0);
            for _ in 0..2 {
                let projections = &mut projections[..*count];
                for ((projection, h), v) in projections.iter_mut().zip(&mut *column).zip(vectors) {
                    let product = gpu.dot(&**v, w);
                    *h += product;
                    *projection = -product;
                }
                add_each(gpu, projections, vectors, w);
            }
            *norm = gpu.norm(w);
            return Ok(());
        }
        let (scalars, addresses, parts) = (self.scalars.view(), self.addresses.view(), self.parts.view());
        let projections = self.scalars.subslice(COLUMN + m, m).view();
        for second_pass in [0, 1] {
            gpu.launch_blocks(self.kernels.dots, count, &[&(n as i64), &scalars, &addresses, &w.view(), &parts])?;
            let arguments: [&dyn Argument; 5] = [&(count as i64), &parts, &second_pass, &(m as i64), &scalars];
            gpu.launch_blocks(self.kernels.column, m, &arguments)?;
            self.subtract(self.scalars.subslice(0, 1).view(), projections, &self.addresses, w)?;
        }
        gpu.launch_blocks(self.kernels.norm, 1, &[&(count as i64), &gpu.parts(count), &scalars])
    }

    fn read_column(&mut self, column: &mut [f64]) -> Result<f64> {
        if self.gpu.is_distributed() {
            self.gpu.status()?;
            column.copy_from_slice(&self.known.column[..self.known.count]);
            return Ok(self.known.norm);
        }
        self.gpu.failed()?;
        let values = &mut self.staged[..1 + column.len()];
        self.gpu.read(self.scalars.subslice(NORM, values.len()), values)?;
        column.copy_from_slice(&values[1..]);
        Ok(values[0])
    }

    fn add_combination(&mut self, y: &[f64], x: &mut Slice<T>) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        if self.gpu.is_distributed() {
            add_each(&self.gpu, y, if self.stored.is_empty() { &self.vectors } else { &self.stored }, x);
            return Ok(());
        }
        let factors = &mut self.staged[..1 + y.len()];
        factors[0] = (y.len() - 1) as f64;
        for (factor, y) in factors[1..].iter_mut().zip(y) {
            *factor = -y;
        }
        self.gpu.write(factors, self.factors.subslice_mut(0, 1 + y.len()))?;
        let addresses = if self.stored.is_empty() { &self.addresses } else { &self.stored_addresses };
        self.subtract(self.factors.subslice(0, 1).view(), self.factors.subslice(1, y.len()).view(), addresses, x)
    }

    fn iterate(&mut self, capturable: bool, work: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !capturable || self.gpu.is_distributed() {
            return work(self);
        }
        run_captured(self, &self.gpu.clone(), |basis| &mut basis.replay, work)
    }

    fn discard_graph(&mut self) {
        self.replay = Replay::default();
    }

    fn bytes(&self) -> usize {
        let vectors = self.vectors.len() + self.stored.len() + 2;
        let scalars = self.scalars.len() + self.factors.len() + self.parts.len() + self.staged.len();
        let addresses = self.addresses.len() + self.stored_addresses.len();
        vectors * self.newest.len() * T::PRECISION.bytes() + scalars * size_of::<f64>() + addresses * size_of::<u64>()
    }
}
