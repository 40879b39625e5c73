//! A matrix of which each rank has contiguous rows.

use super::{Matrix, MatrixStorage, Values};
use crate::backend::common::Symmetry;
use crate::comm::{Distribution, Halo, LocalColumns, LocalNumbers, Numbering, Ranks, Reduction};
use crate::context::Context;
use crate::error::{Error, Result, fail, try_capacity, try_collect, try_copy, try_vec};
use crate::host::symmetry;
use crate::scalar::{Element, Precision, Scalar, with_precision};
use crate::sparse::{Block, Csr, CsrView, OffsetStorage, Structure};
use crate::sync::lock;
use std::sync::{Arc, RwLock};

/// The rows of one rank, as its caller has them.
pub struct GivenRows {
    /// Rows of all ranks.
    pub total: usize,
    /// The first row of this rank.
    pub first: usize,
    /// Where each of its rows begins, from 0 on, and the number of entries.
    pub offsets: Vec<i64>,
    /// Columns, from 0 on.
    pub columns: Vec<i64>,
    /// Values.
    pub values: Values,
    /// The promise that columns ascend in each row.
    pub sorted: bool,
    /// From where rows and columns are counted in sentences.
    pub base: usize,
}

/// What a distributed matrix knows beside the rows of this rank.
pub(crate) struct DistributedRows {
    /// The ranks, and how the columns of other ranks come here.
    pub halo: Arc<Halo>,
    first: usize,
    ghosts: Vec<u64>,
    /// Entries of the rows of all ranks.
    pub entries: usize,
}

impl DistributedRows {
    /// The ranks.
    pub fn over(&self) -> &Arc<Distribution> {
        &self.halo.over
    }

    /// The first row of this rank.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The global number of a local column.
    fn global(&self, column: usize) -> usize {
        let Halo { below, own, .. } = *self.halo;
        match column {
            j if j < below => self.ghosts[j] as usize,
            j if j < below + own => self.first + j - below,
            j => self.ghosts[j - own] as usize,
        }
    }
}

impl DistributedRows {
    /// Refuses own rows without a diagonal.
    fn check_diagonals<T: Scalar>(&self, own: &CsrView<'_, T>) -> Result<()> {
        let has_diagonal = |i: usize| own.row(i).any(|(j, v)| j == self.halo.below + i && v[0] != T::ZERO);
        match (0..own.rows).find(|i| !has_diagonal(*i)) {
            Some(i) => fail!(MatrixValues, "row {}: the diagonal is missing or zero; AMG needs one", self.first + i),
            None => Ok(()),
        }
    }
}

impl GivenRows {
    fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn check(&self) -> Result<()> {
        let (total, first, rows, entries) = (self.total, self.first, self.rows(), self.columns.len());
        if self.offsets.first() != Some(&0) || self.offsets.last() != Some(&(entries as i64)) {
            return fail!(MatrixStructure, "the offsets of {rows} rows do not go from 0 to the {entries} columns");
        }
        if entries != self.values.len() {
            return fail!(SizeMismatch, "{entries} columns and {} values", self.values.len());
        }
        if let Some(i) = (0..rows).find(|i| self.offsets[*i] > self.offsets[i + 1]) {
            let row = first + i + self.base;
            return fail!(MatrixStructure, "row {row} ends before it begins; row offsets must not decrease");
        }
        let outside = |k: &usize| usize::try_from(self.columns[*k]).is_ok_and(|j| j < total);
        if let Some(k) = (0..entries).find(|k| !outside(k)) {
            let row = first + self.offsets.partition_point(|o| *o <= k as i64) - 1 + self.base;
            let (column, base) = (self.columns[k] + self.base as i64, self.base);
            return fail!(
                MatrixStructure,
                "row {row} has column {column}; the matrix has {total} columns, counted from {base}"
            );
        }
        Ok(())
    }
}

/// The diagonal of own rows, of which so many columns of lower ranks come before the own ones.
fn own_diagonal<T: Scalar>(own: &CsrView<'_, T>, below: usize) -> Result<Vec<T>> {
    let entry = |i: usize| own.row(i).find(|(j, _)| *j == below + i).map_or(T::ZERO, |(_, v)| v[0]);
    try_collect((0..own.rows).map(entry))
}

