//! `terrace bench setup`: set-up, update and time to solution on a GPU, with a matrix that is there already.

use crate::Outcome;
use crate::bench::median;
use crate::emit::{bytes, emit, seconds};
use crate::gpu::copy_bandwidth;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;
use terrace::backend::{Backend, StorageFactory};
use terrace::context::LogLevel;
use terrace::gpu::{Step, Times};
use terrace::sparse::Csr;
use terrace::{Config, Context, Error, Guess, Matrix, Result, Solver, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// The problems (see `terrace gallery`)
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", default_value = "poisson7:128")]
    problems: Vec<String>,

    /// Device, like cuda:0; the simulation only shows that the command works
    #[arg(short, long, default_value = "cuda:0")]
    device: String,

    /// Times that everything is measured, after a warm-up
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Also the time of each kernel and step in a set-up, and in an update, the bytes of the arrays that they were given, and the share of the time of a copy
    #[arg(long)]
    kernels: bool,

    /// Mebibytes of each of the two vectors of the copy that kernels are compared with
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    copy_mib: u32,

    /// No updates, which hold the hierarchy twice while they run
    #[arg(long)]
    no_update: bool,

    /// The matrix and set-up in f32, which less memory holds; the Krylov method stays in f64
    #[arg(long)]
    single: bool,

    /// Option of the solver, beside those that are compared
    #[arg(short, long, value_name = "KEY=VALUE")]
    option: Vec<String>,
}

/// Sets of options that are compared.
const SETS: &[(&str, &[(&str, &str)])] = &[
    ("default", &[]),
    ("f64", &[("precision", "input")]),
    (
        "f16 in f32",
        &[
            ("precision.matrix", "f16"),
            ("precision.transfer", "f16"),
            ("precision.smoother", "f16"),
            ("precision.vector", "f32"),
        ],
    ),
];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let context = Context::new(&arguments.device)?;
    let Some(gpu) = context.gpu() else {
        return Err(Error::new(Status::Device, format!("{} is not a GPU", arguments.device)));
    };
    emit(&format!("{}\n", gpu.description()))?;
    let mut lines = Vec::new();
    for problem in &arguments.problems {
        let matrix = gallery::parse(problem)?.into_matrix()?;
        let matrix = Arc::new(match arguments.single {
            true => single(&matrix)?.to_device(&context)?,
            false => matrix.to_device(&context)?,
        });
        emit(&format!("\n{problem}: {} rows, {} nonzeros\n", matrix.rows(), matrix.entries()))?;
        for (name, set) in SETS {
            let mut config = Config::new();
            if arguments.single {
                config.set_str("precision.setup", "f32")?;
                config.set_str("solver.precision", "f64")?;
            }
            for (key, value) in *set {
                config.set_str(key, value)?;
            }
            for option in &arguments.option {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                config.set_str(key, value)?;
            }
            lines.push(measure(&context, &matrix, &config, arguments, problem, name)?);
            if arguments.kernels {
                kernels(&context, &matrix, &config, arguments)?;
            }
        }
    }
    let line = json!({
        "bench": "setup", "version": env!("CARGO_PKG_VERSION"), "device": arguments.device, "name": gpu.description(),
        "repeat": arguments.repeat, "results": lines,
    });
    emit(&format!("{line}\n"))?;
    Ok(Outcome::Done)
}

/// The matrix with values in f32.
fn single(matrix: &Matrix) -> Result<Matrix> {
    let a = matrix.shared::<f32>()?;
    let view = a.view();
    let offsets = (0..=view.rows).map(|i| view.offsets.raw(i)).collect();
    let (rows, cols, block, columns, values) =
        (view.rows, view.cols, view.block, view.columns.to_vec(), view.values.to_vec());
    Matrix::from_csr(Csr { rows, cols, block, offsets, columns, values })
}

