//! The coarse matrix R A P where its factors are divided among ranks. Each factor has the rows of this rank and those
//! of others that the one before it refers to.

use super::divided::{DividedMatrix, gathered};
use crate::comm::{Distribution, FetchedRows, LocalNumbers, Numbering};
use crate::error::{Result, try_collect, try_copy};
use crate::host::spgemm::{self, Fetched};
use crate::host::spgemm_symbolic::{SpgemmSymbolic, Values};
use crate::host::{HostMatrix, HostPattern, galerkin};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, Offsets, SharedCsr, Structure};
use std::ops::Range;
use std::sync::Arc;

/// The factors of a product.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a, T> {
    pub r: &'a DividedMatrix<T>,
    pub a: &'a DividedMatrix<T>,
    pub p: &'a DividedMatrix<T>,
}

/// The columns of the own row `i` of a matrix of the library, which are counted from 0.
fn columns_of<'a, T: Scalar>(a: &CsrView<'a, T>, i: usize) -> &'a [i32] {
    &a.columns[a.row_range(i)]
}

/// The values of a row.
fn values_of<'a, T: Scalar>(a: &CsrView<'a, T>, i: usize) -> &'a [T] {
    let (row, width) = (a.row_range(i), a.block.len());
    &a.values[row.start * width..row.end * width]
}

/// Rows that were fetched, with columns in these numbers.
fn fetched_view<'a, T>(
    rows: &'a FetchedRows,
    (columns, cols): (&'a [i32], usize),
    block: Block,
    values: &'a [T],
) -> CsrView<'a, T> {
    let offsets = Offsets::I64(&rows.offsets);
    CsrView { rows: rows.offsets.len() - 1, cols, block, offsets, columns, values, base: 0 }
}

/// The numbers of columns that were fetched.
fn local_columns(numbers: &LocalNumbers, columns: &[i32]) -> Result<Vec<i32>> {
    try_collect(columns.iter().map(|j| numbers.local(*j as usize).map_or(-1, |local| local as i32)))
}

/// P or A P: columns of its rows, and of those that were fetched, in common numbers.
struct Joined {
    numbers: LocalNumbers,
    fetched: Vec<i32>,
}

impl Joined {
    fn new(own: &LocalNumbers, rows: &FetchedRows) -> Result<Joined> {
        let numbers = own.and(rows.columns.iter().map(|j| *j as usize))?;
        let fetched = local_columns(&numbers, &rows.columns)?;
        Ok(Joined { numbers, fetched })
    }
}

/// The rows of this rank of R A P; all where the level is complete on every rank. Collective.
pub(crate) fn product<T: Scalar>(
    over: &Arc<Distribution>,
    Factors { r, a, p }: Factors<'_, T>,
) -> Result<HostMatrix<T>> {
    let (r_view, a_view, p_view) = (r.matrix.view(), a.matrix.view(), p.matrix.view());
    let (a_first, p_first) = (a.rows.inside().start, p.rows.inside().start);
    let columns = |i: usize| columns_of(&p_view, p_first + i);
    let of_p = FetchedRows::new(over, &a.columns, columns, |j| p.columns.global(j as usize))?;
    let values = of_p.values(over, p_view.block.len(), |i| values_of(&p_view, p_first + i))?;
    let joined = Joined::new(&p.columns, &of_p)?;
    let cols = joined.numbers.count();
    let p_columns = p.columns.renumbered(&joined.numbers, p_view.columns)?;
    let own_p = CsrView { cols, columns: &p_columns, ..p_view };
    let rows = fetched_view(&of_p, (&joined.fetched, cols), p_view.block, &values);
    let fetched = Fetched { inside: a.columns.inside(), first: p_first, rows };
    let mut ap = spgemm::divided_intermediate(&a_view, &own_p, fetched)?;
    drop((values, of_p, p_columns));

    let block = ap.block();
    let columns = |i: usize| ap.entries_of(a_first + i).0;
    let of_ap = FetchedRows::new(over, &r.columns, columns, |j| joined.numbers.global(j as usize))?;
    let values = of_ap.values(over, block.len(), |i| ap.entries_of(a_first + i).1)?;
    let all = Joined::new(&joined.numbers, &of_ap)?;
    ap.renumber(all.numbers.count(), &joined.numbers.renumbering(&all.numbers)?);
    let rows = fetched_view(&of_ap, (&all.fetched, all.numbers.count()), block, &values);
    let fetched = Fetched { inside: r.columns.inside(), first: a_first, rows };
    let Csr { offsets, mut columns, mut values, block, .. } = spgemm::multiply_divided(&r_view, &ap, fetched)?;
    drop(ap);
    let starts = over.block_starts(r.rows.total, block.rows)?;
    let numbers = Arc::new(Numbering::of_local(over, &starts, &all.numbers, &mut columns)?);
    let own = r.rows.of_own(&offsets);
    galerkin::fill_empty_diagonals(own, numbers.inside().start, &columns, block, &mut values);
    let coarse = DividedMatrix::of_own_rows(Arc::clone(&numbers), numbers, block, (own, columns, values))?;
    complete(over, coarse)
}

