//! `terrace bench hypre`: the same classical AMG in hypre and here, held against each other: iterations and operator complexity. And the
//! iterations of the same adaptive FSAI.

use crate::Outcome;
use crate::emit::emit;
use crate::input::product;
use crate::peers::{Folder, MAX_ITERATIONS, compile_hypre, hypre_command, own, peer, write_system};
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::Path;
use terrace::{Context, Error, Result, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Problems (see `terrace gallery`); an A after a plus sign takes the product with random numbers as right-hand side instead of ones
    #[arg(short, long = "problem", value_name = "FAMILY:SIZES[+A]", default_values_t = ["poisson7:64", "poisson7:100", "poisson27:64", "jumps:64+A", "elasticity:24", "elasticity:40"].map(String::from))]
    problems: Vec<String>,

    /// Problems for FSAI, with ones as right-hand side
    #[arg(long = "fsai", value_name = "FAMILY:SIZES", default_values_t = ["poisson7:30", "poisson27:24", "anisotropic:80", "jumps:24", "lognormal:24", "lognormal:40:sigma=3", "elasticity:12", "elasticity_tet:14"].map(String::from))]
    fsai: Vec<String>,
}

/// Options that are not hypre's defaults here; the driver sets the rest there.
const OPTIONS: &[&str] = &[
    "amg.coarsening.type=pmis",
    "amg.interpolation.type=extended_i",
    "amg.smoother.type=l1_jacobi",
    "amg.smoother.diagonal=point",
    "solver.type=cg",
];

/// And for several unknown functions.
const SEVERAL: &str = "amg.strength.threshold=0.5";

/// Options for FSAI; the driver sets the same there.
const FSAI_OPTIONS: &[&str] = &[
    "solver.type=cg",
    "solver.preconditioner=fsai",
    "fsai.steps=15",
    "fsai.entries_per_step=1",
    "fsai.tolerance=0.001",
    "precision=input",
];

/// Share of hypre's iterations with FSAI by which ours may be more.
const FSAI_MARGIN: f64 = 0.1;

/// Iterations beyond hypre's that are accepted.
const MORE_ITERATIONS: i64 = 2;

/// Deviation from hypre's operator complexity that is accepted.
const COMPLEXITY_MARGIN: f64 = 0.1;

/// One row of the table.
struct Row {
    problem: String,
    rhs: &'static str,
    /// hypre's version.
    version: String,
    /// hypre's and ours.
    iterations: [i64; 2],
    complexity: [f64; 2],
}

impl Row {
    fn holds(&self) -> bool {
        let ([theirs, ours], [their_size, our_size]) = (self.iterations, self.complexity);
        let converged = theirs.max(ours) < MAX_ITERATIONS;
        converged && ours <= theirs + MORE_ITERATIONS && (our_size / their_size - 1.0).abs() <= COMPLEXITY_MARGIN
    }

    fn to_json(&self) -> Json {
        json!({ "problem": self.problem, "rhs": self.rhs, "hypre_version": self.version, "hypre_iterations": self.iterations[0], "iterations": self.iterations[1],
            "hypre_operator_complexity": self.complexity[0], "operator_complexity": self.complexity[1], "holds": self.holds() })
    }
}

/// One row of the table for FSAI.
struct FsaiRow {
    problem: String,
    /// hypre's and ours.
    iterations: [i64; 2],
}

impl FsaiRow {
    fn holds(&self) -> bool {
        let [theirs, ours] = self.iterations;
        theirs.max(ours) < MAX_ITERATIONS && ours as f64 <= (1.0 + FSAI_MARGIN) * theirs as f64
    }

