//! The levels of a hierarchy as a GPU computes them: the steps of [`super::levels`] on matrices in device memory, with the same results.

use super::place::{Computed, Placing, at_level};
use super::{Builder, LevelMatrices, STALLED};
use crate::amg::plan::Plan;
use crate::amg::strength::Measure;
use crate::backend::{Operator, Place};
use crate::context::LogLevel;
use crate::error::Result;
use crate::gpu::setup::coarse::{DeviceCoarse, Splitting};
use crate::gpu::setup::{DeviceCsr, DeviceGraph, DevicePattern};
use crate::gpu::setup::{diagonal, extended_i, galerkin, pmis, scaling, strength, transpose};
use crate::gpu::{Buffer, Gpu, to_scalar};
use crate::host::dense;
use crate::host::truncate::Truncation;
use crate::report::Phases;
use crate::scalar::{Number, Precision, Scalar};
use crate::smooth::gauss_seidel::Colours;
use crate::smooth::{self, Setup, Smoother, diagonal_width};
use std::any::Any;
use std::sync::Arc;

/// A level as computed.
pub struct There<T> {
    rows: usize,
    entries: usize,
    /// Block rows of the next level; none on the coarsest.
    coarse_rows: Option<usize>,
    /// None when everything is placed.
    a: Option<DeviceCsr<T>>,
    /// Prolongator and restriction to the next level.
    transfer: Option<(DeviceCsr<T>, DeviceCsr<T>)>,
    /// The factors by which its variables are multiplied.
    scale: Option<Buffer<f64>>,
}

/// What is kept of a step from one level to the next, to renew it with other values.
#[derive(Clone)]
pub struct Kept {
    transfers: Transfers,
    coarse_matrix: DevicePattern,
    recipe: Arc<galerkin::Recipe>,
}

/// How prolongator and restriction come back.
#[derive(Clone)]
enum Transfers {
    /// Computed anew for the strong couplings, coarse unknowns and patterns of the first time.
    Renewed {
        graph: Arc<DeviceGraph>,
        coarse: Arc<DeviceCoarse>,
        p: DevicePattern,
        r: DevicePattern,
        /// Found in the first renewal.
        transposition: Option<Arc<transpose::Recipe>>,
    },
    /// As they are: a pair of matrices in the precision of set-up, with its bytes.
    Unchanged { pair: Arc<dyn Any + Send + Sync>, bytes: usize },
}

impl Kept {
    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        let transfers = match &self.transfers {
            Transfers::Renewed { graph, coarse, p, r, transposition } => {
                let transposition = transposition.as_ref().map_or(0, |recipe| recipe.bytes());
                graph.bytes() + coarse.bytes() + p.bytes(1) + r.bytes(1) + transposition
            }
            Transfers::Unchanged { bytes, .. } => *bytes,
        };
        transfers + self.coarse_matrix.bytes(1) + self.recipe.bytes()
    }
}

/// Why a hierarchy with these options cannot be computed on a device, if so.
pub(super) fn objection(builder: &Builder<'_>) -> Option<String> {
    let config = builder.config;
    let coarsening = builder.coarsening::<f64>();
    let name = builder.coarsening_name();
    let interpolation = config.choice("amg.interpolation.type").unwrap_or(coarsening.interpolation().to_string());
    let plan = Plan::asked(config, builder.matrix.precision(), 1);
    let smoother = smooth::name(config, builder.near_null_space.is_some());
    if name != "pmis" {
        return Some(format!("amg.coarsening.type \"{name}\" runs on the host alone"));
    }
    if interpolation != "extended_i" {
        return Some(format!("amg.interpolation.type \"{interpolation}\" runs on the host alone"));
    }
    if config.int("amg.coarsening.aggressive_levels") > 0 {
        return Some("aggressive coarsening runs on the host alone".to_string());
    }
    if plan.is_open() {
        return Some("precision \"auto\" decides on the host".to_string());
    }
    if smoother != "l1_jacobi" {
        return Some(format!("the smoother {smoother} is made on the host"));
    }
    None
}

