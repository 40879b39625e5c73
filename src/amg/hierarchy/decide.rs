//! The choice of number formats in set-up: measures each level for the [plan](crate::amg::plan). Levels are measured where they were
//! computed, and only numbers come to the host.

use super::SetupOn;
use super::compute::Computing;
use super::level::DENSE_ROWS;
use crate::amg::plan::{self, Measured, Part, Plan};
use crate::backend::Operator;
use crate::backend::setup::{Candidate, Losses, SetupMatrix};
use crate::backend::spectrum::rounded;
use crate::error::{Result, Status};
use crate::scalar::Scalar;
use crate::sparse::Block;

impl<S: SetupOn<S>, T: Scalar> Computing<'_, S, T> {
    /// Chooses the formats that the options left open. All levels are computed.
    pub fn decide(&mut self, plan: &mut Plan) -> Result<()> {
        self.setup.begin_phase(None, "plan");
        let sizes = self.sizes();
        let total: usize = sizes.iter().map(|(matrix, _)| matrix).sum();
        if total < plan::TINY || sizes.len() == 1 {
            plan.leave(if sizes.len() == 1 { "one level alone" } else { "too small to gain anything" });
            return Ok(());
        }
        if self.builder.is_structured() && self.builder.matrix.block() == Block::SCALAR {
            plan.take_single("16 bits save no time on a structured grid with one unknown in each cell");
            return Ok(());
        }
        // Formats are chosen by what is stored.
        self.builder.take_unit(self.setup, &mut self.levels)?;
        let Some(smooth) = self.smoothest()? else {
            plan.take_single("the coarsest level is too large for an inverse");
            return Ok(());
        };
        let last = sizes.len() - 1;
        let shares: Vec<(f64, Option<f64>)> = sizes
            .iter()
            .enumerate()
            .map(|(i, (matrix, transfer))| {
                // A small share keeps f32: rounding an inverse to 16 bits can cost it its definiteness.
                let share = |entries: usize| if i == last { 0.0 } else { entries as f64 / total as f64 };
                (share(*matrix), transfer.map(|entries| 2.0 * share(entries)))
            })
            .collect();
        // Sums on the host and on a device have different orders, and shall lead to the same formats.
        let common = |value: f64| rounded(value, T::PRECISION);
        let measured: Vec<Measured> = self.measure(smooth, &shares)?.iter().map(|of| of.map(&common)).collect();
        for (i, measured) in measured.iter().enumerate() {
            plan.decide(i, measured, self.builder.smoother_of(i));
        }
        plan.follow_finest(&measured[0]);
        for level in &mut self.levels {
            level.suit_formats(plan);
        }
        Ok(())
    }

    /// Stored values of the matrix of each level, and of its prolongator.
    fn sizes(&self) -> Vec<(usize, Option<usize>)> {
        let levels = self.levels.iter();
        levels.map(|level| (level.entries, level.transfer.as_ref().map(|(p, _)| p.entries()))).collect()
    }

    /// The smoothest vector of the coarsest level, by two inverse iterations from random numbers; none where its inverse takes too long. The
    /// inverse is kept for when the level is stored.
    fn smoothest(&mut self) -> Result<Option<S::Buffer<f64>>> {
        let setup = self.setup;
        let Some(level) = self.levels.last_mut().filter(|level| level.rows <= DENSE_ROWS) else { return Ok(None) };
        let n = level.rows;
        let values = setup.dense_inverse::<T, T>(level.a())?;
        let copy = setup.stored_array::<T, T>(&values, 1.0, level.number, &level.checks)?;
        level.dense_inverse = Some(values);
        let inverse: Box<dyn Operator<S, f64>> = setup.dense(setup, n, copy)?;
        let (diagonal, mut b) = setup.random_right_hand_side(level.a())?;
        let mut w = setup.zeros(n)?;
        inverse.apply(1.0, &b, 0.0, &mut w)?;
        setup.scale_by(1, &diagonal, &w, &mut b);
        inverse.apply(1.0, &b, 0.0, &mut w)?;
        Ok(Some(w))
    }

    /// Finds the scaling factors of levels that may be scaled, and keeps them for [`super::Builder::scale`]; for each, whether there are some or it
    /// stays unscaled.
    fn find_factors(&mut self, shares: &[(f64, Option<f64>)]) -> Result<Vec<bool>> {
        let (builder, setup) = (self.builder, self.setup);
        let scaling = builder.config.text("precision.scaling");
        let count = self.levels.len();
        if scaling == "none" {
            return Ok(vec![true; count]);
        }
        let has_transfer = |i: usize| shares[i].1.is_some_and(Part::is_worth);
        let is_wanted = |i: usize| Part::is_worth(shares[i].0) || has_transfer(i) || i > 0 && has_transfer(i - 1);
        let wanted: Vec<usize> = (0..count).filter(|i| is_wanted(*i)).collect();
        let matrices: Vec<_> = wanted.iter().map(|i| self.levels[*i].a()).collect();
        let found = setup.scaling_factors(&matrices, &scaling, builder.uses_l1_diagonal())?;
        for (i, found) in wanted.into_iter().zip(found) {
            self.levels[i].found = match found {
                // The caller's vectors are converted to the scaled variables.
                Ok(found) => Some(found).filter(|found| i > 0 || setup.has_inverse_scaling(&found.factors)),
                Err(error) if error.status == Status::PrecisionLost => None,
                Err(error) => return Err(error),
            };
        }
        Ok(self.levels.iter().map(|level| level.found.is_some()).collect())
    }

    /// What rounding does to each level, given a smooth vector of the coarsest and the shares of all entries that matrix and transfers of each
    /// level have.
    fn measure(&mut self, smooth: S::Buffer<f64>, shares: &[(f64, Option<f64>)]) -> Result<Vec<Measured>> {
        let hold = self.find_factors(shares)?;
        let mut levels: Vec<Candidate<'_, S, T>> = Vec::new();
        for level in &self.levels {
            let prolongator = level.transfer.as_ref().map(|(p, _)| p);
            let factors = level.found.as_ref().map(|found| &found.factors);
            levels.push(Candidate { matrix: level.a(), prolongator, factors });
        }
        let found = self.setup.rounding_losses(&levels, smooth)?;
        // That of all rows, because all of the coarsest level are measured.
        let energy = found.last().map_or(0.0, |coarsest| coarsest.energy.abs());
        let each = found.iter().enumerate().map(|(i, of)| {
            let weight = of.weight * self.levels[i].rows as f64 / of.rows;
            let part = |share: f64, holds: bool, losses: Losses| Part {
                share,
                losses: if holds { losses } else { Losses::OUT_OF_RANGE },
            };
            let below = hold.get(i + 1).is_some_and(|hold| *hold);
            Measured {
                energy: energy / weight,
                matrix: part(shares[i].0, hold[i], of.matrix),
                transfer: shares[i].1.map(|share| part(share, hold[i] && below, of.prolongator)),
            }
        });
        Ok(each.collect())
    }
}

#[cfg(feature = "unit-tests")]
mod tests;
