//! Multicolour Gauss-Seidel: one launch for each colour, a group of lanes for each row. The rows of the matrix are
//! permuted by colour, so that neighbouring groups read contiguous memory.

use super::runtime::{Kernel, tag};
use super::setup::DeviceCsr;
use super::setup::colouring::DeviceColouring;
use super::{Buffer, Gpu, Slice};
use crate::backend::Colours;
use crate::error::{Result, fail};
use crate::scalar::{Number, Precision};

/// Most rows of a block, as in `kernels/multicolour.cu`.
const MAX_BLOCK: usize = 8;

/// Entries for each lane of long rows.
const ENTRIES: usize = 4;

/// The matrix of a level, rows permuted by colour.
pub(super) struct Multicolour<S> {
    gpu: Gpu,
    kernel: Kernel,
    /// First row of each colour, and the end.
    starts: Vec<usize>,
    /// Lanes of a group.
    lanes: usize,
    /// Rows of a block.
    width: usize,
    /// Whether `inverse` is that of blocks.
    whole: bool,
    /// The permutation: the original number of each row.
    rows: Buffer<i32>,
    matrix: DeviceCsr<S>,
    inverse: Buffer<S>,
}

impl<S: Number> Multicolour<S> {
    /// For vectors of precision `V`; `inverse` is that of the diagonal or of the diagonal blocks.
    pub fn new<V: Number>(
        gpu: &Gpu,
        a: &DeviceCsr<S>,
        inverse: &Slice<S>,
        colouring: DeviceColouring,
    ) -> Result<Multicolour<S>> {
        let (width, entries) = (a.block.rows, a.nnz());
        if width > MAX_BLOCK {
            return fail!(
                Unsupported,
                "blocks of {width} rows are too large for Gauss-Seidel on GPUs: up to {MAX_BLOCK}"
            );
        }
        let kind = if width == 1 { "multicolour" } else { "multicolour_blocks" };
        let names = [S::PRECISION, <V::Wide as Number>::PRECISION].map(Precision::name).join("_");
        Ok(Multicolour {
            gpu: gpu.clone(),
            kernel: gpu.kernel(&format!("{kind}_{names}"))?,
            lanes: entries.div_ceil(ENTRIES * a.rows.max(1)).next_power_of_two().min(32),
            width,
            whole: inverse.len() > width * a.rows,
            matrix: colouring.reorder(gpu, a)?,
            inverse: colouring.reorder_numbers(gpu, inverse)?,
            starts: colouring.starts,
            rows: colouring.rows,
        })
    }

    fn solve<V: Number>(&self, colour: usize, backward: bool, b: &Slice<V>, x: &mut Slice<V>) -> Result<()> {
        let (start, end) = (self.starts[colour], self.starts[colour + 1]);
        let DeviceCsr { offsets, columns, values, .. } = &self.matrix;
        let (first, count, lanes, backward) =
            (start as i64, (end - start) as i64, self.lanes as i32, i32::from(backward));
        let (rows, offsets, columns) = (self.rows.view(), offsets.view(), columns.view());
        let (values, inverse, format) = (values.view(), self.inverse.view(), tag::<V>());
        let (b, x) = (b.view(), x.view());
        let (width, whole) = (self.width as i32, i32::from(self.whole));
        let threads = (end - start) * self.lanes;
        if self.width == 1 {
            return self.gpu.launch(
                self.kernel,
                threads,
                &[&first, &count, &lanes, &backward, &rows, &offsets, &columns, &values, &inverse, &format, &b, &x],
            );
        }
        self.gpu.launch(
            self.kernel,
            threads,
            &[
                &first, &count, &lanes, &backward, &rows, &offsets, &columns, &values, &inverse, &format, &b, &x,
                &width, &whole,
            ],
        )
    }
}

impl<S: Number, V: Number> Colours<Gpu, V> for Multicolour<S> {
    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn solves_exactly(&self) -> bool {
        self.width == 1 || self.whole
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
        for k in 0..count {
            self.solve(if backward { count - 1 - k } else { k }, backward, b, x)?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.matrix.bytes() + self.rows.len() * size_of::<i32>() + self.inverse.len() * size_of::<S>()
    }
}
