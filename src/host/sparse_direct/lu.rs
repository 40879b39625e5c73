//! Left-looking factorisation P A Q = L U with threshold partial pivoting (Gilbert and Peierls, SIAM J. Sci. Stat.
//! Comput. 9, 1988): the pattern of each column of L and U is found by a search in the graph of L, in time proportional
//! to the operations.

use super::cholesky::Failure;
use crate::error::{Result, try_capacity, try_reserve, try_vec};
use crate::sparse::Csr;

/// Not a pivot yet.
const NONE: i32 = -1;

/// A triangular factor by columns.
struct Columns {
    /// Where each column begins, and the end.
    offsets: Vec<usize>,
    rows: Vec<i32>,
    values: Vec<f64>,
}

impl Columns {
    fn new(n: usize, room: usize) -> Result<Columns> {
        let mut offsets = try_capacity(n + 1)?;
        offsets.push(0);
        Ok(Columns { offsets, rows: try_capacity(room)?, values: try_capacity(room)? })
    }

    fn reserve(&mut self, more: usize) -> Result<()> {
        try_reserve(&mut self.rows, more)?;
        try_reserve(&mut self.values, more)
    }

    fn push(&mut self, row: i32, value: f64) {
        self.rows.push(row);
        self.values.push(value);
    }

    fn column(&self, j: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.offsets[j]..self.offsets[j + 1];
        self.rows[range.clone()].iter().map(|i| *i as usize).zip(self.values[range].iter().copied())
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<i32>() + self.values.capacity() * size_of::<f64>()
    }
}

/// The factors of a matrix.
pub struct Lu {
    /// Below its diagonal, which is 1.
    l: Columns,
    /// Above its diagonal.
    u: Columns,
    diagonal: Vec<f64>,
    /// The pivot of each row.
    pivot_of_row: Vec<i32>,
    /// The column of each pivot.
    order: Vec<i32>,
    work: Vec<f64>,
}

impl Lu {
    /// Factorises a matrix, given by its transpose, with rows scaled by `rows` and columns by `columns`, so that the
    /// largest entry of each column is about 1. `order` is that of the columns. The entry on the diagonal is the pivot
    /// unless it is below `threshold` times the largest.
    pub fn new(
        transpose: &Csr<f64>,
        order: &[i32],
        (rows, columns): (&[f64], &[f64]),
        threshold: f64,
    ) -> std::result::Result<Lu, Failure> {
        let n = order.len();
        let mut own_order: Vec<i32> = try_capacity(n)?;
        own_order.extend_from_slice(order);
        let mut lu = Lu {
            l: Columns::new(n, transpose.columns.len() * 2)?,
            u: Columns::new(n, transpose.columns.len() * 2)?,
            diagonal: try_vec(n, 0.0)?,
            pivot_of_row: try_vec(n, NONE)?,
            order: own_order,
            work: try_vec(n, 0.0)?,
        };
        let mut search = Search::new(n)?;
        for k in 0..n {
            let column = lu.order[k] as usize;
            let entries = transpose.offsets[column] as usize..transpose.offsets[column + 1] as usize;
            search.reach(&transpose.columns[entries.clone()], &lu.l, &lu.pivot_of_row, k as u32 + 1);
            for at in entries {
                let i = transpose.columns[at] as usize;
                lu.work[i] += transpose.values[at] * rows[i] * columns[column];
            }
            lu.l.reserve(search.found.len())?;
            lu.u.reserve(search.found.len())?;
            let pivot = lu.column(&search.found, column, threshold).ok_or(Failure::Singular(column))?;
            lu.pivot_of_row[pivot] = k as i32;
        }
        for row in &mut lu.l.rows {
            *row = lu.pivot_of_row[*row as usize];
        }
        Ok(lu)
    }

    /// Computes a column from `work`, whose pattern is given in reverse topological order, and clears it. Returns the row
    /// of the pivot, none where all that is left is zero.
    fn column(&mut self, found: &[i32], diagonal: usize, threshold: f64) -> Option<usize> {
        let Lu { l, u, work, pivot_of_row, .. } = self;
        let (mut largest, mut best) = (0.0, NONE);
        for &i in found.iter().rev() {
            let pivot = pivot_of_row[i as usize];
            if pivot == NONE {
                continue;
            }
            let v = std::mem::replace(&mut work[i as usize], 0.0);
            if v != 0.0 {
                u.push(pivot, v);
                for (row, l) in l.column(pivot as usize) {
                    work[row] -= v * l;
                }
            }
        }
        for &i in found.iter().rev() {
            if pivot_of_row[i as usize] == NONE && work[i as usize].abs() > largest {
                (largest, best) = (work[i as usize].abs(), i);
            }
        }
        u.offsets.push(u.rows.len());
        if largest <= 16.0 * f64::EPSILON || !largest.is_finite() {
            return None;
        }
        if pivot_of_row[diagonal] == NONE && work[diagonal].abs() >= threshold * largest {
            best = diagonal as i32;
        }
        let pivot = work[best as usize];
        for &i in found.iter().rev() {
            let v = std::mem::replace(&mut work[i as usize], 0.0);
            if pivot_of_row[i as usize] == NONE && i != best && v != 0.0 {
                l.push(i, v / pivot);
            }
        }
        self.diagonal[l.offsets.len() - 1] = pivot;
        l.offsets.push(l.rows.len());
        Some(best as usize)
    }