/// Measures one set of options: set-up, update and solve, and set-up once more with its phases one by one.
fn measure(
    context: &Context,
    matrix: &Arc<Matrix>,
    config: &Config,
    arguments: &Arguments,
    problem: &str,
    name: &str,
) -> Result<Value> {
    let gpu = context.gpu().expect("the context is on a GPU");
    let (b, mut x) = (gpu.array(vec![1.0_f64; matrix.rows()])?, gpu.zeros::<f64>(matrix.rows())?);
    let (mut setups, mut updates, mut solves) = (Vec::new(), Vec::new(), Vec::new());
    let (mut report, mut updated_bytes) = (None, None);
    gpu.reset_peak();
    let (mut peak, mut place) = (0, String::new());
    for round in 0..=arguments.repeat {
        let mut solver = Solver::new(context, config);
        gpu.synchronize()?;
        let start = Instant::now();
        solver.setup(Some(matrix))?;
        gpu.synchronize()?;
        let setup = start.elapsed().as_secs_f64();
        if round == 0 {
            (peak, place) = (gpu.memory().peak, solver.report().setup_place);
        }
        let start = Instant::now();
        solver.solve_on_device(&b, &mut x, Guess::Zero)?;
        gpu.synchronize()?;
        let solve = start.elapsed().as_secs_f64();
        report = Some(solver.report());
        let mut update = None;
        if !arguments.no_update {
            // The first update also computes symbolic data for the later ones.
            solver.update()?;
            gpu.synchronize()?;
            let start = Instant::now();
            solver.update()?;
            gpu.synchronize()?;
            update = Some(start.elapsed().as_secs_f64());
            updated_bytes = Some(solver.report().bytes);
        }
        if round > 0 {
            setups.push(setup);
            solves.push(solve);
            updates.extend(update);
        }
    }
    let (setup, solve) = (median(setups), median(solves));
    let update = (!arguments.no_update).then(|| median(updates));
    let report = report.expect("there was a round");
    let last = &report.solves[0];
    let updates = update.map_or(String::new(), |s| format!("update {:>10} ({:.2})  ", seconds(s), s / setup));
    emit(&format!(
        "{name:<12} set-up {:>10}  {updates}solve {:>10} in {} iterations to {:.1e}  together {:>10}\n",
        seconds(setup),
        seconds(solve),
        last.iterations,
        last.true_residual,
        seconds(setup + solve)
    ))?;
    emit(&format!(
        "{:<12} computed on {}; {} levels, complexity {:.2}, {} held{}, {} at most during set-up\n",
        "",
        place,
        report.levels.len(),
        report.operator_complexity(),
        bytes(report.bytes),
        updated_bytes.map_or(String::new(), |held| format!(" ({} with what updates go by)", bytes(held))),
        bytes(peak)
    ))?;
    let phases = phases(context, matrix, config)?;
    let text: Vec<String> = phases.iter().map(|(name, s)| format!("{name} {}", seconds(*s))).collect();
    emit(&format!("{:<12} {}\n", "", text.join(", ")))?;
    Ok(json!({
        "problem": problem, "options": name, "setup_seconds": setup, "update_seconds": update, "solve_seconds": solve,
        "iterations": last.iterations, "true_residual": last.true_residual, "place": place,
        "levels": report.levels.len(), "operator_complexity": report.operator_complexity(), "bytes": report.bytes,
        "updated_bytes": updated_bytes, "peak_bytes": peak, "phases": phases.iter().map(|(name, s)| json!({"phase": name, "seconds": s})).collect::<Vec<_>>(),
    }))
}

