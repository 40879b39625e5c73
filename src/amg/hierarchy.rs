//! Set-up: from a matrix to a hierarchy of levels, each in the precisions that the options name.
//!
//! All levels are first computed in the precision of set-up (`Raw`), then stored in their own (`wrap`). What a renewal with new
//! values needs is kept with them: strong couplings, coarse unknowns, patterns.

mod decide;

use super::coarsen::{self, Coarse, Coarsening};
use super::cycle::{self, Below, CoarseGrid, Level, Shape};
use super::finest::{Entrance, Finest};
use super::galerkin;
use super::interp::{self, Input, Interpolation, Memory, Output};
use super::null_space::NearNullSpace;
use super::passage::{self, Fitting, Looking, Passage};
use super::plan::Plan;
use super::scaling::{self, Rounding};
use super::strength::{self, Graph};
use crate::backend::{Backend, Columns, Operator, Place};
use crate::config::{Config, LevelPart, Wanted};
use crate::context::{Context, LogLevel};
use crate::error::{Error, Result, fail, try_vec};
use crate::host::eigenvalue::{Known, Largest};
use crate::host::spmv::Sums;
use crate::host::{Host, dense, transpose};
use crate::matrix::Matrix;
use crate::range::Range;
use crate::report::Phases;
use crate::scalar::{Number, Precision, Scalar, with_precision, with_storage};
use crate::smooth;
use crate::sparse::{Block, CsrView, SharedCsr, Structure};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A coarsest level of more rows than this is not factorised, unless the options ask for more.
const DENSE_LIMIT: usize = 2000;

/// Coarsening that leaves more than this share of the rows has stalled.
const STALLED: f64 = 0.95;

/// What is kept of a step from one level to the next, to renew it with other values.
#[derive(Clone)]
pub(super) struct Kept {
    transfers: Transfers,
    coarse_matrix: Arc<Structure>,
    /// As in [`galerkin::Earlier`].
    recipe: Option<Arc<galerkin::Recipe>>,
    /// The largest eigenvalue that the smoother went by, where it was estimated.
    largest_eigenvalue: Option<Largest>,
}

/// How prolongator and restriction come back.
#[derive(Clone)]
enum Transfers {
    /// Computed anew for the strong couplings, coarse unknowns and patterns of the first time.
    Renewed {
        graph: Arc<Graph>,
        coarse: Arc<Coarse>,
        p: Arc<Structure>,
        r: Arc<Structure>,
        /// Found in the first renewal.
        transposition: Option<Arc<transpose::Recipe>>,
        memory: Option<Arc<dyn Memory>>,
    },
    /// As they are: a pair of matrices in the precision of set-up, with the bytes of values that no level shares with it, and their patterns.
    Unchanged { pair: Arc<dyn Any + Send + Sync>, bytes: usize, p: Arc<Structure>, r: Arc<Structure> },
}

impl Kept {
    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        // A level that stores its indices in its own way leaves the pattern to this one alone.
        let alone = |pattern: &Arc<Structure>, here: usize| match Arc::strong_count(pattern) {
            count if count > here => 0,
            _ => pattern.owned_bytes(),
        };
        let transfers = match &self.transfers {
            Transfers::Renewed { graph, coarse, p, r, transposition, memory } => {
                let transposition = transposition.as_ref().map_or(0, |recipe| recipe.bytes());
                let memory = memory.as_ref().map_or(0, |memory| memory.bytes());
                graph.bytes() + coarse.bytes() + alone(p, 1) + alone(r, 1) + transposition + memory
            }
            Transfers::Unchanged { bytes, p, r, .. } => bytes + alone(p, 2) + alone(r, 2),
        };
        transfers + alone(&self.coarse_matrix, 1) + self.recipe.as_ref().map_or(0, |recipe| recipe.bytes())
    }
}

/// Prolongator, restriction, and what else interpolation told.
struct Step<T> {
    p: SharedCsr<T>,
    r: SharedCsr<T>,
    next_space: Option<NearNullSpace>,
    known: Known<T>,
    /// What a later estimate for the smoother can go by.
    largest_eigenvalue: Option<Largest>,
    kept: Transfers,
}

