//! Powers of two that a matrix is scaled by from both sides, so that its units do not matter.

use super::{entry, max_norm};
use crate::error::{Result, try_vec};
use crate::sparse::Csr;

/// The power of two that makes a positive number about 1; 1 for others.
pub fn power(size: f64) -> f64 {
    match size.is_finite() && size > 0.0 {
        true => 2.0_f64.powi(-(size.log2().round() as i32).clamp(-1000, 1000)),
        false => 1.0,
    }
}

/// Powers of two that rows and columns are multiplied by.
pub struct Scales {
    /// Of each row.
    pub rows: Vec<f64>,
    /// Of each column.
    pub columns: Vec<f64>,
}

impl Scales {
    /// Those of a matrix of n rows that is not scaled.
    pub fn new(n: usize) -> Result<Scales> {
        Ok(Scales { rows: try_vec(n, 1.0)?, columns: try_vec(n, 1.0)? })
    }

    /// From both sides alike, by the root of the diagonal or, where that is zero, of the largest entry of the row.
    pub fn by_diagonal(&mut self, a: &Csr<f64>) {
        for (i, scale) in self.rows.iter_mut().enumerate() {
            let diagonal = entry(a, i, i).abs();
            *scale = power(if diagonal > 0.0 { diagonal.sqrt() } else { largest(a, i).sqrt() });
        }
        self.columns.copy_from_slice(&self.rows);
    }

    /// By the diagonal where no entry of it is zero, and what is left by the largest entry of each row and of each column.
    pub fn by_largest(&mut self, a: &Csr<f64>, transpose: &Csr<f64>) {
        if (0..a.rows).all(|i| entry(a, i, i) != 0.0) {
            self.by_diagonal(a);
        } else {
            self.rows.fill(1.0);
            self.columns.fill(1.0);
        }
        let scaled = |scales: &Scales, i: usize, k: usize| {
            (a.values[k] * scales.rows[i] * scales.columns[a.columns[k] as usize]).abs()
        };
        for i in 0..a.rows {
            let entries = a.offsets[i] as usize..a.offsets[i + 1] as usize;
            self.rows[i] *= power(entries.map(|k| scaled(self, i, k)).fold(0.0, f64::max));
        }
        for (j, scale) in self.columns.iter_mut().enumerate() {
            let entries = transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize;
            let size = |k: usize| (transpose.values[k] * *scale * self.rows[transpose.columns[k] as usize]).abs();
            *scale *= power(entries.map(size).fold(0.0, f64::max));
        }
    }
}

/// The largest magnitude in a row.
fn largest(a: &Csr<f64>, i: usize) -> f64 {
    max_norm(&a.values[a.offsets[i] as usize..a.offsets[i + 1] as usize])
}
