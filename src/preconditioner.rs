//! AMG as a preconditioner: [`Amg`] is a hierarchy on the device of a context. One `apply` is one cycle.

pub(crate) mod defaults;
mod estimate;

use crate::amg::finest::{Finest, NarrowVectors, Outcome};
pub use crate::amg::hierarchy::LevelMatrices;
use crate::amg::hierarchy::{Builder, Built, Renewal, SetupData};
use crate::amg::plan::Plan;
use crate::backend::{AnyMut, AnyRef, Backend, Beta, NarrowPreconditioner, Operator, Preconditioner};
use crate::config::{Config, LevelPart};
use crate::context::{Context, LogLevel};
use crate::error::{Result, fail};
use crate::gpu::{self, Conversion, DeviceCgStep, Gpu, Graphs, Staging};
use crate::host::Host;
use crate::matrix::{GivenFunctions, Matrix};
use crate::report::{Phases, Report};
use crate::scalar::{Precision, Scalar, SliceMut, SliceRef};
use crate::sparse::NearNullSpace;
pub(crate) use estimate::{Held, Work};
use std::sync::Arc;
use std::time::Instant;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg {
    context: Context,
    config: Config,
    matrix: Arc<Matrix>,
    near_null_space: Option<Arc<NearNullSpace>>,
    functions: Option<Arc<GivenFunctions>>,
    built: Placed,
    /// Promotions to wider formats since set-up, with their reasons.
    promotions: Vec<String>,
    /// Whether the last update kept the coarse unknowns.
    renewal: Renewal,
    /// The level at which the last application failed.
    lost_at: Option<usize>,
    /// Stored values of all levels, a measure of the work of a cycle.
    work: usize,
    /// Changes of the matrix before the last set-up or update.
    changes: u64,
    /// Whether extreme values are multiplied by a power of two first; a solver does that itself.
    rescales: bool,
    /// The exponent of that power. A cycle of the other matrix is then multiplied by it.
    units: i32,
}

/// A matrix with values that nobody changes, and with extreme values multiplied by a power of two, whose exponent is the second.
fn own_matrix(context: &Context, matrix: &Arc<Matrix>, rescales: bool) -> Result<(Arc<Matrix>, i32)> {
    match if rescales { matrix.units()? } else { 0 } {
        0 => Ok((matrix.with_own_values(context)?, 0)),
        units => Ok((Arc::new(matrix.times_power(units)?), units)),
    }
}

/// 2^k x, in steps that every format of vectors holds.
fn multiply_by_power<B: Backend, T: Scalar>(backend: &B, k: i32, x: &mut B::Slice<T>) {
    let mut left = k;
    while left != 0 {
        let step = left.clamp(-100, 100);
        backend.scale(T::from_f64(2.0_f64.powi(step)), x);
        left -= step;
    }
}

/// The result of set-up. Its levels are on the device of the context.
struct Placed {
    levels: Levels,
    /// The levels for multivectors of so many vectors, with the matrices of the others, unless there can be none; not there
    /// until they are needed.
    multivectors: Option<(usize, Option<Levels>)>,
    plan: Plan,
    /// Symbolic data for updates.
    data: Arc<dyn SetupData>,
    renewal: Renewal,
    phases: Phases,
    /// Where set-up ran, and why.
    place: String,
}

enum Levels {
    Host(Box<dyn Finest<Host>>),
    Gpu(OnGpu),
}

/// Levels on a GPU, and staging for vectors of the host.
struct OnGpu {
    gpu: Gpu,
    top: Box<dyn Finest<Gpu>>,
    staging: Staging,
    graphs: Graphs,
}

