//! `terrace bench gpu --totals`: set-up and solve together, with no option set and in several number formats, in one table.

use crate::bench::median;
use crate::emit::emit;
use crate::gpu::F16;
use crate::progress::Progress;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use terrace::backend::{Backend, StorageFactory};
use terrace::{Config, Context, Error, Guess, Matrix, Result, Solver, Status, gallery};

/// The problems of the table.
pub const PROBLEMS: &[&str] = &[
    "poisson7:128",
    "poisson7:256",
    "poisson27:200",
    "elasticity:40",
    "elasticity:80",
    "lognormal:160",
    "laplace_jittered:160",
    "laplace_jittered:160:height=0.05",
    "elasticity_jittered:64",
    "shuffled:laplace_jittered:160",
    "shuffled:poisson7:256",
];

/// Sets of options in the columns of the table.
const SETS: &[(&str, &[(&str, &str)])] = &[
    ("default", &[]),
    ("f64", &[("precision", "input")]),
    ("f32", &[("precision", "single")]),
    ("auto", &[("precision", "auto")]),
    ("f16 by hand", &F16),
];

/// Medians of one set of options.
struct Total {
    setup: f64,
    solve: f64,
    iterations: usize,
    converged: bool,
    /// Formats of the matrices, from the finest on.
    formats: Vec<&'static str>,
    bytes: usize,
}

/// Prints the table, and returns its figures and whether all solves have converged. `option` are further options of all solves.
pub fn table(context: &Context, problems: &[&str], repeat: u32, option: &[String]) -> Result<(Vec<Value>, bool)> {
    let progress = Progress::new(false);
    let (mut lines, mut converged) = (Vec::new(), true);
    let names: Vec<&str> = SETS.iter().map(|(name, _)| *name).collect();
    emit(&format!("| set-up + solve, ms (iterations) | {} | matrices of auto |\n", names.join(" | ")))?;
    emit(&format!("|{}\n", " --- |".repeat(SETS.len() + 2)))?;
    for problem in problems {
        let matrix = progress.spin(&format!("generating {problem}"), || gallery::parse(problem)?.into_matrix())?;
        let matrix = Arc::new(matrix.to_device(context)?);
        let mut row = format!("| `{problem}` |");
        let mut of_auto = String::new();
        for (name, set) in SETS {
            let total = measure(context, &matrix, &crate::gpu::config(set, option)?, repeat)?;
            let together = 1e3 * (total.setup + total.solve);
            let failed = if total.converged { "" } else { ", not converged" };
            row += &format!(
                " {:.1} + {:.1} = {together:.1} ({}{failed}) |",
                1e3 * total.setup,
                1e3 * total.solve,
                total.iterations
            );
            converged &= total.converged;
            if *name == "auto" {
                of_auto = total.formats.join(" ");
            }
            lines.push(json!({
                "problem": problem, "set": name, "median_setup_seconds": total.setup, "median_solve_seconds": total.solve,
                "iterations": total.iterations, "converged": total.converged, "formats": total.formats, "bytes": total.bytes,
            }));
        }
        emit(&format!("{row} {of_auto} |\n"))?;
    }
    Ok((lines, converged))
}

/// A right-hand side of ones on the device, from a zero guess; medians after a warm-up.
fn measure(context: &Context, matrix: &Arc<Matrix>, config: &Config, repeat: u32) -> Result<Total> {
    let Some(gpu) = context.gpu() else {
        return Err(Error::new(Status::Device, "the context is not on a GPU".to_string()));
    };
    let (b, mut x) = (gpu.array(vec![1.0_f64; matrix.rows()])?, gpu.zeros::<f64>(matrix.rows())?);
    let (mut setups, mut solves) = (Vec::new(), Vec::new());
    loop {
        let mut solver = Solver::new(context, config);
        gpu.synchronize()?;
        let start = Instant::now();
        solver.setup(Some(matrix))?;
        gpu.synchronize()?;
        let setup = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let status = solver.solve_on_device(&b, &mut x, Guess::Zero)?;
        gpu.synchronize()?;
        setups.push(setup);
        solves.push(start.elapsed().as_secs_f64());
        if setups.len() > repeat as usize {
            let report = solver.report();
            return Ok(Total {
                setup: median(setups.split_off(1)),
                solve: median(solves.split_off(1)),
                iterations: report.solves.first().map_or(0, |solve| solve.iterations),
                converged: status == Status::Success,
                formats: report.levels.iter().map(|level| level.matrix_precision.name()).collect(),
                bytes: report.bytes,
            });
        }
    }
}
