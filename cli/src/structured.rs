//! `terrace bench structured`: iterations and times of multigrid on structured grids in the number formats of a published table, beside the published
//! iterations.
//!
//! Zong, Yu, Huang and Xue, "FP16 acceleration in structured multigrid preconditioner for real-world applications" (ICPP 2024). The problems are
//! generators of the same classes, not the same matrices.

use crate::Outcome;
use crate::emit::emit;
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::sync::Arc;
use terrace::gallery::{self, Problem};
use terrace::{Config, Context, Guess, Matrix, Report, Result, Solver, Status};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Only this problem
    #[arg(short, long, value_name = "NAME")]
    problem: Option<String>,

    /// Cells along each axis
    #[arg(short, long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=512))]
    size: u32,

    /// Device: host, cuda:N, hip:N
    #[arg(short, long, value_name = "NAME", default_value = "host")]
    device: String,

    /// Options for all solves, like amg.smoother.type=chebyshev
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,
}

/// Name, parameters, and the published iterations in f64 and in f16 on x86.
const PROBLEMS: &[(&str, &str, [usize; 2])] = &[
    ("laplace27", "", [11, 11]),
    ("laplace27", ":scale=1e8", [11, 11]),
    ("laplace27", ":scale=1e-8", [11, 11]),
    ("rhd", "", [51, 61]),
    ("oil", "", [20, 20]),
    ("weather", "", [8, 12]),
    ("rhd3t", "", [59, 77]),
    ("oil4c", "", [15, 15]),
    ("solid3d", "", [16, 16]),
];

/// Variants: their names in the published text, and the options that they are.
const VARIANTS: &[(&str, &[(&str, &str)])] = &[
    ("Full64", &[("precision", "dp")]),
    ("K64P32D32", &[("precision", "sp")]),
    ("D16, none", &[("precision", "(sp,hp)"), ("precision.scaling", "none")]),
    (SCALE_FIRST, &[("precision", "(sp,hp)"), ("precision.scaling", "none")]),
    ("D16, setup-scale", &[("precision", "(sp,hp)")]),
    ("auto", &[("precision", "auto")]),
];

/// The variant whose matrix is scaled before set-up.
const SCALE_FIRST: &str = "D16, scale-setup";

/// What a solve took.
struct Solve {
    iterations: usize,
    /// Seconds of all applications of the preconditioner, and of set-up and solve.
    seconds: [f64; 2],
}

