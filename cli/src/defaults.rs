//! `terrace bench defaults`: iterations with no option set beside those of the configurations that the defaults choose from, over the gallery, as the
//! table of `docs/defaults.md`. No times: the table is the same on every machine.

use crate::Outcome;
use crate::emit::emit;
use crate::input;
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use terrace::io::matrix_market::Contents;
use terrace::{Config, Context, Guess, Matrix, Report, Result, Solver, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Problems of the gallery; all of the table when neither these nor files are given. With `shuffled:` before it a problem is numbered at random
    #[arg(short, long, value_name = "FAMILY:SIZES:NAME=VALUE,...")]
    problem: Vec<String>,

    /// Matrix Market files of symmetric matrices
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where it runs: host, cuda or hip
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: String,
}

/// Problems of every family. What a candidate refuses, as a grid that rows do not show, has no iterations.
const PROBLEMS: &[&str] = &[
    "poisson7:64",
    "poisson7:300x300x1",
    "poisson7:40x40x200",
    "shuffled:poisson7:48",
    "poisson27:48",
    "shuffled:poisson27:32",
    "poisson5:300",
    "poisson9:300",
    "anisotropic:300",
    "anisotropic:300:epsilon=0.01",
    "anisotropic:300:epsilon=0.3",
    "anisotropic:48x48x48",
    "anisotropic:48x48x48:epsilon=100",
    "anisotropic:48x48x48:epsilon=3",
    "rotated_anisotropic:256",
    "rotated_anisotropic:256:angle=30",
    "rotated_anisotropic:256:epsilon=0.1",
    "rotated_anisotropic:256:epsilon=0.5",
    "jumps:48",
    "jumps:48:contrast=1e-6",
    "jumps:48:contrast=100",
    "jumps:48:contrast=3",
    "convection_diffusion:256",
    "convection_diffusion:256:epsilon=0.001",
    "convection_diffusion:256:epsilon=1",
    "beam:2",
    "beam:1:order=6",
    "lshape:4",
    "lshape:3:order=8",
    "lognormal:40",
    "lognormal:40:sigma=4",
    "lognormal:40:sigma=0.3",
    "random_m_matrix:100000",
    "random_m_matrix:100000:reach=100000",
    "random_m_matrix:50000:edges=10",
    "hubs:50000",
    "hubs:50000:hubs=10,every=50",
    "elasticity:24",
    "elasticity:24:contrast=1000",
    "elasticity_tet:20",
    "elasticity_tet:20:contrast=1000",
    "laplace_jittered:48",
    "elasticity_jittered:20",
    "laplace27:48",
    "rhd:48",
    "rhd3t:24",
    "oil:48",
    "oil4c:20",
    "weather:48",
    "solid3d:20",
    // Of a size from which defaults look for a grid.
    "poisson7:80",
    "poisson27:80",
    "poisson5:720",
    "anisotropic:80x80x80",
    "anisotropic:80x80x80:epsilon=3",
    "jumps:80:contrast=3",
    "lognormal:80",
];

type Options = &'static [(&'static str, &'static str)];

const CLASSICAL: Options = &[("amg.coarsening.type", "pmis"), ("amg.smoother.type", "l1_jacobi")];
const AGGREGATION: Options = &[("amg.coarsening.type", "mis2"), ("amg.smoother.type", "chebyshev")];
const GRID: Options = &[("amg.type", "structured")];

/// What defaults are chosen from: a name, options of components, and the formats of the levels.
const CANDIDATES: &[(&str, Options, &str)] = &[
    ("classical, f64", CLASSICAL, "input"),
    ("classical, f32", CLASSICAL, "single"),
    ("aggregation, f64", AGGREGATION, "input"),
    ("aggregation, f32", AGGREGATION, "single"),
    ("on the grid", GRID, "default"),
];

/// A line of the table.
struct Row {
    problem: String,
    rows: usize,
    /// With no option set, then for each candidate.
    solves: Vec<Solve>,
}

