//! Adaptive patterns (Janna and Ferronato, 2011).
//!
//! The pattern J of a row starts empty. Each step adds the k < i with the largest decrease (∇_k ψ)²/a_kk of ψ along the
//! coordinate k, where ∇_k ψ/2 = a_ki + Σ_{j∈J} a_kj g_j; the smallest k among equals. That choice does not depend on
//! the units of the unknowns.

use super::system::System;
use crate::backend::fsai::Adaptive;
use crate::error::{Result, try_push};
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// A column that may be added, or was.
struct Candidate<T> {
    column: usize,
    /// a_ki.
    coupling: T,
    /// Half of the gradient of ψ.
    gradient: T,
    /// 1/a_kk.
    inverse: T,
    /// Its place in J; none while it is not in J.
    place: Option<usize>,
}

/// One row of G at a time.
pub(super) struct AdaptiveRow<'a, T> {
    a: &'a CsrView<'a, T>,
    diagonals: &'a [f64],
    adaptive: &'a Adaptive,
    /// For each column its place among the candidates, from 1 on; 0 for none.
    at: &'a mut [u32],
    candidates: Vec<Candidate<T>>,
    /// J, in the order in which columns were added.
    pub pattern: Vec<usize>,
    pub system: System<T>,
}

impl<'a, T: Scalar> AdaptiveRow<'a, T> {
    pub fn new(a: &'a CsrView<'a, T>, diagonals: &'a [f64], adaptive: &'a Adaptive, at: &'a mut [u32]) -> Self {
        let (candidates, pattern) = (Vec::new(), Vec::new());
        AdaptiveRow { a, diagonals, adaptive, at, candidates, pattern, system: System::new() }
    }

    fn diagonal(&self, i: usize) -> T {
        T::from_f64(self.diagonals[i])
    }

    /// Computes row i, whose diagonal is positive. False where it ended because A is not positive definite.
    pub fn compute(&mut self, i: usize) -> Result<bool> {
        self.pattern.clear();
        self.system.begin(self.diagonal(i));
        let is_definite = self.grow(i)?;
        for candidate in self.candidates.drain(..) {
            self.at[candidate.column] = 0;
        }
        Ok(is_definite)
    }

    /// Adds columns until ψ hardly falls any more.
    fn grow(&mut self, i: usize) -> Result<bool> {
        for _ in 0..self.adaptive.steps {
            self.gradients(i)?;
            let before = self.system.psi;
            let (mut complete, mut is_definite) = (true, true);
            for _ in 0..self.adaptive.entries {
                (complete, is_definite) = match self.best() {
                    Some(candidate) => {
                        let added = self.append(candidate)?;
                        (added, added)
                    }
                    None => (false, true),
                };
                if !complete {
                    break;
                }
            }
            self.system.solve()?;
            let falls = (before - self.system.psi).to_f64() > self.adaptive.tolerance * before.to_f64();
            if !complete || !falls {
                return Ok(is_definite);
            }
        }
        Ok(true)
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
            self.add_row(i, self.pattern[t], Some(self.system.g[t]))?;
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
                let inverse = T::ONE / self.diagonal(k);
                let candidate = Candidate { column: k, coupling: T::ZERO, gradient: T::ZERO, inverse, place: None };
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
            let decrease = candidate.gradient * candidate.gradient * candidate.inverse;
            let counts = decrease > T::ZERO && decrease.is_finite();
            if counts && best.is_none_or(|(most, column, _)| decrease > most || decrease == most && k < column) {
                best = Some((decrease, k, place));
            }
        }
        best.map(|(.., place)| place)
    }

    /// Adds a column to the pattern. False, and nothing is added, where A would not be positive definite on it.
    fn append(&mut self, candidate: usize) -> Result<bool> {
        let Candidate { column: k, coupling, .. } = self.candidates[candidate];
        let own = self.diagonal(k);
        let AdaptiveRow { a, at, candidates, system, .. } = self;
        let added = system.append(own, coupling, |row| {
            for e in a.row_range(k) {
                let j = a.col(e);
                if at[j] != 0
                    && let Some(t) = candidates[at[j] as usize - 1].place
                {
                    row[t] = a.values[e];
                }
            }
        })?;
        if added {
            self.candidates[candidate].place = Some(self.pattern.len());
            try_push(&mut self.pattern, k)?;
        }
        Ok(added)
    }
}
