//! `terrace bench scaling`: what ranks send and compute, by levels, as their number grows with the problem, and a model of
//! the time that this takes on many GPUs.

mod boxes;
mod model;
mod plot;

use crate::Outcome;
use crate::emit::{bytes, count, emit, save, seconds};
use crate::progress::Progress;
use crate::ranks::{Round, config, on_ranks};
use boxes::{boxes, numbered_by_boxes, numbers_of_ranks};
use clap::Args;
use model::{Hierarchy, Iteration, Level, Machine, Seconds};
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::PathBuf;
use terrace::comm::{FEWEST_ROWS, Spread};
use terrace::report::LevelSpread;
use terrace::{Config, Error, Result, Status};

/// Arguments of the command.
#[derive(Args)]
pub struct Arguments {
    /// Options like solver.tolerance=1e-6 (see `terrace options`)
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,

    /// poisson7, poisson27 or elasticity; each rank has a cube of the grid
    #[arg(short, long, value_name = "FAMILY", default_value = "poisson7")]
    problem: String,

    /// Points of each rank along an axis
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
    size: u32,

    /// Most ranks that are counted: 1, 2, 4 and so on; 1, 8, 64 of elasticity
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,

    /// Points along an axis of each GPU that the model is for; 256, and 80 for elasticity
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    target: Option<u32>,

    /// Also a picture of the efficiency, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Arguments {
    fn target(&self) -> u32 {
        self.target.unwrap_or(if self.problem == "elasticity" { 80 } else { 256 })
    }
}

/// An H200 as its products of rows in CSR run, with steps as one rank took them on 7-point 64^3 to 160^3, and a network of 400 Gb/s. Messages
/// leave device memory.
const MACHINE: Machine = Machine { memory: 3.5e12, step: 9e-6, network: 50e9, latency: 2e-6, copy: 0.0 };

/// The same with messages that are copied to the host and back, as they are today.
const STAGED: Machine = Machine { copy: 10e-6, ..MACHINE };

/// Numbers of GPUs that the model tells about.
const GPUS: [f64; 6] = [1.0, 8.0, 64.0, 512.0, 4096.0, 8192.0];

/// What was counted with so many ranks.
struct Counted {
    ranks: usize,
    iterations: usize,
    /// Rows of the rank that has most.
    own: usize,
    spreads: Vec<LevelSpread>,
    hierarchy: Hierarchy,
    /// Messages that the rank with most receives in an iteration, their bytes, and collective operations.
    messages: f64,
    bytes: f64,
    collectives: f64,
    setup_bytes: u64,
    setup_operations: u64,
    held: i64,
}

impl Counted {
    /// From what the ranks tell.
    fn new(rounds: &[Round], config: &Config) -> Option<Counted> {
        let report = &rounds.first()?.report;
        let spread = report.ranks.clone()?;
        let iterations = report.solves.first()?.iterations.max(1);
        let each = |of: u64| of as f64 / iterations as f64;
        // Messages and bytes of a rank: those of each level's products, then those of transfers.
        let (mut products, mut busiest) = (vec![0.0_f64; report.levels.len()], Busiest::default());
        for round in rounds {
            let mut own = Busiest::default();
            for ((ranks, received), times) in &round.of_solve.received {
                let times = each(*times);
                own.messages += times * *ranks as f64;
                own.bytes += times * *received as f64;
                if let Some(level) = level_of(round, (*ranks, *received)) {
                    own.level_messages += times * *ranks as f64;
                    own.level_bytes += times * *received as f64;
                    own.products[level.min(31)] += times;
                }
            }
            for (most, own) in products.iter_mut().zip(&own.products) {
                *most = most.max(*own);
            }
            if own.bytes > busiest.bytes {
                busiest = own;
            }
        }
        // That of the Krylov method is counted by itself.
        if let Some(finest) = products.first_mut() {
            *finest = (*finest - 1.0).max(0.0);
        }
        let level = |((level, spread), products): ((&terrace::report::LevelReport, &LevelSpread), &f64)| {
            let (value, element) = (level.matrix_precision.bytes() as f64, level.vector_precision.bytes() as f64);
            Level {
                rows: level.rows as f64,
                nonzeros: level.nonzeros as f64,
                own: spread.rows.max as f64,
                halo: spread.received.max as f64 / element,
                neighbours: spread.neighbours.max as f64,
                products: *products,
                value,
                element,
            }
        };
        let levels: Vec<Level> = report.levels.iter().zip(&spread.levels).zip(&products).map(level).collect();
        let of = |all: f64, part: f64| if part > 0.0 { all / part - 1.0 } else { 0.0 };
        let collectives = each(rounds.iter().map(|round| round.of_solve.collectives).max()?);
        let hierarchy = Hierarchy {
            levels,
            transfer_messages: of(busiest.messages, busiest.level_messages),
            transfer_bytes: of(busiest.bytes, busiest.level_bytes),
            collectives,
            coarsest: config.get("amg.coarsest.max_rows").ok()?.parse().ok()?,
            fewest: FEWEST_ROWS as f64,
        };
        let setup = |of: fn(&Round) -> u64| rounds.iter().map(of).max();
        Some(Counted {
            ranks: rounds.len(),
            iterations,
            own: spread.rows.max as usize,
            held: spread.bytes.max,
            spreads: spread.levels,
            hierarchy,
            messages: busiest.messages,
            bytes: busiest.bytes,
            collectives,
            setup_bytes: setup(|round| round.of_setup.bytes + round.of_setup.collective_bytes)?,
            setup_operations: setup(|round| round.of_setup.messages + round.of_setup.collectives)?,
        })
    }
}

