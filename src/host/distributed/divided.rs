//! Set-up that is divided among ranks.
//!
//! Matrices have the rows and columns of the whole, and the rows of this rank; other rows are empty. Steps run on them as
//! on any matrix, with the same numbers in the same order. Rows of other ranks that a step needs are fetched before it.
//! Vectors and coarse unknowns are complete on every rank, and so are small levels. A rank has the strength graph of its
//! rows, for interpolation also that of the rows that they refer to.

use super::fetched::FetchedRows;
use crate::comm::halo::{columns_of_others, scaled};
use crate::comm::{Distribution, Part, Reduction, bytes, bytes_mut};
use crate::error::{Result, try_capacity, try_collect, try_copy, try_push, try_vec};
use crate::host::eigenvalue::Products;
use crate::host::spgemm::Fetched;
use crate::host::{galerkin, spgemm, spmv, transpose};
use crate::par;
use crate::scalar::{Element, Scalar};
use crate::sparse::{Csr, CsrView, Graph, SharedCsr};
use std::ops::Range;
use std::sync::Arc;

/// Tags of messages.
pub(super) const LENGTHS: i32 = 3;
pub(super) const COLUMNS: i32 = 4;
pub(super) const NUMBERS: i32 = 5;

impl Distribution {
    /// Whether each rank has only its rows of the matrices of a level with `n` rows.
    pub fn is_divided(&self, n: usize) -> bool {
        n > self.complete && self.ranks.size() > 1
    }

    /// Sends and receives parts of two arrays.
    pub(super) fn exchange<T: Element>(
        &self,
        tag: i32,
        (sends, out): (&[Part], &[T]),
        (receives, into): (&[Part], &mut [T]),
    ) -> Result<()> {
        let (sends, receives) = (scaled(sends, size_of::<T>())?, scaled(receives, size_of::<T>())?);
        let communicator = self.ranks.communicator();
        communicator.exchange(tag, &sends, bytes(out), &receives, bytes_mut(into), &mut || ())
    }

    /// Makes a vector complete, of which each rank has computed its part; it has some numbers for each of the `n` rows of a
    /// level, or for each block of rows.
    pub fn complete<T: Element>(&self, vector: &mut [T], n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let length = vector.len();
        let place = |row: usize| row * length / n;
        let own = self.own(n);
        let own = try_copy(&vector[place(own.start)..place(own.end)])?;
        let starts = self.starts(n)?;
        let lengths = starts.windows(2).map(|pair| (place(pair[1]) - place(pair[0])) * size_of::<T>());
        self.ranks.gather_into(&own, &try_collect(lengths)?, vector)
    }

    /// Stored values of the rows of all ranks.
    pub fn all_entries<T: Scalar>(&self, a: &CsrView<'_, T>) -> Result<usize> {
        let own = entries(a, &rows_of(self, a)).len() * a.block.len();
        Ok(self.ranks.reduce(own as i64, Reduction::Sum)? as usize)
    }
}

/// Rows of this rank, of blocks where the matrix has them.
pub(crate) fn rows_of<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Range<usize> {
    over.own_blocks(a.rows, a.block.rows)
}

/// Places of the entries of some rows.
fn entries<T: Scalar>(a: &CsrView<'_, T>, rows: &Range<usize>) -> Range<usize> {
    if rows.is_empty() { 0..0 } else { a.row_range(rows.start).start..a.row_range(rows.end - 1).end }
}

/// Whether a matrix has no rows of other ranks.
fn is_own<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> bool {
    entries(a, &rows_of(over, a)).len() == a.nnz()
}

/// The values of entries.
pub(super) fn values_of<'a, T: Scalar>(a: &CsrView<'a, T>, entries: Range<usize>) -> &'a [T] {
    &a.values[entries.start * a.block.len()..entries.end * a.block.len()]
}

