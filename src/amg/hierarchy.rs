//! Set-up: from a matrix to a hierarchy of levels, each in the precisions that the options name.
//!
//! All levels are first computed in the precision of set-up ([`levels`]), then stored in their own ([`place`]).

mod decide;
mod levels;
mod place;

use super::finest::Finest;
use super::null_space::NearNullSpace;
use super::plan::Plan;
use crate::backend::{Backend, Place};
use crate::config::Config;
use crate::context::Context;
use crate::error::Result;
use crate::host::Host;
use crate::host::spmv::Sums;
use crate::matrix::Matrix;
use crate::report::Phases;
use crate::scalar::{Precision, Scalar, with_precision};
use crate::sparse::SharedCsr;
pub(super) use levels::Kept;
use levels::{Raw, with_estimates};
use place::Placing;
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

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
            let top = self.finest(backend, &host, &mut raw, &plan, &mut phases)?;
            return Ok(Built { top, plan, kept: with_estimates(kept, raw), phases });
        }
        // What is held against the rehearsal is on the host, and used as it is where the solve phase runs there.
        let mut top = self.finest(&host, &host, &mut raw, &plan, &mut phases);
        while let Some(reason) = self.objection(&mut top, &plan, rehearsal.as_ref())? {
            if !plan.promote(None, &reason) {
                break;
            }
            top = self.finest(&host, &host, &mut raw, &plan, &mut phases);
        }
        let top: Box<dyn Any> = Box::new(top?);
        let top = match top.downcast::<Box<dyn Finest<B>>>() {
            Ok(top) => *top,
            Err(_) => self.finest(backend, &host, &mut raw, &plan, &mut phases)?,
        };
        Ok(Built { top, plan, kept: with_estimates(kept, raw), phases })
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
