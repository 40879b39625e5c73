//! The levels of a hierarchy as a GPU computes them: the steps of [`super::levels`] on matrices in device memory, with the same results.

mod choice;
mod choose;
mod placed;
mod transfer;

use super::choice::Renewal;
use super::place::{Levels, at_level};
use super::{Builder, check_square};
use crate::amg::plan::Plan;
use crate::config::LevelPart;
use crate::context::LogLevel;
use crate::error::Result;
use crate::gpu::setup::checks::Checks;
use crate::gpu::setup::functions::DeviceFunctions;
use crate::gpu::setup::{DeviceCsr, DeviceNearNullSpace, DevicePattern, galerkin, gather_nodes, scaling};
use crate::gpu::{Buffer, Format, Gpu, Wanted, to_scalar};
use crate::host::eigenvalue::Largest;
use crate::report::Phases;
use crate::scalar::{Precision, Scalar, Sums};
use crate::smooth;
use crate::sync::lock;
use choice::Rechecked;
pub(super) use choose::OnDevice;
use std::sync::{Arc, Mutex, OnceLock};
use transfer::{Start, Step, Transfers};

/// A level as computed.
pub struct There<T> {
    number: usize,
    rows: usize,
    entries: usize,
    /// Block rows of the next level; none on the coarsest.
    coarse_rows: Option<usize>,
    /// None when everything is placed.
    a: Option<DeviceCsr<T>>,
    /// Prolongator and restriction to the next level.
    transfer: Option<(DeviceCsr<T>, DeviceCsr<T>)>,
    /// The factors by which its variables are to be multiplied, and those of the next level; the matrices are not yet.
    scale: Option<Arc<scaling::Factors>>,
    coarse_scale: Option<Arc<scaling::Factors>>,
    /// Those that were found when its formats were chosen, for when it is scaled.
    found: Option<scaling::Scaled<T>>,
    /// The inverse of the l1 diagonal of the scaled matrix, where it was found with the factors.
    l1_inverse: Mutex<Option<Buffer<T>>>,
    /// That of the diagonal blocks of the matrix, where interpolation needed it.
    inverse: Mutex<Option<Buffer<T>>>,
    /// What is asked of the device while levels are placed.
    checks: Arc<Mutex<Checks>>,
    /// The largest eigenvalue of D^-1 A for its diagonal blocks, where interpolation estimated it; else that of an earlier matrix.
    known: Option<f64>,
    earlier: Option<Largest>,
    /// The same, where the smoother had to estimate it.
    estimated: OnceLock<Largest>,
    /// Those of an earlier matrix.
    earlier_formats: Formats,
    /// The same, or those that were chosen when this one was placed.
    formats: Mutex<Formats>,
}

/// The formats in which a level is placed, which an update takes over.
#[derive(Clone, Default)]
struct Formats {
    /// The number formats that they were chosen for, where those may change: of the matrix, the transfers, and the vectors of this level and the next.
    numbers: Option<[Precision; 4]>,
    matrix: Option<Format>,
    restriction: Option<Format>,
    interpolation: Option<Format>,
}

impl Formats {
    /// Bytes held for updates to come.
    fn bytes(&self) -> usize {
        [&self.matrix, &self.restriction, &self.interpolation].into_iter().flatten().map(Format::kept_bytes).sum()
    }
}

/// Matrices of a level.
enum Part {
    Matrix,
    Restriction,
    Interpolation,
}

/// What is kept of a step from one level to the next, to renew it with other values.
#[derive(Clone)]
pub struct Kept {
    /// The pattern of the finest matrix where its scalar rows were put together to nodes; none on other levels.
    nodes: Option<DevicePattern>,
    transfers: Transfers,
    coarse_matrix: DevicePattern,
    recipe: Arc<galerkin::Recipe>,
    /// The largest eigenvalue that the smoother went by, where it was estimated.
    largest_eigenvalue: Option<Largest>,
    formats: Formats,
    /// Only where updates look at choices.
    rechecked: Option<Rechecked>,
    /// The couplings within functions, where there are several, and the functions of the next level.
    within: Option<DevicePattern>,
    functions: Option<Arc<DeviceFunctions>>,
}

