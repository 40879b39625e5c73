//! The Krylov method, its operator and its workspace, in the solver's precision and on the context's backend.

use super::hints::Advice;
use super::together::Together;
use super::user::SolverBackend;
use super::{BackendEngine, Order, Solver, State};
use crate::backend::{Backend, Operator, Preconditioner};
use crate::error::{Result, Status, fail};
use crate::gpu::{self, Gpu};
use crate::host::Host;
use crate::krylov::{self, Krylov, Norm};
use crate::matrix::{Matrix, Permutation};
use crate::null_space::NullSpace;
use crate::preconditioner::Inverse;
use crate::report::{Report, SolveReport};
use crate::scalar::{Precision, Scalar};
use std::sync::Arc;

/// The solver in f64 or f32.
pub enum Engine<B: SolverBackend> {
    F64(Parts<B, f64>),
    F32(Parts<B, f32>),
}

/// A right-hand side and its solution.
pub type OwnVectors<B, T> = (<B as Backend>::Buffer<T>, <B as Backend>::Buffer<T>);

/// The Krylov method, its operator, and workspace.
pub struct Parts<B: SolverBackend, T: Scalar> {
    pub backend: B,
    pub name: String,
    pub norm: Norm,
    pub null_space: Option<NullSpace<B, T>>,
    pub method: Box<dyn Krylov<B, T>>,
    pub operator: Arc<dyn Operator<B, T>>,
    /// The format of the operator, where it is narrower than the matrix.
    pub narrower: B::Narrower,
    /// A preconditioner of the caller, which replaces AMG.
    pub user: Option<Box<dyn Preconditioner<B, T>>>,
    pub rows: usize,
    /// Exponent of the power of two by which the caller's matrix was multiplied.
    pub units: i32,
    /// The order of its vectors, where that is not the caller's.
    pub permutation: Option<Arc<B::Permutation>>,
    /// For the recomputed residual.
    pub r: B::Buffer<T>,
    /// For M b and M r, with the preconditioned norm.
    pub z: Option<B::Buffer<T>>,
    /// Relative tolerance, less what is not known about a residual.
    pub tolerance: f64,
    /// Whether it is a share of the residual of the initial guess, not of the right-hand side.
    pub from_initial_residual: bool,
    /// What may be tried where a solve fails.
    pub advice: Advice,
    /// For the best iterate.
    pub best: B::Buffer<T>,
    /// Whether vectors of f32 are accepted, and converted: those of an f32 matrix in a solver that works in f64.
    pub converts: bool,
    /// Right-hand side and solution for them, from the first such solve on, and for vectors in another order.
    pub converted: Option<OwnVectors<B, T>>,
    /// For several right-hand sides at once, from the first such solve on.
    pub together: Option<Box<Together<B, T>>>,
}

impl<B: SolverBackend> Engine<B> {
    /// Method, precision and bytes.
    pub fn describe(&self) -> (&str, Precision, usize) {
        match self {
            Engine::F64(parts) => (&parts.name, Precision::F64, parts.bytes()),
            Engine::F32(parts) => (&parts.name, Precision::F32, parts.bytes()),
        }
    }

    /// The same for a matrix that was multiplied by 2^units.
    pub fn in_units(mut self, units: i32) -> Self {
        match &mut self {
            Engine::F64(parts) => parts.units = units,
            Engine::F32(parts) => parts.units = units,
        }
        self
    }

    /// The same for a matrix in another order than the caller's.
    pub fn in_order(mut self, permutation: Option<&Permutation>) -> Result<Self> {
        let permutation = permutation.and_then(B::permutation);
        match &mut self {
            Engine::F64(parts) => parts.set_order(permutation)?,
            Engine::F32(parts) => parts.set_order(permutation)?,
        }
        Ok(self)
    }

    /// The error for vectors of another precision.
    pub fn refuse<T: Scalar>(&self) -> Result<Status> {
        fail!(
            InvalidArgument,
            "the vectors are {}; this solver works in {} (option solver.precision)",
            T::PRECISION.name(),
            self.describe().1.name()
        )
    }
}

impl<B: SolverBackend, T: Scalar> Parts<B, T> {
    /// With vectors for those of the caller, which are in another order.
    fn set_order(&mut self, permutation: Option<Arc<B::Permutation>>) -> Result<()> {
        if permutation.is_some() {
            self.converted = Some((self.backend.zeros(self.rows)?, self.backend.zeros(self.rows)?));
        }
        self.permutation = permutation;
        Ok(())
    }