/// A coarse matrix, on every rank where its level is small.
fn complete<T: Scalar>(over: &Distribution, coarse: DividedMatrix<T>) -> Result<HostMatrix<T>> {
    match over.is_divided(coarse.rows.total * coarse.matrix.structure.block.rows) {
        true => Ok(HostMatrix::Divided(coarse)),
        false => Ok(gathered(over, &coarse)?.into_shared().into()),
    }
}

/// Symbolic data of R A P, computed as R (A P).
pub(crate) struct DividedProduct {
    of_p: FetchedRows,
    p_offsets: Vec<i64>,
    /// Own rows of A P.
    ap: SpgemmSymbolic,
    ap_offsets: Vec<i64>,
    of_ap: FetchedRows,
    all_ap_offsets: Vec<i64>,
    coarse: SpgemmSymbolic,
    /// The own rows of the product among the rows of R.
    offsets: Vec<i64>,
}

impl DividedProduct {
    /// Symbolic phase for the pattern of R A P, and the values of A P. Collective.
    pub fn new<T: Scalar>(
        over: &Arc<Distribution>,
        Factors { r, a, p }: Factors<'_, T>,
        coarse: &HostPattern,
    ) -> Result<(DividedProduct, Vec<T>)> {
        let (r_view, a_view, p_view) = (r.matrix.view(), a.matrix.view(), p.matrix.view());
        let (a_first, p_first) = (a.rows.inside().start, p.rows.inside().start);
        let row_of_p = |i: usize| columns_of(&p_view, p_first + i);
        let of_p = FetchedRows::new(over, &a.columns, row_of_p, |j| p.columns.global(j as usize))?;
        let joined = Joined::new(&p.columns, &of_p)?;
        let p_offsets = of_p.offsets_among(|i| row_of_p(i).len())?;
        let p_columns = p.columns.renumbered(&joined.numbers, p_view.columns)?;
        let all_p = Csr {
            rows: a_view.cols,
            cols: joined.numbers.count(),
            block: p_view.block,
            offsets: try_copy(&p_offsets)?,
            columns: of_p.among(&p_columns, &joined.fetched, 1)?,
            values: values_among(over, &of_p, &p_view, p_first)?,
        };
        let mut product = spgemm::multiply(&a_view, &all_p.view())?;
        let pattern = (&product.offsets[..], &product.columns[..]);
        let ap = SpgemmSymbolic::new(&a_view, ((&p_offsets, &all_p.columns), all_p.block), pattern, product.cols)?;
        drop(all_p);

        let view = product.view();
        let row_of_ap = |i: usize| columns_of(&view, a_first + i);
        let of_ap = FetchedRows::new(over, &r.columns, row_of_ap, |j| joined.numbers.global(j as usize))?;
        let all_ap_offsets = of_ap.offsets_among(|i| row_of_ap(i).len())?;
        let all = Joined::new(&joined.numbers, &of_ap)?;
        joined.numbers.renumbering(&all.numbers)?.apply(&mut product.columns);
        let ap_columns = of_ap.among(&product.columns, &all.fetched, 1)?;
        let right = ((&all_ap_offsets[..], &ap_columns[..]), product.block);

        // The rows of this rank of the pattern, with the same columns.
        let (own_offsets, columns) = own_pattern(coarse, r, &all.numbers)?;
        let offsets = r.rows.among_ghosts(&own_offsets)?;
        let coarse = SpgemmSymbolic::new(&r_view, right, (&offsets, &columns), all.numbers.count())?;
        let Csr { offsets: ap_offsets, values, .. } = product;
        let symbolic = DividedProduct { of_p, p_offsets, ap, ap_offsets, of_ap, all_ap_offsets, coarse, offsets };
        Ok((symbolic, values))
    }

