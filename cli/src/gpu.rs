//! `terrace bench gpu`: products and solves on a GPU against the bandwidth of its memory.
//!
//! The bandwidth is that of y = x on vectors of 1 GiB, counted as bytes read and written. A product moves the bytes of its format, x and y.
//! Times are those of many launches in a row, divided by their number; the host is waited for once at the end.

use crate::Outcome;
use crate::bench::median;
use crate::emit::{bytes, emit, seconds};
use crate::progress::Progress;
use crate::setup::emit_kernels;
use crate::totals;
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use terrace::backend::{Backend, Columns, Operator, StorageFactory};
use terrace::gpu::Gpu;
use terrace::scalar::{Number, Sums};
use terrace::sparse::SharedCsr;
use terrace::{Amg, Config, Context, Error, Guess, Matrix, Result, Scalar, Solver, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// The problems (see `terrace gallery`); poisson7:128, and with --totals ten, where none is named
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...")]
    problems: Vec<String>,

    /// Only a table of set-up and solve together, with no option set and in several number formats, on these problems or on ten
    #[arg(long)]
    totals: bool,

    /// Device, like cuda:0; the simulation only shows that the command works
    #[arg(short, long, default_value = "cuda:0")]
    device: String,

    /// Times that everything is measured, after a warm-up
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Mebibytes of each of the two vectors of the copy
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    copy_mib: u32,

    /// Only the products
    #[arg(long)]
    products: bool,

    /// Also one cycle on its own, for which set-up runs once more
    #[arg(long)]
    cycles: bool,

    /// Also the products with the matrices of this many coarse levels
    #[arg(long, value_name = "N", default_value_t = 0)]
    levels: usize,

    /// Products in every format that a matrix can have, the one that is chosen first, and how dense its tiles of 4 x 4 are
    #[arg(long)]
    formats: bool,

    /// Also the time of every kernel of a solve, each launch on its own
    #[arg(long)]
    kernels: bool,

    /// An option of the solves, like amg.coarsening.type=pmis; set after those that are measured (see `terrace options`)
    #[arg(short, long, value_name = "KEY=VALUE")]
    option: Vec<String>,
}

/// Launches of one measurement.
const LAUNCHES: u32 = 10;

/// Matrices, transfers and smoothers in f16, vectors of the cycle in f32.
pub const F16: [(&str, &str); 4] = [
    ("precision.matrix", "f16"),
    ("precision.transfer", "f16"),
    ("precision.smoother", "f16"),
    ("precision.vector", "f32"),
];

/// Levels in the format of the matrix.
const F64: (&str, &str) = ("precision", "input");

/// The Krylov method uses the matrix in f64.
const GIVEN: (&str, &str) = ("precision.operator", "input");