/// A level as computed.
struct Raw<T> {
    a: SharedCsr<T>,
    /// Prolongator and restriction to the next level; none on the coarsest.
    transfer: Option<(SharedCsr<T>, SharedCsr<T>)>,
    known: Known<T>,
    /// The largest eigenvalue, where the smoother had to estimate it.
    estimated: OnceLock<Largest>,
    /// The factors by which its variables are multiplied.
    scale: Option<Vec<f64>>,
    /// Those that were found when its formats were chosen, for when it is scaled.
    factors: Option<Vec<f64>>,
}

/// The matrices of a level, to look at.
pub struct LevelMatrices {
    /// The matrix of the level.
    pub a: SharedCsr<f64>,
    /// Prolongator P from and restriction R to the next level; none on the coarsest.
    pub transfer: Option<(SharedCsr<f64>, SharedCsr<f64>)>,
}

/// Everything that set-up made for a backend.
pub(super) struct Built<B: Backend> {
    pub top: Box<dyn Finest<B>>,
    pub plan: Plan,
    pub kept: Vec<Kept>,
    pub phases: Phases,
}

/// Set-up of one matrix with one set of options.
pub(super) struct Builder<'a> {
    pub context: &'a Context,
    pub config: &'a Config,
    pub matrix: &'a Matrix,
    /// What the caller told about the matrix when set-up began; a renewal must not see a later one.
    pub near_null_space: Option<Arc<NearNullSpace>>,
    /// The formats, if they are not to be chosen anew.
    pub plan: Option<Plan>,
}