/// The columns of the rows of this rank that are rows of other ranks, ascending.
pub(super) fn neighbours<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Result<Vec<u64>> {
    let places = entries(a, &rows_of(over, a));
    columns_of_others(places.len(), |k| a.col(places.start + k), &over.own_blocks(a.cols, a.block.cols))
}

/// What interpolation of own rows reads of other ranks: the rows that own ones refer to, of a scalar matrix and of its
/// strength graph. Both have own rows alone.
pub(crate) struct NeighbourRows {
    matrix: FetchedRows,
    graph: FetchedRows,
}

impl NeighbourRows {
    /// Collective.
    pub fn new<T: Scalar>(over: &Arc<Distribution>, a: &CsrView<'_, T>, graph: &Graph) -> Result<NeighbourRows> {
        let wanted = neighbours(over, a)?;
        let graph = FetchedRows::new(over, (a.rows, 1), |i| graph.row(i), try_copy(&wanted)?)?;
        let matrix = FetchedRows::new(over, (a.rows, 1), |i| &a.columns[a.row_range(i)], wanted)?;
        Ok(NeighbourRows { matrix, graph })
    }

    /// The matrix with these rows. Collective.
    pub fn matrix<T: Scalar>(&self, over: &Distribution, a: &CsrView<'_, T>) -> Result<Csr<T>> {
        Ok(Csr {
            rows: a.rows,
            cols: a.cols,
            block: a.block,
            offsets: self.matrix.offsets_among(a.rows, |i| a.row_range(i).len())?,
            columns: self.matrix.columns_among(a.columns)?,
            values: self.matrix.values_among(over, a)?,
        })
    }

    /// The graph with these rows.
    pub fn graph(&self, graph: &Graph) -> Result<Graph> {
        let offsets = self.graph.offsets_among(graph.rows(), |i| graph.row(i).len())?;
        Ok(Graph { offsets, columns: self.graph.columns_among(&graph.columns)? })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.matrix.bytes() + self.graph.bytes()
    }
}

/// The rows of this rank alone; none where there are no others.
pub(crate) fn own_rows_alone<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Result<Option<Csr<T>>> {
    if is_own(over, a) {
        return Ok(None);
    }
    let own = rows_of(over, a);
    let places = entries(a, &own);
    let mut offsets = try_vec(a.rows + 1, 0_i64)?;
    for i in 0..a.rows {
        let length = if own.contains(&i) { a.row_range(i).len() } else { 0 };
        offsets[i + 1] = offsets[i] + length as i64;
    }
    let columns = try_collect(places.clone().map(|k| a.col(k) as i32))?;
    let values = try_copy(values_of(a, places))?;
    Ok(Some(Csr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values }))
}

/// All rows, on every rank. Collective.
pub(crate) fn gathered<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Result<Csr<T>> {
    let own = rows_of(over, a);
    let places = entries(a, &own);
    let lengths = try_collect(own.map(|i| a.row_range(i).len() as i64))?;
    let columns = try_collect(places.clone().map(|k| a.col(k) as i32))?;
    let (lengths, _) = over.ranks.gather(&lengths)?;
    let (columns, _) = over.ranks.gather(&columns)?;
    let (values, _) = over.ranks.gather(values_of(a, places))?;
    let offsets = par::offsets_from_counts(lengths)?;
    Ok(Csr { rows: a.rows, cols: a.cols, block: a.block, offsets, columns, values })
}

/// Strong couplings of the rows of all ranks. Collective.
pub(crate) fn all_couplings(over: &Distribution, graph: &Graph, own: &Range<usize>) -> Result<usize> {
    let here = graph.offsets[own.end] - graph.offsets[own.start];
    Ok(over.ranks.reduce(here, Reduction::Sum)? as usize)
}

