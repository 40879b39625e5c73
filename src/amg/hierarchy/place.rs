//! Levels that are computed, stored in their own precisions where the solve phase runs.

use super::Builder;
use crate::amg::cycle::{self, Below, CoarseGrid, Level, Shape};
use crate::amg::finest::{Entrance, Finest};
use crate::amg::passage::{Fitting, Looking, Passage, Transfers};
use crate::amg::plan::Plan;
use crate::backend::{Backend, Operator, Place, Smoother};
use crate::config::LevelPart;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::range::Range;
use crate::report::Phases;
use crate::scalar::{Number, Precision, with_storage};
use crate::smooth;
use std::marker::PhantomData;

/// A coarsest level of more rows than this is not factorised, unless the options ask for more.
const DENSE_LIMIT: usize = 2000;

/// A level as set-up computed it, on the host or on a device.
pub trait Computed<B: Backend> {
    /// Scalar rows.
    fn rows(&self) -> usize;
    /// Stored scalar values.
    fn entries(&self) -> usize;
    /// The inverse of its scaling, if it was scaled: a power of two, and a number for each row.
    fn entrance(&self, placing: &Placing<'_, B>) -> Result<Option<(f64, B::Buffer<f32>)>>;
    /// Its matrix with values stored as `S`; `i` is the number of the level.
    fn matrix<S: Number, V: Number>(&self, placing: &Placing<'_, B>, i: usize) -> Result<Box<dyn Operator<B, V>>>;
    /// Its smoother, with data stored in `storage`.
    fn smoother<V: Number>(&self, placing: &Placing<'_, B>, storage: Precision) -> Result<Box<dyn Smoother<B, V>>>;
    /// Scalar rows of the next level, if there is one.
    fn coarse_rows(&self) -> Option<usize>;
    /// To the next level.
    fn restriction<S: Number, V: Number, W: Number>(
        &self,
        placing: &Placing<'_, B>,
    ) -> Result<Box<dyn Operator<B, V, W>>>;
    /// From the next level.
    fn interpolation<S: Number, W: Number, V: Number>(
        &self,
        placing: &Placing<'_, B>,
    ) -> Result<Box<dyn Operator<B, W, V>>>;
    /// The inverse of its matrix.
    fn inverse<S: Number, V: Number>(&self, placing: &Placing<'_, B>) -> Result<Box<dyn Operator<B, V>>>;
    /// Everything is placed, and what nothing else needs may go.
    fn release(&mut self) {}
}

/// Levels from the finest on, each computed at the latest when it is asked for.
pub trait Levels {
    type Level;
    /// Level `i`.
    fn at(&mut self, i: usize, phases: &mut Phases) -> Result<&mut Self::Level>;
}

/// All of them computed.
impl<L> Levels for [L] {
    type Level = L;
    fn at(&mut self, i: usize, _: &mut Phases) -> Result<&mut L> {
        Ok(&mut self[i])
    }
}

/// What all levels of a hierarchy are stored by.
pub struct Placing<'a, B> {
    pub builder: &'a Builder<'a>,
    pub backend: &'a B,
    pub host: &'a Host,
    pub plan: &'a Plan,
    /// Name of the smoother.
    pub smoother: String,
    /// Whether levels will be stored once more, and must stay.
    keeps: bool,
}

impl<'a, B: Place> Placing<'a, B> {
    pub fn new(builder: &'a Builder<'a>, backend: &'a B, host: &'a Host, plan: &'a Plan) -> Placing<'a, B> {
        let smoother = smooth::name(builder.config, builder.near_null_space.is_some());
        Placing { builder, backend, host, plan, smoother, keeps: false }
    }

    /// Releases nothing.
    pub fn keeping(mut self) -> Self {
        self.keeps = true;
        self
    }

    fn release(&self, level: &mut impl Computed<B>) {
        if !self.keeps {
            level.release();
        }
    }

    /// The levels, entered from the caller's vectors.
    pub fn finest<L: Levels<Level: Computed<B>> + ?Sized>(
        &self,
        levels: &mut L,
        phases: &mut Phases,
    ) -> Result<Box<dyn Finest<B>>> {
        let guarded = self.builder.config.choice("precision.residual_scaling").is_none();
        let watched = self.plan.is_narrow();
        let scaling = levels.at(0, phases)?.entrance(self)?;
        with_storage!(self.plan.of(LevelPart::Vector, 0), V => {
            let level = self.level::<L, V>(levels, 0, phases)?;
            Ok(Box::new(Entrance::new(level, scaling, guarded, watched)?))
        })
    }

    /// Level `i` and all below.
    fn level<L: Levels<Level: Computed<B>> + ?Sized, V: Number>(
        &self,
        levels: &mut L,
        i: usize,
        phases: &mut Phases,
    ) -> Result<Level<B, V>> {
        let (config, plan) = (self.builder.config, self.plan);
        let level = levels.at(i, phases)?;
        let (rows, nonzeros) = (level.rows(), level.entries());
        let storage = plan.of(LevelPart::Matrix, i);
        let a = phases.time("place", || at_level(i, with_storage!(storage, S => level.matrix::<S, V>(self, i))))?;
        let coarse_rows = level.coarse_rows();
        let inverted = coarse_rows.is_none()
            && config.choice("amg.coarsest.solver").is_none()
            && rows <= DENSE_LIMIT.max(config.int("amg.coarsest.max_rows"));
        let smoother_precision = plan.of(LevelPart::Smoother, i);
        let smoother = match inverted {
            true => None,
            false => Some(at_level(i, phases.time("smoother", || level.smoother::<V>(self, smoother_precision)))?),
        };
        let below = match coarse_rows {
            Some(coarse_rows) => {
                let (vector, transfer) = (plan.of(LevelPart::Vector, i + 1), plan.of(LevelPart::Transfer, i));
                Below::Coarser(with_storage!(vector, W => {
                    let passage = phases.time("place", || {
                        let passage = with_storage!(transfer, S => self.passage::<_, S, V, W>(&*level, coarse_rows));
                        at_level(i, passage)
                    })?;
                    self.release(level);
                    let coarse = self.level::<L, W>(levels, i + 1, phases)?;
                    self.coarser::<V, W>(passage, coarse)?
                }))
            }
            None if inverted => {
                let inverse = phases.time("coarsest", || with_storage!(storage, S => level.inverse::<S, V>(self)))?;
                self.release(level);
                Below::Inverse(inverse)
            }
            None => {
                self.release(level);
                Below::Sweeps(config.int("amg.coarsest.sweeps"))
            }
        };
        let scratch = smoother.as_ref().map_or(1, |smoother| smoother.scratch().max(1));
        let scratch = (0..scratch).map(|_| self.backend.zeros(rows)).collect::<Result<_>>()?;
        Ok(Level {
            backend: self.backend.clone(),
            shape: Shape::from_name(&config.text("amg.cycle.type")),
            a: a.into(),
            smoother,
            smoother_name: self.smoother.clone(),
            smoother_precision,
            pre_sweeps: config.level_int("amg.smoother.pre_sweeps", i),
            post_sweeps: config.level_int("amg.smoother.post_sweeps", i),
            scratch,
            below,
            nonzeros,
        })
    }

    /// A coarse level, seen from one whose vectors have precision `V`.
    fn coarser<V: Number, W: Number>(
        &self,
        passage: Box<dyn Passage<B, V, W>>,
        level: Level<B, W>,
    ) -> Result<Box<dyn CoarseGrid<B, V>>> {
        let n = level.a.rows();
        let inner = match level.shape {
            Shape::K if !level.is_exact() => Some((self.backend.zeros(n)?, self.backend.zeros(n)?)),
            _ => None,
        };
        let (b, x) = (self.backend.zeros(n)?, self.backend.zeros(n)?);
        Ok(Box::new(cycle::Coarse::<B, V, W> { passage, b, x, inner, level }))
    }

    /// The way to a coarse level of so many rows and back, with transfers stored as `S`.
    fn passage<L: Computed<B>, S: Number, V: Number, W: Number>(
        &self,
        level: &L,
        coarse_rows: usize,
    ) -> Result<Box<dyn Passage<B, V, W>>> {
        let range = self.builder.range(V::PRECISION, W::PRECISION);
        let backend = self.backend.clone();
        let Some(range) = range.filter(|_| !B::LOOKS) else {
            let (restriction, interpolation) =
                (level.restriction::<S, V, W>(self)?, level.interpolation::<S, W, V>(self)?);
            let transfers = Transfers { backend, restriction, interpolation };
            return Ok(match range {
                Some(range) => Box::new(Looking { transfers, range, factor: 1.0 }),
                None => Box::new(transfers),
            });
        };
        let (wide, factor) = (backend.zeros(coarse_rows)?, backend.factor()?);
        let (restriction, interpolation) =
            (level.restriction::<S, V, V::Wide>(self)?, level.interpolation::<S, V::Wide, V>(self)?);
        let transfers = Transfers { backend, restriction, interpolation };
        Ok(Box::new(Fitting { transfers, wide, range, factor, of: PhantomData }))
    }
}

impl Builder<'_> {
    /// What residuals are brought into on the way from vectors of one format to those of the next level, where that is needed.
    pub(super) fn range(&self, from: Precision, to: Precision) -> Option<Range> {
        let narrower = to == Precision::F16 || from == Precision::F64 && to != Precision::F64;
        let guarded = self.config.choice("precision.residual_scaling").is_none();
        Range::of(to).filter(|_| narrower && guarded)
    }
}

/// A result, its error telling the level.
pub(super) fn at_level<R>(level: usize, result: Result<R>) -> Result<R> {
    result.map_err(|error| Error::new(error.status, format!("level {level}: {}", error.message)))
}
