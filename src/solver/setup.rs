//! Set-up of a solver: its matrix in the units and order that are solved with, the preconditioner and the workspace.

use super::solves::Solves;
use super::transposed::Transposed;
use super::{BackendEngine, MAX_PHASES, Solver, State, direct};
use crate::backend::common::Symmetry;
use crate::config::Config;
use crate::context::LogLevel;
use crate::error::{Result, fail};
use crate::gpu::{self, Staging};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::preconditioner::defaults::nonsymmetric;
use crate::preconditioner::{Inverse, Method};
use crate::scalar::Precision;
use std::sync::Arc;

/// Most residual norms of one right-hand side for which capacity is reserved before a solve.
const MAX_HISTORY_CAPACITY: usize = 1 << 20;

impl Solver {
    /// Builds the preconditioner and the workspace. The matrix may be absent when an operator was given.
    /// When it fails, the solver is as before.
    pub fn setup(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        let before = self.effective.clone();
        let made = self.set_up(matrix);
        if made.is_err() {
            self.effective = before;
        }
        made
    }

    fn set_up(&mut self, matrix: Option<&Arc<Matrix>>) -> Result<()> {
        if let Some(rows) = matrix.and_then(|matrix| matrix.over_ranks()) {
            return self.setup_over_ranks(matrix, rows);
        }
        self.config.check_device(self.context.device())?;
        let rows = self.system_rows(matrix)?;
        let changes = matrix.map_or(Ok(0), |matrix| matrix.changes(&self.context))?;
        if let Some(matrix) = matrix {
            matrix.check_for_set_up(&self.context)?;
        }
        self.context = self.context.with_own_scratch()?;
        let callers = matrix;
        self.effective = self.config.clone();
        if self.setup_direct(callers)? {
            return Ok(());
        }
        let grid = self.grid_copy(matrix)?;
        let order = if grid.is_some() { None } else { self.order(matrix)? };
        let reordered = order.as_ref().and_then(|order| order.copy.as_ref());
        let copy = grid.as_ref().map(|grid| &grid.matrix).or(reordered.map(|(matrix, _)| matrix));
        let matrix = copy.or(callers);
        let scaled = self.scaled_matrix(matrix)?;
        let matrix = scaled.as_ref().map(|(matrix, _)| matrix).or(matrix);
        let method = self.method();
        let other = self.checked_preconditioner_matrix(rows)?;
        // Beside an operator callback, the matrix of the preconditioner tells what it is like.
        let like = other.as_ref().filter(|_| self.operator.is_some()).or(matrix);
        self.effective = self.effective_config(like, grid.as_ref().map(|grid| &grid.symmetry))?;
        for (key, value) in grid.iter().flat_map(|grid| grid.options) {
            self.effective.set_str(key, value)?;
        }
        let mut inverse = self.preconditioner_of(method, other.as_ref(), matrix)?;
        let precision = self.precision();
        let units = scaled.as_ref().map_or(0, |(_, k)| *k);
        let permutation = reordered.map(|(_, permutation)| permutation);
        let engine = match self.context.gpu() {
            Some(gpu) if gpu::IS_BUILT => {
                let engine = self.engine(gpu, precision, matrix, &mut inverse, rows)?;
                BackendEngine::Gpu(engine.in_units(units).in_order(permutation)?, Staging::default())
            }
            _ => {
                let engine = self.engine(&Host::new(&self.context), precision, matrix, &mut inverse, rows)?;
                BackendEngine::Host(engine.in_units(units).in_order(permutation)?)
            }
        };
        if let Some(matrix) = callers {
            matrix.end_reading()?;
        }
        self.solves = Solves::try_capacity(self.history_capacity())?;
        self.phases.seconds.reserve(MAX_PHASES);
        let (fallback, transposed) = (self.fallback(callers, precision), Transposed::default());
        let matrix = callers.cloned();
        let (size, ranks) = (0.0, None);
        self.state = Some(State {
            matrix,
            order,
            grid,
            scaled,
            inverse,
            engine,
            fallback,
            rows,
            changes,
            size,
            transposed,
            ranks,
        });
        Ok(())
    }

    /// Rows of the system, by the matrix and the operator callback.
    fn system_rows(&self, matrix: Option<&Arc<Matrix>>) -> Result<usize> {
        Ok(match (&self.operator, matrix) {
            (Some(user), None) => user.rows,
            (Some(user), Some(matrix)) if user.rows != matrix.rows() => {
                return fail!(
                    SizeMismatch,
                    "the operator has {} rows, the matrix {}; they must agree",
                    user.rows,
                    matrix.rows()
                );
            }
            (_, Some(matrix)) if matrix.rows() != matrix.cols() => {
                let (rows, cols) = (matrix.rows(), matrix.cols());
                return fail!(
                    SizeMismatch,
                    "a solver needs a square matrix; this one has {rows} rows and {cols} columns"
                );
            }
            (_, Some(matrix)) => matrix.rows(),
            (None, None) => return fail!(NotSetUp, "neither a matrix nor an operator callback was given"),
        })
    }

