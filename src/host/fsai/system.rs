//! The small dense system of a block row of G.

#![allow(clippy::needless_range_loop, reason = "several arrays share an index, as in the formulas")]

use crate::backend::fsai::smallest_pivot;
use crate::error::{Result, try_push};
use crate::scalar::Scalar;

/// Room for a block of N x N, row by row.
pub(super) type Square<T, const N: usize> = [[T; N]; N];

pub(super) fn root<T: Scalar>(v: T) -> T {
    T::from_f64(v.to_f64().sqrt())
}

/// Blocks of up to so many rows have loops of their own; larger ones share those of the largest, with a length at run time.
pub(super) const MAX_FIXED: usize = 3;

/// The rows of a block in room for N: a constant where N has loops of its own.
#[inline(always)]
pub(super) fn rows_of<const N: usize>(n: usize) -> usize {
    if N <= MAX_FIXED { N } else { n }
}

/// A block of n rows as it is stored in a matrix.
pub(super) fn square<T: Scalar, const N: usize>(stored: &[T], n: usize) -> Square<T, N> {
    let (n, mut block) = (rows_of::<N>(n), [[T::ZERO; N]; N]);
    for (row, stored) in block.iter_mut().zip(stored[..n * n].chunks_exact(n)) {
        row[..n].copy_from_slice(stored);
    }
    block
}

/// Its transpose.
pub(super) fn transposed<T: Scalar, const N: usize>(stored: &[T], n: usize) -> Square<T, N> {
    let (n, mut block) = (rows_of::<N>(n), [[T::ZERO; N]; N]);
    for (s, stored) in stored[..n * n].chunks_exact(n).enumerate() {
        for r in 0..n {
            block[r][s] = stored[r];
        }
    }
    block
}

/// The system A_JJ g = -A_JI of block row I, with n right-hand sides, whose Cholesky factor L grows by n rows for each block column
/// of J. Sums run in the order of the columns, so that a device that works on a row with many lanes gives the same bits;
/// divisions, which take long there, are products with inverses.
pub(super) struct System<T, const N: usize> {
    /// Rows of a block.
    n: usize,
    /// The rows of L, one behind the other, with the inverse of the diagonal.
    l: Vec<T>,
    /// -L⁻¹ A_JI.
    y: Vec<[T; N]>,
    /// The solution, once it is solved.
    pub g: Vec<[T; N]>,
    /// Ψ = A_II - yᵀ y, of which the lower triangle counts.
    psi: Square<T, N>,
    /// The factors of Ψ.
    pub last: Factored<T, N>,
    diagonal: [T; N],
}

/// Ψ = U D Uᵀ with a unit lower triangular U. The entry s of D is the Kaporin number of scalar row s.
#[derive(Clone, Copy)]
pub(super) struct Factored<T, const N: usize> {
    u: Square<T, N>,
    pub d: [T; N],
    /// Inverses of D.
    inverses: [T; N],
    n: usize,
}

impl<T: Scalar, const N: usize> Factored<T, N> {
    /// None where Ψ is not positive definite, to rounding in relation to the diagonal of A.
    fn new(psi: &Square<T, N>, diagonal: &[T; N], n: usize) -> Option<Factored<T, N>> {
        let mut factored = Factored { u: [[T::ZERO; N]; N], d: [T::ZERO; N], inverses: [T::ZERO; N], n };
        for s in 0..rows_of::<N>(n) {
            let (mut w, mut d) = ([T::ZERO; N], psi[s][s]);
            for t in 0..s {
                w[t] = psi[s][t];
                for q in 0..t {
                    w[t] -= w[q] * factored.u[t][q];
                }
                factored.u[s][t] = w[t] * factored.inverses[t];
                d -= w[t] * factored.u[s][t];
            }
            if !(d > smallest_pivot::<T>() * diagonal[s] && d.is_finite()) {
                return None;
            }
            (factored.d[s], factored.inverses[s]) = (d, T::ONE / d);
        }
        Some(factored)
    }

    /// U⁻¹ c.
    pub fn solve(&self, mut c: [T; N]) -> [T; N] {
        for s in 1..rows_of::<N>(self.n) {
            for t in 0..s {
                c[s] -= self.u[s][t] * c[t];
            }
        }
        c
    }

    /// D⁻¹ in units of its first entry.
    pub fn weights(&self) -> [T; N] {
        let mut weights = [T::ONE; N];
        for s in 1..rows_of::<N>(self.n) {
            weights[s] = self.d[0] * self.inverses[s];
        }
        weights
    }

    /// What scales the rows of U⁻¹ (g, 1).
    pub fn scales(&self) -> [T; N] {
        let mut scales = [T::ZERO; N];
        for s in 0..rows_of::<N>(self.n) {
            scales[s] = T::ONE / root(self.d[s]);
        }
        scales
    }
}

impl<T: Scalar, const N: usize> System<T, N> {
    /// For blocks of n rows.
    pub fn new(n: usize) -> System<T, N> {
        let (zeros, none) = ([T::ZERO; N], [[T::ZERO; N]; N]);
        let last = Factored { u: none, d: zeros, inverses: zeros, n };
        System { n, l: Vec::new(), y: Vec::new(), g: Vec::new(), psi: none, last, diagonal: zeros }
    }

