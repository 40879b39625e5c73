//! The finest level, entered from vectors of the caller's precision.

use super::cycle::{Level, Shape};
use crate::backend::Backend;
use crate::error::Result;
use crate::range::Range;
use crate::report::LevelReport;
use crate::scalar::{Number, Precision, Scalar};
use half::{bf16, f16};
use std::any::Any;
use std::sync::Arc;

/// What became of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// x = M b.
    Done,
    /// Numbers that are not finite appeared on this level, though b has none.
    Lost(usize),
}

/// One cycle for vectors of any precision that solvers work in.
pub(crate) trait Finest<B: Backend>: Send + Sync {
    /// x = M b.
    fn apply_f64(&mut self, b: &B::Slice<f64>, x: &mut B::Slice<f64>) -> Result<Outcome>;
    /// x = M b.
    fn apply_f32(&mut self, b: &B::Slice<f32>, x: &mut B::Slice<f32>) -> Result<Outcome>;
    /// Makes room for vectors of this precision, so that `apply` need not.
    fn prepare(&mut self, caller: Precision) -> Result<()>;
    /// The level with vectors of its own for it, where those are f32.
    fn own(&mut self) -> Result<Option<Own<'_, B>>>;
    /// All levels.
    fn describe(&self) -> Vec<LevelReport>;
    /// The matrix as an `Arc<dyn Operator<B, V>>`, V the type of the level's vectors, when it is not scaled.
    fn operator(&self) -> Option<Box<dyn Any>>;
    /// As in [`Level`].
    fn is_symmetric_in(&self, precision: Precision) -> bool;
    /// Whether an application does the same operations whatever it is applied to, and the host looks at nothing on the way. A K-cycle looks
    /// at inner products.
    fn is_capturable(&self) -> bool;
    /// The level in which numbers that are not finite appeared in the last application, whose result has some where b had none.
    fn lost(&self) -> usize;
    /// What the last cycle made of the right-hand sides of the levels from the second on.
    fn solutions(&self) -> Result<Vec<B::Buffer<f64>>>;
}

/// A level and vectors for it: b = factor D r for a residual r, and for the solution x of the level z = factor D x is M r. With a guard b is
/// multiplied by a power of two that brings it into the range, and z divided by it.
pub(crate) struct Own<'a, B: Backend> {
    pub level: &'a mut Level<B, f32>,
    pub b: &'a mut B::Slice<f32>,
    pub x: &'a mut B::Slice<f32>,
    pub factor: f64,
    pub d: Option<&'a B::Slice<f32>>,
    pub guard: Option<(&'a Range, &'a B::RangeFactor)>,
}

/// The finest level, whose vectors have precision `V`.
pub(crate) struct Entrance<B: Backend, V: Number> {
    pub level: Level<B, V>,
    /// The inverse of the level's scaling S: a power of two, times one for each row.
    pub scaling: Option<(f64, B::Buffer<f32>)>,
    /// What brings what is handed over into the range of `V`.
    guard: Option<(Range, B::RangeFactor)>,
    /// Whether a result that is not finite is looked into, where the backend looks.
    watched: bool,
    /// Right-hand side and solution in precision `V` and scaled; `None` until they are needed.
    room: Option<(B::Buffer<V>, B::Buffer<V>)>,
    /// Whether the last application was on those.
    converted: bool,
}

impl<B: Backend, V: Number> Entrance<B, V> {
    /// `guarded` asks for vectors in the range of their format, where that has one.
    pub fn new(
        level: Level<B, V>,
        scaling: Option<(f64, B::Buffer<f32>)>,
        guarded: bool,
        watched: bool,
    ) -> Result<Self> {
        let guard = match Range::of(V::PRECISION).filter(|_| guarded) {
            Some(range) => Some((range, level.backend.range_factor()?)),
            None => None,
        };
        Ok(Entrance { level, scaling, guard, watched, room: None, converted: false })
    }

    fn make_room(&mut self) -> Result<()> {
        if self.room.is_none() {
            let (backend, n) = (&self.level.backend, self.level.a.rows());
            self.room = Some((backend.zeros(n)?, backend.zeros(n)?));
        }
        Ok(())
    }