    /// Vectors for those of the caller in another order; none where the order is the same.
    pub fn take_own_vectors(&mut self) -> Result<Option<OwnVectors<B, T>>> {
        match (&self.permutation, self.converted.take()) {
            (None, converted) => {
                self.converted = converted;
                Ok(None)
            }
            (Some(_), Some(own)) => Ok(Some(own)),
            (Some(_), None) => Ok(Some((self.backend.zeros(self.rows)?, self.backend.zeros(self.rows)?))),
        }
    }

    /// A vector of the caller's as the solver has it: in its precision and order.
    pub fn bring_in<V: Scalar>(&self, from: &B::Slice<V>, to: &mut B::Slice<T>) -> Result<()> {
        match &self.permutation {
            Some(permutation) => self.backend.permute(permutation, from, to)?,
            None => self.backend.copy(from, to),
        }
        Ok(())
    }

    /// A vector of the solver's as the caller has it.
    pub fn bring_out<V: Scalar>(&self, from: &B::Slice<T>, to: &mut B::Slice<V>) -> Result<()> {
        match &self.permutation {
            Some(permutation) => self.backend.permute_back(permutation, from, to)?,
            None => self.backend.copy(from, to),
        }
        Ok(())
    }

    pub(super) fn replace_operator(&mut self, operator: Arc<dyn Operator<B, T>>) {
        self.operator = operator;
        if let Some(together) = &mut self.together {
            together.a = None;
        }
    }

    /// Adds to an empty report what was done for this right-hand side together with others before their solver turned to factors.
    pub fn tell_of_group(&self, index: usize, report: &mut SolveReport) {
        if let Some(together) = self.together.as_ref().filter(|_| report.history.is_empty()) {
            report.fell_back = together.tell(index, report);
        }
    }

    /// Discards what right-hand sides of an earlier call left.
    pub fn begin(&mut self) {
        if let Some(together) = &mut self.together {
            together.clear();
        }
    }

    fn bytes(&self) -> usize {
        let null_space = self.null_space.as_ref().map_or(0, NullSpace::len);
        let converted = if self.converted.is_some() { 2 } else { 0 };
        let vectors = converted + if self.z.is_some() { 3 } else { 2 };
        let together = self.together.as_ref().map_or(0, |together| together.bytes(self.rows));
        self.method.bytes() + (vectors * self.rows + null_space) * T::PRECISION.bytes() + together
    }
}

impl Solver {
    pub(super) fn engine<B: SolverBackend>(
        &self,
        backend: &B,
        precision: Precision,
        matrix: Option<&Arc<Matrix>>,
        inverse: &mut Option<Inverse>,
        rows: usize,
    ) -> Result<Engine<B>>
    where
        Inverse: Preconditioner<B, f64> + Preconditioner<B, f32>,
    {
        Ok(match precision {
            Precision::F32 => Engine::F32(self.parts(backend, matrix, inverse, rows)?),
            _ => Engine::F64(self.parts(backend, matrix, inverse, rows)?),
        })
    }