impl Builder<'_> {
    /// The hierarchy; with what was kept of an earlier one for the same structure, only its values are computed.
    pub fn build<B: Place>(&self, backend: &B, kept: Option<Vec<Kept>>) -> Result<Built<B>> {
        let setup = self.config.text("precision.setup");
        let setup = Precision::from_name(&setup).unwrap_or(Precision::F64);
        with_precision!(setup, T => self.build_in::<B, T>(backend, kept))
    }

    /// The matrices of all levels as set-up computes them, before each is stored in its own precision.
    pub fn level_matrices(&self) -> Result<Vec<LevelMatrices>> {
        let setup = self.config.text("precision.setup");
        let setup = Precision::from_name(&setup).unwrap_or(Precision::F64);
        with_precision!(setup, T => self.level_matrices_in::<T>())
    }

    fn level_matrices_in<T: Scalar>(&self) -> Result<Vec<LevelMatrices>> {
        let host = Host::new(self.context);
        let (raw, _) = self.compute::<T>(&host, None, &mut Phases::default())?;
        raw.into_iter()
            .map(|level| {
                let transfer = level.transfer.map(|(p, r)| Ok((p.cast()?, r.cast()?))).transpose()?;
                Ok(LevelMatrices { a: level.a.cast()?, transfer })
            })
            .collect()
    }

    fn build_in<B: Place, T: Scalar>(&self, backend: &B, kept: Option<Vec<Kept>>) -> Result<Built<B>> {
        let host = Host::new(self.context);
        let mut phases = Phases::default();
        let (mut raw, kept) = self.compute::<T>(&host, kept, &mut phases)?;
        let asked = || Plan::asked(self.config, self.matrix.precision(), raw.len());
        let mut plan = self.plan.clone().unwrap_or_else(asked);
        let rehearsal = match self.plan {
            None if plan.is_open() => {
                let start = Instant::now();
                let rehearsal = self.decide(&host, &mut raw, &mut plan)?;
                phases.add("plan", start.elapsed().as_secs_f64());
                rehearsal
            }
            _ => None,
        };
        phases.time("scaling", || self.scale(&mut raw, &plan))?;
        if !plan.is_open() {
            let top = self.finest(backend, &host, &raw, &plan, &mut phases)?;
            return Ok(Built { top, plan, kept: with_estimates(kept, raw), phases });
        }
        // What is held against the rehearsal is on the host, and used as it is where the solve phase runs there.
        let mut top = self.finest(&host, &host, &raw, &plan, &mut phases);
        while let Some(reason) = self.objection(&mut top, &plan, rehearsal.as_ref())? {
            if !plan.promote(None, &reason) {
                break;
            }
            top = self.finest(&host, &host, &raw, &plan, &mut phases);
        }
        let top: Box<dyn Any> = Box::new(top?);
        let top = match top.downcast::<Box<dyn Finest<B>>>() {
            Ok(top) => *top,
            Err(_) => self.finest(backend, &host, &raw, &plan, &mut phases)?,
        };
        Ok(Built { top, plan, kept: with_estimates(kept, raw), phases })
    }

    /// The levels, entered from the caller's vectors.
    fn finest<B: Place, T: Scalar>(
        &self,
        backend: &B,
        host: &Host,
        raw: &[Raw<T>],
        plan: &Plan,
        phases: &mut Phases,
    ) -> Result<Box<dyn Finest<B>>> {
        let guarded = self.config.choice("precision.residual_scaling").is_none();
        let watched = plan.is_narrow();
        let scaling = match raw[0].scale.as_deref().map(entrance).transpose()? {
            Some((shift, inverse)) => Some((shift, backend.array(inverse)?)),
            None => None,
        };
        with_storage!(plan.of(LevelPart::Vector, 0), V => {
            let level = self.wrap::<B, T, V>(backend, host, raw, plan, 0, phases)?;
            Ok(Box::new(Entrance::new(level, scaling, guarded, watched)?))
        })
    }

    /// All levels in the precision of set-up.
    fn compute<T: Scalar>(
        &self,
        host: &Host,
        kept: Option<Vec<Kept>>,
        phases: &mut Phases,
    ) -> Result<(Vec<Raw<T>>, Vec<Kept>)> {
        if self.matrix.rows() != self.matrix.cols() {
            return fail!(
                SizeMismatch,
                "AMG needs a square matrix; this one has {} rows and {} columns",
                self.matrix.rows(),
                self.matrix.cols()
            );
        }
        let coarsening = self.coarsening::<T>();
        let fine = self.fine_matrix::<T>(coarsening)?;
        self.coarsen_all(host, coarsening, fine, kept, phases)
    }

    fn coarsening<T: Scalar>(&self) -> &'static dyn Coarsening<T> {
        let blocks = self.matrix.structure().block != Block::SCALAR || self.near_null_space.is_some();
        let default = if blocks { "mis2" } else { "pmis" };
        coarsen::find(&self.config.choice("amg.coarsening.type").unwrap_or(default.to_string()))
    }

    /// The finest matrix as set-up wants it: blocks taken apart for scalar methods, nodes put together for the others.
    fn fine_matrix<T: Scalar>(&self, coarsening: &dyn Coarsening<T>) -> Result<SharedCsr<T>> {
        let a = self.matrix.shared::<T>()?;
        let block = a.structure.block;
        let dofs = self.near_null_space.as_ref().map_or(block.rows, |s| s.dofs_per_node);
        if !coarsening.keeps_blocks() && block != Block::SCALAR {
            return Ok(a.view().to_scalar()?.into_shared());
        }
        if coarsening.keeps_blocks() && block == Block::SCALAR && dofs > 1 {
            return Ok(a.view().to_blocks(dofs)?.into_shared());
        }
        Ok(a)
    }

    fn coarsen_all<T: Scalar>(
        &self,
        host: &Host,
        coarsening: &dyn Coarsening<T>,
        fine: SharedCsr<T>,
        kept: Option<Vec<Kept>>,
        phases: &mut Phases,
    ) -> Result<(Vec<Raw<T>>, Vec<Kept>)> {
        let default = coarsening.interpolation().to_string();
        let interpolation = interp::find::<T>(&self.config.choice("amg.interpolation.type").unwrap_or(default));
        let mut space = match &self.near_null_space {
            Some(space) => NearNullSpace::clone(space),
            None => NearNullSpace::constants(fine.view().scalar_rows(), fine.structure.block.rows)?,
        };
        let max_levels = self.config.int("amg.max_levels");
        let max_rows = self.config.int("amg.coarsest.max_rows");
        let renewing = kept.is_some();
        let mut earlier = kept.into_iter().flatten();
        let mut levels = Vec::new();
        let mut all_kept = Vec::new();
        let mut a = fine;
        loop {
            let view = a.view();
            let level = levels.len();
            let rows = view.scalar_rows();
            self.context.log(LogLevel::Debug, || format!("level {level}: {rows} rows, {} nonzeros", view.entries()));
            let old = earlier.next();
            let last = if renewing { old.is_none() } else { rows <= max_rows || level + 1 >= max_levels };
            if last {
                break;
            }
            let (transfers, coarse_pattern, mut recipe, earlier_eigenvalue) = match old {
                Some(Kept { transfers, coarse_matrix, recipe, largest_eigenvalue }) => {
                    (Some(transfers), Some(coarse_matrix), recipe, largest_eigenvalue)
                }
                None => (None, None, None, None),
            };
            let Some(step) = self.step(host, coarsening, interpolation, &view, level, &space, transfers, phases)?
            else {
                break;
            };
            let Step { p, r, next_space, mut known, largest_eigenvalue, kept } = step;
            let largest_eigenvalue = largest_eigenvalue.or(earlier_eigenvalue);
            if let (Known::Nothing, Some(largest)) = (&known, &largest_eigenvalue) {
                known = Known::Earlier(largest.clone());
            }
            let earlier = coarse_pattern.as_ref().map(|coarse| galerkin::Earlier { coarse, recipe: &mut recipe });
            let coarse_matrix = phases.time("galerkin", || galerkin::product(&r.view(), &view, &p, earlier))?;
            if let Some(next) = next_space {
                space = next;
            }
            all_kept.push(Kept {
                transfers: kept,
                coarse_matrix: Arc::clone(&coarse_matrix.structure),
                recipe,
                largest_eigenvalue,
            });
            levels.push(Raw {
                a,
                transfer: Some((p, r)),
                known,
                estimated: OnceLock::new(),
                scale: None,
                factors: None,
            });
            a = coarse_matrix;
        }
        levels.push(Raw {
            a,
            transfer: None,
            known: Known::Nothing,
            estimated: OnceLock::new(),
            scale: None,
            factors: None,
        });
        Ok((levels, all_kept))
    }

    /// The transfers from level `level` to the next one; none where coarsening would leave too much.
    #[allow(clippy::too_many_arguments)]
    fn step<T: Scalar>(
        &self,
        host: &Host,
        coarsening: &dyn Coarsening<T>,
        interpolation: &dyn Interpolation<T>,
        a: &CsrView<'_, T>,
        level: usize,
        space: &NearNullSpace,
        earlier: Option<Transfers>,
        phases: &mut Phases,
    ) -> Result<Option<Step<T>>> {
        let mut transposition = None;
        let (graph, coarse, patterns) = match earlier {
            Some(Transfers::Unchanged { pair, bytes, .. }) => {
                let (p, r) = pair
                    .downcast_ref::<(SharedCsr<T>, SharedCsr<T>)>()
                    .expect("the precision of set-up does not change")
                    .clone();
                let (ps, rs) = (Arc::clone(&p.structure), Arc::clone(&r.structure));
                let kept = Transfers::Unchanged { pair, bytes, p: ps, r: rs };
                return Ok(Some(Step {
                    p,
                    r,
                    next_space: None,
                    known: Known::Nothing,
                    largest_eigenvalue: None,
                    kept,
                }));
            }
            Some(Transfers::Renewed { graph, coarse, p, r, transposition: earlier, memory }) => {
                transposition = earlier;
                (graph, coarse, Some((p, r, memory)))
            }
            None => {
                let measure = coarsening.strength();
                let graph = phases.time("strength", || strength::build(self.config, measure, a, level))?;
                let input = coarsen::Input { config: self.config, a: *a, graph: &graph, level };
                let coarse = phases.time("coarsen", || coarsening.coarsen(&input))?;
                let width = if matches!(coarse, Coarse::Aggregates(..)) { space.count } else { 1 };
                let (rows, coarse_rows) = (a.scalar_rows(), coarse.count() * width);
                if coarse_rows == 0 || coarse_rows as f64 > STALLED * rows as f64 {
                    self.context.log(LogLevel::Warning, || {
                        format!(
                            "coarsening stopped at level {level} with {rows} rows: it would leave {coarse_rows} of them"
                        )
                    });
                    return Ok(None);
                }
                (Arc::new(graph), Arc::new(coarse), None)
            }
        };
        let input = Input {
            host,
            config: self.config,
            a: *a,
            graph: &graph,
            coarse: &coarse,
            near_null_space: space,
            pattern: patterns.as_ref().map(|(p, ..)| p),
            memory: patterns.as_ref().and_then(|(.., memory)| memory.as_deref()),
        };
        let (output, r) = phases.time("interpolation", || {
            let output = interp::interpolate(interpolation, &input)?;
            let p = output.p.view();
            let r = match &patterns {
                None => transpose::transpose(&p)?.into_shared(),
                Some((_, r, _)) => {
                    let recipe = match &mut transposition {
                        Some(recipe) => recipe,
                        none => none.insert(Arc::new(transpose::Recipe::find(&p, r)?)),
                    };
                    SharedCsr { structure: Arc::clone(r), values: Arc::new(recipe.renew(&p, r)?) }
                }
            };
            Ok((output, r))
        })?;
        let Output { p, near_null_space: next_space, known, memory } = output;
        let largest_eigenvalue = memory.as_ref().and_then(|memory| memory.largest_eigenvalue().cloned());
        let kept = if self.config.text("amg.update.interpolation") == "keep" {
            let wanted = self.config.level_precision(LevelPart::Transfer, level, self.matrix.precision());
            let shared = wanted == Wanted::Fixed(T::PRECISION);
            let bytes = if shared { 0 } else { p.values.owned_bytes() + r.values.owned_bytes() };
            let pair = Arc::new((p.clone(), r.clone()));
            Transfers::Unchanged { pair, bytes, p: Arc::clone(&p.structure), r: Arc::clone(&r.structure) }
        } else {
            Transfers::Renewed {
                graph,
                coarse,
                p: Arc::clone(&p.structure),
                r: Arc::clone(&r.structure),
                transposition,
                memory,
            }
        };
        Ok(Some(Step { p, r, next_space, known, largest_eigenvalue, kept }))
    }

    /// Scales the levels of which a part has 16 bits.
    fn scale<T: Scalar>(&self, raw: &mut [Raw<T>], plan: &Plan) -> Result<()> {
        let scaling = self.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(());
        }
        for (i, level) in raw.iter_mut().enumerate().filter(|(i, _)| plan.is_scaled(*i)) {
            level.scale = match level.factors.take() {
                Some(factors) => Some(factors),
                None => at_level(i, scaling::factors(&level.a, &scaling))?,
            };
            level.known.scaled();
        }
        let inverses: Vec<Option<Vec<f64>>> =
            raw.iter().map(|level| level.scale.as_ref().map(|scale| scale.iter().map(|s| 1.0 / s).collect())).collect();
        for (i, level) in raw.iter_mut().enumerate() {
            if let Some(inverse) = &inverses[i] {
                level.a = scaling::apply(&level.a, |i| inverse[i], |j| inverse[j])?;
            }
            let (fine, coarse) = (level.scale.as_deref(), inverses.get(i + 1).and_then(|next| next.as_deref()));
            let Some((p, r)) = level.transfer.as_ref().filter(|_| fine.is_some() || coarse.is_some()) else {
                continue;
            };
            let (fine, coarse) = (|i: usize| fine.map_or(1.0, |s| s[i]), |j: usize| coarse.map_or(1.0, |s| s[j]));
            level.transfer = Some((scaling::apply(p, fine, coarse)?, scaling::apply(r, coarse, fine)?));
        }
        Ok(())
    }

    /// Level `i` and all below, stored in their own precisions.
    fn wrap<B: Place, T: Scalar, V: Number>(
        &self,
        backend: &B,
        host: &Host,
        raw: &[Raw<T>],
        plan: &Plan,
        i: usize,
        phases: &mut Phases,
    ) -> Result<Level<B, V>> {
        let config = self.config;
        let shape = Shape::from_name(&config.text("amg.cycle.type"));
        let level = &raw[i];
        let view = level.a.view();
        let rows = view.scalar_rows();
        let storage = plan.of(LevelPart::Matrix, i);
        let smoother_name = smooth::name(config, self.near_null_space.is_some());
        // The finest level reads the caller's own arrays, in their own format, whatever set-up made of them.
        let a: Arc<dyn Operator<B, V>> = with_storage!(storage, S => {
            let own = i > 0 || level.scale.is_some();
            let stored = if own {
                at_level(i, scaling::store::<T, S>(&level.a, "matrix", self.rounding(level)))?
            } else if storage == self.matrix.precision() {
                self.matrix.shared::<S>()?
            } else {
                at_level(i, scaling::store::<T, S>(&self.matrix.shared::<T>()?, "matrix", Rounding::Nearest))?
            };
            let compact = (own || storage != self.matrix.precision()) && !smooth::keeps_matrix(&smoother_name);
            backend.matrix(stored, self.columns(compact), self.sums())?.into()
        });
        let smoother_precision = plan.of(LevelPart::Smoother, i);
        let (known, estimated) = (&level.known, &level.estimated);
        let scale = level.scale.as_deref();
        let setup = smooth::Setup { host, config, a: view, matrix: &level.a, scale, known, estimated };
        let smoother =
            phases.time("smoother", || smooth::build::<B, T, V>(&smoother_name, backend, &setup, smoother_precision));
        let smoother = at_level(i, smoother)?;
        let below = match &level.transfer {
            Some((p, r)) => {
                let vector = plan.of(LevelPart::Vector, i + 1);
                let transfer = plan.of(LevelPart::Transfer, i);
                Below::Coarser(with_storage!(vector, W => {
                    let coarse = self.wrap::<B, T, W>(backend, host, raw, plan, i + 1, phases)?;
                    self.coarser::<B, T, V, W>(backend, (transfer, i), p, r, coarse)?
                }))
            }
            None if config.choice("amg.coarsest.solver").is_none()
                && rows <= DENSE_LIMIT.max(config.int("amg.coarsest.max_rows")) =>
            {
                let inverse = phases.time(
                    "coarsest",
                    || with_storage!(storage, S => backend.dense::<S, V>(rows, dense::inverse(&view)?)),
                );
                Below::Inverse(inverse?)
            }
            None => Below::Sweeps(config.int("amg.coarsest.sweeps")),
        };
        let scratch = (0..smoother.scratch().max(1)).map(|_| backend.zeros(rows)).collect::<Result<_>>()?;
        Ok(Level {
            backend: backend.clone(),
            shape,
            a,
            smoother,
            smoother_name,
            smoother_precision,
            pre_sweeps: config.level_int("amg.smoother.pre_sweeps", i),
            post_sweeps: config.level_int("amg.smoother.post_sweeps", i),
            scratch,
            below,
            nonzeros: view.entries(),
        })
    }

    /// How the matrix of a level is rounded: in the scaled variables the constant vector is the scale.
    fn rounding<'r, T>(&self, level: &'r Raw<T>) -> Rounding<'r> {
        match &level.scale {
            Some(scale) if self.config.text("precision.rounding") == "row_sums" => Rounding::Keeping(scale),
            _ => Rounding::Nearest,
        }
    }

    /// Columns of a matrix that the library stores itself, where it may have short ones. Only wide sums know them.
    fn columns(&self, compact: bool) -> Columns {
        let open = self.config.choice("precision.indices").is_none() && self.sums() == Sums::Wide;
        if compact && open { Columns::Compact } else { Columns::Shared }
    }

    fn sums(&self) -> Sums {
        if self.config.text("precision.accumulate") == "storage" { Sums::Rounded } else { Sums::Wide }
    }

    /// A coarse level, seen from one whose vectors have precision `V`.
    fn coarser<B: Place, T: Scalar, V: Number, W: Number>(
        &self,
        backend: &B,
        (transfer, fine): (Precision, usize),
        p: &SharedCsr<T>,
        r: &SharedCsr<T>,
        level: Level<B, W>,
    ) -> Result<Box<dyn CoarseGrid<B, V>>> {
        let n = level.a.rows();
        let inner = match level.shape {
            Shape::K if !level.is_exact() => Some((backend.zeros(n)?, backend.zeros(n)?)),
            _ => None,
        };
        let (b, x) = (backend.zeros(n)?, backend.zeros(n)?);
        let passage = with_storage!(transfer, S => self.passage::<B, T, S, V, W>(backend, fine, p, r)?);
        Ok(Box::new(cycle::Coarse::<B, V, W> { passage, b, x, inner, level }))
    }

    /// The way to a coarse level and back, with transfers stored as `S`.
    fn passage<B: Place, T: Scalar, S: Number, V: Number, W: Number>(
        &self,
        backend: &B,
        fine: usize,
        p: &SharedCsr<T>,
        r: &SharedCsr<T>,
    ) -> Result<Box<dyn Passage<B, V, W>>> {
        let stored = |m: &SharedCsr<T>, what: &str| at_level(fine, scaling::store::<T, S>(m, what, Rounding::Nearest));
        let (r, p) = (stored(r, "restriction")?, stored(p, "prolongator")?);
        let (columns, sums) = (self.columns(true), self.sums());
        let narrower =
            W::PRECISION == Precision::F16 || V::PRECISION == Precision::F64 && W::PRECISION != Precision::F64;
        let range =
            Range::of(W::PRECISION).filter(|_| narrower && self.config.choice("precision.residual_scaling").is_none());
        let backend = backend.clone();
        let Some(range) = range.filter(|_| !B::LOOKS) else {
            let (restriction, interpolation) = (backend.matrix(r, columns, sums)?, backend.matrix(p, columns, sums)?);
            let transfers = passage::Transfers { backend, restriction, interpolation };
            return Ok(match range {
                Some(range) => Box::new(Looking { transfers, range, factor: 1.0 }),
                None => Box::new(transfers),
            });
        };
        let (wide, factor) = (backend.zeros(r.view().scalar_rows())?, backend.factor()?);
        let (restriction, interpolation) = (backend.matrix(r, columns, sums)?, backend.matrix(p, columns, sums)?);
        let transfers = passage::Transfers { backend, restriction, interpolation };
        Ok(Box::new(Fitting { transfers, wide, range, factor, of: PhantomData }))
    }
}