/// What a rank receives in an iteration.
#[derive(Default)]
struct Busiest {
    messages: f64,
    bytes: f64,
    /// Of them those of products with the matrices of levels.
    level_messages: f64,
    level_bytes: f64,
    products: [f64; 32],
}

/// The level whose matrix needs messages of so many ranks and bytes on this rank; none where they belong to a transfer.
fn level_of(round: &Round, received: (usize, usize)) -> Option<usize> {
    if received.1 == 0 {
        return None;
    }
    let levels = &round.report.levels;
    let found =
        levels.iter().position(|level| level.part.is_some_and(|part| (part.neighbours, part.received) == received));
    // The Krylov method has vectors in f64 and the pattern of the finest level.
    let in_f64 = |part: terrace::backend::OwnPart, element: usize| (part.neighbours, part.received / element * 8);
    let finest = levels.first()?;
    let outer = in_f64(finest.part?, finest.vector_precision.bytes()) == received;
    found.or(outer.then_some(0))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let options = config(&arguments.options)?;
    let (family, n) = (&arguments.problem, arguments.size as usize);
    let mut counted = Vec::new();
    for ranks in numbers_of_ranks(family, arguments.ranks as usize) {
        let name = format!("{family}, {n}^3 for each of {ranks} ranks");
        let rows = progress.spin(&format!("generating {name}"), || numbered_by_boxes(family, n, boxes(ranks)))?;
        let rounds = progress.spin(&name, || on_ranks(&rows, ranks, "host", 1, &options, false))?;
        let missing = || Error::new(Status::Internal, format!("{name}: nothing was counted"));
        counted.push(Counted::new(&rounds, &options).ok_or_else(missing)?);
    }
    let Some(last) = counted.last() else { unreachable!("one rank is counted") };
    let target = own_rows(arguments, last);
    let modelled: Vec<Modelled> = GPUS.iter().map(|gpus| Modelled::new(last, *gpus, target)).collect();
    emit(&volumes(arguments, &counted, last))?;
    emit(&errors(&counted))?;
    emit(&times(arguments, &modelled))?;
    if let Some(path) = &arguments.svg {
        let curves = modelled.iter().map(|of| (of.gpus, of.efficiency(&modelled[0]))).collect::<Vec<_>>();
        save(path, &plot::draw(&format!("{family}, {}^3 for each GPU", arguments.target()), &curves))?;
    }
    emit(&format!("{}\n", line(arguments, &counted, &modelled)))?;
    Ok(Outcome::Done)
}

/// Rows of a GPU that the model is for.
fn own_rows(arguments: &Arguments, last: &Counted) -> f64 {
    last.own as f64 * (f64::from(arguments.target()) / f64::from(arguments.size)).powi(3)
}

/// What the model tells about so many GPUs.
struct Modelled {
    gpus: f64,
    iteration: Iteration,
    direct: Seconds,
    staged: Seconds,
}

impl Modelled {
    fn new(last: &Counted, gpus: f64, own: f64) -> Modelled {
        let iteration = last.hierarchy.iteration(last.ranks as f64, gpus, own);
        let (direct, staged) = (MACHINE.seconds(&iteration, gpus), STAGED.seconds(&iteration, gpus));
        Modelled { gpus, iteration, direct, staged }
    }

    /// The time of one GPU over this one: with messages from device memory, and by way of the host.
    fn efficiency(&self, alone: &Modelled) -> [f64; 2] {
        [&self.direct, &self.staged].map(|of| alone.direct.total() / of.total())
    }
}

/// What was counted.
fn volumes(arguments: &Arguments, counted: &[Counted], last: &Counted) -> String {
    let (n, name) = (arguments.size, &arguments.problem);
    let mut out = format!(
        "{name}, {n}^3 for each rank. An iteration and set-up of the rank that has most:\n\n\
         | ranks | iterations | levels | messages | received | collective | set-up operations | set-up sent | held |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for c in counted {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.1} | {} | {:.1} | {} | {} | {} |",
            c.ranks,
            c.iterations,
            c.spreads.len(),
            c.messages,
            bytes(c.bytes as usize),
            c.collectives,
            c.setup_operations,
            bytes(c.setup_bytes as usize),
            bytes(c.held as usize)
        );
    }
    let _ = write!(
        out,
        "\n{} ranks, smallest to largest of a rank, for a product with the matrix of the level:\n\n\
         | level | rows of all | rows | nonzeros | neighbours | received | products in an iteration | flops |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        last.ranks
    );
    for (i, (level, of)) in last.spreads.iter().zip(&last.hierarchy.levels).enumerate() {
        let range = |s: &Spread, of: fn(usize) -> String| format!("{} to {}", of(s.min as usize), of(s.max as usize));
        let _ = writeln!(
            out,
            "| {i} | {} | {} | {} | {} | {} | {:.1} | {} |",
            count(of.rows as usize),
            range(&level.rows, count),
            range(&level.nonzeros, count),
            range(&level.neighbours, count),
            range(&level.received, bytes),
            of.products + f64::from(i == 0),
            count(2 * level.nonzeros.max as usize)
        );
    }
    let Hierarchy { transfer_messages, transfer_bytes, .. } = last.hierarchy;
    let _ = writeln!(
        out,
        "\nTransfers between levels have {transfer_messages:.2} of the messages and {transfer_bytes:.2} of the bytes of these.\n"
    );
    out
}

