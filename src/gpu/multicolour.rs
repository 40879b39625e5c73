//! Multicolour Gauss-Seidel: one launch for each colour, a group of lanes for each row. The matrix is copied with its rows in the order of the
//! colours, so that neighbouring groups read neighbouring memory.

use super::runtime::{Kernel, tag};
use super::setup::DeviceCsr;
use super::{Buffer, Gpu, Slice};
use crate::error::{Result, fail, try_capacity};
use crate::host::multicolour::Coloured;
use crate::scalar::{Number, Precision};
use crate::smooth::gauss_seidel::Colours;
use std::sync::Arc;

/// Most rows of a block, as in `kernels/multicolour.cu`.
const MAX_BLOCK: usize = 8;

/// Entries that a lane handles where rows are long enough.
const ENTRIES: usize = 4;

/// The matrix of a level by colours.
pub(super) struct Multicolour<S> {
    gpu: Gpu,
    kernel: Kernel,
    /// Where each colour begins among the rows, and the end.
    starts: Vec<usize>,
    /// Lanes of a group.
    lanes: usize,
    /// Rows of a block.
    width: usize,
    /// Whether `inverse` is that of blocks.
    whole: bool,
    /// The number of each row, in the order of the colours, in which all arrays are.
    rows: Buffer<i32>,
    matrix: DeviceCsr<S>,
    inverse: Buffer<S>,
}

impl<S: Number> Multicolour<S> {
    /// For vectors of precision `V`.
    pub fn new<V: Number>(gpu: &Gpu, coloured: &Coloured<S>) -> Result<Multicolour<S>> {
        let Coloured { matrix, inverse, colouring, .. } = coloured;
        let a = matrix.view();
        let (width, entries) = (a.block.rows, a.nnz());
        if width > MAX_BLOCK {
            return fail!(
                Unsupported,
                "blocks of {width} rows are too large for Gauss-Seidel on GPUs: up to {MAX_BLOCK}"
            );
        }
        let share = inverse.len() / a.rows.max(1);
        let mut rows: Vec<i32> = try_capacity(a.rows)?;
        let mut offsets: Vec<i64> = try_capacity(a.rows + 1)?;
        let mut columns: Vec<i32> = try_capacity(entries)?;
        let mut values: Vec<S> = try_capacity(a.values.len())?;
        let mut by_colour: Vec<S> = try_capacity(inverse.len())?;
        offsets.push(0);
        for i in &colouring.rows {
            let i = *i as usize;
            for k in a.row_range(i) {
                columns.push(a.col(k) as i32);
                values.extend_from_slice(a.block_at(k));
            }
            rows.push(i as i32);
            offsets.push(columns.len() as i64);
            by_colour.extend_from_slice(&inverse[i * share..][..share]);
        }
        let kind = if width == 1 { "multicolour" } else { "multicolour_blocks" };
        let names = [S::PRECISION, <V::Wide as Number>::PRECISION].map(Precision::name).join("_");
        Ok(Multicolour {
            gpu: gpu.clone(),
            kernel: gpu.kernel(&format!("{kind}_{names}"))?,
            starts: colouring.starts.clone(),
            lanes: entries.div_ceil(ENTRIES * a.rows.max(1)).next_power_of_two().min(32),
            width,
            whole: share > width,
            rows: gpu.upload(&rows)?,
            matrix: DeviceCsr {
                rows: a.rows,
                cols: a.cols,
                block: a.block,
                offsets: Arc::new(gpu.upload(&offsets)?),
                columns: Arc::new(gpu.upload(&columns)?),
                values: Arc::new(gpu.upload(&values)?),
            },
            inverse: gpu.upload(&by_colour)?,
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