/// Sets of options that solves are measured with.
const SOLVES: &[(&str, &[(&str, &str)])] = &[
    ("default", &[]),
    ("f64", &[F64]),
    ("f64, matrix as it is", &[F64, GIVEN]),
    ("f32", &[("precision", "single")]),
    ("f16 in f32", &F16),
    ("f16, matrix as it is", &[F16[0], F16[1], F16[2], F16[3], GIVEN]),
];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let context = Context::new(&arguments.device)?;
    let Some(gpu) = context.gpu() else {
        return Err(Error::new(Status::Device, format!("{} is not a GPU", arguments.device)));
    };
    if arguments.totals {
        return totals(&context, arguments);
    }
    let progress = Progress::new(false);
    let bandwidth = copy_bandwidth(gpu, arguments.copy_mib, arguments.repeat)?;
    emit(&format!("{}: copy {:.0} GB/s\n", gpu.description(), bandwidth / 1e9))?;
    let mut lines = Vec::new();
    let mut outcome = Outcome::Done;
    let given = &arguments.problems;
    let problems = if given.is_empty() { &vec!["poisson7:128".to_string()] } else { given };
    for problem in problems {
        let loaded = progress.spin(&format!("generating {problem}"), || gallery::parse(problem)?.into_matrix())?;
        let matrix = Arc::new(loaded);
        let mut matrices = vec![(problem.clone(), matrix.shared::<f64>()?)];
        if arguments.levels > 0 {
            let levels = Amg::level_matrices(&context, &matrix, &config(&[], &arguments.option)?)?;
            let coarse = levels.into_iter().enumerate().skip(1).take(arguments.levels);
            matrices.extend(coarse.map(|(i, level)| (format!("{problem}, level {i}"), level.a)));
        }
        for (name, a) in &matrices {
            let products = products(gpu, a, arguments)?;
            let view = a.view();
            let density = if arguments.formats { Some(gpu.entries_of_tile(a)?) } else { None };
            let of_tile = density.map_or(String::new(), |entries| format!(", {entries:.1} in a tile of 4 x 4"));
            emit(&format!("\n{name}: {} rows, {} nonzeros{of_tile}\n", view.scalar_rows(), view.entries()))?;
            emit(&format!(
                "{:<24} {:>14} {:>10} {:>12} {:>8} {:>8}\n",
                "product", "format", "bytes", "time", "GB/s", "of copy"
            ))?;
            for p in &products {
                emit(&p.row(bandwidth))?;
            }
            lines.extend(products.iter().map(|p| p.json(name, bandwidth, density)));
        }
        if arguments.products {
            continue;
        }
        emit(&format!(
            "{:<24} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}\n",
            "solve to 1e-8", "set-up", "iterations", "solve", "iteration", "cycle", "device"
        ))?;
        for (name, options) in SOLVES {
            let solve = measure_solve(&context, gpu, &matrix, name, options, bandwidth, arguments)?;
            emit(&solve.row())?;
            lines.push(solve.json(problem));
            if !solve.converged {
                outcome = Outcome::NotConverged;
            }
        }
    }
    let line = json!({
        "bench": "gpu", "version": env!("CARGO_PKG_VERSION"), "device": arguments.device, "name": gpu.description(),
        "repeat": arguments.repeat, "copy_bytes_per_second": bandwidth, "results": lines,
    });
    emit(&format!("{line}\n"))?;
    Ok(outcome)
}

/// The table of totals.
fn totals(context: &Context, arguments: &Arguments) -> Result<Outcome> {
    let given: Vec<&str> = arguments.problems.iter().map(String::as_str).collect();
    let problems = if given.is_empty() { totals::PROBLEMS } else { &given };
    let (lines, converged) = totals::table(context, problems, arguments.repeat.min(5), &arguments.option)?;
    let line = json!({
        "bench": "gpu totals", "version": env!("CARGO_PKG_VERSION"), "device": arguments.device,
        "repeat": arguments.repeat.min(5), "results": lines,
    });
    emit(&format!("{line}\n"))?;
    Ok(if converged { Outcome::Done } else { Outcome::NotConverged })
}

/// These options, and those of the command.
pub fn config(options: &[(&str, &str)], option: &[String]) -> Result<Config> {
    let mut config = Config::new();
    for (key, value) in options {
        config.set_str(key, value)?;
    }
    for option in option {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        config.set_str(key, value)?;
    }
    Ok(config)
}

/// Median seconds of one run of `work`, of which several are launched in a row.
fn time(gpu: &Gpu, repeat: u32, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = Vec::new();
    for round in 0..=repeat {
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            work()?;
        }
        gpu.synchronize()?;
        if round > 0 {
            all.push(start.elapsed().as_secs_f64() / f64::from(LAUNCHES));
        }
    }
    Ok(median(all))
}

/// Bytes that a copy of so many mebibytes reads and writes in a second.
pub fn copy_bandwidth(gpu: &Gpu, mebibytes: u32, repeat: u32) -> Result<f64> {
    let n = ((mebibytes as usize) << 20) / size_of::<f64>();
    let (x, mut y) = (gpu.zeros::<f64>(n)?, gpu.zeros::<f64>(n)?);
    let seconds = time(gpu, repeat, || {
        gpu.copy(&x, &mut y);
        Ok(())
    })?;
    Ok((2 * n * size_of::<f64>()) as f64 / seconds)
}

