//! Preconditioners of matrices over ranks. All calls are collective, and what fails on one rank fails on all.

use super::defaults::{SAME_SIGN, THETA, divided};
use super::{Inverse, Method};
use crate::backend::OwnPart;
use crate::comm::{Ranks, Reduction, Spread, unavailable};
use crate::components::{OverRanks, smoother_over_ranks};
use crate::config::Config;
use crate::context::Context;
use crate::error::{Result, fail, try_capacity, try_collect};
use crate::hash::hash;
use crate::matrix::{DistributedRows, Matrix, share_of};
use crate::report::{LevelSpread, RanksReport, Report};
use std::sync::Arc;

/// The matrix over ranks of a preconditioner without a solver, and how it and the levels are spread.
pub(super) struct Whole {
    pub matrix: Arc<Matrix>,
    pub spread: RanksReport,
}

/// Refuses components that ranks cannot have together.
pub(crate) fn check_components(context: &Context, config: &Config) -> Result<()> {
    config.check_device(context.device())?;
    let diagonal = "amg.smoother.diagonal";
    if config.has_set(diagonal) && config.text(diagonal) == "block" {
        return unavailable("amg.smoother.diagonal \"block\"", "use \"point\", which is the default over ranks");
    }
    for key in ["amg.smoother.type", "amg.smoother.coarse_type"] {
        let Some(smoother) = config.choice(key) else { continue };
        let (on, instead) = match smoother_over_ranks(&smoother) {
            OverRanks::OnHost(instead) if context.gpu().is_some() => (" on a GPU", instead),
            OverRanks::Nowhere(instead) => ("", instead),
            OverRanks::Divided | OverRanks::Everywhere | OverRanks::OnHost(_) => continue,
        };
        return unavailable(&format!("{key} \"{smoother}\"{on}"), &format!("use \"{instead}\""));
    }
    Ok(())
}

/// Collective: options decide which messages are sent, so they must be the same on all ranks.
pub(crate) fn check_same_options(config: &Config, matrix: &Matrix, ranks: &Ranks) -> Result<()> {
    let vectors = matrix.near_null_space().map_or(0, |space| space.count * space.dofs_per_node);
    let functions = matrix.functions().map_or(0, |functions| functions.count);
    let json = format!("{} {vectors} {functions}", config.to_json());
    let own = json.bytes().fold(0, |sum, byte| hash(usize::from(byte), sum)) >> 1;
    let smallest = ranks.reduce(own as i64, Reduction::Min)?;
    if smallest != ranks.reduce(own as i64, Reduction::Max)? {
        return fail!(
            OptionValue,
            "the options of set-up, or what is known about the unknowns of the matrix, differ between ranks; each rank must \
             set the same"
        );
    }
    Ok(())
}

/// Collective: how a matrix, and what set-up holds, are spread over the ranks.
pub(crate) fn spread(report: Result<Report>, matrix: &Matrix, rows: &DistributedRows) -> Result<RanksReport> {
    let ranks = &rows.over().ranks;
    let report = ranks.agree(report)?;
    let halo = &rows.halo;
    let whole = [matrix.rows(), matrix.entries(), halo.ghosts, halo.neighbours(), report.bytes];
    let mut own = ranks.agree(try_capacity(whole.len() * (1 + report.levels.len())))?;
    own.extend(whole.map(|number| number as i64));
    for level in &report.levels {
        let OwnPart { rows, nonzeros, received, neighbours } = level.part.unwrap_or_default();
        own.extend([rows, nonzeros, received, neighbours, level.bytes].map(|number| number as i64));
    }
    let spreads = ranks.spreads(&own)?;
    let mut spreads = spreads.chunks_exact(whole.len()).map(|of| [of[0], of[1], of[2], of[3], of[4]]);
    let [rows, nonzeros, halo, neighbours, bytes] = spreads.next().unwrap_or_default();
    let level = |[rows, nonzeros, received, neighbours, bytes]: [Spread; 5]| LevelSpread {
        rows,
        nonzeros,
        received,
        neighbours,
        bytes,
    };
    let levels = try_collect(spreads.map(level))?;
    Ok(RanksReport { count: ranks.size(), rows, nonzeros, halo, neighbours, bytes, levels })
}

/// Collective: the matrix and the options of a set-up that is divided; none where a component cannot be.
fn divided_among(
    context: &Context,
    matrix: &Matrix,
    rows: &DistributedRows,
    config: &Config,
) -> Result<Option<(Matrix, Config)>> {
    let ranks = &rows.over().ranks;
    let node = matrix.near_null_space().map_or(1, |space| space.dofs_per_node);
    if rows.over().rows() > i32::MAX as usize || !rows.over().has_whole_nodes(node) {
        return Ok(None);
    }
    let own = ranks.agree(matrix.among_ghosts(rows))?;
    let entries = ranks.reduce(matrix.entries() as i64, Reduction::Sum)? as usize;
    let uniform = ranks.agree(own.has_uniform_rows(context, THETA, entries))?;
    let uniform = ranks.reduce(i64::from(uniform), Reduction::Min)? == 1;
    let (shares, count) = ranks.agree(own.same_sign_sums(context))?;
    let sums = (ranks.reduce(shares, Reduction::Sum)?, ranks.reduce(count, Reduction::Sum)?);
    let aggregates = uniform || SAME_SIGN.contains(&share_of(sums));
    own.set_unknowns(matrix);
    let config = ranks.agree(divided(&own, config, entries, aggregates))?;
    Ok(config.map(|config| (own, config)))
}

