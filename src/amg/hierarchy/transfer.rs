//! Prolongator and restriction from one level to the next.

use super::choice::Choice;
use super::compute::Step;
use super::symbolic::{Filtered, TransferPair, TransferSymbolic};
use super::{Builder, STALLED};
use crate::backend::components::{
    EarlierInterpolation, Interpolated, Interpolation, InterpolationInput, InterpolationSymbolic,
};
use crate::backend::parameters::Truncation;
use crate::backend::setup::{Coarse, NearNullVectors, Setup, SetupMatrix};
use crate::backend::spectrum::Largest;
use crate::components::{self, Components, InterpolationInfo};
use crate::context::LogLevel;
use crate::error::{Result, fail};
use crate::scalar::Scalar;
use std::any::Any;
use std::sync::Arc;

/// What transfers are made from.
pub(super) enum Begin<S: Setup> {
    /// Those for an earlier matrix, which are updated.
    Earlier(TransferSymbolic<S>),
    /// A choice for this matrix.
    Choice(Choice<S>),
    /// The matrix alone.
    Matrix,
}

/// Transfers to the next level, with the other results of interpolation.
pub(super) struct Transfers<S: Setup, T: Scalar> {
    pub p: S::Matrix<T>,
    pub r: S::Matrix<T>,
    pub next_space: Option<Arc<S::NearNullSpace>>,
    /// As in [`Interpolated`].
    pub largest_eigenvalue: Option<(Largest, S::Buffer<T>)>,
    /// Where it was made now.
    pub choice: Option<Choice<S>>,
    pub symbolic: TransferSymbolic<S>,
}

/// Symbolic data of transfers for an earlier matrix.
struct Earlier<S: Setup> {
    p: S::Pattern,
    r: S::Pattern,
    transposition: Option<S::Transposition>,
    interpolation: Option<Arc<dyn InterpolationSymbolic<S>>>,
    filtered: Option<Filtered<S>>,
}

