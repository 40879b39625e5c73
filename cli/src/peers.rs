//! `terrace bench peers`: set-up and solve side by side with hypre and AMGCL, each in a process of its own, on the same matrices.
//!
//! The peers are the Debian packages libhypre-dev (with Open MPI) and libamgcl-dev; their drivers are compiled when the benchmark runs.

use crate::Outcome;
use crate::emit::emit;
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace::{Error, Result, Status, gallery};

/// Iterations after which a solve is given up; the drivers have the same.
pub const MAX_ITERATIONS: i64 = 500;

const ARRAYS: &str = include_str!("../peers/arrays.h");
const HYPRE: &str = include_str!("../peers/hypre.c");
const AMGCL: &str = include_str!("../peers/amgcl.cpp");

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Problems (see `terrace gallery`)
    #[arg(short, long = "problem", value_name = "FAMILY:SIZES", default_values_t = ["poisson7:100", "poisson27:80", "elasticity:40"].map(String::from))]
    problems: Vec<String>,

    /// Times that everything is measured; medians are printed
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// Configurations of Terrace, with their options.
const TERRACE: &[(&str, &[&str])] = &[
    ("default", &[]),
    ("classical, l1-Jacobi", &["amg.coarsening.type=pmis", "amg.smoother.type=l1_jacobi", F64]),
    ("classical, l1-Gauss-Seidel", &["amg.coarsening.type=pmis", "amg.smoother.type=l1_gauss_seidel", F64]),
    ("aggregation, l1-Gauss-Seidel", &["amg.coarsening.type=mis2", "amg.smoother.type=l1_gauss_seidel", F64]),
    ("aggregation, Jacobi", &["amg.coarsening.type=mis2", "amg.smoother.type=jacobi", F64]),
    ("aggregation, Chebyshev", &["amg.coarsening.type=mis2", "amg.smoother.type=chebyshev", F64]),
    (
        "aggregation, Chebyshev, f32 levels",
        &["amg.coarsening.type=mis2", "amg.smoother.type=chebyshev", "precision=single"],
    ),
];

/// Levels in the format of the matrix.
const F64: &str = "precision=input";

/// One row of the table.
pub struct Measured {
    library: &'static str,
    /// What was measured.
    pub configuration: String,
    /// Seconds.
    pub setup: f64,
    pub solve: f64,
    /// Iterations of CG.
    pub iterations: i64,
    /// Version of the library, where it tells.
    pub version: Option<String>,
    /// Nonzeros of all levels over those of the finest.
    pub complexity: Option<f64>,
    peak_bytes: f64,
}

impl Measured {
    fn total(&self) -> f64 {
        self.setup + self.solve
    }

