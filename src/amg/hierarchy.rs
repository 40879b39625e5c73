//! Set-up: from a matrix to a hierarchy of levels, each in the precisions that the options name.
//!
//! All levels are first computed in the precision of set-up, on the host ([`levels`]) or on a GPU ([`device`]), then stored in their own
//! ([`place`]).

mod choice;
mod decide;
mod device;
mod levels;
mod place;

use super::finest::Finest;
use super::plan::Plan;
use crate::backend::{Backend, Place};
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Result, Status, fail};
use crate::gpu::Gpu;
use crate::host::Host;
use crate::matrix::Matrix;
use crate::report::Phases;
use crate::scalar::{Precision, Scalar, Sums, with_precision};
use crate::sparse::{Block, NearNullSpace, SharedCsr};
pub use choice::Renewal;
use decide::OnHost;
use levels::{Raw, with_estimates};
use place::Placing;
use std::any::Any;
use std::sync::Arc;

/// Coarsening that leaves more than this share of the rows has stalled.
const STALLED: f64 = 0.95;

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
    pub kept: Kept,
    pub renewal: Renewal,
    pub phases: Phases,
    pub place: String,
}

/// What is kept of the steps from level to level, to renew them with other values, where they were computed.
#[derive(Clone)]
pub(super) enum Kept {
    Host(Vec<levels::Kept>),
    Device(Vec<device::Kept>),
}

impl Kept {
    /// Bytes held beyond what the levels share.
    pub fn bytes(&self) -> usize {
        match self {
            Kept::Host(kept) => kept.iter().map(levels::Kept::bytes).sum(),
            Kept::Device(kept) => kept.iter().map(device::Kept::bytes).sum(),
        }
    }
}

