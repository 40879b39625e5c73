//! Adaptive patterns (Janna and Ferronato, 2011), of blocks.
//!
//! The pattern J of a block row I starts empty. Each step adds the K < I with the largest decrease of Ψ along its coordinates, to
//! first order that of log det Ψ: Σ (∇U⁻ᵀ)²/(a_kk d_s), where ∇ = A_KI + Σ_{j∈J} A_Kj g_j and Ψ = U D Uᵀ; the smallest K among
//! equals. For scalar rows it is ∇²/a_kk. That choice does not depend on the units of the unknowns.

use super::system::{Square, System, rows_of, square, transposed};
use crate::backend::fsai::Adaptive;
use crate::error::{Result, try_push};
use crate::scalar::Scalar;
use crate::sparse::CsrView;

/// A block column that may be added, or was.
struct Candidate<T, const N: usize> {
    column: usize,
    /// A_KI.
    coupling: Square<T, N>,
    /// Half of the gradient of Ψ.
    gradient: Square<T, N>,
    /// 1/a_kk.
    inverses: [T; N],
    /// The first-order decrease of log det Ψ.
    decrease: T,
    /// Its place in J; none while it is not in J.
    place: Option<usize>,
}

/// One block row of G at a time.
pub(super) struct AdaptiveRow<'a, T, const N: usize> {
    a: &'a CsrView<'a, T>,
    /// Diagonal blocks.
    diagonals: &'a [T],
    adaptive: &'a Adaptive,
    /// For each block column its place among the candidates, from 1 on; 0 for none.
    at: &'a mut [u32],
    candidates: Vec<Candidate<T, N>>,
    /// J, in the order in which block columns were added.
    pub pattern: Vec<usize>,
    pub system: System<T, N>,
    /// Rows of a block.
    n: usize,
}

impl<'a, T: Scalar, const N: usize> AdaptiveRow<'a, T, N> {
    pub fn new(a: &'a CsrView<'a, T>, diagonals: &'a [T], adaptive: &'a Adaptive, at: &'a mut [u32]) -> Self {
        let (candidates, pattern, n) = (Vec::new(), Vec::new(), a.block.rows);
        AdaptiveRow { a, diagonals, adaptive, at, candidates, pattern, system: System::new(n), n }
    }

    fn diagonal(&self, i: usize) -> Square<T, N> {
        let n = rows_of::<N>(self.n);
        square(&self.diagonals[i * n * n..], n)
    }

    /// Computes block row i. None where its diagonal block is not positive definite, false where it ended because A is not.
    pub fn compute(&mut self, i: usize) -> Result<Option<bool>> {
        self.pattern.clear();
        if !self.system.begin(self.diagonal(i)) {
            return Ok(None);
        }
        let is_definite = self.grow(i)?;
        for candidate in &self.candidates {
            self.at[candidate.column] = 0;
        }
        self.candidates.clear();
        Ok(Some(is_definite))
    }

    /// Adds block columns until the Kaporin number of no scalar row falls much more.
    fn grow(&mut self, i: usize) -> Result<bool> {
        for _ in 0..self.adaptive.steps {
            self.gradients(i)?;
            let before = self.system.last.d;
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
            let (tolerance, after) = (self.adaptive.tolerance, &self.system.last.d);
            let falls = |s: usize| (before[s] - after[s]).to_f64() > tolerance * before[s].to_f64();
            if !complete || !(0..rows_of::<N>(self.n)).any(falls) {
                return Ok(is_definite);
            }
        }
        Ok(true)
    }

    /// Half of the gradient of Ψ for all columns next to the pattern, and how much adding them decreases Ψ.
    fn gradients(&mut self, i: usize) -> Result<()> {
        let n = rows_of::<N>(self.n);
        for candidate in &mut self.candidates {
            candidate.gradient = candidate.coupling;
        }
        if self.pattern.is_empty() {
            for e in self.a.row_range(i) {
                if let Some(place) = self.candidate(i, self.a.col(e))? {
                    let coupling = transposed(self.a.block_at(e), n);
                    let candidate = &mut self.candidates[place];
                    (candidate.coupling, candidate.gradient) = (coupling, coupling);
                }
            }
        }
        for t in 0..self.pattern.len() {
            let g = t * n..(t + 1) * n;
            for e in self.a.row_range(self.pattern[t]) {
                if let Some(place) = self.candidate(i, self.a.col(e))? {
                    add(&mut self.candidates[place].gradient, self.a.block_at(e), &self.system.g[g.clone()]);
                }
            }
        }
        let (last, weights) = (self.system.last, self.system.last.weights());
        for candidate in &mut self.candidates {
            candidate.decrease = T::ZERO;
            for r in 0..n {
                let (z, inverse) = (last.solve(candidate.gradient[r]), candidate.inverses[r]);
                for s in 0..n {
                    candidate.decrease += z[s] * z[s] * inverse * weights[s];
                }
            }
        }
        Ok(())
    }

    /// The place of block column k among the candidates; none from i on.
    fn candidate(&mut self, i: usize, k: usize) -> Result<Option<usize>> {
        if k >= i {
            return Ok(None);
        }
        if self.at[k] == 0 {
            let (none, own) = ([[T::ZERO; N]; N], self.diagonal(k));
            let mut inverses = [T::ZERO; N];
            for r in 0..rows_of::<N>(self.n) {
                inverses[r] = T::ONE / own[r][r];
            }
            let (decrease, place) = (T::ZERO, None);
            let candidate = Candidate { column: k, coupling: none, gradient: none, inverses, decrease, place };
            try_push(&mut self.candidates, candidate)?;
            self.at[k] = self.candidates.len() as u32;
        }
        Ok(Some(self.at[k] as usize - 1))
    }

    /// The candidate with the largest decrease.
    fn best(&self) -> Option<usize> {
        let mut best: Option<(T, usize, usize)> = None;
        for (place, candidate) in self.candidates.iter().enumerate().filter(|(_, candidate)| candidate.place.is_none())
        {
            let (k, decrease) = (candidate.column, candidate.decrease);
            let counts = decrease > T::ZERO && decrease.is_finite();
            if counts && best.is_none_or(|(most, column, _)| decrease > most || decrease == most && k < column) {
                best = Some((decrease, k, place));
            }
        }
        best.map(|(.., place)| place)
    }

    /// Adds a block column to the pattern. False, and nothing is added, where A would not be positive definite on it.
    fn append(&mut self, candidate: usize) -> Result<bool> {
        let Candidate { column: k, coupling, .. } = self.candidates[candidate];
        let own = self.diagonal(k);
        let AdaptiveRow { a, at, candidates, system, .. } = self;
        let place = |j: usize| (at[j] as usize).checked_sub(1).and_then(|c| candidates[c].place);
        let couplings = a.row(k).filter_map(|(j, block)| place(j).map(|t| (t, block)));
        let added = system.append(own, &coupling, couplings)?;
        if added {
            self.candidates[candidate].place = Some(self.pattern.len());
            try_push(&mut self.pattern, k)?;
        }
        Ok(added)
    }
}

/// Adds the transpose of a block times g.
fn add<T: Scalar, const N: usize>(to: &mut Square<T, N>, block: &[T], g: &[[T; N]]) {
    let n = rows_of::<N>(g.len());
    for (row, g) in block.chunks_exact(n).zip(g) {
        for (to, v) in to.iter_mut().zip(row) {
            for s in 0..n {
                to[s] += *v * g[s];
            }
        }
    }
}