    fn parts<B: SolverBackend, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        inverse: &mut Option<Inverse>,
        rows: usize,
    ) -> Result<Parts<B, T>>
    where
        Inverse: Preconditioner<B, T>,
    {
        if let Some(inverse) = inverse {
            inverse.prepare::<T>()?;
        }
        let name = self.method_name::<B, T>(inverse.as_ref());
        let method = krylov::make(&name, backend, rows, &self.config)?;
        let norm = if self.config.text("solver.norm") == "true" { Norm::True } else { Norm::Preconditioned };
        if norm == Norm::Preconditioned && !method.has_preconditioned_residual() {
            return fail!(
                OptionValue,
                "solver.norm is \"preconditioned\", which {name} cannot do; accepted: true, or one of cg, fcg, richardson as \
                 solver.type"
            );
        }
        let mut narrower = B::Narrower::default();
        let narrow = self.narrow_operator(backend, matrix, &mut narrower)?;
        let operator = self.operator(backend, matrix, inverse.as_ref(), narrow.as_ref())?;
        let user = match &self.preconditioner {
            Some(user) => Some(backend.user_preconditioner(user)?),
            None => None,
        };
        let null_space = self.config.text("solver.null_space");
        let host = Host::new(&self.context);
        let null_space = NullSpace::new(backend, &host, &null_space, rows, matrix.map(|matrix| &**matrix))?;
        self.check_null_space(backend, &null_space, &*operator)?;
        let z = if norm == Norm::Preconditioned { Some(backend.zeros(rows)?) } else { None };
        let advice = self.advice(matrix.is_some(), backend.is_distributed());
        let (backend, r, best) = (backend.clone(), backend.zeros(rows)?, backend.zeros(rows)?);
        let converts = T::PRECISION == Precision::F64 && matrix.is_some_and(|m| m.precision() == Precision::F32);
        Ok(Parts {
            backend,
            name,
            norm,
            null_space,
            method,
            operator,
            narrower,
            user,
            rows,
            units: 0,
            permutation: None,
            r,
            z,
            tolerance: self.relative_tolerance::<T>(),
            from_initial_residual: self.config.text("solver.relative_to") == "initial_residual",
            advice,
            best,
            converts,
            converted: None,
            together: None,
        })
    }

    /// Name of the Krylov method, for a preconditioner that is constant, and symmetric, or not.
    fn method_name<B: SolverBackend, T: Scalar>(&self, inverse: Option<&Inverse>) -> String
    where
        Inverse: Preconditioner<B, T>,
    {
        // A callback is not known.
        let is_none = self.preconditioner.is_none();
        let is_symmetric = inverse.map_or(is_none, Preconditioner::<B, T>::is_constant_symmetric);
        let is_constant = inverse.map_or(is_none, Inverse::is_constant);
        let is_open = self.config.choice("solver.type").is_none();
        match self.effective.choice("solver.type").as_deref() {
            None if is_symmetric => "cg".to_string(),
            None => "fcg".to_string(),
            Some("gmres") if !is_constant && (is_open || inverse.is_some_and(Inverse::is_nonlinear)) => {
                "fgmres".to_string()
            }
            Some("cg") if inverse.is_some_and(Inverse::is_nonlinear) => "fcg".to_string(),
            Some(name) => name.to_string(),
        }
    }

    /// The operator of the Krylov method: a narrower copy of the matrix where there is one, or that of the finest level where it is the same matrix.
    pub(super) fn operator<B: SolverBackend, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        inverse: Option<&Inverse>,
        narrow: Option<&Arc<dyn Operator<B, T>>>,
    ) -> Result<Arc<dyn Operator<B, T>>>
    where
        Inverse: Preconditioner<B, T>,
    {
        let matrix = match (&self.operator, matrix) {
            (Some(user), _) => return Ok(backend.user_operator(user)?.into()),
            (None, Some(matrix)) => matrix,
            (None, None) => return fail!(NotSetUp, "neither a matrix nor an operator callback was given"),
        };
        if let Some(narrow) = narrow {
            return Ok(Arc::clone(narrow));
        }
        if let Some(shared) = self.shares(inverse).and_then(Preconditioner::<B, T>::operator) {
            return Ok(shared);
        }
        Ok(backend.matrix_operator(matrix)?.into())
    }

    /// Bytes of the matrix beside those that the report of the hierarchy counts.
    pub(super) fn matrix_bytes(&self, state: &State, report: &Report) -> usize {
        let Some(callers) = &state.matrix else { return 0 };
        let grid = state.grid.as_ref().map_or(0, |grid| grid.matrix.device_bytes());
        let order = grid + state.order.as_ref().map_or(0, Order::bytes);
        match &state.engine {
            BackendEngine::Gpu(..) if !gpu::IS_BUILT => 0,
            BackendEngine::Gpu(Engine::F64(parts), _) => order + self.operator_bytes(parts, state.inverse.as_ref()),
            BackendEngine::Gpu(Engine::F32(parts), _) => order + self.operator_bytes(parts, state.inverse.as_ref()),
            BackendEngine::Host(_) | BackendEngine::Direct(_) => {
                let matrix = state.copy().unwrap_or(callers);
                // The caller's matrix, beside a copy of it in another order or as a stencil.
                let (structure, values) = callers.owned_bytes();
                let order = if Arc::ptr_eq(matrix, callers) { 0 } else { order + structure + values };
                let (structure, values) = matrix.owned_bytes();
                let own = report.levels.first().filter(|_| self.preconditioner_matrix.is_none());
                let scaled = state.scaled.as_ref().map_or(0, |(scaled, _)| scaled.owned_bytes().1);
                order
                    + match own {
                        // The finest level is the matrix, or has its pattern.
                        Some(level) if level.matrix_precision == matrix.precision() => values.min(scaled),
                        Some(level) if level.format == matrix.block().format() => values + scaled,
                        _ => structure + values + scaled,
                    }
            }
        }
    }

    /// Bytes of the operator on a device, unless it is that of the finest level.
    fn operator_bytes<T: Scalar>(&self, parts: &Parts<Gpu, T>, inverse: Option<&Inverse>) -> usize {
        let finest = self.shares(inverse).and_then(Preconditioner::<Gpu, T>::operator);
        let is_shared =
            finest.is_some_and(|finest| std::ptr::addr_eq(Arc::as_ptr(&finest), Arc::as_ptr(&parts.operator)));
        if is_shared { 0 } else { parts.operator.bytes() }
    }

    /// The hierarchy, where its finest level is the matrix that is solved with.
    pub(super) fn shares<'a>(&self, inverse: Option<&'a Inverse>) -> Option<&'a Inverse> {
        inverse.filter(|_| self.preconditioner_matrix.is_none())
    }

    /// A copy of the matrix in a narrower format that holds every value exactly, where there is one and the options allow it.
    fn narrow_operator<B: SolverBackend, T: Scalar>(
        &self,
        backend: &B,
        matrix: Option<&Arc<Matrix>>,
        narrower: &mut B::Narrower,
    ) -> Result<Option<Arc<dyn Operator<B, T>>>> {
        match matrix {
            Some(matrix) if self.operator.is_none() && self.config.choice("precision.operator").is_none() => {
                Ok(backend.exact_matrix_operator(matrix, narrower)?.map(Arc::from))
            }
            _ => Ok(None),
        }
    }

    /// Checks the null space against the matrix. An operator callback is not called before a solve, so its null space is not checked.
    pub(super) fn check_null_space<B: SolverBackend, T: Scalar>(
        &self,
        backend: &B,
        null_space: &Option<NullSpace<B, T>>,
        operator: &dyn Operator<B, T>,
    ) -> Result<()> {
        match null_space {
            Some(space) if self.operator.is_none() => space.check(backend, operator),
            _ => Ok(()),
        }
    }

    /// Takes over new values in the operator alone. A failure changes nothing.
    pub(super) fn renew_operator<B: SolverBackend, T: Scalar>(
        &self,
        matrix: &Arc<Matrix>,
        parts: &mut Parts<B, T>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        let narrow = self.narrow_operator(&parts.backend, Some(matrix), &mut parts.narrower)?;
        let operator = self.operator(&parts.backend, Some(matrix), None, narrow.as_ref())?;
        self.check_null_space(&parts.backend, &parts.null_space, &*operator)?;
        parts.method.discard_graph();
        parts.replace_operator(operator);
        Ok(())
    }

    /// Updates operator and hierarchy. The null space is checked first, so that a failure changes nothing. Values that are not finite pass this check
    /// and fail their own.
    pub(super) fn renew<B: SolverBackend, T: Scalar>(
        &self,
        matrix: Option<&Arc<Matrix>>,
        inverse: &mut Option<Inverse>,
        parts: &mut Parts<B, T>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        let hierarchy = self.shares(inverse.as_ref());
        let shared = self.operator.is_none() && hierarchy.and_then(Preconditioner::<B, T>::operator).is_some();
        let narrow = self.narrow_operator(&parts.backend, matrix, &mut parts.narrower)?;
        let own = match shared && parts.null_space.is_none() {
            true => None,
            false => Some(self.operator(&parts.backend, matrix, None, narrow.as_ref())?),
        };
        if let Some(operator) = &own {
            self.check_null_space(&parts.backend, &parts.null_space, &**operator)?;
        }
        parts.method.discard_graph();
        if let Some(matrix) = matrix.filter(|_| inverse.is_none() || self.preconditioner_matrix.is_some()) {
            matrix.recheck_values(&self.context)?;
        }
        if let Some(inverse) = inverse {
            inverse.update()?;
        }
        let operator = match own.filter(|_| !shared) {
            Some(operator) => operator,
            None => self.operator(&parts.backend, matrix, inverse.as_ref(), narrow.as_ref())?,
        };
        if self.operator.is_some() {
            parts.units = 0;
        }
        parts.replace_operator(operator);
        self.renew_method(inverse.as_ref(), parts)
    }

    /// Another method after an update: new levels may have other sweeps and formats, so that another default applies.
    pub(super) fn renew_method<B: SolverBackend, T: Scalar>(
        &self,
        inverse: Option<&Inverse>,
        parts: &mut Parts<B, T>,
    ) -> Result<()>
    where
        Inverse: Preconditioner<B, T>,
    {
        if let Some(inverse) = inverse.filter(|inverse| inverse.was_set_up_anew()) {
            let name = self.method_name::<B, T>(Some(inverse));
            if name != parts.name {
                parts.method = krylov::make(&name, &parts.backend, parts.rows, &self.config)?;
                parts.name = name;
            }
        }
        Ok(())
    }
}
