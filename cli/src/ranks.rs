//! `terrace bench ranks`: the same system solved by threads of one process and by ranks of one thread each, in one run.

use crate::Outcome;
use crate::bench::{median, timed};
use crate::emit::{bytes, emit, seconds, threads};
use crate::peers::{Folder, Measured, compile_hypre, hypre_command, peer, write_system};
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use terrace::comm::{Communicator, Part, Reduction, threads as thread_ranks};
use terrace::gallery::Problem;
use terrace::matrix::{GivenRows, Values};
use terrace::sparse::Csr;
use terrace::{Config, Context, Error, Guess, Matrix, Report, Result, Solver, Status, gallery};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// Options like solver.tolerance=1e-6 (see `terrace options`)
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,

    /// Problems (see `terrace gallery`)
    #[arg(short, long = "problem", value_name = "FAMILY:SIZES", default_values_t = ["poisson7:100", "elasticity:40"].map(String::from))]
    problems: Vec<String>,

    /// Ranks of one thread, compared with as many threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,

    /// Device of each rank: host, cuda:N, hip:N, sim
    #[arg(short, long, value_name = "NAME", default_value = "host")]
    device: String,

    /// Also hypre on as many ranks of MPI, from Debian's packages
    #[arg(long)]
    hypre: bool,

    /// Times that each way is measured, after one warm-up
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

/// Lines of the table: a name, and what it is of a round.
type Line = (&'static str, fn(&Round) -> f64);

const LINES: &[Line] = &[
    ("set-up", |r| r.setup),
    ("  strength", |r| r.report.setup.get("strength")),
    ("  coarsening", |r| r.report.setup.get("coarsen")),
    ("  interpolation", |r| r.report.setup.get("interpolation")),
    ("  products", |r| r.report.setup.get("galerkin")),
    ("  storage", |r| r.report.setup.get("place")),
    ("  smoother", |r| r.report.setup.get("smoother")),
    ("  coarsest", |r| r.report.setup.get("coarsest")),
    ("  exchange", |r| r.of_setup.seconds),
    ("solve", |r| r.solve),
    ("  operator", |r| r.report.solve.get("operator")),
    ("  preconditioner", |r| r.report.solve.get("preconditioner")),
    ("  exchange", |r| r.of_solve.seconds),
    ("total", |r| r.setup + r.solve),
    ("update", |r| r.update),
    ("  exchange", |r| r.of_update.seconds),
];

/// What one rank sent, and how long it was in the functions of its communicator, waiting for others included.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Seconds, without what runs while messages are under way.
    pub seconds: f64,
    /// Messages to neighbours.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Operations of all ranks.
    pub collectives: u64,
    /// Bytes that this rank gave to them.
    pub collective_bytes: u64,
    /// How often messages of these ranks and bytes were received together.
    pub received: BTreeMap<(usize, usize), u64>,
}

/// A communicator that keeps account of what goes through it.
pub struct Counting {
    inner: Arc<dyn Communicator>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Counting {
    /// Around another one, with an account of its own.
    pub fn new(inner: Arc<dyn Communicator>) -> Counting {
        Counting { inner, traffic: Arc::default() }
    }

    /// What went through since the last call.
    pub fn take(&self) -> Traffic {
        self.traffic.lock().map_or_else(|_| Traffic::default(), |mut traffic| std::mem::take(&mut *traffic))
    }

    fn add(&self, start: Instant, meanwhile: f64, more: impl FnOnce(&mut Traffic)) {
        if let Ok(mut traffic) = self.traffic.lock() {
            traffic.seconds += start.elapsed().as_secs_f64() - meanwhile;
            more(&mut traffic);
        }
    }

    fn collective<R>(&self, bytes: usize, work: impl FnOnce(&dyn Communicator) -> Result<R>) -> Result<R> {
        let start = Instant::now();
        let result = work(&*self.inner);
        self.add(start, 0.0, |traffic| {
            traffic.collectives += 1;
            traffic.collective_bytes += bytes as u64;
        });
        result
    }
}

impl Communicator for Counting {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn exchange(
        &self,
        tag: i32,
        sends: &[Part],
        outgoing: &[u8],
        receives: &[Part],
        incoming: &mut [u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()> {
        let start = Instant::now();
        let mut inside = 0.0;
        let result = self.inner.exchange(tag, sends, outgoing, receives, incoming, &mut || {
            let start = Instant::now();
            meanwhile();
            inside += start.elapsed().as_secs_f64();
        });
        self.add(start, inside, |traffic| {
            traffic.messages += sends.len() as u64;
            traffic.bytes += sends.iter().map(|part| part.length as u64).sum::<u64>();
            let received = (receives.len(), receives.iter().map(|part| part.length).sum());
            *traffic.received.entry(received).or_default() += 1;
        });
        result
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) -> Result<()> {
        self.collective(own.len(), |inner| inner.all_gather(own, lengths, all))
    }

    fn all_reduce(&self, numbers: &mut [i64], reduction: Reduction) -> Result<()> {
        self.collective(size_of_val(numbers), |inner| inner.all_reduce(numbers, reduction))
    }

    fn barrier(&self) -> Result<()> {
        self.collective(0, |inner| inner.barrier())
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Arc::new(Counting { inner: self.inner.duplicate()?, traffic: Arc::clone(&self.traffic) }))
    }

    fn revoke(&self) {
        self.inner.revoke();
    }

    fn set_timeout(&self, seconds: f64) -> Result<()> {
        self.inner.set_timeout(seconds)
    }
}

/// What one round measured on one rank.
pub struct Round {
    setup: f64,
    solve: f64,
    /// The second update after it; the first one has symbolic phases. 0 where there was none.
    update: f64,
    /// Messages of set-up, of the solve and of the update.
    pub of_setup: Traffic,
    pub of_solve: Traffic,
    of_update: Traffic,
    /// The report of the solver.
    pub report: Report,
    status: Status,
}

/// Ranks, and the threads of each.
#[derive(Clone, Copy)]
struct Way {
    /// None for a matrix that is on no ranks.
    ranks: Option<usize>,
    threads: usize,
}

impl Way {
    fn name(self) -> String {
        let threads = threads(self.threads);
        match self.ranks {
            None => threads,
            Some(1) => format!("1 rank, {threads}"),
            Some(count) => format!("{count} ranks, {threads}"),
        }
    }

