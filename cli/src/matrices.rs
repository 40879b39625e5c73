//! `terrace bench matrices`: outcomes on a folder of real matrices, as the page `docs/matrices.md`. No times: the page is the same
//! on every machine.

use crate::Outcome;
use crate::emit::{emit, scientific};
use crate::input::{self, Loaded};
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terrace::io::matrix_market::{Contents, Dense};
use terrace::sparse::Csr;
use terrace::{Config, Context, Error, Guess, Matrix, Result, Solver, Status};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Folder of Matrix Market files, which may be compressed; right-hand sides are called NAME_rhs
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Only these matrices, named without .mtx or .mtx.gz
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// How a matrix is solved.
struct SolveSettings {
    name: &'static str,
    /// Empty for the default options.
    preset: &'static str,
    block_size: usize,
    rhs: Rhs,
    near_null_space: NearNullSpace,
}

enum Rhs {
    /// From the file NAME_rhs, or a vector of ones where there is none.
    Given,
    /// The product of the matrix with random numbers: the matrix is so badly conditioned that rounding keeps the solution for the given
    /// one from the tolerance, or it is singular.
    Product,
}

enum NearNullSpace {
    None,
    /// The columns of a file.
    Vectors(&'static str),
    /// Unit vectors of the components, and the columns of a file.
    TranslationsAnd(&'static str),
}

const fn plain(name: &'static str, preset: &'static str) -> SolveSettings {
    SolveSettings { name, preset, block_size: 1, rhs: Rhs::Given, near_null_space: NearNullSpace::None }
}

const fn product(name: &'static str, preset: &'static str) -> SolveSettings {
    SolveSettings { rhs: Rhs::Product, ..plain(name, preset) }
}

const fn elastic(name: &'static str, near_null_space: NearNullSpace) -> SolveSettings {
    SolveSettings { block_size: 3, near_null_space, ..plain(name, "elasticity") }
}

/// The symmetric positive definite matrices of the collection that the page was made from, and one that is singular. Anything else is solved with the
/// preset `convection`.
const SYMMETRIC: &[SolveSettings] = &[
    plain("hypre_tucker21935", ""),
    plain("spe10_sub_13200", "poisson"),
    plain("wathenSmall_7400", ""),
    product("hypre_ams_A", "edge_elements"),
    plain("bcsstk16", "difficult"),
    plain("maxwell3630_S", "edge_elements"),
    plain("maxwell3630_M1", ""),
    product("gmhd_curlcurl_3200", "edge_elements"),
    plain("pyamg_edge_HCurlStiffness", "edge_elements"),
    plain("bcsstk13", "difficult"),
    plain("bcsstk14", "difficult"),
    plain("maxwell3630_M0", ""),
    plain("1138_bus", "poisson"),
    plain("pyamg_edge_H1Stiffness", "poisson"),
    plain("hypre_ij_elast_1000", "difficult"),
    plain("pyamg_local_disc_galerkin_diffusion", "difficult"),
    plain("gr_30_30", "poisson"),
    product("nos7", "poisson"),
    plain("ginkgo_mg_A", "poisson"),
    plain("662_bus", "poisson"),
    elastic("pyamg_bar", NearNullSpace::Vectors("pyamg_bar_B")),
    plain("494_bus", "poisson"),
    plain("nos5", "difficult"),
    elastic("hypre_beam_hex_dof459_np2", NearNullSpace::TranslationsAnd("hypre_beam_hex_dof459_np2_rbm_rot")),
    plain("pyamg_knot", "poisson"),
    product("pyamg_unit_square", "singular"),
    plain("pyamg_unit_cube", ""),
    plain("shell_vb_lineal", ""),
    plain("bcsstk01", ""),
    plain("mesh1e1", ""),
    plain("ginkgo_ani1", ""),
];

/// One row of the page.
struct Row {
    name: String,
    rows: usize,
    nonzeros: usize,
    preset: &'static str,
    rhs: &'static str,
    symmetric: bool,
    /// The solve, or why there was none.
    outcome: Result<Solved>,
    /// Iterations with the formats of the levels left open, where the matrix is symmetric and that converges.
    auto: Option<usize>,
    /// Solves of a symmetric matrix with the default options, and by a factorisation.
    default: Option<WithDefaults>,
}

/// Solves with the right-hand side that came with the matrix, or a vector of ones; A x where the matrix is singular.
struct WithDefaults {
    rhs: &'static str,
    outcome: Solved,
    /// The residual of a direct solve; none where the matrix has no factors.
    direct: Option<f64>,
}

/// One solve.
struct Solved {
    iterations: usize,
    residual: f64,
    status: Status,
    method: String,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let context = Context::new("host")?;
    let mut rows = Vec::new();
    for (name, path) in files(arguments)? {
        // What is not a square matrix is a companion of one.
        let (size, contents) = match input::read(&path, progress) {
            Ok(Contents::Dense(_)) => continue,
            Ok(Contents::Sparse(a)) if a.rows != a.cols => continue,
            Ok(Contents::Sparse(a)) => ((a.rows, a.columns.len()), Ok(a)),
            Err(error) => ((0, 0), Err(error)),
        };
        let listed = SYMMETRIC.iter().find(|settings| settings.name == name);
        let other = plain("", "convection");
        let settings = listed.unwrap_or(&other);
        let mut row = Row {
            rows: size.0,
            nonzeros: size.1,
            preset: settings.preset,
            rhs: "",
            symmetric: listed.is_some(),
            outcome: Err(Error::new(Status::Internal, "not solved")),
            auto: None,
            default: None,
            name,
        };
        row.outcome = contents.and_then(|a| solve(&context, a, settings, arguments, &mut row, progress));
        rows.push(row);
    }
    // Largest first, the symmetric ones before the others.
    rows.sort_by_key(|row| (!row.symmetric, std::cmp::Reverse(row.rows)));
    emit(&page(&rows))?;
    emit(&format!(
        "\n{}\n",
        json!({ "bench": "matrices", "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() })
    ))?;
    Ok(if rows.iter().all(|row| row.converged() || !row.symmetric) { Outcome::Done } else { Outcome::NotConverged })
}

/// Names and paths of the matrices that are asked for.
fn files(arguments: &Arguments) -> Result<Vec<(String, PathBuf)>> {
    let folder = &arguments.folder;
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Error::new(Status::Io, format!("{} could not be read: {error}", folder.display())))?;
    let mut files: Vec<(String, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let name = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".mtx")?;
            Some((name.to_string(), entry.path()))
        })
        .collect();
    files.sort();
    if !arguments.names.is_empty() {
        if let Some(missing) = arguments.names.iter().find(|name| files.iter().all(|(file, _)| file != *name)) {
            let message = format!("{} holds no matrix called {missing:?}", folder.display());
            return Err(Error::new(Status::InvalidArgument, message));
        }
        files.retain(|(name, _)| arguments.names.contains(name));
    }
    Ok(files)
}

/// The file of a companion, compressed or not.
fn companion(folder: &Path, name: &str) -> Option<PathBuf> {
    [".mtx.gz", ".mtx"].iter().map(|extension| folder.join(format!("{name}{extension}"))).find(|path| path.is_file())
}

fn solve(
    context: &Context,
    a: Csr<f64>,
    settings: &SolveSettings,
    arguments: &Arguments,
    row: &mut Row,
    progress: Progress,
) -> Result<Solved> {
    let mut config = Config::new();
    if !settings.preset.is_empty() {
        config.load_preset(settings.preset)?;
    }
    let matrix = Matrix::from_csr(input::in_blocks(a, Some(settings.block_size))?)?;
    let n = matrix.rows();
    if let Some(Dense { cols, values, .. }) = near_null_space(settings, n, &arguments.folder, progress)? {
        matrix.set_near_null_space(settings.block_size, cols, values)?;
    }
    let loaded = Loaded {
        name: row.name.clone(),
        matrix: Arc::new(matrix),
        config,
        context: context.clone(),
        load_seconds: 0.0,
    };
    let given = companion(&arguments.folder, &format!("{}_rhs", row.name));
    let (rhs, b) = right_hand_side(&loaded, &settings.rhs, given.as_deref(), progress)?;
    row.rhs = rhs;
    let outcome = progress.follow(context, &row.name, || solve_with(&loaded, &loaded.config, &b[..n]))?;
    if row.symmetric {
        let mut config = loaded.config.clone();
        config.set_str("precision", "auto")?;
        let outcome = progress.follow(context, &row.name, || solve_with(&loaded, &config, &b[..n]));
        row.auto = outcome.ok().filter(|solved| solved.status == Status::Success).map(|solved| solved.iterations);
        let kind = if settings.preset == "singular" { Rhs::Product } else { Rhs::Given };
        let (rhs, b) = right_hand_side(&loaded, &kind, given.as_deref(), progress)?;
        let outcome = progress.follow(context, &row.name, || solve_with(&loaded, &Config::new(), &b[..n]))?;
        let mut config = Config::new();
        config.set_str("solver.type", "direct")?;
        let direct = solve_with(&loaded, &config, &b[..n]).ok().map(|solved| solved.residual);
        row.default = Some(WithDefaults { rhs, outcome, direct });
    }
    Ok(outcome)
}

/// The right-hand side, and where it is from.
fn right_hand_side(
    loaded: &Loaded,
    rhs: &Rhs,
    given: Option<&Path>,
    progress: Progress,
) -> Result<(&'static str, Vec<f64>)> {
    let n = loaded.matrix.rows();
    Ok(match (rhs, given) {
        (Rhs::Product, _) => ("A x", loaded.product()?),
        (Rhs::Given, Some(path)) => ("file", input::read_vectors(path, n, progress)?.values),
        (Rhs::Given, None) => ("ones", vec![1.0; n]),
    })
}

fn solve_with(loaded: &Loaded, config: &Config, b: &[f64]) -> Result<Solved> {
    let mut solver = Solver::new(&loaded.context, config);
    solver.setup(Some(&loaded.matrix))?;
    let mut x = vec![0.0; b.len()];
    let status = solver.solve(b, &mut x, Guess::Zero)?;
    let report = solver.report();
    let solve = report.solves.first().ok_or_else(|| Error::new(Status::Internal, "the report has no solve"))?;
    Ok(Solved { iterations: solve.iterations, residual: solve.true_residual, status, method: report.method(0) })
}

fn near_null_space(settings: &SolveSettings, rows: usize, folder: &Path, progress: Progress) -> Result<Option<Dense>> {
    let (name, components) = match settings.near_null_space {
        NearNullSpace::None => return Ok(None),
        NearNullSpace::Vectors(name) => (name, 0),
        NearNullSpace::TranslationsAnd(name) => (name, settings.block_size),
    };
    let Some(path) = companion(folder, name) else {
        return Err(Error::new(Status::Io, format!("{} holds no {name}", folder.display())));
    };
    let given = input::read_vectors(&path, rows, progress)?;
    let translations = (0..components).flat_map(|c| (0..rows).map(move |i| f64::from(i % components == c)));
    let values = translations.chain(given.values.iter().copied()).collect();
    Ok(Some(Dense { rows, cols: components + given.cols, values }))
}

impl Row {
    fn converged(&self) -> bool {
        matches!(self.outcome, Ok(Solved { status: Status::Success, .. }))
    }

