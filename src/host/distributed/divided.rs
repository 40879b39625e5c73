//! Set-up that is divided among ranks.
//!
//! A matrix has the rows of this rank, and rows and columns have local numbers ([`crate::comm::Numbering`]): those of
//! own unknowns and of ghosts, in the order of the global ones. Rows of ghosts are empty. So steps run on it as on any
//! matrix, with the same numbers in the same order; rows of other ranks that a step needs are fetched before it. No
//! array is as long as the level of all ranks. Smaller levels are complete on every rank.

use crate::comm::{Distribution, DividedLevel, Numbering, Reduction};
use crate::error::{Result, try_collect, try_copy};
use crate::par;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Block, Csr, CsrView, OffsetStorage, Offsets, OwnRows, SharedCsr, Storage, Structure};
use std::sync::Arc;

/// The rows of this rank of a matrix.
pub struct DividedMatrix<S> {
    /// Rows and columns count from the first local number; rows of ghosts are empty.
    pub matrix: SharedCsr<S>,
    /// The numbers of its rows, in blocks, and of its columns. Those of a square matrix are the same.
    pub(crate) rows: Arc<Numbering>,
    pub(crate) columns: Arc<Numbering>,
}

impl<S> Clone for DividedMatrix<S> {
    fn clone(&self) -> Self {
        self.with(self.matrix.clone())
    }
}

/// The pattern of a divided matrix.
#[derive(Clone)]
pub struct DividedPattern {
    pub structure: Arc<Structure>,
    pub(crate) rows: Arc<Numbering>,
    pub(crate) columns: Arc<Numbering>,
}

impl DividedPattern {
    /// With these values.
    pub fn with<S: Number>(&self, values: Vec<S>) -> DividedMatrix<S> {
        self.with_shared(Arc::new(values))
    }

    /// The same.
    pub fn with_shared<S>(&self, values: Arc<dyn Storage<S>>) -> DividedMatrix<S> {
        let matrix = SharedCsr { structure: Arc::clone(&self.structure), values };
        DividedMatrix { matrix, rows: Arc::clone(&self.rows), columns: Arc::clone(&self.columns) }
    }
}

impl<S> DividedMatrix<S> {
    /// Another matrix with these rows and columns.
    pub fn with<N>(&self, matrix: SharedCsr<N>) -> DividedMatrix<N> {
        DividedMatrix { matrix, rows: Arc::clone(&self.rows), columns: Arc::clone(&self.columns) }
    }

    /// Its pattern.
    pub fn pattern(&self) -> DividedPattern {
        let structure = Arc::clone(&self.matrix.structure);
        DividedPattern { structure, rows: Arc::clone(&self.rows), columns: Arc::clone(&self.columns) }
    }

    /// The level of its rows.
    pub(crate) fn level<'a>(&'a self, over: &'a Arc<Distribution>) -> DividedLevel<'a> {
        DividedLevel { over, numbers: &self.rows }
    }
}

impl<S: Number> DividedMatrix<S> {
    /// From own rows whose columns have numbers of `columns`: offsets, columns and values.
    pub(crate) fn of_own_rows(
        rows: Arc<Numbering>,
        columns: Arc<Numbering>,
        block: Block,
        (offsets, entries, values): (&[i64], Vec<i32>, Vec<S>),
    ) -> Result<DividedMatrix<S>> {
        let offsets = rows.among_ghosts(offsets)?;
        let (count, cols) = (rows.count(), columns.count());
        let matrix = Csr { rows: count, cols, block, offsets, columns: entries, values }.into_shared();
        Ok(DividedMatrix { matrix, rows, columns })
    }

    /// The own rows without blocks, and what their product with a vector needs.
    pub(crate) fn stored(&self) -> Result<(SharedCsr<S>, OwnRows)> {
        let block = self.matrix.structure.block;
        let scalar = match block.len() {
            1 => self.matrix.clone(),
            _ => self.matrix.view().to_scalar()?.into_shared(),
        };
        let inside = self.rows.inside();
        let inside = inside.start * block.rows..inside.end * block.rows;
        let view = scalar.view();
        let offsets = try_collect((inside.start..=inside.end).map(|i| view.offsets.raw(i)))?;
        let columns = Arc::clone(&scalar.structure.columns);
        let halo = self.columns.halo_of_blocks(block.cols)?;
        let (rows, cols, offsets) = (inside.len(), view.cols, OffsetStorage::I64(Arc::new(offsets)));
        let structure = Arc::new(Structure { rows, cols, block: Block::SCALAR, offsets, columns, base: 0 });
        let known = OwnRows::new(Arc::clone(&structure), halo, 0..view.nnz());
        Ok((SharedCsr { structure, values: scalar.values }, known))
    }
}

/// All rows, on every rank. Collective.
pub(crate) fn gathered<T: Scalar>(over: &Distribution, a: &DividedMatrix<T>) -> Result<Csr<T>> {
    let view = a.matrix.view();
    let lengths = try_collect(a.rows.inside().map(|i| view.row_range(i).len() as i64))?;
    let columns = try_collect((0..view.nnz()).map(|k| a.columns.global(view.col(k)) as i32))?;
    let (lengths, _) = over.ranks.gather(&lengths)?;
    let (columns, _) = over.ranks.gather(&columns)?;
    let (values, _) = over.ranks.gather(view.values)?;
    let offsets = par::offsets_from_counts(lengths)?;
    Ok(Csr { rows: a.rows.total, cols: a.columns.total, block: view.block, offsets, columns, values })
}

