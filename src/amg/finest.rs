//! The finest level, or another approximate inverse, for vectors of the caller's precision: conversion, scaling, and the check
//! of results.

use super::cycle::{Level, Shape};
use crate::backend::{Backend, Operator};
use crate::error::Result;
use crate::range::Range;
use crate::report::LevelReport;
use crate::scalar::{Number, Precision, Scalar};
use half::{bf16, f16};
use std::any::Any;
use std::sync::Arc;

/// The result of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// x = M b.
    Done,
    /// Values that are not finite appeared first on this level, though b is finite.
    Lost(usize),
}

/// An approximate inverse M for vectors of precision `V`: a cycle, or another one.
pub(crate) trait Application<B: Backend, V: Number>: Send + Sync {
    /// Where it runs.
    fn backend(&self) -> &B;
    /// Length of a vector.
    fn rows(&self) -> usize;
    /// x = M b.
    fn apply(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()>;
    /// The level where values that are not finite appeared first in the last application, whose result has some.
    fn lost(&self) -> usize {
        0
    }
    /// All levels, where it has levels.
    fn describe(&self) -> Vec<LevelReport> {
        Vec::new()
    }
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
    /// The matrix that it was made from, where it has it.
    fn operator(&self) -> Option<Arc<dyn Operator<B, V>>> {
        None
    }
    /// Whether it is symmetric, and computed in this precision.
    fn is_symmetric_in(&self, precision: Precision) -> bool;
    /// Whether its launches do not depend on values.
    fn is_capturable(&self) -> bool {
        true
    }
    /// The same for multivectors of `k` vectors; none where it cannot be applied to several at once.
    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Application<B, V>>>>;
}

impl<B: Backend, V: Number> Application<B, V> for Level<B, V> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn rows(&self) -> usize {
        self.a.rows()
    }

    fn apply(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<()> {
        self.cycle(b, x)
    }

    fn lost(&self) -> usize {
        Level::lost(self, 0)
    }

    fn describe(&self) -> Vec<LevelReport> {
        let mut levels = Vec::new();
        Level::describe(self, &mut levels);
        levels
    }

    fn bytes(&self) -> usize {
        Application::describe(self).iter().map(|level| level.bytes).sum()
    }

    fn operator(&self) -> Option<Arc<dyn Operator<B, V>>> {
        Some(Arc::clone(&self.a))
    }

    fn is_symmetric_in(&self, precision: Precision) -> bool {
        Level::is_symmetric_in(self, precision)
    }

    fn is_capturable(&self) -> bool {
        self.shape != Shape::K
    }

    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Application<B, V>>>> {
        Ok(Level::for_multivectors(self, k)?.map(|level| -> Box<dyn Application<B, V>> { Box::new(level) }))
    }
}

/// An approximate inverse for vectors of any precision of solvers.
pub(crate) trait Finest<B: Backend>: Send + Sync {
    /// x = M b.
    fn apply_f64(&mut self, b: &B::Slice<f64>, x: &mut B::Slice<f64>) -> Result<Outcome>;
    /// x = M b.
    fn apply_f32(&mut self, b: &B::Slice<f32>, x: &mut B::Slice<f32>) -> Result<Outcome>;
    /// Allocates the vectors for a caller's precision, so that `apply` does not.
    fn prepare(&mut self, caller: Precision) -> Result<()>;
    /// The level and its own vectors, where these are f32.
    fn narrow_vectors(&mut self) -> Result<Option<NarrowVectors<'_, B>>>;
    /// The levels for multivectors of `k` vectors, as in [`Level`].
    fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Finest<B>>>>;
    /// All levels, where it has levels.
    fn describe(&self) -> Vec<LevelReport>;
    /// Bytes that the library holds for it.
    fn bytes(&self) -> usize;
    /// The matrix as an `Arc<dyn Operator<B, V>>`, V the type of the level's vectors, when it is not scaled.
    fn operator(&self) -> Option<Box<dyn Any>>;
    /// As in [`Level`].
    fn is_symmetric_in(&self, precision: Precision) -> bool;
    /// Whether an application can be captured as a graph.
    fn is_capturable(&self) -> bool;
    /// The level where values that are not finite appeared first in the last application, whose result has some though
    /// b is finite.
    fn lost(&self) -> usize;
}

/// S⁻¹ of the scaling S of a level: `factor` times D, of which both are powers of two.
pub(crate) struct InverseScaling<B: Backend> {
    pub factor: f64,
    pub d: B::Buffer<f32>,
    /// What the matrix was multiplied by before it was scaled, and so are results.
    pub unit: f64,
}

/// An approximate inverse and its vectors. For a residual r of the caller b = factor D r, and z = unit factor D x is M r. With a guard b
/// is multiplied by the power of two that brings it into range, and z is divided by it.
pub(crate) struct NarrowVectors<'a, B: Backend> {
    pub applied: &'a mut dyn Application<B, f32>,
    pub b: &'a mut B::Slice<f32>,
    pub x: &'a mut B::Slice<f32>,
    pub factor: f64,
    pub unit: f64,
    pub d: Option<&'a B::Slice<f32>>,
    pub guard: Option<(&'a Range, &'a B::RangeFactor)>,
}

