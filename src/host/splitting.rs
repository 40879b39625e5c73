//! What interpolations from a C/F splitting have in common: coarse unknowns keep their value, fine ones get truncated
//! rows of weights.

use super::extended_i::coarse_numbers;
use super::rows;
use super::truncate::{self, Truncation};
use crate::error::Result;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, Structure};

/// Interpolation from the coarse unknowns to all. `formula` makes, for one task, the function that appends the weights
/// of a fine unknown, each with the coarse unknown (numbered on the fine level) that it belongs to. With `pattern` (a
/// result of the same graph and splitting), each row keeps the columns that it has there, whatever the size of the new
/// weights.
pub fn interpolate<T: Scalar, F: FnMut(usize, &mut Vec<(i32, T)>) -> Result<()>>(
    coarse: &[bool],
    truncation: Truncation,
    pattern: Option<&Structure>,
    formula: impl Fn() -> Result<F> + Sync,
) -> Result<Csr<T>> {
    let (number, coarse_count) = coarse_numbers(coarse)?;
    let pattern = pattern.map(|p| p.view::<T>(&[]));
    let (offsets, columns, values) = rows::build(coarse.len(), 1, |range, out| {
        let mut weights_of = formula()?;
        let (mut weights, mut kept) = (Vec::new(), Vec::new());
        for i in range {
            if coarse[i] {
                out.push(number[i], T::ONE)?;
            } else {
                weights.clear();
                weights_of(i, &mut weights)?;
                let numbered = weights.iter().map(|(j, w)| (number[*j as usize], *w));
                truncate::push_row(out, &mut kept, numbered, truncation, pattern.as_ref().map(|p| (p, i)))?;
            }
            out.end_row();
        }
        Ok(())
    })?;
    Ok(Csr { rows: coarse.len(), cols: coarse_count, block: Block::SCALAR, offsets, columns, values })
}