    fn to_json(&self) -> Json {
        let mut json = json!({
            "name": self.name, "rows": self.rows, "nonzeros": self.nonzeros, "preset": self.preset, "rhs": self.rhs,
            "symmetric": self.symmetric,
        });
        match &self.outcome {
            Ok(solved) => {
                json["iterations"] = json!(solved.iterations);
                json["auto_iterations"] = json!(self.auto);
                json["true_residual"] = json!(solved.residual);
                json["status"] = json!(solved.status.row().name);
            }
            Err(error) => {
                json["status"] = json!(error.status.row().name);
                json["message"] = json!(error.message);
            }
        }
        if let Some(WithDefaults { outcome, direct, .. }) = &self.default {
            json["default"] = json!({
                "iterations": outcome.iterations, "true_residual": outcome.residual,
                "status": outcome.status.row().name, "method": outcome.method, "direct_residual": direct,
            });
        }
        json
    }
}

fn page(rows: &[Row]) -> String {
    let mut out = String::from(
        "# Real matrices\n\n\
         Made by `terrace bench matrices FOLDER` from a collection of public test matrices. A test compares the page\n\
         where that folder is present.\n\n\
         - Everything is solved to a relative residual of 1e-8, with the [preset](presets.md) in the table or the default\n\
         \x20 options. The residual is recomputed from the solution.\n\
         - The right-hand side came with the matrix (file), is a vector of ones, or is the product of the matrix with\n\
         \x20 random numbers (A x).\n\
         - A x is used with presets for hypre_ams_A, gmhd_curlcurl_3200 and nos7, which are badly conditioned: for the\n\
         \x20 given right-hand side x is so large that its rounding alone leaves the residuals of the first table. It is also\n\
         \x20 used for pyamg_unit_square, which is singular.\n\
         - The column auto has the iterations with precision auto.\n\n\
         ## Default options\n\n\
         The symmetric positive definite matrices with no option set, as scalar matrices or blocks without a near-null\n\
         space unless one is in the collection. Iterations include solves with factors where `auto` turned from the Krylov\n\
         method to a factorisation, which was cheaper than the iterations that were left, or after it had failed. The last\n\
         column is the residual that `solver.type=direct` reaches. Of hypre_ams_A the solution is so large (8e10) that\n\
         rounding it leaves that much: SciPy's LU ends at 1.7e-5, and at 6e-6 with refinement in f64, as LAPACK's Cholesky\n\
         does. On gmhd_curlcurl_3200 and nos7 these end at 1.1e-8 and 1.5e-8.\n\n\
         | matrix | right-hand side | solved by | iterations | residual | status | direct |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let Some(WithDefaults { rhs, outcome, direct }) = &row.default else { continue };
        let Solved { iterations, residual, status, method } = outcome;
        let (residual, status) = (scientific(*residual), words(*status));
        let direct = direct.map_or_else(|| "singular".to_string(), scientific);
        let _ = writeln!(out, "| {} | {rhs} | {method} | {iterations} | {residual} | {status} | {direct} |", row.name);
    }
    out.push_str("\n## Symmetric positive definite\n\n");
    table(&mut out, rows.iter().filter(|row| row.symmetric));
    out.push_str(
        "\n\
         ## Others\n\n\
         Nonsymmetric, indefinite and saddle-point matrices, all with the preset for convection. AMG for one scalar\n\
         unknown is not meant for saddle points and coupled systems. They are here to show that a failure is reported as\n\
         one.\n\n",
    );
    table(&mut out, rows.iter().filter(|row| !row.symmetric));
    out
}

fn table<'a>(out: &mut String, rows: impl Iterator<Item = &'a Row>) {
    out.push_str(
        "| matrix | rows | nonzeros | preset | right-hand side | iterations | residual | status | auto |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let preset = if row.preset.is_empty() { "default" } else { row.preset };
        let _ = write!(out, "| {} | {} | {} | {preset} | {} |", row.name, row.rows, row.nonzeros, row.rhs);
        let _ = match &row.outcome {
            Ok(Solved { iterations, residual, status, .. }) => {
                let auto = match row.auto {
                    Some(iterations) => iterations.to_string(),
                    None if row.symmetric => "does not converge".to_string(),
                    None => String::new(),
                };
                writeln!(out, " {iterations} | {} | {} | {auto} |", scientific(*residual), words(*status))
            }
            // The sentence names the file; the row does already.
            Err(error) => {
                let sentence = error.message.split_once(": ").filter(|(place, _)| place.contains(&row.name));
                writeln!(out, " | | refused: {} | |", sentence.map_or(error.message.as_str(), |(_, rest)| rest))
            }
        };
    }
}

fn words(status: Status) -> &'static str {
    match status {
        Status::Success => "converged",
        Status::NotConverged => "did not converge",
        Status::Stagnated => "stagnated",
        Status::Diverged => "diverged",
        _ => status.row().name,
    }
}
