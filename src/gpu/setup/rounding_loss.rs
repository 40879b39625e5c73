//! What rounding a level to 16 bits would cost, found on the device as in [`crate::host::rounding_loss`]; numbers alone come to
//! the host. Sums are added in another order than there.

use super::scaling::{Factors, MAX_BLOCKS, over_values, shape};
use super::{DeviceCsr, diagonal};
use crate::backend::setup::{Loss, Losses, Measured};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;

/// Numbers of a matrix, as in `kernels/rounding_loss.cu`.
const NUMBERS: usize = 7;

/// Absolute values of the diagonal, and random numbers between -1 and 1 in the units of the rows: the right-hand side
/// that inverse iterations begin with.
pub(crate) fn start<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<(Buffer<f64>, Buffer<f64>)> {
    let d = diagonal::entries(gpu, a)?;
    let (n, b) = (d.len(), gpu.allocate::<f64>(d.len())?);
    gpu.launch(gpu.kernel("inverse_iteration_start")?, n, &[&(n as i64), &d.view(), &b.view()])?;
    Ok((d, b))
}

/// A level that is measured: its matrix, the prolongator from the next level, and its factors.
pub(crate) struct Level<'a, T> {
    pub matrix: &'a DeviceCsr<T>,
    pub prolongator: Option<&'a DeviceCsr<T>>,
    pub factors: Option<&'a Factors>,
}

/// A matrix or prolongator with the diagonal of its level, its factors, and the vectors of its rows and columns.
struct Part<'a, T> {
    matrix: &'a DeviceCsr<T>,
    is_transfer: bool,
    factors: [Option<&'a Factors>; 2],
    diagonal: &'a Slice<f64>,
    of_rows: &'a Slice<f64>,
    of_columns: &'a Slice<f64>,
    /// Which rows of the level matter, in blocks of so many, where not all do.
    marks: Option<&'a Slice<i32>>,
    per_mark: usize,
}

impl<T: Scalar> Part<'_, T> {
    fn launch(&self, gpu: &Gpu, parts: View<'_>) -> Result<()> {
        let (a, n) = (self.matrix, self.matrix.scalar_rows());
        assert!(self.diagonal.len() == n && self.of_rows.len() == n);
        assert!(self.of_columns.len() == a.cols * a.block.cols);
        let [s_rows, s_columns] = self.factors.map(|s| s.map_or(View::NONE, |factors| factors.s.view()));
        let (kernel, lanes) = over_values(gpu, a, "rounding_loss")?;
        let ((rows, br, bc), is_transfer) = (shape(a), i32::from(self.is_transfer));
        let (diagonal, of_rows, of_columns) = (self.diagonal.view(), self.of_rows.view(), self.of_columns.view());
        let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
        let (marks, per_mark) = (self.marks.map_or(View::NONE, Slice::view), self.per_mark as i32);
        let arguments: [&dyn Argument; 15] = [
            &rows,
            &br,
            &bc,
            &is_transfer,
            &per_mark,
            &marks,
            &s_rows,
            &s_columns,
            &diagonal,
            &of_rows,
            &of_columns,
            &offsets,
            &columns,
            &values,
            &parts,
        ];
        gpu.launch(kernel, (n * lanes).min(MAX_BLOCKS * BLOCK), &arguments)
    }
}

/// Absolute values of the diagonal in the rows of the sample. Block rows that these are coupled with are marked.
fn sample_diagonal<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, marks: Option<&Slice<i32>>) -> Result<Buffer<f64>> {
    let (n, (rows, br, _)) = (a.scalar_rows(), shape(a));
    let d = gpu.allocate::<f64>(n)?;
    let kernel = gpu.kernel(&format!("sample_diagonal_{}", T::PRECISION.name()))?;
    let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
    let marks = marks.map_or(View::NONE, Slice::view);
    gpu.launch(kernel, n, &[&rows, &br, &offsets, &columns, &values, &d.view(), &marks])?;
    Ok(d)
}

/// Measures all levels, given a smooth vector of the coarsest. Waits for the device once.
pub(crate) fn measure<T: Scalar>(gpu: &Gpu, levels: &[Level<'_, T>], smooth: Buffer<f64>) -> Result<Vec<Measured>> {
    let count = 2 * levels.len();
    let parts = gpu.zeroed::<f64>(NUMBERS * MAX_BLOCKS * count)?;
    let part = |k: usize| parts.subslice(NUMBERS * MAX_BLOCKS * k, NUMBERS * MAX_BLOCKS).view();
    let mut w = smooth;
    for (i, level) in levels.iter().enumerate().rev() {
        let per_mark = level.matrix.block.rows;
        // Of the finest level, w matters where the sample is coupled with it.
        let marks = if i == 0 { Some(gpu.zeroed::<i32>(level.matrix.rows)?) } else { None };
        let marks = marks.as_deref();
        let d = sample_diagonal(gpu, level.matrix, marks)?;
        if let Some(p) = level.prolongator {
            let below = levels.get(i + 1).and_then(|below| below.factors);
            let fine = gpu.allocate::<f64>(d.len())?;
            let factors = [level.factors, below];
            let (of_rows, of_columns) = (&*fine, &*w);
            Part { matrix: p, is_transfer: true, factors, diagonal: &d, of_rows, of_columns, marks, per_mark }
                .launch(gpu, part(2 * i + 1))?;
            w = fine;
        }
        let (matrix, factors) = (level.matrix, [level.factors; 2]);
        let (of_rows, of_columns) = (&*w, &*w);
        Part { matrix, is_transfer: false, factors, diagonal: &d, of_rows, of_columns, marks: None, per_mark }
            .launch(gpu, part(2 * i))?;
    }
    let result = gpu.allocate::<f64>(NUMBERS * count)?;
    gpu.launch_blocks(gpu.kernel("rounding_loss_finish")?, count, &[&parts.view(), &result.view()])?;
    let numbers = gpu.fetch(&result)?;
    let each = numbers.chunks_exact(2 * NUMBERS).zip(levels).map(|(of, level)| {
        let weight = of[2];
        let losses = |of: &[f64]| Losses {
            f16: Loss { error: of[3] / weight, vanished: of[5] },
            bf16: Loss { error: of[4] / weight, vanished: of[6] },
        };
        let prolongator = level.prolongator.map_or(Losses::OUT_OF_RANGE, |_| losses(&of[NUMBERS..]));
        Measured { rows: of[0], energy: of[1], weight, matrix: losses(of), prolongator }
    });
    Ok(each.collect())
}
