//! Adaptive FSAI on the host (Janna and Ferronato, 2011).
//!
//! Row i of G is scaled from the row g with g_i = 1 that minimises the Kaporin number ψ = g A gᵀ over its pattern. With
//! J the pattern without i, A_JJ g_J = -A_Ji. The pattern starts empty. Each step adds the k < i with the
//! largest decrease (∇_k ψ)²/a_kk of ψ along the coordinate k, where ∇_k ψ/2 = a_ki + Σ_{j∈J} a_kj g_j; the smallest k among
//! equals. That choice does not depend on the units of the unknowns. The Cholesky factor L of A_JJ grows by a row
//! for each added column. With y = -L⁻¹ A_Ji, ψ is a_ii - |y|².
//!
//! Sums run in the order in which columns were added, so that a device which works on a row with many lanes gives the
//! same bits.

use super::{Host, diagonal, rows};
use crate::backend::fsai::{Adaptive, FsaiFactor};
use crate::error::{Result, try_push};
use crate::scalar::Scalar;
use crate::sparse::{Block, Csr, CsrView, SharedCsr};

impl FsaiFactor for Host {
    fn fsai_factor<T: Scalar>(&self, a: &SharedCsr<T>, adaptive: &Adaptive) -> Result<SharedCsr<T>> {
        Ok(factor(&a.view(), adaptive)?.into_shared())
    }
}

/// The factor G.
pub(crate) fn factor<T: Scalar>(a: &CsrView<'_, T>, adaptive: &Adaptive) -> Result<Csr<T>> {
    assert_eq!(a.block, Block::SCALAR);
    let (positions, diagonals) = (rows::PositionArrays::new(a.cols), diagonal::entries(a)?);
    let (offsets, columns, values) = rows::build(a.rows, 1, |range, out| {
        positions.with(|positions| {
            let mut row = Row::new(a, &diagonals, adaptive, &mut positions.at);
            for i in range {
                row.compute(i)?;
                out.extend(&row.entries)?;
                out.end_row();
            }
            Ok(())
        })
    })?;
    Ok(Csr { rows: a.rows, cols: a.rows, block: Block::SCALAR, offsets, columns, values })
}

/// A column that may be added, or was.
struct Candidate<T> {
    column: usize,
    /// a_ki.
    coupling: T,
    /// Half of the gradient of ψ.
    gradient: T,
    /// Its place in J; none while it is not in J.
    place: Option<usize>,
}

/// One row of G at a time.
struct Row<'a, T> {
    a: &'a CsrView<'a, T>,
    diagonals: &'a [f64],
    adaptive: &'a Adaptive,
    /// For each column its place among the candidates, from 1 on; 0 for none.
    at: &'a mut [u32],
    candidates: Vec<Candidate<T>>,
    /// J, in the order in which columns were added.
    pattern: Vec<usize>,
    /// The rows of L, one behind the other.
    l: Vec<T>,
    y: Vec<T>,
    g: Vec<T>,
    psi: T,
    /// The finished row.
    entries: Vec<(i32, T)>,
}

fn root<T: Scalar>(v: T) -> T {
    T::from_f64(v.to_f64().sqrt())
}

impl<'a, T: Scalar> Row<'a, T> {
    fn new(a: &'a CsrView<'a, T>, diagonals: &'a [f64], adaptive: &'a Adaptive, at: &'a mut [u32]) -> Self {
        Row {
            a,
            diagonals,
            adaptive,
            at,
            candidates: Vec::new(),
            pattern: Vec::new(),
            l: Vec::new(),
            y: Vec::new(),
            g: Vec::new(),
            psi: T::ZERO,
            entries: Vec::new(),
        }
    }

    fn diagonal(&self, i: usize) -> T {
        T::from_f64(self.diagonals[i])
    }

    /// Computes the entries of row i.
    fn compute(&mut self, i: usize) -> Result<()> {
        self.pattern.clear();
        self.entries.clear();
        [&mut self.l, &mut self.y, &mut self.g].into_iter().for_each(Vec::clear);
        let diagonal = self.diagonal(i);
        self.psi = diagonal;
        let is_positive = diagonal > T::ZERO && diagonal.is_finite();
        if is_positive {
            self.grow(i, diagonal)?;
        }
        let last = if is_positive { T::ONE / root(self.psi) } else { T::ZERO };
        for (j, g) in self.pattern.iter().zip(&self.g) {
            try_push(&mut self.entries, (*j as i32, *g * last))?;
        }
        self.entries.sort_unstable_by_key(|entry| entry.0);
        try_push(&mut self.entries, (i as i32, last))?;
        for candidate in self.candidates.drain(..) {
            self.at[candidate.column] = 0;
        }
        Ok(())
    }