/// What the model tells about the most ranks from counts with fewer, beside what was counted there.
fn errors(counted: &[Counted]) -> String {
    let (Some(last), Some(few)) = (counted.last(), counted.iter().find(|c| c.ranks == 8)) else { return String::new() };
    if few.ranks == last.ranks {
        return String::new();
    }
    let mut out = format!(
        "Model from {} ranks for {}, and from {} for {}, over what was counted with {}:\n\n\
         | from | messages | bytes | nonzeros |\n| --- | --- | --- | --- |\n",
        few.ranks, last.ranks, last.ranks, last.ranks, last.ranks
    );
    for from in [few, last] {
        let told = from.hierarchy.iteration(from.ranks as f64, last.ranks as f64, last.own as f64);
        let operations: f64 = last
            .hierarchy
            .levels
            .iter()
            .zip(&last.spreads)
            .map(|(l, s)| 2.0 * l.products * s.nonzeros.max as f64)
            .sum();
        let outer = last.spreads.first().map_or(0.0, |finest| 2.0 * finest.nonzeros.max as f64);
        let _ = writeln!(
            out,
            "| {} | {:.2} | {:.2} | {:.2} |",
            from.ranks,
            told.messages / last.messages,
            told.bytes / last.bytes,
            told.operations / (operations + outer)
        );
    }
    out.push('\n');
    out
}

/// The times of the model.
fn times(arguments: &Arguments, modelled: &[Modelled]) -> String {
    let Machine { memory, step, network, latency, .. } = MACHINE;
    let mut out = format!(
        "Model of an iteration, {}^3 for each GPU: {:.1} TB/s and {} for a product; {:.0} GB/s and {} for a message; by way of \
         the host, {} for each copy\n\n\
         | GPUs | levels | messages | received | work | messages take | collective | total | efficiency | by way of the host | efficiency |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        arguments.target(),
        memory * 1e-12,
        seconds(step),
        network * 1e-9,
        seconds(latency),
        seconds(STAGED.copy)
    );
    let Some(alone) = modelled.first() else { return out };
    for of in modelled {
        let [direct, staged] = of.efficiency(alone);
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {} | {} | {} | {} | {} | {:.2} | {} | {:.2} |",
            of.gpus,
            of.iteration.levels,
            of.iteration.messages,
            bytes(of.iteration.bytes as usize),
            seconds(of.direct.work),
            seconds(of.direct.exchange),
            seconds(of.direct.collective),
            seconds(of.direct.total()),
            direct,
            seconds(of.staged.total()),
            staged
        );
    }
    out.push('\n');
    out
}

/// One line for machines.
fn line(arguments: &Arguments, counted: &[Counted], modelled: &[Modelled]) -> Json {
    let spread = |s: &Spread| json!([s.min, s.mean, s.max]);
    let level = |l: &LevelSpread| {
        json!({ "rows": spread(&l.rows), "nonzeros": spread(&l.nonzeros), "received_bytes": spread(&l.received),
            "neighbours": spread(&l.neighbours), "bytes": spread(&l.bytes) })
    };
    let run = |c: &Counted| {
        json!({ "ranks": c.ranks, "iterations": c.iterations, "messages": c.messages, "bytes": c.bytes,
            "collectives": c.collectives, "setup_operations": c.setup_operations, "setup_bytes": c.setup_bytes,
            "levels": c.spreads.iter().map(level).collect::<Vec<_>>() })
    };
    let gpus = |of: &Modelled| {
        json!({ "gpus": of.gpus, "levels": of.iteration.levels, "messages": of.iteration.messages,
            "bytes": of.iteration.bytes, "flops": of.iteration.operations, "work_seconds": of.direct.work,
            "exchange_seconds": of.direct.exchange, "collective_seconds": of.direct.collective,
            "staged_seconds": of.staged.total() })
    };
    json!({ "bench": "scaling", "version": env!("CARGO_PKG_VERSION"), "problem": arguments.problem, "size": arguments.size,
        "target": arguments.target(), "runs": counted.iter().map(run).collect::<Vec<_>>(),
        "model": modelled.iter().map(gpus).collect::<Vec<_>>() })
}
