//! Symmetric patterns without their diagonal.

use crate::error::{Result, try_capacity, try_reserve, try_vec};
use crate::sparse::Csr;

/// A symmetric pattern without its diagonal; columns ascend in each row.
pub struct Pattern {
    /// Where each row begins, and the end.
    pub offsets: Vec<usize>,
    /// The columns.
    pub columns: Vec<i32>,
}

impl Pattern {
    /// Its rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The columns of a row.
    pub fn row(&self, i: usize) -> &[i32] {
        &self.columns[self.offsets[i]..self.offsets[i + 1]]
    }

    /// That of A + Aᵀ, for a matrix and its transpose with sorted rows.
    pub fn sum(a: &Csr<f64>, transpose: &Csr<f64>) -> Result<Pattern> {
        let n = a.rows;
        let mut offsets = try_capacity(n + 1)?;
        let mut columns = try_capacity(a.columns.len() + transpose.columns.len())?;
        offsets.push(0);
        for i in 0..n {
            let (a, b) = (columns_of(a, i), columns_of(transpose, i));
            let (mut p, mut q) = (0, 0);
            while p < a.len() || q < b.len() {
                let next = match (a.get(p), b.get(q)) {
                    (Some(a), Some(b)) => *a.min(b),
                    (Some(a), None) => *a,
                    (None, Some(b)) => *b,
                    (None, None) => break,
                };
                p += usize::from(a.get(p) == Some(&next));
                q += usize::from(b.get(q) == Some(&next));
                if next != i as i32 {
                    columns.push(next);
                }
            }
            offsets.push(columns.len());
        }
        Ok(Pattern { offsets, columns })
    }

    /// That of AᵀA, for the transpose of a matrix. Rows of A with more than `dense` entries are left out, because each of
    /// them is a full block.
    pub fn product(a: &Csr<f64>, transpose: &Csr<f64>, dense: usize) -> Result<Pattern> {
        let n = transpose.rows;
        let mut offsets = try_capacity(n + 1)?;
        let mut columns: Vec<i32> = Vec::new();
        let mut seen = try_vec(n, 0_u32)?;
        offsets.push(0);
        for j in 0..n {
            let start = columns.len();
            seen[j] = j as u32 + 1;
            for &i in columns_of(transpose, j) {
                let row = columns_of(a, i as usize);
                if row.len() > dense {
                    continue;
                }
                try_reserve(&mut columns, row.len())?;
                for &k in row {
                    if seen[k as usize] != j as u32 + 1 {
                        seen[k as usize] = j as u32 + 1;
                        columns.push(k);
                    }
                }
            }
            columns[start..].sort_unstable();
            offsets.push(columns.len());
        }
        Ok(Pattern { offsets, columns })
    }
}

/// The columns of a row of a scalar matrix.
pub fn columns_of(a: &Csr<f64>, i: usize) -> &[i32] {
    &a.columns[a.offsets[i] as usize..a.offsets[i + 1] as usize]
}
