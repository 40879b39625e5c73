//! Multigrid on structured grids, computed on the device: axes, interpolation, Galerkin products and scaling ([`crate::host::stencil`]). The work is in
//! `kernels/stencil_setup.cu` and `kernels/stencil_galerkin.cu`.

use super::deferred_checks::DeferredChecks;
use super::grid::GpuMatrix;
use super::scaling::By;
use crate::backend::Backend;
use crate::backend::common::{GridWeights, strong_axes};
use crate::backend::components::{Coarsening, CoarseningInput, Interpolated, Interpolation, InterpolationInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, fail};
use crate::gpu::grid_transfer::{DeviceTransfer, TransferShape};
use crate::gpu::runtime::{Argument, BLOCK, Kernel, View, tag};
use crate::gpu::stencil::{DeviceStencil, StencilNumbers, StencilOffsets};
use crate::gpu::{Buffer, Gpu};
use crate::precision::{MATRIX, check_lost, check_lost_in_f32, is_narrower};
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{Coarsened, TransferPattern};
use std::any::Any;
use std::sync::Arc;

/// Blocks of a grid-stride loop: as many as run at the same time.
const MAX_BLOCKS: usize = 1024;

fn kernel<T: Scalar>(gpu: &Gpu, name: &str) -> Result<Kernel> {
    gpu.kernel(&format!("{name}_{}", T::PRECISION.name()))
}

/// The mean coupling along each axis, as on the host, in sums of another order. Waits for the device, unless they are known.
pub(super) fn couplings<T: Scalar>(gpu: &Gpu, a: &DeviceStencil<T>) -> Result<[f64; 3]> {
    if let Some(known) = a.take_couplings() {
        return Ok(known);
    }
    let (cells, rows) = (a.pattern.grid.cells(), a.pattern.scalar_rows());
    let blocks = rows.div_ceil(BLOCK).min(MAX_BLOCKS);
    let parts = gpu.allocate::<f64>(3 * blocks)?;
    let arguments: [&dyn Argument; 5] =
        [&(cells as i64), &a.shape(), &StencilNumbers::new(&a.pattern), &a.values.view(), &parts.view()];
    gpu.launch_blocks(kernel::<T>(gpu, "stencil_couplings")?, blocks, &arguments)?;
    let parts = gpu.fetch(&parts)?;
    Ok(std::array::from_fn(|axis| parts[axis..].iter().step_by(3).sum::<f64>() / rows.max(1) as f64))
}

/// The component.
pub(crate) struct GridCoarsening;

impl<T: Scalar> Coarsening<Gpu, T> for GridCoarsening {
    fn coarsen(&self, input: &CoarseningInput<'_, Gpu, T>) -> Result<Coarse<Gpu>> {
        let GpuMatrix::Stencil(a) = input.a else {
            return fail!(Internal, "a matrix in rows came to the coarsening of grids");
        };
        let name = input.parameters.text("amg.coarsening.axes");
        let threshold = input.parameters.real("amg.coarsening.axis_threshold");
        let lines = input.line_axis();
        let axes = strong_axes(&a.pattern.grid, &name, (threshold, lines.as_deref()), || couplings(input.setup, a))?;
        Ok(Coarse::Grid(Coarsened::new(a.pattern.grid, axes)))
    }
}

/// How many axes a set has.
fn axes_of(class: &[bool; 3]) -> usize {
    class.iter().filter(|axis| **axis).count()
}

