//! Multicolour Gauss-Seidel on structured grids (`kernels/stencil_sweep.cu`, `kernels/stencil_sweep_pairs.cu`). Lines of cells along x have colours, and so
//! have the even and the odd cells of a line. Lines are swept for both parities in one launch, where the matrix is read once, but for those that are periodic,
//! and those of more cells than a block of threads with several unknowns or without padding for packs: they have a launch for each. Multivectors have a kernel of their own
//! (`kernels/multivector_stencil.cu`), which sweeps the cells in the same order.

use super::multivector::OWN;
use super::runtime::{Argument, BLOCK, Kernel, View, tag};
use super::signature::Type;
use super::stencil::{DeviceStencil, StencilShape};
use super::{Buffer, Gpu, Slice};
use crate::backend::{Backend, Colours};
use crate::error::Result;
use crate::scalar::{Number, Precision};
use crate::sparse::{EveryOther, LineColours, Stencil};
use std::ffi::c_void;
use std::sync::Arc;

/// Cells of a strip of the host; strips of lines are swept one after the other.
const STRIP: usize = 1024;

/// The struct of `kernels/stencil_sweep.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ColourCells {
    start: [i32; 3],
    count: [i32; 3],
    checker: i32,
}

impl ColourCells {
    /// The lines of a colour, and these cells of each.
    fn new(stencil: &Stencil, colours: LineColours, colour: usize, along_x: EveryOther) -> ColourCells {
        let [_, ny, nz] = stencil.grid.dims;
        let [along_y, along_z] = match colours.two {
            true => [EveryOther { start: colour, count: ny.div_ceil(2) }, EveryOther { start: 0, count: nz }],
            false => colours.lines(stencil, colour),
        };
        let all = [along_x, along_y, along_z];
        let (start, count) = (all.map(|axis| axis.start as i32), all.map(|axis| axis.count as i32));
        ColourCells { start, count, checker: i32::from(colours.two) }
    }

    fn lines(&self) -> usize {
        self.count[1] as usize * self.count[2] as usize
    }

    fn cells(&self) -> usize {
        self.count[0] as usize * self.lines()
    }
}

// SAFETY: the layout of the struct in `kernels/stencil_sweep.cu`.
unsafe impl Argument for ColourCells {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<ColourCells>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("ColourCells")
    }
}

/// The struct of `kernels/stencil_colours.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LaterLines {
    of: [i32; 4],
    two: i32,
    classes: i32,
}

// SAFETY: the layout of the struct in `kernels/stencil_colours.h`.
unsafe impl Argument for LaterLines {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<LaterLines>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("LaterLines")
    }
}

/// A stencil for sweeps.
pub(super) struct StencilSweep<S> {
    gpu: Gpu,
    kernel: Kernel,
    /// The one for a sweep by lines that begins with zero.
    from_zero: Option<Kernel>,
    /// The one for the residual after a pass from zero.
    residual_from_zero: Option<Kernel>,
    /// The one for multivectors.
    multivector: Option<Kernel>,
    pattern: Arc<Stencil>,
    shape: StencilShape,
    values: Arc<Buffer<S>>,
    inverse: Buffer<S>,
    colours: LineColours,
    /// Cells of a thread.
    pack: usize,
    /// Threads of a line, where both parities are swept at once.
    threads: Option<usize>,
    /// Whether each thread has two cells of 3 x 3 blocks.
    pairs: bool,
    /// Whole lines that a block of threads has, where cells are swept one by one or in pairs.
    whole_lines: Option<usize>,
    /// Whether the matrix is shared with the level, which counts its bytes.
    shared: bool,
}

