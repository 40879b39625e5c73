//! Matrices on structured grids in device memory (`kernels/stencil.cu`): one array over all cells for each entry of the stencil. Where it costs
//! little memory, lines of cells are padded, so that threads read packs of neighbouring cells.

use super::multivector;
use super::product::{Epilogue, Precisions, Product, Values};
use super::runtime::{Argument, BLOCK, Kernel, View};
use super::signature::Type;
use super::{Buffer, Gpu};
use crate::error::{Result, try_vec};
use crate::par;
use crate::scalar::{Number, Precision};
use crate::sparse::{MAX_OFFSETS, SharedStencil, Stencil};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// Lines of cells that a stencil reaches, as in `kernels/stencil.h`.
const MAX_LINES: usize = 9;

/// Padding of at most this share of a line is worth packs.
const PADDING: usize = 8;

/// The struct of `kernels/stencil.h`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct StencilShape {
    dims: [i32; 3],
    periodic: [i32; 3],
    pub(super) pitch: i32,
    block: i32,
    lines: i32,
    dy: [i32; MAX_LINES],
    dz: [i32; MAX_LINES],
    number: [i32; 3 * MAX_LINES],
    left_out: i32,
    aligned: i32,
}

/// Alignment of packs of a vector, in bytes.
const ALIGNED: u64 = 16;

impl StencilShape {
    /// The same for products with these vectors, whose elements are read in packs where that is possible.
    pub fn with(self, vectors: &[View<'_>], pack: usize, precisions: (Precision, Precision)) -> StencilShape {
        let (vector, sums) = precisions;
        let are_aligned = vectors.iter().all(|x| x.array().address().is_multiple_of(ALIGNED));
        let in_packs = (self.dims[0] as usize).is_multiple_of(pack) && are_aligned;
        let whole = vector == sums && in_packs;
        StencilShape { aligned: i32::from(whole), ..self }
    }

    /// The same for kernels that read pairs of these values, which begin with an even cell, where lines and memory allow it.
    pub fn in_pairs(self, values: View<'_>) -> StencilShape {
        let aligned = self.pitch % 2 == 0 && values.array().address().is_multiple_of(ALIGNED);
        StencilShape { aligned: i32::from(aligned), ..self }
    }

    /// The same without some of the lines, as bits.
    pub fn without_lines(self, left_out: u16) -> StencilShape {
        StencilShape { left_out: i32::from(left_out), ..self }
    }

    /// Offsets of the lines that are not left out.
    pub fn offsets(&self) -> usize {
        let lines = self.number.chunks_exact(3).enumerate().filter(|(l, _)| self.left_out >> l & 1 == 0);
        lines.flat_map(|(_, numbers)| numbers).filter(|number| **number >= 0).count()
    }

    /// What the names of kernels end with that are compiled for these lines: none for lines that are looked up, as those of periodic grids are.
    fn known_lines(&self) -> Option<&'static str> {
        // Their steps along y and z, and the numbers of their offsets, as in `kernels/stencil.h`.
        let of_box: [_; 9] = std::array::from_fn(|l| {
            let (step, first) = (l as i32, 3 * l as i32);
            ([step % 3 - 1, step / 3 - 1], [first, first + 1, first + 2])
        });
        let of_star = [
            ([0, -1], [-1, 0, -1]),
            ([-1, 0], [-1, 1, -1]),
            ([0, 0], [2, 3, 4]),
            ([1, 0], [-1, 5, -1]),
            ([0, 1], [-1, 6, -1]),
        ];
        let are = |lines: &[([i32; 2], [i32; 3])]| {
            let own = (0..self.lines as usize).map(|l| {
                let numbers = std::array::from_fn(|d| self.number[3 * l + d]);
                ([self.dy[l], self.dz[l]], numbers)
            });
            own.eq(lines.iter().copied())
        };
        match self.periodic == [0; 3] && self.block == 1 {
            true if are(&of_box) => Some("_box"),
            true if are(&of_star) => Some("_star"),
            _ => None,
        }
    }

