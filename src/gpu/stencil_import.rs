//! Stencils of a caller in device memory (`kernels/stencil_import.cu`): brought into the order of the library, checked, and looked at in one pass.

use super::runtime::{Argument, BLOCK};
use super::stencil::{DeviceStencil, StencilNumbers, StencilOffsets};
use super::{Buffer, Gpu, Slice};
use crate::backend::Backend;
use crate::backend::common::Symmetry;
use crate::error::Result;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::Stencil;
use crate::sync::lock;
use std::any::Any;
use std::sync::Arc;

/// Blocks of threads that fill a GPU. Each leaves its sums.
const MAX_BLOCKS: usize = 1024;

/// Sums that a block leaves.
const SUMS: usize = 11;

impl<T: Scalar> DeviceStencil<T> {
    /// A copy of a caller's values: one array after the other, or all of a cell together.
    pub fn import(gpu: &Gpu, pattern: &Arc<Stencil>, values: &Slice<T>, by_cell: bool) -> Result<DeviceStencil<T>> {
        let (cells, count) = (pattern.grid.cells(), pattern.offsets.len() * pattern.block * pattern.block);
        let matrix = DeviceStencil::zeroed(gpu, Arc::clone(pattern))?;
        let arguments: [&dyn Argument; 6] = [
            &(cells as i64),
            &matrix.shape(),
            &(count as i64),
            &i32::from(by_cell),
            &values.view(),
            &matrix.values.view(),
        ];
        gpu.launch(gpu.kernel(&format!("import_stencil_{}", T::PRECISION.name()))?, cells, &arguments)?;
        Ok(matrix)
    }

    /// A caller's values, one array after the other, as they are.
    pub fn of_caller(pattern: &Arc<Stencil>, values: Buffer<T>) -> DeviceStencil<T> {
        DeviceStencil::new(Arc::clone(pattern), pattern.grid.dims[0], Arc::new(values))
    }

    /// The same matrix with values that nobody changes: a copy where they are the caller's.
    pub fn own(self, gpu: &Gpu) -> Result<DeviceStencil<T>> {
        if self.values.is_borrowed() {
            DeviceStencil::import(gpu, &self.pattern, &self.values, false)
        } else {
            Ok(self)
        }
    }

    /// Whether all values are finite, zero where they lead out of the grid, and not zero on the diagonal. Synchronises.
    pub fn is_valid(&self, gpu: &Gpu) -> Result<bool> {
        let (cells, flag) = (self.pattern.grid.cells(), gpu.zeroed::<i32>(1)?);
        let arguments: [&dyn Argument; 5] =
            [&(cells as i64), &self.shape(), &StencilOffsets::new(&self.pattern), &self.values.view(), &flag.view()];
        gpu.launch(gpu.kernel(&format!("check_stencil_{}", T::PRECISION.name()))?, cells, &arguments)?;
        Ok(gpu.fetch(&flag)?[0] == 0)
    }

    /// As [`crate::host::symmetry::of_stencil`], but for the order of sums. The same pass finds couplings and formats, which later steps of a set-up take;
    /// not of values that a caller may change meanwhile. Synchronises.
    pub fn symmetry(&self, gpu: &Gpu) -> Result<Symmetry> {
        let cells = self.pattern.grid.cells();
        let blocks = cells.div_ceil(BLOCK).clamp(1, MAX_BLOCKS);
        let sums = gpu.zeroed::<f64>(blocks * SUMS)?;
        let arguments: [&dyn Argument; 5] =
            [&(cells as i64), &self.shape(), &StencilNumbers::new(&self.pattern), &self.values.view(), &sums.view()];
        gpu.launch_blocks(gpu.kernel(&format!("examine_stencil_{}", T::PRECISION.name()))?, blocks, &arguments)?;
        let parts = gpu.fetch(&sums)?;
        let sum = |s: usize| parts[s..].iter().step_by(SUMS).sum::<f64>();
        if !self.values.is_borrowed() {
            let rows = self.pattern.scalar_rows().max(1) as f64;
            let formats = [(7, Precision::F16), (8, Precision::BF16), (9, Precision::F32)];
            let exact = formats.into_iter().find(|(inexact, _)| sum(*inexact) == 0.0);
            *lock(self.known.couplings.lock()) = Some(std::array::from_fn(|axis| sum(4 + axis) / rows));
            *lock(self.known.is_symmetric.lock()) = Some(sum(10) == 0.0);
            *lock(self.known.narrowest.lock()) = Some(exact.map_or(Precision::F64, |(_, format)| format));
        }
        Ok(Symmetry { difference: sum(0).sqrt(), squares: sum(1), positive: sum(2) as u64, negative: sum(3) as u64 })
    }

    /// The couplings that [`DeviceStencil::symmetry`] has found, once.
    pub fn take_couplings(&self) -> Option<[f64; 3]> {
        lock(self.known.couplings.lock()).take()
    }

    /// Whether [`DeviceStencil::symmetry`] has found every entry equal to the mirrored one, once.
    pub fn take_is_symmetric(&self) -> bool {
        lock(self.known.is_symmetric.lock()).take().unwrap_or(false)
    }

