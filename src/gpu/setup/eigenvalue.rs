//! The largest eigenvalue of D^-1 A: the steps of [`crate::host::eigenvalue`] on the device, without waiting for it
//! between them. Inner products are added in another order than on the host; the estimate is rounded on both sides, so
//! that it is the same.

use super::DeviceCsr;
use crate::backend::parameters::Estimate;
use crate::backend::spectrum::{AGREEING, Largest};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, Kernel, View};
use crate::gpu::{Buffer, DeviceStencil, Gpu, Slice};
use crate::scalar::Scalar;
use crate::sparse::Block;

/// Most blocks of a kernel: each leaves a part of an inner product, which every block of the next kernel adds.
const MAX_BLOCKS: usize = 1024;

/// Estimates the largest eigenvalue of D^-1 A; `inverse` is D^-1. As [`Estimate::largest`]. Waits for the device once,
/// and before that where an earlier estimate may be carried over, or where few steps may suffice.
pub(crate) fn largest<'a, T: Scalar>(
    gpu: &Gpu,
    estimate: &Estimate,
    a: impl Into<Factor<'a, T>>,
    inverse: &Slice<T>,
    earlier: Option<&Largest>,
) -> Result<Largest> {
    let a = a.into();
    let n = a.scalar_rows();
    if n == 0 {
        return Ok(if estimate.lanczos {
            Largest::from_lanczos::<T>(&[], &[], 0.0)
        } else {
            Largest::from_power::<T>(0.0, 0.0)
        });
    }
    let steps = if estimate.lanczos { estimate.steps.min(n) } else { estimate.steps };
    let mut search = Search::new(gpu, a, inverse, steps)?;
    search.start()?;
    if !estimate.lanczos {
        for step in 0..steps {
            search.product(step, true)?;
            search.pair()?;
        }
        search.last(steps, true)?;
        let found = search.found(true)?;
        let norm = if found.ended { 0.0 } else { found.betas[steps] };
        return Ok(Largest::from_power::<T>(norm, found.bound));
    }
    for step in 0..steps {
        search.product(step, false)?;
        if let Some(earlier) = earlier.filter(|_| step + 1 == AGREEING && step + 1 < steps) {
            search.last(step, false)?;
            let found = search.found(false)?;
            if let Some(same) = earlier.carried_over::<T>(&found.alphas, &found.betas, found.bound) {
                return Ok(same);
            }
        }
        if Largest::may_settle(step, steps, n) {
            search.last(step, false)?;
            let found = search.found(false)?;
            if let Some(largest) = Largest::settled::<T>(&found.alphas, &found.betas, found.bound) {
                return Ok(largest);
            }
        }
        if step + 1 < steps {
            search.update(step)?;
        }
    }
    if steps > 0 {
        search.last(steps - 1, false)?;
    }
    let found = search.found(false)?;
    let carried = earlier.and_then(|earlier| earlier.carried_over::<T>(&found.alphas, &found.betas, found.bound));
    Ok(carried.unwrap_or_else(|| Largest::from_lanczos::<T>(&found.alphas, &found.betas, found.bound)))
}

/// The matrix A.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a, T> {
    /// In rows.
    Rows(&'a DeviceCsr<T>),
    /// On a structured grid, of scalars.
    Stencil(&'a DeviceStencil<T>),
}

impl<'a, T> From<&'a DeviceCsr<T>> for Factor<'a, T> {
    fn from(a: &'a DeviceCsr<T>) -> Self {
        Factor::Rows(a)
    }
}

impl<T: Scalar> Factor<'_, T> {
    fn scalar_rows(&self) -> usize {
        match self {
            Factor::Rows(a) => a.scalar_rows(),
            Factor::Stencil(a) => a.pattern.scalar_rows(),
        }
    }

    /// Threads of a row of a matrix in rows; cells of a thread on a grid.
    fn lanes(&self) -> usize {
        match self {
            Factor::Rows(a) => match (a.block == Block::SCALAR, a.nnz() / a.rows) {
                (true, 0..12) => 1,
                (true, _) => 8,
                (false, 0..48) => 4,
                (false, _) => 32,
            },
            Factor::Stencil(a) => a.pack(),
        }
    }

    /// Threads of a product.
    fn threads(&self) -> usize {
        match self {
            Factor::Rows(a) => a.scalar_rows() * self.lanes(),
            Factor::Stencil(a) => a.pattern.grid.lines() * (a.pitch / self.lanes()),
        }
    }
}

/// The result of the device.
struct Found {
    bound: f64,
    ended: bool,
    alphas: Vec<f64>,
    /// Without the first of Lanczos steps; all of power steps.
    betas: Vec<f64>,
}

