//! The coarse matrix R A P, computed as R (A P): the tall product first keeps the intermediate small.

use super::distributed::product::{DividedProduct, Factors};
use super::spgemm_symbolic::{SpgemmSymbolic, Values};
use super::{HostMatrix, HostPattern, spgemm};
use crate::backend::setup::Symbolic;
use crate::comm::Distribution;
use crate::error::Result;
use crate::par;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, SharedCsr, Structure};
use std::sync::Arc;

/// Symbolic data of both SpGEMMs; it depends on the patterns alone.
pub(crate) struct GalerkinSymbolic {
    /// Row offsets of A P.
    ap_offsets: Vec<i64>,
    ap: SpgemmSymbolic,
    /// Of R (A P).
    coarse: SpgemmSymbolic,
}

impl GalerkinSymbolic {
    fn bytes(&self) -> usize {
        size_of_val(self.ap_offsets.as_slice()) + self.ap.bytes() + self.coarse.bytes()
    }

    /// Symbolic phase, and the values of A P.
    fn new<T: Scalar>(
        r: &CsrView<'_, T>,
        a: &CsrView<'_, T>,
        p: &SharedCsr<T>,
        coarse: &Structure,
    ) -> Result<(GalerkinSymbolic, Vec<T>)> {
        let product = spgemm::multiply(a, &p.view())?;
        let pattern = (&product.offsets[..], &product.columns[..]);
        let ap = SpgemmSymbolic::new(a, (p.structure.own_arrays(), p.structure.block), pattern, product.cols)?;
        let coarse = SpgemmSymbolic::new(r, (pattern, product.block), coarse.own_arrays(), product.cols)?;
        Ok((GalerkinSymbolic { ap_offsets: product.offsets, ap, coarse }, product.values))
    }

    /// Numeric phase of A P.
    fn numeric<T: Scalar>(&self, a: &CsrView<'_, T>, p: &SharedCsr<T>) -> Result<Vec<T>> {
        let structure = &p.structure;
        let p = Values { offsets: structure.own_arrays().0, values: p.values.as_slice(), block: structure.block };
        self.ap.numeric(a, p, &self.ap_offsets, |_, _| ())
    }
}

/// What is kept of a product for others with the same patterns. Found by the first of those, because most hierarchies
/// are never updated.
#[derive(Clone, Default)]
pub(crate) enum ProductSymbolic {
    /// Not found yet.
    #[default]
    None,
    Whole(Arc<GalerkinSymbolic>),
    /// Of a product of which each rank computes its rows.
    Divided(Arc<DividedProduct>),
}

impl Symbolic for ProductSymbolic {
    fn bytes(&self) -> usize {
        match self {
            ProductSymbolic::None => 0,
            ProductSymbolic::Whole(symbolic) => symbolic.bytes(),
            ProductSymbolic::Divided(symbolic) => symbolic.bytes(),
        }
    }
}

/// R A P.
pub(crate) fn product<T: Scalar>(r: &CsrView<'_, T>, a: &CsrView<'_, T>, p: &SharedCsr<T>) -> Result<SharedCsr<T>> {
    let mut coarse = spgemm::multiply_intermediate(r, &spgemm::intermediate(a, &p.view())?)?;
    let Csr { offsets, columns, values, block, .. } = &mut coarse;
    fill_empty_diagonals(offsets, 0, columns, *block, values);
    Ok(coarse.into_shared())
}

/// R A P with the pattern `coarse` of an earlier one. Only values are computed.
pub(crate) fn product_numeric<T: Scalar>(
    symbolic: &ProductSymbolic,
    coarse: &Arc<Structure>,
    r: &CsrView<'_, T>,
    a: &CsrView<'_, T>,
    p: &SharedCsr<T>,
) -> Result<(SharedCsr<T>, ProductSymbolic)> {
    let (symbolic, ap) = match symbolic {
        ProductSymbolic::Whole(symbolic) => (Arc::clone(symbolic), symbolic.numeric(a, p)?),
        _ => {
            let (found, ap) = GalerkinSymbolic::new(r, a, p, coarse)?;
            (Arc::new(found), ap)
        }
    };
    let block = Block { rows: a.block.rows, cols: p.structure.block.cols };
    let ap = Values { offsets: &symbolic.ap_offsets, values: &ap, block };
    let (offsets, columns) = coarse.own_arrays();
    let mut values = symbolic.coarse.numeric(r, ap, offsets, |_, _| ())?;
    fill_empty_diagonals(offsets, 0, columns, coarse.block, &mut values);
    let product = SharedCsr { structure: Arc::clone(coarse), values: Arc::new(values) };
    Ok((product, ProductSymbolic::Whole(symbolic)))
}

/// The same where this rank has its rows of all factors. Collective.
pub(crate) fn product_numeric_divided<T: Scalar>(
    over: &Arc<Distribution>,
    symbolic: &ProductSymbolic,
    coarse: &HostPattern,
    factors: Factors<'_, T>,
) -> Result<(HostMatrix<T>, ProductSymbolic)> {
    let (symbolic, ap) = match symbolic {
        ProductSymbolic::Divided(symbolic) => (Arc::clone(symbolic), symbolic.numeric(over, factors)?),
        _ => {
            let (found, ap) = DividedProduct::new(over, factors, coarse)?;
            (Arc::new(found), ap)
        }
    };
    let product = symbolic.coarse(over, factors, &ap, coarse)?;
    Ok((product, ProductSymbolic::Divided(symbolic)))
}

/// Puts 1 on zero diagonals. They come from surplus columns of a tentative prolongator, whose coarse unknowns are
/// coupled to nothing: the unit row keeps them at zero. The diagonal of the first row is in column `first_column`.
pub(super) fn fill_empty_diagonals<T: Scalar>(
    offsets: &[i64],
    first_column: usize,
    columns: &[i32],
    block: Block,
    values: &mut [T],
) {
    par::for_each_segment_mut(values, offsets, block.len(), par::ROW_GRAIN, |range, values| {
        let first = offsets[range.start] as usize;
        for i in range {
            let mut row = offsets[i] as usize..offsets[i + 1] as usize;
            if let Some(k) = row.find(|k| columns[*k] as usize == first_column + i) {
                for r in 0..block.rows {
                    let d = &mut values[(k - first) * block.len() + r * block.cols + r];
                    if *d == T::ZERO {
                        *d = T::ONE;
                    }
                }
            }
        }
    });
}
