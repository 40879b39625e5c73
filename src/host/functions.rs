//! Systems of several unknown functions, such as displacements in three directions (hypre's unknown approach).
//!
//! Coarsening and interpolation use the couplings within functions alone, as if each function had a matrix of its own.
//! Galerkin products use the whole matrix.

use super::rows;
use crate::backend::parameters::MAX_FUNCTIONS;
use crate::backend::setup::Held;
use crate::error::{Result, try_capacity, try_copy};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView};

/// The function of each unknown of a level.
pub struct Functions {
    of: Vec<u8>,
}

impl Functions {
    /// With interleaved numbering: the unknowns of a point, one of each function, are consecutive.
    pub fn interleaved(unknowns: usize, count: usize) -> Result<Functions> {
        assert!(count <= MAX_FUNCTIONS);
        let mut of = try_capacity(unknowns)?;
        of.extend((0..unknowns).map(|i| (i % count) as u8));
        Ok(Functions { of })
    }

    /// With any numbering: that of each unknown.
    pub fn per_unknown(of: &[u8]) -> Result<Functions> {
        Ok(Functions { of: try_copy(of)? })
    }

    /// Of the coarse unknowns of a splitting.
    pub fn coarse(&self, coarse: &[bool]) -> Result<Functions> {
        let mut of = try_capacity(coarse.iter().filter(|coarse| **coarse).count())?;
        of.extend(self.of.iter().zip(coarse).filter(|(_, coarse)| **coarse).map(|(of, _)| *of));
        Ok(Functions { of })
    }

    /// The couplings of a matrix within functions.
    pub fn within<T: Scalar>(&self, a: &CsrView<'_, T>) -> Result<Csr<T>> {
        let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
            for i in range {
                for k in a.row_range(i).filter(|k| self.of[a.col(*k)] == self.of[i]) {
                    out.push(a.col(k) as i32, a.block_at(k)[0])?;
                }
                out.end_row();
            }
            Ok(())
        })?;
        Ok(Csr { rows: a.rows, cols: a.cols, block: Block::SCALAR, offsets, columns, values })
    }

    /// The function of each unknown.
    pub fn as_slice(&self) -> &[u8] {
        &self.of
    }
}

impl Held for Functions {
    fn bytes(&self) -> usize {
        self.of.len()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    #[test]
    fn couplings_between_functions_are_left_out() {
        let entries: Vec<_> = (0..4).flat_map(|i| (0..4).map(move |j| (i, j, (4 * i + j) as f64))).collect();
        let a = Csr::from_triplets(4, 4, &entries).unwrap();
        let functions = Functions::interleaved(4, 2).unwrap();
        let within = functions.within(&a.view()).unwrap();
        assert_eq!(within.offsets, [0, 2, 4, 6, 8]);
        assert_eq!(within.columns, [0, 2, 1, 3, 0, 2, 1, 3]);
        assert_eq!(within.values, [0.0, 2.0, 5.0, 7.0, 8.0, 10.0, 13.0, 15.0]);
    }

    #[test]
    fn coarse_unknowns_keep_their_function() {
        let functions = Functions::interleaved(6, 3).unwrap();
        let coarse = functions.coarse(&[false, true, true, true, false, true]).unwrap();
        assert_eq!(coarse.as_slice(), [1, 2, 0, 2]);
        let coarse = coarse.coarse(&[true, false, false, true]).unwrap();
        assert_eq!(coarse.as_slice(), [1, 2]);
    }
}
