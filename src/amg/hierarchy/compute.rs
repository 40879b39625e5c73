//! The driver of set-up: computes the levels one after the other in the precision of set-up, by the steps of a set-up
//! backend. An update reuses the symbolic data of an earlier set-up, and runs numeric phases alone.

use super::choice::{Choice, Rechecked, Renewal};
use super::level::ComputedLevel;
use super::store::Levels;
use super::symbolic::{Formats, LevelSymbolic, TransferSymbolic};
use super::transfer::{Begin, Transfers};
use super::{Builder, SetupOn, check_square};
use crate::backend::components::Spectrum;
use crate::backend::setup::{Coarse, Setup, SetupMatrix};
use crate::backend::spectrum::Largest;
use crate::context::LogLevel;
use crate::error::{Result, try_push};
use crate::matrix::Import;
use crate::report::Phases;
use crate::scalar::{Number, Scalar};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// Levels as they are computed.
pub(super) struct Computing<'a, S: Setup, T: Scalar> {
    pub builder: &'a Builder<'a>,
    pub setup: &'a S,
    /// Whether there is something of an earlier set-up.
    updating: bool,
    /// Its data for the next levels.
    earlier: std::vec::IntoIter<LevelSymbolic<S>>,
    /// The matrix of the next level; none when all are computed.
    next: Option<S::Matrix<T>>,
    /// Where scalar rows of the finest matrix were put together to nodes.
    nodes: Option<S::Nodes>,
    /// The near-null space of the finest level where it was improved, for updates.
    improved: Option<Arc<S::NearNullSpace>>,
    space: Option<Arc<S::NearNullSpace>>,
    /// Of the next level, where there are several.
    functions: Option<Arc<S::Functions>>,
    checks: Arc<Mutex<S::Checks>>,
    pub levels: Vec<ComputedLevel<S, T>>,
    symbolic: Vec<LevelSymbolic<S>>,
    renewal: Renewal,
}

/// A step from one level to the next, which is under way.
pub(super) struct Step<'a, S> {
    pub setup: &'a S,
    pub level: usize,
    /// Whether each phase waits for the backend, so that times are attributed to the right phase.
    waits: bool,
    phases: &'a mut Phases,
}

impl<S: Setup> Step<'_, S> {
    /// Runs a phase.
    pub fn timed<R>(&mut self, phase: &'static str, work: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        self.setup.begin_phase(Some(self.level), phase);
        let mut phases = std::mem::take(self.phases);
        let result = phases.time(phase, || {
            let result = work(self)?;
            if self.waits {
                self.setup.synchronise()?;
            }
            Ok(result)
        });
        *self.phases = phases;
        result
    }
}

/// Results of a step beside the matrices of the level.
struct Rest<S: Setup> {
    rechecked: Option<Rechecked<S>>,
    largest_eigenvalue: Option<Largest>,
    within: Option<S::Within>,
    transfers: TransferSymbolic<S>,
}

impl<S: SetupOn<S>, T: Scalar> Levels<S, T> for Computing<'_, S, T> {
    fn at(&mut self, i: usize, phases: &mut Phases) -> Result<&mut ComputedLevel<S, T>> {
        while self.levels.len() <= i {
            self.compute_next(phases)?;
        }
        Ok(&mut self.levels[i])
    }
}

