//! Matrix Market files, plain or gzip-compressed.
//!
//! Read: `coordinate` real, integer and pattern; general, symmetric and skew-symmetric; `array` real and integer.
//! Written: `coordinate real general` and `array real general`. Numbers are written with the shortest decimals that
//! read back to the same bits.

mod header;
mod read;
mod write;

pub use read::{read, read_dense, read_matrix};
pub use write::{write_dense, write_matrix};

use crate::error::{Result, fail, try_vec};
use crate::sparse::Csr;

/// A dense matrix or a set of vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Values, one column after the other.
    pub values: Vec<f64>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// A `coordinate` file; both triangles of a symmetric one.
    Sparse(Csr<f64>),
    /// An `array` file.
    Dense(Dense),
}

impl Contents {
    /// The sparse matrix; `name` is the file in the error sentence.
    pub fn into_matrix(self, name: &str) -> Result<Csr<f64>> {
        match self {
            Contents::Sparse(a) => Ok(a),
            Contents::Dense(_) => {
                fail!(Unsupported, "{name} holds a dense array; a sparse matrix (\"coordinate\") is expected")
            }
        }
    }

    /// The vectors; those of a `coordinate` file are filled with zeros. `name` is the file in the error sentence.
    pub fn into_dense(self, name: &str) -> Result<Dense> {
        let a = match self {
            Contents::Dense(dense) => return Ok(dense),
            Contents::Sparse(a) => a,
        };
        // Vectors have few columns; a sparse matrix given by mistake must not become a dense one.
        if a.cols > 64 {
            return fail!(
                Unsupported,
                "{name} holds a sparse matrix of {} columns; vectors (an \"array\", or at most 64 columns) are expected",
                a.cols
            );
        }
        let mut values = try_vec(a.rows * a.cols, 0.0)?;
        for i in 0..a.rows {
            for (j, value) in a.view().row(i) {
                values[j * a.rows + i] = value[0];
            }
        }
        Ok(Dense { rows: a.rows, cols: a.cols, values })
    }
}
