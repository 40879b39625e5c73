//! Solves with the transposed matrix. Where the matrix is symmetric they are solves with the matrix. Factors of the matrix
//! are factors of its transpose. Otherwise a second solver, with the same options, has the transpose.

use super::direct::Direct;
use super::fallback::Fallback;
use super::{BackendEngine, Guess, Monitor, Solver, State};
use crate::context::LogLevel;
use crate::error::{Result, Status, fail};
use crate::gpu;
use crate::matrix::Matrix;
use crate::operations::of_transpose;
use crate::scalar::Scalar;
use std::sync::Arc;

/// What solves with Aᵀ need.
#[derive(Default)]
pub(super) struct Transposed {
    /// Whether the matrix was symmetric after so many changes of its values.
    symmetry: Option<(u64, bool)>,
    /// The second solver, from the first solve on that needs it.
    second: Option<Box<Second>>,
    /// Whether the preconditioner was updated since the last solve with Aᵀ.
    pub is_outdated: bool,
}

/// How systems with Aᵀ are solved.
enum Way {
    /// As those with A, which is symmetric.
    Same,
    /// By the factors of A.
    Factors,
    /// By the second solver.
    Second,
}

/// The solver for Aᵀ.
struct Second {
    solver: Solver,
    matrix: Arc<Matrix>,
    /// The matrix of the preconditioner, where it is another one, and its transpose.
    preconditioner_matrix: Option<(Arc<Matrix>, Arc<Matrix>)>,
}

impl Solver {
    /// Solves Aᵀ x = b, otherwise as [`Solver::solve`]. Where the matrix is symmetric, up to rounding, this is the same solve. Where the matrix is
    /// factorised, its factors are used, and the first solve makes a transposed copy of it for residuals. Otherwise the first one makes a second solver with the same options for the transpose, which takes as much memory as this one and a transposed copy
    /// of the matrix. Its preconditioner is made from the values of that moment. After an `update` of this solver, the next transposed solve
    /// updates the second.
    pub fn solve_transposed<T: Scalar>(&mut self, b: &[T], x: &mut [T], guess: Guess) -> Result<Status> {
        self.transposed((b.len(), x.len()), |solver| solver.solve(b, x, guess))
    }

    /// As [`Solver::solve_transposed`], for vectors in the memory of the context's GPU.
    pub fn solve_transposed_on_device<T: Scalar>(
        &mut self,
        b: &gpu::Slice<T>,
        x: &mut gpu::Slice<T>,
        guess: Guess,
    ) -> Result<Status> {
        self.transposed((b.len(), x.len()), |solver| solver.solve_on_device(b, x, guess))
    }

    /// Runs a solve with the transpose, with vectors of these lengths.
    fn transposed(
        &mut self,
        (b, x): (usize, usize),
        solve: impl FnOnce(&mut Solver) -> Result<Status>,
    ) -> Result<Status> {
        self.begin_report(b, x)?;
        if let Some(matrix) = self.matrix_over_ranks() {
            matrix.check_not_distributed("a solve with the transposed matrix")?;
        }
        if self.state.as_mut().is_some_and(|state| state.factors().is_some()) {
            self.take_over_changes()?;
        }
        let Some(mut state) = self.state.take() else {
            return fail!(NotSetUp, "the solver has not been set up; call setup before solve_transposed");
        };
        let prepared = self.prepare_transposed(&mut state);
        let state = self.state.insert(state);
        match prepared? {
            Way::Same => solve(self),
            Way::Factors => {
                let result = solve(self);
                if let Some(direct) = self.state.as_mut().and_then(State::factors) {
                    direct.set_transposed(false)?;
                }
                result
            }
            Way::Second => {
                let State { transposed, fallback, .. } = state;
                let Some(second) = &mut transposed.second else { unreachable!("it was prepared") };
                second.solver.begin_report(b, x)?;
                self.reports_transposed = true;
                second.solve(&mut self.monitor, fallback, solve)
            }
        }
    }

