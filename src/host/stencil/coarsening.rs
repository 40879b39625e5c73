//! Coarsening of structured grids: the axes along which a level is coarsened, from its matrix alone.

use crate::backend::common::strong_axes;
use crate::backend::components::{Coarsening, CoarseningInput};
use crate::backend::setup::Coarse;
use crate::error::{Result, fail};
use crate::host::registers::widely;
use crate::host::{Host, HostMatrix};
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Coarsened, SharedStencil};
use std::ops::Range;

/// The mean coupling of each cell along each axis, in relation to the strongest axis of the cell. Entries to one side of a cell are added up, as
/// in the matrix that is left when nothing varies along the other axes.
pub fn couplings<T: Scalar>(a: &SharedStencil<T>) -> [f64; 3] {
    let (cells, b) = (a.pattern.grid.cells(), a.pattern.block);
    let sums = par::sums::<3>(cells, par::ROW_GRAIN, |range| {
        widely(
            #[inline(always)]
            || sums_of(a, range.clone()),
        )
    });
    sums.map(|sum| sum / (cells * b).max(1) as f64)
}

/// Cells of which sums are on the stack.
const GROUP: usize = 128;

/// The sums of the couplings of some cells.
#[inline(always)]
fn sums_of<T: Scalar>(a: &SharedStencil<T>, cells: Range<usize>) -> [f64; 3] {
    let (stencil, values) = (&*a.pattern, a.values.as_slice());
    let mut sums = [0.0; 3];
    for c in 0..stencil.block {
        for first in cells.clone().step_by(GROUP) {
            let count = GROUP.min(cells.end - first);
            // By axis and side.
            let mut sides = [[[0.0; GROUP]; 2]; 3];
            for (k, offset) in stencil.offsets.iter().enumerate() {
                let values = &values[stencil.array(k, c, c) + first..][..count];
                for (axis, step) in offset.iter().enumerate().filter(|(_, step)| **step != 0) {
                    let side = &mut sides[axis][usize::from(*step > 0)];
                    side.iter_mut().zip(values).for_each(|(sum, v)| *sum += v.to_f64());
                }
            }
            for k in 0..count {
                let mut sizes = [0.0; 3];
                for (size, [left, right]) in sizes.iter_mut().zip(&sides) {
                    *size = left[k].abs() + right[k].abs();
                }
                let largest = sizes[0].max(sizes[1]).max(sizes[2]);
                if largest > 0.0 {
                    sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size / largest);
                }
            }
        }
    }
    sums
}

/// The component.
pub struct GridCoarsening;

impl<T: Scalar> Coarsening<Host, T> for GridCoarsening {
    fn coarsen(&self, input: &CoarseningInput<'_, Host, T>) -> Result<Coarse<Host>> {
        let HostMatrix::Stencil(a) = input.a else {
            return fail!(Internal, "a matrix in rows came to the coarsening of grids");
        };
        let name = input.parameters.text("amg.coarsening.axes");
        let threshold = input.parameters.real("amg.coarsening.axis_threshold");
        let lines = input.line_axis();
        let axes = strong_axes(&a.pattern.grid, &name, (threshold, lines.as_deref()), || Ok(couplings(a)))?;
        Ok(Coarse::Grid(Coarsened::new(a.pattern.grid, axes)))
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Grid;

    fn of(name: &str, dims: [usize; 3]) -> SharedStencil<f64> {
        SharedStencil::from_rows(&gallery::parse(name).unwrap().matrix, Grid::new(dims)).unwrap()
    }

    #[test]
    fn strong_axes_are_coarsened_and_weak_ones_are_not() {
        let with = |a: &SharedStencil<f64>, name: &str, lines: Option<&str>, expected: [bool; 3]| {
            let found = strong_axes(&a.pattern.grid, name, (0.25, lines), || Ok(couplings(a))).unwrap();
            assert_eq!(found, expected);
        };
        let check = |a: &SharedStencil<f64>, name: &str, expected: [bool; 3]| with(a, name, None, expected);
        let laplacian = of("poisson27:6x5x4", [6, 5, 4]);
        check(&laplacian, "auto", [true; 3]);
        check(&laplacian, "xz", [true, false, true]);
        check(&of("poisson7:6x1x4", [6, 1, 4]), "auto", [true, false, true]);
        check(&of("poisson7:6x1x4", [6, 1, 4]), "y", [false; 3]);
        check(&of("anisotropic:6x5x4:epsilon=0.01", [6, 5, 4]), "auto", [true, true, false]);
        check(&of("anisotropic:6x5x4:epsilon=100", [6, 5, 4]), "auto", [false, false, true]);
        check(&of("anisotropic:6x5x4:epsilon=0.5", [6, 5, 4]), "auto", [true; 3]);
        // What lines solve for is smooth, and the others are compared with each other.
        let strong = of("anisotropic:6x5x4:epsilon=100", [6, 5, 4]);
        with(&strong, "auto", Some("auto"), [true; 3]);
        with(&strong, "auto", Some("x"), [true, false, true]);
        with(&of("anisotropic:6x5x4:epsilon=0.01", [6, 5, 4]), "auto", Some("auto"), [true, true, false]);
    }
}