/// The prolongator from a coarser grid for a matrix.
pub(super) fn prolongator<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceStencil<T>,
    grids: Coarsened,
    kind: GridWeights,
) -> Result<DeviceTransfer<T>> {
    let low = if kind == GridWeights::Constant { 0 } else { -1 };
    let pattern = TransferPattern::new(grids, a.pattern.block, low);
    let (shape, weights) = (TransferShape::new(&pattern), gpu.zeroed::<T>(pattern.entries())?);
    if kind != GridWeights::BlackBox {
        let linear = i32::from(kind == GridWeights::Linear);
        gpu.launch(kernel::<T>(gpu, "grid_weights")?, pattern.entries(), &[&shape, &linear, &weights.view()])?;
        return Ok(DeviceTransfer { pattern: Arc::new(pattern), transposed: false, values: Arc::new(weights) });
    }
    // The coarse cells themselves with those between two, then those between four, then those between eight.
    let (of_a, numbers, black_box) = (a.shape(), StencilNumbers::new(&a.pattern), kernel::<T>(gpu, "black_box")?);
    let symmetric = i32::from(a.take_is_symmetric());
    let mut classes = grids.classes();
    classes.insert(0, [false; 3]);
    for steps in classes.chunk_by(|one, other| axes_of(one).max(1) == axes_of(other).max(1)) {
        let along = |class: &[bool; 3], axis: usize| match (grids.axes[axis], class[axis]) {
            (true, true) => grids.fine.dims[axis] / 2,
            (true, false) => grids.fine.dims[axis].div_ceil(2),
            _ => grids.fine.dims[axis],
        };
        let cells = |class: &[bool; 3]| (0..3).map(|axis| along(class, axis)).product::<usize>();
        let most = steps.iter().map(cells).max().unwrap_or(0) * a.pattern.block;
        let bits = |class: &[bool; 3]| (0..3).filter(|axis| class[*axis]).map(|axis| 1 << axis).sum::<i32>();
        let odd: i32 = steps.iter().enumerate().map(|(k, class)| bits(class) << (3 * k)).sum();
        let (count, rounding) = (steps.len() as i32, GridWeights::rounding::<T>());
        let arguments: [&dyn Argument; 9] =
            [&shape, &count, &odd, &rounding, &symmetric, &of_a, &numbers, &a.values.view(), &weights.view()];
        gpu.launch_blocks(black_box, steps.len() * most.div_ceil(BLOCK), &arguments)?;
    }
    Ok(DeviceTransfer { pattern: Arc::new(pattern), transposed: false, values: Arc::new(weights) })
}

/// The component.
pub(crate) struct GridInterpolation {
    /// Its formula.
    pub kind: GridWeights,
    /// As the options spell it.
    pub name: &'static str,
}

impl<T: Scalar> Interpolation<Gpu, T> for GridInterpolation {
    fn interpolate(&self, input: &InterpolationInput<'_, Gpu, T>) -> Result<Interpolated<Gpu, T>> {
        let (GpuMatrix::Stencil(a), Coarse::Grid(grids)) = (input.a, input.coarse) else {
            let name = self.name;
            return fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" needs a structured grid; use amg.coarsening.type \"grid\" with it"
            );
        };
        Ok(Interpolated::alone(GpuMatrix::Transfer(prolongator(input.setup, a, *grids, self.kind)?)))
    }
}

/// The kernel of Galerkin products by planes of cells. None for constant transfers, for rings of an odd number of cells that are coarsened, and for rings
/// in which both directions lead to the same coarse cell; none for semicoarsening in f32, either.
fn box_kernel<T: Scalar>(pattern: &TransferPattern) -> Option<&'static str> {
    let grids = &pattern.grids;
    let is_regular = |axis: usize| {
        let even = !grids.axes[axis] || grids.fine.dims[axis].is_multiple_of(2);
        !grids.fine.periodic[axis] || even && grids.coarse.dims[axis] > 2
    };
    let name = match grids.axes {
        [true, true, _] => "stencil_galerkin_xy",
        [true, false, _] => "stencil_galerkin_x",
        [false, true, _] => "stencil_galerkin_y",
        [false, false, _] => "stencil_galerkin_same",
    };
    let exists = T::PRECISION == Precision::F64 || grids.axes[0] && grids.axes[1];
    (exists && pattern.low < 0 && (0..3).all(is_regular)).then_some(name)
}