    /// Whole and stored by rows.
    fn round(self, problem: &System, device: &str, config: &Config) -> Result<Round> {
        match self.ranks {
            None => {
                let context = context(device, self.threads)?;
                let mut solver = Solver::new(&context, config);
                let matrix = &problem.whole;
                let mut x = vec![0.0; matrix.rows()];
                let (setup, ()) = timed(|| solver.setup(Some(matrix)))?;
                let (solve, status) = timed(|| solver.solve(&vec![1.0; matrix.rows()], &mut x, Guess::Zero))?;
                let report = solver.report();
                solver.update()?;
                let (update, ()) = timed(|| solver.update())?;
                let (of_setup, of_solve, of_update) = Default::default();
                Ok(Round { setup, solve, update, of_setup, of_solve, of_update, report, status })
            }
            Some(ranks) => {
                let mut rounds = on_ranks(&problem.rows, ranks, device, self.threads, config, true)?;
                // All ranks end together; the first one tells.
                Ok(rounds.swap_remove(0))
            }
        }
    }
}

/// A context with so many threads.
fn context(device: &str, threads: usize) -> Result<Context> {
    let context = Context::new(device)?;
    context.set_threads(threads)?;
    Ok(context)
}

/// A problem, whole and by its scalar rows.
pub struct System {
    whole: Arc<Matrix>,
    rows: Rows,
}

impl System {
    /// Of the gallery.
    pub fn new(name: &str) -> Result<System> {
        let problem = gallery::parse(name)?;
        Ok(System { rows: Rows::new(&problem)?, whole: Arc::new(problem.into_matrix()?) })
    }
}

/// The scalar rows of a problem.
pub struct Rows {
    pub matrix: Csr<f64>,
    /// With their dimension.
    pub coordinates: Option<(usize, Vec<f64>)>,
    /// First row of each rank, and the number of rows; none where ranks have about as many nodes each.
    pub starts: Option<Vec<usize>>,
}

impl Rows {
    /// Those of a problem.
    pub fn new(problem: &Problem) -> Result<Rows> {
        let Problem { dimension, coordinates, .. } = problem;
        let coordinates = coordinates.clone().map(|coordinates| (*dimension, coordinates));
        Ok(Rows { matrix: problem.matrix.view().to_scalar()?, coordinates, starts: None })
    }

    /// Rows of a node.
    pub fn width(&self) -> usize {
        self.coordinates.as_ref().map_or(1, |(dimension, _)| *dimension)
    }

    /// The rows of one of several ranks, which have about as many nodes each.
    fn own(&self, rank: usize, ranks: usize) -> Range<usize> {
        if let Some(starts) = &self.starts {
            return starts[rank]..starts[rank + 1];
        }
        let width = self.width();
        let nodes = self.matrix.rows / width;
        width * (nodes * rank / ranks)..width * (nodes * (rank + 1) / ranks)
    }

