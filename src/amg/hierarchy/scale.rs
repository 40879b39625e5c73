//! Scaling of the levels of which a part has 16 bits, and the choice of storage formats.

use super::level::ComputedLevel;
use super::{Builder, symbolic::Formats};
use crate::amg::plan::Plan;
use crate::backend::setup::{FormatRequest, Scaled, Setup, SetupMatrix, at_level};
use crate::config::LevelPart;
use crate::error::Result;
use crate::precision::unit_of;
use crate::scalar::{Precision, Scalar};
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// Matrices of a level.
enum Part {
    Matrix,
    Restriction,
    Prolongator,
}

impl Part {
    fn of<S: Setup>(self, formats: &mut Formats<S>) -> &mut Option<S::Format> {
        match self {
            Part::Matrix => &mut formats.matrix,
            Part::Restriction => &mut formats.restriction,
            Part::Prolongator => &mut formats.prolongator,
        }
    }
}

impl Builder<'_> {
    /// Multiplies the matrices of all levels by one number, once, so that their rounding to 16 bits does not depend on the units of the matrix.
    pub(super) fn take_unit<S: Setup, T: Scalar>(&self, setup: &S, levels: &mut [ComputedLevel<S, T>]) -> Result<()> {
        if self.config.text("precision.scaling") == "none" || levels[0].unit.is_some() {
            return Ok(());
        }
        setup.begin_phase(None, "scaling");
        let unit = unit_of(setup.largest_off_diagonal(levels[0].a())?);
        levels.iter_mut().try_for_each(|level| level.take_unit(setup, unit))
    }

    /// Scales the levels of which a part has 16 bits.
    pub(super) fn scale<S: Setup, T: Scalar>(
        &self,
        setup: &S,
        levels: &mut [ComputedLevel<S, T>],
        plan: &Plan,
    ) -> Result<()> {
        let scaling = self.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(());
        }
        setup.begin_phase(None, "scaling");
        let scaled: Vec<usize> = (0..levels.len()).filter(|i| plan.is_scaled(*i)).collect();
        let mut found: Vec<_> = levels.iter_mut().map(|level| level.found.take()).collect();
        let missing: Vec<usize> = scaled.iter().copied().filter(|i| found[*i].is_none()).collect();
        let matrices: Vec<_> = missing.iter().map(|i| levels[*i].a()).collect();
        let factors = setup.scaling_factors(&matrices, &scaling, self.uses_l1_diagonal())?;
        for (i, factors) in missing.into_iter().zip(factors) {
            found[i] = Some(at_level(i, factors)?);
        }
        for i in scaled {
            let Some(Scaled { factors, l1_inverse }) = found[i].take() else { continue };
            let factors = Arc::new(factors);
            levels[i].spectrum.l1_inverse = Mutex::new(l1_inverse);
            if i > 0 {
                levels[i - 1].coarse_factors = Some(Arc::clone(&factors));
            }
            levels[i].factors = Some(factors);
        }
        levels[0].leave_unit(setup)?;
        levels.iter_mut().try_for_each(|level| level.apply_factors(setup))
    }

    /// Chooses the storage formats of all matrices that have none of an earlier time, where the backend chooses them
    /// together.
    pub(super) fn choose_formats<S: Setup, T: Scalar>(
        &self,
        setup: &S,
        levels: &[ComputedLevel<S, T>],
        plan: &Plan,
    ) -> Result<()> {
        // The precision of sums for results of one.
        let wide = |precision: Precision| if precision == Precision::F64 { precision } else { Precision::F32 };
        let (mut requests, mut parts) = (Vec::new(), Vec::new());
        for (i, level) in levels.iter().enumerate() {
            let formats = lock(level.formats.lock());
            let (vector, transfer) = (plan.of(LevelPart::Vector, i), plan.of(LevelPart::Transfer, i));
            let mut request = |part: Part, pattern: S::Pattern, storage: Precision, sums: Precision| {
                requests.push(FormatRequest { pattern, storage, sums });
                parts.push((i, part));
            };
            // The finest matrix may be stored in other blocks than those that set-up works with.
            let (block, as_given) = (level.a().block(), level.factors.is_none() && i == 0);
            let otherwise = as_given && self.matrix.block() != block || self.took_apart(i, block);
            if formats.matrix.is_none() && !otherwise {
                request(Part::Matrix, level.a().pattern(), plan.of(LevelPart::Matrix, i), wide(vector));
            }
            let Some((p, r)) = &level.transfer else { continue };
            if formats.restriction.is_none() {
                let below = plan.of(LevelPart::Vector, i + 1);
                let to = if self.range(vector, below).is_some() { vector } else { below };
                request(Part::Restriction, r.pattern(), transfer, wide(to));
            }
            if formats.prolongator.is_none() {
                request(Part::Prolongator, p.pattern(), transfer, wide(vector));
            }
        }
        let Some(chosen) = setup.choose_formats(&requests, self.sums())? else { return Ok(()) };
        for ((i, part), format) in parts.into_iter().zip(chosen) {
            *part.of(&mut *lock(levels[i].formats.lock())) = Some(format);
        }
        Ok(())
    }
}