/// The vectors and scalars of a search.
struct Search<'a, T> {
    gpu: &'a Gpu,
    a: Factor<'a, T>,
    inverse: &'a Slice<T>,
    width: usize,
    /// Capacity in steps.
    steps: usize,
    /// u and the one before it.
    u: [Buffer<T>; 2],
    z: Buffer<T>,
    q: Buffer<T>,
    /// Parts of u z.
    norms: Buffer<f64>,
    /// Parts of z q.
    products: Buffer<f64>,
    /// The bound, as ordered bits; then the state that `kernels/eigenvalue.cu` describes.
    state: Buffer<f64>,
    lanes: usize,
}

impl<'a, T: Scalar> Search<'a, T> {
    fn new(gpu: &'a Gpu, a: Factor<'a, T>, inverse: &'a Slice<T>, steps: usize) -> Result<Search<'a, T>> {
        let (n, lanes) = (a.scalar_rows(), a.lanes());
        let blocks = |threads: usize| threads.div_ceil(BLOCK).min(MAX_BLOCKS);
        Ok(Search {
            gpu,
            a,
            inverse,
            width: inverse.len() / n,
            steps: steps + 1,
            u: [gpu.allocate(n)?, gpu.allocate(n)?],
            z: gpu.allocate(n)?,
            q: gpu.allocate(n)?,
            norms: gpu.allocate(blocks(n))?,
            products: gpu.allocate(blocks(a.threads()))?,
            state: gpu.zeroed(4 + 2 * (steps + 1))?,
            lanes,
        })
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.gpu.kernel(&format!("{name}_{}", T::PRECISION.name()))
    }

    fn recurrence(&self) -> View<'_> {
        self.state.subslice(1, self.state.len() - 1).view()
    }

    /// The kernels of products, and whether the first one gives the largest row sum as well.
    fn products(a: &DeviceCsr<T>) -> (&'static str, bool) {
        match a.block.rows {
            1 => ("eigen_product", true),
            3 => ("eigen_product_3x3", true),
            6 => ("eigen_product_6x6", true),
            _ => ("eigen_product_blocks", false),
        }
    }

    /// The largest row sum of D^-1 A, where it does not come with the first product.
    fn bound(&self) -> Result<()> {
        let (Factor::Rows(a), width) = (self.a, self.width as i32) else { return Ok(()) };
        if Self::products(a).1 {
            return Ok(());
        }
        let kernel = self.gpu.kernel(&format!("eigen_bound_{}_{}", T::PRECISION.name(), self.lanes))?;
        let (rows, n) = (a.rows as i64, a.block.rows as i32);
        let (offsets, values) = (a.offsets.view(), a.values.view());
        let bound = self.state.subslice(0, 1).view().bits();
        let arguments: [&dyn Argument; 7] = [&rows, &n, &width, &offsets, &values, &self.inverse.view(), &bound];
        self.gpu.launch_blocks(kernel, (a.rows * self.lanes).div_ceil(BLOCK).min(MAX_BLOCKS), &arguments)
    }

    /// The first u and z.
    fn start(&self) -> Result<()> {
        self.bound()?;
        let (n, width) = (self.z.len() as i64, self.width as i32);
        let arguments: [&dyn Argument; 6] =
            [&n, &width, &self.inverse.view(), &self.u[0].view(), &self.z.view(), &self.norms.view()];
        self.gpu.launch_blocks(self.kernel("eigen_start")?, self.norms.len(), &arguments)?;
        if self.width == 1 { Ok(()) } else { self.pair() }
    }

    /// z = D^-1 u, and u z.
    fn pair(&self) -> Result<()> {
        let (n, width) = (self.z.len() as i64, self.width as i32);
        let arguments: [&dyn Argument; 6] =
            [&n, &width, &self.inverse.view(), &self.u[0].view(), &self.z.view(), &self.norms.view()];
        self.gpu.launch_blocks(self.kernel("eigen_pair")?, self.norms.len(), &arguments)
    }

    /// The product of A with z over its norm, and its product with z. It is the next u of power steps.
    fn product(&self, step: usize, power: bool) -> Result<()> {
        let a = match self.a {
            Factor::Rows(a) => a,
            Factor::Stencil(a) => return self.stencil_product(a, step, power),
        };
        let kernel = self.gpu.kernel(&format!("{}_{}_{}", Self::products(a).0, T::PRECISION.name(), self.lanes))?;
        let (rows, n, width) = (a.rows as i64, a.block.rows as i32, self.width as i32);
        let (step, steps) = (step as i64, self.steps as i64);
        let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
        let to = if power { self.u[0].view() } else { self.q.view() };
        let arguments: [&dyn Argument; 16] = [
            &rows,
            &n,
            &width,
            &step,
            &steps,
            &i32::from(power),
            &offsets,
            &columns,
            &values,
            &self.inverse.view(),
            &self.z.view(),
            &self.norms.view(),
            &self.recurrence(),
            &to,
            &self.products.view(),
            &self.state.subslice(0, 1).view().bits(),
        ];
        self.gpu.launch_blocks(kernel, self.products.len(), &arguments)
    }

