//! ILU(0) of stencils on a GPU: [`crate::host::stencil::ilu0`] on the device, with the same bits. The work is in `kernels/stencil_ilu0.cu`.

use super::grid::GpuMatrix;
use crate::backend::Backend;
use crate::backend::dilu::SMALLEST_PIVOT;
use crate::backend::ilu0::{Ilu0, Ilu0Factors, check_block};
use crate::error::Result;
use crate::gpu::runtime::Argument;
use crate::gpu::signature::Type;
use crate::gpu::stencil::{DeviceStencil, StencilNumbers, StencilOffsets};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::CellColours;
use std::ffi::c_void;
use std::sync::Arc;

/// `CellColours` of the kernel.
#[repr(C)]
struct Numbers([i32; 5]);

// SAFETY: five numbers of 32 bits, as the struct in `kernels/stencil_ilu0.cu`.
unsafe impl Argument for Numbers {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<Numbers>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("CellColours")
    }
}

impl Ilu0 for Gpu {
    fn ilu0<T: Scalar>(&self, a: &GpuMatrix<T>) -> Result<Ilu0Factors<GpuMatrix<T>, Buffer<T>>> {
        let a = a.on_grid()?;
        check_block(a.pattern.block)?;
        let (cells, colours) = (a.pattern.grid.cells(), CellColours::new(&a.pattern));
        let (mut values, inverse) = (self.allocate::<T>(a.values.len())?, self.zeroed::<T>(cells)?);
        self.copy(&a.values, &mut values);
        let factors = DeviceStencil::new(Arc::clone(&a.pattern), a.pitch, Arc::new(values));
        let kernel = self.kernel(&format!("stencil_ilu0_{}", T::PRECISION.name()))?;
        for colour in 0..colours.count() as i32 {
            let arguments: [&dyn Argument; 9] = [
                &(cells as i64),
                &colour,
                &SMALLEST_PIVOT,
                &factors.shape(),
                &StencilOffsets::new(&a.pattern),
                &StencilNumbers::new(&a.pattern),
                &Numbers(colours.numbers()),
                &factors.values.view(),
                &inverse.view(),
            ];
            self.launch(kernel, cells, &arguments)?;
        }
        Ok((GpuMatrix::Stencil(factors), inverse))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::tests::devices;
    use crate::host::stencil::ilu0;
    use crate::sparse::{Grid, SharedStencil, Stencil};

    fn check<T: Scalar>(a: &SharedStencil<f64>) {
        let a = a.cast::<T>().unwrap();
        let (wanted, pivots) = ilu0::factors(&a).unwrap();
        for gpu in devices() {
            let on_device = GpuMatrix::Stencil(DeviceStencil::upload(&gpu, &a).unwrap());
            let (found, inverse) = gpu.ilu0(&on_device).unwrap();
            let found = found.on_grid().unwrap().fetch(&gpu).unwrap();
            assert!(found.values.as_slice() == wanted.values.as_slice(), "{:?}", a.pattern.grid);
            assert_eq!(gpu.fetch(&inverse).unwrap(), pivots, "{:?}", a.pattern.grid);
        }
    }

    #[test]
    fn factors_are_those_of_the_host() {
        for (name, dims) in [("laplace27:9x4x3", [9, 4, 3]), ("oil:5x4x3", [5, 4, 3]), ("poisson9:6x5", [6, 5, 1])] {
            let a = SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap();
            check::<f64>(&a);
            check::<f32>(&a);
        }
        // Rings, odd ones and a short one.
        let grid = Grid { dims: [5, 3, 2], periodic: [true; 3] };
        let offsets = [[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 1], [0, -1, -1], [1, 0, 1]];
        let stencil = Stencil::new(grid, 1, &offsets).unwrap();
        let value = |i: usize| if i < grid.cells() { 9.0 } else { -0.5 - (i % 7) as f64 / 8.0 };
        let values: Vec<f64> = (0..stencil.entries()).map(value).collect();
        check::<f64>(&SharedStencil { pattern: Arc::new(stencil), values: Arc::new(values) });
    }
}