    fn to_json(&self) -> Json {
        let [theirs, ours] = self.iterations;
        json!({ "problem": self.problem, "hypre_iterations": theirs, "iterations": ours, "holds": self.holds() })
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let folder = Folder::new()?;
    let progress = Progress::new(false);
    let Some(program) = progress.spin("compiling the hypre driver", || compile_hypre(&folder.0)) else {
        let message = "the driver of hypre could not be compiled; on Debian: apt-get install libhypre-dev libopenmpi-dev openmpi-bin";
        return Err(Error::new(Status::Unsupported, message));
    };
    let mut rows = Vec::new();
    for name in &arguments.problems {
        rows.push(progress.spin(name, || compare(name, &program, &folder.0.join("system")))?);
    }
    let mut fsai = Vec::new();
    for name in &arguments.fsai {
        fsai.push(progress.spin(name, || compare_fsai(name, &program, &folder.0.join("system")))?);
    }
    emit(&page(&rows, &fsai))?;
    let (of_amg, of_fsai): (Vec<Json>, Vec<Json>) =
        (rows.iter().map(Row::to_json).collect(), fsai.iter().map(FsaiRow::to_json).collect());
    emit(&format!("\n{}\n", json!({ "bench": "hypre", "rows": of_amg, "fsai": of_fsai })))?;
    let hold = rows.iter().all(Row::holds) && fsai.iter().all(FsaiRow::holds);
    Ok(if hold { Outcome::Done } else { Outcome::NotConverged })
}

fn compare_fsai(name: &str, program: &Path, system: &Path) -> Result<FsaiRow> {
    let problem = gallery::parse(name)?;
    write_system(system, &problem, &vec![1.0; problem.matrix.view().scalar_rows()])?;
    drop(problem);
    let command = hypre_command(program, system, "fsai", 1, 1, 1);
    let theirs = peer(command, "hypre", name.to_string())
        .ok_or_else(|| Error::new(Status::Internal, format!("{name}: hypre failed")))?;
    let ours = own(name, name, FSAI_OPTIONS, &[], 1)?;
    Ok(FsaiRow { problem: name.to_string(), iterations: [theirs.iterations, ours.iterations] })
}

fn compare(name: &str, program: &Path, system: &Path) -> Result<Row> {
    let (description, random) = match name.strip_suffix("+A") {
        Some(description) => (description, true),
        None => (name, false),
    };
    let problem = gallery::parse(description)?;
    let functions = problem.matrix.block.rows;
    let b = if random {
        product(&Context::new("host")?, problem.matrix.clone().into_shared())?
    } else {
        vec![1.0; problem.matrix.view().scalar_rows()]
    };
    write_system(system, &problem, &b)?;
    drop((problem, b));
    let failed = |what: &str| Error::new(Status::Internal, format!("{name}: {what}"));
    let command = hypre_command(program, system, "pmis", 1, functions, 1);
    let theirs = peer(command, "hypre", name.to_string()).ok_or_else(|| failed("hypre failed"))?;
    let flags: &[&str] = if random { &["--random-solution"] } else { &[] };
    let options = if functions > 1 { [OPTIONS, &[SEVERAL]].concat() } else { OPTIONS.to_vec() };
    let ours = own(description, name, &options, flags, 1)?;
    let complexity = |c: Option<f64>| c.ok_or_else(|| failed("no operator complexity was told"));
    Ok(Row {
        problem: description.to_string(),
        rhs: if random { "A x" } else { "ones" },
        version: theirs.version.unwrap_or_default(),
        iterations: [theirs.iterations, ours.iterations],
        complexity: [complexity(theirs.complexity)?, complexity(ours.complexity)?],
    })
}

fn page(rows: &[Row], fsai: &[FsaiRow]) -> String {
    let version = rows.first().map_or("", |row| row.version.as_str());
    let mut out = format!(
        "# Beside hypre\n\n\
         Made by `terrace bench hypre` with hypre {version} from Debian's package libhypre-dev on one rank.\n\n\
         - Both run CG to a relative residual of 1e-8 with one V-cycle of the same classical AMG: PMIS, extended+i\n\
         \x20 interpolation with at most 4 entries in a row, threshold 0.25, one sweep of l1-Jacobi before and after.\n\
         \x20 Elasticity has 3 functions and threshold 0.5. Everything else has its default on either side.\n\
         - \"Holds\" means that Terrace needs at most {MORE_ITERATIONS} iterations more, and that its operator complexity\n\
         \x20 is within {:.0} % of hypre's. The command exits with 1 otherwise.\n\
         - With jumps of 1e6 and a right-hand side of ones, rounding of the solution alone leaves a residual near 1e-8.\n\
         \x20 Both therefore solve for the product of the matrix with random numbers (A x) there.\n\n\
         | problem | right-hand side | hypre iterations | Terrace iterations | hypre complexity | Terrace complexity | holds |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        100.0 * COMPLEXITY_MARGIN
    );
    for row in rows {
        let ([theirs, ours], [their_size, our_size]) = (row.iterations, row.complexity);
        let holds = if row.holds() { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "| {} | {} | {theirs} | {ours} | {their_size:.3} | {our_size:.3} | {holds} |",
            row.problem, row.rhs
        );
    }
    let _ = write!(
        out,
        "\n## FSAI\n\n\
         Both run CG to a relative residual of 1e-8 for a right-hand side of ones, preconditioned by adaptive FSAI of 15 steps\n\
         of one entry with tolerance 0.001. \"Holds\" means that Terrace needs at most {:.0} % more iterations.\n\n\
         | problem | hypre iterations | Terrace iterations | holds |\n\
         | --- | --- | --- | --- |\n",
        100.0 * FSAI_MARGIN
    );
    for row in fsai {
        let [theirs, ours] = row.iterations;
        let _ = writeln!(out, "| {} | {theirs} | {ours} | {} |", row.problem, if row.holds() { "yes" } else { "no" });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_page_are_within_the_bounds() {
        let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/hypre.md")).unwrap();
        let (page, fsai) = page.split_once("## FSAI").unwrap();
        let lines_of = |page: &'_ str| -> Vec<String> {
            page.lines().filter(|line| line.starts_with("| ")).skip(2).map(str::to_string).collect()
        };
        let (lines, fsai) = (lines_of(page), lines_of(fsai));
        assert!(lines.len() >= 4 && fsai.len() >= 4, "{page}");
        for line in fsai {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let iterations = [1, 2].map(|k| cells[k].parse().unwrap());
            assert!(FsaiRow { problem: cells[0].to_string(), iterations }.holds(), "{line}");
        }
        for line in lines {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let row = Row {
                problem: cells[0].to_string(),
                rhs: "ones",
                version: String::new(),
                iterations: [2, 3].map(|k| cells[k].parse().unwrap()),
                complexity: [4, 5].map(|k| cells[k].parse().unwrap()),
            };
            assert!(row.holds(), "{line}");
        }
    }

    #[test]
    fn the_bounds_are_those_of_the_page() {
        let row = |ours, size| Row {
            problem: String::new(),
            rhs: "ones",
            version: String::new(),
            iterations: [10, ours],
            complexity: [2.0, size],
        };
        assert!(row(12, 2.19).holds() && row(3, 1.81).holds());
        assert!(!row(500, 2.0).holds() && !row(13, 2.0).holds() && !row(10, 2.21).holds() && !row(10, 1.79).holds());
    }
}