    fn stencil_product(&self, a: &DeviceStencil<T>, step: usize, power: bool) -> Result<()> {
        let kernel = self.gpu.kernel(&format!("stencil_eigen_product_{}_{}", T::PRECISION.name(), self.lanes))?;
        let shape = a.shape().with(&[self.z.view()], self.lanes, (T::PRECISION, T::PRECISION));
        let to = if power { self.u[0].view() } else { self.q.view() };
        let arguments: [&dyn Argument; 12] = [
            &shape,
            &(step as i64),
            &(self.steps as i64),
            &i32::from(power),
            &a.values.view(),
            &self.inverse.view(),
            &self.z.view(),
            &self.norms.view(),
            &self.recurrence(),
            &to,
            &self.products.view(),
            &self.state.subslice(0, 1).view().bits(),
        ];
        self.gpu.launch_blocks(kernel, self.products.len(), &arguments)
    }

    /// The next u and z.
    fn update(&mut self, step: usize) -> Result<()> {
        let (n, width) = (self.z.len() as i64, self.width as i32);
        self.u.swap(0, 1);
        let arguments: [&dyn Argument; 12] = [
            &n,
            &width,
            &(step as i64),
            &(self.steps as i64),
            &self.products.view(),
            &self.recurrence(),
            &self.q.view(),
            &self.u[1].view(),
            &self.inverse.view(),
            &self.u[0].view(),
            &self.z.view(),
            &self.norms.view(),
        ];
        self.gpu.launch_blocks(self.kernel("eigen_update")?, self.norms.len(), &arguments)?;
        if self.width == 1 { Ok(()) } else { self.pair() }
    }

    /// Completes the last step.
    fn last(&self, step: usize, power: bool) -> Result<()> {
        let before = if power { self.norms.view() } else { self.products.view() };
        let arguments: [&dyn Argument; 5] =
            [&(step as i64), &(self.steps as i64), &i32::from(power), &before, &self.recurrence()];
        self.gpu.launch_blocks(self.gpu.kernel("eigen_last")?, 1, &arguments)
    }