/// A number of each rank, added. Collective.
pub(crate) fn sum(over: &Distribution, own: usize) -> Result<usize> {
    Ok(over.ranks.reduce(own as i64, Reduction::Sum)? as usize)
}

/// Those of own unknowns of some numbers for each unknown.
pub(crate) fn of_own<T: Copy>(numbers: &Numbering, all: Vec<T>) -> Result<Vec<T>> {
    let (inside, count) = (numbers.inside(), numbers.count());
    if inside.len() == count {
        return Ok(all);
    }
    let width = all.len() / count.max(1);
    try_copy(&all[inside.start * width..inside.end * width])
}

/// A square scalar matrix in blocks of `size` rows. Each rank has whole blocks. Collective.
pub(crate) fn to_nodes<T: Scalar>(
    over: &Arc<Distribution>,
    a: &DividedMatrix<T>,
    size: usize,
) -> Result<DividedMatrix<T>> {
    let view = a.matrix.view();
    let global = |k: usize| a.columns.global(view.col(k));
    let starts = over.block_starts(a.rows.total / size, size)?;
    let (nodes, mut columns) = Numbering::of_columns(over, &starts, view.nnz(), |k| global(k) / size)?;
    columns.iter_mut().enumerate().for_each(|(k, column)| *column = *column * size as i32 + (global(k) % size) as i32);
    let inside = a.rows.inside();
    let (first, rows) = (nodes.inside().start * size, nodes.count() * size);
    // Ghosts are whole nodes, too.
    let end = |i: usize| match i {
        i if i <= first || inside.is_empty() => 0,
        i => view.row_range(inside.start + (i - first).min(inside.len()) - 1).end as i64,
    };
    let offsets = try_collect((0..=rows).map(end))?;
    let scalar = CsrView { rows, cols: rows, offsets: Offsets::I64(&offsets), columns: &columns, base: 0, ..view };
    let (matrix, nodes) = (scalar.to_blocks(size)?.into_shared(), Arc::new(nodes));
    Ok(DividedMatrix { matrix, rows: Arc::clone(&nodes), columns: nodes })
}

/// Matrices for tests.
#[cfg(feature = "unit-tests")]
pub(crate) mod testing {
    use super::*;
    use crate::comm::{Ranks, threads};
    use crate::hash::hash;

    /// Rows of up to so many blocks, some of them empty, each with a diagonal where it is square.
    pub fn random(rows: usize, cols: usize, longest: u64, block: Block, seed: u64) -> Csr<f64> {
        let entries = (0..rows).flat_map(|i| {
            let others =
                (0..hash(i, seed) % (longest + 1)).map(move |k| hash(i * 1000 + k as usize, seed) as usize % cols);
            others.chain((rows == cols).then_some(i)).map(move |j| (i, j, 1.0))
        });
        let pattern = Csr::from_triplets(rows, cols, &entries.collect::<Vec<_>>()).unwrap();
        let mut a = Csr::with_pattern(rows, cols, block, pattern.offsets, pattern.columns).unwrap();
        a.values.iter_mut().enumerate().for_each(|(k, v)| *v = (hash(k, seed + 1) % 1000) as f64 / 7.0 - 50.0);
        a
    }

    /// The rows of this rank; columns of a square matrix have the numbers of its rows.
    pub fn divided(over: &Arc<Distribution>, a: &Csr<f64>) -> DividedMatrix<f64> {
        let (view, own) = (a.view(), over.own_blocks(a.rows, a.block.rows));
        let first = a.offsets[own.start];
        let entries = first as usize..a.offsets[own.end] as usize;
        let offsets: Vec<i64> = a.offsets[own.start..=own.end].iter().map(|offset| offset - first).collect();
        let values = a.values[entries.start * a.block.len()..entries.end * a.block.len()].to_vec();
        let column = |k: usize| view.col(entries.start + k);
        let starts = over.block_starts(a.cols, a.block.cols).unwrap();
        let (columns, numbers) = Numbering::of_columns(over, &starts, entries.len(), column).unwrap();
        let columns = Arc::new(columns);
        let rows = match a.rows == a.cols {
            true => Arc::clone(&columns),
            false => {
                let starts = over.block_starts(a.rows, a.block.rows).unwrap();
                Arc::new(Numbering::new(over, &starts, Vec::new()).unwrap())
            }
        };
        DividedMatrix::of_own_rows(rows, columns, a.block, (&offsets, numbers, values)).unwrap()
    }

    /// Runs `work` on ranks of which the finest level has these first rows.
    pub fn on_ranks(starts: &[usize], work: impl Fn(&Arc<Distribution>) + Sync) {
        let one = |communicator| work(&Distribution::new(Arc::new(Ranks::new(communicator)), starts.to_vec()));
        std::thread::scope(|scope| {
            let one = &one;
            let all = threads(starts.len() - 1).into_iter().map(|communicator| scope.spawn(move || one(communicator)));
            all.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
