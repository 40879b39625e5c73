//! The unknown functions of a matrix, where the caller names that of each unknown.

use super::Matrix;
use crate::backend::parameters::MAX_FUNCTIONS;
use crate::error::{Result, fail, try_capacity};
use crate::sync::lock;
use std::sync::Arc;

/// How many functions there are, and the one of each scalar row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownFunctions {
    pub count: usize,
    pub of: Vec<u8>,
}

impl Matrix {
    /// Names the unknown function that each scalar row belongs to, from 0 to `count` - 1. Classical coarsening and interpolation leave out
    /// couplings between functions, whatever the numbering of unknowns; see the option `amg.functions`. Takes effect at the next set-up.
    pub fn set_functions(&self, count: usize, functions: &[i32]) -> Result<()> {
        let gathered = self.over_ranks().map(|rows| self.gathered_vectors(rows, 1, functions)).transpose()?;
        let functions = gathered.as_deref().unwrap_or(functions);
        if !(1..=MAX_FUNCTIONS).contains(&count) {
            return fail!(InvalidArgument, "count is {count}; accepted: 1 to {MAX_FUNCTIONS} functions");
        }
        if functions.len() != self.whole_rows() {
            let (given, rows) = (functions.len(), self.whole_rows());
            return fail!(SizeMismatch, "{given} functions were given; the matrix has {rows} rows");
        }
        let is_wrong = |function: &i32| usize::try_from(*function).is_err() || *function as usize >= count;
        if let Some(i) = functions.iter().position(is_wrong) {
            let last = count - 1;
            return fail!(InvalidArgument, "functions[{i}] is {}; accepted: 0 to {last}", functions[i]);
        }
        let mut of = try_capacity(functions.len())?;
        of.extend(functions.iter().map(|function| *function as u8));
        *lock(self.functions.write()) = Some(Arc::new(UnknownFunctions { count, of }));
        Ok(())
    }

    /// Forgets the functions that were given.
    pub fn remove_functions(&self) {
        *lock(self.functions.write()) = None;
    }

    /// The functions that were given, if any.
    pub(crate) fn functions(&self) -> Option<Arc<UnknownFunctions>> {
        lock(self.functions.read()).clone()
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::sparse::Csr;

    #[test]
    fn functions_are_checked_before_they_replace_others() {
        let a = Csr::from_triplets(3, 3, &[(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0)]).unwrap();
        let matrix = Matrix::from_csr(a).unwrap();
        matrix.set_functions(2, &[1, 0, 1]).unwrap();
        for (count, functions, status, text) in [
            (0, &[0, 0, 0][..], Status::InvalidArgument, "count is 0"),
            (65, &[0, 0, 0], Status::InvalidArgument, "count is 65; accepted: 1 to 64"),
            (2, &[0, 1], Status::SizeMismatch, "2 functions were given; the matrix has 3 rows"),
            (2, &[0, 2, 1], Status::InvalidArgument, "functions[1] is 2; accepted: 0 to 1"),
            (2, &[0, 1, -1], Status::InvalidArgument, "functions[2] is -1"),
        ] {
            let error = matrix.set_functions(count, functions).unwrap_err();
            assert!(error.status == status && error.message.contains(text), "{error}");
        }
        assert_eq!(matrix.functions().unwrap().of, [1, 0, 1]);
        matrix.remove_functions();
        assert!(matrix.functions().is_none());
    }
}