impl Builder<'_> {
    /// All levels in the precision of set-up, computed on the device; a renewal where there is something of an earlier one.
    pub(super) fn compute_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        kept: Option<Vec<Kept>>,
        phases: &mut Phases,
    ) -> Result<(Vec<There<T>>, Vec<Kept>)> {
        self.check_square()?;
        let (max_levels, max_rows) = (self.config.int("amg.max_levels"), self.config.int("amg.coarsest.max_rows"));
        let renewing = kept.is_some();
        let mut earlier = kept.into_iter().flatten();
        let (mut levels, mut all_kept) = (Vec::new(), Vec::new());
        let mut a = self.fine_matrix_there::<T>(gpu)?;
        loop {
            let (level, rows, entries) = (levels.len(), a.scalar_rows(), a.entries());
            self.context.log(LogLevel::Debug, || format!("level {level}: {rows} rows, {entries} nonzeros"));
            let old = earlier.next();
            let last = if renewing { old.is_none() } else { rows <= max_rows || level + 1 >= max_levels };
            if last {
                break;
            }
            let (transfers, product) = match old {
                Some(Kept { transfers, coarse_matrix, recipe }) => (Some(transfers), Some((coarse_matrix, recipe))),
                None => (None, None),
            };
            let Some((p, r, transfers)) = self.step_there(gpu, &a, level, transfers, phases)? else { break };
            let (coarse, recipe) = self.timed(gpu, phases, "galerkin", || match product {
                None => {
                    let (coarse, recipe) = galerkin::product(gpu, &r, &a, &p)?;
                    Ok((coarse, Arc::new(recipe)))
                }
                Some((pattern, recipe)) => {
                    let values = galerkin::renew(gpu, &recipe, &r, &a, &p)?;
                    Ok((pattern.with(values), recipe))
                }
            })?;
            all_kept.push(Kept { transfers, coarse_matrix: coarse.pattern(), recipe });
            let coarse_rows = Some(coarse.scalar_rows());
            levels.push(There { rows, entries, coarse_rows, a: Some(a), transfer: Some((p, r)), scale: None });
            a = coarse;
        }
        let (rows, entries) = (a.scalar_rows(), a.entries());
        levels.push(There { rows, entries, coarse_rows: None, a: Some(a), transfer: None, scale: None });
        Ok((levels, all_kept))
    }

    /// The finest matrix as set-up wants it.
    fn fine_matrix_there<T: Scalar>(&self, gpu: &Gpu) -> Result<DeviceCsr<T>> {
        to_scalar(gpu, &self.matrix.device::<T>(gpu)?)
    }

    /// Runs a phase. At the debug level it waits for the device, so that its time is its own.
    fn timed<R>(
        &self,
        gpu: &Gpu,
        phases: &mut Phases,
        phase: &'static str,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        phases.time(phase, || {
            let result = work()?;
            if self.context.logs(LogLevel::Debug) {
                gpu.synchronize()?;
            }
            Ok(result)
        })
    }

    /// Prolongator and restriction from level `level` to the next; none where coarsening would leave too much.
    #[allow(clippy::type_complexity)]
    fn step_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
        level: usize,
        earlier: Option<Transfers>,
        phases: &mut Phases,
    ) -> Result<Option<(DeviceCsr<T>, DeviceCsr<T>, Transfers)>> {
        let (graph, coarse, patterns) = match earlier {
            Some(Transfers::Unchanged { pair, bytes }) => {
                let (p, r) = pair
                    .downcast_ref::<(DeviceCsr<T>, DeviceCsr<T>)>()
                    .expect("the precision of set-up does not change")
                    .clone();
                return Ok(Some((p, r, Transfers::Unchanged { pair, bytes })));
            }
            Some(Transfers::Renewed { graph, coarse, p, r, transposition }) => {
                (graph, coarse, Some((p, r, transposition)))
            }
            None => {
                let graph = self.timed(gpu, phases, "strength", || self.graph_there(gpu, a, level))?;
                let coarse = self.timed(gpu, phases, "coarsen", || {
                    let coarse = pmis::split(gpu, &graph, level as u64)?;
                    Ok(DeviceCoarse::Splitting(Splitting::new(gpu, &coarse)?))
                })?;
                let (rows, coarse_rows) = (a.scalar_rows(), coarse.count());
                if coarse_rows == 0 || coarse_rows as f64 > STALLED * rows as f64 {
                    self.stalled(level, rows, coarse_rows);
                    return Ok(None);
                }
                (Arc::new(graph), Arc::new(coarse), None)
            }
        };
        let truncation = Truncation {
            max_entries: self.config.int("amg.interpolation.max_entries"),
            factor: self.config.real("amg.interpolation.truncation"),
        };
        let DeviceCoarse::Splitting(splitting) = &*coarse else { unreachable!("that was refused") };
        let (p, r, transposition) = self.timed(gpu, phases, "interpolation", || match patterns {
            None => {
                let p = extended_i::interpolate(gpu, a, &graph, splitting, None, truncation)?;
                let r = transpose::transpose(gpu, &p)?;
                Ok((p, r, None))
            }
            Some((p, r, transposition)) => {
                let p = extended_i::renew(gpu, a, &graph, splitting, None, &p)?;
                let recipe = match transposition {
                    Some(recipe) => recipe,
                    None => Arc::new(transpose::transpose_and_recipe(gpu, &p)?.1),
                };
                let r = r.with(recipe.renew(gpu, &p.values)?);
                Ok((p, r, Some(recipe)))
            }
        })?;
        let transfers = if self.config.text("amg.update.interpolation") == "keep" {
            let bytes = p.bytes() + r.bytes();
            Transfers::Unchanged { pair: Arc::new((p.clone(), r.clone())), bytes }
        } else {
            Transfers::Renewed { graph, coarse, p: p.pattern(), r: r.pattern(), transposition }
        };
        Ok(Some((p, r, transfers)))
    }

    fn graph_there<T: Scalar>(&self, gpu: &Gpu, a: &DeviceCsr<T>, level: usize) -> Result<DeviceGraph> {
        let default = self.coarsening::<T>().strength();
        match Measure::new(self.config, default, a.block)? {
            Measure::Classical { theta, max_row_sum } => strength::classical(gpu, a, theta, max_row_sum),
            Measure::Absolute { theta } => strength::absolute(gpu, a, theta),
            Measure::Symmetric { theta } => {
                let measure = strength::Symmetric::new(gpu, a)?;
                let theta = match theta {
                    Some(theta) => theta,
                    None => Measure::symmetric_threshold(a.block, level, measure.scale()?),
                };
                measure.graph(theta)
            }
        }
    }

    /// Scales the levels of which a part has 16 bits, as [`Builder::scale`] does.
    pub(super) fn scale_there<T: Scalar>(&self, gpu: &Gpu, levels: &mut [There<T>], plan: &Plan) -> Result<()> {
        let scaling = self.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(());
        }
        let mut inverses = Vec::new();
        for (i, level) in levels.iter_mut().enumerate() {
            inverses.push(match level.a.as_ref().filter(|_| plan.is_scaled(i)) {
                None => None,
                Some(a) => {
                    level.scale = at_level(i, scaling::factors(gpu, a, &scaling))?;
                    level.scale.as_ref().map(|s| scaling::reciprocals(gpu, s)).transpose()?
                }
            });
        }
        for (i, level) in levels.iter_mut().enumerate() {
            if let (Some(inverse), Some(a)) = (&inverses[i], &mut level.a) {
                *a = scaling::apply(gpu, a, Some(inverse), Some(inverse))?;
            }
            let (fine, coarse) = (level.scale.as_deref(), inverses.get(i + 1).and_then(Option::as_deref));
            if let Some((p, r)) = level.transfer.as_mut().filter(|_| fine.is_some() || coarse.is_some()) {
                *p = scaling::apply(gpu, p, fine, coarse)?;
                *r = scaling::apply(gpu, r, coarse, fine)?;
            }
        }
        Ok(())
    }
}