    /// For the line behind the table.
    pub fn to_json(&self) -> Json {
        json!({
            "library": self.library, "configuration": self.configuration, "setup_seconds": self.setup,
            "solve_seconds": self.solve, "iterations": self.iterations, "operator_complexity": self.complexity,
            "peak_bytes": self.peak_bytes,
        })
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let folder = Folder::new()?;
    let progress = Progress::new(false);
    let hypre = progress.spin("compiling the hypre driver", || compile_hypre(&folder.0));
    let amgcl = progress.spin("compiling the AMGCL driver", || compile_amgcl(&folder.0));
    if hypre.is_none() && amgcl.is_none() {
        return Err(Error::new(
            Status::Unsupported,
            "no peer could be compiled; on Debian: apt-get install g++ libhypre-dev libopenmpi-dev openmpi-bin libamgcl-dev (contrib)",
        ));
    }
    for name in &arguments.problems {
        let problem = gallery::parse(name)?;
        let file = folder.0.join("matrix");
        let blocks = problem.matrix.block.rows;
        let elastic = problem.coordinates.is_some();
        let ones = vec![1.0; problem.matrix.view().scalar_rows()];
        write_system(&file, &problem, &ones)?;
        drop((problem, ones));
        let mut rows = Vec::new();
        if let Some(program) = &hypre {
            for configuration in ["pmis", "hmis"] {
                for ranks in [1, 2] {
                    let title = format!("{configuration}, {ranks} ranks");
                    let command = hypre_command(program, &file, configuration, ranks, blocks, arguments.repeat);
                    rows.extend(
                        progress.spin(&format!("{name}: hypre {title}"), || peer(command, "hypre", title.clone())),
                    );
                }
            }
        }
        if let Some(program) = &amgcl {
            // Displacements need rigid-body modes, which Ruge-Stueben has no place for, and more than spai0 as a smoother.
            let configurations: &[&str] =
                if elastic { &["sa-chebyshev"] } else { &["sa-spai0", "sa-chebyshev", "rs-spai0"] };
            for &configuration in configurations {
                let mut command = Command::new(program);
                command.arg(&file).args([configuration, &arguments.repeat.to_string()]);
                let title = format!("{name}: AMGCL {configuration}");
                rows.extend(progress.spin(&title, || peer(command, "AMGCL", configuration.to_string())));
            }
        }
        for (title, options) in TERRACE {
            let measured =
                progress.spin(&format!("{name}: Terrace {title}"), || own(name, title, options, &[], arguments.repeat));
            rows.push(measured?);
        }
        emit(&table(name, &rows))?;
        let line = json!({ "bench": "peers", "problem": name, "repeat": arguments.repeat,
            "rows": rows.iter().map(Measured::to_json).collect::<Vec<_>>() });
        emit(&format!("{line}\n\n"))?;
    }
    Ok(Outcome::Done)
}

/// The rows of a problem.
pub fn table(name: &str, rows: &[Measured]) -> String {
    let best = rows.iter().filter(|r| r.library != "Terrace").map(Measured::total).fold(f64::INFINITY, f64::min);
    let mut out = format!(
        "{name}, to 1e-8; ratio: total over the best peer's\n| library | configuration | set-up s | solve s | total s | iterations | complexity | peak MiB | ratio |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for row in rows {
        let complexity = row.complexity.map_or("-".to_string(), |c| format!("{c:.2}"));
        let _ = writeln!(
            out,
            "| {} | {} | {:.3} | {:.3} | {:.3} | {} | {complexity} | {:.0} | {:.2} |",
            row.library,
            row.configuration,
            row.setup,
            row.solve,
            row.total(),
            row.iterations,
            row.peak_bytes / f64::from(1 << 20),
            row.total() / best
        );
    }
    out
}

/// The row that a peer's line of JSON gives; a peer that fails is left out with a word on stderr.
pub fn peer(mut command: Command, library: &'static str, configuration: String) -> Option<Measured> {
    let output = command.output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout);
    let json: Option<Json> = line.lines().find_map(|line| serde_json::from_str(line).ok());
    let Some(json) = json.filter(|_| output.status.success()) else {
        eprintln!("{library} {configuration} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        return None;
    };
    Some(Measured {
        library,
        configuration,
        version: json["version"].as_str().map(str::to_string),
        setup: json["setup_seconds"].as_f64()?,
        solve: json["solve_seconds"].as_f64()?,
        iterations: json["iterations"].as_i64()?,
        complexity: json["operator_complexity"].as_f64(),
        peak_bytes: json["peak_bytes"].as_f64()?,
    })
}

/// Terrace in a process of its own, so that its memory can be compared.
pub fn own(problem: &str, title: &str, options: &[&str], flags: &[&str], repeat: u32) -> Result<Measured> {
    let failed = |what: String| Error::new(Status::Internal, format!("{title}: {what}"));
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut runs = Vec::new();
    for _ in 0..repeat {
        let mut command = Command::new(&program);
        let limit = format!("solver.max_iterations={MAX_ITERATIONS}");
        command.args(["solve", "--json", "--problem", problem, &limit]).args(options).args(flags);
        let output = command.output().map_err(|e| failed(e.to_string()))?;
        let json: Json = serde_json::from_slice(&output.stdout)
            .map_err(|_| failed(String::from_utf8_lossy(&output.stderr).trim().to_string()))?;
        let number = |key: &str| json[key].as_f64().unwrap_or(f64::NAN);
        runs.push(Measured {
            library: "Terrace",
            configuration: title.to_string(),
            version: Some(env!("CARGO_PKG_VERSION").to_string()),
            setup: number("setup_seconds"),
            solve: number("solve_seconds"),
            iterations: json["right_hand_side"][0]["iterations"].as_i64().unwrap_or(-1),
            complexity: json["operator_complexity"].as_f64(),
            peak_bytes: number("peak_resident_bytes"),
        });
    }
    runs.sort_by(|a, b| a.total().total_cmp(&b.total()));
    Ok(runs.swap_remove(runs.len() / 2))
}

/// CG with BoomerAMG on a system from [`write_system`].
pub fn hypre_command(
    program: &Path,
    system: &Path,
    configuration: &str,
    ranks: usize,
    functions: usize,
    repeat: u32,
) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np", &ranks.to_string()]).arg(program);
    command.arg(system).args([configuration, &functions.to_string(), &repeat.to_string()]);
    command.env("OMP_NUM_THREADS", "1");
    command
}