impl<S: Number> StencilSweep<S> {
    /// For vectors of precision `V`; `inverse` is that of the diagonal or of the diagonal blocks. The level may have the same matrix, shared or not.
    pub fn new<V: Number>(
        gpu: &Gpu,
        matrix: DeviceStencil<S>,
        inverse: Buffer<S>,
        (shared, is_of_level): (bool, bool),
    ) -> Result<StencilSweep<S>> {
        let (pattern, sums) = (Arc::clone(&matrix.pattern), <V::Wide as Number>::PRECISION);
        let (pack, [nx, ..]) = (matrix.pack(), pattern.grid.dims);
        let by_lines = pack > 1 && !pattern.grid.periodic[0];
        let threads = by_lines.then(|| nx.div_ceil(pack).next_power_of_two().min(BLOCK).min(STRIP / pack));
        let may_be_whole = !by_lines && !pattern.grid.periodic[0];
        let has_pairs = pattern.block == 3 && matrix.has_pairs() && sums == Precision::F32;
        let pairs = may_be_whole && has_pairs && nx <= 2 * BLOCK;
        let threads_of_line = if pairs { nx.div_ceil(2) } else { nx };
        let kind = if by_lines {
            "_lines"
        } else if pairs {
            "_pairs3"
        } else {
            matrix.kind()
        };
        let known_lines = matrix.known_lines(V::PRECISION, sums).filter(|_| by_lines).unwrap_or("");
        let names = [S::PRECISION, sums].map(Precision::name).join("_");
        let has_multivectors = matrix.has_multivectors() && V::PRECISION.is_scalar();
        Ok(StencilSweep {
            gpu: gpu.clone(),
            kernel: gpu.kernel(&format!("stencil_sweep{kind}{known_lines}_{names}"))?,
            from_zero: by_lines
                .then(|| gpu.kernel(&format!("stencil_sweep_lines_from_zero{known_lines}_{names}")))
                .transpose()?,
            residual_from_zero: (by_lines && is_of_level)
                .then(|| gpu.kernel(&format!("stencil_residual_from_zero{known_lines}_{names}")))
                .transpose()?,
            multivector: has_multivectors
                .then(|| gpu.kernel(&format!("multivector_stencil_sweep_{names}")))
                .transpose()?,
            colours: LineColours::new(&pattern),
            shape: matrix.shape(),
            pattern,
            values: matrix.values,
            inverse,
            pack,
            threads,
            pairs,
            whole_lines: (may_be_whole && threads_of_line <= BLOCK).then(|| BLOCK / threads_of_line),
            shared,
        })
    }

    /// Whether a sweep inverts the diagonal blocks.
    fn is_whole(&self) -> bool {
        self.inverse.len() > self.pattern.scalar_rows()
    }

