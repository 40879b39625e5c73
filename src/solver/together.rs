//! Several right-hand sides together: conjugate gradients on multivectors, before each of them is solved by itself.
//!
//! This phase only saves time. Each right-hand side then goes through the usual solve with what the phase found as its
//! initial guess, which computes the true residual and iterates on where it must. A guess that is worse than the caller's
//! is not used.

use super::parts::{OwnVectors, Parts};
use super::solve::Behind;
use super::user::SolverBackend;
use super::{Guess, Solver, scaled};
use crate::backend::{Backend, MAX_VECTORS, Operator, Preconditioner};
use crate::error::{Class, Result, Status, try_extend};
use crate::krylov::{LAST_VECTORS, MultivectorCg, MultivectorRun, Norm};
use crate::preconditioner::Inverse;
use crate::report::SolveReport;
use crate::scalar::Scalar;
use std::ops::Range;
use std::sync::Arc;

/// Fewer right-hand sides than this are solved one by one.
const MIN_RIGHT_HAND_SIDES: usize = 3;

/// Methods with a form for several right-hand sides.
const METHODS: &[&str] = &["cg", "fcg"];

/// The workspace, and the results of the last group of right-hand sides.
pub struct Together<B: SolverBackend, T: Scalar> {
    cg: MultivectorCg<B, T>,
    /// The operator for multivectors; none after it has changed.
    pub a: Option<Arc<dyn Operator<B, T>>>,
    /// The right-hand sides of the group.
    group: Range<usize>,
    /// Which of them have a better x than the caller's.
    improved: [bool; MAX_VECTORS],
    /// Exponents of the powers of two by which they were multiplied.
    shifts: [i32; MAX_VECTORS],
    /// Norms of the right-hand sides times these powers.
    norms: [f64; MAX_VECTORS],
}

/// Calls the function with right-hand side and initial guess of an index.
pub type Load<'a, B, V> = dyn FnMut(usize, &mut Use<'_, B, V>) -> Result<()> + 'a;

/// Gets a right-hand side and its initial guess.
pub type Use<'a, B, V> = dyn FnMut(&<B as Backend>::Slice<V>, &<B as Backend>::Slice<V>) -> Result<()> + 'a;

impl<B: SolverBackend, T: Scalar> Together<B, T> {
    /// Bytes of the workspace, for systems of `n` rows.
    pub fn bytes(&self, n: usize) -> usize {
        self.cg.bytes(n)
    }

    /// Discards the results.
    pub fn clear(&mut self) {
        self.group = 0..0;
    }

    /// Writes the solution of a right-hand side to x, and iterations and history to its report. False where there is none.
    pub fn take(&self, backend: &B, index: usize, x: &mut B::Slice<T>, report: &mut SolveReport) -> Result<bool> {
        let c = index.wrapping_sub(self.group.start);
        if !self.group.contains(&index) || !self.improved[c] {
            return Ok(false);
        }
        let factor = scaled::power::<f64>(-self.shifts[c]);
        backend.take_vector((self.cg.vectors(), c), factor, &self.cg.x, x)?;
        self.tell(index, report);
        Ok(true)
    }

    /// Writes iterations and history of a right-hand side to its report. False where it was not among these.
    pub fn tell(&self, index: usize, report: &mut SolveReport) -> bool {
        let c = index.wrapping_sub(self.group.start);
        if !self.group.contains(&index) || self.norms[c] == 0.0 {
            return false;
        }
        let (iterations, norms) = self.cg.history(c);
        report.iterations = iterations;
        // Where there is no memory for the history, it begins later.
        let _ = try_extend(&mut report.history, norms.map(|norm| norm / self.norms[c]));
        true
    }
}

impl Solver {
    /// The right-hand sides that are solved together from number `first` of `count` on, and the vectors of a multivector
    /// for them. None where `first` does not begin such a group.
    pub(super) fn group<B: SolverBackend, T: Scalar>(
        &self,
        parts: &Parts<B, T>,
        first: usize,
        count: usize,
    ) -> Option<(usize, Range<usize>)> {
        let k = self.vectors_together(parts, count);
        let begins = k > 1 && first.is_multiple_of(k) && count - first >= MIN_RIGHT_HAND_SIDES;
        begins.then(|| (k, first..count.min(first + k)))
    }

