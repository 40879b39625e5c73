//! The coarse matrix R A P, computed as R (A P): the tall product first keeps the intermediate small.

use crate::error::Result;
use crate::host::spgemm;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

/// R A P. With `pattern` (of an earlier product with the same patterns) only values are computed.
pub(super) fn product<T: Scalar>(
    r: &CsrView<'_, T>,
    a: &CsrView<'_, T>,
    p: &CsrView<'_, T>,
    pattern: Option<&Arc<Structure>>,
) -> Result<SharedCsr<T>> {
    let ap = spgemm::intermediate(a, p)?;
    match pattern {
        None => {
            let mut coarse = spgemm::multiply_intermediate(r, &ap)?;
            let Csr { offsets, columns, values, .. } = &mut coarse;
            fill_empty_diagonals(offsets, columns, Block::square(p.block.cols), values);
            Ok(coarse.into_shared())
        }
        Some(structure) => {
            let mut values = spgemm::renew_intermediate(r, &ap, structure)?;
            let (offsets, columns) = structure.own_arrays();
            fill_empty_diagonals(offsets, columns, structure.block, &mut values);
            Ok(SharedCsr { structure: Arc::clone(structure), values: Arc::new(values) })
        }
    }
}

/// Puts 1 on zero diagonals. They come from surplus columns of a tentative prolongator, whose coarse unknowns are coupled to
/// nothing: the unit row keeps them at zero.
fn fill_empty_diagonals<T: Scalar>(offsets: &[i64], columns: &[i32], block: Block, values: &mut [T]) {
    for i in 0..offsets.len() - 1 {
        let row = offsets[i] as usize..offsets[i + 1] as usize;
        if let Some(k) = row.clone().find(|k| columns[*k] as usize == i) {
            for r in 0..block.rows {
                let d = &mut values[k * block.len() + r * block.cols + r];
                if *d == T::ZERO {
                    *d = T::ONE;
                }
            }
        }
    }
}