    /// Classes of the cells of a line: even and odd ones, and, where the last of a ring is even, that one between them.
    fn classes(&self) -> &'static [usize] {
        let grid = &self.pattern.grid;
        if grid.is_odd_ring(0) && grid.dims[0] > 1 { &[0, 2, 1] } else { &[0, 1] }
    }

    /// The stencil for the lines of a colour. In a pass from zero, lines that are solved later are left out.
    fn shape_for(&self, colour: usize, backward: bool, from_zero: bool) -> StencilShape {
        match self.colours.later(&self.pattern, backward).filter(|_| from_zero) {
            Some(later) => self.shape.without_lines(later[colour]),
            None => self.shape,
        }
    }

    /// Matrix, inverse of the diagonal and right-hand side, of which a launch reads the cells of a colour.
    fn shares<'a>(&'a self, shape: &StencilShape, cells: &ColourCells, b: View<'a>) -> [View<'a>; 3] {
        let (part, whole) = (cells.cells(), self.pattern.grid.cells());
        let values = self.values.view().share(part * shape.offsets(), whole * self.pattern.offsets.len());
        [values, self.inverse.view().share(part, whole), b.share(part, whole)]
    }

    fn sweep_lines<V: Number>(
        &self,
        (colour, even_only, backward, from_zero): (usize, bool, bool, bool),
        threads: usize,
        b: &Slice<V>,
        x: &mut Slice<V>,
    ) -> Result<()> {
        let all = EveryOther { start: 0, count: self.pattern.grid.dims[0] };
        let cells = ColourCells::new(&self.pattern, self.colours, colour, all);
        let shape = self.shape_for(colour, backward, from_zero);
        let kernel = self.from_zero.filter(|_| from_zero).unwrap_or(self.kernel);
        let (shift, even_only, backward) = (threads.ilog2() as i32, i32::from(even_only), i32::from(backward));
        let [values, inverse, b] = self.shares(&shape, &cells, b.view());
        let (x, format) = (x.view(), tag::<V>());
        let shape = shape.with(&[b, x], self.pack, (V::PRECISION, <V::Wide as Number>::PRECISION));
        self.gpu.launch(
            kernel,
            cells.lines() * threads,
            &[&shape, &cells, &shift, &even_only, &backward, &values, &inverse, &format, &b, &x],
        )
    }

    fn sweep_cells<V: Number>(
        &self,
        (colour, class, backward, from_zero): (usize, Option<usize>, bool, bool),
        even_only: bool,
        b: &Slice<V>,
        x: &mut Slice<V>,
    ) -> Result<()> {
        let nx = self.pattern.grid.dims[0];
        let along_x = match class {
            Some(class) => EveryOther::new(nx, class, self.classes().len() > 2),
            None => EveryOther { start: 0, count: nx },
        };
        let whole_lines = self.whole_lines.filter(|_| class.is_none());
        let cells = ColourCells::new(&self.pattern, self.colours, colour, along_x);
        let shape = self.shape_for(colour, backward, from_zero);
        let (whole, backward) = (i32::from(self.is_whole()), i32::from(backward));
        let [values, inverse, b] = self.shares(&shape, &cells, b.view());
        let (x, format) = (x.view(), tag::<V>());
        let blocks = match whole_lines {
            Some(of_block) => cells.lines().div_ceil(of_block),
            None => (cells.lines() * along_x.count).div_ceil(BLOCK),
        };
        if blocks == 0 {
            return Ok(());
        }
        let (whole_lines, even_only) = (i32::from(whole_lines.is_some()), i32::from(even_only));
        if self.pairs {
            return self.gpu.launch_blocks(
                self.kernel,
                blocks,
                &[&shape, &cells, &whole, &even_only, &backward, &values, &inverse, &format, &b, &x],
            );
        }
        self.gpu.launch_blocks(
            self.kernel,
            blocks,
            &[&shape, &cells, &whole, &whole_lines, &even_only, &backward, &values, &inverse, &format, &b, &x],
        )
    }

    /// A pass over multivectors of `k` vectors: a launch for each colour of lines.
    fn run_on_multivectors<V: Number>(
        &self,
        kernel: Kernel,
        k: usize,
        (count, backward, from_zero): (usize, bool, bool),
        b: &Slice<V>,
        x: &mut Slice<V>,
    ) -> Result<()> {
        let (nx, lines) = (self.pattern.grid.dims[0], count.div_ceil(2));
        let strip = self.threads.map_or(nx, |threads| threads * self.pack);
        // Threads of a line: two cells each, as far as they fit into a block.
        let threads = (nx.min(strip).div_ceil(2) * (k / OWN)).next_power_of_two().min(BLOCK);
        let (shift, team, strip) = (k.ilog2() as i32, threads.ilog2() as i32, strip as i32);
        for at in 0..lines {
            let colour = if backward { lines - 1 - at } else { at };
            let cells = ColourCells::new(&self.pattern, self.colours, colour, EveryOther { start: 0, count: nx });
            let shape = self.shape_for(colour, backward, from_zero);
            let [values, inverse, b] = self.shares(&shape, &cells, b.view());
            let [even_only, backward, from_zero] = [2 * colour + 1 == count, backward, from_zero].map(i32::from);
            let flags: [&dyn Argument; 6] = [&shift, &team, &strip, &even_only, &backward, &from_zero];
            let arrays: [&dyn Argument; 6] = [&shape, &cells, &values, &inverse, &b, &x.view()];
            let arguments: [&dyn Argument; 12] = std::array::from_fn(|i| if i < 6 { flags[i] } else { arrays[i - 6] });
            self.gpu.launch(kernel, cells.lines() * threads, &arguments)?;
        }
        Ok(())
    }

    /// A pass, as [`Colours::pass`].
    fn run<V: Number>(
        &self,
        (count, backward, from_zero): (usize, bool, bool),
        b: &Slice<V>,
        x: &mut Slice<V>,
    ) -> Result<()> {
        let vectors = x.len() / self.pattern.scalar_rows();
        if let Some(kernel) = self.multivector.filter(|_| vectors > 1) {
            return self.run_on_multivectors(kernel, vectors, (count, backward, from_zero), b, x);
        }
        let in_order = |k: usize, n: usize| if backward { n - 1 - k } else { k };
        if let Some(threads) = self.threads {
            let lines = count.div_ceil(2);
            for k in 0..lines {
                let colour = in_order(k, lines);
                self.sweep_lines((colour, 2 * colour + 1 == count, backward, from_zero), threads, b, x)?;
            }
            return Ok(());
        }
        if self.whole_lines.is_some() {
            let lines = count.div_ceil(2);
            for k in 0..lines {
                let colour = in_order(k, lines);
                self.sweep_cells((colour, None, backward, from_zero), 2 * colour + 1 == count, b, x)?;
            }
            return Ok(());
        }
        let classes = self.classes();
        for k in 0..count {
            let k = in_order(k, count);
            let class = Some(classes[k % classes.len()]);
            self.sweep_cells((k / classes.len(), class, backward, from_zero), false, b, x)?;
        }
        Ok(())
    }
}