/// The rows of this rank of the transpose. Collective.
pub(crate) fn transposed<T: Scalar>(over: &Distribution, p: &CsrView<'_, T>) -> Result<Csr<T>> {
    let own = own_rows_alone(over, p)?;
    let t = transpose::transpose(&own.as_ref().map_or(*p, Csr::view))?;
    drop(own);
    let messages = Transposition::new(over, &t.offsets, t.block.rows)?;
    let columns = messages.exchanged(over, COLUMNS, &t.columns, 1)?;
    let values = messages.exchanged(over, NUMBERS, &t.values, t.block.len())?;
    Ok(Csr { rows: t.rows, cols: t.cols, block: t.block, offsets: messages.offsets(t.rows)?, columns, values })
}

/// Messages of a transposition. Each rank has the transpose of its rows, and sends what belongs to the rows of others.
pub(super) struct Transposition {
    /// In entries.
    sends: Vec<Part>,
    receives: Vec<Part>,
    /// How many lower ranks entries come from.
    lower: usize,
    /// Rows of this rank, and where they begin in the transpose of its own.
    rows: Range<usize>,
    begins: Vec<i64>,
    /// Entries of each of these rows that come from other ranks, one rank after the other.
    lengths: Vec<i64>,
}

impl Transposition {
    /// For the offsets of the transpose of own rows, in blocks of `width` rows. Collective.
    pub fn new(over: &Distribution, offsets: &[i64], width: usize) -> Result<Transposition> {
        let n = offsets.len() - 1;
        let (ranks, starts) = (&over.ranks, over.block_starts(n, width)?);
        let (rank, size) = (ranks.rank(), ranks.size());
        let place = |row: usize| offsets[row] as usize;
        let counts = try_collect((0..size).map(|to| (place(starts[to + 1]) - place(starts[to])) as u64))?;
        let (all, _) = ranks.gather(&counts)?;
        let rows = starts[rank]..starts[rank + 1];

        // What each rank has of the rows of another one lies together.
        let (mut of_rows, mut sends) = (Vec::new(), Vec::new());
        for to in (0..size).filter(|to| *to != rank && counts[*to] > 0) {
            try_push(&mut of_rows, Part { rank: to, begin: starts[to], length: starts[to + 1] - starts[to] })?;
            try_push(&mut sends, Part { rank: to, begin: place(starts[to]), length: counts[to] as usize })?;
        }
        let (mut row_parts, mut receives, mut incoming) = (Vec::new(), Vec::new(), 0);
        for from in (0..size).filter(|from| *from != rank && all[from * size + rank] > 0) {
            let length = all[from * size + rank] as usize;
            let begin = row_parts.len() * rows.len();
            try_push(&mut row_parts, Part { rank: from, begin, length: rows.len() })?;
            try_push(&mut receives, Part { rank: from, begin: incoming, length })?;
            incoming += length;
        }
        let out = try_collect((0..n).map(|i| offsets[i + 1] - offsets[i]))?;
        let mut lengths = try_vec(row_parts.len() * rows.len(), 0_i64)?;
        over.exchange(LENGTHS, (&of_rows, &out), (&row_parts, &mut lengths))?;
        let lower = receives.iter().take_while(|part| part.rank < rank).count();
        let begins = try_copy(&offsets[rows.start..=rows.end])?;
        Ok(Transposition { sends, receives, lower, rows, begins, lengths })
    }

    /// Offsets of the rows of this rank of the transpose among all `n`.
    fn offsets(&self, n: usize) -> Result<Vec<i64>> {
        let mut offsets = try_vec(n + 1, 0_i64)?;
        for (i, row) in self.rows.clone().enumerate() {
            offsets[row + 1] = self.begins[i + 1] - self.begins[i];
        }
        for of_rank in self.lengths.chunks_exact(self.rows.len().max(1)) {
            of_rank.iter().zip(self.rows.clone()).for_each(|(length, row)| offsets[row + 1] += length);
        }
        (0..n).for_each(|i| offsets[i + 1] += offsets[i]);
        Ok(offsets)
    }

