//! `terrace bench`: medians of set-up, solve, update and one application of the AMG hierarchy, all threads against one in the same run.

use crate::emit::{emit, seconds, threads};
use crate::input::{Input, Loaded};
use crate::progress::Progress;
use crate::{Outcome, memory};
use clap::{Args, Subcommand};
use serde_json::json;
use std::fmt::Write;
use std::time::Instant;
use terrace::{Amg, Context, Error, Guess, Result, Scalar, Solver, Status};

/// Measure; prints a table and one line of JSON
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Set-up, solve and update of the solver and one application of the AMG hierarchy, against the same with one thread
    Solve(SolveArguments),
    /// Set-up and solve side by side with hypre and AMGCL from Debian's packages, in one table
    Peers(crate::peers::Arguments),
    /// Set-up and solve on structured grids side by side with hypre's PFMG, SMG and SysPFMG
    GridPeers(crate::grid_peers::Arguments),
    /// Iterations and operator complexity beside hypre's with the same options
    Hypre(crate::hypre::Arguments),
    /// The product of a sparse matrix with a vector against the bandwidth of the memory
    Spmv(crate::spmv::Arguments),
    /// Products and solves on a GPU against the bandwidth of its memory
    Gpu(crate::gpu::Arguments),
    /// Set-up, update and time to solution on a GPU, with a matrix that is there already
    Setup(crate::setup::Arguments),
    /// Products of matrices with themselves on a GPU, beside cuSPARSE's
    Products(crate::products::Arguments),
    /// One cycle and a whole solve in several precisions against f64, beside what the bytes of the levels promise
    Cycle(crate::cycle::Arguments),
    /// Several right-hand sides together against the same one by one
    Rhs(crate::rhs::Arguments),
    /// Ranks of one thread each against as many threads of one process, by phases
    Ranks(crate::ranks::Arguments),
    /// What ranks send as their number grows with the problem, by levels, and a model of the time
    Scaling(crate::scaling::Arguments),
    /// Iterations in the number formats of a published table of mixed-precision AMG, beside the published ones
    Table(crate::table::Arguments),
    /// Multigrid on structured grids in the number formats of a published table, beside the published iterations
    Structured(crate::structured::Arguments),
    /// Products and Gauss-Seidel sweeps on structured grids against the bandwidth of the memory
    Stencils(crate::stencils::Arguments),
    /// Iterations with no option set beside those of what the defaults choose from, as a table of the documentation
    Defaults(crate::defaults::Arguments),
    /// Iterations and outcomes on a folder of Matrix Market files, as a page of the documentation
    Matrices(crate::matrices::Arguments),
}

#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
struct SolveArguments {
    #[command(flatten)]
    input: Input,

    /// Times that everything is measured, after one warm-up
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

/// Phases that are measured, in the order of the table.
/// The first update also computes symbolic data for the later ones.
const PHASES: [&str; 5] = ["setup", "solve", "first update", "update", "apply"];
const SETUP: usize = 0;
const UPDATE: usize = 3;

/// Seconds of each phase in one round, and the iterations of its solve.
struct Round {
    seconds: [f64; 5],
    iterations: usize,
    converged: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let arguments = match &arguments.what {
        What::Solve(arguments) => arguments,
        What::Peers(arguments) => return crate::peers::run(arguments),
        What::GridPeers(arguments) => return crate::grid_peers::run(arguments),
        What::Hypre(arguments) => return crate::hypre::run(arguments),
        What::Spmv(arguments) => return crate::spmv::run(arguments),
        What::Gpu(arguments) => return crate::gpu::run(arguments),
        What::Setup(arguments) => return crate::setup::run(arguments),
        What::Products(arguments) => return crate::products::run(arguments),
        What::Cycle(arguments) => return crate::cycle::run(arguments),
        What::Rhs(arguments) => return crate::rhs::run(arguments),
        What::Ranks(arguments) => return crate::ranks::run(arguments),
        What::Scaling(arguments) => return crate::scaling::run(arguments),
        What::Table(arguments) => return crate::table::run(arguments),
        What::Structured(arguments) => return crate::structured::run(arguments),
        What::Stencils(arguments) => return crate::stencils::run(arguments),
        What::Defaults(arguments) => return crate::defaults::run(arguments),
        What::Matrices(arguments) => return crate::matrices::run(arguments),
    };
    let progress = Progress::new(false);
    let loaded = arguments.input.load(progress)?;
    let mut counts = vec![1, loaded.context.threads()];
    counts.dedup();
    let contexts = counts.iter().map(|n| Context::new(&format!("host:{n}"))).collect::<Result<Vec<_>>>()?;

    // Rounds of the thread counts alternate, so that a slow moment of the machine affects both.
    let mut rounds: Vec<Vec<Round>> = contexts.iter().map(|_| Vec::new()).collect();
    for repeat in 0..=arguments.repeat {
        for (context, rounds) in contexts.iter().zip(&mut rounds) {
            let title = format!("round {repeat} of {}, {}", arguments.repeat, threads(context.threads()));
            let round = progress.follow(context, &title, || {
                if loaded.single_precision() {
                    measure::<f32>(&loaded, context)
                } else {
                    measure::<f64>(&loaded, context)
                }
            })?;
            if repeat > 0 {
                rounds.push(round);
            }
        }
    }

