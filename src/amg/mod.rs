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
mod top;

use crate::backend::Preconditioner;
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::report::Report;
use crate::scalar::Scalar;
pub use hierarchy::LevelMatrices;
use hierarchy::{Builder, Built, Kept};
use null_space::NearNullSpace;
use std::sync::Arc;
use std::time::Instant;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg {
    context: Context,
    config: Config,
    matrix: Arc<Matrix>,
    near_null_space: Option<Arc<NearNullSpace>>,
    built: Built<Host>,
    /// Stored values of all levels: how much work a cycle is.
    work: usize,
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
        let top = &mut self.built.top;
        self.context.run(self.work, || top.cycle(b, x))
    }

    /// Makes room for vectors of type `T`, so that `apply` need not.
    pub(crate) fn prepare<T: Scalar>(&mut self) -> Result<()> {
        self.built.top.prepare::<T>()
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        let mut levels = Vec::new();
        self.built.top.describe(&mut levels);
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

fn build(builder: &Builder<'_>, kept: Option<Vec<Kept>>) -> Result<Built<Host>> {
    let start = Instant::now();
    let host = Host::new(builder.context);
    let mut built = builder.context.run(builder.matrix.entries(), || builder.build(&host, kept))?;
    built.phases.add("total", start.elapsed().as_secs_f64());
    Ok(built)
}

impl<T: Scalar> Preconditioner<Host, T> for Amg {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        Amg::apply(self, r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        self.built.top.is_symmetric_in(T::PRECISION)
    }
}
