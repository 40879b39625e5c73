//! Updates to new values of a matrix over ranks: coarse unknowns, patterns and messages stay.

use super::parts::{Engine, Parts};
use super::user::SolverBackend;
use super::{BackendEngine, Solver, State};
use crate::backend::{Operator, Preconditioner};
use crate::error::Result;
use crate::matrix::{DistributedRows, Matrix};
use crate::preconditioner::Inverse;
use crate::scalar::Scalar;
use std::sync::Arc;

impl Solver {
    /// Collective: as [`Solver::update`]. What fails on one rank fails on all, and leaves the preconditioner as it was.
    pub(super) fn update_over_ranks(&mut self, matrix: &Arc<Matrix>) -> Result<()> {
        let Some(rows) = matrix.over_ranks() else { unreachable!("the matrix is over ranks") };
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let checked = ranks.set_timeout(self.config.real("comm.timeout")).and_then(|()| {
                let values = self.values_of(matrix)?;
                matrix.recheck_values(&self.context).map(|()| values)
            });
            let (changes, size) = ranks.agree(checked)?;
            let units = matrix.units_of(&self.config, ranks.largest(size)?);
            if self.state.as_ref().is_some_and(|state| Self::needs_other_units(state, units)) {
                return self.setup(Some(matrix));
            }
            let Some(mut state) = self.state.take() else { unreachable!("it has the matrix") };
            let renewed = ranks.agree(state.renewed_units(matrix));
            let renewed = renewed.and_then(|matrix| self.update_all_over_ranks(&matrix, rows, &mut state));
            if renewed.is_ok() {
                (state.changes, state.size) = (changes, size);
            }
            self.state = Some(state);
            renewed?;
            let spread = self.spread(matrix, rows)?;
            if let Some(state) = &mut self.state {
                state.ranks = Some(spread);
            }
            Ok(())
        })
    }

    fn update_all_over_ranks(&self, matrix: &Arc<Matrix>, rows: &DistributedRows, state: &mut State) -> Result<()> {
        let State { inverse, engine, .. } = state;
        match engine {
            BackendEngine::Host(Engine::F64(parts)) => self.update_parts_over_ranks(matrix, rows, inverse, parts),
            BackendEngine::Host(Engine::F32(parts)) => self.update_parts_over_ranks(matrix, rows, inverse, parts),
            BackendEngine::Gpu(Engine::F64(parts), _) => self.update_parts_over_ranks(matrix, rows, inverse, parts),
            BackendEngine::Gpu(Engine::F32(parts), _) => self.update_parts_over_ranks(matrix, rows, inverse, parts),
            BackendEngine::Direct(_) => unreachable!("ranks have no factorisation"),
        }
    }

    /// Updates operator and preconditioner. The operator is made, and the null space checked, before anything changes.
    fn update_parts_over_ranks<B: SolverBackend, T: Scalar>(
        &self,
        matrix: &Arc<Matrix>,
        rows: &DistributedRows,
        inverse: &mut Option<Inverse>,
        parts: &mut Parts<B, T>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        let ranks = &rows.over().ranks;
        let is_shared = inverse.as_ref().and_then(Preconditioner::<B, T>::operator).is_some();
        let own: Option<Arc<dyn Operator<B, T>>> = match is_shared && parts.null_space.is_none() {
            true => None,
            false => Some(ranks.agree(parts.backend.matrix_operator(matrix))?.into()),
        };
        if let Some(operator) = &own {
            self.check_null_space(&parts.backend, &parts.null_space, &**operator)?;
        }
        if let Some(inverse) = inverse {
            inverse.update_over_ranks(matrix, rows, self.config.real("comm.timeout"))?;
        }
        parts.method.discard_graph();
        let finest = inverse.as_ref().and_then(Preconditioner::<B, T>::operator).filter(|_| is_shared);
        if let Some(operator) = finest.or(own) {
            parts.replace_operator(operator);
        }
        let renewed = self.renew_method(inverse.as_ref(), parts);
        ranks.settle(renewed)
    }
}