/// The driver of hypre, or `None` with a word on stderr.
pub fn compile_hypre(folder: &Path) -> Option<PathBuf> {
    compile_driver(folder, "hypre", HYPRE)
}

/// A driver in C that uses hypre, or `None` with a word on stderr.
pub fn compile_driver(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
    write_source(folder, "arrays.h", ARRAYS)?;
    let source = write_source(folder, &format!("{name}.c"), text)?;
    let mut command = Command::new("mpicc");
    compile(command.args(["-O2", "-I/usr/include/hypre"]).arg(source), folder.join(name), &["-lHYPRE", "-lm"])
}

fn compile_amgcl(folder: &Path) -> Option<PathBuf> {
    let source = write_source(folder, "amgcl.cpp", AMGCL)?;
    let mut command = Command::new("g++");
    compile(command.args(["-O3", "-std=c++17", "-fopenmp", "-DAMGCL_NO_BOOST"]).arg(source), folder.join("amgcl"), &[])
}

fn write_source(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text).ok()?;
    Some(path)
}

fn compile(command: &mut Command, program: PathBuf, libraries: &[&str]) -> Option<PathBuf> {
    let output = command.arg("-o").arg(&program).args(libraries).output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            eprintln!("{} could not be compiled: {}", program.display(), text.lines().next().unwrap_or(""));
            None
        }
        Err(error) => {
            eprintln!("{} could not be compiled: {error}", program.display());
            None
        }
    }
}

/// Writes a problem with a right-hand side in the format that the drivers read: see `cli/peers/hypre.c`.
pub fn write_system(path: &Path, problem: &gallery::Problem, b: &[f64]) -> Result<()> {
    let a = problem.matrix.view().to_scalar()?;
    let coordinates: &[f64] = problem.coordinates.as_deref().unwrap_or(&[]);
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for number in [a.rows, a.columns.len(), coordinates.len()] {
            file.write_all(&(number as i64).to_le_bytes())?;
        }
        for offset in &a.offsets {
            file.write_all(&(*offset as i32).to_le_bytes())?;
        }
        for column in &a.columns {
            file.write_all(&column.to_le_bytes())?;
        }
        for value in a.values.iter().chain(coordinates).chain(b) {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()
    };
    write().map_err(|error| Error::new(Status::Io, format!("{}: {error}", path.display())))
}

/// A temporary folder that vanishes with the benchmark.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes it.
    pub fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("terrace-peers-{}", std::process::id()));
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(error) => Err(Error::new(Status::Io, format!("{}: {error}", path.display()))),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