impl<'a, S: SetupOn<S>, T: Scalar> Computing<'a, S, T> {
    pub fn new(
        builder: &'a Builder<'a>,
        setup: &'a S,
        symbolic: Option<Vec<LevelSymbolic<S>>>,
    ) -> Result<Computing<'a, S, T>> {
        check_square("AMG", builder.matrix)?;
        builder.check_interpolation()?;
        builder.check_smoothers()?;
        builder.check_near_null_space()?;
        let updating = symbolic.is_some();
        let symbolic = symbolic.unwrap_or_default();
        let checks = Arc::new(Mutex::new(setup.checks()));
        let (a, nodes) =
            builder.finest_matrix::<S, T>(setup, symbolic.first().and_then(|level| level.nodes.as_ref()))?;
        let kept = symbolic.first().and_then(|level| level.space.clone());
        let improved = builder.config.int("amg.near_null_space.steps") > 0;
        let space = match kept {
            Some(space) => Some(space),
            None => builder.finest_near_null_space(setup, &a)?,
        };
        let functions = match (builder.function_count()?, &builder.functions) {
            (1, _) => None,
            (_, Some(given)) => Some(Arc::new(setup.functions_per_unknown(&given.of)?)),
            (count, None) => Some(Arc::new(setup.interleaved_functions(a.rows(), count)?)),
        };
        Ok(Computing {
            builder,
            setup,
            updating,
            earlier: symbolic.into_iter(),
            next: Some(a),
            nodes,
            improved: space.clone().filter(|_| improved),
            space,
            functions,
            checks,
            levels: Vec::new(),
            symbolic: Vec::new(),
            renewal: Renewal::default(),
        })
    }

    /// All levels that are not yet.
    pub fn compute_all(&mut self, phases: &mut Phases) -> Result<&mut [ComputedLevel<S, T>]> {
        while self.next.is_some() {
            self.compute_next(phases)?;
        }
        Ok(&mut self.levels)
    }

    /// The next level, and the matrix of the one after it.
    fn compute_next(&mut self, phases: &mut Phases) -> Result<()> {
        let (builder, setup) = (self.builder, self.setup);
        let a = self.next.take().expect("there is another level");
        let level = self.levels.len();
        let (rows, entries) = (a.scalar_rows(), a.entries());
        builder.context.log(LogLevel::Debug, || format!("level {level}: {rows} rows, {entries} nonzeros"));
        let mut step = Step { setup, level, waits: builder.context.logs(LogLevel::Debug), phases };
        let mut computed = ComputedLevel::new(level, &a, Arc::clone(&self.checks));
        computed.entries = setup.all_entries(&a)?;
        let mut old = self.earlier.next();
        if !self.is_last(&old, rows) {
            let (couplings, within) = self.couplings(&mut step, &a, old.as_ref())?;
            let other = match old.as_ref().and_then(|old| old.rechecked.as_ref()) {
                Some(kept) if builder.rechecks() => {
                    builder.other_choice(&mut step, &couplings, self.space.as_deref(), &kept.choice)?
                }
                _ => None,
            };
            if other.is_some() {
                builder.begins_anew(level);
                (old, self.earlier, self.renewal.anew) = (None, Vec::new().into_iter(), true);
            }
            self.renewal.kept_levels += usize::from(old.is_some());
            self.step_down(&mut step, &a, couplings, within, (old, other), &mut computed)?;
        }
        computed.a = Some(a);
        try_push(&mut self.levels, computed)
    }

    /// Whether there is no coarser level, unless coarsening stalls.
    fn is_last(&self, old: &Option<LevelSymbolic<S>>, rows: usize) -> bool {
        if self.updating && !self.builder.rechecks() {
            return old.is_none();
        }
        let config = self.builder.config;
        rows <= config.int("amg.coarsest.max_rows") || self.levels.len() + 1 >= config.int("amg.max_levels")
    }

    /// What a level is chosen and interpolated by: its matrix, or the couplings within functions.
    #[allow(clippy::type_complexity)]
    fn couplings(
        &self,
        step: &mut Step<'_, S>,
        a: &S::Matrix<T>,
        old: Option<&LevelSymbolic<S>>,
    ) -> Result<(S::Matrix<T>, Option<S::Within>)> {
        let is_needed = self.builder.rechecks() || old.is_none_or(|old| old.transfers.has_choice());
        let symbolic = old.and_then(|old| old.within.clone());
        match &self.functions {
            Some(functions) if is_needed => {
                let (within, found) =
                    step.timed("strength", |step| step.setup.within_functions(functions, a, symbolic.as_ref()))?;
                Ok((within, symbolic.or(Some(found))))
            }
            _ => Ok((a.clone(), symbolic)),
        }
    }

    /// Transfers to the next level and its matrix, from an earlier step or from a choice for this matrix; none if
    /// coarsening stalls.
    #[allow(clippy::type_complexity)]
    fn step_down(
        &mut self,
        step: &mut Step<'_, S>,
        a: &S::Matrix<T>,
        couplings: S::Matrix<T>,
        within: Option<S::Within>,
        (old, other): (Option<LevelSymbolic<S>>, Option<Choice<S>>),
        computed: &mut ComputedLevel<S, T>,
    ) -> Result<()> {
        let mut fsai_pattern = None;
        let (begin, product, earlier_eigenvalue, formats, rechecked, next_functions) = match (old, other) {
            (Some(old), _) => {
                let LevelSymbolic {
                    transfers, coarse, product, largest_eigenvalue, formats, rechecked, functions, ..
                } = old;
                fsai_pattern = old.fsai_pattern;
                (Begin::Earlier(transfers), Some((coarse, product)), largest_eigenvalue, formats, rechecked, functions)
            }
            (None, Some(choice)) => (Begin::Choice(choice), None, None, Formats::default(), None, None),
            (None, None) => (Begin::Matrix, None, None, Formats::default(), None, None),
        };
        let transfers = self.builder.transfers(step, (&couplings, a), self.space.as_deref(), begin)?;
        drop(couplings);
        let Some(Transfers { p, r, next_space, largest_eigenvalue, choice, symbolic }) = transfers else {
            return Ok(());
        };
        // A coarsening that has stalled before may do so no more.
        self.renewal.anew |= self.updating && choice.is_some();
        let (coarse, product) = step.timed("galerkin", |step| match &product {
            None => step.setup.product(&r, a, &p),
            Some((pattern, symbolic)) => step.setup.product_numeric(symbolic, pattern, &r, a, &p),
        })?;
        let next_space = match (next_space, &rechecked) {
            (None, Some(rechecked)) => rechecked.next_space.clone(),
            (next_space, _) => next_space,
        };
        self.functions = match (&self.functions, &choice) {
            (Some(functions), Some(choice)) => Some(Arc::new(self.coarse_functions(functions, choice)?)),
            _ => next_functions,
        };
        let rechecked = match choice {
            Some(choice) if self.builder.keeps_choices() => Some(Rechecked { choice, next_space: next_space.clone() }),
            _ => rechecked,
        };
        self.space = next_space.or(self.space.take());
        let (known, inverse) = largest_eigenvalue.unzip();
        let earlier = if known.is_none() { earlier_eigenvalue.clone() } else { None };
        let largest_eigenvalue = known.clone().or(earlier_eigenvalue);
        let (inverse, fsai_pattern) = (Mutex::new(inverse), Mutex::new(fsai_pattern));
        computed.spectrum = Spectrum { known, earlier, inverse, fsai_pattern, ..Spectrum::default() };
        computed.coarse_rows = Some(coarse.scalar_rows());
        computed.transfer = Some((p, r));
        computed.formats = Mutex::new(formats.clone());
        computed.earlier_formats = formats;
        self.keep(Rest { rechecked, largest_eigenvalue, within, transfers: symbolic }, &coarse, product)?;
        self.next = Some(coarse);
        Ok(())
    }

    fn coarse_functions(&self, functions: &S::Functions, choice: &Choice<S>) -> Result<S::Functions> {
        match &*choice.coarse {
            Coarse::Splitting(coarse) | Coarse::TwoPass(_, coarse) => self.setup.coarse_functions(functions, coarse),
            Coarse::Aggregates(_) | Coarse::Grid(_) => unreachable!("aggregates and cells are of nodes"),
        }
    }

    /// Stores the symbolic data for updates.
    fn keep(&mut self, rest: Rest<S>, coarse: &S::Matrix<T>, product: S::Product) -> Result<()> {
        let Rest { rechecked, largest_eigenvalue, within, transfers } = rest;
        let symbolic = LevelSymbolic {
            nodes: self.nodes.take(),
            space: self.improved.take(),
            transfers,
            coarse: coarse.pattern(),
            product,
            largest_eigenvalue,
            fsai_pattern: None,
            formats: Formats::default(),
            rechecked,
            within,
            functions: self.functions.clone(),
        };
        try_push(&mut self.symbolic, symbolic)
    }

    /// The first failure of deferred checks. May wait for the device.
    pub fn evaluate_checks(&self) -> Result<()> {
        let checks = std::mem::replace(&mut *lock(self.checks.lock()), self.setup.checks());
        self.setup.evaluate(checks)
    }

    /// What was done with the choices of the levels so far.
    pub fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// Symbolic data for updates, with the estimated eigenvalues and the chosen formats.
    pub fn into_symbolic(self) -> Vec<LevelSymbolic<S>> {
        let mut symbolic = self.symbolic;
        for (symbolic, level) in symbolic.iter_mut().zip(self.levels) {
            symbolic.largest_eigenvalue = level.spectrum.estimated.into_inner().or(symbolic.largest_eigenvalue.take());
            symbolic.fsai_pattern = level.spectrum.fsai_pattern.into_inner().unwrap_or_default();
            symbolic.formats = level.formats.into_inner().unwrap_or_default();
        }
        symbolic
    }
}

impl Builder<'_> {
    /// The finest matrix in the form of set-up: CSR for scalar methods, blocks of nodes for the others.
    #[allow(clippy::type_complexity)]
    fn finest_matrix<S: Import, T: Scalar>(
        &self,
        setup: &S,
        nodes: Option<&S::Nodes>,
    ) -> Result<(S::Matrix<T>, Option<S::Nodes>)> {
        let a = self.import::<S, T>(setup)?;
        if let Some(size) = self.gathered() {
            setup.begin_phase(Some(0), "nodes");
            let (a, nodes) = setup.to_nodes(&a, size, nodes)?;
            return Ok((a, Some(nodes)));
        }
        if self.coarsening().keeps_blocks { Ok((a, None)) } else { Ok((setup.to_scalar(a)?, None)) }
    }

    /// The caller's matrix in the form of set-up, with values stored as `N`.
    pub(super) fn import<S: Import, N: Number>(&self, setup: &S) -> Result<S::Matrix<N>> {
        setup.import::<N>(self.matrix, self.is_structured())
    }
}
