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
use crate::gpu::{self, Gpu, Graphs, Staging};
use crate::host::Host;
use crate::matrix::Matrix;
use crate::report::{Phases, Report};
use crate::scalar::{Precision, Scalar};
pub use hierarchy::LevelMatrices;
use hierarchy::{Builder, Built, Kept};
use null_space::NearNullSpace;
use std::sync::Arc;
use std::time::Instant;
use top::Top;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg {
    context: Context,
    config: Config,
    matrix: Arc<Matrix>,
    near_null_space: Option<Arc<NearNullSpace>>,
    levels: Levels,
    kept: Vec<Kept>,
    phases: Phases,
    /// Stored values of all levels: how much work a cycle is.
    work: usize,
}

/// The levels, where the context is.
enum Levels {
    Host(Top<Host>),
    Gpu(OnGpu),
}

/// Levels on a GPU, and what brings vectors there.
struct OnGpu {
    gpu: Gpu,
    top: Top<Gpu>,
    staging: Staging,
    graphs: Graphs,
}

impl OnGpu {
    /// One cycle on vectors of the device.
    fn cycle<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        let OnGpu { gpu, top, graphs, .. } = self;
        if top.is_fixed() { graphs.run(gpu, b, x, &mut |b, x| top.cycle(b, x)) } else { top.cycle(b, x) }
    }

    /// One cycle on vectors of the host.
    fn cycle_for_host<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let mut staging = std::mem::take(&mut self.staging);
        let gpu = self.gpu.clone();
        let (own_b, own_x) = staging.vectors::<T>(&gpu, b.len())?;
        gpu.write(b, own_b)?;
        self.cycle(own_b, own_x)?;
        gpu.read(own_x, x)?;
        self.staging = staging;
        Ok(())
    }
}

impl Amg {
    /// Builds the hierarchy of a square matrix.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        config.check_device(context.device())?;
        let near_null_space = matrix.near_null_space();
        let builder = Builder { context, config, matrix, near_null_space: near_null_space.clone() };
        let (levels, kept, phases) = build(&builder, None)?;
        let mut amg = Amg {
            context: context.clone(),
            config: config.clone(),
            matrix: Arc::clone(matrix),
            near_null_space,
            levels,
            kept,
            phases,
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
        (self.levels, self.kept, self.phases) = build(&builder, Some(self.kept.clone()))?;
        Ok(())
    }

    /// Scalar rows.
    pub fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// x = M b, one cycle. Allocates nothing, except at the first call with vectors of another precision than the finest level's.
    pub fn apply<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        self.check_lengths(b.len(), x.len())?;
        match &mut self.levels {
            Levels::Host(top) => self.context.run(self.work, || top.cycle(b, x)),
            Levels::Gpu(levels) => levels.cycle_for_host(b, x),
        }
    }

    /// As [`Amg::apply`], for vectors in the memory of the context's GPU. Returns when the work is under way.
    pub fn apply_on_device<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        self.check_lengths(b.len(), x.len())?;
        match &mut self.levels {
            Levels::Host(_) => {
                fail!(InvalidArgument, "the vectors are in device memory, and the hierarchy is on the host")
            }
            Levels::Gpu(levels) => levels.cycle(b, x),
        }
    }

    fn check_lengths(&self, b: usize, x: usize) -> Result<()> {
        let n = self.matrix.rows();
        if b != n || x != n {
            return fail!(SizeMismatch, "b has {b} and x {x} elements; the hierarchy has {n} rows");
        }
        Ok(())
    }

    /// Makes room for vectors of type `T`, so that `apply` need not.
    pub(crate) fn prepare<T: Scalar>(&mut self) -> Result<()> {
        match &mut self.levels {
            Levels::Host(top) => top.prepare::<T>(),
            Levels::Gpu(levels) => levels.top.prepare::<T>(),
        }
    }

    /// Whether a cycle is the same symmetric operator in every application, to rounding in this precision.
    fn is_symmetric_in(&self, precision: Precision) -> bool {
        match &self.levels {
            Levels::Host(top) => top.is_symmetric_in(precision),
            Levels::Gpu(levels) => levels.top.is_symmetric_in(precision),
        }
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        let mut levels = Vec::new();
        match &self.levels {
            Levels::Host(top) => top.describe(&mut levels),
            Levels::Gpu(on) => on.top.describe(&mut levels),
        }
        let kept: usize = self.kept.iter().map(Kept::bytes).sum();
        let bytes = levels.iter().map(|l| l.bytes).sum::<usize>() + kept;
        Report {
            levels,
            setup: self.phases.clone(),
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

fn build(builder: &Builder<'_>, kept: Option<Vec<Kept>>) -> Result<(Levels, Vec<Kept>, Phases)> {
    let start = Instant::now();
    let context = builder.context;
    let (levels, kept, mut phases) = match context.gpu() {
        None => {
            let host = Host::new(context);
            let Built { top, kept, phases } = context.run(builder.matrix.entries(), || builder.build(&host, kept))?;
            (Levels::Host(top), kept, phases)
        }
        Some(gpu) => {
            let Built { top, kept, phases } = context.run(builder.matrix.entries(), || builder.build(gpu, kept))?;
            let (staging, graphs) = (Staging::default(), Graphs::default());
            (Levels::Gpu(OnGpu { gpu: gpu.clone(), top, staging, graphs }), kept, phases)
        }
    };
    phases.add("total", start.elapsed().as_secs_f64());
    Ok((levels, kept, phases))
}

impl<T: Scalar> Preconditioner<Host, T> for Amg {
    fn apply(&mut self, r: &[T], z: &mut [T]) -> Result<()> {
        Amg::apply(self, r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        self.is_symmetric_in(T::PRECISION)
    }
}

impl<T: Scalar> Preconditioner<Gpu, T> for Amg {
    fn apply(&mut self, r: &gpu::Slice<T>, z: &mut gpu::Slice<T>) -> Result<()> {
        self.apply_on_device(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        self.is_symmetric_in(T::PRECISION)
    }
}