impl Builder<'_> {
    /// The transfers from the level of this step, by the couplings of `a` within the `whole` matrix, to the next one; none where
    /// coarsening would leave too much.
    pub(super) fn transfers<S: Components, T: Scalar>(
        &self,
        step: &mut Step<'_, S>,
        (a, whole): (&S::Matrix<T>, &S::Matrix<T>),
        space: Option<&S::NearNullSpace>,
        begin: Begin<S>,
    ) -> Result<Option<Transfers<S, T>>> {
        let (choice, earlier) = match begin {
            Begin::Earlier(TransferSymbolic::Constant(pair)) => return Ok(Some(constant(pair))),
            Begin::Earlier(TransferSymbolic::Numeric { choice, p, r, transposition, interpolation, filtered }) => {
                (choice, Some(Earlier { p, r, transposition, interpolation, filtered }))
            }
            begin => {
                let choice = match begin {
                    Begin::Choice(choice) => choice,
                    _ => self.choose(step, a, space)?,
                };
                if self.stalls::<S, T>(step.level, a, space, &choice) {
                    return Ok(None);
                }
                (choice, None)
            }
        };
        let interpolation = self.interpolation_for::<S, T>(&choice.coarse);
        let input = InterpolationInput {
            setup: step.setup,
            parameters: self.config,
            a,
            whole,
            graph: &choice.graph,
            coarse: &choice.coarse,
            near_null_space: space,
            truncation: self.truncation(),
            earlier: earlier.as_ref().map(|earlier| EarlierInterpolation {
                pattern: earlier.filtered.as_ref().map_or(&earlier.p, |filtered| &filtered.whole),
                symbolic: earlier.interpolation.as_ref(),
            }),
        };
        let (interpolated, filtered, r, transposition) = step.timed("interpolation", |step| {
            let mut interpolated = interpolation.interpolate(&input)?;
            interpolated.near_null_space = match (interpolated.near_null_space, space, &*choice.coarse) {
                (None, Some(space), Coarse::Splitting(coarse) | Coarse::TwoPass(_, coarse)) => {
                    let coarse = match &interpolated.coarse {
                        Some(Coarse::Splitting(coarse)) => coarse,
                        _ => coarse,
                    };
                    Some(Arc::new(space.injected(step.setup, coarse)?))
                }
                (next_space, ..) => next_space,
            };
            let filtered = self.filter(step.setup, &mut interpolated, earlier.as_ref())?;
            let (r, transposition) = match &earlier {
                None => (step.setup.transpose(&interpolated.p)?, None),
                Some(Earlier { r: pattern, transposition, .. }) => {
                    let symbolic = match transposition {
                        Some(symbolic) => symbolic.clone(),
                        None => step.setup.transpose_symbolic(&interpolated.p, pattern)?,
                    };
                    (step.setup.transpose_numeric(&symbolic, &interpolated.p, pattern)?, Some(symbolic))
                }
            };
            Ok((interpolated, filtered, r, transposition))
        })?;
        let Interpolated { p, near_null_space: next_space, largest_eigenvalue, symbolic, coarse } = interpolated;
        let choice = match coarse {
            Some(coarse) => {
                let choice = Choice { coarse: Arc::new(coarse), ..choice };
                if self.stalls::<S, T>(step.level, a, space, &choice) {
                    return Ok(None);
                }
                choice
            }
            None => choice,
        };
        let made = earlier.is_none().then(|| choice.clone());
        let symbolic = if self.config.text("amg.update.interpolation") == "keep" {
            TransferSymbolic::Constant(Arc::new(TransferPair::<S, T> { p: p.clone(), r: r.clone() }))
        } else {
            let (p, r) = (p.pattern(), r.pattern());
            TransferSymbolic::Numeric { choice, p, r, transposition, interpolation: symbolic, filtered }
        };
        Ok(Some(Transfers { p, r, next_space, largest_eigenvalue, choice: made, symbolic }))
    }

    /// Filters a prolongator where the options ask for it; returns what updates need for that.
    fn filter<S: Setup, T: Scalar>(
        &self,
        setup: &S,
        interpolated: &mut Interpolated<S, T>,
        earlier: Option<&Earlier<S>>,
    ) -> Result<Option<Filtered<S>>> {
        let share = self.config.real("amg.interpolation.kept_norm");
        let before = earlier.and_then(|earlier| Some((earlier.filtered.as_ref()?, &earlier.p)));
        let (filtered, pattern) = match (before, &interpolated.near_null_space) {
            (Some((filtered, pattern)), _) => (filtered.clone(), Some(pattern)),
            (None, Some(space)) if share < 1.0 => {
                (Filtered { whole: interpolated.p.pattern(), space: Arc::clone(space) }, None)
            }
            _ => return Ok(None),
        };
        interpolated.p = filtered.space.filtered(setup, &interpolated.p, share, pattern)?;
        Ok(Some(filtered))
    }

    /// Whether coarsening stalls; this is logged.
    fn stalls<S: Setup, T: Scalar>(
        &self,
        level: usize,
        a: &S::Matrix<T>,
        space: Option<&S::NearNullSpace>,
        choice: &Choice<S>,
    ) -> bool {
        let width = match (&*choice.coarse, space) {
            (Coarse::Aggregates(_), Some(space)) => space.count(),
            (Coarse::Grid(_), _) => a.block().rows,
            _ => 1,
        };
        let (rows, coarse_rows) = (a.scalar_rows(), choice.coarse.count() * width);
        let stalls = coarse_rows == 0 || coarse_rows as f64 > STALLED * rows as f64;
        if stalls {
            self.context.log(LogLevel::Warning, || {
                format!("coarsening stopped at level {level} with {rows} rows: it would leave {coarse_rows} of them")
            });
        }
        stalls
    }

    /// What the options keep of a row.
    fn truncation(&self) -> Truncation {
        Truncation {
            max_entries: self.config.int("amg.interpolation.max_entries"),
            factor: self.config.real("amg.interpolation.truncation"),
            ties: self.coarsening().ties,
        }
    }

    /// Properties of the interpolation of levels that are not aggressive.
    pub(super) fn interpolation(&self) -> &'static InterpolationInfo {
        let name = self.config.choice("amg.interpolation.type");
        components::interpolation_info(name.as_deref().unwrap_or(self.coarsening().interpolation))
    }

    /// Refuses an interpolation that does not know structured grids on one.
    pub(super) fn check_interpolation(&self) -> Result<()> {
        let name = self.interpolation().name;
        if self.is_structured() && !self.interpolation().is_structured {
            return fail!(
                OptionValue,
                "amg.interpolation.type \"{name}\" does not know structured grids; accepted with amg.coarsening.type \"grid\": {}",
                components::interpolations_for_grids()
            );
        }
        let share = self.config.real("amg.interpolation.kept_norm");
        if share < 1.0 && !self.interpolation().uses_near_null_space {
            return fail!(
                OptionValue,
                "amg.interpolation.kept_norm is {share}, and amg.interpolation.type \"{name}\" represents no near-null space; use {} with it, or \
                 amg.interpolation.truncation",
                components::interpolations_with_near_null_space()
            );
        }
        Ok(())
    }

    /// Refuses a smoother for structured grids on other matrices, and line relaxation on some levels alone: coarsening goes by its axes.
    pub(super) fn check_smoothers(&self) -> Result<()> {
        let smoothers = self.smoothers();
        if let Some((key, smoother)) =
            smoothers.iter().find(|(_, smoother)| smoother.relaxes_lines && smoothers.len() > 1)
        {
            let name = smoother.name;
            return fail!(
                OptionValue,
                "{key} is \"{name}\", which is for all levels; leave amg.smoother.levels as it is, or use another smoother"
            );
        }
        if let Some((key, smoother)) =
            smoothers.iter().find(|(_, smoother)| smoother.needs_grid && !self.is_structured())
        {
            let name = smoother.name;
            return fail!(
                OptionValue,
                "{key} \"{name}\" needs a matrix on a structured grid and amg.type \"structured\"; terrace_matrix_create_stencil \
                 makes one, and terrace_matrix_set_grid tells the grid of a matrix in rows"
            );
        }
        Ok(())
    }

    /// The way to interpolate on aggressive levels that the options name, where it is not that of the other levels.
    pub(super) fn aggressive_interpolation(&self) -> Option<String> {
        let name = self.config.text("amg.interpolation.aggressive");
        (name != components::TWO_STAGE && !self.interpolation().needs_aggregates).then_some(name)
    }

    /// The interpolation for coarse unknowns of this kind.
    pub(super) fn interpolation_for<S: Components, T: Scalar>(
        &self,
        coarse: &Coarse<S>,
    ) -> &'static dyn Interpolation<S, T> {
        let found = match (coarse, self.aggressive_interpolation()) {
            (Coarse::TwoPass(..), Some(name)) => S::aggressive_interpolation(&name),
            _ => S::interpolation(self.interpolation().name),
        };
        found.expect("looked for before set-up began")
    }
}

/// Transfers that do not change.
fn constant<S: Setup, T: Scalar>(pair: Arc<dyn super::symbolic::SetupData>) -> Transfers<S, T> {
    let any: &dyn Any = &*pair;
    let matrices: &TransferPair<S, T> = any.downcast_ref().expect("the precision of set-up does not change");
    let (p, r) = (matrices.p.clone(), matrices.r.clone());
    let symbolic = TransferSymbolic::Constant(pair);
    Transfers { p, r, next_space: None, largest_eigenvalue: None, choice: None, symbolic }
}
