//! `terrace bench grid-peers`: set-up and solve on structured grids side by side with hypre's PFMG, SMG and SysPFMG, on the same matrices.

use crate::Outcome;
use crate::emit::emit;
use crate::peers::{Folder, Measured, compile_driver, own, peer, table};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use terrace::sparse::{Grid, SharedStencil};
use terrace::{Error, Result, Status, gallery};

const DRIVER: &str = include_str!("../peers/hypre_struct.c");

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Problems on structured grids (see `terrace gallery`)
    #[arg(short, long = "problem", value_name = "FAMILY:SIZES", default_values_t = ["laplace27:64", "oil:64", "weather:64x64x32", "solid3d:32"].map(String::from))]
    problems: Vec<String>,

    /// Times that everything is measured; medians are printed
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// Configurations of Terrace, with their options.
const TERRACE: &[(&str, &[&str])] = &[
    ("default", &[]),
    ("structured, f64", &["precision=dp"]),
    ("structured, f16 in f32", &["precision=(sp,hp)"]),
    ("unstructured", &["amg.type=unstructured"]),
];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let (folder, progress) = (Folder::new()?, Progress::new(false));
    let Some(program) =
        progress.spin("compiling the hypre driver", || compile_driver(&folder.0, "hypre_struct", DRIVER))
    else {
        let text =
            "hypre's driver could not be compiled; on Debian: apt-get install libhypre-dev libopenmpi-dev openmpi-bin";
        return Err(Error::new(Status::Unsupported, text));
    };
    for name in &arguments.problems {
        let problem = progress.spin(&format!("generating {name}"), || gallery::parse(name))?;
        let Some(dims) = problem.grid else {
            return Err(Error::new(Status::InvalidArgument, format!("{name} is not on a structured grid")));
        };
        let stencil = SharedStencil::from_rows(&problem.matrix, Grid::new(dims))?;
        let is_symmetric = terrace::host::symmetry::of_stencil(&stencil)?.is_symmetric::<f64>();
        drop(problem);
        let file = folder.0.join("stencil");
        write_system(&file, &stencil)?;
        // The red-black smoother of hypre is for 7 points, and writes beyond its arrays with more.
        let methods: &[&str] = match stencil.pattern.offsets.len() {
            _ if stencil.pattern.block > 1 => &["syspfmg"],
            ..=7 => &["pfmg", "pfmg-rb", "smg"],
            _ => &["pfmg", "smg"],
        };
        drop(stencil);
        let krylov = if is_symmetric { "cg" } else { "gmres" };
        let mut rows: Vec<Measured> = Vec::new();
        for method in methods {
            for ranks in [1, 2] {
                let title = format!("{method}, {krylov}, {ranks} ranks");
                let mut command = Command::new("mpirun");
                command.args(["--allow-run-as-root", "--oversubscribe", "-np", &ranks.to_string()]).arg(&program);
                command.arg(&file).args([*method, krylov, &arguments.repeat.to_string()]).env("OMP_NUM_THREADS", "1");
                rows.extend(progress.spin(&format!("{name}: hypre {title}"), || peer(command, "hypre", title.clone())));
            }
        }
        for (title, options) in TERRACE {
            let title_of = format!("{name}: Terrace {title}");
            rows.push(progress.spin(&title_of, || own(name, title, options, &[], arguments.repeat))?);
        }
        emit(&table(name, &rows))?;
        let line = json!({ "bench": "grid-peers", "problem": name, "repeat": arguments.repeat,
            "rows": rows.iter().map(Measured::to_json).collect::<Vec<_>>() });
        emit(&format!("{line}\n\n"))?;
    }
    Ok(Outcome::Done)
}

/// Writes a stencil with a right-hand side of ones in the format of `cli/peers/hypre_struct.c`.
fn write_system(path: &Path, a: &SharedStencil<f64>) -> Result<()> {
    let pattern = &a.pattern;
    let write = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for number in pattern.grid.dims.into_iter().chain([pattern.block, pattern.offsets.len()]) {
            file.write_all(&(number as i64).to_le_bytes())?;
        }
        for step in pattern.offsets.iter().flatten() {
            file.write_all(&i32::from(*step).to_le_bytes())?;
        }
        for value in a.values.as_slice() {
            file.write_all(&value.to_le_bytes())?;
        }
        for _ in 0..pattern.scalar_rows() {
            file.write_all(&1.0_f64.to_le_bytes())?;
        }
        file.flush()
    };
    write().map_err(|error| Error::new(Status::Io, format!("{}: {error}", path.display())))
}
