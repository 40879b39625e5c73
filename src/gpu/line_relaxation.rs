//! Line relaxation on structured grids (`kernels/line_relaxation.cu`): for each colour of lines the residuals of its cells, a thread for each, and then the
//! solves of the lines, a thread for each line.

use super::runtime::{Argument, Kernel, tag};
use super::signature::Type;
use super::stencil::{DeviceStencil, StencilShape};
use super::{Buffer, Gpu, Slice};
use crate::backend::Colours;
use crate::backend::common::rounding_bound;
use crate::error::Result;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{EveryOther, LineColours, Offset, Stencil};
use std::ffi::c_void;
use std::sync::Arc;

/// The struct of `kernels/line_relaxation.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ColourLines {
    axis: i32,
    across: [i32; 2],
    start: [i32; 2],
    count: [i32; 2],
    checker: i32,
    before: i32,
}

impl ColourLines {
    /// The lines of a colour along an axis.
    fn new(stencil: &Stencil, axis: usize, colours: LineColours, colour: usize) -> ColourLines {
        let [np, nq] = colours.across.map(|axis| stencil.grid.dims[axis]);
        let along = match colours.two {
            true => [EveryOther { start: colour, count: np.div_ceil(2) }, EveryOther { start: 0, count: nq }],
            false => colours.lines(stencil, colour),
        };
        ColourLines {
            axis: axis as i32,
            across: colours.across.map(|axis| axis as i32),
            start: along.map(|axis| axis.start as i32),
            count: along.map(|axis| axis.count as i32),
            checker: i32::from(colours.two),
            before: number(stencil, axis, -1),
        }
    }

    fn lines(&self) -> usize {
        self.count[0] as usize * self.count[1] as usize
    }
}

/// The number of the offset of one step along an axis, or -1.
fn number(stencil: &Stencil, axis: usize, step: i8) -> i32 {
    let offset: Offset = std::array::from_fn(|other| if other == axis { step } else { 0 });
    stencil.find(offset).map_or(-1, |number| number as i32)
}

// SAFETY: the layout of the struct in `kernels/line_relaxation.cu`.
unsafe impl Argument for ColourLines {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<ColourLines>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("ColourLines")
    }
}

/// The factors of the lines along an axis, with the bits of the host.
pub(super) fn factors<T: Scalar>(gpu: &Gpu, a: &DeviceStencil<T>, axis: usize) -> Result<Buffer<T>> {
    let (stencil, b) = (&*a.pattern, a.pattern.block);
    let lines = ColourLines::new(stencil, axis, LineColours::along(stencil, axis), 0);
    let out = gpu.allocate::<T>(2 * b * b * stencil.grid.cells())?;
    let (centre, behind, bound) = (number(stencil, axis, 0), number(stencil, axis, 1), rounding_bound::<T>(b));
    gpu.launch(
        gpu.kernel(&format!("line_factors_{}", T::PRECISION.name()))?,
        stencil.grid.cells() / stencil.grid.dims[axis],
        &[&a.shape(), &lines, &centre, &behind, &bound, &a.values.view(), &out.view()],
    )?;
    Ok(out)
}

/// A stencil for line relaxation along one axis.
pub(super) struct LineRelaxation<S> {
    gpu: Gpu,
    residuals: Kernel,
    solve: Kernel,
    pattern: Arc<Stencil>,
    shape: StencilShape,
    values: Arc<Buffer<S>>,
    factors: Buffer<S>,
    axis: usize,
    colours: LineColours,
    /// Whether the matrix is shared with the level, which counts its bytes.
    shared: bool,
}

impl<S: Number> LineRelaxation<S> {
    /// For vectors of precision `V`.
    pub fn new<V: Number>(
        gpu: &Gpu,
        matrix: DeviceStencil<S>,
        (axis, factors): (usize, Buffer<S>),
        shared: bool,
    ) -> Result<LineRelaxation<S>> {
        let kind = if matrix.pattern.block == 1 { "" } else { "_blocks" };
        let sums: Precision = <V::Wide as Number>::PRECISION;
        let kernel = |name: &str| gpu.kernel(&format!("{name}{kind}_{}", sums.name()));
        Ok(LineRelaxation {
            gpu: gpu.clone(),
            residuals: kernel("line_residuals")?,
            solve: kernel("solve_lines")?,
            shape: matrix.shape(),
            colours: LineColours::along(&matrix.pattern, axis),
            pattern: matrix.pattern,
            values: matrix.values,
            factors,
            axis,
            shared,
        })
    }
}

impl<S: Number, V: Number> Colours<Gpu, V> for LineRelaxation<S> {
    fn count(&self) -> usize {
        self.colours.count(&self.pattern)
    }

    fn solves_exactly(&self) -> bool {
        let grid = &self.pattern.grid;
        (0..3).all(|axis| !grid.periodic[axis] || grid.dims[axis] > 1)
    }

    fn pass(
        &self,
        gpu: &Gpu,
        count: usize,
        backward: bool,
        b: &Slice<V>,
        x: &mut Slice<V>,
        scratch: &mut Buffer<V>,
    ) -> Result<()> {
        gpu.failed()?;
        let (storage, format) = (tag::<S>(), tag::<V>());
        let (values, factors) = (self.values.view(), self.factors.view());
        let (b, x, r) = (b.view(), x.view(), scratch.view());
        for k in 0..count {
            let colour = if backward { count - 1 - k } else { k };
            let lines = ColourLines::new(&self.pattern, self.axis, self.colours, colour);
            self.gpu.launch(
                self.residuals,
                lines.lines() * self.pattern.grid.dims[self.axis],
                &[&self.shape, &lines, &storage, &values, &format, &b, &x, &r],
            )?;
            self.gpu.launch(
                self.solve,
                lines.lines(),
                &[&self.shape, &lines, &storage, &values, &factors, &format, &r, &x],
            )?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let values = if self.shared { 0 } else { self.values.owned_bytes() };
        values + self.factors.owned_bytes()
    }
}
