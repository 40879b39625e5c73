//! The choice of number formats in set-up: measures each level for the [plan](crate::amg::plan), and holds the stored hierarchy against the
//! reference. Levels are measured where they were computed, and only numbers come to the host.

use super::compute::Computing;
use super::store::Storing;
use super::{Builder, SetupOn};
use crate::amg::finest::Finest;
use crate::amg::plan::{self, Measured, Part, Plan};
use crate::amg::reference_cycle::{self, ReferenceCycle};
use crate::backend::setup::{Candidate, Loss, Measured as Found, Setup, SetupMatrix};
use crate::backend::spectrum::rounded;
use crate::error::{Result, Status};
use crate::report::Phases;
use crate::scalar::{Precision, Scalar};
use std::time::Instant;

impl Builder<'_> {
    /// Chooses the formats that the options left open, unless they were chosen before, and stores the levels. Formats are promoted if
    /// values are out of range, or if the cycle gets worse.
    pub(super) fn settle<S: SetupOn<S>, T: Scalar>(
        &self,
        levels: &mut Candidates<'_, '_, S, T>,
        plan: &mut Plan,
        phases: &mut Phases,
    ) -> Result<Box<dyn Finest<S>>> {
        let mut reference = None;
        if self.plan.is_none() {
            let start = Instant::now();
            reference = self.decide(levels, plan)?;
            phases.add("plan", start.elapsed().as_secs_f64());
        }
        phases.time("scaling", || levels.scale(plan))?;
        loop {
            let mut top = levels.store(plan, phases);
            match objection(levels, &mut top, plan, reference.as_ref())? {
                Some(reason) if plan.promote(None, &reason) => {}
                _ => return top,
            }
        }
    }

    /// Chooses the formats that the options left open. Returns the reference cycle to compare the hierarchy with.
    fn decide<S: SetupOn<S>, T: Scalar>(
        &self,
        levels: &mut Candidates<'_, '_, S, T>,
        plan: &mut Plan,
    ) -> Result<Option<ReferenceCycle<S>>> {
        let sizes = levels.sizes();
        let total: usize = sizes.iter().map(|(matrix, _)| matrix).sum();
        if total < plan::TINY || sizes.len() == 1 {
            plan.leave(if sizes.len() == 1 { "one level alone" } else { "too small to gain anything" });
            return Ok(None);
        }
        let full = Plan::uniform(T::PRECISION, sizes.len());
        let mut top = levels.store(&full, &mut Phases::default())?;
        let (diagonal, b) = levels.start()?;
        let energy = |x: &S::Slice<f64>| levels.energy(x);
        let reference = ReferenceCycle::new(levels.0.setup, levels.rows(), &mut *top, (&diagonal, b), energy)?;
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
        let keeps_matrix = self.smoother().keeps_matrix;
        // Cycles on the host and on a device add in different orders, and shall lead to the same formats.
        let common = |value: f64| rounded(value, T::PRECISION);
        let quality = common(reference.quality);
        for (i, measured) in levels.measure(&reference.smooth(), &shares)?.iter().enumerate() {
            plan.decide(i, &measured.map(&common), quality, keeps_matrix);
        }
        Ok(Some(reference))
    }
}

/// Why a hierarchy in chosen formats is rejected.
fn objection<S: SetupOn<S>, T: Scalar>(
    levels: &Candidates<'_, '_, S, T>,
    top: &mut Result<Box<dyn Finest<S>>>,
    plan: &Plan,
    reference: Option<&ReferenceCycle<S>>,
) -> Result<Option<String>> {
    match (top, reference) {
        (Err(error), _) if plan.is_undecided() && error.status == Status::PrecisionLost => {
            Ok(Some(error.message.clone()))
        }
        (Ok(top), Some(reference)) if plan.is_narrow() => {
            let loss = rounded(reference.loss(&mut **top, |x| levels.energy(x))?, Precision::F32);
            Ok((loss > reference_cycle::MAX_LOSS).then(|| format!("a cycle was off by {:.0} %", 100.0 * loss)))
        }
        _ => Ok(None),
    }
}

/// Levels, all of them computed, whose number formats are to be chosen.
pub(super) struct Candidates<'a, 'b, S: Setup, T: Scalar>(pub &'a mut Computing<'b, S, T>);

impl<S: SetupOn<S>, T: Scalar> Candidates<'_, '_, S, T> {
    /// Stored values of the matrix of each level, and of its prolongator.
    fn sizes(&self) -> Vec<(usize, Option<usize>)> {
        let levels = self.0.levels.iter();
        levels.map(|level| (level.entries, level.transfer.as_ref().map(|(p, _)| p.entries()))).collect()
    }

    /// Scalar rows of the finest level.
    fn rows(&self) -> usize {
        self.0.levels[0].rows
    }