    /// The narrowest format that holds every value exactly. Synchronises, unless it is known.
    pub fn narrowest_exact(&self, gpu: &Gpu) -> Result<Precision> {
        let known = lock(self.known.narrowest.lock()).take();
        known.map_or_else(|| gpu.narrowest_exact(&self.values), Ok)
    }
}

impl<S: Number> DeviceStencil<S> {
    /// The values in another format; shared when the format is the same.
    pub fn cast<U: Number>(&self, gpu: &Gpu) -> Result<DeviceStencil<U>> {
        let (pattern, pitch, same): (_, _, &dyn Any) = (Arc::clone(&self.pattern), self.pitch, &self.values);
        if let Some(values) = same.downcast_ref::<Arc<Buffer<U>>>() {
            let (values, known) = (Arc::clone(values), Arc::clone(&self.known));
            return Ok(DeviceStencil { pattern, pitch, values, known });
        }
        let mut values = gpu.allocate(self.values.len())?;
        gpu.copy(&self.values, &mut values);
        Ok(DeviceStencil::new(pattern, pitch, Arc::new(values)))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::host::stencil::coarsening::couplings;
    use crate::host::symmetry::of_stencil;
    use crate::sparse::{Grid, SharedStencil};

    fn of(name: &str, dims: [usize; 3]) -> SharedStencil<f64> {
        SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap()
    }

    /// The values of one cell after the other.
    fn by_cell<T: Scalar>(a: &SharedStencil<T>) -> Vec<T> {
        let (values, cells) = (a.values.as_slice(), a.pattern.grid.cells());
        let count = values.len() / cells;
        (0..values.len()).map(|i| values[i % count * cells + i / count]).collect()
    }

    fn check<T: Scalar>(gpu: &Gpu, a: &SharedStencil<T>, what: &str) {
        let expected = a.values.as_slice();
        let (flat, cells) = (gpu.upload(expected).unwrap(), gpu.upload(&by_cell(a)).unwrap());
        for (values, by_cell) in [(&flat, false), (&cells, true)] {
            let found = DeviceStencil::import(gpu, &a.pattern, values, by_cell).unwrap();
            assert!(found.fetch(gpu).unwrap().values.as_slice() == expected, "{what}, by cell: {by_cell}");
            assert!(found.is_valid(gpu).unwrap(), "{what}");
        }
        let caller = DeviceStencil::of_caller(&a.pattern, flat);
        assert!(caller.is_valid(gpu).unwrap() && caller.fetch(gpu).unwrap().values.as_slice() == expected, "{what}");
        let (found, wanted) = (caller.symmetry(gpu).unwrap(), of_stencil(a).unwrap());
        assert_eq!((found.positive, found.negative), (wanted.positive, wanted.negative), "{what}");
        assert!((found.squares - wanted.squares).abs() <= 1e-12 * wanted.squares, "{what}");
        assert!((found.difference - wanted.difference).abs() <= 1e-12 * wanted.squares.sqrt(), "{what}");
        // What the same pass has left is taken once, and then computed by itself.
        let (found, wanted) = (caller.take_couplings().unwrap(), couplings(a));
        assert!((0..3).all(|axis| (found[axis] - wanted[axis]).abs() < 1e-12), "{what}: {found:?} {wanted:?}");
        assert!(caller.take_couplings().is_none(), "{what}");
        let formats = [caller.narrowest_exact(gpu).unwrap(), caller.narrowest_exact(gpu).unwrap()];
        assert!(formats[0] == formats[1], "{what}: {formats:?}");
    }

    #[test]
    fn callers_values_are_read_in_both_orders_and_judged_as_on_the_host() {
        let all = [
            ("poisson27:9x6x5", [9, 6, 5]),
            ("weather:17x5x4", [17, 5, 4]),
            ("oil4c:4x3x3", [4, 3, 3]),
            ("solid3d:4", [4, 5, 5]),
            ("convection_diffusion:7x5", [7, 5, 1]),
        ];
        for gpu in devices() {
            for (name, dims) in all {
                check::<f64>(&gpu, &of(name, dims), name);
                check::<f32>(&gpu, &of(name, dims).cast().unwrap(), name);
            }
        }
    }

    #[test]
    fn a_wrong_value_is_found_wherever_it_is() {
        for gpu in devices() {
            let a = of("poisson7:9x4x3", [9, 4, 3]);
            let (cells, centre) = (a.pattern.grid.cells(), a.pattern.find([0; 3]).unwrap());
            let left = a.pattern.find([-1, 0, 0]).unwrap();
            let last = a.pattern.find([0, 0, 1]).unwrap();
            for (at, value) in [
                (left * cells + 9, 1.0),
                (last * cells + cells - 1, -1.0),
                (centre * cells + 17, 0.0),
                (centre * cells, f64::NAN),
                (left * cells + 1, f64::INFINITY),
            ] {
                let mut values = a.values.as_slice().to_vec();
                values[at] = value;
                let values = gpu.upload(&values).unwrap();
                let flat = DeviceStencil::of_caller(&a.pattern, values);
                assert!(!flat.is_valid(&gpu).unwrap(), "{value} at {at}");
                let own = DeviceStencil::import(&gpu, &a.pattern, &flat.values, false).unwrap();
                assert!(!own.is_valid(&gpu).unwrap(), "{value} at {at}");
            }
        }
    }
}