    /// From something for each entry of the transpose of own rows, `width` elements each, that for the rows of this rank of
    /// the transpose. Collective.
    pub fn exchanged<E: Element>(&self, over: &Distribution, tag: i32, own: &[E], width: usize) -> Result<Vec<E>> {
        let incoming = self.receives.iter().map(|part| part.length).sum::<usize>();
        let mut others = try_vec(incoming * width, E::default())?;
        let (sends, receives) = (scaled(&self.sends, width)?, scaled(&self.receives, width)?);
        over.exchange(tag, (&sends, own), (&receives, &mut others))?;
        let count = self.rows.len();
        let here = (self.begins[count] - self.begins[0]) as usize;
        let mut all = try_capacity((incoming + here) * width)?;
        let mut at = try_collect(self.receives.iter().map(|part| part.begin))?;
        for i in 0..count {
            // Rows of lower ranks come first, so that columns ascend.
            for source in 0..=at.len() {
                if source == self.lower {
                    all.extend_from_slice(&own[self.begins[i] as usize * width..self.begins[i + 1] as usize * width]);
                }
                if let Some(at) = at.get_mut(source) {
                    let length = self.lengths[source * count + i] as usize;
                    all.extend_from_slice(&others[*at * width..(*at + length) * width]);
                    *at += length;
                }
            }
        }
        Ok(all)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.begins[..]) + size_of_val(&self.lengths[..])
    }
}

/// The rows of this rank of R A P; all where the level is complete on every rank. Collective.
pub(crate) fn product<T: Scalar>(
    over: &Arc<Distribution>,
    r: &CsrView<'_, T>,
    a: &CsrView<'_, T>,
    p: &CsrView<'_, T>,
) -> Result<SharedCsr<T>> {
    // P and A P are matrices of the library, whose columns are counted from 0.
    let row_of_p = |i: usize| &p.columns[p.row_range(i)];
    let fetched = FetchedRows::new(over, (p.rows, p.block.rows), row_of_p, neighbours(over, a)?)?;
    let values = fetched.values(over, p.block.len(), |i| values_of(p, p.row_range(i)))?;
    let rows = fetched.view(p.cols, p.block, &values);
    let ap = spgemm::divided_intermediate(a, p, Fetched { range: rows_of(over, p), others: &fetched.rows, rows })?;
    let (n, cols, block) = ap.shape();
    let fetched = FetchedRows::new(over, (n, block.rows), |i| ap.entries_of(i).0, neighbours(over, r)?)?;
    let values = fetched.values(over, block.len(), |i| ap.entries_of(i).1)?;
    let rows = fetched.view(cols, block, &values);
    let of_others = Fetched { range: rows_of(over, a), others: &fetched.rows, rows };
    let mut coarse = spgemm::multiply_divided(r, &ap, of_others)?;
    drop((ap, values, fetched));
    let Csr { offsets, columns, values, block, .. } = &mut coarse;
    galerkin::fill_empty_diagonals(offsets, columns, *block, values);
    if !over.is_divided(coarse.rows * coarse.block.rows) {
        coarse = gathered(over, &coarse.view())?;
    }
    Ok(coarse.into_shared())
}

/// Products for estimates of eigenvalues: each rank computes its part of a complete vector.
pub(crate) struct DividedProducts<'a, T> {
    pub over: &'a Distribution,
    pub a: CsrView<'a, T>,
}

impl<T: Scalar> Products<T> for DividedProducts<'_, T> {
    fn scalar_rows(&self) -> usize {
        self.a.scalar_rows()
    }

    fn apply(&self, alpha: T, x: &[T], y: &mut [T]) {
        spmv::apply(&self.a, alpha, x, T::ZERO, y);
        self.over.ranks.keep(self.over.complete(y, y.len()));
    }

    fn apply_and_bound(&self, inverse: &[T], alpha: T, x: &[T], y: &mut [T]) -> Result<f64> {
        let bound = self.over.max(self.a.apply_and_bound(inverse, alpha, x, y)?);
        self.over.complete(y, y.len())?;
        self.over.ranks.status()?;
        Ok(bound)
    }
}
