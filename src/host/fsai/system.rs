//! The small dense system of a row of G.

use crate::backend::fsai::smallest_pivot;
use crate::error::{Result, try_push};
use crate::scalar::Scalar;

/// The system A_JJ g = -A_Ji, whose Cholesky factor L grows by a row for each column of J. Sums run in the order of the
/// columns, so that a device that works on a row with many lanes gives the same bits; divisions, which take long there, are
/// products with inverses.
pub(super) struct System<T> {
    /// The rows of L, one behind the other, with the inverse of the diagonal.
    l: Vec<T>,
    /// -L⁻¹ A_Ji.
    y: Vec<T>,
    /// The solution, once it is solved.
    pub g: Vec<T>,
    /// a_ii - |y|², the Kaporin number of the row.
    pub psi: T,
    diagonal: T,
}

pub(super) fn root<T: Scalar>(v: T) -> T {
    T::from_f64(v.to_f64().sqrt())
}

impl<T: Scalar> System<T> {
    pub fn new() -> System<T> {
        System { l: Vec::new(), y: Vec::new(), g: Vec::new(), psi: T::ZERO, diagonal: T::ZERO }
    }

    /// An empty J for a row with this diagonal.
    pub fn begin(&mut self, diagonal: T) {
        [&mut self.l, &mut self.y, &mut self.g].into_iter().for_each(Vec::clear);
        (self.psi, self.diagonal) = (diagonal, diagonal);
    }

    /// Appends a column k with diagonal `own` and this coupling a_ki. `couplings` writes a_kj of the columns in J, in their
    /// order, over zeros. False, and nothing is added, where A would not be positive definite.
    pub fn append(&mut self, own: T, coupling: T, couplings: impl FnOnce(&mut [T])) -> Result<bool> {
        let (m, begin) = (self.y.len(), self.l.len());
        for _ in 0..=m {
            try_push(&mut self.l, T::ZERO)?;
        }
        let (before, row) = self.l.split_at_mut(begin);
        couplings(&mut row[..m]);
        let (mut pivot, mut rhs) = (own, -coupling);
        let mut start = 0;
        for t in 0..m {
            let of_t = &before[start..start + t + 1];
            for u in 0..t {
                row[t] -= row[u] * of_t[u];
            }
            let v = row[t] * of_t[t];
            row[t] = v;
            pivot -= v * v;
            rhs -= v * self.y[t];
            start += t + 1;
        }
        let smallest = smallest_pivot::<T>();
        let inverse = T::ONE / root(pivot);
        let y = rhs * inverse;
        let psi = self.psi - y * y;
        let is_definite = pivot > smallest * own && psi > smallest * self.diagonal;
        if !is_definite {
            self.l.truncate(begin);
            return Ok(false);
        }
        row[m] = inverse;
        self.psi = psi;
        try_push(&mut self.y, y)?;
        Ok(true)
    }

    /// Lᵀ g = y.
    pub fn solve(&mut self) -> Result<()> {
        self.g.clear();
        for y in &self.y {
            try_push(&mut self.g, *y)?;
        }
        let mut end = self.l.len();
        for t in (0..self.g.len()).rev() {
            let row = &self.l[end - t - 1..end];
            let v = self.g[t] * row[t];
            self.g[t] = v;
            for (g, l) in self.g[..t].iter_mut().zip(row) {
                *g -= *l * v;
            }
            end -= t + 1;
        }
        Ok(())
    }
}