impl Inverse {
    /// Collective: the preconditioner of a matrix over ranks, and its options. A failure in the middle ends what the others wait for in a
    /// communicator that serves for this alone, so that they can agree on it.
    pub(crate) fn over_ranks(
        method: Method,
        context: &Context,
        matrix: &Arc<Matrix>,
        rows: &DistributedRows,
        config: &Config,
    ) -> Result<(Inverse, Config)> {
        let ranks = &rows.over().ranks;
        let node = matrix.near_null_space().map_or(1, |space| space.count);
        let over = rows.over().for_setup(config.int("amg.ranks.gathered_rows"), node, config.real("comm.timeout"))?;
        let divided = match method {
            Method::Amg if over.is_divided(over.rows()) => divided_among(context, matrix, rows, config)?,
            _ => None,
        };
        let is_divided = divided.is_some();
        let (of, config) = match (divided, method) {
            (Some((own, config)), _) => (own, config),
            (None, Method::Jacobi) => (matrix.gathered_diagonal(rows)?, config.clone()),
            (None, _) => (matrix.gathered(rows)?, config.clone()),
        };
        of.set_changes(matrix.known_changes());
        let made = Inverse::setup_with(
            method,
            context,
            &Arc::new(of),
            &config,
            (true, false),
            Some((&over, is_divided)),
            None,
        );
        if made.is_err() {
            over.ranks.communicator().revoke();
        }
        Ok((ranks.agree(made)?, config))
    }

    /// Collective: numeric-only update of what [`Inverse::over_ranks`] has made. As in set-up, a communicator of its own serves for it, so that
    /// ranks can agree on a failure in the middle, and the levels that are there stay of use.
    pub(crate) fn update_over_ranks(&mut self, matrix: &Matrix, rows: &DistributedRows, timeout: f64) -> Result<()> {
        let ranks: &Ranks = &rows.over().ranks;
        let values = match self.method {
            _ if self.is_divided() => ranks.agree(matrix.values_among_ghosts(rows))?,
            Method::Jacobi => matrix.gathered_diagonal_values(rows)?,
            Method::Amg | Method::Fsai | Method::TransposedFsai => matrix.gathered_values(rows)?,
        };
        ranks.agree(self.matrix.update_values(values))?;
        self.matrix.set_changes(matrix.known_changes());
        let Some((of, _)) = self.over() else { unreachable!("it is over ranks") };
        let over = rows.over().for_update(of, timeout)?;
        let updated = self.updated(Some(&over));
        if updated.is_err() {
            over.ranks.communicator().revoke();
        }
        self.take_over(ranks.agree(updated)?);
        Ok(())
    }

    /// Collective: the preconditioner of a matrix over ranks, without a solver.
    pub(super) fn alone_over_ranks(
        method: Method,
        context: &Context,
        matrix: &Arc<Matrix>,
        rows: &DistributedRows,
        config: &Config,
    ) -> Result<Inverse> {
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let timeout = ranks.set_timeout(config.real("comm.timeout"));
            let checked = timeout.and_then(|()| check_components(context, config));
            ranks.agree(checked.and_then(|()| matrix.recheck_values(context)))?;
            check_same_options(config, matrix, ranks)?;
            let mut config = config.clone();
            // Only a solver makes formats wider that lose precision.
            if config.text("precision.preset") == "default" {
                config.set_str("precision.preset", "input")?;
            }
            let changes = ranks.agree(matrix.changes(context))?;
            let size = ranks.agree(matrix.size_of_values(context))?;
            let scaled = matrix.scaled_over_ranks(&config, rows, size)?;
            let of = scaled.as_ref().map_or(matrix, |(copy, _)| copy);
            let (mut inverse, _) = Inverse::over_ranks(method, context, of, rows, &config)?;
            (inverse.changes, inverse.units) = (changes, scaled.map_or(0, |(_, k)| k));
            let spread = spread(Ok(inverse.report()), matrix, rows)?;
            inverse.whole = Some(Whole { matrix: Arc::clone(matrix), spread });
            Ok(inverse)
        })
    }

    /// Collective: as [`Inverse::update`] without a solver.
    pub(super) fn update_alone(&mut self, matrix: &Arc<Matrix>, rows: &DistributedRows) -> Result<()> {
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let timeout = self.config.real("comm.timeout");
            let checked = ranks.set_timeout(timeout).and_then(|()| {
                let changes = matrix.changes(&self.context)?;
                matrix.recheck_values(&self.context).map(|()| changes)
            });
            let changes = ranks.agree(checked)?;
            let size = ranks.agree(matrix.size_of_values(&self.context))?;
            let scaled = matrix.scaled_over_ranks(&self.config, rows, size)?;
            self.update_over_ranks(scaled.as_ref().map_or(matrix, |(copy, _)| copy), rows, timeout)?;
            (self.changes, self.units) = (changes, scaled.map_or(0, |(_, k)| k));
            let spread = spread(Ok(self.report()), matrix, rows)?;
            if let Some(whole) = &mut self.whole {
                whole.spread = spread;
            }
            Ok(())
        })
    }

    /// Over ranks, without a solver, the result of all of them of a check before an application; otherwise the result.
    pub(crate) fn agree<R>(&self, result: Result<R>) -> Result<R> {
        match &self.whole {
            Some(whole) => whole.matrix.agree(result),
            None => result,
        }
    }

    /// Runs an application. Without a solver over ranks it is collective: the ranks agree on its result.
    pub(super) fn collectively(&mut self, apply: impl FnOnce(&mut Inverse) -> Result<()>) -> Result<()> {
        let Some(matrix) = self.whole.as_ref().map(|whole| Arc::clone(&whole.matrix)) else { return apply(self) };
        let Some(rows) = matrix.over_ranks() else { unreachable!("the matrix is over ranks") };
        let ranks = &rows.over().ranks;
        ranks.run(|| {
            let result = apply(self);
            ranks.settle(result)
        })
    }
}