    fn found(&self, power: bool) -> Result<Found> {
        let state = self.gpu.fetch(&self.state)?;
        let (done, ended) = (state[1] as usize, state[2] != 0.0);
        let (alphas, betas) = state[4..].split_at(self.steps);
        let betas = if power { betas } else { &betas[done.min(1)..done] };
        Ok(Found { bound: state[0], ended, alphas: alphas[..done].to_vec(), betas: betas.to_vec() })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::setup::diagonal;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::{devices, host};
    use crate::host::diagonal as on_host;
    use crate::sparse::{Csr, Grid, SharedStencil};

    const METHODS: [Estimate; 3] = [
        Estimate { lanczos: true, steps: 12 },
        Estimate { lanczos: true, steps: 1 },
        Estimate { lanczos: false, steps: 7 },
    ];

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>, width: usize) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap();
        let inverse = diagonal::inverse(gpu, &on_device, width, false, None).unwrap();
        let on_host = gpu.fetch(&inverse).unwrap();
        for estimate in METHODS {
            let expected = estimate.largest(&host(), &a.view(), &on_host, None).unwrap();
            let found = largest(gpu, &estimate, &on_device, &inverse, None).unwrap();
            assert_eq!(found.value, expected.value, "{name} {width} {estimate:?}");
            // Each side takes over what the other one found.
            let again = largest(gpu, &estimate, &on_device, &inverse, Some(&expected)).unwrap();
            let expected_again = estimate.largest(&host(), &a.view(), &on_host, Some(&found)).unwrap();
            assert_eq!((again.value, again.value), (expected_again.value, expected.value), "{name} {width}");
        }
    }

    #[test]
    fn estimates_of_stencils_are_those_of_the_host() {
        for gpu in devices() {
            for (name, dims) in [("poisson7:12x9x8", [12, 9, 8]), ("poisson27:7", [7; 3]), ("jumps:8", [8; 3])] {
                let a = gallery::parse(name).unwrap().matrix;
                let stencil = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
                let inverse = on_host::inverse::<f64, f64>(&a.view(), 1, on_host::AS_IT_IS).unwrap();
                for estimate in METHODS {
                    let expected = estimate.largest(&host(), &stencil, &inverse, None).unwrap();
                    let on_device = DeviceStencil::upload(&gpu, &stencil).unwrap();
                    let inverse = gpu.upload(&inverse).unwrap();
                    let found = largest(&gpu, &estimate, Factor::Stencil(&on_device), &inverse, None).unwrap();
                    assert_eq!(found.value, expected.value, "{name}");
                    let again = largest(&gpu, &estimate, Factor::Stencil(&on_device), &inverse, Some(&found)).unwrap();
                    assert_eq!(again.value, found.value, "{name}");
                }
            }
        }
    }

    #[test]
    fn estimates_are_those_of_the_host() {
        let elasticity = gallery::elasticity_hex8(4, gallery::Layers::NONE, true).unwrap().matrix;
        let diagonal = Csr::from_triplets(3, 3, &[(0, 0, 1.0), (1, 1, -2.0), (2, 2, 5.0)]).unwrap();
        let nothing = Csr::from_triplets(2, 2, &[(0, 0, 0.0), (1, 1, 0.0)]).unwrap();
        let negative = {
            let mut a = gallery::poisson5(9, 9).unwrap();
            a.values.iter_mut().for_each(|v| *v = -*v);
            a
        };
        for gpu in devices() {
            for (name, a) in problems() {
                compare(&gpu, &name, &a, 1);
                compare(&gpu, &name, &a.view().to_owned_as::<f32>().unwrap(), 1);
            }
            for width in [1, 3] {
                compare(&gpu, "elasticity", &elasticity, width);
            }
            // Kernels that know the blocks, and those for any; few and many of them in a row.
            for (n, points) in [(2, 12), (6, 12), (6, 330)] {
                let wide = |i: usize| (0..points / 2).flat_map(move |k| [(i, i + k), (i + k, i)]);
                let pairs = (0..points * 2).flat_map(wide).filter(|(i, j)| i.max(j) < &(points * 2) && i != j);
                let couplings = pairs.map(|(i, j)| (i, j, -1.0 / (1 + i.abs_diff(j)) as f64));
                let diagonal = (0..points * 2).map(|i| (i, i, 3.0 + (i % 3) as f64));
                let a = Csr::from_triplets(points * 2, points * 2, &couplings.chain(diagonal).collect::<Vec<_>>());
                let a = a.unwrap().view().to_blocks(n).unwrap();
                for width in [1, n] {
                    compare(&gpu, "blocks", &a, width);
                }
            }
            for a in [&diagonal, &nothing, &negative, &Csr::from_triplets(0, 0, &[]).unwrap()] {
                compare(&gpu, "small", a, 1);
            }
        }
    }

    #[test]
    fn few_steps_suffice_for_many_rows_as_on_the_host() {
        let settles = gallery::poisson5(256, 256).unwrap();
        // One pair of rows is coupled, whose row sums are far above what few steps see.
        let diagonal = (0..1 << 16).map(|i| (i, i, 1.0 + (i % 7) as f64));
        let coupled = diagonal.chain([(0, 5, 1.0), (5, 0, 1.0)]).collect::<Vec<_>>();
        let goes_on = Csr::from_triplets(1 << 16, 1 << 16, &coupled).unwrap();
        for gpu in devices().into_iter().take(1) {
            for (a, within) in [(&settles, 1.96..=2.0), (&goes_on, 0.99..=1.5)] {
                let on_device = DeviceCsr::upload(&gpu, &a.view()).unwrap();
                let inverse = diagonal::inverse(&gpu, &on_device, 1, false, None).unwrap();
                let expected = METHODS[0].largest(&host(), &a.view(), &gpu.fetch(&inverse).unwrap(), None).unwrap();
                let found = largest(&gpu, &METHODS[0], &on_device, &inverse, None).unwrap();
                assert_eq!(found.value, expected.value);
                assert!(within.contains(&found.value), "{}", found.value);
            }
        }
    }

    #[test]
    fn an_estimate_is_not_carried_over_to_another_matrix() {
        let (a, b) = (gallery::poisson5(20, 20).unwrap(), gallery::parse("rotated_anisotropic:20").unwrap());
        let b = b.into_matrix().unwrap().shared::<f64>().unwrap();
        let estimate = METHODS[0];
        for gpu in devices() {
            let [a, b] = [a.view(), b.view()].map(|a| DeviceCsr::upload(&gpu, &a).unwrap());
            let of = |a: &DeviceCsr<f64>, earlier: Option<&Largest>| {
                let inverse = diagonal::inverse(&gpu, a, 1, false, None).unwrap();
                largest(&gpu, &estimate, a, &inverse, earlier).unwrap()
            };
            let first = of(&a, None);
            assert_eq!(of(&b, Some(&first)).value, of(&b, None).value);
        }
    }
}