struct Row {
    problem: String,
    published: [usize; 2],
    /// Entries of the matrix by the floor of log10|a|.
    magnitudes: Vec<(i32, usize)>,
    /// The solves, or why there is none.
    solves: Vec<std::result::Result<Solve, &'static str>>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let context = Context::new(&arguments.device)?;
    let mut rows = Vec::new();
    for (name, parameters, published) in PROBLEMS {
        if arguments.problem.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let size = arguments.size;
        let sizes = if *name == "weather" { format!("{size}x{size}x{}", size.div_ceil(2)) } else { size.to_string() };
        let description = format!("{name}:{sizes}{parameters}");
        let problem = progress.spin(&format!("generating {description}"), || gallery::parse(&description))?;
        let there = |matrix: Matrix| if context.gpu().is_some() { matrix.to_device(&context) } else { Ok(matrix) };
        let scaled = Arc::new(there(scaled_first(problem.clone()).into_matrix()?)?);
        let magnitudes = gallery::magnitudes(&problem.matrix.values);
        let matrix = Arc::new(there(problem.into_matrix()?)?);
        let mut solves = Vec::new();
        for (variant, options) in VARIANTS {
            let of = if *variant == SCALE_FIRST { &scaled } else { &matrix };
            let report = progress
                .spin(&format!("{description} {variant}"), || solve(&context, of, options, &arguments.options))?;
            solves.push(report.map(|report| Solve {
                iterations: report.solves[0].iterations,
                seconds: [report.solve.get("preconditioner"), report.setup.get("total") + report.solve.get("total")],
            }));
        }
        rows.push(Row { problem: description, published: *published, magnitudes, solves });
    }
    emit(&page(&rows))?;
    emit(&format!(
        "\n{}\n",
        json!({ "bench": "structured", "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() })
    ))?;
    Ok(Outcome::Done)
}

/// The problem with its diagonal scaled to 2^10.
fn scaled_first(mut problem: Problem) -> Problem {
    let (a, b) = (&problem.matrix, problem.matrix.block.rows);
    let mut factors = vec![0.0; a.rows * b];
    for i in 0..a.rows {
        for (j, block) in a.view().row(i).filter(|(j, _)| *j == i) {
            (0..b).for_each(|r| factors[j * b + r] = (1024.0 / block[r * b + r].abs()).sqrt());
        }
    }
    let mut values = problem.matrix.values.clone();
    for i in 0..a.rows {
        for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
            let j = a.columns[k] as usize;
            for e in 0..b * b {
                values[k * b * b + e] *= factors[i * b + e / b] * factors[j * b + e % b];
            }
        }
    }
    problem.matrix.values = values;
    problem
}

/// The report of a solve to the default tolerance, or why there is none.
fn solve(
    context: &Context,
    matrix: &Arc<Matrix>,
    options: &[(&str, &str)],
    given: &[String],
) -> Result<std::result::Result<Report, &'static str>> {
    let mut config = Config::new();
    config.set_str("solver.restart", "100")?;
    let given = given.iter().map(|option| option.split_once('=').unwrap_or((option, "")));
    for (key, value) in options.iter().copied().chain(given) {
        config.set_str(key, value)?;
    }
    let solution = gallery::random_vector(matrix.rows())?;
    let (mut b, mut x) = (vec![0.0; matrix.rows()], vec![0.0; matrix.rows()]);
    matrix.apply(context, 1.0, &solution, 0.0, &mut b)?;
    let mut solver = Solver::new(context, &config);
    match solver.setup(Some(matrix)) {
        Err(error) if error.status == Status::PrecisionLost => return Ok(Err("refused")),
        result => result?,
    }
    Ok(match solver.solve(&b, &mut x, Guess::Zero) {
        Ok(Status::Success) => Ok(solver.report()),
        Err(error) if error.status == Status::PrecisionLost => Err("precision lost"),
        _ => Err("not solved"),
    })
}

impl Row {
    fn to_json(&self) -> Json {
        let solve =
            |s: &Solve| json!({ "iterations": s.iterations, "preconditioner": s.seconds[0], "total": s.seconds[1] });
        let solves: Vec<Json> = VARIANTS
            .iter()
            .zip(&self.solves)
            .map(|(v, s)| json!({ "variant": v.0, "solve": s.as_ref().ok().map(solve) }))
            .collect();
        json!({ "problem": self.problem, "published": self.published, "magnitudes": self.magnitudes, "solves": solves })
    }

    /// Full64 over setup-scale: an application of the preconditioner, and everything.
    fn gains(&self) -> Option<[f64; 2]> {
        let (full, narrow) = (self.solves[0].as_ref().ok()?, self.solves[4].as_ref().ok()?);
        let application = |s: &Solve| s.seconds[0] / s.iterations.max(1) as f64;
        Some([application(full) / application(narrow), full.seconds[1] / narrow.seconds[1]])
    }
}

fn page(rows: &[Row]) -> String {
    let mut out = String::from("| problem | published |");
    VARIANTS.iter().for_each(|(name, _)| out += &format!(" {name} |"));
    out += " cycle, f64 / f16 | total, f64 / f16 |\n| --- | --- |";
    out += &" --- |".repeat(VARIANTS.len() + 2);
    out.push('\n');
    for row in rows {
        let _ = write!(out, "| `{}` | {} to {} |", row.problem, row.published[0], row.published[1]);
        for solve in &row.solves {
            let _ = match solve {
                Ok(solve) => write!(out, " {} |", solve.iterations),
                Err(reason) => write!(out, " {reason} |"),
            };
        }
        let _ = match row.gains() {
            Some([cycle, total]) => writeln!(out, " {cycle:.2} | {total:.2} |"),
            None => writeln!(out, " | |"),
        };
    }
    out += "\nEntries of each order of magnitude, log10|a|, in per cent:\n\n";
    for row in rows {
        let all: usize = row.magnitudes.iter().map(|(_, count)| count).sum();
        let _ = write!(out, "{:<28}", row.problem);
        for (order, count) in &row.magnitudes {
            let _ = write!(out, " {order}: {:.1}", 100.0 * *count as f64 / all as f64);
        }
        out.push('\n');
    }
    out
}
