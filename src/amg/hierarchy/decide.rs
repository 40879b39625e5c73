//! The choice of number formats in set-up: measures each level for the [plan](crate::amg::plan), and holds the stored hierarchy against the
//! rehearsal.

use super::Builder;
use super::levels::Raw;
use crate::amg::finest::Finest;
use crate::amg::plan::{self, Plan};
use crate::amg::rehearsal::{self, Rehearsal};
use crate::amg::scaling;
use crate::error::{Result, Status, try_vec};
use crate::host::{Host, diagonal};
use crate::report::Phases;
use crate::scalar::{Precision, Scalar};
use crate::smooth;
use crate::sparse::SharedCsr;
use half::{bf16, f16};

impl Builder<'_> {
    /// Chooses the formats that the options left open; the rehearsal is what the hierarchy in these formats can be held against.
    pub(super) fn decide<T: Scalar>(
        &self,
        host: &Host,
        raw: &mut [Raw<T>],
        plan: &mut Plan,
    ) -> Result<Option<Rehearsal>> {
        let entries = |level: &Raw<T>| level.a.view().entries();
        let total: usize = raw.iter().map(entries).sum();
        if total < plan::TINY || raw.len() == 1 {
            plan.leave(if raw.len() == 1 { "one level alone" } else { "too small to gain anything" });
            return Ok(None);
        }
        let full = Plan::uniform(T::PRECISION, raw.len());
        let mut top = self.finest(host, host, raw, &full, &mut Phases::default())?;
        let absolute = |level: &Raw<T>| {
            let mut d = diagonal::entries(&level.a.view())?;
            d.iter_mut().for_each(|d| *d = d.abs());
            Ok(d)
        };
        let diagonals = raw.iter().map(absolute).collect::<Result<Vec<_>>>()?;
        let (rehearsal, smooth) = Rehearsal::new(&mut *top, &diagonals[0], self.matrix)?;
        drop(top);
        let scaling = self.config.text("precision.scaling");
        for level in raw.iter_mut() {
            let ones = || try_vec(level.a.view().scalar_rows(), 1.0);
            level.factors = match scaling::factors(&level.a, &scaling) {
                Ok(Some(factors)) => Some(factors),
                Ok(None) => Some(ones()?),
                Err(error) if error.status == Status::PrecisionLost => None,
                Err(error) => return Err(error),
            };
        }
        let keeps_matrix = smooth::keeps_matrix(&smooth::name(self.config, self.near_null_space.is_some()));
        for (i, level) in raw.iter().enumerate() {
            let (a, d, w) = (level.a.view(), &diagonals[i], &smooth[i]);
            let energy = plan::energy(&a, d, w)?;
            // A small share keeps f32: rounding an inverse to 16 bits can cost it its definiteness.
            let exact = i + 1 == raw.len();
            let share = |m: &SharedCsr<T>| if exact { 0.0 } else { m.view().entries() as f64 / total as f64 };
            let matrix = plan::Part::measure(
                share(&level.a),
                |format| match (&level.factors, format) {
                    (None, _) => plan::Loss::OUT_OF_RANGE,
                    (Some(s), Precision::F16) => plan::matrix_loss::<T, f16>(&a, s, d, w),
                    (Some(s), _) => plan::matrix_loss::<T, bf16>(&a, s, d, w),
                },
                energy,
            );
            let transfer = level.transfer.as_ref().map(|(p, _)| {
                let view = p.view();
                plan::Part::measure(
                    2.0 * share(p),
                    |format| match (&level.factors, &raw[i + 1].factors, format) {
                        (Some(s), Some(c), Precision::F16) => {
                            plan::transfer_loss::<T, f16>(&view, (s, c), (d, w), &smooth[i + 1])
                        }
                        (Some(s), Some(c), _) => plan::transfer_loss::<T, bf16>(&view, (s, c), (d, w), &smooth[i + 1]),
                        _ => plan::Loss::OUT_OF_RANGE,
                    },
                    energy,
                )
            });
            plan.decide(i, &plan::Measured { energy, matrix, transfer }, rehearsal.quality, keeps_matrix);
        }
        Ok(Some(rehearsal))
    }

    /// What speaks against a hierarchy in formats of which some were left open.
    pub(super) fn objection(
        &self,
        top: &mut Result<Box<dyn Finest<Host>>>,
        plan: &Plan,
        rehearsal: Option<&Rehearsal>,
    ) -> Result<Option<String>> {
        match (top, rehearsal) {
            (Err(error), _) if plan.is_open() && error.status == Status::PrecisionLost => {
                Ok(Some(error.message.clone()))
            }
            (Ok(top), Some(rehearsal)) if plan.is_narrow() => {
                let loss = rehearsal.loss(&mut **top, self.matrix)?;
                Ok((loss > rehearsal::LIMIT).then(|| format!("a cycle was off by {:.0} %", 100.0 * loss)))
            }
            _ => Ok(None),
        }
    }
}
