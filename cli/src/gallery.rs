//! `terrace gallery`: write generated problems to files.

use crate::Outcome;
use crate::emit::{emit, seconds};
use crate::progress::Progress;
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;
use terrace::gallery::{FAMILIES, parse};
use terrace::io::matrix_market::{Dense, write_dense, write_matrix};
use terrace::{Error, Result, Status};

/// Usages up to this long stand before their explanation, longer ones above it.
const WIDTH: usize = 40;

/// Write a generated problem as a Matrix Market file, or list the families
#[derive(Args)]
#[command(after_help = families_help())]
pub struct Arguments {
    /// The problem, like poisson7:20x30x40 or anisotropic:99:epsilon=0.01; without it the families are listed
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", requires = "output")]
    problem: Option<String>,

    /// The file; a name that ends in .gz compresses
    #[arg(short, long, value_name = "FILE", requires = "problem")]
    output: Option<PathBuf>,

    /// Also write the coordinates of the nodes, for problems that have them
    #[arg(long, value_name = "FILE", requires = "problem")]
    coordinates: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let (Some(description), Some(output)) = (&arguments.problem, &arguments.output) else {
        emit(&families())?;
        return Ok(Outcome::Done);
    };
    let start = Instant::now();
    let progress = Progress::new(false);
    let problem = progress.spin(&format!("generating {description}"), || parse(description))?;
    let comment = format!("{} by terrace {}", problem.name, env!("CARGO_PKG_VERSION"));
    if let Some(path) = &arguments.coordinates {
        let Some(coordinates) = &problem.coordinates else {
            let message = format!("--coordinates: the problem {} has no node coordinates", problem.name);
            return Err(Error::new(Status::InvalidArgument, message));
        };
        write_dense(path, &by_columns(coordinates, problem.dimension), &comment)?;
    }
    let view = problem.matrix.view();
    progress.spin(&format!("writing {}", output.display()), || write_matrix(output, &view, &comment))?;
    emit(&format!(
        "{}: {} rows, {} nonzeros, written to {} in {}\n",
        problem.name,
        view.scalar_rows(),
        view.entries(),
        output.display(),
        seconds(start.elapsed().as_secs_f64())
    ))?;
    Ok(Outcome::Done)
}

/// One node in each row.
fn by_columns(coordinates: &[f64], dimension: usize) -> Dense {
    let values = (0..dimension).flat_map(|c| coordinates.iter().skip(c).step_by(dimension).copied()).collect();
    Dense { rows: coordinates.len() / dimension, cols: dimension, values }
}

/// The families as a section of a help page.
pub fn families_help() -> String {
    format!("Problems:\n{}", families().lines().map(|line| format!("  {line}\n")).collect::<String>())
}

/// Families with what they are, and below each its parameters.
fn families() -> String {
    let mut lines = Vec::new();
    for family in FAMILIES {
        lines.push((family.usage(), family.help.to_string()));
        for p in family.parameters {
            let written = format!("  {}={}", p.name, p.default_written());
            lines.push((written, format!("  {}; {}", p.help, p.accepts())));
        }
    }
    lines.push(("shuffled:FAMILY:...".to_string(), "any of them with its nodes numbered at random".to_string()));
    let width = lines.iter().map(|(usage, _)| usage.len()).filter(|&w| w <= WIDTH).max().unwrap_or(0);
    let mut out = String::new();
    for (usage, help) in lines {
        if usage.len() <= width {
            let _ = writeln!(out, "{usage:<width$}  {help}");
        } else {
            let _ = writeln!(out, "{usage}\n{:width$}  {help}", "");
        }
    }
    out
}