    /// Adds columns until ψ hardly falls any more.
    fn grow(&mut self, i: usize, diagonal: T) -> Result<()> {
        for _ in 0..self.adaptive.steps {
            self.gradients(i)?;
            let before = self.psi;
            let mut complete = true;
            for _ in 0..self.adaptive.entries {
                complete = match self.best() {
                    Some(candidate) => self.append(candidate, diagonal)?,
                    None => false,
                };
                if !complete {
                    break;
                }
            }
            self.solve()?;
            let falls = (before - self.psi).to_f64() > self.adaptive.tolerance * before.to_f64();
            if !complete || !falls {
                break;
            }
        }
        Ok(())
    }

    /// Half of the gradient of ψ for all columns next to the pattern.
    fn gradients(&mut self, i: usize) -> Result<()> {
        for candidate in &mut self.candidates {
            candidate.gradient = candidate.coupling;
        }
        if self.pattern.is_empty() {
            self.add_row(i, i, None)?;
        }
        for t in 0..self.pattern.len() {
            self.add_row(i, self.pattern[t], Some(self.g[t]))?;
        }
        Ok(())
    }

    /// Adds a factor times row r of A to the gradient; without a factor the row is i itself.
    fn add_row(&mut self, i: usize, r: usize, factor: Option<T>) -> Result<()> {
        for e in self.a.row_range(r) {
            let (k, v) = (self.a.col(e), self.a.values[e]);
            if k >= i {
                continue;
            }
            if self.at[k] == 0 {
                let candidate = Candidate { column: k, coupling: T::ZERO, gradient: T::ZERO, place: None };
                try_push(&mut self.candidates, candidate)?;
                self.at[k] = self.candidates.len() as u32;
            }
            let candidate = &mut self.candidates[self.at[k] as usize - 1];
            match factor {
                Some(factor) => candidate.gradient += v * factor,
                None => (candidate.coupling, candidate.gradient) = (v, v),
            }
        }
        Ok(())
    }

