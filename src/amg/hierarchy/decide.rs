//! The choice of number formats in set-up: measures each level for the [plan](crate::amg::plan), and holds the stored hierarchy against the
//! rehearsal. Levels are measured where they were computed, on the host or on a device; the decision is the same.

use super::Builder;
use super::levels::{Raw, entrance};
use crate::amg::finest::Finest;
use crate::amg::plan::{self, Measured, Plan};
use crate::amg::rehearsal::{self, Rehearsal};
use crate::amg::scaling;
use crate::backend::Backend;
use crate::error::{Result, Status, try_vec};
use crate::hash::hash;
use crate::host::eigenvalue::rounded;
use crate::host::{Host, diagonal, spmv};
use crate::par;
use crate::report::Phases;
use crate::scalar::{Precision, Scalar};
use crate::smooth;
use half::{bf16, f16};
use std::time::Instant;

/// Levels as set-up computed them, where they are: what the choice of their formats asks of them.
pub(super) trait Candidates<B: Backend> {
    /// Stored values of the matrix of each level, and of its prolongator.
    fn sizes(&self) -> Vec<(usize, Option<usize>)>;
    /// Scalar rows of the finest level.
    fn rows(&self) -> usize;
    /// The precision that they were computed in.
    fn precision(&self) -> Precision;
    /// All levels, stored by a plan; they can be stored by another one later.
    fn store(&mut self, plan: &Plan, phases: &mut Phases) -> Result<Box<dyn Finest<B>>>;
    /// The absolute values of the diagonal of the finest level, and random numbers between -1 and 1 in the units of its rows.
    fn start(&self) -> Result<(B::Buffer<f64>, B::Buffer<f64>)>;
    /// x·A x for the caller's matrix.
    fn energy(&self, x: &B::Slice<f64>) -> Result<f64>;
    /// What rounding does to each level, given a smooth vector of it and the shares of all entries that its matrix and its transfers have. Keeps
    /// the factors that it finds for [`Candidates::scale`].
    fn measure(&mut self, smooth: &[&B::Slice<f64>], shares: &[(f64, Option<f64>)]) -> Result<Vec<Measured>>;
    /// Scales the levels of which a part has 16 bits.
    fn scale(&mut self, plan: &Plan) -> Result<()>;
}

impl Builder<'_> {
    /// Chooses the formats that the options left open, unless they were chosen before, and stores the levels in them; in wider ones where
    /// those do not hold a level or spoil the cycle.
    pub(super) fn settle<B: Backend>(
        &self,
        backend: &B,
        levels: &mut dyn Candidates<B>,
        plan: &mut Plan,
        phases: &mut Phases,
    ) -> Result<Box<dyn Finest<B>>> {
        let mut rehearsal = None;
        if self.plan.is_none() {
            let start = Instant::now();
            rehearsal = self.decide(backend, levels, plan)?;
            phases.add("plan", start.elapsed().as_secs_f64());
        }
        phases.time("scaling", || levels.scale(plan))?;
        loop {
            let mut top = levels.store(plan, phases);
            match objection(levels, &mut top, plan, rehearsal.as_ref())? {
                Some(reason) if plan.promote(None, &reason) => {}
                _ => return top,
            }
        }
    }

    /// Chooses the formats that the options left open; the rehearsal is what the hierarchy in these formats can be held against.
    fn decide<B: Backend>(
        &self,
        backend: &B,
        levels: &mut dyn Candidates<B>,
        plan: &mut Plan,
    ) -> Result<Option<Rehearsal<B>>> {
        let sizes = levels.sizes();
        let total: usize = sizes.iter().map(|(matrix, _)| matrix).sum();
        if total < plan::TINY || sizes.len() == 1 {
            plan.leave(if sizes.len() == 1 { "one level alone" } else { "too small to gain anything" });
            return Ok(None);
        }
        let full = Plan::uniform(levels.precision(), sizes.len());
        let mut top = levels.store(&full, &mut Phases::default())?;
        let (diagonal, b) = levels.start()?;
        let energy = |x: &B::Slice<f64>| levels.energy(x);
        let rehearsal = Rehearsal::new(backend, levels.rows(), &mut *top, (&diagonal, b), energy)?;
        drop((top, diagonal));
        let shares: Vec<(f64, Option<f64>)> = sizes
            .iter()
            .enumerate()
            .map(|(i, (matrix, transfer))| {
                // A small share keeps f32: rounding an inverse to 16 bits can cost it its definiteness.
                let exact = i + 1 == sizes.len();
                let share = |entries: usize| if exact { 0.0 } else { entries as f64 / total as f64 };
                (share(*matrix), transfer.map(|entries| 2.0 * share(entries)))
            })
            .collect();
        let keeps_matrix = smooth::keeps_matrix(&smooth::name(self.config, self.near_null_space.is_some()));
        // Cycles on the host and on a device add in different orders, and shall lead to the same formats.
        let precision = levels.precision();
        let common = |value: f64| rounded(value, precision);
        let quality = common(rehearsal.quality);
        for (i, measured) in levels.measure(&rehearsal.smooth(), &shares)?.iter().enumerate() {
            plan.decide(i, &measured.map(&common), quality, keeps_matrix);
        }
        Ok(Some(rehearsal))
    }
}