    /// The matrix that the preconditioner alone is built from, if there is one; it has the rows of the system.
    fn checked_preconditioner_matrix(&self, rows: usize) -> Result<Option<Arc<Matrix>>> {
        let other = self.preconditioner_matrix.clone();
        if let Some(other) = &other {
            other.check_not_distributed("a matrix for the preconditioner alone")?;
        }
        if let Some(other) = other.as_ref().filter(|other| (other.rows(), other.cols()) != (rows, rows)) {
            let (others, cols) = (other.rows(), other.cols());
            return fail!(
                SizeMismatch,
                "the matrix of the preconditioner has {others} rows and {cols} columns, the system {rows} rows"
            );
        }
        Ok(other)
    }

    /// The preconditioner by a method, if there is one, from a matrix of its own or from that of the system.
    fn preconditioner_of(
        &self,
        method: Option<Method>,
        other: Option<&Arc<Matrix>>,
        matrix: Option<&Arc<Matrix>>,
    ) -> Result<Option<Inverse>> {
        match (method, other.or(matrix)) {
            (Some(method), Some(matrix)) => {
                // The Krylov method does not see a factor of the preconditioner, so that its matrix may have units of its own. Richardson's
                // iteration does, and beside a callback the matrix keeps its units there.
                let is_callback = self.operator.is_some() && self.config.text("solver.type") != "richardson";
                let rescales = other.is_some() || is_callback;
                Inverse::setup_in_solver(method, &self.context, matrix, &self.effective, rescales).map(Some)
            }
            (Some(_), None) => {
                fail!(
                    NotSetUp,
                    "the preconditioner is \"{}\", which needs a matrix; give one, or set solver.preconditioner to \
                     \"none\", or set a preconditioner callback",
                    self.config.text("solver.preconditioner")
                )
            }
            (None, _) => Ok(None),
        }
    }

    /// The preconditioner that set-up makes, if the options name one and there is no callback for it.
    pub(super) fn method(&self) -> Option<Method> {
        Method::from_name(&self.config.text("solver.preconditioner")).filter(|_| self.preconditioner.is_none())
    }

    /// Precision of the Krylov method, or of the vectors of a direct solver.
    pub(super) fn precision(&self) -> Precision {
        let named = self.config.choice("solver.precision").and_then(|name| Precision::from_name(&name));
        named.unwrap_or(Precision::F64)
    }

    /// The options with a Krylov method, and components, that fit the matrix where `solver.type` leaves them open. Its symmetry may be known.
    pub(super) fn effective_config(&self, matrix: Option<&Arc<Matrix>>, known: Option<&Symmetry>) -> Result<Config> {
        let is_open = self.config.choice("solver.type").is_none();
        let Some(matrix) = matrix.filter(|_| is_open) else { return Ok(self.config.clone()) };
        let symmetry = known.cloned().map_or_else(|| matrix.symmetry(&self.context), Ok)?;
        if !symmetry.is_symmetric_in(matrix.precision()) {
            self.context.log(LogLevel::Info, || "the matrix is not symmetric: GMRES with Gauss-Seidel".to_string());
            return nonsymmetric(matrix, &self.config);
        }
        if symmetry.is_negative() {
            return fail!(
                MatrixValues,
                "the matrix is symmetric and its diagonal is negative, as of a negative definite one; negate the matrix and the \
                 right-hand sides, or set solver.type to gmres"
            );
        }
        Ok(self.config.clone())
    }

    /// The matrix in other units where its values are so large or small that their squares leave the range of numbers.
    pub(super) fn scaled_matrix(&self, matrix: Option<&Arc<Matrix>>) -> Result<Option<(Arc<Matrix>, i32)>> {
        // The size of an operator callback is not known.
        let Some(matrix) = matrix.filter(|_| self.operator.is_none()) else { return Ok(None) };
        match matrix.units(&self.context, &self.config)? {
            0 => Ok(None),
            k => Ok(Some((Arc::new(matrix.times_power(k)?), k))),
        }
    }

    pub(super) fn history_capacity(&self) -> usize {
        (self.config.int("solver.max_iterations") + 1).min(MAX_HISTORY_CAPACITY) + direct::HISTORY
    }
}
