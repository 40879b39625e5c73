//! Matrices of any storage format as operators. What depends on the format is compiled once for it, and what depends on the vectors once
//! for them.

use super::Host;
use super::multivector::{self, Rowwise};
use super::operator::Stored;
use super::spmv::Epilogue;
use super::stencil::product::StencilOperator;
use super::stencil::transfer::TransferOperator;
use crate::backend::Operator;
use crate::error::Result;
use crate::scalar::{Number, NumbersMut, NumbersRef, Precision, with_numbers_mut};
use std::sync::Arc;

/// What a product computes.
#[derive(Clone, Copy)]
pub(super) enum Task<'a> {
    /// y = alpha A x + beta y. Both are numbers of the precision of y.
    Apply(f64, f64),
    /// y = b - A x.
    Residual(NumbersRef<'a>),
}

impl<'a> Task<'a> {
    fn epilogue<Y: Number>(self) -> Epilogue<'a, Y> {
        match self {
            Task::Apply(alpha, beta) => Epilogue::new(Y::Wide::from_f64(alpha), Y::Wide::from_f64(beta)),
            Task::Residual(b) => match Y::of_numbers(b) {
                Some(b) => Epilogue::Residual(b),
                None => unreachable!("right-hand side and residual have the same precision"),
            },
        }
    }
}

/// A matrix in some storage format.
pub(super) trait AnyMatrix: Send + Sync {
    /// Scalar rows.
    fn rows(&self) -> usize;
    /// Multiplies it with a vector.
    fn product(&self, x: NumbersRef<'_>, y: NumbersMut<'_>, task: Task<'_>);
    /// The same, to be multiplied with multivectors.
    fn rowwise(self: Arc<Self>) -> Option<Arc<dyn Rowwise>> {
        None
    }
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// Format, for reports.
    fn format(&self) -> String;
    /// Storage precision.
    fn precision(&self) -> Precision;
}

impl<S: Number> AnyMatrix for Stored<S> {
    fn rows(&self) -> usize {
        Stored::rows(self)
    }

    fn product(&self, x: NumbersRef<'_>, y: NumbersMut<'_>, task: Task<'_>) {
        with_numbers_mut!(y, y => Stored::product(self, x, y, task.epilogue()));
    }

    fn rowwise(self: Arc<Self>) -> Option<Arc<dyn Rowwise>> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        Stored::bytes(self)
    }

    fn format(&self) -> String {
        Stored::format(self)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

impl<S: Number> AnyMatrix for StencilOperator<S> {
    fn rows(&self) -> usize {
        StencilOperator::rows(self)
    }

    fn product(&self, x: NumbersRef<'_>, y: NumbersMut<'_>, task: Task<'_>) {
        with_numbers_mut!(y, y => StencilOperator::product(self, x, y, task.epilogue()));
    }

    fn rowwise(self: Arc<Self>) -> Option<Arc<dyn Rowwise>> {
        self.has_multivectors().then_some(self as _)
    }

    fn bytes(&self) -> usize {
        StencilOperator::bytes(self)
    }

    fn format(&self) -> String {
        StencilOperator::format(self)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

impl<S: Number> AnyMatrix for TransferOperator<S> {
    fn rows(&self) -> usize {
        TransferOperator::rows(self)
    }

    fn product(&self, x: NumbersRef<'_>, y: NumbersMut<'_>, task: Task<'_>) {
        with_numbers_mut!(y, y => TransferOperator::product(self, x, y, task.epilogue()));
    }

    fn rowwise(self: Arc<Self>) -> Option<Arc<dyn Rowwise>> {
        self.has_multivectors().then_some(self as _)
    }

    fn bytes(&self) -> usize {
        TransferOperator::bytes(self)
    }

    fn format(&self) -> String {
        TransferOperator::format(self)
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }
}

/// A matrix in some storage format as an operator on vectors of any precision.
pub(super) struct AnyOperator(pub Arc<dyn AnyMatrix>);

impl<X: Number, Y: Number> Operator<Host, X, Y> for AnyOperator {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.0.product(X::numbers(x), Y::numbers_mut(y), Task::Apply(alpha.to_f64(), beta.to_f64()));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        assert_eq!(b.len(), r.len());
        self.0.product(X::numbers(x), Y::numbers_mut(r), Task::Residual(Y::numbers(b)));
        Ok(())
    }

    fn for_multivectors(self: Arc<Self>, k: usize) -> Option<Arc<dyn Operator<Host, X, Y>>> {
        multivector::interleaved(Arc::clone(&self.0).rowwise()?, k)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn format(&self) -> String {
        self.0.format()
    }

    fn precision(&self) -> Precision {
        self.0.precision()
    }
}
