//! New values of the matrix of a solver: updates of its preconditioner, and of its operator alone.

use super::parts::Engine;
use super::{BackendEngine, Solver, State};
use crate::error::{Result, fail};
use crate::gpu;
use crate::matrix::Matrix;
use std::sync::Arc;

impl Solver {
    /// Takes over changed values of the matrix: numeric work only, as [`crate::preconditioner::Inverse::update`].
    pub fn update(&mut self) -> Result<()> {
        let Some(state) = &self.state else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before update");
        };
        if matches!(state.engine, BackendEngine::Direct(_)) {
            return self.update_direct();
        }
        if let Some(matrix) = self.matrix_over_ranks() {
            return self.update_over_ranks(&matrix);
        }
        if let Some(callers) = state.matrix.as_ref().filter(|_| self.operator.is_none()) {
            let now = callers.units(&self.context, &self.config)?;
            if Self::needs_other_units(state, now) {
                let callers = Arc::clone(callers);
                return self.setup(Some(&callers));
            }
        }
        let changes = state.matrix.as_ref().map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let checked = match (&state.matrix, state.copy()) {
            // Rows of the caller's are named where values are wrong.
            (Some(callers), Some(_)) => callers.recheck_values(&self.context),
            _ => Ok(()),
        };
        let renewed = checked
            .and_then(|()| self.renew_copies_of(&mut state))
            .and_then(|matrix| self.renew_all(&mut state, matrix.as_ref()));
        let read = state.matrix.as_ref().map_or(Ok(()), |matrix| matrix.end_reading());
        if renewed.is_ok() {
            state.changes = changes;
            state.transposed.is_outdated = true;
            self.renew_fallback(&mut state);
        }
        self.state = Some(state);
        renewed.and(read)
    }

    fn renew_all(&self, state: &mut State, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        let State { inverse, engine, .. } = state;
        match engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew(matrix, inverse, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew(matrix, inverse, parts),
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew(matrix, inverse, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew(matrix, inverse, parts),
            BackendEngine::Direct(_) => unreachable!("new values are factorised"),
        }
    }

    /// Takes over new values in the copies of the caller's matrix: the one that is solved with.
    fn renew_copies_of(&self, state: &mut State) -> Result<Option<Arc<Matrix>>> {
        let Some(callers) = state.matrix.clone().filter(|_| self.operator.is_none()) else {
            return Ok(state.matrix.clone());
        };
        self.update_order(state)?;
        self.update_grid_copy(state)?;
        let matrix = state.copy().map_or(callers, Arc::clone);
        match &state.scaled {
            Some((scaled, k)) => {
                scaled.update_times_power(&matrix, *k)?;
                Ok(Some(Arc::clone(scaled)))
            }
            None => Ok(Some(matrix)),
        }
    }

    /// Before a solve: takes over values of the matrix that have changed since the last one. The preconditioner stays as it is,
    /// unless the values need other units.
    pub(super) fn take_over_changes(&mut self) -> Result<()> {
        let Some(state) = &self.state else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before solve");
        };
        let Some(callers) = state.matrix.clone().filter(|_| self.operator.is_none()) else { return Ok(()) };
        let changes = callers.changes(&self.context)?;
        if changes == state.changes {
            return Ok(());
        }
        if matches!(state.engine, BackendEngine::Direct(_)) {
            return self.update_direct();
        }
        callers.recheck_values(&self.context)?;
        let now = callers.units(&self.context, &self.config)?;
        if Self::needs_other_units(state, now) {
            let count = self.solves.count();
            self.setup(Some(&callers))?;
            return self.solves.begin(count);
        }
        let Some(mut state) = self.state.take() else { unreachable!("it was there") };
        let renewed = self.renew_operator_of(&mut state);
        if renewed.is_ok() {
            state.changes = changes;
            self.renew_fallback(&mut state);
        }
        self.state = Some(state);
        renewed.and(callers.end_reading())
    }

    fn renew_operator_of(&self, state: &mut State) -> Result<()> {
        let Some(matrix) = &self.renew_copies_of(state)? else { unreachable!("its values have changed") };
        match &mut state.engine {
            BackendEngine::Host(Engine::F64(parts)) => self.renew_operator(matrix, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.renew_operator(matrix, parts),
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => unreachable!("a build without kernels opens no GPU"),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.renew_operator(matrix, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.renew_operator(matrix, parts),
            BackendEngine::Direct(_) => unreachable!("new values are factorised"),
        }
    }

    /// Whether values of another size need other units than those of the last set-up.
    pub(super) fn needs_other_units(state: &State, now: i32) -> bool {
        let before = state.units();
        (now == 0) != (before == 0) || now.abs_diff(before) > 50
    }
}
