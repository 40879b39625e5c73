//! `terrace bench table`: iterations in the number formats of a published table of mixed-precision AMG, beside the published ones.
//!
//! Tsai, "Portable Mixed Precision Algebraic Multigrid on High Performance GPUs" (2024): CG with a V-cycle to 1e-12, aggregation by pairs,
//! at most 11 grids, one Jacobi sweep with weight 0.9 before and after, four on the coarsest, sums in the format of the vectors, nothing
//! scaled.

use crate::Outcome;
use crate::emit::emit;
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::sync::Arc;
use terrace::gallery::{beam, beam_load, lshape, lshape_load};
use terrace::{Config, Context, Guess, Matrix, Report, Result, Solver};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Only this problem: beam or lshape
    #[arg(short, long, value_name = "NAME", value_parser = ["beam", "lshape"])]
    problem: Option<String>,
}

/// The method of the published table.
const METHOD: &[(&str, &str)] = &[
    ("solver.tolerance", "1e-12"),
    ("solver.max_iterations", "800"),
    ("solver.stagnation_window", "0"),
    ("amg.strength.threshold", "0"),
    ("amg.coarsening.type", "pairwise"),
    ("amg.coarsening.pairwise.size", "2"),
    ("amg.interpolation.type", "tentative"),
    ("amg.max_levels", "11"),
    ("amg.coarsest.max_rows", "64"),
    ("amg.coarsest.solver", "sweeps"),
    ("amg.coarsest.sweeps", "4"),
    ("amg.smoother.type", "jacobi"),
    ("amg.smoother.jacobi.weight", "0.9"),
];

/// What the published runs did with 16-bit numbers.
const UNSCALED: &[(&str, &str)] = &[
    ("solver.type", "cg"),
    ("precision.scaling", "none"),
    ("precision.residual_scaling", "none"),
    ("precision.accumulate", "storage"),
];

/// A problem with its published iterations; none where the published run failed.
struct Problem {
    name: &'static str,
    level: usize,
    published: [(&'static str, Option<usize>); 6],
}

const PROBLEMS: &[Problem] = &[
    Problem {
        name: "beam",
        level: 3,
        published: [
            ("dp", Some(44)),
            ("dp-sp", Some(44)),
            ("dp-sp-hp", Some(86)),
            ("dp-hp", Some(127)),
            ("dp-sp-bf", Some(44)),
            ("dp-bf", Some(44)),
        ],
    },
    Problem {
        name: "lshape",
        level: 7,
        published: [
            ("dp", Some(160)),
            ("dp-sp", Some(171)),
            ("dp-sp-hp", None),
            ("dp-hp", None),
            ("dp-sp-bf", Some(186)),
            ("dp-bf", Some(192)),
        ],
    },
];

/// One line of the table.
struct Row {
    problem: &'static str,
    formats: String,
    published: Option<Option<usize>>,
    /// The first iteration after which the carried residual is below the tolerance.
    iterations: Option<usize>,
    matrix_bytes: f64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let mut rows = Vec::new();
    for problem in PROBLEMS.iter().filter(|p| arguments.problem.as_ref().is_none_or(|name| name == p.name)) {
        let (matrix, b) = match problem.name {
            "beam" => (beam(3, problem.level)?, beam_load(3, problem.level)?),
            _ => (lshape(3, problem.level)?, lshape_load(3, problem.level)?),
        };
        let matrix = Arc::new(Matrix::from_csr(matrix)?);
        for (formats, published) in problem.published {
            let title = format!("{} {formats}", problem.name);
            let options = [METHOD, UNSCALED, &[("precision", formats)]].concat();
            let solved = progress.spin(&title, || solve(&matrix, &b, &options))?;
            rows.push(row(problem.name, formats, Some(published), solved));
        }
        // Beyond the table: scaled, sums in f32, formats chosen by set-up.
        let options = [METHOD, &[("precision", "auto")]].concat();
        let solved = progress.spin(&format!("{} auto", problem.name), || solve(&matrix, &b, &options))?;
        rows.push(row(problem.name, "auto", None, solved));
    }
    emit(&page(&rows))?;
    emit(&format!("\n{}\n", json!({ "bench": "table", "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() })))?;
    Ok(Outcome::Done)
}

/// The report of a solve; none when it ended in an error.
fn solve(matrix: &Arc<Matrix>, b: &[f64], options: &[(&str, &str)]) -> Result<Option<Report>> {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value)?;
    }
    let mut solver = Solver::new(&Context::new("host")?, &config);
    solver.setup(Some(matrix))?;
    let mut x = vec![0.0; b.len()];
    Ok(solver.solve(b, &mut x, Guess::Zero).ok().map(|_| solver.report()))
}

fn row(problem: &'static str, formats: &str, published: Option<Option<usize>>, report: Option<Report>) -> Row {
    let history = report.as_ref().map_or(&[][..], |report| &report.solves[0].history);
    let iterations = history.iter().position(|norm| *norm <= 1e-12);
    let levels = report.as_ref().map_or(&[][..], |report| &report.levels);
    let bytes =
        |value: &dyn Fn(usize) -> usize| levels.iter().enumerate().map(|(i, l)| l.nonzeros * value(i)).sum::<usize>();
    let matrix_bytes = bytes(&|i| levels[i].matrix_precision.bytes()) as f64 / bytes(&|_| 8).max(1) as f64;
    Row { problem, formats: formats.to_string(), published, iterations, matrix_bytes }
}

impl Row {
    fn to_json(&self) -> Json {
        json!({ "problem": self.problem, "formats": self.formats, "published": self.published, "iterations": self.iterations,
            "value_bytes": self.matrix_bytes })
    }
}

fn page(rows: &[Row]) -> String {
    let mut out = String::from(
        "| problem | formats | published | iterations | ratio | values of the matrices |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let text = |iterations: Option<usize>| iterations.map_or("fails".to_string(), |n| n.to_string());
        let ratio = match (row.published.flatten(), row.iterations) {
            (Some(published), Some(iterations)) => format!("{:.2}", iterations as f64 / published as f64),
            _ => String::new(),
        };
        let published = row.published.map_or(String::new(), text);
        let (iterations, share) = (text(row.iterations), 100.0 * row.matrix_bytes);
        let _ = writeln!(
            out,
            "| {} | {} | {published} | {iterations} | {ratio} | {share:.0} % |",
            row.problem, row.formats
        );
    }
    out
}