/// An approximate inverse, whose vectors have precision `V`.
pub(crate) struct FinestLevel<B: Backend, V: Number> {
    applied: Box<dyn Application<B, V>>,
    pub scaling: Option<InverseScaling<B>>,
    /// The range of `V`, and the factor that brought the last b into it.
    guard: Option<(Range, B::RangeFactor)>,
    /// Whether results are checked for values that are not finite, where the backend has immediate reductions.
    checked: bool,
    /// Scaled right-hand side and solution in precision `V`; `None` until they are needed.
    vectors: Option<(B::Buffer<V>, B::Buffer<V>)>,
    /// Whether the last application used them.
    converted: bool,
}

impl<B: Backend, V: Number> FinestLevel<B, V> {
    /// With `guarded`, b is scaled into the range of `V`, with 16 bits always to the same norm.
    pub fn new(
        applied: Box<dyn Application<B, V>>,
        scaling: Option<InverseScaling<B>>,
        guarded: bool,
        checked: bool,
    ) -> Result<Self> {
        let guard = match Range::of(V::PRECISION).filter(|_| guarded) {
            Some(range) => {
                let range = if V::PRECISION.is_scalar() { range } else { range.exact() };
                Some((range, applied.backend().range_factor()?))
            }
            None => None,
        };
        Ok(FinestLevel { applied, scaling, guard, checked, vectors: None, converted: false })
    }

    fn allocate_vectors(&mut self) -> Result<()> {
        if self.vectors.is_none() {
            let (backend, n) = (self.applied.backend(), self.applied.rows());
            self.vectors = Some((backend.zeros(n)?, backend.zeros(n)?));
        }
        Ok(())
    }

    /// A cycle on converted and scaled vectors.
    fn convert<T: Scalar>(&mut self, b: &B::Slice<T>, x: &mut B::Slice<T>) -> Result<Outcome> {
        self.allocate_vectors()?;
        self.converted = true;
        let FinestLevel { applied, scaling, guard, checked, vectors, .. } = self;
        let Some((own_b, own_x)) = vectors else { unreachable!("allocated above") };
        let backend = applied.backend().clone();
        let (shift, d, unit) = scaling.as_ref().map_or((1.0, None, 1.0), |s| (s.factor, Some(&*s.d), s.unit));
        let norm_b = match guard {
            Some((range, factor)) => backend.convert_into_range((range, factor), shift, d, b, own_b),
            None => backend.convert(shift, d, b, own_b),
        };
        applied.apply(own_b, own_x)?;
        let norm_x = match guard {
            Some((_, factor)) => backend.convert_from_range(factor, unit * shift, d, own_x, x),
            None => backend.convert(unit * shift, d, own_x, x),
        };
        let lost = *checked && norm_b.is_some_and(f64::is_finite) && norm_x.is_some_and(|norm| !norm.is_finite());
        Ok(if lost { Outcome::Lost(self.lost_at()) } else { Outcome::Done })
    }