/// R A P, with ones for zeros on the diagonal. R has the pattern of Pᵀ.
pub(super) fn product<T: Scalar>(
    gpu: &Gpu,
    r: &DeviceTransfer<T>,
    a: &DeviceStencil<T>,
    p: &DeviceTransfer<T>,
) -> Result<DeviceStencil<T>> {
    let pattern = p.pattern.coarse_stencil(&a.pattern)?;
    let coarse = DeviceStencil::zeroed(gpu, Arc::new(pattern))?;
    let (of_a, of_coarse) = (StencilNumbers::new(&a.pattern), StencilNumbers::new(&coarse.pattern));
    if let Some(name) = box_kernel::<T>(&p.pattern) {
        let arguments: [&dyn Argument; 9] = [
            &p.shape(),
            &a.shape().in_pairs(a.values.view()),
            &coarse.shape(),
            &of_a,
            &of_coarse,
            &r.values.view(),
            &a.values.view(),
            &p.values.view(),
            &coarse.values.view(),
        ];
        let entries = coarse.pattern.block * coarse.pattern.block;
        gpu.launch(kernel::<T>(gpu, name)?, entries * coarse.pattern.grid.cells(), &arguments)?;
        return Ok(coarse);
    }
    let arguments: [&dyn Argument; 9] = [
        &p.shape(),
        &a.shape(),
        &coarse.shape(),
        &StencilOffsets::new(&coarse.pattern),
        &of_a,
        &r.values.view(),
        &a.values.view(),
        &p.values.view(),
        &coarse.values.view(),
    ];
    gpu.launch(kernel::<T>(gpu, "stencil_galerkin")?, coarse.pattern.entries(), &arguments)?;
    Ok(coarse)
}

/// A stencil with rows and columns multiplied.
pub(super) fn scaled<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceStencil<T>,
    left: By<'_>,
    right: By<'_>,
) -> Result<DeviceStencil<T>> {
    let values = gpu.zeroed::<T>(a.values.len())?;
    let ((left, over_left), (right, over_right)) = (left.parts(), right.parts());
    let arguments: [&dyn Argument; 9] = [
        &(a.pattern.grid.cells() as i64),
        &a.shape(),
        &StencilOffsets::new(&a.pattern),
        &a.values.view(),
        &left,
        &over_left,
        &right,
        &over_right,
        &values.view(),
    ];
    gpu.launch(kernel::<T>(gpu, "scale_stencil")?, a.pattern.grid.cells(), &arguments)?;
    Ok(DeviceStencil::new(Arc::clone(&a.pattern), a.pitch, Arc::new(values)))
}

/// A transfer with rows and columns multiplied.
pub(super) fn scaled_transfer<T: Scalar>(
    gpu: &Gpu,
    p: &DeviceTransfer<T>,
    left: By<'_>,
    right: By<'_>,
) -> Result<DeviceTransfer<T>> {
    let values = gpu.zeroed::<T>(p.values.len())?;
    let (fine, coarse) = if p.transposed { (right, left) } else { (left, right) };
    let ((fine, over_fine), (coarse, over_coarse)) = (fine.parts(), coarse.parts());
    let arguments: [&dyn Argument; 7] =
        [&p.shape(), &p.values.view(), &fine, &over_fine, &coarse, &over_coarse, &values.view()];
    gpu.launch(kernel::<T>(gpu, "scale_transfer")?, p.values.len(), &arguments)?;
    Ok(DeviceTransfer { values: Arc::new(values), ..p.clone() })
}