/// Checks that the rows of the ranks are those of one matrix, and returns the first of each. The same on every rank.
fn starts(ranks: &Ranks, given: &GivenRows) -> Result<Vec<usize>> {
    let precision = u64::from(given.values.precision() == Precision::F32);
    let own = [given.total as u64, given.first as u64, given.rows() as u64, precision];
    let (all, _) = ranks.gather(&own)?;
    let mut starts = try_vec(ranks.size() + 1, 0)?;
    for (rank, of) in all.chunks_exact(4).enumerate() {
        let [total, first, rows, format] = [of[0], of[1], of[2], of[3]];
        if (total, format) != (all[0], all[3]) {
            return fail!(
                SizeMismatch,
                "rank {rank} has a matrix of {total} rows in {}, rank 0 one of {} in {}; they must agree",
                if format == 1 { "f32" } else { "f64" },
                all[0],
                if all[3] == 1 { "f32" } else { "f64" }
            );
        }
        if first != starts[rank] as u64 {
            return fail!(
                SizeMismatch,
                "the first row of rank {rank} is {first}, and the ranks before it have {} rows; ranks have consecutive rows",
                starts[rank]
            );
        }
        starts[rank + 1] = starts[rank] + rows as usize;
    }
    if starts[ranks.size()] as u64 != all[0] {
        return fail!(SizeMismatch, "the ranks have {} rows, the matrix {}", starts[ranks.size()], all[0]);
    }
    Ok(starts)
}

impl Matrix {
    /// Collective: a square matrix of which each rank of the context's communicator has contiguous rows, those of
    /// rank 0 first. A rank may have none. Where a rank fails, also with what it gives, every rank does.
    pub fn distributed(context: &Context, given: Result<GivenRows>) -> Result<Matrix> {
        let ranks = Arc::new(Ranks::new(context.communicator()?));
        ranks.run(|| {
            let given = given.and_then(|given| given.check().map(|()| given));
            let given = ranks.agree(given)?;
            let starts = starts(&ranks, &given)?;
            let (first, total) = (given.first, given.total);
            let own = first..first + given.rows();
            let local = || LocalColumns::new(given.columns.len(), |k| given.columns[k] as usize, &own);
            let LocalColumns { columns, ghosts, below } = ranks.agree(local())?;
            let over = Distribution::new(Arc::clone(&ranks), starts);
            let halo = Halo::new(&over, &over.starts(total)?, &ghosts, below)?;
            let (offsets, rows) = (given.offsets, own.len());
            let structure = Structure::new(rows, own.len() + ghosts.len(), Block::SCALAR, offsets, columns);
            let made = context.run(given.values.len(), || Matrix::new(structure, given.values, given.sorted));
            let where_from = |error: Error| {
                let message =
                    format!("rows and columns as this rank counts them, its first row as 0: {}", error.message);
                Error::new(error.status, message)
            };
            let mut matrix = ranks.agree(made.map_err(where_from))?;
            let entries = ranks.reduce(matrix.entries() as i64, Reduction::Sum)? as usize;
            matrix.distributed = Some(Arc::new(DistributedRows { halo: Arc::new(halo), first, ghosts, entries }));
            Ok(matrix)
        })
    }

    /// The ranks of a distributed matrix.
    pub(crate) fn over_ranks(&self) -> Option<&Arc<DistributedRows>> {
        self.distributed.as_ref()
    }

    /// Over ranks the result of all of them, as [`Ranks::agree`]; otherwise the result.
    pub(crate) fn agree<R>(&self, result: Result<R>) -> Result<R> {
        match &self.distributed {
            Some(rows) => rows.over().ranks.agree(result),
            None => result,
        }
    }

    /// Scalar columns; of a distributed matrix those of the whole.
    pub(crate) fn whole_cols(&self) -> usize {
        self.distributed.as_ref().map_or(self.cols(), |rows| rows.over().rows())
    }

