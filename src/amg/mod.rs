//! Algebraic multigrid: [`Amg`] is a hierarchy that is set up, and one `apply` is one cycle.
//!
//! The parts are the roles of the method: [`strength`] says which couplings matter, [`coarsen`] chooses coarse unknowns,
//! [`interp`] makes the prolongator, `galerkin` the coarse matrix, `hierarchy` puts levels together, `cycle` runs them.

pub mod coarsen;
pub mod cycle;
mod estimate;
mod galerkin;
mod hierarchy;
pub mod interp;
pub mod null_space;
pub(crate) mod scaling;
pub mod strength;

use crate::backend::{Backend, Preconditioner};
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail, try_vec};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::report::Report;
use crate::scalar::{Number, Scalar, SliceMut, SliceRef};
pub use hierarchy::LevelMatrices;
use hierarchy::{Builder, Built, Kept, Top};
use null_space::NearNullSpace;
use std::sync::Arc;
use std::time::Instant;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg {
    context: Context,
    config: Config,
    matrix: Arc<Matrix>,
    near_null_space: Option<Arc<NearNullSpace>>,
    built: Built,
    converted: Converted,
    /// Stored values of all levels: how much work a cycle is.
    work: usize,
}

/// Right-hand side and result in the precision of the finest level, for callers whose vectors have another.
#[derive(Default)]
struct Converted {
    f64: (Vec<f64>, Vec<f64>),
    f32: (Vec<f32>, Vec<f32>),
}

impl Amg {
    /// Builds the hierarchy of a square matrix.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        let near_null_space = matrix.near_null_space();
        let builder = Builder { context, config, matrix, near_null_space: near_null_space.clone() };
        let built = build(&builder, None)?;
        let mut amg = Amg {
            context: context.clone(),
            config: config.clone(),
            matrix: Arc::clone(matrix),
            near_null_space,
            built,
            converted: Converted::default(),
            work: 0,
        };
        let report = amg.report();
        amg.work = report.levels.iter().map(|l| l.nonzeros).sum();
        let line = || {
            let (levels, complexity) = (report.levels.len(), report.operator_complexity());
            format!(
                "AMG set-up: {levels} levels, operator complexity {complexity:.2}, {:.4} s",
                report.setup.get("total")
            )
        };
        context.log(LogLevel::Info, line);
        Ok(amg)
    }

    /// The matrices that [`Amg::setup`] computes, finest level first: for looking at a hierarchy, not for solving with it.
    pub fn level_matrices(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Vec<LevelMatrices>> {
        let builder = Builder { context, config, matrix, near_null_space: matrix.near_null_space() };
        context.run(matrix.entries(), || builder.level_matrices())
    }

    /// Takes over changed values of the matrix: strong couplings, coarse unknowns and patterns stay, values are computed anew. When
    /// it fails the hierarchy is as before.
    pub fn update(&mut self) -> Result<()> {
        let operations = self.matrix.entries();
        self.context.run(operations, || self.matrix.recheck_values())?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &self.matrix,
            near_null_space: self.near_null_space.clone(),
        };
        self.built = build(&builder, Some(self.built.kept.clone()))?;
        Ok(())
    }

    /// Scalar rows.
    pub fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// x = M b, one cycle. Allocates nothing, except at the first call with vectors of another precision than the finest level's.
    pub fn apply<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let n = self.matrix.rows();
        if b.len() != n || x.len() != n {
            return fail!(SizeMismatch, "b has {} and x {} elements; the hierarchy has {n} rows", b.len(), x.len());
        }
        self.prepare::<T>()?;
        let (top, converted) = (&mut self.built.top, &mut self.converted);
        let host = Host::new(&self.context);
        self.context.run(self.work, || match (top, T::slice_ref(b), T::slice_mut(x)) {
            (Top::F64(level), SliceRef::F64(b), SliceMut::F64(x)) => level.cycle(b, x),
            (Top::F32(level), SliceRef::F32(b), SliceMut::F32(x)) => level.cycle(b, x),
            (Top::F64(level), _, x) => through(&host, b, &mut converted.f64, x, |b, x| level.cycle(b, x)),
            (Top::F32(level), _, x) => through(&host, b, &mut converted.f32, x, |b, x| level.cycle(b, x)),
        })
    }

    /// Makes room for vectors of type `T`, so that `apply` need not.
    pub(crate) fn prepare<T: Scalar>(&mut self) -> Result<()> {
        let n = self.matrix.rows();
        let (f64, f32) = (&mut self.converted.f64, &mut self.converted.f32);
        match &self.built.top {
            Top::F64(_) if T::PRECISION != f64::PRECISION && f64.0.len() != n => {
                *f64 = (try_vec(n, 0.0)?, try_vec(n, 0.0)?)
            }
            Top::F32(_) if T::PRECISION != f32::PRECISION && f32.0.len() != n => {
                *f32 = (try_vec(n, 0.0)?, try_vec(n, 0.0)?)
            }
            _ => {}
        }
        Ok(())
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        let mut levels = Vec::new();
        match &self.built.top {
            Top::F64(level) => level.describe(&mut levels),
            Top::F32(level) => level.describe(&mut levels),
        }
        let kept: usize = self.built.kept.iter().map(Kept::bytes).sum();
        let bytes = levels.iter().map(|l| l.bytes).sum::<usize>() + kept;
        Report {
            levels,
            setup: self.built.phases.clone(),
            device: self.context.device().name(),
            threads: self.context.threads(),
            bytes,
            ..Report::default()
        }
    }

    /// Bytes that `setup` of this matrix with these options will hold, from the set-up of a connected piece
    /// of at most 20,000 rows. Exact for matrices that are not larger.
    pub fn memory_estimate(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
        estimate::bytes(context, matrix, config)
    }
}

fn build(builder: &Builder<'_>, kept: Option<Vec<Kept>>) -> Result<Built> {
    let start = Instant::now();
    let mut built = builder.context.run(builder.matrix.entries(), || builder.build(kept))?;
    built.phases.add("total", start.elapsed().as_secs_f64());
    Ok(built)
}

/// Runs a cycle in precision `V` for vectors of precision `T`.
fn through<T: Scalar, V: Scalar>(
    host: &Host,
    b: &[T],
    room: &mut (Vec<V>, Vec<V>),
    x: SliceMut<'_>,
    cycle: impl FnOnce(&[V], &mut [V]) -> Result<()>,
) -> Result<()> {
    host.copy(b, &mut room.0);
    cycle(&room.0, &mut room.1)?;
    match x {
        SliceMut::F64(x) => host.copy(&room.1, x),
        SliceMut::F32(x) => host.copy(&room.1, x),
    }
    Ok(())
}

impl<T: Scalar> Preconditioner<Host, T> for Amg {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        Amg::apply(self, r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        match &self.built.top {
            Top::F64(level) => level.is_symmetric_in(T::PRECISION),
            Top::F32(level) => level.is_symmetric_in(T::PRECISION),
        }
    }
}