    /// The candidate with the largest decrease.
    fn best(&self) -> Option<usize> {
        let mut best: Option<(T, usize, usize)> = None;
        for (place, candidate) in self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.place.is_none())
        {
            let k = candidate.column;
            let decrease = candidate.gradient * candidate.gradient / self.diagonal(k);
            let counts = decrease > T::ZERO && decrease.is_finite();
            if counts && best.is_none_or(|(most, column, _)| decrease > most || decrease == most && k < column) {
                best = Some((decrease, k, place));
            }
        }
        best.map(|(.., place)| place)
    }

    /// Adds a column to the pattern. False, and nothing is added, where A would not be positive definite on it.
    fn append(&mut self, candidate: usize, diagonal: T) -> Result<bool> {
        let Candidate { column: k, coupling, .. } = self.candidates[candidate];
        let (m, begin) = (self.pattern.len(), self.l.len());
        let own = self.diagonal(k);
        for _ in 0..=m {
            try_push(&mut self.l, T::ZERO)?;
        }
        for e in self.a.row_range(k) {
            let (j, v) = (self.a.col(e), self.a.values[e]);
            if self.at[j] != 0
                && let Some(t) = self.candidates[self.at[j] as usize - 1].place
            {
                self.l[begin + t] = v;
            }
        }
        let (before, row) = self.l.split_at_mut(begin);
        let (mut pivot, mut rhs) = (own, -coupling);
        let mut start = 0;
        for t in 0..m {
            let of_t = &before[start..start + t + 1];
            for u in 0..t {
                row[t] -= row[u] * of_t[u];
            }
            let v = row[t] / of_t[t];
            row[t] = v;
            pivot -= v * v;
            rhs -= v * self.y[t];
            start += t + 1;
        }
        let smallest = Adaptive::smallest_pivot::<T>();
        let pivot_root = root(pivot);
        let y = rhs / pivot_root;
        let psi = self.psi - y * y;
        let is_definite = pivot > smallest * own && psi > smallest * diagonal;
        if !is_definite {
            self.l.truncate(begin);
            return Ok(false);
        }
        row[m] = pivot_root;
        self.psi = psi;
        self.candidates[candidate].place = Some(m);
        try_push(&mut self.pattern, k)?;
        try_push(&mut self.y, y)?;
        Ok(true)
    }

    /// Lᵀ g = y.
    fn solve(&mut self) -> Result<()> {
        self.g.clear();
        for y in &self.y {
            try_push(&mut self.g, *y)?;
        }
        let mut end = self.l.len();
        for t in (0..self.g.len()).rev() {
            let row = &self.l[end - t - 1..end];
            let v = self.g[t] / row[t];
            self.g[t] = v;
            for (g, l) in self.g[..t].iter_mut().zip(row) {
                *g -= *l * v;
            }
            end -= t + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use proptest::prelude::*;

    fn adaptive(steps: usize, entries: usize) -> Adaptive {
        Adaptive { steps, entries, tolerance: 0.0 }
    }

    fn problem(name: &str) -> Csr<f64> {
        gallery::parse(name).unwrap().matrix.view().to_scalar().unwrap()
    }

    fn dense(a: &Csr<f64>) -> Vec<Vec<f64>> {
        let (view, mut rows) = (a.view(), vec![vec![0.0; a.cols]; a.rows]);
        for (i, row) in rows.iter_mut().enumerate() {
            view.row(i).for_each(|(j, v)| row[j] = v[0]);
        }
        rows
    }

    /// G A Gᵀ.
    fn preconditioned(a: &Csr<f64>, g: &Csr<f64>) -> Vec<Vec<f64>> {
        let (a, g, n) = (dense(a), dense(g), a.rows);
        let times = |x: &[Vec<f64>], y: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
            let element = |i: usize, j: usize| (0..n).map(|k| x[i][k] * y(k, j)).sum();
            (0..n).map(|i| (0..n).map(|j| element(i, j)).collect()).collect()
        };
        times(&times(&g, &|i, j| a[i][j]), &|i, j| g[j][i])
    }

    #[test]
    fn with_all_columns_it_is_the_inverse_of_the_cholesky_factor() {
        for name in ["poisson5:5", "elasticity:2", "lognormal:3", "poisson9:5"] {
            let a = problem(name);
            let g = factor(&a.view(), &adaptive(a.rows, 1)).unwrap();
            for (i, row) in preconditioned(&a, &g).iter().enumerate() {
                for (j, v) in row.iter().enumerate() {
                    assert!((v - f64::from(i == j)).abs() < 1e-12, "{name} {i} {j}: {v}");
                }
            }
        }
    }

    #[test]
    fn rows_are_optimal_on_their_pattern_and_have_unit_energy() {
        for name in ["poisson7:5", "elasticity:3", "rotated_anisotropic:8", "lognormal:4"] {
            let a = problem(name);
            for (steps, entries) in [(1, 1), (4, 1), (2, 3), (8, 1)] {
                let g = factor(&a.view(), &adaptive(steps, entries)).unwrap();
                let rows = dense(&a);
                for i in 0..a.rows {
                    let row: Vec<(usize, f64)> = g.view().row(i).map(|(j, v)| (j, v[0])).collect();
                    assert!(row.is_sorted_by_key(|entry| entry.0) && row.last().unwrap().0 == i);
                    assert!(row.len() <= steps * entries + 1);
                    // (A g)_j is 0 in the pattern but for its last column, where it is 1 over g_i.
                    for (j, _) in &row {
                        let product: f64 = row.iter().map(|(k, v)| rows[*j][*k] * v).sum();
                        let expected = if *j == i { 1.0 / row.last().unwrap().1 } else { 0.0 };
                        assert!((product - expected).abs() < 1e-12 * rows[*j][*j].sqrt(), "{name} {i} {j}: {product}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_without_a_positive_diagonal_is_left_out_and_a_singular_one_ends() {
        let t = [
            (0, 0, 4.0),
            (1, 1, 0.0),
            (1, 0, 1.0),
            (2, 2, -3.0),
            (3, 3, 1.0),
            (3, 0, 2.0),
            (0, 3, 2.0),
            (4, 3, 1.0),
            (4, 4, 1.0),
        ];
        let a = Csr::from_triplets(5, 5, &t).unwrap();
        let g = factor(&a.view(), &adaptive(3, 1)).unwrap();
        let rows: Vec<Vec<f64>> = dense(&g);
        assert_eq!(rows[0], [0.5, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(rows[1], [0.0; 5]);
        assert_eq!(rows[2], [0.0; 5]);
        // (4 2; 2 1) is singular, and so is (1 1; 1 1).
        assert_eq!(rows[3], [0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(rows[4], [0.0, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn the_pattern_does_not_depend_on_the_units_of_unknowns() {
        let a = problem("lognormal:6");
        let unit = |i: usize| 2.0_f64.powi((i % 23) as i32 - 11);
        let mut scaled = a.clone();
        for i in 0..a.rows {
            for e in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                scaled.values[e] *= unit(i) * unit(a.columns[e] as usize);
            }
        }
        let [g, h] = [&a, &scaled].map(|a| factor(&a.view(), &adaptive(6, 2)).unwrap());
        assert_eq!((&g.offsets, &g.columns), (&h.offsets, &h.columns));
        for (k, column) in g.columns.iter().enumerate() {
            assert_eq!(g.values[k], h.values[k] * unit(*column as usize));
        }
    }

    proptest! {
        /// The Kaporin number of a row is 1/g_i².
        #[test]
        fn steps_never_increase_the_kaporin_number(seed in 0_usize..500, entries in 1_usize..4) {
            let a = problem(&format!("lognormal:4:seed={seed}"));
            let mut before = vec![f64::INFINITY; a.rows];
            for steps in 1..6 {
                let g = factor(&a.view(), &adaptive(steps, entries)).unwrap();
                for (i, before) in before.iter_mut().enumerate() {
                    let last = g.values[g.offsets[i + 1] as usize - 1];
                    prop_assert!(1.0 / (last * last) <= *before);
                    *before = 1.0 / (last * last);
                }
            }
        }
    }
}
