//! Set-up that is divided among ranks.
//!
//! Matrices have the rows and columns of the whole, and the rows of this rank; other rows are empty. Steps run on them as
//! on any matrix, with the same numbers in the same order. Rows of other ranks that a step needs are fetched before it.
//! Vectors and coarse unknowns are complete on every rank, and so are small levels. A rank has the strength graph of its
//! rows, for interpolation also that of the rows that they refer to.

use crate::comm::halo::{columns_of_others, scaled};
use crate::comm::{Distribution, Halo, Part, Reduction, bytes, bytes_mut};
use crate::error::{Result, try_capacity, try_collect, try_copy, try_push, try_vec};
use crate::host::eigenvalue::Products;
use crate::host::spgemm::Fetched;
use crate::host::{galerkin, spgemm, spmv, transpose};
use crate::par;
use crate::scalar::{Element, Scalar};
use crate::sparse::{Block, Csr, CsrView, Graph, SharedCsr};
use std::ops::Range;
use std::sync::Arc;

/// Tags of messages.
const LENGTHS: i32 = 3;
const COLUMNS: i32 = 4;
const NUMBERS: i32 = 5;

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
fn values_of<'a, T: Scalar>(a: &CsrView<'a, T>, entries: Range<usize>) -> &'a [T] {
    &a.values[entries.start * a.block.len()..entries.end * a.block.len()]
}

/// The columns of the rows of this rank that are rows of other ranks, ascending.
fn neighbours<T: Scalar>(over: &Distribution, a: &CsrView<'_, T>) -> Result<Vec<u64>> {
    let places = entries(a, &rows_of(over, a));
    columns_of_others(places.len(), |k| a.col(places.start + k), &over.own_blocks(a.cols, a.block.cols))
}

/// Parts of arrays with as many elements for each element of these parts as `lengths` says.
fn widened(parts: &[Part], lengths: &[i64]) -> Result<(Vec<Part>, usize)> {
    let mut begin = 0;
    let mut widened = try_capacity(parts.len())?;
    for part in parts {
        let length = lengths[part.begin..][..part.length].iter().sum::<i64>() as usize;
        widened.push(Part { rank: part.rank, begin, length });
        begin += length;
    }
    Ok((widened, begin))
}

/// Rows of other ranks: those that are `wanted`, ascending, one after the other. `row` has the columns and values of the
/// rows of this rank, of a matrix of so many rows, columns and blocks. Collective.
fn fetched<'a, T: Scalar>(
    over: &Arc<Distribution>,
    (n, cols, block): (usize, usize, Block),
    row: impl Fn(usize) -> (&'a [i32], &'a [T]),
    wanted: &[u64],
) -> Result<Csr<T>> {
    let (own, width) = (over.own_blocks(n, block.rows), block.len());
    let below = wanted.partition_point(|i| *i < own.start as u64);
    let halo = Halo::new(over, &over.block_starts(n, block.rows)?, wanted, below)?;
    let sent = || halo.sent.iter().map(|i| row(own.start + *i as usize));
    let out = try_collect(sent().map(|(columns, _)| columns.len() as i64))?;
    let mut lengths = try_vec(wanted.len(), 0_i64)?;
    over.exchange(LENGTHS, (&halo.sends, &out), (&halo.receives, &mut lengths))?;
    let ((sends, outgoing), (receives, incoming)) = (widened(&halo.sends, &out)?, widened(&halo.receives, &lengths)?);
    let (mut out_columns, mut out_values) = (try_capacity(outgoing)?, try_capacity(outgoing * width)?);
    for (columns, values) in sent() {
        out_columns.extend_from_slice(columns);
        out_values.extend_from_slice(values);
    }
    let (mut columns, mut values) = (try_vec(incoming, 0_i32)?, try_vec(incoming * width, T::ZERO)?);
    over.exchange(COLUMNS, (&sends, &out_columns), (&receives, &mut columns))?;
    let (sends, receives) = (scaled(&sends, width)?, scaled(&receives, width)?);
    over.exchange(NUMBERS, (&sends, &out_values), (&receives, &mut values))?;
    let offsets = par::offsets_from_counts(lengths)?;
    Ok(Csr { rows: wanted.len(), cols, block, offsets, columns, values })
}

/// The rows of this rank, and of other ranks those that are `wanted`, ascending. Collective.
fn with_rows<T: Scalar>(over: &Arc<Distribution>, a: &CsrView<'_, T>, wanted: &[u64]) -> Result<Csr<T>> {
    let (n, own, width) = (a.rows, rows_of(over, a), a.block.len());
    let below = wanted.partition_point(|i| *i < own.start as u64);
    let places = entries(a, &own);
    let own_columns: Vec<i32> = try_collect(places.clone().map(|k| a.col(k) as i32))?;
    let row = |i: usize| {
        let row = a.row_range(i);
        (&own_columns[row.start - places.start..row.end - places.start], values_of(a, row))
    };
    let others = fetched(over, (n, a.cols, a.block), row, wanted)?;

    let mut offsets = try_vec(n + 1, 0_i64)?;
    own.clone().for_each(|i| offsets[i + 1] = a.row_range(i).len() as i64);
    let lengths = others.offsets.windows(2).map(|pair| pair[1] - pair[0]);
    wanted.iter().zip(lengths).for_each(|(i, length)| offsets[*i as usize + 1] = length);
    (0..n).for_each(|i| offsets[i + 1] += offsets[i]);
    let total = offsets[n] as usize;
    let (mut columns, mut values) = (try_capacity(total)?, try_capacity(total * width)?);
    let first = others.offsets[below] as usize;
    columns.extend_from_slice(&others.columns[..first]);
    columns.extend_from_slice(&own_columns);
    columns.extend_from_slice(&others.columns[first..]);
    values.extend_from_slice(&others.values[..first * width]);
    values.extend_from_slice(values_of(a, places));
    values.extend_from_slice(&others.values[first * width..]);
    Ok(Csr { rows: n, cols: a.cols, block: a.block, offsets, columns, values })
}