    let medians: Vec<[f64; 5]> = rounds
        .iter()
        .map(|rounds| std::array::from_fn(|p| median(rounds.iter().map(|r| r.seconds[p]).collect())))
        .collect();
    let Some(last) = rounds.last().and_then(|rounds| rounds.last()) else {
        return Err(Error::new(Status::Internal, "no round was measured"));
    };
    // Ratios of updates to the set-up right before, so that a slow moment of the machine affects both.
    let ratios: Vec<f64> = rounds
        .iter()
        .map(|rounds| median(rounds.iter().map(|r| r.seconds[UPDATE] / r.seconds[SETUP]).collect()))
        .collect();
    let measured = Measured { loaded: &loaded, counts, medians, ratios, last, repeat: arguments.repeat };
    emit(&measured.table())?;
    emit(&measured.line())?;
    Ok(if last.converged { Outcome::Done } else { Outcome::NotConverged })
}

/// One fresh set-up, a solve from zero, updates with the same values, and single applications of the hierarchy.
fn measure<T: Scalar>(loaded: &Loaded, context: &Context) -> Result<Round> {
    let b = vec![T::ONE; loaded.matrix.rows()];
    let mut x = vec![T::ZERO; loaded.matrix.rows()];
    let mut solver = Solver::new(context, &loaded.config);
    let (setup, ()) = timed(|| solver.setup(Some(&loaded.matrix)))?;
    let (solve, status) = timed(|| solver.solve(&b, &mut x, Guess::Zero))?;
    let iterations = solver.report().solves.first().map_or(0, |solve| solve.iterations);
    let (first_update, ()) = timed(|| solver.update())?;
    let updates: Vec<f64> = (0..3).map(|_| Ok(timed(|| solver.update())?.0)).collect::<Result<_>>()?;
    let update = median(updates);
    drop(solver);

    let mut amg = Amg::setup(context, &loaded.matrix, &loaded.config)?;
    let mut applications = Vec::new();
    for _ in 0..5 {
        applications.push(timed(|| amg.apply(&b, &mut x))?.0);
    }
    let apply = median(applications);
    Ok(Round { seconds: [setup, solve, first_update, update, apply], iterations, converged: status == Status::Success })
}

/// Runs `work`: seconds and result.
pub fn timed<R>(work: impl FnOnce() -> Result<R>) -> Result<(f64, R)> {
    let start = Instant::now();
    let result = work()?;
    Ok((start.elapsed().as_secs_f64(), result))
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => 0.5 * (values[n / 2 - 1] + values[n / 2]),
    }
}

/// Medians of all rounds, for each number of threads.
struct Measured<'a> {
    loaded: &'a Loaded,
    counts: Vec<usize>,
    medians: Vec<[f64; 5]>,
    /// Ratios of updates to set-ups.
    ratios: Vec<f64>,
    last: &'a Round,
    repeat: u32,
}

impl Measured<'_> {
    fn table(&self) -> String {
        let Measured { loaded, counts, medians, ratios, last, repeat } = self;
        let mut out = format!(
            "{}: {} rows, {} nonzeros, {} iterations, {}, medians of {repeat}\n\n{:<17}",
            loaded.name,
            loaded.matrix.rows(),
            loaded.matrix.entries(),
            last.iterations,
            if last.converged { "converged" } else { "not converged" },
            "phase"
        );
        for count in counts {
            let _ = write!(out, " {:>14}", threads(*count));
        }
        out.push_str(if counts.len() > 1 { "  speed-up\n" } else { "\n" });
        for (p, phase) in PHASES.iter().enumerate() {
            let _ = write!(out, "{phase:<17}");
            for median in medians {
                let _ = write!(out, " {:>14}", seconds(median[p]));
            }
            if let [one, .., all] = &medians[..] {
                let _ = write!(out, " {:>9.2}", one[p] / all[p]);
            }
            out.push('\n');
        }
        let _ = write!(out, "update over setup");
        for ratio in ratios {
            let _ = write!(out, " {ratio:>14.3}");
        }
        out.push_str("\n\n");
        out
    }

    fn line(&self) -> String {
        let Measured { loaded, counts, medians, ratios, last, repeat } = self;
        let object = |values: &dyn Fn(usize) -> f64| -> serde_json::Map<String, serde_json::Value> {
            PHASES.iter().enumerate().map(|(p, phase)| (phase.to_string(), json!(values(p)))).collect()
        };
        let runs: Vec<_> = counts
        .iter()
        .zip(medians.iter().zip(ratios))
        .map(|(count, (median, ratio))| {
            json!({ "threads": count, "median_seconds": object(&|p| median[p]), "update_over_setup": ratio })
        })
        .collect();
        let json = json!({
            "bench": "solve",
            "version": env!("CARGO_PKG_VERSION"),
            "problem": loaded.name,
            "rows": loaded.matrix.rows(),
            "nonzeros": loaded.matrix.entries(),
            "iterations": last.iterations,
            "converged": last.converged,
            "repeat": repeat,
            "runs": runs,
            "speed_up": object(&|p| medians[0][p] / medians[medians.len() - 1][p]),
            "peak_resident_bytes": memory::peak_resident_bytes(),
        });
        format!("{json}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