impl<T: Scalar> There<T> {
    /// Copies on the host, to look at.
    pub fn fetch(&self, gpu: &Gpu) -> Result<LevelMatrices> {
        let shared = |m: &DeviceCsr<T>| m.fetch(gpu)?.into_shared().cast();
        let transfer = match &self.transfer {
            Some((p, r)) => Some((shared(p)?, shared(r)?)),
            None => None,
        };
        Ok(LevelMatrices { a: shared(self.a())?, transfer })
    }

    fn a(&self) -> &DeviceCsr<T> {
        self.a.as_ref().expect("the level is not placed yet")
    }

    fn transfer(&self) -> &(DeviceCsr<T>, DeviceCsr<T>) {
        self.transfer.as_ref().expect("there is a coarser level, and this one is not placed yet")
    }
}

impl<T: Scalar> Computed<Gpu> for There<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn entrance(&self, placing: &Placing<'_, Gpu>) -> Result<Option<(f64, Buffer<f32>)>> {
        match &self.scale {
            Some(scale) => Ok(Some(scaling::entrance(placing.backend, scale)?)),
            None => Ok(None),
        }
    }

    /// The finest level has the caller's own matrix, in its own blocks, whatever set-up made of it.
    fn matrix<S: Number, V: Number>(&self, placing: &Placing<'_, Gpu>, i: usize) -> Result<Box<dyn Operator<Gpu, V>>> {
        let Placing { builder, backend: gpu, .. } = placing;
        let sums = builder.sums();
        if i == 0 && self.scale.is_none() {
            if S::PRECISION == builder.matrix.precision() {
                return gpu.operator(builder.matrix.device::<S>(gpu)?, sums);
            }
            let given = builder.matrix.device::<T>(gpu)?;
            return gpu.operator(scaling::store::<T, S>(gpu, &given, "matrix", scaling::Rounding::Nearest)?, sums);
        }
        let rounding = match &self.scale {
            Some(scale) if builder.config.text("precision.rounding") == "row_sums" => scaling::Rounding::Keeping(scale),
            _ => scaling::Rounding::Nearest,
        };
        gpu.operator(scaling::store::<T, S>(gpu, self.a(), "matrix", rounding)?, sums)
    }

    fn smoother<V: Number>(&self, placing: &Placing<'_, Gpu>, storage: Precision) -> Result<Box<dyn Smoother<Gpu, V>>> {
        let setup = DeviceSetup { level: self, placing };
        smooth::build::<Gpu, V>(&placing.smoother, &setup, storage)
    }

    fn coarse_rows(&self) -> Option<usize> {
        self.coarse_rows
    }

    fn restriction<S: Number, V: Number, W: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
    ) -> Result<Box<dyn Operator<Gpu, V, W>>> {
        let gpu = placing.backend;
        let r = scaling::store::<T, S>(gpu, &self.transfer().1, "restriction", scaling::Rounding::Nearest)?;
        gpu.operator(r, placing.builder.sums())
    }

    fn interpolation<S: Number, W: Number, V: Number>(
        &self,
        placing: &Placing<'_, Gpu>,
    ) -> Result<Box<dyn Operator<Gpu, W, V>>> {
        let gpu = placing.backend;
        let p = scaling::store::<T, S>(gpu, &self.transfer().0, "prolongator", scaling::Rounding::Nearest)?;
        gpu.operator(p, placing.builder.sums())
    }

    /// The coarsest matrix is small, and its factorisation too little work for a device.
    fn inverse<S: Number, V: Number>(&self, placing: &Placing<'_, Gpu>) -> Result<Box<dyn Operator<Gpu, V>>> {
        let gpu = placing.backend;
        let a = self.a().fetch(gpu)?;
        gpu.dense::<S, V>(self.rows, dense::inverse(&a.view())?)
    }

    fn release(&mut self) {
        self.a = None;
        self.transfer = None;
    }
}

