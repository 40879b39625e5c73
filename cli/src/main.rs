//! The command-line program.

mod bench;
mod cusparse;
mod cycle;
mod defaults;
mod emit;
mod gallery;
mod gpu;
mod grid_peers;
mod hypre;
mod info;
mod input;
mod matrices;
mod memory;
mod options;
mod peers;
mod plot;
mod products;
mod progress;
mod ranks;
mod rhs;
mod scaling;
mod setup;
mod solve;
mod spmv;
mod stencils;
mod structured;
mod svg;
mod table;
mod totals;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use terrace::Error;

/// Algebraic multigrid: solve systems, look at hierarchies, generate problems, measure.
#[derive(Parser)]
#[command(version, after_help = "Exit codes: 0 success, 1 a solve did not converge, 2 an error (told on stderr).")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Solve(solve::Arguments),
    Info(info::Arguments),
    Gallery(gallery::Arguments),
    Options(options::Arguments),
    Bench(bench::Arguments),
}

/// How a command that ran to its end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All that was asked for was done.
    Done,
    /// A solve did not reach its tolerance.
    NotConverged,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Solve(arguments) => solve::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Gallery(arguments) => gallery::run(&arguments),
        Command::Options(arguments) => options::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::NotConverged) => ExitCode::from(1),
        Err(Error { status, message }) => {
            eprintln!("terrace: {message} [{}]", status.row().name);
            ExitCode::from(2)
        }
    }
}