    /// Numeric phase of A P. Collective.
    pub fn numeric<T: Scalar>(&self, over: &Distribution, Factors { a, p, .. }: Factors<'_, T>) -> Result<Vec<T>> {
        let (view, block) = (p.matrix.view(), p.matrix.structure.block);
        let values = values_among(over, &self.of_p, &view, p.rows.inside().start)?;
        let p = Values { offsets: &self.p_offsets, values: &values, block };
        self.ap.numeric(&a.matrix.view(), p, &self.ap_offsets, |_, _| ())
    }

    /// Numeric phase of R A P from the values of A P: the rows of this rank, or all where the level is complete on
    /// every rank. Collective.
    pub fn coarse<T: Scalar>(
        &self,
        over: &Distribution,
        Factors { r, a, p }: Factors<'_, T>,
        ap: &[T],
        pattern: &HostPattern,
    ) -> Result<HostMatrix<T>> {
        let block = Block { rows: a.matrix.structure.block.rows, cols: p.matrix.structure.block.cols };
        let (first, width) = (a.rows.inside().start, block.len());
        let row = |i: usize| {
            let row = self.ap_offsets[first + i] as usize..self.ap_offsets[first + i + 1] as usize;
            &ap[row.start * width..row.end * width]
        };
        let fetched = self.of_ap.values(over, width, row)?;
        let values = self.of_ap.among(ap, &fetched, width)?;
        let ap = Values { offsets: &self.all_ap_offsets, values: &values, block };
        let mut values = self.coarse.numeric(&r.matrix.view(), ap, &self.offsets, |_, _| ())?;
        let (structure, rows, first) = own_rows_of(pattern, r);
        let columns = &structure.own_arrays().1[rows];
        let offsets = r.rows.of_own(&self.offsets);
        galerkin::fill_empty_diagonals(offsets, first, columns, structure.block, &mut values);
        match pattern {
            HostPattern::Divided(pattern) => Ok(HostMatrix::Divided(pattern.with(values))),
            pattern => {
                let (all, _) = over.ranks.gather(&values)?;
                Ok(SharedCsr { structure: Arc::clone(pattern.rows()), values: Arc::new(all) }.into())
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let offsets = [&self.p_offsets, &self.ap_offsets, &self.all_ap_offsets, &self.offsets];
        offsets.iter().map(|offsets| size_of_val(&offsets[..])).sum::<usize>()
            + self.of_p.bytes()
            + self.of_ap.bytes()
            + self.ap.bytes()
            + self.coarse.bytes()
    }
}

/// Values of own rows of a matrix, and of rows that are fetched. Collective.
fn values_among<T: Scalar>(
    over: &Distribution,
    rows: &FetchedRows,
    a: &CsrView<'_, T>,
    first: usize,
) -> Result<Vec<T>> {
    let width = a.block.len();
    let fetched = rows.values(over, width, |i| values_of(a, first + i))?;
    rows.among(a.values, &fetched, width)
}

/// The pattern of R A P, the entries of own rows in it, and the column of the diagonal of the first of these.
fn own_rows_of<'a, T>(coarse: &'a HostPattern, r: &DividedMatrix<T>) -> (&'a Structure, Range<usize>, usize) {
    let (rows, first) = match coarse {
        HostPattern::Divided(pattern) => (pattern.rows.inside(), pattern.columns.inside().start),
        _ => (r.rows.own.clone(), r.rows.own.start),
    };
    let (structure, offsets) = (&**coarse.rows(), coarse.rows().own_arrays().0);
    (structure, offsets[rows.start] as usize..offsets[rows.end] as usize, first)
}

/// Offsets of the own rows of the pattern of R A P, and columns by the numbers that `all` gives them.
fn own_pattern<T>(coarse: &HostPattern, r: &DividedMatrix<T>, all: &LocalNumbers) -> Result<(Vec<i64>, Vec<i32>)> {
    let (structure, entries, _) = own_rows_of(coarse, r);
    let (offsets, columns) = structure.own_arrays();
    let (rows, numbers) = match coarse {
        HostPattern::Divided(pattern) => (pattern.rows.inside(), Some(&pattern.columns)),
        _ => (r.rows.own.clone(), None),
    };
    let global = |j: &i32| numbers.map_or(*j as usize, |numbers| numbers.global(*j as usize));
    let number = |j: &i32| all.local(global(j)).map_or(-1, |local| local as i32);
    let offsets = try_collect(offsets[rows.start..=rows.end].iter().map(|offset| offset - entries.start as i64))?;
    Ok((offsets, try_collect(columns[entries].iter().map(number))?))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::host::distributed::divided::testing::{divided, on_ranks, random};
    use crate::host::distributed::transposition::transposed;
    use crate::host::transpose::transpose;

    #[test]
    fn a_product_is_that_of_one_rank_and_so_is_its_update() {
        let block = |rows, cols| Block { rows, cols };
        for (n, m, of_a, of_p) in [
            (3000, 1600, Block::SCALAR, Block::SCALAR),
            (600, 100, block(3, 3), block(3, 6)),
            (900, 30, block(1, 1), block(1, 1)),
        ] {
            let (a, p) = (random(n, n, 5, of_a, 3), random(n, m, 2, of_p, 4));
            let r = transpose(&p.view()).unwrap();
            let shared = p.clone().into_shared();
            let expected = galerkin::product(&r.view(), &a.view(), &shared).unwrap();
            let rows = n * of_a.rows;
            for starts in [[0, rows / 6 * 3, rows / 6 * 3, rows], [0, 0, 3, rows], [0, rows, rows, rows]] {
                on_ranks(&starts, |over| {
                    let (a, p) = (divided(over, &a), divided(over, &p));
                    let p = DividedMatrix { rows: Arc::clone(&a.rows), ..p };
                    let own = p.matrix.structure.own_arrays().0;
                    let offsets = a.rows.among_ghosts(own).unwrap();
                    let columns = p.matrix.structure.own_arrays().1.to_vec();
                    let structure = Structure::new(a.rows.count(), p.columns.count(), of_p, offsets, columns);
                    let matrix = SharedCsr { structure: Arc::new(structure), values: Arc::clone(&p.matrix.values) };
                    let p = p.with(matrix);
                    let r = transposed(over, &p).unwrap();
                    let factors = Factors { r: &r, a: &a, p: &p };
                    // No level is divided here, so that all rows are gathered.
                    let HostMatrix::Rows(found) = product(over, factors).unwrap() else { panic!("it is complete") };
                    assert_eq!(found.structure.own_arrays(), expected.structure.own_arrays(), "{n} {starts:?}");
                    assert!(found.values.as_slice() == expected.values.as_slice(), "{n} {starts:?}");
                    let pattern = HostPattern::Rows(Arc::clone(&found.structure));
                    let (symbolic, ap) = DividedProduct::new(over, factors, &pattern).unwrap();
                    let ap_again = symbolic.numeric(over, factors).unwrap();
                    assert!(ap == ap_again);
                    let HostMatrix::Rows(again) = symbolic.coarse(over, factors, &ap, &pattern).unwrap() else {
                        panic!("it is complete")
                    };
                    assert!(again.values.as_slice() == expected.values.as_slice(), "{n} {starts:?}");
                });
            }
        }
    }
}
