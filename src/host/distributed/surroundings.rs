//! What extended+i interpolation of own rows reads of other ranks: the rows of the matrix and of its strength graph
//! that own ones refer to, and the coarse unknowns among their columns.

use super::divided::{DividedMatrix, DividedPattern};
use crate::backend::parameters::Truncation;
use crate::comm::{Distribution, FetchedRows, Numbering};
use crate::error::{Result, try_collect, try_vec};
use crate::host::extended_i::interpolate_numbered;
use crate::host::setup::Splitting;
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, Graph, Structure};
use std::sync::Arc;

/// A fine unknown in place of the number of a coarse one.
const FINE: i32 = -1;

/// Rows of other ranks, and coarse unknowns near own rows.
pub(crate) struct Surroundings {
    matrix: FetchedRows,
    graph: FetchedRows,
    /// Own unknowns and those that own rows and these refer to.
    near: Numbering,
    /// Which of them are coarse.
    coarse: Vec<bool>,
    /// The numbers of these on the coarse level, ascending.
    numbers: Vec<i32>,
    /// Coarse unknowns of all ranks.
    total: usize,
}

impl Surroundings {
    /// Of a scalar matrix. Collective.
    pub fn new<T: Scalar>(
        over: &Arc<Distribution>,
        a: &DividedMatrix<T>,
        s: &Graph,
        splitting: &Splitting,
    ) -> Result<Surroundings> {
        use crate::backend::setup::CoarseSet;
        let (view, inside) = (a.matrix.view(), a.rows.inside());
        let global = |j: i32| a.columns.global(j as usize);
        let first = inside.start;
        let matrix = FetchedRows::new(over, &a.columns, |i| &view.columns[view.row_range(first + i)], global)?;
        let graph = FetchedRows::new(over, &a.columns, |i| s.row(first + i), global)?;
        let near = a.columns.and(matrix.columns.iter().map(|j| *j as usize))?;
        let near = Numbering::new(over, &over.starts(a.rows.total)?, near.into_ghosts())?;

        // Own coarse unknowns are numbered after those of lower ranks.
        let own = splitting[inside.clone()].iter().filter(|coarse| **coarse).count();
        let (counts, _) = over.ranks.gather(&[own as u64])?;
        let mut next = counts[..over.ranks.rank()].iter().sum::<u64>() as i32;
        let mut number = try_vec(near.count(), FINE)?;
        for (number, coarse) in number[near.inside()].iter_mut().zip(&splitting[inside]) {
            if *coarse {
                *number = next;
                next += 1;
            }
        }
        near.exchange(over, 1, &mut number)?;
        let coarse = try_collect(number.iter().map(|number| *number != FINE))?;
        number.retain(|number| *number != FINE);
        Ok(Surroundings { matrix, graph, near, coarse, numbers: number, total: splitting.count() })
    }

    /// The matrix and the graph with the rows of other ranks, by the numbers of all that is near. Collective.
    fn wide<T: Scalar>(&self, over: &Distribution, a: &DividedMatrix<T>, s: &Graph) -> Result<(Csr<T>, Graph)> {
        let (view, numbers, near) = (a.matrix.view(), &a.columns, &self.near);
        let first = a.rows.inside().start;
        let values = self.matrix.values(over, 1, |i| &view.values[view.row_range(first + i)])?;
        let of_matrix = self.matrix.offsets_among(|i| view.row_range(first + i).len())?;
        let of_graph = self.graph.offsets_among(|i| s.row(first + i).len())?;
        // Rows of unknowns that are only near are empty.
        let spread = |offsets: &[i64]| {
            let (mut all, mut at) = (try_vec(near.count() + 1, 0_i64)?, 0);
            for (row, end) in all[1..].iter_mut().enumerate() {
                at += usize::from(at < numbers.count() && numbers.global(at) == near.global(row));
                *end = offsets[at];
            }
            Ok(all)
        };
        let local = |columns: &[i32]| {
            try_collect(columns.iter().map(|j| near.local(*j as usize).map_or(-1, |local| local as i32)))
        };
        let columns = numbers.renumbered(near, view.columns)?;
        let matrix = Csr {
            rows: near.count(),
            cols: near.count(),
            block: Block::SCALAR,
            offsets: spread(&of_matrix)?,
            columns: self.matrix.among(&columns, &local(&self.matrix.columns)?, 1)?,
            values: self.matrix.among(view.values, &values, 1)?,
        };
        drop(columns);
        let columns = self.graph.among(&numbers.renumbered(near, &s.columns)?, &local(&self.graph.columns)?, 1)?;
        Ok((matrix, Graph { offsets: spread(&of_graph)?, columns }))
    }

    /// Own rows of interpolation, by the numbers of coarse unknowns that are near, or those of an earlier pattern.
    /// Collective.
    fn weights<T: Scalar>(
        &self,
        over: &Distribution,
        a: &DividedMatrix<T>,
        s: &Graph,
        truncation: Truncation,
        pattern: Option<&Structure>,
    ) -> Result<Csr<T>> {
        let (matrix, graph) = self.wide(over, a, s)?;
        let own = try_collect(self.near.inside().map(|i| i as u32))?;
        interpolate_numbered(&matrix.view(), &graph, &self.coarse, &own, (truncation, &self.numbers), pattern)
    }

    /// Own rows of interpolation. Collective.
    pub fn interpolate<T: Scalar>(
        &self,
        over: &Arc<Distribution>,
        a: &DividedMatrix<T>,
        s: &Graph,
        truncation: Truncation,
    ) -> Result<DividedMatrix<T>> {
        let Csr { block, offsets, columns, values, .. } = self.weights(over, a, s, truncation, None)?;
        let number = |k: usize| self.numbers[columns[k] as usize] as usize;
        let (numbers, columns) = Numbering::of_columns(over, &over.starts(self.total)?, columns.len(), number)?;
        DividedMatrix::of_own_rows(Arc::clone(&a.rows), Arc::new(numbers), block, (&offsets, columns, values))
    }

    /// The same with an earlier pattern. Collective.
    pub fn update<T: Scalar>(
        &self,
        over: &Distribution,
        a: &DividedMatrix<T>,
        s: &Graph,
        pattern: &DividedPattern,
    ) -> Result<DividedMatrix<T>> {
        let (offsets, columns) = pattern.structure.own_arrays();
        let near = |j: &i32| {
            let number = pattern.columns.global(*j as usize) as i32;
            self.numbers.binary_search(&number).map_or(-1, |near| near as i32)
        };
        let columns = try_collect(columns.iter().map(near))?;
        let offsets = try_collect(pattern.rows.of_own(offsets).iter().copied())?;
        let own = Structure::new(pattern.rows.own.len(), self.numbers.len(), Block::SCALAR, offsets, columns);
        let p = self.weights(over, a, s, Truncation::new(0, 0.0), Some(&own))?;
        Ok(pattern.with(p.values))
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let Surroundings { matrix, graph, near, coarse, numbers, .. } = self;
        matrix.bytes() + graph.bytes() + near.bytes() + size_of_val(&coarse[..]) + size_of_val(&numbers[..])
    }
}