impl Kept {
    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        let nodes = self.nodes.as_ref().map_or(0, |nodes| nodes.bytes(1));
        let rechecked = self.rechecked.as_ref().map_or(0, |rechecked| {
            let choice = if self.transfers.has_choice() { 0 } else { rechecked.choice.bytes() };
            choice + rechecked.bytes()
        });
        let transfers = self.transfers.bytes() + rechecked;
        let within = self.within.as_ref().map_or(0, |within| within.bytes(1));
        let functions = within + self.functions.as_ref().map_or(0, |functions| functions.bytes());
        nodes + transfers + functions + self.coarse_matrix.bytes(1) + self.recipe.bytes() + self.formats.bytes()
    }
}

/// Forgets where the terms of products and interpolations are added, which makes renewals fast and takes memory; none when there is nothing to forget.
pub(super) fn without_places(mut kept: Vec<Kept>) -> Option<Vec<Kept>> {
    let mut forgotten = false;
    for Kept { transfers, recipe, .. } in &mut kept {
        forgotten |= transfers.forget_places();
        forgotten |= recipe.forget_places();
    }
    forgotten.then_some(kept)
}

/// Coarsenings that a device computes.
const COARSENINGS: &[&str] = &["pmis", "mis2", "pairwise"];

/// Interpolations that a device computes after a splitting, those of them that reach across aggressive levels, and those after aggregation.
const CLASSICAL: &[&str] = &["extended_i", "mm_ext", "mm_ext_i", "classical_modified", "direct"];
const TWO_STAGE: &[&str] = &["extended_i", "mm_ext", "mm_ext_i"];
const AGGREGATION: &[&str] = &["smoothed", "tentative"];

/// Smoothers that a device makes from a matrix.
const SMOOTHERS: &[&str] = &["chebyshev", "gauss_seidel", "jacobi", "l1_jacobi"];

/// Why a hierarchy with these options cannot be computed on a device, if so.
pub(super) fn objection(builder: &Builder<'_>) -> Option<String> {
    let config = builder.config;
    let (name, interpolation) = (builder.coarsening_name(), builder.interpolation_name::<f64>());
    let smoother = smooth::name(config, builder.near_null_space.is_some());
    let unknown = |names: &[&str], key: &str, value: &str| {
        (!names.contains(&value)).then(|| format!("{key} \"{value}\" is computed on the host alone"))
    };
    let aggressive = config.int("amg.coarsening.aggressive_levels") > 0;
    unknown(COARSENINGS, "amg.coarsening.type", &name)
        .or_else(|| {
            // Pairs that do not go together are told by the host, too.
            let known = match (name.as_str(), aggressive) {
                ("pmis", false) => CLASSICAL,
                ("pmis", true) => TWO_STAGE,
                _ => AGGREGATION,
            };
            unknown(known, "amg.interpolation.type", &interpolation)
        })
        .or_else(|| unknown(SMOOTHERS, "amg.smoother.type", &smoother))
        .or_else(|| {
            let multipass = aggressive && config.text("amg.interpolation.aggressive") == "multipass";
            multipass.then(|| "multipass interpolation is computed on the host alone".to_string())
        })
}

/// Levels in the precision of set-up as a device computes them, one after the other; renewals where there is something of earlier ones.
pub(super) struct Computing<'a, T> {
    builder: &'a Builder<'a>,
    gpu: &'a Gpu,
    renewing: bool,
    /// Of the levels to come.
    earlier: std::vec::IntoIter<Kept>,
    /// The matrix of the next level; none when all are computed.
    next: Option<DeviceCsr<T>>,
    space: Option<Arc<DeviceNearNullSpace>>,
    /// Of the next level, where there are several.
    functions: Option<Arc<DeviceFunctions>>,
    checks: Arc<Mutex<Checks>>,
    levels: Vec<There<T>>,
    kept: Vec<Kept>,
    renewal: Renewal,
}

impl<T: Scalar> Levels for Computing<'_, T> {
    type Level = There<T>;

    fn at(&mut self, i: usize, phases: &mut Phases) -> Result<&mut There<T>> {
        while self.levels.len() <= i {
            self.compute_next(phases)?;
        }
        Ok(&mut self.levels[i])
    }
}

