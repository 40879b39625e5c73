//! A colouring of the rows of a matrix: no two rows of a colour are coupled.

use super::{SharedCsr, SharedStencil};

/// Block rows by colour, and ascending within each.
pub struct Colouring {
    /// The block rows.
    pub rows: Vec<u32>,
    /// Where each colour begins in `rows`, and the end.
    pub starts: Vec<usize>,
}

impl Colouring {
    /// Number of colours.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.rows.as_slice()) + size_of_val(self.starts.as_slice())
    }
}

/// A matrix with a colouring, for multicolour Gauss-Seidel.
pub struct Coloured<S> {
    /// The matrix.
    pub matrix: SharedCsr<S>,
    /// The inverse of its diagonal or of its diagonal blocks.
    pub inverse: Vec<S>,
    /// Its rows by colour.
    pub colouring: Colouring,
    /// Whether the matrix is shared with the level, which counts its bytes.
    pub shared: bool,
}

/// A matrix on a structured grid, whose cells have colours, with the inverse of its diagonal.
pub struct ColouredStencil<S> {
    /// The matrix.
    pub matrix: SharedStencil<S>,
    /// One value for each row, or one block for each cell. For `lines`, the factors of their matrices.
    pub inverse: Vec<S>,
    /// The axis of lines of cells whose unknowns are solved for together, in line relaxation.
    pub lines: Option<usize>,
    /// Whether the matrix is the level's own, which is counted there.
    pub shared: bool,
}
