//! Levels that are computed, stored in their own precisions where the solve phase runs.

use super::level::{ComputedLevel, LevelTransfers, TransfersIn};
use super::symbolic::Formats;
use super::{Builder, SetupOn};
use crate::amg::cycle::{self, Below, CoarseGrid, Level, Shape};
use crate::amg::error_scaling::ErrorScaling;
use crate::amg::finest::{Finest, FinestLevel};
use crate::amg::grid_transfer::{ConvertedTransfer, GridTransfer, RetriedTransfer, Transfers};
use crate::amg::plan::Plan;
use crate::backend::setup::{Setup, at_level};
use crate::backend::{Backend, Operator, Smoother};
use crate::config::LevelPart;
use crate::error::Result;
use crate::range::Range;
use crate::report::Phases;
use crate::scalar::{Number, Precision, Scalar, not_paired, with_storage, with_storage_for};
use crate::sync::lock;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

/// A coarsest level of more rows than this is not factorised, unless the options ask for more.
const DENSE_LIMIT: usize = 2000;

/// Levels from the finest on, each computed on demand.
pub(super) trait Levels<S: Setup, T: Scalar> {
    /// Level `i`.
    fn at(&mut self, i: usize, phases: &mut Phases) -> Result<&mut ComputedLevel<S, T>>;
}

/// All of them computed.
impl<S: Setup, T: Scalar> Levels<S, T> for Vec<ComputedLevel<S, T>> {
    fn at(&mut self, i: usize, _: &mut Phases) -> Result<&mut ComputedLevel<S, T>> {
        Ok(&mut self[i])
    }
}

/// What all levels of a hierarchy are stored by: computed on `S`, for cycles on `B`.
pub(super) struct Storing<'a, S, B> {
    pub builder: &'a Builder<'a>,
    pub setup: &'a S,
    pub to: &'a B,
    pub plan: &'a Plan,
}