impl<'a, T: Scalar> Computing<'a, T> {
    pub fn new(builder: &'a Builder<'a>, gpu: &'a Gpu, kept: Option<Vec<Kept>>) -> Result<Computing<'a, T>> {
        check_square(builder.matrix)?;
        let renewing = kept.is_some();
        let kept = kept.unwrap_or_default();
        let checks = Arc::new(Mutex::new(Checks::new(gpu)));
        let a = builder.fine_matrix_there::<T>(gpu, kept.first().and_then(|kept| kept.nodes.as_ref()))?;
        let earlier = kept.into_iter();
        let space = builder.near_null_space_there(gpu, &a)?;
        let functions = match builder.function_count::<T>()? {
            1 => None,
            count => Some(Arc::new(DeviceFunctions::in_turn(gpu, a.rows, count)?)),
        };
        let (next, levels, kept) = (Some(a), Vec::new(), Vec::new());
        let renewal = Renewal::default();
        Ok(Computing { builder, gpu, renewing, earlier, next, space, functions, checks, levels, kept, renewal })
    }

    /// All levels that are not yet.
    pub fn compute_all(&mut self, phases: &mut Phases) -> Result<&mut [There<T>]> {
        while self.next.is_some() {
            self.compute_next(phases)?;
        }
        Ok(&mut self.levels)
    }

    /// The next level, and the matrix of the one after it.
    fn compute_next(&mut self, phases: &mut Phases) -> Result<()> {
        let (builder, gpu) = (self.builder, self.gpu);
        let a = self.next.take().expect("there is another level");
        let (level, rows, entries) = (self.levels.len(), a.scalar_rows(), a.entries());
        builder.context.log(LogLevel::Debug, || format!("level {level}: {rows} rows, {entries} nonzeros"));
        let config = builder.config;
        let (max_levels, max_rows) = (config.int("amg.max_levels"), config.int("amg.coarsest.max_rows"));
        let rechecks = builder.rechecks();
        let mut old = self.earlier.next();
        let last = if self.renewing && !rechecks { old.is_none() } else { rows <= max_rows || level + 1 >= max_levels };
        // What the level is chosen and interpolated by.
        let is_needed = !last && (rechecks || old.as_ref().is_none_or(|old| old.transfers.has_choice()));
        let mut pattern = old.as_ref().and_then(|old| old.within.clone());
        let within = match &self.functions {
            Some(functions) if is_needed => builder.timed(gpu, level, phases, "strength", || match &pattern {
                Some(pattern) => functions.renew(gpu, &a, pattern).map(Some),
                None => functions.within(gpu, &a).map(Some),
            })?,
            _ => None,
        };
        pattern = pattern.or(within.as_ref().map(DeviceCsr::pattern));
        let couplings = within.unwrap_or(a.clone());
        let other = match old.as_ref().and_then(|old| old.rechecked.as_ref()) {
            Some(kept) if rechecks => builder.other_choice_there(gpu, &couplings, level, &kept.choice, phases)?,
            _ => None,
        };
        if other.is_some() {
            builder.begins_anew(level);
            (old, self.earlier, self.renewal.anew) = (None, Vec::new().into_iter(), true);
        }
        self.renewal.kept_levels += usize::from(old.is_some());
        let mut computed = There {
            number: level,
            rows,
            entries,
            coarse_rows: None,
            a: None,
            transfer: None,
            scale: None,
            coarse_scale: None,
            found: None,
            l1_inverse: Mutex::new(None),
            inverse: Mutex::new(None),
            checks: Arc::clone(&self.checks),
            known: None,
            earlier: None,
            estimated: OnceLock::new(),
            earlier_formats: Formats::default(),
            formats: Mutex::default(),
        };
        let next_functions = old.as_ref().and_then(|old| old.functions.clone());
        let (start, product, earlier_eigenvalue, formats, rechecked) = match (old, other) {
            (Some(Kept { transfers, coarse_matrix, recipe, largest_eigenvalue, formats, rechecked, .. }), _) => {
                let product = Some((coarse_matrix, recipe));
                (Start::Earlier(transfers), product, largest_eigenvalue, formats, rechecked)
            }
            (None, Some(choice)) => (Start::Choice(choice), None, None, Formats::default(), None),
            (None, None) => (Start::Nothing, None, None, Formats::default(), None),
        };
        let step = match last {
            true => None,
            false => builder.step_there(gpu, &couplings, level, self.space.as_deref(), start, phases)?,
        };
        drop(couplings);
        if let Some(Step { p, r, next_space, known, largest, inverse, choice, transfers }) = step {
            // A coarsening that has stalled before may do so no more.
            self.renewal.anew |= self.renewing && choice.is_some();
            let (coarse, recipe) = builder.timed(gpu, level, phases, "galerkin", || match product {
                None => {
                    let (coarse, recipe) = galerkin::product(gpu, &r, &a, &p)?;
                    Ok((coarse, Arc::new(recipe)))
                }
                Some((pattern, recipe)) => {
                    let values = galerkin::renew(gpu, &recipe, &r, &a, &p)?;
                    Ok((pattern.with(values), recipe))
                }
            })?;
            let next_space = match (next_space, &rechecked) {
                (None, Some(rechecked)) => rechecked.next_space.clone(),
                (next_space, _) => next_space.map(Arc::new),
            };
            self.functions = match (&self.functions, &choice) {
                (Some(functions), Some(choice)) => Some(Arc::new(functions.coarse(gpu, &choice.coarse)?)),
                _ => next_functions,
            };
            let rechecked = match choice {
                Some(choice) if builder.keeps_choices() => Some(Rechecked { choice, next_space: next_space.clone() }),
                _ => rechecked,
            };
            self.space = next_space.or(self.space.take());
            let largest_eigenvalue = largest.or(earlier_eigenvalue);
            let earlier = largest_eigenvalue.clone();
            let coarse_matrix = coarse.pattern();
            let gathered = level == 0 && builder.gathered(builder.coarsening::<T>()).is_some();
            let (nodes, none) = (gathered.then(|| a.pattern()), Formats::default());
            self.kept.push(Kept {
                nodes,
                transfers,
                coarse_matrix,
                recipe,
                largest_eigenvalue,
                formats: none,
                rechecked,
                within: pattern,
                functions: self.functions.clone(),
            });
            computed = There {
                coarse_rows: Some(coarse.scalar_rows()),
                transfer: Some((p, r)),
                inverse: Mutex::new(inverse),
                known,
                earlier,
                formats: Mutex::new(formats.clone()),
                earlier_formats: formats,
                ..computed
            };
            self.next = Some(coarse);
        }
        computed.a = Some(a);
        self.levels.push(computed);
        Ok(())
    }

    /// Tells what the device could not store while levels were placed. Waits for it.
    pub fn check_placed(&self) -> Result<()> {
        std::mem::replace(&mut *lock(self.checks.lock()), Checks::new(self.gpu)).look()
    }

    /// What was done with the choices of the levels so far.
    pub fn renewal(&self) -> Renewal {
        self.renewal
    }

    /// What is kept for a renewal, with the eigenvalues that were estimated and the formats that were chosen on the way.
    pub fn into_kept(self) -> Vec<Kept> {
        let mut kept = self.kept;
        for (kept, level) in kept.iter_mut().zip(self.levels) {
            kept.largest_eigenvalue = level.estimated.into_inner().or(kept.largest_eigenvalue.take());
            kept.formats = level.formats.into_inner().unwrap_or_default();
        }
        kept
    }
}

/// Whether renewals from these have left rows of interpolations undone, which they did not wait to know. The next ones will. Waits for the device.
pub(super) fn left_over(gpu: &Gpu, kept: &[Kept]) -> bool {
    // Not to know it is an error of the renewal, which tells it.
    kept.iter().filter(|kept| kept.transfers.left_over(gpu).unwrap_or(false)).count() > 0
}

impl Builder<'_> {
    /// The finest matrix as set-up wants it: blocks taken apart for scalar methods, nodes put together for the others, whose pattern a renewal knows.
    fn fine_matrix_there<T: Scalar>(&self, gpu: &Gpu, nodes: Option<&DevicePattern>) -> Result<DeviceCsr<T>> {
        let (a, coarsening) = (self.matrix.device::<T>(gpu)?, self.coarsening::<T>());
        let size = self.gathered(coarsening);
        if size.is_some() {
            gpu.begin_step(Some(0), "nodes");
        }
        match (size, nodes) {
            (Some(_), Some(nodes)) => gather_nodes::renew(gpu, &a, nodes),
            (Some(size), None) => gather_nodes::gather(gpu, &a, size),
            (None, _) if coarsening.keeps_blocks() => Ok(a),
            (None, _) => to_scalar(gpu, &a),
        }
    }