impl OnGpu {
    /// One cycle on vectors of the device, without a synchronisation. [`OnGpu::lost`] checks its result afterwards.
    fn cycle<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        let OnGpu { gpu, top, graphs, .. } = self;
        let capturable = top.is_capturable();
        let mut apply = |b: &gpu::Slice<T>, x: &mut gpu::Slice<T>| {
            match (Gpu::any_ref(b), Gpu::any_mut(x)) {
                (AnyRef::F64(b), AnyMut::F64(x)) => top.apply_f64(b, x)?,
                (AnyRef::F32(b), AnyMut::F32(x)) => top.apply_f32(b, x)?,
                _ => unreachable!("b and x have the same type"),
            };
            Ok(())
        };
        if capturable { graphs.run(gpu, b, x, &mut apply) } else { apply(b, x) }
    }

    /// The level where the last cycle, which computed x from b, became not finite. `None` where x is finite or b is not.
    fn lost<T: Scalar>(&self, b: &gpu::Slice<T>, x: &gpu::Slice<T>) -> Result<Option<usize>> {
        let lost = !self.gpu.max_norm(x).is_finite() && self.gpu.max_norm(b).is_finite();
        let level = lost.then(|| self.top.lost());
        self.gpu.status().map(|()| level)
    }

    /// One cycle on vectors of the host; the result is as for [`OnGpu::lost`] where it is asked for.
    fn cycle_for_host<T: Scalar>(&mut self, b: &[T], x: &mut [T], watched: bool) -> Result<Option<usize>> {
        let mut staging = std::mem::take(&mut self.staging);
        let gpu = self.gpu.clone();
        let (own_b, own_x) = staging.vectors::<T>(&gpu, b.len())?;
        gpu.write(b, own_b)?;
        self.cycle(own_b, own_x)?;
        gpu.read(own_x, x)?;
        let lost = if watched && !x.iter().all(|x| x.is_finite()) { self.lost(own_b, own_x)? } else { None };
        self.staging = staging;
        Ok(lost)
    }
}

impl OnGpu {
    /// The vectors of the finest level; the caller has checked that it has its own.
    fn own_vectors(&mut self) -> Result<NarrowVectors<'_, Gpu>> {
        match self.top.narrow_vectors()? {
            Some(own) => Ok(own),
            None => unreachable!("the caller checked for narrow vectors"),
        }
    }
}

/// The conversion between the vectors of a Krylov method and those of the finest level.
fn conversion<'a>(own: &NarrowVectors<'a, Gpu>) -> Conversion<'a> {
    Conversion { factor: own.factor, d: own.d, guard: own.guard }
}

/// A method in f64 with a finest level in f32.
impl<T: Scalar> NarrowPreconditioner<Gpu, T> for OnGpu {
    fn update_solution(
        &mut self,
        step: &mut DeviceCgStep,
        (p, q): (&gpu::Slice<T>, &gpu::Slice<T>),
        x: &mut gpu::Slice<T>,
        r: &mut gpu::Slice<T>,
    ) -> Result<()> {
        let own = self.own_vectors()?;
        match (Gpu::any_ref(p), Gpu::any_ref(q), Gpu::any_mut(x), Gpu::any_mut(r)) {
            (AnyRef::F64(p), AnyRef::F64(q), AnyMut::F64(x), AnyMut::F64(r)) => {
                step.update_solution_narrow((p, q), x, r, (&conversion(&own), own.b))
            }
            _ => unreachable!("the caller checked for narrow vectors"),
        }
    }

    fn apply(&mut self) -> Result<()> {
        let OnGpu { gpu, top, graphs, .. } = self;
        let capturable = top.is_capturable();
        let Some(NarrowVectors { level, b, x, .. }) = top.narrow_vectors()? else {
            unreachable!("the caller checked for narrow vectors")
        };
        if !capturable {
            return level.cycle(b, x);
        }
        graphs.run(gpu, b, x, &mut |b, x| level.cycle(b, x))
    }

    fn dots(&mut self, step: &mut DeviceCgStep, r: &gpu::Slice<T>, beta: Beta<&gpu::Slice<T>>) -> Result<()> {
        let own = self.own_vectors()?;
        let beta = beta.map(|q| match Gpu::any_ref(q) {
            AnyRef::F64(q) => q,
            AnyRef::F32(_) => unreachable!("q and r have the same type"),
        });
        match Gpu::any_ref(r) {
            AnyRef::F64(r) => step.dots_narrow((&conversion(&own), own.x), r, beta),
            AnyRef::F32(_) => unreachable!("the caller checked for narrow vectors"),
        }
    }