impl<'a, B: Backend, S: SetupOn<B>> Storing<'a, S, B> {
    pub fn new(builder: &'a Builder<'a>, setup: &'a S, to: &'a B, plan: &'a Plan) -> Storing<'a, S, B> {
        Storing { builder, setup, to, plan }
    }

    /// The levels, for vectors of the caller's precision.
    pub fn finest<T: Scalar>(&self, levels: &mut dyn Levels<S, T>, phases: &mut Phases) -> Result<Box<dyn Finest<B>>> {
        let guarded = self.builder.config.choice("precision.residual_scaling").is_none();
        let watched = self.plan.is_narrow();
        let scaling = levels.at(0, phases)?.inverse_scaling(self)?;
        with_storage!(self.plan.of(LevelPart::Vector, 0), V => {
            let level = self.level::<T, V>(levels, 0, phases)?;
            Ok(Box::new(FinestLevel::new(Box::new(level), scaling, guarded, watched)?))
        })
    }

    /// Level `i` and all below.
    fn level<T: Scalar, V: Number>(
        &self,
        levels: &mut dyn Levels<S, T>,
        i: usize,
        phases: &mut Phases,
    ) -> Result<Level<B, V>> {
        let (config, plan) = (self.builder.config, self.plan);
        let level = levels.at(i, phases)?;
        let (rows, nonzeros) = (level.rows, level.entries);
        let storage = plan.of(LevelPart::Matrix, i);
        let a =
            phases.time("place", || at_level(i, with_storage_for!(storage, V, N => level.matrix::<B, N, V>(self))))?;
        let coarse_rows = level.coarse_rows;
        let inverted = coarse_rows.is_none()
            && config.choice("amg.coarsest.solver").is_none()
            && rows <= DENSE_LIMIT.max(config.int("amg.coarsest.max_rows"));
        let smoother_precision = plan.of(LevelPart::Smoother, i);
        let smoother: Option<Arc<dyn Smoother<B, V>>> = match inverted {
            true => None,
            false => {
                Some(at_level(i, phases.time("smoother", || level.smoother::<B, V>(self, smoother_precision)))?.into())
            }
        };
        let below = match coarse_rows {
            Some(coarse_rows) => {
                let (vector, transfer) = (plan.of(LevelPart::Vector, i + 1), plan.of(LevelPart::Transfer, i));
                Below::Coarser(with_storage!(vector, W => {
                    let transfer = phases.time("place", || {
                        at_level(i, self.grid_transfer::<V, W>(&*level, coarse_rows, transfer))
                    })?;
                    level.release();
                    let coarse = self.level::<T, W>(levels, i + 1, phases)?;
                    self.coarser::<V, W>(transfer, coarse)?
                }))
            }
            None if inverted => {
                let inverse =
                    phases.time("coarsest", || with_storage_for!(storage, V, N => level.inverse::<B, N, V>(self)))?;
                level.release();
                Below::Inverse(inverse.into())
            }
            None => {
                level.release();
                Below::Sweeps(config.int("amg.coarsest.sweeps"))
            }
        };
        let scratch = smoother.as_ref().map_or(1, |smoother| smoother.scratch().max(1));
        let scratch = (0..scratch).map(|_| self.to.zeros(a.rows())).collect::<Result<_>>()?;
        let error_scaling = match &below {
            Below::Coarser(_) => ErrorScaling::new(self.to, a.rows(), config)?,
            _ => None,
        };
        Ok(Level {
            backend: self.to.clone(),
            rows,
            shape: Shape::from_name(&config.text("amg.cycle.type")),
            a: a.into(),
            smoother,
            smoother_name: self.builder.smoother_of(i).name.to_string(),
            smoother_precision,
            pre_sweeps: config.level_int("amg.smoother.pre_sweeps", i),
            post_sweeps: config.level_int("amg.smoother.post_sweeps", i),
            scratch,
            below,
            error_scaling,
            nonzeros,
        })
    }

    /// A coarse level, seen from one whose vectors have precision `V`.
    fn coarser<V: Number, W: Number>(
        &self,
        transfer: Box<dyn GridTransfer<B, V, W>>,
        level: Level<B, W>,
    ) -> Result<Box<dyn CoarseGrid<B, V>>> {
        let n = level.a.rows();
        let inner = match level.shape {
            Shape::K if !level.is_exact() => Some((self.to.zeros(n)?, self.to.zeros(n)?)),
            _ => None,
        };
        let (b, x) = (self.to.zeros(n)?, self.to.zeros(n)?);
        Ok(Box::new(cycle::Coarse::<B, V, W> { transfer, b, x, inner, level }))
    }

    /// The grid transfers to a coarse level of this many rows.
    fn grid_transfer<V: Number, W: Number>(
        &self,
        level: &dyn LevelTransfers<S>,
        coarse_rows: usize,
        storage: Precision,
    ) -> Result<Box<dyn GridTransfer<B, V, W>>> {
        let range = self.builder.range(V::PRECISION, W::PRECISION);
        if !storage.goes_with(W::PRECISION) || (!B::HAS_IMMEDIATE_REDUCTIONS && range.is_some()) {
            let (wide, factor) = (self.to.zeros(self.to.local(coarse_rows))?, self.to.range_factor()?);
            let transfers = self.transfers::<V, V::Wide>(level, storage)?;
            return Ok(Box::new(ConvertedTransfer { transfers, wide, range, factor, of: PhantomData }));
        }
        let transfers = self.transfers::<V, W>(level, storage)?;
        Ok(match range {
            Some(range) => Box::new(RetriedTransfer { transfers, range, factor: 1.0 }),
            None => Box::new(transfers),
        })
    }

    /// Restriction to and interpolation from the next level.
    fn transfers<V: Number, W: Number>(
        &self,
        level: &dyn LevelTransfers<S>,
        storage: Precision,
    ) -> Result<Transfers<B, V, W>> {
        let (setup, formats) = (self.setup, level.formats());
        let (restriction, interpolation) = with_storage_for!(storage, V, N => {
            if const { !N::PRECISION.goes_with(W::PRECISION) } {
                not_paired::<N, W>();
            }
            let r = TransfersIn::<S, N>::restriction(level, setup);
            let restriction = self.transfer(r, formats, |formats| &mut formats.restriction)?;
            let p = TransfersIn::<S, N>::prolongator(level, setup);
            (restriction, self.transfer(p, formats, |formats| &mut formats.prolongator)?)
        });
        Ok(Transfers { backend: self.to.clone(), restriction, interpolation })
    }

    /// A transfer as an operator: either one of [`Storing::transfers`].
    fn transfer<N: Number, X: Number, Y: Number>(
        &self,
        matrix: Result<S::Matrix<N>>,
        formats: &Mutex<Formats<S>>,
        format: fn(&mut Formats<S>) -> &mut Option<S::Format>,
    ) -> Result<Arc<dyn Operator<B, X, Y>>> {
        let mut formats = lock(formats.lock());
        Ok(self.setup.operator(self.to, matrix?, self.hint(true), format(&mut formats))?.into())
    }
}

impl Builder<'_> {
    /// The range that restricted residuals are scaled into, where the format of the coarser level needs it.
    pub(super) fn range(&self, from: Precision, to: Precision) -> Option<Range> {
        let narrower = to == Precision::F16 || from == Precision::F64 && to != Precision::F64;
        let guarded = self.config.choice("precision.residual_scaling").is_none();
        Range::of(to).filter(|_| narrower && guarded)
    }
}