    /// All levels, stored by a plan where they were computed; they can be stored by another one later.
    fn store(&mut self, plan: &Plan, phases: &mut Phases) -> Result<Box<dyn Finest<S>>> {
        let Computing { builder, setup, levels, .. } = &mut *self.0;
        for level in levels.iter_mut() {
            level.suit_formats(plan);
        }
        phases.time("place", || builder.choose_formats(*setup, levels, plan))?;
        let top = Storing::<S, S>::new(builder, setup, setup, plan).keeping().finest(levels, phases);
        // Deferred checks are older than this error, so they are evaluated first.
        self.0.evaluate_checks()?;
        top
    }

    /// The absolute values of the diagonal of the finest level, and random numbers between -1 and 1 in the units of its rows.
    fn start(&self) -> Result<(S::Buffer<f64>, S::Buffer<f64>)> {
        self.0.setup.begin_phase(None, "plan");
        self.0.setup.random_right_hand_side(self.0.levels[0].a())
    }

    /// x·A x for the caller's matrix.
    fn energy(&self, x: &S::Slice<f64>) -> Result<f64> {
        self.0.setup.begin_phase(None, "plan");
        self.0.setup.caller_energy(self.0.builder.matrix, self.0.levels[0].a(), x)
    }

    /// Finds the scaling factors of all levels, and keeps them for [`Builder::scale`]; for each, whether there are some or it stays unscaled.
    fn find_factors(&mut self) -> Result<Vec<bool>> {
        let (builder, setup) = (self.0.builder, self.0.setup);
        let scaling = builder.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(vec![true; self.0.levels.len()]);
        }
        let matrices: Vec<_> = self.0.levels.iter().map(|level| level.a()).collect();
        let found = setup.scaling_factors(&matrices, &scaling, builder.smoother().uses_l1_diagonal)?;
        let mut hold = Vec::new();
        for (i, (level, found)) in self.0.levels.iter_mut().zip(found).enumerate() {
            level.found = match found {
                // The caller's vectors are converted to the scaled variables.
                Ok(found) => Some(found).filter(|found| i > 0 || setup.has_inverse_scaling(&found.factors)),
                Err(error) if error.status == Status::PrecisionLost => None,
                Err(error) => return Err(error),
            };
            hold.push(level.found.is_some());
        }
        Ok(hold)
    }

    /// What rounding does to each level, given a smooth vector of it and the shares of all entries that its matrix and its transfers have.
    fn measure(&mut self, smooth: &[&S::Slice<f64>], shares: &[(f64, Option<f64>)]) -> Result<Vec<Measured>> {
        let setup = self.0.setup;
        setup.begin_phase(None, "plan");
        let hold = self.find_factors()?;
        let levels = &self.0.levels;
        let diagonals = levels.iter().map(|level| setup.diagonal(level.a())).collect::<Result<Vec<_>>>()?;
        let factors = |i: usize| levels[i].found.as_ref().map(|found| &found.factors);
        // The matrix of each level, and behind it its prolongator where that is measured.
        let mut all: Vec<Candidate<'_, S, T>> = Vec::new();
        for (i, level) in levels.iter().enumerate() {
            let (share, transfer) = shares[i];
            let diagonal = &*diagonals[i];
            let losses = (hold[i] && Part::is_worth(share)).then(|| (factors(i), factors(i)));
            let of_level = (smooth[i], smooth[i]);
            all.push(Candidate { matrix: level.a(), is_transfer: false, diagonal, smooth: of_level, losses });
            let Some((p, _)) = &level.transfer else { continue };
            if hold[i] && hold[i + 1] && transfer.is_some_and(Part::is_worth) {
                let losses = Some((factors(i), factors(i + 1)));
                let smooth = (smooth[i], smooth[i + 1]);
                all.push(Candidate { matrix: p, is_transfer: true, diagonal, smooth, losses });
            }
        }
        let mut found =
            all.iter().zip(setup.rounding_losses(&all, &|loss, energy| plan::is_affordable(loss, energy))?).peekable();
        let part = |share: f64, found: Option<Found>| {
            let (f16, bf16) = found.map_or((Loss::OUT_OF_RANGE, Loss::OUT_OF_RANGE), |found| (found.f16, found.bf16));
            Part { share, f16, bf16 }
        };
        let mut measured = Vec::new();
        for (share, transfer) in shares {
            let (_, matrix) = found.next().expect("one for each level");
            let of_transfer = found.next_if(|(candidate, _)| candidate.is_transfer).map(|(_, found)| found);
            measured.push(Measured {
                energy: matrix.energy,
                matrix: part(*share, Some(matrix)),
                transfer: transfer.map(|share| part(share, of_transfer)),
            });
        }
        Ok(measured)
    }

    /// Scales the levels of which a part has 16 bits.
    fn scale(&mut self, plan: &Plan) -> Result<()> {
        let Computing { builder, setup, levels, .. } = &mut *self.0;
        builder.scale(*setup, levels, plan)
    }
}

#[cfg(test)]
mod tests;