    /// Finds the way to solve with the transpose. A second solver gets the values that the matrix has now.
    fn prepare_transposed(&self, state: &mut State) -> Result<Way> {
        let Some(matrix) = &state.matrix.clone().filter(|_| self.operator.is_none()) else {
            return fail!(
                Unsupported,
                "the operator is a callback, whose transpose the library does not know; set up a second solver, with a callback \
                 that applies the transpose"
            );
        };
        let changes = matrix.changes(&self.context)?;
        let transposed = &mut state.transposed;
        let symmetric = match transposed.symmetry {
            Some((at, symmetric)) if at == changes => symmetric,
            _ => {
                matrix.recheck_values(&self.context)?;
                let scaled = self.scaled_matrix(Some(matrix))?.map(|(scaled, _)| scaled);
                let matrix = scaled.as_ref().unwrap_or(matrix);
                matrix.is_symmetric(&self.context)?
            }
        };
        transposed.symmetry = Some((changes, symmetric));
        if symmetric {
            return Ok(Way::Same);
        }
        if let Some(direct) = state.factors() {
            direct.set_transposed(true).map_err(of_transpose)?;
            return Ok(Way::Factors);
        }
        if self.preconditioner.is_some() {
            return fail!(
                Unsupported,
                "the matrix is not symmetric and the preconditioner is a callback, whose transpose the library does not know; set up \
                 a second solver with the transposed matrix, and a callback for its preconditioner"
            );
        }
        let transposed = &mut state.transposed;
        match &mut transposed.second {
            Some(second) => second.renew(matrix, transposed.is_outdated).map_err(of_transpose)?,
            None => transposed.second = Some(Box::new(self.second(matrix).map_err(of_transpose)?)),
        }
        transposed.is_outdated = false;
        Ok(Way::Second)
    }

    fn second(&self, matrix: &Arc<Matrix>) -> Result<Second> {
        self.context.log(LogLevel::Info, || "set-up for the transposed matrix".to_string());
        let mut solver = Solver::new(&self.context, &self.config);
        let preconditioner_matrix = match &self.preconditioner_matrix {
            Some(of) => Some((Arc::clone(of), Arc::new(of.transposed_copy(&self.context)?))),
            None => None,
        };
        solver.set_preconditioner_matrix(preconditioner_matrix.as_ref().map(|(_, transpose)| transpose));
        let matrix = Arc::new(matrix.transposed_copy(&self.context)?);
        solver.setup(Some(&matrix))?;
        Ok(Second { solver, matrix, preconditioner_matrix })
    }
}

impl Solver {
    /// Uses another fallback; returns the one before.
    fn lend_fallback(&mut self, fallback: Option<Fallback>) -> Option<Fallback> {
        self.state.as_mut().and_then(|state| std::mem::replace(&mut state.fallback, fallback))
    }

    /// The second solver, where there is one.
    pub(super) fn transposed_solver(&self) -> Option<&Solver> {
        self.state.as_ref()?.transposed.second.as_ref().map(|second| &second.solver)
    }
}

impl State {
    /// The factors that every solve uses: those of a direct solver, or of a fallback that was needed before.
    fn factors(&mut self) -> Option<&mut Direct> {
        match &mut self.engine {
            BackendEngine::Direct(direct) => Some(direct),
            _ => self.fallback.as_mut().and_then(Fallback::direct),
        }
    }
}

impl Second {
    /// Runs a solve with the monitor of the first solver. Where the Krylov method fails, the factors of the matrix are used for its transpose: they
    /// are those of the first solver.
    fn solve(
        &mut self,
        monitor: &mut Option<Monitor>,
        fallback: &mut Option<Fallback>,
        solve: impl FnOnce(&mut Solver) -> Result<Status>,
    ) -> Result<Status> {
        let solver = &mut self.solver;
        solver.take_over_changes()?;
        std::mem::swap(&mut solver.monitor, monitor);
        let own = solver.lend_fallback(fallback.take().map(Fallback::transposed));
        let result = solve(solver);
        *fallback = solver.lend_fallback(own).map(Fallback::transposed);
        std::mem::swap(&mut solver.monitor, monitor);
        result
    }

    /// Takes over new values, in the preconditioner, too, where it is outdated. The Krylov method finds them at its next solve.
    fn renew(&mut self, matrix: &Matrix, is_outdated: bool) -> Result<()> {
        let Second { solver, matrix: transpose, preconditioner_matrix } = self;
        transpose.update_transposed_copy(matrix, &solver.context)?;
        if let Some((of, transpose)) = preconditioner_matrix {
            transpose.update_transposed_copy(of, &solver.context)?;
        }
        if is_outdated { solver.update() } else { Ok(()) }
    }
}