/// A product that was measured.
struct Product {
    name: String,
    format: String,
    bytes: usize,
    seconds: f64,
}

impl Product {
    fn row(&self, bandwidth: f64) -> String {
        let rate = self.bytes as f64 / self.seconds;
        format!(
            "{:<24} {:>14} {:>10} {:>12} {:>8.0} {:>7.0}%\n",
            self.name,
            self.format,
            bytes(self.bytes),
            seconds(self.seconds),
            rate / 1e9,
            100.0 * rate / bandwidth
        )
    }

    /// `density`: entries of a tile of the matrix.
    fn json(&self, problem: &str, bandwidth: f64, density: Option<f64>) -> Value {
        json!({
            "problem": problem, "product": self.name, "format": self.format, "bytes": self.bytes, "median_seconds": self.seconds,
            "share_of_copy": self.bytes as f64 / self.seconds / bandwidth, "entries_of_tile": density,
        })
    }
}

/// Our products in three precisions, and cuSPARSE's in f64 where it can be loaded.
fn products(gpu: &Gpu, a: &SharedCsr<f64>, arguments: &Arguments) -> Result<Vec<Product>> {
    let mut all = product::<f64, f64>(gpu, a, arguments)?;
    all.extend(product::<f32, f32>(gpu, a, arguments)?);
    all.extend(product::<half::f16, f32>(gpu, a, arguments)?);
    all.extend(cusparse_products(gpu, a, arguments)?);
    Ok(all)
}

fn cusparse_products(gpu: &Gpu, a: &SharedCsr<f64>, arguments: &Arguments) -> Result<Vec<Product>> {
    use crate::cusparse::{BSR_ALGORITHM, CSR_ALGORITHMS, CuSparse};
    use terrace::sparse::Block;
    let (rows, cols) = (a.view().scalar_rows(), a.view().scalar_cols());
    let blocks = a.view().block != Block::SCALAR;
    let scalar = if blocks { a.view().to_scalar()?.into_shared() } else { a.clone() };
    let x = gpu.array(gallery::random_vector(cols)?)?;
    let mut y = gpu.zeros::<f64>(rows)?;
    let mut measure = |matrix: &SharedCsr<f64>, name: &str, algorithm: u32| -> Result<Product> {
        let operator = CuSparse::new(gpu, &matrix.view(), algorithm)?;
        let seconds = time(gpu, arguments.repeat, || operator.apply(1.0, &x, 0.0, &mut y))?;
        let bytes = operator.bytes() + (rows + cols) * size_of::<f64>();
        Ok(Product { name: format!("cuSPARSE f64, {name}"), format: operator.format(), bytes, seconds })
    };
    let mut all = Vec::new();
    for (name, algorithm) in CSR_ALGORITHMS {
        match measure(&scalar, name, *algorithm) {
            Ok(product) => all.push(product),
            // Without cuSPARSE, or if it does not support this, there is no comparison.
            Err(error) if error.status == Status::Device || error.status == Status::Unsupported => {
                emit(&format!("{}\n", error.message))?;
                return Ok(all);
            }
            Err(error) => return Err(error),
        }
    }
    if blocks {
        match measure(a, BSR_ALGORITHM.0, BSR_ALGORITHM.1) {
            Ok(product) => all.push(product),
            Err(error) => emit(&format!("{}\n", error.message))?,
        }
    }
    Ok(all)
}