    fn update_direction(&mut self, step: &mut DeviceCgStep, p: &mut gpu::Slice<T>) -> Result<()> {
        let own = self.own_vectors()?;
        match Gpu::any_mut(p) {
            AnyMut::F64(p) => step.update_direction_narrow((&conversion(&own), own.x), p),
            AnyMut::F32(_) => unreachable!("the caller checked for narrow vectors"),
        }
    }
}

impl Amg {
    /// Builds the hierarchy of a square matrix.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        Amg::setup_with(&context.with_own_scratch()?, matrix, config, false)
    }

    /// As [`Amg::setup`], for a solver of the library, with the scratch of its handle.
    pub(crate) fn setup_in_solver(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        Amg::setup_with(context, matrix, config, true)
    }

    fn setup_with(context: &Context, matrix: &Arc<Matrix>, config: &Config, in_solver: bool) -> Result<Amg> {
        config.check_device(context.device())?;
        matrix.check_for_amg(context)?;
        let config = &defaults::effective(context, matrix, config, in_solver)?;
        let (near_null_space, functions) = (matrix.near_null_space(), matrix.functions());
        let changes = matrix.changes(context)?;
        let (own, units) = own_matrix(context, matrix, !in_solver)?;
        let builder = Builder {
            context,
            config,
            matrix: &own,
            near_null_space: near_null_space.clone(),
            functions: functions.clone(),
            plan: None,
        };
        let built = build(&builder, None)?;
        let mut amg = Amg {
            context: context.clone(),
            config: config.clone(),
            matrix: Arc::clone(matrix),
            near_null_space,
            functions,
            built,
            promotions: Vec::new(),
            renewal: Renewal::default(),
            lost_at: None,
            work: 0,
            changes,
            rescales: !in_solver,
            units,
        };
        let report = amg.report();
        amg.work = report.nonzeros();
        let line = || {
            let (levels, complexity) = (report.levels.len(), report.operator_complexity());
            format!(
                "AMG set-up: {levels} levels, operator complexity {complexity:.2}, {:.4} s",
                report.setup.get("total")
            )
        };
        context.log(LogLevel::Info, line);
        matrix.end_reading()?;
        Ok(amg)
    }

    /// The matrices of the levels that [`Amg::setup`] computes, finest first, for inspection.
    pub fn level_matrices(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Vec<LevelMatrices>> {
        let context = &context.with_own_scratch()?;
        let config = &defaults::effective(context, matrix, config, false)?;
        let (near_null_space, functions) = (matrix.near_null_space(), matrix.functions());
        let builder = Builder { context, config, matrix, near_null_space, functions, plan: None };
        context.run(matrix.entries(), || match context.gpu() {
            Some(gpu) if gpu::IS_BUILT && device_objection(&builder)?.is_none() => builder.level_matrices(gpu),
            _ => builder.level_matrices(&Host::new(context)),
        })
    }

    /// Numeric-only update to changed values of the matrix: coarse unknowns and patterns stay. With `amg.update.coarsening` `recheck`
    /// strong couplings and coarse unknowns are compared, and the hierarchy is set up again from the first level that differs. If the
    /// update fails, the hierarchy is unchanged.
    pub fn update(&mut self) -> Result<()> {
        self.matrix.recheck_values(&self.context)?;
        self.matrix.check_for_amg(&self.context)?;
        let changes = self.matrix.changes(&self.context)?;
        let (own, units) = own_matrix(&self.context, &self.matrix, self.rescales)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &own,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: None,
        };
        self.built = build(&builder, Some(&*self.built.data))?;
        self.changes = changes;
        self.units = units;
        self.promotions.clear();
        self.renewal = self.built.renewal;
        if self.renewal.anew {
            self.work = self.report().nonzeros();
        }
        self.matrix.end_reading()
    }

    /// Whether the last update set up levels again.
    pub(crate) fn was_set_up_anew(&self) -> bool {
        self.renewal.anew
    }

    /// Promotes formats that the options left open: on the level that lost precision, or on all levels if there is none or it has the
    /// widest formats. False if nothing can be promoted. Costs an update.
    fn promote(&mut self, reason: &str) -> Result<bool> {
        let mut plan = self.built.plan.clone();
        let level = self.lost_at.take().filter(|level| plan.promote(Some(*level), reason));
        if level.is_none() && !plan.promote(None, reason) {
            return Ok(false);
        }
        let changes = self.matrix.changes(&self.context)?;
        let (own, units) = own_matrix(&self.context, &self.matrix, self.rescales)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &own,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: Some(plan),
        };
        self.built = build(&builder, Some(&*self.built.data))?;
        self.changes = changes;
        self.units = units;
        let which = level.map_or("all levels".to_string(), |level| format!("level {level}"));
        let line = format!("{which} promoted: {reason}");
        self.context.log(LogLevel::Warning, || line.clone());
        self.promotions.push(line);
        Ok(true)
    }

    /// The matrix that it was set up with.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Scalar rows.
    pub fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// x = M b, one cycle. Allocates nothing, except at the first call with vectors of another precision than the finest level's.
    /// Numbers that are not finite, where b has none and a level is narrower than the matrix, are an error that names the level.
    pub fn apply<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        self.check_lengths(b.len(), x.len())?;
        let watched = self.built.plan.is_narrow();
        let lost = match &mut self.built.levels {
            Levels::Gpu(levels) => levels.cycle_for_host(b, x, watched)?,
            Levels::Host(top) => self.context.run(self.work, || host_cycle(&mut **top, b, x))?,
        };
        if self.units != 0 {
            multiply_by_power(&Host::new(&self.context), self.units, x);
        }
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    /// As [`Preconditioner::prepare_multivectors`].
    fn prepare_for_multivectors<T: Scalar>(&mut self, k: usize) -> Result<bool> {
        let Placed { levels, multivectors, .. } = &mut self.built;
        if let Some((_, made)) = multivectors.as_ref().filter(|(vectors, _)| *vectors == k) {
            return Ok(made.is_some());
        }
        *multivectors = None;
        let made = match levels {
            Levels::Host(top) => match top.for_multivectors(k)? {
                Some(mut top) => {
                    top.prepare(T::PRECISION)?;
                    Some(Levels::Host(top))
                }
                None => None,
            },
            Levels::Gpu(OnGpu { gpu, top, .. }) => match top.for_multivectors(k)? {
                Some(mut top) => {
                    top.prepare(T::PRECISION)?;
                    let (staging, graphs) = (Staging::default(), Graphs::default());
                    Some(Levels::Gpu(OnGpu { gpu: gpu.clone(), top, staging, graphs }))
                }
                None => None,
            },
        };
        let (_, made) = multivectors.insert((k, made));
        Ok(made.is_some())
    }

    /// As [`Preconditioner::apply_to_multivectors`].
    fn host_multivectors<T: Scalar>(&mut self, b: &[T], x: &mut [T]) -> Result<()> {
        let Some((k, Some(Levels::Host(top)))) = &mut self.built.multivectors else {
            unreachable!("it was prepared for multivectors")
        };
        let lost = self.context.run(*k * self.work, || host_cycle(&mut **top, b, x))?;
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    /// As [`Preconditioner::apply_to_multivectors`].
    fn gpu_multivectors<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        let Some((_, Some(Levels::Gpu(levels)))) = &mut self.built.multivectors else {
            unreachable!("it was prepared for multivectors")
        };
        levels.cycle(b, x)
    }

    /// Bytes of the levels for multivectors.
    fn multivector_bytes(&self) -> usize {
        let levels = match &self.built.multivectors {
            Some((_, Some(Levels::Host(top)))) => top.describe(),
            Some((_, Some(Levels::Gpu(levels)))) => levels.top.describe(),
            _ => return 0,
        };
        levels.iter().map(|level| level.bytes).sum()
    }

    /// The error of an application that lost precision on this level. The level is stored.
    fn lost(&mut self, level: usize) -> Result<()> {
        self.lost_at = Some(level);
        let of = |part| self.built.plan.of(part, level).name();
        fail!(
            PrecisionLost,
            "level {level}: numbers beyond the range of its vectors ({}) appeared in the cycle, with the matrix in {}; \
             use wider formats there, or precision \"auto\"",
            of(LevelPart::Vector),
            of(LevelPart::Matrix)
        )
    }

    /// As [`Amg::apply`], for vectors in the memory of the context's GPU. Returns once the work is launched, and does not check the
    /// result: [`Amg::check_precision`] does.
    pub fn apply_on_device<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        self.check_lengths(b.len(), x.len())?;
        match &mut self.built.levels {
            Levels::Host(_) => {
                fail!(InvalidArgument, "the vectors are in device memory, and the hierarchy is on the host")
            }
            Levels::Gpu(levels) => {
                levels.cycle(b, x)?;
                multiply_by_power(&levels.gpu, self.units, x);
                Ok(())
            }
        }
    }

    /// Fails as [`Amg::apply`] does when the last [`Amg::apply_on_device`], which computed x from b, lost precision. Synchronises where a level
    /// is narrower than the matrix.
    pub fn check_precision<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &gpu::Slice<T>) -> Result<()> {
        let lost = match &self.built.levels {
            Levels::Gpu(levels) if self.built.plan.is_narrow() => levels.lost(b, x)?,
            _ => None,
        };
        lost.map_or(Ok(()), |level| self.lost(level))
    }

    fn examine_on_device<T: Scalar>(&mut self, r: &gpu::Slice<T>) -> Result<()> {
        let Some(gpu) = self.context.gpu().filter(|_| self.built.plan.is_narrow()) else { return Ok(()) };
        let mut z = gpu.zeros(r.len())?;
        self.apply_on_device(r, &mut z)?;
        self.check_precision(r, &z)
    }

    /// On the host an application has checked its result.
    fn examine<T: Scalar>(&mut self, _: &[T]) -> Result<()> {
        Ok(())
    }

    /// On the host a cycle checks the range of its vectors while it converts them.
    fn host_narrow<T: Scalar>(&mut self) -> Option<&mut dyn NarrowPreconditioner<Host, T>> {
        None
    }

    /// As [`Preconditioner::narrow`].
    fn gpu_narrow<T: Scalar>(&mut self) -> Option<&mut dyn NarrowPreconditioner<Gpu, T>> {
        let Levels::Gpu(levels) = &mut self.built.levels else { return None };
        let has_own = T::PRECISION == Precision::F64 && matches!(levels.top.narrow_vectors(), Ok(Some(_)));
        has_own.then_some(levels)
    }

    /// None on the host, where SpMV reads the caller's arrays.
    fn host_operator<T: Scalar>(&self) -> Option<Arc<dyn Operator<Host, T>>> {
        None
    }

    /// As [`Preconditioner::operator`].
    fn gpu_operator<T: Scalar>(&self) -> Option<Arc<dyn Operator<Gpu, T>>> {
        let Levels::Gpu(levels) = &self.built.levels else { return None };
        let a: Arc<dyn Operator<Gpu, T>> = *levels.top.operator()?.downcast().ok()?;
        (a.precision() == self.matrix.precision()).then_some(a)
    }

    fn check_lengths(&self, b: usize, x: usize) -> Result<()> {
        let n = self.matrix.rows();
        if b != n || x != n {
            return fail!(SizeMismatch, "b has {b} and x {x} elements; the hierarchy has {n} rows");
        }
        Ok(())
    }

    /// Allocates vectors of type `T`, so that `apply` does not.
    pub(crate) fn prepare<T: Scalar>(&mut self) -> Result<()> {
        match &mut self.built.levels {
            Levels::Host(top) => top.prepare(T::PRECISION),
            Levels::Gpu(levels) => levels.top.prepare(T::PRECISION),
        }
    }

    /// As [`Preconditioner::is_constant_symmetric`], for vectors of this precision.
    fn is_symmetric_in(&self, precision: Precision) -> bool {
        // Rounding that preserves row sums is not symmetric.
        let alike = !self.built.plan.is_narrow() || self.config.text("precision.rounding") == "nearest";
        alike
            && match &self.built.levels {
                Levels::Host(top) => top.is_symmetric_in(precision),
                Levels::Gpu(levels) => levels.top.is_symmetric_in(precision),
            }
    }

    /// The value of an option as the last set-up used it.
    pub(crate) fn option(&self, key: &str) -> Result<String> {
        let value = self.config.get(key)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &self.matrix,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: None,
        };
        Ok(match key {
            _ if value != "auto" => value,
            "amg.coarsening.type" => builder.coarsening().name.to_string(),
            "amg.strength.type" => builder.coarsening().strength.to_string(),
            "amg.interpolation.type" => builder.coarsening().interpolation.to_string(),
            "amg.smoother.type" => builder.smoother().name.to_string(),
            _ => value,
        })
    }

    /// Whether a cycle is the same linear operator in every application, but for the rounding of the solver's precision.
    pub(crate) fn is_constant(&self) -> bool {
        !self.built.plan.is_narrow() && !self.has_k_cycle()
    }

    /// Whether Krylov steps are part of the cycle.
    pub(crate) fn has_k_cycle(&self) -> bool {
        self.config.text("amg.cycle.type") == "k"
    }

    /// What set-up did.
    pub fn report(&self) -> Report {
        let mut levels = match &self.built.levels {
            Levels::Host(top) => top.describe(),
            Levels::Gpu(levels) => levels.top.describe(),
        };
        for (level, plan) in levels.iter_mut().zip(&self.built.plan.levels) {
            level.precision_reason = plan.reason.clone();
        }
        let bytes = levels.iter().map(|l| l.bytes).sum::<usize>() + self.multivector_bytes() + self.built.data.bytes();
        Report {
            levels,
            setup: self.built.phases.clone(),
            setup_place: self.built.place.clone(),
            bytes,
            promotions: self.promotions.clone(),
            update_kept_levels: self.renewal.kept_levels,
            update_anew: self.renewal.anew,
            preconditioner_age: self.matrix.known_changes() - self.changes,
            ..Report::of(&self.context)
        }
    }

    /// Estimated bytes of `setup` with these options. On the host: bytes of the hierarchy, from a sample of at most 20,000 rows. On a
    /// GPU: peak bytes of set-up, from samples of at most 1,048,576 rows, regardless of the memory limit of the context; exact for
    /// matrices that are not larger.
    pub fn memory_estimate(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
        estimate::bytes(&context.with_own_scratch()?, matrix, config, (false, None), &set_up_sample)
    }

    /// The same for a hierarchy inside of a solver: of what `work` does with samples, of at most so many rows where a number is given.
    pub(crate) fn estimate_in_solver(
        context: &Context,
        matrix: &Matrix,
        config: &Config,
        rows: Option<usize>,
        work: &Work<'_>,
    ) -> Result<usize> {
        estimate::bytes(&context.with_own_scratch()?, matrix, config, (true, rows), work)
    }
}