    /// Rows of a block.
    pub fn n(&self) -> usize {
        rows_of::<N>(self.n)
    }

    /// An empty J for a block row with this diagonal block. False where the block is not positive definite.
    pub fn begin(&mut self, block: Square<T, N>) -> bool {
        self.l.clear();
        self.y.clear();
        self.g.clear();
        self.psi = block;
        let mut is_finite = true;
        for s in 0..rows_of::<N>(self.n) {
            let d = block[s][s];
            self.diagonal[s] = d;
            is_finite &= d > T::ZERO && d.is_finite();
        }
        match Factored::new(&self.psi, &self.diagonal, self.n) {
            Some(last) if is_finite => self.last = last,
            _ => return false,
        }
        true
    }

    /// Appends a block column K with diagonal block `own` and coupling A_KI. `couplings` gives the blocks A_KJ with their places in
    /// J. False, and nothing is added, where A would not be positive definite.
    pub fn append<'a>(
        &mut self,
        own: Square<T, N>,
        coupling: &Square<T, N>,
        couplings: impl Iterator<Item = (usize, &'a [T])>,
    ) -> Result<bool> {
        let (n, m, begin, psi) = (rows_of::<N>(self.n), self.y.len(), self.l.len(), self.psi);
        let row = |r: usize| begin + r * m + r * (r + 1) / 2;
        for (r, own) in own[..n].iter().enumerate() {
            for _ in 0..m {
                try_push(&mut self.l, T::ZERO)?;
            }
            for v in &own[..=r] {
                try_push(&mut self.l, *v)?;
            }
        }
        for (place, block) in couplings {
            for (r, values) in block.chunks_exact(n).enumerate() {
                let at = row(r) + place * n;
                self.l[at..at + n].copy_from_slice(values);
            }
        }
        let mut is_definite = true;
        for r in 0..n {
            is_definite = self.eliminate(row(r), own[r][r], &coupling[r])?;
            if !is_definite {
                break;
            }
        }
        match Factored::new(&self.psi, &self.diagonal, self.n) {
            Some(last) if is_definite => self.last = last,
            _ => {
                self.l.truncate(begin);
                self.y.truncate(m);
                self.psi = psi;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Computes a row of L and of y from a row of A. False where there is no pivot.
    fn eliminate(&mut self, begin: usize, own: T, coupling: &[T; N]) -> Result<bool> {
        let (n, m) = (rows_of::<N>(self.n), self.y.len());
        let (before, row) = self.l.split_at_mut(begin);
        let (mut pivot, mut rhs) = (own, [T::ZERO; N]);
        for s in 0..n {
            rhs[s] = -coupling[s];
        }
        let mut start = 0;
        for t in 0..m {
            let of_t = &before[start..start + t + 1];
            let mut v = row[t];
            for (l, of_t) in row[..t].iter().zip(of_t) {
                v -= *l * *of_t;
            }
            let v = v * of_t[t];
            row[t] = v;
            pivot -= v * v;
            let y = &self.y[t];
            for s in 0..n {
                rhs[s] -= v * y[s];
            }
            start += t + 1;
        }
        let is_large = pivot > smallest_pivot::<T>() * own;
        if !is_large {
            return Ok(false);
        }
        let inverse = T::ONE / root(pivot);
        row[m] = inverse;
        let mut y = rhs;
        for s in 0..n {
            y[s] *= inverse;
            for t in 0..=s {
                self.psi[s][t] -= y[s] * y[t];
            }
        }
        try_push(&mut self.y, y)?;
        Ok(true)
    }

    /// Lᵀ g = y.
    pub fn solve(&mut self) -> Result<()> {
        let n = rows_of::<N>(self.n);
        self.g.clear();
        for y in &self.y {
            try_push(&mut self.g, *y)?;
        }
        let mut end = self.l.len();
        for t in (0..self.g.len()).rev() {
            let row = &self.l[end - t - 1..end];
            let mut v = self.g[t];
            for s in 0..n {
                v[s] *= row[t];
            }
            self.g[t] = v;
            for (g, l) in self.g[..t].iter_mut().zip(row) {
                for s in 0..n {
                    g[s] -= *l * v[s];
                }
            }
            end -= t + 1;
        }
        Ok(())
    }

    /// The block of row I of G for the block column of this place in J, once g is known; without a place the diagonal block.
    pub fn block(&self, place: Option<usize>, scales: &[T; N]) -> Square<T, N> {
        let (n, mut block) = (self.n(), [[T::ZERO; N]; N]);
        for q in 0..n {
            let column = match place {
                Some(place) => self.g[place * n + q],
                None => {
                    let mut unit = [T::ZERO; N];
                    unit[q] = T::ONE;
                    unit
                }
            };
            let column = self.last.solve(column);
            for s in 0..n {
                block[s][q] = column[s] * scales[s];
            }
        }
        block
    }
}