    /// Scalar rows; of the rows of a rank those of the whole.
    pub(crate) fn whole_rows(&self) -> usize {
        match (&self.distributed, &self.local) {
            (Some(rows), _) => rows.over().rows(),
            (None, Some(numbers)) => numbers.total,
            (None, None) => self.rows(),
        }
    }

    /// Collective: some vectors of the rows of this rank, one after the other, as those of all rows, on every rank.
    pub(super) fn gathered_vectors<T: Element>(
        &self,
        rows: &DistributedRows,
        count: usize,
        own: &[T],
    ) -> Result<Vec<T>> {
        let (ranks, n) = (&rows.over().ranks, self.rows());
        ranks.run(|| {
            let fits = match own.len() == count * n {
                true => Ok(()),
                false => fail!(SizeMismatch, "{} numbers were given for {count} vectors of {n} rows", own.len()),
            };
            ranks.agree(fits)?;
            let (fewest, most) =
                (ranks.reduce(count as i64, Reduction::Min)?, ranks.reduce(count as i64, Reduction::Max)?);
            if fewest != most {
                return fail!(SizeMismatch, "ranks gave {fewest} to {most} vectors; each must give as many");
            }
            let mut all = ranks.agree(try_capacity(count * rows.over().rows()))?;
            for vector in 0..count {
                all.extend(ranks.gather(&own[vector * n..][..n])?.0);
            }
            Ok(all)
        })
    }

    /// Refuses a distributed matrix.
    pub(crate) fn check_not_distributed(&self, what: &str) -> Result<()> {
        match &self.distributed {
            Some(_) => fail!(
                Unsupported,
                "{what} is not available for a matrix over ranks; a solver is, with the preconditioners amg, fsai, jacobi and none"
            ),
            None => Ok(()),
        }
    }

    /// Takes over what is known about the unknowns of a distributed matrix, for the rows of a rank.
    pub(crate) fn set_unknowns(&self, of: &Matrix) {
        *lock(self.near_null_space.write()) = of.near_null_space();
        *lock(self.functions.write()) = of.functions();
    }

    /// Collective: the whole of a distributed matrix, on every rank.
    pub(crate) fn gathered(&self, rows: &DistributedRows) -> Result<Matrix> {
        let (ranks, total) = (&rows.over().ranks, rows.over().rows());
        if total > i32::MAX as usize {
            return fail!(
                Unsupported,
                "the preconditioner of a matrix over ranks has at most {} rows, this one {total}; set solver.preconditioner to none",
                i32::MAX
            );
        }
        with_precision!(self.precision(), T => {
            let local = || {
                let a = self.shared::<T>()?;
                let view = a.view();
                let mut lengths = try_capacity(view.rows)?;
                lengths.extend((0..view.rows).map(|i| view.row_range(i).len() as i64));
                let mut columns = try_capacity(view.nnz())?;
                columns.extend((0..view.nnz()).map(|k| rows.global(view.col(k)) as i32));
                Ok((a, lengths, columns))
            };
            let (a, lengths, columns) = ranks.agree(local())?;
            let (lengths, _) = ranks.gather(&lengths)?;
            let (columns, _) = ranks.gather(&columns)?;
            let (values, _) = ranks.gather(a.values.as_slice())?;
            let whole = crate::par::offsets_from_counts(lengths).and_then(|offsets| {
                Matrix::from_csr(Csr { rows: total, cols: total, block: Block::SCALAR, offsets, columns, values })
            });
            let whole = ranks.agree(whole)?;
            *lock(whole.functions.write()) = self.functions();
            if let Some(own) = self.near_null_space() {
                *lock(whole.near_null_space.write()) = Some(Arc::new(rows.gathered_near_null_space(&own)?));
            }
            Ok(whole)
        })
    }

