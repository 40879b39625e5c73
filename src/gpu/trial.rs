//! A short trial of the formats of a matrix that may be the fastest.

use super::format::Format;
use super::setup::DeviceCsr;
use super::{Gpu, Slice};
use crate::backend::Operator;
use crate::error::{Result, Status};
use crate::scalar::{Number, Scalar};
use std::time::Instant;

/// Products of a round, which are launched in a row: so many that they move these bytes together, within limits. The host waits for a round once.
const MOVED: usize = 1 << 30;
const PRODUCTS: std::ops::RangeInclusive<usize> = 2..=20;

/// Rounds that are measured; the quickest counts.
const ROUNDS: usize = 2;

/// A matrix in a format that was tried.
pub(super) struct Tried<X: Number, Y: Number> {
    pub operator: Box<dyn Operator<Gpu, X, Y>>,
    pub format: Format,
}

impl Gpu {
    /// The matrix in the one of several formats whose products take the least time. Vectors are zero: what is in them makes no difference. Waits
    /// for the device.
    pub(super) fn fastest<S: Number, X: Number, Y: Number>(
        &self,
        a: &DeviceCsr<S>,
        mut formats: Vec<Format>,
    ) -> Result<Tried<X, Y>> {
        if formats.len() == 1 {
            let format = formats.remove(0);
            return Ok(Tried { operator: self.operator_as(a, &format)?, format });
        }
        let x = self.zeroed::<X>(a.cols * a.block.cols)?;
        let mut y = self.zeroed::<Y>(a.scalar_rows())?;
        let (mut least, mut best) = (f64::INFINITY, None);
        for format in formats {
            let operator = match self.operator_as::<S, X, Y>(a, &format) {
                // There is no room for a second one beside the best so far.
                Err(error) if error.status == Status::OutOfMemory && best.is_some() => continue,
                operator => operator?,
            };
            let seconds = self.seconds(&*operator, &x, &mut y)?;
            if best.is_none() || seconds < least {
                (least, best) = (seconds, Some(Tried { operator, format }));
            }
        }
        Ok(best.expect("there is a format"))
    }

    /// What a product takes.
    fn seconds<X: Number, Y: Number>(
        &self,
        a: &dyn Operator<Gpu, X, Y>,
        x: &Slice<X>,
        y: &mut Slice<Y>,
    ) -> Result<f64> {
        let bytes = a.bytes() + x.len() * size_of::<X>() + y.len() * size_of::<Y>();
        let products = (MOVED / bytes.max(1)).clamp(*PRODUCTS.start(), *PRODUCTS.end());
        let mut run = |products: usize| -> Result<f64> {
            let start = Instant::now();
            for _ in 0..products {
                a.apply(Y::Wide::ONE, x, Y::Wide::ZERO, y)?;
            }
            self.synchronize()?;
            Ok(start.elapsed().as_secs_f64() / products as f64)
        };
        // The first is slower than others: nothing is in the caches, and the device may have slept.
        run(1)?;
        (0..ROUNDS).try_fold(f64::INFINITY, |least, _| Ok(least.min(run(products)?)))
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::{Backend, Operator};
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::tests::devices;
    use crate::gpu::{Choice, Format, Gpu};
    use crate::scalar::Sums;
    use crate::sparse::{Block, Csr};

    #[test]
    fn what_is_tried_is_the_matrix_and_its_format_is_kept() {
        // Formats that are near each other: rows of about equal length.
        let (n, mut offsets, mut columns) = (9000, vec![0_i64], Vec::new());
        for i in 0..n {
            columns.extend((0..20 + i % 3).map(|k| ((i + 7 * k) % n) as i32));
            offsets.push(columns.len() as i64);
        }
        let mut a = Csr::<f64>::with_pattern(n, n, Block::SCALAR, offsets, columns).unwrap();
        a.values.iter_mut().enumerate().for_each(|(k, v)| *v = (k % 17) as f64 - 8.0);
        let x: Vec<f64> = (0..n).map(|i| (i % 13) as f64 - 6.0).collect();
        let row = |i: usize| {
            (a.offsets[i] as usize..a.offsets[i + 1] as usize).map(|k| a.values[k] * x[a.columns[k] as usize])
        };
        // Whole numbers, which any order adds up to the same.
        let expected: Vec<f64> = (0..n).map(|i| row(i).sum()).collect();
        for gpu in devices() {
            let gpu = gpu.choosing(Choice::Measured);
            let there = DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let (x, mut format): (_, Option<Format>) = (gpu.upload(&x).unwrap(), None);
            let mut names = Vec::new();
            for _ in 0..2 {
                let operator: Box<dyn Operator<Gpu, f64>> =
                    gpu.operator_in(there.clone(), Sums::Wide, &mut format).unwrap();
                let mut y = gpu.upload(&vec![f64::NAN; n]).unwrap();
                operator.apply(1.0, &x, 0.0, &mut y).unwrap();
                assert_eq!(gpu.fetch(&y).unwrap(), expected, "{}", operator.format());
                assert!(format.is_some());
                names.push(operator.format());
            }
            assert_eq!(names[0], names[1]);
            gpu.status().unwrap();
        }
    }

    #[cfg(terrace_sim)]
    #[test]
    fn hierarchies_are_placed_in_formats_that_were_tried() {
        use crate::{Amg, Config, Context, Matrix, gallery};
        use std::sync::Arc;

        let context = Context::new("sim").unwrap();
        let matrix: Arc<Matrix> = Arc::new(gallery::parse("poisson27:8").unwrap().into_matrix().unwrap());
        let apply = |options: &[(&str, &str)]| {
            let mut config = Config::new();
            for (key, value) in options {
                config.set_str(key, value).unwrap();
            }
            let mut amg = Amg::setup(&context, &matrix, &config).unwrap();
            let (b, mut x) = (vec![1.0_f64; matrix.rows()], vec![0.0_f64; matrix.rows()]);
            amg.apply(&b, &mut x).unwrap();
            amg.update().unwrap();
            let mut again = vec![0.0; matrix.rows()];
            amg.apply(&b, &mut again).unwrap();
            assert_eq!(x, again, "an update keeps the formats");
            assert!(amg.report().levels.iter().all(|level| !level.format.is_empty()));
            x
        };
        let counted = apply(&[]);
        for options in [&[("gpu.format", "measured")][..], &[("gpu.format", "measured"), ("amg.setup", "host")]] {
            let measured = apply(options);
            let scale = counted.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
            let off = counted.iter().zip(&measured).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(off <= 1e-12 * scale, "{off} of {scale}");
        }
    }
}