/// Refuses a matrix that no hierarchy can be made of.
pub(super) fn check_square(matrix: &Matrix) -> Result<()> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    if rows != cols {
        return fail!(SizeMismatch, "AMG needs a square matrix; this one has {rows} rows and {cols} columns");
    }
    Ok(())
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
    /// The hierarchy of a context on the host; with what was kept of an earlier one for the same structure, only its values are computed.
    pub fn build_on_host(&self, kept: Option<Kept>) -> Result<Built<Host>> {
        if self.config.text("amg.setup") == "device" {
            return fail!(Unsupported, "option \"amg.setup\" is \"device\", and the context is on the host");
        }
        let host = Host::new(self.context);
        with_precision!(self.precision(), T => self.build_by_threads::<Host, T>(&host, kept, String::new()))
    }

    /// The hierarchy of a context on a GPU, computed there or on the host.
    pub fn build_on_device(&self, gpu: &Gpu, kept: Option<Kept>) -> Result<Built<Gpu>> {
        with_precision!(self.precision(), T => match self.device_objection()? {
            None => self.build_there::<T>(gpu, kept),
            Some(reason) => self.build_by_threads::<Gpu, T>(gpu, kept, reason),
        })
    }

    /// Why set-up for a GPU runs on the host, where it does; an error when the options do not allow it.
    fn device_objection(&self) -> Result<Option<String>> {
        let reason = match self.config.choice("amg.setup").as_deref() {
            Some("host") => return Ok(Some("the options say so".to_string())),
            _ => device::objection(self),
        };
        match reason {
            Some(reason) if self.config.text("amg.setup") == "device" => {
                fail!(Unsupported, "option \"amg.setup\" is \"device\", but {reason}")
            }
            reason => Ok(reason),
        }
    }

    /// How many unknown functions coarsening and interpolation take the matrix for.
    pub fn function_count<T: Scalar>(&self) -> Result<usize> {
        let asked = self.config.int("amg.functions");
        if self.coarsening::<T>().keeps_blocks() {
            if asked > 1 {
                let coarsening = self.coarsening_name();
                return fail!(
                    OptionValue,
                    "amg.functions {asked} needs a C/F splitting; use amg.coarsening.type \"pmis\" or \"hmis\" with it. \"{coarsening}\" \
                     keeps the unknowns of a point together: those of a block, or of a node of the near-null space"
                );
            }
            return Ok(1);
        }
        let rows = self.matrix.rows();
        let count = match asked {
            0 => self.near_null_space.as_ref().map_or(self.matrix.block().rows, |space| space.dofs_per_node),
            count => count,
        };
        if !rows.is_multiple_of(count) {
            return fail!(OptionValue, "amg.functions is {count}, which does not divide the {rows} unknowns");
        }
        Ok(count)
    }

    /// Whether the matrix of a level, which set-up has in these blocks, is the caller's with its blocks taken apart.
    fn took_apart(&self, level: usize, block: Block) -> bool {
        level == 0 && block == Block::SCALAR && self.matrix.block() != Block::SCALAR
    }

    fn precision(&self) -> Precision {
        Precision::from_name(&self.config.text("precision.setup")).unwrap_or(Precision::F64)
    }

    /// The matrices of all levels as set-up computes them, before each is stored in its own precision.
    pub fn level_matrices(&self) -> Result<Vec<LevelMatrices>> {
        with_precision!(self.precision(), T => match self.context.gpu() {
            Some(gpu) if self.device_objection()?.is_none() => {
                let mut levels = device::Computing::<T>::new(self, gpu, None)?;
                levels.compute_all(&mut Phases::default())?.iter().map(|level| level.fetch(gpu)).collect()
            }
            _ => self.level_matrices_in::<T>(),
        })
    }

    fn level_matrices_in<T: Scalar>(&self) -> Result<Vec<LevelMatrices>> {
        let host = Host::new(self.context);
        let (raw, ..) = self.compute::<T>(&host, None, &mut Phases::default())?;
        raw.into_iter()
            .map(|level| {
                let transfer = level.transfer.map(|(p, r)| Ok((p.cast()?, r.cast()?))).transpose()?;
                Ok(LevelMatrices { a: level.a.cast()?, transfer })
            })
            .collect()
    }

    /// [`Builder::build`] by the threads of the context. What a device computes is launched without them: to wake them takes as long as many launches.
    fn build_by_threads<B: Place, T: Scalar>(
        &self,
        backend: &B,
        kept: Option<Kept>,
        reason: String,
    ) -> Result<Built<B>> {
        self.context.run(self.matrix.entries(), || self.build::<B, T>(backend, kept, reason))
    }

    /// Computed on the host; `reason` is why, where it could have been on a device.
    fn build<B: Place, T: Scalar>(&self, backend: &B, kept: Option<Kept>, reason: String) -> Result<Built<B>> {
        let host = Host::new(self.context);
        let mut phases = Phases::default();
        let place = if reason.is_empty() { "host".to_string() } else { format!("host: {reason}") };
        let kept = match kept {
            Some(Kept::Host(kept)) => Some(kept),
            _ => None,
        };
        let (mut raw, kept, renewal) = self.compute::<T>(&host, kept, &mut phases)?;
        let asked = || Plan::asked(self.config, self.matrix.precision(), raw.len());
        let mut plan = self.plan.clone().unwrap_or_else(asked);
        if !plan.is_open() {
            phases.time("scaling", || self.scale(&mut raw, &plan))?;
            let top = self.finest(backend, &host, &mut raw, &plan, &mut phases)?;
            return Ok(Built { top, plan, kept: Kept::Host(with_estimates(kept, raw)), renewal, phases, place });
        }
        // What is held against the rehearsal is on the host, and used as it is where the solve phase runs there.
        let mut candidates = OnHost { builder: self, host: &host, raw: &mut raw };
        let top: Box<dyn Any> = Box::new(self.settle(&host, &mut candidates, &mut plan, &mut phases)?);
        let top = match top.downcast::<Box<dyn Finest<B>>>() {
            Ok(top) => *top,
            Err(_) => self.finest(backend, &host, &mut raw, &plan, &mut phases)?,
        };
        Ok(Built { top, plan, kept: Kept::Host(with_estimates(kept, raw)), renewal, phases, place })
    }

    /// Computed on the device. A renewal that left rows undone, as only its end shows, is repeated; where memory does not suffice for one that
    /// remembers where terms are added, there is one that does not.
    fn build_there<T: Scalar>(&self, gpu: &Gpu, kept: Option<Kept>) -> Result<Built<Gpu>> {
        let kept = match kept {
            Some(Kept::Device(kept)) => Some(kept),
            _ => None,
        };
        let mut result = self.build_there_from::<T>(gpu, kept.clone());
        let Some(kept) = kept else { return result };
        if device::left_over(gpu, &kept) {
            drop(result);
            result = self.build_there_from::<T>(gpu, Some(kept.clone()));
        }
        match result {
            Err(error) if error.status == Status::OutOfMemory => match device::without_places(kept) {
                Some(kept) => self.build_there_from::<T>(gpu, Some(kept)),
                None => Err(error),
            },
            result => result,
        }
    }

    fn build_there_from<T: Scalar>(&self, gpu: &Gpu, kept: Option<Vec<device::Kept>>) -> Result<Built<Gpu>> {
        let (host, mut phases, waits) = (Host::new(self.context), Phases::default(), gpu.waits());
        let known = kept.as_ref().filter(|_| !self.rechecks()).map(|kept| kept.len() + 1);
        let mut levels = device::Computing::<T>::new(self, gpu, kept)?;
        let count = match known {
            Some(count) => count,
            None => levels.compute_all(&mut phases)?.len(),
        };
        let mut plan = self.plan.clone().unwrap_or_else(|| Plan::asked(self.config, self.matrix.precision(), count));
        let told = |levels: device::Computing<'_, T>, top, plan, phases| {
            let place = format!("device, which the host waited for {} times", gpu.waits() - waits);
            let renewal = levels.renewal();
            Built { top, plan, kept: Kept::Device(levels.into_kept()), renewal, phases, place }
        };
        if plan.is_open() {
            levels.compute_all(&mut phases)?;
            let mut candidates = device::OnDevice { host: &host, computing: &mut levels };
            let top = self.settle(gpu, &mut candidates, &mut plan, &mut phases)?;
            return Ok(told(levels, top, plan, phases));
        }
        // A renewal has its formats: each level is placed as soon as it is computed, unless factors depend on all.
        if known.is_none() || (0..count).any(|i| plan.is_scaled(i)) {
            let levels = levels.compute_all(&mut phases)?;
            phases.time("scaling", || self.scale_there(gpu, levels, &plan))?;
            phases.time("place", || self.choose_formats(gpu, levels, &plan))?;
        }
        let top = Placing::new(self, gpu, &host, &plan).finest(&mut levels, &mut phases);
        // What was asked before something else failed comes first, as on the host.
        levels.check_placed()?;
        Ok(told(levels, top?, plan, phases))
    }

    /// Tells that coarsening would leave too much.
    fn stalled(&self, level: usize, rows: usize, coarse_rows: usize) {
        self.context.log(LogLevel::Warning, || {
            format!("coarsening stopped at level {level} with {rows} rows: it would leave {coarse_rows} of them")
        });
    }

    /// The levels, stored by a plan.
    fn finest<B: Place, T: Scalar>(
        &self,
        backend: &B,
        host: &Host,
        raw: &mut [Raw<T>],
        plan: &Plan,
        phases: &mut Phases,
    ) -> Result<Box<dyn Finest<B>>> {
        Placing::new(self, backend, host, plan).finest(raw, phases)
    }

    fn sums(&self) -> Sums {
        if self.config.text("precision.accumulate") == "storage" { Sums::Rounded } else { Sums::Wide }
    }
}