    /// The rows of this rank for a divided set-up: rows and columns have the local numbers of the columns, and rows
    /// of ghosts are empty. Columns and values are shared. Refuses a row without a diagonal.
    pub(crate) fn among_ghosts(&self, rows: &DistributedRows) -> Result<Matrix> {
        let own = rows.first..rows.first + rows.halo.own;
        let numbers = LocalNumbers::new(own, try_copy(&rows.ghosts)?)?;
        let values = self.values_among_ghosts(rows)?;
        let own = self.structure()?;
        let offsets = numbers.among_ghosts(own.own_arrays().0)?;
        let (count, columns) = (numbers.count(), Arc::clone(&own.columns));
        let offsets = OffsetStorage::I64(Arc::new(offsets));
        let structure = Structure { rows: count, cols: count, block: Block::SCALAR, offsets, columns, base: 0 };
        let (structure, values) = (Arc::new(structure), RwLock::new(values));
        let storage = MatrixStorage::Host { structure, values };
        let mut matrix = Matrix::at(storage, (count, count), Block::SCALAR, self.nnz, None);
        matrix.local = Some(Arc::new(Numbering::with_halo(numbers, rows.over().rows(), Arc::clone(&rows.halo))));
        Ok(matrix)
    }

    /// The values of [`Matrix::among_ghosts`].
    pub(crate) fn values_among_ghosts(&self, rows: &DistributedRows) -> Result<Values> {
        with_precision!(self.precision(), T => rows.check_diagonals(&self.shared::<T>()?.view()))?;
        match &self.storage {
            MatrixStorage::Host { values, .. } => Ok(lock(values.read()).clone()),
            _ => fail!(Internal, "the rows of a rank are on a device"),
        }
    }

    /// Collective: the values of [`Matrix::gathered`].
    pub(crate) fn gathered_values(&self, rows: &DistributedRows) -> Result<Values> {
        let ranks = &rows.over().ranks;
        with_precision!(self.precision(), T => {
            let a = ranks.agree(self.shared::<T>())?;
            Ok(Values::from(ranks.gather(a.values.as_slice())?.0))
        })
    }

    /// Collective: the values of [`Matrix::gathered_diagonal`].
    pub(crate) fn gathered_diagonal_values(&self, rows: &DistributedRows) -> Result<Values> {
        let ranks = &rows.over().ranks;
        with_precision!(self.precision(), T => {
            let local = self.shared::<T>().and_then(|a| own_diagonal(&a.view(), rows.halo.below));
            Ok(Values::from(ranks.gather(&ranks.agree(local)?)?.0))
        })
    }

    /// Collective: the diagonal of a distributed matrix as a matrix, on every rank.
    pub(crate) fn gathered_diagonal(&self, rows: &DistributedRows) -> Result<Matrix> {
        let (ranks, total) = (&rows.over().ranks, rows.over().rows());
        if total > i32::MAX as usize {
            return fail!(
                Unsupported,
                "the preconditioner of a matrix over ranks has at most {} rows, this one {total}; set solver.preconditioner to none",
                i32::MAX
            );
        }
        with_precision!(self.precision(), T => {
            let local = self.shared::<T>().and_then(|a| own_diagonal(&a.view(), rows.halo.below));
            let (values, _) = ranks.gather(&ranks.agree(local)?)?;
            let whole = || {
                let mut columns = try_capacity(total)?;
                columns.extend(0..total as i32);
                let offsets = crate::par::offsets(total, |_| 1)?;
                Matrix::from_csr(Csr::<T> { rows: total, cols: total, block: Block::SCALAR, offsets, columns, values })
            };
            ranks.agree(whole())
        })
    }

    /// Collective: what one pass over a distributed matrix tells about its symmetry. The same on every rank.
    pub(crate) fn symmetry_over_ranks(&self, context: &Context, rows: &DistributedRows) -> Result<Symmetry> {
        let ranks = &rows.over().ranks;
        let own = with_precision!(self.precision(), T => {
            self.shared::<T>().and_then(|a| {
                context.run(self.entries(), || symmetry::at(&a.view(), |i| rows.first + i, |j| rows.global(j)))
            })
        });
        let own = ranks.agree(own)?;
        let (all, _) = ranks.gather(&[own.difference, own.squares])?;
        let sum = |k: usize| all.chunks_exact(2).map(|of| of[k]).sum();
        let count = |own: u64| ranks.reduce(own as i64, Reduction::Sum).map(|all| all as u64);
        let (positive, negative) = (count(own.positive)?, count(own.negative)?);
        Ok(Symmetry { difference: sum(0), squares: sum(1), positive, negative })
    }
}