/// What a hierarchy alone holds.
fn set_up_sample(context: &Context, sample: &Arc<Matrix>, config: &Config) -> Result<Held> {
    Ok(Held { report: Amg::setup(context, sample, config)?.report(), fixed: 0, has_matrix: false })
}

/// One cycle on the host. Returns the level at which it lost precision, if it did.
fn host_cycle<T: Scalar>(top: &mut dyn Finest<Host>, b: &[T], x: &mut [T]) -> Result<Option<usize>> {
    let outcome = match (T::slice_ref(b), T::slice_mut(x)) {
        (SliceRef::F64(b), SliceMut::F64(x)) => top.apply_f64(b, x),
        (SliceRef::F32(b), SliceMut::F32(x)) => top.apply_f32(b, x),
        _ => unreachable!("b and x have the same type"),
    };
    Ok(match outcome? {
        Outcome::Lost(level) => Some(level),
        Outcome::Done => None,
    })
}

fn build(builder: &Builder<'_>, data: Option<&dyn SetupData>) -> Result<Placed> {
    let start = Instant::now();
    let (context, host) = (builder.context, Host::new(builder.context));
    let mut placed = match context.gpu() {
        Some(gpu) if gpu::IS_BUILT => {
            let built = match device_objection(builder)? {
                None => builder.build(gpu, gpu, data, None)?,
                Some(reason) => builder.build(&host, gpu, data, Some(reason))?,
            };
            let Built { top, plan, data, renewal, phases, place } = built;
            let (staging, graphs) = (Staging::default(), Graphs::default());
            let levels = Levels::Gpu(OnGpu { gpu: gpu.clone(), top, staging, graphs });
            Placed { levels, multivectors: None, plan, data, renewal, phases, place }
        }
        _ => {
            if builder.config.text("amg.setup") == "device" {
                return fail!(Unsupported, "option \"amg.setup\" is \"device\", and the context is on the host");
            }
            let built = builder.build(&host, &host, data, None)?;
            let Built { top, plan, data, renewal, phases, place } = built;
            let levels = Levels::Host(top);
            Placed { levels, multivectors: None, plan, data, renewal, phases, place }
        }
    };
    placed.phases.add("total", start.elapsed().as_secs_f64());
    Ok(placed)
}

