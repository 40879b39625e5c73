//! The finest level, entered from vectors of the caller's precision.

use super::cycle::{Level, Shape, in_range, into_range};
use crate::backend::Backend;
use crate::error::Result;
use crate::report::LevelReport;
use crate::scalar::{Number, Precision, Scalar};
use half::{bf16, f16};
use std::any::Any;
use std::sync::Arc;

/// What became of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// x = M b.
    Done,
    /// Numbers that are not finite appeared on this level, though b has none.
    Lost(usize),
}

/// One cycle for vectors of any precision that solvers work in.
pub(super) trait Finest<B: Backend>: Send + Sync {
    /// x = M b.
    fn apply_f64(&mut self, b: &B::Slice<f64>, x: &mut B::Slice<f64>) -> Result<Outcome>;
    /// x = M b.
    fn apply_f32(&mut self, b: &B::Slice<f32>, x: &mut B::Slice<f32>) -> Result<Outcome>;
    /// Makes room for vectors of this precision, so that `apply` need not.
    fn prepare(&mut self, caller: Precision) -> Result<()>;
    /// All levels.
    fn describe(&self) -> Vec<LevelReport>;
    /// The matrix as an `Arc<dyn Operator<B, V>>`, V the type of the level's vectors, when it is not scaled.
    fn operator(&self) -> Option<Box<dyn Any>>;
    /// As in [`Level`].
    fn is_symmetric_in(&self, precision: Precision) -> bool;
    /// Whether an application does the same operations whatever it is applied to, and the host looks at nothing on the way. A K-cycle looks
    /// at inner products.
    fn is_fixed(&self) -> bool;
    /// What the last cycle made of the right-hand sides of the levels from the second on.
    fn solutions(&self) -> Result<Vec<B::Buffer<f64>>>;
}

/// The finest level, whose vectors have precision `V`.
pub(super) struct Entrance<B: Backend, V: Number> {
    pub level: Level<B, V>,
    /// The inverse of the level's scaling S: a power of two, times one for each row.
    pub scaling: Option<(f64, B::Buffer<f32>)>,
    /// Whether what is handed over is brought into the range of `V`.
    pub guarded: bool,
    /// Whether a result that is not finite is looked into.
    pub watched: bool,
    /// Right-hand side and solution in precision `V` and scaled; `None` until they are needed.
    room: Option<(B::Buffer<V>, B::Buffer<V>)>,
}

impl<B: Backend, V: Number> Entrance<B, V> {
    pub fn new(level: Level<B, V>, scaling: Option<(f64, B::Buffer<f32>)>, guarded: bool, watched: bool) -> Self {
        Entrance { level, scaling, guarded, watched, room: None }
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
        let Entrance { level, scaling, guarded, watched, room } = self;
        let Some((own_b, own_x)) = room else { unreachable!("room was made") };
        let backend = level.backend.clone();
        let (shift, d) = scaling.as_ref().map_or((1.0, None), |(shift, d)| (*shift, Some(&**d)));
        if !*guarded && !*watched {
            backend.rescale(shift, d, b, own_b);
            level.cycle(own_b, own_x)?;
            backend.rescale(shift, d, own_x, x);
            return Ok(Outcome::Done);
        }
        let mut factor = 1.0;
        let peak = backend.convert(shift, d, b, own_b);
        if *guarded && !in_range(V::PRECISION, peak) {
            factor = into_range::<f64>(V::PRECISION, peak).unwrap_or(1.0);
            backend.convert(factor * shift, d, b, own_b);
        }
        level.cycle(own_b, own_x)?;
        let result = backend.convert(shift / factor, d, own_x, x);
        let lost = *watched && peak.is_finite() && !result.is_finite();
        Ok(match lost {
            true if !backend.peak(own_b).is_finite() => Outcome::Lost(0),
            true => Outcome::Lost(level.lost(0)),
            false => Outcome::Done,
        })
    }

    /// A cycle on the caller's own vectors.
    fn direct(&mut self, b: &B::Slice<V>, x: &mut B::Slice<V>) -> Result<Outcome> {
        self.level.cycle(b, x)?;
        let backend = &self.level.backend;
        let lost = self.watched && !backend.peak(x).is_finite() && backend.peak(b).is_finite();
        Ok(if lost { Outcome::Lost(self.level.lost(0)) } else { Outcome::Done })
    }
}

/// The entrance for vectors of one precision; `$f64` and `$f32` say how vectors of the caller's get there.
macro_rules! finest {
    ($v:ty, $f64:ident, $f32:ident) => {
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

            fn is_fixed(&self) -> bool {
                self.level.shape != Shape::K && !self.guarded && !self.watched
            }

            fn solutions(&self) -> Result<Vec<B::Buffer<f64>>> {
                let mut all = Vec::new();
                self.level.solutions(&mut all)?;
                Ok(all)
            }
        }
    };
}

finest!(f64, direct, convert);
finest!(f32, convert, direct);
finest!(f16, convert, convert);
finest!(bf16, convert, convert);