/// A square matrix with the rows that its own ones refer to. Collective.
pub(crate) fn with_neighbours<T: Scalar>(over: &Arc<Distribution>, a: &CsrView<'_, T>) -> Result<Csr<T>> {
    with_rows(over, a, &neighbours(over, a)?)
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

/// The graph of a scalar matrix that has the rows of this rank, with those that its own rows refer to. Collective.
pub(crate) fn graph_with_neighbours<T: Scalar>(
    over: &Arc<Distribution>,
    graph: &Graph,
    a: &CsrView<'_, T>,
) -> Result<Graph> {
    let own = super::coarsening::pattern(graph, &rows_of(over, a))?;
    let Csr { offsets, columns, .. } = with_rows(over, &own.view(), &neighbours(over, a)?)?;
    Ok(Graph { offsets, columns })
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
    let (ranks, starts) = (&over.ranks, over.block_starts(t.rows, t.block.rows)?);
    let (rank, size, width) = (ranks.rank(), ranks.size(), t.block.len());
    let place = |row: usize| t.offsets[row] as usize;
    let counts = try_collect((0..size).map(|to| (place(starts[to + 1]) - place(starts[to])) as u64))?;
    let (all, _) = ranks.gather(&counts)?;
    let rows = starts[rank]..starts[rank + 1];

    // What each rank has of the rows of another one lies together.
    let (mut of_rows, mut of_entries) = (Vec::new(), Vec::new());
    for to in (0..size).filter(|to| *to != rank && counts[*to] > 0) {
        try_push(&mut of_rows, Part { rank: to, begin: starts[to], length: starts[to + 1] - starts[to] })?;
        try_push(&mut of_entries, Part { rank: to, begin: place(starts[to]), length: counts[to] as usize })?;
    }
    let (mut row_parts, mut entry_parts, mut incoming) = (Vec::new(), Vec::new(), 0);
    for from in (0..size).filter(|from| *from != rank && all[from * size + rank] > 0) {
        let length = all[from * size + rank] as usize;
        let begin = row_parts.len() * rows.len();
        try_push(&mut row_parts, Part { rank: from, begin, length: rows.len() })?;
        try_push(&mut entry_parts, Part { rank: from, begin: incoming, length })?;
        incoming += length;
    }
    let out = try_collect((0..t.rows).map(|i| (place(i + 1) - place(i)) as i64))?;
    let mut lengths = try_vec(row_parts.len() * rows.len(), 0_i64)?;
    over.exchange(LENGTHS, (&of_rows, &out), (&row_parts, &mut lengths))?;
    let (mut columns, mut values) = (try_vec(incoming, 0_i32)?, try_vec(incoming * width, T::ZERO)?);
    over.exchange(COLUMNS, (&of_entries, &t.columns), (&entry_parts, &mut columns))?;
    let (of_values, value_parts) = (scaled(&of_entries, width)?, scaled(&entry_parts, width)?);
    over.exchange(NUMBERS, (&of_values, &t.values), (&value_parts, &mut values))?;

    // Rows of lower ranks come first, so that columns ascend.
    let mut at = try_collect(entry_parts.iter().map(|part| part.begin))?;
    let lower = row_parts.iter().take_while(|part| part.rank < rank).count();
    let mut offsets = try_vec(t.rows + 1, 0_i64)?;
    let total = incoming + place(rows.end) - place(rows.start);
    let (mut all_columns, mut all_values) = (try_capacity(total)?, try_capacity(total * width)?);
    for i in 0..t.rows {
        if rows.contains(&i) {
            // None is this rank.
            let sources = (0..lower).map(Some).chain([None]).chain((lower..row_parts.len()).map(Some));
            for source in sources {
                let Some(source) = source else {
                    all_columns.extend_from_slice(&t.columns[place(i)..place(i + 1)]);
                    all_values.extend_from_slice(&t.values[place(i) * width..place(i + 1) * width]);
                    continue;
                };
                let length = lengths[source * rows.len() + i - rows.start] as usize;
                all_columns.extend_from_slice(&columns[at[source]..][..length]);
                all_values.extend_from_slice(&values[at[source] * width..][..length * width]);
                at[source] += length;
            }
        }
        offsets[i + 1] = all_columns.len() as i64;
    }
    Ok(Csr { rows: t.rows, cols: t.cols, block: t.block, offsets, columns: all_columns, values: all_values })
}

/// The rows of this rank of R A P; all where the level is complete on every rank. Collective.
pub(crate) fn product<T: Scalar>(
    over: &Arc<Distribution>,
    r: &CsrView<'_, T>,
    a: &CsrView<'_, T>,
    p: &CsrView<'_, T>,
) -> Result<SharedCsr<T>> {
    // P and A P are matrices of the library, whose columns are counted from 0.
    let others = neighbours(over, a)?;
    let row_of_p = |i: usize| (&p.columns[p.row_range(i)], values_of(p, p.row_range(i)));
    let rows = fetched(over, (p.rows, p.cols, p.block), row_of_p, &others)?;
    let of_others = Fetched { range: rows_of(over, p), others: &others, rows: rows.view() };
    let ap = spgemm::divided_intermediate(a, p, of_others)?;
    let others = neighbours(over, r)?;
    let rows = fetched(over, ap.shape(), |i| ap.entries_of(i), &others)?;
    let of_others = Fetched { range: rows_of(over, a), others: &others, rows: rows.view() };
    let mut coarse = spgemm::multiply_divided(r, &ap, of_others)?;
    drop((ap, rows));
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