    /// A cycle on the caller's own vectors.
    fn direct(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<Outcome> {
        self.converted = false;
        self.applied.apply(b, x)?;
        let backend = self.applied.backend();
        let lost = B::HAS_IMMEDIATE_REDUCTIONS
            && self.checked
            && !backend.max_norm(x).is_finite()
            && backend.max_norm(b).is_finite();
        Ok(if lost { Outcome::Lost(self.lost_at()) } else { Outcome::Done })
    }

    /// Bytes of its own vectors and factors.
    fn own_bytes(&self) -> usize {
        let vectors = if self.vectors.is_some() { 2 * V::PRECISION.bytes() } else { 0 };
        let scaling = if self.scaling.is_some() { Precision::F32.bytes() } else { 0 };
        self.applied.rows() * (vectors + scaling)
    }

    fn lost_at(&self) -> usize {
        match self.vectors.as_ref().filter(|_| self.converted) {
            Some((own_b, _)) if !self.applied.backend().max_norm(own_b).is_finite() => 0,
            _ => self.applied.lost(),
        }
    }
}

impl<B: Backend> FinestLevel<B, f32> {
    fn f32_vectors(&mut self) -> Result<Option<NarrowVectors<'_, B>>> {
        self.allocate_vectors()?;
        self.converted = true;
        let Some((b, x)) = &mut self.vectors else { unreachable!("allocated above") };
        let (factor, d, unit) = self.scaling.as_ref().map_or((1.0, None, 1.0), |s| (s.factor, Some(&*s.d), s.unit));
        let guard = self.guard.as_ref().map(|(range, power)| (range, power));
        Ok(Some(NarrowVectors { applied: &mut *self.applied, b, x, factor, unit, d, guard }))
    }
}

/// For levels in other precisions than f32.
fn no_vectors<'a, B: Backend, V: Number>(_: &'a mut FinestLevel<B, V>) -> Result<Option<NarrowVectors<'a, B>>> {
    Ok(None)
}

/// The trait for levels of precision `$v`; `$f64` and `$f32` apply it to vectors of the caller, `$narrow` returns its
/// own f32 vectors.
macro_rules! finest {
    ($v:ty, $f64:ident, $f32:ident, $narrow:expr) => {
        impl<B: Backend> Finest<B> for FinestLevel<B, $v> {
            fn apply_f64(&mut self, b: &B::Slice<f64>, x: &mut B::Slice<f64>) -> Result<Outcome> {
                if self.scaling.is_some() { self.convert(b, x) } else { self.$f64(b, x) }
            }

            fn apply_f32(&mut self, b: &B::Slice<f32>, x: &mut B::Slice<f32>) -> Result<Outcome> {
                if self.scaling.is_some() { self.convert(b, x) } else { self.$f32(b, x) }
            }

            fn prepare(&mut self, caller: Precision) -> Result<()> {
                if self.scaling.is_some() || caller != <$v>::PRECISION { self.allocate_vectors() } else { Ok(()) }
            }

            fn narrow_vectors(&mut self) -> Result<Option<NarrowVectors<'_, B>>> {
                $narrow(self)
            }

            fn for_multivectors(&self, k: usize) -> Result<Option<Box<dyn Finest<B>>>> {
                // The factors of a scaling are those of one vector.
                if self.scaling.is_some() {
                    return Ok(None);
                }
                let Some(applied) = self.applied.for_multivectors(k)? else { return Ok(None) };
                Ok(Some(Box::new(FinestLevel::new(applied, None, self.guard.is_some(), self.checked)?)))
            }

            fn describe(&self) -> Vec<LevelReport> {
                let mut levels = self.applied.describe();
                if let Some(finest) = levels.first_mut() {
                    finest.bytes += self.own_bytes();
                }
                levels
            }

            fn bytes(&self) -> usize {
                self.applied.bytes() + self.own_bytes()
            }

            fn operator(&self) -> Option<Box<dyn Any>> {
                let a = self.applied.operator().filter(|_| self.scaling.is_none())?;
                Some(Box::new(a))
            }

            fn is_symmetric_in(&self, precision: Precision) -> bool {
                self.applied.is_symmetric_in(precision)
            }

            fn is_capturable(&self) -> bool {
                self.applied.is_capturable() && !B::HAS_IMMEDIATE_REDUCTIONS
            }

            fn lost(&self) -> usize {
                self.lost_at()
            }
        }
    };
}

finest!(f64, direct, convert, no_vectors);
finest!(f32, convert, direct, FinestLevel::f32_vectors);
finest!(f16, convert, convert, no_vectors);
finest!(bf16, convert, convert, no_vectors);