/// The inverse of the finest level's scaling in two parts, a power of two and one for each row, which f32 can hold.
fn entrance(s: &[f64]) -> Result<(f64, Vec<f32>)> {
    let (low, high) = s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(*s), high.max(*s)));
    let middle = (0.5 * (low.log2() + high.log2())).round().exp2();
    let mut inverse = try_vec(s.len(), 0.0_f32)?;
    for (to, s) in inverse.iter_mut().zip(s) {
        *to = (middle / s) as f32;
    }
    if inverse.iter().any(|v| !v.is_normal()) {
        return fail!(
            PrecisionLost,
            "level 0: diagonals from {low:.1e} to {high:.1e}, squared, are too far apart for 16-bit storage; store it in f32"
        );
    }
    Ok((1.0 / middle, inverse))
}

/// What was kept, with the eigenvalues that were estimated on the way.
fn with_estimates<T>(mut kept: Vec<Kept>, raw: Vec<Raw<T>>) -> Vec<Kept> {
    for (kept, level) in kept.iter_mut().zip(raw) {
        kept.largest_eigenvalue = level.estimated.into_inner().or(kept.largest_eigenvalue.take());
    }
    kept
}

/// A result, its error telling the level.
fn at_level<R>(level: usize, result: Result<R>) -> Result<R> {
    result.map_err(|error| Error::new(error.status, format!("level {level}: {}", error.message)))
}
