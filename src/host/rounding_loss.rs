//! Rounding losses of levels in 16 bits, relative to their smoothest vectors.

use super::spmv;
use crate::backend::common::{SAMPLE_CHUNK, is_sampled};
use crate::backend::setup::{Candidate, Loss, Losses, Measured};
use crate::error::{Result, try_vec};
use crate::host::Host;
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::CsrView;
use half::{bf16, f16};

/// Measures all levels, given a smooth vector of the coarsest.
pub(crate) fn measure<T: Scalar>(levels: &[Candidate<'_, Host, T>], smooth: Vec<f64>) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    let mut w = smooth;
    for (i, level) in levels.iter().enumerate().rev() {
        let a = level.matrix.to_rows()?;
        let a = Scaled { matrix: a.view(), left: level.factors, right: level.factors, is_transfer: false };
        all.push(match level.prolongator {
            None => of_level(&a, &w, None)?,
            Some(p) => {
                let in_rows = p.to_rows()?;
                let below = levels.get(i + 1).and_then(|below| below.factors);
                let p = Scaled { matrix: in_rows.view(), left: level.factors, right: below, is_transfer: true };
                let mut fine = try_vec(p.matrix.scalar_rows(), 0.0)?;
                spmv::apply(&p.matrix, 1.0, &w, 0.0, &mut fine);
                let coarse = std::mem::replace(&mut w, fine);
                of_level(&a, &w, Some((&p, &coarse)))?
            }
        });
    }
    all.reverse();
    Ok(all)
}

/// S^-1 A S^-1 or S P S_c^-1, given A or P; without factors S is the identity.
struct Scaled<'a, T> {
    matrix: CsrView<'a, T>,
    left: Option<&'a Vec<f64>>,
    right: Option<&'a Vec<f64>>,
    is_transfer: bool,
}

/// What rounding does to a row.
#[derive(Default)]
struct RowLoss {
    error: f64,
    vanished: f64,
}

impl RowLoss {
    fn add<S: Number>(&mut self, exact: f64, x: f64) {
        let rounded = S::from_f64(exact).to_f64();
        self.error += (rounded - exact) * x;
        self.vanished += if rounded == 0.0 { exact.abs() } else { 0.0 };
    }
}

/// What was found of a row. Its product with x, its diagonal, the sum of its absolute values, and losses.
#[derive(Default)]
struct Row {
    product: f64,
    diagonal: f64,
    sum: f64,
    f16: RowLoss,
    bf16: RowLoss,
}

impl<T: Scalar> Scaled<'_, T> {
    /// A scalar row, with a vector of the columns.
    fn row(&self, line: usize, w: &[f64]) -> Row {
        let (br, bc) = (self.matrix.block.rows, self.matrix.block.cols);
        let (i, r) = (line / br, line % br);
        let s = self.left.map_or(1.0, |s| s[line]);
        let left = if self.is_transfer { s } else { 1.0 / s };
        let mut row = Row::default();
        for (j, block) in self.matrix.row(i) {
            for (c, v) in block[r * bc..][..bc].iter().enumerate() {
                let (v, column) = (v.to_f64(), j * bc + c);
                let s_column = self.right.map_or(1.0, |s| s[column]);
                let (exact, x) = (v * left * (1.0 / s_column), s_column * w[column]);
                row.product += v * w[column];
                row.diagonal += if column == line { v } else { 0.0 };
                row.sum += exact.abs();
                row.f16.add::<f16>(exact, x);
                row.bf16.add::<bf16>(exact, x);
            }
        }
        row
    }

    /// Adds the losses of a row, where the level has this entry of the diagonal.
    fn add(&self, to: &mut Losses, row: &Row, line: usize, diagonal: f64) {
        let s = self.left.map_or(1.0, |s| s[line]);
        for (to, loss) in [(&mut to.f16, &row.f16), (&mut to.bf16, &row.bf16)] {
            let error = loss.error;
            to.error += match (error.is_finite(), self.is_transfer) {
                (false, _) => f64::INFINITY,
                (_, true) => error * error / (s * s) * diagonal,
                _ if error == 0.0 => 0.0,
                _ => error * error * s * s / diagonal,
            };
            to.vanished = to.vanished.max(if row.sum > 0.0 { loss.vanished / row.sum } else { 0.0 });
        }
    }
}