    /// What aggregation must represent: the caller's vectors, or the constants; nothing for other coarsenings.
    fn near_null_space_there<T: Scalar>(
        &self,
        gpu: &Gpu,
        a: &DeviceCsr<T>,
    ) -> Result<Option<Arc<DeviceNearNullSpace>>> {
        if !self.coarsening::<T>().keeps_blocks() {
            return Ok(None);
        }
        Ok(Some(match &self.near_null_space {
            Some(space) => self.matrix.device_near_null_space(gpu, space)?,
            None => Arc::new(DeviceNearNullSpace::constants(gpu, a.scalar_rows(), a.block.rows)?),
        }))
    }

    /// Runs a phase of a level. At the debug level of the log it waits for the device, so that its time is its own.
    fn timed<R>(
        &self,
        gpu: &Gpu,
        level: usize,
        phases: &mut Phases,
        phase: &'static str,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        gpu.begin_step(Some(level), phase);
        phases.time(phase, || {
            let result = work()?;
            if self.context.logs(LogLevel::Debug) {
                gpu.synchronize()?;
            }
            Ok(result)
        })
    }

    /// Finds the factors of the levels of which a part has 16 bits, as [`Builder::scale`] does; they are applied where matrices are placed.
    pub(super) fn scale_there<T: Scalar>(&self, gpu: &Gpu, levels: &mut [There<T>], plan: &Plan) -> Result<()> {
        let scaling = self.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(());
        }
        gpu.begin_step(None, "scaling");
        let mut found: Vec<_> = levels.iter_mut().map(|level| level.found.take()).collect();
        let scaled: Vec<usize> = (0..levels.len()).filter(|i| plan.is_scaled(*i)).collect();
        let missing = || scaled.iter().filter(|i| found[**i].is_none());
        let matrices: Vec<_> = missing().map(|i| levels[*i].a()).collect();
        let l1 = smooth::name(self.config, self.near_null_space.is_some()) == "l1_jacobi";
        let missing: Vec<usize> = missing().copied().collect();
        for (i, factors) in missing.into_iter().zip(scaling::factors(gpu, &matrices, &scaling, l1)?) {
            found[i] = Some(at_level(i, factors)?);
        }
        for i in scaled {
            let Some(scaling::Scaled { factors, l1_inverse }) = found[i].take() else { continue };
            let factors = Arc::new(factors);
            levels[i].l1_inverse = Mutex::new(l1_inverse);
            if i > 0 {
                levels[i - 1].coarse_scale = Some(Arc::clone(&factors));
            }
            levels[i].scale = Some(factors);
        }
        Ok(())
    }
}

