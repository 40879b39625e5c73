//! The strength graph of a matrix, which coarsening and interpolation use.

use super::{Block, CsrView, Offsets, transpose};
use crate::error::{Result, try_vec};

/// For each block row the columns of its strong couplings without the diagonal, in the order of the matrix.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "unit-tests", derive(Clone))]
pub struct Graph {
    /// Row offsets.
    pub offsets: Vec<i64>,
    /// Columns.
    pub columns: Vec<i32>,
}

impl Graph {
    /// One without rows.
    pub fn empty() -> Result<Graph> {
        Ok(Graph { offsets: try_vec(1, 0)?, columns: try_vec(0, 0)? })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Strong columns of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &[i32] {
        &self.columns[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// The transpose.
    pub fn transpose(&self) -> Result<Graph> {
        let n = self.rows();
        // The view has a pattern alone.
        let view = CsrView::<f64> {
            rows: n,
            cols: n,
            block: Block::SCALAR,
            offsets: Offsets::I64(&self.offsets),
            columns: &self.columns,
            values: &[],
            base: 0,
        };
        let (offsets, columns) = transpose::pattern(&view)?;
        Ok(Graph { offsets, columns })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.offsets.as_slice()) + size_of_val(self.columns.as_slice())
    }
}
