//! The coarse matrix R A P, computed as R (A P): the tall product first keeps the intermediate small.

use crate::error::Result;
use crate::host::spgemm;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

/// Patterns of an earlier product with the same patterns.
pub(super) struct Patterns<'a> {
    /// That of R A P.
    pub coarse: &'a Arc<Structure>,
    /// That of A P; found in the first renewal and kept for the later ones, because most hierarchies are never renewed.
    pub ap: &'a mut Option<Arc<Structure>>,
}

/// R A P. With `patterns` only values are computed.
pub(super) fn product<T: Scalar>(
    r: &CsrView<'_, T>,
    a: &CsrView<'_, T>,
    p: &CsrView<'_, T>,
    patterns: Option<Patterns<'_>>,
) -> Result<SharedCsr<T>> {
    let Some(Patterns { coarse, ap }) = patterns else {
        let mut coarse = spgemm::multiply_intermediate(r, &spgemm::intermediate(a, p)?)?;
        let Csr { offsets, columns, values, .. } = &mut coarse;
        fill_empty_diagonals(offsets, columns, Block::square(p.block.cols), values);
        return Ok(coarse.into_shared());
    };
    let mut values = match ap {
        Some(ap) => spgemm::renew(r, &ap.view(&spgemm::renew(a, p, ap)?), coarse)?,
        None => {
            let product = spgemm::intermediate(a, p)?;
            *ap = Some(Arc::new(product.pattern()?));
            spgemm::renew_intermediate(r, &product, coarse)?
        }
    };
    let (offsets, columns) = coarse.own_arrays();
    fill_empty_diagonals(offsets, columns, coarse.block, &mut values);
    Ok(SharedCsr { structure: Arc::clone(coarse), values: Arc::new(values) })
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