    /// Entries of L and U, one diagonal included.
    pub fn fill(&self) -> usize {
        self.l.rows.len() + self.u.rows.len() + self.diagonal.len()
    }

    /// The smallest pivot.
    pub fn smallest(&self) -> f64 {
        self.diagonal.iter().fold(f64::INFINITY, |m, v| m.min(v.abs()))
    }

    /// Bytes of the factors.
    pub fn bytes(&self) -> usize {
        self.l.bytes() + self.u.bytes() + self.order.len() * (2 * size_of::<f64>() + 2 * size_of::<i32>())
    }

    /// Replaces b by the solution of the scaled system.
    pub fn solve(&mut self, x: &mut [f64]) {
        let y = &mut self.work;
        for (b, pivot) in x.iter().zip(&self.pivot_of_row) {
            y[*pivot as usize] = *b;
        }
        for k in 0..y.len() {
            let v = y[k];
            if v != 0.0 {
                self.l.column(k).for_each(|(row, l)| y[row] -= v * l);
            }
        }
        for k in (0..y.len()).rev() {
            let v = y[k] / self.diagonal[k];
            y[k] = v;
            if v != 0.0 {
                self.u.column(k).for_each(|(row, u)| y[row] -= v * u);
            }
        }
        for (y, column) in y.iter_mut().zip(&self.order) {
            x[*column as usize] = std::mem::replace(y, 0.0);
        }
    }

    /// The same for the transposed system: A = Pᵀ L U Qᵀ, so Aᵀ = Q Uᵀ Lᵀ P.
    pub fn solve_transposed(&mut self, x: &mut [f64]) {
        let y = &mut self.work;
        for (y, column) in y.iter_mut().zip(&self.order) {
            *y = x[*column as usize];
        }
        for k in 0..y.len() {
            let sum = self.u.column(k).fold(y[k], |sum, (row, u)| sum - u * y[row]);
            y[k] = sum / self.diagonal[k];
        }
        for k in (0..y.len()).rev() {
            y[k] = self.l.column(k).fold(y[k], |sum, (row, l)| sum - l * y[row]);
        }
        for (x, pivot) in x.iter_mut().zip(&self.pivot_of_row) {
            *x = std::mem::replace(&mut y[*pivot as usize], 0.0);
        }
    }
}

/// A depth-first search in the graph of L.
struct Search {
    /// The rows that were found, each after all that depend on it.
    found: Vec<i32>,
    /// The column in which each row was found last, counted from 1.
    seen: Vec<u32>,
    /// Rows on the way, and the next position in their column of L.
    stack: Vec<(i32, usize)>,
}

impl Search {
    fn new(n: usize) -> Result<Search> {
        Ok(Search { found: try_capacity(n)?, seen: try_vec(n, 0)?, stack: try_capacity(n)? })
    }

    /// The rows of a column of L and U whose entries of A are `rows`.
    fn reach(&mut self, rows: &[i32], l: &Columns, pivot_of_row: &[i32], step: u32) {
        self.found.clear();
        for &root in rows {
            if self.seen[root as usize] == step {
                continue;
            }
            self.visit(root, l, pivot_of_row, step);
            while let Some((row, at)) = self.stack.pop() {
                let pivot = pivot_of_row[row as usize];
                let end = if pivot == NONE { 0 } else { l.offsets[pivot as usize + 1] };
                let next = (at..end).find(|at| self.seen[l.rows[*at] as usize] != step);
                match next {
                    None => self.found.push(row),
                    Some(at) => {
                        self.stack.push((row, at + 1));
                        self.visit(l.rows[at], l, pivot_of_row, step);
                    }
                }
            }
        }
    }

    fn visit(&mut self, row: i32, l: &Columns, pivot_of_row: &[i32], step: u32) {
        self.seen[row as usize] = step;
        let pivot = pivot_of_row[row as usize];
        self.stack.push((row, if pivot == NONE { 0 } else { l.offsets[pivot as usize] }));
    }
}