impl<S: Number, V: Number> Colours<Gpu, V> for StencilSweep<S> {
    fn count(&self) -> usize {
        let classes = if self.threads.is_some() { 2 } else { self.classes().len() };
        classes * self.colours.count(&self.pattern)
    }

    fn solves_exactly(&self) -> bool {
        match self.threads {
            Some(threads) => self.pattern.grid.dims[0] <= threads * self.pack,
            None => self.pattern.block == 1 || self.is_whole(),
        }
    }

    fn takes_multivectors(&self) -> bool {
        self.multivector.is_some()
    }

    fn pass(
        &self,
        gpu: &Gpu,
        count: usize,
        backward: bool,
        b: &Slice<V>,
        x: &mut Slice<V>,
        _: &mut Buffer<V>,
    ) -> Result<()> {
        gpu.failed()?;
        self.run((count, backward, false), b, x)
    }

    fn pass_from_zero(
        &self,
        gpu: &Gpu,
        count: usize,
        backward: bool,
        b: &Slice<V>,
        x: &mut Slice<V>,
        _: &mut Buffer<V>,
    ) -> Result<()> {
        gpu.failed()?;
        // Whole lines are written before they are read, but for rings of an odd number of lines. A launch for half of a line reads the other half.
        if self.threads.is_none() || self.colours.has_odd_rings() {
            gpu.fill(V::ZERO, x);
        }
        self.run((count, backward, true), b, x)
    }

    fn residual_from_zero(&self, gpu: &Gpu, backward: bool, x: &Slice<V>, r: &mut Slice<V>) -> Result<bool> {
        gpu.failed()?;
        let is_exact = Colours::<Gpu, V>::solves_exactly(self) && x.len() == self.pattern.scalar_rows();
        let later = self.colours.later(&self.pattern, backward).filter(|_| is_exact);
        let (Some(kernel), Some(later)) = (self.residual_from_zero, later) else { return Ok(false) };
        let [_, ny, nz] = self.pattern.grid.dims;
        let later =
            LaterLines { of: later.map(i32::from), two: i32::from(self.colours.two), classes: ny.min(2) as i32 };
        let shape = self.shape.with(&[x.view(), r.view()], self.pack, (V::PRECISION, <V::Wide as Number>::PRECISION));
        let blocks = (self.shape.pitch as usize / self.pack * ny * nz).div_ceil(BLOCK);
        let (backward, format) = (i32::from(backward), tag::<V>());
        // About half of the entries are read.
        let (all, read) = (self.pattern.offsets.len(), self.pattern.offsets.len().div_ceil(2));
        let values = self.values.view().share(read, all);
        self.gpu.launch_blocks(
            kernel,
            blocks,
            &[&shape, &later, &backward, &values, &self.inverse.view(), &format, &x.view(), &r.view()],
        )?;
        Ok(true)
    }

    fn bytes(&self) -> usize {
        let values = if self.shared { 0 } else { self.values.owned_bytes() };
        values + self.inverse.owned_bytes()
    }
}