/// How a solve went.
struct Solve {
    iterations: Option<usize>,
    converged: bool,
    complexity: f64,
    /// Formats of the finest level.
    formats: &'static str,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let context = Context::new(&arguments.device)?;
    let mut problems: Vec<(String, Option<PathBuf>)> = arguments.problem.iter().map(|p| (p.clone(), None)).collect();
    problems.extend(arguments.files.iter().map(|file| (file.display().to_string(), Some(file.clone()))));
    if problems.is_empty() {
        problems = PROBLEMS.iter().map(|p| (p.to_string(), None)).collect();
    }
    let mut rows = Vec::new();
    for (name, file) in &problems {
        let matrix = Arc::new(load(name, file.as_ref(), progress)?);
        let nonsymmetric = name.starts_with("convection");
        let mut solves = vec![progress.spin(name, || solve(&context, &matrix, &[], "default", nonsymmetric))?];
        for (candidate, options, formats) in CANDIDATES {
            let title = format!("{name}, {candidate}");
            solves.push(progress.spin(&title, || solve(&context, &matrix, options, formats, nonsymmetric))?);
        }
        rows.push(Row { problem: name.clone(), rows: matrix.rows(), solves });
    }
    emit(&table(&rows))?;
    emit(&format!(
        "\n{}\n",
        json!({ "bench": "defaults", "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() })
    ))?;
    Ok(Outcome::Done)
}

/// A problem of the gallery, or a file.
fn load(name: &str, file: Option<&PathBuf>, progress: Progress) -> Result<Matrix> {
    if let Some(path) = file {
        return match input::read(path, progress)? {
            Contents::Sparse(a) => Matrix::from_csr(a),
            Contents::Dense(_) => Err(terrace::Error::new(Status::InvalidArgument, format!("{name} is not sparse"))),
        };
    }
    gallery::parse(name)?.into_matrix()
}

/// A solve for a right-hand side of ones.
fn solve(
    context: &Context,
    matrix: &Arc<Matrix>,
    options: &[(&str, &str)],
    formats: &str,
    nonsymmetric: bool,
) -> Result<Solve> {
    let mut config = Config::new();
    config.set_int("solver.max_iterations", 300)?;
    if nonsymmetric {
        config.set_str("solver.type", "gmres")?;
    }
    config.set_str("precision", formats)?;
    for (key, value) in options {
        config.set_str(key, value)?;
    }
    let mut solver = Solver::new(context, &config);
    let (b, mut x) = (vec![1.0; matrix.rows()], vec![0.0; matrix.rows()]);
    let status = solver.setup(Some(matrix)).and_then(|()| solver.solve(&b, &mut x, Guess::Zero));
    let report: Report = solver.report();
    Ok(Solve {
        iterations: report.solves.first().map(|solve| solve.iterations),
        converged: matches!(status, Ok(Status::Success)),
        complexity: report.operator_complexity(),
        formats: report.levels.first().map_or("-", |level| level.matrix_precision.name()),
    })
}

impl Row {
    fn to_json(&self) -> Json {
        let solve = |solve: &Solve| json!({ "iterations": solve.iterations, "converged": solve.converged, "complexity": solve.complexity, "formats": solve.formats });
        json!({ "problem": self.problem, "rows": self.rows, "solves": self.solves.iter().map(solve).collect::<Vec<_>>() })
    }

    /// What the default is among the candidates: the one with its complexity.
    fn chosen(&self) -> &'static str {
        let [default, classical, _, aggregation, _, grid] = &self.solves[..] else { return "" };
        let near = |other: &Solve| (default.complexity - other.complexity).abs() < 1e-12;
        match (near(classical), near(aggregation), near(grid)) {
            (true, false, false) => "classical",
            (false, true, false) => "aggregation",
            (false, false, true) => "on the grid",
            (false, false, false) => "?",
            _ => "either",
        }
    }
}

fn table(rows: &[Row]) -> String {
    let mut out = String::from("| problem | default | is |");
    for (name, ..) in CANDIDATES {
        let _ = write!(out, " {name} |");
    }
    out.push_str(" complexity, classical | complexity, aggregation |\n");
    let _ = writeln!(out, "|{}", " --- |".repeat(CANDIDATES.len() + 5));
    for row in rows {
        let shown = |solve: &Solve| match (solve.iterations, solve.converged) {
            (Some(iterations), true) => iterations.to_string(),
            (Some(iterations), false) => format!("{iterations} (not converged)"),
            (None, _) => "-".to_string(),
        };
        let [default, candidates @ ..] = &row.solves[..] else { continue };
        let _ = write!(out, "| `{}` | {} | {}, {} |", row.problem, shown(default), row.chosen(), default.formats);
        candidates.iter().for_each(|solve| out.push_str(&format!(" {} |", shown(solve))));
        let complexity = |i: usize| candidates.get(i).map_or(0.0, |solve| solve.complexity);
        let _ = writeln!(out, " {:.2} | {:.2} |", complexity(0), complexity(2));
    }
    out
}