/// Seconds of the phases of a set-up that waits for each of them.
fn phases(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Vec<(&'static str, f64)>> {
    context.set_log(LogLevel::Debug, Some(Box::new(|_, _| ())));
    let mut solver = Solver::new(context, config);
    let done = solver.setup(Some(matrix));
    context.set_log(LogLevel::Debug, None);
    done?;
    Ok(solver.report().setup.seconds)
}

/// Prints what the kernels of a solve, of a set-up and of an update take, each launch on its own, the bytes of the arrays that they were given, and the share of the time
/// in which they could be copied; then the same for the steps of each level. An array counts once in a step, however many launches are given it, and
/// however few of its rows they read; of a stencil that a launch sweeps for one colour, the cells of that colour count.
fn kernels(context: &Context, matrix: &Arc<Matrix>, config: &Config, arguments: &Arguments) -> Result<()> {
    let gpu = context.gpu().expect("the context is on a GPU");
    let mut solver = Solver::new(context, config);
    gpu.start_profile(false);
    solver.setup(Some(matrix))?;
    let mut phases = vec![("set-up", gpu.end_profile())];
    if !arguments.no_update {
        solver.update()?;
        gpu.start_profile(false);
        solver.update()?;
        phases.push(("update", gpu.end_profile()));
    }
    let (b, mut x) = (gpu.array(vec![1.0_f64; matrix.rows()])?, gpu.zeros::<f64>(matrix.rows())?);
    gpu.start_profile(true);
    let solved = solver.solve_on_device(&b, &mut x, Guess::Zero);
    let of_solve = gpu.end_profile();
    solved?;
    let bandwidth = copy_bandwidth(gpu, arguments.copy_mib, arguments.repeat)?;
    emit_kernels("solve", &of_solve, bandwidth, |sum| sum.given)?;
    for (phase, times) in phases {
        emit_kernels(phase, &times, bandwidth, |sum| sum.bytes())?;
        emit(&format!("steps of {phase}: time, bytes, share of the floor\n\n{}\n", table_of_steps(&times, bandwidth)))?;
    }
    Ok(())
}

/// Prints what kernels take; `bytes_of` counts what they move.
pub fn emit_kernels(phase: &str, times: &[Times], bandwidth: f64, bytes_of: impl Fn(&Sum) -> u64) -> Result<()> {
    let total: f64 = times.iter().map(|kernel| kernel.seconds).sum();
    emit(&format!("kernels of {phase}: {}, copy {:.0} GB/s\n", seconds(total), bandwidth / 1e9))?;
    for (name, sum) in Sum::of(times, |times| times.name.clone()) {
        let moved = bytes_of(&sum);
        emit(&format!(
            "  {name:<40} {:>5} {:>12} {:>5.1}%  {:>10} {:>6.0}% of floor\n",
            sum.launches,
            seconds(sum.seconds),
            100.0 * sum.seconds / total,
            bytes(moved as usize),
            100.0 * moved as f64 / bandwidth / sum.seconds
        ))?;
    }
    Ok(())
}

/// Steps of a level, in the order in which it has them; others come last.
const STEPS: [&str; 8] = ["nodes", "strength", "coarsen", "interpolation", "galerkin", "place", "smoother", "coarsest"];

/// A Markdown table of the steps of each level, and a line for each that is one of all.
fn table_of_steps(times: &[Times], bandwidth: f64) -> String {
    let steps = Sum::of(times, |times| times.step.clone());
    let mut levels = Sum::of(times, |times| times.step.level);
    levels.sort_by_key(|(level, _)| *level);
    let names: BTreeSet<_> = steps.iter().filter(|(step, _)| step.level.is_some()).map(|(step, _)| step.name).collect();
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|name| STEPS.iter().position(|step| step == name).unwrap_or(STEPS.len()));
    let mut text = format!("| level | {} | all |\n|{}\n", names.join(" | "), " --- |".repeat(names.len() + 2));
    for (level, all) in &levels {
        let Some(level) = level else { continue };
        let of = |name| steps.iter().find(|(step, _)| *step == Step { level: Some(*level), name });
        let cell = |name: &&'static str| of(*name).map_or(String::new(), |(_, sum)| sum.cell(bandwidth));
        let cells: Vec<_> = names.iter().map(cell).collect();
        let all = format!("{}, {} launches", seconds(all.seconds), all.launches);
        text += &format!("| {level} | {} | {all} |\n", cells.join(" | "));
    }
    text.push('\n');
    for (step, sum) in steps.iter().filter(|(step, _)| step.level.is_none()) {
        text += &format!("{}: {}, {} launches\n", step.name, sum.cell(bandwidth), sum.launches);
    }
    text
}

/// Launches together.
#[derive(Default)]
pub struct Sum {
    launches: usize,
    seconds: f64,
    /// Bytes of the arrays of each launch, all launches together.
    pub given: u64,
    /// By step, address and bytes: memory may be another array in the next step.
    arrays: HashSet<(Step, u64, u64)>,
}

impl Sum {
    /// Those with the same key, what takes most first.
    fn of<K: Eq + Hash + Ord>(times: &[Times], key: impl Fn(&Times) -> K) -> Vec<(K, Sum)> {
        let mut all = HashMap::<K, Sum>::new();
        for kernel in times {
            let sum = all.entry(key(kernel)).or_default();
            sum.launches += kernel.launches;
            sum.seconds += kernel.seconds;
            sum.given += kernel.bytes;
            sum.arrays.extend(kernel.arrays.iter().map(|(address, bytes)| (kernel.step.clone(), *address, *bytes)));
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by(|(a, x), (b, y)| y.seconds.total_cmp(&x.seconds).then_with(|| a.cmp(b)));
        all
    }

    fn bytes(&self) -> u64 {
        self.arrays.iter().map(|(.., bytes)| bytes).sum()
    }

    /// The share of its time that a copy of the bytes would take, in percent.
    fn of_floor(&self, bandwidth: f64) -> f64 {
        100.0 * self.bytes() as f64 / bandwidth / self.seconds
    }

    /// Time, bytes and floor.
    fn cell(&self, bandwidth: f64) -> String {
        format!("{}, {}, {:.0} %", seconds(self.seconds), bytes(self.bytes() as usize), self.of_floor(bandwidth))
    }
}
