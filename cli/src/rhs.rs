//! `terrace bench rhs`: several right-hand sides together, against the same one by one.

use crate::Outcome;
use crate::bench::{median, timed};
use crate::emit::{bytes, emit, seconds, threads};
use crate::gpu::copy_bandwidth;
use crate::input::{Input, Loaded};
use crate::progress::Progress;
use crate::setup::emit_kernels;
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use terrace::backend::{Backend, StorageFactory};
use terrace::gpu::Buffer;
use terrace::{Context, Guess, Result, Scalar, Solver, Status};

/// Size of the copies that kernels are compared with.
const COPY_MIB: u32 = 1024;

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    #[command(flatten)]
    input: Input,

    /// Device: host, cuda:N, hip:N, sim
    #[arg(short, long, value_name = "NAME", default_value = "host")]
    device: String,

    /// Right-hand sides
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,

    /// Times that both are measured, after one warm-up
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Print the time of each kernel of a GPU, and the bytes of the arrays that it is given
    #[arg(long)]
    kernels: bool,
}

/// What was measured of one way.
struct Measured {
    name: &'static str,
    solves: Vec<f64>,
    iterations: usize,
    bytes: usize,
    converged: bool,
}

/// The ways, with values of `solver.columns`.
const WAYS: [(&str, &str); 2] = [("one by one", "1"), ("together", "8")];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let loaded = arguments.input.load_for(&arguments.device, progress)?;
    let measured = match loaded.single_precision() {
        true => measure::<f32>(arguments, &loaded, progress)?,
        false => measure::<f64>(arguments, &loaded, progress)?,
    };
    let ratio = median(measured[0].solves.clone()) / median(measured[1].solves.clone());
    emit(&table(arguments, &loaded, &measured, ratio))?;
    let line = json!({
        "bench": "rhs", "version": env!("CARGO_PKG_VERSION"), "problem": loaded.name,
        "device": loaded.context.device().name(), "threads": loaded.context.threads(), "repeat": arguments.repeat, "count": arguments.count,
        "rows": loaded.matrix.rows(), "nonzeros": loaded.matrix.entries(), "ratio": ratio,
        "ways": measured.iter().map(|m| json!({
            "way": m.name, "solve_seconds": median(m.solves.clone()), "iterations": m.iterations, "bytes": m.bytes,
            "converged": m.converged,
        })).collect::<Vec<_>>(),
    });
    emit(&format!("{line}\n"))?;
    Ok(if measured.iter().all(|m| m.converged) { Outcome::Done } else { Outcome::NotConverged })
}

/// Right-hand sides and solutions, where the solver is.
enum Vectors<T: Scalar> {
    OnHost(Vec<T>, Vec<T>),
    OnDevice(Buffer<T>, Buffer<T>),
}

impl<T: Scalar> Vectors<T> {
    fn new(context: &Context, n: usize, count: usize) -> Result<Vectors<T>> {
        // Smooth, oscillating and concentrated ones.
        let element = |i: usize| T::from_f64((((i % n) * (1 + i / n)) as f64 * 0.1).sin() + 0.5);
        let b: Vec<T> = (0..n * count).map(element).collect();
        Ok(match context.gpu() {
            Some(gpu) => Vectors::OnDevice(gpu.array(b)?, gpu.zeros(n * count)?),
            None => Vectors::OnHost(b, vec![T::ZERO; n * count]),
        })
    }

    fn solve(&mut self, solver: &mut Solver) -> Result<Status> {
        match self {
            Vectors::OnHost(b, x) => solver.solve(b, x, Guess::Zero),
            Vectors::OnDevice(b, x) => solver.solve_on_device(b, x, Guess::Zero),
        }
    }
}

/// Solves from zero both ways in turn, so that a slow moment of the machine affects both.
fn measure<T: Scalar>(arguments: &Arguments, loaded: &Loaded, progress: Progress) -> Result<Vec<Measured>> {
    let mut vectors = Vectors::<T>::new(&loaded.context, loaded.matrix.rows(), arguments.count as usize)?;
    let mut solvers = Vec::new();
    for (name, columns) in WAYS {
        let mut config = loaded.config.clone();
        config.set_str("solver.columns", columns)?;
        let mut solver = Solver::new(&loaded.context, &config);
        progress.spin(&format!("set-up, {name}"), || solver.setup(Some(&loaded.matrix)))?;
        let measured = Measured { name, solves: Vec::new(), iterations: 0, bytes: 0, converged: true };
        solvers.push((solver, measured));
    }
    for round in 0..=arguments.repeat {
        for (solver, measured) in &mut solvers {
            let title = format!("round {round} of {}, {}", arguments.repeat, measured.name);
            let (time, status) = progress.spin(&title, || timed(|| vectors.solve(solver)))?;
            if round > 0 {
                measured.solves.push(time);
            }
            let report = solver.report();
            measured.iterations = report.solves.iter().map(|solve| solve.iterations).max().unwrap_or(0);
            measured.bytes = report.bytes;
            measured.converged &= status == Status::Success;
        }
    }
    if let Some(gpu) = loaded.context.gpu().filter(|_| arguments.kernels) {
        let bandwidth = copy_bandwidth(gpu, COPY_MIB, arguments.repeat)?;
        for (solver, measured) in &mut solvers {
            gpu.start_profile(true);
            let done = vectors.solve(solver);
            let times = gpu.end_profile();
            done?;
            emit_kernels(&format!("a solve, {}", measured.name), &times, bandwidth, |sum| sum.given)?;
        }
    }
    Ok(solvers.into_iter().map(|(_, measured)| measured).collect())
}

fn table(arguments: &Arguments, loaded: &Loaded, measured: &[Measured], ratio: f64) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} rows, {} entries, {} right-hand sides, {}\n",
        loaded.name,
        loaded.matrix.rows(),
        loaded.matrix.entries(),
        arguments.count,
        threads(loaded.context.threads())
    );
    let _ = writeln!(out, "{:<12} {:>10} {:>15} {:>10}", "way", "solve", "most iterations", "held");
    for m in measured {
        let time = seconds(median(m.solves.clone()));
        let _ = writeln!(out, "{:<12} {time:>10} {:>15} {:>10}", m.name, m.iterations, bytes(m.bytes));
    }
    let _ = writeln!(out, "\ntogether {ratio:.2} times as fast");
    out
}