/// What smoothers are made from when set-up runs on the device.
struct DeviceSetup<'a, T> {
    level: &'a There<T>,
    placing: &'a Placing<'a, Gpu>,
}

impl<T: Scalar> DeviceSetup<'_, T> {
    fn diagonal(&self, l1: bool) -> Result<Buffer<T>> {
        let a = self.level.a();
        let width = diagonal_width(self.placing.builder.config, a.block.rows);
        diagonal::inverse(self.placing.backend, a, width, l1, self.level.scale.as_deref())
    }
}

impl<T: Scalar> Setup<Gpu> for DeviceSetup<'_, T> {
    type Inverse = Buffer<T>;

    fn config(&self) -> &crate::config::Config {
        self.placing.builder.config
    }

    fn inverse(&self) -> Result<Buffer<T>> {
        self.diagonal(false)
    }

    fn l1_inverse(&self) -> Result<Buffer<T>> {
        self.diagonal(true)
    }

    fn largest_eigenvalue(&self, _: &Buffer<T>) -> Result<f64> {
        unreachable!("smoothers that need it are made on the host")
    }

    fn stored<S: Number>(&self, inverse: &Buffer<T>, factor: f64) -> Result<(Buffer<S>, usize)> {
        let stored = diagonal::stored::<T, S>(self.placing.backend, inverse, factor)?;
        let len = stored.len();
        Ok((stored, len))
    }

    fn colours<S: Number, V: Number>(&self) -> Result<Box<dyn Colours<Gpu, V>>> {
        unreachable!("Gauss-Seidel is made on the host")
    }

    fn l1_gauss_seidel<S: Number, V: Number>(&self) -> Result<Box<dyn Smoother<Gpu, V>>> {
        unreachable!("l1-Gauss-Seidel runs on the host alone")
    }
}