    /// That of a stencil whose lines have so many elements.
    fn new(stencil: &Stencil, pitch: usize) -> StencilShape {
        let grid = &stencil.grid;
        let mut shape = StencilShape {
            dims: grid.dims.map(|n| n as i32),
            periodic: grid.periodic.map(i32::from),
            pitch: pitch as i32,
            block: stencil.block as i32,
            lines: stencil.lines.len() as i32,
            dy: [0; MAX_LINES],
            dz: [0; MAX_LINES],
            number: [-1; 3 * MAX_LINES],
            left_out: 0,
            aligned: 0,
        };
        for (l, line) in stencil.lines.iter().enumerate() {
            (shape.dy[l], shape.dz[l]) = (i32::from(line.to[0]), i32::from(line.to[1]));
            for (step, number) in &line.steps {
                shape.number[3 * l + (step + 1) as usize] = *number as i32;
            }
        }
        shape
    }
}

/// Elements of a line of values: padded for the largest pack that costs little memory. Cells with other numbers of unknowns are read one by one.
fn pitch(stencil: &Stencil) -> usize {
    let nx = stencil.grid.dims[0];
    let padded = [4, 2].map(|pack| nx.next_multiple_of(pack)).into_iter().find(|padded| (padded - nx) * PADDING <= nx);
    padded.filter(|_| [1, 3, 4].contains(&stencil.block)).unwrap_or(nx)
}

// SAFETY: the layout of the struct in `kernels/stencil.h`.
unsafe impl Argument for StencilShape {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<StencilShape>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("StencilShape")
    }
}

/// Cells of a thread, as `CELLS` in `kernels/stencil.h`.
fn cells_of_thread(storage: Precision) -> usize {
    match storage.bytes() {
        2 => 4,
        bytes => 16 / bytes,
    }
}

/// The offsets of a stencil in the order of their arrays: the struct of `kernels/stencil.h`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct StencilOffsets {
    count: i32,
    code: [i32; MAX_OFFSETS],
    opposite: [i32; MAX_OFFSETS],
}

impl StencilOffsets {
    /// Those of a stencil.
    pub fn new(stencil: &Stencil) -> StencilOffsets {
        let (mut code, mut opposite) = ([0; MAX_OFFSETS], [-1; MAX_OFFSETS]);
        for (k, [x, y, z]) in stencil.offsets.iter().enumerate() {
            code[k] = i32::from(x + 1) + 3 * i32::from(y + 1) + 9 * i32::from(z + 1);
            opposite[k] = stencil.find([-x, -y, -z]).map_or(-1, |number| number as i32);
        }
        StencilOffsets { count: stencil.offsets.len() as i32, code, opposite }
    }
}

// SAFETY: the layout of the struct in `kernels/stencil.h`.
unsafe impl Argument for StencilOffsets {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<StencilOffsets>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("StencilOffsets")
    }
}

/// The numbers of the offsets of a stencil by their codes, or -1: the struct of `kernels/stencil.h`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct StencilNumbers {
    of: [i32; MAX_OFFSETS],
}

impl StencilNumbers {
    /// Those of a stencil.
    pub fn new(stencil: &Stencil) -> StencilNumbers {
        let StencilOffsets { count, code, .. } = StencilOffsets::new(stencil);
        let mut of = [-1; MAX_OFFSETS];
        (0..count).for_each(|k| of[code[k as usize] as usize] = k);
        StencilNumbers { of }
    }
}

// SAFETY: the layout of the struct in `kernels/stencil.h`.
unsafe impl Argument for StencilNumbers {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<StencilNumbers>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Value("StencilNumbers")
    }
}

/// A matrix on a structured grid in device memory. Clones share the arrays.
pub(crate) struct DeviceStencil<S> {
    /// The pattern.
    pub pattern: Arc<Stencil>,
    /// Elements of a line of values: padded, but for those of a caller.
    pub pitch: usize,
    /// The values.
    pub values: Arc<Buffer<S>>,
    /// What is known of the values, for the next step of set-up that asks.
    pub(super) known: Arc<Known>,
}

/// What the pass for symmetry has found, until it is taken.
#[derive(Default)]
pub(super) struct Known {
    /// The mean coupling along each axis.
    pub couplings: Mutex<Option<[f64; 3]>>,
    /// Whether every entry is equal to the mirrored one.
    pub is_symmetric: Mutex<Option<bool>>,
    /// The narrowest format that holds every value exactly.
    pub narrowest: Mutex<Option<Precision>>,
}