    /// A cycle on converted and scaled vectors.
    fn convert<T: Scalar>(&mut self, b: &B::Slice<T>, x: &mut B::Slice<T>) -> Result<Outcome> {
        self.make_room()?;
        self.converted = true;
        let Entrance { level, scaling, guard, watched, room, .. } = self;
        let Some((own_b, own_x)) = room else { unreachable!("room was made") };
        let backend = level.backend.clone();
        let (shift, d) = scaling.as_ref().map_or((1.0, None), |(shift, d)| (*shift, Some(&**d)));
        let given = match guard {
            Some((range, factor)) => backend.convert_into_range((range, factor), shift, d, b, own_b),
            None => backend.convert(shift, d, b, own_b),
        };
        level.cycle(own_b, own_x)?;
        let result = match guard {
            Some((_, factor)) => backend.convert_from_range(factor, shift, d, own_x, x),
            None => backend.convert(shift, d, own_x, x),
        };
        let lost = *watched && given.is_some_and(f64::is_finite) && result.is_some_and(|peak| !peak.is_finite());
        Ok(if lost { Outcome::Lost(self.lost_at()) } else { Outcome::Done })
    }

    /// A cycle on the caller's own vectors.
    fn direct(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<Outcome> {
        self.converted = false;
        self.level.cycle(b, x)?;
        let backend = &self.level.backend;
        let lost = B::HAS_IMMEDIATE_REDUCTIONS
            && self.watched
            && !backend.max_norm(x).is_finite()
            && backend.max_norm(b).is_finite();
        Ok(if lost { Outcome::Lost(self.lost_at()) } else { Outcome::Done })
    }

    fn lost_at(&self) -> usize {
        let level = &self.level;
        match self.room.as_ref().filter(|_| self.converted) {
            Some((own_b, _)) if !level.backend.max_norm(own_b).is_finite() => 0,
            _ => level.lost(0),
        }
    }
}

impl<B: Backend> Entrance<B, f32> {
    fn own_vectors(&mut self) -> Result<Option<Own<'_, B>>> {
        self.make_room()?;
        self.converted = true;
        let Some((b, x)) = &mut self.room else { unreachable!("room was made") };
        let (factor, d) = self.scaling.as_ref().map_or((1.0, None), |(shift, d)| (*shift, Some(&**d)));
        let guard = self.guard.as_ref().map(|(range, power)| (range, power));
        Ok(Some(Own { level: &mut self.level, b, x, factor, d, guard }))
    }
}

/// What vectors of other precisions have of their own: nothing.
fn nothing<'a, B: Backend, V: Number>(_: &'a mut Entrance<B, V>) -> Result<Option<Own<'a, B>>> {
    Ok(None)
}

/// The entrance for vectors of one precision; `$f64` and `$f32` say how vectors of the caller's get there, `$own` what it has of its own.
macro_rules! finest {
    ($v:ty, $f64:ident, $f32:ident, $own:expr) => {
        impl<B: Backend> Finest<B> for Entrance<B, $v> {
            fn apply_f64(&mut self, b: &B::Slice<f64>, x: &mut B::Slice<f64>) -> Result<Outcome> {
                if self.scaling.is_some() { self.convert(b, x) } else { self.$f64(b, x) }
            }

            fn apply_f32(&mut self, b: &B::Slice<f32>, x: &mut B::Slice<f32>) -> Result<Outcome> {
                if self.scaling.is_some() { self.convert(b, x) } else { self.$f32(b, x) }
            }

            fn prepare(&mut self, caller: Precision) -> Result<()> {
                if self.scaling.is_some() || caller != <$v>::PRECISION { self.make_room() } else { Ok(()) }
            }

            fn own(&mut self) -> Result<Option<Own<'_, B>>> {
                $own(self)
            }

            fn describe(&self) -> Vec<LevelReport> {
                let mut levels = Vec::new();
                self.level.describe(&mut levels);
                let vectors = if self.room.is_some() { 2 * <$v>::PRECISION.bytes() } else { 0 };
                let scaling = if self.scaling.is_some() { Precision::F32.bytes() } else { 0 };
                levels[0].bytes += levels[0].rows * (vectors + scaling);
                levels
            }

            fn operator(&self) -> Option<Box<dyn Any>> {
                self.scaling.is_none().then(|| -> Box<dyn Any> { Box::new(Arc::clone(&self.level.a)) })
            }

            fn is_symmetric_in(&self, precision: Precision) -> bool {
                self.level.is_symmetric_in(precision)
            }

            fn is_capturable(&self) -> bool {
                self.level.shape != Shape::K && !B::HAS_IMMEDIATE_REDUCTIONS
            }

            fn lost(&self) -> usize {
                self.lost_at()
            }

            fn solutions(&self) -> Result<Vec<B::Buffer<f64>>> {
                let mut all = Vec::new();
                self.level.solutions(&mut all)?;
                Ok(all)
            }
        }
    };
}

finest!(f64, direct, convert, nothing);
finest!(f32, convert, direct, Entrance::own_vectors);
finest!(f16, convert, convert, nothing);
finest!(bf16, convert, convert, nothing);
