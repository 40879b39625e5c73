//! `terrace bench stencils`: products and Gauss-Seidel sweeps on structured grids against the bandwidth of the memory, for levels in f64, f32 and f16.
//!
//! Bytes are what has to move at least: the matrix once, and each vector once in each direction. The bandwidth is that of the triad a = b + s c.

use crate::Outcome;
use crate::bench::median;
use crate::emit::emit;
use crate::progress::Progress;
use crate::spmv::Triad;
use clap::Args;
use half::f16;
use serde_json::json;
use std::fmt::Write;
use std::time::Instant;
use terrace::backend::{Colours, Operator, StorageFactory};
use terrace::host::Host;
use terrace::scalar::{Number, Sums};
use terrace::sparse::{ColouredStencil, Grid, SharedStencil};
use terrace::{Context, Error, Result, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Problems on structured grids (see `terrace gallery`); their sets should be far larger than the caches
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", default_value = "laplace27:128")]
    problems: Vec<String>,

    /// Threads; every core when not given
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,

    /// Times that everything is measured, after a warm-up
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,

    /// Mebibytes of each of the three arrays of the triad
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    triad_mib: u32,
}

/// What is measured of a level: a product, a residual, a forward and a backward sweep.
const WORK: [&str; 4] = ["product", "residual", "sweep", "backward"];

/// One level in some formats.
trait Level {
    /// Of matrix and vectors.
    fn formats(&self) -> String;
    /// Does work of this number.
    fn run(&mut self, work: usize) -> Result<()>;
    /// Bytes that it has to move.
    fn bytes(&self, work: usize) -> usize;
}

struct Stored<S, V: Number> {
    host: Host,
    operator: Box<dyn Operator<Host, V>>,
    colours: Box<dyn Colours<Host, V>>,
    entries: usize,
    inverse: usize,
    vectors: [Vec<V>; 3],
    of: std::marker::PhantomData<S>,
}

impl<S: Number, V: Number> Stored<S, V> {
    fn new(host: &Host, a: &SharedStencil<f64>) -> Result<Stored<S, V>> {
        let (matrix, n, b) = (a.cast::<S>()?, a.pattern.scalar_rows(), a.pattern.block);
        // For scalars the inverse of the diagonal; for blocks any numbers do.
        let diagonal = a.pattern.find([0; 3]).map_or(0, |k| a.pattern.array(k, 0, 0));
        let inverse: Vec<S> = match b {
            1 => a.values.as_slice()[diagonal..][..n].iter().map(|v| S::from_f64(1.0 / v)).collect(),
            _ => vec![S::from_f64(0.01); n * b],
        };
        let (entries, inverses) = (a.pattern.entries(), inverse.len());
        let vectors = [vec![V::from_f64(1.0); n], vec![V::from_f64(0.5); n], vec![V::ZERO; n]];
        Ok(Stored {
            host: host.clone(),
            operator: host.stencil(matrix.clone(), Sums::Wide)?,
            colours: host.stencil_colours(ColouredStencil { matrix, inverse, lines: None, shared: true })?,
            entries,
            inverse: inverses,
            vectors,
            of: std::marker::PhantomData,
        })
    }
}

impl<S: Number, V: Number> Level for Stored<S, V> {
    fn formats(&self) -> String {
        format!("{} in {}", S::PRECISION.name(), V::PRECISION.name())
    }

    fn run(&mut self, work: usize) -> Result<()> {
        let [b, x, y] = &mut self.vectors;
        let (one, zero) = (V::from_f64(1.0).widen(), V::ZERO.widen());
        match work {
            0 => self.operator.apply(one, x, zero, y),
            1 => self.operator.residual(b, x, y),
            _ => self.colours.pass(&self.host, self.colours.count(), work == 3, b, x, y),
        }
    }

    fn bytes(&self, work: usize) -> usize {
        let (matrix, vector) = (self.entries * size_of::<S>(), self.vectors[0].len() * size_of::<V>());
        match work {
            0 => matrix + 2 * vector,
            1 => matrix + 3 * vector,
            _ => matrix + self.inverse * size_of::<S>() + 3 * vector,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let context = match arguments.threads {
        None => Context::new("host")?,
        Some(threads) => Context::new(&format!("host:{threads}"))?,
    };
    let (host, progress) = (Host::new(&context), Progress::new(false));
    let elements = ((arguments.triad_mib as usize) << 20) / size_of::<f64>();
    let mut triad = Triad::new(&context, &host, elements)?;
    let (mut out, mut lines) = (String::new(), Vec::new());
    let _ = writeln!(out, "{} threads; shares are of the bandwidth of the triad\n", context.threads());
    let _ = writeln!(out, "| problem | formats | {} |\n| --- | --- | --- | --- | --- | --- |", WORK.join(" | "));
    for name in &arguments.problems {
        let problem = progress.spin(&format!("generating {name}"), || gallery::parse(name))?;
        let Some(dims) = problem.grid else {
            return Err(Error::new(Status::InvalidArgument, format!("{name} is not on a structured grid")));
        };
        let a = SharedStencil::from_rows(&problem.matrix, Grid::new(dims))?;
        drop(problem);
        let mut levels: Vec<Box<dyn Level>> = vec![
            Box::new(Stored::<f64, f64>::new(&host, &a)?),
            Box::new(Stored::<f32, f32>::new(&host, &a)?),
            Box::new(Stored::<f16, f32>::new(&host, &a)?),
        ];
        drop(a);
        // In turn, so that a slow moment of the machine affects all.
        let mut seconds = vec![vec![Vec::new(); WORK.len()]; levels.len()];
        let mut triads = Vec::new();
        progress.spin(&format!("measuring {name}"), || {
            for round in 0..=arguments.repeat {
                let time = triad.run();
                if round > 0 {
                    triads.push(time);
                }
                for (level, seconds) in levels.iter_mut().zip(&mut seconds) {
                    for (work, seconds) in seconds.iter_mut().enumerate() {
                        let start = Instant::now();
                        level.run(work)?;
                        if round > 0 {
                            seconds.push(start.elapsed().as_secs_f64());
                        }
                    }
                }
            }
            Ok(())
        })?;
        let bandwidth = (3 * elements * size_of::<f64>()) as f64 / median(triads);
        for (level, seconds) in levels.iter().zip(seconds) {
            let medians: Vec<f64> = seconds.into_iter().map(median).collect();
            let share = |work: usize| level.bytes(work) as f64 / bandwidth / medians[work];
            let _ = write!(out, "| `{name}` | {} |", level.formats());
            for (work, seconds) in medians.iter().enumerate() {
                let _ = write!(out, " {:.1} ms, {:.0} % |", 1e3 * seconds, 100.0 * share(work));
            }
            out.push('\n');
            lines.push(json!({
                "problem": name, "formats": level.formats(), "bandwidth": bandwidth, "seconds": medians,
                "shares": (0..WORK.len()).map(share).collect::<Vec<_>>(),
            }));
        }
    }
    emit(&out)?;
    emit(&format!(
        "\n{}\n",
        json!({ "bench": "stencils", "threads": context.threads(), "work": WORK, "results": lines })
    ))?;
    Ok(Outcome::Done)
}