/// The values of a stencil or transfer in another format; `checks` fails if values are out of range, with an error by `refuse` that names the level. Rows
/// of a `stencil` that f32 loses are counted. Shares unchanged values.
pub(super) fn stored<T: Scalar, S: Number>(
    gpu: &Gpu,
    (values, entries): (&Arc<Buffer<T>>, usize),
    stencil: Option<&DeviceStencil<T>>,
    checks: &mut DeferredChecks,
    refuse: impl FnOnce(Result<()>) -> Result<()> + Send + 'static,
    (what, may_vanish): (&'static str, bool),
) -> Result<Arc<Buffer<S>>> {
    let same: &dyn Any = values;
    if let Some(same) = same.downcast_ref::<Arc<Buffer<S>>>() {
        return Ok(Arc::clone(same));
    }
    let mut stored = gpu.allocate::<S>(values.len())?;
    if !is_narrower::<T, S>() {
        gpu.copy(values, &mut stored);
        return Ok(Arc::new(stored));
    }
    let lost = counts::<S>(checks, refuse, entries, (what, may_vanish))?;
    let (n, format) = (values.len() as i64, tag::<S>());
    let arguments: [&dyn Argument; 5] = [&n, &values.view(), &format, &stored.view(), &lost];
    gpu.launch(kernel::<T>(gpu, "store_counting")?, values.len().min(MAX_BLOCKS * BLOCK), &arguments)?;
    if let Some(stencil) = stencil.filter(|_| S::PRECISION == Precision::F32 && what == MATRIX) {
        count_lost_rows(gpu, stencil, &stored, lost)?;
    }
    Ok(Arc::new(stored))
}

/// Counters of lost values, for an error by `refuse`. They are the same numbers as i64.
fn counts<'a, S: Number>(
    checks: &'a mut DeferredChecks,
    refuse: impl FnOnce(Result<()>) -> Result<()> + Send + 'static,
    entries: usize,
    (what, may_vanish): (&'static str, bool),
) -> Result<View<'a>> {
    let check = move |lost: &[u64]| match S::PRECISION {
        Precision::F32 => check_lost_in_f32(what, entries, [lost[0], lost[1], lost[2]]),
        _ => check_lost::<S>(what, may_vanish, entries, (lost[0], lost[1])),
    };
    Ok(checks.add(3, move |lost| refuse(check(lost)))?.view().erased(3))
}

/// Counts the rows of which f32 keeps nothing.
fn count_lost_rows<T: Scalar, S: Number>(
    gpu: &Gpu,
    a: &DeviceStencil<T>,
    stored: &Buffer<S>,
    lost: View<'_>,
) -> Result<()> {
    let (rows, shape, listed) = (a.pattern.scalar_rows(), a.shape(), StencilOffsets::new(&a.pattern));
    let arguments: [&dyn Argument; 6] = [&(rows as i64), &shape, &listed, &a.values.view(), &stored.view(), &lost];
    gpu.launch(gpu.kernel("stencil_rows_lost")?, rows.min(MAX_BLOCKS * BLOCK), &arguments)
}

