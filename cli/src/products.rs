//! `terrace bench products`: the product of a matrix with itself on a GPU, beside cuSPARSE's.

use crate::Outcome;
use crate::bench::median;
use crate::emit::{emit, seconds};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::time::Instant;
use terrace::sparse::Block;
use terrace::{Context, Error, Matrix, ProductMethod, Result, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// The problems (see `terrace gallery`)
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", default_value = "poisson7:128")]
    problems: Vec<String>,

    /// Device, like cuda:0; the simulation only shows that the command works
    #[arg(short, long, default_value = "cuda:0")]
    device: String,

    /// Times that everything is measured, after a warm-up
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// How products are computed: with tables of columns, by tiles on matrix cores, or by what is faster
    #[arg(long, value_name = "METHODS", value_enum, value_delimiter = ',', default_value = "auto")]
    with: Vec<With>,
}

/// Methods of products.
#[derive(Clone, Copy, ValueEnum)]
enum With {
    Auto,
    Hash,
    Tiles,
}

impl With {
    /// What names of the table end with, and the library's name.
    fn method(self) -> (&'static str, ProductMethod) {
        match self {
            With::Auto => ("", ProductMethod::Auto),
            With::Hash => (", hash", ProductMethod::Hash),
            With::Tiles => (", tiles", ProductMethod::Tiles),
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let context = Context::new(&arguments.device)?;
    let Some(gpu) = context.gpu() else {
        return Err(Error::new(Status::Device, format!("{} is not a GPU", arguments.device)));
    };
    emit(&format!("{}\n", gpu.description()))?;
    let mut lines = Vec::new();
    for problem in &arguments.problems {
        let matrix = gallery::parse(problem)?.into_matrix()?;
        let a = matrix.shared::<f64>()?;
        emit(&format!("\n{problem}: {} rows, {} nonzeros\n", matrix.rows(), matrix.entries()))?;
        let mut line = |name: &str, (entries, time): (usize, f64)| -> Result<()> {
            emit(&format!("  {name:<28} {:>10}  {entries} nonzeros\n", seconds(time)))?;
            lines.push(json!({"problem": problem, "product": name, "nonzeros": entries, "seconds": time}));
            Ok(())
        };
        let scalar = match a.view().block {
            Block::SCALAR => None,
            _ => Some(Matrix::from_csr(a.view().to_scalar()?)?),
        };
        if scalar.is_some() {
            for (name, method) in arguments.with.iter().map(|with| with.method()) {
                line(&format!("blocks{name}"), own(&context, &matrix, method, arguments)?)?;
            }
        }
        let scalar = scalar.as_ref().unwrap_or(&matrix);
        for (name, method) in arguments.with.iter().map(|with| with.method()) {
            line(&format!("scalars{name}"), own(&context, scalar, method, arguments)?)?;
        }
        match theirs(&context, scalar, arguments) {
            Ok(measured) => line("cuSPARSE, default algorithm", measured)?,
            // Without cuSPARSE, or if it does not support this, there is no comparison.
            Err(error) => emit(&format!("  {}\n", error.message))?,
        }
    }
    let line: Value = json!({
        "bench": "products", "version": env!("CARGO_PKG_VERSION"), "device": arguments.device, "name": gpu.description(),
        "repeat": arguments.repeat, "results": lines,
    });
    emit(&format!("{line}\n"))?;
    Ok(Outcome::Done)
}

/// Entries of the product, and the time of `multiply`, which gives them.
fn measure(context: &Context, arguments: &Arguments, multiply: impl Fn() -> Result<usize>) -> Result<(usize, f64)> {
    let gpu = context.gpu().expect("the context is on a GPU");
    let (mut times, mut entries) = (Vec::new(), multiply()?);
    for _ in 0..arguments.repeat {
        gpu.synchronize()?;
        let start = Instant::now();
        entries = multiply()?;
        gpu.synchronize()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok((entries, median(times)))
}

fn own(context: &Context, matrix: &Matrix, method: ProductMethod, arguments: &Arguments) -> Result<(usize, f64)> {
    let on_device = matrix.to_device(context)?;
    measure(context, arguments, || Ok(on_device.multiply_by(context, &on_device, method)?.entries()))
}

fn theirs(context: &Context, matrix: &Matrix, arguments: &Arguments) -> Result<(usize, f64)> {
    let gpu = context.gpu().expect("the context is on a GPU");
    let matrix = crate::cusparse::CuSparse::new(gpu, &matrix.shared::<f64>()?.view(), 0)?;
    measure(context, arguments, || matrix.square())
}
