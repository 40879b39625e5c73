//! `terrace solve`: set up, solve, and tell what was done.

use crate::emit::{bytes, emit, save, scientific, seconds};
use crate::input::{self, Input, Loaded};
use crate::progress::Progress;
use crate::{Outcome, memory, plot};
use clap::Args;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use terrace::io::matrix_market::{Dense, write_dense, write_matrix};
use terrace::report::{Phases, SolveReport};
use terrace::sparse::SharedCsr;
use terrace::{Amg, Error, Guess, Report, Result, Scalar, Solver, Status};

/// Solve A x = b and print levels, residual history, times and memory
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    #[command(flatten)]
    input: Input,

    /// Device: host, cuda:N, hip:N, sim
    #[arg(short, long, value_name = "NAME", default_value = "host")]
    device: String,

    /// Right-hand sides, one in each column of a Matrix Market array; a vector of ones when not given
    #[arg(long, value_name = "FILE")]
    rhs: Option<PathBuf>,

    /// Take the product of the matrix with random numbers as right-hand side, which no conditioning keeps from the tolerance
    #[arg(long, conflicts_with = "rhs")]
    random_solution: bool,

    /// Write the solutions as a Matrix Market array; a name that ends in .gz compresses
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the matrices of all levels to a folder as Matrix Market files: A0, P0 and R0 of the finest, A1 = R0 A0 P0 and so on
    #[arg(long, value_name = "FOLDER")]
    dump_levels: Option<PathBuf>,

    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,

    /// Draw residual history and levels
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(arguments.json);
    let loaded = arguments.input.load_for(&arguments.device, progress)?;
    let rows = loaded.matrix.rows();
    let b = match &arguments.rhs {
        Some(path) => input::read_vectors(path, rows, progress)?,
        None if arguments.random_solution => Dense { rows, cols: 1, values: loaded.product()? },
        None => Dense { rows, cols: 1, values: vec![1.0; rows] },
    };

    let mut solver = Solver::new(&loaded.context, &loaded.config);
    progress.follow(&loaded.context, "set-up", || solver.setup(Some(&loaded.matrix)))?;
    let (status, x) = progress.follow(&loaded.context, "solve", || {
        if loaded.single_precision() { solve::<f32>(&mut solver, &b) } else { solve::<f64>(&mut solver, &b) }
    })?;
    let report = solver.report();

    if let Some(path) = &arguments.output {
        let comment = format!("solution of {} by terrace {}", loaded.name, env!("CARGO_PKG_VERSION"));
        write_dense(path, &Dense { values: x, ..b }, &comment)?;
    }
    if let Some(folder) = &arguments.dump_levels {
        progress.spin("writing levels", || dump_levels(&loaded, folder))?;
    }
    if let Some(path) = &arguments.plot {
        save(path, &plot::draw(&loaded.name, &report))?;
    }
    emit(&if arguments.json { to_json(&loaded, &report, status)? } else { to_text(&loaded, &report) })?;
    if let Some(unsolved) = solver.unsolved() {
        eprintln!("terrace: {unsolved}");
    }
    Ok(if status == Status::Success { Outcome::Done } else { Outcome::NotConverged })
}

/// Writes the matrices of the hierarchy, in scalar entries.
fn dump_levels(loaded: &Loaded, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::new(Status::Io, format!("{} could not be made: {error}", folder.display())))?;
    let write = |name: String, a: &SharedCsr<f64>| {
        let comment = format!("{name} of {} by terrace {}", loaded.name, env!("CARGO_PKG_VERSION"));
        write_matrix(&folder.join(format!("{name}.mtx")), &a.view(), &comment)
    };
    for (i, level) in Amg::level_matrices(&loaded.context, &loaded.matrix, &loaded.config)?.iter().enumerate() {
        write(format!("A{i}"), &level.a)?;
        if let Some((p, r)) = &level.transfer {
            write(format!("P{i}"), p)?;
            write(format!("R{i}"), r)?;
        }
    }
    Ok(())
}

/// Solves in the precision of the Krylov method.
fn solve<T: Scalar>(solver: &mut Solver, b: &Dense) -> Result<(Status, Vec<f64>)> {
    let b: Vec<T> = b.values.iter().map(|&v| T::from_f64(v)).collect();
    let mut x = vec![T::ZERO; b.len()];
    let status = solver.solve(&b, &mut x, Guess::Zero)?;
    Ok((status, x.into_iter().map(T::to_f64).collect()))
}

fn to_json(loaded: &Loaded, report: &Report, status: Status) -> Result<String> {
    let mut object: Map<String, Json> = serde_json::from_str(&report.to_json())
        .map_err(|error| Error::new(Status::Internal, format!("the report is not a JSON object: {error}")))?;
    let matrix = &loaded.matrix;
    object.insert(
        "problem".to_string(),
        json!({
            "name": loaded.name,
            "rows": matrix.rows(),
            "columns": matrix.cols(),
            "nonzeros": matrix.entries(),
            "block_size": matrix.block().rows,
            "precision": matrix.precision().name(),
            "load_seconds": loaded.load_seconds,
        }),
    );
    object.insert("status".to_string(), json!(status.row().name));
    object.insert("peak_resident_bytes".to_string(), json!(memory::peak_resident_bytes()));
    Ok(format!("{}\n", Json::Object(object)))
}

fn to_text(loaded: &Loaded, report: &Report) -> String {
    let matrix = &loaded.matrix;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} rows, {} nonzeros, {}, loaded in {}\n",
        loaded.name,
        matrix.rows(),
        matrix.entries(),
        matrix.block().format(),
        seconds(loaded.load_seconds)
    );
    out.push_str(&report.to_text());
    for (i, solve) in report.solves.iter().enumerate() {
        let _ = writeln!(out, "\nresidual history of right-hand side {i}");
        write_history(&mut out, solve);
    }
    out.push('\n');
    write_phases(&mut out, "set-up", &report.setup);
    write_phases(&mut out, "solve", &report.solve);
    let _ = write!(out, "memory: {} held by hierarchy and solver", bytes(report.bytes));
    if let Some(peak) = memory::peak_resident_bytes() {
        let _ = write!(out, ", peak resident set of the process {}", bytes(peak));
    }
    out.push('\n');
    out
}

/// Every iteration of a short history, every so many of a long one, and always the last.
fn write_history(out: &mut String, solve: &SolveReport) {
    const MAX_POINTS: usize = 50;
    let last = solve.history.len().saturating_sub(1);
    let stride = solve.history.len().div_ceil(MAX_POINTS).max(1);
    let _ = writeln!(out, "{:>9} {:>12} {:>8}", "iteration", "residual", "factor");
    for (i, residual) in solve.history.iter().enumerate().filter(|(i, _)| i % stride == 0 || *i == last) {
        let _ = write!(out, "{i:>9} {:>12}", scientific(*residual));
        if i > 0 {
            let _ = write!(out, " {:>8.3}", residual / solve.history[i - 1]);
        }
        out.push('\n');
    }
}

fn write_phases(out: &mut String, title: &str, phases: &Phases) {
    let total = phases.get("total");
    let _ = writeln!(out, "{title:<7} {:>11}", seconds(total));
    for (name, spent) in phases.seconds.iter().filter(|(name, _)| *name != "total") {
        let share = if total > 0.0 { 100.0 * spent / total } else { 0.0 };
        let _ = writeln!(out, "  {name:<16} {:>11} {share:>5.1} %", seconds(*spent));
    }
}