    fn given(&self, own: &Range<usize>) -> GivenRows {
        let a = &self.matrix;
        let begin = a.offsets[own.start];
        let entries = begin as usize..a.offsets[own.end] as usize;
        GivenRows {
            total: a.rows,
            first: own.start,
            offsets: a.offsets[own.start..=own.end].iter().map(|offset| offset - begin).collect(),
            columns: a.columns[entries.clone()].iter().map(|column| i64::from(*column)).collect(),
            values: Values::from(a.values[entries].to_vec()),
            sorted: true,
            base: 0,
        }
    }
}

/// Set-up and solve on ranks, which are threads, and updates on request; one result for each.
pub fn on_ranks(
    problem: &Rows,
    ranks: usize,
    device: &str,
    threads: usize,
    config: &Config,
    updates: bool,
) -> Result<Vec<Round>> {
    let one = |communicator: Arc<dyn Communicator>| -> Result<Round> {
        let counting = Counting::new(communicator);
        let context = context(device, threads)?;
        context.set_communicator(Some(&counting))?;
        let own = problem.own(counting.rank(), ranks);
        let matrix = Arc::new(Matrix::distributed(&context, Ok(problem.given(&own)))?);
        if let Some((dimension, coordinates)) = &problem.coordinates {
            matrix.set_coordinates(*dimension, &coordinates[own.clone()])?;
        }
        let mut solver = Solver::new(&context, config);
        let (b, mut x) = (vec![1.0; own.len()], vec![0.0; own.len()]);
        counting.barrier()?;
        counting.take();
        let (setup, ()) = timed(|| solver.setup(Some(&matrix)))?;
        let of_setup = counting.take();
        let (solve, status) = timed(|| solver.solve(&b, &mut x, Guess::Zero))?;
        let (of_solve, report) = (counting.take(), solver.report());
        let mut update = 0.0;
        if updates {
            solver.update()?;
            counting.take();
            (update, ()) = timed(|| solver.update())?;
        }
        let of_update = counting.take();
        Ok(Round { setup, solve, update, of_setup, of_solve, of_update, report, status })
    };
    let one = &one;
    std::thread::scope(|scope| {
        let started: Vec<_> =
            thread_ranks(ranks).into_iter().map(|communicator| scope.spawn(move || one(communicator))).collect();
        let panicked = || Error::new(Status::Internal, "a rank panicked");
        started.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect()
    })
}

/// The options of `key=value` arguments.
pub fn config(options: &[String]) -> Result<Config> {
    let mut config = Config::new();
    for option in options {
        let Some((key, value)) = option.split_once('=') else {
            let message = format!("\"{option}\" is no option; options are key=value, and problems --problem");
            return Err(Error::new(Status::InvalidArgument, message));
        };
        config.set_str(key, value)?;
    }
    Ok(config)
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let progress = Progress::new(false);
    let config = config(&arguments.options)?;
    let count = arguments.ranks as usize;
    let mut ways = vec![
        Way { ranks: None, threads: count },
        Way { ranks: Some(1), threads: count },
        Way { ranks: Some(count), threads: 1 },
    ];
    ways.truncate(if count == 1 { 2 } else { 3 });
    let hypre = match arguments.hypre {
        true => {
            let folder = Folder::new()?;
            let program = progress.spin("compiling the hypre driver", || compile_hypre(&folder.0));
            let missing =
                "hypre could not be compiled; on Debian: apt-get install libhypre-dev libopenmpi-dev openmpi-bin";
            let program = program.ok_or_else(|| Error::new(Status::Unsupported, missing))?;
            Some((folder, program))
        }
        false => None,
    };
    let mut converged = true;
    for name in &arguments.problems {
        let problem = progress.spin(&format!("generating {name}"), || System::new(name))?;
        // Rounds of the ways alternate, so that a slow moment of the machine affects all.
        let mut rounds: Vec<Vec<Round>> = ways.iter().map(|_| Vec::new()).collect();
        for repeat in 0..=arguments.repeat {
            for (way, rounds) in ways.iter().zip(&mut rounds) {
                let title = format!("{name}: round {repeat} of {}, {}", arguments.repeat, way.name());
                let round = progress.spin(&title, || way.round(&problem, &arguments.device, &config))?;
                converged &= round.status == Status::Success;
                if repeat > 0 {
                    rounds.push(round);
                }
            }
        }
        emit(&table(name, &problem, &ways, &rounds))?;
        let hypre = match &hypre {
            Some((folder, program)) => {
                let of = |configuration| hypre_on_ranks(&folder.0, program, name, configuration, arguments);
                let rows = progress.spin(&format!("{name}: hypre"), || ["pmis", "hmis"].map(of));
                let rows: Vec<Measured> = rows.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
                emit(&beside_hypre(&rows, rounds.last().map_or(&[], Vec::as_slice)))?;
                rows
            }
            None => Vec::new(),
        };
        emit(&line(name, arguments, &ways, &rounds, &hypre))?;
    }
    Ok(if converged { Outcome::Done } else { Outcome::NotConverged })
}

/// The median of a line over rounds.
fn of(rounds: &[Round], line: fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(line).collect())
}

fn table(name: &str, problem: &System, ways: &[Way], rounds: &[Vec<Round>]) -> String {
    let mut out = format!(
        "{name}: {} rows, {} nonzeros\n\n{:<18}",
        problem.rows.matrix.rows,
        problem.rows.matrix.values.len(),
        ""
    );
    for way in ways {
        let _ = write!(out, " {:>17}", way.name());
    }
    out.push_str("     ratio\n");
    for (name, line) in LINES {
        let of: Vec<f64> = rounds.iter().map(|rounds| of(rounds, *line)).collect();
        if of.iter().all(|time| *time == 0.0) {
            continue;
        }
        let _ = write!(out, "{name:<18}");
        for time in &of {
            let _ = write!(out, " {:>17}", seconds(*time));
        }
        if of.len() == 3 && of[1] > 0.0 {
            let _ = write!(out, " {:>9.2}", of[2] / of[1]);
        }
        out.push('\n');
    }
    let mut row = |name: &str, of: &dyn Fn(&Round) -> String| {
        let _ = write!(out, "{name:<18}");
        for round in rounds.iter().filter_map(|rounds| rounds.last()) {
            let _ = write!(out, " {:>17}", of(round));
        }
        out.push('\n');
    };
    row("iterations", &|round| round.report.solves.first().map_or(0, |solve| solve.iterations).to_string());
    row("set-up, sent", &|round| sent(&round.of_setup));
    row("solve, sent", &|round| sent(&round.of_solve));
    row("update, sent", &|round| sent(&round.of_update));
    row("bytes held", &|round| bytes(round.report.bytes));
    out.push_str("\nThe ratio is that of ranks to threads of one rank.\n\n");
    out
}

/// Bytes and operations, of the first rank.
fn sent(traffic: &Traffic) -> String {
    let operations = traffic.messages + traffic.collectives;
    format!("{} in {operations}", bytes((traffic.bytes + traffic.collective_bytes) as usize))
}

/// CG with BoomerAMG on as many ranks, for the same right-hand side.
fn hypre_on_ranks(
    folder: &Path,
    program: &Path,
    name: &str,
    configuration: &str,
    arguments: &Arguments,
) -> Result<Option<Measured>> {
    let problem = gallery::parse(name)?;
    let (file, functions) = (folder.join("matrix"), problem.matrix.block.rows);
    write_system(&file, &problem, &vec![1.0; problem.matrix.view().scalar_rows()])?;
    let command = hypre_command(program, &file, configuration, arguments.ranks as usize, functions, arguments.repeat);
    Ok(peer(command, "hypre", configuration.to_string()))
}

/// Totals of hypre beside that of ranks.
fn beside_hypre(rows: &[Measured], rounds: &[Round]) -> String {
    let mut out = String::new();
    let own = of(rounds, |round| round.setup + round.solve);
    for row in rows {
        let total = row.setup + row.solve;
        let _ = writeln!(
            out,
            "hypre, {}: set-up {}, solve {}, {} iterations; the total of ranks is {:.2} of it",
            row.configuration,
            seconds(row.setup),
            seconds(row.solve),
            row.iterations,
            own / total
        );
    }
    out.push('\n');
    out
}

fn line(name: &str, arguments: &Arguments, ways: &[Way], rounds: &[Vec<Round>], hypre: &[Measured]) -> String {
    let way = |(way, rounds): (&Way, &Vec<Round>)| {
        let times: serde_json::Map<_, _> =
            LINES.iter().map(|(name, line)| (name.trim().to_string(), json!(of(rounds, *line)))).collect();
        let iterations = rounds.last().and_then(|round| round.report.solves.first()).map(|solve| solve.iterations);
        json!({ "ranks": way.ranks, "threads": way.threads, "iterations": iterations, "median_seconds": times })
    };
    let json = json!({
        "bench": "ranks", "version": env!("CARGO_PKG_VERSION"), "problem": name, "device": arguments.device,
        "hypre": hypre.iter().map(Measured::to_json).collect::<Vec<_>>(), "repeat": arguments.repeat, "ways": ways.iter().zip(rounds).map(way).collect::<Vec<_>>(),
    });
    format!("{json}\n")
}
