//! Numeric phases of a divided set-up: products and transposes whose patterns are known. Ranks send values alone.

use super::divided::{NUMBERS, Transposition, neighbours, rows_of};
use super::fetched::FetchedRows;
use crate::comm::Distribution;
use crate::error::{Result, try_collect, try_copy};
use crate::host::spgemm_symbolic::{SpgemmSymbolic, Values};
use crate::host::transpose::{self, TransposeSymbolic};
use crate::host::{galerkin, spgemm};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Offsets, SharedCsr, Structure};
use std::sync::Arc;

/// Symbolic data of a transposition.
pub(crate) struct DividedTransposition {
    /// The transpose of the own rows.
    local: Arc<Structure>,
    positions: TransposeSymbolic,
    messages: Transposition,
}

impl DividedTransposition {
    /// Of a matrix with own rows alone. Collective.
    pub fn new<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Result<DividedTransposition> {
        let local = transpose::transpose(a)?.into_shared().structure;
        let positions = TransposeSymbolic::new(a, &local)?;
        let messages = Transposition::new(over, local.own_arrays().0, local.block.rows)?;
        Ok(DividedTransposition { local, positions, messages })
    }

    /// Numeric phase: the values of the rows of this rank. Collective.
    pub fn numeric<T: Scalar>(&self, over: &Distribution, a: &CsrView<'_, T>) -> Result<Vec<T>> {
        let values = self.positions.numeric(a, &self.local)?;
        self.messages.exchanged(over, NUMBERS, &values, self.local.block.len())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.local.owned_bytes() + self.positions.bytes() + self.messages.bytes()
    }
}

/// Symbolic data of R A P, computed as R (A P). Each factor has the rows of this rank and those of others that the one
/// before it refers to.
pub(crate) struct DividedProduct {
    of_p: FetchedRows,
    p_offsets: Vec<i64>,
    /// Own rows of A P.
    ap: SpgemmSymbolic,
    ap_offsets: Vec<i64>,
    of_ap: FetchedRows,
    all_ap_offsets: Vec<i64>,
    coarse: SpgemmSymbolic,
}

/// The factors of a product.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a, T> {
    pub r: &'a CsrView<'a, T>,
    pub a: &'a CsrView<'a, T>,
    pub p: &'a CsrView<'a, T>,
}

impl DividedProduct {
    /// Symbolic phase for the pattern of R A P, and the values of A P. Collective.
    pub fn new<T: Scalar>(
        over: &Arc<Distribution>,
        Factors { r, a, p }: Factors<'_, T>,
        coarse: &Structure,
    ) -> Result<(DividedProduct, Vec<T>)> {
        let row_of_p = |i: usize| &p.columns[p.row_range(i)];
        let of_p = FetchedRows::new(over, (p.rows, p.block.rows), row_of_p, neighbours(over, a)?)?;
        let p_offsets = of_p.offsets_among(p.rows, |i| p.row_range(i).len())?;
        let all_p = Csr {
            rows: p.rows,
            cols: p.cols,
            block: p.block,
            offsets: try_copy(&p_offsets)?,
            columns: of_p.columns_among(p.columns)?,
            values: of_p.values_among(over, p)?,
        };
        let product = spgemm::multiply(a, &all_p.view())?;
        let pattern = (&product.offsets[..], &product.columns[..]);
        let ap = SpgemmSymbolic::new(a, ((&p_offsets, &all_p.columns), p.block), pattern, p.cols)?;
        drop(all_p);

        let row_of_ap = |i: usize| &product.columns[product.offsets[i] as usize..product.offsets[i + 1] as usize];
        let of_ap = FetchedRows::new(over, (product.rows, product.block.rows), row_of_ap, neighbours(over, r)?)?;
        let all_ap_offsets = of_ap.offsets_among(product.rows, |i| row_of_ap(i).len())?;
        let columns = of_ap.columns_among(&product.columns)?;
        let right = ((&all_ap_offsets[..], &columns[..]), product.block);
        let coarse = SpgemmSymbolic::new(r, right, coarse.own_arrays(), product.cols)?;
        let Csr { offsets: ap_offsets, values, .. } = product;
        Ok((DividedProduct { of_p, p_offsets, ap, ap_offsets, of_ap, all_ap_offsets, coarse }, values))
    }

    /// Numeric phase of A P. Collective.
    pub fn numeric<T: Scalar>(&self, over: &Distribution, Factors { a, p, .. }: Factors<'_, T>) -> Result<Vec<T>> {
        let values = self.of_p.values_among(over, p)?;
        let p = Values { offsets: &self.p_offsets, values: &values, block: p.block };
        self.ap.numeric(a, p, &self.ap_offsets, |_, _| ())
    }

    /// Numeric phase of R A P from the values of A P: the rows of this rank, or all where the level is complete on every
    /// rank. Collective.
    pub fn coarse<T: Scalar>(
        &self,
        over: &Distribution,
        Factors { r, a, p }: Factors<'_, T>,
        ap: &[T],
        coarse: &Arc<Structure>,
    ) -> Result<SharedCsr<T>> {
        let block = Block { rows: a.block.rows, cols: p.block.cols };
        let own = CsrView {
            rows: a.rows,
            cols: p.cols,
            block,
            offsets: Offsets::I64(&self.ap_offsets),
            columns: &[],
            values: ap,
            base: 0,
        };
        let values = self.of_ap.values_among(over, &own)?;
        let ap = Values { offsets: &self.all_ap_offsets, values: &values, block };
        let (offsets, columns) = coarse.own_arrays();
        let mut values = self.coarse.numeric(r, ap, offsets, |_, _| ())?;
        galerkin::fill_empty_diagonals(offsets, columns, coarse.block, &mut values);
        if !over.is_divided(coarse.rows * coarse.block.rows) {
            let width = coarse.block.len();
            let starts = over.block_starts(coarse.rows, coarse.block.rows)?;
            let place = |row: usize| offsets[row] as usize * width;
            let own = rows_of(over, r);
            let own = try_copy(&values[place(own.start)..place(own.end)])?;
            let lengths = starts.windows(2).map(|pair| (place(pair[1]) - place(pair[0])) * size_of::<T>());
            over.ranks.gather_into(&own, &try_collect(lengths)?, &mut values)?;
        }
        Ok(SharedCsr { structure: Arc::clone(coarse), values: Arc::new(values) })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let offsets = [&self.p_offsets, &self.ap_offsets, &self.all_ap_offsets];
        offsets.iter().map(|offsets| size_of_val(&offsets[..])).sum::<usize>()
            + self.of_p.bytes()
            + self.of_ap.bytes()
            + self.ap.bytes()
            + self.coarse.bytes()
    }
}