impl<S> Clone for DeviceStencil<S> {
    fn clone(&self) -> Self {
        let DeviceStencil { pattern, pitch, values, known } = self;
        let (pattern, values, known) = (Arc::clone(pattern), Arc::clone(values), Arc::clone(known));
        DeviceStencil { pattern, pitch: *pitch, values, known }
    }
}

impl<S: Number> DeviceStencil<S> {
    /// Of values whose lines have so many elements.
    pub fn new(pattern: Arc<Stencil>, pitch: usize, values: Arc<Buffer<S>>) -> DeviceStencil<S> {
        DeviceStencil { pattern, pitch, values, known: Arc::default() }
    }

    /// A copy of a matrix of the host.
    pub fn upload(gpu: &Gpu, matrix: &SharedStencil<S>) -> Result<DeviceStencil<S>> {
        let (pattern, nx) = (Arc::clone(&matrix.pattern), matrix.pattern.grid.dims[0]);
        let (pitch, from) = (pitch(&pattern), matrix.values.as_slice());
        if pitch == nx {
            return Ok(DeviceStencil::new(pattern, pitch, Arc::new(gpu.upload(from)?)));
        }
        let mut padded = try_vec(from.len() / nx * pitch, S::ZERO)?;
        par::for_each_row_mut(&mut padded, pitch, par::ROW_GRAIN, |first, lines| {
            for (line, to) in (first..).zip(lines.chunks_exact_mut(pitch)) {
                to[..nx].copy_from_slice(&from[line * nx..][..nx]);
            }
        });
        Ok(DeviceStencil::new(pattern, pitch, Arc::new(gpu.upload(&padded)?)))
    }

    /// A copy on the host. Waits for the device.
    pub fn fetch(&self, gpu: &Gpu) -> Result<SharedStencil<S>> {
        let (nx, padded) = (self.pattern.grid.dims[0], gpu.fetch(&self.values)?);
        if self.pitch == nx {
            return Ok(SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::new(padded) });
        }
        let mut values = try_vec(self.pattern.entries(), S::ZERO)?;
        for (to, from) in values.chunks_exact_mut(nx).zip(padded.chunks_exact(self.pitch)) {
            to.copy_from_slice(&from[..nx]);
        }
        Ok(SharedStencil { pattern: Arc::clone(&self.pattern), values: Arc::new(values) })
    }

    /// A stencil with padded lines, all values zero.
    pub fn zeroed(gpu: &Gpu, pattern: Arc<Stencil>) -> Result<DeviceStencil<S>> {
        let pitch = pitch(&pattern);
        let values = gpu.zeroed::<S>(pattern.entries() / pattern.grid.dims[0] * pitch)?;
        Ok(DeviceStencil::new(pattern, pitch, Arc::new(values)))
    }

    /// A stencil whose values are yet to be written; padding of lines is zero.
    pub fn unset(gpu: &Gpu, pattern: Arc<Stencil>) -> Result<DeviceStencil<S>> {
        let pitch = pitch(&pattern);
        if pitch != pattern.grid.dims[0] {
            return DeviceStencil::zeroed(gpu, pattern);
        }
        let values = gpu.allocate::<S>(pattern.entries())?;
        Ok(DeviceStencil::new(pattern, pitch, Arc::new(values)))
    }

    /// As kernels take it.
    pub(super) fn shape(&self) -> StencilShape {
        StencilShape::new(&self.pattern, self.pitch)
    }

    /// Cells of a thread; 1 where lines are not padded for so many.
    pub fn pack(&self) -> usize {
        let wanted = cells_of_thread(S::PRECISION);
        if self.pattern.block == 1 && self.pitch.is_multiple_of(wanted) { wanted } else { 1 }
    }

    /// Whether threads have two neighbouring cells of blocks, whose values they read together: not where a value has 8 bytes, nor where lines are not
    /// padded.
    pub fn has_pairs(&self) -> bool {
        let (pair, address) = (2 * size_of::<S>(), self.values.view().array().address());
        [3, 4].contains(&self.pattern.block)
            && S::PRECISION != Precision::F64
            && self.pitch.is_multiple_of(2)
            && address.is_multiple_of(pair as u64)
    }

    /// What the names of kernels for packs of its cells end with that are compiled for its lines, where the vectors are in the format of sums.
    pub fn known_lines(&self, vector: Precision, sums: Precision) -> Option<&'static str> {
        self.shape().known_lines().filter(|_| vector == sums && self.pack() > 1)
    }

    /// Whether it has kernels for multivectors (`kernels/multivector_stencil.cu`): one unknown for each cell, and lines with two ends.
    pub fn has_multivectors(&self) -> bool {
        self.pattern.block == 1 && !self.pattern.grid.periodic[0]
    }

    /// What the names of kernels for it end with, before its formats.
    pub fn kind(&self) -> &'static str {
        match self.pattern.block {
            1 => "",
            3 => "_blocks3",
            4 => "_blocks4",
            _ => "_blocks",
        }
    }
}