/// A level with its smooth vector, and its prolongator with that of the next level.
fn of_level<T: Scalar>(a: &Scaled<'_, T>, w: &[f64], p: Option<(&Scaled<'_, T>, &[f64])>) -> Result<Measured> {
    const CHUNKS: usize = 64;
    let rows = a.matrix.scalar_rows();
    let nothing = Losses { f16: Loss::default(), bf16: Loss::default() };
    let none = Measured { rows: 0.0, energy: 0.0, weight: 0.0, matrix: nothing, prolongator: nothing };
    let pieces = par::map_ranges(rows.div_ceil(SAMPLE_CHUNK), CHUNKS, |range| {
        let mut all = none;
        for chunk in range.filter(|chunk| is_sampled(*chunk, rows)) {
            for line in chunk * SAMPLE_CHUNK..((chunk + 1) * SAMPLE_CHUNK).min(rows) {
                let row = a.row(line, w);
                let diagonal = row.diagonal.abs();
                all.rows += 1.0;
                all.energy += w[line] * row.product;
                all.weight += diagonal * w[line] * w[line];
                a.add(&mut all.matrix, &row, line, diagonal);
                if let Some((p, coarse)) = p {
                    p.add(&mut all.prolongator, &p.row(line, coarse), line, diagonal);
                }
            }
        }
        Ok(all)
    })?;
    let mut all = none;
    for piece in &pieces {
        all.rows += piece.rows;
        all.energy += piece.energy;
        all.weight += piece.weight;
        for (to, from) in [(&mut all.matrix, &piece.matrix), (&mut all.prolongator, &piece.prolongator)] {
            for (to, from) in [(&mut to.f16, &from.f16), (&mut to.bf16, &from.bf16)] {
                to.error += from.error;
                to.vanished = to.vanished.max(from.vanished);
            }
        }
    }
    for losses in [&mut all.matrix, &mut all.prolongator] {
        losses.f16.error /= all.weight;
        losses.bf16.error /= all.weight;
    }
    if p.is_none() {
        all.prolongator = Losses::OUT_OF_RANGE;
    }
    Ok(all)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::HostMatrix;

    fn losses(a: &crate::sparse::Csr<f64>, s: &Vec<f64>, w: &[f64]) -> Measured {
        let matrix: HostMatrix<f64> = a.clone().into_shared().into();
        let level = Candidate { matrix: &matrix, prolongator: None, factors: Some(s) };
        measure::<f64>(&[level], w.to_vec()).unwrap()[0]
    }

    #[test]
    fn exact_entries_cost_nothing_and_others_what_their_rounding_does() {
        let a = gallery::poisson5(20, 20).unwrap();
        let (ones, w) = (vec![1.0; 400], vec![1.0; 400]);
        let found = losses(&a, &ones, &w);
        assert_eq!((found.matrix.f16.error, found.matrix.f16.vanished), (0.0, 0.0));
        // Constants cost a quarter of what a row at the boundary lacks: 80 rows of 400, corners twice.
        assert!((found.energy / found.weight - 80.0 / 1600.0).abs() < 1e-14 && found.rows == 400.0);

        let mut third = a.clone();
        third.values.iter_mut().for_each(|v| *v /= 3.0);
        let found = losses(&third, &ones, &w).matrix;
        let (f, b) = (found.f16.error.sqrt(), found.bf16.error.sqrt());
        assert!(f > 0.0 && f < 1.0 / 2048.0 && (b / f) > 2.0 && b < 1.0 / 256.0, "{f} {b}");
        assert_eq!(losses(&third, &vec![1e-4; 400], &w).matrix.f16.error, f64::INFINITY);
        assert_eq!(losses(&third, &vec![1e5; 400], &w).matrix.f16.vanished, 1.0);
    }
}