/// y = A x with values stored as `S` and vectors of `V`, in the format that is chosen or in all.
fn product<S: Number, V: Scalar>(gpu: &Gpu, matrix: &SharedCsr<f64>, arguments: &Arguments) -> Result<Vec<Product>> {
    let view = matrix.view();
    let (rows, cols) = (view.scalar_rows(), view.scalar_cols());
    let stored = matrix.cast::<S>()?;
    let operators: Vec<Box<dyn Operator<Gpu, V>>> = if arguments.formats {
        gpu.in_every_format(&stored)?
    } else {
        vec![gpu.matrix(stored, Columns::Shared, Sums::Wide)?]
    };
    let x = gpu.array(gallery::random_vector(cols)?.into_iter().map(V::from_f64).collect())?;
    let mut y = gpu.zeros::<V>(rows)?;
    let mut measure = |a: Box<dyn Operator<Gpu, V>>| -> Result<Product> {
        let seconds = time(gpu, arguments.repeat, || a.apply(V::ONE, &x, V::ZERO, &mut y))?;
        let name = format!("{} matrix, {} vectors", S::PRECISION.name(), V::PRECISION.name());
        Ok(Product { name, format: a.format(), bytes: a.bytes() + (rows + cols) * size_of::<V>(), seconds })
    };
    operators.into_iter().map(&mut measure).collect()
}

/// A solve that was measured.
struct Solve {
    name: &'static str,
    setup: f64,
    iterations: usize,
    converged: bool,
    solve: f64,
    cycle: Option<f64>,
    bytes: usize,
    formats: Vec<String>,
}

impl Solve {
    fn row(&self) -> String {
        format!(
            "{:<24} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}{}\n",
            self.name,
            seconds(self.setup),
            self.iterations,
            seconds(self.solve),
            seconds(self.solve / self.iterations.max(1) as f64),
            self.cycle.map_or("-".to_string(), seconds),
            bytes(self.bytes),
            if self.converged { "" } else { "  not converged" },
        )
    }

    fn json(&self, problem: &str) -> Value {
        json!({
            "problem": problem, "solve": self.name, "setup_seconds": self.setup, "iterations": self.iterations,
            "converged": self.converged, "median_solve_seconds": self.solve, "median_cycle_seconds": self.cycle,
            "bytes": self.bytes, "formats": self.formats,
        })
    }
}

/// A right-hand side of ones, on the device, from a zero guess.
fn measure_solve(
    context: &Context,
    gpu: &Gpu,
    matrix: &Arc<Matrix>,
    name: &'static str,
    options: &[(&str, &str)],
    bandwidth: f64,
    arguments: &Arguments,
) -> Result<Solve> {
    let config = config(options, &arguments.option)?;
    let n = matrix.rows();
    let (b, mut x) = (gpu.array(vec![1.0_f64; n])?, gpu.zeros::<f64>(n)?);
    let start = Instant::now();
    let mut solver = Solver::new(context, &config);
    solver.setup(Some(matrix))?;
    let setup = start.elapsed().as_secs_f64();
    let mut times = Vec::new();
    let mut status = Status::Success;
    for round in 0..=arguments.repeat.min(5) {
        let start = Instant::now();
        status = solver.solve_on_device(&b, &mut x, Guess::Zero)?;
        if round > 0 {
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let report = solver.report();
    if arguments.kernels {
        gpu.start_profile(true);
        let done = solver.solve_on_device(&b, &mut x, Guess::Zero);
        let times = gpu.end_profile();
        done?;
        emit_kernels(&format!("a solve, {name}"), &times, bandwidth, |sum| sum.given)?;
    }
    drop(solver);
    let cycle = if arguments.cycles {
        let mut amg = Amg::setup(context, matrix, &config)?;
        Some(time(gpu, arguments.repeat, || amg.apply_on_device(&b, &mut x))?)
    } else {
        None
    };
    Ok(Solve {
        name,
        setup,
        iterations: report.solves.first().map_or(0, |solve| solve.iterations),
        converged: status == Status::Success,
        solve: median(times),
        cycle,
        bytes: report.bytes,
        formats: report.levels.iter().map(|level| level.format.clone()).collect(),
    })
}
