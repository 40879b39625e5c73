//! The inverse of the diagonal, or of the diagonal blocks of a block matrix, as a preconditioner.

use super::one_level;
use crate::amg::finest::{Application, Finest, FinestLevel};
use crate::amg::hierarchy::{Builder, Built, Renewal, SetupData, SetupOn};
use crate::amg::plan::Plan;
use crate::backend::Backend;
use crate::backend::setup::{By, Setup, SetupMatrix};
use crate::config::LevelPart;
use crate::error::Result;
use crate::report::Phases;
use crate::scalar::{Number, Precision, Scalar, with_precision, with_storage, with_storage_for};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// D⁻¹ in storage format `N`, for vectors of precision `V`.
struct Diagonal<B: Backend, N: Number> {
    backend: B,
    /// Shared with the form for multivectors.
    inverse: Arc<B::Buffer<N>>,
    /// Rows of the blocks.
    width: usize,
    /// Length of a vector.
    rows: usize,
    /// Vectors of a multivector.
    vectors: usize,
}

impl<B: Backend, N: Number, V: Number> Application<B, V> for Diagonal<B, N> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn rows(&self) -> usize {
        self.rows * self.vectors
    }

    fn apply(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        self.backend.scale_by::<V, N>(self.vectors, &self.inverse, b, x);
        Ok(())
    }

    fn bytes(&self) -> usize {
        if self.vectors == 1 { self.rows * self.width * N::PRECISION.bytes() } else { 0 }
    }

    fn is_symmetric_in(&self, precision: Precision) -> bool {
        V::PRECISION == precision
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Application<B, V>>>> {
        let (backend, inverse) = (self.backend.clone(), Arc::clone(&self.inverse));
        Ok(Some(Box::new(Diagonal { backend, inverse, width: self.width, rows: self.rows, vectors: k })))
    }
}

/// Nothing: an update computes the diagonal again.
struct NoData;

impl SetupData for NoData {
    fn bytes(&self) -> usize {
        0
    }
}

/// Sets up, or updates.
pub(super) fn build<S: SetupOn<B>, B: Backend>(builder: &Builder<'_>, setup: &S, to: &B) -> Result<Built<B>> {
    with_precision!(builder.precision(), T => build_in::<S, B, T>(builder, setup, to))
}

fn build_in<S: SetupOn<B>, B: Backend, T: Scalar>(builder: &Builder<'_>, setup: &S, to: &B) -> Result<Built<B>> {
    let input = builder.matrix.precision();
    let mut plan = match &builder.plan {
        Some(plan) => plan.clone(),
        None => Plan::without_levels(builder.config, input)?,
    };
    let a = setup.import::<T>(builder.matrix, builder.matrix.is_stencil())?;
    let top = one_level::promoted(&mut plan, |plan| store(builder, setup, to, &a, plan))?;
    let (data, phases) = (Arc::new(NoData), Phases::default());
    Ok(Built { top, plan, data, renewal: Renewal::default(), phases, setup_place: String::new() })
}

fn store<S: SetupOn<B>, B: Backend, T: Scalar>(
    builder: &Builder<'_>,
    setup: &S,
    to: &B,
    a: &S::Matrix<T>,
    plan: &Plan,
) -> Result<Box<dyn Finest<B>>> {
    let width = a.block().rows;
    let (by, scaling) = one_level::scaling(builder, setup, to, a, plan)?;
    let over = By::over(by.as_ref().filter(|_| S::SCALES_AT_ONCE));
    let exact = setup.inverse_diagonal(&setup.scaled(a, over, over)?, width, false, by.as_ref())?;
    let guarded = builder.config.choice("precision.residual_scaling").is_none();
    let rows = to.local(a.scalar_rows());
    with_storage!(plan.of(LevelPart::Vector, 0), V => {
        let inverse: Box<dyn Application<B, V>> = with_storage_for!(plan.of(LevelPart::Smoother, 0), V, N => {
            let inverse = Arc::new(setup.array(to, stored::<S, T, N>(setup, &exact)?)?);
            Box::new(Diagonal::<B, N> { backend: to.clone(), inverse, width, rows, vectors: 1 })
        });
        Ok(Box::new(FinestLevel::<B, V>::new(inverse, scaling, guarded, plan.is_narrow())?))
    })
}

/// The inverse of a diagonal in another format.
fn stored<S: Setup, T: Scalar, N: Number>(setup: &S, exact: &S::Buffer<T>) -> Result<S::Buffer<N>> {
    let checks = Mutex::new(setup.checks());
    let stored = setup.stored_array::<T, N>(exact, 1.0, 0, &checks)?;
    setup.evaluate(lock(checks.into_inner()))?;
    Ok(stored)
}