/// The reason why set-up for a GPU runs on the host, if it does; an error if the options do not allow it.
fn device_objection(builder: &Builder<'_>) -> Result<Option<String>> {
    let reason = match builder.config.choice("amg.setup").as_deref() {
        Some("host") => return Ok(Some("the options say so".to_string())),
        _ => builder.objection::<Gpu, Gpu>(),
    };
    match reason {
        Some(reason) if builder.config.text("amg.setup") == "device" => {
            fail!(Unsupported, "option \"amg.setup\" is \"device\", but {reason}")
        }
        reason => Ok(reason),
    }
}

macro_rules! preconditioner {
    ($backend:ty, $slice:ident, $apply:ident, $narrow:ident, $examine:ident, $operator:ident, $multivectors:ident) => {
        impl<T: Scalar> Preconditioner<$backend, T> for Amg {
            fn apply(&mut self, r: &$slice<T>, z: &mut $slice<T>) -> Result<()> {
                self.$apply(r, z)
            }

            fn prepare_multivectors(&mut self, k: usize) -> Result<bool> {
                self.prepare_for_multivectors::<T>(k)
            }

            fn apply_to_multivectors(&mut self, r: &$slice<T>, z: &mut $slice<T>) -> Result<()> {
                self.$multivectors(r, z)
            }

            fn narrow(&mut self) -> Option<&mut dyn NarrowPreconditioner<$backend, T>> {
                self.$narrow()
            }

            fn is_capturable(&self) -> bool {
                match &self.built.levels {
                    Levels::Host(top) => top.is_capturable(),
                    Levels::Gpu(levels) => levels.top.is_capturable(),
                }
            }

            fn operator(&self) -> Option<Arc<dyn Operator<$backend, T>>> {
                self.$operator()
            }

            fn is_constant_symmetric(&self) -> bool {
                self.is_symmetric_in(T::PRECISION)
            }

            fn narrowest(&self) -> Option<String> {
                self.built.plan.narrowest()
            }

            fn examine(&mut self, r: &$slice<T>) -> Result<()> {
                self.$examine(r)
            }

            fn widen(&mut self, reason: &str) -> Result<bool> {
                self.promote(reason)
            }
        }
    };
}

type HostSlice<T> = [T];
type GpuSlice<T> = gpu::Slice<T>;
preconditioner!(Host, HostSlice, apply, host_narrow, examine, host_operator, host_multivectors);
preconditioner!(Gpu, GpuSlice, apply_on_device, gpu_narrow, examine_on_device, gpu_operator, gpu_multivectors);

#[cfg(test)]
impl Amg {
    /// The number formats of the levels.
    pub(crate) fn plan(&self) -> &Plan {
        &self.built.plan
    }
}
