//! What rounding a level to 16 bits would cost, found on the device: the measures of [`crate::amg::plan`], whose
//! numbers alone come to the host. Sums are added in another order than there.

use super::scaling::{Factors, MAX_BLOCKS, over_values, shape};
use super::{DeviceCsr, diagonal};
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Scalar;

/// Numbers of a matrix, as in `kernels/rounding_loss.cu`.
const NUMBERS: usize = 6;

/// Absolute values of the diagonal, and random numbers between -1 and 1 in the units of the rows: the right-hand side
/// that a rehearsal begins with.
pub(crate) fn start<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<(Buffer<f64>, Buffer<f64>)> {
    let d = diagonal::entries(gpu, a)?;
    let (n, b) = (d.len(), gpu.allocate::<f64>(d.len())?);
    gpu.launch(gpu.kernel("reference_cycle_start")?, n, &[&(n as i64), &d.view(), &b.view()])?;
    Ok((d, b))
}

/// A matrix of a level, or the prolongator to it, that is to be measured.
pub(crate) struct Candidate<'a, T> {
    pub matrix: &'a DeviceCsr<T>,
    pub is_transfer: bool,
    /// The diagonal of the level's matrix, of any sign; none where only the energy is wanted.
    pub diagonal: Option<&'a Slice<f64>>,
    /// A smooth vector of the level, and one of the level that columns belong to.
    pub smooth: (&'a Slice<f64>, &'a Slice<f64>),
    /// Factors of rows and columns, where those are scaled; none where losses are not wanted.
    pub losses: Option<(Option<&'a Factors>, Option<&'a Factors>)>,
}

/// What was found of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// w·A w.
    pub energy: f64,
    /// |w|_D^2.
    pub weight: f64,
    /// In f16 and bf16: |E w|_(D^-1)^2 for a matrix, |E w|_D^2 for a transfer, infinite when an entry is out of range;
    /// and the largest share of a row that vanishes.
    pub f16: (f64, f64),
    pub bf16: (f64, f64),
}

/// Measures all of them, each in one pass. Waits for the device once.
pub(crate) fn measure<T: Scalar>(gpu: &Gpu, all: &[Candidate<'_, T>]) -> Result<Vec<Measured>> {
    let parts = gpu.zeroed::<f64>(NUMBERS * MAX_BLOCKS * all.len())?;
    for (k, candidate) in all.iter().enumerate() {
        let Candidate { matrix: a, is_transfer, diagonal, smooth, losses } = candidate;
        let (n, m) = (a.scalar_rows(), a.cols * a.block.cols);
        assert!(diagonal.is_none_or(|d| d.len() == n) && smooth.0.len() == n && smooth.1.len() == m);
        fn scale(factors: Option<&Factors>) -> View<'_> {
            factors.map_or(View::NONE, |factors| factors.s.view())
        }
        let (s_rows, s_columns) = losses.map_or((View::NONE, View::NONE), |(left, right)| (scale(left), scale(right)));
        let (kernel, lanes) = over_values(gpu, a, "rounding_loss")?;
        let (rows, br, bc) = shape(a);
        let (is_transfer, losses) = (i32::from(*is_transfer), i32::from(losses.is_some()));
        let diagonal = diagonal.map_or(View::NONE, Slice::view);
        let (of_rows, of_columns) = (smooth.0.view(), smooth.1.view());
        let (offsets, columns, values) = (a.offsets.view(), a.columns.view(), a.values.view());
        let own = parts.subslice(NUMBERS * MAX_BLOCKS * k, NUMBERS * MAX_BLOCKS).view();
        let arguments: [&dyn Argument; 14] = [
            &rows,
            &br,
            &bc,
            &is_transfer,
            &losses,
            &s_rows,
            &s_columns,
            &diagonal,
            &of_rows,
            &of_columns,
            &offsets,
            &columns,
            &values,
            &own,
        ];
        gpu.launch(kernel, (n * lanes).min(MAX_BLOCKS * BLOCK), &arguments)?;
    }
    let result = gpu.allocate::<f64>(NUMBERS * all.len())?;
    gpu.launch_blocks(gpu.kernel("rounding_loss_finish")?, all.len(), &[&parts.view(), &result.view()])?;
    let numbers = gpu.fetch(&result)?;
    let each = numbers.chunks_exact(NUMBERS).map(|of| Measured {
        energy: of[0],
        weight: of[1],
        f16: (of[2], of[4]),
        bf16: (of[3], of[5]),
    });
    Ok(each.collect())
}

/// x·A x. Waits for the device.
pub(crate) fn energy<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, x: &Slice<f64>) -> Result<f64> {
    let one = Candidate { matrix: a, is_transfer: false, diagonal: None, smooth: (x, x), losses: None };
    Ok(measure(gpu, &[one])?[0].energy)
}