impl Builder<'_> {
    /// Chooses the formats of all matrices that have none of an earlier time, with few waits.
    pub(super) fn choose_formats<T: Scalar>(&self, gpu: &Gpu, levels: &[There<T>], plan: &Plan) -> Result<()> {
        if self.sums() == Sums::Rounded {
            return Ok(());
        }
        gpu.begin_step(None, "formats");
        // The precision of sums for results of one.
        let wide = |precision: Precision| if precision == Precision::F64 { precision } else { Precision::F32 };
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for (i, level) in levels.iter().enumerate() {
            let formats = lock(level.formats.lock());
            let (vector, transfer) = (plan.of(LevelPart::Vector, i), plan.of(LevelPart::Transfer, i));
            let mut want = |part: Part, pattern: DevicePattern, storage: Precision, sums: Precision| {
                wanted.push(Wanted { pattern, storage, sums });
                places.push((i, part));
            };
            // The finest matrix may be placed in other blocks than those that set-up works with.
            let as_given = level.scale.is_none() && i == 0;
            let otherwise = as_given && self.matrix.block() != level.a().block || self.took_apart(i, level.a().block);
            if formats.matrix.is_none() && !otherwise {
                want(Part::Matrix, level.a().pattern(), plan.of(LevelPart::Matrix, i), wide(vector));
            }
            let Some((p, r)) = &level.transfer else { continue };
            if formats.restriction.is_none() {
                let below = plan.of(LevelPart::Vector, i + 1);
                let to = if self.range(vector, below).is_some() { vector } else { below };
                want(Part::Restriction, r.pattern(), transfer, wide(to));
            }
            if formats.interpolation.is_none() {
                want(Part::Interpolation, p.pattern(), transfer, wide(vector));
            }
        }
        for ((i, part), format) in places.into_iter().zip(Format::of_all(gpu, &wanted)?) {
            let formats = &mut *lock(levels[i].formats.lock());
            *match part {
                Part::Matrix => &mut formats.matrix,
                Part::Restriction => &mut formats.restriction,
                Part::Interpolation => &mut formats.interpolation,
            } = Some(format);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