/// What speaks against a hierarchy in formats of which some were left open.
fn objection<B: Backend>(
    levels: &dyn Candidates<B>,
    top: &mut Result<Box<dyn Finest<B>>>,
    plan: &Plan,
    rehearsal: Option<&Rehearsal<B>>,
) -> Result<Option<String>> {
    match (top, rehearsal) {
        (Err(error), _) if plan.is_open() && error.status == Status::PrecisionLost => Ok(Some(error.message.clone())),
        (Ok(top), Some(rehearsal)) if plan.is_narrow() => {
            let loss = rounded(rehearsal.loss(&mut **top, |x| levels.energy(x))?, Precision::F32);
            Ok((loss > rehearsal::LIMIT).then(|| format!("a cycle was off by {:.0} %", 100.0 * loss)))
        }
        _ => Ok(None),
    }
}

/// Levels that the host computed.
pub(super) struct OnHost<'a, T> {
    pub builder: &'a Builder<'a>,
    pub host: &'a Host,
    pub raw: &'a mut [Raw<T>],
}

impl<T: Scalar> OnHost<'_, T> {
    /// Absolute values of the diagonal of level `i`.
    fn diagonal(&self, i: usize) -> Result<Vec<f64>> {
        let mut d = diagonal::entries(&self.raw[i].a.view())?;
        d.iter_mut().for_each(|d| *d = d.abs());
        Ok(d)
    }
}

impl<T: Scalar> Candidates<Host> for OnHost<'_, T> {
    fn sizes(&self) -> Vec<(usize, Option<usize>)> {
        let of = |level: &Raw<T>| (level.a.view().entries(), level.transfer.as_ref().map(|(p, _)| p.view().entries()));
        self.raw.iter().map(of).collect()
    }

    fn rows(&self) -> usize {
        self.raw[0].a.view().scalar_rows()
    }

    fn precision(&self) -> Precision {
        T::PRECISION
    }

    fn store(&mut self, plan: &Plan, phases: &mut Phases) -> Result<Box<dyn Finest<Host>>> {
        self.builder.finest(self.host, self.host, self.raw, plan, phases)
    }

    fn start(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let d = self.diagonal(0)?;
        let mut b = try_vec(d.len(), 0.0)?;
        for (i, b) in b.iter_mut().enumerate() {
            *b = (hash(i, 4) as i64 as f64 / i64::MAX as f64) * d[i].sqrt();
        }
        Ok((d, b))
    }

    fn energy(&self, x: &[f64]) -> Result<f64> {
        let mut y = try_vec(x.len(), 0.0)?;
        let matrix = self.builder.matrix;
        match matrix.precision() {
            Precision::F32 => spmv::apply(&matrix.shared::<f32>()?.view(), 1.0, x, 0.0, &mut y),
            _ => spmv::apply(&matrix.shared::<f64>()?.view(), 1.0, x, 0.0, &mut y),
        }
        Ok(par::sum(x.len(), par::GRAIN, |range| range.map(|i| x[i] * y[i]).sum()))
    }

    fn measure(&mut self, smooth: &[&[f64]], shares: &[(f64, Option<f64>)]) -> Result<Vec<Measured>> {
        let scaling = self.builder.config.text("precision.scaling");
        for (i, level) in self.raw.iter_mut().enumerate() {
            let ones = || try_vec(level.a.view().scalar_rows(), 1.0);
            level.factors = match scaling::factors(&level.a, &scaling) {
                // Vectors of the caller's must come into the scaled variables.
                Ok(Some(factors)) => Some(factors).filter(|s| i > 0 || entrance(s).is_ok()),
                Ok(None) => Some(ones()?),
                Err(error) if error.status == Status::PrecisionLost => None,
                Err(error) => return Err(error),
            };
        }
        let of_level = |(i, level): (usize, &Raw<T>)| {
            let (a, d, w) = (level.a.view(), &self.diagonal(i)?, smooth[i]);
            let (share, transfer_share) = shares[i];
            let energy = plan::energy(&a, d, w)?;
            let matrix = plan::Part::measure(
                share,
                |format| match (&level.factors, format) {
                    (None, _) => plan::Loss::OUT_OF_RANGE,
                    (Some(s), Precision::F16) => plan::matrix_loss::<T, f16>(&a, s, d, w),
                    (Some(s), _) => plan::matrix_loss::<T, bf16>(&a, s, d, w),
                },
                energy,
            );
            let transfer = level.transfer.as_ref().zip(transfer_share).map(|((p, _), share)| {
                let (p, coarse) = (p.view(), smooth[i + 1]);
                plan::Part::measure(
                    share,
                    |format| match (&level.factors, &self.raw[i + 1].factors, format) {
                        (Some(s), Some(c), Precision::F16) => plan::transfer_loss::<T, f16>(&p, (s, c), (d, w), coarse),
                        (Some(s), Some(c), _) => plan::transfer_loss::<T, bf16>(&p, (s, c), (d, w), coarse),
                        _ => plan::Loss::OUT_OF_RANGE,
                    },
                    energy,
                )
            });
            Ok(Measured { energy, matrix, transfer })
        };
        self.raw.iter().enumerate().map(of_level).collect()
    }

    fn scale(&mut self, plan: &Plan) -> Result<()> {
        self.builder.scale(self.raw, plan)
    }
}