    /// Solves a group of right-hand sides together. `load` gives right-hand side and initial guess of an index. Lack of
    /// memory and numeric failures are none of the call: the right-hand sides are then solved one by one.
    pub(super) fn solve_together<B: SolverBackend, T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        behind: Behind<'_>,
        group: (usize, Range<usize>),
        guess: Guess,
        load: &mut Load<'_, B, V>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        match self.solve_group(parts, behind, group, guess, load) {
            Err(error) if error.status == Status::OutOfMemory || error.status.row().class == Class::Numeric => {
                if let Some(together) = &mut parts.together {
                    together.clear();
                }
                Ok(())
            }
            result => result,
        }
    }

    /// Vectors of the multivectors for so many right-hand sides; 1 where they are solved one by one.
    fn vectors_together<B: SolverBackend, T: Scalar>(&self, parts: &Parts<B, T>, count: usize) -> usize {
        let is_plain = !parts.backend.is_distributed()
            && parts.units == 0
            && parts.norm == Norm::True
            && parts.null_space.is_none()
            && !parts.from_initial_residual
            && parts.user.is_none()
            && self.operator.is_none()
            && self.monitor.is_none()
            && METHODS.contains(&&*parts.name);
        let allowed = self.config.int("solver.columns");
        // Multivectors that were allocated for more right-hand sides are kept.
        let kept = parts.together.as_ref().map_or(0, |together| together.cg.vectors());
        let wanted = count.max(kept).min(allowed);
        match wanted {
            _ if !is_plain || count < MIN_RIGHT_HAND_SIDES => 1,
            8.. => 8,
            5.. if allowed >= 8 => 8,
            4.. => 4,
            3 if allowed >= 4 => 4,
            _ => 1,
        }
    }

    fn solve_group<B: SolverBackend, T: Scalar, V: Scalar>(
        &mut self,
        parts: &mut Parts<B, T>,
        (inverse, fallback): Behind<'_>,
        (k, group): (usize, Range<usize>),
        guess: Guess,
        load: &mut Load<'_, B, V>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        let limit = self.config.int("solver.max_iterations");
        if let Some(inverse) = &mut *inverse
            && !Preconditioner::<B, T>::prepare_multivectors(inverse, k)?
        {
            return Ok(());
        }
        let kept = parts.together.as_mut().filter(|together| together.cg.vectors() == k).and_then(|t| t.a.take());
        let Some(a) = kept.or_else(|| Arc::clone(&parts.operator).for_multivectors(k)) else { return Ok(()) };
        let is_flexible = parts.name == "fcg"
            || inverse.as_ref().is_some_and(|inverse| !Preconditioner::<B, T>::is_constant_symmetric(inverse));
        let backend = parts.backend.clone();
        let mut together = match parts.together.take().filter(|together| together.cg.vectors() == k) {
            Some(together) => together,
            None => Box::new(Together {
                cg: MultivectorCg::new(&backend, parts.rows, k, limit)?,
                a: None,
                group: 0..0,
                improved: [false; MAX_VECTORS],
                shifts: [0; MAX_VECTORS],
                norms: [0.0; MAX_VECTORS],
            }),
        };
        let Together { cg, group: of, improved, shifts, norms, .. } = &mut *together;
        (*of, *improved, *norms) = (group.clone(), [false; MAX_VECTORS], [0.0; MAX_VECTORS]);
        backend.fill(T::ZERO, &mut cg.x);
        backend.fill(T::ZERO, &mut cg.r);
        // In another order they go through vectors of the solver's own.
        let mut own = parts.take_own_vectors()?;
        for (c, index) in group.clone().enumerate() {
            load(index, &mut |b, x| {
                let norm = backend.norm(b);
                if !scaled::is_safe::<T>(norm) || guess == Guess::Given && !backend.max_norm(x).is_finite() {
                    return Ok(());
                }
                // Vectors of one multivector have about the same size.
                shifts[c] = scaled::shift::<T>(norm);
                let factor = scaled::power::<f64>(shifts[c]);
                norms[c] = factor * norm;
                put(parts, &mut own, (k, c), factor, b, &mut cg.r)?;
                if guess == Guess::Given {
                    put(parts, &mut own, (k, c), factor, x, &mut cg.x)?;
                }
                Ok(())
            })?;
        }
        if norms.iter().filter(|norm| **norm > 0.0).count() <= k / LAST_VECTORS {
            together.clear();
            together.a = Some(a);
            parts.together = Some(together);
            parts.converted = own.or(parts.converted.take());
            return Ok(());
        }
        let absolute = self.config.real("solver.absolute_tolerance");
        let operations = inverse.as_ref().map_or(0.0, Inverse::operations);
        let context = &self.context;
        let mut direct_check = fallback.map(|fallback| |left: usize| fallback.is_cheaper(context, left, operations));
        let mut run = MultivectorRun {
            backend: &backend,
            a: &*a,
            m: inverse.as_mut().map(|inverse| inverse as _),
            is_flexible,
            zero_guess: guess == Guess::Zero,
            scales: *norms,
            targets: std::array::from_fn(|c| {
                (parts.tolerance * norms[c]).max(scaled::power::<f64>(shifts[c]) * absolute)
            }),
            limit,
            window: self.config.int("solver.stagnation_window"),
            divergence: self.config.real("solver.divergence_tolerance"),
            direct_check: direct_check.as_mut().map(|direct_check| direct_check as _),
            phases: &mut self.phases,
        };
        let solved = cg.solve(&mut run).and_then(|()| {
            for (c, index) in group.clone().enumerate().filter(|(c, _)| norms[*c] > 0.0) {
                let factor = scaled::power::<f64>(shifts[c]);
                load(index, &mut |b, _| put(parts, &mut own, (k, c), factor, b, &mut cg.q))?;
            }
            *improved = cg.improved(&mut run)?;
            backend.status()
        });
        together.a = Some(a);
        parts.together = Some(together);
        parts.converted = own.or(parts.converted.take());
        solved
    }
}

/// Writes factor times a vector of the caller's to a multivector, through `own` where the solver has another order.
fn put<B: SolverBackend, T: Scalar, V: Scalar>(
    parts: &Parts<B, T>,
    own: &mut Option<OwnVectors<B, T>>,
    at: (usize, usize),
    factor: f64,
    from: &B::Slice<V>,
    to: &mut B::Slice<T>,
) -> Result<()> {
    match own {
        Some((own, _)) => {
            parts.bring_in(from, own)?;
            parts.backend.put_vector(at, factor, &**own, to)
        }
        None => parts.backend.put_vector(at, factor, from, to),
    }
}