/// A stencil as a product.
pub(super) struct StencilProduct {
    gpu: Gpu,
    precisions: Precisions,
    kernel: Kernel,
    shape: StencilShape,
    pack: usize,
    rows: usize,
    /// The kernel for multivectors, where there is one.
    multivectors: Option<String>,
    format: String,
    values: Values,
}

impl StencilProduct {
    /// For products of these precisions.
    pub fn new<S: Number>(gpu: &Gpu, matrix: &DeviceStencil<S>, precisions: Precisions) -> Result<StencilProduct> {
        let [storage, sums] = [precisions.storage, precisions.sums].map(Precision::name);
        let known_lines = matrix.known_lines(precisions.vector, precisions.sums);
        let (kind, pack) = match (matrix.pack(), matrix.pattern.block) {
            (1, 3) if matrix.has_pairs() => ("_pairs3", 2),
            (1, 4) if matrix.has_pairs() => ("_pairs4", 2),
            (1, _) => (matrix.kind(), 1),
            (pack, _) => (known_lines.unwrap_or("_packed"), pack),
        };
        Ok(StencilProduct {
            gpu: gpu.clone(),
            precisions,
            kernel: gpu.kernel(&format!("stencil{kind}_{storage}_{sums}"))?,
            shape: matrix.shape(),
            pack,
            rows: matrix.pattern.scalar_rows(),
            multivectors: matrix.has_multivectors().then(|| format!("stencil{}", known_lines.unwrap_or_default())),
            format: matrix.pattern.format(),
            values: Arc::clone(&matrix.values).into(),
        })
    }
}

impl Product for StencilProduct {
    fn precisions(&self) -> Precisions {
        self.precisions
    }

    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.rows)
    }

    fn blocks(&self, _: &Epilogue<'_>) -> usize {
        let [_, ny, nz] = self.shape.dims.map(|n| n as usize);
        (self.shape.pitch as usize / self.pack * ny * nz).div_ceil(BLOCK)
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width == self.shape.block as usize
    }

    fn run(&self, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (values, format, blocks) = (self.values.view(), self.precisions.vector as i32, self.blocks(epilogue));
        let shape = self.shape.with(&[x], self.pack, (self.precisions.vector, self.precisions.sums));
        self.gpu.launch_blocks(self.kernel, blocks, &[&shape, &values, &format, &x, epilogue])
    }

    fn multivector_kernel(&self) -> Option<&str> {
        self.multivectors.as_deref()
    }

    fn multivector_blocks(&self, k: usize) -> usize {
        let [nx, ny, nz] = self.shape.dims.map(|n| n as usize);
        multivector::blocks_for(nx.div_ceil(2) * ny * nz * (k / multivector::OWN))
    }

    fn run_on_multivectors(&self, kernel: Kernel, k: usize, x: View<'_>, epilogue: &Epilogue<'_>) -> Result<()> {
        let (shift, values) = (k.ilog2() as i32, self.values.view());
        self.gpu.launch_blocks(kernel, self.multivector_blocks(k), &[&shift, &self.shape, &values, &x, epilogue])
    }

    fn bytes(&self) -> usize {
        self.values.owned_bytes()
    }

    fn format(&self) -> String {
        self.format.clone()
    }
}