/// A stencil or transfer in a narrower format with rows and columns multiplied, as [`scaled`] and then [`stored`], in one pass.
pub(super) fn stored_scaled<T: Scalar, S: Number>(
    gpu: &Gpu,
    a: &GpuMatrix<T>,
    (left, right): (By<'_>, By<'_>),
    checks: &mut DeferredChecks,
    refuse: impl FnOnce(Result<()>) -> Result<()> + Send + 'static,
    (what, may_vanish): (&'static str, bool),
) -> Result<GpuMatrix<S>> {
    let format = tag::<S>();
    match a {
        GpuMatrix::Stencil(a) => {
            let lost = counts::<S>(checks, refuse, a.pattern.entries(), (what, may_vanish))?;
            let padded = a.pitch != a.pattern.grid.dims[0];
            let values = if padded { gpu.zeroed::<S>(a.values.len())? } else { gpu.allocate::<S>(a.values.len())? };
            let (cells, numbers) = (a.pattern.grid.cells(), StencilNumbers::new(&a.pattern));
            let ((left, over_left), (right, over_right)) = (left.parts(), right.parts());
            let arguments: [&dyn Argument; 11] = [
                &(cells as i64),
                &a.shape(),
                &numbers,
                &left,
                &over_left,
                &right,
                &over_right,
                &a.values.view(),
                &format,
                &values.view(),
                &lost,
            ];
            gpu.launch(kernel::<T>(gpu, "store_scaled_stencil")?, cells.min(MAX_BLOCKS * BLOCK), &arguments)?;
            if S::PRECISION == Precision::F32 && what == MATRIX {
                count_lost_rows(gpu, a, &values, lost)?;
            }
            let (pattern, pitch) = (Arc::clone(&a.pattern), a.pitch);
            Ok(GpuMatrix::Stencil(DeviceStencil::new(pattern, pitch, Arc::new(values))))
        }
        GpuMatrix::Transfer(p) => {
            let lost = counts::<S>(checks, refuse, p.pattern.entries(), (what, may_vanish))?;
            let values = gpu.allocate::<S>(p.values.len())?;
            let (fine, coarse) = if p.transposed { (right, left) } else { (left, right) };
            let ((fine, over_fine), (coarse, over_coarse)) = (fine.parts(), coarse.parts());
            let arguments: [&dyn Argument; 9] = [
                &p.shape(),
                &fine,
                &over_fine,
                &coarse,
                &over_coarse,
                &p.values.view(),
                &format,
                &values.view(),
                &lost,
            ];
            let rows = p.pattern.grids.coarse.cells() * p.pattern.block;
            gpu.launch(kernel::<T>(gpu, "store_scaled_transfer")?, rows.min(MAX_BLOCKS * BLOCK), &arguments)?;
            let (pattern, transposed) = (Arc::clone(&p.pattern), p.transposed);
            Ok(GpuMatrix::Transfer(DeviceTransfer { pattern, transposed, values: Arc::new(values) }))
        }
        GpuMatrix::Rows(_) | GpuMatrix::Divided(_) => fail!(Internal, "a matrix in rows came to the storage of grids"),
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::setup::{By as Scaling, Rounding, Setup, SetupMatrix, Stored};
    use crate::gallery;
    use crate::gpu::tests::{devices, host};
    use crate::host::stencil::{black_box, galerkin, setup as on_host};
    use crate::host::{diagonal, scaling as host_scaling};
    use crate::sparse::{Grid, SharedStencil, SharedTransfer, Stencil};
    use half::f16;
    use std::sync::Mutex;

    /// Stencils in f64 or f32: scalar and in blocks, odd and even sizes, thin and periodic axes, no symmetry.
    fn stencils<T: Scalar>() -> Vec<SharedStencil<T>> {
        let mut all = Vec::new();
        for (name, dims) in [
            ("poisson27:9x6x5", [9, 6, 5]),
            ("rhd:8x5x4", [8, 5, 4]),
            ("oil:7x6x3", [7, 6, 3]),
            ("weather:6x5x4", [6, 5, 4]),
            ("rhd3t:5x4x3", [5, 4, 3]),
            ("oil4c:4x3x3", [4, 3, 3]),
            ("poisson9:12x1", [12, 1, 1]),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            all.push(SharedStencil::from_rows(&a, Grid::new(dims)).unwrap().cast().unwrap());
        }
        // The periodic Laplacian, made of that without boundary by the offsets that wrap.
        for dims in [[8, 6, 4], [7, 4, 3]] {
            let a = gallery::parse(&format!("poisson7:{}x{}x{}", dims[0], dims[1], dims[2])).unwrap().matrix;
            let pattern = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap().pattern;
            let pattern = Stencil::new(Grid { dims, periodic: [true, false, true] }, 1, &pattern.offsets).unwrap();
            let (cells, offsets) = (pattern.grid.cells(), pattern.offsets.clone());
            let entry = |k: usize, cell: usize| match offsets[k] {
                [0, 0, 0] => 6.5,
                offset if pattern.grid.neighbour(pattern.grid.point(cell), offset).is_none() => 0.0,
                _ => -1.0 - (cell % 3) as f64 / 8.0,
            };
            let values: Vec<f64> = (0..pattern.entries()).map(|i| entry(i / cells, i % cells)).collect();
            all.push(SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) }.cast().unwrap());
        }
        all
    }

    fn check<T: Scalar>(gpu: &Gpu, a: &SharedStencil<T>) {
        let what = format!("{} {:?}, {}", a.pattern.format(), a.pattern.grid, gpu.description());
        let on_device = DeviceStencil::upload(gpu, a).unwrap();
        assert!(on_device.fetch(gpu).unwrap().values.as_slice() == a.values.as_slice(), "{what}");
        let rows = GpuMatrix::Stencil(on_device.clone()).to_rows(gpu).unwrap().fetch(gpu).unwrap();
        let expected = a.to_rows().unwrap();
        assert!(rows.offsets == expected.structure.own_arrays().0, "{what}");
        assert!(
            rows.columns == expected.structure.own_arrays().1 && rows.values == expected.values.as_slice(),
            "{what}"
        );
        let couplings = (couplings(gpu, &on_device).unwrap(), crate::host::stencil::coarsening::couplings(a));
        assert!((0..3).all(|axis| (couplings.0[axis] - couplings.1[axis]).abs() < 1e-12), "{what} {couplings:?}");
        for axes in [[true; 3], [true, false, true], [false, true, false]] {
            let possible = strong_axes(&a.pattern.grid, "xyz", (0.0, None), || unreachable!()).unwrap();
            let grids = Coarsened::new(a.pattern.grid, std::array::from_fn(|axis| axes[axis] && possible[axis]));
            for kind in [GridWeights::BlackBox, GridWeights::Linear, GridWeights::Constant] {
                transfers(gpu, a, &on_device, grids, kind, &what);
            }
        }
    }

    fn transfers<T: Scalar>(
        gpu: &Gpu,
        a: &SharedStencil<T>,
        on_device: &DeviceStencil<T>,
        grids: Coarsened,
        kind: GridWeights,
        what: &str,
    ) {
        let p = black_box::prolongator(a, grids, kind).unwrap();
        let found = prolongator(gpu, on_device, grids, kind).unwrap();
        assert!(gpu.fetch(&found.values).unwrap() == p.values.as_slice(), "{what}, {kind:?} {:?}", grids.axes);
        if grids.axes == [true; 3] && kind == GridWeights::BlackBox {
            // Of a matrix that is known to be symmetric half of the entries are read.
            on_device.symmetry(gpu).unwrap();
            let found = prolongator(gpu, on_device, grids, kind).unwrap();
            assert!(gpu.fetch(&found.values).unwrap() == p.values.as_slice(), "{what}, symmetry known");
        }
        let r = SharedTransfer { transposed: true, ..p.clone() };
        let device_r = DeviceTransfer { transposed: true, ..found.clone() };
        let coarse = galerkin::product(&r, a, &p).unwrap();
        let product = product(gpu, &device_r, on_device, &found).unwrap().fetch(gpu).unwrap();
        assert_eq!(product.pattern.offsets, coarse.pattern.offsets);
        // Along short rings both directions lead to the same cell, and host and device choose differently.
        if grids.coarse.dims.iter().zip(grids.coarse.periodic).any(|(n, periodic)| periodic && *n <= 2) {
            let (one, other) = (product.to_rows().unwrap(), coarse.to_rows().unwrap());
            let close = |(x, y): (&T, &T)| (x.to_f64() - y.to_f64()).abs() <= 1e-5 * (1.0 + y.to_f64().abs());
            assert!(one.values.as_slice().iter().zip(other.values.as_slice()).all(close), "{what}");
        } else {
            assert!(product.values.as_slice() == coarse.values.as_slice(), "{what}, {kind:?} {:?}", grids.axes);
        }
        for matrix in [p, r] {
            let (rows, expected) = (
                GpuMatrix::Transfer(DeviceTransfer::upload(gpu, &matrix).unwrap()).fetch_rows(gpu).unwrap(),
                matrix.to_rows().unwrap(),
            );
            assert!(rows.values.as_slice() == expected.values.as_slice(), "{what}");
            let in_rows = GpuMatrix::Transfer(DeviceTransfer::upload(gpu, &matrix).unwrap());
            let in_rows = in_rows.to_rows(gpu).unwrap().fetch(gpu).unwrap();
            assert!(in_rows.columns == expected.structure.own_arrays().1, "{what}");
            assert!(in_rows.values == expected.values.as_slice(), "{what}");
        }
    }

    #[test]
    fn weights_and_coarse_matrices_of_grids_are_those_of_the_host() {
        for gpu in devices() {
            stencils::<f64>().iter().for_each(|a| check(&gpu, a));
        }
        for gpu in crate::gpu::tests::devices() {
            stencils::<f32>().iter().for_each(|a| check(&gpu, a));
        }
    }

    /// Diagonals, scaling and storage, as the driver asks for them.
    #[test]
    fn scaled_and_stored_stencils_are_those_of_the_host() {
        let host = host();
        for gpu in crate::gpu::tests::devices() {
            for a in stencils::<f64>() {
                let on_device = GpuMatrix::Stencil(DeviceStencil::upload(&gpu, &a).unwrap());
                let in_host = crate::host::HostMatrix::Stencil(a.clone());
                let what = format!("{} {:?}", a.pattern.format(), a.pattern.grid);
                assert_eq!(on_device.entries(), in_host.entries());
                for (width, l1) in [(1, false), (1, true), (a.pattern.block, false), (a.pattern.block, true)] {
                    let found = gpu.inverse_diagonal(&on_device, width, l1, None).unwrap();
                    let expected = host.inverse_diagonal(&in_host, width, l1, None).unwrap();
                    // Sums over rows of blocks have another order.
                    let bound = if l1 { 1e-14 } else { 0.0 };
                    let close = |(x, y): (&f64, &f64)| (x - y).abs() <= bound * y.abs();
                    assert!(gpu.fetch(&found).unwrap().iter().zip(&expected).all(close), "{what} {width} {l1}");
                }
                let largest = gpu.largest_off_diagonal(&on_device).unwrap();
                assert_eq!(largest, host.largest_off_diagonal(&in_host).unwrap(), "{what}");
                let found = gpu.scaling_factors(&[&on_device], "auto", false).unwrap().remove(0);
                let expected = host.scaling_factors(&[&in_host], "auto", false).unwrap().remove(0);
                let (Ok(found), Ok(expected)) = (found, expected) else { panic!("{what}") };
                assert!(gpu.fetch(&found.factors.s).unwrap() == expected.factors, "{what}");
                let checks = Mutex::new(gpu.checks());
                let which = Stored { what: MATRIX, level: 0, may_vanish: true };
                let by = Rounding::Nearest(Scaling::Over(&found.factors), Scaling::Over(&found.factors));
                let narrow = gpu.stored::<f64, f16>(&on_device, by, which, &checks).unwrap();
                gpu.evaluate(checks.into_inner().unwrap()).unwrap();
                let GpuMatrix::Stencil(narrow) = narrow else { panic!("scaling keeps the form") };
                let inverse: Vec<f64> = expected.factors.iter().map(|s| 1.0 / s).collect();
                let scaled = on_host::scaled(&a, &inverse, &inverse).unwrap();
                let nearest = host_scaling::Rounding::Nearest;
                let stored: SharedStencil<f16> = on_host::stored(&scaled, (MATRIX, true), nearest).unwrap();
                assert!(narrow.fetch(&gpu).unwrap().values.as_slice() == stored.values.as_slice(), "{what}");
                let (d, _) = gpu.random_right_hand_side(&on_device).unwrap();
                let expected: Vec<f64> = diagonal::entries(&a.to_rows().unwrap().view()).unwrap();
                assert!(gpu.fetch(&d).unwrap().iter().zip(&expected).all(|(d, e)| *d == e.abs()), "{what}");
            }
        }
    }

    #[test]
    fn values_that_f32_and_f16_cannot_hold_are_refused_with_their_number() {
        for gpu in devices() {
            let mut a = gallery::parse("poisson7:6x5x4").unwrap().matrix;
            a.values.iter_mut().for_each(|v| *v *= 1e-60);
            let a = SharedStencil::from_rows(&a, Grid::new([6, 5, 4])).unwrap();
            let a = GpuMatrix::Stencil(DeviceStencil::upload(&gpu, &a).unwrap());
            let which = Stored { what: MATRIX, level: 0, may_vanish: false };
            for narrow in [true, false] {
                let checks = Mutex::new(gpu.checks());
                match narrow {
                    true => drop(gpu.stored::<f64, f16>(&a, Rounding::PLAIN, which, &checks).unwrap()),
                    false => drop(gpu.stored::<f64, f32>(&a, Rounding::PLAIN, which, &checks).unwrap()),
                }
                let error = gpu.evaluate(checks.into_inner().unwrap()).unwrap_err();
                assert!(error.message.contains("level 0: of 840 entries") && error.message.contains("692"), "{error}");
            }
        }
    }
}
