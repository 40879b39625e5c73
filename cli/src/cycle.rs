//! `terrace bench cycle`: one cycle of the hierarchy and a whole solve, in several precisions against f64.
//!
//! A cycle is bound by memory, so that the bytes which the levels hold (matrices with their indices, transfers, smoothers, vectors) say what
//! shorter formats can give at best. Both ratios stand side by side.

use crate::Outcome;
use crate::bench::{median, timed};
use crate::emit::{bytes, emit, seconds, threads};
use crate::input::{Input, Loaded};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use terrace::{Amg, Config, Guess, Result, Solver, Status};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    #[command(flatten)]
    input: Input,

    /// Times that every cycle is measured, after two warm-ups
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,

    /// Times that every solve is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    solves: u32,
}

/// Warm-up rounds.
const WARM_UPS: u32 = 2;

/// Name, storage of matrices, transfers and smoothers, and vectors; the first is what the others are compared with.
const PRECISIONS: [(&str, &str, &str); 4] =
    [("f64", "f64", "f64"), ("f32", "f32", "f32"), ("f16/f32", "f16", "f32"), ("bf16/f32", "bf16", "f32")];

/// What was measured in one precision.
struct Measured {
    name: &'static str,
    /// Of all levels.
    bytes: usize,
    cycles: Vec<f64>,
    solves: Vec<f64>,
    iterations: usize,
    converged: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let loaded = arguments.input.load(progress)?;
    let configs = PRECISIONS.map(|precision| config(&loaded, precision)).into_iter().collect::<Result<Vec<_>>>()?;
    let b = vec![1.0; loaded.matrix.rows()];
    let mut x = vec![0.0; loaded.matrix.rows()];

    // Precisions alternate, so that a slow moment of the machine affects all of them.
    let mut measured = Vec::new();
    let mut hierarchies = Vec::new();
    for (config, (name, ..)) in configs.iter().zip(PRECISIONS) {
        let amg = progress.spin(&format!("set-up, {name}"), || Amg::setup(&loaded.context, &loaded.matrix, config))?;
        let bytes = amg.report().levels.iter().map(|level| level.bytes).sum();
        let (cycles, solves) = (Vec::new(), Vec::new());
        measured.push(Measured { name, bytes, cycles, solves, iterations: 0, converged: true });
        hierarchies.push(amg);
    }
    progress.spin("cycles", || -> Result<()> {
        for round in 0..WARM_UPS + arguments.repeat {
            for (amg, measured) in hierarchies.iter_mut().zip(&mut measured) {
                let (time, ()) = timed(|| amg.apply(&b, &mut x))?;
                if round >= WARM_UPS {
                    measured.cycles.push(time);
                }
            }
        }
        Ok(())
    })?;
    drop(hierarchies);
    let mut solvers = Vec::new();
    for (config, (name, ..)) in configs.iter().zip(PRECISIONS) {
        let mut solver = Solver::new(&loaded.context, config);
        progress.spin(&format!("set-up, {name}"), || solver.setup(Some(&loaded.matrix)))?;
        solvers.push(solver);
    }
    progress.spin("solves", || -> Result<()> {
        for _ in 0..arguments.solves {
            for (solver, measured) in solvers.iter_mut().zip(&mut measured) {
                let (time, status) = timed(|| solver.solve(&b, &mut x, Guess::Zero))?;
                measured.solves.push(time);
                measured.iterations = solver.report().solves.first().map_or(0, |solve| solve.iterations);
                measured.converged &= status == Status::Success;
            }
        }
        Ok(())
    })?;

    emit(&table(arguments, &loaded, &measured))?;
    let line = json!({
        "bench": "cycle", "version": env!("CARGO_PKG_VERSION"), "problem": loaded.name, "threads": loaded.context.threads(),
        "repeat": arguments.repeat, "rows": loaded.matrix.rows(), "nonzeros": loaded.matrix.entries(),
        "precisions": measured.iter().map(|m| json!({
            "precision": m.name, "bytes": m.bytes, "bytes_ratio": measured[0].bytes as f64 / m.bytes as f64,
            "cycle_seconds": median(m.cycles.clone()), "cycle_ratio": ratio(&measured[0].cycles, &m.cycles),
            "solve_seconds": median(m.solves.clone()), "solve_ratio": ratio(&measured[0].solves, &m.solves),
            "iterations": m.iterations, "converged": m.converged,
        })).collect::<Vec<_>>(),
    });
    emit(&format!("{line}\n"))?;
    Ok(if measured.iter().all(|m| m.converged) { Outcome::Done } else { Outcome::NotConverged })
}

/// The options of the command line, with these precisions.
fn config(loaded: &Loaded, (_, storage, vector): (&str, &str, &str)) -> Result<Config> {
    let mut config = loaded.config.clone();
    for part in ["matrix", "transfer", "smoother"] {
        config.set_str(&format!("precision.{part}"), storage)?;
    }
    config.set_str("precision.vector", vector)?;
    Ok(config)
}

/// Speed-up: the median of the ratios of times that were measured one after the other.
fn ratio(slow: &[f64], fast: &[f64]) -> f64 {
    median(slow.iter().zip(fast).map(|(slow, fast)| slow / fast).collect())
}

fn table(arguments: &Arguments, loaded: &Loaded, measured: &[Measured]) -> String {
    let mut out = format!(
        "{}: {} rows, {} nonzeros, {}, medians of {} cycles and {} solves\n\n",
        loaded.name,
        loaded.matrix.rows(),
        loaded.matrix.entries(),
        threads(loaded.context.threads()),
        arguments.repeat,
        arguments.solves
    );
    let _ = writeln!(
        out,
        "{:<10} {:>10} {:>8} {:>10} {:>8} {:>10} {:>8} {:>11}",
        "precision", "bytes", "ratio", "cycle", "ratio", "solve", "ratio", "iterations"
    );
    for m in measured {
        let _ = writeln!(
            out,
            "{:<10} {:>10} {:>8.2} {:>10} {:>8.2} {:>10} {:>8.2} {:>11}",
            m.name,
            bytes(m.bytes),
            measured[0].bytes as f64 / m.bytes as f64,
            seconds(median(m.cycles.clone())),
            ratio(&measured[0].cycles, &m.cycles),
            seconds(median(m.solves.clone())),
            ratio(&measured[0].solves, &m.solves),
            if m.converged { m.iterations.to_string() } else { "failed".to_string() }
        );
    }
    out.push('\n');
    out
}
